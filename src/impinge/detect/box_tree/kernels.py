"""Join two trees of boxes, or one with itself, down to pairs of triangles; see ``box_tree`` for the method.

Names that recur:
slots    (x, order_face, order_tri) of a tree: positions, and the triangles in the order of the tree.
upper    (box, level_start) of a tree: boxes of blocks and of everything above.
moves    (origin_a, origin_b, turn_a, turn_b, place_a, place_b): what the boxes inside of blocks are counted from;
         how a body's boxes appear to the other body, None or 3 x 6 (matrix, translation above blocks, translation
         inside of them, a pad for all rounding); and the 3 x 4 matrix that moves a body's vertices, or None.
scratch  (key, inside, stamp, candidate, bound), of which each thread has its own part. ``ENTRIES`` insides of blocks of
         each side: block b goes to place b mod ENTRIES, and what was there is forgotten; a key is valid if it has
         the stamp. And ``ROOM`` candidates, pairs of slots whose boxes overlap, each with the error bound for its test.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, overlap_mask, overlap_square
from impinge.detect.boxes.tree_kernels import BLOCK, INTERIOR, fit_block, fit_interior, fit_upper_levels
from impinge.detect.boxes.vertex_fans_kernels import masks_of
from impinge.detect.common.narrow_phase_kernels import face
from impinge.detect.common.pair_query_kernels import key_kind, pair_key
from impinge.exact.kinds import NONE
from impinge.exact.neighbours import neighbours_filtered, shared_count
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import error_bound, own_bound, triangle_triangle_filtered

ENTRIES = 16
"""Insides that a thread keeps of each side: together they fit into the second-level cache of a core."""
ENOUGH = 256
"""Candidates that are collected before they are tested: one loop after the other predicts its branches better."""
ROOM = ENOUGH + BLOCK * BLOCK

ONE = np.uint64(1)
FROM_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i, WIDTH)))
"""Of a node with itself: pairs (i, j) of children with i <= j."""
ABOVE_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i + 1, WIDTH)))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LEAST_SPAN = 2.0**-140
"""More than what float32 may lose below its smallest normal number."""
SLACK = 2.0**-22
"""More than what float32 may take away from the size of a box, relative to its distance from the origin."""


# Boxes ------------------------------------------------------------------------------------------------


@inlined
def _turned(box, node, lane, turn, shift):
    """The box in a lane of a node as the other body sees it: lowest and highest x, y, z."""
    lo_x, lo_y, lo_z = box[node, 0, lane], box[node, 1, lane], box[node, 2, lane]
    hi_x, hi_y, hi_z = box[node, 3, lane], box[node, 4, lane], box[node, 5, lane]
    cx, cy, cz = 0.5 * (lo_x + hi_x), 0.5 * (lo_y + hi_y), 0.5 * (lo_z + hi_z)
    ex, ey, ez = 0.5 * (hi_x - lo_x), 0.5 * (hi_y - lo_y), 0.5 * (hi_z - lo_z)
    x, sx = _along(turn, 0, shift, cx, cy, cz, ex, ey, ez)
    y, sy = _along(turn, 1, shift, cx, cy, cz, ex, ey, ez)
    z, sz = _along(turn, 2, shift, cx, cy, cz, ex, ey, ez)
    return x - sx, y - sy, z - sz, x + sx, y + sy, z + sz


@inlined
def _along(turn, axis, shift, cx, cy, cz, ex, ey, ez):
    """Centre and half the width, on one axis of the other body, of a box given by its centre and half its sides."""
    m0, m1, m2 = turn[axis, 0], turn[axis, 1], turn[axis, 2]
    half = abs(m0) * ex + abs(m1) * ey + abs(m2) * ez + turn[axis, 5]
    return m0 * cx + m1 * cy + m2 * cz + turn[axis, shift], half


@inlined
def _square(box_a, node_a, box_b, node_b, turn, shift):
    """Which children of two nodes meet: bit 8 i + j for child i of a and child j of b."""
    if turn is None:
        return overlap_square(box_a, node_a, box_b, node_b)
    mask = np.uint64(0)
    for i in range(WIDTH):
        lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = _turned(box_a, node_a, i, turn, shift)
        mask |= overlap_mask(box_b, node_b, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z) << np.uint64(WIDTH * i)
    return mask


@inlined
def _back_too(box_a, node_a, i, box_b, node_b, j, turn):
    """The second half of SAT lite: the box of b, as a sees it, against the box of a."""
    if turn is None:
        return True
    lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = _turned(box_b, node_b, j, turn, 3)
    box = box_a[node_a]
    return (
        box[0, i] <= hi_x and box[3, i] >= lo_x
        and box[1, i] <= hi_y and box[4, i] >= lo_y
        and box[2, i] <= hi_z and box[5, i] >= lo_z
    )  # fmt: skip


@inlined
def _inside_of(b, side, thread, slots, origin, scratch):
    """First node of the inside of block ``b``, fitted now unless this thread has it already."""
    key, inside, stamp = scratch[0], scratch[1], scratch[2]
    entry = (2 * thread + side) * ENTRIES + b % ENTRIES
    first = entry * INTERIOR
    if key[entry, 0] != stamp or key[entry, 1] != b:
        key[entry, 0], key[entry, 1] = stamp, b
        fit_interior(b, slots, origin, inside, first)
    return first


# Front ------------------------------------------------------------------------------------------------


@compiled
def find_block_pairs(upper_a, upper_b, turn_a, turn_b, is_self, front):
    """Write the pairs of blocks whose boxes overlap; returns their number, which may exceed the room in ``front``.

    Trees have equally many levels, so that both nodes of a pair are always on one level. Of one tree, each pair of
    blocks is found once, the lower block first.
    """
    box_a, level_start_a = upper_a
    box_b, level_start_b = upper_b
    stack = np.empty((len(level_start_a) * BLOCK, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = len(level_start_a) - 2, 0, 0
    top = 1
    count = np.int64(0)
    while top > 0:
        top -= 1
        level, a, b = stack[top, 0], stack[top, 1], stack[top, 2]
        node_a, node_b = level_start_a[level] + a, level_start_b[level] + b
        mask = _square(box_a, node_a, box_b, node_b, turn_a, 3)
        if is_self and a == b:
            mask &= FROM_DIAGONAL
        while mask != 0:
            bit = lowest_bit(mask)
            mask &= mask - ONE
            i, j = bit // WIDTH, bit % WIDTH
            if not _back_too(box_a, node_a, i, box_b, node_b, j, turn_b):
                continue
            child_a, child_b = WIDTH * a + i, WIDTH * b + j
            if level > 0:
                stack[top, 0], stack[top, 1], stack[top, 2] = level - 1, child_a, child_b
                top += 1
            else:
                if count < len(front):
                    front[count, 0], front[count, 1] = child_a, child_b
                count += 1
    return count


# Candidates -------------------------------------------------------------------------------------------


@inlined
def _pair_bound(box, node_a, i, node_b, j):
    """Error bound for pairs of triangles from two groups: all corners lie in the box around both."""
    dx = _span(box[node_a, 0, i], box[node_a, 3, i], box[node_b, 0, j], box[node_b, 3, j])
    dy = _span(box[node_a, 1, i], box[node_a, 4, i], box[node_b, 1, j], box[node_b, 4, j])
    dz = _span(box[node_a, 2, i], box[node_a, 5, i], box[node_b, 2, j], box[node_b, 5, j])
    return error_bound(dx, dy, dz)


@inlined
def _span(lo_a, hi_a, lo_b, hi_b):
    """Length of the interval around two, which were rounded to float32."""
    low, high = np.float64(min(lo_a, lo_b)), np.float64(max(hi_a, hi_b))
    return high - low + SLACK * max(abs(low), abs(high)) + LEAST_SPAN


@inlined
def _once(same, once, stars):
    """Of a node with itself, the bits that find each pair once."""
    if stars is None:
        return ALL
    return once if same else ALL


@inlined
def _masks_of(block_a, block_b, stars):
    return -1 if stars is None else masks_of(block_a, block_b, stars)


@inlined
def _strangers(row, groups, stars):
    """The bits of pairs that share no vertex."""
    if stars is None:
        return ALL
    return ~stars[5][row, groups] if row >= 0 else ALL


@inlined
def collect(block_a, block_b, first_a, first_b, stars, turn, scratch, found):
    """Append the pairs of slots of two blocks whose boxes overlap; ``found`` is where the next one goes.

    ``stars`` is None for two trees; of one tree, pairs that share a vertex are left out.
    """
    box, candidate, bound = scratch[1], scratch[3], scratch[4]
    groups = _square(box, first_a, box, first_b, turn, 4)
    groups &= _once(block_a == block_b, FROM_DIAGONAL, stars)
    row = _masks_of(block_a, block_b, stars)
    while groups != 0:
        bit = lowest_bit(groups)
        groups &= groups - ONE
        i, j = bit // WIDTH, bit % WIDTH
        pairs = _square(box, first_a + 1 + i, box, first_b + 1 + j, turn, 4)
        pairs &= _once(block_a == block_b and i == j, ABOVE_DIAGONAL, stars) & _strangers(row, bit, stars)
        if pairs == 0:
            continue
        group_bound = _pair_bound(box, first_a, i, first_b, j)
        slot_a, slot_b = BLOCK * block_a + WIDTH * i, BLOCK * block_b + WIDTH * j
        while pairs != 0:
            bit = lowest_bit(pairs)
            pairs &= pairs - ONE
            candidate[found, 0], candidate[found, 1] = slot_a + bit // WIDTH, slot_b + bit % WIDTH
            bound[found] = group_bound
            found += 1
    return found


# Join of two trees ------------------------------------------------------------------------------------


@inlined
def posed(x, v, matrix):
    """Vertex ``v``, moved by ``matrix`` if there is one, by the expression of ``mesh.transform``: the same bits."""
    if matrix is None:
        return point(x, v)
    p, q, r = x[v, 0], x[v, 1], x[v, 2]
    return (
        ((matrix[0, 0] * p + matrix[0, 1] * q) + matrix[0, 2] * r) + matrix[0, 3],
        ((matrix[1, 0] * p + matrix[1, 1] * q) + matrix[1, 2] * r) + matrix[1, 3],
        ((matrix[2, 0] * p + matrix[2, 1] * q) + matrix[2, 2] * r) + matrix[2, 3],
    )


@compiled
def _filter(x_a, s, place_a, x_b, t, place_b, bound):
    p1, q1, r1 = posed(x_a, s[0], place_a), posed(x_a, s[1], place_a), posed(x_a, s[2], place_a)
    p2, q2, r2 = posed(x_b, t[0], place_b), posed(x_b, t[1], place_b), posed(x_b, t[2], place_b)
    if place_a is not None:  # the boxes are not where the vertices are
        bound = own_bound(p1, q1, r1, p2, q2, r2)
    return triangle_triangle_filtered(p1, q1, r1, p2, q2, r2, bound)


@compiled
def test_pairs(first, end, slots_a, slots_b, place_a, place_b, scratch, keys, count):
    """Append the keys of candidates that cross or are uncertain (kind 0); keys that find no room are counted too."""
    x_a, slot_face_a, slot_tri_a = slots_a
    x_b, slot_face_b, slot_tri_b = slots_b
    candidate, bound = scratch[3], scratch[4]
    for k in range(first, end):
        s, t = candidate[k, 0], candidate[k, 1]
        kind = _filter(x_a, face(slot_face_a, s), place_a, x_b, face(slot_face_b, t), place_b, bound[k])
        if kind != NONE and slot_tri_a[s] >= 0 and slot_tri_b[t] >= 0:
            if count < len(keys):
                keys[count] = pair_key(slot_tri_a[s], slot_tri_b[t], max(kind, 0))
            count += 1
    return count


@compiled
def join_pairs(front, slots_a, slots_b, moves, scratch, thread, keys):
    """Keys of all pairs of blocks in ``front``; returns how many there are, and how many pairs were tested."""
    origin_a, origin_b, turn_a, _, place_a, place_b = moves
    count = tests = np.int64(0)
    first = found = thread * ROOM
    for i in range(len(front)):
        block_a, block_b = front[i, 0], front[i, 1]
        first_a = _inside_of(block_a, 0, thread, slots_a, origin_a, scratch)
        first_b = _inside_of(block_b, 1, thread, slots_b, origin_b, scratch)
        found = collect(block_a, block_b, first_a, first_b, None, turn_a, scratch, found)
        if found - first >= ENOUGH or i == len(front) - 1:
            count = test_pairs(first, found, slots_a, slots_b, place_a, place_b, scratch, keys, count)
            tests += found - first
            found = first
    return count, tests


@kernel(parallel_from=16)
def join_block_pairs(front, slots_a, slots_b, moves, scratch, threads, counter, keys, counts):
    """Join the block pairs of the front; task t is a part of it and owns row t of ``keys`` and ``counts``."""
    tasks = len(keys)
    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            part = front[t * len(front) // tasks : (t + 1) * len(front) // tasks]
            counts[t, 0], counts[t, 1] = join_pairs(part, slots_a, slots_b, moves, scratch, thread, keys[t])
            t = claim(counter)


# Join of one tree with itself -------------------------------------------------------------------------


@compiled
def _filter_of_one(x, s, t, skip_neighbours, bound):
    if shared_count(s, t) == 0:
        return _filter(x, s, None, x, t, None, bound)
    return NONE if skip_neighbours else neighbours_filtered(x, s, t, bound)


@compiled
def test_pairs_of_one(first, end, slots, skip_neighbours, scratch, keys, count):
    """As ``test_pairs`` for one tree; neighbours that no mask left out have a filter of their own, or are skipped."""
    x, order_face, order_tri = slots
    candidate, bound = scratch[3], scratch[4]
    for k in range(first, end):
        s, t = candidate[k, 0], candidate[k, 1]
        kind = _filter_of_one(x, face(order_face, s), face(order_face, t), skip_neighbours, bound[k])
        if kind != NONE and order_tri[s] >= 0 and order_tri[t] >= 0:
            if count < len(keys):
                low, high = min(order_tri[s], order_tri[t]), max(order_tri[s], order_tri[t])
                keys[count] = pair_key(low, high, max(kind, 0))
            count += 1
    return count


@compiled
def join_pairs_of_one(front, slots, origin, stars, skip_neighbours, scratch, thread, keys):
    """As ``join_pairs`` for one tree."""
    count = tests = np.int64(0)
    first = found = thread * ROOM
    for i in range(len(front)):
        block_a, block_b = front[i, 0], front[i, 1]
        first_a = _inside_of(block_a, 0, thread, slots, origin, scratch)
        first_b = first_a if block_a == block_b else _inside_of(block_b, 1, thread, slots, origin, scratch)
        found = collect(block_a, block_b, first_a, first_b, stars, None, scratch, found)
        if found - first >= ENOUGH or i == len(front) - 1:
            count = test_pairs_of_one(first, found, slots, skip_neighbours, scratch, keys, count)
            tests += found - first
            found = first
    return count, tests


@kernel(parallel_from=16)
def join_block_pairs_of_one(front, slots, origin, stars, skip_neighbours, scratch, threads, counter, keys, counts):
    """As ``join_block_pairs`` for one tree."""
    tasks = len(keys)
    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            part = front[t * len(front) // tasks : (t + 1) * len(front) // tasks]
            counts[t, 0], counts[t, 1] = join_pairs_of_one(
                part, slots, origin, stars, skip_neighbours, scratch, thread, keys[t]
            )
            t = claim(counter)


# Results ----------------------------------------------------------------------------------------------


@compiled
def gather_keys(keys, counts):
    """Join the keys of all tasks; returns those of pairs that cross, and those of pairs that are uncertain."""
    total = 0
    for t in range(len(keys)):
        total += counts[t, 0]
    joined = np.empty(total, np.uint64)
    k = 0
    for t in range(len(keys)):
        for i in range(counts[t, 0]):
            joined[k] = keys[t, i]
            k += 1
    return part_keys(joined, total)


@compiled
def part_keys(keys, count):
    """Keys with a kind, and keys without."""
    certain = 0
    for i in range(count):
        certain += key_kind(keys[i]) != 0
    hits, uncertain = np.empty(certain, np.uint64), np.empty(count - certain, np.uint64)
    k = m = 0
    for i in range(count):
        if key_kind(keys[i]) != 0:
            hits[k] = keys[i]
            k += 1
        else:
            uncertain[m] = keys[i]
            m += 1
    return hits, uncertain


# Small bodies -----------------------------------------------------------------------------------------


@inlined
def _uncertain(keys, count):
    """How many keys have no kind."""
    found = 0
    for i in range(min(count, len(keys))):
        found += key_kind(keys[i]) == 0
    return found


@compiled
def _fit(block_count, vertices):
    """Fit all boxes of a tree; returns the relative area of its blocks."""
    for b in range(block_count):
        fit_block(b, vertices)
    return fit_upper_levels(vertices[3], vertices[4])


@compiled
def search_serially(fit_a, vertices_a, slots_a, fit_b, vertices_b, slots_b, moves, scratch, front, keys):
    """All steps of a query in one call, for bodies so small that launches would cost more than the work.

    ``fit_a`` blocks are fitted first, none if it is 0. Returns block pairs, keys, uncertain keys, tests done and the
    relative areas of both trees; numbers beyond the room in ``front`` or ``keys`` mean that the search has to be
    repeated with more.
    """
    area_a = _fit(fit_a, vertices_a) if fit_a else -1.0
    area_b = _fit(fit_b, vertices_b) if fit_b else -1.0
    pair_count = find_block_pairs(vertices_a[3:], vertices_b[3:], moves[2], moves[3], False, front)
    count, tests = join_pairs(front[:pair_count], slots_a, slots_b, moves, scratch, 0, keys)
    return pair_count, count, _uncertain(keys, count), tests, area_a, area_b


@compiled
def search_one_serially(fit, vertices, slots, origin, stars, skip_neighbours, scratch, front, keys):
    """As ``search_serially`` for one tree with itself."""
    area = _fit(fit, vertices) if fit else -1.0
    pair_count = find_block_pairs(vertices[3:], vertices[3:], None, None, True, front)
    count, tests = join_pairs_of_one(front[:pair_count], slots, origin, stars, skip_neighbours, scratch, 0, keys)
    return pair_count, count, _uncertain(keys, count), tests, area
