"""Triangles removed at random until none is left, and added back: Figs 3 and 4 of [HatabKheddar2006].

Protocol   Two bodies overlap at a fixed pose with about 258 intersecting pairs. In each step equally many random
           triangles of both are removed, until none is left; then they are added again in the same order backwards.
           Time and pairs over the triangles that remain in both.
Bodies     The blobs of ``p000_bodies``, 13,000 triangles each, at the offset that a search finds.
Candidates GJK with cut with the edits timed, with the edits made before, and on one pool from which ``active_a`` and
           ``active_b`` select; the same as published (``published.gjk_cut``), with the edits made before; ``BoxTree``
           with the edits timed, on one pool too.
Claims     No overhead for edits; times fluctuate; a sudden drop at 8,000; adding is the mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p000_bodies import LARGE, SLANT, Pair, blobs
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
from impinge.checks import Floats, Ints
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.mesh.tri_mesh import TriMesh

PAIRS_AT_FIRST = 258
"""The paper's."""
EDITED, EDITED_BEFORE, CHOSEN = "GjkCut, edits timed", "GjkCut, edits made before", "GjkCut, active sets"
AS_PUBLISHED = "GjkCut as published, edits made before"
TREE, TREE_CHOSEN = "BoxTree, edits timed", "BoxTree, active sets"
MOST_OVERHEAD = 0.1
"""Share of the query that edits may add for "no overhead"."""
FLUCTUATION = 0.1
"""A step after which the time is longer by this share, although triangles were removed, is one."""
MANY = 0.1
"""Share of such steps for "many"."""
DROP = 0.25
"""Share of the time by which a step is shorter than the one before, for "sudden"."""
DROP_AT = (6000, 10_000)
"""Triangles in both bodies between which the paper's drop at 8,000 would be."""
STAGES = (1.0, 0.6, 0.3, 0.1)
"""Shares of the triangles that the pictures show."""

PROTOCOL = """
Same protocol, substitute geometry: bumpy spheres in place of the bulls, at distance {distance:.4f}, where {pairs}
pairs intersect (the paper: {wanted}); a search over {tried} distances found it. Deeper, these bodies have more:
{deep_pairs} at {deep:g}. Each of {steps} steps removes {share:,} random triangles from each body; then as many are
added in each step. {rounds} rounds; the time of a step is the least of them.

Edits are `remove_triangles` and `add_triangles` of both bodies. "active sets" leaves the bodies alone and lists the
ids that take part. All candidates find the same pairs at every step; triangles are numbered in the order in which
they come back.
"""


@dataclass(frozen=True)
class Bodies:
    """Positions, and triangles in random order: the first n of each are there when n are left."""

    vertices: tuple[Floats, Floats]
    faces: tuple[Ints, Ints]
    distance: float
    pairs: int
    deepest: tuple[float, int]
    """The least distance that was tried, and the pairs there."""

    def make(self, count: int) -> tuple[TriMesh, TriMesh]:
        """Bodies of the first triangles."""
        a, b = (TriMesh(x, rows[:count]) for x, rows in zip(self.vertices, self.faces))
        return a, b

    def __len__(self) -> int:
        return len(self.faces[0])


def run(*, quick: bool = False) -> Experiment:
    """Remove and add; ``quick`` takes tiny bodies and few steps."""
    pair, wanted, distances, steps, rounds = (
        (blobs(12, 9), 60, 10, 6, 1) if quick else (blobs(*LARGE), PAIRS_AT_FIRST, 200, 52, 5)
    )
    bodies = fixed_bodies(pair, wanted, distances)
    counts = [len(bodies) - round(len(bodies) * n / steps) for n in range(steps + 1)]
    fewer = measure("removing", _candidates(bodies, len(bodies)), counts, rounds=rounds)
    more = measure("adding", _candidates(bodies, 0), counts[::-1], rounds=rounds)
    return Experiment(
        name="p000_removal",
        title="GJK with cut: random triangles removed, and added back",
        protocol=PROTOCOL.format(
            distance=bodies.distance,
            pairs=bodies.pairs,
            wanted=PAIRS_AT_FIRST,
            tried=distances,
            deep=bodies.deepest[0],
            deep_pairs=bodies.deepest[1],
            steps=steps,
            share=len(bodies) // steps,
            rounds=rounds,
        ),
        rows=[series.row for each in (fewer, more) for series in each.values()],
        claims=_claims(fewer, more, counts),
        tables=[_table(fewer, more, counts)],
        plot=_plot(bodies, fewer, more, counts),
        quick=quick,
    )


