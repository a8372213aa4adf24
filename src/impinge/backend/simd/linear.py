"""Linear algebra four lanes at a time: sparse matrices of 3x3 blocks, and panels of eight rows of dense ones.

Blocks    have nine numbers, column by column: a block times three numbers is three vector instructions. The fourth
          lane of a column reads the number behind it and is dropped, hence ``value`` has a number behind the last
          block. Diagonal blocks are symmetric and have six numbers: 00, 11, 22, 01, 02, 12.
Panels    Rows of a dense matrix are multiples of ``PANEL`` long and as many; rows and columns of zeros fill it up.

All sums have one order. In functions compiled with fused multiply-add, they use it.

Tried for blocks: float32 takes 13 % less time, yet its rounded rows do not sum to zero, and stiff bodies in free fall
would deform; columns padded to four lanes take 10 % more; eight numbers in one vector and the ninth in another array
take 15 % less.
"""

# mypy: ignore-errors

import functools
import operator

import numpy as np
from numba import types

from impinge.backend.simd.lanes import vectorized

LANES = 4
"""Numbers that are computed at once."""
PANEL = 8
"""Rows of a dense matrix that are read at once."""


def _add_column(m, total, column, factor):
    total.value = total.value + column * m.splat(factor, LANES, np.float64)


@vectorized(types.float64)
def multiply_blocks(m, row_start, column, value, diagonal, is_left_out, vector, image, lo, hi):
    """Write the product of the rows ``lo`` to ``hi`` with ``vector`` to ``image``; returns vector · image of these.

    The product of rows that are left out is 0. A row is summed in three parts, one for each column of its blocks.
    """
    zero = m.splat(0.0, LANES, np.float64)
    total = m.variable(m.lane(zero, 0))
    for i in m.loop(lo, hi):
        xx, yy, zz, xy, xz, yz = (m.load(diagonal, 6 * i + k) for k in range(6))
        own = [m.load(vector, 3 * i + k) for k in range(3)]
        sums = [m.variable(zero) for _ in range(3)]
        for k, column_k in enumerate(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))):
            _add_column(m, sums[k], m.gather([*column_k, column_k[2]]), own[k])
        for e in m.loop(m.load(row_start, i), m.load(row_start, i + 1)):
            j = 3 * m.load_index(column, e)
            for k in range(3):
                _add_column(m, sums[k], m.load(value, 9 * e + 3 * k, LANES), m.load(vector, j + k))
        product = (sums[0].value + sums[1].value) + sums[2].value
        product = m.select(m.load(is_left_out, i) > 0, zero, product)
        for k in range(3):
            m.store(image, 3 * i + k, m.lane(product, k))
        total.value = total.value + functools.reduce(operator.add, [own[k] * m.lane(product, k) for k in range(3)])
    return total.value


@vectorized(types.UniTuple(types.float64, 3))
def multiply_row(m, column, value, vector, lo, hi):
    """The product of one row, the blocks ``lo`` to ``hi``, with ``vector``."""
    sums = [m.variable(m.splat(0.0, LANES, np.float64)) for _ in range(3)]
    for e in m.loop(lo, hi):
        j = 3 * m.load(column, e)
        for k in range(3):
            _add_column(m, sums[k], m.load(value, 9 * e + 3 * k, LANES), m.load(vector, j + k))
    product = (sums[0].value + sums[1].value) + sums[2].value
    return tuple(m.lane(product, k) for k in range(3))


@vectorized(types.void)
def subtract_panel(m, matrix, at, stride, vector, own, lo, hi):
    """Subtract from the numbers ``lo`` to ``hi`` of a vector the rows of a panel times its numbers from ``own`` on.

    Row r of the panel begins at ``at + r stride`` of ``matrix``.
    """
    factor = [m.splat(m.load(vector, own + r), LANES, np.float64) for r in range(PANEL)]
    for k in m.loop(lo, hi, LANES):
        part = [m.load(vector, k, LANES), m.splat(0.0, LANES, np.float64)]
        for r in range(PANEL):
            part[r % 2] = part[r % 2] - factor[r] * m.load(matrix, at + r * stride + k, LANES)
        m.store(vector, k, part[0] + part[1])


@vectorized(types.void)
def subtract_dots(m, matrix, at, stride, vector, own, lo, hi):
    """Subtract from the numbers of a vector from ``own`` on the rows of a panel, columns ``lo`` to ``hi``, times it."""
    sums = [m.variable(m.splat(0.0, LANES, np.float64)) for _ in range(PANEL)]
    for k in m.loop(lo, hi, LANES):
        part = m.load(vector, k, LANES)
        for r in range(PANEL):
            sums[r].value = sums[r].value + part * m.load(matrix, at + r * stride + k, LANES)
    for r in range(PANEL):
        pairs = sums[r].value + m.shuffle(sums[r].value, sums[r].value, [2, 3, 0, 1])
        m.store(vector, own + r, m.load(vector, own + r) - (m.lane(pairs, 0) + m.lane(pairs, 1)))


@vectorized(types.void)
def divide_panel(m, matrix, at, stride, pivot, own, lo, hi):
    """Solve with the transposed triangle of a panel, which begins at column ``own``, for its columns ``lo`` to ``hi``.

    ``pivot`` has the reciprocals of the diagonal.
    """
    for k in m.loop(lo, hi, LANES):
        rows = []
        for r in range(PANEL):
            part = m.load(matrix, at + r * stride + k, LANES)
            for before, row in enumerate(rows):
                part = part - m.splat(m.load(matrix, at + before * stride + own + r), LANES, np.float64) * row
            rows.append(part * m.splat(m.load(pivot, own + r), LANES, np.float64))
        for r, row in enumerate(rows):
            m.store(matrix, at + r * stride + k, row)


@vectorized(types.void)
def eliminate_panel(m, matrix, at, stride, row):
    """Subtract from four rows of a matrix, from the diagonal on, what eight rows that were factorised take off them.

    The eight rows begin at ``at``: entry (i, k) loses the sum of the products of their columns i and k. ``row`` is
    a multiple of four, of which the entries left of the diagonal are undefined.
    """
    for k in m.loop(row - (row & (PANEL - 1)), stride, 2 * LANES):
        own = [[(row + i) * stride + k + LANES * half for half in range(2)] for i in range(4)]
        parts = [[m.load(matrix, place, LANES) for place in places] for places in own]
        for r in range(PANEL):
            columns = [m.load(matrix, at + r * stride + k + LANES * half, LANES) for half in range(2)]
            for i in range(4):
                factor = m.splat(m.load(matrix, at + r * stride + row + i), LANES, np.float64)
                parts[i] = [part - factor * column for part, column in zip(parts[i], columns)]
        for i in range(4):
            for place, part in zip(own[i], parts[i]):
                m.store(matrix, place, part)


@vectorized(types.void)
def add_outer(m, matrix, at, stride, factors, left, right):
    """Add the transposed rows of a 3x6 block of ``factors`` times those of another to a 6x6 block of a matrix."""
    rows = [[m.load(factors, right + 6 * r, LANES), m.load(factors, right + 6 * r + LANES, 2)] for r in range(3)]
    for i in range(6):
        for half, width in enumerate((LANES, 2)):
            place = at + i * stride + LANES * half
            part = m.load(matrix, place, width)
            for r in range(3):
                part = part + m.splat(m.load(factors, left + 6 * r + i), width, np.float64) * rows[r][half]
            m.store(matrix, place, part)
