"""Planes between small bodies; see ``arena_apart``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import inlined, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import dot, minus

ROUNDING = 2.0**-46
"""Far above the rounding of a height, as a share of the extents of both bodies."""
SMALLEST, LARGEST = 2.0**-400, 2.0**400
"""Extents within which nothing over- or underflows."""


@inlined
def _extents(a, b, low, high):
    """The sum of the sides of a box around two bodies."""
    total = 0.0
    for axis in range(3):
        total += max(high[a, axis], high[b, axis]) - min(low[a, axis], low[b, axis])
    return total


@inlined
def _between_middles(a, b, low, high):
    """The unit vector from the middle of one box to that of another; the x axis if they are in one place."""
    x, y, z = (
        (low[b, 0] - low[a, 0]) + (high[b, 0] - high[a, 0]),
        (low[b, 1] - low[a, 1]) + (high[b, 1] - high[a, 1]),
        (low[b, 2] - low[a, 2]) + (high[b, 2] - high[a, 2]),
    )
    length = math.sqrt(x * x + y * y + z * z)
    return (x / length, y / length, z / length) if length > 0.0 else (1.0, 0.0, 0.0)


@inlined
def _farthest(x, used, first, end, origin, d):
    """The vertex, of some of those used, that is farthest along d, and how far that is from an origin."""
    best, farthest = -math.inf, used[first]
    for k in range(first, end):
        height = dot(minus(point(x, used[k]), origin), d)
        if height > best:
            best, farthest = height, used[k]
    return best, farthest


@inlined
def _is_apart(a, b, turns, x, used_start, used, low, high):
    size = _extents(a, b, low, high)
    if not SMALLEST < size < LARGEST:
        return False
    origin, d = point(low, a), _between_middles(a, b, low, high)
    for _ in range(turns):
        above_a, p = _farthest(x, used, used_start[a], used_start[a + 1], origin, d)
        below_b, q = _farthest(x, used, used_start[b], used_start[b + 1], origin, (-d[0], -d[1], -d[2]))
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
def part_bodies(pairs, few, turns, x, used_start, used, low, high, is_apart):
    """Which pairs of bodies, those with few vertices, a plane parts for certain."""
    for i in prange(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        count = (used_start[a + 1] - used_start[a]) + (used_start[b + 1] - used_start[b])
        is_apart[i] = count <= few and _is_apart(a, b, turns, x, used_start, used, low, high)
