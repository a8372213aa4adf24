"""Gradients of the overlap volume, against finite differences and closed forms."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from impinge import TriMesh, shapes
from impinge.contact.volume_gradient import VolumeGradients, volume_gradient
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.sources import Sphere
from impinge.errors import MeshError, OptionError


def knot_and_ball():
    return shapes.torus_knot(2, 3, 60, 9), shapes.icosphere(3, radius=0.5, center=(0.9, 0.3, 0.1))


def in_room(body):
    """The body with two far specks, which fix the window."""
    specks = [shapes.icosphere(0, radius=0.01, center=center) for center in ((-3.0, -3.0, -3.0), (3.0, 3.0, 3.0))]
    parts, first = [body, *specks], np.cumsum([0, len(body.vertices), 12])
    faces = [part.faces + start for part, start in zip(parts, first)]
    return TriMesh(np.concatenate([part.vertices for part in parts]), np.concatenate(faces))


def test_sampled_volume_changes_as_the_gradient_says(rng):
    """Equal finite differences of the sampled volume along each axis."""
    a, b = (in_room(body) for body in knot_and_ball())
    detector = LayeredDepth(a, b, axes=3, resolution=200)
    gradients = VolumeGradients(a, b, resolution=200).query()
    step, checked = 1e-6, 0
    for body, gradient in ((a, gradients.gradient_a), (b, gradients.gradient_b)):
        x = body.vertices.copy()
        strong = np.argsort(-np.abs(gradient).sum(axis=1))[:12]
        for axis in range(3):
            direction = np.zeros_like(x)
            direction[strong, axis] = rng.uniform(0.5, 1.0, len(strong))
            ends = []
            for sign in (1.0, -1.0):
                body.update(x + sign * step * direction)
                ends.append(detector.query().volumes[axis])
            body.update(x)
            expected = (gradient * direction).sum()
            np.testing.assert_allclose((ends[0] - ends[1]) / (2.0 * step), expected, rtol=1e-3, atol=1e-6)
            checked += abs(expected) > 1e-4

    assert checked >= 5


def test_gradient_of_single_vertices_converges():
    """Converge to the derivative of the true volume: a third of the area vectors at each vertex."""
    inner, outer = shapes.icosphere(2, radius=0.5, center=(0.05, 0.02, 0.0)), shapes.box(4.0)
    corner = inner.vertices[inner.faces]
    area = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]) / 2.0
    expected = np.zeros_like(inner.vertices)
    np.add.at(expected, inner.faces, area[:, None, :] / 3.0)
    off = [abs(volume_gradient(inner, outer, resolution=n).gradient_a - expected).max() for n in (64, 1024)]

    assert off[1] < 0.05 * np.abs(expected).max()
    assert off[1] < 0.2 * off[0]
    np.testing.assert_array_equal(volume_gradient(inner, outer).gradient_b, 0.0)


def test_lens_is_pushed_along_the_line_of_centres():
    """Find the area of the circle in which two balls meet, and its normal."""
    center = np.array([1.2, 0.3, 0.2])
    apart = np.linalg.norm(center)
    result = volume_gradient(shapes.icosphere(5), shapes.icosphere(5, center=center), resolution=256)
    rate = np.linalg.norm(result.gradient_b.sum(axis=0))

    np.testing.assert_allclose(rate, np.pi * (1.0 - apart**2 / 4.0), rtol=5e-3)
    np.testing.assert_allclose(result.normal, center / apart, atol=2e-3)
    np.testing.assert_allclose(result.point, center / 2.0, atol=2e-3)
    np.testing.assert_allclose(result.depth, result.volume / rate, rtol=1e-12)


def test_depth_of_a_box_pressed_into_another():
    """Find the depth of a box pressed into the middle of another, in either order."""
    floor, small = shapes.box(4.0), shapes.box(0.5, center=(0.1, 0.2, 2.15))
    result, other = volume_gradient(floor, small), volume_gradient(small, floor)

    np.testing.assert_allclose(result.depth, 0.1, rtol=1e-9)
    np.testing.assert_allclose(result.normal, [0.0, 0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(result.volume, 0.025, rtol=1e-9)
    np.testing.assert_allclose(other.normal, [0.0, 0.0, -1.0], atol=1e-9)
    np.testing.assert_array_equal(other.gradient_a, result.gradient_b)
    assert len(result) == 1


def test_forces_keep_the_momentum():
    """Apply opposite forces to both bodies, down the gradient of the energy."""
    a, b = knot_and_ball()
    result = volume_gradient(a, b)
    force_a, force_b = result.force_a(3.0), result.force_b(3.0)

    np.testing.assert_allclose(force_a.sum(axis=0), -force_b.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(force_b, -3.0 * result.volume * result.gradient_b, rtol=1e-12)
    assert force_b.sum(axis=0) @ result.normal > 0.0
    b.update(b.vertices + 0.02 * result.normal)
    assert volume_gradient(a, b).volume < result.volume


def test_no_way_out_of_a_nest():
    """Return no direction for nested bodies, and no depth for disjoint ones."""
    inner, outer = shapes.box(1.0), shapes.box(4.0)
    nested = volume_gradient(inner, outer)
    assert nested.depth == np.inf
    assert np.isnan(nested.normal).all()
    assert nested.volume == pytest.approx(1.0)
    far = volume_gradient(inner, shapes.box(1.0, center=(9.0, 0.0, 0.0)))
    assert far.depth == far.volume == 0.0
    assert np.isnan(far.normal).all()
    assert not far
    np.testing.assert_array_equal(far.gradient_a, 0.0)


def test_transforms_move_the_gradient():
    """Apply transforms."""
    floor, small = shapes.box(4.0), shapes.box(0.5)
    lift = np.eye(4)
    lift[:3, 3] = 0.1, 0.2, 2.15
    result = VolumeGradients(floor, small).query(transform_b=lift)

    np.testing.assert_allclose(result.depth, 0.1, rtol=1e-9)


def test_bodies_without_vertices_have_no_gradient():
    """Push a mesh out of a ball that is not made of triangles."""
    floor, ball = shapes.box(4.0), Sphere((0.2, 0.1, 2.8), 1.0)
    result = volume_gradient(floor, ball)

    assert result.gradient_b.shape == (0, 3)
    np.testing.assert_allclose(result.gradient_a.sum(axis=0), [0.0, 0.0, np.pi * (1.0 - 0.8**2)], rtol=2e-3, atol=1e-9)
    np.testing.assert_allclose(result.normal, [0.0, 0.0, 1.0], atol=1e-9)


def test_balls_without_vertices_are_pushed_apart():
    """Find normal and depth of two balls without vertices."""
    result = volume_gradient(Sphere((0.0, 0.0, 0.0), 1.0), Sphere((1.2, 0.0, 0.0), 1.0))

    np.testing.assert_allclose(result.normal, [1.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(result.depth, result.volume / (np.pi * (1.0 - 0.36)), rtol=5e-3)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_way_out_in_any_unit(scale):
    """Find the same direction and depth in units whose squares underflow or overflow."""
    small = [TriMesh(scale * body.vertices, body.faces) for body in knot_and_ball()]
    result, expected = volume_gradient(*small, resolution=32), volume_gradient(*knot_and_ball(), resolution=32)

    np.testing.assert_allclose(result.normal, expected.normal, atol=1e-3)
    np.testing.assert_allclose(result.depth / scale, expected.depth, rtol=1e-3)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda detector: pickle.loads(pickle.dumps(detector))])
def test_gradients_pickle_and_copy(make):
    """Keep bodies and options."""
    detector = VolumeGradients(*knot_and_ball(), resolution=40, rule="winding")
    expected, other = detector.query(), make(detector)

    np.testing.assert_array_equal(other.query().gradient_a, expected.gradient_a)
    assert repr(other) == repr(detector)
    assert "40 pixels" in repr(detector)
    assert len(pickle.loads(pickle.dumps(expected))) == 1


def test_what_is_refused():
    """Refuse one body, open bodies and comparisons."""
    box = shapes.box(1.0)
    with pytest.raises(OptionError, match="a gradient of the overlap needs two bodies"):
        VolumeGradients(box, None)
    leaky = shapes.box(1.0)
    leaky.remove_triangles([0])
    with pytest.raises(MeshError, match="3 open and 0 flipped"):
        volume_gradient(box, leaky)
    result = volume_gradient(box, box)
    with pytest.raises(OptionError, match="a gradient has no rows to compare"):
        result.changes(result)
    event = threading.Event()
    event.set()
    assert volume_gradient(box, box, cancel=event).reason == "cancelled"
