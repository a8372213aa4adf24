"""Implicit steps: closed forms, conserved quantities, statics, frequencies, decay, recovery, reports."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from deform.implicit.incremental import EARTH, KINDS, STILL, block, contacts_of
from impinge.backend import jit
from impinge.deform.fem import Corotated, GreenStrain, StableNeoHookean
from impinge.deform.implicit.system import ImplicitSystem
from impinge.deform.materials import Material
from impinge.deform.springs import SpringSheet
from impinge.errors import OptionError
from impinge.mesh.shapes import cloth_grid

UP = np.array([0.0, 0.0, 1.0])
kinds = pytest.mark.parametrize("kind", KINDS)
H = 1.0 / 60.0


def kinetic(model, v):
    return 0.5 * float((model.masses[:, None] * v**2).sum())


def momenta(model, x, v):
    each = model.masses[:, None] * v
    return each.sum(axis=0), np.cross(x, each).sum(axis=0)


def spinning(model, rng, turn=5.0, shake=0.3):
    """Rotation, translation and vibration."""
    v = np.cross([0.0, turn, 0.5 * turn], model.rest) + np.array([1.0, -0.5, 0.2])
    return np.ascontiguousarray(v + shake * rng.normal(size=v.shape))


@pytest.mark.small
@kinds
@pytest.mark.parametrize("youngs", [1e4, 1e8])
def test_free_fall_is_that_of_the_scheme(kind, youngs):
    """Fall by v1 = v0 + h g, x1 = x0 + h v1 to rounding, undeformed, without an iteration."""
    model = block(kind, Material(youngs, 0.4, 1000.0))
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), np.tile([0.3, 0.0, 0.1], (len(model.rest), 1))
    place, speed = x.copy(), v.copy()
    for _ in range(20):
        report = system.step(x, v, H, gravity=EARTH)
        speed += H * np.array(EARTH)
        place += H * speed

        assert report.converged.all()
        assert report.iterations[0] == 0
    np.testing.assert_allclose(v, speed, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(x, place, rtol=1e-11, atol=1e-13)


@pytest.mark.small
def test_free_fall_of_the_midpoint_rule():
    """Fall exactly as in vacuum: the rule is exact for constant acceleration."""
    model = block()
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    for _ in range(30):
        system.step(x, v, H, gravity=EARTH, method="midpoint")

    np.testing.assert_allclose(x - model.rest, np.tile([0.0, 0.0, -0.5 * 9.81 * 0.25], (len(x), 1)), atol=1e-12)
    np.testing.assert_allclose(v, np.tile([0.0, 0.0, -0.5 * 9.81], (len(x), 1)), atol=1e-11)


@kinds
@pytest.mark.parametrize("method", ["backward_euler", "midpoint"])
def test_linear_momentum_lasts(rng, kind, method):
    """Keep the momentum of a tumbling, vibrating body to 1e-10 over 5 s."""
    model = block(kind, STILL, cells=(2, 1, 1))
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), spinning(model, rng)
    before = momenta(model, x, v)[0]
    for _ in range(300):
        system.step(x, v, H, method=method)

    np.testing.assert_allclose(momenta(model, x, v)[0], before, rtol=1e-10)


@kinds
def test_angular_momentum_lasts_with_the_midpoint_rule(rng, kind):
    """Keep the angular momentum of a tumbling, vibrating body to 1e-6 over 5 s; energy within some percent."""
    model = block(kind, STILL, cells=(2, 1, 1))
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), spinning(model, rng, shake=0.1)
    before, energy = momenta(model, x, v)[1], kinetic(model, v)
    for _ in range(300):
        system.step(x, v, H, method="midpoint")

    np.testing.assert_allclose(momenta(model, x, v)[1], before, atol=1e-6 * np.linalg.norm(before), rtol=0.0)
    assert kinetic(model, v) + model.energy(x) == pytest.approx(energy, rel=0.1)


@kinds
def test_backward_euler_restores_angular_momentum(rng, kind):
    """Keep the spin of a stiff body, which plain backward Euler loses from step to step."""
    model = block(kind, Material(1e6, 0.35, 1000.0), cells=(2, 1, 1))
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), spinning(model, rng, shake=0.0)
    center = x.mean(axis=0)
    before = np.cross(x - center, model.masses[:, None] * (v - v.mean(axis=0))).sum(axis=0)
    for _ in range(30):
        system.step(x, v, H)
    mean, speed = (model.masses @ x) / model.masses.sum(), (model.masses @ v) / model.masses.sum()
    after = np.cross(x - mean, model.masses[:, None] * (v - speed)).sum(axis=0)

    assert np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)


@kinds
@pytest.mark.parametrize("youngs", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("start", ["swinging", "squeezed", "random"])
def test_energy_never_grows(rng, kind, youngs, start):
    """Lose energy or keep it in every step, from any start, without gravity."""
    model = block(kind, Material(youngs, 0.4, 1000.0, 0.0, 0.0), cells=(3, 1, 1))
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6 if start == "swinging" else np.zeros(len(x), dtype=bool)
    if start == "swinging":
        v[~held] += np.cross([0.0, 10.0, 3.0], x)[~held]
    elif start == "squeezed":
        x *= np.array([0.5, 1.2, 0.9])
    else:
        x, v = x + rng.normal(scale=0.03, size=x.shape), spinning(model, rng, shake=2.0)
    energy = kinetic(model, v) + model.energy(x)
    first, volume = energy, model.masses.sum() / 1000.0
    for _ in range(40):
        report = system.step(x, v, H, held=held, max_newton_steps=60)
        now = kinetic(model, v) + model.energy(x)

        assert report.converged.all()
        assert now <= energy + 1e-9 * abs(energy) + 1e-12 * first + 1e-15 * youngs * volume
        energy = now


@pytest.mark.small
@kinds
@pytest.mark.parametrize("youngs", [1e5, 1e7])
def test_sag_is_static(kind, youngs):
    """Hang still, within 1e-4 of the sag where gravity balances the model's own forces to 1e-10."""
    model = block(kind, Material(youngs, 0.3, 1000.0), cells=(3, 1, 1))
    system = ImplicitSystem([model])
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    for _ in range(300):
        system.step(x, v, H, gravity=EARTH, held=held)
    still, u = x.copy(), np.zeros_like(x)
    for _ in range(8):
        u[:] = 0.0
        system.step(still, u, 10.0, gravity=EARTH, held=held, tolerance=1e-13, residual_tolerance=1e-12)
    out = model.forces(still, np.zeros_like(x)) + model.masses[:, None] * np.array(EARTH)
    sag = model.rest[:, 2] - still[:, 2]

    assert np.abs(out[~held]).max() < 1e-10 * np.abs(model.masses[:, None] * np.array(EARTH)).sum()
    np.testing.assert_allclose(x, still, atol=1e-4 * sag.max(), rtol=0.0)


