"""When to rebuild a tree: bodies that deform far, and bodies that are edited thousands of times.

Deformed   A body twists by several turns, explodes, is turned inside out, over many frames, next to a fixed one. The
           candidates differ in how far the blocks may grow, relative to the whole body, before the tree is rebuilt
           (``REBUILD_GROWTH``): never, at several thresholds, and in every frame.
Edited     Triangles are removed and added at random, some per frame. The candidates differ in the share of edited
           triangles from which the tree is rebuilt (``REBUILD_SHARE``); one rebuilds in every frame. A second table has
           the cost of one small edit on bodies of several sizes: it should not grow with the mesh.
Counters   Builds and triangle tests are the same on every machine and stand in the notes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.measure import Row, timed
from impinge.checks import Floats
from impinge.deform.waves import explode, turn_inside_out, twist
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes import tree
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.detect.common.results import TrianglePairs
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

DEFORMATIONS: dict[str, Callable[[Floats, float], Floats]] = {
    "twisted by four turns": lambda x, t: twist(x, 8.0 * np.pi * t),
    "exploded": lambda x, t: explode(x, 3.0 * t),
    "turned inside out": turn_inside_out,
}
GROWTHS = (1.0, 1.5, 2.0, 3.0, 5.0, math.inf)
"""1 rebuilds in every frame in which the boxes are larger than at the build; inf never does."""
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, math.inf)


def run(*, quick: bool = False) -> list[Row]:
    """Measure all; ``quick`` takes small bodies and few frames."""
    subdivisions, frames, edits = (3, 10, 30) if quick else (6, 60, 2000)
    rows = []
    for name, deform in DEFORMATIONS.items():
        rows += _deformed(name, deform, subdivisions, frames)
    rows += _edited(4 if not quick else 3, edits)
    rows += _edit_by_size((3, 4) if quick else (5, 6, 7))
    return rows


@contextmanager
def _limits(*, growth: float = math.inf, share: float = math.inf) -> Iterator[None]:
    """Set the rebuild thresholds within the block."""
    before = tree.REBUILD_GROWTH, tree.REBUILD_SHARE
    tree.REBUILD_GROWTH, tree.REBUILD_SHARE = growth, share
    try:
        yield
    finally:
        tree.REBUILD_GROWTH, tree.REBUILD_SHARE = before


def _timed(detector: BoxTree, taken: list[float]) -> TrianglePairs:
    ms, result = timed(detector.query)
    taken.append(ms)
    return result


def _row(scene: str, name: str, taken: list[float], base: float | None, note: str) -> Row:
    """Total time, and its ratio to the first candidate of the scene."""
    total = sum(taken)
    return Row(scene, name, total, statistics.median(taken), total / base if base else 1.0, note)


def _deformed(name: str, deform: Callable[[Floats, float], Floats], subdivisions: int, frames: int) -> list[Row]:
    rows: list[Row] = []
    for growth in GROWTHS:
        a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(0.8, 0.4, 0.2))
        rest = a.vertices.copy()
        with _limits(growth=growth):
            detector, tests = BoxTree(a, b), 0
            taken: list[float] = []
            detector.query()
            for t in np.linspace(0.0, 1.0, frames):
                a.update(deform(rest, float(t)))
                tests += _timed(detector, taken).stats["triangle_tests"]
        tree = a.structure("boxes", TreeOfBoxes)
        note = f"{tree.builds - 1} builds, {tests} triangle tests, slowest frame {max(taken):.3g} ms"
        base = rows[0].min_ms if rows else None
        rows.append(_row(f"{name}, {len(a.faces)} triangles, {frames} frames", f"growth {growth}", taken, base, note))
    return rows


def _edited(subdivisions: int, frames: int) -> list[Row]:
    rows: list[Row] = []
    for share in SHARES:
        rng = np.random.default_rng(0)
        a, b = shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(0.8, 0.4, 0.2))
        with _limits(share=share):
            detector, tests = BoxTree(a, b), 0
            taken: list[float] = []
            detector.query()
            for _ in range(frames):
                _edit(a, rng, 8)
                tests += _timed(detector, taken).stats["triangle_tests"]
        tree = a.structure("boxes", TreeOfBoxes)
        note = f"{tree.builds - 1} builds, {tests} triangle tests, slowest frame {max(taken):.3g} ms"
        base = rows[0].min_ms if rows else None
        scene = f"8 of {len(b.faces)} triangles replaced, {frames} times"
        rows.append(_row(scene, f"share {share}", taken, base, note))
    return rows


def _edit(body: TriMesh, rng: np.random.Generator, count: int) -> None:
    """Remove random triangles, and add as many halves of others."""
    live = np.flatnonzero(body.alive)
    gone = rng.choice(live, count, replace=False)
    corners = body.faces[rng.choice(live, count, replace=False)]
    body.remove_triangles(gone)
    middle = body.add_vertices(0.5 * (body.vertices[corners[:, 0]] + body.vertices[corners[:, 1]]))
    body.add_triangles(np.stack([corners[:, 0], middle, corners[:, 2]], axis=1))


def _edit_by_size(subdivisions: tuple[int, ...]) -> list[Row]:
    """The first query after one small edit against one without: the cost of the edit."""
    rows = []
    for level in subdivisions:
        rng = np.random.default_rng(0)
        body = shapes.bumpy_sphere(level)
        detector = BoxTree(body, shapes.box(0.2, center=(1.0, 0.0, 0.0)))
        detector.query()
        edited: list[float] = []
        still: list[float] = []
        moved: list[float] = []
        for _ in range(40):
            _edit(body, rng, 4)
            _timed(detector, edited)
            _timed(detector, still)
            body.update(body.vertices)
            _timed(detector, moved)
        middle = statistics.median(edited)
        note = (
            f"without an edit {statistics.median(still):.3g} ms, after a motion {statistics.median(moved):.3g} ms; "
            "the ratio is to that without"
        )
        scene, name = "a query after 4 triangles were replaced", f"{len(body.faces)} triangles"
        rows.append(Row(scene, name, min(edited), middle, middle / statistics.median(still), note))
    return rows
