"""The experiments of [HatabKheddar2006] run, their candidates agree, and what they found can be kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.papers import p000_deforming, p000_removal, p000_replaced, p000_threshold, p000_variants
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p000_bodies import (
    LARGE,
    LARGE_KNOT,
    SMALL,
    SMALL_KNOT,
    blobs,
    knots,
)
from benchmarks.papers.p000_frames import (
    Candidate,
    Session,
    against,
    box_tree,
    cut,
    measure,
    published,
    refit_tree,
)
from benchmarks.papers.p000_quads import Flipping, Quads
from benchmarks.papers.p000_refit_tree import RefitTree
from impinge.backend import jit
from impinge.detect.common.brute_force import BruteForce
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

EXPERIMENTS = {
    module.__name__.rsplit(".", 1)[1]: module
    for module in (p000_threshold, p000_removal, p000_deforming, p000_variants, p000_replaced)
}


@pytest.fixture(scope="module")
def quick() -> dict[str, Experiment]:
    return {}


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest, quick: dict[str, Experiment]) -> Experiment:
    """The quick run of each, made once."""
    if request.param not in quick:
        quick[request.param] = EXPERIMENTS[request.param].run(quick=True)
    return quick[request.param]


# bodies and baseline --------------------------------------------------------------------------------------------


def test_bodies_have_as_many_triangles_as_those_of_the_paper():
    """Stand in with 1,500 and 13,000 triangles, exactly."""
    for pair, count in (
        (blobs(*SMALL), 1500),
        (knots(*SMALL_KNOT), 1500),
        (blobs(*LARGE), 13_000),
        (knots(*LARGE_KNOT), 13_000),
    ):
        assert [len(body) for body in pair.make()] == [count, count]


@pytest.mark.parametrize("make", [blobs, knots])
def test_bodies_come_and_go(make):
    """Be apart in the first and last frame, deep in each other between, and deform in all."""
    pair = make(12, 9)
    a, b = pair.make()
    found = []
    for frame in pair.frames(7):
        a.update(frame.a)
        b.update(frame.b)
        found.append(len(BruteForce(a, b).query()))
    positions = [frame.a for frame in pair.frames(7)]

    assert found[0] == found[-1] == 0
    assert found[3] > 20
    assert all((x != y).any() for x, y in pairwise(positions))


@pytest.mark.small
@pytest.mark.tiny
def test_the_refit_tree_finds_what_brute_force_finds():
    """Find the pairs of the judge after a build, after a refit, and after triangles went, dead ones left out."""
    a, b = blobs(6, 5).make()
    tree, judge = RefitTree(a, b), BruteForce(a, b)
    for frame in blobs(6, 5).frames(5)[1:4]:
        a.update(frame.a)
        b.update(frame.b)
        tree.refit()

        assert len(judge.query()) > 5
        np.testing.assert_array_equal(tree.query().pairs, judge.query().pairs)
    a.remove_triangles(np.arange(0, len(a), 2))
    tree.build()

    assert len(judge.query()) > 2
    np.testing.assert_array_equal(tree.query().pairs, judge.query().pairs)


def test_the_refit_tree_has_room_for_any_number_of_pairs():
    """Enlarge its list when all boxes overlap, and build where all centres coincide."""
    needles = TriMesh(np.tile([[0.0, 0, 0], [1, 1, 1], [1, 1, 0]], (60, 1)), np.arange(180).reshape(-1, 3))
    result = RefitTree(needles, needles).query()

    assert len(result) == result.stats["triangle_tests"] == 3600


def test_flipping_replaces_half_of_the_triangles_and_keeps_the_surface_closed():
    """Replace as many triangles as half of the body has, in each frame, and leave no hole."""
    quads = Quads(10, 9)
    one = Flipping(quads, 0)
    before = one.body.alive
    for frame in quads.frames(3):
        one.prepare(frame)
        one.edit()
        after = one.body.alive

        assert len(one.body) == quads.triangles
        assert one.body.is_closed
        assert (before & ~after[: len(before)]).sum() == pytest.approx(quads.triangles / 2, abs=2)
        before = after


def test_active_sets_of_a_pool_are_the_edited_bodies():
    """Choose the same triangles by ids as edits leave."""
    quads = Quads(10, 9)
    one, pool = Flipping(quads, 1), quads.pool(1)
    flipped = np.zeros(quads.count, dtype=bool)
    for frame in quads.frames(3):
        one.prepare(frame)
        one.edit()
        flipped[frame.flips[1]] ^= True
    edited = one.body.faces[one.body.alive]
    chosen = pool.faces[quads.active(flipped)]

    assert 0 < flipped.sum() < len(flipped)
    assert set(map(tuple, edited.tolist())) == set(map(tuple, chosen.tolist()))


# measuring ------------------------------------------------------------------------------------------------------


def test_all_candidates_agree_and_are_timed():
    """Have a time and the same pairs for each candidate in each frame."""
    pair = blobs(8, 7)
    candidates = [
        cut("cut", pair),
        published("as published", pair),
        published("with hints", pair, coherent=True),
        box_tree("boxes", pair),
        *(refit_tree(f"tree, {timed}", pair, timed=timed) for timed in ((), ("refit",), ("build",))),
    ]
    found = measure("scene", candidates, pair.frames(5), rounds=2)

    assert list(found) == [candidate.name for candidate in candidates]
    assert len({tuple(series.pairs) for series in found.values()}) == 1
    assert max(found["cut"].pairs) > 20
    for series in found.values():
        assert len(series.ms) == 5
        assert 0.0 < min(series.ms) <= series.mean_ms <= series.row.median_ms


def test_the_published_recursion_has_nothing_of_ours():
    """Cut separated bodies where the paper does, though the axes alone would separate them, down to single pairs."""
    pair = blobs(8, 7)
    ours, paper = measure(
        "scene", [cut("ours", pair), published("paper", pair)], [pair.frames(5)[0]], rounds=1
    ).values()

    assert ours.counters["cuts"] == 0
    assert paper.counters["cuts"] > 0

    near = measure("scene", [published("paper", pair)], [pair.frames(5)[2]], rounds=1)["paper"]
    assert 20 < near.counters["triangle_tests"] == near.counters["leaves"]


@pytest.mark.parametrize("group", p000_variants.GROUPS)
def test_candidates_of_a_group_have_names_of_their_own(group):
    """Compare no candidate with itself under the same name, which would hide one of the two."""
    names = [candidate.name for candidate in p000_variants.GROUPS[group](blobs(8, 7))]

    assert len(names) == len(set(names)) > 1


def test_no_time_counts_where_candidates_differ():
    """Raise with the scene, the frame and the candidate."""
    pair = blobs(8, 7)
    right = cut("right", pair)

    def begin() -> Session:
        session = right.begin()
        return Session(session.prepare, lambda: box_tree("", blobs(6, 5)).begin().step())

    with pytest.raises(AssertionError, match=r"scene, frame 0: wrong finds .* no time counts"):
        measure("scene", [right, Candidate("wrong", begin)], pair.frames(3), rounds=1)


def test_threads_are_given_back():
    """Run a candidate on one thread and leave the number as it was."""
    before = jit.thread_count()
    measure("scene", [cut("one", blobs(6, 5), threads=1)], blobs(6, 5).frames(2), rounds=1)

    assert jit.thread_count() == before


def test_who_wins_is_told_from_the_figures():
    """Say faster, slower or as fast, with the ratio of the run."""
    pair = blobs(6, 5)
    series = measure("scene", [cut("x", pair)], pair.frames(2), rounds=1)["x"]
    slower = replace(series, row=replace(series.row, min_ms=2.0 * series.row.min_ms))

    assert against(series, slower) == "is 2.00 times as fast as"
    assert against(slower, series) == "takes 2.00 times as long as"
    assert against(series, series) == "is as fast as"


def test_directions_are_evenly_spread_and_the_best_separates():
    """Have unit directions that add up to nearly nothing, and take one that separates bodies that are apart."""
    many = p000_variants.evenly_spread(64)
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.5, 1.5, 1.5))
    best = p000_variants.least_overlap(a.vertices, b.vertices, many)

    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1.0)
    assert np.linalg.norm(many.mean(axis=0)) < 0.05
    assert (a.vertices @ best).max() < (b.vertices @ best).min()


def test_the_offset_of_the_removal_is_searched():
    """Fix the bodies where about as many pairs meet as wanted."""
    bodies = p000_removal.fixed_bodies(blobs(30, 26), 120, 60)
    found = BruteForce(*bodies.make(len(bodies))).query()

    assert len(found) == bodies.pairs
    assert abs(bodies.pairs - 120) < 12


# experiments ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_claim_has_a_verdict(experiment: Experiment):
    """Say what was measured and whether it agrees, for each sentence."""
    assert len(experiment.claims) >= 2
    for claim in experiment.claims:
        assert claim.text.endswith(".")
        assert claim.measured
        assert claim.verdict in ("held", "not held", "not testable here")
    assert all(row.min_ms > 0.0 for row in experiment.rows)


@pytest.mark.slow
def test_page_picture_and_tables_are_written(experiment: Experiment, written_page):
    """Write all side by side; the page shows the picture, every claim and every candidate."""
    pytest.importorskip("pyvista")
    written_page(experiment)


@pytest.mark.slow
def test_removal_ends_with_nothing_and_adding_with_everything(quick: dict[str, Experiment]):
    """Go from the first pairs to none, and back by the same numbers."""
    experiment = quick.get("p000_removal") or p000_removal.run(quick=True)
    (table,) = experiment.tables
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    fewer = [row["pairs"] for row in rows if row["what"] == "removing"]
    more = [row["pairs"] for row in rows if row["what"] == "adding"]

    assert fewer[0] > 20
    assert fewer[-1] == 0
    assert more == fewer[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_commands_know_the_experiments(name: str, quick: dict[str, Experiment], monkeypatch):
    """Run an experiment by name like every other benchmark."""
    module = EXPERIMENTS[name]
    found = quick.get(name) or module.run(quick=True)
    monkeypatch.setattr(module, "run", lambda **_: found)
    done = CliRunner().invoke(app, [name, "--quick"])

    assert done.exit_code == 0
    for claim in found.claims:
        assert claim.text in done.output
