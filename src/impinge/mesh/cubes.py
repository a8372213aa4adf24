"""Enclose any surface by a coarse body of cubes: closed or open, torn, folded, or a soup of triangles.

1. Grid.   Cubes of one size cover the bounding box of the surface, with a margin, ``cells`` of them along its longest
           side.
2. Touch.  A cube that a triangle touches belongs to the body. The separating axis test with thirteen axes decides
           [AkenineMoller2001]; cubes are enlarged by ``SLACK``, hence none is missed.
3. Fill.   The other cubes form regions connected through faces, which no triangle crosses. The region around the grid
           is outside. Any other region is enclosed by cubes of the body and belongs to it, unless the surface is closed
           and oriented and has winding number zero there, as in a bubble.
4. Split.  Each cube becomes five tets, mirrored in every other cube: face diagonals match.

Departures  Inside is decided once per region, by the sum of solid angles at the middle of one cube, not by an exact
            test per cube: no triangle is nearer than half a cube, where the sum is a whole number up to rounding.
Guarantee   Every triangle lies in the body: it encloses the surface. A connected surface gives a body connected through
            faces of cubes. All tets have positive volume; ``cells`` determines their number. Gaps of an open surface
            narrower than a cube are closed; through wider gaps the inside is connected to the outside, and the body is
            a shell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, as_whole
from impinge.errors import MeshError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.shapes import EVEN_CUBE_TETS, ODD_CUBE_TETS
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

MAX_CELLS = 128
"""Largest number of cubes along the longest side: a full grid of 128³ cubes has ten million tets."""

SLACK = 1e-6
"""Enlargement of cubes, in edge lengths: far more than rounding, hence no touching triangle is missed."""

ROOM = 1e-12
"""Least edge of a cube relative to its distance from the origin: some thousand times the rounding of its corners."""

CHUNK = 1 << 18
"""Pairs of a triangle and a cube that are tested at once; about 100 bytes each."""

Grid = tuple[int, int, int]


def sized_surface(body: SurfaceLike) -> TriMesh:
    """Convert ``body`` to a surface; refuse one without triangles or extent, or too far from the origin."""
    surface = as_surface(body)
    if not len(surface):
        raise MeshError("the surface has no triangles; a soft body needs at least one")
    bounds = surface.bounds
    with np.errstate(over="ignore"):
        extent, reach = float((bounds[1] - bounds[0]).max()), float(np.abs(bounds).max())
    if extent == 0.0:
        raise MeshError("all triangles of the surface are one point; a soft body needs a size")
    if not 1e-100 < extent < 1e100:
        raise MeshError(f"the surface is {extent:g} across; scale it to a size between 1e-100 and 1e100")
    if extent < MAX_CELLS * ROOM * reach:
        raise MeshError(
            f"the surface is {extent:g} across and {reach:g} away from the origin, where positions are rounded too "
            "coarsely; move it nearer"
        )
    return surface


def tets_of_cubes(surface: SurfaceLike, *, cells: int | None = None, faces: int = 1000) -> TetMesh:
    """Enclose a surface by cubes of five tets each.

    Parameters
    ----------
    surface : body
        Any surface with an extent; see ``triangle_pairs`` for what counts as a body.
    cells : int, optional
        Cubes along the longest side, at most 128. By default the boundary has about ``faces`` triangles.
    faces : int
        Approximate number of boundary triangles, from 4.

    Returns
    -------
    TetMesh
        Tets of positive volume; every triangle of the surface lies in one of them.

    Raises
    ------
    MeshError
        If the surface has no triangles or no extent, or if its coordinates are out of range.
    OptionError
        If a number is out of range.
    """
    surface = sized_surface(surface)
    if cells is None:
        # Of at most four solids the one whose boundary is nearest to ``faces`` triangles.
        faces, count = as_whole(faces, "faces", least=4), 8
        tried: dict[int, tuple[int, Bools]] = {}
        while count not in tried and len(tried) < 4:
            solid = _solid(surface, count)
            padded = np.pad(solid, 1).astype(np.int8)
            found = 2 * sum(int(np.count_nonzero(np.diff(padded, axis=axis))) for axis in range(3))
            tried[count] = found, solid
            count = min(max(1, round(count * math.sqrt(faces / found))), MAX_CELLS)  # area grows with the square
        cells = min(tried, key=lambda count: abs(tried[count][0] - faces))
        solid = tried[cells][1]
    else:
        cells = as_whole(cells, "cells", most=MAX_CELLS)
        solid = _solid(surface, cells)
    origin, edge, _ = _lattice(surface, cells)
    # Five tets per cube; only corners in use become vertices, numbered in the order of the grid.
    cube = np.argwhere(solid)
    corner = cube[:, None, :] + np.array([[i, j, k] for k in (0, 1) for j in (0, 1) for i in (0, 1)])
    shape = tuple(n + 1 for n in solid.shape)
    used, ids = np.unique(np.ravel_multi_index(tuple(np.moveaxis(corner, -1, 0)), shape), return_inverse=True)
    ids = ids.reshape(-1, 8)
    odd = cube.sum(axis=1)[:, None, None] % 2 == 1
    tets = np.where(odd, ids[:, ODD_CUBE_TETS], ids[:, EVEN_CUBE_TETS]).reshape(-1, 4)
    return TetMesh(origin + edge * np.stack(np.unravel_index(used, shape), axis=1), tets)


def _lattice(surface: TriMesh, cells: int) -> tuple[Floats, float, Grid]:
    """Lowest corner, edge of a cube and number of cubes along each axis; the margin is at least an eighth of a cube."""
    lo, hi = surface.bounds
    extent = hi - lo
    edge = float(extent.max()) / (cells - 0.5)
    count = np.floor(extent / edge + 0.25).astype(np.int64) + 1
    origin: Floats = 0.5 * (lo + hi) - 0.5 * edge * count
    return origin, edge, (int(count[0]), int(count[1]), int(count[2]))


def _solid(surface: TriMesh, cells: int) -> Bools:
    """Mask of the cubes of the grid that belong to the body, shape (nx, ny, nz)."""
    from scipy.ndimage import label  # a slow import

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
    """Chunks of (cube, triangle): every cube that the box of a triangle touches; coordinates count cubes."""
    last = np.array(grid) - 1
    lo = np.clip(np.floor(corners.min(axis=1) - SLACK).astype(np.int64), 0, last)
    hi = np.clip(np.floor(corners.max(axis=1) + SLACK).astype(np.int64), 0, last)
    size = hi - lo + 1
    count = size.prod(axis=1)
    chunk = np.cumsum(count) // CHUNK  # a triangle with more candidates than CHUNK forms its own chunk
    for rows in np.split(np.arange(len(corners)), np.flatnonzero(np.diff(chunk)) + 1):
        triangle = np.repeat(rows, count[rows])
        start = np.cumsum(count[rows]) - count[rows]
        number = np.arange(len(triangle)) - np.repeat(start, count[rows])
        _, ny, nz = size[triangle].T
        yield lo[triangle] + np.stack([number // (ny * nz), number // nz % ny, number % nz], axis=1), triangle


def _meets_cube(corners: Floats) -> Bools:
    """Mask of the triangles (k, 3, 3) that meet the unit cube around the origin; their boxes do."""
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
    """Winding number of triangles (m, 3, 3) around the origin: solid angles over 4 π [vanOosteromStrackee1983]."""
    a, b, c = (corners[:, k] for k in range(3))
    la, lb, lc = (np.linalg.norm(corner, axis=1) for corner in (a, b, c))
    over = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return float(np.arctan2(over, la * lb * lc + ab * lc + bc * la + ca * lb).sum() / (2.0 * np.pi))
