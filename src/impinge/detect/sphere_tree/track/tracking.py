"""How the spheres of a tree follow the deformation of a body; only spheres that a query visits are tracked.

A sphere with centre c and radius r at rest follows some vertices q, its *controls*, which are at q' now.

"paper"   c' = c + mean(q' - q), r' = r max |q' - c'| / |q - c| over the k controls nearest to c [MendozaOSullivan2005,
          4.4]. Not conservative: the sphere may shrink off the surface, and a rotation moves it, since the mean of the
          controls is not the centre.
"affine"  c' = Σ w q' with the least weights for which Σ w = 1 and Σ w q = c, r' = |F| r with F the affine map that fits
          q to q' best. Follows every affine motion; not conservative for others. Controls in a plane, such as fewer
          than four, do not determine F: their sphere and its siblings are tracked as in "paper".
"bound"   For bodies whose surface is embedded in a coarse mesh, p = Σ w_ij q_j: all j that occur in the sphere are its
          controls, F their best affine map, u_j = q_j' - c' - F (q_j - c) its residuals, b_j weights with Σ b = 1:
              p_i' - c' = F (p_i - c) + Σ_j (w_ij - b_j) u_j,   c' = Σ b_j q_j'
              r' = |F| r + Σ_j max_i |w_ij - b_j| |u_j|
          holds every p_i' whatever the motion; nothing is added under an affine one. (Bounding the effect of a reduced
          model on a sphere is the idea of [JamesPai2004].) A surface on rigid links is such a sum, too, with three
          handles more for each triple of coarse vertices, q_0 + l e_k with the unit vectors of its frame; nothing is
          added under a rigid motion. Handles are placed when first needed. Those of a collinear triple are not
          determined by its vertices; but they are no farther than l from q_0, and r' grows by that.
          Spheres with very many controls are simplified: they stay around the coarse vertices alone, where each point
          is within h of a weighted mean of some: r' = max Σ|w| max |q' - c'| + max h. Their centres follow eight of
          these.
"refit"   c' follows controls among the vertices below the sphere, and r' is the distance of the farthest of these:
          conservative, and as tight as a ball with that centre can be. Visits every vertex below; where these are very
          many, r' is what holds the spheres of the children: the top of a tree then costs one visit of all vertices.

Wrapped   Each sphere is tracked by itself: only those that a query visits.
Layered   A sphere must hold its children: all are tracked at once, leaves as above, the others from their children.
|F|       is bounded by the two invariants of FᵀF (``backend.simd.tracking``), at most 16% too large, exact for
          rotations.
Flat      The centre of a refitted sphere may be far off a flat patch of controls; the offset is kept along the
          normal of the patch, since an affine fit would amplify how the patch bends.
Rounding  Conservative modes round radii outwards. Weights are float32, which halves the memory traffic; rounding them
          is no error but another choice of weights, for which radii are computed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.tracking import HALF
from impinge.checks import NONE, Floats, Ints
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track import tracking_kernels as kernels
from impinge.detect.sphere_tree.track.controls import Controls

Tracking: TypeAlias = Literal["paper", "affine", "refit", "bound"]

MOST_POINTS = 2048
"""Refitted spheres with more points below are computed from their children, which visits every point only once."""


class Layout:
    """A hierarchy in blocks of eight siblings, which are tested at once; a slot is 8 block + lane."""

    def __init__(self, tree: SphereHierarchy) -> None:
        self.tree = tree
        inner = np.flatnonzero(tree.first_child != NONE)
        first, count = tree.first_child[inner].astype(np.int64), tree.child_count[inner].astype(np.int64)
        blocks = -(-count // WIDTH)
        row = np.repeat(np.arange(len(first)), blocks)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        block_node = np.concatenate([[0], first[row] + WIDTH * nth])
        order = np.argsort(block_node, kind="stable")  # slots are then in the order of nodes
        self.block_node: NDArray[np.int64] = block_node[order]
        self.lane_count = np.concatenate([[1], np.minimum(count[row] - WIDTH * nth, WIDTH)])[order]
        self.block_count = len(self.block_node)
        self.most_blocks = int(blocks.max(initial=1))
        self.finest = tree.level_count - 1
        block_of = np.repeat(np.arange(self.block_count), self.lane_count)
        self.node_slot: NDArray[np.int64] = WIDTH * block_of + np.arange(len(tree)) - self.block_node[block_of]
        slots = WIDTH * self.block_count
        self.child, self.child_count = (np.zeros(slots, dtype=np.int64) for _ in range(2))
        """First block of children, and the number of these blocks, by slot."""
        self.child[self.node_slot[inner]] = np.argsort(order)[1 + np.cumsum(blocks) - blocks]
        self.child_count[self.node_slot[inner]] = blocks
        self.level = np.repeat(np.arange(tree.level_count, dtype=np.int8), np.diff(tree.level_start))
        self.slot_parent: NDArray[np.int64] = np.full(slots, -2, dtype=np.int64)
        self.slot_parent[self.node_slot] = np.where(tree.parent == NONE, NONE, self.node_slot[tree.parent])

    def child_count_above(self, level: int | None) -> NDArray[np.int64]:
        """``child_count``, where spheres at ``level`` count as leaves."""
        if level is None or level > self.finest:
            return self.child_count
        return np.where(np.repeat(self.level[self.block_node] >= level, WIDTH), 0, self.child_count)


class Spheres(NamedTuple):
    """The spheres of one tree in one state."""

    sphere: Floats
    """Blocks of eight: x, y, z, radius, shape (blocks, 4, 8)."""
    layout: Layout
    one_body: Any = None
    """Which spheres of one body share a vertex (``self_search.OneBody``); None for two bodies."""

    @classmethod
    def at_rest(cls, layout: Layout) -> Spheres:
        """The spheres of a tree as they were built."""
        made, slot = cls(np.zeros((layout.block_count, 4, WIDTH)), layout), layout.node_slot
        made.sphere[slot // WIDTH, :3, slot % WIDTH] = layout.tree.centre
        made.sphere[slot // WIDTH, 3, slot % WIDTH] = layout.tree.radius
        return made

    def of(self, nodes: Ints) -> Floats:
        """Centre and radius of some nodes, shape (k, 4)."""
        slot = self.layout.node_slot[nodes]
        return np.asarray(self.sphere[slot // WIDTH, :, slot % WIDTH])


def block_arrays(
    layout: Layout, controls: Controls, point_start: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], Ints, NDArray[np.float32], Floats]:
    """Blocks as kernels read them: one control of each of eight siblings side by side, in rows.

    The table of blocks; controls (rows, 8) and coefficients (rows, columns, 8); and constants (blocks, 4, 8).
    ``point_start`` counts points below the nodes of a refitted tree. Spheres with fewer controls than their siblings
    repeat their first one, without weight.

    A sphere that is alone in its block, as the root is, has four controls in each row, but for the first row, around
    whose control sums are taken.
    """
    count = np.diff(controls.start)
    block, lane = layout.node_slot // WIDTH, layout.node_slot % WIDTH
    is_single = layout.lane_count[block] == 1
    size = np.zeros(layout.block_count, dtype=np.int64)
    np.maximum.at(size, block, np.where(is_single, 1 - (-count // HALF), count))
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    first: Ints = np.zeros((layout.block_count, WIDTH), dtype=np.int32)
    first[:] = controls.vertex[controls.start[layout.block_node]][:, None]
    first[block, lane] = controls.vertex[controls.start[:-1]]
    control = np.repeat(first, size, axis=0)
    coefficient = np.zeros((start[-1], controls.coefficient.shape[1], WIDTH), dtype=np.float32)
    node = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(node)) - controls.start[node]
    row = start[block[node]] + np.where(is_single[node], 1 + nth // HALF, nth)
    column = np.where(is_single[node], nth % HALF, lane[node])
    control[row, column] = controls.vertex
    coefficient[row, :, column] = controls.coefficient
    share = np.zeros((layout.block_count, 4, WIDTH))
    share[layout.lane_count == 1] = controls.share[layout.block_node[layout.lane_count == 1]][:, :, None]
    share[block, :, lane] = controls.share
    table: NDArray[np.int64] = np.zeros((layout.block_count + 1, kernels.BLOCK_FIELDS), dtype=np.int64)
    table[:, kernels.FIRST_ROW] = start
    table[:-1, kernels.NODE], table[:-1, kernels.LANES] = layout.block_node, layout.lane_count
    table[:-1, kernels.LEVEL] = layout.level[layout.block_node]
    table[:-1, kernels.IS_SIMPLIFIED] = controls.is_simplified[layout.block_node]
    if point_start is not None:  # blocks with very many points below a sphere, if no sphere is a leaf
        slot, blocks = layout.node_slot, layout.child_count
        is_large, has_leaf = (np.zeros(layout.block_count, dtype=np.bool_) for _ in range(2))
        is_large[slot[np.diff(point_start) > MOST_POINTS] // WIDTH] = True
        has_leaf[slot[blocks[slot] == 0] // WIDTH] = True
        top = table[:-1, kernels.TOP]
        top[is_large & ~has_leaf] = kernels.AT_TOP
        at_top = slot[top[slot // WIDTH] == kernels.AT_TOP]
        for k in range(layout.most_blocks):
            below = (layout.child[at_top] + k)[k < blocks[at_top]]
            top[below] = np.maximum(top[below], kernels.BELOW_TOP)
    table[-1, kernels.TOP] = 1 + np.flatnonzero(table[:, kernels.TOP]).max(initial=0)
    return table, control, coefficient, share
