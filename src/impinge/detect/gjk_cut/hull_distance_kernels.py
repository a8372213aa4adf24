"""GJK on two point clouds, and a search for the least overlap; see ``hull_distance`` for the method.

A cloud is an array of shape (3, n): one row per axis, within -1 .. 1. Directions have length 1.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.gjk_cut.simplex_kernels import closest_on_simplex
from impinge.exact.triangle_triangle import cross, dot, minus

MOST_STEPS = 256
"""Steps of GJK; some 20 are met, and a simplex that repeats ends the search before."""
GAP = 2.0**-50
"""Gap between the bounds on the distance at which it is found, where all coordinates are within -1 .. 1."""
RELATIVE_GAP = 2.0**-45
"""Gap between the bounds on the distance at which it is found, relative to it."""
TOUCHING = 2.0**-46
"""Distances below this, where all coordinates are within -1 .. 1, are rounding: the hulls touch."""
FIRST_ANGLE, LAST_ANGLE = 0.5, 1e-7
"""Steps, in radians, of the search for the direction of least overlap."""


@compiled
def support(cloud, sx, sy, sz):
    """The point farthest along a direction (the first of several), and how far that is."""
    x, y, z = cloud[0], cloud[1], cloud[2]
    farthest, best = -np.inf, 0
    for i in range(len(x)):
        along = x[i] * sx + y[i] * sy + z[i] * sz
        if along > farthest:
            farthest, best = along, i
    return best, farthest


@compiled
def overlap_along(a, b, s):
    """How far b has to go along ``s`` to leave a: negative if it has left already."""
    return support(a, s[0], s[1], s[2])[1] + support(b, -s[0], -s[1], -s[2])[1]


@compiled
def _is_known(pairs, count, i, j):
    found = False
    for k in range(count):
        found |= pairs[k, 0] == i and pairs[k, 1] == j
    return found


@compiled
def _keep_carriers(simplex, pairs, weight, count):
    """Leave out the points of the simplex that do not carry the nearest one; returns how many are left."""
    kept = 0
    for k in range(count):
        if weight[k] > 0.0:
            for axis in range(3):
                simplex[kept, axis] = simplex[k, axis]
            pairs[kept, 0], pairs[kept, 1], weight[kept] = pairs[k, 0], pairs[k, 1], weight[k]
            kept += 1
    return kept


@compiled
def _nearest(simplex, weight, count):
    x = y = z = 0.0
    for k in range(count):
        x += weight[k] * simplex[k, 0]
        y += weight[k] * simplex[k, 1]
        z += weight[k] * simplex[k, 2]
    return x, y, z


@compiled
def _without(s, e):
    """``s`` less its part along ``e``."""
    share = dot(s, e) / dot(e, e)
    return s[0] - share * e[0], s[1] - share * e[1], s[2] - share * e[2]


@compiled
def _direction(simplex, count, v, length):
    """From the nearest point ``v`` towards the origin, at right angles to the edges that carry it.

    Where v is short, little but rounding is left of v / |v|. Edges are long and tell the direction; an edge that hardly
    differs from the first one tells less than v does, and is not asked.
    """
    s = (-v[0] / length, -v[1] / length, -v[2] / length)
    if count == 1:
        return s
    p = (simplex[0, 0], simplex[0, 1], simplex[0, 2])
    e = minus((simplex[1, 0], simplex[1, 1], simplex[1, 2]), p)
    if count == 3:
        f = minus((simplex[2, 0], simplex[2, 1], simplex[2, 2]), p)
        if dot(f, f) > dot(e, e):
            e, f = f, e
        across = _without(f, e)
        if dot(across, across) > length * length * dot(f, f):
            s = _without(s, across)
    s = _without(s, e)
    factor = 1.0 / math.sqrt(dot(s, s))
    return s[0] * factor, s[1] * factor, s[2] * factor


@compiled
def find_distance(a, b, pairs, weight):
    """GJK: the distance of two hulls and the steps taken; 0 where they meet.

    Writes the pairs of points whose differences carry the nearest point of a - b, and their weights; the number of them
    comes third. Last is the direction that was looked along, from a to b.
    """
    simplex = np.zeros((5, 3))
    for axis in range(3):
        simplex[0, axis] = a[axis, 0] - b[axis, 0]
    pairs[0, 0] = pairs[0, 1] = 0
    weight[0] = 1.0
    count = 1
    v = _nearest(simplex, weight, count)
    lower = 0.0
    s = (1.0, 0.0, 0.0)
    for step in range(MOST_STEPS):
        upper = math.sqrt(dot(v, v))
        if upper <= TOUCHING:
            return 0.0, step, count, s
        s = _direction(simplex, count, v, upper)
        i, top_a = support(a, s[0], s[1], s[2])
        j, top_b = support(b, -s[0], -s[1], -s[2])
        lower = max(lower, -(top_a + top_b))
        if upper - lower <= max(GAP, RELATIVE_GAP * upper) or _is_known(pairs, count, i, j):
            return upper, step + 1, count, s
        old_pairs, old_weight, old_count = pairs.copy(), weight.copy(), count
        for axis in range(3):
            simplex[count, axis] = a[axis, i] - b[axis, j]
        pairs[count, 0], pairs[count, 1] = i, j
        if closest_on_simplex(simplex, count + 1, weight) == 0.0:
            return 0.0, step + 1, count + 1, s
        count = _keep_carriers(simplex, pairs, weight, count + 1)
        v = _nearest(simplex, weight, count)
        if dot(v, v) >= upper * upper:  # rounding: no nearer than before
            pairs[:], weight[:] = old_pairs, old_weight
            return upper, step + 1, old_count, s
    return upper, MOST_STEPS, count, s


@compiled
def _turned(s, u, w, angle, k):
    """``s`` turned by ``angle`` towards one of six directions at right angles to it."""
    turn = k * math.pi / 3.0
    c, d = math.cos(turn), math.sin(turn)
    x, y = math.cos(angle), math.sin(angle)
    t = (
        x * s[0] + y * (c * u[0] + d * w[0]),
        x * s[1] + y * (c * u[1] + d * w[1]),
        x * s[2] + y * (c * u[2] + d * w[2]),
    )
    factor = 1.0 / math.sqrt(dot(t, t))
    return t[0] * factor, t[1] * factor, t[2] * factor


@compiled
def _frame(s):
    """Two directions at right angles to ``s`` and to each other."""
    e = (1.0, 0.0, 0.0) if abs(s[0]) < 0.6 else (0.0, 1.0, 0.0)
    u = cross(s, e)
    factor = 1.0 / math.sqrt(dot(u, u))
    u = (u[0] * factor, u[1] * factor, u[2] * factor)
    return u, cross(s, u)


@compiled
def least_overlap(a, b, first):
    """A direction along which two hulls overlap little, and how much: an upper bound on their penetration."""
    best, least = first, overlap_along(a, b, first)
    for k in range(27):  # the axes and all diagonals of a cube, both ways
        x, y, z = k // 9 - 1.0, k // 3 % 3 - 1.0, k % 3 - 1.0
        length = math.sqrt(x * x + y * y + z * z)
        if length > 0.0:
            s = (x / length, y / length, z / length)
            found = overlap_along(a, b, s)
            if found < least:
                best, least = s, found
    angle = FIRST_ANGLE
    while angle > LAST_ANGLE:
        u, w = _frame(best)
        start = best
        for k in range(6):
            s = _turned(start, u, w, angle, k)
            found = overlap_along(a, b, s)
            if found < least:
                best, least = s, found
        if best == start:
            angle *= 0.5
    return best, least
