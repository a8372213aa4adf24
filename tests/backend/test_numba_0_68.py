"""The dispatcher and the cache of Numba 0.68: machine code is emitted for Python callers alone."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.compiler import Flags

from impinge.backend import jit

pytestmark = pytest.mark.skipif(jit.IS_PLAIN, reason="another version of Numba, or the fall-back is forced")


def uncached(function):
    """Compile a function without storing its code on disk."""
    dispatcher = jit.compiled(function)
    dispatcher._cache = dispatcher._twin._cache = NullCache()
    return dispatcher


def make_pair():
    """A function and its caller."""

    @uncached
    def root(x):
        if x < 0.0:
            raise ValueError("negative")
        return x**0.5

    @uncached
    def sum_of_roots(values):
        total = 0.0
        for value in values:
            total += root(value)
        return total

    return root, sum_of_roots


def libraries_of(dispatcher):
    return [result.library for result in dispatcher.overloads.values()]


def test_callee_is_not_emitted():
    """Emit no machine code for functions that only compiled code calls."""
    root, sum_of_roots = make_pair()
    assert sum_of_roots(np.array([4.0, 9.0])) == 5.0
    assert not root.overloads
    assert [library._is_emitted for library in libraries_of(root._twin)] == [False]
    assert [library._is_emitted for library in libraries_of(sum_of_roots)] == [True]


def test_callee_can_be_called_from_python_too():
    """Serve Python and compiled callers in either order."""
    root, sum_of_roots = make_pair()
    assert sum_of_roots(np.array([4.0])) == 2.0
    assert root(9.0) == 3.0
    root, sum_of_roots = make_pair()
    assert root(9.0) == 3.0
    assert sum_of_roots(np.array([4.0])) == 2.0


def test_error_of_a_callee_reaches_python():
    """Propagate an exception from a callee to Python."""
    _, sum_of_roots = make_pair()
    with pytest.raises(ValueError, match="negative"):
        sum_of_roots(np.array([-1.0]))


def test_garbage_is_collected_again_after_compiling():
    """Restore the state of the garbage collector, after errors too."""
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
    """Compare flags by what Numba's own functions inherit, and by nothing else."""
    from impinge.backend.numba_0_68 import _customize

    plain, of_loop, fast = (_customize(Flags()) for _ in range(3))
    of_loop.no_cpython_wrapper, of_loop.auto_parallel = True, True
    fast.fastmath = {"contract"}
    assert plain == of_loop
    assert hash(plain) == hash(of_loop)
    assert plain != fast
    assert plain != Flags()


def test_processes_that_compile_at_once_do_not_mix_their_code(tmp_path, monkeypatch):
    """Load the right code or none after two processes saved code for different types at the same time."""
    from impinge.backend.numba_0_68 import _CacheFiles

    one, other, later = (_CacheFiles(str(tmp_path), "kernel", "stamp") for _ in range(3))
    for files in (one, other):
        monkeypatch.setattr(files, "_load_index", dict)  # both read before either saves
    save_data = one._save_data

    def save_after_the_other(name, data):
        other.save("of floats", "code for floats")
        save_data(name, data)

    monkeypatch.setattr(one, "_save_data", save_after_the_other)
    from impinge.backend import numba_0_68

    monkeypatch.setattr(numba_0_68, "_file_lock", lambda _: contextlib.nullcontext())  # as on Windows
    one.save("of ints", "code for ints")

    assert later.load("of floats") == "code for floats"
    assert later.load("of ints") in ("code for ints", None)


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_processes_that_compile_at_once_lose_nothing(tmp_path, monkeypatch):
    """Keep the code of both processes if one saves between another's read and write of the index."""
    from impinge.backend.numba_0_68 import _CacheFiles

    one, other, later = (_CacheFiles(str(tmp_path), "kernel", "stamp") for _ in range(3))
    load, begun = one._load_index, threading.Event()
    saving = threading.Thread(target=lambda: begun.wait() and other.save("of floats", "code for floats"))

    def load_and_wait():
        found = load()
        begun.set()
        saving.join(timeout=0.3)
        assert saving.is_alive(), "the other process did not wait"
        return found

    monkeypatch.setattr(one, "_load_index", load_and_wait)
    saving.start()
    one.save("of ints", "code for ints")
    saving.join()

    assert later.load("of ints") == "code for ints"
    assert later.load("of floats") == "code for floats"
