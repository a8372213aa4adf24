"""Files to arrays and back: what a mesh file holds, unchanged, or one sentence that says why not.

Vertices and faces keep the order of the file, vertices are never merged or split, polygons become fans of
triangles around their first corner (a concave polygon is therefore not cut as a modeller would cut it).

glb, gltf            trimesh
msh, vtk, vtu, mesh  meshio; Gmsh 1 text (``$NOD``) is parsed here, meshio does not know it
ply, obj, off, stl   parsed here, with NumPy alone. trimesh 4 was tried and cannot keep the promises above: it
                     groups OBJ faces by material, puts the quads of a mixed file behind its triangles, does
                     not read binary PLY with mixed polygons, rounds text to float32 where a header says
                     ``float``, and returns fewer faces without a word from an OFF file that is cut short.

Guarantee  a file that is cut short, or whose header promises more than follows, is refused: either every
           element that the header counts is returned, or none. Two cuts cannot be told: one between the
           lines of an OBJ file, which has no counts, and one inside the very last number of a text file.
           What follows the counted elements is no part of the mesh and is passed over.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import itertools
import json
import os
import re
import struct
import sys
import tempfile
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Floats, Ints, as_indices
from impinge.errors import FileError, ImpingeError, MeshError, MissingExtra

SURFACE_KINDS = ("ply", "obj", "stl", "off", "glb", "gltf")
"""Formats that hold polygons only."""
VOLUME_KINDS = ("msh", "vtk", "vtu", "mesh")
"""Formats that hold triangles or tetrahedra; meshio reads and writes them."""

_CUT_SHORT = "it is cut short or damaged, copy or write it again"
_MESHIO_LOCK = threading.Lock()


@dataclass(frozen=True)
class FileContent:
    """Arrays as the file holds them; ids are not checked against the number of vertices."""

    vertices: Floats
    """Positions, shape (n, 3)."""
    elements: Ints
    """Vertex ids of triangles (m, 3), or of tetrahedra (m, 4) if the file has any."""
    indexed: bool
    """False for formats without vertex ids (stl): there each triangle has its own three vertices."""


def read_mesh(path: Path) -> FileContent:
    """Read a file whose ending names the format, each also with ``.gz``."""
    kind, packed = mesh_kind(path)
    data = _bytes_of(path, kind, packed=packed)
    try:
        if kind in ("glb", "gltf"):
            return _read_gltf(data, kind, path)
        if kind in VOLUME_KINDS:
            return _read_volume(data, kind, path, packed=packed)
        readers: dict[str, Callable[[bytes, str], FileContent]] = {
            "ply": _read_ply,
            "obj": _read_obj,
            "off": _read_off,
            "stl": _read_stl,
        }
        return readers[kind](data, str(path))
    except ImpingeError:
        raise
    except Exception as error:  # whatever a library raises on bytes that are no mesh
        raise FileError(f"{path} cannot be read as a .{kind} mesh ({_reason(error)}); {_CUT_SHORT}") from error


def write_mesh(path: Path, vertices: Any, elements: Any) -> None:
    """Write triangles or tetrahedra to a file whose ending names the format, each also with ``.gz``.

    Coordinates come back bit for bit from ply, obj, off, msh, vtk, vtu and mesh; stl and glb hold float32,
    so they are rounded there. The file appears whole or not at all.
    """
    kind, packed = mesh_kind(path)
    x = np.ascontiguousarray(vertices, dtype=np.float64).reshape(-1, 3)
    rows = np.ascontiguousarray(elements, dtype=np.int32)
    if kind == "gltf":
        raise FileError(f"{path}: .gltf files are read but not written, they are several files; save as .glb")
    if rows.shape[1] == 4 and kind in SURFACE_KINDS:
        raise FileError(
            f"{path}: .{kind} files hold surfaces, not tetrahedra; save(body.surface, ...) writes "
            f"the boundary, and {_listed(VOLUME_KINDS)} files hold tetrahedra"
        )
    try:
        data = _encode(x, rows, kind)
    except ImpingeError:
        raise
    except Exception as error:  # whatever a library raises on arrays that it cannot write
        raise FileError(f"{path} cannot be written as .{kind} ({_reason(error)}); try another format") from error
    _replace(path, gzip.compress(data, mtime=0) if packed else data)


def from_meshio(mesh: Any, name: str) -> FileContent:
    """Take the tetrahedra of a ``meshio.Mesh``, or its triangles if it has none; ``name`` is for messages."""
    return from_cells(mesh.points, ((block.type, block.data) for block in mesh.cells), name)


def from_cells(points: Any, cells: Iterable[tuple[str, Any]], name: str) -> FileContent:
    """Take the tets of blocks of cells, or their polygons; refuse what would be lost without a word.

    A block is a type by its name in meshio and rows of vertex ids, shape (m, corners).
    """
    tets: list[Any] = []
    triangles: list[Any] = []
    others: dict[str, int] = {}
    for kind, rows in cells:
        if not len(rows):
            continue
        if kind == "tetra":
            tets.append(rows)
        elif kind in ("triangle", "quad") or kind.startswith("polygon"):
            triangles.append(_fan_rows(rows))
        elif kind.startswith(("line", "vertex", "empty")):
            others["lines"] = others.get("lines", 0) + (len(rows) if kind.startswith("line") else 0)
        else:
            raise MeshError(
                f"{name} has {len(rows)} cells of type {kind}, expected triangles, quads, polygons or "
                "tetrahedra; convert such cells to these first"
            )
    parts = tets or triangles
    return _content(points, np.concatenate(parts) if parts else [], name, others)


def mesh_kind(path: Path) -> tuple[str, bool]:
    """Tell the format from the ending: ("ply", True) for ``bunny.PLY.gz``; refuse an unknown one."""
    name = path.name.lower()
    packed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    kinds = SURFACE_KINDS + VOLUME_KINDS
    if ending[1:] not in kinds:
        found = f"has the ending '{ending}'" if ending else "has no ending"
        raise FileError(f"{path} {found}, expected one of {_listed(kinds)}, each also with .gz")
    return ending[1:], packed


# bytes ---------------------------------------------------------------------------------------------------


def _bytes_of(path: Path, kind: str, *, packed: bool) -> bytes:
    try:
        if path.is_dir():
            raise FileError(f"{path} is a folder, expected a .{kind} file; name a file in it")
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is a device or pipe, expected a .{kind} file; copy it to a file first")
        data = path.read_bytes()
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist, expected a .{kind} file; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise FileError(f"{path} cannot be opened ({_reason(error)}); check the path and its permissions") from error
    if packed and data:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise FileError(f"{path} cannot be unpacked as gzip ({_reason(error)}); {_CUT_SHORT}") from error
    if not data:
        raise FileError(f"{path} is empty, expected a .{kind} mesh; write it again")
    return data


def _replace(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename, so that a failure leaves the old file, or none."""
    path = Path(os.path.realpath(path))  # write through a link, do not replace it
    if path.is_dir():
        raise FileError(f"{path} is a folder, expected the name of a file")
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"{path} is write-protected; choose another name or change its permissions")
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        part.replace(path)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({_reason(error)}); choose a folder that exists and may be written to"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _package(name: str, doing: str, kind: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{doing} .{kind} files needs {name}; install impinge[io]") from error


