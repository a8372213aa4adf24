"""Ablation of [HatabKheddar2006]: GJK with cut with one option changed at a time.

Protocol   The frames of ``p000_deforming``; the candidates of a group differ in one option of ``published.gjk_cut``;
           ``GjkCut`` is measured beside them. Nodes, cuts and tests stand beside the times.
Bodies     The substitutes of ``p000_bodies``, 13,000 triangles each.
Groups     vertex sharing (IV), the direction of the next cut (III), the first direction searched for (IV), when to stop
           cutting and how far to recurse (V), how to split (V), hints from the frame before (ours), threads.
Claims     The measurable ones of sections III to V.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers.experiment import NOISE, Claim, Experiment, Plot, judged, ratio_bars
from benchmarks.papers.p000_bodies import LARGE, LARGE_KNOT, Frame, Pair, blobs, knots
from benchmarks.papers.p000_frames import Answer, Candidate, Published, Series, Session, cut, measure, published
from impinge.backend import jit
from impinge.checks import Floats
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.mesh.tri_mesh import TriMesh
from impinge.published.gjk_cut import cut_along_direction

DIRECTIONS = 64
"""Among which the best first direction is searched."""
CLOSE_FRAMES = 600
"""Frames of the whole approach, of which hints see a few; 0.6 s at the rate of a haptic loop."""
CUT = "GjkCut"
BLOCKS: dict[str, Any] = {"stop": "or", "leaf_pairs": 64}
"""Options of the recursion down to blocks of pairs."""
LEAVES = (1, 4, 16, 64, 256, 1024, 2**14)
"""Pairs of a leaf."""
PLAIN, SEARCHED, KNOWN = "centre to centre", "best of many, search timed", "best of many, search not timed"

PROTOCOL = """
Same protocol, substitute geometry: the frames of p000_deforming ({count} of them, {rounds} rounds), with bodies of
13,000 triangles. In each group one option is changed; all candidates find the same pairs in every frame. Times are
means over the frames. "as published" stands for the paper's recursion (`published.gjk_cut`): lists are cut while both
get shorter, split at the median of their corners, down to single triangles, on one thread. Other groups
recurse to blocks of {leaf} pairs and cut while either list gets shorter; "{cut}" is the production detector.

