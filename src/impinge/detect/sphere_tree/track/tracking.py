"""Where the spheres of a tree are after the body has deformed; found only for the spheres that a query visits.

A sphere with centre c and radius r at rest follows some vertices q, its *controls*, which are at q' now.

"paper"   c' = c + mean(q' - q), r' = r max |q' - c'| / |q - c| over the k controls nearest to c [MendozaOSullivan2005,
          4.4]. Not conservative: the sphere may shrink off the surface, and a turn moves it, since the mean of the
          controls is not the centre.
"affine"  c' = Σ w q' with the least weights for which Σ w = 1 and Σ w q = c, r' = |F| r with F the affine map that fits
          q to q' best. Follows every affine motion; not conservative for others. Controls in a plane, such as fewer
          than four, do not tell F: their sphere and its siblings are found as in "paper".
"bound"   For bodies whose surface is embedded in a coarse mesh, p = Σ w_ij q_j: all j that occur in the sphere are its
          controls, F their best affine map, u_j = q_j' - c' - F (q_j - c) what it leaves, b_j weights with Σ b = 1:
              p_i' - c' = F (p_i - c) + Σ_j (w_ij - b_j) u_j,   c' = Σ b_j q_j'
              r' = |F| r + Σ_j max_i |w_ij - b_j| |u_j|
          holds every p_i' whatever the motion; nothing is added under an affine one. (The idea of bounding what a
          reduced model does to a sphere is [JamesPai2004]'s.) A surface on rigid links is such a sum, too, with three
          handles more for each triple of coarse vertices, q_0 + l e_k with the unit vectors of its frame; nothing is
          added under a rigid motion. Handles are placed when first needed. Those of a triple that has come to lie on
          a line are not known from its vertices; but they are no farther than l from q_0, and r' grows by that.
          Spheres with very many controls stay around the coarse vertices alone, where each point is within h of a
          weighted mean of some: r' = max Σ|w| max |q' - c'| + max h. Their centres follow eight of these.
"refit"   c' follows controls out of the vertices below the sphere, and r' is the distance of the farthest of these:
          conservative, and as tight as a ball with that centre can be. Costs a look at every vertex below; where these
          are very many, r' is what holds the spheres of the children, so that the top of a tree costs one look at all.

Wrapped   Each sphere is found by itself, so that only those are that a query visits.
Layered   A sphere must hold its children: all are found at once, leaves as above, the others from their children.
|F|       is bounded by the two invariants of FᵀF (``simd_tracking``), at most 16% too large, exact for turns.
Flat      The centre of a refitted sphere may be far off a flat patch of controls; the offset is kept along the
          normal of the patch, since an affine fit would amplify how the patch bends.
Rounding  Conservative modes round radii outwards. Weights are single numbers, which halves what has to be fetched; that
          they are rounded is no error but another choice of weights, for which radii are computed.
"""

from __future__ import annotations

import threading
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.raw_arrays import address_of
from impinge.backend.references import is_shared
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.tracking import HALF
from impinge.checks import NONE, Bools, Floats, Ints
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track import tracking_kernels as kernels
from impinge.detect.sphere_tree.track.controls import (
    NO_POINTS,
    Controls,
    Steering,
    bound_controls,
    nearest_controls,
    padded,
    points_below,
    spread_controls,
)
from impinge.detect.sphere_tree.track.mean_normals import Outside

Tracking: TypeAlias = Literal["paper", "affine", "refit", "bound"]
MODES = {"paper": kernels.PAPER, "affine": kernels.AFFINE, "bound": kernels.BOUND, "refit": kernels.REFIT}
CONSERVATIVE = ("refit", "bound")

