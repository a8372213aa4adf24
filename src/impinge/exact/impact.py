"""First impact of a moving vertex and face, or of two moving edges, exact for all finite doubles.

Points move along straight lines over [0, 1]; sets are closed. Coordinates become integers, by a power of two per axis;
f and g are those of ``impact_walk``, with integer coefficients.

1. f is not zero everywhere: an impact is a root of f. Roots come in ascending order (``roots``). At a root, along an
   axis where the normal N is not zero, all g have the sign of N or are zero: an impact; otherwise none. If N is zero (a
   face without area, parallel edges), some vertex is on some edge, or there is no impact.
2. f is zero everywhere: the points are coplanar throughout. They meet at time 0, by the same test, or first when a
   vertex reaches an edge. For each vertex and edge, the differences x and y of the ends from the vertex have x × y = 0
   then. If some component is not zero everywhere, its roots are the candidates; otherwise vertex and edge are collinear
   throughout, and the vertex arrives at an end: the roots of a component of x, and of y.

A vertex is on an edge iff x × y = 0 and x(i) y(i) <= 0 along each axis i: all are signs of quadratics at roots.

Guarantee  hit or miss is that of real arithmetic. The interval contains the first time of impact.
Cost       tens of microseconds with coordinates of ordinary scenes; it grows with the square of the number of bits that
           the coordinates of one axis span.

A problem is (arena, linear, sides, in_normal, edges). ``linear[j, m, k]`` is coordinate k of point j minus point m, two
integers: value at time 0, and slope. Rows of ``sides`` and ``edges`` (j, m, l, n) stand for two such differences: the
factors of the g, the first ``in_normal`` of which add up to N; and the ends of an edge seen from a vertex.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.integers import (
    ZERO,
    from_double,
    has_overflowed,
    is_zero,
    lowest_bit,
    new_arena,
    plus,
    shifted,
    sign,
    times,
    times_small,
    whole,
)
from impinge.exact.roots import (
    cubic_in_interval,
    interval_of,
    next_interval,
    quadratic_in_interval,
    sign_at_isolated,
    sign_changes,
    value_at_rational,
)

NEVER = np.inf
FIRST_ROOM = 1 << 14
"""Digits of the first arena; four times as many each time that it overflows."""
ALL = np.int64(-1)
FACE_SIDES = np.array([(1, 0, 2, 0), (2, 0, 3, 0), (3, 0, 1, 0)])
EDGE_SIDES = np.array([(2, 0, 3, 2), (1, 2, 3, 2), (2, 0, 1, 0), (1, 0, 3, 0)])
EDGE_ENDS = np.array([(2, 0, 3, 0), (2, 1, 3, 1), (0, 2, 1, 2), (0, 3, 1, 3)])


# Polynomials --------------------------------------------------------------------------------------------


@compiled
def _fill_differences(arena, start, end, linear):
    """Write the differences of all pairs of points, per axis in units of the lowest bit of its coordinates."""
    for k in range(3):
        lowest = np.int64(2000)
        for j in range(4):
            for value in (start[j, k], end[j, k]):
                if value != 0.0:
                    lowest = min(lowest, lowest_bit(value)[1])
        for j in range(4):
            before, after = from_double(arena, start[j, k], lowest), from_double(arena, end[j, k], lowest)
            linear[j, j, k, 0], linear[j, j, k, 1] = before, plus(arena, after, before, -1)
        for j in range(4):
            for m in range(4):
                if j != m:
                    for c in range(2):
                        linear[j, m, k, c] = plus(arena, linear[j, j, k, c], linear[m, m, k, c], -1)


@compiled
def _product(arena, x, y):
    """Product of two linear polynomials."""
    middle = plus(arena, times(arena, x[0], y[1]), times(arena, x[1], y[0]))
    return times(arena, x[0], y[0]), middle, times(arena, x[1], y[1])


@compiled
def _cross_component(problem, row, k):
    """Component k of the cross product of two differences, a quadratic."""
    arena, linear = problem[0], problem[1]
    x, y = linear[row[0], row[1]], linear[row[2], row[3]]
    i, j = (k + 1) % 3, (k + 2) % 3
    p, q = _product(arena, x[i], y[j]), _product(arena, x[j], y[i])
    return plus(arena, p[0], q[0], -1), plus(arena, p[1], q[1], -1), plus(arena, p[2], q[2], -1)


@compiled
def _coplanarity(problem, last):
    """The cubic f: the first side times difference ``last`` (j, m)."""
    arena, linear, sides, _, _ = problem
    f0, f1, f2, f3 = ZERO, ZERO, ZERO, ZERO
    for k in range(3):
        q0, q1, q2 = _cross_component(problem, sides[0], k)
        z0, z1 = linear[last[0], last[1], k, 0], linear[last[0], last[1], k, 1]
        f0 = plus(arena, f0, times(arena, q0, z0))
        f1 = plus(arena, f1, plus(arena, times(arena, q0, z1), times(arena, q1, z0)))
        f2 = plus(arena, f2, plus(arena, times(arena, q1, z1), times(arena, q2, z0)))
        f3 = plus(arena, f3, times(arena, q2, z1))
    return f0, f1, f2, f3


# Tests at a root ----------------------------------------------------------------------------------------
# A root is (is_rational, p, q, level, c): the rational number p / q, or the root of c in (0, 1), c local to the
# interval [p, p + 1] / 2^level.


@compiled
def _sign_at(arena, quadratic, root):
    is_rational, p, q, level, c = root
    if is_rational:
        return value_at_rational(arena, quadratic[0], quadratic[1], quadratic[2], ZERO, p, q)
    return sign_at_isolated(arena, quadratic_in_interval(arena, quadratic, p, level), c)


@compiled
def _is_on_edge(problem, row, root):
    """Whether a vertex is on an edge."""
    arena, linear = problem[0], problem[1]
    for k in range(3):
        x, y = linear[row[0], row[1], k], linear[row[2], row[3], k]
        if _sign_at(arena, _product(arena, x, y), root) > 0:
            return False
    for k in range(3):  # noqa: SIM110 - compiled code has no all()
        if _sign_at(arena, _cross_component(problem, row, k), root) != 0:
            return False
    return True


@compiled
def _passes(problem, edge, root):
    """Whether four points, coplanar at the root, meet; or whether the vertex of row ``edge`` is on its edge."""
    arena, _, sides, in_normal, edges = problem
    if edge != ALL:
        return _is_on_edge(problem, edges[edge], root)
    for k in range(3):
        n0, n1, n2 = ZERO, ZERO, ZERO
        for j in range(in_normal):
            g = _cross_component(problem, sides[j], k)
            n0, n1, n2 = plus(arena, n0, g[0]), plus(arena, n1, g[1]), plus(arena, n2, g[2])
        direction = _sign_at(arena, (n0, n1, n2), root)
        if direction != 0:
            for j in range(len(sides)):
                if direction * _sign_at(arena, _cross_component(problem, sides[j], k), root) < 0:
                    return False
            return True
    for j in range(len(edges)):  # noqa: SIM110
        if _is_on_edge(problem, edges[j], root):
            return True
    return False


# First root that passes ---------------------------------------------------------------------------------


@compiled
def _first_rational(problem, edge, p, q, width):
    """Doubles around p / q if it is in [0, 1] and passes."""
    arena = problem[0]
    if sign(arena, q) < 0:
        p, q = times_small(arena, p, -1), times_small(arena, q, -1)
    from_1 = sign(arena, plus(arena, p, q, -1))
    root = True, p, q, np.int64(0), (ZERO, ZERO, ZERO, ZERO)
    if sign(arena, p) < 0 or from_1 > 0 or not _passes(problem, edge, root):
        return NEVER, NEVER
    if is_zero(arena, p):
        return 0.0, 0.0
    if from_1 == 0:
        return 1.0, 1.0
    return interval_of(arena, (times_small(arena, p, -1), q, ZERO, ZERO), ZERO, np.int64(0), width)


@compiled
def _discriminant(arena, c):
    """Discriminant of a cubic, or of a quadratic if c3 is zero."""
    c0, c1, c2, c3 = c
    if is_zero(arena, c3):
        return plus(arena, times(arena, c1, c1), times(arena, c0, c2), -4)
    c03, c12 = times(arena, c0, c3), times(arena, c1, c2)
    out = plus(arena, times(arena, c12, c12), times(arena, times(arena, c0, c2), times(arena, c2, c2)), -4)
    out = plus(arena, out, times(arena, times(arena, c1, c3), times(arena, c1, c1)), -4)
    out = plus(arena, out, times(arena, c03, c12), 18)
    return plus(arena, out, times(arena, c03, c03), -27)


@compiled
def _first_repeated(problem, edge, c, width):
    """Interval of the first root that passes of a polynomial whose roots are all rational: linear, or one repeated."""
    arena = problem[0]
    c0, c1, c2, c3 = c
    if is_zero(arena, c3):
        if is_zero(arena, c2):
            return _first_rational(problem, edge, times_small(arena, c0, -1), c1, width)
        return _first_rational(problem, edge, times_small(arena, c1, -1), times_small(arena, c2, 2), width)
    c13, c22 = times(arena, c1, c3), times(arena, c2, c2)
    spread = plus(arena, c22, c13, -3)
    if is_zero(arena, spread):
        return _first_rational(problem, edge, times_small(arena, c2, -1), times_small(arena, c3, 3), width)
    width *= 0.5  # of the union of two intervals that overlap
    p = plus(arena, times_small(arena, times(arena, c0, c3), 9), times(arena, c1, c2), -1)
    lo, hi = _first_rational(problem, edge, p, times_small(arena, spread, 2), width)
    p = times(arena, c2, plus(arena, times_small(arena, c13, 4), c22, -1))
    p = plus(arena, p, times(arena, times(arena, c0, c3), c3), -9)
    lo_simple, hi_simple = _first_rational(problem, edge, p, times(arena, c3, spread), width)
    return min(lo, lo_simple), min(hi, hi_simple)


@compiled
def _first_root(problem, edge, c, width):
    """Interval of the first root of c in [0, 1] that passes; NEVER if none does. c is not zero everywhere."""
    arena = problem[0]
    is_linear = is_zero(arena, c[3]) and is_zero(arena, c[2])
    if is_linear and is_zero(arena, c[1]):
        return NEVER, NEVER
    if is_linear or is_zero(arena, _discriminant(arena, c)):
        return _first_repeated(problem, edge, c, width)
    one = whole(arena, np.int64(1))
    i, level = ZERO, np.int64(0)
    while not has_overflowed(arena):
        local = cubic_in_interval(arena, c, i, level)
        changes = sign_changes(arena, local)
        if changes > 1:
            i, level = times_small(arena, i, 2), level + 1
            continue
        q = shifted(arena, one, level)
        if is_zero(arena, local[0]) and _passes(problem, edge, (True, i, q, level, local)):
            return _first_rational(problem, edge, i, q, width)
        if changes == 1 and _passes(problem, edge, (False, i, q, level, local)):
            return interval_of(arena, c, i, level, width)
        i, level = next_interval(arena, i, level)
        if level == 0:
            break
    if is_zero(arena, plus(arena, plus(arena, c[0], c[1]), plus(arena, c[2], c[3]))):
        return _first_rational(problem, edge, one, one, width)
    return NEVER, NEVER


@compiled
def _first_on_edge(problem, edge, width):
    """Interval of the first time when a vertex is on an edge of the same plane, if not at time 0."""
    arena, linear, _, _, edges = problem
    row = edges[edge]
    for k in range(3):
        c0, c1, c2 = _cross_component(problem, row, k)
        if not (is_zero(arena, c0) and is_zero(arena, c1) and is_zero(arena, c2)):
            return _first_root(problem, edge, (c0, c1, c2, ZERO), width)
    lo, hi = NEVER, NEVER
    for side in range(0, 4, 2):
        for k in range(3):
            c0, c1 = linear[row[side], row[side + 1], k, 0], linear[row[side], row[side + 1], k, 1]
            if not (is_zero(arena, c0) and is_zero(arena, c1)):
                lo_k, hi_k = _first_root(problem, edge, (c0, c1, ZERO, ZERO), width)
                lo, hi = min(lo, lo_k), min(hi, hi_k)
                break
    return lo, hi


# Impact -------------------------------------------------------------------------------------------------


@compiled
def _first_in(arena, is_edges, start, end, width):
    """``first_impact`` in an arena that may overflow."""
    linear = np.zeros((4, 4, 3, 2), np.int64)
    _fill_differences(arena, start, end, linear)
    sides, in_normal, edges = (EDGE_SIDES, 2, EDGE_ENDS) if is_edges else (FACE_SIDES, 3, FACE_SIDES)
    problem = arena, linear, sides, in_normal, edges
    f = _coplanarity(problem, (1, 0) if is_edges else (3, 0))
    if not (is_zero(arena, f[0]) and is_zero(arena, f[1]) and is_zero(arena, f[2]) and is_zero(arena, f[3])):
        return _first_root(problem, ALL, f, width)
    if _passes(problem, ALL, (True, ZERO, whole(arena, np.int64(1)), np.int64(0), f)):
        return 0.0, 0.0
    lo, hi = NEVER, NEVER
    for edge in range(len(edges)):
        lo_k, hi_k = _first_on_edge(problem, edge, 0.5 * width)
        lo, hi = min(lo, lo_k), min(hi, hi_k)
    return lo, hi


@compiled
def first_impact(is_edges, start, end, width):
    """Whether four moving points meet, and doubles around the first time; both are zero if they meet at time 0.

    The doubles are no farther apart than ``width`` times the upper one, where doubles allow it. Rows of ``start`` and
    ``end`` (times 0 and 1): a vertex and the corners of a face, or the ends of both edges.
    """
    room = FIRST_ROOM
    while True:
        arena = new_arena(room)
        lo, hi = _first_in(arena, is_edges, start, end, width)
        if not has_overflowed(arena):
            return lo != NEVER, lo, hi
        room *= 4
