"""Record of the contacts of a frame: the forces of all its steps, and where they act.

Step        Impulses of all contacts that carry force, with point, gap and features at the end of the step, and the
            torques about the centres of mass there, which change the spins of bodies: those of the forces on coarse
            vertices. A scripted body receives the opposite of what acts on the other one, about the centre of its
            volume, of an open body about the mean of its vertices.
Frame       Contacts of one id become one row: impulses are summed, everything else is that of the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.contact.contacts import ContactKind
from impinge.mesh.tri_mesh import TriMesh
from impinge.respond.contact_forces import ContactFeatures, ContactForces, unknown_features
from impinge.simulate import contact_record_kernels as kernels
from impinge.simulate.contact.pairs import hashed
from impinge.simulate.simulated_bodies import DynamicBody, ScriptedBody, SimulatedBody
from impinge.simulate.simulated_contacts import ContactVertices, SimulatedContacts

Ids = NDArray[np.int64]
COVERED = 0.99
"""Surface around the vertices of a contact, relative to its area, from which it is not spread."""
OF_FEATURES = (ContactKind.VERTEX_A, ContactKind.VERTEX_B, ContactKind.EDGES)
"""Contacts that stand for the surface around vertices, of which only the part that faces the contact counts."""


class ContactRows(NamedTuple):
    """Contacts as arrays; ``SimulatedContacts`` describes them. Forces are impulses while a frame is recorded."""

    body_a: Ids
    body_b: Ids
    kind: NDArray[np.int8]
    feature_a: Ids
    feature_b: Ids
    id: Ids
    point: Floats
    normal_force: Floats
    """As vectors, shape (k, 3)."""
    friction_force: Floats
    normal: Floats
    """Where the normal force vanishes."""
    gap: Floats
    area: Floats
    sticking: NDArray[np.bool_]
    vertices: ContactVertices

    def take(self, ids: Ids) -> ContactRows:
        """Return the rows ``ids``."""
        columns = {name: getattr(self, name)[ids] for name in self._fields if name != "vertices"}
        return ContactRows(**columns, vertices=self.vertices.rows(ids))


class ContactRecord:
    """Contacts of one frame."""

    def __init__(self, bodies: Sequence[SimulatedBody], masses: Floats) -> None:
        self._bodies, self._masses = bodies, masses
        dynamic = [body.rows if isinstance(body, DynamicBody) else slice(0, 0) for body in bodies]
        self._first = np.array([rows.start for rows in dynamic], dtype=np.int64)
        self._stop = np.array([rows.stop for rows in dynamic], dtype=np.int64)
        self._steps = list[ContactRows]()
        self._torque = np.zeros((len(bodies), 3))

    def add(self, forces: ContactForces, features: ContactFeatures | None, x: Floats, dx: Floats, since: float) -> None:
        """Add the contacts of a search at the end of its last step.

        Surfaces and coarse vertices ``x`` are where they are then, ``dx`` and ``since`` the displacement and the time
        since the search.
        """
        constraints = forces.constraints
        rows = np.flatnonzero((forces.normal_impulse > 0.0) | (forces.friction_impulse != 0.0).any(axis=1))
        if not len(rows):
            return
        features = unknown_features(len(constraints)) if features is None else features
        kernels.add_torques(
            rows, constraints.normal_jacobian, constraints.slip_jacobian, forces.normal_impulse,
            forces.friction_impulse, constraints.body_a, constraints.body_b, self._first, self._stop, self._masses, x,
            self._centres(np.append(constraints.body_a[rows], constraints.body_b[rows])), self._torque,
        )  # fmt: skip
        features, normal = features.rows(rows), constraints.normal[rows]
        body_a, body_b, scale = constraints.body_a[rows], constraints.body_b[rows], constraints.scale[rows]
        depth = forces.depths(dx, since)[rows]
        depth = np.where(constraints.volumetric[rows], depth / np.where(scale > 0.0, scale, 1.0), depth)
        pushed, rubbed = (forces.normal_impulse[rows] * scale)[:, None] * normal, forces.friction_impulse[rows]
        gap = features.layer - depth
        vertices, point, facing = self._measure(features, body_a, body_b, normal, gap)
        area = np.where(np.isin(features.kind, OF_FEATURES), facing, 1.0) * features.area
        self._steps.append(
            ContactRows(
                body_a, body_b, features.kind, features.feature_a, features.feature_b,
                distinct_ids(constraints.key[rows]), point, pushed, rubbed, normal, gap, area,
                forces.is_sticking[rows], vertices,
            )
        )  # fmt: skip

    def _measure(
        self, features: ContactFeatures, body_a: Ids, body_b: Ids, normal: Floats, gap: Floats
    ) -> tuple[ContactVertices, Floats, Floats]:
        """Vertices with areas, points of contact, and the share of the surface that faces each contact."""
        count, (start, vertex, weight) = len(body_a), features.vertices
        row = np.repeat(np.arange(count), np.diff(start))
        number = np.where(weight > 0.0, body_a[row], body_b[row])
        at, area, around = self._areas(row, vertex, number, normal)
        point, share = np.zeros((count, 3)), np.zeros(count)
        kernels.find_points(start, weight, at, area, around, normal, gap, point, share)
        spread = self._spread(row, vertex, weight, number, normal, features.area)
        if spread is not None:
            row, vertex, weight = spread
            start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
            number = np.where(weight > 0.0, body_a[row], body_b[row])
            area = self._areas(row, vertex, number, normal)[1]
        return ContactVertices(start, vertex, weight, area), point, share

    def _areas(self, row: Ids, vertex: Ids, number: Ids, normal: Floats) -> tuple[Floats, Floats, Floats]:
        """Places of vertices, the surface around them that faces their contacts, and all of it."""
        at, area, around = np.zeros((len(row), 3)), np.zeros(len(row)), np.zeros(len(row))
        by_body = np.lexsort((vertex, number))
        ends = np.flatnonzero(np.diff(number[by_body])) + 1
        for own in np.split(by_body, ends) if len(row) else []:
            surface = surface_of(self._bodies[number[own[0]]])
            adjacency = surface.adjacency
            kernels.find_facing_areas(
                own, vertex, row, normal, surface.vertices, adjacency.faces, *adjacency.vertex_tri, at, area, around
            )
        return at, area, around

    def _spread(
        self, row: Ids, vertex: Ids, weight: Floats, number: Ids, normal: Floats, area: Floats
    ) -> tuple[Ids, Ids, Floats] | None:
        """Entries of contacts that stand for more surface than that of their vertices; None if there are none.

        Of dense bodies, a search keeps one contact of a coarse group for the area of several: it acts on the vertices
        of the group within a disc of that area, by the surface around each that faces it.
        """
        keep, more = np.ones(len(row), dtype=np.bool_), list[tuple[Ids, Ids, Floats]]()
        for each in np.unique(number).tolist():
            body = self._bodies[each]
            if not isinstance(body, DynamicBody) or not body.is_dense:
                continue
            own = np.flatnonzero(number == each)
            slot, side = np.unique(2 * row[own] + (weight[own] < 0.0), return_inverse=True)
            is_thin = np.bincount(side, body.area[vertex[own]]) < COVERED * area[slot // 2]
            if not is_thin.any():
                continue
            largest = own[np.lexsort((np.abs(weight[own]), side))]
            seed = vertex[largest[np.cumsum(np.bincount(side)) - 1]][is_thin]
            start, members = body.group_members
            capacity = int((start[body.coarse_group[seed] + 1] - start[body.coarse_group[seed]]).sum())
            of_seed, found, share = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(capacity)
            surface, contact = surface_of(body), slot[is_thin] // 2
            count = kernels.spread(
                seed, normal[contact], area[contact], (body.coarse_group, start, members), surface.vertices,
                (surface.adjacency.faces, *surface.adjacency.vertex_tri), of_seed, found, share,
            )  # fmt: skip
            chosen = slot[is_thin][of_seed[:count]]
            keep[own[is_thin[side]]] = False
            more.append((chosen // 2, found[:count], np.where(chosen % 2 == 0, 1.0, -1.0) * share[:count]))
        if not more:
            return None
        rows, vertices, weights = (
            np.concatenate(columns) for columns in zip((row[keep], vertex[keep], weight[keep]), *more)
        )
        order = np.argsort(rows, kind="stable")
        return rows[order], vertices[order], weights[order]

    def _centres(self, numbers: Ids) -> Floats:
        """Centres of the scripted bodies among ``numbers``, by number, shape (n, 3)."""
        centres = np.zeros((len(self._bodies), 3))
        for number in np.unique(numbers[numbers >= 0]).tolist():
            body = self._bodies[number]
            if isinstance(body, ScriptedBody):
                centres[number] = body.centre
        return centres

    def forces(self, dt: float) -> tuple[ContactRows, Floats]:
        """Contacts of the frame of length ``dt`` with mean forces, and mean torques on all bodies, (n, 3) [N m]."""
        if not self._steps:
            return no_rows(), self._torque
        rows = self._steps[0] if len(self._steps) == 1 else _merged(self._steps)
        rows = _in_order(rows)
        return (
            rows._replace(normal_force=rows.normal_force / dt, friction_force=rows.friction_force / dt),
            self._torque / dt,
        )


def surface_of(body: SimulatedBody) -> TriMesh:
    """The surface of a body."""
    return body.source.surface if isinstance(body, DynamicBody) else body.surface


def distinct_ids(key: Ids) -> Ids:
    """Ids of the contacts of one step: their keys, of several with one key hashed with their number."""
    order = np.argsort(key, kind="stable")
    begins = np.concatenate([[True], key[order][1:] != key[order][:-1]])
    if begins.all():
        return key
    first = np.flatnonzero(begins)
    nth = np.zeros(len(key), dtype=np.int64)
    nth[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    return np.where(nth > 0, hashed(key, nth), key)


def _merged(steps: Sequence[ContactRows]) -> ContactRows:
    """Join the contacts of several steps: impulses of one id are summed, the last step gives the rest."""
    vertices = [step.vertices for step in steps]
    first = np.concatenate([[0], np.cumsum([len(each.vertex) for each in vertices])])
    names = [name for name in ContactRows._fields if name != "vertices"]
    columns = {name: np.concatenate([getattr(step, name) for step in steps]) for name in names}
    joined = ContactVertices(
        np.concatenate([*(each.start[:-1] + begin for each, begin in zip(vertices, first)), first[-1:]]),
        *(np.concatenate([getattr(each, name) for each in vertices]) for name in ("vertex", "weight", "area")),
    )
    rows = ContactRows(**columns, vertices=joined)
    group = np.unique(rows.id, return_inverse=True)[1].reshape(-1)
    count = int(group.max()) + 1
    last = np.zeros(count, dtype=np.int64)
    last[group] = np.arange(len(group))  # of equal indices, NumPy keeps the last
    pushed, rubbed = (
        np.stack([np.bincount(group, column, count) for column in each.T], axis=1).astype(np.float64)
        for each in (rows.normal_force, rows.friction_force)
    )
    return rows.take(last)._replace(normal_force=pushed, friction_force=rubbed)


def _in_order(rows: ContactRows) -> ContactRows:
    """Put the body of the lower number first, and sort by bodies, kind and features."""
    turned = rows.body_a > rows.body_b
    if turned.any():
        sign = np.where(turned, -1.0, 1.0)
        swap = {
            one: np.where(turned, getattr(rows, other), getattr(rows, one))
            for a, b in (("body_a", "body_b"), ("feature_a", "feature_b"))
            for one, other in ((a, b), (b, a))
        }
        is_vertex = turned & ((rows.kind == ContactKind.VERTEX_A) | (rows.kind == ContactKind.VERTEX_B))
        kind = np.where(is_vertex, ContactKind.VERTEX_A + ContactKind.VERTEX_B - rows.kind, rows.kind).astype(np.int8)
        weight = np.repeat(sign, np.diff(rows.vertices.start)) * rows.vertices.weight
        rows = rows._replace(
            **swap, kind=kind, normal_force=sign[:, None] * rows.normal_force,
            friction_force=sign[:, None] * rows.friction_force, normal=sign[:, None] * rows.normal,
            vertices=rows.vertices._replace(weight=weight),
        )  # fmt: skip
    return rows.take(np.lexsort((rows.id, rows.feature_b, rows.feature_a, rows.kind, rows.body_b, rows.body_a)))


def no_rows() -> ContactRows:
    """Return an empty set."""
    none, numbers, vectors = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3))
    return ContactRows(
        none, none, none.astype(np.int8), none, none, none, vectors, vectors, vectors, vectors, numbers, numbers,
        none.astype(np.bool_), ContactVertices(np.zeros(1, dtype=np.int64), none, numbers, numbers),
    )  # fmt: skip


def simulated_contacts(
    rows: ContactRows, bodies: Sequence[SimulatedBody], dt: float, *, has_ground: bool, method: str, complete: bool
) -> SimulatedContacts:
    """Return the contacts of a frame of length ``dt``."""
    size = np.sqrt((rows.normal_force**2).sum(axis=1))
    normal = np.where(size[:, None] > 0.0, rows.normal_force / np.where(size > 0.0, size, 1.0)[:, None], rows.normal)
    force = rows.normal_force + rows.friction_force
    ints = {name: getattr(rows, name).astype(np.int32) for name in ("body_a", "body_b", "feature_a", "feature_b")}
    return SimulatedContacts(
        **ints, point=rows.point, normal=normal, depth=np.maximum(-rows.gap, 0.0), id=rows.id, kind=rows.kind,
        force=force, normal_force=size, friction_force=rows.friction_force, impulse=dt * force, area=rows.area,
        gap=rows.gap, sticking=rows.sticking, vertices=rows.vertices,
        vertex_counts=tuple(len(body.area) for body in bodies),
        names=tuple(body.name for body in bodies) + ("ground",) * has_ground,
        bodies=tuple(surface_of(body) for body in bodies), method=method, complete=complete,
        reason=None if complete else "budget",
    )  # fmt: skip
