"""Soft bodies of tets in other libraries: a body falls onto a level ground.

The scene is the same for all: mesh, lumped masses, Young's modulus, Poisson's ratio, no material damping, Coulomb
friction, frames of 1/60 s. Each library keeps its own contact model and its own elastic energy.

Residual   of a frame from the states before and after: r = M (v1 - v0) / h - f_elastic(x1) - M a - f_contact, with the
           contact forces that the library reports, in the norm √(Σ |r|² / m), relative to that of the weight. 1e-3 is
           an unexplained acceleration of a thousandth of gravity, root mean square over the mass.
Height     mean height of the top less mean height of the bottom: contact penetration does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.peers import Package
from impinge.checks import Floats
from impinge.deform.materials import Material
from impinge.mesh.tet_mesh import TetMesh

GRAVITY = 9.81
"""[m / s²]"""


@dataclass(frozen=True)
class Drop:
    """A body above the ground z = 0, and its material."""

    tets: TetMesh
    youngs_modulus: float
    """[Pa]"""
    friction: float = 0.5
    dt: float = 1.0 / 60.0
    """Length of a frame [s]."""

    @property
    def material(self) -> Material:
        """Elastic, without damping."""
        return Material(self.youngs_modulus, 0.3, 1000.0, damping_dilation=0.0, damping_shear=0.0)

    @property
    def masses(self) -> Floats:
        """A quarter of each tet's mass to each of its corners, shape (n,)."""
        corner = self.tets.vertices[self.tets.tets]
        a, b, c = (corner[:, k] - corner[:, 0] for k in (1, 2, 3))
        mass = self.material.density * np.abs(np.einsum("ij,ij->i", np.cross(a, b), c)) / 6.0
        total = np.zeros(len(self.tets.vertices))
        np.add.at(total, self.tets.tets, mass[:, None] / 4.0)
        return total

    def height(self, x: Floats) -> float:
        """Of vertices that were at the top above those that were at the bottom."""
        z = self.tets.vertices[:, 2]
        is_top, is_bottom = z > z.max() - 1e-6, z < z.min() + 1e-6
        return float(x[is_top, 2].mean() - x[is_bottom, 2].mean())

    @property
    def uniaxial_compression(self) -> float:
        """Compression of a bar by its own weight, ρ g H² / (2 E) [m]."""
        return self.material.density * GRAVITY * self.height(self.tets.vertices) ** 2 / (2.0 * self.youngs_modulus)


class SoftBodyPeer(Package):
    """A library that simulates a drop: ``prepare`` once, then ``step`` for each frame."""

    drop: Drop
    has_residual: bool = False
    """Whether ``residual`` is known; where it is not, ``why_no_residual`` gives the reason."""
    why_no_residual: str = ""

    def refusal(self, drop: Drop) -> str | None:  # noqa: ARG002
        """The reason why a drop would take too long, None if it would not."""
        return None

    def prepare(self, drop: Drop) -> None:
        """Build the body and the ground."""
        raise NotImplementedError

    def step(self) -> None:
        """Advance by a frame."""
        raise NotImplementedError

    def observe(self) -> None:
        """Record from now on what ``forces`` and ``iterations`` need."""

    def state(self) -> tuple[Floats, Floats]:
        """Copies of positions and velocities."""
        raise NotImplementedError

    def forces(self, x: Floats) -> Floats:
        """Elastic forces at ``x`` and the contact forces of the last frame."""
        raise NotImplementedError

    def iterations(self) -> float:
        """Iterations of the solver in the last frame."""
        raise NotImplementedError

    def remark(self) -> str:
        """What else to report of the run, a few words."""
        return ""

    def residual(self, before: Floats) -> float:
        """Relative residual of the last frame; ``before`` are the velocities at its start."""
        mass = self.drop.masses[:, None]
        x, v = self.state()
        r = mass * (v - before) / self.drop.dt - self.forces(x)
        r[:, 2] += mass[:, 0] * GRAVITY
        return float(np.sqrt((r**2 / mass).sum() / (GRAVITY**2 * mass.sum())))
