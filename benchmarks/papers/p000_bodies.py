"""Bodies that stand in for those of [HatabKheddar2006], which were never published, and their trajectories.

"blobs"  spheres of meridians and bands with bumps: a body that its hull describes well.
"knots"  tubes along a trefoil: neither hulls nor planes separate them well.
Both have 1,500 and 13,000 triangles, the numbers of Figs 5 and 6, exactly. The paper's bulls lie between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

BUMPS = Wave(0.12, 4.0)
"""Displacement that turns a sphere into a blob."""
WAVE = Wave(0.04, 4.0, angular_speed=2.0)
"""The paper's "wave function" is not given; this one folds nothing."""
SLANT = np.array((1.0, 0.3, 0.15)) / math.sqrt(1.1125)
"""Direction from a to b, oblique to all axes."""
STEP = 0.05
"""Time step of the wave between frames."""


@dataclass(frozen=True)
class Pair:
    """Two bodies of one kind; positions are those at rest, centred at the origin."""

    name: str
    make: Callable[[], tuple[TriMesh, TriMesh]]
    near: float
    """Distance at which they penetrate deeply."""
    far: float
    """Distance at which they are disjoint."""

    def frames(self, count: int) -> list[Frame]:
        """Positions while b approaches and recedes, both deforming in every frame."""
        rest = [body.vertices.copy() for body in self.make()]
        found = []
        for n in range(count):
            share = 0.5 - 0.5 * math.cos(2.0 * math.pi * n / max(count - 1, 1))
            distance = self.far + (self.near - self.far) * share
            a, b = (WAVE(x, STEP * n + 1.7 * i) for i, x in enumerate(rest))
            found.append(Frame(a, b + distance * SLANT, distance))
        return found


@dataclass(frozen=True)
class Frame:
    """Positions of both bodies at one moment."""

    a: Floats
    b: Floats
    distance: float
    """Distance of the centres of the bodies."""


def blobs(meridians: int, bands: int) -> Pair:
    """Two bumpy spheres of 2 meridians (bands - 1) triangles each."""

    def make() -> tuple[TriMesh, TriMesh]:
        sphere = shapes.uv_sphere(meridians, bands)
        return tuple(TriMesh(BUMPS(sphere.vertices, 1.7 * i), sphere.faces) for i in range(2))  # type: ignore[return-value]

    return Pair(f"blobs of {2 * meridians * (bands - 1):,} triangles", make, near=0.5, far=2.4)


def knots(rings: int, sides: int) -> Pair:
    """Two trefoils of 2 rings sides triangles each, the second on its side."""

    def make() -> tuple[TriMesh, TriMesh]:
        a, b = (shapes.torus_knot(2, 3, rings, sides, tube_radius=0.25) for _ in range(2))
        size = float(np.abs(a.vertices).max())
        a.update(a.vertices / size)
        b.update(b.vertices[:, [1, 2, 0]] / size)
        return a, b

    return Pair(f"knots of {2 * rings * sides:,} triangles", make, near=0.5, far=2.4)


SMALL, LARGE = (30, 26), (100, 66)
"""Meridians and bands for 1,500 and for 13,000 triangles."""
SMALL_KNOT, LARGE_KNOT = (75, 10), (325, 20)
"""Rings and sides for as many."""
