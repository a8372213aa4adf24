"""The experiments of [Heidelberger2003] run, their candidates agree, and what they found can be kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import impinge
from benchmarks.measure import Row
from benchmarks.papers import p004_frames, p004_particles, p004_points, p004_volumes
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p004_bodies import FIGURE_9, TABLE_1, TABLE_2, knot_of, sphere_of, stack
from benchmarks.papers.p004_frames import Measured, measure, production, published
from benchmarks.papers.p004_particles import Rain, Run
from benchmarks.papers.p004_points import KNOTS, LOOKUP, PUBLISHED_LOOKUP, SPHERES
from benchmarks.papers.p004_rain import GRAVITY, LIFE, LOWEST, RESTITUTION, SLIDING, particle_scene
from benchmarks.papers.p004_volumes import LISTS, PEELING, SINGLE, Figures, straight_line
from impinge import scenes
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.mesh import shapes


@pytest.fixture(scope="module")
def volumes() -> Experiment:
    return p004_volumes.run(quick=True)


@pytest.fixture(scope="module")
def points() -> Experiment:
    return p004_points.run(quick=True)


@pytest.fixture(scope="module")
def particles() -> Experiment:
    return p004_particles.run(quick=True)


@pytest.fixture(params=["volumes", "points", "particles"])
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return request.getfixturevalue(request.param)


# bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [*TABLE_1, FIGURE_9], ids=lambda row: row.scene_name)
def test_pairs_have_the_faces_of_table_1(row):
    """Have exactly as many faces as the objects of the paper; refuse others."""
    assert [len(surface) for surface in row.scene().surfaces] == list(row.faces)
    with pytest.raises(AssertionError, match="expected"):
        replace(row, faces=(1, 2)).scene()


@pytest.mark.parametrize("row", TABLE_2[:4], ids=lambda row: row.name)
def test_objects_have_the_faces_of_table_2(row):
    """Have exactly as many faces as the objects of the paper, in closed bodies; refuse others."""
    for body in (knot_of(row), sphere_of(row)):
        assert len(body) == row.faces
        assert body.volume > 0.0
    with pytest.raises(AssertionError, match="expected 3"):
        sphere_of(replace(row, faces=3))


def test_knots_are_crossed_as_often_as_the_objects_of_the_paper():
    """Cross knots along their shortest side six times or more, spheres twice."""
    for row in TABLE_2[:3]:
        depth = [
            LayeredDepth(body, resolution=64, axes=1).query().depth_complexity.max()
            for body in (knot_of(row), sphere_of(row))
        ]
        assert depth[0] >= 6
        assert depth[1] == 2


@pytest.mark.parametrize("layers", [1, 2, 4, 8])
def test_stacks_differ_in_depth_only(layers):
    """Cross each sphere of a stack twice, with about the same faces and fragments, through the same window."""
    body = stack(layers, 4000)
    result = LayeredDepth(body, shapes.box(4.0), resolution=128).query()

    assert result.axis == 2
    assert result.depth_complexity[0].max() == 2 * layers
    np.testing.assert_allclose(len(body), 4000, rtol=0.1)
    np.testing.assert_allclose(result.stats["fragments_a"][0], 2.0 * np.pi / 1.01**2 / 4.0 * 128**2, rtol=0.03)
    np.testing.assert_allclose(result.region[:, :2], [[-1.005] * 2, [1.005] * 2], rtol=1e-9)
    assert LayeredDepth(body, resolution=64).query().volume == 0.0


# frames -----------------------------------------------------------------------------------------------------


def test_stages_of_every_frame_are_timed():
    """Have times of all stages for each candidate and frame, and leave the timer off afterwards."""
    scene = "bumpy_spheres_1k"
    candidates = [
        production("one", scenes.get(scene)),
        published("two", scenes.get(scene), rendering="peeling"),
        published("three", scenes.get(scene), rendering="a_buffer"),
    ]
    groups = [("pair", candidates)]
    found = measure(groups, [0.0, 0.1, 0.2])[0]

    for each in found.values():
        assert len(each.images_ms) == len(each.spans_ms) == len(each.vertices_ms) == 3
        assert min(each.images_ms) > 0.0
        assert each.volume > 0.0
        assert max(each.depth) == 2
        assert each.depth == found["one"].depth
        assert each.fragments == pytest.approx(found["one"].fragments, rel=1e-3)
    assert found["one"].row.ratio == 1.0
    assert "images_ms" not in LayeredDepth(*scenes.get("bumpy_spheres_1k").surfaces).query().stats


def test_no_time_counts_where_volumes_differ():
    """Return nothing if candidates find different volumes."""
    one, two = (scenes.get("bumpy_spheres_1k") for _ in range(2))
    groups = [("pair", [production("fine", one), production("coarse", two, resolution=32)])]
    with pytest.raises(AssertionError, match=r"pair, time 0: coarse finds the volume .* no time counts"):
        measure(groups, [0.0])
    assert p004_frames.RESOLUTION == 128


# claims -----------------------------------------------------------------------------------------------------


def test_straight_line_is_found():
    """Find constant and slope of points on a line, and how far others are off as a share."""
    constant, slope, residual = straight_line([1.0, 2.0, 5.0], [5.0, 7.0, 13.0])
    np.testing.assert_allclose((constant, slope), (3.0, 2.0), rtol=1e-9)
    assert residual < 1e-9
    assert straight_line([1.0, 2.0, 4.0], [1.0, 4.0, 16.0])[2] > 0.2


def _made_up(images: float, spans: float = 1.0, depth=(2, 2), vertices: float = 1.0) -> Measured:
    row = Row("scene", "candidate", images + spans, images + spans, 1.0)
    return Measured(row, [images], [spans], [vertices], depth, 1.0, 1.0)


def _volume_figures(*, as_in_the_paper: bool) -> Figures:
    """Times that grow as in the paper, or contrary to it."""
    good = as_in_the_paper
    pairs = {
        row: {
            SINGLE: _made_up(5.0),
            PEELING: _made_up((10.0 if row.figure == 7 else 20.0) if good else 500.0),
        }
        for row in TABLE_1
    }
    faces = {
        n: {
            SINGLE: _made_up(1.0 + 1e-5 * n if good else 1e-9 * n**2, 1.0 if good else 1e-4 * n),
            PEELING: _made_up(2.0 + 2e-5 * n),
        }
        for n in (10_000, 50_000, 500_000)
    }
    layers = {n: {SINGLE: _made_up(5.0), PEELING: _made_up(5.0 * (n if good else n**2))} for n in (1, 2, 4, 8)}
    fragments = {row: [10, 20, 30] if good else [30, 20, 10] for row in TABLE_1}
    return Figures(pairs, faces, layers, fragments, {}, dict.fromkeys(TABLE_1, 10.0 if good else 100.0))


@pytest.mark.parametrize("as_in_the_paper", [True, False])
def test_figures_decide_the_claims_on_volumes(as_in_the_paper, monkeypatch):
    """Call every claim held by figures as in the paper, and none by contrary ones or by a body that is not inside."""
    if not as_in_the_paper:
        wrong = VolumeOverlap(
            volume=9.0,
            error=0.1,
            spans=np.zeros((0, 2)),
            pixel=np.zeros((0, 2)),
            region=np.zeros((2, 3)),
            centroid=None,
        )
        monkeypatch.setattr(LayeredDepth, "query", lambda _: wrong)
    verdicts = {claim.verdict for claim in p004_volumes.claims(_volume_figures(as_in_the_paper=as_in_the_paper))}

    assert verdicts == {"held" if as_in_the_paper else "not held"}


def _point_figures(*, as_in_the_paper: bool) -> dict[tuple[str, str], p004_points.Measured]:
    found = {}
    for row in TABLE_2:
        for shape in (KNOTS, SPHERES):
            deep = shape == KNOTS
            if as_in_the_paper:
                image, peeling, lookup = 1.0 + 1e-5 * row.faces, 8.0 if deep else 2.0, 26.0
            else:
                image, peeling, lookup = 1e-9 * row.faces**2, 1.0 if deep else 2.0, 1e-3 * row.faces
            ms = {SINGLE: image, PEELING: peeling * image, LISTS: image, LOOKUP: lookup, PUBLISHED_LOOKUP: lookup}
            rows = {name: Row("scene", name, value, value, 1.0) for name, value in ms.items()}
            found[shape, row.name] = p004_points.Measured(
                rows, 8 if deep else 2, 1, 0.01, 0.3 if as_in_the_paper else 0.8, as_in_the_paper, 0.02, 0.4
            )
    return found


@pytest.mark.parametrize("as_in_the_paper", [True, False])
def test_figures_decide_the_claims_on_points(as_in_the_paper):
    """Call every claim held by figures as in the paper, and none by contrary ones."""
    found = _point_figures(as_in_the_paper=as_in_the_paper)
    verdicts = {claim.verdict for claim in p004_points.claims(found, TABLE_2)}

    assert verdicts == {"held" if as_in_the_paper else "not held"}


@pytest.mark.parametrize(
    ("ms", "published_ms", "far", "published_far", "verdict"),
    [
        (5.0, 10.0, 0.2, 0.3, "held"),
        (10.0, 1.0, 0.8, 0.3, "not held"),
        (5.0, 40.0, 0.2, 0.6, "not held"),
    ],
)
def test_figures_decide_the_claims_on_particles(ms, published_ms, far, published_far, verdict):
    """Call 50 frames per second enough, and 25 not, of the production detector and of the paper as written."""
    run = Run(contacts=[5], wrong=[0.01], farthest=[far], depth=[0.0])
    run.published_ms.append(published_ms)
    run.published_wrong.append(0.02)
    run.published_farthest.append(published_far)
    for stage in run.ms.values():
        stage.append(ms)

    assert run.fps == pytest.approx(250.0 / ms)
    assert run.published_fps == pytest.approx(1e3 / (3.0 * ms + published_ms))
    assert {claim.verdict for claim in p004_particles.claims(run)} == {verdict}


# particles --------------------------------------------------------------------------------------------------


def test_particles_fall_and_begin_anew():
    """Fall by gravity, and begin above when old or far below, without a contact."""
    _, rain = particle_scene(100)
    rain.age[:] = 0.0
    before = rain.position.copy()
    rain.fall(0.1)
    np.testing.assert_allclose(rain.position[:, 2] - before[:, 2], 0.01 * GRAVITY, rtol=1e-9)
    rain.age[:3] = LIFE
    rain.position[3, 2] = LOWEST
    rain.remember(np.arange(5))
    rain.fall(0.1)

    assert (rain.position[:4, 2] >= 1.0).all()
    assert (rain.velocity[:4] == 0.0).all()
    assert np.flatnonzero(rain.recent(1.0)).tolist() == [4]


def test_particles_leap_off_a_surface_that_moves():
    """Mirror what points into the surface, relative to it, keep what leaves it, and put both on the surface."""
    _, rain = particle_scene(3)
    rain.velocity[:] = [[1.0, 0.0, -2.0], [0.0, 0.0, 3.0], [7.0, 7.0, 7.0]]
    up, wind = np.array([[0.0, 0.0, 1.0]] * 2), np.array([[0.0, 0.0, 1.0]] * 2)
    rain.bounce(np.array([0, 1]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), up, wind)

    np.testing.assert_allclose(rain.velocity[0], [SLIDING, 0.0, 1.0 + 3.0 * RESTITUTION], rtol=1e-12)
    np.testing.assert_allclose(rain.velocity[1], [0.0, 0.0, 3.0], rtol=1e-12)
    np.testing.assert_allclose(rain.velocity[2], [7.0, 7.0, 7.0], rtol=0.0)
    np.testing.assert_allclose(rain.position[:2], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], rtol=0.0)


def test_no_particle_stays_inside():
    """Bring all particles out of the body that were found in it, frame by frame, while many are in contact."""
    rain, run = Rain(2000), Run()
    for _ in range(40):
        rain.frame()
    for _ in range(4):
        rain.frame(run, check=True)
    inside = impinge.closest_points(rain.body, rain.particles.position)

    assert min(run.contacts) > 20
    assert rain.particles.recent(0.5).sum() > 20
    assert max(run.depth) < 1e-9
    low, high = rain.body.bounds
    pixel = np.hypot(*np.sort(high - low)[1:]) / 128
    assert inside.distance[np.asarray(inside.inside)].max(initial=0.0) < pixel
    assert (rain.particles.position[:, 2] > LOWEST - 0.5).all()


def test_picture_of_particles():
    """Show particles of recent contact in a colour of their own."""
    pytest.importorskip("pyvista")
    rain = Rain(500)
    for _ in range(40):
        rain.frame()
    pixels = p004_particles.picture_of(rain)
    red, green, blue = np.moveaxis(pixels[60:750].astype(float), 2, 0)

    assert ((red > 50) & (green < 0.45 * red) & (blue < 0.75 * red)).sum() > 20


# files ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_picture_and_tables_are_written(experiment: Experiment, written_page):
    """Write all side by side; the page shows the picture, every claim and every candidate."""
    assert "the paper" in written_page(experiment)
