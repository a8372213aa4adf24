"""Point in tetrahedron by four exact signs, compiled: judges scenes that are too large for the rational oracle."""

from impinge.backend.jit import compiled
from impinge.exact.orientation import orient3d


@compiled
def point_in_tet(p, a, b, c, d):
    """1 if ``p`` is inside, 0 if on the border, -1 if outside. Either orientation; a flat tet contains nothing."""
    sign = orient3d(a, b, c, d)
    if sign == 0:
        return -1
    nearest = 1
    for u, v, w in ((b, d, c), (a, c, d), (a, d, b), (a, b, c)):  # each face, its normal towards the inside
        side = sign * orient3d(u, v, w, p)
        if side < 0:
            return -1
        nearest = min(nearest, side)
    return nearest
