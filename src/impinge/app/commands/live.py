"""``live``: a scene in the browser, or a recording of one."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import impinge
from impinge.app.commands.console import err, out
from impinge.errors import OptionError

if TYPE_CHECKING:
    from impinge.view.motions import Motion


def _scene_names() -> list[str]:
    from impinge.scenes import simulated

    return list(dict.fromkeys([*impinge.scenes.names(), *simulated.names()]))


def _live_methods() -> list[str]:
    from impinge.view.session import METHODS

    return list(METHODS)


def live(
    scene: Annotated[
        str,
        typer.Argument(
            help="A scene or a simulation that `impinge scenes` lists, or a scene file like scene.toml.",
            autocompletion=_scene_names,
        ),
    ] = "bumpy_spheres_20k",
    method: Annotated[
        str | None,
        typer.Option(
            help="What to ask at first: box_tree, or world if there are not two bodies; the page lets you change it.",
            autocompletion=_live_methods,
        ),
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Let bodies push each other, where a scene of that name can do both.")
    ] = False,
    scale: Annotated[float | None, typer.Option(help="Size of a simulation: triangles, tets or bodies.")] = None,
    host: Annotated[str, typer.Option(help="Address to serve at; by default only this computer sees it.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to serve at; 0 takes any that is free.")] = 8765,
    record: Annotated[Path | None, typer.Option(help="Write a recording to this html file, serve nothing.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=600.0, help="How long the recording is.")] = 4.0,
) -> None:
    """Show a scene in the browser, to be played with.

    Bodies deform, contacts follow, and sliders change both.

    Example: impinge live two_livers --method sphere_tree

    Example: impinge live two_livers --simulate
    """
    from impinge.view import live as pages
    from impinge.view.session import Session

    if record is not None:
        pages.check_path(record)
    session = Session(_motion(scene, scale, simulate=simulate, is_live=record is None), method)
    if record is not None:
        out.print(f"written: {pages.write_page(pages.record(session, seconds), record)}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, in a container too
    page = pages.LivePage(session, host=host, port=port)
    try:
        if not pages.is_loopback(host):
            err.print(
                f"warning: at {host} everyone who reaches this computer can see and change the page", soft_wrap=True
            )
        out.print(f"open {page.url} in a browser; Ctrl-C ends")
        page.run()
    except KeyboardInterrupt:
        out.print("stopped")
    finally:
        page.close()


def _motion(scene: str, scale: float | None, *, simulate: bool, is_live: bool) -> Motion:
    """What the page is to show; a simulation that is watched has to hold a rate, one that is recorded has not."""
    from impinge.scenes import simulated as simulations
    from impinge.scenes.scene_file import ENDING, read_scene
    from impinge.view.motions import Formula, Physics
    from impinge.view.session import SCALE, SIMULATED, TARGET_MS, named_motion

    file = read_scene(scene) if scene.lower().endswith(ENDING) else None
    if file is not None:
        simulate = simulate or file.needs_simulation
    else:
        simulate = simulate or (scene in simulations.names() and scene not in impinge.scenes.names())
    if scale is not None and (file is not None or not simulate):
        raise OptionError(f"--scale is {scale:g}, expected none: only simulations by name have a scale")
    target_ms = TARGET_MS if is_live else None
    if file is None:
        name = scene + SIMULATED if simulate else scene
        return named_motion(name, scale=SCALE if scale is None else scale, target_ms=target_ms)
    if simulate:
        return Physics(file.path.stem, partial(file.simulation, target_ms=target_ms))
    return Formula(file.scene())
