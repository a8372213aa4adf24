"""Depths from faces and corners of one tet; see ``local_depth``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import kernel, prange
from impinge.detect.depth.surface_normals_kernels import is_zero, outward_sign, times, unit, vertex_normal, write
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

BY_FACE, BY_VERTEX, BY_NOTHING = 0, 1, 2
"""Source of the local estimate, the best first."""


@kernel(parallel_from=1024)
def estimate_at_tets(points, tet, tets, is_exposed, surface, depth, direction, source):
    """Depth and direction of vertices from the faces or corners of their tets that are on the surface."""
    outward = outward_sign(surface[0], surface[1])
    for i in prange(len(points)):
        p, t, x = point(points, i), tet[i], surface[0]
        best, way = math.inf, (0.0, 0.0, 0.0)
        source[i] = BY_FACE
        for k in range(4):  # the least distance to the plane of an exposed face, and its normal out of the tet
            if is_exposed[t, k]:
                a, b, c = point(x, tets[t, (k + 1) % 4]), point(x, tets[t, (k + 2) % 4]), point(x, tets[t, (k + 3) % 4])
                n = unit(cross(minus(b, a), minus(c, a)))
                if dot(n, minus(point(x, tets[t, k]), a)) > 0.0:
                    n = times(n, -1.0)
                distance = max(dot(minus(a, p), n), 0.0)
                if distance < best and not is_zero(n):
                    best, way = distance, n
        if best == math.inf:
            source[i] = BY_VERTEX
            for k in range(4):  # the least distance to a corner on the surface, and the normal there
                n = times(vertex_normal(tets[t, k], surface), outward)  # zero of a vertex inside
                gap = minus(point(x, tets[t, k]), p)
                distance = math.sqrt(dot(gap, gap))
                if distance < best and not is_zero(n):
                    best, way = distance, n
        if best == math.inf:
            source[i] = BY_NOTHING
        depth[i] = best
        write(direction, i, way)
