"""Vertices inside other bodies, of many pairs of bodies at once.

1. Box.    Of each ordered pair of bodies, take the vertices of the first in the box of the second.
2. Inside. Of small closed bodies: rays upwards through the triangles above those vertices, with exact signs, all pairs
           in one call. Large ones, and those that are closed only by where their vertices are, are to be asked one by
           one (``points_inside``).

What has an inside, and what is inside, is as in ``points_inside``: exact, the surface counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from impinge.arrays import Bools
from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.detect import arena_kernels as kernels
from impinge.detect.arena import Arena, Ids


class Asked(NamedTuple):
    """Vertices that may be inside bodies."""

    pairs: Ids
    """Body of the vertices and body that they may be in, shape (k, 2)."""
    start: Ids
    """The first vertex of each pair, and the number of all."""
    vertex: Ids
    """Numbers among the vertices of all bodies."""


def vertices_in_boxes(arena: Arena, pairs: Ids) -> Asked:
    """Vertices of the first body of each pair in the box of the second."""
    layout = arena.layout
    arrays = (pairs, arena.x, layout.used_start, layout.used, arena.low, arena.high)
    counts, none = np.zeros(len(pairs), dtype=np.int64), np.zeros(0, dtype=np.int64)
    kernels.find_points.over(len(pairs))(*arrays, counts, False, counts, none)
    start = exclusive_scan(counts)
    vertex = np.zeros(start[-1], dtype=np.int64)
    kernels.find_points.over(len(pairs))(*arrays, start, True, counts, vertex)
    return Asked(pairs, start, vertex)


def inside_small(arena: Arena, asked: Asked) -> Bools:
    """Which vertices are inside, of pairs whose second body is small and closed."""
    layout = arena.layout
    inside = np.zeros(len(asked.vertex), dtype=np.bool_)
    room = 1 + int(np.diff(layout.face_start)[asked.pairs[:, 1]].max(initial=0))
    kernels.mark_inside.over(len(asked.pairs))(
        asked.pairs, asked.start, room, asked.vertex, arena.x, layout.faces, layout.face_start, arena.face_box,
        layout.is_oriented, thread_count(), np.zeros(1, dtype=np.int64), inside,
    )  # fmt: skip
    return inside
