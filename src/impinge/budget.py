"""Budgets of queries: wall time in milliseconds, or a number of tests.

Time is checked against a monotonic clock in nanoseconds. A number of tests gives the same answer on every machine.
"""

from __future__ import annotations

from impinge.backend.clock import now_ns
from impinge.checks import as_length, as_whole, shown
from impinge.errors import OptionError

NEVER = 2**63 - 1
"""The time of a deadline that never comes, and the number of tests without a limit."""
QUEUE_LIMIT = 1 << 20
"""Most entries of a sphere search's queue, up to eight pairs each, before the newest are followed first: 8 MB."""
MOST_NS = 10**18
"""Longer budgets are cut to this: times remain 64-bit numbers."""


class Budget:
    """The wall time and the tests that a query may use; the time starts with the constructor.

    Parameters
    ----------
    budget_ms : float, optional
        Milliseconds; None for no limit.
    max_tests : int, optional
        Number of tests; None for no limit.

    Raises
    ------
    OptionError
        If ``budget_ms`` is not a positive number, or ``max_tests`` not a whole number from 1.
    """

    __slots__ = ("began_ns", "budget_ms", "end_ns", "max_tests", "tests")

    def __init__(self, budget_ms: float | None = None, max_tests: int | None = None) -> None:
        self.began_ns = began_ns = now_ns()
        self.budget_ms, self.max_tests = budget_ms, max_tests
        self.tests = NEVER
        """Number of tests, ``NEVER`` without a limit."""
        if type(budget_ms) is float and 0.0 < budget_ms < 1e6:  # the common case
            self.end_ns = began_ns + int(1e6 * budget_ms)
        else:
            self.end_ns = self.deadline_ns(began_ns)
        if max_tests is not None:
            self.tests = min(as_whole(max_tests, "max_tests", remedy=", or None for no limit"), NEVER)

    def __repr__(self) -> str:
        return f"Budget(budget_ms={self.budget_ms}, max_tests={self.max_tests})"

    def deadline_ns(self, began_ns: int) -> int:
        """The time at which a query that began at ``began_ns`` has to return; ``NEVER`` without a limit."""
        if self.budget_ms is None:
            return NEVER
        length = as_length(self.budget_ms)
        if not length:
            raise OptionError(
                f"budget_ms is {shown(self.budget_ms)}, expected a positive number of milliseconds, "
                "or None for no limit"
            )
        return began_ns + max(int(min(1e6 * length, MOST_NS)), 1)

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.end_ns != NEVER and now_ns() >= self.end_ns
