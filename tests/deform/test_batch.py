"""Batches of bodies: each gets, to the bit, the forces that it would get alone."""

from __future__ import annotations

import numpy as np
import pytest

from impinge import shapes
from impinge.backend import jit
from impinge.deform.batch import ModelBatch, can_batch
from impinge.deform.fem import Corotated, GreenStrain

pytestmark = [pytest.mark.small, pytest.mark.tiny]


class Softer(GreenStrain):
    """A model of a user's own."""

    def forces(self, x, v, out=None):
        """Half of the forces."""
        return 0.5 * super().forces(x, v, out)


def _model(kind, size, material):
    mesh = shapes.tet_box(*size)
    return kind(mesh.vertices, mesh.tets, material)


@pytest.mark.parametrize("variant", ["serial", "parallel"])
def test_each_gets_its_own(rng, variant):
    """Compute bodies of several kinds, materials and sizes, in any order of rows, with unused rows between them."""
    models = [
        _model(GreenStrain, (3, 2, 2), "rubber"),
        _model(Corotated, (2, 1, 1), "jelly"),
        _model(GreenStrain, (4, 4, 4), "jelly"),
    ]
    first, count = [150, 3, 20], 200
    x, v, mine = np.full((count, 3), np.nan), np.full((count, 3), np.nan), np.zeros(count, dtype=np.bool_)
    rows = [slice(begin, begin + len(model.rest)) for model, begin in zip(models, first)]
    for model, own in zip(models, rows):
        x[own] = model.rest + 0.05 * rng.normal(size=model.rest.shape)
        v[own], mine[own] = rng.normal(size=model.rest.shape), True
    batch, out = ModelBatch(models, first, count), np.ones((count, 3))
    with jit.launch_always(variant):
        batch.forces(x, v, out)
        steps = batch.stable_steps(x, v)

        for model, own, step in zip(models, rows, steps):
            np.testing.assert_array_equal(out[own], model.forces(x[own].copy(), v[own].copy()))
            assert step == model.stable_step(x[own].copy(), v[own].copy())
    assert np.abs(out[mine]).max() > 0.0
    np.testing.assert_array_equal(out[~mine], 0.0)


def test_models_of_users_stay_alone():
    """Batch no model whose forces may differ from ours."""
    changed = _model(Corotated, (1, 1, 1), "jelly")
    assert can_batch(changed)
    changed.forces = lambda x, _v, _out=None: np.zeros_like(x)

    assert not can_batch(changed)
    assert not can_batch(_model(Softer, (1, 1, 1), "jelly"))
    assert not can_batch(object())
