"""Legacy VTK files: unstructured grids and surfaces (POLYDATA), as text or big-endian binary.

Three lines of header, then sections: a line of words and counts, then numbers.

1. POINTS.     Positions in the declared type.
2. CELLS.      Up to version 4, the number of corners before the corners of each cell; from version 5, offsets and
               corners. POLYGONS of surfaces alike.
3. CELL_TYPES. One number per cell.

A section ends at the next line that begins with a word (text), or after its bytes. Data of points and cells comes
last and is not read; fields before it are skipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io import vtk_cells
from impinge.io.content import CUT_SHORT, FileContent, check_count, refuse_kind
from impinge.io.numbers_in_text import numbers_in

MOST_SECTIONS = 1000
"""Sections of a file; usual files have three to ten."""
_HEAD = re.compile(rb"# vtk DataFile Version[^\n]*\n[^\n]*\n[ \t]*(ASCII|BINARY)[ \t]*\r?\n", re.IGNORECASE)
_WORD = re.compile(rb"^[ \t]*(?!nan|inf)[A-Za-z]", re.MULTILINE | re.IGNORECASE)
_LINE = re.compile(rb"\s*([^\r\n]{0,400})[^\n]*(?:\n|$)")
_CODES = {
    b"bit": "u1", b"unsigned_char": "u1", b"char": "i1", b"unsigned_short": "u2", b"short": "i2", b"unsigned_int": "u4",
    b"int": "i4", b"unsigned_long": "u8", b"long": "i8", b"float": "f4", b"double": "f8", b"vtktypeint64": "i8",
    b"vtktypeuint64": "u8", b"vtkidtype": "i4",
}  # fmt: skip
_POLYDATA = {
    b"VERTICES": vtk_cells.POLY_VERTEX, b"LINES": vtk_cells.POLY_LINE, b"POLYGONS": vtk_cells.POLYGON,
    b"TRIANGLE_STRIPS": vtk_cells.TRIANGLE_STRIP,
}  # fmt: skip


def decode(data: bytes, path: Path) -> FileContent:
    """Read points and cells."""
    head = _HEAD.match(data)
    if not head:
        refuse_kind("vtk", path, "# vtk DataFile Version in the first line, and ASCII or BINARY in the third")
    file = _File(data, path, head.end(), is_text=head[1].upper() == b"ASCII")
    points: Any = None
    counts: list[Any] = []
    corners: list[Any] = []
    types: list[Any] = []
    section_count = 0
    while words := file.line():
        section_count += 1
        if section_count > MOST_SECTIONS:
            raise FileError(f"{path} has more than {MOST_SECTIONS} sections, expected POINTS, CELLS and CELL_TYPES")
        match [words[0].upper(), *words[1:]]:
            case [b"DATASET", what, *_]:
                if what.upper() not in (b"UNSTRUCTURED_GRID", b"POLYDATA"):
                    name = what.decode("latin-1")[:40]
                    raise FileError(f"{path} holds {name}, expected UNSTRUCTURED_GRID or POLYDATA; convert it")
            case [b"POINTS", count, code, *_]:
                points = file.take(3 * int(count), _CODES[code.lower()], "coordinates").reshape(-1, 3)
            case [b"CELLS" | b"VERTICES" | b"LINES" | b"POLYGONS" | b"TRIANGLE_STRIPS" as what, count, size, *_]:
                per_cell, of_all = file.cells(int(count), int(size))
                counts.append(per_cell)
                corners.append(of_all)
                if what != b"CELLS":
                    types.append(np.full(len(per_cell), _POLYDATA[what]))
            case [b"CELL_TYPES", count, *_]:
                types.append(file.take(int(count), "i4", "types of cells"))
            case [b"FIELD", _, count, *_]:
                file.skip_fields(int(count))
            case [b"METADATA", *_]:
                file.skip_metadata()
            case [b"POINT_DATA" | b"CELL_DATA", *_]:
                break
            case _:
                name = words[0].decode("latin-1")[:40]
                raise FileError(f"{path} has the section {name!r}, expected POINTS, CELLS or CELL_TYPES; {CUT_SHORT}")
    found = [sum(map(len, arrays)) for arrays in (counts, types)]
    if points is None or not counts or found[0] != found[1]:
        raise FileError(f"{path} declares {found[1]} types of {found[0]} cells, or has no POINTS; {CUT_SHORT}")
    return vtk_cells.from_vtk_cells(path, points, *(np.concatenate(arrays) for arrays in (types, counts, corners)))


class _File:
    """The file and the place up to which it is read."""

    def __init__(self, data: bytes, path: Path, at: int, *, is_text: bool) -> None:
        self._data, self._path, self._at, self._is_text = data, path, at, is_text

    def line(self) -> list[bytes]:
        """The words of the next line that is not blank; none at the end."""
        found = _LINE.match(self._data, self._at)
        if not found:
            return []
        self._at = found.end()
        return found[1].split()

    def take(self, count: int, code: str, what: str) -> NDArray[Any]:
        """The next numbers of type ``code``."""
        if count < 0:
            raise FileError(f"{self._path} declares {count} {what}; {CUT_SHORT}")
        dtype = np.dtype(code)
        if self._is_text:
            following = _WORD.search(self._data, self._at)
            end = following.start() if following else len(self._data)
            found = numbers_in(self._data[self._at : end], dtype if dtype.kind == "f" else np.int64)
            self._at = end
            check_count(self._path, count, len(found), what)
            return found[:count]
        check_count(self._path, count, (len(self._data) - self._at) // dtype.itemsize, what)
        found = np.frombuffer(self._data, dtype.newbyteorder(">"), count, self._at)
        self._at += count * dtype.itemsize
        return found

    def cells(self, count: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Corners per cell, and of all cells."""
        offsets = re.compile(rb"\s*OFFSETS[ \t]+(\S{1,20})[^\n]*\n", re.IGNORECASE).match(self._data, self._at)
        if offsets:
            self._at = offsets.end()
            starts = self.take(count, _CODES[offsets[1].lower()], "offsets of cells")
            match self.line():
                case [word, code, *_] if word.upper() == b"CONNECTIVITY":
                    corners = self.take(size, _CODES[code.lower()], "corners of cells").astype(np.int64)
                case _:
                    raise FileError(f"{self._path} has OFFSETS without CONNECTIVITY; {CUT_SHORT}")
            per_cell = vtk_cells.counts_of(starts, size, self._path)
            return per_cell, corners[: int(per_cell.sum())]
        flat = self.take(size, "i4", "numbers of cells").astype(np.int64)
        starts = _starts(flat, count)
        check_count(self._path, count, len(starts), "cells")
        counts = flat[starts]
        used = flat[: int(counts.sum()) + count]
        return counts, np.delete(used, starts)

    def skip_fields(self, count: int) -> None:
        """Pass over arrays, each with a line ``name components tuples type``."""
        for _ in range(count):
            match self.line():
                case [_, components, tuples, code, *_]:
                    self.take(int(components) * int(tuples), _CODES[code.lower()], "numbers of a field")
                case _:
                    raise FileError(f"{self._path} declares {count} fields and has fewer; {CUT_SHORT}")

    def skip_metadata(self) -> None:
        """Pass over lines up to a blank one."""
        blank = re.compile(rb"\n[ \t\r]*\n").search(self._data, self._at)
        self._at = blank.end() if blank else len(self._data)


