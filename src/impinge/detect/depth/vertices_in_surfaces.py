"""Vertices of closed surfaces inside one another: contacts of bodies that have no tets.

1. Sweep. Find the bodies whose boxes overlap (``broad_phase``).
2. Ask.   The vertices of one that lie in the box of the other are asked whether they are inside of it
          (``points_inside``: exactly, border included).

What is not closed has no inside. A body is not tested against itself: of a closed surface that passes through itself,
no vertex is surely in the wrong place; ask ``self_pairs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from impinge.backend.stages import start_stages
from impinge.checks import NONE
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.pair_query import PairOptions, QueryBody
from impinge.detect.common.results import EdgeContacts, Reason, VertexContacts
from impinge.detect.proximity.points_inside import points_inside
from impinge.detect.spatial_hash.detector import (
    Depth,
    Found,
    HashOptions,
    check_answers,
    check_whole,
    finish_contacts,
    hash_options,
    per_body,
    states_of,
    wanted_edges,
)
from impinge.mesh.tri_mesh import Snapshot, TriMesh, box_around, used_ids

METHOD = "points_inside"


class _State(NamedTuple):
    """All bodies as one query sees them."""

    asked: Sequence[PairOptions]
    """Transform and active triangles of each, as those of a."""
    sides: Sequence[QueryBody]
    depth_states: Sequence[Any]


def vertices_in_surfaces(
    bodies: Sequence[TriMesh], *, depth: Depth = False, edges: bool = False, **options: Any
) -> VertexContacts:
    """All vertices inside other bodies; the tet is -1. Options as in ``SpatialHash.query``, ``active`` of triangles."""
    began = perf_counter()
    check_answers(depth, edges)
    wanted = hash_options(options)
    check_whole(wanted, depth, edges)
    stages, stats = start_stages(), dict[str, Any]()
    state = _state(bodies, wanted, depth)
    stages.done("bodies")
    reason: Reason | None = None
    if wanted.cancel is not None and wanted.cancel.is_set():
        reason, found = "cancelled", _found([])
    else:
        found = _search(bodies, state, stats)
    stages.done("search")
    through = _edges(state.sides, wanted) if edges else None
    stages.done("edges")
    contacts = finish_contacts(found, bodies, through, state.depth_states, wanted, depth, reason)
    stages.done("depth")
    stats.update(stages.times())
    return replace(contacts, method=METHOD, stats=stats, elapsed_ms=1e3 * (perf_counter() - began))


def _state(bodies: Sequence[TriMesh], options: HashOptions, depth: Depth) -> _State:
    """Positions, triangles and what depths need, that belong together; taken again if a body was changed meanwhile."""
    count = len(bodies)
    chosen = zip(per_body(options.transforms, "transforms", count), per_body(options.active, "active", count))
    asked = [PairOptions(transform_a=matrix, active_a=active) for matrix, active in chosen]
    while True:
        versions = [body.version for body in bodies]
        sides = [each.side_a(body) for each, body in zip(asked, bodies)]
        depth_states = states_of(bodies, options) if depth else []
        if [body.version for body in bodies] == versions:
            return _State(asked, sides, depth_states)


def _search(bodies: Sequence[TriMesh], state: _State, stats: dict[str, Any]) -> Found:
    used = [used_ids(side.faces[side.ids], len(side.vertices)) for side in state.sides]
    boxes = np.stack([box_around(side.vertices, side.faces[side.ids]) for side in state.sides])
    near = overlapping_boxes(boxes[:, 0], boxes[:, 1])
    stats.update(body_pairs=len(near), points=0)
    rows = []
    for i, j in np.concatenate([near, near[:, ::-1]]).tolist():
        x = state.sides[i].vertices[used[i]]
        ids = used[i][((x >= boxes[j, 0]) & (x <= boxes[j, 1])).all(axis=1)]
        if len(ids):
            inside = ids[
                points_inside(
                    bodies[j],
                    state.sides[i].vertices[ids],
                    transform=state.asked[j].transform_a,
                    active=state.asked[j].active_a,
                )
            ]
            rows.append(np.stack([np.full(len(inside), i), inside, np.full(len(inside), j)]))
            stats["points"] += len(ids)
    return _found(rows)


def _found(rows: Sequence[np.ndarray[Any, Any]]) -> Found:
    """Columns of the answer from (body, vertex, in_body), in any order."""
    none = np.zeros((3, 0), dtype=np.int64)
    columns = np.concatenate([none, *rows], axis=1).astype(np.int32)
    body, vertex, in_body = columns[:, np.lexsort((columns[2], columns[1], columns[0]))]
    count = len(body)
    tet = np.full(count, NONE, dtype=np.int32)
    return Found(body, vertex, in_body, tet, np.full((count, 4), np.nan), np.zeros(count, dtype=np.bool_))


def _edges(sides: Sequence[QueryBody], options: HashOptions) -> EdgeContacts:
    start = np.concatenate([[0], np.cumsum([len(side.vertices) for side in sides])]).astype(np.int64)
    surfaces = [Snapshot(side.vertices, side.faces, side.ids, 0) for side in sides]
    return wanted_edges(surfaces, np.concatenate([side.vertices for side in sides]), start, options)
