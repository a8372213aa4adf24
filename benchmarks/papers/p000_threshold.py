"""Is a cut always worth it? Fig. 2 of [HatabKheddar2006].

Protocol   Two bodies approach and recede, deforming in every frame. A list is cut only where the common region
           of both lists takes up at most T_max of it, along the direction of the cut; T_max is 40, 55, 70, 85 and
           100 %, where 100 % cuts always.
Bodies     The substitutes of ``p000_bodies``, 13,000 triangles each.
Candidates Each T_max with ``published.gjk_cut``, down to single triangles and down to blocks of pairs, on one thread;
           ``GjkCut`` for comparison, which cuts always.
Claims     100 % is the fastest, except for very few positions.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p000_bodies import LARGE, LARGE_KNOT, Frame, Pair, blobs, knots
from benchmarks.papers.p000_frames import Candidate, Series, cut, measure, published

THRESHOLDS = (1.0, 0.85, 0.7, 0.55, 0.4)
CUT = "GjkCut"
LEAF_PAIRS = 64
"""Pairs of a block."""
WAYS: dict[str, dict[str, Any]] = {"as published": {}, "blocks": {"stop": "or", "leaf_pairs": LEAF_PAIRS}}
"""Options of the recursion, by its name."""
FEW = 0.1
""""Very few" exceptions are at most this share of the positions."""
CLEARLY = 0.1
"""Margin below the 100 % curve that makes an exception: the lowest of four curves is often below by less."""

PROTOCOL = """
Same protocol, substitute geometry: {count} frames, in which b moves from distance {far:g} to {near:g} and back,
by a path of our own in place of a haptic device. The paper's bodies were never published; blobs are spheres
with bumps, knots are trefoil tubes. {rounds} rounds; the time of a frame is the least of them.

"as published" (`published.gjk_cut`): lists are cut while both get shorter, split at the median of their corners, down
to single triangles, on one thread. "blocks": the same while either list gets shorter, down to lists of {leaf:,} pairs.
"{cut}" is the production detector, on all threads; it has no threshold.
"""

Found = dict[tuple[str, str], dict[str, Series]]
"""By body and by way of recursion, then by threshold."""


def run(*, quick: bool = False) -> Experiment:
    """Measure all thresholds; ``quick`` takes small bodies and few frames."""
    pairs, count, rounds = ([blobs(12, 9)], 5, 1) if quick else ([blobs(*LARGE), knots(*LARGE_KNOT)], 40, 3)
    found: Found = {}
    frames = {pair.name: pair.frames(count) for pair in pairs}
    for pair in pairs:
        for way, options in WAYS.items():
            label = f"{pair.name}, {way}"
            found[pair.name, way] = measure(label, _candidates(pair, options), frames[pair.name], rounds=rounds)
    return Experiment(
        name="p000_threshold",
        title="GJK with cut: is a cut always worth it?",
        protocol=PROTOCOL.format(
            count=count, rounds=rounds, near=pairs[0].near, far=pairs[0].far, leaf=LEAF_PAIRS, cut=CUT
        ),
        rows=[series.row for each in found.values() for series in each.values()],
        claims=_claims(found),
        tables=[_table(found, frames)],
        plot=_plot(found, frames),
        quick=quick,
    )


def _candidates(pair: Pair, options: dict[str, Any]) -> list[Candidate]:
    each = [published(f"{T_max:.0%}", pair, **options, T_max=T_max) for T_max in THRESHOLDS]
    return [*each, cut(CUT, pair)]


def _by_threshold(each: dict[str, Series]) -> list[Series]:
    return [each[f"{T_max:.0%}"] for T_max in THRESHOLDS]


def _share_of_exceptions(each: dict[str, Series]) -> float:
    """Part of the positions at which a threshold below 100 % is clearly faster than 100 %."""
    always, *others = _by_threshold(each)
    beaten = [min(series.ms[n] for series in others) < (1.0 - CLEARLY) * ms for n, ms in enumerate(always.ms)]
    return statistics.fmean(beaten)


def _claims(found: Found) -> list[Claim]:
    claims = []
    for way, added in (("as published", ""), ("blocks", f", with blocks of {LEAF_PAIRS} pairs")):
        details, holds = [], True
        for (name, of), each in found.items():
            if of != way:
                continue
            exceptions = _share_of_exceptions(each)
            always, *others = _by_threshold(each)
            ratios = ", ".join(f"{series.row.candidate} {series.row.ratio:.2f}" for series in others)
            details.append(
                f"{name}: {exceptions:.0%} of the positions are exceptions; mean times over that of 100 %: {ratios}"
            )
            holds &= exceptions <= FEW and always.mean_ms <= min(series.mean_ms for series in others)
        claims.append(
            judged(
                "It is always beneficial to cut; except for very few exceptions the 100 % curve is the fastest (Fig. 2"
                f"; here: at most {FEW:.0%} of the positions{added}).",
                "; ".join(details),
                holds,
            )
        )
    return claims


def _table(found: Found, frames: dict[str, list[Frame]]) -> Table:
    rows = [
        (name, way, n, frame.distance, next(iter(each.values())).pairs[n], *(series.ms[n] for series in each.values()))
        for (name, way), each in found.items()
        for n, frame in enumerate(frames[name])
    ]
    columns = (
        "bodies",
        "recursion",
        "frame",
        "distance",
        "pairs",
        *(f"{each:.0%} ms" for each in THRESHOLDS),
        f"{CUT} ms",
    )
    return Table("positions", "Fig. 2: time at each position", columns, rows)


def _plot(found: Found, frames: dict[str, list[Frame]]) -> Plot:
    rows = 1 if len(found) < 3 else 2

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, -(-len(found) // rows), squeeze=False).ravel()
        for panel, ((name, way), each) in zip(panels, found.items()):
            for threshold, series in each.items():
                label = threshold if threshold == CUT else f"T_max {threshold}"
                panel.plot(series.ms, label=label, linewidth=1.0)
            panel.set(title=f"{name}, {way}", xlabel="frame", ylabel="ms", ylim=(0.0, None))
            distance = panel.twinx()
            distance.plot([frame.distance for frame in frames[name]], color="grey", linestyle=":", linewidth=0.8)
            distance.set_ylabel("distance (dotted)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(THRESHOLDS) + 1)

    return Plot((6.5 * -(-len(found) // rows), 4.0 * rows), draw)
