"""Layered depth images: their contents, and how the CPU draws and evaluates them; ``detector`` has the method."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.checks import Bools, Floats, Ints
from impinge.detect.layered_depth import raster_kernels as kernels
from impinge.detect.layered_depth import spans_kernels as span_kernels
from impinge.detect.layered_depth.raster_kernels import CHUNKS

MOST_BITS = 16
"""Fractional bits of a snapped coordinate."""
LEAST_BITS = 8
"""Fewer fractional bits would move vertices visibly; then nothing is snapped, and signs are exact instead."""
WHOLE_BITS = 29
"""Bits of a snapped coordinate in all: differences below 2^31, products below 2^62, and their sums fit 64 bits."""
KEPT_FRAGMENTS = 1 << 22
"""Fragments up to which scratch memory is kept, 64 MB; larger buffers are released after each image."""


class View(NamedTuple):
    """What an image shows: a box seen along an axis, in resolution x resolution pixels."""

    axis: int
    """The axis of depth; columns go along the next one, rows along the one after."""
    resolution: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    from_low: bool
    """Whether the body is outside at the low end of every ray; else at the high end."""
    cut: bool
    """Whether fragments beyond the other end are dropped."""

    @property
    def window_axes(self) -> tuple[int, int]:
        """The axes of columns and rows."""
        return (self.axis + 1) % 3, (self.axis + 2) % 3

    @property
    def pixel_size(self) -> tuple[float, float]:
        """Width and height of a pixel."""
        u, v = self.window_axes
        return (self.high[u] - self.low[u]) / self.resolution, (self.high[v] - self.low[v]) / self.resolution

    @property
    def diagonal(self) -> float:
        """Diagonal of a pixel."""
        return math.hypot(*self.pixel_size)

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels per length along columns and rows."""
        u, v = self.window_axes
        return self.resolution / (self.high[u] - self.low[u]), self.resolution / (self.high[v] - self.low[v])

    @property
    def centres(self) -> Floats:
        """Coordinates of pixel centres along columns and along rows, shape (2, resolution)."""
        steps = np.arange(self.resolution) + 0.5
        return np.stack([self.low[k] + steps * size for k, size in zip(self.window_axes, self.pixel_size)])

    @property
    def kept_depths(self) -> tuple[float, float]:
        """Least and largest depth of the fragments that are kept."""
        if not self.cut:
            return -math.inf, math.inf
        return (-math.inf, self.high[self.axis]) if self.from_low else (self.low[self.axis], math.inf)

    @property
    def window(self) -> tuple[Any, ...]:
        """Argument ``window`` of ``spans_kernels``."""
        u, v = self.window_axes
        corners = (self.low[u], self.low[v], self.high[u], self.high[v])
        return (u, v, self.axis, *corners, *self.scale, self.resolution)

    def grid(self, bits: int) -> tuple[Any, ...]:
        """Argument ``grid`` of ``raster_kernels``."""
        u, v = self.window_axes
        return u, v, self.low[u], self.low[v], self.scale[0] * 2.0**bits, self.scale[1] * 2.0**bits

    def raster(self, bits: int) -> tuple[Any, ...]:
        """Argument ``raster`` of ``raster_kernels``."""
        return bits, self.resolution, *self.kept_depths

    def bits(self, bounds: Floats) -> int:
        """Fractional bits of snapped coordinates of a body with these bounds; 0 if too few are left to snap."""
        largest = 1.0
        for k, scale in zip(self.window_axes, self.scale):
            largest = max(largest, *(abs(float(bound[k]) - self.low[k]) * scale for bound in bounds))
        if not largest < 2.0**WHOLE_BITS:
            return 0
        bits = min(MOST_BITS, WHOLE_BITS - math.ceil(math.log2(largest)))
        return bits if bits >= LEAST_BITS else 0


