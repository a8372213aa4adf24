"""Eight boxes against one, or eight against eight, in a few vector instructions.

A node holds the boxes of its eight children as a structure of arrays, ``box[node, 6, 8]``: lowest x, y, z, then highest
x, y, z, each for eight children, float32 or float64. One box is compared with all eight at once; the result is a mask
of eight bits. Eight against eight give 64 bits. Boxes that move are compared at both ends of the motion. To bound
vertices, x, y and y, z are loaded together: two instructions per vertex do the work of six.
"""

# mypy: ignore-errors

import functools
import operator

import numba
import numpy as np
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic
from impinge.backend.simd.lanes import conjunction, vectorized

WIDTH = 8
"""Children per node."""


def _rows(m, box, node):
    """The six vectors of a node."""
    return [m.load(box, 6 * WIDTH * node + WIDTH * k, WIDTH) for k in range(6)]


def _overlap(m, rows, box):
    """Bit i: child i of ``rows`` meets ``box``, six vectors."""
    return m.bits(conjunction([(rows[k] <= box[3 + k]) & (rows[3 + k] >= box[k]) for k in range(3)]))


@vectorized(lambda box, *_: types.uint64(box, types.int64, *[box.dtype] * 6))
def overlap_mask(m, box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
    """Bit i is set if the closed box lo .. hi meets child i of ``node``; touching counts."""
    sides = [m.splat(side, WIDTH, box.dtype) for side in (lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)]
    return _overlap(m, _rows(m, box, node), sides)


@vectorized(lambda box_a, _, box_b, __: types.uint64(box_a, types.int64, box_b, types.int64))
def overlap_square(m, box_a, node_a, box_b, node_b):
    """Bit 8 i + j is set if child i of ``node_a`` meets child j of ``node_b``; touching counts."""
    rows, masks = _rows(m, box_b, node_b), []
    for i in range(WIDTH):
        sides = [m.load(box_a, 6 * WIDTH * node_a + (WIDTH * k + i)) for k in range(6)]
        masks.append(_overlap(m, rows, [m.splat(side, WIDTH, box_b.dtype) for side in sides]) << WIDTH * i)
    return functools.reduce(operator.or_, masks)


@vectorized(lambda box_a, _, __, box_b, ___: types.uint64(box_a, types.int64, types.int64, box_b, types.int64))
def passing_mask(m, box_a, node_a, lane, box_b, node_b):
    """Bit j is set if child ``lane`` of ``node_a`` may meet child j of ``node_b`` during their motion.

    A moving node n has two: 2 n holds boxes at the start, 2 n + 1 boxes at the end. Contents move along straight lines:
    what is strictly on one side of the other along an axis at both ends remains there.
    """
    start_a, end_a = ([m.load(box_a, 6 * WIDTH * n + (WIDTH * k + lane)) for k in range(6)] for n in _ends(node_a))
    start_a, end_a = ([m.splat(side, WIDTH, box_b.dtype) for side in sides] for sides in (start_a, end_a))
    start_b, end_b = (_rows(m, box_b, n) for n in _ends(node_b))
    return m.bits(
        conjunction(
            [
                ((start_b[k] <= start_a[3 + k]) | (end_b[k] <= end_a[3 + k]))
                & ((start_b[3 + k] >= start_a[k]) | (end_b[3 + k] >= end_a[k]))
                for k in range(3)
            ]
        )
    )


def _ends(node):
    return node * 2, node * 2 + 1


@vectorized(lambda box, _: types.UniTuple(box.dtype, 6)(box, types.int64))
def node_box(m, box, node):
    """Lowest and highest x, y, z of all children of ``node``."""
    bounds = []
    for k, row in enumerate(_rows(m, box, node)):
        for width in (4, 2, 1):  # by halves
            low, high = (m.shuffle(row, row, list(range(first, first + width))) for first in (0, width))
            row = m.least(low, high) if k < 3 else m.most(low, high)  # noqa: PLW2901
        bounds.append(m.lane(row, 0))
    return tuple(bounds)


# Vertices as vectors x, y, y, z


def _vertex(m, x, v):
    """Vertex ``v``, by two loads that overlap: nothing beyond the array is read."""
    return m.shuffle(m.load(x, 3 * v, 2), m.load(x, 3 * v + 1, 2), [0, 1, 2, 3])


def _as_box(m, low, high):
    return tuple(m.lane(bound, k) for bound in (low, high) for k in (0, 1, 3))


@vectorized(lambda x, *_: types.UniTuple(types.float32, 6)(x, *[types.int64] * 3, *[types.float64] * 3))
def triangle_box(m, x, i, j, k, origin_x, origin_y, origin_z):
    """Lowest and highest x, y, z of three vertices, relative to an origin, as float32."""
    p, q, r = (_vertex(m, x, v) for v in (i, j, k))
    origin = m.gather([origin_x, origin_y, origin_y, origin_z])
    low, high = m.least(m.least(p, q), r), m.most(m.most(p, q), r)
    return _as_box(m, m.cast(low - origin, np.float32), m.cast(high - origin, np.float32))


def _box_of(m, x, ids_of, start, stop):
    """Bounds of the vertices ``ids_of(index)`` for all indices; inf, -inf if there are none."""
    low, high = (m.variable(m.splat(bound, 4, np.float64)) for bound in (np.inf, -np.inf))
    for index in m.loop(start, stop):
        for v in ids_of(index):
            p = _vertex(m, x, v)
            low.value, high.value = m.least(p, low.value), m.most(p, high.value)
    return _as_box(m, low.value, high.value)


@vectorized(lambda x, vertex, *_: types.UniTuple(types.float64, 6)(x, vertex, types.int64, types.int64))
def vertices_box(m, x, vertex, start, end):
    """Lowest and highest x, y, z of the vertices in ``vertex[start:end]``; inf, -inf if there are none."""
    return _box_of(m, x, lambda index: [m.load_index(vertex, index)], start, end)


@vectorized(lambda x, y, *_: types.UniTuple(types.float64, 6)(x, y, *[types.int64] * 2, *[types.float64] * 9))
def residual_box(m, x, y, start, end, xx, xy, xz, yx, yy, yz, zx, zy, zz):
    """Lowest and highest x, y, z of y - L x over rows ``start`` to ``end``; L is given row by row."""
    columns = [m.gather(column) for column in ((xx, yx, yx, zx), (xy, yy, yy, zy), (xz, yz, yz, zz))]
    low, high = (m.variable(m.splat(bound, 4, np.float64)) for bound in (np.inf, -np.inf))
    for index in m.loop(start, end):
        p = _vertex(m, y, index)
        for k in range(3):
            p = p - columns[k] * m.splat(m.load(x, 3 * index + k), 4, np.float64)
        low.value, high.value = m.least(p, low.value), m.most(p, high.value)
    return _as_box(m, low.value, high.value)


@vectorized(lambda x, faces, ids, *_: types.UniTuple(types.float64, 6)(x, faces, ids, types.int64, types.int64))
def triangles_box(m, x, faces, ids, start, end):
    """Lowest and highest x, y, z of the triangles in ``ids[start:end]``; inf, -inf if there are none."""

    def corners(index):
        first = 3 * m.load_index(ids, index)
        return (m.load_index(faces, first + k) for k in range(3))

    return _box_of(m, x, corners, start, end)


if numba.config.DISABLE_JIT:

    def lowest_bit(mask):
        """Position of the lowest bit that is set."""
        return (int(mask) & -int(mask)).bit_length() - 1

else:

    @intrinsic
    def lowest_bit(_typing_context, _mask):
        """Position of the lowest bit that is set, of a uint64."""

        def codegen(_context, builder, _signature, args):
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), codegen
