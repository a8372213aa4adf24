"""Many tet meshes as one: numbers among all bodies, tets in clusters of eight, vertices in the order of the tets.

All bodies share one array of positions; vertex v of body b has the number ``vertex_start[b] + v`` and its tet t the
number ``tet_start[b] + t``, dead tets counted, so that numbers sort as (body, id) do. Tets that are near each other
share a cluster: those of a body in the order in which they came, if neighbours follow each other there, else split by
rank. A cluster belongs to one body; its empty lanes have tet -1 and the corners of another lane.
All of this depends on the tets only. The order is kept with the body, and made anew after an edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import NONE, Floats, Ints, as_ids
from impinge.detect.boxes.rank_split_kernels import split_by_rank
from impinge.detect.spatial_hash.kernels import list_vertices
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import Snapshot


class Order(NamedTuple):
    """The live tets of one body in clusters of eight, by the body's own numbers."""

    live: Ints
    """The list of live ids that it was made for."""
    tet: Ints
    """The tet of each slot, -1 for none, shape (slots,)."""
    vertex: Ints
    """Vertices that a tet has, in the order of the slots."""

    def corners(self, rows: Ints) -> Ints:
        """Vertices of each slot, those of the last tet where there is none, shape (slots, 4)."""
        last = np.count_nonzero(self.tet != NONE) - 1
        return rows[np.where(self.tet == NONE, self.tet[last], self.tet)] if last >= 0 else rows[:0]


class Arena(NamedTuple):
    """Tets of all bodies, by numbers among all."""

    corner: Ints
    """Vertices of each slot: for each cluster the first corners of eight tets, then their second, third, fourth."""
    tet: Ints
    """The tet of each slot, -1 for none."""
    slot_of: Ints
    """The slot of each tet, -1 if it takes no part."""
    vertex: Ints
    vertex_start: NDArray[np.int64]
    """The number of each body's first vertex, and the number of all."""
    tet_start: NDArray[np.int64]


def order_of_active(snapshot: Snapshot, active: Any, name: str) -> Order:
    """The order of those tets, ids or a mask, that live."""
    chosen = as_ids(active, name=name, count=len(snapshot.elements))
    return _make_order(snapshot, np.intersect1d(chosen, snapshot.live, assume_unique=True))


def order_of(body: TetMesh, snapshot: Snapshot) -> Order:
    """The order of a body's tets, kept with the body."""
    kept: list[Order] = body.structure("order of tets", lambda _: [])
    for order in kept:
        if order.live is snapshot.live:
            return order
    made = _make_order(snapshot, snapshot.live)
    kept[:] = [made]
    return made


def _make_order(snapshot: Snapshot, ids: Ints) -> Order:
    rows, corners = snapshot.elements, snapshot.vertices[snapshot.elements[ids]]
    near = ids
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
    return Order(ids, tet, list_vertices(rows[near].reshape(-1), len(snapshot.vertices)))


def _cluster_length(corners: Floats) -> float:
    """How long all clusters are together, if eight tets that follow each other are one."""
    whole = corners[: len(corners) // WIDTH * WIDTH].reshape(-1, 4 * WIDTH, 3)
    with np.errstate(over="ignore"):
        return float((whole.max(axis=1) - whole.min(axis=1)).max(axis=1).sum())


def make_arena(orders: Sequence[Order], snapshots: Sequence[Snapshot]) -> Arena:
    """Put bodies one behind the other."""
    vertex_start, tet_start = (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        for counts in ([len(s.vertices) for s in snapshots], [len(s.elements) for s in snapshots])
    )
    none = np.zeros(0, dtype=np.int32)
    corner, tet, vertex = [none], [none], [none]
    starts = zip(vertex_start[:-1].tolist(), tet_start[:-1].tolist())
    for order, snapshot, (first_vertex, first_tet) in zip(orders, snapshots, starts):
        rows = order.corners(snapshot.elements).reshape(-1, WIDTH, 4).transpose(0, 2, 1)
        corner.append(rows.reshape(-1) + np.int32(first_vertex))
        tet.append(np.where(order.tet == NONE, NONE, order.tet + np.int32(first_tet)).astype(np.int32))
        vertex.append(order.vertex + np.int32(first_vertex))
    arena = Arena(
        np.concatenate(corner),
        np.concatenate(tet),
        np.full(int(tet_start[-1]), NONE, dtype=np.int32),
        np.concatenate(vertex),
        vertex_start,
        tet_start,
    )
    slots = np.flatnonzero(arena.tet != NONE)
    arena.slot_of[arena.tet[slots]] = slots
    return arena
