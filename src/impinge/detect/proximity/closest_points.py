"""The nearest point of a surface for each query point: best-first descent of the tree of boxes.

1. Fit     the boxes of all levels (``whole_tree``).
2. Order   the points along a Morton curve: consecutive points are near each other.
3. Descend from the root. The eight children of a node are sorted by their distance to the point in a few instructions
           (``backend.simd.nearest``); a child farther than the nearest triangle so far ends its node. Eight triangles
           are sorted likewise, by float32 bounds, before the few that may be nearest are measured in doubles. The
           search starts from the triangle of the previous point, which bounds it but cannot change its answer.
4. Far     points, whose squared distance overflows float32, are answered separately, in bands of similar size, with
           the body scaled to them: they change no bit of the other answers.
5. Inside  closed bodies or not: by the exact test of ``points_inside``.

Answer     The triangle with the least computed distance (``features_kernels``); of triangles with equal computed
           distances the lowest id. The order of the search has no influence, since boxes at equal distance are always
           opened: the same bits for any number of threads. A point above an edge or a vertex may project into the
           interior of an adjacent triangle by rounding; then the last bit of its distance decides.
Error      of the distance: about 1e-14 of the distance to the triangle's farthest corner; of the point: that, and a
           rounding of its coordinates.
Cost       refit, then O(log n) per point; nothing is built.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.backend.stages import Stages, start_stages
from impinge.checks import Bools, Cancel, Floats, Ints, Stats, as_flag, as_number, as_positions
from impinge.detect.boxes.tree import TreeOfBoxes, fit_trees, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, fit_in_range, whole_tree
from impinge.detect.common.nearest_results import ClosestPoints
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.proximity import closest_points_kernels as kernels
from impinge.detect.proximity.points_inside import inside_posed
from impinge.mesh.body import SurfaceLike, as_surface

PER_LAUNCH = 1 << 16
"""Points answered between two checks of ``cancel``."""
FARTHEST = 2.0**61
"""Largest coordinate for which squares of differences fit into a float32."""
BAND = 32
"""Far points whose sizes differ by less than this power of two are answered together."""
NEAR = -(2**31)
"""The band of all other points."""
MARGIN = 1e-12
"""Relative excess of the bound of the search over ``within``: the computed distance decides."""

Rows = tuple[Floats, Floats, Ints, Floats]
"""Distance, nearest point, triangle and weights of each point."""


def closest_points(
    a: SurfaceLike,
    points: ArrayLike,
    *,
    inside: bool = True,
    within: float | None = None,
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
    within : float, optional
        Largest distance that counts. Points farther away have no answer, and take little time.
    transform_a, active_a, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    ClosestPoints
        One row per point. Of several triangles at the same computed distance, the lowest id. Points without an answer
        have infinite distances, triangle -1 and NaN as point: all without triangles, those not within ``within``, and
        the rest of a query that was cancelled.
    """
    began = perf_counter()
    inside = as_flag(inside, "inside")
    limit = np.inf if within is None else as_number(within, "within", "a number from 0, or None", least=0.0)
    body, options = as_surface(a, name="a"), PairOptions(transform_a, active_a=active_a, cancel=cancel)
    stages = start_stages()
    p = as_positions(points, name="points")
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        posed = with_moved_vertices(pose_tree(body, tree, options.transform_a, options.active_a, "a"), "a")
        (fitted,), factor = fit_in_range([posed])
        whole = whole_tree(fitted, only=fitted.active)
        stages.done("refit")
        with np.errstate(over="ignore"):
            scaled = factor * p
        if np.abs(scaled).max(initial=0.0) <= FARTHEST:
            rows = _search(scaled, factor, limit, whole, options, stages)
        else:
            rows, size = _no_rows(len(p)), np.abs(p).max(axis=1)
            band = np.where(np.abs(scaled).max(axis=1) <= FARTHEST, NEAR, np.frexp(size)[1] // BAND)
            for number in np.unique(band):
                which = np.flatnonzero(band == number)
                if number != NEAR:
                    (fitted,), factor = fit_in_range([posed], float(size[which].max()))
                    whole = whole_tree(fitted, only=fitted.active)
                found = _search(factor * p[which], factor, limit, whole, options, stages)
                rows[0][which], rows[1][which], rows[2][which], rows[3][which] = found
        cancelled = options.cancelled
        is_inside: Bools | None = None
        if inside and not cancelled:
            if fitted is not posed:
                fit_trees(posed)
                whole = whole_tree(posed, only=posed.active)
            is_inside = inside_posed(posed, whole, 1.0 * p)  # a copy: Numba specialises kernels on read-only arrays
            stages.done("inside")
    return ClosestPoints(
        distance=rows[0],
        point=rows[1],
        triangle=rows[2],
        barycentric=rows[3],
        inside=is_inside,
        complete=not cancelled,
        reason="cancelled" if cancelled else None,
        method="box_tree",
        stats=Stats(stages.times()),
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _no_rows(count: int) -> Rows:
    nothing = np.full(count, np.inf), np.full((count, 3), np.nan)
    return *nothing, np.full(count, -1, np.int32), np.full((count, 3), np.nan)


def _search(
    points: Floats, factor: float, limit: float, whole: WholeTree, options: PairOptions, stages: Stages
) -> Rows:
    """Answers for points that fit into float32 beside the body; both are scaled by ``factor``."""
    count = len(points)
    with np.errstate(over="ignore"):
        square = float(np.square(factor * limit * (1.0 + MARGIN)))
    codes: NDArray[np.int64] = np.arange(count)
    if count > kernels.RUN:
        low = points.min(axis=0)
        extent = points.max(axis=0) - low
        per_unit = (1 << kernels.BITS) / np.where(extent > 0.0, extent, np.inf)
        kernels.code_points.over(count)(points, low, per_unit, codes)
        codes.sort()
    stages.done("order")
    rows = _no_rows(count)
    for first in range(0, count, PER_LAUNCH):
        if options.cancelled:
            break
        end, counter = min(first + PER_LAUNCH, count), np.zeros(1, dtype=np.int64)
        kernels.answer_points.over(end - first)(
            first, end, points, codes, tuple(whole), square, thread_count(), counter, rows
        )
    stages.done("search")
    rows = rows if factor == 1.0 else (rows[0] / factor, rows[1] / factor, rows[2], rows[3])
    far = rows[0] > limit
    rows[0][far], rows[1][far], rows[2][far], rows[3][far] = np.inf, np.nan, -1, np.nan
    return rows
