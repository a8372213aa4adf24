"""The experiments of [MendozaOSullivan2005] run, and their verdicts follow from the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.papers import p001_trees
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p001_tightness import Tightness
from benchmarks.papers.p001_trees import POLYGONS, PUBLISHED, claims


@pytest.fixture(scope="module")
def trees() -> Experiment:
    return p001_trees.run(quick=True)


@pytest.mark.slow
def test_trees_are_measured_level_by_level(trees: Experiment):
    """Have a time for each tree, and figures for each of its levels, that grow finer."""
    (table,) = trees.tables
    by_tree: dict[tuple[str, str], list[tuple]] = {}
    for row in table.rows:
        by_tree.setdefault(row[:2], []).append(row)

    assert {name for _, name in by_tree} == {
        POLYGONS,
        PUBLISHED,
        *(f"{tree}, {kind}" for tree in p001_trees.TREES for kind in ("wrapped", "layered")),
    }
    assert len(trees.rows) == 2 * (len(p001_trees.TREES) + 1)
    for (_, tree), rows in by_tree.items():
        assert [row[2] for row in rows] == list(range(1 if tree == POLYGONS else 3))
        assert [row[3] for row in rows] == sorted({row[3] for row in rows})


@pytest.mark.slow
def test_page_and_picture_are_written(trees: Experiment, tmp_path: Path):
    """Write times, table, picture and page; the page has every claim with its verdict."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyvista")
    written = trees.write(tmp_path)
    page = next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8")

    assert {path.suffix for path in written} == {".csv", ".md", ".png"}
    for claim in trees.claims:
        assert claim.text in page
        assert claim.measured in page


def _levels(*stand_offs: float) -> list[Tightness]:
    return [Tightness(8**k, e, e, 0.0, e, e) for k, e in enumerate(stand_offs)]


def _found(*, worse: float) -> p001_trees.Found:
    trees = {
        "clusters, wrapped": _levels(1.0, 0.8, 0.4),
        "clusters, layered": _levels(2.0 / worse, 1.0 / worse, 0.4),
        "medial, wrapped": _levels(1.0, 0.5 * worse, 0.1 * worse**2),
        "medial, layered": _levels(2.0 / worse, 0.9 / worse, 0.1 * worse**2),
        "sunk clusters, wrapped": _levels(1.0, 0.8, 0.3 * worse),
        POLYGONS: [replace(_levels(0.6)[0], count=12)],
    }
    return {"long box": trees}


def test_bodies_of_the_full_run_can_be_made():
    """Make every body of the run that no test makes, closed as its medial axis needs it."""
    for make in p001_trees.FULL.bodies.values():
        assert make().is_closed


def test_verdicts_follow_from_the_figures():
    """Call all claims held by figures as the paper has them, and none by contrary ones."""
    assert [claim.verdict for claim in claims(_found(worse=1.0))] == ["held"] * 5
    assert [claim.verdict for claim in claims(_found(worse=4.0))] == ["not held"] * 5
