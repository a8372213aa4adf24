"""One html file that says what was asked and what was found: sentences, tables, charts, pictures, all inside of it.

A page is built from top to bottom and written whole. Nothing is loaded from elsewhere: charts are SVG, pictures
are data. Every text is escaped; names of files may hold anything.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from impinge.arrays import Floats
from impinge.errors import FileError, MissingExtra

WIDTH, HEIGHT = 960, 260
"""Of a chart, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 34
"""Margins of a chart, for its labels."""
COLUMNS = 800
"""Points of a line at most; of several frames in one column the largest value is drawn."""
FRAME_MS = 100
"""How long a frame of a moving picture is shown."""
CELL = 18
"""Width of a cell of a matrix, in pixels."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2733; background: #fff;
  max-width: 1000px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em; margin-bottom: .2em } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #d5dde5 }
table { border-collapse: collapse } td, th { padding: .2em .9em .2em 0; text-align: left; vertical-align: top }
th { color: #5a6b7b; font-weight: 600 } td.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1em 0 } figure img { max-width: 100%; border: 1px solid #d5dde5 } figcaption { color: #5a6b7b }
.legend span { font-size: 1.3em; margin-left: .6em } .legend span:first-child { margin-left: 0 }
.row { display: flex; flex-wrap: wrap; gap: 1em } .row figure { flex: 1 1 300px; margin: 0 }
code, pre { background: #f2f5f8; padding: .1em .35em } pre { padding: .8em; overflow-x: auto }
svg text { font: 12px system-ui, sans-serif; fill: #5a6b7b }
"""


@dataclass
class Page:
    """A report, from top to bottom."""

    title: str
    _parts: list[str] = field(default_factory=list, init=False, repr=False)

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{html.escape(heading)}</h2>")

    def text(self, sentence: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{html.escape(sentence)}</p>")

    def command(self, line: str) -> None:
        """Add a line to be typed."""
        self._parts.append(f"<pre>{html.escape(line)}</pre>")

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Say what colours mean."""
        spots = "".join(
            f'<span style="color:{colour}">&#9632;</span> {html.escape(label)} ' for label, colour in entries
        )
        self._parts.append(f'<p class="legend">{spots}</p>')

    def table(self, rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> None:
        """Add a table; numbers are set to the right."""
        top = "".join(f"<th>{html.escape(each)}</th>" for each in head)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self._parts.append(f"<table>{f'<tr>{top}</tr>' if head else ''}{body}</table>")

    def chart(self, values: Floats, *, across: str, up: str, marked: Sequence[int] = (), mark: str = "") -> None:
        """Draw a line through ``values``, NaN where there are none; positions in ``marked`` get a red tick."""
        self._parts.append(_chart(np.asarray(values, dtype=np.float64), across, up, marked, mark))

    def matrix(self, names: Sequence[str], values: Floats) -> None:
        """Draw a square of cells, the darker the larger; NaN stays empty."""
        self._parts.append(_matrix(names, values))

    def picture(self, pixels: Any, caption: str) -> None:
        """Add a picture, shape (rows, columns, 3)."""
        data = base64.b64encode(_png(pixels)).decode()
        words = html.escape(caption)
        self._parts.append(
            f'<figure><img alt="{words}" src="data:image/png;base64,{data}"><figcaption>{words}</figcaption></figure>'
        )

    def pictures(self, several: Sequence[Any], captions: Sequence[str]) -> None:
        """Add pictures side by side."""
        self._parts.append('<div class="row">')
        for pixels, caption in zip(several, captions):
            self.picture(pixels, caption)
        self._parts.append("</div>")

    def animation(self, frames: Sequence[Any], caption: str) -> None:
        """Add pictures that follow one another without end, all of one shape (rows, columns, 3)."""
        data = base64.b64encode(_webp(frames)).decode()
        words = html.escape(caption)
        self._parts.append(
            f'<figure><img alt="{words}" src="data:image/webp;base64,{data}"><figcaption>{words}</figcaption></figure>'
        )

    def html(self) -> str:
        """The whole page."""
        title = html.escape(self.title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            part.write_text(self.html(), encoding="utf-8", errors="backslashreplace")
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise _not_written(path, error.strerror or str(error)) from error


def check_path(path: Path) -> None:
    """Refuse a path that a report cannot be written to, and a machine that cannot draw, before the work."""
    if path.is_dir() or not path.parent.is_dir():
        raise _not_written(path, "it is a folder" if path.is_dir() else f"{path.parent} is no folder")
    if not os.access(path.parent, os.W_OK):
        raise _not_written(path, "permission denied")
    if None in (importlib.util.find_spec("pyvista"), importlib.util.find_spec("matplotlib")):
        raise MissingExtra("a report has pictures, which need pyvista and matplotlib; install impinge[picture]")


def _not_written(path: Path, reason: str) -> FileError:
    return FileError(f"the report could not be written to {path} ({reason}); choose a writable .html file")


def _cell(value: Any) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="number">{value:.6g}</td>'
    return f"<td>{html.escape('' if value is None else str(value))}</td>"


def _png(pixels: Any) -> bytes:
    try:
        import matplotlib.image
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib; install impinge[picture]") from error
    file = io.BytesIO()
    matplotlib.image.imsave(file, pixels, format="png")
    return file.getvalue()


def _webp(frames: Sequence[Any]) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra("moving pictures need Pillow; install impinge[picture]") from error
    first, *others = (Image.fromarray(np.ascontiguousarray(frame[:, :, :3])) for frame in frames)
    file = io.BytesIO()
    first.save(file, format="webp", save_all=True, append_images=others, duration=FRAME_MS, loop=0, quality=80)
    return file.getvalue()


# charts -----------------------------------------------------------------------------------------------


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... that is not below a value."""
    if not value > 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value))


