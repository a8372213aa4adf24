"""Compiled part of measuring tightness: which points are in any of many balls."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange


@kernel(parallel_from=64)
def find_in_any_ball(points, centre, radius, is_in):
    """Mark the points that are in one of the balls."""
    for i in prange(len(points)):
        is_in[i] = False
        for n in range(len(radius)):
            dx = points[i, 0] - centre[n, 0]
            dy = points[i, 1] - centre[n, 1]
            dz = points[i, 2] - centre[n, 2]
            if dx * dx + dy * dy + dz * dz <= radius[n] * radius[n]:
                is_in[i] = True
                break
