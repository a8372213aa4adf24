"""Separating planes of small bodies; see ``batch_queries``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import inlined, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import dot, minus

ROUNDING = 2.0**-46
"""Bound on the rounding error of a height, relative to the extents of both bodies."""
SMALLEST, LARGEST = 2.0**-400, 2.0**400
"""Extents without overflow or underflow."""


@inlined
def _support(x, used, first, end, origin, d):
    """The farthest vertex along d, and its height over an origin."""
    best, farthest = -math.inf, used[first]
    for k in range(first, end):
        height = dot(minus(point(x, used[k]), origin), d)
        if height > best:
            best, farthest = height, used[k]
    return best, farthest


@inlined
def _is_separated(a, b, turns, x, used_start, used, low, high):
    size = 0.0
    for axis in range(3):
        size += max(high[a, axis], high[b, axis]) - min(low[a, axis], low[b, axis])
    if not SMALLEST < size < LARGEST:
        return False
    # From the centre of one box to that of the other; the x axis if they are equal.
    r, s = minus(point(low, b), point(low, a)), minus(point(high, b), point(high, a))
    d = (r[0] + s[0], r[1] + s[1], r[2] + s[2])
    length, origin = math.sqrt(dot(d, d)), point(low, a)
    d = (d[0] / length, d[1] / length, d[2] / length) if length > 0.0 else (1.0, 0.0, 0.0)
    for _ in range(turns):
        above_a, p = _support(x, used, used_start[a], used_start[a + 1], origin, d)
        below_b, q = _support(x, used, used_start[b], used_start[b + 1], origin, (-d[0], -d[1], -d[2]))
        if -below_b - above_a > ROUNDING * size:
            return True
        # With r = q - p, d · r <= 0. Mirrored, d - 2 (d · r) r / |r|² has the same length, and -(d · r) along r.
        r = minus(point(x, q), point(x, p))
        square = dot(r, r)
        if not square > (ROUNDING * size) ** 2:
            return False
        share = 2.0 * dot(d, r) / square
        d = d[0] - share * r[0], d[1] - share * r[1], d[2] - share * r[2]
    return False


@kernel(parallel_from=512)
def separate_bodies(pairs, few, turns, x, used_start, used, low, high, is_apart):
    """Mark the pairs of bodies, of those with few vertices, that have a separating plane."""
    for i in prange(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        count = (used_start[a + 1] - used_start[a]) + (used_start[b + 1] - used_start[b])
        is_apart[i] = count <= few and _is_separated(a, b, turns, x, used_start, used, low, high)
