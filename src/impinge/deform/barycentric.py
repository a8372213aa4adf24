"""Barycentric embedding: dense vertices as weighted sums of the corners of the coarse tet that contains them.

1. Tet.    At rest, the tet at the least distance from the dense vertex: 0 for those that contain it, the lowest id
           among equals. Candidates are the tets with the nearest centroids; their number is doubled until no other
           can be as near, since no corner is farther from its centroid than ``reach``.
2. Weights Barycentric coordinates in that tet, of sum 1; some are negative for vertices outside of the coarse mesh.
3. Steer.  p' = Σ w_j q_j'.

Guarantee   Every affine motion of the coarse mesh is reproduced up to rounding, and the dense surface stays
            continuous within the coarse mesh. Outside of it, gaps open under strain between neighbours that follow
            different tets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_buffer, as_indices, as_positions, as_rows, check_range
from impinge.deform import barycentric_kernels as kernels
from impinge.errors import MeshError

FIRST_NEIGHBOURS = 16
"""Candidates of the first round for each dense vertex."""
FLAT = 1e-12
"""Volume (times six) relative to the cube of the longest edge below which barycentric coordinates are undefined."""


class Barycentric:
    """Dense vertices that follow coarse tets.

    Parameters
    ----------
    coarse_rest
        Coarse positions at rest, shape (m, 3).
    tets
        Vertices of each coarse tet, shape (t, 4), none of them flat.
    dense_rest
        Dense positions at rest, shape (n, 3).
    """

    def __init__(self, coarse_rest: ArrayLike, tets: ArrayLike, dense_rest: ArrayLike) -> None:
        coarse = as_positions(coarse_rest, name="coarse_rest")
        dense = as_positions(dense_rest, name="dense_rest")
        self._tets = as_indices(tets, name="tets", columns=4).copy()
        check_range(self._tets, len(coarse), "tets")
        self._now: Floats = coarse.copy()
        self.tets_of: Ints = np.zeros(len(dense), dtype=np.int32)
        """The tet that each dense vertex follows, shape (n,)."""
        self.weights: Floats = np.zeros((len(dense), 4))
        """Weights of its corners, of sum 1, shape (n, 4)."""
        self.distances: Floats = np.zeros(len(dense))
        """Distance of each dense vertex from the coarse mesh at rest, 0 inside, shape (n,)."""
        if not len(self._tets):
            raise MeshError("there are no tets; an embedding needs at least one")
        edges = (coarse[self._tets[:, 1:]] - coarse[self._tets[:, :1]]).transpose(0, 2, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            flat = ~(np.abs(np.linalg.det(edges)) > FLAT * np.abs(edges).max(axis=(1, 2)) ** 3)
        if flat.any():
            first = int(np.argmax(flat))
            raise MeshError(f"tets[{first}] is flat at rest and has no barycentric coordinates; remove it")
        inverse = np.ascontiguousarray(np.linalg.inv(edges))
        corners = coarse[self._tets]
        centroid = corners.mean(axis=1)
        reach = float(np.sqrt(((corners - centroid[:, None]) ** 2).sum(axis=2).max()))
        from scipy.spatial import cKDTree  # a slow import

        tree = cKDTree(centroid)
        open_rows, k = np.arange(len(dense)), FIRST_NEIGHBOURS
        while len(open_rows):
            count = min(k, len(self._tets))
            points = np.ascontiguousarray(dense[open_rows])
            centroid_distance, candidates = tree.query(points, k=count, workers=-1)
            candidates = candidates.reshape(len(points), count).astype(np.int32)
            tet, distance = np.zeros(len(points), dtype=np.int32), np.zeros(len(points))
            weight = np.zeros((len(points), 4))
            nearest_of = kernels.nearest_of.over(len(points))
            nearest_of(points, candidates, self._now, self._tets, inverse, tet, distance, weight)
            self.tets_of[open_rows], self.weights[open_rows], self.distances[open_rows] = tet, weight, distance
            farthest = np.reshape(centroid_distance, (len(points), count))[:, -1]
            is_final = (count == len(self._tets)) | (farthest > (distance + reach) * (1.0 + 1e-12))
            open_rows, k = open_rows[~is_final], 2 * k

    def __repr__(self) -> str:
        return f"<Barycentric: {len(self.weights):,} points in {len(self._tets):,} tets>"

    def steer(self, coarse: Floats, out: Floats | None = None) -> Floats:
        """Dense positions, shape (n, 3), for coarse ones; written to ``out`` if given."""
        self._now[...] = as_positions(coarse, name="coarse", count=len(self._now), check=False)
        count = len(self.tets_of)
        out = np.zeros((count, 3)) if out is None else as_buffer(out, name="out", count=count)
        kernels.follow.over(count)(self._now, self._tets, self.tets_of, self.weights, out)
        return out

    def differential(self, vertices: ArrayLike) -> tuple[Ints, Floats]:
        """Derivatives of dense by coarse positions: ids of corners (k, 4), and their 3x3 blocks (k, 4, 3, 3)."""
        vertices = as_rows(vertices, "vertices", len(self.tets_of))
        return self._tets[self.tets_of[vertices]], self.weights[vertices][:, :, None, None] * np.eye(3)
