"""Tracking spheres against refitting boxes: the cost of updating a structure after bodies have deformed.

Scene      Two soft bodies of some 2,000 coarse vertices that drive 50,000 dense ones each. The claims: the spheres that
           a query of 1 ms visits take at most 20 ns each, and all of them less than a fifth of refitting the boxes of
           the dense vertices, from single triangles up (``whole_tree``). ``BoxTree.refit`` is shown for comparison: it
           leaves boxes inside blocks to the searches that reach them.
Protocol   First, the number of tests of a query of 1 ms is found. A search of as many tests is timed after the bodies
           have moved, when it tracks every visited sphere, and again after other bodies of the same kind have moved,
           when it tracks none: the difference is tracking. Both run with caches full of dense vertices that were just
           written. Boxes are refitted after similar motions. Moving is not timed. All alternate; differences are those
           of medians.
Warm       The same where only coarse vertices move, the only input of these modes: the tree stays in the caches.
Threads    Queries of spheres use one; ``refit`` uses all.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

import numpy as np

from benchmarks.measure import Row, stages_timed, timed
from benchmarks.papers.p001_bodies import Pair, make_pair, make_shape
from impinge.backend import jit
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.tree import TreeOfBoxes, fit_trees, pose_tree
from impinge.detect.boxes.whole_tree import whole_tree
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.mesh import shapes

ROUNDS, ROUNDS_QUICK = 200, 3
NS_A_SPHERE = 20.0
"""The claim [ns]."""
SHARE = 0.2
AMPLITUDE = 0.02
BUDGET_MS = 1.0
MODES = ("bound", "paper", "affine", "refit")
COARSE_MODES = MODES[:3]
"""Those that read coarse vertices alone."""


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
        """Time that tracking adds."""
        return max(statistics.median(self.moved_ms) - statistics.median(self.still_ms), 0.0)


@dataclass
class Refits:
    """Times of refitting boxes."""

    all_ms: list[float] = field(default_factory=list)
    lazy_ms: list[float] = field(default_factory=list)


def run(*, quick: bool = False) -> list[Row]:
    """Time tracking in every mode, and refitting; ``quick`` takes small bodies and few rounds."""
    pair, others = _pair(quick=quick), _pair(quick=quick)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    boxes = BoxTree(pair.a.surface, pair.b.surface)
    boxes.refit()
    _refit_all(pair)
    scene = (
        f"{len(pair.a.coarse.vertices):,} coarse and {len(pair.a.surface.vertices):,} dense vertices each, "
        f"queries of {BUDGET_MS:g} ms"
    )
    refits = Refits()
    with stages_timed():
        found = {mode: _measure(pair, others, mode, boxes, refits, rounds) for mode in MODES}
        warm = {f"{mode}, warm": _measure_warm(pair, mode, found[mode].tests, rounds) for mode in COARSE_MODES}
    every, lazy = statistics.median(refits.all_ms), statistics.median(refits.lazy_ms)
    threads = f"{jit.thread_count()} threads"
    rows = [
        Row(scene, "all boxes", min(refits.all_ms), every, 1.0, f"{threads}; ratio: to this"),
        Row(scene, "BoxTree.refit", min(refits.lazy_ms), lazy, lazy / every, f"{threads}; blocks and above"),
    ]
    lanes = _spheres_a_block(pair.tree_a)
    return rows + [_row(scene, mode, each, lanes, every) for mode, each in (found | warm).items()]


def _pair(*, quick: bool) -> Pair:
    nu, nv, cells, levels = (24, 13, 4, 2) if quick else (250, 201, 14, 4)
    shape = make_shape("ball", shapes.uv_sphere(nu, nv), cells=cells, builder="octree", levels=levels)
    return make_pair(shape, shape, (1.8, 0.1, 0.0))


def _refit_all(pair: Pair) -> None:
    """Fit the boxes of both surfaces, from single triangles up."""
    for body in pair.bodies:
        placed = pose_tree(body.surface, body.surface.structure("boxes", TreeOfBoxes), None, None, "a")
        fit_trees(placed)
        whole_tree(placed)


def _measure(pair: Pair, others: Pair, mode: str, boxes: BoxTree, refits: Refits, rounds: int) -> Tracked:
    found = Tracked()
    detector = pair.detector(tracking=mode)
    for n in range(4):  # the first queries learn the overhead outside the search
        pair.deform(AMPLITUDE, 0.1 * n)
        found.tests = max(found.tests, detector.query(budget_ms=BUDGET_MS).stats["tests"], 1)
    for n in range(rounds):
        pair.deform(AMPLITUDE, 0.1 * n)
        moved = detector.query(max_tests=found.tests).stats
        others.deform(AMPLITUDE, 0.1 * n)
        still = detector.query(max_tests=found.tests).stats
        found.moved_ms.append(moved["search_ms"])
        found.still_ms.append(still["search_ms"])
        found.blocks = moved["tracked_blocks"]
        pair.deform(AMPLITUDE, 0.1 * n + 0.03)
        refits.lazy_ms.append(timed(boxes.refit)[0])
        pair.deform(AMPLITUDE, 0.1 * n + 0.06)
        refits.all_ms.append(timed(lambda: _refit_all(pair))[0])
    return found


def _measure_warm(pair: Pair, mode: str, tests: int, rounds: int) -> Tracked:
    found = Tracked(tests=tests)
    detector = pair.detector(tracking=mode)
    for n in range(rounds + 1):
        for phase, body in enumerate(pair.bodies):
            rest = body.model.rest
            x = rest + AMPLITUDE * np.sin(rest[:, [1, 2, 0]] + 0.1 * n + 2.0 * phase)
            body.coarse.positions.update(x, copy=True, check=False)  # without its surface
        moved, still = (detector.query(max_tests=tests).stats for _ in range(2))
        if n == 0:
            continue  # the first search brings the tree into the caches
        found.moved_ms.append(moved["search_ms"])
        found.still_ms.append(still["search_ms"])
        found.blocks = moved["tracked_blocks"]
    return found


def _spheres_a_block(tree: SphereHierarchy) -> float:
    """Mean number of spheres that are tracked at once: up to eight siblings."""
    return (len(tree) - 1) / max(int(np.count_nonzero(-(-tree.child_count // 8))), 1)


def _row(scene: str, mode: str, found: Tracked, lanes: float, refit: float) -> Row:
    spheres = lanes * found.blocks
    ns = 1e6 * found.tracking_ms / spheres if spheres else math.nan
    verdicts = [
        f"{ns:.1f} ns a sphere: {'held' if ns <= NS_A_SPHERE else 'not held'} (claim: {NS_A_SPHERE:g})",
        f"{found.tracking_ms / refit:.3f} of refitting all boxes: "
        f"{'held' if found.tracking_ms < SHARE * refit else 'not held'} (claim: {SHARE:g})",
    ]
    note = f"{found.tests:,} tests, {spheres:,.0f} spheres tracked; {'; '.join(verdicts)}"
    least = max(min(found.moved_ms) - min(found.still_ms), 0.0)
    return Row(scene, f"tracking={mode}", least, found.tracking_ms, found.tracking_ms / refit, note)
