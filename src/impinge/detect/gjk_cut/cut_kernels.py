"""Cuts along directions: projections, supports, remaining triangles, the next direction; ``detector`` has the method.

Names that recur:
arena     (point, corner, tri, box): vertices, one row per axis, as float32; the vertices of triangles, counted from the
          first of their piece; the ids of triangles; and their boxes, lowest x, y, z, then highest. All pieces of a
          query lie in one arena.
piece     (first vertex, vertex count, first triangle, triangle count): a part of one body with vertices of its own.
listed    triangles of a piece that remain, counted from its first; the first ``count`` entries are meant.
s         (sx, sy, sz), a direction of length 1.
scratch   memory of a thread, see ``Scratch``.
"""

# mypy: ignore-errors

import math
from typing import Any, NamedTuple

import numpy as np

from impinge.backend.jit import compiled, merged
from impinge.exact.triangle_triangle import dot, minus

MARGIN = 2.0**-18
"""How far below the other body's support a triangle has to end before it is cut; derived in ``detector``."""
ENOUGH_FOR_CENTRE = 128
"""Sample size of a list's centre, which only provides the first direction."""
WORTH = 0.5
"""Share of a list that a cut has to remove to be followed by another."""
MOST_CUTS = 32
"""Most cuts of one pair of pieces, far above what occurs: no input cycles forever."""


class Scratch(NamedTuple):
    """Memory of a thread besides the arena."""

    listed_a: Any
    listed_b: Any
    parted: Any
    number: Any
    projection: Any
    """Of the vertices of a, then of b."""
    reach: Any
    """Of the triangles of a, then of b."""
    key: Any
    extent: Any
    """Largest boxes met, of a and of b."""
    node_box: Any


@compiled
def reach_of_triangle(t, corner, projection):
    """How far triangle ``t`` reaches: the largest projection of its corners."""
    p, q, r = projection[corner[t, 0]], projection[corner[t, 1]], projection[corner[t, 2]]
    high = p if p > q else q
    return high if high > r else r


@compiled
def project(arena, piece, s, projection):
    """Project every vertex of a piece once."""
    first, last = piece[0], piece[0] + piece[1]
    x, y, z = arena[0][0][first:last], arena[0][1][first:last], arena[0][2][first:last]
    sx, sy, sz = np.float32(s[0]), np.float32(s[1]), np.float32(s[2])
    for i in range(piece[1]):
        projection[i] = x[i] * sx + y[i] * sy + z[i] * sz


@compiled
def _find_support(arena, piece, listed, count, projection, reach):
    """Write the reach of each listed triangle; returns the farthest reach and the vertex that has it."""
    corner = arena[1][piece[2] : piece[2] + piece[3]]
    farthest, best = np.float32(-np.inf), 0
    for k in range(count):
        value = reach_of_triangle(listed[k], corner, projection)
        reach[k] = value
        if value > farthest:
            farthest, best = value, k
    t = listed[best]
    v = corner[t, 0]
    for k in range(1, 3):
        if projection[corner[t, k]] == farthest:
            v = corner[t, k]
    i = piece[0] + np.int64(v)
    return farthest, (np.float64(arena[0][0, i]), np.float64(arena[0][1, i]), np.float64(arena[0][2, i]))


@compiled
def _cut_list(listed, count, reach, limit):
    """Keep the triangles that reach ``limit``; returns how many remain. No branch depends on a triangle."""
    kept = 0
    for k in range(count):
        listed[kept] = listed[k]
        kept += not (reach[k] < limit)
    return kept


@compiled
def list_all(piece, listed):
    """List all triangles of a piece; returns their number."""
    for k in range(piece[3]):
        listed[k] = k
    return piece[3]


@compiled
def cut_once(arena, a, count_a, b, count_b, s, scratch):
    """Algorithm 4.1: cut both lists along ``s``; returns the counts that remain, and the difference of the supports."""
    listed_a, listed_b = scratch.listed_a, scratch.listed_b
    of_a, of_b = scratch.projection, scratch.projection[a[1] :]
    reach_a, reach_b = scratch.reach, scratch.reach[count_a:]
    # The supports: a's vertex farthest along s, b's vertex farthest along -s.
    project(arena, a, s, of_a)
    top_a, v1 = _find_support(arena, a, listed_a, count_a, of_a, reach_a)
    project(arena, b, (-s[0], -s[1], -s[2]), of_b)
    top_b, v2 = _find_support(arena, b, listed_b, count_b, of_b, reach_b)
    # Along s, a ends at top_a and b begins at -top_b.
    left_a = _cut_list(listed_a, count_a, reach_a, np.float32(-top_b - MARGIN))
    left_b = _cut_list(listed_b, count_b, reach_b, np.float32(-top_a - MARGIN))
    return left_a, left_b, minus(v1, v2)


@compiled
def normalised(v):
    """A vector of length 1, or (1, 0, 0) if ``v`` is too short to have a direction."""
    length_sq = dot(v, v)
    if not length_sq > 0.0:
        return 1.0, 0.0, 0.0
    factor = 1.0 / math.sqrt(length_sq)
    return v[0] * factor, v[1] * factor, v[2] * factor


@compiled
def _centre(arena, piece, listed, count):
    """The mean of one corner of each listed triangle; of a long list, of a sample."""
    x, y, z = arena[0][0][piece[0] :], arena[0][1][piece[0] :], arena[0][2][piece[0] :]
    corner = arena[1][piece[2] :]
    sum_x = sum_y = sum_z = 0.0
    taken = 0
    for k in range(0, count, 1 + count // ENOUGH_FOR_CENTRE):
        v = corner[listed[k], 0]
        sum_x, sum_y, sum_z, taken = sum_x + x[v], sum_y + y[v], sum_z + z[v], taken + 1
    return sum_x / taken, sum_y / taken, sum_z / taken


@merged
def combined_cut(arena, a, b, scratch):
    """Algorithm 4.2: cut two pieces along one direction after the other, until a cut removes too little of both.

    Returns how many triangles of each remain listed (none if a direction separates the pieces), the direction of the
    last cut, and the number of cuts.
    """
    listed_a, listed_b = scratch.listed_a, scratch.listed_b
    count_a, count_b = list_all(a, listed_a), list_all(b, listed_b)
    s = normalised(minus(_centre(arena, b, listed_b, count_b), _centre(arena, a, listed_a, count_a)))
    cuts = 0
    while True:
        left_a, left_b, t = cut_once(arena, a, count_a, b, count_b, s, scratch)
        is_worth = count_a - left_a > WORTH * count_a or count_b - left_b > WORTH * count_b
        count_a, count_b = left_a, left_b
        cuts += 1
        # t = 0: the supports coincide.
        if not is_worth or count_a == 0 or count_b == 0 or cuts >= MOST_CUTS or not dot(t, t) > 0.0:
            return count_a, count_b, s, cuts
        # Chung-Wang: mirror s at the plane across t; where that is s again, turn s towards -t.
        t = normalised(t)
        along = dot(t, s)
        turn = 1.0 if along == 0.0 else 2.0 * along
        s = normalised((s[0] - turn * t[0], s[1] - turn * t[1], s[2] - turn * t[2]))
