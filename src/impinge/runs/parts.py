"""Parts of an assembly: a folder, a list or a scene file, which pairs may collide, and a cache of loaded parts.

A part of a scene file is a posed mesh file or a shape. Files are read where they are used, as frames are
(``sources``). Each worker caches the parts used last, with their trees.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, as_path
from impinge.errors import FileError, MeshError, OptionError
from impinge.io.sequence import is_mesh_file, natural_order
from impinge.mesh.body import as_surface
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.sources import FileRef, Template, Unreadable, file_ref, or_reason, template_of

TRIANGLES_CACHED = 20_000_000
"""Triangles of cached parts per worker, about 2 GB with their trees."""


@dataclass(frozen=True)
class PosedFile:
    """A mesh file of a scene and its pose."""

    file: FileRef
    pose: tuple[tuple[float, ...], ...]
    """Rows of a 4x4 matrix."""
    weld: bool | Literal["auto"]


Part = FileRef | PosedFile | Template | Unreadable
"""A reference, the part itself, or the reason why it cannot be read."""


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts, and collision groups as in ``World``."""

    names: list[str]
    items: list[Part]
    group: NDArray[np.int64]
    collides_with: NDArray[np.int64]
    ignored: NDArray[np.int64]
    """Ignored pairs, shape (k, 2), the smaller number first."""

    def __len__(self) -> int:
        return len(self.items)

    def digest(self) -> str:
        """SHA-256 of body contents, and of path, size and modification time of files."""
        found = hashlib.sha256()
        for name, part in zip(self.names, self.items):
            content = part.digest() if isinstance(part, Template) else repr(part)
            found.update(f"{name} {content}".encode(errors="surrogateescape"))
        for array in (self.group, self.collides_with, self.ignored):
            found.update(array.tobytes())
        return found.hexdigest()

    def filtered(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``pairs`` whose groups collide and that are not ignored."""
        a, b = pairs[:, 0], pairs[:, 1]
        kept: Bools = (self.group[a] & self.collides_with[b] != 0) & (self.group[b] & self.collides_with[a] != 0)
        kept &= ~np.isin(a * len(self) + b, self.ignored[:, 0] * len(self) + self.ignored[:, 1])
        return pairs[kept]


def parts_of(source: Any) -> Parts:
    """Parts of a folder of mesh files, a scene file, or a list of bodies and files."""
    is_path = isinstance(source, str | os.PathLike)
    if is_path:
        source = as_path(source, "parts", "a folder of mesh files, a scene file, or a list of bodies and files")
    items: list[Part]
    ignored: list[list[int]] = []
    groups: list[tuple[int, int]] = []
    if is_path and Path(source).suffix.lower() == ".toml":
        from impinge.scenes.scene_file import read_scene  # loads the simulation, which frames do not need

        scene = read_scene(source)
        names = [body.name for body in scene.bodies]
        items = [
            template_of(body.load(), name=body.name)
            if body.file is None
            else PosedFile(file_ref(body.file), tuple(map(tuple, body.placement.tolist())), body.weld)
            for body in scene.bodies
        ]
        groups = [(body.group, body.collides_with) for body in scene.bodies]
        ignored = [sorted(names.index(name) for name in pair) for pair in scene.ignored]
    elif is_path:
        folder = Path(source)
        if not folder.is_dir():
            raise FileError(f"{folder} is not a folder, expected one with the mesh files of the parts; check the path")
        files = sorted((file for file in folder.rglob("*") if file.is_file() and is_mesh_file(file)), key=natural_order)
        names, items = [str(file.relative_to(folder)) for file in files], [file_ref(file) for file in files]
    elif isinstance(source, Sequence):
        names, items = [], []
        for i, each in enumerate(source):
            is_file = isinstance(each, str | os.PathLike)
            names.append(as_path(each, f"parts[{i}]").name if is_file else f"parts[{i}]")
            items.append(file_ref(each) if is_file else template_of(each, name=names[-1]))
    else:
        raise OptionError(
            f"parts is a {type(source).__name__}, expected a folder, a scene file, or a list of bodies and files"
        )
    if len(items) < 2:
        holder = str(source) if is_path else "parts"
        raise OptionError(f"{holder} holds {len(items)} parts, expected at least two mesh files or bodies")
    group, other = np.array(groups or [(1, 1)] * len(items), dtype=np.int64).T
    return Parts(names, items, group, other, np.array(ignored, dtype=np.int64).reshape(-1, 2))


def read_part(part: Part) -> Template:
    """The part itself; raises ``NotVisible`` where its file is not visible."""
    if isinstance(part, Unreadable):
        raise MeshError(part.reason)
    if isinstance(part, PosedFile):
        template = template_of(part.file, name="the part", weld=part.weld)
        return replace(template, vertices=transform_points(np.array(part.pose), template.vertices))
    return template_of(part, name="the part") if isinstance(part, FileRef) else part


def part_by_value(part: Part) -> Template | Unreadable:
    """The part itself, or the reason why it cannot be read."""
    return or_reason(read_part, part)


# cache of a worker ------------------------------------------------------------------------------------

_cache: OrderedDict[Any, tuple[Part, TriMesh]] = OrderedDict()
"""Least recently used first. Keys are references, or ids of objects that the entry keeps alive."""
_cache_lock = threading.Lock()


def surface_of(part: Part) -> TriMesh:
    """The surface of a part, from the cache if it was used recently."""
    key = part if isinstance(part, FileRef | PosedFile) else id(part)
    with _cache_lock:
        entry = _cache.pop(key, None)
    if entry is None:
        entry = part, as_surface(read_part(part).body())
    with _cache_lock:
        _cache[key] = entry
        while sum(len(body) for _, body in _cache.values()) > TRIANGLES_CACHED and len(_cache) > 1:
            _cache.popitem(last=False)
    return entry[1]


def clear_parts() -> None:
    """Empty the cache of this process."""
    with _cache_lock:
        _cache.clear()
