"""Nearest points of a surface, against brute force and against rational arithmetic."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import impinge
import shared_data
from distance_judge import root, square_of_segments, square_to_triangle
from impinge import shapes
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle
from impinge.errors import MeshError

pytestmark = pytest.mark.small


# Judges -----------------------------------------------------------------------------------------------


def by_brute_force(points, x, faces, ids):
    """Distance and triangle of each point: the least, the lowest id of several."""
    triangles = [(i, tuple(tuple(row) for row in x[faces[i]].tolist())) for i in ids]
    found = [min((closest_on_triangle(tuple(p), *t)[3], i) for i, t in triangles) for p in points.tolist()]
    return np.sqrt([square for square, _ in found]), np.array([i for _, i in found])


def soup(rng, count, scale=1.0):
    """Triangles of which a third has no area, and some are there twice."""
    x = rng.normal(size=(count, 3, 3)) * np.array([1.0, 0.5, 0.2]) + rng.normal(size=(count, 1, 3))
    x[::6, 2] = x[::6, 1]
    x[1::6, 2] = 0.5 * (x[1::6, 0] + x[1::6, 1])
    x[2::6] = x[3::6][: len(x[2::6])]
    return impinge.TriMesh(scale * x.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def points_around(rng, body, count):
    """Points anywhere, on vertices, on edges and on faces."""
    corners = body.vertices[body.faces[rng.integers(len(body.faces), size=count)]]
    weights = rng.dirichlet([1.0, 1.0, 1.0], size=count)
    kind = np.arange(count) % 4
    weights[kind == 1] = [1.0, 0.0, 0.0]
    weights[kind == 2] = [0.5, 0.5, 0.0]
    points = (weights[:, :, None] * corners).sum(axis=1)
    size = np.ptp(body.vertices, axis=0).max()
    points[kind == 0] += size * rng.normal(size=(len(points[kind == 0]), 3))
    return points


def assert_consistent(result, points, x, faces):
    """Check that point, weights, triangle and distance belong together."""
    size = np.abs(x).max() + np.abs(points).max()
    weighted = (result.barycentric[:, :, None] * x[faces[result.triangle]]).sum(axis=1)
    np.testing.assert_allclose(result.point, weighted, rtol=0.0, atol=4e-16 * size)
    np.testing.assert_allclose(
        result.distance, np.linalg.norm(points - result.point, axis=1), rtol=1e-14, atol=4e-15 * size
    )
    assert (result.barycentric >= 0.0).all()
    np.testing.assert_allclose(result.barycentric.sum(axis=1), 1.0, rtol=1e-15)


# Features ---------------------------------------------------------------------------------------------


def test_point_and_triangle_against_fractions(rng):
    """Be within a few roundings of the exact distance, however thin the triangle and however near the point."""
    inner = 0
    for case in range(1500):
        thin, near = 10.0 ** -rng.integers(0, 17, size=2)
        a, b = rng.normal(size=(2, 3))
        triangle = np.roll([a, b, a + (b - a) * rng.random() + thin * rng.normal(size=3)], case, axis=0)
        p = rng.dirichlet([1.0, 1.0, 1.0]) @ triangle + near * rng.normal(size=3)
        *weights, square = closest_on_triangle(tuple(p), *map(tuple, triangle))
        exact = root(square_to_triangle(p, *triangle))
        reach = np.linalg.norm(triangle - p, axis=1).max()
        assert abs(np.sqrt(square) - exact) <= (1e-14 if thin > 1e-12 else 1e-13) * reach
        assert min(weights) >= 0.0
        inner += min(weights) > 0.0
    assert 0.1 < inner / 1500 < 0.9


@pytest.mark.medium
def test_two_segments_against_fractions(rng):
    """Be within a few roundings of the exact distance of crossing, parallel, collapsed and whole-numbered segments."""
    inner = 0
    for case in range(3000):
        angle, near = 10.0 ** -rng.integers(0, 17, size=2)
        a, b = rng.normal(size=(2, 3))
        along = (b - a) * rng.uniform(0.1, 2.0) + angle * rng.normal(size=3)
        middle = a + rng.random() * (b - a) + near * rng.normal(size=3)
        c, d = middle - rng.random() * along, middle + rng.random() * along
        if case % 5 == 0:
            a, b, c, d = rng.integers(-2, 3, size=(4, 3)).astype(float)
        if case % 17 == 0:
            d = c
        s, t, square = closest_on_segments(tuple(a), tuple(b), tuple(c), tuple(d))
        reach = max(np.linalg.norm(p - q) for p in (a, b) for q in (c, d))
        error = abs(np.sqrt(square) - root(square_of_segments(a, b, c, d)))
        assert error <= (1e-14 if angle > 1e-12 else 5e-14) * reach, (case, angle)
        np.testing.assert_allclose(
            np.linalg.norm(a + s * (b - a) - c - t * (d - c)), np.sqrt(square), atol=1e-14 * reach
        )
        assert 0.0 <= s <= 1.0
        assert 0.0 <= t <= 1.0
        inner += 0.0 < s < 1.0 and 0.0 < t < 1.0
    assert 0.2 < inner / 3000 < 0.9


def test_two_segments_in_either_order(rng):
    """Give the same bits whichever segment comes first, and the same but for roundings if ends change places."""
    for case in range(500):
        a, b, c, d = rng.integers(-2, 3, size=(4, 3)).astype(float) if case % 3 == 0 else rng.normal(size=(4, 3))
        if case % 4 == 0:
            d = c + (b - a) * rng.normal() + 10.0 ** -rng.integers(1, 16) * rng.normal(size=3)
        a, b, c, d = (tuple(p.tolist()) for p in (a, b, c, d))
        square = closest_on_segments(a, b, c, d)[2]
        assert closest_on_segments(c, d, a, b)[2] == square
        for turned in ((b, a, c, d), (a, b, d, c), (d, c, b, a)):
            np.testing.assert_allclose(np.sqrt(closest_on_segments(*turned)[2]), np.sqrt(square), rtol=0.0, atol=1e-13)


# The search -------------------------------------------------------------------------------------------


@pytest.mark.tiny
@pytest.mark.parametrize("count", [1, 2, 9, 70])
def test_small_soups_against_all_triangles(rng, count):
    """Find the distance and the triangle of brute force, bit for bit."""
    body = soup(rng, count)
    points = points_around(rng, body, 24)
    result = impinge.closest_points(body, points, inside=False)
    distance, triangle = by_brute_force(points, body.vertices, body.faces, range(count))

    np.testing.assert_array_equal(result.triangle, triangle)
    np.testing.assert_array_equal(result.distance, distance)
    assert_consistent(result, points, body.vertices, body.faces)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e-8, 1.0, 1e8, 1e30, 1e200])
def test_any_scale_against_all_triangles(rng, scale):
    """Give the same answer at any scale, to which squares of coordinates may not fit into a number."""
    unit = 2.0 ** np.round(np.log2(scale))
    body = soup(rng, 150)
    points = points_around(rng, body, 200)
    distance, triangle = by_brute_force(points, body.vertices, body.faces, range(150))
    result = impinge.closest_points((unit * body.vertices, body.faces), unit * points, inside=False)

    np.testing.assert_array_equal(result.triangle, triangle)
    np.testing.assert_array_equal(result.distance, unit * distance)
    assert 0.3 < (distance < 1e-12).mean() < 0.9
    assert len(np.unique(triangle)) > 50


def test_far_from_the_origin(rng):
    """Answer about a body 1e6 away, and from points 1e6 away from a body."""
    body = soup(rng, 150)
    x = body.vertices + np.array([1e6, -1e6, 1e6])
    points = points_around(rng, body, 200)
    for moved, queried in ((x, points + np.array([1e6, -1e6, 1e6])), (body.vertices, 1e6 * points)):
        result = impinge.closest_points((moved, body.faces), queried, inside=False)
        distance, triangle = by_brute_force(queried, moved, body.faces, range(150))
        np.testing.assert_array_equal(result.triangle, triangle)
        np.testing.assert_array_equal(result.distance, distance)


@pytest.mark.parametrize("far", [1e20, 1e60, 1e100, 1e200, 1e300])
@pytest.mark.parametrize("unit", [2.0**-660, 2.0**-130, 1.0, 2.0**130])
def test_far_points_change_no_answer_of_others(rng, unit, far):
    """Give the other points the bits that they have alone, and far ones a distance that is right to a rounding."""
    body = shapes.bumpy_sphere(2)
    body.update(unit * body.vertices)
    points = unit * rng.uniform(-0.9, 0.9, (40, 3))
    alone = impinge.closest_points(body, points)
    away = np.array([[far, 0.0, 0.0], [0.0, -0.5 * far, 0.5 * far]]) * (unit if far * unit < 1e300 else 1.0)
    mixed = impinge.closest_points(body, np.concatenate([points[:7], away[:1], points[7:], away[1:]]))
    others = np.delete(np.arange(42), [7, 41])

    for name in ("distance", "point", "triangle", "barycentric", "inside"):
        np.testing.assert_array_equal(getattr(mixed, name)[others], getattr(alone, name))
    np.testing.assert_allclose(mixed.distance[[7, 41]], np.array([1.0, np.sqrt(0.5)]) * away[0, 0], rtol=1e-15)
    assert not mixed.inside[[7, 41]].any()
    assert (mixed.triangle >= 0).all()
    assert 0.1 < alone.inside.mean() < 0.9


def test_thousands_of_points_on_a_deforming_body(rng):
    """Follow a body from frame to frame, with points in an order and number that the search shares out."""
    body = shapes.bumpy_sphere(2)
    for frame in range(3):
        body.update(body.vertices + 0.05 * rng.normal(size=body.vertices.shape))
        points = points_around(rng, body, 1500)
        result = impinge.closest_points(body, points)
        distance, triangle = by_brute_force(points[:300], body.vertices, body.faces, range(len(body.faces)))
        np.testing.assert_array_equal(result.triangle[:300], triangle, err_msg=f"frame {frame}")
        np.testing.assert_array_equal(result.distance[:300], distance)
        assert_consistent(result, points, body.vertices, body.faces)


def test_sample_against_fractions(rng):
    """Stay within the stated error of the exact distance."""
    body = soup(rng, 60)
    points = points_around(rng, body, 40)
    result = impinge.closest_points(body, points, inside=False)
    corners = body.vertices[body.faces]
    exact = [min(square_to_triangle(p, *triangle) for triangle in corners) for p in points]

    np.testing.assert_allclose(result.distance, [root(square) for square in exact], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e25])
def test_within_a_distance_answers_are_the_same(rng, scale):
    """Answer as without a bound for points within it, its value included; give the others no answer."""
    body = soup(rng, 300, scale)
    points = scale * 2.0 * rng.normal(size=(500, 3))
    whole = impinge.closest_points(body, points, inside=False)
    bound = float(np.sort(whole.distance)[200])
    found = impinge.closest_points(body, points, inside=False, within=bound)
    near = whole.distance <= bound

    assert near.sum() == 201
    np.testing.assert_array_equal(found.distance, np.where(near, whole.distance, np.inf))
    np.testing.assert_array_equal(found.triangle, np.where(near, whole.triangle, -1))
    np.testing.assert_array_equal(found.point[near], whole.point[near])
    assert np.isnan(found.point[~near]).all()
    assert np.isnan(found.barycentric[~near]).all()
    assert (impinge.closest_points(body, points, inside=False, within=np.inf).triangle == whole.triangle).all()


@pytest.mark.parametrize("within", [-1.0, np.nan, "far", True])
def test_a_bound_must_be_a_distance(within):
    """Name the bound and what it may be."""
    with pytest.raises(impinge.OptionError, match=r"within is .*, expected a number from 0, or None"):
        impinge.closest_points(shapes.box(1.0), np.zeros((1, 3)), within=within)


def test_ties_go_to_the_lowest_id():
    """Answer with the lowest id of triangles whose computed distances are equal, whatever their order.

    Beside a vertex or an edge that sticks out, all triangles around it have that distance.
    """
    body = shapes.icosphere(3)
    order = np.random.default_rng(5).permutation(len(body.faces))
    faces = body.faces[order]
    sides = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    on_vertex = impinge.closest_points((body.vertices, faces), 1.5 * body.vertices, inside=False)
    middle = 0.5 * (body.vertices[sides[:, 0]] + body.vertices[sides[:, 1]])
    on_edge = impinge.closest_points((body.vertices, faces), 1.2 * middle, inside=False)

    first_of_vertex = [np.flatnonzero((faces == v).any(axis=1))[0] for v in range(len(body.vertices))]
    np.testing.assert_array_equal(on_vertex.triangle, first_of_vertex)
    np.testing.assert_array_equal(on_vertex.point, body.vertices)
    of_edge = [np.flatnonzero(np.isin(faces, side).sum(axis=1) == 2)[0] for side in sides]
    np.testing.assert_array_equal(on_edge.triangle, of_edge)
    np.testing.assert_allclose(on_edge.point, middle, atol=1e-15)


def test_transforms_and_active_triangles(rng):
    """See the body where the transform puts it, and only its active triangles, by ids or by mask."""
    body = shapes.bumpy_sphere(2)
    points = rng.normal(size=(200, 3))
    active = rng.choice(len(body.faces), 25, replace=False)
    mask = np.zeros(len(body.faces), dtype=bool)
    mask[active] = True
    matrix = np.eye(4)
    matrix[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    matrix[:3, 3] = [0.3, -0.2, 0.5]
    moved = impinge.transform_points(matrix, body.vertices)

    result = impinge.closest_points(body, points, transform_a=matrix, active_a=active)
    distance, triangle = by_brute_force(points, moved, body.faces, active.tolist())
    np.testing.assert_array_equal(result.triangle, triangle)
    np.testing.assert_array_equal(result.distance, distance)
    assert not result.inside.any()
    np.testing.assert_array_equal(
        impinge.closest_points(body, points, transform_a=matrix, active_a=mask).distance, distance
    )
    whole = impinge.closest_points(body, points, transform_a=matrix)
    again = impinge.closest_points((moved, body.faces), points)
    np.testing.assert_array_equal(whole.point, again.point)
    np.testing.assert_array_equal(whole.inside, again.inside)
    assert 0.1 < whole.inside.mean() < 0.9


def test_edits_are_followed(rng):
    """Forget removed triangles and see added ones."""
    body = shapes.icosphere(2)
    points = 1.2 * body.vertices
    nearest = np.unique(impinge.closest_points(body, points).triangle)
    body.remove_triangles(nearest[:20])
    added = body.add_triangles([[0, 1, 2]], vertices=3.0 + rng.random((3, 3)))
    result = impinge.closest_points(body, np.concatenate([points, [[3.5, 3.5, 3.5]]]))

    assert not np.isin(result.triangle, nearest[:20]).any()
    assert not np.isin(added, result.triangle[:-1]).any()
    live = np.flatnonzero(body.alive).tolist()
    np.testing.assert_array_equal(
        result.triangle, by_brute_force(np.vstack([points, [[3.5] * 3]]), body.vertices, body.faces, live)[1]
    )


@pytest.mark.tiny
def test_nothing_to_find():
    """Answer with infinity where there is no triangle, and with nothing where there is no point."""
    empty = impinge.TriMesh([], [])
    result = impinge.closest_points(empty, [[0.0, 0.0, 0.0]])
    assert result.distance[0] == np.inf
    assert result.triangle[0] == -1
    assert np.isnan(result.point).all()
    assert np.isnan(result.barycentric).all()
    assert not result.inside.any()

    none_active = impinge.closest_points(empty, [[0.0, 0.0, 0.0]], active_a=[])
    assert none_active.triangle[0] == -1
    assert not none_active.inside.any()
    none_active = impinge.closest_points(shapes.box(1.0), [[0.0, 0.0, 0.0]], active_a=[])
    assert none_active.triangle[0] == -1
    assert len(impinge.closest_points(shapes.box(1.0), [])) == 0
    assert len(impinge.closest_points(empty, np.zeros((0, 3)))) == 0


def test_cancelled_query_says_so():
    """Say that the result is not complete, and leave the points without an answer."""
    cancel = threading.Event()
    cancel.set()
    result = impinge.closest_points(shapes.box(1.0), np.zeros((5, 3)), cancel=cancel)

    assert not result.complete
    assert result.reason == "cancelled"
    assert (result.triangle == -1).all()
    assert result.inside is None


def test_changes_are_of_points():
    """Report points whose nearest triangle changed, by point and triangle, not by triangle alone."""
    body, above, below = shapes.box(1.0), [0.1, 0.2, 3.0], [0.1, 0.2, -3.0]
    first, second = impinge.closest_points(body, [above, below]), impinge.closest_points(body, [below, above])
    top, bottom = first.triangle

    assert len(second.changes(second).persisting) == 2
    changes = second.changes(first)
    assert changes.entered.tolist() == [[0, bottom], [1, top]]
    assert changes.left.tolist() == [[0, top], [1, bottom]]
    assert len(changes.persisting) == 0


def test_nonsense_is_refused():
    """Refuse options of other queries and points that are none."""
    body = shapes.box(1.0)
    with pytest.raises(TypeError, match="transform_b"):
        impinge.closest_points(body, np.zeros((1, 3)), transform_b=np.eye(4))
    with pytest.raises(MeshError, match=r"points have shape \(1, 2\)"):
        impinge.closest_points(body, [[0.0, 0.0]])
    with pytest.raises(MeshError, match="must be finite"):
        impinge.closest_points(body, [[0.0, 0.0, np.nan]])


THREADS = """
import hashlib, numpy as np, impinge
from impinge import shapes
body, inner, outer = shapes.bumpy_sphere(4), shapes.icosphere(3), shapes.icosphere(3, radius=1.1)
points = np.random.default_rng(1).normal(size=(20_000, 3))
digests = []
for threads in (1, 2, 4):
    impinge.set_threads(threads)
    result = impinge.closest_points(body, points)
    apart = impinge.distance(inner, outer)
    assert apart.stats["parts"] > 1, "no work for threads"
    parts = [result.distance, result.triangle, result.point, result.barycentric, result.inside, apart.triangles]
    parts += [np.array(apart.distance), apart.point_a, apart.point_b]
    digests.append(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
assert len(set(digests)) == 1, digests
"""


@pytest.mark.medium
def test_same_bits_for_any_number_of_threads():
    """Give the same bits on one, two and four threads."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4"}
    ended = subprocess.run(
        [sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, timeout=1800
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.medium
@shared_data.needs_data
@pytest.mark.parametrize("file", ["closed/bunny_75k.off", "cad/cheese.off", "open/tableCloth.obj"])
def test_real_meshes_against_libigl(rng, file):
    """Agree with libigl's tree on scans, CAD parts and cloth."""
    igl = pytest.importorskip("igl", reason="libigl is not installed")
    body = impinge.load(shared_data.FOLDER / file)
    low, high = body.vertices.min(axis=0), body.vertices.max(axis=0)
    points = low + (high - low) * rng.uniform(-0.2, 1.2, size=(500, 3))
    result = impinge.closest_points(body, points, inside=False)
    square = igl.point_mesh_squared_distance(points, np.array(body.vertices), body.faces.astype(np.int64))[0]

    np.testing.assert_allclose(result.distance, np.sqrt(square), rtol=1e-9, atol=1e-12 * np.ptp(body.vertices))


@pytest.mark.parametrize("body", [shapes.bumpy_sphere(3), shapes.cloth_grid(20, 20)], ids=["sphere", "cloth"])
def test_agrees_with_trimesh(rng, body):
    """Agree with trimesh on distances and nearest points, away from the surface and on it."""
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed")
    pytest.importorskip("rtree", reason="rtree is not installed")
    body.update(body.vertices + 1e-3 * rng.normal(size=body.vertices.shape))
    points = np.concatenate([points_around(rng, body, 200), rng.uniform(-0.8, 0.8, (200, 3))])
    mesh = trimesh.Trimesh(body.vertices, body.faces, process=False, validate=False)
    nearest, distance, _ = trimesh.proximity.closest_point(mesh, points)
    result = impinge.closest_points(body, points)

    np.testing.assert_allclose(result.distance, distance, rtol=1e-7, atol=1e-9)
    apart = np.linalg.norm(result.point - nearest, axis=1)
    assert (apart < 1e-6).mean() > 0.98, "but for points that are equally near to two places"
    if mesh.is_watertight:
        off = result.distance > 1e-9
        np.testing.assert_array_equal(result.inside[off], mesh.contains(points[off]))
        assert 0.1 < result.inside[off].mean() < 0.9
