"""The spheres that a search has visited are drawn and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.papers import p001_pictures
from benchmarks.papers.p001_pictures import BUDGETS_MS, TESTS, Shown, claims, press


@pytest.mark.slow
def test_pictures_are_drawn_and_counted(tmp_path: Path):
    """Tell the spheres of four budgets and of four numbers of tests, and draw them."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyvista")
    experiment = p001_pictures.run(quick=True)
    (table,) = experiment.tables
    radii = [row[5] for row in table.rows]

    assert len(experiment.rows) == len(BUDGETS_MS)
    assert [row[0] for row in table.rows[4:]] == [f"{tests:,} tests" for tests in TESTS]
    assert 0.0 < radii[-1] < radii[4]
    assert all(path.stat().st_size > 0 for path in experiment.write(tmp_path))


def test_verdicts_follow_from_what_is_used():
    """Call the claim held by a search that begins above the leaves and ends at them, and by no other."""
    pair = press(quick=True)
    detector = pair.detector()
    early, late = (Shown("", detector.query(max_tests=tests)) for tests in (1, 10_000_000))
    finest = pair.tree_a.level_count - 1

    assert [claim.verdict for claim in claims([early, late], [early, late], finest)] == ["held", "held"]
    assert [claim.verdict for claim in claims([late, late], [early, early], finest)] == ["not held", "not held"]
