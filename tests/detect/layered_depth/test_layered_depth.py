"""Layered depth images: watertight on every mesh, volumes that converge to the exact ones, and nothing stale."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from itertools import permutations

import hypothesis
import numba
import numpy as np
import pytest
from hypothesis import strategies

import impinge
import shared_data
from impinge import TriMesh, scenes, shapes
from impinge.backend.jit import launch_always
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.layered_depth import image_cache, images
from impinge.detect.layered_depth import raster_kernels as kernels
from impinge.detect.layered_depth.detector import LayeredDepth, views
from impinge.detect.layered_depth.image_cache import KEPT_IMAGES, MeshImages
from impinge.detect.layered_depth.images import Cpu, Scratch
from impinge.detect.layered_depth.points import points_inside_sampled
from impinge.detect.layered_depth.sources import Crossings, HeightField, Sphere
from impinge.detect.layered_depth.spans_kernels import squares_of_bends
from impinge.errors import MeshError, OptionError


def pieces(*bodies):
    """All bodies as one."""
    first = np.cumsum([0, *(len(body.vertices) for body in bodies[:-1])])
    return TriMesh(
        np.concatenate([body.vertices for body in bodies]),
        np.concatenate([body.faces + start for body, start in zip(bodies, first)]),
    )


def moved(body, shift=(0.0, 0.0, 0.0), scale=1.0):
    return TriMesh(scale * body.vertices + np.array(shift), body.faces)


def volume(a, b, **options):
    return LayeredDepth(a, b, **options).query().volume


def image_of(body, resolution, axis=2):
    """Image of a whole body, checked."""
    solid = MeshImages(body).solid(body, None, None, "a")
    view = next(view for view, _ in views(solid.bounds, solid.bounds, resolution, True) if view.axis == axis)
    image = Cpu().draw(solid, view, Scratch())
    image.assert_valid(Cpu())
    return image


def assert_same(result, expected):
    names = (
        "volume", "volumes", "error", "spans", "pixel", "region", "centroid", "triangles", "triangle_body",
        "penetrating_a", "penetrating_b", "inverted_volume", "depth_complexity",
    )  # fmt: skip
    for name in names:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)


def lens(big, small, apart):
    """Volume shared by two balls."""
    return (
        np.pi * (big + small - apart) ** 2
        * (apart**2 + 2 * apart * small - 3 * small**2 + 2 * apart * big + 6 * small * big - 3 * big**2)
        / (12 * apart)
    )  # fmt: skip


# Watertight -------------------------------------------------------------------------------------------


def sheared(body):
    return TriMesh(body.vertices @ np.array([[1.0, 1.0, 0.5], [0.0, 1.0, 0.25], [0.0, 0.0, 1.0]]), body.faces)


def needles():
    """A sphere stretched to a thousand times its width and rotated: triangles are oblique needles."""
    ball = shapes.uv_sphere(24, 12)
    turn = np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.1, 0.2, 1.0]])
    return TriMesh(ball.vertices * [1.0, 1e-3, 0.2] @ turn, ball.faces)


WATERTIGHT = {
    "grid-aligned": lambda: shapes.box(1.0, cells=(8, 8, 8)),
    "symmetric": lambda: shapes.uv_sphere(16, 16),
    "sheared": lambda: sheared(shapes.box(1.0, cells=(4, 4, 4))),
    "sheared sphere": lambda: sheared(shapes.uv_sphere(32, 17)),
    "needles": needles,
    "flat": lambda: TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 1]]),
    "drilled": lambda: shapes.cad_part(segments=8),
    "knot": lambda: shapes.torus_knot(2, 3, 60, 7),
    "pieces": lambda: pieces(shapes.icosphere(1), shapes.box(1.0), shapes.icosphere(1, center=(0.5, 0.0, 0.0))),
}


@pytest.mark.small
@pytest.mark.parametrize("exact", [False, True], ids=["snapped", "exact"])
@pytest.mark.parametrize("name", WATERTIGHT)
def test_every_ray_leaves_as_often_as_it_enters(monkeypatch, name, exact):
    """Cross every closed mesh evenly on every ray and along all axes, snapped or not."""
    if exact:
        monkeypatch.setattr(images, "LEAST_BITS", 99)
    body, seen = WATERTIGHT[name](), 0
    for resolution in (1, 2, 8, 16, 31):
        detector = LayeredDepth(body, resolution=resolution)
        detector.assert_valid()
        if name != "flat":
            seen += sum(image_of(body, resolution, axis).count for axis in range(3))

    assert seen > 100 or name == "flat"


small_points = strategies.lists(
    strategies.tuples(*[strategies.integers(0, 4)] * 3), min_size=4, max_size=8, unique=True
)


@pytest.mark.small
@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(small_points, strategies.data())
def test_degenerate_closed_meshes_are_crossed_evenly(points, data):
    """Cross any set of lattice tetrahedra evenly, flat and overlapping ones included, equally snapped or not."""
    index = strategies.integers(0, len(points) - 1)
    tets = data.draw(strategies.lists(strategies.tuples(index, index, index, index), min_size=1, max_size=4))
    faces = np.array([[t[i], t[j], t[k]] for t in tets for i, j, k in ((0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2))])
    body = TriMesh(np.array(points, dtype=float), faces)
    solid = MeshImages(body).solid(body, None, None, "a")
    for view, _ in views(solid.bounds, solid.bounds, 4, True):
        image = Cpu().draw(solid, view, Scratch())
        image.assert_valid(Cpu())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(images, "LEAST_BITS", 99)
            exact = Cpu().draw(solid, view, Scratch())
        exact.assert_valid(Cpu())
        if (np.log2(solid.bounds[1] - solid.bounds[0]) % 1.0 == 0.0).all():  # nothing is rounded by snapping
            np.testing.assert_array_equal(exact.pixel_start, image.pixel_start)
            np.testing.assert_allclose(exact.depth, image.depth, rtol=0.0, atol=1e-12)


def drawn_one_by_one(image, scratch):
    """Number of fragments if every triangle is drawn, candidate or not."""
    solid, view = image.solid, image.view
    options = (*scratch.placed_for(len(solid.x)), view.raster(image.bits), 0, 0)
    lists = (scratch.pixel, scratch.depth, scratch.face)
    return sum(kernels.emit_triangle(np.int32(t), solid.faces, *options, *lists) for t in range(len(solid.faces)))


@pytest.mark.small
def test_no_candidate_is_missed(rng):
    """Draw the same fragments as triangle by triangle, through windows of any size and place."""
    fragments = 0
    for case in range(120):
        size = 10.0 ** rng.integers(-2, 3)
        x = np.concatenate([rng.integers(-3, 4, (4, 3)) * size, rng.uniform(-1.0, 1.0, (8, 3))])
        tets = np.arange(12).reshape(3, 4) if case % 2 else np.array([[0, 1, 2, 3], [3, 4, 5, 6], [0, 5, 8, 11]])
        body = TriMesh(x, tets[:, [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]].reshape(-1, 3))
        solid = MeshImages(body).solid(body, None, None, "a")
        window = np.sort(rng.integers(-4, 5, (2, 3)), axis=0) * 0.25 + [[0.0] * 3, [0.25] * 3]
        for view, _ in views(window, window, int(rng.integers(1, 6)), True):
            scratch = Scratch()
            image = Cpu().draw(solid, view, scratch)
            assert image.count == drawn_one_by_one(image, scratch)
            fragments += image.count

    assert fragments > 1000


@pytest.mark.small
def test_edges_of_huge_triangles_through_the_centre(rng):
    """Keep candidates whose edge functions are differences of a few units between products of 55 bits.

    Candidates are found in doubles. Seen through a window of one pixel, a huge triangle has one centre in its box, too.
    """
    seen = 0
    for _ in range(200):
        p, q = 2 * rng.integers(2**24, 2**25, 2) + 1  # odd, in units of 2^-16 pixels
        off = rng.integers(-1, 2)
        x = np.array([[p, q, 0], [-7 * p + off, -7 * q, 1 << 17], [p, -q, 0], [-p, q, -(1 << 16)]]) / 2.0**16
        body = TriMesh(x, [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
        solid = MeshImages(body).solid(body, None, None, "a")
        view = views(*[np.array([[-0.5] * 3, [0.5] * 3])] * 2, 1, True)[2][0]
        scratch = Scratch()
        image = Cpu().draw(solid, view, scratch)
        image.assert_valid(Cpu())
        assert view.axis == 2
        assert image.bits == 16
        assert image.count == drawn_one_by_one(image, scratch)
        seen += image.count

    assert seen > 100


@pytest.mark.parametrize("name", ["knot", "drilled", "sheared sphere", "pieces"])
def test_spans_are_inside_and_gaps_outside(name):
    """Agree with exact tests in the middle of every span, and of every gap between two."""
    body = WATERTIGHT[name]()
    room = shapes.box(20.0)
    result = LayeredDepth(body, room, resolution=24, rule="winding").query()
    u, v = (result.axis + 1) % 3, (result.axis + 2) % 3
    size = (result.region[1] - result.region[0]) / 24
    points = np.zeros((len(result.spans), 3))
    points[:, u] = result.region[0, u] + (result.pixel[:, 0] + 0.5) * size[u]
    points[:, v] = result.region[0, v] + (result.pixel[:, 1] + 0.5) * size[v]
    points[:, result.axis] = result.spans.mean(axis=1)
    wide = (result.spans[:, 1] - result.spans[:, 0]) > 1e-3

    assert impinge.points_inside(body, points[wide]).all()
    same = (result.pixel[1:] == result.pixel[:-1]).all(axis=1)
    gap = result.spans[1:, 0] - result.spans[:-1, 1]
    points[1:, result.axis] = (result.spans[1:, 0] + result.spans[:-1, 1]) / 2.0
    between = points[1:][same & (gap > 1e-3)]
    assert not impinge.points_inside(body, between).any()
    assert wide.sum() > 50
    assert len(between) > 5 or name != "knot"


# Volumes by formula -----------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize("axes", [1, 3])
def test_boxes_that_fill_the_window_are_exact(axes):
    """Find the volume of two boxes to the last digits: the window is their overlap."""
    a, b = shapes.box((1.0, 2.0, 3.0)), shapes.box((2.0, 1.0, 1.0), center=(1.0, 0.3, 1.1))
    result = LayeredDepth(a, b, resolution=9, axes=axes).query()

    np.testing.assert_allclose(result.volume, 0.5 * 1.0 * 0.9, rtol=1e-12)
    np.testing.assert_allclose(result.centroid, [0.25, 0.3, 1.05], rtol=1e-12)
    np.testing.assert_allclose(result.error, 0.0, atol=1e-12)
    assert np.isfinite(result.volumes).sum() == axes
    assert result
    assert len(result) == 81


def test_lens_and_cap_converge():
    """Come closer to the volumes of a lens and of a cap as the resolution grows, within the estimated error."""
    ball, other = shapes.icosphere(5), shapes.icosphere(5, radius=0.8, center=(0.9, 0.4, 0.1))
    half_space = shapes.box(10.0, center=(0.0, 0.0, 5.6))
    shrunk = ball.volume / (4.0 / 3.0 * np.pi)  # what facets take off
    cap = np.pi * 0.4**2 * (3.0 - 0.4) / 3.0
    for b, expected in ((other, lens(1.0, 0.8, np.sqrt(0.98))), (half_space, cap)):
        off = []
        for resolution in (8, 32, 128, 512):
            result = LayeredDepth(ball, b, resolution=resolution, axes=3).query()
            off.append(abs(result.volume / expected - 1.0))
            assert off[-1] <= result.error / expected + 3.0 * (1.0 - shrunk)
        assert off[0] > 4.0 * off[2]
        assert off[3] < 3.0 * (1.0 - shrunk)


@pytest.mark.parametrize("axes", [1, 3])
def test_nested_spheres_share_the_inner_one(axes):
    """Find the volume of the inner sphere where one box is inside the other."""
    inner, outer = shapes.icosphere(3, radius=0.4, center=(0.1, 0.2, -0.1)), shapes.icosphere(3)
    for a, b in ((inner, outer), (outer, inner)):
        result = LayeredDepth(a, b, axes=axes).query()
        np.testing.assert_allclose(result.volume, inner.volume, rtol=2e-4)
        assert abs(result.volume - inner.volume) < result.error
        np.testing.assert_allclose(result.centroid, [0.1, 0.2, -0.1], atol=1e-4)
    np.testing.assert_array_equal(LayeredDepth(inner, outer).query().penetrating_a, np.arange(len(inner.vertices)))


def test_touching_and_disjoint_bodies_share_nothing():
    """Find no overlap of bodies that touch, that are apart within overlapping boxes, or far apart."""
    assert volume(*scenes.get("two_boxes_sharing_a_face").bodies) == 0.0
    apart = LayeredDepth(*scenes.get("disjoint_spheres").bodies, axes=3).query()
    assert apart.volume == 0.0
    assert 0.0 < apart.error < 1e-3  # what a single ray stands for
    assert not apart
    assert len(apart) == 0
    far = LayeredDepth(shapes.box(1.0), shapes.box(1.0, center=(9.0, 0.0, 0.0))).query()
    assert far.volume == far.error == 0.0
    assert np.isnan(far.centroid).all()
    assert np.isnan(far.region).all()
    assert far.region.shape == (2, 3)
    assert [len(rows) for rows in far.changes(far)] == [0, 0, 0]
    assert far.depth_complexity is None
    touching = LayeredDepth(shapes.box(1.0), shapes.box(1.0, center=(1.0, 0.0, 0.0))).query()
    np.testing.assert_array_equal(touching.region, [[0.5, -0.5, -0.5], [0.5, 0.5, 0.5]])
    json.dumps(far.to_dict())


def stacked(rng, size, press=0.0):
    """A box and one on top of it, pressed into it; turned and put anywhere."""
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turn *= np.linalg.det(turn)
    shift = rng.uniform(-1.0, 1.0, 3) * 10.0 ** rng.integers(-2, 7)
    boxes = shapes.box(1.0), shapes.box(size, center=(0.05, 0.02, 1.0 - press))
    return [TriMesh(body.vertices @ turn.T + shift, body.faces) for body in boxes]


@pytest.mark.parametrize("size", [(1.0, 1.0, 1.0), (0.7, 0.6, 1.0)], ids=["edge to edge", "within"])
def test_bodies_that_touch_in_a_slanted_face(rng, size):
    """Share nothing where the touching faces are slanted and rounded differently.

    Of turned boxes that touch, nearly half shared up to 1e-8 of their volume, more than the reported error.
    """
    for _ in range(40):
        assert not LayeredDepth(*stacked(rng, size), resolution=64).query()
        pressed = LayeredDepth(*stacked(rng, size, press=1e-3), resolution=64).query()
        assert abs(pressed.volume / (1e-3 * min(size[0], 0.95) * min(size[1], 0.98)) - 1.0) < 0.2


def test_tets_that_share_a_face(rng):
    """Share nothing where two tets have a face in common, and all of it where they are on the same side of it."""
    faces, overlaps = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]), 0
    for _ in range(100):
        base, tips = rng.standard_normal((3, 3)), rng.standard_normal((2, 3))
        normal = np.cross(base[1] - base[0], base[2] - base[0])
        sides = np.sign((tips - base[0]) @ normal)
        tets = [TriMesh(np.vstack([base, tip]), faces if s > 0 else faces[:, ::-1]) for tip, s in zip(tips, sides)]
        result = LayeredDepth(*tets, resolution=16).query()
        joined = LayeredDepth(pieces(*tets), resolution=16).query()
        if sides[0] != sides[1]:
            assert result.volume == joined.volume == joined.inverted_volume == 0.0
        overlaps += result.volume > 0.0

    assert 20 < overlaps < 60


@pytest.mark.parametrize("name", [name for name in scenes.names() if "overlap_volume" in scenes.get(name).expected])
def test_known_volumes_of_scenes(name):
    """Match the hand-computed volumes of scenes."""
    scene = scenes.get(name)
    result = LayeredDepth(*scene.bodies, axes=3).query()

    expected = scene.expected["overlap_volume"]
    assert abs(result.volume - expected) <= result.error + 1e-12
    np.testing.assert_allclose(result.volume, expected, rtol=1e-3)


# Volumes by symmetry ----------------------------------------------------------------------------------


def knots():
    return shapes.torus_knot(2, 3, 80, 9), moved(shapes.torus_knot(3, 2, 80, 9), (0.3, 0.1, 0.05))


def test_order_of_bodies_does_not_matter():
    """Find the same bits for (a, b) and (b, a)."""
    for a, b in (knots(), (shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.5, 0.5)))):
        one, two = (LayeredDepth(*pair, axes=3).query() for pair in ((a, b), (b, a)))
        np.testing.assert_array_equal(one.volumes, two.volumes)
        np.testing.assert_array_equal(one.spans, two.spans)
        np.testing.assert_array_equal(one.centroid, two.centroid)
        np.testing.assert_array_equal(one.penetrating_a, two.penetrating_b)
        assert one.volume > 0.0


def test_a_body_shares_all_of_itself():
    """Find the volume of a body as its overlap with itself."""
    knot = knots()[0]
    result = LayeredDepth(knot, knot, resolution=512).query()

    np.testing.assert_allclose(result.volume, knot.volume, rtol=1e-3)
    assert abs(result.volume - knot.volume) < result.error
    np.testing.assert_array_equal(result.penetrating_a, result.penetrating_b)


def test_inclusion_and_exclusion():
    """Satisfy inclusion-exclusion for unions, and additivity for parts."""
    a, b = shapes.icosphere(4), shapes.icosphere(4, radius=0.7, center=(0.8, 0.2, 0.0))
    room = shapes.box(6.0, center=(0.2, 0.1, 0.05))
    options = {"resolution": 400, "rule": "winding"}
    union = LayeredDepth(pieces(a, b), room, **options).query()
    shared = LayeredDepth(a, b, **options).query()
    np.testing.assert_allclose(union.volume, a.volume + b.volume - shared.volume, rtol=1e-3)
    left, right = shapes.box((3.0, 6.0, 6.0), center=(-1.3, 0.0, 0.0)), shapes.box((3.0, 6.0, 6.0), (1.7, 0.0, 0.0))
    parts = [LayeredDepth(a, half, resolution=400).query() for half in (left, right)]
    assert abs(sum(part.volume for part in parts) - a.volume) <= sum(part.error for part in parts) + 1e-9
    assert all(part.volume > 0.5 for part in parts)


def test_order_of_triangles_does_not_matter(rng):
    """Find the same spans for any order of triangles."""
    a, b = knots()
    shuffled = TriMesh(a.vertices, a.faces[rng.permutation(len(a.faces))])
    one, two = LayeredDepth(a, b).query(), LayeredDepth(shuffled, b).query()

    np.testing.assert_array_equal(one.spans, two.spans)
    np.testing.assert_array_equal(one.penetrating_a, two.penetrating_a)
    assert one.volume > 0.0


def test_axes_can_be_permuted():
    """Find the same volumes, exchanged, for bodies whose axes are exchanged."""
    a, b = knots()
    expected = LayeredDepth(a, b, axes=3, resolution=64).query()
    for order in permutations(range(3)):
        flip = order in ((0, 2, 1), (2, 1, 0), (1, 0, 2))  # a mirror image turns all faces round
        pair = [TriMesh(x.vertices[:, order], x.faces[:, [0, 2, 1]] if flip else x.faces) for x in (a, b)]
        result = LayeredDepth(*pair, axes=3, resolution=64).query()
        np.testing.assert_allclose(result.volumes, expected.volumes[list(order)], rtol=1e-3)
        np.testing.assert_allclose(result.centroid, expected.centroid[list(order)], atol=1e-3)


# The region -------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.tiny
def test_region_lies_between_outside_faces():
    """Sample along the axis of least overlap, each body from its own outside, as in Fig. 2a."""
    a, b = shapes.box(2.0), shapes.box(2.0, center=(1.0, 0.5, 1.6))  # they overlap by 1, 1.5 and 0.4
    (view_a, view_b), *others = views(a.bounds, b.bounds, 4, False)

    assert view_a.axis == 2
    np.testing.assert_allclose([view_a.low, view_a.high], [[0.0, -0.5, 0.6], [1.0, 1.0, 1.0]], atol=1e-12)
    assert (view_a.from_low, view_b.from_low) == (False, True)  # b begins at the low end, a ends at the high end
    assert [view.axis for view, _ in others] == [0, 1]
    (mirrored_b, mirrored_a), *_ = views(b.bounds, a.bounds, 4, False)
    assert (mirrored_b, mirrored_a) == (view_b, view_a)


@pytest.mark.small
@pytest.mark.tiny
def test_region_is_extended_for_nested_boxes():
    """Extend the region from the inner box to the nearer face of the outer one, as in Fig. 2b; the window stays."""
    outer, inner = shapes.box(4.0), shapes.box((1.0, 1.0, 0.6), center=(1.2, 0.0, 0.1))
    (view, view_inner), *_ = views(outer.bounds, inner.bounds, 4, False)

    # Along x the inner box begins at 0.7 and the outer one ends at 2: 1.3; along z it takes 2.2 or 2.4, along y 2.5.
    assert view.axis == 0
    np.testing.assert_allclose([view.low, view.high], [[0.7, -0.5, -0.2], [2.0, 0.5, 0.4]], atol=1e-12)
    assert (view.from_low, view_inner.from_low) == (False, True)
    for result in (LayeredDepth(outer, inner, resolution=4).query(), LayeredDepth(inner, outer, resolution=4).query()):
        np.testing.assert_allclose(result.volume, 0.6, rtol=1e-12)
        np.testing.assert_allclose(result.region, [view.low, view.high], atol=1e-12)


def test_depth_complexity_counts_crossings_within_the_region():
    """Map how often each ray crosses each body: odd where it ends inside, as in Table 1 of the paper."""
    tower = pieces(*(shapes.box((4.0, 4.0, 0.1), center=(0.0, 0.0, 0.3 * k)) for k in range(4)))
    plate = shapes.box((4.0, 4.0, 1.0), center=(0.0, 0.0, 0.95))  # from 0.45 up: the region ends at the tower's 0.95
    result = LayeredDepth(tower, plate, resolution=4).query()

    np.testing.assert_array_equal(result.depth_complexity, [np.full((4, 4), 4), np.full((4, 4), 1)])
    assert result.depth_complexity.dtype == np.int32
    assert result.volume == pytest.approx(2 * 0.1 * 16.0)
    half = shapes.box((3.0, 3.0, 2.0), center=(0.0, 0.0, 1.0))
    counts = LayeredDepth(shapes.uv_sphere(16, 9), half, resolution=9).query().depth_complexity
    assert set(np.unique(counts[0])) == {0, 1}  # the lower half of the sphere is beyond the region


# Windows, sizes and resolutions -----------------------------------------------------------------------


@pytest.mark.parametrize(("size", "exact"), [(1e2, False), (1e4, False), (1e6, True), (1e12, True)])
def test_window_far_smaller_than_the_body(size, exact):
    """Find a small body inside of a huge one, whose corners have few bits left, or none."""
    small, huge = shapes.icosphere(3), TriMesh(shapes.icosphere(2).vertices * size, shapes.icosphere(2).faces)
    result = LayeredDepth(small, huge).query()

    np.testing.assert_allclose(result.volume, small.volume, rtol=1e-4)
    assert (result.stats["bits_b"] == [0]) == exact
    np.testing.assert_array_equal(result.penetrating_a, np.arange(len(small.vertices)))


@pytest.mark.parametrize("size", [1e100, 1e150, 1e200, 1e300])
def test_bodies_huge_beyond_products(size):
    """Find a small body inside of one whose areas and volumes overflow."""
    small, huge = shapes.icosphere(2), moved(shapes.icosphere(2), scale=size)
    result = LayeredDepth(small, huge, resolution=32, axes=3).query()

    np.testing.assert_allclose(result.volumes, small.volume, rtol=1e-2)
    np.testing.assert_array_equal(result.penetrating_a, np.arange(len(small.vertices)))


def test_corner_of_a_huge_body():
    """Find the small overlap of a huge tetrahedron and a small box at its tip."""
    tip = np.array([[0.0, 0.0, 0.0], [1e9, 1e8, 0.0], [0.0, 1e9, 1e8], [1e8, 0.0, 1e9]])
    huge = TriMesh(tip, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    box = shapes.box(1.0, center=(0.3, 0.3, 0.3))
    result, finer = (LayeredDepth(box, huge, resolution=n, axes=3).query() for n in (128, 512))
    # The same, scaled down.
    near = TriMesh(tip * 1e-8, huge.faces)
    expected = LayeredDepth(box, near, resolution=512, axes=3).query()
    assert result.stats["bits_b"] == [0, 0, 0]
    assert expected.stats["bits_b"][0] >= 8
    assert abs(result.volume - expected.volume) < result.error + expected.error
    np.testing.assert_allclose(finer.volume, expected.volume, rtol=1e-4)


@pytest.mark.parametrize("offset", [1e6, -1e6])
def test_bodies_far_from_the_origin(offset):
    """Find the same overlap a million units away, up to the rounding of positions there."""
    a, b = knots()
    shift = (offset, -2.0 * offset, 0.5 * offset)
    result, expected = (LayeredDepth(*pair, axes=3).query() for pair in ((moved(a, shift), moved(b, shift)), (a, b)))

    np.testing.assert_allclose(result.volume, expected.volume, rtol=1e-5)
    np.testing.assert_allclose(result.centroid - shift, expected.centroid, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
def test_units_do_not_matter(scale):
    """Find the same share and the same place in any unit whose cube a double can hold."""
    a, b = knots()
    result, expected = LayeredDepth(moved(a, scale=scale), moved(b, scale=scale)).query(), LayeredDepth(a, b).query()

    np.testing.assert_allclose(result.volume / scale**3, expected.volume, rtol=1e-6)
    np.testing.assert_allclose(result.error / scale**3, expected.error, rtol=1e-3)
    np.testing.assert_allclose(result.centroid / scale, expected.centroid, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-110, 1e104, 1e200])
def test_units_whose_volumes_doubles_cannot_hold(scale):
    """Refuse bodies whose overlap volume overflows or underflows."""
    a, b = (moved(body, scale=scale) for body in knots())
    with pytest.raises(MeshError, match="their common volume is beyond the range of doubles; use other units"):
        LayeredDepth(a, b, resolution=16).query()
    inside = points_inside_sampled(a, b.vertices, 16)
    assert 0 < inside.sum() < len(inside)


def test_edges_that_meet_by_noise_near_the_origin():
    """Share nothing where the overlap of ordinary bodies underflows."""
    a, b = shapes.box(1.0, center=(0.5, 0.5, 0.5)), shapes.box(1.0, center=(-0.5, -0.5, 0.5))
    x = b.vertices.copy()
    x[:, :2][x[:, :2] == 0.0] = 1e-200
    result = LayeredDepth(a, TriMesh(x, b.faces), resolution=4, axes=3).query()

    assert result.volume == 0.0
    assert len(result) == 0


@pytest.mark.parametrize("resolution", [1, 2, 3, 2048])
def test_resolutions_from_one_ray_to_millions(resolution):
    """Stay within the estimated error at the coarsest and at a very fine resolution."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.7, 0.1, 0.2))
    reference = volume(a, b, resolution=1024, axes=3)
    result = LayeredDepth(a, b, resolution=resolution).query()

    assert abs(result.volume - reference) <= result.error + 1e-5
    assert result.depth_complexity.shape == (2, resolution, resolution)
    assert result.depth_complexity.max() <= 2


