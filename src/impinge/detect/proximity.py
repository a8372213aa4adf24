"""Vertex-face and edge-edge pairs no farther apart than a margin: what barriers and penalties act on.

1. Features. Vertices, edges and faces, each once, in the blocks of the tree (``mesh_features``); made anew after edits.
2. Front.    Descend both trees of boxes to the pairs of blocks that are no farther apart than the margin.
3. Fit       boxes around the features of those blocks, each wider by half of the margin: boxes of near features
             overlap, and a group of eight meets another in a few instructions (``backend.simd``).
4. Join      each pair of blocks three times: edges with edges, vertices of a with faces of b, vertices of b with
             faces of a. Features of one body that share a vertex are passed over; of the others the distance decides.
5. Measure   the pairs that were found, once sorted.

Threads claim parts of the front; a part owns its output, and keys are sorted: the same bits for any number of threads.

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
from numpy.typing import NDArray

from impinge.arrays import Ints
from impinge.backend.jit import thread_count
from impinge.backend.stages import start_stages
from impinge.detect import proximity_kernels as kernels
from impinge.detect.box_tree_kernels import find_front
from impinge.detect.mesh_features import Around, features_of, triangles_around
from impinge.detect.pair_query import Keys, PairOptions, pack, pair_options, without_ignored
from impinge.detect.results import Proximity
from impinge.detect.tree_of_boxes import Placed, TreeOfBoxes, fit_trees, place, with_moved_vertices
from impinge.errors import OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

Front = NDArray[np.int64]

TASKS = 64
"""Cuts of the front."""
LEAST_ROOM = 1024
"""Keys that a part of the front has room for at least."""
ROOM = 256
"""Keys per pair of blocks that there is room for at first; untouched room costs nothing."""
ROUNDING = 2.0**-46
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_INSIDE = 2.0**-21
"""The same for float32, whose roundings are 2^-24."""
LARGEST_FLOAT32 = 1e37
"""Sizes from which boxes are everywhere, lest float32 overflows."""


# the query ----------------------------------------------------------------------------------------------


def proximity(a: Any, b: Any = None, *, margin: float, **options: Any) -> Proximity:
    """All vertex-face and edge-edge pairs of ``a`` and ``b``, or of ``a`` alone, no farther apart than ``margin``."""
    began = perf_counter()
    margin = _as_margin(margin)
    if "max_pairs" in options:
        raise OptionError("max_pairs is for triangle pairs; this query answers completely or not at all")
    wanted = pair_options(options, is_self=b is None)
    body_a = as_surface(a, name="a")
    body_b = None if b is None else as_surface(b, name="b")
    with _placed(body_a, body_b, wanted) as (side_a, side_b):
        return _Search(side_a, side_b, margin, body_b is None).run(wanted, began)


def _as_margin(margin: Any) -> float:
    is_number = isinstance(margin, int | float | np.integer | np.floating) and not isinstance(margin, bool)
    if not is_number or not 0.0 <= margin < np.inf:
        raise OptionError(f"margin is {margin!r}, expected a finite number from 0")
    return float(margin)


@contextmanager
def _placed(a: TriMesh, b: TriMesh | None, options: PairOptions) -> Iterator[tuple[Placed, Placed]]:
    """Both bodies with fitted trees, which nobody else uses meanwhile; of one body it is the same twice."""
    tree_a = a.structure("boxes", TreeOfBoxes)
    # A body against itself, moved, needs two sets of boxes at once.
    tree_b = tree_a if b is None else TreeOfBoxes(b) if b is a else b.structure("boxes", TreeOfBoxes)
    first, second = sorted((tree_a.lock, tree_b.lock), key=id)  # always in the same order: nobody waits in a circle
    with first, second:
        side_a = side_b = with_moved_vertices(place(a, tree_a, options.transform_a, options.active_a, "a"), "a")
        if b is not None:
            side_b = with_moved_vertices(place(b, tree_b, options.transform_b, options.active_b, "b"), "b")
        fit_trees(side_a, side_b)
        yield side_a, side_b


class _Search:
    """One query: two sides, a margin, and what was found on the way."""

    def __init__(self, a: Placed, b: Placed, margin: float, is_self: bool) -> None:
        self.a, self.b, self.margin, self.is_self = a, b, margin, is_self
        self.reach = margin, np.inf
        self.stages = start_stages()
        self.features_a = features_of(a)
        self.features_b = self.features_a if is_self else features_of(b)
        self.stages.done("features")

    def run(self, options: PairOptions, began: float) -> Proximity:
        """All steps from the front on."""
        cancelled = options.cancelled
        front = np.zeros((0, 2), dtype=np.int64) if cancelled or self._is_empty else self._find_front()
        self._fit(front)
        vertex_face, face_vertex, edge_edge = self._join(front)
        if options.ignore is not None:
            vertex_face, face_vertex, edge_edge = self._drop_ignored(options, vertex_face, face_vertex, edge_edge)
        return Proximity(
            margin=self.margin,
            **self._measured(vertex_face=vertex_face, face_vertex=face_vertex, edge_edge=edge_edge),
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

    def _find_front(self) -> Front:
        """Pairs of blocks no farther apart than the margin; the boxes of a are widened by it."""
        size = max(float(abs(side.tree.bounds).max()) for side in (self.a, self.b)) + self.margin
        widen = np.zeros((3, 6))
        widen[:, :3], widen[:, 5] = np.eye(3), self.margin + ROUNDING * size
        front = np.zeros((16 * (self.a.tree.block_count + self.b.tree.block_count), 2), dtype=np.int64)
        count = find_front(self.a.upper, self.b.upper, widen, None, self.is_self, front)
        if count > len(front):
            front = np.zeros((count, 2), dtype=np.int64)
            find_front(self.a.upper, self.b.upper, widen, None, self.is_self, front)
        self.stages.done("front")
        return front[:count]

    def _fit(self, front: Front) -> None:
        """Fit the features of all blocks in the front."""
        if not len(front):
            return
        origin = self.a.origin
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

    def _join(self, front: Front) -> tuple[Ints, Ints, Ints]:
        """Pairs of features that are near, sorted: vertex and face, face and vertex, edge and edge."""
        a, b = self.features_a, self.features_b
        layouts_a = ((self.a.x, *layout) for layout in (a.of_edges, a.of_vertices, a.of_faces))
        layouts_b = ((self.b.x, *layout) for layout in (b.of_edges, b.of_vertices, b.of_faces))
        query = (front, *layouts_a, *layouts_b, self.is_self, self.reach)
        room = LEAST_ROOM + ROOM * (len(front) // TASKS + 1)
        while True:
            keys, counts = np.zeros((3 * TASKS, room), dtype=np.uint64), np.zeros(3 * TASKS, dtype=np.int64)
            kernels.join_front.over(len(front))(*query, thread_count(), np.zeros(1, dtype=np.int64), keys, counts)
            if counts.max() <= room:
                break
            room = int(counts.max())
        self.stages.done("join")
        found = [row[:count] for row, count in zip(keys, counts)]
        cuts = (TASKS, 3 * TASKS if self.is_self else 2 * TASKS)
        edge_edge, vertex_face, vertex_of_b = (
            _sorted_pairs(rows) for rows in (found[: cuts[0]], found[cuts[0] : cuts[1]], found[cuts[1] :])
        )
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
            is_wanted = np.isin(keys, without_ignored(keys, options, is_self=self.is_self))
            yield pairs[np.unique(row[is_wanted])]

    def _measured(self, **found: Ints) -> dict[str, Any]:
        """Pairs, distances and weights, by the names that the result has for them."""
        a, b = self.a, self.b
        columns = {"vertex_face": 3, "face_vertex": 3, "edge_edge": 2}
        sorts = {
            name: (pairs, np.zeros(len(pairs)), np.zeros((len(pairs), columns[name]))) for name, pairs in found.items()
        }
        kernels.measure_pairs.over(sum(map(len, found.values())))(
            (a.x, a.frame.faces, self.features_a.edges), (b.x, b.frame.faces, self.features_b.edges), *sorts.values()
        )
        self.stages.done("measure")
        named: dict[str, Any] = {}
        for name, (pairs, distance, weights) in sorts.items():
            named |= {name: pairs, f"{name}_distance": distance, f"{name}_weights": weights}
        return named


def _listed(front: Front, side: Placed) -> NDArray[np.int64]:
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
    keys = np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *parts]))
    pairs = np.zeros((len(keys), 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)
    return pairs
