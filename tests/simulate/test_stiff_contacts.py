"""Stiff, small and rigid bodies that land in long steps: energy never grows, and nothing sinks."""

import numpy as np
import pytest

from impinge import Material, RigidBody, Simulation, SoftBody, World
from impinge.mesh.shapes import box, tet_box

pytestmark = pytest.mark.small
IMPLICIT = ["implicit", "midpoint"]


def cube(modulus, size, height, poisson=0.4):
    """A soft cube whose centre is at a height."""
    tets = tet_box(3, 3, 3, size=(size,) * 3, center=(0.0, 0.0, height))
    return SoftBody(tets.surface, tets, embedding="barycentric", material=Material(modulus, poisson, 1000.0))


BODIES = {
    "rubber, 1 mm": (lambda: cube(1e6, 1e-3, 0.55e-3), 1.0 / 60.0),
    "hard, 1 cm": (lambda: cube(1e8, 1e-2, 0.55e-2), 1.0 / 60.0),
    "steel, 10 cm": (lambda: cube(2e11, 0.1, 0.055), 1.0 / 60.0),
    "hard, steps of 0.2 s": (lambda: cube(1e9, 0.1, 0.0505), 0.2),
    "rubber from half a metre": (lambda: cube(1.5e6, 0.1, 0.55, 0.47), 1.0 / 60.0),
    "rigid, 1 mm": (lambda: RigidBody(box(1e-3, center=(0.0, 0.0, 0.55e-3))), 1.0 / 60.0),
    "rigid, 10 cm": (lambda: RigidBody(box(0.1, center=(0.0, 0.0, 0.055))), 1.0 / 60.0),
}


@pytest.mark.parametrize("integrator", IMPLICIT)
@pytest.mark.parametrize("name", BODIES)
def test_energy_never_grows_in_contact(name, integrator):
    """Drop a body on the ground: its energy stays below that of the start, and it stays on the ground."""
    make, dt = BODIES[name]
    body = make()
    world = World()
    world.add(body)
    sim = Simulation(world, ground=0.0, dt=dt, integrator=integrator)
    at_start = 9.81 * float(body.model.masses @ body.coarse.vertices[:, 2])
    size = float(np.ptp(body.surface.vertices[:, 2]))
    reports = sim.run(max(0.5, 20 * dt))

    assert any(report.contacts for report in reports)
    assert max(report.energy for report in reports) <= at_start * (1.0 + 1e-6)
    assert -0.02 * size < body.surface.vertices[:, 2].min() < 0.1 * size


@pytest.mark.parametrize("response", ["vertices", "volume"])
def test_a_cube_just_above_a_meshed_floor_lands_in_long_steps(response):
    """Released 5 mm above a floor, with frames of 0.2 s, a cube lands on it: it fell through after one search."""
    body = cube(2e4, 0.1, 0.055)
    world = World()
    world.add(body)
    world.add(box((1.0, 1.0, 0.1), center=(0.0, 0.0, -0.05), cells=(10, 10, 1)), fixed=True)
    sim = Simulation(world, dt=0.2, response=response)
    lowest = [sim.step() and body.surface.vertices[:, 2].min() for _ in range(10)]

    assert min(lowest) > -0.005
    assert abs(body.surface.vertices[:, 2].min()) < 0.005


@pytest.mark.parametrize("method", IMPLICIT)
def test_free_bodies_move_beside_others_in_contact_as_alone(method):
    """Step a free body by its method while another one lies on the ground: the same bits as alone."""

    def free():
        body = cube(1e5, 0.1, 3.0)
        body.velocities = np.random.default_rng(5).normal(size=body.velocities.shape)
        return body

    alone, beside = free(), free()
    world, other = World(), World()
    world.add(alone, name="free")
    other.add(beside, name="free")
    other.add(cube(1e5, 0.1, 0.05), name="lying")
    for each in (world, other):
        Simulation(each, ground=0.0, integrator=method, dt=0.01).run(0.1)

    np.testing.assert_array_equal(alone.coarse.vertices, beside.coarse.vertices)