# what all formats share ------------------------------------------------------------------------------------


def _content(
    vertices: Any, elements: Any, name: str, others: dict[str, int] | None = None, *, indexed: bool = True
) -> FileContent:
    """Make arrays of fixed type, or say what the file holds instead of triangles and tetrahedra."""
    x = np.ascontiguousarray(vertices, dtype=np.float64)
    if x.ndim == 2 and x.shape[1] == 2:
        x = np.column_stack([x, np.zeros(len(x))])  # a plane mesh lies at z = 0
    if not len(elements):
        held = {"points": len(x), **(others or {})}
        found = " and ".join(f"{count} {what}" for what, count in held.items() if count)
        found = f"only {found}" if found else "and no points either"
        raise MeshError(f"{name} has no triangles or tetrahedra, {found}; a body needs elements to collide")
    rows = np.asarray(elements)
    try:
        ids = as_indices(rows, name="tets" if rows.shape[1] == 4 else "faces", columns=rows.shape[1])
    except MeshError as error:
        raise MeshError(f"{name}: {error}") from error
    return FileContent(x.reshape(-1, 3), ids, indexed)


def _fan(counts: Any, corners: Any) -> NDArray[np.int64]:
    """Cut polygons into triangles (first, k, k + 1), in order; ``corners`` has ``counts[i]`` ids for each."""
    counts, corners = np.asarray(counts, dtype=np.int64), np.asarray(corners, dtype=np.int64)
    triangle_count = np.maximum(counts - 2, 0)
    polygon = np.repeat(np.arange(len(counts)), triangle_count)
    first = (np.cumsum(counts) - counts)[polygon]
    k = np.arange(len(polygon)) - (np.cumsum(triangle_count) - triangle_count)[polygon]
    return np.stack([corners[first], corners[first + k + 1], corners[first + k + 2]], axis=1)


