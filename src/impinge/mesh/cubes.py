"""A coarse body of cubes around any surface: closed or open, torn, folded, or a soup of triangles.

1. Grid.   Cubes of one size cover the box around the surface, with a margin, ``cells`` of them along its longest side.
2. Touch.  A cube that a triangle touches belongs to the body. A triangle and a cube are apart if a plane with one of
           thirteen normals separates them [AkenineMoller2001]; cubes are enlarged a little, so that none is missed.
3. Fill.   The other cubes fall into regions connected through faces, which no triangle crosses. The region around the
           grid is outside. Any other is enclosed by cubes of the body and belongs to it, unless the surface is closed
           and oriented and its winding number there is zero, as in a bubble.
4. Split.  Each cube becomes five tets, mirrored in every other cube, so that their faces fit.

Departures  Inside is decided once per region, by the sum of solid angles in the middle of one of its cubes, and not by
            an exact test per cube: no triangle is nearer than half a cube, where the sum is a whole number to rounding.
Guarantee   Every triangle lies in the body, so that it encloses the surface. A connected surface gives a body connected
            through faces of cubes. All tets have positive volume; their number follows from ``cells``. Gaps of an open
            surface narrower than a cube are closed; through wider ones the outside comes in, and the body is a shell.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_body
from impinge.mesh.shapes import EVEN_CUBE_TETS, ODD_CUBE_TETS
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh, box_around

MAX_CELLS = 128
"""Cubes along the longest side; more would be ten million tets in a full grid, which is no coarse body."""

SLACK = 1e-6
"""By how much cubes are enlarged, in edges: far more than rounding, so that a touching triangle is never missed."""

ROOM = 1e-12
"""Least edge of a cube as a share of its distance from the origin: some thousand times the rounding of its corners."""

CHUNK = 1 << 18
"""Pairs of a triangle and a cube that are tested at once; some 100 bytes each in a few arrays."""

Grid = tuple[int, int, int]


def as_surface(body: Any) -> TriMesh:
    """Turn whatever is a body into a surface with triangles and a size, or say why it is none."""
    body = as_body(body)
    surface: TriMesh = body.surface if isinstance(body, TetMesh) else body
    if not len(surface):
        raise MeshError("the surface has no triangles; a soft body needs at least one")
    with np.errstate(over="ignore"):
        lo, hi = surface.bounds
        extent = float((hi - lo).max())
    if extent == 0.0:
        raise MeshError("all triangles of the surface are one point; a soft body needs a size")
    reach = float(np.abs(surface.bounds).max())
    if not math.isfinite(extent) or not 1e-100 < extent < 1e100:
        raise MeshError(f"the surface is {extent:g} across; scale it to a size between 1e-100 and 1e100")
    if extent < MAX_CELLS * ROOM * reach:
        raise MeshError(
            f"the surface is {extent:g} across and {reach:g} away from the origin, where positions are rounded too "
            "coarsely; move it nearer"
        )
    return surface


def tets_of_cubes(surface: Any, *, cells: int | None = None, faces: int = 1000) -> TetMesh:
    """Tets of cubes that enclose ``surface``, ``cells`` of them along its longest side.

    Without ``cells`` their number is chosen such that the boundary has about ``faces`` triangles.
    """
    surface = as_surface(surface)
    if cells is None:
        solid, cells = _solid_of_about(surface, as_count(faces, "faces", least=4))
    else:
        cells = as_count(cells, "cells", least=1, most=MAX_CELLS)
        solid = _solid(surface, cells)
    origin, edge, _ = _lattice(surface, cells)
    return _split_cubes(solid, origin, edge)


def as_count(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    """Turn ``value`` into a whole number within bounds, or say what was expected."""
    bounds = f"a whole number from {least}" + (f" to {most}" if most is not None else "")
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name} is {value!r}, expected {bounds}") from None
    if number < least or (most is not None and number > most):
        raise OptionError(f"{name} is {number}, expected {bounds}")
    return number


# which cubes ---------------------------------------------------------------------------------------------


def _solid_of_about(surface: TriMesh, faces: int) -> tuple[Bools, int]:
    """The solid whose boundary is nearest to ``faces`` triangles, of a few that are tried, and its ``cells``."""
    cells, best = 8, None
    tried: dict[int, int] = {}
    for _ in range(4):
        solid = _solid(surface, cells)
        tried[cells] = found = _boundary_triangles(solid)
        if best is None or abs(found - faces) < abs(tried[best[1]] - faces):
            best = (solid, cells)
        cells = min(max(1, round(cells * math.sqrt(faces / found))), MAX_CELLS)  # area grows with the square
        if cells in tried:
            break
    assert best is not None
    return best


def _boundary_triangles(solid: Bools) -> int:
    padded = np.pad(solid, 1).astype(np.int8)
    return 2 * int(sum(np.count_nonzero(np.diff(padded, axis=axis)) for axis in range(3)))


def _lattice(surface: TriMesh, cells: int) -> tuple[Floats, float, Grid]:
    """Lowest corner, edge of a cube and number of cubes along each axis; margins are an eighth of a cube at least."""
    lo, hi = surface.bounds
    extent = hi - lo
    edge = float(extent.max()) / (cells - 0.5)
    count = np.floor(extent / edge + 0.25).astype(np.int64) + 1
    origin: Floats = 0.5 * (lo + hi) - 0.5 * edge * count
    return origin, edge, (int(count[0]), int(count[1]), int(count[2]))


def _solid(surface: TriMesh, cells: int) -> Bools:
    """Which cubes of the grid belong to the body, shape (nx, ny, nz)."""
    from scipy.ndimage import label  # takes longer to import than most queries

    origin, edge, grid = _lattice(surface, cells)
    snapshot = surface.snapshot()
    corners = (snapshot.vertices[snapshot.elements[snapshot.live]] - origin) / edge
    touched = np.zeros(grid, dtype=np.bool_)
    for cube, triangle in _candidates(corners, grid):
        meets = _meets_cube(corners[triangle] - (cube + 0.5)[:, None, :])
        touched[tuple(cube[meets].T)] = True
    region, count = label(~np.pad(touched, 1))
    outside = [0, region[0, 0, 0]]
    if surface.adjacency.is_oriented:
        for enclosed in range(1, count + 1):
            if enclosed not in outside:
                cube = np.argwhere(region == enclosed)[0] - 1.0
                if abs(_winding_number(corners - (cube + 0.5))) < 0.5:
                    outside.append(enclosed)
    inside: Bools = ~np.isin(region[1:-1, 1:-1, 1:-1], outside)
    return touched | inside


def _candidates(corners: Floats, grid: Grid) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Chunks of (cube, triangle): every cube that the box around a triangle touches; coordinates are in cubes."""
    last = np.array(grid) - 1
    lo = np.clip(np.floor(corners.min(axis=1) - SLACK).astype(np.int64), 0, last)
    hi = np.clip(np.floor(corners.max(axis=1) + SLACK).astype(np.int64), 0, last)
    size = hi - lo + 1
    count = size.prod(axis=1)
    chunk = np.cumsum(count) // CHUNK  # a triangle that reaches more cubes than that is a chunk of its own
    for rows in np.split(np.arange(len(corners)), np.flatnonzero(np.diff(chunk)) + 1):
        triangle = np.repeat(rows, count[rows])
        start = np.cumsum(count[rows]) - count[rows]
        number = np.arange(len(triangle)) - np.repeat(start, count[rows])
        _, ny, nz = size[triangle].T
        yield lo[triangle] + np.stack([number // (ny * nz), number // nz % ny, number % nz], axis=1), triangle


def _meets_cube(corners: Floats) -> Bools:
    """Whether triangles (k, 3, 3) meet the cube of edge 1 around the origin, whose faces their boxes reach."""
    half = 0.5 + SLACK
    edges = np.roll(corners, -1, axis=1) - corners
    normal = np.cross(edges[:, 0], edges[:, 1])
    meets: Bools = np.abs(np.einsum("ij,ij->i", normal, corners[:, 0])) <= half * np.abs(normal).sum(axis=1)
    for side in range(3):
        # Axes e_x × edge, e_y × edge, e_z × edge, written out: one of the three entries is zero.
        for first, second in ((1, 2), (2, 0), (0, 1)):
            u, v = edges[:, side, first, None], edges[:, side, second, None]
            along = u * corners[:, :, second] - v * corners[:, :, first]
            reach = half * (np.abs(u) + np.abs(v))[:, 0]
            meets &= (along.min(axis=1) <= reach) & (along.max(axis=1) >= -reach)
    return meets


def _winding_number(corners: Floats) -> float:
    """How often triangles (m, 3, 3) wind around the origin: solid angles over 4 π [vanOosteromStrackee1983]."""
    a, b, c = (corners[:, k] for k in range(3))
    la, lb, lc = (np.linalg.norm(corner, axis=1) for corner in (a, b, c))
    over = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return float(np.arctan2(over, la * lb * lc + ab * lc + bc * la + ca * lb).sum() / (2.0 * np.pi))


# from cubes to tets --------------------------------------------------------------------------------------


def _split_cubes(solid: Bools, origin: Floats, edge: float) -> TetMesh:
    """Five tets per cube; only corners in use become vertices, numbered in the order of the grid."""
    cube = np.argwhere(solid)
    corner = np.array([[i, j, k] for k in (0, 1) for j in (0, 1) for i in (0, 1)])
    nx, ny, nz = (n + 1 for n in solid.shape)
    place = cube[:, None, :] + corner
    number = (place[..., 0] * ny + place[..., 1]) * nz + place[..., 2]
    used, ids = np.unique(number, return_inverse=True)
    ids = ids.reshape(-1, 8)
    odd = cube.sum(axis=1)[:, None, None] % 2 == 1
    tets = np.where(odd, ids[:, ODD_CUBE_TETS], ids[:, EVEN_CUBE_TETS]).reshape(-1, 4)
    lattice = np.stack(np.unravel_index(used, (nx, ny, nz)), axis=1)
    return TetMesh(origin + edge * lattice, tets)


def box_of(surface: TriMesh) -> tuple[Floats, float]:
    """Middle of the box around a surface, and its longest side: what others scale by."""
    snapshot = surface.snapshot()
    lo, hi = box_around(snapshot.vertices, snapshot.elements[snapshot.live])
    middle: Floats = 0.5 * (lo + hi)
    return middle, float((hi - lo).max())
