"""Pictures without a screen: both ways of drawing, and every kind of result."""

from __future__ import annotations

import ctypes.util
import os
import pickle
import sys
import threading

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.errors import FileError, MissingExtra
from impinge.view import picture

pytest.importorskip("pyvista")
pytest.importorskip("matplotlib")

CROSSED = [[0, 0, 0], [4, 0, 0], [0, 4, 0], [1, 1, -1], [1, 1, 1], [3, 3, 0]]
"""Two triangles through each other: faces (0, 1, 2) and (3, 4, 5)."""


@pytest.fixture(params=["vtk", "matplotlib"])
def back_end(request, monkeypatch):
    """Draw with VTK, then with what stands in for it where there is no OpenGL."""
    if request.param == "matplotlib":
        monkeypatch.setattr(picture, "_can_use_opengl", lambda: False)
    elif not picture._can_use_opengl():
        pytest.skip("this system has no OpenGL library")
    return request.param


@pytest.fixture
def drawn(monkeypatch):
    """Record what would be drawn: a list of (parts, title)."""
    calls = []
    monkeypatch.setattr(picture, "_can_use_opengl", lambda: False)
    monkeypatch.setattr(picture, "_draw_with_matplotlib", lambda parts, title, _: calls.append((parts, title)))
    return calls


def crossed(scale=1.0, offset=0.0):
    return impinge.TriMesh(scale * np.array(CROSSED) + offset, [[0, 1, 2], [3, 4, 5]])


def colliding_pixels(pixels):
    """How many pixels outside of title and labels are wine red, shaded or not, as nothing else in a picture is."""
    red, green, blue = np.moveaxis(pixels[60:750].astype(np.float64), 2, 0)
    return int(((red > 50) & (green < 0.45 * red) & (blue < 0.75 * red)).sum())


def coloured_pixels(pixels):
    """How many pixels are neither white nor grey nor the faint blue of the background."""
    return int((np.ptp(pixels, axis=2) > 25).sum())


def assert_is_picture(pixels):
    assert pixels.shape == (picture.SIZE[1], picture.SIZE[0], 3)
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("scene", ["crossing_triangles", "bumpy_spheres_1k"])
def test_colliding_triangles_have_their_colour(back_end, scene):
    """Show the colliding triangles of two bodies in a colour that nothing else has."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(*impinge.scenes.get(scene).bodies))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 1000


def test_self_collision(back_end):
    """Show the colliding triangles of one body."""
    pixels = picture.plot_pairs(impinge.self_pairs(crossed()))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 1000


def test_bodies_apart(back_end):
    """Show both bodies and no colliding triangle where nothing was found."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(shapes.box(), crossed(offset=3.0)))

    assert colliding_pixels(pixels) == 0
    assert coloured_pixels(pixels) > 1000


@pytest.mark.parametrize("full", [False, True], ids=["both empty", "one empty"])
def test_bodies_without_triangles(back_end, full):
    """Draw what there is, if only the title."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(impinge.TriMesh([], []), crossed() if full else ([], [])))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) == 0
    assert (coloured_pixels(pixels) > 1000) == full
    assert pixels.min() < 100, "the title is black"


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_any_scale(back_end, scale):
    """Draw bodies of any size alike; VTK and matplotlib by themselves lose what float32 cannot hold."""
    expected = picture.plot_pairs(impinge.self_pairs(crossed()))
    pixels = picture.plot_pairs(impinge.self_pairs(crossed(scale)))

    assert abs(colliding_pixels(pixels) - colliding_pixels(expected)) < 200


def test_triangles_without_area(back_end):
    """Draw triangles that are a line or a point, for which matplotlib's shading has no normal."""
    flat = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2], [0, 0, 0]])
    pixels = picture.plot_pairs(impinge.triangle_pairs(flat, flat))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 100


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 1, 9), (9, 1, 1), (9, 9, 1)])
def test_nothing_leaves_the_picture(back_end, size):
    """Let bodies of any proportion fit into the frame."""
    low, high = shapes.box().bounds
    box = impinge.TriMesh((shapes.box().vertices - low) / (high - low) * size, shapes.box().faces)
    pixels = picture.plot_pairs(impinge.triangle_pairs(box, box))
    frame = np.concatenate([pixels[[0, -1]].reshape(-1, 3), pixels[:, [0, -1]].reshape(-1, 3)])

    assert colliding_pixels(pixels) > 1000
    assert np.ptp(frame, axis=1).max() < 25


