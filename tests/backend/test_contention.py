"""Contention for cores: kernels fall back to one thread."""

from __future__ import annotations

import pytest

from impinge.backend import jit
from impinge.backend.contention import LONGEST_S, SHORTEST_S, SWITCHES_PER_SECOND, ContentionMonitor, usage


class Machine:
    """A machine with a simulated clock and simulated counters."""

    def __init__(self) -> None:
        self.now, self.switches, self.seconds = 100.0, 5, 3.0
        self.monitor = ContentionMonitor(lambda: self.now, lambda: (self.switches, self.seconds))

    def work(self, seconds: float, switches_per_second: float) -> bool:
        """Run two threads for a while; return whether cores are contended afterwards."""
        self.now += seconds
        self.seconds += 2.0 * seconds
        self.switches += round(2.0 * seconds * switches_per_second)
        return self.monitor.is_contended()


BUSY, IDLE = 5.0 * SWITCHES_PER_SECOND, 0.2 * SWITCHES_PER_SECOND


def test_idle_cores_are_used():
    """Use threads while they are not preempted."""
    machine = Machine()

    assert not any(machine.work(0.15, IDLE) for _ in range(100))


def test_contended_cores_are_left():
    """Run on one thread for a while after preemptions, then try threads again."""
    machine = Machine()
    assert not machine.work(0.05, BUSY)
    assert machine.work(0.1, BUSY)
    assert machine.work(0.9 * SHORTEST_S, BUSY)

    assert not machine.work(0.2 * SHORTEST_S, BUSY)
    assert not any(machine.work(0.15, IDLE) for _ in range(10))


def test_wait_doubles():
    """Double the wait between tries under contention, up to a limit; reset it on idle cores."""
    machine, waits = Machine(), []
    for _ in range(8):
        assert machine.work(0.2, BUSY)
        began = machine.now
        while machine.work(0.01, BUSY):
            pass
        waits.append(machine.now - began)
    assert waits == sorted(waits)
    assert waits[0] == pytest.approx(SHORTEST_S, abs=0.02)
    assert waits[-1] == pytest.approx(LONGEST_S, abs=0.02)

    assert not machine.work(0.2, IDLE)
    assert machine.work(0.2, BUSY)
    assert not machine.work(1.1 * SHORTEST_S, BUSY)


def test_single_switches_do_not_count():
    """Keep threads after a few preemptions in a short interval."""
    machine = Machine()
    machine.switches += 5

    assert not machine.work(0.11, 0.0)


def test_system_counts():
    """Read counters of the system, which never decrease."""
    (switches, seconds), again = usage(), usage()

    assert 0 <= switches <= again[0]
    assert 0.0 < seconds <= again[1]


def test_kernels_query_contention(monkeypatch):
    """Select the serial variant under contention, unless a variant is forced."""
    if jit.thread_count() == 1:
        pytest.skip("this machine has one core")
    probe = jit.kernel(parallel_from=10)(lambda count: count)

    def variant(is_contended: bool, spins: bool = True) -> object:
        monkeypatch.setattr(jit._contention, "is_contended", lambda: is_contended)
        monkeypatch.setattr(jit, "_threads_spin", spins)
        return probe.over(10)

    assert variant(False) is probe.parallel
    assert variant(True) is probe.serial
    assert variant(True, spins=False) is probe.parallel
    with jit.launch_always("parallel"):
        assert variant(True) is probe.parallel
