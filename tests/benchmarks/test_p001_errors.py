"""Errors of contacts of spheres are measured against exact regions, and verdicts follow from the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import p001_errors
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p001_errors_claims import Controls, Found, Headline, ModeMemory, Point, claims
from benchmarks.papers.p001_regions import Push, below_which, errors_of, exact_regions
from impinge.checks import NONE
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

ROOTS = np.zeros((1, 2), dtype=np.int32)


@pytest.fixture(scope="module")
def errors() -> Experiment:
    return p001_errors.run(quick=True)


# regions ----------------------------------------------------------------------------------------------------------


def test_region_of_two_balls():
    """Find one region, whose normal is the line of centres and whose area that of the circle between the balls."""
    a, b = shapes.icosphere(4), shapes.icosphere(4, center=(1.6, 0.013, 0.007))
    regions = exact_regions(a, b)

    assert len(regions) == 1
    np.testing.assert_allclose(regions.point[0], (0.8, 0.0, 0.0), atol=0.02)
    np.testing.assert_allclose(regions.area[0], (np.pi * 0.36, 0.0, 0.0), atol=0.03)


def test_regions_are_told_apart():
    """Find a region for each of two balls that a third one meets, with opposite normals."""
    a = shapes.icosphere(3)
    left, right = shapes.icosphere(3, center=(-1.7, 0.013, 0.007)), shapes.icosphere(3, center=(1.7, 0.007, 0.013))
    both = TriMesh(
        np.concatenate([left.vertices, right.vertices]),
        np.concatenate([left.faces, right.faces + len(left.vertices)]),
    )
    regions = exact_regions(a, both)

    assert len(regions) == 2
    assert sorted(np.sign(regions.area[:, 0])) == [-1.0, 1.0]
    assert set(regions.of_pair) == {0, 1}


def test_bodies_apart_have_no_region():
    """Find nothing where nothing meets, and no error either."""
    a, b = shapes.icosphere(1), shapes.icosphere(1, center=(3.0, 0.0, 0.0))
    trees = (build_spheres(a, builder="octree", levels=1), build_spheres(b, builder="octree", levels=1))
    regions = exact_regions(a, b)
    nothing = Push(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    found = errors_of(regions, ROOTS[:0], nothing, trees, 2.0)

    assert len(regions) == 0
    assert found.missed == 0.0


def test_triangles_are_below_their_ancestors_and_no_others():
    """Find every crossing below the roots, and below a pair of leaves just those of which both have a part."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.5, 0.1, 0.0))
    trees = (build_spheres(a, builder="octree", levels=2), build_spheres(b, builder="octree", levels=2))
    pairs = exact_regions(a, b).pairs
    leaves = np.stack(
        [np.repeat(trees[0].leaves, len(trees[1].leaves)), np.tile(trees[1].leaves, len(trees[0].leaves))], 1
    )
    some = leaves[::7]
    under = [[set(tree.triangles_under(int(node))) for node in some[:, k]] for k, tree in enumerate(trees)]
    expected = [any(s in x and t in y for x, y in zip(*under)) for s, t in pairs]
    actual = below_which(some, pairs, trees)

    assert (below_which(ROOTS, pairs, trees) == 0).all()
    np.testing.assert_array_equal(actual != NONE, expected)
    assert 0 < sum(expected) < len(expected)
    for row, (s, t) in zip(actual, pairs):
        assert row == NONE or (s in under[0][row] and t in under[1][row])


def test_errors_of_a_right_and_of_a_wrong_contact():
    """Have no error for a contact at the region along its normal, 90 degrees for one across, and all for none."""
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.6, 0.013, 0.007))
    trees = (build_spheres(a, builder="octree", levels=1), build_spheres(b, builder="octree", levels=1))
    regions = exact_regions(a, b)
    right = Push(regions.point, regions.area / np.linalg.norm(regions.area), np.ones(1))
    across = replace(right, normal=np.cross(right.normal, [[0.0, 0.0, 1.0]]))
    good, bad = (errors_of(regions, ROOTS, push, trees, 2.0) for push in (right, across))
    none = errors_of(regions, ROOTS[:0], Push(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)), trees, 2.0)

    assert good.angle[0] < 1e-3
    assert good.distance[0] < 1e-12
    assert good.missed == 0.0
    np.testing.assert_allclose(good.reach, 0.3, atol=0.03)
    np.testing.assert_allclose(bad.angle, 90.0, atol=1.0)
    assert none.missed == 1.0
    assert none.angle[0] == 180.0
    assert not none.found.any()


# the experiment ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_errors_are_measured(errors: Experiment):
    """Have a point of the curves for each mode and budget, and nothing missed by conservative modes."""
    headline, budget, amplitude, controls, memory = (table.rows for table in errors.tables)

    assert len(headline) == 2 * len(p001_errors.BUDGETS_MS)
    assert len(budget) == len(p001_errors.MODES) * len(p001_errors.QUICK.tests)
    assert len(amplitude) == len(p001_errors.MODES) * len(p001_errors.QUICK.amplitudes)
    assert len(controls) == 2 * len(p001_errors.QUICK.controls)
    assert all(row[1] > 0 for row in memory)
    assert all(row[7] == 0.0 for row in (*budget, *amplitude) if row[0] in ("bound", "refit"))
    assert all(np.isfinite(row[5]) for row in budget)


@pytest.mark.slow
def test_page_is_written(errors: Experiment, tmp_path: Path):
    """Write times, tables, curves and page, with every claim."""
    pytest.importorskip("matplotlib")
    written = errors.write(tmp_path)
    page = next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8")

    assert {path.suffix for path in written} == {".csv", ".md", ".png"}
    assert all(claim.measured in page for claim in errors.claims)


def _found(*, worse: float) -> Found:
    """Figures that meet all claims with ``worse`` 0, contrary ones with 1."""

    def point(mode: str, at: float, error: float, missed: float = 0.0) -> Point:
        return Point(mode, at, error, error, error, error, error, missed, int(1e6 * (1.0 - worse)))

    modes = ("bound", "refit", "paper")
    return Found(
        budget=[point(mode, at, at if worse else 1.0 / at) for at in (1.0, 9.0) for mode in modes],
        amplitude=[point(mode, 0.1, 1.0, 0.5 * worse) for mode in modes],
        controls=[Controls("paper", 1, 0.1, 1.0, 1.0, 1), Controls("paper", 9, 0.3 * worse, 1.0, 2.0 - worse, 1)],
        memory=[ModeMemory("paper", int(6400 * (1.0 - worse)))],
        spheres=10,
        headline=[Headline("clusters", 1.0, 70_000, 3, *[14.0 + 20.0 * worse] * 4, 0.04 + worse, 0.9, 9.0)],
    )


def test_verdicts_follow_from_the_figures():
    """Hold all claims for figures that meet them, and none for contrary ones."""
    assert [claim.verdict for claim in claims(_found(worse=0.0))] == ["held"] * 8
    assert [claim.verdict for claim in claims(_found(worse=1.0))] == ["not held"] * 8
