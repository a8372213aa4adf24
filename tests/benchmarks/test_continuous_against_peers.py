"""The benchmark of continuous collision detection runs, and rejects peers whose step is too long."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import continuous_against_peers
from shared_data import FOLDER

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


def test_quick_run_times_us_and_the_toolkit(monkeypatch):
    """Give rows for all of ours and every variant of the toolkit; without data, say what is left out."""
    monkeypatch.delenv("IMPINGE_DATA", raising=False)
    rows = continuous_against_peers.run(quick=True)

    steps = [row for row in rows if row.scene.startswith("2 x") and "growth" not in row.scene]
    assert {row.candidate for row in steps if row.candidate.startswith("impinge")} == {
        f"impinge, {what}" for what in ("all impacts", "first impact", "safe step", "between the bodies")
    }
    assert sum(row.candidate.startswith("ipctk") for row in steps) == 2 * (
        1 + len(continuous_against_peers.BROAD_PHASES)
    )
    assert all(row.min_ms > 0.0 for row in steps)
    left_out = [row for row in rows if row.note == continuous_against_peers.NO_DATA]
    assert {row.scene for row in left_out} == {"cloth-ball", "handcrafted queries, one by one"}
    assert rows[-1].scene == "growth"


def test_steps_begin_free_and_meet():
    """Make scenes that neither cross at the start nor miss each other."""
    step, between = continuous_against_peers.approaching(2, 2.0)
    found = between()

    assert len(found) > 0
    assert not found.at_start.any()
    assert step.end.shape == step.body.vertices.shape


def test_a_step_beyond_the_first_impact_does_not_count():
    """Count no time of a peer that passes the first impact."""
    assert continuous_against_peers._is_off(0.25, 0, 0.26) == 1
    assert continuous_against_peers._is_off(0.25, 0, 0.25) == 0


def test_a_missing_toolkit_has_a_row(monkeypatch):
    """Say how to install the toolkit."""
    monkeypatch.setattr(continuous_against_peers.importlib.util, "find_spec", lambda _: None)
    step, _ = continuous_against_peers.approaching(2, 0.5)
    rows = continuous_against_peers._timed(step, 1)

    assert rows[-1].candidate == "ipctk"
    assert "not installed" in rows[-1].note


@pytest.mark.skipif(not (FOLDER / "ccd").is_dir(), reason="no folder ccd of queries: set IMPINGE_DATA to its folder")
def test_queries_report_wrong_answers(monkeypatch):
    """Answer all handcrafted queries rightly."""
    monkeypatch.setenv("IMPINGE_DATA", str(FOLDER))
    rows = continuous_against_peers._queries(5)

    assert "0 false positives, 0 false negatives" in rows[0].note
    assert np.isfinite(rows[0].median_ms)
