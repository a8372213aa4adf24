"""A body inside a body collides, although no triangles meet.

Where two surfaces do not meet, each connected piece of one lies wholly inside or wholly outside the other, so that
one vertex per piece decides.

What encloses: those connected pieces of a body that are closed, that is, every edge of which borders an even number
of triangles; vertices at equal positions count as one, so that soups enclose too. A point is inside if the winding
number of these pieces around it is not zero (bodies in parts that overlap, cavities), or, where the triangles
do not agree on which side is outside, if a ray from it crosses them an odd number of times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from impinge.arrays import Bools, Floats, Ints
from impinge.detect import containment_kernels as kernels
from impinge.detect.pair_query import Side
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import weld_vertices


@dataclass(frozen=True)
class Enclosure:
    """The part of a body that has an inside."""

    side: Side
    ids: Ints
    """Triangles of closed pieces."""
    oriented: bool

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


def enclosure(side: Side) -> Enclosure:
    """Find the closed pieces of a body."""
    closed, oriented, _ = closed_pieces(side.vertices, side.faces[side.ids])
    return Enclosure(side, side.ids[closed], oriented)


def closed_pieces(vertices: Floats, faces: Ints) -> tuple[Bools, bool, bool]:
    """Which faces belong to closed pieces, whether these are oriented, and whether their indices alone tell so.

    Indices tell if all pieces are closed and oriented as they are: vertices that meet cannot open them.
    """
    closed, oriented = _closed_as_indexed(faces, len(vertices))
    if oriented and closed.all():
        return closed, True, True
    _, welded = weld_vertices(vertices, faces)
    return *_closed_as_indexed(np.ascontiguousarray(welded), len(vertices)), False


def _closed_as_indexed(faces: Ints, vertex_count: int) -> tuple[Bools, bool]:
    adjacency = Adjacency(faces, vertex_count)
    count, piece = adjacency.component if len(faces) else (0, np.zeros(0, dtype=np.int32))
    is_open = np.zeros(count, dtype=np.bool_)
    start, triangle = adjacency.edge_tri
    odd = np.flatnonzero(adjacency.edge_degree % 2)
    is_open[piece[triangle[start[odd]]]] = True
    has_edges = np.zeros(count, dtype=np.bool_)
    has_edges[piece[triangle]] = True
    closed = has_edges & ~is_open
    unbalanced = np.flatnonzero(adjacency.edge_balance)
    oriented = not closed[piece[triangle[start[unbalanced]]]].any()
    return closed[piece], oriented


def has_piece_inside(inner: Side, outer: Enclosure) -> bool:
    """Whether a connected piece of ``inner`` lies inside ``outer``; their triangles do not meet."""
    if not len(inner.ids) or not outer:
        return False
    faces = inner.faces[inner.ids]
    _, piece = Adjacency(faces, len(inner.vertices)).component
    first = np.unique(piece, return_index=True)[1]
    return bool(outer.contains(np.ascontiguousarray(inner.vertices[faces[first, 0]])).any())
