"""Vertices of closed surfaces inside one another: contacts of bodies that have no tets.

For each two bodies whose boxes overlap, the vertices of one that lie in the box of the other are asked whether they are
inside of it (``points_inside``: exactly, border included). What is not closed has no inside. A body is not tested
against itself: a closed surface that passes through itself has no vertex that is surely in the wrong place; ask
``self_pairs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from time import perf_counter
from typing import Any

import numpy as np

from impinge.arrays import NONE
from impinge.detect.pair_query import PairOptions, Side
from impinge.detect.points_inside import points_inside
from impinge.detect.results import EdgeContacts, Reason, VertexContacts
from impinge.detect.spatial_hash import (
    Depth,
    Found,
    HashOptions,
    check_depth,
    hash_options,
    limit_rows,
    per_body,
    wanted_edges,
    with_depth,
)
from impinge.mesh.tri_mesh import Snapshot, TriMesh, box_around, used_ids

METHOD = "points_inside"


def vertices_in_surfaces(
    bodies: Sequence[TriMesh], *, depth: Depth = False, edges: bool = False, **options: Any
) -> VertexContacts:
    """All vertices inside other bodies; the tet is -1. Options as in ``SpatialHash.query``, ``active`` of triangles."""
    began = perf_counter()
    check_depth(depth)
    wanted = hash_options(options)
    count = len(bodies)
    chosen = zip(per_body(wanted.transforms, "transforms", count), per_body(wanted.active, "active", count))
    asked = [PairOptions(transform_a=matrix, active_a=active) for matrix, active in chosen]
    sides = [each.side_a(body) for each, body in zip(asked, bodies)]
    reason: Reason | None = None
    if wanted.cancel is not None and wanted.cancel.is_set():
        reason, found = "cancelled", _found([])
    else:
        found = _search(bodies, asked, sides)
    found, limited = limit_rows(found, wanted, count)
    contacts = VertexContacts(
        **found._asdict(),
        edges=_edges(sides, wanted) if edges else None,
        complete=reason is None and limited is None,
        reason=reason or limited,
        method=METHOD,
        bodies=tuple(bodies),
    )
    if depth:
        contacts = with_depth(contacts, bodies, wanted, depth)
    return replace(contacts, elapsed_ms=1e3 * (perf_counter() - began))


def _search(bodies: Sequence[TriMesh], asked: Sequence[PairOptions], sides: Sequence[Side]) -> Found:
    used = [used_ids(side.faces[side.ids], len(side.vertices)) for side in sides]
    boxes = [box_around(side.vertices, side.faces[side.ids]) for side in sides]
    rows = []
    for i, j in permutations(range(len(bodies)), 2):
        x = sides[i].vertices[used[i]]
        near = used[i][((x >= boxes[j][0]) & (x <= boxes[j][1])).all(axis=1)]
        if len(near):
            inside = near[points_inside(bodies[j], sides[i].vertices[near], asked[j])]
            rows.append(np.stack([np.full(len(inside), i), inside, np.full(len(inside), j)]))
    return _found(rows)


def _found(rows: Sequence[np.ndarray[Any, Any]]) -> Found:
    """Columns of the answer from (body, vertex, in_body), in any order."""
    none = np.zeros((3, 0), dtype=np.int64)
    columns = np.concatenate([none, *rows], axis=1).astype(np.int32)
    body, vertex, in_body = columns[:, np.lexsort((columns[2], columns[1], columns[0]))]
    count = len(body)
    tet = np.full(count, NONE, dtype=np.int32)
    return Found(body, vertex, in_body, tet, np.full((count, 4), np.nan), np.zeros(count, dtype=np.bool_))


def _edges(sides: Sequence[Side], options: HashOptions) -> EdgeContacts:
    start = np.concatenate([[0], np.cumsum([len(side.vertices) for side in sides])]).astype(np.int64)
    surfaces = [Snapshot(side.vertices, side.faces, side.ids, 0) for side in sides]
    return wanted_edges(surfaces, np.concatenate([side.vertices for side in sides]), start, options)
