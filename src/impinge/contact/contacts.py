"""One vocabulary for contacts, whatever method found them: where, which way out, how deep, between what.

The contract  ``normal`` is a unit vector from a towards b: moving b along it by ``depth``, or a against it, resolves
              the contact. ``depth`` is a length from 0, and converges as meshes are refined.
What is given, by ``kind``:

    VERTEX_A, VERTEX_B  A vertex of a (of b) is inside the other body, at ``point``. Depth and normal are those of its
                        way out (consistent penetration depth). Features: the vertex, and of the other body the tet that
                        it is in, or the triangle through which it leaves.
    CURVE               Triangles meet at ``point``, on the curve in which the surfaces cross: the middle of what two
                        triangles share. It is on both surfaces, so its depth is 0: this tells where they cross, not how
                        far. The normal lies between the outward normal of a's triangle and the inward one of b's.
    VOLUME              One for two bodies: the centre of their overlap, the direction in which it shrinks fastest, and
                        the equivalent depth V / |∂V|; at most what parts their boxes, which also stands in where one is
                        inside the other and no direction is better. There are no features.
    SPHERES             Two spheres of sphere trees meet, in the middle of what they share. The normal lies between the
                        ways that the surfaces below them face. The depth is how far one has to move along it to part
                        from the other, at most both diameters: that of the bodies and what spheres stand off where
                        leaves reach across the overlap, less where bodies are deeper. Features: the spheres.

Ids           Hashes (63 bits) of what touches: keys of both bodies, the kind, and the features; of a vertex inside a
              body the vertex alone, so that it keeps its id while it moves from tet to tet. The same whichever body
              comes first, in any order of bodies, process and frame. Two of a million ids are the same by chance once
              in ten million frames.
Order         Rows are sorted by (body_a, body_b, kind, feature_a, feature_b), each once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Bools, Floats, Ints
from impinge.contact import contacts_kernels as kernels
from impinge.contact.volume_gradient import VolumeGradient
from impinge.detect.common.results import Kind, Result, TrianglePairs, VertexContacts
from impinge.detect.proximity.intersection_curves_kernels import cross_pairs
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import OptionError
from impinge.mesh.body import as_surface

Hashes: TypeAlias = NDArray[np.uint64]


class ContactKind(IntEnum):
    """What touches what."""

    VERTEX_A = 0
    VERTEX_B = 1
    CURVE = 2
    VOLUME = 3
    SPHERES = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Contacts(Result):
    """Contacts of two or many bodies: where, which way out, how deep (the contact contract)."""

    body_a: Ints
    """Number of the first body, below that of the second; equal where a body meets itself, shape (k,)."""
    body_b: Ints
    point: Floats
    """Shape (k, 3)."""
    normal: Floats
    """Unit vectors from a to b: moving b by ``depth`` along it resolves the contact, shape (k, 3)."""
    depth: Floats
    """Never negative; how deep bodies are in each other where ``has_depth`` is true. Else 0 (CURVE), or what parts two
    spheres (SPHERES), shape (k,)."""
    feature_a: Ints
    """Vertex, triangle, tet or sphere of a, as ``kind`` says; -1 if there is none."""
    feature_b: Ints
    id: NDArray[np.int64]  # noqa: RUF100
    """Stays the same while the same features stay in contact."""
    kind: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """A ``ContactKind`` for each, shape (k,)."""
    possible: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    """Pairs of bodies that may touch, and that there was no time for; who waited longest comes first, shape (p, 2)."""
    names: tuple[str, ...] = ()
    """Names of the bodies by number, where they have names."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies by number, for pictures; not part of ``to_dict``."""

    _rows = "depth"
    _identity = ("id",)

    def __bool__(self) -> bool:
        """Whether anything touches, or may touch."""
        return len(self) + len(self.possible) > 0

    @property
    def has_depth(self) -> Bools:
        """Which contacts tell how deep bodies are in each other, and not only where they meet, shape (k,)."""
        told: Bools = (self.kind != ContactKind.CURVE) & (self.kind != ContactKind.SPHERES)
        return told

    @property
    def body_pairs(self) -> Ints:
        """The pairs of bodies that touch, sorted, each once, shape (p, 2)."""
        return np.unique(np.stack([self.body_a, self.body_b], axis=1), axis=0)

    def rows(self, which: Any) -> Contacts:
        """Some of the contacts."""
        columns = ("body_a", "body_b", "point", "normal", "depth", "feature_a", "feature_b", "id", "kind")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now, contact points and ways out; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_world(self, path)


