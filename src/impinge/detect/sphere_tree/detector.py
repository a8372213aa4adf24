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
            published to be swapped and tested again; here the other's children follow at once. The queue is bounded:
            when ``queue_limit`` entries wait, the newest are followed first, which needs no more room, until there is
            room again. Normals of closed bodies are not lines of centres (``sphere_pushes``). ``order="priority"``
            takes the pair that may penetrate deepest first.
Guarantee   With a conservative tracking ("refit", "bound"): every pair of triangles that meet is below a pair in
            ``certain`` or ``possible``, at any time. Wrapped trees then find every pair of leaves whose triangles meet;
            layered ones every pair of leaves whose spheres do. ``certain`` only grows with the budget, and what is
            below ``possible`` only shrinks. What is found after n tests depends on n alone, and so do the spheres of
            pairs that wait: these are brought up to date then. When the time is up there is none left for that, and
            of such a pair the sphere that was not visited since its body moved is where it was last known. Squares of
            distances have to be numbers: all of this is about bodies between 1e-150 and 1e150 in size.
One body    against itself: the tree is searched against itself (``sphere_tree_self``). Triangles that share a vertex
            count only if they meet beyond it, which spheres cannot tell: without ``exact``, pairs of leaves whose
            triangles share a vertex are left out, and the guarantee is about all others.
Budget      covers the whole call: the search stops as much earlier as listing its answer is expected to take.
            Where the time is not even enough for the roots, they are ``possible``, with the last spheres known, and
            ``stats["outdated"]`` says so.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.backend.clock import now_ns
from impinge.backend.stages import NO_STAGES, start_stages
from impinge.checks import Floats, Ints, shown
from impinge.detect.common.narrow_phase import Neighbours, check_neighbours
from impinge.detect.common.pair_query import Cancel, pair_options
from impinge.detect.common.results import Reason
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search import kernels
from impinge.detect.sphere_tree.search.body_binding import Seat, steered_body
from impinge.detect.sphere_tree.search.context import NO_PAIRS, Desk, Searched, Trees
from impinge.detect.sphere_tree.search.exact import NO_KINDS, ExactStage
from impinge.detect.sphere_tree.search.limits import SLICE_NS, Limits, check_whole, limits_of
from impinge.detect.sphere_tree.search.self_search import OneBody
from impinge.detect.sphere_tree.search.triangle_filter import ALL, Choice
from impinge.detect.sphere_tree.track.tracking import NEVER, TrackedSpheres, Tracking
from impinge.errors import OptionError

Order: TypeAlias = Literal["breadth", "priority"]
ORDERS = ("breadth", "priority")

QUEUE_LIMIT = 1 << 20
"""Entries, of up to eight pairs, that wait at most before the newest are followed first: 8 MB."""
ENTRY_NS = 50
"""What it takes to list an entry of the queue, up to eight pairs, at the end of a query."""
FOUND_NS = 30
PAIR_NS = 100
"""What it takes to list a pair that waits in the order of depth."""
ROOTS: Ints = np.zeros((1, 2), dtype=np.int32)
NO_ROOTS = np.full(4, np.nan), np.full(4, np.nan)


class Seats(NamedTuple):
    """What a search is about as long as the triangles of both bodies stay the same."""

    a: Seat
    b: Seat
    """The same as ``a`` where one body is searched against itself, which must not be seen in two states."""
    trees: Trees
    are_layered: bool
    """Whether spheres of one of them have to be found all at once."""
    locks: tuple[Any, ...]
    """Of the detector and of both trees, in the order in which they are taken."""

    def take(self, limits: Limits) -> bool:
        """Wait for other queries to end; whether that was in time."""
        first, second, third = self.locks
        if first.acquire(False):  # at once, as a rule
            if second.acquire(False):
                if third.acquire(False):
                    return True
                second.release()
            first.release()
        for taken, lock in enumerate(self.locks):
            if not _wait_for(lock, limits):
                for held in self.locks[:taken]:
                    held.release()
                return False
        return True

    def leave(self) -> None:
        """Let other queries begin."""
        for lock in self.locks:
            lock.release()


