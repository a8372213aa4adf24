"""Collision response of sphere pairs: section 4.3, equation 11 (after [DinglianaOSullivan2000]).

1. Pairs    All of COLLISIONLIST and, where the search was interrupted, all of PAIRLIST, whose pairs are assumed to
            collide.
2. Normal   n = (O2 - O1) / |O2 - O1| (11). Sphere 1 is pushed along -n, sphere 2 along n.
3. Depth    δ = r1 + r2 - |O2 - O1|; penalty force k δ.
4. Vertex   Each sphere applies its force to the closest vertex of its coarse mesh, the first of its set V.
5. Average  Each coarse vertex averages the forces that it receives.

Departures  δ of an untested pair may be negative, and the printed force would attract; δ is clamped to 0, and such a
            pair does not enter the average. Concentric spheres have no normal (11): the direction between the root
            centres replaces it. ``combine="sum"`` adds forces instead of step 5.
Limits      Averaging does not conserve momentum: both sides of a pair may share their vertex with different numbers
            of other pairs. Where bodies penetrate deeper than leaf spheres are large, front leaves have passed each
            other, and (11) attracts them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, as_choice
from impinge.published.interruptible.search import Lists, Spheres

Combine: TypeAlias = Literal["average", "sum"]


class Contacts(NamedTuple):
    """One row for each pair, those of COLLISIONLIST first."""

    pair: Ints
    """Spheres of objects 1 and 2, shape (n, 2)."""
    point: Floats
    """O1 + n (r1 - δ / 2) with the unclamped δ, the middle between both spheres, shape (n, 3)."""
    normal: Floats
    """Unit vectors from object 1 to object 2, shape (n, 3)."""
    depth: Floats
    """δ, 0 for spheres that are disjoint, shape (n,)."""


def contacts_of(object_1: Spheres, object_2: Spheres, lists: Lists) -> Contacts:
    """Return point, normal and depth for each pair of both lists (steps 1 to 3).

    Parameters
    ----------
    object_1, object_2 : Spheres
        Trees in the state that was searched.
    lists : Lists
        Result of ``traverse``.

    Returns
    -------
    Contacts
        One row for each pair of COLLISIONLIST, then for each pair of PAIRLIST.
    """
    pair = np.concatenate([lists.collision_list, lists.pair_list])
    centre_1, centre_2 = object_1.centre[pair[:, 0]], object_2.centre[pair[:, 1]]
    radius_1, radius_2 = object_1.radius[pair[:, 0]], object_2.radius[pair[:, 1]]
    between = centre_2 - centre_1
    distance = np.linalg.norm(between, axis=1)
    roots = object_2.centre[0] - object_1.centre[0]
    length = float(np.linalg.norm(roots))
    fallback = roots / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    is_apart = (distance > 0.0)[:, None]
    normal = np.where(is_apart, between / np.where(is_apart, distance[:, None], 1.0), fallback)  # (11)
    delta = radius_1 + radius_2 - distance
    point = centre_1 + normal * (radius_1 - 0.5 * delta)[:, None]
    return Contacts(pair, point, normal, np.maximum(delta, 0.0))


def vertex_forces(force: Floats, vertex: Ints, *, vertex_count: int, combine: Combine = "average") -> Floats:
    """Collect one force for each contact on coarse vertices (steps 4 and 5).

    Parameters
    ----------
    force : (n, 3) array
        Force of each contact on this object; contacts with zero force do not count.
    vertex : (n,) array
        Closest coarse vertex of the sphere in contact.
    vertex_count : int
        Vertices of the coarse mesh.
    combine : {"average", "sum"}
        Average the forces that a vertex receives, or add them.

    Returns
    -------
    (vertex_count, 3) array

    Raises
    ------
    OptionError
        If ``combine`` is unknown.

    Examples
    --------
    >>> vertex_forces(np.array([[2.0, 0, 0], [4, 0, 0]]), np.array([1, 1]), vertex_count=2)
    array([[0., 0., 0.],
           [3., 0., 0.]])
    """
    as_choice(combine, "combine", ("average", "sum"))
    pushes = force.any(axis=1)
    total = np.zeros((vertex_count, 3))
    np.add.at(total, vertex[pushes], force[pushes])
    if combine == "sum":
        return total
    received = np.bincount(vertex[pushes], minlength=vertex_count)
    return np.asarray(total / np.maximum(received, 1)[:, None])
