"""Which vertices steer each sphere of a tree, with which numbers; and which points of the surface are below it.

``sphere_tracking`` explains what the modes do with them. Controls stand node by node: starts, vertex ids, numbers of
each (columns as ``simd_tracking`` takes them), and four numbers that a sphere has once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from impinge.backend.simd.tracking import HALF, LEADING
from impinge.checks import NONE, Bools, Floats, Ints, distinct_rows, sorted_unique
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track import tracking_kernels as kernels
from impinge.errors import OptionError

FLAT = 0.3
"""Controls whose third extent is below this share of the first are a patch: their normal carries the centre."""
NO_EXTENT = 1e-6
"""Extents of controls below this share of the largest are none."""
MOST_CONTROLS = 96
"""Spheres with more controls than these follow them the simple way: they are large, and the coarse mesh is fine."""
MOST_EXPONENT = 1000
"""Of units, so that their inverses are numbers too."""
TIES = 8
"""How many controls beyond those wanted are looked at for equal distances."""


_NO_TRIPLES: Ints = np.zeros((0, 3), dtype=np.int32)
_NO_LENGTHS: Floats = np.zeros(0)


class Steering(NamedTuple):
    """What steers the spheres of one body: its own vertices, or those of a coarse mesh that it is embedded in."""

    rest: Floats
    """Controls at rest, shape (m, 3)."""
    used: Ints
    """Sorted ids of those that may be controls."""
    weight_column: Ints | None = None
    """Controls that each vertex of the surface hangs on, shape (n, k); None if it is not embedded."""
    weight: Floats | None = None
    """Their weights, shape (n, k), of sum 1."""
    near_column: Ints | None = None
    """Vertices of the coarse mesh with a weighted sum that each vertex stays near to, shape (n, c)."""
    near_weight: Floats | None = None
    """Their weights, of sum 1, shape (n, c)."""
    near_by: Floats | None = None
    """How near, whatever the motion, shape (n,)."""
    triple: Ints = _NO_TRIPLES
    """Triples of coarse vertices whose handles stand behind these among the controls (``rigid_links``)."""
    triple_length: Floats = _NO_LENGTHS
    """The lengths of the handles."""


class Controls(NamedTuple):
    """What steers each sphere."""

    start: NDArray[np.int64]
    """First control of each node, and their number, shape (n + 1,)."""
    vertex: Ints
    """Shape (c,)."""
    coefficient: NDArray[np.float32]
    """Shape (c, columns)."""
    share: Floats
    """What a sphere has once, shape (n, 4)."""
    is_crowded: Bools
    """Which spheres follow their controls the simple way, shape (n,)."""


# Points below a sphere ----------------------------------------------------------------------------------

_NO_IDS: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
NO_POINTS: tuple[Any, ...] = (
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


def points_below(tree: SphereHierarchy, faces: Ints) -> tuple[Any, ...]:
    """Distinct corners of the pieces below each node: vertices, and points that cutting made."""
    corner_tri = np.repeat(tree.piece_triangle, 3)
    weight = tree.piece_corner.reshape(-1, 3)
    is_vertex = (weight == 1.0).any(axis=1)
    vertex = faces[corner_tri, weight.argmax(axis=1)]
    rows = np.concatenate([corner_tri[:, None], weight], axis=1)[~is_vertex]
    first, cut = distinct_rows(rows)
    distinct = rows[first]
    point = vertex.astype(np.int64)
    point[~is_vertex] = cut
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


def padded(points: tuple[Any, ...]) -> tuple[Any, ...]:
    """Points with the last vertex of each node repeated, so that there are four times a number: kernels take four."""
    start, vertex, *cuts = points
    size = np.diff(start)
    room = -(-size // HALF) * HALF
    wide = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    nth = np.arange(wide[-1]) - np.repeat(wide[:-1], room)
    return wide, vertex[np.repeat(start[:-1], room) + np.minimum(nth, np.repeat(size - 1, room))], *cuts


def _distinct(node: Ints, item: Ints) -> NDArray[np.int64]:
    """Distinct pairs as (node, item) rows, sorted."""
    key = sorted_unique(node.astype(np.int64) << 32 | item.astype(np.int64))
    return np.stack([key >> 32, key & 0xFFFFFFFF], axis=1)


def _rows_by_node(rows: NDArray[np.int64], node_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that are sorted by node, as starts by node and items."""
    start = np.searchsorted(rows[:, 0], np.arange(node_count + 1))
    return start.astype(np.int64), rows[:, 1]


