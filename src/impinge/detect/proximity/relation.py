"""The relation of two bodies: disjoint, touching, overlapping, crossing, or one inside the other.

1. Pairs.    Where triangles meet and closed pieces of both bodies share volume, they are "overlapping"
             (``shared_volume``). Else they are "crossing" if a pair of triangles crosses, and "touching" if none does.
2. Nesting.  Without pairs, each connected piece of one surface lies wholly inside or wholly outside the other. If the
             bounding boxes overlap, one vertex per piece is located in the closed pieces of the other surface.

Connected pieces depend on the faces alone. They are cached with the body (``structure``) and rebuilt when its triangles
change: repeated queries of a deforming body cost the point location only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from impinge.checks import Ints
from impinge.detect.common.containment import Enclosure, Pieces, closed_pieces, pieces_of
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.detect.proximity.shared_volume import share_volume
from impinge.mesh.tri_mesh import TriMesh

Relation: TypeAlias = Literal["disjoint", "touching", "overlapping", "crossing", "a in b", "b in a", "unknown"]


class PieceCache:
    """Connected pieces of the live triangles of a body; get it by ``pieces_in``."""

    def __init__(self, body: TriMesh) -> None:
        self._body = body
        self._topology = -1
        self._faces: Ints
        self._live: Ints
        self._pieces: Pieces
        self._corner: Ints | None = None
        """One vertex of each connected component."""
        self._enclosure: tuple[int, Enclosure] | None = None
        """Version of the positions, and the closed pieces there."""

    def _refresh(self) -> None:
        if self._topology == self._body.topology_version:
            return
        snapshot = self._body.snapshot()
        self._topology = self._body.topology_version
        self._faces, self._live = snapshot.elements, snapshot.live
        self._pieces = pieces_of(self._faces[self._live], len(snapshot.vertices))
        self._corner = self._enclosure = None

    def enclosure(self) -> Enclosure:
        """Closed pieces at the present positions."""
        self._refresh()
        version, vertices = self._body.version, self._body.vertices
        if self._enclosure is None or self._enclosure[0] != version:
            closed, oriented = closed_pieces(self._pieces, vertices)
            side = QueryBody(vertices, self._faces, self._live)
            self._enclosure = version, Enclosure(side, self._live[closed], oriented[closed])
        return self._enclosure[1]

    def has_piece_inside(self, outer: PieceCache) -> bool:
        """Whether a connected piece lies inside ``outer``; the surfaces must not intersect."""
        enclosure = outer.enclosure()
        if not enclosure:
            return False
        self._refresh()
        if self._corner is None:
            first = np.unique(self._body.adjacency.component[1], return_index=True)[1]
            self._corner = self._faces[self._live][first, 0]
        return bool(enclosure.contains(np.ascontiguousarray(self._body.vertices[self._corner])).any())


def pieces_in(body: TriMesh) -> PieceCache:
    """The piece cache of a body."""
    return body.structure("pieces", PieceCache)


def relation_of(pairs: TrianglePairs, a: TriMesh, b: TriMesh) -> Relation:
    """Relation of ``a`` and ``b``, whose intersecting triangles are ``pairs``.

    The relation is that of the pairs found. Without pairs it is "unknown" if the search was cut short, and "disjoint"
    if all pairs were ignored.
    """
    if len(pairs):
        if share_volume(pairs, a, b, pieces_in(a).enclosure().ids, pieces_in(b).enclosure().ids):
            return "overlapping"
        return "crossing" if (pairs.kind == Kind.CROSSING).any() else "touching"
    if not pairs.complete:
        return "unknown"
    if pairs.ignored > 0:
        return "disjoint"
    (low_a, high_a), (low_b, high_b) = a.bounds, b.bounds
    if not ((low_a <= high_b).all() and (low_b <= high_a).all()):
        return "disjoint"
    if pieces_in(a).has_piece_inside(pieces_in(b)):
        return "a in b"
    return "b in a" if pieces_in(b).has_piece_inside(pieces_in(a)) else "disjoint"
