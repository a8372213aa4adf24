"""``simulate``: run a simulation and write its frames to a folder, resumable after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from impinge.app.commands.console import AsJson, Html, command_line, print_json, print_rows
from impinge.app.commands.runs import resumable
from impinge.errors import OptionError

DEFAULT_SECONDS = 2.0
"""Duration of a scene file; named scenes have their own."""


def _simulation_names() -> list[str]:
    from impinge.scenes import simulated

    return list(simulated.names())


SCENE_HELP = "A simulation listed by `impinge scenes`, or a scene file such as scene.toml."


def simulate(
    scene: Annotated[str, typer.Argument(help=SCENE_HELP, autocompletion=_simulation_names)],
    seconds: Annotated[float | None, typer.Option(help="Simulated time; by default that of the scene.")] = None,
    scale: Annotated[float, typer.Option(help="Size of a named scene: triangles, tets or bodies.")] = 1.0,
    folder: Annotated[Path | None, typer.Option("--out", help="Write frames to this folder, or resume there.")] = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Simulate soft bodies in contact.

    With --out, the same command resumes an interrupted run.

    Example: impinge simulate two_livers --scale 0.2 --seconds 0.5 --out run --html report.html
    """
    from impinge.runs import simulation_report
    from impinge.runs.simulation_run import frames_in, run_simulation
    from impinge.scenes import simulated
    from impinge.scenes.scene_file import ENDING, read_scene

    with resumable(html, folder, "frames") as progress:
        job: dict[str, Any]
        if scene.lower().endswith(ENDING):
            if scale != 1.0:
                raise OptionError(f"--scale is {scale:g}, expected none; scale the bodies in the scene file")
            file = read_scene(scene)
            title, length, job, simulation = file.title, DEFAULT_SECONDS, {"scene": file.digest()}, file.simulation()
        else:
            named = simulated.get(scene)
            job, simulation = {"scene": scene, "scale": scale}, named.make(scale=scale)
            title, length = named.title, named.seconds
        length = length if seconds is None else seconds
        frames_in(length, simulation.dt)  # raises for invalid times
        run = run_simulation(simulation, length, job=job, out=folder, progress=progress)
    if html is not None:
        inputs = [("scene", scene), ("scale", f"{scale:g}"), ("time", f"{length:g} s")]
        inputs.append(("time per frame", f"{simulation.dt:.6g} s"))
        simulation_report.simulation_report(run, title=title, inputs=inputs, command=command_line()).write(html)
    rows = simulation_report.found_in_words(run)
    if as_json:
        print_json({"scene": scene, "frames": run.frame_count, "resumed": run.resumed, "found": dict(rows)})
    else:
        print_rows(rows, title=title, files=[("frames in", folder), ("report", html)])