def _fan_rows(rows: Any) -> NDArray[np.int64]:
    """Cut polygons that all have the same number of corners, shape (m, corners)."""
    rows = np.asarray(rows)
    return _fan(np.full(len(rows), rows.shape[1]), rows.reshape(-1))


def _promised(name: str, promised: int, found: int, what: str) -> None:
    """Refuse a file whose header counts more than there is."""
    if found < promised:
        raise FileError(f"{name} promises {promised} {what}, but holds {found}; {_CUT_SHORT}")


def _not_a(kind: str, name: str, expected: str) -> NoReturn:
    raise FileError(f"{name} is not a .{kind} file, expected {expected}; check its ending")


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:200]


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(f".{kind}" for kind in kinds)


# ply -----------------------------------------------------------------------------------------------------

_PLY_CODES = {
    "char": "b", "int8": "b", "uchar": "B", "uint8": "B", "short": "h", "int16": "h", "ushort": "H",
    "uint16": "H", "int": "i", "int32": "i", "uint": "I", "uint32": "I", "int64": "q", "uint64": "Q",
    "float": "f", "float32": "f", "double": "d", "float64": "d",
}  # fmt: skip
_PLY_HEADER = re.compile(rb"ply[ \t]*(?:\r\n|\n|\r)(.*?)(?<=[\r\n])end_header[ \t]*(?:\r\n|\n|\r|$)", re.DOTALL)


@dataclass(frozen=True)
class _PlyProperty:
    """One column: a number per row, or with ``count_code`` a list of them; codes are those of ``struct``."""

    name: str
    code: str
    count_code: str = ""


@dataclass(frozen=True)
class _PlyElement:
    name: str
    count: int
    properties: list[_PlyProperty]

    def smallest(self, *, text: bool) -> int:
        """Bytes that the rows take at least: two per number in text, lists being empty."""
        codes = [p.count_code or p.code for p in self.properties]
        return self.count * sum(2 if text else struct.calcsize(f"<{code}") for code in codes)


class _PlyText:
    """The body of a text PLY: numbers between white space."""

    def __init__(self, body: bytes) -> None:
        self._words = body.split()

    def row(self, element: _PlyElement, at: int) -> tuple[list[tuple[float, ...]], int]:
        """Values of each property in the row that starts at ``at``, and where the next row starts."""
        values = []
        for p in element.properties:
            n = 1
            if p.count_code:
                n = int(self._words[at])
                at += 1
            if not 0 <= n <= len(self._words) - at:
                raise IndexError
            values.append(tuple(map(float, self._words[at : at + n])))
            at += n
        return values, at

    def table(self, element: _PlyElement, lengths: list[int], at: int) -> tuple[dict[str, Any], int] | None:
        """All rows at once, if all lists are as long as those of the first row."""
        widths = [n + bool(p.count_code) for p, n in zip(element.properties, lengths)]
        end = at + element.count * sum(widths)
        words = self._words[at:end]
        if len(words) < end - at:
            return None
        rows = np.array(words, dtype=np.float64).reshape(element.count, sum(widths))
        columns, column = {}, 0
        for p, n, width in zip(element.properties, lengths, widths):
            if p.count_code and (rows[:, column] != n).any():
                return None
            columns[p.name] = rows[:, column + width - n : column + width]
            column += width
        return columns, end


