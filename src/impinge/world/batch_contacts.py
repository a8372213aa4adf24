"""Contacts of many pairs of bodies: vertices inside bodies, and curves where no vertex is inside.

0. Apart.    Pairs of small bodies that a plane parts are done (``arena_apart``).
1. Vertices. Of both bodies of each pair, find the vertices inside the other (``arena_inside``).
2. Depths.   Small closed bodies all together (``arena_depth``), the others one by one (``depth``).
3. Curves.   Of pairs without such a vertex, find the triangles that meet: small bodies all together (``arena_pairs``),
             others by their trees (``BoxTree``).
4. Selves.   Of a body with itself: the vertices of a tet mesh in its own tets, with depths (``SpatialHash``); of a
             surface the triangles that meet beyond what they share.

Which way is taken depends on the body that is penetrated, or on the pair; never on what else is in the arena, so that
pairs asked together and one by one get the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints, sorted_unique
from impinge.contact.contacts import Columns, curve_rows, joined, vertex_rows
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.whole_tree import LARGEST_EXPONENT
from impinge.detect.common.results import TrianglePairs, VertexContacts
from impinge.detect.depth.body_states import state_of
from impinge.detect.depth.consistent_depth import consistent_depth
from impinge.detect.proximity.closest_points import closest_points
from impinge.detect.proximity.points_inside import points_inside
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.world.batch_apart import may_meet
from impinge.world.batch_depth import arena_depth
from impinge.world.batch_inside import Asked, count_in_boxes, inside_small, vertices_in_boxes
from impinge.world.batch_pairs import are_small, arena_pairs
from impinge.world.surface_batch import Arena, Ids

Answer = TypeVar("Answer")

TREE_COST = 64
"""Tests that a point costs in a tree, as a share of those that it costs to go through a list of triangles."""
SELF_COST = 32
"""Tests that a triangle costs against its own body."""


class ArenaContacts:
    """Finds contacts of the bodies of an arena; keeps what trees of two bodies need between frames."""

    def __init__(self, arena: Arena, bodies: Sequence[TriMesh | TetMesh]) -> None:
        self.arena = arena
        self._bodies = bodies
        """The bodies whose surfaces are in the arena."""
        self._detectors: dict[tuple[int, int], BoxTree] = {}

    @property
    def _by_kernel(self) -> Bools:
        """Bodies whose vertices inside are found and measured all together; none if numbers are out of range."""
        layout, size = self.arena.layout, self.arena.size
        is_in_range = size == 0.0 or abs(math.frexp(size)[1]) <= LARGEST_EXPONENT
        return layout.by_kernel if is_in_range else np.zeros(layout.body_count, dtype=np.bool_)

    # what it costs --------------------------------------------------------------------------------------

    def costs(self, pairs: Ids) -> Ids:
        """Tests that each pair costs, at most but for the exact ones: vertices in boxes times triangles."""
        layout = self.arena.layout
        faces, used = np.diff(layout.face_start), np.diff(layout.used_start)
        per_point = np.where(self._by_kernel, faces, TREE_COST)
        a, b = pairs.T
        counts = [count_in_boxes(self.arena, way) for way in (pairs, _turned(pairs))]
        cost: Ids = used[a] + used[b] + faces[a] + faces[b] + counts[0] * per_point[b] + counts[1] * per_point[a]
        return np.where(a == b, SELF_COST * faces[a], cost)

    # contacts -------------------------------------------------------------------------------------------

    def find(self, pairs: Ids, stats: dict[str, Any]) -> Columns:
        """Contacts of pairs of bodies, shape (k, 2), i < j, or i = j for a body with itself."""
        alone = pairs[:, 0] == pairs[:, 1]
        two = may_meet(self.arena, pairs[~alone])
        vertices = self._vertices(two, stats)
        rest = self._without(two, vertices)
        stats["pairs_by_vertices"] = stats.get("pairs_by_vertices", 0) + len(two) - len(rest)
        parts = [vertices, self._curves(*self._triangles(rest, stats))]
        parts += [self._self_contacts(b) for b in pairs[alone, 0].tolist()]
        return joined(parts)

    def curves(self, pairs: Ids, stats: dict[str, Any]) -> Columns:
        """Where triangles of pairs of bodies meet, without depths; of bodies inside others the vertices."""
        alone = pairs[:, 0] == pairs[:, 1]
        two = may_meet(self.arena, pairs[~alone])
        curves = self._curves(*self._triangles(two, stats))
        parts = [curves, self._vertices(self._without(two, curves), stats)]
        parts += [self._self_curves(b) for b in pairs[alone, 0].tolist()]
        return joined(parts)

    def _without(self, pairs: Ids, touching: Columns) -> Ids:
        """The pairs of bodies that have no row yet."""
        count = self.arena.layout.body_count
        touched = sorted_unique(touching.body_a.astype(np.int64) * count + touching.body_b)
        return pairs[~_is_among(pairs[:, 0] * count + pairs[:, 1], touched)]

    def _vertices(self, pairs: Ids, stats: dict[str, Any]) -> Columns:
        """Vertices inside bodies, and their ways out."""
        layout = self.arena.layout
        ways = np.concatenate([pairs, _turned(pairs)])
        by_kernel = self._by_kernel[ways[:, 1]]
        small = vertices_in_boxes(self.arena, ways[by_kernel])
        stats["points"] = stats.get("points", 0) + len(small.vertex)
        is_inside = np.flatnonzero(inside_small(self.arena, small))
        pair, vertex, in_body = (column[is_inside] for column in small)
        depth, direction, exit_row = arena_depth(self.arena, pair, vertex, in_body)
        parts = [self._rows(vertex, in_body, layout.face_id[exit_row], depth, direction)]
        if not by_kernel.all():
            others = vertices_in_boxes(self.arena, ways[~by_kernel])
            stats["points"] += len(others.vertex)
            parts += self._vertices_by_tree(others)
        return joined(parts)

    def _rows(self, vertex: Ids, in_body: Ids, exit_id: Ints, depth: Floats, direction: Floats) -> Columns:
        layout = self.arena.layout
        body = layout.of_vertex[vertex]
        own = vertex - layout.vertex_start[body]
        return vertex_rows(body, own, in_body, exit_id, self.arena.x[vertex], depth, direction)

    def _vertices_by_tree(self, asked: Asked) -> list[Columns]:
        """Vertices inside bodies that are asked one by one."""
        parts = []
        for b in sorted_unique(asked.in_body).tolist():
            vertex = asked.vertex[asked.in_body == b]
            points = self.arena.x[vertex]
            is_inside = self._ask(lambda body, x=points: points_inside(body, x), b)
            if is_inside.any():
                parts.append(self._depths_by_tree(vertex[is_inside], b))
        return parts

    def _depths_by_tree(self, vertex: Ids, in_body: int) -> Columns:
        """Depths of vertices inside one body, by its tree."""
        layout = self.arena.layout
        body = layout.of_vertex[vertex]
        involved = sorted_unique(np.append(body, in_body))
        states = [self._state(b) for b in involved.tolist()]
        count = len(vertex)
        found = VertexContacts(
            body=np.searchsorted(involved, body).astype(np.int32),
            vertex=(vertex - layout.vertex_start[body]).astype(np.int32),
            in_body=np.full(count, np.searchsorted(involved, in_body), dtype=np.int32),
            tet=np.full(count, -1, dtype=np.int32),
            barycentric=np.zeros((count, 4)),
            is_self=np.zeros(count, dtype=np.bool_),
        )
        depth, direction = consistent_depth(states, found)
        ends = self.arena.x[vertex] + depth[:, None] * direction
        exits = self._ask(lambda surface: closest_points(surface, ends, inside=False).triangle, in_body)
        return self._rows(vertex, np.full(count, in_body), exits, depth, direction)

    def _state(self, body: int) -> Any:
        """A body's surface as the arena shows it; depths are asked of a copy if it has changed since."""
        layout, x = self.arena.layout, self.arena.x
        surface = self.arena.surfaces[body]
        if surface.version != self.arena.version(body):
            surface = self._frozen(body)
        return state_of(surface)._replace(positions=x[layout.vertex_start[body] : layout.vertex_start[body + 1]])

    # triangles ------------------------------------------------------------------------------------------

    def triangles(self, pairs: Ids, stats: dict[str, Any]) -> tuple[Ints, NDArray[np.int8]]:
        """Rows of triangles of pairs of bodies that meet, shape (k, 2), sorted, and their kinds."""
        return self._triangles(may_meet(self.arena, pairs), stats)

    def _triangles(self, pairs: Ids, stats: dict[str, Any]) -> tuple[Ints, NDArray[np.int8]]:
        layout = self.arena.layout
        by_kernel = are_small(self.arena, pairs)
        rows, kind = arena_pairs(self.arena, pairs[by_kernel], stats)
        if by_kernel.all():
            return rows, kind
        found_rows, found_kinds = [rows], [kind]
        for a, b in pairs[~by_kernel].tolist():
            found = self._ask(self._tree_query(a, b), a, b)
            both = layout.rows_of(a, found.pairs[:, 0]), layout.rows_of(b, found.pairs[:, 1])
            found_rows.append(np.stack(both, axis=1).astype(np.int32))
            found_kinds.append(found.kind)
        rows, kind = np.concatenate(found_rows), np.concatenate(found_kinds)
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        return rows[order], kind[order]

    def _tree_query(self, a: int, b: int) -> Callable[..., TrianglePairs]:
        def question(*surfaces: TriMesh) -> TrianglePairs:
            if surfaces != (self.arena.surfaces[a], self.arena.surfaces[b]):
                return BoxTree(*surfaces).query()
            return self._detectors.setdefault((a, b), BoxTree(*surfaces)).query()

        return question

    def _curves(self, rows: Ints, kind: NDArray[np.int8]) -> Columns:
        layout, x = self.arena.layout, self.arena.x
        a, b = layout.of_face[rows[:, 0]], layout.of_face[rows[:, 1]]
        return curve_rows(a, b, rows, kind, x, layout.faces, x, layout.faces, layout.face_id[rows])

    # a body with itself -----------------------------------------------------------------------------------

    def _self_contacts(self, body: int) -> Columns:
        mesh = self._bodies[body]
        if not isinstance(mesh, TetMesh):
            return self._self_curves(body)
        found = SpatialHash([mesh]).query(depth=True)
        assert isinstance(found, VertexContacts)
        assert found.depth is not None
        assert found.direction is not None
        _, first = np.unique(found.vertex, return_index=True)
        number = np.full(len(first), body)
        vertex = found.vertex[first]
        return vertex_rows(
            number, vertex, number, found.tet[first], mesh.vertices[vertex], found.depth[first], found.direction[first]
        )

    def _self_curves(self, body: int) -> Columns:
        layout = self.arena.layout
        found = self._ask(lambda surface: BoxTree(surface).query(), body)
        rows = layout.rows_of(body, found.pairs.reshape(-1)).reshape(-1, 2).astype(np.int32)
        return self._curves(rows, found.kind)

    # bodies as they were seen -----------------------------------------------------------------------------

    def _ask(self, question: Callable[..., Answer], *bodies: int) -> Answer:
        """What ``question`` says of surfaces as the arena shows them; of copies, if one has changed since."""
        surfaces = [self.arena.surfaces[b] for b in bodies]
        seen = [self.arena.version(b) for b in bodies]
        if [surface.version for surface in surfaces] == seen:
            answer = question(*surfaces)
            if [surface.version for surface in surfaces] == seen:
                return answer
        return question(*(self._frozen(b) for b in bodies))

    def _frozen(self, body: int) -> TriMesh:
        """A copy of a body as the arena shows it, under the same ids."""
        layout = self.arena.layout
        x = self.arena.x[layout.vertex_start[body] : layout.vertex_start[body + 1]]
        copy = TriMesh(x, layout.elements[body], validate="trust")
        copy.remove_triangles(np.setdiff1d(np.arange(len(layout.elements[body])), layout.live[body]))
        return copy


def _is_among(keys: Ids, known: Ids) -> Bools:
    """Which keys are among known ones, which rise."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.bool_)
    among: Bools = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
    return among


def _turned(pairs: Ids) -> Ids:
    return np.ascontiguousarray(pairs[:, ::-1])
