"""The order of the search: contacts missed at interruption; section 4.2 and Figs 5 and 6 of [MendozaOSullivan2005].

Protocol   Two bodies touch in several regions. Each order is cut off after the same numbers of tests. Its
           results are compared with the exact contact regions (``p001_regions``): the share of regions that none of its
           pairs of spheres is above, the share of crossing triangles, and the angle of normals by region.
Orders     breadth-first         COLLISIONLIST and PAIRLIST of the detector
           breadth-first, found  COLLISIONLIST alone, for comparison
           priority              the pair that may penetrate deepest first; both lists
           of ``published.interruptible``, on the same trees, with normals of eq. 11:
           Fig. 7                COLLISIONLIST and PAIRLIST of the search as printed
           depth-first           COLLISIONLIST alone: as in Fig. 4, unvisited branches are lost
           depth-first, capped   the same down to a fixed level; spheres that overlap there collide
           depth-first, stack    with the pairs on its stack counted as colliding
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.measure import interleaved
from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p001_bodies import SIZE, SLACK, Pair, bunny_like, make_pair, make_shape
from benchmarks.papers.p001_regions import Push, Regions, all_contacts, errors_of, exact_regions
from impinge.checks import Floats, Ints
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.published.interruptible import Lists, Spheres, contacts_of, traverse

TESTS = (30, 100, 300, 1_000, 2_000, 4_000, 8_000, 16_000, 100_000)
TESTS_QUICK = (30, 300, 3_000, 1_000_000)
TIMED = 4_000
AMPLITUDE = 0.02
POSES, POSES_QUICK = 6, 1
CAP = 3
"""Level that the capped depth-first search ends at."""
PUSHED = 0.2

PROTOCOL = """
Substitute geometry. {bodies}. {regions} exact contact regions with {pairs:,} pairs of crossing triangles, in {poses}
poses. Budgets are numbers of tests: all orders do the same work, whatever their speed; spheres are refitted.
Depth-first search as published drops unvisited branches; "stack" keeps them.
Fig. 7 and depth-first search are those of `impinge.published.interruptible`; their normals are lines of centres.
"""


@dataclass(frozen=True)
class Way:
    """An order of the detector or of the published search, and which of its pairs count."""

    order: Literal["breadth", "priority", "depth"]
    lists: Literal["both", "found"]
    published: bool = False
    level: int | None = None


Known = tuple[Ints, Push, bool]
"""Pairs of spheres, their contacts, and whether the search ended."""


@dataclass(frozen=True)
class Found:
    """Results of one order after a number of tests, over all poses."""

    missed_regions: float
    missed_pairs: float
    angle: float
    """Median over the regions that were found [degrees]; 180 if none was."""
    complete: bool


WAYS = {
    "breadth-first": Way("breadth", "both"),
    "breadth-first, found": Way("breadth", "found"),
    "priority": Way("priority", "both"),
    "Fig. 7": Way("breadth", "both", published=True),
    "depth-first": Way("depth", "found", published=True),
    "depth-first, capped": Way("depth", "found", published=True, level=CAP),
    "depth-first, stack": Way("depth", "both", published=True),
}
Curves = dict[str, list[Found]]
"""By way, in the order of the numbers of tests."""


def run(*, quick: bool = False) -> Experiment:
    """Cut off all orders after the same numbers of tests; ``quick`` takes small bodies."""
    pair = _touching(quick=quick)
    tests = TESTS_QUICK if quick else TESTS
    poses = POSES_QUICK if quick else POSES
    detectors = {
        name: pair.detector(tracking="refit", order=way.order) for name, way in WAYS.items() if not way.published
    }
    curves, regions = _measure(pair, detectors, tests, poses)
    spheres = _refitted(pair)
    return Experiment(
        name="p001_orders",
        title="An interruptible algorithm: the order of the search",
        protocol=PROTOCOL.format(
            bodies=pair.description(),
            regions=sum(map(len, regions)),
            pairs=sum(len(each.pairs) for each in regions),
            poses=poses,
        ),
        rows=interleaved(
            f"{TIMED:,} tests", {name: _timed(detectors.get(name), spheres, way) for name, way in WAYS.items()},
            [TIMED],
            rounds=2 if quick else 20,
        ),
        claims=claims(curves),
        tables=[_table(curves, tests)],
        plot=_plot(curves, tests),
        quick=quick,
    )  # fmt: skip


def _touching(*, quick: bool) -> Pair:
    shape = make_shape(
        "bunny-like", bunny_like(4 if quick else 6), cells=5 if quick else 12, builder="octree",
        levels=3 if quick else 4,
    )  # fmt: skip
    return make_pair(shape, shape, (SIZE - PUSHED, 0.1, 0.0))


def _refitted(pair: Pair) -> tuple[Spheres, Spheres]:
    """The trees of both bodies refitted to their current surfaces, for the published search."""
    a, b = (_around(tree, body.surface) for tree, body in zip(pair.trees, pair.bodies))
    return a, b


def _around(tree: SphereHierarchy, surface: Any) -> Spheres:
    corner: Floats = tree.piece_corner @ surface.vertices[surface.faces[tree.piece_triangle]]
    centre, radius = np.zeros_like(tree.centre), np.zeros_like(tree.radius)
    for n, (start, stop) in enumerate(zip(tree.piece_start, tree.piece_stop)):
        below = corner[start:stop].reshape(-1, 3)
        centre[n] = 0.5 * (below.min(axis=0) + below.max(axis=0))
        radius[n] = np.linalg.norm(below - centre[n], axis=1).max() + SLACK * SIZE
    level = np.repeat(np.arange(tree.level_count), np.diff(tree.level_start)).astype(np.int32)
    return Spheres(centre, radius, tree.first_child, tree.child_count, level)


def _timed(detector: SphereTree | None, spheres: tuple[Spheres, Spheres], way: Way) -> Callable[[int], object]:
    if detector is None:
        return lambda tests: _traverse(spheres, way, tests)
    return lambda tests: detector.query(max_tests=tests)


def _traverse(spheres: tuple[Spheres, Spheres], way: Way, tests: int) -> Lists:
    assert way.order != "priority"
    return traverse(*spheres, max_tests=tests, order=way.order, level=way.level)


def _by_detector(detector: SphereTree, way: Way, tests: int) -> Known:
    result = detector.query(max_tests=tests)
    if way.lists == "found":
        listed, push = result.certain, Push(result.point, result.normal, result.depth)
    else:
        listed, push = np.concatenate([result.certain, result.possible]), all_contacts(result)
    return listed, push, result.reason != "budget"


def _by_published(spheres: tuple[Spheres, Spheres], way: Way, tests: int) -> Known:
    lists = _traverse(spheres, way, tests)
    counted = lists._replace(pair_list=lists.pair_list[:0]) if way.lists == "found" else lists
    found = contacts_of(*spheres, counted)
    return found.pair, Push(found.point, found.normal, found.depth), not lists.interrupted


def _measure(
    pair: Pair, detectors: dict[str, SphereTree], tests: tuple[int, ...], poses: int
) -> tuple[Curves, list[Regions]]:
    raw: dict[str, list[list[tuple[Any, bool]]]] = {name: [[] for _ in tests] for name in WAYS}
    regions = []
    for pose in range(poses):
        pair.deform(AMPLITUDE, 1.0 * pose)
        truth = exact_regions(pair.a.surface, pair.b.surface)
        assert len(truth), "bodies that do not touch show nothing"
        regions.append(truth)
        spheres = _refitted(pair)
        for name, way in WAYS.items():
            for k, most in enumerate(tests):
                if way.published:
                    listed, push, ended = _by_published(spheres, way, most)
                else:
                    listed, push, ended = _by_detector(detectors[name], way, most)
                raw[name][k].append((errors_of(truth, listed, push, pair.trees, SIZE), ended))
    return {name: [_joined(each) for each in found] for name, found in raw.items()}, regions


def _joined(found: list[tuple[Any, bool]]) -> Found:
    found_regions = np.concatenate([errors.found for errors, _ in found])
    angle = np.concatenate([errors.angle for errors, _ in found])[found_regions]
    return Found(
        float(np.mean(~found_regions)),
        float(np.mean(~np.isfinite(np.concatenate([errors.reach for errors, _ in found])))),
        float(np.median(angle)) if len(angle) else 180.0,
        all(done for _, done in found),
    )


# Claims, table and picture ------------------------------------------------------------------------------------


def claims(curves: Curves) -> list[Claim]:
    """Verdicts on the claims of the paper."""
    early = [each for each in curves["depth-first"] if not each.complete]
    capped = curves["depth-first, capped"]
    return [
        judged(
            'depth-first: if "suddenly interrupted, many branches may remain untested, leading to missed collisions" '
            "(here: it misses crossing triangles at every number of tests that does not end the search)",
            "pairs missed: "
            + ", ".join(
                f"{each.missed_pairs:.0%}{' (ended)' if each.complete else ''}" for each in curves["depth-first"]
            ),
            bool(early) and all(each.missed_pairs > 0.0 for each in early),
        ),
        judged(
            'breadth-first tests "approximations of the object without missing any branch" (here: no pair of crossing '
            "triangles is missed at any number of tests)",
            f"pairs missed: at most {max(each.missed_pairs for each in curves['breadth-first']):.0%}",
            all(each.missed_pairs == 0.0 for each in curves["breadth-first"]),
        ),
        judged(
            'depth-first is no option "unless the search is capped at a given depth" (here: capped, it misses nothing '
            "once it ends; before, it does)",
            f"level {CAP}, regions missed: "
            + ", ".join(f"{each.missed_regions:.0%}{' (ended)' if each.complete else ''}" for each in capped),
            any(each.complete for each in capped)
            and all(each.missed_pairs == 0.0 for each in capped if each.complete)
            and any(each.missed_pairs > 0.0 for each in capped if not each.complete),
        ),
        judged(
            "The list of what waits is what saves contacts, not the order (ours; here: with its stack depth-first "
            "misses nothing, without its list breadth-first misses regions)",
            f"with its stack: at most {max(each.missed_pairs for each in curves['depth-first, stack']):.0%} of pairs; "
            "breadth-first without its list, regions: "
            + ", ".join(f"{each.missed_regions:.0%}" for each in curves["breadth-first, found"]),
            all(each.missed_pairs == 0.0 for each in curves["depth-first, stack"])
            and any(each.missed_regions > 0.0 for each in curves["breadth-first, found"]),
        ),
    ]


def _table(curves: Curves, tests: tuple[int, ...]) -> Table:
    columns = ("order", "tests", "regions missed", "pairs missed", "median angle of normals", "ended")
    rows: list[tuple[Any, ...]] = [
        (name, most, each.missed_regions, each.missed_pairs, each.angle, "yes" if each.complete else "no")
        for name, found in curves.items()
        for most, each in zip(tests, found)
    ]
    return Table("missed", "What is missed when the search is cut off", columns, rows)


def _plot(curves: Curves, tests: tuple[int, ...]) -> Plot:
    def draw(figure: Any) -> None:
        left, middle, right = figure.subplots(1, 3)
        for name, found in curves.items():
            left.plot(tests, [100.0 * each.missed_regions for each in found], "o-", label=name)
            middle.plot(tests, [100.0 * each.missed_pairs for each in found], "o-")
            right.plot(tests, [each.angle for each in found], "o-")
        left.set(title="regions missed, percent", xscale="log", xlabel="tests")
        middle.set(title="crossing triangles missed, percent", xscale="log", xlabel="tests")
        right.set(title="angle of normals, degrees", xscale="log", xlabel="tests")
        figure.legend(loc="outside lower center", ncols=3)

    return Plot((11.0, 4.2), draw)
