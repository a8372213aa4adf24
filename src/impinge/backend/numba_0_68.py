"""Private parts of Numba 0.68: a leaner dispatcher and a cache in folders of source digests.

The only module that touches names which Numba may change between minor versions. ``backend.jit`` uses it with Numba
0.68 and ``backend.numba_plain``, which has the same two functions, with any other version.

Dispatcher. Numba turns each function into machine code, with wrappers for Python and C callers. For a function that
only compiled code calls, this work is discarded: the caller links a copy of its LLVM code, optimises it again together
with its own, and emits that. A threaded loop passes four such stages. Here compilation takes half the time:

1. Machine code is emitted when Python requests an address: once per kernel, with all its callees. Callees are still
   optimised on their own: left to their callers alone, box-tree queries were 3 to 9 % slower.
2. Functions called by compiled code are compiled without wrappers, apart from the version that Python calls, and
   cached as LLVM bitcode.
3. Numba's own functions are compiled once for all callers, not once per set of caller flags.
4. The garbage collector, which takes 10 % of the time, is off while a kernel is compiled.

This applies to functions compiled with :class:`Dispatcher` and to what is compiled on their behalf.

5. Arrays that Python may not write are compiled as arrays that it may: the code is the same, and is compiled once.

Cache. A kernel that Python calls is stored as machine code alone; Numba adds its bitcode, which no caller links here.
Code is looked for among the shipped kernels first (``backend.shipped``). Concurrent processes lock the index file of a
kernel, and data files have unique names. Numba numbers the files: without a lock, the index of one process could refer
to the code of another.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import AnnotateTypes

from impinge.backend import cache
from impinge.backend.shipped import shipped_kernels


def compile_function(function: Callable[..., Any], variant: str, **options: Any) -> Any:
    """Make a dispatcher; ``variant`` separates the cached code of one function compiled with different options.

    Inlined functions do no reference counting. Where it could not be proven redundant, it took up to half of the time
    of a kernel.
    """
    if variant == "inlined":
        options["_nrt"] = False
    return Dispatcher(function, variant, options)


def compile_native(function: Callable[..., Any], signature: Any, **options: Any) -> Any:
    """Compile a function with the calling convention of C; the result has its ``address``."""
    native: Any = CFunc(function, (signature.args, signature.return_type), locals={}, options=options)
    native._cache = _NativeCache(function, "outlined")
    with _compiling(native._targetdescr.target_context):
        native.compile()
    return native


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Cache folder of a function: one per module and digest."""

    def __init__(self, py_func: Callable[..., Any], variant: str) -> None:
        self._folder = cache.kernel_folder(py_func)
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
    """Index and data files, safe for processes that compile one kernel for different types concurrently."""

    def save(self, key: Any, data: Any) -> None:
        with _file_lock(f"{self._index_path}.lock"):
            super().save(key, data)

    def _data_name(self, _: int) -> str:
        return str(super()._data_name(uuid.uuid4().int))


