"""Forces that are reported are those that act, of joined contacts too; and what is held has no speed."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.soft_body import SoftBody
from impinge.mesh.shapes import box, icosphere
from impinge.respond.contact_forces import ContactForces, ContactRows, Memory, Sums
from impinge.simulate.contact_merging import gathered
from impinge.simulate.simulation import Simulation
from simulated_cubes import EDGE, FIRM, soft_cube, world_of

GRAVITY = np.array([0.0, 0.0, -9.81])


def balance(sim, name, frames=8):
    """How far the change of momentum of a body and the forces on it differ, and the largest force."""
    body = sim.world[name]
    mass, differs, largest = float(np.sum(body.model.masses)), 0.0, 0.0
    for _ in range(frames):
        before = body.momentum().linear
        report = sim.step()
        force = (body.momentum().linear - before) / report.dt - mass * GRAVITY
        differs = max(differs, float(np.abs(report.forces[name] - force).max()))
        largest = max(largest, float(np.abs(force).max()))
    return differs, largest


@pytest.mark.parametrize("embedding", ["barycentric", "rigid_links"])
@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_forces_change_the_momentum(response, embedding):
    """Let a dense ball fall beside the top of another one: what is reported is what its momentum gains."""
    ball = SoftBody.from_surface(
        icosphere(4, radius=0.05, center=(0.11, 0.0, 0.053)),
        method="cubes",
        cells=3,
        material=FIRM,
        embedding=embedding,
    )
    block = icosphere(3, radius=0.1, center=(0.06, 0.01, -0.085))
    differs, largest = balance(Simulation(world_of(ball=ball, block=block), response=response), "ball", 10)

    assert largest > 1.0
    assert differs < 1e-9 * largest


def rows_at(normals, depths, keys):
    """Contacts of vertex 0 with planes that stand still, into which it sinks along ``normals``."""
    normal, count = np.array(normals, dtype=np.float64), len(depths)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    start, vertex, zero = np.arange(count + 1), np.zeros(count, dtype=np.int64), np.zeros(count)
    return ContactRows(
        push=Sums(start, vertex, normal.copy()), slide=Sums(start, vertex, np.tile(np.eye(3), (count, 1, 1))),
        normal=normal, depth=np.array(depths), rate=zero, drive=np.zeros((count, 3)), stiffness=np.full(count, 1e3),
        relax=zero, scale=np.ones(count), release=zero, volumetric=np.zeros(count, dtype=np.bool_),
        key=np.array(keys), body_a=np.zeros(count, dtype=np.int64), body_b=np.full(count, -1),
    )  # fmt: skip


@pytest.mark.parametrize("normals", [[(1, 0, -2), (-1, 0, -2)], [(0, 0, -1), (1, 0, 0)], [(1, 0, 0), (-1, 0, 0)]])
def test_joined_contacts_report_what_they_do(normals):
    """Join contacts whose normals differ: the impulse that is told is what the vertex gets, all of it."""
    rows = gathered(rows_at(normals, [0.001, 0.001], [7, 7]), 1)
    memory = Memory(np.array([7]), np.zeros(1), np.zeros((1, 3)), np.array([0.001]))
    contact = ContactForces(rows, np.ones(1), friction=0.5, memory=memory)
    force = contact.over(1e-3, np.zeros((1, 3)), np.array([[0.3, 0.0, -0.1]]), 0.0)
    contact.keep(1e-3)

    assert len(rows) == 1
    np.testing.assert_allclose(1e3 * contact.on_a()[0], force[0], atol=1e-5)


def test_equal_contacts_add_up():
    """Push as hard with joined contacts as with single ones."""
    memory = Memory(np.array([1, 2, 3]), np.zeros(3), np.zeros((3, 3)), np.full(3, 0.001))
    forces = []
    for keys in ([1, 2, 3], [1, 1, 1]):
        rows = gathered(rows_at([(0, 0, -1)] * 3, [0.001] * 3, keys), 1)
        contact = ContactForces(rows, np.ones(1), friction=0.0, memory=memory)
        forces.append(contact.over(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)[0])

    np.testing.assert_allclose(forces[0], forces[1], rtol=1e-2)


# what is held -------------------------------------------------------------------------------------------


def test_fixed_vertices_have_no_velocity():
    """Swing a cube that is held at its top: held vertices have no speed after any frame, nor energy, nor momentum."""
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


def test_moved_vertices_have_the_velocity_they_were_given():
    """Keep the velocity of moved vertices through frames, contacts and damping, and lose it when they are fixed."""
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
