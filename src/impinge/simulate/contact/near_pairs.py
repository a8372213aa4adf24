"""Pairs of features that may touch in a step, with contact normals.

1. Near     Vertex-face and edge-edge pairs no farther apart than a margin (``detect.proximity``).
2. Normal   The direction between the nearest points, or the normal of the face that they are inside of. It must lie in
            the normal cones of both features: no neighbour of a feature lies towards the other one
            (``normals_kernels``). A floor vertex before the leading edge of a block is near it, but is no contact: it
            would brake the block. Flat features have the normal of the surface, whatever its triangulation.
3. Once     A vertex has one contact per direction with a body: of near faces whose normals differ by less than
            45 degrees the nearest counts. Two flat edges are left to the vertices around them.

Impacts     (``pairs_of_impacts``) are kept whatever their normals: their features do meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.continuous.impact_results import Impacts
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.contact import normals_kernels as kernels
from impinge.simulate.contact.normals_kernels import FROM_IMPACT, FROM_NEAREST, FROM_OUTSIDE, RENEWED
from impinge.simulate.contact.pairs import Ids, Pairs, no_pairs

SAME_DIRECTION = 0.7
"""Cosine of normals from which on two contacts of a vertex are one."""

SOONEST = 1e-6
"""Time of impact from which on the gap at the end of a motion is extrapolated."""

Side = tuple[Floats, Ints, NDArray[np.int64], NDArray[np.int64]]


def side_of(surface: TriMesh, x: Floats) -> Side:
    """A surface as kernels take it, at positions ``x``."""
    adjacency = surface.adjacency
    return x, adjacency.faces, *adjacency.vertex_tri


def near_pairs(
    number_a: int, a: TriMesh, number_b: int, b: TriMesh, found: Proximity, *, outside_only: bool = False
) -> Pairs:
    """Contacts among the near features of two surfaces, or of one; of surfaces that cross, those still outside."""
    vf, fv, ee = found.vertex_face, found.face_vertex, found.edge_edge
    vertices = np.concatenate([
        np.concatenate([vf[:, :1], b.faces[vf[:, 1]]], axis=1),
        np.concatenate([a.faces[fv[:, 0]], fv[:, 1:]], axis=1),
        np.concatenate([found.edges_a[ee[:, 0]], found.edges_b[ee[:, 1]]], axis=1),
    ]).astype(np.int32)  # fmt: skip
    s = found.edge_edge_weights
    weights = np.concatenate([
        np.concatenate([np.ones((len(vf), 1)), found.vertex_face_weights], axis=1),
        np.concatenate([found.face_vertex_weights, np.ones((len(fv), 1))], axis=1),
        np.stack([1.0 - s[:, 0], s[:, 0], 1.0 - s[:, 1], s[:, 1]], axis=1),
    ])  # fmt: skip
    kind = np.repeat(np.array([0, 1, 2], dtype=np.int8), [len(vf), len(fv), len(ee)])
    source = FROM_OUTSIDE if outside_only else FROM_NEAREST
    pairs, keep = _oriented(number_a, a, number_b, b, kind, vertices, weights, source, None)
    group = _vertex_of(pairs)
    rows = np.flatnonzero(keep & (group >= 0))
    order = rows[np.lexsort((pairs.gap[rows], group[rows]))]
    kernels.keep_nearest(order, group, pairs.normal, SAME_DIRECTION, pairs.area, keep, pairs.area.copy())
    return pairs.rows(np.flatnonzero(keep))


def renewed(number_a: int, a: TriMesh, number_b: int, b: TriMesh, pairs: Pairs) -> Pairs:
    """Pairs of features at the present positions, as far as they are still contacts."""
    weights = np.zeros((pairs.size, 4))
    kernels.find_nearest.over(pairs.size)(pairs.kind, pairs.vertices, a.vertices, b.vertices, weights)
    again, keep = _oriented(number_a, a, number_b, b, pairs.kind, pairs.vertices, weights, RENEWED, None)
    return again.rows(np.flatnonzero(keep))


def pairs_of_impacts(number_a: int, a: TriMesh, number_b: int, b: TriMesh, found: Impacts) -> Pairs:
    """The features that meet in a motion, at its start."""
    if not len(found):
        return no_pairs()
    vertices, weights = found.vertices, np.ascontiguousarray(found.weights)
    pairs = _oriented(number_a, a, number_b, b, found.kind, vertices, weights, FROM_IMPACT, found.normal)[0]
    return pairs._replace(end_gap=pairs.gap * (1.0 - 1.0 / np.maximum(found.time_hi, SOONEST)))


def _oriented(
    number_a: int, a: TriMesh, number_b: int, b: TriMesh, kind: NDArray[np.int8], vertices: Ints, weights: Floats,
    source: int, impact_normal: Floats | None,
) -> tuple[Pairs, NDArray[np.bool_]]:  # fmt: skip
    """Pairs with normals and gaps, and which of them are contacts."""
    count = len(kind)
    normal = np.zeros((count, 3)) if impact_normal is None else np.array(impact_normal)
    gap, keep = np.zeros(count), np.zeros(count, dtype=np.bool_)
    kernels.orient.over(count)(
        kind, vertices, weights, side_of(a, a.vertices), side_of(b, b.vertices), source, normal, gap, keep,
    )  # fmt: skip
    numbers = np.full(count, number_a), np.full(count, number_b)
    zero = np.zeros(count)
    group = np.zeros(count, dtype=np.int64)
    return Pairs(kind, *numbers, vertices, weights, normal, gap, gap, zero, group, np.ones(count)), keep


def _vertex_of(pairs: Pairs) -> Ids:
    """A number of the vertex of each pair of a vertex and a face, -1 for edges."""
    vertex = np.where(pairs.kind == 0, pairs.vertices[:, 0], pairs.vertices[:, 3]).astype(np.int64)
    return np.where(pairs.kind == 2, -1, 2 * vertex + pairs.kind)
