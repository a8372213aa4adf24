"""A sphere tree along the medial axis of a solid ([BradshawOSullivan2004]).

Level by level, all nodes of a level together:

1. Axis    Refine the medial spheres (``medial_axis``) until each node has enough of them, of errors below half of the
           node's own or of the mean of its level. A sphere is a candidate of the nodes that its forming points are in.
2. Cover   The balls around clusters of the node's pieces join them (``clusters``): they reach what the axis cannot,
           such as sharp edges and thin sheets.
3. Reduce  the candidates to at most as many as children are allowed, by MERGE, by BURST and by EXPAND
           (``reduction_kernels``); take the set with the least worst error, and drop redundant spheres from it.
4. Assign  pieces to spheres by their sides of the radical planes; long pieces that straddle one are cut.
5. Grow    each sphere to hold its whole pieces; the smallest ball around them replaces it if its overshoot is smaller,
           as sampled at points of the ball (``overshoot``).
6. Compare with the smallest balls around clusters, and take these where their worst overshoot is smaller; also where
           one sphere fits a whole node best, which lets the tree go on below it.

Departures Pieces replace samples: what is covered is the surface. Cover spheres are balls around clusters instead of
           Voronoi vertices outside. Merged spheres are chosen among the candidates. While reducing, overshoots are
           bounded by r - d (``medial_axis``) instead of sampled. At most ``MOST_PIECES`` pieces of a node, evenly
           spread, take part in the reduction, all of them in the assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from impinge.checks import NONE, Floats, distinct_rows, sorted_unique
from impinge.detect.sphere_tree.build import reduction_kernels as kernels
from impinge.detect.sphere_tree.build.clusters import Draft, Growth, Wide, balls_around, cluster, middles, radii_around
from impinge.detect.sphere_tree.build.medial_axis import MedialSpheres, medial_spheres, signed_depth, surface_samples
from impinge.detect.sphere_tree.build.overshoot import overshoots
from impinge.detect.sphere_tree.build.pieces import Pieces, bisect, edge_lengths
from impinge.mesh.tri_mesh import TriMesh

FIRST_SAMPLES = 1000
"""Forming points of the first diagram."""
LEAST_SPHERES, MOST_SPHERES = 64, 192
"""Candidates of a node that refinement aims at, and those at which it stops."""
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
TESTS = 42
"""Points of a ball at which its overshoot is sampled."""
NODES_AT_ONCE = 32
"""Nodes that are reduced between two steps of the progress bar."""


Step: TypeAlias = Callable[[int], None]


Chosen: TypeAlias = tuple[Wide, Floats, Floats]
"""A few spheres per node: how many, and centres and radii, shape (n, branching)."""


def draft_by_medial_axis(
    body: TriMesh, pieces: Pieces, points: Floats, branching: int, levels: int, samples: int, seed: int, step: Step
) -> Draft | None:
    """Divide the pieces of ``body``, whose triangles are all alive; None if it has no medial axis (no inside).

    ``step`` receives the number of nodes done.
    """
    forming = surface_samples(body, min(FIRST_SAMPLES, samples), np.random.default_rng(seed))
    tree = Growth(pieces, points)
    _, count = tree.rows()
    tree.centres.append(balls_around(count, points))
    error = _overshoots(body, count, tree.centres[-1], points)
    for _ in range(levels):
        forming, spheres, node, sphere = _refine(body, tree, forming, error, samples)
        if not len(spheres.depth):
            return None
        chosen = _reduce(body, tree, spheres, node, sphere, branching, step)
        rows, label = _assign(body, tree, chosen)
        medial = _grow(body, tree, rows, label, chosen[1])
        _, count = tree.rows()
        clusters = _grow(body, tree, rows, cluster(count, middles(tree.points[rows]), branching)[1], None)
        label, child_count, centre, error = _better(tree.owner[rows], medial, clusters)
        if not tree.divide(rows, child_count, label):
            break
        is_new = np.repeat(child_count > 1, child_count)
        tree.centres.append(centre[is_new])
        error = error[is_new]
    return tree.draft()


def _refine(
    body: TriMesh, tree: Growth, forming: Floats, error: Floats, samples: int
) -> tuple[Floats, MedialSpheres, Wide, Wide]:
    """Refine the axis for the open nodes; forming points, spheres, and the pairs of nodes and their spheres."""
    from scipy.spatial import cKDTree

    target = BETTER * np.minimum(error, error.mean())
    nearest_piece = cKDTree(middles(tree.points))
    for last in (*(False,) * ROUNDS, True):
        spheres = medial_spheres(body, forming)
        # nodes and the spheres that one of their pieces formed, sorted
        owner = tree.owner[nearest_piece.query(forming)[1]][spheres.forming]
        key = sorted_unique((owner << 32 | np.arange(len(owner))[:, None])[owner != NONE])
        node, sphere = key >> 32, key & 0xFFFFFFFF
        if last or len(forming) >= samples:
            break
        # the worst spheres of the nodes that have too few, or whose worst is too bad
        order = np.lexsort((sphere, -spheres.error[sphere], node))
        by_node, by_error = node[order], sphere[order]
        count = np.bincount(by_node, minlength=len(target))
        rank = np.arange(len(by_node)) - (np.cumsum(count) - count)[by_node]
        worst = np.zeros(len(target))
        np.maximum.at(worst, by_node, spheres.error[by_error])
        wants = (count < LEAST_SPHERES) | ((worst > target) & (count < MOST_SPHERES))
        is_worst = rank < np.ceil(WORST_SHARE * count)[by_node]
        bad = sorted_unique(by_error[wants[by_node] & is_worst & (spheres.error[by_error] > 0.0)])
        if not len(bad):
            break
        more = spheres.nearest[bad]
        forming = np.concatenate([forming, more[distinct_rows(more)[0]]])[:samples]
    return forming, spheres, node, sphere


def _reduce(
    body: TriMesh, tree: Growth, spheres: MedialSpheres, node: Wide, sphere: Wide, branching: int, step: Step
) -> Chosen:
    """Choose a few spheres for each node, among its medial spheres and, behind these, the balls around its clusters."""
    rows, count = tree.rows()
    cluster_count, label = cluster(count, middles(tree.points[rows]), branching)
    group = (np.cumsum(cluster_count) - cluster_count)[tree.owner[rows]] + label
    around = balls_around(np.bincount(group), tree.points[rows[np.argsort(group, kind="stable")]])
    order = np.argsort(np.concatenate([node, np.repeat(np.arange(len(count)), cluster_count)]), kind="stable")
    sphere_start = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=len(count)) + cluster_count)])
    centre = np.concatenate([spheres.centre[sphere], around])[order]
    depth = np.concatenate([spheres.depth[sphere], signed_depth(body, around)[0]])[order]
    taken = np.minimum(count, MOST_PIECES)  # evenly spread
    piece_start = np.concatenate([[0], np.cumsum(taken)])
    place = np.arange(piece_start[-1]) - np.repeat(piece_start[:-1], taken)
    first = np.repeat(np.cumsum(count) - count, taken)
    points = tree.points[rows[first + place * np.repeat(count, taken) // np.repeat(taken, taken)]].reshape(-1, 3)
    chosen, kept = np.zeros((len(count), branching), dtype=np.int64), np.zeros(len(count), dtype=np.int64)
    overshoot = np.zeros((len(count), branching))
    for begin in range(0, len(count), NODES_AT_ONCE):
        some, ends = slice(begin, begin + NODES_AT_ONCE), slice(begin, begin + NODES_AT_ONCE + 1)
        kernels.reduce_nodes.over(len(count[some]))(
            points, piece_start[ends], centre, depth, sphere_start[ends], cluster_count[some], MOST_SPHERES,
            chosen[some], overshoot[some], kept[some],
        )  # fmt: skip
        step(len(count[some]))
    return kept, centre[chosen], np.maximum(overshoot + depth[chosen], 0.0)


def _assign(body: TriMesh, tree: Growth, chosen: Chosen) -> tuple[Wide, Wide]:
    """The sphere of each piece of the open nodes; long pieces are cut."""
    kept, centre, radius = chosen
    for last in (*(False,) * CUTS, True):
        rows, _ = tree.rows()
        owner, points = tree.owner[rows], tree.points[rows]
        label, straddles = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
        kernels.label_pieces.over(len(rows))(points, owner, centre, radius**2, kept, label, straddles)
        is_cut = straddles & (edge_lengths(points).max(axis=1) > LONG * radius[owner, label])
        if last or not is_cut.any():
            break
        tree.pieces, source = bisect(tree.pieces, tree.points, np.sort(rows[is_cut]))
        tree.points = tree.pieces.points(body.vertices, body.faces)
        tree.owner, tree.leaf = tree.owner[source], tree.leaf[source]
    return rows, label


class _Set(NamedTuple):
    """One ball for each group of pieces, the groups of a node one after the other."""

    group: Wide
    """Group of each piece in ``rows``."""
    node: Wide
    """Node of each group."""
    centre: Floats
    error: Floats


def _grow(body: TriMesh, tree: Growth, rows: Wide, label: Wide, chosen: Floats | None) -> _Set:
    """The smallest balls around groups of pieces, or those around chosen centres where their overshoot is smaller."""
    width = int(label.max()) + 1
    present, group = np.unique(tree.owner[rows] * width + label, return_inverse=True)
    points, count = tree.points[rows[np.argsort(group, kind="stable")]], np.bincount(group)
    node = present // width
    centre = balls_around(count, points)
    error = _overshoots(body, count, centre, points)
    if chosen is not None:
        other = np.ascontiguousarray(chosen[node, present % width])
        other_error = _overshoots(body, count, other, points)
        is_better = other_error < error
        centre, error = np.where(is_better[:, None], other, centre), np.where(is_better, other_error, error)
    return _Set(group, node, centre, error)


def _overshoots(body: TriMesh, count: Wide, centre: Floats, points: Floats) -> Floats:
    """Overshoots of balls around consecutive groups of pieces."""
    stop = np.cumsum(count)
    return overshoots(body, centre, radii_around(stop - count, stop, centre, points, np.zeros(len(points))), TESTS)


def _better(owner: Wide, medial: _Set, clusters: _Set) -> tuple[Wide, Wide, Floats, Floats]:
    """For each node the set with the least worst error; clusters replace a single ball, which divides nothing.

    Returns the child of each piece, the number of children, and centres and errors of all children.
    """
    node_count = int(owner.max()) + 1
    worst, count = np.zeros((2, node_count)), np.zeros((2, node_count), dtype=np.int64)
    for k, each in enumerate((medial, clusters)):
        np.maximum.at(worst[k], each.node, each.error)
        count[k] = np.bincount(each.node, minlength=node_count)
    takes_clusters = (worst[1] < worst[0]) | (count[0] == 1)
    child_count = np.where(takes_clusters, count[1], count[0])
    first = np.cumsum(count, axis=1) - count
    label = np.where(takes_clusters[owner], clusters.group - first[1][owner], medial.group - first[0][owner])
    kept = np.concatenate([~takes_clusters[medial.node], takes_clusters[clusters.node]])
    order = np.argsort(np.concatenate([medial.node, clusters.node])[kept], kind="stable")
    centre = np.concatenate([medial.centre, clusters.centre])[kept][order]
    return label, child_count, centre, np.concatenate([medial.error, clusters.error])[kept][order]
