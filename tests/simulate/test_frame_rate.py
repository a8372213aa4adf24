"""The frame-rate controller holds its rate: with known costs, after outliers, asleep, and to the end of a run."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.simulate import pair_scheduler
from impinge.simulate.frame_rate import SEARCH_SHARE, SHORTEST, FrameRateController
from impinge.simulate.pair_scheduler import PairScheduler
from impinge.simulate.simulation import Simulation
from simulated_cubes import FIRM, soft_cube, world_of

DT = 1.0 / 60.0


def frame(controller, *, move_per_second, search, other, requested=DT):
    """Length and cost of a frame on a machine with these costs; searches stop at their budget."""
    dt, search_ms = controller.frame_length(requested, DT), min(search, controller.budget_ms)
    elapsed = search_ms + move_per_second * dt + other
    controller.record(dt, 1, search_ms, move_per_second * dt, elapsed)
    return dt, elapsed


@pytest.mark.parametrize("move_per_second", [10.0, 1e3, 1e4])
@pytest.mark.parametrize("search", [0.1, 50.0])
def test_the_rate_is_held(move_per_second, search):
    """Fit the longest possible frames into the target time; unused search time goes to the step."""
    controller = FrameRateController(8.0)
    frames = [frame(controller, move_per_second=move_per_second, search=search, other=0.5) for _ in range(12)]
    dt, elapsed = np.array(frames[4:]).T
    searching = min(search, SEARCH_SHARE * 8.0)

    assert elapsed.max() <= 8.0 + 1e-9
    longest = min((8.0 - 0.5 - searching) / move_per_second, DT)
    assert dt.min() > longest - SHORTEST * DT - 1e-12
    assert dt.max() <= longest + 1e-12


def test_an_outlier_costs_one_frame():
    """Return to full frames within two frames of an outlier, such as compilation."""
    controller, lengths = FrameRateController(8.0), []
    for k in range(9):
        slow = 2000.0 if k in (0, 5) else 1.0
        lengths.append(frame(controller, move_per_second=100.0 * slow, search=0.2, other=0.3 * slow)[0])

    assert [length == DT for length in lengths] == [True, False, True, True, True, True, True, True, True]


def test_no_motion_and_no_time():
    """Use the shortest frame where all bodies sleep and overhead exceeds the target; do not divide by zero."""
    controller = FrameRateController(1e-3)
    controller.record(DT, 0, 0.0, 0.0, 5.0)

    assert controller.frame_length(DT, DT) == SHORTEST * DT
    assert controller.frame_length(0.001 * DT, DT) == 0.001 * DT
    assert controller.budget_ms == SEARCH_SHARE * 1e-3


def test_searches_share_the_time_of_a_frame(monkeypatch):
    """Limit the budget of a search to the time left for all searches of the frame, with a small minimum."""
    clock = [100.0]
    monkeypatch.setattr(pair_scheduler, "perf_counter", lambda: clock[0])
    scheduler = PairScheduler({"budget_ms": 50.0})
    assert scheduler.share()["budget_ms"] == 50.0
    clock[0] += 0.0005
    assert scheduler.share()["budget_ms"] == pytest.approx(49.5)
    scheduler.reserve_ms = 2.0
    assert scheduler.share()["budget_ms"] == pytest.approx(1.5)
    scheduler.reserve_ms = -1.0
    scheduler.begin()
    assert 0.0 < scheduler.share()["budget_ms"] < 0.01


def test_a_run_terminates():
    """End a run after the shortest frames on a slow machine; report the requested frame length."""
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM)), ground=0.0, target_ms=1e-3)
    reports = sim.run(2.5 * sim.dt)

    assert len(reports) <= 1 + 1.5 * 64 + 1
    np.testing.assert_allclose(sim.time, 2.5 * sim.dt)
    np.testing.assert_allclose(reports[3].dt, SHORTEST * sim.dt)
    assert {report.stats["target_ms"] for report in reports} == {1e-3}
    assert reports[3].stats["requested_dt"] == sim.dt
    assert all(report.elapsed_ms > report.stats.get("search_ms", 0.0) for report in reports)


def test_frame_rate_of_sleeping_bodies(tmp_path):
    """Advance by full frames while all bodies sleep, also after a restore."""
    cubes = [soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM) for _ in range(3)]
    first = Simulation(world_of(cube=cubes[0]), ground=0.0, modal_damping=0.5, sleep_after=0.2)
    assert first.run(2.0)[-1].sleeping
    first.save(tmp_path / "state.npz")
    for cube, target, length in ((cubes[1], 1e-6, SHORTEST * first.dt), (cubes[2], 1e6, first.dt)):
        sim = Simulation(world_of(cube=cube), ground=0.0, modal_damping=0.5, sleep_after=0.2, target_ms=target)
        sim.restore(tmp_path / "state.npz")
        reports = [sim.step() for _ in range(4)]

        assert all(report.sleeping == ("cube",) for report in reports)
        np.testing.assert_allclose(reports[-1].dt, length)
