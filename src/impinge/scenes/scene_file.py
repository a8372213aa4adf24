"""Scenes that people write: a TOML file names meshes or shapes, places them, and says which are soft and which move.

    scene = read_scene("scene.toml")
    scene.bodies[0].load()                 # a mesh, placed
    scene.world()                          # all of them
    scene.simulation().run(2.0)

What may stand in a file is told in docs/scene_files.md. Every value is checked when the file is read, meshes when they
are loaded; messages name the key. A file can describe and never run code, and reaches nothing outside of its folder.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats
from impinge.deform.materials import MATERIALS, Material
from impinge.errors import ImpingeError, OptionError
from impinge.io.sequence import Sequence, frame_files
from impinge.mesh import shapes
from impinge.mesh.body import load
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene
from impinge.scenes.scene_keys import Keys
from impinge.simulate.searches import SEARCHES
from impinge.simulate.simulation import Simulation
from impinge.world.world import ALL_GROUPS, World

__all__ = ["SceneFile", "SceneBody", "SceneMotion", "read_scene"]

ENDING = ".toml"
MOST_ROUNDS = 8
"""Subdivisions of a sphere: 20 · 4^8 is more than a million triangles."""
MOST_CELLS = 1000
"""Cells of a shape along a side."""
MOST_BODIES = 10_000
REFERRING_ENDINGS = (".gltf",)
"""Files that name other files, which may be anywhere."""


def _rounds(keys: Keys) -> dict[str, Any]:
    return {"subdivisions": keys.count("subdivisions", 3, least=0, most=MOST_ROUNDS), **_lengths(keys, radius=1.0)}


def _counts(keys: Keys, least: int, most: int, **defaults: int) -> dict[str, Any]:
    return {key: keys.count(key, default, least=least, most=most) for key, default in defaults.items()}


def _lengths(keys: Keys, **defaults: float | None) -> dict[str, Any]:
    return {key: keys.number(key, default, above=0.0) for key, default in defaults.items()}


SHAPES: dict[str, tuple[Callable[..., TriMesh | TetMesh], Callable[[Keys], dict[str, Any]]]] = {
    "icosphere": (shapes.icosphere, _rounds),
    "uv_sphere": (
        shapes.uv_sphere,
        lambda keys: {**_counts(keys, 3, MOST_CELLS, nu=24, nv=16), **_lengths(keys, radius=1.0)},
    ),
    "bumpy_sphere": (
        shapes.bumpy_sphere,
        lambda keys: {
            **_rounds(keys),
            "amplitude": keys.number("amplitude", 0.1, least=0.0),
            **_lengths(keys, frequency=6.0),
        },
    ),
    "box": (
        shapes.box,
        lambda keys: {
            "size": keys.sizes("size", 1.0, length=3),
            "cells": keys.counts("cells", (1, 1, 1), length=3, most=MOST_CELLS),
        },
    ),
    "torus_knot": (
        shapes.torus_knot,
        lambda keys: {
            **_counts(keys, 1, 50, p=2, q=3),
            **_counts(keys, 3, MOST_CELLS, rings=200, sides=16),
            **_lengths(keys, major_radius=1.0, minor_radius=0.4, tube_radius=None),
        },
    ),
    "cloth_grid": (
        shapes.cloth_grid,
        lambda keys: {**_counts(keys, 1, MOST_CELLS, nx=20, ny=20), "size": keys.sizes("size", 1.0, length=2)},
    ),
    "tet_box": (
        shapes.tet_box,
        lambda keys: {**_counts(keys, 1, 100, nx=4, ny=4, nz=4), "size": keys.sizes("size", 1.0, length=3)},
    ),
    "tet_tube": (
        shapes.tet_tube,
        lambda keys: {
            **_counts(keys, 1, 20, n_r=2),
            **_counts(keys, 3, 400, n_theta=16, n_z=16),
            **_lengths(keys, inner_radius=0.8, outer_radius=1.0, length=4.0),
        },
    ),
}
"""What makes a shape, and its keys; the limits keep a short file from filling the memory."""


@dataclass(frozen=True)
class SceneMotion:
    """How a body moves by itself: evenly, turning evenly, from ``begin`` to ``end``; or as frames on disk say."""

    velocity: Floats
    spin: Floats
    """Axis times radians per second."""
    about: Floats
    """A point that the axis goes through at first."""
    begin: float = 0.0
    end: float = math.inf
    frames: str | None = None
    """What a ``Sequence`` reads."""
    rate: float = 30.0

    def __call__(self, time: float) -> Floats:
        """The transform at a time, 4x4."""
        passed = min(max(time, self.begin), self.end) - self.begin
        matrix = np.eye(4)
        matrix[:3, :3] = rotation(self.spin, passed * float(np.linalg.norm(self.spin)))
        matrix[:3, 3] = self.about - matrix[:3, :3] @ self.about + passed * self.velocity
        return matrix


@dataclass(frozen=True, eq=False)
class SceneBody:
    """One body of a scene file."""

    name: str
    file: Path | None
    """The mesh, or None for a shape."""
    weld: bool | Literal["auto"]
    """Whether equal vertices of the file are joined."""
    placement: Floats
    """Where it is put: scale, rotation and position as a 4x4 matrix."""
    fixed: bool
    group: int
    collides_with: int
    soft: Mapping[str, Any] | None
    """Options of ``SoftBody``, None for a body that is not soft."""
    motion: SceneMotion | None
    _make: Callable[[], TriMesh | TetMesh] = field(repr=False)
    _place: str = field(repr=False)

    def load(self) -> TriMesh | TetMesh:
        """The mesh, new and placed."""
        with _naming(self._place):
            body = self._make()
            body.update(transform_points(self.placement, body.vertices))
            return body

    def make(self) -> TriMesh | TetMesh | SoftBody:
        """The body as a world takes it: the mesh, or a soft body made of it."""
        mesh = self.load()
        if self.soft is None:
            return mesh
        with _naming(self._place):
            return _soft(mesh, dict(self.soft))


class _naming:  # noqa: N801 - reads as a verb
    """Put the place in the file before whatever is wrong with a body."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, ImpingeError) and not str(error).startswith(self._place):
            raise OptionError(f"{self._place}: {error}") from error


