"""Output files of ``impinge check``: report, picture and triangle pairs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from impinge.detect.common.results import Kind, TrianglePairs
from impinge.queries import Report
from impinge.view.drawing import drawing_of
from impinge.view.labels import pairs_label, relation_label
from impinge.view.motion_check import MotionCheck
from impinge.view.output_files import OutputFile
from impinge.view.picture import pair_items
from impinge.view.rendering import render, write_picture
from impinge.view.report import Cell, Page, Tone

PAIRS_FILE = OutputFile("pairs", ".csv or .npz", (".csv", ".npz"))
LISTED = 20
"""Pairs listed in the report; ``--out`` writes all of them."""


def check_picture(report: Report, names: Sequence[str], path: Path) -> None:
    """Draw both bodies with their names, colliding triangles and intersection curves."""
    title = relation_label(report.relation, *names)
    if len(report.pairs):
        title = f"{title}: {pairs_label(len(report.pairs))}"
    if report.overlap:
        title = f"{title}, overlap volume {report.overlap.volume:.4g}"
    write_picture(render(pair_items(report.pairs, names, report.curves), title), path)


def check_report(
    report: Report, *, names: Sequence[str], options: Sequence[tuple[str, Cell]], command: str,
    motion: MotionCheck | None = None,
) -> Page:  # fmt: skip
    """One page about two bodies, and their motion, with the ``options`` and the ``command`` that produced it."""
    pairs = report.pairs
    page = Page(relation_label(report.relation, *names))
    tone: Tone = "unsure" if not pairs.complete else "clear" if report.relation == "disjoint" else "hit"
    sentence = drawing_of(pairs, ()).sentence
    if motion is not None:
        tone, sentence = "hit" if motion else tone, f"{sentence} On the way: {motion.sentence()}."
    page.verdict(sentence, tone)
    tiles = [(f"{len(pairs):,}", "pairs of triangles")]
    if report.overlap is not None:
        tiles.append((f"{report.overlap.volume:.4g}", "overlap volume"))
    if report.deepest is not None:
        tiles.append((f"{float(report.deepest.depth[0]):.4g}", "penetration depth"))
    if report.curves is not None and len(report.curves):
        tiles.append((f"{report.curves.length:.4g}", "length of the intersection curves"))
    page.tiles(tiles)
    page.section("Input")
    page.facts(options)
    page.section("Result")
    page.facts([(name.strip(), value) for name, value in report.in_words()])
    if motion is not None:
        motion.add_to(page, names)
    page.section("Pictures")
    page.views(pair_items(pairs, names, report.curves), "Bodies, colliding triangles and intersection curves.")
    if len(pairs):
        page.section("Colliding triangles")
        if len(pairs) > LISTED:
            page.text(f"The first {LISTED} of {len(pairs):,}; the option --out writes all of them.")
        rows = [(a, b, Kind(kind).name.lower()) for (a, b), kind in zip(pairs.pairs[:LISTED].tolist(), pairs.kind)]
        page.table(rows, head=("triangle of a", "triangle of b", "kind"))
    page.section("Command")
    page.command(command)
    return page


def write_pairs(pairs: TrianglePairs, path: Path) -> None:
    """Write all pairs and their kinds atomically.

    A csv file has one line per pair: triangle of a, triangle of b, name of the kind. An npz file has ``pairs``,
    ``kind`` (values of ``Kind``) and ``complete``.
    """
    file = io.BytesIO()
    if path.suffix.lower() == ".csv":
        names = {int(kind): kind.name.lower() for kind in Kind}
        rows = [f"{a},{b},{names[kind]}" for (a, b), kind in zip(pairs.pairs.tolist(), pairs.kind.tolist())]
        file.write(("\n".join(["triangle_a,triangle_b,kind", *rows]) + "\n").encode())
    else:
        np.savez_compressed(file, pairs=pairs.pairs, kind=pairs.kind, complete=pairs.complete)
    PAIRS_FILE.write(path, file.getvalue())
