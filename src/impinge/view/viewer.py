"""Drawing in a browser with viser.

``draw`` sends a ``Drawing`` to a viewer through four methods: ``add`` an element (mesh, lines, arrows or balls),
``update`` its arrays, ``highlight`` triangles of a mesh, and ``close``. Tests replace ``ViserViewer`` by a recorder of
these calls.

A scene is scaled to a cube of side 2 about the origin, in any units. Meshes have one colour, therefore highlighted
triangles are a second mesh, offset along their normals by a thousandth of the scene. Elements stay from frame to frame;
empty ones are hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import optional_module
from impinge.mesh.shapes import icosphere
from impinge.view.drawing import Drawing
from impinge.view.pressure import PRESSURE_COLOURS

ElementKind: TypeAlias = Literal["mesh", "lines", "arrows", "balls"]
Colour: TypeAlias = tuple[int, int, int]


BODIES = ("a", "b")
ELEMENTS: dict[str, tuple[ElementKind, Colour, float]] = {
    "a": ("mesh", (84, 150, 214), 0.62),
    "b": ("mesh", (232, 168, 84), 0.62),
    "spheres a": ("balls", (64, 130, 214), 0.35),
    "spheres b": ("balls", (226, 132, 40), 0.35),
    "spans": ("mesh", (38, 178, 120), 1.0),
    "curves": ("lines", (255, 240, 120), 1.0),
    "normals": ("arrows", (236, 242, 255), 1.0),
    "points": ("balls", (255, 240, 120), 0.95),
    **{
        f"pressure {k}": ("mesh", (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:], 16)), 1.0)
        for k, colour in enumerate(PRESSURE_COLOURS)
    },
}
"""Kind, colour and opacity of all elements of a drawing; highlighted triangles belong to their mesh."""
HIGHLIGHT_COLOUR: Colour = (255, 45, 105)
OFFSET = 1.5e-3
"""Offset of highlighted triangles along their normals; the scene is 2 wide."""
LINE_PIXELS = 3.0


def draw(viewer: ViserViewer, drawing: Drawing, layers: frozenset[str]) -> None:
    """Send a drawing to a viewer, bodies in alternating colours.

    Spans replace the triangles at their ends, colours of pressures those that collide.
    """
    columns = drawing.columns if "spans" in layers else drawing.columns[:0]
    has_pressures = "pressure" in layers and len(drawing.pressures) > 0
    has_highlights = "highlights" in layers and not len(columns) and not has_pressures
    for k, name in enumerate(BODIES):
        group = drawing.surfaces[k::2]
        starts = np.cumsum([0, *(len(surface.vertices) for surface in group)])
        faces = [surface.faces[surface.live] + start for surface, start in zip(group, starts)]
        vertices = np.concatenate([np.zeros((0, 3)), *(surface.vertices for surface in group)])
        viewer.update(name, vertices, np.concatenate([np.zeros((0, 3), dtype=np.int32), *faces]).astype(np.int32))
        hits = [drawing.highlights(i) for i in range(k, len(drawing.surfaces), 2)] if has_highlights else []
        viewer.highlight(name, np.concatenate([np.zeros((0, 3, 3)), *hits]))
        balls = drawing.spheres[k] if len(drawing.spheres) > k and "spheres" in layers else np.zeros((0, 4))
        viewer.update(f"spheres {name}", balls)
    lift = OFFSET * 0.5 * float(np.ptp(drawing.bounds, axis=0).max()) if has_pressures else 0.0
    pressed = drawing.pressed() if has_pressures else [np.zeros((0, 3, 3))] * len(PRESSURE_COLOURS)
    for k, triangles in enumerate(pressed):
        corners = lifted(triangles, lift)
        ids = np.arange(3 * len(corners), dtype=np.int32)
        viewer.update(f"pressure {k}", corners.reshape(-1, 3), ids.reshape(-1, 3))
    viewer.update("spans", columns.reshape(-1, 3), np.arange(3 * len(columns), dtype=np.int32).reshape(-1, 3))
    viewer.update("curves", drawing.curves if "curves" in layers else drawing.curves[:0])
    viewer.update("normals", drawing.arrows if "normals" in layers else drawing.arrows[:0])
    viewer.update("points", drawing.points if "points" in layers else drawing.points[:0])


def lifted(corners: Floats, offset: float) -> Floats:
    """Triangles moved along their normals."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    unit = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0.0)
    return np.asarray(corners + offset * unit[:, None])


