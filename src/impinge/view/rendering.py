"""Rendering of draw items without a screen: coloured triangles, a title and labels, to pixels.

pyvista (VTK) renders. VTK aborts the process where the system has no OpenGL library; there matplotlib renders instead,
slower and with flat shading.
"""

from __future__ import annotations

import ctypes.util
import io
import math
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats
from impinge.errors import optional_module
from impinge.view.labels import one_line
from impinge.view.output_files import OutputFile

Pixels: TypeAlias = NDArray[np.uint8]
"""Shape (height, width, 3)."""

SIZE = (1200, 900)
FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".tif": "tiff", ".tiff": "tiff"}
"""Picture formats by suffix."""
PICTURE_FILE = OutputFile("picture", ".png", tuple(FORMATS))
FILL = 0.8
"""Share of the picture that the scene fills; the rest is for title and labels."""
TEXT_COLOUR = "#1b2733"
LEGEND_LEFT, LEGEND_LOW, LEGEND_STEP, LEGEND_INDENT = 0.015, 0.02, 0.035, 0.026
"""Left and lower margin of the labels, height of a label and width of its swatch, relative to the picture."""
TITLE_FONT, TITLE_LETTERS, LONGEST_TITLE = 13, 88, 160
"""Font size of the title, letters that fit at this size, and letters that fit at the smallest size."""
LABEL_LETTERS = 90
"""Longest label."""
TEXT_FROM = 900
"""Least width of a picture with title and labels, in pixels."""
STEEP = 89.0
"""Elevation in degrees above which y points up in the picture."""
FLAT_BELOW = 1e-12
"""Twice the area below which a triangle has no usable normal; the scene has unit width."""


@dataclass(frozen=True)
class DrawItem:
    """Triangles that share colour, opacity and label."""

    label: str
    corners: Floats
    """Shape (m, 3, 3)."""
    colour: str
    opacity: float
    edges: bool
    width: float = 2.0
    """Line width of triangles without area, in pixels."""


class Camera(NamedTuple):
    """Viewing direction in degrees, and picture size in pixels."""

    azimuth: float
    """About z, from x towards y."""
    elevation: float
    """Above the xy plane; 90 looks down, with y up."""
    size: tuple[int, int] = SIZE

    @property
    def direction(self) -> tuple[float, float, float]:
        """Unit vector from the scene to the camera."""
        turn, up = math.radians(self.azimuth), math.radians(self.elevation)
        return math.cos(up) * math.cos(turn), math.cos(up) * math.sin(turn), math.sin(up)


DEFAULT_CAMERA = Camera(70.0, 35.264389682754654)
"""Along a cube diagonal, rotated by 25 degrees."""


def render(items: Iterable[DrawItem], title: str) -> Pixels:
    """Render draw items with the default camera."""
    return render_views(items, title, [DEFAULT_CAMERA])[0]


def render_views(items: Iterable[DrawItem], title: str, cameras: Sequence[Camera]) -> list[Pixels]:
    """Render the same draw items with several cameras; small pictures have no text."""
    scaled = list(items)
    if scaled:
        # The renderers compute in float32, so scale to [-1/2, 1/2]^3. Differences of finite doubles may overflow:
        # halve first.
        low = np.min([item.corners.min(axis=(0, 1)) for item in scaled], axis=0)
        high = np.max([item.corners.max(axis=(0, 1)) for item in scaled], axis=0)
        size = max(float((0.5 * high - 0.5 * low).max()), np.finfo(np.float64).tiny)
        middle = 0.5 * high + 0.5 * low
        scaled = [replace(item, corners=(0.5 * item.corners - 0.5 * middle) / size) for item in scaled]
    draw = _render_with_vtk if _can_use_opengl() else _render_with_matplotlib
    return [draw(scaled, title, camera) for camera in cameras]


def write_picture(pixels: Pixels, path: Path) -> Path:
    """Write pixels atomically, in the format of the suffix."""
    return PICTURE_FILE.write(path, encode_picture(pixels, FORMATS.get(path.suffix.lower(), "png")))


def encode_picture(pixels: Pixels, format: str = "png") -> bytes:  # noqa: A002 - matplotlib's name
    """Encode pixels as a picture file."""
    image = optional_module("matplotlib.image", "pictures need matplotlib; install impinge[picture]")
    file = io.BytesIO()
    image.imsave(file, pixels, format=format)
    return file.getvalue()


def _can_use_opengl() -> bool:
    """Whether VTK can render; without a display, select an off-screen window class."""
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        return True
    for library, window in (("EGL", "vtkEGLRenderWindow"), ("OSMesa", "vtkOSOpenGLRenderWindow")):
        if ctypes.util.find_library(library):
            os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", window)
            return True
    return False


