"""Intersection of two closed triangles in space: a filter and an exact test with one meaning.

``triangle_triangle_filtered`` is the fast path: plain doubles and one error bound, computed by the caller for a whole
set of pairs. It answers NONE, CROSSING or UNCERTAIN, needs no scratch memory and runs on any device. On generic
data it decides everything, at the cost of a test without an error bound.

``triangle_triangle_exact`` decides every case: touching, coplanar and degenerate triangles (segments, points).

Method [GuigueDevillers2003], signs only:
1. Sides.     Sides of the corners of each triangle against the plane of the other. All strictly on one side: NONE.
2. Rotate.    Turn each triangle until its first corner p is alone on its side of the other's plane; swap the
              other's q and r where needed to put p on the positive side.
3. Intervals. Both planes meet in a line, each triangle in an interval of it. The intervals overlap iff
              orient3d(q1, p2, p1, q2) <= 0 and orient3d(p1, p2, r1, r2) <= 0; strictly iff they share inside points.

Departures  a pair in which all three sides of one triangle are zero is coplanar or degenerate, and goes to the
            planar tests; there is no epsilon.
Bound       If the six corners lie in a box of size dx, dy, dz, the permanent of ``orientation`` is at most 6 dx dy dz,
            and 9 u · 6 dx dy dz bounds the error of every determinant of the pair. Underflow cannot add to that
            while dx dy dz > 2^-800 and no extent exceeds 2^200. A box that is far too large does no harm: a
            bound of 1e-15 times its volume still leaves little uncertain.
"""

import numpy as np
from numba import types

from impinge.backend.jit import compiled, outlined
from impinge.exact.kinds import CROSSING, NONE, TOUCHING, UNCERTAIN
from impinge.exact.orientation import BOUND_3D, orient3d
from impinge.exact.planar import drop_axis, projection_axis, segment_ends, triangles_2d
from impinge.exact.segment_triangle import segment_proper_triangle, segment_segment

PAIR_BOUND = 6.0 * BOUND_3D
SMALLEST_VOLUME = 2.0**-800
LARGEST_EXTENT = 2.0**200


@compiled
def triangle_triangle(p1, q1, r1, p2, q2, r2):
    """Kind of two triangles: the filter, then the exact test where it is uncertain."""
    kind = triangle_triangle_filtered(p1, q1, r1, p2, q2, r2, own_bound(p1, q1, r1, p2, q2, r2))
    if kind == UNCERTAIN:
        return triangle_triangle_exact(p1, q1, r1, p2, q2, r2)
    return kind


# The filter -------------------------------------------------------------------------------------------


@compiled
def own_bound(p1, q1, r1, p2, q2, r2):
    """The error bound from the bounding box of the six corners."""
    dx = max(p1[0], q1[0], r1[0], p2[0], q2[0], r2[0]) - min(p1[0], q1[0], r1[0], p2[0], q2[0], r2[0])
    dy = max(p1[1], q1[1], r1[1], p2[1], q2[1], r2[1]) - min(p1[1], q1[1], r1[1], p2[1], q2[1], r2[1])
    dz = max(p1[2], q1[2], r1[2], p2[2], q2[2], r2[2]) - min(p1[2], q1[2], r1[2], p2[2], q2[2], r2[2])
    return error_bound(dx, dy, dz)


@compiled
def error_bound(dx, dy, dz):
    """Bound on the error of every determinant of corners within a box of this size; inf where there is none."""
    volume = dx * dy * dz
    if volume > SMALLEST_VOLUME and max(dx, dy, dz) < LARGEST_EXTENT:
        return PAIR_BOUND * volume
    return np.inf


