"""Distance of points to tets, and points that follow them, for ``barycentric``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange


@compiled
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _segment_square(p, a, b):
    """Squared distance of p to the segment from a to b: a + s u, s = u·(p - a) / u·u, clamped to [0, 1]."""
    u, w = _minus(b, a), _minus(p, a)
    s = min(max(_dot(u, w) / _dot(u, u), 0.0), 1.0)
    r = (w[0] - s * u[0], w[1] - s * u[1], w[2] - s * u[2])
    return _dot(r, r)


@compiled
def _triangle_square(p, a, b, c):
    """Squared distance of p to a triangle: to its plane if p lies above it, else to its sides."""
    u, v, w = _minus(b, a), _minus(c, a), _minus(p, a)
    n = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    nn = _dot(n, n)
    wv = (w[1] * v[2] - w[2] * v[1], w[2] * v[0] - w[0] * v[2], w[0] * v[1] - w[1] * v[0])
    uw = (u[1] * w[2] - u[2] * w[1], u[2] * w[0] - u[0] * w[2], u[0] * w[1] - u[1] * w[0])
    beta, gamma = _dot(n, wv), _dot(n, uw)
    if nn > 0.0 and beta >= 0.0 and gamma >= 0.0 and beta + gamma <= nn:
        height = _dot(n, w)
        return height * height / nn
    return min(_segment_square(p, a, b), min(_segment_square(p, b, c), _segment_square(p, c, a)))


@compiled
def _corner(x, tets, t, k):
    n = tets[t, k]
    return x[n, 0], x[n, 1], x[n, 2]


@compiled
def _weights(x, tets, inverse, t, p):
    """Barycentric coordinates of p in tet t."""
    w = _minus(p, _corner(x, tets, t, 0))
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
    a, b = _corner(x, tets, t, 0), _corner(x, tets, t, 1)
    c, d = _corner(x, tets, t, 2), _corner(x, tets, t, 3)
    return min(
        min(_triangle_square(p, a, b, c), _triangle_square(p, a, b, d)),
        min(_triangle_square(p, a, c, d), _triangle_square(p, b, c, d)),
    )


@kernel(parallel_from=256)
def nearest_of(points, candidate, x, tets, inverse, tet, distance, weight):
    """The nearest tet of each row of candidates, the lowest id if several are, its distance and the weights in it."""
    for n in prange(len(points)):
        p = (points[n, 0], points[n, 1], points[n, 2])
        best, best_square = candidate[n, 0], math.inf
        for k in range(candidate.shape[1]):
            t = candidate[n, k]
            square = _tet_square(x, tets, inverse, t, p)
            if square < best_square or (square == best_square and t < best):
                best, best_square = t, square
        w = _weights(x, tets, inverse, best, p)
        weight[n, 0], weight[n, 1], weight[n, 2], weight[n, 3] = w[0], w[1], w[2], w[3]
        tet[n], distance[n] = best, math.sqrt(best_square)


@kernel()
def follow(x, tets, tet_of, weight, out):
    """Place each dense vertex at the weighted sum of its tet's corners."""
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