def _title_font(title: str) -> int:
    """A font size at which the title fits into one line."""
    return max(min(TITLE_FONT, TITLE_FONT * TITLE_LETTERS // max(len(title), 1)), 5)


def _is_flat(corners: Floats) -> Bools:
    """Which triangles are too thin to have a normal; they are drawn as lines."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.asarray(np.linalg.norm(normal, axis=1) < FLAT_BELOW)


def _render_with_vtk(items: list[DrawItem], title: str, camera: Camera) -> Pixels:
    pyvista = optional_module("pyvista", "pictures need pyvista; install impinge[picture]")
    plotter = pyvista.Plotter(off_screen=True, window_size=list(camera.size))
    plotter.set_background("white", top="#e9eef4")
    for item in items:
        flat = _is_flat(item.corners)
        solid = {"show_edges": item.edges, "edge_opacity": 0.12, "ambient": 0.4 if item.opacity == 1.0 else 0.25}
        for corners, style in ((item.corners[~flat], solid), (item.corners[flat], {"style": "wireframe"})):
            if len(corners):
                rows = np.arange(3 * len(corners)).reshape(-1, 3)
                mesh = pyvista.PolyData.from_regular_faces(corners.reshape(-1, 3), rows)
                plotter.add_mesh(mesh, color=item.colour, opacity=item.opacity, line_width=item.width, **style)
    has_text = camera.size[0] >= TEXT_FROM
    if has_text:
        name = one_line(title, LONGEST_TITLE)
        texts = [(name, LEGEND_LEFT, 0.955, _title_font(name), "black")]
        for k, item in enumerate(reversed(items)):
            place = (LEGEND_LEFT + LEGEND_INDENT, LEGEND_LOW + LEGEND_STEP * k)
            texts.append((one_line(item.label, LABEL_LETTERS), *place, 11, TEXT_COLOUR))
        for text, x, y, font, colour in texts:
            literal = text.replace("$", r"\$")  # VTK parses formulas between dollar signs
            plotter.add_text(literal, position=(x, y), viewport=True, font_size=font, color=colour)
    up = (0.0, 1.0, 0.0) if abs(camera.elevation) > STEEP else (0.0, 0.0, 1.0)
    plotter.camera_position = [camera.direction, (0.0, 0.0, 0.0), up]
    plotter.reset_camera()
    _zoom_to_fit(plotter.camera, items, camera.size[0] / camera.size[1])
    try:
        pixels = plotter.screenshot(return_img=True)
    finally:
        plotter.close()
    if has_text:
        _add_swatches(pixels, items)
    return np.asarray(pixels)


def _zoom_to_fit(camera: Any, items: list[DrawItem], aspect: float) -> None:
    """Zoom until the scene fills most of the picture and no corner leaves it."""
    if not items:
        return
    forward = np.subtract(camera.focal_point, camera.position)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, camera.up)
    right /= np.linalg.norm(right)
    seen = np.concatenate([item.corners.reshape(-1, 3) for item in items]) - camera.position
    half_height = (seen @ forward) * np.tan(np.radians(camera.view_angle) / 2.0)
    tall = np.abs(seen @ np.cross(right, forward)) / half_height
    wide = np.abs(seen @ right) / (half_height * aspect)
    camera.zoom(FILL / max(float(np.maximum(tall, wide).max()), 0.1))


def _add_swatches(pixels: Pixels, items: list[DrawItem]) -> None:
    """Put a coloured square before each label; pale colours are illegible as text."""
    height, width = pixels.shape[:2]
    side, left = round(0.6 * LEGEND_STEP * height), round(LEGEND_LEFT * width)
    for k, item in enumerate(reversed(items)):
        low = round((1.0 - LEGEND_LOW - LEGEND_STEP * k) * height)
        pixels[low - side : low, left : left + side] = [int(item.colour[i : i + 2], 16) for i in (1, 3, 5)]


def _render_with_matplotlib(items: list[DrawItem], title: str, camera: Camera) -> Pixels:
    agg = optional_module("matplotlib.backends.backend_agg", "pictures need matplotlib; install impinge[picture]")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    figure = Figure(figsize=(camera.size[0] / 100, camera.size[1] / 100), dpi=100)
    canvas = agg.FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 0.95), projection="3d")
    axes.set_axis_off()
    axes.view_init(elev=camera.elevation, azim=camera.azimuth)
    axes.computed_zorder = False  # it sorts whole items by their centre, which hides contacts inside a body
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=1.7)
    reach = max([float(np.linalg.norm(item.corners, axis=2).max()) for item in items], default=1.0) or 1.0
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    for item in items:
        flat = _is_flat(item.corners)
        style = {"alpha": item.opacity, "facecolors": item.colour, "clip_on": False, "zorder": item.opacity}
        if not flat.all():
            axes.add_collection3d(Poly3DCollection(item.corners[~flat], shade=True, **style))
        if flat.any():
            lines = {"edgecolors": item.colour, "linewidths": 0.5 * item.width}
            axes.add_collection3d(Poly3DCollection(item.corners[flat], **lines, **style))
    if camera.size[0] >= TEXT_FROM:
        if items:
            patches = [Patch(color=item.colour, label=one_line(item.label, LABEL_LETTERS)) for item in items]
            for text in axes.legend(handles=patches, loc="lower right").get_texts():
                text.set_parse_math(False)  # a name may hold dollar signs
        name = one_line(title, LONGEST_TITLE)
        figure.suptitle(name, x=0.01, ha="left", fontsize=_title_font(name), parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # draws a box instead
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
