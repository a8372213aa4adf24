"""Real-time volumetric intersections of deforming objects [Heidelberger2003], as published.

Three stages find the volume that two closed objects A and B share. Section numbers are those of the paper.

Stage 1 (3.1)    The axis-aligned bounding boxes (AABBs) of A and B intersect in the *Volume-of-Interest* (VoI).
                 An *outside face* of each object is chosen among opposite faces of the VoI: the object lies wholly
                 behind it. If no pair of outside faces is eligible, the VoI is extended (Fig. 2b). Of several pairs
                 the one with the smallest distance is taken.
Stage 2 (3.2, 4) Each object is rendered from its outside face, in orthographic projection, into a layered depth image
                 (LDI): the normalised depths at which the ray through each pixel crosses the surface. One pass
                 yields one layer in drawing order, selected by the stencil test. Layers are then sorted per pixel.
                 Entry and leaving points alternate, the first is an entry point.
Stage 3 (3.3)    a) Intersection volume: the inside regions of both LDIs are intersected pixel by pixel.
                 b) Vertex-in-volume: a vertex is transformed into the LDI and compared with the inside regions.

Symbols          ``n_max`` depth complexity of the object, ``n_p`` that of a pixel, ``layer[1] .. layer[n_max]``.

Departures
  - Coverage of a pixel centre follows from exact signs of edge functions and a fill rule. Every ray through a closed
    surface then has an even number of crossings; a plain floating-point rasteriser does not achieve this.
  - Depths are doubles, not values of a 24-bit depth buffer. The stencil buffer has 32 bits; 8 bits limit n_max to 255.
  - The pseudo code needs the depth test enabled with ``GL_ALWAYS``: a disabled test (section 4) disables depth writes.
  - Pixel (i, j) is the same ray in both LDIs. Views from opposite sides are not mirrored; z becomes 1 - z in stage 3a.
  - A ray that is inside at the far plane has an odd n_p, as in Table 1. It leaves there: the missing point is z = 1.
  - Spans below one step of a 24-bit depth buffer (2^-24) are empty: touching objects do not collide.
  - ``outside_faces="shortest"`` also considers extensions where an eligible pair exists, if these are shorter.
  - ``rendering="a_buffer"`` renders twice instead of n_max times: count, then write all layers. The LDI is identical.

>>> from impinge.mesh import shapes
>>> from impinge.published import layered_depth
>>> a, b = shapes.box(2.0), shapes.box(2.0, center=(1.0, 0.5, 0.25))
>>> found = layered_depth.collide(a, b, resolution=32)
>>> found.collides, found.volume.volume
(True, 2.625)
>>> found.voi.axis, found.ldi_a.n_max, found.ldi_b.n_max
(0, 1, 1)
>>> [ids.tolist() for ids in layered_depth.collide(a, b, query="vertices").vertices]
[[7], [0]]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from impinge.backend.jit import compiled, inlined
from impinge.checks import Bools, Floats, Ints, as_choice, as_positions, shown
from impinge.errors import MeshError, OptionError
from impinge.exact.orientation import orient2d
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

__all__ = [
    "Collision", "IntersectionVolume", "LayeredDepthImage", "VolumeOfInterest", "aabb", "collide",
    "intersection_volume", "layered_depth_image", "vertices_in_volume", "volume_of_interest",
]  # fmt: skip

OutsideFaces: TypeAlias = Literal["eligible", "shortest"]
Rendering: TypeAlias = Literal["peeling", "a_buffer"]
Query: TypeAlias = Literal["volume", "vertices", "both"]
Point: TypeAlias = tuple[float, float]
"""A position across the viewing axis."""
Vector: TypeAlias = tuple[float, float, float]

MAX_RESOLUTION = 4096
"""Pixels per side of an LDI."""
DEPTH_STEP = 2.0**-24
"""One step of the paper's depth buffer, normalised."""


# Stage 1: the Volume-of-Interest (3.1) ------------------------------------------------------------------------


