"""The surface in pieces: sub-triangles, each of which belongs to one leaf of a sphere tree as a whole.

A ball is convex: it holds a triangle if it holds its corners. A tree whose balls hold the corners of their pieces
covers the surface, not only samples of it. Corners are barycentric coordinates, which deform with the mesh.

Cutting bisects the longest edge. Its middle is exact in binary: the pieces of a triangle tile it without gaps or
overlaps, and their areas add up to its area exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints

MOST_CUTS = 40
"""Bisections of one triangle: beyond 50 its middles would no longer be exact."""


class Pieces(NamedTuple):
    """Sub-triangles of a surface."""

    triangle: Ints
    """Id of the triangle that it is a part of, shape (p,)."""
    corner: Floats
    """Barycentric coordinates of the three corners in that triangle, shape (p, 3, 3)."""

    def points(self, vertices: Floats, faces: Ints) -> Floats:
        """Where the corners are, shape (p, 3, 3), by one fixed expression."""
        return corner_points(self.corner, vertices[faces[self.triangle]])

    def take(self, rows: NDArray[np.int64] | Bools) -> Pieces:
        """Some of the pieces."""
        return Pieces(self.triangle[rows], self.corner[rows])


def corner_points(corner: Floats, triangle: Floats) -> Floats:
    """The corners of pieces (p, 3, 3) in triangles (p, 3, 3): weighted from the first vertex to the last."""
    weighted = corner[:, :, 0, None] * triangle[:, None, 0]
    weighted += corner[:, :, 1, None] * triangle[:, None, 1]
    weighted += corner[:, :, 2, None] * triangle[:, None, 2]
    return weighted


def edge_lengths(points: Floats) -> Floats:
    """Lengths of the edges opposite to the corners, shape (p, 3)."""
    return np.asarray(np.linalg.norm(points[:, [1, 2, 0]] - points[:, [2, 0, 1]], axis=2))


def bisect(pieces: Pieces, points: Floats, rows: NDArray[np.int64]) -> tuple[Pieces, NDArray[np.int64]]:
    """Bisect the pieces in ``rows`` at their longest edges; the halves replace the piece.

    Also returns the row that each new piece comes from.
    """
    apex = np.argmax(edge_lengths(points[rows]), axis=1)
    turned = pieces.corner[rows[:, None], (apex[:, None] + np.arange(3)) % 3]  # apex, from, to
    middle = 0.5 * (turned[:, 1] + turned[:, 2])
    times = np.ones(len(pieces.triangle), dtype=np.int64)
    times[rows] = 2
    source = np.repeat(np.arange(len(pieces.triangle)), times)
    corner = pieces.corner[source]
    first = np.cumsum(times)[rows] - 2
    corner[first] = np.stack([turned[:, 0], turned[:, 1], middle], axis=1)
    corner[first + 1] = np.stack([turned[:, 0], middle, turned[:, 2]], axis=1)
    return Pieces(pieces.triangle[source], corner), source


def cut_to_length(ids: Ints, vertices: Floats, faces: Ints, length: float) -> Pieces:
    """Cut triangles until no piece has an edge longer than ``length``."""
    done, pieces = [], Pieces(ids.astype(np.int32), np.broadcast_to(np.eye(3), (len(ids), 3, 3)).copy())
    for _ in range(MOST_CUTS):
        points = pieces.points(vertices, faces)
        is_long = edge_lengths(points).max(axis=1, initial=0.0) > length
        done.append(pieces.take(~is_long))
        if not is_long.any():
            break
        long = pieces.take(is_long)
        pieces, _ = bisect(long, points[is_long], np.arange(len(long.triangle)))
    else:
        done.append(pieces)
    joined = Pieces(*(np.concatenate(each) for each in zip(*done, strict=True)))
    return joined.take(np.argsort(joined.triangle, kind="stable"))


def length_for(ids: Ints, vertices: Floats, faces: Ints, count: int) -> float:
    """The edge length for which cutting adds some ``count`` pieces at most: long triangles by length, others by area.

    A triangle of area A and longest edge L is cut into some 4 A / h^2 + 2 L / h pieces (a piece has edges between h / 2
    and h): solved for h over all of them.
    """
    corner = vertices[faces[ids]]
    across = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    area, longest = 0.5 * float(across.sum()), float(edge_lengths(corner).max(axis=1, initial=0.0).sum())
    return float(longest + np.sqrt(longest * longest + 4.0 * area * count)) / count
