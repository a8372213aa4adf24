"""One html file that says what was asked and what was found: sentences, tables, charts, pictures, all inside of it.

A page is built from top to bottom and written whole. Nothing is loaded from elsewhere: charts are SVG, pictures
are data. Every text is escaped; names of files may hold anything.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

import impinge
from impinge.checks import Floats
from impinge.errors import FileError, MissingExtra
from impinge.view.targets import obstacle, write_whole

WIDTH, HEIGHT = 960, 260
"""Of a chart, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 26, 34
"""Margins of a chart, for its labels."""
STEPS = 5
"""Lines across a chart, about; and twice as many numbers along it."""
COLUMNS = 800
"""Points of a line at most; of several frames in one column the largest value is drawn."""
FRAME_MS = 100
"""How long a frame of a moving picture is shown."""
CELL = 18
"""Width of a cell of a matrix, in pixels."""
LONGEST_NAME = 40
"""Letters of a name beside a matrix; of longer ones the end is shown."""
LETTER = 7.0
"""Width of a letter of such a name, in pixels."""
SLOPE = 60.0
"""Degrees by which names above a matrix rise."""
INSIDE_COLOUR = "#1f6fb2"

_STYLE = """
body { font: 15px/1.55 system-ui, sans-serif; color: #1b2733; background: #fff;
  max-width: 1000px; margin: 0 auto; padding: 2.2em 1.4em 3em }
h1 { font-size: 1.9em; line-height: 1.2; letter-spacing: -.01em; margin: 0 0 .6em; overflow-wrap: anywhere }
h2 { font-size: 1.15em; margin: 2.4em 0 .8em; padding-bottom: .3em; border-bottom: 1px solid #d5dde5 }
.verdict { font-size: 1.1em; padding: .7em 1em; border-left: 5px solid #1f6fb2; background: #f2f5f8 }
.verdict.hit { border-color: #d81b60; background: #fdf1f5 }
.verdict.clear { border-color: #1d9a66; background: #eef8f4 }
.verdict.unsure { border-color: #d98a00; background: #fdf6e9 }
.tiles { display: flex; flex-wrap: wrap; gap: .8em; margin: 1em 0 }
.tiles div { flex: 1 1 130px; padding: .6em .9em; border: 1px solid #d5dde5; border-radius: 6px; color: #5a6b7b }
.tiles b { display: block; font-size: 1.5em; line-height: 1.25; color: #1b2733; font-variant-numeric: tabular-nums }
table { border-collapse: collapse; margin: .6em 0 }
td, th { padding: .3em 1.4em .3em .2em; text-align: left; vertical-align: top; overflow-wrap: anywhere }
tr + tr td { border-top: 1px solid #edf1f5 } th { color: #5a6b7b; font-weight: 600; white-space: nowrap }
td.name { color: #5a6b7b; white-space: nowrap }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1.2em 0 } figcaption { color: #5a6b7b; font-size: .93em }
figure img { max-width: 100%; border: 1px solid #d5dde5; border-radius: 6px }
.legend span { margin-right: .9em; white-space: nowrap } .legend b { font-size: 1.3em }
.row { display: flex; flex-wrap: wrap; gap: 1em } .row figure { flex: 1 1 300px; margin: 0 }
code, pre { background: #f2f5f8; border-radius: 4px; padding: .1em .35em }
pre { padding: .8em 1em; white-space: pre-wrap; overflow-wrap: anywhere }
svg { display: block; max-width: 100%; height: auto; margin: .8em 0 }
svg text { font: 12px system-ui, sans-serif; fill: #5a6b7b } svg text.name { font-weight: 600; fill: #1b2733 }
footer { margin-top: 3em; color: #8a98a6; font-size: .87em }
@media print { body { max-width: none; padding: 0 } figure, svg, tr { break-inside: avoid } }
"""

