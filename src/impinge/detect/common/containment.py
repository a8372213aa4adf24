"""Containment: a body inside a body collides, although no triangles meet.

Where two surfaces do not meet, each connected piece of one lies wholly inside or wholly outside the other: one vertex
per piece decides.

Closed pieces enclose:

1. Pieces. Triangles that share an edge, by index, form a piece. A piece is closed if each of its edges borders an even
           number of triangles. This follows from the faces alone.
2. Seams.  Edges of the other pieces that border an odd number of triangles are matched where both ends are at equal
           positions: soups enclose too. Pieces that meet in a seam are joined, and closed if an even number of edges
           meets in each of their seams. Only open edges are compared: a sheet of n triangles has about √n.
3. Inside  is a point around which the winding number of the closed pieces is not zero (overlapping parts, cavities).
           Pieces whose triangles disagree on which side is outside have no winding number: inside of them is a point
           from which a ray crosses them, all together, an odd number of times. A point is inside by either rule, or if
           it lies on a closed piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints
from impinge.detect.common import containment_kernels as kernels
from impinge.detect.common.pair_query import QueryBody
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import weld_vertices

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Enclosure:
    """The part of a body that has an inside."""

    side: QueryBody
    ids: Ints
    """Triangles of closed pieces."""
    oriented: Bools
    """Whether the piece of each agrees on which side is outside."""

    def __bool__(self) -> bool:
        """Whether there is any inside."""
        return len(self.ids) > 0

    def contains(self, points: Floats) -> Bools:
        """Which points are inside or on the surface, exactly; cost n·m for the points within its box."""
        inside = np.zeros(len(points), dtype=np.bool_)
        if self:
            corners = self.side.vertices[self.side.faces[self.ids]].reshape(-1, 3)
            near = np.flatnonzero(((points >= corners.min(axis=0)) & (points <= corners.max(axis=0))).all(axis=1))
            found = np.zeros(len(near), dtype=np.bool_)
            kernels.mark_inside.over(len(near))(
                points[near], self.side.vertices, self.side.faces, self.ids, self.oriented, found
            )
            inside[near] = found
        return inside


def enclosure(side: QueryBody) -> Enclosure:
    """Find the closed pieces of a body."""
    closed, oriented = closed_pieces(pieces_of(side.faces[side.ids], len(side.vertices)), side.vertices)
    return Enclosure(side, side.ids[closed], oriented[closed])


class Pieces(NamedTuple):
    """Pieces connected by edges, and their open edges; depends on the faces alone."""

    of_face: Ids
    """The piece of each face, shape (m,)."""
    closed: Bools
    """Pieces without an open edge."""
    oriented: Bools
    """Pieces that agree on which side is outside, judged by their other edges."""
    open_edge: Ints
    """Edges that border an odd number of triangles, shape (k, 2)."""
    open_piece: Ids
    """The piece of each, shape (k,)."""
    open_balance: Ids
    """Times that triangles walk along each from its first vertex to its second, less the times back."""


def pieces_of(faces: Ints, vertex_count: int) -> Pieces:
    """Partition faces into pieces."""
    adjacency = Adjacency(faces, vertex_count)
    start, triangle = adjacency.edge_tri
    count, piece = _connected(triangle[:-1], triangle[1:], len(faces), _same_group(start))
    edge_piece = piece[triangle[start[:-1]]]
    is_open = adjacency.edge_degree % 2 == 1
    closed, oriented = np.zeros(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)
    closed[edge_piece] = True  # a face that repeats an index has no edges and encloses nothing
    closed[edge_piece[is_open]] = False
    oriented[edge_piece[~is_open & (adjacency.edge_balance != 0)]] = False
    return Pieces(
        piece, closed, oriented, adjacency.edges[is_open], edge_piece[is_open], adjacency.edge_balance[is_open]
    )


def closed_pieces(pieces: Pieces, vertices: Floats) -> tuple[Bools, Bools]:
    """Which faces belong to closed pieces, seams included, and which to pieces that are oriented."""
    closed, oriented = pieces.closed, pieces.oriented
    if len(pieces.open_edge):
        sewn, turned = _sew(pieces, vertices)
        closed, oriented = closed | sewn, oriented & ~turned
    return closed[pieces.of_face], oriented[pieces.of_face]


def _sew(pieces: Pieces, vertices: Floats) -> tuple[Bools, Bools]:
    """Pieces that are closed by their seams, and pieces joined to one that is turned the other way."""
    used, place = np.unique(pieces.open_edge, return_inverse=True)
    _, end = weld_vertices(vertices[used], place.reshape(-1, 2).astype(np.int32))
    proper = end[:, 0] != end[:, 1]  # an edge whose ends are at one position is none
    piece = pieces.open_piece[proper]
    low, high = end[proper].min(axis=1).astype(np.int64), end[proper].max(axis=1)
    balance = np.where(end[proper, 0] == low, 1, -1) * pieces.open_balance[proper]
    _, seam, degree = np.unique(low * len(used) + high, return_inverse=True, return_counts=True)
    order = np.argsort(seam, kind="stable")
    joined = seam[order[1:]] == seam[order[:-1]]
    count, group = _connected(piece[order[:-1]], piece[order[1:]], len(pieces.closed), joined)
    is_open, is_turned = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    is_open[group[piece[degree[seam] % 2 == 1]]] = True
    is_turned[group[piece[np.bincount(seam, weights=balance)[seam] != 0.0]]] = True
    np.logical_or.at(is_turned, group, ~pieces.oriented)
    had_edges = np.zeros(len(pieces.closed), dtype=np.bool_)
    had_edges[pieces.open_piece] = True
    return had_edges & ~is_open[group], had_edges & is_turned[group]


def _connected(a: Ids, b: Ids, count: int, which: Bools) -> tuple[int, Ids]:
    """Groups of things, those of which a and b are joined where ``which`` says so: (how many, group of each)."""
    from scipy.sparse import coo_array  # takes longer to import than most queries
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(which.sum(), dtype=np.int8), (a[which], b[which])), shape=(count, count))
    groups, label = connected_components(links, directed=False) if count else (0, np.zeros(0))
    return int(groups), label.astype(np.int64)


def _same_group(start: NDArray[np.int64]) -> Bools:
    """Of a CSR list, which entries and the next belong to one group."""
    same = np.ones(max(int(start[-1]) - 1, 0), dtype=np.bool_)
    same[start[1:-1] - 1] = False
    return same


def has_piece_inside(inner: QueryBody, outer: Enclosure) -> bool:
    """Whether a connected piece of ``inner`` lies inside ``outer``; their triangles do not meet."""
    if not len(inner.ids) or not outer:
        return False
    faces = inner.faces[inner.ids]
    _, piece = Adjacency(faces, len(inner.vertices)).component
    first = np.unique(piece, return_index=True)[1]
    return bool(outer.contains(np.ascontiguousarray(inner.vertices[faces[first, 0]])).any())
