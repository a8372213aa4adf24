"""msh, vtk, vtu and mesh files through meshio: triangles or tetrahedra.

meshio skips unknown cells and pieces, prints remarks, and ``meshio.read`` exits the process on a bad file. The readers
are therefore called directly, with stderr muted, and the cells are compared with the number that the file declares.
Gmsh 1 is older than meshio and is read in ``gmsh``.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from impinge.checks import Floats, Ints
from impinge.errors import FileError, optional_module
from impinge.io import gmsh
from impinge.io.content import CUT_SHORT, FileContent, check_count, from_cells

_LOCK = threading.Lock()


def decode(data: bytes, path: Path, *, kind: str) -> FileContent:
    """Read the file ``path``, whose uncompressed bytes are ``data``."""
    if kind == "msh" and data.lstrip().startswith(b"$NOD"):
        return gmsh.decode_version_1(data, path)
    _, module = _meshio("reading", kind)
    declared = _declared_cells(data, kind, path)
    with tempfile.TemporaryDirectory() as folder, _muted():
        file = path
        if path.suffix.lower() == ".gz":  # meshio reads files only
            file = Path(folder) / f"mesh.{kind}"
            file.write_bytes(data)
        mesh = module.read(str(file))
    cells = [(block.type, block.data) for block in mesh.cells]
    check_count(path, declared, sum(len(rows) for _, rows in cells), "cells (of types that can be read)")
    return from_cells(mesh.points, cells, path)


def encode(x: Floats, elements: Ints, *, kind: str) -> bytes:
    """Write triangles or tetrahedra in meshio's default encoding, which keeps every bit of the positions."""
    meshio, module = _meshio("writing", kind)
    mesh = meshio.Mesh(x, [("tetra" if elements.shape[1] == 4 else "triangle", elements)])
    with tempfile.TemporaryDirectory() as folder, _muted():
        file = Path(folder) / f"mesh.{kind}"
        module.write(str(file), mesh)
        return file.read_bytes()


def _meshio(doing: str, kind: str) -> tuple[Any, Any]:
    """The package, and its module for a format."""
    meshio = optional_module("meshio", f"{doing} .{kind} files needs meshio; install impinge[io]")
    return meshio, {"msh": meshio.gmsh, "vtk": meshio.vtk, "vtu": meshio.vtu, "mesh": meshio.medit}[kind]


def _declared_cells(data: bytes, kind: str, path: Path) -> int:
    """Number of cells of all types that the file declares; 0 where meshio checks it."""
    if kind == "msh":
        return gmsh.declared_elements(data, path)
    if kind == "vtk":
        counts = re.findall(rb"^(CELLS|CELL_TYPES)\s+(\d+)[^\n]*\n(OFFSETS)?", data, re.MULTILINE)
        # There is one offset more than cells.
        return max((int(count) - bool(offsets) for _, count, offsets in counts), default=0)
    if kind == "vtu":
        return sum(map(int, re.findall(rb"<Piece\b[^>]*\bNumberOfCells\s*=\s*[\"'](\d+)", data)))
    if not re.search(rb"^\s*End\s*$", data, re.MULTILINE):
        raise FileError(f"{path} has no line End; {CUT_SHORT} (or add that line if the file is whole)")
    return 0


class _Muted(io.TextIOBase):
    """A stream that drops the writes of one thread and forwards those of others."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str, /) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Mute stderr of this thread; one thread at a time, since the stream is global."""
    with _LOCK, contextlib.redirect_stderr(_Muted(sys.stderr)):
        yield
