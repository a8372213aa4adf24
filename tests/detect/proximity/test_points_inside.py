"""Points in closed surfaces, rays through edges and vertices included."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
import oracle
import shared_data
from impinge import shapes
from impinge.detect.common.containment import enclosure
from impinge.detect.common.pair_query import query_body
from impinge.detect.proximity import points_inside
from impinge.errors import OptionError

pytestmark = pytest.mark.small


def joined(*bodies):
    """One body of several, none of them sharing vertices."""
    offsets = np.cumsum([0, *(len(body.vertices) for body in bodies[:-1])])
    vertices = np.concatenate([body.vertices for body in bodies])
    return impinge.TriMesh(vertices, np.concatenate([body.faces + first for body, first in zip(bodies, offsets)]))


def turned_round(body):
    """The same surface with its inside out."""
    return impinge.TriMesh(body.vertices, body.faces[:, ::-1])


@pytest.mark.tiny
def test_integer_points_against_the_oracle(rng):
    """Agree with rational ray casting on integer points of an integer surface, most of them degenerate."""
    body = shapes.box(4.0, cells=(2, 2, 2))
    x = np.array(body.vertices)
    x[rng.random(len(x)) < 0.3] *= 0.5
    points = rng.integers(-3, 4, (60, 3)).astype(np.float64)
    expected = [oracle.point_in_closed_surface(p.tolist(), x.tolist(), body.faces.tolist()) >= 0 for p in points]

    np.testing.assert_array_equal(impinge.points_inside((x, body.faces), points), expected)
    np.testing.assert_array_equal(impinge.closest_points((x, body.faces), points).inside, expected)
    assert 0.1 < np.mean(expected) < 0.9


@pytest.mark.parametrize("body", [shapes.box(2.0, cells=(3, 3, 3)), shapes.icosphere(3)], ids=["box", "sphere"])
def test_rays_through_vertices_and_edges(body):
    """Be right about points straight below vertices and middles of edges, on both sides of the surface and on it."""
    sides = np.unique(np.sort(body.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    middle = 0.5 * (body.vertices[sides[:, 0]] + body.vertices[sides[:, 1]])
    above = np.concatenate([body.vertices, middle])
    for z in (-3.0, 0.0, 3.0):
        points = np.array(above)
        points[:, 2] = z
        expected = enclosure(query_body(body)).contains(points)
        np.testing.assert_array_equal(impinge.points_inside(body, points), expected)
        assert expected.any() == (z == 0.0)
    assert impinge.points_inside(body, body.vertices).all()


@pytest.mark.parametrize(
    ("body", "point", "expected"),
    [
        (joined(shapes.box(1.0), shapes.box(1.0, (0.3, 0.3, 0.3))), (0.1, 0.1, 0.1), True),
        (joined(shapes.box(2.0), turned_round(shapes.box(1.0))), (0.1, 0.1, 0.1), False),
        (joined(shapes.box(2.0), turned_round(shapes.box(1.0))), (0.7, 0.1, 0.1), True),
        (turned_round(shapes.box(1.0)), (0.1, 0.1, 0.1), True),
        (joined(shapes.box(1.0), shapes.cloth_grid(3, 3, size=0.2, center=(0.0, 0.0, 3.0))), (0.0, 0.0, 0.1), True),
        (joined(shapes.box(1.0), shapes.cloth_grid(3, 3, size=0.2, center=(0.0, 0.0, 3.0))), (0.0, 0.0, 2.0), False),
        (shapes.cloth_grid(3, 3), (0.0, 0.0, 0.0), False),
        (
            impinge.TriMesh(
                shapes.box(1.0).vertices[shapes.box(1.0).faces].reshape(-1, 3), np.arange(36).reshape(-1, 3)
            ),
            (0.1, 0.2, 0.3),
            True,
        ),
    ],
    ids=["two parts", "cavity", "shell", "inside out", "beside a cloth", "below a cloth", "on a cloth", "soup"],
)
def test_what_has_an_inside(body, point, expected):
    """Know bodies in parts, cavities, inside-out surfaces and soups; open surfaces have no inside."""
    assert impinge.points_inside(body, [point])[0] == expected
    assert impinge.closest_points(body, [point]).inside[0] == expected


def flap_at(body, *vertices):
    """The body and a triangle of its own vertices, of which the first are where ``vertices`` of the body are."""
    at = body.vertices[list(vertices)]
    corners = np.concatenate([at, 2.0 * at[:1] + np.array([[0.0, 0.3, 0.0], [0.0, 0.0, 0.3]])])[:3]
    return joined(body, impinge.TriMesh(corners, [[0, 1, 2]]))


def one_face_flipped(body):
    faces = np.array(body.faces)
    faces[0] = faces[0, ::-1]
    return impinge.TriMesh(body.vertices, faces)


@pytest.mark.parametrize("count", [1, 2], ids=["at a vertex", "along an edge"])
def test_open_pieces_do_not_open_what_they_touch(count):
    """Keep the inside of a closed piece that an open one touches at a vertex or an edge, in all queries."""
    sphere = shapes.icosphere(2)
    body = flap_at(sphere, *sphere.faces[0, :count])
    far = flap_at(shapes.icosphere(2, radius=3.0), 0)

    assert impinge.points_inside(body, [[0.0, 0.0, 0.0], [1.1, 1.1, 1.1]]).tolist() == [True, False]
    assert impinge.closest_points(body, [[0.0, 0.0, 0.0]]).inside[0]
    assert impinge.check(shapes.box(0.1), body).relation == "a in b"
    soup = impinge.TriMesh(far.vertices[far.faces].reshape(-1, 3), np.arange(3 * len(far.faces)).reshape(-1, 3))
    assert impinge.points_inside(soup, [[0.0, 0.0, 0.0]])[0]


def test_pieces_that_disagree_spoil_only_themselves():
    """Count by parity the pieces whose triangles disagree on the outside, and by winding number all others."""
    parts = joined(
        shapes.box(1.0), shapes.box(1.0, (0.3, 0.3, 0.3)), one_face_flipped(shapes.box(1.0, (9.0, 0.0, 0.0)))
    )
    points = [[0.1, 0.1, 0.1], [9.0, 0.1, 0.2], [5.0, 0.0, 0.0]]
    assert impinge.points_inside(parts, points).tolist() == [True, True, False]
    assert enclosure(query_body(parts)).contains(np.array(points)).tolist() == [True, True, False]

    shell = joined(one_face_flipped(shapes.box(2.0)), one_face_flipped(shapes.box(1.0)))
    assert impinge.points_inside(shell, [[0.1, 0.1, 0.2], [0.7, 0.1, 0.2]]).tolist() == [False, True]
    filled = joined(shapes.box(2.0), one_face_flipped(shapes.box(1.0)))
    assert impinge.points_inside(filled, [[0.1, 0.1, 0.2], [0.7, 0.1, 0.2]]).tolist() == [True, True]


def test_patches_sewn_together(rng):
    """Sew patches of several triangles where their open edges are, whichever way they are turned."""
    sphere = shapes.icosphere(2)
    part = np.argsort(sphere.vertices[sphere.faces].mean(axis=1) @ rng.normal(size=3)) % 2 + (
        sphere.vertices[sphere.faces].mean(axis=1)[:, 0] > 0.2
    )
    patches = [impinge.TriMesh(sphere.vertices, sphere.faces[part == k]) for k in range(3)]
    points = rng.uniform(-1.2, 1.2, (200, 3))
    expected = impinge.points_inside(sphere, points)
    assert 0.1 < expected.mean() < 0.6
    for turned in (0, 1):
        bodies = [turned_round(p) if turned and k == 1 else p for k, p in enumerate(patches)]
        np.testing.assert_array_equal(impinge.points_inside(joined(*bodies), points), expected)
    assert not impinge.points_inside(joined(*patches[:2]), points).any()


def test_topology_is_looked_at_once(monkeypatch):
    """Find pieces anew after edits only, not when a body with open pieces moves."""
    calls = []
    original = points_inside.pieces_of
    monkeypatch.setattr(points_inside, "pieces_of", lambda *given: calls.append(given) or original(*given))
    body = joined(shapes.box(1.0), shapes.cloth_grid(4, 4, center=(0.0, 0.0, 3.0)))
    for _ in range(3):
        body.update(body.vertices + 0.01)
        assert impinge.points_inside(body, [[0.1, 0.1, 0.1]])[0]
    assert len(calls) == 1
    body.remove_triangles([0])
    assert not impinge.points_inside(body, [[0.1, 0.1, 0.1]])[0]
    assert len(calls) == 2


def test_random_points_against_all_triangles(rng):
    """Agree with a ray against every triangle while the body moves, is transformed, and loses triangles."""
    body = joined(shapes.bumpy_sphere(3), shapes.box(0.7, (0.9, 0.0, 0.0)))
    matrix = np.eye(4)
    matrix[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    points = rng.uniform(-1.5, 1.5, (1000, 3))
    for step in range(4):
        if step == 1:
            body.update(body.vertices * np.array([1.0, 0.7, 1.2]))
        if step == 2:
            body.remove_triangles([0])  # opens the sphere; the box stays closed
        active = None if step < 3 else np.arange(len(body.faces) - 12, len(body.faces))
        side = query_body(body, matrix, active, "a")
        expected = enclosure(side).contains(points)
        np.testing.assert_array_equal(
            impinge.points_inside(body, points, transform_a=matrix, active_a=active), expected
        )
        assert 0.005 < expected.mean() < 0.5


def test_moving_soup_opens_and_closes():
    """Compare the vertices of a soup anew in every frame: it encloses only while its triangles join."""
    box = shapes.box(1.0)
    closed = box.vertices[box.faces].reshape(-1, 3)
    apart = closed + 0.01 * np.repeat(np.arange(12), 3)[:, None]
    body = impinge.TriMesh(closed, np.arange(36).reshape(-1, 3))
    answers = []
    for x in (closed, apart, closed):
        body.update(x)
        answers.append(bool(impinge.points_inside(body, [[0.1, 0.2, 0.3]])[0]))
    assert answers == [True, False, True]


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_any_scale(rng, scale):
    """Be exact at any scale and far from the origin."""
    body = shapes.icosphere(2)
    points = rng.uniform(-1.2, 1.2, (300, 3))
    expected = impinge.points_inside(body, points)
    unit = 2.0 ** np.round(np.log2(scale))

    np.testing.assert_array_equal(impinge.points_inside((unit * body.vertices, body.faces), unit * points), expected)
    far = query_body(impinge.TriMesh(body.vertices + 1e6, body.faces), None, None, "a")
    np.testing.assert_array_equal(
        impinge.points_inside((far.vertices, far.faces), points + 1e6), enclosure(far).contains(points + 1e6)
    )
    assert 0.2 < expected.mean() < 0.8


def test_no_points_and_no_triangles():
    """Return an empty mask for no points, and no inside for no triangles."""
    assert len(impinge.points_inside(shapes.box(1.0), [])) == 0
    assert not impinge.points_inside(impinge.TriMesh([], []), [[0.0, 0.0, 0.0]]).any()
    assert not impinge.points_inside(impinge.TriMesh([], []), [[0.0, 0.0, 0.0]], active_a=[]).any()
    assert not impinge.points_inside(shapes.box(1.0), [[0.0, 0.0, 0.0]], active_a=[0, 1]).any()


def test_resolution_asks_for_the_sampled_answer():
    """Look points up in an image of the given resolution: right away from the surface; refuse what has no inside."""
    ball = shapes.icosphere(4)
    points = np.random.default_rng(0).uniform(-1.2, 1.2, size=(2000, 3))
    sampled, exact = impinge.points_inside(ball, points, 64), impinge.points_inside(ball, points)
    moved = impinge.points_inside(ball, points, 64, transform_a=np.diag([0.5, 0.5, 0.5, 1.0]))

    assert 0 < (sampled != exact).sum() < 100 or (sampled == exact).all()
    assert impinge.closest_points(ball, points[sampled != exact]).distance.max(initial=0.0) < 2.4 / 64
    assert moved.sum() < sampled.sum()
    with pytest.raises(impinge.MeshError, match="open"):
        impinge.points_inside(shapes.cloth_grid(2, 2), points, 64)


def test_rules_of_sampled_answers():
    """Leave out what a body covers twice if parity is asked for, which exact answers do not offer."""
    two = joined(shapes.box(1.0), shapes.box(1.0, (0.5, 0.0, 0.0)))
    points = [[0.0, 0.1, 0.2], [-0.3, 0.1, 0.2], [0.3, 0.1, 0.2], [2.0, 0.0, 0.0]]
    assert impinge.points_inside(two, points, 16).tolist() == [True, True, True, False]
    assert impinge.points_inside(two, points, 16, rule="parity").tolist() == [False, True, False, False]
    with pytest.raises(OptionError, match="rule is 'odd', expected one of 'parity', 'winding'"):
        impinge.points_inside(two, points, 16, rule="odd")
    for option in ({"rule": "parity"}, {"device": "cuda"}):
        with pytest.raises(OptionError, match="but exact answers go by winding, on the CPU; pass a resolution"):
            impinge.points_inside(two, points, **option)


def test_options_of_other_queries_are_refused():
    """Refuse to be cancelled: a mask cannot say that it is incomplete."""
    with pytest.raises(TypeError, match="cancel"):
        impinge.points_inside(shapes.box(1.0), [[0.0, 0.0, 0.0]], cancel=None)


@shared_data.needs_data
@pytest.mark.parametrize("file", ["closed/armadillo_52k.off", "cad/turbine.off"])
def test_real_meshes_against_libigl(rng, file):
    """Agree with libigl's winding numbers on real meshes."""
    igl = pytest.importorskip("igl", reason="libigl is not installed")
    body = impinge.load(shared_data.FOLDER / file)
    low, high = body.vertices.min(axis=0), body.vertices.max(axis=0)
    points = low + (high - low) * rng.uniform(-0.05, 1.05, size=(60, 3))
    inside = impinge.points_inside(body, points)
    winding = igl.winding_number(np.array(body.vertices), body.faces.astype(np.int64), points)

    np.testing.assert_array_equal(inside, np.abs(winding) > 0.5)
    assert 0.02 < inside.mean() < 0.9
