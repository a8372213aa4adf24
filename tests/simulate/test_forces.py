"""Reported forces equal the change of momentum, also of merged contacts; prescribed vertices keep their velocity."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.soft_body import SoftBody
from impinge.mesh.shapes import box, icosphere
from impinge.respond.contact_forces import ContactConstraints, ContactForces, SparseRows, WarmStart
from impinge.simulate.search.contact_merging import merge_constraints
from impinge.simulate.simulation import Simulation
from simulated_cubes import EDGE, FIRM, soft_cube, world_of

GRAVITY = np.array([0.0, 0.0, -9.81])


def balance(sim, name, frames=8):
    """Largest difference between the rate of momentum and the reported force, and the largest force."""
    body = sim.world[name]
    mass, difference, largest = float(np.sum(body.model.masses)), 0.0, 0.0
    for _ in range(frames):
        before = body.momentum().linear
        report = sim.step()
        force = (body.momentum().linear - before) / report.dt - mass * GRAVITY
        difference = max(difference, float(np.abs(report.forces[name] - force).max()))
        largest = max(largest, float(np.abs(force).max()))
    return difference, largest


@pytest.mark.parametrize("embedding", ["barycentric", "rigid_links"])
@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_forces_equal_the_rate_of_momentum(response, embedding):
    """Report the force that changes the momentum of a dense ball that falls beside the top of another one."""
    ball = SoftBody.from_surface(
        icosphere(4, radius=0.05, center=(0.11, 0.0, 0.053)),
        method="cubes",
        cells=3,
        material=FIRM,
        embedding=embedding,
    )
    block = icosphere(3, radius=0.1, center=(0.06, 0.01, -0.085))
    difference, largest = balance(Simulation(world_of(ball=ball, block=block), response=response), "ball", 10)

    assert largest > 1.0
    assert difference < 1e-9 * largest


def constraints_at(normals, depths, keys):
    """Contacts of vertex 0 with static planes, in penetration along ``normals``."""
    normal, count = np.array(normals, dtype=np.float64), len(depths)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    start, vertex, zero = np.arange(count + 1), np.zeros(count, dtype=np.int64), np.zeros(count)
    return ContactConstraints(
        normal_jacobian=SparseRows(start, vertex, normal.copy()),
        slip_jacobian=SparseRows(start, vertex, np.tile(np.eye(3), (count, 1, 1))),
        normal=normal, depth=np.array(depths), rate=zero, drive=np.zeros((count, 3)), stiffness=np.full(count, 1e3),
        relax=zero, scale=np.ones(count), release=zero, volumetric=np.zeros(count, dtype=np.bool_),
        key=np.array(keys), body_a=np.zeros(count, dtype=np.int64), body_b=np.full(count, -1),
        wall=np.full(count, np.inf),
    )  # fmt: skip


@pytest.mark.parametrize("normals", [[(1, 0, -2), (-1, 0, -2)], [(0, 0, -1), (1, 0, 0)], [(1, 0, 0), (-1, 0, 0)]])
def test_merged_contacts_report_their_net_force(normals):
    """Report the impulse that acts on the vertex where merged normals differ."""
    constraints = merge_constraints(constraints_at(normals, [0.001, 0.001], [7, 7]), 1)
    warm_start = WarmStart(np.array([7]), np.zeros(1), np.zeros((1, 3)), np.array([0.001]))
    contact = ContactForces(constraints, np.ones(1), friction=0.5, warm_start=warm_start)
    force = contact.solve(1e-3, np.zeros((1, 3)), np.array([[0.3, 0.0, -0.1]]), 0.0)
    contact.accumulate(1e-3)

    assert len(constraints) == 1
    np.testing.assert_allclose(1e3 * contact.impulse_on_a()[0], force[0], atol=1e-5)


def test_merged_stiffness_adds_up():
    """Apply the same force with merged contacts as with separate ones."""
    warm_start = WarmStart(np.array([1, 2, 3]), np.zeros(3), np.zeros((3, 3)), np.full(3, 0.001))
    forces = []
    for keys in ([1, 2, 3], [1, 1, 1]):
        constraints = merge_constraints(constraints_at([(0, 0, -1)] * 3, [0.001] * 3, keys), 1)
        contact = ContactForces(constraints, np.ones(1), friction=0.0, warm_start=warm_start)
        forces.append(contact.solve(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)[0])

    np.testing.assert_allclose(forces[0], forces[1], rtol=1e-2)


# prescribed vertices -------------------------------------------------------------------------------------------


def test_fixed_vertices_have_no_velocity():
    """Keep fixed vertices at zero speed, energy and momentum in every frame of an oscillating cube."""
    cube = soft_cube((0.0, 0.0, 0.3), material=FIRM)
    top = np.flatnonzero(cube.coarse.vertices[:, 2] > 0.3 + 0.4 * EDGE)
    cube.fix(top)
    cube.velocities = np.tile([0.5, 0.0, 0.0], (len(cube.velocities), 1))
    np.testing.assert_array_equal(cube.velocities[top], 0.0)
    world = world_of(cube=cube, wall=box((0.02, 0.2, 0.2), center=(0.07, 0.0, 0.3), cells=(1, 4, 4)))
    sim, masses = Simulation(world), cube.model.masses[:, None]
    free = np.setdiff1d(np.arange(len(masses)), top)
    for _ in range(12):
        report = sim.step()
        np.testing.assert_array_equal(cube.velocities[top], 0.0)
        v = cube.velocities[free]
        np.testing.assert_allclose(report.kinetic, 0.5 * (masses[free] * v**2).sum(), rtol=1e-12)
        np.testing.assert_allclose(report.momentum, (masses[free] * v).sum(axis=0), atol=1e-15)
        np.testing.assert_allclose(report.kinetic, cube.energy().kinetic, rtol=1e-12)
    assert np.abs(cube.velocities).max() > 0.01


def test_moved_vertices_keep_their_velocity():
    """Keep the prescribed velocity through frames, contacts and damping, and zero it when vertices are fixed."""
    cube = soft_cube((0.0, 0.0, 0.0499), material=FIRM)
    top = np.flatnonzero(cube.coarse.vertices[:, 2] > 0.09)
    cube.move(top, (0.1, 0.0, 0.0))
    np.testing.assert_array_equal(cube.velocities[top], [[0.1, 0.0, 0.0]] * len(top))
    sim, start = Simulation(world_of(cube=cube), ground=0.0), cube.coarse.vertices[top].copy()
    sim.run(0.2)

    np.testing.assert_array_equal(cube.velocities[top], [[0.1, 0.0, 0.0]] * len(top))
    np.testing.assert_allclose(cube.coarse.vertices[top] - start, [[0.02, 0.0, 0.0]] * len(top), atol=1e-12)
    cube.fix(top)
    np.testing.assert_array_equal(cube.velocities[top], 0.0)
