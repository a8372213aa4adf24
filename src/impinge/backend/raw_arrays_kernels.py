"""Arrays in kernels by address and shape.

To call a kernel, Numba unboxes every array argument: 0.3 µs each, several times that with cold caches. Where
microseconds count, arrays that stay the same from call to call are passed as addresses and lengths in one int64 array.
The caller keeps the arrays alive. Used by ``detect.sphere_tree`` alone.
"""

# mypy: ignore-errors

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types

from impinge.backend.jit import compiled, intrinsic


@intrinsic
def _pointer(_typing_context, address):
    def codegen(_context, builder, _signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), codegen


def _view(dtype):
    """A function (address, shape) that returns an array of this type at an address."""
    if not numba.config.DISABLE_JIT:

        @compiled
        def view(address, shape):
            return carray(_pointer(address), shape, dtype)

        return view

    def view(address, shape):
        if np.prod(shape) == 0:
            return np.zeros(shape, dtype=dtype)
        pointer = ctypes.cast(int(address), ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype)))
        return np.ctypeslib.as_array(pointer, tuple(map(int, np.atleast_1d(shape))))

    return view


float64_at, float32_at, int64_at, int32_at = (_view(dtype) for dtype in (np.float64, np.float32, np.int64, np.int32))
