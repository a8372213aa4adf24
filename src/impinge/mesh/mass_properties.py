"""Volume, centre and second moments of the solid that a closed surface encloses.

1. Tets      Each triangle (a, b, c) spans a tet with a reference point. With corners relative to that point and
             d = a · (b x c), six times its signed volume:

                 ∫ 1 = d / 6,   ∫ x = d s / 24,   ∫ x xᵀ = d (s sᵀ + a aᵀ + b bᵀ + c cᵀ) / 120,   s = a + b + c.

             Sums over all triangles are the exact integrals over the solid.
2. Reference The middle of the bounding box gives the centre; the moments are then summed relative to the centre.
3. Sign      A surface that is inside out has integrals of the opposite sign, which is reversed.

Guarantee    Errors are those of rounding, relative to the size of the surface, wherever it lies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from impinge.checks import Floats
from impinge.errors import MeshError
from impinge.mesh.tri_mesh import TriMesh

SMALLEST, LARGEST = 1e-30, 1e30
"""Sizes whose fifth powers are in range."""
FLAT = 1e-9
"""Volume relative to the cube of the longest edge of the bounding box below which a surface encloses no solid."""


class MassProperties(NamedTuple):
    """Integrals over a solid of density 1."""

    volume: float
    """∫ 1 [m³]."""
    centre: Floats
    """∫ x / volume, shape (3,) [m]."""
    moments: Floats
    """∫ (x - centre) (x - centre)ᵀ, shape (3, 3) [m⁵]."""


def mass_properties(surface: TriMesh) -> MassProperties:
    """Integrals over the solid inside a closed surface; raise ``MeshError`` if there is none."""
    if not len(surface):
        raise MeshError("the surface has no triangles, expected a closed one; pass the boundary of a solid")
    adjacency = surface.adjacency
    if not adjacency.is_oriented:
        raise MeshError(
            f"the surface has {adjacency.count_defects()}, expected a closed and oriented one, whose volume defines "
            "mass and inertia; close and orient it first (impinge.validate lists the edges)"
        )
    x, faces = surface.vertices, adjacency.faces
    low, high = surface.bounds
    extent = float((high - low).max())
    if not SMALLEST < extent < LARGEST:
        raise MeshError(f"the surface is {extent:g} across, expected {SMALLEST:g} to {LARGEST:g}; use another unit")
    middle = 0.5 * (low + high)
    corner = x[faces] - middle
    volume, first, _ = _integrals(corner)
    if not abs(volume) > FLAT * extent**3:
        raise MeshError(
            f"the surface encloses a volume of {abs(volume):g} and is {extent:g} across, expected a solid; give it a "
            "thickness"
        )
    shift = first / volume
    volume, first, second = _integrals(corner - shift)
    sign = 1.0 if volume > 0.0 else -1.0
    rest = first / volume  # what rounding left
    moments = sign * (second - volume * np.outer(rest, rest))
    return MassProperties(abs(volume), middle + (shift + rest), 0.5 * (moments + moments.T))


def _integrals(corner: Floats) -> tuple[float, Floats, Floats]:
    """∫ 1, ∫ x and ∫ x xᵀ of the tets that triangles span with the origin."""
    a, b, c = corner[:, 0], corner[:, 1], corner[:, 2]
    d, s = np.einsum("ij,ij->i", a, np.cross(b, c)), a + b + c
    square = sum(np.einsum("k,ki,kj->ij", d, p, p) for p in (s, a, b, c))
    return float(d.sum()) / 6.0, (d[:, None] * s).sum(axis=0) / 24.0, np.asarray(square) / 120.0
