"""How far pairs of blocks have deformed, and impacts of listed pairs of features; see ``known_pairs`` for the method.

Positions are listed by blocks: those of the vertices of block b are the rows ``start[b]`` to ``start[b + 1]``. The sums
of a block are the number of its rows and, for reference positions p and positions x, the sums of p (1 to 3), of p pᵀ
(4 to 9: xx, yy, zz, yz, xz, xy), or of x (0 to 2) and x pᵀ (3 to 11, row by row).
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd.boxes import residual_box
from impinge.detect.continuous.primitives_kernels import first_walk
from impinge.detect.continuous.sweep_kernels import EDGE_EDGE, HIT, MISS, OPEN, four_points

RIDGE = 1e-3
"""Share of the mean square extent that holds the linear map of flat blocks where it is free."""
FEW = 8
"""Listed pairs of features in reach that are decided without a better bound."""
LEAST_STRETCH = 0.1
"""Least stretch of a map that is used."""
LARGEST_STRETCH = 4.0
"""Norm of a linear map from which on it is not used: error bounds rely on it."""


@kernel(parallel_from=2048)
def gather_blocks(start, vertex, x, rows):
    """Positions by blocks."""
    for b in prange(len(start) - 1):
        for i in range(start[b], start[b + 1]):
            v = vertex[i]
            rows[i, 0], rows[i, 1], rows[i, 2] = x[v, 0], x[v, 1], x[v, 2]


@kernel(parallel_from=2048)
def sum_reference(start, p, sums):
    """Sums of the reference positions of each block."""
    for b in prange(len(start) - 1):
        s0 = s1 = s2 = xx = yy = zz = yz = xz = xy = 0.0
        for i in range(start[b], start[b + 1]):
            a, c, d = p[i, 0], p[i, 1], p[i, 2]
            s0, s1, s2 = s0 + a, s1 + c, s2 + d
            xx, yy, zz = xx + a * a, yy + c * c, zz + d * d
            yz, xz, xy = yz + c * d, xz + a * d, xy + a * c
        sums[b, 0] = start[b + 1] - start[b]
        sums[b, 1], sums[b, 2], sums[b, 3] = s0, s1, s2
        sums[b, 4], sums[b, 5], sums[b, 6], sums[b, 7], sums[b, 8], sums[b, 9] = xx, yy, zz, yz, xz, xy


@kernel(parallel_from=2048)
def fit_around(start, p, around):
    """Centre and half extents of the box around each block."""
    for b in prange(len(start) - 1):
        box = residual_box(p, p, start[b], start[b + 1], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for k in range(3):
            around[b, k] = 0.5 * (box[k] + box[3 + k])
            around[b, 3 + k] = (0.5 + 1e-9) * (box[3 + k] - box[k])


@kernel(parallel_from=2048)
def sum_moved(start, p, x, sums):
    """Sums of the positions of each block."""
    for b in prange(len(start) - 1):
        for k in range(3):
            s = s0 = s1 = s2 = 0.0
            for i in range(start[b], start[b + 1]):
                y = x[i, k]
                s, s0, s1, s2 = s + y, s0 + y * p[i, 0], s1 + y * p[i, 1], s2 + y * p[i, 2]
            sums[b, k], sums[b, 3 + 3 * k], sums[b, 4 + 3 * k], sums[b, 5 + 3 * k] = s, s0, s1, s2


@compiled
def _inverse(reference, a, b):
    """Mean of the vertices, weight of the ridge, and inverse of the moments about the mean."""
    r, q, w = reference[a], reference[b], 0.0 if a == b else 1.0
    n = max(r[0] + w * q[0], 1.0)
    cx, cy, cz = (r[1] + w * q[1]) / n, (r[2] + w * q[2]) / n, (r[3] + w * q[3]) / n
    xx, yy, zz = r[4] + w * q[4] - n * cx * cx, r[5] + w * q[5] - n * cy * cy, r[6] + w * q[6] - n * cz * cz
    yz, xz, xy = r[7] + w * q[7] - n * cy * cz, r[8] + w * q[8] - n * cx * cz, r[9] + w * q[9] - n * cx * cy
    ridge = RIDGE * (xx + yy + zz)
    xx, yy, zz = xx + ridge, yy + ridge, zz + ridge
    ixx, iyy, izz = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
    iyz, ixz, ixy = xy * xz - xx * yz, xy * yz - yy * xz, yz * xz - zz * xy
    scale = 1.0 / (xx * ixx + xy * ixy + xz * ixz)
    return (cx, cy, cz), ridge, (ixx * scale, iyy * scale, izz * scale, iyz * scale, ixz * scale, ixy * scale)


@compiled
def _row(k, moved, a, b, fit, target):
    """Row k of the linear map of two blocks."""
    c, ridge, (ixx, iyy, izz, iyz, ixz, ixy) = fit
    r, q, w = moved[a], moved[b], 0.0 if a == b else 1.0
    s = r[k] + w * q[k]
    u = r[3 + 3 * k] + w * q[3 + 3 * k] - s * c[0] + ridge * target[k, 0]
    v = r[4 + 3 * k] + w * q[4 + 3 * k] - s * c[1] + ridge * target[k, 1]
    t = r[5 + 3 * k] + w * q[5 + 3 * k] - s * c[2] + ridge * target[k, 2]
    return u * ixx + v * ixy + t * ixz, u * ixy + v * iyy + t * iyz, u * ixz + v * iyz + t * izz


@compiled
def _least_stretch(f):
    """A lower bound on the least singular value of a matrix: Gershgorin's discs of its square; 0 if it is useless."""
    a, b, c = f
    xx, yy, zz = a[0] ** 2 + b[0] ** 2 + c[0] ** 2, a[1] ** 2 + b[1] ** 2 + c[1] ** 2, a[2] ** 2 + b[2] ** 2 + c[2] ** 2
    if not xx + yy + zz < LARGEST_STRETCH**2:
        return 0.0
    xy = abs(a[0] * a[1] + b[0] * b[1] + c[0] * c[1])
    xz = abs(a[0] * a[2] + b[0] * b[2] + c[0] * c[2])
    yz = abs(a[1] * a[2] + b[1] * b[2] + c[1] * c[2])
    return math.sqrt(max(min(xx - xy - xz, yy - xy - yz, zz - xz - yz), 0.0))


