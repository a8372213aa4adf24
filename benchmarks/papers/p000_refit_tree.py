"""The AABB tree that [HatabKheddar2006] compares with: [vandenBergen1997], on one thread.

1. Build   top-down: a set of triangles is split at the middle of the longest side of the box around their centres, down
           to single triangles.
2. Refit   bottom-up: leaves from the vertices, each node from its two children.
3. Query   Descend both trees simultaneously, opening the larger node, to pairs of triangles whose boxes overlap;
           these are resolved by the exact test that all detectors share.

A baseline for benchmarks, not a detector for users: ``BoxTree`` is its successor. Boxes are exact: no pair is lost;
build, refit and query can be timed separately.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.papers import p000_refit_tree_kernels as kernels
from impinge.checks import Ints
from impinge.detect.common.narrow_phase import classify
from impinge.detect.common.pair_query import PairOptions, finish_pairs
from impinge.detect.common.results import TrianglePairs
from impinge.mesh.tri_mesh import TriMesh


class RefitTree:
    """Two trees; ``refit`` after the vertices moved, ``build`` after triangles were added or removed."""

    name = "refit_tree"

    def __init__(self, a: TriMesh, b: TriMesh) -> None:
        self.bodies = a, b
        self._pairs = np.zeros((2, 1024), dtype=np.int32)
        self.build()

    def build(self) -> None:
        """Rebuild both trees over the live triangles, and fit them."""
        self._trees = [_Tree(body) for body in self.bodies]
        self._todo = np.zeros((sum(len(body) for body in self.bodies) + 2, 2), dtype=np.int64)
        self.refit()

    def refit(self) -> None:
        """Fit all boxes to the current vertices."""
        for tree in self._trees:
            tree.refit()

    def query(self) -> TrianglePairs:
        """All pairs, as of the last refit."""
        began = perf_counter()
        options, stats = PairOptions(), {}
        a, b = (tree.arrays for tree in self._trees)
        while True:
            found, stats["box_tests"] = kernels.overlapping_leaves(a, b, self._todo, *self._pairs)
            if found <= self._pairs.shape[1]:
                break
            self._pairs = np.zeros((2, 2 * found), dtype=np.int32)
        sides = options.query_bodies(*self.bodies)
        roots = np.stack([a[0][0], b[0][0]])
        extent = roots[:, 3:].max(axis=0) - roots[:, :3].min(axis=0)
        pair_a, pair_b = self._pairs[:, :found]
        return finish_pairs(
            classify(*sides, pair_a, pair_b, extent, stats),
            options,
            method=self.name,
            stats=stats,
            reason=None,
            bodies=self.bodies,
            began=began,
        )


class _Tree:
    def __init__(self, body: TriMesh) -> None:
        self._body = body
        snapshot = body.snapshot()
        order: Ints = snapshot.live.copy()
        nodes = 2 * len(order) - 1
        self._second, self._triangle = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int32)
        self._box = np.zeros((nodes, 6))
        kernels.build(snapshot.vertices[snapshot.elements].mean(axis=1), order, self._second, self._triangle)

    def refit(self) -> None:
        snapshot = self._body.snapshot()
        kernels.refit(snapshot.vertices, snapshot.elements, self._second, self._triangle, self._box)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        return self._box, self._second, self._triangle
