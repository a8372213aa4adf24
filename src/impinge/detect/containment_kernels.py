"""Points against all triangles of a closed surface."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange
from impinge.exact.orientation import point
from impinge.exact.point_surface import CROSSED, ON_SURFACE, ray_meets_triangle


@kernel(parallel_from=2)
def mark_inside(points, x, faces, ids, inside):
    """Whether each point is inside or on the surface."""
    for i in prange(len(points)):
        p = point(points, i)
        odd = False
        for k in range(len(ids)):
            t = ids[k]
            answer = ray_meets_triangle(p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2]))
            if answer == ON_SURFACE:
                odd = True
                break
            if answer == CROSSED:
                odd = not odd
        inside[i] = odd
