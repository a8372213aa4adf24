"""GJK on two point clouds, and a search for the direction of least overlap; ``hull_distance`` has the method.

A cloud is an array of shape (3, n): one row per axis, within -1 .. 1. Directions have length 1.

Simplex    The sub-algorithm of GJK is the backup procedure of [GilbertJohnsonKeerthi1988], run always. A simplex has
           one to four points. Its point nearest to the origin lies inside exactly one of its faces (points, segments,
           triangles, the whole), as the projection of the origin onto that face. Of at most 15 faces, the nearest
           whose projection is inside wins; degenerate faces do not count.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.gjk_cut.cut_kernels import normalised
from impinge.exact.triangle_triangle import cross, dot, minus

MOST_STEPS = 256
"""Most steps of GJK; some 20 occur, and a simplex that repeats ends the search before."""
GAP = 2.0**-50
"""Gap between the bounds on the distance at which the search ends, where all coordinates are within -1 .. 1."""
RELATIVE_GAP = 2.0**-45
"""The same, relative to the distance."""
TOUCHING = 2.0**-46
"""Distances below this, where all coordinates are within -1 .. 1, are rounding: the hulls touch."""
FIRST_ANGLE, LAST_ANGLE = 0.5, 1e-7
"""Steps, in radians, of the search for the direction of least overlap."""


# The nearest point of a simplex -----------------------------------------------------------------------


@compiled
def _row(points, i):
    return points[i, 0], points[i, 1], points[i, 2]


@compiled
def _try_segment(points, i, j, weight, best):
    """Weights of the origin's projection onto an edge, if it is inside and nearer than ``best``."""
    p, q = _row(points, i), _row(points, j)
    e = minus(q, p)
    length_sq = dot(e, e)
    if length_sq == 0.0:
        return best
    s = -dot(p, e) / length_sq
    v = (p[0] + s * e[0], p[1] + s * e[1], p[2] + s * e[2])
    if 0.0 < s < 1.0 and dot(v, v) < best:
        weight[:] = 0.0
        weight[i], weight[j] = 1.0 - s, s
        return dot(v, v)
    return best


@compiled
def _try_triangle(points, i, j, k, weight, best):
    """The same for a triangle: the projection is inside if it has the same orientation to all three edges."""
    p, q, r = _row(points, i), _row(points, j), _row(points, k)
    n = cross(minus(q, p), minus(r, p))
    area_sq = dot(n, n)
    if area_sq == 0.0:
        return best
    u, v, w = dot(n, cross(q, r)), dot(n, cross(r, p)), dot(n, cross(p, q))
    height = dot(n, p)
    found = height * height / area_sq
    if u > 0.0 and v > 0.0 and w > 0.0 and found < best:
        total = u + v + w
        weight[:] = 0.0
        weight[i], weight[j], weight[k] = u / total, v / total, w / total
        return found
    return best


@compiled
def _closest_on_simplex(points, count, weight):
    """Write the weights of the point of the simplex nearest to the origin; returns its squared distance.

    Points that do not carry it have weight 0. The distance is 0 where the origin is inside a tetrahedron.
    """
    if count == 4:
        p, q, r, s = _row(points, 0), _row(points, 1), _row(points, 2), _row(points, 3)
        a, b, c, d = dot(q, cross(r, s)), -dot(p, cross(r, s)), dot(p, cross(q, s)), -dot(p, cross(q, r))
        total = a + b + c + d
        if (a > 0.0 and b > 0.0 and c > 0.0 and d > 0.0) or (a < 0.0 and b < 0.0 and c < 0.0 and d < 0.0):
            weight[0], weight[1], weight[2], weight[3] = a / total, b / total, c / total, d / total
            return 0.0
    best = np.inf
    for i in range(count):
        p = _row(points, i)
        if dot(p, p) < best:
            best = dot(p, p)
            weight[:] = 0.0
            weight[i] = 1.0
    for j in range(1, count):
        for i in range(j):
            best = _try_segment(points, i, j, weight, best)
    for k in range(2, count):
        for j in range(1, k):
            for i in range(j):
                best = _try_triangle(points, i, j, k, weight, best)
    return best


# GJK --------------------------------------------------------------------------------------------------


@compiled
def _support(cloud, sx, sy, sz):
    """The point farthest along a direction (the first of several), and how far that is."""
    x, y, z = cloud[0], cloud[1], cloud[2]
    farthest, best = -np.inf, 0
    for i in range(len(x)):
        along = x[i] * sx + y[i] * sy + z[i] * sz
        if along > farthest:
            farthest, best = along, i
    return best, farthest


