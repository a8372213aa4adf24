"""Collision time over distance: Fig. 4 of [GressZachmann2004], after the benchmark of its reference [22].

Protocol   Two identical objects, scaled into a cube of side 2, at a distance between the centres of their bounding
           boxes; one rotates about a fixed axis in small equal steps, and the time of a step, all pairs included, is
           averaged over the rotation. Then the distance shrinks. Step count and distances are lost; ours are below.
Bodies     Substitutes for the paper's car and door lock (``p002_bodies``), at three complexities each; and a real CAD
           part and a real car where IMPINGE_DATA names a folder that has them.
Candidates ``BreadthFirst``, which expands by prefix sums, with the entry level remembered and from the roots; the
           published method (``impinge.published.breadth_first``) with prefix sums and with the paper's pyramid, both
           refitted, and as printed, with boxes tested between spaces; and a depth-first box tree. All of them find the
           same pairs at every step, or nothing is measured.
Claims     Tests are up to four times faster in parallel; building the node pair index map is the overhead; overall
           the result is slightly faster than the scalar one; remembering the entry level helps; hierarchies seem to
           be in O(log n). Without a GPU the first and the third are judged by threads (``p002_variants``) and against
           the depth-first tree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Sizes
from benchmarks.papers.experiment import NOISE, Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p002_bodies import SIDE, Body, car, lock, real_bodies
from benchmarks.papers.p002_turn import (
    STAGE_COLUMNS,
    Candidate,
    Measured,
    breadth_first,
    depth_first,
    map_share,
    measure,
    poses,
    published,
    stage_cells,
    stage_ms,
)

SCAN, SCAN_ROOTS = "scan", "scan, from the roots"
PUBLISHED_SCAN = "published, scan"
PYRAMID, PYRAMID_ROOTS = "pyramid", "pyramid, from the roots"
AS_PRINTED = "pyramid, boxes between spaces"
"""The paper's own: trees are never refitted."""
PRODUCTION = "BreadthFirst"
"""The stages of ``SCAN``."""
DEPTH_FIRST = "depth-first"

SLIGHTLY = 1.5
"""Two times within this factor count as slightly different."""
MOST_GROWTH = 1.5
"""Box tests per pair and level may grow so much from the smallest to the largest body of a kind.

A kind decides only if tests in O(n) would grow more; where the pairs themselves grow nearly as n, they would not.
"""

PROTOCOL = """
Same protocol, substitute geometry. Two identical objects, scaled into a cube of side {side:g}; the distance is that
between the centres of their bounding boxes, along x. One rotates about (1, 2, 3) in {steps} steps, moved by a matrix
per query; the time of a step, all pairs included, is averaged over the rotation. Rotations timed: {rounds}, after an
untimed one. Step count, distances and axis are ours: the paper does not give them.

Bodies: "lock" (drilled plates, a coil, a bolt) and "car" (a hull refined towards its ends, wheels, slivers) stand in
for the models by VW and BMW, which were not published. Real meshes from the folder that IMPINGE_DATA names: {real}.

Candidates: "scan" is the detector BreadthFirst, which expands node pairs by prefix sums. "Published, scan" and
"pyramid" are the published method, with prefix sums and with the paper's pyramid of sums. All of these refit the
rotated object's boxes at each step. "Boxes between spaces" never refits and tests boxes through the matrix, as printed.
The published forms test no boxes of single triangles. All find the same pairs at every step.
"""


FULL = Sizes(
    lock_fineness=(2, 4, 10), car_fineness=(2, 4, 7), distances=(2.2, 2.0, 1.8, 1.6, 1.4, 1.2, 1.0, 0.8, 0.6),
    steps=20, rounds=3, with_data=True,
)  # fmt: skip
QUICK = Sizes(lock_fineness=(1, 2), car_fineness=(1,), distances=(2.0, 1.0), steps=3, rounds=1, with_data=False)


@dataclass(frozen=True)
class _Point:
    """One body at one distance."""

    body: Body
    distance: float
    found: dict[str, Measured]
    stages: dict[str, dict[str, float]]
    """Milliseconds of each stage, by mode."""

    def ratio(self, name: str, base: str) -> float:
        return self.found[name].row.min_ms / self.found[base].row.min_ms

    @property
    def pairs(self) -> float:
        return self.found[SCAN].work.pairs