class _PlyBinary:
    """The body of a binary PLY; ``order`` is < for little and > for big endian."""

    def __init__(self, body: bytes, order: str) -> None:
        self._body, self._order = body, order

    def row(self, element: _PlyElement, at: int) -> tuple[list[tuple[float, ...]], int]:
        """Values of each property in the row that starts at ``at``, and where the next row starts."""
        values = []
        for p in element.properties:
            n = 1
            if p.count_code:
                (n,) = struct.unpack_from(self._order + p.count_code, self._body, at)
                at += struct.calcsize(p.count_code)
            values.append(struct.unpack_from(f"{self._order}{n}{p.code}", self._body, at))
            at += struct.calcsize(f"<{n}{p.code}")
        return values, at

    def table(self, element: _PlyElement, lengths: list[int], at: int) -> tuple[dict[str, Any], int] | None:
        """All rows at once, if all lists are as long as those of the first row."""
        fields: list[Any] = []
        for i, (p, n) in enumerate(zip(element.properties, lengths)):
            if p.count_code:
                fields.append((f"count {i}", self._order + p.count_code))
            fields.append((f"{i}", self._order + p.code, (n,)))
        dtype = np.dtype(fields)
        end = at + element.count * dtype.itemsize
        if end > len(self._body):
            return None
        rows = np.frombuffer(self._body, dtype, element.count, at)
        for i, (p, n) in enumerate(zip(element.properties, lengths)):
            if p.count_code and (rows[f"count {i}"] != n).any():
                return None
        return {p.name: rows[f"{i}"] for i, p in enumerate(element.properties)}, end


def _read_ply(data: bytes, name: str) -> FileContent:
    """Read the rows of each element in turn: as one table if all rows are alike, else one by one."""
    form, elements, start = _ply_header(data, name)
    body: _PlyText | _PlyBinary
    if form == "ascii":
        body = _PlyText(data[start:])
    else:
        body = _PlyBinary(data[start:], "<" if form == "binary_little_endian" else ">")
    at = 0
    columns: dict[str, dict[str, Any]] = {}
    for element in elements:
        columns[element.name], at = _ply_rows(body, element, at, name)
    counts = {element.name: element.count for element in elements}
    if not {"x", "y", "z"} <= columns.get("vertex", {}).keys():
        raise FileError(f"{name} has no element vertex with the properties x, y, z; write it again with them")
    x = np.column_stack([np.asarray(columns["vertex"][axis], dtype=np.float64).reshape(-1) for axis in "xyz"])
    others = {what: counts[what] for what in counts if what not in ("vertex", "face")}
    return _content(x, _ply_faces(elements, columns), name, others)


def _ply_header(data: bytes, name: str) -> tuple[str, list[_PlyElement], int]:
    """Return the format, the elements in the order of the body, and where the body starts."""
    head = _PLY_HEADER.match(data)
    if not head:
        if data.startswith(b"ply"):
            raise FileError(f"{name} has a header without end_header; {_CUT_SHORT}")
        _not_a("ply", name, "the word ply in the first line")
    form, elements = "", []
    for line in head[1].decode("latin-1").splitlines():
        match line.split():
            case ["format", ("ascii" | "binary_little_endian" | "binary_big_endian") as form, _]:
                pass
            case ["element", what, count] if count.isdecimal():
                elements.append(_PlyElement(what, int(count), []))
            case ["property", "list", count_type, value_type, what] if elements:
                column = _PlyProperty(what, _PLY_CODES[value_type], _PLY_CODES[count_type])
                elements[-1].properties.append(column)
            case ["property", value_type, what] if elements:
                elements[-1].properties.append(_PlyProperty(what, _PLY_CODES[value_type]))
            case [] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise FileError(f"{name} has the header line {line[:80]!r}, which is not PLY; write it again")
    if not form:
        raise FileError(f"{name} has a header without a known format, expected ascii or binary; write it again")
    held = len(data) - head.end()
    needed = sum(element.smallest(text=form == "ascii") for element in elements) - (form == "ascii")
    if needed > held:
        counted = " and ".join(f"{element.count} rows of {element.name}" for element in elements)
        raise FileError(f"{name} promises {counted}, but only {held} bytes follow its header; {_CUT_SHORT}")
    return form, elements, head.end()


def _ply_rows(body: _PlyText | _PlyBinary, element: _PlyElement, at: int, name: str) -> tuple[dict[str, Any], int]:
    """Columns of an element by property, and where the next element starts."""
    rows: list[list[tuple[float, ...]]] = []
    try:
        if element.count:
            first, _ = body.row(element, at)
            table = body.table(element, [len(values) for values in first], at)
            if table is not None:
                return table
        for _ in range(element.count):
            row, at = body.row(element, at)
            rows.append(row)
    except (IndexError, struct.error) as error:
        what = f"rows of {element.name}"
        raise FileError(f"{name} promises {element.count} {what}, but holds {len(rows)}; {_CUT_SHORT}") from error
    return {p.name: [row[i] for row in rows] for i, p in enumerate(element.properties)}, at


