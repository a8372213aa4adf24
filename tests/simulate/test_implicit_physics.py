"""Physics of implicit steps, of bodies by themselves and in simulations: closed forms, conserved quantities, statics.

Also scales, directions, order of convergence, and bits by threads.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings

import numpy as np
import pytest

from impinge import load
from impinge.backend import jit
from impinge.bodies.cloth import Cloth
from impinge.bodies.soft_body import EARTH, SoftBody
from impinge.deform.fem import GreenStrain
from impinge.deform.implicit.system import ImplicitSystem
from impinge.deform.materials import Material
from impinge.errors import SimulationWarning
from impinge.mesh.shapes import cloth_grid, tet_box
from impinge.simulate.simulation import Simulation
from implicit_bodies import (
    INTEGRATORS,
    MODELS,
    STILL,
    H,
    bar,
    clamp,
    elastic,
    energy,
    sheet,
    spin,
    stepper,
    stiffness,
    tumble,
)
from shared_data import FOLDER, needs_data
from simulated_cubes import world_of

by_each = pytest.mark.parametrize("by", ["body", "simulation"])
integrators = pytest.mark.parametrize("integrator", INTEGRATORS)
models = pytest.mark.parametrize("model", MODELS)


def bodies_of_all_models(material=None):
    """Bars of all models and a cloth, 2 m apart, by name."""
    bodies = {model: bar(model, material, center=(0.0, 0.0, 2.0 * k)) for k, model in enumerate(MODELS)}
    bodies["cloth"] = sheet()
    bodies["cloth"].coarse.update(bodies["cloth"].coarse.vertices - [0.0, 0.0, 2.0])
    return bodies


@pytest.mark.small
@by_each
@integrators
def test_free_fall_is_the_closed_form_of_the_scheme(by, integrator):
    """Fall undeformed by x = x0 + n h v0 + h² g n (n + 1) / 2, exactly parabolic with the midpoint rule."""
    bodies = bodies_of_all_models()
    start, v0, g = {}, np.array([0.3, 0.0, 0.2]), np.array([0.4, -0.2, -1.0])
    for name, body in bodies.items():
        start[name] = body.coarse.vertices.copy()
        body.velocities = np.tile(v0, (len(start[name]), 1))
    advance = stepper(by, bodies, integrator, gravity=g)
    place, speed = np.zeros(3), v0.copy()
    for _ in range(20):
        count = advance()
        h = H / count
        factor = 0.5 * (count + 1.0) / count if integrator == "implicit" else 0.5
        place += H * speed + factor * (count * h) ** 2 * g
        speed += H * g

    for name, body in bodies.items():
        np.testing.assert_allclose(body.coarse.vertices, start[name] + place, rtol=0.0, atol=2e-13, err_msg=name)
        np.testing.assert_allclose(body.velocities, np.tile(speed, (len(start[name]), 1)), rtol=0.0, atol=2e-11)


@by_each
@integrators
def test_momenta_of_tumbling_bodies_last(rng, by, integrator):
    """Keep linear momentum to 1e-10 over 5 s; spin to 1e-6 by the midpoint rule, to 2 % by backward Euler."""
    bodies = bodies_of_all_models(elastic(1e5))
    for body in bodies.values():
        tumble(body, rng)
    before = {name: (body.momentum().linear, spin(body)) for name, body in bodies.items()}
    advance = stepper(by, bodies, integrator)
    for _ in range(300):
        advance()

    for name, body in bodies.items():
        linear, angular = before[name]
        lost = np.linalg.norm(spin(body) - angular) / np.linalg.norm(angular)
        assert np.linalg.norm(body.momentum().linear - linear) < 1e-10 * np.linalg.norm(linear), name
        assert lost < (1e-6 if integrator == "midpoint" else 0.02), name


def test_backward_euler_loses_little_spin(rng):
    """Lose at most 0.5 % of the spin in 5 s at 5.6 rad/s, and 10 % at 22 rad/s: the figures of docs/simulation.md."""
    worst = {}
    for turn in (5.0, 20.0):
        for model in MODELS:
            for modulus in (1e3, 1e6):
                body = bar(model, elastic(modulus))
                tumble(body, rng, turn=turn, shake=0.1)
                before = spin(body)
                for _ in range(300):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", SimulationWarning)  # some invert
                        body.step(H, gravity=STILL, integrator="implicit")
                lost = np.linalg.norm(spin(body) - before) / np.linalg.norm(before)
                worst[turn] = max(worst.get(turn, 0.0), float(lost))

    assert worst[5.0] < 0.005
    assert 0.01 < worst[20.0] < 0.1


START = ["swing", "throw", "random"]


@pytest.mark.parametrize("start", START)
@pytest.mark.parametrize("model", [*MODELS, "cloth"])
def test_energy_never_grows(rng, model, start):
    """Lose energy in every step, gravity included, whatever stiffness, step, damping and deformation."""
    for modulus in (1e3, 1e5, 1e8):
        for dt in (1 / 240, 1 / 60, 0.2):
            if model == "cloth":
                body = sheet(stretching=1e-3 * modulus, damping=0.0)
            else:
                body = bar(model, elastic(modulus, viscous=1e-3 if modulus == 1e5 else 0.0))
            free = clamp(body) if start == "swing" else np.ones(len(body.velocities), dtype=bool)
            x = body.coarse.vertices.copy()
            if start == "random":
                x[free] += 0.04 * rng.normal(size=(free.sum(), 3))
                body.coarse.update(x)
            tumble(body, rng, turn=10.0, shake=2.0 if start != "swing" else 0.0)
            now, noise = energy(body, EARTH), 1e-14 * modulus * 3e-3
            for _ in range(40):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SimulationWarning)
                    body.step(dt, gravity=EARTH, integrator="implicit")
                before, now = now, energy(body, EARTH)
                scale = abs(before) + abs(now) + body.energy().total
                assert now <= before + 1e-11 * scale + noise, (modulus, dt)


def test_energy_does_not_grow_where_tets_invert():
    """Crush very soft bars: where tets invert, concave energies would give up to a few percent per step."""
    gained, inverted = 0.0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        body = bar(MODELS[seed % 3], elastic(10.0 ** rng.uniform(2.0, 4.0)))
        x = body.coarse.vertices
        body.velocities = 3.0 * rng.normal(size=x.shape) - 10.0 ** rng.uniform(0.0, 2.0) * x
        dt, now = 10.0 ** rng.uniform(-3.0, -1.5), body.energy().total
        for _ in range(12):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SimulationWarning)
                inverted += len(body.step(dt, gravity=STILL, integrator="implicit").inverted) > 0
            before, now = now, body.energy().total
            gained = max(gained, now / before - 1.0)

    assert inverted > 50
    assert gained < 1e-11


def still_solution(body, free, gravity):
    """Balance the model's own forces with gravity by Newton's method, the matrix from differences."""
    pull = (body.model.masses[:, None] * np.asarray(gravity))[free]
    for _ in range(30):
        x = body.coarse.vertices.copy()
        out = (body.model.forces(x, np.zeros_like(x)) + body.model.masses[:, None] * np.asarray(gravity))[free]
        if np.abs(out).max() < 1e-9 * np.abs(pull).sum():
            return x
        x[free] += np.linalg.solve(stiffness(body, free), out.reshape(-1)).reshape(-1, 3)
        body.coarse.update(x)
    raise AssertionError("no balance")


def hung_sheet(**options):
    """A vertical sheet, fixed along its upper edge."""
    flat = cloth_grid(4, 4)
    x = flat.vertices[:, [1, 2, 0]]  # x becomes z
    return Cloth((x, flat.faces), fixed=x[:, 2] > x[:, 2].max() - 1e-9, **options)


def slivers(model, material):
    """A bar whose inner vertices lie near the faces of cells: tets of a fiftieth of the usual height."""
    tets = tet_box(3, 2, 2, size=(0.3, 0.2, 0.2))
    x = tets.vertices.copy()
    inner = (np.abs(x[:, 1:]) < 1e-9).all(axis=1) & (np.abs(x[:, 0]) < 0.1)
    assert inner.sum() == 2
    x[inner, 1] += 0.098
    return SoftBody(tets.surface, (x, tets.tets), material=material, model=model, embedding="barycentric")


@pytest.mark.small
@pytest.mark.parametrize("shape", ["grid", "slivers"])
@models
def test_sag_is_that_of_the_static_solution(model, shape):
    """Come to rest within 1e-4 of the sag of a balance that an independent solver finds; hold the weight there."""
    material = elastic(1e5, 0.3, viscous=1e-3)
    make = slivers if shape == "slivers" else bar
    body, still = make(model, material), make(model, material)
    free = clamp(body)
    clamp(still)
    expected = still_solution(still, free, EARTH)
    for _ in range(300):
        body.step(H, integrator="implicit")
    sag = np.abs(expected - body.model.rest).max()
    reaction = body.model.forces(body.coarse.vertices, np.zeros_like(expected))[~free].sum(axis=0)

    assert sag > 1e-3
    assert np.abs(body.coarse.vertices - expected).max() < 1e-4 * sag
    np.testing.assert_allclose(reaction, [0.0, 0.0, -9.81 * body.model.masses[free].sum()], rtol=1e-4, atol=2e-3)


@pytest.mark.small
def test_a_hung_sheet_stretches_to_the_static_solution():
    """Come to rest within 1e-4 of the stretch where springs carry the weight."""
    cloth, still = hung_sheet(), hung_sheet()
    free = np.ones(len(cloth.velocities), dtype=bool)
    free[cloth.fixed] = False
    expected = still_solution(still, free, EARTH)
    for _ in range(450):
        cloth.step(H, integrator="implicit")

    assert np.abs(cloth.coarse.vertices - expected).max() < 1e-4 * np.abs(expected - cloth.model.rest).max()


@pytest.mark.small
@integrators
@models
def test_the_same_problem_in_other_units_has_the_same_answer(model, integrator):
    """Scale lengths from 1 mm to 1 km, densities and times, and get the same motion."""
    ends = []
    for length, dense, time in ((1.0, 1.0, 1.0), (1e-3, 1.0, 1e-3), (1e3, 0.3, 17.0), (0.013, 7.0, 1.0)):
        pressure = dense * (length / time) ** 2
        material = Material(2e4 * pressure, 0.4, 1000.0 * dense, 20.0 * pressure * time, 15.0 * pressure * time)
        body = bar(model, material, size=0.1 * length)
        clamp(body)
        for _ in range(15):
            report = body.step(H * time, gravity=np.array(EARTH) * length / time**2, integrator=integrator)
            assert report.converged
        ends.append(body.coarse.vertices / length)

    assert np.abs(ends[0] - body.model.rest / length).max() > 0.01
    for other in ends[1:]:
        np.testing.assert_allclose(other, ends[0], rtol=0.0, atol=1e-9)


@pytest.mark.small
@integrators
@models
def test_a_body_far_from_the_origin_moves_as_a_near_one(model, integrator):
    """Swing 1 km away as at the origin, to the rounding of positions and the tolerance of a step."""
    ends = []
    for far in (0.0, 1000.0):
        body = bar(model, elastic(1e5, viscous=1e-3), center=(far, far, 0.0))
        clamp(body)
        for _ in range(20):
            assert body.step(H, integrator=integrator).converged
        ends.append(body.coarse.vertices - body.model.rest)

    assert np.abs(ends[0]).max() > 0.005
    np.testing.assert_allclose(ends[1], ends[0], rtol=0.0, atol=1e-7)


@pytest.mark.small
@integrators
@models
def test_gravity_pulls_in_any_direction(model, integrator):
    """Turn body, gravity and forces by 120° about a diagonal, and get the turned motion."""
    ends, turn = [], [2, 0, 1]
    for turned in (False, True):
        tets = tet_box(3, 1, 1, size=(0.3, 0.1, 0.1))
        x, g = tets.vertices, np.array([0.5, -3.0, -9.0])
        push = np.zeros_like(x)
        push[x[:, 0] > 0.14] = [0.1, 0.2, 0.3]
        fixed = x[:, 0] < -0.14
        if turned:
            x, g, push = x[:, turn], g[turn], push[:, turn]
        surface = (x, tets.surface.faces)
        body = SoftBody(
            surface, (x, tets.tets), model=model, material=elastic(3e4), embedding="barycentric", fixed=fixed
        )
        for _ in range(15):
            assert body.step(H, gravity=g, forces=push, integrator=integrator).converged
        ends.append(body.coarse.vertices[:, [1, 2, 0]] if turned else body.coarse.vertices.copy())

    assert np.abs(ends[0] - tets.vertices).max() > 0.01
    np.testing.assert_allclose(ends[1], ends[0], rtol=0.0, atol=1e-7)


@pytest.mark.small
@by_each
@integrators
def test_fixed_and_scripted_vertices_follow_exactly(by, integrator):
    """Move scripted vertices by their velocities and fixed ones not at all, with all models, under gravity."""
    bodies, ids = bodies_of_all_models(elastic(1e6)), {}
    for name, body in bodies.items():
        x = body.coarse.vertices[:, 0]
        fixed, ids[name] = np.flatnonzero(x < x.min() + 1e-6), np.flatnonzero(x > x.max() - 1e-6)
        body.fix(fixed)
        body.move(ids[name], [0.02, 0.1, -0.05])
    start = {name: body.coarse.vertices.copy() for name, body in bodies.items()}
    advance = stepper(by, bodies, integrator, gravity=EARTH)
    for _ in range(12):
        advance()

    for name, body in bodies.items():
        moved, x = ids[name], body.coarse.vertices
        np.testing.assert_allclose(x[moved], start[name][moved] + 12 * H * np.array([0.02, 0.1, -0.05]), atol=1e-14)
        np.testing.assert_array_equal(x[body.fixed], start[name][body.fixed])
        np.testing.assert_array_equal(body.velocities[moved], np.tile([0.02, 0.1, -0.05], (len(moved), 1)))
        assert not body.velocities[body.fixed].any()
        assert np.abs(x - start[name]).max() > 0.01


@pytest.mark.small
@pytest.mark.parametrize(("integrator", "order"), [("implicit", 1), ("midpoint", 2)])
@models
def test_the_error_falls_with_the_order_of_the_scheme(model, integrator, order):
    """Halve the step: the error against small Runge-Kutta steps falls by 2 and by 4."""
    material, seconds = elastic(2e4, 0.3), 0.06

    def end(count, integrator):
        body = bar(model, material)
        free = clamp(body)
        arm = body.model.rest[:, 0] - body.model.rest[:, 0].min()
        body.velocities = np.outer(free * arm, [0.0, 0.0, 1.0])
        body.step(seconds, gravity=(0.0, 0.0, -3.0), integrator=integrator, max_substep=seconds / count)
        return body.coarse.vertices

    exact = end(4000, "explicit")
    errors = [np.linalg.norm(end(count, integrator) - exact) for count in (24, 48, 96)]

    for coarse, fine in itertools.pairwise(errors):
        assert 0.8 * 2**order < coarse / fine < 1.25 * 2**order


@needs_data
@pytest.mark.parametrize(
    ("name", "model"), [*(("liver.msh", model) for model in MODELS), ("bunny.msh", "stable_neo_hookean")]
)
def test_slivers_of_netgen_converge(name, model):
    """Hang real meshes of NetGen by a tenth of their vertices, of rubber, in frames of 1/60 s."""
    mesh = load(FOLDER / "tet" / name)
    body = SoftBody(mesh.surface, mesh, material="rubber", model=model, embedding="barycentric")
    x = body.coarse.vertices[:, 2]
    body.fix(x > np.quantile(x, 0.9))
    reports = [body.step(H, integrator="implicit") for _ in range(5)]

    assert all(report.converged for report in reports)
    assert max(report.iterations for report in reports) < 300


class Own(GreenStrain):
    """A user's own model: forces and energy, without second derivatives."""


