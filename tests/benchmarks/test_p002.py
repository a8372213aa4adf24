"""The experiments of [GressZachmann2004] run, their candidates agree, and what they found can be kept."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.papers import p002_distance, p002_variants
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p002_bodies import Body, car, lock
from benchmarks.papers.p002_turn import (
    Candidate,
    breadth_first,
    check_agreement,
    counting,
    measure,
    on_one_thread,
    poses,
    published,
    published_brute_force,
)
from impinge.backend import jit
from impinge.detect.common.brute_force import BruteForce


@pytest.fixture(scope="module")
def distance() -> Experiment:
    return p002_distance.run(quick=True)


@pytest.fixture(scope="module")
def variants() -> Experiment:
    return p002_variants.run(quick=True)


@pytest.fixture(params=["distance", "variants"])
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("make", [lock, car])
def test_bodies_fill_the_cube_at_every_complexity(make):
    """Centre each body in a cube of side 2, touch its sides, and grow with fineness."""
    coarse, fine = make(1), make(2)

    for body in (coarse, fine):
        lo, hi = body.mesh.bounds
        np.testing.assert_allclose(lo, -hi, atol=1e-12)
        assert hi.max() == pytest.approx(1.0)
    assert len(fine.mesh) > 1.5 * len(coarse.mesh)


@pytest.mark.parametrize("make", [lock, car])
def test_bodies_have_slivers_beside_good_triangles(make):
    """Mix long thin triangles with others, as the models of the paper do."""
    mesh = make(4).mesh
    corners = mesh.vertices[mesh.faces]
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    aspect = sides.max(axis=1) ** 2 / np.linalg.norm(normal, axis=1)

    assert aspect.max() > 20.0
    assert np.median(aspect) < 10.0


def test_poses_are_a_full_turn_at_the_distance():
    """Rotate rigidly, by equal steps that add up to 360 degrees, about the centre of the box."""
    matrices = poses(1.5, 8)
    step = matrices[1][:3, :3] @ matrices[0][:3, :3].T

    for matrix in matrices:
        np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-12)
        np.testing.assert_array_equal(matrix[:, 3], [1.5, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(np.linalg.matrix_power(step, 8), np.eye(3), atol=1e-12)
    assert np.trace(step) == pytest.approx(1.0 + 2.0 * math.cos(2.0 * math.pi / 8.0))


def test_candidates_find_what_brute_force_finds():
    """Find the pairs of the judge at every step of a rotation."""
    body = car(1)
    matrices = poses(1.0, 4)
    judge = BruteForce(body.copy(), body.copy())
    expected = [judge.query(transform_b=matrix) for matrix in matrices]

    candidates = [
        breadth_first("scan", body),
        published("pyramid", body),
        published_brute_force("m x n", body, transform_per="line", is_listed=True),
        published_brute_force("count", body, transform_per="fragment", is_listed=False),
    ]

    assert min(map(len, expected)) > 10
    check_agreement("turn", {"judge": expected, **{each.name: each.turn(matrices) for each in candidates}})


@pytest.mark.parametrize("wrong", ["count", "pairs", "published"])
def test_no_time_counts_where_candidates_differ(wrong: str):
    """Raise with the scene, the step and the candidate."""
    body = car(1)
    make = {"count": counting, "pairs": breadth_first, "published": published}[wrong]
    right = make("right", body)
    turned = Candidate("wrong", lambda matrices: right.turn(matrices[::-1]))
    with pytest.raises(AssertionError, match="turn, step 0: wrong finds "):
        measure("turn", [right, turned], poses(1.0, 3), rounds=1)


def test_counters_are_the_same_on_every_run():
    """Count the same work for the same rotation, on one thread too, for the detector and for the published form."""

    def work(body: Body, *, one_thread: bool, make=breadth_first):
        candidate = make("scan", body)
        candidate = on_one_thread(candidate, "scan") if one_thread else candidate
        return measure("turn", [candidate], poses(1.2, 3), rounds=1)["scan"].work

    first = work(lock(1), one_thread=False)

    assert first == work(lock(1), one_thread=False) == work(lock(1), one_thread=True)
    assert sum(first.level_tests) == pytest.approx(first.box_tests)
    assert first.level_overlaps[-1] == pytest.approx(first.triangle_tests)
    printed = work(lock(1), one_thread=False, make=published)
    assert printed == work(lock(1), one_thread=True, make=published)
    assert printed.pairs == first.pairs
    assert sum(printed.level_tests) == pytest.approx(printed.box_tests)
    assert printed.exact_tests is None


def test_one_thread_is_for_one_candidate_only():
    """Restore the number of threads after the rotation."""
    before = jit.thread_count()
    seen = []
    on_one_thread(Candidate("x", lambda _: seen.append(jit.thread_count()) or []), "x").turn([])

    assert seen == [1]
    assert jit.thread_count() == before


@pytest.mark.slow
def test_distance_measures_every_candidate_at_every_distance(distance: Experiment):
    """Have a time for each, with as many pairs for all, and more of them where bodies are closer."""
    by_scene: dict[str, list] = {}
    for row in distance.rows:
        by_scene.setdefault(row.scene, []).append(row)

    assert len(by_scene) == 6
    for rows in by_scene.values():
        names = [row.candidate for row in rows]
        assert names == [
            "scan",
            "scan, from the roots",
            "published, scan",
            "pyramid",
            "pyramid, from the roots",
            "pyramid, boxes between spaces",
            "depth-first",
        ]
        assert len({row.note.split(" pairs")[0] for row in rows}) == 1
        assert all(row.min_ms > 0.0 for row in rows)


@pytest.mark.slow
def test_distance_counts_work_on_each_level(distance: Experiment):
    """Go from one test at the root to triangle tests at the leaves."""
    (levels,) = [table for table in distance.tables if table.name == "levels"]
    rows = [dict(zip(levels.columns, row)) for row in levels.rows]

    assert [row["box tests"] for row in rows if row["level"] == 0] == [1.0] * 3
    assert sum(row["triangle tests"] != "" for row in rows) == 3
    assert all(row["overlaps"] <= row["box tests"] for row in rows)


@pytest.mark.slow
def test_variants_cover_every_group(variants: Experiment):
    """Change one thing at a time, from the expansion to brute force."""
    groups = {row.scene.split(":")[0] for row in variants.rows}

    assert groups == {*p002_variants.GROUPS, "brute force"}
    assert all(row.min_ms > 0.0 for row in variants.rows)


@pytest.mark.slow
def test_every_claim_has_a_verdict(experiment: Experiment):
    """Say what was measured and whether it agrees, for each sentence of the paper."""
    assert len(experiment.claims) >= 5
    for claim in experiment.claims:
        assert claim.text.endswith(".")
        assert claim.measured
        assert claim.verdict in ("held", "not held", "not testable here")


@pytest.mark.slow
def test_page_picture_and_tables_are_written(experiment: Experiment, written_page):
    """Write all side by side; the page shows the picture, every claim and every candidate."""
    written_page(experiment)


@pytest.mark.slow
def test_command_prints_verdicts_and_names_the_files(variants: Experiment, tmp_path: Path, monkeypatch):
    """Run an experiment by name like every other benchmark, and write its page and picture too."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(p002_variants, "run", lambda **_: variants)
    done = CliRunner().invoke(app, ["p002_variants", "--quick", "--out", str(tmp_path)])

    assert done.exit_code == 0
    for claim in variants.claims:
        assert claim.verdict in done.output
        assert claim.text in done.output
    for path in tmp_path.iterdir():
        assert f"written: {path}" in done.output
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png"}