def _soft(mesh: TriMesh | TetMesh, options: dict[str, Any]) -> SoftBody:
    hold, velocity = options.pop("hold"), options.pop("velocity")
    if isinstance(mesh, TetMesh):
        for key in ("coarse_faces", "mesh_size", "cells", "method"):
            if key in options:
                raise OptionError(f"soft.{key} is for surfaces, and this body has tets already; leave it out")
        body = SoftBody(mesh.surface, mesh, **options)
    else:
        body = SoftBody.from_surface(mesh, **options)
    if hold is not None:
        point, normal = hold
        held = (body.coarse.vertices - point) @ normal >= 0.0
        if not held.any():
            raise OptionError("soft.hold holds no vertex, expected a plane with some of the body beyond it")
        body.fix(held)
    if velocity is not None:
        body.velocities = np.tile(velocity, (len(body.velocities), 1))
    return body


@dataclass(frozen=True, eq=False)
class SceneFile:
    """What a scene file says."""

    path: Path
    title: str
    bodies: tuple[SceneBody, ...]
    options: Mapping[str, Any]
    """Keywords of ``Simulation``."""
    ignored: tuple[tuple[str, str], ...]

    def world(self) -> World:
        """All bodies, new."""
        world = World()
        for body in self.bodies:
            made = body.make()
            world.add(made, name=body.name, fixed=body.fixed, group=body.group, collides_with=body.collides_with)
        for first, second in self.ignored:
            world.ignore(first, second)
        return world

    def simulation(self, *, target_ms: float | None = None) -> Simulation:
        """A simulation of all bodies, with their motions; held to a rate, unless the file limits its searches."""
        options = dict(self.options)
        if not options.keys() & {"target_ms", "budget_ms", "max_tests"}:
            options["target_ms"] = target_ms
        simulation = Simulation(self.world(), **options)
        for body in self.bodies:
            if body.motion is None:
                continue
            if body.motion.frames is None:
                simulation.script(body.name, body.motion)
            else:
                simulation.script(body.name, Sequence(body.motion.frames), rate=body.motion.rate)
        return simulation

    @property
    def needs_simulation(self) -> bool:
        """Whether bodies move in a way that no formula gives: soft ones, and those that follow frames on disk."""
        return any(body.soft is not None or (body.motion and body.motion.frames) for body in self.bodies)

    def scene(self) -> Scene:
        """The meshes and their motions as a scene like those of the registry; soft bodies keep their shape."""
        motions = tuple(body.motion for body in self.bodies)

        def move(rest: tuple[Floats, ...], t: float) -> tuple[Floats | None, ...]:
            transforms = [None if motion is None or motion.frames else motion(t) for motion in motions]
            return tuple(
                None if matrix is None else x @ matrix[:3, :3].T + matrix[:3, 3] for x, matrix in zip(rest, transforms)
            )

        moves = any(motion is not None for motion in motions)
        return Scene(self.path.stem, self.title, lambda: [body.load() for body in self.bodies], move if moves else None)

    def digest(self) -> str:
        """A name for the content of the file and of all meshes that it names; frames count by name and size."""
        found = hashlib.sha256(self.path.read_bytes())
        for body in self.bodies:
            if body.file is not None:
                found.update(body.file.read_bytes())
            if body.motion is not None and body.motion.frames is not None:
                for file in frame_files_of(body.motion.frames):
                    found.update(f"{file.name} {file.stat().st_size}\n".encode(errors="surrogateescape"))
        return found.hexdigest()