def fixed_bodies(pair: Pair, wanted: int, distances: int) -> Bodies:
    """Search the distance with the wanted number of pairs; of equally good ones the deepest."""
    a, b = pair.make()
    rest = b.vertices.copy()
    detector = BoxTree(a, b)
    found = []
    for distance in np.linspace(pair.near, pair.far, distances).tolist():
        b.update(rest + distance * SLANT)
        found.append((distance, len(detector.query())))
    distance, count = min(found, key=lambda each: (abs(each[1] - wanted), each[0]))
    b.update(rest + distance * SLANT)
    rng = np.random.default_rng(0)
    rows = [body.faces[rng.permutation(len(body))] for body in (a, b)]
    return Bodies((a.vertices, b.vertices), (rows[0], rows[1]), distance, count, found[0])


# Candidates -----------------------------------------------------------------------------------------------------


def _candidates(bodies: Bodies, start: int) -> list[Candidate]:
    return [
        _edited(EDITED, bodies, start, GjkCut, timed=True),
        _edited(EDITED_BEFORE, bodies, start, GjkCut, timed=False),
        _chosen(CHOSEN, bodies, GjkCut),
        _edited(AS_PUBLISHED, bodies, start, Published, timed=False),
        _edited(TREE, bodies, start, BoxTree, timed=True),
        _chosen(TREE_CHOSEN, bodies, BoxTree),
    ]


def _edited(
    name: str, bodies: Bodies, start: int, make: Callable[..., GjkCut | BoxTree | Published], *, timed: bool
) -> Candidate:
    def begin() -> Session:
        both = bodies.make(start)
        detector = make(*both)
        detector.query()
        wanted = start

        def edit() -> None:
            for body, rows in zip(both, bodies.faces):
                there = len(body)
                if wanted > there:
                    body.add_triangles(rows[there:wanted])
                elif wanted < there:
                    body.remove_triangles(np.arange(wanted, there))

        def prepare(count: int) -> None:
            nonlocal wanted
            wanted = count
            if not timed:
                edit()

        def step() -> Answer:
            if timed:
                edit()
            return detector.query()

        return Session(prepare, step)

    return Candidate(name, begin)


def _chosen(name: str, bodies: Bodies, make: Callable[..., GjkCut | BoxTree]) -> Candidate:
    def begin() -> Session:
        detector = make(*bodies.make(len(bodies)))
        detector.query()
        active = np.arange(len(bodies), dtype=np.int32)

        def prepare(count: int) -> None:
            nonlocal active
            active = np.arange(count, dtype=np.int32)

        return Session(prepare, lambda: detector.query(active_a=active, active_b=active))

    return Candidate(name, begin)


# Claims ---------------------------------------------------------------------------------------------------------


def _claims(fewer: dict[str, Series], more: dict[str, Series], counts: list[int]) -> list[Claim]:
    return [
        _claim_on_overhead(fewer, more),
        _claim_on_fluctuation(fewer),
        _claim_on_drop(fewer, counts),
        _claim_on_mirror(fewer, more),
        _claim_on_box_tree(fewer, more),
    ]


def _claim_on_overhead(fewer: dict[str, Series], more: dict[str, Series]) -> Claim:
    shares = {
        way: each[EDITED].mean_ms / each[EDITED_BEFORE].mean_ms - 1.0
        for way, each in (("removing", fewer), ("adding", more))
    }
    return judged(
        "Triangles are removed and added at run time with no extra overhead (abstract; here: "
        f"at most {MOST_OVERHEAD:.0%} of the query, the edit itself included).",
        ", ".join(f"{way} adds {share:+.1%}" for way, share in shares.items()),
        max(shares.values()) <= MOST_OVERHEAD,
    )


def _claim_on_fluctuation(fewer: dict[str, Series]) -> Claim:
    grown, as_published = (
        [later > (1.0 + FLUCTUATION) * before for before, later in pairwise(fewer[name].ms)]
        for name in (EDITED_BEFORE, AS_PUBLISHED)
    )
    return judged(
        "Times fluctuate by much in many instances: with fewer triangles detection may take longer (Fig. 4; here: by "
        f"{FLUCTUATION:.0%} in at least {MANY:.0%} of the steps).",
        f"in {sum(grown)} of {len(grown)} steps; as published in {sum(as_published)}",
        sum(grown) >= MANY * len(grown),
    )