@pytest.mark.small
@pytest.mark.tiny
def test_bodies_without_faces():
    """Share nothing with a body that has no faces, or of which all are dead."""
    empty, box = TriMesh([], []), shapes.box(1.0)
    dead = shapes.box(1.0)
    dead.remove_triangles(np.arange(12))
    for a, b in ((empty, box), (box, empty), (empty, empty), (dead, box), (empty, None)):
        result = LayeredDepth(a, b, axes=3, resolution=8).query()
        assert result.volume == 0.0
        assert len(result.penetrating_a) == len(result.penetrating_b) == 0
    assert not points_inside_sampled(empty, [[0.0, 0.0, 0.0]], 8).any()


def test_deep_images_are_sorted():
    """Sort rays that cross hundreds of layers."""
    sheets = pieces(*(shapes.box((1.0, 1.0, 0.5), center=(0.0, 0.0, k)) for k in range(300)))
    order = np.random.default_rng(3).permutation(len(sheets.faces))
    image = image_of(TriMesh(sheets.vertices, sheets.faces[order]), 2)

    assert np.diff(image.pixel_start).tolist() == [600] * 4


# Other judges -----------------------------------------------------------------------------------------


def exact_volume(a, b):
    """Volume by manifold3d."""
    manifold3d = pytest.importorskip("manifold3d", reason="manifold3d is not installed")
    one, two = (manifold3d.Manifold(manifold3d.Mesh64(np.array(x.vertices), x.faces.astype(np.uint64))) for x in (a, b))
    assert one.status() == two.status() == manifold3d.Error.NoError
    return (one ^ two).volume()


