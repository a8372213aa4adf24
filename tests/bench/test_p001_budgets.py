"""The experiments of [MendozaOSullivan2005] run, and what they found can be kept."""

from __future__ import annotations

import pytest

from impinge.bench.papers import p001_budgets
from impinge.bench.papers.p001_budgets import Measured


def test_budgets_run_and_can_be_kept(tmp_path):
    """Ask three pairs of bodies with small budgets, judge the claims, and write tables, picture and page."""
    pytest.importorskip("matplotlib")
    experiment = p001_budgets.run(quick=True)

    assert len(experiment.rows) == 9
    assert len(experiment.claims) == 3
    table_1, overshoot = experiment.tables
    assert len(table_1.rows) == 15 + 9
    assert len(overshoot.rows) == 9
    assert all(path.stat().st_size > 0 for path in experiment.write(tmp_path))


def test_in_time():
    """Count a query as in time up to a share of its budget, or up to some microseconds."""
    short = Measured(0.1, [0.1, 0.149, 0.151, 9.0], [], [], [], [])
    long = Measured(100.0, [104.9, 105.1], [], [], [], [])
    assert short.in_time == 0.5
    assert long.in_time == 0.5
    assert long.late_us > 5000.0
