"""Implicit steps of simulations: rest, friction, collisions, momentum, sleep, resume, warnings."""

import numpy as np
import pytest

from impinge import Material, Simulation, SimulationError, SoftBody, World
from impinge.mesh.shapes import box, tet_box
from simulated_cubes import EDGE, FIRM, soft_cube, weight, world_of

pytestmark = pytest.mark.small
IMPLICIT = ["implicit", "midpoint"]


def firm_cube(modulus: float, z: float = 0.5 * EDGE + 0.01, cells: int = 3) -> SoftBody:
    """A cube above the ground."""
    tets = tet_box(cells, cells, cells, size=(EDGE,) * 3, center=(0.0, 0.0, z))
    return SoftBody(tets.surface, tets, embedding="barycentric", material=Material(modulus, 0.4, 1000.0))


@pytest.mark.parametrize("modulus", [2e4, 1e6, 1e8])
def test_a_cube_comes_to_rest_whatever_its_stiffness(modulus):
    """Land in few steps per frame, lose energy, and rest on its weight."""
    cube = firm_cube(modulus)
    sim = Simulation(world_of(cube=cube), ground=0.0, integrator="implicit", sleep_after=None)
    reports = sim.run(1.0)

    assert max(report.substeps for report in reports) <= 2
    energies = [report.energy for report in reports]
    assert max(energies) <= energies[0] * (1.0 + 1e-9)
    mean = np.mean([report.forces["cube"] for report in reports[-20:]], axis=0)
    np.testing.assert_allclose(mean, [0.0, 0.0, weight(cube)], atol=5e-4 * weight(cube))
    assert reports[-1].fastest < 2e-4  # the tolerance is a thousandth of the change by gravity
    assert 0.0 < cube.coarse.vertices[:, 2].min() < sim.contact_distance["cube"]
    assert not any(report.warnings for report in reports)


@pytest.mark.parametrize(("share", "slides"), [(0.5, False), (0.98, False), (1.02, True), (1.3, True)])
def test_friction_sticks_without_creep_and_slides_as_coulomb_says(share, slides):
    """Stay on a ramp below the angle of friction; above it, gather speed at the rate of a block."""
    friction = 0.5
    angle = share * np.arctan(friction)
    tets = tet_box(3, 3, 2, size=(EDGE, EDGE, 0.5 * EDGE), center=(0.0, 0.0, 0.25 * EDGE))
    block = SoftBody(tets.surface, tets, embedding="barycentric", material=Material(1e6, 0.4, 1000.0))
    gravity = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    plane = (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    sim = Simulation(
        world_of(block=block), gravity=gravity, ground=plane, friction=friction, integrator="implicit", sleep_after=None
    )
    sim.run(0.5)
    place, speed = block.coarse.vertices[:, 0].mean(), block.velocities[:, 0].mean()
    sim.run(0.5)
    gained = (block.velocities[:, 0].mean() - speed) / 0.5

    if slides:
        np.testing.assert_allclose(gained, 9.81 * (np.sin(angle) - friction * np.cos(angle)), rtol=0.02)
    else:
        assert abs(block.coarse.vertices[:, 0].mean() - place) / 0.5 < 1e-6


@pytest.mark.parametrize("integrator", IMPLICIT)
@pytest.mark.parametrize("response", ["vertices", "volume"])
def test_a_collision_conserves_momentum(response, integrator):
    """Keep momentum to rounding, let energy fall, and let bodies separate."""
    cubes = {"a": soft_cube((-0.06, 0.0, 0.0), dense=3), "b": soft_cube((0.06, 0.004, 0.003), dense=3)}
    for body, speed in zip(cubes.values(), (0.6, -0.4)):
        body.velocities = np.tile([speed, 0.0, 0.0], (len(body.velocities), 1))
    mass = float(np.sum(cubes["a"].model.masses))
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0), response=response, integrator=integrator)
    reports = sim.run(0.3)

    assert max(np.abs(report.forces["a"]).max() for report in reports) > 1.0
    for report in reports:
        np.testing.assert_allclose(report.forces["a"], -report.forces["b"], atol=1e-10)
        np.testing.assert_allclose(report.momentum, [0.2 * mass, 0.0, 0.0], atol=1e-11)
    assert cubes["a"].momentum().linear[0] < 0.1 * mass < cubes["b"].momentum().linear[0]
    if integrator == "implicit":
        assert max(report.energy for report in reports) <= 0.5 * mass * (0.6**2 + 0.4**2) * (1.0 + 1e-9)


