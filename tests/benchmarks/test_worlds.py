"""The benchmark of worlds runs, and rejects peers that disagree."""

from __future__ import annotations

import pytest

from benchmarks import worlds
from impinge.errors import ImpingeError

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


def test_quick_run_has_all_rows():
    """Time boxes moved in three ways, deforming bodies beside FCL, and a run of frames."""
    rows = worlds.run(quick=True)
    names = [row.candidate for row in rows]

    assert names[:3] == ["impinge, world.move", "impinge, world.update", "impinge, update of each"]
    assert {"impinge, pairs", "impinge, contacts", "python-fcl manager, rebuilt"} <= set(names)
    assert rows[-1].scene == "long run of 200 boxes"
    assert "kB more held" in rows[-1].note
    for row in rows:
        assert row.min_ms > 0.0 or "not installed" in row.note


def test_a_thousand_boxes_are_near_to_four_others_each():
    """Build the world that figures are about."""
    world, matrices = worlds.box_world(1000)
    world.move(matrices)

    assert 1600 < len(world.near_pairs()) < 2400


def test_missing_peer_has_a_row(monkeypatch):
    """Say that FCL is not installed instead of leaving it out."""
    monkeypatch.setattr(worlds.importlib.util, "find_spec", lambda _name: None)
    rows = worlds._bodies((1, 1, 2), rounds=1)

    assert rows[-1].note == "python-fcl is not installed; pip install impinge[bench]"


def test_peer_that_disagrees_is_not_timed(monkeypatch):
    """Refuse FCL if it finds other pairs."""
    monkeypatch.setattr(worlds.importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setattr(worlds._Fcl, "frame", lambda _self, _x: {(0, 1): 1})

    with pytest.raises(ImpingeError, match=r"python-fcl finds 1 triangle pairs of 1 pairs of bodies, expected"):
        worlds._bodies((1, 1, 2), rounds=1)
