"""The benchmark of tracking spheres runs, and reports its claims."""

from __future__ import annotations

import pytest

from benchmarks import tracking_speed
from benchmarks.tracking_speed import COARSE_MODES, MODES, Tracked


@pytest.mark.slow
def test_quick_run_measures_every_mode():
    """Time every mode of tracking against refitting boxes."""
    rows = tracking_speed.run(quick=True)

    modes = [f"tracking={mode}" for mode in (*MODES, *(f"{mode}, warm" for mode in COARSE_MODES))]
    assert [row.candidate for row in rows] == ["all boxes", "BoxTree.refit", *modes]
    assert min(row.median_ms for row in rows[:2]) > 0.0
    assert all("ns a sphere" in row.note for row in rows[2:])


def test_verdicts_follow_from_the_figures():
    """Divide what tracking adds by the spheres tracked, and compare it with the claim."""
    found = Tracked([1.1], [1.0], blocks=1000, tests=5)
    held = tracking_speed._row("", "bound", found, 8.0, 1.0)
    missed = tracking_speed._row("", "bound", found, 2.0, 0.3)

    assert found.tracking_ms == pytest.approx(0.1)
    assert held.note.startswith("5 tests, 8,000 spheres tracked; 12.5 ns a sphere: held")
    assert held.note.count("not held") == 0
    assert missed.note.count("not held") == 2