def _wait_for(lock: Any, limits: Limits) -> bool:
    if limits.cancel is None:
        return bool(lock.acquire(timeout=limits.seconds_left))
    while not limits.cancelled and limits.seconds_left != 0.0:
        if lock.acquire(timeout=1e-9 * SLICE_NS):
            return True
    return False


class SphereTree:
    """Contacts of ``a`` and ``b``, or of ``a`` with itself, as good as a time budget allows; kept between frames.

    ``tree_a``, ``tree_b``: hierarchies of ``build_spheres``; without, each body makes a quick one. ``tracking``: how
    spheres follow the bodies; "auto" is "bound" for bodies that are embedded in a coarse mesh, "refit" for others, both
    conservative; "paper" and "affine" follow ``controls`` vertices each and may miss contacts. ``exact`` goes on to the
    triangles. ``order``: "breadth" or "priority" (deepest first). ``queue_limit`` bounds the queue.
    ``neighbours`` of one body: "exact" tests triangles that share a vertex for real, "skip" leaves them out.
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
        neighbours: Neighbours = "exact",
    ) -> None:
        if order not in ORDERS:
            raise OptionError(f"order is {shown(order)}, expected 'breadth' or 'priority'")
        check_whole(controls, "controls")
        check_whole(queue_limit, "queue_limit")
        self.is_self = b is None
        if self.is_self and tree_b is not None:
            raise OptionError("tree_b was given, but there is no b; leave it out for self-collision")
        skips = check_neighbours(neighbours, is_self=self.is_self)
        side = steered_body(a, tree_a, tracking, controls, "a")
        other = side if self.is_self else steered_body(b, tree_b, tracking, controls, "b")
        if not self.is_self and side.surface is other.surface:
            other = replace(other, is_twin=True)
        self._sides = (side, other)
        self._alone: OneBody | None = None
        self._bodies = (side.surface,) if self.is_self else (side.surface, other.surface)
        self.exact = bool(exact)
        self._exact = ExactStage(is_self=self.is_self, skips_neighbours=skips)
        by_depth = order == "priority"
        self._desk = Desk(
            by_depth=by_depth,
            limit=min(queue_limit, NEVER),
            sorts=not self.exact,
            waiting_ns=PAIR_NS if by_depth else ENTRY_NS,
            found_ns=FOUND_NS,
        )
        self._made_of = (a, b), {
            "tree_a": tree_a, "tree_b": tree_b, "tracking": tracking, "controls": controls, "exact": exact,
            "order": order, "queue_limit": queue_limit, "neighbours": neighbours,
        }  # fmt: skip
        self._seats: Seats | None = None
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle bodies and options; what is kept between frames is made again."""
        return _made_again, self._made_of

    @property
    def bodies(self) -> tuple[Any, ...]:
        """The surfaces of both bodies, or of the one."""
        return self._bodies

    def prepare(self) -> None:
        """Build what is missing, trees of spheres for one, so that the first query's budget need not."""
        with self._lock:
            for side in self._sides:
                frame = side.surface.state()
                if frame.live().any():
                    tracked = side.kept.tracked(side, frame)
                    tracked.outside.prepare()
                    self._one_body(tracked, frame.faces)
                    if self.exact:
                        self._exact.triangles_below(tracked.tree, side.letter)

    def _sit_down(self) -> Seats | None:
        """Look at both bodies as they are now; None if one of them has no triangles."""
        a, b = self._sides
        frame_a = a.surface.state()
        frame_b = frame_a if self.is_self else b.surface.state()
        if not (frame_a.live().any() and frame_b.live().any()):
            return None
        seat = Seat(a, frame_a)
        seats = seat, seat if self.is_self else Seat(b, frame_b)
        trees = seats[0].tracked, seats[1].tracked
        first, second = sorted(trees, key=id)
        are_layered = trees[0].is_whole or trees[1].is_whole
        return Seats(*seats, trees, are_layered, (self._lock, first.lock, second.lock))

    def _one_body(self, tracked: TrackedSpheres, faces: Ints) -> OneBody | None:
        """What a search has to know of one body; nothing of two."""
        if self.is_self and (self._alone is None or self._alone.layout is not tracked.layout):
            self._alone = OneBody(tracked.layout, faces, neighbours_count=self.exact)
        return self._alone

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
        limits = limits_of(budget_ms, max_tests, level, cancel)
        if self.is_self:
            of_b = {"transform_b": transform_b, "active_b": active_b}
            pair_options({name: value for name, value in of_b.items() if value is not None}, is_self=True)
            transform_b, active_b = transform_a, active_a
        choice = ALL
        if not (active_a is None and active_b is None and ignore is None and max_pairs is None):
            choice = Choice(active_a, active_b, ignore, max_pairs, self.is_self)
            choice.check(exact=self.exact)
        seats = self._seats
        if seats is None or seats.a.elements.mark is not seats.a.mark or seats.b.elements.mark is not seats.b.mark:
            seats = self._seats = self._sit_down()
            if seats is None:
                return self._nothing(limits)
        if not seats.take(limits):
            return self._no_time(limits)
        try:
            seats.a.place(transform_a)
            if seats.b is not seats.a:
                seats.b.place(transform_b)
            return self._search(seats, limits, choice)
        finally:
            seats.leave()

    # the search --------------------------------------------------------------------------------------

    def _search(self, seats: Seats, limits: Limits, choice: Choice) -> SphereContacts:
        stages, desk, end = start_stages(), self._desk, limits.end
        if desk.trees is not seats.trees:
            desk.set_trees(seats.trees, self._one_body(seats.a.tracked, seats.a.faces))
        if desk.level != limits.level:
            desk.set_level(limits.level)
        if seats.are_layered and not _track_whole(seats.trees, desk.deadline(limits.began, end)):
            end = 0
        if stages is not NO_STAGES:
            stages.done("update")
        if limits.cancel is None:
            searched = desk.search(limits.tests, limits.began, end)
        else:
            searched = self._search_in_slices(limits, limits.cancel, end)
        if stages is not NO_STAGES:
            stages.done("search")
        result = self._result(seats, searched, limits, choice)
        if stages is not NO_STAGES:
            stages.done("list")
            result.stats.update(stages.times())
        desk.returned = 0 if limits.end == NEVER else now_ns()
        return result

    def _search_in_slices(self, limits: Limits, cancel: Cancel, end: int) -> Searched:
        goes_on = False
        while True:
            end = 0 if cancel.is_set() else end
            searched = self._desk.search(limits.tests, limits.began, end, now_ns() + SLICE_NS, goes_on)
            if searched.why != kernels.PAUSED:
                return searched
            goes_on = True

    # the answer --------------------------------------------------------------------------------------

    def _result(self, seats: Seats, searched: Searched, limits: Limits, choice: Choice) -> SphereContacts:
        why, tests, tracked, peak, newest, waiting, level, _, deadline, is_current = searched
        a, b = seats.a, seats.b
        possible, certain = self._desk.answer(searched)
        reason: Reason | None = None
        if waiting == 0:
            level = max(tree.layout.finest for tree in seats.trees)
        else:
            reason = "cancelled" if why == kernels.OUT_OF_TIME and limits.cancelled else "budget"
        fields: dict[str, Any] = {
            "certain": certain,
            "possible": possible,
            "level": level,
            "spheres": (a.tracked.spheres, b.tracked.spheres),
            "surfaces": ((a.outside, a.x, a.faces, a.matrix), (b.outside, b.x, b.faces, b.matrix)),
            "bodies": self._bodies,
            "complete": reason is None,
            "reason": reason,
            "method": self.name,
            "stats": {
                "tests": tests,
                "tracked_blocks": tracked,
                "queue_peak": peak,
                "followed_newest": newest,
                "outdated": not is_current,
            },
        }
        if self.is_self:
            spheres = a.tracked.spheres._replace(one_body=self._alone)
            fields |= {"is_self": True, "spheres": (spheres, spheres)}
        if self.exact or limits.level is not None or choice is not ALL:
            self._refine(fields, seats, limits, choice, deadline)
        return _contacts(fields, limits)

    def _refine(self, fields: dict[str, Any], seats: Seats, limits: Limits, choice: Choice, deadline: int) -> None:
        """Do to an answer what not every query asks for: a finest level, chosen triangles, the exact stage."""
        possible, certain, level, reason = (fields[name] for name in ("possible", "certain", "level", "reason"))
        if limits.level is not None:
            possible, certain, level, reason = _above_leaves(seats, (possible, certain, level, reason), limits.level)
        if not choice.is_all:
            possible, certain = choice.nodes(seats[:2], possible), choice.nodes(seats[:2], certain)
            reason = reason if len(possible) else None
        if self.exact and not len(certain):
            fields |= {"pairs": NO_PAIRS, "kind": NO_KINDS}
            fields["stats"] |= {"triangle_tests": 0, "exact_tests": 0}
        elif self.exact:
            settled = self._exact.settle(seats[:2], certain, limits, choice, deadline, fields["stats"])
            if settled.stopped is not None:
                self._desk.stop_later(settled.stopped, self._exact.listing_ns)
            certain, pairs, kind = settled.certain, settled.pairs, settled.kind
            possible = np.concatenate([settled.untested, possible]) if len(settled.untested) else possible
            reason = reason or settled.reason
            if choice.max_pairs is not None and len(pairs) > choice.max_pairs:
                pairs, kind, reason = pairs[: choice.max_pairs], kind[: choice.max_pairs], reason or "limit"
            fields |= {"pairs": pairs, "kind": kind}
        fields |= {"possible": possible, "certain": certain, "level": level, "reason": reason}
        fields["complete"] = reason is None

    def unasked(self) -> SphereContacts:
        """The answer where there is no time at all: nothing is ruled out."""
        limits = limits_of(None, None, None, None)
        return self._no_time(limits) if all(body.live_count for body in self._bodies) else self._nothing(limits)

    def roots(self) -> tuple[Floats, Floats]:
        """The spheres around both bodies as the last query saw them, at rest before the first; NaN if there is none."""
        seats = self._seats = self._seats or self._sit_down()
        return NO_ROOTS if seats is None else (seats.trees[0].root, seats.trees[1].root)

    def _nothing(self, limits: Limits) -> SphereContacts:
        """The answer where a body has no triangles."""
        return self._plain(limits, NO_PAIRS, None)

    def _no_time(self, limits: Limits) -> SphereContacts:
        """The answer where another query held the spheres until the time was up."""
        return self._plain(limits, ROOTS, "cancelled" if limits.cancelled else "budget")

    def _plain(self, limits: Limits, possible: Ints, reason: Reason | None) -> SphereContacts:
        fields: dict[str, Any] = {
            "certain": NO_PAIRS,
            "possible": possible,
            "level": 0,
            "is_self": self.is_self,
            "bodies": self._bodies,
            "complete": reason is None,
            "reason": reason,
            "method": self.name,
            "stats": {"tests": 0, "outdated": reason is not None},
        }
        if self.exact:
            fields |= {"pairs": NO_PAIRS, "kind": NO_KINDS}
        return _contacts(fields, limits)


