"""How bodies stand to each other, asked again and again: structures stay with the bodies from one frame to the next.

1. Pairs.   ``BoxTree`` refits what moved and finds all pairs of triangles that meet.
2. Nesting. Where none meet and the boxes around the bodies overlap, one may be inside the other: a vertex of each piece
            is looked up in the other body. Pieces follow from the faces alone and are found once.

The answer is that of ``impinge.check``, whatever was asked before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Ints
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.containment import Enclosure, closed_pieces, pieces_of
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.mesh.tri_mesh import TriMesh


@dataclass(frozen=True)
class Standing:
    """What one frame shows."""

    relation: str
    """"disjoint", "touching", "crossing", "a in b" or "b in a"."""
    found: TrianglePairs

    def __bool__(self) -> bool:
        """Whether they collide."""
        return self.relation != "disjoint"


class Watch:
    """Two bodies under observation; they may move between one ``look`` and the next."""

    def __init__(self, a: TriMesh, b: TriMesh) -> None:
        self.a, self.b = a, b
        self._pairs = BoxTree(a, b)

    def look(self) -> Standing:
        """Pairs that meet now, and how the bodies stand to each other."""
        found = self._pairs.query()
        if len(found):
            crossing = bool((found.kind == Kind.CROSSING).any())
            return Standing("crossing" if crossing else "touching", found)
        return Standing(self._nesting(), found)

    def _nesting(self) -> str:
        (low_a, high_a), (low_b, high_b) = self.a.bounds, self.b.bounds
        if not bool((low_a <= high_b).all() and (low_b <= high_a).all()):
            return "disjoint"
        a, b = (body.structure("pieces", _Pieces) for body in (self.a, self.b))
        if b.contains_a_piece_of(a):
            return "a in b"
        return "b in a" if a.contains_a_piece_of(b) else "disjoint"


class _Pieces:
    """The pieces of a body, for as long as its triangles stay the same."""

    def __init__(self, body: TriMesh) -> None:
        self._body = body
        self._topology = -1
        self._follow()

    def _follow(self) -> None:
        if self._topology == self._body.topology_version:
            return
        snapshot = self._body.snapshot()
        self._topology = self._body.topology_version
        self._faces: Ints = snapshot.elements
        self._live: Ints = snapshot.live
        self._pieces = pieces_of(self._faces[self._live], len(snapshot.vertices))
        _, component = self._body.adjacency.component
        first = np.unique(component, return_index=True)[1]
        self._corner: NDArray[np.int32] = self._faces[self._live][first, 0]

    def contains_a_piece_of(self, other: _Pieces) -> bool:
        """Whether a connected piece of another body lies inside this one; their triangles do not meet."""
        for each in (self, other):
            each._follow()
        vertices = self._body.vertices
        closed, oriented = closed_pieces(self._pieces, vertices)
        inside = Enclosure(QueryBody(vertices, self._faces, self._live), self._live[closed], oriented[closed])
        points: Any = other._body.vertices[other._corner]
        return bool(inside) and len(points) > 0 and bool(inside.contains(np.ascontiguousarray(points)).any())
