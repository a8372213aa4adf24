"""Forces that push bodies apart, proportional to how deep they are in each other.

1. Contact  Each contact has a point, a unit normal n from a to b and a depth δ >= 0 (the contact contract). Of spheres
            n lies between the ways that the surfaces below them face, and δ parts them along it (``contact_frames``).
            Pairs that are only possible count as colliding; spheres that turn out to be apart have δ = 0.
2. Force    k δ n on b, - k δ n on a; with damping, k δ - c v, v the speed at which the bodies part along n, and not
            less than 0: contacts do not pull.
3. Vertices The force goes to the vertices of each body that are nearest to the contact point: one ("nearest", as
            published), or the ``spread`` nearest with weights that fall with the distance. Spheres of one body push the
            vertices nearest to their centres; pass its vertices twice, and add both forces.
4. Combine  "sum" adds what a vertex receives. "average" divides it by how many contacts it has received force from, as
            published: the force then does not grow with the number of spheres in contact.

Momentum    "sum" keeps the linear momentum of both bodies together exactly (but for rounding): what a receives b loses.
            "average" does not, whenever the two sides of a contact share their vertices with different numbers of
            other contacts. Neither keeps angular momentum exactly, since forces act on vertices beside the contact
            point; the torque that is lost is at most the force times their distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from impinge.checks import Floats, as_length, as_numbers, as_positions, distinct_rows, shown
from impinge.contact.volume_gradient import VolumeGradient, volume_gradient
from impinge.detect.common.results import VertexContacts
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import OptionError
from impinge.mesh.tri_mesh import TriMesh

Combine: TypeAlias = Literal["average", "sum"]


@dataclass(frozen=True, eq=False)
class Penalty:
    """Forces on two bodies."""

    force_a: Floats
    """On each vertex of a, shape (n, 3)."""
    force_b: Floats
    contact_count: int
    """Contacts that push: those with a force other than 0."""

    @property
    def total(self) -> Floats:
        """The sum of all forces: 0 if momentum is kept, shape (3,)."""
        return np.asarray(self.force_a.sum(axis=0) + self.force_b.sum(axis=0))


def penalty(
    contacts: Any,
    vertices_a: Any,
    vertices_b: Any,
    *,
    stiffness: float,
    combine: Combine = "average",
    spread: int = 1,
    damping: float = 0.0,
    velocities_a: Any = None,
    velocities_b: Any = None,
) -> Penalty:
    """Forces on the vertices of two bodies from their contacts.

    ``contacts`` are a ``SphereContacts``, a ``VertexContacts`` of two bodies with depths, a ``VolumeGradient``, a
    ``VolumeOverlap``, whose gradient is then found, or anything with ``point``, ``normal`` and ``depth``. Vertices are
    those that receive forces: of soft bodies those of the coarse mesh. ``stiffness`` is force per length, of volumes
    force per length to the fifth power (the energy is ½ k V²), whose vertices are those of the surfaces; ``combine``
    and ``spread`` then change nothing. ``damping`` is force per speed, and needs the velocities of those vertices.
    """
    x = (as_positions(vertices_a, name="vertices_a"), as_positions(vertices_b, name="vertices_b"))
    _check(stiffness, combine, spread, damping)
    v = _velocities(x, damping, velocities_a, velocities_b)
    if isinstance(contacts, VolumeOverlap):
        contacts = _gradient_of(contacts)
    if isinstance(contacts, VolumeGradient):
        if v is not None:
            raise OptionError(
                f"damping is {shown(damping)}, but a volume has no contacts to damp; leave it out, or pass "
                "contacts_from_volume(...)"
            )
        return _from_volume(contacts, x, stiffness)
    (point_a, point_b), normal, depth = _contract(contacts, x)
    if not len(depth) or not len(x[0]) or not len(x[1]):
        return Penalty(np.zeros_like(x[0]), np.zeros_like(x[1]), 0)
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
    """Points of both sides, unit normals from a to b and depths of contacts of any sort."""
    if isinstance(contacts, SphereContacts):
        return _from_spheres(contacts)
    if isinstance(contacts, VertexContacts):
        point, normal, depth = _from_vertices(contacts, x)
        return (point, point), normal, depth
    if not all(hasattr(contacts, name) for name in ("point", "normal", "depth")):
        raise OptionError(
            f"contacts are a {type(contacts).__name__}, expected SphereContacts, VertexContacts, a VolumeGradient, a "
            "VolumeOverlap, or anything with point, normal and depth"
        )
    if hasattr(contacts, "body_pairs") and len(contacts.body_pairs) > 1:
        raise OptionError(
            f"these contacts are of {len(contacts.body_pairs)} pairs of bodies, but forces are found for one; pass "
            "those of one pair, contacts.rows((contacts.body_a == i) & (contacts.body_b == j))"
        )
    return _from_columns(contacts.point, contacts.normal, contacts.depth)


def _from_columns(point: Any, normal: Any, depth: Any) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Contacts of the caller's own making."""
    points = as_positions(np.atleast_2d(point), name="point")
    normals = as_positions(np.atleast_2d(normal), name="normal")
    depths = np.atleast_1d(np.asarray(as_numbers(depth, "depth"), dtype=np.float64))
    if depths.shape != (len(points),) or len(normals) != len(points):
        raise OptionError(
            f"contacts have {len(points)} points, {len(normals)} normals and depths of shape {depths.shape}; expected "
            "one of each for every contact"
        )
    if not (np.isfinite(depths) & (depths >= 0.0)).all():
        k = int(np.argmin(np.isfinite(depths) & (depths >= 0.0)))
        raise OptionError(
            f"depth[{k}] is {depths[k]:g}, expected a finite number from 0; leave out contacts of bodies that are apart"
        )
    return (points, points), normals, depths


