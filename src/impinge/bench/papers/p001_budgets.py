"""What is found within budgets from 0.1 ms to 1 s: Table 1 of [MendozaOSullivan2005], section 5, and what it costs.

Protocol   Two bodies overlap and deform in every frame. For each budget ("critical time") the lengths of PAIRLIST (here
           ``possible``) and COLLISIONLIST (``certain``) are told, frames per second, and tests per second.
Bodies     The paper's are dragons and bunnies of unknown size; here bumpy spheres and knots, whose counts are told.
Overshoot  How much later than its budget a query returns, update included; the paper tells nothing of it.
Claims     COLLISIONLIST is empty for small budgets and fills with larger ones; PAIRLIST grows, until it can drain.
The table  of the paper cannot be in seconds per frame: at a critical time of 1 s its list is not empty, so that the
           time was used up, and yet it gives 25 frames per second. Trends are compared, figures are not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from impinge.bench.measure import Row
from impinge.bench.papers.experiment import Claim, Experiment, Plot, Table, judged
from impinge.detect.sphere_build import build_spheres
from impinge.detect.sphere_tree import SphereTree
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

BUDGETS_MS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""The paper's critical times."""
PAPER = {
    "dragon and dragon": ((3, 0, 60), (17, 0, 60), (30, 0, 42), (41, 6, 35), (1345, 30, 25)),
    "bunny and bunny": ((3, 0, 52), (25, 0, 48), (44, 0, 37), (61, 11, 30), (1405, 36, 22)),
    "bunny and dragon": ((3, 0, 56), (21, 0, 51), (33, 0, 42), (52, 12, 33), (1387, 28, 23)),
}
"""Pairs, collisions and frames per second of Table 1, by budget."""
FRAMES, FRAMES_QUICK = 200, 3
SECONDS_PER_BUDGET = 3.0
"""Long budgets get fewer frames."""
ALLOWED_SHARE, ALLOWED_US = 0.05, 50.0
"""A query may return so much later than its budget: the larger of a share of it and microseconds."""
IN_TIME = 0.99

PROTOCOL = """
Substitute geometry. {bodies}. Trees of spheres: {trees}. A wave runs through the first body of each pair; every frame
updates its vertices, which is not timed, and asks for contacts within the budget, which is: tracking (refit), search
and the listing of what was found. "Frames per second" are those of queries alone, since there is no simulation here.

A query counts as in time if it returns no later than the budget and the larger of {share:.0%} of it and {us:g} us.
"""


@dataclass(frozen=True)
class Measured:
    """All frames of one pair of bodies with one budget."""

    budget_ms: float
    ms: list[float]
    possible: list[int]
    certain: list[int]
    tests: list[int]
    complete: list[bool]

    @property
    def in_time(self) -> float:
        """Share of frames that returned in time."""
        latest = self.budget_ms + max(ALLOWED_SHARE * self.budget_ms, 1e-3 * ALLOWED_US)
        return float(np.mean(np.array(self.ms) <= latest))

    @property
    def late_us(self) -> float:
        """How late the latest but one in a hundred was."""
        return 1e3 * float(np.percentile(np.array(self.ms) - self.budget_ms, 99))


def run(*, quick: bool = False) -> Experiment:
    """Ask three pairs of bodies with every budget; ``quick`` takes small bodies through a few frames."""
    pairs = _pairs(quick=quick)
    budgets = BUDGETS_MS[:3] if quick else BUDGETS_MS
    found: dict[str, list[Measured]] = {}
    told = []
    for name, bodies in pairs.items():
        trees = [build_spheres(body, builder="octree", levels=2 if quick else 4) for body in bodies]
        told.append(f"{name}: {len(bodies[0]):,} and {len(bodies[1]):,} triangles")
        detector = SphereTree(*bodies, tree_a=trees[0], tree_b=trees[1])
        detector.query()
        found[name] = [_measure(detector, bodies[0], budget, quick=quick) for budget in budgets]
    return Experiment(
        name="p001_budgets",
        title="An interruptible algorithm: what budgets buy",
        protocol=PROTOCOL.format(
            bodies="; ".join(told),
            trees=f"quick builder, 8 children, {2 if quick else 4} levels",
            share=ALLOWED_SHARE,
            us=ALLOWED_US,
        ),
        rows=[_row(name, each) for name, measured in found.items() for each in measured],
        claims=_claims(found),
        tables=[_table_1(found), _overshoot(found)],
        plot=_plot(found),
        quick=quick,
    )