def test_two_stacked_cubes_come_to_rest():
    """Carry the upper cube on the lower one, and both on the ground."""
    lower, upper = (soft_cube((x, 0.0, z * EDGE), material=FIRM) for x, z in ((0.0, 0.501), (0.004, 1.502)))
    cubes = {"lower": lower, "upper": upper}
    sim = Simulation(world_of(**cubes), ground=0.0, integrator="implicit", sleep_after=None)
    reports = sim.run(1.5)

    for name, carried in (("upper", weight(upper)), ("ground", -weight(upper) - weight(lower))):
        mean = np.mean([report.forces[name][2] for report in reports[-20:]])
        np.testing.assert_allclose(mean, carried, rtol=0.01)
    assert reports[-1].fastest < 0.01


def test_bodies_at_rest_sleep_with_their_forces():
    """Report the weight of a sleeping body, and let it wake."""
    cube = soft_cube((0.0, 0.0, 0.4999 * EDGE), cells=1)
    sim = Simulation(world_of(cube=cube), ground=0.0, integrator="implicit", sleep_after=0.3)
    last = sim.run(1.5)[-1]

    assert last.sleeping == ("cube",)
    np.testing.assert_allclose(last.forces["cube"][2], weight(cube), rtol=0.05)
    sim.gravity = (0.0, 0.0, 9.81)
    assert not sim.step().sleeping


def test_friction_that_does_not_settle_is_reported(monkeypatch):
    """Count steps whose limits of friction differ from the normal forces; none of a body at rest."""
    cube = firm_cube(1e6)
    sim = Simulation(world_of(cube=cube), ground=0.0, integrator="implicit", sleep_after=None)
    reports = sim.run(0.5)
    assert "unsettled_friction" not in reports[-1].stats
    monkeypatch.setattr("impinge.simulate.implicit_steps.FORCE_CHANGE", -1.0)
    other = Simulation(world_of(cube=firm_cube(1e6)), ground=0.0, integrator="implicit", sleep_after=None)
    assert any(report.stats.get("unsettled_friction") for report in other.run(0.2))


def test_moved_and_fixed_vertices_keep_their_velocities():
    """Hold prescribed velocities to the bit."""
    cube = soft_cube((0.0, 0.0, 0.2))
    top = np.flatnonzero(cube.coarse.vertices[:, 2] > 0.2 + 0.49 * EDGE)
    cube.move(top, (0.1, 0.0, 0.0))
    Simulation(world_of(cube=cube), integrator="implicit").run(0.1)

    np.testing.assert_array_equal(cube.velocities[top], np.tile([0.1, 0.0, 0.0], (len(top), 1)))


def test_a_run_resumes_bit_for_bit(tmp_path):
    """Continue a saved run with the same bits."""

    def scene() -> tuple[Simulation, SoftBody]:
        cube = soft_cube((0.0, 0.0, 0.55 * EDGE))
        world = World()
        world.add(cube, name="cube")
        world.add(box(0.2, center=(0.0, 0.0, -0.1)), name="block")
        return Simulation(world, integrator="implicit"), cube

    sim, cube = scene()
    sim.run(0.2)
    sim.save(tmp_path / "state.npz")
    sim.run(0.2)
    again, other = scene()
    again.restore(tmp_path / "state.npz")
    again.run(0.2)

    np.testing.assert_array_equal(other.coarse.vertices, cube.coarse.vertices)


def test_a_state_beyond_doubles_names_the_body():
    """Keep the state before the frame."""
    cube = soft_cube((0.0, 0.0, 0.06))
    sim = Simulation(world_of(cube=cube), ground=0.0, integrator="implicit")
    sim.run(0.05)
    cube.velocities = 1e200 * np.ones((len(cube.velocities), 3))

    with pytest.raises(SimulationError, match=r"body 'cube' diverges in frame 4"):
        sim.step()
    assert sim.frame == 3
