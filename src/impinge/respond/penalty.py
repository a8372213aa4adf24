"""Penalty forces: proportional to penetration depth, on the vertices of two bodies.

1. Contact  Each contact has a point, a unit normal n from a to b and a depth δ >= 0 (the contact contract). For sphere
            pairs, n lies between the mean normals of the surfaces below both spheres, and moving by δ along n separates
            them. Possible pairs count as contacts; spheres that are apart have δ = 0.
2. Force    k δ n on b, -k δ n on a. With damping, k δ - c v, v the separation speed along n, at least 0: contacts do
            not pull.
3. Vertices The force acts on the vertices of each body nearest to the contact point: one ("nearest", as published), or
            the ``spread`` nearest with weights that fall with distance. For self-contacts of sphere trees, it acts on
            the vertices nearest to the sphere centres; pass the same vertices twice and add both forces.
4. Combine  "sum" adds the forces on a vertex. "average" divides the sum by the number of contacts that contribute, as
            published: the force then does not grow with the number of spheres in contact.

Momentum    "sum" conserves linear momentum to rounding. "average" does not where the two sides of a contact share their
            vertices with different numbers of contacts. Neither conserves angular momentum exactly, because forces act
            on vertices beside the contact point; the error is at most force times distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import (
    Floats,
    as_choice,
    as_number,
    as_numbers,
    as_positions,
    as_whole,
    check_squares,
    distinct_rows,
    shown,
)
from impinge.contact.volume_gradient import VolumeGradient, volume_gradient
from impinge.detect.common.results import VertexContacts
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import OptionError
from impinge.mesh.tri_mesh import TriMesh

Combine: TypeAlias = Literal["average", "sum"]
COMBINE: tuple[Combine, ...] = ("average", "sum")


class PointContacts(Protocol):
    """Contacts of any origin: one point, unit normal from a to b and depth for each."""

    @property
    def point(self) -> ArrayLike:
        """Shape (k, 3)."""

    @property
    def normal(self) -> ArrayLike:
        """Shape (k, 3)."""

    @property
    def depth(self) -> ArrayLike:
        """At least 0, shape (k,)."""


@dataclass(frozen=True, eq=False, repr=False)
class Penalty:
    """Penalty forces on two bodies."""

    force_a: Floats
    """On each vertex of a, shape (n, 3)."""
    force_b: Floats
    """On each vertex of b, shape (m, 3)."""
    contact_count: int
    """Number of contacts with a non-zero force."""

    def __repr__(self) -> str:
        return (
            f"<Penalty: {self.contact_count:,} contacts, on {len(self.force_a):,} and {len(self.force_b):,} vertices>"
        )

    @property
    def total(self) -> Floats:
        """Sum of all forces, shape (3,); 0 where linear momentum is conserved."""
        return np.asarray(self.force_a.sum(axis=0) + self.force_b.sum(axis=0))


def penalty(
    contacts: SphereContacts | VertexContacts | VolumeGradient | VolumeOverlap | PointContacts,
    vertices_a: ArrayLike,
    vertices_b: ArrayLike,
    *,
    stiffness: float,
    combine: Combine = "average",
    spread: int = 1,
    damping: float = 0.0,
    velocities_a: ArrayLike | None = None,
    velocities_b: ArrayLike | None = None,
) -> Penalty:
    """Compute penalty forces on the vertices of two bodies.

    Parameters
    ----------
    contacts
        ``SphereContacts``; ``VertexContacts`` of two bodies with depths; a ``VolumeGradient``; a ``VolumeOverlap``,
        whose gradient is then computed; or any object with ``point``, ``normal`` and ``depth``.
    vertices_a, vertices_b
        Positions of the vertices that receive forces, shape (n, 3): of a soft body, those of its coarse mesh. For
        volumes, the vertices of the surfaces.
    stiffness
        Force per length; for volumes, force per length to the fifth power (the energy is ½ k V²).
    combine
        "average" or "sum" of the forces on a vertex. Ignored for volumes.
    spread
        Number of nearest vertices that share the force of a contact. Ignored for volumes.
    damping
        Force per speed. Requires velocities; not available for volumes.
    velocities_a, velocities_b
        Velocities of the vertices that receive forces, shape (n, 3).

    Returns
    -------
    Penalty
        Forces on both bodies and the number of contacts with a non-zero force.

    Raises
    ------
    OptionError
        For invalid options, contacts without depth, and contacts of more than two bodies.
    MeshError
        For arrays of wrong shape or with NaN.
    """
    x = (as_positions(vertices_a, name="vertices_a"), as_positions(vertices_b, name="vertices_b"))
    stiffness = as_number(stiffness, "stiffness", "a positive number, force per length", above=0.0, below=np.inf)
    combine = as_choice(combine, "combine", COMBINE)
    spread = as_whole(spread, "spread", remedy=": vertices that share a force")
    damping = as_number(damping, "damping", "a number from 0, force per speed", least=0.0, below=np.inf)
    v = None
    if damping != 0.0:
        if velocities_a is None or velocities_b is None:
            raise OptionError("damping needs velocities_a and velocities_b, those of the vertices that receive forces")
        v = (
            as_positions(velocities_a, name="velocities_a", count=len(x[0])),
            as_positions(velocities_b, name="velocities_b", count=len(x[1])),
        )
    if isinstance(contacts, VolumeOverlap):
        contacts = _gradient_of(contacts)
    if isinstance(contacts, VolumeGradient):
        if v is not None:
            raise OptionError(
                f"damping is {shown(damping)}, but a volume has no contact points to damp; omit it, or pass "
                "contacts_from_volume(...)"
            )
        return _from_volume(contacts, x, stiffness)
    (point_a, point_b), normal, depth = _contract(contacts, x)
    if not len(depth) or not len(x[0]) or not len(x[1]):
        return Penalty(np.zeros_like(x[0]), np.zeros_like(x[1]), 0)
    check_squares("vertices and contact points", *x, point_a, point_b)
    near = [_nearest(side, point, spread) for side, point in zip(x, (point_a, point_b))]
    size = stiffness * depth
    if v is not None:
        speed = [np.einsum("ck,ckj->cj", weight, side[row]) for side, (row, weight) in zip(v, near)]
        size = np.where(
            depth > 0.0, np.maximum(size - damping * ((speed[1] - speed[0]) * normal).sum(axis=1), 0.0), 0.0
        )
    force = size[:, None] * normal
    force_a, force_b = (
        _combined(len(side), sign * force, *reached, combine) for side, sign, reached in zip(x, (-1.0, 1.0), near)
    )
    return Penalty(force_a, force_b, int((size > 0.0).sum()))


def _contract(contacts: Any, x: tuple[Floats, Floats]) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Contact points on both sides, unit normals from a to b, and depths."""
    if isinstance(contacts, SphereContacts):
        return _from_spheres(contacts)
    if isinstance(contacts, VertexContacts):
        point, normal, depth = _from_vertices(contacts, x)
        return (point, point), normal, depth
    if not all(hasattr(contacts, name) for name in ("point", "normal", "depth")):
        raise OptionError(
            f"contacts are a {type(contacts).__name__}, expected SphereContacts, VertexContacts, a VolumeGradient, a "
            "VolumeOverlap, or an object with point, normal and depth"
        )
    if hasattr(contacts, "body_pairs") and len(contacts.body_pairs) > 1:
        raise OptionError(
            f"contacts are of {len(contacts.body_pairs)} pairs of bodies, expected one pair; pass "
            "contacts.rows((contacts.body_a == i) & (contacts.body_b == j))"
        )
    points = as_positions(np.atleast_2d(contacts.point), name="point")
    normals = as_positions(np.atleast_2d(contacts.normal), name="normal")
    depths = np.atleast_1d(np.asarray(as_numbers(contacts.depth, "depth"), dtype=np.float64))
    if depths.shape != (len(points),) or len(normals) != len(points):
        raise OptionError(
            f"contacts have {len(points)} points, {len(normals)} normals and depths of shape {depths.shape}; expected "
            "one of each per contact"
        )
    if not (np.isfinite(depths) & (depths >= 0.0)).all():
        k = int(np.argmin(np.isfinite(depths) & (depths >= 0.0)))
        raise OptionError(
            f"depth[{k}] is {depths[k]:g}, expected a finite number from 0; omit contacts of separated bodies"
        )
    return (points, points), normals, depths


