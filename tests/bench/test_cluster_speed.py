"""The benchmark of clusters runs, refuses runs that differ, and calculates what follows from its costs."""

from __future__ import annotations

import math
from unittest.mock import MagicMock

import pytest

from impinge.bench import cluster_speed

pytest.importorskip("distributed", reason="dask is not installed; pip install 'impinge[cluster]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")


def test_quick_run_measures_workers_and_single_costs():
    """Time one worker, two, and the single costs; mark what is calculated."""
    rows = cluster_speed.run(quick=True)
    by_name = {row.candidate: row for row in rows if row.scene.startswith("6 frames") or row.scene == "single costs"}

    assert rows[0].candidate == "one worker"
    assert rows[0].ratio == 1.0
    assert "times as fast as one worker" in by_name["2 workers"].note
    assert {"empty task", "message to a worker", "message back", "part written"} <= set(by_name)
    calculated = [row for row in rows if row.scene.startswith("1,000,000 frames")]
    assert len(calculated) == 2 * len(cluster_speed.MANY_WORKERS)
    assert all(row.note.startswith("calculated, not measured") for row in calculated)


def test_runs_that_differ_are_refused(monkeypatch):
    """Count no time of workers that write other bytes."""
    found = iter([{"part": b"x"}, {"part": b"y"}])
    monkeypatch.setattr(cluster_speed, "_parts", lambda _: next(found))
    monkeypatch.setattr(cluster_speed, "_timed", lambda *_: (1.0, None))
    monkeypatch.setattr(cluster_speed, "local_cluster", lambda _: MagicMock())

    with pytest.raises(AssertionError, match="1 workers found other contacts"):
        cluster_speed.run(quick=True)


def test_what_limits_is_named():
    """Divide the work among workers until the scheduler or the client is slower than they are."""
    cheap = cluster_speed.Costs(
        frame=10.0, task=64.0, sent_byte=1e-6, returned_byte=0.0, part=1.0, returned=1000.0, sent=1e6
    )

    assert cheap.hours(1, frames=3600) == (pytest.approx(0.01), "workers")
    assert cheap.hours(5, frames=3600) == (pytest.approx(0.002), "workers")
    hours, limit = cheap.hours(1000, frames=3600)
    assert (hours, limit) == (pytest.approx(0.001), "scheduler")
    assert cheap.hours(1000, frames=3600, sending=True)[1] == "client"
    assert math.isfinite(hours)
