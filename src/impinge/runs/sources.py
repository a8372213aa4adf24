"""Bodies and frames by reference: read where they are used, sent by value where the file is not visible.

A ``FileRef`` is a path with size and modification time. A worker that sees the same file reads it; any other raises
``NotVisible`` and then receives the positions. Either way a failed read gives the same message.
"""

from __future__ import annotations

import functools
import hashlib
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints, as_choice, as_path, as_positions, shown
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.io.files import read_mesh
from impinge.io.sequence import FrameReader, frame_files, read_archive
from impinge.mesh.body import as_body, weld_vertices
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh, check_elements

Made = TypeVar("Made")
ARCHIVES_CACHED = 2
"""Unpacked npz archives per process: one for each body."""


class NotVisible(Exception):  # noqa: N818 - not an error: the content has to be sent
    """The referenced file is not visible from this machine, or has changed."""


@dataclass(frozen=True)
class FileRef:
    """A mesh file, or one frame of an archive."""

    path: str
    size: int
    modified: int
    """Modification time [ns]."""
    row: int | None = None
    """Frame of an archive."""

    def check(self) -> None:
        """Raise ``NotVisible`` unless the same file is visible here."""
        if _stamp(self.path) != (self.size, self.modified):
            raise NotVisible(self.path)


@dataclass(frozen=True)
class Unreadable:
    """A frame or part that cannot be read."""

    reason: str


Item: TypeAlias = FileRef | Unreadable | NDArray[np.float64]
"""A frame: a reference, the reason why it cannot be read, or positions."""


def _stamp(path: str) -> tuple[int, int] | None:
    """Size and modification time of a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called for every frame before the run starts; a Path each is slower
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


def file_ref(path: str | os.PathLike[str]) -> FileRef:
    """Reference to a file as it is now."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - resolve() follows links, which other machines may not have
    return FileRef(absolute, *(_stamp(absolute) or (-1, -1)))


