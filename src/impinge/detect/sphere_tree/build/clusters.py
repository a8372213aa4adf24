"""A sphere tree from clusters of the surface: fast, for any surface or soup.

1. Divide the pieces of a node: the widest group is halved at the middle of its box, until there are as many groups as
          children are allowed (with eight, the cells of an octree that the surface meets), then k-means refines them.
2. Wrap   the smallest ball around the corners of each group.
3. Repeat level by level, down to the last level or to single pieces.

Pieces with equal middles stay together. Cost: O(p branching) per level, some tenths of a second for 70,000 triangles.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.scan import exclusive_scan
from impinge.checks import NONE, Floats, Ints
from impinge.detect.sphere_tree.build import clusters_kernels as kernels
from impinge.detect.sphere_tree.build.pieces import Pieces

Wide: TypeAlias = NDArray[np.int64]


class Draft(NamedTuple):
    """The output of a builder: nodes level by level, siblings together, and the leaf of each piece."""

    pieces: Pieces
    leaf: Ints
    """Shape (p,)."""
    centre: Floats
    parent: Ints
    level_start: Ints


class Growth:
    """A tree that grows level by level; open nodes are those of the last level, in order."""

    def __init__(self, pieces: Pieces, points: Floats) -> None:
        self.pieces, self.points = pieces, points
        self.owner: Wide = np.zeros(len(points), dtype=np.int64)
        """Open node of each piece, as a position among the open nodes; NONE under leaves above."""
        self.leaf: Ints = np.zeros(len(points), dtype=np.int32)
        self.centres: list[Floats] = []
        self._parents = [np.full(1, NONE, dtype=np.int32)]
        self._level_start = [0, 1]

    def rows(self) -> tuple[Wide, Wide]:
        """The pieces of the open nodes, node by node, and how many each has."""
        rows = np.argsort(self.owner, kind="stable")
        rows = rows[np.searchsorted(self.owner[rows], 0) :]
        return rows, np.bincount(self.owner[rows], minlength=self._level_start[-1] - self._level_start[-2])

    def divide(self, rows: Wide, child_count: Wide, label: Wide) -> bool:
        """Give open nodes children, ``label`` for each piece in ``rows``; False if no node has several."""
        child_count = np.where(child_count > 1, child_count, 0)
        if not child_count.any():
            return False
        owner = self.owner[rows]
        child = exclusive_scan(child_count)[owner] + label
        nodes = np.arange(self._level_start[-2], self._level_start[-1], dtype=np.int32)
        self._parents.append(np.repeat(nodes, child_count))
        stays = child_count[owner] > 0
        self.owner[:] = NONE
        self.owner[rows[stays]] = child[stays]
        self.leaf[rows[stays]] = self._level_start[-1] + child[stays]
        self._level_start.append(self._level_start[-1] + int(child_count.sum()))
        return True

    def draft(self) -> Draft:
        """The tree so far."""
        level_start = np.array(self._level_start, dtype=np.int32)
        return Draft(self.pieces, self.leaf, np.concatenate(self.centres), np.concatenate(self._parents), level_start)


def draft_by_clusters(pieces: Pieces, points: Floats, *, branching: int, levels: int) -> Draft:
    """Divide pieces, whose corners are at ``points`` (p, 3, 3), into ``levels`` levels below the root."""
    tree = Growth(pieces, points)
    middle = middles(points)
    for level in range(levels + 1):
        rows, count = tree.rows()
        tree.centres.append(balls_around(count, points[rows]))
        if level == levels or not tree.divide(rows, *cluster(count, middle[rows], branching)):
            break
    return tree.draft()


def middles(points: Floats) -> Floats:
    """Middles of pieces, shape (p, 3)."""
    return (points[:, 0] + points[:, 1] + points[:, 2]) / 3.0


def radii_around(start: Wide, stop: Wide, centre: Floats, points: Floats, slack: Floats) -> Floats:
    """Radii, rounded outwards, of balls around ranges of pieces, whose corners are known up to ``slack``."""
    radius = np.zeros(len(start))
    kernels.radii_around_pieces.over(len(start))(start, stop, centre, points.reshape(-1, 3), slack, radius)
    return radius


def balls_around(count: Wide, points: Floats) -> Floats:
    """Centres of the smallest balls around consecutive groups of pieces, ``count`` in each."""
    stop = np.cumsum(count)
    centre = np.zeros((len(count), 3))
    kernels.balls_around_pieces.over(len(count))(stop - count, stop, points.reshape(-1, 3), centre)
    return centre


def cluster(count: Wide, middle: Floats, branching: int) -> tuple[Wide, Wide]:
    """Divide groups of pieces, ``count`` in each: the number of clusters of each, and the cluster of each piece."""
    stop = np.cumsum(count)
    cluster_count, label = np.zeros(len(count), dtype=np.int64), np.zeros(len(middle), dtype=np.int64)
    kernels.divide_nodes.over(len(count))(stop - count, stop, middle, branching, cluster_count, label)
    return cluster_count, label
