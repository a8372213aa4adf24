"""``result.show()`` in a notebook and in a script."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

import impinge
from impinge import shapes
from notebooks import run_notebook

pytest.importorskip("viser", reason="the live page needs viser")

CELL = """
import impinge
a, b = impinge.shapes.icosphere(2), impinge.shapes.icosphere(2, center=(1.2, 0.1, 0.2))
impinge.triangle_pairs(a, b).show()
"""


def test_result_is_shown_in_a_notebook(tmp_path):
    """Embed the whole page in the output of the cell, visible without a kernel, and print nothing."""
    pytest.importorskip("nbclient", reason="notebooks need nbclient")
    nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
    pytest.importorskip("ipykernel", reason="notebooks need ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    run_notebook(notebook, tmp_path)
    outputs = notebook.cells[0].outputs
    pages = [output.data["text/html"] for output in outputs if output.output_type == "display_data"]

    assert [output.output_type for output in outputs] == ["display_data"]
    assert pages[0].startswith("<div")
    assert "<iframe srcdoc=" in pages[0]
    assert "__VISER_EMBED_DATA__" in pages[0]
    assert "127.0.0.1" not in pages[0].split("__VISER_EMBED_DATA__")[1]


def test_script_opens_a_page(monkeypatch, capsys):
    """Open a self-contained file in the system browser, and print nothing."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    shown = impinge.triangle_pairs(shapes.icosphere(1), shapes.icosphere(1, center=(1.2, 0.1, 0.2))).show()
    page = Path(unquote(urlparse(opened[0]).path))

    assert shown is None
    assert "__VISER_EMBED_DATA__" in page.read_text(encoding="utf-8")
    assert capsys.readouterr() == ("", "")
    page.unlink()
