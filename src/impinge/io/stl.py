"""STL: triangles without vertex ids, each with its own three vertices; binary (float32) or text.

Binary files have 80 arbitrary bytes, a count, and 50 bytes per triangle. A file with at least as many bytes as its
count requires is binary, even if it begins with the word ``solid``; any other that begins so is text (letters read as a
count require gigabytes). Bytes after the triangles are ignored. Text is read as float64, all solids in order; normals
are ignored, since the order of corners defines them.
"""

from __future__ import annotations

import array
import re
import struct
from pathlib import Path

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, as_float32, check_count, content_of, refuse_kind

_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def decode(data: bytes, path: Path) -> FileContent:
    """Read the triangles of a file."""
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else 0
    size = 84 + count * _RECORD.itemsize
    if len(data) >= size:
        x: Floats = np.frombuffer(data, _RECORD, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        text = data.lower()
        corners = array.array("d")
        for corner in re.finditer(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)\s", text):
            corners.extend(map(float, corner.groups()))
        facet_count, end_count = (
            sum(1 for _ in re.finditer(pattern, text)) for pattern in (rb"\bfacet\s+normal\b", rb"\bendfacet\b")
        )
        check_count(path, facet_count, end_count, "facets")
        if len(corners) != 9 * facet_count:
            found = len(corners) // 3
            raise FileError(f"{path} has {found} corners in {facet_count} facets, expected 3 each; {CUT_SHORT}")
        if not re.search(rb"\bendsolid\b", text):
            raise FileError(f"{path} has no endsolid; {CUT_SHORT}")
        x = np.array(corners).reshape(-1, 3)
    elif len(data) >= 84:
        raise FileError(f"{path} declares {count} triangles in {size} bytes, but has {len(data)}; {CUT_SHORT}")
    else:
        refuse_kind("stl", path, "the word solid, or 84 bytes of header")
    return content_of(x, np.arange(len(x)).reshape(-1, 3), path, indexed=False)


def encode(x: Floats, faces: Ints) -> bytes:
    """Write binary STL with unit normals of the rounded triangles, zero if degenerate."""
    corners = as_float32(x, "stl")[faces].reshape(-1, 3, 3)
    p, q, r = (corners[:, k].astype(np.float64) for k in range(3))
    normal = np.cross(q - p, r - p)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    records = np.zeros(len(faces), dtype=_RECORD)
    records["corners"] = corners
    records["normal"] = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0.0)
    return b"impinge".ljust(80) + struct.pack("<I", len(faces)) + records.tobytes()