def _from_spheres(contacts: SphereContacts) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Certain and possible pairs of spheres."""
    point = np.concatenate([contacts.point, contacts.possible_point])
    normal = np.concatenate([contacts.normal, contacts.possible_normal])
    depth = np.concatenate([contacts.depth, contacts.possible_depth])
    if not contacts.is_self or not contacts.spheres:
        return (point, point), normal, depth
    nodes = np.concatenate(
        [contacts.certain, contacts.possible]
    )  # of one body, the contact point is near vertices of both sides
    a, b = (side.of(nodes[:, k])[:, :3] for k, side in enumerate(contacts.spheres))
    return (a, b), normal, depth


def _from_vertices(contacts: VertexContacts, x: tuple[Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Vertices inside the other body: a vertex of b exits a along its direction, a vertex of a against it."""
    if contacts.depth is None or contacts.direction is None:
        raise OptionError("contacts have no depth; call penetrating_vertices(..., depth=True)")
    is_other = ~contacts.is_self
    body, vertex = contacts.body[is_other], contacts.vertex[is_other]
    if len(body) and max(body.max(), contacts.in_body[is_other].max()) > 1:
        raise OptionError("contacts are of more than two bodies; query two bodies at a time")
    # A vertex may lie in several tets of the other body; it counts once.
    first, _ = distinct_rows(np.stack([body, vertex], axis=1))
    body, vertex = body[first], vertex[first]
    counts = (len(x[0]), len(x[1]))
    for k in range(2):
        found = vertex[body == k]
        if len(found) and found.max() >= counts[k]:
            raise OptionError(
                f"vertex {int(found.max())} of body {'ab'[k]} is in contact, but vertices_{'ab'[k]} has {counts[k]} "
                "rows; pass the vertices of that body, or contacts_from_vertices(...) for other vertices"
            )
    point = np.zeros((len(body), 3))
    for k in range(2):
        point[body == k] = x[k][vertex[body == k]]
    sign = np.where(body == 1, 1.0, -1.0)
    direction, depth = contacts.direction[is_other][first], contacts.depth[is_other][first]
    return point, sign[:, None] * direction, depth


