"""Exact sums of products of doubles, whatever their exponents: a long fixed-point accumulator.

1. Split.   A double is m · 2^e with an integer |m| < 2^53, here in three pieces of 18 bits.
2. Multiply. The product of three doubles is an integer of 159 bits times a power of two; the 27 products
            of pieces are grouped by their power, seven sums below 2^57.
3. Add.     Each sum goes to its place among limbs of 32 bits that span everything that a product of three
            doubles can reach, from 2^-3378 to 2^3072. Limbs have 31 spare bits: carries are deferred.
4. Sign.    Carries propagate once from the lowest limb to the highest; the last carry has the sign.

Guarantee   exact for all finite doubles, subnormal ones too: nothing is rounded, nothing overflows.
Departure   Shewchuk's expansions [Shewchuk1997] do the same in floating point, assuming neither overflow nor underflow.
            They are faster, but behind a filter the difference is not measurable.
"""

import math

import numpy as np

from impinge.backend.jit import compiled

LOWEST = -3 * 1126
"""Exponent of the lowest limb: the lowest bit of a subnormal's mantissa, cubed."""
LIMBS = 206
"""32-bit limbs from 2^LOWEST to beyond 2^3072 times the few dozen terms of a sum."""

_PIECE = (1 << 18) - 1
_LIMB = (1 << 32) - 1


@compiled
def split(a):
    """``a`` as (low, middle, high, exponent): (low + middle·2^18 + high·2^36) · 2^exponent, pieces signed alike."""
    mantissa, exponent = math.frexp(a)
    m = np.int64(abs(mantissa) * 9007199254740992.0)  # · 2^53: whole
    sign = np.int64(1) if a >= 0.0 else np.int64(-1)
    low, middle, high = m & _PIECE, (m >> 18) & _PIECE, m >> 36
    return sign * low, sign * middle, sign * high, np.int64(exponent) - 53


@compiled
def add_product(limbs, a, b, c):
    """Add a·b·c to the accumulator."""
    if a == 0.0 or b == 0.0 or c == 0.0:
        return
    a0, a1, a2, ea = split(a)
    b0, b1, b2, eb = split(b)
    c0, c1, c2, ec = split(c)
    ab0, ab1, ab2, ab3, ab4 = a0 * b0, a0 * b1 + a1 * b0, a0 * b2 + a1 * b1 + a2 * b0, a1 * b2 + a2 * b1, a2 * b2
    position = ea + eb + ec - LOWEST
    sums = (
        ab0 * c0,
        ab0 * c1 + ab1 * c0,
        ab0 * c2 + ab1 * c1 + ab2 * c0,
        ab1 * c2 + ab2 * c1 + ab3 * c0,
        ab2 * c2 + ab3 * c1 + ab4 * c0,
        ab3 * c2 + ab4 * c1,
        ab4 * c2,
    )
    for k in range(7):
        value = sums[k]
        sign = np.int64(1) if value >= 0 else np.int64(-1)
        limb, shift = (position + 18 * k) >> 5, (position + 18 * k) & 31
        lower, upper = (abs(value) & _LIMB) << shift, (abs(value) >> 32) << shift
        limbs[limb] += sign * (lower & _LIMB)
        limbs[limb + 1] += sign * ((lower >> 32) + (upper & _LIMB))
        limbs[limb + 2] += sign * (upper >> 32)


@compiled
def add_determinant(limbs, sign, a, b, c):
    """Add ``sign`` · det[a; b; c] of three points as rows; ``sign`` is 1.0 or -1.0."""
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        add_product(limbs, sign * a[i], b[j], c[k])
        add_product(limbs, -sign * a[k], b[j], c[i])


@compiled
def empty_accumulator():
    """An accumulator that holds zero."""
    return np.zeros(LIMBS, np.int64)


@compiled
def sign_of(limbs):
    """Sign of the sum: -1, 0 or 1."""
    carry = np.int64(0)
    nonzero = np.int64(0)
    for i in range(len(limbs)):
        value = limbs[i] + carry
        nonzero |= value & _LIMB
        carry = value >> 32
    if carry < 0:
        return -1
    return 1 if (carry | nonzero) != 0 else 0
