"""Warp on the CPU: its mesh tree, refitted, and a triangle test of ours.

Its own ``intersect_tri_tri`` reports disjoint pairs and misses intersecting ones: its time would not count.
Boxes are floats: positions must be floats too, or pairs may be missed.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from benchmarks.peers import Peer, as_pairs, faces_of
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh


class Adapter(Peer):
    """A tree of the first body; each triangle of the second queries it. One thread: Warp's CPU device has one."""

    name, package, module = "warp (CPU, our test)", "warp-lang", "warp"
    how = "refit, query"

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Build the tree once."""
        import warp as wp

        assert b is not None
        wp.config.log_level = logging.ERROR  # no banner
        wp.init()
        self._faces = [_array(faces_of(body, np.int32).ravel(), wp.int32) for body in (a, b)]
        self._x = [_array(body.vertices, wp.vec3d) for body in (a, b)]
        points = _array(a.vertices.astype(np.float32), wp.vec3)
        self._mesh = wp.Mesh(points, self._faces[0])
        self._count = wp.zeros(1, dtype=wp.int32, device="cpu")
        self._pairs = wp.zeros(1024, dtype=wp.vec2i, device="cpu")

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Write positions in place and refit the tree."""
        assert xb is not None
        for array, x in zip(self._x, (xa, xb)):
            array.numpy()[:] = x
        self._mesh.points.numpy()[:] = xa
        self._mesh.refit()

    def query(self) -> Ints:
        """All pairs; again with more room if there are more than there was room for."""
        import warp as wp

        from benchmarks.peers.warp_kernels import find_pairs

        (a, b), (xa, xb) = self._faces, self._x
        while True:
            self._count.zero_()
            inputs = [self._mesh.id, xa, a, xb, b, self._count, self._pairs]
            wp.launch(find_pairs, dim=len(b) // 3, inputs=inputs, device="cpu")
            found = int(self._count.numpy()[0])
            if found <= len(self._pairs):
                return as_pairs(self._pairs.numpy()[:found].copy())
            self._pairs = wp.zeros(2 * found, dtype=wp.vec2i, device="cpu")


def _array(values: Any, dtype: Any) -> Any:
    import warp as wp

    return wp.array(np.ascontiguousarray(values), dtype=dtype, device="cpu")
