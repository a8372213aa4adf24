"""The turn of [GressZachmann2004] (section 7): two identical objects, one rotates once, every detector at every step.

Object a is fixed. Object b is moved by a matrix per query, never by new vertices: it rotates about a fixed axis through
the centre of its bounding box, which is ``distance`` away from that of a. The first angle is half a step and the axis
is oblique: no step puts one object parallel to the other.

Each candidate has bodies of its own, since detectors of one body share its trees. Candidates alternate, one whole
rotation per visit; the first, which may compile, is not timed. In a last one, not timed either, the pairs of all
candidates are compared at every step, and counters collected: a difference raises and no time is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from benchmarks.measure import Row, interleaved, stages_timed, threads
from benchmarks.papers.p002_bodies import Body
from impinge.checks import Floats
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.breadth_first.detector import BreadthFirst, query_many
from impinge.detect.common.results import TrianglePairs
from impinge.published.breadth_first import (
    Expansion,
    Interference,
    InterferenceDetector,
    PerLineOrFragment,
    Transform,
    all_pairs,
    count_pairs,
)

AXIS = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
"""Rotation axis of b."""
STAGES = ("refit", "expand", "test", "triangles")
"""Of a breadth-first query: fit boxes, build the node pair index map, test boxes, test triangles."""

STAGE_COLUMNS = ("refit ms", "index map ms", "box tests ms", "triangles ms", "share of map")

Answer: TypeAlias = TrianglePairs | Interference | int
Turn: TypeAlias = Callable[[list[Floats]], list[Answer]]


def poses(distance: float, steps: int) -> list[Floats]:
    """The matrices of b, one per step."""
    return [_pose(distance, 2.0 * np.pi * (step + 0.5) / steps) for step in range(steps)]


def _pose(distance: float, angle: float) -> Floats:
    """Rotation about ``AXIS`` (Rodrigues), then translation along x."""
    x, y, z = AXIS
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    pose = np.eye(4)
    pose[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)
    pose[0, 3] = distance
    return pose


# Candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A detector by name."""

    name: str
    turn: Turn
    is_joint: bool = False
    """Whether all steps are one traversal: each answer has the counters of all."""


def breadth_first(name: str, body: Body, **options: Any) -> Candidate:
    """Step by step, level by level."""
    return _stepwise(name, BreadthFirst(body.copy(), body.copy(), **options))


def depth_first(name: str, body: Body) -> Candidate:
    """Step by step, by the depth-first box tree."""
    return _stepwise(name, BoxTree(body.copy(), body.copy()))


def counting(name: str, body: Body) -> Candidate:
    """Step by step, the number of pairs alone: the paper's occlusion query."""
    detector = BreadthFirst(body.copy(), body.copy())
    return Candidate(name, lambda matrices: [detector.count(transform_b=matrix) for matrix in matrices])


def published(
    name: str,
    body: Body,
    *,
    expansion: Expansion = "histopyramid",
    fuse: bool = False,
    transform: Transform = "boxes",
    entry_threshold: float | None = 0.25,
) -> Candidate:
    """Step by step, the hierarchical method as published; the defaults are the paper's own."""
    detector = InterferenceDetector(
        body.copy(), body.copy(), expansion=expansion, fuse=fuse, transform=transform, entry_threshold=entry_threshold
    )
    return Candidate(name, lambda matrices: [detector.query(matrix) for matrix in matrices])


def published_brute_force(name: str, body: Body, *, transform_per: PerLineOrFragment, is_listed: bool) -> Candidate:
    """Step by step, all m x n triangle tests as published; pairs are listed, or only counted."""
    a, b = body.copy(), body.copy()

    def listed(matrix: Floats) -> Answer:
        pairs = all_pairs(a, b, transform=matrix, transform_per=transform_per)
        return Interference(pairs, 0, triangle_tests=len(a) * len(b))

    def counted(matrix: Floats) -> Answer:
        return count_pairs(a, b, transform=matrix, transform_per=transform_per)

    step = listed if is_listed else counted
    return Candidate(name, lambda matrices: [step(matrix) for matrix in matrices])


def all_steps_at_once(name: str, body: Body) -> Candidate:
    """The steps as that many object pairs in one traversal, each with an entry in the palette of matrices."""
    a, b = body.copy(), body.copy()
    return Candidate(name, lambda matrices: [*query_many([(a, b, None, matrix) for matrix in matrices])], is_joint=True)


def on_one_thread(candidate: Candidate, name: str) -> Candidate:
    """The same on one thread."""

    def turn(matrices: list[Floats]) -> list[Answer]:
        with threads(1):
            return candidate.turn(matrices)

    return replace(candidate, name=name, turn=turn)


def _stepwise(name: str, detector: BreadthFirst | BoxTree) -> Candidate:
    return Candidate(name, lambda matrices: [detector.query(transform_b=matrix) for matrix in matrices])


