"""The report of ``impinge check``: what was asked, what was found, pictures from three sides, and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from impinge.detect.common.results import Kind
from impinge.queries import Report
from impinge.view.drawing import drawing_of
from impinge.view.picture import draw_parts, parts_of_pairs, write_picture
from impinge.view.report import Page, Tone
from impinge.view.sides import add_sides
from impinge.view.words import counted, said

LISTED = 20
"""Pairs that are listed; all of them go to ``--out``."""


def check_title(report: Report, names: Sequence[str]) -> str:
    """What was found in one line, for a picture."""
    pairs = counted(len(report.pairs), "pair of triangles meets", "pairs of triangles meet")
    volume = f", they share a volume of {report.overlap.volume:.4g}" if report.overlap else ""
    return f"{said(report.relation, *names)}{f': {pairs}' if len(report.pairs) else ''}{volume}"


def check_picture(report: Report, names: Sequence[str], path: Path) -> None:
    """Draw both bodies, called by their names, and what was found."""
    write_picture(draw_parts(parts_of_pairs(report.pairs, names, report.curves), check_title(report, names)), path)


def check_report(report: Report, *, names: Sequence[str], asked: Sequence[tuple[str, Any]], command: str) -> Page:
    """One page about two bodies, which it calls by their names."""
    page = Page(said(report.relation, *names))
    tone: Tone = "unsure" if not report.pairs.complete else "clear" if report.relation == "disjoint" else "hit"
    page.verdict(drawing_of(report.pairs, ()).sentence, tone)
    page.tiles(_figures(report))
    page.section("What was asked")
    page.facts(asked)
    page.section("What was found")
    page.facts([(name.strip(), value) for name, value in report.in_words()])
    page.section("Pictures")
    parts = parts_of_pairs(report.pairs, names, report.curves)
    add_sides(page, parts, "The bodies, the triangles that meet, and the curves in which the surfaces cross.")
    if len(report.pairs):
        _list_pairs(page, report)
    page.section("How to repeat it")
    page.command(command)
    return page


def _figures(report: Report) -> Iterator[tuple[str, str]]:
    yield f"{len(report.pairs):,}", "pairs of triangles"
    if report.overlap is not None:
        yield f"{report.overlap.volume:.4g}", "volume that both share"
    if report.deepest is not None:
        yield f"{float(report.deepest.depth[0]):.4g}", "deepest"
    if report.curves is not None and len(report.curves):
        yield f"{report.curves.length:.4g}", "length of the curves of crossing"


def _list_pairs(page: Page, report: Report) -> None:
    pairs = report.pairs
    page.section("Triangles that meet")
    if len(pairs) > LISTED:
        page.text(f"The first {LISTED} of {len(pairs):,}; the option --out writes all of them.")
    rows = [(int(a), int(b), kind_name(kind)) for (a, b), kind in zip(pairs.pairs[:LISTED], pairs.kind[:LISTED])]
    page.table(rows, head=("triangle of a", "triangle of b", "how they meet"))


def kind_name(kind: Any) -> str:
    """How two triangles meet, in a word."""
    return Kind(int(kind)).name.lower()
