"""How far apart two convex hulls are, or how deep at most they are in each other: GJK on clouds of points.

The difference a - b of two hulls is the hull of all differences of their points. The hulls are as far apart as that
is from the origin, and meet if it contains the origin. It is never made: a direction s is enough to find its farthest
point, the support of a along s less the support of b along -s.

1. Look    from the nearest point v found so far towards the origin: s = -v / |v|, made to stand at right angles on the
           edges of the simplex, since little but rounding is left of v where hulls all but touch. The support w along s
           joins the simplex.
2. Descend to the point of the simplex nearest to the origin, and leave out the points that do not carry it
           (``simplex_kernels``, which trusts no flat face and needs no backup procedure).
3. Stop    if the distance is known: no point of a - b is nearer than v·w / |v|, the simplex has one at |v|. Or if w
           was in the simplex already, or the step got no nearer: that is all that doubles can tell
           [vandenBergen1999].
4. Meet    If the simplex contains the origin, the hulls meet. Along any direction, the overlap of the projections
           bounds the penetration from above. The least one is searched: along GJK's last direction, along the axes
           and diagonals of a cube, then by ever smaller turns of the best.

Symbols    v·w as in the paper; a cloud of n points costs n dot products for each look, some 20 looks in all
Departures none of the hulls is built, and no neighbour is walked: clouds may change from call to call
Error      distances and points are right to about 1e-13 of the size of both clouds together; distances below that
           are 0. Not so of needles thinner than 1e-9 of that size and as near: the distance is
           then off by about their thickness, and the direction may not separate them
Guarantee  ``penetration`` is never less than the true one (but for rounding); it may be more, since the least overlap
           found may be a local one. It is found by trial, not by expanding a polytope.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from impinge.checks import Floats, as_numbers, as_positions, sorted_unique
from impinge.detect.common.nearest_results import HullDistance
from impinge.detect.gjk_cut import hull_distance_kernels as kernels
from impinge.detect.gjk_cut.unit_box import origin_and_factor
from impinge.errors import MeshError
from impinge.mesh.body import as_body


def hull_distance(a: Any, b: Any) -> HullDistance:
    """Distance of the convex hulls of ``a`` and ``b``, the nearest points, and a bound on how deep they meet.

    Each is a body, or an array of points of shape (n, 3). Of bodies, the vertices of live elements count.
    """
    began = perf_counter()
    points_a, points_b = _points(a, "a"), _points(b, "b")
    low, high = np.minimum(points_a.min(axis=0), points_b.min(axis=0)), np.maximum(points_a.max(0), points_b.max(0))
    origin, factor = origin_and_factor(low, high)
    cloud_a, cloud_b = _cloud(points_a, origin, factor), _cloud(points_b, origin, factor)
    pairs, weight = np.zeros((5, 2), dtype=np.int64), np.zeros(5)
    length, steps, count, s = kernels.find_distance(cloud_a, cloud_b, pairs, weight)
    penetration = 0.0
    if length == 0.0:
        s, penetration = kernels.least_overlap(cloud_a, cloud_b, s)
    share = weight[:count, None]
    with np.errstate(over="ignore"):
        distance, depth = float(length / factor), float(max(penetration, 0.0) / factor)
    return HullDistance(
        distance=distance,
        point_a=(share * points_a[pairs[:count, 0]]).sum(axis=0),
        point_b=(share * points_b[pairs[:count, 1]]).sum(axis=0),
        direction=np.array(s),
        penetration=depth,
        iterations=int(steps),
        method="gjk",
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _points(x: Any, name: str) -> Floats:
    """The points of a cloud, or those that the live elements of a body use."""
    if isinstance(x, np.ndarray) or (isinstance(x, list) and as_numbers(x, name).ndim == 2):
        points = as_positions(x, name=name)
    else:
        snapshot = as_body(x, name=name).snapshot()
        points = snapshot.vertices[sorted_unique(snapshot.elements[snapshot.live])]
    if not len(points):
        raise MeshError(f"{name} has no points, and nothing has no hull; pass at least one point or live element")
    return points


def _cloud(points: Floats, origin: Floats, factor: float) -> Floats:
    """One row per axis, within -1 .. 1."""
    return np.ascontiguousarray((points * factor - origin * factor).T)