def _contacts(fields: dict[str, Any], limits: Limits) -> SphereContacts:
    """As the constructor, which would take microseconds longer."""
    fields["elapsed_ms"] = 1e-6 * (now_ns() - limits.began)
    result = object.__new__(SphereContacts)
    object.__setattr__(result, "__dict__", fields)
    return result


def _made_again(bodies: tuple[Any, Any], options: dict[str, Any]) -> SphereTree:
    return SphereTree(*bodies, **options)


def _track_whole(trees: Trees, deadline: int) -> bool:
    """Find all spheres of layered trees; whether there was time to."""
    return all(not tracked.is_whole or tracked.track_all(deadline) for tracked in trees)


Answer: TypeAlias = tuple[Ints, Ints, int, Reason | None]
"""Pairs that wait, pairs that were found, the level of the former, and why there are any."""


def _above_leaves(seats: Seats, answer: Answer, cap: int) -> Answer:
    """Of pairs that meet at the finest level that was asked for, those that are no leaves are possible."""
    possible, found, level, reason = answer
    a, b = (tracked.tree.child_count == 0 for tracked in seats.trees)
    are_leaves = a[found[:, 0]] & b[found[:, 1]]
    if are_leaves.all():
        return answer
    return np.concatenate([possible, found[~are_leaves]]), found[are_leaves], min(level, cap), reason or "limit"
