"""Eight boxes, or eight triangles, in the order of their distance to a point or box, in a few instructions.

Nodes are float32: ``box[node, 6, 8]`` as in ``simd``, ``corner[node, 9, 8]`` for triangles, x, y, z of three corners.
What comes out are eight *keys* in rising order: lower bounds of the squared distance, as the bits of a float32, whose
three lowest are replaced by the number of the child. Bits of floats that are not negative rise as the floats do.

Boxes      The gaps along the three axes, squared and added.
Triangles  Whatever the direction g, no point of a triangle is nearer than min g · corner / |g|. Two directions are
           tried: from the point to the nearest point of the three edges, and the normal. One of them attains the
           distance. Rounding may spoil g, which makes the bound poor, never false; its own rounding is below 2^-20 of
           the largest coordinate. ``unit`` scales the products into the range of float32.
Sorting    Batcher's bitonic network: six steps, each a shuffle and a comparison of all eight.
"""

# mypy: ignore-errors

import numba
import numpy as np
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic
from impinge.backend.simd.boxes import WIDTH

SMALLEST = 2.0**-60
"""Squared length below which a direction is not trusted: its rounding may not be relative."""

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _INTS = ir.VectorType(_F32, WIDTH), ir.VectorType(_I32, WIDTH)


# The mathematics, for whatever adds and multiplies like eight numbers -----------------------------------


def _dot(a, b):
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


def _minus(a, b):
    return [p - q for p, q in zip(a, b)]


def _box_square(rows, low, high):
    """Squared distance of eight boxes to the box low .. high."""
    zero = low[0] - low[0]
    gap = [(rows[k] - high[k]).most(low[k] - rows[3 + k]).most(zero) for k in range(3)]
    return _dot(gap, gap)


def _from_edge(a, b, one):
    """From the origin to the nearest point of segment ab."""
    along = _minus(b, a)
    share = (-_dot(a, along) / _dot(along, along).most(one * SMALLEST)).most(one - one).least(one)
    return [p + share * q for p, q in zip(a, along)]


def _least_along(g, corners, one):
    """Square of a distance to the origin that no point of the triangles falls below, from a direction."""
    zero = one - one
    reach = [_dot(g, corner) for corner in corners]
    low, high = reach[0].least(reach[1]).least(reach[2]), reach[0].most(reach[1]).most(reach[2])
    length = low.most(-high).most(zero)
    square = _dot(g, g)
    return square.choose(one * SMALLEST, length * length / square, zero)


def _triangle_square(rows, point, unit, one):
    """A lower bound of the squared distance of eight triangles to a point, times that of ``unit``."""
    a, b, c = ([(rows[3 * corner + k] - point[k]) * unit for k in range(3)] for corner in range(3))
    nearest = _from_edge(a, b, one)
    for p, q in ((b, c), (c, a)):
        other = _from_edge(p, q, one)
        ours, theirs = _dot(nearest, nearest), _dot(other, other)
        nearest = [theirs.choose(ours, mine, its) for mine, its in zip(nearest, other)]
    u, v = _minus(b, a), _minus(c, a)
    normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    return _least_along(nearest, (a, b, c), one).most(_least_along(normal, (a, b, c), one))


