"""What each method for triangle pairs costs over all scenes, the model that ``method="auto"`` goes by, and how it does.

Measured  Every scene, its first two bodies: when they are new (trees have to be built), and kept, after an update of
          both.
          Brute force is left out where it would take seconds. Methods must find the same number of pairs.
Fit       Costs of at least 0 for each term of ``auto`` that make the relative errors of all sums small (least squares).
Judged    What auto takes, timed with the others in turns, beside the best of them.

    python -m impinge.bench.auto_fit src/impinge/auto_costs.json

measures and writes the costs that the package ships.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from impinge import auto, queries, scenes
from impinge.bench.measure import Row, interleaved, machine
from impinge.errors import ImpingeError
from impinge.mesh.tri_mesh import TriMesh

METHODS = ("box_tree", "breadth_first", "brute_force", "spatial_hash")
MOST_PAIRS = 10_000_000
"""Pairs of triangles that brute force is asked about."""
QUICK = ("crossing_triangles", "boxes_overlapping_by_half", "nested_spheres")


class Sample(NamedTuple):
    """One scene in one state."""

    scene: str
    terms: Any
    """How often each term of the model occurs."""
    milliseconds: dict[str, float]
    """By method, the least of all rounds."""
    chosen: str
    """What auto takes by the costs that are shipped."""
    rows: list[Row]


def run(*, quick: bool = False) -> list[Row]:
    """Time all methods on all scenes, and tell how far auto is from the best."""
    samples = list(_samples(QUICK if quick else scenes.names(), rounds=2 if quick else 7))
    rows = []
    for sample in samples:
        best = min(sample.milliseconds, key=lambda name: sample.milliseconds[name])
        slower = sample.milliseconds[sample.chosen] / sample.milliseconds[best]
        note = f"auto takes {sample.chosen}, {slower:.2f} times the best, {best}"
        rows += [replace(row, note=note) for row in sample.rows]
    return rows


def _samples(names: Any, rounds: int) -> Iterator[Sample]:
    for name in names:
        a, b = scenes.get(name).surfaces[:2]
        known = [m for m in METHODS if m != "brute_force" or len(a) * len(b) <= MOST_PAIRS]
        _check(name, a, b, known)
        for state, turn in (("new", _new), ("kept", _kept)):
            fresh = [_copy(body) for body in (a, b)] if state == "new" else [a, b]
            terms = auto.features(*fresh)
            chosen, _ = auto.choose_pairs(*fresh)
            rows = interleaved(f"{name}, {state}", {m: turn(a, b, m) for m in known}, rounds=rounds)
            yield Sample(name, terms, {row.candidate: row.min_ms for row in rows}, chosen, rows)


def _copy(body: TriMesh) -> TriMesh:
    return TriMesh(body.vertices, body.faces[body.alive], validate="trust")


def _new(a: TriMesh, b: TriMesh, method: str) -> Callable[[], object]:
    def turn() -> object:
        return queries.triangle_pairs(_copy(a), _copy(b), method=method)

    return turn


def _kept(a: TriMesh, b: TriMesh, method: str) -> Callable[[], object]:
    a, b = _copy(a), _copy(b)
    queries.triangle_pairs(a, b, method="box_tree")

    def turn() -> object:
        for body in (a, b):
            body.update(body.vertices)
        return queries.triangle_pairs(a, b, method=method)

    return turn


def _check(scene: str, a: TriMesh, b: TriMesh, methods: list[str]) -> None:
    counts = {method: len(queries.triangle_pairs(a, b, method=method)) for method in methods}
    if len(set(counts.values())) > 1:
        raise ImpingeError(f"methods disagree about {scene}: {counts}; times would mean nothing")


def fit(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Microseconds of each term, by method."""
    from scipy.optimize import nnls

    fitted = {}
    for method in METHODS:
        known = [sample for sample in samples if method in sample.milliseconds]
        times = np.array([1e3 * sample.milliseconds[method] for sample in known])
        terms = np.stack([sample.terms for sample in known])
        scale = terms.max(axis=0)  # numbers of one size for the solver
        found, _ = nnls(terms / scale / times[:, None], np.ones(len(times)))
        fitted[method] = {name: float(f"{value:.4g}") for name, value in zip(auto.TERMS, found / scale)}
    return fitted


def main(path: str) -> None:
    """Measure, fit and write."""
    fitted = fit(list(_samples(scenes.names(), rounds=7)))
    Path(path).write_text(json.dumps({"machine": machine(), "microseconds": fitted}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
