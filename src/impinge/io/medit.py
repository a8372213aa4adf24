"""Medit files (.mesh) as text: keywords, each followed by a count and its rows.

1. Cut.   Comments and quoted names are removed; the text is cut at its keywords.
2. Parse. The numbers between two keywords are parsed at once, and compared with the count that comes first.

Rows end with a reference number, which is ignored; ids start at 1. Version 1 has float32 positions, others float64.
Unknown keywords are ignored. A file without the keyword End is refused: whole sections may be missing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, check_count, from_cells, refuse_kind
from impinge.io.numbers_in_text import numbers_in

_IGNORED = re.compile(rb"#[^\r\n]*|\"[^\"\r\n]*\"")
_KEYWORD = re.compile(rb"(?<!\S)(?!(?:nan|inf|infinity)(?!\S))[A-Za-z]+(?!\S)", re.IGNORECASE)
_CELLS = {
    b"Edges": ("line", 2), b"Triangles": ("triangle", 3), b"Quadrilaterals": ("quad", 4), b"Tetrahedra": ("tetra", 4),
    b"Prisms": ("wedge", 6), b"Pyramids": ("pyramid", 5), b"Hexahedra": ("hexahedron", 8),
    b"Hexaedra": ("hexahedron", 8),
}  # fmt: skip


def decode(data: bytes, path: Path) -> FileContent:
    """Read vertices and cells."""
    text = _IGNORED.sub(b" ", data)
    keywords = _KEYWORD.finditer(text)
    keyword = next(keywords, None)
    if keyword is None or keyword[0] != b"MeshVersionFormatted":
        refuse_kind("mesh", path, "the word MeshVersionFormatted in the first line")
    version, dimension = 2, 3
    points: Any = None
    cells: list[tuple[str, Any]] = []
    while keyword is not None and keyword[0] != b"End":
        word, start = keyword[0], keyword.end()
        keyword = next(keywords, None)
        body = text[start : keyword.start() if keyword else len(text)]
        if word == b"MeshVersionFormatted":
            version = int(body.split(None, 1)[0])
        elif word == b"Dimension":
            dimension = int(body.split(None, 1)[0])
        elif word == b"Vertices":
            if dimension not in (2, 3):
                raise FileError(f"{path} has dimension {dimension}, expected 2 or 3; {CUT_SHORT}")
            points = _rows(body, np.dtype("f4" if version < 2 else "f8"), dimension + 1, path, "vertices")[:, :-1]
        elif word in _CELLS:
            kind, corners = _CELLS[word]
            rows = _rows(body, np.dtype(np.int64), corners + 1, path, word.decode())
            if len(rows):
                cells.append((kind, rows[:, :-1] - 1))
    if keyword is None:
        raise FileError(f"{path} has no line End; {CUT_SHORT} (or add that line if the file is whole)")
    if points is None:
        raise FileError(f"{path} has no Vertices; {CUT_SHORT}")
    return from_cells(points, cells, path)


def _rows(body: bytes, dtype: Any, width: int, path: Path, what: str) -> Any:
    """As many rows of ``width`` numbers as the first number declares."""
    head = re.match(rb"\s*([0-9]{1,18})(?!\S)", body)
    if not head:
        raise FileError(f"{path} has {what} without a count; {CUT_SHORT}")
    count = int(head[1])
    numbers = numbers_in(body[head.end() :], dtype)
    check_count(path, count, len(numbers) // width, what)
    return numbers[: count * width].reshape(count, width)


def encode(x: Floats, elements: Ints) -> bytes:
    """Write triangles or tetrahedra; ``repr`` is the shortest text that reads back as the same float64."""
    lines = ["MeshVersionFormatted 2", "Dimension 3", "Vertices", str(len(x))]
    lines += [f"{' '.join(map(repr, row))} 1" for row in x.tolist()]
    lines += ["Tetrahedra" if elements.shape[1] == 4 else "Triangles", str(len(elements))]
    lines += [f"{' '.join(map(str, row))} 1" for row in (elements.astype(np.int64) + 1).tolist()]
    return "\n".join([*lines, "End", ""]).encode()
