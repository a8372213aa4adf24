"""Contacts that part bodies that cross: at the start, where scripted bodies leave no room, or a body with itself.

Depths   Vertices inside another, closed body are led out of it, by regions with one direction each, kept until the
         bodies are free (``respond.crossings``). Each is pushed by its depth plus the contact distance, as vertices of
         ``response="vertices"`` are.
Curves   Of sheets, of a body with itself, and where no vertex is inside, each curve of intersection is one contact: its
         length over the rate at which a relative motion in one direction shortens it is the depth, and its gradient
         over that rate the Jacobian. Of a spike through a sheet, that is the height of the spike. The contact distance
         is added as well: the last part of a curve does not stop.
Touching Sheets that lie in each other have neither: their vertices leave along the normals.
Within   Bodies inside one another, without triangles that meet, have depths alone.
Speed    All of the depth is withheld when a contact is new, and returns at a limited speed (``respond.contact_forces``:
         release). Kinetic energy of parting is that of this speed, about.
Verified Motion elsewhere is verified: away from the places where they cross, bodies that are being parted do not begin
         to cross.
End      A pair is free once no triangles meet and neither body is inside the other, by the exact test. From then on,
         all of its motion is verified: it stays free.

Source: [VolinoMagnenatThalmann2006] for the curves; there, positions are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from impinge.checks import NONE, Bools, Floats, Ints
from impinge.contact.contacts import ContactKind, contact_ids
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import TrianglePairs
from impinge.mesh.tri_mesh import TriMesh
from impinge.respond.contact_forces import ContactConstraints
from impinge.respond.crossings import CrossingCurves, Exit, Exits, crossing_curves, touching_exits
from impinge.simulate.pair_scheduler import Pair
from impinge.simulate.search.constraints import Ids, concatenate, no_constraints
from impinge.simulate.search.searches import (
    SearchContext,
    VertexRows,
    gradient_jacobians,
    no_vertices,
    vertex_constraints,
)

RELEASE = 20.0
"""Rate at which withheld depths return [1 / s]: the last tenth of a depth takes a tenth of a second."""

RINGS = 4.0
"""Edges that are added to the length of a curve, for the area that is pushed: the last part carries a load, too."""
SPREAD = 0.1
"""Least rate of a curve by a motion in one direction that measures its depth, relative to that by the best motion of
each end."""


class Parting:
    """Contacts of pairs of bodies that cross; the directions of their regions persist between calls."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._surfaces = [context.world.surface(body.name) for body in context.bodies]
        self._trees: dict[Pair, BoxTree] = {}
        self._exits: dict[Pair, Exit] = {}
        self._open: dict[Pair, tuple[Sequence[Bools], Sequence[Bools]]] = {}
        """Vertices inside the other body, and those of triangles that cross and next to these, of both bodies."""

    def constraints(self, pairs: Iterable[Pair], distances: Callable[[Ids, Ids], Floats]) -> ContactConstraints:
        """Return contacts of the given pairs of bodies, i <= j; a body with itself is (i, i).

        ``distances`` gives the contact distance of pairs of bodies.
        """
        chosen = sorted(pairs)
        self._exits = {pair: self._exits[pair] for pair in chosen if pair in self._exits}
        self._open.clear()
        made = list[ContactConstraints]()
        for i, j in chosen:
            made += self._of_pair(i, j, float(distances(np.array([i]), np.array([j]))[0]))
        return concatenate([no_constraints(), *made])

    def is_new(self, i: int, j: int, vertices: Ints, split: Ids) -> Bools:
        """Which impacts are away from the places where two bodies cross.

        Others belong to the parting: one of their vertices is inside the other body, or both sides are next to
        triangles that cross. ``split`` is the number of vertices on the first side.
        """
        if (i, j) not in self._open:
            return np.zeros(len(vertices), dtype=np.bool_)
        inside, near = self._open[i, j]
        on_a = np.arange(4) < split[:, None]
        of_a, of_b = np.where(on_a, vertices, vertices[:, :1]), np.where(on_a, vertices[:, 3:], vertices)
        is_inside = inside[0][of_a].any(axis=1) | inside[1][of_b].any(axis=1)
        return np.asarray(~(is_inside | (near[0][of_a].any(axis=1) & near[1][of_b].any(axis=1))))

    def _of_pair(self, i: int, j: int, distance: float) -> Sequence[ContactConstraints]:
        a, b = self._surfaces[i], self._surfaces[j]
        if (i, j) not in self._trees:
            self._trees[i, j] = BoxTree(a, None if i == j else b)
        met = self._trees[i, j].query()
        made, inside = list[ContactConstraints](), [np.zeros(len(each.vertices), dtype=np.bool_) for each in (a, b)]
        if i != j:
            if (i, j) not in self._exits:
                self._exits[i, j] = Exit(a, b)
            found = self._exits[i, j].find(met.pairs)
            rows = [self._vertices(*numbers, part, distance) for numbers, part in zip(((i, j), (j, i)), found)]
            joined = VertexRows(*(np.concatenate(columns) for columns in zip(*rows)))
            if len(joined.vertex):
                rows_of = vertex_constraints(self._context, joined)
                made.append(replace(rows_of, release=np.full(len(rows_of), RELEASE)))
            for own, part in zip(inside, found):
                own[part.vertex] = True
        self._open[i, j] = inside, [_around(a, met.pairs[:, 0]), _around(b, met.pairs[:, 1])]
        if i == j:
            both = self._open[i, j][1][0] | self._open[i, j][1][1]
            self._open[i, j] = inside, [both, both]
        curves = self._curves_without(inside, i, j, met)
        if len(curves.length):
            made.append(self._shorter(i, j, curves, distance))
        if i != j and not made and len(met):
            rows_of = vertex_constraints(self._context, self._vertices(i, j, touching_exits(a, b, met.pairs), distance))
            made.append(replace(rows_of, release=np.full(len(rows_of), RELEASE)))
        return made

    def _vertices(self, inner: int, outer: int, found: Exits, distance: float) -> VertexRows:
        """Vertices of one body inside another; ``distance`` is added to depths."""
        count = len(found.vertex)
        if not count:
            return no_vertices()
        return VertexRows(
            np.full(count, inner), np.full(count, outer), found.vertex,
            self._context.bodies[inner].area[found.vertex], np.full(count, NONE), found.corners, found.weights,
            found.outward, found.depth + distance,
        )  # fmt: skip

    def _curves_without(self, inside: Sequence[np.ndarray], i: int, j: int, met: TrianglePairs) -> CrossingCurves:
        """Curves none of whose triangles has a vertex in the other body."""
        a, b = self._surfaces[i], self._surfaces[j]
        curves = crossing_curves(a, b, met)
        has_depth = np.zeros(len(curves.length), dtype=np.bool_)
        is_led = inside[0][a.faces[curves.pairs[:, 0]]].any(axis=1) | inside[1][b.faces[curves.pairs[:, 1]]].any(axis=1)
        has_depth[curves.curve[is_led]] = True
        is_sheet = i == j or not (a.is_closed and b.is_closed)
        kept = np.arange(len(has_depth)) if is_sheet else np.flatnonzero(~has_depth)
        kept = kept[np.argsort(-curves.length[kept], kind="stable")]  # the first number is that of the longest
        return curves._replace(
            length=curves.length[kept], gradient_a=curves.gradient_a[kept], gradient_b=curves.gradient_b[kept],
            scale=curves.scale[kept],
        )  # fmt: skip

    def _edge(self, i: int, j: int) -> float:
        """The width of the strip along a curve that is pushed: the shorter mean length of edges."""
        found = list[float]()
        for surface in (self._surfaces[i], self._surfaces[j]):
            x = surface.vertices[surface.adjacency.edges]
            found.append(float(np.linalg.norm(x[:, 0] - x[:, 1], axis=1).mean()))
        return min(found)

    def _shorter(self, i: int, j: int, curves: CrossingCurves, distance: float) -> ContactConstraints:
        """One contact for each curve."""
        context, count = self._context, len(curves.length)
        net = curves.gradient_a @ np.tile(np.eye(3), (len(self._surfaces[i].vertices), 1))
        unit = 1.0 / np.maximum(np.linalg.norm(net, axis=1), SPREAD * curves.scale)
        gradients = [csr_array(part.multiply(unit[:, None])) for part in (curves.gradient_a, curves.gradient_b)]
        bodies = context.bodies[i], context.bodies[j]
        jacobian, slip, rate, drive, _ = gradient_jacobians(bodies, gradients, context.coarse_count)
        on_a = net * unit[:, None]
        size = np.linalg.norm(on_a, axis=1)
        normal = np.where(size[:, None] > 0.0, on_a / np.where(size > 0.0, size, 1.0)[:, None], (0.0, 0.0, 1.0))
        depth, edge = curves.length * unit + distance, self._edge(i, j)
        hardness = float(context.hardness(i, j))
        if context.is_cloth[i] != context.is_cloth[j]:
            hardness = float(context.harder(i, j))
        numbers = np.arange(count, dtype=np.int32)
        key_a, key_b = (np.repeat(context.keys([number]), count) for number in (i, j))
        return ContactConstraints(
            normal_jacobian=jacobian, slip_jacobian=slip, normal=normal, depth=depth, rate=rate, drive=drive,
            stiffness=hardness * (curves.length + RINGS * edge) * edge,
            relax=np.full(count, float(context.relax(i, j))),
            scale=size, release=np.full(count, RELEASE), volumetric=np.zeros(count, dtype=np.bool_),
            key=contact_ids(key_a, key_b, np.full(count, ContactKind.CURVE, dtype=np.int8), numbers, numbers),
            body_a=np.full(count, i), body_b=np.full(count, j), wall=np.full(count, np.inf),
        )  # fmt: skip


def _around(surface: TriMesh, triangles: Ints) -> Bools:
    """Vertices of triangles, and their neighbours."""
    found = np.zeros(len(surface.vertices), dtype=np.bool_)
    found[surface.faces[triangles]] = True
    edges = surface.adjacency.edges
    near = edges[found[edges].any(axis=1)]
    found[near] = True
    return found
