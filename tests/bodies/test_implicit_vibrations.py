"""Frequencies and decay of vibrations in implicit steps, against eigenvalues, the schemes, and analytic bars."""

from __future__ import annotations

import math

import numpy as np
import pytest

from implicit_bodies import INTEGRATORS, MODELS, STILL, bar, clamp, elastic, modes, sheet

pytestmark = pytest.mark.small
models = pytest.mark.parametrize("model", MODELS)
integrators = pytest.mark.parametrize("integrator", INTEGRATORS)
SMALL = 1e-5
"""Amplitude of vibrations, relative to the body: small enough for linear theory."""


def scheme(integrator, omega, decay, h, steps):
    """Amplitudes of x'' = -ω² x - d x' from x = 1 at rest, by the scheme."""
    half = 0.5 * h if integrator == "midpoint" else h
    x, v, found = 1.0, 0.0, []
    for _ in range(steps):
        speed = (v - half * omega**2 * x) / (1.0 + half * decay + (half * omega) ** 2)
        place = x + half * speed
        x, v = (2.0 * place - x, 2.0 * speed - v) if integrator == "midpoint" else (place, speed)
        found.append(x)
    return np.array(found)


def vibrate(body, free, shape, h, steps, integrator):
    """Amplitudes of a mode that starts at rest, with all else at rest."""
    weight = body.model.masses[free, None] * shape
    x, rest = body.coarse.vertices.copy(), body.coarse.vertices[free].copy()
    x[free] += SMALL / np.abs(shape).max() * shape
    body.coarse.update(x)
    found = []
    for _ in range(steps):
        assert body.step(h, gravity=STILL, integrator=integrator).converged
        found.append(float(((body.coarse.vertices[free] - rest) * weight).sum()))
    return np.array(found) * np.abs(shape).max() / SMALL


@integrators
@models
def test_a_bar_bends_at_the_frequency_of_its_stiffness_and_mass(model, integrator):
    """Follow the lowest eigenvalue as the scheme does: by the midpoint rule, a step turns by 2 atan(ω h / 2)."""
    body = bar(model, elastic(1e5, 0.3), cells=(4, 1, 1))
    free = clamp(body)
    omega, shape = modes(body, free)
    h, steps = 2.0 * math.pi / omega[0] / 40, 60
    found = vibrate(body, free, shape[0], h, steps, integrator)
    expected = scheme(integrator, omega[0], 0.0, h, steps)

    assert np.abs(found - expected).max() < 5e-3
    if integrator == "midpoint":
        turn = 2.0 * math.atan(0.5 * omega[0] * h)
        np.testing.assert_allclose(expected, np.cos(turn * np.arange(1, steps + 1)), atol=1e-9)


@models
def test_a_bar_stretches_at_the_analytic_frequency(model):
    """Have the axial frequency c / 4 L of a clamped bar, less about (π / n)² / 96 of it for n cells."""
    errors = []
    for cells in (3, 6):
        body = bar(model, elastic(1e6, 0.0), cells=(cells, 1, 1), size=0.6 / cells)
        free = clamp(body)
        omega, shape = modes(body, free)
        along = np.sin(0.5 * math.pi * (body.model.rest[free, 0] + 0.3) / 0.6)
        share = np.abs((shape[:, :, 0] * body.model.masses[free] * along).sum(axis=1))
        mode = int(np.argmax(share))
        analytic = 2.0 * math.pi * math.sqrt(1e6 / 1000.0) / (4.0 * 0.6)
        errors.append(1.0 - omega[mode] / analytic)
        h, steps = 2.0 * math.pi / omega[mode] / 40, 40
        found = vibrate(body, free, shape[mode], h, steps, "midpoint")
        np.testing.assert_allclose(found, scheme("midpoint", omega[mode], 0.0, h, steps), atol=5e-3)

    assert 0.0 < errors[1] < errors[0] < 1.3 * (math.pi / 3) ** 2 / 96.0
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


@integrators
@models
def test_viscosity_damps_modes_at_the_analytic_rate(model, integrator):
    """Decay at the rate τ ω² / 2, τ the ratio of viscous to elastic constants, as the scheme does."""
    tau = 5e-3
    body = bar(model, elastic(1e5, 0.3, viscous=tau), cells=(4, 1, 1))
    free = clamp(body)
    omega, shape = modes(body, free)
    h, steps = 2.0 * math.pi / omega[0] / 40, 120
    decay = tau * omega[0] ** 2
    found = vibrate(body, free, shape[0], h, steps, integrator)
    expected = scheme(integrator, omega[0], decay, h, steps)
    envelope = math.exp(-0.5 * decay * h * steps)

    assert 0.2 < envelope < 0.8
    assert np.abs(found - expected).max() < 5e-3
    if integrator == "midpoint":
        peaks = np.abs(found).reshape(3, 40)[1:].max(axis=1)
        assert math.log(peaks[0] / peaks[1]) == pytest.approx(0.5 * decay * 40 * h, rel=0.02)


@integrators
@pytest.mark.parametrize("drag", [0.0, 1.5])
def test_springs_and_drag_of_cloth_damp_at_the_analytic_rate(integrator, drag):
    """Damp modes in the plane of a sheet by T ω² / 2 for springs, T from the damping ratio, and by half of the drag."""
    cloth = sheet(drag=drag, damping=2.0)
    relax = float(cloth.model.damping[0] / cloth.model.stiffness[0])
    free = clamp(cloth)
    omega, shape = modes(cloth, free)
    flat = np.abs(shape[:, :, 2]).max(axis=1) < 1e-6 * np.abs(shape).max(axis=(1, 2))
    mode = int(np.flatnonzero(flat & (omega > 1.0))[0])
    decay = relax * omega[mode] ** 2 + drag
    h, steps = 2.0 * math.pi / omega[mode] / 40, 80
    found = vibrate(cloth, free, shape[mode], h, steps, integrator)
    envelope = math.exp(-0.5 * decay * h * steps)

    assert 0.05 < envelope < 0.8
    assert np.abs(found - scheme(integrator, omega[mode], decay, h, steps)).max() < 5e-3
