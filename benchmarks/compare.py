"""Find which figures of two runs differ by more than their noise.

A run is a folder of CSV files as ``python -m benchmarks --out`` writes them, or one such file. A time has a minimum and
a median over its rounds, and the span between is its noise: a time moved if the two spans are disjoint. Counters
(whole numbers of tests, candidates, fragments) have no noise: any change counts.
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
    """A figure that is not what it was."""

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
    return [move for name in common for move in _moves_of_file(name, _read(before[name]), _read(after[name]))]


def _files(run: Path) -> dict[str, Path]:
    if not run.exists():
        raise FileError(f"{run} does not exist; expected a folder written by --out, or a CSV in it")
    return {path.name: path for path in ([run] if run.is_file() else sorted(run.glob("*.csv")))}


def _read(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(line for line in file if not line.startswith("#")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path} cannot be read as CSV ({error}); run the benchmark again") from error
    if not rows:
        raise FileError(f"{path} has no rows; run the benchmark again")
    return rows


def _moves_of_file(name: str, old: list[list[str]], new: list[list[str]]) -> Iterator[Move]:
    if old[0] == TIMES == new[0]:
        yield from _moves_of_times(name, old[1:], new[1:])
    else:
        yield from _moves_of_counters(name, old, new)


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
            if a != b and (_is_count(a) or _is_count(b) or line == 0):
                title = old[0][column] if column < len(old[0]) else new[0][column]
                yield Move(name, f"{title} of {(was or now)[0]}", a, b, "changed")


def _is_count(text: str) -> bool:
    return text.isdigit()
