"""``check`` and ``validate``: queries on mesh files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import impinge
from impinge.app.commands import console
from impinge.app.commands.console import AsJson, Drop, Html, MeshPath, Weld, load_body, print_json, print_rows

if TYPE_CHECKING:
    from impinge.queries import PairMethod


def _pair_methods() -> list[str]:
    from impinge.queries import PAIR_METHODS

    return ["auto", *PAIR_METHODS]


METHOD_HELP = "Detection method: auto, box_tree, breadth_first, gjk_cut, spatial_hash or brute_force."
Method = Annotated[str, typer.Option(help=METHOD_HELP, autocompletion=_pair_methods)]


def check(
    a: MeshPath,
    b: MeshPath,
    method: Method = "auto",
    volume: Annotated[bool, typer.Option(help="Compute the overlap volume, if both bodies are closed.")] = True,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of the result, e.g. out.png.")] = None,
    html: Html = None,
    target: Annotated[Path | None, typer.Option("--out", help="Write the pairs to a .csv or .npz file.")] = None,
    drop: Drop = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Check whether two bodies collide, and where.

    Example: impinge check liver.obj tool.stl --picture found.png --html report.html --out pairs.csv
    """
    from impinge.view import check_report, rendering
    from impinge.view import report as reports

    check_paths = rendering.PICTURE_FILE.check, reports.check_path, check_report.PAIRS_FILE.check
    for path, check_path in zip((picture, html, target), check_paths):
        if path is not None:
            check_path(path)  # before the computation
    bodies = [load_body(path, drop=drop, weld=weld) for path in (a, b)]
    report = impinge.check(*bodies, method=cast("PairMethod", method), volume=volume)
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (a)", f"{b.name} (b)")
    if picture is not None:
        check_report.check_picture(report, names, picture)
    if target is not None:
        check_report.write_pairs(report.pairs, target)
    if html is not None:
        options = [("a", str(a)), ("b", str(b)), ("method", method), ("overlap volume", "yes" if volume else "no")]
        page = check_report.check_report(report, names=names, options=options, command=console.command_line())
        page.write(html)
    if as_json:
        print_json({"a": str(a), "b": str(b), **report.to_dict()})
    else:
        files = [("picture", picture), ("report", html), ("pairs", target)]
        print_rows(report.in_words(), title=f"{a.name} and {b.name}", files=files)
    raise typer.Exit(console.COLLIDING if report else console.CLEAR)


def validate(file: MeshPath, drop: Drop = False, weld: Weld = None, as_json: AsJson = False) -> None:
    """Count the defects of a mesh.

    Open edges, duplicate faces, inverted tets and other irregularities.

    Example: impinge validate scan.ply
    """
    report = impinge.validate(load_body(file, drop=drop, weld=weld))
    data = report.to_dict()
    if as_json:
        print_json({"file": str(file), **data})
        return
    data.pop("first")
    first, rows = report.first, []
    for name, value in data.items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else value
        where = f"   (first: {'-'.join(map(str, first[name]))})" if name in first else ""
        rows.append((name.replace("_", " "), f"{shown}{where}"))
    print_rows(rows, title=file.name)
    console.out.print("clean" if report.clean else "usable; the relevance of the above depends on the query")
