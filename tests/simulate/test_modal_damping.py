"""Modal damping: conserves momentum, reduces energy, keeps rigid motion, commutes with rotation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from impinge.simulate.modal_damping import ModalDamping
from simulated_cubes import EDGE, soft_cube


@pytest.fixture
def model():
    return soft_cube((0.02, 0.0, 0.3)).model


def momenta(model, x, v):
    each = model.masses[:, None] * v
    return np.concatenate([each.sum(axis=0), np.cross(x, each).sum(axis=0)])


def test_oscillations_lose_energy_and_conserve_momentum(rng, model):
    """Reduce the energy of random velocities and conserve both momenta to rounding."""
    x, v = model.rest + 0.001 * rng.normal(size=model.rest.shape), rng.normal(size=model.rest.shape)
    before, start = v.copy(), momenta(model, x, v)
    ModalDamping(model, EDGE, 0.1).apply(x, v, 0.004)

    np.testing.assert_allclose(momenta(model, x, v), start, atol=1e-13)
    assert 0.0 < (model.masses @ v**2).sum() < 0.999 * (model.masses @ before**2).sum()


def test_rigid_motion_is_not_damped(rng, model):
    """Keep the velocities of a rigid motion."""
    velocity, turning = rng.normal(size=3), rng.normal(size=3)
    v = velocity + np.cross(turning, model.rest)
    before = v.copy()
    ModalDamping(model, EDGE, 0.1).apply(model.rest, v, 0.004)

    np.testing.assert_allclose(v, before, atol=1e-12)


def test_damping_commutes_with_rotation(rng, model):
    """Damp rotated positions and velocities to the rotated result."""
    rotation = Rotation.from_rotvec([0.7, -1.1, 0.4]).as_matrix()
    v = rng.normal(size=model.rest.shape)
    rotated_v = v @ rotation.T
    ModalDamping(model, EDGE, 0.1).apply(model.rest, v, 0.003)
    ModalDamping(model, EDGE, 0.1).apply(model.rest @ rotation.T, rotated_v, 0.003)

    np.testing.assert_allclose(rotated_v, v @ rotation.T, atol=1e-12)
