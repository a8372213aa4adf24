"""Smoothed elements: linear tets whose strain is averaged around edges, against locking [Liu2009].

A linear tet has one strain for four corners. A mesh of them has more strains than vertices: bent or kept from changing
its volume it is too stiff, unless it is fine. The cure keeps vertices and tets and has fewer, larger domains of strain:

1. Domain    Each edge has a domain: a sixth of the volume of each tet around it, V = Σ Vt / 6.
2. Gradient  Its deformation gradient is the mean F = Σ (Vt / 6 V) Ft. Since each Ft is linear in positions,
             F = Σ x ⊗ b over the vertices x of those tets, the *corners* of the domain; the weights b sum to zero.
3. Energy    Σ V Ψ(F), with the energy density Ψ of any model of ``fem``; forces are -V P(F) b.

Materials   A domain belongs to one material: an edge between two materials has a domain in each.
Kernels     A domain is computed like a tet whose rest edges are the unit vectors and whose edges now are the columns
            of F: before, Σ (x - x0) ⊗ b replaces the three edges; afterwards, forces and second derivatives of the
            three edges are spread to corners by b.
Stable step Means of F have at most the mean energy of any quadratic form, hence no frequency exceeds the largest of a
            single tet: ω² of a domain is bounded by that of its tets.
Guarantee   Equal to linear tets where F is the same everywhere. Without load only rigid motions have no energy on
            connected meshes (checked by eigenvalues). A tet may invert although the mean of its domains does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints

EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Corners of the edges of a tet."""

Longs = NDArray[np.int64]


class EdgeDomains(NamedTuple):
    """Smoothing domains of a mesh, by material, then by the vertices of their edges."""

    material: Longs
    volume: Floats
    middle: Floats
    """Of the edge, at rest, shape (d, 3)."""
    start: Longs
    """First corner of each domain, and the number of corners, shape (d + 1,)."""
    vertex: Longs
    """Of each corner."""
    weight: Floats
    """Of each corner: b, shape (corners, 3)."""
    of_tet: Longs
    """Domains of the edges of each tet, shape (m, 6)."""

    def largest(self, of_tets: Floats) -> Floats:
        """The largest number of the tets of each domain."""
        found = np.zeros(len(self.volume))
        np.maximum.at(found, self.of_tet, of_tets[:, None])
        return found


def edge_domains(rest: Floats, tets: Ints, volumes: Floats, inverse: Floats, tet_material: Longs) -> EdgeDomains:
    """Make the domains of tets from their volumes, inverse rest edges (m, 3, 3) and materials."""
    count = len(rest)
    ends = np.sort(tets[:, EDGES].astype(np.int64), axis=2)
    key = (tet_material[:, None] * count + ends[:, :, 0]) * count + ends[:, :, 1]
    keys, of_tet = np.unique(key, return_inverse=True)
    of_tet = of_tet.reshape(-1, 6).astype(np.int64)
    part = np.repeat(volumes[:, None] / 6.0, 6, axis=1)
    volume = np.bincount(of_tet.reshape(-1), part.reshape(-1)).astype(np.float64)
    share = part / volume[of_tet]
    gradients = np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)
    corner_key = (of_tet[:, :, None] * count + tets[:, None, :]).reshape(-1)
    corners, which = np.unique(corner_key, return_inverse=True)
    weight = np.empty((len(corners), 3))
    for k in range(3):
        parts = share[:, :, None] * gradients[:, None, :, k]
        weight[:, k] = np.bincount(which.reshape(-1), parts.reshape(-1))
    lower, upper = keys // count % count, keys % count
    return EdgeDomains(
        material=keys // (count * count),
        volume=volume,
        middle=0.5 * (rest[lower] + rest[upper]),
        start=np.searchsorted(corners // count, np.arange(len(keys) + 1)).astype(np.int64),
        vertex=corners % count,
        weight=weight,
        of_tet=of_tet,
    )


def group_corners(domains: EdgeDomains, ids: Longs) -> tuple[Longs, Floats]:
    """Corners of domains side by side: vertices (d, c) and weights (d, c, 3), c the largest number of corners.

    Missing corners are copies of the first of weight 0.
    """
    first, counts = domains.start[ids], domains.start[ids + 1] - domains.start[ids]
    column = np.arange(counts.max())
    is_corner = column < counts[:, None]
    row = np.where(is_corner, first[:, None] + column, first[:, None])
    return domains.vertex[row], np.where(is_corner[:, :, None], domains.weight[row], 0.0)
