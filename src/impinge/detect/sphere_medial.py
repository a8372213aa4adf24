"""A sphere tree along the medial axis of a solid ([BradshawOSullivan2004]).

Level by level, all nodes of a level together:

1. Axis    Refine the medial spheres (``medial_axis``) until each node has enough of them, of errors below half of the
           node's own or of the mean of its level. A sphere is a candidate of the nodes that its forming points are in.
2. Cover   The balls around clusters of the node's pieces join them (``sphere_clusters``): they reach what the axis
           cannot, such as sharp edges and thin sheets.
3. Reduce  the candidates to at most as many as children are allowed, by MERGE, by BURST and by EXPAND
           (``sphere_reduction_kernels``); take the set with the least worst error, and drop redundant spheres from it.
4. Assign  pieces to spheres by their sides of the radical planes; pieces that straddle one and are long are cut.
5. Grow    each sphere to hold its pieces as a whole; the smallest ball around them takes its place if it stands
           off less.

6. Go on   also where one sphere fits a whole node best: it is divided into clusters, so that queries can be exact.

Departures Pieces take the place of samples, so that what is covered is the surface. Cover spheres are balls around
           clusters instead of Voronoi vertices outside. Merged spheres are chosen among the candidates. Stand-offs are
           bounded by r - d (``medial_axis``) instead of sampled. At most ``MOST_PIECES`` pieces of a node, evenly
           spread, take part in the reduction, all of them in the assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from impinge.arrays import NONE, Floats
from impinge.detect import sphere_clusters_kernels, sphere_reduction_kernels
from impinge.detect.medial_axis import MedialSpheres, medial_spheres, refined, signed_depth, surface_samples
from impinge.detect.sphere_clusters import Draft, Growth, Wide, balls_around, cluster, middles
from impinge.detect.sphere_pieces import Pieces, bisect, edge_lengths
from impinge.mesh.tri_mesh import TriMesh

FIRST_SAMPLES = 1000
"""Forming points of the first diagram."""
LEAST_SPHERES, MOST_SPHERES = 64, 192
"""Candidates that refinement aims at for each node, and those from which it stops to."""
BETTER = 0.5
"""Error that candidates are refined to, as a share of the node's or of the mean of its level."""
WORST_SHARE = 0.25
"""Share of a node's spheres that one round of refinement treats."""
ROUNDS = 8
"""Rounds of refinement per level."""
MOST_PIECES = 1000
"""Pieces of a node that take part in its reduction."""
LONG = 0.5
"""A piece that straddles a radical plane is cut if an edge is longer than this share of its ball's radius."""
CUTS = 3
"""Rounds of cutting per level."""
NODES_AT_ONCE = 32
"""Nodes that are reduced between two steps of the progress bar."""


class _Candidates(NamedTuple):
    """Spheres to choose from, node by node; in each node those of clusters come last."""

    start: Wide
    centre: Floats
    depth: Floats
    cluster_count: Wide


class _Chosen(NamedTuple):
    """A few spheres per node."""

    kept: Wide
    centre: Floats
    """Shape (n, branching, 3)."""
    depth: Floats
    radius: Floats


def draft_by_medial_axis(
    body: TriMesh,
    pieces: Pieces,
    points: Floats,
    *,
    branching: int,
    levels: int,
    samples: int,
    seed: int,
    step: Callable[[int], None],
) -> Draft | None:
    """Divide the pieces of ``body``, whose triangles are all alive; None if it has no medial axis (no inside).

    ``step`` is told how many nodes were done.
    """
    forming = surface_samples(body, min(FIRST_SAMPLES, samples), np.random.default_rng(seed))
    tree = Growth(pieces, points)
    rows, count = tree.rows()
    tree.centres.append(balls_around(count, points))
    error = _errors(tree, tree.centres[-1], signed_depth(body, tree.centres[-1])[0])[0]
    for _ in range(levels):
        forming, spheres, node, sphere = _refine(body, tree, forming, error, samples)
        if not len(spheres.depth):
            return None
        candidates = _candidates(body, tree, spheres, node, sphere, branching)
        chosen = _reduce(tree, candidates, branching, step)
        rows, label = _assign(body, tree, chosen)
        _cluster_undivided(tree, rows, label, chosen, branching)
        label, child_count, present = _without_empty(tree.owner[rows], label, chosen)
        if not tree.divide(rows, label, child_count):
            break
        present = present[np.repeat(child_count > 1, child_count)]
        error = _grow(body, tree, chosen.centre.reshape(-1, 3)[present], chosen.depth.reshape(-1)[present])
    return tree.draft()


