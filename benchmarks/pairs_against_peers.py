"""All pairs of deforming bodies, update included: impinge against other libraries.

Scenes     Pairs of bodies of four classes: smooth (bumpy spheres), scans, CAD parts, soups and cloth (``peer_scenes``).
           Both bodies move in every frame. Positions are rounded to float32: peers in single precision get the same
           bodies.
Agreement  Times of a peer count on frames on which its pairs are ours.
Ours alone Self-collision (against those peers that support it), 5,000 frames in a row, boxes of 12 triangles, the refit
           per triangle, and the query over the number of hits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import LEAST_ROUNDS, Candidate, Row, Sizes, interleave, our_threads, row_of
from benchmarks.peer_scenes import (
    OURS,
    ROUNDS,
    SECONDS_PER_CANDIDATE,
    Frame,
    PeerScene,
    Step,
    count_of,
    data_bodies,
    installed,
    measure_frames,
    our_candidate,
    pair_candidate,
    peer_candidate,
    unit_size,
    waves,
)
from benchmarks.peers import Peer, all_peers
from impinge.deform.waves import Wave
from impinge.detect.box_tree.detector import BoxTree
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

WAVE = Wave(0.05, 4.0, angular_speed=2.0)

FULL = Sizes(
    subdivisions=(5, 6, 7), self_subdivisions=6, self_knot_rings=2048, frames_in_a_row=5000, box_calls=20_000,
    refit_subdivisions=(5, 6, 7, 8), rounds=ROUNDS, seconds=SECONDS_PER_CANDIDATE, with_data=True,
)  # fmt: skip
QUICK = Sizes(
    subdivisions=(3, 4), self_subdivisions=4, self_knot_rings=256, frames_in_a_row=200, box_calls=1000,
    refit_subdivisions=(3, 4, 5), rounds=LEAST_ROUNDS, seconds=0.5, with_data=False,
)  # fmt: skip


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; ``quick`` takes small bodies and few rounds."""
    sizes = QUICK if quick else FULL
    peers, rows = installed(all_peers())
    for scene in _pair_scenes(sizes):
        rows += _against_peers(scene, peers, sizes) if isinstance(scene, PeerScene) else [scene]
    for scene in _self_scenes(sizes):
        rows += _self_against_peers(scene, peers, sizes)
    return [*rows, _frames_in_a_row(sizes), _tiny_boxes(sizes), *_refit_by_size(sizes), *_query_by_hits(sizes)]


# scenes -------------------------------------------------------------------------------------------------


def _pair_scenes(sizes: Sizes) -> Iterator[PeerScene | Row]:
    """Two bodies each; a row instead of a scene reports what is left out."""
    for subdivisions in sizes.subdivisions:
        # as in the scenes bumpy_spheres_*
        bodies = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(1.1, 0.4, 0.2))
        yield PeerScene(f"smooth, {count_of(bodies)}", bodies, waves(bodies, WAVE))
    for label, body in data_bodies() if sizes.with_data else ():
        if isinstance(body, Row):
            yield body
            continue
        bodies = unit_size(body), unit_size(body, shift=(0.2, 0.12, 0.09))
        name = f"{label}, {count_of(bodies)}"
        yield PeerScene(name, bodies, waves(bodies, Wave(0.01, 12.0, angular_speed=2.0)))


def _self_scenes(sizes: Sizes) -> Iterator[PeerScene]:
    """One body each: a sphere without self-intersection, and a knot whose tube is thick enough to intersect itself."""
    sphere = shapes.bumpy_sphere(sizes.self_subdivisions)
    knot = shapes.torus_knot(2, 3, sizes.self_knot_rings, 20, tube_radius=0.41)
    for name, body in (("sphere", sphere), ("knot", knot)):
        yield PeerScene(f"self, {name}, {count_of((body,))}", (body,), waves((body,), WAVE))


# two bodies ---------------------------------------------------------------------------------------------


def _against_peers(scene: PeerScene, peers: list[Peer], sizes: Sizes) -> list[Row]:
    a, b = scene.bodies
    detector = BoxTree(a, b)

    def ours(frame: Frame) -> Any:
        a.update(frame[0])
        b.update(frame[1])
        return detector.query().pairs

    us, expected = our_candidate(OURS, ours, scene.frames)
    candidates = [us, *(pair_candidate(peer, scene.bodies, expected) for peer in peers)]
    return measure_frames(scene.name, candidates, scene.frames, rounds=sizes.rounds, seconds=sizes.seconds)


# one body -----------------------------------------------------------------------------------------------


def _self_against_peers(scene: PeerScene, peers: list[Peer], sizes: Sizes) -> list[Row]:
    """Neighbours tested, and skipped; the pairs of peers are compared with the former."""
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
    rows = measure_frames(scene.name, candidates, scene.frames, rounds=sizes.rounds, seconds=sizes.seconds)
    return [
        replace(row, note=f"{row.min_ms / rows[1].min_ms:.1f} of ours skipping neighbours; {row.note}")
        if n > 1 and row.min_ms > 0.0
        else row
        for n, row in enumerate(rows)
    ]


