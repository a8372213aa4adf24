"""Scenes that press, throw, fold and pile bodies, and the exact judges of what happens in them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from impinge import (
    Cloth,
    ContinuousTree,
    Material,
    RigidBody,
    Simulation,
    SoftBody,
    TriMesh,
    World,
    self_pairs,
    shapes,
    triangle_pairs,
)

NO_GRAVITY = (0.0, 0.0, 0.0)


def soft(tets, modulus=1e5, poisson=0.4):
    """A soft body of tets, 1000 kg / m³."""
    return SoftBody(tets.surface, tets, embedding="barycentric", material=Material(modulus, poisson, 1000.0))


def world_of(**bodies):
    """A world of named bodies."""
    world = World()
    for name, body in bodies.items():
        world.add(body, name=name)
    return world


def turned(mesh, angle, axis):
    """The mesh, turned about a coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turn = np.eye(3)
    turn[i, i] = turn[j, j] = math.cos(angle)
    turn[i, j], turn[j, i] = -math.sin(angle), math.sin(angle)
    mesh.update(mesh.vertices @ turn.T)
    return mesh


def moved(mesh, *shift):
    """The mesh, shifted."""
    mesh.update(mesh.vertices + np.array(shift))
    return mesh


def at(x, y, z):
    """A pose without rotation."""
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    return pose


def floor(n, m):
    """A meshed floor of n by m cells, whose top is at 0."""
    return shapes.box((4.0, 2.0, 0.1), center=(0.0, 0.0, -0.05), cells=(n, m, 1))


def mean_velocity(body):
    """Velocity of the centre of mass."""
    return body.model.masses @ body.velocities / body.model.masses.sum()


# judges --------------------------------------------------------------------------------------------------------------


def crossings(sim):
    """Pairs of bodies whose triangles intersect, exactly, with their numbers."""
    world, found = sim.world, {}
    names = list(world.names)
    for a, b in itertools.combinations_with_replacement(names, 2):
        first, second = world.surface(a), world.surface(b)
        if a == b:
            deforms = isinstance(world[a], SoftBody) and not isinstance(world[a], RigidBody)
            count = len(self_pairs(first)) if deforms else 0
        elif world.ignores(a, b):
            count = 0
        else:
            count = len(triangle_pairs(first, second))
        if count:
            found[a, b] = count
    return found


def passes(sim, before, trees):
    """Pairs of bodies that pass through each other on straight lines from ``before`` to the present positions."""
    found, names = {}, list(sim.world.names)
    for a, b in itertools.combinations(names, 2):
        if (a, b) not in trees:
            surfaces = [sim.world.surface(name) for name in (a, b)]
            trees[a, b] = tuple(TriMesh(surface.vertices, surface.faces) for surface in surfaces)
        first, second = trees[a, b]
        first.update(before[a])
        second.update(before[b])
        now = [sim.world.surface(name).vertices for name in (a, b)]
        hits = ContinuousTree(first, second).query(end_a=now[0], end_b=now[1])
        if len(hits):
            found[a, b] = len(hits)
    return found


def run(sim, seconds, *, each=None, judges_motion=False):
    """Step by frames, and assert that nothing crosses, nothing passes, and energy never grows; returns reports."""
    assert not crossings(sim)
    reports, trees = [], {}
    for _ in range(round(seconds / sim.dt)):
        if each is not None:
            each(sim)
        before = {name: sim.world.surface(name).vertices.copy() for name in sim.world.names}
        reports.append(sim.step())
        crossing = crossings(sim)
        assert not crossing, f"frame {reports[-1].frame}: {crossing}"
        if judges_motion and reports[-1].searches == 1:
            passed = passes(sim, before, trees)
            assert not passed, f"frame {reports[-1].frame}: {passed}"
    return reports


def energy_never_grows(reports):
    """Energy of free scenes stays at most that of the first frame."""
    energies = [report.energy - report.work for report in reports]
    scale = max(abs(energies[0]), max(report.kinetic for report in reports))
    return max(energies) <= energies[0] + 1e-9 * scale


# scenes --------------------------------------------------------------------------------------------------------------


