"""The experiments of [MendozaOSullivan2005] run, and what they found can be kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.papers import p001_budgets
from benchmarks.papers.p001_bodies import FILES, bunny_like, make_pair, make_shape, scan
from benchmarks.papers.p001_budgets import Measured, claims


@pytest.mark.slow
def test_budgets_run_and_can_be_kept(tmp_path):
    """Ask three pairs of bodies with small budgets, judge the claims, and write tables, picture and page."""
    pytest.importorskip("matplotlib")
    experiment = p001_budgets.run(quick=True)

    assert len(experiment.rows) == 9
    table_1, overshoot, rate = experiment.tables
    assert len(table_1.rows) == 15 + 9 + 9
    assert sum(row[1].startswith("as published") for row in table_1.rows) == 9
    assert len(overshoot.rows) == 9 + 3 * 4
    assert all(figure > 0.0 for _, *figures in rate.rows for figure in figures)
    assert all(path.stat().st_size > 0 for path in experiment.write(tmp_path))


def test_in_time():
    """Count a query as in time up to a share of its budget, or up to some microseconds."""
    short = Measured(0.1, [0.1, 0.149, 0.151, 9.0])
    long = Measured(100.0, [104.9, 105.1])
    assert short.in_time == 0.5
    assert long.in_time == 0.5
    assert long.late_us > 5000.0
    assert Measured(0.1, waited_ms=[0.1, 0.2]).waits_in_time == 0.5


def test_verdicts_follow_from_the_figures():
    """Call claims held by figures as the paper has them, and not by contrary ones; one cannot be tested."""
    first = Measured(0.1, [0.1], [3], [0], [3], [False], [10.0], [0.1])
    last = Measured(1.0, [1.0], [100], [5], [500], [False], [11.0], [1.0])
    as_asked = claims({"balls": [first, last]}, {"balls": (80.0, 30.0)}, {"refit": [last]}, {"balls": [first, last]})
    late = replace(last, ms=[2.0], frame_ms=[9.0], possible=[4], certain=[0])
    contrary = claims(
        {"balls": [replace(first, certain=[1]), late]},
        {"balls": (40.0, 30.0)},
        {"refit": [late]},
        {"balls": [first, late]},
    )

    assert [claim.verdict for claim in as_asked].count("held") == 8
    assert [claim.verdict for claim in contrary].count("not held") == 8


def test_bodies_swing_where_they_are_and_spheres_go_with_the_second():
    """Bend both bodies without carrying them away; have the second body's surface in its spheres."""
    shape = make_shape("ball", bunny_like(2), cells=4, builder="octree", levels=1)
    pair = make_pair(shape, shape, (1.5, 0.0, 0.0))
    before = [body.surface.vertices.copy() for body in pair.bodies]
    pair.swing(0.2)
    for _ in range(3):
        pair.step()
    far = pair.b.rest_surface - pair.tree_b.centre[0]

    for body, old in zip(pair.bodies, before):
        assert abs(body.surface.vertices - old).max() > 1e-3
        assert abs((body.surface.vertices - old).mean(axis=0)).max() < 0.01
    assert ((far * far).sum(axis=1) <= pair.tree_b.radius[0] ** 2).all()


def test_scans_are_taken_where_they_are(monkeypatch, tmp_path):
    """Load a scan from the folder that IMPINGE_DATA names, and none without it."""
    monkeypatch.delenv("IMPINGE_DATA", raising=False)
    assert scan("bunny") is None
    monkeypatch.setenv("IMPINGE_DATA", str(tmp_path))
    assert scan("bunny") is None
    path = tmp_path / FILES["bunny"]
    path.parent.mkdir()
    path.write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n1 1 0\n3 0 1 2\n3 1 3 2\n", encoding="utf-8")
    found = scan("bunny")
    assert found is not None
    assert len(found) == 2
