"""What searches of one detector work on: buffers that grow as needed, and the desk, which tells kernels where they are.

Places in the desk, and what they mean, are those of ``sphere_tree_kernels``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.raw_arrays import address_of
from impinge.checks import Ints
from impinge.detect.sphere_tree.search import deepest_kernels as deepest
from impinge.detect.sphere_tree.search import kernels, limits_kernels
from impinge.detect.sphere_tree.search.self_search import NOBODY, OneBody
from impinge.detect.sphere_tree.track.tracking import NEVER, TrackedSpheres

NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int32)
Trees: TypeAlias = tuple[TrackedSpheres, TrackedSpheres]
FIRST_QUEUE, FIRST_FOUND, FIRST_WAITING = 1 << 12, 1 << 12, 1 << 15


class Searched(NamedTuple):
    """What a kernel tells of a search (``sphere_tree_kernels.summary_of``)."""

    why: int
    tests: int
    tracked: int
    queue_peak: int
    followed_newest: int
    waiting: int
    level: int
    found: int
    deadline: int
    is_current: bool


class Desk:
    """Buffers of one detector."""

    def __init__(self, *, by_depth: bool, limit: int, sorts: bool, waiting_ns: int, found_ns: int) -> None:
        self._by_depth = by_depth
        self._desk: NDArray[np.int64] = np.zeros(kernels.DESK_SIZE, dtype=np.int64)
        self._kept: dict[int, Any] = {}
        self._kernel = deepest.search_deepest if by_depth else kernels.search
        self.trees: Trees | None = None
        """What searches are about."""
        self.returned = 0
        """When the last query was about to return; 0 if that tells nothing."""
        self.level: int | None = None
        """The finest level that searches go to."""
        for place, value in (
            (kernels.WAITING_NS, waiting_ns),
            (kernels.FOUND_NS, found_ns),
            (kernels.LIMIT, limit),
            (kernels.SORTS, sorts),
        ):
            self._desk[place] = value
        self._desk[kernels.RESERVE : kernels.STATE] = limits_kernels.first_reserve()
        self._set_queue(np.zeros(FIRST_QUEUE, dtype=np.int64))
        self._set_found(FIRST_FOUND)
        self._set_waiting(FIRST_WAITING)

    # what lies on it ----------------------------------------------------------------------------------

    def _put(self, place: int, array: Any, size: int | None = None) -> None:
        """Put the address of an array on the desk, and its size into the place behind."""
        self._kept[place] = array
        self._desk[place] = address_of(array)
        if size is not None:
            self._desk[place + 1] = size

    def _set_queue(self, queue: NDArray[np.int64]) -> None:
        self._put(kernels.QUEUE_AT, queue, len(queue))
        if self._by_depth:
            self._put(kernels.KEY_AT, np.zeros(len(queue)))

    def _set_found(self, size: int) -> None:
        self._put(kernels.FOUND_AT, np.zeros(size, dtype=np.int64), size)
        self._listed: Ints = np.zeros((size, 2), dtype=np.int32)
        self._put(kernels.LISTED_AT, self._listed)

    def _set_waiting(self, size: int) -> None:
        self._waiting: Ints = np.zeros((size, 2), dtype=np.int32)
        self._put(kernels.WAITING_AT, self._waiting, size)

    def set_level(self, level: int | None) -> None:
        """Let later searches end at a level."""
        assert self.trees is not None
        a, b = self.trees
        self._desk[kernels.DOWN_A_AT], self._desk[kernels.DOWN_B_AT] = a.layout.down_at(level), b.layout.down_at(level)
        self.level = level

    def set_trees(self, trees: Trees, one_body: OneBody | None) -> None:
        """Let later searches be about these trees."""
        self.trees = a, b = trees
        self._put(kernels.CARD_A_AT, a.card)
        self._put(kernels.CARD_B_AT, b.card)
        self.set_level(None)
        arrays = NOBODY if one_body is None else one_body.arrays
        for place, array in zip((kernels.STAND_AT, kernels.START_AT, kernels.VERTEX_AT), arrays):
            self._put(place, array, len(array))
        most_blocks = max(a.layout.most_blocks, b.layout.most_blocks)
        self._desk[kernels.MOST_BLOCKS] = most_blocks
        while self._desk[kernels.QUEUE_SIZE] < 16 * most_blocks:
            self._set_queue(np.zeros(2 * self._desk[kernels.QUEUE_SIZE], dtype=np.int64))
        while self._desk[kernels.FOUND_SIZE] < 16 * most_blocks:
            self._set_found(2 * int(self._desk[kernels.FOUND_SIZE]))

    # searches -----------------------------------------------------------------------------------------

    def search(self, tests: int, began: int, end: int, until: int = NEVER, goes_on: bool = False) -> Searched:
        """Search so that the query, which began at a time, returns at ``end``, or for ``tests`` tests; or pause."""
        told = self._kernel(self._desk, tests, began, end, until, self.returned, goes_on)
        while told[0] in (kernels.QUEUE_FULL, kernels.FOUND_FULL):
            self._grow(told[0])
            told = self._kernel(self._desk, tests, began, end, until, self.returned, True)
        searched: Searched = tuple.__new__(Searched, told)  # to call the class would take a microsecond
        return searched if searched.waiting <= len(self._waiting) else self._list_again(searched)

    def _list_again(self, searched: Searched) -> Searched:
        """Make room for all pairs that wait, and list them."""
        self._set_waiting(max(searched.waiting, 2 * len(self._waiting)))
        list_again = deepest.list_deepest_again if self._by_depth else kernels.list_again
        waiting, level = list_again(self._desk)
        return searched._replace(waiting=waiting, level=level)

    def _grow(self, why: int) -> None:
        """Make room, so that the search can go on."""
        state = self._desk[kernels.STATE :]
        if why == kernels.FOUND_FULL:
            before, count = self._kept[kernels.FOUND_AT], int(state[kernels.FOUND])
            self._set_found(2 * len(before))
            self._kept[kernels.FOUND_AT][:count] = before[:count]
            return
        queue = self._kept[kernels.QUEUE_AT]
        larger: NDArray[np.int64] = np.zeros(2 * len(queue), dtype=np.int64)
        if self._by_depth:
            key, count = self._kept[kernels.KEY_AT], int(state[kernels.TAIL])
            larger[:count] = queue[:count]
            self._set_queue(larger)
            self._kept[kernels.KEY_AT][:count] = key[:count]
        else:
            kernels.grow_queue(queue, state, larger)
            self._set_queue(larger)

    # answers ------------------------------------------------------------------------------------------

    def deadline(self, began: int, end: int) -> int:
        """When the work of a query has to be over, so that it returns at ``end``."""
        return int(kernels.deadline_of(self._desk, began, end))

    def stop_later(self, stopped: int, listing_ns: int) -> None:
        """Tell that more was done after the search, until a time, and what it is thought to take to list that."""
        self._desk[kernels.STATE + kernels.STOPPED] = stopped
        self._desk[kernels.STATE + kernels.LISTING] = listing_ns

    def answer(self, searched: Searched) -> tuple[Ints, Ints]:
        """The pairs of nodes that wait, and the pairs of leaves that were found."""
        found = searched.found
        return self._waiting[: searched.waiting].copy(), self._listed[:found].copy() if found else NO_PAIRS
