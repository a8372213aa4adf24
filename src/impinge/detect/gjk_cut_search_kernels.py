"""The recursion of GJK with cut, from bodies to candidate pairs; see ``gjk_cut`` for the method.

Names beyond those of ``gjk_cut_kernels``:
task      a row: the piece of a, the piece of b, the kind (``PAIR``, or ``ALONE`` for a piece against itself), and the
          number of the node (its children have 4 n + 1 .. 4 n + 4, so that a node has the same number in every frame).
frame     a row: the pieces that a task was split into (a's two halves, b's two), its kind and number, the next child
          to look at, and where the arena's top was before.
counters  a row per thread: candidates, nodes, cuts, leaves.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd import WIDTH, lowest_bit, overlap_mask
from impinge.detect.gjk_cut_kernels import MARGIN, NO_HINT, combined_cut, cut_list, find_support, list_all, project
from impinge.detect.gjk_cut_split_kernels import longest_across, make_piece, parts_of, split, split_alone

PAIR, ALONE = 0, 1
"""Two pieces against each other, or one against itself."""
NO_MORE = 4
"""Next child of a frame that has none left."""
TASK = 10
FRAME = 21
DEEPEST = 512
"""Frames of a thread. A split leaves at most three quarters of a list, so that even 2^31 triangles need 75."""
SIDE_BY_SIDE = 8192
"""Triangles of both bodies from which it pays to give each a thread."""
ONE = np.uint64(1)


# Leaves -----------------------------------------------------------------------------------------------


@compiled
def _box_of(arena, piece, t, extent, side):
    """Box of a triangle as float32: rounding keeps the order of numbers, so that boxes that meet still do."""
    x, y, z, corner, _ = arena
    t = piece[2] + t
    i, j, k = piece[0] + corner[t, 0], piece[0] + corner[t, 1], piece[0] + corner[t, 2]
    lo_x, hi_x = min(x[i], x[j], x[k]), max(x[i], x[j], x[k])
    lo_y, hi_y = min(y[i], y[j], y[k]), max(y[i], y[j], y[k])
    lo_z, hi_z = min(z[i], z[j], z[k]), max(z[i], z[j], z[k])
    extent[side] = max(extent[side], hi_x - lo_x)
    extent[side + 1] = max(extent[side + 1], hi_y - lo_y)
    extent[side + 2] = max(extent[side + 2], hi_z - lo_z)
    return (
        np.float32(lo_x), np.float32(lo_y), np.float32(lo_z), np.float32(hi_x), np.float32(hi_y), np.float32(hi_z)
    )  # fmt: skip


@compiled
def _fit_nodes(arena, piece, listed, count, extent, side, node_box):
    """Boxes of the listed triangles, eight to a node; returns the box around all."""
    nodes = (count + WIDTH - 1) // WIDTH
    low_x = low_y = low_z = np.float32(np.inf)
    high_x = high_y = high_z = np.float32(-np.inf)
    for k in range(count):
        box = _box_of(arena, piece, listed[k], extent, side)
        node, lane = k // WIDTH, k % WIDTH
        for i in range(6):
            node_box[node, i, lane] = box[i]
        low_x, low_y, low_z = min(low_x, box[0]), min(low_y, box[1]), min(low_z, box[2])
        high_x, high_y, high_z = max(high_x, box[3]), max(high_y, box[4]), max(high_z, box[5])
    for k in range(count, nodes * WIDTH):  # empty lanes meet nothing
        for i in range(3):
            node_box[nodes - 1, i, k % WIDTH] = np.inf
            node_box[nodes - 1, 3 + i, k % WIDTH] = -np.inf
    return low_x, low_y, low_z, high_x, high_y, high_z


@compiled
def _write_mask(mask, first, id_a, piece, tri, listed, is_self, found, candidate):
    """Append a candidate for each bit; those that find no room are counted too."""
    while mask != 0:
        k = first + lowest_bit(mask)
        mask &= mask - ONE
        id_b = tri[piece[2] + listed[k]]
        if found < candidate.shape[1]:
            candidate[0, found] = min(id_a, id_b) if is_self else id_a
            candidate[1, found] = max(id_a, id_b) if is_self else id_b
        found += 1
    return found


@compiled
def join_leaf(arena, a, listed_a, count_a, b, listed_b, count_b, is_self, extent, node_box, found, candidate):
    """Append the pairs of listed triangles of two pieces whose boxes meet."""
    tri = arena[4]
    whole = _fit_nodes(arena, b, listed_b, count_b, extent, 3, node_box)
    nodes = (count_b + WIDTH - 1) // WIDTH
    for k in range(count_a):
        box = _box_of(arena, a, listed_a[k], extent, 0)
        if not (
            box[0] <= whole[3] and box[3] >= whole[0]
            and box[1] <= whole[4] and box[4] >= whole[1]
            and box[2] <= whole[5] and box[5] >= whole[2]
        ):  # fmt: skip
            continue
        id_a = tri[a[2] + listed_a[k]]
        for node in range(nodes):
            mask = overlap_mask(node_box, node, box[0], box[1], box[2], box[3], box[4], box[5])
            if mask != 0:
                found = _write_mask(mask, node * WIDTH, id_a, b, tri, listed_b, is_self, found, candidate)
    return found


@compiled
def join_leaf_alone(arena, a, listed, extent, node_box, found, candidate):
    """Append the pairs of triangles of one piece whose boxes meet, each once."""
    tri = arena[4]
    count = a[3]
    _fit_nodes(arena, a, listed, count, extent, 3, node_box)
    for k in range(count):
        box = _box_of(arena, a, listed[k], extent, 0)
        id_a = tri[a[2] + listed[k]]
        for node in range((k + 1) // WIDTH, (count + WIDTH - 1) // WIDTH):
            mask = overlap_mask(node_box, node, box[0], box[1], box[2], box[3], box[4], box[5])
            later = k + 1 - node * WIDTH  # lanes before this one are not later triangles
            if later > 0:
                mask &= ~((ONE << np.uint64(later)) - ONE)
            if mask != 0:
                found = _write_mask(mask, node * WIDTH, id_a, a, tri, listed, True, found, candidate)
    return found


# Nodes ------------------------------------------------------------------------------------------------


@compiled
def _set_piece(row, place, piece):
    row[place], row[place + 1], row[place + 2], row[place + 3] = piece


@compiled
def _piece(row, place):
    return row[place], row[place + 1], row[place + 2], row[place + 3]


@compiled
def _start_frame(frame, kind, number, vertex_top, tri_top):
    frame[16], frame[17], frame[18], frame[19], frame[20] = kind, number, 0, vertex_top, tri_top


@compiled
def _visit_pair(arena, a, b, node, is_self, choices, hints, scratch, vertex_top, tri_top, frame, counter, candidate):
    """One node of two pieces: cut, then a leaf (False), or halves at the top of the arena and in ``frame`` (True)."""
    listed_a, listed_b, extent, node_box = scratch[0], scratch[1], scratch[9], scratch[10]
    hint = (NO_HINT, 0.0, 0.0)
    if node < len(hints):
        hint = hints[node, 0], hints[node, 1], hints[node, 2]
    count_a, count_b, s, best, cuts = combined_cut(arena, a, b, hint, choices, scratch)
    counter[1] += 1
    counter[2] += cuts
    if node < len(hints):
        hints[node, 0], hints[node, 1], hints[node, 2] = best
    if count_a == 0:
        return False
    if count_a * count_b <= choices[4]:
        counter[3] += 1
        counter[0] = join_leaf(
            arena, a, listed_a, count_a, b, listed_b, count_b, is_self, extent, node_box, counter[0], candidate
        )
        return False
    parted, number = scratch[7], scratch[8]
    u = longest_across(arena, a, listed_a, count_a, b, listed_b, count_b, s)
    half = split(arena, a, listed_a, count_a, u, choices[3], scratch)
    made = make_piece(arena, a, parted, count_a, vertex_top, tri_top, number)
    a1, a2 = parts_of(made, half)
    half = split(arena, b, listed_b, count_b, u, choices[3], scratch)
    made = make_piece(arena, b, parted, count_b, made[0] + made[1], made[2] + made[3], number)
    b1, b2 = parts_of(made, half)
    _start_frame(frame, PAIR, node, vertex_top, tri_top)
    _set_piece(frame, 0, a1)
    _set_piece(frame, 4, a2)
    _set_piece(frame, 8, b1)
    _set_piece(frame, 12, b2)
    return True


@compiled
def _visit_alone(arena, a, node, choices, scratch, vertex_top, tri_top, frame, counter, candidate):
    """One node of a piece against itself: a leaf, or its halves."""
    listed, parted, number, extent, node_box = scratch[0], scratch[7], scratch[8], scratch[9], scratch[10]
    counter[1] += 1
    list_all(a, listed)
    if a[3] * (a[3] - 1) // 2 <= choices[4]:
        counter[3] += 1
        counter[0] = join_leaf_alone(arena, a, listed, extent, node_box, counter[0], candidate)
        return False
    half = split_alone(arena, a, listed, choices[3], scratch)
    a1, a2 = parts_of(make_piece(arena, a, parted, a[3], vertex_top, tri_top, number), half)
    _start_frame(frame, ALONE, node, vertex_top, tri_top)
    _set_piece(frame, 0, a1)
    _set_piece(frame, 4, a2)
    return True


@compiled
def _visit(arena, task, is_self, choices, hints, scratch, vertex_top, tri_top, frame, counter, candidate):
    a, b = _piece(task, 0), _piece(task, 4)
    if task[8] == ALONE:
        return _visit_alone(arena, a, task[9], choices, scratch, vertex_top, tri_top, frame, counter, candidate)
    return _visit_pair(
        arena, a, b, task[9], is_self, choices, hints, scratch, vertex_top, tri_top, frame, counter, candidate
    )


@compiled
def next_child(frame, task):
    """Write the frame's next child that has triangles on both sides; False if there is none left."""
    alone = frame[16] == ALONE
    while frame[18] < (3 if alone else 4):
        c = frame[18]
        frame[18] += 1
        task[9] = 4 * frame[17] + 1 + c if frame[17] < 1 << 40 else frame[17]
        if alone and c < 2:
            task[8] = ALONE
            _set_piece(task, 0, _piece(frame, 4 * c))
            _set_piece(task, 4, _piece(frame, 4 * c))
        else:
            task[8] = PAIR
            _set_piece(task, 0, _piece(frame, 0 if alone else 4 * (c % 2)))
            _set_piece(task, 4, _piece(frame, 4 if alone else 8 + 4 * (c // 2)))
        if task[3] > 0 and task[7] > 0:
            return True
    return False


@compiled
def _tops(frame):
    """Where the arena's top is above the pieces of a frame."""
    last = _piece(frame, 4 if frame[16] == ALONE else 12)
    return last[0] + last[1], last[2] + last[3]


@compiled
def _visit_below(
    arena, task, is_deep, is_self, choices, hints, scratch, vertex_top, tri_top, frames, counter, candidate
):  # fmt: skip
    """A task and, if ``is_deep``, everything below it, depth first; else its frame is left for its children."""
    child = task
    depth = -1
    while True:
        if _visit(
            arena, child, is_self, choices, hints, scratch, vertex_top, tri_top, frames[depth + 1], counter, candidate
        ):
            depth += 1
            if not is_deep:
                return
        elif depth < 0:
            frames[0, 18] = NO_MORE
            return
        child = scratch[11]
        while not next_child(frames[depth], child):
            depth -= 1
            if depth < 0:
                return
        vertex_top, tri_top = _tops(frames[depth])


# Threads ----------------------------------------------------------------------------------------------


@compiled
def _scratch_of(room, thread):
    """The part of the scratch memory that belongs to a thread."""
    listed_a, listed_b, projection, reach, simplex, weight, key, parted, number, extent, node_box, child = room
    return (
        listed_a[thread], listed_b[thread], projection[thread], reach[thread], simplex[thread], weight[thread],
        key[thread], parted[thread], number[thread], extent[thread], node_box[thread], child[thread],
    )  # fmt: skip


@kernel(parallel_from=2)
def run_tasks(
    arena, tasks, tops, is_deep, is_self, choices, hints, room, threads, counter, frames, counters, candidate
):  # fmt: skip
    """Everything below each task (``is_deep``), or one node of each, whose halves go to its own frame.

    In depth, a thread has its own part of the arena and its own frames; else a task has. Candidates belong to threads.
    """
    for thread in prange(threads):
        scratch = _scratch_of(room, thread)
        i = claim(counter)
        while i < len(tasks):
            owner = np.int64(thread) if is_deep else i
            first = DEEPEST * owner if is_deep else i
            _visit_below(
                arena, tasks[i], is_deep, is_self, choices, hints, scratch, tops[owner, 0], tops[owner, 1],
                frames[first : first + DEEPEST], counters[thread], candidate[thread],
            )  # fmt: skip
            i = claim(counter)


@compiled
def tasks_of(frames, tasks):
    """Write the children of all frames; returns how many there are."""
    count = 0
    for i in range(len(frames)):
        while next_child(frames[i], tasks[count]):
            count += 1
    return count


# The first cut ----------------------------------------------------------------------------------------


@compiled
def _support_of(side, arena, piece, s, room, count, top):
    scratch = _scratch_of(room, side)
    count[side] = list_all(piece, scratch[0])
    project(arena, piece, s, scratch[2])
    top[side] = find_support(arena, piece, scratch[0], count[side], scratch[2], scratch[3][0])[0]


@kernel(parallel_from=SIDE_BY_SIDE)
def find_supports(arena, pieces, s, room, count, top):
    """How far whole bodies reach: a along ``s``, b along -s, each on a thread of its own."""
    for side in prange(2):
        sign = 1.0 - 2.0 * side
        _support_of(side, arena, _piece(pieces[side], 0), (sign * s[0], sign * s[1], sign * s[2]), room, count, top)


@kernel(parallel_from=SIDE_BY_SIDE)
def cut_bodies(room, top, count):
    """Keep the triangles of either body that reach the other's support."""
    for side in prange(2):
        count[side] = cut_list(room[0][side], count[side], room[3][side, 0], -top[1 - side] - MARGIN)


@compiled
def _split_of(side, arena, piece, count, u, how, room, tops, frame):
    scratch = _scratch_of(room, side)
    half = split(arena, piece, scratch[0], count[side], u, how, scratch)
    made = make_piece(arena, piece, scratch[7], count[side], tops[side, 0], tops[side, 1], scratch[8])
    first, second = parts_of(made, half)
    _set_piece(frame, 8 * side, first)
    _set_piece(frame, 8 * side + 4, second)


@kernel(parallel_from=SIDE_BY_SIDE)
def split_bodies(arena, pieces, count, u, how, room, tops, frame):
    """Halve what remains of either body along ``u``; the halves become a frame, whose children are the tasks."""
    for side in prange(2):
        _split_of(side, arena, _piece(pieces[side], 0), count, u, how, room, tops, frame)


@compiled
def direction_across(arena, pieces, count, s, room):
    """Where to split after the first cut along ``s``."""
    a, b = _piece(pieces[0], 0), _piece(pieces[1], 0)
    return longest_across(arena, a, room[0][0], count[0], b, room[0][1], count[1], s)
