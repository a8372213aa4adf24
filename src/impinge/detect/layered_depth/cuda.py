"""The bodies of ``raster_kernels`` and ``spans_kernels`` on a CUDA grid, and the device that ``LayeredDepth`` uses.

Triangles count their fragments, a scan gives the start of each, and they write. Fragments then find their pixels by
atomic counters, whose order does not matter: every pixel is sorted afterwards, and no two fragments are equal. Bodies
too large for snapped coordinates are drawn on the CPU, since exact signs need memory that a grid does not have.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.cuda import cuda, grid_kernel, require_device
from impinge.detect.layered_depth import raster_kernels as bodies
from impinge.detect.layered_depth import spans_kernels as span_bodies
from impinge.detect.layered_depth.images import Cpu, Image, Spans

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
def mark_points_inside(points, ids, window, low, high, layers, rule, reach, x, faces, inside):
    """Mark which of the points ``ids`` are inside."""
    i = cuda.grid(1)
    if i < len(ids):
        inside[i] = span_bodies.point_inside(i, points, ids, window, low, high, layers, rule, reach, x, faces)


@grid_kernel
def mark_points_near_inside(points, ids, window, layers, rule, reach, inside):
    """Mark which of the points ``ids`` are inside or near it."""
    i = cuda.grid(1)
    if i < len(ids):
        inside[i] = span_bodies.point_near_inside(i, points, ids, window, layers, rule, reach)


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


class Cuda(Cpu):
    """A CUDA device; images stay there."""

    name = "cuda"

    def __init__(self):
        require_device()

    def download(self, array):
        """A copy on the host."""
        return array.copy_to_host()

    def draw(self, solid, view, scratch):
        """Draw an image of a body."""
        bits = view.bits(solid.bounds)
        if not bits:
            image = super().draw(solid, view, scratch)
            return Image(view, solid, *_upload(image.pixel_start, image.depth, image.face), image.count, 0)
        count, vertices = len(solid.ids), len(solid.x)
        x, used, faces, ids = _upload(solid.x, solid.used, solid.faces, solid.ids)
        placed = cuda.device_array((vertices, 2), np.int32), cuda.device_array(vertices, np.float64)
        snap_vertices.launch(len(solid.used), x, used, view.grid(bits), view.axis, *placed)
        mesh = (faces, ids, *placed, view.raster(bits))
        found = cuda.device_array(count, np.int64)
        count_fragments.launch(count, *mesh, *_fragments(1), found)
        start, total = _scan(found)
        fragments = _fragments(total)
        fill_fragments.launch(count, *mesh, start, *fragments)
        return Image(view, solid, *_sorted(view, *fragments, total), bits)

    def place(self, solid, view, pixel, depth, face):
        """Make an image of unsorted fragments."""
        return Image(view, solid, *_sorted(view, *_upload(pixel, depth, face), len(pixel)), 0)

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
        inside, view = cuda.device_array(max(len(ids), 1), np.bool_), image.view
        options = (view.window, view.low[view.axis], view.high[view.axis], image.layers, rule, reach)
        mesh = _upload(image.solid.x, image.solid.faces)
        mark_points_inside.launch(len(ids), *_upload(points, ids), *options, *mesh, inside)
        return inside.copy_to_host()[: len(ids)]

    def near_inside(self, image, points, ids, rule, reach):
        """Which of the points ``ids`` are inside, or within ``reach`` of it along the ray."""
        inside, options = cuda.device_array(max(len(ids), 1), np.bool_), (image.view.window, image.layers, rule, reach)
        mark_points_near_inside.launch(len(ids), *_upload(points, ids), *options, inside)
        return inside.copy_to_host()[: len(ids)]


def _upload(*arrays):
    """Copies on the device; a device has no empty arrays, hence one row instead of none."""
    return [cuda.to_device(array if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)) for array in arrays]


def _fragments(count):
    """Room for pixels, depths and faces of fragments, at least one."""
    return [cuda.device_array(max(count, 1), dtype) for dtype in (np.int32, np.float64, np.int32)]


def _spans(count):
    """Room for spans, at least one."""
    count = max(count, 1)
    shapes = ((count, 2), np.float64), (count, np.int32), ((count, 2), np.int32), ((count, 2), np.int8)
    return [cuda.device_array(*shape) for shape in shapes]


def _sorted(view, pixel, depth, face, total):
    """Fragments sorted by pixel, depth and triangle: starts of pixels, depths, faces, number."""
    pixel_count = cuda.device_array(view.resolution**2, np.int32)
    zero_counts.launch(len(pixel_count), pixel_count)
    count_pixels.launch(total, pixel, pixel_count)
    start, _ = _scan(pixel_count)
    _, *out = _fragments(total)
    place_fragments.launch(total, pixel, depth, face, start, pixel_count, *out)
    sort_pixels.launch(len(pixel_count), start, *out)
    return start, *out, total


def _scan(counts):
    """Exclusive prefix sums on the device, one more than counts, and the total; the host scans sums of runs."""
    runs = max(1, -(-len(counts) // RUN))
    run_sum = cuda.device_array(runs, np.int64)
    sum_runs.launch(runs, counts, run_sum)
    sums = run_sum.copy_to_host()
    start = cuda.device_array(len(counts) + 1, np.int64)
    scan_runs.launch(runs, counts, cuda.to_device(np.cumsum(sums) - sums), start)
    return start, int(sums.sum())
