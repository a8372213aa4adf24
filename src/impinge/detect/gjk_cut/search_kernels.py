"""The recursion of GJK with cut, from bodies to candidate pairs; ``detector`` has the method.

Names beyond those of ``cut_kernels``:
slab      a part of a, by the middles of its boxes along an axis, and the triangles of b that overlap the box around it;
          at most ``SLABS``. ``bits`` hold the slabs of each triangle.
task      a row: the piece of a, the piece of b, and the kind: ``PAIR``, or ``ALONE`` for a piece against itself.
frame     a row: the pieces that a task was split into (a's two halves, b's two), its kind, and the next child.
counters  a row per thread: candidates, nodes, cuts, leaves.

A leaf lays out the boxes of one list in nodes of eight (``backend.simd``), and the boxes of these nodes in nodes again.
Lists keep the order of the body, whose neighbours in memory are mostly neighbours in space: a triangle of the other
list overlaps few nodes.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, merged, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, node_box, overlap_mask
from impinge.detect.gjk_cut.cut_kernels import Scratch, combined_cut, list_all
from impinge.detect.gjk_cut.split_kernels import longest_across, longest_axis, make_piece, split

PAIR, ALONE = np.int64(0), np.int64(1)
"""Two pieces against each other, or one against itself. (A Python int would be compiled for as a type of its own.)"""
SLABS = WIDTH
"""Most parts of a body that threads search in parallel."""
TASK = 9
FRAME = 18
DEEPEST = 512
"""Frames of a thread. A split leaves at most three quarters of a list: 2^31 triangles need 75."""
ONE = np.uint64(1)


@compiled
def piece_at(row, place):
    """The piece that is stored in a row from ``place`` on."""
    return row[place], row[place + 1], row[place + 2], row[place + 3]


# Leaves -----------------------------------------------------------------------------------------------


@compiled
def _close_node(boxes, count, first):
    """Make the lanes behind entry ``count`` of its node empty boxes, which overlap nothing."""
    if count % WIDTH != 0:
        for lane in range(count % WIDTH, WIDTH):
            for i in range(3):
                boxes[first + count // WIDTH, i, lane] = np.inf
                boxes[first + count // WIDTH, 3 + i, lane] = -np.inf


@compiled
def _join_leaf(arena, a, listed_a, count_a, b, listed_b, count_b, is_alone, is_self, scratch, found, candidate):
    """Append the pairs of listed triangles whose boxes overlap; those beyond the room for candidates are counted too.

    If ``is_alone``, both lists are the same, and each pair is written once.
    """
    boxes, extent, tri, box = scratch.node_box, scratch.extent, arena[2], arena[3]
    for k in range(count_b):
        t = b[2] + listed_b[k]
        for i in range(6):
            boxes[k // WIDTH, i, k % WIDTH] = box[t, i]
        for i in range(3):
            extent[3 + i] = max(extent[3 + i], box[t, 3 + i] - box[t, i])
    _close_node(boxes, count_b, np.int64(0))
    nodes = (count_b + WIDTH - 1) // WIDTH
    for n in range(nodes):
        around = node_box(boxes, n)
        for i in range(6):
            boxes[nodes + n // WIDTH, i, n % WIDTH] = around[i]
    _close_node(boxes, nodes, nodes)
    for k in range(count_a):
        t = a[2] + listed_a[k]
        lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5]
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
                if is_alone and later > 0:  # each pair once: only triangles after k
                    mask &= ~((ONE << np.uint64(later)) - ONE)
                while mask != 0:
                    id_a, id_b = tri[t], tri[b[2] + listed_b[node * WIDTH + lowest_bit(mask)]]
                    mask &= mask - ONE
                    if found < candidate.shape[1]:
                        candidate[0, found] = min(id_a, id_b) if is_self else id_a
                        candidate[1, found] = max(id_a, id_b) if is_self else id_b
                    found += 1
        if found > before:
            for i in range(3):
                extent[i] = max(extent[i], box[t, 3 + i] - box[t, i])
    return found


# Nodes ------------------------------------------------------------------------------------------------


@merged
def _visit(arena, task, is_self, leaf_pairs, scratch, vertex_top, tri_top, frame, counter, candidate):
    """One node: cut, then a leaf (False), or halves at the top of the arena and in ``frame`` (True)."""
    a, b, kind = piece_at(task, 0), piece_at(task, 4), task[8]
    listed_a, listed_b = scratch.listed_a, scratch.listed_b
    counter[1] += 1
    if kind == ALONE:
        count_a = count_b = list_all(a, listed_a)
        listed_b = listed_a
        pairs = count_a * (count_a - 1) // 2
        u = longest_axis(arena, a)
    else:
        count_a, count_b, u, cuts = combined_cut(arena, a, b, scratch)
        counter[2] += cuts
        pairs = count_a * count_b
        if pairs == 0:
            return False
    if pairs <= leaf_pairs:
        counter[3] += 1
        counter[0] = _join_leaf(
            arena, a, listed_a, count_a, b, listed_b, count_b, kind == ALONE, is_self, scratch, counter[0], candidate
        )
        return False
    if kind == PAIR:
        u = longest_across(arena, a, listed_a, count_a, b, listed_b, count_b, u)
    frame[16], frame[17] = kind, 0
    for side in range(2 if kind == PAIR else 1):
        piece, listed, count = (a, listed_a, count_a) if side == 0 else (b, listed_b, count_b)
        half = split(arena, piece, listed, count, u, scratch)
        first, used, begin, _ = make_piece(arena, piece, scratch.parted, count, vertex_top, tri_top, scratch.number)
        # Both halves share the vertices of the copy.
        frame[8 * side : 8 * side + 8] = first, used, begin, half, first, used, begin + half, count - half
        vertex_top, tri_top = first + used, begin + count
    return True


@compiled
def _next_child(frame, task):
    """Write the frame's next child with triangles on both sides; False if none is left."""
    alone = frame[16] == ALONE
    while frame[17] < (3 if alone else 4):
        c = frame[17]
        frame[17] += 1
        place_a, place_b, task[8] = 4 * (c % 2), 8 + 4 * (c // 2), PAIR
        if alone and c < 2:
            place_a, place_b, task[8] = 4 * c, 4 * c, ALONE
        elif alone:
            place_a, place_b = 0, 4
        task[:4], task[4:8] = frame[place_a : place_a + 4], frame[place_b : place_b + 4]
        if task[3] > 0 and task[7] > 0:
            return True
    return False


@merged
def _search_below(arena, task, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames, counter, candidate):
    """A task and everything below it, depth first; the task is scratch."""
    depth = -1
    while True:
        if _visit(
            arena, task, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames[depth + 1], counter, candidate
        ):
            depth += 1
        elif depth < 0:
            return
        while not _next_child(frames[depth], task):
            depth -= 1
            if depth < 0:
                return
        last = piece_at(frames[depth], 4 if frames[depth, 16] == ALONE else 12)
        vertex_top, tri_top = last[0] + last[1], last[2] + last[3]


# Slabs ------------------------------------------------------------------------------------------------


@compiled
def assign_slabs(arena, a, b, axis, bounds, is_self, slab_box, bits):
    """Write the slabs of each triangle as bits: of a one, of b all whose boxes it overlaps.

    ``bounds`` are the limits between slabs. Of one body, b has the triangles of later slabs. ``slab_box`` is a node
    (``backend.simd``), and scratch.
    """
    slab_box[0, :3], slab_box[0, 3:] = np.inf, -np.inf
    box = arena[3][a[2] :]
    for t in range(a[3]):
        middle, slab = box[t, axis] + box[t, 3 + axis], 0
        for i in range(len(bounds)):
            slab += middle >= bounds[i]
        bits[0, t] = 1 << slab
        for i in range(3):
            slab_box[0, i, slab] = min(slab_box[0, i, slab], box[t, i])
            slab_box[0, 3 + i, slab] = max(slab_box[0, 3 + i, slab], box[t, 3 + i])
    box = arena[3][b[2] :]
    for t in range(b[3]):
        overlaps = overlap_mask(slab_box, 0, box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5])
        if is_self:
            overlaps &= np.uint64(bits[0, t]) - ONE
        bits[1, t] = overlaps