def run(*, quick: bool = False) -> Experiment:
    """Measure all bodies at all distances; ``quick`` takes tiny bodies and few steps."""
    sizes = QUICK if quick else FULL
    bodies = [lock(k) for k in sizes.lock_fineness] + [car(k) for k in sizes.car_fineness]
    real = real_bodies() if sizes.with_data else []
    points = [point for body in bodies + real for point in _approach(body, sizes)]
    real_names = ", ".join(body.kind for body in real) or "none"
    return Experiment(
        name="p002_distance",
        title="Breadth-first interference detection: time over distance",
        protocol=PROTOCOL.format(side=SIDE, steps=sizes.steps, rounds=sizes.rounds, real=real_names),
        rows=[each.row for point in points for each in point.found.values()],
        claims=_claims(points),
        tables=[_levels(points, sizes.distances[-1]), _stages(points)],
        plot=_plot(points),
        quick=quick,
    )


def _approach(body: Body, sizes: Sizes) -> Iterator[_Point]:
    """One body at all distances, from far to near; detectors are reused: they have learnt the entry level."""
    candidates = [
        breadth_first(SCAN, body),
        breadth_first(SCAN_ROOTS, body, entry_threshold=None),
        published(PUBLISHED_SCAN, body, expansion="scan", transform="vertices"),
        published(PYRAMID, body, transform="vertices"),
        published(PYRAMID_ROOTS, body, transform="vertices", entry_threshold=None),
        published(AS_PRINTED, body),
        depth_first(DEPTH_FIRST, body),
    ]
    staged: list[Candidate] = [  # the published ones make the whole map in its own stage
        published(SCAN, body, expansion="scan", transform="vertices"),
        published(PYRAMID, body, transform="vertices"),
        breadth_first(PRODUCTION, body),
    ]
    for distance in sizes.distances:
        matrices = poses(distance, sizes.steps)
        scene = f"{body.name}, distance {distance:g}"
        found = measure(scene, candidates, matrices, rounds=sizes.rounds)
        stages = {each.name: stage_ms(each, matrices, rounds=sizes.rounds) for each in staged}
        yield _Point(body, distance, found, stages)


# Tables and picture -------------------------------------------------------------------------------------------


def _levels(points: list[_Point], distance: float) -> Table:
    """Work on each level at one distance, with the entry level remembered and from the roots."""
    rows: list[tuple[Any, ...]] = []
    for point in points:
        if point.distance != distance:
            continue
        entry, roots = point.found[SCAN].work, point.found[SCAN_ROOTS].work
        last = len(roots.level_tests) - 1
        for level, tests in enumerate(roots.level_tests):
            leaves = (roots.triangle_tests, roots.pairs) if level == last else ("", "")
            overlaps = roots.level_overlaps[level]
            rows.append((point.body.name, level, tests, overlaps, entry.level_tests[level], *leaves))
    columns = ("body", "level", "box tests", "overlaps", "box tests, entry remembered", "triangle tests", "pairs")
    return Table("levels", f"Work per step on each level, distance {distance:g}", columns, rows)


def _stages(points: list[_Point]) -> Table:
    """Milliseconds of each stage, and the share of the map."""
    rows = [
        (point.body.name, point.distance, mode, *stage_cells(ms))
        for point in points
        for mode, ms in point.stages.items()
    ]
    columns = ("body", "distance", "mode", *STAGE_COLUMNS)
    title = (
        f"Stages of a step as published, the last pass apart, and of {PRODUCTION}, where it is part of the box tests"
    )
    return Table("stages", title, columns, rows)


def _plot(points: list[_Point]) -> Plot:
    """One panel per body, one line per candidate."""
    names = list(dict.fromkeys(point.body.name for point in points))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
        for panel, name in zip(panels, names):
            here = [point for point in points if point.body.name == name]
            for candidate in here[0].found:
                times = [point.found[candidate].row.min_ms for point in here]
                panel.plot([point.distance for point in here], times, marker=".", label=candidate)
            panel.set(title=name, yscale="log", xlabel="distance", ylabel="ms per step")
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Plot((4.2 * columns, 3.2 * rows + 0.8), draw)


# Claims -------------------------------------------------------------------------------------------------------


def _claims(points: list[_Point]) -> list[Claim]:
    near = [point for point in points if point.pairs > 0.0]
    return [
        Claim(
            "Box and triangle tests are up to four times faster on the GPU than on the CPU (7).",
            "no GPU was measured; for threads against one thread see p002_variants",
            "not testable here",
        ),
        _claim_on_depth_first(near),
        _claim_on_map(near),
        _claim_on_entry(near),
        _claim_on_complexity(near),
    ]