def thrown_ball(thickness, *, is_soft_plate=False):
    """A soft ball of 40 mm at 10 m/s against a plate."""
    surface = shapes.icosphere(2, radius=0.02, center=(0.0, 0.0, 0.1))
    ball = SoftBody.from_surface(
        surface, method="cubes", cells=5, material=Material(1e6, 0.4, 1000.0), embedding="barycentric"
    )
    ball.velocities = np.tile([0.0, 0.0, -10.0], (len(ball.velocities), 1))
    if is_soft_plate:
        plate = soft(shapes.tet_box(12, 12, 1, size=(0.3, 0.3, thickness)), 1e6)
        plate.fix(np.abs(plate.coarse.vertices[:, 0]) > 0.149)
    else:
        plate = shapes.box((0.3, 0.3, thickness), center=(0.003, 0.002, 0.0), cells=(10, 10, 1))
    return Simulation(world_of(ball=ball, plate=plate), gravity=NO_GRAVITY if is_soft_plate else (0.0, 0.0, -9.81))


def sliding_block(n, m):
    """A block that slides without friction on a floor of n by m cells."""
    block = soft(shapes.tet_box(4, 4, 4, size=(0.2,) * 3, center=(-0.9, 0.013, 0.1005)))
    block.velocities = np.tile([1.0, 0.0, 0.0], (len(block.velocities), 1))
    return Simulation(world_of(block=block, floor=floor(n, m)), friction=0.0)


def ramp(share, friction=0.5):
    """A block on a meshed ramp at a share of the friction angle's tangent."""
    angle = math.atan(share * friction)
    tets = turned(shapes.tet_box(4, 4, 4, size=(0.1,) * 3, center=(0.0, 0.0, 0.0501)), angle, 1)
    return Simulation(world_of(block=soft(tets), floor=turned(floor(13, 7), angle, 1)), friction=friction)


def stack(count, modulus=1e5):
    """A stack of soft cubes."""
    cubes = {
        f"cube {i}": soft(
            shapes.tet_box(4, 4, 4, size=(0.1,) * 3, center=(0.002 * (i % 2), 0.001 * i, 0.0502 + 0.1003 * i)), modulus
        )
        for i in range(count)
    }
    return Simulation(world_of(**cubes), ground=0.0)


def arch(count=7):
    """An arch of stiff wedges that only friction and pressure hold."""
    bodies = {}
    for i in range(count):
        first, last = math.pi * i / count + 5e-4, math.pi * (i + 1) / count - 5e-4
        tets = shapes.tet_box(3, 3, 3, size=(1.0, 1.0, 1.0), center=(0.5, 0.0, 0.5))
        radius, angle = 0.3 + 0.1 * tets.vertices[:, 0], first + (last - first) * tets.vertices[:, 2]
        x = [-radius * np.cos(angle), 0.1 * tets.vertices[:, 1], radius * np.sin(angle) + 5e-4]
        tets.update(np.stack(x, axis=1))
        bodies[f"wedge {i}"] = soft(tets, 1e7)
    return Simulation(world_of(**bodies), ground=0.0, friction=0.8)


def folding_strip(cells=24):
    """A strip that falls on edge and folds on itself."""
    tets = shapes.tet_box(cells, 3, 1, size=(0.6, 0.06, 0.01))
    tets = moved(turned(tets, 1.35, 1), 0.0, 0.0, 0.31)
    return Simulation(world_of(strip=soft(tets, 2e4)), ground=0.0)


def twisted_rod(cells=24):
    """A rod whose ends turn against each other by two turns and a half, and the motion of its ends."""
    tets = shapes.tet_box(3, 3, cells, size=(0.05, 0.05, 0.4))
    body = soft(tets, 1e5, 0.3)
    rest = tets.vertices.copy()
    ends = [(np.flatnonzero(side * rest[:, 2] > 0.199), side) for side in (1.0, -1.0)]
    sim = Simulation(world_of(rod=body), gravity=NO_GRAVITY)

    def twist(sim):
        for ids, side in ends:
            angle = side * 2.0 * math.pi * 1.2 * (sim.time + sim.dt)
            target = rest[ids].copy()
            target[:, 0] = math.cos(angle) * rest[ids, 0] - math.sin(angle) * rest[ids, 1]
            target[:, 1] = math.sin(angle) * rest[ids, 0] + math.cos(angle) * rest[ids, 1]
            target[:, 2] -= side * 0.05 * (sim.time + sim.dt)
            body.move(ids, (target - body.coarse.vertices[ids]) / sim.dt)

    return sim, twist


