"""Integers of compiled code against Python's."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from impinge.exact import integers

ROOM = 4000


def put(arena: np.ndarray, value: int) -> np.int64:
    """Write a Python integer: its digits by sums of shifted small numbers."""
    out = integers.ZERO
    for place, start in enumerate(range(0, abs(value).bit_length(), 48)):
        digits = (abs(value) >> start) & ((1 << 48) - 1)
        part = integers.shifted(arena, integers.whole(arena, np.int64(digits)), np.int64(48 * place))
        out = integers.plus(arena, out, part)
    return integers.times_small(arena, out, -1) if value < 0 else out


def get(arena: np.ndarray, h: np.int64) -> int:
    """Read an integer, and check that its digits are normal."""
    digits = [int(d) for d in arena[h + 1 : h + 1 + arena[h]]]
    assert all(0 <= d < integers.BASE for d in digits[:-1])
    assert not digits or (digits[-1] != 0 and -integers.BASE <= digits[-1] < integers.BASE)
    return sum(d << (integers.BITS * i) for i, d in enumerate(digits))


def sparse(rng: random.Random) -> int:
    """An integer of up to 400 bits; mostly few bits are set or cleared, for carries and runs of empty digits."""
    bits = rng.choice([1, 5, 23, 24, 25, 48, 49, 53, 72, 100, 200, 400])
    value = rng.choice([0, 1 << bits, (1 << bits) - 1, rng.getrandbits(bits)])
    for _ in range(rng.randrange(3)):
        value += rng.choice([-1, 1]) << rng.randrange(bits)
    return rng.choice([-1, 1]) * value


@pytest.mark.small
@pytest.mark.tiny
def test_arithmetic_is_that_of_python():
    """Add, multiply, shift and halve as Python does, with normal digits."""
    rng = random.Random(0)
    for _ in range(1000):
        arena = integers.new_arena(ROOM)
        a, b = sparse(rng), sparse(rng)
        x, y = put(arena, a), put(arena, b)
        small, shift = rng.randrange(-18, 19), rng.randrange(60)
        results = {
            a: x,
            a + b: integers.plus(arena, x, y),
            a + small * b: integers.plus(arena, x, y, small),
            a * b: integers.times(arena, x, y),
            a * small: integers.times_small(arena, x, small),
            a << shift: integers.shifted(arena, x, np.int64(shift)),
        }
        for expected, h in results.items():
            assert get(arena, h) == expected
            assert integers.sign(arena, h) == (expected > 0) - (expected < 0)
            assert integers.is_zero(arena, h) == (expected == 0)
        if a >= 0:
            assert integers.is_even(arena, x) == (a % 2 == 0)
        if a >= 0 and a % 2 == 0:
            assert get(arena, integers.halved(arena, x)) == a // 2
        assert not integers.has_overflowed(arena)


@pytest.mark.small
@pytest.mark.tiny
def test_doubles_enclose_integers():
    """Enclose a / 2^e between two doubles, subnormal ones included; above 2^-1000 they are near, or equal if exact."""
    rng = random.Random(1)
    equal = 0
    for _ in range(2000):
        arena = integers.new_arena(ROOM)
        a = abs(sparse(rng))
        exponent = a.bit_length() + rng.choice([0, 1, 30, 990, 1060, 1080, 1500])
        low, high = integers.to_doubles(arena, put(arena, a), np.int64(exponent))
        exact = Fraction(a, 1 << exponent)
        assert Fraction(low) <= exact <= Fraction(high), (a, exponent)
        if low > 2.0**-1000:
            assert Fraction(high) - Fraction(low) <= exact / 2**47, (a, exponent)
        equal += low == high
    assert 200 < equal < 1800


def test_doubles_become_integers():
    """Take every finite double as an integer times a power of two."""
    rng = random.Random(2)
    for _ in range(1000):
        value = rng.choice([-1, 1]) * rng.random() * 2.0 ** rng.randrange(-1074, 1000, 7)
        value = rng.choice([value, 5e-324, -1.7976931348623157e308, 2.0**-1022, 0.0, 3.0])
        lowest = rng.choice([-1074, -1100]) if value == 0 else int(integers.lowest_bit(value)[1]) - rng.randrange(60)
        arena = integers.new_arena(ROOM)
        found = get(arena, integers.from_double(arena, value, np.int64(lowest)))
        assert found * Fraction(2) ** lowest == Fraction(value)


def test_lack_of_room_is_marked():
    """Mark the arena where a result has no room, and never write beyond it."""
    arena = integers.new_arena(12)
    x = integers.shifted(arena, integers.whole(arena, np.int64(1)), np.int64(100))
    assert not integers.has_overflowed(arena)
    integers.times(arena, x, x)
    assert integers.has_overflowed(arena)
