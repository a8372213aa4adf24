"""Points against tets and surfaces, segments against triangles, judged by the rational oracle."""

from __future__ import annotations

import numpy as np
import pytest
from predicates import KIND_NAMES, over_rows, ray_rows, segment_rows, tet_rows

import oracle
from impinge.exact.point_surface import ENTERED, LEFT, ON_SURFACE

pytestmark = [pytest.mark.small, pytest.mark.tiny]


def test_segment_triangle(rng):
    """Agree with the oracle on integer segments and triangles, points and flat triangles included."""
    x = np.concatenate([rng.integers(0, box + 1, (300, 5, 3)) for box in (1, 2, 4)]).astype(np.float64)
    found = [KIND_NAMES[kind] for kind in over_rows(segment_rows, x)]

    assert found == [oracle.segment_triangle_kind(row[:2], row[2:]) for row in x.tolist()]
    assert all(found.count(kind) > 5 for kind in KIND_NAMES.values())


def test_point_in_tet(rng):
    """Agree with the oracle inside, on faces, edges and corners, for either orientation and flat tets."""
    x = np.concatenate([rng.integers(0, box + 1, (300, 5, 3)) for box in (1, 2, 4)]).astype(np.float64)
    x[::7, 0] = x[::7, 1:].mean(axis=1)
    found = over_rows(tet_rows, x)

    assert found == [oracle.point_in_tet(row[0], row[1:]) for row in x.tolist()]
    assert min(found.count(1), found.count(0), found.count(-1)) > 20


def test_ray_parity_of_integer_points_in_an_octahedron():
    """Count crossings right although most rays go through edges and corners."""
    r = 3.0
    x = r * np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    faces = [(a, b, c) for a in (0, 1) for b in (2, 3) for c in (4, 5)]
    grid = np.stack(np.meshgrid(*[np.arange(-4.0, 5.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    rows = np.array([[p, *x[list(face)]] for p in grid for face in faces])
    answers = np.array(over_rows(ray_rows, rows)).reshape(len(grid), len(faces))
    on_surface = (answers == ON_SURFACE).any(axis=1)
    inside = (np.isin(answers, (LEFT, ENTERED)).sum(axis=1) % 2 == 1) & ~on_surface
    size = np.abs(grid).sum(axis=1)

    np.testing.assert_array_equal(on_surface, size == r)
    np.testing.assert_array_equal(inside, size < r)
