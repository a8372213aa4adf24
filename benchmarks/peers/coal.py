"""Coal, with its replace and refit: ``beginReplaceModel`` to ``endReplaceModel``.

Of the options in Python, OBB trees with a bottom-up refit are fastest in total. Two bodies of 20k triangles
take about 40 ms a frame, against 100 with a refit from the top and 140 with a rebuild; trees of OBBs and RSSs take 115,
170 and 230.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Peer, as_pairs, faces_of
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh

NO_CAP = 10_000_000
"""Contacts; the default is one."""


class Adapter(Peer):
    """Trees of OBBs, one thread."""

    name, package, module = "coal", "coal", "coal"
    how = "refit, collide"

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Build both models once."""
        import coal

        assert b is not None
        self._models = [_build(body) for body in (a, b)]
        self._points = [_points(body.vertices) for body in (a, b)]
        self._request = coal.CollisionRequest()
        self._request.num_max_contacts = NO_CAP
        self._request.enable_contact = False
        self._place = coal.Transform3s()

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Replace all vertices and refit from the bottom.

        Coal counts the vertices of a list that is slow to fill from Python. It gets an old list, and the new positions
        are then written over it in one block.
        """
        assert xb is not None
        for model, points, x in zip(self._models, self._points, (xa, xb)):
            model.beginReplaceModel()
            model.replaceSubModel(points)
            model.vertices()[:] = x
            if model.endReplaceModel(True, True) != 0:  # refit, from the bottom
                raise RuntimeError("coal refused to replace the vertices")

    def query(self) -> Ints:
        """All pairs, without contact points."""
        import coal

        a, b = self._models
        result = coal.CollisionResult()
        coal.collide(a, self._place, b, self._place, self._request, result)
        return as_pairs([(contact.b1, contact.b2) for contact in result.getContacts()])


def _build(body: TriMesh) -> Any:
    import coal

    model = coal.BVHModelOBB()
    model.beginModel(len(body.faces), len(body.vertices))
    model.addVertices(np.ascontiguousarray(body.vertices))
    model.addTriangles(faces_of(body, np.int64))
    model.endModel()
    return model


def _points(x: Floats) -> Any:
    import coal

    points = coal.StdVec_Vec3s()
    points.extend(list(x))
    return points
