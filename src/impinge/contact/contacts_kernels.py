"""Common points and normals of triangles that meet, and ids of contacts; see ``contacts``."""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.depth.surface_normals_kernels import is_zero, unit, write
from impinge.detect.proximity.distance_kernels import common_points
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
def _scaled(factor, v):
    return factor * v[0], factor * v[1], factor * v[2]


@kernel(parallel_from=256)
def meet_pairs(x_a, faces_a, x_b, faces_b, pairs, outward, has_place, place, normal):
    """A common point of each pair of triangles without a place, and the unit vector from a to b.

    The vector is the mean of the outward normal of a's triangle and the negative one of b's; the z axis if both are
    zero. ``outward`` has -1 for the triangle of a or of b, shape (k, 2), if its body is inside out, else 1.
    """
    for i in prange(len(pairs)):
        s, t = _corners(x_a, faces_a, pairs[i, 0]), _corners(x_b, faces_b, pairs[i, 1])
        if not has_place[i]:
            p, q = common_points(s, t)
            write(place, i, (0.5 * p[0] + 0.5 * q[0], 0.5 * p[1] + 0.5 * q[1], 0.5 * p[2] + 0.5 * q[2]))
        of_s, of_t = _scaled(outward[i, 0], _normal(s)), _scaled(outward[i, 1], _normal(t))
        way = unit(minus(of_s, of_t))
        if is_zero(way):
            way = of_s
        is_valid = not is_zero(way) and math.isfinite(way[0] + way[1] + way[2])
        write(normal, i, way if is_valid else (0.0, 0.0, 1.0))


# Ids ----------------------------------------------------------------------------------------------------


@compiled
def _mixed(h):
    """Spread all bits over all (the finaliser of splitmix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel(parallel_from=1 << 14)
def hash_features(key_a, key_b, kind, feature_a, feature_b, out):
    """Ids from keys of bodies, kind and features; of a vertex in a body (kinds 0 and 1) from the vertex alone."""
    for i in prange(len(kind)):
        what = np.int64(kind[i])
        low, high = key_a[i], key_b[i]
        of_low = np.int64(-1) if what == 1 else np.int64(feature_a[i])
        of_high = np.int64(-1) if what == 0 else np.int64(feature_b[i])
        if low > high:
            low, high, of_low, of_high = high, low, of_high, of_low
            what = 1 - what if what <= 1 else what
        h = np.uint64(0)
        for part in (low, high, np.uint64(what), np.uint64(of_low), np.uint64(of_high)):
            h = _mixed(h + np.uint64(0x9E3779B97F4A7C15) + part)
        out[i] = np.int64(h >> np.uint64(1))