def read_scene(path: str | os.PathLike[str]) -> SceneFile:
    """Read a scene file (.toml), or say which key is wrong; meshes are not loaded yet."""
    path = Path(path)
    keys = Keys.read(path)
    title = keys.text("title", path.stem)
    bodies: list[SceneBody] = []
    for each in keys.tables("body"):
        bodies.append(_body(each, path, len(bodies), {body.name for body in bodies}))
    if not 1 <= len(bodies) <= MOST_BODIES:
        raise OptionError(f"{path}: there are {len(bodies)} tables [[body]], expected 1 to {MOST_BODIES:,}")
    ignored = keys.pairs("ignore", [body.name for body in bodies])
    options = _simulation(keys.table("simulation"))
    keys.end()
    return SceneFile(path, title, tuple(bodies), MappingProxyType(options), ignored)


def _simulation(keys: Keys | None) -> dict[str, Any]:
    if keys is None:
        return {}
    options: dict[str, Any] = {
        "gravity": keys.vector("gravity", None),
        "dt": keys.number("dt", None, above=0.0),
        "response": keys.text("response", None, among=tuple(SEARCHES)),
        "stiffness": keys.number("stiffness", None, above=0.0),
        "max_tests": keys.count("max_tests", None, most=2**62),
        "budget_ms": keys.number("budget_ms", None, above=0.0),
    }
    options |= {name: keys.number(name, None, least=0.0) for name in ("damping", "settling", "friction")}
    options["ground"] = _ground(keys)
    options["target_ms"] = keys.number("target_ms", None, above=0.0)
    if options["target_ms"] is not None and (options["budget_ms"] or options["max_tests"]):
        raise keys.wrong("target_ms", options["target_ms"], "it without budget_ms and max_tests, which it chooses")
    if options["budget_ms"] is not None and options["max_tests"] is not None:
        raise keys.wrong("budget_ms", options["budget_ms"], "it without max_tests; choose one of both")
    sleep_after = _sleep_after(keys)
    keys.end()
    return {name: value for name, value in options.items() if value is not None} | sleep_after


def _sleep_after(keys: Keys) -> dict[str, Any]:
    """Seconds, or the word never, since TOML has no word for nothing."""
    if keys.holds("sleep_after", str):
        keys.text("sleep_after", among=("never",))
        return {"sleep_after": None}
    seconds = keys.number("sleep_after", None, above=0.0)
    return {} if seconds is None else {"sleep_after": seconds}


def _ground(keys: Keys) -> Any:
    if not keys.holds("ground", dict):
        return keys.number("ground", None)
    plane = keys.table("ground")
    assert plane is not None
    point, normal = plane.vector("point"), plane.vector("normal")
    _check_direction(plane, "normal", normal)
    plane.end()
    return point, normal


def _body(keys: Keys, path: Path, number: int, taken: set[str]) -> SceneBody:
    file, weld, make, natural = _mesh(keys)
    name = keys.text("name", natural if natural not in taken else f"{natural} {number}")
    if not name or name in taken:
        raise keys.wrong("name", name, "a name that no other body has")
    placement = _placement(keys)
    soft, motion = _soft_options(keys.table("soft")), _motion(keys.table("motion"), placement[:3, 3])
    if soft is not None and motion is not None:
        raise keys.wrong("motion", "there", "no motion of a soft body, which moves by itself; leave one of both out")
    fixed = keys.flag("fixed", soft is None and motion is None)
    if fixed and (motion is not None or soft is not None):
        raise keys.wrong("fixed", True, "false for a body that moves; leave it out")
    body = SceneBody(
        name=name,
        file=file,
        weld=weld,
        placement=placement,
        fixed=fixed,
        group=keys.count("group", 1, most=ALL_GROUPS),
        collides_with=keys.count("collides_with", ALL_GROUPS, least=0, most=ALL_GROUPS),
        soft=soft,
        motion=motion,
        _make=make,
        _place=f"{path}: body[{number}] ({name})",
    )
    keys.end()
    return body


def _mesh(keys: Keys) -> tuple[Path | None, Any, Callable[[], TriMesh | TetMesh], str]:
    """The file if there is one, whether to join its vertices, how to make the mesh, and a name for it."""
    if keys.has("file") == keys.has("shape"):
        raise keys.wrong("file", "there" if keys.has("file") else "missing", "either file or shape, and not both")
    if keys.has("file"):
        file = keys.file("file")
        if file.suffix.lower() in REFERRING_ENDINGS:
            raise keys.wrong("file", file.name, "a format that is one file, such as .glb; convert it")
        weld = keys.flag("weld", "auto")
        return file, weld, lambda: load(file, weld=weld), file.stem
    table = keys.table("shape")
    assert table is not None
    kind = table.text("kind", among=tuple(SHAPES))
    build, ask = SHAPES[kind]
    options = ask(table)
    table.end()
    return None, "auto", lambda: build(**options), kind


