"""The curves in which two surfaces cross: a segment per pair of triangles, joined by exact topology.

1. Pairs.    The pairs of triangles of kind CROSSING (``BoxTree``).
2. Ends.     The planes of two triangles meet in a line, and each triangle covers an interval of it, from one of its
             edges (or corners) to another; the segment is the intersection of the intervals. Two more signs of the kind
             that prove the overlap decide which edges bound it [GuigueDevillers2003].
3. Identity. An end is identified by the features in whose interiors it lies, one of each body: mostly an edge of one
             and a face of the other; where signs are zero an edge and an edge, a corner and a face, and so on. Two
             segments are joined iff they have a common end: no coordinates are compared.
4. Curves.   Segments are traversed from end to end: first from ends of one segment (the border of a surface) or of more
             than two (branches), then around.

Closed     generic surfaces have closed curves only: each end is an edge through a face, the edge has two triangles, and
           each of them has a segment there.
Touching   and coplanar pairs have no segment, even where they share a line (an edge that lies in a face): the curve is
           open there. Surfaces that cross along edges of a mesh, such as a sphere and a plane through a ring of its
           edges, have touching pairs and no curve there. ``has_gaps`` is True if there are such pairs, ``stats`` counts
           them; without them, nothing is missing. A triangle without area crosses another in a point and has no segment
           either (``pairs_without_segment``).
Soups      whose triangles do not share vertices by index have no common edges, and their curves stay open: weld first.
Guarantee  pairs and connections are exact; coordinates are doubles, computed once per end from its edge and its face:
           joined segments have the same bits there. The same bits for any number of threads.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Cancel, distinct_rows
from impinge.detect.common.nearest_results import Curves
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.common.results import Kind
from impinge.detect.proximity import intersection_curves_kernels as kernels
from impinge.detect.proximity.edge_crossings import meeting_of
from impinge.mesh.adjacency import grouped
from impinge.mesh.body import SurfaceLike


def intersection_curves(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> Curves:
    """Find the segments in which triangles of ``a`` and ``b`` cross, joined into curves by exact topology.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``. Triangles that share no vertices by index have no common edges: the curves of soups
        stay open.
    transform_a, transform_b, active_a, active_b, ignore, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    Curves
        Triangles that only touch, or lie in one plane, have no segment; ``has_gaps`` says whether there are any.
    """
    began = perf_counter()
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel)
    met, body_a, body_b = meeting_of(a, b, options)
    crossing = met.pairs[met.kind == Kind.CROSSING]
    has_segment = np.zeros(len(crossing), dtype=np.bool_)
    feature, place = np.zeros((len(crossing), 2, 4), dtype=np.int32), np.zeros((len(crossing), 2, 3))
    kernels.cross_pairs.over(len(crossing))(
        body_a.vertices, body_a.faces, body_b.vertices, body_b.faces, crossing, has_segment, feature, place
    )
    pairs = crossing[has_segment]
    first, number = distinct_rows(feature[has_segment].reshape(-1, 4))
    place, ends = place[has_segment].reshape(-1, 3)[first], number.reshape(-1, 2).astype(np.int32)
    start, position = grouped(number, len(place))
    segment: NDArray[np.int64] = position // 2
    order, closed = np.zeros(len(ends), dtype=np.int32), np.zeros(len(ends), dtype=np.bool_)
    loop_start = np.zeros(len(ends) + 1, dtype=np.int64)
    count = kernels.trace_curves(ends, start, segment, order, loop_start, closed)
    stats = {**met.stats, **met.count_by_kind(), "pairs_without_segment": len(crossing) - len(pairs)}
    return Curves(
        segments=place[ends],
        pairs=pairs,
        ends=ends,
        loops=np.split(order, loop_start[1:count]) if count else [],
        closed=closed[:count].copy(),
        has_gaps=bool((met.kind != Kind.CROSSING).any()),
        bodies=(body_a, body_b),
        complete=met.complete,
        reason=met.reason,
        method=met.method,
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )
