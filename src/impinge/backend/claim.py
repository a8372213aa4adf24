"""Tasks that threads claim one by one, so that a thread that is held up delays nobody else.

``prange`` gives every thread its share in advance. Where the work of a task is not known beforehand, or another
program takes a core away for a while, all then wait for the slowest. Instead, let ``prange`` start one loop per
thread, and let each loop claim the next task until none is left:

    for thread in prange(threads):
        t = claim(counter)
        while t < tasks:
            ...                     # writes only what belongs to task t
            t = claim(counter)

Who does which task changes from run to run; what comes out does not, since it belongs to the task.
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
