"""Closed convex pieces in one plane: points, segments and triangles, by signs of orient2d alone.

Separating lines: two convex polygons, one of them with an area, are disjoint iff all of one lies strictly beyond an
edge of the other; their interiors are disjoint iff all of one lies on or beyond an edge (the edges of their Minkowski
difference are the edges of both).

Coplanar pieces in space are first projected along a coordinate axis, which loses nothing if some triangle in the
plane keeps an area under it.
"""

from impinge.backend.jit import compiled
from impinge.exact.kinds import COPLANAR, NONE, TOUCHING
from impinge.exact.orientation import orient2d


@compiled
def lower(a, b):
    """The lower of two points, compared by their coordinates in order."""
    return b if b < a else a


@compiled
def higher(a, b):
    """The higher of two points, compared by their coordinates in order."""
    return b if b > a else a


@compiled
def segment_ends(p, q, r):
    """The two ends of a triangle whose corners are collinear."""
    return lower(lower(p, q), r), higher(higher(p, q), r)


@compiled
def drop_axis(p, axis):
    """The other two coordinates of ``p``, in cyclic order."""
    if axis == 0:
        return p[1], p[2]
    if axis == 1:
        return p[2], p[0]
    return p[0], p[1]


@compiled
def projection_axis(p, q, r):
    """An axis along which triangle pqr keeps an area, or -1 if p, q, r are collinear."""
    for axis in range(3):
        if orient2d(drop_axis(p, axis), drop_axis(q, axis), drop_axis(r, axis)) != 0:
            return axis
    return -1


@compiled
def _farthest_side(a, b, p, q, r):
    """The largest sign of p, q, r relative to the line from a to b."""
    return max(orient2d(a, b, p), orient2d(a, b, q), orient2d(a, b, r))


@compiled
def triangles_2d(p1, q1, r1, p2, q2, r2):
    """Kind of two triangles with area."""
    if orient2d(p1, q1, r1) < 0:
        q1, r1 = r1, q1
    if orient2d(p2, q2, r2) < 0:
        q2, r2 = r2, q2
    worst = min(
        _farthest_side(p1, q1, p2, q2, r2),
        _farthest_side(q1, r1, p2, q2, r2),
        _farthest_side(r1, p1, p2, q2, r2),
        _farthest_side(p2, q2, p1, q1, r1),
        _farthest_side(q2, r2, p1, q1, r1),
        _farthest_side(r2, p2, p1, q1, r1),
    )
    return NONE if worst < 0 else TOUCHING if worst == 0 else COPLANAR


@compiled
def segment_triangle_2d(a, b, p, q, r):
    """Kind of a segment (or a point, a = b) and a triangle with area."""
    if orient2d(p, q, r) < 0:
        q, r = r, q
    worst = min(
        max(orient2d(p, q, a), orient2d(p, q, b)),
        max(orient2d(q, r, a), orient2d(q, r, b)),
        max(orient2d(r, p, a), orient2d(r, p, b)),
    )
    if a != b:
        worst = min(worst, _farthest_side(a, b, p, q, r), _farthest_side(b, a, p, q, r))
    return NONE if worst < 0 else TOUCHING if worst == 0 else COPLANAR


@compiled
def segments_2d(a, b, c, d):
    """Kind of two coplanar segments that are not collinear."""
    c_side, d_side = orient2d(a, b, c), orient2d(a, b, d)
    a_side, b_side = orient2d(c, d, a), orient2d(c, d, b)
    if c_side * d_side > 0 or a_side * b_side > 0:
        return NONE
    if c_side * d_side < 0 and a_side * b_side < 0:
        return COPLANAR
    return TOUCHING


@compiled
def segments_1d(a, b, c, d):
    """Kind of two collinear segments (or points); the order of coordinates is the order along the line."""
    a, b = lower(a, b), higher(a, b)
    c, d = lower(c, d), higher(c, d)
    start, end = higher(a, c), lower(b, d)
    if start > end:
        return NONE
    # a single common point: inside both only if neither segment ends there
    a_is_inside, c_is_inside = a == b or (a < start < b), c == d or (c < start < d)
    return COPLANAR if start < end or (a_is_inside and c_is_inside) else TOUCHING
