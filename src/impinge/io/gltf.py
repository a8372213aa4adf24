"""glTF scenes through trimesh: all meshes, transformed by their nodes and concatenated.

glb is one file, a JSON tree and binary buffers; gltf is the tree alone and names buffer files beside it. The tree is
checked first, since trimesh silently drops triangle fans and misreads compressed, sparse or normalised accessors. The
triangles of a mirrored mesh are flipped: its orientation is kept. Positions are float32.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError, optional_module
from impinge.io.content import CUT_SHORT, FileContent, as_float32, content_of, refuse_kind

_TRIANGLE_FAN = 6


def decode(data: bytes, path: Path, *, kind: str) -> FileContent:
    """Read the scene of a glb or gltf file."""
    trimesh = optional_module("trimesh", f"reading .{kind} files needs trimesh; install impinge[io]")
    _check(data, kind, path)
    resolver = trimesh.resolvers.FilePathResolver(str(path))
    scene = trimesh.load(io.BytesIO(data), file_type=kind, resolver=resolver, process=False, skip_materials=True)
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = [np.zeros((0, 3), dtype=np.int64)]
    vertex_count = 0
    for node in scene.graph.nodes_geometry:
        matrix, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        x, is_mirrored = np.asarray(mesh.vertices, dtype=np.float64), False
        if not np.array_equal(matrix, np.eye(4)):  # the identity would turn infinity into NaN
            x = x @ matrix[:3, :3].T + matrix[:3, 3]
            is_mirrored = bool(np.linalg.det(matrix[:3, :3]) < 0.0)
        if hasattr(mesh, "faces"):  # points and lines have none
            rows = np.asarray(mesh.faces, dtype=np.int64)
            faces.append((rows[:, ::-1] if is_mirrored else rows) + vertex_count)
        vertices.append(x)
        vertex_count += len(x)
    return content_of(np.concatenate(vertices), np.concatenate(faces), path)


def encode(x: Floats, faces: Ints) -> bytes:
    """Write one mesh as glb."""
    trimesh = optional_module("trimesh", "writing .glb files needs trimesh; install impinge[io]")
    return bytes(trimesh.Trimesh(as_float32(x, "glb"), faces, process=False).export(file_type="glb"))


def _check(data: bytes, kind: str, path: Path) -> None:
    """Refuse truncated files, and what trimesh drops or misreads."""
    if kind == "glb":
        if data[:4] != b"glTF":
            refuse_kind("glb", path, "the word glTF in the first four bytes")
        _, _, size, json_size, _ = struct.unpack_from("<5I", data)
        if size > len(data):
            raise FileError(f"{path} declares {size} bytes, but has {len(data)}; {CUT_SHORT}")
        data = data[20 : 20 + json_size]
    tree = json.loads(data)
    accessors, views = tree.get("accessors", []), tree.get("bufferViews", [])
    for primitive in (p for mesh in tree.get("meshes", []) for p in mesh["primitives"]):
        if primitive.get("mode") == _TRIANGLE_FAN:
            raise FileError(f"{path} has a triangle fan, which is not supported; export it as plain triangles")
        used = [primitive["attributes"].get("POSITION"), primitive.get("indices")]
        for accessor in (accessors[i] for i in used if i is not None):
            plain = "bufferView" in accessor and "extensions" not in views[accessor["bufferView"]]
            if not plain or "sparse" in accessor or accessor.get("normalized"):
                raise FileError(
                    f"{path} has compressed, sparse or normalised positions or ids, which are not supported; "
                    "export it without compression"
                )
