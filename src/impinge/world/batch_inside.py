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

from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.checks import Bools
from impinge.world import batch_kernels as kernels
from impinge.world.surface_batch import Arena, Ids


class Asked(NamedTuple):
    """Vertices that may be inside bodies, ordered by pairs of bodies."""

    pair: Ids
    """The pair that each is of, by its row."""
    vertex: Ids
    """Numbers among the vertices of all bodies."""
    in_body: Ids
    """The body that each may be in."""


def vertices_in_boxes(arena: Arena, pairs: Ids) -> Asked:
    """Vertices of the first body of each pair in the box of the second."""
    layout, counts = arena.layout, count_in_boxes(arena, pairs)
    start = exclusive_scan(counts)
    pair, vertex = np.zeros(start[-1], dtype=np.int64), np.zeros(start[-1], dtype=np.int64)
    kernels.find_points.over(len(pairs))(
        pairs, arena.x, layout.used_start, layout.used, arena.low, arena.high, start, pair, vertex
    )
    return Asked(pair, vertex, pairs[pair, 1])


def count_in_boxes(arena: Arena, pairs: Ids) -> Ids:
    """How many vertices of the first body of each pair are in the box of the second."""
    layout, counts = arena.layout, np.zeros(len(pairs), dtype=np.int64)
    kernels.count_points.over(len(pairs))(
        pairs, arena.x, layout.used_start, layout.used, arena.low, arena.high, counts
    )  # fmt: skip
    return counts


def inside_small(arena: Arena, asked: Asked) -> Bools:
    """Which vertices are inside, of pairs whose second body is small and closed."""
    inside = np.zeros(len(asked.vertex), dtype=np.bool_)
    kernels.mark_inside.over(len(inside))(
        asked.vertex, asked.in_body, arena.small_bodies, arena.low, arena.high, arena.layout.is_oriented,
        thread_count(), np.zeros(1, dtype=np.int64), inside,
    )  # fmt: skip
    return inside