class _ShippedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of shipped kernels, each compared with its hash before it is unpickled."""

    def _load_index(self) -> Any:
        try:
            content = io.BytesIO(shipped_kernels().read(Path(self._index_path)))
        except FileNotFoundError:
            return {}
        pickle.load(content)  # the version of Numba, which the manifest has too
        return pickle.loads(content.read())[1]

    def _load_data(self, name: str) -> Any:
        return pickle.loads(shipped_kernels().read(Path(self._data_path(name))))


@contextlib.contextmanager
def _file_lock(path: str) -> Iterator[None]:
    """Hold an exclusive lock until the block or the process ends; no lock on Windows."""
    with Path(path).open("ab") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache in our folder. Disk errors are logged, never raised; misses are recorded."""

    def __init__(self, py_func: Callable[..., Any], variant: str) -> None:
        self._impl_class = functools.partial(_CacheImpl, variant=variant)
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._load_shipped(sig, target_context)
        if found is not None:
            return found
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged file may raise anything; the remedy is to compile again
            cache.logger.info("cached kernel %s is unusable (%s), compiling it again", self._name, error)
            with contextlib.suppress(OSError):
                self.flush()
            found = None
        if found is not None:
            cache.mark_as_used(self._cache_path)
        else:
            cache.announce_compilation()
            cache.compilations.append(f"{self._py_func.__module__}.{self._py_func.__qualname__}{sig}")
        return found

    def _load_shipped(self, sig: Any, target_context: Any) -> Any:
        """Code that came with the package, or None; its files are never written."""
        shipped = shipped_kernels()
        if shipped.folder is None:
            return None
        target_context.refresh()
        stamp = self._impl.locator.get_source_stamp()
        files = _ShippedFiles(str(shipped.folder / stamp), self._impl.filename_base, stamp)
        _, _, hashes = self._index_key(sig, target_context.codegen())
        try:
            data = files.load((sig, shipped.target, hashes))
            return None if data is None else self._impl.rebuild(target_context, data)
        except Exception as error:  # noqa: BLE001 - a damaged file may raise anything; the remedy is to compile
            cache.logger.info("shipped kernel %s is unusable (%s), compiling it", self._name, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
            cache.delete_stale_folders()
        except OSError as error:
            cache.warn_uncached(str(error.strerror))


class _NativeCache(_Cache):
    """The cache of functions that compiled code calls by name: machine code, ready when the module is imported."""

    def save_overload(self, sig: Any, data: Any) -> None:
        data.library.get_pointer_to_function(data.fndesc.llvm_cfunc_wrapper_name)  # emits it
        super().save_overload(sig, data)


def _symbols_as_bitcode(module: Any) -> bytes:
    """The names that a module defines, without its code: Numba reads from them what the machine code contains."""
    lines = [f'define void @"{each.name}"() {{ ret void }}' for each in module.functions if not each.is_declaration]
    lines += [f'@"{each.name}" = global i8 0' for each in module.global_variables if not each.is_declaration]
    return bytes(llvmlite.binding.parse_assembly("\n".join(lines)).as_bitcode())


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked with its callees, and emitted only when an address in it is requested."""

    _is_emitted = False
    _compiled_object: bytes | None = None

    def _optimize_final_module(self) -> None:
        """Optimise a function; wrappers, which are never cached, are optimised by the libraries that link them."""
        if self._object_caching_enabled:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self._compiled_object is not None:  # machine code, from the cache
            self._emit()
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def _emit(self) -> None:
        self._is_emitted = True
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None and not variable.is_declaration:
                self._codegen.set_env(variable.name, environment)

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function; 0 for an unknown name."""
        self._ensure_finalized()
        if not self._is_emitted:
            try:
                self._final_module.get_function(name)
            except NameError:
                return 0
            self._emit()
        return int(super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """Content of the cache: machine code if emitted, LLVM bitcode otherwise."""
        if self._is_emitted:
            return self.name, "object", (self._get_compiled_object(), _symbols_as_bitcode(self._final_module))
        return self.serialize_using_bitcode()  # type: ignore[no-any-return]

    @property
    def codegen(self) -> Any:
        """The object that sets environments: the code generator once code is emitted, before that this object."""
        return self._codegen if self._is_emitted else self

    def set_env(self, name: str, environment: Any) -> None:
        """Deferred to ``_emit`` of this library and of the libraries that link it."""


@contextlib.contextmanager
def _compiling(target: Any) -> Iterator[None]:
    """Within this block, compiled code is emitted only where Python calls it."""
    with global_compiler_lock:
        target.refresh()  # compiles what all code refers to by name
        codegen = target.codegen()
        if "_library_class" in vars(codegen):  # within another compilation
            yield
            return
        collects = gc.isenabled()
        gc.disable()
        codegen._library_class = _Library
        try:
            yield
        finally:
            del codegen._library_class
            if collects:
                gc.enable()


class _Flags(Flags):  # type: ignore[misc]
    """Compiler flags, equal if Numba's own functions inherit the same values from them.

    Numba compiles its ``max`` or ``np.empty`` once per distinct set of caller flags.
    """

    def _inherited(self) -> tuple[Any, ...]:
        return self.nrt, self.fastmath, self.error_model, self.forceinline, self.boundscheck, self.debuginfo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._inherited() == other._inherited()

    def __hash__(self) -> int:
        return hash((self.error_model, self.forceinline))


def _customize(flags: Any) -> _Flags:
    """Omit the wrapper for C callers."""
    customized = _Flags(flags)
    customized.no_cfunc_wrapper = True
    return customized


@register_pass(mutates_CFG=False, analysis_only=True)
class _FlagsOfLoops(AnalysisPass):  # type: ignore[misc]
    """Omit the Python wrapper of outlined parallel loops."""

    _name = "impinge_flags_of_loops"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        flags_of_loops = state.flags
        state.flags = flags_of_loops.copy()
        flags_of_loops.no_cpython_wrapper = True
        return False


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline with ``_FlagsOfLoops`` after type annotation."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_FlagsOfLoops, AnnotateTypes)
        passes.finalize()
        return [passes]


def _writable(argument: Any) -> Any:
    """The type of the same argument, with arrays that may be written."""
    if isinstance(argument, types.Array) and not argument.mutable:
        return argument.copy(readonly=False)
    if isinstance(argument, types.UniTuple | types.Tuple):
        return types.Tuple.from_types([_writable(each) for each in argument])
    return argument


class Dispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls; compiled code calls its twin, which has no wrapper."""

    def __init__(self, function: Callable[..., Any], variant: str, options: dict[str, Any]) -> None:
        targetoptions = {"nopython": True, "boundscheck": None, **options}
        super().__init__(function, targetoptions=targetoptions, pipeline_class=_Compiler)
        self._compiler._customize_flags = _customize
        self._variant = variant
        self._cache = _Cache(function, variant) if cache.has_source(function) else NullCache()

    def compile(self, sig: Any) -> Any:
        """Compile for these argument types, or load the code from the cache."""
        with _compiling(self.targetctx):
            writable = tuple(map(_writable, sig)) if isinstance(sig, tuple) else sig
            entry = super().compile(writable)
            if writable != sig:
                self._insert([each._code for each in sig], entry, False)
                self.overloads[sig] = self.overloads[writable]
            return entry

    @functools.cached_property
    def _twin(self) -> Any:
        twin = CPUDispatcher(self.py_func, targetoptions={**self.targetoptions, "no_cpython_wrapper": True})
        twin._compiler._customize_flags = _customize
        if cache.has_source(self.py_func):
            twin._cache = _Cache(self.py_func, f"{self._variant}-called")
        return twin

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The call template of the twin."""
        return self._twin.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The compiled twin for these types."""
        return self._twin.get_overload(sig)