NEVER = kernels.NEVER
NO_HANDLES: Floats = np.zeros((0, 3))
MOST_POINTS = 2048
"""Refitted spheres with more points below are found from their children, to look at every point only once."""
SLOT_NS = 6
"""What it takes to let a sphere hold one of its children's."""


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
        self.finest = tree.level_count - 1
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
        self._capped: dict[int | None, tuple[NDArray[np.int64], int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but what depends on addresses."""
        return {**self.__dict__, "_capped": {}}

    def down_at(self, level: int | None) -> int:
        """Address of the number of blocks of children by slot; spheres at ``level`` count as leaves."""
        if level is not None and level >= self.tree.level_count:
            level = None
        if level not in self._capped:
            count = self.child_count.copy()
            if level is not None:
                count[self.node_slot[self.level >= level]] = 0
            self._capped[level] = count, address_of(count)
        return self._capped[level][1]


class Spheres(NamedTuple):
    """The spheres of one tree as a query saw them."""

    sphere: Floats
    """Blocks of eight: x, y, z, radius, shape (blocks, 4, 8)."""
    layout: Layout
    address: int
    """Of the array."""
    one_body: Any = None
    """Tells which spheres of one body share a vertex (``sphere_tree_self.OneBody``); None of two bodies."""

    @classmethod
    def empty(cls, layout: Layout) -> Spheres:
        """Room for the spheres of a tree."""
        sphere = np.zeros((layout.block_count, 4, WIDTH))
        return cls(sphere, layout, address_of(sphere))

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
    coefficient: NDArray[np.float32]
    """Shape (rows, columns, 8)."""
    share: Floats
    """Shape (blocks, 4, 8)."""
    is_crowded: Bools
    """Shape (blocks,)."""


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
    coefficient = np.zeros((start[-1], controls.coefficient.shape[1], WIDTH), dtype=np.float32)
    node = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(node)) - controls.start[node]
    row = start[block[node]] + np.where(is_alone[node], 1 + nth // HALF, nth)
    column = np.where(is_alone[node], nth % HALF, lane[node])
    control[row, column] = controls.vertex
    coefficient[row, :, column] = controls.coefficient
    share = np.zeros((layout.block_count, 4, WIDTH))
    share[layout.lane_count == 1] = controls.share[layout.block_node[layout.lane_count == 1]][:, :, None]
    share[block, :, lane] = controls.share
    return Rows(start, control, coefficient, share, controls.is_crowded[layout.block_node])


def _table(layout: Layout, rows: Rows, point_start: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The table of blocks; ``point_start`` counts points below the nodes of a refitted tree."""
    table: NDArray[np.int64] = np.zeros((layout.block_count + 1, kernels.BLOCK_FIELDS), dtype=np.int64)
    table[:, kernels.FIRST_ROW] = rows.start
    for column, values in (
        (kernels.NODE, layout.block_node),
        (kernels.LANES, layout.lane_count),
        (kernels.LEVEL, layout.block_level),
        (kernels.IS_CROWDED, rows.is_crowded),
        (kernels.TOP, 0 if point_start is None else _top(layout, np.diff(point_start))),
    ):
        table[:-1, column] = values
    table[-1, kernels.TOP] = 1 + np.flatnonzero(table[:, kernels.TOP]).max(initial=0)
    return table


def at_rest(layout: Layout) -> Floats:
    """The spheres of a tree as they were built, shape (blocks, 4, 8)."""
    sphere, slot = np.zeros((layout.block_count, 4, WIDTH)), layout.node_slot
    sphere[slot // WIDTH, :3, slot % WIDTH] = layout.tree.centre
    sphere[slot // WIDTH, 3, slot % WIDTH] = layout.tree.radius
    return sphere


def _top(layout: Layout, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which blocks of a refitted tree have too many points below a sphere, if all have children; and these blocks."""
    slot = layout.node_slot
    is_large, has_leaf = (np.zeros(layout.block_count, dtype=np.bool_) for _ in range(2))
    is_large[slot[points > MOST_POINTS] // WIDTH] = True
    has_leaf[slot[layout.child_count[slot] == 0] // WIDTH] = True
    top = np.where(is_large & ~has_leaf, kernels.AT_TOP, 0)
    at_top = slot[top[slot // WIDTH] == kernels.AT_TOP]
    for nth in range(layout.most_blocks):
        below = (layout.child[at_top] + nth)[nth < layout.child_count[at_top]]
        top[below] = np.maximum(top[below], kernels.BELOW_TOP)
    return top


class TrackedSpheres:
    """The spheres of one body in one mode, up to date as far as queries have asked. Use it under its lock."""

    def __init__(self, tree: SphereHierarchy, faces: Ints, steering: Steering, mode: Tracking, controls: int) -> None:
        self.lock = threading.RLock()
        self.tree = tree
        self.layout = Layout(tree)
        self.outside = Outside(tree, faces)
        self.mode = mode
        self.is_whole = tree.kind == "layered"
        """Whether all spheres have to be found before any is asked for."""
        points = points_below(tree, faces) if mode in CONSERVATIVE else NO_POINTS
        if mode == "refit":
            made = spread_controls(tree, faces, controls)
        elif mode == "bound":
            made = bound_controls(tree, points, steering)
        else:
            made = nearest_controls(tree, steering, controls, affine=mode == "affine")
        below = padded(points) if mode == "refit" else NO_POINTS
        rows = _rows(self.layout, made)
        self.table = _table(self.layout, rows, below[0] if mode == "refit" else None)
        self._stamp = self.table[:-1, kernels.STAMP]
        self._motion = np.zeros((8, 3))
        """A transform, as ``place`` gets it, the largest coordinates, and the last root."""
        self.root = self._motion.reshape(-1)[3 * kernels.ROOT : 3 * kernels.ROOT + 4]
        """Centre and radius of the last root that a query saw; changes with every query."""
        self._motion[kernels.SIZE, 1:] = kernels.largest_coordinate(steering.rest), -1.0
        self._motion[kernels.ROOT + 1, 1] = steering.triple_length.max(initial=0.0)
        self._motion[kernels.ROOT], self._motion[kernels.ROOT + 1, 0] = tree.centre[0], tree.radius[0]
        self.spheres = Spheres.empty(self.layout)
        """The spheres as they are; those that no query has visited since the body moved are outdated."""
        self.sphere[:] = known = at_rest(self.layout)
        self._spare: Spheres | None = None
        self._now = 0
        self._token: object = None
        self._placing: Floats | None = None
        self._x: Floats = steering.rest[: len(steering.rest) - 3 * len(steering.triple)]
        point_start, point_vertex, cut_start, cut_corner, cut_weight = below
        self._arrays = {
            kernels.TABLE_AT: self.table,
            kernels.CHILD_AT: self.layout.child,
            kernels.CHILD_COUNT_AT: self.layout.child_count,
            kernels.CONTROL_AT: rows.control,
            kernels.COEFFICIENT_AT: rows.coefficient,
            kernels.SHARE_AT: rows.share,
            kernels.KNOWN_AT: known,
            kernels.POINT_START_AT: point_start,
            kernels.POINT_VERTEX_AT: point_vertex,
            kernels.CUT_START_AT: cut_start,
            kernels.CUT_CORNER_AT: cut_corner,
            kernels.CUT_WEIGHT_AT: cut_weight,
            kernels.TRIPLE_AT: steering.triple,
            kernels.LENGTH_AT: steering.triple_length,
            kernels.LINK_STAMP_AT: np.zeros(len(steering.triple), dtype=np.int64),
            kernels.HANDLES_AT: np.array(steering.rest if len(steering.triple) else NO_HANDLES),
            kernels.MOTION_AT: self._motion,
        }
        self._arrays = {place: np.ascontiguousarray(array) for place, array in self._arrays.items()}
        self.card = self._card(MODES[mode])
        """What kernels take: where all arrays are that are here, and the number of the state."""

    def _card(self, mode: int) -> NDArray[np.int64]:
        card: NDArray[np.int64] = np.zeros(kernels.CARD_SIZE, dtype=np.int64)
        for place, array in self._arrays.items():
            card[place] = address_of(array)
        card[kernels.SPHERE_AT], card[kernels.X_AT] = self.spheres.address, address_of(self._x)
        card[kernels.MODE], card[kernels.BLOCKS], card[kernels.X_COUNT] = mode, self.layout.block_count, len(self._x)
        card[kernels.ROWS], card[kernels.COLUMNS], _ = self._arrays[kernels.COEFFICIENT_AT].shape
        for place, of in (
            (kernels.NODES, kernels.POINT_START_AT),
            (kernels.POINTS, kernels.POINT_VERTEX_AT),
            (kernels.CUTS, kernels.CUT_CORNER_AT),
            (kernels.LINKS, kernels.TRIPLE_AT),
            (kernels.HANDLE_COUNT, kernels.HANDLES_AT),
        ):
            card[place] = len(self._arrays[of])
        card[kernels.NODES] -= 1
        return card

    # one state of the body ----------------------------------------------------------------------------

    def place(self, token: object, x: Floats, address: int, placing: Floats) -> None:
        """Let later calls be about this state: positions that spheres follow, where they begin, and a transform.

        Results refer to the spheres that they were made of: two buffers take turns, and one that a result still refers
        to, or whose array somebody does besides its owner and those who ask, is left alone.
        """
        if token == self._token:
            return
        spare = self._spare
        if spare is None or is_shared(spare, holders=2) or is_shared(spare[0]):
            spare = Spheres.empty(self.layout)
        self.spheres, self._spare = spare, self.spheres
        self._token, self._x = token, x
        self._now = now = self._now + 1
        card = self.card
        card[kernels.SPHERE_AT], card[kernels.X_AT], card[kernels.NOW] = spare.address, address, now
        if placing is not self._placing:
            self._placing = self._motion[: kernels.SIZE] = placing

    @property
    def sphere(self) -> Floats:
        """The spheres in blocks, shape (blocks, 4, 8)."""
        return self.spheres.sphere

    def track_all(self, deadline: int = NEVER) -> bool:
        """Find all spheres; whether there was time to."""
        stale = self._stamp != self._now
        if not stale.any():
            return True
        if self.is_whole and deadline != NEVER:
            deadline -= SLOT_NS * len(self.layout.slot_parent)
        kernels.track_all.over(len(stale))(self.card, deadline)
        if (self._stamp != self._now).any():
            kernels.track_root(self.card, 0)  # too late, but the last bound stands there then
            return False
        if self.is_whole:
            kernels.layer_upwards(self.sphere, self.layout.slot_parent, self.layout.child_count == 0)
        self._motion[kernels.ROOT], self._motion[kernels.ROOT + 1, 0] = self.sphere[0, :3, 0], self.sphere[0, 3, 0]
        return True
