"""What all commands share: exit codes, two consoles, common options, and how things are printed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import impinge

if TYPE_CHECKING:
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.tri_mesh import TriMesh

CLEAR, COLLIDING, BAD_INPUT, INTERRUPTED, NO_READER = 0, 1, 2, 130, 141
"""The last two as shells report SIGINT and SIGPIPE; a reader that goes away must not look like a collision."""

PIPE_WIDTH = 10_000
"""Columns of a table that is not on a terminal: enough for one line per row."""


class Terminal(Console):
    """Rich's console, but with an exit code of our own when the reader goes away (``impinge scenes | head -1``)."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave with ``NO_READER``, and without a word when Python closes its streams."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(NO_READER)


out = Terminal(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = Terminal(markup=False, emoji=False, highlight=False, stderr=True)

MeshPath = Annotated[Path, typer.Argument(help="A mesh file: ply obj stl off glb msh vtk vtu mesh, also .gz.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Drop = Annotated[bool, typer.Option("--drop", help="Leave out elements with bad ids or coordinates, with a warning.")]
Weld = Annotated[bool | None, typer.Option(help="Join vertices at equal positions; if not said, in stl files only.")]
Target = Annotated[Path | None, typer.Option("--out", help="Keep results in this folder, or in a .csv or .npz file.")]
Html = Annotated[Path | None, typer.Option(help="Write a report, e.g. report.html.")]


def print_json(data: dict[str, Any]) -> None:
    """Print data for programs."""
    try:
        typer.echo(json.dumps(data, indent=2))
    except BrokenPipeError:
        out.on_broken_pipe()


def print_table(table: Table) -> None:
    """Print a table; into a pipe one line per row, however long."""
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    out.print(table, soft_wrap=False)


def print_rows(rows: Iterable[tuple[str, Any]], *, title: str | None = None) -> None:
    """Print names and values, one below the other."""
    rows = list(rows)
    if title is not None:
        out.print(title, style="bold")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        out.print(f"{name:<{width}}  {value}")


def load_body(path: Path, *, drop: bool, weld: bool | None) -> TriMesh | TetMesh:
    """Read a mesh as the options say."""
    return impinge.load(path, weld="auto" if weld is None else weld, validate="drop" if drop else "raise")


def command_line() -> str:
    """What was typed, for a report to be repeated by."""
    return shlex.join(["impinge", *sys.argv[1:]])
