"""Smooth closed bodies like those in the papers, by formula: a liver, a bunny, a dragon, a bull.

Each begins as a ball: a cube of ``cells`` x ``cells`` squares on each side, blown up, 12 cells² triangles. Then

1. Stretch  it to an ellipsoid,
2. lobes    pull it out along some directions d_i, by 1 + Σ h_i exp((n · d_i - 1) / w_i) in the direction n: ears,
            horns, legs,
3. bend     it along its length, where it is a dragon.

Bodies look along x, stand on -z, are symmetric in y (the dragon is not), and 0.2 m long unless told otherwise.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

LENGTH = 0.2
"""Of every body, from nose to tail [m]."""

Lobes = tuple[tuple[float, float, float, float, float], ...]
"""Direction (3), height and width; those beside the plane y = 0 have a twin on the other side."""

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
    """A body like a bunny: upright, a head with two ears, four feet and a tail."""
    x, faces = _with_lobes(cells, (1.0, 0.75, 0.95), BUNNY)
    return TriMesh(_long(x, length), faces)


def dragon(cells: int = 41, *, length: float = LENGTH) -> TriMesh:
    """A body like a dragon: long, bent to an S, with spikes on its back, legs and stubs of wings."""
    x, faces = _with_lobes(cells, (1.8, 0.45, 0.5), DRAGON)
    along = x[:, 0]
    x[:, 1] += 0.35 * np.sin(1.3 * along)
    x[:, 2] += 0.10 * along**2
    return TriMesh(_long(x, length), faces)


def bull(cells: int = 41, *, length: float = LENGTH) -> TriMesh:
    """A body like a bull: a barrel on four legs, with a head and two horns."""
    x, faces = _with_lobes(cells, (1.3, 0.6, 0.7), BULL)
    return TriMesh(_long(x, length), faces)


def liver(cells: int = 41) -> TriMesh:
    """A body like a liver, 0.2 m long: a large lobe, a small one, a hollow below."""
    unit, faces = _ball(cells)
    x, y, z = unit.T
    thick = 1.0 - 0.45 * x
    hollow = 0.25 * np.exp(-4.0 * ((x - 0.1) ** 2 + y**2)) * np.clip(-z, 0.0, None)
    return TriMesh(np.stack([0.1 * x, 0.065 * y * thick, 0.045 * (z + hollow) * thick + 0.01 * x * x], axis=1), faces)


def _ball(cells: int) -> tuple[Floats, Ints]:
    """Unit vectors and faces of a cube blown up."""
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


def _long(x: Floats, length: float) -> Floats:
    """Scale to a length along x, with the middle of the box at the origin."""
    low, high = x.min(axis=0), x.max(axis=0)
    return np.asarray((x - 0.5 * (low + high)) * (length / (high[0] - low[0])))
