"""Where triangles meet, and which way parts them; see ``contacts``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.contact.surface_normals_kernels import is_zero, unit, write
from impinge.detect.distance_kernels import common_points
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, minus


@compiled
def _corners(x, faces, t):
    return point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2])


@compiled
def _normal(s):
    """The unit normal of a triangle, zeros if it has no area."""
    return unit(cross(unit(minus(s[1], s[0])), unit(minus(s[2], s[0]))))


@compiled
def _apart(s, t):
    """The unit vector between the normal of s and that against the normal of t; the z axis if neither tells."""
    of_s, of_t = _normal(s), _normal(t)
    way = unit(minus(of_s, of_t))
    if is_zero(way):
        way = of_s
    if is_zero(way) or not math.isfinite(way[0] + way[1] + way[2]):
        return 0.0, 0.0, 1.0
    return way


@kernel(parallel_from=256)
def meet_pairs(x_a, faces_a, x_b, faces_b, pairs, place, normal):
    """A common point of each pair of triangles that meet, and the unit vector from a to b."""
    for i in prange(len(pairs)):
        s, t = _corners(x_a, faces_a, pairs[i, 0]), _corners(x_b, faces_b, pairs[i, 1])
        on_s, on_t = common_points(s, t)
        middle = 0.5 * on_s[0] + 0.5 * on_t[0], 0.5 * on_s[1] + 0.5 * on_t[1], 0.5 * on_s[2] + 0.5 * on_t[2]
        write(place, i, middle)
        write(normal, i, _apart(s, t))
