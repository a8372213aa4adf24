"""Points through a matrix: every product and sum rounded by itself, in one order."""

from fractions import Fraction

import numpy as np
import pytest

from impinge.errors import MeshError, OptionError
from impinge.mesh import shapes
from impinge.mesh.transform import transform_points


def one_by_one(matrix: np.ndarray, points: np.ndarray) -> list[list[float]]:
    """The documented expression in Python floats, which are rounded after each operation."""
    m = matrix.tolist()
    return [[((r[0] * x + r[1] * y) + r[2] * z) + r[3] for r in m[:3]] for x, y, z in points.tolist()]


def fused(matrix: np.ndarray, points: np.ndarray) -> list[list[float]]:
    """The same with fused multiply-add: a product is added before it is rounded."""
    m = matrix.tolist()
    out = []
    for x, y, z in points.tolist():
        row = []
        for r in m[:3]:
            s = float(Fraction(r[0] * x) + Fraction(r[1]) * Fraction(y))
            row.append(float(Fraction(s) + Fraction(r[2]) * Fraction(z)) + r[3])
        out.append(row)
    return out


def random_matrix(rng: np.random.Generator) -> np.ndarray:
    """An affine matrix."""
    matrix = np.eye(4)
    matrix[:3] = rng.normal(size=(3, 4))
    return matrix


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_bits_follow_the_documented_expression(rng, layout):
    """Give the bits of one rounding per operation, on inputs where a fused operation would differ."""
    differs = 0
    for _ in range(20):
        matrix, points = random_matrix(rng), rng.normal(size=(50, 3))
        found = transform_points(layout(matrix), layout(points))

        np.testing.assert_array_equal(found, one_by_one(matrix, points))
        differs += int((found != fused(matrix, points)).sum())
    assert differs > 300


def test_bits_do_not_depend_on_the_number_of_points(rng):
    """Give each point the same bits alone and among others, whatever vector instructions are used."""
    matrix, points = random_matrix(rng), rng.normal(size=(101, 3))
    together = transform_points(matrix, points)

    for n in (1, 2, 3, 7, 64):
        np.testing.assert_array_equal(transform_points(matrix, points[:n]), together[:n])


def test_no_matrix_means_a_copy():
    """Give a copy of the points for None, and for the identity equal numbers."""
    points = np.arange(6.0).reshape(2, 3)
    for matrix in (None, np.eye(4)):
        found = transform_points(matrix, points)
        np.testing.assert_array_equal(found, points)
        assert not np.shares_memory(found, points)


def test_translation_rotation_and_scale():
    """Move columns of the matrix to where the axes and the origin go."""
    matrix = [[0, -2, 0, 10], [2, 0, 0, 20], [0, 0, 2, 30], [0, 0, 0, 1]]

    np.testing.assert_array_equal(
        transform_points(matrix, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        [[10, 20, 30], [10, 22, 30], [8, 20, 30], [10, 20, 32]],
    )


def test_result_feeds_update_without_a_copy(rng):
    """Return contiguous float64, which update can keep without a copy."""
    mesh = shapes.box()
    moved = transform_points(random_matrix(rng), mesh.vertices)
    mesh.update(moved, copy=False)

    assert np.shares_memory(mesh.vertices, moved)
    np.testing.assert_array_equal(mesh.vertices, moved)


def test_no_points_are_valid():
    """Transform no points into no points."""
    assert transform_points(np.eye(4), []).shape == (0, 3)
    assert transform_points(None, np.zeros((0, 3))).shape == (0, 3)


def test_bad_input_is_named():
    """Name the matrix or the points, whichever cannot be used."""
    with pytest.raises(OptionError, match=r"matrix has shape \(3, 3\), expected \(4, 4\)"):
        transform_points(np.eye(3), [[0.0, 0.0, 0.0]])
    with pytest.raises(OptionError, match="affine, not projective"):
        transform_points(np.ones((4, 4)), [[0.0, 0.0, 0.0]])
    with pytest.raises(MeshError, match=r"points have shape \(2,\), expected \(n, 3\)"):
        transform_points(np.eye(4), [0.0, 0.0])
    with pytest.raises(MeshError, match=r"points\[0\] is \[nan, 0, 0\]; all coordinates must be finite$"):
        transform_points(np.eye(4), [[np.nan, 0.0, 0.0]])