@compiled
def minus(a, b):
    """The vector from b to a."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def cross(a, b):
    """The cross product of two vectors."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def dot(a, b):
    """The dot product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _determinant(a, b, c, d):
    """((b - a) × (c - a)) · (d - a) in doubles."""
    return dot(cross(minus(b, a), minus(c, a)), minus(d, a))


@compiled
def triangle_triangle_filtered(p1, q1, r1, p2, q2, r2, bound):
    """NONE or CROSSING where determinants exceed ``bound``, else UNCERTAIN."""
    n2 = cross(minus(p2, r2), minus(q2, r2))
    sp1, sq1, sr1 = dot(n2, minus(p1, r2)), dot(n2, minus(q1, r2)), dot(n2, minus(r1, r2))
    if min(sp1, sq1, sr1) > bound or max(sp1, sq1, sr1) < -bound:
        return NONE
    n1 = cross(minus(p1, r1), minus(q1, r1))
    sp2, sq2, sr2 = dot(n1, minus(p2, r1)), dot(n1, minus(q2, r1)), dot(n1, minus(r2, r1))
    if min(sp2, sq2, sr2) > bound or max(sp2, sq2, sr2) < -bound:
        return NONE
    if min(abs(sp1), abs(sq1), abs(sr1), abs(sp2), abs(sq2), abs(sr2)) <= bound:
        return UNCERTAIN

    if (sp1 > 0.0) == (sq1 > 0.0):
        p1, q1, r1, sp1 = r1, p1, q1, sr1
    elif (sp1 > 0.0) == (sr1 > 0.0):
        p1, q1, r1, sp1 = q1, r1, p1, sq1
    if (sp2 > 0.0) == (sq2 > 0.0):
        p2, q2, r2, sp2 = r2, p2, q2, sr2
    elif (sp2 > 0.0) == (sr2 > 0.0):
        p2, q2, r2, sp2 = q2, r2, p2, sq2
    if sp1 < 0.0:
        q2, r2 = r2, q2
    if sp2 < 0.0:
        q1, r1 = r1, q1

    first, second = _determinant(q1, p2, p1, q2), _determinant(p1, p2, r1, r2)
    if first > bound or second > bound:
        return NONE
    return CROSSING if first < -bound and second < -bound else UNCERTAIN


# The exact test ---------------------------------------------------------------------------------------


@compiled
def _rotate(p, q, r, sp, sq, sr):
    """Rotate a triangle until the corner that is alone on its side comes first; and that side.

    Some sign is not zero, and not all are equal. A corner is alone if the others are on or beyond the plane; else a
    corner on the plane whose two mates share a side, with the opposite side.
    """
    if sp != 0 and sq != sp and sr != sp:
        return p, q, r, sp
    if sq != 0 and sr != sq and sp != sq:
        return q, r, p, sq
    if sr != 0 and sp != sr and sq != sr:
        return r, p, q, sr
    if sp == 0:
        return p, q, r, -sq
    if sq == 0:
        return q, r, p, -sr
    return r, p, q, -sp


@compiled
def _flat_pair(p1, q1, r1, p2, q2, r2):
    """Kind of two triangles if all corners of one lie in the plane of the other, which may be degenerate."""
    axis1, axis2 = projection_axis(p1, q1, r1), projection_axis(p2, q2, r2)
    if axis1 >= 0 and axis2 >= 0:
        return triangles_2d(
            drop_axis(p1, axis1), drop_axis(q1, axis1), drop_axis(r1, axis1),
            drop_axis(p2, axis1), drop_axis(q2, axis1), drop_axis(r2, axis1),
        )  # fmt: skip
    a1, b1 = segment_ends(p1, q1, r1)  # unused for a triangle with an area
    a2, b2 = segment_ends(p2, q2, r2)
    if axis1 >= 0:
        return segment_proper_triangle(a2, b2, p1, q1, r1, axis1)
    if axis2 >= 0:
        return segment_proper_triangle(a1, b1, p2, q2, r2, axis2)
    return segment_segment(a1, b1, a2, b2)


@outlined(types.int64(*18 * [types.float64]))
def _exactly(px1, py1, pz1, qx1, qy1, qz1, rx1, ry1, rz1, px2, py2, pz2, qx2, qy2, qz2, rx2, ry2, rz2):
    p1, q1, r1 = (px1, py1, pz1), (qx1, qy1, qz1), (rx1, ry1, rz1)
    p2, q2, r2 = (px2, py2, pz2), (qx2, qy2, qz2), (rx2, ry2, rz2)
    sp1, sq1, sr1 = orient3d(p2, q2, r2, p1), orient3d(p2, q2, r2, q1), orient3d(p2, q2, r2, r1)
    if abs(sp1 + sq1 + sr1) == 3:
        return NONE
    sp2, sq2, sr2 = orient3d(p1, q1, r1, p2), orient3d(p1, q1, r1, q2), orient3d(p1, q1, r1, r2)
    if abs(sp2 + sq2 + sr2) == 3:
        return NONE
    if (sp1 == 0 and sq1 == 0 and sr1 == 0) or (sp2 == 0 and sq2 == 0 and sr2 == 0):
        return _flat_pair(p1, q1, r1, p2, q2, r2)
    straddles1 = min(sp1, sq1, sr1) < 0 < max(sp1, sq1, sr1)
    straddles2 = min(sp2, sq2, sr2) < 0 < max(sp2, sq2, sr2)

    p1, q1, r1, side1 = _rotate(p1, q1, r1, sp1, sq1, sr1)
    p2, q2, r2, side2 = _rotate(p2, q2, r2, sp2, sq2, sr2)
    if side1 < 0:
        q2, r2 = r2, q2
    if side2 < 0:
        q1, r1 = r1, q1

    first = orient3d(q1, p2, p1, q2)
    if first > 0:
        return NONE
    second = orient3d(p1, p2, r1, r2)
    if second > 0:
        return NONE
    return CROSSING if straddles1 and straddles2 and first < 0 and second < 0 else TOUCHING


@compiled
def triangle_triangle_exact(p1, q1, r1, p2, q2, r2):
    """Kind of two triangles in any position."""
    return _exactly(
        p1[0], p1[1], p1[2], q1[0], q1[1], q1[2], r1[0], r1[1], r1[2],
        p2[0], p2[1], p2[2], q2[0], q2[1], q2[2], r2[0], r2[1], r2[2],
    )  # fmt: skip