@pytest.mark.small
def test_a_simulation_with_a_model_without_second_derivatives_goes_explicit():
    """Say which body and why, and move as with ``integrator="explicit"``, to the bit."""
    ends = []
    for integrator in ("explicit", "implicit"):
        tets = tet_box(2, 1, 1, size=(0.2, 0.1, 0.1))
        own = SoftBody(tets.surface, tets, model=Own(tets.vertices, tets.tets, "jelly"), embedding="barycentric")
        clamp(own)
        sim = Simulation(world_of(own=own), integrator=integrator, modal_damping=0.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sim.run(0.1)
        ends.append(own.coarse.vertices.copy())

        assert [str(each.message) for each in caught] == (integrator == "implicit") * [
            "the model of body 'own', a Own, has no second derivatives; all bodies are stepped explicitly, and "
            "respond as with response='vertices'"
        ]
    np.testing.assert_array_equal(*ends)


@pytest.mark.small
def test_reports_name_what_a_frame_could_not_do(monkeypatch):
    """Name body, worst tet and remedy of a step that does not converge, and inverted tets, in the report."""
    step = ImplicitSystem.step
    monkeypatch.setattr(ImplicitSystem, "step", lambda *a, **options: step(*a, **options | {"max_newton_steps": 1}))
    bodies = {"crushed": bar("corotated", elastic(1e2)), "calm": bar(center=(0.0, 1.0, 0.0))}
    bodies["crushed"].velocities = -30.0 * bodies["crushed"].coarse.vertices
    sim = Simulation(world_of(**bodies), dt=0.05, integrator="implicit")
    report = sim.step()
    text = " ".join(report.warnings)

    assert report.inverted.keys() == {"crushed"}
    assert re.search(r"'crushed' .*1 Newton steps .*tet is \d+ \(det F -?[\d.]+\); use a shorter dt", text)
    assert re.search(r"tets of body 'crushed' are flat or inverted \([\d, .]+\); use a shorter dt", text)
    assert "calm" not in text


def test_bits_of_a_run_do_not_depend_on_threads(monkeypatch):
    """Run small bodies, a cloth and a body large enough for threads inside of it, on one thread and on several."""
    monkeypatch.setattr(
        "impinge.simulate.implicit_steps.ImplicitSystem", functools.partial(ImplicitSystem, threaded_from=1500)
    )
    ends = []
    for variant in ("serial", "parallel"):
        bodies = bodies_of_all_models()
        bodies["large"] = bar(cells=(7, 7, 7), size=0.03, center=(1.0, 0.0, 0.12))
        assert len(bodies["large"].coarse.tets) > 1500 > len(bodies["cloth"].model.stiffness)
        sim = Simulation(world_of(**bodies), ground=0.0, integrator="implicit")
        with jit.launch_always(variant):
            reports = sim.run(5 * H)
        assert reports[-1].contacts
        ends.append({name: (body.coarse.vertices.copy(), body.velocities.copy()) for name, body in bodies.items()})

    for name, states in ends[0].items():
        for one, other in zip(states, ends[1][name]):
            np.testing.assert_array_equal(one, other)
