# ruff: noqa: PLW0108 - each entry makes a new value
"""Hostile arguments for every public callable, run in child processes with limits.

1. Targets  ``impinge.__all__`` and the public methods and options of its classes, by introspection. ``VALID`` and
            ``RECEIVERS`` supply one valid call for each, of small bodies.
2. Cases    Number i of a seed takes one target and replaces one or two of its arguments, optional ones included, by
            hostile values: wrong types, NaN, huge numbers, arrays of wrong shape or dtype, masked and object arrays,
            generators, objects whose methods raise, and damaged copies of the valid argument.
3. Verdict  A call may return, or raise ``ImpingeError``. Anything else is a finding, and so is a return where a flag
            got what is neither True nor False, or a word an array.
4. Limits   Each case has ``CPU_SECONDS`` of processor time, each child ``MEMORY`` bytes of data. A child that dies ends
            with a finding for its case; the next child goes on behind it.

``python tests/fuzz/hostile_calls.py SEED FIRST LAST`` runs cases and prints a line for each finding.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import impinge

CPU_SECONDS = 10.0
MEMORY = 2 << 30
SILENCE = 300.0
"""Seconds of wall time without a finished case after which a child counts as hanging: it may wait without computing."""

# valid calls --------------------------------------------------------------------------------------------


def _box() -> impinge.TriMesh:
    return impinge.shapes.box(1.0)


def _other() -> impinge.TriMesh:
    return impinge.shapes.box(1.0, center=(0.5, 0.25, 0.25))


def _tets() -> impinge.TetMesh:
    return impinge.shapes.tet_box(1, 1, 1)


def _apart() -> impinge.TriMesh:
    return impinge.shapes.box(0.5, center=(3.0, 0.0, 0.0))


def _soft() -> impinge.SoftBody:
    return impinge.SoftBody(_box(), _tets())


def _world() -> impinge.World:
    world = impinge.World()
    world.add(_box(), name="a")
    world.add(_other(), name="b")
    return world


def _soft_world() -> impinge.World:
    world = impinge.World()
    world.add(_soft(), name="a")
    world.add(_other(), name="b")
    return world


@functools.cache
def _hierarchy() -> impinge.SphereHierarchy:
    return impinge.build_spheres(_box(), levels=1, samples=50)


@functools.cache
def _files() -> Path:
    """A folder with a mesh, a sequence and a scene."""
    folder = Path(tempfile.mkdtemp(prefix="hostile", dir=Path.cwd()))
    impinge.save(_box(), folder / "box.ply")
    (folder / "frames").mkdir()
    for k in range(2):
        impinge.save(_box(), folder / "frames" / f"{k}.ply")
    (folder / "parts").mkdir()
    impinge.save(_box(), folder / "parts" / "a.ply")
    impinge.save(_other(), folder / "parts" / "b.ply")
    (folder / "scene.toml").write_text(
        '[[body]]\nname = "a"\nfile = "box.ply"\n[[body]]\nname = "b"\nshape = { kind = "box" }\n'
    )
    _hierarchy().save(folder / "spheres.npz")
    _soft().save(folder / "soft.npz")
    impinge.RigidBody(_box()).save(folder / "rigid.npz")
    impinge.Simulation(_soft_world()).save(folder / "state.npz")
    return folder


def _points() -> np.ndarray:
    return np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [5.0, 5.0, 5.0]])


VALID: dict[str, Callable[[], Any]] = {
    "a": _box,
    "b": _other,
    "surface": _box,
    "mesh": _box,
    "body": _box,
    "coarse": _tets,
    "world": _soft_world,
    "bodies": lambda: [_tets(), _tets()],
    "parts": lambda: [_box(), _other()],
    "points": _points,
    "positions": _points,
    "margin": lambda: 0.1,
    "direction": lambda: (1.0, 0.0, 0.0),
    "vertices": lambda: np.array(_box().vertices),
    "faces": lambda: np.array(_box().faces),
    "tets": lambda: np.array(_tets().tets),
    "ids": lambda: [0],
    "material": lambda: "rubber",
    "rest": lambda: np.array(_tets().vertices),
    "coarse_rest": lambda: np.array(_tets().vertices),
    "dense_rest": lambda: np.array(_box().vertices),
    "surface_vertex_ids": lambda: np.arange(8),
    "x": lambda: np.array(_tets().vertices),
    "v": lambda: np.zeros((8, 3)),
    "matrix": lambda: np.eye(4),
    "transforms": lambda: np.eye(4)[None].repeat(2, axis=0),
    "path": lambda: _files() / "box.ply",
    "source": lambda: str(_files() / "frames" / "*.ply"),
    "found": lambda: impinge.triangle_pairs(_box(), _other()),
    "level": lambda: 0,
    "node": lambda: 0,
    "edge": lambda: 0.5,
    "dt": lambda: 1e-3,
    "duration": lambda: 1e-3,
    "seconds": lambda: 0.02,
    "name": lambda: "a",
    "stiffness": lambda: 10.0,
    "count": lambda: 2,
    "axis": lambda: 2,
    "u": lambda: np.linspace(-1.0, 1.0, 4),
    "i": lambda: 0,
    "loop": lambda: 0,
    "which": lambda: [0],
    "velocities": lambda: np.zeros((1, 3)),
    "gravity": lambda: (0.0, 0.0, -9.81),
    "forces": lambda: None,
    "budget_ms": lambda: 1.0,
    "trees": lambda: [impinge.SphereTree(_box(), _other())],
    "center": lambda: (0.0, 0.0, 0.0),
    "radius": lambda: 1.0,
    "heights": lambda: np.zeros((3, 3)),
    "corner": lambda: (-1.0, -1.0, -1.0),
    "cell": lambda: 1.0,
    "nx": lambda: 2,
    "ny": lambda: 2,
    "nz": lambda: 2,
    "nu": lambda: 6,
    "nv": lambda: 4,
    "subdivisions": lambda: 1,
    "youngs_modulus": lambda: 1e5,
    "poisson_ratio": lambda: 0.3,
    "density": lambda: 1000.0,
    "motion": lambda: lambda _: np.array(_other().vertices),
    "damping": lambda: 1.0,
    "n_r": lambda: 1,
    "n_theta": lambda: 4,
    "n_z": lambda: 2,
    "p": lambda: 2,
    "q": lambda: 3,
    "rings": lambda: 12,
    "sides": lambda: 4,
    "rate": lambda: 30.0,
    "transform_b": lambda: None,
    "frames": lambda: str(_files() / "frames" / "*.ply"),
    "start": lambda: np.zeros((2, 4, 3)),
    "end": lambda: np.ones((2, 4, 3)),
    "end_a": lambda: np.array(_box().vertices) + 0.1,
    "end_b": lambda: None,
    "transform_a": lambda: None,
    "ends": lambda: {"a": np.array(_box().vertices) + 0.1},
}
"""Valid arguments by the name of the parameter; for parameters without a default, and to damage."""

OVERRIDES: dict[tuple[str, str], Callable[[], Any]] = {
    **{(f"SimulatedContacts.{name}", "number"): lambda: 0 for name in ("vertex_forces", "vertex_areas", "pressure")},
    ("contacts_from_spheres", "found"): lambda: impinge.sphere_contacts(_box(), _other()),
    ("contacts_from_vertices", "found"): lambda: impinge.penetrating_vertices([_box(), _other()], depth=True),
    ("contacts_from_volume", "found"): lambda: impinge.volume_gradient(_box(), _other()),
    ("penalty", "contacts"): lambda: impinge.sphere_contacts(_box(), _other()),
    ("penalty", "vertices_a"): lambda: np.array(_box().vertices),
    ("penalty", "vertices_b"): lambda: np.array(_other().vertices),
    ("save", "path"): lambda: _files() / "written.ply",
    ("read_scene", "path"): lambda: _files() / "scene.toml",
    ("runs.map_frames", "b"): lambda: None,
    ("TriMesh.add_triangles", "vertices"): lambda: None,
    ("TetMesh", "vertices"): lambda: np.array(_tets().vertices),
    ("TetMesh.update", "vertices"): lambda: np.array(_tets().vertices),
    ("Cloth", "surface"): lambda: impinge.shapes.cloth_grid(2, 2),
    ("SoftBody.from_surface", "cells"): lambda: 2,
    ("SoftBody.from_surface", "method"): lambda: "cubes",
    ("SoftBody.load", "path"): lambda: _files() / "soft.npz",
    ("SoftBody.save", "path"): lambda: _files() / "soft2.npz",
    ("RigidBody.load", "path"): lambda: _files() / "rigid.npz",
    ("RigidBody.save", "path"): lambda: _files() / "rigid2.npz",
    ("RigidBody.advance", "x"): lambda: np.array(impinge.RigidBody(_box()).coarse.vertices),
    ("RigidBody.advance", "v"): lambda: np.zeros((4, 3)),
    ("RigidBody.step", "forces"): lambda: np.zeros((4, 3)),
    ("SphereHierarchy.load", "path"): lambda: _files() / "spheres.npz",
    ("SphereHierarchy.save", "path"): lambda: _files() / "spheres2.npz",
    ("SphereHierarchy.level_of", "node"): lambda: 1,
    ("Simulation.save", "path"): lambda: _files() / "state2.npz",
    ("Simulation.restore", "path"): lambda: _files() / "state.npz",
    ("Simulation.script", "name"): lambda: "b",
    ("SoftBody.restore", "coarse"): lambda: np.array(_tets().vertices),
    ("SoftBody.restore", "surface"): lambda: np.array(_box().vertices),
    ("SoftBody.restore", "frames"): lambda: _soft().embedding.frames,
    ("SoftBody.restore", "velocities"): lambda: np.zeros((8, 3)),
    ("SoftBody.restore", "time"): lambda: 0.0,
    ("SoftBody.steered_by", "coarse"): lambda: np.array(_tets().vertices),
    ("SoftBody.driven", "coarse"): lambda: np.array(_tets().vertices),
    ("Simulation.dt=", "value"): lambda: 1e-3,
    ("World.ignore", "a"): lambda: "a",
    ("World.ignore", "b"): lambda: "b",
    ("World.ignores", "a"): lambda: "a",
    ("World.ignores", "b"): lambda: "b",
    ("World.update", "vertices"): lambda: np.concatenate([_box().vertices, _other().vertices]),
    ("World.add", "name"): lambda: "c",
    ("Sphere.crossings", "v"): lambda: np.linspace(-1.0, 1.0, 4),
    ("HeightField.crossings", "v"): lambda: np.linspace(-1.0, 1.0, 4),
    ("Barycentric.differential", "vertices"): lambda: np.array([0, 1], dtype=np.int32),
    ("RigidLinks.differential", "vertices"): lambda: np.array([0, 1], dtype=np.int32),
    ("Barycentric.steer", "coarse"): lambda: np.array(_tets().vertices),
    ("RigidLinks.steer", "coarse"): lambda: np.array(_tets().vertices),
    ("GreenStrain.step_within", "stiffness"): lambda: 1.0,
    ("scenes.get", "name"): lambda: "crossed_tets",
    ("build_spheres", "levels"): lambda: 1,
    ("safe_step", "b"): _apart,
    ("build_spheres", "samples"): lambda: 50,
}
"""Valid arguments of one callable: (name, parameter)."""


def _pairs() -> impinge.TrianglePairs:
    return impinge.triangle_pairs(_box(), _other())


RECEIVERS: dict[str, Callable[[], Any]] = {
    "Cloth": lambda: impinge.Cloth(impinge.shapes.cloth_grid(2, 2)),
    "SoftBody": _soft,
    "RigidBody": lambda: impinge.RigidBody(_box()),
    "Contacts": lambda: impinge.contacts_from_pairs(_pairs()),
    "VolumeGradient": lambda: impinge.volume_gradient(_box(), _other(), resolution=8),
    "VolumeGradients": lambda: impinge.VolumeGradients(_box(), _other(), resolution=8),
    "Barycentric": lambda: impinge.Barycentric(_tets().vertices, _tets().tets, _box().vertices),
    "Corotated": lambda: impinge.Corotated(_tets().vertices, _tets().tets, "rubber"),
    "GreenStrain": lambda: impinge.GreenStrain(_tets().vertices, _tets().tets, "rubber"),
    "StableNeoHookean": lambda: impinge.StableNeoHookean(_tets().vertices, _tets().tets, "rubber"),
    "RigidLinks": lambda: impinge.RigidLinks(_tets().vertices, np.arange(8), _box().vertices),
    "BoxTree": lambda: impinge.BoxTree(_box(), _other()),
    "ContinuousTree": lambda: impinge.ContinuousTree(_box(), _apart()),
    "Impacts": lambda: impinge.impacts(_box(), _other(), end_a=np.array(_box().vertices) + 0.1),
    "PrimitiveImpacts": lambda: impinge.vertex_face_impacts(np.zeros((2, 4, 3)), np.ones((2, 4, 3))),
    "SafeStep": lambda: impinge.safe_step(_box(), _apart(), end_a=np.array(_box().vertices) + 0.1),
    "WorldImpacts": lambda: _world().impacts({"a": np.array(_box().vertices) + 0.1}),
    "BreadthFirst": lambda: impinge.BreadthFirst(_box(), _other()),
    "BruteForce": lambda: impinge.BruteForce(_box(), _other()),
    "GjkCut": lambda: impinge.GjkCut(_box(), _other()),
    "ClosestPoints": lambda: impinge.closest_points(_box(), _points()),
    "Curves": lambda: impinge.intersection_curves(_box(), _other()),
    "Distance": lambda: impinge.distance(_box(), _other()),
    "EdgeCrossings": lambda: impinge.edge_crossings(_box(), _other()),
    "HullDistance": lambda: impinge.hull_distance(_box(), _other()),
    "Proximity": lambda: impinge.proximity(_box(), _other(), margin=0.1),
    "EdgeContacts": lambda: impinge.penetrating_vertices([_box(), _other()], edges=True).edges,
    "TrianglePairs": _pairs,
    "VertexContacts": lambda: impinge.penetrating_vertices([_box(), _other()], depth=True),
    "LayeredDepth": lambda: impinge.LayeredDepth(_box(), _other(), resolution=8),
    "HeightField": lambda: impinge.HeightField(np.zeros((3, 3)), (-1.0, -1.0, -1.0), 1.0),
    "Sphere": lambda: impinge.Sphere((0.0, 0.0, 0.0), 1.0),
    "VolumeOverlap": lambda: impinge.overlap_volume(_box(), _other(), resolution=8),
    "SpatialHash": lambda: impinge.SpatialHash([_tets(), _tets()]),
    "SphereContacts": lambda: impinge.sphere_contacts(_box(), _other()),
    "SphereTree": lambda: impinge.SphereTree(_box(), _other()),
    "SphereHierarchy": _hierarchy,
    "Sequence": lambda: impinge.Sequence(str(_files() / "frames" / "*.ply")),
    "TetMesh": _tets,
    "TriMesh": _box,
    "ValidationReport": lambda: impinge.validate(_box()),
    "Report": lambda: impinge.check(_box(), _other()),
    "SceneFile": lambda: impinge.read_scene(_files() / "scene.toml"),
    "Particles": lambda: impinge.Particles(_points()),
    "Simulation": lambda: impinge.Simulation(_soft_world()),
    "SimulatedContacts": lambda: impinge.Simulation(_soft_world()).step().contacts,
    "World": _world,
    "WorldPairs": lambda: _world().pairs(),
    "Material": lambda: impinge.Material(1e5, 0.3, 1000.0),
}
"""Objects whose methods are called, by class."""

LEFT_OUT = {
    "show": "opens a browser",
    "plot": "draws, for seconds",
    "find": "takes options that the package has checked",
    "any_found": "takes options that the package has checked",
    "looks": "takes objects of the package",
    "overlap": "takes objects of the package",
    "solids": "takes options that the package has checked",
    "structure": "calls what it is given",
    "warmup": "compiles for a minute",
    "Cloth.save": "always raises",
    "Cloth.from_surface": "always raises",
    "Cloth.load": "always raises",
    "RigidBody.build": "takes mass properties that the package has computed",
    "RigidBody.spin_of": "takes velocities that the simulation has computed",
    "RigidBody.from_surface": "always raises",
    "RigidBody.fix": "always raises",
    "RigidBody.move": "always raises",
    "VolumeGradient.changes": "always raises",
    "Distance.changes": "always raises",
    "HullDistance.changes": "always raises",
    "Particles.check": "takes the state of a file",
    "Particles.move": "takes the state of a simulation",
    "Particles.restore": "takes the state of a file",
}
"""Methods and names that are not called, and why."""


PUBLIC_BASES = (impinge.SoftBody,)
"""Classes whose methods are called on themselves alone, not again on their children."""


class Target(NamedTuple):
    """A public callable: its name, the class whose object it is called on, and its parameters."""

    name: str
    receiver: str | None
    parameters: tuple[inspect.Parameter, ...]

    def function(self) -> Callable[..., Any]:
        """The callable, bound to a new receiver if it is a method."""
        attribute = self.name.rpartition(".")[2]
        if self.receiver is None:
            owner: Any = impinge
            for part in self.name.split(".")[:-1]:
                owner = getattr(owner, part)
            return getattr(owner, attribute)  # type: ignore[no-any-return]
        receiver = RECEIVERS[self.receiver]()
        if attribute.endswith("="):
            return lambda value: setattr(receiver, attribute[:-1], value)
        return getattr(receiver, attribute)  # type: ignore[no-any-return]

    def valid(self, parameter: inspect.Parameter) -> Any:
        """A valid argument, or the default; of an option, its value, and of a comparison, the object itself."""
        if self.receiver is not None and parameter.name in ("value", "previous"):
            receiver = RECEIVERS[self.receiver]()
            return receiver if parameter.name == "previous" else getattr(receiver, self.name.split(".")[1][:-1])
        made = OVERRIDES.get((self.name, parameter.name))
        if made is None and parameter.default is inspect.Parameter.empty:
            made = VALID[parameter.name]
        return parameter.default if made is None else made()


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind not in fixed and p.name not in ("self", "cls")
    )


def _members(name: str, kind: type) -> Iterator[Target]:
    for member in dir(kind):
        static = inspect.getattr_static(kind, member)
        if member.startswith("_") or member in LEFT_OUT or f"{name}.{member}" in LEFT_OUT:
            continue
        if member not in vars(kind) and any(member in vars(base) for base in kind.__mro__ if base in PUBLIC_BASES):
            continue  # attacked there
        if isinstance(static, classmethod):
            yield Target(f"{name}.{member}", None, _parameters(static.__func__))
        elif inspect.isfunction(static):
            yield Target(f"{name}.{member}", name, _parameters(static))
        elif (isinstance(static, property) and static.fset) or type(static).__name__ == "Option":
            value = inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY)
            yield Target(f"{name}.{member}=", name, (value,))


@functools.cache
def targets() -> tuple[Target, ...]:
    """All public callables with a parameter to attack."""
    found: list[Target] = []
    for name in impinge.__all__:
        value = getattr(impinge, name)
        if inspect.ismodule(value):
            for inner in getattr(value, "__all__", None) or dir(value):
                function = getattr(value, inner)
                is_own = inspect.isfunction(function) and function.__module__.startswith(value.__name__)
                if is_own and not inner.startswith("_"):
                    found.append(Target(f"{name}.{inner}", None, _parameters(function)))
        elif inspect.isfunction(value):
            found.append(Target(name, None, _parameters(value)))
        elif inspect.isclass(value) and not issubclass(value, Exception | Enum | tuple):
            is_record = is_dataclass(value) and name not in ("Material", "Sphere", "HeightField")
            if not is_record:
                found.append(Target(name, None, _parameters(value)))
            found.extend(_members(name, value))
    return tuple(target for target in found if target.parameters and target.name not in LEFT_OUT)


# hostile values -----------------------------------------------------------------------------------------


class Trap:
    """An object all of whose methods raise."""

    def _spring(self, *_: object) -> Any:
        raise RuntimeError("trap")

    __array__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = __index__ = __eq__ = __repr__ = _spring  # type: ignore[assignment]
    __getitem__ = __str__ = __fspath__ = _spring  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Liar(list):  # type: ignore[type-arg]
    """A list with a false length."""

    def __len__(self) -> int:
        return 3


HOSTILE: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: -float("inf"),
    lambda: 1e300,
    lambda: -1e300,
    lambda: 5e-324,
    lambda: -1,
    lambda: 0,
    lambda: 1,
    lambda: 2**31,
    lambda: 2**63,
    lambda: -(2**63),
    lambda: 10**400,
    lambda: 0.5,
    lambda: 1j,
    lambda: True,
    lambda: False,
    lambda: np.bool_(True),
    lambda: np.float32("nan"),
    lambda: np.int64(-1),
    lambda: "",
    lambda: "x",
    lambda: "no",
    lambda: "a\0b",
    lambda: "x" * 5000,
    lambda: b"x",
    lambda: np.str_("x"),
    lambda: Path("/nonexistent/x.ply"),
    lambda: Path(),
    list,
    lambda: (),
    dict,
    lambda: {"x": 1},
    lambda: set(),
    lambda: object(),
    lambda: type,
    lambda: print,
    lambda: (k for k in range(3)),
    lambda: iter(()),
    lambda: [[1, 2, 3], [4, 5]],
    lambda: [None, None],
    lambda: [[0, 1, "x"]],
    lambda: ["x", "y"],
    lambda: Trap(),
    lambda: Liar([1.0]),
    lambda: range(3),
    lambda: slice(None),
    lambda: Ellipsis,
    lambda: np.zeros(0),
    lambda: np.zeros((0, 3)),
    lambda: np.zeros((3, 0)),
    lambda: np.zeros((2, 2)),
    lambda: np.zeros((2, 3, 3)),
    lambda: np.array(1.0),
    lambda: np.array("x"),
    lambda: np.array([True, False]),
    lambda: np.array(["raise", "x"]),
    lambda: np.full((8, 3), np.nan),
    lambda: np.full((8, 3), 1e300),
    lambda: np.full((8, 3), -1),
    lambda: np.full((12, 3), 2**40),
    lambda: np.zeros((8, 3), dtype=complex),
    lambda: np.zeros((8, 3), dtype=object),
    lambda: np.ma.masked_all((8, 3)),
    lambda: np.ma.masked_all(3),
    lambda: np.zeros(3, dtype="datetime64[s]"),
    lambda: np.zeros(3, dtype=[("x", "f8")]),
    lambda: np.zeros((8, 3), dtype="S1"),
    lambda: np.arange(24.0).reshape(8, 3)[::-1],
    lambda: np.broadcast_to(np.float64(0.0), (8, 3)),
    lambda: np.zeros((8, 3), dtype=np.float16),
    lambda: np.asfortranarray(np.zeros((8, 3))),
    lambda: memoryview(b"abcdef"),
    lambda: np.eye(4) * np.nan,
    lambda: np.eye(4) * 1e300,
    lambda: [np.eye(4), None],
    lambda: np.zeros((4, 4)),
    lambda: _box(),
    lambda: _tets(),
    lambda: impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), int)),
    lambda: impinge.TriMesh(np.full((3, 3), 1e300), [[0, 1, 2]]),
    lambda: impinge.TriMesh(np.zeros((3, 3)), [[0, 1, 2]]),
    lambda: (np.full((8, 3), np.nan), _box().faces),
    lambda: (_box().vertices * 1e300, _box().faces),
    lambda: (_box().vertices * 1e-300, _box().faces),
    lambda: _not_finite(_box()),
    lambda: _not_finite(_tets()),
    lambda: threading.Event(),
    lambda: impinge.World(),
    lambda: _pairs(),
    lambda: impinge.Sphere((0.0, 0.0, 0.0), 1e149),
)


def _not_finite(body: Any) -> Any:
    """A body with NaN that ``check=False`` let in."""
    x = np.array(body.vertices)
    x[1] = np.nan
    body.update(x, check=False)
    return body


DAMAGE: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda x: x * 1e300,
    lambda x: x * 1e-300,
    lambda x: x[:0],
    lambda x: x[:-1],
    lambda x: np.concatenate([x, x]),
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x.astype(object),
    lambda x: x.astype(complex),
    lambda x: x.astype("S8"),
    lambda x: np.ma.array(x, mask=np.ones(x.shape, dtype=bool)),
    lambda x: x.astype(np.float32),
    lambda x: x.astype(bool),
    lambda x: np.full(x.shape, np.nan),
    lambda x: np.zeros(x.shape),
    lambda x: x + 2.0**40,
    lambda x: -1 - x,
    lambda x: x[None],
    lambda x: x.tolist(),
    lambda x: iter(x),
    lambda x: np.broadcast_to(x[:1], x.shape),
    lambda x: _with_one(x, np.nan),
    lambda x: _with_one(x, np.inf),
    lambda x: _with_one(x, -1),
    lambda x: _with_one(x, 1e308),
    lambda x: _with_one(x, 2**31),
)
"""Copies of a valid array with damage."""


def _with_one(x: np.ndarray, value: float) -> np.ndarray:
    x = np.array(x, dtype=np.float64)
    x.reshape(-1)[x.size // 2 : x.size // 2 + 1] = value
    return x


@dataclass
class Case:
    """A call with hostile arguments."""

    target: Target
    arguments: dict[str, Any]
    replaced: dict[str, str] = field(default_factory=dict)
    """Names of hostile values, by parameter."""

    def __str__(self) -> str:
        return f"{self.target.name}({', '.join(f'{name}={value}' for name, value in self.replaced.items())})"


def case(seed: int, number: int) -> Case:
    """Case ``number`` of a seed; every target comes equally often."""
    rng = np.random.default_rng([seed, number])
    target = targets()[number % len(targets())]
    hostile: dict[str, tuple[str, Any]] = {}
    for index in rng.permutation(len(target.parameters))[: 1 + (rng.random() < 0.3)]:
        parameter = target.parameters[index]
        value = target.valid(parameter) if rng.random() < 0.3 else None
        if isinstance(value, np.ndarray):
            which = int(rng.integers(len(DAMAGE)))
            hostile[parameter.name] = f"damage {which}", functools.partial(DAMAGE[which], value)
        else:
            which = int(rng.integers(len(HOSTILE)))
            hostile[parameter.name] = f"hostile {which}", HOSTILE[which]
    arguments = {
        p.name: hostile[p.name][1]() if p.name in hostile else target.valid(p)
        for p in target.parameters
        if p.name in hostile or p.default is inspect.Parameter.empty or (target.name, p.name) in OVERRIDES
    }
    return Case(target, arguments, {name: text for name, (text, _) in hostile.items()})


# running ------------------------------------------------------------------------------------------------


def call(target: Target, arguments: dict[str, Any]) -> Any:
    """Call a target; parameters that are positional only go first."""
    first = [arguments[p.name] for p in target.parameters if p.kind is p.POSITIONAL_ONLY]
    rest = {
        p.name: arguments[p.name] for p in target.parameters if p.name in arguments and p.kind is not p.POSITIONAL_ONLY
    }
    result = target.function()(*first, **rest)
    if inspect.isgenerator(result):
        list(result)
    return result


def is_wrongly_accepted(attack: Case) -> str | None:
    """The parameter that took what is no flag for a flag, or an array for a word."""
    for parameter in attack.target.parameters:
        if parameter.name in attack.replaced:
            value = attack.arguments[parameter.name]
            is_flag = parameter.annotation == "bool" or (parameter.annotation == "bool | None" and value is not None)
            if is_flag and not isinstance(value, bool | np.bool_):
                return parameter.name
            if isinstance(parameter.default, str | bool) and isinstance(value, np.ndarray) and value.ndim:
                return parameter.name
    return None


def verdict(attack: Case) -> str | None:
    """What is wrong with the way a call ends; None if nothing is."""
    try:
        call(attack.target, attack.arguments)
    except impinge.ImpingeError:
        return None
    except Exception as error:  # noqa: BLE001 - any other kind is what is looked for
        place = traceback.extract_tb(error.__traceback__)
        inner = [frame for frame in place if "/impinge/" in frame.filename]
        if not inner and isinstance(error, TypeError):
            return None  # Python's own: arguments that do not bind
        where = f"{Path(inner[-1].filename).name}:{inner[-1].lineno}" if inner else "no frame of the package"
        return f"{type(error).__name__} at {where}: {str(error)[:100]!r}"
    accepted = is_wrongly_accepted(attack)
    return f"accepted {accepted}" if accepted else None


def run_child(seed: int, first: int, last: int) -> None:
    """Run cases ``first`` to ``last``; print the number before each, and findings."""
    import resource

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    threads = impinge.thread_count()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in range(first, last):
        out.write(f"case {number}\n")
        attack = case(seed, number)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            wrong = verdict(attack)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        impinge.set_threads(threads)
        impinge.time_stages(False)
        if wrong:
            out.write(f"finding {number} {attack}: {wrong}\n".replace("\n", " ").strip() + "\n")
    out.write("done\n")


@dataclass
class Outcome:
    """What a run of cases found."""

    calls: int = 0
    findings: list[str] = field(default_factory=list)
    """One line each."""

    def summary(self) -> str:
        """Findings by kind, most frequent first."""
        kinds = Counter(line.split(": ", 1)[-1].split(" ")[0] for line in self.findings)
        return f"{self.calls} calls, {len(self.findings)} findings {dict(kinds)}\n" + "\n".join(self.findings[:50])


def run(seed: int, first: int, last: int, folder: Path) -> Outcome:
    """Run cases in children, one after the other, until all are done; a case that kills a child is tried again, alone.

    The first try may have ended in the compiler, which takes seconds for a kernel that no cache holds.
    """
    outcome = Outcome()
    number, retried = first, -1
    while number < last:
        stop = number + 1 if retried == number else last
        reached, status, lines = _child(seed, number, stop, folder)
        outcome.findings += [line.partition(" ")[2] for line in lines if line.startswith("finding")]
        if status == 0:
            number = stop
        elif retried == reached:
            name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
            outcome.findings.append(f"{reached} {case(seed, reached)}: killed by {name}")
            number = reached + 1
        else:
            number = retried = reached
    outcome.calls = last - first
    return outcome


def _child(seed: int, first: int, last: int, folder: Path) -> tuple[int, int, list[str]]:
    """Number of the last case begun, status of the child, and its lines."""
    command = [sys.executable, __file__, str(seed), str(first), str(last)]
    environment = {**os.environ, "PYTHONPATH": str(Path(impinge.__file__).parents[1])}
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    lines: list[str] = []
    reached = first
    clock = threading.Timer(SILENCE, child.kill)
    clock.start()
    with child.stdout:
        for line in child.stdout:
            clock.cancel()
            clock = threading.Timer(SILENCE, child.kill)
            clock.start()
            if line.startswith("case"):
                reached = int(line.split()[1])
            lines.append(line.rstrip("\n"))
    status = child.wait()
    clock.cancel()
    return reached, status, lines


if __name__ == "__main__":
    run_child(*map(int, sys.argv[1:4]))
