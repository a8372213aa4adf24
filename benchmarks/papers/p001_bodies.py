"""The bodies of [MendozaOSullivan2005], or substitutes: pairs of soft bodies that overlap and deform.

The paper's dragon and bunny are scans; their sizes, tets and spheres are not given. Where IMPINGE_DATA names a folder
that has them, scans are used; else a bumpy ball for the bunny and a knot for the dragon.

Soft      Every body is a dense surface in a coarse tet mesh of cubes, by barycentric weights: spheres can
          follow coarse vertices in any mode.
Second    The second body is rotated (a permutation of axes) and shifted; its spheres are those of the first, moved,
          if both are of one kind.
Motion    ``deform`` sets coarse positions by a wave; ``swing`` releases them with a velocity, ``step`` integrates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

FILES = {"bunny": "closed/bunny_75k.off", "dragon": "closed/dragon_100k.ply"}
"""Scans below the folder that IMPINGE_DATA names."""
SIZE = 2.0
"""Longest side of every body [m]."""
TURNED = [1, 2, 0]
"""Axes of the second body: a rotation that rounds nothing."""
MATERIAL = "liver"
FRAME = 1.0 / 60.0
"""Time between two frames [s]."""
WAVE_NUMBER = 3.0
SLACK = 1e-12
"""Rounding error of moved spheres, as a share of a body's size."""


@dataclass(frozen=True)
class Shape:
    """A surface at the origin, its coarse mesh and its tree of spheres."""

    kind: str
    surface: TriMesh
    tree: SphereHierarchy
    cells: int
    """Cubes along the longest side, of which the coarse mesh is made."""


@dataclass(frozen=True)
class Pair:
    """Two soft bodies that overlap."""

    name: str
    a: SoftBody
    b: SoftBody
    tree_a: SphereHierarchy
    tree_b: SphereHierarchy

    @property
    def bodies(self) -> tuple[SoftBody, SoftBody]:
        """Both."""
        return self.a, self.b

    @property
    def trees(self) -> tuple[SphereHierarchy, SphereHierarchy]:
        """The spheres of both."""
        return self.tree_a, self.tree_b

    def detector(self, **options: Any) -> SphereTree:
        """A detector whose structures are built: no budget is spent on building."""
        made = SphereTree(self.a, self.b, tree_a=self.tree_a, tree_b=self.tree_b, **options)
        made.prepare()
        return made

    def deform(self, amplitude: float, t: float) -> None:
        """Deform both bodies by a wave, with different phases."""
        for phase, body in enumerate(self.bodies):
            rest = body.model.rest
            body.coarse.update(rest + amplitude * _wave(rest, t + 2.0 * phase))

    def swing(self, speed: float) -> None:
        """Set both to rest positions, with velocities that bend them without net translation."""
        for phase, body in enumerate(self.bodies):
            body.reset()
            body.velocities = swing_velocities(body.model.rest, speed, phase)

    def step(self) -> None:
        """Integrate both over one frame, with elastic forces alone."""
        for body in self.bodies:
            body.step(FRAME, gravity=(0.0, 0.0, 0.0))

    def description(self) -> str:
        """Sizes of both bodies, as a text."""
        sizes = [
            f"{len(body.surface):,} triangles, {len(body.coarse.vertices):,} coarse vertices, {len(tree):,} spheres"
            for body, tree in zip(self.bodies, self.trees)
        ]
        return f"{self.name}: {' and '.join(sizes)}" if sizes[0] != sizes[1] else f"{self.name}: {sizes[0]} each"


def swing_velocities(rest: Floats, speed: float, phase: int) -> Floats:
    """Velocities that bend a body without net translation."""
    velocities = speed * _wave(rest, 2.0 * phase)
    return np.asarray(velocities - velocities.mean(axis=0))


def _wave(x: Floats, t: float) -> Floats:
    return np.asarray(np.sin(WAVE_NUMBER * x[:, [1, 2, 0]] + t))


def bunny_like(subdivisions: int) -> TriMesh:
    """A ball with many bumps: 20 · 4^s triangles."""
    return shapes.bumpy_sphere(subdivisions, amplitude=0.08, frequency=14.0)


def dragon_like(rings: int) -> TriMesh:
    """A knot of a thin tube: 2 · rings · (rings // 28) triangles, 70,000 of 1,000 rings."""
    return shapes.torus_knot(2, 3, rings, max(rings // 28, 6))


def scan(kind: str) -> TriMesh | None:
    """The real mesh, if IMPINGE_DATA names a folder that has it."""
    folder = os.environ.get("IMPINGE_DATA")
    path = Path(folder or "", FILES[kind])
    if folder is None or not path.is_file():
        return None
    mesh = impinge.load(path)
    assert isinstance(mesh, TriMesh)
    return mesh


def make_shape(kind: str, surface: TriMesh, *, cells: int, **options: Any) -> Shape:
    """Centre and scale a surface, and build its spheres with ``options``."""
    lo, hi = surface.bounds
    body = TriMesh((surface.vertices - (lo + hi) / 2.0) * (SIZE / (hi - lo).max()), surface.faces)
    return Shape(kind, body, build_spheres(body, **options), cells)


def make_pair(a: Shape, b: Shape, shift: tuple[float, float, float]) -> Pair:
    """Two soft bodies, the second one rotated and shifted."""
    first, second = _soft(a.surface, a.cells), _soft(_moved(b.surface, shift), b.cells)
    return Pair(f"{a.kind} and {b.kind}", first, second, a.tree, _moved_tree(b.tree, second.rest_surface, shift))


def _soft(surface: TriMesh, cells: int) -> SoftBody:
    return SoftBody.from_surface(surface, method="cubes", cells=cells, material=MATERIAL, embedding="barycentric")


def _moved(surface: TriMesh, shift: tuple[float, float, float]) -> TriMesh:
    return TriMesh(surface.vertices[:, TURNED] + np.array(shift), surface.faces)


def _moved_tree(tree: SphereHierarchy, rest: Floats, shift: tuple[float, float, float]) -> SphereHierarchy:
    """The same spheres around the moved surface."""
    slack = SLACK * (SIZE + float(np.abs(shift).max()))
    return replace(
        tree,
        centre=tree.centre[:, TURNED] + np.array(shift),
        radius=tree.radius + slack,
        rest=np.array(rest),
    )
