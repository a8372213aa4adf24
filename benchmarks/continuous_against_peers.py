"""Continuous collision detection against the IPC Toolkit: whole steps, and single queries with known answers.

Steps      Two deforming bodies that approach each other (motion of half an edge and of two edges), and real cloth that
           falls onto a ball (two frames below IMPINGE_DATA). All bodies are one mesh: impacts of bodies with themselves
           count, since the toolkit always looks for them. Ours finds *all* impacts with certified times; or the first
           one alone; or a safe step with verified positions. The toolkit computes the largest step free of
           collision, from candidates of each of its broad phases, by additive CCD and by Tight-Inclusion. Both use
           all cores. Motion begins free of intersections, as the toolkit requires.
Between    Ours between the two bodies alone has a row of its own.
Agreement  The step of the toolkit must not exceed the first time of impact, or its time does not count.
Queries    The handcrafted queries below IMPINGE_DATA, one by one: time per query, the slowest one, and wrong answers.
Growth     Ours on two bodies of up to a million triangles.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, Sizes, measure, our_threads, row_of, timed, unmeasured
from benchmarks.peer_scenes import NOT_INSTALLED, OURS, PAUSE
from impinge.checks import Floats, Ints
from impinge.mesh import shapes
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

FULL = Sizes(subdivisions=(5, 6), rounds=12, growth=(5, 6, 7, 8), queries=100_000)
QUICK = Sizes(subdivisions=(3,), rounds=2, growth=(3,), queries=50)
BROAD_PHASES = ("LBVH", "HashGrid", "SpatialHash", "SweepAndPrune")
SECONDS = 12.0
"""Time per candidate and scene."""
NO_DATA = "left out: IMPINGE_DATA names no folder with it"


class Step(NamedTuple):
    """All bodies as one mesh, and the end of their motion."""

    name: str
    body: TriMesh
    end: Floats


def run(*, quick: bool = False) -> list[Row]:
    """Time whole steps alternately, then queries, then growth."""
    sizes = QUICK if quick else FULL
    rows: list[Row] = []
    for subdivisions in sizes.subdivisions:
        for edges in (0.5, 2.0):
            step, between = approaching(subdivisions, edges)
            rows += _timed(step, sizes.rounds, between)
    return rows + _cloth(sizes.rounds) + _queries(sizes.queries) + _growth(sizes.growth)


def approaching(subdivisions: int, edges: float) -> tuple[Step, Callable[[], impinge.Impacts]]:
    """Two bumpy spheres, nearly touching, that move towards each other by ``edges`` mean edge lengths each.

    Also the query between the two alone.
    """
    a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions)
    x, corner = a.vertices.copy(), a.vertices[a.faces]
    length = float(np.linalg.norm(corner[:, 0] - corner[:, 1], axis=1).mean())
    b.update(x + np.array([2.5 * np.abs(x[:, 0]).max(), 0.0, 0.0]))
    b.update(b.vertices - (impinge.distance(a, b).distance - 0.2 * length, 0.0, 0.0))
    rng = np.random.default_rng(subdivisions)
    end_a, end_b = (
        body.vertices + sign * edges * length * np.array([1.0, 0.2, 0.1]) + 0.05 * length * rng.normal(size=x.shape)
        for body, sign in ((a, 1.0), (b, -1.0))
    )
    both = TriMesh(np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + len(x)]))
    name = f"2 x {len(a.faces) / 1e3:.3g}k, {edges:g} edges"
    tree = impinge.ContinuousTree(a, b)
    return Step(name, both, np.concatenate([end_a, end_b])), lambda: tree.query(end_a=end_a, end_b=end_b)


def _timed(step: Step, rounds: int, between: Callable[[], impinge.Impacts] | None = None) -> list[Row]:
    """Rows of one step: ours, then the toolkit in all its variants."""
    tree, end = impinge.ContinuousTree(step.body), step.end
    found = tree.query(end_a=end)
    later = found.time_lo[~found.at_start]
    first = float(later.min()) if len(later) else 1.0
    note = f"{len(found)} impacts, {found.stats['candidates']} candidates, first at {first:.4g}; {our_threads()}"
    candidates: list[Candidate[None, Any]] = [
        Candidate(f"{OURS}, all impacts", lambda _: tree.query(end_a=end), note),
        Candidate(f"{OURS}, first impact", lambda _: tree.query(end_a=end, first_only=True), note),
    ]
    if between is not None:  # bodies that do not cross at the start
        candidates.append(Candidate(f"{OURS}, safe step", lambda _: tree.safe_step(end_a=end), note))
        candidates.append(Candidate(f"{OURS}, between the bodies", lambda _: between(), our_threads()))
    if importlib.util.find_spec("ipctk") is None:
        return [*measure(step.name, candidates, [None], rounds=rounds), unmeasured(step.name, "ipctk", NOT_INSTALLED)]
    for name, compute in _toolkit(step):
        own = f"step {compute():.4g}; {note}"
        candidates.append(Candidate(name, partial(_ignoring_frame, compute), own, mismatch=partial(_is_off, first)))
    for candidate in candidates:
        candidate.lead_in = 1
    return measure(step.name, candidates, [None], rounds=rounds, seconds=SECONDS, pause=PAUSE)


def _ignoring_frame(compute: Callable[[], Any], _: None) -> Any:
    return compute()


def _is_off(first: float, _frame: int, fraction: float) -> int:
    return int(fraction > first)


def _toolkit(step: Step) -> Iterator[tuple[str, Callable[[], float]]]:
    ipctk: Any = importlib.import_module("ipctk")
    before, after = np.asfortranarray(step.body.vertices), np.asfortranarray(step.end)
    faces = step.body.faces.astype(np.int32)
    mesh = ipctk.CollisionMesh(before, ipctk.edges(faces), faces)
    for ccd in ("AdditiveCCD", "TightInclusionCCD"):
        for broad in BROAD_PHASES if ccd == "AdditiveCCD" else BROAD_PHASES[:1]:
            compute = partial(
                ipctk.compute_collision_free_stepsize, mesh, before, after,
                broad_phase=getattr(ipctk, broad)(), narrow_phase_ccd=getattr(ipctk, ccd)(),
            )  # fmt: skip
            yield f"ipctk, {broad}, {ccd}", compute


def _data(path: str) -> Path | None:
    folder = os.environ.get("IMPINGE_DATA")
    return Path(folder) / path if folder and (Path(folder) / path).exists() else None


def _cloth(rounds: int) -> list[Row]:
    """Cloth on a ball, with itself."""
    folder = _data("seq/cloth-ball")
    if folder is None:
        return [unmeasured("cloth-ball", OURS, NO_DATA)]
    body, after = (as_surface(folder / name) for name in ("cloth_ball92.ply", "cloth_ball93.ply"))
    return _timed(Step("cloth-ball", body, after.vertices), min(rounds, 6))


# Single queries -----------------------------------------------------------------------------------------


def _handcrafted(folder: Path, limit: int) -> Iterator[tuple[bool, Floats, Floats, Ints]]:
    """Kind, starts, ends and answers of each file."""
    for path in sorted(folder.glob("*.csv.gz")):
        cells = [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().split()][: 8 * limit]
        x = np.array([[float(Fraction(int(c[k]), int(c[k + 1]))) for k in (0, 2, 4)] for c in cells])
        corners = x.reshape(-1, 2, 4, 3)
        yield "edge-edge" in path.name, corners[:, 0], corners[:, 1], np.array([int(c[6]) for c in cells[::8]])


def _queries(limit: int) -> list[Row]:
    """One by one: ours exactly, and both algorithms of the toolkit."""
    folder = _data("ccd")
    scene = "handcrafted queries, one by one"
    if folder is None:
        return [unmeasured(scene, OURS, NO_DATA)]
    queries = list(_handcrafted(folder, limit))
    decide: dict[str, Callable[[bool, Floats, Floats], bool]] = {OURS: _decide_ours}
    if importlib.util.find_spec("ipctk") is not None:
        ipctk: Any = importlib.import_module("ipctk")
        for name in ("AdditiveCCD", "TightInclusionCCD"):
            decide[f"ipctk, {name}"] = partial(_decide_toolkit, getattr(ipctk, name)())
    rows: list[Row] = []
    for name, one in decide.items():
        times, wrong = [], {False: 0, True: 0}
        one(queries[0][0], queries[0][1][0], queries[0][2][0])
        for is_edges, start, end, answers in queries:
            for x, y, answer in zip(start, end, answers):
                ms, found = timed(partial(one, is_edges, x, y))
                times.append(ms)
                wrong[found] += found != bool(answer)
        answers_note = f"{wrong[True]} false positives, {wrong[False]} false negatives"
        note = f"{len(times)} queries: {answers_note}; worst {max(times):.3g} ms"
        rows.append(row_of(scene, name, times, rows[0].min_ms if rows else None, note))
    return rows


def _decide_ours(is_edges: bool, x: Floats, y: Floats) -> bool:
    decide = impinge.edge_edge_impacts if is_edges else impinge.vertex_face_impacts
    return bool(decide(x[None], y[None]).hit[0])


def _decide_toolkit(ccd: Any, is_edges: bool, x: Floats, y: Floats) -> bool:
    decide = ccd.edge_edge_ccd if is_edges else ccd.point_triangle_ccd
    return bool(decide(*x, *y)[0])


# Growth -------------------------------------------------------------------------------------------------


def _growth(subdivisions: tuple[int, ...]) -> list[Row]:
    """Time per triangle of ever larger bodies; the ratio is that of the times."""
    rows: list[Row] = []
    for level in subdivisions:
        step, _ = approaching(level, 0.5)
        tree = impinge.ContinuousTree(step.body)
        candidate: Candidate[None, Any] = Candidate(
            step.name, partial(_ignoring_frame, partial(tree.query, end_a=step.end))
        )
        (row,) = measure("growth", [candidate], [None], rounds=3)
        note = f"{1e6 * row.min_ms / len(step.body.faces):.3g} ns per triangle"
        rows.append(replace(row, ratio=row.min_ms / (rows[0].min_ms if rows else row.min_ms), note=note))
    return rows
