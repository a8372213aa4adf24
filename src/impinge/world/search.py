"""Contacts of the near bodies of a world, by one method, within a budget that all pairs share.

vertices, pairs  Pairs are asked from the cheapest on, by the number of tests that each will cost, so that as many as
                 can be get an answer; those that the caller puts first before all others. ``max_tests`` decides
                 beforehand who is asked, and is deterministic; ``budget_ms`` looks at the clock between batches.
volume           The same, one pair after the other.
spheres          Every pair gets its part of what is left, as in ``share_budget``, and is searched until that is used
                 up. Where spheres of two surfaces are apart, one body may still be inside the other: what is left of
                 the budget goes to the vertices of such pairs, and of bodies with themselves. Spheres stand off, and
                 meet before surfaces do; so where the box of one body is within the other's, the search goes on to the
                 triangles, which tell a body inside from one that sticks out.

Pairs that got no answer, or only a part of it, are left over: bodies that may touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from impinge.checks import as_numbers, shown
from impinge.contact.contacts import Columns, joined, sphere_rows, volume_row
from impinge.contact.volume_gradient import VolumeGradients
from impinge.detect.common.containment import enclosure
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import OptionError
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.world.batch_contacts import ArenaContacts
from impinge.world.surface_batch import Arena, Ids, Layout

METHODS = ("vertices", "pairs", "volume", "spheres")
"""Ways to find contacts; "auto" picks one."""
BATCH = 100_000
"""Tests between two looks at the clock: about a tenth of a millisecond."""


class Budget(NamedTuple):
    """What one question may take; nothing is limited if both are None."""

    max_tests: int | None
    ends: float | None
    """When the time is up, by ``perf_counter``."""

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.max_tests is not None or self.ends is not None

    @property
    def milliseconds_left(self) -> float:
        """Until the time is up; there has to be an end."""
        assert self.ends is not None
        return 1e3 * (self.ends - perf_counter())


def make_budget(budget_ms: Any, max_tests: Any, began: float) -> Budget:
    """Check what the caller allows."""
    if budget_ms is not None and max_tests is not None:
        raise OptionError("budget_ms and max_tests are both given; choose one, max_tests if runs have to repeat")
    is_number = isinstance(budget_ms, int | float | np.integer | np.floating) and not isinstance(budget_ms, bool)
    if budget_ms is not None and not (is_number and budget_ms > 0.0):
        raise OptionError(f"budget_ms is {shown(budget_ms)}, expected a positive number of milliseconds, or None")
    is_whole = isinstance(max_tests, int | np.integer) and not isinstance(max_tests, bool)
    if max_tests is not None and not (is_whole and max_tests > 0):
        raise OptionError(f"max_tests is {shown(max_tests)}, expected a whole number from 1, or None")
    return Budget(max_tests, None if budget_ms is None else began + 1e-3 * float(budget_ms))


class WorldSearch:
    """Finds contacts of one set of bodies; keeps what methods need between frames."""

    def __init__(
        self,
        given: Sequence[Any],
        bodies: Sequence[TriMesh | TetMesh],
        surfaces: Sequence[TriMesh],
        keys: Sequence[int],
        last: Layout | None = None,
    ) -> None:
        self.arena = Arena(surfaces, last)
        self.in_arena = ArenaContacts(self.arena, bodies)
        self._steered = [body if hasattr(body, "rest_surface") else own for body, own in zip(given, surfaces)]
        """What sphere trees are made of: soft bodies as they are, of others the surface."""
        self._keys = keys
        """One for each body: the order in which two are asked about by spheres, which find a little more or less in the
        other order, must not depend on the order in which they were added."""
        self._insides: tuple[Layout, int] | None = None
        self._volumes: dict[tuple[int, int], VolumeGradients] = {}
        self._spheres: dict[tuple[int, int, bool], SphereTree] = {}

    def count_insides(self) -> int:
        """How many bodies have an inside: a piece that is closed by its indices, or by where its vertices are.

        Seams are looked at once for each topology, since those of a body that deforms stay closed.
        """
        layout = self.arena.layout
        closed = int(layout.is_closed.sum())
        if closed:
            return closed
        if self._insides is None or self._insides[0] is not layout:
            parts = zip(layout.vertex_start[:-1], layout.vertex_start[1:], layout.elements, layout.live)
            sides = (QueryBody(self.arena.x[first:end], faces, live) for first, end, faces, live in parts)
            self._insides = layout, sum(bool(enclosure(side)) for side in sides)
        return self._insides[1]

    def find(
        self, method: str, asked: Ids, budget: Budget, stats: dict[str, Any], ahead: int = 0
    ) -> tuple[list[Columns], Ids]:
        """Contacts of the pairs that there is time for, and the pairs that are left; ``ahead`` of them go first.

        Those that are left of the first ones keep their order and stand before the others, which are sorted.
        """
        if method == "spheres":
            return self._find_spheres(asked, budget, stats, ahead)
        if not budget.is_limited:
            return [self._ask(method, asked, stats)], asked[:0]
        return self._find_cheapest(method, asked, budget, stats, ahead)

    def _find_cheapest(
        self, method: str, asked: Ids, budget: Budget, stats: dict[str, Any], ahead: int
    ) -> tuple[list[Columns], Ids]:
        cost = self.in_arena.costs(asked)
        order = np.concatenate([np.arange(ahead), ahead + np.argsort(cost[ahead:], kind="stable")])
        total = np.cumsum(cost[order])
        stats["tests_wanted"] = int(total[-1]) if len(total) else 0
        if budget.max_tests is not None:
            count = max(int(np.searchsorted(total, budget.max_tests, side="right")), min(ahead, 1))
            found = [self._ask(method, asked[np.sort(order[:count])], stats)]
        else:
            found, count = [], 0
            while count < len(order) and (budget.milliseconds_left > 0.0 or count < min(ahead, 1)):
                spent = total[count - 1] if count else 0
                end = max(count + 1, int(np.searchsorted(total, spent + BATCH, side="right")))
                found.append(self._ask(method, asked[order[count:end]], stats))
                count = end
        stats["tests_spent"] = stats.get("tests_spent", 0) + (int(total[count - 1]) if count else 0)
        return found, _in_turn(asked, asked[order[count:]], ahead)

    def _ask(self, method: str, pairs: Ids, stats: dict[str, Any]) -> Columns:
        if method == "vertices":
            return self.in_arena.find(pairs, stats)
        if method == "pairs":
            return self.in_arena.curves(pairs, stats)
        return joined([self._volume(a, b) for a, b in pairs.tolist() if a != b])

    def _volume(self, a: int, b: int) -> Columns:
        arena = self.arena
        if (a, b) not in self._volumes:
            self._volumes[a, b] = VolumeGradients(arena.surfaces[a], arena.surfaces[b])
        boxes = (np.stack([arena.low[k], arena.high[k]]) for k in (a, b))
        return volume_row(a, b, self._volumes[a, b].query(), *boxes)

    # spheres ----------------------------------------------------------------------------------------------

    def _find_spheres(self, asked: Ids, budget: Budget, stats: dict[str, Any], ahead: int) -> tuple[list[Columns], Ids]:
        is_self = asked[:, 0] == asked[:, 1]
        rows, open_pairs, apart, spent = list[Columns](), list[tuple[int, int]](), list[tuple[int, int]](), 0
        pairs = [(int(a), int(b)) for a, b in asked[~is_self]]
        for k, pair in enumerate(pairs):
            part = {} if k < min(ahead, 1) else _part(budget, spent, len(pairs) - k)
            if part is None:
                open_pairs.append(pair)
                continue
            first, second = sorted(pair, key=lambda body: self._keys[body])
            found = self._tree(first, second).query(**part)
            spent += found.stats["tests"] + found.stats.get("triangle_tests", 0)
            rows.append(sphere_rows(first, second, found))
            if len(found.possible):
                open_pairs.append(pair)
            elif not len(found):
                apart.append(pair)
        stats["tests_spent"] = spent
        rest = np.concatenate([_as_ids(apart), asked[is_self]])
        if budget.max_tests is not None:
            budget = budget._replace(max_tests=max(budget.max_tests - spent, 0))
        leads = (rest == asked[:1]).all(axis=1) if ahead else np.zeros(len(rest), dtype=np.bool_)
        rest = np.concatenate([rest[leads], rest[~leads]])
        inside, left = self.find("vertices", rest, budget, stats, int(leads.sum()))
        return [*rows, *inside], _in_turn(asked, np.concatenate([_as_ids(open_pairs), left]), ahead)

    def _tree(self, first: int, second: int) -> SphereTree:
        key = (first, second, self._is_within(first, second) or self._is_within(second, first))
        if key not in self._spheres:
            self._spheres[key] = SphereTree(self._steered[first], self._steered[second], exact=key[2])
            self._spheres[key].prepare()
        return self._spheres[key]

    def _is_within(self, body: int, other: int) -> bool:
        """Whether a body may be inside another: whether its box is."""
        low, high = self.arena.low, self.arena.high
        return bool((low[body] >= low[other]).all() and (high[body] <= high[other]).all())


def put_first(asked: Ids, first: Any, body_count: int) -> tuple[Ids, int]:
    """Pairs, those in ``first`` that are among them at the front and in its order; and how many these are."""
    if first is None:
        return asked, 0
    wanted = as_numbers(first, "first")
    if wanted.size == 0:
        return asked, 0
    if wanted.ndim != 2 or wanted.shape[1] != 2 or wanted.dtype.kind not in "iu":
        raise OptionError(f"first has shape {wanted.shape} of {wanted.dtype}, expected pairs of numbers, (k, 2)")
    if wanted.min() < 0 or wanted.max() >= body_count:
        raise OptionError(
            f"first names body {int(wanted.min() if wanted.min() < 0 else wanted.max())}, but there are {body_count} "
            "bodies, numbered from 0 in the order of world.names"
        )
    number = {(a, b): k for k, (a, b) in enumerate(asked.tolist())}
    ordered = [(min(a, b), max(a, b)) for a, b in wanted.tolist()]
    place = list(dict.fromkeys(number[pair] for pair in ordered if pair in number))
    rest = np.ones(len(asked), dtype=np.bool_)
    rest[place] = False
    return np.concatenate([asked[place], asked[rest]]), len(place)


def _in_turn(asked: Ids, left: Ids, ahead: int) -> Ids:
    """The pairs that are left: those among the first ``ahead`` that were asked in that order, then the others, sorted.

    Who passes them as ``first`` to the next question thus lets each pair have its turn.
    """
    left = left[np.lexsort((left[:, 1], left[:, 0]))]
    if not ahead:
        return left
    place = {(a, b): k for k, (a, b) in enumerate(asked[:ahead].tolist())}
    waited = np.array([place.get((a, b), ahead) for a, b in left.tolist()], dtype=np.int64)
    return left[np.argsort(waited, kind="stable")]


def _part(budget: Budget, spent: int, count: int) -> dict[str, Any] | None:
    """What the next of ``count`` pairs may take, as a query takes it; None if nothing is left."""
    if budget.max_tests is not None:
        tests = (budget.max_tests - spent) // count
        return {"max_tests": tests} if tests > 0 else None
    if budget.ends is not None:
        milliseconds = budget.milliseconds_left / count
        return {"budget_ms": milliseconds} if milliseconds > 0.0 else None
    return {}


def _as_ids(pairs: Sequence[tuple[int, int]]) -> Ids:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