PAIRS = [
    ("closed/elephant.off", "closed/rocker-arm.obj"),
    ("closed/knot1.off", "cad/fandisk.off"),
    ("closed/spot.obj", "cad/rotor_small.off"),
    ("cad/cheese.off", "cad/couplingdown.off"),
    ("cad/turbine.off", "closed/bunny_75k.off"),
    ("cad/anchor_dense.off", "closed/armadillo_52k.off"),
]


@shared_data.needs_data
@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_real_meshes_converge_to_the_exact_volume(pair):
    """Come to the volume that manifold3d finds, within the estimated error at every resolution."""
    bodies = []
    for file, shift in zip(pair, ((0.0, 0.0, 0.0), (0.07, -0.05, 0.11))):
        body = impinge.load(shared_data.FOLDER / file)
        low, high = body.bounds
        bodies.append(TriMesh((body.vertices - (low + high) / 2.0) / (high - low).max() + shift, body.faces))
    expected = exact_volume(*bodies)
    off = []
    for resolution in (16, 128, 512):
        for axes in (1, 3):
            result = LayeredDepth(*bodies, resolution=resolution, axes=axes).query()
            off.append(abs(result.volume - expected) / expected)
            assert off[-1] <= result.error / expected

    assert max(off[4:]) < 2e-3
    assert max(off[4:]) < max(off[:2])
    assert expected > 1e-4


