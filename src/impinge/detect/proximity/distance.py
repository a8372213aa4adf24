"""The smallest distance of two surfaces: branch and bound over two trees of boxes.

1. Meet    If triangles meet, the distance is 0, and the first pair that ``BoxTree`` finds is the answer. That is exact.
2. Descend both trees together, the nearest pair of nodes first. Pairs of boxes farther apart than the nearest pair of
           triangles so far are pruned. The 64 pairs of children of two nodes are compared eight at once.
3. Measure a pair of triangles by its six corners against triangles and nine pairs of edges (``features_kernels``),
           unless the gap along the normal of either exceeds the least distance so far.
4. Share   Most searches end after a few thousand pairs. Where surfaces run parallel over a long way, threads claim the
           remaining pairs and share the least distance so far. In a query with ``cancel`` each thread returns after
           some thousand pairs for a check.

Answer     The pair with the least computed distance; of pairs with equal computed distances the one with the lowest
           ids: the same bits for any number of threads. ``proximity`` measures features by the same functions.
Error      About 1e-14 of the size of the triangles and their distance. The distance is 0 only if triangles meet: a
           positive distance that underflows is returned as the smallest positive number.
Cost       refit, then little more than the pairs of triangles about as near as the nearest.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.jit import thread_count
from impinge.checks import Cancel, Floats, Stats, as_number
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, lock_both, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, factor_for, fit_in_range, whole_tree
from impinge.detect.common.nearest_results import Distance
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions
from impinge.detect.common.results import Reason
from impinge.detect.proximity import distance_kernels as kernels
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

SERIAL_PAIRS = 4096
"""Pairs of nodes and triangles that one thread processes before the others join."""
PAIRS_PER_CHECK = 1 << 16
"""Pairs per thread between two checks of ``cancel``: some ten milliseconds."""
SLACK = 1.0 + 2.0**-50
"""Enlargement of the square of a limit: the square of a rounded root may be less than the square."""
NO_LIMIT = 2**62
NOWHERE: Floats = np.full(3, np.nan)
SMALLEST = math.ulp(0.0)


class _Nearest(NamedTuple):
    """The nearest pair of triangles."""

    distance: float = math.inf
    point_a: Floats = NOWHERE
    point_b: Floats = NOWHERE
    triangles: tuple[int, int] = (-1, -1)


def distance(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    upper: float | None = None,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> Distance:
    """Find the smallest distance between the surfaces of two bodies, its points and its triangles.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``.
    upper : float, optional
        Bodies farther apart than this have an infinite distance, which is found sooner.
    transform_a, transform_b, active_a, active_b, ignore, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    Distance
        0 exactly if triangles meet. For a body inside another, the distance between their surfaces. Of several
        triangle pairs with the same computed distance, the one with the lowest ids.
    """
    began = perf_counter()
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel)
    limit = math.inf
    if upper is not None:
        limit = as_number(upper, "upper", "a distance, 0 or more, or None for no limit", least=0.0)
    nearest, stats, reason = _find(as_surface(a, name="a"), as_surface(b, name="b"), options, limit)
    return Distance(
        distance=nearest.distance,
        upper=limit,
        point_a=nearest.point_a,
        point_b=nearest.point_b,
        triangles=np.array(nearest.triangles, dtype=np.int32),
        complete=reason is None,
        reason=reason,
        method=BoxTree.name,
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _find(a: TriMesh, b: TriMesh, options: PairOptions, upper: float) -> tuple[_Nearest, Stats, Reason | None]:
    """The answer for one state of both bodies; repeated if another thread changed them meanwhile."""
    tree_a = a.structure("boxes", TreeOfBoxes)
    tree_b = TreeOfBoxes(b) if b is a else b.structure("boxes", TreeOfBoxes)
    first, second = lock_both(tree_a, tree_b)
    detector = BoxTree(a, b)
    while True:
        versions = a.version, b.version
        pairs = detector.find(options)
        if not pairs.complete or options.cancelled:
            return _Nearest(), pairs.stats, "cancelled"
        with first, second:
            posed_a = with_moved_vertices(pose_tree(a, tree_a, options.transform_a, options.active_a, "a"), "a")
            posed_b = with_moved_vertices(pose_tree(b, tree_b, options.transform_b, options.active_b, "b"), "b")
            if versions != (posed_a.state.version, posed_b.state.version):
                continue
            if not len(pairs):
                return _nearest(posed_a, posed_b, options, upper)
            # A common point of the first pair, scaled by a power of two: products stay in range.
            i, j = (int(t) for t in pairs.pairs[0])
            corners = np.stack([posed_a.x[posed_a.state.faces[i]], posed_b.x[posed_b.state.faces[j]]])
            factor = factor_for(float(np.abs(corners).max()))
            points = np.array(kernels.common_points(*map(_rows, factor * corners))) / factor
            return _Nearest(0.0, points[0], points[1], (i, j)), pairs.stats, None


def _rows(corners: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, corners.tolist()))


def _nearest(a: PosedTree, b: PosedTree, options: PairOptions, upper: float) -> tuple[_Nearest, Stats, Reason | None]:
    """The nearest triangles of two bodies that do not meet, if they are no farther apart than ``upper``."""
    (a, b), factor = fit_in_range([a, b])
    trees = whole_tree(a, only=a.active), whole_tree(b, only=b.active)
    ignored = NO_KEYS if options.ignored is None else options.ignored
    best, stats = _search(*trees, ignored, factor * upper, options)
    if best is None:
        return _Nearest(), stats, "cancelled"
    i, j, *at = (int(value) for value in best[1:5])
    if at[0] < 0:
        return _Nearest(), stats, None
    faces = [tree.order_face[k] for tree, k in zip(trees, at)]
    s, t = (_rows(tree.x[face]) for tree, face in zip(trees, faces))
    square, *points = kernels.closest_on_triangles(s, tuple(faces[0]), t, tuple(faces[1]))
    length = max(math.sqrt(square) / factor, SMALLEST)
    if length > upper:
        return _Nearest(), stats, None
    return _Nearest(length, np.array(points[0]) / factor, np.array(points[1]) / factor, (i, j)), stats, None


def _search(
    a: WholeTree, b: WholeTree, ignored: Keys, upper: float, options: PairOptions
) -> tuple[Floats | None, Stats]:
    """Squared distance, triangles and their positions in tree order; positions -1 without a pair, None if cancelled."""
    bound = np.array([upper * upper * SLACK])
    top, threads = max(a.top, b.top), thread_count()
    room = (top + 2) * kernels.STEP
    stack_key, stack_pair = np.zeros((threads, room), dtype=np.int32), np.zeros((threads, room, 3), dtype=np.int64)
    best = np.array([[bound[0], kernels.FARTHEST_ID, kernels.FARTHEST_ID, -1.0, -1.0]])
    entry_key, entry_pair = np.zeros(1, dtype=np.int32), np.array([[top, 0, 0]])
    count, most, parts = 1, SERIAL_PAIRS, -1  # one thread first
    while len(entry_key):
        if parts >= 0 and options.cancelled:
            return None, {"parts": parts}
        counter = np.zeros(1, dtype=np.int64)
        left = kernels.search_parts.over(len(entry_key))(
            tuple(a), tuple(b), ignored, bound, best, entry_key, entry_pair, most, stack_key[:count],
            stack_pair[:count], counter,
        )  # fmt: skip
        rest = max(len(entry_key) - int(counter[0]), 0)
        entry_key = np.concatenate([entry_key[:rest], *(keys[:n] for keys, n in zip(stack_key, left))])
        entry_pair = np.concatenate([entry_pair[:rest], *(pairs[:n] for pairs, n in zip(stack_pair, left))])
        if parts < 0:
            count, most, parts = threads, NO_LIMIT if options.cancel is None else PAIRS_PER_CHECK, len(entry_key)
            best = np.tile(best, (threads, 1))
    return best[np.lexsort(best.T[2::-1])[0]], {"parts": parts}
