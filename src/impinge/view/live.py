"""The live page: a scene in the browser, a method that is asked in every frame, and tools to play with both.

The page is served to this computer alone unless another host is given. ``LivePage`` connects what a ``Session``
computes with a ``ViserViewer`` that draws it and with the sliders, buttons and charts beside it. Browsers that are slow
miss frames and never lag; while nobody looks, nothing is computed. Frames and what people do take turns, whichever
threads they come from.

    page = LivePage(Session("two_livers"))
    print(page.url)
    page.run()
"""

from __future__ import annotations

import html
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Concatenate, ParamSpec

import numpy as np

from impinge.detect.common.results import Result
from impinge.errors import FileError, ImpingeError, OptionError
from impinge.view.drawing import LAYERS, Drawing, drawing_of
from impinge.view.motions import Physics
from impinge.view.session import METHODS, SHOWN_SCENES, SHOWN_SIMULATIONS, SIMULATED, Session, Shot
from impinge.view.targets import obstacle, write_whole
from impinge.view.viewer import draw, prepare
from impinge.view.viser_viewer import ViserViewer, import_viser, quiet, stop

LOOPBACK = "127.0.0.1"
PORT = 8765
FRAME_S = 1.0 / 30.0
"""How long a frame lasts at least."""
LONGEST_STEP_S = 0.1
"""How far the clock of the scene goes on at most in a frame, however long that took."""
SIMULATING_S = 0.025
"""How long a frame may simulate; what is left of the time falls behind the clock."""
CHART_S = 0.25
"""How often the charts are drawn."""
CAMERA = (0.84, -1.54, 0.75)
SHIFT = 0.75
"""Reach of the sliders for the place of the second body, in sizes of the scene."""
NAMES = {
    "glow": "colliding triangles",
    "spheres": "spheres that meet",
    "spans": "spans of the overlap",
    "curves": "intersection curves",
    "normals": "contact normals",
}
"""Layers as the page calls them."""


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach that address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, port: int) -> int:
    """The port, or any that is free instead of 0; refuse an address that no page can be served at."""
    if not 0 <= port <= 65535:
        raise OptionError(f"port is {port}, expected a number from 0 (any that is free) to 65535")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise OptionError(
            f"the page cannot be served at {host} port {port} ({error.strerror or error}); choose another port with "
            f"--port, or leave --host out to serve this computer alone"
        ) from error


def _serve(host: str, port: int) -> Any:
    viser = import_viser()
    port = check_address(host, port)
    with quiet():
        server = viser.ViserServer(host=host, port=port, label="impinge", verbose=False)
    server.scene.set_up_direction("+z")
    server.initial_camera.position = CAMERA
    server.initial_camera.look_at = (0.0, 0.0, 0.0)
    return server


def _size(drawing: Drawing) -> tuple[Any, float]:
    low, high = drawing.bounds
    return 0.5 * (low + high), float((high - low).max())


P = ParamSpec("P")


