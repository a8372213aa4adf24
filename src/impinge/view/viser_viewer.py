"""Drawing in a browser with viser.

Scenes are drawn in a cube of side 2 about the origin, whatever their units. Meshes have one colour, so that triangles
that glow are a second mesh, pushed out along their normals by a thousandth of the scene. Nothing is removed and added
again from frame to frame: what is empty is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import MissingExtra
from impinge.mesh.shapes import icosphere
from impinge.view.viewer import Style, Thing

GLOW = (255, 45, 105)
LIFT = 1.5e-3
"""How far glowing triangles are pushed out, in the units of the drawing, where the scene is 2 wide."""
LINE_PIXELS = 3.0


def import_viser() -> Any:
    """The package that serves pages, or a sentence that names the extra."""
    try:
        import viser
    except ImportError as error:
        raise MissingExtra("the live page needs viser; install impinge[view]") from error
    return viser


@contextmanager
def quiet() -> Iterator[None]:
    """Keep viser from printing, which it does on starting and stopping, in notebooks around what is to be seen."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


def stop(server: Any) -> None:
    """Stop serving."""
    with quiet():
        server.stop()


class ViserViewer:
    """A scene in a browser."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._handles: dict[str, Any] = {}
        self._things: dict[str, Thing] = {}
        self._centre: Floats = np.zeros(3)
        self._scale = 1.0
        self.sentence = ""

    def fit(self, centre: Floats, size: float) -> None:
        """Say which part of space is to fill the drawing."""
        self._centre, self._scale = np.asarray(centre, dtype=np.float64), 2.0 / max(size, np.finfo(np.float64).tiny)

    def to_drawing(self, points: Floats) -> Floats:
        """From the units of the scene to those of the drawing."""
        return np.asarray((points - self._centre) * self._scale)

    def to_scene(self, points: Any) -> Floats:
        """From the units of the drawing to those of the scene."""
        return np.asarray(np.asarray(points) / self._scale + self._centre)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let browsers apply all changes of a frame together."""
        with self._server.atomic():
            yield

    def add(self, name: str, thing: Thing, style: Style) -> None:
        """Add a thing, hidden until it is updated."""
        scene, path = self._server.scene, f"/{name}"
        self._things[name] = thing
        if thing == "mesh":
            look = {"color": style.colour, "visible": False, "side": "double", "cast_shadow": False}
            corners, faces = np.eye(3), np.array([[0, 1, 2]])
            opacity = None if style.opacity == 1.0 else style.opacity
            self._handles[name] = scene.add_mesh_simple(path, corners, faces, opacity=opacity, **look)
            glowing = {**look, "color": GLOW, "flat_shading": True}
            self._handles[f"{name} glow"] = scene.add_mesh_simple(f"{path} glow", corners, faces, **glowing)
        elif thing == "balls":
            ball = icosphere(1)
            self._handles[name] = scene.add_batched_meshes_simple(
                path, ball.vertices, ball.faces, np.array([[1.0, 0, 0, 0]]), np.zeros((1, 3)),
                batched_scales=np.ones(1), batched_colors=style.colour, opacity=style.opacity, cast_shadow=False,
                receive_shadow=False, lod="off", visible=False,
            )  # fmt: skip
        elif thing == "lines":
            self._handles[name] = scene.add_line_segments(
                path, np.zeros((1, 2, 3)), style.colour, thickness=LINE_PIXELS, thickness_units="screen", visible=False
            )
        else:
            size = {"shaft_radius": 0.005, "head_radius": 0.014, "head_length": 0.035}
            self._handles[name] = scene.add_arrows(path, np.zeros((1, 2, 3)), style.colour, visible=False, **size)

    def update(self, name: str, points: Floats, faces: Ints | None = None) -> None:
        """Draw a thing anew."""
        handle = self._handles[name]
        is_empty = not len(points) or (faces is not None and not len(faces))
        handle.visible = not is_empty
        if is_empty:
            return
        if self._things[name] == "balls":
            handle.batched_positions = self.to_drawing(points[:, :3]).astype(np.float32)
            handle.batched_wxyzs = np.tile(np.array([1.0, 0, 0, 0], dtype=np.float32), (len(points), 1))
            handle.batched_scales = (self._scale * points[:, 3]).astype(np.float32)
            return
        drawn = self.to_drawing(points).astype(np.float32)
        if faces is None:
            handle.points = drawn
        else:
            handle.vertices = drawn
            handle.faces = faces.astype(np.uint32)

    def highlight(self, name: str, corners: Floats) -> None:
        """Let triangles glow."""
        handle = self._handles[f"{name} glow"]
        handle.visible = bool(len(corners))
        if not len(corners):
            return
        drawn = self.to_drawing(corners)
        normal = np.cross(drawn[:, 1] - drawn[:, 0], drawn[:, 2] - drawn[:, 0])
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        unit = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0.0)
        lifted = drawn + LIFT * unit[:, None]
        handle.vertices = lifted.reshape(-1, 3).astype(np.float32)
        handle.faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)

    def label(self, sentence: str) -> None:
        """Keep the sentence for whoever shows it beside the scene."""
        self.sentence = sentence

    def close(self) -> None:
        """Stop serving."""
        stop(self._server)
