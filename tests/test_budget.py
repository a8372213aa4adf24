"""Tests of budgets."""

import numpy as np
import pytest

from impinge.budget import NEVER, Budget
from impinge.errors import OptionError


@pytest.mark.parametrize("wrong", [0, 0.0, -1.0, True, "1", np.nan, -np.inf])
def test_wrong_times_are_refused(wrong):
    """Refuse anything but a positive number of milliseconds."""
    with pytest.raises(OptionError, match=r"budget_ms is .*, expected a positive number of milliseconds"):
        Budget(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "1"])
def test_wrong_numbers_of_tests_are_refused(wrong):
    """Refuse anything but a whole number from 1."""
    with pytest.raises(OptionError, match=r"max_tests is .*, expected a whole number from 1"):
        Budget(max_tests=wrong)


def test_deadline_follows_from_the_begin():
    """Add the budget in nanoseconds to the time of the begin, at least 1 ns, and cut lengths that are no int64."""
    assert Budget(2).deadline_ns(5) == 2_000_005
    assert Budget(np.float32(0.5)).deadline_ns(0) == 500_000
    assert Budget(1e-9).deadline_ns(0) == 1
    assert Budget(np.inf).deadline_ns(1) == 10**18 + 1
    assert Budget(10**400).deadline_ns(1) == 10**18 + 1
    assert Budget().deadline_ns(7) == NEVER


def test_budget_is_over_when_the_time_is_up():
    """End with the time, and never without a time; tests do not count as time."""
    assert Budget(1e-9).is_over()
    assert not Budget(1e9).is_over()
    assert not Budget(max_tests=1).is_over()
    assert (Budget(max_tests=np.int64(3)).tests, Budget(max_tests=2**80).tests, Budget().tests) == (3, NEVER, NEVER)
