"""Pictures without a screen: both renderers, and every kind of result."""

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
from impinge.view import output_files, picture, rendering

pytest.importorskip("pyvista")
pytest.importorskip("matplotlib")

CROSSED = [[0, 0, 0], [4, 0, 0], [0, 4, 0], [1, 1, -1], [1, 1, 1], [3, 3, 0]]
"""Two crossing triangles: faces (0, 1, 2) and (3, 4, 5)."""


@pytest.fixture(params=["vtk", "matplotlib"])
def back_end(request, monkeypatch):
    """Render with VTK, then with matplotlib."""
    if request.param == "matplotlib":
        monkeypatch.setattr(rendering, "_can_use_opengl", lambda: False)
    elif not rendering._can_use_opengl():
        pytest.skip("this system has no OpenGL library")
    return request.param


@pytest.fixture
def drawn(monkeypatch):
    """Record the draw items instead of rendering: a list of (items, title)."""
    calls = []
    monkeypatch.setattr(rendering, "_can_use_opengl", lambda: False)
    monkeypatch.setattr(rendering, "_render_with_matplotlib", lambda items, title, _: calls.append((items, title)))
    return calls


def crossed(scale=1.0, offset=0.0):
    return impinge.TriMesh(scale * np.array(CROSSED) + offset, [[0, 1, 2], [3, 4, 5]])


def colliding_pixels(pixels):
    """Number of wine-red pixels outside of title and labels; only colliding triangles have this colour."""
    red, green, blue = np.moveaxis(pixels[60:750].astype(np.float64), 2, 0)
    return int(((red > 50) & (green < 0.45 * red) & (blue < 0.75 * red)).sum())


def coloured_pixels(pixels):
    """Number of pixels that are neither white nor grey nor the faint blue of the background."""
    return int((np.ptp(pixels, axis=2) > 25).sum())


def assert_is_picture(pixels):
    assert pixels.shape == (rendering.SIZE[1], rendering.SIZE[0], 3)
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("scene", ["crossing_triangles", "bumpy_spheres_1k"])
def test_colliding_triangles_have_their_colour(back_end, scene):
    """Show the colliding triangles of two bodies in their own colour."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(*impinge.scenes.get(scene).bodies))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 1000


def test_self_collision(back_end):
    """Show the colliding triangles of one body."""
    pixels = picture.plot_pairs(impinge.self_pairs(crossed()))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 1000


def test_bodies_apart(back_end):
    """Show both bodies and no colliding triangle for an empty result."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(shapes.box(), crossed(offset=3.0)))

    assert colliding_pixels(pixels) == 0
    assert coloured_pixels(pixels) > 1000


@pytest.mark.parametrize("full", [False, True], ids=["both empty", "one empty"])
def test_bodies_without_triangles(back_end, full):
    """Draw the remaining body and the title."""
    pixels = picture.plot_pairs(impinge.triangle_pairs(impinge.TriMesh([], []), crossed() if full else ([], [])))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) == 0
    assert (coloured_pixels(pixels) > 1000) == full
    assert pixels.min() < 100, "the title is black"


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_any_scale(back_end, scale):
    """Draw bodies of any size alike, beyond the float32 range of the renderers."""
    expected = picture.plot_pairs(impinge.self_pairs(crossed()))
    pixels = picture.plot_pairs(impinge.self_pairs(crossed(scale)))

    assert abs(colliding_pixels(pixels) - colliding_pixels(expected)) < 200


def test_triangles_without_area(back_end):
    """Draw triangles that degenerate to a line or a point, which have no normal."""
    flat = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2], [0, 0, 0]])
    pixels = picture.plot_pairs(impinge.triangle_pairs(flat, flat))

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 100


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 1, 9), (9, 1, 1), (9, 9, 1)])
def test_nothing_leaves_the_picture(back_end, size):
    """Fit bodies of any proportion into the picture."""
    low, high = shapes.box().bounds
    box = impinge.TriMesh((shapes.box().vertices - low) / (high - low) * size, shapes.box().faces)
    pixels = picture.plot_pairs(impinge.triangle_pairs(box, box))
    frame = np.concatenate([pixels[[0, -1]].reshape(-1, 3), pixels[:, [0, -1]].reshape(-1, 3)])

    assert colliding_pixels(pixels) > 1000
    assert np.ptp(frame, axis=1).max() < 25


