"""``sequence``, ``clash`` and ``simulate``: long runs over frames, parts or time, resumable after a kill."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from impinge.app.commands import console
from impinge.app.commands.console import AsJson, Files, Html, MeshPath, Target, Weld, command_line, err
from impinge.errors import OptionError
from impinge.view.labels import counted

Rows: TypeAlias = list[tuple[str, Any]]
PRINTED = 40
"""Most pairs printed as text; files and JSON have all pairs."""
Frames = Annotated[str, typer.Argument(help="Frames of A: a quoted pattern, a folder, or an npz archive.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://host:8786.")]
Workers = Annotated[int | None, typer.Option(min=0, max=1000, help="Local processes; 0 uses this process.")]
Threads = Annotated[bool, typer.Option("--threads", help="Use threads as workers instead of processes.")]
DEFAULT_SECONDS = 2.0
"""Duration of a scene file; named scenes have their own."""
SCENE_HELP = "A simulation listed by `impinge scenes`, or a scene file such as scene.toml."


def _resumable(command: Callable[..., None]) -> Callable[..., None]:
    """A command that, after Ctrl-C, says whether the same command goes on."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except KeyboardInterrupt as stop:
            kept = "nothing is kept without --out" if options["target"] is None else "run the same command to go on"
            raise KeyboardInterrupt(f"stopped; {kept}") from stop

    return run


