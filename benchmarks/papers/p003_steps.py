"""Deforming steps of [Teschner2003], section 6: all bodies move, then every candidate is asked, in turns.

A step moves the bodies of all scenes, untimed, and then times the query of each candidate: hashing of vertices and
tets, all tests, sorted contacts. Another candidate is the first at each step, and finds the positions in no cache. The
first step is taken once beforehand, untimed, since it may compile. At every step all contacts of all candidates on one
scene are compared; of candidates on other scenes (the same tets as one body) their number. If any differ, no time is
returned.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, cast

import numpy as np

from benchmarks.measure import Row
from benchmarks.papers.p003_scenes import tet_bodies
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth.edge_contacts import edge_contacts
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.published.spatial_hash import Collisions, SpatialHashing
from impinge.scenes.registry import Scene

Contacts: TypeAlias = VertexContacts | Collisions

COUNTERS = {"vertices_met": "vertices met", "inside_tests": "inside tests"}
"""What the published scheme counts, and its label."""


@dataclass(frozen=True)
class Candidate:
    """Who is asked, and about what."""

    name: str
    scene: Scene
    query: Callable[[], Contacts]


def hashed(name: str, scene: Scene, *, edges: bool = False, cell_size: float | None = None) -> Candidate:
    """The production detector over all bodies of the scene."""
    detector = SpatialHash(tet_bodies(scene), cell_size=cell_size)
    return Candidate(name, scene, cast(Any, partial(detector.query, edges=edges)))


def published(name: str, scene: Scene, *, edges: bool = False, **options: Any) -> Candidate:
    """The scheme as published, with options of ``SpatialHashing``; ``edges`` adds the edge query of production."""
    hashing = SpatialHashing(tet_bodies(scene), **options)
    return Candidate(name, scene, partial(_detect_with_edges, hashing) if edges else hashing.detect)


def _detect_with_edges(hashing: SpatialHashing) -> Collisions:
    found = hashing.detect()
    positions = [body.vertices for body in hashing.bodies]
    vertex_start = np.cumsum([0, *map(len, positions)])
    edge_contacts([body.surface.snapshot() for body in hashing.bodies], np.concatenate(positions), vertex_start)
    return found


@dataclass(frozen=True)
class Measured:
    """One candidate over all steps."""

    row: Row
    ms: list[float]
    """Of each step."""
    contacts: list[int]
    counters: dict[str, float]
    """Means over the steps, by the names in ``COUNTERS``; empty for the production detector."""

    @property
    def met(self) -> float:
        """Vertices that tets met in their slots, per step."""
        return self.counters["vertices_met"]


def measure(label: str, candidates: Sequence[Candidate], times: Sequence[float]) -> dict[str, Measured]:
    """Time all candidates at all of these times, in turns; by name."""
    _step(label, candidates, times[0], first=0)
    steps = [_step(label, candidates, t, first=n % len(candidates)) for n, t in enumerate(times)]
    base = min(step[0][0] for step in steps)
    found = {}
    for n, candidate in enumerate(candidates):
        ms, contacts = [step[n][0] for step in steps], [len(step[n][1]) for step in steps]
        counted = [step[n][1].counters for step in steps]
        counters = {name: statistics.fmean(each[name] for each in counted) for name in counted[0]}
        told = [f"{statistics.fmean(contacts):,.1f} contacts"]
        told += [f"{count:,.0f} {COUNTERS[name]}" for name, count in counters.items()]
        row = Row(label, candidate.name, min(ms), statistics.median(ms), min(ms) / base, "; ".join(told))
        found[candidate.name] = Measured(row, ms, contacts, counters)
    return found


def _step(label: str, candidates: Sequence[Candidate], t: float, *, first: int) -> list[tuple[float, _Answer]]:
    for scene in {id(each.scene): each.scene for each in candidates}.values():
        scene.move(t)
    answers: dict[int, tuple[float, Contacts]] = {}
    for n in (*range(first, len(candidates)), *range(first)):
        began = perf_counter()
        contacts = candidates[n].query()
        answers[n] = 1e3 * (perf_counter() - began), contacts
    in_order = [answers[n] for n in range(len(candidates))]
    _check_agreement(f"{label}, time {t:g}", candidates, [contacts for _, contacts in in_order])
    return [(ms, _Answer(len(contacts), _counters(contacts))) for ms, contacts in in_order]


@dataclass(frozen=True)
class _Answer:
    """What is kept of a step: thousands of contacts times thousands of steps would be too much."""

    count: int
    counters: dict[str, int]

    def __len__(self) -> int:
        return self.count


def _counters(contacts: Contacts) -> dict[str, int]:
    return {name: getattr(contacts, name) for name in COUNTERS} if isinstance(contacts, Collisions) else {}


def _check_agreement(where: str, candidates: Sequence[Candidate], answers: Sequence[Contacts]) -> None:
    first: dict[int, Contacts] = {}
    for candidate, found in zip(candidates, answers):
        right = first.setdefault(id(candidate.scene), found)
        agrees = len(found) == len(answers[0]) and all(
            np.array_equal(getattr(found, name), getattr(right, name)) for name in ("body", "vertex", "in_body", "tet")
        )
        if not agrees:
            raise AssertionError(
                f"{where}: {candidate.name} finds {len(found)} contacts and {candidates[0].name} {len(answers[0])}, "
                "or others, so that no time counts"
            )
