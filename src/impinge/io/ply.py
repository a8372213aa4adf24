"""PLY: a header that names elements and their properties, then their rows, as text or binary.

1. Header. Elements, counts and types, in the order of the body.
2. Body.   A text body is first converted to a binary one of float64: one reader serves both, and text keeps all digits
           even where the header declares ``float``.
3. Rows.   The rows of an element are read as one table if their lists have equal lengths, else one by one.
4. Mesh.   ``x y z`` of the element ``vertex`` and the list of ids of the element ``face``.
5. Frames. A file equal to the previous one in all bytes but its positions skips these steps (``Frame``).

trimesh 4 was tried: it does not read binary files with mixed polygons, moves the quads of a mixed file behind its
triangles, and rounds text to float32.
"""

from __future__ import annotations

import array
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, content_of, fan, fan_rows, refuse_kind
from impinge.io.numbers_in_text import leading_numbers

_CODES = {
    "char": "b", "int8": "b", "uchar": "B", "uint8": "B", "short": "h", "int16": "h", "ushort": "H",
    "uint16": "H", "int": "i", "int32": "i", "uint": "I", "uint32": "I", "int64": "q", "uint64": "Q",
    "float": "f", "float32": "f", "double": "d", "float64": "d",
}  # fmt: skip
"""Types of the header as codes that ``struct`` and NumPy share."""
_TEXT_CODES = dict.fromkeys(_CODES, "d")
_ORDERS = {b"ascii": "=", b"binary_little_endian": "<", b"binary_big_endian": ">"}
_POSITION_BYTES = 24
LONGEST_NAME = 80
"""Characters of the name of an element, which messages repeat."""
_HEADER = re.compile(rb"ply[ \t]*(?:\r\n|\n|\r)(.*?)(?<=[\r\n])end_header[ \t]*(?:\r\n|\n|\r|$)", re.DOTALL)
_FORMAT = re.compile(rb"(?:^|[\r\n])format[ \t]+(ascii|binary_little_endian|binary_big_endian)[ \t]+\S+[ \t]*[\r\n]")


@dataclass(frozen=True)
class _Property:
    """One column: a number per row, or with ``count_code`` a list."""

    name: str
    code: str
    count_code: str = ""


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    order: str
    """Byte order: < little endian, > big endian, = native."""
    properties: list[_Property]


@dataclass(frozen=True)
class _Lists:
    """A column of lists of several lengths: all values in one array, far smaller than a tuple per row."""

    values: array.array[float]
    counts: array.array[int]


@dataclass(frozen=True)
class Frame:
    """A binary file without its positions: ``head``, x y z of ``count`` vertices as float64, ``tail``."""

    head: bytes
    count: int
    tail: bytes

    def positions_in(self, data: bytes) -> Floats | None:
        """Positions of a file that is equal in all other bytes; None if it is not."""
        size = len(self.head) + self.count * _POSITION_BYTES + len(self.tail)
        if len(data) != size or not (data.startswith(self.head) and data.endswith(self.tail)):
            return None
        x = np.frombuffer(data, dtype="<f8", count=3 * self.count, offset=len(self.head))
        return np.array(x.reshape(-1, 3), dtype=np.float64)


def frame_of(data: bytes, path: Path) -> Frame | None:
    """The bytes shared by files of a sequence; None for text, or if positions are not the first columns."""
    elements, body = _header_and_body(data, path)
    first, *others = elements
    plain = _Element("vertex", first.count, "<", [_Property(axis, "d") for axis in "xyz"])
    if first != plain or any(other.name == "vertex" for other in others):
        return None
    at = len(data) - len(body)
    return Frame(data[:at], first.count, data[at + first.count * _POSITION_BYTES :])


def decode(data: bytes, path: Path) -> FileContent:
    """Read the polygons of a file."""
    elements, body = _header_and_body(data, path)
    at = 0
    columns: dict[str, dict[str, Any]] = {}
    for element in elements:
        columns[element.name], at = _columns(body, element, at, path)
    if not {"x", "y", "z"} <= columns.get("vertex", {}).keys():
        raise FileError(f"{path} has no element vertex with the properties x, y, z; write it again with them")
    axes = [columns["vertex"][axis] for axis in "xyz"]
    x = np.column_stack([np.asarray(getattr(axis, "values", axis), dtype=np.float64).reshape(-1) for axis in axes])
    lists = [p.name for element in elements if element.name == "face" for p in element.properties if p.count_code]
    named = [what for what in ("vertex_indices", "vertex_index") if what in lists] or lists[:1]
    polygons = columns["face"][named[0]] if named else np.zeros((0, 3))
    triangles = fan_rows(polygons) if isinstance(polygons, np.ndarray) else fan(polygons.counts, polygons.values)
    others = {element.name: element.count for element in elements if element.name not in ("vertex", "face")}
    return content_of(x, triangles, path, others)