# ours alone ---------------------------------------------------------------------------------------------


def _frames_in_a_row(sizes: Sizes) -> Row:
    """Consecutive frames with new waves, which are computed untimed between the frames: a haptic loop."""
    a, b = shapes.uv_sphere(82, 81), shapes.uv_sphere(82, 81, center=(1.1, 0.4, 0.2))
    rest, detector = (a.vertices.copy(), b.vertices.copy()), BoxTree(a, b)
    current: list[Any] = []

    def deform(frame: int) -> None:
        current[:] = [WAVE(x, 0.01 * frame + 1.7 * i) for i, x in enumerate(rest)]

    def step(_: int) -> int:
        a.update(current[0])
        b.update(current[1])
        return len(detector.query())

    samples = _in_a_row(Candidate(OURS, step, prepare=deform), range(-20, sizes.frames_in_a_row), warm=20)
    taken, hits = np.array([ms for ms, _ in samples]), statistics.fmean(hits for _, hits in samples)
    p50, p99, p999 = np.percentile(taken, (50.0, 99.0, 99.9))
    note = (
        f"p50 {p50:.3g}, p99 {p99:.3g}, p99.9 {p999:.3g}, worst {taken.max():.3g} ms; {np.mean(taken < 1.0):.2%} under "
        f"1 ms; about {hits:.0f} pairs; {our_threads()}"
    )
    return row_of(f"{len(taken)} frames in a row, {count_of((a, b))}", OURS, taken.tolist(), note=note)


def _tiny_boxes(sizes: Sizes) -> Row:
    """A detector on two boxes, one of which moves: the fixed overhead of a call."""
    a, b = shapes.box(), shapes.box(center=(0.7, 0.6, 0.5))
    positions = [b.vertices + 1e-3 * step for step in range(16)]
    detector = BoxTree(a, b)
    update, query = b.update, detector.query

    def step(x: Any) -> None:
        update(x)
        query()

    taken = [ms for ms, _ in _in_a_row(Candidate(OURS, step), positions, warm=200, rounds=200 + sizes.box_calls)]
    row = row_of("boxes of 12 triangles, one moves", OURS, taken)
    note = f"minimum {1e3 * row.min_ms:.1f} us, median {1e3 * row.median_ms:.1f} us; {len(detector.query())} pairs"
    return replace(row, note=note)


def _in_a_row(candidate: Candidate[Any, Any], frames: Any, *, warm: int, rounds: int = 0) -> list[tuple[float, Any]]:
    """Milliseconds and answers of consecutive frames, without the first ``warm`` ones."""
    loop = interleave([candidate], frames, rounds=rounds or len(frames), warm_up=False)
    return [(sample.ms, sample.answer) for ((sample,),) in loop][warm:]


def _refit_by_size(sizes: Sizes) -> list[Row]:
    """Update and query of bodies without contact: the refit, and the copy of the positions."""
    rows: list[Row] = []
    per_triangle: list[float] = []
    for subdivisions in sizes.refit_subdivisions:
        body = shapes.bumpy_sphere(subdivisions)
        detector = BoxTree(body, shapes.box(center=(9.0, 9.0, 9.0)))

        def step(frame: Frame, body: TriMesh = body, detector: BoxTree = detector) -> Any:
            body.update(frame[0])
            return detector.query()

        alone, frames = Candidate(count_of((body,)), step), waves((body,), WAVE, count=4)
        (row,) = measure_frames("update and refit", [alone], frames, rounds=sizes.rounds, seconds=sizes.seconds)
        per_triangle.append(1e6 * row.min_ms / len(body.faces))
        note = f"{per_triangle[-1]:.2f} ns per triangle, {per_triangle[-1] / min(per_triangle):.2f} of the least so far"
        rows.append(replace(row, ratio=row.min_ms / rows[0].min_ms if rows else 1.0, note=note))
    return rows


def _query_by_hits(sizes: Sizes) -> list[Row]:
    """Queries at several depths, positions unchanged: the time should grow with the hits and not with the mesh."""
    rows: list[Row] = []
    for subdivisions in sizes.subdivisions:
        for distance in (2.15, 2.0, 1.6, 1.0, 0.3):
            a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(distance, 0.1, 0.05))
            detector = BoxTree(a, b)
            hits = len(detector.query())

            def step(_: Frame, detector: BoxTree = detector) -> Any:
                return detector.query()

            alone = Candidate(f"{count_of((a, b))}, {hits} hits", step)
            (row,) = measure_frames("query against hits", [alone], [()], rounds=sizes.rounds, seconds=sizes.seconds)
            note = f"{1e3 * row.min_ms / hits:.3g} us per hit; {our_threads()}" if hits else our_threads()
            rows.append(replace(row, ratio=row.min_ms / rows[0].min_ms if rows else 1.0, note=note))
    return rows
