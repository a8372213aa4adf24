"""Vertices, edges and faces of a body in the order of its tree, each once, in groups of eight.

The first triangle in tree order that has a vertex or an edge owns it: each feature occurs once, however many triangles
share it. The features of a block are packed into groups of eight, and the groups into nodes, for comparisons of eight
boxes at once (``backend.simd``). The layout depends on the faces only. It is kept with the tree and rebuilt after
edits, in sorting passes over the mesh.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Ints, sorted_unique
from impinge.detect.boxes.tree import PosedTree
from impinge.detect.boxes.tree_kernels import BLOCK
from impinge.detect.common.pair_query import PairOptions, pack, without_ignored
from impinge.mesh.adjacency import grouped

Around = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Triangles of each feature: (start, triangle), a CSR list."""


class Layout(NamedTuple):
    """Features of one kind, by blocks, in groups of eight; see ``proximity_kernels``."""

    group_start: NDArray[np.int64]
    top_start: NDArray[np.int64]
    lane_id: Ints
    corner: Ints
    box: NDArray[np.float32]
    top: NDArray[np.float32]


class Features(NamedTuple):
    """Vertices, edges and faces of the live and active triangles of a body."""

    edges: Ints
    """Two vertices, the lower first; sorted, shape (e, 2)."""
    order: NDArray[np.int64]
    """Positions of the triangles in tree order."""
    of_vertices: Layout
    of_edges: Layout
    of_faces: Layout


def features_of(posed: PosedTree) -> Features:
    """Features of a tree, kept until an edit or another set of active triangles."""
    tree, x = posed.tree, posed.x
    key = posed.state.mark, None if posed.active is None else posed.active.tobytes()
    cached: tuple[object, Features] | None = tree.derived.get("features")
    if cached is not None and cached[0] == key:
        return cached[1]
    order = np.flatnonzero(tree.order_tri >= 0)
    if posed.active is not None:
        order = order[posed.active[tree.order_tri[order]]]
    faces, block = tree.order_face[order], order // BLOCK
    vertices, first_corner = np.unique(faces, return_index=True)
    side, proper = _sides(faces)
    keys, first_side = np.unique(side[:, 0] * len(x) + side[:, 1], return_index=True)
    edges = np.stack(np.divmod(keys, max(len(x), 1)), axis=1).astype(np.int32)
    edges.flags.writeable = False  # results hold it
    features = Features(
        edges,
        order,
        _lay_out(vertices, vertices[:, None][:, [0, 0, 0]], first_corner, block, tree.block_count),
        _lay_out(np.arange(len(edges)), edges[:, [0, 1, 1]], proper[first_side], block, tree.block_count),
        _lay_out(tree.order_tri[order], faces, 3 * np.arange(len(order)), block, tree.block_count),
    )
    tree.derived["features"] = key, features
    return features


def _lay_out(ids: Any, corner: Ints, owner: Any, block_of_tri: Any, block_count: int) -> Layout:
    """Put features into the blocks of their owners (corners of the triangles in tree order), in the order of these."""
    order = np.argsort(owner, kind="stable")
    block = block_of_tri[owner[order] // 3]
    count = np.bincount(block, minlength=block_count)
    group_start, first = _starts(-(-count // WIDTH)), _starts(count)
    lane = WIDTH * group_start[block] + np.arange(len(order)) - first[block]
    top_start = _starts(-(-np.diff(group_start) // WIDTH))
    lane_id = np.full(WIDTH * group_start[-1], -1, dtype=np.int32)
    lane_corner = np.zeros((len(lane_id), 3), dtype=np.int32)
    lane_id[lane], lane_corner[lane] = ids[order], corner[order]
    box, top = (np.zeros((start[-1], 6, WIDTH), dtype=np.float32) for start in (group_start, top_start))
    return Layout(group_start, top_start, lane_id, lane_corner, box, top)


def _starts(count: Any) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(count)]).astype(np.int64)


def triangles_around(features: Features, posed: PosedTree) -> tuple[Around, Around, Around]:
    """Triangles of each vertex, each edge, and each face (itself)."""
    faces, tri = posed.tree.order_face[features.order], posed.tree.order_tri[features.order].astype(np.int64)
    start, corner = grouped(faces.reshape(-1).astype(np.int64), len(posed.x))
    side, proper = _sides(faces)
    table = features.edges.astype(np.int64)
    number = np.searchsorted(table[:, 0] * len(posed.x) + table[:, 1], side[:, 0] * len(posed.x) + side[:, 1])
    edge_start, position = grouped(number, len(table))
    each = np.arange(len(posed.state.faces) + 1)
    return (start, tri[corner // 3]), (edge_start, tri[proper[position] // 3]), (each, each[:-1])


def rows_not_ignored(pairs: Ints, around_a: Around, around_b: Around, options: PairOptions) -> NDArray[np.int64]:
    """Rows of pairs of features, without those of which all pairs of triangles are ignored."""
    row, tri_a = _expanded(np.arange(len(pairs)), pairs[:, 0], around_a)
    more, tri_b = _expanded(np.arange(len(row)), pairs[row, 1], around_b)
    row, tri_a = row[more], tri_a[more]
    if options.is_self:
        tri_a, tri_b = np.minimum(tri_a, tri_b), np.maximum(tri_a, tri_b)
    keys = pack(tri_a.astype(np.int32), tri_b.astype(np.int32), np.zeros(len(row), dtype=np.int8))
    return sorted_unique(row[np.isin(keys, without_ignored(keys, options))])


def _expanded(row: NDArray[np.int64], feature: Any, around: Around) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row once per triangle of its feature, and these triangles."""
    start, tri = around
    count = start[feature + 1] - start[feature]
    before = np.cumsum(count) - count
    return np.repeat(row, count), tri[np.repeat(start[feature] - before, count) + np.arange(count.sum())]


def _sides(faces: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sides of all faces, the lower vertex first, and their numbers, three per face; without sides of one vertex."""
    side = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1).astype(np.int64)
    proper = np.flatnonzero(side[:, 0] != side[:, 1])
    return side[proper], proper
