"""OBJ and OFF: lines of numbers, one vertex or polygon each.

OBJ  ``v x y z`` and ``f i j k ...``; ids start at 1, negative ids count back from the line, and of ``i/j/k`` only the
     first is a vertex. All other lines are ignored. There are no counts.
OFF  the word OFF, the counts, a line per vertex, then a line per polygon that starts with its number of corners;
     trailing colours and normals are ignored.

trimesh 4 was tried: it groups OBJ faces by material, splits vertices at texture seams, and silently returns fewer
faces of a truncated OFF file.
"""

from __future__ import annotations

import array
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, check_count, content_of, fan, refuse_kind

_Longs = NDArray[np.int64]


def decode_obj(data: bytes, path: Path) -> FileContent:
    """Read ``v`` and ``f`` lines: positions, and the first id of each corner."""
    x, corners, counts, seen, line_count = _obj_arrays(data, path)
    if not len(x) and not len(counts):
        refuse_kind("obj", path, "lines that begin with v or f")
    if not corners.all():  # an error even if invalid faces may be dropped: all ids of the file are then off by one
        face = int(np.repeat(np.arange(len(counts)), counts)[np.argmin(corners != 0)])
        raise FileError(f"face {face + 1} of {path} refers to vertex 0; OBJ counts from 1, add 1 to every id")
    corners += np.where(corners < 0, np.repeat(seen, counts), -1)
    return content_of(x.reshape(-1, 3), fan(counts, corners), path, {"lines": line_count})


def _obj_arrays(data: bytes, path: Path) -> tuple[Floats, _Longs, _Longs, _Longs, int]:
    """Coordinates, ids of corners, corners of each face, vertices before it (for negative ids), number of lines."""
    x, ids = array.array("d"), array.array("q")
    counts, seen = array.array("q"), array.array("q")
    line_count = 0
    for line in _lines_of(re.sub(rb"\\\r?\n", b" ", data)):
        match line.partition(b"#")[0].split():
            case [b"v", *numbers]:
                if len(numbers) < 3:
                    what = f"coordinates at vertex {len(x) // 3}"
                    raise FileError(f"{path} has {len(numbers)} {what}, expected 3 or more; {CUT_SHORT}")
                x.extend(map(float, numbers[:3]))
            case [b"f", *corners]:
                if len(corners) < 3:
                    what = f"corners at face {len(counts)}"
                    raise FileError(f"{path} has {len(corners)} {what}, expected 3 or more; {CUT_SHORT}")
                ids.extend(int(corner.partition(b"/")[0]) for corner in corners)
                counts.append(len(corners))
                seen.append(len(x) // 3)
            case [b"l", *_]:
                line_count += 1
    longs = [np.array(each, dtype=np.int64) for each in (ids, counts, seen)]
    return np.array(x, dtype=np.float64), longs[0], longs[1], longs[2], line_count


def decode_off(data: bytes, path: Path) -> FileContent:
    """Read as many vertices and polygons as the first line declares."""
    text = re.sub(rb"#[^\r\n]*", b"", data)
    match = re.match(rb"\s*(?:ST)?C?N?OFF\b", text)
    if not match:
        refuse_kind("off", path, "the word OFF in the first line (also with ST, C or N before it)")
    lines = (words for words in map(bytes.split, _lines_of(text[match.end() :])) if words)
    vertex_count, face_count = (int(count) for count in next(lines, [b"0", b"0"])[:2])
    if min(vertex_count, face_count) < 0:
        raise FileError(f"{path} declares {vertex_count} vertices and {face_count} faces; {CUT_SHORT}")
    x, ids, counts = array.array("d"), array.array("q"), array.array("q")
    found = 0
    for words in itertools.islice(lines, vertex_count):
        if len(words) >= 3:
            x.extend(map(float, words[:3]))
            found += 1
    check_count(path, vertex_count, found, "vertices")
    for words in itertools.islice(lines, face_count):
        count = int(words[0])
        if len(words) > count >= 0:
            ids.extend(map(int, words[1 : 1 + count]))
            counts.append(count)
    check_count(path, face_count, len(counts), "faces")
    return content_of(np.array(x).reshape(-1, 3), fan(counts, ids), path, {"lines": counts.count(2)})


def _lines_of(data: bytes) -> Iterator[bytes]:
    """Lines one by one: a list of all would take many times the memory of the file."""
    return io.BytesIO(data.replace(b"\r", b"\n") if b"\r" in data else data)


def encode_obj(x: Floats, faces: Ints) -> bytes:
    """Write a ``v`` line per vertex and an ``f`` line per triangle."""
    return _lines("v ", x.tolist()) + _lines("f ", (faces + 1).tolist())


def encode_off(x: Floats, faces: Ints) -> bytes:
    """Write the counts and a line per vertex and triangle."""
    return f"OFF\n{len(x)} {len(faces)} 0\n".encode() + _lines("", x.tolist()) + _lines("3 ", faces.tolist())


def _lines(start: str, rows: list[list[Any]]) -> bytes:
    """One line per row; ``repr`` is the shortest text that reads back as the same float64."""
    return "".join(f"{start}{' '.join(map(repr, row))}\n" for row in rows).encode()