class Spans(NamedTuple):
    """Spans along rays, sorted by pixel and depth, on the host."""

    span: Floats
    """First and last depth, shape (k, 2)."""
    pixel: Ints
    """Row · resolution + column, shape (k,)."""
    tri: Ints
    """The triangles that it begins and ends with; 0 for bodies without triangles, shape (k, 2)."""
    side: NDArray[np.int8]
    """The bodies of these triangles: 0 a, 1 b, shape (k, 2)."""

    @property
    def length(self) -> Floats:
        """Length of each span."""
        length: Floats = self.span[:, 1] - self.span[:, 0]
        return length

    def only(self, rows: Any) -> Spans:
        """A selection of rows."""
        return Spans(self.span[rows], self.pixel[rows], self.tri[rows], self.side[rows])


@dataclass(frozen=True)
class Solid:
    """A closed body in the state that a query reads."""

    x: Floats
    faces: Ints
    ids: Ints
    """The triangles that take part."""
    used: Ints
    """The vertices of these."""
    bounds: Floats
    """Lowest and highest corner, lo > hi if there is nothing, shape (2, 3)."""
    token: tuple[Hashable, ...]
    """Version, transform and active triangles."""


@dataclass(frozen=True)
class Image:
    """Sorted fragments of one body in one view; the arrays are on the device."""

    view: View
    solid: Solid
    pixel_start: Any
    depth: Any
    face: Any
    count: int
    """Number of fragments; arrays of a device have at least one row."""
    bits: int
    """Fractional bits of snapped coordinates, 0 if nothing was snapped."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """Argument ``layers`` of ``spans_kernels``."""
        return self.pixel_start, self.depth, self.face, self.view.from_low

    @property
    def size(self) -> int:
        """Pixels and fragments."""
        return self.view.resolution**2 + self.count

    @property
    def has_planes(self) -> bool:
        """Whether fragments belong to triangles."""
        return len(self.solid.faces) > 0

    def assert_valid(self, device: Cpu) -> None:
        """Check that fragments are sorted and, where none was cut, that every ray leaves as often as it enters."""
        start, depth, face = (device.download(array) for array in (self.pixel_start, self.depth, self.face))
        pixel = np.repeat(np.arange(len(start) - 1), np.diff(start))
        assert len(start) == self.view.resolution**2 + 1
        assert start[-1] == self.count
        depth, face = depth[: self.count], face[: self.count]
        same = pixel[1:] == pixel[:-1]
        tri = np.where(face < 0, ~face, face)
        assert (depth[1:] >= depth[:-1])[same].all()
        if self.has_planes:
            assert (tri[1:] > tri[:-1])[same & (depth[1:] == depth[:-1])].all()
        if not self.view.cut:
            winding = np.bincount(pixel, weights=np.where(face < 0, -1, 1), minlength=len(start) - 1)
            assert not winding.any(), f"{np.count_nonzero(winding)} rays do not leave as often as they enter"


class Scratch:
    """Memory for snapped vertices and for the fragments of each chunk of triangles, kept from frame to frame."""

    def __init__(self) -> None:
        self._placed = np.zeros((0, 2))
        self.count = np.zeros(CHUNKS, dtype=np.int64)
        self.make_room()

    def make_room(self) -> None:
        """Give each chunk room for its count and a quarter more."""
        self.first = exclusive_scan(self.count + self.count // 4 + 256)
        total = int(self.first[-1])
        self.pixel, self.face = np.zeros((2, total), dtype=np.int32)
        self.depth = np.zeros(total)

    def placed_for(self, vertex_count: int) -> tuple[Ints, Floats]:
        """Room for snapped vertices and their depths: 16 bytes each, hence one vertex in one cache line."""
        if len(self._placed) < vertex_count:
            self._placed = np.zeros((vertex_count, 2))
        return self._placed.view(np.int32)[:, :2], self._placed[:, 1]


class Cpu:
    """Draws and evaluates images with threads and NumPy arrays; base of other devices."""

    name = "cpu"

    def download(self, array: Any) -> Any:
        """An array of the device on the host."""
        return array

    def draw(self, solid: Solid, view: View, scratch: Scratch) -> Image:
        """Draw an image of a body."""
        bits = view.bits(solid.bounds)
        raster, triangles = view.raster(bits), len(solid.ids)
        if bits:
            placed = scratch.placed_for(len(solid.x))
            kernels.snap_vertices.over(len(solid.used))(solid.x, solid.used, view.grid(bits), view.axis, *placed)
        while True:
            lists = (scratch.first, scratch.pixel, scratch.depth, scratch.face, scratch.count)
            if bits:
                counter = np.zeros(1, dtype=np.int64)
                kernels.rasterise.over(triangles)(
                    solid.faces, solid.ids, *placed, raster, thread_count(), counter, *lists
                )
            else:
                where = (view.centres, view.grid(0), view.axis, raster)
                kernels.rasterise_exactly.over(triangles)(solid.x, solid.faces, solid.ids, *where, *lists)
            if (scratch.count <= np.diff(scratch.first)).all():
                break
            scratch.make_room()
        arrays = _sorted(view, scratch.first, scratch.count, scratch.pixel, scratch.depth, scratch.face)
        if scratch.first[-1] > KEPT_FRAGMENTS:
            scratch.count[:] = 0
            scratch.make_room()
        return Image(view, solid, *arrays, bits)

    def place(self, solid: Solid, view: View, pixel: Ints, depth: Floats, face: Ints) -> Image:
        """Make an image of unsorted fragments."""
        first = np.array([0, len(pixel)])
        return Image(view, solid, *_sorted(view, first, first[1:], pixel, depth, face), 0)

    def spans(self, a: Image, b: Image, rule: int) -> Spans:
        """Where both bodies are inside."""
        count = np.zeros(a.view.resolution**2, dtype=np.int32)
        loose = _empty_spans((a.count + b.count) // 2)
        span_kernels.find_spans.over(len(count))(a.layers, b.layers, rule, *loose, count)
        start = exclusive_scan(count)
        spans = _empty_spans(int(start[-1]))
        span_kernels.pack_spans.over(len(spans.pixel))(a.pixel_start, b.pixel_start, start, tuple(loose), *spans)
        return spans

    def inside(self, image: Image, points: Floats, ids: Ints, rule: int, reach: float) -> Bools:
        """Which of the points ``ids`` are inside; crossings are moved to the points by up to ``reach``."""
        inside = np.zeros(len(ids), dtype=np.bool_)
        view, solid = image.view, image.solid
        options = (view.window, view.low[view.axis], view.high[view.axis], image.layers, rule, reach)
        span_kernels.mark_points_inside.over(len(ids))(points, ids, *options, solid.x, solid.faces, inside)
        return inside

    def near_inside(self, image: Image, points: Floats, ids: Ints, rule: int, reach: float) -> Bools:
        """Which of the points ``ids`` are inside, or within ``reach`` of it along the ray."""
        inside = np.zeros(len(ids), dtype=np.bool_)
        options = (image.view.window, image.layers, rule, reach)
        span_kernels.mark_points_near_inside.over(len(ids))(points, ids, *options, inside)
        return inside


def _empty_spans(count: int) -> Spans:
    pairs = (count, 2)
    return Spans(np.zeros(pairs), np.zeros(count, np.int32), np.zeros(pairs, np.int32), np.zeros(pairs, np.int8))


def _sorted(
    view: View, first: NDArray[np.int64], count: NDArray[np.int64], pixel: Ints, depth: Floats, face: Ints
) -> tuple[NDArray[np.int64], Floats, Ints, int]:
    """Sort lists of fragments by pixel, depth and triangle: starts of pixels, depths, faces, number."""
    pixel_count = np.zeros(view.resolution**2, dtype=np.int32)
    total = int(count.sum())
    kernels.count_pixels.over(total)(thread_count(), first, count, pixel, pixel_count)
    start = exclusive_scan(pixel_count)
    out = np.zeros(total), np.zeros(total, dtype=np.int32)
    kernels.place_fragments.over(total)(thread_count(), first, count, pixel, depth, face, start, pixel_count, *out)
    return start, *out, total
