"""Mesh files to arrays and back, unchanged.

Vertices and faces keep the order of the file. Vertices are never merged or split. Polygons become triangle fans around
their first corner; concave polygons are therefore not triangulated properly.

ply        ``ply``           stl   ``stl``      vtk   ``vtk``
obj, off   ``text_formats``  msh   ``gmsh``     vtu   ``vtu``
glb, gltf  ``gltf``          mesh  ``medit``

trimesh 4 and meshio 5 were tried: trimesh breaks the guarantees, and both read buffers of gltf or allocate memory as a
file demands.

Guarantee  A truncated file, or one with fewer elements than its header declares, is refused: either all declared
           elements are returned or none. Two truncations cannot be detected: between the lines of an OBJ file, which
           has no counts, and inside the last number of a text file. Data after the declared elements is ignored. Files
           are written atomically.
Security   Files may come from strangers. A count, tag or size in a file is compared with what the file can hold before
           memory is allocated; time and memory are linear in the size of the unpacked file, which is limited
           (``packed``). Only regular files are opened, of gltf buffers only those below the folder of the mesh.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError, ImpingeError
from impinge.io import gltf, gmsh, medit, ply, stl, text_formats, vtk, vtu
from impinge.io.atomic import write_whole
from impinge.io.content import CUT_SHORT, FileContent
from impinge.io.packed import gunzip

SURFACE_KINDS = ("ply", "obj", "stl", "off", "glb", "gltf")
"""Formats of polygons only."""
VOLUME_KINDS = ("msh", "vtk", "vtu", "mesh")
"""Formats of triangles or tetrahedra."""

_DECODERS: dict[str, Callable[[bytes, Path], FileContent]] = {
    "ply": ply.decode, "obj": text_formats.decode_obj, "off": text_formats.decode_off, "stl": stl.decode,
    **{kind: partial(gltf.decode, kind=kind) for kind in ("glb", "gltf")},
    "msh": gmsh.decode, "vtk": vtk.decode, "vtu": vtu.decode, "mesh": medit.decode,
}  # fmt: skip
_ENCODERS: dict[str, Callable[[Floats, Ints], bytes]] = {
    "ply": ply.encode, "obj": text_formats.encode_obj, "off": text_formats.encode_off, "stl": stl.encode,
    "glb": gltf.encode, "msh": gmsh.encode, "vtk": vtk.encode, "vtu": vtu.encode, "mesh": medit.encode,
}  # fmt: skip


def read_mesh(path: Path) -> FileContent:
    """Read a mesh file; its ending names the format, optionally followed by ``.gz``."""
    return decode_mesh(*read_bytes(path), path)


def read_bytes(path: Path) -> tuple[bytes, str]:
    """The uncompressed bytes of a file, at least one, and its format."""
    kind, packed = mesh_kind(path)
    try:
        is_file = path.is_file() or not path.exists()  # read_bytes raises for a missing file; a pipe would block
        data = path.read_bytes() if is_file else b""
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist, expected a .{kind} file; check the path") from error
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a path with a null byte
        raise FileError(f"{path} cannot be opened ({_reason(error)}); check the path and its permissions") from error
    if not is_file:
        raise FileError(f"{path} is a folder, device or pipe, expected a .{kind} file; name a file")
    try:
        data = gunzip(data, path) if packed else data
    except ImpingeError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path} cannot be unpacked as gzip ({_reason(error)}); {CUT_SHORT}") from error
    if not data:
        raise FileError(f"{path} is empty, expected a .{kind} mesh; write it again")
    return data, kind


def decode_mesh(data: bytes, kind: str, path: Path) -> FileContent:
    """Decode the bytes of a mesh file."""
    try:
        return _DECODERS[kind](data, path)
    except ImpingeError:
        raise
    except Exception as error:  # parsers raise anything on invalid bytes
        raise FileError(f"{path} cannot be read as a .{kind} mesh ({_reason(error)}); {CUT_SHORT}") from error


def write_mesh(path: Path, vertices: Any, elements: Any) -> None:
    """Write triangles or tetrahedra; the ending names the format, optionally followed by ``.gz``.

    ply, obj, off, msh, vtk, vtu and mesh keep every bit of the coordinates; stl and glb round them to float32.
    """
    kind, packed = mesh_kind(path)
    x = np.ascontiguousarray(vertices, dtype=np.float64).reshape(-1, 3)
    rows = np.ascontiguousarray(elements, dtype=np.int32)
    if not len(rows):
        raise FileError(
            f"{path}: the body has no triangles or tetrahedra, and such a file could not be loaded; skip it"
        )
    if kind == "gltf":
        raise FileError(f"{path}: .gltf files are several files and are read but not written; save as .glb")
    if rows.shape[1] == 4 and kind in SURFACE_KINDS:
        raise FileError(
            f"{path}: .{kind} files hold surfaces, not tetrahedra; save(body.surface, ...) writes "
            f"the boundary, and {_listed(VOLUME_KINDS)} files hold tetrahedra"
        )
    try:
        data = _ENCODERS[kind](x, rows)
    except ImpingeError:
        raise
    except Exception as error:  # libraries raise anything on arrays that they cannot write
        raise FileError(f"{path} cannot be written as .{kind} ({_reason(error)}); try another format") from error
    try:
        write_whole(path, lambda file: file.write(gzip.compress(data, mtime=0) if packed else data))
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({_reason(error)}); choose a folder that exists and may be written to"
        ) from error


def mesh_kind(path: Path) -> tuple[str, bool]:
    """Format and compression by the ending: ("ply", True) for ``bunny.PLY.gz``."""
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    kinds = SURFACE_KINDS + VOLUME_KINDS
    if ending[1:] not in kinds:
        if path.is_dir():
            raise FileError(f"{path} is a folder, expected a file that ends in one of {_listed(kinds)}; name a file")
        found = f"has the ending '{ending}'" if ending else "has no ending"
        raise FileError(f"{path} {found}, expected one of {_listed(kinds)}, each also with .gz")
    return ending[1:], name.endswith(".gz")


def _reason(error: Exception) -> str:
    """Type and message of an error on one line."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return f"{type(error).__name__}: {text}"[:200]


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(f".{kind}" for kind in kinds)
