"""Second derivatives of elements: against differences of forces, against linear elasticity, and their signs."""

from __future__ import annotations

import numpy as np
import pytest

from deform.implicit.incremental import KINDS, SOFT, STILL, Incremental, block, contacts_of, differences
from impinge.deform.fem import Corotated, GreenStrain, StableNeoHookean
from impinge.deform.implicit import principal_kernels
from impinge.deform.materials import Material
from impinge.deform.springs import SpringSheet
from impinge.mesh.shapes import cloth_grid

kinds = pytest.mark.parametrize("kind", KINDS)


def stretched(model, rng, amount=0.0005):
    """Pulled and turned, a state without compression: no eigenvalue is negative."""
    turn = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    return model.rest @ np.diag([1.07, 1.05, 1.04]) @ turn.T + rng.normal(size=model.rest.shape) * amount


@pytest.mark.small
@kinds
@pytest.mark.parametrize("amount", [0.005, 0.05], ids=["little", "inside out"])
def test_forces_of_a_step_are_minus_those_of_the_model(rng, kind, amount):
    """Find the model's own forces and energy in the gradient, inertia and damping apart."""
    model = block(kind, STILL)
    x = model.rest + rng.normal(size=model.rest.shape) * amount
    step = Incremental([model], x)
    force = model.forces(x, np.zeros_like(x))

    assert (len(model.inverted(x)) > 5) == (amount > 0.01)
    np.testing.assert_allclose(step.gradient(x), -force, rtol=0.0, atol=1e-10 * np.abs(force).max())
    np.testing.assert_allclose(step.energy(x), model.energy(x), rtol=1e-12)


