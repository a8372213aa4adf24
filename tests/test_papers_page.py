"""Every module, function, option, experiment and test that ``docs/papers.md`` names exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.catalogue import BENCHMARKS
from impinge import scenes

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## Paper (\d{3}):[^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
"""Text of each paper's section by number."""
TESTS = {
    name for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}  # fmt: skip


def spans(section: str) -> list[str]:
    """Return all code spans of a section."""
    return re.findall(r"`([^`\n]+)`", SECTIONS[section])


def published(section: str) -> str:
    """Return the name of the published module of a section."""
    return re.search(r"^- As written: `([\w.]+)`", SECTIONS[section], re.MULTILINE)[1]


def member(owner: Any, name: str) -> Any:
    """Return an attribute, a submodule, or the annotation of a field of a class; None if there is none."""
    if hasattr(owner, name):
        return getattr(owner, name)
    if inspect.ismodule(owner):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ModuleNotFoundError:
            return None
    return getattr(owner, "__annotations__", {}).get(name)


def resolve(name: str, roots: list[str]) -> Any:
    """Return the object of a dotted name below the first root that has it; None if no root has."""
    for root in roots:
        found: Any = importlib.import_module(root)
        for part in name.removeprefix(f"{root}.").split("."):
            found = member(found, part)
            if found is None:
                break
        else:
            return found
    return None


def parameters(function: Any) -> set[str]:
    """Return the parameters of a function, a compiled kernel or a constructor."""
    return set(inspect.signature(getattr(function, "py_func", function)).parameters)


def exists(span: str, roots: list[str]) -> bool:
    """Whether a code span names a path, a test, an experiment, a scene, an object, or a call with its options."""
    if "/" in span:
        return (ROOT / span).exists()
    if span.startswith("test_"):
        return span in TESTS
    if span in BENCHMARKS:
        return importlib.util.find_spec(BENCHMARKS[span]) is not None
    tree = ast.parse(span, mode="eval").body
    options = {keyword.arg for keyword in tree.keywords} if isinstance(tree, ast.Call) else set()
    found = resolve(ast.unparse(tree.func if isinstance(tree, ast.Call) else tree), roots)
    return span in scenes.names() or (found is not None and (not options or options <= parameters(found)))


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_names_of_a_section_exist(section):
    """Resolve every code span of a paper's section."""
    roots = [published(section), "impinge", "benchmarks.papers"]

    assert len(spans(section)) > 50
    assert [span for span in spans(section) if not exists(span, roots)] == []


def test_the_page_covers_all_papers_and_experiments():
    """Name five papers, and each experiment of the catalogue in the section of its paper."""
    assert sorted(SECTIONS) == ["000", "001", "002", "003", "004"]
    for name in BENCHMARKS:
        number = re.match(r"p(\d{3})_", name)
        if number:
            assert name in spans(number[1])


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_groups_and_tables_of_experiments_exist(section):
    """Find every quoted group, table, row and claim in the sources of the paper's experiments."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks" / "papers").glob(f"p{section}_*.py"))
    rows = [row.rstrip("|").rpartition(" | ")[2] for row in re.findall(r"^\|.*\|$", SECTIONS[section], re.MULTILINE)]
    quoted = re.findall(r'"([^"]+)"', re.sub(r"`[^`]*`", "", "\n".join(rows)))

    assert quoted or section == "000"
    assert [name for name in quoted if name not in sources] == []


@pytest.mark.parametrize(
    "span", ["tests/absent.py", "test_absent", "recursive_check(absent=1)", "GjkCut.absent", "p000_absent", "absent"]
)
def test_absent_names_are_reported(span):
    """Reject one span of each kind that names nothing."""
    assert not exists(span, ["impinge.published.gjk_cut", "impinge", "benchmarks.papers"])
