"""Affine transformation of points by one fixed expression.

Queries with ``transform_a=`` are exact for the positions that this function computes: the same bits as
``body.update(transform_points(matrix, vertices))``. Each product and sum is rounded separately, in this order, on every
device; a matrix product of a linear algebra library may differ in the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, as_positions, as_transform


def transform_points(matrix: ArrayLike | None, points: ArrayLike) -> Floats:
    """Transform points: ((m0·x + m1·y) + m2·z) + m3 for each row m of the matrix, rounded in this order.

    Parameters
    ----------
    matrix : array_like, shape (4, 4), or None
        Affine matrix with the last row 0 0 0 1; None is the identity.
    points : array_like, shape (n, 3)
        Positions; not changed.

    Returns
    -------
    ndarray, shape (n, 3)
        A new array.

    Raises
    ------
    OptionError
        If the matrix has another shape, is not finite or not affine.
    MeshError
        If the points have another shape or are not finite.
    """
    m, p = as_transform(matrix, "matrix"), as_positions(points, name="points")
    if m is None:
        return p.copy()
    x, y, z = p[:, 0], p[:, 1], p[:, 2]
    return np.stack([((m[k, 0] * x + m[k, 1] * y) + m[k, 2] * z) + m[k, 3] for k in range(3)], axis=1)
