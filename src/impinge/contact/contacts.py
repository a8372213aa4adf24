"""Contacts of every method in one form: point, normal, depth, and the features in contact.

Contract  ``normal`` is a unit vector from a towards b: moving b along it by ``depth``, or a against it, resolves the
          contact. ``depth`` is a length from 0, and converges as meshes are refined.
Content   by ``kind``:

    VERTEX_A, VERTEX_B  A vertex of a (of b) is inside the other body, at ``point``. Depth and normal are those of
                        consistent penetration depth. Features: the vertex, and of the other body the tet that contains
                        it, or the triangle through which it leaves.
    CURVE               Triangles meet at ``point``, on the intersection curve of the surfaces: the middle of what two
                        triangles share. The depth is 0, since the point is on both surfaces. The normal lies between
                        the outward normal of a's triangle and the inward normal of b's.
    VOLUME              One per pair of bodies: the centre of their overlap, the direction in which it shrinks fastest,
                        and the equivalent depth V / |∂V|; at most the separation of their boxes, which also serves
                        where one body is inside the other and no direction is better. No features.
    SPHERES             Two spheres of sphere trees meet, in the middle of what they share. The normal lies between the
                        mean normals of the surfaces below them. The depth is the motion along it that separates them,
                        at most both diameters: that of the bodies plus the overshoot of spheres where leaves reach
                        across the overlap, less where bodies are deeper. Features: the spheres.
    EDGES               Two edges are near each other (simulations). Features: rows of ``adjacency.edges``.

Ids       Hashes (63 bits) of the keys of both bodies, the kind and the features; of a vertex inside a body the vertex
          alone: its id persists while it moves from tet to tet. Independent of the order of bodies, of process and
          frame. Among a million ids, two are equal by chance once in ten million frames.
Order     Rows are sorted by (body_a, body_b, kind, feature_a, feature_b), each once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Bools, Floats, Ints, check_type
from impinge.contact import contacts_kernels as kernels
from impinge.contact.volume_gradient import VolumeGradient
from impinge.detect.common.results import Kind, Result, TrianglePairs, VertexContacts, select
from impinge.detect.proximity.intersection_curves_kernels import cross_pairs
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import OptionError
from impinge.mesh.body import Body, SurfaceLike, as_surface

Hashes: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.integer[Any]]


class ContactKind(IntEnum):
    """What is in contact; see the module."""

    VERTEX_A = 0
    VERTEX_B = 1
    CURVE = 2
    VOLUME = 3
    SPHERES = 4
    EDGES = 5


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Contacts(Result):
    """Contacts of two or many bodies: point, normal, depth and features (the contact contract)."""

    body_a: Ints
    """Number of the first body, below that of the second; equal for self-collision, shape (k,)."""
    body_b: Ints
    point: Floats
    """Shape (k, 3)."""
    normal: Floats
    """Unit vectors from a to b: moving b by ``depth`` along it resolves the contact, shape (k, 3)."""
    depth: Floats
    """Never negative; penetration depth where ``has_depth`` is true. Otherwise 0 (CURVE), or the separation of two
    spheres (SPHERES), shape (k,)."""
    feature_a: Ints
    """Vertex, triangle, tet or sphere of a, by ``kind``; -1 without one."""
    feature_b: Ints
    id: NDArray[np.int64]  # noqa: RUF100
    """Persists while the same features stay in contact."""
    kind: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """A ``ContactKind`` for each, shape (k,)."""
    possible: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    """Pairs of bodies that may touch, beyond the budget; those that have waited longest come first, shape (p, 2)."""
    tests: int = 0
    """Tests charged to the budget; 0 without a budget."""
    names: tuple[str, ...] = ()
    """Names of the bodies by number, if they have names."""
    bodies: tuple[Body, ...] = field(default=(), repr=False)
    """The bodies by number, for pictures; not part of ``to_dict`` and of pickles."""

    _rows = "depth"
    _identity = ("id",)

    def __bool__(self) -> bool:
        """Whether bodies touch, or may touch."""
        return len(self) + len(self.possible) > 0

    def _found(self) -> str:
        waiting = f", {len(self.possible):,} pairs of bodies possible" if len(self.possible) else ""
        return f"{len(self):,}{waiting}"

    @property
    def has_depth(self) -> Bools:
        """Contacts with a penetration depth, shape (k,)."""
        measured: Bools = (self.kind != ContactKind.CURVE) & (self.kind != ContactKind.SPHERES)
        return measured

    @property
    def body_pairs(self) -> Ints:
        """The pairs of bodies that touch, sorted, each once, shape (p, 2)."""
        return np.unique(np.stack([self.body_a, self.body_b], axis=1), axis=0)

    def rows(self, which: Integers | Bools | Sequence[int] | slice) -> Contacts:
        """A selection of the contacts, by row numbers or mask."""
        columns = ("body_a", "body_b", "point", "normal", "depth", "feature_a", "feature_b", "id", "kind")
        return select(self, columns, which)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: str | os.PathLike[str] | None = None) -> NDArray[np.uint8] | Path:
        """Draw the bodies as they are now, contact points and normals; write ``path``, or return the pixels."""
        from importlib import import_module

        picture: NDArray[np.uint8] | Path = import_module("impinge.view.picture").plot_world(self, path)
        return picture


def body_key(name: str) -> int:
    """A 64-bit hash of a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def contact_ids(
    key_a: Hashes, key_b: Hashes, kind: NDArray[np.int8], feature_a: Ints, feature_b: Ints
) -> NDArray[np.int64]:
    """Ids of contacts; the same if a and b are swapped."""
    ids = np.zeros(len(kind), dtype=np.int64)
    kernels.hash_features.over(len(kind))(key_a, key_b, kind, feature_a, feature_b, ids)
    return ids


