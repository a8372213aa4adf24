"""Soft bodies and cloth in implicit steps."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge.deform.fem import GreenStrain
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
def test_a_step_that_does_not_converge_warns(monkeypatch):
    """Name the error that was reached, the worst vertex and the remedy."""
    soft = body(material=impinge.Material(1e3, 0.4, 1000.0, 0.0, 0.0))
    soft.velocities = np.cross([0.0, 0.0, 40.0], soft.coarse.vertices)
    monkeypatch.setattr("impinge.deform.implicit.system.ImplicitSystem.step", limited(1))
    with pytest.warns(SimulationWarning, match=r"of 0.05 s did not converge: .*after 1 Newton steps.*max_substep=\)"):
        report = soft.step(0.05, integrator="implicit")

    assert isinstance(report, StepReport)
    assert not report.converged


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
