"""``penetrating_vertices`` of tet meshes and closed surfaces, and the depths that it fills in."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import impinge
from impinge import scenes, shapes
from shared_data import FOLDER, needs_data


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
def test_depth_below_a_flat_side(sort, depth):
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


def crossing_bodies(name):
    """Bodies that are in each other, some with sharp edges, some from files."""
    if name == "boxes at a corner":
        return shapes.tet_box(6, 6, 6), shapes.tet_box(5, 5, 5, center=(3.1, 2.7, 2.9))
    if name == "turned boxes":
        a, b = shapes.tet_box(4, 4, 4), shapes.tet_box(3, 3, 3, center=(2.4, 0.3, 0.1))
        b.update(b.vertices @ np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]))
        return a, b
    if name == "vessels":
        return scenes.get("hashing_setup_d").bodies
    if name == "bumpy spheres":
        return scenes.get("bumpy_spheres_1k").bodies
    body = impinge.load(FOLDER / name)
    shift = 0.1 * np.ptp(np.asarray(body.vertices), axis=0).max()
    return body, impinge.TetMesh(body.vertices + shift * np.array([1.0, 0.3, 0.1]), body.tets)


FILES = [f"tet/{name}" for name in ("Armadillo13K.msh", "bunny.msh", "liver2.msh", "torus.vtk", "truthcylinder1.msh")]


@pytest.mark.parametrize(
    "name",
    [
        "boxes at a corner",
        "turned boxes",
        "vessels",
        "bumpy spheres",
        *(pytest.param(f, marks=needs_data) for f in FILES),
    ],
)
def test_depth_brings_vertices_out(name):
    """Move each vertex by its depth along its direction: it is on the surface, and no shorter way leads there."""
    bodies = crossing_bodies(name)
    contacts = impinge.penetrating_vertices(bodies, depth=True)
    surfaces = [body.surface if isinstance(body, impinge.TetMesh) else body for body in bodies]
    size = np.ptp(np.asarray(bodies[0].vertices), axis=0).max()
    for in_body, surface in enumerate(surfaces):
        rows = np.flatnonzero((contacts.in_body == in_body) & ~contacts.is_self)
        x = np.stack([bodies[b].vertices[v] for b, v in zip(contacts.body[rows], contacts.vertex[rows])])
        out = x + contacts.depth[rows, None] * contacts.direction[rows]

        assert len(rows) > 10
        assert impinge.closest_points(surface, out).distance.max() <= 1e-9 * size
        nearest = impinge.closest_points(surface, x).distance
        assert (contacts.depth[rows] >= nearest - 1e-12 * size).all()


def test_limit_changes_no_depth():
    """Cut contacts after depths were measured, which needs them all; ignored pairs of bodies change none either."""
    bodies = [*two_boxes(), shapes.tet_box(1, 1, 1, center=(3.0, 3.0, 1.4))]
    everything = impinge.penetrating_vertices(bodies, depth=True)
    some = impinge.penetrating_vertices(bodies, depth=True, max_pairs=5)
    others = impinge.penetrating_vertices(bodies, depth=True, ignore=(0, 2))
    kept = np.isin(everything.body, [0, 1]) & np.isin(everything.in_body, [0, 1])

    np.testing.assert_array_equal(some.depth, everything.depth[:5])
    np.testing.assert_array_equal(some.direction, everything.direction[:5])
    np.testing.assert_array_equal(others.depth, everything.depth[kept])
    assert 0 < kept.sum() < len(everything)
    assert some.reason == "limit"


class UpdatesOnce:
    """Moves a body in the middle of a query, when it checks ``cancel``."""

    def __init__(self, body) -> None:
        self.body = body

    def is_set(self) -> bool:
        """Move the body; never stop."""
        self.body.update(self.body.vertices + np.array([0.0, 0.0, 0.11]))
        return False


@pytest.mark.parametrize("sort", ["tets", "surfaces"])
def test_one_state_for_all_answers(sort):
    """Find contacts, edges and depths of the bodies at the start of the query, even if they move meanwhile."""
    bodies = two_boxes() if sort == "tets" else [impinge.TriMesh(b.vertices, b.surface.faces) for b in two_boxes()]
    before = impinge.penetrating_vertices(bodies, depth=True, edges=True)
    during = impinge.penetrating_vertices(bodies, depth=True, edges=True, cancel=UpdatesOnce(bodies[1]))

    np.testing.assert_array_equal(during.vertex, before.vertex)
    np.testing.assert_array_equal(during.depth, before.depth)
    np.testing.assert_array_equal(during.edges.parameter, before.edges.parameter)
    assert not np.array_equal(impinge.penetrating_vertices(bodies, depth=True).depth, before.depth)


def test_depth_is_optional():
    """Leave depth, direction and edges empty by default."""
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
    """Give the same depths by a kept detector as by the one-shot query."""
    bodies = two_boxes()
    once, kept = impinge.penetrating_vertices(bodies, depth=True), impinge.SpatialHash(bodies).query(depth=True)

    np.testing.assert_array_equal(once.depth, kept.depth)
    np.testing.assert_array_equal(once.direction, kept.direction)


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
    assert everything.stats["body_pairs"] == 1
    assert everything.stats["points"] >= len(everything)
    assert len(impinge.penetrating_vertices([inner, outer], active=[None, [0]])) == 0  # what is open has no inside
    assert len(impinge.penetrating_vertices([inner, outer], ignore=[(1, 0)])) == 0
    assert (limited.complete, limited.reason, len(limited)) == (False, "limit", 3)
    assert (cancelled.complete, cancelled.reason, len(cancelled), len(cancelled.edges)) == (False, "cancelled", 0, 0)


def test_open_surfaces_contain_nothing():
    """Find no vertex inside an open surface, and none in or of an empty body."""
    sheet, ball = shapes.cloth_grid(4, 4), shapes.icosphere(2)
    contacts = impinge.penetrating_vertices([sheet, ball])

    assert set(contacts.in_body.tolist()) == {1}
    assert len(contacts) == len(sheet.vertices)
    assert len(impinge.penetrating_vertices([impinge.TriMesh([], []), ball])) == 0


def test_mixed_bodies_are_refused():
    """Name the body of the other kind, and the remedy."""
    with pytest.raises(impinge.MeshError, match=r"bodies\[1\] is a triangle mesh among tet meshes.*surface"):
        impinge.penetrating_vertices([shapes.tet_box(1, 1, 1), shapes.icosphere(1)])
    with pytest.raises(impinge.MeshError, match="expected a list of bodies"):
        impinge.penetrating_vertices(shapes.tet_box(1, 1, 1))
    for ask in (impinge.penetrating_vertices, impinge.SpatialHash):
        with pytest.raises(
            impinge.MeshError, match=r"got 2 bodies one by one, expected them in one list, like \[a, b\]"
        ):
            ask(shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1))
    with pytest.raises(impinge.OptionError, match="depth is 'deep', expected one of False, True, 'local'"):
        impinge.penetrating_vertices([shapes.tet_box(1, 1, 1)], depth="deep")
    with pytest.raises(impinge.OptionError, match="depth is 'deep', expected one of False, True, 'local'"):
        impinge.penetrating_vertices([shapes.icosphere(1)], depth="deep")
    with pytest.raises(impinge.OptionError, match="edges is 'no', expected True or False"):
        impinge.penetrating_vertices([shapes.icosphere(1)], edges="no")
    with pytest.raises(impinge.MeshError, match=r"two arrays, expected a list of bodies, like \[\(vertices, tets\)\]"):
        impinge.penetrating_vertices((np.zeros((4, 3)), np.zeros((1, 4), dtype=int)))
    for body in (shapes.tet_box(1, 1, 1), shapes.icosphere(1)):
        with pytest.raises(impinge.OptionError, match="depth is about the whole surface of a body; leave active out"):
            impinge.penetrating_vertices([body], active=[[0]], depth=True)


def test_many_surfaces_meet_only_their_neighbours():
    """Test only bodies whose boxes overlap, in a row of 40."""
    row = [shapes.box(center=(0.9 * i, 0.0, 0.0)) for i in range(40)]
    contacts = impinge.penetrating_vertices(row)

    assert contacts.stats["body_pairs"] == 39
    assert (np.abs(contacts.body - contacts.in_body) == 1).all()
    assert len(contacts) == 2 * 39 * 4


# one surface with itself ------------------------------------------------------------------------------------


def joined(*bodies):
    """One mesh of several."""
    first = np.cumsum([0, *(len(body.vertices) for body in bodies)])
    faces = np.concatenate([body.faces + start for body, start in zip(bodies, first)])
    return impinge.TriMesh(np.concatenate([body.vertices for body in bodies]), faces)


def ring(rise=0.3, turns=1.02):
    """A bar of tets that is bent until its ends are in each other, the last end thicker."""
    bar = shapes.tet_box(24, 4, 4, size=(12.0, 1.0, 1.0))
    along, across, up = bar.vertices.T
    angle, grown = along / 12.0 * 2.0 * np.pi * turns, 1.0 + rise * along / 12.0
    radius = 12.0 / (2.0 * np.pi) + across * grown
    bar.update(np.stack([radius * np.cos(angle), radius * np.sin(angle), up * grown], axis=1))
    return bar


@pytest.mark.parametrize("rise", [0.0, 0.3], ids=["sides in one plane", "apart"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_surface_inside_itself(rise, turned):
    """Find the vertices that tets find, on borders too, whichever way the surface is oriented."""
    bar = ring(rise)
    surface = impinge.TriMesh(bar.vertices, bar.surface.faces[:, ::-1] if turned else bar.surface.faces)
    in_tets = impinge.penetrating_vertices([bar])
    found = impinge.penetrating_vertices([surface], depth=True)

    np.testing.assert_array_equal(found.vertex, np.intersect1d(in_tets.vertex, surface.faces))
    assert len(found) >= 30
    assert found.complete
    assert found.is_self.all()
    assert not (found.body | found.in_body).any()
    assert (found.depth >= 0.0).all()
    assert found.depth.max() > 0.2
    np.testing.assert_allclose(np.linalg.norm(found.direction, axis=1), 1.0, rtol=1e-12)


def test_parts_of_a_surface_in_each_other():
    """Find the vertices, and their depths below a flat side, as if the parts were two bodies."""
    parts = [impinge.TriMesh(body.surface.vertices, body.surface.faces) for body in two_boxes()]
    apart = impinge.penetrating_vertices(parts, depth=True)
    found = impinge.penetrating_vertices([joined(*parts)], depth=True)
    upper = found.vertex >= len(parts[0].vertices)

    np.testing.assert_array_equal(found.vertex, apart.vertex + apart.body * len(parts[0].vertices))
    np.testing.assert_allclose(found.depth[upper], 0.4, rtol=1e-12)


def test_surfaces_that_are_not_inside_themselves():
    """Find nothing in spheres, boxes, a shell with a cavity and a soup whose corners are not joined."""
    ball = shapes.icosphere(2)
    cavity = impinge.TriMesh(0.5 * ball.vertices, ball.faces[:, ::-1])
    soup = impinge.TriMesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * len(ball)).reshape(-1, 3))
    for surface in (ball, shapes.box(1.0), joined(ball, cavity), soup):
        assert len(impinge.penetrating_vertices([surface], depth=True)) == 0


def test_self_penetration_needs_an_inside():
    """Refuse an open and an inconsistently oriented surface alone, for which nothing can be found."""
    faces = shapes.box(1.0).faces.copy()
    faces[0] = faces[0, ::-1]
    for surface, found in (
        (shapes.cloth_grid(2, 2), "is open"),
        (impinge.TriMesh(shapes.box(1.0).vertices, faces), "has triangles that disagree"),
    ):
        with pytest.raises(impinge.MeshError, match=rf"bodies\[0\] {found}.*use self_pairs"):
            impinge.penetrating_vertices([surface], depth=True)


def test_options_of_self_penetration():
    """Move the surface, leave parts of it out, scale it, ignore it, and stop."""
    parts = [impinge.TriMesh(body.surface.vertices, body.surface.faces) for body in two_boxes()]
    both = joined(*parts)
    found = impinge.penetrating_vertices([both])
    turn = np.diag([2.0, 2.0, -2.0, 1.0])
    stop = threading.Event()
    stop.set()

    np.testing.assert_array_equal(impinge.penetrating_vertices([both], transforms=[turn]).vertex, found.vertex)
    for factor in (1e-200, 1e200):
        scaled = impinge.TriMesh(factor * both.vertices, both.faces)
        np.testing.assert_array_equal(impinge.penetrating_vertices([scaled]).vertex, found.vertex)
    assert len(impinge.penetrating_vertices([both], active=[np.arange(len(parts[0]))])) == 0
    assert len(impinge.penetrating_vertices([both], ignore=[(0, 0)])) == 0
    assert impinge.penetrating_vertices([both], cancel=stop).reason == "cancelled"
