"""Separating planes of small bodies: separated bodies share no point, and most disjoint bodies are separated."""

from __future__ import annotations

import numpy as np
import pytest

from impinge import TriMesh
from impinge.detect.gjk_cut.hull_distance import hull_distance
from impinge.mesh import shapes
from impinge.world.batch_queries import FEW, may_meet
from impinge.world.surface_batch import SurfaceBatch


def _batch(bodies):
    batch = SurfaceBatch(bodies)
    batch.refresh()
    return batch


def _all_pairs(count):
    return np.stack(np.triu_indices(count, 1), axis=1).astype(np.int64)


def _turned_box(rng, size):
    box = shapes.box(1.0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    box.update(box.vertices @ turn.T + rng.uniform(0.0, size, 3))
    return box


def test_separated_bodies_have_disjoint_hulls(rng):
    """Keep all pairs whose convex hulls meet, and separate more than 90 % of the others."""
    bodies = [_turned_box(rng, 4.0) for _ in range(60)]
    pairs = _all_pairs(len(bodies))

    left = {tuple(pair) for pair in may_meet(_batch(bodies), pairs).tolist()}

    meeting = {(a, b) for a, b in pairs.tolist() if hull_distance(bodies[a], bodies[b]).distance == 0.0}
    assert 100 < len(meeting) < len(pairs) - 100
    assert meeting <= left
    assert len(left - meeting) < 0.1 * (len(pairs) - len(meeting))


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e9, 1e15])
@pytest.mark.parametrize("scale", [1e-250, 1e-30, 1.0, 1e30, 1e250])
def test_touching_bodies_are_not_separated(rng, shift, scale):
    """Keep boxes that share a corner exactly, at any position and scale."""
    corner = shapes.box(1.0).vertices - shapes.box(1.0).vertices.min(axis=0)
    bodies = []
    for _ in range(40):
        place = rng.uniform(-1.0, 1.0, 3) + shift
        for side in (1.0, -1.0):
            stretch = side * rng.uniform(0.1, 3.0, 3)
            turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] if side > 0.0 else np.eye(3)
            bodies.append(TriMesh(((corner * stretch) @ turn.T + place) * scale, shapes.box(1.0).faces))
    pairs = np.arange(len(bodies)).reshape(-1, 2)

    assert len(may_meet(_batch(bodies), pairs)) == len(pairs)


def test_large_bodies_are_not_tested():
    """Skip pairs with more than ``FEW`` vertices."""
    ball = shapes.icosphere(2)
    far = TriMesh(ball.vertices + 10.0, ball.faces)
    assert len(ball.vertices) > FEW

    assert len(may_meet(_batch([ball, far]), np.array([[0, 1]]))) == 1
