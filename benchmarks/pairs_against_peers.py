"""All pairs of deforming bodies, update included: impinge against what a user could install instead.

Scenes     Pairs of bodies of four classes: smooth (bumpy spheres), scans, CAD parts, soups and cloth; the last three
           from the folder of meshes that IMPINGE_DATA names, left out without it. Both bodies move in every frame.
           Positions are rounded to floats, so that peers in single precision see the same bodies.
Rounds     As in ``turns``: those of a peer count where its pairs are ours.
Ours alone Self-collision (against those peers that know it), 5,000 frames in a row, tiny boxes, the refit per
           triangle, and the query against the number of hits.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Row
from benchmarks.peers import Peer, all_peers
from benchmarks.turns import (
    LEAST_ROUNDS,
    ROUNDS,
    SECONDS_PER_CANDIDATE,
    Candidate,
    Frame,
    Step,
    count_of,
    measured,
    our_candidate,
    our_threads,
    peer_candidate,
    take_turns,
    unmeasured,
    waves,
)
from impinge.deform.waves import Wave
from impinge.detect.box_tree.detector import BoxTree
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

OURS = "impinge"

DATA = {
    "scan": ("closed/armadillo_52k.off", "closed/bunny_75k.off", "closed/dragon_100k.ply"),
    "cad": ("cad/turbine.off", "cad/cheese.off"),
    "soup": ("soup/truck.obj", "open/tableCloth.obj"),
}
"""Files below IMPINGE_DATA by class of input."""


@dataclass(frozen=True)
class _Sizes:
    """What a run covers."""

    subdivisions: tuple[int, ...]
    self_subdivisions: int
    self_knot_rings: int
    frames_in_a_row: int
    box_calls: int
    refit_subdivisions: tuple[int, ...]
    rounds: int
    seconds: float
    with_data: bool


FULL = _Sizes((5, 6, 7), 6, 2048, 5000, 20_000, (5, 6, 7, 8), ROUNDS, SECONDS_PER_CANDIDATE, True)
QUICK = _Sizes((3, 4), 4, 256, 200, 1000, (3, 4, 5), LEAST_ROUNDS, 0.5, False)


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; ``quick`` takes small bodies and few rounds."""
    sizes = QUICK if quick else FULL
    rows = []
    peers = []
    for peer in all_peers():
        reason = peer.available()
        if reason is None:
            peers.append(peer)
        else:
            rows.append(unmeasured("peers", peer.name, reason))
    for scene in _pair_scenes(sizes):
        rows += _against_peers(scene, peers, sizes) if isinstance(scene, _Scene) else [scene]
    for scene in _self_scenes(sizes):
        rows += _self_against_peers(scene, peers, sizes)
    rows += _frames_in_a_row(sizes)
    rows += _tiny_boxes(sizes)
    rows += _refit_by_size(sizes)
    rows += _query_by_hits(sizes)
    return rows


# scenes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scene:
    name: str
    bodies: tuple[TriMesh, ...]
    frames: list[Frame]


def _pair_scenes(sizes: _Sizes) -> Iterator[_Scene | Row]:
    """Two bodies each; a row instead of a scene says what is left out."""
    for subdivisions in sizes.subdivisions:
        bodies = _bumpy_spheres(subdivisions)
        yield _Scene(f"smooth, {count_of(bodies)}", bodies, waves(bodies, Wave(0.05, 4.0, angular_speed=2.0)))
    if not sizes.with_data:
        return
    folder = os.environ.get("IMPINGE_DATA")
    for sort, files in DATA.items():
        for file in files:
            if folder is None or not Path(folder, file).is_file():
                yield unmeasured(f"{sort}, {Path(file).stem}", OURS, "left out: IMPINGE_DATA names no folder with it")
                continue
            body = impinge.load(Path(folder, file))
            assert isinstance(body, TriMesh)
            bodies = _unit_size(body, shift=(0.0, 0.0, 0.0)), _unit_size(body, shift=(0.2, 0.12, 0.09))
            name = f"{sort}, {Path(file).stem}, {count_of(bodies)}"
            yield _Scene(name, bodies, waves(bodies, Wave(0.01, 12.0, angular_speed=2.0)))


