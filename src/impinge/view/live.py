"""The live page: a scene in the browser, a collision query per frame, and controls for both.

The page is served to this computer alone unless another host is given, and ``view.page_guard`` checks what its clients
send. ``LivePage`` connects a ``Session``, which computes, with a ``ViserViewer``, which draws, and with the controls
and charts beside it. Slow browsers skip frames and never lag. Without a connected browser nothing is computed. One lock
serialises frames and user events, which arrive on different threads.

    page = LivePage(Session("two_livers"))
    print(page.url)
    page.run()
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from time import perf_counter, sleep
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from impinge.detect.common.results import Result
from impinge.errors import ImpingeError
from impinge.view.drawing import LAYERS, drawing_of
from impinge.view.motion_sources import SimulatedMotion
from impinge.view.output_files import OutputFile
from impinge.view.page_address import check_address
from impinge.view.recording import MEGABYTE, RECORDING_BYTES, Recording
from impinge.view.session import METHODS, SHOWN_SCENES, SHOWN_SIMULATIONS, SIMULATED, RenderedFrame, Session
from impinge.view.viewer import ViserViewer, draw, import_viser, quiet

LOOPBACK = "127.0.0.1"
PORT = 8765
FRAME_S = 1.0 / 30.0
"""Least duration of a frame."""
LONGEST_STEP_S = 0.1
"""Most simulated time per frame, for frames of any duration."""
SIMULATING_S = 0.025
"""Time for simulation steps per frame; the rest of the frame falls behind real time."""
CHART_S = 0.25
"""Interval between updates of the charts."""
CAMERA = (0.84, -1.54, 0.75)
SHIFT = 0.75
"""Range of the position sliders, relative to the scene size."""
PAGE_FILE = OutputFile("page", ".html")
logger = logging.getLogger("impinge.page")
STATUS = Template(files("impinge.view").joinpath("status.html").read_text("utf-8"))


def _serve(host: str, port: int) -> Any:
    viser = import_viser()
    from impinge.view.page_guard import guarded  # which imports viser

    port = check_address(host, port)
    with quiet(), guarded(host) as guard:
        server = viser.ViserServer(host=host, port=port, label="impinge", verbose=False)
    guard.gui = server.gui
    server.scene.set_up_direction("+z")
    server.initial_camera.position = CAMERA
    server.initial_camera.look_at = (0.0, 0.0, 0.0)
    return server


class LivePage:
    """A page that shows and controls a session."""

    def __init__(
        self, session: Session, *, host: str = LOOPBACK, port: int = PORT, recording_bytes: int = RECORDING_BYTES
    ) -> None:
        self.session = session
        self._server = _serve(host, port)
        self._viewer = ViserViewer(self._server)
        self._host = host
        self._closed = threading.Event()
        self._lock = threading.RLock()
        self._paused, self._steps = False, 0
        self._drags: dict[int, None] = {}
        """Clients that hold the drag handle; the last one moves it."""
        self._drag_pose: tuple[Any, Any] = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
        """Position and rotation of the handle as the client that moves it sent them."""
        self._recording_bytes = recording_bytes
        self._recording: Recording | None = None
        self._frame: RenderedFrame | None = None
        self._chart_drawn = 0.0
        theme = {"show_logo": False, "show_share_button": False, "brand_color": (31, 111, 178)}
        self._server.gui.configure_theme(control_width="large", dark_mode=True, **theme)
        self._server.gui.main_panel.dock_right()
        self._build_controls()
        self._fit()
        self.advance(0.0)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.get_port()}"

    # running ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Compute and draw frames until the page is closed, while a browser is connected and the page not paused."""
        last = perf_counter()
        while not self._closed.is_set():
            began = perf_counter()
            with self._lock:
                is_open = not self._closed.is_set() and bool(self._server.get_clients())
                if is_open and (self._steps or not self._paused):
                    self._steps = max(self._steps - 1, 0)
                    self.advance(FRAME_S if self._paused else min(began - last, LONGEST_STEP_S))
            last = began
            sleep(max(FRAME_S - (perf_counter() - began), 0.002))

    def close(self) -> None:
        """Stop serving after the current frame."""
        self._closed.set()
        with self._lock:
            if self._recording is not None:
                self._recording = None
                logger.warning("the page was closed during a recording, which is not saved")
            self._viewer.close()

    def advance(self, seconds: float) -> None:
        """Compute a frame, draw it, and update status, charts and recording."""
        with self._lock:
            self._frame = self.session.advance(seconds, within_s=SIMULATING_S)
            with self._server.atomic():  # browsers apply all changes of a frame together
                draw(self._viewer, self._frame.drawing, self.session.settings.layers)
            if not self._drags:
                self._place_handle()
            if self._recording is not None and self._recording.end_frame(FRAME_S):
                self._notify("Recording stopped", f"{self._recording.state.capitalize()}.")
            self._show_status()
            now = perf_counter()
            if now - self._chart_drawn > CHART_S or self._paused:
                self._chart_drawn = now
                times, counts = np.array(self.session.times), np.array(self.session.counts, dtype=np.float64)
                frames = self.session.frame - len(times) + 1 + np.arange(len(times), dtype=np.float64)
                budget = np.full(len(times), float(self.session.settings.budget_ms))
                self._time_chart.data = (frames, times, budget)
                self._count_chart.data = (frames, counts)

    def _show_status(self) -> None:
        """Show the last result, and whether the page is paused or recording."""
        if self._frame is not None:
            recording = [] if self._recording is None else [self._recording.state]
            self._status.content = status(self._frame, ["paused"] * self._paused + recording)

    def _notify(self, title: str, body: str) -> None:
        """Show a notification to all clients."""
        for client in self._server.get_clients().values():
            client.add_notification(title, body, loading=False)

    def refresh(self) -> None:
        """Repeat the query without advancing the time, if the page is paused."""
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
        self._method.on_update(lambda _: self._edit(partial(self.session.choose_method, self._method.value)))
        buttons = gui.add_button_group("Time", ("Pause", "Step", "Again", "Record"))
        clicked: dict[str, Callable[[Any], None]] = {
            "Pause": lambda _: self._pause(),
            "Step": lambda _: self._step(),
            "Again": lambda _: self._edit(self.session.restart),
            "Record": lambda event: self._record(event.client),
        }
        buttons.on_click(lambda event: clicked[buttons.value](event))  # noqa: PLW0108 - the value changes
        self._build_charts()
        with gui.add_folder("Detection"):
            self._slider("Time budget (ms)", 0.1, 20.0, 0.1, "budget_ms", "Used by sphere_tree; others are unlimited.")
            self._slider("Resolution", 8, 256, 8, "resolution", "Rays along each side; used by layered_depth.")
            hint = "Show the impacts on the way from the last frame to this one, instead of the method's result."
            self._between = gui.add_checkbox("Between frames", session.settings.between_frames, hint=hint)
        self._between.on_update(lambda _: self._edit(self._switch_between))
        self._motion = gui.add_folder("Motion", visible=not session.is_simulated)
        with self._motion:
            hint = "0: rest shape, 1: deformation of the scene."
            self._deformation = self._slider("Deformation", 0.0, 3.0, 0.05, "deformation", hint)
            hint = "Of the second body."
            self._shifts = [gui.add_slider(f"Position {axis}", -SHIFT, SHIFT, 0.005, 0.0, hint=hint) for axis in "xyz"]
            for slider in self._shifts:
                slider.on_update(lambda _: self._shift_by_sliders())
        with gui.add_folder("Cut"):
            self._cut_radius = gui.add_slider("Tool radius", 0.01, 0.3, 0.01, 0.08, hint="Relative to the scene size.")
            self._cut_clicks = gui.add_checkbox("Cut where I click", False)
            cut = gui.add_button("Cut away what collides", hint="Removes the highlighted triangles of the second body.")
            restore = gui.add_button("Mend", hint="Restores all triangles.")
        cut.on_click(lambda _: self._edit(self.session.cut_colliding))
        restore.on_click(lambda _: self._edit(self.session.restore))
        self._cut_clicks.on_update(lambda _: self._enable_cutting(self._cut_clicks.value))
        with gui.add_folder("Show", expand_by_default=False):
            for layer, label in LAYERS.items():
                box = gui.add_checkbox(label, layer in session.settings.layers)
                box.on_update(partial(self._set_layer, layer))
        self._gizmo = self._server.scene.add_transform_controls("/drag", scale=0.4, depth_test=False, opacity=0.8)
        self._gizmo.on_update(self._drag)
        self._server.on_client_disconnect(self._leave)

    def _slider(self, label: str, low: float, high: float, step: float, setting: str, hint: str) -> Any:
        """A slider of one setting of the session."""
        slider = self._server.gui.add_slider(label, low, high, step, getattr(self.session.settings, setting), hint=hint)
        slider.on_update(lambda _: self._edit(lambda: setattr(self.session.settings, setting, slider.value)))
        return slider

    def _build_charts(self) -> None:
        from viser import uplot

        line = partial(uplot.Series, points=uplot.Series_Points(show=False))
        style = {"scales": {"x": uplot.Scale(time=False)}, "height": 130, "legend": uplot.Legend(show=False)}

        def chart(title: str, *lines: Any) -> Any:
            series = (uplot.Series(label="frame"), *lines)
            return self._server.gui.add_uplot((np.zeros(1),) * len(series), series, title=title, **style)

        times = line(label="detection ms", stroke="#5aa9f0", width=2.0, dash=())
        budget = line(label="budget ms", stroke="#ff4d7d", width=1.5, dash=(6, 4))
        self._time_chart = chart("Detection time per frame [ms], budget dashed", times, budget)
        counts = line(label="contacts", stroke="#26b278", width=2.0, dash=())
        self._count_chart = chart("Contacts found per frame", counts)

    # user events ------------------------------------------------------------------------------------------

    def _edit(self, change: Callable[[], object]) -> None:
        """Change the session, then repeat the query if the page is paused."""
        with self._lock:
            change()
            self.refresh()

    def _set_layer(self, layer: str, event: Any) -> None:
        with self._lock:
            layers = self.session.settings.layers
            self.session.settings.layers = layers | {layer} if event.target.value else layers - {layer}
            self.refresh()

    def _switch_between(self) -> None:
        self.session.settings.between_frames = self._between.value

    def _enable_cutting(self, enabled: bool) -> None:
        with self._lock:
            if enabled:
                self._server.scene.on_click()(self._cut)
            else:
                self._server.scene.remove_click_callback("all")

    def _fit(self) -> None:
        """Adapt view and controls to the scene."""
        self._viewer.fit(self.session.centre, self.session.size)
        self._motion.visible = not self.session.is_simulated
        self._gizmo.disable_rotations = self.session.is_simulated
        self._gizmo.wxyz = (1.0, 0.0, 0.0, 0.0)
        self._place_handle()

    def _place_handle(self) -> None:
        """Place the drag handle at its body."""
        session, motion = self.session, self.session.motion
        if not isinstance(motion, SimulatedMotion):
            place = session.centre_of_b + session.size * session.settings.shift
        elif motion.draggable is not None:
            place = motion.positions()[motion.draggable].mean(axis=0)
        self._gizmo.visible = not isinstance(motion, SimulatedMotion) or motion.draggable is not None
        if self._gizmo.visible:
            self._gizmo.position = tuple(self._viewer.to_drawing(place))

    def _choose_scene(self, name: str) -> None:
        with self._lock:
            if name == self.session.motion.name:
                return
            self._status.content = waiting(f"Preparing {name} ...")
            try:
                self.session.choose_scene(name)
            except ImpingeError as error:
                self._scene.value = self.session.motion.name
                self._show_status()
                self._notify(f"{name} cannot be shown", f"{error}.")
                return
            self._fit()
            for slider in self._shifts:
                slider.value = 0.0
            self._deformation.value = self.session.settings.deformation
            self._method.value = self.session.settings.method
            self.refresh()

    def _pause(self) -> None:
        with self._lock:
            self._paused, self._steps = not self._paused, 0
            self._show_status()

    def _step(self) -> None:
        with self._lock:
            self._paused = True
            self._steps += 1

    def _record(self, client: Any) -> None:
        with self._lock:  # released while the file is encoded, which takes long
            recording, self._recording = self._recording, None
            if recording is None:
                self._recording = Recording(self._server, limit=self._recording_bytes)
            self._show_status()
        if recording is None:
            limit = f"It stops at {self._recording_bytes / MEGABYTE:g} MB."
            client.add_notification("Recording", f"Press Record again to save one html file. {limit}", loading=False)
        else:
            client.send_file_download("impinge.html", recording.html())

    def _shift_by_sliders(self) -> None:
        with self._lock:
            wanted = np.array([slider.value for slider in self._shifts])
            if np.allclose(wanted, self.session.settings.shift, atol=0.003):
                return  # the sliders follow the drag handle
            self.session.settings.shift = wanted
            self._place_handle()
            self.refresh()

    async def _drag(self, event: Any) -> None:
        """Follow the drag handle; a drag belongs to the client that holds the handle.

        viser runs this in the order of messages. If several clients hold the handle, the last to take it moves it until
        it releases the handle or leaves. Clients that viser has not registered yet, whose leaving it would not report,
        cannot hold it.
        """
        if event.phase == "start" and event.client is not None:
            self._drags.pop(event.client_id, None)
            self._drags[event.client_id] = None
        holder = next(reversed(self._drags), event.client_id)
        if event.phase == "end":
            self._drags.pop(event.client_id, None)
        if holder == event.client_id:
            self._drag_pose = (self._gizmo.position, self._gizmo.wxyz)
            asyncio.get_running_loop().run_in_executor(None, self._follow_handle)
        else:
            self._gizmo.position, self._gizmo.wxyz = self._drag_pose

    async def _leave(self, client: Any) -> None:
        """End the drag of a client that disconnected."""
        if client.client_id in self._drags:
            del self._drags[client.client_id]
            self._drag_pose = (self._gizmo.position, self._gizmo.wxyz)
            asyncio.get_running_loop().run_in_executor(None, self._follow_handle)

    def _follow_handle(self) -> None:
        """Move the second body to the handle; pull a soft body while the handle is held."""
        with self._lock:
            position, wxyz = self._drag_pose
            session, place = self.session, self._viewer.to_scene(position)
            if isinstance(session.motion, SimulatedMotion):
                session.motion.drag_target = place if self._drags else None
                return
            shift = (place - session.centre_of_b) / session.size
            session.settings.shift = shift
            session.settings.turn = Rotation.from_quat(np.roll(wxyz, -1)).as_matrix()
            for slider, value in zip(self._shifts, shift):
                slider.value = float(np.clip(round(value, 3), -SHIFT, SHIFT))
            self.refresh()

    def _cut(self, event: Any) -> None:
        with self._lock:
            if not self._cut_clicks.value:
                return  # a late click, after the tool was disabled
            origin = self._viewer.to_scene(event.ray_origin)
            self.session.cut_along(origin, event.ray_direction, self._cut_radius.value * self.session.size)
            self.refresh()


