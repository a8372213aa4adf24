"""Errors of sphere contacts against exact ones: the future work of [MendozaOSullivan2005] (section 6).

"Future work includes the evaluation of the accuracy of our approach for large deformations and force computation using
reduced models." These are the curves.

Truth      Exact contact regions (``p001_regions``): point and normal of each. Forces: those of all dense vertices
           inside of the other body, with their depths, by the same response (``penalty``).
Budget     Errors over the number of tests, reproducible on any machine, in every tracking mode.
Amplitude  Errors over the amplitude of deformation, and contacts that a complete search misses: "bound" and "refit"
           promise none.
Controls   Coarse vertices that a sphere follows in "paper" and "affine": missed contacts, and the cost.
Memory     of the queue, and of the data of each mode.
Headline   A budget of 1 ms on two bodies of 70 thousand triangles or more: angle of normals by region, and whether
           every crossing of triangles is near the contact point of spheres that it is below.
"""

from __future__ import annotations

import statistics
import tracemalloc
from functools import partial
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, Sizes, measure, timed
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p001_bodies import SIZE, Pair, bunny_like, make_pair, make_shape
from benchmarks.papers.p001_errors_claims import (
    Controls,
    Found,
    Headline,
    ModeMemory,
    Point,
    claims,
    plot_of,
    tables_of,
)
from benchmarks.papers.p001_regions import Errors, Push, Regions, all_contacts, errors_of, exact_regions
from impinge.checks import Floats
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.track.tracking import Tracking
from impinge.respond.penalty import penalty

MODES: tuple[Tracking, ...] = ("bound", "refit", "affine", "paper")
PUSHED = 0.2
"""Penetration of the bodies at rest."""
AMPLITUDE = 0.03
"""Where the budget, not the deformation, is varied."""

PROTOCOL = """
Substitute geometry. {bodies}. {regions} exact contact regions in {poses} poses, with {pairs:,} pairs of crossing
triangles. Points and distances are shares of the longest side of a body at rest, amplitudes too. Forces are those of
`penalty(..., combine="average")` on coarse vertices, summed over b. Trees of the curves are of the quick builder;
the headline has both builders. A mode is timed after a motion, {timed:,} tests.
"""


# medial: options of the other builder; timed: tests of a timed query
FULL = Sizes(
    subdivisions=6, cells=14, levels=4, medial={"levels": 4, "samples": 4000}, poses=4, headline_poses=12,
    tests=(30, 100, 300, 1_000, 3_000, 10_000, 100_000), amplitudes=(0.0, 0.01, 0.02, 0.05, 0.1, 0.15),
    controls=(1, 2, 4, 8, 16, 32), timed=10_000,
)  # fmt: skip
QUICK = Sizes(
    subdivisions=3, cells=5, levels=2, medial={"levels": 1, "samples": 100}, poses=1, headline_poses=1,
    tests=(30, 3_000, 1_000_000), amplitudes=(0.0, 0.05), controls=(1, 4), timed=300,
)  # fmt: skip
BUDGETS_MS = (0.1, 1.0, 10.0)
"""Of the headline."""


def run(*, quick: bool = False) -> Experiment:
    """Measure errors over budgets, amplitudes and controls; ``quick`` takes small bodies."""
    sizes = QUICK if quick else FULL
    pair = _pair(sizes, builder="octree", levels=sizes.levels)
    memory = [_memory(pair, mode) for mode in MODES]
    found = Found(
        budget=_over_budget(pair, sizes),
        amplitude=_over_amplitude(pair, sizes),
        controls=_over_controls(_pair(sizes, builder="octree", levels=sizes.levels), sizes),
        memory=memory,
        spheres=len(pair.tree_a) + len(pair.tree_b),
        headline=[
            *_headline("clusters", pair, sizes),
            *_headline("medial axis", _pair(sizes, builder="medial", **sizes.medial), sizes),
        ],
    )
    truths = [_truth(pair, AMPLITUDE, pose)[0] for pose in range(sizes.poses)]
    return Experiment(
        name="p001_errors",
        title="An interruptible algorithm: how accurate contacts are",
        protocol=PROTOCOL.format(
            bodies=pair.description(),
            regions=sum(map(len, truths)),
            pairs=sum(len(truth.pairs) for truth in truths),
            poses=sizes.poses,
            timed=sizes.timed,
        ),
        rows=_rows(pair, sizes),
        claims=claims(found),
        tables=tables_of(found),
        plot=plot_of(found),
        quick=quick,
    )


