"""The benchmark of nearest points runs, and rejects peers that disagree."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import proximity_against_peers
from impinge.errors import ImpingeError

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


PEERS = {*proximity_against_peers._NEAREST, *proximity_against_peers._INSIDE}


def test_quick_run_times_us_and_what_is_installed():
    """Give a row for us, with and without the test for inside, and one for each peer, installed or not."""
    rows = proximity_against_peers.run(quick=True)

    assert [row.candidate for row in rows[:2]] == ["impinge", "impinge, inside too"]
    assert rows[0].ratio == 1.0
    assert {row.candidate for row in rows} == PEERS | {"impinge", "impinge, inside too"}
    assert {row.scene for row in rows} == {"closest points", "points inside"}
    for row in rows:
        assert row.min_ms > 0.0 or "not installed" in row.note or "does not load" in row.note


def test_missing_peers_have_a_row(monkeypatch):
    """Give the reason for every peer that cannot run."""
    monkeypatch.setattr(proximity_against_peers.importlib.util, "find_spec", lambda name: None if name != "igl" else 1)
    monkeypatch.setitem(sys.modules, "igl", None)
    rows = proximity_against_peers.run(quick=True)
    notes = {row.candidate: row.note for row in rows if row.candidate in PEERS}

    assert set(notes) == PEERS
    assert "trimesh and rtree not installed; pip install impinge[bench]" in notes.values()
    assert "does not load here" in notes["libigl, tree rebuilt"]


@pytest.mark.parametrize("scene", ["_NEAREST", "_INSIDE"])
def test_peer_that_disagrees_is_not_timed(monkeypatch, scene):
    """Refuse a peer with other distances, or with other points inside."""
    answers = {"_NEAREST": lambda x: 7.0 + x[:1, 0], "_INSIDE": lambda x: np.full(1000, x is not None)}
    wrong = proximity_against_peers._Peer((), lambda _body, _points: answers[scene])
    for name in ("_NEAREST", "_INSIDE"):
        monkeypatch.setattr(proximity_against_peers, name, {"wrong": wrong} if name == scene else {})

    with pytest.raises(ImpingeError, match=r"wrong (finds distances that differ|differs from ours on)"):
        proximity_against_peers.run(quick=True)
