"""Contacts: one vocabulary for all methods, ids that persist, and a contract that moving bodies proves."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import impinge
from impinge import ContactKind, OptionError, scenes
from impinge.contact.contacts import body_key, contact_ids
from impinge.mesh import shapes


def boxes(shift: tuple[float, float, float], size: float = 0.5, cells: int = 3):
    """A box of side 1 at the origin, and one of side ``size`` at ``shift``."""
    return shapes.box(1.0, cells=(cells,) * 3), shapes.box(size, center=shift, cells=(cells,) * 3)


def by_vertices(a, b):
    return impinge.contacts_from_vertices(impinge.penetrating_vertices([a, b], depth=True))


def by_pairs(a, b):
    return impinge.contacts_from_pairs(impinge.triangle_pairs(a, b))


def by_volume(a, b):
    return impinge.contacts_from_volume(impinge.volume_gradient(a, b), a, b)


METHODS = [by_vertices, by_pairs, by_volume]


def assert_contract(contacts):
    """Check unit normals, depths from 0, finite numbers, sorted rows and distinct ids."""
    np.testing.assert_allclose(np.linalg.norm(contacts.normal, axis=1), 1.0, atol=1e-12)
    assert (contacts.depth >= 0.0).all()
    for column in (contacts.point, contacts.normal, contacts.depth):
        assert np.isfinite(column).all()
    keys = [contacts.body_a, contacts.body_b, contacts.kind, contacts.feature_a, contacts.feature_b]
    assert np.array_equal(np.lexsort(keys[::-1]), np.arange(len(contacts)))
    assert len(np.unique(contacts.id)) == len(contacts)
    assert (contacts.id >= 0).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("find", METHODS, ids=lambda find: find.__name__)
def test_normals_lead_from_a_to_b(find, axis, sign):
    """Point from the first body to the second, in either order."""
    shift = np.zeros(3)
    shift[axis] = sign * 0.7
    a, b = boxes(tuple(shift))
    forth, back = find(a, b), find(b, a)

    assert len(forth) == len(back) > 0
    for contacts, way in ((forth, sign), (back, -sign)):
        assert_contract(contacts)
        mean = contacts.normal.mean(axis=0)
        assert way * mean[axis] > 0.5 * np.linalg.norm(mean)


@pytest.mark.parametrize("find", [by_vertices, by_volume], ids=lambda find: find.__name__)
def test_moving_b_by_the_depth_resolves_the_contact(find):
    """Find a penetration of 0.05, and none after b has moved by it."""
    a, b = boxes((0.03, 0.02, 0.7), cells=12)  # so fine that b stays clear of a's edges, where normals turn
    contacts = find(a, b)
    # Edges of the top of a leave b through its sides: vertices of a have longer exits.
    deepest = int(np.argmax(np.where(contacts.kind == ContactKind.VERTEX_A, 0.0, contacts.depth)))

    np.testing.assert_allclose(contacts.depth[deepest], 0.05, rtol=0.02)
    np.testing.assert_allclose(contacts.normal[deepest], [0.0, 0.0, 1.0], atol=1e-6)
    b.update(b.vertices + (1.0 + 1e-6) * contacts.depth[deepest] * contacts.normal[deepest])
    assert not len(find(a, b))


def test_a_vertex_moved_out_by_its_own_depth_is_on_the_surface():
    """Move each vertex to the surface of the penetrated body, a along -normal and b along +normal."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, radius=0.8, center=(1.1, 0.3, 0.2))
    contacts = by_vertices(a, b)
    kinds = np.bincount(contacts.kind, minlength=2)

    assert (kinds[:2] > 3).all()
    for kind, body, sign in ((ContactKind.VERTEX_A, b, -1.0), (ContactKind.VERTEX_B, a, 1.0)):
        rows = contacts.kind == kind
        ends = contacts.point[rows] + sign * contacts.depth[rows, None] * contacts.normal[rows]
        np.testing.assert_allclose(impinge.closest_points(body, ends).distance, 0.0, atol=1e-12)


