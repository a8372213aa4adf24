"""Sub-steps of bodies that touch: what falls, swings, is held, and what cannot be followed."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.respond.contact_forces import ContactForces, no_memory
from impinge.simulate.constraints import no_rows
from impinge.simulate.simulated_bodies import SoftPart
from impinge.simulate.substeps import LostError, Substeps
from simulated_cubes import soft_cube

GRAVITY = np.array([0.3, 0.0, -9.81])


def part_of(body) -> SoftPart:
    return SoftPart(0, "cube", body, 0, body.model.rest.copy(), np.zeros_like(body.model.rest), settling=0.0)


def run(part, duration, gravity=GRAVITY, each=None) -> int:
    """Move a body that touches nothing, and count the sub-steps."""
    steps, done, count = Substeps([part], gravity, part.x, part.v), 0.0, 0
    none = ContactForces(no_rows(), np.ones(len(part.x)), friction=0.0, memory=no_memory())
    while done < duration:
        h = steps.step(duration - done, none, np.zeros_like(part.x), done)
        done = duration if h == duration - done else done + h
        count += 1
        if each is not None:
            each(h)
    return count


def test_a_body_falls_as_a_whole():
    """Gain the velocity of a free fall, and the way of it but for half a sub-step."""
    part = part_of(soft_cube((0.0, 0.0, 0.0)))
    begin, count = part.x.copy(), run(part, 0.05)

    assert count > 5
    np.testing.assert_allclose(part.v, np.tile(0.05 * GRAVITY, (len(part.v), 1)), rtol=1e-10, atol=1e-10)
    way = np.tile(0.5 * 0.05**2 * (1.0 + 1.0 / count) * GRAVITY, (len(part.x), 1))
    np.testing.assert_allclose(part.x - begin, way, rtol=1e-8, atol=1e-10)


def test_swings_die_out_and_momenta_stay(rng):
    """Let a squeezed and turning body go: its energy never exceeds the first by more than swings of sub-steps do."""
    part = part_of(soft_cube((0.0, 0.0, 0.0)))
    model, masses = part.body.model, part.body.model.masses[:, None]
    part.x += 0.003 * rng.normal(size=part.x.shape)
    part.v += np.cross([0.0, 0.0, 3.0], part.x)
    part.v[:, 0] += 0.2
    start, energies = (masses * part.v).sum(axis=0), []

    def energy(_=None):
        energies.append(model.energy(part.x) + 0.5 * float((masses * part.v**2).sum()))

    energy()
    assert run(part, 0.5, np.zeros(3), energy) > 100
    assert max(energies) < 1.1 * energies[0]
    assert max(energies[len(energies) // 2 :]) < 0.9 * energies[0]
    np.testing.assert_allclose((masses * part.v).sum(axis=0), start, atol=1e-12)


def test_held_vertices_do_as_they_are_told():
    """Keep fixed vertices where they are, and move others evenly, whatever pulls."""
    body = soft_cube((0.0, 0.0, 0.0))
    body.fix([0, 5])
    body.move([2], (0.0, 0.1, 0.0))
    part = part_of(body)
    begin = part.x.copy()
    run(part, 0.02)

    np.testing.assert_array_equal(part.x[[0, 5]], begin[[0, 5]])
    np.testing.assert_allclose(part.x[2] - begin[2], [0.0, 0.002, 0.0], atol=1e-15)
    np.testing.assert_array_equal(part.v[[0, 2, 5]], [[0.0, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]])
    assert np.abs(part.v).max() > 0.1


def test_a_step_that_its_end_would_not_bear_is_halved(monkeypatch):
    """Go back and take half of a sub-step, until the new state bears it."""
    part = part_of(soft_cube((0.0, 0.0, 0.0)))
    rest, begin, taken = part.rest_step, part.x.copy(), []
    monkeypatch.setattr(part.body.model, "stable_step", lambda x, _: rest if (x == begin).all() else 0.2 * rest)
    run(part, 2.0 * rest, each=taken.append)

    assert len(taken) > 10
    assert max(taken) <= 0.2 * rest
    np.testing.assert_allclose(sum(taken), 2.0 * rest)


def test_what_cannot_be_followed_gets_a_sentence(monkeypatch):
    """Name the vertex that is pushed hardest, or say that forces are not finite; the state is the last good one."""
    part = part_of(soft_cube((0.0, 0.0, 0.0)))
    begin, rest = part.x.copy(), part.rest_step
    monkeypatch.setattr(part.body.model, "stable_step", lambda x, _: rest if (x == begin).all() else 0.0)
    with pytest.raises(LostError, match=r"vertex \d+, accelerated by 9.81 m/s², would not stay finite however short"):
        run(part, 0.01)
    np.testing.assert_array_equal(part.x, begin)
    monkeypatch.setattr(part.body.model, "forces", lambda x, _v, _out: np.full_like(x, np.nan))
    with pytest.raises(LostError, match="its forces are not finite") as error:
        run(part, 0.01)
    assert error.value.part is part
