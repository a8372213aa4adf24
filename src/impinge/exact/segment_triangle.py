"""Segments against segments and triangles in space, degenerate ones included; kinds as in ``kinds``."""

from impinge.backend.jit import compiled
from impinge.exact.kinds import CROSSING, NONE, TOUCHING
from impinge.exact.orientation import orient3d
from impinge.exact.planar import drop_axis, projection_axis, segment_ends, segment_triangle_2d, segments_1d, segments_2d


@compiled
def segment_segment(a, b, c, d):
    """Kind of two segments in space; either may be a point."""
    if orient3d(a, b, c, d) != 0:
        return NONE
    axis = max(projection_axis(a, b, c), projection_axis(a, b, d), projection_axis(a, c, d), projection_axis(b, c, d))
    if axis < 0:
        return segments_1d(a, b, c, d)
    return segments_2d(drop_axis(a, axis), drop_axis(b, axis), drop_axis(c, axis), drop_axis(d, axis))


@compiled
def segment_triangle(a, b, p, q, r):
    """Kind of a segment and a triangle in space; the segment may be a point, the triangle may lack an area."""
    axis = projection_axis(p, q, r)
    if axis < 0:
        c, d = segment_ends(p, q, r)
        return segment_segment(a, b, c, d)
    return segment_proper_triangle(a, b, p, q, r, axis)


@compiled
def segment_proper_triangle(a, b, p, q, r, axis):
    """Kind of a segment and a triangle that keeps its area when projected along ``axis``."""
    a_side, b_side = orient3d(p, q, r, a), orient3d(p, q, r, b)
    if a_side * b_side > 0:
        return NONE
    if a_side == 0 and b_side == 0:
        return segment_triangle_2d(
            drop_axis(a, axis), drop_axis(b, axis), drop_axis(p, axis), drop_axis(q, axis), drop_axis(r, axis)
        )
    # The line ab crosses the plane in one point, which lies in the triangle iff the line passes all three
    # edges on the same side.
    s0, s1, s2 = orient3d(a, b, p, q), orient3d(a, b, q, r), orient3d(a, b, r, p)
    lowest, highest = min(s0, s1, s2), max(s0, s1, s2)
    if lowest < 0 < highest:
        return NONE
    inside_triangle = s0 != 0 and s1 != 0 and s2 != 0
    inside_segment = a_side != 0 and b_side != 0
    return CROSSING if inside_triangle and inside_segment else TOUCHING
