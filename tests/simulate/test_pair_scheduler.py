"""Searches with too little time: each pair has its turn, nothing falls through, what got no time is told."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.cloth import Cloth
from impinge.mesh.shapes import box, cloth_grid, icosphere
from impinge.simulate.pair_scheduler import Turns
from impinge.simulate.simulation import Simulation
from impinge.world.world import World
from simulated_cubes import EDGE, FIRM, soft_cube, world_of


def cubes_on_blocks(response, **options) -> Simulation:
    """Three cubes, each just above a block of its own."""
    bodies = {}
    for k in range(3):
        bodies[f"cube {k}"] = soft_cube((0.3 * k, 0.0, 0.0503), material=FIRM, dense=3)
        center = 0.3 * k + 0.013, 0.007, -0.05
        bodies[f"block {k}"] = box((0.2, 0.2, 0.1), center=center, cells=(5 + 3 * k, 5, 2))
    return Simulation(world_of(**bodies), response=response, **options)


def lowest(sim) -> float:
    return min(float(sim.world.surface(name).vertices[:, 2].min()) for name in sim.world.names if "cube" in name)


@pytest.mark.parametrize("limits", [{"max_tests": 1}, {"budget_ms": 1e-6}], ids=str)
@pytest.mark.parametrize("response", ["vertices", "volume"])
def test_nothing_falls_through_for_want_of_time(response, limits):
    """Ask one pair of three in each search: all cubes stay on their blocks, and the reports tell who waits."""
    sim = cubes_on_blocks(response, **limits)
    reports = sim.run(0.4)
    waited = {pair for report in reports for pair in report.unsettled}

    assert lowest(sim) > -0.03 * EDGE
    assert waited == {(f"cube {k}", f"block {k}") for k in range(3)}
    assert "budget_ms" in limits or not any(report.complete for report in reports if report.contacts)
    for k in range(3):
        mean = np.mean([report.forces[f"cube {k}"][2] for report in reports[-6:]])
        assert mean > 0.5 * 9.81 * float(np.sum(sim.world["cube 0"].model.masses))


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_budget_that_is_enough_changes_nothing(response):
    """End in the same place with a budget that does not bind, and report nothing."""
    free, bound = cubes_on_blocks(response), cubes_on_blocks(response, max_tests=100_000_000)
    reports = bound.run(0.1)
    free.run(0.1)

    assert max(report.contacts for report in reports) > 10
    assert all(report.complete and not report.unsettled for report in reports)
    for name in ("cube 0", "cube 2"):
        found, expected = bound.world.surface(name).vertices, free.world.surface(name).vertices
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-4 * EDGE)


def test_spheres_tell_which_pairs_got_too_little():
    """Name the pairs that were not searched to the end."""
    reports = cubes_on_blocks("spheres", max_tests=30).run(0.05)

    assert {pair for report in reports for pair in report.unsettled} == {(f"cube {k}", f"block {k}") for k in range(3)}
    assert not reports[-1].complete


def test_cloth_has_its_turn():
    """Let two cloths fall on balls, with time for one pair in a search: both stay out of theirs."""
    world = World()
    for k in range(2):
        cloth = cloth_grid(8, 8, size=0.3, center=(0.5 * k + 0.011, 0.007, 0.11))
        world.add(Cloth(cloth), name=f"cloth {k}")
        world.add(icosphere(2, radius=0.1, center=(0.5 * k, 0.0, 0.0)), name=f"ball {k}")
    sim = Simulation(world, max_tests=1)
    reports = sim.run(0.2)

    assert {("cloth 0", "cloth 0"), ("cloth 0", "ball 0")} <= {pair for each in reports for pair in each.unsettled}
    for k in range(2):
        away = np.linalg.norm(world[f"cloth {k}"].surface.vertices - [0.5 * k, 0.0, 0.0], axis=1)
        assert away.min() > 0.09
        assert np.abs([report.forces[f"cloth {k}"][2] for report in reports]).max() > 0.0


def test_the_longest_waiting_come_first():
    """Ask three equal pairs one by one: after three searches each was asked once, and so on."""
    turns, asked = Turns({"max_tests": 5}), []
    for _ in range(9):
        turns.begin()
        asked += list(turns.in_turn([(0, 1), (0, 2), (1, 2)], lambda a, b: 3 + a + b))
        turns.end()

    assert [asked[k : k + 3].count((1, 2)) for k in (0, 3, 6)] == [1, 1, 1]
    assert [asked[k : k + 3].count((0, 1)) for k in (0, 3, 6)] == [1, 1, 1]
    assert len(asked) == 9
