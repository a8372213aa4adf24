"""libigl's exact pairs: stateless calls that build an AABB tree each time."""

from __future__ import annotations

import numpy as np

from benchmarks.peers import Peer, as_pairs, cores, faces_of
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh


class Adapter(Peer):
    """``find_intersections`` and ``find_self_intersections`` with exact predicates, detection only, all pairs."""

    name, package, module = "libigl", "libigl", "igl.predicates"
    how = "stateless"
    has_self_query = True

    def threads(self) -> int:
        """All cores: its loops over triangles are parallel."""
        return cores()

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Keep the faces."""
        self._faces = [faces_of(body, np.int64) for body in (a, b) if body is not None]
        self.update(a.vertices, None if b is None else b.vertices)

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Remember the positions."""
        self._x = [np.ascontiguousarray(x) for x in (xa, xb) if x is not None]

    def query(self) -> Ints:
        """All pairs."""
        from igl import predicates

        (xa, xb), (a, b) = self._x, self._faces
        return as_pairs(predicates.find_intersections(xa, a, xb, b)[1])

    def self_query(self) -> Ints:
        """All pairs that meet beyond what they share."""
        from igl import predicates

        return as_pairs(predicates.find_self_intersections(self._x[0], self._faces[0])[1])
