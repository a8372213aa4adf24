"""Normalisation of coordinates to -1 .. 1 by an origin and a power of two."""

from __future__ import annotations

import math

from impinge.checks import Floats

SMALLEST_EXPONENT = -1023
"""Boxes smaller than 2^-1023 get the factor 2^1023: larger powers of two overflow."""


def origin_and_factor(low: Floats, high: Floats) -> tuple[Floats, float]:
    """Origin and factor such that ``factor * x - factor * origin`` is within -1 .. 1 for every x of the box.

    The factor is a power of two: only the difference is rounded. For the largest boxes it is subnormal, 2^-1025 at
    least, and still exact.
    """
    half = 0.5 * high - 0.5 * low
    largest = float(half.max())
    exponent = math.frexp(largest)[1] + 1 if largest > 0.0 else 0
    origin: Floats = 0.5 * low + 0.5 * high
    return origin, math.ldexp(1.0, -max(exponent, SMALLEST_EXPONENT))
