"""Where the spheres of a tree are after the body has deformed; found only for the spheres that a query visits.

A sphere with centre c and radius r at rest follows some vertices q, its *controls*, which are at q' now.

"paper"   c' = c + mean(q' - q), r' = r max |q' - c'| / |q - c| over the k controls nearest to c [MendozaOSullivan2005,
          4.4]. Not conservative: the sphere may shrink off the surface, and a turn moves it, since the mean of the
          controls is not the centre.
"affine"  c' = Σ w q' with the least weights for which Σ w = 1 and Σ w q = c, r' = |F| r with F the affine map that fits
          q to q' best. Follows every affine motion; not conservative for others.
"bound"   For bodies whose surface is embedded in a coarse mesh, p = Σ w_ij q_j: all j that occur in the sphere are its
          controls, F their best affine map, u_j = q_j' - c' - F (q_j - c) what it leaves, b_j weights with Σ b = 1:
              p_i' - c' = F (p_i - c) + Σ_j (w_ij - b_j) u_j,   c' = Σ b_j q_j'
              r' = |F| r + Σ_j max_i |w_ij - b_j| |u_j|
          holds every p_i' whatever the motion; nothing is added under an affine one. (The idea of bounding what a
          reduced model does to a sphere is [JamesPai2004]'s.)
"refit"   c' follows controls out of the vertices below the sphere, and r' is the distance of the farthest of these:
          conservative, and as tight as a ball with that centre can be. Costs a look at every vertex below.

Wrapped   Each sphere is found by itself, so that only those are that a query visits.
Layered   A sphere must hold its children: all are found at once, leaves as above, the others from their children.
|F|       is bounded by the two invariants of FᵀF (``simd_tracking``), at most 16% too large, exact for turns.
Flat      The centre of a refitted sphere may be far off a flat patch of controls; the offset is kept along the
          normal of the patch, since an affine fit would amplify how the patch bends.
Rounding  Conservative modes round radii outwards.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import NONE, Floats, Ints
from impinge.backend.simd import WIDTH
from impinge.backend.simd_tracking import HALF
from impinge.detect import sphere_tracking_kernels as kernels
from impinge.detect.sphere_controls import (
    NO_POINTS,
    Controls,
    Steering,
    bound_controls,
    nearest_controls,
    padded,
    points_below,
    spread_controls,
)
from impinge.detect.sphere_hierarchy import SphereHierarchy

Tracking: TypeAlias = Literal["paper", "affine", "refit", "bound"]
MODES = {"paper": kernels.PAPER, "affine": kernels.AFFINE, "bound": kernels.BOUND, "refit": kernels.REFIT}
CONSERVATIVE = ("refit", "bound")
SUMMED = ("affine", "bound")
"""Modes whose radii round as the sums do that they are made of."""

NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
SLOT_NS = 6
"""What it takes to let a sphere hold one of its children's."""
_OWN_REFERENCES = 2
_CAN_REUSE = getattr(sys, "_is_gil_enabled", lambda: True)() and sys.implementation.name == "cpython"


