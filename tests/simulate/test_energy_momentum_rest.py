"""Energy, momentum and rest for every response: bodies fall, rest, carry weight, gain no energy and hardly penetrate.

Bodies do not sleep unless a test enables it. Short runs use coarse cubes and modal damping that brings them nearly to
rest within one second. Long runs with default options are marked slow.
"""

from __future__ import annotations

import numpy as np
import pytest

from impinge.mesh.shapes import box
from impinge.simulate.simulation import Simulation
from simulated_cubes import EDGE, FIRM, lowest_of, soft_cube, weight, world_of

RESPONSES = ["vertices", "volume", "spheres"]
AT_REST = 0.01 * EDGE
"""Largest speed of a cube at rest: 1 % of its edge per second [m / s]."""
NEARLY_AT_REST = 8.0 * AT_REST
"""Largest speed at the end of short runs, with residual oscillations [m / s]."""
MAX_DEPTH = 0.02 * EDGE
ROUNDING = 1.0 + 1e-9
FAST_REST = {"modal_damping": 0.5, "sleep_after": None}


def dropped(response, *, on, material=FIRM, embedding="barycentric", dense=3, **options):
    """A cube that falls by a third of its edge, and its initial energy."""
    cube = soft_cube((0.0, 0.0, 0.083), material=material, embedding=embedding, dense=dense)
    if on == "ground":
        sim = Simulation(world_of(cube=cube), ground=0.0, response=response, **options)
    else:
        block = box((0.2, 0.2, 0.1), center=(0.013, 0.007, -0.05), cells=(5, 5, 2))
        sim = Simulation(world_of(cube=cube, block=block), response=response, **options)
    return sim, weight(cube) * 0.083


def stacked(response, *, dense=3, **options):
    """A cube on the ground and a smaller one that falls on it, and their initial energy."""
    lower = soft_cube((0.0, 0.0, 0.051), material=FIRM, dense=dense)
    upper = soft_cube((0.004, 0.003, 0.146), edge=0.08, material=FIRM, dense=dense)
    sim = Simulation(world_of(lower=lower, upper=upper), ground=0.0, response=response, **options)
    return sim, weight(lower) * 0.051 + weight(upper) * 0.146


def check_energy_and_depth(reports, at_start, lowest):
    """Assert that energy does not grow and penetration stays small."""
    assert max(report.energy for report in reports) <= at_start * ROUNDING
    assert max(report.kinetic for report in reports) > 0.005 * at_start
    assert lowest > -MAX_DEPTH
    assert max(report.deepest for report in reports) < MAX_DEPTH


def check_carried(reports, sim, **loads):
    """Assert that each report carries the loads within 5 %."""
    for name, load in loads.items():
        for report in reports:
            np.testing.assert_allclose(report.forces[name], [0.0, 0.0, load], atol=0.05 * abs(load))


@pytest.mark.parametrize("embedding", ["barycentric", "rigid_links"])
def test_a_cube_comes_to_rest_on_the_ground(embedding):
    """Lose energy and rest on forces that carry the weight, hardly below the ground, with any embedding."""
    sim, at_start = dropped("vertices", on="ground", embedding=embedding, **FAST_REST)
    reports, lowest = lowest_of(sim, 1.2)

    check_energy_and_depth(reports, at_start, lowest)
    assert max(report.fastest for report in reports[-10:]) < NEARLY_AT_REST
    check_carried(reports[-10:], sim, cube=weight(sim.world["cube"]), ground=-weight(sim.world["cube"]))


@pytest.mark.parametrize("response", RESPONSES)
def test_a_cube_comes_to_rest_on_a_block(response):
    """Rest on a fixed body with every response."""
    sim, at_start = dropped(response, on="block", **FAST_REST)
    reports, lowest = lowest_of(sim, 1.2)

    check_energy_and_depth(reports, at_start, lowest)
    assert max(report.fastest for report in reports[-10:]) < NEARLY_AT_REST
    check_carried(reports[-10:], sim, cube=weight(sim.world["cube"]), block=-weight(sim.world["cube"]))


DENSE = 12
"""Cells along an edge of a surface with merged contacts: 866 vertices on 27 coarse ones."""


@pytest.mark.parametrize("on", ["ground", "block"])
@pytest.mark.parametrize("material", ["liver", FIRM], ids=["liver", "firm"])
def test_a_cube_with_a_dense_surface_comes_to_rest(on, material):
    """Rest on merged contacts that carry the weight; no surface vertex penetrates deeply."""
    sim, at_start = dropped("vertices", on=on, material=material, dense=DENSE, **FAST_REST)
    assert sim._derive().bodies[0].is_dense
    reports, lowest = lowest_of(sim, 1.2)

    check_energy_and_depth(reports, at_start, lowest)
    assert max(report.fastest for report in reports[-10:]) < NEARLY_AT_REST
    check_carried(reports[-10:], sim, cube=weight(sim.world["cube"]))


def test_two_stacked_cubes_with_dense_surfaces_come_to_rest():
    """Carry the upper cube on the lower one, and both on the ground, by merged contacts."""
    sim, at_start = stacked("vertices", dense=DENSE, **FAST_REST)
    reports, lowest = lowest_of(sim, 1.4)

    check_energy_and_depth(reports, at_start, lowest)
    upper, lower = weight(sim.world["upper"]), weight(sim.world["lower"])
    check_carried(reports[-10:], sim, upper=upper, lower=lower, ground=-upper - lower)