@dataclass(frozen=True)
class VolumeOfInterest:
    """The intersection of two AABBs, extended where outside faces need it."""

    low: Vector
    high: Vector
    axis: int
    """The viewing axis, perpendicular to both outside faces."""
    a_from_low: bool
    """Whether the outside face of A is the low face of the axis; that of B is the opposite face."""
    extended: bool
    """Whether a face was moved to the AABB of the other object (Fig. 2b)."""

    @property
    def window_axes(self) -> tuple[int, int]:
        """The axes of columns and rows of an LDI."""
        return (self.axis + 1) % 3, (self.axis + 2) % 3

    @property
    def distance(self) -> float:
        """Distance between the outside faces."""
        return self.high[self.axis] - self.low[self.axis]

    def pixel_size(self, resolution: int) -> tuple[float, float]:
        """Width and height of a pixel."""
        u, v = self.window_axes
        return (self.high[u] - self.low[u]) / resolution, (self.high[v] - self.low[v]) / resolution


def aabb(body: TriMesh) -> Floats:
    """Compute the axis-aligned bounding box of all live triangles.

    Parameters
    ----------
    body
        A surface.

    Returns
    -------
    array of float64, shape (2, 3)
        Lowest and highest corner; low > high for a body without triangles.
    """
    x, faces = _arrays(body)
    box = np.zeros((2, 3))
    _bound(x, faces, box)
    return box


@compiled
def _bound(x: Floats, faces: Ints, box: Floats) -> None:
    for axis in range(3):
        low, high = np.inf, -np.inf
        for t in range(len(faces)):
            for k in range(3):
                value = x[faces[t, k], axis]
                low, high = min(low, value), max(high, value)
        box[0, axis], box[1, axis] = low, high


def volume_of_interest(
    box_a: Floats,
    box_b: Floats,
    *,
    outside_faces: OutsideFaces = "eligible",
    axis: Literal[0, 1, 2] | None = None,
) -> VolumeOfInterest | None:
    """Intersect two AABBs and choose a pair of outside faces (stage 1).

    Parameters
    ----------
    box_a, box_b
        AABBs of both objects, shape (2, 3). For a single object (Table 2) pass its AABB twice.
    outside_faces
        ``"eligible"`` extends the VoI only if no pair of its own faces is eligible, as published. ``"shortest"`` takes
        the smallest distance of all pairs, extended or not.
    axis
        Restrict the choice to one viewing axis.

    Returns
    -------
    VolumeOfInterest or None
        None if the AABBs share no volume: the objects do not overlap.

    Raises
    ------
    OptionError
        For an unknown option value.
    MeshError
        If an extent overflows.
    """
    as_choice(outside_faces, "outside_faces", get_args(OutsideFaces))
    as_choice(axis, "axis", (None, 0, 1, 2))
    low, high = np.maximum(box_a[0], box_b[0]).tolist(), np.minimum(box_a[1], box_b[1]).tolist()
    if any(high[k] <= low[k] or math.isinf(MAX_RESOLUTION / (high[k] - low[k])) for k in range(3)):
        return None  # disjoint, in contact only, or thinner than a double resolves
    pairs = []
    for k in range(3) if axis is None else (axis,):
        for a_from_low in (True, False):
            first, last = (box_a, box_b) if a_from_low else (box_b, box_a)
            near, far = float(first[0, k]), float(last[1, k])  # the first object is seen from low, the last from high
            if not math.isfinite(far - near):
                raise MeshError(f"the objects extend from {near:g} to {far:g}, which overflows; use larger units")
            pairs.append((near < low[k] or far > high[k], far - near, k, not a_from_low, near, far))
    if outside_faces == "shortest":
        extended, _, k, b_from_low, near, far = min(pairs, key=lambda pair: pair[1:])
    else:
        extended, _, k, b_from_low, near, far = min(pairs)
    low[k], high[k] = near, far
    return VolumeOfInterest(tuple(low), tuple(high), k, not b_from_low, extended)


# Stage 2: LDI generation (3.2, 4) ----------------------------------------------------------------------------


class View(NamedTuple):
    """Orthographic view of the VoI, as kernels take it."""

    u: int
    v: int
    d: int
    """Axes of columns, rows and depths."""
    centre_u: Floats
    centre_v: Floats
    """Positions of the rays of columns and rows."""
    scale_u: float
    scale_v: float
    """Pixels per unit of length."""
    near: float
    far: float


def _view(voi: VolumeOfInterest, n: int, from_low: bool) -> View:
    (u, v), d, (width, height) = voi.window_axes, voi.axis, voi.pixel_size(n)
    near, far = (voi.low[d], voi.high[d]) if from_low else (voi.high[d], voi.low[d])
    steps: Floats = np.arange(n, dtype=np.float64) + 0.5
    return View(u, v, d, voi.low[u] + steps * width, voi.low[v] + steps * height, 1.0 / width, 1.0 / height, near, far)


