"""Whether two moving features stay farther apart than a margin; a certified bound in doubles.

Walk     dyadic intervals of time from left to right. At the middle of an interval the nearest points of both features
         give a direction. Along a fixed direction the gap of two features that move along straight lines is concave in
         time: if it exceeds the margin at both ends of the interval, it does in between, and the distance is no less.
         In the shortest intervals the direction is that at their start: it shows that a pair at the margin parts.
Report   a pair whose distance at the start of an interval is at most the margin, enlarged by ``TOLERANCE``, or whose
         intervals have become as short as ``SHORTEST``. A pair that is so near at time 0, but beyond the margin, is
         reported only if it comes nearer than the margin: a body that stopped at the margin still keeps it.
At start A pair meets at the start, at time 0, if its distance there is at most the margin, enlarged by ``AT_START``.
         That is less than what every walk leaves.
Rounding A gap is a difference of two dot products of points with a direction d. Let m be the sum of the largest
         coordinates of all points (relative to one of them), between those at time 0 and those of the whole motion in
         proportion to time, and |d|² = s. Twelve roundings of m |d| bound the error; ``CLEARANCE`` allows for 32. The
         product of margin and |d| adds two roundings of it, for which 2^-46 is added.
Guarantee A pair that is not reported is nowhere closer than the margin. A reported one comes as close as the margin,
         up to ``TOLERANCE`` of it, 2^-46 of the coordinates, and the motion within ``SHORTEST``.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle, dot
from impinge.exact.impact_walk import HIT, MISS

TOLERANCE = 2.0**-20
"""Share of the margin by which a reported pair may be farther apart."""
SHORTEST = 2.0**-24
"""The shortest interval of time, as a share of the motion."""
ROUNDING = 2.0**-46
"""Generous for a dozen roundings of 2^-53 each."""
CLEARANCE = 2.0**-48
"""Share of the coordinates by which a gap must exceed the margin."""
AT_START = 2.0**-50
"""The same for a distance at time 0: less, since coordinates relative to another point may be twice as large."""
UNDERFLOW = 1e-280
"""Squares below this may have lost digits and prove nothing."""


@compiled
def _at(p, q, t):
    """The point on the way from p to q at time t."""
    s = 1.0 - t
    return s * p[0] + t * q[0], s * p[1] + t * q[1], s * p[2] + t * q[2]


@compiled
def _relative(p, o):
    return p[0] - o[0], p[1] - o[1], p[2] - o[2]


@compiled
def _between(is_edges, p, q, r, s):
    """The vector between the nearest points of both features."""
    if is_edges:
        i, j, _ = closest_on_segments(p, q, r, s)
        return (
            (r[0] - p[0]) + (j * (s[0] - r[0]) - i * (q[0] - p[0])),
            (r[1] - p[1]) + (j * (s[1] - r[1]) - i * (q[1] - p[1])),
            (r[2] - p[2]) + (j * (s[2] - r[2]) - i * (q[2] - p[2])),
        )
    u, v, w, _ = closest_on_triangle(p, q, r, s)
    return (
        u * (q[0] - p[0]) + v * (r[0] - p[0]) + w * (s[0] - p[0]),
        u * (q[1] - p[1]) + v * (r[1] - p[1]) + w * (s[1] - p[1]),
        u * (q[2] - p[2]) + v * (r[2] - p[2]) + w * (s[2] - p[2]),
    )


@compiled
def _gap(is_edges, p, q, r, s, d):
    """The gap along d, times |d|; the first feature is p, or pq."""
    i, j, k, m = dot(p, d), dot(q, d), dot(r, d), dot(s, d)
    return min(k, m) - max(i, j) if is_edges else min(j, k, m) - i


@compiled
def _is_apart(is_edges, now, ahead, d, before, after):
    """Whether the gaps along d now and ahead exceed the given distances."""
    square = dot(d, d)
    length = math.sqrt(square) * (1.0 + ROUNDING)
    return (
        square > UNDERFLOW
        and _gap(is_edges, now[0], now[1], now[2], now[3], d) > before * length
        and _gap(is_edges, ahead[0], ahead[1], ahead[2], ahead[3], d) > after * length
    )


@compiled
def _size(x, y, z):
    """The largest sum of the coordinates of a point."""
    return max(abs(x[0]) + abs(x[1]) + abs(x[2]), abs(y[0]) + abs(y[1]) + abs(y[2]), abs(z[0]) + abs(z[1]) + abs(z[2]))


@compiled
def separation_walk(is_edges, starts, ends, margin):
    """As the walks of ``exact.impact_walk``; HIT: they come as close as the margin, first between both times."""
    o = starts[0]
    p0, q0, r0, s0 = (0.0, 0.0, 0.0), _relative(starts[1], o), _relative(starts[2], o), _relative(starts[3], o)
    p1, q1 = _relative(ends[0], o), _relative(ends[1], o)
    r1, s1 = _relative(ends[2], o), _relative(ends[3], o)
    size_0 = _size(q0, r0, s0)
    size = max(size_0, _size(p1, q1, r1), _size(p1, q1, s1))
    near = margin * (1.0 + TOLERANCE) + 2.0 * ROUNDING * size
    t, w = 0.0, 1.0
    while True:
        p, q, r, s = _at(p0, p1, t), _at(q0, q1, t), _at(r0, r1, t), _at(s0, s1, t)
        d = _between(is_edges, p, q, r, s)
        distance = math.sqrt(dot(d, d))
        if t == 0.0:
            if not distance > margin + AT_START * size_0:
                return HIT, t, t
            if distance <= near:
                near = margin
        if not distance > near:
            return HIT, t, t
        before = margin + CLEARANCE * ((1.0 - t) * size_0 + t * size)
        is_free = False
        while not is_free:
            m, e = t + 0.5 * w if w > SHORTEST else t, t + w
            ahead = _at(p0, p1, e), _at(q0, q1, e), _at(r0, r1, e), _at(s0, s1, e)
            after = margin + CLEARANCE * ((1.0 - e) * size_0 + e * size)
            d = _between(is_edges, _at(p0, p1, m), _at(q0, q1, m), _at(r0, r1, m), _at(s0, s1, m))
            is_free = _is_apart(is_edges, (p, q, r, s), ahead, d, before, after)
            if not is_free:
                if w <= SHORTEST:
                    return HIT, t, e
                w *= 0.5
        t += w
        if t >= 1.0:
            return MISS, 0.0, 0.0
        n = t / w
        while n % 2.0 == 0.0:  # the largest dyadic interval that begins here
            n *= 0.5
            w *= 2.0
