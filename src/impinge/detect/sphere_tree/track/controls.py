"""Which vertices steer each sphere of a tree, with which coefficients; and which surface points are below it.

``tracking`` explains what the modes do with them. Controls are listed node by node: starts, vertex ids, coefficients
(columns as ``backend.simd.tracking`` reads them), and four constants of each sphere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.tracking import HALF, LEADING
from impinge.checks import Bools, Floats, Ints, distinct_rows, sorted_unique
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track import tracking_kernels as kernels

FLAT = 0.3
"""Controls whose third extent is below this share of the first are a patch: their normal carries the centre."""
NO_EXTENT = 1e-6
"""Extents of controls below this share of the largest count as 0."""
MOST_CONTROLS = 96
"""Spheres with more controls follow them by the simplified rule: they are large, and the coarse mesh is fine."""
MOST_EXPONENT = 1000
"""Of units: their inverses are finite, too."""
TIES = 8
"""Controls beyond those wanted that are compared for equal distances."""

Int64s: TypeAlias = NDArray[np.int64]
Points: TypeAlias = tuple[Any, ...]
"""Points below each node: starts and ids of vertices; starts, corners and weights of cut points."""


class Steering(NamedTuple):
    """What steers the spheres of one body: its own vertices, or those of a coarse mesh that it is embedded in."""

    rest: Floats
    """Controls at rest, shape (m, 3)."""
    used: Ints
    """Sorted ids of those that may be controls."""
    weight_column: Ints = np.zeros((0, 0), dtype=np.int32)
    """Controls that each vertex of an embedded surface is a weighted sum of, shape (n, k)."""
    weight: Floats = np.zeros((0, 0))
    """Their weights, shape (n, k), of sum 1."""
    near_column: Ints = np.zeros((0, 0), dtype=np.int32)
    """Vertices of the coarse mesh with a weighted sum that each vertex stays near to, shape (n, c)."""
    near_weight: Floats = np.zeros((0, 0))
    """Their weights, of sum 1, shape (n, c)."""
    near_by: Floats = np.zeros(0)
    """How near, whatever the motion, shape (n,)."""
    triple: Ints = np.zeros((0, 3), dtype=np.int32)
    """Triples of coarse vertices whose handles follow these among the controls (``rigid_links``)."""
    triple_length: Floats = np.zeros(0)
    """The lengths of the handles."""


class Controls(NamedTuple):
    """What steers each sphere."""

    start: Int64s
    """First control of each node, and their number, shape (n + 1,)."""
    vertex: Ints
    """Shape (c,)."""
    coefficient: NDArray[np.float32]
    """Shape (c, columns)."""
    share: Floats
    """Constants of a sphere, shape (n, 4)."""
    is_simplified: Bools
    """Which spheres follow their controls by the simplified rule, shape (n,)."""


def make_controls(
    tree: SphereHierarchy, faces: Ints, steering: Steering, mode: str, count: int
) -> tuple[Controls, Points]:
    """The controls of a mode, and the points below each node, which only "refit" reads afterwards."""
    no_points = (np.zeros(0),) * 5
    if mode == "refit":
        return spread_controls(tree, faces, count), padded(points_below(tree, faces))
    if mode == "bound":
        return bound_controls(tree, points_below(tree, faces), steering), no_points
    return nearest_controls(tree, steering, count, affine=mode == "affine"), no_points


# Points below a sphere ----------------------------------------------------------------------------------


def _nodes_and_pieces(tree: SphereHierarchy) -> tuple[Int64s, Int64s]:
    """Each node with each piece below it."""
    size = (tree.piece_stop - tree.piece_start).astype(np.int64)
    nth = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return np.repeat(np.arange(len(tree)), size), np.repeat(tree.piece_start, size) + nth


def points_below(tree: SphereHierarchy, faces: Ints) -> Points:
    """Distinct corners of the pieces below each node: vertices, and points where triangles were cut."""
    corner_tri = np.repeat(tree.piece_triangle, 3)
    weight = tree.piece_corner.reshape(-1, 3)
    is_vertex = (weight == 1.0).any(axis=1)
    point = faces[corner_tri, weight.argmax(axis=1)].astype(np.int64)
    rows = np.concatenate([corner_tri[:, None], weight], axis=1)[~is_vertex]
    first, point[~is_vertex] = distinct_rows(rows)
    node, piece = _nodes_and_pieces(tree)
    node, corner = np.repeat(node, 3), (3 * piece[:, None] + np.arange(3)).reshape(-1)
    at_vertex = is_vertex[corner]
    key = node << 32 | point[corner]
    start, vertex, _ = by_node(key[at_vertex], len(tree))
    cut_start, cut, _ = by_node(key[~at_vertex], len(tree))
    distinct = rows[first[cut]]
    corners = faces[distinct[:, 0].astype(np.int64)]
    return start, vertex, cut_start, corners, np.ascontiguousarray(distinct[:, 1:])


def padded(points: Points) -> Points:
    """Points with the last vertex of each node repeated up to a multiple of four: kernels read four at once."""
    start, vertex, *cuts = points
    size = np.diff(start)
    room = -(-size // HALF) * HALF
    wide = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    nth = np.arange(wide[-1]) - np.repeat(wide[:-1], room)
    return wide, vertex[np.repeat(start[:-1], room) + np.minimum(nth, np.repeat(size - 1, room))], *cuts


def by_node(key: Int64s, node_count: int) -> tuple[Int64s, Ints, Int64s]:
    """Distinct pairs, packed as node << 32 | item, sorted: starts by node, items, and the node of each."""
    key = sorted_unique(key)
    start = np.searchsorted(key >> 32, np.arange(node_count + 1)).astype(np.int64)
    return start, (key & 0xFFFFFFFF).astype(np.int32), key >> 32


# Controls -----------------------------------------------------------------------------------------------


def spread_controls(tree: SphereHierarchy, faces: Ints, count: int) -> Controls:
    """Corners of the triangles below each node, far apart from each other, and how the centre follows them."""
    node, piece = _nodes_and_pieces(tree)
    below = by_node((node[:, None] << 32 | faces[tree.piece_triangle[piece]]).reshape(-1), len(tree))
    start, control = _spread(*below[:2], tree.rest, count)
    node = np.repeat(np.arange(len(tree)), np.diff(start))
    fit = _fit(tree.rest[control], start, FLAT)
    to_centre = tree.centre - fit.mean
    centre_along = np.einsum("nk,nki->ni", to_centre, fit.axis)
    coefficient = np.zeros((len(control), 3), dtype=np.float32)
    coefficient[:, 0] = 1.0 / np.diff(start)[node] + (fit.slope * centre_along[node]).sum(axis=1)
    coefficient[:, 1:3] = fit.slope[:, [2, 1]] * fit.unit[node, None]
    is_patch = (fit.extent > FLAT * fit.extent[:, 2:]).sum(axis=1) == 2
    share = np.zeros((len(tree), 4))
    normal = np.cross(fit.axis[:, :, 2], fit.axis[:, :, 1])
    share[:, 0] = np.where(is_patch, np.einsum("nk,nk->n", to_centre, normal), 0.0)
    return Controls(start, control, coefficient, share, np.zeros(len(tree), dtype=np.bool_))


def _spread(below_start: Int64s, below: Ints, rest: Floats, count: int) -> tuple[Int64s, Ints]:
    """Up to ``count`` of the vertices below each node, far apart from each other: starts by node, and ids."""
    count = min(count, len(rest))
    start: Int64s = np.zeros(len(below_start), dtype=np.int64)
    control: Ints = np.zeros(count * (len(start) - 1), dtype=np.int32)
    found = kernels.spread_vertices(below_start, below, rest, count, start, control)
    return start, control[:found].copy()


class _Fit(NamedTuple):
    """Affine fit to the controls of each node."""

    mean: Floats
    extent: Floats
    """Root of the sum of squares along each axis, rising."""
    axis: Floats
    slope: Floats
    """Of each control, along the axes of its node; 0 along axes of small extent."""
    unit: Floats
    """A power of two about as large as the controls of each node are apart, which lets float32 fit any size."""
    gradient: Floats
    """Coefficients g of each control for which Σ q' gᵀ is the affine map that fits q to q' best."""


def _fit(q: Floats, start: Int64s, least: float = NO_EXTENT) -> _Fit:
    """Fit an affine map to the controls of each node; extents below ``least`` of the largest count as none."""
    count = np.diff(start)
    node = np.repeat(np.arange(len(count)), count)
    mean = np.add.reduceat(q, start[:-1]) / count[:, None]
    apart = q - mean[node]
    size, unit = _units(apart, start)  # squares of huge or tiny numbers are no doubles
    relative = apart / np.where(size > 0.0, size, 1.0)[node, None]
    value, axis = np.linalg.eigh(np.add.reduceat(relative[:, :, None] * relative[:, None, :], start[:-1]))
    extent = size[:, None] * np.sqrt(np.maximum(value, 0.0))
    along = np.einsum("jk,jki->ji", apart, axis[node])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where((extent > least * extent[:, 2:])[node], along / extent[node] / extent[node], 0.0)
    return _Fit(mean, extent, axis, slope, unit, np.asarray(np.einsum("ji,jki->jk", slope, axis[node])))


def _units(apart: Floats, start: Int64s) -> tuple[Floats, Floats]:
    """Largest coordinate of the controls of each node, and a power of two about as large."""
    size = np.maximum.reduceat(np.abs(apart).max(axis=1), start[:-1])
    _, exponent = np.frexp(np.where(size > 0.0, size, 1.0))
    return size, np.asarray(np.ldexp(1.0, np.clip(exponent, -MOST_EXPONENT, MOST_EXPONENT)))


def nearest_controls(tree: SphereHierarchy, steering: Steering, count: int, *, affine: bool) -> Controls:
    """The controls nearest to each centre."""
    count = min(count, len(steering.used))
    some = np.arange(1, min(count + TIES, len(steering.used)) + 1)
    may_steer = steering.rest[steering.used]
    _, exponent = np.frexp(max(np.abs(may_steer).max(), np.abs(tree.centre).max()))  # squares are then moderate
    from scipy.spatial import cKDTree  # a slow import

    distance, row = cKDTree(np.ldexp(may_steer, -exponent)).query(np.ldexp(tree.centre, -exponent), k=some)
    order = np.lexsort(np.stack([row, distance]))[:, :count]  # of equal distances the lowest ids
    control = np.ascontiguousarray(steering.used[np.take_along_axis(row, order, axis=1)], dtype=np.int32).reshape(-1)
    start = count * np.arange(len(tree) + 1, dtype=np.int64)
    node = np.repeat(np.arange(len(tree)), count)
    q = steering.rest[control]
    coefficient = np.zeros((len(control), 4 if affine else 2), dtype=np.float32)
    share = np.concatenate([tree.centre, tree.radius[:, None]], axis=1)
    is_simplified: Bools = np.ones(len(tree), dtype=np.bool_)
    if affine:
        fit = _fit(q, start)
        is_flat = fit.extent[:, 0] <= NO_EXTENT * fit.extent[:, 2]  # controls in a plane determine no affine map
        is_simplified, g = _with_siblings(tree, is_flat), fit.gradient
        coefficient[:, 0] = 1.0 / count + np.einsum("jk,jk->j", g, (tree.centre - fit.mean)[node])
        coefficient[:, 1:4] = g * fit.unit[node, None]
        share[~is_simplified, 0] = 1.0 / fit.unit[~is_simplified]
    share[is_simplified, :3] -= (np.add.reduceat(q, start[:-1]) / count)[is_simplified]
    follows_simply = is_simplified[node]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        distance = np.linalg.norm(q - tree.centre[node], axis=1)
        ratio = np.where(distance > 0.0, tree.radius[node] / distance, 0.0)
        coefficient[follows_simply, 0] = 1.0 / count
        coefficient[follows_simply, 1] = (ratio**2)[follows_simply]
    return Controls(start, control, coefficient, share, is_simplified)


def bound_controls(tree: SphereHierarchy, points: Points, steering: Steering) -> Controls:
    """All controls that the points below a node depend on, and how far their weights differ from the centre's."""
    start, vertex, cut_start, cut_corner, cut_weight = points
    # every point below every node, and its weights; a control may come from several corners of a cut point
    point_node = np.repeat(np.tile(np.arange(len(tree)), 2), np.concatenate([np.diff(start), np.diff(cut_start)]))
    each, cuts = steering.weight.shape[1], len(vertex) + np.arange(len(cut_corner))
    point = np.concatenate([np.repeat(np.arange(len(vertex)), each), np.repeat(cuts, 3 * each)])
    column = steering.weight_column[np.concatenate([vertex, cut_corner.reshape(-1)])].reshape(-1).astype(np.int64)
    of_cuts = cut_weight[:, :, None] * steering.weight[cut_corner]
    key, row = np.unique(point << 32 | column, return_inverse=True)
    weights = np.concatenate([steering.weight[vertex].reshape(-1), of_cuts.reshape(-1)])
    weight = np.bincount(row.reshape(-1), weights)
    # the weights of each control in each node: mean and range
    key, row = np.unique(point_node[key >> 32] << 32 | key & 0xFFFFFFFF, return_inverse=True)
    row, node, control = row.reshape(-1), key >> 32, key & 0xFFFFFFFF
    start = np.searchsorted(node, np.arange(len(tree) + 1)).astype(np.int64)
    point_count = np.bincount(point_node, minlength=len(tree))
    some_lack_it = np.bincount(row) < point_count[node]
    highest, lowest = np.where(some_lack_it, 0.0, -np.inf), np.where(some_lack_it, 0.0, np.inf)
    np.maximum.at(highest, row, weight)
    np.minimum.at(lowest, row, weight)
    q = steering.rest[control]
    g = _fit(q, start).gradient
    average = np.bincount(row, weight) / point_count[node]
    middle = np.add.reduceat(average[:, None] * q, start[:-1])
    # weights as float32; sums are taken around the first control, whose own weight is what the others leave
    b = average + np.einsum("jk,jk->j", g, (tree.centre - middle)[node])
    b = b.astype(np.float32).astype(np.float64)
    b[start[:-1]] = 0.0
    b[start[:-1]] = 1.0 - np.add.reduceat(b, start[:-1])
    centre = np.add.reduceat(b[:, None] * (q - q[start[:-1]][node]), start[:-1]) + q[start[:-1]]
    spread = np.maximum(np.abs(highest - b), np.abs(lowest - b))
    spread = np.nextafter(spread.astype(np.float32), np.float32(np.inf))
    _, unit = _units(q - centre[node], start)
    at_rest = (q - centre[node]) / unit[node, None]
    columns = [b[:, None], g * unit[node, None], at_rest, spread[:, None]]
    coefficient = np.concatenate(columns, axis=1).astype(np.float32)
    off = np.linalg.norm(coefficient[:, 4:7] - at_rest, axis=1)  # F moves controls at rest as they are stored
    radius, share = np.zeros(len(tree)), np.zeros((len(tree), 4))
    surface = np.einsum("ij,ijk->ik", steering.weight, steering.rest[steering.weight_column])
    kernels.radii_around(centre, surface, padded(points), radius)
    share[:, 0] = 1.0 / unit
    share[:, 3] = radius + unit * np.add.reduceat(spread * off, start[:-1])
    is_simplified = _with_siblings(tree, np.diff(start) > MOST_CONTROLS)
    made = Controls(start, control.astype(np.int32), coefficient, share, is_simplified)
    return _with_simplified(made, tree, points, steering) if is_simplified.any() else made


