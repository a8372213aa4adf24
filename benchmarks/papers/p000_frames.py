"""Frames of [HatabKheddar2006], section VI: every candidate answers at every frame; times by frame.

A round takes all candidates through all frames; each has bodies of its own, created for each round. ``prepare`` is not
timed, ``step`` is: some experiments are about what belongs to which. The first round, which may compile, is not timed.
The pairs of all candidates are compared at every frame; a difference raises and no time is returned.

The time of a frame is the minimum of all rounds. A row has the mean of these minima over all frames, and the mean of
the medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.measure import Candidate as TimedCandidate
from benchmarks.measure import Row, interleave
from benchmarks.papers.experiment import NOISE
from benchmarks.papers.p000_bodies import Frame, Pair
from benchmarks.papers.p000_refit_tree import RefitTree
from impinge.checks import Ints
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import TrianglePairs
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.published.gjk_cut import CollidingPairs, recursive_check

Answer: TypeAlias = TrianglePairs | CollidingPairs
HINTED = 341
"""Nodes whose direction is kept for the next frame with ``coherent=True``: the first five levels."""
COUNTERS = ("nodes", "cuts", "leaves", "box_tests", "triangle_tests")
"""Counters of detectors that have them."""


class Session(NamedTuple):
    """One candidate with bodies of its own."""

    prepare: Callable[[Any], None]
    """Move to a frame; not timed."""
    step: Callable[[], Answer]
    """Answer; timed."""


@dataclass(frozen=True)
class Candidate:
    """A method by name."""

    name: str
    begin: Callable[[], Session]
    threads: int | None = None
    """None for all threads."""


@dataclass(frozen=True)
class Series:
    """One candidate over all frames."""

    row: Row
    ms: list[float]
    """Of each frame."""
    pairs: list[int]
    counters: dict[str, float]
    """Means over the frames, by the names in ``COUNTERS``."""

    @property
    def mean_ms(self) -> float:
        """Of all frames."""
        return self.row.min_ms


def measure(label: str, candidates: Sequence[Candidate], frames: Sequence[Any], *, rounds: int) -> dict[str, Series]:
    """Take all candidates through all frames; by name."""
    answers = _round(label, candidates, frames, first=0)
    taken = [_round(label, candidates, frames, first=1 + n) for n in range(rounds)]
    found: dict[str, Series] = {}
    for n, candidate in enumerate(candidates):
        ms = [[each[n][frame].ms for each in taken] for frame in range(len(frames))]
        least, median = [min(each) for each in ms], [statistics.median(each) for each in ms]
        counters = {
            name: statistics.fmean(answer.counters.get(name, 0.0) for answer in answers[n])
            for name in COUNTERS
            if any(name in answer.counters for answer in answers[n])
        }
        pairs = [len(answer.pairs) for answer in answers[n]]
        mean = statistics.fmean(least)
        base = next(iter(found.values())).mean_ms if found else mean
        note = [
            f"{statistics.fmean(pairs):,.1f} pairs",
            *(f"{v:,.0f} {k.replace('_', ' ')}" for k, v in counters.items()),
        ]
        row = Row(label, candidate.name, mean, statistics.fmean(median), mean / base, "; ".join(note))
        found[candidate.name] = Series(row, least, pairs, counters)
    return found


class _Answer(NamedTuple):
    ms: float
    pairs: Ints
    counters: dict[str, float]


def _round(label: str, candidates: Sequence[Candidate], frames: Sequence[Any], *, first: int) -> list[list[_Answer]]:
    timed = []
    for candidate in candidates:
        session = candidate.begin()
        step = partial(_step, session)
        timed.append(TimedCandidate(candidate.name, step, prepare=session.prepare, threads=candidate.threads))
    answers: list[list[_Answer]] = [[] for _ in candidates]
    loop = interleave(timed, frames, rounds=len(frames), warm_up=False, first=first)
    for k, samples in enumerate(loop):
        for found, (sample,) in zip(answers, samples):
            stats = sample.answer.stats
            counters = {name: float(stats[name]) for name in COUNTERS if name in stats}
            found.append(_Answer(sample.ms, sample.answer.pairs, counters))
        _check_agreement(f"{label}, frame {k}", candidates, [each[-1].pairs for each in answers])
    return answers


def _step(session: Session, _: Any) -> Answer:
    return session.step()


def _check_agreement(where: str, candidates: Sequence[Candidate], pairs: Sequence[Ints]) -> None:
    for candidate, found in zip(candidates, pairs):
        if not np.array_equal(found, pairs[0]):
            raise AssertionError(
                f"{where}: {candidate.name} finds {len(found)} pairs and {candidates[0].name} {len(pairs[0])}, "
                "or others: no time counts"
            )


# Candidates on bodies that move ---------------------------------------------------------------------------------


class Published:
    """``published.gjk_cut``, queried like a detector; ``coherent`` passes directions from frame to frame."""

    def __init__(self, a: Any, b: Any, *, coherent: bool = False, **options: Any) -> None:
        self._a, self._b, self._options = a, b, options
        self._hints = np.full((HINTED if coherent else 0, 3), np.nan)

    def query(self, **active: Any) -> CollidingPairs:
        """All pairs; ``active_a`` and ``active_b`` as in a query of ``GjkCut``."""
        return recursive_check(self._a, self._b, hints=self._hints, **self._options, **active)


def published(name: str, pair: Pair, **options: Any) -> Candidate:
    """GJK with cut as published, which is single-threaded."""
    return _moving(name, pair, lambda a, b: Published(a, b, **options), threads=1)


def cut(name: str, pair: Pair, *, threads: int | None = None) -> Candidate:
    """GJK with cut, the production detector."""
    return _moving(name, pair, GjkCut, threads)


def box_tree(name: str, pair: Pair, *, threads: int | None = None) -> Candidate:
    """Our tree, which refits in the query."""
    return _moving(name, pair, BoxTree, threads)


def _moving(name: str, pair: Pair, make: Callable[..., GjkCut | BoxTree | Published], threads: int | None) -> Candidate:
    def begin() -> Session:
        a, b = pair.make()
        detector = make(a, b)
        detector.query()  # allocates

        def prepare(frame: Frame) -> None:
            a.update(frame.a)
            b.update(frame.b)

        return Session(prepare, detector.query)

    return Candidate(name, begin, threads)


def refit_tree(name: str, pair: Pair, *, timed: Iterable[str]) -> Candidate:
    """The tree of [vandenBergen1997]; ``timed`` are those of "build", "refit" that are part of the answer."""
    timed = frozenset(timed)

    def begin() -> Session:
        a, b = pair.make()
        tree = RefitTree(a, b)

        def prepare(frame: Frame) -> None:
            a.update(frame.a)
            b.update(frame.b)
            if not timed:
                tree.refit()

        def step() -> TrianglePairs:
            if "build" in timed:
                tree.build()
            elif "refit" in timed:
                tree.refit()
            return tree.query()

        return Session(prepare, step)

    return Candidate(name, begin, threads=1)


# Comparisons -----------------------------------------------------------------------------------


def is_faster(one: Series, other: Series) -> bool:
    """Whether ``one`` is faster by more than the noise."""
    return one.mean_ms < (1.0 - NOISE) * other.mean_ms


def against(one: Series, other: Series) -> str:
    """The comparison in words: "is 1.80 times as fast as" or "takes 3.20 times as long as"."""
    ratio = one.mean_ms / other.mean_ms
    if ratio > 1.0 + NOISE:
        return f"takes {ratio:.2f} times as long as"
    return f"is {1.0 / ratio:.2f} times as fast as" if ratio < 1.0 - NOISE else "is as fast as"
