"""A monotonic clock that can be read inside a cached kernel.

A ctypes function would make a kernel uncacheable ("dynamic globals"), so the system's clock is called by name
from LLVM: ``clock_gettime`` where there is POSIX, ``QueryPerformanceCounter`` on Windows. One reading costs
some 30 ns. With Numba switched off (``NUMBA_DISABLE_JIT``) it is Python's own clock.
"""

# mypy: ignore-errors

from __future__ import annotations

import functools
import sys
import time

import numba
from llvmlite import ir
from numba import types

from impinge.backend.jit import compiled, intrinsic

_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1
_TICK = time.get_clock_info("perf_counter").resolution
"""Seconds per count of the performance counter on Windows."""


def _call_clock_gettime(builder):
    """Read CLOCK_MONOTONIC into a ``timespec`` on the stack and return it in nanoseconds."""
    i32, i64 = ir.IntType(32), ir.IntType(64)
    timespec = builder.alloca(ir.ArrayType(i64, 2))
    function_type = ir.FunctionType(i32, [i32, timespec.type])
    function = numba.core.cgutils.get_or_insert_function(builder.module, function_type, "clock_gettime")
    builder.call(function, [ir.Constant(i32, _CLOCK_MONOTONIC), timespec])
    zero = ir.Constant(i32, 0)
    seconds = builder.load(builder.gep(timespec, [zero, zero]))
    nanoseconds = builder.load(builder.gep(timespec, [zero, ir.Constant(i32, 1)]))
    return builder.add(builder.mul(seconds, ir.Constant(i64, 1_000_000_000)), nanoseconds)


def _call_performance_counter(builder):
    """Read the performance counter and scale it to nanoseconds."""
    i32, i64 = ir.IntType(32), ir.IntType(64)
    ticks = builder.alloca(i64)
    function_type = ir.FunctionType(i32, [ticks.type])
    function = numba.core.cgutils.get_or_insert_function(builder.module, function_type, "QueryPerformanceCounter")
    builder.call(function, [ticks])
    return builder.mul(builder.load(ticks), ir.Constant(i64, round(_TICK * 1e9)))


@intrinsic
def _system_clock(_typing_context):
    def codegen(_context, builder, _signature, _args):
        call = _call_performance_counter if sys.platform == "win32" else _call_clock_gettime
        return call(builder)

    return types.int64(), codegen


if numba.config.DISABLE_JIT:
    monotonic_ns = time.monotonic_ns
else:

    @compiled
    def monotonic_ns():
        """Nanoseconds on a clock that never goes back."""
        return _system_clock()


if numba.config.DISABLE_JIT or sys.platform == "linux":
    now_ns = time.monotonic_ns
    """Nanoseconds on the clock of ``monotonic_ns``, for Python: to ask it there takes a microsecond less."""
elif hasattr(time, "clock_gettime_ns"):
    now_ns = functools.partial(time.clock_gettime_ns, _CLOCK_MONOTONIC)
else:
    now_ns = monotonic_ns
