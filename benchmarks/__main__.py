"""Measure, compare, summarise: ``python -m benchmarks NAME``.

Run from the root of the repository: the package ``benchmarks`` is not part of the wheel.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from benchmarks.catalogue import BENCHMARKS, PAPERS, chosen, is_experiment
from impinge.app.commands.console import BAD_INPUT, COLLIDING, err, out, print_rows, print_table
from impinge.errors import ImpingeError, OptionError

if TYPE_CHECKING:
    from benchmarks.compare import Move
    from benchmarks.measure import Row

ROUNDS = 3
"""Of compare-checkouts."""
KNOWN = ", ".join(["peers", "papers", *PAPERS, *BENCHMARKS])


app = typer.Typer(name="benchmarks", rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Any of {KNOWN}; all if none. Or: compare OLD NEW, two folders of results; compare-checkouts OLD NEW "
            "NAME..., two checkouts of the repository; summary FOLDER."
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Write the figures to files in this folder.")] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes and few rounds: a smoke run, not a measurement.")] = False,
    rounds: Annotated[int, typer.Option(help="Processes per checkout of compare-checkouts.")] = ROUNDS,
) -> None:
    """Measure, and print the figures with their ratios; or compare two runs or two checkouts.

    Example: python -m benchmarks papers 000 003 --out results

    Example: python -m benchmarks compare benchmarks/results results

    Example: python -m benchmarks compare-checkouts ../before . pairs_against_peers worlds --rounds 5
    """
    command, *arguments = names or [""]
    if command == "compare":
        _compare(arguments)
    elif command == "compare-checkouts":
        _compare_checkouts(arguments, folder, rounds=rounds, quick=quick)
    elif command == "summary":
        _summarise(arguments)
    else:
        _measure(chosen(names or []), folder, quick=quick)


def _measure(names: list[str], folder: Path | None, *, quick: bool) -> None:
    from benchmarks import measure
    from benchmarks.papers.experiment import Experiment, check_plotting

    if folder is not None and any(map(is_experiment, names)):
        check_plotting()  # before the work, not after it
    out.print(measure.machine())
    for name in names:
        with err.status(f"measuring {name} ..."):
            found = importlib.import_module(BENCHMARKS[name]).run(quick=quick)
        if isinstance(found, Experiment):
            _print_measured(name, found.rows)
            print_rows([(claim.verdict, f"{claim.text} {claim.measured}") for claim in found.claims])
            written = [] if folder is None else found.write(folder)
        else:
            _print_measured(name, found)
            written = [] if folder is None else [measure.write_csv(found, folder, name)]
        for path in written:
            out.print(f"written: {path}")


def _print_measured(name: str, rows: Iterable[Row]) -> None:
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    for column in ("scene", "candidate", "min ms", "median ms", "ratio", "note"):
        table.add_column(column, justify="right" if column in ("min ms", "median ms", "ratio") else "left")
    for row in rows:
        figures = (f"{row.min_ms:.3g}", f"{row.median_ms:.3g}", f"{row.ratio:.2f}")
        table.add_row(row.scene, row.candidate, *figures, row.note)
    print_table(table)


def _compare(runs: list[str]) -> None:
    from benchmarks.compare import moves

    if len(runs) != 2:
        raise OptionError(f"compare got {len(runs)} folders, expected two: python -m benchmarks compare OLD NEW")
    _print_moves(f"{runs[0]} and {runs[1]}", moves(Path(runs[0]), Path(runs[1])))


def _compare_checkouts(arguments: list[str], folder: Path | None, *, rounds: int, quick: bool) -> None:
    from benchmarks.checkouts import compare_checkouts

    if len(arguments) < 3:
        raise OptionError(
            f"compare-checkouts got {len(arguments)} arguments, expected two folders and at least one benchmark: "
            "python -m benchmarks compare-checkouts OLD NEW NAME..."
        )
    old, new, *names = arguments
    with tempfile.TemporaryDirectory() as scratch:
        found = compare_checkouts(
            Path(old), Path(new), names, folder or Path(scratch), rounds=rounds, quick=quick, report=err.print
        )
    _print_moves(f"{old} and {new}, {rounds} rounds", found)


def _print_moves(title: str, found: list[Move]) -> None:
    """Print all moves; exit with 1 if a figure became slower."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("verdict", "file", "figure", "old", "new"):
        table.add_column(column)
    for move in found:
        table.add_row(move.verdict, move.file, move.figure, move.old, move.new)
    if found:
        print_table(table)
    slower = sum(move.verdict == "slower" for move in found)
    out.print(f"{len(found)} figures moved by more than their noise, {slower} of them are slower")
    if slower:
        raise typer.Exit(COLLIDING)


def _summarise(folders: list[str]) -> None:
    from benchmarks import summary

    if len(folders) != 1:
        raise OptionError(f"summary got {len(folders)} folders, expected one: python -m benchmarks summary FOLDER")
    out.print(f"written: {summary.write(Path(folders[0]))}")


def main() -> None:
    """Run the command; an error of impinge is one sentence on stderr and exit code 2."""
    try:
        app()
    except ImpingeError as error:
        err.print(f"error: {error}", soft_wrap=True)
        sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
