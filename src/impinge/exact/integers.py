"""Integers of any length in compiled code.

An integer is an array of digits to the base 2^24, the lowest first: all but the last are in [0, 2^24), the last one is
not zero and has the sign. Zero has no digits. A product of digits has 48 bits: sums of up to 2^15 of them fit into 64
bits, thus carries propagate once per operation. Operations return new arrays.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled

BITS = 24
BASE = 1 << BITS
MASK = BASE - 1


@compiled
def _normal(digits):
    """Propagate carries and strip leading zeros, in place."""
    carry = np.int64(0)
    last = len(digits) - 1
    for i in range(last):
        value = digits[i] + carry
        digits[i] = value & MASK
        carry = value >> BITS
    if last >= 0:
        digits[last] += carry
    count = len(digits)
    while count > 0 and (digits[count - 1] == 0 or (digits[count - 1] == -1 and count > 1)):
        if digits[count - 1] == -1:  # -1, x equals x - 2^24
            digits[count - 2] -= BASE
        count -= 1
    return digits[:count]


@compiled
def whole(value):
    """An integer of 64 bits, up to 2^62 in size."""
    digits = np.empty(4, np.int64)
    for i in range(3):
        digits[i] = value & MASK
        value >>= BITS
    digits[3] = value
    return _normal(digits)


@compiled
def sign(a):
    """-1, 0 or 1."""
    if len(a) == 0:
        return 0
    return 1 if a[len(a) - 1] > 0 else -1


@compiled
def plus(a, b):
    """A + b."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    out = np.empty(len(longer) + 1, np.int64)
    for i in range(len(shorter)):
        out[i] = longer[i] + shorter[i]
    for i in range(len(shorter), len(longer)):
        out[i] = longer[i]
    out[len(longer)] = 0
    return _normal(out)


@compiled
def minus(a, b):
    """A - b."""
    count = max(len(a), len(b))
    out = np.empty(count + 1, np.int64)
    for i in range(count + 1):
        out[i] = (a[i] if i < len(a) else 0) - (b[i] if i < len(b) else 0)
    return _normal(out)


@compiled
def times(a, b):
    """A · b."""
    out = np.zeros(len(a) + len(b) + 1, np.int64)
    for i in range(len(a)):
        digit = a[i]
        for j in range(len(b)):
            out[i + j] += digit * b[j]
    return _normal(out)


@compiled
def times_small(a, factor):
    """A times an integer of up to 2^30 in size."""
    out = np.empty(len(a) + 2, np.int64)
    for i in range(len(a)):
        out[i] = a[i] * factor
    out[len(a)] = 0
    out[len(a) + 1] = 0
    return _normal(out)


@compiled
def shifted(a, bits):
    """A · 2^bits, with ``bits`` from 0."""
    skip, rest = bits // BITS, np.int64(1) << np.int64(bits % BITS)
    out = np.zeros(len(a) + skip + 2, np.int64)
    for i in range(len(a)):
        out[skip + i] = a[i] * rest
    return _normal(out)


@compiled
def is_odd(a):
    """Whether a is odd."""
    return len(a) > 0 and a[0] & 1 == 1


@compiled
def halved(a):
    """A / 2, for even a."""
    out = np.zeros(len(a), np.int64)
    for i in range(len(a)):
        out[i] = a[i] >> 1
        if a[i] & 1 == 1 and i > 0:
            out[i - 1] += BASE >> 1
    return _normal(out)


@compiled
def lowest_exponent(value):
    """The exponent of the lowest bit of a double, 2000 for zero."""
    if value == 0.0:
        return 2000
    mantissa, exponent = math.frexp(value)
    m = np.int64(mantissa * 9007199254740992.0)  # · 2^53: whole
    low = exponent - 53
    while m & 1 == 0:
        m >>= 1
        low += 1
    return low


@compiled
def from_double(value, exponent):
    """The integer value · 2^-exponent; ``exponent`` is at most that of the lowest bit of ``value``."""
    if value == 0.0:
        return np.empty(0, np.int64)
    mantissa, high = math.frexp(value)
    m = np.int64(mantissa * 9007199254740992.0)
    low = high - 53
    while m & 1 == 0:
        m >>= 1
        low += 1
    return shifted(whole(m), low - exponent)


@compiled
def to_doubles(a, exponent):
    """Doubles around a · 2^-exponent, for a from 0: one below or equal, one above or equal, both within 2^-48 of it."""
    count = len(a)
    if count == 0:
        return 0.0, 0.0
    bits, scale = a[count - 1], BITS * (count - 1) - exponent
    if count > 1:
        bits, scale = (bits << BITS) | a[count - 2], scale - BITS
    rest = np.int64(0)
    if count > 2:  # as many bits of the third digit as fit into 53
        more = 0
        while more < BITS and bits >> (52 - more) == 0:
            more += 1
        bits, scale = (bits << more) | (a[count - 3] >> (BITS - more)), scale - more
        rest = a[count - 3] & ((np.int64(1) << (BITS - more)) - 1)
    for i in range(count - 3):
        rest |= a[i]
    low, high = math.ldexp(float(bits), scale), math.ldexp(float(bits + 1), scale)
    if low < 2.0**-1000:  # subnormal numbers are rounded to nearest
        return max(low - 2.0**-1074, 0.0), high + 2.0**-1074
    return low, low if rest == 0 else high