@dataclass(frozen=True)
class LayeredDepthImage:
    """Sorted layers of one object within a VoI."""

    voi: VolumeOfInterest
    from_low: bool
    """Whether the near plane is the low face of the viewing axis."""
    n_p: Ints
    """Depth complexity of each pixel, shape (rows, columns)."""
    layers: Floats
    """Normalised depths, 0 at the near plane and 1 at the far plane, shape (rows, columns, n_max).

    Those behind the first ``n_p`` are 1: discarded.
    """

    @property
    def resolution(self) -> int:
        """Pixels per side."""
        return len(self.n_p)

    @property
    def n_max(self) -> int:
        """Depth complexity of the object within the VoI."""
        return int(self.layers.shape[2])


def layered_depth_image(
    body: TriMesh,
    voi: VolumeOfInterest,
    *,
    from_low: bool,
    resolution: int = 128,
    rendering: Rendering = "peeling",
) -> LayeredDepthImage:
    """Render an object within the VoI (stage 2).

    Parameters
    ----------
    body
        A watertight surface. This is not verified here; ``collide`` verifies it.
    voi
        The Volume-of-Interest.
    from_low
        Whether the outside face of the object is the low face of the viewing axis: ``voi.a_from_low`` for A,
        ``not voi.a_from_low`` for B.
    resolution
        Pixels per side of the LDI.
    rendering
        ``"peeling"``: n_max passes with the stencil test, as published. ``"a_buffer"``: two passes.

    Returns
    -------
    LayeredDepthImage
        Layers sorted by depth.

    Raises
    ------
    OptionError
        For an unknown option value.
    """
    n = _resolution(resolution)
    as_choice(rendering, "rendering", get_args(Rendering))
    x, faces = _arrays(body)
    view = _view(voi, n, from_low)
    stencil, depth = np.zeros((n, n), dtype=np.int32), np.zeros((n, n))
    # Pass 1 computes n_max and the first LDI layer.
    _render(x, faces, view, 1, True, stencil, depth)
    n_p = stencil.copy()
    n_max = int(n_p.max())
    layers = np.ones((n, n, n_max))
    if rendering == "a_buffer":
        stencil[:] = 0
        _render_all(x, faces, view, stencil, layers)
    elif n_max:
        layers[:, :, 0] = depth
        for layer in range(2, n_max + 1):  # passes 2 to n_max for remaining LDI layers
            stencil[:], depth[:] = 0, 1.0  # glClear
            _render(x, faces, view, layer, False, stencil, depth)
            layers[:, :, layer - 1] = depth  # read-back
    _sort(n_p, layers)
    return LayeredDepthImage(voi, from_low, n_p, layers)


@inlined
def _first_from(centre: Floats, scale: float, value: float) -> int:
    """Index of the first pixel centre that is not below a value: a guess, then corrected by comparisons."""
    n = len(centre)
    i = int(min(max((value - centre[0]) * scale, 0.0), float(n)))
    while i > 0 and centre[i - 1] >= value:
        i -= 1
    while i < n and centre[i] < value:
        i += 1
    return i


@inlined
def _covers(p: Point, q: Point, r: Point) -> bool:
    """Whether r lies left of the edge pq, or on it if the edge owns its points: one of its two directions does."""
    side = orient2d(p, q, r)
    return side > 0 or (side == 0 and (q[1] > p[1] or (q[1] == p[1] and q[0] < p[0])))


@inlined
def _depth_at(p: Point, a: Point, b: Point, c: Point, da: float, db: float, dc: float) -> float:
    """Depth of the triangle at p by barycentric coordinates, never beyond its corners."""
    size = max(abs(b[0] - a[0]), abs(c[0] - a[0]), abs(b[1] - a[1]), abs(c[1] - a[1]))
    bu, bv, cu, cv = (b[0] - a[0]) / size, (b[1] - a[1]) / size, (c[0] - a[0]) / size, (c[1] - a[1]) / size
    pu, pv = (p[0] - a[0]) / size, (p[1] - a[1]) / size
    area = bu * cv - bv * cu
    depth = da
    if area > 0.0:
        depth += (pu * cv - pv * cu) / area * (db - da) + (bu * pv - bv * pu) / area * (dc - da)
    return min(max(depth, min(da, db, dc)), max(da, db, dc))


