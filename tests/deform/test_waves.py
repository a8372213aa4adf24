"""Deformations by formula: waves that do not fold, twists that keep slices, bursts that repeat."""

import dataclasses
import math

import numpy as np
import pytest

from impinge.deform.waves import Wave, explode, turn_inside_out, twist
from impinge.errors import MeshError, OptionError
from impinge.mesh import shapes


@pytest.fixture
def points():
    """A thousand points within two units of the origin."""
    return np.random.default_rng(1).uniform(-2.0, 2.0, (1000, 3))


def test_wave_follows_its_formula():
    """Move each coordinate by a sine of the next one."""
    moved = Wave(0.2, 3.0, 5.0)([[0.1, 0.4, -0.7]], 2.0)

    x = 0.1 + 0.2 * math.sin(3.0 * 0.4 + 10.0)
    y = 0.4 + 0.2 * math.sin(3.0 * -0.7 + 10.0)
    z = -0.7 + 0.2 * math.sin(3.0 * 0.1 + 10.0)
    np.testing.assert_allclose(moved, [[x, y, z]], rtol=1e-15)


def test_wave_repeats_and_keeps_its_input(points):
    """Return equal positions for equal times and leave the rest positions alone."""
    rest = points.copy()
    wave = Wave(0.1, 4.0, 2.0)

    np.testing.assert_array_equal(wave(points, 0.3), wave(points, 0.3))
    np.testing.assert_array_equal(points, rest)
    assert np.abs(wave(points, 0.3) - wave(points, 0.4)).max() > 1e-3


def test_wave_is_one_to_one(points):
    """Keep any two points at least 1 - A k of their distance apart, without folds."""
    moved = Wave(0.24, 4.0)(points, 0.7)
    before = np.linalg.norm(points[:, None] - points[None], axis=2)
    after = np.linalg.norm(moved[:, None] - moved[None], axis=2)

    assert (after >= (1.0 - 0.96) * before - 1e-12).all()


@pytest.mark.parametrize("t", np.linspace(0.0, 5.0, 6))
def test_wave_keeps_tets_upright(t):
    """Keep the volume of every tet of a fine mesh positive at every time."""
    body = shapes.tet_box(8, 8, 8, size=2.0)
    body.update(Wave(0.1, 5.0)(body.vertices, t))

    assert body.volumes.min() > 0.0


@pytest.mark.parametrize(("amplitude", "wave_number"), [(0.25, 4.0), (-0.5, 2.0), (1.0, 100.0)])
def test_steep_waves_are_refused(amplitude, wave_number):
    """Refuse waves that would fold the body, naming the steepness."""
    with pytest.raises(OptionError, match=r"amplitude · wave_number is .* expected less than 1"):
        Wave(amplitude, wave_number)


@pytest.mark.parametrize("numbers", [(math.nan, 1.0, 1.0), (0.1, math.inf, 1.0), (0.1, 1.0, math.nan)])
def test_waves_need_finite_numbers(numbers):
    """Refuse NaN and infinity in any of the three numbers."""
    with pytest.raises(OptionError, match="all three must be finite"):
        Wave(*numbers)


def test_wave_is_frozen_and_checks_positions():
    """Refuse a change of its numbers, and positions of the wrong shape."""
    wave = Wave(0.1, 1.0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        wave.amplitude = 2.0
    with pytest.raises(MeshError, match="rest_positions have shape"):
        wave([1.0, 2.0], 0.0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_twist_turns_slices(points, axis):
    """Keep the coordinate along the axis and the distance from it, and rotate by the given angle."""
    twisted = twist(points, 0.8, axis=axis)
    u, v = (axis + 1) % 3, (axis + 2) % 3
    before, after = points[:, u] + 1j * points[:, v], twisted[:, u] + 1j * twisted[:, v]

    np.testing.assert_array_equal(twisted[:, axis], points[:, axis])
    np.testing.assert_allclose(after, before * np.exp(0.8j * points[:, axis]), atol=1e-14)


def test_twist_keeps_the_volume():
    """Keep the volume of a fine box nearly as it was, as the exact map does."""
    body = shapes.box((1.0, 1.0, 3.0), cells=(20, 20, 60))
    body.update(twist(body.vertices, 1.0))

    np.testing.assert_allclose(body.volume, 3.0, rtol=1e-3)


def test_twist_refuses_other_axes(points):
    """Refuse an axis that does not exist."""
    with pytest.raises(OptionError, match="axis is 3, expected one of 0, 1, 2"):
        twist(points, 1.0, axis=3)


def test_explode_throws_outwards_and_repeats(points):
    """Move each vertex straight away from the mean, by its own share of at most the amount, repeatably."""
    thrown = explode(points, 2.0, seed=5)
    centre = points.mean(axis=0)
    share = (thrown - centre) / (points - centre) - 1.0

    np.testing.assert_allclose(share, np.broadcast_to(share[:, :1], share.shape), atol=1e-9)
    assert share.min() >= -1e-9
    assert 1.5 < share.max() <= 2.0 + 1e-9
    np.testing.assert_array_equal(thrown, explode(points, 2.0, seed=5))
    assert (thrown != explode(points, 2.0, seed=6)).any()


def test_explode_borders(points):
    """Leave positions in place for amount 0, accept an empty body, and refuse a negative amount."""
    np.testing.assert_allclose(explode(points, 0.0), points, atol=1e-14)
    assert explode(np.zeros((0, 3)), 1.0).shape == (0, 3)
    with pytest.raises(OptionError, match=r"amount is -1\.0, expected"):
        explode(points, -1.0)


def test_turn_inside_out(rng):
    """Start at rest, end mirrored through the mean, and turn one side before the other in between."""
    x = rng.standard_normal((50, 3))
    centre = x.mean(axis=0)
    half = turn_inside_out(x, 0.5)
    first, last = x[:, 0].argmin(), x[:, 0].argmax()

    np.testing.assert_allclose(turn_inside_out(x, 0.0), x, atol=1e-15)
    np.testing.assert_allclose(turn_inside_out(x, 1.0), 2.0 * centre - x, atol=1e-14)
    np.testing.assert_allclose(half[first], 2.0 * centre - x[first], atol=1e-14)
    np.testing.assert_allclose(half[last], x[last], atol=1e-14)
    assert turn_inside_out(np.zeros((0, 3)), 0.5).shape == (0, 3)