# rows of each kind ----------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """Rows of contacts, in any order."""

    body_a: Integers
    body_b: Integers
    kind: NDArray[np.int8]
    feature_a: Integers
    feature_b: Integers
    point: Floats
    normal: Floats
    depth: Floats


_INT32 = ("body_a", "body_b", "feature_a", "feature_b")
_NONE = np.zeros(0, dtype=np.int32)
NO_ROWS = Columns(_NONE, _NONE, np.zeros(0, np.int8), _NONE, _NONE, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))


def make_contacts(
    parts: Sequence[Columns],
    keys: Hashes,
    found: Result,
    *,
    bodies: Sequence[Body],
    names: tuple[str, ...] = (),
    possible: Ints | None = None,
    tests: int = 0,
) -> Contacts:
    """Join and sort rows and compute ids; ``keys`` has one per body, ``found`` the method, its stats and its state."""
    rows = parts[0] if len(parts) == 1 else Columns._make(map(np.concatenate, zip(NO_ROWS, *parts)))
    pair = (rows.body_a.astype(np.int64) * len(keys) + rows.body_b) * len(ContactKind) + rows.kind
    features = (rows.feature_a.astype(np.int64) << 32) + rows.feature_b
    order = np.lexsort((features, pair))
    rows = Columns._make(column.take(order, axis=0) for column in rows)
    ints = {name: getattr(rows, name).astype(np.int32, copy=False) for name in _INT32}
    rows = rows._replace(**ints)
    ids = contact_ids(keys[rows.body_a], keys[rows.body_b], rows.kind, ints["feature_a"], ints["feature_b"])
    left = np.zeros((0, 2), dtype=np.int32) if possible is None else possible
    state = {each.name: getattr(found, each.name) for each in fields(Result)}
    return Contacts(**rows._asdict(), id=ids, possible=left, tests=tests, names=names, bodies=tuple(bodies), **state)


def vertex_rows(
    body: Integers, vertex: Integers, in_body: Integers, other: Integers, x: Floats, depth: Floats, direction: Floats
) -> Columns:
    """Rows of vertices inside bodies; ``direction`` leads out of ``in_body``, ``other`` is a feature of that body."""
    first = body <= in_body  # a is the body with the lower number; in self-collision, the vertex is on side a
    return Columns(
        np.minimum(body, in_body),
        np.maximum(body, in_body),
        np.where(first, ContactKind.VERTEX_A, ContactKind.VERTEX_B).astype(np.int8),
        np.where(first, vertex, other),
        np.where(first, other, vertex),
        x,
        np.where(first[:, None], -direction, direction),
        depth,
    )


