"""Distance of two convex hulls, or an upper bound on their penetration: GJK on point clouds.

The difference a - b of two hulls is the hull of all differences of their points. Its distance from the origin is the
distance of the hulls, which intersect if it contains the origin. It is never built: its support along a direction s is
the support of a along s minus the support of b along -s.

1. Support from the nearest point v so far towards the origin: s = -v / |v|, made perpendicular to the edges of the
           simplex, since v / |v| is mostly rounding where hulls all but touch. The support w along s joins the simplex.
2. Descend to the point of the simplex nearest to the origin, and drop the points that do not carry it
           (``hull_distance_kernels``; degenerate faces do not count, and no backup procedure is needed).
3. Stop    if the distance is known: no point of a - b is nearer than v·w / |v|, and the simplex has one at |v|. Or if w
           is in the simplex already, or the step got no nearer: the limit of doubles [vandenBergen1999].
4. Overlap If the simplex contains the origin, the hulls intersect. Along any direction, the overlap of the projections
           bounds the penetration from above. The least one is searched along GJK's last direction, along the axes and
           diagonals of a cube, then by ever smaller rotations of the best.

Symbols    v, w as in the paper. A cloud of n points costs n dot products per step; about 20 steps in all.
Departures Hulls are not built and neighbours not walked: clouds may change from call to call.
Error      Distances and points have an error of about 1e-13 of the size of both clouds together; distances below that
           are 0. Exception: needles thinner than 1e-9 of that size and as near. Their distance is off by about their
           thickness, and the direction may not separate them.
Guarantee  ``penetration`` is never less than the true one (but for rounding). It may be more: the search, which does
           not expand a polytope, may end in a local minimum.
"""

from __future__ import annotations

from time import perf_counter
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, as_numbers, as_positions, sorted_unique
from impinge.detect.common.nearest_results import HullDistance
from impinge.detect.gjk_cut import hull_distance_kernels as kernels
from impinge.detect.gjk_cut.unit_box import origin_and_factor
from impinge.errors import MeshError
from impinge.mesh.body import BodyLike, as_body


def hull_distance(a: BodyLike | ArrayLike, b: BodyLike | ArrayLike) -> HullDistance:
    """Find the distance of two convex hulls, the nearest points, and a bound on the penetration.

    Parameters
    ----------
    a, b : body, or array_like of shape (n, 3)
        Bodies, as in ``triangle_pairs``, or points. Of bodies, the vertices of live elements count.

    Returns
    -------
    HullDistance
        ``distance`` is 0 for hulls that intersect; ``penetration`` is then an upper bound.

    Raises
    ------
    MeshError
        If a body or an array has no points.

    Examples
    --------
    >>> from impinge import hull_distance, shapes
    >>> hull_distance(shapes.box(1.0), shapes.box(1.0, center=(3.0, 0.0, 0.0))).distance
    2.0
    """
    began = perf_counter()
    points_a, points_b = _points(a, "a"), _points(b, "b")
    low, high = np.minimum(points_a.min(axis=0), points_b.min(axis=0)), np.maximum(points_a.max(0), points_b.max(0))
    origin, factor = origin_and_factor(low, high)
    cloud_a, cloud_b = (np.ascontiguousarray((x * factor - origin * factor).T) for x in (points_a, points_b))
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


def _points(x: BodyLike | ArrayLike, name: str) -> Floats:
    """The points of a cloud, or those that the live elements of a body use."""
    if isinstance(x, np.ndarray) or (isinstance(x, list) and as_numbers(x, name).ndim == 2):
        points = as_positions(x, name=name)
    else:
        snapshot = as_body(cast(BodyLike, x), name=name).snapshot()
        points = snapshot.vertices[sorted_unique(snapshot.elements[snapshot.live])]
    if not len(points):
        raise MeshError(f"{name} has no points, hence no hull; pass at least one point or live element")
    return points
