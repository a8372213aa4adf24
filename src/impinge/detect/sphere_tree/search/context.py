"""The search context of one detector: buffers that grow as needed, and the int64 array that refers kernels to them.

``context_kernels`` defines the places of that array.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.clock import now_ns
from impinge.budget import NEVER, Budget
from impinge.checks import Cancel, Ints, Stats
from impinge.detect.sphere_tree.search import context_kernels as places
from impinge.detect.sphere_tree.search import kernels
from impinge.detect.sphere_tree.search.limits_kernels import first_reserve
from impinge.detect.sphere_tree.search.self_search import TWO_BODIES, OneBody
from impinge.detect.sphere_tree.search.tracked_spheres import TrackedSpheres

Trees: TypeAlias = tuple[TrackedSpheres, TrackedSpheres]
NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int32)
FIRST_SIZE, FIRST_WAITING = 1 << 12, 1 << 15
ENTRY_NS, HEAP_PAIR_NS, FOUND_NS = 50, 100, 30
"""Time to list an entry of the queue (up to eight pairs), a pair of the heap, a found pair."""
SLICE_NS = 2_000_000
"""Interval at which ``cancel`` is read."""


class SearchContext:
    """Buffers and learnt durations of searches of two trees."""

    def __init__(
        self, trees: Trees, one_body: OneBody | None, *, by_depth: bool, queue_limit: int, sorts: bool, reserve: Any
    ) -> None:
        self.trees, self.one_body = trees, one_body
        self._arrays: dict[int, NDArray[Any]] = {}
        self._context: NDArray[np.int64] = np.zeros(places.CONTEXT_SIZE, dtype=np.int64)
        self.reserve = self._context[places.RESERVE : places.STATE]
        """Learnt durations (``limits_kernels``)."""
        self.reserve[:] = first_reserve() if reserve is None else reserve
        self.returned = 0
        """When the last query was about to return; 0 if that says nothing."""
        most_blocks = max(tree.layout.most_blocks for tree in trees)
        size = max(FIRST_SIZE, 1 << (16 * most_blocks - 1).bit_length())
        arrays: tuple[NDArray[Any], ...] = (
            np.zeros(size, dtype=np.int64), np.zeros(size if by_depth else 0),
            np.zeros(size, dtype=np.int64), np.zeros((size, 2), dtype=np.int32),
            np.zeros((FIRST_WAITING, 2), dtype=np.int32), trees[0].descriptor, trees[1].descriptor,
            trees[0].layout.child_count, trees[1].layout.child_count,
            *(TWO_BODIES if one_body is None else one_body.arrays),
        )  # fmt: skip
        for k, array in enumerate(arrays):
            self._put(2 * k, array)
        entry_ns = HEAP_PAIR_NS if by_depth else ENTRY_NS
        self._context[places.ENTRY_NS : places.RESERVE] = entry_ns, FOUND_NS, queue_limit, most_blocks, sorts, by_depth
        self.level: int | None = None
        """The finest level of searches."""

    def _put(self, place: int, array: NDArray[Any]) -> None:
        """Keep an array, and write its address and length."""
        self._arrays[place] = array
        self._context[place : place + 2] = array.__array_interface__["data"][0], len(array)

    def set_level(self, level: int | None) -> None:
        """Set the finest level of later searches."""
        self.level = level
        for k, tree in enumerate(self.trees):
            self._put(places.DOWN_AT + 2 * k, tree.layout.child_count_above(level))

    def deadline(self, began: int, end: int) -> int:
        """When the work of a query has to stop for the query to return at ``end``."""
        return int(kernels.deadline_of(self._context, began, end))

    def search(self, budget: Budget, end: int, cancel: Cancel | None) -> tuple[int, int, int, int, Ints, Ints, Stats]:
        """Search within a budget, returning at ``end``.

        Why it stopped, the level that was searched everywhere, the deadline, the number of tests, waiting pairs of
        nodes, found pairs of leaves, and counters.
        """
        context, until, is_resumed = self._context, NEVER, False
        while True:
            if cancel is not None:
                end, until = 0 if cancel.is_set() else end, now_ns() + SLICE_NS
            summary = kernels.search(context, budget.tests, budget.began_ns, end, until, self.returned, is_resumed)
            stop, level, deadline, waiting, found, tests, tracked, peak, newest, is_current = summary
            if stop <= places.OUT_OF_TESTS:
                break
            is_resumed = True
            grown = {places.QUEUE_FULL: (places.QUEUE_AT, places.KEY_AT), places.PAUSED: ()}
            for place in grown.get(stop, (places.FOUND_AT, places.LISTED_AT)):
                # twice the queue is the queue in a ring of twice the size
                self._put(place, np.concatenate([self._arrays[place], self._arrays[place]]))
        if waiting > len(self._arrays[places.WAITING_AT]):
            self._put(places.WAITING_AT, np.zeros((2 * waiting, 2), dtype=np.int32))
            waiting, level = kernels.list_waiting(context)
        certain = self._arrays[places.LISTED_AT][:found].copy() if found else NO_PAIRS
        stats: Stats = {"tests": tests, "tracked_blocks": tracked, "queue_peak": peak, "followed_newest": newest}
        stats["outdated"] = not is_current
        return stop, level, deadline, tests, self._arrays[places.WAITING_AT][:waiting].copy(), certain, stats

    def stop_later(self, stopped: int, listing_ns: int) -> None:
        """Record that work went on after the search, until a time, and the estimated time to list its result."""
        self._context[places.STATE + places.STOPPED] = stopped
        self._context[places.STATE + places.LISTING] = listing_ns
