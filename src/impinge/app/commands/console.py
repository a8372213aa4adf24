"""Shared by all commands: exit codes, consoles, common options and printing."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

import impinge

if TYPE_CHECKING:
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.tri_mesh import TriMesh

CLEAR, COLLIDING, BAD_INPUT, INTERRUPTED, NO_READER = 0, 1, 2, 130, 141
"""The last two are what shells report for SIGINT and SIGPIPE; a closed pipe must not look like a collision."""

PIPE_WIDTH = 10_000
"""Table width in columns where stdout is not a terminal: one line per row."""


class Terminal(Console):
    """A rich console with exit code ``NO_READER`` where the reader closes the pipe (``impinge scenes | head -1``)."""

    def on_broken_pipe(self) -> NoReturn:
        """Exit with ``NO_READER``, without a message when Python closes its streams."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(NO_READER)


out = Terminal(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = Terminal(markup=False, emoji=False, highlight=False, stderr=True)

MeshPath = Annotated[Path, typer.Argument(help="A mesh file: ply obj stl off glb msh vtk vtu mesh, also .gz.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Drop = Annotated[bool, typer.Option("--drop", help="Drop elements with invalid ids or coordinates, with a warning.")]
Weld = Annotated[bool | None, typer.Option(help="Merge vertices at equal positions; by default in stl files only.")]
Target = Annotated[Path | None, typer.Option("--out", help="Write results to this folder, or to a .csv or .npz file.")]
Html = Annotated[Path | None, typer.Option(help="Write a report, e.g. report.html.")]


Files: TypeAlias = Iterable[tuple[str, Path | None]]
"""Names and paths of output files, None for files not requested."""


def print_json(data: dict[str, Any]) -> None:
    """Print data as JSON."""
    try:
        typer.echo(json.dumps(data, indent=2))
    except BrokenPipeError:
        out.on_broken_pipe()


def print_table(table: Table) -> None:
    """Print a table; into a pipe, each row on one line of any length."""
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    out.print(table, soft_wrap=False)


def print_rows(rows: Iterable[tuple[str, Any]], *, title: str | None = None, files: Files = ()) -> None:
    """Print names and values in two columns, then the files that were written."""
    rows = [*rows, *((name, path) for name, path in files if path is not None)]
    if title is not None:
        out.print(title, style="bold")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        out.print(f"{name:<{width}}  {value}")


def load_body(path: Path, *, drop: bool, weld: bool | None) -> TriMesh | TetMesh:
    """Load a mesh with the options ``--drop`` and ``--weld``."""
    return impinge.load(path, weld="auto" if weld is None else weld, validate="drop" if drop else "raise")


def command_line() -> str:
    """The command line as typed, for reports."""
    return shlex.join(["impinge", *sys.argv[1:]])