def _from_spheres(contacts: SphereContacts) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Pairs of spheres, those that are only possible too."""
    point = np.concatenate([contacts.point, contacts.possible_point])
    normal = np.concatenate([contacts.normal, contacts.possible_normal])
    depth = np.concatenate([contacts.depth, contacts.possible_depth])
    if not contacts.is_self or not contacts.spheres:
        return (point, point), normal, depth
    nodes = np.concatenate([contacts.certain, contacts.possible])  # of one body, the point is near vertices of both
    a, b = (side.of(nodes[:, k])[:, :3] for k, side in enumerate(contacts.spheres))
    return (a, b), normal, depth


def _from_vertices(contacts: VertexContacts, x: tuple[Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Vertices of two bodies inside one another: a vertex of b leaves a along its direction, one of a against it."""
    if contacts.depth is None or contacts.direction is None:
        raise OptionError("these contacts have no depth; ask for them with penetrating_vertices(..., depth=True)")
    is_other = ~contacts.is_self
    body, vertex = contacts.body[is_other], contacts.vertex[is_other]
    if len(body) and max(body.max(), contacts.in_body[is_other].max()) > 1:
        raise OptionError("these contacts are of more than two bodies; ask for two at a time")
    # A vertex may be in several tets of the other body, and counts once.
    first, _ = distinct_rows(np.stack([body, vertex], axis=1))
    body, vertex = body[first], vertex[first]
    counts = (len(x[0]), len(x[1]))
    for k in range(2):
        found = vertex[body == k]
        if len(found) and found.max() >= counts[k]:
            raise OptionError(
                f"vertex {int(found.max())} of body {'ab'[k]} is in contact, but vertices_{'ab'[k]} has {counts[k]} "
                "rows; pass the vertices that the contacts are about, or contacts_from_vertices(...) for others"
            )
    point = np.zeros((len(body), 3))
    for k in range(2):
        point[body == k] = x[k][vertex[body == k]]
    sign = np.where(body == 1, 1.0, -1.0)
    direction, depth = contacts.direction[is_other][first], contacts.depth[is_other][first]
    return point, sign[:, None] * direction, depth


