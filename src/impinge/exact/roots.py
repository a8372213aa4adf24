"""Real roots in [0, 1] of polynomials up to degree three with integer coefficients, and signs of quadratics at them.

Roots. A polynomial with a repeated root (its discriminant is zero) has rational roots only, by formula. Otherwise all
       roots are simple. Bisection isolates them: the number of sign changes of the Bernstein coefficients on an interval
       exceeds the number of roots inside by an even number [Descartes]; with none or one it is exact.
Signs. A rational root p / q is inserted. Another root α is known by an interval without any other root of c. There c
       has one sign before α and the other one behind: the sign of c at any number x between the ends compares x with
       α. The sign of a quadratic q at α follows from its vertex m, a rational number, and from its root β on the side of
       m where α is: with the remainder h of c by q, linear, c(β) has the sign of h(β), which compares β with the rational
       root of h, by the sign of q there. Common roots, c(β) = 0, need no other treatment. Nothing is approximated, and
       no step depends on the distances of roots.
Size   With c of 3 B bits and q of 2 B bits, no number exceeds 20 B bits, and some bits per bisection.

A polynomial is a tuple of coefficients, the constant first: three for a quadratic, four for a cubic.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.integers import (
    halved,
    is_odd,
    minus,
    plus,
    shifted,
    sign,
    times,
    times_small,
    to_doubles,
    whole,
)


@compiled
def _product3(a, b, c):
    return times(times(a, b), c)


@compiled
def sign_at_rational(c, p, q):
    """Sign of a polynomial of up to four coefficients at p / q, with q > 0."""
    total = c[len(c) - 1]
    scale = q
    for k in range(len(c) - 2, -1, -1):  # Horner, times powers of q
        total = plus(times(total, p), times(c[k], scale))
        if k > 0:
            scale = times(scale, q)
    return sign(total)


@compiled
def cubic_in_interval(c, i, level):
    """Coefficients of c((i + s) / 2^level) in s, times 2^(3 level)."""
    ii = times(i, i)
    c1, c2 = shifted(c[1], 2 * level), shifted(c[2], level)
    d0 = plus(plus(shifted(c[0], 3 * level), times(c1, i)), plus(times(c2, ii), _product3(c[3], ii, i)))
    d1 = plus(plus(c1, times_small(times(c2, i), 2)), times_small(times(c[3], ii), 3))
    return d0, d1, plus(c2, times_small(times(c[3], i), 3)), c[3]


@compiled
def quadratic_in_interval(q, i, level):
    """Coefficients of q((i + s) / 2^level) in s, times 2^(2 level)."""
    q1 = shifted(q[1], level)
    d0 = plus(plus(shifted(q[0], 2 * level), times(q1, i)), _product3(q[2], i, i))
    return d0, plus(q1, times_small(times(q[2], i), 2)), q[2]


@compiled
def sign_changes(d):
    """Sign changes of the Bernstein coefficients of a cubic on [0, 1]; zeros are left out."""
    b0 = times_small(d[0], 3)
    b1 = plus(b0, d[1])
    b2 = plus(plus(b1, d[1]), d[2])
    b3 = plus(plus(d[0], d[1]), plus(d[2], d[3]))
    changes, last = 0, 0
    for s in (sign(b0), sign(b1), sign(b2), sign(b3)):
        if s != 0:
            changes += s == -last
            last = s
    return changes


@compiled
def sign_after(d):
    """Sign of a polynomial just right of 0: that of its first coefficient that is not zero."""
    for k in range(len(d)):
        if len(d[k]) > 0:
            return sign(d[k])
    return 0


@compiled
def _remainder(c, q):
    """A positive multiple of the remainder of cubic c by quadratic q, q[2] not zero: (h0, h1)."""
    lead = q[2]
    r0, r1, r2 = times(c[0], lead), times(c[1], lead), times(c[2], lead)
    if len(c[3]) > 0:  # lead · c - c3 · s · q
        r1, r2 = minus(r1, times(c[3], q[0])), minus(r2, times(c[3], q[1]))
    # lead² c - (c3 lead s + r2) q
    return minus(times(r0, lead), times(r2, q[0])), minus(times(r1, lead), times(r2, q[1]))


@compiled
def sign_at_isolated(q, c):
    """Sign of quadratic q at the only root in (0, 1) of cubic c, a simple one."""
    s0, s1, s2 = sign(q[0]), sign(plus(times_small(q[0], 2), q[1])), sign(plus(plus(q[0], q[1]), q[2]))
    if s0 >= 0 and s1 >= 0 and s2 >= 0:
        return 1 if s0 + s1 + s2 > 0 else 0
    if s0 <= 0 and s1 <= 0 and s2 <= 0:
        return -1
    before = sign_after(c)
    lead = sign(q[2])
    if lead == 0:  # one root in (0, 1)
        slope = sign(q[1])
        at = sign_at_rational(c, times_small(q[0], -slope), times_small(q[1], slope))
        return 0 if at == 0 else slope if at == before else -slope
    discriminant = sign(minus(times(q[1], q[1]), times_small(times(q[0], q[2]), 4)))
    if discriminant < 0:
        return lead
    m_p, m_q = times_small(q[1], -lead), times_small(q[2], 2 * lead)  # the vertex
    side = 1  # of the vertex where the root of c is
    if sign(m_p) > 0:
        if sign(minus(m_p, m_q)) >= 0:
            side = -1
        else:
            at = sign_at_rational(c, m_p, m_q)
            side = 0 if at == 0 else 1 if at == before else -1
    if discriminant == 0:
        return 0 if side == 0 else lead
    if side == 0:
        return -lead
    # The root β of q on that side: beyond (0, 1), or compared with the root of c by the sign of c at β.
    at_left, at_right = lead * s0, lead * s2
    if side == 1:
        if at_right <= 0:
            return -lead
        if sign(m_p) <= 0 and at_left >= 0:
            return lead
    else:
        if at_left <= 0:
            return -lead
        if sign(minus(m_p, m_q)) >= 0 and at_right >= 0:
            return lead
    h0, h1 = _remainder(c, q)
    slope = sign(h1)
    if slope == 0:
        at = sign(h0)
    else:
        z_p, z_q = times_small(h0, -slope), times_small(h1, slope)
        beyond = side * sign(minus(times(z_p, m_q), times(m_p, z_q)))  # where the root of h is, seen from the vertex
        ahead = 1 if beyond <= 0 else -lead * sign_at_rational(q, z_p, z_q)  # β farther from the vertex than that root?
        at = slope * side * ahead
    if at == 0:
        return 0
    is_behind = at == before  # whether β < α
    return lead if is_behind == (side == 1) else -lead


@compiled
def interval_of(c, i, level, width):
    """Doubles around the only root of c in [i, i + 1] / 2^level, no farther apart than ``width`` times the upper one.

    As narrow as doubles allow, if that is more.
    """
    before = sign_after(cubic_in_interval(c, i, level))
    one = whole(np.int64(1))
    lo, _ = to_doubles(i, level)
    _, hi = to_doubles(plus(i, one), level)
    for _step in range(1200):
        if hi - lo <= width * hi:
            break
        i, level = times_small(i, 2), level + 1
        middle = plus(i, one)
        at = sign_at_rational(c, middle, shifted(one, level))
        below, above = to_doubles(middle, level)
        if at == 0:
            return below, above
        if at == before:
            i, lo = middle, below
        else:
            hi = above
    return lo, hi


@compiled
def next_interval(i, level):
    """The dyadic interval after [i, i + 1] / 2^level: the largest that begins at its end."""
    i = plus(i, whole(np.int64(1)))
    while level > 0 and not is_odd(i):
        i, level = halved(i), level - 1
    return i, level
