"""Whether two moving features stay farther apart than a margin; a certified bound in doubles.

Walk     dyadic intervals of time from left to right. At the middle of an interval the nearest points of both features
         give a direction. Along a fixed direction the gap of two features that move along straight lines is concave in
         time: if it exceeds the margin at both ends of the interval, it does in between, and the distance is no less.
Report   a pair whose distance at the start of an interval is at most the margin, enlarged by ``TOLERANCE``, or whose
         intervals have become as short as ``SHORTEST``.
Rounding A gap is a difference of two dot products of points with a direction d. Let m be the sum of the largest
         coordinates of all points (relative to one of them) and |d|² = s. Six roundings of m |d| each bound the error;
         2^-46 m |d| allows for more. The gap is compared with margin · |d| by squares, which adds two roundings.
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
def separation_walk(is_edges, starts, ends, margin):
    """As the walks of ``exact.impact_walk``; HIT: they come as close as the margin, first between both times."""
    o = starts[0]
    p0, q0, r0, s0 = (0.0, 0.0, 0.0), _relative(starts[1], o), _relative(starts[2], o), _relative(starts[3], o)
    p1, q1 = _relative(ends[0], o), _relative(ends[1], o)
    r1, s1 = _relative(ends[2], o), _relative(ends[3], o)
    size = 0.0
    for x in (q0, r0, s0, p1, q1, r1, s1):
        size = max(size, abs(x[0]) + abs(x[1]) + abs(x[2]))
    slack = ROUNDING * size
    enough, near = margin + slack, margin * (1.0 + TOLERANCE) + 2.0 * slack
    t, w = 0.0, 1.0
    while True:
        p, q, r, s = _at(p0, p1, t), _at(q0, q1, t), _at(r0, r1, t), _at(s0, s1, t)
        d = _between(is_edges, p, q, r, s)
        if not math.sqrt(dot(d, d)) > near:
            return HIT, t, t
        is_free = False
        while not is_free:
            m, e = t + 0.5 * w, t + w
            d = _between(is_edges, _at(p0, p1, m), _at(q0, q1, m), _at(r0, r1, m), _at(s0, s1, m))
            square = dot(d, d)
            least = enough * math.sqrt(square) * (1.0 + ROUNDING)
            is_free = (
                square > UNDERFLOW
                and _gap(is_edges, p, q, r, s, d) > least
                and (_gap(is_edges, _at(p0, p1, e), _at(q0, q1, e), _at(r0, r1, e), _at(s0, s1, e), d) > least)
            )
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
