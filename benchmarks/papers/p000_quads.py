"""Two bodies whose quads flip their diagonals: half of the triangles can be replaced in every frame.

A quad carries two triangles, on one side or the other of one of its two diagonals. Flipping it replaces both, and the
surface stays closed and covered once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.p000_bodies import BUMPS, SLANT, WAVE
from impinge.checks import Bools, Floats, Ints
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

DISTANCE = 1.4
"""Distance between the bodies."""


class Quads:
    """A bumpy sphere whose quads carry one diagonal or the other, and the frames of two of them."""

    def __init__(self, meridians: int, bands: int) -> None:
        sphere = shapes.uv_sphere(meridians, bands)
        self.triangles = len(sphere)
        self.count = meridians * (bands - 2)
        first = sphere.faces[: 2 * self.count].reshape(-1, 2, 3)  # corners a b c and a c d
        a, b, c, d = first[:, 0, 0], first[:, 0, 1], first[:, 0, 2], first[:, 1, 2]
        self.diagonal = np.stack([first, np.stack([np.stack([a, b, d], 1), np.stack([b, c, d], 1)], 1)])
        """Triangles of each quad, by diagonal, shape (2, count, 2, 3)."""
        self.poles = sphere.faces[2 * self.count :]
        self.rest = [BUMPS(sphere.vertices, 1.7 * i) + i * DISTANCE * SLANT for i in range(2)]

    def frames(self, count: int) -> list[Frame]:
        """Positions and, for each body, the quads that are flipped: a quarter of the triangles' number each."""
        rng = np.random.default_rng(0)
        flips = min(self.triangles // 4, self.count)
        return [
            Frame(
                [WAVE(x, 0.05 * n + 1.7 * i) for i, x in enumerate(self.rest)],
                [np.sort(rng.permutation(self.count)[:flips]) for _ in range(2)],
            )
            for n in range(count)
        ]

    def body(self, i: int) -> TriMesh:
        """Body 0 or 1, all quads with their first diagonal."""
        return TriMesh(self.rest[i], np.concatenate([self.diagonal[0].reshape(-1, 3), self.poles]))

    def pool(self, i: int) -> TriMesh:
        """The same with both diagonals at once: first, second, poles."""
        return TriMesh(self.rest[i], np.concatenate([self.diagonal.reshape(-1, 3), self.poles]))

    def active(self, flipped: Bools) -> Ints:
        """Ids in the pool when these quads are flipped."""
        quad = np.arange(self.count) + np.where(flipped, self.count, 0)
        pairs = (2 * quad[:, None] + np.arange(2)).reshape(-1)
        poles = 4 * self.count + np.arange(len(self.poles))
        return np.sort(np.concatenate([pairs, poles])).astype(np.int32)


@dataclass(frozen=True)
class Frame:
    """Positions of both bodies, and the quads whose diagonal flips before this frame."""

    x: list[Floats]
    flips: list[NDArray[np.int64]]


class Flipping:
    """A body whose diagonals flip; triangles to remove and to add are precomputed, an edit is one call each."""

    def __init__(self, quads: Quads, i: int) -> None:
        self._quads, self._i = quads, i
        self.body = quads.body(i)
        self._flipped = np.zeros(quads.count, dtype=np.bool_)
        self._ids = np.arange(2 * quads.count).reshape(-1, 2)
        self._flip: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows = np.zeros((0, 3), dtype=np.int32)

    def prepare(self, frame: Frame) -> None:
        """Move the vertices, and select the triangles to add."""
        self.body.update(frame.x[self._i])
        self._flip = frame.flips[self._i]
        self._flipped[self._flip] ^= True
        self._rows = self._quads.diagonal[self._flipped[self._flip].astype(int), self._flip].reshape(-1, 3)

    def edit(self) -> None:
        """Remove the old triangles and add the new ones."""
        self.body.remove_triangles(self._ids[self._flip].reshape(-1))
        self._ids[self._flip] = self.body.add_triangles(self._rows).reshape(-1, 2)