def _in_turn(deed: Callable[Concatenate[LivePage, P], None]) -> Callable[Concatenate[LivePage, P], None]:
    """Let a method wait until nothing else is done on its page: every click comes from a thread of its own."""

    @wraps(deed)
    def alone(page: LivePage, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with page._one_at_a_time:
            deed(page, *args, **kwargs)

    return alone


class LivePage:
    """A page that shows a session, and lets people change it."""

    def __init__(self, session: Session, *, host: str = LOOPBACK, port: int = PORT) -> None:
        self.session = session
        self._server = _serve(host, port)
        self._viewer = ViserViewer(self._server)
        self._host = host
        self._closed = threading.Event()
        self._one_at_a_time = threading.RLock()
        self._paused, self._steps, self._dragging = False, 0, False
        self._recording: Any = None
        self._shot: Shot | None = None
        self._drawn_chart = 0.0
        theme = {"show_logo": False, "show_share_button": False, "brand_color": (31, 111, 178)}
        self._server.gui.configure_theme(control_width="large", dark_mode=True, **theme)
        self._server.gui.main_panel.dock_right()
        prepare(self._viewer)
        self._build_controls()
        self._fit()
        self.advance(0.0)

    @property
    def url(self) -> str:
        """Where the page is to be seen."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.get_port()}"

    # running ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Go on until the page is closed."""
        last = perf_counter()
        while not self._closed.is_set():
            began = perf_counter()
            self._go_on(began - last)
            last = began
            sleep(max(FRAME_S - (perf_counter() - began), 0.002))

    @_in_turn
    def _go_on(self, seconds: float) -> None:
        """A frame, if anybody looks and time passes."""
        if self._closed.is_set() or not self._server.get_clients() or (self._paused and not self._steps):
            return
        self._steps = max(self._steps - 1, 0)
        self.advance(FRAME_S if self._paused else min(seconds, LONGEST_STEP_S))

    def start(self) -> threading.Thread:
        """Run in a thread of its own."""
        thread = threading.Thread(target=self.run, name="impinge live", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Stop serving, after the frame that is being drawn."""
        self._closed.set()
        self._stop()

    @_in_turn
    def _stop(self) -> None:
        self._viewer.close()

    @_in_turn
    def advance(self, seconds: float) -> None:
        """Compute a frame and draw it."""
        self._show(self.session.advance(seconds, within_s=SIMULATING_S))

    def _show(self, shot: Shot) -> None:
        """Draw a frame and say what was found."""
        with self._viewer.at_once():
            draw(self._viewer, shot.drawing, self.session.settings.layers)
        if not self._dragging:
            self._put_handle()
        self._shot = shot
        self._tell()
        now = perf_counter()
        if now - self._drawn_chart > CHART_S or self._paused:
            self._drawn_chart = now
            self._draw_charts()
        if self._recording is not None:
            self._recording.insert_sleep(FRAME_S)

    def _tell(self) -> None:
        """Say what was found last, and whether the page stands still or records."""
        if self._shot is not None:
            state = ["paused"] * self._paused + ["recording"] * (self._recording is not None)
            self._status.content = status(self._shot, state)

    @_in_turn
    def refresh(self) -> None:
        """Ask again without letting time go on, if the page stands still."""
        if self._paused:
            self.advance(0.0)

    # controls ---------------------------------------------------------------------------------------------

    def _build_controls(self) -> None:
        gui, session = self._server.gui, self.session
        self._status = gui.add_html("")
        simulations = [name + SIMULATED for name in SHOWN_SIMULATIONS]
        names = list(dict.fromkeys([session.motion.name, *SHOWN_SCENES, *simulations]))
        self._scene = gui.add_dropdown("Scene", names, initial_value=session.motion.name)
        self._method = gui.add_dropdown("Method", list(METHODS), initial_value=session.settings.method)
        self._scene.on_update(lambda _: self._choose_scene(self._scene.value))
        self._method.on_update(lambda _: self._choose_method(self._method.value))
        self._build_transport()
        self._build_charts()
        with gui.add_folder("Detection"):
            self._slider(
                "Time budget (ms)", 0.1, 20.0, 0.1, "budget_ms", "Kept by sphere_tree; others take what they need."
            )
            self._slider("Resolution", 8, 256, 8, "resolution", "Rays along each side; used by layered_depth.")
        self._motion = gui.add_folder("Motion", visible=not session.is_simulated)
        with self._motion:
            hint = "0: as at rest, 1: as the scene has it."
            self._deformation = self._slider("Deformation", 0.0, 3.0, 0.05, "deformation", hint)
            self._shifts = [
                gui.add_slider(f"Position {axis}", -SHIFT, SHIFT, 0.005, 0.0, hint="Of the second body.")
                for axis in "xyz"
            ]
            for slider in self._shifts:
                slider.on_update(lambda _: self._shift_by_sliders())
        self._build_tools()
        with gui.add_folder("Show", expand_by_default=False):
            for layer in LAYERS:
                self._layer_box(layer)
        self._gizmo = self._server.scene.add_transform_controls("/drag", scale=0.4, depth_test=False, opacity=0.8)
        self._gizmo.on_update(lambda event: self._drag(event.phase))
        self._server.on_client_disconnect(lambda _: self._let_go())

    def _slider(self, label: str, low: Any, high: Any, step: Any, setting: str, hint: str) -> Any:
        slider = self._server.gui.add_slider(label, low, high, step, getattr(self.session.settings, setting), hint=hint)
        slider.on_update(lambda _: self._set(setting, slider))
        return slider

    def _layer_box(self, layer: str) -> None:
        box = self._server.gui.add_checkbox(NAMES[layer], layer in self.session.settings.layers)
        box.on_update(lambda _: self._set_layer(layer, box))

    def _build_transport(self) -> None:
        gui = self._server.gui
        buttons = gui.add_button_group("Time", ("Pause", "Step", "Again", "Record"))

        def clicked(event: Any) -> None:
            deeds = {"Pause": self._pause, "Step": self._step, "Again": lambda: self._edit(self.session.begin)}
            deeds.get(buttons.value, lambda: self._record(event.client))()

        buttons.on_click(clicked)

    def _build_tools(self) -> None:
        gui = self._server.gui
        with gui.add_folder("Cut"):
            self._cut_radius = gui.add_slider("Tool radius", 0.01, 0.3, 0.01, 0.08, hint="In sizes of the scene.")
            self._cut_clicks = gui.add_checkbox("Cut where I click", False)
            away = gui.add_button("Cut away what collides", hint="Removes the glowing triangles of the second body.")
            mend = gui.add_button("Mend", hint="Brings all triangles back.")
        away.on_click(lambda _: self._edit(self.session.cut_colliding))
        mend.on_click(lambda _: self._edit(self.session.mend))

        self._cut_clicks.on_update(lambda _: self._take_tool(self._cut_clicks.value))

    @_in_turn
    def _take_tool(self, taken: bool) -> None:
        if taken:
            self._server.scene.on_click()(self._cut)
        else:
            self._server.scene.remove_click_callback("all")

    def _build_charts(self) -> None:
        from viser import uplot

        nothing, hidden = np.zeros(1), uplot.Series_Points(show=False)
        times = (
            uplot.Series(label="frame"),
            uplot.Series(label="detection ms", stroke="#5aa9f0", width=2, points=hidden),
            uplot.Series(label="budget ms", stroke="#ff4d7d", width=1.5, dash=(6, 4), points=hidden),
        )
        counts = (uplot.Series(label="frame"), uplot.Series(label="contacts", stroke="#26b278", width=2, points=hidden))
        scales = {"x": uplot.Scale(time=False)}
        options: dict[str, Any] = {"scales": scales, "height": 130, "legend": uplot.Legend(show=False)}
        gui = self._server.gui
        self._time_chart = gui.add_uplot(
            (nothing,) * 3, times, title="Detection time per frame [ms], budget dashed", **options
        )
        self._count_chart = gui.add_uplot((nothing,) * 2, counts, title="Contacts found per frame", **options)

    def _draw_charts(self) -> None:
        times, counts = np.array(self.session.times), np.array(self.session.counts, dtype=np.float64)
        frames = self.session.frame - len(times) + 1 + np.arange(len(times), dtype=np.float64)
        budget = np.full(len(times), float(self.session.settings.budget_ms))
        self._time_chart.data = (frames, times, budget)
        self._count_chart.data = (frames, counts)

    # what people do ---------------------------------------------------------------------------------------

    @_in_turn
    def _set(self, setting: str, slider: Any) -> None:
        setattr(self.session.settings, setting, slider.value)
        self.refresh()

    @_in_turn
    def _set_layer(self, layer: str, box: Any) -> None:
        layers = self.session.settings.layers
        self.session.settings.layers = layers | {layer} if box.value else layers - {layer}
        self.refresh()

    def _fit(self) -> None:
        self._viewer.fit(self.session.centre, self.session.size)
        self._motion.visible = not self.session.is_simulated
        self._gizmo.disable_rotations = self.session.is_simulated
        self._gizmo.wxyz = (1.0, 0.0, 0.0, 0.0)
        self._put_handle()

    def _put_handle(self) -> None:
        """Bring the handle to the body that it moves."""
        session, motion = self.session, self.session.motion
        if not isinstance(motion, Physics):
            place = session.centre_of_b + session.size * session.settings.shift
        elif motion.pulled is not None:
            place = motion.positions()[motion.pulled].mean(axis=0)
        self._gizmo.visible = not isinstance(motion, Physics) or motion.pulled is not None
        if self._gizmo.visible:
            self._gizmo.position = tuple(self._viewer.to_drawing(place))

    @_in_turn
    def _choose_scene(self, name: str) -> None:
        if name == self.session.motion.name:
            return
        self._status.content = waiting(f"Preparing {name} ...")
        try:
            self.session.choose_scene(name)
        except ImpingeError as refusal:
            self._scene.value = self.session.motion.name
            self._tell()
            self._notify(f"{name} cannot be shown", f"{refusal}.")
            return
        self._fit()
        for slider in self._shifts:
            slider.value = 0.0
        self._deformation.value = self.session.settings.deformation
        self._method.value = self.session.settings.method
        self.refresh()

    @_in_turn
    def _choose_method(self, name: str) -> None:
        self.session.choose_method(name)
        self.refresh()

    def _notify(self, title: str, body: str) -> None:
        for client in self._server.get_clients().values():
            client.add_notification(title, body, loading=False)

    @_in_turn
    def _pause(self) -> None:
        self._paused = not self._paused
        self._tell()

    @_in_turn
    def _step(self) -> None:
        self._paused = True
        self._steps += 1

    def _record(self, client: Any) -> None:
        with self._one_at_a_time:  # and not while the file is made, which takes long
            recording, self._recording = self._recording, None
            if recording is None:
                self._recording = self._server.get_scene_serializer()
            self._tell()
        if recording is None:
            client.add_notification("Recording", "Press Record again to stop and save one html file.", loading=False)
        else:
            client.send_file_download("impinge.html", recording.as_html().encode("utf-8"))

    @_in_turn
    def _shift_by_sliders(self) -> None:
        wanted = np.array([slider.value for slider in self._shifts])
        if np.allclose(wanted, self.session.settings.shift, atol=0.003):
            return  # the sliders follow the mouse
        self.session.settings.shift = wanted
        self._put_handle()
        self.refresh()

    @_in_turn
    def _drag(self, phase: str) -> None:
        """Follow the handle; late news of a drag that is over change nothing."""
        if phase != "update":
            self._dragging = phase == "start"
        session, place = self.session, self._viewer.to_scene(self._gizmo.position)
        if isinstance(session.motion, Physics):
            session.motion.pull = place if self._dragging else None
            return
        shift = (place - session.centre_of_b) / session.size
        session.settings.shift = shift
        session.settings.turn = rotation(self._gizmo.wxyz)
        for slider, value in zip(self._shifts, shift):
            slider.value = float(np.clip(round(value, 3), -SHIFT, SHIFT))
        self.refresh()

    @_in_turn
    def _let_go(self) -> None:
        """End a drag whose end was never told: who held the handle has left."""
        self._dragging = False
        if isinstance(self.session.motion, Physics):
            self.session.motion.pull = None

    @_in_turn
    def _cut(self, event: Any) -> None:
        if not self._cut_clicks.value:
            return  # a click that comes late: the tool was put away
        origin = self._viewer.to_scene(event.ray_origin)
        radius = self._cut_radius.value * self.session.size
        self._edit(lambda: self.session.cut_along(origin, np.asarray(event.ray_direction), radius))

    @_in_turn
    def _edit(self, tool: Any) -> None:
        tool()
        self.refresh()


def rotation(wxyz: Any) -> Any:
    """The matrix of a unit quaternion."""
    w, x, y, z = np.asarray(wxyz, dtype=np.float64)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


def waiting(words: str) -> str:
    """What the page does while there is nothing to tell."""
    return f'<div class="impinge-status" style="padding:0.4em 0.9em;min-height:11em">{html.escape(words)}</div>'


def status(shot: Shot, state: Sequence[str] = ()) -> str:
    """What was found in a frame, for people to read, and as attributes for tests; and what state the page is in."""
    drawing = shot.drawing
    marks = "".join(
        f'<span style="border:1px solid;border-radius:1em;padding:0 0.7em;font-size:0.85em;opacity:0.75">{each}</span>'
        for each in state
    )
    over = shot.detection_ms > shot.budget_ms
    sure = "#26b278" if drawing.complete else "#f0a030"
    notes = "".join(f"<div>{html.escape(note)}</div>" for note in drawing.notes)
    return (
        f'<div class="impinge-status" data-frame="{shot.frame}" data-count="{drawing.count}" '
        f'data-method="{html.escape(shot.method)}" style="padding:0.4em 0.9em;font-size:0.9em;line-height:1.35">'
        f'<div style="display:flex;gap:1.4em;align-items:baseline">'
        f'<div><span style="font-size:1.9em;font-weight:650">{drawing.count:,}</span> {drawing.unit}</div>'
        f'<div style="color:{"#ff4d7d" if over else "inherit"}"><span style="font-size:1.9em;font-weight:650">'
        f"{shot.detection_ms:.2f}</span> ms</div>{marks}</div>"
        f'<div style="border-left:3px solid {sure};padding-left:0.6em;margin-top:0.3em;min-height:7.4em">'
        f"{html.escape(drawing.sentence)}"
        f'<div style="opacity:0.6;font-size:0.85em">{notes}</div></div></div>'
    )


# recordings ---------------------------------------------------------------------------------------------------


def record(session: Session, seconds: float) -> str:
    """A recording of a session as one html page, which plays without a server."""
    server = _serve(LOOPBACK, 0)
    try:
        viewer = ViserViewer(server)
        prepare(viewer)
        viewer.fit(session.centre, session.size)
        recording = server.get_scene_serializer()
        for _ in range(max(round(seconds / FRAME_S), 1)):
            with viewer.at_once():
                draw(viewer, session.advance(FRAME_S).drawing, session.settings.layers)
            recording.insert_sleep(FRAME_S)
        return str(recording.as_html())
    finally:
        stop(server)


def show(result: Result, path: str | os.PathLike[str] | None = None) -> Path | None:
    """Show a result: in a notebook, else in the browser; or write ``path``, one html file, and return it."""
    drawing = drawing_of(result)
    server = _serve(LOOPBACK, 0)
    try:
        viewer = ViserViewer(server)
        prepare(viewer)
        viewer.fit(*_size(drawing))
        draw(viewer, drawing, frozenset(LAYERS))
        if path is None:
            server.scene.show(height=500)
            return None
        return write_page(str(server.scene.as_html()), Path(path))
    finally:
        stop(server)


def check_path(path: Path) -> None:
    """Refuse a path that a page cannot be written to, before the work."""
    import_viser()
    reason = obstacle(path)
    if reason is not None:
        raise _not_written(path, reason)


def _not_written(path: Path, reason: str) -> FileError:
    return FileError(f"the page could not be written to {path} ({reason}); choose a writable .html file")


def write_page(page: str, path: Path) -> Path:
    """Write a page, whole or not at all."""
    try:
        write_whole(path, page.encode())
    except OSError as error:
        raise _not_written(path, error.strerror or str(error)) from error
    return path
