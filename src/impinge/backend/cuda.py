"""One body, two devices: the CUDA side.

A kernel body is a plain compiled function ``body(i, inputs..., outputs...)`` that writes only the rows it owns,
allocates nothing and raises nothing. The CPU runs it in a ``prange`` loop (``backend.jit.kernel``), CUDA in a grid:

    @grid_kernel
    def classify_pairs(..., kind):
        i = cuda.grid(1)
        if i < len(kind):
            classify_pair(i, ..., kind)

    classify_pairs.launch(count, ..., kind)

Compiled without fused multiply-add: both devices compute the same bits. Cases that need exact arithmetic return
UNCERTAIN here and are resolved on the CPU. ``ptx`` compiles for a given architecture without a device; together with
Numba's simulator it tests kernels on machines without a GPU.

The two functions of numba-cuda that are patched here, ``nvvm.compile_ir`` and ``dispatcher.get_current_device``, belong
to another package than Numba, with versions of its own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numba

from impinge.errors import MissingExtra, OptionError

__all__ = ["GridKernel", "cuda", "grid_kernel", "require_device"]

THREADS_PER_BLOCK = 128

try:
    from numba import cuda
except ImportError as error:
    raise MissingExtra("running on a GPU needs numba-cuda; install impinge[cuda]") from error


def require_device() -> None:
    """Raise an error without a CUDA device."""
    if not cuda.is_available():
        raise OptionError("device='cuda' needs an NVIDIA GPU and its driver, and none was found; use device='cpu'")


@contextlib.contextmanager
def _patched(module: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module within this block."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _no_fused_multiply_add() -> contextlib.AbstractContextManager[None]:
    """Keep NVVM from fusing products and sums, which it does by default and which changes signs of determinants."""
    from numba.cuda.cudadrv import nvvm

    return _patched(nvvm, "compile_ir", functools.partial(nvvm.compile_ir, fma=False))


class GridKernel:
    """A function with one CUDA thread per index."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @functools.cached_property
    def _kernel(self) -> Any:
        return cuda.jit(self._function)

    def launch(self, count: int, *args: Any) -> None:
        """Run indices 0 .. count - 1; Numba copies arrays of the host to the device and back."""
        if count:
            with contextlib.nullcontext() if numba.config.ENABLE_CUDASIM else _no_fused_multiply_add():
                self._kernel[-(-count // THREADS_PER_BLOCK), THREADS_PER_BLOCK](*args)

    def ptx(self, signature: tuple[Any, ...], compute_capability: tuple[int, int]) -> str:
        """Compile for an architecture, which need not be present."""
        from numba.cuda import dispatcher

        device = SimpleNamespace(compute_capability=compute_capability)
        with _patched(dispatcher, "get_current_device", lambda: device), _no_fused_multiply_add():
            text, _ = cuda.compile_ptx(self._function, signature, cc=compute_capability, device=False)
        return str(text)


grid_kernel = GridKernel
"""Make a CUDA kernel of a function that handles index ``cuda.grid(1)``."""
