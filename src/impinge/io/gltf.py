"""glTF 2 scenes: all triangles, transformed by their nodes and concatenated.

glb is one file, a JSON tree and a binary chunk; gltf is the tree alone and names buffer files.

1. Tree.      JSON; every index and size in it is checked before use.
2. Nodes.     The nodes of the default scene, or all roots; a node has one parent, hence the walk ends.
3. Accessors. Views of buffers with an offset and a stride; integers are converted, normalised if declared.
4. Triangles. Lists, strips and fans; primitives of a mesh that share positions share vertices. The triangles of a
              mirrored mesh are flipped: its orientation is kept. Ids beyond the positions become -1.

Buffers are the binary chunk, base64 data URIs, or regular files below the folder of the mesh, links resolved; of each
at most ``byteLength`` bytes are read. A scene that repeats a mesh, or buffers that repeat a file, are limited like a
packed file (``packed``).
Compressed and sparse accessors are refused. Skins and morph targets are ignored.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, as_float32, content_of, refuse_kind
from impinge.io.packed import check_unpacked

MOST_OBJECTS = 1_000_000
"""Objects and lists of a tree: they need a hundred times the memory of their text."""
_PRIMITIVE_BYTES, _POINT_BYTES, _ID_BYTES = 64, 24, 8
_COMPONENTS = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC3": 3}
_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_TRANSFORMS = {"matrix", "translation", "rotation", "scale"}
_JSON, _BINARY = 0x4E4F534A, 0x004E4942
_UNSUPPORTED = (
    "compressed, sparse or normalised positions or ids, which are not supported; export it without compression"
)


def decode(data: bytes, path: Path, *, kind: str) -> FileContent:
    """Read the scene of a glb or gltf file."""
    chunk = None
    tree_bytes = data
    if kind == "glb":
        tree_bytes, chunk = _chunks(data, path)
    if tree_bytes.count(b"{") + tree_bytes.count(b"[") > MOST_OBJECTS:
        raise FileError(f"{path} has a tree of more than {MOST_OBJECTS:,} objects and lists; split the scene")
    tree = json.loads(tree_bytes)
    if not isinstance(tree, dict) or not str(tree.get("asset", {}).get("version", "")).startswith("2."):
        refuse_kind(kind, path, "a tree with an asset of version 2")
    file = _File(tree, path, chunk)
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = [np.zeros((0, 3), dtype=np.int64)]
    vertex_count = size = 0
    for matrix, mesh in file.instances():
        is_mirrored = bool(np.linalg.det(matrix[:3, :3]) < 0.0)
        first_of: dict[int, int] = {}
        for primitive in mesh["primitives"]:
            position = primitive["attributes"]["POSITION"]
            size += _PRIMITIVE_BYTES + (file.count(position) * _POINT_BYTES if position not in first_of else 0)
            size += file.count(primitive.get("indices", position)) * _ID_BYTES
            check_unpacked(size, file.size, path)
            if position not in first_of:
                x = file.array(position, "VEC3").astype(np.float64)
                if not np.array_equal(matrix, np.eye(4)):  # the identity would turn infinity into NaN
                    x = x @ matrix[:3, :3].T + matrix[:3, 3]
                first_of[position] = vertex_count
                vertices.append(x)
                vertex_count += len(x)
            rows = file.triangles(primitive)
            rows = np.where(rows < file.count(position), rows + first_of[position], NONE)
            faces.append(rows[:, ::-1] if is_mirrored else rows)
    return content_of(np.concatenate(vertices), np.concatenate(faces), path)


def _chunks(data: bytes, path: Path) -> tuple[bytes, bytes | None]:
    """The tree of a glb file, and its binary chunk if there is one."""
    if data[:4] != b"glTF":
        refuse_kind("glb", path, "the word glTF in the first four bytes")
    size = struct.unpack_from("<I", data, 8)[0]
    if size > len(data):
        raise FileError(f"{path} declares {size} bytes, but has {len(data)}; {CUT_SHORT}")
    found: dict[int, bytes] = {}
    at = 12
    while at + 8 <= size and len(found) < 2:
        chunk_size, what = struct.unpack_from("<2I", data, at)
        if at + 8 + chunk_size > size:
            raise FileError(f"{path} declares a chunk of {chunk_size} bytes, but has {size - at - 8}; {CUT_SHORT}")
        found[what] = data[at + 8 : at + 8 + chunk_size]
        at += 8 + chunk_size
    return found[_JSON], found.get(_BINARY)


def _whole(value: Any, what: str) -> int:
    """A number that is at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{what} is {str(value)[:40]!r}, expected a whole number from 0")
    return value


