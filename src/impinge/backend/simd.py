"""Eight boxes against one in a few instructions.

A node holds the boxes of its eight children as a struct of arrays, ``box[node, 6, 8]``: lowest x, y, z, then highest
x, y, z, each for eight children. One box is compared with all eight at once, and the answer is a mask of eight
bits. LLVM does not find this by itself (loops of eight are unrolled before they could become vectors), so that the
comparison is written as vector instructions; it becomes AVX where there is AVX and pairs of doubles elsewhere.
With Numba switched off the same is done one by one.
"""

# mypy: ignore-errors

import numba
from llvmlite import ir
from numba import types

from impinge.backend.jit import compiled, intrinsic

WIDTH = 8
"""Children per node."""


@intrinsic
def _overlap_bits(_typing_context, box, _node, _lo_x, _lo_y, _lo_z, _hi_x, _hi_y, _hi_z):
    signature = types.int32(box, types.int64, *[types.float64] * 6)

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), WIDTH)
        i32, i64 = ir.IntType(32), ir.IntType(64)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        rows = builder.bitcast(data, vector.as_pointer())
        first = builder.mul(args[1], ir.Constant(i64, 6))

        def row(k):
            load = builder.load(builder.gep(rows, [builder.add(first, ir.Constant(i64, k))]))
            load.align = 8
            return load

        def splat(value):
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(i32, 0))
            zeros = ir.Constant(ir.VectorType(i32, WIDTH), [0] * WIDTH)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

        hit = None
        for axis in range(3):
            below = builder.fcmp_ordered("<=", row(axis), splat(args[5 + axis]))
            above = builder.fcmp_ordered(">=", row(3 + axis), splat(args[2 + axis]))
            both = builder.and_(below, above)
            hit = both if hit is None else builder.and_(hit, both)
        return builder.zext(builder.bitcast(hit, ir.IntType(WIDTH)), i32)

    return signature, codegen


@intrinsic
def _trailing_zeros(_typing_context, _mask):
    def codegen(_context, builder, _signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int32(types.int32), codegen


if numba.config.DISABLE_JIT:

    def overlap_mask(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
        """Bit i is set if the closed box lo .. hi meets child i of ``node``; touching counts."""
        mask = 0
        for i in range(WIDTH):
            lo, hi = box[node, :3, i], box[node, 3:, i]
            hit = (
                lo[0] <= hi_x and hi[0] >= lo_x and lo[1] <= hi_y and hi[1] >= lo_y and lo[2] <= hi_z and hi[2] >= lo_z
            )
            mask |= hit << i
        return mask

    def lowest_bit(mask):
        """Position of the lowest bit that is set."""
        return (int(mask) & -int(mask)).bit_length() - 1

else:

    @compiled
    def overlap_mask(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
        """Bit i is set if the closed box lo .. hi meets child i of ``node``; touching counts."""
        return _overlap_bits(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)

    @compiled
    def lowest_bit(mask):
        """Position of the lowest bit that is set."""
        return _trailing_zeros(mask)
