"""Compile everything up front, so that no later query waits for the compiler.

Each job runs a query on a few triangles, once serial and once on threads: what runs is what is compiled, so the
list below is complete if it asks every question once. A test counts what is still compiled afterwards: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from impinge import queries, scenes
from impinge.backend import jit
from impinge.backend.sort import sort_keys

METHODS = ("box_tree", "brute_force")
"""The default and its judge; ``BreadthFirst`` compiles when it is first asked for, to keep this below a minute."""


@dataclass(frozen=True)
class Warmed:
    """One job done."""

    name: str
    seconds: float


def _pairs() -> None:
    for method in METHODS:
        # This scene has many pairs (a single one is not sorted), and pairs that only the exact test can decide.
        queries.triangle_pairs(*scenes.get("boxes_overlapping_by_half").bodies, method=method)


def _pairs_of_large_bodies() -> None:
    """Box trees search small bodies in one call and others in launches, and sort many keys by counting."""
    a, b = scenes.get("bumpy_spheres_20k").surfaces
    queries.triangle_pairs(a, b, method="box_tree")
    queries.self_pairs(a, method="box_tree")
    sort_keys(np.arange(2, dtype=np.uint64))


def _self_pairs() -> None:
    for method in METHODS:
        queries.self_pairs(scenes.get("boxes_overlapping_by_half").bodies[0], method=method)


def _containment() -> None:
    queries.check(*scenes.get("nested_spheres").bodies)


JOBS: dict[str, Callable[[], None]] = {
    "triangle pairs": _pairs,
    "pairs of large bodies": _pairs_of_large_bodies,
    "self-collision": _self_pairs,
    "containment": _containment,
}
"""What is asked, by name; one entry per question that compiles kernels of its own."""


def run_jobs() -> Iterator[Warmed]:
    """Run the jobs one by one, telling of each as it ends."""
    for name, job in JOBS.items():
        began = perf_counter()
        with jit.launch_always("serial"):
            job()
        with jit.launch_always("parallel"):
            job()
        yield Warmed(name, perf_counter() - began)


def warmup() -> float:
    """Compile all kernels for this machine, or load them from the cache; returns the seconds that it took."""
    return sum(job.seconds for job in run_jobs())
