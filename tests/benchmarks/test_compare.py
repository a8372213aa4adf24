"""Two runs are compared, and all results summarised on one page."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import impinge
from benchmarks import catalogue, compare, summary
from benchmarks.__main__ import app
from benchmarks.measure import Row, write_csv

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def run(folder: Path, *rows: Row) -> Path:
    write_csv(rows, folder, "pairs_against_peers")
    return folder


def test_figures_that_moved_by_more_than_their_noise_are_reported(tmp_path):
    """Report what is slower, faster, new or gone, and nothing within the noise."""
    old = run(
        tmp_path / "old",
        Row("s", "same", 1.0, 1.5, 1.0),
        Row("s", "slower", 1.0, 1.2, 1.0),
        Row("s", "faster", 1.0, 1.2, 1.0),
        Row("s", "gone", 1.0, 1.2, 1.0),
    )
    new = run(
        tmp_path / "new",
        Row("s", "same", 1.4, 1.9, 1.0),
        Row("s", "slower", 1.3, 1.6, 1.0),
        Row("s", "faster", 0.5, 0.9, 1.0),
        Row("s", "added", 1.0, 1.2, 1.0),
    )

    found = {move.figure: move.verdict for move in compare.moves(old, new)}

    assert found == {"s, slower": "slower", "s, faster": "faster", "s, gone": "gone", "s, added": "new"}


def test_counters_have_no_noise(tmp_path):
    """Report every count that differs, and no time of such tables."""
    for name, tests in (("old", 7), ("new", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.csv").write_text(f"# machine\nlevel,tests,ms\n0,{tests},0.{tests}\n1,3,0.5\n")

    (move,) = compare.moves(tmp_path / "old", tmp_path / "new")

    assert (move.figure, move.old, move.new, move.verdict) == ("tests of 0", "7", "8", "changed")


def test_a_run_equals_itself():
    """Find no move between the committed results and themselves."""
    assert compare.moves(RESULTS, RESULTS) == []


@pytest.mark.parametrize(("old", "words"), [("nowhere", "does not exist"), ("empty", "no CSV file in common")])
def test_runs_that_cannot_be_compared_get_a_sentence(old, words, tmp_path):
    """Say what is missing."""
    (tmp_path / "empty").mkdir()

    with pytest.raises(impinge.FileError, match=words):
        compare.moves(tmp_path / old, RESULTS)


def test_the_page_over_all_results_is_current():
    """Commit the page that the committed figures give: `python -m benchmarks summary` regenerates it."""
    assert (RESULTS / summary.NAME).read_text(encoding="utf-8") == summary.page(RESULTS)


def test_the_page_answers_how_libraries_compare():
    """Find libraries by name, and the papers' claims."""
    page = summary.page(RESULTS)

    assert re.search(
        r"^\| FCL \(python-fcl\) \| all pairs of triangles \| [\d.,]+ to [\d.,]+ \| rebuild", page, re.MULTILINE
    )
    assert "Layered depth images" in page


def test_the_page_lists_every_claim_with_its_verdict():
    """List each row of each experiment's table of claims, and count all of them."""
    page = summary.page(RESULTS)
    rows = [
        re.fullmatch(r"\| (.+?) \| .+ \| (held|not held|not testable here) \|", line)
        for path in RESULTS.glob("p00*.md") for line in path.read_text(encoding="utf-8").splitlines()
    ]  # fmt: skip
    claims = [row for row in rows if row]
    verdicts = Counter(row[2] for row in claims)

    assert len(claims) > 100
    for row in claims:
        assert f"| {row[1]} | {'**not held**' if row[2] == 'not held' else row[2]} |" in page
    assert re.search(r"\n\| Two workers on two cores .+ \| (\*\*not )?held(\*\*)? \|\n", page)
    assert f"| all | {verdicts['held']} | {verdicts['not held']} | {verdicts['not testable here']} |" in page