@compiled
def _box(f, b, start, p, x):
    """Bounds of x - L p over the vertices of block b."""
    return residual_box(p, x, start[b], start[b + 1], *f[0], *f[1], *f[2])


@compiled
def _spread(box_a, box_b):
    """A bound on the distance of a point in one box and a point in the other."""
    square = 0.0
    for k in range(3):
        square += max(box_a[3 + k] - box_b[k], box_b[3 + k] - box_a[k]) ** 2
    return math.sqrt(square)


@compiled
def _norm(f, m):
    """Frobenius norm of the difference of two matrices."""
    square = 0.0
    for k in range(3):
        for j in range(3):
            square += (f[k][j] - m[k][j]) ** 2
    return math.sqrt(square)


@compiled
def _stretch(f, m):
    """A lower bound on the least singular value of all matrices between two."""
    return min(_least_stretch(f), _least_stretch(m)) - 0.5 * _norm(f, m) - 1e-9


@compiled
def map_of(a, b, reference, moved, target):
    """The linear map that fits the motion of two blocks, or of one, best."""
    fit = _inverse(reference, a, b)
    return _row(0, moved, a, b, fit, target), _row(1, moved, a, b, fit, target), _row(2, moved, a, b, fit, target)


@compiled
def _matrix(maps, b):
    """The map of one block."""
    f = maps[b]
    return (f[0, 0], f[0, 1], f[0, 2]), (f[1, 0], f[1, 1], f[1, 2]), (f[2, 0], f[2, 1], f[2, 2])


@kernel(parallel_from=2048)
def fit_maps(start, p, reference, x, sums, target, maps, box):
    """The linear map of each block, and the bounds of its residuals."""
    for b in prange(len(start) - 1):
        f = map_of(b, b, reference, sums, target)
        bounds = _box(f, b, start, p, x)
        for k in range(3):
            for j in range(3):
                maps[b, k, j] = f[k][j]
        for k in range(6):
            box[b, k] = bounds[k]


