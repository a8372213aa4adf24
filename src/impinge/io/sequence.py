"""Frames on disk with one topology, read ahead by a background thread.

A sequence is a glob pattern, a folder of mesh files of one format, or an npz archive with ``V`` (frames, vertices, 3)
and ``F`` (elements, 3 or 4). File names are sorted in natural order: frame2 before frame10.
"""

from __future__ import annotations

import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints, as_indices, as_path, as_whole
from impinge.errors import FileError, MeshError
from impinge.io import ply
from impinge.io.files import SURFACE_KINDS, VOLUME_KINDS, decode_mesh, mesh_kind, read_bytes, read_mesh
from impinge.io.npz import read_npz

FRAMES_AHEAD = 3
"""Frames read ahead: enough to hide a slow read, little memory."""


class Sequence:
    """Frames of one deforming body.

    Iteration yields ``(name, vertices)`` and reads ahead in a background thread, which ends with the loop. The
    constructor reads the first file only; every other file is compared with it when it is read. An npz archive is read
    as a whole.

    Parameters
    ----------
    source
        A glob pattern, a folder, a mesh file or an npz archive.

    Examples
    --------
    ::

        for name, vertices in impinge.Sequence("frames/*.ply"):
            body.update(vertices)
    """

    names: list[str]
    """File name of each frame, or the archive's name with the frame number."""
    elements: Ints
    """Vertex ids of all frames, shape (m, 3) or (m, 4)."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = as_path(source, "source", "a path or a pattern of paths")
        if path.suffix.lower() == ".npz":
            positions, self.elements = read_archive(path)
            self.names = [f"{path.name}[{i}]" for i in range(len(positions))]
            self._read: Callable[[int], Floats] = lambda i: np.array(positions[i], dtype=np.float64)
            return
        files = frame_files(path, str(source))
        first = read_mesh(files[0])
        self.names = [file.name for file in files]
        self.elements = first.elements
        reader = FrameReader(first.elements, len(first.vertices), f"the first frame {files[0].name}")
        self._read = lambda i: reader.read(files[i])

    def __len__(self) -> int:
        return len(self.names)

    def frame(self, i: int) -> Floats:
        """Positions of frame ``i``, shape (n, 3), a new array; negative numbers count from the end."""
        as_whole(i, "i", least=-len(self), most=len(self) - 1)
        return self._read(i % len(self))

    def __iter__(self) -> Iterator[tuple[str, Floats]]:
        """Yield name and positions of each frame; a read error is raised at its frame."""
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="impinge-frames")
        ahead: deque[Future[Floats]] = deque()
        try:
            for i, name in enumerate(self.names):
                while len(ahead) <= FRAMES_AHEAD and i + len(ahead) < len(self):
                    ahead.append(pool.submit(self._read, i + len(ahead)))
                yield name, ahead.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def natural_order(path: Path) -> tuple[list[Any], str]:
    """Sort key that compares runs of digits by value; text and numbers alternate and are never compared."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", str(path))], str(path)


def frame_files(path: Path, source: str) -> list[Path]:
    """Mesh files of a folder, pattern or path, in natural order, all of one format."""
    try:
        if path.is_dir():
            files = [file for file in path.iterdir() if file.is_file() and is_mesh_file(file)]
        elif path.exists():
            files = [path]
        else:
            found = glob.glob(source, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
            files = [Path(file) for file in found if not os.path.isdir(file)]  # noqa: PTH112 - a Path each is slower
    except (OSError, ValueError) as error:
        raise FileError(f"{source} cannot be listed ({error}); check the path and its permissions") from error
    if not files:
        kinds = ", ".join(SURFACE_KINDS + VOLUME_KINDS)
        raise FileError(f"{source} names no mesh files, expected a folder or a pattern like 'frames/*.ply' ({kinds})")
    endings = sorted({mesh_kind(file)[0] for file in files})
    if len(endings) > 1:
        raise FileError(
            f"{source} names files of several formats ({', '.join(endings)}), expected one; "
            f"use a pattern that ends in *.{endings[0]}"
        )
    return sorted(files, key=natural_order)


def is_mesh_file(file: Path) -> bool:
    """Whether a file is not hidden and has the ending of a mesh format."""
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    return not file.name.startswith(".") and ending[1:] in SURFACE_KINDS + VOLUME_KINDS


class FrameReader:
    """Reads positions from files that share the topology of one body.

    The bytes of a ply file apart from its positions are compared with those of the previous file; equal files are not
    decoded.
    """

    def __init__(self, elements: Ints, vertex_count: int, like: str) -> None:
        self._elements, self._vertex_count, self._like = elements, vertex_count, like
        self._previous: ply.Frame | None = None

    def read(self, file: Path) -> Floats:
        """Positions of a file, a new array.

        Raises
        ------
        MeshError
            If the file has other vertices or elements than the body.
        """
        data, kind = read_bytes(file)
        previous = self._previous  # other threads may read at the same time
        x = previous.positions_in(data) if previous is not None and kind == "ply" else None
        if x is not None:
            return x
        content = decode_mesh(data, kind, file)
        found, expected = content.elements, self._elements
        remedy = "all frames of a sequence have the same topology, remove this one"
        for what, count, wanted in (
            ("vertices", len(content.vertices), self._vertex_count),
            ("elements", len(found), len(expected)),
        ):
            if count != wanted:
                raise MeshError(f"{file} has {count} {what}, but {self._like} has {wanted}; {remedy}")
        if not np.array_equal(found, expected):
            row = int(np.argmax((found != expected).any(axis=1))) if found.shape == expected.shape else 0
            raise MeshError(
                f"{file} has other elements than {self._like} (row {row} is "
                f"{found[row].tolist()}, expected {expected[row].tolist()}); {remedy}"
            )
        self._previous = ply.frame_of(data, file) if kind == "ply" else None
        return content.vertices


def read_archive(path: Path) -> tuple[Any, Ints]:
    """Positions of all frames, shape (frames, vertices, 3), and the elements."""
    try:
        arrays = read_npz(path)
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist, expected an npz archive of frames; check the path") from error
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as an npz archive ({error}); copy or write it again") from error
    if not {"V", "F"} <= arrays.keys():
        held = ", ".join(sorted(arrays))[:200]
        raise FileError(f"{path} holds {held or 'nothing'}, expected V (frames, vertices, 3) and F")
    x, elements = arrays["V"], arrays["F"]
    if x.ndim != 3 or x.shape[2] != 3 or x.dtype.kind not in "fiu" or not x.size:
        raise FileError(
            f"{path}: V has shape {x.shape} and type {x.dtype}, "
            "expected one or more frames (frames, vertices, 3) of real numbers"
        )
    if elements.ndim != 2 or elements.shape[1] not in (3, 4) or elements.dtype.kind not in "iu":
        raise FileError(
            f"{path}: F has shape {elements.shape} and type {elements.dtype}, "
            "expected vertex ids of shape (triangles, 3) or (tets, 4)"
        )
    try:
        return x, as_indices(elements, name="F", columns=elements.shape[1])
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
