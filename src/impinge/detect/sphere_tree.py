"""Contacts within a time budget: two trees of spheres, searched level by level until the time is up.

1. Place  the spheres of both bodies where these are now; each sphere is found when it is first visited
          (``sphere_tracking``).
2. Search [MendozaOSullivan2005, Fig. 7]. PAIRLIST, a queue, holds the pair of both roots. The first pair is taken out;
          if its spheres meet, the children of the second join the end of the queue, each paired with the first and
          before it, so that the descent alternates between the trees; two leaves go to COLLISIONLIST.
3. Stop   when the queue is empty, or the time or the number of tests that the caller allows is used up. What is
          then in COLLISIONLIST is ``certain``, what is in PAIRLIST is ``possible``.
4. Decide (``exact=True``) the triangles below pairs of leaves that meet, in turn. Such a pair is certain once
          triangles below it meet, and possible until they were tested.

Source      [MendozaOSullivan2005], section 4. Spheres of two bodies keep their names: ``possible`` and ``certain`` have
            a's in the first column, however often the search has swapped them.
Departures  Eight siblings are tested at once, in the order of the queue. A leaf that meets a sphere which is none is
            published to be swapped and tested again; here the other's children follow at once, unless
            ``retest=True``. The queue is bounded: when ``queue_limit`` entries wait, the newest are followed first,
            which needs no more room, until there is room again. ``order="priority"`` takes the pair that may
            penetrate deepest first, ``"depth"`` the newest, for comparison.
Guarantee   With a conservative tracking ("refit", "bound"): every pair of triangles that meet is below a pair in
            ``certain`` or ``possible``, at any time. Wrapped trees then find every pair of leaves whose triangles meet;
            layered ones every pair of leaves whose spheres do. ``certain`` only grows with the budget, and what is
            below ``possible`` only shrinks. What is found after n tests depends on n alone.
Budget      covers the whole call: the search stops as much earlier as listing its answer is expected to take.
            Where the time is not even enough for the roots, they are ``possible``, with the last spheres known, and
            ``stats["outdated"]`` says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Ints, as_length, shown
from impinge.backend.clock import now_ns
from impinge.backend.stages import start_stages
from impinge.detect import sphere_tree_deepest_kernels as deepest
from impinge.detect import sphere_tree_kernels as kernels
from impinge.detect.pair_query import Cancel, check_cancel
from impinge.detect.results import Reason, SphereContacts
from impinge.detect.sphere_hierarchy import SphereHierarchy
from impinge.detect.sphere_tracking import NEVER, TrackedSpheres, Tracking
from impinge.detect.sphere_tree_bodies import PlacedSpheres, place, steered_body
from impinge.detect.sphere_tree_choice import Choice
from impinge.detect.sphere_tree_exact import ExactStage
from impinge.errors import OptionError

Order: TypeAlias = Literal["breadth", "priority", "depth"]
ORDERS = ("breadth", "priority", "depth")

QUEUE_LIMIT = 1 << 20
"""Entries, of up to eight pairs, that wait at most before the newest are followed first: 8 MB."""
FIRST_QUEUE, FIRST_FOUND = 1 << 12, 1 << 12
ENTRY_NS = 30
"""What it takes to list an entry of the queue, up to eight pairs, at the end of a query."""
FOUND_NS = 30
PAIR_NS = 100
"""What it takes to list a pair that waits in the order of depth."""
AFTER_NS = 40_000
"""What it takes at first to make a result; measured from then on."""
RETURN_NS = 5_000
"""What it takes to return."""
SLACK_NS = 20_000
"""How late a query may be without harm: less than half of what is promised."""
MOST_AFTER_NS = 400_000
"""Beyond this, something else held the process up, which says nothing about the next query."""
SLICE_NS = 2_000_000
"""How often ``cancel`` is looked at."""
NOTHING_DONE = [0] * kernels.STATE_SIZE
NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int32)
ROOTS: Ints = np.zeros((1, 2), dtype=np.int32)


class Limits(NamedTuple):
    """What one query may take."""

    began: int
    budget: int
    """Nanoseconds."""
    tests: int
    level: Any
    cancel: Cancel | None

    @property
    def end(self) -> int:
        """When the time is up."""
        return NEVER if self.budget == NEVER else self.began + self.budget

    @property
    def seconds_left(self) -> float:
        """How long to wait for another query, -1 for as long as it takes."""
        return -1.0 if self.budget == NEVER else max(1e-9 * (self.end - now_ns()), 0.0)

    @property
    def cancelled(self) -> bool:
        """Whether the caller wants the query to stop."""
        return self.cancel is not None and self.cancel.is_set()


class Answer(NamedTuple):
    """What a search has found."""

    waiting: Ints
    """Pairs of nodes that were not followed, shape (p, 2)."""
    leaves: Ints
    """Pairs of leaves that meet, in the order in which they were found, shape (k, 2)."""
    level: int
    reason: Reason | None


class SphereTree:
    """Contacts of ``a`` and ``b`` as good as a time budget allows; kept between frames.

    ``tree_a``, ``tree_b``: hierarchies of ``build_spheres``; without, each body makes a quick one. ``tracking``: how
    spheres follow the bodies; "auto" is "bound" for bodies that are embedded in a coarse mesh, "refit" for others, both
    conservative; "paper" and "affine" follow ``controls`` vertices each and may miss contacts. ``exact`` goes on to the
    triangles. ``order``: "breadth", "priority" (deepest first) or "depth". ``queue_limit`` bounds the queue.
    """

    name = "sphere_tree"

    def __init__(
        self,
        a: Any,
        b: Any = None,
        *,
        tree_a: SphereHierarchy | None = None,
        tree_b: SphereHierarchy | None = None,
        tracking: Tracking | Literal["auto"] = "auto",
        controls: int = 8,
        exact: bool = False,
        order: Order = "breadth",
        queue_limit: int = QUEUE_LIMIT,
        retest: bool = False,
    ) -> None:
        if b is None:
            raise OptionError("b is missing, but sphere trees are searched in pairs: pass both bodies")
        if order not in ORDERS:
            raise OptionError(f"order is {shown(order)}, expected 'breadth', 'priority' or 'depth'")
        _whole(controls, "controls")
        _whole(queue_limit, "queue_limit")
        self._sides = (
            steered_body(a, tree_a, tracking, controls, "a"),
            steered_body(b, tree_b, tracking, controls, "b"),
        )
        if self._sides[0].surface is self._sides[1].surface:
            self._sides = (self._sides[0], replace(self._sides[1], is_twin=True))
        self.exact = bool(exact)
        self._exact = ExactStage()
        self._order = order
        self._limit = 0 if order == "depth" else queue_limit
        self._retest = retest
        self._queue: NDArray[np.int64] = np.zeros(FIRST_QUEUE, dtype=np.int64)
        self._found: NDArray[np.int64] = np.zeros(FIRST_FOUND, dtype=np.int64)
        self._state: NDArray[np.int64] = np.zeros(kernels.STATE_SIZE, dtype=np.int64)
        self._after_ns = AFTER_NS
        self._stopped = 0

    @property
    def bodies(self) -> tuple[Any, Any]:
        """The surfaces of both bodies."""
        return self._sides[0].surface, self._sides[1].surface

    def prepare(self) -> None:
        """Build what is missing, trees of spheres for one, so that the first query's budget need not."""
        for side in self._sides:
            if not side.is_empty:
                tracked = side.kept.tracked(side, side.surface.frame())
                if self.exact:
                    self._exact.triangles_below(tracked.tree, side.letter)

    def query(
        self,
        *,
        budget_ms: float | None = None,
        max_tests: int | None = None,
        level: int | None = None,
        transform_a: Any = None,
        transform_b: Any = None,
        active_a: Any = None,
        active_b: Any = None,
        ignore: Any = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
    ) -> SphereContacts:
        """Search until done, or until ``budget_ms`` milliseconds or ``max_tests`` tests are used up.

        Without either the search ends when all is tested. ``level`` is the finest level to go to: pairs that meet there
        are possible, unless they are leaves. With ``max_tests`` the answer is the same on every machine. ``active_a``,
        ``active_b`` (ids or mask): pairs without active triangles below both are left out. ``ignore`` and ``max_pairs``
        are about pairs of triangles, and need ``exact``.
        """
        choice = Choice(active_a, active_b, ignore, max_pairs)
        choice.check(exact=self.exact)
        limits = _limits(budget_ms, max_tests, level, cancel)
        if self._sides[0].is_empty or self._sides[1].is_empty:
            return self._nothing(limits)
        a, b = self._sides
        frame_a, frame_b = a.surface.frame(), b.surface.frame()
        tracked_a, tracked_b = a.kept.tracked(a, frame_a), b.kept.tracked(b, frame_b)
        first, second = (tracked_a, tracked_b) if id(tracked_a) < id(tracked_b) else (tracked_b, tracked_a)
        if not (first.lock.acquire(blocking=False) or first.lock.acquire(timeout=limits.seconds_left)):
            return self._no_time(limits)
        try:
            if not (second.lock.acquire(blocking=False) or second.lock.acquire(timeout=limits.seconds_left)):
                return self._no_time(limits)
            try:
                placed = (place(a, tracked_a, frame_a, transform_a), place(b, tracked_b, frame_b, transform_b))
                result = self._search(placed, limits, choice)
            finally:
                second.lock.release()
        finally:
            first.lock.release()
        if limits.budget != NEVER:
            self._learn(result)
        return result

    def _learn(self, result: SphereContacts) -> None:
        """Remember how long a result takes once the search has stopped, apart from listing what it has found."""
        listing = ENTRY_NS * len(result.possible) // 8 + FOUND_NS * len(result.certain)
        if self.exact:
            listing = self._exact.listing_ns
        taken = min(now_ns() - self._stopped - listing, MOST_AFTER_NS)
        self._after_ns = max(AFTER_NS // 4, taken + RETURN_NS, self._after_ns * 7 // 8)

    # the search --------------------------------------------------------------------------------------

    def _search(self, placed: tuple[PlacedSpheres, PlacedSpheres], limits: Limits, choice: Choice) -> SphereContacts:
        stages = start_stages()
        deadline = limits.end - max(self._after_ns - SLACK_NS, 0)
        in_time = all(side.tracked.track_all(deadline) for side in placed if side.tracked.is_whole)
        in_time = in_time and all(side.tracked.track_root(deadline) for side in placed)
        stages.done("update")
        self._stopped = now_ns()
        search = self._deepest_first if self._order == "priority" else self._traverse
        answer = search(placed, limits, deadline) if in_time else _roots("budget")
        stages.done("search")
        stats = self._stats(placed, in_time)
        result = self._result(placed, answer, limits, choice, deadline, stats)
        stages.done("list")
        result.stats.update(stages.times())
        return result

    def _traverse(self, placed: tuple[PlacedSpheres, PlacedSpheres], limits: Limits, deadline: int) -> Answer:
        a, b = (side.tracked for side in placed)
        down_a, down_b = a.layout.down(limits.level), b.layout.down(limits.level)
        most_blocks = max(a.layout.most_blocks, b.layout.most_blocks)
        while len(self._queue) < 16 * most_blocks:
            self._queue = np.zeros(2 * len(self._queue), dtype=np.int64)
        kernels.begin(self._queue, self._state)
        why = kernels.QUEUE_FULL
        while why in (kernels.QUEUE_FULL, kernels.FOUND_FULL):
            if limits.cancelled:
                why = kernels.OUT_OF_TIME
                break
            until = deadline if limits.cancel is None else min(deadline, now_ns() + SLICE_NS)
            why = kernels.traverse(
                *a.arrays, down_a, *b.arrays, down_b, self._queue, self._found, self._state,
                (limits.tests, until, ENTRY_NS, FOUND_NS, self._limit, most_blocks, self._retest),
            )  # fmt: skip
            if why == kernels.QUEUE_FULL:
                self._grow_queue()
            elif why == kernels.FOUND_FULL:
                self._found = np.concatenate([self._found, np.zeros_like(self._found)])
            elif why == kernels.OUT_OF_TIME and until < deadline:
                why = kernels.QUEUE_FULL  # a slice of the time is over, not the time
        self._stopped = now_ns()
        reason: Reason = "cancelled" if why == kernels.OUT_OF_TIME and limits.cancelled else "budget"
        return self._list(placed, reason)

    def _deepest_first(self, placed: tuple[PlacedSpheres, PlacedSpheres], limits: Limits, deadline: int) -> Answer:
        a, b = (side.tracked for side in placed)
        down_a, down_b = a.layout.down(limits.level), b.layout.down(limits.level)
        most_blocks = max(a.layout.most_blocks, b.layout.most_blocks)
        state, found = self._state, self._found
        key, pair = np.zeros(FIRST_QUEUE), np.zeros(FIRST_QUEUE, dtype=np.int64)
        deepest.begin_deepest(a.sphere, down_a[1], b.sphere, down_b[1], key, pair, found, state)
        why = kernels.QUEUE_FULL
        while why in (kernels.QUEUE_FULL, kernels.FOUND_FULL):
            if limits.cancelled:
                why = kernels.OUT_OF_TIME
                break
            until = deadline if limits.cancel is None else min(deadline, now_ns() + SLICE_NS)
            why = deepest.traverse_deepest(
                *a.arrays, down_a, *b.arrays, down_b, key, pair, self._found, state,
                (limits.tests, until, PAIR_NS, FOUND_NS, self._limit, most_blocks, False),
            )  # fmt: skip
            if why == kernels.QUEUE_FULL:
                key, pair = (np.concatenate([old, np.zeros_like(old)]) for old in (key, pair))
            elif why == kernels.FOUND_FULL:
                self._found = np.concatenate([self._found, np.zeros_like(self._found)])
            elif why == kernels.OUT_OF_TIME and until < deadline:
                why = kernels.QUEUE_FULL  # a slice of the time is over, not the time
        self._stopped = now_ns()
        reason: Reason = "cancelled" if why == kernels.OUT_OF_TIME and limits.cancelled else "budget"
        count = int(state[kernels.TAIL])
        waiting = pair[:count][np.lexsort((pair[:count], -key[:count]))]
        levels = (side.layout.level[nodes] for side, nodes in zip((a, b), _nodes(a, b, waiting).T))
        level = min((int(of.min()) for of in levels if count), default=1 << 30)
        return self._answer(a, b, _nodes(a, b, waiting), level, reason)

    def _grow_queue(self) -> None:
        larger: NDArray[np.int64] = np.zeros(2 * len(self._queue), dtype=np.int64)
        kernels.grow_queue(self._queue, self._state, larger)
        self._queue = larger

    def _list(self, placed: tuple[PlacedSpheres, PlacedSpheres], reason: Reason) -> Answer:
        """The pairs that wait and those that were found, as pairs of nodes."""
        a, b = (side.tracked.layout for side in placed)
        count = kernels.waiting_count(self._queue, self._state, a.lane_count, b.lane_count)
        waiting: Ints = np.zeros((count, 2), dtype=np.int32)
        level = kernels.list_waiting(
            self._queue, self._state, a.block_node, a.lane_count, a.block_level,
            b.block_node, b.lane_count, b.block_level, waiting,
        )  # fmt: skip
        return self._answer(placed[0].tracked, placed[1].tracked, waiting, level, reason)

    def _answer(self, a: TrackedSpheres, b: TrackedSpheres, waiting: Ints, level: int, reason: Reason) -> Answer:
        found = self._found[: int(self._state[kernels.FOUND])]
        if not self.exact:
            found.sort()  # slots stand in the order of nodes
        leaves = _nodes(a, b, found)
        finest = max(a.tree.level_count, b.tree.level_count) - 1
        return Answer(waiting, leaves, min(level, finest), reason if len(waiting) else None)

    # the answer --------------------------------------------------------------------------------------

    def _stats(self, placed: tuple[PlacedSpheres, PlacedSpheres], in_time: bool) -> dict[str, Any]:
        state = self._state.tolist() if in_time else NOTHING_DONE
        return {
            "tests": state[kernels.TESTS],
            "tracked_blocks": state[kernels.TRACKED],
            "queue_peak": state[kernels.PEAK],
            "followed_newest": state[kernels.BACKWARDS],
            "outdated": not all(side.tracked.root_is_current for side in placed),
        }

    def _result(
        self,
        placed: tuple[PlacedSpheres, PlacedSpheres],
        answer: Answer,
        limits: Limits,
        choice: Choice,
        deadline: int,
        stats: dict[str, Any],
    ) -> SphereContacts:
        possible, certain, level, reason = answer.waiting, answer.leaves, answer.level, answer.reason
        if limits.level is not None:
            possible, certain, level, reason = _above_leaves(placed, answer, limits.level)
        if not choice.is_all:
            possible, certain = choice.nodes(placed, possible), choice.nodes(placed, certain)
            reason = reason if len(possible) else None
        pairs, kind = None, None
        if self.exact:
            settled = self._exact.settle(placed, certain, limits, choice, deadline, stats)
            self._stopped = settled.stopped or self._stopped
            certain, pairs, kind = settled.certain, settled.pairs, settled.kind
            possible = np.concatenate([settled.untested, possible]) if len(settled.untested) else possible
            reason = reason or settled.reason
            if choice.max_pairs is not None and len(pairs) > choice.max_pairs:
                pairs, kind, reason = pairs[: choice.max_pairs], kind[: choice.max_pairs], reason or "limit"
        return SphereContacts(
            certain=certain,
            possible=possible,
            level=level,
            pairs=pairs,
            kind=kind,
            spheres=tuple(side.tracked.spheres for side in placed),
            bodies=self.bodies,
            complete=reason is None,
            reason=reason,
            method=self.name,
            stats=stats,
            elapsed_ms=1e-6 * (now_ns() - limits.began),
        )

    def _nothing(self, limits: Limits) -> SphereContacts:
        """The answer where a body has no triangles."""
        return self._plain(limits, NO_PAIRS, None)

    def _no_time(self, limits: Limits) -> SphereContacts:
        """The answer where another query held the spheres until the time was up."""
        return self._plain(limits, ROOTS, "budget")

    def _plain(self, limits: Limits, possible: Ints, reason: Reason | None) -> SphereContacts:
        return SphereContacts(
            certain=NO_PAIRS,
            possible=possible,
            level=0,
            pairs=NO_PAIRS if self.exact else None,
            kind=np.zeros(0, dtype=np.int8) if self.exact else None,
            bodies=self.bodies,
            complete=reason is None,
            reason=reason,
            method=self.name,
            stats={"tests": 0, "outdated": reason is not None},
            elapsed_ms=1e-6 * (now_ns() - limits.began),
        )


def _roots(reason: Reason) -> Answer:
    return Answer(ROOTS, NO_PAIRS, 0, reason)


def _nodes(a: TrackedSpheres, b: TrackedSpheres, found: NDArray[np.int64]) -> Ints:
    """Packed pairs of slots as pairs of nodes."""
    pairs: Ints = np.zeros((len(found), 2), dtype=np.int32)
    kernels.list_found(found, len(found), a.layout.block_node, b.layout.block_node, pairs)
    return pairs


def _above_leaves(
    placed: tuple[PlacedSpheres, PlacedSpheres], answer: Answer, cap: int
) -> tuple[Ints, Ints, int, Reason | None]:
    """Of pairs that meet at the finest level that was asked for, those that are no leaves are possible."""
    a, b = (side.tracked.tree.child_count == 0 for side in placed)
    are_leaves = a[answer.leaves[:, 0]] & b[answer.leaves[:, 1]]
    if are_leaves.all():
        return answer.waiting, answer.leaves, answer.level, answer.reason
    possible = np.concatenate([answer.waiting, answer.leaves[~are_leaves]])
    return possible, answer.leaves[are_leaves], min(answer.level, cap), answer.reason or "limit"


# Options --------------------------------------------------------------------------------------------------


def _limits(budget_ms: Any, max_tests: Any, level: Any, cancel: Any) -> Limits:
    began = now_ns()
    budget = NEVER
    if budget_ms is not None:
        budget = budget_ns(budget_ms)
    if max_tests is not None:
        _whole(max_tests, "max_tests")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int | np.integer) or level < 0):
        raise OptionError(f"level is {shown(level)}, expected a whole number from 0, the root's level")
    check_cancel(cancel)
    return Limits(began, budget, NEVER if max_tests is None else int(max_tests), level, cancel)


def budget_ns(budget_ms: Any) -> int:
    """A budget in nanoseconds."""
    length = as_length(budget_ms)
    if length is None or length == 0.0:
        raise OptionError(
            f"budget_ms is {shown(budget_ms)}, expected a positive number of milliseconds; leave it out for no limit"
        )
    return max(int(min(1e6 * length, 1e18)), 1)


def _whole(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise OptionError(f"{name} is {shown(value)}, expected a whole number from 1")
