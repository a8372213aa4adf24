"""The experiments of [Teschner2003] run, their candidates agree, and what they found can be kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.measure import Row
from benchmarks.papers import p003_parameters, p003_setups
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p003_parameters_claims import claims
from benchmarks.papers.p003_scenes import SETUPS, copies, counts, joined, mean_edge, shifted, tet_bodies
from benchmarks.papers.p003_steps import Candidate, Measured, hashed, measure, published
from impinge import scenes
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.published.spatial_hash import next_prime


@pytest.fixture(scope="module")
def setups() -> Experiment:
    return p003_setups.run(quick=True)


@pytest.fixture(scope="module")
def parameters() -> Experiment:
    return p003_parameters.run(quick=True)


@pytest.fixture(params=["setups", "parameters"])
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return request.getfixturevalue(request.param)


# scenes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", SETUPS)
def test_setups_have_the_counts_of_table_1(letter: str):
    """Have the objects, tets and vertices of the paper, or for D those of the substitute."""
    setup = SETUPS[letter]
    found = counts(setup.scene())

    if letter == "D":
        assert found == (2, 20_520, 6264)
    else:
        assert found == (setup.objects, setup.tets, setup.vertices)


def test_setup_with_other_counts_is_refused():
    """Measure nothing that is not the setup of the paper."""
    with pytest.raises(AssertionError, match=r"setup A has \(100, 1000, 1200\) .* expected \(100, 1001, 1200\)"):
        replace(SETUPS["A"], tets=1001).scene()


def test_dense_setup_has_thousands_of_contacts():
    """Sink the plates of setup E so deep that 5,000 to 10,000 contacts occur at all times, of two bodies each."""
    scene = scenes.get("hashing_setup_e_dense")
    detector = SpatialHash(scene.bodies)
    assert counts(scene) == (100, 50_000, 24_200)
    for t in (0.0, 0.1, 0.2, 0.3, 0.4, 1.0, 2.0, 3.0):
        scene.move(t)
        contacts = detector.query()

        assert 5_000 <= len(contacts) <= 10_000
        assert not contacts.is_self.any()


def test_mean_edge_is_that_of_all_tets():
    """Count an edge once for each of its tets: in a cube of five, 12 of length 1 and 18 of length √2."""
    assert mean_edge(SETUPS["A"].scene()) == pytest.approx((12.0 + 18.0 * np.sqrt(2.0)) / 30.0, rel=1e-12)


def test_bodies_joined_shifted_and_copied_keep_their_contacts():
    """Find the same contacts in one body, around the origin, and three times as many in three copies."""
    scene = SETUPS["A"].scene()
    others = {
        "one": joined(scene),
        "origin": shifted(scene, (0.0, 0.0, 0.0)),
        "three": copies(scene, 3),
    }
    for t in (0.0, 0.7):
        found = {}
        for name, each in {"scene": scene, **others}.items():
            each.move(t)
            found[name] = SpatialHash(each.bodies).query()

        assert len(found["scene"]) > 100
        assert len(found["one"]) == len(found["origin"]) == len(found["scene"])
        assert len(found["three"]) == 3 * len(found["scene"])
        assert found["one"].is_self.all()
        np.testing.assert_array_equal(found["origin"].vertex, found["scene"].vertex)
    x = np.concatenate(others["origin"].rest_positions)
    np.testing.assert_allclose(x.min(axis=0), -x.max(axis=0), atol=1e-12)
    assert counts(others["one"]) == (1, 1000, 1200)
    assert counts(others["three"]) == (300, 3000, 3600)


# steps ------------------------------------------------------------------------------------------------------


def test_every_candidate_is_timed_at_every_step():
    """Have a time for each candidate and step, with the same contacts, and counters where they are kept."""
    scene = SETUPS["A"].scene()
    found = measure("steps", [published("paper", scene, table_size=199), hashed("ours", scene)], [0.0, 0.1, 0.2])

    assert [len(each.ms) for each in found.values()] == [3, 3]
    assert found["paper"].contacts == found["ours"].contacts
    assert min(found["ours"].contacts) > 100
    assert found["paper"].met > found["paper"].counters["inside_tests"] > min(found["paper"].contacts)
    assert found["paper"].row.ratio == 1.0
    assert found["ours"].counters == {}


@pytest.mark.parametrize("wrong", ["count", "contacts"])
def test_no_time_counts_where_candidates_differ(wrong: str):
    """Raise with the scene, the time and the candidate."""
    scene = SETUPS["A"].scene()
    right = hashed("right", scene)
    other = SpatialHash(tet_bodies(scene)[::-1])
    query = (lambda: other.query(max_pairs=7)) if wrong == "count" else other.query
    with pytest.raises(AssertionError, match="steps, time 0: wrong finds "):
        measure("steps", [right, Candidate("wrong", scene, query)], [0.0])


# experiments ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_setups_tell_both_tables(setups: Experiment):
    """Put four figures of ours beside those of the paper, for the published scheme and the default."""
    tables = {table.name: table for table in setups.tables}
    assert [row[0] for row in tables["table_1"].rows] == ["A", "B", "D"]
    rows = [dict(zip(tables["table_2"].columns, row)) for row in tables["table_2"].rows]
    assert [row["who"] for row in rows] == ["the paper (Pentium 4, 1.8 GHz)", "as published", "default"] * 3
    assert [row["ave ms"] for row in rows[::3]] == [4.3, 12.6, 70.0]
    for row in rows:
        assert 0.0 < row["min ms"] <= row["ave ms"] <= row["max ms"]
        assert row["dev ms"] >= 0.0
    for ours in (rows[1::3], rows[2::3]):
        assert all(row["contacts per step"] > 0.0 for row in ours)


@pytest.mark.slow
def test_parameters_cover_every_group(parameters: Experiment):
    """Change one thing at a time, from the table's size to the number of tets."""
    groups = {row.scene.split(":")[0] for row in parameters.rows}

    assert groups == {*p003_parameters.GROUPS}
    assert all(row.min_ms > 0.0 for row in parameters.rows)


