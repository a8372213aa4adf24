"""Decorators of compiled code, and the choice between serial and threaded kernels.

``compiled``   a plain function, callable from Python and from kernels of either device.
``inlined``    as ``compiled``, inlined into its caller.
``contracted`` as ``inlined``, with fused multiply-add: for forces, never for signs.
``merged``     as ``compiled``, inlined before type inference: for a large function with one caller.
``outlined``   long code that is rarely reached: compiled once, called by name.
``kernel``     a loop over ``prange``, compiled twice, serial and threaded. ``k.over(work)`` selects one: a parallel
               launch costs 15 to 45 µs, thus small loops run serially.
``intrinsic``  Numba's own, for code that needs LLVM instructions.

Numba. ``backend.numba_0_68`` holds all code that depends on private parts of Numba. Other versions of Numba, or
``IMPINGE_PLAIN_NUMBA=1``, use ``backend.numba_plain``. Both keep code in the folders of ``backend.cache``.

Threads. OpenMP comes before TBB: kernels of 1 ms run twice as fast, since its workers spin while TBB's sleep. Under
contention for the cores, kernels run on one thread (``backend.contention``). Numba's own pool is never used, because it
aborts the process when two Python threads launch at once. GNU OpenMP kills a forked child that launches threads: after
a fork all kernels run serially.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import llvmlite.binding
import numba
import numpy as np
from numba import prange
from numba.extending import intrinsic

from impinge.backend.cache import cache_folder, compilations, source_digest
from impinge.backend.contention import ContentionMonitor
from impinge.backend.sources import IS_PLAIN
from impinge.errors import OptionError

if IS_PLAIN:
    from impinge.backend.numba_plain import compile_function, compile_native
else:
    from impinge.backend.numba_0_68 import compile_function, compile_native

__all__ = [
    "Kernel", "cache_folder", "compilations", "compiled", "contracted", "inlined", "intrinsic", "kernel",
    "launch_always", "merged", "outlined", "prange", "set_threads", "source_digest", "thread_count", "thread_layer",
]  # fmt: skip

PARALLEL_FROM = 4096
"""Iterations from which a threaded launch pays, for a body of 20 ns."""


# Threads ------------------------------------------------------------------------------------------------


def _choose_thread_layer() -> bool:
    """Set the priority of thread layers to OpenMP, then TBB; False if neither is available."""
    layers = []
    for name in ("omp", "tbb"):
        with contextlib.suppress(ImportError):
            __import__(f"numba.np.ufunc.{name}pool")
            layers.append(name)
    if numba.config.THREADING_LAYER in ("default", "safe", "threadsafe", "forksafe") and layers:
        rest = [name for name in ("omp", "tbb", "workqueue") if name not in layers]  # Numba requires all three
        numba.config.THREADING_LAYER_PRIORITY = [*layers, *rest]
    return bool(layers) and numba.config.THREADING_LAYER != "workqueue"


_parallel_is_safe = _choose_thread_layer()
_threads_spin = (
    numba.config.THREADING_LAYER_PRIORITY[0] == "omp"
    and "GOMP_SPINCOUNT" not in os.environ
    and os.environ.get("OMP_WAIT_POLICY", "").lower() != "passive"
)
"""Whether idle threads keep their cores busy."""
_contention = ContentionMonitor()
_wanted_threads: int | None = None
_local = threading.local()


def _after_fork() -> None:
    global _parallel_is_safe  # noqa: PLW0603 - process-wide by nature
    _parallel_is_safe = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_threads(count: int) -> None:
    """Set the number of threads of all later queries, in all Python threads.

    Parameters
    ----------
    count
        From 1 to the number of cores, or to ``NUMBA_NUM_THREADS`` if Python was started with it.

    Raises
    ------
    OptionError
        If ``count`` is not an integer in this range.
    """
    limit = numba.config.NUMBA_NUM_THREADS
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= limit:
        found = count if isinstance(count, int | float | str) else f"an object of type {type(count).__name__}"
        raise OptionError(
            f"set_threads got {found}, expected an integer from 1 to {limit}; "
            "start Python with NUMBA_NUM_THREADS set to allow more"
        )
    global _wanted_threads  # noqa: PLW0603 - process-wide by nature
    _wanted_threads = int(count)


def thread_count() -> int:
    """The number of threads of a large query."""
    return (_wanted_threads or int(numba.config.NUMBA_NUM_THREADS)) if _parallel_is_safe else 1


def thread_layer() -> str:
    """The thread library by its Numba name: ``"omp"``, ``"tbb"``, or ``"serial"``."""
    return str(numba.config.THREADING_LAYER_PRIORITY[0]) if _parallel_is_safe else "serial"


_always: Literal["serial", "parallel"] | None = None


@contextlib.contextmanager
def launch_always(variant: Literal["serial", "parallel"]) -> Iterator[None]:
    """Within this block every launch uses this variant, for any amount of work: for warm-up and tests."""
    global _always  # noqa: PLW0603 - process-wide by nature
    _always = variant
    try:
        yield
    finally:
        _always = None


# Decorators ---------------------------------------------------------------------------------------------


def _compile(function: Callable[..., Any], variant: str, **options: Any) -> Any:
    if numba.config.DISABLE_JIT:
        return function
    return compile_function(function, variant, nogil=True, error_model="numpy", **options)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a plain function: IEEE division by zero, no fastmath, no fused multiply-add."""
    return _compile(function, "plain")