@inlined
def _rasterise(x: Floats, faces: Ints, t: int, view: View, column: Ints, row: Ints, z: Floats) -> int:
    """Write the fragments of one triangle within the VoI; return their number. Triangles are never clipped."""
    i, j, k = faces[t, 0], faces[t, 1], faces[t, 2]
    centre_u, centre_v = view.centre_u, view.centre_v
    a, b, c = (x[i, view.u], x[i, view.v]), (x[j, view.u], x[j, view.v]), (x[k, view.u], x[k, view.v])
    first_u = _first_from(centre_u, view.scale_u, min(a[0], b[0], c[0]))
    if first_u == len(centre_u) or centre_u[first_u] > max(a[0], b[0], c[0]):
        return 0
    first_v = _first_from(centre_v, view.scale_v, min(a[1], b[1], c[1]))
    if first_v == len(centre_v) or centre_v[first_v] > max(a[1], b[1], c[1]):
        return 0
    da, db, dc = x[i, view.d], x[j, view.d], x[k, view.d]
    turn = orient2d(a, b, c)
    if turn == 0:  # seen on edge
        return 0
    if turn < 0:
        b, c, db, dc = c, b, dc, db
    high_u, high_v, count = max(a[0], b[0], c[0]), max(a[1], b[1], c[1]), 0
    for r in range(first_v, len(centre_v)):
        if centre_v[r] > high_v:
            break
        for s in range(first_u, len(centre_u)):
            if centre_u[s] > high_u:
                break
            p = (centre_u[s], centre_v[r])
            if _covers(a, b, p) and _covers(b, c, p) and _covers(c, a, p):
                depth = (_depth_at(p, a, b, c, da, db, dc) - view.near) / (view.far - view.near)
                if depth <= 1.0:  # clipped by the far plane
                    column[count], row[count], z[count] = s, r, depth
                    count += 1
    return count


@compiled
def _render(
    x: Floats, faces: Ints, view: View, reference: int, increments_on_fail: bool, stencil: Ints, depth: Floats
) -> None:
    """One rendering pass: ``glStencilFunc(GL_GREATER, reference)``, and increment where the test passes.

    ``increments_on_fail`` is the first argument of ``glStencilOp``: GL_INCR in pass 1, GL_KEEP in later passes.
    """
    column, row = np.empty(stencil.size, np.int32), np.empty(stencil.size, np.int32)
    z = np.empty(stencil.size)
    for t in range(len(faces)):
        for f in range(_rasterise(x, faces, t, view, column, row, z)):
            r, s = row[f], column[f]
            if reference > stencil[r, s]:
                depth[r, s] = z[f]
                stencil[r, s] += 1
            elif increments_on_fail:
                stencil[r, s] += 1


@compiled
def _render_all(x: Floats, faces: Ints, view: View, stencil: Ints, layers: Floats) -> None:
    """The second pass of an A-buffer: write every fragment to the next layer of its pixel."""
    column, row = np.empty(stencil.size, np.int32), np.empty(stencil.size, np.int32)
    z = np.empty(stencil.size)
    for t in range(len(faces)):
        for f in range(_rasterise(x, faces, t, view, column, row, z)):
            r, s = row[f], column[f]
            layers[r, s, stencil[r, s]] = z[f]
            stencil[r, s] += 1


@compiled
def _sort(n_p: Ints, layers: Floats) -> None:
    """Sort the first n_p layers of each pixel by depth and discard the others (Fig. 4)."""
    for r in range(n_p.shape[0]):
        for s in range(n_p.shape[1]):
            layers[r, s, n_p[r, s] :] = 1.0
            for k in range(1, n_p[r, s]):
                z, m = layers[r, s, k], k
                while m > 0 and layers[r, s, m - 1] > z:
                    layers[r, s, m] = layers[r, s, m - 1]
                    m -= 1
                layers[r, s, m] = z


# Stage 3: collision detection (3.3) --------------------------------------------------------------------------


@dataclass(frozen=True)
class IntersectionVolume:
    """The discrete intersection volume."""

    volume: float
    """Area of a pixel times the length of all spans."""
    pixel: Ints
    """Column and row of each span, shape (k, 2)."""
    span: Floats
    """Lower and upper end of each span, a coordinate along the viewing axis, shape (k, 2)."""

    @property
    def collides(self) -> bool:
        """Whether the intersection is non-empty."""
        return len(self.span) > 0


