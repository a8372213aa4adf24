"""The recursion of GJK with cut, from bodies to candidate pairs; see ``gjk_cut`` for the method.

Names beyond those of ``gjk_cut_kernels``:
slab      a part of a, by the middles of its boxes along an axis, and what of b meets the box around it; there are
          ``SLABS`` at most, and ``bits`` tell to which ones a triangle belongs.
task      a row: the piece of a, the piece of b, and the kind: ``PAIR``, or ``ALONE`` for a piece against itself.
frame     a row: the pieces that a task was split into (a's two halves, b's two), its kind, and the next child.
counters  a row per thread: candidates, nodes, cuts, leaves.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, merged, prange
from impinge.backend.simd.boxes import WIDTH, overlap_mask
from impinge.detect.gjk_cut.cut_kernels import Scratch, combined_cut, list_all
from impinge.detect.gjk_cut.leaf_kernels import join_leaf
from impinge.detect.gjk_cut.split_kernels import longest_across, longest_axis, make_piece, parts_of, split

PAIR, ALONE = np.int64(0), np.int64(1)
"""Two pieces against each other, or one against itself. (Functions are compiled anew for each Python int they get.)"""
FIRST, SECOND = np.int64(0), np.int64(4)
"""Where the two pieces of a task begin."""
SLABS = WIDTH
"""Parts of a body that threads search side by side, at most."""
TASK = 9
FRAME = 18
DEEPEST = 512
"""Frames of a thread. A split leaves at most three quarters of a list, so that even 2^31 triangles need 75."""


@compiled
def _set_piece(row, place, piece):
    row[place], row[place + 1], row[place + 2], row[place + 3] = piece


@compiled
def _piece(row, place):
    return row[place], row[place + 1], row[place + 2], row[place + 3]


@compiled
def _set_task(task, a, b, kind):
    _set_piece(task, FIRST, a)
    _set_piece(task, SECOND, b)
    task[8] = kind


# Nodes ------------------------------------------------------------------------------------------------


@merged
def _visit(arena, task, is_self, leaf_pairs, scratch, vertex_top, tri_top, frame, counter, candidate):
    """One node: cut, then a leaf (False), or halves at the top of the arena and in ``frame`` (True)."""
    a, b, kind = _piece(task, FIRST), _piece(task, SECOND), task[8]
    listed_a, listed_b = scratch.listed_a, scratch.listed_b
    counter[1] += 1
    if kind == ALONE:
        count_a = count_b = list_all(a, listed_a)
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
        if kind == ALONE:
            listed_b = listed_a
        counter[0] = join_leaf(
            arena, a, listed_a, count_a, b, listed_b, count_b, kind == ALONE, is_self, scratch, counter[0], candidate
        )
        return False
    if kind == PAIR:
        u = longest_across(arena, a, listed_a, count_a, b, listed_b, count_b, u)
    frame[16], frame[17] = kind, 0
    for side in range(2 if kind == PAIR else 1):
        piece, listed, count = (a, listed_a, count_a) if side == 0 else (b, listed_b, count_b)
        half = split(arena, piece, listed, count, u, scratch)
        made = make_piece(arena, piece, scratch.parted, count, vertex_top, tri_top, scratch.number)
        first, second = parts_of(made, half)
        _set_piece(frame, 8 * side, first)
        _set_piece(frame, 8 * side + 4, second)
        vertex_top, tri_top = made[0] + made[1], made[2] + made[3]
    return True


@compiled
def _next_child(frame, task):
    """Write the frame's next child that has triangles on both sides; False if there is none left."""
    alone = frame[16] == ALONE
    while frame[17] < (3 if alone else 4):
        c = frame[17]
        frame[17] += 1
        place_a, place_b, kind = 4 * (c % 2), 8 + 4 * (c // 2), PAIR
        if alone and c < 2:
            place_a, place_b, kind = 4 * c, 4 * c, ALONE
        elif alone:
            place_a, place_b = FIRST, SECOND
        _set_task(task, _piece(frame, place_a), _piece(frame, place_b), kind)
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
        last = _piece(frames[depth], 4 if frames[depth, 16] == ALONE else 12)
        vertex_top, tri_top = last[0] + last[1], last[2] + last[3]


# Slabs ------------------------------------------------------------------------------------------------


@compiled
def _slab_of(box, t, axis, bounds):
    """The slab that the middle of a box is in; ``bounds`` are between the slabs."""
    middle, slab = box[t, axis] + box[t, 3 + axis], 0
    for i in range(len(bounds)):
        slab += middle >= bounds[i]
    return slab


@compiled
def assign_slabs(arena, a, b, axis, bounds, is_self, slab_box, bits):
    """Write which slabs each triangle belongs to, as bits: of a to one, of b to all whose boxes it meets.

    Of one body, b has the triangles of later slabs. ``slab_box`` is a node (``backend.simd``), and scratch.
    """
    for lane in range(WIDTH):
        for i in range(3):
            slab_box[0, i, lane], slab_box[0, 3 + i, lane] = np.inf, -np.inf
    box = arena[3][a[2] :]
    for t in range(a[3]):
        slab = _slab_of(box, t, axis, bounds)
        bits[0, t] = 1 << slab
        for i in range(3):
            slab_box[0, i, slab] = min(slab_box[0, i, slab], box[t, i])
            slab_box[0, 3 + i, slab] = max(slab_box[0, 3 + i, slab], box[t, 3 + i])
    box = arena[3][b[2] :]
    for t in range(b[3]):
        meets = overlap_mask(slab_box, 0, box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5])
        if is_self:
            meets &= np.uint64(bits[0, t]) - np.uint64(1)
        bits[1, t] = meets


