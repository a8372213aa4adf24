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
FROM_HELP = "The same bodies at the start of a motion: did they meet on the way?"


def check(
    a: MeshPath,
    b: MeshPath,
    method: Method = "auto",
    volume: Annotated[bool, typer.Option(help="Compute the overlap volume, if both bodies are closed.")] = True,
    picture: Annotated[Path | None, typer.Option(help="Write a picture of the result, e.g. out.png.")] = None,
    html: Html = None,
    target: Annotated[Path | None, typer.Option("--out", help="Write the pairs to a .csv or .npz file.")] = None,
    start: Annotated[tuple[Path, Path] | None, typer.Option("--from", metavar="A0 B0", help=FROM_HELP)] = None,
    drop: Drop = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Check whether two bodies collide, and where.

    Example: impinge check liver.obj tool.stl --picture found.png --html report.html --out pairs.csv

    Example: impinge check cloth_1.ply body_1.ply --from cloth_0.ply body_0.ply
    """
    from impinge.view import check_report, motion_check, rendering
    from impinge.view import report as reports

    check_paths = rendering.PICTURE_FILE.check, reports.check_path, check_report.PAIRS_FILE.check
    for path, check_path in zip((picture, html, target), check_paths):
        if path is not None:
            check_path(path)  # before the computation
    bodies = [load_body(path, drop=drop, weld=weld) for path in (a, b)]
    report = impinge.check(*bodies, method=cast("PairMethod", method), volume=volume)
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (a)", f"{b.name} (b)")
    motion = None
    if start is not None:
        starts = [load_body(path, drop=drop, weld=weld) for path in start]
        motion = motion_check.check_motion(report, bodies, starts, list(zip((a, b), start)))
    if picture is not None and motion is not None and len(motion.impacts):
        motion.write_picture(names, picture)
    elif picture is not None:
        check_report.check_picture(report, names, picture)
    if target is not None:
        check_report.write_pairs(report.pairs, target)
    if html is not None:
        options = [("a", str(a)), ("b", str(b)), ("method", method), ("overlap volume", "yes" if volume else "no")]
        options += [] if start is None else [("a at the start", str(start[0])), ("b at the start", str(start[1]))]
        command = console.command_line()
        page = check_report.check_report(report, names=names, options=options, command=command, motion=motion)
        page.write(html)
    if as_json:
        on_the_way = {} if motion is None else {"from": list(map(str, start or ())), "motion": motion.to_dict()}
        print_json({"a": str(a), "b": str(b), **report.to_dict(), **on_the_way})
    else:
        files = [("picture", picture), ("report", html), ("pairs", target)]
        rows = [*report.in_words(), *([] if motion is None else motion.in_words())]
        print_rows(rows, title=f"{a.name} and {b.name}", files=files)
    raise typer.Exit(console.COLLIDING if report or motion else console.CLEAR)


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
