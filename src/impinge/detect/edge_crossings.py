"""Edges of one body through faces of the other, by exact signs: where surfaces enter and leave each other.

1. Pairs.  An edge can pass through a face only if a triangle that it belongs to meets that face, so the pairs of
           triangles that meet are found first (``BoxTree``, on the kept trees).
2. Signs.  An edge uv passes through face pqr iff u and v do not lie on the same side of its plane, and line uv passes
           all three edges of the face on the same side: five signs (``exact.orientation``), always right.
3. Places. Parameter and weights are quotients of the same determinants in doubles; where a sign is zero, so is
           the weight, and the parameter is exactly 0 or 1.
4. Once.   An edge is reached from each of its triangles, with the same bits; one row stays.

Ends       count: an edge that passes through an edge or a corner of a face, or ends on it, is of kind TOUCHING, and
           is listed with every face that it meets there; one through the insides of both is CROSSING.
Left out   are edges that lie in the plane of the face, and faces without an area: they pass through nothing.
Guarantee  complete and exact, each crossing once, the same bits for any number of threads. Parameter and weights are
           for drawing and for forces: of edges nearly parallel to a face they may have few correct digits.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from impinge.detect import edge_crossings_kernels as kernels
from impinge.detect.box_tree import BoxTree
from impinge.detect.pair_query import Side, pair_options
from impinge.detect.results import EdgeCrossings, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.body import as_surface


class Meeting(NamedTuple):
    """Triangles that meet, and the bodies as they were when they met."""

    pairs: TrianglePairs
    a: Side
    b: Side


def meeting_of(a: Any, b: Any, options: dict[str, Any]) -> Meeting:
    """All pairs of triangles that meet; asked again if a body was changed meanwhile by another thread."""
    if "max_pairs" in options:
        raise OptionError("max_pairs is for triangle pairs; this query answers completely or not at all")
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    wanted = pair_options(options)
    detector = BoxTree(a, b)
    while True:
        versions = a.version, b.version
        sides = wanted.side_a(a), wanted.side_b(b)
        pairs = detector.query(**options)
        if (a.version, b.version) == versions:
            return Meeting(pairs, *sides)


def edge_crossings(a: Any, b: Any, **options: Any) -> EdgeCrossings:
    """All edges of ``a`` that pass through faces of ``b``; options as in ``PairOptions``, without ``max_pairs``."""
    began = perf_counter()
    met = meeting_of(a, b, options)
    pairs = met.pairs.pairs
    edge, sign = np.zeros((3 * len(pairs), 2), dtype=np.int32), np.zeros(3 * len(pairs), dtype=np.int8)
    kind, along, weights = np.zeros_like(sign), np.zeros(len(sign)), np.zeros((len(sign), 3))
    bodies = (met.a.vertices, met.a.faces, met.b.vertices, met.b.faces)
    kernels.cross_edges(*bodies, pairs, kind, edge, sign, along, weights)
    face = np.repeat(pairs[:, 1], 3)
    rows = np.flatnonzero(kind)
    rows = rows[np.lexsort((face[rows], edge[rows, 1], edge[rows, 0]))]
    rows = rows[_is_new(np.column_stack([edge[rows], face[rows]]))]
    return EdgeCrossings(
        edge=edge[rows],
        face=face[rows],
        kind=kind[rows],
        sign=sign[rows],
        parameter=along[rows],
        weights=weights[rows],
        complete=met.pairs.complete,
        reason=met.pairs.reason,
        method=met.pairs.method,
        stats=met.pairs.stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _is_new(rows: Any) -> Any:
    """Which rows of a sorted array differ from the one before."""
    return np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]) if len(rows) else np.zeros(0, dtype=np.bool_)
