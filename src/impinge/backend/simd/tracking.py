"""Four spheres at a time that follow vertices, and four points at a time against a centre.

Spheres come in blocks of eight, ``sphere[block, 4, 8]`` (x, y, z, radius); one call computes half a block. The control
vertices of a sphere stand in rows: ``control[row, 8]`` has one vertex of each sphere of a block, ``coefficient[row, k,
8]`` its weights, float32 or float64, and a block has rows ``start .. stop``. Sums are relative to the vertex in the
first row. A sphere that is ``alone`` in its block has its controls in all four lanes of the first half: its sums are
those of the lanes together. ``share[block, k, 8]`` holds one value per sphere.

Products and sums are rounded one by one, in the order of rows: all machines compute the same spheres.
"""

# mypy: ignore-errors

import numpy as np
from numba import types

from impinge.backend.simd.lanes import cross, dot, minus, vectorized

HALF = 4
"""Spheres, or points, per call."""
LEADING = 8
"""Rows with weights, of spheres that enclose very many controls."""
SMALLEST = 1e-290
"""Lower bound of sizes: its inverse is finite."""
ROUNDING = 64 * 2.220446049250313e-16
"""Radii grow by this factor, and by this times the largest number that they were computed from."""


def _gather(m, x, ids, index):
    """Coordinates of the four vertices ``ids[index : index + 4]``; x and y of each are loaded at once."""
    first = [3 * m.load_index(ids, index + lane) for lane in range(HALF)]
    xy = [m.load(x, at, 2) for at in first]
    even, odd = (m.shuffle(xy[k], xy[k + 2], [0, 1, 2, 3]) for k in range(2))
    z = m.gather([m.load(x, at + 2) for at in first])
    return [m.shuffle(even, odd, [0, 4, 2, 6]), m.shuffle(even, odd, [1, 5, 3, 7]), z]


class _Block:
    """Half a block of spheres and its rows of controls."""

    def __init__(self, m, sphere, block, half, x, control, coefficient, share, start, stop, alone):
        self.m, self.sphere, self.x, self.control, self.coefficient, self.share = (
            m, sphere, x, control, coefficient, share,
        )  # fmt: skip
        self.block, self.start, self.stop, self.alone = block, start, stop, alone
        self.first_lane = HALF * half
        self.origin = self._vertices(start)

    def _vertices(self, row):
        return _gather(self.m, self.x, self.control, 2 * HALF * row + self.first_lane)

    def _index(self, array, row, k):
        return 2 * HALF * (row * array.shape[1] + k) + self.first_lane

    def controls(self, row):
        """Controls of a row, relative to the first row."""
        return minus(self._vertices(row), self.origin)

    def weight(self, row, k):
        """Column ``k`` of the coefficients of a row."""
        values = self.m.load(self.coefficient, self._index(self.coefficient, row, k), HALF)
        return self.m.cast(values, np.float64)

    def own(self, k):
        """Column ``k`` of the values per sphere."""
        return self.m.cast(self.m.load(self.share, self._index(self.share, self.block, k), HALF), np.float64)

    def reduce(self, function, terms, count, *, stop=None):
        """Reduce the ``count`` vectors ``terms(row)`` over all rows; over the lanes too if the sphere is alone."""
        m = self.m
        totals = [m.variable(m.splat(0.0, HALF, np.float64)) for _ in range(count)]
        for row in m.loop(self.start, self.stop if stop is None else stop):
            for total, term in zip(totals, terms(row)):
                total.value = function(total.value, term)
        for _ in m.when(self.alone):
            for total in totals:
                total.value = m.fold(total.value, HALF, function)
        return [total.value for total in totals]

    def weighted_sums(self, columns, *, stop=None):
        """For each column the sum of weight times control, three vectors each."""

        def terms(row):
            q = self.controls(row)
            for k in range(columns):
                weight = self.weight(row, k)
                yield from (weight * q[axis] for axis in range(3))

        return self.reduce(lambda a, b: a + b, terms, 3 * columns, stop=stop)

    def largest_square(self, centre, scale=lambda _: 1.0):
        """The largest squared distance of a control from a centre, times the scale of its row."""

        def terms(row):
            away = minus(self.controls(row), centre)
            yield dot(away, away) * scale(row)

        return self.reduce(lambda a, b: self.m.most(b, a), terms, 1)[0]

    def write_centre(self, centre):
        """Write centres, given relative to the first row's controls."""
        for axis in range(3):
            self._write(axis, centre[axis] + self.origin[axis])

    def write_radius(self, radius):
        """Write radii."""
        self._write(3, radius)

    def write_rounded_radius(self, radius, reach):
        """Write radii, enlarged by the rounding of sums of numbers up to ``reach``."""
        rounding = self.m.splat(reach, HALF, np.float64) * ROUNDING
        self._write(3, radius * (1.0 + ROUNDING) + rounding)

    def _write(self, k, value):
        self.m.store(self.sphere, self._index(self.sphere, self.block, k), value)


def _with_unit_size(m, vectors):
    """The largest coordinate of some vectors, and the vectors divided by it: squares neither over- nor underflow."""
    size = m.splat(SMALLEST, HALF, np.float64)
    for vector in vectors:
        for value in vector:
            size = m.most(m.most(size, value), -value)
    inverse = m.splat(1.0, HALF, np.float64) / size
    return size, [[inverse * value for value in vector] for vector in vectors]


def _stretch(m, columns):
    """An upper bound of the largest singular value of 3x3 matrices F, tight where the two others are equal.

    With m the mean of the eigenvalues of C = FᵀF and p² = |C - m I|² / 6, they are m + 2 p cos(t) for three t.
    """
    size, columns = _with_unit_size(m, columns)
    xx, yy, zz = (dot(column, column) for column in columns)
    mixed = [dot(columns[i], columns[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    mean = (xx + yy + zz) / 3.0
    deviation = [value - mean for value in (xx, yy, zz)]
    square = dot(deviation, deviation) + 2.0 * dot(mixed, mixed)
    return size * m.sqrt(mean + 2.0 * m.sqrt(square / 6.0))


def _signature(*more):
    """Signature of the functions below, by the types of their arrays."""

    def signature(sphere, _block, _half, x, control, coefficient, share, *_rest):
        ints = types.int64
        return types.void(
            sphere, ints, ints, x, control, coefficient, share, ints, ints, types.boolean, *more
        )  # fmt: skip

    return signature


@vectorized(_signature())
def follow_as_published(m, sphere, block, half, x, control, coefficient, share, start, stop, alone):
    """Write c' = s + Σ w q' and r' = max sqrt(v) |q' - c'|, r if that is 0; columns w, v; share s, r."""
    block = _Block(m, sphere, block, half, x, control, coefficient, share, start, stop, alone)
    centre = [total + block.own(axis) for axis, total in enumerate(block.weighted_sums(1))]
    ratio = block.largest_square(centre, lambda row: block.weight(row, 1))
    block.write_centre(centre)
    block.write_radius(m.select(ratio > 0.0, m.sqrt(ratio), block.own(3)))


def _affine(m, block):
    """Centre, columns of F = Σ q' gᵀ, and the radius |t F| r."""
    sums = block.weighted_sums(4)
    columns = [sums[3:6], sums[6:9], sums[9:12]]
    unit = block.own(0)
    return sums[:3], columns, block.own(3) * _stretch(m, [[unit * value for value in column] for column in columns])


@vectorized(_signature(types.float64))
def follow_affine(m, sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
    """Write c' = Σ w q' and r' = |t F| r with F = Σ q' gᵀ; columns w, g (3); share: t, 2 unused, r."""
    block = _Block(m, sphere, block, half, x, control, coefficient, share, start, stop, alone)
    centre, _, radius = _affine(m, block)
    block.write_centre(centre)
    block.write_rounded_radius(radius, reach)


@vectorized(_signature(types.float64))
def follow_bounded(m, sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
    """As ``follow_affine``, and r' grows by Σ s |q' - c' - F e|; columns w, g (3), e (3), s."""
    block = _Block(m, sphere, block, half, x, control, coefficient, share, start, stop, alone)
    centre, columns, radius = _affine(m, block)

    def residual(row):
        q, e = block.controls(row), [block.weight(row, 4 + k) for k in range(3)]
        u = [q[i] - centre[i] - dot([column[i] for column in columns], e) for i in range(3)]
        yield block.weight(row, 7) * m.sqrt(dot(u, u))

    radius = radius + block.reduce(lambda a, b: a + b, residual, 1)[0]
    block.write_centre(centre)
    block.write_rounded_radius(radius, reach)


@vectorized(_signature(types.float64))
def follow_near(m, sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
    """Write c' = Σ w q' and r' = s max |q' - c'| + t; column w, of the leading rows; share: 2 unused, t, s."""
    block = _Block(m, sphere, block, half, x, control, coefficient, share, start, stop, alone)
    centre = block.weighted_sums(1, stop=m.least(block.start + LEADING, block.stop))
    radius = block.own(3) * m.sqrt(block.largest_square(centre)) + block.own(2)
    block.write_centre(centre)
    block.write_rounded_radius(radius, reach)


@vectorized(_signature())
def follow_patch(m, sphere, block, half, x, control, coefficient, share, start, stop, alone):
    """Write c' = Σ w q' + s n, n the unit normal of Σ u q' and Σ v q'; columns w, u, v; share s."""
    block = _Block(m, sphere, block, half, x, control, coefficient, share, start, stop, alone)
    sums = block.weighted_sums(3)
    _, (u, v) = _with_unit_size(m, [sums[3:6], sums[6:9]])
    normal = cross(u, v)
    length = m.sqrt(dot(normal, normal))
    scale = m.select(length > 0.0, block.own(0) / length, m.splat(0.0, HALF, np.float64))
    block.write_centre([c + scale * n for c, n in zip(sums[:3], normal)])


@vectorized(lambda x, ids, *_: types.float64(x, ids, types.int64, types.int64, *[types.float64] * 3))
def farthest_square(m, x, ids, start, stop, cx, cy, cz):
    """The largest squared distance of x[ids[start:stop]] from a point; the count is a multiple of four."""
    centre = [m.splat(value, HALF, np.float64) for value in (cx, cy, cz)]
    square = m.variable(m.splat(0.0, HALF, np.float64))
    for index in m.loop(start, stop, HALF):
        away = minus(_gather(m, x, ids, index), centre)
        square.value = m.most(dot(away, away), square.value)
    return m.lane(m.fold(square.value, HALF, m.most), 0)
