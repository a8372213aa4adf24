"""Bodies and frames that are read where they are used, or sent where they cannot be.

A file is known by its path, size and time of change. A machine that has a file with all three reads it; any other says
so (``Unseen``), and then gets the positions themselves. What a reader finds wrong is the same sentence either way.
"""

from __future__ import annotations

import functools
import hashlib
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints, as_positions
from impinge.errors import FileError, ImpingeError, MeshError, OptionError
from impinge.io.files import read_mesh
from impinge.io.sequence import FrameReader, frame_files, read_archive
from impinge.mesh.body import as_body, weld_vertices
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh, check_elements

ARCHIVES_KEPT = 2
"""Archives that a process keeps unpacked: that of the body, and that of the other."""


class Unseen(Exception):  # noqa: N818 - no error: what was asked for has to be sent
    """A file that is not to be seen from this machine."""


@dataclass(frozen=True)
class InFile:
    """A mesh file, or one frame of an archive."""

    path: str
    size: int
    modified: int
    """Nanoseconds, as the file system tells."""
    row: int | None = None
    """Which frame of an archive."""

    def look(self) -> None:
        """Refuse to go on where the same file is not to be seen."""
        if _stamp(self.path) != (self.size, self.modified):
            raise Unseen(self.path)


@dataclass(frozen=True)
class Refused:
    """What could not be read, and why."""

    sentence: str


Item: TypeAlias = InFile | Refused | NDArray[np.float64]
"""A frame: where to read it, why it cannot be read, or its positions."""


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - every frame is stamped before the work begins
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


