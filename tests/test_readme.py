"""Code, links and figures of the documentation are valid."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

import impinge

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_python_on_a_page_runs(page, tmp_path, monkeypatch):
    """Run the Python blocks of a page in sequence, in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    threads = impinge.thread_count()
    try:
        names: dict[str, object] = {}
        for block in python_blocks(page):
            exec(compile(block, page, "exec"), names)
    finally:
        impinge.set_threads(threads)

    if page == "README.md":
        assert len(names["result"]) > 0
        assert (tmp_path / "found.png").stat().st_size > 10_000


def test_the_readme_shows_python():
    """Find Python blocks in the README."""
    assert "README.md" in PAGES
    assert python_blocks("README.md")


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_resolve(page):
    """Link only to existing files."""
    for link in re.findall(r"(?:\]\(|src=\")(?!https?://)([^)#\"]+)[)\"]", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / link).exists(), link


PEERS = {
    "Embree": "embree", "Warp, impinge test": "warp (CPU, our test)", "MeshLib": "meshlib", "libigl": "libigl",
    "Coal": "coal", "python-fcl": "python-fcl",
}  # fmt: skip
SCENES = {
    "20k × 20k": r"smooth, 20\.5k", "82k × 82k": r"smooth, 81\.9k", "328k × 328k": "smooth, 328k",
    "minimum over 7 scans, CAD parts, soups and cloths": "scan|cad|soup",
    "82k self-collision, no pair": "self, sphere", "82k self-collision, 8,300 pairs": "self, knot",
}  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")


def table_of_the_readme(first: str) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the table whose first column has this title."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.search(rf"^\| {re.escape(first)} \|.*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)[0].splitlines()
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return head, rows


def results_of(benchmark: str) -> list[dict[str, str]]:
    (path,) = (ROOT / "benchmarks" / "results").glob(f"{benchmark}-*.csv")
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def is_rounded(shown: str, measured: float) -> bool:
    """Whether a printed number equals the measured one, up to rounding of its last digit."""
    digits = len(shown.partition(".")[2])
    return not math.isnan(measured) and abs(float(shown.replace(",", "")) - measured) <= 0.51 * 10.0**-digits


def test_ratios_of_pairs_are_those_of_the_results():
    """Compare ratios per library with the committed run, and classes of scenes with its minimum."""
    head, rows = table_of_the_readme("all triangle pairs")
    measured = results_of("pairs_against_peers")

    assert [row[0] for row in rows] == list(SCENES)
    for row in rows:
        for title, cell in list(zip(head, row))[2:]:
            found = [
                float(one["ratio"]) for one in measured
                if re.match(SCENES[row[0]], one["scene"]) and one["candidate"] == PEERS[title]
            ]  # fmt: skip
            ratios = [ratio for ratio in found if not math.isnan(ratio)]
            assert is_rounded(cell.rstrip("×"), min(ratios)) if cell else not ratios, (row[0], title)


@pytest.mark.parametrize(("first", "column"), [("other queries", "min_ms"), ("a whole frame, median", "median_ms")])
def test_figures_of_the_readme_are_those_of_the_results(first, column):
    """Find every time and ratio in the results of the benchmark named in its row."""
    head, rows = table_of_the_readme(first)
    benchmark, checked = "", 0
    for row in rows:
        benchmark = row[-1].strip("`") or benchmark
        measured = results_of(benchmark)
        for title, cell in list(zip(head, row))[1:-1]:
            figures = cell.rpartition(": ")[2].partition(" (")[0].replace("×", "")
            name = "ratio" if title == "ratio" else column
            for number in NUMBER.findall(figures):
                assert any(is_rounded(number, float(one[name])) for one in measured), (row[0], number)
                checked += 1

    assert checked >= 5


def test_the_readme_counts_verdicts_as_the_results_do():
    """Compare the numbers of verdicts with the page of results."""
    held, missed = re.search(
        r"with its verdict: (\d+) held, (\d+) did not", (ROOT / "README.md").read_text("utf-8")
    ).groups()

    assert f"| all | {held} | {missed} |" in (ROOT / "benchmarks" / "results" / "README.md").read_text("utf-8")


def test_cited_sources_are_listed():
    """List every source that the code cites by key, such as [Someone1999]."""
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.md").read_text(encoding="utf-8"), re.MULTILINE)
    code = "".join(path.read_text(encoding="utf-8") for path in Path(impinge.__file__).parent.rglob("*.py"))
    cited = set(re.findall(r"\[([A-Za-z]+(?:19|20)\d\d)\b", code))

    assert cited
    assert cited <= set(listed)
