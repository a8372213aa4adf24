"""Eight boxes, or eight triangles, sorted by their distance to a point or box, in a few vector instructions.

Nodes are float32: ``box[node, 6, 8]`` as in ``boxes``, ``corner[node, 9, 8]`` for triangles, x, y, z of three corners.
The result are eight *keys* in rising order: lower bounds of the squared distance, as the bits of a float32, with the
child number in the three lowest bits. Bits of non-negative floats order as the floats do.

Boxes      The gaps along the three axes, squared and added.
Triangles  For any direction g, no point of a triangle is nearer than min g · corner / |g|. Two directions are used:
           from the point to the nearest point of the edges, and the normal. One of them attains the distance.
           Rounding of g makes the bound weaker, never wrong; the bound's own rounding is below 2^-20 of the largest
           coordinate. ``unit`` scales the products into the range of float32.
Sorting    Batcher's bitonic network: six steps, each a shuffle and a comparison of all eight.
"""

# mypy: ignore-errors

import numpy as np
from numba import types

from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.lanes import cross, dot, minus, vectorized

SMALLEST = 2.0**-60
"""Squared length below which a direction is not trusted: its rounding may not be relative."""


def _least(m, a, b):
    return m.select(a > b, b, a)


def _from_edge(m, a, b, zero, one):
    """From the origin to the nearest point of segment ab."""
    along = minus(b, a)
    share = m.most(-dot(a, along) / m.most(dot(along, along), one * SMALLEST), zero)
    share = _least(m, share, one)
    return [p + share * q for p, q in zip(a, along)]


def _least_along(m, g, corners, zero, one):
    """A lower bound of the squared distance of triangles to the origin, from a direction."""
    reach = [dot(g, corner) for corner in corners]
    low, high = _least(m, _least(m, reach[0], reach[1]), reach[2]), m.most(m.most(reach[0], reach[1]), reach[2])
    length = m.most(m.most(low, -high), zero)
    square = dot(g, g)
    return m.select(square > one * SMALLEST, length * length / square, zero)


def _write_sorted(m, keys, at, square):
    """Sort squared distances with their lanes and write them as keys."""
    order = m.bitcast(square, np.int32) & -WIDTH | m.constant(range(WIDTH), np.int32)
    for run, step in ((2, 1), (4, 2), (4, 1), (8, 4), (8, 2), (8, 1)):
        others = m.shuffle(order, order, [lane ^ step for lane in range(WIDTH)])
        smaller = order < others
        low, high = m.select(smaller, order, others), m.select(smaller, others, order)
        takes_low = [int((lane & step == 0) == (lane & run == 0)) for lane in range(WIDTH)]
        order = m.select(m.constant(takes_low, np.bool_), low, high)
    m.store(keys, at, order)


@vectorized(lambda box, *rest: types.void(box, types.int64, *[types.float32] * 6, rest[-2], types.int64))
def nearest_boxes(m, box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z, keys, at):
    """Write the keys of the boxes of ``node`` to ``keys[at : at + 8]``, by distance to the box lo .. hi."""
    rows = [m.load(box, 6 * WIDTH * node + WIDTH * k, WIDTH) for k in range(6)]
    low, high = (
        [m.splat(side, WIDTH, np.float32) for side in sides] for sides in ((lo_x, lo_y, lo_z), (hi_x, hi_y, hi_z))
    )
    zero = m.splat(0.0, WIDTH, np.float32)
    gap = [m.most(m.most(rows[k] - high[k], low[k] - rows[3 + k]), zero) for k in range(3)]
    _write_sorted(m, keys, at, dot(gap, gap))


@vectorized(lambda corner, *rest: types.void(corner, types.int64, *[types.float32] * 4, rest[-2], types.int64))
def nearest_triangles(m, corner, node, x, y, z, unit, keys, at):
    """Write the keys of the triangles of ``node`` to ``keys[at : at + 8]``, by distance to a point."""
    *point, unit, zero, one = (m.splat(value, WIDTH, np.float32) for value in (x, y, z, unit, 0.0, 1.0))
    rows = [m.load(corner, 9 * WIDTH * node + WIDTH * k, WIDTH) for k in range(9)]
    a, b, c = ([(rows[3 * k + axis] - point[axis]) * unit for axis in range(3)] for k in range(3))
    nearest = _from_edge(m, a, b, zero, one)
    for p, q in ((b, c), (c, a)):
        other = _from_edge(m, p, q, zero, one)
        is_farther = dot(other, other) > dot(nearest, nearest)
        nearest = [m.select(is_farther, mine, its) for mine, its in zip(nearest, other)]
    normal = cross(minus(b, a), minus(c, a))
    bounds = [_least_along(m, direction, (a, b, c), zero, one) for direction in (nearest, normal)]
    _write_sorted(m, keys, at, m.most(*bounds) / (unit * unit))
