"""Whether two bodies share volume, where their surfaces meet.

Let A and B be the insides of the closed pieces of both bodies.

1. Crossing.  A triangle of a closed piece of each cross: volume on one side of each is shared.
2. Vertices.  A vertex of a closed piece is inside the other body, and not on its surface.
3. Witnesses. Without either, a component R of the shared volume has a mesh vertex on both surfaces in its closure: the
              convex hull of R has an extreme point, and where two edges meet, or an edge and a face, without crossing,
              R contains segments along one of them. Beside that vertex, R borders on a triangle of A or B. Hence, for
              each vertex on both surfaces and each triangle there, points on both sides of the triangle are located in
              both bodies.

Exact   Every "yes" is proved by exact predicates: by a crossing, or by a point strictly inside both bodies.
        A "no" is exact for step 1 and 2, and complete in step 3 for shared volumes that a step of 2^-10 beside a
        triangle at a vertex does not leave: bodies that overlap in needles thinner than that, without a crossing and
        without a vertex inside, are missed.
Limits  A closed piece without volume (two coincident sheets) counts as a solid where it crosses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints, distinct_rows
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.detect.proximity.points_inside import locate_points
from impinge.detect.proximity.points_inside_kernels import INSIDE, ON
from impinge.mesh.tri_mesh import TriMesh

STEPS = (0.25, 2.0**-6), (2.0**-10, 2.0**-10)
"""Distance from a vertex along a triangle, and from there to its sides, as fractions."""
TOWARDS = np.array([[1.0, 1.0, 1.0], [8.0, 1.0, 1.0], [1.0, 8.0, 1.0], [1.0, 1.0, 8.0]])
"""Weights of the corners of a triangle for points inside it, not normalised."""
NEAR = 1e-9
"""Distance, as a fraction of a triangle's size, up to which a vertex is tried at it."""
CHUNK = 4096
"""Pairs of triangles whose vertices are tried at a time."""


def share_volume(pairs: TrianglePairs, a: TriMesh, b: TriMesh, closed_a: Ints, closed_b: Ints) -> bool:
    """Whether the closed pieces of two bodies that meet in ``pairs`` share volume; ``closed_*`` are their triangles."""
    if not len(closed_a) or not len(closed_b):
        return False
    is_closed = [np.zeros(len(body.faces), dtype=np.bool_) for body in (a, b)]
    is_closed[0][closed_a] = is_closed[1][closed_b] = True
    solid = is_closed[0][pairs.pairs[:, 0]] & is_closed[1][pairs.pairs[:, 1]]
    if (pairs.kind[solid] == Kind.CROSSING).any():
        return True
    place = [_places(a, closed_a, b), _places(b, closed_b, a)]
    if any((each == INSIDE).any() for each in place):
        return True
    on = [each == ON for each in place]
    corners = [body.vertices[body.faces] for body in (a, b)]
    met = pairs.pairs[solid]
    return any(
        _any_inside_both(_beside(*_meeting(met[k : k + CHUNK], (a, b), on, corners)), a, b)
        for k in range(0, len(met), CHUNK)
    )


def _places(body: TriMesh, closed: Ints, other: TriMesh) -> NDArray[np.int8]:
    """The place in ``other`` of each vertex of closed pieces, OUTSIDE for other vertices."""
    place = np.zeros(len(body.vertices), dtype=np.int8)
    ids = np.unique(body.faces[closed])
    x, (low, high) = body.vertices[ids], other.bounds
    ids = ids[((x >= low) & (x <= high)).all(axis=1)]
    place[ids] = locate_points(other, body.vertices[ids])
    return place


def _meeting(
    pairs: Ints, bodies: tuple[TriMesh, TriMesh], on: list[Bools], corners: list[Floats]
) -> tuple[Floats, Floats]:
    """Vertices on both surfaces, and triangles of either body that contain them: positions (k, 3) and (k, 3, 3)."""
    vertices, triangles = [], []
    for side in range(2):
        own, other = pairs[:, side], pairs[:, 1 - side]
        for k in range(3):
            id_ = bodies[side].faces[own, k]
            rows = np.flatnonzero(on[side][id_])
            first = rows[distinct_rows(np.stack([id_[rows], own[rows]], axis=1))[0]]
            vertices.append(bodies[side].vertices[id_[first]])
            triangles.append(corners[side][own[first]])
            rows = rows[_contains(corners[1 - side][other[rows]], bodies[side].vertices[id_[rows]])]
            first = rows[distinct_rows(np.stack([id_[rows], other[rows]], axis=1))[0]]
            vertices.append(bodies[side].vertices[id_[first]])
            triangles.append(corners[1 - side][other[first]])
    return np.concatenate(vertices), np.concatenate(triangles)


def _contains(triangle: Floats, point: Floats) -> Bools:
    """Whether points lie in triangles, up to ``NEAR``."""
    normal = np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0])
    area_sq = (normal * normal).sum(axis=1)
    inside = np.abs(((point - triangle[:, 0]) * normal).sum(axis=1)) <= NEAR * area_sq**0.75
    for k in range(3):
        p, q = triangle[:, k], triangle[:, (k + 1) % 3]
        inside &= (np.cross(q - p, point - p) * normal).sum(axis=1) >= -NEAR * area_sq
    return np.asarray(inside)


def _beside(vertex: Floats, triangle: Floats) -> Floats:
    """Points near vertices, on both sides of triangles that contain them, shape (n, 3)."""
    normal = np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0])
    length = np.linalg.norm(normal, axis=1)
    proper = length > 0.0
    vertex, triangle, normal = vertex[proper], triangle[proper], normal[proper] / length[proper, None]
    target = np.einsum("wk,tkd->twd", TOWARDS / TOWARDS.sum(axis=1, keepdims=True), triangle)
    along = target - vertex[:, None]
    aside = np.linalg.norm(along, axis=2)[:, :, None] * normal[:, None]
    points = [vertex[:, None] + step * (along + sign * slope * aside) for step, slope in STEPS for sign in (1.0, -1.0)]
    return np.concatenate(points).reshape(-1, 3)


def _any_inside_both(points: Floats, a: TriMesh, b: TriMesh) -> bool:
    """Whether a point is strictly inside both bodies."""
    points = points[locate_points(a, points) == INSIDE]
    return bool((locate_points(b, points) == INSIDE).any())
