"""Soft bodies and cloth in implicit steps."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import impinge
from impinge.deform.fem import GreenStrain
from impinge.deform.implicit.system import MOST_ITERATIONS, MOST_NEWTON_STEPS
from impinge.deform.integrate import StepReport
from impinge.errors import OptionError, SimulationWarning
from impinge.mesh import shapes

MATERIAL = impinge.Material(1e5, 0.4, 1000.0)
IMPLICIT = pytest.mark.parametrize("integrator", ["implicit", "midpoint"])


def body(**options):
    mesh = shapes.tet_box(4, 2, 2, size=(0.4, 0.2, 0.2))
    return impinge.SoftBody(mesh.surface, mesh, **{"material": MATERIAL, **options})


@pytest.mark.small
@IMPLICIT
@pytest.mark.parametrize("model", ["green_strain", "corotated", "stable_neo_hookean"])
def test_soft_bodies_step_as_small_explicit_steps_do(model, integrator):
    """Swing as the explicit body does, within the error of the scheme; the surface follows."""
    soft, fine = body(model=model), body(model=model)
    for each in (soft, fine):
        each.fix(each.coarse.vertices[:, 0] < -0.19)
    for _ in range(12):
        report = soft.step(1 / 240, integrator=integrator)
        fine.step(1 / 240)
        assert report.converged
    moved = np.abs(fine.coarse.vertices - fine.model.rest).max()

    assert moved > 1e-3
    assert report.substeps == 1
    assert report.newton_steps >= 1
    np.testing.assert_allclose(soft.coarse.vertices, fine.coarse.vertices, atol=0.3 * moved)
    assert np.abs(soft.surface.vertices - soft.rest_surface).max() > 0.5 * moved
    assert soft.time == pytest.approx(12 / 240)


@pytest.mark.small
def test_moved_vertices_move_and_substeps_divide_the_step():
    """Move scripted vertices by their velocity, in as many equal steps as ``max_substep`` demands."""
    soft = body()
    ids = np.flatnonzero(soft.coarse.vertices[:, 0] < -0.19)
    soft.move(ids, [0.0, 0.0, 0.3])
    report = soft.step(0.1, gravity=(0.0, 0.0, 0.0), integrator="implicit", max_substep=0.02)

    assert report.substeps == 5
    assert report.shortest_substep == pytest.approx(0.02)
    np.testing.assert_allclose(soft.coarse.vertices[ids], soft.model.rest[ids] + np.array([0.0, 0.0, 0.03]), atol=1e-12)
    np.testing.assert_allclose(soft.velocities[ids], np.tile([0.0, 0.0, 0.3], (len(ids), 1)))
    assert soft.step(0.0, integrator="implicit").substeps == 0


@pytest.mark.small
def test_cloth_steps_implicitly():
    """Drop a cloth that hangs on two corners in frames of 1/60 s."""
    cloth = impinge.Cloth(shapes.cloth_grid(6, 6), fixed=[0, 6])
    for _ in range(30):
        report = cloth.step(1 / 60, integrator="implicit")
        assert report.converged

    assert cloth.surface.vertices[:, 2].min() < -0.1


class Own(GreenStrain):
    """A user's own model: forces and energy, without second derivatives."""


@pytest.mark.small
def test_models_without_second_derivatives_go_explicit():
    """Say so, and integrate as with ``integrator="explicit"``, to the bit."""
    mesh = shapes.tet_box(2, 1, 1)
    bodies = [impinge.SoftBody(mesh.surface, mesh, model=Own(mesh.vertices, mesh.tets, "jelly")) for _ in range(2)]
    with pytest.warns(SimulationWarning, match="Own has no second derivatives and is integrated explicitly; pass"):
        report = bodies[0].step(0.2, integrator="implicit")
    bodies[1].step(0.2)

    assert report.substeps > 1
    np.testing.assert_array_equal(bodies[0].coarse.vertices, bodies[1].coarse.vertices)


@pytest.mark.small
@IMPLICIT
def test_a_step_that_does_not_converge_warns(monkeypatch, integrator):
    """Name the error that was reached, the worst vertex, the worst tet and the remedy, once for all sub-steps."""
    soft = body(material=impinge.Material(1e3, 0.4, 1000.0, 0.0, 0.0), model="stable_neo_hookean")
    soft.velocities = np.cross([0.0, 0.0, 40.0], soft.coarse.vertices)
    monkeypatch.setattr("impinge.deform.implicit.system.ImplicitSystem.step", limited(1))
    text = (
        r"of 0.05 s did not converge: velocities are within .* m/s after 1 Newton steps, worst at vertex \d+; "
        r"the most deformed of 80 tets is \d+ \(det F -?[\d.e-]+\); take shorter steps \(max_substep=\)"
    )
    with pytest.warns(SimulationWarning, match="an implicit step " + text):
        report = soft.step(0.05, integrator=integrator)
    assert isinstance(report, StepReport)
    assert not report.converged
    soft.velocities = np.cross([0.0, 0.0, 40.0], soft.coarse.vertices)
    with pytest.warns(SimulationWarning) as caught:
        soft.step(0.1, integrator=integrator, max_substep=0.05)
    assert str(caught[0].message).startswith("2 of 2 implicit steps of 0.05 s did not converge")
    assert sum("converge" in str(each.message) for each in caught) == 1


