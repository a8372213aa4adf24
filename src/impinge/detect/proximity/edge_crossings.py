"""Edges of one body through faces of the other, by exact signs: where surfaces enter and leave each other.

1. Pairs.  An edge can pass through a face only if one of its triangles meets that face. The pairs of triangles that
           meet come from ``BoxTree``.
2. Signs.  An edge uv passes through face pqr iff u and v do not lie on the same side of its plane, and line uv passes
           all three edges of the face on the same side: five exact signs (``exact.orientation``).
3. Places. Parameter and weights are quotients of the same determinants in doubles; where a sign is zero, the weight is
           zero, and the parameter is exactly 0 or 1.
4. Once.   Each pair of an edge and a face is tested once, however many triangles have the edge.

Ends       count: an edge that passes through an edge or a corner of a face, or ends on it, is of kind TOUCHING and
           listed with every face that it meets there; an edge through the interiors of both is CROSSING.
Left out   are edges that lie in the plane of the face, and faces without area.
Guarantee  complete and exact, each crossing once, the same bits for any number of threads. Parameter and weights are
           meant for drawing and for forces: for edges nearly parallel to a face they may have few correct digits.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Cancel, Floats, Ints
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.nearest_results import EdgeCrossings
from impinge.detect.common.pair_query import PairOptions, QueryBody
from impinge.detect.common.results import TrianglePairs
from impinge.detect.proximity import edge_crossings_kernels as kernels
from impinge.mesh.body import SurfaceLike, as_surface


def meeting_of(a: SurfaceLike, b: SurfaceLike, options: PairOptions) -> tuple[TrianglePairs, QueryBody, QueryBody]:
    """All pairs of triangles that meet, and both bodies; repeated if another thread changed a body meanwhile."""
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    detector = BoxTree(a, b)
    while True:
        versions = a.version, b.version
        bodies = options.query_bodies(a, b)
        pairs = detector.find(options)
        if (a.version, b.version) == versions:
            return pairs, *bodies


def edge_crossings(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> EdgeCrossings:
    """Find all edges of ``a`` that pass through faces of ``b``: where, in which direction, and how.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``.
    transform_a, transform_b, active_a, active_b, cancel
        As in ``triangle_pairs``.
    ignore : array_like, shape (k, 2), optional
        Pairs of triangles. A crossing is left out if every triangle of the edge is ignored with that face.

    Returns
    -------
    EdgeCrossings
        Sorted by (edge, face), each once.
    """
    began = perf_counter()
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel)
    met, body_a, body_b = meeting_of(a, b, options)
    edge, face = unique_rows(edges_of(body_a.faces[met.pairs[:, 0]]), np.repeat(met.pairs[:, 1], 3))
    edge, face, how = crossings_of(body_a.vertices, edge, body_b.vertices, body_b.faces, face)
    return EdgeCrossings(
        edge=edge,
        face=face,
        **how,
        complete=met.complete,
        reason=met.reason,
        method=met.method,
        stats=met.stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def edges_of(faces: Ints) -> Ints:
    """The three edges of each triangle, the lower vertex first: the same direction for all triangles of an edge."""
    return np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)


def unique_rows(edge: Ints, face: Ints) -> tuple[Ints, Ints]:
    """Pairs of an edge and a face, sorted, each once."""
    order = np.lexsort((face, edge[:, 1], edge[:, 0]))
    edge, face = edge[order], face[order]
    is_new = np.ones(len(face), dtype=np.bool_)
    is_new[1:] = (edge[1:] != edge[:-1]).any(axis=1) | (face[1:] != face[:-1])
    return edge[is_new], face[is_new]


def crossings_of(x_a: Floats, edge: Ints, x_b: Floats, faces_b: Ints, face: Ints) -> tuple[Ints, Ints, dict[str, Any]]:
    """Edges that pass through the face in the same row, these faces, and kind, sign, parameter and weights."""
    kind, sign = np.zeros((2, len(face)), dtype=np.int8)
    along, weights = np.zeros(len(face)), np.zeros((len(face), 3))
    kernels.cross_edges(x_a, edge, x_b, faces_b, face, kind, sign, along, weights)
    rows = np.flatnonzero(kind)
    how = {"kind": kind[rows], "sign": sign[rows], "parameter": along[rows], "weights": weights[rows]}
    return edge[rows], face[rows], how
