"""One material for each tet: forces, masses, steps and files of bodies of several materials."""

import numpy as np
import pytest

import impinge
from impinge import Corotated, GreenStrain, Material, OptionError, SoftBody, StableNeoHookean, shapes
from impinge.deform.batch import ModelBatch
from impinge.deform.implicit.system import ImplicitSystem

SOFT = Material(1e5, 0.0, 1000.0)
STIFF = Material(4e5, 0.0, 3000.0)
MODELS = pytest.mark.parametrize("kind", [GreenStrain, Corotated, StableNeoHookean])


def bar(kind=GreenStrain):
    """Return a bar along x whose left half is soft and right half stiff, with tets in random order."""
    mesh = shapes.tet_box(8, 2, 2, size=(0.4, 0.1, 0.1))
    tets = mesh.tets[np.random.default_rng(5).permutation(len(mesh.tets))]
    is_stiff = mesh.vertices[tets].mean(axis=1)[:, 0] > 0.0
    return kind(mesh.vertices, tets, [STIFF if each else SOFT for each in is_stiff]), is_stiff


def shaken(model, rng, amount=0.004):
    """Return positions near rest."""
    return model.rest + amount * rng.normal(size=model.rest.shape)


@MODELS
def test_equal_materials_are_one_material(kind, rng):
    """Return the same bits for a list of equal materials as for the material itself."""
    mesh = shapes.tet_box(5, 3, 3, size=(0.5, 0.3, 0.3))
    one, many = kind(mesh.vertices, mesh.tets, "jelly"), kind(mesh.vertices, mesh.tets, ["jelly"] * len(mesh.tets))
    x, v = shaken(one, rng), rng.normal(size=one.rest.shape)

    np.testing.assert_array_equal(one.forces(x, v), many.forces(x, v))
    np.testing.assert_array_equal(one.masses, many.masses)
    assert (one.energy(x), one.stable_step(x, v)) == (many.energy(x), many.stable_step(x, v))
    assert many.materials == (one.material,)


@MODELS
def test_forces_add_up_over_materials(kind, rng):
    """Sum the forces, energies and masses that the tets of each material have by themselves."""
    model, is_stiff = bar(kind)
    x, v = shaken(model, rng), rng.normal(size=model.rest.shape)
    forces, masses, energy, inverted = np.zeros_like(x), np.zeros(len(x)), 0.0, []
    for material, own in ((SOFT, ~is_stiff), (STIFF, is_stiff)):
        used, tets = np.unique(model.tets[own], return_inverse=True)
        part = kind(model.rest[used], tets.reshape(-1, 4), material)
        forces[used] += part.forces(x[used], v[used])
        masses[used] += part.masses
        energy += part.energy(x[used])
        inverted.append(np.flatnonzero(own)[part.inverted(5.0 * x[used] - 4.0 * model.rest[used])])

    np.testing.assert_allclose(model.forces(x, v), forces, atol=1e-11 * np.abs(forces).max())
    np.testing.assert_allclose(model.masses, masses, rtol=1e-13)
    assert model.energy(x) == pytest.approx(energy, rel=1e-12)
    found = model.inverted(5.0 * x - 4.0 * model.rest)
    assert len(found) > 0
    np.testing.assert_array_equal(found, np.sort(np.concatenate(inverted)))


def test_mean_material_keeps_volume():
    """Weight the mean of materials by volume: mass divided by its density is the volume."""
    model, _ = bar()

    assert model.masses.sum() / model.material.density == pytest.approx(0.4 * 0.1 * 0.1)
    assert model.material.youngs_modulus == pytest.approx(2.5e5)


