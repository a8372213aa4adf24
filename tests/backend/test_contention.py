"""Threads on cores that other programs want."""

from __future__ import annotations

import pytest

from impinge.backend import jit
from impinge.backend.contention import LONGEST_S, SHORTEST_S, SWITCHES_A_SECOND, Crowding, usage


class Machine:
    """A clock and counters that are set by hand."""

    def __init__(self) -> None:
        self.now, self.switches, self.seconds = 100.0, 5, 3.0
        self.crowding = Crowding(lambda: self.now, lambda: (self.switches, self.seconds))

    def work(self, seconds: float, switches_a_second: float) -> bool:
        """Let two threads work for a while; whether one would do better then."""
        self.now += seconds
        self.seconds += 2.0 * seconds
        self.switches += round(2.0 * seconds * switches_a_second)
        return self.crowding.is_crowded()


BUSY, IDLE = 5.0 * SWITCHES_A_SECOND, 0.2 * SWITCHES_A_SECOND


def test_idle_cores_are_used():
    """Use threads as long as nobody takes their cores away."""
    machine = Machine()

    assert not any(machine.work(0.15, IDLE) for _ in range(100))


def test_crowded_cores_are_left():
    """Run on one thread once cores are taken away, for a while, and then try threads again."""
    machine = Machine()
    assert not machine.work(0.05, BUSY)
    assert machine.work(0.1, BUSY)
    assert machine.work(0.9 * SHORTEST_S, BUSY)

    assert not machine.work(0.2 * SHORTEST_S, BUSY)
    assert not any(machine.work(0.15, IDLE) for _ in range(10))


def test_next_try_is_later():
    """Wait longer from try to try while cores stay crowded, but never too long; start anew once they are idle."""
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
    """Stay with threads where a core was taken away a few times in a short while."""
    machine = Machine()
    machine.switches += 5

    assert not machine.work(0.11, 0.0)


def test_system_counts():
    """Read what the system has counted, which only grows."""
    (switches, seconds), again = usage(), usage()

    assert 0 <= switches <= again[0]
    assert 0.0 < seconds <= again[1]


def test_kernels_ask(monkeypatch):
    """Take the serial twin of a kernel where cores are crowded, unless one is asked for by name."""
    if jit.thread_count() == 1:
        pytest.skip("one thread is all that this machine has")
    probe = jit.kernel(parallel_from=10)(lambda count: count)

    def crowded(is_crowded: bool, spins: bool = True) -> object:
        monkeypatch.setattr(jit._crowding, "is_crowded", lambda: is_crowded)
        monkeypatch.setattr(jit, "_threads_spin", spins)
        return probe.over(10)

    assert crowded(False) is probe.parallel
    assert crowded(True) is probe.serial
    assert crowded(True, spins=False) is probe.parallel
    with jit.launch_always("parallel"):
        assert crowded(True) is probe.parallel