def _pair(sizes: Sizes, **options: Any) -> Pair:
    shape = make_shape("bunny-like", bunny_like(sizes.subdivisions), cells=sizes.cells, **options)
    return make_pair(shape, shape, (SIZE - PUSHED, 0.1, 0.0))


# Truth ----------------------------------------------------------------------------------------------------------


def _truth(pair: Pair, amplitude: float, pose: int) -> tuple[Regions, Floats]:
    """Deform the bodies; the regions and the force on b that are then right."""
    pair.deform(amplitude * SIZE, 1.3 * pose)
    regions = exact_regions(pair.a.surface, pair.b.surface)
    assert len(regions), "bodies that do not touch show nothing"
    return regions, _force(pair, _vertices_inside(pair))


def _vertices_inside(pair: Pair) -> Push:
    """Every dense vertex inside of the other body as a contact."""
    surfaces = (pair.a.surface, pair.b.surface)
    inside = impinge.penetrating_vertices(list(surfaces), depth=True)
    assert inside.depth is not None
    assert inside.direction is not None
    of_b = inside.body == 1
    point = np.where(
        of_b[:, None],
        surfaces[1].vertices[np.where(of_b, inside.vertex, 0)],
        surfaces[0].vertices[np.where(of_b, 0, inside.vertex)],
    )
    return Push(point, np.where(of_b, 1.0, -1.0)[:, None] * inside.direction, inside.depth)


def _force(pair: Pair, contacts: SphereContacts | Push) -> Floats:
    """The force that pushes b, summed over its coarse vertices."""
    push = penalty(contacts, pair.a.coarse.vertices, pair.b.coarse.vertices, stiffness=1.0)
    return np.asarray(push.force_b.sum(axis=0))


# Curves ---------------------------------------------------------------------------------------------------------


def _compare(pair: Pair, result: SphereContacts, regions: Regions) -> Errors:
    listed = np.concatenate([result.certain, result.possible])
    return errors_of(regions, listed, all_contacts(result), pair.trees, SIZE)


def _over_budget(pair: Pair, sizes: Sizes) -> list[Point]:
    detectors = {mode: pair.detector(tracking=mode) for mode in MODES}
    taken: dict[tuple[str, int], list[tuple[Errors, Floats, Floats, int]]] = {}
    for pose in range(sizes.poses):
        regions, force = _truth(pair, AMPLITUDE, pose)
        for mode, detector in detectors.items():
            for tests in sizes.tests:
                result = detector.query(max_tests=tests)
                one = (_compare(pair, result, regions), _force(pair, result), force, result.stats["queue_peak"])
                taken.setdefault((mode, tests), []).append(one)
    return [_point(mode, tests, each) for (mode, tests), each in taken.items()]


def _over_amplitude(pair: Pair, sizes: Sizes) -> list[Point]:
    detectors = {mode: pair.detector(tracking=mode) for mode in MODES}
    taken: dict[tuple[str, float], list[tuple[Errors, Floats, Floats, int]]] = {}
    for amplitude in sizes.amplitudes:
        for pose in range(sizes.poses):
            regions, force = _truth(pair, amplitude, pose)
            for mode, detector in detectors.items():
                result = detector.query()
                one = (_compare(pair, result, regions), _force(pair, result), force, result.stats["queue_peak"])
                taken.setdefault((mode, amplitude), []).append(one)
    return [_point(mode, amplitude, each) for (mode, amplitude), each in taken.items()]


def _point(mode: str, at: float, taken: list[tuple[Errors, Floats, Floats, int]]) -> Point:
    angle = np.concatenate([errors.angle for errors, *_ in taken])
    distance = np.concatenate([errors.distance for errors, *_ in taken])
    reach = np.concatenate([errors.reach for errors, *_ in taken])
    return Point(
        mode,
        at,
        float(np.median(angle)),
        float(np.percentile(angle, 95)),
        float(np.median(distance)),
        statistics.median(_relative(found, right) for _, found, right, _ in taken),
        statistics.median(_between(found, right) for _, found, right, _ in taken),
        float(np.mean(~np.isfinite(reach))),
        max(peak for *_, peak in taken),
    )


def _relative(found: Floats, right: Floats) -> float:
    """Relative error of a force; infinite where the exact force is zero."""
    size = float(np.linalg.norm(right))
    return float(np.linalg.norm(found - right)) / size if size > 0.0 else np.inf


