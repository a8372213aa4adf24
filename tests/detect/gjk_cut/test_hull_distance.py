"""Distances of convex hulls: known answers, FCL, Coal, and inputs with degenerate simplices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import impinge
from impinge import shapes
from impinge.detect.gjk_cut.hull_distance import hull_distance
from impinge.errors import MeshError, OptionError

pytestmark = pytest.mark.small


def rotation(rng):
    q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return q * np.sign(np.linalg.det(q))


def assert_consistent(result, a, b):
    """Points as far apart as the distance says, and a direction that separates the clouds by it."""
    size = max(np.abs(a).max(), np.abs(b).max())
    gap = np.linalg.norm(result.point_b - result.point_a)
    np.testing.assert_allclose(gap, result.distance, atol=1e-12 * size)
    apart = (b @ result.direction).min() - (a @ result.direction).max()
    if result.distance > 0.0:
        np.testing.assert_allclose(apart, result.distance, rtol=1e-7, atol=1e-12 * size)
        assert result.penetration == 0.0
    else:
        np.testing.assert_allclose(-apart, result.penetration, atol=1e-12 * size)


def exact_distance(a, b):
    """Least squares with weights that are not negative: another way to the nearest points of two hulls."""
    big = 1e4 * max(np.abs(a).max(), np.abs(b).max(), 1.0)
    ones = big * np.repeat(np.eye(2), [len(a), len(b)], axis=1)
    weights, _ = nnls(np.vstack([np.hstack([a.T, -b.T]), ones]), np.array([0.0, 0.0, 0.0, big, big]), maxiter=10_000)
    return np.linalg.norm(weights[: len(a)] @ a - weights[len(a) :] @ b)


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("shift", "distance", "penetration"),
    [((3, 0, 0), 1.0, 0.0), ((2, 0, 0), 0.0, 0.0), ((1.5, 0.2, 0.1), 0.0, 0.5), ((3, 3, 0), 2**0.5, 0.0),
     ((3, 3, 3), 3**0.5, 0.0), ((0, 0, 0), 0.0, 2.0)],
)  # fmt: skip
def test_two_boxes(shift, distance, penetration):
    """Match hand-computed boxes: face to face, edge to edge, corner to corner, touching and overlapping."""
    a, b = shapes.box(2.0), shapes.box(2.0, center=shift)
    result = hull_distance(a, b)

    np.testing.assert_allclose(result.distance, distance, rtol=1e-14)
    np.testing.assert_allclose(result.penetration, penetration, atol=1e-12)
    assert bool(result) == (distance == 0.0)
    assert_consistent(result, np.array(a.vertices), np.array(b.vertices))


def test_against_fcl(rng):
    """Agree with FCL on the distance of convex meshes and on intersection (its depth is not the least one)."""
    import fcl

    met = 0
    for k in range(60):
        body = shapes.box((1.0, 2.0, 0.5)) if k % 2 else shapes.icosphere(1)
        points = [np.array(body.vertices) @ rotation(rng).T, np.array(shapes.icosphere(1).vertices)]
        points[1] = 0.7 * points[1] @ rotation(rng).T + 1.4 * rng.standard_normal(3)
        faces = [body.faces, shapes.icosphere(1).faces]
        rows = [np.column_stack([np.full(len(f), 3), f]).reshape(-1) for f in faces]
        objects = [fcl.CollisionObject(fcl.Convex(x, len(f), r)) for x, f, r in zip(points, faces, rows)]
        request, found = fcl.DistanceRequest(enable_nearest_points=True), fcl.DistanceResult()
        theirs = fcl.distance(*objects, request, found)
        ours = hull_distance(*points)
        assert_consistent(ours, *points)
        if ours.distance > 0.0:
            np.testing.assert_allclose(ours.distance, theirs, rtol=1e-5, atol=1e-5)
        else:
            met += 1
            contacts = fcl.CollisionResult()
            fcl.collide(*objects, fcl.CollisionRequest(num_max_contacts=1, enable_contact=True), contacts)
            assert contacts.is_collision

    assert 10 < met < 50


def test_against_coal(rng):
    """Agree with Coal on the distance of convex hulls, and on the penetration where it reports one."""
    coal = pytest.importorskip("coal")
    met = 0
    for _ in range(40):
        points = [rng.standard_normal((30, 3)), rng.standard_normal((20, 3)) + 2.5 * rng.standard_normal(3)]
        hulls = []
        for x in points:
            vectors = coal.StdVec_Vec3s()
            for p in x:
                vectors.append(p)
            hulls.append(coal.Convex.convexHull(vectors, False, ""))
        result = coal.DistanceResult()
        theirs = coal.distance(
            hulls[0], coal.Transform3s(), hulls[1], coal.Transform3s(), coal.DistanceRequest(), result
        )
        ours = hull_distance(*points)
        assert_consistent(ours, *points)
        if theirs > 0.0:
            np.testing.assert_allclose(ours.distance, theirs, rtol=1e-6, atol=1e-6)
        else:
            met += 1
            assert ours.distance == 0.0
            assert ours.penetration >= -theirs - 1e-6

    assert 3 < met < 37


def test_against_least_squares(rng):
    """Agree with non-negative least squares on random clouds, near and far."""
    apart = 0
    for _ in range(100):
        a, b = rng.random((8, 3)), rng.random((6, 3)) + rng.random(3) * 1.5
        ours = hull_distance(a, b)
        assert_consistent(ours, a, b)
        np.testing.assert_allclose(ours.distance, exact_distance(a, b), atol=1e-6)
        apart += ours.distance > 0.0

    assert 20 < apart < 99


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=8),
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=8),
)
def test_integer_clouds(a, b):
    """Be exact on small integers: points, segments, flat hulls, coincident points."""
    a, b = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    ours = hull_distance(a, b)

    assert_consistent(ours, a, b)
    np.testing.assert_allclose(ours.distance, exact_distance(a, b), atol=1e-6)
    np.testing.assert_allclose(hull_distance(b, a).distance, ours.distance, atol=1e-13)


@pytest.mark.tiny
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-8, 1.0, 1e8, 1e150, 5e307])
def test_any_scale(rng, scale):
    """Scale with the input, from 1e-300 to the largest doubles."""
    a, b = rng.random((20, 3)), rng.random((20, 3)) + 1.5
    one, scaled = hull_distance(a, b), hull_distance(scale * a, scale * b)

    np.testing.assert_allclose(scaled.distance, scale * one.distance, rtol=1e-12)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
def test_plates_close_to_each_other(rng, gap):
    """Find the gap and the direction of plates that all but touch, in a few steps, despite cancellation."""
    for _ in range(40):
        q = rotation(rng)
        plates = [np.column_stack([rng.standard_normal((9, 2)), np.full(9, z)]) @ q.T for z in (0.0, gap)]
        result = hull_distance(*plates)
        apart = (plates[1] @ result.direction).min() - (plates[0] @ result.direction).max()
        np.testing.assert_allclose(apart, result.distance, rtol=0.0, atol=1e-14)
        assert result.distance > 0.0
        assert result.iterations < 32
        if hull_distance(plates[0], plates[1] - gap * q[:, 2]).distance == 0.0:  # they overlap in their plane
            np.testing.assert_allclose(result.distance, gap, rtol=0.0, atol=1e-14)


@pytest.mark.tiny
def test_points_lines_and_far_away():
    """Terminate on a point against itself, collinear clouds, thousands of equal points and far-away hulls."""
    line = np.outer(np.linspace(0.0, 1.0, 50), (1.0, 2.0, 3.0))
    assert hull_distance([[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]).distance == 0.0
    assert hull_distance(line, line).distance == 0.0
    assert hull_distance(np.ones((1000, 3)), np.ones((5, 3))).distance == 0.0
    np.testing.assert_allclose(hull_distance(line, line + np.array((0, 3, -2))).distance, 13**0.5, rtol=1e-12)
    offset = np.array((1e6, -1e6, 1e6))
    np.testing.assert_allclose(
        hull_distance(line + offset, line + offset + np.array((0, 3, -2))).distance, 13**0.5, rtol=1e-9
    )


def test_bodies_and_dead_triangles():
    """Take the vertices of live triangles only, of any kind of body."""
    a, b = shapes.box(2.0), shapes.box(2.0, center=(5.0, 0.0, 0.0))
    tets = shapes.tet_box(1, 1, 1)
    both = impinge.TriMesh(np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + 8]))

    assert hull_distance(both, [[0.0, 0.0, 0.0]]).distance == 0.0
    both.remove_triangles(np.arange(12))
    np.testing.assert_allclose(hull_distance(both, [[0.0, 0.0, 0.0]]).distance, 4.0)
    assert hull_distance(tets, tets).penetration > 0.0


def test_bad_clouds():
    """Refuse invalid clouds with one sentence."""
    with pytest.raises(MeshError, match="b has no points"):
        hull_distance([[0.0, 0.0, 0.0]], np.zeros((0, 3)))
    with pytest.raises(MeshError, match=r"a have shape \(4, 2\), expected \(n, 3\)"):
        hull_distance(np.zeros((4, 2)), np.zeros((1, 3)))
    one = hull_distance([[0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]])
    with pytest.raises(OptionError, match="a distance has no rows"):
        one.changes(one)
    assert one.to_dict()["distance"] == 1.0
    assert len(one) == 1
