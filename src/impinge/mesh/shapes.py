"""Bodies made by formula: spheres, knots, boxes, tubes, cloth and a drilled plate, of any size.

Size, orientation and volume of these bodies are known in advance, for tests, benchmarks and examples. Each function
states its exact counts. Closed surfaces face outwards, tets have positive volumes, and equal arguments give equal bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Floats, Ints, as_number, as_numbers, as_whole, shown
from impinge.errors import OptionError
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

ORIGIN = (0.0, 0.0, 0.0)

MAX_SUBDIVISIONS = 10
"""An icosphere of 21 million triangles; the next level needs several gigabytes during construction."""

MAX_CELLS = 2**24
"""Quadrangles or cubes of a regular mesh: some 30 million triangles or 80 million tets."""

EVEN_CUBE_TETS = np.array([[0, 5, 3, 6], [1, 3, 0, 5], [2, 0, 3, 6], [4, 5, 0, 6], [7, 3, 5, 6]])
"""A cube as five tets; corner (i, j, k) has number i + 2 j + 4 k. Its face diagonals join corners 0, 3, 5 and 6."""
ODD_CUBE_TETS = (EVEN_CUBE_TETS ^ 1)[:, [0, 1, 3, 2]]
"""The mirror image in x: its diagonals join the other four corners and match those of an even neighbour."""


# spheres ---------------------------------------------------------------------------------------------


def uv_sphere(nu: int, nv: int, *, radius: float = 1.0, center: ArrayLike = ORIGIN) -> TriMesh:
    """Make a sphere of meridians and bands: 2 nu (nv - 1) faces, nu (nv - 1) + 2 vertices.

    Parameters
    ----------
    nu, nv : int
        Number of meridians, from 3, and of bands, from 2.
    radius : float
        Distance of all vertices from the center.
    center : array_like, shape (3,)
        Middle of the sphere.

    Returns
    -------
    TriMesh
        A closed surface with poles on the z axis.

    Raises
    ------
    OptionError
        If a count is too small or a length is not positive and finite; so do all functions of this module.
    """
    nu, nv = as_whole(nu, "nu", least=3), as_whole(nv, "nv", least=2)
    _check_cells(nu, nv)
    longitude = 2.0 * np.pi * np.arange(nu)[:, None] / nu
    latitude = np.pi * np.arange(1, nv)[None, :] / nv - np.pi / 2.0
    x = np.cos(latitude) * np.cos(longitude)
    y = np.cos(latitude) * np.sin(longitude)
    z = np.broadcast_to(np.sin(latitude), x.shape)
    rings = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    ids = _wrapped(np.arange(nu * (nv - 1)).reshape(nu, nv - 1), rows=True)
    south, north = len(rings), len(rings) + 1
    faces = np.concatenate([_split_quads(ids), _fan(south, ids[::-1, 0]), _fan(north, ids[:, -1])])
    unit = np.concatenate([rings, [[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]])
    return TriMesh(_positive(radius, "radius") * unit + _vector(center), faces)


def icosphere(subdivisions: int, *, radius: float = 1.0, center: ArrayLike = ORIGIN) -> TriMesh:
    """Make a sphere of nearly equal triangles: 20 · 4^s faces, 10 · 4^s + 2 vertices for s ``subdivisions``.

    Parameters
    ----------
    subdivisions : int
        How often each triangle of the icosahedron is split into four, from 0 to 10.
    radius, center
        As in ``uv_sphere``.

    Returns
    -------
    TriMesh
        A closed surface.

    Examples
    --------
    >>> from impinge import shapes
    >>> len(shapes.icosphere(2))
    320
    """
    unit, faces = _unit_icosphere(subdivisions)
    return TriMesh(_positive(radius, "radius") * unit + _vector(center), faces)


def bumpy_sphere(
    subdivisions: int,
    *,
    radius: float = 1.0,
    amplitude: float = 0.1,
    frequency: float = 6.0,
    center: ArrayLike = ORIGIN,
) -> TriMesh:
    """Make an icosphere with smooth bumps: 20 · 4^s faces, 10 · 4^s + 2 vertices for s ``subdivisions``.

    The radius in unit direction n is ``radius (1 + amplitude g(n))``, where g in [-1, 1] averages one sine per axis.

    Parameters
    ----------
    subdivisions, radius, center
        As in ``icosphere``.
    amplitude : float
        Height of the bumps as a fraction of the radius, below 1: the surface is star-shaped.
    frequency : float
        Angular frequency of the sines.

    Returns
    -------
    TriMesh
        A closed surface.
    """
    unit, faces = _unit_icosphere(subdivisions)
    expected = "0 <= amplitude < 1: a fraction of the radius"
    amplitude = as_number(amplitude, "amplitude", expected, least=0.0, below=1.0)
    phase = np.array([0.3, 1.1, 2.3])  # breaks the symmetry: rotated copies differ
    g = np.sin(_positive(frequency, "frequency") * unit + phase).mean(axis=1, keepdims=True)
    x = _positive(radius, "radius") * (1.0 + amplitude * g) * unit
    return TriMesh(x + _vector(center), faces)


def _unit_icosphere(subdivisions: int) -> tuple[Floats, Ints]:
    """Vertices on the unit sphere and faces: an icosahedron, each triangle split into four ``subdivisions`` times."""
    count = as_whole(subdivisions, "subdivisions", least=0, most=MAX_SUBDIVISIONS, remedy=": there are 20 · 4^s faces")
    # The icosahedron: two poles and two rings of five, rotated against each other by half a step.
    step = 2.0 * np.pi / 5.0
    z = 1.0 / math.sqrt(5.0)
    upper = step * np.arange(5)
    rings = [np.stack([2.0 * z * np.cos(a), 2.0 * z * np.sin(a)], axis=1) for a in (upper - step / 2.0, upper)]
    x = np.zeros((12, 3))
    x[0:5, :2], x[0:5, 2] = rings[0], -z
    x[5:10, :2], x[5:10, 2] = rings[1], z
    x[10:, 2] = -1.0, 1.0
    lower, above = np.arange(6) % 5, 5 + np.arange(6) % 5
    band = [lower[:-1], lower[1:], above[:-1], lower[1:], above[1:], above[:-1]]
    faces = np.concatenate([np.stack(band, axis=1).reshape(-1, 3), _fan(10, lower[::-1]), _fan(11, above)])
    for _ in range(count):  # the midpoints of edges are projected to the sphere
        sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        keys, side_edge = np.unique(sides[:, 0] * len(x) + sides[:, 1], return_inverse=True)
        middle = x[keys // len(x)] + x[keys % len(x)]
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        a, b, c = faces.T
        ab, bc, ca = len(x) + side_edge.reshape(-1, 3).T
        faces = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
        x = np.concatenate([x, middle])
    return x, faces.astype(np.int32)


# other closed surfaces -------------------------------------------------------------------------------


def torus_knot(
    p: int,
    q: int,
    rings: int,
    sides: int,
    *,
    major_radius: float = 1.0,
    minor_radius: float = 0.4,
    tube_radius: float | None = None,
    center: ArrayLike = ORIGIN,
) -> TriMesh:
    """Make a tube along the torus knot T(p, q): 2 · rings · sides faces, rings · sides vertices.

    Parameters
    ----------
    p, q : int
        Revolutions around the z axis and around the circle of the torus; without a common divisor.
    rings, sides : int
        Cross-sections along the tube and vertices of each, from 3.
    major_radius, minor_radius : float
        Radii of the torus; the minor radius is the smaller one.
    tube_radius : float, optional
        Radius of the tube. By default the tube takes two fifths of the space between neighbouring strands and does not
        intersect itself.
    center : array_like, shape (3,)
        Middle of the torus.

    Returns
    -------
    TriMesh
        A closed surface.
    """
    p, q = as_whole(p, "p", most=MAX_CELLS), as_whole(q, "q", most=MAX_CELLS)
    rings, sides = as_whole(rings, "rings", least=3), as_whole(sides, "sides", least=3)
    _check_cells(rings, sides)
    if math.gcd(p, q) != 1:
        raise OptionError(f"p and q are {p} and {q}, expected numbers without a common divisor: one closed strand")
    major, minor = _positive(major_radius, "major_radius"), _positive(minor_radius, "minor_radius")
    if minor >= major:
        raise OptionError(f"minor_radius is {minor}, expected less than major_radius, which is {major}")
    if tube_radius is None:
        # Unrolled at its inner rim the torus is a rectangle; p strands cross one side and q the other.
        tube_radius = 0.2 * (2.0 * np.pi / math.hypot(p / minor, q / (major - minor)))
    tube = _positive(tube_radius, "tube_radius")

    phi = 2.0 * np.pi * np.arange(rings) / rings
    spoke = np.stack([np.cos(p * phi), np.sin(p * phi), np.zeros(rings)], axis=1)
    round_axis = np.stack([-spoke[:, 1], spoke[:, 0], np.zeros(rings)], axis=1)
    up = np.array([0.0, 0.0, 1.0])
    cos_q, sin_q = np.cos(q * phi)[:, None], np.sin(q * phi)[:, None]
    # The normal of the torus is perpendicular to the knot and periodic: no twist at the seam.
    normal = cos_q * spoke + sin_q * up
    tangent = p * (major + minor * cos_q) * round_axis + q * minor * (cos_q * up - sin_q * spoke)
    binormal = np.cross(tangent / np.linalg.norm(tangent, axis=1, keepdims=True), normal)
    psi = (2.0 * np.pi * np.arange(sides) / sides)[:, None, None]
    x = major * spoke + minor * normal + tube * (np.cos(psi) * normal + np.sin(psi) * binormal)
    ids = _wrapped(np.arange(sides * rings).reshape(sides, rings), rows=True, columns=True)
    return TriMesh(x.reshape(-1, 3) + _vector(center), _split_quads(ids))


def box(size: ArrayLike = 1.0, center: ArrayLike = ORIGIN, *, cells: ArrayLike = (1, 1, 1)) -> TriMesh:
    """Make a closed box of a x b x c cells: 4 (ab + bc + ca) faces, 12 for one cell.

    There are (a+1)(b+1)(c+1) - (a-1)(b-1)(c-1) vertices. Each rectangle is split from its lowest to its highest corner.

    Parameters
    ----------
    size : float or array_like, shape (3,)
        Edge lengths.
    center : array_like, shape (3,)
        Middle of the box.
    cells : array_like of int, shape (3,)
        Cells along each axis.

    Returns
    -------
    TriMesh
        A closed surface.
    """
    extent, count = _size(size, 3), _counts(cells, "cells", 3)
    for k in range(3):
        _check_cells(count[k], count[k - 1])
    stride = (1, count[0] + 1, (count[0] + 1) * (count[1] + 1))
    patches = []
    for k in range(3):
        u, v = (k + 1) % 3, (k + 2) % 3
        lattice = np.arange(count[u] + 1)[:, None] * stride[u] + np.arange(count[v] + 1)[None, :] * stride[v]
        patches += [_split_quads(lattice.T), _split_quads(lattice + count[k] * stride[k])]
    used, faces = np.unique(np.concatenate(patches), return_inverse=True)
    axes = _axes(count, extent)
    x = np.stack([axes[k][used // stride[k] % (count[k] + 1)] for k in range(3)], axis=1)
    return TriMesh(x + _vector(center), faces.reshape(-1, 3))


def cad_part(
    holes: ArrayLike = (3, 2),
    *,
    segments: int = 32,
    size: ArrayLike = (3.0, 2.0, 0.5),
    hole_radius: float = 0.3,
    center: ArrayLike = ORIGIN,
) -> TriMesh:
    """Make a plate with a x b cylindrical through-holes, in the long thin triangles of a CAD export.

    There are 4 ab (``segments`` + 2) + 4 (a + b) faces. Each hole lies in the middle of its rectangle; a fan of
    triangles joins each corner of the rectangle with a quarter of the circle.

    Parameters
    ----------
    holes : array_like of int, shape (2,)
        Holes along x and y.
    segments : int
        Segments per hole, a multiple of 4.
    size : float or array_like, shape (3,)
        Edge lengths of the plate.
    hole_radius : float
        Radius of the holes, less than half the shorter side of a hole's rectangle.
    center : array_like, shape (3,)
        Middle of the plate.

    Returns
    -------
    TriMesh
        A closed surface.
    """
    (a, b), extent = _counts(holes, "holes", 2), _size(size, 3)
    segments, radius = as_whole(segments, "segments", least=4), _positive(hole_radius, "hole_radius")
    _check_cells(a, b, segments)
    if segments % 4:
        raise OptionError(f"segments is {segments}, expected a multiple of 4: a quarter circle per corner")
    cell = extent[:2] / (a, b)
    if 2.0 * radius >= cell.min():
        raise OptionError(f"hole_radius is {radius}, expected less than {cell.min() / 2.0}: half a hole's rectangle")

    corners = np.stack(np.meshgrid(*_axes((a, b), extent[:2]), indexing="ij"), axis=-1)
    middles = (corners[:-1, :-1] + corners[1:, 1:]).reshape(-1, 1, 2) / 2.0
    alpha = 2.0 * np.pi * np.arange(segments) / segments
    circle = radius * np.stack([np.cos(alpha), np.sin(alpha)], axis=1)
    plan = np.concatenate([corners.reshape(-1, 2), (middles + circle).reshape(-1, 2)])
    n = len(plan)

    ids = np.arange((a + 1) * (b + 1)).reshape(a + 1, b + 1)
    rims = _wrapped(np.arange(ids.size, n).reshape(a * b, segments), columns=True)
    # Corners counter-clockwise from the highest, as the rims run counter-clockwise from angle 0.
    corner = np.stack([ids[1:, 1:], ids[:-1, 1:], ids[:-1, :-1], ids[1:, :-1]], axis=-1).reshape(-1, 4)
    fans = np.stack([np.repeat(corner, segments // 4, axis=1), rims[:, 1:], rims[:, :-1]], axis=-1)
    # Two neighbouring corners and the rim's vertex between them.
    sides = np.stack([np.roll(corner, 1, axis=1), corner, rims[:, : -1 : segments // 4]], axis=-1)
    top = np.concatenate([fans.reshape(-1, 3), sides.reshape(-1, 3)])
    outline = np.concatenate([ids[:-1, 0], ids[-1, :-1], ids[:0:-1, -1], ids[0, ::-1]])
    walls = [_split_quads(np.stack([ring, ring + n], axis=1)) for ring in (outline, *rims[:, ::-1])]
    x = np.zeros((2 * n, 3))
    x[:n, :2] = x[n:, :2] = plan
    x[:n, 2], x[n:, 2] = -extent[2] / 2.0, extent[2] / 2.0
    return TriMesh(x + _vector(center), np.concatenate([top[:, ::-1], top + n, *walls]))


# volumes and sheets ----------------------------------------------------------------------------------


def tet_box(nx: int, ny: int, nz: int, *, size: ArrayLike | None = None, center: ArrayLike = ORIGIN) -> TetMesh:
    """Make a box of cubes, five tets each: 5 nx ny nz tets, (nx+1)(ny+1)(nz+1) vertices.

    Parameters
    ----------
    nx, ny, nz : int
        Cubes along each axis. Every other cube is mirrored: face diagonals of neighbours match.
    size : float or array_like, shape (3,), optional
        Edge lengths of the box; by default cubes have edge 1.
    center : array_like, shape (3,)
        Middle of the box.

    Returns
    -------
    TetMesh
        Tets of positive volume.
    """
    count = _counts((nx, ny, nz), "cubes", 3)
    _check_cells(*count)
    extent = np.array(count, dtype=np.float64) if size is None else _size(size, 3)
    x = np.stack(np.meshgrid(*_axes(count, extent), indexing="ij"), axis=-1)
    ids = np.arange(x.size // 3).reshape(x.shape[:3])
    return TetMesh(x.reshape(-1, 3) + _vector(center), _cube_tets(ids))


def tet_tube(
    n_r: int,
    n_theta: int,
    n_z: int,
    *,
    inner_radius: float = 0.8,
    outer_radius: float = 1.0,
    length: float = 4.0,
    center: ArrayLike = ORIGIN,
) -> TetMesh:
    """Make a hollow tube along z: 5 n_r n_theta n_z tets, (n_r+1) n_theta (n_z+1) vertices.

    Parameters
    ----------
    n_r, n_theta, n_z : int
        Cells along the radius, around the axis (an even number from 4) and along the axis.
    inner_radius, outer_radius, length : float
        Size of the tube.
    center : array_like, shape (3,)
        Middle of the tube.

    Returns
    -------
    TetMesh
        Tets of positive volume.
    """
    n_r, n_theta, n_z = as_whole(n_r, "n_r"), as_whole(n_theta, "n_theta", least=4), as_whole(n_z, "n_z")
    _check_cells(n_r, n_theta, n_z)
    if n_theta % 2:
        raise OptionError(f"n_theta is {n_theta}, expected an even number: mirrored cells must match around the tube")
    inner, outer = _positive(inner_radius, "inner_radius"), _positive(outer_radius, "outer_radius")
    if inner >= outer:
        raise OptionError(f"inner_radius is {inner}, expected less than outer_radius, which is {outer}")
    half = _positive(length, "length") / 2.0
    angles = 2.0 * np.pi * np.arange(n_theta) / n_theta
    r, theta, z = np.meshgrid(
        np.linspace(inner, outer, n_r + 1), angles, np.linspace(-half, half, n_z + 1), indexing="ij"
    )
    x = np.stack([r * np.cos(theta), r * np.sin(theta), z], axis=-1)
    ids = np.arange(r.size).reshape(r.shape)
    ids = np.concatenate([ids, ids[:, :1]], axis=1)
    return TetMesh(x.reshape(-1, 3) + _vector(center), _cube_tets(ids))


def cloth_grid(nx: int, ny: int, *, size: ArrayLike = 1.0, center: ArrayLike = ORIGIN) -> TriMesh:
    """Make an open sheet in the plane of x and y, facing +z: 2 nx ny faces, (nx+1)(ny+1) vertices.

    Parameters
    ----------
    nx, ny : int
        Cells along each axis.
    size : float or array_like, shape (2,)
        Edge lengths of the sheet.
    center : array_like, shape (3,)
        Middle of the sheet.

    Returns
    -------
    TriMesh
        An open surface.
    """
    count = _counts((nx, ny), "cells", 2)
    _check_cells(*count)
    x, y = np.meshgrid(*_axes(count, _size(size, 2)), indexing="ij")
    flat = np.stack([x, y, np.zeros(x.shape)], axis=-1).reshape(-1, 3)
    return TriMesh(flat + _vector(center), _split_quads(np.arange(x.size).reshape(x.shape)))


def _cube_tets(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Five tets for each cell of a lattice of vertex ids, cells of odd i + j + k mirrored."""
    a, b, c = (n - 1 for n in ids.shape)
    corners = [ids[i : i + a, j : j + b, k : k + c] for k in (0, 1) for j in (0, 1) for i in (0, 1)]
    cube = np.stack(corners, axis=-1).reshape(-1, 8)
    odd = np.indices((a, b, c)).sum(axis=0).reshape(-1, 1, 1) % 2 == 1
    return np.where(odd, cube[:, ODD_CUBE_TETS], cube[:, EVEN_CUBE_TETS]).reshape(-1, 4)