@pytest.mark.small
@pytest.mark.parametrize("method", ["backward_euler", "midpoint"])
def test_frequency_of_a_bar(method):
    """Oscillate in the lowest mode as the scheme does with one oscillator of that frequency."""
    model = block(Corotated, Material(1e5, 0.0, 1000.0, 0.0, 0.0), cells=(6, 1, 1))
    system = ImplicitSystem([model])
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
    free = ~held
    omega, shape = lowest_mode(model, free)
    for steps in (40, 80):
        h = 2.0 * math.pi / omega / steps
        x, v = model.rest.copy(), np.zeros_like(model.rest)
        x[free] += 1e-5 * shape
        amplitude = []
        for _ in range(steps):
            system.step(x, v, h, held=held, method=method, tolerance=1e-8, linear_tolerance=1e-10)
            amplitude.append(float(((x - model.rest)[free] * shape * model.masses[free, None]).sum()))

        assert amplitude[steps // 4] == pytest.approx(expected(method, omega * h, steps // 4 + 1), abs=2e-3 * 1e-5)
        assert amplitude[-1] == pytest.approx(expected(method, omega * h, steps), abs=2e-3 * 1e-5)


def expected(method, z, steps):
    """Of x'' = -ω² x from x = 1e-5 at rest, by the scheme."""
    x, v = 1e-5, 0.0  # v in units of ω
    for _ in range(steps):
        if method == "backward_euler":
            v = (v - z * x) / (1.0 + z * z)
            x = x + z * v
        else:
            middle = (x + 0.5 * z * v) / (1.0 + 0.25 * z * z)
            x, v = 2.0 * middle - x, v - z * middle
    return x


def lowest_mode(model, free):
    """ω and shape, mass-normalised, from differences of the model's forces."""
    rest, step = model.rest, 1e-6
    ids = np.flatnonzero(free)
    matrix = np.zeros((3 * len(ids), 3 * len(ids)))
    for k, i in enumerate(ids):
        for c in range(3):
            there, back = rest.copy(), rest.copy()
            there[i, c] += step
            back[i, c] -= step
            force = model.forces(back, np.zeros_like(rest)) - model.forces(there, np.zeros_like(rest))
            matrix[3 * k + c] = force[ids].reshape(-1) / (2.0 * step)
    root = np.repeat(1.0 / np.sqrt(model.masses[ids]), 3)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T) * root * root[:, None])
    return math.sqrt(values[0]), (vectors[:, 0] * root).reshape(-1, 3)


