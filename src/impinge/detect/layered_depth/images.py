"""Layered depth images: what they show, and how they are made and asked on the CPU; see ``layered_depth``."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.scan import exclusive_scan
from impinge.checks import Bools, Floats, Ints
from impinge.detect.layered_depth import raster_kernels as kernels
from impinge.detect.layered_depth import spans_kernels as span_kernels
from impinge.detect.layered_depth.raster_kernels import CHUNKS

Sorted: TypeAlias = tuple[NDArray[np.int64], Floats, Ints, int]
"""Starts of pixels, depths, faces, and how many fragments there are."""

MOST_BITS = 16
"""Bits of a snapped coordinate behind the point."""
LEAST_BITS = 8
"""Fewer than these would move vertices visibly; then nothing is snapped, and signs are exact instead."""
WHOLE_BITS = 29
"""Bits of a snapped coordinate in all: differences below 2^31, products below 2^62, so that their sums fit 64 bits."""
KEPT_FRAGMENTS = 1 << 22
"""Fragments that scratch memory is kept for, 64 MB; more is made anew every time."""


class View(NamedTuple):
    """What an image shows: a box seen along an axis, in resolution x resolution pixels."""

    axis: int
    """The axis that depth is measured along; columns go along the next one, rows along the one after."""
    resolution: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    from_low: bool
    """Whether the body is outside at the low end of every ray; else at the high end."""
    cut: bool
    """Whether fragments beyond the other end are left out."""

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
        """Where the rays of columns and of rows are, shape (2, resolution)."""
        steps = np.arange(self.resolution) + 0.5
        return np.stack([self.low[k] + steps * size for k, size in zip(self.window_axes, self.pixel_size)])

    @property
    def depths(self) -> tuple[float, float]:
        """Least and largest depth of the box."""
        return self.low[self.axis], self.high[self.axis]

    @property
    def kept_depths(self) -> tuple[float, float]:
        """Least and largest depth of the fragments that are kept."""
        if not self.cut:
            return -math.inf, math.inf
        return (-math.inf, self.high[self.axis]) if self.from_low else (self.low[self.axis], math.inf)

    @property
    def frame(self) -> tuple[Any, ...]:
        """The window as kernels for points take it."""
        u, v = self.window_axes
        corners = (self.low[u], self.low[v], self.high[u], self.high[v])
        return (u, v, self.axis, *corners, *self.scale, self.resolution)

    def grid(self, bits: int) -> tuple[Any, ...]:
        """The window as kernels for triangles take it."""
        u, v = self.window_axes
        units = 2.0**bits
        return u, v, self.low[u], self.low[v], self.scale[0] * units, self.scale[1] * units

    def raster(self, bits: int) -> tuple[Any, ...]:
        """Pixels and depths as kernels for triangles take them."""
        return bits, self.resolution, *self.kept_depths

    def bits(self, bounds: Floats) -> int:
        """Bits behind the point that are left for the coordinates of a body that may be much larger than the window."""
        largest = 1.0
        for k, scale in zip(self.window_axes, self.scale):
            largest = max(largest, *(abs(float(bound[k]) - self.low[k]) * scale for bound in bounds))
        if not largest < 2.0**WHOLE_BITS:
            return 0
        return min(MOST_BITS, WHOLE_BITS - math.ceil(math.log2(largest)))


class Spans(NamedTuple):
    """Spans along rays, sorted by pixel and depth, on the host."""

    span: Floats
    """First and last depth, shape (k, 2)."""
    pixel: Ints
    """Row · resolution + column, shape (k,)."""
    tri: Ints
    """The triangles that it begins and ends with; 0 of bodies that have none, shape (k, 2)."""
    side: NDArray[np.int8]
    """Whose triangles they are: 0 a, 1 b, shape (k, 2)."""

    @property
    def length(self) -> Floats:
        """Length of each span."""
        length: Floats = self.span[:, 1] - self.span[:, 0]
        return length

    def only(self, rows: Any) -> Spans:
        """Some of them."""
        return Spans(self.span[rows], self.pixel[rows], self.tri[rows], self.side[rows])


@dataclass(frozen=True)
class Solid:
    """One body as a query sees it."""

    x: Floats
    faces: Ints
    ids: Ints
    """The triangles that count."""
    used: Ints
    """The vertices of these."""
    bounds: Floats
    """Lowest and highest corner, lo > hi if there is nothing, shape (2, 3)."""
    token: tuple[Hashable, ...]
    """The version of the body, and what else makes it what it is."""


@dataclass(frozen=True)
class Image:
    """Sorted fragments of one body in one view; the arrays are on the device."""

    view: View
    solid: Solid
    pixel_start: Any
    depth: Any
    face: Any
    count: int
    """How many fragments there are; arrays of a device without any still have a row."""
    bits: int
    """Bits of snapped coordinates, 0 if nothing was snapped."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """The arrays as kernels take them."""
        return self.pixel_start, self.depth, self.face, self.view.from_low

    @property
    def size(self) -> int:
        """Pixels and fragments."""
        return self.view.resolution**2 + self.count

    @property
    def has_planes(self) -> bool:
        """Whether fragments belong to triangles."""
        return len(self.solid.faces) > 0

    def assert_valid(self, device: Device) -> None:
        """Check that fragments are sorted, and, where none was cut off, that every ray leaves as often as it enters."""
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


class Device(Protocol):
    """Where images are made and asked."""

    name: str

    def download(self, array: Any) -> Any:
        """An array of the device on the host."""

    def draw(self, solid: Solid, view: View, scratch: Scratch) -> Image:
        """Make an image of a body."""

    def place(self, solid: Solid, view: View, pixel: Ints, depth: Floats, face: Ints) -> Image:
        """Make an image of fragments that somebody else found."""

    def spans(self, a: Image, b: Image, rule: int) -> Spans:
        """Where both bodies are inside."""

    def inside(self, image: Image, points: Floats, ids: Ints, rule: int, reach: float) -> Bools:
        """Which of the points ``ids`` are inside; crossings are moved to the points by up to ``reach``."""

    def near_inside(self, image: Image, points: Floats, ids: Ints, rule: int, reach: float) -> Bools:
        """Which of the points ``ids`` are inside, or no farther than ``reach`` from it along the ray."""


# On the CPU ------------------------------------------------------------------------------------------------


class Scratch:
    """Memory for the lists of fragments, kept from frame to frame."""

    def __init__(self) -> None:
        self._placed = np.zeros((0, 2))
        self.forget()

    def forget(self) -> None:
        """Let the lists go."""
        self.count = np.zeros(CHUNKS, dtype=np.int64)
        self.make_room()

    def make_room(self) -> None:
        """Give each chunk room for what it counted and a quarter more."""
        self.first = exclusive_scan(self.count + self.count // 4 + 256)
        total = int(self.first[-1])
        self.pixel, self.face = np.zeros((2, total), dtype=np.int32)
        self.depth = np.zeros(total)

    @property
    def is_large_enough(self) -> bool:
        """Whether all fragments found room."""
        return bool((self.count <= np.diff(self.first)).all())

    @property
    def lists(self) -> tuple[Any, ...]:
        """The lists as kernels take them."""
        return self.first, self.count, self.pixel, self.depth, self.face

    def placed_for(self, vertex_count: int) -> tuple[Ints, Floats]:
        """Room for snapped vertices and their depths: 16 bytes each, so that one vertex is in one line of the cache."""
        if len(self._placed) < vertex_count:
            self._placed = np.zeros((vertex_count, 2))
        return self._placed.view(np.int32)[:, :2], self._placed[:, 1]


class Cpu:
    """Threads and NumPy arrays."""

    name = "cpu"

    def download(self, array: Any) -> Any:
        """The array itself."""
        return array

    def draw(self, solid: Solid, view: View, scratch: Scratch) -> Image:
        """Make an image of a body."""
        bits = view.bits(solid.bounds)
        exact = bits < LEAST_BITS
        raster, threads = view.raster(bits), thread_count()
        if not exact:
            placed = scratch.placed_for(len(solid.x))
            kernels.snap_vertices.over(len(solid.used))(solid.x, solid.used, view.grid(bits), view.axis, *placed)

        def render() -> None:
            first, count, *lists = scratch.lists
            if exact:
                where = (view.centres, view.grid(0), view.axis, raster)
                kernels.rasterise_exactly.over(len(solid.ids))(
                    solid.x, solid.faces, solid.ids, *where, first, *lists, count
                )
            else:
                counter = np.zeros(1, dtype=np.int64)
                kernels.rasterise.over(len(solid.ids))(
                    solid.faces, solid.ids, *placed, raster, threads, counter, first, *lists, count
                )

        render()
        if not scratch.is_large_enough:
            scratch.make_room()
            render()
        arrays = _sorted(view, *scratch.lists)
        if scratch.first[-1] > KEPT_FRAGMENTS:
            scratch.forget()
        return Image(view, solid, *arrays, bits=0 if exact else bits)

    def place(self, solid: Solid, view: View, pixel: Ints, depth: Floats, face: Ints) -> Image:
        """Make an image of fragments that somebody else found."""
        count = np.array([len(pixel)], dtype=np.int64)
        return Image(view, solid, *_sorted(view, np.array([0, len(pixel)]), count, pixel, depth, face), bits=0)

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
        mesh = (image.solid.x, image.solid.faces)
        options = (image.view.frame, *image.view.depths, image.layers, rule, reach, *mesh)
        span_kernels.mark_points_inside.over(len(ids))(points, ids, *options, inside)
        return inside

    def near_inside(self, image: Image, points: Floats, ids: Ints, rule: int, reach: float) -> Bools:
        """Which of the points ``ids`` are inside, or no farther than ``reach`` from it along the ray."""
        inside = np.zeros(len(ids), dtype=np.bool_)
        options = (image.view.frame, image.layers, rule, reach)
        span_kernels.mark_points_near_inside.over(len(ids))(points, ids, *options, inside)
        return inside


def _empty_spans(count: int) -> Spans:
    return Spans(
        np.zeros((count, 2)),
        np.zeros(count, dtype=np.int32),
        np.zeros((count, 2), dtype=np.int32),
        np.zeros((count, 2), dtype=np.int8),
    )


def _sorted(view: View, first: Any, count: Any, pixel: Ints, depth: Floats, face: Ints) -> Sorted:
    """Sort lists of fragments by pixel, depth and triangle."""
    pixel_count = np.zeros(view.resolution**2, dtype=np.int32)
    work = int(count.sum())
    kernels.count_pixels.over(work)(thread_count(), first, count, pixel, pixel_count)
    start = exclusive_scan(pixel_count)
    kept_depth, kept_face = np.zeros(work), np.zeros(work, dtype=np.int32)
    lists = (first, count, pixel, depth, face)
    kernels.place_fragments.over(work)(thread_count(), *lists, start, pixel_count, kept_depth, kept_face)
    return start, kept_depth, kept_face, work