def test_path_or_pixels(back_end, tmp_path):
    """Return pixels without a path; with one, write them there and return it."""
    import matplotlib.image

    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)
    pixels = result.plot()
    path = result.plot(str(tmp_path / "a b ü [red].png"))

    assert path == tmp_path / "a b ü [red].png"
    written = np.round(255 * matplotlib.image.imread(path)[:, :, :3]).astype(np.uint8)
    np.testing.assert_array_equal(written, pixels)


@pytest.mark.parametrize("name", ["missing/x.png", "x.strange", "no-ending", "folder.png", ""])
def test_path_that_cannot_be_written(name, tmp_path):
    """Name the path and the remedy where the picture cannot be written."""
    (tmp_path / "folder.png").mkdir()

    with pytest.raises(FileError, match=r"could not be written to .*choose a writable \.png file"):
        picture.write_picture(np.zeros((4, 4, 3), dtype=np.uint8), tmp_path / name)


@pytest.mark.parametrize("ending", sorted(picture.ENDINGS))
def test_every_ending_that_is_known(ending, tmp_path):
    """Write a file of the format that the ending stands for, capital letters too."""
    from PIL import Image

    path = picture.write_picture(np.full((8, 8, 3), 90, dtype=np.uint8), tmp_path / f"x{ending.upper()}")
    with Image.open(path) as found:
        assert found.format == picture.ENDINGS[ending].upper()


def test_unknown_endings_are_noticed_first(tmp_path):
    """Refuse an ending that no picture has before there is a picture, and say what is wrong."""
    with pytest.raises(FileError, match=r"x.foo \(the ending '.foo' is not known\); choose a writable .png file"):
        picture.check_path(tmp_path / "x.foo")


def test_earlier_picture_stays_where_a_new_one_fails(tmp_path, monkeypatch):
    """Keep the picture that is there, and leave no part of the new one, where the disk is full."""
    path = picture.write_picture(np.zeros((4, 4, 3), dtype=np.uint8), tmp_path / "x.png")
    before = path.read_bytes()

    def fail(file, data):
        with file.open("wb") as opened:
            opened.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_bytes", fail)
    with pytest.raises(FileError, match=r"x.png \(No space left on device\)"):
        picture.write_picture(np.ones((4, 4, 3), dtype=np.uint8), path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_legend_shows_colours(drawn):
    """Put a square of its colour beside each label, the last one lowest."""
    parts = [
        picture.Part(name, np.zeros((1, 3, 3)), colour, 1.0, False)
        for name, colour in zip("ab", ("#0a141e", "#fa0000"))
    ]
    pixels = np.full((900, 1200, 3), 255, dtype=np.uint8)
    picture._add_swatches(pixels, parts)
    rows = {
        tuple(colour): np.flatnonzero((pixels == colour).all(axis=2).any(axis=1))
        for colour in ([10, 20, 30], [250, 0, 0])
    }

    assert rows[10, 20, 30].max() < rows[250, 0, 0].min()
    assert all(10 < len(found) < 40 for found in rows.values())


@pytest.mark.parametrize("name", ["a$\\frac{$b.ply", "two\nlines.ply", "no\udcfftext.ply", "x" * 300, "ü漢字.ply", ""])
def test_names_may_hold_anything(back_end, name):
    """Draw bodies of any name: formulas, line breaks, bytes that are no text, and names without end."""
    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)

    assert_is_picture(picture.draw_parts(picture.parts_of_pairs(result, (name, name)), f"{name} and {name}"))


def test_words_are_one_line_that_fits():
    """Show letters as they are, replace what has no shape, and tell by dots that there was more."""
    assert picture.readable("a$b ü.ply", 20) == "a$b ü.ply"
    assert picture.readable("a\nb\udcff", 20) == "a?b\\udcff"
    assert picture.readable("x" * 30, 20) == "x" * 19 + "…"


def test_long_titles_are_set_smaller():
    """Set a title that would leave the picture in smaller letters, and no other."""
    assert picture._font_for("x" * picture.TITLE_LETTERS) == picture.TITLE_FONT
    assert picture._font_for("x" * 2 * picture.TITLE_LETTERS) < picture.TITLE_FONT


def test_bodies_have_their_names(drawn):
    """Call bodies by the names that the caller gives, and add the curves in which they cross."""
    bodies = impinge.scenes.get("boxes_overlapping_by_half").bodies
    report = impinge.check(*bodies)
    labels = [part.label for part in picture.parts_of_pairs(report.pairs, ("left.ply", "right.ply"), report.curves)]

    assert [label.split(":")[0] for label in labels[:-1]] in (
        ["left.ply"] * 2 + ["right.ply"] * 2,
        ["left.ply", "right.ply"],
    )
    assert labels[-1] == f"{len(report.curves.loops)} curve of crossing"


def test_title_counts_pairs(drawn):
    """Say how many pairs meet, and how, or what the caller wants."""
    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)
    picture.plot_pairs(result)
    picture.plot_pairs(result, title="my own")

    assert [title for _, title in drawn] == ["1 pair of triangles meets (1 crossing)", "my own"]


def test_incomplete_result_says_so(drawn):
    """Say in the title that a result was cut short, and why."""
    bodies = impinge.scenes.get("boxes_overlapping_by_half").bodies
    picture.plot_pairs(impinge.triangle_pairs(*bodies, max_pairs=2))
    picture.plot_pairs(impinge.triangle_pairs(*bodies))

    assert drawn[0][1].startswith("2 pairs")
    assert "cut short: limit" in drawn[0][1]
    assert "cut short" not in drawn[1][1]


def test_labels_count_triangles(drawn):
    """Label each body with its triangles and its colliding ones."""
    bodies = impinge.scenes.get("crossing_triangles").bodies
    picture.plot_pairs(impinge.triangle_pairs(*bodies))
    picture.plot_pairs(impinge.self_pairs(shapes.box()))

    assert [[part.label for part in parts] for parts, _ in drawn] == [
        ["a: 1 colliding", "b: 1 colliding"],
        ["body: 12 triangles"],
    ]


def test_body_that_was_cut_since(drawn):
    """Draw the body as it is now, although the result names triangles that are gone."""
    body = crossed()
    result = impinge.self_pairs(body)
    body.remove_triangles([1])
    picture.plot_pairs(result)
    body.compact()
    picture.plot_pairs(result)

    assert [sum(len(part.corners) for part in parts) for parts, _ in drawn] == [1, 1]


def test_result_without_bodies(drawn):
    """Draw an empty picture of a result that does not know its bodies."""
    picture.plot_pairs(impinge.TrianglePairs(pairs=np.zeros((1, 2), np.int32), kind=np.ones(1, np.int8)))

    assert drawn[0][0] == []


