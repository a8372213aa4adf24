"""Near pairs of features of one body, listed once and used for many motions that deform their surroundings little.

List       At reference positions all pairs of features no farther apart than a margin m (``detect.proximity``).
Map        For each pair of blocks that may meet in a motion (``sweep``), a linear map L fits the positions of their
           vertices at the start of the motion to those of the reference, p, and a map M those at the end. It absorbs
           the common rotation and strain; a ridge towards the map of the whole body holds it where a flat block leaves
           it free. What remains are residuals w = x - L p. Any maps are valid: they decide about cost only.
Reach      Let s be the least stretch of all maps between L and M, and r the largest |w - w'| of two vertices, one of
           either block, at either end. Features with the distance d at the reference stay at least s d - r apart.
           With r / s at most m only listed pairs with d up to r / s can meet. Other pairs of blocks stay open.

Proof      Points of two features are fixed convex combinations of vertices. At time t they differ by K q + e, where q
           is their difference at the reference, |q| >= d, K = (1 - t) L + t M, and e = (1 - t) e(0) + t e(1) is a
           difference of convex combinations of residuals: |e| <= r. Every singular value of K is at least the least one
           of the nearer end minus half of |M - L|. A translation changes no difference.
Rounding   A residual is rounded six times; its terms are at most 13 times the largest coordinate (|L| <= 4). Listed
           distances are off by less than 2^-40 of it (``features_kernels``). ``ROUNDING`` allows for both many times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes.mesh_features import Layout
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.continuous import known_pairs_kernels as kernels
from impinge.detect.continuous.sweep import Found, Motion
from impinge.detect.continuous.sweep_kernels import EDGE_EDGE, VERTEX_FACE

MARGIN = 0.35
"""Margin of the list, relative to the mean length of edges."""
ROUNDING = 2.0**-38
"""Share of the largest coordinate that is added to distances."""
LEAST_SIZE, LARGEST_SIZE = 1e-60, 1e60
"""Largest coordinates outside of these bounds have no list: squares must neither over- nor underflow."""

Ids = NDArray[np.int64]
End = tuple[Floats, Floats, Floats, Floats, Floats]
"""Of the blocks, at one end of a motion: positions, sums, maps, bounds of residuals; and the map of the whole body."""


class KnownPairs:
    """The near pairs of features of one body with itself, as they are at the start of a motion."""

    def __init__(self, motion: Motion, near: Proximity) -> None:
        tree, features = motion.posed.tree, motion.features
        self._features = features
        self._start = tree.vertex_start[: tree.block_count + 1].copy()
        self._vertex = tree.vertex[: self._start[-1]].copy()
        blocks = tree.block_count
        self._p, self._sums, self._around = (
            np.zeros((len(self._vertex), 3)),
            np.zeros((blocks, 10)),
            np.zeros((blocks, 6)),
        )
        kernels.gather_blocks.over(blocks)(self._start, self._vertex, motion.start, self._p)
        kernels.sum_reference.over(blocks)(self._start, self._p, self._sums)
        kernels.fit_around.over(blocks)(self._start, self._p, self._around)
        self._size = _largest(motion.start)
        self._token: object = None
        self._list(motion, near)

    def _list(self, motion: Motion, near: Proximity) -> None:
        """Sort the pairs by pairs of blocks, the lower block first."""
        of_vertices, of_edges, of_faces = map(_owners, self._features[2:])
        pairs, distance = (near.vertex_face, near.edge_edge), (near.vertex_face_distance, near.edge_edge_distance)
        kind = np.repeat(np.array([VERTEX_FACE, EDGE_EDGE], dtype=np.int8), [len(pairs[0]), len(pairs[1])])
        blocks = [np.stack([one[rows[:, 0]], other[rows[:, 1]]], axis=1)
                  for rows, one, other in zip(pairs, (of_vertices, of_edges), (of_faces, of_edges))]  # fmt: skip
        faces, edges = motion.posed.state.faces, self._features.edges
        vertices = np.concatenate([
            np.concatenate([pairs[0][:, :1], faces[pairs[0][:, 1]]], axis=1),
            np.concatenate([edges[pairs[1][:, 0]], edges[pairs[1][:, 1]]], axis=1),
        ])  # fmt: skip
        count = len(self._sums)
        low, high = np.sort(np.concatenate(blocks), axis=1).T
        key = low * count + high
        order = np.argsort(key, kind="stable")
        self._kind, self._feature, self._vertices = kind[order], np.concatenate(pairs)[order], vertices[order]
        each, row_start = np.unique(key[order], return_index=True)
        low, high = np.divmod(each, count)
        slack = ROUNDING * self._size
        self._margin = near.margin - slack
        first = np.searchsorted(low, np.arange(count + 1))
        self._lists = first, high, np.append(row_start, len(key)), np.concatenate(distance)[order] - slack

    def is_of(self, motion: Motion) -> bool:
        """Whether the list is of this body since its last edit, in the order of the present tree."""
        return motion.features is self._features

    def find(self, block_pairs: Ids, motion: Motion) -> tuple[Bools, Found, int]:
        """Which pairs of blocks remain open; what may meet of the others, not yet narrow; and the number of tests."""
        is_open, rows = self._within(block_pairs, motion, 0.0)
        span, may_meet = np.zeros((len(rows), 2)), np.zeros(len(rows), dtype=np.bool_)
        kernels.walk_listed.over(len(rows))(rows, self._kind, self._vertices, motion.start, motion.end, span, may_meet)
        tests, rows, span = len(rows), rows[may_meet], span[may_meet]
        at_start = np.zeros(len(rows), dtype=np.bool_)
        return is_open, Found(self._kind[rows], self._feature[rows], self._vertices[rows], span, at_start), tests

    def near(self, block_pairs: Ids, motion: Motion, margin: float) -> tuple[Bools, list[Ints]]:
        """Which pairs of blocks remain open; pairs of features of the others that may be within a margin, by kind."""
        is_open, rows = self._within(block_pairs, motion, margin)
        return is_open, [self._feature[rows[self._kind[rows] == kind]] for kind in range(3)]

    def _within(self, block_pairs: Ids, motion: Motion, margin: float) -> tuple[Bools, Ids]:
        """Which pairs of blocks remain open, and the rows of the others that may come within a margin."""
        size = max(self._size, _largest(motion.start), _largest(motion.end))
        reach, count = np.full(len(block_pairs), np.inf), np.zeros(len(block_pairs), dtype=np.int64)
        if LEAST_SIZE < size < LARGEST_SIZE:
            if motion.posed.token != self._token:
                self._token, self._before = motion.posed.token, self._at(motion.start)
            before, after = self._before, self._before if motion.end is motion.start else self._at(motion.end)
            kernels.find_reaches.over(len(block_pairs))(
                block_pairs, self._start, self._p, self._sums, self._around, before, after, self._margin,
                margin + ROUNDING * size, self._lists, reach, count,
            )  # fmt: skip
        rows = np.zeros(count.sum(), dtype=np.int64)
        kernels.list_rows.over(len(reach))(block_pairs, self._lists, reach, np.cumsum(count) - count, rows)
        return reach == np.inf, rows

    def _at(self, x: Floats) -> End:
        """All blocks at positions of the vertices."""
        blocks = len(self._sums)
        rows, sums = np.zeros((len(self._vertex), 3)), np.zeros((blocks, 12))
        maps, box = np.zeros((blocks, 3, 3)), np.zeros((blocks, 6))
        kernels.gather_blocks.over(blocks)(self._start, self._vertex, x, rows)
        kernels.sum_moved.over(blocks)(self._start, self._p, rows, sums)
        whole = np.array(kernels.map_of(0, 0, self._sums.sum(axis=0)[None], sums.sum(axis=0)[None], np.eye(3)))
        kernels.fit_maps.over(blocks)(self._start, self._p, self._sums, rows, sums, whole, maps, box)
        return rows, sums, maps, box, whole


def _owners(layout: Layout) -> Ids:
    """The block of each feature by id."""
    block = np.repeat(np.arange(len(layout.group_start) - 1), WIDTH * np.diff(layout.group_start))
    is_there = layout.lane_id >= 0
    table = np.zeros(layout.lane_id.max(initial=-1) + 1, dtype=np.int64)
    table[layout.lane_id[is_there]] = block[is_there]
    return table


def _largest(x: Floats) -> float:
    """The largest coordinate."""
    return max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
