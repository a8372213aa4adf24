"""One self-contained html file: sentences, tables, charts and pictures of a result.

A page is built from top to bottom and written atomically. It loads nothing: charts and pictures are data URIs. Every
text is escaped, since file names may hold markup.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

import impinge
from impinge.checks import Floats
from impinge.errors import MissingExtra, optional_module
from impinge.view import charts
from impinge.view.output_files import OutputFile
from impinge.view.rendering import DEFAULT_CAMERA, Camera, DrawItem, Pixels, encode_picture, render_views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAME_MS = 100
"""Duration of an animation frame."""
VIEW_SIZE = (800, 600)
"""Too small for text in the picture, which would be illegible in a row of three."""
VIEWS = {"front": (-90.0, 0.0), "right": (0.0, 0.0), "top": (-90.0, 90.0)}
"""Azimuth and elevation in degrees."""
ORBIT_FRAMES, ORBIT_SIZE = 36, (640, 480)
"""Pictures of the animation around the scene."""
REPORT_FILE = OutputFile("report", ".html")

Tone: TypeAlias = Literal["hit", "clear", "unsure", "plain"]
"""Colour of a verdict: bodies collide, they do not, the answer is incomplete, or neutral."""
Cell: TypeAlias = str | int | float | Path | None


class Page:
    """A report under construction."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._blocks: list[str] = []

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._blocks.append(f"<h2>{html.escape(heading)}</h2>")

    def text(self, sentence: str) -> None:
        """Add a paragraph."""
        self._blocks.append(f"<p>{html.escape(sentence)}</p>")

    def verdict(self, sentence: str, tone: Tone = "plain") -> None:
        """Add a highlighted sentence: the result and its certainty."""
        self._blocks.append(f'<p class="verdict {tone}">{html.escape(sentence)}</p>')

    def tiles(self, figures: Iterable[tuple[str, str]]) -> None:
        """Add a row of large numbers, each with its label."""
        shown = "".join(f"<div><b>{html.escape(value)}</b>{html.escape(label)}</div>" for value, label in figures)
        self._blocks.append(f'<div class="tiles">{shown}</div>')

    def facts(self, rows: Iterable[tuple[str, Cell]]) -> None:
        """Add names and values in two columns, aligned to the left."""
        body = ""
        for name, value in rows:
            shown = f"{value:,}" if isinstance(value, int | np.integer) and not isinstance(value, bool) else str(value)
            body += f'<tr><td class="name">{html.escape(name)}</td><td>{html.escape(shown)}</td></tr>'
        self._blocks.append(f"<table>{body}</table>")

    def command(self, line: str) -> None:
        """Add a command line."""
        self._blocks.append(f"<pre>{html.escape(line)}</pre>")

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add labels with their colours."""
        spot = '<span><b style="color:{}">&#9632;</b> {}</span>'
        spots = " ".join(spot.format(colour, html.escape(label)) for label, colour in entries)
        self._blocks.append(f'<p class="legend">{spots}</p>')

    def table(self, rows: Iterable[Sequence[Cell]], head: Sequence[str] = ()) -> None:
        """Add a table; numbers are aligned to the right."""
        cells = [[_cell(value) for value in row] for row in rows]
        numeric = [all("number" in row[k] for row in cells) and bool(cells) for k in range(len(head))]
        kinds = [" class=number" if is_number else "" for is_number in numeric]
        top = "".join(f"<th{kind}>{html.escape(each)}</th>" for each, kind in zip(head, kinds))
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        self._blocks.append(f"<table>{f'<tr>{top}</tr>' if head else ''}{body}</table>")

    def chart(
        self, y: Floats, *, across: str, up: str, at: Floats | None = None, marked: Sequence[int] = (), mark: str = ""
    ) -> None:
        """Add a line chart of ``y`` over ``at``, by default over their indices.

        NaN leaves a gap. Indices in ``marked`` get a red tick, which ``mark`` explains. ``across`` and ``up`` label the
        axes.
        """
        y = np.asarray(y, dtype=np.float64)
        x = np.arange(len(y), dtype=np.float64) if at is None else np.asarray(at, dtype=np.float64)
        draw = partial(charts.line_chart, x, y, x_label=across, title=up, marked=marked)
        self._chart(draw, up, f"red: {mark}" if len(marked) else "")

    def matrix(self, names: Sequence[str], values: Floats, *, unit: str, zero: str) -> None:
        """Add a matrix of ``values`` between named bodies, and a legend that explains ``unit`` and ``zero``."""
        self._chart(partial(charts.matrix_chart, names, values), f"{unit} of every pair", "")
        largest = np.nanmax(values, initial=0.0)
        entries = [(f"darker: more {unit}, up to {largest:,.6g}", charts.shade(1.0))] if largest > 0.0 else []
        if (values == 0.0).any():
            entries.append((zero, charts.ZERO_COLOUR))
        self.legend(entries)

    def _chart(self, draw: Callable[[], Figure], title: str, caption: str) -> None:
        """Add a figure, or a sentence where matplotlib is missing."""
        try:
            self._image(charts.svg_bytes(draw()), "svg+xml", caption, alt=title)
        except MissingExtra as missing:
            self.text(f"{title}: {missing}.")

    def picture(self, pixels: Pixels, caption: str) -> None:
        """Add a picture."""
        self._image(encode_picture(pixels), "png", caption)

    def animation(self, frames: Iterable[Pixels], caption: str) -> None:
        """Add pictures of one size as an endless animation."""
        pillow = optional_module("PIL.Image", "animations need Pillow; install impinge[picture]")
        first, *others = (pillow.fromarray(np.ascontiguousarray(frame[:, :, :3])) for frame in frames)
        file = io.BytesIO()
        first.save(file, format="webp", save_all=True, append_images=others, duration=FRAME_MS, loop=0, quality=80)
        self._image(file.getvalue(), "webp", caption)

    def views(self, items: Iterable[DrawItem], caption: str) -> None:
        """Add a legend, pictures from the front, right and top, and an animation around the scene."""
        shown = list(items)
        self.text(caption)
        self.legend([(item.label, item.colour) for item in shown])
        self._blocks.append('<div class="row">')
        cameras = [Camera(azimuth, elevation, VIEW_SIZE) for azimuth, elevation in VIEWS.values()]
        for name, pixels in zip(VIEWS, render_views(shown, caption, cameras)):
            self.picture(pixels, name)
        self._blocks.append("</div>")
        orbit = [
            Camera(DEFAULT_CAMERA.azimuth + turn, DEFAULT_CAMERA.elevation, ORBIT_SIZE)
            for turn in np.linspace(0.0, 360.0, ORBIT_FRAMES, endpoint=False)
        ]
        self.animation(render_views(shown, caption, orbit), "orbit of 360 degrees")

    def _image(self, data: bytes, kind: str, caption: str, *, alt: str | None = None) -> None:
        source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        name = ' class="chart"' if alt is not None else ""
        self._blocks.append(f'<figure{name}><img alt="{html.escape(alt or caption)}" src="{source}">{below}</figure>')

    def html(self) -> str:
        """The whole page."""
        template = Template(files("impinge.view").joinpath("report.html").read_text("utf-8"))
        title, version = html.escape(self.title), html.escape(impinge.__version__)
        return template.substitute(title=title, blocks="\n".join(self._blocks), version=version)

    def write(self, path: Path) -> None:
        """Write the page atomically."""
        REPORT_FILE.write(path, self.html().encode("utf-8", errors="backslashreplace"))


def check_path(path: Path) -> None:
    """Raise where a report cannot be written or its pictures cannot be rendered, before the computation."""
    REPORT_FILE.check(path)
    if None in (importlib.util.find_spec("pyvista"), importlib.util.find_spec("matplotlib")):
        raise MissingExtra("pictures of a report need pyvista and matplotlib; install impinge[picture]")


def _cell(value: Cell) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="number">{value:.6g}</td>'
    return f"<td>{html.escape('' if value is None else str(value))}</td>"
