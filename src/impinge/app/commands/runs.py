"""``sequence`` and ``clash``: long runs over frames or parts, which go on after a kill."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from impinge.app.commands.console import (
    BAD_INPUT,
    CLEAR,
    COLLIDING,
    AsJson,
    Html,
    MeshPath,
    Target,
    Weld,
    command_line,
    err,
    print_json,
    print_rows,
)
from impinge.view.words import counted

PRINTED = 40
"""Pairs that are printed for people; files and JSON have all of them."""
Frames = Annotated[str, typer.Argument(help="Frames of A: a quoted pattern, a folder, or an npz archive.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://host:8786.")]
Workers = Annotated[int | None, typer.Option(min=0, max=1000, help="Processes to start here; 0 works in this one.")]
Threads = Annotated[bool, typer.Option("--threads", help="Let workers be threads, not processes.")]


def sequence(
    a: MeshPath,
    frames: Frames,
    against: Annotated[Path | None, typer.Option(help="The other body; without it A is tested with itself.")] = None,
    against_frames: Annotated[str | None, typer.Option(help="Frames of the other body, if it moves too.")] = None,
    with_self: Annotated[bool, typer.Option("--self", help="Test A with itself, too.")] = False,
    target: Target = None,
    html: Html = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Find the contacts in every frame of a sequence.

    Killed or stopped, the same command goes on where it was, if --out names a place to keep results.

    Example: impinge sequence cloth.ply 'frames/*.ply' --against character.ply --out run --html report.html
    """
    from impinge.runs import map_frames, reports

    folder = _prepare_run(target, html)
    with going_on(target), reports.progress_bar(err, "frames") as progress:
        run = map_frames(
            a, frames, against, against_frames=against_frames, with_self=with_self or None,
            weld="auto" if weld is None else weld, scheduler=scheduler, workers=workers, processes=not threads,
            out=folder, progress=progress,
        )  # fmt: skip
    bad = reports.bad_rows(run.frames(), "name")
    worst = reports.worst_frames(run)
    if html is not None:
        asked = [("body", str(a)), ("frames", frames), ("against", str(against or "itself"))]
        reports.frames_report(run, asked=asked, command=command_line()).write(html)
    if target is not None:
        reports.write_frames(run, target)
    rows: list[tuple[str, Any]] = [
        ("frames", f"{len(run)}{f', {run.resumed} of an earlier run' if run.resumed else ''}")
    ]
    rows += [(name.replace("_", " "), run.totals[name]) for name in ("colliding", "contacts", "self_contacts")]
    rows += [("worst frame", f"{number} ({name}): {counted(count, 'contact')}") for number, name, count in worst[:1]]
    _end_run(run.totals, rows, worst, bad, target=target, html=html, as_json=as_json, what=f"of {len(run)} frames")
    raise typer.Exit(COLLIDING if run else BAD_INPUT if bad else CLEAR)


def clash(
    parts: Annotated[Path, typer.Argument(help="A folder of mesh files, one for each part, or a scene.toml.")],
    target: Target = None,
    html: Html = None,
    resolution: Annotated[int, typer.Option(min=1, max=4096, help="Rays along each side for overlap volumes.")] = 64,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    as_json: AsJson = False,
) -> None:
    """Find all pairs of many parts that collide.

    Tells the overlap volume and the depth of each. Killed or stopped, the same command goes on where it was, if --out
    names a place to keep results.

    Example: impinge clash parts --out clashes.csv --html report.html
    """
    from impinge.runs import map_pairs, reports

    kept = _prepare_run(target, html)
    with going_on(target), reports.progress_bar(err, "pairs") as progress:
        run = map_pairs(
            parts, resolution=resolution, scheduler=scheduler, workers=workers, processes=not threads, out=kept,
            progress=progress,
        )  # fmt: skip
    found = reports.clashes(run)
    bad = reports.bad_rows(run.parts(), "name") + reports.bad_rows(run.pairs(), "name_a", "name_b")
    if html is not None:
        reports.pairs_report(run, asked=[("parts of", str(parts))], command=command_line()).write(html)
    if target is not None:
        reports.write_pairs(run, target)
    rows: list[tuple[str, Any]] = [("parts", run.totals["parts"]), ("near pairs", len(run)), ("colliding", len(found))]
    rows += [(f"  {row['name_a']} and {row['name_b']}", _clash_in_words(row)) for row in found[:PRINTED]]
    if len(found) > PRINTED:
        rows.append(("  and more", f"{len(found) - PRINTED:,} pairs, which --out, --html and --json tell"))
    _end_run(run.totals, rows, found, bad, target=target, html=html, as_json=as_json, what="parts or pairs")
    raise typer.Exit(COLLIDING if run else BAD_INPUT if bad else CLEAR)


def _clash_in_words(row: dict[str, Any]) -> str:
    volume = "" if row["volume"] is None else f", volume {row['volume']:.6g}"
    depth = "" if row["depth"] is None else f", depth {row['depth']:.6g}"
    return f"{row['relation']}, {counted(row['contacts'], 'contact')}{volume}{depth}"


def _prepare_run(target: Path | None, html: Path | None) -> Path | None:
    """Refuse what cannot be written before the work, and tell where parts are to be kept."""
    from impinge.runs import reports

    if html is not None:
        importlib.import_module("impinge.view.report").check_path(html)
    return reports.run_folder(target)


@contextlib.contextmanager
def going_on(target: Path | None) -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        if target is not None:
            err.print("what is done so far is kept; the same command goes on from there")
        raise


def _end_run(
    totals: dict[str, int],
    rows: list[tuple[str, Any]],
    found: list[Any],
    bad: list[tuple[str, str]],
    *,
    target: Path | None,
    html: Path | None,
    as_json: bool,
    what: str,
) -> None:
    """Print what a run found, and on stderr what it could not use."""
    if as_json:
        print_json({**totals, "found": found, "not_used": bad})
    else:
        rows += [(name, path) for name, path in (("results", target), ("report", html)) if path is not None]
        print_rows(rows)
    if bad:
        err.print(
            f"warning: {len(bad)} {what} could not be used; the first is {bad[0][0]}: {bad[0][1]}", soft_wrap=True
        )
