"""What the documentation shows runs as it is written."""

from __future__ import annotations

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
    """Run the blocks of a page one after the other, in a folder of their own."""
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
    """Find the blocks at all."""
    assert "README.md" in PAGES
    assert python_blocks("README.md")


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    """Name only files that exist."""
    for link in re.findall(r"\]\((?!https?://)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / link).exists(), link


def test_cited_sources_are_listed():
    """List every source that the code cites by its key, like [Someone1999]."""
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.md").read_text(encoding="utf-8"), re.MULTILINE)
    code = "".join(path.read_text(encoding="utf-8") for path in Path(impinge.__file__).parent.rglob("*.py"))
    cited = set(re.findall(r"\[([A-Za-z]+(?:19|20)\d\d)\b", code))

    assert cited
    assert cited <= set(listed)
