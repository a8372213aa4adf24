"""The spheres that a search has visited at interruption: Fig. 9 of [MendozaOSullivan2005].

Protocol   Two soft bodies penetrate. The spheres of all pairs that cause forces, certain and possible, are
           drawn at four critical times; and at four numbers of tests, which give the same picture on every machine.
Bodies     ``p001_bodies``: two balls with bumps.
Claim      Fig. 9 a to c, with small critical times, "use spheres in the middle of the sphere-tree hierarchy", d, with a
           larger one, "uses leaf spheres".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import Row
from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p001_bodies import Pair, bunny_like, make_pair, make_shape
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.view.picture import plot_spheres

BUDGETS_MS = (0.1, 1.0, 10.0, 100.0)
"""Those of Fig. 9."""
TESTS = (300, 2_000, 10_000, 1_000_000)
AMPLITUDE = 0.02
PUSHED = 0.12
"""Penetration of the bodies."""

PROTOCOL = """
Substitute geometry. {bodies}. Upper row: {budgets} ms. Lower row: {tests} tests of spheres. Spheres of a are drawn
brighter, those of b darker; those of pairs that are only possible are translucent.
"""


@dataclass(frozen=True)
class Shown:
    """One picture."""

    label: str
    result: SphereContacts

    @property
    def levels(self) -> Any:
        """Levels of both spheres of all pairs, shape (k, 2)."""
        return np.concatenate([self.result.certain_level, self.result.possible_level])

    @property
    def mean_radius(self) -> float:
        """Of the spheres that are used, each counted once."""
        pairs = np.concatenate([self.result.certain, self.result.possible])
        used = [side.of(np.unique(pairs[:, k]))[:, 3] for k, side in enumerate(self.result.spheres)]
        return float(np.concatenate([np.zeros(0), *used]).mean()) if len(pairs) else 0.0


def run(*, quick: bool = False) -> Experiment:
    """Draw what is used at four budgets and at four numbers of tests; ``quick`` takes small bodies."""
    pair = press(quick=quick)
    detector = pair.detector()
    detector.query()
    pair.deform(AMPLITUDE, 0.0)
    detector.query(budget_ms=1.0)  # what a budget needs apart from the search is known after the first query
    timed = [Shown(f"{ms:g} ms", detector.query(budget_ms=ms)) for ms in BUDGETS_MS]
    counted = [Shown(f"{tests:,} tests", detector.query(max_tests=tests)) for tests in TESTS]
    finest = max(tree.level_count for tree in pair.trees) - 1
    return Experiment(
        name="p001_pictures",
        title="An interruptible algorithm: the spheres that are used",
        protocol=PROTOCOL.format(
            bodies=pair.description(),
            budgets=", ".join(f"{ms:g}" for ms in BUDGETS_MS),
            tests=", ".join(f"{tests:,}" for tests in TESTS),
        ),
        rows=[_row(ms, each.result) for ms, each in zip(BUDGETS_MS, timed)],
        claims=claims(timed, counted, finest),
        tables=[_table([*timed, *counted])],
        plot=_plot(timed, counted),
        quick=quick,
    )


def press(*, quick: bool) -> Pair:
    """Two balls with bumps that penetrate."""
    shape = make_shape(
        "bunny-like", bunny_like(3 if quick else 6), cells=5 if quick else 14, builder="octree",
        levels=2 if quick else 5,
    )  # fmt: skip
    return make_pair(shape, shape, (2.0 - PUSHED, 0.1, 0.0))


def _row(ms: float, result: SphereContacts) -> Row:
    return Row("two balls", f"{ms:g} ms", result.elapsed_ms, result.elapsed_ms, result.elapsed_ms / ms, "to the budget")


def claims(timed: list[Shown], counted: list[Shown], finest: int) -> list[Claim]:
    """Held if the pictures with little time have no leaves and the last has nothing but leaves; for tests the same."""
    return [
        judged(
            f'with small critical times "spheres in the middle of the hierarchy" are used, with larger ones "leaf '
            f'spheres" (Fig. 9; here: by {name}, the first and the last)',
            "; ".join(
                f"{each.label}: {len(each.result.possible)} possible, {len(each.result.certain)} certain"
                for each in shown
            ),
            bool(len(shown[0].levels) and shown[0].levels.min() < finest and not len(shown[0].result.certain))
            and bool(len(shown[-1].result.certain) and shown[-1].result.complete),
        )
        for name, shown in (("time", timed), ("tests", counted))
    ]


def _table(shown: list[Shown]) -> Table:
    columns = ("cut off at", "possible", "certain", "searched to level", "finest level used", "mean radius", "tests")
    rows: list[tuple[Any, ...]] = [
        (
            each.label, len(each.result.possible), len(each.result.certain), each.result.level,
            int(each.levels.max(initial=0)), each.mean_radius, each.result.stats["tests"],
        )
        for each in shown
    ]  # fmt: skip
    return Table("spheres", "Spheres that are used", columns, rows)


def _plot(timed: list[Shown], counted: list[Shown]) -> Plot:
    def draw(figure: Any) -> None:
        panels = figure.subplots(2, len(timed), squeeze=False)
        for row, shown in zip(panels, (timed, counted)):
            for panel, each in zip(row, shown):
                draw_panel(panel, each)

    return Plot((4.5 * len(timed), 7.4), draw)


def draw_panel(panel: Any, shown: Shown) -> None:
    """One picture, with its label for a title."""
    panel.imshow(plot_spheres(shown.result))
    panel.set_title(shown.label)
    panel.set_axis_off()
