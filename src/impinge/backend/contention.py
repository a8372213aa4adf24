"""Contention: other processes compete for the cores of our threads.

OpenMP threads spin while they wait, which makes short kernels twice as fast on idle cores. Under contention, spinning
uses up the time slices of the process, and all threads wait for a descheduled one: frames of 0.4 ms took 80 ms among
twenty busy processes on two cores, and 0.5 ms on one thread.

Signal    Involuntary context switches of all threads, counted by the system. Under contention a thread is preempted
          every few milliseconds of its own time, on idle cores nearly never.
Rule      More than ``SWITCHES_PER_SECOND`` per second of processor time, over 0.1 s: kernels run on one thread for 1 s.
          While contention lasts, the interval doubles up to ``LONGEST_S``.
Effect    Timing alone: results do not depend on threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic

SWITCHES_PER_SECOND = 60.0
"""Per second of processor time: 300 among busy processes, below 20 beside a browser that draws."""
SAMPLE_EVERY_S = 0.1
SHORTEST_S, LONGEST_S = 1.0, 16.0


def usage() -> tuple[int, float]:
    """Involuntary context switches and processor time [s] of this process so far."""
    if sys.platform == "win32":  # reports neither, and has no GNU OpenMP threads
        return 0, 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nivcsw, used.ru_utime + used.ru_stime


class ContentionMonitor:
    """Samples the preemption rate; queried before each launch."""

    def __init__(self, clock: Callable[[], float] = monotonic, used: Callable[[], tuple[int, float]] = usage) -> None:
        self._clock, self._used = clock, used
        self._sampled, self._before = clock(), used()
        self._serial_until, self._serial_s = 0.0, SHORTEST_S

    def is_contended(self) -> bool:
        """Whether one thread is faster than several at present."""
        now = self._clock()
        if now < self._serial_until:
            return True
        if self._serial_until:  # try threads again
            self._serial_until, self._sampled, self._before = 0.0, now, self._used()
        elif now - self._sampled >= SAMPLE_EVERY_S:
            switches, seconds = self._used()
            preempted, spent = switches - self._before[0], seconds - self._before[1]
            self._sampled, self._before = now, (switches, seconds)
            if preempted > SWITCHES_PER_SECOND * max(spent, SAMPLE_EVERY_S):
                self._serial_until = now + self._serial_s
                self._serial_s = min(2.0 * self._serial_s, LONGEST_S)
            else:
                self._serial_s = SHORTEST_S
        return self._serial_until > 0.0
