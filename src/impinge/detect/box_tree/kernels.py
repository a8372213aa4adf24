"""Join two AABB trees, or one with itself, down to pairs of triangles; see ``detector`` for the method.

Names that recur:
order    (x, order_face, order_tri) of a tree: positions, and the triangles in tree order.
upper    (box, level_start) of a tree: boxes of blocks and of all levels above.
moves    (origin_a, origin_b, rotation_a, rotation_b, matrix_a, matrix_b): origins of block interiors; how boxes
         of a body appear in the axes of the other, None or 3 x 6 (matrix, translation above blocks, inside of
         them, a pad for all rounding); and the 3 x 4 matrix that moves a body's vertices, or None.
fans     vertex fans and their masks, None for two trees.
scratch  (key, interior, stamp, candidate, bound); each thread has a part of its own. ``ENTRIES`` block interiors of
         each body: block b occupies entry b mod ENTRIES and evicts the previous one; an entry is valid if its key has
         the stamp. And ``ROOM`` candidates, pairs of triangles whose boxes overlap, each with its error bound.
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
"""Block interiors that a thread keeps of each body; together they fit into the second-level cache of a core."""
ENOUGH = 256
"""Candidates collected before they are tested: separate loops predict their branches better."""
ROOM = ENOUGH + BLOCK * BLOCK

ONE = np.uint64(1)
FROM_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i, WIDTH)))
"""Of a node with itself: pairs (i, j) of children with i <= j."""
ABOVE_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i + 1, WIDTH)))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LEAST_SPAN = 2.0**-140
"""Exceeds the loss of float32 below its smallest normal number."""
SLACK = 2.0**-22
"""Exceeds the error of float32 in the size of a box, relative to its distance from the origin."""


# Boxes ------------------------------------------------------------------------------------------------


@inlined
def _rotated(box, node, lane, rotation, shift):
    """The box in a lane of a node as the other body sees it: lowest and highest x, y, z."""
    lo_x, lo_y, lo_z = box[node, 0, lane], box[node, 1, lane], box[node, 2, lane]
    hi_x, hi_y, hi_z = box[node, 3, lane], box[node, 4, lane], box[node, 5, lane]
    cx, cy, cz = 0.5 * (lo_x + hi_x), 0.5 * (lo_y + hi_y), 0.5 * (lo_z + hi_z)
    ex, ey, ez = 0.5 * (hi_x - lo_x), 0.5 * (hi_y - lo_y), 0.5 * (hi_z - lo_z)
    x, sx = _along(rotation, 0, shift, cx, cy, cz, ex, ey, ez)
    y, sy = _along(rotation, 1, shift, cx, cy, cz, ex, ey, ez)
    z, sz = _along(rotation, 2, shift, cx, cy, cz, ex, ey, ez)
    return x - sx, y - sy, z - sz, x + sx, y + sy, z + sz


@inlined
def _along(rotation, axis, shift, cx, cy, cz, ex, ey, ez):
    """Centre and half the width, on one axis of the other body, of a box given by its centre and half its sides."""
    m0, m1, m2 = rotation[axis, 0], rotation[axis, 1], rotation[axis, 2]
    half = abs(m0) * ex + abs(m1) * ey + abs(m2) * ez + rotation[axis, 5]
    return m0 * cx + m1 * cy + m2 * cz + rotation[axis, shift], half


@inlined
def _square(box_a, node_a, box_b, node_b, rotation, shift):
    """Which children of two nodes meet: bit 8 i + j for child i of a and child j of b."""
    if rotation is None:
        return overlap_square(box_a, node_a, box_b, node_b)
    mask = np.uint64(0)
    for i in range(WIDTH):
        lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = _rotated(box_a, node_a, i, rotation, shift)
        mask |= overlap_mask(box_b, node_b, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z) << np.uint64(WIDTH * i)
    return mask


@inlined
def _back_too(box_a, node_a, i, box_b, node_b, j, rotation):
    """The second half of SAT lite: the box of b, as a sees it, against the box of a."""
    if rotation is None:
        return True
    lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = _rotated(box_b, node_b, j, rotation, 3)
    box = box_a[node_a]
    return (
        box[0, i] <= hi_x and box[3, i] >= lo_x
        and box[1, i] <= hi_y and box[4, i] >= lo_y
        and box[2, i] <= hi_z and box[5, i] >= lo_z
    )  # fmt: skip


@inlined
def _interior_of(b, side, thread, order, origin, scratch):
    """First node of the interior of block ``b``; fitted unless this thread has it already."""
    key, interior, stamp = scratch[0], scratch[1], scratch[2]
    entry = (2 * thread + side) * ENTRIES + b % ENTRIES
    first = entry * INTERIOR
    if key[entry, 0] != stamp or key[entry, 1] != b:
        key[entry, 0], key[entry, 1] = stamp, b
        fit_interior(b, order, origin, interior, first)
    return first


# Front ------------------------------------------------------------------------------------------------


@compiled
def find_block_pairs(upper_a, upper_b, rotation_a, rotation_b, is_self, block_pairs):
    """Write the pairs of blocks whose boxes overlap; returns their number, which may exceed ``len(block_pairs)``.

    Trees have equally many levels: both nodes of a pair are on one level. Of one tree, each pair of
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
        mask = _square(box_a, node_a, box_b, node_b, rotation_a, 3)
        if is_self and a == b:
            mask &= FROM_DIAGONAL
        while mask != 0:
            bit = lowest_bit(mask)
            mask &= mask - ONE
            i, j = bit // WIDTH, bit % WIDTH
            if not _back_too(box_a, node_a, i, box_b, node_b, j, rotation_b):
                continue
            child_a, child_b = WIDTH * a + i, WIDTH * b + j
            if level > 0:
                stack[top, 0], stack[top, 1], stack[top, 2] = level - 1, child_a, child_b
                top += 1
            else:
                if count < len(block_pairs):
                    block_pairs[count, 0], block_pairs[count, 1] = child_a, child_b
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
def _once(same, once, fans):
    """Of a node with itself, the bits that find each pair once."""
    if fans is None:
        return ALL
    return once if same else ALL


