"""Layered depth images as published: exact on every ray, the same image by both renderings, volumes that converge."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import impinge
import oracle
from impinge import TriMesh, scenes, shapes
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.errors import MeshError, OptionError
from impinge.published import layered_depth
from impinge.published.layered_depth import (
    DEPTH_STEP,
    aabb,
    collide,
    intersection_volume,
    layered_depth_image,
    vertices_in_volume,
    volume_of_interest,
)

TET_SIDES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


def whole_image(body, resolution, axis=None, **options):
    """LDI of an entire object: the VoI is its AABB, as in Table 2."""
    voi = volume_of_interest(aabb(body), aabb(body), axis=axis)
    return layered_depth_image(body, voi, from_low=True, resolution=resolution, **options)


def tets(rng, count):
    """Closed surface of some tetrahedra with small integer corners; they may overlap, touch or be flat."""
    x = rng.integers(0, 5, size=(4 * count, 3)).astype(float)
    return TriMesh(x, np.concatenate([TET_SIDES + 4 * k for k in range(count)]))


def large_tets(rng, count):
    """As ``tets``, around the same large tetrahedron."""
    corner = np.array([[0, 0, 0], [8, 8, 0], [8, 0, 8], [0, 8, 8]])
    x = np.concatenate([corner + rng.integers(-2, 3, size=(4, 3)) for _ in range(count)]).astype(float)
    return TriMesh(x, np.concatenate([TET_SIDES + 4 * k for k in range(count)]))


def box_between(low, high):
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    return shapes.box(high - low, center=(low + high) / 2.0)


def lens(big, small, apart):
    """Volume shared by two balls."""
    return (
        np.pi * (big + small - apart) ** 2
        * (apart**2 + 2 * apart * small - 3 * small**2 + 2 * apart * big + 6 * small * big - 3 * big**2)
        / (12 * apart)
    )  # fmt: skip


def needles():
    """A thin sphere, turned: its triangles are oblique needles."""
    ball = shapes.uv_sphere(24, 12)
    turn = np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.1, 0.2, 1.0]])
    return TriMesh(ball.vertices * [1.0, 1e-3, 0.2] @ turn, ball.faces)


# The examples -------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_examples_run():
    """Run the examples of the docstrings."""
    found = doctest.testmod(layered_depth)

    assert found.attempted >= 9
    assert found.failed == 0


# Stage 1 ------------------------------------------------------------------------------------------------------


@pytest.mark.tiny
@pytest.mark.small
def test_objects_apart_have_no_volume_of_interest():
    """Return no VoI for AABBs that are disjoint or share a face, an edge or a corner only."""
    box = aabb(shapes.box(2.0))
    for shift in ((3, 0, 0), (2, 0, 0), (2, 2, 0), (2, 2, 2)):
        assert volume_of_interest(box, box + np.array(shift)) is None
    assert volume_of_interest(box, aabb(TriMesh([], []))) is None
    assert volume_of_interest(box, box * 1e-320) is None


@pytest.mark.tiny
@pytest.mark.small
def test_outside_faces_of_boxes_that_overlap():
    """Choose the eligible pair with the smallest distance: each object lies behind its own face (Fig. 2a)."""
    a, b = np.array([[0.0, 0.0, 0.0], [4.0, 4.0, 4.0]]), np.array([[1.0, 3.0, -2.0], [6.0, 9.0, 2.0]])
    voi = volume_of_interest(a, b)

    assert (voi.low, voi.high) == ((1.0, 3.0, 0.0), (4.0, 4.0, 2.0))
    assert (voi.axis, voi.a_from_low, voi.extended, voi.distance) == (1, False, False, 1.0)
    swapped = volume_of_interest(b, a)
    assert (swapped.axis, swapped.a_from_low) == (1, True)
    assert volume_of_interest(a, b, axis=2).a_from_low


@pytest.mark.tiny
@pytest.mark.small
def test_nested_boxes_extend_the_volume_of_interest():
    """Move one face of the VoI to the AABB of the other object if no pair is eligible (Fig. 2b)."""
    inner, outer = np.array([[0.0, 0.0, 0.0], [3.0, 2.0, 2.0]]), np.array([[-9.0, -1.0, -5.0], [9.0, 4.0, 5.0]])
    voi = volume_of_interest(inner, outer)

    assert voi.extended
    assert (voi.axis, voi.a_from_low) == (1, False)  # the inner box from its high face, the outer from its low one
    assert (voi.low, voi.high) == ((0.0, -1.0, 0.0), (3.0, 2.0, 2.0))


@pytest.mark.tiny
@pytest.mark.small
def test_extension_is_a_last_resort_as_published():
    """Keep to eligible faces as published, and take a shorter extension on request."""
    a, b = np.array([[0.0, 0.0, 0.0], [9.0, 9.0, 1.0]]), np.array([[1.0, 1.0, -1.0], [10.0, 10.0, 2.0]])
    published, shortest = volume_of_interest(a, b), volume_of_interest(a, b, outside_faces="shortest")

    assert (published.axis, published.extended, published.distance) == (0, False, 8.0)
    assert (shortest.axis, shortest.extended, shortest.distance) == (2, True, 2.0)


def test_objects_lie_behind_their_outside_faces(rng):
    """Find every object wholly behind its near plane, and the VoI within the region, for random boxes."""
    extended, apart = 0, 0
    for _ in range(1000):
        low, size = rng.integers(0, 5, size=(2, 3)).astype(float), rng.integers(1, 9, size=(2, 3))
        a, b = np.stack([low, low + size], axis=1)
        for outside_faces in ("eligible", "shortest"):
            voi = volume_of_interest(a, b, outside_faces=outside_faces)
            common = np.maximum(a[0], b[0]), np.minimum(a[1], b[1])
            assert (voi is None) == bool((common[0] >= common[1]).any())
            apart += voi is None
            if voi is not None:
                first, last = (a, b) if voi.a_from_low else (b, a)
                assert voi.low[voi.axis] == first[0, voi.axis]
                assert voi.high[voi.axis] == last[1, voi.axis]
                assert (np.array(voi.low) <= common[0]).all()
                assert (np.array(voi.high) >= common[1]).all()
                extended += voi.extended
    assert extended > 50
    assert apart > 10


# Stage 2 ------------------------------------------------------------------------------------------------------

WATERTIGHT = {
    "grid-aligned": lambda: shapes.box(1.0, cells=(8, 8, 8)),
    "symmetric": lambda: shapes.uv_sphere(16, 16),
    "needles": needles,
    "drilled": lambda: shapes.cad_part(segments=8),
    "knot": lambda: shapes.torus_knot(2, 3, 60, 7),
}


@pytest.mark.small
@pytest.mark.parametrize("name", WATERTIGHT)
def test_every_ray_leaves_as_often_as_it_enters(name):
    """Have an even depth complexity in every pixel of an entire object, and sorted layers."""
    body, seen = WATERTIGHT[name](), 0
    for axis in range(3):
        for resolution in (1, 2, 8, 16, 31):
            image = whole_image(body, resolution, axis)
            assert not (image.n_p % 2).any()
            assert (np.diff(image.layers, axis=2) >= 0.0).all()
            seen += int(image.n_p.sum())
    assert seen > 100


@pytest.mark.tiny
@pytest.mark.small
def test_both_renderings_give_the_same_image(rng):
    """Write the same layers in n_max passes of the stencil test as in two passes of an A-buffer."""
    deepest = 0
    for count in (1, 3, 6):
        body = tets(rng, count)
        peeled, listed = (whole_image(body, 8, rendering=name) for name in ("peeling", "a_buffer"))
        np.testing.assert_array_equal(peeled.n_p, listed.n_p)
        np.testing.assert_array_equal(peeled.layers, listed.layers)
        deepest = max(deepest, peeled.n_max)
    assert deepest >= 4


def test_a_pass_per_layer(monkeypatch):
    """Render an object n_max times."""
    passes, render = [], layered_depth._render

    def counted(*arguments):
        passes.append(arguments[3:5])
        render(*arguments)

    monkeypatch.setattr(layered_depth, "_render", counted)
    image = whole_image(shapes.torus_knot(2, 3, 60, 7), 32)

    assert image.n_max >= 4
    assert passes == [(1, True), *((n, False) for n in range(2, image.n_max + 1))]


@pytest.mark.small
def test_no_layer_limit():
    """Render 300 layers, more than a stencil buffer of 8 bits counts."""
    plates = [box_between((0, 0, 2 * k), (1, 1, 2 * k + 1)) for k in range(150)]
    first = 8 * np.arange(150)
    body = TriMesh(
        np.concatenate([plate.vertices for plate in plates]),
        np.concatenate([plate.faces + start for plate, start in zip(plates, first)]),
    )
    image = whole_image(body, 2, axis=2)

    assert image.n_max == 300
    np.testing.assert_allclose(image.layers[0, 0] * 299.0, np.arange(300), atol=1e-9)


@pytest.mark.tiny
@pytest.mark.small
def test_rays_that_end_inside_have_an_odd_depth_complexity():
    """Leave out what lies behind the far plane; such a ray leaves there."""
    found = collide(box_between((0, 0, 0), (4, 4, 4)), box_between((3, 1, 1), (6, 3, 3)), resolution=4)

    assert (found.ldi_a.n_p == 1).all()
    assert (found.ldi_b.n_p == 1).all()
    assert found.volume.volume == 4.0


# Stage 3 ------------------------------------------------------------------------------------------------------


def on_edges(body, points, axis):
    """Number of points on the projection of an edge."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    edges = body.vertices[body.adjacency.edges][:, :, [u, v]]
    return sum(
        any(
            oracle.sign_orient2d(*edge, p) == 0 and (edge.min(axis=0) <= p).all() and (p <= edge.max(axis=0)).all()
            for edge in edges
        )
        for p in points[:, [u, v]]
    )


