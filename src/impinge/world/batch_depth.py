"""Consistent penetration depth of vertices inside many small bodies, in a handful of calls.

The steps, formulas and guards are those of ``depth``, and so is what needs no tree. Where those look triangles up in
the tree of one body, here each vertex goes through all triangles of its body and leaves out those whose boxes are too
far away. What vertices of one body in one body get does not depend on what else there is.

1. Border  of all vertices in one call: their edges, where these leave, and depths from there. Signs come from doubles;
           a vertex of which they cannot tell all is done again with exact ones.
2. Rounds, if a vertex got no depth there; only then are all edges listed.
3. Feet, exit and rest in one call.

The difference to ``depth``: bodies are never asked about themselves.
"""

from __future__ import annotations

import numpy as np

from impinge.backend.jit import thread_count
from impinge.checks import Floats
from impinge.detect.depth.consistent_depth import FOOT_STEPS, reach_inwards
from impinge.detect.depth.consistent_depth_kernels import UNKNOWN
from impinge.detect.depth.inside_vertices import Links, NodeDepths
from impinge.detect.depth.inside_vertices_kernels import find_links
from impinge.world import batch_depth_kernels as kernels
from impinge.world.surface_batch import Arena, Ids


def arena_depth(arena: Arena, pair: Ids, vertex: Ids, in_body: Ids) -> tuple[Floats, Floats, Ids]:
    """Depth (k,), unit direction out of the body (k, 3) and the triangle (row) through which each vertex leaves it.

    ``vertex`` are numbers among all vertices, each once per body that it is in, and ``pair`` numbers of pairs of
    bodies; both rise, the vertices of each pair. The bodies that they are in are small and closed.
    """
    count, layout = len(vertex), arena.layout
    found = NodeDepths(np.zeros(count), np.zeros((count, 3)), np.full(count, UNKNOWN, np.int32))
    exit_face, is_done = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    if not count:
        return found.depth, found.direction, exit_face
    key = pair * layout.vertex_count + vertex
    normal, outward = _normals(arena, in_body)
    nodes = key, vertex, in_body, outward
    surface = arena.small_bodies, arena.low, arena.high, normal, thread_count()
    counter, out = np.zeros(2, dtype=np.int64), (tuple(found), exit_face, is_done)
    kernels.start_at_borders.over(count)(
        nodes, (*layout.vertex_neighbour, layout.most_neighbours), *surface, counter[:1], *out
    )  # fmt: skip
    if (found.round == UNKNOWN).any():
        reach_inwards(arena.x[vertex], _links(arena, key, vertex), found)
    kernels.leave_bodies.over(count)(nodes, FOOT_STEPS, *surface, counter[1:], *out)
    return found.depth, found.direction, exit_face


def _normals(arena: Arena, in_body: Ids) -> tuple[Floats, Floats]:
    """Normals of the vertices of the bodies that are penetrated, and what turns those of each outwards."""
    layout = arena.layout
    normal, outward, is_penetrated = (
        np.zeros((layout.vertex_count, 3)), np.zeros(layout.body_count), np.zeros(layout.body_count, dtype=np.bool_)
    )  # fmt: skip
    is_penetrated[in_body] = True
    penetrated = np.flatnonzero(is_penetrated)
    kernels.fit_normals.over(len(penetrated))(
        penetrated, layout.used_start, layout.used, arena.small_bodies, normal, outward
    )  # fmt: skip
    return normal, outward


def _links(arena: Arena, key: Ids, vertex: Ids) -> Links:
    """All edges from the vertices of nodes."""
    of_vertex, neighbour = arena.layout.vertex_neighbour
    counts = of_vertex[vertex + 1] - of_vertex[vertex]
    start = np.concatenate([[0], np.cumsum(counts)])
    many = int(start[-1])
    links = Links(start, np.zeros(many, np.int32), np.zeros(many, np.int64), np.zeros((many, 3)))
    find_links.over(len(key))(
        np.arange(len(key)), key, vertex.astype(np.int32), (arena.x, of_vertex, neighbour), tuple(links)
    )  # fmt: skip
    return links