def _self_scenes(sizes: _Sizes) -> Iterator[_Scene]:
    """One body each: one that nowhere meets itself, and a tube too thick for its knot."""
    sphere = shapes.bumpy_sphere(sizes.self_subdivisions)
    knot = shapes.torus_knot(2, 3, sizes.self_knot_rings, 20, tube_radius=0.41)
    for name, body in (("sphere", sphere), ("knot", knot)):
        frames = waves((body,), Wave(0.05, 4.0, angular_speed=2.0))
        yield _Scene(f"self, {name}, {count_of((body,))}", (body,), frames)


def _bumpy_spheres(subdivisions: int) -> tuple[TriMesh, TriMesh]:
    """As in the scenes ``bumpy_spheres_*``."""
    return shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(1.1, 0.4, 0.2))


def _unit_size(body: TriMesh, *, shift: tuple[float, float, float]) -> TriMesh:
    """A copy whose box has a diagonal of 1, with its centre ``shift`` times the box's sides away from the origin."""
    lo, hi = body.bounds
    x = (body.vertices - (lo + hi) / 2.0 + np.array(shift) * (hi - lo)) / np.linalg.norm(hi - lo)
    return TriMesh(x, body.faces)


# two bodies ---------------------------------------------------------------------------------------------


def _against_peers(scene: _Scene, peers: list[Peer], sizes: _Sizes) -> list[Row]:
    a, b = scene.bodies
    detector = BoxTree(a, b)

    def ours(frame: Frame) -> Any:
        a.update(frame[0])
        b.update(frame[1])
        return detector.query().pairs

    us, expected = our_candidate(OURS, ours, scene.frames)
    candidates = [us]
    for peer in peers:
        peer.prepare(a, b)

        def step(frame: Frame, peer: Peer = peer) -> Any:
            peer.update(*frame)
            return peer.query()

        candidates.append(peer_candidate(peer, step, expected))
    take_turns(candidates, scene.frames, rounds=sizes.rounds, seconds=sizes.seconds)
    return measured(scene.name, candidates)


# one body -----------------------------------------------------------------------------------------------


def _self_against_peers(scene: _Scene, peers: list[Peer], sizes: _Sizes) -> list[Row]:
    """Neighbours tested for real, and skipped; the pairs of peers are compared with the former."""
    (body,) = scene.bodies

    def ours(detector: BoxTree) -> Step:
        def step(frame: Frame) -> Any:
            body.update(frame[0])
            return detector.query().pairs

        return step

    us, expected = our_candidate(OURS, ours(BoxTree(body)), scene.frames)
    skipping, _ = our_candidate(f"{OURS}, neighbours skipped", ours(BoxTree(body, neighbours="skip")), scene.frames)
    candidates = [us, skipping]
    for peer in peers:
        if not peer.has_self_query:
            continue
        peer.prepare(body)

        def step(frame: Frame, peer: Peer = peer) -> Any:
            peer.update(frame[0])
            return np.sort(peer.self_query(), axis=1)

        candidates.append(peer_candidate(peer, step, expected))
    take_turns(candidates, scene.frames, rounds=sizes.rounds, seconds=sizes.seconds)
    for each in candidates[2:]:
        if each.times:
            each.note = f"{min(each.times) / min(skipping.times):.1f} of ours skipping neighbours; {each.note}"
    return measured(scene.name, candidates)


# ours alone ---------------------------------------------------------------------------------------------


def _time_alone(name: str, step: Step, frames: list[Frame], sizes: _Sizes) -> list[float]:
    """Milliseconds of one candidate."""
    alone = Candidate(name, step, "")
    take_turns([alone], frames, rounds=sizes.rounds, seconds=sizes.seconds)
    return alone.times


