"""The benchmark of spatial hashing runs, rejects peers that disagree, and counts all memory."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import hashing_against_peers
from benchmarks.hashing_against_peers import OURS, PYVISTA, TREES, WITHOUT_UPDATE, kept_bytes
from impinge import scenes
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.errors import ImpingeError

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


@pytest.fixture(scope="module")
def rows():
    return hashing_against_peers.run(quick=True)


def test_quick_run_times_us_and_the_peers(rows):
    """Time ours first, with and without the update, then each peer, or report that it is not installed."""
    assert rows[0].candidate == OURS
    assert rows[0].ratio == 1.0
    assert "contacts" in rows[0].note
    assert rows[1].candidate == WITHOUT_UPDATE
    assert rows[1].min_ms > 0.0
    peers = [row for row in rows if row.scene == rows[0].scene][2:]
    assert {row.candidate for row in peers} == set(hashing_against_peers.PEERS)
    for row in peers:
        assert row.min_ms > 0.0 or "not installed" in row.note


def test_time_per_tet_is_at_constant_contacts(rows):
    """Copy the plates without a change of contacts per tet, report the spread of times and the memory."""
    for scene in {row.scene for row in rows if row.scene.startswith("time per tet")}:
        *sizes, spread = [row for row in rows if row.scene == scene]
        contacts = {row.note.split(" contacts per tet")[0].split("; ")[-1] for row in sizes}

        assert len(sizes) == 2
        assert len(contacts) == 1
        assert float(contacts.pop()) > 0.1
        assert all("bytes per primitive" in row.note for row in sizes)
        assert spread.candidate == "spread"
        assert spread.ratio >= 1.0


def test_dense_scene_is_the_one_that_is_measured():
    """Measure setup E with its thousands of contacts in a full run, and up to two million tets."""
    assert hashing_against_peers.FULL.scene == "hashing_setup_e_dense"
    assert 10_000 * max(hashing_against_peers.FULL.copies) == 2_000_000


def test_peer_that_disagrees_is_not_timed(monkeypatch):
    """Refuse a peer that lacks a contact of ours."""
    pytest.importorskip("igl", reason="libigl is not installed")
    right = hashing_against_peers._Trees.step
    monkeypatch.setattr(hashing_against_peers._Trees, "step", lambda *args: tuple(x[1:] for x in right(*args)))

    with pytest.raises(ImpingeError, match=f"{TREES} has 0 contacts more than ours and lacks 1 of our"):
        hashing_against_peers.run(quick=True)


def test_missing_peers_are_reported(monkeypatch):
    """Give the command that installs a missing peer."""
    known = {PYVISTA: ("no_such_module", "picture", hashing_against_peers._Pyvista)}
    monkeypatch.setattr(hashing_against_peers, "PEERS", known)
    monkeypatch.setattr(hashing_against_peers, "_time_per_tet", lambda _: [])

    ours, _, missing = hashing_against_peers.run(quick=True)

    assert ours.candidate == OURS
    assert missing.note == "not installed; pip install impinge[picture]"
    assert np.isnan(missing.min_ms)


def test_memory_counts_every_array_of_the_detector():
    """Count what the detector keeps: scratch, arena, order of tets, and positions of all bodies."""
    scene = scenes.get("hashing_setup_b")
    detector = SpatialHash(scene.bodies)
    detector.query()
    kept = kept_bytes(detector)

    assert set(kept) == {"scratch", "arena", "orders", "positions"}
    assert kept["positions"] == 24 * 1936
    assert kept["arena"] >= 4 * (4 * 4000 + 4000)
    assert kept["orders"] >= 4 * 1936
    assert kept["scratch"] > 4 * 1936
