"""One point against eight tetrahedra, and eight points against a box, in a few instructions.

Tets come in eights, as float32, one row of eight numbers per quantity, so that a vector instruction serves all eight:
``corner`` has twelve rows (x, y, z of corner 0, then of 1, 2, 3), ``tet`` has fourteen (``fit_tets`` writes them); the
numbers of the corners are four rows of int32.
As in ``simd``, LLVM is told what to do by hand, and with Numba switched off the same is done by NumPy.

A point p is in the tet c0 c1 c2 c3 iff four numbers are not negative: with u_i = c_i - c0, q = p - c0 and
det = (u1 × u2) · u3 > 0,

    s1 = (u2 × u3) · q      s2 = (u3 × u1) · q      s3 = (u1 × u2) · q      s0 = det - s1 - s2 - s3.

If det is negative all five change their sign. Float32 rounds, so that "not negative" means "at least -margin".
"""

# mypy: ignore-errors

import numba
import numpy as np
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic
from impinge.backend.simd.boxes import WIDTH

CORNER_ROWS = 12
"""Rows of ``corner``."""
TET_ROWS = 14
"""Rows of ``tet``: corner 0, the normals of s1, s2, s3, det, margin."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FLOAT = ir.FloatType()
_LANES = ir.VectorType(_FLOAT, WIDTH)


class _Rows:
    """Code that computes with rows of eight float32."""

    def __init__(self, context, builder):
        self.context, self.builder = context, builder

    def data(self, array_type, array):
        """The first number of an array."""
        return self.context.make_array(array_type)(self.context, self.builder, array).data

    def load(self, data, start):
        """Eight numbers from ``start`` on, which need not be aligned."""
        pointer = self.builder.bitcast(self.builder.gep(data, [start]), _LANES.as_pointer())
        load = self.builder.load(pointer)
        load.align = 4
        return load

    def row(self, data, index):
        """Row ``index`` of a table of rows."""
        return self.load(data, ir.Constant(_I64, WIDTH * index))

    def store_row(self, data, index, value):
        """Write row ``index``."""
        pointer = self.builder.gep(data, [ir.Constant(_I64, WIDTH * index)])
        store = self.builder.store(value, self.builder.bitcast(pointer, _LANES.as_pointer()))
        store.align = 4

    def splat(self, value):
        """Eight equal numbers."""
        undefined = ir.Constant(_LANES, ir.Undefined)
        one = self.builder.insert_element(undefined, value, ir.Constant(_I32, 0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH))

    def cross(self, u, v):
        """Cross product of two triples of rows."""
        minus, times = self.builder.fsub, self.builder.fmul
        return [
            minus(times(u[1], v[2]), times(u[2], v[1])),
            minus(times(u[2], v[0]), times(u[0], v[2])),
            minus(times(u[0], v[1]), times(u[1], v[0])),
        ]

    def dot(self, u, v):
        """Dot product of two triples of rows."""
        products = [self.builder.fmul(a, b) for a, b in zip(u, v)]
        return self.builder.fadd(self.builder.fadd(products[0], products[1]), products[2])

    def most(self, a, b):
        """The greater of each lane."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def negative(self, a):
        """The rows with their signs changed."""
        return self.builder.fsub(ir.Constant(_LANES, [0.0] * WIDTH), a)

    def bits(self, condition):
        """Eight truths as an integer."""
        return self.builder.zext(self.builder.bitcast(condition, ir.IntType(WIDTH)), _I64)


