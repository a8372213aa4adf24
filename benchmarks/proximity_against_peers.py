"""Closest points on a deforming body, and which points are inside, update included: impinge against other libraries.

Scene      A bumpy sphere of 82k triangles that deforms in every frame, and 100k points in its box, widened by a tenth.
Frame      New positions in; distance, closest point and triangle of every point out. Peers rebuild their tree: none of
           them has a refit. trimesh, which would take minutes, gets every hundredth point only; its ratio is too low
           by that factor.
Inside     A second scene classifies the points only. trimesh counts the hits of rays, by Embree in float32 (embreex).
Agreement  The distances of a peer must be ours to 1e-5 of the body's size before its time counts. Of a thousand points,
           one may be on the other side of the surface: float32 does not resolve it.
Ours       is also timed with the exact inside test, which no peer has.
Missing    A peer that is not installed, or does not load, has a row with the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import impinge
from benchmarks.measure import Row, interleaved, unmeasured
from benchmarks.peer_scenes import OURS
from impinge.backend import jit
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

SUBDIVISIONS, SUBDIVISIONS_QUICK = 6, 3
POINTS, POINTS_QUICK = 100_000, 1_000
FRAMES = 4
ROUNDS, ROUNDS_QUICK = 5, 2
AGREEMENT = 1e-5
AGREEMENT_INSIDE = 1e-3

Distances = Callable[[Floats], Floats]
"""From new positions of the body to the distances of all points, or of every n-th point."""
Make = Callable[[TriMesh, Floats], Distances]


def run(*, quick: bool = False) -> list[Row]:
    """Time whole frames alternately."""
    body = shapes.bumpy_sphere(SUBDIVISIONS_QUICK if quick else SUBDIVISIONS)
    rest, wave = body.vertices.copy(), Wave(0.05, 4.0, angular_speed=2.0)
    frames = [wave(rest, 0.1 * frame) for frame in range(FRAMES)]
    points = np.random.default_rng(1).uniform(-1.1, 1.1, (POINTS_QUICK if quick else POINTS, 3))
    points *= np.abs(rest).max()
    note = f"{len(points)} points, {len(body.faces)} triangles; ours on {jit.thread_count()} threads"
    rounds = ROUNDS_QUICK if quick else ROUNDS
    rows = []
    for scene, ours, known, check in (
        ("closest points", _ours(body, points), _NEAREST, _check_distances),
        ("points inside", _ours_inside(body, points), _INSIDE, _check_inside),
    ):
        peers, missing = _peers(known, body, points)
        check(ours | peers, frames[0])
        rows += interleaved(scene, ours | peers, frames, rounds=rounds, note=note)
        rows += [unmeasured(scene, name, why) for name, why in missing.items()]
    return rows


def _ours(body: TriMesh, points: Floats) -> dict[str, Distances]:
    def step(x: Floats, inside: bool) -> Floats:
        body.update(x)
        return impinge.closest_points(body, points, inside=inside).distance

    return {OURS: partial(step, inside=False), f"{OURS}, inside too": partial(step, inside=True)}


def _ours_inside(body: TriMesh, points: Floats) -> dict[str, Distances]:
    def step(x: Floats) -> Any:
        body.update(x)
        return impinge.points_inside(body, points)

    return {OURS: step}


def _peers(known: dict[str, _Peer], body: TriMesh, points: Floats) -> tuple[dict[str, Distances], dict[str, str]]:
    """Peers that load here, and the reason for each of the others."""
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
    faces, query = tensor(body.faces.astype(np.uint32)), tensor(points.astype(np.float32))

    def step(x: Floats) -> Floats:
        scene = open3d.t.geometry.RaycastingScene()
        scene.add_triangles(tensor(x.astype(np.float32)), faces)
        nearest: Floats = scene.compute_closest_points(query)["points"].numpy()
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
    """Raise if a peer classifies more than 0.1 % of the points otherwise."""
    ours = candidates[OURS](x)
    for name, step in candidates.items():
        off = float((step(x) != ours).mean())
        if off > AGREEMENT_INSIDE:
            raise ImpingeError(f"{name} differs from ours on {100 * off:.2g} % of the points; none is timed")


def _check_distances(candidates: dict[str, Distances], x: Floats) -> None:
    """Raise if the distances of a peer differ from ours."""
    ours = candidates[OURS](x)
    for name, step in candidates.items():
        found = step(x)
        off = float(np.abs(found - ours[:: len(ours) // len(found)]).max())
        if off > AGREEMENT * float(np.abs(x).max()):
            raise ImpingeError(f"{name} finds distances that differ from ours by up to {off:.3g}; none is timed")
