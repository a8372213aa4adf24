"""Compiled part of finding which way the surface below spheres faces; see ``sphere_facing``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange


@compiled
def _edge(x, i, j, turn, size):
    """From one vertex to another, turned, as a share of ``size``."""
    u, v, w = x[j, 0] / size - x[i, 0] / size, x[j, 1] / size - x[i, 1] / size, x[j, 2] / size - x[i, 2] / size
    return (
        turn[0, 0] * u + turn[0, 1] * v + turn[0, 2] * w,
        turn[1, 0] * u + turn[1, 1] * v + turn[1, 2] * w,
        turn[2, 0] * u + turn[2, 1] * v + turn[2, 2] * w,
    )


@kernel(parallel_from=1 << 15)
def mean_normals(nodes, start, stop, triangle, share, most, x, faces, turn, size, facing):
    """Mean of the unit normals of pieces below nodes, by area; of ``most`` pieces where there are more."""
    for i in prange(len(nodes)):
        first, last = start[nodes[i]], stop[nodes[i]]
        step = (last - first + most - 1) // most
        total, nx, ny, nz = 0.0, 0.0, 0.0, 0.0
        for p in range(first + step // 2, last, step):
            t = triangle[p]
            ux, uy, uz = _edge(x, faces[t, 0], faces[t, 1], turn, size)
            vx, vy, vz = _edge(x, faces[t, 0], faces[t, 2], turn, size)
            ax, ay, az = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
            nx += share[p] * ax
            ny += share[p] * ay
            nz += share[p] * az
            total += share[p] * math.sqrt(ax * ax + ay * ay + az * az)
        if total > 0.0 and math.isfinite(total):
            facing[i, 0], facing[i, 1], facing[i, 2] = nx / total, ny / total, nz / total
