"""Flat surface patches below the nodes of a sphere tree: centre, normal, area.

A leaf has one group of patches per axis direction (±x, ±y, ±z), by the dominant component of the rest normal of its
pieces: leaves at an edge of a body are bent, their patches are flat. Patches of coarse trees larger than ``finest`` are
bisected across their longest extent down to ``finest`` or one piece: a soft body would sag between the centres of large
patches. An inner node has one patch of all pieces below it.

centre    mean of the pieces, weighted by rest area: a sum of surface vertices whose weights add up to 1
normal    mean of the current outward unit normals of their triangles; shorter than 1 where the patch is bent. A closed
          surface whose triangles face inwards is turned around.
area      at rest
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, sorted_unique
from impinge.detect.sphere_tree.build.sinking import outward_sign
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy

Ids = NDArray[np.int64]
DIRECTIONS = 6
MAX_PATCHES = 64
"""Largest number of patches of a leaf per direction."""


class Patches(NamedTuple):
    """A set of patches."""

    centre: Floats
    """Shape (k, 3)."""
    normal: Floats
    area: Floats
    start: Ids
    """First entry of each patch, shape (k + 1,)."""
    vertex: Ids
    weight: Floats

    def entries(self, patch: Ids) -> tuple[Ids, Ids, Floats]:
        """Return position in ``patch``, vertex and weight of every entry of the selected patches."""
        row, entry = _expand(self.start[patch], (self.start[1:] - self.start[:-1])[patch])
        return row, self.vertex[entry], self.weight[entry]


class PatchBuilder:
    """Builds patches of one tree over one surface; ``finest`` is the largest square root of a leaf patch area."""

    def __init__(self, tree: SphereHierarchy, rest: Floats, faces: Any, finest: float) -> None:
        self._tree, self._faces = tree, faces
        self._outward = outward_sign(rest, faces[sorted_unique(tree.piece_triangle)]) or 1.0
        normal = _normals(rest[faces[tree.piece_triangle]])
        self._area = 0.5 * np.linalg.norm(normal, axis=1) * np.abs(np.linalg.det(tree.piece_corner))
        self._middle = tree.piece_corner.mean(axis=1)
        axis = np.argmax(np.abs(normal), axis=1)
        direction = 2 * axis + (normal[np.arange(len(axis)), axis] < 0.0)
        leaves = tree.leaves.astype(np.int64)
        row, piece = _expand(tree.piece_start[leaves].astype(np.int64), (tree.piece_stop - tree.piece_start)[leaves])
        key = MAX_PATCHES * (DIRECTIONS * leaves[row] + direction[piece])
        at = np.einsum("pc,pcj->pj", self._middle, rest[faces[tree.piece_triangle]])
        key += _bisect(key, at[piece], self._area[piece], finest)
        order = np.argsort(key, kind="stable")
        self._piece = piece[order]
        self.key, first = np.unique(key[order], return_index=True)
        """Sorted key of each leaf patch, from node, direction and part."""
        self._first = np.append(first, len(order))

    def of_leaves(self, nodes: Ids) -> tuple[Ids, Ids]:
        """Return the first patch of each leaf and the number of its patches."""
        first = np.searchsorted(self.key, MAX_PATCHES * DIRECTIONS * nodes)
        return first, np.searchsorted(self.key, MAX_PATCHES * DIRECTIONS * (nodes + 1)) - first

    def node_of(self, key: Ids) -> Ids:
        """Return the leaf of each leaf patch, by its key."""
        return key // (MAX_PATCHES * DIRECTIONS)

    def patches(self, ids: Ids, x: Floats) -> Patches:
        """Return leaf patches of the surface at positions ``x``."""
        row, place = _expand(self._first[ids], self._first[ids + 1] - self._first[ids])
        return self._build(row, self._piece[place], len(ids), x)

    def below(self, nodes: Ids, x: Floats) -> Patches:
        """Return one patch per node, of all pieces below it."""
        first, stop = (bound[nodes].astype(np.int64) for bound in (self._tree.piece_start, self._tree.piece_stop))
        return self._build(*_expand(first, stop - first), len(nodes), x)

    def _build(self, row: Ids, piece: Ids, count: int, x: Floats) -> Patches:
        vertex = self._faces[self._tree.piece_triangle[piece]].astype(np.int64)
        area: Floats = np.bincount(row, self._area[piece], count).astype(np.float64)
        share = self._area[piece] / np.where(area > 0.0, area, 1.0)[row]
        weight = share[:, None] * self._middle[piece]
        corner = x[vertex]
        facing = self._outward * _normals(corner)
        length = np.linalg.norm(facing, axis=1, keepdims=True)
        facing = share[:, None] * np.where(length > 0.0, facing / np.where(length > 0.0, length, 1.0), 0.0)
        at = np.einsum("pc,pcj->pj", weight, corner)
        centre, normal = (_summed(row, value, count) for value in (at, facing))
        start = 3 * np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
        return Patches(centre, normal, area, start, vertex.reshape(-1), weight.reshape(-1))


def _bisect(group: Ids, at: Floats, area: Floats, finest: float) -> Ids:
    """Return the part of its group that each piece belongs to, from 0."""
    part = np.zeros(len(group), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    large = np.add.reduceat(area[order], first) > finest**2 if len(first) else np.zeros(0, dtype=np.bool_)
    stop = np.append(first[1:], len(order))
    for begin, end in zip(first[large].tolist(), stop[large].tolist()):
        halves, count = [order[begin:end]], 1
        while halves:
            ids = halves.pop()
            if len(ids) == 1 or area[ids].sum() <= finest**2 or count == MAX_PATCHES:
                continue
            side = int(np.argmax(np.ptp(at[ids], axis=0)))
            ids = ids[np.argsort(at[ids, side], kind="stable")]
            middle = int(np.clip(np.searchsorted(np.cumsum(area[ids]), 0.5 * area[ids].sum()), 1, len(ids) - 1))
            part[ids[middle:]] = count
            count += 1
            halves += [ids[:middle], ids[middle:]]
    return part


def leaf_patch_pairs(a: tuple[Ids, Ids], b: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    """Return all pairs of patches of each pair of leaves."""
    (first_a, count_a), (first_b, count_b) = a, b
    row, nth = _expand(np.zeros(len(count_a), dtype=np.int64), count_a * count_b)
    return first_a[row] + nth // count_b[row], first_b[row] + nth % count_b[row]


def _expand(first: Ids, count: Ids) -> tuple[Ids, Ids]:
    """Expand ranges of ``count`` places from ``first``: row and place of each element."""
    count = np.asarray(count, dtype=np.int64)
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def _summed(row: Ids, value: Floats, count: int) -> Floats:
    """Sum values by row, shape (count, 3)."""
    return np.stack([np.bincount(row, value[:, j], count) for j in range(3)], axis=1).astype(np.float64)


def _normals(corner: Floats) -> Floats:
    return np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
