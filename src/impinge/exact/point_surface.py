"""Point in closed surface: crossings along a ray, with exact signs.

The ray goes from p upwards (+z). Symbolic perturbation moves p by (δ, δ², 0) with an infinitesimal δ > 0: a zero sign
of orient2d is replaced by the sign of its change under that move. Then no ray meets an edge, every closed surface is
crossed consistently, and vertical triangles are never crossed. A point on the surface is detected first and counts as
inside.
"""

from impinge.backend.jit import compiled
from impinge.exact.kinds import NONE
from impinge.exact.orientation import orient2d, orient3d
from impinge.exact.segment_triangle import segment_triangle

MISSED = 0
LEFT = 1
"""The ray crosses the triangle in the direction of its normal: from inside to outside, if the surface is oriented."""
ENTERED = -1
ON_SURFACE = 2


@compiled
def _moved_side(a, b, p):
    """Side of p + (δ, δ²) seen from a to b in the xy plane; 0 only if a and b coincide there.

    orient2d = (bx - ax)(py - ay) - (by - ay)(px - ax) changes by -(by - ay) δ + (bx - ax) δ².
    """
    side = orient2d((a[0], a[1]), (b[0], b[1]), (p[0], p[1]))
    if side != 0:
        return side
    if a[1] != b[1]:
        return 1 if a[1] > b[1] else -1
    return 0 if a[0] == b[0] else (1 if b[0] > a[0] else -1)


@compiled
def ray_meets_triangle(p, a, b, c):
    """LEFT or ENTERED if the ray from p upwards crosses triangle abc, ON_SURFACE if p lies on it, else MISSED."""
    if max(a[2], b[2], c[2]) < p[2]:
        return MISSED
    if not (min(a[0], b[0], c[0]) <= p[0] <= max(a[0], b[0], c[0])):
        return MISSED
    if not (min(a[1], b[1], c[1]) <= p[1] <= max(a[1], b[1], c[1])):
        return MISSED
    height = orient3d(a, b, c, p)
    if height == 0 and segment_triangle(p, p, a, b, c) != NONE:
        return ON_SURFACE
    turn = _moved_side(a, b, p)
    if turn == 0 or _moved_side(b, c, p) != turn or _moved_side(c, a, p) != turn:
        return MISSED
    # Seen from above, abc turns left iff its normal points up; p is below it iff it is on the other side.
    if height * turn >= 0:
        return MISSED
    return LEFT if turn > 0 else ENTERED
