"""Vertices about to touch another body: contacts before the surfaces meet.

Implicit steps are as long as a frame. Contacts that begin at a negative depth, the distance, stop a body within the
step in which it arrives; without them, it would be found after it has entered, one search later.

For each pair of a vertex's body and a closed body whose boxes are no farther apart than they may travel:

1. Near     Vertices in the box of the other body, enlarged by the travel.
2. Closest  point of the other surface, at most that travel away (``detect.proximity.closest_points``). The contact acts
            along the line to it; at no distance, along the normal of the triangle.
3. Facing   The line must be within 75 degrees of the normal of the vertex. A vertex of a flat floor beside a block that
            slides on it is near the block's edge, but the block does not approach it: this contact would brake the
            block. The same test on the other side is implied: the closest point lies in the cone of its feature.

Limits      Edges that meet between vertices are not found. Contacts of a step have fixed normals: bodies that turn
            within a step meet beside them, and enter each other until the next search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.search import approaching_kernels as kernels

Ids = NDArray[np.int64]

FACING = 0.26
"""Least cosine between the normal of a vertex and its contact."""
TOUCHING = 1e-9
"""Distance, relative to the travel, at which a direction is noise."""


class Approach(NamedTuple):
    """Vertices near a surface, one row each."""

    vertex: Ids
    face: Ids
    """The closest triangle of the other surface."""
    corners: Ids
    """Its vertices, shape (k, 3)."""
    weights: Floats
    """Of the closest point in that triangle, shape (k, 3)."""
    outward: Floats
    """Unit vectors from the surface towards the vertices, shape (k, 3)."""
    distance: Floats


def approaching(inner: TriMesh, outer: TriMesh, travel: float, inside: Ids) -> Approach:
    """Find vertices of ``inner`` near ``outer``, but those of the sorted ids ``inside``."""
    x, (low, high) = inner.vertices, outer.bounds
    near = ((x >= low - travel) & (x <= high + travel)).all(axis=1)
    near[inside] = False
    candidates = inner.used_vertices.astype(np.int64)
    candidates = candidates[near[candidates]]
    found = closest_points(outer, x[candidates], inside=False, within=travel)
    rows = np.flatnonzero(found.triangle >= 0)
    vertex, face, distance = candidates[rows], found.triangle[rows].astype(np.int64), found.distance[rows]
    corners = outer.faces[face].astype(np.int64)
    corner = outer.vertices[corners]
    outward = x[vertex] - found.point[rows]
    touching = distance <= TOUCHING * travel
    plane = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    outward[touching] = plane[touching]
    size = np.linalg.norm(outward, axis=1, keepdims=True)
    outward /= np.where(size > 0.0, size, 1.0)
    adjacency, is_facing = inner.adjacency, np.zeros(len(vertex), dtype=np.bool_)
    surface = x, adjacency.faces, *adjacency.vertex_tri
    kernels.find_facing.over(len(vertex))(vertex, outward, surface, FACING, is_facing)
    keep = np.flatnonzero(is_facing)
    return Approach(
        vertex[keep], face[keep], corners[keep], found.barycentric[rows][keep], outward[keep], distance[keep]
    )