def test_points_of_curves_are_on_both_surfaces():
    """Place contacts of triangle pairs on both surfaces, with depth 0 and ``has_depth`` False."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.2, 0.3, 0.1))
    contacts = by_pairs(a, b)

    assert len(contacts) > 20
    assert not contacts.has_depth.any()
    for body in (a, b):
        assert impinge.closest_points(body, contacts.point).distance.max() < 1e-12
    np.testing.assert_array_equal(contacts.depth, 0.0)
    np.testing.assert_array_equal(
        np.stack([contacts.feature_a, contacts.feature_b], axis=1), impinge.triangle_pairs(a, b).pairs
    )


@pytest.mark.parametrize("name", ["crossing_triangles", "coplanar_triangles", "boxes_overlapping_by_half"])
def test_touching_and_coplanar_triangles_have_contacts(name):
    """Return finite points and unit normals where triangles touch, are coplanar or have no area."""
    a, b = impinge.scenes.get(name).surfaces
    contacts = by_pairs(a, b)

    assert_contract(contacts)
    assert len(contacts) == len(impinge.triangle_pairs(a, b)) > 0


def test_triangles_without_area_have_contacts():
    """Return a unit normal between triangles that are points."""
    dot = impinge.TriMesh([[0.0, 0.0, 0.0]], [[0, 0, 0]])
    contacts = by_pairs(dot, impinge.TriMesh([[0.0, 0.0, 0.0]], [[0, 0, 0]]))

    assert len(contacts) == 1
    assert_contract(contacts)


@pytest.mark.parametrize("find", [by_vertices, by_volume], ids=lambda find: find.__name__)
def test_a_body_inside_a_body_is_a_contact(find):
    """Return finite contacts of a body inside another."""
    outer, inner = shapes.icosphere(2), shapes.icosphere(1, radius=0.3, center=(0.2, 0.0, 0.0))
    contacts = find(outer, inner)

    assert len(contacts) > 0
    assert_contract(contacts)
    if find is by_volume:
        inner.update(inner.vertices + contacts.depth[0] * contacts.normal[0])
        assert not impinge.check(outer, inner).relation.endswith("in a")


def test_a_vertex_in_several_tets_is_one_contact():
    """Count a vertex on the border of tets once, and keep its id in other tets."""
    tets = shapes.tet_box(2, 2, 2, size=2.0)
    poker = impinge.TetMesh(np.array([[0.0, 0.3, 0.2], [3, 0, 0.1], [3, 1, 0], [3, 0, 1]]), [[0, 1, 2, 3]])
    before = impinge.penetrating_vertices([tets, poker], depth=True)
    first = impinge.contacts_from_vertices(before)
    poker.update(poker.vertices + np.array([0.3, 0.2, 0.1]))
    second = by_vertices(tets, poker)

    assert len(before) > len(first) == len(second) == 1
    assert_contract(first)
    changes = second.changes(first)
    assert (len(changes.entered), len(changes.persisting), len(changes.left)) == (0, 1, 0)


def test_ids_do_not_depend_on_which_body_comes_first(rng):
    """Return the same id for the same features in either order of bodies, and distinct ids otherwise."""
    count = 5000
    keys = np.array([body_key(str(k)) for k in range(40)], dtype=np.uint64)
    a, b = rng.integers(0, 40, size=(2, count))
    kind, of_a, of_b = rng.integers(0, 5, count).astype(np.int8), *rng.integers(0, 50, size=(2, count)).astype(np.int32)
    mirrored = np.where(kind <= 1, 1 - kind, kind).astype(np.int8)
    two = a != b
    ids = contact_ids(keys[a], keys[b], kind, of_a, of_b)
    swapped = contact_ids(keys[b], keys[a], mirrored, of_b, of_a)

    np.testing.assert_array_equal(ids[two], swapped[two])
    low, high = np.minimum(a, b), np.maximum(a, b)
    first = a <= b
    kind, of_a, of_b = np.where(first, kind, mirrored), np.where(first, of_a, of_b), np.where(first, of_b, of_a)
    of_a, of_b = np.where(kind == 1, -1, of_a), np.where(kind == 0, -1, of_b)
    rows = np.unique(np.stack([low, high, kind, of_a, of_b], axis=1)[two], axis=0)
    assert len(np.unique(ids[two])) == len(rows) > 3000


def test_spheres_become_contacts():
    """Copy points, normals and depths of spheres, and report possible contacts."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    whole = impinge.sphere_contacts(a, b, budget_ms=None, max_tests=1_000_000)
    cut = impinge.sphere_contacts(a, b, budget_ms=None, max_tests=whole.stats["tests"] * 3 // 4)
    contacts = impinge.contacts_from_spheres(cut)

    assert len(contacts) == len(cut.certain) > 5
    assert_contract(contacts)
    assert set(contacts.kind.tolist()) == {ContactKind.SPHERES}
    np.testing.assert_array_equal(np.stack([contacts.feature_a, contacts.feature_b], axis=1), cut.certain)
    np.testing.assert_array_equal(contacts.depth, cut.depth)
    assert (contacts.reason, contacts.method, contacts.possible.tolist()) == (cut.reason, "sphere_tree", [[0, 1]])
    assert impinge.contacts_from_spheres(whole).possible.tolist() == []


OVERLAP = 0.3
LENS = 2.0 * np.pi * (OVERLAP / 2.0) ** 2 * (1.0 - OVERLAP / 6.0)
"""Volume that two balls of radius 1 share, deep by OVERLAP: two caps."""
CIRCLE = np.pi * (1.0 - (1.0 - OVERLAP / 2.0) ** 2)


@pytest.mark.parametrize(
    ("method", "truth"), [("vertices", OVERLAP), ("volume", LENS / CIRCLE)], ids=["vertices", "volume"]
)
def test_depths_converge_as_meshes_are_refined(method, truth):
    """Converge to the depth of two balls: that of the poles, or the volume over its rate of change."""
    way = np.array([1.0, 0.4, 0.3]) / np.linalg.norm([1.0, 0.4, 0.3])  # no vertex is there
    errors = []
    for subdivisions in (2, 3, 4):
        world = impinge.World()
        for center in (0.0 * way, (2.0 - OVERLAP) * way):
            world.add(shapes.icosphere(subdivisions, center=center))
        contacts = world.contacts(method=method)
        assert contacts.has_depth.all()
        errors.append(abs(float(contacts.depth.max()) - truth) / truth)
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.01


def test_overlaps_of_spheres_are_bounded_by_their_size():
    """Bound depths of spheres by both diameters, and report no penetration depth."""
    deepest = []
    for subdivisions in (2, 4):
        a, b = shapes.icosphere(subdivisions), shapes.icosphere(subdivisions, center=(2.0 - OVERLAP, 0.0, 0.0))
        found = impinge.sphere_contacts(a, b, budget_ms=None)
        contacts = impinge.contacts_from_spheres(found)
        radius = [side.of(found.certain[:, k])[:, 3] for k, side in enumerate(found.spheres)]
        assert (contacts.depth <= 2.0 * np.add(*radius)).all()
        assert not contacts.has_depth.any()
        deepest.append(contacts.depth.max())
    assert 0.0 < deepest[1] - OVERLAP < 0.6 * (deepest[0] - OVERLAP)


def test_possible_contacts_count():
    """Evaluate as True while pairs of bodies are possible."""
    apart = by_pairs(*boxes((3.0, 0.0, 0.0)))
    cut_short = impinge.contacts_from_spheres(impinge.sphere_contacts(*boxes((0.5, 0.0, 0.0)), max_tests=1))

    assert not apart
    assert len(apart) == len(cut_short) == 0
    assert cut_short


def test_contacts_without_depth_are_refused():
    """Refuse vertices without depths, and name the option."""
    found = impinge.penetrating_vertices(boxes((0.0, 0.0, 0.7)))
    with pytest.raises(OptionError, match="these vertices have no depth, which contacts need; query with depth=True"):
        impinge.contacts_from_vertices(found)


@pytest.mark.parametrize("find", METHODS, ids=lambda find: find.__name__)
def test_contacts_serialise(find):
    """Convert to JSON, pickle and a picture."""
    a, b = boxes((0.03, 0.02, 0.7), cells=1)
    contacts = find(a, b)
    plain = contacts.to_dict()

    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert pickle.loads(pickle.dumps(contacts)).id.tolist() == contacts.id.tolist()
    assert pickle.loads(pickle.dumps(contacts)).bodies == ()
    assert contacts.plot().ndim == 3


def turned_round(body: impinge.TriMesh) -> impinge.TriMesh:
    """The same surface with its triangles facing inwards."""
    return impinge.TriMesh(body.vertices, body.faces[:, ::-1])


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)], ids=["a", "b", "both"])
@pytest.mark.parametrize("method", ["pairs", "vertices", "volume", "spheres"])
def test_bodies_that_are_inside_out_are_pushed_apart(method, which):
    """Point normals from a to b whichever way the triangles of closed surfaces face."""
    bodies = [shapes.icosphere(3), shapes.icosphere(3, center=(1.7, 0.0, 0.0))]
    for k in which:
        bodies[k] = turned_round(bodies[k])
    world = impinge.World()
    for body in bodies:
        world.add(body)
    contacts = world.contacts(method=method)

    assert len(contacts) > 0
    assert contacts.normal.mean(axis=0)[0] > 0.85


def test_pairs_of_open_surfaces_have_their_own_normals():
    """Take the triangles of open surfaces as they face, and judge closed ones by their volume at any position."""
    sheet = shapes.cloth_grid(4, 4, center=(0.0, 0.0, 0.45))
    far = np.array([1e6, 0.0, 0.0])
    ball = turned_round(shapes.icosphere(3, radius=0.5))
    contacts = by_pairs(ball, sheet)
    moved = by_pairs(
        impinge.TriMesh(ball.vertices + far, ball.faces), impinge.TriMesh(sheet.vertices + far, sheet.faces)
    )
    turned = by_pairs(ball, turned_round(sheet))

    assert len(contacts) > 10
    np.testing.assert_allclose(moved.normal.mean(axis=0), contacts.normal.mean(axis=0), atol=1e-3)
    assert contacts.normal.mean(axis=0)[2] < -0.02
    assert turned.normal.mean(axis=0)[2] > 0.5
