"""Sphinx settings: ``make docs`` builds these pages, and a warning is an error."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import impinge

project = "impinge"
author = "the impinge authors"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx reads
release = impinge.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}

napoleon_google_docstring = False
napoleon_use_param = False  # types of parameters are prose, not cross-references
napoleon_use_rtype = False

html_theme = "furo"
html_title = "impinge"
html_static_path = ["_static"]
html_css_files = ["width.css"]
html_theme_options = {name: {"code-font-size": "0.75rem"} for name in ("light_css_variables", "dark_css_variables")}

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"


def setup(app: Any) -> None:
    """Copy the pages of the benchmarks into the site and register the hooks below."""
    copy = HERE / "results"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(RESULTS, copy)
    experiments = sorted(page.stem for page in copy.glob("*-*.md"))
    with (copy / "README.md").open("a", encoding="utf-8") as index:
        index.write("\n".join(["", "```{toctree}", ":hidden:", "", *experiments, "```", ""]))
    app.connect("source-read", _link_to_the_copy)
    app.connect("autodoc-process-docstring", _show_derivations)
    app.connect("autodoc-process-docstring", _list_options)


def _link_to_the_copy(_: Any, __: str, source: list[str]) -> None:
    source[0] = source[0].replace("](../benchmarks/results/", "](results/")


def _show_derivations(_: Any, what: str, name: str, *arguments: Any) -> None:
    """Show docstrings of published modules as literal text: they keep the layout of the paper's pseudo code."""
    lines: list[str] = arguments[-1]
    if what == "module" and name.startswith("impinge.published."):
        lines[:] = [*lines[:1], "", ".. code-block:: text", "", *(f"   {line}" for line in lines[1:])]


OPTION = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")
"""A row of an option table in a docstring: names, at least two blanks, description."""


def _list_options(*arguments: Any) -> None:
    """Show option tables of docstrings as lists."""
    lines: list[str] = arguments[-1]
    shown: list[str] = []
    for line in lines:
        option = OPTION.match(line)
        if option:
            names = ", ".join(f"``{name}``" for name in option[1].split(", "))
            shown += ["", f"- {names}: {option[2]}"]
        elif shown and shown[-1].startswith("- ``") and line.startswith("  "):
            shown[-1] += f" {line.strip()}"
        else:
            shown.append(line)
    lines[:] = shown
