"""One point against eight tetrahedra, and eight points against a box, in a few vector instructions.

Tets come in groups of eight, as float32, one row of eight numbers per quantity: ``corner`` has twelve rows (x, y, z of
corner 0, then of 1, 2, 3), ``tet`` has fourteen (written by ``fit_tets``). Ids of the corners are four rows of int32.

A point p is in the tet c0 c1 c2 c3 iff four numbers are not negative: with u_i = c_i - c0, q = p - c0 and
det = (u1 × u2) · u3 > 0,

    s1 = (u2 × u3) · q      s2 = (u3 × u1) · q      s3 = (u1 × u2) · q      s0 = det - s1 - s2 - s3.

If det is negative, all five change their signs. Float32 rounds: "not negative" means "at least -margin".
"""

# mypy: ignore-errors

import functools
import operator

import numpy as np
from numba import types

from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.lanes import conjunction, cross, dot, minus, vectorized

CORNER_ROWS = 12
"""Rows of ``corner``."""
TET_ROWS = 14
"""Rows of ``tet``: corner 0, the normals of s1, s2, s3, det, -margin."""


@vectorized(lambda ids, *_: types.uint64(ids, types.int64, types.int32))
def tets_with_corner(m, ids, start, v):
    """Bit i is set if ``v`` is a corner of tet i; ``ids[start:]`` begins with four rows."""
    wanted = m.splat(v, WIDTH, np.int32)
    rows = [m.load(ids, start + WIDTH * k, WIDTH) for k in range(4)]
    return m.bits(functools.reduce(operator.or_, [row == wanted for row in rows]))


@vectorized(lambda x, y, z, *_: types.uint64(x, y, z, types.int64, *[types.float32] * 6))
def points_in_box(m, x, y, z, start, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
    """Bit i is set if point ``start + i`` lies in the closed box; the arrays are read eight at a time."""
    inside = []
    for axis, low, high in ((x, lo_x, hi_x), (y, lo_y, hi_y), (z, lo_z, hi_z)):
        at, low, high = m.load(axis, start, WIDTH), *(m.splat(side, WIDTH, np.float32) for side in (low, high))  # noqa: PLW2901
        inside.append((at >= low) & (at <= high))
    return m.bits(conjunction(inside))


@vectorized(lambda corner, tet, _: types.UniTuple(types.uint64, 2)(corner, tet, types.float32))
def fit_tets(m, corner, tet, reach):
    """Fill ``tet`` from ``corner``; bits of the lanes with det > margin, and of those with det < -margin."""
    first, *others = ([m.load(corner, WIDTH * (3 * k + axis), WIDTH) for axis in range(3)] for k in range(4))
    u = [minus(other, first) for other in others]
    normals = [cross(u[1], u[2]), cross(u[2], u[0]), cross(u[0], u[1])]
    det = dot(normals[2], u[2])
    size = functools.reduce(m.most, [m.most(value, -value) for vector in u for value in vector])
    margin = size * m.splat(reach, WIDTH, np.float32)
    is_negative = det < -margin
    signed = [m.select(is_negative, -value, value) for value in (*normals[0], *normals[1], *normals[2], det)]
    for k, value in enumerate([*first, *signed, -margin]):
        m.store(tet, WIDTH * k, value)
    return m.bits(det > margin), m.bits(is_negative)


@vectorized(lambda tet, *_: types.uint64(tet, *[types.float32] * 3))
def tets_around(m, tet, x, y, z):
    """Bit i is set if the point may lie in tet i."""
    rows = [m.load(tet, WIDTH * k, WIDTH) for k in range(TET_ROWS)]
    q = [m.splat(value, WIDTH, np.float32) - rows[axis] for axis, value in enumerate((x, y, z))]
    s = [dot(rows[3 * k : 3 * k + 3], q) for k in (1, 2, 3)]
    s0 = rows[12] - (s[0] + s[1] + s[2])
    return m.bits(conjunction([value >= rows[13] for value in (*s, s0)]))
