"""Contact search among the near bodies of a world, by one method, within a budget shared by all pairs.

vertices   1. Separate. Pairs of small bodies with a plane between them are done (``may_meet``).
           2. Vertices. Of both bodies of each pair, the vertices inside the other, with their depths: small closed
                        bodies all together (``batch_queries``), others by their trees (``points_inside``, ``depth``).
           3. Curves.   Of pairs without such a vertex, the triangles that meet: small bodies all together, others by
                        their trees (``BoxTree``).
           4. Self.     Vertices of a tet mesh in its own tets, with depths (``SpatialHash``); triangles of a surface
                        that meet beyond what they share.
pairs      Step 3 before step 2: triangles that meet, and vertices of bodies inside others.
volume     The gradient of the overlap volume, one pair after the other.
spheres    Every pair gets an equal part of the remaining budget for its sphere trees. If no spheres meet, one body may
           still be inside the other: the remaining budget goes to the vertices of such pairs, and to self-collision.
           Spheres extend beyond surfaces and meet before them. If the box of one body is within that of the other,
           the search therefore descends to triangles, which distinguish a body inside from one that protrudes.

Budget     Except for spheres, pairs are processed in order of their estimated tests, after those that the caller puts
           first. ``max_tests`` selects the pairs beforehand, deterministically; ``budget_ms`` checks the clock between
           batches. Pairs without a complete answer are left: bodies that may touch.
Guarantee  The code path depends on the penetrated body, or on the pair, never on other bodies: one query for many pairs
           and one query per pair give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.backend.clock import now_ns
from impinge.budget import Budget
from impinge.checks import Floats, Ints, Stats
from impinge.contact.contacts import (
    Columns,
    body_key,
    curve_rows,
    outward_signs,
    rows_of_vertices,
    sphere_rows,
    vertex_rows,
    volume_row,
)
from impinge.contact.volume_gradient import VolumeGradients
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.containment import enclosure
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth.body_states import state_of
from impinge.detect.depth.consistent_depth import consistent_depth
from impinge.detect.proximity.closest_points import closest_points
from impinge.detect.proximity.points_inside import points_inside
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.mesh.body import Body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.world import batch_queries
from impinge.world.surface_batch import Ids, Layout, SurfaceBatch

BATCH = 100_000
"""Tests between two checks of the clock: about 0.1 ms."""
TREE_COST = 64
"""Cost of a point in a tree, in tests of a point against a triangle."""
SELF_COST = 32
"""Tests per triangle of self-collision."""

Answer = TypeVar("Answer")
Detector = TypeVar("Detector", BoxTree, SpatialHash, SphereTree, VolumeGradients)


class BodyEntry(NamedTuple):
    """One body of a world."""

    added: Any
    """The object passed to ``World.add``: a mesh, or an object with a surface."""
    body: Body
    surface: TriMesh
    group: int
    collides_with: int
    fixed: bool
    moves_itself: bool
    rest: Floats
    """Positions when the body was added."""


class RawContacts(NamedTuple):
    """Result of a search."""

    rows: list[Columns]
    left: Ids
    """Rows of the pairs without a complete answer, in any order."""
    tests: int
    """Estimated or counted tests; 0 without a budget."""


class WorldSearch:
    """Derived state of one set of bodies: surface batch, detectors of pairs, and what results and moves need."""

    def __init__(self, entries: Mapping[str, BodyEntry], last: Layout | None = None) -> None:
        self.names = tuple(entries)
        self.number = {name: b for b, name in enumerate(entries)}
        self.keys = np.array([body_key(name) for name in entries], dtype=np.uint64)
        self.bodies: tuple[Body, ...] = tuple(entry.body for entry in entries.values())
        self.self_moving = [name for name, entry in entries.items() if entry.moves_itself]
        self.batch = SurfaceBatch([entry.surface for entry in entries.values()], last)
        self._sphere_bodies = [e.added if hasattr(e.added, "rest_surface") else e.surface for e in entries.values()]
        """Bodies for sphere trees: soft bodies themselves, of others the surface."""
        self._detectors: dict[tuple[type, int, int, bool], Any] = {}
        """Detectors of pairs of bodies, kept between frames."""

    def count_enclosing(self) -> int:
        """Number of bodies with an inside: closed by their indices, or by the positions of their vertices.

        Positions are compared once per topology: seams of a body that deforms stay closed.
        """
        layout = self.batch.layout
        if layout.enclosing is None:
            layout.enclosing = int(layout.is_closed.sum())
            if not layout.enclosing:
                parts = zip(layout.vertex_start[:-1], layout.vertex_start[1:], layout.elements, layout.live)
                sides = (QueryBody(self.batch.x[first:end], faces, live) for first, end, faces, live in parts)
                layout.enclosing = sum(bool(enclosure(side)) for side in sides)
        return layout.enclosing

    def costs(self, pairs: Ids) -> Ids:
        """Estimated tests of each pair: vertices in boxes times triangles; an upper bound but for exact tests."""
        batch, layout, (a, b) = self.batch, self.batch.layout, pairs.T
        faces, used = np.diff(layout.face_start), np.diff(layout.used_start)
        per_point = np.where(layout.is_small & layout.is_closed & batch.is_in_range, faces, TREE_COST)
        in_b, in_a = (batch_queries.count_in_boxes(batch, np.ascontiguousarray(way)) for way in (pairs, pairs[:, ::-1]))
        cost: Ids = used[a] + used[b] + faces[a] + faces[b] + in_b * per_point[b] + in_a * per_point[a]
        return np.where(a == b, SELF_COST * faces[a], cost)

    # search within a budget -------------------------------------------------------------------------------

    def find(self, method: str, pairs: Ids, budget: Budget | None, stats: Stats, ahead: int) -> RawContacts:
        """Contacts of the pairs (k, 2), i <= j, that the budget suffices for; the first ``ahead`` are processed first.

        The very first of these is processed whatever it costs.
        """
        if method != "spheres":
            if budget is not None:
                return self._find_cheapest(method, pairs, budget, 0, stats, ahead)
            return RawContacts(self._find(method, pairs, stats), np.zeros(0, dtype=np.int64), 0)
        rows, left, spent = list[Columns](), list[int](), 0
        is_self = pairs[:, 0] == pairs[:, 1]
        two, rest = np.flatnonzero(~is_self).tolist(), np.flatnonzero(is_self).tolist()
        for k, row in enumerate(two):
            share: dict[str, Any] = {}
            if budget is not None and k >= min(ahead, 1):
                if budget.max_tests is not None:
                    share["max_tests"] = (budget.max_tests - spent) // (len(two) - k)
                else:
                    share["budget_ms"] = 1e-6 * (budget.end_ns - now_ns()) / (len(two) - k)
                if min(share.values()) <= 0:
                    left.append(row)
                    continue
            # Results depend slightly on the order of two bodies: sort them by key, not by number.
            a, b = sorted(pairs[row].tolist(), key=self.keys.__getitem__)
            low, high = self.batch.low, self.batch.high
            nested = any((low[i] >= low[j]).all() and (high[i] <= high[j]).all() for i, j in ((a, b), (b, a)))
            bodies = self._sphere_bodies[a], self._sphere_bodies[b]
            found = self._detector(SphereTree, a, b, partial(_sphere_tree, *bodies, nested), nested).query(**share)
            spent += found.tests
            rows.append(sphere_rows(a, b, found))
            if len(found.possible):
                left.append(row)
            elif not len(found):
                rest.append(row)
        rest.sort()
        leads = int(ahead > 0 and rest[:1] == [0])
        if budget is None:
            return RawContacts([*rows, *self._find("vertices", pairs[rest], stats)], np.array(left, dtype=np.int64), 0)
        inside = self._find_cheapest("vertices", pairs[rest], budget, spent, stats, leads)
        unfinished = np.concatenate([left, np.array(rest, dtype=np.int64)[inside.left]]).astype(np.int64)
        return RawContacts([*rows, *inside.rows], unfinished, spent + inside.tests)

    def _find_cheapest(
        self, method: str, pairs: Ids, budget: Budget, spent: int, stats: Stats, ahead: int
    ) -> RawContacts:
        """Contacts of pairs in order of their costs, after ``spent`` tests of the budget."""
        cost = self.costs(pairs)
        order = np.concatenate([np.arange(ahead), ahead + np.argsort(cost[ahead:], kind="stable")])
        total = np.append(0, np.cumsum(cost[order]))
        stats["tests_wanted"] = int(total[-1])
        rows, count = list[Columns](), 0
        if budget.max_tests is not None:
            count = max(int(np.searchsorted(total[1:], budget.max_tests - spent, side="right")), min(ahead, 1))
            rows = self._find(method, pairs[np.sort(order[:count])], stats)
        else:
            while count < len(order) and (count < min(ahead, 1) or not budget.is_over()):
                end = max(count + 1, int(np.searchsorted(total[1:], total[count] + BATCH, side="right")))
                rows += self._find(method, pairs[order[count:end]], stats)
                count = end
        return RawContacts(rows, order[count:], int(total[count]))

    def _find(self, method: str, pairs: Ids, stats: Stats) -> list[Columns]:
        """Contacts of pairs by a method other than spheres."""
        batch, is_self = self.batch, pairs[:, 0] == pairs[:, 1]
        if method == "volume":
            rows = []
            for a, b in pairs[~is_self].tolist():
                surfaces = batch.surfaces[a], batch.surfaces[b]
                detector = self._detector(VolumeGradients, a, b, partial(VolumeGradients, *surfaces))
                boxes = (np.stack([batch.low[k], batch.high[k]]) for k in (a, b))
                rows.append(volume_row(a, b, detector.query(), *boxes))
            return rows
        two, count = batch_queries.may_meet(batch, pairs[~is_self]), batch.layout.body_count
        first, second = (self._vertices, self._curves) if method == "vertices" else (self._curves, self._vertices)
        rows = first(two, stats)
        touching = np.sort(np.concatenate([[-1], *(part.body_a * count + part.body_b for part in rows)]))
        key = two[:, 0] * count + two[:, 1]
        rest = two[touching[np.searchsorted(touching, key, side="right") - 1] != key]
        if len(rest):
            rows += second(rest, stats)
        for b in pairs[is_self, 0].tolist():
            mesh = self.bodies[b]
            if method == "vertices" and isinstance(mesh, TetMesh):
                inside = self._detector(SpatialHash, b, b, partial(SpatialHash, [mesh])).query(depth=True)
                assert isinstance(inside, VertexContacts)
                part = rows_of_vertices(inside)
                rows.append(part._replace(body_a=part.body_a + b, body_b=part.body_b + b))
            else:
                rows.append(self._curve_rows(*self._triangles_by_tree(b)))
        return rows

    # vertices inside bodies -------------------------------------------------------------------------------

    def _vertices(self, pairs: Ids, _: Stats) -> list[Columns]:
        """Vertices inside bodies, with depths."""
        batch, layout = self.batch, self.batch.layout
        ordered = np.concatenate([pairs, pairs[:, ::-1]])
        by_kernel = (layout.is_small & layout.is_closed)[ordered[:, 1]] & batch.is_in_range
        parts = []
        if by_kernel.any():
            nodes = batch_queries.inside_small(batch, batch_queries.vertices_in_boxes(batch, ordered[by_kernel]))
            depth, direction, exit_row = batch_queries.batch_depth(batch, nodes)
            parts.append((nodes.vertex, nodes.in_body, layout.face_id[exit_row], depth, direction))
        if not by_kernel.all():
            parts.append(self._vertices_by_tree(ordered[~by_kernel]))
        rows = []
        for vertex, in_body, exit_id, depth, direction in parts:
            body = layout.body_of_vertex[vertex]
            own = vertex - layout.vertex_start[body]
            rows.append(vertex_rows(body, own, in_body, exit_id, batch.x[vertex], depth, direction))
        return rows

    def _vertices_by_tree(self, ordered: Ids) -> tuple[Ids, Ids, Ints, Floats, Floats]:
        """Vertex, penetrated body, exit triangle, depth and direction, of bodies with trees."""
        batch, layout = self.batch, self.batch.layout
        _, vertex, in_body = batch_queries.vertices_in_boxes(batch, ordered)
        inside = np.zeros(len(vertex), dtype=np.bool_)
        for b in np.unique(in_body).tolist():
            rows = in_body == b
            inside[rows] = self._query(partial(points_inside, points=batch.x[vertex[rows]]), b)
        vertex, in_body = vertex[inside], in_body[inside]
        count, body = len(vertex), layout.body_of_vertex[vertex]
        involved, numbers = np.unique(np.concatenate([body, in_body]), return_inverse=True)
        states = []
        for b in involved.tolist():
            if b not in layout.states:
                state = state_of(batch.surfaces[b])
                is_edited = batch.surfaces[b].positions.edits != layout.edits[b]
                layout.states[b] = state_of(batch.frozen(b)) if is_edited else state
            x = batch.x[layout.vertex_start[b] : layout.vertex_start[b + 1]]
            states.append(layout.states[b]._replace(positions=x, version=batch.version(b)))
        found = VertexContacts(
            body=numbers[:count].astype(np.int32),
            vertex=(vertex - layout.vertex_start[body]).astype(np.int32),
            in_body=numbers[count:].astype(np.int32),
            tet=np.full(count, -1, dtype=np.int32),
            barycentric=np.zeros((count, 4)),
            is_self=np.zeros(count, dtype=np.bool_),
        )
        depth, direction = consistent_depth(states, found)
        exit_id, ends = np.zeros(count, dtype=np.int32), batch.x[vertex] + depth[:, None] * direction
        for b in np.unique(in_body).tolist():
            rows = in_body == b
            exit_id[rows] = self._query(partial(closest_points, points=ends[rows], inside=False), b).triangle
        return vertex, in_body, exit_id, depth, direction

    # triangles --------------------------------------------------------------------------------------------

    def triangles(self, pairs: Ids, stats: Stats) -> tuple[Ints, NDArray[np.int8]]:
        """Rows of triangles that meet, of pairs of bodies that are not separated, shape (k, 2), sorted; their kinds."""
        is_small, (a, b) = self.batch.layout.is_small, pairs.T
        by_kernel = is_small[a] & is_small[b] & self.batch.is_in_range
        parts = [(np.zeros((0, 2), dtype=np.int32), np.zeros(0, dtype=np.int8))]
        if by_kernel.any():
            parts = [batch_queries.batch_pairs(self.batch, pairs[by_kernel], stats)]
        parts += [self._triangles_by_tree(*pair) for pair in pairs[~by_kernel].tolist()]
        if len(parts) == 1:
            return parts[0]
        rows, kind = (np.concatenate(column) for column in zip(*parts))
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        return rows[order], kind[order]

    def _triangles_by_tree(self, *pair: int) -> tuple[Ints, NDArray[np.int8]]:
        """As ``triangles``, of one pair, or of one body with itself, by its detector."""
        surfaces = [self.batch.surfaces[b] for b in pair]
        tree = self._detector(BoxTree, pair[0], pair[-1], partial(BoxTree, *surfaces))
        found = self._query(lambda *bodies: (tree if list(bodies) == surfaces else BoxTree(*bodies)).query(), *pair)
        rows = [self.batch.layout.rows_of(b, ids) for b, ids in zip((pair[0], pair[-1]), found.pairs.T)]
        return np.stack(rows, axis=1).astype(np.int32), found.kind

    def _curves(self, pairs: Ids, stats: Stats) -> list[Columns]:
        """Triangles that meet, without depths."""
        return [self._curve_rows(*self.triangles(pairs, stats))]

    def _curve_rows(self, rows: Ints, kind: NDArray[np.int8]) -> Columns:
        layout, surface = self.batch.layout, (self.batch.x, self.batch.layout.faces)
        a, b = layout.body_of_face[rows[:, 0]], layout.body_of_face[rows[:, 1]]
        met = np.zeros(len(self.batch.surfaces), dtype=np.bool_)
        met[a] = met[b] = True
        oriented = met.copy()
        oriented[met] = [self.batch.surfaces[body].adjacency.is_oriented for body in np.flatnonzero(met)]
        of_met = np.flatnonzero(met[layout.body_of_face])
        sign = outward_signs(self.batch.x, layout.faces[of_met], layout.body_of_face[of_met], oriented)
        outward = np.stack([sign[a], sign[b]], axis=1)
        return curve_rows(a, b, rows, kind, *surface, *surface, outward, layout.face_id[rows])

    # surfaces and detectors -------------------------------------------------------------------------------

    def _detector(
        self, kind: type[Detector], a: int, b: int, make: Callable[[], Detector], exact: bool = False
    ) -> Detector:
        """The detector of a pair of bodies; ``make()`` builds it at the first call."""
        key = (kind, a, b, exact)
        if key not in self._detectors:
            self._detectors[key] = make()
        detector: Detector = self._detectors[key]
        return detector

    def _query(self, query: Callable[..., Answer], *bodies: int) -> Answer:
        """The result of ``query`` on surfaces at the positions of the batch; on copies if one has changed since."""
        batch = self.batch
        surfaces, versions = [batch.surfaces[b] for b in bodies], [batch.version(b) for b in bodies]
        if [surface.positions.version for surface in surfaces] == versions:
            answer = query(*surfaces)
            if [surface.positions.version for surface in surfaces] == versions:
                return answer
        return query(*(batch.frozen(b) for b in bodies))


def _sphere_tree(a: Any, b: Any, exact: bool) -> SphereTree:
    """A detector whose trees are built, outside of any budget."""
    detector = SphereTree(a, b, exact=exact)
    detector.prepare()
    return detector
