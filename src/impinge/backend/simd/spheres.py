"""Eight spheres against one in a few instructions.

Siblings lie side by side, ``sphere[block, 4, 8]``: x, y, z of eight centres, then eight radii. One sphere is compared
with all eight, and the answer is a mask of eight bits. The arithmetic is that of the plain expression, in the same
order, so that the scalar twin gives the same bits; lanes that hold no sphere are for the caller to mask out.
"""

# mypy: ignore-errors

import numba
import numpy as np
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic
from impinge.backend.simd.boxes import WIDTH

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ROWS = 4


def _splat(builder, vector, value):
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH))


if numba.config.DISABLE_JIT:

    def sphere_mask(sphere, block, x, y, z, r):
        """Bit i is set if sphere i of ``block`` meets the sphere (x, y, z), r; touching counts."""
        mask = 0
        with np.errstate(over="ignore"):
            for i in range(WIDTH):
                dx, dy, dz = sphere[block, 0, i] - x, sphere[block, 1, i] - y, sphere[block, 2, i] - z
                reach = sphere[block, 3, i] + r
                mask |= int(dx * dx + dy * dy + dz * dz <= reach * reach) << i
        return np.uint64(mask)

else:

    @intrinsic
    def sphere_mask(_typing_context, sphere, _block, _x, _y, _z, _r):
        """Bit i is set if sphere i of ``block`` meets the sphere (x, y, z), r; touching counts."""
        signature = types.uint64(sphere, types.int64, *[types.float64] * 4)

        def codegen(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            vector = ir.VectorType(ir.DoubleType(), WIDTH)
            rows = builder.bitcast(data, vector.as_pointer())
            first = builder.mul(args[1], ir.Constant(_I64, _ROWS))
            square = None
            for k in range(_ROWS):
                row = builder.load(builder.gep(rows, [builder.add(first, ir.Constant(_I64, k))]))
                row.align = 8
                other = _splat(builder, vector, args[2 + k])
                if k == 3:
                    reach = builder.fadd(row, other)
                    break
                difference = builder.fsub(row, other)
                term = builder.fmul(difference, difference)
                square = term if square is None else builder.fadd(square, term)
            hit = builder.fcmp_ordered("<=", square, builder.fmul(reach, reach))
            return builder.zext(builder.bitcast(hit, ir.IntType(WIDTH)), _I64)

        return signature, codegen
