"""Queries on many pairs of small bodies of a surface batch, each in a handful of kernel calls.

Separation (``may_meet``): a plane between two bodies whose boxes overlap.
    1. Supports. Along a direction d, initially between the box centres, p is the farthest vertex of the first body and
                 q the nearest vertex of the second. If q is farther than p, a plane separates the bodies.
    2. Update.   Otherwise mirror d at the plane across q - p, and repeat [ChungWang1996].
    Guarantee    Separated bodies have no common point: heights along d are compared beyond their rounding error.
    Cost         A few products per vertex; of a thousand random boxes, half of the near pairs end here.

Inside (``vertices_in_boxes``, ``inside_small``): vertices of one body in the other.
    1. Box.      Of each ordered pair, the vertices of the first body in the box of the second.
    2. Rays      upwards through the triangles of small closed bodies, with exact signs. The definition of inside is
                 that of ``points_inside``; the surface counts.

Depth (``batch_depth``): consistent penetration depth, with the steps, formulas and guards of ``detect.depth``. Each
    vertex visits the triangles of the penetrated body by two levels of boxes, instead of a tree. The result for two
    bodies does not depend on other bodies.
    1. Border    of all vertices in one call: their edges, exits of these, and depths. Signs come from doubles; a vertex
                 with an uncertain sign is processed again with exact signs.
    2. Rounds    only if a vertex got no depth; only then are all edges listed.
    3. Feet, exit and rest in one call.

Triangles (``batch_pairs``): pairs of triangles that meet.
    1. Leaves    (eight triangles) whose boxes overlap, 64 pairs at a time.
    2. Cross     their triangles whose boxes overlap, 64 at a time: count, scan, fill.
    3. Test      all candidates of all bodies by the shared exact test (``narrow_phase``).
    Guarantee    The pairs of rational arithmetic, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.checks import Bools, Floats, Ints, Stats
from impinge.detect.common.narrow_phase import classify
from impinge.detect.common.pair_query import QueryBody, unpack
from impinge.detect.depth.consistent_depth import FOOT_STEPS, reach_inwards
from impinge.detect.depth.consistent_depth_kernels import UNKNOWN
from impinge.detect.depth.inside_vertices import Links, NodeDepths
from impinge.detect.depth.inside_vertices_kernels import find_links
from impinge.world import batch_depth_kernels as depth_kernels
from impinge.world import batch_kernels as kernels
from impinge.world.batch_separation_kernels import separate_bodies
from impinge.world.surface_batch import Ids, SurfaceBatch

FEW = 64
"""Most vertices of both bodies for the separation test; for larger bodies, boxes of leaves are as effective."""
TURNS = 4
"""Directions tried. The first separates three quarters of the separable boxes, four separate 95 %."""


class CandidateVertices(NamedTuple):
    """Vertices that may be inside bodies, ordered by pairs of bodies."""

    pair: Ids
    """Row of the pair of bodies."""
    vertex: Ids
    """Row among the vertices of all bodies."""
    in_body: Ids
    """The body that the vertex may be in."""


def may_meet(batch: SurfaceBatch, pairs: Ids) -> Ids:
    """Pairs of bodies without a separating plane."""
    is_apart, layout = np.zeros(len(pairs), dtype=np.bool_), batch.layout
    separate_bodies.over(len(pairs))(
        pairs, FEW, TURNS, batch.x, layout.used_start, layout.used, batch.low, batch.high, is_apart
    )
    return pairs[~is_apart]


def count_in_boxes(batch: SurfaceBatch, pairs: Ids) -> Ids:
    """Number of vertices of the first body of each pair in the box of the second."""
    layout, counts = batch.layout, np.zeros(len(pairs), dtype=np.int64)
    kernels.count_points.over(len(pairs))(
        pairs, batch.x, layout.used_start, layout.used, batch.low, batch.high, counts
    )  # fmt: skip
    return counts


def vertices_in_boxes(batch: SurfaceBatch, pairs: Ids) -> CandidateVertices:
    """Vertices of the first body of each pair in the box of the second."""
    layout, counts = batch.layout, np.zeros(len(pairs), dtype=np.int64)
    arrays = pairs, batch.x, layout.used_start, layout.used, batch.low, batch.high
    kernels.count_points.over(len(pairs))(*arrays, counts)
    start = np.append(0, np.cumsum(counts))
    pair, vertex = np.zeros(start[-1], dtype=np.int64), np.zeros(start[-1], dtype=np.int64)
    kernels.find_points.over(len(pairs))(*arrays, start, pair, vertex)
    return CandidateVertices(pair, vertex, pairs[pair, 1])


def inside_small(batch: SurfaceBatch, candidates: CandidateVertices) -> CandidateVertices:
    """The candidates that are inside, of pairs whose second body is small and closed."""
    inside: Bools = np.zeros(len(candidates.vertex), dtype=np.bool_)
    kernels.mark_inside.over(len(inside))(
        candidates.vertex, candidates.in_body, batch.arrays, batch.low, batch.high,
        batch.layout.connectivity.is_oriented, thread_count(), np.zeros(1, dtype=np.int64), inside,
    )  # fmt: skip
    rows = np.flatnonzero(inside)
    return CandidateVertices(*(column[rows] for column in candidates))


def batch_depth(batch: SurfaceBatch, nodes: CandidateVertices) -> tuple[Floats, Floats, Ids]:
    """Depth (k,), unit direction out of the body (k, 3) and exit triangle (row) of vertices inside bodies.

    Bodies are small and closed. Nodes are sorted by pair and vertex.
    """
    count, layout = len(nodes.vertex), batch.layout
    found = NodeDepths(np.zeros(count), np.zeros((count, 3)), np.full(count, UNKNOWN, np.int32))
    exit_face, is_done = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    if not count:
        return found.depth, found.direction, exit_face
    # Normals of the vertices of penetrated bodies, and the sign that turns those of each body outwards.
    normal, outward = np.zeros((layout.vertex_count, 3)), np.zeros(layout.body_count)
    is_penetrated = np.zeros(layout.body_count, dtype=np.bool_)
    is_penetrated[nodes.in_body] = True
    penetrated = np.flatnonzero(is_penetrated)
    depth_kernels.fit_normals.over(len(penetrated))(
        penetrated, layout.used_start, layout.used, batch.arrays, normal, outward
    )
    key, (first_edge, neighbour, _, _) = nodes.pair * layout.vertex_count + nodes.vertex, layout.connectivity
    rows = key, nodes.vertex, nodes.in_body, outward
    surface = (*batch.arrays, batch.low, batch.high, normal)
    counter, out = np.zeros(2, dtype=np.int64), (*found, exit_face, is_done)
    depth_kernels.start_at_borders.over(count)(
        rows, (first_edge, neighbour, layout.most_neighbours), surface, thread_count(), counter[:1], out
    )
    if (found.round == UNKNOWN).any():
        start = np.append(0, np.cumsum(first_edge[nodes.vertex + 1] - first_edge[nodes.vertex]))
        many = int(start[-1])
        links = Links(start, np.zeros(many, np.int32), np.zeros(many, np.int64), np.zeros((many, 3)))
        body = batch.x, first_edge, neighbour
        find_links.over(count)(np.arange(count), key, nodes.vertex.astype(np.int32), body, tuple(links))
        reach_inwards(batch.x[nodes.vertex], links, found)
    depth_kernels.leave_bodies.over(count)(rows, FOOT_STEPS, surface, thread_count(), counter[1:], out)
    return found.depth, found.direction, exit_face


def batch_pairs(batch: SurfaceBatch, pairs: Ids, stats: Stats) -> tuple[Ints, NDArray[np.int8]]:
    """Rows of triangles that meet, of pairs (k, 2) of small bodies, sorted, and their kinds."""
    arrays = (pairs, batch.arrays, batch.low, batch.high)
    counts, none = np.zeros(len(pairs), dtype=np.int64), np.zeros(0, dtype=np.int32)
    threads, find = thread_count(), kernels.find_candidates.over(len(pairs))
    find(*arrays, counts, False, threads, np.zeros(1, dtype=np.int64), counts, none, none)
    start = np.append(0, np.cumsum(counts))
    of_a, of_b = np.zeros(start[-1], dtype=np.int32), np.zeros(start[-1], dtype=np.int32)
    find(*arrays, start, True, threads, np.zeros(1, dtype=np.int64), counts, of_a, of_b)
    side = QueryBody(batch.x, batch.layout.faces, none)
    # The box around two triangles that meet is at most twice the largest body.
    sizes = (batch.high - batch.low).T.take(pairs.reshape(-1), axis=1)
    extent = 2.0 * sizes.max(axis=1, initial=0.0)
    return unpack(np.sort(classify(side, side, of_a, of_b, extent, stats)))