def _claim_on_drop(fewer: dict[str, Series], counts: list[int]) -> Claim:
    pairs = fewer[EDITED_BEFORE].pairs
    drops, as_published = (
        [1.0 - later / before for before, later in pairwise(fewer[name].ms)] for name in (EDITED_BEFORE, AS_PUBLISHED)
    )
    live = [2 * count for count in counts]
    inside = [n for n in range(len(drops)) if DROP_AT[0] <= live[n + 1] <= DROP_AT[1]]
    if not inside:
        return Claim(_DROP_TEXT, "there are no steps with so many triangles", "not testable here")
    n = max(inside, key=lambda n: drops[n])
    return judged(
        _DROP_TEXT,
        f"the largest drop there is {drops[n]:.0%}, at {live[n + 1]:,}; {pairs[n + 1]} of {pairs[0]} pairs are left; "
        f"as published {max(as_published[n] for n in inside):.0%}",
        drops[n] >= DROP,
    )


_DROP_TEXT = (
    "A sudden drop at 8,000 triangles, when most of the colliding ones were removed (Fig. 4; here: a step by "
    f"{DROP:.0%} between {DROP_AT[0]:,} and {DROP_AT[1]:,})."
)


def _claim_on_mirror(fewer: dict[str, Series], more: dict[str, Series]) -> Claim:
    removed, added = np.array(fewer[EDITED_BEFORE].ms), np.array(more[EDITED_BEFORE].ms[::-1])
    ratio = float(np.median(added / removed))
    return judged(
        "Adding triangles is almost exactly the inverse of removing them (6; here: the same pairs, and times of equal "
        f"numbers of triangles within {MOST_OVERHEAD:.0%} in the middle).",
        f"adding takes {ratio:.2f} times as long; pairs are "
        + ("the same" if fewer[EDITED].pairs == more[EDITED].pairs[::-1] else "others"),
        abs(ratio - 1.0) <= MOST_OVERHEAD and fewer[EDITED].pairs == more[EDITED].pairs[::-1],
    )


def _claim_on_box_tree(fewer: dict[str, Series], more: dict[str, Series]) -> Claim:
    details = [
        f"{way}: edits timed it {against(each[EDITED], each[TREE])} BoxTree, with active sets it "
        f"{against(each[CHOSEN], each[TREE_CHOSEN])} it"
        for way, each in (("removing", fewer), ("adding", more))
    ]
    return judged(
        "Not the paper's: where triangles come and go, it is faster than BoxTree, edits included.",
        "; ".join(details),
        all(is_faster(each[EDITED], each[TREE]) for each in (fewer, more)),
    )


# Table and picture ----------------------------------------------------------------------------------------------


def _table(fewer: dict[str, Series], more: dict[str, Series], counts: list[int]) -> Table:
    rows = [
        (way, 2 * count, series[EDITED].pairs[n], *(each.ms[n] for each in series.values()))
        for way, series, order in (("removing", fewer, counts), ("adding", more, counts[::-1]))
        for n, count in enumerate(order)
    ]
    columns = ("what", "triangles in both", "pairs", *(f"{name} ms" for name in fewer))
    return Table("steps", "Fig. 4: time and pairs over the remaining triangles", columns, rows)


def _plot(bodies: Bodies, fewer: dict[str, Series], more: dict[str, Series], counts: list[int]) -> Plot:
    """Fig. 4 above, Fig. 3 below."""

    def draw(figure: Any) -> None:
        above, below = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
        panels = above.subplots(1, 3)
        for panel, each, order, way in (
            (panels[0], fewer, counts, "removing"),
            (panels[1], more, counts[::-1], "adding"),
        ):
            for name, series in each.items():
                panel.plot([2 * count for count in order], series.ms, label=name, linewidth=1.0)
            panel.set(title=way, xlabel="triangles in both bodies", ylabel="ms", ylim=(0.0, None))
        panels[0].invert_xaxis()
        panels[0].legend(fontsize="small")
        panels[2].plot([2 * count for count in counts], fewer[EDITED].pairs, color="black")
        panels[2].set(title="pairs", xlabel="triangles in both bodies", ylabel="pairs")
        panels[2].invert_xaxis()
        for panel, share in zip(below.subplots(1, len(STAGES)), STAGES):
            panel.imshow(_picture(bodies, round(share * len(bodies))))
            panel.set_axis_off()

    return Plot((18.0, 8.2), draw)


def _picture(bodies: Bodies, count: int) -> Any:
    from impinge.view.picture import plot_pairs

    result = GjkCut(*bodies.make(count)).query()
    return plot_pairs(result, title=f"{2 * count:,} triangles, {len(result)} pairs")
