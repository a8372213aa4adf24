"""Features of pairs, for reports: which vertex, face or edge of either body a contact is at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from impinge.checks import NONE, Floats
from impinge.contact.contacts import ContactKind
from impinge.mesh.tri_mesh import TriMesh
from impinge.respond.contact_forces import ContactFeatures, SparseRows
from impinge.simulate.contact import features_kernels as kernels
from impinge.simulate.contact.pairs import SPLIT, Pairs
from impinge.simulate.search.constraints import GROUND

KINDS = np.array([ContactKind.VERTEX_A, ContactKind.VERTEX_B, ContactKind.EDGES], dtype=np.int8)
"""Of pairs of a vertex and a face, a face and a vertex, and two edges."""


def features_of(pairs: Pairs, surfaces: Sequence[TriMesh], layer: Floats) -> ContactFeatures:
    """Features of all pairs; ``layer`` are their contact distances."""
    feature = np.full((2, pairs.size), NONE, dtype=np.int64)
    for side, numbers in enumerate((pairs.body_a, pairs.body_b)):
        for number in np.unique(numbers[numbers != GROUND]).tolist():
            rows, surface = np.flatnonzero(numbers == number), surfaces[number]
            adjacency = surface.adjacency
            edges = adjacency.edges if (pairs.kind[rows] == kernels.EDGE_EDGE).any() else _NO_EDGES
            kernels.find_features(
                rows, side, pairs.kind, pairs.vertices, surface.elements.live, adjacency.faces, *adjacency.vertex_tri,
                edges, feature[side],
            )  # fmt: skip
    weights = np.where(np.arange(4) < SPLIT[pairs.kind][:, None], pairs.weights, -pairs.weights)
    row, column = np.nonzero(weights)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=pairs.size))])
    vertices = SparseRows(start, pairs.vertices[row, column].astype(np.int64), weights[row, column])
    return ContactFeatures(KINDS[pairs.kind], feature[0], feature[1], pairs.area, layer, vertices)


_NO_EDGES = np.zeros((0, 2), dtype=np.int32)
