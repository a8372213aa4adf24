"""Tet batch: many tet meshes in one set of arrays, tets in clusters of eight, vertices in the order of the tets.

All bodies share one array of positions. Vertex v of body b has the number ``vertex_start[b] + v`` and its tet t the
number ``tet_start[b] + t``, dead tets included: numbers sort as (body, id) do. A cluster holds neighbouring tets of one
body: in the order of the body, if consecutive tets are neighbours there, else split by rank. Empty lanes of a cluster
have tet -1 and the corners of another lane. All of this depends on the tets only; the order is kept with the body until
an edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import NONE, Floats, Ints
from impinge.detect.boxes.rank_split_kernels import split_by_rank
from impinge.detect.spatial_hash.kernels import list_vertices
from impinge.mesh.mesh import Snapshot
from impinge.mesh.tet_mesh import TetMesh


class Order(NamedTuple):
    """The live tets of one body in clusters of eight, by the body's own numbers."""

    live: Ints
    """The list of live ids that it was made for."""
    tet: Ints
    """The tet of each slot, -1 for none, shape (slots,)."""
    vertex: Ints
    """Vertices that a tet has, in the order of the slots."""


class TetBatch(NamedTuple):
    """Tets of all bodies, by numbers in the batch."""

    corner: Ints
    """Vertices of each slot: for each cluster the first corners of eight tets, then their second, third, fourth."""
    tet: Ints
    """The tet of each slot, -1 for none."""
    slot_of: Ints
    """The slot of each tet, -1 if it takes no part."""
    vertex: Ints
    vertex_start: NDArray[np.int64]
    """The number of each body's first vertex, and the total."""
    tet_start: NDArray[np.int64]


def order_of(body: TetMesh, snapshot: Snapshot) -> Order:
    """The order of the tets of ``snapshot``; kept with the body unless only some tets take part."""
    kept: list[Order] = body.structure("order of tets", lambda _: [])
    for order in kept:
        if order.live is snapshot.live:
            return order
    ids, rows = snapshot.live, snapshot.elements
    corners, near = snapshot.vertices[rows[ids]], ids
    if len(ids) > WIDTH:
        centre = np.zeros((3, len(rows)))
        with np.errstate(over="ignore"):
            centre[:, ids] = (0.25 * corners).sum(axis=1).T
        near = ids.copy()
        split_by_rank(centre, near, WIDTH)
        if _cluster_length(corners) <= _cluster_length(snapshot.vertices[rows[near]]):
            near = ids
    tet = np.full(-(-len(near) // WIDTH) * WIDTH, NONE, dtype=np.int32)
    tet[: len(near)] = near
    made = Order(ids, tet, list_vertices(rows[near].reshape(-1), len(snapshot.vertices)))
    if ids is body.elements.live:
        kept[:] = [made]
    return made


def _cluster_length(corners: Floats) -> float:
    """Total length of all clusters, if every eight consecutive tets are one."""
    whole = corners[: len(corners) // WIDTH * WIDTH].reshape(-1, 4 * WIDTH, 3)
    with np.errstate(over="ignore"):
        return float((whole.max(axis=1) - whole.min(axis=1)).max(axis=1).sum())


def make_batch(orders: Sequence[Order], snapshots: Sequence[Snapshot]) -> TetBatch:
    """Concatenate the tets of all bodies."""
    vertex_start = np.cumsum([0, *(len(s.vertices) for s in snapshots)], dtype=np.int64)
    tet_start = np.cumsum([0, *(len(s.elements) for s in snapshots)], dtype=np.int64)
    corner, tet, vertex = ([np.zeros(0, dtype=np.int32)] for _ in range(3))
    for order, snapshot, first_vertex, first_tet in zip(orders, snapshots, vertex_start, tet_start):
        is_empty = order.tet == NONE
        filled = (
            np.where(is_empty, order.tet[np.count_nonzero(~is_empty) - 1], order.tet) if len(is_empty) else order.tet
        )
        rows = snapshot.elements[filled].reshape(-1, WIDTH, 4).transpose(0, 2, 1)
        corner.append(rows.reshape(-1) + np.int32(first_vertex))
        tet.append(np.where(is_empty, NONE, order.tet + np.int32(first_tet)).astype(np.int32))
        vertex.append(order.vertex + np.int32(first_vertex))
    slot_of, slot_tet = np.full(int(tet_start[-1]), NONE, dtype=np.int32), np.concatenate(tet)
    slots = np.flatnonzero(slot_tet != NONE)
    slot_of[slot_tet[slots]] = slots
    return TetBatch(np.concatenate(corner), slot_tet, slot_of, np.concatenate(vertex), vertex_start, tet_start)
