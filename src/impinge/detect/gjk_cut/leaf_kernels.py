"""Leaves of GJK with cut: pairs of triangles whose boxes meet, eight boxes at once; see ``gjk_cut_kernels`` for names.

The boxes of one list are laid out in nodes of eight (``backend.simd``), and the boxes around these nodes in nodes
again. Lists keep the order of the body, whose neighbours in memory are mostly neighbours in space: a triangle
of the other list looks at few nodes.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.backend.simd.boxes import WIDTH, lowest_bit, node_box, overlap_mask

ONE = np.uint64(1)
OF_A, OF_B = np.int64(0), np.int64(3)
"""Where the largest boxes of a and of b begin."""


@compiled
def _close_node(boxes, count, first):
    """Empty the lanes behind entry ``count`` of the node that it would be in, so that they meet nothing."""
    if count % WIDTH != 0:
        for lane in range(count % WIDTH, WIDTH):
            for i in range(3):
                boxes[first + count // WIDTH, i, lane] = np.inf
                boxes[first + count // WIDTH, 3 + i, lane] = -np.inf


@compiled
def _grow(extent, side, box):
    for i in range(3):
        extent[side + i] = max(extent[side + i], box[3 + i] - box[i])


@compiled
def _fit_nodes(box, listed, count, extent, boxes):
    """Boxes of the listed triangles, eight to a node, and behind these the boxes of nodes, eight to a node."""
    for k in range(count):
        t = listed[k]
        _grow(extent, OF_B, box[t])
        for i in range(6):
            boxes[k // WIDTH, i, k % WIDTH] = box[t, i]
    _close_node(boxes, count, np.int64(0))
    nodes = (count + WIDTH - 1) // WIDTH
    for n in range(nodes):
        around = node_box(boxes, n)
        for i in range(6):
            boxes[nodes + n // WIDTH, i, n % WIDTH] = around[i]
    _close_node(boxes, nodes, nodes)
    return nodes


@compiled
def join_leaf(arena, a, listed_a, count_a, b, listed_b, count_b, is_alone, is_self, scratch, found, candidate):
    """Append the pairs of listed triangles of two pieces whose boxes meet; those that find no room are counted too.

    If ``is_alone``, both lists are the same, and each pair is meant once.
    """
    boxes, tri = scratch.node_box, arena[2]
    nodes = _fit_nodes(arena[3][b[2] :], listed_b, count_b, scratch.extent, boxes)
    for k in range(count_a):
        t = a[2] + listed_a[k]
        box = arena[3][t]
        lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = box[0], box[1], box[2], box[3], box[4], box[5]
        first = (k + 1) // WIDTH if is_alone else 0
        before = found
        for upper in range(first // WIDTH, (nodes + WIDTH - 1) // WIDTH):
            above = overlap_mask(boxes, nodes + upper, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)
            while above != 0:
                node = upper * WIDTH + lowest_bit(above)
                above &= above - ONE
                if node < first:
                    continue
                mask = overlap_mask(boxes, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)
                later = k + 1 - node * WIDTH
                if is_alone and later > 0:  # lanes before this one are not later triangles
                    mask &= ~((ONE << np.uint64(later)) - ONE)
                while mask != 0:
                    id_a, id_b = tri[t], tri[b[2] + listed_b[node * WIDTH + lowest_bit(mask)]]
                    mask &= mask - ONE
                    if found < candidate.shape[1]:
                        candidate[0, found] = min(id_a, id_b) if is_self else id_a
                        candidate[1, found] = max(id_a, id_b) if is_self else id_b
                    found += 1
        if found > before:
            _grow(scratch.extent, OF_A, box)
    return found
