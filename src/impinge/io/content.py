"""The content of a mesh file, and steps that all formats share.

1. Split. Polygons become triangle fans around their first corner, in place.
2. Count. A file with fewer elements than its header declares is refused.
3. Check. Arrays get a fixed type; a file without triangles and tetrahedra is refused. Ids out of range and NaN are
          checked by the bodies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints, as_indices
from impinge.errors import FileError, MeshError

CUT_SHORT = "it is truncated or damaged, copy or write it again"
"""End of the messages about damaged files."""


@dataclass(frozen=True)
class FileContent:
    """Arrays of the file; ids are not checked against the number of vertices."""

    vertices: Floats
    """Positions, shape (n, 3)."""
    elements: Ints
    """Vertex ids of triangles (m, 3), or of tetrahedra (m, 4) if the file has any."""
    indexed: bool
    """False for formats without vertex ids (stl): each triangle has its own three vertices."""


def content_of(
    vertices: Any, elements: Any, name: str | Path, others: dict[str, int] | None = None, *, indexed: bool = True
) -> FileContent:
    """Convert arrays to fixed types; ``others`` counts further elements of the file ``name``, for the message."""
    x = np.ascontiguousarray(vertices, dtype=np.float64)
    if x.ndim == 2 and x.shape[1] == 2:
        x = np.column_stack([x, np.zeros(len(x))])  # plane meshes get z = 0
    if not len(elements):
        held = {"points": len(x), **(others or {})}
        found = " and ".join(f"{count} {what}" for what, count in held.items() if count)
        found = f"only {found}" if found else "and no points either"
        raise MeshError(f"{name} has no triangles or tetrahedra, {found}; a body needs elements to collide")
    rows = np.asarray(elements)
    try:
        ids = as_indices(rows, name="tets" if rows.shape[1] == 4 else "faces", columns=rows.shape[1])
    except MeshError as error:
        raise MeshError(f"{name}: {error}") from error
    return FileContent(x.reshape(-1, 3), ids, indexed)


def from_cells(points: Any, cells: Iterable[tuple[str, Any]], name: str | Path) -> FileContent:
    """The tets of blocks of cells, or their polygons if there are none; other cells raise.

    A block is a type by its name in meshio, and rows of vertex ids, shape (m, corners).
    """
    tets: list[Any] = []
    triangles: list[Any] = []
    line_count = 0
    for kind, rows in cells:
        if not len(rows):
            continue
        if kind == "tetra":
            tets.append(rows)
        elif kind in ("triangle", "quad") or kind.startswith("polygon"):
            triangles.append(fan_rows(rows))
        elif kind.startswith("line"):
            line_count += len(rows)
        elif not kind.startswith(("vertex", "empty")):
            raise MeshError(
                f"{name} has {len(rows)} cells of type {kind}, expected triangles, quads, polygons or "
                "tetrahedra; convert such cells to these first"
            )
    parts = tets or triangles
    return content_of(points, np.concatenate(parts) if parts else [], name, {"lines": line_count})


def fan(counts: Any, corners: Any) -> NDArray[Any]:
    """Split polygons into triangles (first, k, k + 1), in order; ``corners`` has ``counts[i]`` ids for each."""
    counts, corners = np.asarray(counts, dtype=np.int64), np.asarray(corners)
    triangle_count = np.maximum(counts - 2, 0)
    first = np.repeat(np.cumsum(counts) - counts, triangle_count)
    k = np.arange(len(first))
    k -= np.repeat(np.cumsum(triangle_count) - triangle_count, triangle_count)
    k += first
    triangles = np.empty((len(first), 3), dtype=corners.dtype)
    triangles[:, 0] = corners[first]
    for column in (1, 2):
        k += 1
        triangles[:, column] = corners[k]
    return triangles


def fan_rows(rows: Any) -> NDArray[Any]:
    """Split polygons with equal numbers of corners, shape (m, corners)."""
    rows = np.asarray(rows)
    if rows.shape[1] == 3:  # the common case; fan() would take a third of the reading time
        if rows.strides[1] == rows.itemsize:  # contiguous corners are copied as one item
            return np.array(rows.view(np.dtype((np.void, 3 * rows.itemsize)))).view(rows.dtype)
        return np.array(rows)
    return fan(np.full(len(rows), rows.shape[1]), rows.reshape(-1))


def check_count(name: str | Path, declared: int, found: int, what: str) -> None:
    """Refuse a file with fewer elements than its header declares."""
    if found < declared:
        raise FileError(f"{name} declares {declared} {what}, but holds {found}; {CUT_SHORT}")


def refuse_kind(kind: str, name: str | Path, expected: str) -> NoReturn:
    """Raise for a file whose content does not match its ending."""
    raise FileError(f"{name} is not a .{kind} file, expected {expected}; check its ending")


def as_float32(x: Floats, kind: str) -> NDArray[np.float32]:
    """Round positions to float32; refuse those that overflow."""
    if (np.abs(x) > np.finfo(np.float32).max).any():
        largest = float(np.abs(x).max())
        raise FileError(f"a coordinate of {largest:g} does not fit the float32 of .{kind} files; save as .ply")
    return x.astype(np.float32)
