"""Depths from the faces and corners of one tet; see ``local_depth``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.depth.surface_normals_kernels import is_zero, outward_sign, times, unit, vertex_normal, write
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

BY_FACE, BY_VERTEX, BY_NOTHING = 0, 1, 2
"""What the local estimate found at a tet, the best first."""


@compiled
def _nearest_face(p, t, x, tets, is_exposed):
    """Distance to the planes of the tet's faces on the surface, the least, and that face's normal out of the tet."""
    best, direction = math.inf, (0.0, 0.0, 0.0)
    for k in range(4):
        if is_exposed[t, k]:
            a, b, c = point(x, tets[t, (k + 1) % 4]), point(x, tets[t, (k + 2) % 4]), point(x, tets[t, (k + 3) % 4])
            n = unit(cross(minus(b, a), minus(c, a)))
            if dot(n, minus(point(x, tets[t, k]), a)) > 0.0:
                n = times(n, -1.0)
            distance = max(dot(minus(a, p), n), 0.0)
            if distance < best and not is_zero(n):
                best, direction = distance, n
    return best, direction


@compiled
def _nearest_vertex(p, t, tets, surface, outward):
    """Distance to the corners of the tet that are on the surface, the least, and the normal there."""
    best, direction = math.inf, (0.0, 0.0, 0.0)
    for k in range(4):
        v = tets[t, k]
        n = times(vertex_normal(v, surface), outward)  # zero of a vertex inside
        gap = minus(point(surface[0], v), p)
        distance = math.sqrt(dot(gap, gap))
        if distance < best and not is_zero(n):
            best, direction = distance, n
    return best, direction


@kernel(parallel_from=1024)
def estimate_at_tets(points, tet, tets, is_exposed, surface, depth, direction, source):
    """Depth and direction of vertices from what of the surface their tets have."""
    outward = outward_sign(surface[0], surface[1])
    for i in prange(len(points)):
        p = point(points, i)
        best, n = _nearest_face(p, tet[i], surface[0], tets, is_exposed)
        source[i] = BY_FACE
        if best == math.inf:
            best, n = _nearest_vertex(p, tet[i], tets, surface, outward)
            source[i] = BY_VERTEX
        if best == math.inf:
            source[i] = BY_NOTHING
        depth[i] = best
        write(direction, i, n)