if numba.config.DISABLE_JIT:

    def points_in_box(x, y, z, start, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
        """Bit i is set if point ``start + i`` lies in the closed box; the arrays are read eight at a time."""
        here = slice(start, start + WIDTH)
        inside = (x[here] >= lo_x) & (x[here] <= hi_x) & (y[here] >= lo_y) & (y[here] <= hi_y)
        inside &= (z[here] >= lo_z) & (z[here] <= hi_z)
        return np.uint64(np.packbits(inside, bitorder="little")[0])

    def fit_tets(corner, tet, reach):
        """Fill ``tet`` from ``corner``; bits of the lanes with det > margin, and of those with det < -margin."""
        rows, out = corner.reshape(4, 3, WIDTH), tet.reshape(TET_ROWS, WIDTH)
        u = rows[1:] - rows[0]
        normal = np.stack([np.cross(u[k], u[(k + 1) % 3], axis=0) for k in (1, 2, 0)]).astype(np.float32)
        det = (normal[2] * u[2]).sum(axis=0)
        margin = reach * np.abs(u).max(axis=(0, 1))
        sign = np.where(det < 0, np.float32(-1), np.float32(1))
        out[:3], out[3:12], out[12], out[13] = rows[0], (sign * normal).reshape(9, WIDTH), sign * det, -margin
        masks = [np.packbits(each, bitorder="little")[0] for each in (det > margin, det < -margin)]
        return np.uint64(masks[0]), np.uint64(masks[1])

    def tets_around(tet, x, y, z):
        """Bit i is set if the point may lie in tet i."""
        rows = tet.reshape(TET_ROWS, WIDTH)
        q = np.array([x, y, z], dtype=np.float32)[:, None] - rows[:3]
        s = (rows[3:12].reshape(3, 3, WIDTH) * q).sum(axis=1)
        s0 = rows[12] - s.sum(axis=0)
        return np.uint64(np.packbits(np.minimum(s.min(axis=0), s0) >= rows[13], bitorder="little")[0])

    def tets_with_corner(ids, start, v):
        """Bit i is set if ``v`` is a corner of tet i; ``ids[start:]`` begins with four rows."""
        is_corner = (ids[start : start + 4 * WIDTH].reshape(4, WIDTH) == v).any(axis=0)
        return np.uint64(np.packbits(is_corner, bitorder="little")[0])

else:

    @intrinsic
    def tets_with_corner(_typing_context, ids, _start, _v):
        """Bit i is set if ``v`` is a corner of tet i; ``ids[start:]`` begins with four rows."""
        signature = types.uint64(ids, types.int64, types.int32)
        lanes = ir.VectorType(_I32, WIDTH)

        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder)
            data = rows.data(signature.args[0], args[0])
            undefined = ir.Constant(lanes, ir.Undefined)
            one = builder.insert_element(undefined, args[2], ir.Constant(_I32, 0))
            wanted = builder.shuffle_vector(one, undefined, ir.Constant(lanes, [0] * WIDTH))
            found = None
            for k in range(4):
                at = builder.gep(data, [builder.add(args[1], ir.Constant(_I64, WIDTH * k))])
                load = builder.load(builder.bitcast(at, lanes.as_pointer()))
                load.align = 4
                here = builder.icmp_signed("==", load, wanted)
                found = here if found is None else builder.or_(found, here)
            return rows.bits(found)

        return signature, codegen

    @intrinsic
    def points_in_box(_typing_context, x, y, z, _start, _lo_x, _lo_y, _lo_z, _hi_x, _hi_y, _hi_z):
        """Bit i is set if point ``start + i`` lies in the closed box; the arrays are read eight at a time."""
        signature = types.uint64(x, y, z, types.int64, *[types.float32] * 6)

        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder)
            inside = None
            for axis in range(3):
                at = rows.load(rows.data(signature.args[axis], args[axis]), args[3])
                above = builder.fcmp_ordered(">=", at, rows.splat(args[4 + axis]))
                below = builder.fcmp_ordered("<=", at, rows.splat(args[7 + axis]))
                both = builder.and_(above, below)
                inside = both if inside is None else builder.and_(inside, both)
            return rows.bits(inside)

        return signature, codegen

    @intrinsic
    def fit_tets(_typing_context, corner, tet, _reach):
        """Fill ``tet`` from ``corner``; bits of the lanes with det > margin, and of those with det < -margin."""
        signature = types.UniTuple(types.uint64, 2)(corner, tet, types.float32)

        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder)
            source, target = (rows.data(signature.args[k], args[k]) for k in range(2))
            first = [rows.row(source, axis) for axis in range(3)]
            u = [[builder.fsub(rows.row(source, 3 * k + axis), first[axis]) for axis in range(3)] for k in (1, 2, 3)]
            normal = [rows.cross(u[1], u[2]), rows.cross(u[2], u[0]), rows.cross(u[0], u[1])]
            det = rows.dot(normal[2], u[2])
            size = None
            for value in (value for vector in u for value in vector):
                absolute = rows.most(value, rows.negative(value))
                size = absolute if size is None else rows.most(size, absolute)
            margin = builder.fmul(size, rows.splat(args[2]))
            is_positive = builder.fcmp_ordered(">", det, margin)
            is_negative = builder.fcmp_ordered("<", det, rows.negative(margin))
            values = [*(value for vector in normal for value in vector), det]
            signed = [builder.select(is_negative, rows.negative(value), value) for value in values]
            for index, value in enumerate([*first, *signed, rows.negative(margin)]):
                rows.store_row(target, index, value)
            masks = [rows.bits(is_positive), rows.bits(is_negative)]
            return context.make_tuple(builder, signature.return_type, masks)

        return signature, codegen

    @intrinsic
    def tets_around(_typing_context, tet, _x, _y, _z):
        """Bit i is set if the point may lie in tet i."""
        signature = types.uint64(tet, *[types.float32] * 3)

        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder)
            data = rows.data(signature.args[0], args[0])
            q = [builder.fsub(rows.splat(args[1 + axis]), rows.row(data, axis)) for axis in range(3)]
            s = [rows.dot([rows.row(data, 3 + 3 * k + axis) for axis in range(3)], q) for k in range(3)]
            s0 = builder.fsub(rows.row(data, 12), builder.fadd(builder.fadd(s[0], s[1]), s[2]))
            inside = None
            for value in (*s, s0):
                here = builder.fcmp_ordered(">=", value, rows.row(data, 13))
                inside = here if inside is None else builder.and_(inside, here)
            return rows.bits(inside)

        return signature, codegen
