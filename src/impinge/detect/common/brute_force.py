"""Every triangle against every triangle: the judge of all other methods.

1. Box.   Fit a box around each triangle.
2. Count. For each triangle of a, count the boxes of b that it meets.
3. Fill.  Write these candidates, in blocks of rows that hold a bounded number of them.
4. Test.  Decide each candidate exactly.

Cost       n·m box tests twice, some 1 ns each; 10^9 pairs take seconds.
Guarantee  exact: the pairs that rational arithmetic gives. Memory is bounded by the block and the result.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from impinge.backend.scan import exclusive_scan
from impinge.backend.stages import start_stages
from impinge.checks import Floats
from impinge.detect.common import brute_force_kernels as kernels
from impinge.detect.common.narrow_phase import Neighbours, check_neighbours, classify, classify_self
from impinge.detect.common.pair_query import Keys, PairOptions, Side, finish_pairs, pair_options
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.mesh.body import as_surface

BLOCK_CANDIDATES = 1 << 22
"""Candidates held at a time: 40 MB with their kinds."""


class BruteForce:
    """All pairs of two bodies, or of one with itself, by testing all of them."""

    name = "brute_force"

    def __init__(self, a: Any, b: Any = None, *, neighbours: Neighbours = "exact") -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self._skip_neighbours = check_neighbours(neighbours, is_self=b is None)

    def query(self, **options: Any) -> TrianglePairs:
        """Find all pairs as the bodies are now; options as in ``PairOptions``."""
        began = perf_counter()
        wanted = pair_options(options, is_self=self.b is None)
        a = wanted.side_a(self.a)
        b = a if self.b is None else wanted.side_b(self.b)
        stages = start_stages()
        stats: dict[str, Any] = {"box_tests": 0, "candidates": 0, "triangle_tests": 0, "exact_tests": 0}
        keys, reason = self._search(a, b, wanted, stats, stages)
        stats["hits"] = len(keys)
        stats.update(stages.times())
        return finish_pairs(
            keys,
            wanted,
            is_self=self.b is None,
            method=self.name,
            stats=stats,
            reason=reason,
            bodies=(self.a,) if self.b is None else (self.a, self.b),
            began=began,
        )

    def _search(
        self, a: Side, b: Side, options: PairOptions, stats: dict[str, Any], stages: Any
    ) -> tuple[Keys, Reason | None]:
        is_self = self.b is None
        box_a = _boxes(a)
        box_b = box_a if is_self else _boxes(b)
        with np.errstate(over="ignore"):
            extent = _largest(box_a) + _largest(box_b)  # boxes that overlap lie in a box of this size
        stages.done("boxes")
        count = np.zeros(len(a.ids), dtype=np.int64)
        kernels.count_overlaps.over(len(count))(box_a, box_b, is_self, count)
        start = exclusive_scan(count)
        stats["box_tests"] = len(a.ids) * (len(a.ids) - 1) // 2 if is_self else len(a.ids) * len(b.ids)
        stats["candidates"] = int(start[-1])
        stages.done("count")
        found: list[Keys] = [np.zeros(0, dtype=np.uint64)]
        first = 0
        while first < len(a.ids):
            if options.cancelled:
                return np.concatenate(found), "cancelled"
            last = max(first + 1, int(np.searchsorted(start, start[first] + BLOCK_CANDIDATES, side="right")) - 1)
            candidate_count = int(start[last] - start[first])
            pair_a, pair_b = np.zeros((2, candidate_count), dtype=np.int32)
            kernels.fill_overlaps.over(last - first)(
                box_a, box_b, is_self, first, last, start, a.ids, b.ids, pair_a, pair_b
            )
            stages.done("fill")
            if is_self:
                found.append(classify_self(a, pair_a, pair_b, self._skip_neighbours, extent, stats))
            else:
                found.append(classify(a, b, pair_a, pair_b, extent, stats))
            stages.done("test")
            first = last
        return np.concatenate(found), None


def _largest(box: Floats) -> Floats:
    """The largest extent of any box along each axis."""
    if not box.shape[1]:
        return np.zeros(3)
    with np.errstate(over="ignore"):
        return np.asarray((box[3:] - box[:3]).max(axis=1))


def _boxes(side: Side) -> Floats:
    """Boxes of the triangles to test, shape (6, count): lo xyz, hi xyz."""
    box = np.zeros((6, len(side.ids)))
    kernels.fit_triangle_boxes.over(len(side.ids))(side.vertices, side.faces, side.ids, box)
    return box
