"""Overlap volumes of deforming bodies, and points inside them, against other libraries.

Volumes    Both bodies get new positions in every frame; then their overlap volume with its spans. Vertices inside,
           which the peer does not report either, are not computed.
manifold3d Both bodies are rebuilt and intersected, and the volume is computed; it reuses nothing of bodies whose
           vertices move. Its answer is exact: the note reports our error.
Points     The body gets new positions in every frame; then 100,000 points of its box are classified.
libigl     ``fast_winding_number``, which builds its tree in the same call.
trimesh    ``contains`` by rays of Embree on a new mesh.
Agreement  A volume must be ours up to our own estimate of the error or half a per cent. Points that are classified
           otherwise than by us must be within a pixel of the surface (ours are sampled), all but one of ten thousand. A
           peer that disagrees is not timed.
Classes    Smooth bodies, scans, CAD parts with needles, soups and cloth (``peer_scenes``). Open surfaces have no
           volume: their row gives the error.
Visits     A pause, in which threads of the previous candidate go to sleep, then one frame of a peer; or one untimed
           frame of ours, which wakes the threads, and several timed ones.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, Sizes, measure, our_threads, unmeasured, with_medians
from benchmarks.papers.p004_bodies import TABLE_2, sphere_of
from benchmarks.peer_scenes import NOT_INSTALLED, OURS, PAUSE, Frame, PeerScene, data_bodies, unit_size, waves
from impinge import scenes
from impinge.backend import jit
from impinge.checks import Bools, Floats
from impinge.deform.waves import Wave
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

MANIFOLD = "manifold3d, build and intersect"
IGL, TRIMESH = "libigl, fast_winding_number", "trimesh, contains (Embree)"
RESOLUTION = 128
FRAMES = 5
STEP = 0.1
"""Time between frames."""
MOST_VOLUME_ERROR = 0.005
"""Share of the exact volume."""
MOST_POINTS_APART = 1e-4
"""Share of the points farther than a pixel from the surface that may be classified otherwise."""

# frames_per_visit: timed frames of ours; a peer has one
FULL = Sizes(
    smooth_pairs=("knots_110k_150k", "spheres_110k_150k"), with_data=True, points=100_000, rounds=5, frames_per_visit=8
)
QUICK = Sizes(smooth_pairs=("bumpy_spheres_1k",), with_data=False, points=2000, rounds=1, frames_per_visit=1)


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


def _pairs(sizes: Sizes) -> Iterator[PeerScene | Row]:
    for name in sizes.smooth_pairs:
        scene = scenes.get(name)
        frames = [tuple(x for x in scene.positions(STEP * n) if x is not None) for n in range(FRAMES)]
        yield PeerScene(f"volume, smooth, {name}", scene.surfaces, frames)
    for label, body in data_bodies("volume, ") if sizes.with_data else ():
        if isinstance(body, Row):
            yield body
            continue
        bodies = unit_size(body), unit_size(body, (0.2, 0.12, 0.09))
        yield PeerScene(f"volume, {label}, 2 x {len(body):,} faces", bodies, _waves(bodies, Wave(0.01, 12.0, 2.0)))


def _single_bodies(sizes: Sizes, *, quick: bool) -> Iterator[PeerScene | Row]:
    if quick:
        bodies = {"sphere": shapes.bumpy_sphere(3)}
    else:
        bodies = {"knot": shapes.torus_knot(*TABLE_2[-1].knot), "sphere": sphere_of(TABLE_2[-1])}
    for name, body in bodies.items():
        one = (body,)
        yield PeerScene(f"points, smooth, {name}, {len(body):,} faces", one, _waves(one, Wave(0.03, 4.0, 2.0)))
    for label, loaded in data_bodies("points, ") if sizes.with_data else ():
        if isinstance(loaded, Row):
            yield loaded
            continue
        one = (unit_size(loaded),)
        yield PeerScene(f"points, {label}, {len(loaded):,} faces", one, _waves(one, Wave(0.01, 12.0, 2.0)))


def _waves(bodies: tuple[TriMesh, ...], wave: Wave) -> list[Frame]:
    return waves(bodies, wave, count=FRAMES, rounded=False)


def _ours(step: Callable[[Frame], Any], note: str, sizes: Sizes) -> Candidate[Frame, Any]:
    return Candidate(OURS, step, note, lead_in=1, counted=sizes.frames_per_visit)


def _measure(scene: PeerScene, candidates: list[Candidate[Frame, Any]], sizes: Sizes) -> list[Row]:
    return with_medians(measure(scene.name, candidates, scene.frames, rounds=sizes.rounds, pause=PAUSE))


def _is_missing(module: str) -> bool:
    return importlib.util.find_spec(module) is None


# volumes ------------------------------------------------------------------------------------------------


def volume_by_manifold(bodies: tuple[TriMesh, ...]) -> Callable[[Frame], float]:
    """A step that rebuilds both bodies and measures their intersection; raises where manifold3d rejects a body."""
    manifold3d: Any = importlib.import_module("manifold3d")
    faces = [np.ascontiguousarray(body.faces, dtype=np.uint64) for body in bodies]

    def step(frame: Frame) -> float:
        a, b = (manifold3d.Manifold(manifold3d.Mesh64(np.array(x), f)) for x, f in zip(frame, faces))
        for built in (a, b):
            if built.status() != manifold3d.Error.NoError:
                raise ImpingeError(f"manifold3d rejects a body ({built.status().name}); its time does not count")
        return float((a ^ b).volume())

    return step


def _volumes(scene: PeerScene, sizes: Sizes) -> list[Row]:
    detector = LayeredDepth(*scene.bodies, resolution=RESOLUTION)

    def ours(frame: Frame) -> VolumeOverlap:
        for body, x in zip(scene.bodies, frame):
            body.update(x)
        return detector.query(vertices=False)

    try:
        found = [ours(frame) for frame in scene.frames]
    except ImpingeError as error:
        return [unmeasured(scene.name, OURS, f"refused: {error}")]
    depth = np.max(
        [result.depth_complexity.max(axis=(1, 2)) for result in found if result.depth_complexity is not None], 0
    )
    note = f"volume {found[0].volume:.5g} of region {np.prod(np.ptp(found[0].region, axis=0)):.3g}, "
    note += f"depth complexity {' / '.join(map(str, depth))}; {our_threads()}"
    candidates = [_ours(ours, note, sizes)]
    left_out = []
    if _is_missing("manifold3d"):
        left_out.append(unmeasured(scene.name, MANIFOLD, NOT_INSTALLED))
    else:
        step = volume_by_manifold(scene.bodies)
        try:
            off = _volume_error(found, [step(frame) for frame in scene.frames])
        except ImpingeError as why:
            left_out.append(unmeasured(scene.name, MANIFOLD, str(why)))
        else:
            note = f"our error {off:.3%} at most, {MOST_VOLUME_ERROR:.1%} wanted"
            version = importlib.metadata.version("manifold3d")
            candidates.append(Candidate(MANIFOLD, step, f"{note}; manifold3d {version}"))
    return _measure(scene, candidates, sizes) + left_out


def _volume_error(found: list[VolumeOverlap], exact: list[float]) -> float:
    """Largest relative error of our volumes; raises if one exceeds our own estimate."""
    shares = []
    for result, right in zip(found, exact):
        off = abs(result.volume - right)
        if off > max(result.error, MOST_VOLUME_ERROR * right):
            raise ImpingeError(
                f"manifold3d finds the volume {right:.6g} and we {result.volume:.6g} ± {result.error:.1g}: it is "
                "not timed"
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
    """Points inside by rays of Embree."""
    trimesh: Any = importlib.import_module("trimesh")
    faces = np.array(body.faces)
    return lambda frame: np.asarray(trimesh.Trimesh(frame[0], faces, process=False).contains(points))


POINT_PEERS: dict[str, tuple[tuple[str, ...], Callable[[TriMesh, Floats], Callable[[Frame], Bools]], str]] = {
    IGL: (("igl",), inside_by_igl, "libigl"),
    TRIMESH: (("trimesh", "embreex"), inside_by_trimesh, "trimesh"),
}
"""Modules that must be installed, adapter, and the package whose version is reported."""


def _points(scene: PeerScene, sizes: Sizes) -> list[Row]:
    body = scene.bodies[0]
    low, high = body.bounds
    points = np.random.default_rng(7).uniform(low, high, (sizes.points, 3))

    def ours(frame: Frame) -> Bools:
        body.update(frame[0])
        return impinge.points_inside(body, points, resolution=RESOLUTION)

    try:
        found = ours(scene.frames[0])
    except ImpingeError as error:
        return [unmeasured(scene.name, OURS, f"refused: {error}")]
    note = f"{sizes.points:,} points, {found.mean():.1%} inside, image included; {jit.thread_count()} threads"
    candidates = [_ours(ours, note, sizes)]
    left_out = []
    for name, (modules, make, package) in POINT_PEERS.items():
        if any(map(_is_missing, modules)):
            left_out.append(unmeasured(scene.name, name, NOT_INSTALLED))
            continue
        step = make(body, points)
        otherwise = step(scene.frames[0]) != found
        far = _farther_than_a_pixel(body, points[otherwise]) / len(points)
        note = f"{otherwise.mean():.3%} of the points classified otherwise, {far:.3%} farther than a pixel"
        if far > MOST_POINTS_APART:
            left_out.append(unmeasured(scene.name, name, f"{note} from the surface: it is not timed"))
            continue
        candidates.append(Candidate(name, step, f"{note}; {package} {importlib.metadata.version(package)}"))
    return _measure(scene, candidates, sizes) + left_out


def _farther_than_a_pixel(body: TriMesh, points: Floats) -> int:
    """Number of points farther from the surface than the error of the sampled answer."""
    low, high = body.bounds
    pixel = np.sort(high - low)[1:] / RESOLUTION  # the window is across the shortest side
    distance = impinge.closest_points(body, points, inside=False).distance
    return int((distance > np.hypot(*pixel) / math.sqrt(2.0) * (1.0 + 2.0**-12)).sum())
