"""Cells of VTK files, which list a type and a number of corners per cell, and all corners in one array.

Tetrahedra if there are any, else polygons in the order of the file; other cells are refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.errors import FileError, MeshError
from impinge.io.content import CUT_SHORT, FileContent, content_of, fan

POLY_VERTEX, POLY_LINE, TRIANGLE, TRIANGLE_STRIP, POLYGON, QUAD, TETRA = 2, 4, 5, 6, 7, 9, 10
_CORNERS = {TRIANGLE: 3, QUAD: 4, TETRA: 4}
_VERTICES, _LINES = (0, 1, POLY_VERTEX), (3, POLY_LINE, 21, 35)
_NAMES = {
    TRIANGLE_STRIP: "triangle_strip", 8: "pixel", 11: "voxel", 12: "hexahedron", 13: "wedge", 14: "pyramid",
    22: "triangle6", 23: "quad8", 24: "tetra10", 42: "polyhedron",
}  # fmt: skip


def from_vtk_cells(name: str | Path, points: Any, types: Any, counts: Any, corners: Any) -> FileContent:
    """The mesh of ``types`` and ``counts`` per cell and the ``corners`` of all, of the file ``name``."""
    types, counts, corners = (np.asarray(array, dtype=np.int64) for array in (types, counts, corners))
    for kind in np.unique(types).tolist():
        found = counts[types == kind]
        if kind not in (*_VERTICES, *_LINES, POLYGON, *_CORNERS):
            raise MeshError(
                f"{name} has {len(found)} cells of type {_NAMES.get(kind, kind)}, expected triangles, quads, polygons "
                "or tetrahedra; convert such cells to these first"
            )
        if kind in _CORNERS and not (found == _CORNERS[kind]).all():
            raise FileError(f"{name} has cells of type {kind} without {_CORNERS[kind]} corners; {CUT_SHORT}")
    tets, polygons = types == TETRA, np.isin(types, (TRIANGLE, QUAD, POLYGON))
    elements: NDArray[Any] = corners[np.repeat(tets, counts)].reshape(-1, 4)
    if not len(elements):
        elements = fan(counts[polygons], corners[np.repeat(polygons, counts)])
    return content_of(points, elements, name, {"lines": int(np.isin(types, _LINES).sum())})


def counts_of(offsets: Any, corner_count: int, name: str | Path) -> NDArray[np.int64]:
    """Corners per cell of increasing ``offsets``, the first of which is 0."""
    offsets = np.asarray(offsets, dtype=np.int64)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] > corner_count or (np.diff(offsets) < 0).any():
        raise FileError(f"{name} has offsets of cells beyond its {corner_count} corners; {CUT_SHORT}")
    counts: NDArray[np.int64] = np.diff(offsets)
    return counts