@compiled
def _take_slab(arena, piece, slab, bits, listed, vertex_top, tri_top, number):
    """Copy the triangles of a slab to the top of the arena, as a piece."""
    kept = 0
    for t in range(piece[3]):
        listed[kept] = t
        kept += (bits[t] >> slab) & 1
    return make_piece(arena, piece, listed, kept, vertex_top, tri_top, number)


@compiled
def _search_slab(
    arena, a, b, slab, slabs, bits, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames, counter, candidate
):  # fmt: skip
    """Everything in one slab; a single slab holds both pieces whole."""
    if slabs > 1:
        a = _take_slab(arena, a, slab, bits[0], scratch.listed_a, vertex_top, tri_top, scratch.number)
        b = _take_slab(arena, b, slab, bits[1], scratch.listed_b, a[0] + a[1], a[2] + a[3], scratch.number)
        vertex_top, tri_top = b[0] + b[1], b[2] + b[3]
    task = np.empty(TASK, np.int64)
    for kind in range(ALONE if is_self else PAIR, -1, -1):
        if a[3] == 0 or (kind == PAIR and (b[3] == 0 or (is_self and slabs == 1))):
            continue
        task[:4], task[4:8], task[8] = a, a if kind == ALONE else b, kind
        _search_below(arena, task, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames, counter, candidate)


@compiled
def scratch_of(room, thread):
    """The part of the scratch memory that belongs to a thread."""
    index, real, extent, boxes = room
    return Scratch(
        index[thread, 0], index[thread, 1], index[thread, 2], index[thread, 3], real[thread, 0], real[thread, 1],
        real[thread, 2], extent[thread], boxes[thread],
    )  # fmt: skip


@kernel(parallel_from=2)
def search_slabs(
    arena, pieces, slabs, bits, is_self, leaf_pairs, room, threads, counter, tops, frames, counters, candidate
):  # fmt: skip
    """Search all slabs; a thread has its own part of the arena, its own frames and its own candidates."""
    for thread in prange(threads):
        scratch = scratch_of(room, np.int64(thread))
        t = claim(counter)
        while t < slabs:
            _search_slab(
                arena, piece_at(pieces[0], 0), piece_at(pieces[1], 0), t, slabs, bits, is_self, leaf_pairs,
                scratch, tops[thread, 0], tops[thread, 1], frames[thread * DEEPEST : (thread + 1) * DEEPEST],
                counters[thread], candidate[thread],
            )  # fmt: skip
            t = claim(counter)
