"""One body against itself by its tree of spheres: which pairs are not looked at twice, and which always meet.

Twins       The tree is searched against itself. Leaves have an order, that of the pieces along the tree; a pair of
            spheres (x, y) is followed unless everything below x comes after everything below y. So each two leaves are
            found once, the first of them first, and each leaf with itself.
Neighbours  Spheres around triangles that share a vertex always meet, which tells nothing. Without the exact stage, two
            leaves whose triangles share a vertex are left out; with it they are kept, and their triangles are tested
            by the policy for self-collision.
Depths      are 0 of spheres whose triangles share a vertex, on any level: how far they overlap is no penetration.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Ints, sorted_unique
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search import kernels
from impinge.detect.sphere_tree.search.body_binding import leaf_triangles
from impinge.detect.sphere_tree.track.tracking import Layout

NOBODY: tuple[Any, ...] = (
    np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32),
)  # fmt: skip
"""What kernels take for two bodies."""
_LOW = 0xFFFFFFFF


class OneBody:
    """What a search of one body against itself has to know of its tree."""

    def __init__(self, layout: Layout, faces: Ints, *, neighbours_count: bool) -> None:
        self.layout, self._faces = layout, faces
        tree = layout.tree
        stand: NDArray[np.int64] = np.zeros((len(layout.slot_parent), 2), dtype=np.int64)
        stand[layout.node_slot, 0], stand[layout.node_slot, 1] = tree.piece_start, tree.piece_stop
        excluding = NOBODY[1:] if neighbours_count else _by_node(_below_leaves(tree, faces), len(tree))
        self.arrays = (stand, *excluding)
        """What kernels take: the range of pieces by slot; lists of vertices by leaf, empty where neighbours count."""

    @cached_property
    def _vertices(self) -> tuple[NDArray[np.int64], Ints]:
        """Vertices below all nodes, from the leaves up."""
        tree = self.layout.tree
        levels = [_below_leaves(tree, self._faces)]
        for first in tree.level_start[-2:0:-1]:
            node = levels[-1] >> 32
            is_here = node >= first  # leaves above have to wait
            parent = tree.parent[node[is_here]].astype(np.int64)
            levels.append(
                sorted_unique(np.concatenate([levels[-1][~is_here], parent << 32 | levels[-1][is_here] & _LOW]))
            )
        return _by_node(sorted_unique(np.concatenate(levels)), len(tree))

    def shares(self, pairs: Ints) -> Bools:
        """For pairs of nodes, whether triangles below them share a vertex."""
        found: Bools = np.zeros(len(pairs), dtype=np.bool_)
        kernels.find_sharing(np.ascontiguousarray(pairs), *self._vertices, found)
        return found


def _below_leaves(tree: SphereHierarchy, faces: Ints) -> NDArray[np.int64]:
    """Distinct leaves and vertices of their triangles, packed and sorted."""
    start, triangle = leaf_triangles(tree)
    leaf = np.repeat(np.arange(len(tree), dtype=np.int64), np.diff(start))
    return sorted_unique((leaf[:, None] << 32 | faces[triangle].astype(np.int64)).reshape(-1))


def _by_node(key: NDArray[np.int64], node_count: int) -> tuple[NDArray[np.int64], Ints]:
    """Packed nodes and vertices as starts by node and vertices."""
    start = np.searchsorted(key >> 32, np.arange(node_count + 1)).astype(np.int64)
    return start, (key & _LOW).astype(np.int32)