def inlined(function: Callable[..., Any]) -> Any:
    """As ``compiled``, for functions of arrays in innermost loops: a call would push every field of every array.

    Reference counting is disabled: such a function must neither create nor return arrays.
    """
    return _compile(function, "inlined", forceinline=True)


def contracted(function: Callable[..., Any]) -> Any:
    """As ``inlined``, for sums of products that decide nothing: products may be fused with sums.

    Fusion is decided at compile time: results do not depend on the thread count.
    """
    return _compile(function, "contracted", forceinline=True, fastmath={"contract"})


def merged(function: Callable[..., Any]) -> Any:
    """As ``compiled``, inlined into its caller before type inference.

    Numba compiles a function with all its callees, then again within its caller: in a chain of large functions each
    would be compiled once per function above it.
    """
    return _compile(function, "merged", inline="always")


def outlined(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function of scalars once, at import; compiled code calls it by its name.

    Every kernel links and optimises a copy of the ``compiled`` functions that it calls. For the exact predicates, long
    and rarely reached, this would dominate compile time. A name, unlike an address, can be part of cached code. GPU
    code cannot call such a function. ``signature`` is a Numba signature: ``types.int64(types.float64)``.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if numba.config.DISABLE_JIT:
            return function
        native = compile_native(function, signature, error_model="numpy")
        _outlined.append(native)
        symbol = f"{function.__module__}.{function.__qualname__}"
        llvmlite.binding.add_symbol(symbol, native.address)
        return numba.types.ExternalFunction(symbol, signature)

    return decorate


_outlined: list[Any] = []
"""Keeps the code of outlined functions in memory."""


class Kernel:
    """A loop compiled twice: ``serial``, and ``parallel`` over threads."""

    def __init__(self, function: Callable[..., Any], *, parallel_from: int) -> None:
        self.parallel_from = parallel_from
        self.serial = _compile(function, "serial")
        self.parallel = _compile(function, "parallel", parallel=True)
        functools.update_wrapper(self, function)

    def over(self, work: int) -> Any:
        """Select the variant for ``work`` iterations of the outer loop."""
        if _always is None:
            is_parallel = work >= self.parallel_from and not (_threads_spin and _contention.is_contended())
        else:
            is_parallel = _always == "parallel"
        count = thread_count() if is_parallel else 1
        if count == 1:
            return self.serial
        if getattr(_local, "count", None) != count:  # Numba keeps the number per Python thread
            numba.set_num_threads(count)
            _local.count = count
        return self.parallel

    def __call__(self, *args: Any) -> Any:
        """Run on threads for any amount of work, where threads are available."""
        return self.over(self.parallel_from)(*args)


def kernel(*, parallel_from: int = PARALLEL_FROM) -> Callable[[Callable[..., Any]], Kernel]:
    """Compile a loop over ``prange`` twice; ``parallel_from`` is the work from which threads pay."""
    return functools.partial(Kernel, parallel_from=parallel_from)
