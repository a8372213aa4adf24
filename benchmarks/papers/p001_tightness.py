"""Tightness of spheres around a body: volume outside the solid, and stand-off.

Volume     of the union of the balls outside of the solid, by points spread at random over the box of the balls
           (seeded): its sampling error is reported.
Stand-off  of each ball, measured at points of it (``sphere_stand_off``).

An open surface has no inside: all of every ball is outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from impinge.backend.jit import kernel, prange
from impinge.checks import Bools, Floats
from impinge.detect.proximity.points_inside import points_inside
from impinge.detect.sphere_tree.build.overshoot import overshoots
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.mesh.tri_mesh import TriMesh
from impinge.published.interruptible import SphereTree

DIRECTIONS = 162
"""Points on a ball: some 12 degrees apart."""


@dataclass(frozen=True)
class Tightness:
    """Tightness of the balls of one level."""

    count: int
    mean_radius: float
    outside_volume: float
    """Of the union of the balls, outside of the solid."""
    outside_error: float
    """Standard deviation of that volume, from the number of points."""
    mean_stand_off: float
    """Mean over the balls."""
    worst_stand_off: float


def tightness_by_level(
    tree: SphereHierarchy | SphereTree, mesh: TriMesh, *, samples: int = 100_000, seed: int = 0
) -> list[Tightness]:
    """Tightness of each level around ``mesh``, which must be at rest; leaves above a level count to it."""
    nodes = [tree.cut(level) for level in range(tree.level_count)]
    return [tightness_of_balls(mesh, tree.centre[n], tree.radius[n], samples=samples, seed=seed) for n in nodes]


def tightness_of_balls(
    mesh: TriMesh, centre: Floats, radius: Floats, *, samples: int = 100_000, seed: int = 0
) -> Tightness:
    """Tightness of balls around a body."""
    volume, error = _outside_volume(mesh, centre, radius, samples, seed)
    stand_off = overshoots(mesh, centre, radius, DIRECTIONS)
    return Tightness(
        count=len(radius),
        mean_radius=float(radius.mean()),
        outside_volume=volume,
        outside_error=error,
        mean_stand_off=float(stand_off.mean()),
        worst_stand_off=float(stand_off.max()),
    )


def _outside_volume(mesh: TriMesh, centre: Floats, radius: Floats, samples: int, seed: int) -> tuple[float, float]:
    lo, hi = (centre - radius[:, None]).min(axis=0), (centre + radius[:, None]).max(axis=0)
    points = lo + (hi - lo) * np.random.default_rng(seed).random((samples, 3))
    is_in = np.zeros(samples, dtype=np.bool_)
    _find_in_any_ball.over(samples)(points, centre, radius, is_in)
    found = points[is_in]
    share = float((~points_inside(mesh, found)).sum()) / samples
    box = float(np.prod(hi - lo))
    return box * share, box * float(np.sqrt(share * (1.0 - share) / samples))


@kernel(parallel_from=64)
def _find_in_any_ball(points: Floats, centre: Floats, radius: Floats, is_in: Bools) -> None:
    """Mark the points that are in one of the balls."""
    for i in prange(len(points)):
        is_in[i] = False
        for n in range(len(radius)):
            dx = points[i, 0] - centre[n, 0]
            dy = points[i, 1] - centre[n, 1]
            dz = points[i, 2] - centre[n, 2]
            if dx * dx + dy * dy + dz * dz <= radius[n] * radius[n]:
                is_in[i] = True
                break
