"""Overshoots of balls over a solid, against known distances."""

from __future__ import annotations

import numpy as np
import pytest

from impinge import shapes
from impinge.detect.sphere_tree.build.overshoot import directions, overshoots

pytestmark = pytest.mark.small


def test_overshoot_is_at_most_what_radius_and_depth_allow():
    """Keep sampled overshoots below the bound of the medial axis, and near it for spheres in a slab."""
    slab = shapes.box((10.0, 10.0, 1.0))
    centre, radius = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.2], [0.0, 0.0, -0.3]]), np.array([0.7, 0.7, 0.7])
    found = overshoots(slab, centre, radius, 1000)
    bound = radius - (0.5 - np.abs(centre[:, 2]))

    assert (found <= bound + 1e-12).all()
    assert (found >= bound - 0.01).all()


def test_directions_are_spread_evenly():
    """Leave no direction without one of the points near it."""
    rng = np.random.default_rng(0)
    other = rng.normal(size=(2000, 3))
    other /= np.linalg.norm(other, axis=1)[:, None]
    nearest = (other @ directions(162).T).max(axis=1)

    np.testing.assert_allclose(np.linalg.norm(directions(162), axis=1), 1.0, atol=1e-12)
    assert np.degrees(np.arccos(nearest.min())) < 15.0
