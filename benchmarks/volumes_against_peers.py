"""Volumes that deforming bodies share, and points inside of them, against what a user could install instead.

Volumes    Both bodies get new positions in every frame; then their overlap volume with its spans. Vertices
           inside, which the peer does not tell either, are not asked for.
manifold3d Both bodies are built anew and intersected, and the volume is asked for; it keeps nothing of bodies whose
           vertices move. Its answer is exact, so that our error is told beside.
Points     The body gets new positions in every frame; then 100,000 points of its box are told apart.
libigl     ``fast_winding_number``, which builds its tree in the same call.
trimesh    ``contains`` by rays of Embree on a new mesh.
Agreement  A volume must be ours up to our own estimate of the error or half a per cent; points that are told otherwise
           than by us must be within a pixel of the surface (ours are sampled), all but one of ten thousand. Who
           disagrees is not timed.
Classes    Smooth bodies, scans, CAD parts with needles, soups and cloth; but for the first from the folder of meshes
           that IMPINGE_DATA names. What is not closed has no volume: the row says who refuses.
Rounds     In each round every candidate has a turn: a pause, in which threads of the one before fall asleep, then one
           frame of a peer, or several of ours after one that does not count, which brings its threads back.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Row
from benchmarks.papers.p004_bodies import TABLE_2, sphere_of
from impinge import scenes
from impinge.backend import jit
from impinge.checks import Bools, Floats
from impinge.deform.waves import Wave
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

OURS = "impinge"
MANIFOLD = "manifold3d, build and intersect"
IGL, TRIMESH = "libigl, fast_winding_number", "trimesh, contains (Embree)"
RESOLUTION = 128
FRAMES = 5
STEP = 0.1
"""Of time, between frames."""
PAUSE = 0.005
"""Seconds before each turn; workers of OpenMP and TBB spin for a millisecond or so after their last job."""
MOST_VOLUME_ERROR = 0.005
"""Share of the exact volume."""
MOST_POINTS_APART = 1e-4
"""Share of the points that may be told otherwise farther than a pixel from the surface."""

DATA = {
    "scan": ("closed/armadillo_52k.off", "closed/bunny_75k.off", "closed/dragon_100k.ply"),
    "cad": ("cad/turbine.off", "cad/cheese.off"),
    "soup": ("soup/truck.obj", "open/tableCloth.obj"),
}
"""Files below IMPINGE_DATA by class of input."""

Frame = tuple[Floats, ...]
"""Positions of all bodies."""


@dataclass(frozen=True)
class _Sizes:
    smooth_pairs: tuple[str, ...]
    with_data: bool
    points: int
    rounds: int
    frames_per_turn: int
    """Of ours; a peer has one."""


FULL = _Sizes(("knots_110k_150k", "spheres_110k_150k"), True, 100_000, 5, 8)
QUICK = _Sizes(("bumpy_spheres_1k",), False, 2000, 1, 1)


@dataclass(frozen=True)
class _Scene:
    name: str
    bodies: tuple[TriMesh, ...]
    frames: list[Frame]


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; ``quick`` takes small bodies and few rounds."""
    sizes = QUICK if quick else FULL
    rows: list[Row] = []
    for scene in _pairs(sizes):
        rows += [scene] if isinstance(scene, Row) else _volumes(scene, sizes)
    for scene in _single_bodies(sizes, quick=quick):
        rows += [scene] if isinstance(scene, Row) else _points(scene, sizes)
    return rows


# scenes -------------------------------------------------------------------------------------------------


def _pairs(sizes: _Sizes) -> Iterator[_Scene | Row]:
    for name in sizes.smooth_pairs:
        scene = scenes.get(name)
        frames = [tuple(x for x in scene.positions(STEP * n) if x is not None) for n in range(FRAMES)]
        yield _Scene(f"volume, smooth, {name}", scene.surfaces, frames)
    for sort, body in _data_bodies(sizes, "volume"):
        if isinstance(body, Row):
            yield body
            continue
        bodies = _unit_size(body, (0.0, 0.0, 0.0)), _unit_size(body, (0.2, 0.12, 0.09))
        yield _Scene(f"volume, {sort}, 2 x {len(body):,} faces", bodies, _waves(bodies, Wave(0.01, 12.0, 2.0)))


def _single_bodies(sizes: _Sizes, *, quick: bool) -> Iterator[_Scene | Row]:
    if quick:
        bodies = {"sphere": shapes.bumpy_sphere(3)}
    else:
        bodies = {"knot": shapes.torus_knot(*TABLE_2[-1].knot), "sphere": sphere_of(TABLE_2[-1])}
    for name, body in bodies.items():
        yield _Scene(f"points, smooth, {name}, {len(body):,} faces", (body,), _waves((body,), Wave(0.03, 4.0, 2.0)))
    for sort, loaded in _data_bodies(sizes, "points"):
        if isinstance(loaded, Row):
            yield loaded
            continue
        one = (_unit_size(loaded, (0.0, 0.0, 0.0)),)
        yield _Scene(f"points, {sort}, {len(loaded):,} faces", one, _waves(one, Wave(0.01, 12.0, 2.0)))


