"""``simulate``: bodies of a scene meet and push each other apart; frames go to a folder, and a kill loses none."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from impinge.app.commands.console import AsJson, Html, command_line, err, print_json, print_rows
from impinge.app.commands.runs import going_on
from impinge.errors import OptionError

if TYPE_CHECKING:
    from impinge.simulate.simulation import Simulation

DEFAULT_SECONDS = 2.0
"""Of a scene file; named scenes know how long they are."""


def _simulation_names() -> list[str]:
    from impinge.scenes import simulated

    return list(simulated.names())


def simulate(
    scene: Annotated[
        str,
        typer.Argument(
            help="A simulation that `impinge scenes` lists, or a scene file like scene.toml.",
            autocompletion=_simulation_names,
        ),
    ],
    seconds: Annotated[float | None, typer.Option(help="How long to simulate; if not said, as the scene has it.")] = (
        None
    ),
    scale: Annotated[float, typer.Option(help="Size of a named scene: triangles, tets or bodies.")] = 1.0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Keep frames in this folder; run again, it goes on from there.")
    ] = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Simulate soft bodies that meet and push each other apart.

    Killed or stopped, the same command goes on where it was, if --out names a folder to keep frames in.

    Example: impinge simulate two_livers --scale 0.2 --seconds 0.5 --out run --html report.html
    """
    from impinge.runs import reports, simulation_report
    from impinge.runs.simulation_run import frames_in, run_simulation

    if html is not None:
        importlib.import_module("impinge.view.report").check_path(html)
    title, wanted, job, simulation = _look_up(scene, scale)
    wanted = wanted if seconds is None else seconds
    frames_in(wanted, simulation.dt)
    with going_on(folder), reports.progress_bar(err, "frames") as progress:
        run = run_simulation(simulation, wanted, job=job, out=folder, progress=progress)
    if html is not None:
        asked = [
            ("scene", scene),
            ("scale", f"{scale:g}"),
            ("time", f"{wanted:g} s"),
            ("a frame", f"{simulation.dt:.6g} s"),
        ]
        page = simulation_report.simulation_report(run, title=title, asked=asked, command=command_line())
        page.write(html)
    rows = simulation_report.found_in_words(run)
    if as_json:
        print_json({"scene": scene, "frames": run.frame_count, "resumed": run.resumed, "found": dict(rows)})
        return
    rows += [(name, path) for name, path in (("frames in", folder), ("report", html)) if path is not None]
    print_rows(rows, title=title)


def _look_up(scene: str, scale: float) -> tuple[str, float, dict[str, Any], Simulation]:
    """Title, length, what tells it from others, and the simulation."""
    from impinge.scenes import simulated
    from impinge.scenes.scene_file import ENDING, read_scene

    if scene.lower().endswith(ENDING):
        if scale != 1.0:
            raise OptionError(
                f"--scale is {scale:g}, expected none with a scene file; scale the bodies in the scene file"
            )
        file = read_scene(scene)
        return file.title, DEFAULT_SECONDS, {"scene": file.digest()}, file.simulation()
    named = simulated.get(scene)
    return named.title, named.seconds, {"scene": scene, "scale": scale}, named.make(scale=scale)
