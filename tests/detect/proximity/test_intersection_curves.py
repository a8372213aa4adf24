"""Curves in which surfaces cross: their segments, joints and lengths."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import impinge
import oracle
from impinge import Kind, shapes

pytestmark = pytest.mark.small


def crossing_pairs(a, b, **options):
    met = impinge.triangle_pairs(a, b, **options)
    return met.pairs[met.kind == Kind.CROSSING]


def check_joints(curves):
    """Check that loops hold every segment once and hang together, that joints have one place, and flags are right."""
    together = np.concatenate([np.zeros(0, dtype=np.int32), *curves.loops])
    np.testing.assert_array_equal(np.sort(together), np.arange(len(curves)))
    assert len(curves.closed) == len(curves.loops)
    if not len(curves):
        return
    degree = np.bincount(curves.ends.reshape(-1))
    place = np.zeros((len(degree), 3))
    place[curves.ends] = curves.segments
    np.testing.assert_array_equal(place[curves.ends], curves.segments)
    for k, (loop, closed) in enumerate(zip(curves.loops, curves.closed)):
        line = curves.polyline(k)
        assert len(line) == len(loop) + 1
        steps, lengths = np.linalg.norm(np.diff(line, axis=0), axis=1), np.diff(curves.segments[loop], axis=1)[:, 0]
        np.testing.assert_allclose(steps, np.linalg.norm(lengths, axis=1), rtol=1e-12)
        loose = np.flatnonzero(np.bincount(curves.ends[loop].reshape(-1)) == 1)
        assert len(loose) == (0 if closed else 2)
        assert (degree[loose] != 2).all()


def exact_segment(s, t):
    """Both ends of what two triangles have in common, rounded from rational arithmetic."""
    integers = oracle.integer_points((*s, *t))
    kind, corners, simplex = oracle._compare(integers[:3], integers[3:])
    assert kind == "crossing"
    at = [np.array(s)[[integers.index(c) for c in simplex]].T @ (np.array(w, dtype=float) / sum(w)) for w in corners]
    far = max(((np.linalg.norm(p - q), i, j) for i, p in enumerate(at) for j, q in enumerate(at)), key=lambda d: d[0])
    return np.array([at[far[1]], at[far[2]]])


def is_flat(corners):
    """Whether a triangle has no area."""
    return oracle._simplex(oracle.integer_points(corners.tolist()))[1] is None


@pytest.mark.tiny
def test_two_triangles():
    """Give the segment of two triangles where it is known, along the cross product of their normals."""
    a = impinge.TriMesh([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    b = impinge.TriMesh([[1, 1, -1], [1, 1, 1], [1, -5, 0.5]], [[0, 1, 2]])
    curves = impinge.intersection_curves(a, b)

    assert curves.pairs.tolist() == [[0, 0]]
    assert [loop.tolist() for loop in curves.loops] == [[0]]
    assert curves.closed.tolist() == [False]
    np.testing.assert_allclose(np.sort(curves.segments[0], axis=0), [[1, 0, 0], [1, 1, 0]], atol=1e-15)
    normals = [np.cross(x[1] - x[0], x[2] - x[0]) for x in (a.vertices, b.vertices)]
    assert np.dot(np.cross(*normals), curves.segments[0, 1] - curves.segments[0, 0]) > 0.0
    assert curves.length == pytest.approx(1.0)


@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_segments_equal_rational_arithmetic(rng, whole):
    """Have the ends that rational arithmetic gives for every crossing pair of random triangles."""
    pair_count = 0
    for _ in range(60):
        x = rng.integers(0, 5, (2, 24, 3)).astype(float) if whole else rng.random((2, 24, 3))
        a, b = (impinge.TriMesh(side, np.arange(24).reshape(-1, 3)) for side in x)
        curves = impinge.intersection_curves(a, b)
        expected = crossing_pairs(a, b)
        flat = [is_flat(x[0][3 * s : 3 * s + 3]) or is_flat(x[1][3 * t : 3 * t + 3]) for s, t in expected]
        np.testing.assert_array_equal(curves.pairs, expected[~np.array(flat, dtype=bool)])
        assert curves.stats["pairs_without_segment"] == sum(flat)
        check_joints(curves)
        for (s, t), segment in zip(curves.pairs.tolist(), curves.segments):
            right = exact_segment(x[0][3 * s : 3 * s + 3].tolist(), x[1][3 * t : 3 * t + 3].tolist())
            if np.linalg.norm(right[0] - segment[0]) > np.linalg.norm(right[1] - segment[0]):
                right = right[::-1]
            np.testing.assert_allclose(segment, right, atol=1e-9)
        pair_count += len(curves)

    assert pair_count > 300


def test_two_spheres_converge_to_a_circle():
    """Close the curve of two spheres, whose length goes to that of a circle with the square of the edge length."""
    center = np.array([1.1, 0.13, 0.07])
    circle = 2.0 * np.pi * np.sqrt(1.0 - center @ center / 4.0)
    errors = []
    for level in (2, 3, 4, 5):
        a, b = shapes.icosphere(level), shapes.icosphere(level, center=tuple(center))
        curves = impinge.intersection_curves(a, b)
        assert curves.closed.tolist() == [True]
        np.testing.assert_array_equal(curves.pairs, crossing_pairs(a, b))
        check_joints(curves)
        errors.append(circle - curves.length)

    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert (ratios > 3.0).all()
    assert (ratios < 5.0).all()
    assert errors[-1] < 2e-4 * circle


@pytest.mark.parametrize("name", ["bumpy spheres", "knots", "moved boxes"])
def test_curves_of_closed_bodies_close(rng, name):
    """Close every curve of closed bodies in general position, on which nothing only touches."""
    bodies = {
        "bumpy spheres": (shapes.bumpy_sphere(4), shapes.bumpy_sphere(4, center=(1.1, 0.4, 0.2))),
        "knots": (shapes.torus_knot(2, 3, 200, 12), shapes.torus_knot(3, 2, 200, 12)),
        "moved boxes": (shapes.box(), shapes.box(center=(0.31, 0.42, 0.53))),
    }
    a, b = bodies[name]
    a.update(a.vertices + 1e-3 * rng.standard_normal(a.vertices.shape))
    curves = impinge.intersection_curves(a, b)

    assert curves.stats["touching"] == curves.stats["coplanar"] == 0
    assert len(curves.loops) >= 1
    assert curves.closed.all()
    assert (np.bincount(curves.ends.reshape(-1)) == 2).all()
    np.testing.assert_array_equal(curves.pairs, crossing_pairs(a, b))
    check_joints(curves)


def test_joints_are_edge_crossings():
    """Have one joint for each edge that passes through a face, of either body, at the same place."""
    a, b = shapes.bumpy_sphere(3), shapes.bumpy_sphere(3, center=(1.1, 0.4, 0.2))
    curves = impinge.intersection_curves(a, b)
    through_b, through_a = impinge.edge_crossings(a, b), impinge.edge_crossings(b, a)
    places = []
    for crossings, x in ((through_b, a.vertices), (through_a, b.vertices)):
        t = crossings.parameter[:, None]
        places.append((1.0 - t) * x[crossings.edge[:, 0]] + t * x[crossings.edge[:, 1]])

    assert curves.ends.max() + 1 == len(through_a) + len(through_b) == len(curves)
    of_joints = np.unique(curves.segments.reshape(-1, 3), axis=0)
    np.testing.assert_array_equal(of_joints, np.unique(np.concatenate(places), axis=0))


def test_edges_that_cross_edges_are_joined():
    """Join segments through points where an edge meets an edge, and where a corner meets a face.

    Two quads of two triangles each cross at right angles, so that their diagonals meet in a point.
    """
    square = np.array([[0.0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]])
    a = impinge.TriMesh(square, [[0, 1, 2], [0, 2, 3]])
    b = impinge.TriMesh(square[:, [0, 2, 1]] + [0.0, 1.0, -1.0], [[0, 1, 2], [0, 2, 3]])
    curves = impinge.intersection_curves(a, b)

    assert len(curves) == 2
    assert len(curves.loops) == 1
    assert curves.closed.tolist() == [False]
    assert curves.length == pytest.approx(2.0)
    assert [1.0, 1.0, 0.0] in curves.polyline(0).tolist()


def test_borders_open_curves():
    """End a curve where the surface ends: a strip that sticks into a sphere from both sides of its shell."""
    sphere = shapes.icosphere(3)
    strip = impinge.TriMesh([[0.1, 0.02, 0], [3, 0.03, 0.5], [3, 0.01, -0.5]], [[0, 1, 2]])
    curves = impinge.intersection_curves(sphere, strip)

    assert curves.closed.tolist() == [False]
    assert len(curves.loops[0]) == len(curves) > 1
    check_joints(curves)


def test_curves_branch_where_surfaces_do():
    """Cut curves at the point where three sheets that share an edge pass through a face."""
    fan = impinge.TriMesh(
        [[0, 0, -1], [0, 0, 1], [3, 0, 0], [-2, 2, 0], [-2, -2, 0]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
    )
    face = impinge.TriMesh([[-9, -9, 0.1], [9, -9, 0.1], [0, 9, 0.1]], [[0, 1, 2]])
    curves = impinge.intersection_curves(fan, face)

    assert sorted(len(loop) for loop in curves.loops) == [1, 1, 1]
    assert not curves.closed.any()
    assert np.bincount(curves.ends.reshape(-1)).max() == 3
    check_joints(curves)


def test_touching_and_coplanar_pairs_have_no_segment():
    """Leave out pairs that do not cross, and count them."""
    a, b = shapes.box(), shapes.box(center=(1.0, 0.0, 0.0))
    curves = impinge.intersection_curves(a, b)

    assert (len(curves), len(curves.loops), curves.length) == (0, 0, 0.0)
    assert curves.has_gaps
    assert curves.stats["coplanar"] > 0
    assert curves.stats["touching"] > 0


def test_gaps_are_told():
    """Tell whether anything may be missing: where a sphere is cut along a ring of its own edges, no pair crosses."""
    sphere, plane = shapes.icosphere(3), shapes.cloth_grid(10, 10, size=4.0)
    assert impinge.intersection_curves(sphere, plane).has_gaps
    plane.update(plane.vertices + np.array([0.0, 0.0, 0.0123]))
    curves = impinge.intersection_curves(sphere, plane)
    assert not curves.has_gaps
    assert curves.closed.all()
    assert curves.to_dict()["has_gaps"] is False
    assert "bodies" not in curves.to_dict()


def test_soups_have_segments_and_no_joints():
    """Find the segments of unwelded triangles, joined only where their own edges and faces say so."""
    sphere, other = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.13, 0.07))
    soup = impinge.TriMesh(
        sphere.vertices[sphere.faces].reshape(-1, 3), np.arange(3 * len(sphere.faces)).reshape(-1, 3)
    )
    curves, welded = impinge.intersection_curves(soup, other), impinge.intersection_curves(sphere, other)

    assert len(curves) == len(welded)
    assert not curves.closed.any()
    assert curves.length == pytest.approx(welded.length)


def test_results_can_be_pickled():
    """Send curves to another process without the bodies."""
    curves = impinge.intersection_curves(shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.13, 0.07)))
    again = pickle.loads(pickle.dumps(curves))

    np.testing.assert_array_equal(again.segments, curves.segments)
    assert again.bodies == ()


@pytest.mark.tiny
def test_nothing_to_cross():
    """Return no curves for bodies that are apart or empty."""
    a, b, empty = shapes.box(), shapes.box(center=(9.0, 0.0, 0.0)), impinge.TriMesh(np.zeros((0, 3)), [])
    for curves in (impinge.intersection_curves(a, b), impinge.intersection_curves(a, empty)):
        assert not curves
        assert curves.loops == []
        assert curves.to_dict()["segments"] == []


def test_options(rng):
    """Take transforms, active triangles, edits, ignored pairs and a wish to stop."""
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.1, 0.2, 0.1))
    matrix = np.eye(4)
    matrix[:3, :3] += 0.05 * rng.standard_normal((3, 3))
    moved = impinge.TriMesh(impinge.transform_points(matrix, a.vertices), a.faces)
    of_moved = impinge.intersection_curves(moved, b)
    assert impinge.intersection_curves(a, b, transform_a=matrix).segments.tobytes() == of_moved.segments.tobytes()

    pairs = impinge.intersection_curves(a, b).pairs
    without = impinge.intersection_curves(a, b, ignore=pairs[:5])
    np.testing.assert_array_equal(without.pairs, pairs[5:])
    assert not without.closed.any()

    active = np.arange(0, len(b.faces), 2)
    halved = impinge.intersection_curves(a, b, active_b=active)
    b.remove_triangles(np.arange(1, len(b.faces), 2))
    assert halved.segments.tobytes() == impinge.intersection_curves(a, b).segments.tobytes()
    assert 0 < len(halved) < len(pairs)

    stop = threading.Event()
    stop.set()
    assert impinge.intersection_curves(a, b, cancel=stop).reason == "cancelled"
    with pytest.raises(TypeError, match="max_pairs"):
        impinge.intersection_curves(a, b, max_pairs=1)


def test_same_bytes_for_any_number_of_threads():
    """Return the same bits with one thread and with two."""
    a, b = shapes.bumpy_sphere(5), shapes.bumpy_sphere(5, center=(1.1, 0.4, 0.2))
    answers = []
    for count in (1, 2):
        impinge.set_threads(count)
        curves = impinge.intersection_curves(a, b)
        answers.append([curves.segments.tobytes(), curves.ends.tobytes(), *(loop.tobytes() for loop in curves.loops)])

    assert len(curves) > 500
    assert answers[0] == answers[1]
