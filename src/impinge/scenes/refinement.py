"""A body in two resolutions at once: coarse triangles, and fine ones where something is near.

The multi-resolution use that [HatabKheddar2006, VII] announces: finer is the removal of a few rough triangles and the
addition of many small ones. Both versions lie in one pool of triangles and share its vertices; which of them take part
is a list of ids (``active_a=``), so that a detector without a structure pays for those only. Each coarse triangle is
either active itself, or its fine ones are: the surface is covered once. (Where a fine region ends, fine vertices lie
off the coarse edge, as the bumps do; the seam is as wide as that.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from impinge.checks import Bools, Floats, Ints
from impinge.deform.waves import Wave
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

NEAR = 1.15
"""Distance to the middle of the other body, whose radius is 1, within which triangles of ``refined_pair`` are fine."""


@dataclass
class Refined:
    """A body whose pool holds a coarse and a fine version, and which of its triangles are active."""

    body: TriMesh
    coarse_count: int
    """Triangles below this id are coarse; fine ones of coarse triangle t follow from ``fine_of(t)`` on."""
    fine_per_coarse: int
    is_fine: Bools = field(repr=False)
    """Which coarse triangles are replaced by their fine ones, shape (coarse_count,)."""

    @property
    def active(self) -> Ints:
        """Sorted ids of the triangles that take part: for ``active_a=`` or ``active_b=``."""
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
        """Make the coarse triangles of ``touched`` ones fine, with ``rings`` of neighbours, and all others coarse.

        Returns how many coarse triangles changed.
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
    """A bumpy sphere with ``coarse`` and ``fine`` subdivisions in one pool; all of it is coarse at first."""
    if not 0 <= coarse < fine:
        raise OptionError(f"coarse is {coarse} and fine {fine}, expected 0 <= coarse < fine: numbers of subdivisions")
    rough, smooth = shapes.icosphere(coarse), shapes.bumpy_sphere(fine, center=center)
    # Subdividing keeps the vertices and puts the four parts of a triangle in its place, so that ids tell who is whose.
    count = len(rough.faces)
    body = TriMesh(np.array(smooth.vertices), np.concatenate([rough.faces, smooth.faces]))
    return Refined(body, count, 4 ** (fine - coarse), np.zeros(count, dtype=np.bool_))


def refined_pair(coarse: int, fine: int) -> tuple[TriMesh, TriMesh]:
    """Two bodies of coarse triangles, fine where one is near the other; those that do not take part are dead."""
    scene = refinement_scene(coarse, fine)
    middles = [side.body.vertices.mean(axis=0) for side in (scene.a, scene.b)]
    for side, other in ((scene.a, middles[1]), (scene.b, middles[0])):
        body = side.body
        corners = body.vertices[body.faces[: side.coarse_count]]
        near = np.linalg.norm(corners.mean(axis=1) - other, axis=1) < NEAR
        side.refine_near(np.flatnonzero(near), rings=0)
        body.remove_triangles(np.setdiff1d(np.arange(len(body.faces)), side.active))
    return scene.a.body, scene.b.body


@dataclass
class RefinementScene:
    """Two refined bodies that approach, part and deform; regions in contact switch to fine from frame to frame."""

    a: Refined
    b: Refined
    rest_a: Floats = field(repr=False)
    rest_b: Floats = field(repr=False)
    wave: Wave = field(default_factory=lambda: Wave(0.03, 4.0, angular_speed=2.0), repr=False)

    def move(self, t: float) -> None:
        """Update both bodies to time ``t``; they are nearest at t = 0, 1, 2, ..."""
        gap = 0.5 * (1.0 - np.cos(2.0 * np.pi * t))
        self.a.body.update(self.wave(self.rest_a, t))
        self.b.body.update(self.wave(self.rest_b, t + 1.7) + np.array((gap, 0.0, 0.0)))

    def refine(self, pairs: Ints) -> int:
        """Switch to fine where the last pairs were, and to coarse elsewhere; returns how many triangles changed."""
        return self.a.refine_near(pairs[:, 0]) + self.b.refine_near(pairs[:, 1])


def refinement_scene(coarse: int = 3, fine: int = 6) -> RefinementScene:
    """Two bumpy spheres of 20 · 4^coarse and 20 · 4^fine triangles in one pool each, in contact at first."""
    a, b = refined_sphere(coarse, fine), refined_sphere(coarse, fine, center=(1.7, 0.3, 0.2))
    return RefinementScene(a, b, np.array(a.body.vertices), np.array(b.body.vertices))
