"""Worlds of many bodies: a thousand boxes, a hundred deforming bodies against FCL's manager, and a long run.

Boxes      1,000 boxes of 12 triangles at random in a cube: about 2,000 near pairs; all move in each frame. A frame is
           new positions in, all contacts with depths out. The rows differ in how positions are passed: transforms or
           positions of all bodies in one call, or an update of each body.
Bodies     100 plates of 1,000 tets lie in stacks and deform. A frame is new positions in, all pairs of triangles of all
           surfaces out. FCL (python-fcl) has no refit: its models are rebuilt, then its
           DynamicAABBTreeCollisionManager finds the pairs.
Agreement  FCL must find the same pairs of bodies and the same number of triangle pairs, up to 0.1 % (its test is not
           exact), before its time counts.
Run        10,000 frames of 200 boxes, and the growth of the process memory after the first tenth.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, interleaved, row_of, timed, unmeasured
from impinge.backend import jit
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh
from impinge.world.world import World

FRAMES = 8
DISAGREEMENT = 1e-3
NO_CAP = 10_000_000
"""Maximum number of contacts of FCL; its default is one."""
PAGE = 4096


def run(*, quick: bool = False) -> list[Row]:
    """Time frames of all worlds."""
    boxes = _boxes(100 if quick else 1000, rounds=2 if quick else 30)
    bodies = _bodies((2, 2, 2) if quick else (5, 5, 4), rounds=2 if quick else 8)
    return [*boxes, *bodies, _long_run(100 if quick else 10_000)]


# boxes --------------------------------------------------------------------------------------------------


def box_world(count: int, *, seed: int = 1) -> tuple[World, Floats]:
    """Boxes of side 1, and transforms that place each of them near about four others."""
    rng = np.random.default_rng(seed)
    world = World()
    for _ in range(count):
        world.add(shapes.box(1.0))
    matrices = np.tile(np.eye(4), (count, 1, 1))
    for k in range(count):
        q, r = np.linalg.qr(rng.normal(size=(3, 3)))
        q *= np.sign(np.diag(r))
        matrices[k, :3, :3] = q * np.sign(np.linalg.det(q))
    matrices[:, :3, 3] = rng.uniform(0.0, 1.8 * count ** (1 / 3), (count, 3))
    return world, matrices


def _boxes(count: int, rounds: int) -> list[Row]:
    world, matrices = box_world(count)
    steps = [matrices.copy() for _ in range(FRAMES)]
    for k, step in enumerate(steps):
        step[:, :3, 3] += 0.02 * np.sin(k + np.arange(3 * count)).reshape(-1, 3)
    frames = []
    for step in steps:
        world.move(step)
        frames.append(np.concatenate([world[name].vertices for name in world]))
    bodies = [world[name] for name in world]

    def update_each(x: Floats) -> None:
        for k, body in enumerate(bodies):
            body.update(x[8 * k : 8 * k + 8])

    world.move(steps[0])
    near, found = len(world.near_pairs()), len(world.contacts())
    note = f"{near} near pairs, {found} contacts; {jit.thread_count()} threads"
    ways: dict[str, Callable[[int], object]] = {
        "impinge, world.move": partial(_then, lambda k: world.move(steps[k]), world.contacts),
        "impinge, world.update": partial(_then, lambda k: world.update(frames[k]), world.contacts),
        "impinge, update of each": partial(_then, lambda k: update_each(frames[k]), world.contacts),
        "impinge, world.move and pairs": partial(_then, lambda k: world.move(steps[k]), world.pairs),
    }
    return interleaved(f"{count} boxes", ways, range(FRAMES), rounds=rounds, note=note)


def _then(move: Callable[[Any], None], query: Callable[[], object], frame: Any) -> object:
    move(frame)
    return query()


# bodies -------------------------------------------------------------------------------------------------


def plates(grid: tuple[int, int, int]) -> list[TetMesh]:
    """Plates of 1,000 tets in stacks, slightly tilted, close enough to touch."""
    rng = np.random.default_rng(3)
    bodies = []
    for cell in np.argwhere(np.ones(grid)):
        body = shapes.tet_box(20, 10, 1, size=(20.0, 10.0, 1.0))
        tilt = 0.06 * rng.normal(size=3)
        rotation = np.eye(3) + np.cross(np.eye(3), tilt)
        body.update(body.vertices @ rotation.T + cell * (20.4, 10.4, 1.4))
        bodies.append(body)
    return bodies


def _bodies(grid: tuple[int, int, int], rounds: int) -> list[Row]:
    bodies = plates(grid)
    wave = Wave(0.1, 2.0, angular_speed=2.0)
    rest = [body.vertices.copy() for body in bodies]
    frames = [np.concatenate([wave(x, 0.1 * k + 1.7 * i) for i, x in enumerate(rest)]) for k in range(FRAMES)]
    world = World()
    for body in bodies:
        world.add(body)
    scene, tets = f"{len(bodies)} bodies", sum(len(body) for body in bodies)
    candidates: dict[str, Callable[[Floats], object]] = {
        "impinge, pairs": partial(_then, world.update, world.pairs),
        "impinge, contacts": partial(_then, world.update, world.contacts),
    }
    rows = []
    if importlib.util.find_spec("fcl") is None:
        why = "python-fcl is not installed; pip install impinge[bench]"
        rows.append(unmeasured(scene, "python-fcl manager, rebuilt", why))
    else:
        peer = _Fcl(bodies)
        world.update(frames[0])
        _check(world, peer.frame(frames[0]))
        candidates["python-fcl manager, rebuilt"] = peer.frame
    world.update(frames[0])
    note = f"{tets} tets, {len(world.near_pairs())} near pairs, {len(world.pairs())} triangle pairs"
    return interleaved(scene, candidates, frames, rounds=rounds, note=note) + rows


class _Fcl:
    """The manager of python-fcl; its models are rebuilt in every frame."""

    def __init__(self, bodies: list[TetMesh]) -> None:
        self._start = np.concatenate([[0], np.cumsum([len(body.vertices) for body in bodies])])
        self._faces = [np.ascontiguousarray(body.surface.faces, dtype=np.int64) for body in bodies]

    def frame(self, x: Floats) -> dict[tuple[int, int], int]:
        """Number of triangle pairs by pair of bodies, at new positions."""
        import fcl

        manager, number = fcl.DynamicAABBTreeCollisionManager(), {}
        objects = []
        for b, faces in enumerate(self._faces):
            model = fcl.BVHModel()
            part = x[self._start[b] : self._start[b + 1]]
            model.beginModel(len(part), len(faces))
            model.addSubModel(part, faces)
            model.endModel()
            objects.append(fcl.CollisionObject(model))
            number[id(model)] = b
        manager.registerObjects(objects)
        manager.setup()
        data = fcl.CollisionData(request=fcl.CollisionRequest(num_max_contacts=NO_CAP, enable_contact=False))
        manager.collide(data, fcl.defaultCollisionCallback)
        counts: dict[tuple[int, int], int] = {}
        for contact in data.result.contacts:
            a, b = sorted((number[id(contact.o1)], number[id(contact.o2)]))
            counts[a, b] = counts.get((a, b), 0) + 1
        return counts


def _check(world: World, theirs: dict[tuple[int, int], int]) -> None:
    """Raise if the pairs of FCL differ from ours."""
    found = world.pairs()
    ours = len(np.unique(np.stack([found.body_a, found.body_b], axis=1), axis=0))
    total = sum(theirs.values())
    if abs(ours - len(theirs)) > DISAGREEMENT * ours or abs(len(found) - total) > DISAGREEMENT * len(found):
        raise ImpingeError(
            f"python-fcl finds {total} triangle pairs of {len(theirs)} pairs of bodies, expected {len(found)} of "
            f"{ours}; its times would mean nothing"
        )


# a long run ---------------------------------------------------------------------------------------------


def _long_run(frames: int) -> Row:
    """Time and memory of many frames."""
    world, matrices = box_world(200)
    times, held = [], 0

    def step(frame: int) -> None:
        moved = matrices.copy()
        moved[:, :3, 3] += np.sin(0.01 * frame + np.arange(600)).reshape(-1, 3)
        world.move(moved)
        world.contacts()

    for frame in range(frames):
        times.append(timed(partial(step, frame))[0])
        if frame == frames // 10:
            held = _memory()
    grown = _memory() - held
    note = f"{frames} frames, {grown // 1024} kB more held at the end than after a tenth of them"
    return row_of("long run of 200 boxes", "impinge", times, note=note)


def _memory() -> int:
    """Resident memory of the process in bytes; 0 where /proc is missing."""
    status = Path("/proc/self/statm")
    return PAGE * int(status.read_text().split()[1]) if status.exists() else 0
