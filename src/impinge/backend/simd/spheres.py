"""Eight spheres against one in a few vector instructions.

Siblings lie side by side, ``sphere[block, 4, 8]``: x, y, z of eight centres, then eight radii. One sphere is compared
with all eight; the result is a mask of eight bits. The caller masks out lanes without a sphere.
"""

# mypy: ignore-errors

import numpy as np
from numba import types

from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.lanes import dot, vectorized


@vectorized(lambda sphere, *_: types.uint64(sphere, types.int64, *[types.float64] * 4))
def sphere_mask(m, sphere, block, x, y, z, r):
    """Bit i is set if sphere i of ``block`` meets the sphere (x, y, z), r; touching counts."""
    rows = [m.load(sphere, 4 * WIDTH * block + WIDTH * k, WIDTH) for k in range(4)]
    away = [rows[k] - m.splat(value, WIDTH, np.float64) for k, value in enumerate((x, y, z))]
    reach = rows[3] + m.splat(r, WIDTH, np.float64)
    return m.bits(dot(away, away) <= reach * reach)
