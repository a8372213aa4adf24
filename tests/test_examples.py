"""Every example and notebook runs and passes its own checks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from notebooks import run_notebook

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_are_examples():
    """Find examples and notebooks, and list each on the page."""
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")

    assert len(EXAMPLES) >= 8
    assert len(NOTEBOOKS) >= 2
    for path in [*EXAMPLES, *NOTEBOOKS]:
        assert f"`{path.name}`" in page


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_its_check(path, tmp_path, monkeypatch):
    """Run the check of an example."""
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    module.check()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    """Run all cells in a separate kernel, including their assertions."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    assert any("assert" in cell.source for cell in notebook.cells if cell.cell_type == "code")

    run_notebook(notebook, tmp_path)
