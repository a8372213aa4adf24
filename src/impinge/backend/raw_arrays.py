"""Arrays inside of kernels, by their address.

To call a kernel, Numba looks at every array that it is given: a third of a microsecond each, and several times that
where others have used the caches since. Where microseconds count, arrays that stay the same from call to call are
named by their address and length in one array of whole numbers. Who hands out an address keeps the array alive.
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


if numba.config.DISABLE_JIT:

    def _at(kind, address, shape):
        if np.prod(shape) == 0:
            return np.zeros(shape, dtype=kind)
        shape = tuple(map(int, np.atleast_1d(shape)))
        return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(kind)), shape)

    def floats_at(address, shape):
        """Doubles."""
        return _at(ctypes.c_double, address, shape)

    def singles_at(address, shape):
        """Numbers of 32 bits."""
        return _at(ctypes.c_float, address, shape)

    def wholes_at(address, shape):
        """Whole numbers of 64 bits."""
        return _at(ctypes.c_int64, address, shape)

    def ids_at(address, shape):
        """Whole numbers of 32 bits."""
        return _at(ctypes.c_int32, address, shape)

else:

    @compiled
    def floats_at(address, shape):
        """Doubles."""
        return carray(_pointer(address), shape, np.float64)

    @compiled
    def singles_at(address, shape):
        """Numbers of 32 bits."""
        return carray(_pointer(address), shape, np.float32)

    @compiled
    def wholes_at(address, shape):
        """Whole numbers of 64 bits."""
        return carray(_pointer(address), shape, np.int64)

    @compiled
    def ids_at(address, shape):
        """Whole numbers of 32 bits."""
        return carray(_pointer(address), shape, np.int32)
