"""Code is emitted where it is called, and only there; what it answers does not depend on who calls it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.compiler import Flags

from impinge.backend import jit
from impinge.backend.numba_0_68 import _customize


def kept_to_itself(function):
    """Compile a function whose code is not kept on disk."""
    dispatcher = jit.compiled(function)
    dispatcher._cache_of = lambda _: NullCache()
    dispatcher._cache = NullCache()
    return dispatcher


def make_pair():
    """A function and one that calls it."""

    @kept_to_itself
    def root(x):
        if x < 0.0:
            raise ValueError("negative")
        return x**0.5

    @kept_to_itself
    def sum_of_roots(values):
        total = 0.0
        for value in values:
            total += root(value)
        return total

    return root, sum_of_roots


def libraries_of(dispatcher):
    return [result.library for result in dispatcher.overloads.values()]


def test_callee_is_not_emitted():
    """Turn what is called by compiled code alone into no machine code."""
    root, sum_of_roots = make_pair()
    assert sum_of_roots(np.array([4.0, 9.0])) == 5.0
    assert not root.overloads
    assert [library._is_emitted for library in libraries_of(root._twin)] == [False]
    assert [library._is_emitted for library in libraries_of(sum_of_roots)] == [True]


def test_callee_can_be_called_from_python_too():
    """Answer both callers, whichever comes first."""
    root, sum_of_roots = make_pair()
    assert sum_of_roots(np.array([4.0])) == 2.0
    assert root(9.0) == 3.0
    root, sum_of_roots = make_pair()
    assert root(9.0) == 3.0
    assert sum_of_roots(np.array([4.0])) == 2.0


def test_error_of_a_callee_reaches_python():
    """Raise in code that was compiled for others."""
    _, sum_of_roots = make_pair()
    with pytest.raises(ValueError, match="negative"):
        sum_of_roots(np.array([-1.0]))


def test_garbage_is_collected_again_after_compiling():
    """Leave the collector as it was, on or off, also if compiling fails."""
    assert gc.isenabled()
    root, _ = make_pair()
    with pytest.raises(Exception, match=r".*"):
        root("no number")
    assert gc.isenabled()
    gc.disable()
    try:
        assert root(4.0) == 2.0
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_functions_of_numba_are_compiled_once_for_all_variants():
    """Let them differ where they inherit something else from their callers, and nowhere else."""
    plain, of_loop, fast = (_customize(Flags()) for _ in range(3))
    of_loop.no_cpython_wrapper, of_loop.auto_parallel = True, True
    fast.fastmath = {"contract"}
    assert plain == of_loop
    assert hash(plain) == hash(of_loop)
    assert plain != fast
    assert plain != Flags()
