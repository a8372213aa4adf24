"""One body against itself: which pairs are visited once, and which always meet.

Mirrored    The tree is searched against itself. Leaves are ordered as their pieces are along the tree; a pair of
pairs       spheres (x, y) is followed unless everything below x comes after everything below y. Each two leaves are
            then found once, in order, and each leaf with itself.
Neighbours  Spheres around triangles that share a vertex always meet. Without the exact stage, two leaves whose
            triangles share a vertex are left out; with it they are kept, and their triangles are tested by the policy
            for self-collision.
Depths      are 0 for spheres whose triangles share a vertex, on any level: their overlap is no penetration.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Ints, sorted_unique
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search import context_kernels as kernels
from impinge.detect.sphere_tree.track.controls import by_node
from impinge.detect.sphere_tree.track.tracking import Layout

TWO_BODIES: tuple[Any, ...] = (
    np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32),
)  # fmt: skip
"""The arrays of ``OneBody`` for two bodies."""


class OneBody:
    """What the search of one body against itself reads of its tree."""

    def __init__(self, layout: Layout, faces: Ints, *, neighbours_count: bool) -> None:
        self.layout, self._faces = layout, faces
        tree = layout.tree
        piece_range: NDArray[np.int64] = np.zeros((len(layout.slot_parent), 2), dtype=np.int64)
        piece_range[layout.node_slot, 0], piece_range[layout.node_slot, 1] = tree.piece_start, tree.piece_stop
        excluding = TWO_BODIES[1:] if neighbours_count else by_node(self._leaf_vertices(), len(tree))[:2]
        self.arrays = (piece_range, *excluding)
        """Piece ranges by slot; vertices by leaf, empty where neighbours count."""

    def _leaf_vertices(self) -> NDArray[np.int64]:
        """Distinct leaves and vertices of their triangles, packed and sorted."""
        start, triangle = leaf_triangles(self.layout.tree)
        leaf = np.repeat(np.arange(len(start) - 1), np.diff(start))
        return sorted_unique((leaf[:, None] << 32 | self._faces[triangle].astype(np.int64)).reshape(-1))

    @cached_property
    def _vertices(self) -> tuple[NDArray[np.int64], Ints]:
        """Vertices below all nodes, from the leaves up."""
        tree, levels = self.layout.tree, [self._leaf_vertices()]
        for first in tree.level_start[-2:0:-1]:
            node = levels[-1] >> 32
            is_here = node >= first  # leaves above follow later
            parent = tree.parent[node[is_here]].astype(np.int64)
            above = parent << 32 | levels[-1][is_here] & 0xFFFFFFFF
            levels.append(sorted_unique(np.concatenate([levels[-1][~is_here], above])))
        return by_node(np.concatenate(levels), len(tree))[:2]

    def shares(self, pairs: Ints) -> Bools:
        """Which pairs of nodes have triangles that share a vertex."""
        found: Bools = np.zeros(len(pairs), dtype=np.bool_)
        kernels.find_sharing(np.ascontiguousarray(pairs), *self._vertices, found)
        return found


def leaf_triangles(tree: SphereHierarchy) -> tuple[NDArray[np.int64], Ints]:
    """Distinct triangles below each leaf, as starts by node and ids; inner nodes have none."""
    leaves = tree.leaves[np.argsort(tree.piece_start[tree.leaves])]  # in the order of the pieces
    node = np.repeat(leaves, tree.piece_stop[leaves] - tree.piece_start[leaves]).astype(np.int64)
    return by_node(node << 32 | tree.piece_triangle, len(tree))[:2]