@pytest.mark.small
@kinds
def test_damped_bar_decays_as_its_viscosity_says(kind):
    """Lose amplitude at the rate τ ω² / 2, where viscosities are τ times the elastic constants."""
    tau = 2e-3
    elastic = Material(1e5, 0.3, 1000.0, 0.0, 0.0)
    material = Material(1e5, 0.3, 1000.0, tau * elastic.lame_lambda, tau * elastic.lame_mu)
    model = block(kind, material, cells=(5, 1, 1))
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
    free = ~held
    omega, shape = lowest_mode(model, free)
    rate = 0.5 * tau * omega**2
    system = ImplicitSystem([model])
    steps, periods = 100, 3
    h = 2.0 * math.pi / omega / steps
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    x[free] += 1e-5 * shape
    peaks = []
    for _ in range(periods * steps):
        system.step(x, v, h, held=held, method="midpoint", tolerance=1e-7, linear_tolerance=1e-9)
        mode = float(((x - model.rest)[free] * shape * model.masses[free, None]).sum())
        speed = float((v[free] * shape * model.masses[free, None]).sum())
        peaks.append(math.hypot(mode, speed / omega))
    measured = math.log(peaks[steps - 1] / peaks[-1]) / ((periods - 1) * steps * h)

    assert 0.05 < rate * periods * steps * h < 3.0
    assert measured == pytest.approx(rate, rel=0.02)


@pytest.mark.small
@pytest.mark.parametrize("kind", [GreenStrain, StableNeoHookean])
def test_inverted_start_recovers(kind, rng):
    """Return from a mirrored or crushed state to rest without inverted tets."""
    model = block(kind, Material(1e5, 0.4, 1000.0), cells=(2, 2, 2))
    for start in (model.rest * np.array([0.2, 1.0, 1.0]), model.rest + rng.normal(scale=0.08, size=model.rest.shape)):
        system = ImplicitSystem([model])
        x, v = start.copy(), np.zeros_like(start)
        for _ in range(120):
            report = system.step(x, v, H)
            v *= 0.9

        assert len(report.inverted[0]) == 0
        assert model.energy(x) < 1e-3 * model.energy(start)
    assert len(model.inverted(start)) > 5