@pytest.mark.small
def test_a_cloth_that_does_not_converge_warns_without_tets(monkeypatch):
    """Name the worst vertex alone."""
    cloth = impinge.Cloth(shapes.cloth_grid(4, 4), fixed=[0])
    cloth.velocities = np.random.default_rng(0).normal(size=cloth.velocities.shape)
    monkeypatch.setattr("impinge.deform.implicit.system.ImplicitSystem.step", limited(1))
    with pytest.warns(SimulationWarning, match=r"worst at vertex \d+; take shorter steps \(max_substep=\)$"):
        cloth.step(0.05, integrator="implicit")


@pytest.mark.small
def test_inverted_tets_are_named_when_they_invert():
    """Say how many tets have inverted, which, and the remedy; keep silent while some are."""
    for model, remedy in (("corotated", ", or the model 'stable_neo_hookean'$"), ("stable_neo_hookean", "loads$")):
        soft = body(material=impinge.Material(1e2, 0.4, 1000.0, 0.0, 0.0), model=model)
        soft.velocities = -30.0 * soft.coarse.vertices
        with pytest.warns(SimulationWarning, match=r"(\d+) of 80 tets have become flat or inverted \(ids ") as caught:
            report = soft.step(0.05, integrator="implicit")
        text = str(caught[-1].message)
        assert text.startswith(f"{len(report.inverted)} of 80 tets")
        assert f"(ids {', '.join(map(str, report.inverted[:8]))}" in text
        assert (", ...)" in text) == (len(report.inverted) > 8)
        assert re.search(remedy, text)
        assert len(soft.step(1e-6, integrator="implicit").inverted)


@pytest.mark.small
def test_odd_cases_end_within_their_caps(rng):
    """End in 20 Newton steps of 1000 iterations, converged or with a warning, whatever state and constants."""
    firm, n = impinge.Material(1e5, 0.4, 1000.0), len(body().velocities)
    rest, gravity = body().model.rest, (0.0, 0.0, -9.81)
    few = np.arange(n - 1)
    cases = [
        ({}, {"coarse": 1e-6 * rest}), ({}, {"coarse": rest * [1.0, 1.0, 0.0]}), ({}, {"coarse": 50.0 * rest}),
        ({}, {"coarse": rest * [-1.0, 1.0, 1.0]}), ({}, {"coarse": rest + rng.normal(size=rest.shape)}),
        ({}, {"v": 1e3 * rng.normal(size=rest.shape)}), ({}, {"dt": 1e-9}), ({}, {"dt": 1e3}), ({"fixed": few}, {}),
        ({"fixed": np.arange(n)}, {}), ({}, {"forces": 1e6 * rng.normal(size=rest.shape)}),
        ({}, {"coarse": rest + 1e5}), ({"material": impinge.Material(1e-3, 0.4, 1e5)}, {}),
        ({"material": impinge.Material(1e14, 0.4, 1e-3)}, {}), ({"material": impinge.Material(1e6, 0.4999, 1e3)}, {}),
        ({"material": impinge.Material(1e6, -0.9, 1e3)}, {}),
        ({"material": impinge.Material(1e4, 0.4, 1e3, 1e6, 1e6)}, {"v": rng.normal(size=rest.shape)}),
        ({"material": [firm, impinge.Material(1e11, 0.4, 1000.0)] * 40}, {"v": rng.normal(size=rest.shape)}),
    ]  # fmt: skip
    unconverged = 0
    for model in ("green_strain", "corotated", "stable_neo_hookean"):
        for options, start in cases:
            for integrator in ("implicit", "midpoint"):
                soft = body(**{"model": model, "embedding": "barycentric", **options})
                soft.coarse.update(start.get("coarse", rest))
                soft.velocities = start.get("v", np.zeros_like(rest))
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    report = soft.step(
                        start.get("dt", 1 / 60), gravity=gravity, forces=start.get("forces"), integrator=integrator
                    )
                assert report.newton_steps <= MOST_NEWTON_STEPS
                assert report.iterations <= report.newton_steps * MOST_ITERATIONS
                assert report.converged != any("did not converge" in str(each.message) for each in caught)
                assert np.isfinite(soft.coarse.vertices).all()
                unconverged += not report.converged
    assert 0 < unconverged < 40


def limited(steps):
    """``ImplicitSystem.step`` with a limit of Newton steps."""
    step = impinge.deform.implicit.system.ImplicitSystem.step

    def call(*args, **options):
        return step(*args, **options, max_newton_steps=steps)

    return call


def test_unknown_integrators_are_refused():
    """Name the choices."""
    with pytest.raises(OptionError, match="integrator is 'rk4', expected"):
        body().step(0.01, integrator="rk4")
