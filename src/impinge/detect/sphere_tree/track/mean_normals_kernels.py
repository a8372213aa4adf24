"""Compiled part of ``mean_normals``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange


@compiled
def _edge(x, i, j, linear, size):
    """From one vertex to another, transformed, relative to ``size``."""
    u, v, w = x[j, 0] / size - x[i, 0] / size, x[j, 1] / size - x[i, 1] / size, x[j, 2] / size - x[i, 2] / size
    return (
        linear[0, 0] * u + linear[0, 1] * v + linear[0, 2] * w,
        linear[1, 0] * u + linear[1, 1] * v + linear[1, 2] * w,
        linear[2, 0] * u + linear[2, 1] * v + linear[2, 2] * w,
    )


@kernel(parallel_from=1 << 15)
def mean_normals(nodes, start, stop, triangle, share, most, x, faces, linear, size, mean):
    """Area-weighted mean of the unit normals of pieces below nodes; of ``most`` pieces where there are more."""
    for i in prange(len(nodes)):
        first, last = start[nodes[i]], stop[nodes[i]]
        step = (last - first + most - 1) // most
        total, nx, ny, nz = 0.0, 0.0, 0.0, 0.0
        for p in range(first + step // 2, last, step):
            t = triangle[p]
            ux, uy, uz = _edge(x, faces[t, 0], faces[t, 1], linear, size)
            vx, vy, vz = _edge(x, faces[t, 0], faces[t, 2], linear, size)
            ax, ay, az = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
            nx += share[p] * ax
            ny += share[p] * ay
            nz += share[p] * az
            total += share[p] * math.sqrt(ax * ax + ay * ay + az * az)
        if total > 0.0 and math.isfinite(total):
            mean[i, 0], mean[i, 1], mean[i, 2] = nx / total, ny / total, nz / total