@pytest.mark.small
@kinds
def test_iterations_hardly_depend_on_stiffness(kind):
    """Take fewer than 60 iterations to a residual of 1e-4, at most three times as many at E = 1e8 as at 2e4."""
    counts = []
    for youngs in (2e4, 1e6, 1e8):
        model = block(kind, Material(youngs, 0.4, 1000.0), cells=(8, 4, 4), size=0.05)
        system = ImplicitSystem([model])
        held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
        x, v = model.rest.copy(), np.zeros_like(model.rest)
        options = {"gravity": EARTH, "held": held, "residual_tolerance": 1e-4}
        reports = [system.step(x, v, H, **options) for _ in range(15)]
        assert all(report.converged.all() for report in reports)
        counts.append(sum(int(r.iterations[0]) for r in reports) / sum(int(r.newton_steps[0]) for r in reports))

    assert max(counts) < 60
    assert max(counts) < 3.0 * min(counts)


@pytest.mark.small
def test_scripted_vertices_move_as_told_and_take_the_body_along():
    """Move held vertices by their velocity exactly; the rest follows within some steps."""
    model = block(material=Material(1e6, 0.4, 1000.0))
    system = ImplicitSystem([model])
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    v[held] = [0.0, 1.0, 0.0]
    for _ in range(60):
        report = system.step(x, v, H, held=held)
        assert report.converged.all()

    np.testing.assert_allclose(x[held], model.rest[held] + [0.0, 1.0, 0.0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x, model.rest + np.array([0.0, 1.0, 0.0]), atol=0.02)


@pytest.mark.small
def test_external_forces_are_as_good_as_gravity(rng):
    """Move equally under gravity and under the weight of each vertex."""
    model = block()
    held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-6
    ends = []
    for options in ({"gravity": EARTH}, {"forces": model.masses[:, None] * np.array(EARTH)}):
        system = ImplicitSystem([model])
        x, v = model.rest.copy(), np.zeros_like(model.rest)
        for _ in range(10):
            system.step(x, v, H, held=held, **options)
        ends.append(x)

    assert np.abs(ends[0] - model.rest).max() > 0.01
    np.testing.assert_allclose(ends[0], ends[1], rtol=0.0, atol=1e-9)


def resting(model, row=0):
    """One-sided constraints: the lowest vertices stay above the lowest height."""
    low = np.flatnonzero(model.rest[:, 2] < model.rest[:, 2].min() + 1e-6)
    stiffness = 1e3 * model.material.youngs_modulus * 0.01
    return low, stiffness


@pytest.mark.small
@kinds
def test_body_rests_on_contacts(kind):
    """Carry the weight of a body by contacts, and let it lift off."""
    model = block(kind, Material(1e5, 0.4, 1000.0), cells=(3, 3, 3), size=0.05)
    system = ImplicitSystem([model])
    low, stiffness = resting(model)
    floor = model.rest[low[0], 2]
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    for _ in range(60):
        rows = contacts_of([([i], [0.0, 0.0, -1.0], floor - x[i, 2], stiffness) for i in low])
        report = system.step(x, v, H, gravity=EARTH, contacts=rows)
        assert report.converged.all()
    depth = floor - x[low, 2]

    assert np.abs(v).max() < 1e-4
    assert stiffness * np.maximum(depth, 0.0).sum() == pytest.approx(9.81 * model.masses.sum(), rel=1e-3)
    v[:, 2] = 1.0
    for _ in range(5):
        rows = contacts_of([([i], [0.0, 0.0, -1.0], floor - x[i, 2], stiffness) for i in low])
        system.step(x, v, H, gravity=EARTH, contacts=rows)
    assert (x[low, 2] > floor + 0.01).all()


@pytest.mark.small
def test_contacts_couple_bodies():
    """Stack two bodies: one island, whose lower contacts carry both; bodies apart keep their own."""
    models = [block(GreenStrain, Material(1e5, 0.4, 1000.0), cells=(2, 2, 2), size=0.05) for _ in range(3)]
    n = len(models[0].rest)
    x = np.concatenate([models[0].rest, models[1].rest + 0.1 * UP, models[2].rest + np.eye(3)[0]])
    system = ImplicitSystem(models)
    low, stiffness = resting(models[0])
    top = [int(np.argmin(np.linalg.norm(models[0].rest - models[0].rest[i] - [0.0, 0.0, 0.1], axis=1))) for i in low]
    floor, v = models[0].rest[low[0], 2], np.zeros_like(x)
    down, up = [0.0, 0.0, -1.0], [0.0, 0.0, 1.0]
    for _ in range(90):
        rows = [([i], down, floor - x[i, 2], stiffness) for i in low]
        rows += [([i + n, j], [down, up], x[j, 2] - x[i + n, 2], stiffness) for i, j in zip(low, top)]
        report = system.step(x, v, H, gravity=EARTH, contacts=contacts_of(rows))
        assert report.converged.all()
    weight = 9.81 * models[0].masses.sum()
    carried = stiffness * np.maximum(floor - x[low, 2], 0.0).sum()
    between = stiffness * np.maximum(x[top, 2] - x[low + n, 2], 0.0).sum()

    assert report.newton_steps[0] == report.newton_steps[1] >= 1
    assert report.iterations[2] == 0  # falls
    assert carried == pytest.approx(2.0 * weight, rel=1e-3)
    assert between == pytest.approx(weight, rel=1e-3)
    np.testing.assert_allclose(v[2 * n :], np.tile([0.0, 0.0, -9.81 * 1.5], (n, 1)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["backward_euler", "midpoint"])
def test_many_bodies_move_as_each_alone(rng, method):
    """Step three different bodies and a cloth in one call, to the bits of each alone, rows between untouched.

    Not with bounds checks, which make the compiler fuse products and sums differently in serial and threaded code.
    """
    mesh = cloth_grid(4, 4)
    models = [
        block(GreenStrain), block(Corotated, cells=(2, 2, 1)), block(StableNeoHookean, cells=(4, 2, 2)),
        SpringSheet(mesh.vertices, mesh.faces),
    ]  # fmt: skip
    sizes = [len(model.rest) for model in models]
    first = [5, 5 + sizes[0], 100, 100 + sizes[2] + 3]
    rows = first[-1] + sizes[-1] + 2
    x, v = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 3))
    for model, at in zip(models, first):
        x[at : at + len(model.rest)] = model.rest
    before, alone = x.copy(), []
    for model, at in zip(models, first):
        own = slice(at, at + len(model.rest))
        y, w = x[own].copy(), v[own].copy()
        system = ImplicitSystem([model])
        for _ in range(3):
            system.step(y, w, H, gravity=EARTH, method=method)
        alone.append((y, w))
    system = ImplicitSystem(models, first, rows)
    for _ in range(3):
        report = system.step(x, v, H, gravity=EARTH, method=method)

    assert len(report.newton_steps) == 4
    assert len(set(report.iterations.tolist())) > 2
    for (y, w), model, at in zip(alone, models, first):
        np.testing.assert_array_equal(x[at : at + len(model.rest)], y)
        np.testing.assert_array_equal(v[at : at + len(model.rest)], w)
    np.testing.assert_array_equal(x[:5], before[:5])
    np.testing.assert_array_equal(x[-2:], before[-2:])