class Layout:
    """A hierarchy in blocks of eight siblings, which are tested at once."""

    def __init__(self, tree: SphereHierarchy) -> None:
        self.tree = tree
        has_children = np.flatnonzero(tree.first_child != NONE)
        first, count = tree.first_child[has_children].astype(np.int64), tree.child_count[has_children].astype(np.int64)
        blocks = -(-count // WIDTH)
        row = np.repeat(np.arange(len(first)), blocks)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        self.block_node = np.concatenate([[0], first[row] + WIDTH * nth])
        self.lane_count = np.concatenate([[1], np.minimum(count[row] - WIDTH * nth, WIDTH)])
        order = np.argsort(self.block_node, kind="stable")  # slots then stand in the order of nodes
        place = np.argsort(order)
        self.block_node, self.lane_count = self.block_node[order], self.lane_count[order]
        self.block_count = len(self.block_node)
        self.most_blocks = int(blocks.max(initial=1))
        self.node_slot: NDArray[np.int64] = np.zeros(len(tree), dtype=np.int64)
        block_of = np.repeat(np.arange(self.block_count), self.lane_count)
        self.node_slot = WIDTH * block_of + np.arange(len(tree)) - self.block_node[block_of]
        slots = WIDTH * self.block_count
        self.child: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self.child_count: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self.child[self.node_slot[has_children]] = place[1 + np.cumsum(blocks) - blocks]
        self.child_count[self.node_slot[has_children]] = blocks
        self.level = np.repeat(np.arange(tree.level_count, dtype=np.int8), np.diff(tree.level_start))
        self.block_level = self.level[self.block_node].astype(np.int64)
        self.slot_parent: NDArray[np.int64] = np.full(slots, -2, dtype=np.int64)
        self.slot_parent[self.node_slot] = np.where(tree.parent == NONE, NONE, self.node_slot[tree.parent])
        self._capped: dict[int, NDArray[np.int64]] = {}

    def down(self, level: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First block of children and number of such blocks by slot; spheres at ``level`` count as leaves."""
        if level is None:
            return self.child, self.child_count
        if level not in self._capped:
            count = self.child_count.copy()
            count[self.node_slot[self.level >= level]] = 0
            self._capped[level] = count
        return self.child, self._capped[level]


class Spheres(NamedTuple):
    """The spheres of one tree as a query saw them."""

    sphere: Floats
    """Blocks of eight: x, y, z, radius, shape (blocks, 4, 8)."""
    layout: Layout

    def of(self, nodes: Ints) -> Floats:
        """Centre and radius of some nodes, shape (k, 4)."""
        slot = self.layout.node_slot[nodes]
        return np.asarray(self.sphere[slot // WIDTH, :, slot % WIDTH])


class Rows(NamedTuple):
    """The controls of blocks as kernels take them: one control of each of eight siblings side by side."""

    start: NDArray[np.int64]
    """First row of each block, and their number."""
    control: Ints
    """Shape (rows, 8)."""
    coefficient: Floats
    """Shape (rows, columns, 8)."""
    share: Floats
    """Shape (blocks, 4, 8)."""


def _rows(layout: Layout, controls: Controls) -> Rows:
    """Controls in rows; spheres with fewer than their siblings repeat their first one, without weight.

    A sphere that is alone in its block, as the root is, has four controls in each row, but for the first row, around
    whose control sums are taken.
    """
    count = np.diff(controls.start)
    block, lane = layout.node_slot // WIDTH, layout.node_slot % WIDTH
    is_alone = layout.lane_count[block] == 1
    size = np.zeros(layout.block_count, dtype=np.int64)
    np.maximum.at(size, block, np.where(is_alone, 1 - (-count // HALF), count))
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    first: Ints = np.zeros((layout.block_count, WIDTH), dtype=np.int32)
    first[:] = controls.vertex[controls.start[layout.block_node]][:, None]
    first[block, lane] = controls.vertex[controls.start[:-1]]
    control = np.repeat(first, size, axis=0)
    coefficient = np.zeros((start[-1], controls.coefficient.shape[1], WIDTH))
    node = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(node)) - controls.start[node]
    row = start[block[node]] + np.where(is_alone[node], 1 + nth // HALF, nth)
    column = np.where(is_alone[node], nth % HALF, lane[node])
    control[row, column] = controls.vertex
    coefficient[row, :, column] = controls.coefficient
    share = np.zeros((layout.block_count, 4, WIDTH))
    share[layout.lane_count == 1] = controls.share[layout.block_node[layout.lane_count == 1]][:, :, None]
    share[block, :, lane] = controls.share
    return Rows(start, control, coefficient, share)


class TrackedSpheres:
    """The spheres of one body in one mode, up to date as far as queries have asked. Use it under its lock."""

    def __init__(self, tree: SphereHierarchy, faces: Ints, steering: Steering, mode: Tracking, controls: int) -> None:
        self.lock = threading.RLock()
        self.tree = tree
        self.layout = Layout(tree)
        self.mode = mode
        points = points_below(tree, faces) if mode in CONSERVATIVE else NO_POINTS
        if mode == "refit":
            made = spread_controls(tree, faces, controls)
        elif mode == "bound":
            made = bound_controls(tree, points, steering)
        else:
            made = nearest_controls(tree, steering, controls, affine=mode == "affine")
        self.rows = _rows(self.layout, made)
        self.points = padded(points) if mode == "refit" else NO_POINTS
        self._rest_size = kernels.largest_coordinate(steering.rest)
        self._size = 0.0
        layout = self.layout
        self.sphere = np.zeros((layout.block_count, 4, WIDTH))
        slot = layout.node_slot
        self.sphere[slot // WIDTH, :3, slot % WIDTH] = tree.centre
        self.sphere[slot // WIDTH, 3, slot % WIDTH] = tree.radius
        self._stamp: NDArray[np.int64] = np.zeros(layout.block_count, dtype=np.int64)
        self._spare: Floats | None = None
        self._now = 0
        self._token: object = None
        self._arrays: tuple[Any, ...] = ()

    # one state of the body ----------------------------------------------------------------------------

    def place(self, token: object, x: Floats, surface: Floats, placing: Floats) -> None:
        """Let later calls be about this state: positions of the controls and of the surface, and a transform."""
        self._arrays = ()
        if token != self._token:
            if sys.getrefcount(self.sphere) > _OWN_REFERENCES or not _CAN_REUSE:  # a result refers to it
                self._take_another_buffer()
            self._token = token
            self._now += 1
            if self.mode in SUMMED:
                self._size = max(self._rest_size, kernels.largest_coordinate(x))
        layout, rows = self.layout, self.rows
        tree = (
            self.sphere, self._stamp, layout.block_node, layout.lane_count, rows.start, MODES[self.mode], self._now,
            placing, self._size,
        )  # fmt: skip
        steering = (x, rows.control, rows.coefficient, rows.share, surface)
        self._arrays = (tree, steering, self.points)

    def _take_another_buffer(self) -> None:
        """Leave the spheres to the results that refer to them; the buffer before is used again if it is free."""
        root = self.sphere[0].copy()
        if self._spare is None or sys.getrefcount(self._spare) > _OWN_REFERENCES or not _CAN_REUSE:
            self._spare = np.zeros(self.sphere.shape)
        self.sphere, self._spare = self._spare, self.sphere
        self.sphere[0] = root  # the last bound, should there be no time for another

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take: the tree, what steers it, and the points below its spheres."""
        return self._arrays

    @property
    def is_whole(self) -> bool:
        """Whether all spheres have to be found before any is asked for."""
        return self.tree.kind == "layered"

    def track_all(self, deadline: int = NEVER) -> bool:
        """Find all spheres; whether there was time to."""
        stale = self._stamp != self._now
        if not stale.any():
            return True
        if self.is_whole and deadline != NEVER:
            deadline -= SLOT_NS * len(self.layout.slot_parent)
        kernels.track_all.over(len(stale))(*self._arrays, deadline)
        if (self._stamp != self._now).any():
            return False
        if self.is_whole:
            kernels.layer_upwards(self.sphere, self.layout.slot_parent, self.layout.child_count == 0)
        return True

    def track_root(self, deadline: int) -> bool:
        """Find the root's sphere; whether there was time to."""
        return bool(kernels.track_root(*self._arrays, deadline))

    @property
    def root_is_current(self) -> bool:
        """Whether the root was found for this state."""
        return bool(self._stamp[0] == self._now)

    @property
    def spheres(self) -> Spheres:
        """The spheres as they are; those that no query has visited since the body moved are outdated."""
        return Spheres(self.sphere, self.layout)
