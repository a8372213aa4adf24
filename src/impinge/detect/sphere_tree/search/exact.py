"""From pairs of leaves whose spheres meet to the triangles that meet, as far as the budget goes.

1. Filter  the triangles below each pair of leaves, in turn, in doubles with a bound on rounding: hits, misses, and
           a few that are open.
2. Settle  the open ones by the exact test.

A pair of leaves is certain once triangles below it meet; it is dropped once none do; it is untested until either is
known. A triangle may be below several leaves, so that the same pair of triangles may be found several times; it is
reported once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.clock import now_ns
from impinge.checks import Ints, sorted_unique
from impinge.detect.common.narrow_phase import resolve_self, settle
from impinge.detect.common.pair_query import unpack
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.common.results import Reason
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search import exact_kernels as kernels
from impinge.detect.sphere_tree.search.body_binding import Seat, leaf_triangles
from impinge.detect.sphere_tree.search.limits import SLICE_NS, Limits
from impinge.detect.sphere_tree.search.triangle_filter import Choice

FIRST_KEYS = 1 << 14
SETTLED_AT_ONCE = 8
"""Exact tests between two looks at the clock."""
FIRST_CHUNK_NS = 100_000
"""What these take at first; measured from then on."""
KEY_NS = 100
"""What it takes to sort and list a pair of triangles."""
LEAVES_NS = 40
"""What it takes to list a pair of leaves."""
NO_KINDS: NDArray[np.int8] = np.zeros(0, dtype=np.int8)


class Settled(NamedTuple):
    """What became of pairs of leaves."""

    certain: Ints
    """Those with triangles that meet, sorted."""
    untested: Ints
    pairs: Ints
    """Triangles that meet, sorted."""
    kind: NDArray[np.int8]
    reason: Reason | None
    stopped: int | None
    """When the last test was over, or should have been; None if there was none."""


class ExactStage:
    """Buffers and lists of triangles that one detector keeps."""

    def __init__(self, *, is_self: bool = False, skips_neighbours: bool = False) -> None:
        self._is_self, self._skips_neighbours = is_self, skips_neighbours
        self._key: NDArray[np.uint64] = np.zeros(FIRST_KEYS, dtype=np.uint64)
        self._row: NDArray[np.int64] = np.zeros(FIRST_KEYS, dtype=np.int64)
        self._chunk_ns = FIRST_CHUNK_NS
        self.listing_ns = 0
        """What the last answer is thought to have taken to list."""
        self._below: dict[str, tuple[SphereHierarchy, tuple[Any, Ints]]] = {}

    def settle(
        self,
        placed: tuple[Seat, Seat],
        leaves: Ints,
        limits: Limits,
        choice: Choice,
        deadline: int,
        stats: dict[str, Any],
    ) -> Settled:
        """Test triangles below pairs of leaves, of which there are some, until all are done or a limit is reached."""
        latest = deadline - LEAVES_NS * len(leaves)
        begun = now_ns()
        if begun >= latest:
            self.listing_ns = 0
            stats["triangle_tests"], stats["exact_tests"] = 0, 0
            return Settled(leaves[:0], leaves, leaves[:0], NO_KINDS, "budget", None)
        status = np.full(len(leaves), kernels.OPEN, dtype=np.int8)
        state: NDArray[np.int64] = np.zeros(3, dtype=np.int64)
        sides = [self._side(side) for side in placed]
        tests_left = limits.tests - stats["tests"]
        slice_ns = SLICE_NS
        while not limits.cancelled:
            before, until = int(state[kernels.CURSOR]), latest
            if limits.cancel is not None:
                until = min(latest, now_ns() + slice_ns)
            why = kernels.examine_leaf_pairs(
                leaves, *sides, (tests_left, until, KEY_NS), (self._is_self, self._skips_neighbours),
                state, self._key, self._row, status,
            )  # fmt: skip
            if why == kernels.FULL:
                self._grow(sides, leaves[state[kernels.CURSOR]])
            elif why != kernels.OUT_OF_TIME or until == latest:
                break
            elif state[kernels.CURSOR] == before:
                slice_ns *= 2  # one pair of leaves takes longer
        stopped, count, done = now_ns(), int(state[kernels.FOUND]), int(state[kernels.CURSOR])
        keys, rows = self._key[:count], self._row[:count]
        if not choice.is_all:
            kept = choice.triangles(placed, keys)
            keys, rows = keys[kept], rows[kept]
        is_open = keys & np.uint64((1 << KIND_BITS) - 1) == 0
        if not choice.is_all:
            status[:done] = kernels.MISSED
            status[rows[is_open]] = kernels.OPEN
            status[rows[~is_open]] = kernels.HIT
        open_count = int(is_open.sum())
        hits = keys if not open_count else keys[~is_open]
        latest -= KEY_NS * count
        if open_count and now_ns() + self._chunk_ns < latest:
            settled = self._settle_open(placed, keys[is_open], rows[is_open], status, done, latest, limits)
            stopped, hits = now_ns(), np.concatenate([hits, settled])
        self.listing_ns = KEY_NS * count + LEAVES_NS * len(leaves)
        stopped = min(stopped, max(begun, latest))
        pairs, kind = unpack(sorted_unique(hits))
        stats["triangle_tests"], stats["exact_tests"] = int(state[kernels.TESTS]), open_count
        certain, untested = leaves[status == kernels.HIT], leaves[status == kernels.OPEN]
        order = np.argsort(certain[:, 0].astype(np.int64) << 32 | certain[:, 1])
        reason: Reason = "cancelled" if limits.cancelled else "budget"
        return Settled(certain[order], untested, pairs, kind, reason if len(untested) else None, stopped)

    def triangles_below(self, tree: SphereHierarchy, letter: str) -> tuple[Any, Ints]:
        """Triangles below the leaves of one side's tree; listed when first asked for."""
        below = self._below.get(letter)
        if below is None or below[0] is not tree:
            self._below[letter] = below = (tree, leaf_triangles(tree))
        return below[1]

    def _side(self, side: Seat) -> tuple[Any, ...]:
        return side.vertices(), side.faces, *self.triangles_below(side.tracked.tree, side.letter)

    def _grow(self, sides: list[Any], leaves: Ints) -> None:
        """Make room for all triangles below one more pair of leaves."""
        more = int(np.prod([side[2][node + 1] - side[2][node] for side, node in zip(sides, leaves)]))
        grown = len(self._key) + max(len(self._key), more)
        self._key, self._row = (
            np.concatenate([old, np.zeros(grown - len(old), old.dtype)]) for old in (self._key, self._row)
        )

    def _settle_open(
        self,
        placed: tuple[Seat, Seat],
        keys: NDArray[np.uint64],
        rows: NDArray[np.int64],
        status: NDArray[np.int8],
        done: int,
        deadline: int,
        limits: Limits,
    ) -> NDArray[np.uint64]:
        """Keys of those open pairs of triangles that meet; also tells what that makes of the pairs of leaves."""
        distinct, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1)
        meets = np.zeros(len(distinct), dtype=np.bool_)
        a, b = ((side.vertices(), side.faces) for side in placed)
        found = []
        tested = 0
        now = now_ns()
        while tested < len(distinct) and now + self._chunk_ns < deadline and not limits.cancelled:
            chunk = distinct[tested : tested + SETTLED_AT_ONCE]
            hit = resolve_self(chunk, *a) if self._is_self else settle(chunk, *a, *b)
            found.append(hit)
            meets[tested : tested + len(chunk)] = np.isin(chunk >> np.uint64(KIND_BITS), hit >> np.uint64(KIND_BITS))
            tested += len(chunk)
            before, now = now, now_ns()
            self._chunk_ns = now - before
        status[rows[meets[place]]] = kernels.HIT
        waits: NDArray[np.bool_] = np.zeros(len(status), dtype=np.bool_)
        waits[done:] = True
        waits[rows[place >= tested]] = True
        status[(status == kernels.OPEN) & ~waits] = kernels.MISSED
        return np.concatenate([np.zeros(0, dtype=np.uint64), *found])
