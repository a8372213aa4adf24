"""Points against all triangles of a closed surface."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange
from impinge.exact.orientation import point
from impinge.exact.point_surface import ON_SURFACE, ray_meets_triangle


@kernel(parallel_from=2)
def mark_inside(points, x, faces, ids, oriented, inside):
    """Whether each point is inside or on the surface: by winding number of ``oriented`` ones, by parity of others."""
    for i in prange(len(points)):
        p = point(points, i)
        winding = crossings = 0
        on_surface = False
        for k in range(len(ids)):
            t = ids[k]
            answer = ray_meets_triangle(p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2]))
            if answer == ON_SURFACE:
                on_surface = True
                break
            if oriented[k]:
                winding += answer
            else:
                crossings += abs(answer)
        inside[i] = on_surface or winding != 0 or crossings % 2 == 1