# Controls -----------------------------------------------------------------------------------------------


def spread_controls(tree: SphereHierarchy, faces: Ints, count: int) -> Controls:
    """Corners of the triangles below each node, far apart from each other, and how the centre follows them."""
    count = min(count, len(tree.rest))
    rows = []
    for piece, node in _level_pieces(tree):
        rows.append(_distinct(np.repeat(node, 3), faces[tree.piece_triangle[piece]].reshape(-1)))
    below_start, below = _rows_by_node(np.concatenate(rows), len(tree))
    start = np.zeros(len(tree) + 1, dtype=np.int64)
    control: Ints = np.zeros(count * len(tree), dtype=np.int32)
    found = kernels.spread_vertices(below_start, below, tree.rest, count, start, control)
    control = control[:found].copy()
    node = np.repeat(np.arange(len(tree)), np.diff(start))
    mean, apart, extent, axis = _extents(tree.rest[control], start, node)
    to_centre = tree.centre - mean
    is_kept = extent > FLAT * extent[:, 2:]
    along = np.einsum("jk,jki->ji", apart, axis[node])  # coordinates of each control along the axes of its node
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where(is_kept[node], along / extent[node] / extent[node], 0.0)
    centre_along = np.einsum("nk,nki->ni", to_centre, axis)
    coefficient = np.zeros((found, 3), dtype=np.float32)
    coefficient[:, 0] = 1.0 / np.diff(start)[node] + (slope * centre_along[node]).sum(axis=1)
    unit = _units(apart, start)
    coefficient[:, 1:3] = slope[:, [2, 1]] * unit[node, None]
    is_patch = is_kept.sum(axis=1) == 2
    share = np.zeros((len(tree), 4))
    normal = np.cross(axis[:, :, 2], axis[:, :, 1])
    share[:, 0] = np.where(is_patch, np.einsum("nk,nk->n", to_centre, normal), 0.0)
    return Controls(start, control, coefficient, share, np.zeros(len(tree), dtype=np.bool_))


