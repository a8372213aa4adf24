"""Proximity of a folded cloth with itself, at a margin of half an edge, against the IPC Toolkit.

Every frame has new positions. Ours returns all vertex-face and edge-edge pairs within the margin, with distances and
weights. The toolkit finds candidates (its fastest broad phase, boxes widened by half the margin, as in its own contact
search) and builds its contacts, which takes the distance of each candidate. Both use all cores. In some frames the
toolkit's own distances are counted: its candidates must hold as many pairs within the margin as ours. The claim: ours
is at least three times as fast. The step of the toolkit does not sort, and has no weights; it includes the setup of
contacts for its solver, in which a vertex closest to an edge becomes one edge-vertex contact. ``STEPS`` stands beside
every figure.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Row, interleaved, unmeasured
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
    """Time whole frames alternately, and the candidates alone."""
    cells = CELLS_QUICK if quick else CELLS
    body = shapes.cloth_grid(cells, cells)
    frames = [_folded(body.vertices.copy(), cells, 0.1 * frame) for frame in range(FRAMES)]
    margin = 0.5 / cells
    scene = f"folded cloth, {len(body) / 1e3:.3g}k"
    counts = {frame: _count(body, frames[frame], margin) for frame in CHECKED}
    vertex_face, edge_edge = counts[0]
    note = f"{vertex_face} vertex-face, {edge_edge} edge-edge pairs; {jit.thread_count()} threads"
    steps: dict[str, Callable[[Floats], object]] = {"impinge": partial(_ours, body, margin)}
    if importlib.util.find_spec("ipctk") is None:
        missing = unmeasured(scene, "IPC Toolkit", "not installed; pip install impinge[bench]")
        return [*_timed(scene, steps, frames, quick, note), missing]
    peer = _Toolkit(body, margin)
    for frame, count in counts.items():
        peer.check(frames[frame], count)
    steps["IPC Toolkit, candidates and distances"] = peer.contacts
    steps["IPC Toolkit, candidates alone"] = peer.candidates
    return _timed(scene, steps, frames, quick, f"{note}; ipctk {peer.version}")


def _timed(
    scene: str, steps: dict[str, Callable[[Floats], object]], frames: list[Floats], quick: bool, note: str
) -> list[Row]:
    """Rows whose notes begin with what each step includes."""
    rows = interleaved(scene, steps, frames, rounds=5 if quick else 30, note=note)
    return [replace(row, note=f"{STEPS[row.candidate]}; {row.note}") for row in rows]


def _count(body: TriMesh, x: Floats, margin: float) -> list[int]:
    body.update(x)
    found = impinge.proximity(body, margin=margin)
    return [len(found.vertex_face), len(found.edge_edge)]


def _folded(x: Floats, cells: int, t: float) -> Floats:
    """The cloth folded in the middle, with waves that pass through both halves."""
    height = 0.02 * np.sin(40.0 * abs(x[:, 0]) + t) * np.cos(30.0 * x[:, 1]) + np.where(x[:, 0] > 0.0, GAP / cells, 0.0)
    return np.stack([-abs(x[:, 0]), x[:, 1] + 1e-3 / cells * np.sin(1e3 * x[:, 0]), height], axis=1)


def _ours(body: TriMesh, margin: float, x: Floats) -> object:
    body.update(x)
    return impinge.proximity(body, margin=margin)


class _Toolkit:
    """The peer; connectivity and broad phase are built once."""

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
        """Raise if the candidates hold more or fewer pairs within the margin than ours."""
        found, x = self.candidates(x), np.asfortranarray(x)
        counted = [
            sum(c.compute_distance(c.dof(x, self.edges, self.faces)) <= self.margin**2 for c in rows)
            for rows in (found.fv_candidates, found.ee_candidates)
        ]
        if counted != expected:
            raise AssertionError(f"ipctk has {counted} pairs within the margin, but ours are {expected}")
