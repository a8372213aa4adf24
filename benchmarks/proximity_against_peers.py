"""Nearest points of a deforming body, and which are inside, update included: impinge against what users could install.

Scene      A bumpy sphere of 82k triangles that moves in every frame, and 100k points in its box, widened by a tenth.
Frame      New positions in, distance, nearest point and triangle of every point out. Peers build their tree anew, since
           none of them can refit it. trimesh, which would take minutes, gets every hundredth point only: its ratio is
           lower than it should be.
Inside     A second scene asks for the inside alone. trimesh counts the hits of rays, by Embree in float32 (embreex).
Agreement  The distances of a peer must be ours to 1e-5 of the body's size before its time counts; of a thousand points
           it may have one on the other side of the surface, where float32 cannot tell.
Ours       is timed with the exact test for inside too, which no peer does.
Missing    A peer that is not installed, or does not load here, has a row that says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Row, interleaved
from impinge import queries
from impinge.backend import jit
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

OURS = "impinge"
SUBDIVISIONS, SUBDIVISIONS_QUICK = 6, 3
POINTS, POINTS_QUICK = 100_000, 1_000
FRAMES = 4
ROUNDS, ROUNDS_QUICK = 5, 2
AGREEMENT = 1e-5
AGREEMENT_INSIDE = 1e-3

Distances = Callable[[Floats], Floats]
"""From new positions of the body to the distances of all points, or of points at equal steps."""
Make = Callable[[TriMesh, Floats], Distances]


def run(*, quick: bool = False) -> list[Row]:
    """Time whole frames in turns."""
    body = shapes.bumpy_sphere(SUBDIVISIONS_QUICK if quick else SUBDIVISIONS)
    rest, wave = body.vertices.copy(), Wave(0.05, 4.0, angular_speed=2.0)
    frames = [wave(rest, 0.1 * frame) for frame in range(FRAMES)]
    points = np.random.default_rng(1).uniform(-1.1, 1.1, (POINTS_QUICK if quick else POINTS, 3))
    points *= np.abs(rest).max()
    note = f"{len(points)} points, {len(body.faces)} triangles; ours on {jit.thread_count()} threads"
    rounds = ROUNDS_QUICK if quick else ROUNDS
    nearest = {OURS: _ours(body, points, inside=False), f"{OURS}, inside too": _ours(body, points, inside=True)}
    peers, missing = _peers(_NEAREST, body, points)
    _check(nearest | peers, frames[0])
    turns = {name: _over(step, frames) for name, step in (nearest | peers).items()}
    rows = interleaved("closest points", turns, rounds=rounds, note=note) + _missing("closest points", missing)
    inside = {OURS: _ours_inside(body, points)}
    peers, missing = _peers(_INSIDE, body, points)
    _check_inside(inside | peers, frames[0])
    turns = {name: _over(step, frames) for name, step in (inside | peers).items()}
    return rows + interleaved("points inside", turns, rounds=rounds, note=note) + _missing("points inside", missing)


def _missing(scene: str, peers: dict[str, str]) -> list[Row]:
    return [Row(scene, name, math.nan, math.nan, math.nan, why) for name, why in peers.items()]


def _ours(body: TriMesh, points: Floats, *, inside: bool) -> Distances:
    def step(x: Floats) -> Floats:
        body.update(x)
        return queries.closest_points(body, points, inside=inside).distance

    return step


def _ours_inside(body: TriMesh, points: Floats) -> Distances:
    def step(x: Floats) -> Any:
        body.update(x)
        return queries.points_inside(body, points)

    return step


def _peers(known: dict[str, _Peer], body: TriMesh, points: Floats) -> tuple[dict[str, Distances], dict[str, str]]:
    """Those that can be asked, and of the others why not."""
    found, missing = {}, {}
    for name, peer in known.items():
        absent = [module for module in peer.modules if importlib.util.find_spec(module) is None]
        if absent:
            missing[name] = f"{' and '.join(absent)} not installed; {peer.remedy}"
            continue
        try:
            for module in peer.modules:
                importlib.import_module(module)
            found[name] = peer.make(body, points)
        except ImportError as error:
            missing[name] = f"does not load here: {error}"
    return found, missing


def _trimesh(body: TriMesh, points: Floats) -> Distances:
    trimesh: Any = importlib.import_module("trimesh")

    def step(x: Floats) -> Floats:
        mesh = trimesh.Trimesh(x, body.faces, process=False, validate=False)
        return np.asarray(trimesh.proximity.ProximityQuery(mesh).on_surface(points[::100])[1])

    return step


def _libigl(body: TriMesh, points: Floats) -> Distances:
    igl: Any = importlib.import_module("igl")
    faces = body.faces.astype(np.int64)

    def step(x: Floats) -> Floats:
        tree = igl.AABB()
        tree.init(x, faces)
        square: Floats = tree.squared_distance(x, faces, points)[0]
        return np.sqrt(square)

    return step


def _open3d(body: TriMesh, points: Floats) -> Distances:
    open3d: Any = importlib.import_module("open3d")
    tensor = open3d.core.Tensor
    faces, asked = tensor(body.faces.astype(np.uint32)), tensor(points.astype(np.float32))

    def step(x: Floats) -> Floats:
        scene = open3d.t.geometry.RaycastingScene()
        scene.add_triangles(tensor(x.astype(np.float32)), faces)
        nearest: Floats = scene.compute_closest_points(asked)["points"].numpy()
        distance: Floats = np.linalg.norm(nearest - points, axis=1)
        return distance

    return step


def _trimesh_inside(body: TriMesh, points: Floats) -> Distances:
    trimesh: Any = importlib.import_module("trimesh")

    def step(x: Floats) -> Any:
        return trimesh.Trimesh(x, body.faces, process=False, validate=False).contains(points)

    return step


class _Peer(NamedTuple):
    modules: tuple[str, ...]
    make: Make
    remedy: str = "pip install impinge[bench]"


_NEAREST = {
    "trimesh, tree rebuilt, 1% of the points": _Peer(("trimesh", "rtree"), _trimesh),
    "libigl, tree rebuilt": _Peer(("igl",), _libigl),
    "Open3D (Embree), scene rebuilt": _Peer(("open3d",), _open3d, "pip install open3d (a gigabyte; needs libusb)"),
}
_INSIDE = {"trimesh (Embree), scene rebuilt": _Peer(("trimesh", "embreex"), _trimesh_inside)}


def _check_inside(candidates: dict[str, Distances], x: Floats) -> None:
    """Refuse to time a peer that finds other points inside."""
    ours = candidates[OURS](x)
    for name, step in candidates.items():
        off = float((step(x) != ours).mean())
        if off > AGREEMENT_INSIDE:
            raise ImpingeError(f"{name} differs from ours on {100 * off:.2g} % of the points; none is timed")


def _check(candidates: dict[str, Distances], x: Floats) -> None:
    """Refuse to time a peer that finds other distances."""
    ours = candidates[OURS](x)
    for name, step in candidates.items():
        found = step(x)
        off = float(np.abs(found - ours[:: len(ours) // len(found)]).max())
        if off > AGREEMENT * float(np.abs(x).max()):
            raise ImpingeError(f"{name} finds distances that differ from ours by up to {off:.3g}; none is timed")


def _over(step: Distances, frames: list[Floats]) -> Callable[[], object]:
    """A step that goes on to the next frame each time."""
    turns = itertools.cycle(frames)
    return lambda: step(next(turns))