# Work ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Counts of one rotation, per step; the same on every machine. None where a detector has no such counter."""

    pairs: float
    box_tests: float | None
    triangle_tests: float | None
    exact_tests: float | None
    entry_level: float | None
    level_tests: list[float]
    """Box tests on each level, from the root down."""
    level_overlaps: list[float]

    def __str__(self) -> str:
        counts = {
            "pairs": self.pairs,
            "box tests": self.box_tests,
            "triangle tests": self.triangle_tests,
            "exact tests": self.exact_tests,
        }
        notes = [f"{count:,.1f} {name}" for name, count in counts.items() if count is not None]
        return "; ".join(notes if self.entry_level is None else [*notes, f"entry level {self.entry_level:.1f}"])


def _work(candidate: Candidate, answers: list[Answer]) -> Work:
    steps = len(answers)
    stats = [_stats(answer) for answer in answers if not isinstance(answer, int)]
    shared = stats[:1] if candidate.is_joint else stats

    def mean(name: str) -> float | None:
        return sum(each[name] for each in shared) / steps if shared and name in shared[0] else None

    def level_means(name: str) -> list[float]:
        rows = [each[name] for each in shared if name in each]
        return (np.sum(rows, axis=0) / steps).tolist() if rows else []

    return Work(
        pairs=sum(map(_pair_count, answers)) / steps,
        box_tests=mean("box_tests"),
        triangle_tests=mean("triangle_tests"),
        exact_tests=mean("exact_tests"),
        entry_level=mean("entry_level"),
        level_tests=level_means("tests_per_level"),
        level_overlaps=level_means("overlaps_per_level"),
    )


def _pair_count(answer: Answer) -> int:
    return answer if isinstance(answer, int) else len(answer.pairs)


def _stats(answer: TrianglePairs | Interference) -> dict[str, Any]:
    """Counters and stages by the names of ``BreadthFirst``."""
    if isinstance(answer, TrianglePairs):
        return answer.stats
    return {
        "box_tests": sum(answer.box_tests),
        "triangle_tests": answer.triangle_tests,
        "entry_level": answer.entry_level,
        "tests_per_level": answer.box_tests,
        "overlaps_per_level": answer.box_overlaps,
        **answer.stage_ms,
    }


# Measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Time and work of one candidate, per step of the rotation."""

    row: Row
    work: Work


def measure(scene: str, candidates: list[Candidate], matrices: list[Floats], *, rounds: int) -> dict[str, Measured]:
    """Time candidates alternately; then, with entry levels learnt, compare all answers and count; by name."""
    rows = interleaved(scene, {each.name: each.turn for each in candidates}, [matrices], rounds=rounds)
    answers = {each.name: each.turn(matrices) for each in candidates}
    check_agreement(scene, answers)
    steps = len(matrices)
    found = {}
    for candidate, row in zip(candidates, rows):
        work = _work(candidate, answers[candidate.name])
        per_step = replace(row, min_ms=row.min_ms / steps, median_ms=row.median_ms / steps, note=str(work))
        found[candidate.name] = Measured(per_step, work)
    return found


def check_agreement(scene: str, answers: dict[str, list[Answer]]) -> None:
    """Compare the answers of all candidates with those of the first, step by step."""
    first, expected = next(iter(answers.items()))
    for name, found in answers.items():
        for step, (answer, right) in enumerate(zip(found, expected)):
            agrees = _pair_count(answer) == _pair_count(right)
            if agrees and not isinstance(answer, int) and not isinstance(right, int):
                agrees = np.array_equal(answer.pairs, right.pairs)
            if not agrees:
                raise AssertionError(
                    f"{scene}, step {step}: {name} finds {_pair_count(answer)} pairs and {first} "
                    f"{_pair_count(right)}, or others: no time counts"
                )


def stage_ms(candidate: Candidate, matrices: list[Floats], *, rounds: int) -> dict[str, float]:
    """Milliseconds per step of each stage, of the fastest of several rotations."""
    candidate.turn(matrices)
    turns = []
    with stages_timed():
        for _ in range(rounds):
            stats = [_stats(answer) for answer in candidate.turn(matrices) if not isinstance(answer, int)]
            turns.append({name: sum(each.get(f"{name}_ms", 0.0) for each in stats) / len(stats) for name in STAGES})
    return min(turns, key=lambda turn: sum(turn.values()))


def stage_cells(ms: dict[str, float]) -> tuple[float, ...]:
    """A row below ``STAGE_COLUMNS``."""
    return (*(ms[stage] for stage in STAGES), map_share(ms))


def map_share(ms: dict[str, float]) -> float:
    """Share of the node pair index maps in a query without its refit."""
    return ms["expand"] / (ms["expand"] + ms["test"] + ms["triangles"])