@_resumable
def sequence(
    a: MeshPath,
    frames: Frames,
    against: Annotated[Path | None, typer.Option(help="The other body; by default A is tested with itself.")] = None,
    against_frames: Annotated[str | None, typer.Option(help="Frames of the other body, if it moves.")] = None,
    with_self: Annotated[bool, typer.Option("--self", help="Also test A with itself.")] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Also find impacts between frames.")] = False,
    target: Target = None,
    html: Html = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Find the contacts in every frame of a sequence.

    With --continuous, bodies that pass through each other from one frame to the next are found, too. With --out, the
    same command resumes an interrupted run.

    Example: impinge sequence cloth.ply 'frames/*.ply' --against character.ply --out run --html report.html
    """
    from impinge.runs import map_frames, reports

    with _progress(html, "frames") as progress:
        run = map_frames(
            a, frames, against, against_frames=against_frames, with_self=with_self or None, continuous=continuous,
            weld="auto" if weld is None else weld, scheduler=scheduler, workers=workers, processes=not threads,
            out=reports.run_folder(target), progress=progress,
        )  # fmt: skip
    bad, worst = reports.bad_rows(run.frames(), "name"), reports.worst_frames(run)
    nested = reports.nested_count(run.frames())
    between, tunnelled = reports.between_frames(run), reports.tunnelled_frames(run)
    if html is not None:
        inputs = [("body", str(a)), ("frames", frames), ("against", str(against or "itself"))]
        reports.frames_report(run, inputs=inputs, command=command_line()).write(html)
    if target is not None:
        reports.write_frames(run, target)
    resumed = f", {run.resumed} of an earlier run" if run.resumed else ""
    rows: Rows = [("frames", f"{len(run)}{resumed}")]
    rows += [(name.replace("_", " "), run.totals[name]) for name in ("colliding", "contacts", "self_contacts")]
    rows += [("one inside the other", counted(nested, "frame"))] if nested else []
    rows += [("worst frame", f"{number} ({name}): {counted(count, 'contact')}") for number, name, count in worst[:1]]
    rows += [("between frames", between)] if continuous else []
    more = {"between_frames": between, "tunnelled_frames": tunnelled} if continuous else {}
    total = f"of {len(run)} frames"
    _finish(run, rows, worst, bad, [("results", target), ("report", html)], as_json=as_json, total=total, more=more)


@_resumable
def clash(
    parts: Annotated[Path, typer.Argument(help="A folder with one mesh file per part, or a scene.toml.")],
    target: Target = None,
    html: Html = None,
    resolution: Annotated[int, typer.Option(min=1, max=4096, help="Rays along each side for overlap volumes.")] = 128,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    as_json: AsJson = False,
) -> None:
    """Find all colliding pairs among many parts.

    Reports overlap volume and depth of each pair. With --out, the same command resumes an interrupted run.

    Example: impinge clash parts --out clashes.csv --html report.html
    """
    from impinge.runs import map_pairs, reports

    with _progress(html, "pairs") as progress:
        run = map_pairs(
            parts, resolution=resolution, scheduler=scheduler, workers=workers, processes=not threads,
            out=reports.run_folder(target), progress=progress,
        )  # fmt: skip
    found = reports.clashes(run)
    bad = reports.bad_rows(run.parts(), "name") + reports.bad_rows(run.pairs(), "name_a", "name_b")
    if html is not None:
        reports.pairs_report(run, inputs=[("parts of", str(parts))], command=command_line()).write(html)
    if target is not None:
        reports.write_pairs(run, target)
    rows: Rows = [("parts", run.totals["parts"]), ("near pairs", len(run)), ("colliding", len(found))]
    for row in found[:PRINTED]:
        sizes = "".join(f", {name} {row[name]:.6g}" for name in ("volume", "depth") if row[name] is not None)
        value = f"{row['relation']}, {counted(row['contacts'], 'contact')}{sizes}"
        rows.append((f"  {row['name_a']} and {row['name_b']}", value))
    if len(found) > PRINTED:
        rows.append(("  and more", f"{len(found) - PRINTED:,} pairs; --out, --html and --json list all"))
    _finish(run, rows, found, bad, [("results", target), ("report", html)], as_json=as_json, total="parts or pairs")


def _simulation_names() -> list[str]:
    from impinge.scenes import simulated

    return list(simulated.names())


@_resumable
def simulate(
    scene: Annotated[str, typer.Argument(help=SCENE_HELP, autocompletion=_simulation_names)],
    seconds: Annotated[float | None, typer.Option(help="Simulated time; by default that of the scene.")] = None,
    scale: Annotated[float, typer.Option(help="Size of a named scene: triangles, tets or bodies.")] = 1.0,
    integrator: Annotated[
        str | None, typer.Option(help="implicit, midpoint or explicit; by default that of the scene.")
    ] = None,
    response: Annotated[
        str | None, typer.Option(help="contact, vertices, volume or spheres; by default that of the scene.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Milliseconds per search.")] = None,
    max_tests: Annotated[int | None, typer.Option(help="Tests per search: a budget that repeats bit for bit.")] = None,
    target: Annotated[Path | None, typer.Option("--out", help="Write frames to this folder, or resume there.")] = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Simulate soft and rigid bodies in contact.

    With --out, the same command resumes an interrupted run.

    Example: impinge simulate two_livers --scale 0.2 --seconds 0.5 --out run --html report.html
    """
    from impinge.runs import simulation_report
    from impinge.runs.simulation_run import frames_in, run_simulation
    from impinge.scenes import simulated
    from impinge.scenes.scene_file import ENDING, read_scene

    options = {"integrator": integrator, "response": response, "budget_ms": budget, "max_tests": max_tests}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    with _progress(html, "frames") as progress:
        job: dict[str, Any]
        if scene.lower().endswith(ENDING):
            if scale != 1.0:
                raise OptionError(f"--scale is {scale:g}, expected none; scale the bodies in the scene file")
            file = read_scene(scene)
            title, length, job = file.title, DEFAULT_SECONDS, {"scene": file.digest(), **chosen}
            simulation = file.simulation(**chosen)
        else:
            named = simulated.get(scene)
            job, simulation = {"scene": scene, "scale": scale, **chosen}, named.make(scale=scale, **chosen)
            title, length = named.title, named.seconds
        length = length if seconds is None else seconds
        frames_in(length, simulation.dt)  # raises for invalid times
        run = run_simulation(simulation, length, job=job, out=target, progress=progress)
    if html is not None:
        inputs = [("scene", scene), ("scale", f"{scale:g}"), ("time", f"{length:g} s")]
        inputs.append(("time per frame", f"{simulation.dt:.6g} s"))
        inputs += [(name.replace("_", " "), str(value)) for name, value in chosen.items()]
        simulation_report.simulation_report(run, title=title, inputs=inputs, command=command_line()).write(html)
    rows = simulation_report.found_in_words(run)
    if as_json:
        console.print_json({"scene": scene, "frames": run.frame_count, "resumed": run.resumed, "found": dict(rows)})
    else:
        console.print_rows(rows, title=title, files=[("frames in", target), ("report", html)])


@contextlib.contextmanager
def _progress(html: Path | None, unit: str) -> Iterator[Any]:
    """Check the path of the report and show a progress bar."""
    from impinge.runs import reports
    from impinge.view.report import check_path

    if html is not None:
        check_path(html)
    with reports.progress_bar(err, unit) as progress:
        yield progress


def _finish(
    run: Any, rows: Rows, found: list[Any], bad: Rows, files: Files, *, as_json: bool, total: str,
    more: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Print the result of a run, a warning about unusable input on stderr, and exit; ``more`` is added to JSON."""
    if as_json:
        console.print_json({**run.totals, "found": found, **(more or {}), "not_used": bad})
    else:
        console.print_rows(rows, files=files)
    if bad:
        name, reason = bad[0]
        err.print(f"warning: {len(bad)} {total} could not be used; the first is {name}: {reason}", soft_wrap=True)
    raise typer.Exit(console.COLLIDING if run else console.BAD_INPUT if bad else console.CLEAR)