def waiting(words: str) -> str:
    """The status while no result is available."""
    return f'<div class="impinge-status" style="padding:0.4em 0.9em;min-height:11em">{html.escape(words)}</div>'


def status(frame: RenderedFrame, state: Sequence[str] = ()) -> str:
    """The result of a frame and the state of the page as html; data attributes serve tests."""
    drawing = frame.drawing
    style = "border:1px solid;border-radius:1em;padding:0 0.7em;font-size:0.85em;opacity:0.75"
    return STATUS.substitute(
        frame=frame.frame,
        count=drawing.count,
        method=html.escape(frame.method),
        shown_count=f"{drawing.count:,}",
        unit=drawing.unit,
        time_colour="#ff4d7d" if frame.detection_ms > frame.budget_ms else "inherit",
        detection_ms=f"{frame.detection_ms:.2f}",
        marks="".join(f'<span style="{style}">{each}</span>' for each in state),
        certainty_colour="#26b278" if drawing.complete else "#f0a030",
        sentence=html.escape(drawing.sentence),
        notes="".join(f"<div>{html.escape(note)}</div>" for note in drawing.notes),
    )


# recordings ---------------------------------------------------------------------------------------------------


def record(session: Session, seconds: float) -> str:
    """Record a session as one html page that plays without a server."""
    with closing(ViserViewer(server := _serve(LOOPBACK, 0))) as viewer:
        viewer.fit(session.centre, session.size)
        recording = server.get_scene_serializer()
        for _ in range(max(round(seconds / FRAME_S), 1)):
            with server.atomic():
                draw(viewer, session.advance(FRAME_S).drawing, session.settings.layers)
            recording.insert_sleep(FRAME_S)
        return str(recording.as_html())


def show(result: Result, path: str | os.PathLike[str] | None = None) -> Path | None:
    """Show a result in the notebook or the browser; with ``path``, write one html file and return its path."""
    drawing = drawing_of(result)
    low, high = drawing.bounds
    with closing(ViserViewer(server := _serve(LOOPBACK, 0))) as viewer:
        viewer.fit(0.5 * (low + high), float((high - low).max()))
        draw(viewer, drawing, frozenset(LAYERS))
        if path is None:
            server.scene.show(height=500)
            return None
        return PAGE_FILE.write(Path(path), str(server.scene.as_html()).encode())


def check_path(path: Path) -> None:
    """Raise where a page cannot be written or viser is missing, before the computation."""
    import_viser()
    PAGE_FILE.check(path)