def import_viser() -> Any:
    """Import viser, or raise ``MissingExtra``."""
    return optional_module("viser", "the live page needs viser; install impinge[view]")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the lines that viser prints when it starts and stops."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


class ViserViewer:
    """A viser scene with all elements of a drawing."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._handles: dict[str, Any] = {}
        self._centre: Floats = np.zeros(3)
        self._scale = 1.0
        for name in ELEMENTS:
            self.add(name)

    def fit(self, centre: Floats, size: float) -> None:
        """Map the cube of this centre and size to the drawing."""
        self._centre, self._scale = np.asarray(centre, dtype=np.float64), 2.0 / max(size, np.finfo(np.float64).tiny)

    def to_drawing(self, points: Floats) -> Floats:
        """Convert scene coordinates to drawing coordinates."""
        return np.asarray((points - self._centre) * self._scale)

    def to_scene(self, points: Any) -> Floats:
        """Convert drawing coordinates to scene coordinates."""
        return np.asarray(np.asarray(points) / self._scale + self._centre)

    def add(self, name: str) -> None:
        """Add an element, hidden until its first update."""
        scene, path, (kind, colour, opacity) = self._server.scene, f"/{name}", ELEMENTS[name]
        if kind == "mesh":
            look = {"visible": False, "side": "double", "cast_shadow": False}
            corners, faces = np.eye(3), np.array([[0, 1, 2]])
            shown = None if opacity == 1.0 else opacity
            handle = scene.add_mesh_simple(path, corners, faces, color=colour, opacity=shown, **look)
            self._handles[f"{name} highlight"] = scene.add_mesh_simple(
                f"{path} highlight", corners, faces, color=HIGHLIGHT_COLOUR, flat_shading=True, **look
            )
        elif kind == "balls":
            ball = icosphere(1)
            handle = scene.add_batched_meshes_simple(
                path, ball.vertices, ball.faces, np.array([[1.0, 0, 0, 0]]), np.zeros((1, 3)),
                batched_scales=np.ones(1), batched_colors=colour, opacity=opacity, cast_shadow=False,
                receive_shadow=False, lod="off", visible=False,
            )  # fmt: skip
        elif kind == "lines":
            width = {"thickness": LINE_PIXELS, "thickness_units": "screen"}
            handle = scene.add_line_segments(path, np.zeros((1, 2, 3)), colour, visible=False, **width)
        else:
            size = {"shaft_radius": 0.005, "head_radius": 0.014, "head_length": 0.035}
            handle = scene.add_arrows(path, np.zeros((1, 2, 3)), colour, visible=False, **size)
        self._handles[name] = handle

    def update(self, name: str, points: Floats, faces: Ints | None = None) -> None:
        """Set vertices and faces, line ends (n, 2, 3), or centres and radii (n, 4); empty arrays hide the element."""
        handle = self._handles[name]
        handle.visible = bool(len(points)) and (faces is None or bool(len(faces)))
        if not handle.visible:
            return
        if ELEMENTS[name][0] == "balls":
            handle.batched_positions = self.to_drawing(points[:, :3]).astype(np.float32)
            handle.batched_wxyzs = np.tile(np.array([1.0, 0, 0, 0], dtype=np.float32), (len(points), 1))
            handle.batched_scales = (self._scale * points[:, 3]).astype(np.float32)
        elif faces is None:
            handle.points = self.to_drawing(points).astype(np.float32)
        else:
            handle.vertices = self.to_drawing(points).astype(np.float32)
            handle.faces = faces.astype(np.uint32)

    def highlight(self, name: str, corners: Floats) -> None:
        """Highlight triangles (n, 3, 3) of a mesh; an empty array highlights none."""
        handle = self._handles[f"{name} highlight"]
        handle.visible = bool(len(corners))
        if handle.visible:
            handle.vertices = lifted(self.to_drawing(corners), OFFSET).reshape(-1, 3).astype(np.float32)
            handle.faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)

    def close(self) -> None:
        """Stop the server."""
        with quiet():
            self._server.stop()