@compiled
def _list_slab(bits, count, slab, listed):
    """List the triangles of a slab; returns how many there are."""
    kept = 0
    for t in range(count):
        listed[kept] = t
        kept += (bits[t] >> slab) & 1
    return kept


@compiled
def _take_slab(arena, a, b, slab, bits, scratch, vertex_top, tri_top):
    """Copy a slab of a, and what of b belongs to it, to the top of the arena."""
    count = _list_slab(bits[0], a[3], slab, scratch.listed_a)
    a = make_piece(arena, a, scratch.listed_a, count, vertex_top, tri_top, scratch.number)
    count = _list_slab(bits[1], b[3], slab, scratch.listed_b)
    b = make_piece(arena, b, scratch.listed_b, count, a[0] + a[1], a[2] + a[3], scratch.number)
    return a, b


@compiled
def _search_slab(
    arena, a, b, slab, slabs, bits, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames, counter, candidate
):  # fmt: skip
    """Everything in one slab; a single slab is all there is."""
    if slabs > 1:
        a, b = _take_slab(arena, a, b, slab, bits, scratch, vertex_top, tri_top)
        vertex_top, tri_top = b[0] + b[1], b[2] + b[3]
    for kind in range(ALONE if is_self else PAIR, -1, -1):
        if a[3] == 0 or (kind == PAIR and (b[3] == 0 or (is_self and slabs == 1))):
            continue
        _set_task(scratch.child, a, a if kind == ALONE else b, kind)
        _search_below(
            arena, scratch.child, is_self, leaf_pairs, scratch, vertex_top, tri_top, frames, counter, candidate
        )


@compiled
def scratch_of(room, thread):
    """The part of the scratch memory that belongs to a thread."""
    index, real, extent, node_box, child = room
    return Scratch(
        index[thread, 0], index[thread, 1], index[thread, 2], index[thread, 3], real[thread, 0], real[thread, 1],
        real[thread, 2], extent[thread], node_box[thread], child[thread],
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
                arena, _piece(pieces[0], FIRST), _piece(pieces[1], FIRST), t, slabs, bits, is_self, leaf_pairs,
                scratch, tops[thread, 0], tops[thread, 1], frames[thread * DEEPEST : (thread + 1) * DEEPEST],
                counters[thread], candidate[thread],
            )  # fmt: skip
            t = claim(counter)
