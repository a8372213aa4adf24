"""Compile kernels, keep them on disk, run them on the right number of threads.

Decorators, used by every module of compiled code:

``compiled``  a plain function, callable from Python and from kernels of either device.
``inlined``   the same, but never called: its code becomes part of its caller's.
``outlined``  the opposite, for long code that is rarely reached: compiled once, and called by name.
``contracted`` as ``inlined``, and a product may be fused with the sum it goes into: for forces, never for signs.
``merged``    the same, joined to its caller before anything is compiled: for a large function that has one caller.
``kernel``    a loop over ``prange``. It is compiled twice, serial and threaded, and ``k.over(work)`` picks:
              a parallel launch costs 15 to 45 us, so little work runs serial.
``intrinsic`` Numba's own, for the two or three things that need LLVM by hand.

The cache. Numba notices a change in the file of a kernel, not in the files of the functions it calls. Here the
folder of a kernel is named by a digest of its module and of all modules of the package that it imports,
directly or not, so that neither developers nor users ever run stale code. The folders live in the user's cache
directory (``IMPINGE_CACHE_DIR`` moves them); one that cannot be written costs time, not correctness.

Threads. OpenMP comes before TBB: kernels of a millisecond run twice as fast, since its workers spin while TBB's
sleep. Where other programs want the cores, kernels run on one thread (``crowding``). Numba's own pool is never used,
because it aborts the process when two Python threads launch at once. GNU OpenMP kills a forked child that goes
parallel: after a fork all kernels run serial.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import llvmlite.binding
import numba
import numpy as np
from numba import prange
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from impinge.backend.contention import Crowding
from impinge.errors import OptionError

__all__ = [
    "Kernel", "cache_folder", "compilations", "compiled", "contracted", "inlined", "intrinsic", "kernel",
    "launch_always", "merged", "prange", "set_threads", "source_digest", "thread_count", "thread_layer",
]  # fmt: skip

logger = logging.getLogger("impinge")

PARALLEL_FROM = 4096
"""Iterations from which a launch on threads pays, for a body of some 20 ns."""

STALE_AFTER_DAYS = 30
"""Cache folders that were not used for so long are deleted."""


# The cache ----------------------------------------------------------------------------------------------


@functools.cache
def cache_folder() -> Path:
    """The folder that holds compiled kernels: ``IMPINGE_CACHE_DIR``, or below the user's cache directory."""
    chosen = os.environ.get("IMPINGE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "impinge" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "impinge"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "impinge"


PACKAGE = Path(__file__).resolve().parents[1]


def _package_root(path: Path) -> Path:
    """The outermost package folder around a module; of a lone module, its folder."""
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


@functools.cache
def _imported_modules(path: Path) -> frozenset[Path]:
    """The files of impinge and of the module's own package that the module in ``path`` imports, itself left out."""
    own = _package_root(path)
    here = (own.name, *path.parent.relative_to(own).parts)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # ``from ..b import c`` in package x.y imports from x.b: level 1 is the module's own package
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    found: set[Path] = set()
    for name in names:
        package, _, rest = name.partition(".")
        for root in (PACKAGE, own):
            if package == root.name:
                target = root.joinpath(*rest.split("."))
                found.update(file for file in (target.with_suffix(".py"), target / "__init__.py") if file.is_file())
    return frozenset(found - {path})


@functools.cache
def source_digest(path: Path) -> str:
    """Digest of a module, of everything in its package that it imports, and of what else decides the code."""
    seen: set[Path] = set()
    front = {path}
    while front:
        seen |= front
        front = {file for module in front for file in _imported_modules(module)} - seen
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {numba.config.BOUNDSCHECK}".encode())
    for file in sorted(seen):
        digest.update(file.relative_to(_package_root(file)).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Tells Numba where a function is cached: a folder per module and digest."""

    def __init__(self, py_func: Callable[..., Any], variant: str) -> None:
        path = Path(py_func.__code__.co_filename).resolve()
        self._folder = cache_folder() / "kernels" / f"{path.stem}-{source_digest(path)}"
        self._name = f"{py_func.__code__.co_firstlineno}-{variant}"

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return self._name


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, py_func: Callable[..., Any], variant: str) -> None:
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = _Locator(py_func, variant)
        self._filename_base = self.get_filename_base(py_func.__qualname__, getattr(sys, "abiflags", ""))


class _CacheFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and files, for processes that compile a kernel for different types at the same time.

    Each would read the index, add its own types and write it: the last one wins, and the others compile again. So they
    take turns, where the system can lock files. Everywhere, no two files have one name: Numba counts them, so that the
    index of one process could name the code of another.
    """

    def save(self, key: Any, data: Any) -> None:
        with _one_process_at_a_time(f"{self._index_path}.lock"):
            super().save(key, data)

    def _data_name(self, _: int) -> str:
        return str(super()._data_name(uuid.uuid4().int))


@contextlib.contextmanager
def _one_process_at_a_time(path: str) -> Iterator[None]:
    """Let others wait until this is done, or this process has ended."""
    with Path(path).open("ab") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache in our folder. Trouble with the disk is logged and survived; a miss tells the user."""

    def __init__(self, py_func: Callable[..., Any], variant: str) -> None:
        self._impl_class = functools.partial(_CacheImpl, variant=variant)
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged file may raise anything; compiling anew is the remedy
            logger.info("cached kernel %s is unusable (%s), compiling it anew", self._name, error)
            self._forget()
            found = None
        if found is not None:
            _mark_as_used(self._cache_path)
        else:
            compilations.append(f"{self._py_func.__module__}.{self._py_func.__qualname__}{sig}")
            _tell_that_compiling()
        return found

    def _forget(self) -> None:
        """Start the index of this kernel anew."""
        with contextlib.suppress(OSError):
            self.flush()

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
            _forget_stale_folders()
        except OSError as error:
            _tell_that_not_cached(error)


compilations: list[str] = []
"""What was compiled in this process because no cached code was found; ``impinge warmup`` leaves it empty."""


@functools.cache
def _tell_that_compiling() -> None:
    """Say once, on a terminal only, that the first use takes longer."""
    if sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("IMPINGE_QUIET"):
        sys.stderr.write("impinge: compiling for this machine, once; `impinge warmup` does it up front\n")


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning(message)


def _tell_that_not_cached(error: OSError) -> None:
    _warn_once(
        f"compiled kernels cannot be kept in {cache_folder()} ({error.strerror}), so every process compiles anew; "
        "set IMPINGE_CACHE_DIR to a writable folder"
    )


@functools.cache
def _forget_stale_folders() -> None:
    """Delete folders of our own that no process has used for a month: those of earlier versions."""
    oldest = time.time() - STALE_AFTER_DAYS * 86400
    for folder in (cache_folder() / "kernels").iterdir():
        is_ours = re.fullmatch(r"\w+-[0-9a-f]{16}", folder.name) is not None
        if is_ours and folder.is_dir() and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _mark_as_used(folder: str) -> None:
    """Let a folder's time be that of its last use, once per process."""
    with contextlib.suppress(OSError):
        os.utime(folder)


# Threads ------------------------------------------------------------------------------------------------


def _choose_thread_layer() -> bool:
    """Let Numba prefer OpenMP, then TBB; False if only its unsafe pool is left."""
    layers = []
    for name, module in (("omp", "omppool"), ("tbb", "tbbpool")):
        try:
            __import__(f"numba.np.ufunc.{module}")
        except ImportError:
            continue
        layers.append(name)
    if numba.config.THREADING_LAYER in ("default", "safe", "threadsafe", "forksafe") and layers:
        rest = [name for name in ("omp", "tbb", "workqueue") if name not in layers]  # Numba wants all three named
        numba.config.THREADING_LAYER_PRIORITY = [*layers, *rest]
    return bool(layers) and numba.config.THREADING_LAYER != "workqueue"


def _spin_while_waiting() -> bool:
    """Whether threads stay on their cores while they wait: those of OpenMP do, unless it was told otherwise."""
    is_told = "GOMP_SPINCOUNT" in os.environ or os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
    return numba.config.THREADING_LAYER_PRIORITY[0] == "omp" and not is_told


_parallel_is_safe = _choose_thread_layer()
_threads_spin = _spin_while_waiting()
_crowding = Crowding()
_wanted_threads: int | None = None
_local = threading.local()


def _after_fork() -> None:
    global _parallel_is_safe  # noqa: PLW0603 - process-wide by nature
    _parallel_is_safe = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_threads(count: int) -> None:
    """Use at most ``count`` threads in every later query, in all Python threads."""
    limit = numba.config.NUMBA_NUM_THREADS
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= limit:
        raise OptionError(
            f"set_threads got {count!r}, expected a whole number from 1 to {limit}; "
            "start Python with NUMBA_NUM_THREADS set to allow more"
        )
    global _wanted_threads  # noqa: PLW0603 - process-wide by nature
    _wanted_threads = int(count)


def thread_count() -> int:
    """How many threads a large query uses."""
    if not _parallel_is_safe:
        return 1
    return _wanted_threads or int(numba.config.NUMBA_NUM_THREADS)


def thread_layer() -> str:
    """The library that runs the threads, by its Numba name, or ``"serial"``."""
    if not _parallel_is_safe:
        return "serial"
    return str(numba.config.THREADING_LAYER_PRIORITY[0])


def _threads_here() -> int:
    """Apply ``set_threads`` to the calling Python thread (Numba keeps the number per thread)."""
    count = thread_count()
    if count > 1 and getattr(_local, "count", None) != count:
        numba.set_num_threads(count)
        _local.count = count
    return count


_always: Literal["serial", "parallel"] | None = None


@contextlib.contextmanager
def launch_always(variant: Literal["serial", "parallel"]) -> Iterator[None]:
    """Within this block every launch takes this variant, whatever the work: for warming up, and for tests."""
    global _always  # noqa: PLW0603 - process-wide by nature
    _always = variant
    try:
        yield
    finally:
        _always = None


# Decorators ---------------------------------------------------------------------------------------------


IS_LEAN = numba.__version__.startswith("0.68.")
"""Whether Numba is a version whose insides ``backend.dispatch`` knows; with others, compiling takes twice as long."""


def _compile(function: Callable[..., Any], variant: str, **options: Any) -> Any:
    if numba.config.DISABLE_JIT:
        return function
    options = {"nogil": True, "error_model": "numpy", **options}

    def cache_of(is_called: bool) -> Any:
        has_source = Path(function.__code__.co_filename).is_file()  # what is typed at a prompt has nothing to digest
        return _Cache(function, f"{variant}-called" if is_called else variant) if has_source else NullCache()

    if IS_LEAN:
        from impinge.backend.numba_0_68 import Dispatcher

        return Dispatcher(function, options, cache_of)
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = cache_of(False)
    return dispatcher


def _compiling(target: Any) -> contextlib.AbstractContextManager[None]:
    """What surrounds compiling for a target."""
    if not IS_LEAN:
        return contextlib.nullcontext()
    from impinge.backend.numba_0_68 import compiling

    return compiling(target)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a plain function; division by zero gives inf or NaN as in C, no fastmath, no fused multiply-add."""
    return _compile(function, "plain")


def inlined(function: Callable[..., Any]) -> Any:
    """As ``compiled``, for what the innermost loops call with arrays: a call would push every field of every array.

    Arrays belong to the caller, and nobody counts who refers to them: where counting could not be proven needless, it
    took up to half of the time of a kernel. So such a function must make no arrays and return none.
    """
    return _compile(function, "inlined", forceinline=True, _nrt=False)


def contracted(function: Callable[..., Any]) -> Any:
    """As ``inlined``, for sums of products that no decision hangs on: they may be rounded once instead of twice.

    What is fused is settled when the function is compiled, so that bits do not depend on the number of threads.
    """
    return _compile(function, "contracted", forceinline=True, fastmath={"contract"})


def merged(function: Callable[..., Any]) -> Any:
    """As ``compiled``, but part of its caller from the start.

    Numba compiles a function for itself, with all that it calls, and then again within its caller: of a chain of large
    functions each link would be compiled as often as there are links above it.
    """
    return _compile(function, "merged", inline="always")


def outlined(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function of numbers once, when its module is imported; compiled code calls it by its name.

    Of a ``compiled`` function every kernel that calls it gets a copy, which LLVM optimises anew: for the exact
    predicates, long and rarely reached, that would be most of the time that kernels take to compile. A name, unlike
    an address, can be part of code that is kept on disk. GPUs cannot call such a function.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if numba.config.DISABLE_JIT:
            return function
        arguments, result = normalize_signature(signature)
        native: Any = CFunc(function, (arguments, result), locals={}, options={"error_model": "numpy"})
        native._cache = _Cache(function, "outlined")
        with _compiling(native._targetdescr.target_context):
            native.compile()
        _outlined.append(native)
        symbol = f"{function.__module__}.{function.__qualname__}"
        llvmlite.binding.add_symbol(symbol, native.address)
        return numba.types.ExternalFunction(symbol, numba.core.typing.signature(result, *arguments))

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
        """Pick the version for ``work`` iterations of the outer loop."""
        if _always is None:
            is_parallel = work >= self.parallel_from and not (_threads_spin and _crowding.is_crowded())
        else:
            is_parallel = _always == "parallel"
        return self.parallel if is_parallel and _threads_here() > 1 else self.serial

    def __call__(self, *args: Any) -> Any:
        """Run on threads whatever the size, where threads can be used at all."""
        return self.over(self.parallel_from)(*args)


def kernel(*, parallel_from: int = PARALLEL_FROM) -> Callable[[Callable[..., Any]], Kernel]:
    """Compile a loop over ``prange`` twice; ``parallel_from`` is the work from which threads pay."""
    return functools.partial(Kernel, parallel_from=parallel_from)
