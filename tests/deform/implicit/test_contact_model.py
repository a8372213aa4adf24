"""Contacts within a Newton step: the minimum of the model, against an independent minimiser; sums of leaves."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

from deform.implicit.incremental import EARTH, Incremental, block, contacts_of
from impinge.deform.implicit import assembly_kernels as assembly
from impinge.deform.implicit import cg_kernels as cg
from impinge.deform.implicit import contact_kernels as contact
from impinge.deform.implicit.system import ImplicitSystem

pytestmark = pytest.mark.small
H = 1.0 / 60.0


def landing(rng, friction=0.0, count=40):
    """A block that moves fast towards contacts with random weights and offsets of either sign."""
    model = block(cells=(3, 2, 2))
    n = len(model.rest)
    rows = []
    for _ in range(count):
        ids = rng.choice(n, 3, replace=False)
        rows.append((ids, rng.normal(size=(3, 3)), rng.uniform(-0.02, 0.01), rng.uniform(10.0, 1000.0)))
    slips = rng.normal(size=(3 * count, 3, 3)) if friction else None
    forces = rng.uniform(0.1, 2.0, size=count)
    contacts = contacts_of(rows, block=slips, normal_force=forces)
    contacts = dataclasses.replace(contacts, friction=np.where(np.arange(count) % 2, friction, 50.0 * friction))
    return model, contacts, np.tile([0.3, 0.0, -0.8], (n, 1)) + 0.2 * rng.normal(size=(n, 3))


def test_contacts_of_a_step_minimise_the_energy(rng):
    """Open and close contacts as SciPy's minimiser does, in few Newton steps."""
    model, contacts, v0 = landing(rng)
    judge = Incremental([model], model.rest, h=H, v0=v0, contacts=contacts)
    shape, x, v = model.rest.shape, model.rest.copy(), v0.copy()
    options = {"maxiter": 5000, "maxfun": 50000, "maxcor": 60, "gtol": 1e-12, "ftol": 0.0}
    best = minimize(
        lambda y: judge.energy(y.reshape(shape)), (x + H * v0).reshape(-1), method="L-BFGS-B", options=options,
        jac=lambda y: judge.gradient(y.reshape(shape)).reshape(-1),
    )  # fmt: skip
    report = ImplicitSystem([model]).step(x, v, H, contacts=contacts, tolerance=1e-6, linear_tolerance=1e-8)
    energy = judge.energy(best.x.reshape(shape))
    pressed = judge.s.c_normal_force > 0.0

    assert 5 < pressed.sum() < len(pressed) - 5
    assert report.converged.all()
    assert report.newton_steps[0] <= 8
    assert judge.energy(x) <= energy + 1e-9 * abs(energy)
    np.testing.assert_allclose(x, best.x.reshape(shape), atol=1e-5)


def test_friction_of_a_step_is_on_its_limit_or_sticks(rng):
    """End where gradients vanish, limits are μ times the normal forces, and friction is at most at its limit."""
    model, contacts, v = landing(rng, friction=0.4)
    system, x = ImplicitSystem([model]), model.rest.copy()
    report = system.step(x, v, H, gravity=EARTH, contacts=contacts, tolerance=1e-4)
    normal, friction, limit = system.contact_forces()
    size, pressed = np.linalg.norm(friction, axis=1), normal > 0.0
    slides = pressed & (size > 0.999 * limit)

    assert report.converged.all()
    assert 3 < slides.sum() < pressed.sum()
    np.testing.assert_allclose(limit.sum(), (contacts.friction * normal).sum(), rtol=0.02)
    assert (size <= limit * (1.0 + 1e-12)).all()


def test_line_search_finds_the_minimum(rng):
    """Bracket the one change of sign of the slope; take the whole direction where the energy still falls there."""
    model, contacts, v0 = landing(rng, friction=0.4)
    step = Incremental([model], model.rest, h=H, v0=v0, contacts=contacts)
    shortened = 0
    for _ in range(20):
        direction = 10.0 ** rng.uniform(-5.0, -2.0) * rng.normal(size=model.rest.shape)
        base = model.rest + 0.003 * rng.normal(size=model.rest.shape)
        step.energy(base)
        q, s, last = step.q, step.s, len(contacts.offset)
        s.d[:] = direction[step.system._numbering.vertex].reshape(-1)
        contact.set_line(q, s, 0, last)
        slope, curvature = -abs(contact._line_slope(q, s, 0, last, 0.0)) - 0.01, 0.02
        fraction = contact.search_line(q, s, 0, last, slope, curvature)

        def derivative(t, q=q, s=s, last=last, slope=slope, curvature=curvature):
            return slope + curvature * t + contact._line_slope(q, s, 0, last, t)

        assert 0.0 < fraction <= 1.0
        if fraction < 1.0:
            shortened += 1
            assert abs(derivative(fraction)) <= 0.1 * abs(derivative(0.0)) * (1.0 + 1e-9)
        else:
            assert derivative(1.0) <= 0.1 * abs(derivative(0.0))
    assert 0 < shortened < 20


def test_each_leaf_has_sums_of_its_own():
    """Write sums of a leaf to its own two entries: islands that are solved side by side share the array."""
    model = block(cells=(6, 6, 6))
    step = Incremental([model], model.rest)
    step.gradient(model.rest)
    leaves = len(step.t.leaf_start) - 1
    for leaf in range(leaves):
        for write in (
            lambda k: cg.multiply.serial(step.t, step.q, step.s, k, k + 1),
            lambda k: cg.update.serial(step.t, step.q, step.s, k, k + 1, 0.0),
            lambda k: assembly.gather_gradient.serial(step.t, step.q, step.s, k, k + 1),
        ):
            step.s.leaf_sum[:] = np.nan
            write(leaf)
            assert set(np.flatnonzero(~np.isnan(step.s.leaf_sum)).tolist()) <= {2 * leaf, 2 * leaf + 1}
    assert leaves >= 4
