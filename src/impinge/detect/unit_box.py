"""Coordinates within -1 .. 1: where to count from, and the power of two to scale by."""

from __future__ import annotations

import math

from impinge.arrays import Floats

LARGEST_EXPONENT = 1000
"""Beyond this the power of two itself would leave the range of doubles."""


def origin_and_factor(low: Floats, high: Floats) -> tuple[Floats, float]:
    """Origin and factor such that ``factor * x - factor * origin`` is within -1 .. 1 for every x of the box.

    The factor is a power of two, so that only the difference is rounded, and scaling by powers of two changes nothing.
    """
    half = 0.5 * high - 0.5 * low
    largest = float(half.max())
    exponent = math.frexp(largest)[1] + 1 if largest > 0.0 else 0
    origin: Floats = 0.5 * low + 0.5 * high
    return origin, math.ldexp(1.0, -min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT))
