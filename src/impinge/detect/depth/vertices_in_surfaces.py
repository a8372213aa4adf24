"""Vertices of closed surfaces inside one another, or of one closed surface inside itself: contacts without tets.

1. Sweep. Find the pairs of bodies whose boxes overlap (``broad_phase``).
2. Test.  Test the vertices of one body that lie in the box of the other (``points_inside``: exact, border included).

An open surface has no inside. Several surfaces are not tested against themselves, which costs more than the rest.

One surface alone is tested against itself. Every vertex lies on it; the question is what is in front of the vertex:

1. Front. Each triangle has three points in front of it, one at a 64th of the way from each corner to the centroid,
          off the plane by 2^-16 of the radius of the inscribed circle, or by rounding if that is more.
2. Test   them (``points_inside``). A vertex is inside the surface if all points around it are.
3. Border. A vertex that lies on a triangle of which no corner is at its position counts, too, as a vertex on the border
          of another body does; this is exact (``BoxTree``, each vertex as a triangle without area).

Front is the side of the normals, or the other if the closed pieces enclose a negative volume. Vertices of open pieces
are tested themselves. Parts nearer to each other than the points count as inside, at a depth of about zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from impinge.backend.stages import Stages
from impinge.checks import NONE, Floats, Ints, Stats, distinct_rows
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.containment import closed_pieces, pieces_of
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth.vertex_query import Depth, RawHits, VertexQuery
from impinge.detect.proximity.points_inside import points_inside
from impinge.errors import MeshError
from impinge.mesh.mesh import Snapshot, box_around, used_ids
from impinge.mesh.tri_mesh import TriMesh

TOWARDS_CENTROID = 2.0**-6
"""Way from a corner to the point in front of it, as a share of the way to the centroid."""
OFF_PLANE = 2.0**-10
"""Distance of that point from the plane, as a share of its distance from the sides of the triangle, about."""
ROUNDING = 2.0**-46
"""Least distance from the plane, as a share of the largest coordinate."""


def vertices_in_surfaces(bodies: Sequence[TriMesh], *, depth: Depth = False) -> VertexContacts:
    """All vertices inside other bodies; the tet is -1. ``depth`` as in ``penetrating_vertices``."""
    return find_in_surfaces(bodies, VertexQuery(bodies, depth=depth))


def find_in_surfaces(bodies: Sequence[TriMesh], query: VertexQuery) -> VertexContacts:
    """As ``vertices_in_surfaces``, with options that are checked already; one body alone is tested against itself."""

    def search_itself(seen: Sequence[Snapshot], stats: Stats, _: Stages) -> RawHits:
        points, corner = _points_in_front(seen[0])
        inside = points_inside(bodies[0], points, transform=query.transforms[0], active=query.active[0])
        stats.update(points=len(points))
        vertex_count = len(seen[0].vertices)
        outside = np.bincount(corner[~inside], minlength=vertex_count)
        found = (outside == 0) & (np.bincount(corner, minlength=vertex_count) > 0)
        found[_on_other_triangles(seen[0])] = True
        vertex = np.flatnonzero(found).astype(np.int32)
        zero, tet = np.zeros(len(vertex), dtype=np.int32), np.full(len(vertex), NONE, dtype=np.int32)
        return RawHits(zero, vertex, zero, tet, np.full((len(vertex), 4), np.nan), np.ones(len(vertex), dtype=np.bool_))

    def search(seen: Sequence[Snapshot], stats: Stats, _: Stages) -> RawHits:
        used = [used_ids(each.elements[each.live], len(each.vertices)) for each in seen]
        boxes = np.stack([box_around(each.vertices, each.elements[each.live]) for each in seen])
        near = overlapping_boxes(boxes[:, 0], boxes[:, 1])
        rows, point_count = [np.zeros((3, 0), dtype=np.int64)], 0
        for i, j in np.concatenate([near, near[:, ::-1]]).tolist():
            x = seen[i].vertices[used[i]]
            ids = used[i][((x >= boxes[j, 0]) & (x <= boxes[j, 1])).all(axis=1)]
            if len(ids):
                points, matrix, active = seen[i].vertices[ids], query.transforms[j], query.active[j]
                inside = ids[points_inside(bodies[j], points, transform=matrix, active=active)]
                rows.append(np.stack([np.full(len(inside), i), inside, np.full(len(inside), j)]))
                point_count += len(ids)
        stats.update(body_pairs=len(near), points=point_count)
        columns = np.concatenate(rows, axis=1).astype(np.int32)
        body, vertex, in_body = columns[:, np.lexsort((columns[2], columns[1], columns[0]))]
        tet, weights = np.full(len(body), NONE, dtype=np.int32), np.full((len(body), 4), np.nan)
        return RawHits(body, vertex, in_body, tet, weights, np.zeros(len(body), dtype=np.bool_))

    return query.find("points_inside", search_itself if len(bodies) == 1 else search)


def _points_in_front(seen: Snapshot) -> tuple[Floats, Ints]:
    """Points in front of all corners, and the vertex of each; vertices of open pieces themselves."""
    x, faces = seen.vertices, seen.elements[seen.live]
    closed, oriented = closed_pieces(pieces_of(faces, len(x)), x)
    if not (closed & oriented).any():
        found = "has triangles that disagree on which side is outside" if closed.any() else "is open"
        raise MeshError(
            f"bodies[0] {found}, but what penetrates itself is a closed and oriented surface: close and orient it, or "
            "use self_pairs"
        )
    corner = faces[closed & oriented]
    size = np.abs(x[corner]).max()
    at = x[corner] / size  # no unit under- or overflows
    along = at[:, [1, 2, 0]] - at
    normal = np.cross(along[:, 0], along[:, 1])
    area, longest = np.linalg.norm(normal, axis=1), np.linalg.norm(along, axis=2).max(axis=1)
    volume = np.einsum("ik,ik->", at[:, 0] - at[0, 0], normal)
    off = np.maximum(TOWARDS_CENTROID * OFF_PLANE * area / np.where(longest > 0.0, longest, 1.0), ROUNDING)
    off *= np.where(area > 0.0, np.where(volume < 0.0, -1.0, 1.0) / np.where(area > 0.0, area, 1.0), 0.0)
    points = at + TOWARDS_CENTROID * (at.mean(axis=1, keepdims=True) - at) + (off[:, None] * normal)[:, None]
    proper = area > 0.0
    alone = np.setdiff1d(faces, corner)
    return (
        np.concatenate([size * points[proper].reshape(-1, 3), x[alone]]),
        np.concatenate([corner[proper].reshape(-1), alone]),
    )


def _on_other_triangles(seen: Snapshot) -> Ints:
    """Vertices on triangles of which no corner is at their position."""
    x, faces = seen.vertices, seen.elements[seen.live]
    used = used_ids(faces, len(x)).astype(np.int32)
    points = TriMesh(x, np.stack([used] * 3, axis=1), validate="trust")
    pairs = BoxTree(points, TriMesh(x, faces, validate="trust")).query().pairs
    place = np.zeros(len(x), dtype=np.int64)
    place[used] = distinct_rows(x[used] + 0.0)[1]  # + 0.0: minus zero is zero
    vertex, corner = used[pairs[:, 0]], faces[pairs[:, 1]]
    found: Ints = vertex[(place[corner] != place[vertex][:, None]).all(axis=1)]
    return found
