"""Forces of springs, for ``springs``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import kernel, prange


@kernel()
def spring_forces(x, v, start, other, length, stiffness, damping, drag, out):
    """Sum the forces of the springs at each vertex: each spring is listed at both of its ends."""
    for i in prange(len(x)):
        fx, fy, fz = -drag[i] * v[i, 0], -drag[i] * v[i, 1], -drag[i] * v[i, 2]
        for s in range(start[i], start[i + 1]):
            j = other[s]
            dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            now_sq = dx * dx + dy * dy + dz * dz
            if now_sq > 0.0:
                now = math.sqrt(now_sq)
                apart = dx * (v[j, 0] - v[i, 0]) + dy * (v[j, 1] - v[i, 1]) + dz * (v[j, 2] - v[i, 2])
                pull = stiffness[s] * (now - length[s]) / now + damping[s] * apart / now_sq
                fx, fy, fz = fx + pull * dx, fy + pull * dy, fz + pull * dz
        out[i, 0], out[i, 1], out[i, 2] = fx, fy, fz