def rows_of_vertices(found: VertexContacts) -> Columns:
    """Rows of vertices inside bodies; a vertex in several tets of a body is one contact, in the first."""
    if found.depth is None or found.direction is None:
        raise OptionError("these vertices have no depth, which contacts need; query with depth=True")
    keys = np.stack([found.body, found.vertex, found.in_body], axis=1)
    one = np.sort(np.unique(keys, axis=0, return_index=True)[1])
    body, vertex = found.body[one], found.vertex[one]
    x = np.zeros((len(one), 3))
    for b in np.unique(body):
        x[body == b] = found.bodies[b].vertices[vertex[body == b]]
    return vertex_rows(body, vertex, found.in_body[one], found.tet[one], x, found.depth[one], found.direction[one])


def outward_signs(x: Floats, faces: Ints, body: Integers, is_oriented: Bools) -> Floats:
    """By body, -1 if its triangles face inwards, judged by the sign of the enclosed volume, else 1; open bodies too.

    ``body`` is that of each face; only those marked ``is_oriented`` are closed and consistent.
    """
    corner = x[faces]
    first = np.full(len(is_oriented), len(faces), dtype=np.int64)
    np.minimum.at(first, body, np.arange(len(faces)))
    origin = corner[first.clip(max=max(len(faces) - 1, 0)), 0] if len(faces) else np.zeros((len(is_oriented), 3))
    corner -= origin[body][:, None]
    corner /= max(float(np.abs(corner).max(initial=0.0)), np.finfo(np.float64).tiny)
    volume = np.bincount(
        body, (corner[:, 0] * np.cross(corner[:, 1], corner[:, 2])).sum(axis=1), minlength=len(is_oriented)
    )
    return np.where(is_oriented & (volume < 0.0), -1.0, 1.0)


def curve_rows(
    body_a: Integers, body_b: Integers, pairs: Ints, kind: NDArray[np.int8], x_a: Floats, faces_a: Ints, x_b: Floats,
    faces_b: Ints, outward: Floats, ids: Ints | None = None,
) -> Columns:  # fmt: skip
    """Rows of triangles that meet, pairs of rows of ``faces_a`` and ``faces_b``; ``ids`` are their ids if different.

    ``outward`` are the ``outward_signs`` of the bodies of each pair, shape (k, 2).
    """
    place, normal = np.zeros((len(pairs), 3)), np.zeros((len(pairs), 3))
    crossing = np.flatnonzero(kind == Kind.CROSSING)
    has_segment, ends = np.zeros(len(crossing), dtype=np.bool_), np.zeros((len(crossing), 2, 3))
    feature = np.zeros((len(crossing), 2, 4), dtype=np.int32)
    cross_pairs.over(len(crossing))(x_a, faces_a, x_b, faces_b, pairs[crossing], has_segment, feature, ends)
    has_place = np.zeros(len(pairs), dtype=np.bool_)
    has_place[crossing] = has_segment
    place[crossing] = 0.5 * ends[:, 0] + 0.5 * ends[:, 1]
    kernels.meet_pairs.over(len(pairs))(x_a, faces_a, x_b, faces_b, pairs, outward, has_place, place, normal)
    of_a, of_b = (pairs if ids is None else ids).T
    curve = np.full(len(pairs), ContactKind.CURVE, dtype=np.int8)
    return Columns(body_a, body_b, curve, of_a, of_b, place, normal, np.zeros(len(pairs)))


def volume_row(a: int, b: int, found: VolumeGradient, box_a: Floats, box_b: Floats) -> Columns:
    """The row of two bodies that overlap, or none."""
    if not found.volume > 0.0:
        return NO_ROWS
    normal, depth = found.normal, found.depth
    # The axis along which b leaves the box of a on the shortest way.
    lengths = np.concatenate([box_a[1] - box_b[0], box_b[1] - box_a[0]])
    k = int(np.argmin(lengths))
    shortest = max(float(lengths[k]), 0.0)
    if not depth <= shortest:
        normal, depth = np.zeros(3), shortest
        normal[k % 3] = 1.0 if k < 3 else -1.0
    none, kind = np.array([NONE]), np.array([ContactKind.VOLUME], dtype=np.int8)
    return Columns(np.array([a]), np.array([b]), kind, none, none, found.point[None], normal[None], np.array([depth]))