# bodies -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Template:
    """A body at rest and the topology that its frames must have."""

    name: str
    vertices: Floats
    elements: Ints
    """Triangles (m, 3) or tets (m, 4)."""
    file_elements: Ints
    """The elements as stored in files, before welding."""
    file_vertex_count: int
    pick: NDArray[np.int64] | None = None
    """Ids of the file's vertices that remain after welding; None for all."""

    def body(self) -> TriMesh | TetMesh:
        """A new mesh."""
        kind = TetMesh if self.elements.shape[1] == 4 else TriMesh
        return kind(self.vertices, self.elements, validate="trust")

    def digest(self) -> str:
        """SHA-256 of the arrays."""
        found = hashlib.sha256()
        for array in (self.vertices, self.elements, self.file_elements):
            found.update(f"{array.shape} {array.dtype}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def template_of(source: Any, *, name: str, weld: bool | Literal["auto"] = "auto") -> Template:
    """Template of a file or a body; ``weld`` as in ``impinge.load``."""
    as_choice(weld, "weld", (True, False, "auto"))
    if isinstance(source, FileRef):
        source.check()
        source = source.path
    if not isinstance(source, str | os.PathLike):
        snapshot = as_body(source, name=name).snapshot()
        if len(snapshot.live) != len(snapshot.elements):
            raise MeshError(f"{name} has {len(snapshot.elements) - len(snapshot.live)} removed elements; compact() it")
        x, elements = np.array(snapshot.vertices), np.array(snapshot.elements)
        return Template(name, x, elements, elements, len(x))
    path = as_path(source, name)
    content = read_mesh(path)
    x, elements, pick = content.vertices, content.elements, None
    if (not content.indexed) if weld == "auto" else weld:
        x, elements = weld_vertices(content.vertices, content.elements)
        pick = np.sort(np.unique(content.vertices + 0.0, axis=0, return_index=True)[1])  # the order of weld_vertices
    try:
        x, elements = check_elements(x, elements, elements.shape[1], "raise")
    except MeshError as error:
        found = str(error).partition("; pass ")[0].partition(", pass ")[0]
        raise MeshError(f"{path}: {found}; repair the file") from error
    return Template(path.name, x, elements, content.elements, len(content.vertices), pick)


# frames -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frames:
    """Frames of one body: a name and an item for each."""

    names: list[str]
    items: list[Item]

    def __len__(self) -> int:
        return len(self.names)

    def digest(self) -> str:
        """SHA-256 of array contents, and of path, size and modification time of files."""
        found = hashlib.sha256()
        for item in self.items:
            found.update(item.tobytes() if isinstance(item, np.ndarray) else repr(item).encode())
        return found.hexdigest()


def frames_of(source: Any, *, name: str = "frames") -> Frames:
    """Frames of a pattern, folder or archive, a list of files, or positions (frames, vertices, 3)."""
    if isinstance(source, str | os.PathLike):
        path = as_path(source, name)
        if path.suffix.lower() == ".npz":
            archive, count = file_ref(path), len(read_archive(path)[0])
            names = [f"{path.name}[{row}]" for row in range(count)]
            return Frames(names, [replace(archive, row=row) for row in range(count)])
        source = frame_files(path, str(source))
    if isinstance(source, np.ndarray) and source.ndim == 0:
        raise OptionError(f"{name} is {shown(source)}, expected positions (frames, vertices, 3)")
    if not isinstance(source, Sequence | np.ndarray):
        raise OptionError(
            f"{name} is a {type(source).__name__}; expected a pattern like 'frames/*.ply', a folder, an npz archive, "
            "a list of files, or positions (frames, vertices, 3)"
        )
    if not len(source):
        raise OptionError(f"{name} is empty, expected at least one frame")
    if all(isinstance(each, str | os.PathLike) for each in source):
        files = [as_path(each, f"{name}[{i}]") for i, each in enumerate(source)]
        return Frames([file.name for file in files], [file_ref(file) for file in files])
    names, items = [f"{name}[{i}]" for i in range(len(source))], list[Item]()
    for frame_name, x in zip(names, source):
        try:
            items.append(as_positions(x, name=frame_name, check=False).copy())
        except ImpingeError as error:  # noqa: PERF203 - each frame has its own message
            items.append(Unreadable(str(error)))
    return Frames(names, items)


_readers: weakref.WeakKeyDictionary[Template, FrameReader] = weakref.WeakKeyDictionary()


def positions_in(item: Item, template: Template) -> Floats:
    """Positions of the body's vertices in one frame."""
    if isinstance(item, Unreadable):
        raise MeshError(item.reason)
    if not isinstance(item, FileRef):
        return item
    if item.size >= 0:  # a file that did not exist when the frames were listed: the reader raises
        item.check()
    if item.row is None:
        reader = _readers.get(template)
        if reader is None:
            reader = FrameReader(template.file_elements, template.file_vertex_count, template.name)
            _readers[template] = reader
        x = reader.read(Path(item.path))
    else:
        positions, elements = _archive(replace(item, row=None))
        if not np.array_equal(elements, template.file_elements):
            raise MeshError(
                f"{item.path}: F has other elements than {template.name}; all frames have the topology of the body"
            )
        x = np.array(positions[item.row], dtype=np.float64)
    return x if template.pick is None else np.ascontiguousarray(x[template.pick])


@functools.lru_cache(maxsize=ARCHIVES_CACHED)
def _archive(file: FileRef) -> tuple[Any, Ints]:
    """Positions and elements of an archive."""
    return read_archive(Path(file.path))


def by_value(item: Item, template: Template) -> Item:
    """The positions of a frame, or the reason why there are none."""
    return or_reason(positions_in, item, template) if isinstance(item, FileRef) else item


def or_reason(read: Callable[..., Made], *args: Any) -> Made | Unreadable:
    """What ``read(*args)`` returns, or why it fails."""
    try:
        return read(*args)
    except NotVisible as error:  # the process that listed the file no longer sees it
        return Unreadable(f"{error} was changed or removed during the run; run it again with another --out")
    except ImpingeError as error:
        return Unreadable(str(error))
