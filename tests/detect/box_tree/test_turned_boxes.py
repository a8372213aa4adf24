"""Transforms at query time: boxes are turned, and the pairs are those of moved vertices, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.detect.box_tree import detector
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.mesh.transform import transform_points

pytestmark = pytest.mark.small


@pytest.fixture(params=[0, detector.SMALL_BLOCKS], ids=["in launches", "in one call"], autouse=True)
def _both_searches(request, monkeypatch):
    """Search in launches and in one serial call."""
    monkeypatch.setattr(detector, "SMALL_BLOCKS", request.param)


def affine(linear, shift=(0.0, 0.0, 0.0)):
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = linear, shift
    return matrix


def rotation(rng):
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0.0 else -q


def moved_copy(body, matrix):
    return impinge.TriMesh(transform_points(matrix, body.vertices), body.faces)


def assert_pairs_of_moved_vertices(a, b, at_a, at_b):
    expected = impinge.BruteForce(moved_copy(a, at_a), moved_copy(b, at_b)).query()
    actual = BoxTree(a, b).query(transform_a=at_a, transform_b=at_b)

    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    np.testing.assert_array_equal(actual.kind, expected.kind)
    return len(actual)


LINEAR = {
    "turned": rotation,
    "mirrored": lambda rng: rotation(rng) @ np.diag([1.0, -1.0, 1.0]),
    "stretched": lambda rng: rotation(rng) @ np.diag([0.2, 1.0, 3.0]),
    "sheared": lambda rng: np.eye(3) + np.triu(rng.standard_normal((3, 3)), 1),
    "any": lambda rng: rng.standard_normal((3, 3)),
    "nearly singular": lambda rng: rotation(rng) @ np.diag([1e-11, 1.0, 1.0]) @ rotation(rng),
    "flattened": lambda rng: rotation(rng) @ np.diag([0.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("linear", LINEAR.values(), ids=LINEAR)
def test_pairs_of_moved_vertices(rng, linear):
    """Find the pairs of the moved vertices for any affine transform of either body."""
    a, b = shapes.bumpy_sphere(2), shapes.icosphere(2, radius=0.8)
    hits = 0
    for _ in range(4):
        at_a, at_b = (affine(linear(rng), 0.3 * rng.standard_normal(3)) for _ in range(2))
        hits += assert_pairs_of_moved_vertices(a, b, at_a, at_b)
        hits += assert_pairs_of_moved_vertices(a, b, at_a, np.eye(4))

    assert hits > 100


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_far_away(rng, far):
    """Be exact where both bodies are moved far away, and where far bodies are moved back to the origin."""
    a, b = shapes.bumpy_sphere(2), shapes.bumpy_sphere(2, center=(0.9, 0.3, 0.1))
    there = affine(rotation(rng), far * rng.standard_normal(3))
    hits = assert_pairs_of_moved_vertices(a, b, there, there)
    far_a, far_b = moved_copy(a, there), moved_copy(b, there)
    back = np.linalg.inv(there)
    hits += assert_pairs_of_moved_vertices(far_a, far_b, back, back)

    assert hits > 100


@pytest.mark.parametrize("turns", range(4))
def test_faces_that_touch_exactly(turns):
    """Lose no touching pair when boxes are turned by right angles: their faces lie on each other."""
    a, b = shapes.box(cells=(3, 2, 1)), shapes.box()
    quarter = np.linalg.matrix_power(np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), turns)
    size = np.ptp(a.vertices, axis=0)

    assert assert_pairs_of_moved_vertices(a, b, affine(quarter), affine(np.eye(3), (size[0], 0.0, 0.0))) > 0


@pytest.mark.parametrize("scale", [1e-300, 1e-45, 1e-31, 1e-8, 1e8, 1e31, 1e39, 1e300])
def test_any_scale(rng, scale):
    """Be exact for moved bodies beyond the range of float32, and far below it."""
    a, b = shapes.bumpy_sphere(2), shapes.bumpy_sphere(2, center=(0.9, 0.3, 0.1))
    for body in (a, b):
        body.update(scale * np.array(body.vertices))

    assert assert_pairs_of_moved_vertices(a, b, affine(rotation(rng)), affine(rotation(rng))) > 50


def test_all_into_one_point():
    """Let everything meet where both bodies shrink to the same point."""
    a, b = shapes.icosphere(1), shapes.icosphere(1)
    point = affine(np.zeros((3, 3)), (0.1, 0.2, 0.3))

    assert assert_pairs_of_moved_vertices(a, b, point, point) == len(a) * len(b)


def test_integer_lattice(rng):
    """Equal brute force on soups with integer corners and integer matrices, where everything touches."""
    hits = 0
    for _ in range(20):
        corners = [rng.integers(-3, 4, (120, 3)).astype(float) for _ in range(2)]
        a, b = (impinge.TriMesh(x, np.arange(120).reshape(-1, 3)) for x in corners)
        at_a, at_b = (affine(rng.integers(-2, 3, (3, 3)), rng.integers(-2, 3, 3)) for _ in range(2))
        hits += assert_pairs_of_moved_vertices(a, b, at_a, at_b)

    assert hits > 5000


def test_boxes_are_not_fitted_again(monkeypatch, rng):
    """Fit a rigid body once, however it is moved."""
    a, b = shapes.bumpy_sphere(3), shapes.bumpy_sphere(3, center=(1.1, 0.4, 0.2))
    detector = BoxTree(a, b)
    detector.query()
    fitted = []
    original = TreeOfBoxes.note_fit
    monkeypatch.setattr(TreeOfBoxes, "note_fit", lambda tree, *args: fitted.append(tree) or original(tree, *args))
    hits = sum(len(detector.query(transform_b=affine(rotation(rng), rng.random(3)))) for _ in range(5))

    assert hits > 100
    assert not fitted


def test_turned_boxes_cull(rng):
    """Test little more than the pairs that meet: padding and turning must not make boxes useless."""
    a, b = shapes.bumpy_sphere(4), shapes.bumpy_sphere(4, center=(1.1, 0.4, 0.2))
    still = BoxTree(a, b).query()
    turn = affine(rotation(rng))
    turned = BoxTree(a, moved_copy(b, np.linalg.inv(turn))).query(transform_b=turn)

    assert len(turned) == pytest.approx(len(still), rel=0.01)
    assert turned.stats["triangle_tests"] < 4 * still.stats["triangle_tests"]


def test_a_transform_that_overflows_gets_a_sentence():
    """Refuse a transform that moves a vertex beyond the range of doubles."""
    a, b = shapes.box(), shapes.box()

    with pytest.raises(impinge.OptionError, match="beyond the range of doubles"):
        BoxTree(a, b).query(transform_a=affine(1e308 * np.eye(3), (1.7e308, 0.0, 0.0)))
