"""The distance of two surfaces, against brute force."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import impinge
import shared_data
from cancel_after import CancelAfter
from distance_judge import root, square_of_triangles
from impinge import shapes
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.detect.proximity.distance_kernels import closest_on_triangles
from impinge.errors import MeshError, OptionError

pytestmark = pytest.mark.small


def corners(x, faces, i):
    return tuple(tuple(row) for row in x[faces[i]].tolist())


def by_looking_at_all(a, b, ids_a=None, ids_b=None, ignore=()):
    """Least squared distance and its pair, the lowest of several, of bodies that do not meet."""
    ids_a = range(len(a.faces)) if ids_a is None else ids_a
    ids_b = range(len(b.faces)) if ids_b is None else ids_b
    tri_a = [(i, corners(a.vertices, a.faces, i), tuple(a.faces[i])) for i in ids_a]
    tri_b = [(j, corners(b.vertices, b.faces, j), tuple(b.faces[j])) for j in ids_b]
    return min(
        (closest_on_triangles(s, f, t, g)[0], i, j) for i, s, f in tri_a for j, t, g in tri_b if (i, j) not in ignore
    )


def soup(rng, count, center):
    """Small triangles around a centre, some of them without an area."""
    x = 0.4 * rng.normal(size=(count, 3, 3)) + 0.8 * rng.normal(size=(count, 1, 3)) + center
    x[::5, 2] = x[::5, 1]
    return impinge.TriMesh(x.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


@pytest.mark.tiny
def test_two_triangles_known_by_hand():
    """Measure corners to faces, edges to edges, and edges through faces."""
    flat = impinge.TriMesh([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    above = impinge.TriMesh([[1, 1, 2], [1, 1, 5], [2, 1, 5]], [[0, 1, 2]])
    beside = impinge.TriMesh([[2, -3, -1], [2, -3, 1], [2, -5, 0]], [[0, 1, 2]])
    through = impinge.TriMesh([[1, 1, -1], [1, 1, 1], [1.5, 1, 2]], [[0, 1, 2]])

    r = impinge.distance(flat, above)
    assert r.distance == 2.0
    np.testing.assert_array_equal(r.point_a, [1, 1, 0])
    np.testing.assert_array_equal(r.point_b, [1, 1, 2])
    np.testing.assert_array_equal(r.triangles, [0, 0])
    r = impinge.distance(flat, beside)
    assert r.distance == 3.0
    np.testing.assert_array_equal(r.point_a, [2, 0, 0])
    np.testing.assert_array_equal(r.point_b, [2, -3, 0])
    r = impinge.distance(flat, through)
    assert r.distance == 0.0
    assert bool(r)
    np.testing.assert_allclose(r.point_a, [1, 1, 0], atol=1e-15)
    np.testing.assert_allclose(r.point_b, [1, 1, 0], atol=1e-15)


def test_soups_against_all_pairs(rng):
    """Find the pair that brute force finds, and 0 exactly where a pair meets."""
    met = 0
    for case in range(60):
        a, b = soup(rng, 30, (0, 0, 0)), soup(rng, 30, (rng.uniform(0.5, 5.0), 0, 0))
        meets = impinge.BoxTree(a, b).any_pair()
        r = impinge.distance(a, b)
        assert (r.distance == 0.0) == meets
        met += meets
        if meets:
            np.testing.assert_array_equal(r.triangles, impinge.triangle_pairs(a, b).pairs[0])
            np.testing.assert_allclose(r.point_a, r.point_b, atol=1e-13)
        else:
            square, i, j = by_looking_at_all(a, b)
            np.testing.assert_array_equal(r.triangles, [i, j], err_msg=f"case {case}")
            assert r.distance == np.sqrt(square)
            np.testing.assert_allclose(np.linalg.norm(r.point_a - r.point_b), r.distance, atol=1e-14)
    assert 0.2 < met / 60 < 0.8


@pytest.mark.medium
@pytest.mark.parametrize("whole", [False, True], ids=["generic", "whole numbers"])
def test_pairs_of_triangles_against_fractions(rng, whole):
    """Stay within a few roundings of the distance in fractions, of thin, parallel and whole-numbered triangles too."""
    apart = 0
    for case in range(400):
        s, t = rng.integers(-2, 3, size=(2, 3, 3)).astype(float) if whole else rng.normal(size=(2, 3, 3))
        t = t + np.array([rng.integers(0, 5), 0.0, 0.0])
        if case % 3 == 0 and not whole:
            s[2] = s[0] + (s[1] - s[0]) * rng.random() + 10.0 ** -rng.integers(3, 17) * rng.normal(size=3)
        if case % 4 == 0 and not whole:
            along = (s[1] - s[0]) + 10.0 ** -rng.integers(2, 16) * rng.normal(size=3)
            t[:2] = 0.5 * (s[0] + s[1]) + 1e-7 * rng.normal(size=3) + np.array([[-0.6], [0.7]]) * along
        r = impinge.distance((s, [[0, 1, 2]]), (t, [[0, 1, 2]]))
        if r.distance > 0.0:
            reach = np.linalg.norm(s[:, None] - t[None], axis=2).max()
            np.testing.assert_allclose(r.distance, root(square_of_triangles(s, t)), rtol=0.0, atol=5e-14 * reach)
            assert impinge.distance((t, [[0, 1, 2]]), (s, [[0, 1, 2]])).distance == r.distance
        apart += r.distance > 0.0
    assert 0.4 < apart / 400 < 0.95


@pytest.mark.medium
def test_nearly_parallel_edges_against_fractions(rng):
    """Find the least distance of edges that pass each other at an angle of down to 1e-14, within a few roundings."""
    for case in range(200):
        a, b = rng.normal(size=(2, 3))
        along = (b - a) + 10.0 ** -(1 + case % 14) * rng.normal(size=3)
        normal = np.cross(b - a, along)
        normal /= np.linalg.norm(normal)
        middle = a + rng.uniform(0.2, 0.8) * (b - a) + 1e-9 * normal
        c, d = middle - rng.uniform(0.1, 1.0) * along, middle + rng.uniform(0.1, 1.0) * along
        s, t = np.stack([a, b, 0.5 * (a + b) - 3.0 * normal]), np.stack([c, d, 0.5 * (c + d) + 3.0 * normal])
        r = impinge.distance((s, [[0, 1, 2]]), (t, [[0, 1, 2]]))
        if r.distance > 0.0:
            np.testing.assert_allclose(r.distance, root(square_of_triangles(s, t)), rtol=0.0, atol=1e-13)


@pytest.mark.medium
def test_soups_against_fractions(rng):
    """Find the least of all distances in fractions, on whole numbers too, where many are equal."""
    for case in range(12):
        a, b = soup(rng, 8, (0, 0, 0)), soup(rng, 8, (4, 0, 0))
        if case % 2:
            a, b = (impinge.TriMesh(np.round(2.0 * body.vertices), body.faces) for body in (a, b))
        r = impinge.distance(a, b)
        if r.distance > 0.0:
            of_a, of_b = a.vertices[a.faces], b.vertices[b.faces]
            expected = root(min(square_of_triangles(s, t) for s in of_a for t in of_b))
            np.testing.assert_allclose(r.distance, expected, rtol=1e-13)
            assert impinge.distance(b, a).distance == r.distance


@pytest.mark.parametrize("gap", [0.0, 2.0**-52, 1e-9, 1e-3])
def test_touching_is_zero_and_next_to_it_is_not(gap):
    """Distinguish touching boxes from boxes separated by less than the float32 resolution of their size."""
    r = impinge.distance(shapes.box(1.0), shapes.box(1.0, (1.0 + gap, 0.0, 0.0)))

    assert (r.distance == 0.0) == (gap == 0.0)
    np.testing.assert_allclose(r.distance, gap, atol=1e-15)


def test_nearly_touching_in_a_slanted_plane(rng):
    """Never call a distance 0 where the exact test finds no pair, however near rounding brings them."""
    apart = 0
    for _ in range(200):
        triangle = rng.normal(size=(3, 3))
        point = rng.dirichlet([1.0, 1.0, 1.0]) @ triangle
        needle = np.stack([point, point + rng.normal(size=3), point + rng.normal(size=3)])
        side = np.cross(triangle[1] - triangle[0], triangle[2] - triangle[0])
        needle[1:] += 5.0 * side * np.sign((needle[1:] - point) @ side)[:, None]
        needle[2] = needle[1] + 0.01 * rng.normal(size=3)
        a, b = impinge.TriMesh(triangle, [[0, 1, 2]]), impinge.TriMesh(needle, [[0, 1, 2]])
        r = impinge.distance(a, b)
        assert (r.distance == 0.0) == impinge.BoxTree(a, b).any_pair()
        assert r.distance < 1e-14
        apart += r.distance > 0.0
    assert 0.1 < apart / 200 < 0.9


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_any_scale(rng, scale):
    """Give the same pair at any scale."""
    unit = 2.0 ** np.round(np.log2(scale))
    a, b = soup(rng, 40, (0, 0, 0)), soup(rng, 40, (6, 0, 0))
    r = impinge.distance(a, b)
    s = impinge.distance((unit * a.vertices, a.faces), (unit * b.vertices, b.faces))

    np.testing.assert_array_equal(r.triangles, s.triangles)
    assert s.distance == unit * r.distance
    assert r.distance > 0.1


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e-50, 1e60, 1e100, 1e200])
def test_common_point_at_any_scale(scale):
    """Give the point where triangles meet at any scale."""
    flat = scale * np.array([[0.0, 0, 0], [4, 0, 0], [0, 4, 0]])
    through = scale * np.array([[1.0, 1, -1], [1, 1, 1], [1.5, 1, 2]])
    r = impinge.distance((flat, [[0, 1, 2]]), (through, [[0, 1, 2]]))

    assert r.distance == 0.0
    np.testing.assert_allclose(r.point_a / scale, [1, 1, 0], atol=1e-14)
    np.testing.assert_allclose(r.point_b / scale, [1, 1, 0], atol=1e-14)


def test_surfaces_that_follow_each_other():
    """Search on threads where a sphere in a sphere is equally near everywhere; the inside makes no difference."""
    inner, outer = shapes.icosphere(3), shapes.icosphere(3, radius=1.1)
    r = impinge.distance(inner, outer)
    s = impinge.distance(outer, inner)

    assert r.stats["parts"] > 0
    assert r.distance == s.distance
    to_outer = impinge.closest_points(outer, inner.vertices).distance.min()
    to_inner = impinge.closest_points(inner, outer.vertices).distance.min()
    assert r.distance <= min(to_outer, to_inner)
    np.testing.assert_allclose(r.distance, min(to_outer, to_inner), rtol=1e-2)


def test_upper_limits_the_search(rng):
    """Answer with infinity beyond the limit, and as without it below or at it."""
    a, b = soup(rng, 40, (0, 0, 0)), soup(rng, 40, (6, 0, 0))
    r = impinge.distance(a, b)
    near = impinge.distance(a, b, upper=0.99 * r.distance)

    assert near.distance == np.inf
    assert np.isnan(near.point_a).all()
    np.testing.assert_array_equal(near.triangles, [-1, -1])
    assert near.complete
    np.testing.assert_array_equal(impinge.distance(a, b, upper=1.01 * r.distance).triangles, r.triangles)
    assert impinge.distance(shapes.box(1.0), shapes.box(1.0, (0.5, 0.0, 0.0)), upper=0.0).distance == 0.0


def test_upper_equal_to_the_distance(rng):
    """Find a distance that is exactly the limit, and none that is above it by a bit."""
    for case in range(200):
        unit = 2.0 ** rng.integers(-300, 300) if case % 4 == 0 else 1.0
        a, b = unit * rng.normal(size=(3, 3)), unit * (rng.normal(size=(3, 3)) + np.array([6.0, 0.0, 0.0]))
        r = impinge.distance((a, [[0, 1, 2]]), (b, [[0, 1, 2]]))
        assert r.distance > 0.0
        assert impinge.distance((a, [[0, 1, 2]]), (b, [[0, 1, 2]]), upper=r.distance).distance == r.distance
        less = np.nextafter(r.distance, 0.0)
        assert impinge.distance((a, [[0, 1, 2]]), (b, [[0, 1, 2]]), upper=less).distance == np.inf


def test_transforms_active_and_ignored(rng):
    """Respect transforms, active triangles and ignored pairs."""
    a, b = soup(rng, 40, (0, 0, 0)), soup(rng, 40, (0, 0, 0))
    matrix = np.eye(4)
    matrix[:3, 3] = [6.0, 0.5, 0.0]
    moved = impinge.TriMesh(impinge.transform_points(matrix, b.vertices), b.faces)
    first = by_looking_at_all(a, moved)
    r = impinge.distance(a, b, transform_b=matrix)
    np.testing.assert_array_equal(r.triangles, first[1:])
    assert r.distance == np.sqrt(first[0])

    ids = [i for i in range(40) if i != first[1]]
    square, *pair = by_looking_at_all(a, moved, ids_a=ids)
    np.testing.assert_array_equal(impinge.distance(a, moved, active_a=ids).triangles, pair)
    square, *pair = by_looking_at_all(a, moved, ignore={tuple(first[1:])})
    r = impinge.distance(a, moved, ignore=[first[1:]])
    np.testing.assert_array_equal(r.triangles, pair)
    assert r.distance == np.sqrt(square)


def test_body_and_itself_moved():
    """Measure a body against itself, moved."""
    body = shapes.icosphere(3)
    matrix = np.eye(4)
    matrix[0, 3] = 3.0

    assert impinge.distance(body, body).distance == 0.0
    np.testing.assert_allclose(impinge.distance(body, body, transform_b=matrix).distance, 1.0, rtol=1e-2)
    np.testing.assert_allclose(impinge.distance(body, body, transform_a=matrix).distance, 1.0, rtol=1e-2)


def test_deforming_bodies(rng):
    """Follow bodies from frame to frame; vertices can be no nearer than the surfaces."""
    a, b = shapes.bumpy_sphere(4), shapes.bumpy_sphere(4, center=(2.6, 0.1, 0.0))
    for _ in range(3):
        a.update(a.vertices + 0.01 * rng.normal(size=a.vertices.shape))
        r = impinge.distance(a, b)
        nearest = impinge.closest_points(b, a.vertices, inside=False).distance.min()
        assert 0.0 < r.distance <= nearest
        np.testing.assert_allclose(r.distance, nearest, rtol=0.1)


@pytest.mark.tiny
def test_nothing_and_nonsense():
    """Have no distance to nothing; refuse what makes no sense; say when it was cancelled."""
    body, empty = shapes.box(1.0), impinge.TriMesh([], [])
    cancel = threading.Event()
    cancel.set()

    assert impinge.distance(body, empty).distance == np.inf
    assert impinge.distance(body, body, active_a=[]).distance == np.inf
    assert impinge.distance(empty, body, active_a=[]).distance == np.inf
    assert impinge.distance(body, empty, active_b=np.zeros(0, dtype=bool)).distance == np.inf
    assert impinge.distance(body, body, cancel=cancel).reason == "cancelled"
    for upper, shown in ((-1.0, "-1"), (-(10**400), "-1000"), (np.complex128(1), "np.complex128"), ("far", "'far'")):
        with pytest.raises(OptionError, match=f"upper is {shown}.*expected a distance, 0 or more"):
            impinge.distance(body, body, upper=upper)
    assert impinge.distance(body, body, upper=10**400).distance == 0.0
    with pytest.raises(MeshError, match=r"ignore\[0, 0\] is 0.5; triangle ids are whole numbers"):
        impinge.distance(body, body, ignore=[[0.5, 0]])
    with pytest.raises(MeshError, match="ignore hold booleans; expected triangle ids"):
        impinge.distance(body, body, ignore=[[True, False]])
    with pytest.raises(TypeError, match="max_pairs"):
        impinge.distance(body, body, max_pairs=3)


def test_cancelled_in_the_middle(monkeypatch):
    """Check cancel repeatedly while threads search; without cancellation the answer is the same."""
    monkeypatch.setattr("impinge.detect.proximity.distance.PAIRS_PER_CHECK", 500)
    inner, outer = shapes.icosphere(3), shapes.icosphere(3, radius=1.1)
    expected = impinge.distance(inner, outer)
    never = CancelAfter(10**9)
    r = impinge.distance(inner, outer, cancel=never)
    checks = 10**9 - never.checks

    assert checks > 20
    assert r.complete
    assert (r.distance, r.triangles.tolist()) == (expected.distance, expected.triangles.tolist())
    for after in (1, checks // 2, checks - 1):
        stopped = impinge.distance(inner, outer, cancel=CancelAfter(after))
        assert (stopped.complete, stopped.reason, stopped.distance) == (False, "cancelled", np.inf)


def deadlock_prone(body, other):
    """Give two trees locks whose order by id is not that of the trees themselves."""
    trees = [x.structure("boxes", TreeOfBoxes) for x in (body, other)]
    locks = sorted((threading.RLock(), threading.RLock()), key=id, reverse=id(trees[0]) < id(trees[1]))
    for tree, lock in zip(trees, locks):
        tree.lock = lock


def test_queries_of_all_sorts_never_wait_in_a_circle():
    """Take the locks of two trees in one order in every query, whichever comes first."""
    a, b = shapes.box(1.0, cells=(2, 2, 2)), shapes.box(1.0, (0.3, 0.2, 0.1), cells=(2, 2, 2))
    deadlock_prone(a, b)
    done = []

    def ask(query):
        for _ in range(400):
            query()
        done.append(query)

    queries = (
        lambda: impinge.proximity(a, b, margin=0.01),
        lambda: impinge.triangle_pairs(b, a),
        lambda: impinge.distance(b, a),
    )
    for query in queries:
        query()
    threads = [threading.Thread(target=ask, args=(query,), daemon=True) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600.0)
    assert len(done) == 3, "threads wait for each other"


@pytest.mark.medium
@shared_data.needs_data
def test_real_meshes_against_fcl():
    """Agree with FCL, through trimesh, on the distance of two scans."""
    pytest.importorskip("fcl", reason="python-fcl is not installed")
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed")
    a, b = (impinge.load(shared_data.FOLDER / f"closed/{name}") for name in ("bunny_75k.off", "armadillo_52k.off"))
    b.update(b.vertices - b.vertices.min(axis=0) + a.vertices.max(axis=0) + 0.1 * np.ptp(a.vertices))
    manager = trimesh.collision.CollisionManager()
    manager.add_object("a", trimesh.Trimesh(a.vertices, a.faces, process=False))
    expected = manager.min_distance_single(trimesh.Trimesh(b.vertices, b.faces, process=False))

    np.testing.assert_allclose(impinge.distance(a, b).distance, expected, rtol=1e-6)
