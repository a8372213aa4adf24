"""Whatever a caller calls a body becomes one: our meshes, tuples, objects of other libraries, paths."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, as_numbers, distinct_rows
from impinge.errors import MeshError, OptionError
from impinge.io import files
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh, Validate, check_elements

Body: TypeAlias = TriMesh | TetMesh


def load(path: str | os.PathLike[str], *, weld: bool | Literal["auto"] = "auto", validate: Validate = "raise") -> Body:
    """Read a mesh file: ply, obj, stl, off, glb, gltf, msh, vtk, vtu, mesh, each also with .gz.

    A file with tetrahedra becomes a TetMesh, any other a TriMesh; quads and polygons are split into
    triangles. ``weld="auto"`` joins vertices at equal positions in formats that have no vertex ids (stl), so
    that neighbours are known; the order of faces never changes.
    """
    if weld not in (True, False, "auto"):
        raise OptionError(f"weld is {weld!r}, expected True, False or 'auto'")
    content = files.read_mesh(_as_path(path))
    x, elements = content.vertices, content.elements
    if (not content.indexed) if weld == "auto" else weld:
        x, elements = weld_vertices(x, elements)
    columns = elements.shape[1]
    try:  # checked here and not by the body, so that a warning names the line that loads
        x, elements = check_elements(
            x, elements, columns=columns, name="tets" if columns == 4 else "faces", validate=validate
        )
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
    return TetMesh(x, elements, validate="trust") if columns == 4 else TriMesh(x, elements, validate="trust")


def save(body: Any, path: str | os.PathLike[str]) -> None:
    """Write the live elements of a body to a file whose ending names the format."""
    body = as_body(body)
    snapshot = body.snapshot()
    files.write_mesh(_as_path(path), snapshot.vertices, np.ascontiguousarray(snapshot.elements[snapshot.live]))


def _as_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise MeshError(f"the path is {path!r}, expected the name of a mesh file, like 'bunny.ply'")
    return Path(path)


def weld_vertices(x: Floats, elements: Ints) -> tuple[Floats, Ints]:
    """Join vertices at exactly equal positions, numbered by first occurrence; elements keep their order.

    Ids out of range stay so, for the bodies to complain about.
    """
    x = np.asarray(x, dtype=np.float64)
    first, group = distinct_rows(x)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    new_id = rank[group].astype(np.int32)
    welded = np.array(elements, dtype=np.int32)
    valid = (welded >= 0) & (welded < len(x))
    welded[valid] = new_id[welded[valid]]
    return x[np.sort(first)], welded


def as_body(x: Any, *, name: str = "the body") -> Body:
    """Turn ``x`` into a TriMesh or TetMesh; bodies of ours are passed through, not copied."""
    if isinstance(x, TriMesh | TetMesh):
        return x
    if isinstance(x, str | os.PathLike):
        return load(x)
    if isinstance(x, tuple | list) and len(x) == 2:
        return _from_arrays(x[0], x[1])
    library = type(x).__module__.partition(".")[0]
    if library == "trimesh" and hasattr(x, "faces"):
        return TriMesh(x.vertices, x.faces)
    if library == "pyvista" and hasattr(x, "points"):
        return _from_pyvista(x, name)
    if library == "meshio" and hasattr(x, "cells"):
        content = files.from_meshio(x, "the meshio mesh")
        return _from_arrays(content.vertices, content.elements)
    raise MeshError(
        f"{name} is a {type(x).__module__}.{type(x).__qualname__}; expected a TriMesh or TetMesh, a tuple "
        "(vertices, elements), an object of trimesh, pyvista or meshio, or a path"
    )


def as_surface(x: Any, *, name: str = "the body") -> TriMesh:
    """Turn ``x`` into triangles: itself, or the boundary of a tet mesh."""
    body = as_body(x, name=name)
    return body.surface if isinstance(body, TetMesh) else body


def _from_arrays(vertices: Any, elements: Any) -> Body:
    elements = as_numbers(elements, "elements")
    if elements.ndim == 2 and elements.shape[1] == 4:
        return TetMesh(vertices, elements)
    return TriMesh(vertices, elements)


_VTK_TYPES = {1: "vertex", 2: "vertex", 3: "line", 4: "line", 5: "triangle", 7: "polygon", 9: "quad", 10: "tetra"}


def _from_pyvista(x: Any, name: str) -> Body:
    """Tets if a grid has any, else its polygons, cut into triangles in place; vertices keep their numbers."""
    if hasattr(x, "is_all_triangles"):
        surface = x if x.is_all_triangles else x.triangulate()
        cells = [("triangle", surface.faces.reshape(-1, 4)[:, 1:]), ("line", np.zeros((x.n_lines, 2)))]
    elif hasattr(x, "celltypes"):
        cells = _vtk_blocks(x)
    else:
        raise MeshError(
            f"{name} is a pyvista {type(x).__name__}; expected PolyData or UnstructuredGrid, "
            "its method extract_surface() or cast_to_unstructured_grid() makes one"
        )
    content = files.from_cells(x.points, cells, name)
    return _from_arrays(content.vertices, content.elements)


def _vtk_blocks(grid: Any) -> list[tuple[str, Any]]:
    """Runs of cells that are alike in type and number of corners."""
    start = np.asarray(grid.cell_offsets if hasattr(grid, "cell_offsets") else grid.offset)
    corners, types, counts = np.asarray(grid.cell_connectivity), np.asarray(grid.celltypes), np.diff(start)
    change = np.flatnonzero((np.diff(types) != 0) | (np.diff(counts) != 0)) + 1
    bounds = [0, *change.tolist(), len(types)] if len(types) else []
    blocks = []
    for first, end in itertools.pairwise(bounds):
        kind = _VTK_TYPES.get(int(types[first]), f"VTK {types[first]}")
        blocks.append((kind, corners[start[first] : start[end]].reshape(end - first, counts[first])))
    return blocks
