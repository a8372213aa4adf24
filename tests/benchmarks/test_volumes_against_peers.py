"""The benchmark of volumes and points runs, rejects peers that disagree, and reports what it leaves out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import impinge
from benchmarks import volumes_against_peers
from benchmarks.measure import Sizes
from benchmarks.peer_scenes import DATA, OURS
from benchmarks.volumes_against_peers import IGL, MANIFOLD, POINT_PEERS, TRIMESH
from impinge import shapes

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


@pytest.fixture(scope="module")
def rows():
    return volumes_against_peers.run(quick=True)


def test_quick_run_times_us_and_the_peers(rows):
    """Time ours first in each scene, then each peer, or report that it is not installed, with the error."""
    for scene, peers in (("volume", {MANIFOLD}), ("points", {IGL, TRIMESH})):
        ours, *others = [row for row in rows if row.scene.startswith(scene)]

        assert ours.candidate == OURS
        assert ours.ratio == 1.0
        assert {row.candidate for row in others} == peers
        for row in others:
            assert row.min_ms > 0.0 or "not installed" in row.note
            assert "our error" in row.note or "of the points classified otherwise" in row.note or math.isnan(row.min_ms)


def test_full_run_has_the_sizes_of_the_papers():
    """Measure 110k x 150k faces, 100,000 points in 520k faces, and bodies of all four classes."""
    sizes = volumes_against_peers.FULL
    assert "knots_110k_150k" in sizes.smooth_pairs
    assert sizes.points == 100_000
    assert volumes_against_peers.TABLE_2[-1].faces == 520_000
    assert set(DATA) == {"scan", "cad", "soup"}


def test_peer_with_another_volume_is_not_timed(monkeypatch):
    """Give a peer whose volume is not ours a sentence instead of a time."""
    pytest.importorskip("manifold3d", reason="manifold3d is not installed")
    right = volumes_against_peers.volume_by_manifold
    monkeypatch.setattr(volumes_against_peers, "volume_by_manifold", lambda b: lambda frame: 1.02 * right(b)(frame))
    monkeypatch.setattr(volumes_against_peers, "_single_bodies", lambda *_, **__: [])
    ours, peer = volumes_against_peers.run(quick=True)

    assert ours.min_ms > 0.0
    assert math.isnan(peer.min_ms)
    assert "it is not timed" in peer.note


def test_peer_with_other_points_is_not_timed(monkeypatch):
    """Reject a peer that classifies points far from the surface otherwise; name peers that are not installed."""
    monkeypatch.setattr(volumes_against_peers, "_pairs", lambda _: [])
    wrong = {
        IGL: ((), lambda _, points: lambda __: np.zeros(len(points), dtype=bool), "numpy"),
        TRIMESH: (("no_such_module",), None, "numpy"),
    }
    monkeypatch.setattr(volumes_against_peers, "POINT_PEERS", wrong)
    _, igl, trimesh = volumes_against_peers.run(quick=True)

    assert set(POINT_PEERS) == {IGL, TRIMESH}
    assert "farther than a pixel from the surface: it is not timed" in igl.note
    assert math.isnan(igl.min_ms)
    assert trimesh.note == "not installed; pip install impinge[bench]"


def test_points_near_the_surface_may_differ():
    """Count points that are farther from the surface than a pixel's width, and no others."""
    near, far = [[1.0, 0.2, 0.3], [1.01, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.9, 0.0, 0.0]]
    assert volumes_against_peers._farther_than_a_pixel(shapes.box(2.0), np.array(near + far)) == 2


def test_open_bodies_are_left_out_with_a_sentence(monkeypatch, tmp_path):
    """Say of each file that it is missing, or that it is not closed."""
    leaky = shapes.box(1.0)
    leaky.remove_triangles([0])
    leaky.compact()
    (tmp_path / "soup").mkdir()
    impinge.save(leaky, tmp_path / "soup" / "truck.obj")
    sizes = Sizes(smooth_pairs=(), with_data=True, points=10, rounds=1, frames_per_visit=1)
    monkeypatch.setattr(volumes_against_peers, "QUICK", sizes)
    monkeypatch.setenv("IMPINGE_DATA", str(tmp_path))
    found = volumes_against_peers.run(quick=True)
    refused = [row for row in found if "refused: body a has 3 open and 0 flipped edges" in row.note]

    assert {row.scene.split(",")[0] for row in refused} == {"volume", "points"}
    missing = [row for row in found if row.note == "left out: IMPINGE_DATA names no folder with it"]
    assert len(missing) == 2 * (sum(map(len, DATA.values())) - 1)
