"""From pairs of leaves whose spheres meet to the triangles that meet, as far as the budget goes.

1. Filter   the triangles below each pair of leaves, in order, in doubles with a bound on rounding: hits, misses, and
            a few uncertain ones.
2. Resolve  the uncertain ones by the exact test.

A pair of leaves is certain once triangles below it meet, dropped once none do, and untested until either is known. A
triangle may be below several leaves; a pair of triangles that is found several times is reported once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.backend.clock import now_ns
from impinge.checks import Bools, Cancel, Ints, Stats, sorted_unique
from impinge.detect.common.narrow_phase import resolve, resolve_self
from impinge.detect.common.pair_query import unpack
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.sphere_tree.search import exact_kernels as kernels
from impinge.detect.sphere_tree.search.context import NO_PAIRS, SLICE_NS, SearchContext
from impinge.detect.sphere_tree.search.triangle_filter import TriangleFilter

FIRST_KEYS = 1 << 14
RESOLVED_AT_ONCE = 8
"""Exact tests between two readings of the clock."""
FIRST_CHUNK_NS = 100_000
"""Time for these at first; measured from then on."""
KEY_NS, LEAVES_NS = 100, 40
"""Time to sort and list a pair of triangles, and to list a pair of leaves."""
NO_KINDS: NDArray[np.int8] = np.zeros(0, dtype=np.int8)


class ExactStage:
    """The exact stage of one detector, with its buffers."""

    def __init__(self, *, is_self: bool, skip_neighbours: bool) -> None:
        self._policy = is_self, skip_neighbours
        self._key: NDArray[np.uint64] = np.zeros(FIRST_KEYS, dtype=np.uint64)
        self._row: NDArray[np.int64] = np.zeros(FIRST_KEYS, dtype=np.int64)
        self._chunk_ns = FIRST_CHUNK_NS

    def resolve(
        self,
        context: SearchContext,
        leaves: Ints,
        most: tuple[int, int],
        cancel: Cancel | None,
        kept: TriangleFilter | None,
    ) -> tuple[Ints, Ints, Ints, NDArray[np.int8], Stats]:
        """Test triangles below pairs of leaves until all are done or a limit is reached: tests, or the deadline.

        Returns the pairs of leaves with triangles that meet, sorted, the untested ones, the triangles that meet,
        sorted, how these meet, and counters.
        """
        latest = most[1] - LEAVES_NS * len(leaves)
        begun = now_ns()
        if not len(leaves) or begun >= latest:
            return NO_PAIRS, leaves, NO_PAIRS, NO_KINDS, {"triangle_tests": 0, "exact_tests": 0}
        state: NDArray[np.int64] = np.zeros(3, dtype=np.int64)
        surfaces = [(tree.vertices(f"transform_{letter}"), tree.faces) for tree, letter in zip(context.trees, "ab")]
        sides = [(*surface, *tree.leaf_triangles) for surface, tree in zip(surfaces, context.trees)]
        slice_ns = SLICE_NS
        while cancel is None or not cancel.is_set():
            before, until = int(state[kernels.CURSOR]), latest
            if cancel is not None:
                until = min(latest, now_ns() + slice_ns)
            limits = most[0], until, KEY_NS
            stop = kernels.examine_leaf_pairs(leaves, *sides, limits, self._policy, state, self._key, self._row)
            if stop == kernels.FULL:  # make room for all triangles below the next pair of leaves
                pair = leaves[state[kernels.CURSOR]]
                room = max(len(self._key), np.prod([side[2][n + 1] - side[2][n] for side, n in zip(sides, pair)]))
                self._key = np.concatenate([self._key, np.zeros(room, dtype=np.uint64)])
                self._row = np.concatenate([self._row, np.zeros(room, dtype=np.int64)])
            elif stop != kernels.OUT_OF_TIME or until == latest:
                break
            elif state[kernels.CURSOR] == before:
                slice_ns *= 2  # one pair of leaves takes longer
        stopped, count, done = now_ns(), int(state[kernels.FOUND]), int(state[kernels.CURSOR])
        keys, rows = self._key[:count], self._row[:count]
        if kept is not None:
            counts = kept.triangles(keys)
            keys, rows = keys[counts], rows[counts]
        is_open = keys & np.uint64((1 << KIND_BITS) - 1) == 0
        hits, open_rows = [keys[~is_open]], rows[is_open]
        latest -= KEY_NS * count

        # resolve distinct uncertain pairs, a few at a time
        distinct, place = np.unique(keys[is_open], return_inverse=True)
        place, tested, now = place.reshape(-1), 0, stopped
        meets: Bools = np.zeros(len(distinct), dtype=np.bool_)
        while tested < len(distinct) and now + self._chunk_ns < latest and not (cancel and cancel.is_set()):
            chunk = distinct[tested : tested + RESOLVED_AT_ONCE]
            hits.append(resolve_self(chunk, *surfaces[0]) if self._policy[0] else resolve(chunk, *sum(surfaces, ())))
            hit = hits[-1] >> np.uint64(KIND_BITS)
            meets[tested : tested + len(chunk)] = np.isin(chunk >> np.uint64(KIND_BITS), hit)
            tested += len(chunk)
            now, self._chunk_ns = now_ns(), now_ns() - now
        is_hit, waits = (np.zeros(len(leaves), dtype=np.bool_) for _ in range(2))
        is_hit[rows[~is_open]] = is_hit[open_rows[meets[place]]] = True
        waits[done:] = waits[open_rows[place >= tested]] = True
        certain = leaves[is_hit]
        certain = certain[np.argsort(certain[:, 0].astype(np.int64) << 32 | certain[:, 1])]
        pairs, kind = unpack(sorted_unique(np.concatenate(hits)))
        context.stop_later(min(now, max(begun, latest)), KEY_NS * count + LEAVES_NS * len(leaves))
        stats = {"triangle_tests": int(state[kernels.TESTS]), "exact_tests": len(open_rows)}
        return certain, leaves[waits & ~is_hit], pairs, kind, stats