def _pairs(*, quick: bool) -> dict[str, tuple[TriMesh, TriMesh]]:
    level, around = (3, 60) if quick else (6, 700)

    def ball(x: float) -> TriMesh:
        body = shapes.icosphere(level)
        points = np.array(body.vertices)
        points *= 1.0 + 0.05 * np.sin(7.0 * points[:, [0]]) * np.cos(6.0 * points[:, [1]])
        return TriMesh(points + np.array([x, 0.1, 0.0]), body.faces)

    def knot(x: float) -> TriMesh:
        body = shapes.torus_knot(2, 3, around, max(around // 12, 9))
        return TriMesh(body.vertices + np.array([x, 0.0, 0.0]), body.faces)

    return {
        "ball and ball": (ball(0.0), ball(1.2)),
        "knot and knot": (knot(0.0), knot(1.0)),
        "ball and knot": (ball(0.0), knot(0.9)),
    }


def _measure(detector: SphereTree, body: TriMesh, budget_ms: float, *, quick: bool) -> Measured:
    frames = FRAMES_QUICK if quick else int(np.clip(1e3 * SECONDS_PER_BUDGET / budget_ms, 3, FRAMES))
    rest = np.array(body.vertices)
    found = Measured(budget_ms, [], [], [], [], [])
    for frame in range(frames + 1):
        body.update(rest + 0.02 * np.sin(3.0 * rest[:, [1, 2, 0]] + 0.1 * frame))
        began = perf_counter()
        result = detector.query(budget_ms=budget_ms)
        taken = 1e3 * (perf_counter() - began)
        if frame == 0:
            continue  # the first one may still build or load something
        found.ms.append(taken)
        found.possible.append(len(result.possible))
        found.certain.append(len(result.certain))
        found.tests.append(result.stats["tests"])
        found.complete.append(result.complete)
    body.update(rest)
    return found


# Tables and picture -------------------------------------------------------------------------------------------


def _row(name: str, each: Measured) -> Row:
    least, median = min(each.ms), statistics.median(each.ms)
    return Row(name, f"{each.budget_ms:g} ms", least, median, least / each.budget_ms, "ratio: to the budget")


def _table_1(found: dict[str, list[Measured]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name, figures in PAPER.items():
        for budget, (pairs, collisions, frames) in zip(BUDGETS_MS, figures):
            rows.append((budget, f"the paper: {name}", pairs, collisions, frames, "", ""))
    for name, measured in found.items():
        for each in measured:
            median_ms = statistics.median(each.ms)
            tests = statistics.median(each.tests)
            rows.append(
                (
                    each.budget_ms, name, statistics.median(each.possible), statistics.median(each.certain),
                    1e3 / median_ms, tests, 1e-3 * tests / median_ms,
                )
            )  # fmt: skip
    columns = ("budget ms", "bodies", "PAIRLIST", "COLLISIONLIST", "per second", "tests", "million tests per second")
    return Table("table_1", "Table 1: pairs that wait and pairs that collide (medians)", columns, rows)


def _overshoot(found: dict[str, list[Measured]]) -> Table:
    rows: list[tuple[Any, ...]] = [
        (each.budget_ms, name, len(each.ms), each.in_time, each.late_us, float(np.mean(each.complete)))
        for name, measured in found.items()
        for each in measured
    ]
    columns = ("budget ms", "bodies", "frames", "share in time", "99th percentile late us", "share complete")
    return Table("overshoot", "How late queries return", columns, rows)


def _plot(found: dict[str, list[Measured]]) -> Plot:
    """PAIRLIST and COLLISIONLIST over the budget."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(found), squeeze=False).ravel()
        for panel, (name, measured) in zip(panels, found.items()):
            budgets = [each.budget_ms for each in measured]
            panel.plot(budgets, [statistics.median(each.possible) for each in measured], "o-", label="possible")
            panel.plot(budgets, [statistics.median(each.certain) for each in measured], "s-", label="certain")
            panel.set(title=name, xscale="log", xlabel="budget ms", ylabel="pairs")
            panel.set_yscale("symlog")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

    return Plot((3.6 * len(found), 3.8), draw)


# Claims -------------------------------------------------------------------------------------------------------


def _claims(found: dict[str, list[Measured]]) -> list[Claim]:
    def ends(pick: Callable[[Measured], list[int]]) -> str:
        return ", ".join(
            f"{name} {statistics.median(pick(each[0])):g} to {statistics.median(pick(each[-1])):g}"
            for name, each in found.items()
        )

    certain = {name: [statistics.median(each.certain) for each in measured] for name, measured in found.items()}
    share = min(each.in_time for measured in found.values() for each in measured)
    return [
        judged(
            "When the critical time is small the collision list is empty; with more time it fills (5).",
            f"certain pairs: {ends(lambda each: each.certain)}",
            all(row[0] == 0 and row[-1] > 0 for row in certain.values()),
        ),
        judged(
            "More time only adds to what is certain (here: medians over the frames do not fall with the budget).",
            f"certain pairs: {ends(lambda each: each.certain)}",
            all(np.diff(row).min(initial=0.0) >= 0.0 for row in certain.values()),
        ),
        judged(
            f"Queries return in time (ours; here: {IN_TIME:.0%} of them, of every pair and budget).",
            f"the least share is {share:.1%}",
            share >= IN_TIME,
        ),
    ]
