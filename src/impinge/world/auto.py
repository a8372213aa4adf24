"""Choice of a method by a cost model, from the query and the bodies, never by the clock.

Pairs     Each method that finds all pairs of triangles has a cost, the sum of
              call       per query,
              build      per body without a tree, or with so many edits since the last query that its tree is rebuilt,
              patch      per body with fewer triangles added or removed since the last query,
              transform  per body with a transform,
              triangle   per triangle that takes part: live and active,
              alone      per triangle in self-collision,
              new        per triangle to insert into a tree: all triangles under ``build``, edited ones under ``patch``,
              middle     per geometric mean of the numbers of triangles of both bodies, √(n m); n in self-collision,
              pair       per pair of triangles, n m; n² / 2 in self-collision,
          in microseconds (``auto_costs.json``, fitted over the scenes by ``benchmarks.auto_fit``). The method with the
          least sum is chosen; of equal ones the first by name. A repeated query for the same triangles does not count
          the construction of a tree: a tree pays then. The choice is the same on every machine.
Contacts  of a world: "vertices" if a body is closed, otherwise "pairs". If a budget is too short for the vertices of
          half of the near pairs, "spheres", whose search can be interrupted at any time. ``auto_costs.json`` converts
          a budget in milliseconds to tests.

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

from impinge.budget import Budget
from impinge.checks import as_ids
from impinge.detect.boxes.tree import REBUILD_SHARE
from impinge.detect.common.pair_query import PairOptions
from impinge.mesh.elements import Mark
from impinge.mesh.tri_mesh import TriMesh

COSTS = Path(__file__).with_name("auto_costs.json")
ANY = PairOptions()


class Terms(NamedTuple):
    """Number of occurrences of each cost term in a query; or the cost of each, in microseconds."""

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
        """The number of edits at ``mark``, which is faster to compare."""


@cache
def costs() -> dict[str, Terms]:
    """Microseconds of each term, by method."""
    read = json.loads(COSTS.read_text(encoding="utf-8"))["microseconds"]
    return {method: Terms(**read[method]) for method in sorted(read)}


# pairs ------------------------------------------------------------------------------------------------------


def features(a: TriMesh, b: TriMesh | None, options: PairOptions = ANY, *, remember: bool = False) -> Terms:
    """Occurrences of each term in a query for the pairs of two bodies, or of one with itself.

    With ``remember``, bodies store their position in the edit history: triangles then count as known to a tree.
    """
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
        # Triangles to insert into a tree, and whether the tree is built.
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
        if remember:
            last.mark, last.edits = body.elements.mark, version - motion
    if b is None:
        n = counts[0]
        return Terms(1, built, patched, moved, n, n, new, n, 0.5 * n**2)
    n, m = counts
    return Terms(1, built, patched, moved, n + m, 0, new, math.sqrt(n * m), n * m)


@lru_cache(maxsize=1024)
def choose_pairs(terms: Terms) -> tuple[str, str]:
    """The method that finds all pairs at the least cost, and the reason; consecutive frames have the same terms."""
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
    """Microseconds per test, per pair of bodies by vertices, and per pair by spheres."""
    read: dict[str, float] = json.loads(COSTS.read_text(encoding="utf-8"))["contacts"]
    return read


def choose_contacts(closed_count: int, body_count: int) -> tuple[str, str]:
    """The method for contacts in a world, and the reason."""
    if closed_count == 0:
        return "pairs", f"none of {body_count} bodies is closed: no depths"
    return "vertices", f"{closed_count} of {body_count} bodies are closed: vertices inside them have depths"


def choose_within_budget(tests: NDArray[np.int64], budget: Budget) -> tuple[str, str] | None:
    """Spheres and the reason, if the budget is too short for the vertices of half of the pairs; ``tests`` per pair."""
    near = len(tests)
    if budget.max_tests is not None:
        settled, reached = _fitting(tests, budget.tests), float(budget.tests)
    else:
        known, microseconds = contact_costs(), 1e-3 * (budget.end_ns - budget.began_ns)
        settled = _fitting(known["pair"] + known["test"] * tests, microseconds)
        reached = microseconds / known["spheres"]
    if 2 * settled >= near or reached <= settled:
        return None
    return "spheres", f"the budget suffices for the vertices of {settled} of {near} near pairs"


def _fitting(costs: NDArray[Any], limit: float) -> int:
    """Number of the cheapest pairs within the limit."""
    return int(np.searchsorted(np.cumsum(np.sort(costs)), limit, side="right"))
