"""Compilation through Numba's public interface alone, for versions whose private parts are unknown.

``numba.njit(cache=True)`` and ``numba.cfunc(cache=True)`` store code in ``numba.config.CACHE_DIR``. It is set, while a
function is decorated, to the folder of the function's source digest, with one subfolder per variant; hence code is
never stale. Answers equal those of ``backend.numba_0_68`` to the bit; only speed differs. Compiling takes twice as
long, inlined functions count references, and processes that compile one kernel at the same time are not synchronised
beyond what Numba does. ``cache.compilations`` stays empty.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numba

from impinge.backend import cache

_lock = threading.Lock()


def compile_function(function: Callable[..., Any], variant: str, **options: Any) -> Any:
    """Make a dispatcher; ``variant`` separates the cached code of one function compiled with different options."""
    with _cache_in_folder(function, variant) as is_cached:
        return numba.njit(cache=is_cached, **options)(function)


def compile_native(function: Callable[..., Any], signature: Any, **options: Any) -> Any:
    """Compile a function with the calling convention of C; the result has its ``address``."""
    with _cache_in_folder(function, "outlined") as is_cached:
        return numba.cfunc(signature, cache=is_cached, **options)(function)


@contextlib.contextmanager
def _cache_in_folder(function: Callable[..., Any], variant: str) -> Iterator[bool]:
    """Set Numba's cache directory within this block; yields False if the function cannot be cached.

    Numba would cache in ``__pycache__`` instead of an unwritable directory, where code of another digest may lie.
    """
    if not cache.has_source(function):
        yield False
        return
    folder = cache.kernel_folder(function)
    try:
        (folder / variant).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder / variant).close()
        cache.delete_stale_folders()
    except OSError as error:
        cache.warn_uncached(str(error.strerror))
        yield False
        return
    cache.mark_as_used(str(folder))
    own = {"CACHE_DIR": str(folder / variant), "CACHE_LOCATOR_CLASSES": ""}
    with _lock:
        before = {name: getattr(numba.config, name) for name in own if hasattr(numba.config, name)}
        try:
            for name in before:
                setattr(numba.config, name, own[name])
            yield True
        finally:
            for name, value in before.items():
                setattr(numba.config, name, value)
