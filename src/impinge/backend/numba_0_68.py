"""Numba's dispatcher, without the work whose results nobody uses: compiling takes half as long.

Numba turns each function into machine code, with wrappers for callers in Python and in C. Of a function that only
compiled code calls, that is thrown away: its caller gets a copy of its LLVM code, optimises it anew together with its
own, and turns that into machine code. A loop on threads goes through four such stages. Here

1. code becomes machine code when Python asks for its address, and not before: once per kernel, with all it calls.
   Callees are still optimised by themselves: left to their callers alone, trees of boxes answered 3 to 9 % later;
2. a function that compiled code calls is compiled for such callers alone, without wrappers, apart from the one that
   Python calls (if it ever does), and cached as LLVM code;
3. functions of Numba's own are compiled once for all callers, not once per set of their callers' flags;
4. Python's garbage collector, which takes a tenth of the time and finds little, waits until a kernel is compiled.

Only functions that are compiled with :class:`Dispatcher` are treated so, and what is compiled for their sake.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import AnnotateTypes

__all__ = ["Dispatcher", "compiling"]


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked with what it calls, but optimised and emitted only if somebody asks for an address in it."""

    _is_emitted = False
    _compiled_object: bytes | None = None

    def _optimize_final_module(self) -> None:
        """Optimise a function; what only passes arguments on (it is never cached) waits for those who link it in."""
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
        """The address of a function; 0 if there is none by this name."""
        self._ensure_finalized()
        if not self._is_emitted:
            try:
                self._final_module.get_function(name)
            except NameError:
                return 0
            self._emit()
        return int(super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """What is cached: machine code if there is any, LLVM code otherwise."""
        if self._is_emitted:
            return super().serialize_using_object_code()  # type: ignore[no-any-return]
        return self.serialize_using_bitcode()  # type: ignore[no-any-return]

    @property
    def codegen(self) -> Any:
        """What tells the code of its environment, as soon as there is code."""
        return self._codegen if self._is_emitted else self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave it to ``_emit``, and to that of all who link this code in."""


@contextlib.contextmanager
def compiling(target: Any) -> Iterator[None]:
    """Let what is compiled within be emitted only where it is called."""
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
    """How to compile a function; equal to others from which Numba's own functions inherit the same.

    Numba compiles its ``max`` or ``np.empty`` once per set of flags of their callers, whatever these flags are.
    """

    def _inherited(self) -> tuple[Any, ...]:
        return self.nrt, self.fastmath, self.error_model, self.forceinline, self.boundscheck, self.debuginfo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._inherited() == other._inherited()

    def __hash__(self) -> int:
        return hash((self.error_model, self.forceinline))


def _customize(flags: Any) -> _Flags:
    """Leave out the wrapper for callers in C: there are none."""
    customized = _Flags(flags)
    customized.no_cfunc_wrapper = True
    return customized


@register_pass(mutates_CFG=False, analysis_only=True)
class _FlagsOfLoops(AnalysisPass):  # type: ignore[misc]
    """The loops of a function that is compiled for threads become functions, which nobody calls from Python."""

    _name = "impinge_flags_of_loops"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        flags_of_loops = state.flags
        state.flags = flags_of_loops.copy()
        flags_of_loops.no_cpython_wrapper = True
        return False


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's own steps, and the one above just before code is written."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_FlagsOfLoops, AnnotateTypes)
        passes.finalize()
        return [passes]


class Dispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls; compiled code calls its twin."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], cache_of: Callable[[bool], Any]) -> None:
        """``cache_of`` tells where code is kept: that for callers in Python, or that for compiled callers."""
        targetoptions = {"nopython": True, "boundscheck": None, **options}
        super().__init__(function, targetoptions=targetoptions, pipeline_class=_Compiler)
        self._compiler._customize_flags = _customize
        self._cache_of = cache_of
        self._cache = cache_of(False)

    def compile(self, sig: Any) -> Any:
        """Compile for these types of arguments, or load what is cached."""
        with compiling(self.targetctx):
            return super().compile(sig)

    @functools.cached_property
    def _twin(self) -> Any:
        twin = CPUDispatcher(self.py_func, targetoptions={**self.targetoptions, "no_cpython_wrapper": True})
        twin._compiler._customize_flags = _customize
        twin._cache = self._cache_of(True)
        return twin

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How compiled code calls this function."""
        return self._twin.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The function that compiled code calls, by its types."""
        return self._twin.get_overload(sig)
