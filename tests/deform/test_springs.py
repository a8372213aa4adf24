"""Sheets of springs, and cloth made of them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import impinge
from impinge.deform.springs import SpringSheet
from impinge.errors import MeshError, OptionError
from impinge.mesh.shapes import cloth_grid


def sheet(**options) -> SpringSheet:
    mesh = cloth_grid(4, 3, size=(0.4, 0.3))
    return SpringSheet(mesh.vertices, mesh.faces, **options)


def test_forces_are_minus_the_gradient_of_the_energy():
    """Compare forces without motion to differences of the energy."""
    model, rng, h = sheet(bending=0.1), np.random.default_rng(1), 1e-6
    x = model.rest + rng.normal(scale=0.01, size=model.rest.shape)
    found = model.forces(x, np.zeros_like(x))
    expected = np.zeros_like(x)
    for n in range(len(x)):
        for c in range(3):
            there, back = x.copy(), x.copy()
            there[n, c], back[n, c] = x[n, c] + h, x[n, c] - h
            expected[n, c] = -(model.energy(there) - model.energy(back)) / (2.0 * h)

    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_springs_keep_both_momenta():
    """Sum forces and moments of any motion to zero, without drag."""
    model, rng = sheet(drag=0.0), np.random.default_rng(2)
    x = model.rest + rng.normal(scale=0.02, size=model.rest.shape)
    force = model.forces(x, rng.normal(size=x.shape))

    assert np.abs(force).max() > 0.1
    np.testing.assert_allclose(force.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cross(x, force).sum(axis=0), 0.0, atol=1e-12)


def test_a_sheet_stretches_as_a_membrane_does():
    """Pull a strip by its ends: force per width is about the modulus times the strain; springs are no membrane."""
    mesh = cloth_grid(20, 20)
    model = SpringSheet(mesh.vertices, mesh.faces, stretching=50.0, bending=0.0)
    x = model.rest.copy()
    x[:, 0] *= 1.01
    force = model.forces(x, np.zeros_like(x))
    end = model.rest[:, 0] > 0.49

    np.testing.assert_allclose(-force[end, 0].sum(), 50.0 * 0.01, rtol=0.34)


def test_a_cloth_falls_and_loses_no_energy_but_to_air():
    """Fall freely without drag, as a body does, and keep the energy to a thousandth while it oscillates."""
    cloth = impinge.Cloth(cloth_grid(6, 6), drag=0.0, damping=0.0, fixed=[0, 6])
    start = cloth.energy().total
    height = []
    for _ in range(40):
        cloth.step(1.0 / 120.0)
        height.append((cloth.model.masses * cloth.coarse.vertices[:, 2]).sum() * 9.81)

    assert min(height) < -0.05
    np.testing.assert_allclose(cloth.energy().total + height[-1], start, atol=1e-3 * abs(height[-1]))
    np.testing.assert_array_equal(cloth.surface.vertices, cloth.coarse.vertices)


def test_a_copy_goes_on_alike():
    """Copy a cloth on its way: the copy takes the same steps."""
    cloth = impinge.Cloth(cloth_grid(4, 4), fixed=[0], thickness=0.01)
    cloth.step(0.02)
    twin = copy.deepcopy(cloth)
    cloth.step(0.02), twin.step(0.02)

    np.testing.assert_array_equal(twin.coarse.vertices, cloth.coarse.vertices)
    assert (twin.thickness, list(twin.fixed), twin.time) == (0.01, [0], cloth.time)
    assert repr(twin) == "<Cloth: 32 triangles, 1 fixed, time 0.04>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stretching": 0.0}, "stretching is 0.0, expected a positive number"),
        ({"bending": -1.0}, "bending is -1.0, expected a number from 0"),
        ({"thickness": 1.0}, "thickness is 1.0, expected a positive number up to"),
        ({"thickness": "thin"}, "thickness is 'thin', expected a positive number up to"),
    ],
)
def test_bad_options_get_a_sentence(options, message):
    """Say what was found and what was expected."""
    with pytest.raises(OptionError, match=message):
        impinge.Cloth(cloth_grid(3, 3), **options)


def test_a_vertex_without_mass_is_named():
    """Refuse a vertex that no triangle has."""
    with pytest.raises(MeshError, match="vertex 3 belongs to no triangle with an area and has no mass"):
        SpringSheet([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]], [[0, 1, 2]])


def test_a_cloth_is_saved_with_its_simulation():
    """Point to the way that works."""
    with pytest.raises(OptionError, match=r"Simulation\.save keeps its state"):
        impinge.Cloth(cloth_grid(2, 2)).save("cloth.npz")
