"""Stage timers: milliseconds per stage of a query. Disabled, they cost one attribute look-up.

    stages = start_stages()
    ...;  stages.done("refit")
    ...;  stages.done("traverse")
    result.stats.update(stages.times())

``impinge.time_stages(True)`` or ``IMPINGE_TIME_STAGES=1`` enables them for the process.
"""

from __future__ import annotations

import os
from time import perf_counter

import numpy as np

from impinge.errors import OptionError


class Stages:
    """Milliseconds per stage, each measured from the end of the previous one."""

    def __init__(self) -> None:
        self._milliseconds: dict[str, float] = {}
        self._last = perf_counter()

    def done(self, name: str) -> None:
        """End a stage."""
        now = perf_counter()
        self._milliseconds[f"{name}_ms"] = self._milliseconds.get(f"{name}_ms", 0.0) + 1e3 * (now - self._last)
        self._last = now

    def times(self) -> dict[str, float]:
        """Milliseconds by stage, for ``stats``."""
        return dict(self._milliseconds)


class _NoStages(Stages):
    """The same interface while timing is disabled."""

    def done(self, name: str) -> None:
        pass


NO_STAGES = _NoStages()
_is_enabled = os.environ.get("IMPINGE_TIME_STAGES", "0") not in ("", "0")


def time_stages(on: bool = True) -> None:
    """Enable or disable stage timers of all later queries.

    Parameters
    ----------
    on
        With True, queries report milliseconds per stage in ``result.stats``, under keys that end in ``_ms``.
    """
    global _is_enabled  # noqa: PLW0603 - process-wide by nature
    if not isinstance(on, bool | np.bool_):
        raise OptionError(f"on is of type {type(on).__name__}, expected True or False")
    _is_enabled = bool(on)


def start_stages() -> Stages:
    """Start the timer of the first stage; a timer that does nothing while timing is disabled."""
    return Stages() if _is_enabled else NO_STAGES
