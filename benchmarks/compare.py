"""Find which figures of two runs differ by more than their noise.

A run is a folder of CSV files that ``python -m benchmarks --out`` has written, or one such file. The noise of a time is
the span from its minimum to its median: a time moved if the spans of both runs are disjoint. Counters (numbers of
tests, candidates, fragments) have no noise: every change is reported. Runs at different times also differ by the drift
of the machine; ``benchmarks.checkouts`` alternates two checkouts in one run.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from benchmarks.papers.experiment import NOISE
from impinge.errors import FileError

TIMES = ["scene", "candidate", "min_ms", "median_ms", "ratio", "note"]


@dataclass(frozen=True)
class Move:
    """A figure that differs between two runs."""

    file: str
    figure: str
    old: str
    new: str
    verdict: Literal["slower", "faster", "changed", "gone", "new"]


def moves(old: Path, new: Path) -> list[Move]:
    """All figures that moved between two runs, file by file."""
    before, after = _files(old), _files(new)
    if old.is_file() and new.is_file():
        after = dict.fromkeys(before, new)
    common = [name for name in before if name in after]
    if not common:
        raise FileError(f"{old} and {new} have no CSV file in common; expected two folders written by --out")
    found: list[Move] = []
    for name in common:
        old_rows, new_rows = read_csv(before[name]), read_csv(after[name])
        if old_rows[0] == TIMES == new_rows[0]:
            found += _moves_of_times(name, old_rows[1:], new_rows[1:])
        else:
            found += _moves_of_counters(name, old_rows, new_rows)
    return found


def _files(run: Path) -> dict[str, Path]:
    if not run.exists():
        raise FileError(f"{run} does not exist; expected a folder written by --out, or a CSV in it")
    return {path.name: path for path in ([run] if run.is_file() else sorted(run.glob("*.csv")))}


def read_csv(path: Path) -> list[list[str]]:
    """All rows of a file of results, without its first line on the machine."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(line for line in file if not line.startswith("#")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path} cannot be read as CSV ({error}); run the benchmark again") from error
    if not rows:
        raise FileError(f"{path} has no rows; run the benchmark again")
    return rows


def _moves_of_times(name: str, old: list[list[str]], new: list[list[str]]) -> Iterator[Move]:
    before = {f"{row[0]}, {row[1]}": row for row in old}
    after = {f"{row[0]}, {row[1]}": row for row in new}
    for figure in [*before, *(figure for figure in after if figure not in before)]:
        if figure not in after:
            yield Move(name, figure, _span(before[figure]), "", "gone")
        elif figure not in before:
            yield Move(name, figure, "", _span(after[figure]), "new")
        else:
            was, now = before[figure], after[figure]
            if _least(now) > (1.0 + NOISE) * _most(was):
                yield Move(name, figure, _span(was), _span(now), "slower")
            elif (1.0 + NOISE) * _most(now) < _least(was):
                yield Move(name, figure, _span(was), _span(now), "faster")


def _least(row: list[str]) -> float:
    return min(float(row[2]), float(row[3]))


def _most(row: list[str]) -> float:
    return max(float(row[2]), float(row[3]))


def _span(row: list[str]) -> str:
    return f"{row[2]} to {row[3]} ms"


def _moves_of_counters(name: str, old: list[list[str]], new: list[list[str]]) -> Iterator[Move]:
    nothing: list[str] = []
    for line, (was, now) in enumerate(zip_longest(old, new, fillvalue=nothing)):
        for column, (a, b) in enumerate(zip_longest(was, now, fillvalue="")):
            if a != b and (a.isdigit() or b.isdigit() or line == 0):
                title = old[0][column] if column < len(old[0]) else new[0][column]
                yield Move(name, f"{title} of {(was or now)[0]}", a, b, "changed")
