"""Distances of points, segments and triangles in fractions, slow and plain, to judge the library by.

Every finite double is a fraction; nothing is rounded but the root at the end. Independent of the library's formulas:
a minimum of a quadratic function is taken on each feature by the normal equations, and the least one is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

Vector = Sequence[Fraction]


def exact(p: Sequence[float]) -> list[Fraction]:
    """A point of doubles as fractions."""
    return [Fraction(float(value)) for value in p]


def dot(a: Vector, b: Vector) -> Fraction:
    """The dot product."""
    return sum((p * q for p, q in zip(a, b)), Fraction(0))


def minus(a: Vector, b: Vector) -> list[Fraction]:
    """The difference."""
    return [p - q for p, q in zip(a, b)]


def root(square: Fraction) -> float:
    """The root of a fraction as a double, right to the last place or the one before, at any scale."""
    if square == 0:
        return 0.0
    shift = (square.denominator.bit_length() - square.numerator.bit_length()) // 2
    scaled = square * Fraction(4) ** shift
    return math.ldexp(math.sqrt(scaled), -shift)


def square_to_segment(p: Vector, a: Vector, b: Vector) -> Fraction:
    """Squared distance of a point and a segment."""
    along, to_p = minus(b, a), minus(p, a)
    length = dot(along, along)
    share = min(max(dot(to_p, along) / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    gap = [r - share * q for q, r in zip(along, to_p)]
    return dot(gap, gap)


def square_to_triangle(*points: Sequence[float]) -> Fraction:
    """Squared distance of a point and a triangle of doubles."""
    p, a, b, c = map(exact, points)
    best = min(square_to_segment(p, a, b), square_to_segment(p, b, c), square_to_segment(p, c, a))
    ab, ac, ap = minus(b, a), minus(c, a), minus(p, a)
    bb, bc, cc, bp, cp = dot(ab, ab), dot(ab, ac), dot(ac, ac), dot(ab, ap), dot(ac, ap)
    area = bb * cc - bc * bc
    if area:
        v, w = (bp * cc - cp * bc) / area, (cp * bb - bp * bc) / area
        if v >= 0 and w >= 0 and v + w <= 1:
            gap = [v * q + w * r - s for q, r, s in zip(ab, ac, ap)]
            best = min(best, dot(gap, gap))
    return best


def square_of_segments(*points: Sequence[float]) -> Fraction:
    """Squared distance of two segments of doubles."""
    a, b, c, d = map(exact, points)
    best = min(
        square_to_segment(a, c, d), square_to_segment(b, c, d), square_to_segment(c, a, b), square_to_segment(d, a, b)
    )
    u, v, w = minus(b, a), minus(d, c), minus(c, a)
    uu, uv, vv, uw, vw = dot(u, u), dot(u, v), dot(v, v), dot(u, w), dot(v, w)
    area = uu * vv - uv * uv
    if area:
        s, t = (uw * vv - uv * vw) / area, (uv * uw - uu * vw) / area
        if 0 <= s <= 1 and 0 <= t <= 1:
            gap = [r + t * q - s * p for p, q, r in zip(u, v, w)]
            best = min(best, dot(gap, gap))
    return best


def square_of_triangles(s: Sequence[Sequence[float]], t: Sequence[Sequence[float]]) -> Fraction:
    """Squared distance of two triangles of doubles that do not meet."""
    of_corners = [square_to_triangle(p, *t) for p in s] + [square_to_triangle(p, *s) for p in t]
    return min(of_corners + [square_of_segments(s[i - 1], s[i], t[j - 1], t[j]) for i in range(3) for j in range(3)])
