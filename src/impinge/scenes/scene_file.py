"""Scene files: a TOML file names meshes or shapes, poses them, and declares soft, rigid and moving bodies.

    scene = read_scene("scene.toml")
    scene.bodies[0].load()                 # the posed mesh
    scene.world()                          # all bodies
    scene.simulation().run(2.0)

docs/scene_files.md lists all keys. Values are checked when the file is read, meshes when they are loaded; messages name
the key. A file cannot run code and reads nothing outside of its folder.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.soft_body import EMBEDDINGS, MODELS, SoftBody
from impinge.checks import Floats, as_path
from impinge.deform.fem import ELEMENTS
from impinge.deform.materials import MATERIALS, Material
from impinge.errors import FileError, ImpingeError, OptionError
from impinge.io.sequence import Sequence, frame_files
from impinge.mesh import shapes
from impinge.mesh.body import load
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene, rotation
from impinge.scenes.scene_keys import (
    DIRECTION,
    FLAG,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    TEXT,
    VECTOR,
    Keys,
    Value,
    count,
    either,
    number,
    several,
    text,
)  # fmt: skip
from impinge.simulate.search.searches import SEARCHES, Response
from impinge.simulate.simulation import INTEGRATORS, Integrator, Simulation
from impinge.world.world import ALL_GROUPS, World

__all__ = ["SceneFile", "SceneBody", "SceneMotion", "read_scene"]

ENDING = ".toml"
MOST_BODIES = 10_000
REFERRING_ENDINGS = (".gltf",)
"""Formats that name further files, which the digest of a scene would miss."""

_ROUNDS = count(0, 8)
"""Subdivisions of a sphere: 20 · 4^8 is more than a million triangles."""
_AROUND, _CELLS = count(3, 1000), count(1, 1000)
_THREE_CELLS = several(3, _CELLS, "3 whole numbers from 1 to 1,000")
_SIZE_2, _SIZE_3 = (either(POSITIVE, several(n, POSITIVE, ""), f"a positive number, or {n} of them") for n in (2, 3))

SHAPES: dict[str, tuple[Callable[..., TriMesh | TetMesh], dict[str, Value]]] = {
    "icosphere": (partial(shapes.icosphere, subdivisions=3), {"subdivisions": _ROUNDS, "radius": POSITIVE}),
    "uv_sphere": (partial(shapes.uv_sphere, nu=24, nv=16), {"nu": _AROUND, "nv": _AROUND, "radius": POSITIVE}),
    "bumpy_sphere": (
        partial(shapes.bumpy_sphere, subdivisions=3),
        {"subdivisions": _ROUNDS, "radius": POSITIVE, "amplitude": NOT_NEGATIVE, "frequency": POSITIVE},
    ),
    "box": (shapes.box, {"size": _SIZE_3, "cells": _THREE_CELLS}),
    "torus_knot": (
        partial(shapes.torus_knot, p=2, q=3, rings=200, sides=16),
        {"p": count(1, 50), "q": count(1, 50), "rings": _AROUND, "sides": _AROUND}
        | dict.fromkeys(("major_radius", "minor_radius", "tube_radius"), POSITIVE),
    ),
    "cloth_grid": (partial(shapes.cloth_grid, nx=20, ny=20), {"nx": _CELLS, "ny": _CELLS, "size": _SIZE_2}),
    "tet_box": (
        partial(shapes.tet_box, nx=4, ny=4, nz=4, size=1.0),
        {**dict.fromkeys(("nx", "ny", "nz"), count(1, 100)), "size": _SIZE_3},
    ),
    "tet_tube": (
        partial(shapes.tet_tube, n_r=2, n_theta=16, n_z=16),
        {"n_r": count(1, 20), "n_theta": count(3, 400), "n_z": count(3, 400)}
        | dict.fromkeys(("inner_radius", "outer_radius", "length"), POSITIVE),
    ),
}
"""Functions of ``mesh.shapes`` and their keys; the limits bound the memory that a short file can request."""

_NEVER = Value("", lambda value: value == "never", lambda _: None)
SIMULATION = {
    "gravity": VECTOR, "dt": POSITIVE, "integrator": text(*INTEGRATORS), "response": text("contact", *SEARCHES),
    "stiffness": POSITIVE, "contact_distance": POSITIVE, "restitution": number(least=0.0, most=1.0),
    "max_tests": count(1, 2**62),
    "budget_ms": POSITIVE, "target_ms": POSITIVE, "damping": NOT_NEGATIVE, "modal_damping": NOT_NEGATIVE,
    "friction": NOT_NEGATIVE, "sleep_after": either(POSITIVE, _NEVER, f"{POSITIVE.expected}, or \"never\""),
}  # fmt: skip
"""Keys of the table [simulation], options of ``Simulation``; ``ground`` is a height or a plane."""
COARSE = {
    "coarse_faces": count(4, 100_000), "cells": count(1, 100), "mesh_size": POSITIVE,
    "method": text("auto", "netgen", "cubes"),
}  # fmt: skip
"""Keys of ``soft`` for surfaces, options of ``SoftBody.from_surface``."""
RIGID = {"density": POSITIVE, "velocity": VECTOR, "angular_velocity": VECTOR}
"""Keys of ``rigid``."""


@dataclass(frozen=True)
class SceneMotion:
    """Scripted motion: constant velocity and spin from ``begin`` to ``end``, or frames on disk."""

    velocity: Floats
    spin: Floats
    """Axis times angular speed [rad/s]."""
    about: Floats
    """A point on the initial axis."""
    begin: float = 0.0
    end: float = math.inf
    frames: str | None = None
    """Source of a ``Sequence``."""
    rate: float = 30.0
    """Frames per second."""

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
    """Whether equal vertices of the file are merged."""
    placement: Floats
    """Pose: scale, rotation and position as a 4x4 matrix."""
    fixed: bool
    group: int
    collides_with: int
    soft: Mapping[str, Any] | None
    """Options of ``SoftBody``, None for a body that is not soft."""
    rigid: Mapping[str, Any] | None
    """Values of ``RIGID``, None for a body that is not rigid."""
    motion: SceneMotion | None
    _make: Callable[[], TriMesh | TetMesh] = field(repr=False)
    _place: str = field(repr=False)

    def load(self) -> TriMesh | TetMesh:
        """The posed mesh, new."""
        with _error_prefix(self._place):
            body = self._make()
            body.update(transform_points(self.placement, body.vertices))
            return body

    def make(self) -> TriMesh | TetMesh | SoftBody:
        """The body for a world: the mesh, or a soft or rigid body made of it."""
        mesh = self.load()
        if self.rigid is not None:
            values = dict(self.rigid)
            density = {"density": values.pop("density")} if "density" in values else {}
            with _error_prefix(self._place):
                rigid = RigidBody(mesh, **density)
                for name, value in values.items():
                    setattr(rigid, name, value)
                return rigid
        if self.soft is None:
            return mesh
        options = dict(self.soft)
        hold, velocity = options.pop("hold", None), options.pop("velocity", None)
        with _error_prefix(self._place):
            if isinstance(mesh, TetMesh):
                for key in COARSE.keys() & options.keys():
                    raise OptionError(f"soft.{key} is for surfaces, but this body has tets; remove it")
                body = SoftBody(mesh.surface, mesh, **options)
            else:
                body = SoftBody.from_surface(mesh, **options)
            if hold is not None:
                held = (body.coarse.vertices - hold["point"]) @ np.array(hold["normal"]) >= 0.0
                if not held.any():
                    raise OptionError("soft.hold holds no vertex, expected a plane with some of the body beyond it")
                body.fix(held)
            if velocity is not None:
                body.velocities = np.tile(velocity, (len(body.velocities), 1))
            return body


@contextlib.contextmanager
def _error_prefix(place: str) -> Iterator[None]:
    """Prefix errors with their place in the file."""
    try:
        yield
    except ImpingeError as error:
        if str(error).startswith(place):
            raise
        raise OptionError(f"{place}: {error}") from error


@dataclass(frozen=True, eq=False)
class SceneFile:
    """The content of a scene file."""

    path: Path
    title: str
    bodies: tuple[SceneBody, ...]
    options: Mapping[str, Any]
    """Options of ``Simulation``."""
    ignored: tuple[tuple[str, str], ...]

    def world(self) -> World:
        """A world of new bodies."""
        world = World()
        for body in self.bodies:
            made = body.make()
            world.add(made, name=body.name, fixed=body.fixed, group=body.group, collides_with=body.collides_with)
        for first, second in self.ignored:
            world.ignore(first, second)
        return world

    def simulation(
        self,
        *,
        target_ms: float | None = None,
        integrator: Integrator | None = None,
        response: Response | None = None,
        budget_ms: float | None = None,
        max_tests: int | None = None,
    ) -> Simulation:
        """A simulation of all bodies with their motions.

        ``target_ms`` limits the time of a frame, unless the file limits the searches; the other options replace those
        of the file.
        """
        options = dict(self.options)
        given = {"integrator": integrator, "response": response, "budget_ms": budget_ms, "max_tests": max_tests}
        chosen = {name: value for name, value in given.items() if value is not None}
        limits = {"target_ms", "budget_ms", "max_tests"}
        if chosen.keys() & limits:
            options = {name: value for name, value in options.items() if name not in limits}
        elif not options.keys() & limits:
            options["target_ms"] = target_ms
        options |= chosen
        simulation = Simulation(self.world(), **options)
        for body in self.bodies:
            if body.motion is not None and body.motion.frames is not None:
                simulation.script(body.name, Sequence(body.motion.frames), rate=body.motion.rate)
            elif body.motion is not None:
                simulation.script(body.name, body.motion)
        return simulation

    @property
    def needs_simulation(self) -> bool:
        """Whether a body is soft or rigid, or follows frames on disk."""
        return any(
            body.soft is not None or body.rigid is not None or (body.motion and body.motion.frames)
            for body in self.bodies
        )

    def scene(self) -> Scene:
        """The meshes and their motions as a ``Scene``; soft and rigid bodies stay as they are."""
        motions = tuple(body.motion for body in self.bodies)

        def move(rest: tuple[Floats, ...], t: float) -> tuple[Floats | None, ...]:
            transforms = [None if motion is None or motion.frames else motion(t) for motion in motions]
            return tuple(None if m is None else x @ m[:3, :3].T + m[:3, 3] for x, m in zip(rest, transforms))

        moves = any(motion is not None for motion in motions)
        return Scene(self.path.stem, self.title, lambda: [body.load() for body in self.bodies], move if moves else None)

    def digest(self) -> str:
        """SHA-256 of the file and its meshes, and of names and sizes of frames."""
        found = hashlib.sha256(_bytes_of(self.path))
        for body in self.bodies:
            if body.file is not None:
                found.update(_bytes_of(body.file))
            if body.motion is not None and body.motion.frames is not None:
                for file in _frame_files(body.motion.frames):
                    found.update(f"{file.name} {file.stat().st_size}\n".encode(errors="surrogateescape"))
        return found.hexdigest()


def read_scene(path: str | os.PathLike[str]) -> SceneFile:
    """Read a scene file (.toml). Meshes are loaded later, by ``world``, ``simulation`` or ``SceneBody.load``.

    Raises
    ------
    FileError
        If the file cannot be read or is not TOML.
    OptionError
        If a key is unknown, missing or has a wrong value; the message names it.
    """
    path = as_path(path, "path", "the path of a scene file, like 'scene.toml'")
    keys = Keys.read(path)
    title = keys.take("title", TEXT, path.stem)
    tables = list(keys.tables("body"))
    if not 1 <= len(tables) <= MOST_BODIES:
        raise OptionError(f"{path}: there are {len(tables)} tables [[body]], expected 1 to {MOST_BODIES:,}")
    bodies: list[SceneBody] = []
    taken: set[str] = set()
    for each in tables:
        bodies.append(_body(each, path, len(bodies), taken))
        taken.add(bodies[-1].name)
    ignored = keys.pairs("ignore", [body.name for body in bodies])
    options = _simulation(keys.table("simulation"))
    keys.end()
    return SceneFile(path, title, tuple(bodies), MappingProxyType(options), ignored)


def _simulation(keys: Keys) -> dict[str, Any]:
    options = keys.given(SIMULATION)
    if keys.has("ground", dict):
        plane = _table(keys, "ground", {"point": VECTOR, "normal": DIRECTION})
        options["ground"] = plane["point"], plane["normal"]
    else:
        options |= keys.given({"ground": NUMBER})
    if "target_ms" in options and options.keys() & {"budget_ms", "max_tests"}:
        raise keys.wrong("target_ms", options["target_ms"], "it without budget_ms and max_tests, which it controls")
    if options.keys() >= {"budget_ms", "max_tests"}:
        raise keys.wrong("budget_ms", options["budget_ms"], "it without max_tests; choose one of both")
    keys.end()
    return options


def _table(keys: Keys, key: str, known: dict[str, Value]) -> dict[str, Any]:
    """A table with all of these keys; empty if there is no such table."""
    if not keys.has(key):
        return {}
    table = keys.table(key)
    found = {name: table.take(name, value) for name, value in known.items()}
    table.end()
    return found


def _body(keys: Keys, path: Path, position: int, taken: set[str]) -> SceneBody:
    file, weld, make, default = _mesh(keys)
    name = keys.take("name", TEXT, default if default not in taken else f"{default} {position}")
    if not name or name in taken:
        raise keys.wrong("name", name, "a name that no other body has")
    turn = _table(keys, "rotation", {"axis": DIRECTION, "degrees": NUMBER})
    placement = np.eye(4)
    if turn:
        placement[:3, :3] = rotation(np.array(turn["axis"]), math.radians(turn["degrees"]))
    placement[:3, :3] *= keys.take("scale", POSITIVE, 1.0)
    placement[:3, 3] = keys.take("position", VECTOR, (0.0, 0.0, 0.0))
    soft = _soft_options(keys.table("soft")) if keys.has("soft") else None
    rigid = _rigid_options(keys.table("rigid")) if keys.has("rigid") else None
    motion = _motion(keys.table("motion"), placement[:3, 3]) if keys.has("motion") else None
    if soft is not None and rigid is not None:
        raise keys.wrong("rigid", "there", "either soft or rigid; leave one of both out")
    if soft is not None and motion is not None:
        raise keys.wrong("motion", "there", "no motion of a soft body; leave one of both out")
    if rigid is not None and motion is not None:
        raise keys.wrong("motion", "there", "no motion of a rigid body; leave one of both out")
    moves = motion is not None or soft is not None or rigid is not None
    fixed = keys.take("fixed", FLAG, not moves)
    if fixed and moves:
        raise keys.wrong("fixed", True, "false for a body that moves; leave it out")
    group = keys.take("group", count(1, ALL_GROUPS), 1)
    collides_with = keys.take("collides_with", count(0, ALL_GROUPS), ALL_GROUPS)
    keys.end()
    place = f"{path}: body[{position}] ({name})"
    return SceneBody(name, file, weld, placement, fixed, group, collides_with, soft, rigid, motion, make, place)


def _mesh(keys: Keys) -> tuple[Path | None, bool | Literal["auto"], Callable[[], TriMesh | TetMesh], str]:
    """The file if there is one, whether to weld it, a function that makes the mesh, and its default name."""
    if keys.has("file") == keys.has("shape"):
        raise keys.wrong("file", "there" if keys.has("file") else "missing", "either file or shape, and not both")
    if keys.has("file"):
        file = keys.file("file")
        if file.name.lower().removesuffix(".gz").endswith(REFERRING_ENDINGS):
            raise keys.wrong("file", file.name, "a format that is one file, such as .glb; convert it")
        weld = keys.take("weld", FLAG, "auto")
        return file, weld, lambda: load(file, weld=weld), file.stem
    table = keys.table("shape")
    kind = table.take("kind", text(*SHAPES))
    build, known = SHAPES[kind]
    options = table.given(known)
    table.end()
    return None, "auto", lambda: build(**options), kind


def _soft_options(keys: Keys) -> dict[str, Any]:
    preset = MATERIALS[keys.take("material", text(*MATERIALS), "rubber")]
    known = {"youngs_modulus": POSITIVE, "poisson_ratio": NUMBER, "density": POSITIVE}
    constants = {name: keys.take(name, value, getattr(preset, name)) for name, value in known.items()}
    options = keys.given({
        **COARSE, "model": text(*MODELS), "elements": text(*ELEMENTS), "embedding": text(*EMBEDDINGS),
        "velocity": VECTOR,
    })  # fmt: skip
    try:
        options["material"] = Material(**constants)
    except OptionError as error:
        raise keys.wrong("poisson_ratio", constants["poisson_ratio"], str(error)) from error
    options["hold"] = _table(keys, "hold", {"normal": DIRECTION, "point": VECTOR}) or None
    keys.end()
    return options


def _rigid_options(keys: Keys) -> dict[str, Any]:
    options = keys.given(RIGID)
    keys.end()
    return options


def _motion(keys: Keys, position: Floats) -> SceneMotion:
    zero = np.zeros(3)
    if keys.has("frames"):
        source = keys.file("frames")
        name = str(source)
        if not source.exists():  # a pattern, but not in the name of the folder
            if source.relative_to(keys.folder).parts.count("**") > 1:  # would take exponential time in deep folders
                raise keys.wrong("frames", source.name, "a pattern with one ** at most")
            name = os.path.join(glob.escape(str(keys.folder)), str(source.relative_to(keys.folder)))  # noqa: PTH118
        for file in _frame_files(name):
            keys.inside("frames", str(file.relative_to(keys.folder)))
        rate = keys.take("rate", POSITIVE, 30.0)
        keys.end()
        return SceneMotion(zero, zero, zero, frames=name, rate=rate)
    velocity = np.array(keys.take("velocity", VECTOR, (0.0, 0.0, 0.0)))
    about = np.array(keys.take("about", VECTOR, tuple(position)))
    turn = _table(keys, "spin", {"axis": DIRECTION, "degrees_per_second": NUMBER})
    spin = zero
    if turn:
        axis = np.array(turn["axis"])
        spin = math.radians(turn["degrees_per_second"]) * axis / np.linalg.norm(axis)
    begin = keys.take("begin", NOT_NEGATIVE, 0.0)
    end = keys.take("end", number(least=begin), math.inf)
    keys.end()
    return SceneMotion(velocity, spin, about, begin, end)


def _bytes_of(file: Path) -> bytes:
    """The content of a regular file; a pipe would block."""
    try:
        if file.is_file():
            return file.read_bytes()
        reason = "no regular file"
    except OSError as error:
        reason = error.strerror or str(error)
    raise FileError(f"{file} cannot be read ({reason}); check the path")


def _frame_files(source: str) -> list[Path]:
    """Files of a sequence."""
    path = Path(source)
    return [path] if path.suffix.lower() == ".npz" else frame_files(path, source)