def test_smooth_bodies_are_within_half_a_per_cent():
    """Find the overlap of bumpy spheres at the default resolution to half a per cent of the exact one."""
    a, b = scenes.get("bumpy_spheres_20k").surfaces
    result = LayeredDepth(a, b).query()

    np.testing.assert_allclose(result.volume, exact_volume(a, b), rtol=5e-3)


# Points -----------------------------------------------------------------------------------------------


def assert_wrong_only_near_the_surface(body, points, inside, resolution):
    """Misclassified points are within 1 / sqrt 2 of a pixel's diagonal of the surface."""
    expected = impinge.closest_points(body, points)
    wrong = np.flatnonzero(inside != expected.inside)
    low, high = body.bounds
    size = np.sort(high - low)[1:] / resolution  # the window is across the shortest side
    limit = np.hypot(*size) / np.sqrt(2.0)
    assert (expected.distance[wrong] <= limit * (1.0 + 2.0**-12)).all()
    return len(wrong)


@pytest.mark.parametrize("resolution", [4, 16, 64])
@pytest.mark.parametrize("name", ["knot", "drilled", "sheared", "needles"])
def test_misclassified_points_are_near_the_surface(rng, name, resolution):
    """Classify all points correctly except for those within a pixel of the surface."""
    body = WATERTIGHT[name]()
    low, high = body.bounds
    corners = body.vertices[rng.integers(len(body.vertices), size=(2000, 3))]
    between = (rng.dirichlet([0.5, 0.5, 0.5], 2000)[:, :, None] * corners).sum(axis=1)
    points = np.concatenate([low + (high - low) * rng.uniform(-0.1, 1.1, (2000, 3)), between])
    inside = points_inside_sampled(body, points, resolution)
    wrong = assert_wrong_only_near_the_surface(body, points, inside, resolution)

    assert wrong < 0.4 * len(points)
    assert 0.02 < impinge.points_inside(body, points).mean() < 0.8


@shared_data.needs_data
def test_points_in_a_scan(rng):
    """Classify points in the bunny, up to a pixel."""
    body = impinge.load(shared_data.FOLDER / "closed/bunny_75k.off")
    low, high = body.bounds
    points = rng.uniform(low, high, (20_000, 3))
    wrong = assert_wrong_only_near_the_surface(body, points, points_inside_sampled(body, points, 128), 128)

    assert wrong < 0.01 * len(points)


def test_crossings_are_moved_along_their_planes(rng, monkeypatch):
    """Reduce the error of points in a smooth body to second order by moving crossings to the points' own rays."""
    from impinge.detect.layered_depth import detector

    body = shapes.bumpy_sphere(6)
    low, high = body.bounds
    points = rng.uniform(low, high, (200_000, 3))
    nearest = impinge.closest_points(body, points)
    corners = body.vertices[body.faces[nearest.triangle]]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    flat = abs(normal[:, np.argmin(high - low)]) > 0.8 * np.linalg.norm(normal, axis=1)

    def wrong(resolution):
        return points_inside_sampled(body, points, resolution) != nearest.inside

    moved_ones = [wrong(n) for n in (16, 64)]
    monkeypatch.setattr(detector, "point_reach", lambda _: 0.0)
    plain = [wrong(n) for n in (16, 64)]

    assert 2 * moved_ones[0].sum() < plain[0].sum()
    assert 4 * moved_ones[1].sum() < plain[1].sum()
    assert (moved_ones[0] & flat).sum() > 10 * (moved_ones[1] & flat).sum() > 0
    assert (plain[0] & flat).sum() < 6 * (plain[1] & flat).sum()


