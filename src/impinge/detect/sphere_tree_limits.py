"""What one query of sphere trees may take: time, tests, the finest level; and how early a search stops to be in time.

A query shall return by the end of its budget, and in 99 of 100 cases no later than the larger of 50 us and 5 % of it.
What it takes once the search has stopped is learnt from the queries before, apart from listing what was found, which
is known beforehand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from impinge.arrays import as_length, shown
from impinge.backend.clock import now_ns
from impinge.detect.pair_query import Cancel, check_cancel
from impinge.detect.sphere_tracking import NEVER
from impinge.errors import OptionError

FIRST_NS = 40_000
"""What it takes at first to make a result; measured from then on."""
LEAST_NS = 10_000
RETURN_NS = 20_000
"""What it takes to be called and to return, with caches that others have filled."""
HELD_UP_NS = 400_000
"""Beyond this, something else held the process up, which says nothing about the next query."""
LATE_NS, LATE_SHARE = 50_000, 20
"""A query may be late by so much, or by one part in so many of its budget."""
EPOCH = 256
"""Queries of which the third slowest counts as nearly the worst: one in a hundred is slower."""


class Limits(NamedTuple):
    """What one query may take."""

    began: int
    end: int
    """When the time is up, on the same clock."""
    tests: int
    level: Any
    cancel: Cancel | None

    @property
    def seconds_left(self) -> float:
        """How long to wait for another query, -1 for as long as it takes."""
        return -1.0 if self.end == NEVER else max(1e-9 * (self.end - now_ns()), 0.0)

    @property
    def cancelled(self) -> bool:
        """Whether the caller wants the query to stop."""
        return self.cancel is not None and self.cancel.is_set()


def limits_of(budget_ms: Any, max_tests: Any, level: Any, cancel: Any) -> Limits:
    """The limits of a query that begins now."""
    began = now_ns()
    end = NEVER
    if type(budget_ms) is float and 0.0 < budget_ms < 1e6:
        end = began + int(1e6 * budget_ms)  # the common case, without the function that knows all others
    elif budget_ms is not None:
        end = began + budget_ns(budget_ms)
    if max_tests is not None:
        check_whole(max_tests, "max_tests")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int | np.integer) or level < 0):
        raise OptionError(f"level is {shown(level)}, expected a whole number from 0, the root's level")
    if cancel is not None:
        check_cancel(cancel)
    return Limits(began, end, NEVER if max_tests is None else min(int(max_tests), NEVER), level, cancel)


def budget_ns(budget_ms: Any) -> int:
    """A budget in nanoseconds."""
    length = as_length(budget_ms)
    if length is None or length == 0.0:
        raise OptionError(
            f"budget_ms is {shown(budget_ms)}, expected a positive number of milliseconds; leave it out for no limit"
        )
    return max(int(min(1e6 * length, 1e18)), 1)


def check_whole(value: Any, name: str) -> None:
    """Refuse what is no whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise OptionError(f"{name} is {shown(value)}, expected a whole number from 1")


class Reserve:
    """How long before the end of its budget a search has to stop."""

    def __init__(self) -> None:
        self._usual = FIRST_NS
        self._slowest = [0, 0, 0]
        """Of this epoch, in descending order."""
        self._before = 0
        """The third slowest of the last epoch."""
        self._count = 0

    def for_budget(self, budget_ns: int) -> int:
        """As long as queries usually take, and so long that nearly the worst of them is not too late."""
        late = max(LATE_NS, budget_ns // LATE_SHARE)
        return max(self._usual, self._slowest[2] - late, self._before - late)

    def learn(self, taken_ns: int) -> None:
        """Remember what a query took once its search had stopped."""
        taken = taken_ns + RETURN_NS
        self._usual = max(LEAST_NS, min(taken, HELD_UP_NS), self._usual * 15 // 16)
        slowest = self._slowest
        if slowest[2] < taken < HELD_UP_NS:
            slowest[2] = taken
            slowest.sort(reverse=True)
        self._count += 1
        if self._count == EPOCH:
            self._before, self._slowest, self._count = slowest[2], [0, 0, 0], 0
