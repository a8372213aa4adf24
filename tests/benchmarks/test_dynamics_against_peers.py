"""The benchmark of dynamics runs, its residuals are true, and peers that fail do not count."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import dynamics_against_peers
from benchmarks.dynamics_against_peers import Ours, Run, all_peers, drop_of
from benchmarks.peers.mujoco import MuJoCo
from benchmarks.peers.pybullet import PyBullet
from benchmarks.peers.soft_body import GRAVITY, SoftBodyPeer
from shared_data import FOLDER, needs_data

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


def residual_after(peer: SoftBodyPeer, frames: int) -> float:
    run = Run(peer, drop_of(2, 1e6))
    for _ in range(frames):
        run.remember(None)
        run.step(None)
        run.record()
    return run.residuals[-1]


def needs(peer: SoftBodyPeer) -> SoftBodyPeer:
    """Return the peer, or skip the test with the reason why it cannot run."""
    if reason := peer.available():
        pytest.skip(reason)
    return peer


@pytest.mark.slow
def test_a_quick_run_has_rows_of_all_libraries_and_scenes(monkeypatch):
    """Time or name every candidate of the cube, then run our own scenes."""
    monkeypatch.delenv("IMPINGE_DATA", raising=False)
    rows = dynamics_against_peers.run(quick=True)
    cube = [row for row in rows if row.scene == "cube, 0.04k tets, E = 20000"]

    assert {row.candidate for row in cube} == {peer.name for peer in all_peers()} | {"impinge, first frame"}
    assert cube[0].candidate == "impinge"
    assert "residual" in cube[0].note
    assert "after 4 s compressed" in cube[0].note
    assert all(row.min_ms > 0.0 or row.note for row in rows)
    assert [row.scene for row in rows if row.note == dynamics_against_peers.NO_DATA] == ["rubber liver", "rubber bunny"]
    assert {row.scene for row in rows[len(cube) :]} == {
        "cube, 0.04k tets, all stiffnesses", "rubber liver", "rubber bunny", "two livers", "1 plates", "2 plates",
        "1 heaps of 4 plates",
    }  # fmt: skip


@needs_data
@pytest.mark.slow
def test_rubber_falls_on_the_ground(monkeypatch):
    """Measure the meshes of the data folder."""
    monkeypatch.setenv("IMPINGE_DATA", str(FOLDER))
    rows = dynamics_against_peers._rubber(1, 1)

    assert [row.scene for row in rows] == ["rubber liver", "rubber bunny"]
    assert all("frames per second" in row.note for row in rows)


def test_missing_libraries_have_rows(monkeypatch):
    """Say how to install each library, and go on."""
    monkeypatch.setattr(SoftBodyPeer, "available", lambda peer: f"{peer.name} is not installed")
    monkeypatch.setattr(Ours, "available", lambda _: None)
    rows = dynamics_against_peers._cube(1, 1e6, 1, settles=False, first=1)
    missing = [row for row in rows if math.isnan(row.min_ms)]

    assert {row.candidate for row in missing} == {
        peer.name for peer in all_peers(briefly=True) if not isinstance(peer, Ours)
    }
    assert all("not installed" in row.note for row in missing)
    assert "residual" in rows[0].note


def test_our_residual_follows_the_tolerance():
    """Find a residual that falls with the tolerance, in flight and in contact: the formula is that of our steps."""
    for frames in (2, 30):
        loose, tight = (residual_after(Ours(looseness), frames) for looseness in (100.0, 1e-5))

        assert tight < 1e-6
        assert tight < loose


def test_a_wrong_state_has_a_residual():
    """Report an acceleration that no force explains."""
    ours = Ours(1e-3)
    ours.prepare(drop_of(2, 1e6))
    ours.step()
    before = ours.state()[1]
    ours.step()

    assert ours.residual(before) < 1e-3
    assert ours.residual(before + np.array([0.0, 0.0, GRAVITY / 60.0])) == pytest.approx(1.0, rel=1e-2)


def test_the_residual_of_mujoco_is_that_of_its_own_energy():
    """Find no residual where its direct solver has converged: its elastic energy is the one that we evaluate."""
    assert residual_after(needs(MuJoCo("Newton", 1e-12)), 200) < 1e-5


def test_a_cube_that_collapses_does_not_count(monkeypatch):
    """Give no time to a library whose cube loses its height."""
    monkeypatch.setattr(dynamics_against_peers, "all_peers", lambda **_: [Ours(), Sinking()])
    rows = dynamics_against_peers._cube(1, 1e6, 1, settles=False, first=1)

    assert rows[0].min_ms > 0.0
    assert math.isnan(rows[1].min_ms)
    assert rows[1].note.startswith("does not count: height off by 100 %")


def test_stiff_bodies_need_too_many_explicit_steps():
    """Leave PyBullet out where its sub-steps would take minutes, and time it where they are few."""
    assert "sub-steps" in str(PyBullet().refusal(drop_of(7, 1e8)))
    assert PyBullet().refusal(drop_of(2, 2e4)) is None


class Sinking(SoftBodyPeer):
    """A library whose bodies become flat."""

    name, package, module = "sinking", "impinge", "impinge"

    def prepare(self, drop):
        """Keep the scene."""
        self.drop = drop

    def step(self):
        """Do nothing."""

    def state(self):
        """Return a flat body at rest."""
        x = self.drop.tets.vertices * (1.0, 1.0, 0.0)
        return x, np.zeros_like(x)

    def iterations(self):
        """Count none."""
        return 0.0
