"""For each point the nearest point of a surface: down the tree of boxes, nearest first.

1. Fit    the boxes of all levels (``whole_tree``).
2. Order  the points along a curve that stays local, so that each is near the one before.
3. Descend from the root. The eight children of a node are sorted by their distance to the point in a few instructions
          (``backend.nearest``); a child that is farther than the best triangle so far ends its node. So are eight
          triangles, by float32 bounds, before the few that may be nearest are measured in doubles. The search starts
          from the triangle of the point before, which bounds it but cannot change its answer.
4. Inside closed bodies or not: by the exact test of ``points_inside``.

Answer    The triangle with the least distance as computed (``features_kernels``), the lowest id of several; that does
          not depend on the order of the search, since boxes at equal distance are always opened. So the same bits for
          any number of threads. Where an edge or vertex is nearest, the lowest id around it is the answer.
Error     of the distance: about 1e-14 of the distance to the triangle's farthest corner; of the point: that, and a
          rounding of its coordinates.
Cost      refit, then O(log n) per point; nothing is built.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Floats, Ints, as_positions
from impinge.backend.jit import thread_count
from impinge.backend.stages import Stages, start_stages
from impinge.detect import closest_points_kernels as kernels
from impinge.detect.pair_query import PairOptions
from impinge.detect.points_inside import inside_placed
from impinge.detect.results import ClosestPoints
from impinge.detect.tree_of_boxes import TreeOfBoxes, place, with_moved_vertices
from impinge.detect.whole_tree import WholeTree, fit_in_range, whole_tree
from impinge.mesh.tri_mesh import TriMesh

PER_LAUNCH = 1 << 16
"""Points answered between two looks at ``cancel``."""


class _Rows(NamedTuple):
    """The answer, a row per point; what a row holds that got none."""

    distance: Floats
    point: Floats
    triangle: Ints
    barycentric: Floats


def closest_points(body: TriMesh, points: Any, options: PairOptions, *, inside: bool) -> ClosestPoints:
    """The nearest point of ``body`` for each of ``points``; of the options those of a, and ``cancel``."""
    began = perf_counter()
    stages = start_stages()
    asked = as_positions(points, name="points")
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        placed = with_moved_vertices(place(body, tree, options.transform_a, options.active_a, "a"), "a")
        (fitted,), factor = fit_in_range([placed], float(np.abs(asked).max(initial=0.0)))
        whole = whole_tree(fitted, only=fitted.active)
        stages.done("refit")
        asked = factor * asked
        rows = _answer(asked, whole, options, stages)
        cancelled = options.cancelled
        is_inside: Bools | None = None
        if inside and not cancelled:
            is_inside = inside_placed(fitted, whole, asked)
            stages.done("inside")
    return ClosestPoints(
        distance=rows.distance / factor,
        point=rows.point / factor,
        triangle=rows.triangle,
        barycentric=rows.barycentric,
        inside=is_inside,
        complete=not cancelled,
        reason="cancelled" if cancelled else None,
        method="box_tree",
        stats=stages.times(),
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _answer(points: Floats, whole: WholeTree, options: PairOptions, stages: Stages) -> _Rows:
    count = len(points)
    rows = _Rows(
        np.full(count, np.inf), np.full((count, 3), np.nan), np.full(count, -1, np.int32), np.full((count, 3), np.nan)
    )
    codes = _in_order(points)
    stages.done("order")
    for first in range(0, count, PER_LAUNCH):
        if options.cancelled:
            break
        end = min(first + PER_LAUNCH, count)
        counter = np.zeros(1, dtype=np.int64)
        kernels.answer_points.over(end - first)(
            first, end, points, codes, tuple(whole), thread_count(), counter, tuple(rows)
        )
    stages.done("search")
    return rows


def _in_order(points: Floats) -> NDArray[np.int64]:
    """The points in an order in which neighbours are near, as numbers whose low 32 bits are those of the points."""
    codes = np.arange(len(points), dtype=np.int64)
    if len(points) > kernels.RUN:
        low = points.min(axis=0)
        extent = points.max(axis=0) - low
        per_unit = (1 << kernels.BITS) / np.where(extent > 0.0, extent, np.inf)
        kernels.code_points.over(len(points))(points, low, per_unit, codes)
        codes.sort()
    return codes
