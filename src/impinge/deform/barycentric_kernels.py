"""Distances of points to tets and positions of embedded points, for ``barycentric``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus


@compiled
def _segment_square(p, a, b):
    """Squared distance of p to the segment from a to b: a + s u, s = u·(p - a) / u·u, clamped to [0, 1]."""
    u, w = minus(b, a), minus(p, a)
    s = min(max(dot(u, w) / dot(u, u), 0.0), 1.0)
    r = (w[0] - s * u[0], w[1] - s * u[1], w[2] - s * u[2])
    return dot(r, r)


@compiled
def _triangle_square(p, a, b, c):
    """Squared distance of p to a triangle: to its plane if p lies above it, else to its sides."""
    u, v, w = minus(b, a), minus(c, a), minus(p, a)
    n = cross(u, v)
    nn, beta, gamma = dot(n, n), dot(n, cross(w, v)), dot(n, cross(u, w))
    if nn > 0.0 and beta >= 0.0 and gamma >= 0.0 and beta + gamma <= nn:
        return dot(n, w) * dot(n, w) / nn
    return min(_segment_square(p, a, b), min(_segment_square(p, b, c), _segment_square(p, c, a)))


@compiled
def _weights(x, tets, inverse, t, p):
    """Barycentric coordinates of p in tet t."""
    w = minus(p, point(x, tets[t, 0]))
    w1 = inverse[t, 0, 0] * w[0] + inverse[t, 0, 1] * w[1] + inverse[t, 0, 2] * w[2]
    w2 = inverse[t, 1, 0] * w[0] + inverse[t, 1, 1] * w[1] + inverse[t, 1, 2] * w[2]
    w3 = inverse[t, 2, 0] * w[0] + inverse[t, 2, 1] * w[1] + inverse[t, 2, 2] * w[2]
    return 1.0 - w1 - w2 - w3, w1, w2, w3


@compiled
def _tet_square(x, tets, inverse, t, p):
    """Squared distance of p to tet t; 0 inside."""
    w = _weights(x, tets, inverse, t, p)
    if min(min(w[0], w[1]), min(w[2], w[3])) >= 0.0:
        return 0.0
    a, b, c, d = point(x, tets[t, 0]), point(x, tets[t, 1]), point(x, tets[t, 2]), point(x, tets[t, 3])
    return min(
        min(_triangle_square(p, a, b, c), _triangle_square(p, a, b, d)),
        min(_triangle_square(p, a, c, d), _triangle_square(p, b, c, d)),
    )


@kernel(parallel_from=256)
def nearest_of(points, candidate, x, tets, inverse, tet, distance, weight):
    """The nearest tet of each row of candidates (the lowest id among equals), its distance, and the weights in it."""
    for n in prange(len(points)):
        p = point(points, n)
        best, best_square = candidate[n, 0], math.inf
        for k in range(candidate.shape[1]):
            t = candidate[n, k]
            square = _tet_square(x, tets, inverse, t, p)
            if square < best_square or (square == best_square and t < best):
                best, best_square = t, square
        w = _weights(x, tets, inverse, best, p)
        for k in range(4):
            weight[n, k] = w[k]
        tet[n], distance[n] = best, math.sqrt(best_square)


@kernel()
def follow(x, tets, tet_of, weight, out):
    """Write each dense vertex as the weighted sum of its tet's corners."""
    for n in prange(len(out)):
        t = tet_of[n]
        q0, q1, q2, q3 = tets[t, 0], tets[t, 1], tets[t, 2], tets[t, 3]
        for c in range(3):
            out[n, c] = (
                x[q0, c]
                + weight[n, 1] * (x[q1, c] - x[q0, c])
                + weight[n, 2] * (x[q2, c] - x[q0, c])
                + weight[n, 3] * (x[q3, c] - x[q0, c])
            )
