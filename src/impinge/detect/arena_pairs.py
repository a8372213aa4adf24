"""Pairs of triangles that meet, of many pairs of small bodies at once.

1. Near.  Of each pair of bodies, take the triangles whose boxes meet the box of the other body.
2. Cross. Of those, take the pairs whose boxes meet: count, scan, fill.
3. Test   all candidates of all bodies together by the shared exact test (``narrow_phase``).

No structure is kept: for bodies of some hundred triangles that a near pair has few of, this is quicker than a tree.
Guarantee  the pairs that rational arithmetic gives, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Ints
from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.detect import arena_kernels as kernels
from impinge.detect.arena import Arena, Ids
from impinge.detect.narrow_phase import classify
from impinge.detect.pair_query import Side, unpack


def arena_pairs(arena: Arena, near: Ids, stats: dict[str, Any]) -> tuple[Ints, NDArray[np.int8]]:
    """Rows of triangles that meet, of pairs (k, 2) of small bodies, sorted, and their kinds."""
    layout = arena.layout
    room = 1 + int(np.diff(layout.face_start)[near].max(initial=0))
    arrays = (near, room, layout.face_start, arena.face_box, arena.low, arena.high)
    counts = np.zeros(len(near), dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    threads = thread_count()
    find = kernels.find_candidates.over(len(near))
    find(*arrays, counts, False, threads, np.zeros(1, dtype=np.int64), counts, none, none)
    start = exclusive_scan(counts)
    of_a, of_b = np.zeros(start[-1], dtype=np.int32), np.zeros(start[-1], dtype=np.int32)
    find(*arrays, start, True, threads, np.zeros(1, dtype=np.int64), counts, of_a, of_b)
    side = Side(arena.x, layout.faces, none)
    boxes = arena.face_box[of_a]
    extent = 2.0 * np.maximum(boxes[:, 3:] - boxes[:, :3], _size(arena.face_box[of_b])).max(axis=0, initial=0.0)
    keys = np.sort(classify(side, side, of_a, of_b, extent, stats))
    return unpack(keys)


def _size(boxes: Any) -> Any:
    return boxes[:, 3:] - boxes[:, :3]
