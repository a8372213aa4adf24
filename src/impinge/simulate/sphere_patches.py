"""Flat patches of the surface below the nodes of a sphere tree: where they are, which way they face, how large.

A leaf has patches for each of the six directions (±x, ±y, ±z) that its pieces face most at rest: leaves at an edge of
a body are bent, their patches are not. Where the tree is coarse, patches larger than ``finest`` are halved across their
longer side until they are not, or are one piece: a soft body would sag between the centres of large ones. An inner node
has one patch of all pieces below it.

centre    mean of the pieces, by their area at rest: a sum of surface vertices whose weights add up to 1
normal    mean of the unit normals of their triangles now; short where the patch is bent
area      at rest
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy

Ids = NDArray[np.int64]
DIRECTIONS = 6
MOST = 64
"""Patches of a leaf in one direction, at most."""


class Patches(NamedTuple):
    """Some patches."""

    centre: Floats
    """Shape (k, 3)."""
    normal: Floats
    area: Floats
    start: Ids
    """First entry of each, and their number, shape (k + 1,)."""
    vertex: Ids
    weight: Floats

    def entries(self, patch: Ids) -> tuple[Ids, Ids, Floats]:
        """For the chosen patches in turn: which of the choices, vertex and weight of each entry."""
        row, entry = _expand(self.start[patch], (self.start[1:] - self.start[:-1])[patch])
        return row, self.vertex[entry], self.weight[entry]


class PatchMaker:
    """Patches of one tree over one surface; ``finest`` is the root of the area that patches of leaves have at most."""

    def __init__(self, tree: SphereHierarchy, rest: Floats, faces: Any, finest: float) -> None:
        self._tree, self._faces = tree, faces
        normal = _normals(rest[faces[tree.piece_triangle]])
        self._area = 0.5 * np.linalg.norm(normal, axis=1) * np.abs(np.linalg.det(tree.piece_corner))
        self._middle = tree.piece_corner.mean(axis=1)
        axis = np.argmax(np.abs(normal), axis=1)
        direction = 2 * axis + (normal[np.arange(len(axis)), axis] < 0.0)
        leaves = tree.leaves.astype(np.int64)
        row, piece = _expand(tree.piece_start[leaves].astype(np.int64), (tree.piece_stop - tree.piece_start)[leaves])
        key = MOST * (DIRECTIONS * leaves[row] + direction[piece])
        at = np.einsum("pc,pcj->pj", self._middle, rest[faces[tree.piece_triangle]])
        key += _parts(key, at[piece], self._area[piece], finest)
        order = np.argsort(key, kind="stable")
        self._piece = piece[order]
        self.key, first = np.unique(key[order], return_index=True)
        """Of each patch of a leaf a number from node, direction and part; rising."""
        self._first = np.append(first, len(order))

    def of_leaves(self, nodes: Ids) -> tuple[Ids, Ids]:
        """First patch of leaves, and how many each has."""
        first = np.searchsorted(self.key, MOST * DIRECTIONS * nodes)
        return first, np.searchsorted(self.key, MOST * DIRECTIONS * (nodes + 1)) - first

    def patches(self, ids: Ids, x: Floats) -> Patches:
        """Patches of leaves, of the surface at ``x``."""
        row, place = _expand(self._first[ids], self._first[ids + 1] - self._first[ids])
        return self._made(row, self._piece[place], len(ids), x)

    def below(self, nodes: Ids, x: Floats) -> Patches:
        """One patch for each node, of all that is below it."""
        first, stop = (bound[nodes].astype(np.int64) for bound in (self._tree.piece_start, self._tree.piece_stop))
        return self._made(*_expand(first, stop - first), len(nodes), x)

    def _made(self, row: Ids, piece: Ids, count: int, x: Floats) -> Patches:
        vertex = self._faces[self._tree.piece_triangle[piece]].astype(np.int64)
        area: Floats = np.bincount(row, self._area[piece], count).astype(np.float64)
        share = self._area[piece] / np.where(area > 0.0, area, 1.0)[row]
        weight = share[:, None] * self._middle[piece]
        corner = x[vertex]
        facing = _normals(corner)
        length = np.linalg.norm(facing, axis=1, keepdims=True)
        facing = share[:, None] * np.where(length > 0.0, facing / np.where(length > 0.0, length, 1.0), 0.0)
        at = np.einsum("pc,pcj->pj", weight, corner)
        centre, normal = (_summed(row, value, count) for value in (at, facing))
        start = 3 * np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
        return Patches(centre, normal, area, start, vertex.reshape(-1), weight.reshape(-1))


def _parts(group: Ids, at: Floats, area: Floats, finest: float) -> Ids:
    """Which part of its group each piece belongs to, from 0 on."""
    part = np.zeros(len(group), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    large = np.add.reduceat(area[order], first) > finest**2 if len(first) else np.zeros(0, dtype=np.bool_)
    stop = np.append(first[1:], len(order))
    for begin, end in zip(first[large].tolist(), stop[large].tolist()):
        halves, count = [order[begin:end]], 1
        while halves:
            ids = halves.pop()
            if len(ids) == 1 or area[ids].sum() <= finest**2 or count == MOST:
                continue
            side = int(np.argmax(np.ptp(at[ids], axis=0)))
            ids = ids[np.argsort(at[ids, side], kind="stable")]
            middle = int(np.clip(np.searchsorted(np.cumsum(area[ids]), 0.5 * area[ids].sum()), 1, len(ids) - 1))
            part[ids[middle:]] = count
            count += 1
            halves += [ids[:middle], ids[middle:]]
    return part


def leaf_patch_pairs(a: tuple[Ids, Ids], b: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    """All pairs of the patches of two leaves, for each pair of leaves."""
    (first_a, count_a), (first_b, count_b) = a, b
    row, nth = _expand(np.zeros(len(count_a), dtype=np.int64), count_a * count_b)
    return first_a[row] + nth // count_b[row], first_b[row] + nth % count_b[row]


def _expand(first: Ids, count: Ids) -> tuple[Ids, Ids]:
    """Row and place of each of ``count`` places from ``first`` of each row."""
    count = np.asarray(count, dtype=np.int64)
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def _summed(row: Ids, value: Floats, count: int) -> Floats:
    """Sums of the values of each row, shape (count, 3)."""
    return np.stack([np.bincount(row, value[:, j], count) for j in range(3)], axis=1).astype(np.float64)


def _normals(corner: Floats) -> Floats:
    return np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
