"""Proximity of a folded cloth with itself, at a margin of half an edge, against the IPC Toolkit.

Every frame brings new positions. Ours takes them and returns all vertex-face and edge-edge pairs within the margin,
with distances and weights. The toolkit finds candidates (its fastest broad phase, boxes widened by half the margin, as
its own contact search does it) and then builds its contacts, for which it computes the distance of each candidate. Both
use all cores. Its candidates must hold as many pairs within the margin as ours: that is counted in some frames, by
distances of its own. The claim: ours is at least three times as fast. Its step does not sort, and gives no weights;
it includes setting up the contacts that its solver wants, in which a vertex that is nearest to an edge becomes
an edge-vertex contact, once. ``STEPS`` stands beside every figure.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import Row, interleaved
from impinge import queries
from impinge.backend import jit
from impinge.checks import Floats
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

CELLS, CELLS_QUICK = 141, 24
"""Cells along each side of the cloth; two triangles each."""
FRAMES = 8
GAP = 0.4
"""Distance of the folded halves, in edges: less than the margin."""
CHECKED = (0, 5)
"""Frames in which the pairs are counted."""
STEPS = {
    "impinge": "update, refit, search, distances, weights, sort",
    "IPC Toolkit, candidates and distances": "boxes, LBVH, candidates, NormalCollisions: a distance per candidate",
    "IPC Toolkit, candidates alone": "boxes, LBVH, candidates; no distances",
}
"""What each timed step includes."""


def run(*, quick: bool = False) -> list[Row]:
    """Time whole frames in turns, and the candidates alone."""
    cells = CELLS_QUICK if quick else CELLS
    body = shapes.cloth_grid(cells, cells)
    frames = [_folded(body.vertices.copy(), cells, 0.1 * frame) for frame in range(FRAMES)]
    margin = 0.5 / cells
    scene = f"folded cloth, {len(body) / 1e3:.3g}k"
    counts = {frame: _count(body, frames[frame], margin) for frame in CHECKED}
    vertex_face, edge_edge = counts[0]
    note = f"{vertex_face} vertex-face, {edge_edge} edge-edge pairs; {jit.thread_count()} threads"
    candidates = {"impinge": _ours(body, frames, margin)}
    if importlib.util.find_spec("ipctk") is None:
        missing = Row(scene, "IPC Toolkit", math.nan, math.nan, math.nan, "not installed; pip install impinge[bench]")
        return [*_timed(scene, candidates, quick, note), missing]
    peer = _Toolkit(body, margin)
    for frame, count in counts.items():
        peer.check(frames[frame], count)
    turns = [itertools.cycle(frames) for _ in range(2)]
    candidates["IPC Toolkit, candidates and distances"] = lambda: peer.contacts(next(turns[0]))
    candidates["IPC Toolkit, candidates alone"] = lambda: peer.candidates(next(turns[1]))
    return _timed(scene, candidates, quick, f"{note}; ipctk {peer.version}")


def _timed(scene: str, candidates: dict[str, Callable[[], object]], quick: bool, note: str) -> list[Row]:
    """Rows with what each step includes beside the figure."""
    rows = interleaved(scene, candidates, rounds=5 if quick else 30, note=note)
    return [replace(row, note=f"{STEPS[row.candidate]}; {row.note}") for row in rows]


def _count(body: TriMesh, x: Floats, margin: float) -> list[int]:
    body.update(x)
    found = queries.proximity(body, margin=margin)
    return [len(found.vertex_face), len(found.edge_edge)]


def _folded(x: Floats, cells: int, t: float) -> Floats:
    """The cloth folded in the middle, with waves that pass through both halves."""
    height = 0.02 * np.sin(40.0 * abs(x[:, 0]) + t) * np.cos(30.0 * x[:, 1]) + np.where(x[:, 0] > 0.0, GAP / cells, 0.0)
    return np.stack([-abs(x[:, 0]), x[:, 1] + 1e-3 / cells * np.sin(1e3 * x[:, 0]), height], axis=1)


def _ours(body: TriMesh, frames: list[Floats], margin: float) -> Callable[[], object]:
    turns = itertools.cycle(frames)

    def step() -> object:
        body.update(next(turns))
        return queries.proximity(body, margin=margin)

    return step


class _Toolkit:
    """The peer, with everything kept that does not change from frame to frame."""

    def __init__(self, body: TriMesh, margin: float) -> None:
        self.ipctk: Any = importlib.import_module("ipctk")
        self.version = self.ipctk.__version__
        self.margin = margin
        self.faces = np.array(body.faces)
        self.edges = self.ipctk.edges(self.faces)
        self.mesh = self.ipctk.CollisionMesh(body.vertices, self.edges, self.faces)
        self.broad_phase = self.ipctk.LBVH()

    def candidates(self, x: Floats) -> Any:
        """Pairs whose boxes overlap."""
        found = self.ipctk.Candidates()
        found.build(self.mesh, np.asfortranarray(x), 0.5 * self.margin, self.broad_phase)
        return found

    def contacts(self, x: Floats) -> Any:
        """Its contacts within the margin, from all candidates' distances."""
        found = self.ipctk.NormalCollisions()
        found.build(self.candidates(x), self.mesh, np.asfortranarray(x), self.margin)
        return found

    def check(self, x: Floats, expected: list[int]) -> None:
        """Refuse to be timed if the candidates hold more or fewer pairs within the margin than ours."""
        found, x = self.candidates(x), np.asfortranarray(x)
        counted = [
            sum(c.compute_distance(c.dof(x, self.edges, self.faces)) <= self.margin**2 for c in rows)
            for rows in (found.fv_candidates, found.ee_candidates)
        ]
        if counted != expected:
            raise AssertionError(f"ipctk has {counted} pairs within the margin, but ours are {expected}")