# ids ------------------------------------------------------------------------------------------------------


def body_key(name: str) -> int:
    """A number of 64 bits for a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def contact_ids(
    key_a: Hashes, key_b: Hashes, kind: NDArray[np.int8], feature_a: Ints, feature_b: Ints
) -> NDArray[np.int64]:
    """Ids from what touches; the same if a and b change places."""
    ids = np.zeros(len(kind), dtype=np.int64)
    kernels.hash_features.over(len(kind))(key_a, key_b, kind, feature_a, feature_b, ids)
    return ids


# making -----------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """Rows of contacts, in any order."""

    body_a: NDArray[Any]
    body_b: NDArray[Any]
    kind: NDArray[np.int8]
    feature_a: NDArray[Any]
    feature_b: NDArray[Any]
    point: Floats
    normal: Floats
    depth: Floats


def no_rows() -> Columns:
    """Nothing touches."""
    ids = np.zeros(0, dtype=np.int32)
    return Columns(ids, ids, np.zeros(0, np.int8), ids, ids, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))


def joined(parts: Sequence[Columns]) -> Columns:
    """All rows of several."""
    if len(parts) == 1:
        return parts[0]
    return Columns._make(np.concatenate(column) for column in zip(no_rows(), *parts))


def make_contacts(rows: Columns, keys: Hashes, **about: Any) -> Contacts:
    """Sort rows, and give them ids; ``keys`` has one for each body."""
    bodies = (rows.body_a.astype(np.int64) * len(keys) + rows.body_b) * len(ContactKind) + rows.kind
    features = (rows.feature_a.astype(np.int64) << 32) + rows.feature_b
    order = np.lexsort((features, bodies))
    rows = Columns._make(column.take(order, axis=0) for column in rows)
    body_a, body_b, of_a, of_b = (
        column.astype(np.int32, copy=False) for column in (rows.body_a, rows.body_b, rows.feature_a, rows.feature_b)
    )
    return Contacts(
        body_a=body_a,
        body_b=body_b,
        point=rows.point,
        normal=rows.normal,
        depth=rows.depth,
        feature_a=of_a,
        feature_b=of_b,
        kind=rows.kind,
        id=contact_ids(keys[body_a], keys[body_b], rows.kind, of_a, of_b),
        **about,
    )


def vertex_rows(
    body: NDArray[Any], vertex: NDArray[Any], in_body: NDArray[Any], other: NDArray[Any], x: Floats, depth: Floats,
    direction: Floats,
) -> Columns:  # fmt: skip
    """Rows of vertices inside bodies; ``direction`` leads out of ``in_body``, ``other`` is that body's feature."""
    first = body <= in_body  # a is the body with the lower number; of a body in itself the vertex is on side a
    kind = np.where(first, ContactKind.VERTEX_A, ContactKind.VERTEX_B).astype(np.int8)
    return Columns(
        np.minimum(body, in_body),
        np.maximum(body, in_body),
        kind,
        np.where(first, vertex, other),
        np.where(first, other, vertex),
        x,
        np.where(first[:, None], -direction, direction),
        depth,
    )


def curve_rows(
    body_a: NDArray[Any], body_b: NDArray[Any], pairs: Ints, kind: NDArray[np.int8], x_a: Floats, faces_a: Ints,
    x_b: Floats, faces_b: Ints, ids: Ints | None = None,
) -> Columns:  # fmt: skip
    """Rows of triangles that meet, pairs of rows of ``faces_a`` and ``faces_b``; ``ids`` are their names if others."""
    place, normal = np.zeros((len(pairs), 3)), np.zeros((len(pairs), 3))
    crossing = np.flatnonzero(kind == Kind.CROSSING)
    has_segment, ends = np.zeros(len(crossing), dtype=np.bool_), np.zeros((len(crossing), 2, 3))
    feature = np.zeros((len(crossing), 2, 4), dtype=np.int32)
    cross_pairs.over(len(crossing))(x_a, faces_a, x_b, faces_b, pairs[crossing], has_segment, feature, ends)
    has_place = np.zeros(len(pairs), dtype=np.bool_)
    has_place[crossing] = has_segment
    place[crossing] = 0.5 * ends[:, 0] + 0.5 * ends[:, 1]
    kernels.meet_pairs.over(len(pairs))(x_a, faces_a, x_b, faces_b, pairs, has_place, place, normal)
    named = pairs if ids is None else ids
    curve = np.full(len(pairs), ContactKind.CURVE, dtype=np.int8)
    return Columns(body_a, body_b, curve, named[:, 0], named[:, 1], place, normal, np.zeros(len(pairs)))


