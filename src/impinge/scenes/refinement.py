"""A body in two resolutions: coarse triangles, and fine ones near contact.

The multi-resolution use of [HatabKheddar2006, VII]: refinement removes a few coarse triangles and adds many fine ones.
Both resolutions are in one pool of triangles and share its vertices. A list of ids selects the active ones
(``active_a=``), and a detector without a tree pays for those only. Either a coarse triangle or its fine ones are
active: the surface is covered once. At the border of a fine region, fine vertices lie off the coarse edge by the height
of the bumps; the seam is as wide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from impinge.checks import Bools, Ints
from impinge.deform.waves import Wave
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

NEAR = 1.15
"""Distance to the centre of the other body (radius 1) below which triangles of ``refined_pair`` are fine."""


@dataclass
class Refined:
    """A body with coarse and fine triangles, and which of them are active."""

    body: TriMesh
    coarse_count: int
    """Triangles below this id are coarse; ``fine_of`` lists the fine ones."""
    fine_per_coarse: int
    is_fine: Bools = field(repr=False)
    """Coarse triangles replaced by their fine ones, shape (coarse_count,)."""

    @property
    def active(self) -> Ints:
        """Sorted ids of active triangles, for ``active_a=`` or ``active_b=``."""
        coarse = np.flatnonzero(~self.is_fine)
        return np.concatenate([coarse, self.fine_of(np.flatnonzero(self.is_fine)).reshape(-1)]).astype(np.int32)

    def fine_of(self, coarse: Ints | np.ndarray) -> Ints:
        """Ids of the fine triangles that replace coarse ones, shape (len(coarse), fine_per_coarse)."""
        first = self.coarse_count + self.fine_per_coarse * np.asarray(coarse)[:, None]
        return (first + np.arange(self.fine_per_coarse)).astype(np.int32)

    def coarse_of(self, ids: Ints | np.ndarray) -> Ints:
        """The coarse triangle that each triangle is or replaces."""
        ids = np.asarray(ids)
        of_fine = (ids - self.coarse_count) // self.fine_per_coarse
        return np.where(ids < self.coarse_count, ids, of_fine).astype(np.int32)

    def refine_near(self, touched: Ints | np.ndarray, *, rings: int = 1) -> int:
        """Refine the coarse triangles of ``touched`` ones with ``rings`` of neighbours, and coarsen all others.

        Returns the number of coarse triangles that changed.
        """
        faces = self.body.faces[: self.coarse_count]
        wanted = np.zeros(self.coarse_count, dtype=np.bool_)
        wanted[self.coarse_of(touched)] = True
        for _ in range(rings):
            near = np.zeros(len(self.body.vertices), dtype=np.bool_)
            near[faces[wanted]] = True
            wanted = np.asarray(near[faces].any(axis=1))
        changed = int((wanted != self.is_fine).sum())
        self.is_fine = wanted
        return changed


def refined_sphere(coarse: int, fine: int, *, center: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Refined:
    """A bumpy sphere with ``coarse`` and ``fine`` subdivisions in one pool, initially coarse."""
    if not 0 <= coarse < fine:
        raise OptionError(f"coarse is {coarse} and fine {fine}, expected 0 <= coarse < fine: numbers of subdivisions")
    rough, smooth = shapes.icosphere(coarse), shapes.bumpy_sphere(fine, center=center)
    # Subdivision keeps the vertices and replaces a triangle by its four children in place: ids give the parent.
    count = len(rough.faces)
    body = TriMesh(np.array(smooth.vertices), np.concatenate([rough.faces, smooth.faces]))
    return Refined(body, count, 4 ** (fine - coarse), np.zeros(count, dtype=np.bool_))


def refined_pair(coarse: int, fine: int) -> tuple[TriMesh, TriMesh]:
    """Two bodies of coarse triangles, fine near the other body; inactive triangles are dead."""
    scene = RefinementScene(coarse, fine)
    middles = [side.body.vertices.mean(axis=0) for side in (scene.a, scene.b)]
    for side, other in ((scene.a, middles[1]), (scene.b, middles[0])):
        body = side.body
        corners = body.vertices[body.faces[: side.coarse_count]]
        near = np.linalg.norm(corners.mean(axis=1) - other, axis=1) < NEAR
        side.refine_near(np.flatnonzero(near), rings=0)
        body.remove_triangles(np.setdiff1d(np.arange(len(body.faces)), side.active))
    return scene.a.body, scene.b.body


class RefinementScene:
    """Two refined bodies that approach, separate and deform; regions in contact are refined in each frame.

    Bumpy spheres of 20 · 4^coarse and 20 · 4^fine triangles in one pool each, initially in contact.
    """

    def __init__(self, coarse: int = 3, fine: int = 6) -> None:
        self.a, self.b = refined_sphere(coarse, fine), refined_sphere(coarse, fine, center=(1.7, 0.3, 0.2))
        self._rest_a, self._rest_b = self.a.body.vertices.copy(), self.b.body.vertices.copy()
        self._wave = Wave(0.03, 4.0, angular_speed=2.0)

    def move(self, t: float) -> None:
        """Update both bodies to time ``t``; they are closest at t = 0, 1, 2, ..."""
        gap = 0.5 * (1.0 - np.cos(2.0 * np.pi * t))
        self.a.body.update(self._wave(self._rest_a, t))
        self.b.body.update(self._wave(self._rest_b, t + 1.7) + np.array((gap, 0.0, 0.0)))

    def refine(self, pairs: Ints) -> int:
        """Refine at the last pairs and coarsen elsewhere; returns the number of coarse triangles that changed."""
        return self.a.refine_near(pairs[:, 0]) + self.b.refine_near(pairs[:, 1])
