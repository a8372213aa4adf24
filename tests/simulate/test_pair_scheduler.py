"""Searches beyond their budget: pairs are scheduled in turn, bodies do not fall through, skipped pairs are reported."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.cloth import Cloth
from impinge.mesh.shapes import box, cloth_grid, icosphere
from impinge.simulate.pair_scheduler import PairScheduler
from impinge.simulate.simulation import Simulation
from impinge.world.world import World
from simulated_cubes import EDGE, FIRM, soft_cube, world_of


def cubes_on_blocks(response, **options) -> Simulation:
    """Three cubes, each just above its own block."""
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
def test_nothing_falls_through_without_budget(response, limits):
    """Query one pair of three per search: cubes stay on their blocks, and reports name the skipped pairs."""
    sim = cubes_on_blocks(response, **limits)
    reports = sim.run(0.4)
    waited = {pair for report in reports for pair in report.incomplete_pairs}

    assert lowest(sim) > -0.03 * EDGE
    assert waited == {(f"cube {k}", f"block {k}") for k in range(3)}
    assert "budget_ms" in limits or not any(report.complete for report in reports if report.contacts)
    for k in range(3):
        mean = np.mean([report.forces[f"cube {k}"][2] for report in reports[-6:]])
        assert mean > 0.5 * 9.81 * float(np.sum(sim.world["cube 0"].model.masses))


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_sufficient_budget_changes_nothing(response):
    """Reach the same state with a budget that does not bind, and report complete searches."""
    free, bound = cubes_on_blocks(response), cubes_on_blocks(response, max_tests=100_000_000)
    reports = bound.run(0.1)
    free.run(0.1)

    assert max(len(report.contacts) for report in reports) > 10
    assert all(report.complete and not report.incomplete_pairs for report in reports)
    for name in ("cube 0", "cube 2"):
        found, expected = bound.world.surface(name).vertices, free.world.surface(name).vertices
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-4 * EDGE)


def test_incomplete_sphere_queries_are_reported():
    """Report the pairs whose sphere query was incomplete."""
    reports = cubes_on_blocks("spheres", max_tests=30).run(0.05)

    assert {pair for report in reports for pair in report.incomplete_pairs} == {
        (f"cube {k}", f"block {k}") for k in range(3)
    }
    assert not reports[-1].complete


def test_cloth_pairs_are_scheduled():
    """Drop two cloths on balls with a budget of one pair per search: neither enters its ball."""
    world = World()
    for k in range(2):
        cloth = cloth_grid(8, 8, size=0.3, center=(0.5 * k + 0.011, 0.007, 0.11))
        world.add(Cloth(cloth), name=f"cloth {k}")
        world.add(icosphere(2, radius=0.1, center=(0.5 * k, 0.0, 0.0)), name=f"ball {k}")
    sim = Simulation(world, max_tests=1)
    reports = sim.run(0.2)

    assert {("cloth 0", "cloth 0"), ("cloth 0", "ball 0")} <= {
        pair for each in reports for pair in each.incomplete_pairs
    }
    for k in range(2):
        away = np.linalg.norm(world[f"cloth {k}"].surface.vertices - [0.5 * k, 0.0, 0.0], axis=1)
        assert away.min() > 0.09
        assert np.abs([report.forces[f"cloth {k}"][2] for report in reports]).max() > 0.0


def test_the_longest_waiting_pair_comes_first():
    """Query three equal pairs one per search: each is queried once in every three searches."""
    scheduler, queried = PairScheduler({"max_tests": 5}), []
    for _ in range(9):
        scheduler.begin()
        queried += list(scheduler.schedule([(0, 1), (0, 2), (1, 2)], lambda a, b: 3 + a + b))
        scheduler.end()

    assert [queried[k : k + 3].count((1, 2)) for k in (0, 3, 6)] == [1, 1, 1]
    assert [queried[k : k + 3].count((0, 1)) for k in (0, 3, 6)] == [1, 1, 1]
    assert len(queried) == 9