class _Lanes:
    """Eight float32 of compiled code."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value

    def _of(self, value):
        return _Lanes(self.builder, value)

    def __add__(self, other):
        return self._of(self.builder.fadd(self.value, other.value))

    def __sub__(self, other):
        return self._of(self.builder.fsub(self.value, other.value))

    def __mul__(self, other):
        if isinstance(other, float):
            other = self._of(ir.Constant(_FLOATS, [other] * WIDTH))
        return self._of(self.builder.fmul(self.value, other.value))

    def __truediv__(self, other):
        return self._of(self.builder.fdiv(self.value, other.value))

    def __neg__(self):
        return self._of(self.builder.fneg(self.value))

    def choose(self, limit, above, below):
        """Lane by lane ``above`` where this is greater than ``limit``, otherwise ``below``."""
        greater = self.builder.fcmp_ordered(">", self.value, limit.value)
        return self._of(self.builder.select(greater, above.value, below.value))

    def most(self, other):
        """The greater of each lane."""
        return self.choose(other, self, other)

    def least(self, other):
        """The lesser of each lane."""
        return self.choose(other, other, self)


class _Array(np.ndarray):
    """Eight float32 of Python, for Numba switched off."""

    def choose(self, limit, above, below):
        """Lane by lane ``above`` where this is greater than ``limit``, otherwise ``below``."""
        return np.where(self > limit, above, below).view(_Array)

    def most(self, other):
        """The greater of each lane."""
        return self.choose(other, self, other)

    def least(self, other):
        """The lesser of each lane."""
        return self.choose(other, other, self)


if numba.config.DISABLE_JIT:

    def _lanes(values):
        return [np.full(WIDTH, value, dtype=np.float32).view(_Array) for value in values]

    def _write(keys, at, square):
        bits = np.asarray(square, dtype=np.float32).view(np.int32) & ~np.int32(WIDTH - 1)
        keys[at : at + WIDTH] = np.sort(bits | np.arange(WIDTH, dtype=np.int32))

    def nearest_boxes(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z, keys, at):
        """Write the keys of the boxes of ``node`` to ``keys[at : at + 8]``, by their distance to the box lo .. hi."""
        low, high = _lanes((lo_x, lo_y, lo_z)), _lanes((hi_x, hi_y, hi_z))
        _write(keys, at, _box_square([row.view(_Array) for row in box[node]], low, high))

    def nearest_triangles(corner, node, x, y, z, unit, keys, at):
        """Write the keys of the triangles of ``node`` to ``keys[at : at + 8]``, by their distance to a point."""
        *point, scale, one = _lanes((x, y, z, unit, 1.0))
        rows = [row.view(_Array) for row in corner[node]]
        _write(keys, at, _triangle_square(rows, point, scale, one) / (scale * scale))

else:

    def _rows(context, builder, array_type, array, node, count):
        """The vectors of a node."""
        data = context.make_array(array_type)(context, builder, array).data
        pointer = builder.bitcast(data, _FLOATS.as_pointer())
        first = builder.mul(node, ir.Constant(_I64, count))
        loads = [builder.load(builder.gep(pointer, [builder.add(first, ir.Constant(_I64, k))])) for k in range(count)]
        for load in loads:
            load.align = 4
        return [_Lanes(builder, load) for load in loads]

    def _lanes(builder, values):
        """Vectors of equal numbers."""
        undefined, first = ir.Constant(_FLOATS, ir.Undefined), ir.Constant(_I32, 0)
        spread = ir.Constant(_INTS, [0] * WIDTH)
        ones = [builder.insert_element(undefined, value, first) for value in values]
        return [_Lanes(builder, builder.shuffle_vector(one, undefined, spread)) for one in ones]

    def _sorted(builder, keys):
        undefined = ir.Constant(_INTS, ir.Undefined)
        for run, step in ((2, 1), (4, 2), (4, 1), (8, 4), (8, 2), (8, 1)):
            others = builder.shuffle_vector(keys, undefined, ir.Constant(_INTS, [lane ^ step for lane in range(WIDTH)]))
            smaller = builder.icmp_signed("<", keys, others)
            low, high = builder.select(smaller, keys, others), builder.select(smaller, others, keys)
            takes_low = [int((lane & step == 0) == (lane & run == 0)) for lane in range(WIDTH)]
            keys = builder.select(ir.Constant(ir.VectorType(ir.IntType(1), WIDTH), takes_low), low, high)
        return keys

    def _write(context, builder, array_type, array, at, square):
        bits = builder.and_(builder.bitcast(square.value, _INTS), ir.Constant(_INTS, [-WIDTH] * WIDTH))
        keys = _sorted(builder, builder.or_(bits, ir.Constant(_INTS, list(range(WIDTH)))))
        data = context.make_array(array_type)(context, builder, array).data
        store = builder.store(keys, builder.bitcast(builder.gep(data, [at]), _INTS.as_pointer()))
        store.align = 4
        return context.get_dummy_value()

    @intrinsic
    def nearest_boxes(_typing_context, box, _node, _lo_x, _lo_y, _lo_z, _hi_x, _hi_y, _hi_z, keys, _at):
        """Write the keys of the boxes of ``node`` to ``keys[at : at + 8]``, by their distance to the box lo .. hi."""
        signature = types.void(box, types.int64, *[types.float32] * 6, keys, types.int64)

        def codegen(context, builder, signature, args):
            rows = _rows(context, builder, signature.args[0], args[0], args[1], 6)
            sides = _lanes(builder, args[2:8])
            square = _box_square(rows, sides[:3], sides[3:])
            return _write(context, builder, signature.args[8], args[8], args[9], square)

        return signature, codegen

    @intrinsic
    def nearest_triangles(_typing_context, corner, _node, _x, _y, _z, _unit, keys, _at):
        """Write the keys of the triangles of ``node`` to ``keys[at : at + 8]``, by their distance to a point."""
        signature = types.void(corner, types.int64, *[types.float32] * 4, keys, types.int64)

        def codegen(context, builder, signature, args):
            rows = _rows(context, builder, signature.args[0], args[0], args[1], 9)
            *point, unit = _lanes(builder, args[2:6])
            one = _Lanes(builder, ir.Constant(_FLOATS, [1.0] * WIDTH))
            square = _triangle_square(rows, point, unit, one) / (unit * unit)
            return _write(context, builder, signature.args[6], args[6], args[7], square)

        return signature, codegen
