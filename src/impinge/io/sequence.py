"""Frames on disk, one topology: read ahead in the background while the caller works on the last one.

A sequence is a glob pattern, a folder of mesh files of one format, or an npz archive with ``V`` (frames,
vertices, 3) and ``F`` (elements, 3 or 4). File names are sorted as people count: frame2 before frame10.
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

from impinge.checks import Floats, Ints, as_indices
from impinge.errors import FileError, MeshError, OptionError
from impinge.io import ply
from impinge.io.files import (
    SURFACE_KINDS,
    VOLUME_KINDS,
    FileContent,
    decode_mesh,
    mesh_kind,
    read_bytes,
    read_mesh,
)

FRAMES_AHEAD = 3
"""Frames that are read before they are asked for: enough to hide a slow read, little memory."""


class Sequence:
    """Frames of one deforming body: ``len()``, ``names``, ``elements``, ``frame(i)``, and iteration.

    Iterating yields ``(name, vertices)`` and reads the next frames in a background thread, which ends with
    the loop, also if that is left early. Only the first file is read at once; every other one is compared
    with it when its turn comes. An npz archive is one compressed block and is read as a whole.
    """

    names: list[str]
    """One per frame: the file's name, or that of the archive with the frame's number."""
    elements: Ints
    """Vertex ids, the same in all frames, shape (m, 3) or (m, 4)."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = Path(source)
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
        """How many frames there are."""
        return len(self.names)

    def frame(self, i: int) -> Floats:
        """Positions in frame ``i``, shape (n, 3), a new array; negative numbers count from the end."""
        if not -len(self) <= i < len(self):
            raise OptionError(f"frame {i} was asked for, but the frames go from 0 to {len(self) - 1}")
        return self._read(i % len(self))

    def __iter__(self) -> Iterator[tuple[str, Floats]]:
        """Yield the name and the positions of each frame; an error surfaces at the frame that has it."""
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
    """Key that sorts runs of digits by their value; text and numbers alternate, so they never meet."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", str(path))], str(path)


def frame_files(path: Path, source: str) -> list[Path]:
    """Files that a folder, pattern or path names, in natural order, all of one format."""
    kinds = SURFACE_KINDS + VOLUME_KINDS
    try:
        if path.is_dir():
            files = [file for file in path.iterdir() if file.is_file() and is_mesh_file(file)]
        elif path.exists():
            files = [path]
        else:
            found = glob.glob(source, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
            files = [Path(file) for file in found if not os.path.isdir(file)]  # noqa: PTH112 - a path each takes longer
    except (OSError, ValueError) as error:
        raise FileError(f"{source} cannot be listed ({error}); check the path and its permissions") from error
    if not files:
        raise FileError(
            f"{source} names no mesh files, expected a folder or a pattern like 'frames/*.ply' ({', '.join(kinds)})"
        )
    endings = sorted({mesh_kind(file)[0] for file in files})
    if len(endings) > 1:
        raise FileError(
            f"{source} names files of several formats ({', '.join(endings)}), expected one; "
            f"use a pattern that ends in *.{endings[0]}"
        )
    return sorted(files, key=natural_order)


def is_mesh_file(file: Path) -> bool:
    """Whether a file that is not hidden ends as meshes do."""
    if file.name.startswith("."):
        return False
    try:
        mesh_kind(file)
    except FileError:
        return False
    return True


class FrameReader:
    """Positions in one file after the other, all with the topology of one body.

    What a ply file holds besides positions is compared as bytes with the file before, and looked at only if it differs.
    """

    def __init__(self, elements: Ints, vertex_count: int, like: str) -> None:
        self._elements, self._vertex_count, self._like = elements, vertex_count, like
        self._before: ply.Frame | None = None

    def read(self, file: Path) -> Floats:
        """Positions in a file, a new array; refuse other vertices or elements."""
        data, kind = read_bytes(file)
        before = self._before  # another thread may read, too
        x = before.positions_in(data) if before is not None and kind == "ply" else None
        if x is None:
            content = decode_mesh(data, kind, file)
            x = same_topology(content, file, self._elements, self._vertex_count, self._like)
            self._before = ply.frame_of(data) if kind == "ply" else None
        return x


def same_topology(content: FileContent, file: Path, elements: Ints, vertex_count: int, like: str) -> Floats:
    """Positions of a frame; refuse one whose vertices or elements are not those of ``like``, which has these."""
    for what, count, wanted in (
        ("vertices", len(content.vertices), vertex_count),
        ("elements", len(content.elements), len(elements)),
    ):
        if count != wanted:
            raise MeshError(
                f"{file} has {count} {what}, but {like} has {wanted}; "
                "all frames of a sequence have the same topology, leave this one out"
            )
    found = content.elements
    if not np.array_equal(found, elements):
        row = int(np.argmax((found != elements).any(axis=1))) if found.shape == elements.shape else 0
        raise MeshError(
            f"{file} has other elements than {like} (row {row} is "
            f"{found[row].tolist()}, expected {elements[row].tolist()}); "
            "all frames of a sequence have the same topology, leave this one out"
        )
    return content.vertices


def read_archive(path: Path) -> tuple[Any, Ints]:
    """Positions of all frames, shape (frames, vertices, 3), and the elements."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            held = sorted(archive.files)
            arrays = {name: archive[name] for name in ("V", "F") if name in held}
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist, expected an npz archive of frames; check the path") from error
    except Exception as error:  # zipfile, zlib, pickle and header errors of every kind
        raise FileError(f"{path} cannot be read as an npz archive ({error}); copy or write it again") from error
    if len(arrays) < 2:
        raise FileError(f"{path} holds {', '.join(held) or 'nothing'}, expected V (frames, vertices, 3) and F")
    positions, elements = arrays["V"], arrays["F"]
    if positions.ndim != 3 or positions.shape[2] != 3 or positions.dtype.kind not in "fiu" or not len(positions):
        raise FileError(
            f"{path}: V has shape {positions.shape} and type {positions.dtype}, "
            "expected one or more frames (frames, vertices, 3) of real numbers"
        )
    if elements.ndim != 2 or elements.shape[1] not in (3, 4) or elements.dtype.kind not in "iu":
        raise FileError(
            f"{path}: F has shape {elements.shape} and type {elements.dtype}, "
            "expected vertex ids of shape (triangles, 3) or (tets, 4)"
        )
    try:
        return positions, as_indices(elements, name="F", columns=elements.shape[1])
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
