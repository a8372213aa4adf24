"""Pairs of triangles that meet, of many pairs of small bodies at once.

1. Leaves. Of each pair of bodies, take the leaves (eight triangles) whose boxes meet, 64 pairs at a time.
2. Cross.  Of those, take the pairs of triangles whose boxes meet, 64 at a time: count, scan, fill.
3. Test    all candidates of all bodies together by the shared exact test (``narrow_phase``).

No structure is kept but boxes: for small bodies this is quicker than to join two trees, which takes a Python call.
Guarantee  the pairs that rational arithmetic gives, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.checks import Bools, Ints
from impinge.detect.common.narrow_phase import classify
from impinge.detect.common.pair_query import QueryBody, unpack
from impinge.world import batch_kernels as kernels
from impinge.world.surface_batch import Arena, Ids

LARGEST = 2.0**126
"""Coordinates up to which differences are finite as float32; an infinite box would meet the slots that are empty."""


def are_small(arena: Arena, pairs: Ids) -> Bools:
    """Which pairs of bodies can be asked here: none, if boxes of triangles may be infinite."""
    if arena.size > LARGEST:
        return np.zeros(len(pairs), dtype=np.bool_)
    is_small = arena.layout.is_small
    both: Bools = is_small[pairs[:, 0]] & is_small[pairs[:, 1]]
    return both


def arena_pairs(arena: Arena, near: Ids, stats: dict[str, Any]) -> tuple[Ints, NDArray[np.int8]]:
    """Rows of triangles that meet, of pairs (k, 2) of small bodies, sorted, and their kinds."""
    layout = arena.layout
    arrays = (near, arena.small_bodies, arena.low, arena.high)
    counts = np.zeros(len(near), dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    threads = thread_count()
    find = kernels.find_candidates.over(len(near))
    find(*arrays, counts, False, threads, np.zeros(1, dtype=np.int64), counts, none, none)
    start = exclusive_scan(counts)
    of_a, of_b = np.zeros(start[-1], dtype=np.int32), np.zeros(start[-1], dtype=np.int32)
    find(*arrays, start, True, threads, np.zeros(1, dtype=np.int64), counts, of_a, of_b)
    side = QueryBody(arena.x, layout.faces, none)
    # Boxes of triangles that meet are together no larger than two of the largest body.
    sizes = (arena.high - arena.low).T.take(near.reshape(-1), axis=1)
    extent = 2.0 * sizes.max(axis=1, initial=0.0)
    keys = np.sort(classify(side, side, of_a, of_b, extent, stats))
    return unpack(keys)
