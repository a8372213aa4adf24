"""Which method fits: decided from what is asked and what the bodies are, never by the clock.

Pairs     Each method that finds all pairs of triangles has a cost, the sum of
              call       what any question costs,
              build      for each body that is new to a tree: nobody asked about it before, or so many triangles were
                         edited since the last question that a tree is built anew,
              patch      for each body of which fewer triangles were added or removed since the last question,
              transform  for each body that the question moves by a transform, as rigid ones are,
              triangle   for each triangle that takes part: live, and active where the question says which are,
              alone      for each triangle of a body that is asked about itself,
              new        for each triangle that has to be put into a tree: all of the first kind, edited ones of the
                         second. Who asks about the same triangles again gets a tree: it will pay,
              middle     for the geometric mean of the numbers of triangles of both bodies, √(n m); n of one body,
              pair       for each pair of triangles, n m; n² / 2 of one body,
          in microseconds (``auto_costs.json``, fitted over the scenes by ``benchmarks.auto_fit``). The least sum is
          taken; of equal ones the first by name. The same questions get the same methods on every machine.
Contacts  of a world: vertices inside closed bodies have depths; where nothing is closed, there are only the pairs. If
          a budget is too short for vertices to settle half of the near bodies, sphere trees, which can be stopped at
          any time, get it instead. A budget in milliseconds counts as many tests as ``auto_costs.json`` says.

The choice and the reason are in ``stats`` of the result, as ``chosen`` and ``why``.
"""

from __future__ import annotations

import json
import math
from functools import cache, lru_cache
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import as_ids
from impinge.detect.boxes.tree import REBUILD_SHARE
from impinge.detect.common.pair_query import PairOptions
from impinge.mesh.elements import Mark
from impinge.mesh.tri_mesh import TriMesh

COSTS = Path(__file__).with_name("auto_costs.json")
ANY = PairOptions()


class Terms(NamedTuple):
    """How often each term of the costs occurs in a question; or what each costs, in microseconds."""

    call: float
    build: float
    patch: float
    transform: float
    triangle: float
    alone: float
    new: float
    middle: float
    pair: float


class LastQuery:
    """Kept with a body: its position in the history of edits when ``auto`` last chose a method for it."""

    def __init__(self, _: TriMesh) -> None:
        self.mark: Mark | None = None
        self.edits = -1
        """The number of edits at ``mark``, which is quicker to compare."""


@cache
def costs() -> dict[str, Terms]:
    """Microseconds of each term, by method."""
    read = json.loads(COSTS.read_text(encoding="utf-8"))["microseconds"]
    return {method: Terms(**read[method]) for method in sorted(read)}


# pairs ------------------------------------------------------------------------------------------------------


def features(a: TriMesh, b: TriMesh | None, options: PairOptions = ANY) -> Terms:
    """How often each term occurs in a query for the pairs of two bodies, or of one with itself."""
    counts, new, built, patched, moved = [], 0, 0, 0, 0
    for body, letter in ((a, "a"), (b, "b")):
        if body is None:
            continue
        active = getattr(options, f"active_{letter}")
        live = body.elements.live_count
        counts.append(live if active is None else len(as_ids(active, name=f"active_{letter}", count=len(body.faces))))
        moved += getattr(options, f"transform_{letter}") is not None
        last = body.structure("auto", LastQuery)
        _, motion, version, _ = body.positions.state
        if last.edits == version - motion:
            continue
        # Triangles that a tree would have to take in, and whether it would be built for them.
        if last.mark is None:
            edited = 0 if body.has_structure("boxes") else live
            is_built = edited > 0
        else:
            state = body.state()
            if last.mark.epoch != state.mark.epoch:
                edited = len(state.faces)
            else:
                edited = state.mark.added - last.mark.added + len(state.removed_since(last.mark))
            is_built = edited > REBUILD_SHARE * live
            edited, is_built = (live, live > 0) if is_built else (edited, False)
        new, built, patched = new + edited, built + is_built, patched + (edited > 0 and not is_built)
    if b is None:
        n = counts[0]
        return Terms(1, built, patched, moved, n, n, new, n, 0.5 * n**2)
    n, m = counts
    return Terms(1, built, patched, moved, n + m, 0, new, math.sqrt(n * m), n * m)


def choose_pairs(a: TriMesh, b: TriMesh | None, options: PairOptions = ANY) -> tuple[str, str]:
    """The method that finds all pairs of triangles at the least cost, and why."""
    terms = features(a, b, options)
    for body in (a, b):
        if body is not None:
            last, (_, motion, version, _) = body.structure("auto", LastQuery), body.positions.state
            edits = version - motion
            if last.edits != edits:
                last.mark, last.edits = body.state().mark, edits
    return _cheapest(terms)


@lru_cache(maxsize=1024)
def _cheapest(terms: Terms) -> tuple[str, str]:
    """The method with the least sum of costs, and why; frames that follow one another have the same terms."""
    ranked = sorted((sum(map(mul, terms, known)), method) for method, known in costs().items())
    (least, best), (more, next_best) = ranked[:2]
    return best, (
        f"about {_shown(least)} for {terms.triangle:.0f} triangles, {terms.new:.0f} of them new to a tree, and "
        f"{terms.transform:.0f} transforms; {next_best} about {_shown(more)}"
    )


def _shown(microseconds: float) -> str:
    return f"{microseconds:.0f} us" if microseconds < 1e3 else f"{1e-3 * microseconds:.1f} ms"


# contacts ---------------------------------------------------------------------------------------------------


@cache
def contact_costs() -> dict[str, float]:
    """Microseconds of a test, of a pair of bodies by vertices, and of one by spheres."""
    read: dict[str, float] = json.loads(COSTS.read_text(encoding="utf-8"))["contacts"]
    return read


def choose_contacts(closed_count: int, body_count: int) -> tuple[str, str]:
    """The way to find contacts in a world, and why."""
    if closed_count == 0:
        return "pairs", f"none of {body_count} bodies is closed, so that nothing has an inside to measure depths in"
    return "vertices", f"{closed_count} of {body_count} bodies are closed, and vertices inside them have depths"


def choose_within_budget(
    tests: NDArray[np.int64], budget_ms: float | None, max_tests: int | None
) -> tuple[str, str] | None:
    """Spheres and why, if vertices, which cost so many tests for each pair, could not settle half of the pairs."""
    near = len(tests)
    if max_tests is not None:
        settled, reached = _fitting(tests, max_tests), float(max_tests)
    else:
        assert budget_ms is not None
        known, microseconds = contact_costs(), 1e3 * float(budget_ms)
        settled = _fitting(known["pair"] + known["test"] * tests, microseconds)
        reached = microseconds / known["spheres"]
    if 2 * settled >= near or reached <= settled:
        return None
    return "spheres", f"the budget is enough to settle {settled} of {near} near pairs by their vertices"


def _fitting(costs: NDArray[Any], limit: float) -> int:
    """How many pairs the limit is enough for, from the cheapest on."""
    return int(np.searchsorted(np.cumsum(np.sort(costs)), limit, side="right"))
