"""Integers of any length in compiled code, in one array.

An arena is an array of int64: first the next free place and whether it ran out of room, then integers. An integer is
named by its place h: ``arena[h]`` is the number of its digits, which follow, to the base 2^24, the lowest first. All
but the last are in [0, 2^24); the last one is not zero and has the sign. ``ZERO`` has no digits. A product of digits
has 48 bits: sums of up to 2^15 of them fit into 64 bits, thus carries propagate once per operation.

Operations append their result. Without room they return ``ZERO`` and mark the arena (``has_overflowed``): the caller
repeats the computation in a larger one.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled

BITS = 24
BASE = 1 << BITS
MASK = BASE - 1
ZERO = np.int64(2)


@compiled
def new_arena(size):
    """An arena with room for ``size`` digits and counts."""
    arena = np.empty(size + 3, np.int64)
    arena[0], arena[1], arena[2] = 3, 0, 0
    return arena


@compiled
def has_overflowed(arena):
    """Whether an operation had no room: no result is valid then."""
    return arena[1] != 0


@compiled
def _reserve(arena, count):
    """The place for an integer of up to ``count`` digits, 0 if there is no room."""
    h = arena[0]
    if h + 1 + count > len(arena):
        arena[1] = 1
        return np.int64(0)
    arena[h] = count
    return h


@compiled
def _finish(arena, h):
    """Propagate carries, strip leading zeros and keep the integer."""
    last = h + arena[h]
    carry = np.int64(0)
    for i in range(h + 1, last):
        value = arena[i] + carry
        arena[i] = value & MASK
        carry = value >> BITS
    arena[last] += carry
    while last > h and (arena[last] == 0 or (arena[last] == -1 and last > h + 1)):
        if arena[last] == -1:  # digits x, -1 equal x - 2^24
            arena[last - 1] -= BASE
        last -= 1
    arena[h] = last - h
    if last == h:
        return ZERO
    arena[0] = last + 1
    return h


@compiled
def whole(arena, value):
    """An integer of 64 bits, up to 2^62 in size."""
    h = _reserve(arena, 4)
    if h == 0:
        return ZERO
    for i in range(1, 4):
        arena[h + i] = value & MASK
        value >>= BITS
    arena[h + 4] = value
    return _finish(arena, h)


@compiled
def sign(arena, a):
    """-1, 0 or 1."""
    if arena[a] == 0:
        return 0
    return 1 if arena[a + arena[a]] > 0 else -1


@compiled
def is_zero(arena, a):
    """Whether a is zero."""
    return arena[a] == 0


@compiled
def plus(arena, a, b, factor=1):
    """A + factor · b, with a factor of up to 2^30 in size."""
    m, n = arena[a], arena[b]
    h = _reserve(arena, max(m, n) + 2)
    if h == 0:
        return ZERO
    for i in range(1, max(m, n) + 3):
        arena[h + i] = (arena[a + i] if i <= m else 0) + (factor * arena[b + i] if i <= n else 0)
    return _finish(arena, h)


@compiled
def times(arena, a, b):
    """A · b."""
    m, n = arena[a], arena[b]
    if m == 0 or n == 0:
        return ZERO
    h = _reserve(arena, m + n + 1)
    if h == 0:
        return ZERO
    for i in range(1, m + n + 2):
        arena[h + i] = 0
    for i in range(m):
        digit, to = arena[a + 1 + i], h + 1 + i
        if digit != 0:  # numbers of very different size have gaps
            for j in range(n):
                arena[to + j] += digit * arena[b + 1 + j]
    return _finish(arena, h)


@compiled
def times_small(arena, a, factor):
    """A times an integer of up to 2^30 in size."""
    return plus(arena, ZERO, a, factor)


@compiled
def shifted(arena, a, bits):
    """A · 2^bits, with ``bits`` from 0."""
    count, skip, factor = arena[a], bits // BITS, np.int64(1) << np.int64(bits % BITS)
    if count == 0:
        return ZERO
    h = _reserve(arena, count + skip + 2)
    if h == 0:
        return ZERO
    for i in range(1, count + skip + 3):
        arena[h + i] = factor * arena[a + i - skip] if skip < i <= skip + count else 0
    return _finish(arena, h)


@compiled
def is_even(arena, a):
    """Whether a is even."""
    return arena[a] == 0 or arena[a + 1] & 1 == 0


@compiled
def halved(arena, a):
    """A / 2, for even a."""
    count = arena[a]
    h = _reserve(arena, count + 1)
    if h == 0:
        return ZERO
    for i in range(1, count + 1):
        upper = arena[a + i + 1] & 1 if i < count else 0
        arena[h + i] = (arena[a + i] >> 1) + upper * (BASE >> 1)
    arena[h + count + 1] = 0
    return _finish(arena, h)


@compiled
def lowest_bit(value):
    """A double that is not zero, as an odd integer and the exponent of its lowest bit."""
    mantissa, exponent = math.frexp(value)
    m, exponent = np.int64(mantissa * 9007199254740992.0), np.int64(exponent) - 53  # · 2^53: whole
    while m & 1 == 0:
        m >>= 1
        exponent += 1
    return m, exponent


@compiled
def from_double(arena, value, exponent):
    """The integer value · 2^-exponent; ``exponent`` is at most that of the lowest bit of ``value``."""
    if value == 0.0:
        return ZERO
    m, lowest = lowest_bit(value)
    return shifted(arena, whole(arena, m), lowest - exponent)


@compiled
def to_doubles(arena, a, exponent):
    """Doubles around a · 2^-exponent, for a from 0: one below or equal, one above or equal.

    From 2^-1000 on both are within 2^-48 of it.
    """
    count, top = arena[a], a + arena[a]
    if count == 0:
        return 0.0, 0.0
    bits, scale = arena[top], BITS * (count - 1) - exponent
    if count > 1:
        bits, scale = (bits << BITS) | arena[top - 1], scale - BITS
    rest = np.int64(0)
    if count > 2:  # as many bits of the third digit as fit into 53
        more = np.int64(0)
        while more < BITS and bits >> (52 - more) == 0:
            more += 1
        bits, scale = (bits << more) | (arena[top - 2] >> (BITS - more)), scale - more
        rest = arena[top - 2] & ((np.int64(1) << (BITS - more)) - 1)
    for i in range(a + 1, top - 2):
        rest |= arena[i]
    low, high = math.ldexp(float(bits), int(scale)), math.ldexp(float(bits + 1), int(scale))
    if low < 2.0**-1000:  # subnormal numbers are rounded to nearest
        return max(low - 2.0**-1074, 0.0), high + 2.0**-1074
    return low, low if rest == 0 else high
