"""Continuous collision detection against the IPC Toolkit: whole steps, and single queries with known answers.

Steps      Two deforming bodies that approach each other (motion of half an edge and of two edges), and real cloth that
           falls onto a ball (two frames below IMPINGE_DATA), with itself. Ours finds *all* impacts with certified times;
           or the first one alone; or a safe step with verified positions. The toolkit computes the largest step free
           of collision, from candidates of each of its broad phases, by additive CCD and by Tight-Inclusion. Both use
           all cores. Motion begins free of intersections, as the toolkit requires.
Agreement  The toolkit's step must not exceed the first time of impact, and must reach half of it; otherwise its time does
           not count.
Queries    The handcrafted queries below IMPINGE_DATA, one by one: time per query, the slowest one, and wrong answers.
Growth     Ours on two bodies of up to a million triangles.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, Sizes, measure, our_threads, row_of, unmeasured
from benchmarks.peer_scenes import NOT_INSTALLED, OURS
from impinge.checks import Floats, Ints
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

FULL = Sizes(subdivisions=(5, 6), rounds=12, growth=(5, 6, 7, 8), queries=100_000)
QUICK = Sizes(subdivisions=(3,), rounds=2, growth=(3,), queries=50)
BROAD_PHASES = ("LBVH", "HashGrid", "SpatialHash", "SweepAndPrune")
LEAST_SHARE = 0.5
"""Least share of the first time of impact that a peer's step has to reach."""
SECONDS = 20.0
"""Time per candidate and scene."""
NO_DATA = "left out: IMPINGE_DATA names no folder with it"


class Step(NamedTuple):
    """Bodies and their motion."""

    name: str
    a: TriMesh
    b: TriMesh | None
    end_a: Floats
    end_b: Floats | None


def run(*, quick: bool = False) -> list[Row]:
    """Time whole steps alternately, then queries, then growth."""
    sizes = QUICK if quick else FULL
    rows: list[Row] = []
    for step in _steps(sizes):
        rows += _timed(step, sizes.rounds)
    rows += _cloth(sizes.rounds) + _queries(sizes.queries) + _growth(sizes.growth)
    return rows


def _steps(sizes: Sizes) -> Iterator[Step]:
    for subdivisions in sizes.subdivisions:
        for edges in (0.5, 2.0):
            yield approaching(subdivisions, edges)


def approaching(subdivisions: int, edges: float) -> Step:
    """Two bumpy spheres, nearly touching, that move towards each other by ``edges`` mean edge lengths each."""
    a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions)
    x, corner = a.vertices.copy(), a.vertices[a.faces]
    length = float(np.linalg.norm(corner[:, 0] - corner[:, 1], axis=1).mean())
    b.update(x + (2.5 * np.abs(x[:, 0]).max(), 0.0, 0.0))
    gap = impinge.distance(a, b).distance
    b.update(b.vertices - (gap - 0.2 * length, 0.0, 0.0))
    rng = np.random.default_rng(subdivisions)
    end_a, end_b = (
        body.vertices + direction * edges * length * np.array([1.0, 0.2, 0.1]) + 0.05 * length * rng.normal(size=x.shape)
        for body, direction in ((a, 1.0), (b, -1.0))
    )
    return Step(f"2 x {len(a.faces) / 1e3:.3g}k, {edges:g} edges", a, b, end_a, end_b)


def _timed(step: Step, rounds: int) -> list[Row]:
    """Rows of one step: ours, then the toolkit in all its variants."""
    tree = impinge.ContinuousTree(step.a, step.b)
    ends = {"end_a": step.end_a, "end_b": step.end_b}
    found = tree.query(**ends)
    first = float(found.time_lo.min()) if len(found) else 1.0
    note = f"{len(found)} impacts, {found.stats['tests']} candidates, first at {first:.4g}; {our_threads()}"
    candidates: list[Candidate[None, Any]] = [
        Candidate(f"{OURS}, all impacts", lambda _: tree.query(**ends), note),
        Candidate(f"{OURS}, first impact", lambda _: tree.query(first_only=True, **ends), note),
        Candidate(f"{OURS}, safe step", lambda _: tree.safe_step(**ends), note),
    ]
    if importlib.util.find_spec("ipctk") is None:
        return [*measure(step.name, candidates, [None], rounds=rounds), unmeasured(step.name, "ipctk", NOT_INSTALLED)]
    for name, compute in _toolkit(step):
        candidates.append(Candidate(name, lambda _, compute=compute: compute(), note, mismatch=partial(_is_off, first)))
    return measure(step.name, candidates, [None], rounds=rounds, seconds=SECONDS)


def _is_off(first: float, _frame: int, fraction: float) -> int:
    return int(not LEAST_SHARE * first <= fraction <= first)


def _toolkit(step: Step) -> Iterator[tuple[str, Callable[[], float]]]:
    ipctk: Any = importlib.import_module("ipctk")
    bodies = [step.a] if step.b is None else [step.a, step.b]
    offsets = np.cumsum([0] + [len(body.vertices) for body in bodies])
    faces = np.concatenate([body.faces + offset for body, offset in zip(bodies, offsets)]).astype(np.int32)
    before = np.asfortranarray(np.concatenate([body.vertices for body in bodies]))
    ends = [step.end_a] if step.end_b is None else [step.end_a, step.end_b]
    after = np.asfortranarray(np.concatenate(ends))
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
    body, after = impinge.load(folder / "cloth_ball92.ply"), impinge.load(folder / "cloth_ball93.ply")
    return _timed(Step("cloth-ball", body, None, after.vertices, None), min(rounds, 6))


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
        one(*(column[0] if k else column for k, column in enumerate(queries[0][:3])))  # type: ignore[arg-type]
        for is_edges, start, end, answers in queries:
            for x, y, answer in zip(start, end, answers):
                began = time.perf_counter()
                found = one(is_edges, x, y)
                times.append(1e3 * (time.perf_counter() - began))
                wrong[found] += found != bool(answer)
        note = f"{len(times)} queries: {wrong[True]} false positives, {wrong[False]} false negatives; worst {max(times):.3g} ms"
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
        step = approaching(level, 0.5)
        tree = impinge.ContinuousTree(step.a, step.b)
        (row,) = measure(
            "growth", [Candidate(step.name, lambda _: tree.query(end_a=step.end_a, end_b=step.end_b))], [None], rounds=3
        )
        base = rows[0].min_ms if rows else row.min_ms
        note = f"{1e6 * row.min_ms / (2 * len(step.a.faces)):.3g} ns per triangle"
        rows.append(replace(row, ratio=row.min_ms / base, note=note))
    return rows
