"""The bodies of [GressZachmann2004], or substitutes: a door lock, a car, and similar real meshes.

The paper's models (by courtesy of VW and BMW) were never published, and their sizes were in a figure that is lost.
Substitutes have the properties that matter to a tree of boxes: polygon soups of several pieces, long thin triangles
beside small ones, and the same shape at several complexities.

lock  A drilled plate, a second one across it, a coil and a round bolt. Finer curves make thinner triangles, as in
      a CAD export.
car   A hull whose lattice is refined towards its ends, with a cabin and dents, four wheels, and a strip of a few
      slivers along each side.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import impinge
from impinge.checks import Floats
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

SIDE = 2.0
"""Edge of the cube that every object is scaled into."""

FILES = {"turbine wheel": "cad/turbine.off", "car body shell": "open/beetle.off"}
"""Real meshes below the folder that IMPINGE_DATA names: a CAD part, and a car."""


@dataclass(frozen=True)
class Body:
    """An object of the experiment, scaled and centred."""

    kind: str
    mesh: TriMesh

    @property
    def name(self) -> str:
        """Kind and number of triangles."""
        return f"{self.kind}, {len(self.mesh):,} triangles"

    def copy(self) -> TriMesh:
        """A copy: no two detectors share trees."""
        return TriMesh(self.mesh.vertices, self.mesh.faces)


def lock(fineness: int) -> Body:
    """A CAD-like part; the number of triangles grows with ``fineness``, some 1,250 for each step."""
    plate = shapes.cad_part((3, 2), segments=16 * fineness)
    across = shapes.cad_part((2, 1), segments=8 * fineness, size=(2.0, 1.0, 0.2), center=(0.3, 0.0, 0.0))
    coil = shapes.torus_knot(1, 9, 40 * fineness, 8, major_radius=0.6, minor_radius=0.2, center=(-0.6, 0.1, 0.6))
    bolt = shapes.uv_sphere(8 * fineness, 7, center=(0.9, 0.3, 0.6))
    upright = _moved(across, across.vertices[:, [0, 2, 1]])
    long_bolt = _moved(bolt, bolt.vertices * (0.5, 0.4, 1.0))
    return Body("lock", _in_cube(_joined([plate, upright, coil, long_bolt])))


def car(fineness: int) -> Body:
    """A car-like body; the number of triangles grows with the square of ``fineness``, some 740 for each."""
    hull = shapes.box((2.0, 2.0, 2.0), cells=(12 * fineness, 5 * fineness, 3 * fineness))
    wheel = shapes.uv_sphere(8 * fineness, 5 * fineness)
    wheels = [
        _moved(wheel, wheel.vertices * (0.36, 0.12, 0.36) + (x, y, -0.5)) for x in (-1.2, 1.25) for y in (-0.8, 0.8)
    ]
    strips = [shapes.box((3.4, 0.02, 0.05), (0.0, y, -0.1), cells=(3, 1, 1)) for y in (-0.86, 0.86)]
    return Body("car", _in_cube(_joined([_moved(hull, _car_hull(hull.vertices)), *wheels, *strips])))


def _car_hull(x: Floats) -> Floats:
    """Bend the cube [-1, 1]^3 into a hull with a cabin, its lattice refined towards both ends."""
    crowded = np.sin(0.5 * np.pi * x)
    along, across, up = crowded.T
    cabin = np.clip(1.2 - 2.0 * abs(along + 0.1), 0.0, 1.0)
    dents = 0.02 * np.sin(9.0 * along + 2.0) * np.sin(7.0 * across + 1.0)
    top = np.maximum(up, 0.0)
    return np.stack(
        [
            2.0 * along + 0.02 * np.sin(8.0 * up),
            (0.85 - 0.15 * top * cabin) * across,
            0.45 * up + 0.55 * top * cabin + dents,
        ],
        axis=1,
    )


def real_bodies() -> list[Body]:
    """The files that exist; none where IMPINGE_DATA names no folder."""
    folder = os.environ.get("IMPINGE_DATA")
    if folder is None:
        return []
    found = []
    for kind, file in FILES.items():
        path = Path(folder, file)
        if path.is_file():
            mesh = impinge.load(path)
            assert isinstance(mesh, TriMesh)
            found.append(Body(kind, _in_cube(mesh)))
    return found


def _in_cube(mesh: TriMesh) -> TriMesh:
    """Scale uniformly; centre the bounding box at the origin, with the side of the cube as its longest side."""
    lo, hi = mesh.bounds
    return TriMesh((mesh.vertices - (lo + hi) / 2.0) * (SIDE / (hi - lo).max()), mesh.faces)


def _moved(mesh: TriMesh, x: Floats) -> TriMesh:
    return TriMesh(x, mesh.faces)


def _joined(pieces: list[TriMesh]) -> TriMesh:
    """All pieces as one soup."""
    first = np.cumsum([0, *(len(piece.vertices) for piece in pieces[:-1])])
    faces = [piece.faces + start for piece, start in zip(pieces, first)]
    return TriMesh(np.concatenate([piece.vertices for piece in pieces]), np.concatenate(faces))