def _claim_on_depth_first(near: list[_Point]) -> Claim:
    ratios = [point.ratio(SCAN, DEPTH_FIRST) for point in near]
    mean = statistics.geometric_mean(ratios)
    printed = statistics.geometric_mean(point.ratio(AS_PRINTED, DEPTH_FIRST) for point in near)
    return judged(
        "Overall, breadth-first is only slightly faster than the conventional way (7; here: within "
        f"{SLIGHTLY:g} times a depth-first tree, on the same CPU).",
        f"breadth-first takes {mean:.2f} times as long, {min(ratios):.2f} to {max(ratios):.2f}; "
        f"as printed {printed:.2f} times",
        1.0 / SLIGHTLY <= mean <= SLIGHTLY,
    )


def _claim_on_map(near: list[_Point]) -> Claim:
    shares = {mode: [map_share(point.stages[mode]) for point in near] for mode in (SCAN, PYRAMID)}
    stages = [point.stages[PYRAMID] for point in near]
    over_tests = statistics.geometric_mean(ms["expand"] / ms["test"] for ms in stages)
    details = "; ".join(f"{mode} {min(of):.0%} to {max(of):.0%}" for mode, of in shares.items())
    return judged(
        "Making the node pair index map is the overhead of the scheme (7; here: it takes longer than the box tests).",
        f"share of the query without refit: {details}; {over_tests:.2f} times the box tests (pyramid)",
        over_tests > 1.0,
    )


def _claim_on_entry(near: list[_Point]) -> Claim:
    times = statistics.geometric_mean(
        [point.ratio(SCAN, SCAN_ROOTS) for point in near] + [point.ratio(PYRAMID, PYRAMID_ROOTS) for point in near]
    )
    tests = statistics.geometric_mean(
        (point.found[SCAN].work.box_tests or 1.0) / (point.found[SCAN_ROOTS].work.box_tests or 1.0) for point in near
    )
    return judged(
        f"Starting at a remembered level saves time (5; here: at least {NOISE:.0%} of it).",
        f"{times:.3f} times the time from the roots, with {tests:.3f} times the box tests",
        times < 1.0 - NOISE,
    )


def _claim_on_complexity(near: list[_Point]) -> Claim:
    deciding, details = [], []
    for kind in dict.fromkeys(point.body.kind for point in near):
        ends = list(_smallest_and_largest([point for point in near if point.body.kind == kind]))
        if not ends:
            continue
        growth = _growth(ends, lambda point: point.found[SCAN_ROOTS].work.box_tests or 1.0)
        if_linear = _growth(ends, lambda point: float(len(point.body.mesh)))
        if if_linear > MOST_GROWTH:
            deciding.append(growth)
        tests = _exponent(ends, lambda point: point.found[SCAN_ROOTS].work.box_tests or 1.0)
        pairs = _exponent(ends, lambda point: point.pairs)
        times = _exponent(ends, lambda point: point.found[AS_PRINTED].row.min_ms)
        details.append(
            f"{kind}: {growth:.2f} times, where O(n) would give {if_linear:.2f}; box tests grow as n^{tests:.2f}, "
            f"pairs as n^{pairs:.2f}, time without refit as n^{times:.2f}"
        )
    text = (
        "Hierarchical detection seems to be in O(log n), not O(n) (2; here: apart from the pairs found, box tests "
        f"per pair and level grow at most {MOST_GROWTH:g} times from the smallest to the largest body)."
    )
    if not deciding:
        return Claim(text, "; ".join(details), "not testable here")
    return judged(text, "; ".join(details), max(deciding) <= MOST_GROWTH)


def _growth(ends: list[tuple[_Point, _Point]], value: Callable[[_Point], float]) -> float:
    """How a value per pair found and level grows, averaged over distances."""

    def each(point: _Point) -> float:
        return value(point) / (point.pairs * len(point.found[SCAN_ROOTS].work.level_tests))

    return statistics.geometric_mean(each(large) / each(small) for small, large in ends)


def _smallest_and_largest(points: list[_Point]) -> Iterator[tuple[_Point, _Point]]:
    """Smallest and largest body of a kind, at each distance where both intersect their copies."""
    for distance in dict.fromkeys(point.distance for point in points):
        same = sorted((point for point in points if point.distance == distance), key=lambda point: len(point.body.mesh))
        if len(same) > 1:
            yield same[0], same[-1]


def _exponent(ends: list[tuple[_Point, _Point]], value: Callable[[_Point], float]) -> float:
    """With which power of the number of triangles a value grows, averaged over distances."""
    return statistics.fmean(
        math.log(value(large) / value(small)) / math.log(len(large.body.mesh) / len(small.body.mesh))
        for small, large in ends
    )