# pieces of surfaces ----------------------------------------------------------------------------------


def _split_quads(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two triangles for each cell of a lattice of vertex ids, facing rows × columns."""
    a, b, c, d = ids[:-1, :-1], ids[1:, :-1], ids[1:, 1:], ids[:-1, 1:]
    return np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)


def _fan(apex: int, ring: NDArray[np.int64]) -> NDArray[np.int64]:
    """Triangles from ``apex`` to each pair of neighbours of ``ring``."""
    return np.stack([np.full(len(ring) - 1, apex), ring[:-1], ring[1:]], axis=1)


def _axes(count: tuple[int, ...], extent: Floats) -> list[Floats]:
    """Lattice coordinates along each axis, centred; the ends are exact: boxes can share faces."""
    return [np.linspace(-size / 2.0, size / 2.0, n + 1) for n, size in zip(count, extent)]


def _wrapped(ids: NDArray[np.int64], *, rows: bool = False, columns: bool = False) -> NDArray[np.int64]:
    """Repeat the first row or column at the end, which closes the lattice into a ring."""
    return np.pad(ids, ((0, int(rows)), (0, int(columns))), mode="wrap")


# options ---------------------------------------------------------------------------------------------


def _counts(values: ArrayLike, name: str, length: int) -> tuple[int, ...]:
    numbers = as_numbers(values, name)
    if numbers.shape != (length,) or _has_flags(values):
        raise OptionError(f"{name} is {shown(values)}, expected {length} whole numbers")
    return tuple(as_whole(value, f"{name}[{k}]") for k, value in enumerate(numbers.tolist()))


def _has_flags(values: ArrayLike) -> bool:
    """Whether numbers hold True or False, which NumPy converts to 1 and 0."""
    array = np.asarray(values, dtype=object)
    return any(isinstance(value, bool | np.bool_) for value in array.reshape(-1))


def _check_cells(*counts: int) -> None:
    """Refuse counts whose product, the number of cells, exceeds ``MAX_CELLS``."""
    if math.prod(counts) > MAX_CELLS:
        found = " · ".join(map(shown, counts))
        raise OptionError(f"a mesh of {found} cells is too large, expected at most {MAX_CELLS:,}; use fewer")


def _positive(value: float, name: str) -> float:
    return as_number(value, name, "a positive, finite number", above=0.0, below=math.inf)


def _vector(center: ArrayLike) -> Floats:
    vector = as_numbers(center, "center").astype(np.float64)
    if vector.shape != (3,) or not np.isfinite(vector).all() or _has_flags(center):
        raise OptionError(f"center is {shown(center)}, expected three finite numbers")
    return vector


def _size(values: ArrayLike, length: int) -> Floats:
    """One edge length for all axes, or one for each."""
    size = as_numbers(values, "size").astype(np.float64)
    is_positive = (np.isfinite(size) & (size > 0.0)).all()
    if size.shape not in ((), (length,)) or not is_positive or _has_flags(values):
        raise OptionError(f"size is {shown(values)}, expected one positive number or {length}")
    return np.broadcast_to(size, (length,))
