"""Costs of all methods for triangle pairs over all scenes, and the fit of the cost model of ``method="auto"``.

States    Every scene, its first two bodies, in all states that the model distinguishes:
              one-shot   new bodies, without cached structures,
              deforming  frames in which both have new positions,
              rigid      frames in which b is moved by a transform,
              edited     frames in which a hundredth of the triangles is removed and added again,
              remeshed   frames in which half of them are, and all get new ids,
              alone      the first of these and the second, of one body with itself.
Measured  All methods and auto itself, alternately, each with bodies of its own; the query is timed, not the
          change of the bodies. Brute force is left out where it would take seconds. Methods must find the same number
          of pairs.
Judged    Ratio of auto to the best method, minima of all rounds; the last row is the worst ratio.
Contacts  Cost of a near pair in a world, by vertices and by spheres; for budgets in milliseconds.
Fit       Costs of at least 0 for each term of ``auto`` that make the relative errors of all sums small (least squares).
          These fit all times, not the few that decide a choice. Each cost is then varied as long as the choices
          improve: the sum over all samples of how much slower the choice is than the best method, to
          the fourth power, since one bad choice is worse than many fair ones.

    python -m benchmarks.auto_fit src/impinge/world/auto_costs.json

measures, writes the costs that the package ships, and prints how far from the best the choice by these costs is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Candidate, Row, interleave, machine, row_of, timed
from impinge import queries, scenes
from impinge.deform.waves import Wave
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.common.results import TrianglePairs
from impinge.errors import ImpingeError
from impinge.mesh.tri_mesh import TriMesh
from impinge.world import auto
from impinge.world.world import World

METHODS: tuple[queries.PairMethod, ...] = ("box_tree", "breadth_first", "brute_force", "gjk_cut", "spatial_hash")
MOST_PAIRS = 10_000_000
"""Triangle pairs up to which brute force is timed."""
QUICK = ("crossing_triangles", "boxes_overlapping_by_half", "nested_spheres")
ROUNDS = 7
WARM_ROUNDS = 2
"""The first two rounds compile, and show auto that frames repeat."""
SHORT = 0.02
"""Seconds: shorter rounds are repeated five times as often, since the minimum of few short times is noise."""
FACTORS = (0.25, 0.5, 0.7, 0.9, 1.1, 1.4, 2.0, 4.0)
"""Factors tried on each cost to improve the choices."""
SMALLEST = 1e-3
"""Value of a cost of 0 in these trials, as a share of the time of the largest query."""
MOST_TESTS = 100_000_000
"""Tests of worlds whose contacts are timed; scenes with more are left out."""
LEAST_COST = 1e-4
"""Lower bound of a fitted cost in microseconds: a cost of 0 would allow any number of pairs."""


class Sample(NamedTuple):
    """One scene in one state."""

    name: str
    terms: auto.Terms
    """Number of occurrences of each term of the model."""
    milliseconds: dict[str, list[float]]
    """Of all rounds, by method, and of auto."""
    chosen: str
    """The choice of auto."""

    def best(self) -> str:
        """The fastest method."""
        return min(METHODS, key=lambda method: min(self.milliseconds.get(method, [np.inf])))

    def ratio(self, candidate: str) -> float:
        """Least time of a candidate over that of the best method."""
        return min(self.milliseconds[candidate]) / min(self.milliseconds[self.best()])


def run(*, quick: bool = False) -> list[Row]:
    """Time all methods and auto on all scenes in all states; the last row is the worst ratio of auto to the best."""
    samples = list(_samples(QUICK if quick else scenes.names(), rounds=2 if quick else ROUNDS))
    rows = [row for sample in samples for row in _rows(sample)]
    worst = max(samples, key=lambda sample: sample.ratio("auto"))
    times = worst.milliseconds["auto"]
    note = f"auto is at most this many times slower than the best method in {len(samples)} states; here {worst.best()}"
    return [
        *rows,
        row_of(f"worst: {worst.name}", "auto", times, min(worst.milliseconds[worst.best()]), note),
    ]


def _rows(sample: Sample) -> list[Row]:
    note = f"auto takes {sample.chosen}, {sample.ratio('auto'):.2f} times the best, {sample.best()}"
    base = min(sample.milliseconds[sample.best()])
    return [
        row_of(sample.name, each, times, base, note if each == "auto" else "")
        for each, times in sample.milliseconds.items()
    ]


# states -------------------------------------------------------------------------------------------------------


class Case:
    """Two bodies of one candidate, which change from frame to frame; the same changes for every candidate."""

    def __init__(self, scene: scenes.Scene) -> None:
        self._scene = scene
        self._rest = scene.surfaces[:2]
        self.bodies = self._copies()
        self.options: dict[str, Any] = {}
        self._rng = np.random.default_rng(1)

    def _copies(self) -> list[TriMesh]:
        return [TriMesh(body.vertices, body.faces[body.alive], validate="trust") for body in self._rest]

    def one_shot(self, _: int) -> None:
        """New bodies, without cached structures."""
        self.bodies = self._copies()

    def deforming(self, frame: int) -> None:
        """New positions of all that moves in the scene; waves through both bodies, if nothing does."""
        positions = self._scene.positions(0.1 * (frame + 1))[:2]
        if self._scene.motion is None:
            size = float(np.ptp(self._rest[0].bounds, axis=0).max())
            wave = Wave(0.01 * size, 6.0 / size, angular_speed=2.0)
            positions = tuple(wave(body.vertices, 0.1 * frame + 1.7 * k) for k, body in enumerate(self._rest))
        for body, x in zip(self.bodies, positions):
            if x is not None:
                body.update(x)

    def rigid(self, frame: int) -> None:
        """A rotation of b about its centre."""
        c, s = np.cos(0.02 * (frame + 1)), np.sin(0.02 * (frame + 1))
        matrix, centre = np.eye(4), self._rest[1].bounds.mean(axis=0)
        matrix[:2, :2] = (c, -s), (s, c)
        matrix[:3, 3] = centre - matrix[:3, :3] @ centre
        self.options = {"transform_b": matrix}

    def edited(self, _: int) -> None:
        """Triangles removed and added again, under new ids."""
        self._replace(0.01)

    def remeshed(self, _: int) -> None:
        """Half of the triangles replaced, and all renumbered."""
        self._replace(0.5)
        for body in self.bodies:
            body.compact()

    def one_shot_alone(self, _: int) -> None:
        """One new body, without cached structures."""
        self.bodies = self._copies()[:1]

    def deforming_alone(self, frame: int) -> None:
        """New positions of one body."""
        self.bodies = self.bodies[:1]
        self.deforming(frame)

    def query(self, method: queries.PairMethod) -> TrianglePairs:
        """The query that is timed."""
        if len(self.bodies) == 1:
            return queries.self_pairs(self.bodies[0], method=method)
        return queries.triangle_pairs(*self.bodies, method=method, **self.options)

    def terms(self) -> auto.Terms:
        """Number of occurrences of each term of the model in the query."""
        b = self.bodies[1] if len(self.bodies) > 1 else None
        return auto.features(self.bodies[0], b, PairOptions(**self.options))

    def _replace(self, share: float) -> None:
        for body in self.bodies:
            live = np.flatnonzero(body.alive)
            gone = np.sort(self._rng.choice(live, max(1, int(share * len(live))), replace=False))
            faces = body.faces[gone]
            body.remove_triangles(gone)
            body.add_triangles(faces)


STATES: dict[str, Callable[[Case, int], None]] = {
    "one-shot": Case.one_shot,
    "deforming": Case.deforming,
    "rigid": Case.rigid,
    "edited": Case.edited,
    "remeshed": Case.remeshed,
    "alone, one-shot": Case.one_shot_alone,
    "alone, deforming": Case.deforming_alone,
}


# measuring ------------------------------------------------------------------------------------------------------


def _samples(names: Sequence[str], rounds: int) -> Iterator[Sample]:
    for name in names:
        scene = scenes.get(name)
        for state, change in STATES.items():
            yield _sample(f"{name}, {state}", scene, change, rounds)


def _sample(name: str, scene: scenes.Scene, change: Callable[[Case, int], None], rounds: int) -> Sample:
    trial = Case(scene)
    change(trial, 0)
    methods = [m for m in METHODS if m != "brute_force" or len(trial.bodies[0]) * len(trial.bodies[-1]) <= MOST_PAIRS]
    cases: dict[queries.PairMethod, Case] = {each: Case(scene) for each in ("auto", *methods)}
    terms: list[auto.Terms] = []

    def prepare(each: queries.PairMethod, frame: int) -> None:
        change(cases[each], frame)
        if each == "auto":
            terms[:] = [cases[each].terms()]

    candidates = [
        Candidate(each, partial(_query, case, each), prepare=partial(prepare, each)) for each, case in cases.items()
    ]
    frames = range(WARM_ROUNDS + 5 * rounds)
    for index, samples in enumerate(interleave(candidates, frames, rounds=len(frames), warm_up=False)):
        counts = {each.name: len(sample.answer) for each, (sample,) in zip(candidates, samples)}
        if len(set(counts.values())) > 1:
            raise ImpingeError(f"methods disagree about {name}: {counts}; times would mean nothing")
        if index == WARM_ROUNDS - 1 and 1e-3 * sum(sample.ms for (sample,) in samples) < SHORT:
            rounds *= 5
        if index >= WARM_ROUNDS:
            for each, (sample,) in zip(candidates, samples):
                each.times.append(sample.ms)
        if index + 1 == WARM_ROUNDS + rounds:
            break
    chosen = samples[0][0].answer.method
    return Sample(name, terms[0], {each.name: each.times for each in candidates}, chosen)


def _query(case: Case, method: queries.PairMethod, _: int) -> TrianglePairs:
    return case.query(method)


# fitting --------------------------------------------------------------------------------------------------------


def fit(samples: Sequence[Sample]) -> dict[str, auto.Terms]:
    """Microseconds of each term, by method."""
    from scipy.optimize import nnls

    fitted: dict[str, auto.Terms] = {}
    for method in METHODS:
        known = [sample for sample in samples if method in sample.milliseconds]
        times = np.array([1e3 * min(sample.milliseconds[method]) for sample in known])
        terms = np.array([sample.terms for sample in known], dtype=np.float64)
        scale = np.maximum(terms.max(axis=0), 1.0)  # numbers of one size for the solver
        found, _ = nnls(terms / scale / times[:, None], np.ones(len(times)))
        fitted[method] = auto.Terms(*(float(f"{value:.4g}") for value in found / scale))
    return fitted


def improved(costs: dict[str, auto.Terms], samples: Sequence[Sample]) -> dict[str, auto.Terms]:
    """Costs that improve the choices for the samples, by coordinate descent."""
    terms = np.array([sample.terms for sample in samples], dtype=np.float64)
    slower = np.array([[s.ratio(m) if m in s.milliseconds else np.inf for m in METHODS] for s in samples])
    cost = np.array([costs[method] for method in METHODS])

    def regret() -> float:
        estimate = np.where(np.isfinite(slower), terms @ cost.T, np.inf)
        chosen = slower[np.arange(len(samples)), estimate.argmin(axis=1)]
        return float(((chosen - 1.0) ** 4).sum())

    least, before = regret(), np.inf
    while least < before:
        before = least
        for place in np.ndindex(*cost.shape):
            kept = cost[place]
            base = kept if kept > 0.0 else SMALLEST * (terms @ cost.T).max() / max(terms[:, place[1]].max(), 1.0)
            for factor in FACTORS:
                cost[place] = float(f"{factor * base:.4g}")
                now = regret()
                if now < least:
                    least, kept = now, cost[place]
            cost[place] = kept
    return {method: auto.Terms(*map(float, row)) for method, row in zip(METHODS, cost)}


def chosen_by(costs: dict[str, auto.Terms], sample: Sample) -> str:
    """The choice of auto by given costs, among the measured methods."""
    known = [method for method in METHODS if method in sample.milliseconds]
    return min(known, key=lambda method: sum(map(mul, sample.terms, costs[method])))


def fit_contacts(names: Sequence[str], rounds: int) -> dict[str, float]:
    """Microseconds of a near pair and of a test by vertices, and of a pair by spheres, in worlds of all scenes."""
    from scipy.optimize import nnls

    terms, times, spheres = [], [], []
    for name in names:
        world = World()
        for body in scenes.get(name).bodies:
            world.add(body)
        found = world.contacts(method="vertices", max_tests=MOST_TESTS)
        near = found.stats["body_pairs"]
        if near and found.complete:
            terms.append((near, found.stats["tests_wanted"]))
            times.append(_least(partial(world.contacts, method="vertices"), rounds))
            query = partial(world.contacts, method="spheres", max_tests=near)
            query()
            spheres.append(_least(query, rounds) / near)
    scaled = np.array(terms) / np.array(times)[:, None]
    scale = scaled.max(axis=0)
    pair, test = np.maximum(nnls(scaled / scale, np.ones(len(times)))[0] / scale, LEAST_COST)
    costs = {"pair": pair, "test": test, "spheres": min(spheres)}
    return {name: float(f"{value:.4g}") for name, value in costs.items()}


def _least(query: Callable[[], object], rounds: int) -> float:
    """Microseconds of the fastest of several calls."""
    return 1e3 * min(timed(query)[0] for _ in range(rounds))


def main(path: str) -> None:
    """Measure, fit, write, and print the ratio of the new choices to the best method."""
    samples = list(_samples(scenes.names(), rounds=ROUNDS))
    fitted = improved(fit(samples), samples)
    shipped = {
        "machine": machine(),
        "microseconds": {method: cost._asdict() for method, cost in fitted.items()},
        "contacts": fit_contacts(scenes.names(), ROUNDS),
    }
    Path(path).write_text(json.dumps(shipped, indent=2) + "\n", encoding="utf-8")
    ratios = [(sample.ratio(chosen_by(fitted, sample)), sample) for sample in samples]
    for ratio, sample in sorted(ratios, key=lambda each: -each[0]):
        sys.stdout.write(f"{ratio:5.2f}  {sample.name}: {chosen_by(fitted, sample)}, best {sample.best()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
