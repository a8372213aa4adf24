"""Where the spheres of a tree are after the body has deformed; found only for the spheres that a query visits.

A sphere with centre c and radius r at rest follows some vertices q, its *controls*, which are at q' now.

"paper"   c' = c + mean(q' - q), r' = r max |q' - c'| / |q - c| over the k controls nearest to c [MendozaOSullivan2005,
          4.4]. Not conservative: the sphere may shrink off the surface, and a turn moves it, since the mean of the
          controls is not the centre.
"affine"  c' = Σ w q' with the least weights for which Σ w = 1 and Σ w q = c, r' = |F| r with F the affine map that fits
          q to q' best. Follows every affine motion; not conservative for others.
"bound"   For bodies whose surface is embedded in a coarse mesh, p = Σ w_ij q_j: all j that occur in the sphere are its
          controls, F their best affine map, u_j = q_j' - F q_j - t what it leaves, b_j weights with Σ b = 1:
              p_i' - c' = F (p_i - c) + Σ_j (w_ij - b_j) u_j,   c' = Σ b_j q_j'
              r' = |F| r + Σ_j max_i |w_ij - b_j| |u_j|
          holds every p_i' whatever the motion; nothing is added under an affine one. (The idea of bounding what a
          reduced model does to a sphere is [JamesPai2004]'s.)
"refit"   c' follows controls out of the vertices below the sphere, and r' is the distance of the farthest of these:
          conservative, and as tight as a ball with that centre can be. Costs a look at every vertex below.

Wrapped   Each sphere is found by itself, so that only those are that a query visits.
Layered   A sphere must hold its children: all are found at once, leaves as above, the others from their children.
|F|       is bounded by the two invariants of FᵀF (``largest_stretch``), at most 12% too large, exact for turns.
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
from scipy.spatial import cKDTree

from impinge.arrays import NONE, Floats, Ints
from impinge.backend.simd import WIDTH
from impinge.detect import sphere_tracking_kernels as kernels
from impinge.detect.sphere_hierarchy import SphereHierarchy
from impinge.errors import OptionError

Tracking: TypeAlias = Literal["paper", "affine", "refit", "bound"]
MODES = {"paper": kernels.PAPER, "affine": kernels.AFFINE, "bound": kernels.BOUND, "refit": kernels.REFIT}
COLUMNS = {"paper": 1, "affine": 4, "bound": 5, "refit": 3}
"""Numbers that each control has in a mode."""
CONSERVATIVE = ("refit", "bound")

FLAT = 0.3
"""Controls whose third extent is below this share of the first are a patch: their normal carries the centre."""
NO_EXTENT = 1e-6
"""Extents of controls below this share of the largest are none."""
TIES = 8
"""How many controls beyond those wanted are looked at for equal distances."""
NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
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


class Steering(NamedTuple):
    """What steers the spheres of one body: its own vertices, or those of a coarse mesh that it is embedded in."""

    rest: Floats
    """Controls at rest, shape (m, 3)."""
    used: Ints
    """Sorted ids of those that may be controls."""
    weight_column: Ints | None = None
    """Controls that each vertex of the surface hangs on, shape (n, 4); None if it is not embedded."""
    weight: Floats | None = None
    """Their weights, shape (n, 4)."""


class Spheres(NamedTuple):
    """The spheres of one tree as a query saw them."""

    sphere: Floats
    """Blocks of eight: x, y, z, radius, shape (blocks, 4, 8)."""
    layout: Layout

    def of(self, nodes: Ints) -> Floats:
        """Centre and radius of some nodes, shape (k, 4)."""
        slot = self.layout.node_slot[nodes]
        return np.asarray(self.sphere[slot // WIDTH, :, slot % WIDTH])


class TrackedSpheres:
    """The spheres of one body in one mode, up to date as far as queries have asked. Use it under its lock."""

    def __init__(self, tree: SphereHierarchy, faces: Ints, steering: Steering, mode: Tracking, controls: int) -> None:
        self.lock = threading.RLock()
        self.tree = tree
        self.layout = Layout(tree)
        self.mode = mode
        self.rest = steering.rest
        self.points = _points_below(tree, faces) if mode in CONSERVATIVE else _NO_POINTS
        self._steer(tree, faces, steering, controls)
        if mode == "bound":
            self.points = _NO_POINTS
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

    def _steer(self, tree: SphereHierarchy, faces: Ints, steering: Steering, controls: int) -> None:
        if self.mode == "refit":
            made = _spread_controls(tree, faces, controls)
        elif self.mode == "bound":
            made = _bound_controls(tree, self.points, steering)
        else:
            made = _nearest_controls(tree, steering, controls, affine=self.mode == "affine")
        self.control_start, self.control, coefficient, self.share = made
        self.coefficient = np.ascontiguousarray(coefficient[:, : COLUMNS[self.mode]])

    # one state of the body ----------------------------------------------------------------------------

    def place(self, token: object, x: Floats, surface: Floats, placing: Floats) -> None:
        """Let later calls be about this state: positions of the controls and of the surface, and a transform."""
        self._arrays = ()
        if token != self._token:
            if sys.getrefcount(self.sphere) > _OWN_REFERENCES or not _CAN_REUSE:  # a result refers to it
                self._take_another_buffer()
            self._token = token
            self._now += 1
        layout = self.layout
        tree = (
            self.sphere, self._stamp, layout.block_node, layout.lane_count, MODES[self.mode], self._now, placing,
        )  # fmt: skip
        steering = (x, self.rest, self.control_start, self.control, self.coefficient, self.share, surface)
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


# Points below a sphere ----------------------------------------------------------------------------------

_NO_IDS: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
_NO_POINTS: tuple[Any, ...] = (
    _NO_IDS, np.zeros(0, dtype=np.int32), _NO_IDS, np.zeros((0, 3), dtype=np.int32), np.zeros((0, 3)),
)  # fmt: skip


def _level_pieces(tree: SphereHierarchy) -> list[tuple[Ints, Ints]]:
    """For each level the pieces below its nodes, and the node of each."""
    levels = []
    for first, stop in zip(tree.level_start[:-1], tree.level_start[1:]):
        start, size = tree.piece_start[first:stop], tree.piece_stop[first:stop] - tree.piece_start[first:stop]
        nth = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        levels.append((np.repeat(start, size) + nth, np.repeat(np.arange(first, stop), size)))
    return levels


def _points_below(tree: SphereHierarchy, faces: Ints) -> tuple[Any, ...]:
    """Distinct corners of the pieces below each node: vertices, and points that cutting made."""
    corner_tri = np.repeat(tree.piece_triangle, 3)
    weight = tree.piece_corner.reshape(-1, 3)
    is_vertex = (weight == 1.0).any(axis=1)
    vertex = faces[corner_tri, weight.argmax(axis=1)]
    rows = np.concatenate([corner_tri[:, None], weight], axis=1)[~is_vertex]
    distinct, cut = np.unique(rows, axis=0, return_inverse=True)
    point = vertex.astype(np.int64)
    point[~is_vertex] = cut.reshape(-1)
    vertices, cuts = [], []
    for piece, node in _level_pieces(tree):
        corner = (3 * piece[:, None] + np.arange(3)).reshape(-1)
        of = np.repeat(node, 3)
        vertices.append(_distinct(of[is_vertex[corner]], point[corner][is_vertex[corner]]))
        cuts.append(_distinct(of[~is_vertex[corner]], point[corner][~is_vertex[corner]]))
    start, ids = _rows_by_node(np.concatenate(vertices), len(tree))
    cut_start, cut_ids = _rows_by_node(np.concatenate(cuts), len(tree))
    cut_tri = distinct[cut_ids, 0].astype(np.int64)
    return start, ids.astype(np.int32), cut_start, faces[cut_tri], np.ascontiguousarray(distinct[cut_ids, 1:])


def _distinct(node: Ints, item: Ints) -> NDArray[np.int64]:
    """Distinct pairs as (node, item) rows, sorted."""
    key = np.unique(node.astype(np.int64) << 32 | item.astype(np.int64))
    return np.stack([key >> 32, key & 0xFFFFFFFF], axis=1)


def _rows_by_node(rows: NDArray[np.int64], node_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that are sorted by node, as starts by node and items."""
    start = np.searchsorted(rows[:, 0], np.arange(node_count + 1))
    return start.astype(np.int64), rows[:, 1]


