"""Sub-steps of bodies in contact: free fall, oscillation, prescribed vertices, divergence."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.respond.contact_forces import ContactForces, no_warm_start
from impinge.simulate.search.constraints import no_constraints
from impinge.simulate.simulated_bodies import DynamicBody
from impinge.simulate.substeps import DivergenceError, Substeps
from simulated_cubes import soft_cube

GRAVITY = np.array([0.3, 0.0, -9.81])


def dynamic_body(soft) -> DynamicBody:
    return DynamicBody(0, "cube", soft, 0, soft.model.rest.copy(), np.zeros_like(soft.model.rest), damping_ratio=0.0)


def run(body, duration, gravity=GRAVITY, each=None) -> int:
    """Advance a body without contacts and count the sub-steps."""
    steps, done, count = Substeps([body], gravity, body.x, body.v), 0.0, 0
    none = ContactForces(no_constraints(), np.ones(len(body.x)), friction=0.0, warm_start=no_warm_start())
    while done < duration:
        h = steps.step(duration - done, none, np.zeros_like(body.x), done)
        done = duration if h == duration - done else done + h
        count += 1
        if each is not None:
            each(h)
    return count


def test_free_fall():
    """Reach the velocity of a free fall, and its distance up to half a sub-step."""
    body = dynamic_body(soft_cube((0.0, 0.0, 0.0)))
    begin, count = body.x.copy(), run(body, 0.05)

    assert count > 5
    np.testing.assert_allclose(body.v, np.tile(0.05 * GRAVITY, (len(body.v), 1)), rtol=1e-10, atol=1e-10)
    distance = np.tile(0.5 * 0.05**2 * (1.0 + 1.0 / count) * GRAVITY, (len(body.x), 1))
    np.testing.assert_allclose(body.x - begin, distance, rtol=1e-8, atol=1e-10)


def test_oscillations_decay_and_momentum_is_conserved(rng):
    """Let a deformed and rotating body oscillate: its energy stays below 1.1 times the initial one and decays."""
    body = dynamic_body(soft_cube((0.0, 0.0, 0.0)))
    model, masses = body.source.model, body.source.model.masses[:, None]
    body.x += 0.003 * rng.normal(size=body.x.shape)
    body.v += np.cross([0.0, 0.0, 3.0], body.x)
    body.v[:, 0] += 0.2
    start, energies = (masses * body.v).sum(axis=0), []

    def energy(_=None):
        energies.append(model.energy(body.x) + 0.5 * float((masses * body.v**2).sum()))

    energy()
    assert run(body, 0.5, np.zeros(3), energy) > 100
    assert max(energies) < 1.1 * energies[0]
    assert max(energies[len(energies) // 2 :]) < 0.9 * energies[0]
    np.testing.assert_allclose((masses * body.v).sum(axis=0), start, atol=1e-12)


def test_prescribed_vertices_keep_their_motion():
    """Keep fixed vertices in place and move others at constant velocity under any force."""
    soft = soft_cube((0.0, 0.0, 0.0))
    soft.fix([0, 5])
    soft.move([2], (0.0, 0.1, 0.0))
    body = dynamic_body(soft)
    begin = body.x.copy()
    run(body, 0.02)

    np.testing.assert_array_equal(body.x[[0, 5]], begin[[0, 5]])
    np.testing.assert_allclose(body.x[2] - begin[2], [0.0, 0.002, 0.0], atol=1e-15)
    np.testing.assert_array_equal(body.v[[0, 2, 5]], [[0.0, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]])
    assert np.abs(body.v).max() > 0.1


def test_a_step_unstable_at_its_end_is_halved(monkeypatch):
    """Return to the old state and halve the sub-step until it is stable at its end."""
    body = dynamic_body(soft_cube((0.0, 0.0, 0.0)))
    rest, begin, taken = body.rest_step, body.x.copy(), []
    monkeypatch.setattr(body.source.model, "stable_step", lambda x, _: rest if (x == begin).all() else 0.2 * rest)
    run(body, 2.0 * rest, each=taken.append)

    assert len(taken) > 10
    assert max(taken) <= 0.2 * rest
    np.testing.assert_allclose(sum(taken), 2.0 * rest)


def test_divergence_raises(monkeypatch):
    """Name the vertex of largest acceleration, or report forces that are not finite; keep the last finite state."""
    body = dynamic_body(soft_cube((0.0, 0.0, 0.0)))
    begin, rest = body.x.copy(), body.rest_step
    monkeypatch.setattr(body.source.model, "stable_step", lambda x, _: rest if (x == begin).all() else 0.0)
    with pytest.raises(DivergenceError, match=r"vertex \d+, with acceleration 9.81 m/s², diverges for any step size"):
        run(body, 0.01)
    np.testing.assert_array_equal(body.x, begin)
    monkeypatch.setattr(body.source.model, "forces", lambda x, _v, _out: np.full_like(x, np.nan))
    with pytest.raises(DivergenceError, match="its forces are not finite") as error:
        run(body, 0.01)
    assert error.value.body is body
