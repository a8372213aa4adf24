"""Files that runs write: names in tables."""

from __future__ import annotations

import csv

import pytest

import impinge
from impinge import shapes
from impinge.runs import map_pairs, reports

pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")


def test_names_of_files_in_tables_of_pairs(tmp_path):
    """Escape file names and the error messages that quote them."""
    parts = tmp_path / "parts"
    parts.mkdir()
    for name in ("=cmd", "+a", "-1", "@b"):
        impinge.save(shapes.box(1.0), parts / f"{name}.ply")
    run = map_pairs(parts)
    reports.write_pairs(run, tmp_path / "found.csv")

    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert all(row[name].startswith("'") for row in rows for name in ("name_a", "name_b"))