@compiled
def _moved_box(f, m, box, around):
    """Bounds of x - L p from those of x - M p, for p in the box ``around``: centre and half extents."""
    return (
        _side(f, m, 0, box[0], around, -1.0),
        _side(f, m, 1, box[1], around, -1.0),
        _side(f, m, 2, box[2], around, -1.0),
        _side(f, m, 0, box[3], around, 1.0),
        _side(f, m, 1, box[4], around, 1.0),
        _side(f, m, 2, box[5], around, 1.0),
    )


@compiled
def _side(f, m, k, bound, around, sign):
    """One bound of ``_moved_box``."""
    for j in range(3):
        d = m[k][j] - f[k][j]
        bound += d * around[j] + sign * abs(d) * around[3 + j]
    return bound


@compiled
def _spread_of_maps(a, b, around, end):
    """``_spread`` from the maps and bounds of two blocks, with the map of the first."""
    maps, box = end[2], end[3]
    f = _matrix(maps, a)
    return _spread(box[a], _moved_box(f, _matrix(maps, b), box[b], around[b]))


@compiled
def _count(a, b, lists, limit):
    """Number of listed pairs of features within reach."""
    first, other, row_start, distance = lists
    count = 0
    for g in range(first[a], first[a + 1]):
        if other[g] == b:
            for k in range(row_start[g], row_start[g + 1]):
                count += distance[k] <= limit
    return count


@kernel(parallel_from=2048)
def find_reaches(block_pairs, start, p, reference, around, before, after, margin, added, lists, reach, count):
    """For each pair of blocks the distance at the reference beyond which nothing meets; infinite if above the list.

    ``reference`` has the sums of the blocks, ``around`` their boxes. ``before`` and ``after`` are positions, sums,
    maps, bounds of residuals and the map of the whole at the ends of the motion. ``added`` is a distance that features
    may have and meet nevertheless. ``count`` receives the number of listed pairs of features within reach. The maps of
    both blocks give a bound at once; where it is not good enough, a common map and all vertices give a better one.
    """
    for i in prange(len(block_pairs)):
        a, b = block_pairs[i, 0], block_pairs[i, 1]
        limit, found = np.inf, 0
        stretch = _stretch(_matrix(before[2], a), _matrix(after[2], a))
        if stretch > LEAST_STRETCH:
            spread = max(_spread_of_maps(a, b, around, before), _spread_of_maps(a, b, around, after))
            limit = (spread * (1.0 + 1e-9) + added) / stretch
            if limit <= margin:
                found = _count(a, b, lists, limit)
        if a != b and (not limit <= margin or found > FEW):
            f, m = map_of(a, b, reference, before[1], before[4]), map_of(a, b, reference, after[1], after[4])
            stretch = _stretch(f, m)
            if stretch > LEAST_STRETCH:
                spread = max(
                    _spread(_box(f, a, start, p, before[0]), _box(f, b, start, p, before[0])),
                    _spread(_box(m, a, start, p, after[0]), _box(m, b, start, p, after[0])),
                )
                better = (spread * (1.0 + 1e-9) + added) / stretch
                if not better > limit:
                    limit, found = better, _count(a, b, lists, better) if better <= margin else 0
        reach[i] = limit if limit <= margin else np.inf
        count[i] = found


@kernel(parallel_from=2048)
def list_rows(block_pairs, lists, reach, offset, rows):
    """Numbers of the listed pairs of features within reach of each pair of blocks."""
    first, other, row_start, distance = lists
    for i in prange(len(block_pairs)):
        a, b, limit, n = block_pairs[i, 0], block_pairs[i, 1], reach[i], offset[i]
        if limit != np.inf:
            for g in range(first[a], first[a + 1]):
                if other[g] == b:
                    for k in range(row_start[g], row_start[g + 1]):
                        if distance[k] <= limit:
                            rows[n] = k
                            n += 1


@kernel(parallel_from=4096)
def walk_listed(rows, kind, vertices, start, end, span, may_meet):
    """Decide listed pairs of features by the filter in doubles."""
    for i in prange(len(rows)):
        k = rows[i]
        starts = four_points(kind[k], vertices[k], start, start)
        ends = four_points(kind[k], vertices[k], end, end)
        verdict, lo, hi = first_walk(kind[k] == EDGE_EDGE, starts, ends)
        may_meet[i] = verdict != MISS
        span[i, 0], span[i, 1] = lo, hi if verdict == HIT else OPEN
