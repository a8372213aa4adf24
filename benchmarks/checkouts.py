"""Compare two checkouts of the repository in one run: their processes alternate.

Round      Each checkout runs the named benchmarks once, in a process of its own; the order changes from round to round.
Process    ``PYTHONPATH`` holds ``src`` and the root of the checkout alone. A checkout without
           ``benchmarks/__main__.py`` has the benchmarks inside the package: its command is ``python -m impinge bench``.
Figures    A time has the minimum of the minima and the median of the medians of all rounds. Other tables are those of
           the first round.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.compare import TIMES, Move, moves, read_csv
from impinge.errors import FileError, OptionError


def compare_checkouts(
    old: Path,
    new: Path,
    names: Sequence[str],
    folder: Path,
    *,
    rounds: int,
    quick: bool = False,
    report: Callable[[str], object] = lambda _: None,
) -> list[Move]:
    """Run benchmarks of two checkouts alternately; return the figures that moved by more than their noise.

    Parameters
    ----------
    old, new
        Roots of the checkouts.
    names
        Benchmarks, as on the command line.
    folder
        Receives the files of all rounds, and in ``old`` and ``new`` those of all rounds together.
    rounds
        Processes per checkout.
    quick
        Whether the benchmarks take their small sizes: a smoke run.
    report
        Called with one sentence before each process.

    Raises
    ------
    OptionError
        If there are no rounds.
    FileError
        If a folder is not a checkout, or a benchmark fails in it.
    """
    if rounds < 1:
        raise OptionError(f"rounds is {rounds}, expected at least 1")
    checkouts = {"old": old.resolve(), "new": new.resolve()}
    commands = {label: _command(root) for label, root in checkouts.items()}
    for index in range(rounds):
        for label in list(checkouts)[:: -1 if index % 2 else 1]:
            report(f"round {index + 1} of {rounds}: {label}, {checkouts[label]}")
            _run(commands[label], checkouts[label], names, folder / f"{label}-{index}", quick=quick)
    for label in checkouts:
        _merge([folder / f"{label}-{index}" for index in range(rounds)], folder / label)
    return moves(folder / "old", folder / "new")


def _command(root: Path) -> list[str]:
    if (root / "benchmarks" / "__main__.py").is_file():
        return [sys.executable, "-m", "benchmarks"]
    if (root / "src" / "impinge").is_dir():
        return [sys.executable, "-m", "impinge", "bench"]
    raise FileError(f"{root} has neither benchmarks/__main__.py nor src/impinge; expected the root of a checkout")


def _run(command: list[str], root: Path, names: Sequence[str], out: Path, *, quick: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    arguments = [*command, *names, "--out", str(out.resolve()), *(["--quick"] if quick else [])]
    done = subprocess.run(arguments, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FileError(f"{' '.join(names)} failed in {root} with exit code {done.returncode}: {reason}")


def _merge(rounds: list[Path], folder: Path) -> None:
    """Write the files of all rounds together."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(rounds[0].glob("*.csv")):
        tables = [read_csv(each / path.name) for each in rounds if (each / path.name).is_file()]
        rows = tables[0]
        if rows[0] == TIMES:
            figures: dict[tuple[str, str], list[list[str]]] = {}
            for row in (row for table in tables for row in table[1:]):
                figures.setdefault((row[0], row[1]), []).append(row)
            rows = [TIMES, *map(_merged, figures.values())]
        with (folder / path.name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def _merged(rows: list[list[str]]) -> list[str]:
    """One figure of all rounds; ratio and note are those of the round with the minimum."""
    best = min(rows, key=lambda row: float(row[2]))
    median = statistics.median(float(row[3]) for row in rows)
    return [*best[:3], f"{median:.4g}", *best[4:]]
