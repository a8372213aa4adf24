"""Time of a step over 1000 deforming steps: Tables 1 and 2 of [Teschner2003], section 6.

Protocol   Bodies of setups A to E deform in every step; the time to find all collisions and self-collisions is taken
           at each of 1000 steps, with average, minimum, maximum and standard deviation.
Bodies     Those of ``p003_scenes``: exact for A, B, C and E, their counts asserted; tubes for the vessels of D.
Candidates The scheme as published, on one thread, and our default. They find the same contacts at every step.
Claims     Real time at 20k tets; time depends on the number of primitives only; it varies slightly from step to step.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p003_scenes import SETUPS, Setup, counts
from benchmarks.papers.p003_steps import Measured, hashed, measure, published

PUBLISHED, DEFAULT = "as published", "default"
STEPS, STEPS_QUICK = 1000, 3
SETUPS_QUICK = "ABD"
STEP = 0.02
"""Time step; the period of a wave is pi: 1000 steps cover six."""
REAL_TIME_MS = 1000.0 / 15.0
"""The paper's 15 Hz."""
MOST_SPREAD = 1.5
"""Times per primitive may differ so much between setups; those of the paper differ by 1.36."""
MOST_DEVIATION = 0.1
"""Of the average, for "slightly"; the paper's own go up to 0.056."""

PROTOCOL = """
Same protocol; substitute geometry for D. Waves deform all bodies, each with a phase of its own, by {step:g} per step;
{steps} steps are timed, after one that is not. The time of a step is that of the query: cells, hashing, tests, sorted
contacts. New positions are in place before it, as they are in the paper's simulation. Setups A, B, C and E have the
objects, tets and vertices of Table 1, asserted; their arrangement is ours, since the paper shows pictures only. Two
tubes stand in for the vessels of D.

"{published}": ``impinge.published.spatial_hash``. The paper's hash function, cells as long as the mean edge at rest,
time stamps, barycentric test, one thread.
The table has 4999 slots for A and 9973 for D, as in Figs 5 and 6; for the others, which the paper does not give, the
least prime above twice the number of vertices. Contacts are exact, which the paper's are not, and sorted.
"{default}": the production detector, on all threads. Both find the same contacts at every step.
"""

Found = Mapping[str, dict[str, Measured]]
"""By letter of the setup, then by candidate."""


def run(*, quick: bool = False) -> Experiment:
    """Take all setups through all steps; ``quick`` takes three of them through a few."""
    steps = STEPS_QUICK if quick else STEPS
    setups = [SETUPS[letter] for letter in (SETUPS_QUICK if quick else SETUPS)]
    found = {setup.letter: _measure(setup, steps) for setup in setups}
    return Experiment(
        name="p003_setups",
        title="Optimized spatial hashing: the setups of the paper",
        protocol=PROTOCOL.format(step=STEP, steps=steps, published=PUBLISHED, default=DEFAULT),
        rows=[each.row for candidates in found.values() for each in candidates.values()],
        claims=_claims(found),
        tables=[_table_1(setups), _table_2(found)],
        plot=_plot(found),
        quick=quick,
    )


def _measure(setup: Setup, steps: int) -> dict[str, Measured]:
    scene = setup.scene()
    candidates = [published(PUBLISHED, scene, table_size=setup.table_size), hashed(DEFAULT, scene)]
    objects, tets, vertices = counts(scene)
    label = f"setup {setup.letter}, {objects} objects, {tets:,} tets, {vertices:,} vertices"
    return measure(label, candidates, [STEP * step for step in range(steps)])


# Tables and picture -------------------------------------------------------------------------------------------


def _table_1(setups: list[Setup]) -> Table:
    rows = [
        (s.letter, s.objects, s.tets, s.vertices, *counts(s.scene()), "exact" if s.ours is None else "substitute")
        for s in setups
    ]
    columns = ("setup", "objects", "tets", "vertices", "objects here", "tets here", "vertices here", "bodies")
    return Table("table_1", "Table 1: setups, in the paper and here", columns, rows)