def intersection_volume(ldi_a: LayeredDepthImage, ldi_b: LayeredDepthImage) -> IntersectionVolume:
    """Intersect the inside regions of two LDIs pixel by pixel (stage 3a).

    Parameters
    ----------
    ldi_a, ldi_b
        LDIs of the same VoI and resolution, rendered from opposite sides.

    Returns
    -------
    IntersectionVolume
        Spans in the order of rows, columns and depths of A, and their volume.

    Raises
    ------
    OptionError
        If the LDIs do not belong together.
    """
    voi, n = ldi_a.voi, ldi_a.resolution
    if ldi_b.voi != voi or ldi_b.resolution != n or ldi_a.from_low == ldi_b.from_low:
        raise OptionError("the LDIs differ in VoI or resolution or are seen from one side; render both for one VoI")
    room = n * n * ((ldi_a.n_max + 1) // 2 + (ldi_b.n_max + 1) // 2)
    pixel, z = np.zeros((room, 2), dtype=np.int32), np.zeros((room, 2))
    count = _intersect(ldi_a.n_p, ldi_a.layers, ldi_b.n_p, ldi_b.layers, pixel, z)
    pixel, z = pixel[:count].copy(), z[:count].copy()
    width, height = voi.pixel_size(n)
    volume = width * height * voi.distance * float((z[:, 1] - z[:, 0]).sum())
    low, high = voi.low[voi.axis], voi.high[voi.axis]
    span = low + z * voi.distance if ldi_a.from_low else high - z[:, ::-1] * voi.distance
    return IntersectionVolume(volume, pixel, span)


@compiled
def _intersect(n_p_a: Ints, layers_a: Floats, n_p_b: Ints, layers_b: Floats, pixel: Ints, z: Floats) -> int:
    """Write the common spans of all pixels, in depths of A; return their number.

    Regions of A are [layer 1, layer 2], [layer 3, layer 4], ...; the last ends at 1 if its leaving point is missing.
    Those of B are read from the last to the first and turned round: 1 - z is the depth as seen from the other side.
    """
    count = 0
    for r in range(n_p_a.shape[0]):
        for s in range(n_p_a.shape[1]):
            a, b = 0, (n_p_b[r, s] - 1) // 2 * 2  # the first region of A and the last of B
            while a < n_p_a[r, s] and b >= 0 and n_p_b[r, s] > 0:
                entry_a, leave_a = layers_a[r, s, a], 1.0
                if a + 1 < n_p_a[r, s]:
                    leave_a = layers_a[r, s, a + 1]
                entry_b, leave_b = 0.0, 1.0 - layers_b[r, s, b]
                if b + 1 < n_p_b[r, s]:
                    entry_b = 1.0 - layers_b[r, s, b + 1]
                first, last = max(entry_a, entry_b), min(leave_a, leave_b)
                if last - first > DEPTH_STEP:
                    pixel[count, 0], pixel[count, 1] = s, r
                    z[count, 0], z[count, 1] = first, last
                    count += 1
                if leave_a < leave_b:
                    a += 2
                else:
                    b -= 2
    return count


def vertices_in_volume(ldi: LayeredDepthImage, vertices: Any) -> Bools:
    """Find the vertices that lie in an inside region of an LDI (stage 3b).

    Parameters
    ----------
    ldi
        The LDI of an object.
    vertices
        Positions, shape (n, 3): vertices of the other object, or particles.

    Returns
    -------
    array of bool, shape (n,)
        True inside the object and on its boundary, up to the size of a pixel. False outside the VoI.
    """
    x, voi = as_positions(vertices, name="vertices"), ldi.voi
    view = _view(voi, ldi.resolution, ldi.from_low)
    inside = np.zeros(len(x), dtype=np.bool_)
    _classify(x, view, voi.low, voi.high, ldi.n_p, ldi.layers, inside)
    return inside


@compiled
def _classify(x: Floats, view: View, low: Vector, high: Vector, n_p: Ints, layers: Floats, inside: Bools) -> None:
    """Mark the vertices in inside regions; those outside the VoI are in none."""
    n = len(n_p)
    for i in range(len(x)):
        if not (low[0] <= x[i, 0] <= high[0] and low[1] <= x[i, 1] <= high[1] and low[2] <= x[i, 2] <= high[2]):
            continue
        s = min(int((x[i, view.u] - low[view.u]) * view.scale_u), n - 1)
        r = min(int((x[i, view.v] - low[view.v]) * view.scale_v), n - 1)
        z = (x[i, view.d] - view.near) / (view.far - view.near)
        for k in range(0, n_p[r, s], 2):
            leave = layers[r, s, k + 1] if k + 1 < n_p[r, s] else 1.0
            if layers[r, s, k] <= z <= leave:
                inside[i] = True
                break


# All stages ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collision:
    """What the three stages found."""

    voi: VolumeOfInterest | None
    """None if the AABBs share no volume; then there are no LDIs either."""
    ldi_a: LayeredDepthImage | None
    ldi_b: LayeredDepthImage | None
    volume: IntersectionVolume | None
    """Result of stage 3a, None without that query or without a VoI."""
    vertices: tuple[Ints, Ints]
    """Result of stage 3b: ids of the vertices of A inside B, and of those of B inside A; empty without that query."""

    @property
    def collides(self) -> bool:
        """Whether a query detected a collision."""
        return (self.volume is not None and self.volume.collides) or any(len(ids) > 0 for ids in self.vertices)


def collide(
    a: Any,
    b: Any,
    *,
    resolution: int = 128,
    rendering: Rendering = "peeling",
    outside_faces: OutsideFaces = "eligible",
    axis: Literal[0, 1, 2] | None = None,
    query: Query = "volume",
) -> Collision:
    """Run all three stages for a pair of objects.

    Parameters
    ----------
    a, b
        Watertight surfaces: TriMesh, TetMesh, (vertices, faces) or a path.
    resolution
        Pixels per side of both LDIs.
    rendering
        Passes of stage 2, see ``layered_depth_image``.
    outside_faces, axis
        Choice of stage 1, see ``volume_of_interest``.
    query
        Collision query of stage 3: ``"volume"`` (3a), ``"vertices"`` (3b) or ``"both"``.

    Returns
    -------
    Collision
        VoI, LDIs, intersection volume and penetrating vertices.

    Raises
    ------
    OptionError
        For an unknown option value.
    MeshError
        If a surface is not closed.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> inner, outer = shapes.box(1.0), shapes.box(3.0)
    >>> found = collide(inner, outer, resolution=16, query="both")
    >>> found.voi.extended, found.volume.volume, len(found.vertices[0]), len(found.vertices[1])
    (True, 1.0, 8, 0)
    """
    as_choice(query, "query", get_args(Query))
    surface_a, surface_b = as_surface(a, name="a"), as_surface(b, name="b")
    for name, surface in (("a", surface_a), ("b", surface_b)):
        if len(surface) and not surface.is_closed:
            raise MeshError(f"object {name} is not watertight; close its holes and merge equal vertices")
    none = np.zeros(0, dtype=np.int32)
    voi = volume_of_interest(aabb(surface_a), aabb(surface_b), outside_faces=outside_faces, axis=axis)
    if voi is None:
        return Collision(None, None, None, None, (none, none))
    ldi_a, ldi_b = (
        layered_depth_image(surface, voi, from_low=from_low, resolution=resolution, rendering=rendering)
        for surface, from_low in ((surface_a, voi.a_from_low), (surface_b, not voi.a_from_low))
    )
    volume, vertices = None, (none, none)
    if query != "vertices":
        volume = intersection_volume(ldi_a, ldi_b)
    if query != "volume":
        vertices = _penetrating(surface_a, ldi_b), _penetrating(surface_b, ldi_a)
    return Collision(voi, ldi_a, ldi_b, volume, vertices)


def _penetrating(body: TriMesh, ldi: LayeredDepthImage) -> Ints:
    """Ids of the vertices of a body inside the object of an LDI."""
    ids = body.used_vertices
    return ids[vertices_in_volume(ldi, body.vertices[ids])]


def _arrays(body: TriMesh) -> tuple[Floats, Ints]:
    """Positions and live faces."""
    snapshot = body.snapshot()
    is_whole = len(snapshot.live) == len(snapshot.elements)
    return snapshot.vertices, snapshot.elements if is_whole else snapshot.elements[snapshot.live]


def _resolution(resolution: Any) -> int:
    is_whole = isinstance(resolution, int | np.integer) and not isinstance(resolution, bool)
    if not is_whole or not 1 <= resolution <= MAX_RESOLUTION:
        raise OptionError(f"resolution is {shown(resolution)}, expected 1 to {MAX_RESOLUTION} pixels per side")
    return int(resolution)
