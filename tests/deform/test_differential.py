"""How dense vertices move with coarse ones."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.deform.barycentric import Barycentric
from impinge.deform.rigid_links import RigidLinks
from impinge.mesh.shapes import box, tet_box


def embeddings(rest, tets, ids, dense):
    return {"barycentric": Barycentric(rest, tets, dense), "rigid_links": RigidLinks(rest, ids, dense)}


@pytest.mark.small
@pytest.mark.parametrize("name", ["barycentric", "rigid_links"])
def test_differential_is_the_derivative_of_steering(rng, name):
    """Foresee where vertices go when coarse ones move a little, and keep force and torque on the way back."""
    coarse, dense = tet_box(2, 2, 2), box(0.9, cells=(3, 3, 3)).vertices
    rest = coarse.vertices
    embedding = embeddings(rest, coarse.tets, coarse.surface.used_vertices, dense)[name]
    x = rest + 0.1 * rng.normal(size=rest.shape)
    step = 1e-6 * rng.normal(size=rest.shape)
    before, after = embedding.steer(x - step).copy(), embedding.steer(x + step).copy()
    now = embedding.steer(x).copy()
    vertices = np.arange(len(dense))[::3]
    ids, blocks = embedding.differential(vertices)

    moved = np.einsum("kcij,kcj->ki", blocks, 2.0 * step[ids])

    np.testing.assert_allclose(moved, (after - before)[vertices], atol=1e-12)
    assert np.abs(moved).max() > 1e-7

    force = rng.normal(size=(len(vertices), 3))
    on_coarse = np.einsum("kcij,ki->kcj", blocks, force)
    np.testing.assert_allclose(on_coarse.sum(axis=1), force, atol=1e-9)
    if name == "rigid_links":  # weights of barycentric coordinates were made at rest, where dense vertices were
        torque = np.cross(x[ids], on_coarse).sum(axis=1)
        np.testing.assert_allclose(torque, np.cross(now[vertices], force), atol=1e-8)
