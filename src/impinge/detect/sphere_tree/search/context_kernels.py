"""The search context of kernels: one int64 array with addresses, sizes, limits and the state of a search.

Unboxing an array argument takes 0.3 µs, several times that with cold caches; hence one array that refers to all others.
A sphere is addressed by its slot, 8 block + lane.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.backend.raw_arrays_kernels import int32_at, int64_at
from impinge.detect.sphere_tree.search.limits_kernels import FULL_PACE, PACE, RESERVE_SIZE
from impinge.detect.sphere_tree.search.tree_kernels import DESCRIPTOR_SIZE, int64s_at
from impinge.detect.sphere_tree.track.tracking_kernels import NODE

(
    QUEUE_AT, KEY_AT, FOUND_AT, LISTED_AT, WAITING_AT, TREE_AT, TREE_B_AT, DOWN_AT, DOWN_B_AT,
    RANGE_AT, START_AT, VERTEX_AT,
) = range(0, 24, 2)  # fmt: skip
"""Places in the context: the address of an array, and behind it its length. The queue; its keys where it is a heap;
pairs of slots that were found, and the same as pairs of nodes; pairs of nodes that wait; the descriptors of both trees;
the number of blocks of children by slot of both trees (0: a leaf, or at the finest level); and what the search of one
body against itself reads (``self_search``), empty for two bodies."""
ENTRY_NS, PAIR_NS, LIMIT, MOST_BLOCKS, SORTS, BY_DEPTH, RESERVE = range(24, 31)
"""Further places: nanoseconds to list a waiting entry and a found pair; entries from which the newest is followed
first; most blocks of children of a sphere; whether found pairs are sorted; whether the deepest pair is followed first;
and the learnt durations of queries (``limits_kernels``)."""
STATE = RESERVE + RESERVE_SIZE
HEAD, TAIL, TESTS, FOUND, PARTIAL, DONE, TRACKED, PEAK, BACKWARDS, WAITING, LOWEST, STOPPED, LISTING = range(13)
"""Places in the state, behind all others: the ends of the queue; tests; found pairs; the entry that ``max_tests`` cut
in the middle or -1, and how many of its spheres were tested; tracked blocks; the longest queue; entries taken from its
end; waiting pairs, and their lowest level; the time when the search stopped or should have; and the estimated time to
list its result."""
CONTEXT_SIZE = STATE + 13

FINISHED, OUT_OF_TIME, OUT_OF_TESTS, QUEUE_FULL, FOUND_FULL, PAUSED = range(6)
"""Why a traversal stopped; reasons above ``OUT_OF_TESTS`` are resumed."""
LOW = np.int64(0xFFFFFFFF)


@compiled
def tree_of(context, side):
    """The descriptor of a's tree (0) or b's (1)."""
    return int64_at(context[TREE_AT + 2 * side], DESCRIPTOR_SIZE)


@compiled
def waiting_of(context):
    """Room for waiting pairs of nodes."""
    return int32_at(context[WAITING_AT], (context[WAITING_AT + 1], 2))


@compiled
def one_body_of(context):
    """Piece ranges by slot, and vertices by leaf; empty for two bodies."""
    return (
        int64_at(context[RANGE_AT], (context[RANGE_AT + 1], 2)),
        int64s_at(context, START_AT),
        int32_at(context[VERTEX_AT], context[VERTEX_AT + 1]),
    )


@compiled
def node_at(table, slot):
    """The node of a slot."""
    return table[slot >> 3, NODE] + (slot & 7)


@compiled
def listing_ns(context, entries, pairs):
    """Estimated time to list waiting entries and found pairs."""
    return ((context[ENTRY_NS] * entries + context[PAIR_NS] * pairs) * context[RESERVE + PACE]) // FULL_PACE


@compiled
def is_mirrored(one_body, slot_a, slot_b):
    """Whether a pair of one body is also visited as (b, a): everything below a comes after everything below b."""
    piece_range = one_body[0]
    return len(piece_range) > 0 and piece_range[slot_a, 0] >= piece_range[slot_b, 1]


@compiled
def share_vertex(vertex_start, vertex, i, j):
    """Whether triangles below nodes i and j share a vertex; the vertices of a node are sorted."""
    p, q = vertex_start[i], vertex_start[j]
    while p < vertex_start[i + 1] and q < vertex_start[j + 1]:
        if vertex[p] == vertex[q]:
            return True
        if vertex[p] < vertex[q]:
            p += 1
        else:
            q += 1
    return False


@compiled
def are_neighbours(one_body, table, slot_a, slot_b):
    """Whether two leaves of one body share a vertex and are left out for that."""
    _, vertex_start, vertex = one_body
    return len(vertex_start) > 0 and share_vertex(vertex_start, vertex, node_at(table, slot_a), node_at(table, slot_b))


@compiled
def find_sharing(pairs, vertex_start, vertex, shares):
    """Mark the pairs of nodes whose triangles share a vertex."""
    for k in range(len(pairs)):
        shares[k] = share_vertex(vertex_start, vertex, pairs[k, 0], pairs[k, 1])
