"""The point of a simplex that is nearest to the origin: the sub-algorithm of GJK, by trying every face.

A simplex has one to four points. The nearest point lies inside of exactly one of its faces (points, segments,
triangles, the whole), and is there the projection of the origin. So each face is asked for its projection of the
origin, faces whose projection lies outside of them are left out, and the nearest of the others wins. That is the backup
procedure of [GilbertJohnsonKeerthi1988], run always: at most 15 faces, none of which is trusted if it is flat.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, merged
from impinge.exact.triangle_triangle import cross, dot, minus


@merged
def _row(points, i):
    return points[i, 0], points[i, 1], points[i, 2]


@compiled
def _try_segment(points, i, j, weight, best):
    """Weights of the origin's projection on an edge, if it is inside and nearer than ``best``."""
    p, q = _row(points, i), _row(points, j)
    e = minus(q, p)
    length_sq = dot(e, e)
    if length_sq == 0.0:
        return best
    s = -dot(p, e) / length_sq
    if not 0.0 < s < 1.0:
        return best
    v = (p[0] + s * e[0], p[1] + s * e[1], p[2] + s * e[2])
    found = dot(v, v)
    if found < best:
        weight[:] = 0.0
        weight[i], weight[j] = 1.0 - s, s
        return found
    return best


@compiled
def _try_triangle(points, i, j, k, weight, best):
    """The same on a triangle: the origin's projection is inside if it sees all three edges the same way round."""
    p, q, r = _row(points, i), _row(points, j), _row(points, k)
    n = cross(minus(q, p), minus(r, p))
    area_sq = dot(n, n)
    if area_sq == 0.0:
        return best
    u, v, w = dot(n, cross(q, r)), dot(n, cross(r, p)), dot(n, cross(p, q))
    if not (u > 0.0 and v > 0.0 and w > 0.0):
        return best
    height = dot(n, p)
    found = height * height / area_sq
    if found < best:
        total = u + v + w
        weight[:] = 0.0
        weight[i], weight[j], weight[k] = u / total, v / total, w / total
        return found
    return best


@compiled
def _try_inside(points, weight):
    """Whether the origin is inside of the tetrahedron; writes its weights if so."""
    p, q, r, s = _row(points, 0), _row(points, 1), _row(points, 2), _row(points, 3)
    a, b = dot(q, cross(r, s)), -dot(p, cross(r, s))
    c, d = dot(p, cross(q, s)), -dot(p, cross(q, r))
    total = a + b + c + d
    if not ((a > 0.0 and b > 0.0 and c > 0.0 and d > 0.0) or (a < 0.0 and b < 0.0 and c < 0.0 and d < 0.0)):
        return False
    weight[0], weight[1], weight[2], weight[3] = a / total, b / total, c / total, d / total
    return True


@compiled
def closest_on_simplex(points, count, weight):
    """Write the weights of the point nearest to the origin of the first ``count`` points; returns its squared distance.

    Points that do not carry it have weight 0. The distance is 0 where the origin is inside of a tetrahedron.
    """
    if count == 4 and _try_inside(points, weight):
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
