"""Steps through time: order, conservation, agreement with an independent integrator, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from impinge.deform.fem import Corotated, GreenStrain
from impinge.deform.integrate import Integrator
from impinge.deform.materials import Material
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.mesh import shapes

SOFT = Material(1e4, 0.35, 1000.0)
STILL = Material(1e4, 0.35, 1000.0, 0.0, 0.0)
MODELS = pytest.mark.parametrize("kind", [GreenStrain, Corotated])


def block(kind=GreenStrain, material=SOFT, cells=(2, 2, 2)):
    mesh = shapes.tet_box(*cells, size=tuple(0.1 * n for n in cells))
    return kind(mesh.vertices, mesh.tets, material)


def at_rest(model):
    return model.rest.copy(), np.zeros_like(model.rest)


def total_energy(model, x, v):
    return model.energy(x) + 0.5 * float(model.masses @ (v**2).sum(axis=1))


@MODELS
def test_agrees_with_an_independent_integrator(rng, kind):
    """Follow the path that scipy finds for the same forces, with gravity, external forces and fixed vertices."""
    model = block(kind, cells=(2, 1, 1))
    x, v = model.rest + 0.003 * rng.normal(size=model.rest.shape), 0.1 * rng.normal(size=model.rest.shape)
    external, gravity = 0.5 * rng.normal(size=x.shape), np.array([1.0, 0.0, -9.81])
    fixed, n = [0, 3], x.size
    v[fixed] = 0.0

    def slope(_, state):
        at, speed = (state[:n].reshape(-1, 3), state[n:].reshape(-1, 3))
        a = (model.forces(at, speed) + external) / model.masses[:, None] + gravity
        a[fixed] = 0.0
        return np.concatenate([speed.reshape(-1), a.reshape(-1)])

    start = np.concatenate([x.reshape(-1), v.reshape(-1)])
    end = solve_ivp(slope, (0.0, 0.05), start, method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
    moved = np.abs(end[:n] - start[:n]).max()
    report = Integrator(model).advance(x, v, 0.05, external=external, gravity=gravity, fixed=fixed, max_substep=2e-4)

    assert report.substeps == 250
    assert moved > 0.01
    np.testing.assert_allclose(x.reshape(-1), end[:n], rtol=0.0, atol=1e-5 * moved)


@MODELS
def test_energy_drift_falls_with_the_fourth_power_of_the_step(rng, kind):
    """Lose sixteen times less energy per run, or better, with half the step."""
    model = block(kind, STILL)
    drifts = []
    for step in (2e-3, 1e-3, 5e-4):
        x, v = at_rest(model)
        x *= 1.0 + 0.05 * np.sin(20.0 * model.rest[:, [1, 2, 0]])
        before = total_energy(model, x, v)
        Integrator(model).advance(x, v, 0.2, max_substep=step)
        drifts.append(abs(total_energy(model, x, v) / before - 1.0))

    assert drifts[0] < 0.1
    assert drifts[1] < drifts[0] / 16.0
    assert drifts[2] < drifts[1] / 16.0


@MODELS
def test_momentum_is_kept_and_damping_takes_energy(rng, kind):
    """Keep momentum and angular momentum of a free body over a second, and let its energy only fall."""
    model = block(kind)
    x, v = at_rest(model)
    x *= [1.2, 0.9, 1.0]
    v += np.cross([1.0, 2.0, 3.0], x) + np.array([0.3, 0.2, 0.1])
    mass = model.masses[:, None]
    before = (mass * v).sum(axis=0), (mass * np.cross(x, v)).sum(axis=0)
    energies = [total_energy(model, x, v)]
    for _ in range(60):
        Integrator(model).advance(x, v, 1 / 60)
        energies.append(total_energy(model, x, v))

    np.testing.assert_allclose((mass * v).sum(axis=0), before[0], rtol=1e-11)
    np.testing.assert_allclose((mass * np.cross(x, v)).sum(axis=0), before[1], rtol=2e-3)
    assert (np.diff(energies) < 1e-9 * energies[0]).all()
    assert energies[-1] < 0.9 * energies[0]


def test_frequency_of_a_bar():
    """Oscillate along a free bar with the frequency √(E/ρ) / (2 L), within 3 %, nearer the finer the tets."""
    material = Material(1e6, 0.3, 1000.0, 0.0, 0.0)
    length, side = 1.0, 0.05
    expected = math.sqrt(1e6 / 1000.0) / (2.0 * length)
    errors = []
    for cells in (4, 16):
        mesh = shapes.tet_box(cells, 1, 1, size=(length, side, side))
        model = GreenStrain(mesh.vertices, mesh.tets, material)
        x, v = at_rest(model)
        mode = np.sin(math.pi * model.rest[:, 0] / length)
        x[:, 0] += 1e-5 * mode
        displacement = [float(model.masses @ (mode * (x - model.rest)[:, 0]))]
        integrator, step = Integrator(model), 0.01 / expected
        while displacement[-1] > 0.0:
            integrator.advance(x, v, step)
            displacement.append(float(model.masses @ (mode * (x - model.rest)[:, 0])))
        quarter = step * (len(displacement) - 2 + displacement[-2] / (displacement[-2] - displacement[-1]))
        errors.append(abs(0.25 / quarter / expected - 1.0))

    assert errors[1] < errors[0]
    assert errors[1] < 0.03


@MODELS
def test_survives_being_crushed(rng, kind):
    """Come back to rest from a flat, a mirrored and a scattered state: finite all along, no tet inside out."""
    for start in ("flat", "mirrored", "scattered"):
        model = block(kind)
        x, v = at_rest(model)
        x = x * {"flat": [1.0, 1.0, 0.0], "mirrored": [1.0, 1.0, -1.0], "scattered": [1.0, 1.0, 1.0]}[start]
        x += (0.05 if start == "scattered" else 1e-3) * rng.normal(size=x.shape)
        assert len(model.inverted(x)) > 5
        before = model.energy(x)
        for _ in range(120):
            report = Integrator(model).advance(x, v, 1 / 60)
            assert np.isfinite(x).all()

        assert total_energy(model, x, v) < 0.7 * before
        if start != "mirrored":  # a mirror image may be held together by its own tets
            assert len(report.inverted) == 0


def test_hard_knocks_are_followed_with_shorter_steps(rng):
    """Take steps back and halve them where a blow changes stiffness within a step."""
    model = block()
    x, v = at_rest(model)
    force = np.zeros_like(x)
    force[0] = [0.0, 0.0, 2e3]
    report = Integrator(model).advance(x, v, 0.02, external=force)

    assert report.rejected > 0
    assert report.shortest_substep < 0.5 * model.stable_step()
    assert np.isfinite(x).all()


@pytest.mark.small
def test_fixed_and_prescribed_vertices():
    """Hold fixed vertices, move prescribed ones evenly, and fix everything without harm."""
    model = block()
    low, high = model.rest[:, 2] < -0.09, np.flatnonzero(model.rest[:, 2] > 0.09)
    x, v = at_rest(model)
    v += 1.0
    Integrator(model).advance(x, v, 0.01, fixed=low, prescribed=(high, (0.0, 0.0, 0.5)), gravity=(0, 0, -9.81))

    np.testing.assert_array_equal(x[low], model.rest[low])
    np.testing.assert_allclose(x[high], model.rest[high] + [0.0, 0.0, 0.005], rtol=0.0, atol=1e-15)
    np.testing.assert_array_equal(v[low], 0.0)
    np.testing.assert_array_equal(v[high], np.tile([0.0, 0.0, 0.5], (len(high), 1)))
    free = ~low
    free[high] = False
    assert np.abs(x[free] - model.rest[free]).max() > 1e-4

    x, v = at_rest(model)
    report = Integrator(model).advance(x, v, 0.01, fixed=np.arange(len(x)), gravity=(0, 0, -9.81))
    np.testing.assert_array_equal(x, model.rest)
    assert len(report.inverted) == 0


@pytest.mark.small
def test_free_fall_and_no_time():
    """Fall as everything falls; do nothing in no time."""
    model = GreenStrain([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]], [[0, 1, 2, 3]], "jelly")
    x, v = at_rest(model)
    assert Integrator(model).advance(x, v, 0.0).substeps == 0
    Integrator(model).advance(x, v, 0.5, gravity=(0.0, 0.0, -9.81))

    np.testing.assert_allclose(x, model.rest + np.array([0.0, 0.0, -0.5 * 9.81 * 0.25]), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(v, np.tile([0.0, 0.0, -0.5 * 9.81], (4, 1)), rtol=0.0, atol=1e-12)


class _Exploding:
    """A model whose forces become undefined once vertex 2 has risen."""

    def __init__(self):
        self.rest, self.tets, self.masses = np.zeros((4, 3)), np.zeros((0, 4), np.int32), np.ones(4)

    def forces(self, x, _v, out=None):
        out = np.zeros_like(x) if out is None else out
        out[...] = 0.0
        out[2, 2] = np.nan if x[2, 2] > 0.1 else 1.0
        return out

    def energy(self, _x):
        return 0.0

    def stable_step(self, _x=None, _v=None):
        return 0.01

    def inverted(self, _x):
        return np.zeros(0, np.int32)


@pytest.mark.small
def test_a_state_that_would_not_be_finite_is_left_before():
    """Stop with a sentence that names step and vertex, and leave the last good state."""
    model = _Exploding()
    x, v = at_rest(model)
    with pytest.raises(
        ImpingeError, match=r"sub-step \d+, 0.4\d+ s after the start: vertex 2, accelerated by 1 m/s², would not"
    ):
        Integrator(model).advance(x, v, 1.0)

    assert np.isfinite(x).all()
    assert 0.09 < x[2, 2] <= 0.1
    assert v[2, 2] == pytest.approx(math.sqrt(2.0 * x[2, 2]))


def test_forces_beyond_all_measure_get_a_sentence():
    """Give up with a sentence, not with NaN, when no step is short enough."""
    model = block()
    x, v = at_rest(model)
    force = np.zeros_like(x)
    force[4] = 1e300
    with pytest.raises(
        ImpingeError, match=r"vertex 4, accelerated by .* would not stay finite however short the step; weaken"
    ):
        Integrator(model).advance(x, v, 0.1, external=force)

    assert np.isfinite(x).all()
    assert np.isfinite(v).all()


@pytest.mark.small
@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"external": np.full((27, 3), np.nan)}, MeshError, r"external\[0\] is \[nan, nan, nan\] \(and 26 more\)"),
        ({"external": np.zeros((5, 3))}, MeshError, "external have 5 rows, but the body has 27 vertices"),
        ({"gravity": 9.81}, OptionError, r"gravity is 9.81, expected three finite numbers \[m/s²\]"),
        ({"gravity": (0, 0, np.inf)}, OptionError, "expected three finite numbers"),
        ({"fixed": [27]}, OptionError, "fixed contains id 27, but ids go from 0 to 26"),
        ({"prescribed": 3}, OptionError, r"prescribed is 3, expected a pair \(ids, velocities\)"),
        ({"prescribed": ([1, 1], (0, 0, 1))}, OptionError, "hold a vertex twice"),
        ({"prescribed": ([1], np.zeros((2, 3)))}, OptionError, r"have shape \(2, 3\), expected \(1, 3\) or \(3,\)"),
        ({"prescribed": ([1], (0, 0, np.nan))}, MeshError, r"velocities of prescribed\[0\] is \[0, 0, nan\]"),
        ({"prescribed": ([1], (0, 0, 1)), "fixed": [1]}, OptionError, "vertex 1 is both fixed and prescribed"),
        ({"max_substep": 0.0}, OptionError, "max_substep is 0.0, expected a positive number of seconds"),
    ],
)
def test_nonsense_is_refused(options, error, sentence):
    """Refuse options out of range before anything moves."""
    model = block()
    x, v = at_rest(model)
    with pytest.raises(error, match=sentence):
        Integrator(model).advance(x, v, 0.01, **options)

    np.testing.assert_array_equal(x, model.rest)


@pytest.mark.small
def test_states_that_cannot_be_moved_in_place():
    """Refuse lists, other types, other shapes, NaN, times that are none and masses that are none."""
    model = block()
    x, v = at_rest(model)
    for wrong in (x.tolist(), x.astype(np.float32), x[:5], x[:, ::-1]):
        with pytest.raises(OptionError, match=r"x is changed in place; expected a writable, contiguous float64 array"):
            Integrator(model).advance(wrong, v, 0.01)
    with pytest.raises(MeshError, match=r"v\[1\] is \[0, nan, 0\]; all coordinates must be finite"):
        Integrator(model).advance(x, np.where(np.arange(81).reshape(27, 3) == 4, np.nan, 0.0), 0.01)
    with pytest.raises(OptionError, match="duration is -1, expected a number of seconds"):
        Integrator(model).advance(x, v, -1)
    model.masses[3] = 0.0
    with pytest.raises(MeshError, match="the mass of vertex 3 is 0, expected a positive number"):
        Integrator(model)


class _Aloof(GreenStrain):
    """A model that leaves the array alone which it is offered."""

    def forces(self, x, v, out=None):  # noqa: ARG002
        return super().forces(x, v).tolist()


@pytest.mark.small
def test_forces_that_come_in_an_array_of_their_own_count():
    """Follow the same path whether a model writes to the array offered or returns another."""
    paths = []
    for kind in (GreenStrain, _Aloof):
        model = block(kind)
        x, v = at_rest(model)
        x *= [1.2, 0.9, 1.0]
        Integrator(model).advance(x, v, 0.02)
        paths.append(x.tobytes())

    assert paths[0] == paths[1]
    assert paths[0] != model.rest.tobytes()


@pytest.mark.small
@MODELS
def test_a_body_pressed_into_a_point_goes_on(kind):
    """Survive a state in which no tet has any size."""
    model = block(kind)
    x, v = np.zeros_like(model.rest), np.zeros_like(model.rest)
    report = Integrator(model).advance(x, v, 0.01, gravity=(0.0, 0.0, -9.81))

    assert report.substeps > 0
    assert np.isfinite(x).all()
    assert model.masses @ x[:, 2] == pytest.approx(-0.5 * 9.81 * 1e-4 * model.masses.sum())


@pytest.mark.small
def test_soft_bodies_may_move_quickly():
    """Take steps far below the stable one at rest where the body hardly resists, and do not take it for lost."""
    model = block(material=Material(1e-6, 0.3, 1000.0, 0.0, 0.0))
    x, v = at_rest(model)
    v[:, 0] = 1e5 * x[:, 2]
    report = Integrator(model).advance(x, v, 1e-3)

    assert report.shortest_substep < 1e-6 * model.stable_step()
    np.testing.assert_allclose(x[:, 0], model.rest[:, 0] + 100.0 * model.rest[:, 2], rtol=1e-3, atol=1e-6)


@pytest.mark.small
def test_models_that_bear_any_step():
    """Cross the whole duration in one step where the model has no bound."""
    model = _Exploding()
    model.stable_step = lambda _x=None, _v=None: math.inf
    x, v = at_rest(model)

    assert Integrator(model).advance(x, v, 0.25).substeps == 1
    assert x[2, 2] == pytest.approx(0.5 * 0.25**2)


@pytest.mark.small
@pytest.mark.parametrize("force", [1e308, -1e308])
def test_forces_that_overflow_get_a_sentence(force):
    """Refuse accelerations beyond the range of doubles, without a warning."""
    model = block()
    x, v = at_rest(model)
    with pytest.raises(ImpingeError, match="vertex 0, accelerated by inf m/s², would not stay finite"):
        Integrator(model).advance(x, v, 0.01, external=np.full_like(x, force))

    np.testing.assert_array_equal(x, model.rest)