@MODELS
def test_halves_stretch_as_springs_in_series(kind):
    """Stretch each half of a pulled bar by force times length over modulus times area, by implicit steps."""
    model, _ = bar(kind)
    system = ImplicitSystem([model])
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    left, right = model.rest[:, 0] < -0.2 + 1e-9, model.rest[:, 0] > 0.2 - 1e-9
    middle = np.abs(model.rest[:, 0]) < 1e-9
    weight = np.array([[1.0], [2.0], [1.0]]) @ np.array([[1.0, 2.0, 1.0]]) / 16.0
    pull, forces = 1.0, np.zeros_like(x)
    order = np.lexsort((model.rest[right, 2], model.rest[right, 1]))
    forces[np.flatnonzero(right)[order], 0] = pull * weight.reshape(-1)
    for _ in range(30):
        report = system.step(x, v, 10.0, forces=forces, held=left)
        assert report.converged.all()
    soft = (x - model.rest)[middle, 0].mean()
    stiff = (x - model.rest)[right, 0].mean() - soft

    assert soft == pytest.approx(pull * 0.2 / (1e5 * 0.01), rel=0.02)
    assert stiff == pytest.approx(pull * 0.2 / (4e5 * 0.01), rel=0.02)


def test_batches_of_several_materials(rng):
    """Give each body of a batch the bits of forces and stable steps that it has alone."""
    mesh = shapes.tet_box(2, 2, 2, size=0.2)
    models = [bar()[0], Corotated(mesh.vertices, mesh.tets, "rubber")]
    first, count = [0, len(models[0].rest)], sum(len(model.rest) for model in models)
    x, v = np.concatenate([shaken(model, rng) for model in models]), rng.normal(size=(count, 3))
    batch, out = ModelBatch(models, first, count), np.zeros((count, 3))
    batch.forces(x, v, out)
    for model, begin, step in zip(models, first, batch.stable_steps(x, v)):
        own = slice(begin, begin + len(model.rest))
        np.testing.assert_array_equal(out[own], model.forces(x[own], v[own]))
        assert step == model.stable_step(x[own], v[own])


def test_files_keep_the_materials_of_tets(tmp_path):
    """Read a body of several materials and one of a single material that take the same steps to the bit."""
    model, is_stiff = bar()
    tets = impinge.TetMesh(model.rest, model.tets)
    for material in ([STIFF if each else SOFT for each in is_stiff], STIFF):
        soft = SoftBody(tets.surface, tets, material=material)
        soft.step(0.002)
        soft.save(tmp_path / "body.npz")
        again = SoftBody.load(tmp_path / "body.npz")
        assert again.model.materials == soft.model.materials
        for body in (soft, again):
            body.step(0.002)
        np.testing.assert_array_equal(again.coarse.vertices, soft.coarse.vertices)


def test_materials_must_match_tets():
    """Refuse a list of another length, and unknown names in it."""
    mesh = shapes.tet_box(1, 1, 1)
    with pytest.raises(OptionError, match=r"there are 2 materials for \d+ tets; pass one, or one for each tet"):
        GreenStrain(mesh.vertices, mesh.tets, ["rubber", "jelly"])
    with pytest.raises(OptionError, match="no material 'stone'"):
        GreenStrain(mesh.vertices, mesh.tets, ["stone"] * len(mesh.tets))
    with pytest.raises(OptionError, match=r"no material .*; expected any of"):
        GreenStrain(mesh.vertices, mesh.tets, np.array("stone"))


def test_removed_tets_have_no_material():
    """Make bodies of meshes with removed tets: materials are those of the rows that are left, and one fits all."""
    tets = shapes.tet_box(4, 2, 2, size=(0.4, 0.2, 0.2))
    materials = [SOFT if k % 3 else STIFF for k in range(len(tets.tets))]
    gone = [0, 1, 2, 7]
    tets.remove_tets(gone)
    surface = impinge.TriMesh(tets.surface.vertices, tets.surface.faces)
    left = np.delete(np.arange(len(materials)), gone)
    several = SoftBody(surface, tets, material=materials).model
    assert [several.materials[k] for k in several.tet_material] == [materials[k] for k in left]
    assert SoftBody(surface, tets, material=SOFT).model.materials == (SOFT,)