def sphere_rows(a: int, b: int, found: SphereContacts) -> Columns:
    """Rows of spheres that certainly meet; the query may have taken the bodies in either order."""
    (low, high), sign = sorted((a, b)), 1 if a <= b else -1
    body_a, body_b = np.full(len(found), low), np.full(len(found), high)
    kind = np.full(len(found), ContactKind.SPHERES, dtype=np.int8)
    of_a, of_b = found.certain[:, ::sign].T
    return Columns(body_a, body_b, kind, of_a, of_b, found.point, sign * found.normal, found.depth)


# from the results of each method --------------------------------------------------------------------------


def contacts_from_vertices(found: VertexContacts) -> Contacts:
    """Convert vertices inside bodies to contacts.

    Parameters
    ----------
    found : VertexContacts
        Result of ``penetrating_vertices(..., depth=True)``. A vertex in several tets of a body is one contact, in the
        first.

    Returns
    -------
    Contacts
        Kinds VERTEX_A and VERTEX_B; body numbers are those of ``found``.

    Raises
    ------
    OptionError
        If ``found`` has no depths.
    """
    check_type(found, "found", VertexContacts)
    return make_contacts([rows_of_vertices(found)], _keys(len(found.bodies)), found, bodies=found.bodies)


def contacts_from_pairs(found: TrianglePairs) -> Contacts:
    """Convert triangles that meet to contacts on the intersection curve.

    Parameters
    ----------
    found : TrianglePairs
        Result of ``triangle_pairs`` or ``self_pairs``; the bodies must not have moved since.

    Returns
    -------
    Contacts
        Kind CURVE, without depths; a has number 0, b number 1, or 0 for self-collision.
    """
    check_type(found, "found", TrianglePairs)
    a, b = found.bodies[0], found.bodies[-1]
    number_b = np.full(len(found), len(found.bodies) - 1)
    outward = np.ones((len(found), 2))
    for k, body in enumerate((a, b)):
        faces, oriented = body.adjacency.faces, np.array([body.adjacency.is_oriented])
        outward[:, k] = outward_signs(body.vertices, faces, np.zeros(len(faces), dtype=np.int64), oriented)[0]
    rows = curve_rows(
        0 * number_b, number_b, found.pairs, found.kind, a.vertices, a.faces, b.vertices, b.faces, outward
    )
    return make_contacts([rows], _keys(len(found.bodies)), found, bodies=found.bodies)


def contacts_from_volume(found: VolumeGradient, a: SurfaceLike, b: SurfaceLike) -> Contacts:
    """Convert an overlap volume and its gradient to a contact.

    Parameters
    ----------
    found : VolumeGradient
        Result of ``volume_gradient(a, b)``.
    a, b : body
        The same bodies.

    Returns
    -------
    Contacts
        One contact of kind VOLUME, or none without an overlap.
    """
    check_type(found, "found", VolumeGradient)
    surfaces = as_surface(a, name="a"), as_surface(b, name="b")
    rows = volume_row(0, 1, found, *(surface.bounds for surface in surfaces))
    return make_contacts([rows], _keys(2), found, bodies=surfaces)


def contacts_from_spheres(found: SphereContacts) -> Contacts:
    """Convert spheres that meet to contacts.

    Parameters
    ----------
    found : SphereContacts
        Result of ``sphere_contacts``.

    Returns
    -------
    Contacts
        Kind SPHERES, of the certain pairs; if ``found`` has possible pairs, the bodies are ``possible``.
    """
    check_type(found, "found", SphereContacts)
    other = 0 if found.is_self else 1
    possible = np.array([[0, other]] if len(found.possible) else np.zeros((0, 2)), dtype=np.int32)
    return make_contacts([sphere_rows(0, other, found)], _keys(2), found, bodies=found.bodies, possible=possible)


def _keys(count: int) -> Hashes:
    return np.array([body_key(str(b)) for b in range(count)], dtype=np.uint64)