class _File:
    """The tree with its buffers, which are read when they are needed and kept."""

    def __init__(self, tree: dict[str, Any], path: Path, chunk: bytes | None) -> None:
        self._tree, self._path, self._chunk = tree, path, chunk
        self._buffers: dict[int, bytes] = {}
        self._files: dict[Path, bytes] = {}
        self.size = path.stat().st_size
        """Bytes of the file and of the buffer files read so far, each counted once."""
        self._buffered = 0

    def _item(self, what: str, i: Any) -> dict[str, Any]:
        held = self._tree.get(what, [])
        if not isinstance(held, list) or _whole(i, f"an index of {what}") >= len(held) or type(held[i]) is not dict:
            raise ValueError(f"there is no item {i} of {what}")
        found: dict[str, Any] = held[i]
        return found

    def instances(self) -> Iterator[tuple[Floats, dict[str, Any]]]:
        """Every mesh of the scene with its 4x4 transform, in the order of the nodes, depth first."""
        nodes = self._tree.get("nodes", [])
        if self._tree.get("scenes"):
            roots = self._item("scenes", self._tree.get("scene", 0)).get("nodes", [])
        else:
            children = {child for node in nodes for child in node.get("children", [])}
            roots = [i for i in range(len(nodes)) if i not in children]
        waiting = [(i, np.eye(4)) for i in reversed(roots)]
        seen: set[int] = set()
        while waiting:
            i, parent = waiting.pop()
            node = self._item("nodes", i)
            if i in seen:
                raise FileError(f"{self._path} has a node {i} with two parents, expected a tree; export it again")
            seen.add(i)
            matrix = parent @ _matrix(node) if node.keys() & _TRANSFORMS else parent
            if "mesh" in node:
                yield matrix, self._item("meshes", node["mesh"])
            waiting.extend((child, matrix) for child in reversed(node.get("children", [])))

    def count(self, accessor: Any) -> int:
        """Declared number of elements of an accessor."""
        return _whole(self._item("accessors", accessor).get("count"), "count")

    def triangles(self, primitive: dict[str, Any]) -> NDArray[np.int64]:
        """Vertex ids of the triangles of a primitive, counted from its first position; none for points and lines."""
        mode = primitive.get("mode", _TRIANGLES)
        if mode not in (_TRIANGLES, _STRIP, _FAN):
            return np.zeros((0, 3), dtype=np.int64)
        if "indices" in primitive:
            ids = self.array(primitive["indices"], "SCALAR").reshape(-1).astype(np.int64)
        else:
            ids = np.arange(self.count(primitive["attributes"]["POSITION"]))
        if mode == _TRIANGLES:
            if len(ids) % 3:
                raise FileError(f"{self._path} has {len(ids)} corners of triangles, expected 3 each; {CUT_SHORT}")
            return ids.reshape(-1, 3)
        k = np.arange(max(len(ids) - 2, 0))
        if mode == _FAN:
            return np.stack([np.full(len(k), ids[0]) if len(k) else k, ids[k + 1], ids[k + 2]], axis=1)
        return np.stack([ids[k], ids[k + 1 + k % 2], ids[k + 2 - k % 2]], axis=1)

    def array(self, accessor: Any, kind: str) -> NDArray[Any]:
        """The elements of an accessor, one per row."""
        item = self._item("accessors", accessor)
        if "bufferView" not in item or "sparse" in item:
            raise FileError(f"{self._path} has {_UNSUPPORTED}")
        view = self._item("bufferViews", item["bufferView"])
        dtype = np.dtype(_COMPONENTS[item["componentType"]])
        if view.get("extensions") or (item.get("normalized") and (dtype.kind == "f" or kind == "SCALAR")):
            raise FileError(f"{self._path} has {_UNSUPPORTED}")
        if item.get("type") != kind or (kind == "SCALAR" and dtype.kind != "u"):
            raise ValueError(f"accessor {accessor} is {str(item.get('type'))[:40]!r} of {dtype}, expected {kind}")
        buffer = self._buffer(view.get("buffer"))
        start, length = (_whole(view.get(key, 0), key) for key in ("byteOffset", "byteLength"))
        at, count = _whole(item.get("byteOffset", 0), "byteOffset"), self.count(accessor)
        width = _WIDTHS[kind]
        stride = _whole(view.get("byteStride", width * dtype.itemsize), "byteStride")
        needed = at + (count - 1) * stride + width * dtype.itemsize if count else 0
        if stride < width * dtype.itemsize or needed > length or start + length > len(buffer):
            raise FileError(
                f"{self._path} declares {count} elements of {stride} bytes in a view of {length} bytes from {start}, "
                f"but its buffer has {len(buffer)}; {CUT_SHORT}"
            )
        rows = np.ndarray((count, width), dtype, buffer, start + at, (stride, dtype.itemsize))
        if item.get("normalized"):
            return np.maximum(rows / np.iinfo(dtype).max, -1.0)
        return rows

    def _buffer(self, i: Any) -> bytes:
        """The bytes of a buffer."""
        item = self._item("buffers", i)
        if i not in self._buffers:
            length, uri = _whole(item.get("byteLength"), "byteLength"), item.get("uri")
            if uri is None and i == 0 and self._chunk is not None:
                found = self._chunk
            elif not isinstance(uri, str):
                raise ValueError(f"buffer {i} has no uri")
            elif uri.startswith("data:"):
                head, _, text = uri.partition(",")
                if not head.endswith(";base64"):
                    raise ValueError(f"buffer {i} is a data URI without base64")
                found = base64.b64decode(text)
            else:
                found = self._read(uri, length)
            if len(found) < length:
                raise FileError(f"{self._path}: buffer {i} declares {length} bytes, but has {len(found)}; {CUT_SHORT}")
            self._buffers[i] = found[:length] if len(found) > length else found
        return self._buffers[i]

    def _read(self, uri: str, length: int) -> bytes:
        """The first ``length`` bytes of a buffer file."""
        folder = self._path.parent.resolve()
        name = unquote(uri)
        target = (folder / name).resolve()
        is_outside = Path(name).is_absolute() or ".." in Path(name).parts or not target.is_relative_to(folder)
        if is_outside or not target.is_file():
            raise FileError(
                f"{self._path} names the buffer {name[:200]!r}, expected a regular file below its folder; "
                "copy the buffer there, or export a .glb"
            )
        size = target.stat().st_size
        if size < length:
            raise FileError(f"{self._path}: {name[:200]} declares {length} bytes, but has {size}; {CUT_SHORT}")
        held = len(self._files.get(target, b""))
        self.size += max(length - held, 0)
        self._buffered += length
        check_unpacked(self._buffered, self.size, self._path)
        if target not in self._files or held < length:
            with target.open("rb") as file:
                self._files[target] = file.read(length)
        return self._files[target]


