"""Adjacency: edges of triangles, triangles around edges and vertices, faces between tets.

All of it depends on the faces only and is computed on demand, in sorting passes over the whole mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Ints

TET_FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]], dtype=np.int32)
"""The face opposite each corner, counter-clockwise as seen from outside for a tet of positive volume."""


def grouped(keys: NDArray[np.int64], group_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort positions by key, ties in order: (start of each group, positions), a CSR list."""
    order = np.argsort(keys, kind="stable")
    start = np.zeros(group_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=group_count), out=start[1:])
    return start, order


@dataclass(frozen=True)
class Adjacency:
    """Edges and neighbours of a set of triangles.

    Faces that repeat a vertex have no edges here.
    """

    faces: Ints
    """Vertex ids, shape (tri_count, 3)."""
    vertex_count: int

    @cached_property
    def _sides(self) -> tuple[Ints, NDArray[np.int64]]:
        """Directed sides of all faces with three different vertices, shape (s, 2), and the face of each."""
        f = self.faces
        proper = np.flatnonzero((f[:, 0] != f[:, 1]) & (f[:, 1] != f[:, 2]) & (f[:, 2] != f[:, 0]))
        sides = f[proper][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        return sides, np.repeat(proper, 3)

    @cached_property
    def _unique(self) -> tuple[Ints, NDArray[np.int64]]:
        """The edges, and the edge of each side."""
        low, high = np.sort(self._sides[0], axis=1).T.astype(np.int64)
        keys, side_edge = np.unique(low * max(self.vertex_count, 1) + high, return_inverse=True)
        edges = np.stack(np.divmod(keys, max(self.vertex_count, 1)), axis=1).astype(np.int32)
        return edges, side_edge.reshape(-1)

    @property
    def edges(self) -> Ints:
        """Undirected edges (i, j), i < j, sorted, shape (edge_count, 2)."""
        return self._unique[0]

    @cached_property
    def edge_tri(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Triangles around each edge: (start, triangle), a CSR list."""
        start, order = grouped(self._unique[1], len(self.edges))
        return start, self._sides[1][order]

    @cached_property
    def vertex_tri(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Triangles around each vertex: (start, triangle), a CSR list."""
        start, order = grouped(self.faces.reshape(-1).astype(np.int64), self.vertex_count)
        return start, order // 3

    @cached_property
    def edge_degree(self) -> NDArray[np.int64]:
        """Number of triangles of each edge."""
        return np.bincount(self._unique[1], minlength=len(self.edges))

    @cached_property
    def edge_balance(self) -> NDArray[np.int64]:
        """Triangles that traverse an edge from its lower to its higher vertex, minus those that traverse it back."""
        sides, _ = self._sides
        sign = np.where(sides[:, 0] < sides[:, 1], 1, -1)
        return np.bincount(self._unique[1], weights=sign, minlength=len(self.edges)).astype(np.int64)

    @property
    def open_edges(self) -> Bools:
        """Mask of the edges of one triangle only."""
        return np.asarray(self.edge_degree == 1)

    @property
    def nonmanifold_edges(self) -> Bools:
        """Mask of the edges of more than two triangles."""
        return np.asarray(self.edge_degree > 2)

    @property
    def flipped_edges(self) -> Bools:
        """Mask of the edges whose two triangles have opposite orientations."""
        return np.asarray((self.edge_degree == 2) & (self.edge_balance != 0))

    def count_defects(self) -> str:
        """Numbers of open, non-manifold and flipped edges, for messages."""
        counts = [int(mask.sum()) for mask in (self.open_edges, self.nonmanifold_edges, self.flipped_edges)]
        return "{} open, {} non-manifold and {} flipped edges".format(*counts)

    @property
    def is_closed(self) -> bool:
        """Whether every edge borders an even number of triangles, which defines inside and outside."""
        return len(self.edges) > 0 and not (self.edge_degree % 2).any()

    @property
    def is_consistent(self) -> bool:
        """Whether triangles that share an edge walk along it in opposite directions, as far as their number allows."""
        return len(self.edges) > 0 and bool((np.abs(self.edge_balance) <= self.edge_degree % 2).all())

    @property
    def is_oriented(self) -> bool:
        """Whether it is closed and all triangles have consistent orientations."""
        return self.is_closed and not self.edge_balance.any()

    @cached_property
    def component(self) -> tuple[int, Ints]:
        """Pieces connected through shared vertices: (count, piece of each triangle)."""
        from scipy.sparse import coo_array  # a slow import
        from scipy.sparse.csgraph import connected_components

        used, compact = np.unique(self.faces, return_inverse=True)
        corner = compact.reshape(-1, 3)
        rows = np.concatenate([corner[:, 0], corner[:, 1]])
        columns = np.concatenate([corner[:, 1], corner[:, 2]])
        links = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(len(used), len(used)))
        count, label = connected_components(links, directed=False)
        return int(count), label[corner[:, 0]].astype(np.int32)


def tet_face_neighbours(tets: Ints) -> Ints:
    """The neighbour of each tet across each of its four faces, -1 where there is none, shape (m, 4).

    Tets of a face that more than two share (an invalid mesh) are paired in the order of their ids.
    """
    faces = np.sort(tets[:, TET_FACES].reshape(-1, 3), axis=1)
    order = np.lexsort((faces[:, 2], faces[:, 1], faces[:, 0]))
    same_as_next = (faces[order[:-1]] == faces[order[1:]]).all(axis=1)
    neighbour = np.full(4 * len(tets), -1, dtype=np.int32)
    first = np.flatnonzero(same_as_next)
    # In a run of equal faces 0-1-2-3 only the pairs 0-1 and 2-3 are joined.
    run_start = np.flatnonzero(np.concatenate([[True], ~same_as_next]))
    run_of = np.searchsorted(run_start, first, side="right") - 1
    first = first[(first - run_start[run_of]) % 2 == 0]
    left, right = order[first], order[first + 1]
    neighbour[left] = right // 4
    neighbour[right] = left // 4
    return neighbour.reshape(-1, 4)
