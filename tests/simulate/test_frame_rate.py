"""A frame rate that is held: on a machine whose costs are known, after surprises, asleep, and to the end of a run."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.simulate import pair_scheduler as turns_module
from impinge.simulate.frame_rate import SEARCH_SHARE, SHORTEST, Governor
from impinge.simulate.pair_scheduler import Turns
from impinge.simulate.simulation import Simulation
from simulated_cubes import FIRM, soft_cube, world_of

DT = 1.0 / 60.0


def frame(governor, *, move_per_second, search, other, asked=DT):
    """What a frame takes on a machine with these costs; searches stop when their budget is used up."""
    dt, search_ms = governor.length(asked, DT), min(search, governor.budget_ms)
    elapsed = search_ms + move_per_second * dt + other
    governor.passed(dt, 1, search_ms, move_per_second * dt, elapsed)
    return dt, elapsed


@pytest.mark.parametrize("move_per_second", [10.0, 1e3, 1e4])
@pytest.mark.parametrize("search", [0.1, 50.0])
def test_a_rate_is_held(move_per_second, search):
    """Fit frames into their time, as long as they may be: what searches leave goes to the step."""
    governor = Governor(8.0)
    frames = [frame(governor, move_per_second=move_per_second, search=search, other=0.5) for _ in range(12)]
    dt, elapsed = np.array(frames[4:]).T
    searching = min(search, SEARCH_SHARE * 8.0)

    assert elapsed.max() <= 8.0 + 1e-9
    longest = min((8.0 - 0.5 - searching) / move_per_second, DT)
    assert dt.min() > longest - SHORTEST * DT - 1e-12
    assert dt.max() <= longest + 1e-12


def test_a_frame_that_compiles_is_forgotten():
    """Be back at whole frames after two, however long the first took or one in the middle takes."""
    governor, lengths = Governor(8.0), []
    for k in range(9):
        slow = 2000.0 if k in (0, 5) else 1.0
        lengths.append(frame(governor, move_per_second=100.0 * slow, search=0.2, other=0.3 * slow)[0])

    assert [length == DT for length in lengths] == [True, False, True, True, True, True, True, True, True]


def test_nothing_to_move_and_no_time_left():
    """Take the shortest frame where all sleep and the rest alone takes too long; no division by zero."""
    governor = Governor(1e-3)
    governor.passed(DT, 0, 0.0, 0.0, 5.0)

    assert governor.length(DT, DT) == SHORTEST * DT
    assert governor.length(0.001 * DT, DT) == 0.001 * DT
    assert governor.budget_ms == SEARCH_SHARE * 1e-3


def test_searches_share_the_time_of_a_frame(monkeypatch):
    """Give searches no more than what is left for all of them, but a little."""
    clock = [100.0]
    monkeypatch.setattr(turns_module, "perf_counter", lambda: clock[0])
    turns = Turns({"budget_ms": 50.0})
    assert turns.part()["budget_ms"] == 50.0
    clock[0] += 0.0005
    assert turns.part()["budget_ms"] == pytest.approx(49.5)
    turns.reserve_ms = 2.0
    assert turns.part()["budget_ms"] == pytest.approx(1.5)
    turns.reserve_ms = -1.0
    turns.begin()
    assert 0.0 < turns.part()["budget_ms"] < 0.01


def test_a_run_comes_to_its_end():
    """End after as many of the shortest frames as fit, on a machine that is far too slow; tell what was asked for."""
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM)), ground=0.0, target_ms=1e-3)
    reports = sim.run(2.5 * sim.dt)

    assert len(reports) <= 1 + 1.5 * 64 + 1
    np.testing.assert_allclose(sim.time, 2.5 * sim.dt)
    np.testing.assert_allclose(reports[3].dt, SHORTEST * sim.dt)
    assert {report.stats["target_ms"] for report in reports} == {1e-3}
    assert reports[3].stats["asked_dt"] == sim.dt
    assert all(report.elapsed_ms > report.stats.get("search_ms", 0.0) for report in reports)


def test_sleepers_are_governed_too(tmp_path):
    """Let time pass by whole frames while all sleep, and begin from a state in which all do."""
    cubes = [soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM) for _ in range(3)]
    first = Simulation(world_of(cube=cubes[0]), ground=0.0, settling=0.5, sleep_after=0.2)
    assert first.run(2.0)[-1].sleeping
    first.save(tmp_path / "state.npz")
    for cube, target, length in ((cubes[1], 1e-6, SHORTEST * first.dt), (cubes[2], 1e6, first.dt)):
        sim = Simulation(world_of(cube=cube), ground=0.0, settling=0.5, sleep_after=0.2, target_ms=target)
        sim.restore(tmp_path / "state.npz")
        reports = [sim.step() for _ in range(4)]

        assert all(report.sleeping == ("cube",) for report in reports)
        np.testing.assert_allclose(reports[-1].dt, length)
