"""Parts of a folder, a list or a scene file: where they are, who is to be held against whom, and those kept at hand.

A part of a scene file is a mesh file and where it is put, or a shape. Like frames, files are read where they are used,
if they are to be seen there. A worker keeps the parts that it used last, with their trees.
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

from impinge.checks import Bools
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.sources import InFile, Refused, Template, Unseen, in_file, listed_files, template_of

TRIANGLES_KEPT = 20_000_000
"""Triangles of the parts that a worker keeps; some 2 GB with their trees."""


@dataclass(frozen=True)
class PosedTree:
    """A mesh file of a scene, and where it is put."""

    file: InFile
    placement: tuple[tuple[float, ...], ...]
    """Rows of a 4x4 matrix."""
    weld: bool | Literal["auto"]


Part = InFile | PosedTree | Template | Refused
"""Where to read a part, the part itself, or why it cannot be had."""


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts, and who collides with whom, as in a ``World``."""

    names: list[str]
    items: list[Part]
    group: NDArray[np.int64]
    collides_with: NDArray[np.int64]
    ignored: NDArray[np.int64]
    """Pairs that are left out, shape (k, 2), the smaller number first."""

    def __len__(self) -> int:
        return len(self.items)

    def digest(self) -> str:
        """What identifies the parts: contents of bodies; place, size and time of change of files."""
        found = hashlib.sha256()
        for name, part in zip(self.names, self.items):
            told = part.digest() if isinstance(part, Template) else repr(part)
            found.update(f"{name} {told}".encode(errors="surrogateescape"))
        for array in (self.group, self.collides_with, self.ignored):
            found.update(array.tobytes())
        return found.hexdigest()

    def wanted(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``pairs`` that may collide."""
        a, b = pairs[:, 0], pairs[:, 1]
        group, other = self.group, self.collides_with
        kept: Bools = (group[a] & other[b] != 0) & (group[b] & other[a] != 0)
        count = len(self)
        kept &= ~np.isin(a * count + b, self.ignored[:, 0] * count + self.ignored[:, 1])
        return pairs[kept]


def parts_of(source: Any) -> Parts:
    """Parts of a folder of mesh files, of a scene file, or of a list of bodies and files."""
    shown = str(source) if isinstance(source, str | os.PathLike) else "parts"
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".toml":
        found = _of_scene(Path(source))
    elif isinstance(source, str | os.PathLike):
        files = listed_files(Path(source))
        found = _all_with_all([str(file.relative_to(source)) for file in files], [in_file(file) for file in files])
    elif isinstance(source, Sequence):
        are_files = [isinstance(each, str | os.PathLike) for each in source]
        names = [
            Path(each).name if is_file else f"parts[{i}]" for i, (each, is_file) in enumerate(zip(source, are_files))
        ]
        items = [
            in_file(each) if is_file else template_of(each, name=name)
            for each, is_file, name in zip(source, are_files, names)
        ]
        found = _all_with_all(names, items)
    else:
        raise OptionError(
            f"parts is a {type(source).__name__}, expected a folder, a scene file, or a list of bodies and files"
        )
    if len(found) < 2:
        raise OptionError(f"{shown} holds {len(found)} parts, expected at least two mesh files or bodies")
    return found


def _all_with_all(names: list[str], items: Sequence[Part]) -> Parts:
    ones = np.ones(len(names), dtype=np.int64)
    return Parts(names, list(items), ones, ones, np.zeros((0, 2), dtype=np.int64))


def _of_scene(path: Path) -> Parts:
    """Bodies as a scene file puts them at first; soft and moving ones stand still for this."""
    from impinge.scenes.scene_file import read_scene

    scene = read_scene(path)
    items: list[Part] = []
    for body in scene.bodies:
        if body.file is None:
            items.append(template_of(body.load(), name=body.name))
        else:
            rows = tuple(tuple(row) for row in body.placement.tolist())
            items.append(PosedTree(in_file(body.file), rows, body.weld))
    names = [body.name for body in scene.bodies]
    ignored = [sorted(names.index(name) for name in pair) for pair in scene.ignored]
    group, other = np.array([[body.group, body.collides_with] for body in scene.bodies], dtype=np.int64).T
    return Parts(names, items, group, other, np.array(ignored, dtype=np.int64).reshape(-1, 2))


def read_part(part: Part) -> Template:
    """The part itself; ``Unseen`` where the file is not to be seen."""
    if isinstance(part, Refused):
        raise MeshError(part.sentence)
    if isinstance(part, PosedTree):
        template = template_of(part.file, name="the part", weld=part.weld)
        return replace(template, vertices=transform_points(np.array(part.placement), template.vertices))
    return template_of(part, name="the part") if isinstance(part, InFile) else part


def to_be_sent(part: Part) -> Template | Refused:
    """The part itself, or why it cannot be had, for a machine that does not see the file."""
    try:
        return read_part(part)
    except Unseen as unseen:
        return Refused(f"{unseen} was changed or removed while the run was on; run again with another --out")
    except ImpingeError as error:
        return Refused(str(error))


# parts that a worker keeps ----------------------------------------------------------------------------

_kept: OrderedDict[Any, tuple[Part, TriMesh]] = OrderedDict()
"""By file, or by the number of an object, which it keeps alive for that."""
_kept_lock = threading.Lock()


def surface_of(part: Part) -> TriMesh:
    """The body of a part, with the trees that were made for it, if it was used lately."""
    key = part if isinstance(part, InFile | PosedTree) else id(part)
    with _kept_lock:
        kept = _kept.pop(key, None)
    if kept is None:
        kept = part, as_surface(read_part(part).body())
    with _kept_lock:
        _kept[key] = kept
        while sum(len(body) for _, body in _kept.values()) > TRIANGLES_KEPT and len(_kept) > 1:
            _kept.popitem(last=False)
    return kept[1]


def forget_parts() -> None:
    """Let go of what this process kept."""
    with _kept_lock:
        _kept.clear()