def test_path_or_pixels(back_end, tmp_path):
    """Return pixels without a path; with one, write the file and return its path."""
    import matplotlib.image

    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)
    pixels = result.plot()
    path = result.plot(str(tmp_path / "a b ü [red].png"))

    assert path == tmp_path / "a b ü [red].png"
    written = np.round(255 * matplotlib.image.imread(path)[:, :, :3]).astype(np.uint8)
    np.testing.assert_array_equal(written, pixels)


@pytest.mark.parametrize("name", ["missing/x.png", "x.strange", "no-ending", "folder.png", ""])
def test_path_that_cannot_be_written(name, tmp_path):
    """Name path and remedy where the picture cannot be written."""
    (tmp_path / "folder.png").mkdir()

    with pytest.raises(FileError, match=r"could not be written to .*choose a writable \.png file"):
        rendering.write_picture(np.zeros((4, 4, 3), dtype=np.uint8), tmp_path / name)


@pytest.mark.parametrize("ending", sorted(rendering.FORMATS))
def test_every_format(ending, tmp_path):
    """Write the format of the suffix, in upper case too."""
    from PIL import Image

    path = rendering.write_picture(np.full((8, 8, 3), 90, dtype=np.uint8), tmp_path / f"x{ending.upper()}")
    with Image.open(path) as found:
        assert found.format == rendering.FORMATS[ending].upper()


def test_unknown_suffix_is_rejected(tmp_path):
    """Reject an unknown suffix before rendering, and name it."""
    with pytest.raises(FileError, match=r"x.foo \(unknown suffix '.foo'\); choose a writable .png file"):
        rendering.PICTURE_FILE.check(tmp_path / "x.foo")


def test_full_disk_is_reported(tmp_path, monkeypatch):
    """Name path and reason where the disk is full."""

    def fail(*_) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_files, "write_whole", fail)
    with pytest.raises(FileError, match=r"x.png \(No space left on device\)"):
        rendering.write_picture(np.ones((4, 4, 3), dtype=np.uint8), tmp_path / "x.png")


def test_legend_shows_colours(drawn):
    """Put a coloured square beside each label, the last one lowest."""
    items = [
        rendering.DrawItem(name, np.zeros((1, 3, 3)), colour, 1.0, False)
        for name, colour in zip("ab", ("#0a141e", "#fa0000"))
    ]
    pixels = np.full((900, 1200, 3), 255, dtype=np.uint8)
    rendering._add_swatches(pixels, items)
    rows = {
        tuple(colour): np.flatnonzero((pixels == colour).all(axis=2).any(axis=1))
        for colour in ([10, 20, 30], [250, 0, 0])
    }

    assert rows[10, 20, 30].max() < rows[250, 0, 0].min()
    assert all(10 < len(found) < 40 for found in rows.values())


@pytest.mark.parametrize("name", ["a$\\frac{$b.ply", "two\nlines.ply", "no\udcfftext.ply", "x" * 300, "ü漢字.ply", ""])
def test_names_may_hold_anything(back_end, name):
    """Draw names with formulas, line breaks, bytes that are not text, and 300 letters."""
    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)

    assert_is_picture(rendering.render(picture.pair_items(result, (name, name)), f"{name} and {name}"))


def test_long_titles_are_set_smaller():
    """Reduce the font of titles that would leave the picture, and of no other."""
    assert rendering._title_font("x" * rendering.TITLE_LETTERS) == rendering.TITLE_FONT
    assert rendering._title_font("x" * 2 * rendering.TITLE_LETTERS) < rendering.TITLE_FONT


def test_bodies_have_their_names(drawn):
    """Label bodies with the given names, and add their intersection curves."""
    bodies = impinge.scenes.get("boxes_overlapping_by_half").bodies
    report = impinge.check(*bodies)
    labels = [item.label for item in picture.pair_items(report.pairs, ("left.ply", "right.ply"), report.curves)]

    assert [label.split(":")[0] for label in labels[:-1]] in (
        ["left.ply"] * 2 + ["right.ply"] * 2,
        ["left.ply", "right.ply"],
    )
    assert labels[-1] == f"{len(report.curves.loops)} intersection curve"