# Controls -----------------------------------------------------------------------------------------------


def _spread_controls(tree: SphereHierarchy, faces: Ints, count: int) -> tuple[Any, ...]:
    """Corners of the triangles below each node, far apart from each other, and how the centre follows them."""
    rows = []
    for piece, node in _level_pieces(tree):
        rows.append(_distinct(np.repeat(node, 3), faces[tree.piece_triangle[piece]].reshape(-1)))
    below_start, below = _rows_by_node(np.concatenate(rows), len(tree))
    start = np.zeros(len(tree) + 1, dtype=np.int64)
    control: Ints = np.zeros(count * len(tree), dtype=np.int32)
    found = kernels.spread_controls(below_start, below, tree.rest, count, start, control)
    control = control[:found].copy()
    node = np.repeat(np.arange(len(tree)), np.diff(start))
    mean, apart, extent, axis = _extents(tree.rest[control], start, node)
    to_centre = tree.centre - mean
    is_kept = extent > FLAT * extent[:, 2:]
    along = np.einsum("jk,jki->ji", apart, axis[node])  # coordinates of each control along the axes of its node
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(is_kept[node], along / (extent * extent)[node], 0.0)
    centre_along = np.einsum("nk,nki->ni", to_centre, axis)
    coefficient = np.zeros((found, 5))
    coefficient[:, 0] = 1.0 / np.diff(start)[node] + (slope * centre_along[node]).sum(axis=1)
    coefficient[:, 1:3] = slope[:, [2, 1]]
    is_patch = is_kept.sum(axis=1) == 2
    share = np.zeros((len(tree), 4))
    normal = np.cross(axis[:, :, 2], axis[:, :, 1])
    share[:, 0] = np.where(is_patch, np.einsum("nk,nk->n", to_centre, normal), 0.0)
    return start, control, coefficient, share