def _columns(values: Floats) -> tuple[Floats, Floats]:
    """Where to draw, and how high: runs of values in one column become the largest of them."""
    size = -(-len(values) // COLUMNS)
    starts = np.arange(0, len(values), size)
    filled = np.where(np.isnan(values), -np.inf, values)
    highest = np.maximum.reduceat(filled, starts)
    return starts.astype(np.float64), np.where(np.isinf(highest), np.nan, highest)


def _chart(values: Floats, across: str, up: str, marked: Sequence[int], mark: str) -> str:
    if not len(values):
        return "<p>nothing to draw</p>"
    finite = values[np.isfinite(values)]
    top = _round_up(float(finite.max()) if len(finite) else 1.0)
    last = max(len(values) - 1, 1)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at / last

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    at, high = _columns(values)
    shapes = []
    for k in range(5):
        value = top * k / 4
        shapes.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#e3e9ef"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    labels = sorted({round(last * k / 5) for k in range(6)} if len(values) > 1 else {0})
    shapes += [f'<text x="{x(k):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{k:,}</text>' for k in labels]
    for run in np.split(np.arange(len(at)), np.flatnonzero(np.isnan(high)) + 1):
        there = [i for i in run if not np.isnan(high[i])]
        points = " ".join(f"{x(at[i]):.1f},{y(high[i]):.1f}" for i in there)
        if len(there) == 1:
            shapes.append(f'<circle cx="{x(at[there[0]]):.1f}" cy="{y(high[there[0]]):.1f}" r="2" fill="#1f6fb2"/>')
        elif there:
            shapes.append(f'<polyline points="{points}" fill="none" stroke="#1f6fb2" stroke-width="1.6"/>')
    shapes += [f'<path d="M{x(k):.1f} {HEIGHT - BOTTOM}v-9" stroke="#d81b60" stroke-width="2"/>' for k in marked]
    shapes.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{html.escape(across)}</text>')
    shapes.append(f'<text x="{LEFT + 6}" y="{TOP + 8}">{html.escape(up)}</text>')
    if len(marked):
        shapes.append(f'<text x="{LEFT}" y="{HEIGHT - 2}">red: {html.escape(mark)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(shapes)}</svg>'


def _matrix(names: Sequence[str], values: Floats) -> str:
    label = 8 * min(max(map(len, names), default=0), 40) + 8
    size = CELL * len(names)
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    shapes = []
    for i, name in enumerate(names):
        shown = html.escape(name if len(name) <= 40 else f"…{name[-39:]}")
        shapes.append(f'<text x="{label - 6}" y="{i * CELL + 13}" text-anchor="end">{shown}</text>')
        for j, other in enumerate(names):
            value = values[i, j]
            shade = (
                "#f2f5f8" if np.isnan(value) else f"rgba(216,27,96,{0.15 + 0.85 * value / max(largest, 1e-300):.3f})"
            )
            told = "" if np.isnan(value) else f"<title>{html.escape(f'{name} and {other}: {value:,.6g}')}</title>"
            where = f'x="{label + j * CELL}" y="{i * CELL}" width="{CELL - 1}" height="{CELL - 1}"'
            shapes.append(f'<rect {where} fill="{shade}">{told}</rect>')
    width = label + size
    return f'<svg viewBox="0 0 {width} {size}" width="{min(width, WIDTH)}" role="img">{"".join(shapes)}</svg>'
