"""The bodies of ``layered_depth_kernels`` and ``layered_depth_spans_kernels`` on a CUDA grid, and the device that
``LayeredDepth`` sees.

Triangles count their fragments, a scan tells where each writes, and they write. Fragments then find their pixels by
atomic counters, whose order does not show: every pixel is sorted afterwards, and no two fragments are equal. Bodies too
large for snapped coordinates are drawn on the CPU, since exact signs need memory that a grid has not.
"""  # noqa: D205 - one sentence

# mypy: ignore-errors

import numpy as np

from impinge.backend.cuda import cuda, grid_kernel, require_device
from impinge.detect.layered_depth import raster_kernels as bodies
from impinge.detect.layered_depth import spans_kernels as span_bodies
from impinge.detect.layered_depth.images import LEAST_BITS, Cpu, Image, Spans

__all__ = ["Cuda"]

RUN = 1024
"""Counts that one thread of a scan sums."""


@grid_kernel
def snap_vertices(x, used, grid, d, snapped, height):
    """Snap all vertices that triangles use."""
    i = cuda.grid(1)
    if i < len(used):
        bodies.snap_vertex(i, x, used, grid, d, snapped, height)


@grid_kernel
def count_fragments(faces, ids, snapped, height, raster, pixel, depth, face, count):
    """How many fragments each triangle has; none are written."""
    i = cuda.grid(1)
    if i < len(ids):
        count[i] = bodies.emit_triangle(ids[i], faces, snapped, height, raster, 0, 0, pixel, depth, face)


@grid_kernel
def fill_fragments(faces, ids, snapped, height, raster, start, pixel, depth, face):
    """Write the fragments of all triangles."""
    i = cuda.grid(1)
    if i < len(ids):
        first, room = start[i], start[i + 1] - start[i]
        if room > 0:
            bodies.emit_triangle(ids[i], faces, snapped, height, raster, first, room, pixel, depth, face)


@grid_kernel
def zero_counts(count):
    """Start counting."""
    i = cuda.grid(1)
    if i < len(count):
        count[i] = 0


@grid_kernel
def count_pixels(pixel, pixel_count):
    """Fragments of each pixel."""
    f = cuda.grid(1)
    if f < len(pixel):
        cuda.atomic.add(pixel_count, pixel[f], 1)


@grid_kernel
def place_fragments(pixel, depth, face, pixel_start, pixel_count, sorted_depth, sorted_face):
    """Move fragments to their pixels, in any order; the counts are used up."""
    f = cuda.grid(1)
    if f < len(pixel):
        k = pixel_start[pixel[f]] + cuda.atomic.add(pixel_count, pixel[f], -1) - 1
        sorted_depth[k] = depth[f]
        sorted_face[k] = face[f]


@grid_kernel
def sort_pixels(pixel_start, depth, face):
    """Sort every pixel."""
    p = cuda.grid(1)
    if p < len(pixel_start) - 1:
        bodies.sort_pixel(p, pixel_start, depth, face)


@grid_kernel
def count_spans(layers_a, layers_b, rule, span, span_pixel, span_tri, span_side, count):
    """How many spans each ray has; none are written."""
    p = cuda.grid(1)
    if p < len(count):
        count[p] = span_bodies.emit_spans(p, layers_a, layers_b, rule, 0, 0, span, span_pixel, span_tri, span_side)


@grid_kernel
def fill_spans(layers_a, layers_b, rule, start, span, span_pixel, span_tri, span_side):
    """Write the spans of all rays."""
    p = cuda.grid(1)
    if p < len(start) - 1:
        first, room = start[p], start[p + 1] - start[p]
        if room > 0:
            span_bodies.emit_spans(p, layers_a, layers_b, rule, first, room, span, span_pixel, span_tri, span_side)


@grid_kernel
def mark_points_inside(points, ids, frame, low, high, layers, rule, reach, x, faces, inside):
    """Mark which of the points ``ids`` are inside."""
    i = cuda.grid(1)
    if i < len(ids):
        inside[i] = span_bodies.point_inside(i, points, ids, frame, low, high, layers, rule, reach, x, faces)


@grid_kernel
def mark_points_near_inside(points, ids, frame, layers, rule, reach, inside):
    """Mark which of the points ``ids`` are inside or near it."""
    i = cuda.grid(1)
    if i < len(ids):
        inside[i] = span_bodies.point_near_inside(i, points, ids, frame, layers, rule, reach)


@grid_kernel
def sum_runs(counts, run_sum):
    """Sum each run of counts."""
    r = cuda.grid(1)
    if r < len(run_sum):
        total = 0
        for i in range(r * RUN, min((r + 1) * RUN, len(counts))):
            total += counts[i]
        run_sum[r] = total


@grid_kernel
def scan_runs(counts, run_start, start):
    """Write the running sums of each run, and behind the last count the sum of all."""
    r = cuda.grid(1)
    if r < len(run_start):
        total = run_start[r]
        for i in range(r * RUN, min((r + 1) * RUN, len(counts))):
            start[i] = total
            total += counts[i]
        if r == len(run_start) - 1:
            start[len(counts)] = total


