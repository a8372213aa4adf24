"""Clock, scan, sort and stage timers."""

from __future__ import annotations

import time

import numpy as np
import pytest

import impinge
from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, launch_always
from impinge.backend.scan import BLOCK, exclusive_scan
from impinge.backend.sort import sort_bits, sort_keys
from impinge.backend.stages import start_stages

pytestmark = pytest.mark.small


@compiled
def read_twice():
    """The clock from inside compiled code."""
    first = monotonic_ns()
    return first, monotonic_ns()


def test_clock_agrees_with_python():
    """Read the same clock as Python does, inside compiled code."""
    before = time.monotonic_ns()
    first, second = read_twice()

    assert before <= first <= second <= time.monotonic_ns()


@pytest.mark.parametrize("n", [0, 1, 2, 1000, BLOCK, BLOCK + 1, 3 * BLOCK + 17])
@pytest.mark.parametrize("parallel", [False, True])
def test_exclusive_scan(rng, n, parallel):
    """Equal NumPy's cumulative sum for any length, serial and on threads."""
    counts = rng.integers(0, 1000, n)
    if parallel:
        with launch_always("parallel"):
            start = exclusive_scan(counts)
    else:
        start = exclusive_scan(counts)

    np.testing.assert_array_equal(start, np.concatenate([[0], np.cumsum(counts)]))


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 65_536, 200_001])
@pytest.mark.parametrize("parallel", [False, True])
def test_sort_keys(rng, n, parallel):
    """Equal NumPy's sort for any length, serial and on threads."""
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    expected = np.sort(keys)
    if parallel:
        with launch_always("parallel"):
            actual = sort_keys(keys.copy())
    else:
        actual = sort_keys(keys.copy())

    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 300, 5000])
def test_sort_bits(rng, count):
    """Sort the first keys of an int64 array in place by some of their bits, keeping the order of equal ones."""
    keys = rng.integers(0, 1 << 20, count + 3).astype(np.int64) << 12 | rng.integers(0, 1 << 12, count + 3)
    expected = np.append(keys[:count][np.argsort(keys[:count] >> 12, kind="stable")], keys[count:])
    sort_bits(keys, count, 12, 32, np.zeros_like(keys))
    np.testing.assert_array_equal(keys, expected)


def test_sort_is_stable(rng):
    """Leave keys with equal sorted bits in their order."""
    keys = rng.integers(0, 16, 5000, dtype=np.uint64) << np.uint64(20) | np.arange(5000, dtype=np.uint64)
    actual = sort_keys(rng.permutation(keys), low_bit=20)
    shuffled = np.random.default_rng(20061).permutation(keys)

    np.testing.assert_array_equal(actual >> np.uint64(20), np.sort(keys >> np.uint64(20)))
    by_bits = sort_keys(shuffled.copy(), low_bit=20)
    np.testing.assert_array_equal(by_bits, shuffled[np.argsort(shuffled >> np.uint64(20), kind="stable")])


def test_stages_are_off_unless_asked_for():
    """Report milliseconds per stage only when timing is on."""
    impinge.time_stages(False)
    stages = start_stages()
    stages.done("refit")
    assert stages.times() == {}

    impinge.time_stages(True)
    try:
        stages = start_stages()
        stages.done("refit")
        stages.done("test")
        stages.done("refit")
    finally:
        impinge.time_stages(False)

    assert list(stages.times()) == ["refit_ms", "test_ms"]
    assert all(value >= 0.0 for value in stages.times().values())