@pytest.mark.small
@pytest.mark.medium
@kinds
def test_gradient_is_that_of_the_energy(rng, kind):
    """Compare the gradient, damping included, to differences of the incremental energy."""
    model = block(kind, Material(1e4, 0.35, 1000.0, 300.0, 200.0), cells=(2, 1, 1))
    x0 = model.rest + rng.normal(size=model.rest.shape) * 0.01
    x = x0 + rng.normal(size=model.rest.shape) * 0.01
    step = Incremental([model], x0, v0=rng.normal(size=x.shape))
    gradient = step.gradient(x)
    expected = differences(step.energy, x, 1e-6).reshape(x.shape)

    np.testing.assert_allclose(gradient, expected, rtol=0.0, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.small
@pytest.mark.medium
@kinds
def test_matrix_is_the_derivative_of_the_gradient(rng, kind):
    """Compare to differences where no eigenvalue is negative, with viscosity from the start of the step on."""
    model = block(kind, SOFT, cells=(2, 1, 1))
    x = stretched(model, rng)
    step = Incremental([model], x)
    expected = differences(step.gradient, x, 1e-6).reshape(x.size, x.size)

    np.testing.assert_allclose(step.matrix(x), expected, rtol=0.0, atol=1e-6 * np.abs(expected).max())
    assert np.linalg.eigvalsh(expected).min() > 0.0


@pytest.mark.small
@kinds
def test_at_rest_all_models_are_linear_elasticity(kind):
    """Have one matrix at rest, that of small strains."""
    material = Material(1e4, 0.35, 1000.0, 0.0, 0.0)
    model = block(kind, material, cells=(1, 1, 1))
    found = Incremental([model], model.rest).matrix(model.rest)
    small = np.diag(np.repeat(model.masses, 3) / 1e-4)
    for tet in model.tets:
        corner = model.rest[tet]
        inverse = np.linalg.inv((corner[1:] - corner[0]).T)
        g = np.concatenate([-inverse.sum(axis=0)[None], inverse])
        volume = np.linalg.det((corner[1:] - corner[0]).T) / 6.0
        for a, i in enumerate(tet):
            for b, j in enumerate(tet):
                k = material.lame_mu * (g[a] @ g[b] * np.eye(3) + np.outer(g[b], g[a]))
                k += material.lame_lambda * np.outer(g[a], g[b])
                small[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] += volume * k

    np.testing.assert_allclose(found, small, rtol=0.0, atol=1e-9 * np.abs(small).max())


@pytest.mark.small
@kinds
@pytest.mark.parametrize("amount", [0.001, 0.05, 0.3], ids=["squeezed", "inside out", "wild"])
def test_matrix_is_symmetric_and_never_negative(rng, kind, amount):
    """Have no eigenvalue below that of inertia in any state, where true second derivatives have negative ones."""
    model = block(kind, Material(1e5, 0.4, 1000.0), cells=(2, 1, 1))
    x0 = 0.6 * model.rest + rng.normal(size=model.rest.shape) * amount
    step = Incremental([model], model.rest, h=10.0)
    found = step.matrix(x0)
    largest = np.abs(found).max()
    true = differences(step.gradient, x0, 1e-6).reshape(x0.size, x0.size)

    assert np.abs(found - found.T).max() < 1e-12 * largest
    assert np.linalg.eigvalsh(found).min() > -1e-12 * largest
    assert (np.linalg.eigvalsh(true).min() < -1e-4 * largest) or amount > 0.1  # stretched, mostly


@pytest.mark.small
def test_springs_have_gradient_and_matrix(rng):
    """Compare springs to differences: stretched ones exactly, and no negative eigenvalue when compressed."""
    mesh = cloth_grid(3, 2, size=(0.3, 0.2))
    model = SpringSheet(mesh.vertices, mesh.faces, bending=0.1)
    x = model.rest * 1.2 + rng.normal(size=model.rest.shape) * 0.003
    step = Incremental([model], x, v0=rng.normal(size=x.shape))
    away = x + rng.normal(size=x.shape) * 0.002
    gradient, matrix = step.gradient(away), step.matrix(x)
    expected = differences(step.gradient, x, 1e-6).reshape(x.size, x.size)

    np.testing.assert_allclose(gradient.reshape(-1), differences(step.energy, away, 1e-6), atol=1e-5, rtol=0.0)
    np.testing.assert_allclose(matrix, expected, rtol=0.0, atol=1e-6 * np.abs(expected).max())
    squeezed = Incremental([model], 0.5 * x, h=100.0).matrix(0.5 * x + rng.normal(size=x.shape) * 0.02)
    assert np.linalg.eigvalsh(squeezed).min() > -1e-12 * np.abs(squeezed).max()


@pytest.mark.small
def test_contacts_have_gradient_and_matrix(rng):
    """Add k d w of contacts that press, and k w wᵀ."""
    model = block(cells=(1, 1, 1))
    rows = [([0, 3], rng.normal(size=(2, 3)), 0.3, 500.0), ([1], rng.normal(size=(1, 3)), -0.3, 700.0)]
    with_rows = Incremental([model], model.rest, contacts=contacts_of(rows))
    without = Incremental([model], model.rest)
    x = model.rest + rng.normal(size=model.rest.shape) * 0.001
    w = np.zeros_like(x)
    w[rows[0][0]] = rows[0][1]

    assert with_rows.energy(x) > without.energy(x)
    np.testing.assert_allclose(with_rows.gradient(x).reshape(-1), differences(with_rows.energy, x, 1e-6), atol=1e-4)
    np.testing.assert_allclose(with_rows.matrix(x) - without.matrix(x), 500.0 * np.outer(w, w), atol=1e-7)


@pytest.mark.small
def test_friction_has_gradient_and_matrix(rng):
    """Derive the energy of sticking and sliding contacts, twice."""
    model = block(cells=(1, 1, 1))
    rows = [([0, 3], rng.normal(size=(2, 3)), 0.3, 500.0), ([1, 4], rng.normal(size=(2, 3)), 0.1, 700.0)]
    slips = rng.normal(size=(4, 3, 3))
    contacts = contacts_of(
        rows, friction=1.0, block=slips, normal_force=np.array([100.0, 0.05]),
        friction_force=np.array([[1.0, 2.0, 0.0], [0.01, 0.04, 0.0]]),
    )  # fmt: skip
    step, smooth = Incremental([model], model.rest, contacts=contacts), Incremental([model], model.rest)
    x = model.rest + rng.normal(size=model.rest.shape) * 0.001
    matrix = step.matrix(x) - smooth.matrix(x)
    curvature = differences(lambda y: step.gradient(y) - smooth.gradient(y), x, 1e-6).reshape(x.size, x.size)
    step.gradient(x)
    force = step.s.c_friction_force.reshape(-1, 3)

    assert np.linalg.norm(force[0]) < 100.0
    assert np.linalg.norm(force[1]) == pytest.approx(0.05)
    np.testing.assert_allclose(step.gradient(x).reshape(-1), differences(step.energy, x, 1e-6), atol=1e-4)
    np.testing.assert_allclose(matrix, curvature, atol=1e-3)


REGULAR = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])
"""A regular tet: changes of F are changes of positions, times one number."""


