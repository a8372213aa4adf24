"""How tightly spheres fit, against volumes and distances that are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.p001_tightness import tightness_by_level, tightness_of_balls
from impinge import build_spheres, shapes

pytestmark = pytest.mark.small


def test_a_ball_around_a_cube():
    """Find the volume of the ball less that of the cube, and the stand-off above the middle of a face."""
    found = tightness_of_balls(shapes.box(2.0), np.zeros((1, 3)), np.array([np.sqrt(3.0)]), samples=50_000)
    volume = 4.0 / 3.0 * np.pi * np.sqrt(27.0) - 8.0

    assert found.count == 1
    assert abs(found.outside_volume - volume) < 4.0 * found.outside_error
    assert 0.0 < found.outside_error < 0.02 * volume
    assert np.sqrt(3.0) - 1.1 < found.worst_stand_off <= np.sqrt(3.0) - 1.0


def test_balls_inside_stand_off_by_nothing():
    """Find nothing outside for balls that are in the solid, one of them a point."""
    found = tightness_of_balls(shapes.box(2.0), np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), np.array([0.9, 0.0]))

    assert (found.outside_volume, found.worst_stand_off, found.mean_stand_off) == (0.0, 0.0, 0.0)


def test_overlapping_balls_count_once():
    """Measure the union of balls, not their sum; all of it is outside of an open surface."""
    sheet = shapes.cloth_grid(2, 2)
    found = tightness_of_balls(sheet, np.zeros((3, 3)), np.array([2.0, 2.0, 1.0]), samples=50_000)

    assert abs(found.outside_volume - 32.0 / 3.0 * np.pi) < 4.0 * found.outside_error
    np.testing.assert_allclose(found.worst_stand_off, 2.0, atol=0.05)


def test_every_level_of_a_tree_is_measured():
    """Measure each level, with as many spheres as the tree has there."""
    mesh = shapes.bumpy_sphere(2)
    tree = build_spheres(mesh, builder="octree", levels=2)
    found = tightness_by_level(tree, mesh, samples=5000)

    assert [each.count for each in found] == [len(tree.cut(level)) for level in range(3)]
    assert found[2].outside_volume < found[1].outside_volume
    assert found == tightness_by_level(tree, mesh, samples=5000)
    assert found != tightness_by_level(tree, mesh, samples=5000, seed=1)
