"""Closed convex pieces in one plane: points, segments and triangles, by signs of orient2d alone.

Triangles and segments are told apart by separating lines: two convex polygons, one of them with an area, are
disjoint iff all of one lies strictly beyond an edge of the other; their insides are disjoint iff all of one
lies on or beyond an edge (the edges of their Minkowski difference are the edges of both).

Pieces in space that lie in one plane are first projected along a coordinate axis, which loses nothing if
some triangle in the plane keeps an area under it.
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
def point_in_triangle_2d(p, a, b, c):
    """1 if ``p`` is inside triangle abc, 0 if on its border, -1 if outside. Any winding; without area: -1 or 0."""
    s0, s1, s2 = orient2d(a, b, p), orient2d(b, c, p), orient2d(c, a, p)
    lowest, highest = min(s0, s1, s2), max(s0, s1, s2)
    if lowest < 0 < highest:
        return -1
    if lowest == 0 and highest == 0:  # all four are collinear: the triangle is a segment or a point
        low, high = segment_ends(a, b, c)
        return 0 if low <= p <= high else -1
    return 0 if s0 == 0 or s1 == 0 or s2 == 0 else 1


@compiled
def _farthest_side(a, b, p, q, r):
    """How far left of the line from a to b the farthest of p, q, r lies: sign only."""
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
    """Kind of two segments in one plane that are not all on one line."""
    c_side, d_side = orient2d(a, b, c), orient2d(a, b, d)
    a_side, b_side = orient2d(c, d, a), orient2d(c, d, b)
    if c_side * d_side > 0 or a_side * b_side > 0:
        return NONE
    if c_side * d_side < 0 and a_side * b_side < 0:
        return COPLANAR
    return TOUCHING


@compiled
def segments_1d(a, b, c, d):
    """Kind of two segments (or points) on one line; along it, the order of coordinates is the order of points."""
    a, b = lower(a, b), higher(a, b)
    c, d = lower(c, d), higher(c, d)
    start, end = higher(a, c), lower(b, d)
    if start > end:
        return NONE
    if start < end:
        return COPLANAR
    ab_is_point, cd_is_point = a == b, c == d
    if ab_is_point and (cd_is_point or c < a < d):
        return COPLANAR
    if cd_is_point and a < c < b:
        return COPLANAR
    return TOUCHING