@compiled
def _without(s, e):
    """``s`` minus its component along ``e``."""
    share = dot(s, e) / dot(e, e)
    return s[0] - share * e[0], s[1] - share * e[1], s[2] - share * e[2]


@compiled
def _direction(simplex, count, v, length):
    """From the nearest point ``v`` towards the origin, perpendicular to the edges of the simplex.

    Where v is short, v / |v| is mostly rounding. Edges are long and determine the direction; a second edge nearly
    parallel to the first determines it worse than v does, and is not used.
    """
    s = (-v[0] / length, -v[1] / length, -v[2] / length)
    if count == 1:
        return s
    p = _row(simplex, 0)
    e = minus(_row(simplex, 1), p)
    if count == 3:
        f = minus(_row(simplex, 2), p)
        if dot(f, f) > dot(e, e):
            e, f = f, e
        across = _without(f, e)
        if dot(across, across) > length * length * dot(f, f):
            s = _without(s, across)
    return normalised(_without(s, e))


@compiled
def find_distance(a, b, pairs, weight):
    """GJK: distance of two hulls (0 where they intersect), steps, number of pairs, and last direction, from a to b.

    Writes the pairs of points whose differences carry the nearest point of a - b, and their weights.
    """
    simplex = np.zeros((5, 3))
    simplex[0] = a[:, 0] - b[:, 0]
    pairs[0], weight[0], count = 0, 1.0, 1
    v = _row(simplex, 0)
    lower, s = 0.0, (1.0, 0.0, 0.0)
    for step in range(MOST_STEPS):
        upper = math.sqrt(dot(v, v))
        if upper <= TOUCHING:
            return 0.0, step, count, s
        s = _direction(simplex, count, v, upper)
        i, top_a = _support(a, s[0], s[1], s[2])
        j, top_b = _support(b, -s[0], -s[1], -s[2])
        lower = max(lower, -(top_a + top_b))
        is_done = upper - lower <= max(GAP, RELATIVE_GAP * upper)
        for k in range(count):
            is_done |= pairs[k, 0] == i and pairs[k, 1] == j
        if is_done:
            return upper, step + 1, count, s
        old_pairs, old_weight, old_count = pairs.copy(), weight.copy(), count
        simplex[count] = a[:, i] - b[:, j]
        pairs[count, 0], pairs[count, 1] = i, j
        count += 1
        if _closest_on_simplex(simplex, count, weight) == 0.0:
            return 0.0, step + 1, count, s
        # Only the points that carry the nearest one stay.
        size, count = count, 0
        x = y = z = 0.0
        for k in range(size):
            if weight[k] > 0.0:
                simplex[count], pairs[count], weight[count] = simplex[k], pairs[k], weight[k]
                x += weight[k] * simplex[k, 0]
                y += weight[k] * simplex[k, 1]
                z += weight[k] * simplex[k, 2]
                count += 1
        v = (x, y, z)
        if dot(v, v) >= upper * upper:  # rounding: no nearer than before
            pairs[:], weight[:] = old_pairs, old_weight
            return upper, step + 1, old_count, s
    return upper, MOST_STEPS, count, s


# Penetration ------------------------------------------------------------------------------------------


@compiled
def _overlap_along(a, b, s):
    """How far b has to move along ``s`` to leave a; negative if the hulls are apart."""
    return _support(a, s[0], s[1], s[2])[1] + _support(b, -s[0], -s[1], -s[2])[1]


@compiled
def least_overlap(a, b, first):
    """A direction along which two hulls overlap little, and how much: an upper bound on their penetration."""
    best, least = first, _overlap_along(a, b, first)
    for k in range(27):  # the axes and all diagonals of a cube, both ways
        if k != 13:
            s = normalised((k // 9 - 1.0, k // 3 % 3 - 1.0, k % 3 - 1.0))
            found = _overlap_along(a, b, s)
            if found < least:
                best, least = s, found
    angle = FIRST_ANGLE
    while angle > LAST_ANGLE:
        start = best
        u = normalised(cross(start, (1.0, 0.0, 0.0) if abs(start[0]) < 0.6 else (0.0, 1.0, 0.0)))
        w = cross(start, u)
        x, y = math.cos(angle), math.sin(angle)
        for k in range(6):
            c, d = math.cos(k * math.pi / 3.0), math.sin(k * math.pi / 3.0)
            s = normalised((
                x * start[0] + y * (c * u[0] + d * w[0]),
                x * start[1] + y * (c * u[1] + d * w[1]),
                x * start[2] + y * (c * u[2] + d * w[2]),
            ))  # fmt: skip
            found = _overlap_along(a, b, s)
            if found < least:
                best, least = s, found
        if best == start:
            angle *= 0.5
    return best, least
