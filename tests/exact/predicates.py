"""The predicates over many rows: one call per thousand cases."""

from __future__ import annotations

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.neighbours import neighbours_kind
from impinge.exact.orientation import orient2d, orient3d, point
from impinge.exact.point_surface import ray_meets_triangle
from impinge.exact.segment_triangle import segment_triangle
from impinge.exact.triangle_triangle import triangle_triangle, triangle_triangle_exact, triangle_triangle_filtered
from point_tet import point_in_tet

KIND_NAMES = {0: "none", 1: "touching", 2: "crossing", 3: "coplanar"}


@compiled
def orient2d_rows(x, out):
    """Rows of three points in the plane, shape (n, 3, 2)."""
    for i in range(len(x)):
        out[i] = orient2d((x[i, 0, 0], x[i, 0, 1]), (x[i, 1, 0], x[i, 1, 1]), (x[i, 2, 0], x[i, 2, 1]))


@compiled
def orient3d_rows(x, out):
    """Rows of four points, shape (n, 4, 3)."""
    for i in range(len(x)):
        out[i] = orient3d(point(x[i], 0), point(x[i], 1), point(x[i], 2), point(x[i], 3))


@compiled
def triangle_rows(x, out):
    """Rows of two triangles, shape (n, 6, 3)."""
    for i in range(len(x)):
        r = x[i]
        out[i] = triangle_triangle(point(r, 0), point(r, 1), point(r, 2), point(r, 3), point(r, 4), point(r, 5))


@compiled
def exact_triangle_rows(x, out):
    """The same without the filter."""
    for i in range(len(x)):
        r = x[i]
        out[i] = triangle_triangle_exact(point(r, 0), point(r, 1), point(r, 2), point(r, 3), point(r, 4), point(r, 5))


@compiled
def filtered_triangle_rows(x, bound, out):
    """The same by the filter alone."""
    for i in range(len(x)):
        r = x[i]
        out[i] = triangle_triangle_filtered(
            point(r, 0), point(r, 1), point(r, 2), point(r, 3), point(r, 4), point(r, 5), bound
        )


@compiled
def neighbour_rows(x, s, t, out):
    """Rows of a vertex pool (n, v, 3) and two faces (n, 3)."""
    for i in range(len(x)):
        out[i] = neighbours_kind(x[i], (s[i, 0], s[i, 1], s[i, 2]), (t[i, 0], t[i, 1], t[i, 2]))


@compiled
def segment_rows(x, out):
    """Rows of a segment and a triangle, shape (n, 5, 3)."""
    for i in range(len(x)):
        r = x[i]
        out[i] = segment_triangle(point(r, 0), point(r, 1), point(r, 2), point(r, 3), point(r, 4))


@compiled
def tet_rows(x, out):
    """Rows of a point and a tet, shape (n, 5, 3)."""
    for i in range(len(x)):
        r = x[i]
        out[i] = point_in_tet(point(r, 0), point(r, 1), point(r, 2), point(r, 3), point(r, 4))


@compiled
def ray_rows(x, out):
    """Rows of a point and a triangle, shape (n, 4, 3)."""
    for i in range(len(x)):
        r = x[i]
        out[i] = ray_meets_triangle(point(r, 0), point(r, 1), point(r, 2), point(r, 3))


def over_rows(rows, *arrays):
    """Answers of one of the functions above, as a list of ints."""
    out = np.full(len(arrays[0]), -9, dtype=np.int8)
    rows(*(np.ascontiguousarray(array) if np.ndim(array) else array for array in arrays), out)
    return out.tolist()