def _data_bodies(sizes: _Sizes, question: str) -> Iterator[tuple[str, TriMesh | Row]]:
    """Bodies of the other classes, or rows that say what is left out."""
    if not sizes.with_data:
        return
    folder = os.environ.get("IMPINGE_DATA")
    for sort, files in DATA.items():
        for file in files:
            label = f"{sort}, {Path(file).stem}"
            if folder is None or not Path(folder, file).is_file():
                note = "left out: IMPINGE_DATA names no folder with it"
                yield label, Row(f"{question}, {label}", OURS, math.nan, math.nan, math.nan, note)
                continue
            body = impinge.load(Path(folder, file))
            assert isinstance(body, TriMesh)
            yield label, body


def _unit_size(body: TriMesh, shift: tuple[float, float, float]) -> TriMesh:
    """A copy whose box has a diagonal of 1, its centre ``shift`` times the box's sides away from the origin."""
    low, high = body.bounds
    x = (body.vertices - (low + high) / 2.0 + np.array(shift) * (high - low)) / np.linalg.norm(high - low)
    return TriMesh(x, body.faces)


def _waves(bodies: tuple[TriMesh, ...], wave: Wave) -> list[Frame]:
    """Each body at a time of its own: in step they would move all space and no overlap."""
    rest = [body.vertices.copy() for body in bodies]
    return [tuple(wave(x, STEP * n + 1.7 * i) for i, x in enumerate(rest)) for n in range(FRAMES)]


# turns --------------------------------------------------------------------------------------------------


@dataclass
class _Candidate:
    name: str
    step: Callable[[Frame], Any]
    note: str
    frames_per_turn: int = 1
    ms: list[float] = field(default_factory=list)


def _take_turns(candidates: list[_Candidate], frames: list[Frame], rounds: int) -> None:
    turns = itertools.cycle(frames)
    for each in candidates:
        each.step(frames[0])
    for _ in range(rounds):
        for each in candidates:
            time.sleep(PAUSE)
            if each.name == OURS:
                each.step(next(turns))
            for _ in range(each.frames_per_turn):
                frame = next(turns)
                began = perf_counter()
                each.step(frame)
                each.ms.append(1e3 * (perf_counter() - began))


def _measured(scene: str, candidates: list[_Candidate]) -> list[Row]:
    base = candidates[0].ms
    rows = []
    for each in candidates:
        medians = statistics.median(each.ms) / statistics.median(base)
        note = each.note if each.ms is base else f"medians {medians:.2f}; {each.note}"
        rows.append(Row(scene, each.name, min(each.ms), statistics.median(each.ms), min(each.ms) / min(base), note))
    return rows


def _unmeasured(scene: str, name: str, why: str) -> Row:
    return Row(scene, name, math.nan, math.nan, math.nan, why)


def _is_missing(module: str) -> bool:
    return importlib.util.find_spec(module) is None


NOT_INSTALLED = "not installed; pip install impinge[bench]"


# volumes ------------------------------------------------------------------------------------------------


def volume_by_manifold(bodies: tuple[TriMesh, ...]) -> Callable[[Frame], float]:
    """A step that builds both bodies anew and measures their intersection; refuses what manifold3d refuses."""
    manifold3d: Any = importlib.import_module("manifold3d")
    faces = [np.ascontiguousarray(body.faces, dtype=np.uint64) for body in bodies]

    def step(frame: Frame) -> float:
        a, b = (manifold3d.Manifold(manifold3d.Mesh64(np.array(x), f)) for x, f in zip(frame, faces))
        for built in (a, b):
            if built.status() != manifold3d.Error.NoError:
                raise ImpingeError(f"manifold3d refuses a body ({built.status().name}); its time does not count")
        return float((a ^ b).volume())

    return step