def test_bits_do_not_depend_on_threads(rng):
    """Get the same bits on one thread and on several, for many small bodies and inside of a large one."""
    models = [block(kind, cells=(5, 4, 3)) for kind in KINDS]
    start = np.concatenate([model.rest for model in models])
    start += rng.normal(scale=0.002, size=start.shape)
    ends = []
    for large in (10**9, 0):
        for variant in ("serial", "parallel"):
            x, v = start.copy(), np.zeros_like(start)
            system = ImplicitSystem(models, threaded_from=large)
            with jit.launch_always(variant):
                for _ in range(3):
                    system.step(x, v, H, gravity=EARTH)
            ends.append((x, v))

    for x, v in ends[1:]:
        np.testing.assert_array_equal(x, ends[0][0])
        np.testing.assert_array_equal(v, ends[0][1])


@pytest.mark.small
def test_cloth_hangs(rng):
    """Hang a cloth by two corners in steps of 1/60 s, to the energy of small steps, converged throughout."""
    mesh = cloth_grid(8, 8)
    model = SpringSheet(mesh.vertices, mesh.faces, stretching=500.0)
    held = np.zeros(len(model.rest), dtype=bool)
    held[[0, 8]] = True
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    for _ in range(240):
        report = system.step(x, v, H, gravity=EARTH, held=held)
        assert report.converged.all()
    out = model.forces(x, np.zeros_like(x)) + model.masses[:, None] * np.array(EARTH)

    assert x[:, 2].min() < -0.5
    assert np.abs(out[~held]).max() < 0.2 * 9.81 * model.masses.max()
    assert report.worst_tet[0] == -1


