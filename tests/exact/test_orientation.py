"""Signs of determinants against rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicates import orient2d_rows, orient3d_rows, over_rows

import oracle

pytestmark = [pytest.mark.small, pytest.mark.tiny]

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
LARGEST, SMALLEST = 1.7976931348623157e308, 5e-324
NASTY = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 3.0, 0.1, 1.0 + 2.0**-52, 1e150, 1e-150, 2.0**-1022, SMALLEST, -SMALLEST, LARGEST, -LARGEST]
)


def expected_3d(x):
    return [oracle.sign_orient3d(*row.tolist()) for row in x]


def expected_2d(x):
    return [oracle.sign_orient2d(*row.tolist()) for row in x]


def near_plane(rng, n, dim):
    """Points that are collinear or coplanar but for rounding, or exactly."""
    x = rng.standard_normal((n, dim + 1, dim))
    weight = rng.random((n, dim))
    weight /= weight.sum(axis=1, keepdims=True)
    x[:, dim] = np.einsum("nk,nkd->nd", weight, x[:, :dim])
    return x


@given(st.lists(FINITE | NASTY, min_size=6, max_size=6))
@settings(max_examples=300, deadline=None)
def test_orient2d_on_any_doubles(values):
    """Give the sign of rational arithmetic for any finite doubles, overflow and underflow included."""
    x = np.array(values).reshape(1, 3, 2)

    assert over_rows(orient2d_rows, x) == expected_2d(x)


@given(st.lists(FINITE | NASTY, min_size=12, max_size=12))
@settings(max_examples=300, deadline=None)
def test_orient3d_on_any_doubles(values):
    """Give the sign of rational arithmetic for any finite doubles, overflow and underflow included."""
    x = np.array(values).reshape(1, 4, 3)

    assert over_rows(orient3d_rows, x) == expected_3d(x)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-60, 1e-8, 1.0, 1e8, 1e60, 1e150, 1e300])
def test_signs_near_degeneracy_at_every_scale(rng, scale):
    """Be right where rounding made points nearly coplanar, whatever the unit."""
    x3, x2 = scale * near_plane(rng, 200, 3), scale * near_plane(rng, 200, 2)
    signs = over_rows(orient3d_rows, x3)

    assert signs == expected_3d(x3)
    assert over_rows(orient2d_rows, x2) == expected_2d(x2)
    assert min(signs.count(1), signs.count(-1)) > 40


@pytest.mark.parametrize("offset", [1.0, 1e6, 2.0**52])
def test_signs_of_differences_of_few_ulps(rng, offset):
    """Be right for points that differ in their last bits only."""
    ulp = np.spacing(offset)
    x = offset + ulp * rng.integers(-3, 4, (500, 4, 3))
    signs = over_rows(orient3d_rows, x)

    assert signs == expected_3d(x)
    assert signs.count(0) > 20


def test_signs_of_subnormal_differences(rng):
    """Be right where every product underflows to zero."""
    x = 5e-324 * rng.integers(-2, 3, (500, 4, 3))
    signs = over_rows(orient3d_rows, x)

    assert signs == expected_3d(x)
    assert min(signs.count(0), signs.count(1), signs.count(-1)) > 20


def test_signs_of_mixed_scales(rng):
    """Be right where huge and tiny coordinates meet in one determinant."""
    x = rng.standard_normal((500, 4, 3)) * 10.0 ** rng.integers(-150, 150, (500, 4, 3))

    assert over_rows(orient3d_rows, x) == expected_3d(x)


def test_orient3d_is_antisymmetric(rng):
    """Change sign when two points are swapped, on degenerate data too."""
    x = rng.integers(0, 3, (1000, 4, 3)).astype(np.float64)
    signs = over_rows(orient3d_rows, x)

    assert over_rows(orient3d_rows, x[:, [1, 0, 2, 3]]) == [-s for s in signs]
    assert over_rows(orient3d_rows, x[:, [0, 1, 3, 2]]) == [-s for s in signs]


def test_orientation_convention():
    """Call a point on the side of the normal (b - a) × (c - a) positive."""
    x = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]], dtype=np.float64)

    assert over_rows(orient3d_rows, x) == [1]
    assert over_rows(orient2d_rows, np.array([[[0, 0], [1, 0], [0, 1]]], dtype=np.float64)) == [1]
