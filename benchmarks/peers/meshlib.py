"""MeshLib, with its refit (``updateCaches``): half the time of a rebuild."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from benchmarks.peers import Peer, as_pairs, cores, faces_of
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh


class Adapter(Peer):
    """Trees of boxes in single precision: positions are rounded to floats."""

    name, package, module = "meshlib", "meshlib", "meshlib.mrmeshnumpy"
    how = "refit, collide"
    has_self_query = True

    def threads(self) -> int:
        """All cores: TBB."""
        return cores()

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Build meshes and trees once."""
        from meshlib import mrmeshpy

        self._meshes = [_Mesh(body) for body in (a, b) if body is not None]
        self._parts = [mrmeshpy.MeshPart(each.mesh) for each in self._meshes]

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Move all points and refit the trees."""
        for mesh, x in zip(self._meshes, (xa, xb)):
            if x is not None:
                mesh.move(x)

    def query(self) -> Ints:
        """All pairs."""
        from meshlib import mrmeshpy

        return _read(mrmeshpy.findCollidingTriangles(*self._parts))

    def self_query(self) -> Ints:
        """All pairs; neighbours are tested for more than touching."""
        from meshlib import mrmeshpy

        return _read(mrmeshpy.findSelfCollidingTriangles(self._parts[0]))


class _Mesh:
    def __init__(self, body: TriMesh) -> None:
        from meshlib import mrmeshnumpy

        faces = faces_of(body, np.int32)
        self.mesh = mrmeshnumpy.meshFromFacesVerts(faces, np.ascontiguousarray(body.vertices))
        self.mesh.getAABBTree()
        count = self.mesh.points.size()
        self._everything = mrmeshnumpy.vertBitSetFromBools(np.ones(count, dtype=np.bool_))
        # Vertices with several fans of faces were doubled: find out from which one each copy came.
        self._source: Any = None
        if count != len(body.vertices):
            theirs = mrmeshnumpy.getNumpyFaces(self.mesh.topology)
            valid = mrmeshnumpy.getNumpyBitSet(self.mesh.topology.getValidFaces())
            rows = np.flatnonzero(valid)
            self._source = np.arange(count) % len(body.vertices)
            self._source[theirs[rows].ravel()] = faces[rows].ravel()

    def move(self, x: Floats) -> None:
        from meshlib import mrmeshnumpy, mrmeshpy

        x = np.ascontiguousarray(x) if self._source is None else x[self._source]
        self.mesh.points = mrmeshpy.VertCoords(mrmeshnumpy.fromNumpyArray(x))
        self.mesh.updateCaches(self._everything)


def _read(found: Any) -> Ints:
    """Copy a vector of pairs of face ids, two ints each; reading them one by one would take longer than the query."""
    if found.size() == 0:
        return as_pairs([])
    ids = (ctypes.c_int32 * (2 * found.size())).from_address(found.data_pointer())
    return as_pairs(np.array(ids))
