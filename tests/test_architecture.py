"""ARCHITECTURE.md names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "impinge"


def definitions(path: Path) -> set[str]:
    """Functions, classes, constants, and methods as ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def steps() -> list[tuple[str, str]]:
    """(file, function) of every row of the paths and of the look-up table: "`file`: `function`, `function`"."""
    found = []
    for cell in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", PAGE):
        found += [(cell[0], name) for name in re.findall(r"`([\w.]+)`", cell[1])]
    return found


def test_paths_are_long_enough_to_be_real():
    """Name at least sixty functions with their files."""
    assert len(steps()) > 60


@pytest.mark.parametrize(("file", "function"), sorted(set(steps())))
def test_functions_of_the_page_exist(file, function):
    """Find each function in the file that the page names."""
    assert function in definitions(SOURCE / file)


def test_files_of_the_page_exist():
    """Find every file that the page names."""
    for name in re.findall(r"`([\w/]+\.(?:py|pyi|json|md))`", PAGE):
        places = [SOURCE / name, ROOT / name]
        assert any(place.is_file() for place in places), name


@pytest.mark.parametrize("path", ["triangle_pairs", "World.contacts", "sphere_contacts", "Simulation.step"])
def test_the_four_paths_are_there(path):
    """Give each of the four paths a section."""
    assert re.search(rf"^### `{re.escape(path)}", PAGE, re.MULTILINE)
