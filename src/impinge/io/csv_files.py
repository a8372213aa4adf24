"""Tables as csv files in which no text is a formula.

Spreadsheets evaluate text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break: a file named
``=HYPERLINK(...).ply`` would run where its row is opened. An apostrophe in front of such text makes it literal
(https://owasp.org/www-community/attacks/CSV_Injection). Numbers are written as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def literal(cell: Any) -> Any:
    """A cell as it is written: text that a spreadsheet would evaluate gets an apostrophe, all else is unchanged."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def csv_bytes(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """A table as the bytes of a csv file."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([head, *(map(literal, row) for row in rows)])
    return text.getvalue().encode(errors="backslashreplace")
