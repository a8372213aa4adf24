"""Tracking spheres against refitting boxes: what it costs to bring a structure up to date after bodies have deformed.

Scene      Two soft bodies of some 2,000 coarse vertices that drive 50,000 dense ones each. Asked for: the spheres that
           a query of 1 ms visits take at most 20 ns each, and all of them less than a fifth of refitting the boxes of
           the dense vertices (``BoxTree.refit``).
Protocol   The number of tests that a query of 1 ms does is found first. A search of as many tests is timed after the
           bodies have moved, when it tracks every sphere that it comes to, and again without a motion between, when it
           tracks none: the difference is tracking. Boxes are refitted after the same motions. Moving is not timed.
           All take turns; differences are those of medians.
Threads    Queries of spheres use one; ``refit`` uses all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

import impinge
from impinge.backend import jit
from impinge.bench.measure import Row
from impinge.bench.papers.p001_bodies import Pair, make_pair, make_shape
from impinge.detect.box_tree import BoxTree
from impinge.detect.sphere_hierarchy import SphereHierarchy
from impinge.mesh import shapes

ROUNDS, ROUNDS_QUICK = 200, 3
NS_A_SPHERE = 20.0
"""What is asked for [ns]."""
SHARE = 0.2
AMPLITUDE = 0.02
BUDGET_MS = 1.0
MODES = ("bound", "paper", "affine", "refit")


@dataclass
class Tracked:
    """Times of one mode."""

    moved_ms: list[float] = field(default_factory=list)
    """Searches that track."""
    still_ms: list[float] = field(default_factory=list)
    """Searches that do not."""
    blocks: int = 0
    tests: int = 0

    @property
    def tracking_ms(self) -> float:
        """What tracking adds."""
        return max(statistics.median(self.moved_ms) - statistics.median(self.still_ms), 0.0)


def run(*, quick: bool = False) -> list[Row]:
    """Time tracking in every mode, and refitting; ``quick`` takes small bodies and few rounds."""
    pair = _pair(quick=quick)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    boxes = BoxTree(pair.a.surface, pair.b.surface)
    boxes.refit()
    scene = (
        f"{len(pair.a.coarse.vertices):,} coarse and {len(pair.a.surface.vertices):,} dense vertices each, "
        f"queries of {BUDGET_MS:g} ms"
    )
    refit_ms: list[float] = []
    impinge.time_stages(True)
    try:
        found = {mode: _measure(pair, mode, boxes, refit_ms, rounds) for mode in MODES}
    finally:
        impinge.time_stages(False)
    refit = statistics.median(refit_ms)
    note = f"{jit.thread_count()} threads; ratio: to this"
    rows = [Row(scene, "BoxTree.refit", min(refit_ms), refit, 1.0, note)]
    lanes = _spheres_a_block(pair.tree_a)
    return rows + [_row(scene, mode, each, lanes, refit) for mode, each in found.items()]


def _pair(*, quick: bool) -> Pair:
    nu, nv, cells, levels = (24, 13, 4, 2) if quick else (250, 201, 14, 4)
    shape = make_shape("ball", shapes.uv_sphere(nu, nv), cells=cells, builder="octree", levels=levels)
    return make_pair(shape, shape, (1.8, 0.1, 0.0))


def _measure(pair: Pair, mode: str, boxes: BoxTree, refit_ms: list[float], rounds: int) -> Tracked:
    found = Tracked()
    detector = pair.detector(tracking=mode)
    for turn in range(4):  # what a budget needs apart from the search is learnt by the first queries
        pair.deform(AMPLITUDE, 0.1 * turn)
        found.tests = max(found.tests, detector.query(budget_ms=BUDGET_MS).stats["tests"], 1)
    for turn in range(rounds):
        pair.deform(AMPLITUDE, 0.1 * turn)
        refit_ms.append(_timed(boxes.refit))
        moved, still = (detector.query(max_tests=found.tests).stats for _ in range(2))
        found.moved_ms.append(moved["search_ms"])
        found.still_ms.append(still["search_ms"])
        found.blocks = moved["tracked_blocks"]
    return found


def _timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return 1e3 * (perf_counter() - began)


def _spheres_a_block(tree: SphereHierarchy) -> float:
    """Spheres that are tracked at once: siblings, up to eight; on average."""
    return (len(tree) - 1) / max(int(np.count_nonzero(-(-tree.child_count // 8))), 1)


def _row(scene: str, mode: str, found: Tracked, lanes: float, refit: float) -> Row:
    spheres = lanes * found.blocks
    ns = 1e6 * found.tracking_ms / spheres if spheres else math.nan
    verdicts = [
        f"{ns:.1f} ns a sphere: {'held' if ns <= NS_A_SPHERE else 'not held'} (asked: {NS_A_SPHERE:g})",
        f"{found.tracking_ms / refit:.3f} of refitting: {'held' if found.tracking_ms < SHARE * refit else 'not held'} "
        f"(asked: {SHARE:g})",
    ]
    note = f"{found.tests:,} tests, {spheres:,.0f} spheres tracked; {'; '.join(verdicts)}"
    least = max(min(found.moved_ms) - min(found.still_ms), 0.0)
    return Row(scene, f"tracking={mode}", least, found.tracking_ms, found.tracking_ms / refit, note)
