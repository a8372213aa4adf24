"""Orientation predicates: signs of 2x2 and 3x3 determinants of points, exact for all finite doubles.

1. Filter.  The determinant is computed in doubles, with a bound on its rounding error. If it exceeds the
            bound, its sign is certain. On generic data this decides everything.
2. Shape.   A determinant with a row or column of zeros is zero (points in an axis-aligned plane, equal points).
3. Twice.   In 3-D, the same in double-double arithmetic, whose bound is 2^-45 of the first one. This decides points
            that rounding made nearly coplanar, such as flat faces after a rotation.
4. Exact.   The rest goes to the accumulator. Mostly the determinant is exactly zero.

Signs    orient3d(a, b, c, d) > 0 iff d lies on the side of plane abc that the normal (b - a) × (c - a) points to.
         (Shewchuk's orient3d has the opposite sign.)
Bounds   Let u = 2^-53. A product of three differences that goes through k roundings is off by at most
         ((1 + u)^k - 1) of its size. In 3-D k = 8: three differences, two products, the inner difference and
         two sums; so |error| <= 8.01 u · perm, where perm sums the sizes of all products, and 9 u · perm as
         computed is on the safe side. In 2-D k = 4: 5 u. Underflow may add 2^-1074 per product, times the factor
         that comes after it; the bounds contain 2^-1000 of that factor. Overflow gives inf or NaN, which no
         comparison calls certain.
Source   the idea of filtered exact predicates is Shewchuk's [Shewchuk1997]; bounds and steps 2 to 4 are derived here.
"""

from numba import types

from impinge.backend.jit import compiled, outlined
from impinge.exact.accumulator import add_determinant, add_product, empty_accumulator, sign_of
from impinge.exact.double_double import BOUND as BOUND_TWICE
from impinge.exact.double_double import determinant, difference, is_zero

UNIT = 2.0**-53
BOUND_2D = 5.0 * UNIT
BOUND_3D = 9.0 * UNIT
UNDERFLOW = 2.0**-1000
"""Far above the error of underflow, far below the determinants of any scene."""


@compiled
def point(x, i):
    """Row ``i`` of positions as a tuple."""
    return x[i, 0], x[i, 1], x[i, 2]


@outlined(types.int64(*6 * [types.float64]))
def _orient2d_exact(ax, ay, bx, by, cx, cy):
    a, b, c = (ax, ay), (bx, by), (cx, cy)
    limbs = empty_accumulator()
    for p, q in ((a, b), (b, c), (c, a)):
        add_product(limbs, p[0], q[1], 1.0)
        add_product(limbs, -p[1], q[0], 1.0)
    return sign_of(limbs)


@compiled
def orient2d(a, b, c):
    """Sign of (b - a) × (c - a): 1 if a, b, c turn left, -1 if they turn right, 0 if they are collinear."""
    ux, uy = b[0] - a[0], b[1] - a[1]
    vx, vy = c[0] - a[0], c[1] - a[1]
    left, right = ux * vy, uy * vx
    det = left - right
    bound = BOUND_2D * (abs(left) + abs(right)) + UNDERFLOW
    if det > bound:
        return 1
    if det < -bound:
        return -1
    # A difference of doubles is zero only if they are equal, so these zeros are exact.
    if (ux == 0.0 or vy == 0.0) and (uy == 0.0 or vx == 0.0):
        return 0
    return _orient2d_exact(a[0], a[1], b[0], b[1], c[0], c[1])


@compiled
def _orient3d_exact(a, b, c, d):
    """One determinant of the differences if these are exact; else four determinants of the points themselves."""
    limbs = empty_accumulator()
    u, u_low = difference(b, a)
    v, v_low = difference(c, a)
    w, w_low = difference(d, a)
    if is_zero(u_low) and is_zero(v_low) and is_zero(w_low):
        add_determinant(limbs, 1.0, u, v, w)
        return sign_of(limbs)
    add_determinant(limbs, 1.0, b, c, d)
    add_determinant(limbs, -1.0, a, c, d)
    add_determinant(limbs, 1.0, a, b, d)
    add_determinant(limbs, -1.0, a, b, c)
    return sign_of(limbs)


@outlined(types.int64(*13 * [types.float64]))
def _orient3d_hard(ax, ay, az, bx, by, bz, cx, cy, cz, dx, dy, dz, perm):
    """The sign where the filter is uncertain: in double-double arithmetic, then exactly."""
    a, b, c, d = (ax, ay, az), (bx, by, bz), (cx, cy, cz), (dx, dy, dz)
    det, is_exact = determinant(a, b, c, d)
    bound = BOUND_TWICE * perm + UNDERFLOW * (1.0 + abs(d[0] - a[0]) + abs(d[1] - a[1]) + abs(d[2] - a[2]))
    if det > bound:
        return 1
    if det < -bound:
        return -1
    if is_exact:
        return 1 if det > 0.0 else -1 if det < 0.0 else 0
    return _orient3d_exact(a, b, c, d)


@compiled
def orient3d(a, b, c, d):
    """Sign of ((b - a) × (c - a)) · (d - a): 1 if d is on the normal side of plane abc, -1 on the other, 0 on it."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    wx, wy, wz = d[0] - a[0], d[1] - a[1], d[2] - a[2]
    xy, yx = ux * vy, uy * vx
    yz, zy = uy * vz, uz * vy
    zx, xz = uz * vx, ux * vz
    det = (yz - zy) * wx + (zx - xz) * wy + (xy - yx) * wz
    perm = (abs(yz) + abs(zy)) * abs(wx) + (abs(zx) + abs(xz)) * abs(wy) + (abs(xy) + abs(yx)) * abs(wz)
    bound = BOUND_3D * perm + UNDERFLOW * (1.0 + abs(wx) + abs(wy) + abs(wz))
    if det > bound:
        return 1
    if det < -bound:
        return -1
    if (
        (ux == 0.0 and vx == 0.0 and wx == 0.0)  # a column or a row of zeros
        or (uy == 0.0 and vy == 0.0 and wy == 0.0)
        or (uz == 0.0 and vz == 0.0 and wz == 0.0)
        or (ux == 0.0 and uy == 0.0 and uz == 0.0)
        or (vx == 0.0 and vy == 0.0 and vz == 0.0)
        or (wx == 0.0 and wy == 0.0 and wz == 0.0)
    ):
        return 0
    return _orient3d_hard(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2], d[0], d[1], d[2], perm)
