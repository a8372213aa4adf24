"""Consistent penetration depth of vertices inside many small bodies, in a handful of calls.

The steps, formulas and guards are those of ``depth``, and so are the kernels that need no tree. Where those look
triangles up in the tree of one body, here each vertex goes through all triangles of its body and leaves out those
whose boxes are too far away. What vertices of one body in one body get does not depend on what else there is.

The difference to ``depth``: bodies are never asked about themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.arrays import NONE, Floats, Ints
from impinge.contact import arena_depth_kernels as kernels
from impinge.contact.depth import EXIT_REACH, FOOT_STEPS, reach_inwards, rows_for_hits, rows_for_touches
from impinge.contact.depth_kernels import OPPOSED, UNKNOWN, start_at_border
from impinge.contact.inside_vertices import Found, Links
from impinge.contact.inside_vertices_kernels import find_links
from impinge.contact.nearest_exit import ON_SURFACE
from impinge.detect.arena import Arena, Ids


def arena_depth(arena: Arena, vertex: Ids, in_body: Ids) -> tuple[Floats, Floats, Ids]:
    """Depth (k,), unit direction out of the body (k, 3) and the triangle (row) through which each vertex leaves it.

    ``vertex`` are numbers among all vertices, each once per body that it is in; the bodies are small and closed.
    """
    if not len(vertex):
        return np.zeros(0), np.zeros((0, 3)), np.zeros(0, dtype=np.int64)
    key = in_body * arena.layout.vertex_count + vertex
    order = np.argsort(key, kind="stable")
    nodes = _Nodes(arena, key[order], vertex[order].astype(np.int32), in_body[order])
    nodes.find()
    depth, direction, face = np.zeros(len(order)), np.zeros((len(order), 3)), np.zeros(len(order), dtype=np.int64)
    depth[order], direction[order], face[order] = nodes.found.depth, nodes.found.direction, nodes.exits()
    return depth, direction, face


class _Nodes:
    """Vertices inside bodies, sorted by (body that they are in, vertex)."""

    def __init__(self, arena: Arena, key: Ids, vertex: Ints, in_body: Ids) -> None:
        layout = arena.layout
        self.in_body, self.points, self.count = in_body, arena.x[vertex], len(key)
        self.bodies = (arena.x, layout.faces, layout.face_start, arena.face_box)
        self.boxes = arena.low, arena.high
        self.surface = (arena.x, layout.faces, *layout.vertex_tri)
        signs = np.zeros(layout.body_count)
        penetrated = np.unique(in_body)
        kernels.find_outward_signs.over(len(penetrated))(penetrated, self.surface, layout.face_start, signs)
        self.outward = signs[in_body]
        self.links = _links(arena, key, vertex)
        self.found = Found(np.zeros(self.count), np.zeros((self.count, 3)), np.full(self.count, UNKNOWN, np.int32))

    def find(self) -> None:
        """All steps."""
        found, touches, hits = self.found, rows_for_touches(self.count), rows_for_hits(len(self.links.node))
        self._meet(self.points, self.in_body, tuple(self.links), touches, hits)
        start_at_border.over(self.count)(
            self.points, tuple(self.links), touches, hits, self.outward, self.surface, tuple(found)
        )  # fmt: skip
        is_opposed = found.round == OPPOSED
        self._leave_by_nearest_point(is_opposed)
        reach_inwards(self.points, self.links, found)
        is_inside = (found.round >= 0) & ~is_opposed & (touches[0] < 0)
        walking = np.flatnonzero(is_inside & (found.depth > 0.0))
        kernels.step_to_feet.over(len(walking))(
            walking, self.points, self.in_body, FOOT_STEPS, self.outward, self.surface, self.bodies, found.depth,
            found.direction,
        )  # fmt: skip
        found.round[is_inside & (found.depth <= 0.0)] = UNKNOWN
        self._leave_along_direction(walking[found.depth[walking] > 0.0])
        self._leave_by_nearest_point(found.round < 0)

    def _meet(
        self, points: Floats, in_body: Ids, links: tuple[Any, ...], touches: tuple[Any, ...], hits: tuple[Any, ...]
    ) -> None:
        kernels.meet_bodies.over(len(points))(points, in_body, links, self.bodies, *self.boxes, touches, hits)

    def _leave_along_direction(self, rows: Ids) -> None:
        """Let depth be the way to the surface along direction; nodes whose way does not lead out stay open."""
        found, many = self.found, len(rows)
        reach = EXIT_REACH * found.depth[rows]
        ends = self.points[rows] + reach[:, None] * found.direction[rows]
        none = np.full(many, NONE, dtype=np.int32)
        links, hits = (np.arange(many + 1), none, np.full(many, NONE), ends), rows_for_hits(many)
        self._meet(self.points[rows], self.in_body[rows], links, rows_for_touches(many), hits)
        is_out = hits[0] > 0.0
        found.depth[rows[is_out]] = (hits[0] * reach)[is_out]
        found.round[rows[~is_out]] = UNKNOWN

    def _leave_by_nearest_point(self, chosen: Any) -> None:
        rows, found = np.flatnonzero(chosen), self.found
        kernels.leave_by_nearest_points.over(len(rows))(
            rows, self.points, self.in_body, ON_SURFACE, self.outward, self.surface, self.bodies, found.depth,
            found.direction,
        )  # fmt: skip
        found.round[rows] = 0

    def exits(self) -> Ids:
        """The triangles, by row, through which they leave."""
        ends = self.points + self.found.depth[:, None] * self.found.direction
        triangle = np.zeros(self.count, dtype=np.int64)
        kernels.find_nearest.over(self.count)(ends, self.in_body, self.bodies, triangle)
        return triangle


def _links(arena: Arena, key: Ids, vertex: Ints) -> Links:
    """All edges from the vertices of nodes."""
    of_vertex, neighbour = arena.layout.vertex_neighbour
    counts = of_vertex[vertex.astype(np.int64) + 1] - of_vertex[vertex]
    start = np.concatenate([[0], np.cumsum(counts)])
    many = int(start[-1])
    links = Links(start, np.zeros(many, np.int32), np.zeros(many, np.int64), np.zeros((many, 3)))
    find_links.over(len(key))(
        np.arange(len(key)), key, vertex, (arena.x, of_vertex, neighbour), tuple(links)
    )  # fmt: skip
    return links
