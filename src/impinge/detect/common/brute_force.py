"""Every triangle against every triangle: the reference for all other methods.

1. Box.   Fit a box around each triangle.
2. Count. For each triangle of a, count the boxes of b that it meets.
3. Fill.  Write these candidates, in blocks of rows that hold a bounded number of them.
4. Test.  Decide each candidate exactly.

Cost       n·m box tests twice, some 1 ns each; 10^9 pairs take seconds.
Guarantee  exact: the pairs that rational arithmetic gives. Memory is bounded by the block and the result.
"""

from __future__ import annotations

import numpy as np

from impinge.backend.scan import exclusive_scan
from impinge.backend.stages import Stages
from impinge.checks import Floats, Stats
from impinge.detect.common import brute_force_kernels as kernels
from impinge.detect.common.narrow_phase import classify
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, QueryBody
from impinge.detect.common.results import Reason

BLOCK_CANDIDATES = 1 << 22
"""Candidates held at a time: 40 MB with their kinds."""


class BruteForce(PairDetector):
    """All intersecting pairs of two bodies, or of one with itself, by testing all pairs of boxes."""

    name = "brute_force"

    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        a, b = options.query_bodies(self.a, self.b)
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
        found: list[Keys] = [NO_KEYS]
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
            found.append(
                classify(a, b, pair_a, pair_b, extent, stats, is_self=is_self, skip_neighbours=self._skip_neighbours)
            )
            stages.done("test")
            first = last
        return np.concatenate(found), None


def _largest(box: Floats) -> Floats:
    """The largest extent of any box along each axis."""
    if not box.shape[1]:
        return np.zeros(3)
    with np.errstate(over="ignore"):
        return np.asarray((box[3:] - box[:3]).max(axis=1))


def _boxes(body: QueryBody) -> Floats:
    """Boxes of the triangles to test, shape (6, count): lo xyz, hi xyz."""
    box = np.zeros((6, len(body.ids)))
    kernels.fit_triangle_boxes.over(len(body.ids))(body.vertices, body.faces, body.ids, box)
    return box
