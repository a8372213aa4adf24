"""PLY: a header that names elements and their properties, then their rows, as text or binary.

1. Header. Elements, counts and types, in the order of the body.
2. Body.   A text body is first turned into a binary one in which every number is a float64; so there is one
           reader, and text keeps all its digits even where the header says ``float``.
3. Rows.   All rows of an element are read as one table if they are alike in the lengths of their lists, else
           one by one.
4. Mesh.   ``x y z`` of the element ``vertex`` and the list of ids of the element ``face``.
5. Frames. A file that is the same as one before, but for its positions, needs none of this (``Frame``).

trimesh 4 was tried: it does not read binary files with mixed polygons, puts the quads of a mixed file behind
its triangles, and rounds text to float32.
"""

from __future__ import annotations

import array
import contextlib
import itertools
import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, content_of, fan, fan_rows, refuse_kind

_CODES = {
    "char": "b", "int8": "b", "uchar": "B", "uint8": "B", "short": "h", "int16": "h", "ushort": "H",
    "uint16": "H", "int": "i", "int32": "i", "uint": "I", "uint32": "I", "int64": "q", "uint64": "Q",
    "float": "f", "float32": "f", "double": "d", "float64": "d",
}  # fmt: skip
"""Types of the header as codes that ``struct`` and NumPy share."""
_TEXT_CODES = dict.fromkeys(_CODES, "d")
_ORDERS = {b"ascii": "=", b"binary_little_endian": "<", b"binary_big_endian": ">"}
_POSITION_BYTES = 24
_HEADER = re.compile(rb"ply[ \t]*(?:\r\n|\n|\r)(.*?)(?<=[\r\n])end_header[ \t]*(?:\r\n|\n|\r|$)", re.DOTALL)
_FORMAT = re.compile(rb"(?:^|[\r\n])format[ \t]+(ascii|binary_little_endian|binary_big_endian)[ \t]+\S+[ \t]*[\r\n]")


@dataclass(frozen=True)
class _Property:
    """One column: a number per row, or with ``count_code`` a list of them."""

    name: str
    code: str
    count_code: str = ""


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    order: str
    """Of bytes: < for little endian, > for big, = for that of this machine."""
    properties: list[_Property]


@dataclass(frozen=True)
class Frame:
    """All of a binary file but its positions: ``head``, then x y z of ``count`` vertices as doubles, then ``tail``."""

    head: bytes
    count: int
    tail: bytes

    def positions_in(self, data: bytes) -> Floats | None:
        """Positions in a file that is the same in all other bytes; None if it is not."""
        size = len(self.head) + self.count * _POSITION_BYTES + len(self.tail)
        if len(data) != size or not (data.startswith(self.head) and data.endswith(self.tail)):
            return None
        x = np.frombuffer(data, dtype="<f8", count=3 * self.count, offset=len(self.head))
        return np.array(x.reshape(-1, 3), dtype=np.float64)


def frame_of(data: bytes) -> Frame | None:
    """What files of the same sequence have in common with this one; None if it is text or has other columns first."""
    elements, body = _header_and_body(data, "")
    first, *others = elements
    plain = _Element("vertex", first.count, "<", [_Property(axis, "d") for axis in "xyz"])
    if first != plain or any(other.name == "vertex" for other in others):
        return None
    at = len(data) - len(body)
    return Frame(data[:at], first.count, data[at + first.count * _POSITION_BYTES :])


def decode(data: bytes, name: str) -> FileContent:
    """Read polygons from the bytes of the file ``name``."""
    elements, body = _header_and_body(data, name)
    at = 0
    columns: dict[str, dict[str, Any]] = {}
    for element in elements:
        columns[element.name], at = _columns(body, element, at, name)
    if not {"x", "y", "z"} <= columns.get("vertex", {}).keys():
        raise FileError(f"{name} has no element vertex with the properties x, y, z; write it again with them")
    x = np.column_stack([np.asarray(columns["vertex"][axis], dtype=np.float64).reshape(-1) for axis in "xyz"])
    others = {element.name: element.count for element in elements if element.name not in ("vertex", "face")}
    return content_of(x, _triangles(elements, columns), name, others)


def encode(x: Floats, faces: Ints) -> bytes:
    """Write little-endian float64 positions and int32 ids."""
    header = f"""ply
format binary_little_endian 1.0
element vertex {len(x)}
property double x
property double y
property double z
element face {len(faces)}
property list uchar int vertex_indices
end_header
"""
    rows = np.zeros(len(faces), dtype=[("count", "u1"), ("ids", "<i4", 3)])
    rows["count"], rows["ids"] = 3, faces
    return header.encode() + x.astype("<f8").tobytes() + rows.tobytes()