@pytest.mark.parametrize("response", RESPONSES)
def test_two_stacked_cubes_come_to_rest(response):
    """Carry the upper cube on the lower one, and both on the ground."""
    sim, at_start = stacked(response, **FAST_REST)
    reports, lowest = lowest_of(sim, 1.4)

    check_energy_and_depth(reports, at_start, lowest)
    assert max(report.fastest for report in reports[-10:]) < NEARLY_AT_REST
    upper, lower = weight(sim.world["upper"]), weight(sim.world["lower"])
    check_carried(reports[-10:], sim, upper=upper, lower=lower, ground=-upper - lower)


@pytest.mark.parametrize("response", RESPONSES)
def test_a_head_on_collision_conserves_momentum(response):
    """Conserve momentum of two colliding bodies to rounding; they separate afterwards."""
    cubes = {"a": soft_cube((-0.06, 0.0, 0.0), dense=3), "b": soft_cube((0.06, 0.004, 0.003), dense=3)}
    for body, speed in zip(cubes.values(), (0.6, -0.4)):
        body.velocities = np.tile([speed, 0.0, 0.0], (len(body.velocities), 1))
    mass = float(np.sum(cubes["a"].model.masses))
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0), response=response)
    reports = sim.run(0.3)

    assert max(np.abs(report.forces["a"]).max() for report in reports) > 1.0
    for report in reports:
        np.testing.assert_allclose(report.forces["a"], -report.forces["b"], atol=1e-11)
        np.testing.assert_allclose(report.momentum, [0.2 * mass, 0.0, 0.0], atol=1e-12)
    at_start = 0.5 * mass * (0.6**2 + 0.4**2)
    assert max(report.energy for report in reports) <= at_start * ROUNDING
    assert cubes["a"].momentum().linear[0] < 0.1 * mass < cubes["b"].momentum().linear[0]


@pytest.mark.parametrize("response", ["vertices", "volume"])
def test_a_collision_conserves_angular_momentum(response):
    """Conserve angular momentum of an off-centre collision within 5 % of the exchanged spin.

    Sphere patches push each other along the line of their centres, which are offset: they create spin.
    """
    cubes = {"a": soft_cube((-0.06, 0.0, 0.0), dense=3), "b": soft_cube((0.06, 0.04, 0.01), dense=3)}
    cubes["a"].velocities = np.tile([0.6, 0.0, 0.0], (len(cubes["a"].velocities), 1))
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0), response=response)
    at_start = cubes["a"].momentum().angular + cubes["b"].momentum().angular
    reports = sim.run(0.25)
    spin = float(np.linalg.norm(cubes["b"].momentum().angular))

    assert spin > 1e-4
    np.testing.assert_allclose(reports[-1].angular_momentum, at_start, atol=0.05 * spin)


def check_long(reports, at_start, lowest):
    """Assert rest within 10 s, and for 10 s more; return the reports of the second half."""
    check_energy_and_depth(reports, at_start, lowest)
    later = [report for report in reports if report.time > 10.0]
    assert len(later) > 500
    assert max(report.fastest for report in later) < AT_REST
    return later


@pytest.mark.slow
@pytest.mark.parametrize("sleep_after", [None, 0.5])
@pytest.mark.parametrize("material", ["liver", "jelly", FIRM], ids=str)
def test_a_cube_stays_at_rest_on_the_ground(material, sleep_after):
    """Rest within 10 s and stay at rest for 10 s more, asleep or awake."""
    sim, at_start = dropped("vertices", on="ground", material=material, sleep_after=sleep_after)
    reports, lowest = lowest_of(sim, 20.0)

    later = check_long(reports, at_start, lowest)
    check_carried(later, sim, cube=weight(sim.world["cube"]))
    assert bool(later[-1].sleeping) == (sleep_after is not None)


@pytest.mark.slow
@pytest.mark.parametrize("response", RESPONSES)
def test_a_cube_stays_at_rest_on_a_block(response):
    """Rest within 10 s and stay at rest for 10 s more, awake."""
    sim, at_start = dropped(response, on="block", material="liver", sleep_after=None)
    reports, lowest = lowest_of(sim, 20.0)

    later = check_long(reports, at_start, lowest)
    check_carried(later, sim, cube=weight(sim.world["cube"]))


@pytest.mark.slow
@pytest.mark.parametrize("on", ["ground", "block"])
def test_a_cube_with_a_dense_surface_stays_at_rest(on):
    """Rest within 10 s and stay at rest for 10 s more, awake, on merged contacts."""
    sim, at_start = dropped("vertices", on=on, material="liver", dense=DENSE, sleep_after=None)
    reports, lowest = lowest_of(sim, 20.0)

    later = check_long(reports, at_start, lowest)
    check_carried(later, sim, cube=weight(sim.world["cube"]))


@pytest.mark.slow
@pytest.mark.parametrize("response", RESPONSES)
def test_two_stacked_cubes_stay_at_rest(response):
    """Rest within 10 s and stay at rest for 10 s more, awake."""
    sim, at_start = stacked(response, sleep_after=None)
    reports, lowest = lowest_of(sim, 20.0)

    later = check_long(reports, at_start, lowest)
    upper, lower = weight(sim.world["upper"]), weight(sim.world["lower"])
    check_carried(later, sim, upper=upper, lower=lower, ground=-upper - lower)