def _table_2(found: Found) -> Table:
    """Four figures of the paper, of the scheme as published here, and of the default."""
    rows: list[tuple[Any, ...]] = []
    for letter, candidates in found.items():
        paper = SETUPS[letter].paper_ms
        rows.append((letter, "the paper (Pentium 4, 1.8 GHz)", *paper, "", 1.0))
        for name, each in candidates.items():
            figures = summary(each.ms)
            rows.append((letter, name, *figures, statistics.fmean(each.contacts), paper[0] / figures[0]))
    columns = ("setup", "who", "ave ms", "min ms", "max ms", "dev ms", "contacts per step", "times the paper's speed")
    return Table("table_2", "Table 2: times of a step", columns, rows)


def summary(ms: list[float]) -> tuple[float, float, float, float]:
    """Average, minimum, maximum and standard deviation."""
    return statistics.fmean(ms), min(ms), max(ms), statistics.pstdev(ms)


def _plot(found: Found) -> Plot:
    """One panel per setup: time of each step."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(found), squeeze=False).ravel()
        for panel, (letter, candidates) in zip(panels, found.items()):
            for name, each in candidates.items():
                panel.plot(each.ms, linewidth=0.6, label=name)
            panel.axhline(SETUPS[letter].paper_ms[0], color="black", linestyle=":", label="the paper's average")
            panel.set(title=f"setup {letter}", yscale="log", xlabel="step", ylabel="ms")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Plot((3.6 * len(found), 3.8), draw)


# Claims -------------------------------------------------------------------------------------------------------


def _claims(found: Found) -> list[Claim]:
    return [_claim_on_real_time(found), _claim_on_primitives(found), _claim_on_variation(found)]


def _claim_on_real_time(found: Found) -> Claim:
    means = {name: statistics.fmean(each.ms) for name, each in found["D"].items()}
    details = ", ".join(f"{name} {ms:.2f} ms ({1e3 / ms:.0f} Hz)" for name, ms in means.items())
    return judged(
        "All collisions and self-collisions of up to 20k tets and 6k vertices are found at 15 Hz (6).",
        f"setup D on average: {details}",
        means[PUBLISHED] <= REAL_TIME_MS,
    )


def _claim_on_primitives(found: Found) -> Claim:
    spread = {name: _spread(found, name) for name in (PUBLISHED, DEFAULT)}
    details = "; ".join(
        f"{name} {min(ns):.0f} to {max(ns):.0f} ns per primitive, {max(ns) / min(ns):.2f} times"
        for name, ns in spread.items()
    )
    return judged(
        "Performance does not depend on the number of objects, only on that of primitives (6; here: average times per "
        f"primitive of all setups within {MOST_SPREAD:g} times, as published).",
        details,
        max(spread[PUBLISHED]) / min(spread[PUBLISHED]) <= MOST_SPREAD,
    )


def _spread(found: Found, name: str) -> list[float]:
    """Average nanoseconds per primitive of each setup."""
    times = []
    for letter, candidates in found.items():
        setup = SETUPS[letter]
        _, tets, vertices = setup.ours or (setup.objects, setup.tets, setup.vertices)
        times.append(1e6 * statistics.fmean(candidates[name].ms) / (tets + vertices))
    return times


def _claim_on_variation(found: Found) -> Claim:
    shares = {}
    for letter, candidates in found.items():
        average, _, _, deviation = summary(candidates[PUBLISHED].ms)
        shares[letter] = deviation / average
    return judged(
        "Performance varies slightly during a simulation (6; here: the deviation is at most "
        f"{MOST_DEVIATION:.0%} of the average in every setup, as published).",
        ", ".join(f"{letter} {share:.1%}" for letter, share in shares.items()),
        max(shares.values()) <= MOST_DEVIATION,
    )
