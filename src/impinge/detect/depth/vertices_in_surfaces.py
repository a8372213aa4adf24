"""Vertices of closed surfaces inside one another: contacts of bodies without tets.

1. Sweep. Find the pairs of bodies whose boxes overlap (``broad_phase``).
2. Test.  Test the vertices of one body that lie in the box of the other (``points_inside``: exact, border included).

An open surface has no inside. A body is not tested against itself: where a closed surface passes through itself, no
vertex is certainly misplaced; use ``self_pairs``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from impinge.backend.stages import Stages
from impinge.checks import NONE, Stats
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth.vertex_query import Depth, RawHits, VertexQuery
from impinge.detect.proximity.points_inside import points_inside
from impinge.mesh.mesh import Snapshot, box_around, used_ids
from impinge.mesh.tri_mesh import TriMesh


def vertices_in_surfaces(bodies: Sequence[TriMesh], *, depth: Depth = False) -> VertexContacts:
    """All vertices inside other bodies; the tet is -1. ``depth`` as in ``penetrating_vertices``."""
    return find_in_surfaces(bodies, VertexQuery(bodies, depth=depth))


def find_in_surfaces(bodies: Sequence[TriMesh], query: VertexQuery) -> VertexContacts:
    """As ``vertices_in_surfaces``, with options that are checked already."""

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

    return query.find("points_inside", search)
