"""Boxes, candidate pairs and inside tests of many bodies in one call; see ``surface_batch`` and ``batch_queries``.

``bodies`` is (x, faces, face_start, group_start, group_box, leaf_box, origin). Eight consecutive triangles are a leaf,
eight leaves are a group (``backend.simd``): body b has the groups from ``group_start[b]`` on, group g the leaves from
8 g on, leaf l the slots from 8 l on. The triangles from ``face_start[b]`` on fill the slots in order. Boxes are
float32, relative to ``origin``. Rounding to nearest is monotonic: boxes that overlap still do after rounding.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, node_box, overlap_mask, overlap_square, triangle_box
from impinge.exact.orientation import BOUND_2D, point
from impinge.exact.point_surface import ENTERED, LEFT, MISSED, ON_SURFACE, ray_meets_triangle
from impinge.exact.triangle_triangle import cross, dot, error_bound, minus

GROUP = WIDTH * WIDTH
"""Triangles of a group."""
RUN = 16
"""Pairs of bodies per task."""
POINTS = 64
"""Vertices per task."""
ONE = np.uint64(1)
_INFINITY = np.float32(np.inf)
EMPTY = (_INFINITY, _INFINITY, _INFINITY, -_INFINITY, -_INFINITY, -_INFINITY)
"""The box of an empty slot, which overlaps nothing."""


# Boxes --------------------------------------------------------------------------------------------------


@inlined
def _write_box(boxes, node, lane, bounds):
    for k in range(6):
        boxes[node, k, lane] = bounds[k]


@inlined
def _fit_small(b, bodies):
    """Boxes of the triangles of a small body, and of its leaves."""
    x, faces, face_start, group_start, group_box, leaf_box, origin = bodies
    end = face_start[b + 1]
    for leaf in range(WIDTH * group_start[b], WIDTH * group_start[b + 1]):
        first = face_start[b] + WIDTH * leaf - GROUP * group_start[b]
        bounds = EMPTY
        if first < end:
            for lane in range(WIDTH):
                if first + lane < end:
                    i, j, k = faces[first + lane, 0], faces[first + lane, 1], faces[first + lane, 2]
                    _write_box(leaf_box, leaf, lane, triangle_box(x, i, j, k, origin[0], origin[1], origin[2]))
                else:
                    _write_box(leaf_box, leaf, lane, EMPTY)
            bounds = node_box(leaf_box, leaf)
        _write_box(group_box, leaf // WIDTH, leaf % WIDTH, bounds)


@kernel(parallel_from=1024)
def fit_boxes(moved, used_start, used, is_small, bodies, low, high):
    """Fit the boxes of some bodies, and of the triangles and leaves of small ones."""
    for i in prange(len(moved)):
        b = moved[i]
        for axis in range(3):
            lowest, highest = np.inf, -np.inf
            for k in range(used_start[b], used_start[b + 1]):
                value = bodies[0][used[k], axis]
                lowest, highest = min(lowest, value), max(highest, value)
            low[b, axis], high[b, axis] = lowest, highest
        if is_small[b]:
            _fit_small(b, bodies)


@inlined
def local_box(box, origin):
    """A box as float32, relative to an origin."""
    return (
        np.float32(box[0] - origin[0]),
        np.float32(box[1] - origin[1]),
        np.float32(box[2] - origin[2]),
        np.float32(box[3] - origin[0]),
        np.float32(box[4] - origin[1]),
        np.float32(box[5] - origin[2]),
    )


@inlined
def met(boxes, node, box):
    """Bits of the children of a node that overlap a box."""
    return overlap_mask(boxes, np.int64(node), box[0], box[1], box[2], box[3], box[4], box[5])


@kernel(parallel_from=1024)
def move_bodies(bodies, transforms, rest, vertex_start, x):
    """Positions ((m0·x + m1·y) + m2·z) + m3 of the vertices of some bodies, each by its own matrix."""
    for i in prange(len(bodies)):
        m = transforms[i]
        for v in range(vertex_start[bodies[i]], vertex_start[bodies[i] + 1]):
            for k in range(3):
                x[v, k] = ((m[k, 0] * rest[v, 0] + m[k, 1] * rest[v, 1]) + m[k, 2] * rest[v, 2]) + m[k, 3]


# Pairs of triangles -------------------------------------------------------------------------------------


@inlined
def _candidates(a, b, bodies, low, high, at, out_a, out_b):
    """Write triangles of two bodies whose boxes overlap from ``at`` on, unless it is negative; return their number."""
    _, _, face_start, group_start, group_box, leaf_box, origin = bodies
    box_b = local_box((low[b, 0], low[b, 1], low[b, 2], high[b, 0], high[b, 1], high[b, 2]), origin)
    # Slots minus triangles.
    shift_a, shift_b = GROUP * group_start[a] - face_start[a], GROUP * group_start[b] - face_start[b]
    count = np.int64(0)
    for group_a in range(group_start[a], group_start[a + 1]):
        if met(group_box, group_a, box_b) == 0:
            continue
        for group_b in range(group_start[b], group_start[b + 1]):
            near = overlap_square(group_box, group_a, group_box, group_b)
            while near != 0:
                bit = lowest_bit(near)
                near &= near - ONE
                leaf_a, leaf_b = WIDTH * group_a + bit // WIDTH, WIDTH * group_b + bit % WIDTH
                found = overlap_square(leaf_box, leaf_a, leaf_box, leaf_b)
                while found != 0:
                    if at >= 0:
                        bit = lowest_bit(found)
                        out_a[at + count] = WIDTH * leaf_a + bit // WIDTH - shift_a
                        out_b[at + count] = WIDTH * leaf_b + bit % WIDTH - shift_b
                    found &= found - ONE
                    count += 1
    return count


@kernel(parallel_from=64)
def find_candidates(pairs, bodies, low, high, start, filling, threads, counter, counts, out_a, out_b):
    """Count the triangles whose boxes overlap, for each pair of bodies; or write them from ``start`` on."""
    for _ in prange(threads):
        first = RUN * claim(counter)
        while first < len(pairs):
            for i in range(first, min(first + RUN, len(pairs))):
                if not filling or start[i + 1] > start[i]:
                    at = start[i] if filling else -1
                    counts[i] = _candidates(pairs[i, 0], pairs[i, 1], bodies, low, high, at, out_a, out_b)
            first = RUN * claim(counter)


# Vertices in bodies -------------------------------------------------------------------------------------


@inlined
def _is_in_box(x, v, box):
    return (
        (box[0] <= x[v, 0])
        & (x[v, 0] <= box[3])
        & (box[1] <= x[v, 1])
        & (x[v, 1] <= box[4])
        & (box[2] <= x[v, 2])
        & (x[v, 2] <= box[5])
    )


@kernel(parallel_from=1024)
def count_points(pairs, x, used_start, used, low, high, counts):
    """Count the vertices of the first body of each pair in the box of the second."""
    for i in prange(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        box = low[b, 0], low[b, 1], low[b, 2], high[b, 0], high[b, 1], high[b, 2]
        count = 0
        for k in range(used_start[a], used_start[a + 1]):
            count += _is_in_box(x, used[k], box)
        counts[i] = count


@kernel(parallel_from=1024)
def find_points(pairs, x, used_start, used, low, high, start, pair, vertex):
    """Write these vertices and their pairs from ``start`` on."""
    for i in prange(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        box = low[b, 0], low[b, 1], low[b, 2], high[b, 0], high[b, 1], high[b, 2]
        at, k = start[i], used_start[a]
        while at < start[i + 1]:
            pair[at], vertex[at] = i, used[k]
            at += _is_in_box(x, used[k], box)
            k += 1


@inlined
def _ray_meets(p, a, b, c, plane_bound, solid_bound):
    """As ``ray_meets_triangle``, by doubles; the flag is False where exact signs are needed."""
    a, b, c = minus(a, p), minus(b, p), minus(c, p)
    ab, bc, ca = a[0] * b[1] - a[1] * b[0], b[0] * c[1] - b[1] * c[0], c[0] * a[1] - c[1] * a[0]
    low, high = min(ab, bc, ca), max(ab, bc, ca)
    if low < -plane_bound and high > plane_bound:
        return MISSED, True
    height = -dot(cross(minus(a, c), minus(b, c)), c)
    if low > plane_bound and abs(height) > solid_bound:
        return (LEFT if height < 0.0 else MISSED), True
    if high < -plane_bound and abs(height) > solid_bound:
        return (ENTERED if height > 0.0 else MISSED), True
    return MISSED, False


@inlined
def _is_inside(p, body, bodies, low, high, oriented):
    """By winding number of oriented pieces, by parity of others; on the surface counts as inside."""
    x, faces, face_start, group_start, group_box, leaf_box, origin = bodies
    column = local_box((p[0], p[1], p[2], p[0], p[1], np.inf), origin)
    dx, dy = high[body, 0] - low[body, 0], high[body, 1] - low[body, 1]
    plane_bound, solid_bound = 2.0 * BOUND_2D * (dx * dy), error_bound(dx, dy, high[body, 2] - low[body, 2])
    if solid_bound == np.inf:
        plane_bound = np.inf
    shift = GROUP * group_start[body] - face_start[body]
    winding = crossings = 0
    for group in range(group_start[body], group_start[body + 1]):
        leaves = met(group_box, group, column)
        while leaves != 0:
            leaf = WIDTH * group + lowest_bit(leaves)
            leaves &= leaves - ONE
            slots = met(leaf_box, leaf, column)
            while slots != 0:
                t = WIDTH * leaf + lowest_bit(slots) - shift
                slots &= slots - ONE
                a, b, c = point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2])
                answer, is_sure = _ray_meets(p, a, b, c, plane_bound, solid_bound)
                if not is_sure:
                    answer = ray_meets_triangle(p, a, b, c)
                if answer == ON_SURFACE:
                    return True
                if oriented[t]:
                    winding += answer
                else:
                    crossings += abs(answer)
    return winding != 0 or crossings % 2 == 1


@kernel(parallel_from=256)
def mark_inside(vertex, in_body, bodies, low, high, oriented, threads, counter, inside):
    """Mark the vertices, each in the box of a body, that are inside that body."""
    for _ in prange(threads):
        first = POINTS * claim(counter)
        while first < len(vertex):
            for i in range(first, min(first + POINTS, len(vertex))):
                inside[i] = _is_inside(point(bodies[0], vertex[i]), in_body[i], bodies, low, high, oriented)
            first = POINTS * claim(counter)
