"""``check`` and ``validate``: questions about mesh files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import impinge
from impinge.app.commands.console import (
    CLEAR,
    COLLIDING,
    AsJson,
    Drop,
    MeshPath,
    Weld,
    command_line,
    load_body,
    out,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from impinge.mesh.validation import ValidationReport


def _pair_methods() -> list[str]:
    from impinge.queries import PAIR_METHODS

    return ["auto", *PAIR_METHODS]


def check(
    a: MeshPath,
    b: MeshPath,
    method: Annotated[
        str,
        typer.Option(
            help="How to find the pairs: auto, box_tree, breadth_first, gjk_cut, spatial_hash or brute_force.",
            autocompletion=_pair_methods,
        ),
    ] = "auto",
    volume: Annotated[bool, typer.Option(help="Find the overlap volume, if both bodies are closed.")] = True,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of what was found, e.g. out.png.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report, e.g. report.html.")] = None,
    target: Annotated[Path | None, typer.Option("--out", help="Write the pairs to a .csv or .npz file.")] = None,
    drop: Drop = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether two bodies collide, and where.

    Example: impinge check liver.obj tool.stl --picture found.png --html report.html --out pairs.csv
    """
    from impinge.view import check_report, pairs_file

    for path, module in ((picture, "picture"), (html, "report"), (target, "pairs_file")):
        if path is not None:
            importlib.import_module(f"impinge.view.{module}").check_path(path)  # before the work, not after it
    bodies = [load_body(path, drop=drop, weld=weld) for path in (a, b)]
    report = impinge.check(*bodies, method=method, volume=volume)
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (a)", f"{b.name} (b)")
    if picture is not None:
        check_report.check_picture(report, names, picture)
    if target is not None:
        pairs_file.write(report.pairs, target)
    if html is not None:
        asked = [
            ("a", str(a)),
            ("b", str(b)),
            ("method", method),
            ("overlap volume", "wanted" if volume else "not wanted"),
        ]
        check_report.check_report(report, names=names, asked=asked, command=command_line()).write(html)
    if as_json:
        print_json({"a": str(a), "b": str(b), **report.to_dict()})
    else:
        files = [("picture", picture), ("report", html), ("pairs", target)]
        rows = [*report.in_words(), *((name, path) for name, path in files if path is not None)]
        print_rows(rows, title=f"{a.name} and {b.name}")
    raise typer.Exit(COLLIDING if report else CLEAR)


def validate(file: MeshPath, drop: Drop = False, weld: Weld = None, as_json: AsJson = False) -> None:
    """Count what is unusual in a mesh.

    Open edges, doubled faces, inverted tets, and what else may matter.

    Example: impinge validate scan.ply
    """
    report = impinge.validate(load_body(file, drop=drop, weld=weld))
    if as_json:
        print_json({"file": str(file), **report.to_dict()})
    else:
        _print_validation(report, file)


def _print_validation(report: ValidationReport, file: Path) -> None:
    data = report.to_dict()
    first = data.pop("first")
    rows = []
    for name, value in data.items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else value
        where = f"   (first: {'-'.join(map(str, first[name]))})" if name in first else ""
        rows.append((name.replace("_", " "), f"{shown}{where}"))
    print_rows(rows, title=file.name)
    out.print("clean" if report.clean else "usable; whether the above matters depends on the question asked")