def _gradient_of(overlap: VolumeOverlap) -> VolumeGradient:
    """Gradient of the overlap volume with respect to the vertex positions of the query."""
    if len(overlap.bodies) != 2:
        raise OptionError(
            f"the VolumeOverlap holds {len(overlap.bodies)} bodies, expected 2 (an unpickled one holds none); call "
            "volume_gradient(a, b)"
        )
    a, b = (TriMesh(body.x, body.faces, validate="trust") for body in overlap.bodies)
    active_a, active_b = (body.ids for body in overlap.bodies)
    return volume_gradient(a, b, resolution=overlap.resolution, rule=overlap.rule, active_a=active_a, active_b=active_b)


def _from_volume(contacts: VolumeGradient, x: tuple[Floats, Floats], stiffness: float) -> Penalty:
    """Forces of the energy ½ k V², which act on vertices and sum to zero."""
    force_a, force_b = contacts.force_a(stiffness), contacts.force_b(stiffness)
    for side, force, name in ((x[0], force_a, "vertices_a"), (x[1], force_b, "vertices_b")):
        if len(side) != len(force):
            raise OptionError(
                f"{name} have {len(side)} rows, but the gradient has {len(force)}; pass the vertices of its surfaces"
            )
    return Penalty(force_a, force_b, len(contacts))


def _nearest(x: Floats, point: Floats, spread: int) -> tuple[NDArray[np.int64], Floats]:
    """Nearest vertices of each contact point, and weights of sum 1 that fall with the squared distance."""
    count = min(spread, len(x))
    from scipy.spatial import cKDTree  # a slow import

    found = cKDTree(x).query(point, k=np.arange(1, count + 1))
    distance, row = np.asarray(found[0]), np.asarray(found[1], dtype=np.int64)
    if count == 1:
        return row, np.ones((len(point), 1))
    reach = 1.5 * distance[:, -1:]
    weight = np.where(reach > 0.0, 1.0 - (distance / np.where(reach > 0.0, reach, 1.0)) ** 2, 1.0)
    return row, weight / weight.sum(axis=1, keepdims=True)


def _combined(count: int, force: Floats, row: NDArray[np.int64], weight: Floats, combine: Combine) -> Floats:
    """Force on each vertex, summed or averaged over its contacts."""
    total = np.zeros((count, 3))
    np.add.at(total, row.reshape(-1), (weight[:, :, None] * force[:, None]).reshape(-1, 3))
    if combine == "sum":
        return total
    loaded = np.repeat((force != 0.0).any(axis=1), row.shape[1])
    received = np.bincount(row.reshape(-1)[loaded], minlength=count)
    return np.asarray(total / np.maximum(received, 1)[:, None])
