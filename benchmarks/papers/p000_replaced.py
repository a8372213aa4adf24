"""The cost of changes: none, vertices, half of the triangles, and more triangles; abstract of [HatabKheddar2006].

Changes    The same frames, queried after nothing changed, after all vertices moved, and after half of the triangles
           were replaced, the change itself untimed: does detection take longer?
Replaced   Half of the triangles of both bodies are replaced in every frame, edits timed: by ``remove_triangles`` and
           ``add_triangles``, or as active sets of a pool that holds both versions. ``BoxTree`` has to update;
           ``published.gjk_cut`` keeps no structure.
Refined    Regions near contact switch to fine triangles from frame to frame (``scenes.refinement``): the future work
           of section VII. Switching is not timed, detection is.
Growth     Time over the number of live triangles, whole bodies, and a growing part of one pool.
Bodies     Blobs whose quads flip their diagonals (``p000_quads``).
Claims     No cost for deformation, none for edits, linear in the triangles. Added: against ``BoxTree``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import Sizes
from benchmarks.papers.experiment import Claim, Experiment, Plot, judged
from benchmarks.papers.p000_frames import (
    Answer,
    Candidate,
    Published,
    Series,
    Session,
    against,
    is_faster,
    measure,
)
from benchmarks.papers.p000_quads import DISTANCE, Flipping, Frame, Quads
from benchmarks.papers.p000_refit_tree import RefitTree
from impinge.checks import Ints
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import TrianglePairs
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.scenes.refinement import RefinementScene

NOTHING, MOVED, REPLACED = "nothing changed", "vertices moved", "half replaced"
CUT, AS_PUBLISHED, TREE, REBUILT = "GjkCut", "GjkCut, as published", "BoxTree", "refit tree, built anew"
FINE_CUT = "GjkCut, all fine"
MOST_OVERHEAD = 0.1
"""Share of the time that counts as "no extra cost"."""
MOST_SLOPE = 1.15
"""Of the time over the triangles, both as logarithms, between the smallest and the largest; 1 is linear."""

PROTOCOL = """
Substitute geometry: bumpy spheres, meridians and bands, at distance {distance:g}, deforming in every frame. Each quad
carries one of its two diagonals; in every frame random quads flip theirs, so many that half of the triangles of both
bodies are replaced. {count} frames, {rounds} rounds; the time of a frame is the least of them.