class Cuda:
    """A CUDA device; images stay there."""

    name = "cuda"

    def __init__(self):
        require_device()

    def download(self, array):
        """A copy on the host."""
        return array.copy_to_host()

    def draw(self, solid, view, scratch):
        """Make an image of a body."""
        bits = view.bits(solid.bounds)
        if bits < LEAST_BITS:
            return self._upload(Cpu().draw(solid, view, scratch))
        count, vertices = len(solid.ids), len(solid.x)
        faces, ids = cuda.to_device(solid.faces), cuda.to_device(solid.ids)
        placed = cuda.device_array((vertices, 2), np.int32), cuda.device_array(vertices, np.float64)
        window = (view.grid(bits), view.axis)
        snap_vertices.launch(len(solid.used), cuda.to_device(solid.x), cuda.to_device(solid.used), *window, *placed)
        mesh = (faces, ids, *placed, view.raster(bits))
        found = cuda.device_array(count, np.int64)
        count_fragments.launch(count, *mesh, *_fragments(1), found)
        start, total = _scan(found)
        fragments = _fragments(total)
        fill_fragments.launch(count, *mesh, start, *fragments)
        return Image(view, solid, *self._sorted(view, *fragments, total), bits)

    def place(self, solid, view, pixel, depth, face):
        """Make an image of fragments that somebody else found."""
        fragments = (cuda.to_device(_some(array)) for array in (pixel, depth, face))
        return Image(view, solid, *self._sorted(view, *fragments, len(pixel)), 0)

    def spans(self, a, b, rule):
        """Where both bodies are inside."""
        rays = a.view.resolution**2
        found = cuda.device_array(rays, np.int64)
        options = (a.layers, b.layers, rule)
        count_spans.launch(rays, *options, *_spans(1), found)
        start, total = _scan(found)
        spans = _spans(total)
        fill_spans.launch(rays, *options, start, *spans)
        return Spans(*(array.copy_to_host()[:total] for array in spans))

    def inside(self, image, points, ids, rule, reach):
        """Which of the points ``ids`` are inside; crossings are moved to the points by up to ``reach``."""
        inside = cuda.device_array(max(len(ids), 1), np.bool_)
        mesh = (cuda.to_device(_some(image.solid.x)), cuda.to_device(_some(image.solid.faces)))
        options = (image.view.frame, *image.view.depths, image.layers, rule, reach, *mesh)
        asked = (cuda.to_device(_some(points)), cuda.to_device(_some(ids)))
        mark_points_inside.launch(len(ids), *asked, *options, inside)
        return inside.copy_to_host()[: len(ids)]

    def near_inside(self, image, points, ids, rule, reach):
        """Which of the points ``ids`` are inside, or no farther than ``reach`` from it along the ray."""
        inside = cuda.device_array(max(len(ids), 1), np.bool_)
        asked = (cuda.to_device(_some(points)), cuda.to_device(_some(ids)))
        mark_points_near_inside.launch(len(ids), *asked, image.view.frame, image.layers, rule, reach, inside)
        return inside.copy_to_host()[: len(ids)]

    def _sorted(self, view, pixel, depth, face, total):
        """Fragments sorted by pixel, depth and triangle: starts, depths, faces, and how many."""
        pixel_count = cuda.device_array(view.resolution**2, np.int32)
        zero_counts.launch(len(pixel_count), pixel_count)
        if total:
            count_pixels.launch(total, pixel, pixel_count)
        start, _ = _scan(pixel_count)
        kept = cuda.device_array(max(total, 1), np.float64), cuda.device_array(max(total, 1), np.int32)
        if total:
            place_fragments.launch(total, pixel, depth, face, start, pixel_count, *kept)
        sort_pixels.launch(len(pixel_count), start, *kept)
        return start, *kept, total

    def _upload(self, image):
        arrays = (cuda.to_device(_some(array)) for array in (image.pixel_start, image.depth, image.face))
        return Image(image.view, image.solid, *arrays, image.count, image.bits)


def _fragments(count):
    """Room for fragments; a device has no arrays without any."""
    count = max(count, 1)
    return tuple(cuda.device_array(count, dtype) for dtype in (np.int32, np.float64, np.int32))


def _spans(count):
    count = max(count, 1)
    shapes = ((count, 2), np.float64), (count, np.int32), ((count, 2), np.int32), ((count, 2), np.int8)
    return tuple(cuda.device_array(*shape) for shape in shapes)


def _some(array):
    """The array, or one row if it has none."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)


def _scan(counts):
    """Exclusive prefix sums on the device, one more than counts, and the total; sums of runs are scanned here."""
    runs = max(1, -(-len(counts) // RUN))
    run_sum = cuda.device_array(runs, np.int64)
    sum_runs.launch(runs, counts, run_sum)
    sums = run_sum.copy_to_host()
    start = cuda.device_array(len(counts) + 1, np.int64)
    scan_runs.launch(runs, counts, cuda.to_device(np.cumsum(sums) - sums), start)
    return start, int(sums.sum())
