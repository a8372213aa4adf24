"""Spheres along the medial axis of a solid, more of them where they fit badly ([BradshawOSullivan2004]).

1. Form    Points on the surface, at first at random, uniform in area.
2. Voronoi The circumspheres of their Delaunay tetrahedra touch the surface at four of them; those whose centres are
           inside the solid (``points_inside``) lie along its medial axis.
3. Judge   The overshoot of a sphere of radius r whose centre is d deep is at most r - d: the part outside is beyond the
           surface, which is d away.
4. Refine  The surface point nearest to the centre of a bad sphere becomes a forming point: the sphere is no longer
           empty, and better ones replace it. The worst are treated together, then the diagram is rebuilt.

Departure  The diagram is not updated point by point but rebuilt (``scipy.spatial.Delaunay``) after a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from impinge.checks import Floats, Ints
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh


class MedialSpheres(NamedTuple):
    """Spheres that touch the surface at four points, with their centres in the solid."""

    centre: Floats
    depth: Floats
    """Distance from the centre to the surface, shape (n,)."""
    error: Floats
    """Bound on the overshoot, shape (n,)."""
    nearest: Floats
    """Point of the surface nearest to the centre, shape (n, 3)."""
    forming: Ints
    """The four forming points, shape (n, 4)."""


def signed_depth(body: TriMesh, points: Floats) -> tuple[Floats, Floats]:
    """Distance to the surface, negative outside, and the nearest points of the surface."""
    found = closest_points(body, points)
    return np.where(np.asarray(found.inside), found.distance, -found.distance), found.point


def surface_samples(body: TriMesh, count: int, rng: np.random.Generator) -> Floats:
    """Random points of the surface, uniform in area, one stratum each."""
    corner = body.vertices[body.faces]
    across = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    ends = np.cumsum(across)
    at = (np.arange(count) + rng.random(count)) / count * ends[-1]
    triangle = np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)
    u, v = rng.random((2, count))
    weight = np.stack([1.0 - np.sqrt(u), np.sqrt(u) * (1.0 - v), np.sqrt(u) * v], axis=1)
    return np.asarray(np.einsum("ij,ijk->ik", weight, corner[triangle]))


def medial_spheres(body: TriMesh, forming: Floats) -> MedialSpheres:
    """The spheres through four forming points each that hold none and have their centres inside ``body``."""
    from scipy.spatial import Delaunay, QhullError

    try:
        tets = Delaunay(forming).simplices.astype(np.int32)
    except (QhullError, ValueError):  # all points in a plane: nothing is inside
        tets = np.zeros((0, 4), dtype=np.int32)
    # centres of the circumspheres that are in the box around the body; a flat tet has none
    corner, (low, high) = forming[tets], body.bounds
    a, b, c = (corner[:, k] - corner[:, 0] for k in (1, 2, 3))
    bc, ca, ab = np.cross(b, c), np.cross(c, a), np.cross(a, b)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        offset = (a * a).sum(1)[:, None] * bc + (b * b).sum(1)[:, None] * ca + (c * c).sum(1)[:, None] * ab
        centre = corner[:, 0] + offset / (2.0 * (a * bc).sum(1)[:, None])
        is_usable = np.isfinite(centre).all(axis=1) & ((centre >= low) & (centre <= high)).all(axis=1)
    centre, tets = centre[is_usable], tets[is_usable]
    depth, nearest = signed_depth(body, centre)
    inside = depth > 0.0
    centre, depth, tets = centre[inside], depth[inside], tets[inside]
    radius = np.linalg.norm(forming[tets[:, 0]] - centre, axis=1)
    return MedialSpheres(centre, depth, np.maximum(radius - depth, 0.0), nearest[inside], tets)
