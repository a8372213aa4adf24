"""The benchmark of clusters runs, refuses runs that differ, and calculates what follows from its costs."""

from __future__ import annotations

import contextlib
from unittest.mock import MagicMock

import pytest

from benchmarks import cluster_costs, cluster_speed

pytest.importorskip("distributed", reason="dask is not installed; pip install 'impinge[cluster]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")
pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'impinge[picture]'")


@pytest.mark.slow
def test_quick_run_measures_workers_stages_and_single_costs(tmp_path):
    """Time one worker and two, with processor time by process and stage; write a page with the extrapolation."""
    found = cluster_speed.run(quick=True)
    by_name = {(row.scene.partition(",")[0], row.candidate): row for row in found.rows}
    *_, page = found.write(tmp_path)
    text = page.read_text(encoding="utf-8")

    assert by_name["6 frames", "one worker"].ratio == 1.0
    assert "times as fast as one worker" in by_name["6 frames", "2 workers"].note
    for who in ("workers", "scheduler", "client"):
        assert by_name["processor time per frame", who].note.endswith("% of all processor time")
    shares = [row.ratio for row in found.rows if row.note.endswith("% of a frame")]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(1.0)
    for name in ("empty task", "message to a worker", "message back", "part written", "frame listed"):
        assert by_name["single costs", name].min_ms > 0.0
    assert found.claims[0].text == "Two workers on two cores are at least 1.7 times as fast as one."
    moved = dict(next(table.rows for table in found.tables if table.name == "bytes"))
    assert moved["to a worker that does not: positions"] == 162 * 24
    assert 0 < moved["to a worker that sees the file: its name and stamp"] < 1000
    assert text.count("Calculated: 1,000,000 frames") == 2
    assert "| claim | here | verdict |" in text


def test_runs_that_differ_are_refused(monkeypatch):
    """Count no time of workers that write other bytes."""
    found = iter([{"part": b"x"}, {"part": b"y"}])
    monkeypatch.setattr(cluster_speed, "_parts", lambda _: next(found))
    monkeypatch.setattr(cluster_speed, "_timed", lambda *_: (1.0, None))
    monkeypatch.setattr(cluster_speed, "dask_processes", lambda _: contextlib.nullcontext(MagicMock()))

    with pytest.raises(AssertionError, match="1 workers found other contacts"):
        cluster_speed.run(quick=True)


def test_what_limits_is_named():
    """Divide the work among workers until the scheduler or the client is slower than they are."""
    costs = cluster_costs.Costs(
        frame=10.0, scheduler_task=64.0, client_task=6.4, part=6.4, listed=0.0, read=1.0, sent_byte=1e-6,
        returned_byte=0.0, sent=1e6, returned=1000.0,
    )  # fmt: skip

    assert costs.hours(1, frames=3600) == (pytest.approx(0.01), "workers")
    assert costs.hours(5, frames=3600) == (pytest.approx(0.002), "workers")
    assert costs.hours(1000, frames=3600) == (pytest.approx(0.001), "scheduler")
    assert costs.hours(1000, frames=3600, sending=True) == (pytest.approx(0.0022), "client")
    assert costs.enough_workers() == pytest.approx(10.0)
    assert costs.enough_workers(sending=True) == pytest.approx(10.0 / 2.2)


def test_listing_comes_before_the_work():
    """Add what the client does before any worker begins, however many there are."""
    costs = cluster_costs.Costs(
        frame=0.0, scheduler_task=0.0, client_task=0.0, part=0.0, listed=3.6, read=0.0, sent_byte=0.0,
        returned_byte=0.0, sent=0.0, returned=0.0,
    )  # fmt: skip

    assert costs.hours(1000, frames=1000)[0] == pytest.approx(0.001)
