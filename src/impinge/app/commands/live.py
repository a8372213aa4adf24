"""``live``: a scene in the browser, or a recording of it."""

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
    from impinge.view.motion_sources import MotionSource


def _scene_names() -> list[str]:
    from impinge.scenes import simulated

    return list(dict.fromkeys([*impinge.scenes.names(), *simulated.names()]))


def _live_methods() -> list[str]:
    from impinge.view.session import METHODS

    return list(METHODS)


SCENE_HELP = "A scene or simulation listed by `impinge scenes`, or a scene file such as scene.toml."
METHOD_HELP = "Initial method; by default box_tree, or world unless there are two bodies."
Simulate = Annotated[bool, typer.Option("--simulate", help="Simulate where a scene of this name is also scripted.")]


def live(
    scene: Annotated[str, typer.Argument(help=SCENE_HELP, autocompletion=_scene_names)] = "bumpy_spheres_20k",
    method: Annotated[str | None, typer.Option(help=METHOD_HELP, autocompletion=_live_methods)] = None,
    simulate: Simulate = False,
    scale: Annotated[float | None, typer.Option(help="Size of a simulation: triangles, tets or bodies.")] = None,
    host: Annotated[str, typer.Option(help="Address to serve; by default this computer only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve; 0 takes any free port.")] = 8765,
    record: Annotated[Path | None, typer.Option(help="Write a recording to this html file, without a server.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=600.0, help="Duration of the recording.")] = 4.0,
) -> None:
    """Show an interactive scene in the browser.

    Bodies deform, a collision query runs in every frame, and sliders control both.

    Example: impinge live two_livers --method sphere_tree

    Example: impinge live two_livers --simulate
    """
    from impinge.view import live as pages
    from impinge.view.page_address import is_loopback
    from impinge.view.session import Session

    if record is not None:
        pages.check_path(record)
    session = Session(_motion(scene, scale, simulate=simulate, is_live=record is None), method)
    if record is not None:
        out.print(f"written: {pages.PAGE_FILE.write(record, pages.record(session, seconds).encode())}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, also in a container
    page = pages.LivePage(session, host=host, port=port)
    try:
        if not is_loopback(host):
            warning = f"at {host} everyone who can reach this computer can view and control the page"
            err.print(f"warning: {warning}", soft_wrap=True)
        out.print(f"open {page.url} in a browser; press Ctrl-C to stop")
        page.run()
    except KeyboardInterrupt:
        out.print("stopped")
    finally:
        page.close()


def _motion(scene: str, scale: float | None, *, simulate: bool, is_live: bool) -> MotionSource:
    """The motion to show; a live simulation keeps a frame rate, a recorded one is deterministic."""
    from impinge.scenes import simulated as simulations
    from impinge.scenes.scene_file import ENDING, read_scene
    from impinge.view.motion_sources import ScriptedMotion, SimulatedMotion
    from impinge.view.session import SCALE, SIMULATED, TARGET_MS, named_motion

    file = read_scene(scene) if scene.lower().endswith(ENDING) else None
    if file is not None:
        simulate = simulate or file.needs_simulation
    else:
        simulate = simulate or (scene in simulations.names() and scene not in impinge.scenes.names())
    if scale is not None and (file is not None or not simulate):
        raise OptionError(f"--scale is {scale:g}, expected none: only named simulations have a scale")
    target_ms = TARGET_MS if is_live else None
    if file is None:
        name = scene + SIMULATED if simulate else scene
        return named_motion(name, scale=SCALE if scale is None else scale, target_ms=target_ms)
    if simulate:
        return SimulatedMotion(file.path.stem, partial(file.simulation, target_ms=target_ms))
    return ScriptedMotion(file.scene())
