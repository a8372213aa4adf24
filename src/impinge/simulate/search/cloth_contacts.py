"""Contact constraints of cloth. Cloth has no interior: contacts keep a distance instead of resolving penetration.

Cloth-cloth  Vertex-face and edge-edge pairs closer than the thickness push each other along the line between their
             closest points (``detect.proximity``; [Bridson2002], section 6, with springs). Pairs that share a vertex
             are excluded. Two cloths keep the mean of their thicknesses; a cloth keeps its thickness from itself.
Cloth-body   Vertices of the cloth closer to a closed body than half the thickness, or inside it, are pushed out along
             the line to the closest point. The stiffness is the larger one of both bodies, because heavy bodies may
             rest on light cloth. An open body counts as cloth of zero thickness. The ground is kept at half the
             thickness as well. Features at zero distance separate along the surface normal.

Pairs are listed up to ``AHEAD`` times the contact distance: pairs that close in before the next search are included.

Limits       Sharp corners of a body may pass between the vertices of a cloth. A cloth that has passed through another
             one is not brought back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.contact.contacts import ContactKind, contact_ids
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.proximity.closest_points import closest_points
from impinge.detect.proximity.proximity import proximity
from impinge.respond.contact_forces import ContactConstraints
from impinge.simulate.search.constraints import ContactSide, Touching, point_constraints
from impinge.simulate.search.searches import SearchContext
from impinge.simulate.simulated_bodies import SimulatedBody, is_cloth, thickness

AHEAD = 2.0
"""Distance up to which pairs are listed, relative to the contact distance."""

Ids = NDArray[np.int64]
_KINDS = np.array([ContactKind.VERTEX_A, ContactKind.VERTEX_B, ContactKind.EDGES], dtype=np.int8)
"""Of vertex-face, face-vertex and edge-edge pairs."""


def cloth_constraints(context: SearchContext) -> list[ContactConstraints]:
    """Return contacts of all cloth with itself, with other cloth and with bodies."""
    cloths = [body for body in context.bodies if is_cloth(body)]
    if not cloths:
        return []
    margin = max(AHEAD * thickness(body) for body in cloths)
    pairs = [(body.number, body.number) for body in cloths if not context.world.ignores(body.name, body.name)]
    pairs += [(a, b) for a, b in context.world.near_pairs(margin=margin).tolist() if context.is_cloth[[a, b]].any()]
    found = []
    for i, j in context.scheduler.schedule(pairs, context.triangles):
        a, b = context.bodies[i], context.bodies[j]
        cloth, other = (a, b) if is_cloth(a) else (b, a)
        closed = not is_cloth(other) and context.world.surface(other.name).is_closed
        found.append(_cloth_body(context, cloth, other) if closed else _cloth_cloth(context, cloth, other))
    return [each for each in found if len(each)]


def _cloth_cloth(context: SearchContext, a: SimulatedBody, b: SimulatedBody) -> ContactConstraints:
    """Return contacts of close features of two cloths, or of one with itself."""
    apart = 0.5 * (thickness(a) + thickness(b))
    surfaces = context.world.surface(a.name), context.world.surface(b.name)
    found = proximity(surfaces[0], None if a is b else surfaces[1], margin=AHEAD * apart)
    x = surfaces[0].vertices, surfaces[1].vertices
    vertices, weights, kind = _features(found, surfaces)
    side_a, side_b = vertices[:, :3].astype(np.int64), vertices[:, 3:].astype(np.int64)
    weight_a, weight_b = weights[:, :3], weights[:, 3:]
    direction = (weight_b[:, :, None] * x[1][side_b]).sum(axis=1) - (weight_a[:, :, None] * x[0][side_a]).sum(axis=1)
    distance, rows = np.linalg.norm(direction, axis=1), np.arange(len(direction))
    fallback = (weight_b[:, :, None] * _vertex_normals(surfaces[1])[side_b]).sum(axis=1)
    direction = _unit_vectors(direction, fallback)
    area = np.minimum((weight_a * a.area[side_a]).sum(axis=1), (weight_b * b.area[side_b]).sum(axis=1))
    first = ((kind * len(x[0]) + side_a[:, 2]) * len(x[0]) + side_a[:, 1]) * len(x[0]) + side_a[:, 0]
    second = (side_b[:, 2] * len(x[1]) + side_b[:, 1]) * len(x[1]) + side_b[:, 0]
    feature_a, feature_b = _feature_ids(found)
    touching = Touching(_KINDS[kind], feature_a, feature_b, area, layer=apart)
    return point_constraints(
        [_side(a, rows, side_a, weight_a), _side(b, rows, side_b, -weight_b)],
        normal=direction, depth=apart - distance,
        stiffness=context.hardness(a.number, b.number) * area,
        relax=np.full(len(rows), context.relax(a.number, b.number)),
        key=_keys(context, a, b, first, second),
        body_a=np.full(len(rows), a.number), body_b=np.full(len(rows), b.number), touching=touching,
    )  # fmt: skip


def _feature_ids(found: Proximity) -> list[Ids]:
    """Vertex, face or edge of each side, in the order of ``_features``."""
    return [
        np.concatenate([found.vertex_face[:, k], found.face_vertex[:, k], found.edge_edge[:, k]]).astype(np.int64)
        for k in range(2)
    ]


def _features(found: Proximity, surfaces: tuple[Any, Any]) -> tuple[Ids, Floats, Ids]:
    """Return three vertices and weights per side, shape (k, 6), unused ones with weight 0; and the kind of pair."""
    faces_a, faces_b = surfaces[0].faces, surfaces[1].faces
    single = np.array([1.0, 0.0, 0.0])

    def repeated(ids: Any) -> Any:
        return np.repeat(np.asarray(ids)[:, None], 3, axis=1)

    def edge_vertices(edges: Any) -> Any:
        return edges[:, [0, 1, 1]]

    def edge_weights(share: Any) -> Floats:
        return np.stack([1.0 - share, share, np.zeros(len(share))], axis=1)

    vf, fv, ee = found.vertex_face, found.face_vertex, found.edge_edge
    vertices = np.concatenate([
        np.concatenate([repeated(vf[:, 0]), faces_b[vf[:, 1]]], axis=1),
        np.concatenate([faces_a[fv[:, 0]], repeated(fv[:, 1])], axis=1),
        np.concatenate([edge_vertices(found.edges_a[ee[:, 0]]), edge_vertices(found.edges_b[ee[:, 1]])], axis=1),
    ])  # fmt: skip
    weights = np.concatenate([
        np.concatenate([np.tile(single, (len(vf), 1)), found.vertex_face_weights], axis=1),
        np.concatenate([found.face_vertex_weights, np.tile(single, (len(fv), 1))], axis=1),
        np.concatenate([edge_weights(each) for each in found.edge_edge_weights.T], axis=1),
    ])  # fmt: skip
    return vertices.astype(np.int64), weights, np.repeat(np.arange(3), [len(vf), len(fv), len(ee)])


def _cloth_body(context: SearchContext, cloth: SimulatedBody, other: SimulatedBody) -> ContactConstraints:
    """Return contacts of cloth vertices near a closed body, or inside it."""
    apart = 0.5 * thickness(cloth)
    surface, body = context.world.surface(cloth.name), context.world.surface(other.name)
    low, high = body.bounds
    reach = AHEAD * apart
    near = ((surface.vertices >= low - reach) & (surface.vertices <= high + reach)).all(axis=1)
    vertex = np.flatnonzero(near)
    found = closest_points(body, surface.vertices[vertex])
    sign = np.where(np.asarray(found.inside), -1.0, 1.0)
    signed = sign * found.distance
    close = signed < reach
    vertex, signed, sign = vertex[close], signed[close], sign[close]
    corners = body.faces[found.triangle[close]].astype(np.int64)
    direction = _unit_vectors(
        sign[:, None] * (found.point[close] - surface.vertices[vertex]), -_normals(body.vertices[corners])
    )
    rows = np.arange(len(vertex))
    touching = Touching(
        ContactKind.VERTEX_A, vertex, found.triangle[close].astype(np.int64), cloth.area[vertex], layer=apart
    )
    return point_constraints(
        [ContactSide(cloth, rows, vertex, np.ones(len(rows))), _side(other, rows, corners, -found.barycentric[close])],
        normal=direction, depth=apart - signed,
        stiffness=context.cloth_hardness(cloth.number, other.number) * cloth.area[vertex],
        relax=np.full(len(rows), context.relax(cloth.number, other.number)),
        key=_keys(context, cloth, other, vertex, np.zeros_like(vertex)),
        body_a=np.full(len(rows), cloth.number), body_b=np.full(len(rows), other.number), touching=touching,
    )  # fmt: skip


def _unit_vectors(direction: Floats, fallback: Floats) -> Floats:
    """Normalise vectors; zero vectors become ``fallback``, or the z axis."""
    for other in (fallback, np.broadcast_to([0.0, 0.0, 1.0], direction.shape)):
        direction = np.where((direction == 0.0).all(axis=1, keepdims=True), other, direction)
    return np.asarray(direction / np.linalg.norm(direction, axis=1, keepdims=True))


def _normals(corner: Floats) -> Any:
    return np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def _vertex_normals(surface: Any) -> Floats:
    """Return the sum of the normals of the triangles around each vertex, shape (n, 3)."""
    each, total = _normals(surface.vertices[surface.faces]), np.zeros(surface.vertices.shape)
    np.add.at(total, surface.faces.reshape(-1), np.repeat(each, 3, axis=0))
    return total


def _side(body: SimulatedBody, rows: Ids, vertices: Ids, weights: Floats) -> ContactSide:
    """Return a contact side with several vertices per contact, without those of weight 0."""
    counts = weights != 0.0
    return ContactSide(body, np.repeat(rows, counts.sum(axis=1)), vertices[counts], weights[counts])


def _keys(context: SearchContext, a: SimulatedBody, b: SimulatedBody, first: Ids, second: Ids) -> Ids:
    """Keys that persist while the same features are close."""
    key_a, key_b = (np.repeat(context.keys([body.number]), len(first)) for body in (a, b))
    kind = np.full(len(first), ContactKind.CURVE, dtype=np.int8)
    return contact_ids(key_a, key_b, kind, first, second)  # type: ignore[arg-type]  # int64 features are hashed alike