def _between(found: Floats, right: Floats) -> float:
    """Angle between two forces in degrees; 180 if either is zero."""
    size = float(np.linalg.norm(right) * np.linalg.norm(found))
    return float(np.degrees(np.arccos(np.clip(found @ right / size, -1.0, 1.0)))) if size > 0.0 else 180.0


def _over_controls(pair: Pair, sizes: Sizes) -> list[Controls]:
    """Errors over the number of controls; the pair is new, without cached structures."""
    found = []
    for mode in ("paper", "affine"):
        for count in sizes.controls:
            memory = _memory(pair, mode, controls=count)
            detector = pair.detector(tracking=mode, controls=count)
            missed, angle, times = [], [], []
            for pose in range(sizes.poses):
                regions, _ = _truth(pair, max(sizes.amplitudes) / 2.0, pose)
                times.append(_query_ms(detector, sizes.timed))
                errors = _compare(pair, detector.query(), regions)
                missed.append(errors.missed)
                angle.append(float(np.median(errors.angle)))
            found.append(
                Controls(mode, count, statistics.mean(missed), statistics.median(angle), min(times), memory.bytes)
            )
    return found


def _query_ms(detector: SphereTree, tests: int) -> float:
    return timed(lambda: detector.query(max_tests=tests))[0]


def _memory(pair: Pair, mode: str, **options: Any) -> ModeMemory:
    """Bytes allocated for the spheres of both bodies in a mode."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        pair.detector(tracking=mode, **options)
        memory = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return ModeMemory(mode, memory)


# Headline and times ---------------------------------------------------------------------------------------------


def _headline(builder: str, pair: Pair, sizes: Sizes) -> list[Headline]:
    """Budgets in milliseconds: normals of regions, and how near contacts of spheres are to crossing triangles."""
    detector = pair.detector()
    for n in range(3):  # the first queries learn the overhead outside the search
        pair.deform(AMPLITUDE * SIZE, 0.1 * n)
        detector.query(budget_ms=1.0)
    taken: dict[float, list[tuple[Errors, Floats, int]]] = {budget: [] for budget in BUDGETS_MS}
    for pose in range(sizes.headline_poses):
        pair.deform(AMPLITUDE * SIZE, 0.7 * pose)
        regions = exact_regions(pair.a.surface, pair.b.surface)
        for budget in BUDGETS_MS:
            pair.deform(AMPLITUDE * SIZE, 0.7 * pose)  # the same place, but spheres are to be tracked again
            result = detector.query(budget_ms=budget)
            area = np.linalg.norm(regions.area, axis=1)
            taken[budget].append((_compare(pair, result, regions), area, result.stats["tests"]))
    return [_headline_of(builder, budget, pair, each) for budget, each in taken.items()]


def _headline_of(builder: str, budget: float, pair: Pair, taken: list[tuple[Errors, Floats, int]]) -> Headline:
    angle = np.concatenate([errors.angle for errors, *_ in taken])
    area = np.concatenate([area for _, area, _ in taken])
    reach = np.concatenate([errors.reach for errors, *_ in taken])
    order = np.argsort(angle)
    share = np.cumsum(area[order]) / max(float(area.sum()), np.finfo(np.float64).tiny)
    by_area = [float(angle[order][min(int(np.searchsorted(share, at)), len(order) - 1)]) for at in (0.5, 0.95)]
    return Headline(
        builder,
        budget,
        len(pair.a.surface),
        len(angle),
        float(np.median(angle)),
        float(np.percentile(angle, 95)),
        by_area[0],
        by_area[1],
        float(reach.max()),
        float(np.mean(reach <= 0.05)),
        statistics.median(tests for *_, tests in taken),
    )


def _rows(pair: Pair, sizes: Sizes) -> list[Row]:
    """Times of queries after a motion, alternating between modes."""

    def deform(n: int) -> None:
        pair.deform(AMPLITUDE * SIZE, 0.1 * n)

    candidates = [
        Candidate(f"tracking={mode}", partial(_query, pair.detector(tracking=mode), sizes.timed), prepare=deform)
        for mode in MODES
    ]
    rounds = 3 * sizes.poses
    return measure(f"{sizes.timed:,} tests", candidates, range(rounds), rounds=rounds)


def _query(detector: SphereTree, tests: int, _: int) -> object:
    return detector.query(max_tests=tests)