def _frames_in_a_row(sizes: _Sizes) -> list[Row]:
    """Frames one after the other, each with new waves, which are made between the frames: a haptic loop."""
    a, b = shapes.uv_sphere(82, 81), shapes.uv_sphere(82, 81, center=(1.1, 0.4, 0.2))
    rest = a.vertices.copy(), b.vertices.copy()
    wave = Wave(0.05, 4.0, angular_speed=2.0)
    detector = BoxTree(a, b)
    taken = np.zeros(sizes.frames_in_a_row)
    hits = 0
    for frame in range(-20, sizes.frames_in_a_row):  # the first ones warm up
        xa, xb = (wave(x, 0.01 * frame + 1.7 * i) for i, x in enumerate(rest))
        began = perf_counter()
        a.update(xa)
        b.update(xb)
        hits += len(detector.query())
        if frame >= 0:
            taken[frame] = 1e3 * (perf_counter() - began)
    p50, p99, p999 = np.percentile(taken, (50.0, 99.0, 99.9))
    note = (
        f"p50 {p50:.3g}, p99 {p99:.3g}, p99.9 {p999:.3g}, worst {taken.max():.3g} ms; {np.mean(taken < 1.0):.2%} under "
        f"1 ms; about {hits // (len(taken) + 20)} pairs; {our_threads()}"
    )
    scene = f"{len(taken)} frames in a row, {count_of((a, b))}"
    return [Row(scene, OURS, float(taken.min()), float(p50), 1.0, note)]


def _tiny_boxes(sizes: _Sizes) -> list[Row]:
    """A kept detector on two boxes, one of which moves: what a call costs in itself."""
    a, b = shapes.box(), shapes.box(center=(0.7, 0.6, 0.5))
    positions = [b.vertices + 1e-3 * step for step in range(16)]
    detector = BoxTree(a, b)
    update, query = b.update, detector.query
    taken = np.zeros(sizes.box_calls)
    for call in range(-200, sizes.box_calls):
        x = positions[call % 16]
        began = perf_counter()
        update(x)
        query()
        if call >= 0:
            taken[call] = 1e3 * (perf_counter() - began)
    lowest, middle = float(taken.min()), float(np.median(taken))
    note = f"{1e3 * lowest:.1f} us at least, {1e3 * middle:.1f} us in the middle; {len(detector.query())} pairs"
    return [Row("boxes of 12 triangles, one moves", OURS, lowest, middle, 1.0, note)]


def _refit_by_size(sizes: _Sizes) -> list[Row]:
    """Update and query of bodies that meet nothing: what is left is the refit, and copying the positions."""
    rows: list[Row] = []
    per_triangle: list[float] = []
    for subdivisions in sizes.refit_subdivisions:
        body = shapes.bumpy_sphere(subdivisions)
        detector = BoxTree(body, shapes.box(center=(9.0, 9.0, 9.0)))
        frames = waves((body,), Wave(0.05, 4.0, angular_speed=2.0), count=4)

        def step(frame: Frame, body: TriMesh = body, detector: BoxTree = detector) -> Any:
            body.update(frame[0])
            return detector.query()

        name = count_of((body,))
        times = _time_alone(name, step, frames, sizes)
        per_triangle.append(1e6 * min(times) / len(body.faces))
        ratio = min(times) / rows[0].min_ms if rows else 1.0
        note = f"{per_triangle[-1]:.2f} ns per triangle, {per_triangle[-1] / min(per_triangle):.2f} of the least so far"
        rows.append(Row("update and refit", name, min(times), statistics.median(times), ratio, note))
    return rows


def _query_by_hits(sizes: _Sizes) -> list[Row]:
    """Queries at several depths, positions unchanged: the time should follow the hits and not the mesh."""
    rows: list[Row] = []
    for subdivisions in sizes.subdivisions:
        for distance in (2.15, 2.0, 1.6, 1.0, 0.3):
            a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(distance, 0.1, 0.05))
            detector = BoxTree(a, b)
            hits = len(detector.query())

            def step(_: Frame, detector: BoxTree = detector) -> Any:
                return detector.query()

            name = f"{count_of((a, b))}, {hits} hits"
            times = _time_alone(name, step, [()], sizes)
            ratio = min(times) / rows[0].min_ms if rows else 1.0
            note = f"{1e3 * min(times) / hits:.3g} us per hit; {our_threads()}" if hits else our_threads()
            rows.append(Row("query against hits", name, min(times), statistics.median(times), ratio, note))
    return rows