def test_full_run_has_the_figures_of_the_paper():
    """Begin with tables of 99, 199, 299, ..., and have a cell size of one mean edge, on setups A and D."""
    full = p003_parameters.FULL

    assert full.table_sizes[:3] == (99, 199, 299)
    assert full.table_sizes[-1] > 100 * SETUPS["D"].vertices
    assert 1.0 in full.cell_factors
    assert full.figure_letters == "DA"
    assert set(full.figure_letters) <= set(full.letters)


@pytest.mark.slow
def test_papers_function_repeats_itself_around_the_origin(parameters: Experiment):
    """Meet more vertices where cells are negative and positive than where all are positive, which "mixed" does not."""
    (table,) = parameters.tables
    met = {(row[0], row[2]): row[5] for row in table.rows if row[1] > 9000}
    around, far = "C around the origin", "C far from the origin"

    assert met[around, "paper"] > 1.3 * met[far, "paper"]
    assert met[around, "mixed"] < 1.1 * met[far, "mixed"]


@pytest.mark.slow
def test_every_claim_has_a_verdict(experiment: Experiment):
    """Say what was measured and whether it agrees, for each sentence of the paper."""
    assert len(experiment.claims) >= 3
    for claim in experiment.claims:
        assert claim.text.endswith(".")
        assert claim.measured
        assert claim.verdict in ("held", "not held", "not testable here")


# verdicts ---------------------------------------------------------------------------------------------------


def _made_up(ms: float, *, met: float = 1000.0) -> Measured:
    return Measured(Row("", "", ms, ms, 1.0), [ms], [1], {"vertices_met": met, "inside_tests": 0.1 * met})


