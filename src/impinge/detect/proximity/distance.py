"""The smallest distance of two surfaces: branch and bound over two trees of boxes.

1. Meet    If triangles meet, the distance is 0, and the first pair that ``BoxTree`` finds is the answer. That is exact.
2. Descend both trees together, the nearest pair of nodes first. Pairs of boxes that are farther than the nearest pair
           of triangles so far are left out. The 64 pairs of children of two nodes are compared eight at once.
3. Measure a pair of triangles by its six corners against triangles and nine pairs of edges (``features_kernels``),
           unless they are too far apart along the normal of one of them.
4. Share   Most bodies are done after a few thousand pairs. Where surfaces follow each other over a long way, the pairs
           that are left are claimed by threads, which tell each other the least distance so far. If the query can be
           cancelled, they come back after some thousand pairs each, to see whether it was.

Answer     The pair with the least distance as computed; of pairs whose computed distances are equal the one with the
           lowest ids: the same bits for any number of threads. ``proximity`` measures features by the same functions.
Error      About 1e-14 of the size of the triangles and their distance. The distance is 0 only if triangles meet: one
           that is too small to be told from 0 is given as the smallest number above it.
Cost       refit, then little more than the pairs of triangles that are about as near as the nearest.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.jit import thread_count
from impinge.checks import Cancel, Floats, Stats, as_number, sorted_unique
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, lock_both, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, factor_for, fit_in_range, whole_tree
from impinge.detect.common.nearest_results import Distance
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, ignored_keys
from impinge.detect.common.results import Reason
from impinge.detect.proximity import distance_kernels as kernels
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

SERIAL_PAIRS = 4096
"""Pairs of nodes and triangles looked at before threads are asked to help."""
PAIRS_PER_LOOK = 1 << 16
"""Pairs that a thread looks at between two looks at ``cancel``: some ten milliseconds."""
SLACK = 1.0 + 2.0**-50
"""What the square of a limit is enlarged by: the square of its root may be less than a square."""
NO_LIMIT = 2**62
NOWHERE: Floats = np.full(3, np.nan)
SMALLEST = math.ulp(0.0)


class _Found(NamedTuple):
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
    found, stats, reason = _find(as_surface(a, name="a"), as_surface(b, name="b"), options, limit)
    return Distance(
        distance=found.distance,
        point_a=found.point_a,
        point_b=found.point_b,
        triangles=np.array(found.triangles, dtype=np.int32),
        complete=reason is None,
        reason=reason,
        method=BoxTree.name,
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _find(a: TriMesh, b: TriMesh, options: PairOptions, upper: float) -> tuple[_Found, Stats, Reason | None]:
    """The answer about one state of both bodies; repeated if another thread has changed them meanwhile."""
    tree_a = a.structure("boxes", TreeOfBoxes)
    tree_b = TreeOfBoxes(b) if b is a else b.structure("boxes", TreeOfBoxes)
    locks = lock_both(tree_a, tree_b)
    detector = BoxTree(a, b)
    while True:
        versions = a.version, b.version
        pairs = detector.find(options)
        if not pairs.complete or options.cancelled:
            return _Found(), pairs.stats, "cancelled"
        with locks[0], locks[1]:
            posed_a = with_moved_vertices(pose_tree(a, tree_a, options.transform_a, options.active_a, "a"), "a")
            posed_b = with_moved_vertices(pose_tree(b, tree_b, options.transform_b, options.active_b, "b"), "b")
            if versions != (posed_a.state.version, posed_b.state.version):
                continue
            if len(pairs):
                return _where_they_meet(posed_a, posed_b, *pairs.pairs[0]), pairs.stats, None
            return _nearest(posed_a, posed_b, options, upper)


def _where_they_meet(a: PosedTree, b: PosedTree, i: int, j: int) -> _Found:
    """The common point of two triangles, which are scaled by a power of two: products stay in range."""
    corners = [side.x[side.state.faces[t]] for side, t in ((a, i), (b, j))]
    factor = factor_for(float(np.abs(corners).max()))
    point_a, point_b = kernels.common_points(*(_rows(factor * side) for side in corners))
    return _Found(0.0, np.array(point_a) / factor, np.array(point_b) / factor, (int(i), int(j)))


def _rows(corners: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, corners.tolist()))


def _nearest(a: PosedTree, b: PosedTree, options: PairOptions, upper: float) -> tuple[_Found, Stats, Reason | None]:
    (a, b), factor = fit_in_range([a, b])
    whole_a, whole_b = whole_tree(a, only=a.active), whole_tree(b, only=b.active)
    ignored = NO_KEYS if options.ignore is None else sorted_unique(ignored_keys(options.ignore, is_self=False))
    row, stats = _search(whole_a, whole_b, ignored, factor * upper, options)
    if row is None:
        return _Found(), stats, "cancelled"
    if row[3] < 0.0:
        return _Found(), stats, None
    i, j, slot_a, slot_b = (int(value) for value in row[1:5])
    faces = whole_a.order_face[slot_a], whole_b.order_face[slot_b]
    s, t = (_rows(whole.x[face]) for whole, face in zip((whole_a, whole_b), faces))
    square, point_a, point_b = kernels.closest_on_triangles(s, tuple(faces[0]), t, tuple(faces[1]))
    length = max(math.sqrt(square) / factor, SMALLEST)
    if length > upper:
        return _Found(), stats, None
    return _Found(length, np.array(point_a) / factor, np.array(point_b) / factor, (i, j)), stats, None


def _search(
    a: WholeTree, b: WholeTree, ignored: Keys, upper: float, options: PairOptions
) -> tuple[Floats | None, Stats]:
    """Squared distance, triangles and slots of the nearest pair; slots of -1 if there is none; None if cancelled."""
    bound = np.array([upper * upper * SLACK])
    best = np.array([[bound[0], kernels.FARTHEST_ID, kernels.FARTHEST_ID, -1.0, -1.0]])
    top = max(a.top, b.top)
    room = (top + 2) * kernels.STEP
    threads = thread_count()
    stack_key, stack_pair = np.zeros((threads, room), dtype=np.int32), np.zeros((threads, room, 3), dtype=np.int64)
    entry_key, entry_pair = np.zeros(1, dtype=np.int32), np.array([[top, 0, 0]])
    more = (tuple(a), tuple(b), ignored, bound)
    left = kernels.search_parts.over(1)(
        *more, best, entry_key, entry_pair, SERIAL_PAIRS, stack_key[:1], stack_pair[:1], np.zeros(1, dtype=np.int64)
    )[0]
    parts = int(left)
    entry_key, entry_pair = stack_key[0, :left].copy(), stack_pair[0, :left].copy()
    best = np.tile(best, (threads, 1))
    most = NO_LIMIT if options.cancel is None else PAIRS_PER_LOOK
    while len(entry_key):
        if options.cancelled:
            return None, {"parts": parts}
        counter = np.zeros(1, dtype=np.int64)
        left = kernels.search_parts.over(len(entry_key))(
            *more, best, entry_key, entry_pair, most, stack_key, stack_pair, counter
        )
        rest = max(len(entry_key) - int(counter[0]), 0)
        entry_key = np.concatenate([entry_key[:rest], *(keys[:count] for keys, count in zip(stack_key, left))])
        entry_pair = np.concatenate([entry_pair[:rest], *(pairs[:count] for pairs, count in zip(stack_pair, left))])
    return best[np.lexsort(best.T[2::-1])[0]], {"parts": parts}
