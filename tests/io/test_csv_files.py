"""Tests of csv files: text that a spreadsheet would evaluate; numbers."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from impinge.io.csv_files import FORMULA_STARTS, csv_bytes, literal

HOSTILE = [f"{start}1+1" for start in FORMULA_STARTS] + ["-5", "=", "@SUM(A1)"]


@pytest.mark.parametrize("text", HOSTILE)
def test_formulas_become_text(text):
    """Put an apostrophe in front of text that begins like a formula."""
    assert literal(text) == f"'{text}"


@pytest.mark.parametrize("cell", [-1, -2.5, np.float64(-3.0), None, True, "", "a=b", "part-1", " =1", "'=1"])
def test_other_cells_are_kept(cell):
    """Write numbers, negative ones too, absent values and other text as they are."""
    assert literal(cell) is cell


def test_a_table_reads_back():
    """Write a table whose numbers are numbers and whose text holds separators and quotes."""
    data = csv_bytes(["name", "x"], [['=1,"2"', -1.5], ["plain", -2]])

    assert list(csv.reader(io.StringIO(data.decode()))) == [["name", "x"], ['\'=1,"2"', "-1.5"], ["plain", "-2"]]
