"""The setups of [Teschner2003], Table 1, and the same bodies joined, shifted and copied.

A, B, C and E are exact: 12 vertices and 10 tets are a box of two cubes, 242 vertices and 500 tets a plate of 10 x 10
cubes, five tets each. The two vessels of D were never published; two tubes of nearly as many tets stand in for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from impinge import scenes
from impinge.checks import Floats
from impinge.mesh.tet_mesh import TetMesh
from impinge.scenes.registry import Scene

GAP = 1.0
"""Gap between the boxes of copies, in addition to the amplitude of the waves."""
SWING = 0.1
"""Amplitude of the waves along each axis, in all setups."""


@dataclass(frozen=True)
class Setup:
    """A row of Table 1 and of Table 2, and its scene here."""

    letter: str
    objects: int
    tets: int
    vertices: int
    paper_ms: tuple[float, float, float, float]
    """Average, minimum, maximum and deviation over 1000 steps on a Pentium 4, 1.8 GHz."""
    table_size: int | None = None
    """Where the paper gives it (Figs 5 and 6)."""
    ours: tuple[int, int, int] | None = None
    """Objects, tets and vertices of a substitute; None if they are the paper's."""

    def scene(self) -> Scene:
        """New bodies; raises if their counts are not those of the table."""
        scene = scenes.get(f"hashing_setup_{self.letter.lower()}")
        found = counts(scene)
        expected = self.ours or (self.objects, self.tets, self.vertices)
        if found != expected:
            raise AssertionError(f"setup {self.letter} has {found} objects, tets and vertices, expected {expected}")
        return scene


SETUPS = {
    "A": Setup("A", 100, 1000, 1200, (4.3, 4.1, 6.5, 0.24), table_size=4999),
    "B": Setup("B", 8, 4000, 1936, (12.6, 11.3, 15.0, 0.59)),
    "C": Setup("C", 20, 10_000, 4840, (30.4, 28.9, 34.4, 1.25)),
    "D": Setup("D", 2, 20_514, 5898, (70.0, 68.5, 72.1, 0.86), table_size=9973, ours=(2, 20_520, 6264)),
    "E": Setup("E", 100, 50_000, 24_200, (172.5, 170.5, 174.6, 1.08)),
}


def tet_bodies(scene: Scene) -> list[TetMesh]:
    """The bodies, known to be of tets."""
    return [body for body in scene.bodies if isinstance(body, TetMesh)]


def counts(scene: Scene) -> tuple[int, int, int]:
    """Objects, tets and vertices."""
    bodies = tet_bodies(scene)
    return len(bodies), sum(map(len, bodies)), sum(len(body.vertices) for body in bodies)


def mean_edge(scene: Scene) -> float:
    """The mean edge length over all tets at their current positions."""
    lengths = []
    for body in tet_bodies(scene):
        corners = body.vertices[body.tets]
        for i in range(4):
            lengths += [np.linalg.norm(corners[:, i] - corners[:, j], axis=1) for j in range(i)]
    return float(np.concatenate(lengths).mean())


# the same bodies in other ways ------------------------------------------------------------------------------


def joined(scene: Scene) -> Scene:
    """All bodies as one: the same tets at the same places; every contact is a self-collision."""

    def build() -> list[TetMesh]:
        bodies = tet_bodies(scene)
        first = np.cumsum([0, *(len(body.vertices) for body in bodies[:-1])])
        tets = [body.tets + start for body, start in zip(bodies, first)]
        return [TetMesh(np.concatenate(scene.rest_positions), np.concatenate(tets))]

    def motion(_: tuple[Floats, ...], t: float) -> tuple[Floats]:
        return (np.concatenate(_positions(scene, t)),)

    return Scene(f"{scene.name}_joined", "All bodies of a scene as one.", build, motion)


def shifted(scene: Scene, centre: tuple[float, float, float]) -> Scene:
    """All bodies translated: the centre of their bounding box is at that point."""
    x = np.concatenate(scene.rest_positions)
    return _moved_copies(scene, [np.asarray(centre) - (x.min(axis=0) + x.max(axis=0)) / 2.0])


def copies(scene: Scene, count: int) -> Scene:
    """Copies side by side, too far apart for contact, which deform alike: contacts per tet are constant."""
    x = np.concatenate(scene.rest_positions)
    period = x.max(axis=0) - x.min(axis=0) + 2.0 * SWING + GAP
    side = math.ceil(round(count ** (1.0 / 3.0), 9))
    return _moved_copies(scene, list(np.argwhere(np.ones((side, side, side)))[:count] * period))


def _moved_copies(scene: Scene, shifts: list[Floats]) -> Scene:
    def build() -> list[TetMesh]:
        return [
            TetMesh(x + shift, body.tets)
            for shift in shifts
            for body, x in zip(tet_bodies(scene), scene.rest_positions)
        ]

    def motion(_: tuple[Floats, ...], t: float) -> tuple[Floats, ...]:
        positions = _positions(scene, t)
        return tuple(x + shift for shift in shifts for x in positions)

    return Scene(f"{scene.name}_moved", "Bodies of a scene at other places.", build, motion)


def _positions(scene: Scene, t: float) -> list[Floats]:
    return [rest if x is None else x for x, rest in zip(scene.positions(t), scene.rest_positions)]
