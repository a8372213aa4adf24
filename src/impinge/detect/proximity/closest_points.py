"""For each point the nearest point of a surface: down the tree of boxes, nearest first.

1. Fit    the boxes of all levels (``whole_tree``).
2. Order  the points along a curve that stays local, so that each is near the one before.
3. Descend from the root. The eight children of a node are sorted by their distance to the point in a few instructions
          (``backend.nearest``); a child that is farther than the best triangle so far ends its node. So are eight
          triangles, by float32 bounds, before the few that may be nearest are measured in doubles. The search starts
          from the triangle of the point before, which bounds it but cannot change its answer.
4. Far    points, whose squared distance has no room in a float32, are answered apart, those of about one size together,
          with the body scaled to them: they change no bit of the answers for the others.
5. Inside closed bodies or not: by the exact test of ``points_inside``.

Answer    The triangle with the least distance as computed (``features_kernels``); of triangles whose computed distances
          are equal the lowest id. That does not depend on the order of the search, since boxes at equal distance are
          always opened: the same bits for any number of threads. A point over an edge or a vertex may be over the
          inside of one of the triangles there by a rounding, and the last bit of its distance then decides.
Error     of the distance: about 1e-14 of the distance to the triangle's farthest corner; of the point: that, and a
          rounding of its coordinates.
Cost      refit, then O(log n) per point; nothing is built.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.jit import thread_count
from impinge.backend.stages import Stages, start_stages
from impinge.checks import Bools, Cancel, Floats, Ints, Stats, as_positions
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, fit_trees, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, fit_in_range, whole_tree
from impinge.detect.common.nearest_results import ClosestPoints
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.proximity import closest_points_kernels as kernels
from impinge.detect.proximity.points_inside import inside_posed
from impinge.mesh.body import SurfaceLike, as_surface

PER_LAUNCH = 1 << 16
"""Points answered between two looks at ``cancel``."""
FARTHEST = 2.0**61
"""Coordinates up to which squares of differences have room in a float32."""
BAND = 32
"""Far points whose sizes differ by less than this power of two are answered together."""
NO_BAND = np.iinfo(np.int64).max


class _Rows(NamedTuple):
    """The answer, a row per point; what a row holds that got none."""

    distance: Floats
    point: Floats
    triangle: Ints
    barycentric: Floats


def closest_points(
    a: SurfaceLike,
    points: ArrayLike,
    *,
    inside: bool = True,
    transform_a: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> ClosestPoints:
    """Find the nearest point of a surface, and its triangle, for each of many points.

    Parameters
    ----------
    a : body
        As in ``triangle_pairs``.
    points : array_like, shape (n, 3)
        Query points.
    inside : bool
        Also decide exactly which points are inside ``a``, as ``points_inside`` does.
    transform_a, active_a, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    ClosestPoints
        One row per point. Of several triangles at the same computed distance, the lowest id. Without triangles, and
        for points without an answer when the query was cancelled, distances are infinite, triangles -1, points NaN.
    """
    began = perf_counter()
    body, options = as_surface(a, name="a"), PairOptions(transform_a, active_a=active_a, cancel=cancel)
    stages = start_stages()
    asked = as_positions(points, name="points")
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        posed = with_moved_vertices(pose_tree(body, tree, options.transform_a, options.active_a, "a"), "a")
        rows, whole = _answer(posed, asked, options, stages)
        cancelled = options.cancelled
        is_inside: Bools | None = None
        if inside and not cancelled:
            if whole is None:
                fit_trees(posed)
                whole = whole_tree(posed, only=posed.active)
            is_inside = inside_posed(posed, whole, 1.0 * asked)  # a copy: Numba compiles anew for read-only ones
            stages.done("inside")
    return ClosestPoints(
        **rows._asdict(),
        inside=is_inside,
        complete=not cancelled,
        reason="cancelled" if cancelled else None,
        method="box_tree",
        stats=Stats(stages.times()),
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _answer(posed: PosedTree, asked: Floats, options: PairOptions, stages: Stages) -> tuple[_Rows, WholeTree | None]:
    """Answers for all points, far ones apart, and the tree, unless it is fitted to a scaled body now."""
    count = len(asked)
    rows = _Rows(
        np.full(count, np.inf), np.full((count, 3), np.nan), np.full(count, -1, np.int32), np.full((count, 3), np.nan)
    )
    (fitted,), factor = fit_in_range([posed])
    whole = whole_tree(fitted, only=fitted.active)
    stages.done("refit")
    with np.errstate(over="ignore"):
        points = factor * asked
    if float(np.abs(points).max(initial=0.0)) <= FARTHEST:
        _answer_near(points, factor, whole, options, stages, rows)
        return rows, whole if factor == 1.0 else None
    size = np.abs(asked).max(axis=1)
    is_near = np.abs(points).max(axis=1) <= FARTHEST
    band = np.where(is_near, NO_BAND, np.frexp(size)[1] // BAND)
    for number in np.unique(band)[::-1]:  # near points first, with the tree as it is
        which = np.flatnonzero(band == number)
        if number != NO_BAND:
            (fitted,), factor = fit_in_range([posed], float(size[which].max()))
            whole = whole_tree(fitted, only=fitted.active)
        part = _Rows._make(column[which] for column in rows)
        _answer_near(factor * asked[which], factor, whole, options, stages, part)
        rows.distance[which], rows.point[which] = part.distance, part.point
        rows.triangle[which], rows.barycentric[which] = part.triangle, part.barycentric
    return rows, None


def _answer_near(
    points: Floats, factor: float, whole: WholeTree, options: PairOptions, stages: Stages, rows: _Rows
) -> None:
    """Write answers for points that float32 has room for beside the body, both scaled by ``factor``."""
    # An order in which neighbours are near: numbers whose low 32 bits are those of the points.
    codes = np.arange(len(points), dtype=np.int64)
    if len(points) > kernels.RUN:
        low = points.min(axis=0)
        extent = points.max(axis=0) - low
        per_unit = (1 << kernels.BITS) / np.where(extent > 0.0, extent, np.inf)
        kernels.code_points.over(len(points))(points, low, per_unit, codes)
        codes.sort()
    stages.done("order")
    for first in range(0, len(points), PER_LAUNCH):
        if options.cancelled:
            break
        end = min(first + PER_LAUNCH, len(points))
        counter = np.zeros(1, dtype=np.int64)
        kernels.answer_points.over(end - first)(
            first, end, points, codes, tuple(whole), thread_count(), counter, tuple(rows)
        )
    if factor != 1.0:
        rows.distance[:] /= factor
        rows.point[:] /= factor
    stages.done("search")
