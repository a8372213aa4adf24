"""Algorithm 4.1 on a CUDA grid: projections, reaches of triangles, and the cut.

One direction at a time, as the paper has it for hardware; the same bits as on the CPU.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.cuda import cuda, grid_kernel, require_device
from impinge.detect.gjk_cut.cut_kernels import MARGIN, reach_of_triangle

__all__ = ["cut_on_grid"]


@grid_kernel
def project_vertices(x, y, z, sx, sy, sz, projection):
    """Project every vertex once."""
    i = cuda.grid(1)
    if i < len(projection):
        projection[i] = x[i] * sx + y[i] * sy + z[i] * sz


@grid_kernel
def find_reaches(corner, projection, reach):
    """Write the reach of every triangle."""
    t = cuda.grid(1)
    if t < len(reach):
        reach[t] = reach_of_triangle(t, corner, projection)


@grid_kernel
def mark_kept(reach, limit, kept):
    """Mark the triangles that reach the limit."""
    t = cuda.grid(1)
    if t < len(kept):
        kept[t] = not (reach[t] < limit)


def cut_on_grid(arena, a, b, s):
    """Cut two pieces along ``s``; returns a mask of the triangles that remain for each."""
    require_device()
    reach_a, reach_b = _reaches(arena, a, s), _reaches(arena, b, tuple(-value for value in s))
    top_a, top_b = reach_a.copy_to_host().max(), reach_b.copy_to_host().max()
    return _kept(reach_a, -top_b - MARGIN), _kept(reach_b, -top_a - MARGIN)


def _reaches(arena, piece, s):
    first, count = piece[0], piece[1]
    points = [cuda.to_device(np.ascontiguousarray(row[first : first + count])) for row in arena[0]]
    projection = cuda.device_array(count, np.float32)
    project_vertices.launch(count, *points, *(np.float32(value) for value in s), projection)
    corner = cuda.to_device(np.ascontiguousarray(arena[1][piece[2] : piece[2] + piece[3]]))
    reach = cuda.device_array(piece[3], np.float32)
    find_reaches.launch(piece[3], corner, projection, reach)
    return reach


def _kept(reach, limit):
    kept = cuda.device_array(len(reach), np.bool_)
    mark_kept.launch(len(reach), reach, np.float32(limit), kept)
    return kept.copy_to_host()