def test_title_counts_pairs(drawn):
    """Count pairs by kind, or use the given title."""
    result = impinge.triangle_pairs(*impinge.scenes.get("crossing_triangles").bodies)
    picture.plot_pairs(result)
    picture.plot_pairs(result, title="my own")

    assert [title for _, title in drawn] == ["1 pair of triangles intersects (1 crossing)", "my own"]


def test_incomplete_result_says_so(drawn):
    """Report an incomplete result and its reason in the title."""
    bodies = impinge.scenes.get("boxes_overlapping_by_half").bodies
    picture.plot_pairs(impinge.triangle_pairs(*bodies, max_pairs=2))
    picture.plot_pairs(impinge.triangle_pairs(*bodies))

    assert drawn[0][1].startswith("2 pairs")
    assert "incomplete: limit" in drawn[0][1]
    assert "incomplete" not in drawn[1][1]


def test_labels_count_triangles(drawn):
    """Label each body with its triangles and its colliding ones."""
    bodies = impinge.scenes.get("crossing_triangles").bodies
    picture.plot_pairs(impinge.triangle_pairs(*bodies))
    picture.plot_pairs(impinge.self_pairs(shapes.box()))

    assert [[item.label for item in items] for items, _ in drawn] == [
        ["a: 1 colliding", "b: 1 colliding"],
        ["body: 12 triangles"],
    ]


def test_body_that_was_cut_since(drawn):
    """Draw the current body, although the result names removed triangles."""
    body = crossed()
    result = impinge.self_pairs(body)
    body.remove_triangles([1])
    picture.plot_pairs(result)
    body.compact()
    picture.plot_pairs(result)

    assert [sum(len(item.corners) for item in items) for items, _ in drawn] == [1, 1]


def test_result_without_bodies(drawn):
    """Draw an empty picture of a result without bodies."""
    picture.plot_pairs(impinge.TrianglePairs(pairs=np.zeros((1, 2), np.int32), kind=np.ones(1, np.int8)))

    assert drawn[0][0] == []


