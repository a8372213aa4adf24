"""Deforming steps of [Teschner2003], section 6: all bodies move, then every candidate is queried, alternately.

A step moves the bodies of all scenes, untimed, and then times the query of each candidate: hashing of vertices and
tets, all tests, sorted contacts. Another candidate is the first at each step, with cold caches. The first step runs
once before, untimed, since it may compile. At every step all contacts of all candidates on one scene are compared;
of candidates on other scenes (the same tets as one body) their number. A difference raises and no time is returned.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from benchmarks.measure import Candidate as TimedCandidate
from benchmarks.measure import Row, interleave, row_of
from benchmarks.papers.p003_scenes import tet_bodies
from impinge.detect.common.results import VertexContacts
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.spatial_hash.triangles import edge_contacts
from impinge.published.spatial_hash import Collisions, SpatialHashing
from impinge.scenes.registry import Scene

Contacts: TypeAlias = VertexContacts | Collisions

COUNTERS = {"vertices_met": "vertices met", "inside_tests": "inside tests"}
"""Counters of the published scheme, with labels."""


@dataclass(frozen=True)
class Candidate:
    """A query by name, and its scene."""

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
        """Vertices in the slots of tets, per step."""
        return self.counters["vertices_met"]


def measure(label: str, candidates: Sequence[Candidate], times: Sequence[float]) -> dict[str, Measured]:
    """Time all candidates at all of these times, alternately; by name."""
    scenes = {id(each.scene): each.scene for each in candidates}.values()
    timed = [TimedCandidate(each.name, partial(_query, each)) for each in candidates]
    counts: list[list[int]] = [[] for _ in candidates]
    counters: list[list[dict[str, int]]] = [[] for _ in candidates]

    def move(t: float) -> None:
        for scene in scenes:
            scene.move(t)

    loop = interleave(timed, times, rounds=len(times), before=move)
    for t, samples in zip(times, loop):
        answers = [sample.answer for (sample,) in samples]
        _check_agreement(f"{label}, time {t:g}", candidates, answers)
        for n, (sample,) in enumerate(samples):  # all contacts of thousands of steps would not fit into memory
            timed[n].times.append(sample.ms)
            counts[n].append(len(sample.answer))
            counters[n].append(_counters(sample.answer))
    found = {}
    for each, contacts, counted in zip(timed, counts, counters):
        means = {name: statistics.fmean(step[name] for step in counted) for name in counted[0]}
        notes = [f"{statistics.fmean(contacts):,.1f} contacts"]
        notes += [f"{count:,.0f} {COUNTERS[name]}" for name, count in means.items()]
        row = row_of(label, each.name, each.times, min(timed[0].times), "; ".join(notes))
        found[each.name] = Measured(row, each.times, contacts, means)
    return found


def _query(candidate: Candidate, _: float) -> Contacts:
    return candidate.query()


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
                "or others: no time counts"
            )
