"""Embree's ``rtcCollide``: refit, candidates by box, a plain triangle test, sorted pairs (``embree_collide.cpp``).

No Python package offers it. The harness is compiled when it is first used, if a compiler and Embree's headers are
there (Debian: ``apt-get install g++ libembree-dev``), and kept in the cache folder.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Peer, as_pairs, cores, faces_of
from impinge.backend.jit import cache_folder
from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh

SOURCE = Path(__file__).with_name("embree_collide.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
REMEDY = "install g++ and Embree 3 or 4 with its headers (Debian: apt-get install g++ libembree-dev)"


class Adapter(Peer):
    """Trees of boxes in single precision, rounded outwards; positions are not copied."""

    name, package, module = "embree", "libembree-dev", ""
    how = "refit, rtcCollide, sort"

    _handle: int | None = None

    def available(self) -> str | None:
        """Compile the harness, if it is not there yet, and load it."""
        try:
            _library()
        except OSError as error:
            return f"Embree cannot be used here ({error}); {REMEDY}"
        return None

    def version(self) -> str:
        """The version of the headers."""
        number = int(_library().impinge_embree_version())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def threads(self) -> int:
        """All cores: TBB."""
        return cores()

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Build both trees once."""
        assert b is not None
        self._free()
        self._faces = [faces_of(body, np.int32) for body in (a, b)]
        self._x = [np.array(body.vertices) for body in (a, b)]
        arguments: list[Any] = []
        for x, faces in zip(self._x, self._faces):
            arguments += [x.ctypes.data, faces.ctypes.data, len(faces)]
        self._handle = _library().impinge_embree_new(*arguments)
        if not self._handle:
            raise RuntimeError("Embree could not build the trees")

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Refit both trees."""
        assert xb is not None
        self._x = [np.ascontiguousarray(x) for x in (xa, xb)]  # keeps them alive
        _library().impinge_embree_update(self._handle, *(x.ctypes.data for x in self._x))

    def query(self) -> Ints:
        """All pairs, sorted."""
        count = _library().impinge_embree_query(self._handle)
        if count < 0:
            raise RuntimeError("Embree reported an error in rtcCollide")
        pairs = np.zeros((count, 2), dtype=np.int32)
        _library().impinge_embree_pairs(self._handle, pairs.ctypes.data)
        return as_pairs(pairs)

    def _free(self) -> None:
        if self._handle:
            _library().impinge_embree_free(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self._free()


@functools.cache
def _library() -> Any:
    """Load the harness; OSError, with a reason, if it cannot be compiled or loaded."""
    library = ctypes.CDLL(str(_compile()))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "version": (number, []),
        "new": (pointer, [pointer, pointer, number] * 2),
        "free": (None, [pointer]),
        "update": (None, [pointer] * 3),
        "query": (ctypes.c_int64, [pointer]),
        "pairs": (None, [pointer] * 2),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"impinge_embree_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _compile() -> Path:
    """The compiled harness, from the cache if it is there."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise OSError("there is no C++ compiler")
    major = _embree_major(compiler)
    digest = hashlib.sha256(SOURCE.read_bytes() + repr((FLAGS, major)).encode()).hexdigest()[:16]
    target = cache_folder() / "peers" / f"embree_collide-{digest}.so"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(made), f"-lembree{major}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or ["the compiler failed"]
            raise OSError(lines[0])
        made.replace(target)
    return target


def _embree_major(compiler: str) -> int:
    """Which headers the compiler finds, 4 before 3 as in the source."""
    for major in (4, 3):
        text = f"#include <embree{major}/rtcore.h>\n"
        command = [compiler, "-x", "c++", "-fsyntax-only", "-"]
        if subprocess.run(command, input=text, capture_output=True, text=True, check=False).returncode == 0:
            return major
    raise OSError("its headers are not installed")
