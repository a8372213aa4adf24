"""A rigid body as one stiff tet: four equal masses with the mass, the centre and the inertia of any solid.

1. Corners  With the second moments of mass S / m = L Lᵀ about the centre c, four masses m / 4 lie at c + L u_i, where
            u_i are (1, 1, 1), (-1, 1, -1), (1, -1, -1), (-1, -1, 1): Σ u_i = 0 and Σ u_i u_iᵀ / 4 = I. L has the
            principal axes as columns, scaled by the square roots of the principal moments.
2. Energy   V μ |F - R|² of the corotated tet with λ = 0 resists deformation alone. Its slowest oscillation has the
            frequency ω² = 2 V μ / (m s), s the largest principal moment; μ follows from ω.

The masses are set directly: density times the volume of the tet would be rounded far from the origin.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints
from impinge.deform.fem import Corotated
from impinge.deform.materials import Material

UNIT_CORNERS: Floats = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])
"""Corners of a regular tet of positive volume whose second moments are 1."""
TET: Ints = np.array([[0, 1, 2, 3]], dtype=np.int32)
UNIT_VOLUME = 8.0 / 3.0


class RigidTet(Corotated):
    """The four masses of a rigid body.

    Parameters
    ----------
    mass
        Of the body [kg].
    density
        Of the body [kg / m³].
    centre
        Centre of mass at rest, shape (3,) [m].
    axes
        Principal axes at rest as columns, a rotation, shape (3, 3).
    moments
        Second moments of mass along them, divided by the mass, shape (3,) [m²].
    frequency
        Angular frequency of the slowest deformation [1 / s].
    """

    def __init__(
        self, mass: float, density: float, centre: Floats, axes: Floats, moments: Floats, frequency: float
    ) -> None:
        root = np.sqrt(moments)
        self.arms: Floats = (UNIT_CORNERS * root) @ axes.T
        """Corners relative to the centre at rest, shape (4, 3)."""
        self.duals: Floats = 0.25 * (UNIT_CORNERS / root) @ axes.T
        """Σ (x_i - c) dual_iᵀ is the deformation gradient, shape (4, 3)."""
        self.axes, self.centre, self.moments = axes, centre, moments
        self.inertia: Floats = mass * (moments.sum() - moments)
        """Principal moments of inertia, shape (3,) [kg m²]."""
        volume = UNIT_VOLUME * float(root.prod())
        modulus = frequency**2 * mass * float(moments.max()) / volume  # 2 μ, of Poisson's ratio 0
        super().__init__(centre + self.arms, TET, Material(modulus, 0.0, density, 0.0, 0.0))
        self.masses = np.full(4, 0.25 * mass)
