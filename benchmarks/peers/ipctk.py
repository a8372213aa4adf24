"""IPC Toolkit: a boolean self-intersection test; both bodies are passed as one mesh."""

from __future__ import annotations

import numpy as np

from benchmarks.peers import Peer, faces_of
from impinge.checks import Floats
from impinge.mesh.tri_mesh import TriMesh


class Adapter(Peer):
    """``has_intersections`` of the union: a boolean."""

    name, package, module = "ipctk", "ipctk", "ipctk"
    how = "stateless, boolean only"

    def threads(self) -> int:
        """The number that it reports."""
        import ipctk

        return int(ipctk.get_num_threads())

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Join the bodies into one collision mesh."""
        import ipctk

        assert b is not None
        faces = np.concatenate([faces_of(a, np.int32), faces_of(b, np.int32) + len(a.vertices)])
        self.update(a.vertices, b.vertices)
        self._mesh = ipctk.CollisionMesh(self._x, ipctk.edges(faces), faces)

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Concatenate the positions in column-major order."""
        assert xb is not None
        self._x = np.asfortranarray(np.concatenate([xa, xb]))

    def query(self) -> bool:
        """Whether any two triangles meet."""
        import ipctk

        return bool(ipctk.has_intersections(self._mesh, self._x))