Hints see neighbouring frames of the same approach made in {close}. The search for a first direction projects all
vertices on {directions} directions, evenly spread, in one matrix product, takes the one along which the bodies
overlap least, cuts along it (`cut_along_direction`) and goes on, as published, with the triangles that remain.
"""

Found = dict[tuple[str, str], dict[str, Series]]
"""By group and bodies, then by candidate."""


# Groups ---------------------------------------------------------------------------------------------------------


def _sharing(pair: Pair) -> list[Candidate]:
    return [cut("indexed", pair), _soup("soup", pair, GjkCut)]


def _sharing_published(pair: Pair) -> list[Candidate]:
    return [published("indexed", pair), _soup("soup", pair, Published), cut(CUT, pair)]


def _direction(pair: Pair, **options: Any) -> list[Candidate]:
    return [
        published("Chung and Wang", pair, **options),
        published("simplices (GJK)", pair, **options, direction="gjk"),
        cut(CUT, pair),
    ]


def _stop(pair: Pair, **options: Any) -> list[Candidate]:
    return [*(published(stop, pair, **{**options, "stop": stop}) for stop in ("or", "and")), cut(CUT, pair)]


def _split(pair: Pair, **options: Any) -> list[Candidate]:
    return [*(published(split, pair, **options, split=split) for split in ("rank", "median")), cut(CUT, pair)]


def _leaf(pair: Pair) -> list[Candidate]:
    return [*(published(_pairs(count), pair, leaf_pairs=count) for count in LEAVES), cut(CUT, pair)]


def _pairs(count: int) -> str:
    return f"{count:,} pairs"


def _hints(pair: Pair, **options: Any) -> list[Candidate]:
    return [
        published("without", pair, **options),
        published("with", pair, **options, coherent=True),
        cut(CUT, pair),
    ]


def _threads(pair: Pair) -> list[Candidate]:
    return [cut("one thread", pair, threads=1), cut("all threads", pair)]


def _first_direction(pair: Pair) -> list[Candidate]:
    return [
        published(PLAIN, pair),
        _with_search(SEARCHED, pair, timed=True),
        _with_search(KNOWN, pair, timed=False),
        cut(CUT, pair),
    ]


GROUPS: dict[str, Callable[[Pair], list[Candidate]]] = {
    "vertex sharing": _sharing,
    "vertex sharing, as published": _sharing_published,
    "next direction": partial(_direction, **BLOCKS),
    "next direction, as published": _direction,
    "first direction": _first_direction,
    "stop": partial(_stop, **BLOCKS),
    "stop, as published": _stop,
    "split": partial(_split, **BLOCKS),
    "split, as published": _split,
    "leaf": _leaf,
    "hints": partial(_hints, **BLOCKS),
    "hints, as published": _hints,
    "threads": _threads,
}


# Candidates of this experiment only -----------------------------------------------------------------------------


def _soup(name: str, pair: Pair, make: Callable[..., GjkCut | Published]) -> Candidate:
    """Each triangle has vertices of its own."""

    def begin() -> Session:
        bodies = pair.make()
        soups = [TriMesh(_unshared(body, body.vertices), np.arange(3 * len(body)).reshape(-1, 3)) for body in bodies]
        detector = make(*soups)
        detector.query()

        def prepare(frame: Frame) -> None:
            for soup, body, x in zip(soups, bodies, (frame.a, frame.b)):
                soup.update(_unshared(body, x))

        return Session(prepare, detector.query)

    return Candidate(name, begin, threads=1 if make is Published else None)


def _unshared(body: TriMesh, x: Floats) -> Floats:
    return x[body.faces].reshape(-1, 3)


def _with_search(name: str, pair: Pair, *, timed: bool) -> Candidate:
    """Cut along the direction of least overlap first; its search and cut are timed or not."""

    def begin() -> Session:
        a, b = pair.make()
        detector = Published(a, b)
        detector.query()
        many = evenly_spread(DIRECTIONS)
        remaining: tuple[Any, Any] = (None, None)

        def search() -> None:
            nonlocal remaining
            remaining = cut_along_direction(a, b, least_overlap(a.vertices, b.vertices, many))

        def prepare(frame: Frame) -> None:
            a.update(frame.a)
            b.update(frame.b)
            if not timed:
                search()

        def step() -> Answer:
            if timed:
                search()
            return detector.query(active_a=remaining[0], active_b=remaining[1])

        return Session(prepare, step)

    return Candidate(name, begin, threads=1)


def evenly_spread(count: int) -> Floats:
    """Unit directions on a spiral of equal areas, shape (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - math.sqrt(5.0)) * np.arange(count)
    radius = np.sqrt(1.0 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def least_overlap(x_a: Floats, x_b: Floats, directions: Floats) -> Floats:
    """The direction from a to b along which the bodies overlap least: that of minimum penetration, among these."""
    overlap = (x_a @ directions.T).max(axis=0) - (x_b @ directions.T).min(axis=0)
    best: Floats = directions[int(np.argmin(overlap))]
    return best


# Run ------------------------------------------------------------------------------------------------------------


def run(*, quick: bool = False) -> Experiment:
    """Measure all groups; ``quick`` takes tiny bodies and few frames."""
    pairs, count, rounds = ([blobs(8, 7)], 4, 1) if quick else ([blobs(*LARGE), knots(*LARGE_KNOT)], 12, 5)
    found: Found = {}
    for group, candidates in GROUPS.items():
        for pair in pairs:
            label = f"{group}: {pair.name}"
            frames = _close_frames(pair, count) if group.startswith("hints") else pair.frames(count)
            found[group, pair.name] = measure(label, candidates(pair), frames, rounds=rounds)
    return Experiment(
        name="p000_variants",
        title="GJK with cut: what each part is worth",
        protocol=PROTOCOL.format(
            count=count, rounds=rounds, directions=DIRECTIONS, close=CLOSE_FRAMES, leaf=BLOCKS["leaf_pairs"], cut=CUT
        ),
        rows=[series.row for each in found.values() for series in each.values()],
        claims=_claims(found),
        tables=[],
        plot=_plot(found),
        quick=quick,
    )


def _close_frames(pair: Pair, count: int) -> list[Frame]:
    """Frames of a slow approach in contact: hints are for small motion between frames."""
    slow = pair.frames(CLOSE_FRAMES)
    return slow[CLOSE_FRAMES // 3 :][:count]


# Claims ---------------------------------------------------------------------------------------------------------


def _claims(found: Found) -> list[Claim]:
    return [
        _claim_on_sharing(found),
        _claim_on_search(found),
        _claim_on_formula(found),
        _claim_on_stop(found),
        _claim_on_leaves(found),
        _claim_on_hints(found),
        _claim_on_threads(found),
    ]


def _ratio(found: Found, group: str, name: str, base: str) -> float:
    """Time of one candidate over that of another, averaged over bodies."""
    return statistics.geometric_mean(
        each[name].mean_ms / each[base].mean_ms for (of, _), each in found.items() if of == group
    )


def _work(found: Found, group: str, counter: str, name: str, base: str) -> float:
    """The same for a counter."""
    return statistics.geometric_mean(
        max(each[name].counters[counter], 1.0) / max(each[base].counters[counter], 1.0)
        for (of, _), each in found.items()
        if of == group
    )


def _claim_on_sharing(found: Found) -> Claim:
    ratio = _ratio(found, "vertex sharing", "soup", "indexed")
    return judged(
        "Where neighbours share vertices there are fewer of them, and the cut is faster (4).",
        f"a soup of the same triangles takes {ratio:.2f} times as long; as published "
        f"{_ratio(found, 'vertex sharing, as published', 'soup', 'indexed'):.2f} times",
        ratio > 1.0 + NOISE,
    )


def _claim_on_search(found: Found) -> Claim:
    timed = _ratio(found, "first direction", SEARCHED, PLAIN)
    known = _ratio(found, "first direction", KNOWN, PLAIN)
    return judged(
        "The search for the direction of minimum penetration is not compensated by its better cut (4).",
        f"with the search the time is {timed:.2f} times that without it; if the search were free, {known:.2f} times",
        timed > 1.0 + NOISE,
    )


def _claim_on_formula(found: Found) -> Claim:
    details = [
        f"{way} simplices take {_ratio(found, group, 'simplices (GJK)', 'Chung and Wang'):.2f} times as long, with "
        f"{_work(found, group, 'cuts', 'simplices (GJK)', 'Chung and Wang'):.2f} times the cuts"
        for way, group in (("as published,", "next direction, as published"), ("in blocks,", "next direction"))
    ]
    return judged(
        "The formula of Chung and Wang spares solving simplices, which is a gain (3; here: as published).",
        "; ".join(details),
        _ratio(found, "next direction, as published", "simplices (GJK)", "Chung and Wang") > 1.0 + NOISE,
    )


def _claim_on_stop(found: Found) -> Claim:
    group = "stop, as published"
    ratio = _ratio(found, group, "or", "and")
    return judged(
        'Cutting should stop when a cut fails (5; here: as published, "and" stops when either list stays as it is, '
        '"or" when both do).',
        f'"or" takes {ratio:.2f} times as long as "and", with {_work(found, group, "nodes", "or", "and"):.2f} times '
        f"the nodes; in blocks {_ratio(found, 'stop', 'or', 'and'):.2f} times",
        ratio > 1.0 + NOISE,
    )


def _claim_on_leaves(found: Found) -> Claim:
    times = {_pairs(count): _ratio(found, "leaf", _pairs(count), "1 pairs") for count in LEAVES}
    best = min(times, key=lambda name: times[name])
    return judged(
        "Typically each leaf contains one triangle only (5; here: that is the fastest).",
        ", ".join(f"{name}: {ratio:.2f} times the time of 1" for name, ratio in times.items() if name != "1 pairs")
        + f"; the fastest is {best}; {CUT}: {_ratio(found, 'leaf', CUT, '1 pairs'):.2f} times",
        best == "1 pairs",
    )


def _claim_on_hints(found: Found) -> Claim:
    details = [
        f"{way} hints make the time {_ratio(found, group, 'with', 'without'):.2f} times that without, with "
        f"{_work(found, group, 'cuts', 'with', 'without'):.2f} times the cuts"
        for way, group in (("in blocks,", "hints"), ("as published,", "hints, as published"))
    ]
    return judged(
        "Not the paper's: directions kept from the frame before are worth it (here: in blocks).",
        "; ".join(details),
        _ratio(found, "hints", "with", "without") < 1.0 - NOISE,
    )


def _claim_on_threads(found: Found) -> Claim:
    text = "Not the paper's: threads are worth it."
    ratio = _ratio(found, "threads", "one thread", "all threads")
    if jit.thread_count() == 1:
        return Claim(text, "there is one thread only", "not testable here")
    return judged(text, f"{jit.thread_count()} threads are {ratio:.2f} times as fast as one", ratio > 1.0 + NOISE)


def _plot(found: Found) -> Plot:
    """One panel per group, with a bar for each candidate and body."""
    bars = {
        group: [
            (f"{name} ({bodies.split()[0]})", series.row.ratio)
            for (of, bodies), each in found.items()
            if of == group
            for name, series in each.items()
        ]
        for group in GROUPS
    }
    return ratio_bars(bars, height=2.8)