def encode(x: Floats, faces: Ints) -> bytes:
    """Write little-endian float64 positions and int32 ids."""
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(x)}"]
    header += [f"property double {axis}" for axis in "xyz"]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header", ""]
    rows = np.zeros(len(faces), dtype=[("count", "u1"), ("ids", "<i4", 3)])
    rows["count"], rows["ids"] = 3, faces
    return "\n".join(header).encode() + x.astype("<f8").tobytes() + rows.tobytes()


def _header_and_body(data: bytes, path: Path) -> tuple[list[_Element], bytes | memoryview]:
    """The elements in the order of the body, and the body in binary."""
    head = _HEADER.match(data)
    if not head:
        if data.startswith(b"ply"):
            raise FileError(f"{path} has a header without end_header; {CUT_SHORT}")
        refuse_kind("ply", path, "the word ply in the first line")
    form = _FORMAT.search(head[1])
    if not form:
        raise FileError(f"{path} has a header without a known format, expected ascii or binary; write it again")
    is_text = form[1] == b"ascii"
    codes, elements = _TEXT_CODES if is_text else _CODES, list[_Element]()
    for line in (line.decode("latin-1") for line in head[1].splitlines()):
        match line.split():
            case ["element", what, count] if count.isdecimal() and len(what) <= LONGEST_NAME:
                elements.append(_Element(what, int(count), _ORDERS[form[1]], []))
            case ["property", "list", count_type, value_type, what] if elements:
                elements[-1].properties.append(_Property(what, codes[value_type], codes[count_type]))
            case ["property", value_type, what] if elements:
                elements[-1].properties.append(_Property(what, codes[value_type]))
            case [] | ["format" | "comment" | "obj_info", *_]:
                pass
            case _:
                raise FileError(f"{path} has the header line {line[:80]!r}, which is not PLY; write it again")
    if not is_text:
        return elements, memoryview(data)[head.end() :]
    # The first word that is not a number ends the body: rows are missing.
    return elements, leading_numbers(data[head.end() :]).tobytes()


def _columns(body: bytes | memoryview, element: _Element, at: int, path: Path) -> tuple[dict[str, Any], int]:
    """Columns of the element that starts at ``at``, by property, and the start of the next element."""
    columns = {p.name: _Lists(array.array("d"), array.array("q")) for p in element.properties}
    found = 0
    try:
        if element.count:
            first, _ = _row(body, element, at)
            table = _table(body, element, [len(values) for values in first], at)
            if table is not None:
                return table
        while found < element.count:
            row, at = _row(body, element, at)
            found += 1
            for p, values in zip(element.properties, row):
                columns[p.name].values.extend(values)
                columns[p.name].counts.append(len(values))
    except struct.error as error:
        what = f"rows of {element.name}"
        raise FileError(f"{path} declares {element.count} {what}, but holds {found}; {CUT_SHORT}") from error
    return columns, at


def _row(body: bytes | memoryview, element: _Element, at: int) -> tuple[list[tuple[float, ...]], int]:
    """Values of each property in the row that starts at ``at``, and the start of the next row."""
    values = []
    for p in element.properties:
        n = 1
        if p.count_code:
            (count,) = struct.unpack_from(element.order + p.count_code, body, at)
            n = int(count)
            if n != count:
                raise struct.error("the length of a list is a fraction")
            at += struct.calcsize(element.order + p.count_code)
        code = f"{element.order}{n}{p.code}"
        values.append(struct.unpack_from(code, body, at))
        at += struct.calcsize(code)
    return values, at


def _table(
    body: bytes | memoryview, element: _Element, lengths: list[int], at: int
) -> tuple[dict[str, Any], int] | None:
    """All rows at once; None if there are too few, or a list has another length than in the first row."""
    fields: list[Any] = []
    counts = [(f"count {i}", n) for i, (p, n) in enumerate(zip(element.properties, lengths)) if p.count_code]
    for i, (p, n) in enumerate(zip(element.properties, lengths)):
        if p.count_code:
            fields.append((f"count {i}", element.order + p.count_code))
        fields.append((f"{i}", element.order + p.code, (n,)))
    dtype = np.dtype(fields)
    end = at + element.count * dtype.itemsize
    if end > len(body):
        return None
    rows = np.frombuffer(body[at:end] if counts else bytes(body[at:end]), dtype)  # a copy aligns the numbers
    if any((rows[name] != n).any() for name, n in counts):
        return None
    return {p.name: rows[f"{i}"] for i, p in enumerate(element.properties)}, end