@pytest.mark.small
@kinds
@pytest.mark.parametrize("state", ["random", "pressed", "flat", "inside out"])
def test_matrix_is_the_positive_part_of_the_second_derivative(rng, kind, state):
    """Find the exact Hessian of a regular tet, its negative eigenvalues set to 0, flat and inverted ones included."""
    model = kind(REGULAR, [[0, 1, 2, 3]], STILL)
    shrink = {
        "random": [1.0, 1.1, 1.2],
        "pressed": [0.3, 1.0, 1.1],
        "flat": [1.0, 1.3, 0.0],
        "inside out": [1, 1.2, -0.4],
    }
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    x = model.rest @ turn @ np.diag(shrink[state]) @ turn.T
    step, h = Incremental([model], model.rest, h=100.0), 100.0
    inertia = np.diag(np.repeat(model.masses, 3) / h**2)
    gradient, expected = step.gradient(x), differences(step.energy, x, 1e-5)
    true = differences(step.gradient, x, 1e-6).reshape(12, 12) - inertia
    values, vectors = np.linalg.eigh(0.5 * (true + true.T))
    positive = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T

    np.testing.assert_allclose(gradient.reshape(-1), expected, rtol=0.0, atol=1e-6 * np.abs(gradient).max())
    np.testing.assert_allclose(step.matrix(x) - inertia, positive, rtol=0.0, atol=1e-5 * values.max())
    assert (values.min() < -1e-3 * values.max()) == (state != "random")


@pytest.mark.tiny
@pytest.mark.small
def test_eigenvectors_of_symmetric_matrices(rng):
    """Decompose random, degenerate and diagonal matrices to 1e-6, with orthogonal vectors; keep the positive part."""
    cases = [*rng.normal(size=(50, 6)), np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), np.zeros(6), np.full(6, 2.0)]
    for a in cases:
        matrix = np.array([[a[0], a[3], a[4]], [a[3], a[1], a[5]], [a[4], a[5], a[2]]])
        values, vectors = principal_kernels.eigenvectors(tuple(a))
        v = np.array(vectors).reshape(3, 3)
        p = principal_kernels.positive_part(tuple(a))
        positive = np.array([[p[0], p[3], p[4]], [p[3], p[1], p[5]], [p[4], p[5], p[2]]])
        w, u = np.linalg.eigh(matrix)

        np.testing.assert_allclose(v.T @ v, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(v @ np.diag(values) @ v.T, matrix, atol=1e-6)
        np.testing.assert_allclose(positive, u @ np.diag(np.maximum(w, 0.0)) @ u.T, atol=1e-6)


def test_classes_are_covered():
    """Test all models that have second derivatives."""
    assert set(KINDS) == {GreenStrain, Corotated, StableNeoHookean}
