"""Round-robin scheduling of body pairs that exceed the search budget.

1. Begin.    A search gets ``budget_ms`` or ``max_tests`` for all its queries together.
2. Schedule. Pairs skipped by the previous search come first, longest waiting first; the others follow by rising cost.
             The first pair always runs, whatever its cost: no pair starves.
3. End.      Pairs beyond the budget are ``skipped``: they keep the constraints of their last query (``simulate.frame``)
             and wait for the next search. Pairs queried in part, by coarse spheres, are ``partial``.

Tests are counted as in ``World.contacts`` and sphere trees; for volumes and cloth, one test per triangle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TypeAlias, TypedDict

Pair: TypeAlias = tuple[int, int]
LEAST_MS = 1e-3
"""Smallest budget of a query [ms]: every query returns at least a coarse result."""


class Limits(TypedDict, total=False):
    """Budget of a search: at most one of both."""

    budget_ms: float
    max_tests: int


class PairScheduler:
    """Budget of the current search and queue of waiting pairs."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: list[Pair] = []
        """Pairs skipped by the last search, longest waiting first."""
        self.skipped: list[Pair] = []
        """Pairs of this search that were not queried."""
        self.partial: list[Pair] = []
        """Pairs of this search whose query was incomplete."""
        self.reserve_ms = math.inf
        """Time left for all searches of the frame [ms]; set per frame by the frame-rate controller."""
        self._spent, self._began = 0, perf_counter()

    def begin(self) -> None:
        """Begin a search."""
        self.skipped, self.partial = [], []
        self._spent, self._began = 0, perf_counter()

    def share(self, count: int = 1) -> Limits:
        """Return the budget of the next of ``count`` queries."""
        if "max_tests" in self.limits:
            return {"max_tests": max((self.limits["max_tests"] - self._spent) // count, 1)}
        if "budget_ms" in self.limits:
            return {"budget_ms": max(self._milliseconds_left() / count, LEAST_MS)}
        return {}

    def spend(self, tests: int) -> None:
        """Charge the tests of a query to the budget."""
        self._spent += tests

    def schedule(self, pairs: Sequence[Pair], cost: Callable[[int, int], int]) -> Iterator[Pair]:
        """Yield the pairs that fit into the budget, at least one; ``cost`` returns the tests of a pair."""
        if not self.limits:
            yield from pairs
            return
        place = {pair: k for k, pair in enumerate(self.waiting)}
        queue = sorted(pairs, key=lambda pair: (place.get(pair, len(place)), cost(*pair)))
        for k, pair in enumerate(queue):
            tests = cost(*pair)
            if k and not self._fits(tests):
                self.skipped += queue[k:]
                return
            self._spent += tests
            yield pair

    def end(self) -> None:
        """End a search and queue its skipped pairs."""
        self.reserve_ms -= 1e3 * (perf_counter() - self._began)
        skipped = set(self.skipped)
        still = [pair for pair in self.waiting if pair in skipped]
        self.waiting = still + sorted(skipped.difference(still))

    def _fits(self, tests: int) -> bool:
        if "max_tests" in self.limits:
            return self._spent + tests <= self.limits["max_tests"]
        return self._milliseconds_left() > 0.0

    def _milliseconds_left(self) -> float:
        return min(self.limits["budget_ms"], self.reserve_ms) - 1e3 * (perf_counter() - self._began)