def _volumes(scene: _Scene, sizes: _Sizes) -> list[Row]:
    detector = LayeredDepth(*scene.bodies, resolution=RESOLUTION)

    def ours(frame: Frame) -> VolumeOverlap:
        for body, x in zip(scene.bodies, frame):
            body.update(x)
        return detector.query(vertices=False)

    try:
        found = [ours(frame) for frame in scene.frames]
    except ImpingeError as error:
        return [_unmeasured(scene.name, OURS, f"refused: {error}")]
    depth = np.max(
        [result.depth_complexity.max(axis=(1, 2)) for result in found if result.depth_complexity is not None], 0
    )
    threads = f"{jit.thread_count()} threads ({jit.thread_layer()})"
    note = f"volume {found[0].volume:.5g} of region {np.prod(np.ptp(found[0].region, axis=0)):.3g}, "
    note += f"depth complexity {' / '.join(map(str, depth))}; {threads}"
    candidates = [_Candidate(OURS, ours, note, sizes.frames_per_turn)]
    left_out = []
    if _is_missing("manifold3d"):
        left_out.append(_unmeasured(scene.name, MANIFOLD, NOT_INSTALLED))
    else:
        step = volume_by_manifold(scene.bodies)
        try:
            off = _volume_error(found, [step(frame) for frame in scene.frames])
        except ImpingeError as why:
            left_out.append(_unmeasured(scene.name, MANIFOLD, str(why)))
        else:
            told = f"our error {off:.3%} at most, {MOST_VOLUME_ERROR:.1%} wanted"
            version = importlib.metadata.version("manifold3d")
            candidates.append(_Candidate(MANIFOLD, step, f"{told}; manifold3d {version}"))
    _take_turns(candidates, scene.frames, sizes.rounds)
    return _measured(scene.name, candidates) + left_out


def _volume_error(found: list[VolumeOverlap], exact: list[float]) -> float:
    """Largest share by which our volumes are off; refused if one is off by more than we say."""
    shares = []
    for result, right in zip(found, exact):
        off = abs(result.volume - right)
        if off > max(result.error, MOST_VOLUME_ERROR * right):
            raise ImpingeError(
                f"manifold3d finds the volume {right:.6g} and we {result.volume:.6g} ± {result.error:.1g}, so that "
                "it is not timed"
            )
        shares.append(off / right if right > 0.0 else 0.0)
    return max(shares)


# points -------------------------------------------------------------------------------------------------


def inside_by_igl(body: TriMesh, points: Floats) -> Callable[[Frame], Bools]:
    """Points whose winding number is above a half."""
    igl: Any = importlib.import_module("igl")
    faces = np.ascontiguousarray(body.faces, dtype=np.int64)
    return lambda frame: np.asarray(igl.fast_winding_number(np.ascontiguousarray(frame[0]), faces, points) > 0.5)


def inside_by_trimesh(body: TriMesh, points: Floats) -> Callable[[Frame], Bools]:
    """Points that rays of Embree find inside."""
    trimesh: Any = importlib.import_module("trimesh")
    faces = np.array(body.faces)
    return lambda frame: np.asarray(trimesh.Trimesh(frame[0], faces, process=False).contains(points))


POINT_PEERS: dict[str, tuple[tuple[str, ...], Callable[[TriMesh, Floats], Callable[[Frame], Bools]], str]] = {
    IGL: (("igl",), inside_by_igl, "libigl"),
    TRIMESH: (("trimesh", "embreex"), inside_by_trimesh, "trimesh"),
}
"""Modules that must be there, how the peer is asked, and the package whose version is told."""


def _points(scene: _Scene, sizes: _Sizes) -> list[Row]:
    body = scene.bodies[0]
    low, high = body.bounds
    points = np.random.default_rng(7).uniform(low, high, (sizes.points, 3))

    def ours(frame: Frame) -> Bools:
        body.update(frame[0])
        return impinge.points_inside(body, points, resolution=RESOLUTION)

    try:
        found = ours(scene.frames[0])
    except ImpingeError as error:
        return [_unmeasured(scene.name, OURS, f"refused: {error}")]
    note = f"{sizes.points:,} points, {found.mean():.1%} inside, image included; {jit.thread_count()} threads"
    candidates = [_Candidate(OURS, ours, note, sizes.frames_per_turn)]
    left_out = []
    for name, (modules, make, package) in POINT_PEERS.items():
        if any(map(_is_missing, modules)):
            left_out.append(_unmeasured(scene.name, name, NOT_INSTALLED))
            continue
        step = make(body, points)
        otherwise = step(scene.frames[0]) != found
        far = _farther_than_a_pixel(body, points[otherwise]) / len(points)
        told = f"{otherwise.mean():.3%} of the points told apart otherwise, {far:.3%} farther than a pixel"
        if far > MOST_POINTS_APART:
            left_out.append(_unmeasured(scene.name, name, f"{told} from the surface, so that it is not timed"))
            continue
        candidates.append(_Candidate(name, step, f"{told}; {package} {importlib.metadata.version(package)}"))
    _take_turns(candidates, scene.frames, sizes.rounds)
    return _measured(scene.name, candidates) + left_out


def _farther_than_a_pixel(body: TriMesh, points: Floats) -> int:
    """How many points are farther from the surface than the sampled answer may err."""
    low, high = body.bounds
    pixel = np.sort(high - low)[1:] / RESOLUTION  # the window is across the shortest side
    distance = impinge.closest_points(body, points, inside=False).distance
    return int((distance > np.hypot(*pixel) / math.sqrt(2.0) * (1.0 + 2.0**-12)).sum())
