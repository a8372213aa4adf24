"""What one query of sphere trees may take: time, tests, the finest level."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from impinge.backend.clock import now_ns
from impinge.checks import as_length, shown
from impinge.detect.common.pair_query import Cancel, check_cancel
from impinge.detect.sphere_tree.track.tracking import NEVER
from impinge.errors import OptionError

SLICE_NS = 2_000_000
"""How often ``cancel`` is looked at."""


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
    if type(budget_ms) is float and 0.0 < budget_ms < 1e6 and max_tests is level is cancel is None:
        return tuple.__new__(Limits, (began, began + int(1e6 * budget_ms), NEVER, None, None))  # the common case
    end = NEVER if budget_ms is None else began + budget_ns(budget_ms)
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