def _starts(flat: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where each of ``count`` cells begins with its number of corners; fewer if the numbers end before."""
    if count > 0 and len(flat) % count == 0:
        width = len(flat) // count
        if width and (flat[::width] == width - 1).all():  # cells of one size, the common case
            return np.arange(count) * width
    words, at, starts = memoryview(flat.data), 0, list[int]()
    while len(starts) < count and at < len(words) and 0 <= words[at] < len(words) - at:
        starts.append(at)
        at += 1 + words[at]
    return np.array(starts, dtype=np.int64)


def encode(x: Floats, elements: Ints) -> bytes:
    """Write triangles or tetrahedra as binary version 5.1."""
    m, corners = elements.shape
    cell_type = vtk_cells.TETRA if corners == 4 else vtk_cells.TRIANGLE
    parts = [
        b"# vtk DataFile Version 5.1\nimpinge\nBINARY\nDATASET UNSTRUCTURED_GRID\n",
        f"POINTS {len(x)} double\n".encode(), x.astype(">f8").tobytes(),
        f"\nCELLS {m + 1} {elements.size}\nOFFSETS vtktypeint64\n".encode(),
        (np.arange(m + 1) * corners).astype(">i8").tobytes(),
        b"\nCONNECTIVITY vtktypeint64\n", elements.astype(">i8").tobytes(),
        f"\nCELL_TYPES {m}\n".encode(), np.full(m, cell_type).astype(">i4").tobytes(), b"\n",
    ]  # fmt: skip
    return b"".join(parts)
