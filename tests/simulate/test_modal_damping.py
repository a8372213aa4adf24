"""Swings that die out: momenta stay, energy falls, rigid motions are left alone, a turn changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from impinge.simulate.modal_damping import Settle
from simulated_cubes import EDGE, soft_cube


@pytest.fixture
def model():
    return soft_cube((0.02, 0.0, 0.3)).model


def momenta(model, x, v):
    each = model.masses[:, None] * v
    return np.concatenate([each.sum(axis=0), np.cross(x, each).sum(axis=0)])


def test_swings_lose_energy_and_momenta_stay(rng, model):
    """Take energy from random velocities, and keep both momenta to rounding."""
    x, v = model.rest + 0.001 * rng.normal(size=model.rest.shape), rng.normal(size=model.rest.shape)
    before, start = v.copy(), momenta(model, x, v)
    Settle(model, EDGE, 0.1).settle(x, v, 0.004)

    np.testing.assert_allclose(momenta(model, x, v), start, atol=1e-13)
    assert 0.0 < (model.masses @ v**2).sum() < 0.999 * (model.masses @ before**2).sum()


def test_a_rigid_motion_stays(rng, model):
    """Leave a body alone that moves and turns without a change of shape."""
    velocity, turning = rng.normal(size=3), rng.normal(size=3)
    v = velocity + np.cross(turning, model.rest)
    before = v.copy()
    Settle(model, EDGE, 0.1).settle(model.rest, v, 0.004)

    np.testing.assert_allclose(v, before, atol=1e-12)


def test_a_turned_body_settles_as_one_that_is_not(rng, model):
    """Turn positions and velocities: what is left of them is turned too."""
    turn = Rotation.from_rotvec([0.7, -1.1, 0.4]).as_matrix()
    v = rng.normal(size=model.rest.shape)
    turned = v @ turn.T
    Settle(model, EDGE, 0.1).settle(model.rest, v, 0.003)
    Settle(model, EDGE, 0.1).settle(model.rest @ turn.T, turned, 0.003)

    np.testing.assert_allclose(turned, v @ turn.T, atol=1e-12)
