"""Triangles of one mesh that share vertices: intersection beyond the shared part.

Two triangles that share an edge or a vertex (by id) always touch there. They count as colliding only if
they have a point in common outside of it. Let v (and w) be shared, T1 = (v, a, b) or (v, w, a), T2 = (v, c, d) or
(v, w, c).

One vertex.  T1 ∩ T2 is convex and contains v. If it contains another point, walk from v through that point until T1
             or T2 ends: that is on ab or on cd. So they meet beyond v iff ab meets T2 or cd meets T1. A
             triangle whose corners are collinear is the union of its segments va and vb, each tested as such.
An edge.     They meet beyond vw iff they lie in one plane with a and c on the same side of vw. If one is
             collinear, it lies on the line vw, of which the other has only vw. If both are, everything is on one
             line, and they go on together beyond v or beyond w.
All three.   The same triangle twice: a collision.

A face that repeats an id is a degenerate triangle; shared vertices are counted by distinct ids.
"""

from impinge.backend.jit import compiled
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.orientation import orient2d, orient3d, point
from impinge.exact.planar import drop_axis, higher, lower, projection_axis
from impinge.exact.segment_triangle import segment_proper_triangle, segment_segment
from impinge.exact.triangle_triangle import cross, dot, minus, triangle_triangle, triangle_triangle_exact


@compiled
def _is_corner(v, tri):
    return v in (tri[0], tri[1], tri[2])


@compiled
def shared_count(s, t):
    """How many distinct vertex ids two faces (tuples of three ids) share."""
    first, second = _is_corner(s[0], t), s[1] != s[0] and _is_corner(s[1], t)
    return int(first) + int(second) + int(s[2] not in (s[0], s[1]) and _is_corner(s[2], t))


@compiled
def neighbours_kind(x, s, t):
    """Kind of two faces of one mesh; NONE if they meet only in the shared vertex or edge."""
    count = shared_count(s, t)
    p1, q1, r1 = point(x, s[0]), point(x, s[1]), point(x, s[2])
    p2, q2, r2 = point(x, t[0]), point(x, t[1]), point(x, t[2])
    if count == 0:
        return triangle_triangle(p1, q1, r1, p2, q2, r2)
    if count == 1:
        i, j = _first_shared(s, t)
        a, b = point(x, s[(i + 1) % 3]), point(x, s[(i + 2) % 3])
        if not _meet_beyond_vertex(point(x, s[i]), a, b, point(x, t[(j + 1) % 3]), point(x, t[(j + 2) % 3])):
            return NONE
    if count == 2:
        i, j = _thirds(s, t)
        v, w = point(x, s[(i + 1) % 3]), point(x, s[(i + 2) % 3])
        if not _meet_beyond_edge(v, w, point(x, s[i]), point(x, t[j])):
            return NONE
    return triangle_triangle_exact(p1, q1, r1, p2, q2, r2)


@compiled
def neighbours_filtered(x, s, t, bound):
    """NONE where determinants exceed ``bound``, else UNCERTAIN; for faces that share a vertex.

    One vertex: NONE if the two others of one face lie strictly on one side of the other face. An edge: NONE if the
    four corners are not in one plane.
    """
    count = shared_count(s, t)
    if count == 1:
        i, j = _first_shared(s, t)
        v = point(x, s[i])
        a, b = minus(point(x, s[(i + 1) % 3]), v), minus(point(x, s[(i + 2) % 3]), v)
        c, d = minus(point(x, t[(j + 1) % 3]), v), minus(point(x, t[(j + 2) % 3]), v)
        n = cross(c, d)
        a_side, b_side = dot(n, a), dot(n, b)
        if (a_side > bound and b_side > bound) or (a_side < -bound and b_side < -bound):
            return NONE
        n = cross(a, b)
        c_side, d_side = dot(n, c), dot(n, d)
        if (c_side > bound and d_side > bound) or (c_side < -bound and d_side < -bound):
            return NONE
    elif count == 2:
        i, j = _thirds(s, t)
        v = point(x, s[(i + 1) % 3])
        edge = minus(point(x, s[(i + 2) % 3]), v)
        volume = dot(cross(edge, minus(point(x, s[i]), v)), minus(point(x, t[j]), v))
        if abs(volume) > bound:
            return NONE
    return UNCERTAIN


@compiled
def _first_shared(s, t):
    """Position of the shared vertex in each face."""
    i = 0 if _is_corner(s[0], t) else 1 if _is_corner(s[1], t) else 2
    return i, 0 if t[0] == s[i] else 1 if t[1] == s[i] else 2


@compiled
def _thirds(s, t):
    """Position of the corner of each face that is not on the shared edge (it may repeat a vertex of the edge)."""
    i = 0 if not _is_corner(s[0], t) else 1 if not _is_corner(s[1], t) else 2
    if _is_corner(s[i], t):  # all corners are shared, so an id is repeated: its second copy is the third corner
        i = 1 if s[0] == s[1] else 2
    v, w = s[(i + 1) % 3], s[(i + 2) % 3]
    j = 0 if t[0] not in (v, w) else 1 if t[1] not in (v, w) else 2
    if t[j] in (v, w):
        j = 1 if t[0] == t[1] else 2
    return i, j


@compiled
def _meet_beyond_vertex(v, a, b, c, d):
    """Whether the triangles vab and vcd meet beyond v."""
    a_side, b_side = orient3d(v, c, d, a), orient3d(v, c, d, b)
    if a_side * b_side > 0:
        return False
    c_side, d_side = orient3d(v, a, b, c), orient3d(v, a, b, d)
    if c_side * d_side > 0:
        return False
    axis1, axis2 = projection_axis(v, a, b), projection_axis(v, c, d)
    if axis1 >= 0 and axis2 >= 0:
        return (
            segment_proper_triangle(a, b, v, c, d, axis2) != NONE
            or segment_proper_triangle(c, d, v, a, b, axis1) != NONE
        )
    if axis2 >= 0:
        return _spoke_meets(v, a, c, d, axis2) or _spoke_meets(v, b, c, d, axis2)
    if axis1 >= 0:
        return _spoke_meets(v, c, a, b, axis1) or _spoke_meets(v, d, a, b, axis1)
    return _same_ray(v, a, c) or _same_ray(v, a, d) or _same_ray(v, b, c) or _same_ray(v, b, d)


@compiled
def _spoke_meets(v, a, c, d, axis):
    """Whether segment va meets triangle vcd beyond v: where it ends, or where it leaves through cd."""
    return a != v and (segment_proper_triangle(a, a, v, c, d, axis) != NONE or segment_segment(v, a, c, d) != NONE)


@compiled
def _same_ray(v, a, c):
    """Whether a and c lie in the same direction from v."""
    return a != v and c != v and (a < v) == (c < v) and projection_axis(v, a, c) < 0


@compiled
def _meet_beyond_edge(v, w, a, c):
    """Whether the triangles vwa and vwc meet beyond vw."""
    if orient3d(v, w, a, c) != 0:
        return False
    axis1, axis2 = projection_axis(v, w, a), projection_axis(v, w, c)
    if axis1 >= 0 and axis2 >= 0:
        v2, w2 = drop_axis(v, axis1), drop_axis(w, axis1)
        return orient2d(v2, w2, drop_axis(a, axis1)) == orient2d(v2, w2, drop_axis(c, axis1))
    if axis1 >= 0 or axis2 >= 0:
        return False
    if v == w:
        return _same_ray(v, a, c)
    low, high = lower(v, w), higher(v, w)
    return (a < low and c < low) or (a > high and c > high)
