"""OBJ and OFF: lines of numbers, one vertex or polygon each.

OBJ  ``v x y z`` and ``f i j k ...``; ids start at 1, negative ids count back from the line, and of ``i/j/k`` only the
     first is a vertex. All other lines are ignored. There are no counts.
OFF  the word OFF, the counts, a line per vertex, then a line per polygon that starts with its number of corners;
     trailing colours and normals are ignored.

trimesh 4 was tried: it groups OBJ faces by material, splits vertices at texture seams, and silently returns fewer
faces of a truncated OFF file.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, check_count, content_of, fan, refuse_kind


def decode_obj(data: bytes, path: Path) -> FileContent:
    """Read ``v`` and ``f`` lines: positions, and the first id of each corner."""
    vertices: list[list[bytes]] = []
    polygons: list[list[bytes]] = []
    seen: list[int] = []  # vertices before each face, for negative ids
    line_count = 0
    for line in re.sub(rb"\\\r?\n", b" ", data).splitlines():
        match line.partition(b"#")[0].split():
            case [b"v", *numbers]:
                vertices.append(numbers[:3])
            case [b"f", *corners]:
                polygons.append(corners)
                seen.append(len(vertices))
            case [b"l", *_]:
                line_count += 1
    if not vertices and not polygons:
        refuse_kind("obj", path, "lines that begin with v or f")
    for rows, what in ((vertices, "coordinates at vertex"), (polygons, "corners at face")):
        for i, row in enumerate(rows):
            if len(row) < 3:
                raise FileError(f"{path} has {len(row)} {what} {i}, expected 3 or more; {CUT_SHORT}")
    counts = [len(polygon) for polygon in polygons]
    ids = np.array([corner.partition(b"/")[0] for polygon in polygons for corner in polygon], dtype=np.int64)
    if not ids.all():  # an error even if invalid faces may be dropped: all ids of the file are then off by one
        face = int(np.repeat(np.arange(len(counts)), counts)[np.argmin(ids != 0)])
        raise FileError(f"face {face + 1} of {path} refers to vertex 0; OBJ counts from 1, add 1 to every id")
    ids = np.where(ids < 0, ids + np.repeat(np.array(seen, dtype=np.int64), counts), ids - 1)
    x = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    return content_of(x, fan(counts, ids), path, {"lines": line_count})


def decode_off(data: bytes, path: Path) -> FileContent:
    """Read as many vertices and polygons as the first line declares."""
    match = re.match(rb"\s*(?:ST)?C?N?OFF\b", re.sub(rb"#[^\r\n]*", b"", data))
    if not match:
        refuse_kind("off", path, "the word OFF in the first line (also with ST, C or N before it)")
    lines = [line for line in (line.split() for line in match.string[match.end() :].splitlines()) if line]
    vertex_count, face_count = (int(count) for count in lines[0][:2]) if lines else (0, 0)
    if min(vertex_count, face_count) < 0:
        raise FileError(f"{path} declares {vertex_count} vertices and {face_count} faces; {CUT_SHORT}")
    vertices = [line[:3] for line in lines[1 : 1 + vertex_count]]
    check_count(path, vertex_count, sum(len(row) == 3 for row in vertices), "vertices")
    rows = lines[1 + vertex_count : 1 + vertex_count + face_count]
    counts = [int(row[0]) for row in rows]
    polygons = [row[1 : 1 + count] for row, count in zip(rows, counts)]
    check_count(path, face_count, sum(len(polygon) == count for polygon, count in zip(polygons, counts)), "faces")
    ids = np.array(list(itertools.chain.from_iterable(polygons)), dtype=np.int64)
    x = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    return content_of(x, fan(counts, ids), path, {"lines": counts.count(2)})


def encode_obj(x: Floats, faces: Ints) -> bytes:
    """Write a ``v`` line per vertex and an ``f`` line per triangle."""
    return _lines("v ", x.tolist()) + _lines("f ", (faces + 1).tolist())


def encode_off(x: Floats, faces: Ints) -> bytes:
    """Write the counts and a line per vertex and triangle."""
    return f"OFF\n{len(x)} {len(faces)} 0\n".encode() + _lines("", x.tolist()) + _lines("3 ", faces.tolist())


def _lines(start: str, rows: list[list[Any]]) -> bytes:
    """One line per row; ``repr`` is the shortest text that reads back as the same float64."""
    return "".join(f"{start}{' '.join(map(repr, row))}\n" for row in rows).encode()
