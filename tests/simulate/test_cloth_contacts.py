"""Cloth keeps its thickness from the ground, bodies, other cloth and itself."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge.bodies.cloth import Cloth
from impinge.mesh.shapes import box, cloth_grid
from impinge.simulate.simulation import Simulation
from impinge.world.world import World


def make_cloth(height, *, cells=6, thickness=None) -> Cloth:
    return Cloth(cloth_grid(cells, cells, size=0.4, center=(0.003, 0.002, height)), thickness=thickness)


def rested(bodies, **options):
    """Run bodies for one second until they rest."""
    world = World()
    for name, body in bodies.items():
        world.add(body, name=name)
    sim = Simulation(world, sleep_after=None, **options)
    return sim, sim.run(1.0)


def heights(cloth):
    z = cloth.surface.vertices[:, 2]
    return float(z.min()), float(z.max())


@pytest.mark.parametrize("on", ["ground", "block", "tilted ground", "open"])
def test_cloth_rests_at_half_its_thickness(on):
    """Rest at half the thickness above the ground, a block and an open surface, which carry the weight."""
    cloth, options = make_cloth(0.02), {}
    bodies = {"cloth": cloth}
    if on == "ground":
        options = {"ground": 0.0}
    elif on == "tilted ground":
        options = {"ground": ((0.0, 0.0, 0.0), (0.0, 0.02, 1.0))}
    elif on == "block":
        bodies["below"] = box((1.0, 1.0, 0.2), center=(0.013, 0.007, -0.1), cells=(4, 4, 1))
    else:
        bodies["below"] = cloth_grid(5, 5, size=1.0, center=(0.013, 0.007, 0.0))
    _, reports = rested(bodies, **options)
    normal = np.array([0.0, 0.02 if on == "tilted ground" else 0.0, 1.0])
    above = cloth.surface.vertices @ (normal / np.linalg.norm(normal))

    assert above.min() > 0.45 * cloth.thickness
    assert above.max() < 0.55 * cloth.thickness
    load = 9.81 * float(np.sum(cloth.model.masses))
    np.testing.assert_allclose(reports[-1].forces["cloth"][2], load, rtol=0.05)
    assert reports[-1].fastest < 0.01


def test_two_cloths_keep_the_mean_of_their_thicknesses():
    """Rest a thin cloth on a thick one at the mean of their thicknesses."""
    lower, upper = make_cloth(0.015), make_cloth(0.045, cells=7, thickness=0.005)
    rested({"lower": lower, "upper": upper}, ground=0.0)
    mean = 0.5 * (lower.thickness + upper.thickness)

    assert heights(lower)[0] > 0.45 * lower.thickness
    gap = heights(upper)[0] - heights(lower)[1]
    assert 0.85 * mean < gap < 1.1 * mean


def test_coincident_cloths_separate():
    """Separate two coincident cloths, and a cloth that lies in the face of a block."""
    lower, upper = make_cloth(0.03), make_cloth(0.03)
    rested({"lower": lower, "upper": upper}, ground=0.0)
    apart = np.abs(heights(upper)[0] - heights(lower)[0])
    assert apart > 0.5 * lower.thickness

    cloth = make_cloth(0.0)
    rested({"cloth": cloth, "block": box((1.0, 1.0, 0.2), center=(0.013, 0.007, -0.1), cells=(4, 4, 1))})
    assert heights(cloth)[0] > 0.4 * cloth.thickness


def test_ignored_self_collision_has_no_contacts():
    """Create no self-contacts of a folded cloth whose pair with itself is ignored."""
    contacts = []
    for ignored in (False, True):
        cloth = make_cloth(0.3)
        x = cloth.coarse.vertices.copy()
        x[:, 0], x[:, 2] = np.abs(x[:, 0]), np.where(x[:, 0] < 0.0, 0.295, 0.3)
        cloth.coarse.update(x)
        world = World()
        world.add(cloth, name="cloth")
        if ignored:
            world.ignore("cloth", "cloth")
        contacts.append(sum(len(Simulation(world).step().contacts) for _ in range(3)))

    assert contacts[0] > 0
    assert contacts[1] == 0


def test_a_soft_body_rests_on_cloth():
    """Carry a soft plate by a cloth with a fixed rim; no cloth vertex enters the plate."""
    cloth = make_cloth(0.2, cells=12)
    rim = np.abs(cloth.coarse.vertices[:, :2] - [0.003, 0.002]).max(axis=1) > 0.19
    cloth.fix(rim)
    tets = impinge.shapes.tet_box(2, 2, 2, size=(0.2, 0.2, 0.02), center=(0.0, 0.0, 0.23))
    plate = impinge.SoftBody(tets.surface, tets, material="jelly", embedding="barycentric")
    _, reports = rested({"cloth": cloth, "plate": plate})
    near = impinge.closest_points(plate.surface, cloth.surface.vertices)
    carried = np.mean([report.forces["plate"][2] for report in reports[-20:]])

    assert not np.asarray(near.inside).any()
    assert plate.surface.vertices[:, 2].min() > 0.05
    np.testing.assert_allclose(carried, 9.81 * float(np.sum(plate.model.masses)), rtol=0.3)