@inlined
def _masks_of(block_a, block_b, fans):
    return -1 if fans is None else masks_of(block_a, block_b, fans)


@inlined
def _strangers(row, groups, fans):
    """The bits of pairs that share no vertex."""
    if fans is None:
        return ALL
    return ~fans[5][row, groups] if row >= 0 else ALL


@inlined
def collect(block_a, block_b, first_a, first_b, fans, rotation, scratch, found):
    """Append the pairs of order of two blocks whose boxes overlap; ``found`` is where the next one goes.

    ``fans`` is None for two trees; of one tree, pairs that share a vertex are left out.
    """
    box, candidate, bound = scratch[1], scratch[3], scratch[4]
    groups = _square(box, first_a, box, first_b, rotation, 4)
    groups &= _once(block_a == block_b, FROM_DIAGONAL, fans)
    row = _masks_of(block_a, block_b, fans)
    while groups != 0:
        bit = lowest_bit(groups)
        groups &= groups - ONE
        i, j = bit // WIDTH, bit % WIDTH
        pairs = _square(box, first_a + 1 + i, box, first_b + 1 + j, rotation, 4)
        pairs &= _once(block_a == block_b and i == j, ABOVE_DIAGONAL, fans) & _strangers(row, bit, fans)
        if pairs == 0:
            continue
        group_bound = _pair_bound(box, first_a, i, first_b, j)
        first_tri_a, first_tri_b = BLOCK * block_a + WIDTH * i, BLOCK * block_b + WIDTH * j
        while pairs != 0:
            bit = lowest_bit(pairs)
            pairs &= pairs - ONE
            candidate[found, 0], candidate[found, 1] = first_tri_a + bit // WIDTH, first_tri_b + bit % WIDTH
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
def _filter(x_a, s, matrix_a, x_b, t, matrix_b, bound):
    p1, q1, r1 = posed(x_a, s[0], matrix_a), posed(x_a, s[1], matrix_a), posed(x_a, s[2], matrix_a)
    p2, q2, r2 = posed(x_b, t[0], matrix_b), posed(x_b, t[1], matrix_b), posed(x_b, t[2], matrix_b)
    if matrix_a is not None:  # the boxes are not where the vertices are
        bound = own_bound(p1, q1, r1, p2, q2, r2)
    return triangle_triangle_filtered(p1, q1, r1, p2, q2, r2, bound)


@compiled
def test_pairs(first, end, order_a, order_b, matrix_a, matrix_b, scratch, keys, count):
    """Append the keys of candidates that cross or are uncertain (kind 0); keys that find no room are counted too."""
    x_a, face_a, tri_a = order_a
    x_b, face_b, tri_b = order_b
    candidate, bound = scratch[3], scratch[4]
    for k in range(first, end):
        s, t = candidate[k, 0], candidate[k, 1]
        kind = _filter(x_a, face(face_a, s), matrix_a, x_b, face(face_b, t), matrix_b, bound[k])
        if kind != NONE and tri_a[s] >= 0 and tri_b[t] >= 0:
            if count < len(keys):
                keys[count] = pair_key(tri_a[s], tri_b[t], max(kind, 0))
            count += 1
    return count


