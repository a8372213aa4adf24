"""A body inside a body collides, although no triangles meet.

Where two surfaces do not meet, each connected piece of one lies wholly inside or wholly outside the other, so that
one vertex per piece decides.
"""

from __future__ import annotations

import numpy as np

from impinge.arrays import Bools, Floats
from impinge.detect import containment_kernels as kernels
from impinge.detect.pair_query import Side
from impinge.mesh.adjacency import Adjacency


def points_in_surface(points: Floats, surface: Side) -> Bools:
    """Which points are inside or on a closed surface, exactly; cost n·m."""
    inside = np.zeros(len(points), dtype=np.bool_)
    kernels.mark_inside.over(len(points))(points, surface.vertices, surface.faces, surface.ids, inside)
    return inside


def is_closed(side: Side) -> bool:
    """Whether the triangles of this side enclose something."""
    return Adjacency(side.faces[side.ids], len(side.vertices)).is_closed


def has_piece_inside(inner: Side, outer: Side) -> bool:
    """Whether a connected piece of ``inner`` lies inside ``outer``; their triangles do not meet.

    False if ``outer`` is not closed: it has no inside.
    """
    if not len(inner.ids) or not is_closed(outer):
        return False
    faces = inner.faces[inner.ids]
    _, piece = Adjacency(faces, len(inner.vertices)).component
    first = np.unique(piece, return_index=True)[1]
    return bool(points_in_surface(np.ascontiguousarray(inner.vertices[faces[first, 0]]), outer).any())
