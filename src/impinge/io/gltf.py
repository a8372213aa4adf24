"""glTF scenes through trimesh: all meshes, concatenated where their nodes put them.

glb is one file, a JSON tree and its numbers; gltf is the tree alone and names the files with the numbers, which
are looked for beside it. The tree is looked at before trimesh sees it, for trimesh drops triangle fans and reads
compressed, sparse or normalised numbers as others, without a word. A mirrored mesh has its triangles turned
around, so that its outside stays outside. Positions are float32.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError, MissingExtra
from impinge.io.content import CUT_SHORT, FileContent, as_float32, content_of, refuse_kind

_TRIANGLE_FAN = 6


def decode(data: bytes, kind: str, path: Path) -> FileContent:
    """Read the scene of a glb or gltf file."""
    trimesh = _trimesh("reading", kind)
    _check(_tree(data, kind, str(path)), str(path))
    resolver = trimesh.resolvers.FilePathResolver(str(path))
    scene = trimesh.load(io.BytesIO(data), file_type=kind, resolver=resolver, process=False, skip_materials=True)
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = [np.zeros((0, 3), dtype=np.int64)]
    vertex_count = 0
    for node in scene.graph.nodes_geometry:
        matrix, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        x, is_mirrored = _moved(np.asarray(mesh.vertices, dtype=np.float64), matrix)
        if hasattr(mesh, "faces"):  # points and lines have none
            rows = np.asarray(mesh.faces, dtype=np.int64)
            faces.append((rows[:, ::-1] if is_mirrored else rows) + vertex_count)
        vertices.append(x)
        vertex_count += len(x)
    return content_of(np.concatenate(vertices), np.concatenate(faces), str(path))


def encode(x: Floats, faces: Ints) -> bytes:
    """Write one mesh as glb."""
    trimesh = _trimesh("writing", "glb")
    return bytes(trimesh.Trimesh(as_float32(x, "glb"), faces, process=False).export(file_type="glb"))


def _trimesh(doing: str, kind: str) -> Any:
    try:
        import trimesh
    except ImportError as error:
        raise MissingExtra(f"{doing} .{kind} files needs trimesh; install impinge[io]") from error
    return trimesh


def _moved(x: Floats, matrix: Floats) -> tuple[Floats, bool]:
    """Positions after the transform of a node, and whether that mirrors."""
    if np.array_equal(matrix, np.eye(4)):
        return x, False  # also because 0 times infinity is not 0
    return x @ matrix[:3, :3].T + matrix[:3, 3], bool(np.linalg.det(matrix[:3, :3]) < 0.0)


def _tree(data: bytes, kind: str, name: str) -> Any:
    """The JSON part of the file."""
    if kind == "gltf":
        return json.loads(data)
    if data[:4] != b"glTF":
        refuse_kind("glb", name, "the word glTF in the first four bytes")
    _, _, size, json_size, _ = struct.unpack_from("<5I", data)
    if size > len(data):
        raise FileError(f"{name} promises {size} bytes, but has {len(data)}; {CUT_SHORT}")
    return json.loads(data[20 : 20 + json_size])


def _check(tree: Any, name: str) -> None:
    """Refuse what trimesh would pass over or take for zeros without a word."""
    accessors, views = tree.get("accessors", []), tree.get("bufferViews", [])
    for primitive in (p for mesh in tree.get("meshes", []) for p in mesh["primitives"]):
        if primitive.get("mode") == _TRIANGLE_FAN:
            raise FileError(f"{name} has a triangle fan, which is not read; export it as plain triangles")
        used = [primitive["attributes"].get("POSITION"), primitive.get("indices")]
        for accessor in (accessors[i] for i in used if i is not None):
            plain = "bufferView" in accessor and "extensions" not in views[accessor["bufferView"]]
            if not plain or "sparse" in accessor or accessor.get("normalized"):
                raise FileError(
                    f"{name} has compressed, sparse or normalised positions or ids, which are not read; "
                    "export it without compression"
                )