def in_file(path: str | os.PathLike[str], row: int | None = None) -> InFile:
    """Note where a file is and what it looks like now."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow links, which other machines may not have
    return InFile(absolute, *(_stamp(absolute) or (-1, -1)), row)


# bodies -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Template:
    """A body at rest, and what its frames have to look like."""

    name: str
    vertices: Floats
    elements: Ints
    """Triangles (m, 3) or tets (m, 4)."""
    file_elements: Ints
    """The same as files have them, before vertices are joined."""
    file_vertex_count: int
    pick: NDArray[np.int64] | None = None
    """The vertices of a file that are vertices of the body; None if all are."""

    def body(self) -> TriMesh | TetMesh:
        """A body of its own."""
        kind = TetMesh if self.elements.shape[1] == 4 else TriMesh
        return kind(self.vertices, self.elements, validate="trust")

    def picked(self, x: Floats) -> Floats:
        """Positions of the body's vertices, of those of a file."""
        return x if self.pick is None else np.ascontiguousarray(x[self.pick])

    def digest(self) -> str:
        """What identifies the body."""
        found = hashlib.sha256()
        for array in (self.vertices, self.elements, self.file_elements):
            found.update(f"{array.shape} {array.dtype}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def template_of(source: Any, *, name: str, weld: bool | Literal["auto"] = "auto") -> Template:
    """Read a file, or take a body as it is; vertices are joined as ``impinge.load`` does it."""
    if isinstance(source, InFile):
        source.look()
        source = source.path
    if not isinstance(source, str | os.PathLike):
        body = as_body(source, name=name)
        snapshot = body.snapshot()
        if len(snapshot.live) != len(snapshot.elements):
            raise MeshError(f"{name} has {len(snapshot.elements) - len(snapshot.live)} removed elements; compact() it")
        x, elements = np.array(snapshot.vertices), np.array(snapshot.elements)
        return Template(name, x, elements, elements, len(x))
    path = Path(source)
    content = read_mesh(path)
    x, elements, pick = content.vertices, content.elements, None
    if (not content.indexed) if weld == "auto" else weld:
        x, elements = weld_vertices(content.vertices, content.elements)
        pick = first_of_equal(content.vertices)
    try:
        kind = "tets" if elements.shape[1] == 4 else "faces"
        x, elements = check_elements(x, elements, columns=elements.shape[1], name=kind, validate="raise")
    except MeshError as error:
        raise MeshError(
            f"{path}: {str(error).partition('; pass ')[0].partition(', pass ')[0]}; mend the file"
        ) from error
    return Template(path.name, x, elements, content.elements, len(content.vertices), pick)


def first_of_equal(x: Floats) -> NDArray[np.int64]:
    """The vertices that stay when those at equal positions are joined, as ``weld_vertices`` numbers them."""
    return np.sort(np.unique(x + 0.0, axis=0, return_index=True)[1])


# frames -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frames:
    """The frames of one body: a name and an item for each."""

    names: list[str]
    items: list[Item]

    def __len__(self) -> int:
        return len(self.names)

    def digest(self) -> str:
        """What identifies the frames: contents of arrays; place, size and time of change of files."""
        found = hashlib.sha256()
        for item in self.items:
            found.update(item.tobytes() if isinstance(item, np.ndarray) else repr(item).encode())
        return found.hexdigest()


def frames_of(source: Any, *, name: str = "frames") -> Frames:
    """Frames that a pattern, folder or archive names, a list of files, or positions (frames, vertices, 3)."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix.lower() == ".npz":
            positions, _ = read_archive(path)
            first = in_file(path)
            items: list[Item] = [InFile(first.path, first.size, first.modified, row) for row in range(len(positions))]
            return Frames([f"{path.name}[{row}]" for row in range(len(items))], items)
        files = frame_files(path, str(source))
        return Frames([file.name for file in files], [in_file(file) for file in files])
    if not isinstance(source, Sequence | np.ndarray):
        raise OptionError(
            f"{name} is a {type(source).__name__}; expected a pattern like 'frames/*.ply', a folder, an npz archive, "
            "a list of files, or positions (frames, vertices, 3)"
        )
    if not len(source):
        raise OptionError(f"{name} is empty, expected at least one frame")
    if all(isinstance(each, str | os.PathLike) for each in source):
        return Frames([Path(each).name for each in source], [in_file(each) for each in source])
    return Frames(
        [f"{name}[{i}]" for i in range(len(source))], [_given(x, f"{name}[{i}]") for i, x in enumerate(source)]
    )


def _given(x: Any, name: str) -> Item:
    try:
        return as_positions(x, name=name, check=False).copy()
    except ImpingeError as error:
        return Refused(str(error))


def positions_in(item: Item, template: Template) -> Floats:
    """Positions of the body's vertices in one frame."""
    if isinstance(item, Refused):
        raise MeshError(item.sentence)
    if not isinstance(item, InFile):
        return item
    if item.size >= 0:  # one that was not there when the frames were listed has its sentence from the reader
        item.look()
    path = Path(item.path)
    if item.row is None:
        return template.picked(_reader(template).read(path))
    positions, elements = _archive(item.path, item.size, item.modified)
    if not np.array_equal(elements, template.file_elements):
        raise MeshError(f"{path}: F has other elements than {template.name}; all frames have the topology of the body")
    return template.picked(np.array(positions[item.row], dtype=np.float64))


_readers: weakref.WeakKeyDictionary[Template, FrameReader] = weakref.WeakKeyDictionary()


def _reader(template: Template) -> FrameReader:
    """What reads the frames of a body, and knows the last."""
    reader = _readers.get(template)
    if reader is None:
        reader = FrameReader(template.file_elements, template.file_vertex_count, template.name)
        _readers[template] = reader
    return reader


@functools.lru_cache(maxsize=ARCHIVES_KEPT)
def _archive(path: str, size: int, modified: int) -> tuple[Any, Ints]:
    """An archive, unpacked once per process; size and time tell a changed one from the old."""
    del size, modified
    return read_archive(Path(path))


def to_be_sent(item: Item, template: Template) -> Item:
    """The positions of a frame, or why there are none, for a machine that does not see the file."""
    if not isinstance(item, InFile):
        return item
    try:
        return positions_in(item, template)
    except Unseen:
        return Refused(f"{item.path} was changed or removed while the run was on; run it again with another --out")
    except ImpingeError as error:
        return Refused(str(error))


def listed_files(folder: Path) -> list[Path]:
    """All mesh files below a folder, in natural order."""
    from impinge.io.sequence import is_mesh_file, natural_order

    if not folder.is_dir():
        raise FileError(f"{folder} is no folder, expected one with mesh files of the parts; check the path")
    return sorted((file for file in folder.rglob("*") if file.is_file() and is_mesh_file(file)), key=natural_order)
