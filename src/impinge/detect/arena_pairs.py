"""Pairs of triangles that meet, of many pairs of small bodies at once.

1. Near.  Of each pair of bodies, take the triangles whose boxes meet the box of the other body.
2. Cross. Of those, take the pairs whose boxes meet: count, scan, fill.
3. Test   all candidates of all bodies together by the shared exact test (``narrow_phase``).

No structure is kept: where few triangles of two bodies are near the other, this is quicker than a tree. Pairs that have
more are for trees (``has_few_near``).
Guarantee  the pairs that rational arithmetic gives, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Ints
from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.detect import arena_kernels as kernels
from impinge.detect.arena import Arena, Ids
from impinge.detect.narrow_phase import classify
from impinge.detect.pair_query import Side, unpack

MOST_TESTS = 1 << 15
"""Pairs of near triangles up to which comparing all boxes is quicker than joining two trees, some 50 us."""


def has_few_near(arena: Arena, pairs: Ids) -> Bools:
    """Which pairs of bodies are better asked here than by their trees."""
    layout = arena.layout
    is_small = np.logical_and(layout.is_small[pairs[:, 0]], layout.is_small[pairs[:, 1]])
    chosen = pairs[is_small]
    counts = np.zeros((len(chosen), 2), dtype=np.int64)
    kernels.count_near.over(len(chosen))(chosen, _room(arena, chosen), *arena.boxes, counts)
    few: Bools = is_small.copy()
    few[is_small] = counts[:, 0] * counts[:, 1] <= MOST_TESTS
    return few


def _room(arena: Arena, pairs: Ids) -> int:
    """One more than the most triangles that any body of some pairs has."""
    return 1 + int(np.diff(arena.layout.face_start)[pairs].max(initial=0))


def arena_pairs(arena: Arena, near: Ids, stats: dict[str, Any]) -> tuple[Ints, NDArray[np.int8]]:
    """Rows of triangles that meet, of pairs (k, 2) of small bodies, sorted, and their kinds."""
    layout = arena.layout
    arrays = (near, _room(arena, near), *arena.boxes)
    counts = np.zeros(len(near), dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    threads = thread_count()
    find = kernels.find_candidates.over(len(near))
    find(*arrays, counts, False, threads, np.zeros(1, dtype=np.int64), counts, none, none)
    start = exclusive_scan(counts)
    of_a, of_b = np.zeros(start[-1], dtype=np.int32), np.zeros(start[-1], dtype=np.int32)
    find(*arrays, start, True, threads, np.zeros(1, dtype=np.int64), counts, of_a, of_b)
    side = Side(arena.x, layout.faces, none)
    # Boxes of triangles that meet are together no larger than two of the largest body.
    extent = 2.0 * (arena.high - arena.low)[near].max(axis=(0, 1), initial=0.0)
    keys = np.sort(classify(side, side, of_a, of_b, extent, stats))
    return unpack(keys)
