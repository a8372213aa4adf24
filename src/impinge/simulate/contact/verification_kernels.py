"""Boxes of surfaces, and vertices that fall through the ground; see ``verification``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled
from impinge.backend.simd.boxes import vertices_box


@compiled
def box_around(x, used, box):
    """Write the lowest and highest corner of the given vertices."""
    bounds = vertices_box(x, used, 0, len(used))
    for k in range(3):
        box[0, k], box[1, k] = bounds[k], bounds[3 + k]


@compiled
def find_fallen(x, y, used, normal, height, rows, gaps):
    """Write vertices that are above the ground at x and not at y, with both heights; returns their number."""
    count = 0
    for v in used:
        before = x[v, 0] * normal[0] + x[v, 1] * normal[1] + x[v, 2] * normal[2] - height
        after = y[v, 0] * normal[0] + y[v, 1] * normal[1] + y[v, 2] * normal[2] - height
        if before > 0.0 and after <= 0.0:
            rows[count], gaps[count, 0], gaps[count, 1] = v, before, after
            count += 1
    return count
