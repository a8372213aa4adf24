"""Points through a 4x4 matrix, by one fixed expression.

Queries with ``transform_a=`` are exact for the positions that this function computes: the same bits as
``body.update(transform_points(matrix, vertices))``. Each product and sum is rounded by itself, in this order,
on every device; a matrix product of a linear algebra library may differ in the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.checks import Floats, as_positions, as_transform


def transform_points(matrix: Any, points: Any) -> Floats:
    """Positions ((m0·x + m1·y) + m2·z) + m3 for each row m of the affine ``matrix`` (4x4), shape (n, 3)."""
    m, p = as_transform(matrix, "matrix"), as_positions(points, name="points")
    if m is None:
        return p.copy()
    x, y, z = p[:, 0], p[:, 1], p[:, 2]
    return np.stack([((m[k, 0] * x + m[k, 1] * y) + m[k, 2] * z) + m[k, 3] for k in range(3)], axis=1)