def _header_and_body(data: bytes, name: str) -> tuple[list[_Element], bytes | memoryview]:
    """Return the elements in the order of the body, and the body in binary."""
    head = _HEADER.match(data)
    if not head:
        if data.startswith(b"ply"):
            raise FileError(f"{name} has a header without end_header; {CUT_SHORT}")
        refuse_kind("ply", name, "the word ply in the first line")
    form = _FORMAT.search(head[1])
    if not form:
        raise FileError(f"{name} has a header without a known format, expected ascii or binary; write it again")
    is_text = form[1] == b"ascii"
    elements = _elements(head[1], _TEXT_CODES if is_text else _CODES, _ORDERS[form[1]], name)
    if is_text:
        return elements, _as_binary(data[head.end() :])
    return elements, memoryview(data)[head.end() :]


def _elements(header: bytes, codes: dict[str, str], order: str, name: str) -> list[_Element]:
    elements: list[_Element] = []
    for line in (line.decode("latin-1") for line in header.splitlines()):
        match line.split():
            case ["element", what, count] if count.isdecimal():
                elements.append(_Element(what, int(count), order, []))
            case ["property", "list", count_type, value_type, what] if elements:
                elements[-1].properties.append(_Property(what, codes[value_type], codes[count_type]))
            case ["property", value_type, what] if elements:
                elements[-1].properties.append(_Property(what, codes[value_type]))
            case [] | ["format" | "comment" | "obj_info", *_]:
                pass
            case _:
                raise FileError(f"{name} has the header line {line[:80]!r}, which is not PLY; write it again")
    return elements


def _as_binary(text: bytes) -> bytes:
    """Numbers of a text as float64, up to the first word that is none: rows that need it are then missing."""
    numbers = array.array("d")
    with contextlib.suppress(ValueError):
        for word in text.split():
            numbers.append(float(word))
    return numbers.tobytes()


def _columns(body: bytes | memoryview, element: _Element, at: int, name: str) -> tuple[dict[str, Any], int]:
    """Columns of the element that starts at ``at``, by property, and where the next element starts."""
    rows: list[list[tuple[float, ...]]] = []
    try:
        if element.count:
            first, _ = _row(body, element, at)
            table = _table(body, element, [len(values) for values in first], at)
            if table is not None:
                return table
        for _ in range(element.count):
            row, at = _row(body, element, at)
            rows.append(row)
    except struct.error as error:
        what = f"rows of {element.name}"
        raise FileError(f"{name} promises {element.count} {what}, but holds {len(rows)}; {CUT_SHORT}") from error
    return {p.name: [row[i] for row in rows] for i, p in enumerate(element.properties)}, at


def _row(body: bytes | memoryview, element: _Element, at: int) -> tuple[list[tuple[float, ...]], int]:
    """Values of each property in the row that starts at ``at``, and where the next row starts."""
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
    """All rows at once, if there are enough and all lists are as long as those of the first row."""
    fields: list[Any] = []
    for i, (p, n) in enumerate(zip(element.properties, lengths)):
        if p.count_code:
            fields.append((f"count {i}", element.order + p.count_code))
        fields.append((f"{i}", element.order + p.code, (n,)))
    dtype = np.dtype(fields)
    end = at + element.count * dtype.itemsize
    if end > len(body):
        return None
    has_lists = any(p.count_code for p in element.properties)
    rows = np.frombuffer(body[at:end] if has_lists else bytes(body[at:end]), dtype)  # numbers that are aligned are fast
    for i, (p, n) in enumerate(zip(element.properties, lengths)):
        if p.count_code and (rows[f"count {i}"] != n).any():
            return None
    return {p.name: rows[f"{i}"] for i, p in enumerate(element.properties)}, end


def _triangles(elements: list[_Element], columns: dict[str, dict[str, Any]]) -> Any:
    """Triangles of the element ``face``: its list of vertex ids, whatever that is called."""
    lists = [p.name for element in elements if element.name == "face" for p in element.properties if p.count_code]
    named = [what for what in ("vertex_indices", "vertex_index") if what in lists] or lists[:1]
    if not named:
        return []
    polygons = columns["face"][named[0]]
    if isinstance(polygons, np.ndarray):
        return fan_rows(polygons)
    return fan([len(polygon) for polygon in polygons], list(itertools.chain.from_iterable(polygons)))
