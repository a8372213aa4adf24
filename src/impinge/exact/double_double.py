"""Determinants in double-double arithmetic: each rounding error is computed and carried along [Dekker1971].

A sum or product of doubles equals its rounded value plus an error that is a double itself. Differences are exact pairs
(high, low); the determinant of the highs is summed as (high, low), and the lows enter to first order, through the
cofactors.

Bound  With u = 2^-53 and perm as in ``orientation``, what is neglected adds up to less than 130 u² perm: 12 in the
       minors and their products, 60 in the sum of the three terms, 33 in the first-order part, 3 in the parts of
       second order, 20 in the last sum. The caller allows 256 u² = 2^-98. Overflow gives inf or NaN, which no
       comparison calls certain.
"""

from impinge.backend.jit import compiled

BOUND = 2.0**-98

TINY = 2.0**-300
"""The lowest bit of a product of three doubles above this is at least 2^(3·(-300 - 52)), which a double can hold."""

_SPLITTER = 134217729.0
"""2^27 + 1: cuts a double into two halves of 26 bits [Veltkamp]."""


@compiled
def _sum(a, b):
    """A + b as (rounded, error)."""
    s = a + b
    b_part = s - a
    return s, (a - (s - b_part)) + (b - b_part)


@compiled
def _product(a, b):
    """A · b as (rounded, error), without a fused multiply-add."""
    p = a * b
    t = _SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@compiled
def is_zero(v):
    """Whether all three coordinates are zero."""
    return v[0] == 0.0 and v[1] == 0.0 and v[2] == 0.0


@compiled
def _cannot_underflow(v):
    """Whether products of three such coordinates keep even the error of their error."""
    x, y, z = abs(v[0]), abs(v[1]), abs(v[2])
    return (x == 0.0 or x > TINY) and (y == 0.0 or y > TINY) and (z == 0.0 or z > TINY)


@compiled
def difference(a, b):
    """Three coordinates of a - b, as (rounded, errors)."""
    x, dx = _sum(a[0], -b[0])
    y, dy = _sum(a[1], -b[1])
    z, dz = _sum(a[2], -b[2])
    return (x, y, z), (dx, dy, dz)


@compiled
def _term(a, b, c, d, w):
    """(a·b - c·d) · w as (high, low), and whether no error occurred."""
    p, p_error = _product(a, b)
    q, q_error = _product(c, d)
    minor, minor_error = _sum(p, -q)
    high, low = _product(minor, w)
    is_exact = p_error == 0.0 and q_error == 0.0 and minor_error == 0.0
    return high, low + ((p_error - q_error) + minor_error) * w, is_exact


@compiled
def _triple(t, v, w):
    """T · (v × w) in doubles."""
    return t[0] * (v[1] * w[2] - v[2] * w[1]) + t[1] * (v[2] * w[0] - v[0] * w[2]) + t[2] * (v[0] * w[1] - v[1] * w[0])


@compiled
def determinant(a, b, c, d):
    """((b - a) × (c - a)) · (d - a) in double-double arithmetic, rounded; and whether no error occurred.

    Coordinates of up to 17 bits, such as small integers, cause no error.
    """
    u, u_low = difference(b, a)
    v, v_low = difference(c, a)
    w, w_low = difference(d, a)
    x_high, x_low, x_exact = _term(u[1], v[2], u[2], v[1], w[0])
    y_high, y_low, y_exact = _term(u[2], v[0], u[0], v[2], w[1])
    z_high, z_low, z_exact = _term(u[0], v[1], u[1], v[0], w[2])
    xy, xy_error = _sum(x_high, y_high)
    high, high_error = _sum(xy, z_high)
    low = ((x_low + y_low) + z_low) + (xy_error + high_error)
    first_order = _triple(u_low, v, w) + _triple(v_low, w, u) + _triple(w_low, u, v)
    is_exact = (
        x_exact and y_exact and z_exact
        and x_low == 0.0 and y_low == 0.0 and z_low == 0.0 and xy_error == 0.0 and high_error == 0.0
        and is_zero(u_low) and is_zero(v_low) and is_zero(w_low)
        and _cannot_underflow(u) and _cannot_underflow(v) and _cannot_underflow(w)
    )  # fmt: skip
    return high + (low + first_order), is_exact