def _as_in_the_paper(slower: float) -> dict[tuple[str, str], dict[str, Measured]]:
    """Times that the paper could have measured if ``slower`` is 1.2, and the contrary if it is 1 / 1.2."""
    found = {}
    for scene, n in (("A", 4999), ("D", 9973)):
        tables = {
            f"{slots}{prime}": _made_up(ms, met=900.0 if prime else 900.0 * slower)
            for size, ms in ((99, 30.0 * slower**20), (n // 100 * 100 + 99, 30.0), (999_999, 30.0 * slower))
            for prime, slots in (("", size), (", prime", next_prime(size)))
        }
        found["table size", scene] = tables
        edge = {0.5: 30.0 * slower**3, 1.0: 30.0, 2.0: 30.0 * slower**3}
        found["cell size", scene] = {
            f"{at:g} edges{ending}": _made_up(ms) for at, ms in edge.items() for ending in ("", ", default")
        }
    for scene in ("A", "D", "C around the origin", "C far from the origin"):
        uneven = 1.0 if slower > 1.0 or "around" not in scene else 1.5
        found["hash function", scene] = {
            f"{function}, {slots} slots": _made_up(ms, met=met)
            for slots, spread in ((199, slower), (50_021, 1.0 if slower > 1.0 else 2.0))
            for function, ms, met in (
                ("paper", 30.0, 1000.0 * uneven / min(slower, 1.0)),
                ("mixed", 30.0 * spread, 1000.0),
            )
        }
    pairs = {
        "inside test": ("barycentric", "half_space"),
        "passes": ("two passes", "one pass"),
        "storage": ("time stamps, 999983 slots", "reset, 999983 slots"),
    }
    for group, (fast, slow) in pairs.items():
        found[group, "D"] = {fast: _made_up(50.0 / slower), slow: _made_up(50.0)}
    found["storage", "D"]["counting sort, 999983 slots"] = _made_up(50.0)
    found["edges", "D"] = {
        name: _made_up(30.0 * (slower**3 if "edges too" in name else 1.0))
        for ending in ("", ", default")
        for name in (f"vertices only{ending}", f"edges too{ending}")
    }
    found["number of objects", "D"] = {
        name: _made_up(30.0 if name.startswith("one") or slower > 1.0 else 50.0)
        for name in ("many bodies", "one body", "many bodies, default", "one body, default")
    }
    for count in (1, 10):
        ms = 5.0 * (count if slower > 1.0 else count**2)
        found["number of tets", f"{count} x B"] = {"as published": _made_up(ms), "default": _made_up(ms)}
    return found


TETS = {"A": 1000, "D": 20_520, "1 x B": 4000, "10 x B": 40_000}


def test_figures_of_the_paper_make_all_its_claims_hold():
    """Hold every claim for times that grow and differ as in the paper."""
    assert {claim.text: claim.verdict for claim in claims(_as_in_the_paper(1.2), TETS)} == {
        claim.text: "held" for claim in claims(_as_in_the_paper(1.2), TETS)
    }


def test_contrary_figures_make_no_claim_hold():
    """Hold no claim for contrary times, but real time, which is about milliseconds."""
    found = _as_in_the_paper(1.0 / 1.2)
    found["inside test", "D"] = {"barycentric": _made_up(80.0), "half_space": _made_up(70.0)}

    assert [claim.text for claim in claims(found, TETS) if claim.verdict != "not held"] == []


# files ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_picture_and_tables_are_written(experiment: Experiment, written_page):
    """Write all side by side; the page shows the picture, every claim and every candidate."""
    written_page(experiment)


@pytest.mark.slow
def test_command_prints_verdicts_and_names_the_files(setups: Experiment, tmp_path: Path, monkeypatch):
    """Run an experiment by name like every other benchmark, and write its page and picture too."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(p003_setups, "run", lambda **_: setups)
    done = CliRunner().invoke(app, ["p003_setups", "--quick", "--out", str(tmp_path)])

    assert done.exit_code == 0
    for claim in setups.claims:
        assert claim.text in done.output
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png"}
