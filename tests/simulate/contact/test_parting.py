"""Bodies that cross at the start of a simulation are parted and held apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import impinge
from impinge import Cloth, RigidBody, Simulation, SoftBody, TriMesh, shapes
from simulated_cubes import soft_cube, world_of

STIFF = impinge.Material(youngs_modulus=1e5, poisson_ratio=0.4, density=1000.0)
RELEASE = 0.2
"""Speed of parting of bodies of 0.1 m [m / s]: two sizes per second."""


def cube(center, edge: float = 0.1) -> SoftBody:
    """A soft cube."""
    return soft_cube(center, edge=edge, cells=3, material=STIFF)


def ball(center) -> RigidBody:
    """A rigid ball."""
    return RigidBody(shapes.icosphere(2, radius=0.05, center=center))


def crossed_edges() -> dict[str, object]:
    """Two cubes on edge, one above the other and turned: edges cross, no vertex is inside."""
    a, b, c = cube((0.0, 0.0, 0.0)), cube((0.0, 0.0, 0.0)), np.sqrt(0.5)
    a.coarse.update(a.coarse.vertices @ np.array([[c, 0, c], [0, 1, 0], [-c, 0, c]]))
    turned = b.coarse.vertices @ np.array([[1, 0, 0], [0, c, -c], [0, c, c]])
    b.coarse.update(turned + np.array([0.003, 0.002, 0.2 * c - 0.008]))
    for body in (a, b):
        body.velocities = np.zeros_like(body.velocities)
    return {"a": a, "b": b}


def spiked() -> dict[str, object]:
    """A sheet with the corner of a fixed box through it."""
    box = shapes.box(0.4)
    axes = np.linalg.qr(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]).T)[0]
    x = box.vertices @ axes[:, [1, 2, 0]]
    box.update(x - (0.0, 0.0, x[:, 2].max()) + (0.003, 0.002, 0.05))
    return {"cloth": Cloth(shapes.cloth_grid(20, 20, size=1.0)), "box": box}


def folded() -> dict[str, object]:
    """A sheet folded in two whose upper half dips through the lower one."""
    sheet = Cloth(shapes.cloth_grid(20, 20, size=1.0))
    x = sheet.coarse.vertices
    u = 0.5 - np.abs(x[:, 0])
    upper = 0.06 - 0.12 * np.exp(-((u - 0.25) ** 2 + x[:, 1] ** 2) / 0.01)
    z = np.where(x[:, 0] > 0.0, upper, 0.0) + np.where(np.abs(x[:, 0]) < 0.03, 0.03, 0.0)
    sheet.coarse.update(np.stack([u, x[:, 1], z + 0.2], axis=1))
    sheet.velocities = np.zeros_like(sheet.velocities)
    return {"cloth": sheet}


LOW = (0.0, 0.0, 0.051)
SCENES = {
    "coincident": lambda: {"a": cube(LOW), "b": cube(LOW)},
    "half": lambda: {"a": cube(LOW), "b": cube((0.05, 0.003, 0.051))},
    "half above": lambda: {"a": cube(LOW), "b": cube((0.002, 0.003, 0.101))},
    "crossed edges": crossed_edges,
    "spiked": spiked,
    "folded": folded,
    "coincident cloths": lambda: {
        name: Cloth(shapes.cloth_grid(8, 8, size=0.4, center=(0.0, 0.0, 0.1))) for name in "ab"
    },
    "cube in a cube": lambda: {"a": cube((0.0, 0.0, 0.101), edge=0.2), "b": cube((0.01, 0.004, 0.103))},
    "balls": lambda: {"a": ball(LOW), "b": ball((0.04, 0.01, 0.07))},
    "coincident balls": lambda: {"a": ball(LOW), "b": ball(LOW)},
    "in a wall": lambda: {"a": cube(LOW), "wall": shapes.box((0.1, 0.5, 0.5), center=(0.07, 0.0, 0.25))},
}
FLOATING = {"crossed edges", "spiked"}
"""Scenes without ground; the first also without gravity."""


def simulation(name: str, *, is_weightless: bool = False) -> Simulation:
    """A scene with response="contact"."""
    gravity = (0.0, 0.0, 0.0) if is_weightless or name == "crossed edges" else (0.0, 0.0, -9.81)
    ground = None if is_weightless or name in FLOATING else 0.0
    return Simulation(world_of(**SCENES[name]()), response="contact", ground=ground, gravity=gravity)


def crossing(sim: Simulation) -> list[tuple[str, str]]:
    """Names of bodies that meet or are inside one another, and of bodies that meet themselves."""
    world = sim.world
    found = [
        (a, b)
        for a, b in itertools.combinations(world.names, 2)
        if impinge.collides(world.surface(a), world.surface(b))
    ]
    return found + [
        (name, name)
        for name in world.names
        if isinstance(world[name], SoftBody) and len(impinge.self_pairs(world.surface(name)))
    ]


@pytest.mark.parametrize("name", SCENES)
def test_scenes_become_free_and_stay_so(name):
    """Be free by the exact test within 2 s, stay free, and name the bodies until then."""
    sim = simulation(name)
    assert crossing(sim)
    free = None
    for _ in range(120):
        before = crossing(sim)
        report = sim.step()
        words = " ".join(report.warnings)
        for a, b in before:
            assert (f"body {a!r} crosses itself" if a == b else f"bodies {a!r} and {b!r} cross") in words
        now = crossing(sim)
        assert free is None or not now
        free = report.time if free is None and not now else free

    assert free is not None
    assert "cross" not in words


@pytest.mark.parametrize("name", ["coincident", "half", "crossed edges", "coincident balls"])
def test_energy_is_bounded(name):
    """Without gravity, part with at most the kinetic energy of all bodies at three times the speed of parting."""
    sim = simulation(name, is_weightless=True)
    mass = sum(float(np.sum(sim.world[each].model.masses)) for each in sim.world.names)
    reports = [sim.step() for _ in range(90)]

    assert not crossing(sim)
    assert max(report.kinetic for report in reports) <= 0.5 * mass * (3.0 * RELEASE) ** 2
    assert max(np.linalg.norm(report.momentum) for report in reports) <= 1e-6 * mass * RELEASE


@pytest.mark.parametrize("name", ["coincident", "spiked"])
def test_runs_are_repeatable(name):
    """Give the same bits twice."""
    runs = []
    for _ in range(2):
        sim = simulation(name)
        for _ in range(12):
            sim.step()
        runs.append(np.concatenate([sim.world.surface(each).vertices for each in sim.world.names]))

    assert np.array_equal(*runs)


def test_a_vessel_keeps_its_content():
    """Leave a cube alone that begins in the hollow of a fixed box."""
    outer, inner = shapes.box(0.6), shapes.box(0.5)
    walls = np.concatenate([outer.faces, inner.faces[:, ::-1] + len(outer.vertices)])
    world = world_of(a=cube((0.0, 0.0, 0.0)), vessel=TriMesh(np.concatenate([outer.vertices, inner.vertices]), walls))
    sim = Simulation(world, response="contact", ground=None, gravity=(0.0, 0.0, 0.0))
    report = sim.step()

    assert not report.warnings
    assert report.fastest < 1e-6
