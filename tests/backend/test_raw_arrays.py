"""Arrays by their address."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.jit import compiled
from impinge.backend.raw_arrays import floats_at, ids_at, wholes_at
from impinge.checks import address_of

pytestmark = [pytest.mark.small, pytest.mark.tiny]


@compiled
def add_all(desk):
    """Add up three arrays, and write into each."""
    floats, wholes, ids = floats_at(desk[0], desk[1]), wholes_at(desk[2], desk[3]), ids_at(desk[4], desk[5])
    total = 0.0
    for i in range(len(floats)):
        total += floats[i] + wholes[i] + ids[i]
    floats[0], wholes[0], ids[0] = -1.0, -2, -3
    return total


@pytest.mark.parametrize("count", [1, 5])
def test_arrays_are_read_and_written_where_they_are(count):
    """See the numbers of the caller's own arrays, and change them."""
    arrays = [np.arange(1, count + 1, dtype=kind) for kind in (np.float64, np.int64, np.int32)]
    desk = np.array([number for array in arrays for number in (address_of(array), len(array))])
    total = add_all(desk)

    assert total == 3 * sum(range(1, count + 1))
    assert [array[0] for array in arrays] == [-1.0, -2, -3]


def test_empty_arrays_have_an_address_too():
    """Take arrays without elements."""
    nothing = np.zeros(0)

    assert len(floats_at(address_of(nothing), 0)) == 0
