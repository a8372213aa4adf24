"""The cost of exactness: the narrow phase with the exact test against the same loop in plain doubles.

Candidates are those of a detector: pairs of triangles with overlapping boxes, of deforming bodies. One thread excludes
the cost of launching threads. The claim: at most 1.2 times the plain test on generic data, where the filter decides all
pairs. Degenerate scenes, on which the plain test is wrong, are shown for comparison.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks import triangle_test_kernels as plain
from benchmarks.measure import Row, interleaved
from impinge import scenes
from impinge.backend.scan import exclusive_scan
from impinge.checks import Floats, Ints
from impinge.detect.common import brute_force_kernels as boxes
from impinge.detect.common import narrow_phase_kernels as exact
from impinge.detect.common.pair_query import QueryBody, query_body
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound

SCENES = {
    "generic": ("bumpy_spheres_1k", "bumpy_spheres_20k", "knots_12k"),
    "degenerate": ("two_boxes_sharing_a_face", "boxes_overlapping_by_half"),
}
LEAST_CANDIDATES = 100_000
"""Candidates of small scenes are repeated up to this number: a round takes milliseconds."""


def run(*, quick: bool = False) -> list[Row]:
    """Time both tests alternately; on generic scenes they must agree."""
    rows: list[Row] = []
    for kind, names in SCENES.items():
        for name in names:
            rows += _measure(name, generic=kind == "generic", rounds=5 if quick else 40)
    return rows


def largest_extent(side: QueryBody) -> Floats:
    """The largest extent of any triangle along each axis."""
    return np.asarray(np.ptp(side.vertices[side.faces[side.ids]], axis=1).max(axis=0))


def _candidates(a: QueryBody, b: QueryBody) -> tuple[Ints, Ints]:
    box_a, box_b = (np.zeros((6, len(side.ids))) for side in (a, b))
    boxes.fit_triangle_boxes(a.vertices, a.faces, a.ids, box_a)
    boxes.fit_triangle_boxes(b.vertices, b.faces, b.ids, box_b)
    count = np.zeros(len(a.ids), dtype=np.int64)
    boxes.count_overlaps(box_a, box_b, False, count)
    start = exclusive_scan(count)
    pair_a, pair_b = np.zeros((2, start[-1]), dtype=np.int32)
    boxes.fill_overlaps(box_a, box_b, False, 0, len(a.ids), start, a.ids, b.ids, pair_a, pair_b)
    repeats = -(-LEAST_CANDIDATES // len(pair_a))
    return np.tile(pair_a, repeats), np.tile(pair_b, repeats)


def _measure(name: str, *, generic: bool, rounds: int) -> list[Row]:
    a, b = (query_body(body) for body in scenes.get(name).surfaces)
    pair_a, pair_b = _candidates(a, b)
    arrays = (a.vertices, a.faces, b.vertices, b.faces, pair_a, pair_b)
    bound = error_bound(*(largest_extent(a) + largest_extent(b)))
    plain_kind, exact_kind = np.zeros((2, len(pair_a)), dtype=np.int8)

    def run_plain(_: object) -> None:
        plain.classify_pairs_plain.serial(*arrays, plain_kind)

    def run_exact(_: object) -> None:
        exact.classify_pairs.serial(*arrays, bound, exact_kind)
        rows = np.flatnonzero(exact_kind == UNCERTAIN)
        exact.resolve_pairs.serial(*arrays, rows, exact_kind)

    rows = interleaved(name, {"plain doubles": run_plain, "exact": run_exact}, [None], rounds=rounds)
    wrong = int(((plain_kind != 0) != (exact_kind != NONE)).sum())
    if generic and wrong:
        raise AssertionError(f"{name}: the plain test differs on {wrong} pairs; its time does not count")
    hits = float(np.mean(exact_kind != NONE))
    note = f"{len(pair_a)} candidates, {hits:.0%} hits, plain test wrong on {wrong}"
    return [replace(row, note=note) for row in rows]
