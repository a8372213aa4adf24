"""Real roots in [0, 1] of polynomials up to degree three with integer coefficients, and signs of quadratics at them.

Roots. A polynomial with a repeated root (its discriminant is zero) has rational roots only, by formula. Otherwise all
       roots are simple. Bisection isolates them: the number of sign changes of the Bernstein coefficients on an
       interval exceeds the number of roots inside by an even number [Descartes]; with none or one it is exact.
Signs. A rational root p / q is inserted. Another root α is known by an interval without any other root of c. There c
       has one sign before α and the other one behind: the sign of c at any number x between the ends compares x with
       α. The sign of a quadratic q at α follows from its vertex m, a rational number, and from its root β on the side
       of m where α is: with the remainder h of c by q, linear, c(β) has the sign of h(β), which compares β with the
       rational root of h, by the sign of q there. Common roots, c(β) = 0, need no other treatment. Nothing is
       approximated, and no step depends on the distances of roots.
Size   With c of 3 B bits and q of 2 B bits, no number exceeds 20 B bits, and some bits per bisection.

A polynomial is a tuple of integers of an arena (``integers``), the constant first: three for a quadratic, four for a
cubic.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.integers import (
    ZERO,
    halved,
    has_overflowed,
    is_even,
    is_zero,
    plus,
    shifted,
    sign,
    times,
    times_small,
    to_doubles,
    whole,
)


@compiled
def value_at_rational(arena, c0, c1, c2, c3, p, q):
    """Sign of a cubic at p / q, with q > 0."""
    qq = times(arena, q, q)
    total = plus(arena, times(arena, c3, p), times(arena, c2, q))
    total = plus(arena, times(arena, total, p), times(arena, c1, qq))
    return sign(arena, plus(arena, times(arena, total, p), times(arena, c0, times(arena, qq, q))))


@compiled
def cubic_in_interval(arena, c, i, level):
    """Coefficients of c((i + s) / 2^level) in s, times 2^(3 level)."""
    c0, c1, c2 = shifted(arena, c[0], 3 * level), shifted(arena, c[1], 2 * level), shifted(arena, c[2], level)
    r2 = plus(arena, c2, times(arena, c[3], i))  # Horner, one row per coefficient
    r1 = plus(arena, c1, times(arena, r2, i))
    d0 = plus(arena, c0, times(arena, r1, i))
    r2 = plus(arena, r2, times(arena, c[3], i))
    d1 = plus(arena, r1, times(arena, r2, i))
    return d0, d1, plus(arena, r2, times(arena, c[3], i)), c[3]


@compiled
def quadratic_in_interval(arena, q, i, level):
    """Coefficients of q((i + s) / 2^level) in s, times 2^(2 level)."""
    r1 = plus(arena, shifted(arena, q[1], level), times(arena, q[2], i))
    d0 = plus(arena, shifted(arena, q[0], 2 * level), times(arena, r1, i))
    return d0, plus(arena, r1, times(arena, q[2], i)), q[2]


@compiled
def sign_changes(arena, d):
    """Sign changes of the Bernstein coefficients of a cubic on [0, 1]; zeros are left out."""
    b1 = plus(arena, d[1], d[0], 3)
    b2 = plus(arena, plus(arena, b1, d[1]), d[2])
    b3 = plus(arena, plus(arena, d[0], d[1]), plus(arena, d[2], d[3]))
    changes, last = 0, 0
    for h in (d[0], b1, b2, b3):
        s = sign(arena, h)
        if s != 0:
            changes += s == -last
            last = s
    return changes


@compiled
def _sign_after(arena, d):
    """Sign of a polynomial just right of 0: that of its first coefficient that is not zero."""
    for h in d:
        if not is_zero(arena, h):
            return sign(arena, h)
    return 0


@compiled
def _remainder(arena, c, q):
    """The remainder of cubic c by quadratic q, times the square of q[2], which is not zero: (h0, h1)."""
    lead = q[2]
    # lead · c - c3 · s · q, then times lead, minus r2 · q
    r1 = plus(arena, times(arena, c[1], lead), times(arena, c[3], q[0]), -1)
    r2 = plus(arena, times(arena, c[2], lead), times(arena, c[3], q[1]), -1)
    r0 = times(arena, times(arena, c[0], lead), lead)
    return (
        plus(arena, r0, times(arena, r2, q[0]), -1),
        plus(arena, times(arena, r1, lead), times(arena, r2, q[1]), -1),
    )


@compiled
def sign_at_isolated(arena, q, c):
    """Sign of quadratic q at the only root in (0, 1) of cubic c, a simple one."""
    s0, s1 = sign(arena, q[0]), sign(arena, plus(arena, q[1], q[0], 2))
    s2 = sign(arena, plus(arena, plus(arena, q[0], q[1]), q[2]))
    if s0 >= 0 and s1 >= 0 and s2 >= 0:
        return 1 if s0 + s1 + s2 > 0 else 0
    if s0 <= 0 and s1 <= 0 and s2 <= 0:
        return -1
    before, lead = _sign_after(arena, c), sign(arena, q[2])
    if lead == 0:  # one root in (0, 1)
        slope = sign(arena, q[1])
        p, denominator = times_small(arena, q[0], -slope), times_small(arena, q[1], slope)
        at = value_at_rational(arena, c[0], c[1], c[2], c[3], p, denominator)
        return 0 if at == 0 else slope if at == before else -slope
    discriminant = sign(arena, plus(arena, times(arena, q[1], q[1]), times(arena, q[0], q[2]), -4))
    if discriminant < 0:
        return lead
    m_p, m_q = times_small(arena, q[1], -lead), times_small(arena, q[2], 2 * lead)  # the vertex
    from_0, from_1 = sign(arena, m_p), sign(arena, plus(arena, m_p, m_q, -1))
    side = 1 if from_0 <= 0 else -1  # of the vertex where the root of c is
    if from_0 > 0 and from_1 < 0:
        at = value_at_rational(arena, c[0], c[1], c[2], c[3], m_p, m_q)
        side = 0 if at == 0 else 1 if at == before else -1
    if discriminant == 0:
        return 0 if side == 0 else lead
    if side == 0:
        return -lead
    # The root β of q on that side is beyond (0, 1), or compared with the root of c by the sign of c at β.
    near, far = (s0, s2) if side == 1 else (s2, s0)  # seen from the other end of the interval
    is_vertex_outside = from_0 <= 0 or from_1 >= 0
    if lead * far <= 0:
        return -lead
    if is_vertex_outside and lead * near >= 0:
        return lead
    h0, h1 = _remainder(arena, c, q)
    slope = sign(arena, h1)
    if slope == 0:
        at = sign(arena, h0)
    else:
        z_p, z_q = times_small(arena, h0, -slope), times_small(arena, h1, slope)  # the root of h
        outwards = side * sign(arena, plus(arena, times(arena, z_p, m_q), times(arena, m_p, z_q), -1))
        is_beta_farther = np.int64(1)
        if outwards > 0:
            is_beta_farther = -lead * value_at_rational(arena, q[0], q[1], q[2], ZERO, z_p, z_q)
        at = slope * side * is_beta_farther
    if at == 0:
        return 0
    is_behind = at == before  # β < α
    return lead if is_behind == (side == 1) else -lead


@compiled
def interval_of(arena, c, i, level, width):
    """Doubles around the only root of c in (i, i + 1) / 2^level, no farther apart than ``width`` times the upper one.

    As narrow as doubles allow, if that is more.
    """
    before = _sign_after(arena, cubic_in_interval(arena, c, i, level))
    one = whole(arena, np.int64(1))
    lo = to_doubles(arena, i, level)[0]
    hi = to_doubles(arena, plus(arena, i, one), level)[1]
    for _step in range(1200):
        if hi - lo <= width * hi or has_overflowed(arena):
            break
        level += 1
        i = times_small(arena, i, 2)
        middle = plus(arena, i, one)
        at = value_at_rational(arena, c[0], c[1], c[2], c[3], middle, shifted(arena, one, level))
        below, above = to_doubles(arena, middle, level)
        if at == 0:
            return below, above
        if at == before:
            i, lo = middle, below
        else:
            hi = above
    return lo, hi


@compiled
def next_interval(arena, i, level):
    """The dyadic interval after [i, i + 1] / 2^level: the largest that begins at its end."""
    i = plus(arena, i, whole(arena, np.int64(1)))
    while level > 0 and is_even(arena, i) and not has_overflowed(arena):
        i, level = halved(arena, i), level - 1
    return i, level