def _placement(keys: Keys) -> Floats:
    matrix = np.eye(4)
    turn = keys.table("rotation")
    if turn is not None:
        axis, degrees = turn.vector("axis"), turn.number("degrees")
        _check_direction(turn, "axis", axis)
        turn.end()
        matrix[:3, :3] = rotation(np.array(axis), math.radians(degrees))
    matrix[:3, :3] *= keys.number("scale", 1.0, above=0.0)
    matrix[:3, 3] = keys.vector("position", (0.0, 0.0, 0.0))
    return matrix


def _soft_options(keys: Keys | None) -> dict[str, Any] | None:
    if keys is None:
        return None
    options: dict[str, Any] = {}
    chosen = MATERIALS[keys.text("material", "rubber", among=tuple(MATERIALS))]
    constants = {
        name: keys.number(name, getattr(chosen, name), **limits)
        for name, limits in (("youngs_modulus", {"above": 0.0}), ("poisson_ratio", {}), ("density", {"above": 0.0}))
    }
    try:
        options["material"] = Material(**constants)
    except OptionError as error:
        raise keys.wrong("poisson_ratio", constants["poisson_ratio"], str(error)) from error
    options["model"] = keys.text("model", "green_strain", among=("green_strain", "corotated"))
    options["embedding"] = keys.text("embedding", "rigid_links", among=("rigid_links", "barycentric"))
    coarse = {
        "coarse_faces": keys.count("coarse_faces", None, least=4, most=100_000),
        "cells": keys.count("cells", None, most=100),
        "mesh_size": keys.number("mesh_size", None, above=0.0),
        "method": keys.text("method", None, among=("auto", "netgen", "cubes")),
    }
    options |= {name: value for name, value in coarse.items() if value is not None}
    options["velocity"] = keys.vector("velocity", None)
    plane = keys.table("hold")
    options["hold"] = None
    if plane is not None:
        normal = plane.vector("normal")
        _check_direction(plane, "normal", normal)
        options["hold"] = np.array(plane.vector("point")), np.array(normal)
        plane.end()
    keys.end()
    return options


def _motion(keys: Keys | None, position: Floats) -> SceneMotion | None:
    if keys is None:
        return None
    zero = np.zeros(3)
    if keys.has("frames"):
        frames, rate = _frames(keys), keys.number("rate", 30.0, above=0.0)
        keys.end()
        return SceneMotion(zero, zero, zero, frames=frames, rate=rate)
    velocity = np.array(keys.vector("velocity", (0.0, 0.0, 0.0)))
    spin = zero
    about = np.array(keys.vector("about", tuple(position)))
    turn = keys.table("spin")
    if turn is not None:
        axis = np.array(turn.vector("axis"))
        _check_direction(turn, "axis", axis)
        spin = math.radians(turn.number("degrees_per_second")) * axis / np.linalg.norm(axis)
        turn.end()
    begin = keys.number("begin", 0.0, least=0.0)
    end = keys.number("end", math.inf, least=begin)
    keys.end()
    return SceneMotion(velocity, spin, about, begin, end)


def _frames(keys: Keys) -> str:
    """What a ``Sequence`` is to read: a folder, an archive or a pattern, and no frame outside of the scene's folder."""
    source = keys.file("frames")
    if source.exists():
        name = str(source)
    else:  # a pattern, but not in the name of the folder
        name = os.path.join(glob.escape(str(keys.folder)), str(source.relative_to(keys.folder)))  # noqa: PTH118
    for file in frame_files_of(name):
        keys.inside("frames", str(file.relative_to(keys.folder)))
    return name


def frame_files_of(source: str) -> list[Path]:
    """Files that a sequence reads."""
    path = Path(source)
    return [path] if path.suffix.lower() == ".npz" else frame_files(path, source)


def _check_direction(keys: Keys, key: str, value: Any) -> None:
    if not any(value):
        raise keys.wrong(key, list(value), "a direction, which is not zero")


def rotation(axis: Any, radians: float) -> Floats:
    """Turn about an axis (Rodrigues' formula); a zero axis turns nothing."""
    size = float(np.linalg.norm(axis))
    if size == 0.0:
        return np.eye(3)
    x, y, z = np.asarray(axis, dtype=np.float64) / size
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turned: Floats = np.eye(3) + math.sin(radians) * cross + (1.0 - math.cos(radians)) * cross @ cross
    return turned
