"""Conversion of everything that counts as a body: own meshes, tuples, meshes of other libraries, paths."""

from __future__ import annotations

import itertools
import os
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_choice, as_numbers, as_path, distinct_rows
from impinge.errors import MeshError
from impinge.io import files
from impinge.io.content import from_cells
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh, Validate, check_elements

MESH_FILE = "the name of a mesh file, like 'bunny.ply'"
"""What a path is expected to be."""

Body: TypeAlias = TriMesh | TetMesh


class VerticesAndFaces(Protocol):
    """A surface of another library with ``vertices`` and ``faces``, such as a ``trimesh.Trimesh``."""

    @property
    def vertices(self) -> object:
        """Positions, shape (n, 3)."""

    @property
    def faces(self) -> object:
        """Vertex ids, shape (m, 3)."""


class Points(Protocol):
    """A mesh of another library with ``points`` and cells, such as ``pyvista.PolyData`` or ``meshio.Mesh``."""

    @property
    def points(self) -> object:
        """Positions, shape (n, 3)."""


BodyLike: TypeAlias = Body | tuple[ArrayLike, ArrayLike] | str | os.PathLike[str] | VerticesAndFaces | Points
"""Whatever counts as a body; see ``as_body``."""
SurfaceLike: TypeAlias = BodyLike
"""The same, where the boundary of a tet mesh is meant."""


def load(path: str | os.PathLike[str], *, weld: bool | Literal["auto"] = "auto", validate: Validate = "raise") -> Body:
    """Read a mesh file: ply, obj, stl, off, glb, gltf, msh, vtk, vtu, mesh, each also with .gz.

    Parameters
    ----------
    path : str or path
        The file; its ending names the format.
    weld : bool or "auto"
        Join vertices at equal positions. "auto" does so in formats without vertex ids (stl). The order of faces
        never changes.
    validate : {"raise", "drop", "trust"}
        As for ``TriMesh``.

    Returns
    -------
    TriMesh or TetMesh
        A TetMesh if the file has tetrahedra; quads and polygons are split into triangles.

    Raises
    ------
    FileError
        If the file is missing, damaged or of an unknown format.
    MeshError
        If its content is no valid mesh.
    """
    as_choice(weld, "weld", (True, False, "auto"))
    content = files.read_mesh(as_path(path, "path", MESH_FILE))
    x, elements = content.vertices, content.elements
    if (not content.indexed) if weld == "auto" else weld:
        x, elements = weld_vertices(x, elements)
    columns = elements.shape[1]
    try:  # checked here, not by the body: a warning then names the line that loads
        x, elements = check_elements(x, elements, columns, validate)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
    return (TetMesh if columns == 4 else TriMesh)(x, elements, validate="trust")


def save(body: BodyLike, path: str | os.PathLike[str]) -> None:
    """Write the live elements of a body to a file whose ending names the format."""
    snapshot = as_body(body).snapshot()
    files.write_mesh(
        as_path(path, "path", MESH_FILE), snapshot.vertices, np.ascontiguousarray(snapshot.elements[snapshot.live])
    )


def weld_vertices(x: Floats, elements: Ints) -> tuple[Floats, Ints]:
    """Join vertices at exactly equal positions, numbered by first occurrence; elements keep their order.

    Ids out of range are kept; the constructors of bodies refuse them.
    """
    x = np.asarray(x, dtype=np.float64)
    first, group = distinct_rows(x)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    new_id = rank[group].astype(np.int32)
    welded = np.array(elements, dtype=np.int32)
    valid = (welded >= 0) & (welded < len(x))
    welded[valid] = new_id[welded[valid]]
    return x[np.sort(first)], welded


def as_body(x: BodyLike, *, name: str = "the body") -> Body:
    """Convert ``x`` to a TriMesh or TetMesh; own meshes pass through uncopied."""
    if isinstance(x, TriMesh | TetMesh):
        return x
    if isinstance(x, str | os.PathLike):
        return load(x)
    if isinstance(x, tuple | list) and len(x) == 2:
        return _from_arrays(x[0], x[1])
    foreign: Any = x
    library = type(x).__module__.partition(".")[0]
    if library == "trimesh" and hasattr(x, "faces"):
        return TriMesh(foreign.vertices, foreign.faces)
    if library == "pyvista" and hasattr(x, "points"):
        return _from_pyvista(foreign, name)
    if library == "meshio" and hasattr(x, "cells"):
        content = from_cells(foreign.points, ((b.type, b.data) for b in foreign.cells), "the meshio mesh")
        return _from_arrays(content.vertices, content.elements)
    raise MeshError(
        f"{name} is a {type(x).__module__}.{type(x).__qualname__}; expected a TriMesh or TetMesh, a tuple "
        "(vertices, elements), an object of trimesh, pyvista or meshio, or a path"
    )


def as_surface(x: SurfaceLike, *, name: str = "the body") -> TriMesh:
    """Convert ``x`` to triangles: itself, or the boundary of a tet mesh."""
    if isinstance(x, TriMesh):
        return x
    body = as_body(x, name=name)
    return body.surface if isinstance(body, TetMesh) else body


def _from_arrays(vertices: Any, elements: Any) -> Body:
    elements = as_numbers(elements, "elements")
    return (TetMesh if elements.shape[1:] == (4,) else TriMesh)(vertices, elements)


_VTK_TYPES = {1: "vertex", 2: "vertex", 3: "line", 4: "line", 5: "triangle", 7: "polygon", 9: "quad", 10: "tetra"}


def _from_pyvista(x: Any, name: str) -> Body:
    """Tets if a grid has any, else its polygons, split into triangles in place; vertices keep their numbers."""
    cells: list[tuple[str, Any]] = []
    if hasattr(x, "is_all_triangles"):
        surface = x if x.is_all_triangles else x.triangulate()
        cells = [("triangle", surface.faces.reshape(-1, 4)[:, 1:]), ("line", np.zeros((x.n_lines, 2)))]
    elif hasattr(x, "celltypes"):  # runs of cells with equal type and number of corners
        start = np.asarray(x.cell_offsets if hasattr(x, "cell_offsets") else x.offset)
        corners, types, counts = np.asarray(x.cell_connectivity), np.asarray(x.celltypes), np.diff(start)
        change = np.flatnonzero((np.diff(types) != 0) | (np.diff(counts) != 0)) + 1
        for first, end in itertools.pairwise([0, *change.tolist(), len(types)] if len(types) else []):
            kind = _VTK_TYPES.get(int(types[first]), f"VTK {types[first]}")
            cells.append((kind, corners[start[first] : start[end]].reshape(end - first, counts[first])))
    else:
        raise MeshError(
            f"{name} is a pyvista {type(x).__name__}; expected PolyData or UnstructuredGrid, "
            "its method extract_surface() or cast_to_unstructured_grid() makes one"
        )
    content = from_cells(x.points, cells, name)
    return _from_arrays(content.vertices, content.elements)
