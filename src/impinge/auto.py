"""Which method fits: decided from what is asked and what the bodies are, never by the clock.

Pairs     Each method that finds all pairs of triangles has a cost, the sum of
              call          what any question costs,
              triangle      for each triangle of both bodies,
              new_triangle  for each triangle of bodies that keep no tree yet, which has to be built; who asks about a
                            body a second time will ask again, and then a tree pays, so that it is not counted,
              pair          for each pair of triangles, one of a and one of b,
          in microseconds (``auto_costs.json``, fitted over the scenes by ``impinge bench auto_fit``). The least sum is
          taken; of equal ones the first by name. The same questions get the same methods on every machine.
Contacts  Vertices inside closed bodies have depths; where nothing is closed, there are only the pairs.

The choice and the reason are in ``stats`` of the result, as ``chosen`` and ``why``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from impinge.arrays import Floats
from impinge.mesh.tri_mesh import TriMesh

COSTS = Path(__file__).with_name("auto_costs.json")
ASKED = "asked for pairs"
"""What a body keeps once a method was chosen for it."""
TERMS = ("call", "triangle", "new_triangle", "pair")


@cache
def costs() -> dict[str, dict[str, float]]:
    """Microseconds of each term, by method."""
    read: dict[str, dict[str, float]] = json.loads(COSTS.read_text(encoding="utf-8"))["microseconds"]
    return read


def features(a: TriMesh, b: TriMesh | None) -> Floats:
    """How often each term occurs in a question about two bodies, or about one with itself."""
    bodies = [a] if b is None else [a, b]
    counts = [body.live_count for body in bodies]
    new = sum(count for body, count in zip(bodies, counts) if not (body.has_structure("boxes") or _was_asked(body)))
    pairs = counts[0] * counts[0] / 2.0 if b is None else counts[0] * counts[1]
    return np.array([1.0, sum(counts), new, pairs])


def choose_pairs(a: TriMesh, b: TriMesh | None) -> tuple[str, str]:
    """The method that finds all pairs of triangles at the least cost, and why."""
    terms = features(a, b)
    for body in (a, b):
        if body is not None:
            body.structure(ASKED, lambda _: True)
    cost = {name: float(terms @ [known[term] for term in TERMS]) for name, known in sorted(costs().items())}
    order = sorted(cost, key=lambda name: (cost[name], name))
    best, next_best = order[:2]
    return best, f"about {_shown(cost[best])} for {terms[1]:.0f} triangles; {next_best} about {_shown(cost[next_best])}"


def _was_asked(body: TriMesh) -> bool:
    return body.has_structure(ASKED)


def _shown(microseconds: float) -> str:
    return f"{microseconds:.0f} us" if microseconds < 1e3 else f"{1e-3 * microseconds:.1f} ms"


def choose_contacts(closed_count: int, body_count: int) -> tuple[str, str]:
    """The way to find contacts in a world, and why."""
    if closed_count == 0:
        return "pairs", f"none of {body_count} bodies is closed, so that nothing has an inside to measure depths in"
    return "vertices", f"{closed_count} of {body_count} bodies are closed, and vertices inside them have depths"
