"""Who is asked in a search that has no time for all pairs of bodies: each has its turn.

1. Begin.  A search gets ``budget_ms`` or ``max_tests`` for all its questions together.
2. Ask.    Pairs that got no time last come first, longest waiting before others; the rest follow from the cheapest on.
           The first pair is asked however dear it is, so that none waits for ever.
3. End.    Pairs that got no time are ``left``: their contacts stay as they were found last (``simulate.frame``), and
           they wait for the next search. Those that were answered in part, by coarse spheres, are told too.

Tests are what ``World.contacts`` and sphere trees count; of volumes and cloth, triangles that are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, TypeAlias

Pair: TypeAlias = tuple[int, int]
LEAST_MS = 1e-3
"""Time that a question gets at least, so that there is an answer, if only a rough one."""


class Turns:
    """What searches may take, and who waits."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self.limits = limits
        """``budget_ms`` or ``max_tests`` of one search, or nothing."""
        self.waiting: list[Pair] = []
        """Pairs that got no time in the last search, longest waiting first."""
        self.left: list[Pair] = []
        self.partial: list[Pair] = []
        """Pairs of this search that got no time, and those that got too little for a whole answer."""
        self.reserve_ms = math.inf
        """What all searches together may still take, until it is set anew."""
        self._spent, self._began = 0, perf_counter()

    def begin(self) -> None:
        """Begin a search."""
        self.left, self.partial = [], []
        self._spent, self._began = 0, perf_counter()

    def part(self, count: int = 1) -> dict[str, Any]:
        """What the next of ``count`` questions may take."""
        if "max_tests" in self.limits:
            return {"max_tests": max((self.limits["max_tests"] - self._spent) // count, 1)}
        if "budget_ms" in self.limits:
            return {"budget_ms": max(self._milliseconds_left() / count, LEAST_MS)}
        return {}

    def spend(self, tests: int) -> None:
        """Count what a question has cost."""
        self._spent += tests

    def in_turn(self, pairs: Sequence[Pair], cost: Callable[[int, int], int]) -> Iterator[Pair]:
        """Those pairs that there is time for, one after the other, at least one; ``cost`` counts in tests."""
        if not self.limits:
            yield from pairs
            return
        place = {pair: k for k, pair in enumerate(self.waiting)}
        queue = sorted(pairs, key=lambda pair: (place.get(pair, len(place)), cost(*pair)))
        for k, pair in enumerate(queue):
            tests = cost(*pair)
            if k and not self._affords(tests):
                self.left += queue[k:]
                return
            self._spent += tests
            yield pair

    def end(self) -> None:
        """Let those that got no time wait."""
        self.reserve_ms -= 1e3 * (perf_counter() - self._began)
        left = set(self.left)
        still = [pair for pair in self.waiting if pair in left]
        self.waiting = still + sorted(left.difference(still))

    def _affords(self, tests: int) -> bool:
        if "max_tests" in self.limits:
            return bool(self._spent + tests <= self.limits["max_tests"])
        return self._milliseconds_left() > 0.0

    def _milliseconds_left(self) -> float:
        return float(min(self.limits["budget_ms"], self.reserve_ms) - 1e3 * (perf_counter() - self._began))
