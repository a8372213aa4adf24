"""Smooth closed bodies similar to those of the papers, by formula: a liver, a bunny, a dragon, a bull.

1. Sphere.  A cube of ``cells`` x ``cells`` squares per side, projected to the unit sphere: 12 cells² triangles.
2. Lobes.   Ears, horns and legs scale the radius in direction n by 1 + Σ h_i exp((n · d_i - 1) / w_i).
3. Stretch  to an ellipsoid.
4. Bend     along its length (the dragon only).

Bodies face +x, stand on -z, are symmetric in y (except the dragon), and 0.2 m long by default.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

LENGTH = 0.2
"""Default length of a body along x [m]."""

Lobes = tuple[tuple[float, float, float, float, float], ...]
"""Direction (3), height and width; lobes off the plane y = 0 are mirrored."""

BUNNY: Lobes = (
    (0.75, 0.0, 0.65, 0.55, 0.10),  # head
    (0.42, 0.18, 0.89, 0.75, 0.012),  # ears
    (0.75, 0.35, -0.55, 0.30, 0.03),  # paws
    (-0.45, 0.50, -0.75, 0.35, 0.06),  # hind legs
    (-0.98, 0.0, 0.1, 0.25, 0.02),  # tail
)
DRAGON: Lobes = (
    (0.96, 0.0, 0.28, 0.25, 0.03),  # head
    (0.10, 0.97, 0.24, 1.20, 0.02),  # wings
    (0.50, 0.60, -0.62, 0.55, 0.03),  # legs
    (-0.50, 0.60, -0.62, 0.55, 0.03),
    (-1.0, 0.0, 0.1, 0.40, 0.01),  # tail
    *((float(np.cos(a)), 0.0, float(np.sin(a)), 0.25, 0.004) for a in np.linspace(0.8, 2.6, 7)),  # spikes
)
BULL: Lobes = (
    (0.93, 0.0, 0.36, 0.35, 0.05),  # head
    (0.75, 0.28, 0.60, 0.55, 0.008),  # horns
    (0.62, 0.40, -0.67, 0.85, 0.03),  # legs
    (-0.62, 0.40, -0.67, 0.85, 0.03),
    (-0.97, 0.0, 0.24, 0.30, 0.008),  # tail
)


def bunny(cells: int = 41, *, length: float = LENGTH) -> TriMesh:
    """A bunny-like body: upright, a head with two ears, four feet and a tail."""
    return _scaled(*_with_lobes(cells, (1.0, 0.75, 0.95), BUNNY), length)


def dragon(cells: int = 41, *, length: float = LENGTH) -> TriMesh:
    """A dragon-like body: long, bent to an S, with spikes, legs and short wings."""
    x, faces = _with_lobes(cells, (1.8, 0.45, 0.5), DRAGON)
    along = x[:, 0]
    x[:, 1] += 0.35 * np.sin(1.3 * along)
    x[:, 2] += 0.10 * along**2
    return _scaled(x, faces, length)


def bull(cells: int = 41, *, length: float = LENGTH) -> TriMesh:
    """A bull-like body: a barrel on four legs, with a head and two horns."""
    return _scaled(*_with_lobes(cells, (1.3, 0.6, 0.7), BULL), length)


def liver(cells: int = 41) -> TriMesh:
    """A liver-like body, 0.2 m long: a large lobe, a small one, a concavity below."""
    unit, faces = _ball(cells)
    x, y, z = unit.T
    thick = 1.0 - 0.45 * x
    hollow = 0.25 * np.exp(-4.0 * ((x - 0.1) ** 2 + y**2)) * np.clip(-z, 0.0, None)
    return TriMesh(np.stack([0.1 * x, 0.065 * y * thick, 0.045 * (z + hollow) * thick + 0.01 * x * x], axis=1), faces)


def _ball(cells: int) -> tuple[Floats, Ints]:
    """Vertices and faces of a cube projected to the unit sphere."""
    cube = shapes.box(2.0, cells=(cells,) * 3)
    return cube.vertices / np.linalg.norm(cube.vertices, axis=1)[:, None], cube.faces


def _with_lobes(cells: int, axes: tuple[float, float, float], lobes: Lobes) -> tuple[Floats, Ints]:
    unit, faces = _ball(cells)
    reach = np.ones(len(unit))
    for x, y, z, height, width in lobes:
        for side in (y,) if y == 0.0 else (y, -y):
            direction = np.array([x, side, z])
            reach += height * np.exp((unit @ (direction / np.linalg.norm(direction)) - 1.0) / width)
    return unit * reach[:, None] * np.array(axes), faces


def _scaled(x: Floats, faces: Ints, length: float) -> TriMesh:
    """A mesh scaled to a length along x, centred at the origin."""
    low, high = x.min(axis=0), x.max(axis=0)
    return TriMesh((x - 0.5 * (low + high)) * (length / (high[0] - low[0])), faces)
