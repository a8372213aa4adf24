"""Files to arrays and back: what a mesh file holds, unchanged, or one sentence that says why not.

Vertices and faces keep the order of the file, vertices are never merged or split, polygons become fans of
triangles around their first corner (a concave polygon is therefore not cut as a modeller would cut it).

ply                  ``ply``             NumPy alone: trimesh 4 was tried and cannot keep the promises above
obj, off             ``text_formats``    likewise
stl                  ``stl``             NumPy alone
glb, gltf            ``gltf``            trimesh
msh, vtk, vtu, mesh  ``meshio_formats``  meshio; Gmsh 1 in ``gmsh``

Guarantee  a file that is cut short, or whose header promises more than follows, is refused: either every
           element that the header counts is returned, or none. Two cuts cannot be told: one between the
           lines of an OBJ file, which has no counts, and one inside the very last number of a text file.
           What follows the counted elements is no part of the mesh and is passed over. A file is written
           whole or not at all.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError, ImpingeError
from impinge.io import gltf, meshio_formats, ply, stl, text_formats
from impinge.io.content import CUT_SHORT, FileContent, from_cells, from_meshio

__all__ = [
    "FileContent", "read_mesh", "read_bytes", "decode_mesh", "write_mesh", "mesh_kind", "from_cells", "from_meshio",
    "SURFACE_KINDS", "VOLUME_KINDS",
]  # fmt: skip

SURFACE_KINDS = ("ply", "obj", "stl", "off", "glb", "gltf")
"""Formats that hold polygons only."""
VOLUME_KINDS = ("msh", "vtk", "vtu", "mesh")
"""Formats that hold triangles or tetrahedra; meshio reads and writes them."""

_DECODERS = {"ply": ply.decode, "obj": text_formats.decode_obj, "off": text_formats.decode_off, "stl": stl.decode}
_ENCODERS = {
    "ply": ply.encode,
    "obj": text_formats.encode_obj,
    "off": text_formats.encode_off,
    "stl": stl.encode,
    "glb": gltf.encode,
}


def read_mesh(path: Path) -> FileContent:
    """Read a file whose ending names the format, each also with ``.gz``."""
    return decode_mesh(*read_bytes(path), path)


def read_bytes(path: Path) -> tuple[bytes, str]:
    """What the file holds, unpacked, and its format."""
    kind, packed = mesh_kind(path)
    return _bytes_of(path, kind, packed=packed), kind


def decode_mesh(data: bytes, kind: str, path: Path) -> FileContent:
    """Read the bytes of a file."""
    try:
        return _decode(data, kind, path)
    except ImpingeError:
        raise
    except Exception as error:  # whatever a library raises on bytes that are no mesh
        raise FileError(f"{path} cannot be read as a .{kind} mesh ({_reason(error)}); {CUT_SHORT}") from error


def write_mesh(path: Path, vertices: Any, elements: Any) -> None:
    """Write triangles or tetrahedra to a file whose ending names the format, each also with ``.gz``.

    Coordinates come back bit for bit from ply, obj, off, msh, vtk, vtu and mesh; stl and glb hold float32,
    so they are rounded there. The file appears whole or not at all.
    """
    kind, packed = mesh_kind(path)
    x = np.ascontiguousarray(vertices, dtype=np.float64).reshape(-1, 3)
    rows = np.ascontiguousarray(elements, dtype=np.int32)
    if not len(rows):
        raise FileError(
            f"{path}: the body has no triangles or tetrahedra to write, and a file without any would be "
            "refused when it is loaded; leave the file out"
        )
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


def mesh_kind(path: Path) -> tuple[str, bool]:
    """Tell the format from the ending: ("ply", True) for ``bunny.PLY.gz``; refuse an unknown one."""
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    kinds = SURFACE_KINDS + VOLUME_KINDS
    if ending[1:] not in kinds:
        found = f"has the ending '{ending}'" if ending else "has no ending"
        if path.is_dir():
            raise FileError(f"{path} is a folder, expected a file that ends in one of {_listed(kinds)}; name a file")
        raise FileError(f"{path} {found}, expected one of {_listed(kinds)}, each also with .gz")
    return ending[1:], name.endswith(".gz")


def _decode(data: bytes, kind: str, path: Path) -> FileContent:
    if kind in _DECODERS:
        return _DECODERS[kind](data, str(path))
    return gltf.decode(data, kind, path) if kind in SURFACE_KINDS else meshio_formats.decode(data, kind, path)


def _encode(x: Floats, rows: Ints, kind: str) -> bytes:
    return _ENCODERS[kind](x, rows) if kind in _ENCODERS else meshio_formats.encode(x, rows, kind)


def _bytes_of(path: Path, kind: str, *, packed: bool) -> bytes:
    """What the file holds, unpacked, and at least one byte."""
    try:
        is_file = path.is_file() or not path.exists()  # what does not exist says so itself; a pipe would not end
        data = path.read_bytes() if is_file else b""
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist, expected a .{kind} file; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise FileError(f"{path} cannot be opened ({_reason(error)}); check the path and its permissions") from error
    if not is_file:
        raise FileError(f"{path} is a folder, device or pipe, expected a .{kind} file; name a file")
    try:
        data = gzip.decompress(data) if packed else data
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path} cannot be unpacked as gzip ({_reason(error)}); {CUT_SHORT}") from error
    if not data:
        raise FileError(f"{path} is empty, expected a .{kind} mesh; write it again")
    return data


def _replace(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename, so that a failure leaves the old file, or none."""
    path = Path(os.path.realpath(path))  # write through a link, do not replace it
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"{path} is write-protected; choose another name or change its permissions")
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({_reason(error)}); choose a folder that exists and may be written to"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _reason(error: Exception) -> str:
    """Type and text of an error on one line."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return f"{type(error).__name__}: {text}"[:200]


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(f".{kind}" for kind in kinds)