def _ply_faces(elements: list[_PlyElement], columns: dict[str, dict[str, Any]]) -> Any:
    """Triangles of the element ``face``: its list of vertex ids, whatever that is called."""
    faces = [element for element in elements if element.name == "face" and element.count]
    lists = [p.name for element in faces for p in element.properties if p.count_code]
    named = [what for what in ("vertex_indices", "vertex_index") if what in lists] or lists[:1]
    if not named:
        return []
    polygons = columns["face"][named[0]]
    if isinstance(polygons, np.ndarray):
        return polygons if polygons.shape[1] == 3 else _fan_rows(polygons)
    return _fan([len(polygon) for polygon in polygons], list(itertools.chain.from_iterable(polygons)))


# obj, off, stl -------------------------------------------------------------------------------------------


def _read_obj(data: bytes, name: str) -> FileContent:
    """Read ``v`` and ``f`` lines: positions and the first id of each corner; all else describes looks."""
    vertex_lines: list[bytes] = []
    face_lines: list[bytes] = []
    seen: list[int] = []  # vertices before each face: a negative id counts back from there
    others = {"lines": 0}
    for line in re.sub(rb"\\\r?\n", b" ", data).splitlines():
        match line.partition(b"#")[0].split(None, 1):
            case [b"v", values]:
                vertex_lines.append(values)
            case [b"f", corners]:
                face_lines.append(corners)
                seen.append(len(vertex_lines))
            case [b"l", _]:
                others["lines"] += 1
    if not vertex_lines and not face_lines:
        _not_a("obj", name, "lines that begin with v or f")
    positions = [line.split()[:3] for line in vertex_lines]
    short = next((i for i, row in enumerate(positions) if len(row) < 3), None)
    if short is not None:
        raise FileError(f"{name} has {len(positions[short])} coordinates at vertex {short}, expected 3; {_CUT_SHORT}")
    polygons = [line.split() for line in re.sub(rb"/\S*", b"", b"\n".join(face_lines)).splitlines()]
    counts = np.array([len(polygon) for polygon in polygons], dtype=np.int64)
    if (counts < 3).any():
        short = int(np.argmax(counts < 3))
        raise FileError(f"{name} has {counts[short]} corners at face {short}, expected 3 or more; {_CUT_SHORT}")
    ids = np.array(list(itertools.chain.from_iterable(polygons)), dtype=np.int64)
    ids = np.where(ids < 0, ids + np.repeat(np.array(seen, dtype=np.int64), counts), ids - 1)
    x = np.array(positions, dtype=np.float64).reshape(-1, 3)
    return _content(x, _fan(counts, ids), name, others)


def _read_off(data: bytes, name: str) -> FileContent:
    """Read counts, then a vertex per line, then a polygon per line; colours and normals are passed over."""
    match = re.match(rb"\s*(?:ST)?C?N?OFF\b", re.sub(rb"#[^\r\n]*", b"", data))
    if not match:
        _not_a("off", name, "the word OFF in the first line (also with ST, C or N before it)")
    lines = [line for line in (line.split() for line in match.string[match.end() :].splitlines()) if line]
    vertex_count, face_count = (int(count) for count in lines[0][:2]) if lines else (0, 0)
    if min(vertex_count, face_count) < 0:
        raise FileError(f"{name} promises {vertex_count} vertices and {face_count} faces; {_CUT_SHORT}")
    positions = [line[:3] for line in lines[1 : 1 + vertex_count]]
    _promised(name, vertex_count, sum(len(row) == 3 for row in positions), "vertices")
    rows = lines[1 + vertex_count : 1 + vertex_count + face_count]
    polygons = [row[1 : 1 + int(row[0])] for row in rows]
    whole = sum(len(polygon) == int(row[0]) for polygon, row in zip(polygons, rows))
    _promised(name, face_count, whole, "faces")
    ids = np.array(list(itertools.chain.from_iterable(polygons)), dtype=np.int64)
    x = np.array(positions, dtype=np.float64).reshape(-1, 3)
    triangles = _fan([len(polygon) for polygon in polygons], ids)
    return _content(x, triangles, name, {"lines": sum(len(polygon) == 2 for polygon in polygons)})


