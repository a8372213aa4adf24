"""Smoothed elements: domains of edges, their energy and forces, and their steps; the cure for locking."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.locking import beam_sag, sag
from deform.implicit.incremental import EARTH, KINDS, SOFT, STILL, Incremental, block, differences
from impinge.backend import jit
from impinge.deform.batch import ModelBatch
from impinge.deform.fem import Corotated, GreenStrain, StableNeoHookean
from impinge.deform.implicit.system import ImplicitSystem
from impinge.deform.integrate import Integrator
from impinge.deform.materials import Material
from impinge.deform.smoothing import edge_domains
from impinge.errors import OptionError
from impinge.mesh import shapes

kinds = pytest.mark.parametrize("kind", KINDS)
HARD = Material(4e4, 0.2, 2000.0, 0.0, 0.0)
MIXED = (STILL, HARD)


def turn() -> np.ndarray:
    found, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    return found * np.sign(np.linalg.det(found))


def halves(kind=Corotated, cells=(4, 2, 2)):
    """A block of two materials, the border between them inside."""
    mesh = shapes.tet_box(*cells, size=tuple(0.1 * n for n in cells))
    middle = mesh.vertices[mesh.tets].mean(axis=1)[:, 0] > 0.0
    return kind(mesh.vertices, mesh.tets, [MIXED[int(k)] for k in middle], elements="smoothed")


def mean_gradients(model, x):
    """Of each edge and material: volume, mean deformation gradient and material, tet by tet."""
    found = {}
    for tet, k in zip(model.tets, model.tet_material):
        rest, now = model.rest[tet], x[tet]
        edges = (rest[1:] - rest[0]).T
        volume = np.linalg.det(edges) / 6.0
        gradient = (now[1:] - now[0]).T @ np.linalg.inv(edges)
        for a in range(4):
            for b in range(a + 1, 4):
                key = (int(k), *sorted((int(tet[a]), int(tet[b]))))
                size, total = found.get(key, (0.0, np.zeros((3, 3))))
                found[key] = size + volume / 6.0, total + volume / 6.0 * gradient
    return {key: (size, total / size) for key, (size, total) in found.items()}


def density(kind, f, material) -> float:
    """Energy per volume of a deformation gradient, from its singular values."""
    u, s, vt = np.linalg.svd(f)
    if np.linalg.det(u @ vt) < 0.0:
        s[2] = -s[2]
    lam, mu = material.lame_lambda, material.lame_mu
    if kind is Corotated:
        return mu * ((s - 1.0) ** 2).sum() + 0.5 * lam * (s - 1.0).sum() ** 2
    e = 0.5 * (s**2 - 1.0)
    below = min(s.prod() - 1.0 / np.sqrt(3.0), 0.0)
    return mu * (e**2).sum() + 0.5 * lam * e.sum() ** 2 + 0.5 * (lam + 2.0 * mu) * below**2


# domains -----------------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("kind", [Corotated, GreenStrain])
def test_energy_is_that_of_mean_gradients(rng, kind):
    """Sum the energy of the mean gradient of each edge, a separate mean for each material."""
    model = halves(kind)
    x = model.rest + rng.normal(size=model.rest.shape) * 0.02
    means = mean_gradients(model, x)
    expected = sum(size * density(kind, f, MIXED[key[0]]) for key, (size, f) in means.items())
    apart = {key[1:] for key in means if key[0] == 0} & {key[1:] for key in means if key[0] == 1}

    assert len(apart) > 10
    assert model.energy(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.tiny
@pytest.mark.small
def test_domains_share_the_volume_of_tets():
    """Divide each tet among its six edges; weights sum to zero and reproduce linear motion."""
    mesh = shapes.tet_box(2, 2, 1, size=(0.3, 0.2, 0.1))
    edges = (mesh.vertices[mesh.tets[:, 1:]] - mesh.vertices[mesh.tets[:, :1]]).transpose(0, 2, 1)
    volumes, materials = np.linalg.det(edges) / 6.0, np.arange(len(mesh.tets)) % 2
    domains = edge_domains(mesh.vertices, mesh.tets, volumes, np.linalg.inv(edges), materials)
    motion = np.random.default_rng(0).normal(size=(3, 3))

    for k in range(2):
        assert domains.volume[domains.material == k].sum() == pytest.approx(volumes[materials == k].sum())
    assert (domains.material[domains.of_tet] == materials[:, None]).all()
    for d in range(len(domains.volume)):
        own = slice(domains.start[d], domains.start[d + 1])
        around = np.unique(mesh.tets[(domains.of_tet == d).any(axis=1)])
        np.testing.assert_array_equal(domains.vertex[own], around)
        np.testing.assert_allclose(domains.weight[own].sum(axis=0), 0.0, atol=1e-12)
        moved = mesh.vertices[domains.vertex[own]] @ motion.T
        np.testing.assert_allclose(moved.T @ domains.weight[own], motion, atol=1e-12)


@pytest.mark.small
@kinds
def test_uniform_deformation_has_the_energy_of_linear_tets_and_no_force_inside(kind):
    """Pass the patch test: the same energy as linear tets, and forces on the boundary alone."""
    linear, smoothed = block(kind, SOFT, cells=(4, 3, 3)), block(kind, SOFT, cells=(4, 3, 3), elements="smoothed")
    x = linear.rest @ np.array([[1.2, 0.1, 0.0], [-0.2, 0.8, 0.3], [0.1, 0.0, 1.1]]).T + 3.0
    v = linear.rest @ np.array([[0.0, 2.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.0]]).T
    inside = (np.abs(linear.rest) < 0.99 * linear.rest.max(axis=0)).all(axis=1)
    force = smoothed.forces(x, v)

    assert inside.any()
    assert smoothed.energy(x) == pytest.approx(linear.energy(x), rel=1e-12)
    assert np.abs(force[inside]).max() < 1e-12 * np.abs(force).max()
    np.testing.assert_array_equal(smoothed.masses, linear.masses)


@pytest.mark.small
@kinds
def test_rest_and_rigid_motion_have_no_force(kind):
    """Have neither energy nor force at rest and in a turned and shifted place; turn forces with the body."""
    model = block(kind, STILL, elements="smoothed")
    rng = np.random.default_rng(1)
    still = np.zeros_like(model.rest)
    x = model.rest + rng.normal(size=model.rest.shape) * 0.01
    scale = np.abs(model.forces(x, still)).max()

    for y in (model.rest, model.rest @ turn().T + 2.0):
        assert np.abs(model.forces(y, still)).max() < 1e-11 * scale
        assert abs(model.energy(y)) < 1e-12 * model.energy(x)
    np.testing.assert_allclose(model.forces(x @ turn().T, still), model.forces(x, still) @ turn().T, atol=1e-11 * scale)
    assert np.abs(model.forces(x, still).sum(axis=0)).max() < 1e-12 * scale
    assert np.abs(np.cross(x, model.forces(x, still)).sum(axis=0)).max() < 1e-12 * scale


@pytest.mark.small
@kinds
def test_forces_are_minus_the_gradient_of_the_energy(rng, kind):
    """Compare forces to differences of the energy; damping takes energy."""
    model = block(kind, STILL, cells=(2, 1, 1), elements="smoothed")
    damped = block(kind, SOFT, cells=(2, 1, 1), elements="smoothed")
    x = model.rest + rng.normal(size=model.rest.shape) * 0.02
    v = rng.normal(size=x.shape)
    force = model.forces(x, np.zeros_like(x))

    np.testing.assert_allclose(-force.reshape(-1), differences(model.energy, x, 1e-6), atol=1e-6 * np.abs(force).max())
    assert ((damped.forces(x, v) - damped.forces(x, np.zeros_like(x))) * v).sum() < 0.0


@pytest.mark.small
@kinds
def test_inverted_tets_are_reported(kind):
    """Name the tets that are inside out, though means of gradients are not."""
    model = block(kind, SOFT, cells=(3, 3, 3), elements="smoothed")
    x = model.rest.copy()
    corner = int(np.argmax(model.rest.sum(axis=1)))
    x[corner] -= 0.12
    linear = block(kind, SOFT, cells=(3, 3, 3))

    assert 0 < len(model.inverted(x)) < 8
    np.testing.assert_array_equal(model.inverted(x), linear.inverted(x))
    np.testing.assert_allclose(model.determinants(x), linear.determinants(x), atol=1e-12)


# explicit steps ----------------------------------------------------------------------------------------------------


@pytest.mark.small
@kinds
def test_the_stable_step_is_below_that_of_the_mesh(rng, kind):
    """Bound the largest frequency of the assembled mesh, at rest and stretched."""
    model = block(kind, STILL, cells=(2, 2, 1), elements="smoothed")
    for x in (model.rest, model.rest @ np.diag([1.3, 1.1, 1.2]) + rng.normal(size=model.rest.shape) * 0.005):
        force = lambda y: -model.forces(y, np.zeros_like(y))  # noqa: E731
        stiffness = differences(force, x, 1e-6).reshape(x.size, x.size)
        root = np.sqrt(np.repeat(model.masses, 3))
        largest = np.sqrt(np.linalg.eigvalsh(0.5 * (stiffness + stiffness.T) / np.outer(root, root))[-1])

        assert 0.2 < model.stable_step(x) * largest / (0.8 * 2.6) < 1.0


@pytest.mark.small
def test_batches_and_threads_keep_the_bits(rng):
    """Compute the same forces in a batch with linear tets, and on one thread and two."""
    models = [block(GreenStrain), halves(GreenStrain), block(Corotated, cells=(8, 8, 8), elements="smoothed")]
    first = np.cumsum([0, *(len(model.rest) for model in models)])
    x = np.concatenate([model.rest for model in models]) + rng.normal(size=(first[-1], 3)) * 0.01
    v = rng.normal(size=x.shape)
    before, found = jit.thread_count(), []
    for count in (1, 2):
        jit.set_threads(count)
        try:
            out = np.zeros_like(x)
            batch = ModelBatch(models, list(first[:-1]), len(x))
            batch.forces(x, v, out)
            found.append((out, batch.stable_steps(x, v)))
        finally:
            jit.set_threads(before)
    for k, model in enumerate(models):
        own = slice(first[k], first[k + 1])
        np.testing.assert_array_equal(found[0][0][own], model.forces(x[own], v[own]))
        assert found[0][1][k] == model.stable_step(x[own], v[own])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.small
def test_explicit_steps_keep_energy():
    """Swing without damping for half a second and keep the sum of elastic and kinetic energy to a thousandth."""
    model = block(StableNeoHookean, STILL, cells=(2, 2, 2), elements="smoothed")
    x, v = model.rest @ np.diag([1.1, 1.0, 0.95]), np.zeros_like(model.rest)

    def energy() -> float:
        return model.energy(x) + 0.5 * float((model.masses[:, None] * v**2).sum())

    before = energy()
    short = 0.25 * model.stable_step()
    Integrator(model).advance(
        x, v, 0.5, external=None, gravity=(0.0, 0.0, 0.0), fixed=np.zeros(len(x), dtype=bool), max_substep=short
    )

    assert energy() == pytest.approx(before, rel=1e-3)
    assert np.abs(v).max() > 0.01


# implicit steps ----------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.medium
@kinds
def test_implicit_gradient_and_matrix_are_derivatives(rng, kind):
    """Compare the gradient to forces and the matrix to differences, with viscosity; two materials in one model."""
    still = halves(kind, cells=(2, 1, 1))
    damped = block(kind, SOFT, cells=(2, 1, 1), elements="smoothed")
    for model in (still, damped):
        x = model.rest @ np.diag([1.07, 1.05, 1.04]) @ turn().T + rng.normal(size=model.rest.shape) * 0.0005
        step = Incremental([model], x)
        force, matrix = model.forces(x, np.zeros_like(x)), step.matrix(x)
        expected = differences(step.gradient, x, 1e-6).reshape(x.size, x.size)

        np.testing.assert_allclose(step.gradient(x), -force, rtol=0.0, atol=1e-10 * np.abs(force).max())
        np.testing.assert_allclose(matrix, expected, rtol=0.0, atol=1e-6 * np.abs(expected).max())
        y = x + rng.normal(size=x.shape) * 0.005
        gradient = step.gradient(y).reshape(-1)
        np.testing.assert_allclose(gradient, differences(step.energy, y, 1e-6), atol=1e-6 * np.abs(gradient).max())


@pytest.mark.small
@kinds
def test_only_rigid_motions_have_no_energy(kind):
    """Find six zero eigenvalues of the stiffness at rest."""
    model = block(kind, STILL, cells=(2, 2, 2), elements="smoothed")
    values = np.linalg.eigvalsh(Incremental([model], model.rest, h=1e4).matrix(model.rest))

    assert (values < 1e-8 * values[-1]).sum() == 6
    assert values[6] > 1e-3 * values[-1]


@pytest.mark.small
@kinds
@pytest.mark.parametrize("amount", [0.001, 0.05, 0.3], ids=["squeezed", "inside out", "wild"])
def test_the_matrix_has_no_negative_eigenvalue(rng, kind, amount):
    """Have no eigenvalue below that of inertia in any state."""
    model = block(kind, Material(1e5, 0.4, 1000.0), cells=(2, 1, 1), elements="smoothed")
    x = 0.6 * model.rest + rng.normal(size=model.rest.shape) * amount
    found = Incremental([model], model.rest, h=10.0).matrix(x)
    largest = np.abs(found).max()

    assert np.abs(found - found.T).max() < 1e-12 * largest
    assert np.linalg.eigvalsh(found).min() > -1e-12 * largest


@pytest.mark.small
@pytest.mark.medium
@pytest.mark.parametrize("method", ["backward_euler", "midpoint"])
def test_implicit_steps_have_the_same_bits_for_any_threads(rng, method):
    """Step linear and smoothed bodies at once: the same bits alone, on one thread and on two, inside a step too."""
    models = [block(Corotated), halves(StableNeoHookean), block(GreenStrain, cells=(4, 4, 4), elements="smoothed")]
    starts = [model.rest + rng.normal(size=model.rest.shape) * 0.005 for model in models]
    before, found = jit.thread_count(), []
    for threads, threaded_from in ((1, 10**9), (2, 10**9), (2, 1)):
        jit.set_threads(threads)
        try:
            system, x = ImplicitSystem(models, threaded_from=threaded_from), np.concatenate(starts)
            v = np.zeros_like(x)
            for _ in range(3):
                report = system.step(x, v, 0.01, gravity=EARTH, method=method)
            found.append(x.tobytes() + v.tobytes())
        finally:
            jit.set_threads(before)
    alone, v = starts[2].copy(), np.zeros_like(starts[2])
    single = ImplicitSystem(models[2:])
    for _ in range(3):
        single.step(alone, v, 0.01, gravity=EARTH, method=method)

    assert report.converged.all()
    assert found[0] == found[1] == found[2]
    np.testing.assert_array_equal(x[-len(alone) :], alone)


@pytest.mark.small
@pytest.mark.parametrize("method", ["backward_euler", "midpoint"])
def test_reports_name_tets(method):
    """Report inverted tets and the least det F by tet, not by domain."""
    model = block(Corotated, SOFT, cells=(3, 3, 3), elements="smoothed")
    x, held = model.rest.copy(), np.zeros(len(model.rest), dtype=bool)
    corner = int(np.argmax(model.rest.sum(axis=1)))
    x[corner] -= 0.12
    held[corner] = True
    report = ImplicitSystem([model]).step(x, np.zeros_like(x), 1e-4, held=held, method=method)
    determinants = model.determinants(x)

    assert len(report.inverted[0])
    np.testing.assert_array_equal(report.inverted[0], model.inverted(x))
    assert report.worst_tet[0] == np.argmin(determinants)
    assert report.least_determinant[0] == determinants.min()


# locking -----------------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.medium
@pytest.mark.parametrize(
    ("poisson_ratio", "elements", "expected"),
    [
        (0.3, "linear", (0.35, 0.66, 0.80)), (0.3, "smoothed", (0.66, 0.89, 0.94)),
        (0.45, "linear", (0.30, 0.58, 0.73)), (0.45, "smoothed", (0.52, 0.79, 0.87)),
    ],
)  # fmt: skip
def test_a_bar_sags_as_measured(poisson_ratio, elements, expected):
    """Sag with 1 to 3 cells across by the documented shares of Timoshenko's beam."""
    shares = [sag(cells, poisson_ratio, elements) / beam_sag(poisson_ratio) for cells in (1, 2, 3)]

    np.testing.assert_allclose(shares, expected, atol=0.01)


@pytest.mark.small
@kinds
def test_unknown_elements_are_refused(kind):
    """Name both kinds of elements."""
    mesh = shapes.tet_box(1, 1, 1)
    for wrong in ("quadratic", None, 2):
        with pytest.raises(OptionError, match=r"elements is .*, expected one of 'linear', 'smoothed'"):
            kind(mesh.vertices, mesh.tets, "rubber", elements=wrong)