# Axis -----------------------------------------------------------------------------------------------------


def _refine(
    body: TriMesh, tree: Growth, forming: Floats, error: Floats, samples: int
) -> tuple[Floats, MedialSpheres, Wide, Wide]:
    """Refine the axis for the open nodes; forming points, spheres, and the pairs of nodes and their spheres."""
    from scipy.spatial import cKDTree

    target = BETTER * np.minimum(error, error.mean())
    nearest_piece = cKDTree(middles(tree.points))
    for last in (*(False,) * ROUNDS, True):
        spheres = medial_spheres(body, forming)
        node, sphere = _pairs(tree.owner[nearest_piece.query(forming)[1]], spheres)
        if last or len(forming) >= samples:
            break
        bad = _bad_spheres(spheres.error, node, sphere, target)
        if not len(bad):
            break
        forming = refined(forming, spheres, bad)[:samples]
    return forming, spheres, node, sphere


def _pairs(node_of_forming: Wide, spheres: MedialSpheres) -> tuple[Wide, Wide]:
    """Nodes and the spheres that one of their pieces formed, sorted."""
    node = node_of_forming[spheres.forming]
    sphere = np.broadcast_to(np.arange(len(node))[:, None], node.shape)
    key = np.unique((node * max(len(node), 1) + sphere)[node != NONE])
    return key // max(len(node), 1), key % max(len(node), 1)


def _bad_spheres(error: Floats, node: Wide, sphere: Wide, target: Floats) -> Wide:
    """The worst spheres of the nodes that have too few, or whose worst is too bad."""
    order = np.lexsort((sphere, -error[sphere], node))
    node, sphere = node[order], sphere[order]
    count = np.bincount(node, minlength=len(target))
    rank = np.arange(len(node)) - (np.cumsum(count) - count)[node]
    worst = np.zeros(len(target))
    np.maximum.at(worst, node, error[sphere])
    wants = (count < LEAST_SPHERES) | ((worst > target) & (count < MOST_SPHERES))
    is_bad = wants[node] & (rank < np.ceil(WORST_SHARE * count)[node]) & (error[sphere] > 0.0)
    return np.unique(sphere[is_bad])


# Reduce ---------------------------------------------------------------------------------------------------


def _candidates(
    body: TriMesh, tree: Growth, spheres: MedialSpheres, node: Wide, sphere: Wide, branching: int
) -> _Candidates:
    rows, count = tree.rows()
    cluster_count, label = cluster(count, middles(tree.points[rows]), branching)
    group = (np.cumsum(cluster_count) - cluster_count)[tree.owner[rows]] + label
    rows = rows[np.argsort(group, kind="stable")]
    around = balls_around(np.bincount(group), tree.points[rows])
    of_cluster = np.repeat(np.arange(len(count)), cluster_count)
    order = np.argsort(np.concatenate([node, of_cluster]), kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=len(count)) + cluster_count)])
    centre = np.concatenate([spheres.centre[sphere], around])[order]
    depth = np.concatenate([spheres.depth[sphere], signed_depth(body, around)[0]])[order]
    return _Candidates(start, centre, depth, cluster_count)