def draped(support, *, size=1.0, cells=24, height=0.45, friction=0.3):
    """A cloth that falls on a fixed surface."""
    cloth = Cloth(shapes.cloth_grid(cells, cells, size=size, center=(0.011, 0.007, height)))
    world = world_of(cloth=cloth)
    world.add(support, name="support", fixed=True)
    return Simulation(world, ground=0.0, friction=friction)


def cloth_on_cloth(cells=16):
    """Two cloths that fall on a ball, one after the other."""
    lower = Cloth(shapes.cloth_grid(cells, cells, size=0.8, center=(0.011, 0.007, 0.45)))
    upper = Cloth(moved(turned(shapes.cloth_grid(cells, cells, size=0.7), 0.5, 2), 0.02, 0.01, 0.52))
    world = world_of(lower=lower, upper=upper)
    world.add(shapes.icosphere(3, radius=0.2, center=(0.0, 0.0, 0.2)), name="ball", fixed=True)
    return Simulation(world, ground=0.0, friction=0.3)


def tool_on_block(depth=0.03):
    """A scripted ball that presses a soft block, moves along it, and leaves."""
    block = soft(shapes.tet_box(8, 8, 4, size=(0.2, 0.2, 0.08), center=(0.0, 0.0, 0.0402)), 1e4)
    sim = Simulation(
        world_of(block=block, tool=shapes.icosphere(3, radius=0.012, center=(0.0, 0.0, 0.095))), ground=0.0
    )
    sim.script(
        "tool",
        lambda t: at(0.03 * math.sin(2.0 * math.pi * t), 0.0, -depth * math.sin(math.pi * t) ** 2),
    )
    return sim


def rigid_stack(count=5):
    """A stack of rigid cubes."""
    cubes = {}
    for i in range(count):
        cubes[f"cube {i}"] = RigidBody(shapes.box(0.1))
        cubes[f"cube {i}"].pose = at(0.002 * (i % 2), 0.001 * i, 0.0502 + 0.1003 * i)
    return Simulation(world_of(**cubes), ground=0.0)


def on_knot(cells=40):
    """A cloth that falls on a torus knot."""
    knot = shapes.torus_knot(2, 3, 120, 14)
    knot.update(0.2 * knot.vertices)
    moved(knot, 0.0, 0.0, 0.05 - knot.vertices[:, 2].min())
    return draped(knot, size=1.2, cells=cells, height=float(knot.vertices[:, 2].max()) + 0.02)


def through_rollers(surface, cells=12):
    """A soft body that two scripted rollers draw in between them, where there is half of the room it needs."""
    size = np.ptp(surface.vertices, axis=0)
    surface.update((surface.vertices - surface.vertices.mean(axis=0)) * (0.2 / size.max()))
    body = SoftBody.from_surface(
        surface, method="cubes", cells=cells, material=Material(2e4, 0.4, 1000.0), embedding="barycentric"
    )
    thick = float(np.ptp(surface.vertices[:, 0]))
    radius = 0.08
    apart, top = radius + 0.25 * thick, float(surface.vertices[:, 2].min()) - radius - 0.002
    bodies = {"body": body}
    for name, side in (("left", -1.0), ("right", 1.0)):
        tube = shapes.tet_tube(1, 48, 20, inner_radius=0.5 * radius, outer_radius=radius, length=0.4).surface
        roller = turned(TriMesh(tube.vertices, tube.faces), 0.5 * math.pi, 0)
        bodies[name] = moved(roller, side * apart, 0.0, top)
    sim = Simulation(world_of(**bodies), friction=1.0)

    def turning(side):
        def motion(t):
            angle = -side * 3.0 * t
            about, back = at(side * apart, 0.0, top), at(-side * apart, 0.0, -top)
            turn = np.eye(4)
            turn[0, 0] = turn[2, 2] = math.cos(angle)
            turn[0, 2], turn[2, 0] = math.sin(angle), -math.sin(angle)
            return about @ turn @ back

        return motion

    sim.script("left", turning(-1.0))
    sim.script("right", turning(1.0))
    return sim


def screw_in_nut(screw, nut):
    """A rigid screw in a fixed nut, along y, that gravity pulls through the thread."""
    for mesh in (screw, nut):
        mesh.update(0.01 * mesh.vertices)
    world = world_of(screw=RigidBody(screw, density=7800.0))
    world.add(nut, name="nut", fixed=True)
    return Simulation(world, gravity=(0.0, -9.81, 0.0), friction=0.0)
