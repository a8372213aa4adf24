"""Arrays in kernels by address."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.jit import compiled
from impinge.backend.raw_arrays import address_of
from impinge.backend.raw_arrays_kernels import float64_at, int32_at, int64_at

pytestmark = [pytest.mark.small, pytest.mark.tiny]


@compiled
def add_all(arguments):
    """Sum three arrays, then write to each."""
    floats, longs, ints = (
        float64_at(arguments[0], arguments[1]),
        int64_at(arguments[2], arguments[3]),
        int32_at(arguments[4], arguments[5]),
    )
    total = 0.0
    for i in range(len(floats)):
        total += floats[i] + longs[i] + ints[i]
    floats[0], longs[0], ints[0] = -1.0, -2, -3
    return total


@pytest.mark.parametrize("count", [1, 5])
def test_arrays_are_read_and_written_where_they_are(count):
    """Read and write the memory of the caller's arrays."""
    arrays = [np.arange(1, count + 1, dtype=kind) for kind in (np.float64, np.int64, np.int32)]
    arguments = np.array([number for array in arrays for number in (address_of(array), len(array))])
    total = add_all(arguments)

    assert total == 3 * sum(range(1, count + 1))
    assert [array[0] for array in arrays] == [-1.0, -2, -3]


def test_empty_arrays_have_an_address_too():
    """Accept empty arrays."""
    nothing = np.zeros(0)

    assert len(float64_at(address_of(nothing), 0)) == 0
