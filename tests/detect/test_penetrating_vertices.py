"""The one-shot question about tets and closed surfaces, and the depths that it fills in."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import impinge
from impinge import scenes, shapes


def contact_rows(contacts):
    return np.stack([contacts.body, contacts.vertex, contacts.in_body], axis=1)


def two_boxes():
    """Boxes of unit cubes; the upper one stands in the lower one, 0.4 deep, away from its sides."""
    return shapes.tet_box(8, 8, 2), shapes.tet_box(2, 2, 2, center=(0.3, 0.2, 1.6))


def test_tets_and_their_surfaces_agree():
    """Find a vertex of the surface of one body in the surface of another iff it is in one of its tets."""
    for name in ("poked_tet", "hashing_setup_a", "hashing_setup_b"):
        bodies = scenes.get(name).bodies[:12]
        in_tets = impinge.penetrating_vertices(bodies)
        in_surfaces = impinge.penetrating_vertices([body.surface for body in bodies])
        on_surface = [np.unique(body.surface.faces) for body in bodies]
        rows = np.unique(contact_rows(in_tets)[~in_tets.is_self], axis=0)
        kept = [vertex in on_surface[body] for body, vertex, _ in rows.tolist()]

        np.testing.assert_array_equal(contact_rows(in_surfaces), rows[kept])
        assert (in_surfaces.tet == -1).all()
        assert np.isnan(in_surfaces.barycentric).all()
        assert len(in_surfaces) > 0


@pytest.mark.parametrize("sort", ["tets", "surfaces"])
@pytest.mark.parametrize("depth", [True, "local"])
def test_depth_brings_vertices_out(sort, depth):
    """Give each vertex of a box that stands in another its depth below the flat side, and the way up."""
    bodies = two_boxes() if sort == "tets" else [body.surface for body in two_boxes()]
    contacts = impinge.penetrating_vertices(bodies, depth=depth)
    upper = contacts.body == 1

    assert upper.sum() >= 9
    if depth is True:
        np.testing.assert_allclose(contacts.depth[upper], 0.4, rtol=1e-12)
        np.testing.assert_allclose(contacts.direction[upper], np.tile([0.0, 0.0, 1.0], (upper.sum(), 1)), atol=1e-12)
    assert (contacts.depth >= 0.0).all()
    np.testing.assert_allclose(np.linalg.norm(contacts.direction, axis=1), 1.0, rtol=1e-12)


def test_depth_is_left_out_unless_asked_for():
    """Leave depth and direction empty unless somebody wants them."""
    contacts = impinge.penetrating_vertices(two_boxes())

    assert contacts.depth is None
    assert contacts.direction is None
    assert contacts.edges is None


def test_depth_follows_transforms():
    """Measure depths of bodies as their transforms move them, with the same bits as if they had been updated."""
    turn = np.array([[0.0, -1.0, 0.0, 2.0], [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]])
    a, b = two_boxes()
    moved = impinge.penetrating_vertices([a, b], transforms=[turn, turn], depth=True)
    for body in (a, b):
        body.update(impinge.transform_points(turn, body.vertices))
    updated = impinge.penetrating_vertices([a, b], depth=True)

    np.testing.assert_array_equal(moved.depth, updated.depth)
    np.testing.assert_array_equal(moved.direction, updated.direction)
    assert len(moved) > 0


def test_kept_detector_measures_the_same_depths():
    """Give the same depths by a kept detector as by the one-shot question."""
    bodies = two_boxes()
    asked, kept = impinge.penetrating_vertices(bodies, depth=True), impinge.SpatialHash(bodies).query(depth=True)

    np.testing.assert_array_equal(asked.depth, kept.depth)
    np.testing.assert_array_equal(asked.direction, kept.direction)


def test_edges_of_surfaces():
    """Find the crossings of two wedges, of which no vertex is in the other, as tets and as surfaces."""
    bodies = scenes.get("crossed_tets").bodies
    of_tets = impinge.penetrating_vertices(bodies, edges=True)
    of_surfaces = impinge.penetrating_vertices([body.surface for body in bodies], edges=True)

    assert len(of_tets) == len(of_surfaces) == 0
    assert len(of_tets.edges) > 0
    for name in ("body", "edge", "in_body", "face", "kind", "sign", "parameter", "weights"):
        np.testing.assert_array_equal(getattr(of_tets.edges, name), getattr(of_surfaces.edges, name))


def test_options_of_surfaces():
    """Take transforms, active triangles, ignored pairs of bodies, a limit and a cancelled event for surfaces too."""
    inner, outer = scenes.get("nested_spheres").surfaces
    everything = impinge.penetrating_vertices([inner, outer])
    away = np.eye(4)
    away[0, 3] = 5.0
    stop = threading.Event()
    stop.set()
    cancelled = impinge.penetrating_vertices([inner, outer], cancel=stop, edges=True)
    limited = impinge.penetrating_vertices([inner, outer], max_pairs=3)

    assert len(everything) == len(inner.vertices)
    assert len(impinge.penetrating_vertices([inner, outer], transforms=[away, None])) == 0
    assert len(impinge.penetrating_vertices([inner, outer], active=[[0], None])) == 3
    assert len(impinge.penetrating_vertices([inner, outer], active=[None, [0]])) == 0  # what is open has no inside
    assert len(impinge.penetrating_vertices([inner, outer], ignore=[(1, 0)])) == 0
    assert (limited.complete, limited.reason, len(limited)) == (False, "limit", 3)
    assert (cancelled.complete, cancelled.reason, len(cancelled), len(cancelled.edges)) == (False, "cancelled", 0, 0)


def test_open_surfaces_contain_nothing():
    """Find no vertex inside a surface that is not closed, and none at all where there are no bodies to speak of."""
    sheet, ball = shapes.cloth_grid(4, 4), shapes.icosphere(2)
    contacts = impinge.penetrating_vertices([sheet, ball])

    assert set(contacts.in_body.tolist()) == {1}
    assert len(contacts) == len(sheet.vertices)
    assert len(impinge.penetrating_vertices([impinge.TriMesh([], []), ball])) == 0


def test_mixed_bodies_are_refused():
    """Say which body is of the other sort, and what to do."""
    with pytest.raises(impinge.MeshError, match=r"bodies\[1\] is a triangle mesh among tet meshes.*surface"):
        impinge.penetrating_vertices([shapes.tet_box(1, 1, 1), shapes.icosphere(1)])
    with pytest.raises(impinge.MeshError, match="expected a list of bodies"):
        impinge.penetrating_vertices(shapes.tet_box(1, 1, 1))
    with pytest.raises(impinge.OptionError, match="depth is 'deep', expected False, True or 'local'"):
        impinge.penetrating_vertices([shapes.tet_box(1, 1, 1)], depth="deep")
    with pytest.raises(impinge.OptionError, match="depth is 'deep', expected False, True or 'local'"):
        impinge.penetrating_vertices([shapes.icosphere(1)], depth="deep")