def _gradient_of(overlap: VolumeOverlap) -> VolumeGradient:
    """How the volume that two bodies share changes with their vertices, as these were then."""
    if len(overlap.bodies) != 2:
        raise OptionError(
            f"this VolumeOverlap knows {len(overlap.bodies)} bodies, expected the two that overlap; ask "
            "volume_gradient about them, also after the overlap was read from a file"
        )
    a, b = (TriMesh(body.x, body.faces, validate="trust") for body in overlap.bodies)
    active_a, active_b = (body.ids for body in overlap.bodies)
    options = {"resolution": overlap.resolution, "rule": overlap.rule, "active_a": active_a, "active_b": active_b}
    return volume_gradient(a, b, **options)


def _from_volume(contacts: VolumeGradient, x: tuple[Floats, Floats], stiffness: float) -> Penalty:
    """Forces of the energy ½ k V²: already on vertices, and in balance."""
    force_a, force_b = contacts.force_a(stiffness), contacts.force_b(stiffness)
    for side, force, name in ((x[0], force_a, "vertices_a"), (x[1], force_b, "vertices_b")):
        if len(side) != len(force):
            raise OptionError(
                f"{name} have {len(side)} rows, but the gradient has {len(force)}; pass the vertices of its surfaces"
            )
    return Penalty(force_a, force_b, len(contacts))


def _nearest(x: Floats, point: Floats, spread: int) -> tuple[NDArray[np.int64], Floats]:
    """The vertices nearest to each contact point, and weights of sum 1 that fall with the squared distance."""
    count = min(spread, len(x))
    found = cKDTree(x).query(point, k=np.arange(1, count + 1))
    distance, row = np.asarray(found[0]), np.asarray(found[1], dtype=np.int64)
    if count == 1:
        return row, np.ones((len(point), 1))
    reach = 1.5 * distance[:, -1:]
    weight = np.where(reach > 0.0, 1.0 - (distance / np.where(reach > 0.0, reach, 1.0)) ** 2, 1.0)
    return row, weight / weight.sum(axis=1, keepdims=True)


def _combined(count: int, force: Floats, row: NDArray[np.int64], weight: Floats, combine: Combine) -> Floats:
    """What each vertex receives, summed or averaged over the contacts that reach it."""
    total = np.zeros((count, 3))
    np.add.at(total, row.reshape(-1), (weight[:, :, None] * force[:, None]).reshape(-1, 3))
    if combine == "sum":
        return total
    pushed = np.repeat((force != 0.0).any(axis=1), row.shape[1])
    received = np.bincount(row.reshape(-1)[pushed], minlength=count)
    return np.asarray(total / np.maximum(received, 1)[:, None])


def _check(stiffness: Any, combine: Any, spread: Any, damping: Any) -> None:
    if not (as_length(stiffness) or 0.0) > 0.0 or not np.isfinite(stiffness):
        raise OptionError(f"stiffness is {shown(stiffness)}, expected a positive number, force per length")
    if combine not in ("average", "sum"):
        raise OptionError(f"combine is {shown(combine)}, expected 'average' or 'sum'")
    if isinstance(spread, bool) or not isinstance(spread, int | np.integer) or spread < 1:
        raise OptionError(f"spread is {shown(spread)}, expected a whole number from 1: vertices that share a force")
    if as_length(damping) is None or not np.isfinite(damping):
        raise OptionError(f"damping is {shown(damping)}, expected a number from 0, force per speed")


def _velocities(x: tuple[Floats, Floats], damping: float, *velocities: Any) -> tuple[Floats, Floats] | None:
    if damping == 0.0:
        return None
    if any(v is None for v in velocities):
        raise OptionError("damping needs velocities_a and velocities_b, those of the vertices that receive forces")
    a, b = (as_positions(v, name=f"velocities_{k}", count=len(side)) for v, k, side in zip(velocities, "ab", x))
    return a, b
