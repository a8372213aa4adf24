"""Where features meet: point, normal and weights at a time at which they are about to.

Points   Coordinates are relative to a vertex of the pair and scaled by a power of two: products stay in range. The
         nearest points of both features give the weights, and the middle between them the point.
Normal   From a towards b, on the side where b was before the impact. The normal of the face, or of both edges, with the
         sign of the gap; if rounding may have made the gap, against the relative velocity. Without such a normal (no
         area, parallel edges) the direction of the gap; without a gap, against the relative velocity; without any,
         (0, 0, 1). With a margin, the direction of the gap comes first.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.continuous.sweep_kernels import EDGE_EDGE, FACE_VERTEX, four_points
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle, cross, dot, minus

CERTAIN = 2.0**-44
"""Share of the size of a pair up to which a gap may be due to rounding."""
LEAST_SINE = 2.0**-40
"""Sine of the angle at a face's corner, or between edges, below which there is no normal."""


@compiled
def _unit(v, square):
    length = math.sqrt(square)
    return v[0] / length, v[1] / length, v[2] / length


@compiled
def _normal(is_edges, p, q, r, s, gap, velocity, prefers_gap):
    """Unit vector from the first feature to the second; ``gap`` joins their nearest points."""
    e, f = (minus(q, p), minus(s, r)) if is_edges else (minus(r, q), minus(s, q))
    n = cross(e, f)
    square, gap_sq, velocity_sq = dot(n, n), dot(gap, gap), dot(velocity, velocity)
    size_sq = max(dot(minus(q, p), minus(q, p)), dot(minus(r, p), minus(r, p)), dot(minus(s, p), minus(s, p)))
    has_gap = gap_sq > CERTAIN * CERTAIN * size_sq
    if has_gap and (prefers_gap or not square > LEAST_SINE * LEAST_SINE * dot(e, e) * dot(f, f)):
        return _unit(gap, gap_sq)
    if square > LEAST_SINE * LEAST_SINE * dot(e, e) * dot(f, f):
        n = _unit(n, square)
        along = dot(n, gap)
        if not abs(along) > CERTAIN * math.sqrt(size_sq):
            along = -dot(n, velocity)
        return n if along >= 0.0 else (-n[0], -n[1], -n[2])
    if velocity_sq > 0.0:
        n = _unit(velocity, velocity_sq)
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
def _relative(x, y, t, o, scale):
    """The point on the way from x to y at time t, relative to o, scaled."""
    s = 1.0 - t
    return (
        s * (scale * x[0] - scale * o[0]) + t * (scale * y[0] - scale * o[0]),
        s * (scale * x[1] - scale * o[1]) + t * (scale * y[1] - scale * o[1]),
        s * (scale * x[2] - scale * o[2]) + t * (scale * y[2] - scale * o[2]),
    )


@compiled
def _mixed(w, p, q, r, s, first):
    """The difference of the weighted points of the second feature and the first, which has ``first`` points."""
    i, j = -w[0], -w[1] if first == 2 else w[1]
    return (
        i * p[0] + j * q[0] + w[2] * r[0] + w[3] * s[0],
        i * p[1] + j * q[1] + w[2] * r[1] + w[3] * s[1],
        i * p[2] + j * q[2] + w[2] * r[2] + w[3] * s[2],
    )


@compiled
def _impact(kind, starts, ends, t, has_margin):
    """Point, normal and weights, in the order of the walks, of one pair at time t."""
    is_edges = kind == EDGE_EDGE
    o, scale = starts[0], _scale(starts, ends)
    x0, x1 = _relative(starts[0], ends[0], 0.0, o, scale), _relative(starts[0], ends[0], 1.0, o, scale)
    y0, y1 = _relative(starts[1], ends[1], 0.0, o, scale), _relative(starts[1], ends[1], 1.0, o, scale)
    z0, z1 = _relative(starts[2], ends[2], 0.0, o, scale), _relative(starts[2], ends[2], 1.0, o, scale)
    w0, w1 = _relative(starts[3], ends[3], 0.0, o, scale), _relative(starts[3], ends[3], 1.0, o, scale)
    p, q = _relative(starts[0], ends[0], t, o, scale), _relative(starts[1], ends[1], t, o, scale)
    r, s = _relative(starts[2], ends[2], t, o, scale), _relative(starts[3], ends[3], t, o, scale)
    if is_edges:
        i, j, _ = closest_on_segments(p, q, r, s)
        weights, first = (1.0 - i, i, 1.0 - j, j), 2
        at = (1.0 - i) * p[0] + i * q[0], (1.0 - i) * p[1] + i * q[1], (1.0 - i) * p[2] + i * q[2]
    else:
        u, v, w, _ = closest_on_triangle(p, q, r, s)
        weights, first = (1.0, u, v, w), 1
        at = p
    gap = _mixed(weights, p, q, r, s, first)
    velocity = _mixed(weights, minus(x1, x0), minus(y1, y0), minus(z1, z0), minus(w1, w0), first)
    n = _normal(is_edges, p, q, r, s, gap, velocity, has_margin)
    place = (
        o[0] + (at[0] + 0.5 * gap[0]) / scale,
        o[1] + (at[1] + 0.5 * gap[1]) / scale,
        o[2] + (at[2] + 0.5 * gap[2]) / scale,
    )
    return place, n, weights


@kernel(parallel_from=256)
def locate_impacts(kind, vertices, start_a, end_a, start_b, end_b, time, has_margin, place, normal, weights):
    """Write point, normal and weights of all rows at their times."""
    for i in prange(len(kind)):
        at, n, w = _impact(
            kind[i],
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
