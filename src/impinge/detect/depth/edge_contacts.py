"""Edges of many surfaces through faces of many surfaces: contacts that no vertex shows.

1. Pairs.  Triangles whose boxes overlap, by a hashed grid (``boxes.hashed_grid``).
2. Filter. An edge that lies beside the box or, in doubles, beside the plane of the face passes through nothing.
3. Signs.  The rest is decided by exact signs (``edge_crossings``).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Stats
from impinge.detect.boxes.hashed_grid import overlapping_pairs, triangle_boxes
from impinge.detect.common.results import EdgeContacts
from impinge.detect.depth import edge_contacts_kernels as kernels
from impinge.detect.proximity.edge_crossings import crossings_of, unique_rows
from impinge.mesh.mesh import Snapshot


def edge_contacts(surfaces: Sequence[Snapshot], x: Floats, vertex_start: NDArray[np.int64]) -> EdgeContacts:
    """Edges of all surfaces through faces of all surfaces, except edges that share a vertex with the face.

    ``x`` holds the positions of all bodies; those of body b start at ``vertex_start[b]``.
    """
    began = perf_counter()
    none = np.zeros((0, 3), dtype=np.int32)
    faces = np.concatenate(
        [none, *(s.elements[s.live] + np.int32(first) for s, first in zip(surfaces, vertex_start[:-1].tolist()))]
    )
    stats: Stats = {}
    low, high = overlapping_pairs(triangle_boxes(x, faces), 0, None, stats)
    may_cross = np.zeros(6 * len(low), dtype=np.bool_)
    kernels.filter_edges.over(len(low))(x, faces, low, high, may_cross)
    pair, which = np.divmod(np.flatnonzero(may_cross), 6)
    of_edge = np.where(which < 3, low[pair], high[pair])
    of_face = np.where(which < 3, high[pair], low[pair]).astype(np.int32)
    edge = np.sort(np.stack([faces[of_edge, which % 3], faces[of_edge, (which + 1) % 3]], axis=1), axis=1)
    edge, face = unique_rows(edge, of_face)
    edge, face, how = crossings_of(x, edge, x, faces, face)
    face_start = np.concatenate([[0], np.cumsum([len(s.live) for s in surfaces])])
    body = np.searchsorted(vertex_start, edge[:, 0], side="right").astype(np.int32) - np.int32(1)
    in_body = np.searchsorted(face_start, face, side="right").astype(np.int32) - np.int32(1)
    return EdgeContacts(
        body=body,
        edge=edge - vertex_start[body][:, None].astype(np.int32),
        in_body=in_body,
        face=np.concatenate([none[:, 0], *(s.live for s in surfaces)])[face],
        **how,
        is_self=body == in_body,
        method="spatial_hash",
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )
