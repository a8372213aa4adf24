"""Whether other programs want the cores that our threads run on.

Threads of OpenMP spin while they wait, which makes short kernels twice as fast on idle cores. Where other programs are
busy, spinning uses up the share of time that the system grants, and all wait for a thread that is off its core: frames
of 0.4 ms took 80 ms among twenty busy processes on two cores, and half a millisecond on one thread.

Sign     Involuntary context switches: the system takes a core away. It counts them, for all threads together. Among
         other programs a thread loses its core every few milliseconds of its own time, alone nearly never.
Rule     More than ``SWITCHES_A_SECOND`` per second of processor time, over a tenth of a second: kernels run on one
         thread for a second. If threads then fare no better, for twice as long, up to ``LONGEST_S``.
Harmless Answers do not depend on threads; this decides about time alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic

SWITCHES_A_SECOND = 60.0
"""Of processor time: 300 among busy programs, below 20 beside a browser that draws."""
LOOK_EVERY_S = 0.1
SHORTEST_S, LONGEST_S = 1.0, 16.0


def usage() -> tuple[int, float]:
    """How often this process was sent off a core, and the seconds of processor time that it has used."""
    if sys.platform == "win32":  # tells neither, nor has it threads of GNU OpenMP
        return 0, 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nivcsw, used.ru_utime + used.ru_stime


class Crowding:
    """Watches how threads fare; asked before each launch."""

    def __init__(self, clock: Callable[[], float] = monotonic, used: Callable[[], tuple[int, float]] = usage) -> None:
        self._clock, self._used = clock, used
        self._looked, self._before = clock(), used()
        self._alone_until, self._alone_s = 0.0, SHORTEST_S

    def is_crowded(self) -> bool:
        """Whether one thread does better than several at present."""
        now = self._clock()
        if now < self._alone_until:
            return True
        if self._alone_until:  # threads get another chance
            self._alone_until, self._looked, self._before = 0.0, now, self._used()
        elif now - self._looked >= LOOK_EVERY_S:
            self._look(now)
        return self._alone_until > 0.0

    def _look(self, now: float) -> None:
        switches, seconds = self._used()
        lost, spent = switches - self._before[0], seconds - self._before[1]
        self._looked, self._before = now, (switches, seconds)
        if lost > SWITCHES_A_SECOND * max(spent, LOOK_EVERY_S):
            self._alone_until = now + self._alone_s
            self._alone_s = min(2.0 * self._alone_s, LONGEST_S)
        else:
            self._alone_s = SHORTEST_S