def _with_siblings(tree: SphereHierarchy, is_chosen: Bools) -> Bools:
    """Some nodes and their siblings."""
    has_chosen: Bools = np.zeros(len(tree) + 1, dtype=np.bool_)  # by parent; the last is that of the root, NONE = -1
    has_chosen[tree.parent[is_chosen]] = True
    return has_chosen[tree.parent]


def _with_simplified(made: Controls, tree: SphereHierarchy, points: Points, steering: Steering) -> Controls:
    """Let simplified spheres follow coarse vertices alone, which the surface in them stays between, or near to.

    Their centres follow a few of these: hundreds of coefficients take longer to fetch than the controls.
    """
    start, vertex, cut_start, cut_corner, _ = points
    nodes = np.repeat(np.tile(np.arange(len(tree)), 2), np.concatenate([np.diff(start), 3 * np.diff(cut_start)]))
    surface = np.concatenate([vertex, cut_corner.reshape(-1)])[made.is_simplified[nodes]]
    nodes = nodes[made.is_simplified[nodes]]
    share = made.share.copy()
    share[made.is_simplified] = 0.0
    np.maximum.at(share[:, 2], nodes, kernels.UNIT * steering.near_by[surface])
    np.maximum.at(share[:, 3], nodes, np.abs(steering.near_weight[surface]).sum(axis=1))
    _, follower, of = by_node((nodes[:, None] << 32 | steering.near_column[surface]).reshape(-1), len(tree))
    simplified = sorted_unique(of)
    bounds = np.searchsorted(of, np.append(simplified, len(tree))).astype(np.int64)
    lead_start, leader = _spread(bounds, follower, steering.rest, LEADING)
    lead = np.repeat(np.arange(len(simplified)), np.diff(lead_start))
    fit = _fit(steering.rest[leader], lead_start)
    offset = (tree.centre[simplified] - fit.mean)[lead]
    old = np.repeat(np.arange(len(tree)), np.diff(made.start))
    is_kept = ~made.is_simplified[old]
    coefficient = np.zeros((len(leader) + len(follower), made.coefficient.shape[1]), dtype=np.float32)
    along = np.einsum("jk,jk->j", fit.gradient, offset)
    coefficient[: len(leader), 0] = 1.0 / np.diff(lead_start)[lead] + along
    node = np.concatenate([old[is_kept], simplified[lead], of])
    order = np.argsort(node, kind="stable")  # leaders come before all others of their node
    return Controls(
        np.searchsorted(node[order], np.arange(len(tree) + 1)).astype(np.int64),
        np.concatenate([made.vertex[is_kept], leader, follower])[order].astype(np.int32),
        np.concatenate([made.coefficient[is_kept], coefficient])[order],
        share,
        made.is_simplified,
    )