def test_ways_to_use_a_library_are_separate(tmp_path):
    """Give each a line of its own with its number of threads: no span mixes different queries."""
    folder = run(
        tmp_path,
        Row("small", "impinge", 1.0, 1.0, 1.0, "9 pairs; 2 threads (omp)"),
        Row("small", "coal", 3.0, 3.0, 3.0, "medians 3.1; refit, collide; 1 thread; 3.0"),
        Row("large", "coal", 5.0, 5.0, 5.0, "medians 5.1; refit, collide; 1 thread; 3.0"),
        Row("wrong", "coal", math.nan, math.nan, math.nan, "disagrees on 2 pairs; refit, collide; 1 thread; 3.0"),
        Row("small", "warp (CPU, our test)", 7.0, 7.0, 7.0, "medians 7.0; refit, query; 1 thread; 1.19"),
        Row("small", "IPC Toolkit, candidates alone", 0.8, 0.9, 0.8),
        Row("small", "IPC Toolkit, candidates and distances", 4.0, 4.0, 4.0),
        Row("small", "libigl", math.nan, math.nan, math.nan, "not installed"),
    )

    page = summary.page(folder)
    lines = [line for line in page.splitlines() if "| all pairs of triangles |" in line]

    assert [line.replace("| all pairs of triangles |", "|").split(" | [")[0] for line in lines] == [
        "| Coal | 3.0 to 5.0 | refit, collide; 1 thread | 2; in 1 more its answer disagrees; least in small",
        "| IPC Toolkit | 0.8 | candidates alone | small",
        "| IPC Toolkit | 4.0 | candidates and distances | small",
        "| Warp | 7.0 | CPU, our test; 1 thread | small",
    ]
    assert re.search(r"\nNot timed, for the reason in the file: libigl \(\[pairs_against_peers\]", page)


def test_the_page_names_what_was_not_measured(tmp_path):
    """List the benchmarks without a result in the folder."""
    page = summary.page(run(tmp_path, Row("s", "coal", 3.0, 3.0, 3.0)))
    absent = [line for line in page.splitlines() if line.startswith("No result in this folder")]

    assert len(absent) == 2
    assert "`cloth_proximity`" in absent[0]
    assert "`pairs_against_peers`" not in absent[0]
    for names in catalogue.PAPERS.values():
        assert all(f"`{name}`" in absent[1] for name in names)


def test_names_stand_for_several():
    """Choose by group, by paper, by name; all if nothing is named."""
    assert catalogue.chosen(["papers", "000"]) == catalogue.PAPERS["000"]
    assert set(catalogue.chosen(["papers"])) == {n for n in catalogue.BENCHMARKS if n.startswith("p00")}
    assert catalogue.chosen(["peers", "worlds"]) == catalogue.PEERS
    assert catalogue.chosen([]) == list(catalogue.BENCHMARKS)
    with pytest.raises(impinge.OptionError, match="no benchmark nothing"):
        catalogue.chosen(["nothing"])


def test_commands_report_what_moved(tmp_path):
    """Exit with 1 where a figure became slower; raise where runs cannot be compared."""
    old = run(tmp_path / "old", Row("s", "ours", 1.0, 1.2, 1.0))
    new = run(tmp_path / "new", Row("s", "ours", 2.0, 2.2, 1.0))

    slower = CliRunner().invoke(app, ["compare", str(old), str(new)])
    same = CliRunner().invoke(app, ["compare", str(old), str(old)])
    summed = CliRunner().invoke(app, ["summary", str(old)])

    assert slower.exit_code == 1
    assert "slower" in slower.output
    assert same.exit_code == 0
    assert "0 figures moved" in same.output
    assert summed.exit_code == 0
    assert (old / summary.NAME).exists()
    with pytest.raises(impinge.OptionError, match="expected two"):
        CliRunner().invoke(app, ["compare", str(old)], catch_exceptions=False)