def _extents(q: Floats, start: NDArray[np.int64], node: NDArray[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Means of the controls of each node, controls from there, their extents (root of sum of squares) and axes."""
    count = np.diff(start)[:, None]
    mean = np.add.reduceat(q, start[:-1]) / count
    apart = q - mean[node]
    moment = np.add.reduceat(apart[:, :, None] * apart[:, None, :], start[:-1])
    value, axis = np.linalg.eigh(moment)
    return mean, apart, np.sqrt(np.maximum(value, 0.0)), axis


def _fit(q: Floats, start: NDArray[np.int64], node: NDArray[Any]) -> tuple[Floats, Floats]:
    """Means of the controls, and g for which Σ q' gᵀ is the affine map that fits q to q' best."""
    mean, apart, extent, axis = _extents(q, start, node)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(extent > NO_EXTENT * extent[:, 2:], 1.0 / (extent * extent), 0.0)
    along = np.einsum("jk,jki->ji", apart, axis[node])
    return mean, np.einsum("ji,jki->jk", along * inverse[node], axis[node])


def _nearest_controls(tree: SphereHierarchy, steering: Steering, count: int, *, affine: bool) -> tuple[Any, ...]:
    """The controls nearest to each centre."""
    count = min(count, len(steering.used))
    some = np.arange(1, min(count + TIES, len(steering.used)) + 1)
    distance, row = cKDTree(steering.rest[steering.used]).query(tree.centre, k=some)
    order = np.lexsort(np.stack([row, distance]))[:, :count]  # of equal distances the lowest ids
    control = np.ascontiguousarray(steering.used[np.take_along_axis(row, order, axis=1)], dtype=np.int32).reshape(-1)
    start = count * np.arange(len(tree) + 1, dtype=np.int64)
    node = np.repeat(np.arange(len(tree)), count)
    coefficient = np.zeros((len(control), 5))
    share = np.concatenate([tree.centre, tree.radius[:, None]], axis=1)
    if not affine:
        share[:, :3] -= np.add.reduceat(steering.rest[control], start[:-1]) / count
        square = ((steering.rest[control] - tree.centre[node]) ** 2).sum(axis=1)
        with np.errstate(divide="ignore"):
            coefficient[:, 0] = np.where(square > 0.0, 1.0 / square, 0.0)
    else:
        mean, g = _fit(steering.rest[control], start, node)
        coefficient[:, 0] = 1.0 / count + np.einsum("jk,jk->j", g, (tree.centre - mean)[node])
        coefficient[:, 1:4] = g
        share[:, :3] = mean
    return start, control, coefficient, share


def _bound_controls(tree: SphereHierarchy, points: tuple[Any, ...], steering: Steering) -> tuple[Any, ...]:
    """All controls that the points below a node hang on, and how far their weights differ from the centre's."""
    if steering.weight is None or steering.weight_column is None:
        raise OptionError(
            "tracking='bound' is for bodies whose surface is embedded in a coarse mesh (barycentric weights); "
            "use tracking='refit' for others"
        )
    node, column, weight, point_node = _weights_by_point(points, steering.weight_column, steering.weight)
    key, row = np.unique(node << 32 | column, return_inverse=True)
    row = row.reshape(-1)
    start, control = _rows_by_node(np.stack([key >> 32, key & 0xFFFFFFFF], axis=1), len(tree))
    of = key >> 32
    point_count = np.bincount(point_node, minlength=len(tree))
    total, hits = np.bincount(row, weight), np.bincount(row)
    highest, lowest = np.full(len(key), -np.inf), np.full(len(key), np.inf)
    np.maximum.at(highest, row, weight)
    np.minimum.at(lowest, row, weight)
    some_lack_it = hits < point_count[of]
    highest, lowest = (
        np.where(some_lack_it, np.maximum(highest, 0.0), highest),
        np.where(some_lack_it, np.minimum(lowest, 0.0), lowest),
    )
    q = steering.rest[control]
    mean, g = _fit(q, start, of)
    average = total / point_count[of]
    middle = np.add.reduceat(average[:, None] * q, start[:-1])
    b = average + np.einsum("jk,jk->j", g, (tree.centre - middle)[of])
    coefficient = np.zeros((len(key), 5))
    coefficient[:, 0], coefficient[:, 1:4] = b, g
    coefficient[:, 4] = np.maximum(np.abs(highest - b), np.abs(lowest - b))
    share = np.zeros((len(tree), 4))
    share[:, :3] = mean
    share[:, 3] = _farthest(tree, points, steering, np.add.reduceat(b[:, None] * q, start[:-1]))
    return start, control.astype(np.int32), coefficient, share


def _weights_by_point(points: tuple[Any, ...], column: Ints, weight: Floats) -> tuple[Any, Any, Any, Any]:
    """Node, control and weight for every point below every node; and the node of every point."""
    start, vertex, cut_start, cut_corner, cut_weight = points
    of_vertex = np.repeat(np.arange(len(start) - 1), np.diff(start))
    of_cut = np.repeat(np.arange(len(start) - 1), np.diff(cut_start))
    cuts = np.arange(len(of_cut))
    point = np.concatenate([np.repeat(np.arange(len(vertex)), 4), len(vertex) + np.repeat(cuts, 12)])
    columns = np.concatenate([column[vertex].reshape(-1), column[cut_corner].reshape(-1)]).astype(np.int64)
    weights = np.concatenate([weight[vertex].reshape(-1), (cut_weight[:, :, None] * weight[cut_corner]).reshape(-1)])
    key, row = np.unique(point << 32 | columns, return_inverse=True)  # a control may come from several corners
    node = np.concatenate([of_vertex, of_cut])
    return node[key >> 32], key & 0xFFFFFFFF, np.bincount(row.reshape(-1), weights), node


def _farthest(tree: SphereHierarchy, points: tuple[Any, ...], steering: Steering, centre: Floats) -> Floats:
    """Distance of the farthest point below each node at rest."""
    assert steering.weight is not None
    x = np.einsum("ij,ijk->ik", steering.weight, steering.rest[steering.weight_column])
    radius = np.zeros(len(tree))
    kernels.radii_around(centre, x, points, radius)
    return radius
