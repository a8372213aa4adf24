"""Named stage timers: where the milliseconds of a query went. Off, they cost one attribute look-up.

    stages = start_stages()
    ...;  stages.done("refit")
    ...;  stages.done("traverse")
    result.stats.update(stages.times())

Switched on for the process by ``impinge.time_stages(True)`` or ``IMPINGE_TIME_STAGES=1``.
"""

from __future__ import annotations

import os
from time import perf_counter


class Stages:
    """Milliseconds per stage, each counted from the end of the one before."""

    def __init__(self) -> None:
        self._milliseconds: dict[str, float] = {}
        self._last = perf_counter()

    def done(self, name: str) -> None:
        """Close the stage that ends here."""
        now = perf_counter()
        self._milliseconds[f"{name}_ms"] = self._milliseconds.get(f"{name}_ms", 0.0) + 1e3 * (now - self._last)
        self._last = now

    def times(self) -> dict[str, float]:
        """Milliseconds by stage, as they go into ``stats``."""
        return self._milliseconds


class _NoStages(Stages):
    """The same interface when timing is off."""

    def __init__(self) -> None:
        pass

    def done(self, name: str) -> None:
        pass

    def times(self) -> dict[str, float]:
        return {}


NO_STAGES = _NoStages()
_make: type[Stages] | None = Stages if os.environ.get("IMPINGE_TIME_STAGES", "0") not in ("", "0") else None


def time_stages(on: bool = True) -> None:
    """Let every later query report milliseconds per stage in its ``stats``."""
    global _make  # noqa: PLW0603 - a process-wide switch
    _make = Stages if on else None


def start_stages() -> Stages:
    """Start the timer of the first stage; a timer that does nothing unless timing is on."""
    return NO_STAGES if _make is None else _make()
