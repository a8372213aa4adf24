"""msh, vtk, vtu and mesh files through meshio: triangles or tetrahedra.

meshio passes over cells and pieces that it does not know, prints remarks, and ``meshio.read`` ends the process
on a bad file. So the readers are called by name, with the terminal muted, and the cells are counted afterwards:
as many as the file promises, or it is refused. Gmsh 1 is older than meshio and is read in ``gmsh``.
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
from impinge.errors import FileError, MissingExtra
from impinge.io import gmsh
from impinge.io.content import CUT_SHORT, FileContent, check_promise, from_meshio

_LOCK = threading.Lock()


def decode(data: bytes, kind: str, path: Path) -> FileContent:
    """Read ``path``, whose unpacked bytes are ``data``."""
    name = str(path)
    if kind == "msh" and gmsh.is_version_1(data):
        return gmsh.decode_version_1(data, name)
    _, module = _meshio("reading", kind)
    promised = _cells_promised(data, kind, name)
    with _plain_file(path, data, kind) as file, _muted():
        mesh = module.read(str(file))
    found = sum(len(block.data) for block in mesh.cells)
    check_promise(name, promised, found, "cells (of types that can be read)")
    return from_meshio(mesh, name)


def encode(x: Floats, elements: Ints, kind: str) -> bytes:
    """Write triangles or tetrahedra as meshio does by default, which keeps every bit of the positions."""
    meshio, module = _meshio("writing", kind)
    mesh = meshio.Mesh(x, [("tetra" if elements.shape[1] == 4 else "triangle", elements)])
    with tempfile.TemporaryDirectory() as folder, _muted():
        file = Path(folder) / f"mesh.{kind}"
        module.write(str(file), mesh)
        return file.read_bytes()


def _meshio(doing: str, kind: str) -> tuple[Any, Any]:
    """The package, and that part of it which reads and writes a format."""
    try:
        import meshio
    except ImportError as error:
        raise MissingExtra(f"{doing} .{kind} files needs meshio; install impinge[io]") from error
    return meshio, {"msh": meshio.gmsh, "vtk": meshio.vtk, "vtu": meshio.vtu, "mesh": meshio.medit}[kind]


def _cells_promised(data: bytes, kind: str, name: str) -> int:
    """How many cells of all types the file says it has; 0 where meshio itself insists on the number."""
    if kind == "msh":
        return gmsh.elements_promised(data, name)
    if kind == "vtk":
        counts = re.findall(rb"^(CELLS|CELL_TYPES)\s+(\d+)[^\n]*\n(OFFSETS)?", data, re.MULTILINE)
        return max((int(count) - bool(offsets) for _, count, offsets in counts), default=0)  # offsets are one more
    if kind == "vtu":
        return sum(map(int, re.findall(rb"<Piece\b[^>]*\bNumberOfCells\s*=\s*[\"'](\d+)", data)))
    if not re.search(rb"^\s*End\s*$", data, re.MULTILINE):
        raise FileError(f"{name} has no line End; {CUT_SHORT} (or add that line if the file is whole)")
    return 0


@contextlib.contextmanager
def _plain_file(path: Path, data: bytes, kind: str) -> Iterator[Path]:
    """Give unpacked bytes a path, for meshio reads files only."""
    if path.suffix.lower() != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"mesh.{kind}"
        file.write_bytes(data)
        yield file


class _Muted(io.TextIOBase):
    """A stream that swallows what one thread writes and passes on what others do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str, /) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Keep meshio's remarks off the terminal; one thread at a time, for the stream is global."""
    with _LOCK, contextlib.redirect_stderr(_Muted(sys.stderr)):
        yield
