"""The benchmark of proximity runs, and counts no time of a peer that disagrees."""

from __future__ import annotations

import pytest

from benchmarks import cloth_proximity

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


def test_quick_run_measures_ours_and_the_peer():
    """Time ours first, then the peer with and without distances, or report that it is not installed."""
    rows = cloth_proximity.run(quick=True)

    assert rows[0].candidate == "impinge"
    assert rows[0].ratio == 1.0
    assert "edge-edge pairs" in rows[0].note
    assert all(cloth_proximity.STEPS[row.candidate] in row.note for row in rows if row.min_ms > 0.0)
    assert len(rows) == 3 or "not installed" in rows[1].note


def test_several_frames_are_checked(monkeypatch):
    """Count the pairs of the peer in several frames, in which they differ."""
    pytest.importorskip("ipctk", reason="ipctk is not installed")
    counts = []
    monkeypatch.setattr(cloth_proximity._Toolkit, "check", lambda _self, _x, expected: counts.append(tuple(expected)))
    cloth_proximity.run(quick=True)

    assert len(counts) == len(set(counts)) == len(cloth_proximity.CHECKED) >= 2


def test_a_peer_that_disagrees_is_refused(monkeypatch):
    """Refuse to time a peer that has another number of pairs."""
    pytest.importorskip("ipctk", reason="ipctk is not installed")
    monkeypatch.setattr(cloth_proximity._Toolkit, "candidates", lambda self, _: self.ipctk.Candidates())

    with pytest.raises(AssertionError, match="but ours are"):
        cloth_proximity.run(quick=True)
