"""Points in closed surfaces, rays through edges and vertices included."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
import oracle
import shared_data
from impinge import shapes
from impinge.detect.containment import enclosure
from impinge.detect.pair_query import make_side
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
        expected = enclosure(make_side(body, None, None, "a")).contains(points)
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
        side = make_side(body, matrix, active, "a")
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
    far = make_side(impinge.TriMesh(body.vertices + 1e6, body.faces), None, None, "a")
    np.testing.assert_array_equal(
        impinge.points_inside((far.vertices, far.faces), points + 1e6), enclosure(far).contains(points + 1e6)
    )
    assert 0.2 < expected.mean() < 0.8


def test_no_points_and_no_triangles():
    """Return an empty mask for no points, and no inside for no triangles."""
    assert len(impinge.points_inside(shapes.box(1.0), [])) == 0
    assert not impinge.points_inside(impinge.TriMesh([], []), [[0.0, 0.0, 0.0]]).any()
    assert not impinge.points_inside(shapes.box(1.0), [[0.0, 0.0, 0.0]], active_a=[0, 1]).any()


def test_resolution_is_refused():
    """Refuse a resolution, and options of other queries, in a sentence."""
    with pytest.raises(OptionError, match="resolution is 64, but points are only tested exactly"):
        impinge.points_inside(shapes.box(1.0), [[0.0, 0.0, 0.0]], 64)
    with pytest.raises(OptionError, match="unknown option cancel"):
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