With edits, triangles that were removed stay in the pool, dead, until the round is over: the pool grows to {grown:g}
times its size. With active sets, one pool holds both versions of all quads. The refined scene has {coarse} and {fine}
subdivisions.
"""

Found = dict[str, dict[str, Series]]
"""By scene, then by candidate."""


# grids: meridians and bands; the first is that of the changes
FULL = Sizes(
    grids=((100, 66), (30, 26), (250, 165)), growth=((30, 26), (60, 55), (120, 109), (240, 217), (340, 307)),
    refined=(3, 6), count=12, rounds=3,
)  # fmt: skip
QUICK = Sizes(grids=((8, 7),), growth=((8, 7), (16, 14)), refined=(1, 2), count=4, rounds=1)


def run(*, quick: bool = False) -> Experiment:
    """Measure all; ``quick`` takes tiny bodies and few frames."""
    sizes = QUICK if quick else FULL
    changes = _changes(sizes)
    edited, chosen = {}, {}
    for grid in sizes.grids:
        quads = Quads(*grid)
        edited[f"{quads.triangles:,} triangles"] = _edits(quads, sizes)
        chosen[f"{quads.triangles:,} triangles"] = _active_sets(quads, sizes)
    refined = _refined(sizes)
    growth, parts = _growth(sizes), _growth_in_pool(sizes)
    groups = [changes, *edited.values(), *chosen.values(), refined, *growth.values(), *parts.values()]
    return Experiment(
        name="p000_replaced",
        title="GJK with cut: what changes cost",
        protocol=PROTOCOL.format(
            distance=DISTANCE,
            count=sizes.count,
            rounds=sizes.rounds,
            grown=1.0 + sizes.count / 2.0,
            coarse=sizes.refined[0],
            fine=sizes.refined[1],
        ),
        rows=[series.row for group in groups for series in group.values()],
        claims=[
            _claim_on_changes(changes, MOVED, "It handles all deformations at no extra time cost (abstract"),
            _claim_on_changes(changes, REPLACED, "It allows to add and remove triangles with no overhead (abstract"),
            _claim_on_growth(growth, "Its cost is linear in the triangles"),
            _claim_on_growth(parts, "The same for live triangles of one pool"),
            _claim_on_refinement(refined),
            _claim_on_box_tree(edited, "half of the triangles replaced in every frame, edits included"),
            _claim_on_box_tree(chosen, "half of the triangles replaced in every frame, as active sets"),
        ],
        tables=[],
        plot=_plot(edited, chosen, growth, parts),
        quick=quick,
    )


# Candidates -----------------------------------------------------------------------------------------------------


def _edited(name: str, quads: Quads, make: Callable[..., Any], *, timed: bool = True, twice: bool = False) -> Candidate:
    """Edits before each query, timed or not; ``twice`` queries once before: the timed query sees no change."""

    def begin() -> Session:
        both = [Flipping(quads, i) for i in range(2)]
        detector = make(*(one.body for one in both))
        detector.query()

        def edit() -> None:
            for one in both:
                one.edit()

        def prepare(frame: Frame) -> None:
            for one in both:
                one.prepare(frame)
            if not timed:
                edit()
            if twice:
                detector.query()
                _pass_over(frame)

        def step() -> Answer:
            if timed:
                edit()
            found: Answer = detector.query()
            return found

        return Session(prepare, step)

    return Candidate(name, begin)


class _Rebuilt(RefitTree):
    """A tree that is rebuilt for each query."""

    def query(self) -> TrianglePairs:
        self.build()
        return super().query()


def _edits(quads: Quads, sizes: Sizes) -> dict[str, Series]:
    makers = ((CUT, GjkCut), (AS_PUBLISHED, Published), (TREE, BoxTree), (REBUILT, _Rebuilt))
    candidates = [_edited(name, quads, make) for name, make in makers]
    return _measure(f"half replaced by edits, {quads.triangles:,} triangles", candidates, quads, sizes)


def _active_sets(quads: Quads, sizes: Sizes) -> dict[str, Series]:
    makers = ((CUT, GjkCut), (AS_PUBLISHED, Published), (TREE, BoxTree))
    candidates = [_chosen(name, quads, make) for name, make in makers]
    return _measure(f"half replaced by active sets, {quads.triangles:,} triangles", candidates, quads, sizes)


def _measure(label: str, candidates: list[Candidate], quads: Quads, sizes: Sizes) -> dict[str, Series]:
    return measure(label, candidates, quads.frames(sizes.count), rounds=sizes.rounds)


def _chosen(name: str, quads: Quads, make: Callable[..., GjkCut | BoxTree | Published]) -> Candidate:
    def begin() -> Session:
        bodies = [quads.pool(i) for i in range(2)]
        flipped = [np.zeros(quads.count, dtype=np.bool_) for _ in bodies]
        detector = make(*bodies)
        active = [quads.active(each) for each in flipped]
        detector.query(active_a=active[0], active_b=active[1])

        def prepare(frame: Frame) -> None:
            for i, body in enumerate(bodies):
                body.update(frame.x[i])
                flipped[i][frame.flips[i]] ^= True
                active[i] = quads.active(flipped[i])

        return Session(prepare, lambda: detector.query(active_a=active[0], active_b=active[1]))

    return Candidate(name, begin)


def _changes(sizes: Sizes) -> dict[str, Series]:
    """Queries of the same bodies, after larger and larger changes."""
    quads = Quads(*sizes.grids[0])

    label = f"changes, not timed, {quads.triangles:,} triangles"
    found = _measure(label, [_moved(NOTHING, quads, twice=True), _moved(MOVED, quads)], quads, sizes)
    edits = (
        _edited(REPLACED, quads, GjkCut, timed=False),
        _edited(f"{REPLACED}, asked again", quads, GjkCut, timed=False, twice=True),
    )
    return {**found, **_measure(f"{label}, edited", list(edits), quads, sizes)}


def _pass_over(frame: Frame) -> None:
    """Leave the caches as an update does: a repeated query differs from it in nothing but the unchanged vertices."""
    for x in frame.x:
        x.copy()


def _moved(
    name: str, quads: Quads, *, twice: bool = False, active_a: Ints | None = None, active_b: Ints | None = None
) -> Candidate:
    """GJK with cut after the vertices moved, or queried ``twice``; on all triangles or on the active ones."""

    def begin() -> Session:
        bodies = [quads.body(i) for i in range(2)]
        detector = GjkCut(*bodies)
        query = partial(detector.query, active_a=active_a, active_b=active_b)
        query()

        def prepare(frame: Frame) -> None:
            for body, x in zip(bodies, frame.x):
                body.update(x)
            if twice:
                query()
                _pass_over(frame)

        return Session(prepare, query)

    return Candidate(name, begin)


# A refined scene ------------------------------------------------------------------------------------------------


def _refined(sizes: Sizes) -> dict[str, Series]:
    """Coarse, and fine near contact, by active sets; beside all fine triangles at once."""
    frames = [0.25 * n / sizes.count for n in range(sizes.count)]
    label = f"refined near contact, {20 * 4 ** sizes.refined[0]:,} to {20 * 4 ** sizes.refined[1]:,} triangles"
    adaptive = [_adaptive(name, sizes, make) for name, make in ((CUT, GjkCut), (TREE, BoxTree))]
    found = measure(label, adaptive, frames, rounds=sizes.rounds)
    return {**found, **measure(f"{label}, all of it fine", [_all_fine(sizes)], frames, rounds=sizes.rounds)}


def _adaptive(name: str, sizes: Sizes, make: Callable[..., GjkCut | BoxTree]) -> Candidate:
    def begin() -> Session:
        scene = RefinementScene(*sizes.refined)
        detector = make(scene.a.body, scene.b.body)
        active = _active_ids(scene)
        found = detector.query(active_a=active[0], active_b=active[1])

        def prepare(t: float) -> None:
            nonlocal active
            scene.refine(found.pairs)
            scene.move(t)
            active = _active_ids(scene)

        def step() -> TrianglePairs:
            nonlocal found
            found = detector.query(active_a=active[0], active_b=active[1])
            return found

        return Session(prepare, step)

    return Candidate(name, begin)


def _active_ids(scene: RefinementScene) -> tuple[Ints, Ints]:
    return scene.a.active, scene.b.active


def _all_fine(sizes: Sizes) -> Candidate:
    def begin() -> Session:
        scene = RefinementScene(*sizes.refined)
        for side in (scene.a, scene.b):
            side.is_fine[:] = True
        detector = GjkCut(scene.a.body, scene.b.body)
        active = _active_ids(scene)
        return Session(scene.move, lambda: detector.query(active_a=active[0], active_b=active[1]))

    return Candidate(FINE_CUT, begin)


# Growth ---------------------------------------------------------------------------------------------------------


def _growth(sizes: Sizes) -> dict[int, dict[str, Series]]:
    """Whole bodies, by the triangles of both."""
    found = {}
    for grid in sizes.growth:
        quads = Quads(*grid)

        label = f"growth, {quads.triangles:,} triangles"
        found[2 * quads.triangles] = _measure(label, [_moved(CUT, quads)], quads, sizes)
    return found


def _growth_in_pool(sizes: Sizes) -> dict[int, dict[str, Series]]:
    """More and more triangles of one pool, chosen at random, by those of both bodies that take part."""
    quads = Quads(*sizes.growth[-1])
    rng = np.random.default_rng(0)
    order = [rng.permutation(quads.triangles) for _ in range(2)]
    found = {}
    for share in (0.05, 0.2, 0.5, 1.0):
        count = round(share * quads.triangles)
        active_a, active_b = (np.sort(each[:count]).astype(np.int32) for each in order)
        candidate = _moved(CUT, quads, active_a=active_a, active_b=active_b)
        label = f"growth in a pool of {quads.triangles:,}, {share:.0%} active"
        frames = quads.frames(max(sizes.count // 3, 2))
        found[2 * count] = measure(label, [candidate], frames, rounds=sizes.rounds)
    return found


# Claims ---------------------------------------------------------------------------------------------------------


def _claim_on_changes(found: dict[str, Series], name: str, text: str) -> Claim:
    base = NOTHING if name == MOVED else f"{REPLACED}, asked again"
    ratio = found[name].mean_ms / found[base].mean_ms
    return judged(
        f"{text}; here: at most {MOST_OVERHEAD:.0%} more than a repeated query, the change itself not timed).",
        f"{name}: {found[name].mean_ms:.3f} ms, {ratio:.2f} times that of a repeated query",
        ratio <= 1.0 + MOST_OVERHEAD,
    )


def _slope(found: dict[int, dict[str, Series]]) -> float:
    """Of time over triangles, as logarithms, from the smallest to the largest."""
    (low, first), *_, (high, last) = found.items()
    return math.log(last[CUT].mean_ms / first[CUT].mean_ms) / math.log(high / low)


def _claim_on_growth(found: dict[int, dict[str, Series]], text: str) -> Claim:
    details = ", ".join(
        f"{count:,}: {1e6 * each[CUT].mean_ms / count:.0f} ns per triangle, {np.mean(each[CUT].pairs):,.0f} pairs"
        for count, each in found.items()
    )
    slope = _slope(found)
    return judged(
        f"{text} (4; here: time grows with a power of at most {MOST_SLOPE:g} of their number).",
        f"power {slope:.2f}; {details}",
        slope <= MOST_SLOPE,
    )


def _claim_on_refinement(found: dict[str, Series]) -> Claim:
    return judged(
        "The method is a good candidate for multi-resolution: few rough triangles go, many fine ones come (7; here: "
        "faster than with all fine triangles).",
        f"it {against(found[CUT], found[FINE_CUT])} with all fine triangles; "
        f"it {against(found[CUT], found[TREE])} BoxTree on the same active sets",
        is_faster(found[CUT], found[FINE_CUT]),
    )


def _claim_on_box_tree(found: Found, what: str) -> Claim:
    details = []
    for name, each in found.items():
        text = f"{name}: {against(each[CUT], each[TREE])} BoxTree"
        text += f", as published {against(each[AS_PUBLISHED], each[TREE])} it"
        if REBUILT in each:
            text += f", {against(each[CUT], each[REBUILT])} a refit tree that is rebuilt"
        details.append(text)
    return judged(
        f"Not the paper's: with {what}, it is faster than BoxTree.",
        "; ".join(details),
        all(is_faster(each[CUT], each[TREE]) for each in found.values()),
    )


# Picture --------------------------------------------------------------------------------------------------------


def _plot(
    edited: Found, chosen: Found, growth: dict[int, dict[str, Series]], parts: dict[int, dict[str, Series]]
) -> Plot:
    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 3)
        for panel, found, title in ((panels[0], edited, "by edits, timed"), (panels[1], chosen, "by active sets")):
            bars = [
                (f"{name}\n{size}", series.mean_ms) for size, each in found.items() for name, series in each.items()
            ]
            panel.barh([name for name, _ in bars], [ms for _, ms in bars])
            panel.invert_yaxis()
            panel.set(title=f"half of the triangles replaced {title}", xlabel="ms per frame", xscale="log")
        for label, by_count in (("whole bodies", growth), ("part of a pool", parts)):
            panels[2].plot(list(by_count), [each[CUT].mean_ms for each in by_count.values()], marker="o", label=label)
        panels[2].set(title="growth", xlabel="live triangles of both bodies", ylabel="ms", xscale="log", yscale="log")
        panels[2].legend()

    return Plot((17.0, 5.0), draw)
