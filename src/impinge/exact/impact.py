"""First impact of a moving vertex and face, or of two moving edges, exact for all finite doubles.

Points move along straight lines over [0, 1]; sets are closed. Coordinates become integers, by a power of two per axis;
f and g are those of ``impact_walk``, with integer coefficients.

1. f is not zero everywhere: an impact is a root of f. Roots come in ascending order (``roots``). At a root, along an axis
   where the normal N is not zero, all g have the sign of N or are zero: an impact; otherwise none. If N is zero (a face
   without area, parallel edges), some vertex is on some edge, or there is no impact.
2. f is zero everywhere: the points are coplanar throughout. They meet at time 0, by the same test, or first when a vertex
   reaches an edge. For each vertex and edge, the differences x and y of the ends from the vertex have x × y = 0 then. If
   some component is not zero everywhere, its roots are the candidates; otherwise vertex and edge are collinear
   throughout, and the vertex arrives at an end: the roots of a component of x, and of y.

A vertex is on an edge iff x × y = 0 and x(i) y(i) <= 0 along each axis i: all are signs of quadratics at roots.

Guarantee  hit or miss is that of real arithmetic. The interval contains the first time of impact.
Cost       tens of microseconds with coordinates of ordinary scenes; it grows with the square of the number of bits that
           the coordinates of one axis span.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.integers import from_double, lowest_exponent, minus, plus, shifted, sign, times, times_small, whole
from impinge.exact.roots import (
    cubic_in_interval,
    interval_of,
    next_interval,
    quadratic_in_interval,
    sign_at_isolated,
    sign_at_rational,
    sign_changes,
)

NEVER = np.inf


# Polynomials --------------------------------------------------------------------------------------------


@compiled
def _coordinate(start, end, j, m, k, exponent):
    """Coordinate k of point j minus point m, linear in time."""
    before = minus(from_double(start[j, k], exponent), from_double(start[m, k], exponent))
    after = minus(from_double(end[j, k], exponent), from_double(end[m, k], exponent))
    return before, minus(after, before)


@compiled
def _exponent(start, end, k):
    """Exponent of the lowest bit of all coordinates k."""
    lowest = 2000
    for j in range(4):
        lowest = min(lowest, lowest_exponent(start[j, k]), lowest_exponent(end[j, k]))
    return lowest


@compiled
def _difference(start, end, j, m, exponents):
    """Point j minus point m: three linear polynomials."""
    return (
        _coordinate(start, end, j, m, 0, exponents[0]),
        _coordinate(start, end, j, m, 1, exponents[1]),
        _coordinate(start, end, j, m, 2, exponents[2]),
    )


@compiled
def _product(x, y):
    """Product of two linear polynomials."""
    return times(x[0], y[0]), plus(times(x[0], y[1]), times(x[1], y[0])), times(x[1], y[1])


@compiled
def _cross_component(x, y, k):
    """Component k of x × y, a quadratic."""
    i, j = (k + 1) % 3, (k + 2) % 3
    p, q = _product(x[i], y[j]), _product(x[j], y[i])
    return minus(p[0], q[0]), minus(p[1], q[1]), minus(p[2], q[2])


@compiled
def _sum(p, q):
    return plus(p[0], q[0]), plus(p[1], q[1]), plus(p[2], q[2])


@compiled
def _determinant(x, y, z):
    """(x × y) · z, a cubic."""
    f0, f1, f2, f3 = whole(np.int64(0)), whole(np.int64(0)), whole(np.int64(0)), whole(np.int64(0))
    for k in range(3):
        q, c = _cross_component(x, y, k), z[k]
        f0 = plus(f0, times(q[0], c[0]))
        f1 = plus(f1, plus(times(q[0], c[1]), times(q[1], c[0])))
        f2 = plus(f2, plus(times(q[1], c[1]), times(q[2], c[0])))
        f3 = plus(f3, times(q[2], c[1]))
    return f0, f1, f2, f3


@compiled
def _is_zero(polynomial):
    for k in range(len(polynomial)):
        if len(polynomial[k]) > 0:
            return False
    return True


# Tests at a root ----------------------------------------------------------------------------------------
# A root is (is_rational, p, q, level, c): the rational number p / q, or the root of c in (0, 1), c local to the
# interval [p, p + 1] / 2^level.


@compiled
def _sign_at(quadratic, root):
    is_rational, p, q, level, c = root
    if is_rational:
        return sign_at_rational(quadratic, p, q)
    return sign_at_isolated(quadratic_in_interval(quadratic, p, level), c)


@compiled
def _is_on_edge(x, y, root):
    """Whether the origin is on the segment from x to y."""
    for k in range(3):
        if _sign_at(_product(x[k], y[k]), root) > 0:
            return False
    for k in range(3):
        if _sign_at(_cross_component(x, y, k), root) != 0:
            return False
    return True


@compiled
def _is_impact(sides, in_normal, edges, root):
    """Whether four points, coplanar at the root, meet. The normal is the sum of the first ``in_normal`` sides."""
    for k in range(3):
        normal = _cross_component(sides[0][0], sides[0][1], k)
        for j in range(1, in_normal):
            normal = _sum(normal, _cross_component(sides[j][0], sides[j][1], k))
        direction = _sign_at(normal, root)
        if direction != 0:
            for side in sides:
                if direction * _sign_at(_cross_component(side[0], side[1], k), root) < 0:
                    return False
            return True
    for edge in edges:
        if _is_on_edge(edge[0], edge[1], root):
            return True
    return False


@compiled
def _passes(sides, in_normal, edges, edge, root):
    """Whether the root is an impact of all (``edge`` is -1), or of one vertex and edge."""
    if edge < 0:
        return _is_impact(sides, in_normal, edges, root)
    return _is_on_edge(edges[edge][0], edges[edge][1], root)


# First root that passes ---------------------------------------------------------------------------------


@compiled
def _rational_interval(p, q, width):
    """Doubles around p / q, in [0, 1]."""
    zero = whole(np.int64(0))
    if len(p) == 0:
        return 0.0, 0.0
    if sign(minus(q, p)) == 0:
        return 1.0, 1.0
    return interval_of((times_small(p, -1), q, zero, zero), zero, 0, width)


@compiled
def _first_rational(p, q, c, sides, in_normal, edges, edge, width):
    """The interval of p / q if it is in [0, 1] and passes."""
    if sign(q) < 0:
        p, q = times_small(p, -1), times_small(q, -1)
    if sign(p) >= 0 and sign(minus(q, p)) >= 0 and _passes(sides, in_normal, edges, edge, (True, p, q, 0, c)):
        return _rational_interval(p, q, width)
    return NEVER, NEVER


@compiled
def _first_repeated(c, sides, in_normal, edges, edge, width):
    """The same of a cubic with a repeated root: all its roots are rational."""
    c0, c1, c2, c3 = c
    spread = minus(times(c2, c2), times_small(times(c1, c3), 3))
    if len(spread) == 0:
        return _first_rational(times_small(c2, -1), times_small(c3, 3), c, sides, in_normal, edges, edge, width)
    p = minus(times_small(times(c0, c3), 9), times(c1, c2))
    lo, hi = _first_rational(p, times_small(spread, 2), c, sides, in_normal, edges, edge, width)
    p = times(c2, minus(times_small(times(c1, c3), 4), times(c2, c2)))
    p = minus(p, times_small(times(times(c0, c3), c3), 9))
    lo_simple, hi_simple = _first_rational(p, times(c3, spread), c, sides, in_normal, edges, edge, width)
    return min(lo, lo_simple), min(hi, hi_simple)


@compiled
def _discriminant(c):
    """Discriminant of a cubic, or of a quadratic if c3 is zero."""
    c0, c1, c2, c3 = c
    if len(c3) == 0:
        return minus(times(c1, c1), times_small(times(c0, c2), 4))
    c11, c22, c03, c12 = times(c1, c1), times(c2, c2), times(c0, c3), times(c1, c2)
    out = minus(times(c12, c12), times_small(times(times(c0, c2), c22), 4))
    out = minus(out, times_small(times(times(c1, c3), c11), 4))
    out = plus(out, times_small(times(c03, c12), 18))
    return minus(out, times_small(times(c03, c03), 27))


@compiled
def _first_root(c, sides, in_normal, edges, edge, width):
    """Interval of the first root of c in [0, 1] that passes; NEVER if none does. c is not zero everywhere."""
    if len(c[3]) == 0 and len(c[2]) == 0:
        if len(c[1]) == 0:
            return NEVER, NEVER
        return _first_rational(times_small(c[0], -1), c[1], c, sides, in_normal, edges, edge, width)
    if len(_discriminant(c)) == 0:
        if len(c[3]) == 0:
            p, q = times_small(c[1], -1), times_small(c[2], 2)
            return _first_rational(p, q, c, sides, in_normal, edges, edge, width)
        return _first_repeated(c, sides, in_normal, edges, edge, width)
    one = whole(np.int64(1))
    i, level = whole(np.int64(0)), 0
    while True:
        local = cubic_in_interval(c, i, level)
        changes = sign_changes(local)
        if changes > 1:
            i, level = times_small(i, 2), level + 1
            continue
        q = shifted(one, level)
        if len(local[0]) == 0 and _passes(sides, in_normal, edges, edge, (True, i, q, level, local)):
            return _rational_interval(i, q, width)
        if changes == 1 and _passes(sides, in_normal, edges, edge, (False, i, q, level, local)):
            return interval_of(c, i, level, width)
        i, level = next_interval(i, level)
        if level == 0:
            return _first_rational_end(c, one, sides, in_normal, edges, edge)


@compiled
def _first_rational_end(c, one, sides, in_normal, edges, edge):
    """Time 1, if it is a root that passes."""
    if len(plus(plus(c[0], c[1]), plus(c[2], c[3]))) == 0 and _passes(
        sides, in_normal, edges, edge, (True, one, one, 0, c)
    ):
        return 1.0, 1.0
    return NEVER, NEVER


@compiled
def _first_of_edge(edge, sides, in_normal, edges, width):
    """Interval of the first time when a vertex is on an edge of the same plane, among candidates after time 0."""
    zero = whole(np.int64(0))
    x, y = edges[edge]
    for k in range(3):
        c0, c1, c2 = _cross_component(x, y, k)
        if len(c0) + len(c1) + len(c2) > 0:
            return _first_root((c0, c1, c2, zero), sides, in_normal, edges, edge, width)
    lo, hi = NEVER, NEVER
    for end in (x, y):
        for k in range(3):
            if len(end[k][0]) + len(end[k][1]) > 0:
                c = end[k][0], end[k][1], zero, zero
                lo_k, hi_k = _first_root(c, sides, in_normal, edges, edge, width)
                lo, hi = min(lo, lo_k), min(hi, hi_k)
                break
    return lo, hi


# Impact -------------------------------------------------------------------------------------------------


@compiled
def first_impact(is_edges, start, end, width):
    """Whether four moving points meet, doubles around the first time (no farther apart than ``width`` times the upper
    one, where doubles allow it), and whether they meet at time 0.

    Rows of ``start`` and ``end`` (times 0 and 1): a vertex and the corners of a face, or the ends of both edges.
    """
    exponents = _exponent(start, end, 0), _exponent(start, end, 1), _exponent(start, end, 2)
    if is_edges:
        e, h = _difference(start, end, 1, 0, exponents), _difference(start, end, 3, 2, exponents)
        ca, da = _difference(start, end, 2, 0, exponents), _difference(start, end, 3, 0, exponents)
        cb, db = _difference(start, end, 2, 1, exponents), _difference(start, end, 3, 1, exponents)
        ac, bc = _difference(start, end, 0, 2, exponents), _difference(start, end, 1, 2, exponents)
        ad, bd = _difference(start, end, 0, 3, exponents), _difference(start, end, 1, 3, exponents)
        sides, in_normal = ((ca, h), (bc, h), (ca, e), (e, da)), 2
        edges = (ca, da), (cb, db), (ac, bc), (ad, bd)
        f = _determinant(ca, h, e)
    else:
        u, v = _difference(start, end, 1, 0, exponents), _difference(start, end, 2, 0, exponents)
        w = _difference(start, end, 3, 0, exponents)
        sides, in_normal = ((u, v), (v, w), (w, u), (w, u)), 3
        edges = (u, v), (v, w), (w, u), (w, u)
        f = _determinant(u, v, w)
    lo, hi = NEVER, NEVER
    if _is_zero(f):
        one, zero = whole(np.int64(1)), whole(np.int64(0))
        if _is_impact(sides, in_normal, edges, (True, zero, one, 0, f)):
            return True, 0.0, 0.0, True
        for k in range(4):
            lo_k, hi_k = _first_of_edge(k, sides, in_normal, edges, 0.5 * width)
            lo, hi = min(lo, lo_k), min(hi, hi_k)
    else:
        lo, hi = _first_root(f, sides, in_normal, edges, -1, width)
    return lo != NEVER, lo, hi, hi == 0.0
