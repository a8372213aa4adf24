"""Still pictures without a screen: bodies shaded, colliding triangles in colour.

Drawn by pyvista (VTK). Where the system has no OpenGL library VTK would end the process, so there the picture is
drawn by matplotlib instead: slower and flatter, but there.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from impinge.arrays import Floats, Ints
from impinge.detect.results import TrianglePairs
from impinge.errors import FileError, MissingExtra

BODY_COLOURS = ("#7fb2d9", "#e8b878")
HIT_COLOURS = ("#d81b60", "#8e0038")
SIZE = (1200, 900)
EDGES_BELOW = 30_000
"""Bodies with more triangles are drawn without their edges, which would turn into a grey film."""


@dataclass(frozen=True)
class Part:
    """Some triangles of one body, drawn in one way."""

    label: str
    corners: Floats
    """Shape (m, 3, 3)."""
    colour: str
    opacity: float
    edges: bool


def plot_pairs(result: TrianglePairs, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Any:
    """Draw the bodies of ``result`` as they are now. Writes ``path`` and returns it; without one, returns the pixels."""
    draw = _draw_with_vtk if _can_use_opengl() else _draw_with_matplotlib
    pixels = draw(list(_parts(result)), title or _title(result))
    return pixels if path is None else _write(pixels, Path(path))


def _parts(result: TrianglePairs) -> Iterator[Part]:
    hits: list[Ints] = [result.faces_a, result.faces_b] if len(result.bodies) == 2 else [np.unique(result.pairs)]
    for k, (body, hit) in enumerate(zip(result.bodies, hits)):
        name = ("a", "b")[k] if len(result.bodies) == 2 else "body"
        snapshot = body.snapshot()
        corners = snapshot.vertices[snapshot.elements]
        edges = len(snapshot.live) < EDGES_BELOW
        others = np.setdiff1d(snapshot.live, hit)
        if len(others):
            yield Part(f"{name}: {len(snapshot.live)} triangles", corners[others], BODY_COLOURS[k], 0.55, edges)
        if len(hit):
            yield Part(f"{name}: {len(hit)} colliding", corners[hit], HIT_COLOURS[k], 1.0, edges)


def _title(result: TrianglePairs) -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in result.count_by_kind().items() if count)
    complete = "" if result.complete else f", cut short: {result.reason}"
    return f"{len(result)} pairs of triangles meet{f' ({counts})' if counts else ''}{complete}"


def _can_use_opengl() -> bool:
    """Whether VTK can draw; where there is no screen, tell it to draw in memory."""
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        return True
    for library, window in (("EGL", "vtkEGLRenderWindow"), ("OSMesa", "vtkOSOpenGLRenderWindow")):
        if ctypes.util.find_library(library):
            os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", window)
            return True
    return False


def _draw_with_vtk(parts: list[Part], title: str) -> Any:
    try:
        import pyvista
    except ImportError as error:
        raise MissingExtra("pictures need pyvista; install impinge[picture]") from error
    plotter = pyvista.Plotter(off_screen=True, window_size=list(SIZE))
    plotter.set_background("white", top="#e9eef4")
    for part in parts:
        rows = np.arange(3 * len(part.corners)).reshape(-1, 3)
        mesh = pyvista.PolyData.from_regular_faces(part.corners.reshape(-1, 3), rows)
        plotter.add_mesh(mesh, color=part.colour, opacity=part.opacity, show_edges=part.edges, edge_opacity=0.12)
    for k, part in enumerate(reversed(parts)):
        plotter.add_text(part.label, position=(0.015, 0.02 + 0.035 * k), viewport=True, font_size=11, color=part.colour)
    plotter.add_text(title, font_size=13, color="black")
    plotter.camera_position = "iso"
    plotter.camera.azimuth = 25
    plotter.camera.zoom(1.35)
    try:
        return plotter.screenshot(return_img=True)
    finally:
        plotter.close()


def _draw_with_matplotlib(parts: list[Part], title: str) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib; install impinge[picture]") from error
    figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 0.95), projection="3d")
    axes.set_axis_off()
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=1.6)
    for part in parts:
        axes.add_collection3d(Poly3DCollection(part.corners, facecolors=part.colour, alpha=part.opacity, shade=True))
    if parts:
        everything = np.concatenate([part.corners.reshape(-1, 3) for part in parts])
        low, high = everything.min(axis=0), everything.max(axis=0)
        half = 0.5 * max(float((high - low).max()), np.finfo(np.float64).tiny)
        for set_limits, centre in zip((axes.set_xlim, axes.set_ylim, axes.set_zlim), 0.5 * (low + high)):
            set_limits(centre - half, centre + half)
        axes.legend(handles=[Patch(color=part.colour, label=part.label) for part in parts], loc="lower right")
    figure.suptitle(title, x=0.01, ha="left")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _write(pixels: Any, path: Path) -> Path:
    try:
        import matplotlib.image
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib; install impinge[picture]") from error
    try:
        matplotlib.image.imsave(path, pixels)
    except (OSError, ValueError) as error:
        raise FileError(f"the picture could not be written to {path} ({error}); choose a writable .png file") from error
    return path
