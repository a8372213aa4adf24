"""vtu files: unstructured grids of VTK in XML, arrays as text, base64 or appended bytes.

1. Cut.    Appended data may be raw bytes, which are no XML; the file is parsed up to there.
2. Parse.  One linear pass keeps the attributes of VTKFile and Piece and the arrays in Points and Cells. A document type
           is refused, since its entities can grow without limit, and so is deep nesting.
3. Arrays. A stream begins with its size, or with the sizes of its compressed blocks; all are compared with the bytes
           that are left. Unpacking is limited (``packed``), also where many pieces refer to the same bytes.
4. Pieces. Their points are concatenated; ids beyond those of their piece become -1.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Floats, Ints
from impinge.errors import FileError
from impinge.io import vtk_cells
from impinge.io.content import CUT_SHORT, FileContent, check_count, refuse_kind
from impinge.io.numbers_in_text import numbers_in
from impinge.io.packed import check_unpacked, inflate

DEEPEST = 32
"""Levels of nested XML; vtu files have six."""
_CODES = {f"{kind}{bits}": f"{kind[0].lower()}{bits // 8}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)} | {
    "Float32": "f4", "Float64": "f8",
}  # fmt: skip
_ORDERS = {"LittleEndian": "<", "BigEndian": ">"}
_BLANKS = b" \t\r\n"


@dataclass
class _Piece:
    point_count: int
    cell_count: int
    arrays: dict[str, tuple[dict[str, str], bytearray]] = field(default_factory=dict)
    """Attributes and text by name; positions are ``Points``."""


class _Target:
    """Receives the parts of the XML file."""

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, list[str]()
        self.root: dict[str, str] = {}
        self.appended: dict[str, str] = {}
        self.pieces: list[_Piece] = []
        self._text: bytearray | None = None

    def doctype(self, *_: str | None) -> None:
        raise FileError(f"{self._path} has a document type, which no vtu file needs; remove it")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEEPEST:
            raise FileError(f"{self._path} has XML nested deeper than {DEEPEST} levels; {CUT_SHORT}")
        parent = self._open[-1] if self._open else ""
        self._open.append(tag)
        if tag == "VTKFile":
            self.root = attributes
        elif tag == "AppendedData":
            self.appended = attributes
        elif tag == "Piece":
            self.pieces.append(_Piece(int(attributes["NumberOfPoints"]), int(attributes["NumberOfCells"])))
        elif tag == "DataArray" and parent in ("Points", "Cells") and self.pieces:
            name = attributes.get("Name", "") if parent == "Cells" else "Points"
            self._text = bytearray()
            self.pieces[-1].arrays[name] = attributes, self._text

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text += text.encode()

    def end(self, tag: str) -> None:
        self._open.pop()
        self._text = None if tag == "DataArray" else self._text

    def close(self) -> None:
        pass


def decode(data: bytes, path: Path) -> FileContent:
    """Read points and cells of all pieces."""
    target = _Target(path)
    stream = None
    if not data.rstrip().endswith(b"</VTKFile>"):
        refuse_kind("vtu", path, "XML from <VTKFile> to </VTKFile>")
    begin = data.find(b"<AppendedData")
    tag_end = data.find(b">", begin) + 1 if begin >= 0 else 0
    if tag_end:
        stream = data[data.find(b"_", tag_end) + 1 : data.rfind(b"</AppendedData")]
        data_of_xml = data[:tag_end] + b"</AppendedData></VTKFile>"
    parser = ElementTree.XMLParser(target=target)
    parser.feed(data_of_xml if tag_end else data)
    parser.close()
    if target.root.get("type") != "UnstructuredGrid":
        refuse_kind("vtu", path, "the element VTKFile of type UnstructuredGrid")
    if stream is not None and target.appended.get("encoding") != "raw":
        stream = stream.translate(None, _BLANKS)
    points, parts, vertex_count, unpacked = list[Any](), list[Any](), 0, 0
    for piece in target.pieces:
        arrays: dict[str, NDArray[Any]] = {}
        for name in filter(piece.arrays.__contains__, ("Points", "connectivity", "offsets", "types")):
            arrays[name], read = _array(*piece.arrays[name], target, stream, len(data), path)
            unpacked += max(read, arrays[name].nbytes) if _is_shared(piece, name, target) else 0
            check_unpacked(unpacked, len(data), path)
        x = arrays["Points"].reshape(-1, int(piece.arrays["Points"][0].get("NumberOfComponents") or 3))
        check_count(path, piece.point_count, len(x), "points")
        for name in ("offsets", "types"):
            check_count(path, piece.cell_count, len(arrays[name]), f"{name} of cells")
        if piece.cell_count < 0 or len(x) != piece.point_count or len(arrays["types"]) != piece.cell_count:
            raise FileError(f"{path} declares other numbers of points or cells than it holds; {CUT_SHORT}")
        corners = arrays["connectivity"].astype(np.int64)
        counts = vtk_cells.counts_of(np.append(0, arrays["offsets"].astype(np.int64)), len(corners), path)
        corners = corners[: int(counts.sum())]
        is_inside = (corners >= 0) & (corners < len(x))
        parts.append((arrays["types"], counts, np.where(is_inside, corners + vertex_count, NONE)))
        points.append(x)
        vertex_count += len(x)
    if not points or len({x.shape[1] for x in points}) > 1:
        raise FileError(f"{path} has {len(points)} pieces of points of one dimension, expected 1 or more; {CUT_SHORT}")
    return vtk_cells.from_vtk_cells(path, np.concatenate(points), *map(np.concatenate, zip(*parts)))


def _is_shared(piece: _Piece, name: str, target: _Target) -> bool:
    """Whether an array may take more bytes than its text: it is compressed, or others refer to the same bytes."""
    form = piece.arrays[name][0].get("format")
    return form == "appended" or (form == "binary" and "compressor" in target.root)


def _array(
    attributes: dict[str, str], text: bytearray, target: _Target, stream: bytes | None, size: int, path: Path
) -> tuple[NDArray[Any], int]:
    """The numbers of a DataArray in a file of ``size`` bytes, and how many bytes of it were read for them."""
    code, form = _CODES[attributes.get("type", "")], attributes.get("format", "ascii")
    if form == "ascii":
        return numbers_in(bytes(text), code if code[0] == "f" else np.int64), len(text)
    order = _ORDERS[target.root.get("byte_order", "LittleEndian")]
    start, is_raw, source = 0, False, bytes(text).translate(None, _BLANKS)
    if form == "appended":
        if stream is None:
            raise FileError(f"{path} refers to appended data and has none; {CUT_SHORT}")
        start, is_raw, source = int(attributes["offset"]), target.appended.get("encoding") == "raw", stream
    elif form != "binary":
        raise FileError(
            f"{path} has arrays of the format {form[:40]!r}, expected ascii, binary or appended; {CUT_SHORT}"
        )
    read = _Stream(source, is_raw, path)
    header = np.dtype(order + _CODES[target.root.get("header_type", "UInt32")])
    compressor = target.root.get("compressor", "")
    head, after = read.take(start, header.itemsize)
    count = int(np.frombuffer(head, header)[0])
    if compressor:
        head, after = read.take(start, (3 + count) * header.itemsize)
        sizes = [int(each) for each in np.frombuffer(head, header)[3:]]
        body, after = read.take(after, sum(sizes))
        ends = np.cumsum([0, *sizes]).tolist()
        body = inflate([body[a:b] for a, b in itertools.pairwise(ends)], compressor, path, size)
    elif is_raw or source[after - 1 : after] == b"=":  # the size is a stream of its own
        body, after = read.take(after, count)
    else:
        body, after = read.take(start, header.itemsize + count)
        body = body[header.itemsize :]
    return np.frombuffer(body, order + code), after - start


@dataclass(frozen=True)
class _Stream:
    """Bytes, or base64 without blanks."""

    source: bytes
    is_raw: bool
    path: Path

    def take(self, start: int, count: int) -> tuple[bytes, int]:
        """``count`` bytes of the stream that begins at ``start``, and the place after them."""
        width = count if self.is_raw else -(-count // 3) * 4
        if start < 0 or count < 0 or start + width > len(self.source):
            raise FileError(f"{self.path} declares {count} bytes, but holds fewer; {CUT_SHORT}")
        found = self.source[start : start + width]
        return (found if self.is_raw else base64.b64decode(found, validate=True)[:count]), start + width


def encode(x: Floats, elements: Ints) -> bytes:
    """Write triangles or tetrahedra, arrays as base64."""
    m, corners = elements.shape
    cell_type = vtk_cells.TETRA if corners == 4 else vtk_cells.TRIANGLE

    def array(attributes: str, values: NDArray[Any]) -> str:
        data = values.tobytes()
        text = base64.b64encode(len(data).to_bytes(8, "little") + data).decode()
        return f'<DataArray {attributes} format="binary">\n{text}\n</DataArray>\n'

    lines = [
        '<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" '
        'header_type="UInt64">\n<UnstructuredGrid>\n',
        f'<Piece NumberOfPoints="{len(x)}" NumberOfCells="{m}">\n<Points>\n',
        array('type="Float64" Name="Points" NumberOfComponents="3"', x.astype("<f8")), "</Points>\n<Cells>\n",
        array('type="Int64" Name="connectivity"', elements.astype("<i8")),
        array('type="Int64" Name="offsets"', (np.arange(1, m + 1) * corners).astype("<i8")),
        array('type="UInt8" Name="types"', np.full(m, cell_type, dtype="u1")),
        "</Cells>\n</Piece>\n</UnstructuredGrid>\n</VTKFile>\n",
    ]  # fmt: skip
    return "".join(lines).encode()
