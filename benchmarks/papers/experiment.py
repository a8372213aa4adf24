"""Results of a repeated experiment: figures, tables of counters, claims with verdicts, a page and a picture.

A claim is judged by order and growth within one run, not by milliseconds, which differ between machines. Exceptions are
times that the paper itself claims, such as frames per second. The rule is fixed before the run, in the code of the
verdict; the page lists the figures that it was applied to.
"""

from __future__ import annotations

import csv
import importlib.metadata
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from benchmarks.measure import Row, machine, write_csv
from impinge.backend import jit
from impinge.errors import FileError, MissingExtra
from impinge.io.csv_files import literal

NOISE = 0.03
"""Differences of times below this share count as none."""

Verdict: TypeAlias = Literal["held", "not held", "not testable here"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the measured figures, and the verdict."""

    text: str
    measured: str
    verdict: Verdict


def judged(text: str, measured: str, holds: bool) -> Claim:
    """A claim that the figures decide."""
    return Claim(text, measured, "held" if holds else "not held")


@dataclass(frozen=True)
class Table:
    """Figures that go into the page, and into a CSV of their own."""

    name: str
    """Part of the file's name."""
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Plot:
    """A picture: ``draw`` gets a matplotlib figure."""

    size: tuple[float, float]
    """Inches."""
    draw: Callable[[Any], None]


@dataclass(frozen=True)
class Experiment:
    """One paper's figure or section, measured here."""

    name: str
    title: str
    protocol: str
    """Protocol and bodies, in Markdown."""
    rows: list[Row]
    claims: list[Claim]
    tables: list[Table]
    plot: Plot
    quick: bool = False
    source: str = "the paper"
    """Origin of the claims."""

    def write(self, folder: Path) -> list[Path]:
        """Write times, tables, picture and page side by side, named by machine; return the files."""
        times = write_csv(self.rows, folder, self.name)
        page = times.with_suffix(".md")
        try:
            tables = [_write_table(table, _named(times, self.name, table)) for table in self.tables]
            picture = _draw(self.plot, times.with_suffix(".png"))
            page.write_text("\n".join(self._lines(picture)) + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"results could not be written to {folder} ({error}); choose another folder") from error
        return [times, *tables, picture, page]

    def _lines(self, picture: Path) -> Iterator[str]:
        yield f"# {self.title}\n"
        if self.quick:
            yield "A quick run on tiny bodies: a smoke test, not a measurement.\n"
        yield f"{machine()}, {_versions()}; {jit.thread_count()} threads ({jit.thread_layer()})\n"
        yield f"{self.protocol.strip()}\n"
        yield "## Claims\n"
        yield from _markdown(
            (self.source, "here", "verdict"), [(claim.text, claim.measured, claim.verdict) for claim in self.claims]
        )
        yield f"![{self.title}]({picture.name})\n"
        yield "## Times\n"
        yield "Minimum and median of all rounds; ratios are those of the minima to the first candidate of the scene.\n"
        yield from _markdown(
            ("scene", "candidate", "least ms", "median ms", "ratio", "note"),
            [(row.scene, row.candidate, row.min_ms, row.median_ms, row.ratio, row.note) for row in self.rows],
        )
        for table in self.tables:
            yield f"## {table.title}\n"
            yield from _markdown(table.columns, table.rows)


def ratio_bars(groups: Mapping[str, Sequence[tuple[str, float]]], *, height: float) -> Plot:
    """One panel per group: bars of the ratios to the first candidate; ``height`` of a panel in inches."""
    columns = min(3, len(groups))
    rows = math.ceil(len(groups) / columns)

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, (group, bars) in zip(panels, groups.items()):
            panel.barh([name for name, _ in bars], [ratio for _, ratio in bars])
            panel.invert_yaxis()
            panel.axvline(1.0, color="black", linewidth=0.8)
            panel.set(title=group, xlabel="time over that of the first")
        for panel in panels[len(groups) :]:
            panel.set_visible(False)

    return Plot((6.0 * columns, height * rows), draw)


def check_plotting() -> None:
    """Raise before the measurement if matplotlib is missing."""
    _figure((1.0, 1.0))


def _named(times: Path, name: str, table: Table) -> Path:
    return times.with_name(times.name.replace(name, f"{name}_{table.name}", 1))


def _write_table(table: Table, path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {machine()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows([_shown(literal(value)) for value in row] for row in table.rows)
    return path


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_shown, row))} |"
    yield ""


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _versions() -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba"))


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots need matplotlib; install impinge[picture]") from error
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw(plot: Plot, path: Path) -> Path:
    figure = _figure(plot.size)
    plot.draw(figure)
    figure.savefig(path, dpi=110)
    return path
