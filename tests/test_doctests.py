"""Examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import impinge

SOURCE = Path(impinge.__file__).parent
MODULES = sorted(
    ".".join(("impinge", *path.relative_to(SOURCE).with_suffix("").parts))
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples():
    """Find examples in docstrings of detectors, queries and papers."""
    assert len(MODULES) > 8


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    """Run every example of a module."""
    result = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))

    assert result.attempted > 0
    assert result.failed == 0