Tone: TypeAlias = Literal["hit", "clear", "unsure", "plain"]
"""Whether bodies meet, do not, or nobody knows; or none of these."""


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

    def verdict(self, sentence: str, tone: Tone = "plain") -> None:
        """Say what was found and how sure it is, where nobody overlooks it."""
        self._parts.append(f'<p class="verdict {tone}">{html.escape(sentence)}</p>')

    def tiles(self, figures: Iterable[tuple[str, str]]) -> None:
        """Show a few numbers large, each with what it counts."""
        shown = "".join(f"<div><b>{html.escape(value)}</b>{html.escape(label)}</div>" for value, label in figures)
        self._parts.append(f'<div class="tiles">{shown}</div>')

    def facts(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Add names and values, one below the other."""
        body = "".join(f'<tr><td class="name">{html.escape(name)}</td>{_fact(value)}</tr>' for name, value in rows)
        self._parts.append(f"<table>{body}</table>")

    def command(self, line: str) -> None:
        """Add a line to be typed."""
        self._parts.append(f"<pre>{html.escape(line)}</pre>")

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Say what colours mean."""
        spots = " ".join(
            f'<span><b style="color:{colour}">&#9632;</b> {html.escape(label)}</span>' for label, colour in entries
        )
        self._parts.append(f'<p class="legend">{spots}</p>')

    def table(self, rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> None:
        """Add a table; numbers are set to the right."""
        cells = [[_cell(value) for value in row] for row in rows]
        numeric = [all("number" in row[k] for row in cells) and bool(cells) for k in range(len(head))]
        top = "".join(
            f"<th{' class=number' if is_number else ''}>{html.escape(each)}</th>"
            for each, is_number in zip(head, numeric)
        )
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        self._parts.append(f"<table>{f'<tr>{top}</tr>' if head else ''}{body}</table>")

    def chart(
        self,
        values: Floats,
        *,
        across: str,
        up: str,
        at: Floats | None = None,
        marked: Sequence[int] = (),
        mark: str = "",
    ) -> None:
        """Draw a line through ``values``, NaN where there are none; positions in ``marked`` get a red tick.

        ``at`` has the number of each value along the axis, if they do not count from 0.
        """
        drawn = np.asarray(values, dtype=np.float64)
        where = np.arange(len(drawn), dtype=np.float64) if at is None else np.asarray(at, dtype=np.float64)
        self._parts.append(_chart(where, drawn, across, up, marked, mark))

    def matrix(self, names: Sequence[str], values: Floats, *, unit: str, zero: str) -> None:
        """Draw a square of cells, the darker the larger; 0 has a colour of its own and NaN stays empty."""
        self._parts.append(_matrix(names, values))
        largest = np.nanmax(values, initial=0.0)
        entries = [(f"the darker, the more {unit}: up to {largest:,.6g}", _shade(1.0))] if largest > 0.0 else []
        if (values == 0.0).any():
            entries.append((zero, INSIDE_COLOUR))
        self.legend(entries)

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
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
            + "\n".join(self._parts)
            + f"\n<footer>Made by impinge {html.escape(impinge.__version__)}.</footer></body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        try:
            write_whole(path, self.html().encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            raise _not_written(path, error.strerror or str(error)) from error


def check_path(path: Path) -> None:
    """Refuse a path that a report cannot be written to, and a machine that cannot draw, before the work."""
    reason = obstacle(path)
    if reason is not None:
        raise _not_written(path, reason)
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


def _fact(value: Any) -> str:
    """A value beside its name: to the left, whatever it is."""
    is_count = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return f"<td>{html.escape(f'{value:,}' if is_count else str(value))}</td>"


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


def _ticks(low: float, high: float, count: int, *, whole: bool) -> list[float]:
    """Round numbers from ``low`` to ``high`` and no farther, about so many."""
    step = _round_up((high - low) / count) if high > low else 1.0
    if whole:
        step = max(step, 1.0)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [k * step for k in range(first, last + 1)]


def _columns(values: Floats) -> tuple[Floats, Floats]:
    """Where to draw, and how high: runs of values in one column become the largest of them."""
    size = -(-len(values) // COLUMNS)
    starts = np.arange(0, len(values), size)
    filled = np.where(np.isnan(values), -np.inf, values)
    highest = np.maximum.reduceat(filled, starts)
    return starts.astype(np.float64), np.where(np.isinf(highest), np.nan, highest)


def _chart(where: Floats, values: Floats, across: str, up: str, marked: Sequence[int], mark: str) -> str:
    if not len(values):
        return "<p>nothing to draw</p>"
    finite = values[np.isfinite(values)]
    highest = max(float(finite.max()) if len(finite) else 1.0, 0.0) or 1.0
    whole = bool((finite == np.round(finite)).all())
    step = max(_round_up(highest / STEPS), 1.0) if whole else _round_up(highest / STEPS)
    top = step * np.ceil(highest / step - 1e-9)
    begin, length = where[0], max(where[-1] - where[0], 1.0)
    floor = HEIGHT - BOTTOM

    def x(number: float) -> float:
        return float(LEFT + (WIDTH - LEFT - RIGHT) * (number - begin) / length)

    def y(value: float) -> float:
        return float(floor - (floor - TOP) * value / top)

    first, high = _columns(values)
    at = where[first.astype(np.int64)]
    shapes = []
    for value in _ticks(0.0, top, round(top / step), whole=whole):
        shapes.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#e3e9ef"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    numbers = _ticks(begin, where[-1], 2 * STEPS, whole=True)
    shapes += [
        f'<text x="{x(number):.1f}" y="{floor + 16}" text-anchor="middle">{number:,.6g}</text>' for number in numbers
    ]
    for run in np.split(np.arange(len(at)), np.flatnonzero(np.isnan(high)) + 1):
        there = [i for i in run if not np.isnan(high[i])]
        points = " ".join(f"{x(at[i]):.1f},{y(high[i]):.1f}" for i in there)
        if len(there) == 1:
            shapes.append(f'<circle cx="{x(at[there[0]]):.1f}" cy="{y(high[there[0]]):.1f}" r="2" fill="#1f6fb2"/>')
        elif there:
            below = f"M{x(at[there[0]]):.1f},{floor}L{points}L{x(at[there[-1]]):.1f},{floor}Z"
            shapes.append(f'<path d="{below}" fill="#1f6fb2" fill-opacity="0.1"/>')
            shapes.append(f'<polyline points="{points}" fill="none" stroke="#1f6fb2" stroke-width="1.8"/>')
    shapes += [f'<path d="M{x(where[k]):.1f} {floor}v-9" stroke="#d81b60" stroke-width="2"/>' for k in marked]
    shapes.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{html.escape(across)}</text>')
    shapes.append(f'<text class="name" x="{LEFT}" y="14">{html.escape(up)}</text>')
    if len(marked):
        shapes.append(f'<text x="{LEFT}" y="{HEIGHT - 2}">red: {html.escape(mark)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(shapes)}</svg>'


def _shade(share: float) -> str:
    return f"rgba(216,27,96,{0.15 + 0.85 * share:.3f})"


def _matrix(names: Sequence[str], values: Floats) -> str:
    shown = [name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for name in names]
    label = LETTER * max(map(len, shown), default=0) + 12.0
    above, beyond = label * np.sin(np.radians(SLOPE)) + 6.0, label * np.cos(np.radians(SLOPE))
    largest = np.nanmax(values, initial=0.0)
    shapes = []
    for i, name in enumerate(names):
        text = html.escape(shown[i])
        x, y = label + i * CELL + 0.6 * CELL, above - 5.0
        shapes.append(f'<text x="{label - 6:.1f}" y="{above + i * CELL + 13:.1f}" text-anchor="end">{text}</text>')
        shapes.append(f'<text transform="translate({x:.1f} {y:.1f}) rotate({-SLOPE:g})">{text}</text>')
        for j, other in enumerate(names):
            value = values[i, j]
            shade = "#f2f5f8" if np.isnan(value) else _shade(value / largest) if value else INSIDE_COLOUR
            told = "" if np.isnan(value) else f"<title>{html.escape(f'{name} and {other}: {value:,.6g}')}</title>"
            where = f'x="{label + j * CELL:.1f}" y="{above + i * CELL:.1f}" width="{CELL - 1}" height="{CELL - 1}"'
            shapes.append(f'<rect {where} rx="2" fill="{shade}">{told}</rect>')
    width, height = label + CELL * len(names) + beyond, above + CELL * len(names)
    shown_width = min(width, WIDTH)
    return f'<svg viewBox="0 0 {width:.1f} {height:.1f}" width="{shown_width:.0f}" role="img">{"".join(shapes)}</svg>'
