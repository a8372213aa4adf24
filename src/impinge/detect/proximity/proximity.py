"""Vertex-face and edge-edge pairs no farther apart than a margin: what barriers and penalties act on.

1. Features. Vertices, edges and faces, each once, in the blocks of the tree (``mesh_features``); made anew after edits.
2. Front.    Descend both trees of boxes to the pairs of blocks that are no farther apart than the margin.
3. Fit       boxes around the features of those blocks, each wider by half of the margin: boxes of near features
             overlap, and a group of eight meets another in a few instructions (``backend.simd``).
4. Join      each pair of blocks three times: edges with edges, vertices of a with faces of b, vertices of b with
             faces of a. Features of one body that share a vertex are passed over; of the others the distance decides.
5. Measure   the pairs that were found, once sorted.

Threads claim parts of the front; a part owns its output, and keys are sorted: the same bits for any number of threads.
A query that can be cancelled joins and measures bit by bit, and looks in between whether it was.

Scale      Bodies beyond 2^60 are shrunk by a power of two, and those below 2^-60 enlarged, and the margin with them,
           which changes no bit of any answer: squares of squares of coordinates stay in range.
Boxes      are float32, counted from a vertex of a. Let r be the largest coordinate counted from it; four roundings of
           2^-24 (r + margin) may bring two boxes apart, and they are widened by as much.
Guarantee  complete, no cap. A pair belongs to the result iff its distance, as computed in doubles, is at most the
           margin; that distance is off by a few units in the last place of the features' size (``features_kernels``).
           Boxes allow for more than that.
Ignored    triangle pairs: a pair of features is left out if all pairs of triangles that have them are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.backend.stages import start_stages
from impinge.checks import Cancel, Ints, as_number, sorted_unique
from impinge.detect.box_tree.kernels import find_block_pairs
from impinge.detect.boxes.mesh_features import Around, features_of, triangles_around
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, fit_trees, lock_both, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import fit_in_range
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, pack, without_ignored
from impinge.detect.proximity import proximity_kernels as kernels
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

Front = NDArray[np.int64]
NO_FRONT: Front = np.zeros((0, 2), dtype=np.int64)
NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int32)
NEVER = PairOptions()
"""Options of what is not to be cancelled."""

TASKS = 64
"""Cuts of the front."""
LEAST_ROOM = 1024
"""Keys that a part of the front has room for at least."""
ROOM = 256
"""Keys per pair of blocks that there is room for at first; untouched room costs nothing."""
LARGEST_MARGIN = 2.0**64
"""More than the distance of any two features of bodies in range: a larger margin finds nothing more."""
MOST_FRONT = 2**62
FIRST_FRONT = 64
"""Pairs of blocks that are joined before the first look at ``cancel``; doubled or halved from look to look."""
LOOK_MS = 20.0
"""About how long to go on between two looks."""
PAIRS_PER_LOOK = 1 << 18
"""Pairs of features that are measured between two looks."""
ROUNDING = 2.0**-46
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_INSIDE = 2.0**-21
"""The same for float32, whose roundings are 2^-24."""
LARGEST_FLOAT32 = 1e37
"""Sizes from which boxes are everywhere, lest float32 overflows."""


# the query ----------------------------------------------------------------------------------------------


def proximity(
    a: SurfaceLike,
    b: SurfaceLike | None = None,
    *,
    margin: float,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> Proximity:
    """Find all vertex-face and edge-edge pairs no farther apart than a margin, with distances and weights.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``. Without ``b``, pairs of ``a`` with itself that share no vertex.
    margin : float
        Largest distance that counts.
    transform_a, transform_b, active_a, active_b, cancel
        As in ``triangle_pairs``. A cancelled query has no pairs: the answer is never truncated.
    ignore : array_like, shape (k, 2), optional
        Pairs of triangles. A pair of features is left out if all pairs of triangles that have the two are ignored.

    Returns
    -------
    Proximity
        Vertices and edges count once, if a live and active triangle has them.
    """
    began = perf_counter()
    margin = as_number(margin, "margin", "a finite number from 0", least=0.0, below=np.inf)
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel, b is None)
    body_a = as_surface(a, name="a")
    body_b = None if b is None else as_surface(b, name="b")
    with _posed(body_a, body_b, options) as (side_a, side_b, factor):
        return _Search(side_a, side_b, margin, factor, body_b is None).run(options, began)


@contextmanager
def _posed(a: TriMesh, b: TriMesh | None, options: PairOptions) -> Iterator[tuple[PosedTree, PosedTree, float]]:
    """Both bodies with fitted trees, which nobody else uses meanwhile, and the factor that they are scaled by.

    Of one body it is the same twice.
    """
    tree_a = a.structure("boxes", TreeOfBoxes)
    # A body against itself, moved, needs two sets of boxes at once.
    tree_b = tree_a if b is None else TreeOfBoxes(b) if b is a else b.structure("boxes", TreeOfBoxes)
    first, second = lock_both(tree_a, tree_b)
    with first, second:
        side_a = side_b = with_moved_vertices(pose_tree(a, tree_a, options.transform_a, options.active_a, "a"), "a")
        if b is not None:
            side_b = with_moved_vertices(pose_tree(b, tree_b, options.transform_b, options.active_b, "b"), "b")
        fit_trees(side_a, side_b)
        sides, factor = fit_in_range([side_a] if b is None else [side_a, side_b])
        yield sides[0], sides[-1], factor


class _Search:
    """One query: two sides, a margin, and what was found on the way."""

    def __init__(self, a: PosedTree, b: PosedTree, margin: float, factor: float, is_self: bool) -> None:
        self.a, self.b, self.factor, self.is_self = a, b, factor, is_self
        self.asked, self.margin = margin, min(factor * margin, LARGEST_MARGIN)
        self.reach = self.margin, np.inf
        self.stages = start_stages()
        self.features_a = features_of(a)
        self.features_b = self.features_a if is_self else features_of(b)
        self.stages.done("features")

    def run(self, options: PairOptions, began: float) -> Proximity:
        """All steps from the front on."""
        front = NO_FRONT if options.cancelled or self._is_empty else self._find_block_pairs()
        if not options.cancelled:
            self._fit(front)
        found = self._sorted(*self._join(front, options))
        if options.ignore is not None and not options.cancelled:
            found = tuple(self._drop_ignored(options, *found))
        measured = self._measured(options, *found)
        cancelled = options.cancelled
        if cancelled:
            measured = self._measured(NEVER, *3 * (NO_PAIRS,))  # completely, or not at all
        return Proximity(
            margin=self.asked,
            **measured,
            edges_a=self.features_a.edges,
            edges_b=self.features_b.edges,
            complete=not cancelled,
            reason="cancelled" if cancelled else None,
            method="feature_boxes",
            stats={"block_pairs": len(front), **self.stages.times()},
            elapsed_ms=1e3 * (perf_counter() - began),
        )

    @property
    def _is_empty(self) -> bool:
        return not len(self.features_a.slots) or not len(self.features_b.slots)

    def _find_block_pairs(self) -> Front:
        """Pairs of blocks no farther apart than the margin; the boxes of a are widened by it."""
        size = max(float(abs(side.tree.bounds).max()) for side in (self.a, self.b)) + self.margin
        widen = np.zeros((3, 6))
        widen[:, :3], widen[:, 5] = np.eye(3), self.margin + ROUNDING * size
        front = np.zeros((16 * (self.a.tree.block_count + self.b.tree.block_count), 2), dtype=np.int64)
        count = find_block_pairs(self.a.upper, self.b.upper, widen, None, self.is_self, front)
        if count > len(front):
            front = np.zeros((count, 2), dtype=np.int64)
            find_block_pairs(self.a.upper, self.b.upper, widen, None, self.is_self, front)
        self.stages.done("front")
        return front[:count]

    def _fit(self, front: Front) -> None:
        """Fit the features of all blocks in the front."""
        if not len(front):
            return
        origin = self.a.origin()
        size = max(float(abs(side.tree.bounds - origin).max()) for side in (self.a, self.b)) + self.margin
        half = np.float32(np.inf if size > LARGEST_FLOAT32 else 0.5 * self.margin + ROUNDING_INSIDE * size)
        far = self.margin + ROUNDING * size
        self.reach = self.margin, far * far
        blocks = [_listed(front[:, :1], self.a), _listed(front[:, 1:], self.b)]
        if self.is_self:
            blocks = [_listed(front, self.a)]
        for side, features, listed in zip((self.a, self.b), (self.features_a, self.features_b), blocks):
            kernels.fit_features.over(len(listed))(listed, side.x, *map(tuple, features[2:]), origin, half)
        self.stages.done("fit")

    def _join(self, front: Front, options: PairOptions) -> tuple[list[Keys], list[Keys], list[Keys]]:
        """Keys of near features, in parts: edges, vertices of a with faces of b, vertices of b with faces of a."""
        found: tuple[list[Keys], list[Keys], list[Keys]] = [], [], []
        first, size = 0, MOST_FRONT if options.cancel is None else FIRST_FRONT
        while first < len(front) and not options.cancelled:
            began = perf_counter()
            keys, counts = self._join_part(front[first : first + size])
            for t in range(3 * TASKS):
                found[t // TASKS].append(keys[t, : counts[t]].copy())
            first += size
            size = 2 * size if 1e3 * (perf_counter() - began) < LOOK_MS else max(size // 2, 1)
        self.stages.done("join")
        return found

    def _join_part(self, front: Front) -> tuple[Any, Any]:
        a, b = self.features_a, self.features_b
        layouts_a = ((self.a.x, *layout) for layout in (a.of_edges, a.of_vertices, a.of_faces))
        layouts_b = ((self.b.x, *layout) for layout in (b.of_edges, b.of_vertices, b.of_faces))
        query = (front, *layouts_a, *layouts_b, self.is_self, self.reach)
        room = LEAST_ROOM + ROOM * (len(front) // TASKS + 1)
        while True:
            keys, counts = np.zeros((3 * TASKS, room), dtype=np.uint64), np.zeros(3 * TASKS, dtype=np.int64)
            kernels.join_block_pairs.over(len(front))(*query, thread_count(), np.zeros(1, dtype=np.int64), keys, counts)
            if counts.max() <= room:
                return keys, counts
            room = int(counts.max())

    def _sorted(self, edges: list[Keys], of_a: list[Keys], of_b: list[Keys]) -> tuple[Ints, ...]:
        """Sorted pairs: vertex and face, face and vertex, edge and edge; of one body, all vertices are of a."""
        of_a, of_b = (of_a + of_b, []) if self.is_self else (of_a, of_b)
        edge_edge, vertex_face, vertex_of_b = map(_sorted_pairs, (edges, of_a, of_b))
        by_face = np.lexsort((vertex_of_b[:, 0], vertex_of_b[:, 1]))
        self.stages.done("sort")
        return vertex_face, np.ascontiguousarray(vertex_of_b[by_face, ::-1]), edge_edge

    def _drop_ignored(self, options: PairOptions, *found: Ints) -> Iterator[Ints]:
        """Leave out pairs of features of which all pairs of triangles are ignored."""
        vertex_a, edge_a, face_a = triangles_around(self.features_a, self.a)
        vertex_b, edge_b, face_b = triangles_around(self.features_b, self.b)
        for pairs, a, b in zip(found, (vertex_a, face_a, edge_a), (face_b, vertex_b, edge_b)):
            row, tri_a = _expanded(np.arange(len(pairs)), pairs[:, 0], a)
            more, tri_b = _expanded(np.arange(len(row)), pairs[row, 1], b)
            row, tri_a = row[more], tri_a[more]
            if self.is_self:
                tri_a, tri_b = np.minimum(tri_a, tri_b), np.maximum(tri_a, tri_b)
            keys = pack(tri_a.astype(np.int32), tri_b.astype(np.int32), np.zeros(len(row), dtype=np.int8))
            is_wanted = np.isin(keys, without_ignored(keys, options))
            yield pairs[sorted_unique(row[is_wanted])]

    def _measured(self, options: PairOptions, *found: Ints) -> dict[str, Any]:
        """Pairs, distances and weights, by the names that the result has for them."""
        a, b = self.a, self.b
        sorts = [
            (pairs, np.zeros(len(pairs)), np.zeros((len(pairs), columns))) for pairs, columns in zip(found, (3, 3, 2))
        ]
        bodies = (a.x, a.state.faces, self.features_a.edges), (b.x, b.state.faces, self.features_b.edges)
        per_look = MOST_FRONT if options.cancel is None else PAIRS_PER_LOOK
        first, longest = 0, max(map(len, found))
        while first < longest and not options.cancelled:
            parts = [tuple(column[first : first + per_look] for column in sort) for sort in sorts]
            kernels.measure_pairs.over(sum(len(part[0]) for part in parts))(*bodies, *parts)
            first += per_look
        self.stages.done("measure")
        named: dict[str, Any] = {}
        for name, (pairs, distance, weights) in zip(("vertex_face", "face_vertex", "edge_edge"), sorts):
            lengths = distance if self.factor == 1.0 else distance / self.factor
            named |= {name: pairs, f"{name}_distance": lengths, f"{name}_weights": weights}
        return named


def _listed(front: Front, side: PosedTree) -> NDArray[np.int64]:
    """The blocks that occur in the front, each once."""
    is_listed = np.zeros(side.tree.block_count, dtype=np.bool_)
    is_listed[front] = True
    return np.flatnonzero(is_listed)


def _expanded(row: NDArray[np.int64], feature: Any, around: Around) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row as often as its feature has triangles, and these."""
    start, tri = around
    count = start[feature + 1] - start[feature]
    before = np.cumsum(count) - count
    return np.repeat(row, count), tri[np.repeat(start[feature] - before, count) + np.arange(count.sum())]


def _sorted_pairs(parts: list[Keys]) -> Ints:
    """Keys of all parts as sorted rows."""
    keys = np.sort(np.concatenate([NO_KEYS, *parts]))
    pairs = np.zeros((len(keys), 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)
    return pairs
