"""Exact test of points against tetrahedra by four signs, compiled: a judge that is faster than the oracle."""

from impinge.backend.jit import compiled
from impinge.exact.orientation import orient3d


@compiled
def point_in_tet(p, a, b, c, d):
    """1 inside, 0 on the boundary, -1 outside. Either orientation; a flat tet contains nothing."""
    sign = orient3d(a, b, c, d)
    if sign == 0:
        return -1
    nearest = 1
    for u, v, w in ((b, d, c), (a, c, d), (a, d, b), (a, b, c)):  # faces with inward normals
        side = sign * orient3d(u, v, w, p)
        if side < 0:
            return -1
        nearest = min(nearest, side)
    return nearest
