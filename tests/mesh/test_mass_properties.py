"""Volume, centre and second moments of closed surfaces, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.errors import MeshError
from impinge.mesh import shapes
from impinge.mesh.mass_properties import mass_properties
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import rotation


@pytest.mark.parametrize("centre", [(0.0, 0.0, 0.0), (0.3, -0.2, 5.0), (1e6, -1e6, 1e6)])
def test_a_box_has_its_moments(centre):
    """Match the closed form of a box near the origin and far from it."""
    found = mass_properties(shapes.box((1.0, 2.0, 3.0), center=centre, cells=(2, 3, 1)))

    assert found.volume == pytest.approx(6.0, rel=1e-9)
    np.testing.assert_allclose(found.centre, centre, rtol=1e-15, atol=1e-14)
    np.testing.assert_allclose(found.moments, np.diag([0.5, 2.0, 4.5]), atol=1e-8 if centre[0] > 1e3 else 1e-14)


def test_a_turned_box_has_turned_moments():
    """Turn a box: its moments turn with it, and so does its centre."""
    turn = rotation(np.array([1.0, 2.0, -0.5]) / np.sqrt(5.25), 0.8)
    box = shapes.box((1.0, 2.0, 3.0), center=(0.4, 0.1, -0.7))
    box.update(box.vertices @ turn.T)
    found = mass_properties(box)

    np.testing.assert_allclose(found.centre, turn @ (0.4, 0.1, -0.7), atol=1e-14)
    np.testing.assert_allclose(found.moments, turn @ np.diag([0.5, 2.0, 4.5]) @ turn.T, atol=1e-13)


def test_an_ellipsoid_converges_to_its_moments():
    """Refine an ellipsoid: volume and moments approach the closed form with the square of the edge length."""
    axes = np.array([1.0, 0.6, 0.3])
    exact = 4.0 / 3.0 * np.pi * axes.prod()
    errors = []
    for rounds in (3, 4):
        ball = shapes.icosphere(rounds, radius=1.0)
        ball.update(ball.vertices * axes + (3.0, 0.0, 0.0))
        found = mass_properties(ball)
        errors.append(np.abs(np.diag(found.moments) / (exact * axes**2 / 5.0) - 1.0).max())
        np.testing.assert_allclose(found.centre, (3.0, 0.0, 0.0), atol=1e-14)

    assert errors[1] < 0.01
    assert errors[1] == pytest.approx(0.25 * errors[0], rel=0.05)


def test_a_surface_inside_out_has_the_same_moments():
    """Reverse all triangles: nothing changes."""
    box = shapes.box((1.0, 2.0, 3.0))
    found = mass_properties(TriMesh(box.vertices, box.faces[:, ::-1]))

    assert found.volume == pytest.approx(6.0)
    np.testing.assert_allclose(found.moments, np.diag([0.5, 2.0, 4.5]), atol=1e-14)


def test_surfaces_without_a_solid_are_refused():
    """Name what was found, what is expected and the remedy."""
    box = shapes.box(1.0)
    flat = shapes.box(1.0)
    flat.update(flat.vertices * (1.0, 1.0, 0.0))
    empty = shapes.box(1.0)
    empty.remove_triangles(np.arange(12))
    flipped = box.faces.copy()
    flipped[0] = flipped[0, ::-1]

    with pytest.raises(MeshError, match=r"3 open, 0 non-manifold and 0 flipped edges, expected a closed .* close and"):
        mass_properties(TriMesh(box.vertices, box.faces[1:]))
    with pytest.raises(MeshError, match="3 flipped edges, expected a closed and oriented one"):
        mass_properties(TriMesh(box.vertices, flipped))
    with pytest.raises(
        MeshError, match="encloses a volume of 0 and is 1 across, expected a solid; give it a thickness"
    ):
        mass_properties(flat)
    with pytest.raises(MeshError, match="has no triangles, expected a closed one"):
        mass_properties(empty)
