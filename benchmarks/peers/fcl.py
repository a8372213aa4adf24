"""FCL through python-fcl: the binding has no refit; every frame rebuilds both trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Peer, as_pairs, faces_of
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh

NO_CAP = 10_000_000
"""Contacts; the default is one."""


class Adapter(Peer):
    """Trees of OBBs and RSSs, one thread."""

    name, package, module = "python-fcl", "python-fcl", "fcl"
    how = "rebuild, collide"

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Keep the faces."""
        assert b is not None
        self._faces = [faces_of(body, np.int64) for body in (a, b)]
        self.update(a.vertices, b.vertices)

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Build both models."""
        assert xb is not None
        self._objects = [_build(x, faces) for x, faces in zip((xa, xb), self._faces)]

    def query(self) -> Ints:
        """All pairs, without contact points."""
        import fcl

        request = fcl.CollisionRequest(num_max_contacts=NO_CAP, enable_contact=False)
        result = fcl.CollisionResult()
        fcl.collide(*self._objects, request, result)
        return as_pairs([(contact.b1, contact.b2) for contact in result.contacts])


def _build(x: Floats, faces: Any) -> Any:
    import fcl

    model = fcl.BVHModel()
    model.beginModel(len(x), len(faces))
    model.addSubModel(x, faces)
    model.endModel()
    return fcl.CollisionObject(model)