@pytest.mark.small
def test_a_cap_is_reported():
    """Say that a step has not converged, how far it came, and where it is worst."""
    model = block(GreenStrain, Material(1e4, 0.4, 1000.0, 0.0, 0.0))
    x, v = model.rest.copy(), np.cross([0.0, 30.0, 0.0], model.rest)
    x[0] += [0.15, 0.15, 0.0]
    copies = [(x.copy(), v.copy()) for _ in range(4)]
    capped = ImplicitSystem([model]).step(*copies[0], H, max_newton_steps=1)
    loose = ImplicitSystem([model]).step(*copies[1], H, max_iterations=1, max_newton_steps=3)
    whole = ImplicitSystem([model]).step(*copies[2], H)
    strict = ImplicitSystem([model]).step(*copies[3], H, residual_tolerance=1e-6)

    assert not capped.converged[0]
    assert capped.newton_steps[0] == 1
    assert capped.relative_error[0] > 1e-2
    assert 0 <= capped.worst_vertex[0] < len(x)
    assert 0 <= capped.worst_tet[0] < len(model.tets)
    assert not loose.converged[0]
    assert loose.linear_residual[0] > 1e-2
    assert whole.converged[0]
    assert whole.newton_steps[0] > 1
    assert whole.relative_error[0] <= 1e-3
    assert strict.linear_residual[0] <= 1e-6 < whole.linear_residual[0]


@pytest.mark.small
def test_inverted_tets_are_reported():
    """Name the tets that are inverted at the end of a step."""
    model = block(Corotated, Material(1.0, 0.4, 1000.0), cells=(2, 1, 1))
    x, v = model.rest * np.array([-0.5, 1.0, 1.0]), np.zeros_like(model.rest)
    for method in ("backward_euler", "midpoint"):
        report = ImplicitSystem([model]).step(x.copy(), v.copy(), 1e-4, method=method)

        np.testing.assert_array_equal(report.inverted[0], np.arange(len(model.tets)))
        assert report.least_determinant[0] == pytest.approx(-0.5, rel=1e-2)


@pytest.mark.small
def test_the_worst_tet_is_that_of_the_end(rng):
    """Report the least det F at the end of a step, also by the midpoint rule, whose kernels end in the middle."""
    model = block(Corotated, Material(1e2, 0.4, 1000.0))
    for method in ("backward_euler", "midpoint"):
        x, v = model.rest.copy(), -20.0 * model.rest + rng.normal(size=model.rest.shape)
        report = ImplicitSystem([model]).step(x, v, 0.02, method=method)
        edges, rest = (np.diff(each[model.tets], axis=1) for each in (x, model.rest))
        determinant = np.linalg.det(edges) / np.linalg.det(rest)

        assert report.worst_tet[0] == np.argmin(determinant)
        assert report.least_determinant[0] == pytest.approx(determinant.min(), rel=1e-9)