def _matrix(node: dict[str, Any]) -> Floats:
    """The transform of a node: a matrix by columns, or translation, rotation (a quaternion) and scale."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    x, y, z, w = (float(value) for value in node.get("rotation", (0.0, 0.0, 0.0, 1.0)))
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= np.array(node.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64).reshape(3)
    matrix[:3, 3] = node.get("translation", (0.0, 0.0, 0.0))
    return matrix


def encode(x: Floats, faces: Ints) -> bytes:
    """Write one mesh as glb: float32 positions and uint32 ids."""
    points = as_float32(x, "glb")
    parts = [faces.astype("<u4").tobytes(), points.astype("<f4").tobytes()]
    low, high = (extreme(points, axis=0).tolist() for extreme in (np.min, np.max))
    tree = {
        "asset": {"version": "2.0", "generator": "impinge"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 1}, "indices": 0}]}],
        "buffers": [{"byteLength": sum(map(len, parts))}],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": len(parts[0]), "target": 34963},
            {"buffer": 0, "byteOffset": len(parts[0]), "byteLength": len(parts[1]), "target": 34962},
        ],
        "accessors": [
            {"bufferView": 0, "componentType": 5125, "type": "SCALAR", "count": faces.size},
            {"bufferView": 1, "componentType": 5126, "type": "VEC3", "count": len(x), "min": low, "max": high},
        ],
    }
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    body = b"".join(parts)
    chunks = struct.pack("<2I", len(text), _JSON) + text + struct.pack("<2I", len(body), _BINARY) + body
    return b"glTF" + struct.pack("<2I", 2, 12 + len(chunks)) + chunks