_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def _read_stl(data: bytes, name: str) -> FileContent:
    """Read triangles, each with its own three vertices.

    A file whose length fits the count at byte 80 is binary, even if it begins with ``solid``, as many do.
    """
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else 0
    size = 84 + count * _STL_RECORD.itemsize
    if len(data) == size:
        x = np.frombuffer(data, _STL_RECORD, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        x = _stl_text(data.lower(), name)
    elif len(data) >= 84:
        raise FileError(f"{name} promises {count} triangles in {size} bytes, but has {len(data)}; {_CUT_SHORT}")
    else:
        _not_a("stl", name, "the word solid, or 84 bytes of header")
    return _content(x, np.arange(len(x)).reshape(-1, 3), name, indexed=False)


def _stl_text(text: bytes, name: str) -> Floats:
    corners = re.findall(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)\s", text)
    facet_count = len(re.findall(rb"\bfacet\s+normal\b", text))
    _promised(name, facet_count, len(re.findall(rb"\bendfacet\b", text)), "facets")
    if len(corners) != 3 * facet_count:
        raise FileError(f"{name} has {len(corners)} corners in {facet_count} facets, expected 3 each; {_CUT_SHORT}")
    if not re.search(rb"\bendsolid\b", text):
        raise FileError(f"{name} has no endsolid; {_CUT_SHORT}")
    return np.array(corners, dtype=np.float64).reshape(-1, 3)


# glb, gltf -----------------------------------------------------------------------------------------------


def _read_gltf(data: bytes, kind: str, path: Path) -> FileContent:
    """Concatenate all meshes of the scene where their nodes put them; mirrored ones keep their outside."""
    trimesh = _package("trimesh", "reading", kind)
    _check_gltf(_gltf_tree(data, kind, str(path)), str(path))
    resolver = trimesh.resolvers.FilePathResolver(str(path))
    scene = trimesh.load(io.BytesIO(data), file_type=kind, resolver=resolver, process=False, skip_materials=True)
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = []
    for node in scene.graph.nodes_geometry:
        matrix, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        x = np.asarray(mesh.vertices, dtype=np.float64)
        if not np.array_equal(matrix, np.eye(4)):
            x = x @ matrix[:3, :3].T + matrix[:3, 3]
        if len(getattr(mesh, "faces", ())):
            rows = np.asarray(mesh.faces)[:, ::-1] if np.linalg.det(matrix[:3, :3]) < 0.0 else np.asarray(mesh.faces)
            faces.append(rows + sum(len(part) for part in vertices))
        vertices.append(x)
    return _content(np.concatenate(vertices), np.concatenate(faces) if faces else [], str(path))


def _gltf_tree(data: bytes, kind: str, name: str) -> Any:
    """The JSON part of the file."""
    if kind == "gltf":
        return json.loads(data)
    if data[:4] != b"glTF":
        _not_a("glb", name, "the word glTF in the first four bytes")
    _, _, size, json_size, _ = struct.unpack_from("<5I", data)
    if size > len(data):
        raise FileError(f"{name} promises {size} bytes, but has {len(data)}; {_CUT_SHORT}")
    return json.loads(data[20 : 20 + json_size])


def _check_gltf(tree: Any, name: str) -> None:
    """Refuse what trimesh would pass over or take for zeros without a word."""
    accessors, views = tree.get("accessors", []), tree.get("bufferViews", [])
    for primitive in (p for mesh in tree.get("meshes", []) for p in mesh["primitives"]):
        if primitive.get("mode") == 6:
            raise FileError(f"{name} has a triangle fan, which is not read; export it as plain triangles")
        used = [primitive["attributes"].get("POSITION"), primitive.get("indices")]
        for accessor in (accessors[i] for i in used if i is not None):
            plain = "bufferView" in accessor and "extensions" not in views[accessor["bufferView"]]
            if not plain or "sparse" in accessor or accessor.get("normalized"):
                raise FileError(
                    f"{name} has compressed, sparse or normalised positions or ids, which are not read; "
                    "export it without compression"
                )


# msh, vtk, vtu, mesh -------------------------------------------------------------------------------------


def _read_volume(data: bytes, kind: str, path: Path, *, packed: bool) -> FileContent:
    """Let meshio read, and count afterwards: it passes over cells and pieces that it does not know."""
    name = str(path)
    if kind == "msh" and data.lstrip().startswith(b"$NOD"):
        return _read_gmsh1(data, name)
    meshio = _package("meshio", "reading", kind)
    promised = _cells_promised(data, kind, name)
    # The readers are called by name: meshio.read prints what went wrong and ends the process.
    readers = {"msh": meshio.gmsh, "vtk": meshio.vtk, "vtu": meshio.vtu, "mesh": meshio.medit}
    with _as_file(path, data, kind, packed=packed) as file, _muted():
        mesh = readers[kind].read(str(file))
    _promised(name, promised, sum(len(block.data) for block in mesh.cells), "cells (of types that can be read)")
    return from_meshio(mesh, name)


@contextlib.contextmanager
def _as_file(path: Path, data: bytes, kind: str, *, packed: bool) -> Iterator[Path]:
    """Give unpacked bytes a path, for readers that insist on one."""
    if not packed:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"mesh.{kind}"
        file.write_bytes(data)
        yield file


class _Muted(io.TextIOBase):
    """A stream that swallows what one thread writes and passes on what others do."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str, /) -> int:
        if threading.get_ident() == self._thread:
            return len(text)
        return int(self._stream.write(text))


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Keep meshio's remarks off the terminal; one thread at a time, for the streams are global."""
    streams = contextlib.ExitStack()
    with _MESHIO_LOCK, streams:
        streams.enter_context(contextlib.redirect_stderr(_Muted(sys.stderr)))
        streams.enter_context(contextlib.redirect_stdout(_Muted(sys.stdout)))
        yield


def _cells_promised(data: bytes, kind: str, name: str) -> int:
    """How many cells of all types the file says it has; 0 where meshio itself insists on the number."""
    if kind == "vtk":
        counts = re.findall(rb"^(CELLS|CELL_TYPES)\s+(\d+)[^\n]*\n(OFFSETS)?", data, re.MULTILINE)
        return max((int(count) - bool(offsets) for _, count, offsets in counts), default=0)  # offsets are one more
    if kind == "vtu":
        return sum(map(int, re.findall(rb"<Piece\b[^>]*\bNumberOfCells\s*=\s*[\"'](\d+)", data)))
    if kind == "msh":
        return _gmsh_promised(data, name)
    if not re.search(rb"^\s*End\s*$", data, re.MULTILINE):
        raise FileError(f"{name} has no line End; {_CUT_SHORT} (or add that line if the file is whole)")
    return 0


def _gmsh_promised(data: bytes, name: str) -> int:
    """Elements that a Gmsh 2 or 4 file promises.

    In Gmsh 4 nodes come in blocks with counts of their own; meshio would return noise for nodes that are
    promised but in no block.
    """
    head = re.search(rb"^\s*\$MeshFormat\s+(\S+)\s+([01])\s", data[:4096], re.MULTILINE)
    if not head:
        _not_a("msh", name, "$MeshFormat or $NOD in the first line")
    nodes, elements = (_section(data, what, name) for what in ("Nodes", "Elements"))
    if float(head[1]) < 4.0:
        return int(elements.split(None, 1)[0])
    is_text, is_4_0 = head[2] == b"0", head[1] == b"4.0"
    width = 2 if is_4_0 else 4  # numbers before the first block: blocks, total, and in 4.1 the range of tags
    if is_text:
        words = nodes.split()
        block_count, total, element_total = int(words[0]), int(words[1]), int(elements.split(None, 2)[1])
        at, found = width, 0
        for _ in range(block_count):
            count = int(words[at + 3])  # a block has four numbers of its own, then four per node
            at, found = at + 4 + 4 * count, found + count
    else:
        block_count, total = struct.unpack_from("<2Q", nodes)
        element_total = struct.unpack_from("<2Q", elements)[1]
        at, found = 8 * width, 0
        for _ in range(block_count):
            count = struct.unpack_from("<Q", nodes, at + 12)[0]
            at, found = at + 20 + (28 if is_4_0 else 32) * count, found + count
    _promised(name, total, found, "nodes")
    return int(element_total)


def _section(data: bytes, what: str, name: str) -> bytes:
    """What stands between ``$Nodes`` and ``$EndNodes``, or other such words."""
    end = "END" if what.isupper() else "End"
    match = re.search(rf"^\s*\${what}[ \t]*\r?\n(.*?)\${end}{what}\b".encode(), data, re.MULTILINE | re.DOTALL)
    if not match:
        raise FileError(f"{name} has no whole section ${what} ... ${end}{what}; {_CUT_SHORT}")
    return match[1]


_GMSH_TYPES = {1: "line", 2: "triangle", 3: "quad", 4: "tetra", 15: "vertex"}


def _read_gmsh1(data: bytes, name: str) -> FileContent:
    """Read Gmsh 1 text: ``id x y z`` per node; ``id type tag tag count nodes`` per element."""
    node_words = _section(data, "NOD", name).split()
    _promised(name, int(node_words[0]), (len(node_words) - 1) // 4, "nodes")
    nodes = np.array(node_words[1 : 1 + 4 * int(node_words[0])], dtype=np.float64).reshape(-1, 4)
    rows = [line.split() for line in _section(data, "ELM", name).splitlines() if line.strip()]
    elements = [row for row in rows[1:] if len(row) > 4 and len(row) == 5 + int(row[4])]
    _promised(name, int(rows[0][0]), len(elements), "elements")
    order = np.argsort(nodes[:, 0], kind="stable")
    cells = []
    for gmsh_type, group in itertools.groupby(elements, key=lambda row: int(row[1])):
        ids = np.array([row[5:] for row in group], dtype=np.int64)
        at = order[np.searchsorted(nodes[order, 0], ids).clip(max=len(nodes) - 1)]
        vertex = np.where(nodes[at, 0] == ids, at, -1)  # a node that is not listed: TriMesh says so
        cells.append((_GMSH_TYPES.get(gmsh_type, f"Gmsh {gmsh_type}"), vertex))
    return from_cells(nodes[:, 1:], cells, name)


# writing -------------------------------------------------------------------------------------------------


def _encode(x: Floats, rows: Ints, kind: str) -> bytes:
    if kind == "ply":
        return _encode_ply(x, rows)
    if kind == "stl":
        return _encode_stl(x, rows)
    if kind == "obj":
        return _lines("v", x.tolist()) + _lines("f", (rows + 1).tolist())
    if kind == "off":
        return f"OFF\n{len(x)} {len(rows)} 0\n".encode() + _lines("", x.tolist()) + _lines("3", rows.tolist())
    if kind == "glb":
        trimesh = _package("trimesh", "writing", kind)
        return bytes(trimesh.Trimesh(_as_float32(x, kind), rows, process=False).export(file_type=kind))
    return _encode_meshio(x, rows, kind)


def _lines(start: str, rows: list[list[Any]]) -> bytes:
    """One line per row; ``repr`` is the shortest text that reads back as the same float64."""
    return "".join(f"{start} {' '.join(map(repr, row))}\n".lstrip() for row in rows).encode()


def _encode_ply(x: Floats, rows: Ints) -> bytes:
    header = f"""ply
format binary_little_endian 1.0
element vertex {len(x)}
property double x
property double y
property double z
element face {len(rows)}
property list uchar int vertex_indices
end_header
"""
    faces = np.zeros(len(rows), dtype=[("count", "u1"), ("ids", "<i4", 3)])
    faces["count"], faces["ids"] = 3, rows
    return header.encode() + x.astype("<f8").tobytes() + faces.tobytes()


def _encode_stl(x: Floats, rows: Ints) -> bytes:
    corners = _as_float32(x, "stl")[rows].reshape(-1, 3, 3)
    p, q, r = (corners[:, k].astype(np.float64) for k in range(3))
    normal = np.cross(q - p, r - p)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    records = np.zeros(len(rows), dtype=_STL_RECORD)
    records["corners"] = corners
    records["normal"] = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0.0)
    return b"impinge".ljust(80) + struct.pack("<I", len(rows)) + records.tobytes()


def _as_float32(x: Floats, kind: str) -> NDArray[np.float32]:
    if (np.abs(x) > np.finfo(np.float32).max).any():
        largest = float(np.abs(x).max())
        raise FileError(f"a coordinate of {largest:g} does not fit the float32 of .{kind} files; save as .ply")
    return x.astype(np.float32)


def _encode_meshio(x: Floats, rows: Ints, kind: str) -> bytes:
    meshio = _package("meshio", "writing", kind)
    writers = {"msh": meshio.gmsh, "vtk": meshio.vtk, "vtu": meshio.vtu, "mesh": meshio.medit}
    mesh = meshio.Mesh(x, [("tetra" if rows.shape[1] == 4 else "triangle", rows)])
    with tempfile.TemporaryDirectory() as folder, _muted():
        file = Path(folder) / f"mesh.{kind}"
        writers[kind].write(str(file), mesh)
        return file.read_bytes()