def _extents(q: Floats, start: NDArray[np.int64], node: NDArray[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Means of the controls of each node, controls from there, their extents (root of sum of squares) and axes."""
    count = np.diff(start)[:, None]
    mean = np.add.reduceat(q, start[:-1]) / count
    apart = q - mean[node]
    size = np.maximum.reduceat(np.abs(apart).max(axis=1), start[:-1])  # squares of what is huge or tiny are no doubles
    unit = apart / np.where(size > 0.0, size, 1.0)[node, None]
    moment = np.add.reduceat(unit[:, :, None] * unit[:, None, :], start[:-1])
    value, axis = np.linalg.eigh(moment)
    return mean, apart, size[:, None] * np.sqrt(np.maximum(value, 0.0)), axis


def _units(apart: Floats, start: NDArray[np.int64]) -> Floats:
    """A power of two about as large as the controls of each node are apart, so that single numbers fit any size."""
    size = np.maximum.reduceat(np.abs(apart).max(axis=1), start[:-1])
    _, exponent = np.frexp(np.where(size > 0.0, size, 1.0))
    return np.asarray(np.ldexp(1.0, np.clip(exponent, -MOST_EXPONENT, MOST_EXPONENT)))


def _fit(q: Floats, start: NDArray[np.int64], node: NDArray[Any]) -> tuple[Floats, Floats]:
    """Means of the controls, and g for which Σ q' gᵀ is the affine map that fits q to q' best."""
    mean, apart, extent, axis = _extents(q, start, node)
    along = np.einsum("jk,jki->ji", apart, axis[node])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where((extent > NO_EXTENT * extent[:, 2:])[node], along / extent[node] / extent[node], 0.0)
    return mean, np.einsum("ji,jki->jk", slope, axis[node])


def nearest_controls(tree: SphereHierarchy, steering: Steering, count: int, *, affine: bool) -> Controls:
    """The controls nearest to each centre."""
    count = min(count, len(steering.used))
    some = np.arange(1, min(count + TIES, len(steering.used)) + 1)
    may_steer = steering.rest[steering.used]
    _, exponent = np.frexp(max(np.abs(may_steer).max(), np.abs(tree.centre).max()))  # squares are then moderate
    distance, row = cKDTree(np.ldexp(may_steer, -exponent)).query(np.ldexp(tree.centre, -exponent), k=some)
    order = np.lexsort(np.stack([row, distance]))[:, :count]  # of equal distances the lowest ids
    control = np.ascontiguousarray(steering.used[np.take_along_axis(row, order, axis=1)], dtype=np.int32).reshape(-1)
    start = count * np.arange(len(tree) + 1, dtype=np.int64)
    node = np.repeat(np.arange(len(tree)), count)
    q = steering.rest[control]
    coefficient = np.zeros((len(control), 4 if affine else 2), dtype=np.float32)
    share = np.concatenate([tree.centre, tree.radius[:, None]], axis=1)
    is_simple: Bools = np.ones(len(tree), dtype=np.bool_)
    if affine:
        is_simple = _with_siblings(tree, _are_flat(q, start, node))
        mean, g = _fit(q, start, node)
        unit = _units(q - mean[node], start)
        coefficient[:, 0] = 1.0 / count + np.einsum("jk,jk->j", g, (tree.centre - mean)[node])
        coefficient[:, 1:4] = g * unit[node, None]
        share[~is_simple, 0] = 1.0 / unit[~is_simple]
    share[is_simple, :3] -= (np.add.reduceat(q, start[:-1]) / count)[is_simple]
    follows_simply = is_simple[node]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        distance = np.linalg.norm(q - tree.centre[node], axis=1)
        ratio = np.where(distance > 0.0, tree.radius[node] / distance, 0.0)
        coefficient[follows_simply, 0] = 1.0 / count
        coefficient[follows_simply, 1] = (ratio**2)[follows_simply]
    return Controls(start, control, coefficient, share, is_simple)


def _are_flat(q: Floats, start: NDArray[np.int64], node: NDArray[Any]) -> Bools:
    """Which nodes have controls in a plane, so that these do not tell an affine map: always if fewer than four."""
    extent = _extents(q, start, node)[2]
    return np.asarray(extent[:, 0] <= NO_EXTENT * extent[:, 2])


def bound_controls(tree: SphereHierarchy, points: tuple[Any, ...], steering: Steering) -> Controls:
    """All controls that the points below a node hang on, and how far their weights differ from the centre's."""
    if steering.weight is None or steering.weight_column is None:
        raise OptionError(
            "tracking='bound' is for bodies whose surface is embedded in a coarse mesh; use tracking='refit' for others"
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
    _, g = _fit(q, start, of)
    average = total / point_count[of]
    middle = np.add.reduceat(average[:, None] * q, start[:-1])
    b = _rounded_weights(average + np.einsum("jk,jk->j", g, (tree.centre - middle)[of]), start)
    centre = np.add.reduceat(b[:, None] * (q - q[start[:-1]][of]), start[:-1]) + q[start[:-1]]
    spread = np.maximum(np.abs(highest - b), np.abs(lowest - b))
    spread = np.nextafter(spread.astype(np.float32), np.float32(np.inf))
    unit = _units(q - centre[of], start)
    at_rest = (q - centre[of]) / unit[of, None]
    coefficient = np.concatenate([b[:, None], g * unit[of, None], at_rest, spread[:, None]], axis=1).astype(np.float32)
    share = np.zeros((len(tree), 4))
    off = np.linalg.norm(coefficient[:, 4:7] - at_rest, axis=1)  # F moves controls at rest as they are written
    share[:, 0] = 1.0 / unit
    share[:, 3] = _farthest(tree, points, steering, centre) + unit * np.add.reduceat(spread * off, start[:-1])
    made = Controls(
        start, control.astype(np.int32), coefficient, share, _with_siblings(tree, np.diff(start) > MOST_CONTROLS)
    )
    return _with_simple_ones(made, tree, points, steering) if made.is_crowded.any() else made


def _rounded_weights(weight: Floats, start: NDArray[np.int64]) -> Floats:
    """Weights as single numbers; sums are taken around the first control, so that its own is what the others leave."""
    rounded = weight.astype(np.float32).astype(np.float64)
    rounded[start[:-1]] = 0.0
    rounded[start[:-1]] = 1.0 - np.add.reduceat(rounded, start[:-1])
    return rounded


def _with_siblings(tree: SphereHierarchy, is_chosen: Bools) -> Bools:
    """Some nodes and their siblings."""
    has_chosen: Bools = np.zeros(len(tree), dtype=np.bool_)
    parent = np.where(tree.parent == NONE, 0, tree.parent)
    has_chosen[parent[is_chosen & (tree.parent != NONE)]] = True
    siblings: Bools = has_chosen[parent] & (tree.parent != NONE)
    siblings[0] = is_chosen[0]
    return siblings


def _with_simple_ones(made: Controls, tree: SphereHierarchy, points: tuple[Any, ...], steering: Steering) -> Controls:
    """Let crowded spheres follow coarse vertices alone, which the surface in them stays between, or near to."""
    assert steering.near_column is not None
    assert steering.near_weight is not None
    assert steering.near_by is not None
    start, vertex, cut_start, cut_corner, _ = points
    nodes = np.concatenate(
        [np.repeat(np.arange(len(tree)), np.diff(start)), np.repeat(np.arange(len(tree)), 3 * np.diff(cut_start))]
    )
    surface = np.concatenate([vertex, cut_corner.reshape(-1)])[made.is_crowded[nodes]]
    nodes = nodes[made.is_crowded[nodes]]
    share = made.share.copy()
    share[made.is_crowded] = 0.0
    np.maximum.at(share[:, 2], nodes, kernels.UNIT * steering.near_by[surface])
    np.maximum.at(share[:, 3], nodes, np.abs(steering.near_weight[surface]).sum(axis=1))
    near = steering.near_column[surface]
    rows = _distinct(np.repeat(nodes, near.shape[1]), near.reshape(-1))
    leading, weight = _leading_rows(rows, tree, steering.rest)
    old = np.repeat(np.arange(len(tree)), np.diff(made.start))
    is_kept = ~made.is_crowded[old]
    coefficient = np.zeros((len(leading) + len(rows), made.coefficient.shape[1]), dtype=np.float32)
    coefficient[: len(leading), 0] = weight
    node = np.concatenate([old[is_kept], leading[:, 0], rows[:, 0]])
    order = np.argsort(node, kind="stable")  # those that lead stand before all others of their node
    return Controls(
        np.searchsorted(node[order], np.arange(len(tree) + 1)).astype(np.int64),
        np.concatenate([made.vertex[is_kept], leading[:, 1], rows[:, 1]])[order].astype(np.int32),
        np.concatenate([made.coefficient[is_kept], coefficient])[order],
        share,
        made.is_crowded,
    )


def _leading_rows(rows: NDArray[np.int64], tree: SphereHierarchy, rest: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Of all controls of nodes, (node, control), some that are far apart; and weights with which centres follow these.

    A centre could follow all, but the numbers of hundreds of controls take longer to fetch than the controls.
    """
    crowded, of = np.unique(rows[:, 0], return_inverse=True)
    below_start = np.searchsorted(of.reshape(-1), np.arange(len(crowded) + 1))
    start = np.zeros(len(crowded) + 1, dtype=np.int64)
    control: Ints = np.zeros(LEADING * len(crowded), dtype=np.int32)
    found = kernels.spread_vertices(below_start, rows[:, 1].copy(), rest, LEADING, start, control)
    control = control[:found]
    of = np.repeat(np.arange(len(crowded)), np.diff(start))
    mean, g = _fit(rest[control], start, of)
    weight = 1.0 / np.diff(start)[of] + np.einsum("jk,jk->j", g, (tree.centre[crowded] - mean)[of])
    return np.stack([crowded[of], control.astype(np.int64)], axis=1), weight


def _weights_by_point(points: tuple[Any, ...], column: Ints, weight: Floats) -> tuple[Any, Any, Any, Any]:
    """Node, control and weight for every point below every node; and the node of every point."""
    start, vertex, cut_start, cut_corner, cut_weight = points
    of_vertex = np.repeat(np.arange(len(start) - 1), np.diff(start))
    of_cut = np.repeat(np.arange(len(start) - 1), np.diff(cut_start))
    cuts = np.arange(len(of_cut))
    each = column.shape[1]
    point = np.concatenate([np.repeat(np.arange(len(vertex)), each), len(vertex) + np.repeat(cuts, 3 * each)])
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
    kernels.radii_around(centre, x, padded(points), radius)
    return radius
