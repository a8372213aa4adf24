"""Dynamic scheduling: threads claim tasks one by one from an atomic counter.

``prange`` schedules statically. With tasks of unequal cost, or a thread that is preempted, all wait for the slowest.
Instead, start one loop per thread, and let each claim the next task until none remains:

    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            ...                     # writes only the output of task t
            t = claim(counter)

The assignment of tasks to threads varies from run to run; the output does not, since it belongs to the task.
"""

# mypy: ignore-errors

import numba
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic

if numba.config.DISABLE_JIT:

    def claim(counter):
        """The next number, from 0; ``counter`` is an array of one int64."""
        counter[0] += 1
        return counter[0] - 1

else:

    @intrinsic
    def claim(_typing_context, counter):
        """The next number, from 0; ``counter`` is an array of one int64."""

        def codegen(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

        return types.int64(counter), codegen
