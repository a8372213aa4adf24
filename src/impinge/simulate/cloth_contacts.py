"""Contacts of cloth, as rows: a sheet has no inside, so that it is kept at a distance instead of being pushed out.

Itself      Vertices and faces, and edges and edges, that are nearer than the thickness push each other along the line
            between their nearest points (``detect.proximity``; [Bridson2002], 6, with springs). Those that share a
            vertex do not count. Two sheets do the same, with the mean of their thicknesses.
Bodies      Vertices of the sheet that are nearer to a closed body than half of the thickness, or inside it, are pushed
            out along the line to its nearest point, as hard as the harder of both, since heavy bodies may lie on light
            cloth. An open body is met as if it were a sheet of no thickness, and
            from the ground it stays half of the thickness too. Things that just meet part across the surface.

Pairs are listed up to ``AHEAD`` times as far, so that those that come near before the next search are felt in time.

Limits      Sharp corners of a body may poke through between the vertices of a sheet. A sheet that has passed through
            another one is not brought back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.contact.contacts import ContactKind, contact_ids
from impinge.detect.common.nearest_results import Proximity
from impinge.queries import closest_points, proximity
from impinge.respond.contact_forces import ContactRows
from impinge.simulate.constraints import Side, rows_of_points
from impinge.simulate.searches import Bodies
from impinge.simulate.simulated_bodies import Part, is_sheet, thickness

AHEAD = 2.0
"""Pairs this many times farther apart than they may be are listed."""

Ids = NDArray[np.int64]


def sheet_rows(bodies: Bodies) -> list[ContactRows]:
    """Contacts of all cloth with itself, with each other and with bodies."""
    sheets = [part for part in bodies.parts if is_sheet(part)]
    if not sheets:
        return []
    margin = max(AHEAD * thickness(part) for part in sheets)
    pairs = [(part.number, part.number) for part in sheets if not bodies.world.ignores(part.name, part.name)]
    pairs += [(a, b) for a, b in bodies.world.near_pairs(margin=margin).tolist() if bodies.is_sheet[[a, b]].any()]
    rows = [_pair(bodies, bodies.parts[a], bodies.parts[b]) for a, b in bodies.turns.in_turn(pairs, bodies.triangles)]
    return [row for row in rows if len(row)]


def _pair(bodies: Bodies, a: Part, b: Part) -> ContactRows:
    sheet, other = (a, b) if is_sheet(a) else (b, a)
    closed = not is_sheet(other) and bodies.world.surface(other.name).is_closed
    return _on_body(bodies, sheet, other) if closed else _two_sheets(bodies, sheet, other)


def _two_sheets(bodies: Bodies, a: Part, b: Part) -> ContactRows:
    """Near features of two sheets, or of one with itself."""
    apart = 0.5 * (thickness(a) + thickness(b))
    surfaces = bodies.world.surface(a.name), bodies.world.surface(b.name)
    found = proximity(surfaces[0], None if a is b else surfaces[1], margin=AHEAD * apart)
    x = surfaces[0].vertices, surfaces[1].vertices
    vertices, weights, kind = _features(found, surfaces)
    side_a, side_b = vertices[:, :3].astype(np.int64), vertices[:, 3:].astype(np.int64)
    weight_a, weight_b = weights[:, :3], weights[:, 3:]
    way = (weight_b[:, :, None] * x[1][side_b]).sum(axis=1) - (weight_a[:, :, None] * x[0][side_a]).sum(axis=1)
    distance, rows = np.linalg.norm(way, axis=1), np.arange(len(way))
    facing = (weight_b[:, :, None] * _vertex_normals(surfaces[1])[side_b]).sum(axis=1)
    way = _directions(way, facing)
    area = np.minimum((weight_a * a.area[side_a]).sum(axis=1), (weight_b * b.area[side_b]).sum(axis=1))
    first = ((kind * len(x[0]) + side_a[:, 2]) * len(x[0]) + side_a[:, 1]) * len(x[0]) + side_a[:, 0]
    second = (side_b[:, 2] * len(x[1]) + side_b[:, 1]) * len(x[1]) + side_b[:, 0]
    return rows_of_points(
        [_side(a, rows, side_a, weight_a), _side(b, rows, side_b, -weight_b)],
        normal=way, depth=apart - distance,
        stiffness=bodies.hardness(a.number, b.number) * area,
        relax=np.full(len(rows), bodies.relax(a.number, b.number)),
        key=_keys(bodies, a, b, first, second),
        body_a=np.full(len(rows), a.number), body_b=np.full(len(rows), b.number),
    )  # fmt: skip


def _features(found: Proximity, surfaces: tuple[Any, Any]) -> tuple[Ids, Floats, Ids]:
    """Three vertices and weights on each side, some of weight 0, shape (k, 6); and which sort of pair it is."""
    faces_a, faces_b = surfaces[0].faces, surfaces[1].faces
    lone = np.array([1.0, 0.0, 0.0])

    def thrice(ids: Any) -> Any:
        return np.repeat(np.asarray(ids)[:, None], 3, axis=1)

    def both(edges: Any) -> Any:
        return edges[:, [0, 1, 1]]

    def along(share: Any) -> Floats:
        return np.stack([1.0 - share, share, np.zeros(len(share))], axis=1)

    vf, fv, ee = found.vertex_face, found.face_vertex, found.edge_edge
    vertices = np.concatenate([
        np.concatenate([thrice(vf[:, 0]), faces_b[vf[:, 1]]], axis=1),
        np.concatenate([faces_a[fv[:, 0]], thrice(fv[:, 1])], axis=1),
        np.concatenate([both(found.edges_a[ee[:, 0]]), both(found.edges_b[ee[:, 1]])], axis=1),
    ])  # fmt: skip
    weights = np.concatenate([
        np.concatenate([np.tile(lone, (len(vf), 1)), found.vertex_face_weights], axis=1),
        np.concatenate([found.face_vertex_weights, np.tile(lone, (len(fv), 1))], axis=1),
        np.concatenate([along(found.edge_edge_weights[:, 0]), along(found.edge_edge_weights[:, 1])], axis=1),
    ])  # fmt: skip
    return vertices.astype(np.int64), weights, np.repeat(np.arange(3), [len(vf), len(fv), len(ee)])


def _on_body(bodies: Bodies, sheet: Part, other: Part) -> ContactRows:
    """Vertices of a sheet near a closed body, or in it."""
    apart = 0.5 * thickness(sheet)
    surface, body = bodies.world.surface(sheet.name), bodies.world.surface(other.name)
    low, high = body.bounds
    reach = AHEAD * apart
    near = ((surface.vertices >= low - reach) & (surface.vertices <= high + reach)).all(axis=1)
    vertex = np.flatnonzero(near)
    found = closest_points(body, surface.vertices[vertex])
    sign = np.where(np.asarray(found.inside), -1.0, 1.0)
    signed = sign * found.distance
    some = signed < reach
    vertex, signed, sign = vertex[some], signed[some], sign[some]
    corners = body.faces[found.triangle[some]].astype(np.int64)
    way = _directions(sign[:, None] * (found.point[some] - surface.vertices[vertex]), -_normals(body.vertices[corners]))
    rows = np.arange(len(vertex))
    return rows_of_points(
        [Side(sheet, rows, vertex, np.ones(len(rows))), _side(other, rows, corners, -found.barycentric[some])],
        normal=way, depth=apart - signed,
        stiffness=bodies.hardness_on(sheet.number, other.number) * sheet.area[vertex],
        relax=np.full(len(rows), bodies.relax(sheet.number, other.number)),
        key=_keys(bodies, sheet, other, vertex, np.zeros_like(vertex)),
        body_a=np.full(len(rows), sheet.number), body_b=np.full(len(rows), other.number),
    )  # fmt: skip


def _directions(way: Floats, instead: Floats) -> Floats:
    """Unit vectors; where there is no way, since things just meet, those of ``instead``, or upwards."""
    for other in (instead, np.broadcast_to([0.0, 0.0, 1.0], way.shape)):
        way = np.where((way == 0.0).all(axis=1, keepdims=True), other, way)
    return np.asarray(way / np.linalg.norm(way, axis=1, keepdims=True))


def _normals(corner: Floats) -> Any:
    return np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def _vertex_normals(surface: Any) -> Floats:
    """Sums of the normals of the triangles around each vertex, shape (n, 3)."""
    each, total = _normals(surface.vertices[surface.faces]), np.zeros(surface.vertices.shape)
    np.add.at(total, surface.faces.reshape(-1), np.repeat(each, 3, axis=0))
    return total


def _side(part: Part, rows: Ids, vertices: Ids, weights: Floats) -> Side:
    """Several vertices for each contact, those of weight 0 left out."""
    counts = weights != 0.0
    return Side(part, np.repeat(rows, counts.sum(axis=1)), vertices[counts], weights[counts])


def _keys(bodies: Bodies, a: Part, b: Part, first: Ids, second: Ids) -> Ids:
    """The same while the same features are near."""
    key_a, key_b = (np.repeat(bodies.keys([part.number]), len(first)) for part in (a, b))
    kind = np.full(len(first), ContactKind.CURVE, dtype=np.int8)
    return contact_ids(key_a, key_b, kind, first, second)  # type: ignore[arg-type]  # wider numbers do as well