def _reduce(tree: Growth, candidates: _Candidates, branching: int, step: Callable[[int], None]) -> _Chosen:
    rows, count = tree.rows()
    taken = np.minimum(count, MOST_PIECES)
    piece_start = np.concatenate([[0], np.cumsum(taken)])
    place = np.arange(piece_start[-1]) - np.repeat(piece_start[:-1], taken)
    first = np.cumsum(count) - count
    points = tree.points[rows[np.repeat(first, taken) + place * np.repeat(count, taken) // np.repeat(taken, taken)]]
    chosen = np.zeros((len(count), branching), dtype=np.int64)
    stand_off = np.zeros((len(count), branching))
    kept, winner = np.zeros(len(count), dtype=np.int64), np.zeros(len(count), dtype=np.int64)
    for begin in range(0, len(count), NODES_AT_ONCE):
        some = slice(begin, begin + NODES_AT_ONCE)
        ends = slice(begin, begin + NODES_AT_ONCE + 1)
        sphere_reduction_kernels.reduce_nodes.over(len(count[some]))(
            points, piece_start[ends], candidates.centre, candidates.depth, candidates.start[ends],
            candidates.cluster_count[some], MOST_SPHERES, chosen[some], stand_off[some], kept[some], winner[some],
        )  # fmt: skip
        step(len(count[some]))
    depth = candidates.depth[chosen]
    return _Chosen(kept, candidates.centre[chosen], depth, np.maximum(stand_off + depth, 0.0))


# Assign ---------------------------------------------------------------------------------------------------


def _assign(body: TriMesh, tree: Growth, chosen: _Chosen) -> tuple[Wide, Wide]:
    """The sphere of each piece of the open nodes; pieces are cut on the way."""
    radius_sq = chosen.radius**2
    for last in (*(False,) * CUTS, True):
        rows, _ = tree.rows()
        owner, points = tree.owner[rows], tree.points[rows]
        label, straddles = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
        sphere_reduction_kernels.label_pieces.over(len(rows))(
            points, owner, chosen.centre, radius_sq, chosen.kept, label, straddles
        )
        is_long = edge_lengths(points).max(axis=1) > LONG * chosen.radius[owner, label]
        if last or not (is_long & straddles).any():
            break
        pieces, source = bisect(tree.pieces, tree.points, np.sort(rows[is_long & straddles]))
        tree.replace_pieces(pieces, pieces.points(body.vertices, body.faces), source)
    return rows, label


def _cluster_undivided(tree: Growth, rows: Wide, label: Wide, chosen: _Chosen, branching: int) -> None:
    """Divide the nodes that one sphere fits best into clusters, so that the tree goes on below them."""
    lowest, highest = np.full(tree.open_count, branching), np.full(tree.open_count, NONE)
    owner = tree.owner[rows]
    np.minimum.at(lowest, owner, label)
    np.maximum.at(highest, owner, label)
    is_one = lowest == highest
    if is_one.any():
        of_one = is_one[owner]
        count = np.bincount(owner, minlength=tree.open_count)[is_one]
        label[of_one] = cluster(count, middles(tree.points[rows[of_one]]), branching)[1]
        chosen.depth[is_one] = -np.inf  # no sphere: the smallest balls are taken


def _without_empty(owner: Wide, label: Wide, chosen: _Chosen) -> tuple[Wide, Wide, Wide]:
    """Number the spheres that got pieces anew; also how many there are in each node, and which of all they were."""
    node_count, branching = chosen.depth.shape
    present, dense = np.unique(owner * branching + label, return_inverse=True)
    child_count = np.bincount(present // branching, minlength=node_count)
    return dense - (np.cumsum(child_count) - child_count)[owner], child_count, present


# Grow -----------------------------------------------------------------------------------------------------


def _grow(body: TriMesh, tree: Growth, centre: Floats, depth: Floats) -> Floats:
    """Take the sphere's centre, or that of the smallest ball, whichever stands off less; returns the errors."""
    rows, count = tree.rows()
    smallest = balls_around(count, tree.points[rows])
    error, radius = _errors(tree, centre, depth)
    smallest_error, smallest_radius = _errors(tree, smallest, signed_depth(body, smallest)[0])
    is_better = (smallest_error < error) | ((smallest_error == error) & (smallest_radius < radius))
    tree.centres.append(np.where(is_better[:, None], smallest, centre))
    return np.where(is_better, smallest_error, error)


def _errors(tree: Growth, centre: Floats, depth: Floats) -> tuple[Floats, Floats]:
    """Bounds of the stand-offs, and radii, of balls around the pieces of the open nodes."""
    rows, count = tree.rows()
    stop, radius = np.cumsum(count), np.zeros(len(count))
    sphere_clusters_kernels.radii_around_pieces.over(len(count))(
        stop - count, stop, centre, tree.points[rows].reshape(-1, 3), np.zeros(len(rows)), radius
    )
    return np.maximum(radius - depth, 0.0), radius
