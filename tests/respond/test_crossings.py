"""Depths of regions and lengths of intersection curves."""

from __future__ import annotations

import numpy as np
import pytest

from impinge import BoxTree, TriMesh, shapes
from impinge.respond.crossings import Exit, crossing_curves


def one_tet(center: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> TriMesh:
    """A regular tetrahedron."""
    x = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    return TriMesh(x + center, [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])


def test_curve_of_balls_is_their_circle():
    """Measure the circle in which two balls cross."""
    a, b = shapes.icosphere(4), shapes.icosphere(4, center=(1.2, 0.013, 0.021))
    found = crossing_curves(a, b, BoxTree(a, b).query())

    assert len(found.length) == 1
    assert found.length[0] == pytest.approx(2.0 * np.pi * 0.8, rel=0.01)


@pytest.mark.parametrize("moved", [0, 1])
def test_gradients_are_derivatives(moved):
    """Match differences of lengths where no edge is nearly parallel to a face."""
    a, b = one_tet(), one_tet((0.31, 0.17, 0.23))
    bodies = (a, b)
    found = crossing_curves(a, b, BoxTree(a, b).query())
    rest, way = bodies[moved].vertices.copy(), np.random.default_rng(3).normal(size=(4, 3))
    lengths = []
    for sign in (1.0, -1.0):
        bodies[moved].update(rest + sign * 1e-6 * way)
        lengths.append(crossing_curves(a, b, BoxTree(a, b).query()).length.sum())
    gradient = (found.gradient_a, found.gradient_b)[moved]

    assert found.length.sum() > 0.1
    assert (lengths[0] - lengths[1]) / 2e-6 == pytest.approx(float((gradient @ way.reshape(-1)).sum()), rel=1e-5)


def test_curves_of_one_surface():
    """Shorten the curve of a surface that crosses itself by a step against its gradient."""
    sheet = shapes.cloth_grid(20, 20, size=1.0)
    x = sheet.vertices.copy()
    u = 0.5 - np.abs(x[:, 0])
    upper = 0.06 - 0.12 * np.exp(-((u - 0.25) ** 2 + x[:, 1] ** 2) / 0.01)
    sheet.update(np.stack([u, x[:, 1], np.where(x[:, 0] > 0.0, upper, 0.0)], axis=1))
    found = crossing_curves(sheet, sheet, BoxTree(sheet).query())
    gradient = np.asarray((found.gradient_a + found.gradient_b).sum(axis=0)).reshape(-1, 3)
    before = float(found.length.sum())
    sheet.update(sheet.vertices - 1e-4 * gradient / np.linalg.norm(gradient))

    assert before > 0.1
    assert crossing_curves(sheet, sheet, BoxTree(sheet).query()).length.sum() < before


def test_regions_leave_in_one_direction_that_persists():
    """Give all vertices of a region one direction, and keep it when bodies have moved."""
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.2, 0.013, 0.021))
    both = Exit(a, b)
    of_a, of_b = both.find(BoxTree(a, b).query().pairs)
    b.update(b.vertices + np.array([0.5, 0.4, 0.0]))
    later, _ = both.find(BoxTree(a, b).query().pairs)

    assert len(of_a.vertex) > 50
    assert len(np.unique(of_a.outward, axis=0)) == 1
    assert of_a.outward[0] @ (1.0, 0.0, 0.0) < -0.99
    assert np.allclose(of_b.outward[0], -of_a.outward[0])
    assert of_a.depth.max() == pytest.approx(0.8, abs=0.03)
    assert len(later.vertex)
    assert np.allclose(later.outward[0], of_a.outward[0])


def test_a_sheet_leaves_by_the_nearer_side():
    """Lead a sheet above the middle of a ball upwards."""
    ball, sheet = shapes.icosphere(3), shapes.cloth_grid(20, 20, size=4.0, center=(0.0, 0.0, 0.4))
    of_ball, of_sheet = Exit(ball, sheet).find(BoxTree(ball, sheet).query().pairs)

    assert len(of_ball.vertex) == 0
    assert len(of_sheet.vertex) > 20
    assert np.allclose(of_sheet.outward, (0.0, 0.0, 1.0))
    assert of_sheet.depth.max() == pytest.approx(0.6, abs=0.03)
