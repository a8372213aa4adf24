"""The report of ``impinge check``: what was asked, what was found, pictures from three sides, and how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impinge.detect.results import Kind
from impinge.queries import Report
from impinge.view.drawing import drawing_of
from impinge.view.picture import parts_of_pairs
from impinge.view.report import Page
from impinge.view.sides import add_sides

LISTED = 20
"""Pairs that are listed; all of them go to ``--out``."""


def check_report(report: Report, *, title: str, asked: Sequence[tuple[str, Any]], command: str) -> Page:
    """One page about two bodies."""
    page = Page(title)
    page.section("What was asked")
    page.table(asked)
    page.section("What was found")
    page.text(drawing_of(report.pairs, ()).sentence)
    page.table([(name, str(value)) for name, value in report.in_words()])
    page.section("Pictures")
    add_sides(page, parts_of_pairs(report.pairs), "The bodies, and the triangles that meet.")
    if len(report.pairs):
        _list_pairs(page, report)
    page.section("How to repeat it")
    page.command(command)
    return page


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
