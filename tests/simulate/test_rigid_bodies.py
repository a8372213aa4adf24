"""Rigid bodies in a simulation: contact, friction, momenta, sleep, files, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import impinge
from impinge.bodies.rigid_body import RigidBody
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.scenes.registry import rotation
from impinge.simulate.simulation import Simulation
from tests.simulated_cubes import soft_cube, world_of

EDGE = 0.1
STILL = (0.0, 0.0, 0.0)


def rigid_cube(center, *, turn=(), density=1000.0, cells=3, edge=EDGE) -> RigidBody:
    """A cube, turned by axis and angle about its centre."""
    body = RigidBody(shapes.box(edge, cells=(cells,) * 3), density=density)
    pose = np.eye(4)
    pose[:3, 3] = center
    if turn:
        axis = np.array(turn[0])
        pose[:3, :3] = rotation(axis / np.linalg.norm(axis), turn[1])
    body.pose = pose
    return body


def simulation(world, **options) -> Simulation:
    return Simulation(world, **{"integrator": "implicit", "ground": 0.0, **options})


def stretch(body: RigidBody) -> float:
    """Largest relative change of a distance between two vertices of the surface."""
    now, rest = body.surface.vertices, body.rest_surface
    i, j = np.triu_indices(len(now), 1)
    before, after = (np.linalg.norm(x[i] - x[j], axis=1) for x in (rest, now))
    return float(np.abs(after / before - 1.0).max())


def test_free_fall_and_spin_in_a_simulation():
    """Fall without contacts: the closed form of backward Euler, and the angular momentum, to rounding."""
    body = rigid_cube(STILL)
    body.angular_velocity = (3.0, -2.0, 1.0)
    sim = simulation(world_of(cube=body), ground=None)
    start = body.inertia @ body.angular_velocity
    sim.run(0.5)

    h, count = 1.0 / 60.0, 30
    np.testing.assert_allclose(body.centre, (0.0, 0.0, -0.5 * 9.81 * h * h * count * (count + 1)), atol=1e-13)
    np.testing.assert_allclose(body.inertia @ body.angular_velocity, start, atol=1e-10 * np.abs(start).max())
    assert stretch(body) < 1e-13


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_tilted_cube_comes_to_rest_on_the_ground(response):
    """Drop a spinning cube: it stays rigid in every frame, lies on a face in the end, carried by its weight, asleep."""
    body = rigid_cube((0.0, 0.0, 0.1), turn=((1.0, 0.5, 0.2), 0.7))
    body.angular_velocity = (3.0, 5.0, 2.0)
    sim = simulation(world_of(cube=body), response=response, sleep_after=0.2)
    energies, worst, awake = [math.inf], 0.0, None
    for _ in range(150):
        report = sim.step()
        energies.append(report.energy)
        worst = max(worst, stretch(body))
        awake = awake if report.sleeping else report

    assert worst < 1e-12
    assert max(b - a for a, b in itertools.pairwise(energies)) < 1e-3 * energies[1]
    assert report.sleeping == ("cube",)
    assert body.centre[2] == pytest.approx(0.5 * EDGE, abs=1e-4 * EDGE)
    assert np.abs(body.pose[2, :3]).max() == pytest.approx(1.0, abs=1e-9)
    assert awake.forces["cube"][2] == pytest.approx(9.81 * body.mass, rel=1e-3)


@pytest.mark.parametrize(("degrees", "slides"), [(26.0, False), (27.2, True), (32.0, True)])
def test_friction_is_that_of_coulomb(degrees, slides):
    """Tilt gravity below and above the friction angle of 26.57 degrees: a brick sticks, or slides as the law says."""
    angle = math.radians(degrees)
    gravity = (9.81 * math.sin(angle), 0.0, -9.81 * math.cos(angle))
    body = RigidBody(shapes.box((0.1, 0.1, 0.04), center=(0.0, 0.0, 0.02), cells=(3, 3, 1)))
    ground = (STILL, (0.0, 0.0, 1.0))
    sim = simulation(world_of(brick=body), gravity=gravity, ground=ground, friction=0.5, sleep_after=None)
    sim.run(0.5)
    speed, place = body.velocity[0], body.centre[0]
    sim.run(0.5)
    gain = 2.0 * (body.velocity[0] - speed)

    if slides:
        assert gain == pytest.approx(9.81 * (math.sin(angle) - 0.5 * math.cos(angle)), rel=1e-3)
    else:
        assert abs(body.centre[0] - place) < 1e-4
    assert np.abs(body.angular_velocity).max() < 0.01


def test_a_cube_without_friction_slides_for_ever():
    """Slide on the ground without friction: the speed stays to rounding."""
    body = rigid_cube((0.0, 0.0, 0.5 * EDGE))
    body.velocity = (1.0, 0.0, 0.0)
    sim = simulation(world_of(cube=body), friction=0.0)
    sim.run(1.0)

    assert body.velocity[0] == pytest.approx(1.0, abs=1e-9)


def test_a_ball_rolls_after_it_has_slid():
    """Throw a ball flat: friction makes it roll at 5/7 of its speed, less what its facets lose."""
    radius = 0.05
    body = RigidBody(shapes.icosphere(4, radius=radius, center=(0.0, 0.0, radius)))
    body.velocity = (1.0, 0.0, 0.0)
    sim = simulation(world_of(ball=body), friction=0.5)
    sim.run(0.1)
    speed, spin = body.velocity[0], body.angular_velocity[1]

    assert speed == pytest.approx(5.0 / 7.0, rel=0.03)
    assert spin * radius == pytest.approx(speed, rel=0.02)


def test_a_heavy_cube_lies_on_a_soft_one():
    """Put a rigid cube on a soft one: the soft one is pressed and carries both weights; the other stays rigid."""
    soft, cube = soft_cube((0.0, 0.0, 0.051), cells=3, material="rubber"), rigid_cube((0.002, 0.001, 0.152))
    sim = simulation(world_of(soft=soft, cube=cube), sleep_after=None)
    reports = sim.run(1.0)
    weight = 9.81 * cube.mass

    assert stretch(cube) < 1e-12
    assert reports[-1].forces["cube"][2] == pytest.approx(weight, rel=0.01)
    assert reports[-1].forces["ground"][2] == pytest.approx(-weight - 9.81 * float(soft.model.masses.sum()), rel=0.01)
    assert 0.14 < cube.centre[2] < 0.151
    assert reports[-1].fastest < 0.01 * EDGE


def test_a_tower_of_rigid_cubes_stands():
    """Build a tower of smaller and smaller cubes: they come to rest in place, and each stays rigid."""
    places = [(0.12, 0.0601), (0.1, 0.1703), (0.08, 0.2605)]
    cubes = {f"{k}": rigid_cube((0.002 * k, 0.001 * k, z), edge=edge) for k, (edge, z) in enumerate(places)}
    sim = simulation(world_of(**cubes))
    reports = sim.run(2.0)

    assert set(reports[-1].sleeping) == set(cubes)
    for k, (cube, z) in enumerate(zip(cubes.values(), (0.06, 0.17, 0.26))):
        np.testing.assert_allclose(cube.centre, (0.002 * k, 0.001 * k, z), atol=0.01 * EDGE)
        assert stretch(cube) < 1e-12


def test_a_collision_keeps_momentum_and_loses_energy():
    """Throw two cubes at each other without gravity: momentum stays to rounding, the angular one to 1 %."""
    a, b = rigid_cube(STILL, turn=((1.0, 2.0, 0.5), 0.5)), rigid_cube((0.03, 0.02, 0.2), turn=((0.0, 1.0, 1.0), 1.2))
    a.velocity, b.velocity = (0.0, 0.0, 1.0), (0.0, 0.0, -1.0)
    sim = simulation(world_of(a=a, b=b), gravity=STILL, ground=None)
    first = sim.step(1e-9)
    reports = sim.run(0.4)
    total = float(np.linalg.norm(first.angular_momentum))

    assert max(len(report.contacts) for report in reports) > 0
    np.testing.assert_allclose(reports[-1].momentum, first.momentum, atol=1e-11)
    np.testing.assert_allclose(reports[-1].angular_momentum, first.angular_momentum, atol=0.01 * total)
    assert total > 0.03
    assert reports[-1].kinetic < 0.99 * first.kinetic
    assert a.velocity[2] < 0.5


def test_a_plate_of_many_triangles_merges_contacts_by_cell():
    """Lay a dense plate down: contacts are those of cells, not of vertices or of the four masses."""
    plate = RigidBody(shapes.box((0.2, 0.2, 0.05), center=(0.0, 0.0, 0.0251), cells=(60, 60, 10)))
    sim = simulation(world_of(plate=plate))
    reports = sim.run(0.4)

    assert 50 < len(reports[-1].contacts) < 500
    assert abs(float(plate.pose[2, 2]) - 1.0) < 1e-8


def test_the_speed_of_the_surface_is_reported():
    """Spin a long bar: the report has the speed of its ends, not that of the masses."""
    bar = RigidBody(shapes.box((1.0, 0.02, 0.02), cells=(8, 1, 1)))
    bar.angular_velocity = (0.0, 0.0, 10.0)
    sim = simulation(world_of(bar=bar), gravity=STILL, ground=None)

    assert sim.step().fastest == pytest.approx(5.0, rel=1e-3)


@pytest.mark.parametrize("integrator", ["implicit", "midpoint"])
def test_a_saved_simulation_resumes_bit_for_bit(tmp_path, integrator):
    """Save while cubes tumble, restore into a simulation made again: every later bit is equal."""

    def made():
        cubes = world_of(
            a=rigid_cube((0.0, 0.0, 0.07), turn=((1.0, 0.0, 0.3), 0.4)), b=rigid_cube((0.02, 0.01, 0.2)),
        )  # fmt: skip
        return simulation(cubes, integrator=integrator)

    sim = made()
    sim.run(0.15)
    sim.save(tmp_path / "state.npz")
    again = made()
    again.restore(tmp_path / "state.npz")
    for _ in range(10):
        one, other = sim.step(), again.step()
        assert (one.energy, len(one.contacts)) == (other.energy, len(other.contacts))
    for name in ("a", "b"):
        np.testing.assert_array_equal(sim.world[name].coarse.vertices, again.world[name].coarse.vertices)
        np.testing.assert_array_equal(sim.world[name].surface.vertices, again.world[name].surface.vertices)


def test_bits_do_not_depend_on_threads():
    """Run many cubes, each an island of its own or part of one, on one thread and on two: the bits are equal."""
    found = []
    for count in (1, 2, 2):
        before = impinge.thread_count()
        impinge.set_threads(count)
        try:
            cubes = {f"c{k}": rigid_cube((0.08 * k, 0.0, 0.08), turn=((1, k, 0.5), 0.3 * k)) for k in range(6)}
            sim = simulation(world_of(**cubes))
            sim.run(0.1)
        finally:
            impinge.set_threads(before)
        found.append(np.concatenate([cube.coarse.vertices for cube in cubes.values()]))

    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_sleeping_cube_wakes_with_a_new_pose():
    """Let a cube sleep, then lift it: it falls again."""
    body = rigid_cube((0.0, 0.0, 0.5 * EDGE))
    sim = simulation(world_of(cube=body), sleep_after=0.1)
    assert sim.run(0.5)[-1].sleeping == ("cube",)
    resting = body.coarse.vertices.copy()
    sim.run(0.2)
    np.testing.assert_array_equal(body.coarse.vertices, resting)
    pose = body.pose
    pose[2, 3] += 0.1
    body.pose = pose
    report = sim.step()

    assert report.sleeping == ()
    assert body.velocity[2] < 0.0


def test_a_fixed_rigid_body_is_an_obstacle():
    """Fix a rigid cube in the world: it stays, and carries another one."""
    base, cube = rigid_cube((0.0, 0.0, 0.05)), rigid_cube((0.01, 0.0, 0.151))
    world = world_of(cube=cube)
    world.add(base, name="base", fixed=True)
    simulation(world, ground=None).run(0.5)

    np.testing.assert_array_equal(base.velocity, 0.0)
    assert cube.centre[2] == pytest.approx(0.15, abs=3e-3 * EDGE)


def test_explicit_steps_and_scripts_are_refused():
    """Refuse explicit steps, a custom model beside a rigid body, and a script, with the remedy."""
    world = world_of(cube=rigid_cube(STILL))
    with pytest.raises(OptionError, match="body 'cube' is rigid and cannot be stepped explicitly; pass integrator='im"):
        Simulation(world, integrator="explicit").step()
    with pytest.raises(OptionError, match="body 'cube' is a RigidBody, which moves by itself; add its surface"):
        simulation(world).script("cube", lambda time: np.eye(4))  # noqa: ARG005

    class Custom(impinge.Corotated):
        """A model without second derivatives."""

    tets = shapes.tet_box(1, 1, 1, center=(3.0, 0.0, 0.0))
    model = Custom(tets.vertices, tets.tets, "rubber")
    world.add(impinge.SoftBody(tets.surface, tets, model=model), name="own")
    with pytest.raises(OptionError, match="hence no implicit steps, which the rigid body 'cube' needs"):
        simulation(world).step()
