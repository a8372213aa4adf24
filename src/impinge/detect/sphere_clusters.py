"""A sphere tree from clusters of the surface: quick, for any surface or soup.

1. Divide the pieces of a node: the widest group is halved at the middle of its box, until there are as many groups as
          children are allowed (with eight, an octree's cells where the surface is), then k-means rounds them off.
2. Wrap   the smallest ball around the corners of each group.
3. Repeat level by level, down to the last level or to single pieces.

Pieces whose middles are all in one place stay together. Cost: O(p branching) per level, some tenths of a second for
70,000 triangles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import NONE, Floats, Ints
from impinge.backend.scan import exclusive_scan
from impinge.detect import sphere_clusters_kernels as kernels
from impinge.detect.sphere_pieces import Pieces


class Draft(NamedTuple):
    """A tree as builders leave it: nodes level by level, siblings together, and the leaf of each piece."""

    pieces: Pieces
    leaf: Ints
    """Shape (p,)."""
    centre: Floats
    parent: Ints
    level_start: Ints


def draft_by_clusters(pieces: Pieces, points: Floats, *, branching: int, levels: int) -> Draft:
    """Divide pieces, whose corners are at ``points`` (p, 3, 3), into ``levels`` levels below the root."""
    leaf, middle = np.zeros(len(points), dtype=np.int32), (points[:, 0] + points[:, 1] + points[:, 2]) / 3.0
    rows, count = np.arange(len(points)), np.array([len(points)])  # pieces of the open nodes, node by node
    nodes = np.zeros(1, dtype=np.int32)
    centres, parents, level_start = [balls_around(count, points)], [np.full(1, NONE, dtype=np.int32)], [0, 1]
    for _ in range(levels):
        owner = np.repeat(np.arange(len(nodes)), count)
        child_count, label = _divide(count, middle[rows], branching)
        is_divided = child_count > 1
        if not is_divided.any():
            break
        child_count[~is_divided] = 0
        stays = is_divided[owner]
        child = (level_start[-1] + exclusive_scan(child_count)[owner] + label)[stays]
        rows = rows[stays][np.argsort(child, kind="stable")]
        leaf[rows] = np.sort(child)
        count = np.bincount(child - level_start[-1])
        parents.append(np.repeat(nodes, child_count))
        centres.append(balls_around(count, points[rows]))
        nodes = np.arange(level_start[-1], level_start[-1] + len(count), dtype=np.int32)
        level_start.append(level_start[-1] + len(count))
    return Draft(pieces, leaf, np.concatenate(centres), np.concatenate(parents), np.array(level_start, np.int32))


def balls_around(count: NDArray[np.int64], points: Floats) -> Floats:
    """Centres of the smallest balls around groups of pieces that stand one after the other, ``count`` in each."""
    stop = np.cumsum(count)
    centre = np.zeros((len(count), 3))
    kernels.balls_around_pieces.over(len(count))(stop - count, stop, points.reshape(-1, 3), centre)
    return centre


def _divide(count: NDArray[np.int64], middle: Floats, branching: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of children of each node, and the child of each piece."""
    stop = np.cumsum(count)
    child_count, label = np.zeros(len(count), dtype=np.int64), np.zeros(len(middle), dtype=np.int64)
    kernels.divide_nodes.over(len(count))(stop - count, stop, middle, branching, child_count, label)
    return child_count, label