def volume_row(a: int, b: int, found: VolumeGradient, box_a: Floats, box_b: Floats) -> Columns:
    """The one row of two bodies that overlap, or none."""
    if not found.volume > 0.0:
        return no_rows()
    normal, depth = found.normal, found.depth
    way, length = _part_boxes(box_a, box_b)
    if not depth <= length:
        normal, depth = way, length
    number = np.array([NONE])
    return Columns(
        np.array([a]), np.array([b]), np.array([ContactKind.VOLUME], dtype=np.int8), number, number,
        found.point[None], normal[None], np.array([depth]),
    )  # fmt: skip


def sphere_rows(a: int, b: int, found: SphereContacts) -> Columns:
    """Rows of spheres that surely meet; bodies may be asked about in either order."""
    low, high = (0, 1) if a <= b else (1, 0)
    return Columns(
        np.full(len(found), min(a, b)),
        np.full(len(found), max(a, b)),
        np.full(len(found), ContactKind.SPHERES, dtype=np.int8),
        found.certain[:, low],
        found.certain[:, high],
        found.point,
        found.normal if a <= b else -found.normal,
        found.depth,
    )


def _part_boxes(box_a: Floats, box_b: Floats) -> tuple[Floats, float]:
    """The axis along which b leaves a's box soonest, as a unit vector, and how far it has to go."""
    forward, back = box_a[1] - box_b[0], box_b[1] - box_a[0]
    lengths = np.concatenate([forward, back])
    k = int(np.argmin(lengths))
    way = np.zeros(3)
    way[k % 3] = 1.0 if k < 3 else -1.0
    return way, max(float(lengths[k]), 0.0)


# from the results of each method ------------------------------------------------------------------------------


def contacts_from_vertices(found: VertexContacts) -> Contacts:
    """Contacts of vertices inside bodies; a vertex in several tets of a body is one contact, in the first."""
    if found.depth is None or found.direction is None:
        raise OptionError("these vertices have no depth, which contacts need; ask with depth=True")
    keys = np.stack([found.body, found.vertex, found.in_body], axis=1)
    first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
    one = found.rows(first)
    assert one.depth is not None
    assert one.direction is not None
    x = np.zeros((len(one), 3))
    for b in np.unique(one.body):
        x[one.body == b] = found.bodies[b].vertices[one.vertex[one.body == b]]
    rows = vertex_rows(one.body, one.vertex, one.in_body, one.tet, x, one.depth, one.direction)
    return make_contacts(rows, _keys(len(found.bodies)), **_about(found, found.bodies))


def contacts_from_pairs(found: TrianglePairs) -> Contacts:
    """Contacts on the curves in which triangles meet, as the bodies are now: where they cross, and no depths."""
    bodies = found.bodies
    a, b = bodies[0], bodies[-1]
    number_b = np.full(len(found), len(bodies) - 1)
    rows = curve_rows(0 * number_b, number_b, found.pairs, found.kind, a.vertices, a.faces, b.vertices, b.faces)
    return make_contacts(rows, _keys(len(bodies)), **_about(found, bodies))


def contacts_from_volume(found: VolumeGradient, a: Any, b: Any) -> Contacts:
    """The contact of two bodies that overlap, from the overlap volume and its gradient, or none."""
    surfaces = as_surface(a, name="a"), as_surface(b, name="b")
    rows = volume_row(0, 1, found, *(surface.bounds for surface in surfaces))
    return make_contacts(rows, _keys(2), **_about(found, surfaces))


def contacts_from_spheres(found: SphereContacts) -> Contacts:
    """Contacts of spheres that surely meet; where some are left open, the bodies may touch elsewhere."""
    other = 0 if found.is_self else 1
    possible = np.array([[0, other]] if len(found.possible) else np.zeros((0, 2)), dtype=np.int32)
    return make_contacts(sphere_rows(0, other, found), _keys(2), possible=possible, **_about(found, found.bodies))


def _keys(count: int) -> Hashes:
    return np.array([body_key(str(b)) for b in range(count)], dtype=np.uint64)


def _about(found: Result, bodies: Sequence[Any]) -> dict[str, Any]:
    return {
        "bodies": tuple(bodies), "method": found.method, "stats": found.stats, "elapsed_ms": found.elapsed_ms,
        "complete": found.complete, "reason": found.reason,
    }  # fmt: skip