def test_rays_agree_with_the_oracle(rng):
    """Classify random points on rays through degenerate integer surfaces exactly as rational arithmetic does."""
    counts, degenerate = {1: 0, 0: 0, -1: 0}, 0
    for k in range(60):
        body, axis, n = tets(rng, 1 + k % 4), k % 3, (1, 2, 4)[k // 3 % 3]
        voi = volume_of_interest(aabb(body), aabb(body), axis=axis)
        if voi is None:
            continue
        image = layered_depth_image(body, voi, from_low=bool(k % 2), resolution=n)
        u, v = voi.window_axes
        size = voi.pixel_size(n)
        points = np.zeros((12, 3))
        points[:, u] = voi.low[u] + size[0] * (rng.integers(0, n, size=12) + 0.5)
        points[:, v] = voi.low[v] + size[1] * (rng.integers(0, n, size=12) + 0.5)
        points[:, axis] = voi.low[axis] + rng.integers(0, 8 * int(voi.distance) + 1, size=12) / 8.0
        inside = vertices_in_volume(image, points)
        for p, found in zip(points, inside):
            expected = oracle.point_in_closed_surface(p, body.vertices, body.faces)
            counts[expected] += 1
            assert expected == 0 or found == (expected > 0), (k, p)
        degenerate += on_edges(body, points, axis)

    assert counts[1] > 80
    assert counts[-1] > 200
    assert degenerate > 40


def test_volumes_of_integer_surfaces_agree_with_the_oracle(rng):
    """Measure on every ray the length that both surfaces share, by samples that rational arithmetic classifies."""
    hits, misses = 0, 0
    for k in range(300):
        a, b = large_tets(rng, 1 + k % 2), tets(rng, 1 + k % 3) if k % 4 else large_tets(rng, 1)
        found = collide(a, b, resolution=2, outside_faces=("eligible", "shortest")[k % 2])
        if found.voi is None:
            continue
        axis, (u, v), size = found.voi.axis, found.voi.window_axes, found.voi.pixel_size(2)
        for _ in range(6):
            column, row = rng.integers(0, 2, size=2)
            p = np.zeros(3)
            p[u], p[v] = found.voi.low[u] + size[0] * (column + 0.5), found.voi.low[v] + size[1] * (row + 0.5)
            p[axis] = found.voi.low[axis] + rng.integers(0, 16 * int(found.voi.distance)) / 16.0 + 1.0 / 37.0
            sides = [oracle.point_in_closed_surface(p, body.vertices, body.faces) for body in (a, b)]
            here = (found.volume.pixel == (column, row)).all(axis=1)
            spans = found.volume.span[here]
            is_in_span = bool(((spans[:, 0] <= p[axis]) & (p[axis] <= spans[:, 1])).any())
            if 0 not in sides:
                assert is_in_span == (min(sides) > 0), (k, p)
                hits, misses = hits + is_in_span, misses + (not is_in_span)
    assert hits > 80
    assert misses > 300


@pytest.mark.small
def test_boxes_share_a_box(rng):
    """Measure the exact volume of two boxes, whichever outside faces are chosen."""
    positive = 0
    for _ in range(40):
        a, b = (np.sort(rng.integers(0, 9, size=(2, 3)), axis=0) for _ in range(2))
        b[1] += 1
        a[1] += 1
        common = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
        expected = float(np.prod(np.maximum(common, 0)))
        for axis in (None, 0, 1, 2):
            found = collide(box_between(*a), box_between(*b), resolution=4, axis=axis)
            volume = found.volume.volume if found.volume is not None else 0.0
            np.testing.assert_allclose(volume, expected, rtol=1e-12)
            assert found.collides == (expected > 0)
        positive += expected > 0
    assert positive > 10


def test_balls_share_a_lens():
    """Converge to the volume of a lens as the resolution grows."""
    a, b = shapes.uv_sphere(200, 101), shapes.uv_sphere(200, 101, radius=0.7, center=(0.3, 0.9, 0.4))
    expected = lens(1.0, 0.7, np.sqrt(0.3**2 + 0.9**2 + 0.4**2))
    errors = [abs(collide(a, b, resolution=n).volume.volume / expected - 1.0) for n in (8, 32, 128)]

    assert errors[0] < 0.05
    assert errors[1] < 0.01
    assert errors[2] < 0.002


def test_object_inside_another():
    """Find the volume and all vertices of the inner object, and none of the outer one."""
    inner, outer = shapes.icosphere(4, radius=0.5, center=(0.1, 0.2, 0.0)), shapes.icosphere(4, radius=2.0)
    found = collide(inner, outer, query="both")

    assert found.voi.extended
    np.testing.assert_allclose(found.volume.volume, inner.volume, rtol=2e-3)
    assert len(found.vertices[0]) == len(inner.vertices)
    assert len(found.vertices[1]) == 0


@pytest.mark.small
def test_touching_is_no_collision():
    """Find no volume where an L-shaped object touches a box within the VoI, and some when it sinks in."""
    angle = TriMesh(
        np.concatenate([shapes.box((3.0, 1.0, 1.0)).vertices, shapes.box(1.0, center=(-1.0, 0.0, 1.0)).vertices]),
        np.concatenate([shapes.box(1.0).faces, shapes.box(1.0).faces + 8]),
    )
    for depth in (0.0, 0.1):
        found = collide(angle, shapes.box(1.0, center=(0.7, 0.0, 1.0 - depth)), resolution=16)
        assert found.voi is not None
        assert found.collides == (depth > 0.0)
    assert DEPTH_STEP < 1e-6


def test_order_of_objects_does_not_matter():
    """Find the same volume for (a, b) and (b, a)."""
    a, b = scenes.get("knots_12k_50k").surfaces[:2]
    one, two = collide(a, b, rendering="a_buffer", query="both"), collide(b, a, rendering="a_buffer", query="both")

    assert one.volume.volume > 0.0
    np.testing.assert_allclose(two.volume.volume, one.volume.volume, rtol=1e-12)
    for first, second in zip(one.vertices, two.vertices[::-1]):
        np.testing.assert_array_equal(first, second)


def test_agrees_with_the_production_detector():
    """Find the volume and depth complexities of the production detector on the same rays of a large scene."""
    scene = scenes.get("knots_12k_50k")
    a, b = scene.surfaces[:2]
    for time in (0.0, 0.7):
        scene.move(time)
        expected = LayeredDepth(a, b, resolution=128).query()
        found = collide(a, b, resolution=128, outside_faces="shortest")
        assert found.voi.axis == expected.axis
        np.testing.assert_allclose([found.voi.low, found.voi.high], expected.region, rtol=1e-15)
        np.testing.assert_allclose(found.volume.volume, expected.volume, rtol=1e-5)
        depth = np.stack([found.ldi_a.n_p, found.ldi_b.n_p])
        assert (depth != expected.depth_complexity).mean() < 1e-4
        assert depth.max() >= 6
        as_published = collide(a, b, resolution=128)
        assert abs(as_published.volume.volume - expected.volume) < expected.error


def test_wrong_vertices_are_within_a_pixel_of_the_surface(rng):
    """Misclassify only points closer to the surface than half the diagonal of a pixel."""
    body = shapes.torus_knot(2, 3, 200, 20)
    image = whole_image(body, 64)
    points = rng.uniform(*aabb(body), size=(20_000, 3))
    exact = impinge.closest_points(body, points)
    wrong = vertices_in_volume(image, points) != exact.inside

    assert 20 < wrong.sum() < 2000
    assert np.asarray(exact.inside).sum() > 1000
    assert exact.distance[wrong].max() <= np.hypot(*image.voi.pixel_size(64)) / 2.0 * (1.0 + 1e-9)


@pytest.mark.tiny
@pytest.mark.small
def test_vertices_on_the_boundary_and_beyond():
    """Count vertices on the boundary as inside, on the upper border of the window too, and none beyond the VoI."""
    image = whole_image(shapes.box(2.0), 4)
    points = [[1, 1, 1], [-1, -1, -1], [0, 0, 1], [0, 0, 0], [0, 0, 1.001], [1.001, 0, 0], [0, -1.001, 0]]

    assert vertices_in_volume(image, points).tolist() == [True] * 4 + [False] * 3


# Input --------------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_queries_are_chosen():
    """Run the chosen query only, or both; empty objects collide with nothing."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.5, 0.5))
    volume, vertices, both = (collide(a, b, resolution=4, query=query) for query in ("volume", "vertices", "both"))

    assert volume.volume.volume == both.volume.volume == 0.125
    assert vertices.volume is None
    assert [len(ids) for ids in volume.vertices] == [0, 0]
    assert [len(ids) for ids in vertices.vertices] == [len(ids) for ids in both.vertices] == [1, 1]
    assert volume.collides
    assert vertices.collides
    assert not collide(a, TriMesh([], [])).collides


@pytest.mark.small
def test_removed_triangles_are_not_rendered():
    """Render live triangles only."""
    body = shapes.box(1.0)
    ids = body.add_triangles(shapes.box(1.0).faces + 8, vertices=shapes.box(1.0, center=(0.0, 0.0, 5.0)).vertices)
    assert collide(body, shapes.box(20.0), resolution=12).volume.volume == pytest.approx(2.0)
    body.remove_triangles(ids)
    assert collide(body, shapes.box(20.0), resolution=12).volume.volume == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 0}, "resolution is 0, expected 1 to 4096 pixels per side"),
        ({"resolution": True}, "resolution is True"),
        ({"rendering": "many"}, "rendering is 'many', expected one of 'peeling', 'a_buffer'"),
        ({"outside_faces": "any"}, "outside_faces is 'any', expected one of 'eligible', 'shortest'"),
        ({"axis": 3}, "axis is 3, expected one of None, 0, 1, 2"),
        ({"query": "self"}, "query is 'self', expected one of 'volume', 'vertices', 'both'"),
    ],
)
def test_options_are_checked(options, message):
    """Refuse unknown option values."""
    with pytest.raises(OptionError, match=message):
        collide(shapes.box(1.0), shapes.box(1.0), **options)


def test_unusable_objects_are_refused():
    """Refuse open surfaces, extents that overflow, and LDIs that do not belong together."""
    box = shapes.box(1.0)
    with pytest.raises(MeshError, match="object b is not watertight"):
        collide(box, TriMesh(box.vertices, box.faces[1:]))
    with pytest.raises(MeshError, match="overflows; use larger units"):
        volume_of_interest(np.array([[-1e308] * 3, [1e308] * 3]), np.array([[-1e308] * 3, [1e308] * 3]))
    image = whole_image(box, 4)
    with pytest.raises(OptionError, match="render both for one VoI"):
        intersection_volume(image, image)