def test_curves(back_end, tmp_path):
    """Show both bodies, and their intersection curves in their own colour."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))
    pixels = impinge.intersection_curves(a, b).plot()

    assert_is_picture(pixels)
    assert colliding_pixels(pixels) > 300
    assert impinge.intersection_curves(a, b).plot(tmp_path / "curves.png") == tmp_path / "curves.png"
    apart = picture.plot_curves(impinge.intersection_curves(a, shapes.box(1.0, (5.0, 0.0, 0.0))))
    assert colliding_pixels(apart) == 0
    assert coloured_pixels(apart) > 1000


def test_curves_are_drawn_where_they_were_found(drawn):
    """Draw curves with the bodies of the query: transformed, active triangles only, at their positions then."""
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
    """Use VTK only with a display or an off-screen OpenGL library."""
    environment = {} if display is None else {"DISPLAY": display}
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so" if name == found else None)

    assert rendering._can_use_opengl() == expected
    assert ("VTK_DEFAULT_OPENGL_WINDOW" in environment) == (found is not None)


@pytest.mark.parametrize("missing", ["pyvista", "matplotlib.backends.backend_agg"])
def test_missing_package_is_named(missing, monkeypatch):
    """Name the extra to install where a package for pictures is missing."""
    monkeypatch.setattr(rendering, "_can_use_opengl", lambda: missing == "pyvista")
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=r"install impinge\[picture\]"):
        picture.plot_pairs(impinge.self_pairs(crossed()))


def tets_in_each_other():
    return shapes.tet_box(3, 3, 1), shapes.tet_box(1, 1, 1, center=(0.1, 0.1, 0.7))


def test_contacts(back_end, tmp_path):
    """Draw bodies, penetrating vertices and penetration vectors."""
    path = tmp_path / "contacts.png"
    contacts = impinge.penetrating_vertices(tets_in_each_other(), depth=True)

    assert contacts.plot(path) == path
    assert path.stat().st_size > 1000
    assert_is_picture(contacts.plot())
    assert colliding_pixels(contacts.plot()) > 20


def test_items_of_contacts(drawn):
    """Mark each vertex once, draw known penetration vectors, and alternate the colours of many bodies."""
    bodies = tets_in_each_other()
    impinge.penetrating_vertices(bodies, depth=True).plot()
    impinge.penetrating_vertices([body.surface for body in bodies]).plot()
    impinge.penetrating_vertices([*bodies, shapes.tet_box(1, 1, 1, center=(9, 0, 0))]).plot()
    labels = [[item.label for item in items] for items, _ in drawn]
    contacts = impinge.penetrating_vertices(bodies)
    inside = len(np.unique(np.stack([contacts.body, contacts.vertex], axis=1), axis=0))

    assert labels[0][:2] == ["body 0: 60 triangles", "body 1: 12 triangles"]
    assert labels[0][2:] == ["penetration", f"{inside} vertices inside"]
    assert labels[1][2:] == [f"{inside} vertices inside"]
    assert labels[2][:2] == ["body 0, body 2: 72 triangles", "body 1: 12 triangles"]
    assert "tets" in drawn[0][1]
    assert "surfaces" in drawn[1][1]


def test_bodies_have_the_names_of_the_world(drawn):
    """Label bodies by their names, and count them where there are many."""
    world = impinge.World()
    for k, name in enumerate(("liver", "tool", "plate")):
        world.add(shapes.box(1.0, center=(0.9 * k, 0.0, 0.0)), name=name)
    world.contacts().plot()
    for k in range(6):
        world.add(shapes.box(1.0, center=(9.0, 3.0 * k, 0.0)), name=f"stone {k}")
    world.contacts().plot()
    labels = [[item.label for item in items][:2] for items, _ in drawn]

    assert labels[0] == ["liver, plate: 24 triangles", "tool: 12 triangles"]
    assert labels[1] == ["5 bodies: 60 triangles", "4 bodies: 48 triangles"]


def test_no_contacts(drawn):
    """Draw disjoint bodies without markers."""
    apart = [shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1, center=(5, 0, 0))]
    impinge.penetrating_vertices(apart, depth=True).plot()

    assert [item.label for item in drawn[0][0]] == ["body 0: 12 triangles", "body 1: 12 triangles"]


def lens(resolution=24, **options):
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))
    return impinge.LayeredDepth(a, b, resolution=resolution).query(**options)


def test_overlap(back_end, tmp_path):
    """Draw the overlap in its own colour, and nothing of it for disjoint bodies."""
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
    """Volume enclosed by closed triangles."""
    return np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0


@pytest.mark.parametrize("axis", range(3))
def test_columns_fill_the_overlap(axis):
    """Draw closed, outward-oriented columns whose volume is the overlap volume, along any axis."""
    size = np.ones(3)
    size[axis] = 0.2
    a, b = (stretched(body, size) for body in (shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))))
    result = impinge.overlap_volume(a, b, resolution=24)
    columns = picture.span_columns(result, 1)

    assert result.axis == axis
    assert len(columns) == 12 * len(result) > 1000
    np.testing.assert_allclose(volume_of(columns), result.volume, rtol=1e-9)
    low, high = result.region
    assert (columns.reshape(-1, 3) >= low - 1e-12).all()
    assert (columns.reshape(-1, 3) <= high + 1e-12).all()


def test_items_of_an_overlap(drawn, monkeypatch):
    """Draw the bodies of the query, label volume and rays, and note skipped spans."""
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
    assert title == f"overlap volume {result.volume:.6g} ± {result.error:.1g}, sampled by 24 x 24 rays"
    monkeypatch.setattr(picture, "MOST_COLUMNS", 60)
    result.plot()
    fewer = drawn[1][0][2]
    assert fewer.label.endswith(", one ray of 3 x 3 is drawn")
    assert 12 * 20 < len(fewer.corners) < len(columns.corners) / 4
    np.testing.assert_allclose(volume_of(picture.span_columns(result, 3)), result.volume, rtol=0.2)


def test_overlap_of_one_body_and_of_none(drawn):
    """Draw self-overlap, report cancelled queries, and omit depth sources and unpickled bodies."""
    knot = shapes.torus_knot(2, 3, 60, 8, tube_radius=0.41)
    impinge.LayeredDepth(knot, resolution=32).query().plot()
    event = threading.Event()
    event.set()
    lens(cancel=event).plot()
    impinge.LayeredDepth(impinge.Sphere((0.0, 0.0, 0.0), 1.0), shapes.box(1.0), resolution=8).query().plot()

    assert [item.label.split(":")[0] for item in drawn[0][0]] == ["body", "overlap"]
    assert drawn[1][1].endswith("incomplete: cancelled")
    assert [item.label.split(":")[0] for item in drawn[2][0]] == ["b", "overlap"]
    kept = pickle.loads(pickle.dumps(lens()))
    kept.plot()
    assert [item.label.split(":")[0] for item in drawn[3][0]] == ["overlap"]


def falling(**options):
    """A ball that falls through a sheet, at neither end in contact: a vertex meets a face first."""
    ball, sheet = shapes.icosphere(2, radius=0.2, center=(0.05, 0.03, 0.5)), shapes.cloth_grid(20, 20)
    return impinge.impacts(ball, sheet, end_a=ball.vertices - (0.021, 0.13, 1.0), **options)


def test_picture_of_an_impact(back_end):
    """Show the features of the first impact in their colour."""
    pixels = falling().plot()

    assert_is_picture(pixels)
    assert 30 < colliding_pixels(pixels) < 3000


def test_items_of_an_impact(drawn):
    """Draw the bodies at the time of the first impact, its features, and one arrow along the normal."""
    result = falling()
    result.plot()
    (ball, vertex, sheet, face, arrow), title = drawn[0]
    low = ball.corners[..., 2].min()

    assert title == f"the first of {len(result):,} impacts, at 0.3 of the motion: vertex 10 of a and face 418 of b"
    labels = ["a: 320 triangles", "a: 1 vertex at the impact", "b: 800 triangles", "b: 1 face at the impact"]
    assert [item.label for item in (ball, vertex, sheet, face)] == labels
    assert arrow.label == "point and normal"
    assert low == pytest.approx(sheet.corners[..., 2].max(), abs=1e-6)
    assert len(face.corners) == 1
    np.testing.assert_allclose(vertex.corners.mean(axis=(0, 1)), arrow.corners[0, 0], atol=1e-6)
    shaft = arrow.corners[0, 1] - arrow.corners[0, 0]
    np.testing.assert_allclose(shaft / np.linalg.norm(shaft), result.normal[0], atol=1e-12)


def test_items_of_edges_of_one_body_and_of_nothing(drawn):
    """Draw edges that meet as lines, both sides of a self-impact on one body, and bodies at the end without impacts."""
    x = np.array([[-1, 0, 0], [1, 0, 0], [0, 0, -1.0], [0.1, -1, 1], [0.1, 1, 1], [0.1, 0, 2]])
    two_triangles = impinge.TriMesh(x, [[0, 1, 2], [3, 4, 5]])
    end = x - np.repeat([[0.0], [1.5]], 3, axis=0) * [0.0, 0.0, 1.0]
    impinge.impacts(two_triangles, end_a=end).rows([0]).plot()
    falling(active_b=[0]).plot()
    kept = pickle.loads(pickle.dumps(falling()))
    kept.plot()
    (body, edges, _), title = drawn[0]
    (ball, one_face), empty_title = drawn[1]

    assert title == "1 impact, at 0.666667 of the motion: edge 0-1 of the body and edge 3-4 of the body"
    assert [body.label, edges.label] == ["body: 2 triangles", "body: 2 edges at the impact"]
    assert (edges.corners[:, 1] == edges.corners[:, 2]).all()
    assert (empty_title, one_face.label) == ("No impacts", "b: 1 triangle")
    assert ball.corners[..., 2].max() < one_face.corners[..., 2].min(), "the ball is below the sheet at the end"
    assert [item.label for item in drawn[2][0]] == ["point and normal"]


def test_impacts_at_one_time_are_counted(drawn, monkeypatch):
    """Draw a limited number of arrows, and say how many there are."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    result = impinge.impacts(a, b, end_b=b.vertices - (0.0, 0.0, 3.0))
    monkeypatch.setattr(picture, "MOST_ARROWS", 7)
    result.plot()
    at_once = int((result.time_lo <= result.time_hi[0]).sum())

    assert drawn[0][0][-1].label == f"point and normal, 7 of {at_once} drawn"
    assert len(drawn[0][0][-1].corners) == 7 * (5 + 8), "a line, a head and a marker each"


def test_spheres_have_their_size():
    """Place the triangles of a sphere at its radius around its centre."""
    corners = picture.sphere_triangles(np.array([[1.0, 2.0, 3.0, 0.5]]), 2)

    assert corners.shape == (128, 3, 3)
    np.testing.assert_allclose(np.linalg.norm(corners - [1.0, 2.0, 3.0], axis=2), 0.5, atol=1e-12)
