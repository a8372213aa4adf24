"""Contacts of long steps before bodies touch: which vertices, and what the steps make of them."""

import numpy as np
import pytest

import impinge
from impinge import Simulation
from impinge.mesh.shapes import box
from impinge.simulate.search.approaching import approaching
from simulated_cubes import EDGE, FIRM, soft_cube, world_of

pytestmark = pytest.mark.small
NONE = np.zeros(0, dtype=np.int64)


def block(height, size=(0.2, 0.2, 0.1)):
    """A box whose lowest vertices are at a height."""
    return box(size, center=(0.0, 0.0, height + 0.5 * size[2]), cells=(4, 4, 2))


def floor(cells=(10, 10, 1)):
    """A box with its upper face at height 0."""
    return box((1.0, 1.0, 0.1), center=(0.0, 0.0, -0.05), cells=cells)


def test_vertices_above_a_face_are_found_with_their_distance():
    """Find the lower face of a block alone, each vertex above the point below it."""
    found = approaching(block(0.03), floor(), 0.05, NONE)
    x = block(0.03).vertices

    np.testing.assert_array_equal(np.sort(found.vertex), np.flatnonzero(x[:, 2] < 0.04))
    np.testing.assert_allclose(found.distance, 0.03, rtol=1e-12)
    np.testing.assert_allclose(found.outward, np.tile([0.0, 0.0, 1.0], (len(found.vertex), 1)), atol=1e-12)
    weights = (found.weights[:, :, None] * floor().vertices[found.corners]).sum(axis=1)
    np.testing.assert_allclose(weights[:, :2], x[found.vertex, :2], atol=1e-12)


def test_vertices_beyond_the_travel_and_inside_are_left_out():
    """Find nothing farther than the travel, and none of the vertices that are inside already."""
    assert not len(approaching(block(0.03), floor(), 0.02, NONE).vertex)
    lower = np.flatnonzero(block(0.03).vertices[:, 2] < 0.04)
    assert not len(approaching(block(0.03), floor(), 0.05, lower).vertex)


def test_vertices_that_touch_have_the_normal_of_the_face():
    """Give vertices at no distance the direction of the face they lie on."""
    found = approaching(block(0.0), floor(), 0.02, NONE)

    assert len(found.vertex) == 25
    assert found.distance.max() < 1e-15
    np.testing.assert_allclose(found.outward[:, 2], 1.0)


def test_a_floor_beside_a_block_does_not_approach_it():
    """Leave out vertices of a flat floor beside the edges of a block: their contacts would brake it."""
    fine, low = floor((40, 40, 1)), block(0.001)
    found = approaching(fine, low, 0.05, NONE)
    beside = np.abs(fine.vertices[found.vertex, :2]).max(axis=1) > 0.1 + 0.005

    assert len(found.vertex) >= 49
    assert not beside.any()


def test_a_block_slides_over_a_meshed_floor():
    """Keep the speed of a block on a floor without friction, whose vertices lie in its way."""
    cube = soft_cube((-0.1, 0.0, 0.5 * EDGE + 1e-4), material=FIRM)
    cube.velocities = np.tile([0.5, 0.0, 0.0], (len(cube.velocities), 1))
    sim = Simulation(world_of(cube=cube, floor=floor((20, 20, 1))), friction=0.0)
    reports = sim.run(0.3)

    np.testing.assert_allclose(cube.velocities[:, 0].mean(), 0.5, rtol=0.01)
    assert max(report.searches for report in reports) <= 2


@pytest.mark.parametrize("dt", [1.0 / 60.0, 0.05])
def test_a_cube_lands_within_the_step_in_which_it_arrives(dt):
    """Stop a falling cube at a meshed floor without entering it, with few searches."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE + 0.05), material=FIRM)
    sim = Simulation(world_of(cube=cube, floor=floor()), dt=dt, sleep_after=None)
    lowest, searches = [], []
    for _ in range(round(0.5 / dt)):
        searches.append(sim.step().searches)
        lowest.append(cube.surface.vertices[:, 2].min())

    assert min(lowest) > -0.01 * EDGE
    assert max(searches) <= round(dt * 4 * 60) + 1


def test_two_bodies_that_meet_stop_each_other_in_one_search():
    """Search once in the frame of a collision that takes place within it, and keep momentum."""
    cubes = {"a": soft_cube((-0.0505, 0.0, 0.0)), "b": soft_cube((0.0505, 0.002, 0.001))}
    for name, speed in (("a", 0.2), ("b", -0.2)):
        cubes[name].velocities = np.tile([speed, 0.0, 0.0], (len(cubes[name].velocities), 1))
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0))
    report = sim.step()

    assert report.searches == 1
    assert report.contacts
    assert report.forces["a"][0] < -1.0
    np.testing.assert_allclose(report.momentum, 0.0, atol=1e-12)
    assert impinge.overlap_volume(cubes["a"].surface, cubes["b"].surface).volume < 0.01 * EDGE**3