@pytest.mark.small
@kinds
def test_extreme_states_end(rng, kind):
    """Report or refuse, with finite states, where bodies are crushed, mirrored, far away, held, or at rest."""
    model = block(kind)
    rest, n = model.rest, len(model.rest)
    cases = [
        (rest, {}), (rest, {"gravity": EARTH, "held": np.ones(n, dtype=bool)}), (0.0 * rest, {}),
        (rest * np.array([1.0, 1.0, 0.0]), {}), (rest * np.array([-1.0, 1.0, 1.0]), {}), (1e3 * rest, {}),
        (rest + rng.normal(size=rest.shape), {}), (rest + 1e6, {"gravity": EARTH, "held": np.arange(n) < 5}),
    ]  # fmt: skip
    for start, options in cases:
        x, v = np.ascontiguousarray(start), np.zeros_like(rest)
        report = ImplicitSystem([model]).step(x, v, H, **options)

        assert np.isfinite(x).all()
        assert np.isfinite(v).all()
        assert report.converged[0] or report.newton_steps[0] == 20
    with pytest.raises(OptionError, match="beyond the range of doubles; start nearer to rest"):
        ImplicitSystem([model]).step(1e80 * rest, np.zeros_like(rest), H)


@pytest.mark.small
def test_stiff_contacts_do_not_loosen_the_tolerance():
    """Push a vertex out by a contact of any stiffness as far as a stiff one does, at the same error."""
    model = block()
    ends = []
    for stiffness in (1e8, 1e12):
        x, v = model.rest.copy(), np.zeros_like(model.rest)
        rows = contacts_of([([0], [0.0, 0.0, -1.0], 0.01, stiffness)])
        report = ImplicitSystem([model]).step(x, v, H, gravity=EARTH, contacts=rows)
        ends.append(x)

        assert report.converged[0]
        assert report.error[0] < 2e-3 * H * 9.81
        assert x[0, 2] - model.rest[0, 2] == pytest.approx(0.01, rel=1e-3)
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-5)


def test_errors_name_the_remedy():
    """Refuse models without second derivatives, no models, wrong steps, and constraints on unknown rows."""

    class Own(GreenStrain):
        pass

    model = block()
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    with pytest.raises(OptionError, match=r"Own has no second derivatives, expected GreenStrain.*explicitly"):
        ImplicitSystem([Own(model.rest, model.tets, "rubber")])
    with pytest.raises(OptionError, match="there are no models"):
        ImplicitSystem([])
    system = ImplicitSystem([model], [2], len(x) + 2)
    x, v = np.concatenate([np.zeros((2, 3)), x]), np.concatenate([np.zeros((2, 3)), v])
    with pytest.raises(OptionError, match="h is 0, expected a positive number of seconds"):
        system.step(x, v, 0)
    with pytest.raises(OptionError, match="gravity is"):
        system.step(x, v, H, gravity=(1, 2))
    with pytest.raises(OptionError, match="method"):
        system.step(x, v, H, method="explicit")
    row = ([2], [0.0, 0.0, 1.0], 0.0, 1.0)
    with pytest.raises(OptionError, match=r"friction has shape \(2,\), expected \(1,\) for 1 contacts with 1 entries"):
        dataclasses.replace(contacts_of([row]), friction=np.ones(2))
    with pytest.raises(OptionError, match="start must rise from 0 to 1, with at least one entry"):
        dataclasses.replace(contacts_of([row]), start=np.array([0, 0]))
    with pytest.raises(OptionError, match="must be finite; leave out"):
        contacts_of([([2], [0.0, 0.0, np.nan], 0.0, 1.0)])
    with pytest.raises(OptionError, match=r"stiffness\[0\] is -1, expected a number of at least 0"):
        contacts_of([([2], [0.0, 0.0, 1.0], 0.0, -1.0)])
    with pytest.raises(OptionError, match="row 1, which belongs to no model; leave it out"):
        system.step(x, v, H, contacts=contacts_of([([1], [0.0, 0.0, 1.0], 0.0, 1.0)]))
