"""Charts of reports, drawn by matplotlib: a line over frames, and a matrix of pair counts.

Both functions return a figure; ``svg_bytes`` serialises it. The bytes depend on the data alone: no date, and ids hashed
with a fixed salt.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from impinge.checks import Floats
from impinge.errors import optional_module
from impinge.view.labels import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCH = 96.0
"""Pixels of a web page per inch; sizes below are in pixels of a page."""
LINE_SIZE = (900, 190)
MOST_POINTS = 800
"""Most points of a line; several frames in one point show their largest value."""
CELL = 20
"""Width of a matrix cell."""
MOST_LETTERS = 40
"""Letters of a matrix label; longer names keep their end, where file names differ."""
LABEL_SLOPE = 60.0
"""Slope of the column labels of a matrix in degrees."""
LINE_COLOUR, MARK_COLOUR, TEXT_COLOUR, GRID_COLOUR, EMPTY_COLOUR = "#1f6fb2", "#d81b60", "#5a6b7b", "#e3e9ef", "#f2f5f8"
ZERO_COLOUR = LINE_COLOUR
"""Matrix cells with value 0: one body inside the other, without triangle pairs."""


def shade(share: float) -> str:
    """The colour of a matrix cell, from 0 (pale) to 1 (the largest value)."""
    pale = 0.85 * (1.0 - share)
    return "#" + "".join(f"{round(255 * pale + c * (1.0 - pale)):02x}" for c in (0xD8, 0x1B, 0x60))


def line_chart(x: Floats, y: Floats, *, x_label: str, title: str, marked: Sequence[int] = ()) -> Figure:
    """Plot ``y`` over ``x``; NaN leaves a gap, an isolated value is a dot, indices in ``marked`` get a red tick."""
    figure = _figure(*LINE_SIZE)
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    starts = np.arange(0, len(y), -(-len(y) // MOST_POINTS)) if len(y) else np.zeros(0, dtype=np.int64)
    if len(y):
        peaks = np.maximum.reduceat(np.where(np.isnan(y), -np.inf, y), starts)
        peaks[np.isinf(peaks)] = np.nan
        is_gap = np.concatenate([[True], np.isnan(peaks), [True]])
        isolated = ~is_gap[1:-1] & is_gap[:-2] & is_gap[2:]
        axes.fill_between(x[starts], peaks, color=LINE_COLOUR, alpha=0.1, linewidth=0.0)
        axes.plot(x[starts], peaks, color=LINE_COLOUR, linewidth=1.4)
        axes.plot(x[starts][isolated], peaks[isolated], "o", color=LINE_COLOUR, markersize=3.0)
        axes.vlines(x[list(marked)], 0.0, 0.05, color=MARK_COLOUR, transform=axes.get_xaxis_transform(), clip_on=False)
        axes.set_xlim(x[0], max(x[-1], x[0] + 1.0))
    values = y[np.isfinite(y)]
    y_ticks = MaxNLocator(5, steps=[1, 2, 5, 10], integer=bool((values == np.round(values)).all()))
    ticks = y_ticks.tick_values(0.0, float(values.max(initial=0.0)) or 1.0)
    axes.set_ylim(0.0, ticks[-1])
    axes.yaxis.set_major_locator(y_ticks)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.grid(axis="y", color=GRID_COLOUR)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0.0, colors=TEXT_COLOUR, labelsize=9)
    axes.set_xlabel(one_line(x_label, 80), loc="right", color=TEXT_COLOUR, fontsize=9, parse_math=False)
    axes.set_title(one_line(title, 120), loc="left", fontsize=10, fontweight="bold", parse_math=False)
    return figure


def matrix_chart(names: Sequence[str], values: Floats) -> Figure:
    """Draw a square matrix with its values: darker is larger, 0 has its own colour, NaN is empty."""
    shown = [one_line(name if len(name) <= MOST_LETTERS else f"…{name[1 - MOST_LETTERS :]}", 400) for name in names]
    side = max(CELL * len(names), 1)
    figure = _figure(side, side)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    largest = np.nanmax(values, initial=0.0)
    for (i, j), value in np.ndenumerate(values):
        is_empty, share = np.isnan(value), value / largest if largest > 0.0 else 0.0
        colour = EMPTY_COLOUR if is_empty else shade(share) if value else ZERO_COLOUR
        axes.broken_barh([(j - 0.47, 0.94)], (i - 0.47, 0.94), facecolor=colour)
        if not is_empty:
            text, ink = f"{value:.6g}", "black" if value and share < 0.4 else "white"
            axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=min(8.0, 20.0 / len(text)))
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0.0)
    style: dict[str, Any] = {"parse_math": False, "color": TEXT_COLOUR, "fontsize": 9}
    axes.set_yticks(range(len(names)), shown, **style)
    axes.set_xticks(range(len(names)), shown, rotation=LABEL_SLOPE, ha="left", rotation_mode="anchor", **style)
    return figure


def svg_bytes(figure: Figure) -> bytes:
    """Serialise a figure as SVG; equal figures give equal bytes."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "impinge", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has more fonts
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _figure(width: float, height: float) -> Figure:
    module = optional_module("matplotlib.figure", "charts need matplotlib; install impinge[picture]")
    figure: Figure = module.Figure(figsize=(width / INCH, height / INCH))
    return figure
