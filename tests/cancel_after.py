"""A ``cancel`` object that is set after a number of checks."""

from __future__ import annotations


class CancelAfter:
    """Is set once ``is_set`` was called ``checks`` times."""

    def __init__(self, checks: int) -> None:
        self.checks = checks

    def is_set(self) -> bool:
        """Count the check."""
        self.checks -= 1
        return self.checks < 0
