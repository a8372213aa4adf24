"""Eight spheres at once equal the plain definition."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.jit import compiled
from impinge.backend.simd.spheres import sphere_mask

pytestmark = [pytest.mark.small, pytest.mark.tiny]


@compiled
def mask(sphere, block, x, y, z, r):
    return sphere_mask(sphere, block, x, y, z, r)


def test_eight_spheres_against_one(rng):
    """Compare closed spheres lane by lane; touching counts, and points are spheres too."""
    spheres = rng.integers(0, 4, (30, 4, 8)).astype(np.float64)
    hits = 0
    for block in range(len(spheres)):
        for x, y, z, r in rng.integers(0, 4, (10, 4)).astype(np.float64):
            cx, cy, cz, radius = spheres[block]
            expected = (cx - x) ** 2 + (cy - y) ** 2 + (cz - z) ** 2 <= (radius + r) ** 2
            found = int(mask(spheres, block, x, y, z, r))
            assert [bool(found >> lane & 1) for lane in range(8)] == expected.tolist()
            hits += int(expected.sum())
    assert 0.2 < hits / 2400 < 0.9