@compiled
def join_pairs(block_pairs, order_a, order_b, moves, scratch, thread, keys):
    """Keys of all block pairs; returns their number, and the number of triangle pairs tested."""
    origin_a, origin_b, rotation_a, _, matrix_a, matrix_b = moves
    count = tests = np.int64(0)
    first = found = thread * ROOM
    for i in range(len(block_pairs)):
        block_a, block_b = block_pairs[i, 0], block_pairs[i, 1]
        first_a = _interior_of(block_a, 0, thread, order_a, origin_a, scratch)
        first_b = _interior_of(block_b, 1, thread, order_b, origin_b, scratch)
        found = collect(block_a, block_b, first_a, first_b, None, rotation_a, scratch, found)
        if found - first >= ENOUGH or i == len(block_pairs) - 1:
            count = test_pairs(first, found, order_a, order_b, matrix_a, matrix_b, scratch, keys, count)
            tests += found - first
            found = first
    return count, tests


@kernel(parallel_from=16)
def join_block_pairs(block_pairs, order_a, order_b, moves, scratch, threads, counter, keys, counts):
    """Join all block pairs; task t joins one range of them and owns row t of ``keys`` and ``counts``."""
    tasks = len(keys)
    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            these = block_pairs[t * len(block_pairs) // tasks : (t + 1) * len(block_pairs) // tasks]
            counts[t, 0], counts[t, 1] = join_pairs(these, order_a, order_b, moves, scratch, thread, keys[t])
            t = claim(counter)


# Join of one tree with itself -------------------------------------------------------------------------


@compiled
def _filter_of_one(x, s, t, skip_neighbours, bound):
    if shared_count(s, t) == 0:
        return _filter(x, s, None, x, t, None, bound)
    return NONE if skip_neighbours else neighbours_filtered(x, s, t, bound)


@compiled
def test_pairs_of_one(first, end, order, skip_neighbours, scratch, keys, count):
    """As ``test_pairs`` for one tree; neighbours that no mask left out have a filter of their own, or are skipped."""
    x, order_face, order_tri = order
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
def join_pairs_of_one(block_pairs, order, origin, fans, skip_neighbours, scratch, thread, keys):
    """As ``join_pairs`` for one tree."""
    count = tests = np.int64(0)
    first = found = thread * ROOM
    for i in range(len(block_pairs)):
        block_a, block_b = block_pairs[i, 0], block_pairs[i, 1]
        first_a = _interior_of(block_a, 0, thread, order, origin, scratch)
        first_b = first_a if block_a == block_b else _interior_of(block_b, 1, thread, order, origin, scratch)
        found = collect(block_a, block_b, first_a, first_b, fans, None, scratch, found)
        if found - first >= ENOUGH or i == len(block_pairs) - 1:
            count = test_pairs_of_one(first, found, order, skip_neighbours, scratch, keys, count)
            tests += found - first
            found = first
    return count, tests


@kernel(parallel_from=16)
def join_block_pairs_of_one(block_pairs, order, origin, fans, skip_neighbours, scratch, threads, counter, keys, counts):
    """As ``join_block_pairs`` for one tree."""
    tasks = len(keys)
    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            these = block_pairs[t * len(block_pairs) // tasks : (t + 1) * len(block_pairs) // tasks]
            counts[t, 0], counts[t, 1] = join_pairs_of_one(
                these, order, origin, fans, skip_neighbours, scratch, thread, keys[t]
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
def search_serially(fit_a, vertices_a, order_a, fit_b, vertices_b, order_b, moves, scratch, block_pairs, keys):
    """All steps of a query in one call, for bodies so small that launches would cost more than the work.

    ``fit_a`` blocks are fitted first, none if it is 0. Returns block pairs, keys, uncertain keys, tests done and the
    relative areas of both trees; numbers beyond the room in ``block_pairs`` or ``keys`` mean that the search has to be
    repeated with more.
    """
    area_a = _fit(fit_a, vertices_a) if fit_a else -1.0
    area_b = _fit(fit_b, vertices_b) if fit_b else -1.0
    pair_count = find_block_pairs(vertices_a[3:], vertices_b[3:], moves[2], moves[3], False, block_pairs)
    count, tests = join_pairs(block_pairs[:pair_count], order_a, order_b, moves, scratch, 0, keys)
    return pair_count, count, _uncertain(keys, count), tests, area_a, area_b


@compiled
def search_one_serially(fit, vertices, order, origin, fans, skip_neighbours, scratch, block_pairs, keys):
    """As ``search_serially`` for one tree with itself."""
    area = _fit(fit, vertices) if fit else -1.0
    pair_count = find_block_pairs(vertices[3:], vertices[3:], None, None, True, block_pairs)
    count, tests = join_pairs_of_one(block_pairs[:pair_count], order, origin, fans, skip_neighbours, scratch, 0, keys)
    return pair_count, count, _uncertain(keys, count), tests, area
