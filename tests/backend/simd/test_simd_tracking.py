"""Spheres that follow vertices four at a time equal the plain definitions."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.jit import compiled
from impinge.backend.simd import tracking

pytestmark = [pytest.mark.small, pytest.mark.tiny]

ROWS = 5


def stretch_of(f):
    """An upper bound of the largest singular value of 3x3 matrices, as in ``tracking``."""
    c = np.swapaxes(f, -1, -2) @ f
    mean = np.trace(c, axis1=-2, axis2=-1) / 3.0
    square = ((c - mean[..., None, None] * np.eye(3)) ** 2).sum(axis=(-2, -1))
    return np.sqrt(mean + 2.0 * np.sqrt(square / 6.0))


@compiled
def as_published(sphere, block, half, x, control, coefficient, share, start, stop, alone):
    tracking.follow_as_published(sphere, block, half, x, control, coefficient, share, start, stop, alone)


@compiled
def affine(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
    tracking.follow_affine(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach)


@compiled
def bounded(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
    tracking.follow_bounded(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach)


@compiled
def patch(sphere, block, half, x, control, coefficient, share, start, stop, alone):
    tracking.follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, alone)


@compiled
def farthest(x, ids, start, stop, x0, y0, z0):
    return tracking.farthest_square(x, ids, start, stop, x0, y0, z0)


def make_block(rng, columns, alone):
    """Two blocks of random controls; the spheres of the second one as (vertices, their numbers, what each has once)."""
    x = rng.standard_normal((40, 3))
    control = rng.integers(0, 40, (2 * ROWS, 8)).astype(np.int32)
    coefficient, share = rng.random((2 * ROWS, columns, 8)), rng.random((2, 4, 8)) + 0.1
    rows = slice(ROWS, 2 * ROWS)
    if alone:
        control[ROWS], coefficient[ROWS] = control[ROWS, 0], 0.0
        share[1] = share[1, :, :1]
        ids, numbers = control[rows, :4].reshape(-1), coefficient[rows, :, :4].transpose(0, 2, 1).reshape(-1, columns)
        return (x, control, coefficient, share), [(x[ids], numbers, share[1, :, 0])]
    lanes = [(x[control[rows, k]], coefficient[rows, :, k], share[1, :, k]) for k in range(8)]
    return (x, control, coefficient, share), lanes


def follow(kernel, arrays, alone, *more):
    """All spheres of the second block."""
    sphere = np.zeros((2, 4, 8))
    for half in range(1 if alone else 2):
        kernel(sphere, 1, half, *arrays, ROWS, 2 * ROWS, alone, *more)
    assert not sphere[0].any()
    return sphere[1, :, : 1 if alone else 8].T


@pytest.mark.parametrize("alone", [False, True])
def test_as_published(rng, alone):
    """Shift by the weighted mean, and grow by the largest ratio; stay as large where there is no ratio."""
    arrays, lanes = make_block(rng, 2, alone)
    for found, (q, number, own) in zip(follow(as_published, arrays, alone), lanes, strict=True):
        centre = own[:3] + q[0] + number[:, 0] @ (q - q[0])
        ratio = (((q - centre) ** 2).sum(axis=1) * number[:, 1]).max()
        np.testing.assert_allclose(found, [*centre, np.sqrt(ratio)])
    arrays[2][:, 1] = 0.0
    np.testing.assert_array_equal(follow(as_published, arrays, alone)[:, 3], [own[3] for _, _, own in lanes])


@pytest.mark.parametrize("alone", [False, True])
def test_affine_and_bounded(rng, alone):
    """Follow weighted sums, grow by the stretch of the fitted map, and by what it leaves."""
    arrays, lanes = make_block(rng, 8, alone)
    for kernel in (affine, bounded):
        for found, (q, number, own) in zip(follow(kernel, arrays, alone, 0.0), lanes, strict=True):
            moved = q - q[0]
            centre, f = number[:, 0] @ moved, moved.T @ number[:, 1:4]
            left = np.linalg.norm(moved - centre - number[:, 4:7] @ f.T, axis=1) @ number[:, 7]
            left = left if kernel is bounded else 0.0
            np.testing.assert_allclose(found[:3], q[0] + centre)
            np.testing.assert_allclose(found[3], own[3] * stretch_of(own[0] * f) + left)
            assert found[3] >= own[3] * np.linalg.norm(own[0] * f, 2) + left
        wide = follow(kernel, arrays, alone, 1e12)
        assert (wide[:, 3] > follow(kernel, arrays, alone, 0.0)[:, 3]).all()


def test_stretch_is_a_bound(rng):
    """Bound the largest singular value from above, by 16% too much at most, exactly for turns."""
    f = rng.standard_normal((500, 3, 3))
    bound, exact = stretch_of(f), np.linalg.norm(f, 2, axis=(1, 2))
    assert (bound >= exact * (1.0 - 1e-12)).all()
    assert (bound <= 1.16 * exact).all()
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(stretch_of(turn), 1.0)


@pytest.mark.parametrize("alone", [False, True])
def test_single_numbers(rng, alone):
    """Take single coefficients as the doubles that they are."""
    (x, control, coefficient, share), _ = make_block(rng, 8, alone)
    single = coefficient.astype(np.float32)
    for kernel in (affine, bounded):
        as_doubles = follow(kernel, (x, control, single.astype(np.float64), share), alone, 0.0)
        np.testing.assert_array_equal(follow(kernel, (x, control, single, share), alone, 0.0), as_doubles)


@pytest.mark.parametrize("alone", [False, True])
def test_patch(rng, alone):
    """Stand off a patch along its normal; where it has none, stay in it."""
    arrays, lanes = make_block(rng, 3, alone)
    for found, (q, number, own) in zip(follow(patch, arrays, alone), lanes, strict=True):
        centre, u, v = number.T @ (q - q[0])
        normal = np.cross(u, v)
        np.testing.assert_allclose(found[:3], q[0] + centre + own[0] * normal / np.linalg.norm(normal))
    arrays[2][:, 1:] = 0.0
    for found, (q, number, _) in zip(follow(patch, arrays, alone), lanes, strict=True):
        np.testing.assert_allclose(found[:3], q[0] + number[:, 0] @ (q - q[0]))


def test_farthest_point(rng):
    """Find the largest distance of some points; none are at no distance."""
    x, ids = rng.standard_normal((30, 3)), rng.integers(0, 30, 40).astype(np.int32)
    for start, stop in ((0, 40), (4, 8), (8, 28)):
        expected = ((x[ids[start:stop]] - [1.0, 2.0, 3.0]) ** 2).sum(axis=1).max()
        np.testing.assert_allclose(farthest(x, ids, start, stop, 1.0, 2.0, 3.0), expected)
    assert farthest(x, ids, 4, 4, 1.0, 2.0, 3.0) == 0.0