def test_curves(back_end, tmp_path):
    """Show both bodies, and the curves in which they cross in a colour that nothing else has."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))
    pixels = impinge.intersection_curves(a, b).plot()

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 300
    assert impinge.intersection_curves(a, b).plot(tmp_path / "curves.png") == tmp_path / "curves.png"
    apart = picture.plot_curves(impinge.intersection_curves(a, shapes.box(1.0, (5.0, 0.0, 0.0))))
    assert colliding_pixels(apart) == 0
    assert coloured_pixels(apart) > 1000


def test_curves_are_drawn_where_they_were_found(drawn):
    """Draw curves with the bodies as the query saw them: moved by transforms, active triangles only, not as now."""
    a, b = shapes.icosphere(2), shapes.icosphere(2)
    matrix = np.eye(4)
    matrix[0, 3] = 1.1
    curves = impinge.intersection_curves(a, b, transform_b=matrix, active_b=np.arange(200))
    a.update(a.vertices + 5.0)
    curves.plot()
    (of_a, of_b, lines), title = drawn[0]

    assert (len(of_a.corners), len(of_b.corners), len(lines.corners)) == (320, 200, len(curves))
    assert of_a.corners[..., 0].min() < lines.corners[..., 0].min() <= lines.corners[..., 0].max()
    assert lines.corners[..., 0].max() < of_b.corners[..., 0].max()
    assert f"{len(curves.loops)} curve" in title
    impinge.intersection_curves(a, b).plot()
    assert drawn[1][1] == "0 curves, 0 segments, length 0"


@pytest.mark.parametrize(
    ("found", "display", "expected"),
    [(None, None, False), ("EGL", None, True), ("OSMesa", None, True), (None, ":0", True)],
)
def test_search_for_opengl(found, display, expected, monkeypatch):
    """Use VTK only where a screen or a library for drawing in memory is there."""
    environment = {} if display is None else {"DISPLAY": display}
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so" if name == found else None)

    assert picture._can_use_opengl() == expected
    assert ("VTK_DEFAULT_OPENGL_WINDOW" in environment) == (found is not None)


@pytest.mark.parametrize("missing", ["pyvista", "matplotlib.backends.backend_agg"])
def test_missing_package_is_named(missing, monkeypatch):
    """Name the extra to install where a package for pictures is missing."""
    monkeypatch.setattr(picture, "_can_use_opengl", lambda: missing == "pyvista")
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=r"install impinge\[picture\]"):
        picture.plot_pairs(impinge.self_pairs(crossed()))


def tets_in_each_other():
    return shapes.tet_box(3, 3, 1), shapes.tet_box(1, 1, 1, center=(0.1, 0.1, 0.7))


def test_contacts(back_end, tmp_path):
    """Draw bodies, the vertices inside and their ways out, by either way of drawing."""
    path = tmp_path / "contacts.png"
    contacts = impinge.penetrating_vertices(tets_in_each_other(), depth=True)

    assert contacts.plot(path) == path
    assert path.stat().st_size > 1000
    assert_is_picture(contacts.plot())
    assert colliding_pixels(contacts.plot()) > 20


def test_parts_of_contacts(drawn):
    """Mark each vertex once, join it with its way out if depths are known, and colour many bodies by turns."""
    bodies = tets_in_each_other()
    impinge.penetrating_vertices(bodies, depth=True).plot()
    impinge.penetrating_vertices([body.surface for body in bodies]).plot()
    impinge.penetrating_vertices([*bodies, shapes.tet_box(1, 1, 1, center=(9, 0, 0))]).plot()
    labels = [[part.label for part in parts] for parts, _ in drawn]
    contacts = impinge.penetrating_vertices(bodies)
    inside = len(np.unique(np.stack([contacts.body, contacts.vertex], axis=1), axis=0))

    assert labels[0][:2] == ["body 0: 60 triangles", "body 1: 12 triangles"]
    assert labels[0][2:] == ["ways out", f"{inside} vertices inside"]
    assert labels[1][2:] == [f"{inside} vertices inside"]
    assert labels[2][:2] == ["2 bodies: 72 triangles", "1 body: 12 triangles"]
    assert "tets" in drawn[0][1]
    assert "surfaces" in drawn[1][1]


def test_no_contacts(drawn):
    """Draw bodies that are apart without any mark."""
    apart = [shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1, center=(5, 0, 0))]
    impinge.penetrating_vertices(apart, depth=True).plot()

    assert [part.label for part in drawn[0][0]] == ["body 0: 12 triangles", "body 1: 12 triangles"]


def lens(resolution=24, **options):
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))
    return impinge.LayeredDepth(a, b, resolution=resolution).query(**options)


def test_overlap(back_end, tmp_path):
    """Draw the overlap in a colour of its own between both bodies, or nothing of it where they are apart."""
    path = tmp_path / "overlap.png"
    pixels = lens().plot()

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 3000
    assert lens().plot(path) == path
    apart = impinge.overlap_volume(shapes.icosphere(2), shapes.box(1.0, (5.0, 0.0, 0.0))).plot()
    assert colliding_pixels(apart) == 0
    assert coloured_pixels(apart) > 1000


def stretched(body, size):
    return impinge.TriMesh(body.vertices * size, body.faces)


def volume_of(corners):
    """Volume that closed triangles enclose."""
    return np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0


@pytest.mark.parametrize("axis", range(3))
def test_columns_fill_the_overlap(axis):
    """Draw columns that are closed, look outwards, and together are the volume that was found, along any axis."""
    size = np.ones(3)
    size[axis] = 0.2
    a, b = (stretched(body, size) for body in (shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))))
    result = impinge.overlap_volume(a, b, resolution=24)
    columns = picture.columns_of_spans(result, 1)

    assert result.axis == axis
    assert len(columns) == 12 * len(result) > 1000
    np.testing.assert_allclose(volume_of(columns), result.volume, rtol=1e-9)
    low, high = result.region
    assert (columns.reshape(-1, 3) >= low - 1e-12).all()
    assert (columns.reshape(-1, 3) <= high + 1e-12).all()


def test_parts_of_an_overlap(drawn, monkeypatch):
    """Draw bodies as they were asked about, tell volume and rays, and say so if not every span is drawn."""
    a, b = shapes.icosphere(2), shapes.icosphere(2)
    matrix = np.eye(4)
    matrix[0, 3] = 1.1
    result = impinge.overlap_volume(a, b, transform_b=matrix, resolution=24)
    a.update(a.vertices + 5.0)
    result.plot()
    (of_a, of_b, columns), title = drawn[0]

    assert [of_a.label, of_b.label] == ["a: 320 triangles", "b: 320 triangles"]
    assert columns.label == f"overlap: {len(result)} spans"
    assert of_a.corners[..., 0].min() < columns.corners[..., 0].min() <= columns.corners[..., 0].max()
    assert columns.corners[..., 0].max() < of_b.corners[..., 0].max()
    assert title == f"overlap volume {result.volume:.6g} ± {result.error:.1g}, seen by 24 x 24 rays"
    monkeypatch.setattr(picture, "MOST_COLUMNS", 60)
    result.plot()
    fewer = drawn[1][0][2]
    assert fewer.label.endswith(", drawn by one ray of 3 x 3")
    assert 12 * 20 < len(fewer.corners) < len(columns.corners) / 4
    np.testing.assert_allclose(volume_of(picture.columns_of_spans(result, 3)), result.volume, rtol=0.2)


def test_overlap_of_one_body_and_of_none(drawn):
    """Draw where a body overlaps itself; say that a query was cut short; draw nothing of sources and old results."""
    knot = shapes.torus_knot(2, 3, 60, 8, tube_radius=0.41)
    impinge.LayeredDepth(knot, resolution=32).query().plot()
    event = threading.Event()
    event.set()
    lens(cancel=event).plot()
    impinge.LayeredDepth(impinge.Sphere((0.0, 0.0, 0.0), 1.0), shapes.box(1.0), resolution=8).query().plot()

    assert [part.label.split(":")[0] for part in drawn[0][0]] == ["body", "overlap"]
    assert drawn[1][1].endswith("cut short: cancelled")
    assert [part.label.split(":")[0] for part in drawn[2][0]] == ["b", "overlap"]
    kept = pickle.loads(pickle.dumps(lens()))
    kept.plot()
    assert [part.label.split(":")[0] for part in drawn[3][0]] == ["overlap"]


def test_spheres_of_a_level_are_drawn(back_end):
    """Draw as many balls as the level has, where they are."""
    mesh = shapes.box()
    tree = impinge.build_spheres(mesh, builder="octree", levels=1)

    assert_is_picture(picture.plot_tree(tree, mesh, 1))


def test_spheres_are_as_large_as_they_are(drawn):
    """Put the triangles of each ball at its radius around its centre, in the unit that the scene is scaled to."""
    mesh = shapes.box()
    tree = impinge.build_spheres(mesh, builder="octree", levels=1)
    picture.plot_tree(tree, mesh, 0)
    (body, ball), title = drawn[0]

    assert title == "level 0: 1 sphere, wrapped, octree"
    np.testing.assert_allclose(np.ptp(ball.corners.reshape(-1, 3), axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.ptp(body.corners.reshape(-1, 3), axis=0), 1.0 / np.sqrt(3.0), atol=1e-12)
