"""Where features meet: point, normal and weights at a time at which they are about to.

Points   Coordinates are relative to a vertex of the pair and scaled by a power of two: products stay in range. The
         nearest points of both features give the weights, and the middle between them the point.
Normal   From a towards b, on the side where b was before the impact. With the nearest points inside of both features,
         the normal of the face, or of both edges, with the sign of the gap; if rounding may have made the gap, of the
         gap at 1 - 2^-10 of the time. On the boundary of a feature, or without such a normal (no area, parallel edges),
         and with a margin, the direction of the gap at that time. Without a gap, the normal against the relative
         velocity; then the direction against it; then (0, 0, 1).
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.continuous.sweep_kernels import EDGE_EDGE, FACE_VERTEX, four_points
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle, cross, dot, minus, mixed

CERTAIN = 2.0**-44
"""Share of the size of a pair up to which a gap may be due to rounding."""
EARLIER = 2.0**-10
"""Share of the time before the impact at which the gap gives a direction."""
ON_BOUNDARY = 2.0**-20
"""Weights up to this are on the boundary of a feature."""
LEAST_SINE = 2.0**-40
"""Sine of the angle at a face's corner, or between edges, below which there is no normal."""


@compiled
def _unit(v, square):
    length = math.sqrt(square)
    return v[0] / length, v[1] / length, v[2] / length


@compiled
def _normal(is_edges, p, q, r, s, is_inside, gap, earlier, velocity):
    """Unit vector from the first feature to the second; ``gap`` and ``earlier`` join their nearest points."""
    e, f = (minus(q, p), minus(s, r)) if is_edges else (minus(r, q), minus(s, q))
    n = cross(e, f)
    square, has_gap = dot(n, n), dot(earlier, earlier) > CERTAIN * CERTAIN
    has_normal = square > LEAST_SINE * LEAST_SINE * dot(e, e) * dot(f, f)
    if has_gap and not (is_inside and has_normal):
        return _unit(earlier, dot(earlier, earlier))
    if has_normal:
        n = _unit(n, square)
        along = dot(n, gap)
        if not abs(along) > CERTAIN:
            along = dot(n, earlier) if has_gap else -dot(n, velocity)
        return n if along >= 0.0 else (-n[0], -n[1], -n[2])
    if dot(velocity, velocity) > 0.0:
        n = _unit(velocity, dot(velocity, velocity))
        return -n[0], -n[1], -n[2]
    return 0.0, 0.0, 1.0


@compiled
def _scale(starts, ends):
    """The power of two that scales the differences of all points to about 1."""
    o, size = starts[0], 0.0
    for points in (starts, ends):
        for x in points:
            for k in range(3):
                size = max(size, abs(0.5 * x[k] - 0.5 * o[k]))
    if not size > 0.0:
        return 1.0
    return math.ldexp(1.0, max(min(-math.frexp(size)[1] - 1, 1000), -1000))


@compiled
def _at(x, y, t, o, scale):
    """The points on the way from x to y at time t, relative to o, scaled."""
    return (
        _between(x[0], y[0], t, o, scale),
        _between(x[1], y[1], t, o, scale),
        _between(x[2], y[2], t, o, scale),
        (_between(x[3], y[3], t, o, scale)),
    )


@compiled
def _between(x, y, t, o, scale):
    s = 1.0 - t
    return (
        s * (scale * x[0] - scale * o[0]) + t * (scale * y[0] - scale * o[0]),
        s * (scale * x[1] - scale * o[1]) + t * (scale * y[1] - scale * o[1]),
        s * (scale * x[2] - scale * o[2]) + t * (scale * y[2] - scale * o[2]),
    )


@compiled
def _nearest(is_edges, x):
    """Weights of all points at the nearest points of both features."""
    if is_edges:
        i, j, _ = closest_on_segments(x[0], x[1], x[2], x[3])
        return 1.0 - i, i, 1.0 - j, j
    u, v, w, _ = closest_on_triangle(x[0], x[1], x[2], x[3])
    return 1.0, u, v, w


@compiled
def _sides(is_edges, w, x):
    """The points of both features with the given weights."""
    p, q, r, s = x
    if is_edges:
        return (
            (w[0] * p[0] + w[1] * q[0], w[0] * p[1] + w[1] * q[1], w[0] * p[2] + w[1] * q[2]),
            (w[2] * r[0] + w[3] * s[0], w[2] * r[1] + w[3] * s[1], w[2] * r[2] + w[3] * s[2]),
        )
    return p, mixed(w[1], q, w[2], r, w[3], s)


@compiled
def _impact(is_edges, starts, ends, t, has_margin):
    """Point, normal and weights, in the order of the walks, of one pair at time t."""
    o, scale = starts[0], _scale(starts, ends)
    x = _at(starts, ends, t, o, scale)
    weights = _nearest(is_edges, x)
    one, other = _sides(is_edges, weights, x)
    before = _at(starts, ends, t * (1.0 - EARLIER), o, scale)
    one_before, other_before = _sides(is_edges, _nearest(is_edges, before), before)
    at_start, at_end = _at(starts, ends, 0.0, o, scale), _at(starts, ends, 1.0, o, scale)
    from_one, from_other = _sides(is_edges, weights, at_start)
    to_one, to_other = _sides(is_edges, weights, at_end)
    n = _normal(
        is_edges, x[0], x[1], x[2], x[3],
        not has_margin and min(weights[0], weights[1], weights[2], weights[3]) > ON_BOUNDARY,
        minus(other, one), minus(other_before, one_before),
        minus(minus(to_other, from_other), minus(to_one, from_one)),
    )  # fmt: skip
    place = (
        o[0] + 0.5 * (one[0] + other[0]) / scale,
        o[1] + 0.5 * (one[1] + other[1]) / scale,
        o[2] + 0.5 * (one[2] + other[2]) / scale,
    )
    return place, n, weights


@kernel(parallel_from=256)
def locate_impacts(kind, vertices, start_a, end_a, start_b, end_b, time, has_margin, place, normal, weights):
    """Write point, normal and weights of all rows at their times."""
    for i in prange(len(kind)):
        at, n, w = _impact(
            kind[i] == EDGE_EDGE,
            four_points(kind[i], vertices[i], start_a, start_b),
            four_points(kind[i], vertices[i], end_a, end_b),
            time[i],
            has_margin,
        )
        is_swapped = kind[i] == FACE_VERTEX
        for k in range(3):
            place[i, k] = at[k]
            normal[i, k] = -n[k] if is_swapped else n[k]
        for k in range(4):
            weights[i, (k + 3) % 4 if is_swapped else k] = w[k]