@pytest.mark.small
@pytest.mark.tiny
def test_points_on_the_border_are_inside():
    """Count points on the surface and on the border of the window as inside, those beyond as outside."""
    box = shapes.box(2.0)
    on = [[1.0, 0.3, 0.2], [-1.0, 0.3, 0.2], [0.1, 1.0, 0.2], [0.1, 0.2, -1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    beyond = 1.000001 * np.array(on[:5])

    assert points_inside_sampled(box, on, 8).all()
    assert not points_inside_sampled(box, beyond, 8).any()
    assert len(points_inside_sampled(box, np.zeros((0, 3)), 8)) == 0


@pytest.mark.small
@pytest.mark.tiny
def test_points_see_transforms_and_active_pieces():
    """Classify points in a transformed body and in one of its pieces."""
    two = pieces(shapes.box(1.0), shapes.box(1.0, center=(5.0, 0.0, 0.0)))
    points = [[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    lift = np.eye(4)
    lift[1, 3] = 2.0

    assert points_inside_sampled(two, points, 16).tolist() == [True, True, False]
    assert points_inside_sampled(two, points, 16, PairOptions(transform_a=lift)).tolist() == [False, False, True]
    assert points_inside_sampled(two, points, 16, PairOptions(active_a=np.arange(12))).tolist() == [True, False, False]


def test_penetrating_vertices_are_those_inside():
    """List the vertices of each body inside the other, up to a pixel."""
    a, b = (moved(body) for body in scenes.get("bumpy_spheres_1k").surfaces)
    result = LayeredDepth(a, b, resolution=256).query()
    pixel = np.linalg.norm(result.region[1] - result.region[0]) / 256
    for one, other, found in ((a, b, result.penetrating_a), (b, a, result.penetrating_b)):
        closest = impinge.closest_points(other, one.vertices)
        wrong = np.setxor1d(found, np.flatnonzero(closest.inside))
        assert (closest.distance[wrong] < pixel).all()
        assert 10 < len(found) < len(one.vertices)
        assert len(wrong) < 0.05 * len(found)


def test_vertices_inside_can_be_left_out():
    """Find the same volume with ``vertices=False``, and no vertices."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    result = LayeredDepth(a, b).query(vertices=False)
    assert result.penetrating_a is None
    assert result.penetrating_b is None
    assert result.volume == LayeredDepth(a, b).query().volume > 0.0
    assert impinge.overlap_volume(a, b, vertices=False).to_dict()["penetrating_a"] is None


# Rules and self-collision -----------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.tiny
def test_rules_differ_where_a_body_overlaps_itself():
    """Leave out what a body covers twice by parity, and count it by winding; a cavity is outside by either."""
    two = pieces(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0)))
    room = shapes.box(2.0, center=(0.25, 0.0, 0.0))
    np.testing.assert_allclose(volume(two, room, rule="parity", resolution=12), 1.0, rtol=1e-9)
    np.testing.assert_allclose(volume(two, room, rule="winding", resolution=12), 1.5, rtol=1e-9)
    hole = shapes.box(0.5)
    hollow = pieces(shapes.box(1.0), TriMesh(hole.vertices, hole.faces[:, [0, 2, 1]]))
    for rule in ("parity", "winding"):
        np.testing.assert_allclose(volume(hollow, room, rule=rule, resolution=16), 0.875, rtol=1e-9)


def test_a_body_that_does_not_meet_itself():
    """Find nothing in bodies without self-overlap and inversion."""
    for body in (knots()[0], shapes.icosphere(3), shapes.cad_part()):
        result = LayeredDepth(body, axes=3).query()
        assert result.volume == result.inverted_volume == 0.0
        assert len(result.penetrating_a) == 0
        assert not result
        assert result.depth_complexity.shape == (1, 128, 128)


@pytest.mark.parametrize("axes", [1, None])
def test_overlap_of_a_body_with_itself(axes):
    """Find the lens of two balls in one body, and along three axes all vertices in it, from entries and exits alone."""
    one, two = shapes.icosphere(4), shapes.icosphere(4, center=(1.2, 0.1, 0.0))
    result = LayeredDepth(pieces(one, two), resolution=256, axes=axes).query()

    expected = volume(one, two, resolution=512)
    assert abs(result.volume - expected) < result.error
    np.testing.assert_allclose(result.volume, expected, rtol=5e-3)
    pair = LayeredDepth(one, two, resolution=512).query()
    inside = np.concatenate([pair.penetrating_a, pair.penetrating_b + len(one.vertices)])
    found = result.penetrating_a
    assert np.isin(inside, found).mean() > (0.99 if axes is None else 0.7)
    assert len(found) < 1.3 * len(inside)
    assert result.inverted_volume == 0.0


def test_body_inside_out():
    """Find the volume of an inverted body."""
    ball = shapes.icosphere(3)
    result = LayeredDepth(TriMesh(ball.vertices, ball.faces[:, [0, 2, 1]]), axes=3).query()

    assert result.volume == 0.0
    np.testing.assert_allclose(result.inverted_volume, ball.volume, rtol=1e-3)


def test_mirrored_body_overlaps_itself_as_much():
    """Find the self-overlap of a mirrored body, which is inverted."""
    two = pieces(shapes.icosphere(2), shapes.icosphere(2, center=(1.2, 0.1, 0.0)))
    mirror = np.diag([1.0, 1.0, -1.0, 1.0])
    seen, mirrored = (LayeredDepth(two).query(transform_a=matrix) for matrix in (np.eye(4), mirror))

    np.testing.assert_allclose(mirrored.volume, seen.volume, rtol=1e-3)
    np.testing.assert_array_equal(mirrored.penetrating_a, seen.penetrating_a)
    assert seen.inverted_volume == 0.0
    assert mirrored.inverted_volume > seen.volume > 0.0


def test_thick_knot_meets_itself():
    """Find where a tube that is too thick for its knot passes through itself."""
    thick = shapes.torus_knot(2, 3, 120, 12, tube_radius=0.41)
    result = LayeredDepth(thick, axes=3).query()

    assert len(impinge.self_pairs(thick)) > 0
    assert result.volume > 0.0
    assert len(result.penetrating_a) > 0


# What is refused --------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.tiny
def test_open_bodies_are_refused():
    """Name the number of open edges, the first one and the remedy."""
    body = shapes.box(2.0)
    body.remove_triangles([0])
    edge = r"3 open and 0 flipped edges, the first from \[.*\] to \[.*\] on triangle \d+, but a volume needs a closed"
    with pytest.raises(MeshError, match=f"body a has {edge}"):
        LayeredDepth(body, shapes.box(1.0)).query()
    with pytest.raises(MeshError, match=f"body b has {edge}"):
        LayeredDepth(shapes.box(1.0), body).query()
    with pytest.raises(MeshError, match="close the holes or flip triangles"):
        points_inside_sampled(body, [[0.0, 0.0, 0.0]], 8)
    body.add_triangles(shapes.box(2.0).faces[:1])
    assert LayeredDepth(body, shapes.box(1.0), resolution=8).query().volume == pytest.approx(1.0)


@pytest.mark.small
@pytest.mark.tiny
def test_inconsistent_bodies_are_refused():
    """Name the number of flipped edges; a body inverted as a whole has none."""
    box = shapes.box(2.0)
    faces = box.faces.copy()
    faces[3] = faces[3, [0, 2, 1]]
    with pytest.raises(MeshError, match="body a has 0 open and 3 flipped edges"):
        LayeredDepth(TriMesh(box.vertices, faces)).query()
    assert volume(TriMesh(box.vertices, box.faces[:, [0, 2, 1]]), shapes.box(1.0), resolution=8) == pytest.approx(1.0)


def test_open_edge_is_named_by_its_place():
    """Name the ends of the first open edge and a triangle that has it."""
    tet = TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2]])
    with pytest.raises(MeshError, match=r"3 open .* from \[1.0, 0.0, 0.0\] to \[0.0, 1.0, 0.0\] on triangle 0"):
        LayeredDepth(tet).query()


@pytest.mark.small
@pytest.mark.tiny
def test_soups_are_closed_by_position():
    """Accept a soup as closed while its corners coincide, and refuse it when they separate."""
    box = shapes.box(1.0)
    x, faces = box.vertices[box.faces].reshape(-1, 3), np.arange(36).reshape(-1, 3)
    soup = TriMesh(x, faces)
    assert volume(soup, shapes.box(0.5), resolution=8) == pytest.approx(0.125)
    x = x.copy()
    x[0] += 0.1
    soup.update(x)
    with pytest.raises(MeshError, match="open"):
        LayeredDepth(soup, box).query()


@pytest.mark.small
@pytest.mark.tiny
def test_active_pieces_must_be_closed():
    """Accept a closed piece as active triangles, and refuse open ones."""
    two = pieces(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0)))
    room, detector = shapes.box(4.0), LayeredDepth(two, shapes.box(4.0), resolution=8)
    assert detector.query(active_a=np.arange(12)).volume == pytest.approx(1.0)
    assert LayeredDepth(room, two, resolution=8).query(active_b=np.arange(24) >= 12).volume == pytest.approx(1.0)
    with pytest.raises(MeshError, match="body a has 3 open"):
        detector.query(active_a=np.arange(11))
    assert detector.query(active_a=[]).volume == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 0}, "resolution is 0, expected a whole number from 1 to 8192"),
        ({"resolution": 1.5}, "resolution is 1.5"),
        ({"resolution": True}, "resolution is True"),
        ({"resolution": 10**6}, "from 1 to 8192"),
        ({"axes": True}, "axes is True"),
        ({"axes": 2}, "axes is 2, expected one of 1, 3"),
        ({"rule": "odd"}, "rule is 'odd', expected one of 'parity', 'winding'"),
        ({"device": "tpu"}, "device is 'tpu', expected one of 'cpu', 'cuda'"),
    ],
)
def test_options_are_checked(options, message):
    """Name the allowed values of an option."""
    with pytest.raises(OptionError, match=message):
        LayeredDepth(shapes.box(1.0), **options)


def test_query_options_are_checked():
    """Refuse pair options, options of b for one body, and values out of range."""
    with pytest.raises(TypeError, match="max_pairs"):
        LayeredDepth(shapes.box(1.0), shapes.box(1.0)).query(max_pairs=1)
    with pytest.raises(OptionError, match="vertices is 1, expected True or False"):
        LayeredDepth(shapes.box(1.0)).query(vertices=1)
    with pytest.raises(OptionError, match=r"b is None, but an overlap needs two bodies; LayeredDepth\(a\) finds"):
        impinge.overlap_volume(shapes.box(1.0), None)
    with pytest.raises(OptionError, match="transform_b and active_b are for two bodies"):
        LayeredDepth(shapes.box(1.0)).query(transform_b=np.eye(4))
    with pytest.raises(OptionError, match="rule is 'odd'"):
        points_inside_sampled(shapes.box(1.0), [[0.0, 0.0, 0.0]], 8, rule="odd")


def test_bodies_beyond_the_range_of_doubles_are_refused():
    """Refuse bodies whose size overflows."""
    huge = TriMesh(shapes.box(2.0).vertices * 1.7e308, shapes.box(2.0).faces)
    with pytest.raises(MeshError, match="larger than doubles can measure; use smaller units"):
        LayeredDepth(huge, huge).query()


def test_overlap_thinner_than_numbers_has_no_volume():
    """Find no volume where the common box is too thin to be divided in doubles."""
    tiny = np.nextafter(0.0, 1.0)
    a, b = shapes.box(2.0, center=(1.0, 0.0, 0.0)), moved(shapes.box(2.0), (-1.0, 0.0, 0.0))
    x = b.vertices.copy()
    x[x[:, 0] == 0.0, 0] = tiny
    assert volume(a, TriMesh(x, b.faces)) == 0.0


# Pickling ---------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_detectors_are_pickled_and_copied(again):
    """Keep bodies and options in a pickled or copied detector, and find the same spans."""
    a, b = knots()
    detector = LayeredDepth(a, b, resolution=20, axes=3, rule="winding")
    expected = detector.query()
    other = again(detector)

    assert (other.resolution, other.axes, other.rule, other.device) == (20, 3, "winding", "cpu")
    np.testing.assert_array_equal(other.query().spans, expected.spans)
    assert again(LayeredDepth(a)).b is None
    assert again(LayeredDepth(Sphere((0.0, 0.0, 0.0), 1.0), a, resolution=8)).query().volume > 0.0


@pytest.mark.small
def test_pickled_detectors_leave_images_behind():
    """Pickle as many bytes after a query as before."""
    detector = LayeredDepth(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0)), resolution=200)
    before = len(pickle.dumps(detector))
    detector.query()

    assert len(pickle.dumps(detector)) == pytest.approx(before, abs=200)


@pytest.mark.small
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_results_are_pickled_without_bodies(again):
    """Keep all numbers of a pickled or copied result, and none of its bodies."""
    result = LayeredDepth(*knots(), resolution=20).query()
    other = again(result)

    assert (other.bodies, other.volume, other.error, other.stats) == ((), result.volume, result.error, result.stats)
    for name in ("spans", "pixel", "region", "triangles", "penetrating_a", "penetrating_b", "depth_complexity"):
        np.testing.assert_array_equal(getattr(other, name), getattr(result, name))
    assert "by layered_depth, complete" in str(other)


@pytest.mark.small
def test_repr_names_bodies_and_options():
    """Show bodies, pixels, axes and rule."""
    shown = repr(LayeredDepth(shapes.box(1.0), Sphere((0.0, 0.0, 0.0), 1.0), resolution=16))

    assert shown == "<LayeredDepth: a 12 triangles, b Sphere, 16 pixels per side, axes=1, rule='parity'>"
    assert repr(LayeredDepth(shapes.box(1.0))).startswith("<LayeredDepth: a 12 triangles, 128 pixels per side, axes=3")


# Frames -----------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch):
    """Views that were drawn, in order."""
    views_drawn = []
    draw = Cpu.draw

    def recording(self, solid, view, *args):
        views_drawn.append(view)
        return draw(self, solid, view, *args)

    monkeypatch.setattr(Cpu, "draw", recording)
    return views_drawn


def test_images_are_kept_while_nothing_moves(drawn):
    """Draw a body once while it and the window are unchanged, and again after a motion or an edit."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.8, 0.0, 0.0))
    detector = LayeredDepth(a, b, axes=3, resolution=16)
    first = detector.query()
    assert len(drawn) == 6
    assert_same(detector.query(), first)
    assert_same(LayeredDepth(a, b, axes=3, resolution=16).query(), first)
    assert len(drawn) == 6
    b.update(0.5 * (b.vertices - [0.8, 0.0, 0.0]) + [0.8, 0.0, 0.0])  # the window changes
    assert detector.query().volume < first.volume
    assert len(drawn) == 12
    body = pieces(shapes.icosphere(1, radius=0.2), shapes.box(0.5))
    detector = LayeredDepth(body, shapes.box(0.6), resolution=8)
    detector.query()
    count, x = len(drawn), body.vertices.copy()
    x[:42] *= 0.5
    body.update(x)
    detector.query()
    assert len(drawn) == count + 1  # the other body did not move, and neither did its window


def test_large_images_are_not_hoarded(monkeypatch):
    """Keep the latest image of a body at any size, and others within the limit."""
    a, b = shapes.icosphere(1), shapes.box(1.0)
    LayeredDepth(a, b, axes=3, resolution=8).query()
    kept = a.structure("layered_depth", MeshImages)._images
    assert [image.view.axis for image in kept.values()] == [0, 1, 2]
    for limit, count in ((2 * max(image.size for image in kept.values()), 2), (1, 1)):
        monkeypatch.setattr(image_cache, "KEPT_SIZE", limit)
        a.update(a.vertices * 1.001)
        LayeredDepth(a, b, axes=3, resolution=8).query()
        kept = a.structure("layered_depth", MeshImages)._images
        assert [image.view.axis for image in kept.values()] == [0, 1, 2][-count:]


def test_nothing_is_stale(rng):
    """Equal a new detector after every update, edit and change of transform or active triangles."""
    a, b = pieces(shapes.icosphere(2), shapes.box(0.5)), shapes.icosphere(2, center=(0.5, 0.0, 0.0))
    detector = LayeredDepth(a, b, axes=3, resolution=16)
    points = rng.uniform(-1.0, 1.0, (300, 3))

    def check(**options):
        fresh = [TriMesh(x.vertices, x.faces) for x in (a, b)]
        fresh[0].remove_triangles(np.flatnonzero(~a.alive))
        assert_same(detector.query(**options), LayeredDepth(*fresh, axes=3, resolution=16).query(**options))
        expected = points_inside_sampled(fresh[0], points, 16)
        np.testing.assert_array_equal(points_inside_sampled(a, points, 16), expected)

    for step in range(4):
        check()
        a.update(a.vertices + 0.1 * rng.standard_normal(3))
        check(transform_b=np.diag([1.0, 1.0, 1.0 + 0.1 * step, 1.0]))
        check(active_a=np.arange(320))
        check(active_a=np.arange(320, 332))
    a.remove_triangles(np.arange(320, 332))
    check()
    a.add_triangles(shapes.box(0.4).faces + len(a.vertices), vertices=shapes.box(0.4).vertices)
    check()


def test_transforms_are_updates():
    """Give the same bits for a moved body as for one whose vertices were moved."""
    a, b = knots()
    angle = 0.7
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    turn[:3, 3] = 0.1, 0.0, 0.02
    result = LayeredDepth(a, b).query(transform_b=turn)
    b.update(impinge.transform_points(turn, b.vertices))

    assert_same(result, LayeredDepth(a, b).query())
    assert result.volume > 0.0


def test_scratch_grows_with_the_image():
    """Enlarge the fragment buffers on demand, and release huge ones."""
    body = shapes.box(1.0)
    layers = MeshImages(body)
    solid = layers.solid(body, None, None, "a")
    for resolution in (4, 100, 8, 1500):
        for view, _ in views(solid.bounds, solid.bounds, resolution, True):
            image = layers.image(Cpu(), solid, view)
            image.assert_valid(Cpu())
            assert image.count == 2 * resolution**2
    assert layers._scratch.first[-1] < images.KEPT_FRAGMENTS


def test_cancelled_queries_say_so():
    """Stop before the first image with the reason "cancelled"."""
    event = threading.Event()
    event.set()
    result = LayeredDepth(shapes.box(1.0), shapes.box(1.0)).query(cancel=event)

    assert not result.complete
    assert result.reason == "cancelled"
    assert result.volume == 0.0
    assert result.error == 1.0  # it may be anything that fits into both boxes


def test_stages_are_timed():
    """Report the milliseconds of each stage if timing is on."""
    impinge.time_stages(True)
    try:
        stats = LayeredDepth(shapes.box(1.0), shapes.box(1.0)).query().stats
    finally:
        impinge.time_stages(False)
    assert {"region_ms", "images_ms", "spans_ms", "vertices_ms"} <= set(stats)


def test_debug_runs_check_the_whole_body(monkeypatch):
    """Check in debug runs that rays cross the whole body evenly, also where the window cuts it."""
    checked = []
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    monkeypatch.setattr(images.Image, "assert_valid", lambda image, _: checked.append(image.view.cut))
    LayeredDepth(shapes.icosphere(1), shapes.box(1.0), resolution=4).query()

    assert checked == [False, True] * 2


def test_changes_are_those_of_the_same_rays():
    """List the rays that gained and lost a span, and refuse overlaps of different rays."""
    body = pieces(shapes.box(0.2, center=(0.8, 0.8, 0.8)), shapes.box(0.5))
    detector = LayeredDepth(body, shapes.box(3.0), resolution=8)
    before = detector.query()
    x = body.vertices.copy()
    x[8:] *= 0.5
    x[8:] -= x[8:].min(axis=0) + 0.25
    body.update(x)
    entered, persisting, left = detector.query().changes(before)
    assert len(entered) == 0
    assert len(persisting) > 0 < len(left)
    body.update(x * 0.5)
    with pytest.raises(
        OptionError, match="along different rays, which cannot be compared; compare their penetrating_a"
    ):
        detector.query().changes(before)


THREADS = """
import hashlib, numpy as np, impinge
from impinge import shapes
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.points import points_inside_sampled
digests = set()
points = np.random.default_rng(1).uniform(-1.5, 1.5, size=(20_000, 3))
for threads in (1, 2, 4):
    impinge.set_threads(threads)
    a, b = shapes.torus_knot(3, 7, 900, 15), shapes.bumpy_sphere(5, center=(0.3, 0.0, 0.0))
    results = [LayeredDepth(a, b, axes=3, resolution=100).query(), LayeredDepth(a).query()]
    results.append(LayeredDepth(a, b).query(transform_a=np.diag([1.0, 1.0, 1e7, 1.0])))
    names = ("volume", "volumes", "error", "spans", "pixel", "centroid", "triangles", "penetrating_a", "penetrating_b")
    arrays = [getattr(result, name) for result in results for name in names] + [points_inside_sampled(b, points, 64)]
    digests.add(hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest())
assert len(digests) == 1, digests
"""


def test_same_bits_for_any_number_of_threads():
    """Give the same bits on one, two and four threads."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4"}
    ended = subprocess.run(
        [sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, timeout=1800
    )
    assert ended.returncode == 0, ended.stderr


def test_serial_and_threaded_kernels_agree():
    """Give the same bits from the serial kernels and from those on threads, on few triangles and many."""
    for a, b in (knots(), (shapes.box(1.0), shapes.box(1.0, center=(0.3, 0.2, 0.1)))):
        results = []
        for variant in ("serial", "parallel"):
            with launch_always(variant):
                pair = moved(a), moved(b)
                results.append((LayeredDepth(*pair, resolution=20).query(), LayeredDepth(pair[0]).query()))
        for one, two in zip(*results):
            assert_same(one, two)


def test_many_python_threads_share_bodies():
    """Return equal results to eight concurrent threads, each with its own window."""
    body = shapes.torus_knot(2, 3, 300, 20)
    others = [shapes.icosphere(3, center=(0.2 * k, 0.0, 0.0)) for k in range(8)]
    expected = [LayeredDepth(moved(body), other).query() for other in others]
    wrong = []

    def work(k):
        for _ in range(5):
            result = LayeredDepth(body, others[k]).query()
            if not np.array_equal(result.spans, expected[k].spans):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(result.volume > 0.0 for result in expected[:6])


# Sources ----------------------------------------------------------------------------------------------


def test_balls_that_are_not_triangles():
    """Find the lens of two balls, and of a ball and a mesh, from their formulas."""
    one, two = Sphere((0.0, 0.0, 0.0), 1.0), Sphere((1.0, 0.3, 0.1), 0.8)
    expected = lens(1.0, 0.8, np.sqrt(1.1))
    for a, b in ((one, two), (one, shapes.icosphere(5, radius=0.8, center=(1.0, 0.3, 0.1)))):
        result = LayeredDepth(a, b, axes=3).query()
        np.testing.assert_allclose(result.volume, expected, rtol=2e-3)
        assert len(result.penetrating_a) == 0
    mesh = shapes.icosphere(3)
    in_ball = LayeredDepth(mesh, two).query().penetrating_a
    inside = np.linalg.norm(mesh.vertices - [1.0, 0.3, 0.1], axis=1) < 0.8
    assert len(np.setxor1d(in_ball, np.flatnonzero(inside))) < 0.1 * inside.sum()


def test_height_fields_stand_on_a_floor(rng):
    """Find the volume of columns within a box, along all axes."""
    heights = rng.integers(0, 5, (6, 4)).astype(float)
    field = HeightField(heights, (1.0, 2.0, 3.0), 0.5)
    room = shapes.box(40.0)
    result = LayeredDepth(field, room, axes=3, resolution=48).query()

    np.testing.assert_allclose(result.volumes, heights.sum() * 0.25, rtol=1e-9)
    low = shapes.box((40.0, 40.0, 2.0), center=(0.0, 0.0, 4.0))  # from 3 to 5: two units of each column
    np.testing.assert_allclose(volume(field, low, resolution=48), np.minimum(heights, 2.0).sum() * 0.25, rtol=1e-9)
    ball, points = Sphere((0.0, 0.0, 0.0), 1.0), [[0.5, 0.5, 0.5], [0.8, 0.8, 0.0]]
    assert points_inside_sampled(ball, points, 64).tolist() == [True, False]
    assert impinge.points_inside(ball, points, resolution=64).tolist() == [True, False]


class Wrong:
    """A source that returns given crossings."""

    version = 0
    bounds = np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])

    def __init__(self, ray, depth, enters):
        self.found = Crossings(np.array(ray), np.array(depth), np.array(enters))

    def crossings(self, *_):
        """The given crossings."""
        return self.found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (([0, 0], [0.0, 1.0], [True, True]), "enter and leave unequally often on 1 rays, the first is ray 0"),
        (([0, 99], [0.0, 1.0], [True, False]), "have a ray or a depth out of range; expected rays from 0 to 3"),
        (([0, 0], [0.0, np.nan], [True, False]), "out of range; expected rays .* and finite depths"),
        (([0, 0], [0.0], [True, False]), "expected one ray, one depth and one flag per crossing"),
    ],
)
def test_sources_are_checked(found, message):
    """Name what is wrong with the crossings of a source."""
    with pytest.raises(MeshError, match=message):
        LayeredDepth(Wrong(*found), shapes.box(1.0), resolution=2).query()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sphere((0.0, 0.0, 0.0), -1.0), "radius of a Sphere is -1.0, expected a number above 0"),
        (lambda: Sphere((0.0, 0.0, 0.0), "big"), "radius of a Sphere is 'big'"),
        (lambda: Sphere((0.0, 0.0), 1.0), r"center of a Sphere is \(0.0, 0.0\), expected three finite numbers"),
        (lambda: Sphere((0.0, np.nan, 0.0), 1.0), "expected three finite numbers"),
        (lambda: HeightField([[1.0, -1.0]], (0, 0, 0), 1.0), "or one is negative or not finite; expected a table"),
        (lambda: HeightField([1.0, 2.0], (0, 0, 0), 1.0), r"heights of a HeightField have shape \(2,\)"),
        (lambda: HeightField([[1.0]], (0, 0, 0), 0.0), "cell of a HeightField is 0.0, expected a finite number"),
    ],
)
def test_wrong_balls_and_fields_are_refused(make, message):
    """Refuse wrong balls and height fields at construction."""
    with pytest.raises((MeshError, OptionError), match=message):
        make()


def test_sources_must_keep_their_promises():
    """Refuse sources without attributes, with another return type, or larger than their bounds."""

    class Nameless:
        def crossings(self, *_):
            """Return None."""

    with pytest.raises(MeshError, match="a is a Nameless with crossings but without version and bounds"):
        LayeredDepth(Nameless())
    Nameless.version, Nameless.bounds = 0, Wrong.bounds
    with pytest.raises(MeshError, match="crossings of Nameless are None, expected rays, depths and flags"):
        LayeredDepth(Nameless(), shapes.box(1.0), resolution=2).query()
    far = Wrong([0, 0], [-5.0, 0.0], [True, False])
    with pytest.raises(MeshError, match="as far as -5, but its bounds go from -1 to 1 there; return a box around"):
        LayeredDepth(far, shapes.box(1.0), resolution=2).query()
    far.bounds = np.zeros((3, 3))
    with pytest.raises(MeshError, match=r"bounds of body a have shape \(3, 3\), expected \(2, 3\)"):
        LayeredDepth(far, shapes.box(1.0), resolution=2).query()


def test_sources_keep_few_images():
    """Evict images of a source whose window moves, as for meshes."""
    ball, mesh = Sphere((0.0, 0.0, 0.0), 1.0), shapes.icosphere(1)
    detector = LayeredDepth(ball, mesh, resolution=4)
    for _ in range(20):
        mesh.update(0.99 * mesh.vertices + 0.01)
        assert detector.query().volume > 0.0

    assert 0 < len(detector._images_a._images) <= KEPT_IMAGES


def test_many_python_threads_share_a_source():
    """Query one detector with a source from eight threads while its window changes."""
    ball, mesh = Sphere((0.0, 0.0, 0.0), 1.0), shapes.icosphere(1)
    detector, failed = LayeredDepth(ball, mesh, resolution=8), []

    def work():
        try:
            for _ in range(30):
                mesh.update(0.999 * mesh.vertices)
                detector.query()
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_sources_cannot_be_moved_by_a_transform():
    """Refuse transforms of depth sources."""
    with pytest.raises(OptionError, match="body a is a depth source, which has neither vertices nor triangles"):
        LayeredDepth(Sphere((0.0, 0.0, 0.0), 1.0), shapes.box(1.0)).query(transform_a=np.eye(4))


def test_sources_are_redrawn_with_their_version():
    """Keep the image of a source while its version is unchanged."""
    calls = []

    class Growing:
        version = 0

        @property
        def bounds(self):
            """The box of the ball as it is."""
            return Sphere((0.0, 0.0, 0.0), 1.0 + self.version).bounds

        def crossings(self, axis, u, v):
            """Those of the ball as it is."""
            calls.append(axis)
            return Sphere((0.0, 0.0, 0.0), 1.0 + self.version).crossings(axis, u, v)

    ball = Growing()
    detector = LayeredDepth(ball, shapes.box(10.0), resolution=64)
    first = detector.query().volume
    assert detector.query().volume == first
    assert len(calls) == 1
    ball.version = 1
    np.testing.assert_allclose(detector.query().volume, 8.0 * first, rtol=1e-9)
    assert len(calls) == 2


# Errors -----------------------------------------------------------------------------------------------


def test_estimated_error_covers_unaligned_boxes(rng):
    """Cover the error where edges run along rows of pixels and all pixels of a row have the same error."""
    covered, total = 0, 60
    for _ in range(total):
        size, center = rng.uniform(0.3, 1.0, 3), rng.uniform(-0.2, 0.2, 3)
        # Two boxes far apart in one body: the window is that of both, and neither fills it.
        body = pieces(shapes.box(size, center), shapes.box(0.1, center=(1.5, 1.4, 1.3)))
        result = LayeredDepth(body, shapes.box(10.0), resolution=int(rng.integers(8, 40)), axes=1).query()
        covered += abs(result.volume - np.prod(size) - 1e-3) <= result.error

    assert covered >= 0.95 * total


@pytest.mark.parametrize("resolution", [32, 200])
@pytest.mark.parametrize("slope", [1.0, 0.5, 2.0, -3.0])
def test_estimated_error_covers_boxes_turned_along_lines_of_pixels(rng, slope, resolution):
    """Cover the error where edges have slopes of 1, 2 or 3 pixels to one and errors along them are equal.

    Of boxes turned by 45 degrees the estimate covered less than half at a resolution of 128, and less at finer ones.
    """
    turn = np.array([[1.0, -slope, 0.0], [slope, 1.0, 0.0], [0.0, 0.0, np.hypot(1.0, slope)]]) / np.hypot(1.0, slope)
    covered, total, shares = 0, 40, []
    for _ in range(total):
        size, center = rng.uniform(0.3, 1.0, 3), rng.uniform(-0.2, 0.2, 3)
        turned = TriMesh(shapes.box(size).vertices @ turn.T + center, shapes.box(size).faces)
        specks = [shapes.box(0.1, center=(x, x, 0.3)) for x in (-1.5, 1.5)]  # which make the window a square
        n = int(resolution * rng.uniform(0.8, 1.2))
        result = LayeredDepth(pieces(turned, *specks), shapes.box(10.0), resolution=n).query()
        assert result.axis == 2
        covered += abs(result.volume - np.prod(size) - 2e-3) <= result.error
        shares.append(result.error / result.volume)

    assert covered >= 0.95 * total
    assert np.median(shares) < 12.0 / resolution


@pytest.mark.small
@pytest.mark.tiny
def test_bends_are_summed_along_lines():
    """Sum second differences along every line of pixels of up to the steepest slope, and nothing of a plane."""
    n, steepest = 5, 2
    x, y = np.meshgrid(np.arange(n), np.arange(n))
    length = (x * x * (y + 1.0)) ** 1.5
    bend = np.diff(length, n=2, axis=1)
    expected = np.square(bend).sum()
    for slope in range(-steepest, steepest + 1):
        line = np.array([[c - slope * row for c in range(n - 2)] for row in range(n)])
        expected += sum(bend[line == k].sum() ** 2 for k in np.unique(line))

    np.testing.assert_allclose(squares_of_bends(length, steepest), expected, rtol=1e-12)
    assert squares_of_bends(2.0 * x + 3.0 * y + 1.0, steepest) == 0.0


@pytest.mark.parametrize("axes", [1, 3])
def test_estimated_error_covers_random_overlaps(rng, axes):
    """Cover the distance to manifold3d's exact volume for bodies of all sorts, turned and shifted at random."""
    bodies = [shapes.icosphere(3), shapes.box(1.2, cells=(3, 3, 3)), shapes.cad_part(segments=12), *knots()]
    covered, total, shares = 0, 0, []
    for _ in range(40):
        a, b = (bodies[k] for k in rng.integers(len(bodies), size=2))
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turn *= np.linalg.det(turn)
        b = TriMesh(b.vertices @ turn.T + rng.uniform(-0.4, 0.4, 3), b.faces)
        expected = exact_volume(a, b)
        result = LayeredDepth(a, b, resolution=int(rng.integers(16, 64)), axes=axes).query()
        covered += abs(result.volume - expected) <= result.error
        total += expected > 1e-3
        shares.append(result.error / max(expected, 1e-3))

    assert total > 30
    assert covered >= 38
    assert np.median(shares) < 0.2


def test_looks_of_one_axis_are_the_mean_of_three():
    """Return the mean of the sampled axes as the volume."""
    a, b = knots()
    three, one = LayeredDepth(a, b, axes=3).query(), LayeredDepth(a, b).query()

    np.testing.assert_allclose(three.volume, three.volumes.mean(), rtol=1e-12)
    assert one.volumes[one.axis] == three.volumes[one.axis] == one.volume
    assert np.isnan(np.delete(one.volumes, one.axis)).all()
