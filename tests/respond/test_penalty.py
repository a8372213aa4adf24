"""Penalty forces: direction, size, conservation of momentum, invalid input."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.contact.volume_gradient import volume_gradient
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import MeshError, OptionError
from impinge.respond.penalty import penalty

pytestmark = pytest.mark.small


def balls(distance=1.7):
    return shapes.icosphere(2), shapes.icosphere(2, center=(distance, 0.1, 0.0))


def some_contacts(rng, count=200):
    normal = rng.standard_normal((count, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return SimpleNamespace(point=rng.random((count, 3)), normal=normal, depth=rng.random(count) - 0.0)


def test_one_contact():
    """Push b along the normal and a against it, at the nearest vertices, with stiffness times depth."""
    contact = SimpleNamespace(point=[[0.0, 0.0, 0.0]], normal=[[1.0, 0.0, 0.0]], depth=[0.5])
    x = [[1.0, 0.0, 0.0], [-0.1, 0.0, 0.0], [0.0, 3.0, 0.0]]
    y = [[0.2, 0.0, 0.0], [5.0, 0.0, 0.0]]
    for combine in ("average", "sum"):
        found = penalty(contact, x, y, stiffness=4.0, combine=combine)
        np.testing.assert_array_equal(found.force_a, [[0, 0, 0], [-2.0, 0, 0], [0, 0, 0]])
        np.testing.assert_array_equal(found.force_b, [[2.0, 0, 0], [0, 0, 0]])
        assert found.contact_count == 1


@pytest.mark.parametrize("spread", [1, 4])
def test_sum_conserves_momentum_and_average_does_not(rng, spread):
    """Sum to zero force with "sum"; with "average" only where both sides share their vertices alike."""
    contacts, x, y = some_contacts(rng), rng.random((40, 3)), rng.random((10, 3))
    kept = penalty(contacts, x, y, stiffness=10.0, combine="sum", spread=spread)
    lost = penalty(contacts, x, y, stiffness=10.0, combine="average", spread=spread)

    size = 10.0 * contacts.depth.sum()
    assert np.abs(kept.total).max() < 1e-12 * size
    np.testing.assert_allclose(
        np.abs(kept.force_b.sum(axis=0)), np.abs((10.0 * contacts.depth[:, None] * contacts.normal).sum(axis=0))
    )
    assert np.abs(lost.total).max() > 1e-3
    assert np.abs(lost.force_a).max() < np.abs(kept.force_a).max()


@pytest.mark.parametrize("spread", [1, 4])
def test_torque_error_is_at_most_force_times_distance(rng, spread):
    """Bound the torque error of "sum" by force times the distance of vertices to contact points."""
    contacts, x, y = some_contacts(rng), rng.random((40, 3)), rng.random((10, 3))
    found = penalty(contacts, x, y, stiffness=10.0, combine="sum", spread=spread)
    torque = np.cross(x, found.force_a).sum(axis=0) + np.cross(y, found.force_b).sum(axis=0)
    reach = sum(np.sort(np.linalg.norm(contacts.point[:, None] - z, axis=2))[:, spread - 1] for z in (x, y))
    assert 0.0 < np.linalg.norm(torque) <= (10.0 * contacts.depth * reach).sum()
    at_vertices = penalty(contacts, contacts.point, contacts.point, stiffness=10.0, combine="sum")
    kept = np.cross(contacts.point, at_vertices.force_a + at_vertices.force_b).sum(axis=0)
    assert np.abs(kept).max() < 1e-9


def test_average_of_equal_contacts_is_one_of_them():
    """Make the averaged force independent of the number of spheres per contact."""
    one = SimpleNamespace(point=[[0.0, 0.0, 0.0]], normal=[[0.0, 1.0, 0.0]], depth=[0.5])
    many = SimpleNamespace(point=np.zeros((7, 3)), normal=np.tile([0.0, 1.0, 0.0], (7, 1)), depth=np.full(7, 0.5))
    x, y = [[0.0, -1.0, 0.0]], [[0.0, 1.0, 0.0]]
    np.testing.assert_allclose(penalty(many, x, y, stiffness=2.0).force_b, penalty(one, x, y, stiffness=2.0).force_b)
    np.testing.assert_allclose(
        penalty(many, x, y, stiffness=2.0, combine="sum").force_b, 7.0 * penalty(one, x, y, stiffness=2.0).force_b
    )


def test_contacts_without_force_do_not_count():
    """Average over contacts with a non-zero depth only."""
    deep = SimpleNamespace(point=np.zeros((2, 3)), normal=np.tile([0.0, 1.0, 0.0], (2, 1)), depth=[0.5, 0.3])
    more = SimpleNamespace(point=np.zeros((5, 3)), normal=np.tile([0.0, 1.0, 0.0], (5, 1)), depth=[0.5, 0, 0.3, 0, 0])
    x, y = [[0.0, -1.0, 0.0]], [[0.0, 1.0, 0.0]]
    for contacts in (deep, more):
        found = penalty(contacts, x, y, stiffness=2.0, combine="average")
        np.testing.assert_allclose(found.force_b, [[0.0, 0.8, 0.0]])
        assert found.contact_count == 2


@pytest.mark.parametrize("combine", ["average", "sum"])
@pytest.mark.parametrize("max_tests", [1, 30, 200, None])
def test_spheres_push_bodies_apart(combine, max_tests):
    """Push balls apart along the line of centres for any budget."""
    a, b = balls()
    contacts = SphereTree(a, b).query(max_tests=max_tests)
    found = penalty(contacts, a.vertices, b.vertices, stiffness=3.0, combine=combine)
    push = found.force_b.sum(axis=0) - found.force_a.sum(axis=0)

    assert found.contact_count > 0
    assert push[0] > 0.9 * np.linalg.norm(push)
    if combine == "sum":
        assert np.abs(found.total).max() < 1e-9 * np.abs(push).max()


def test_unprocessed_pairs_do_not_attract():
    """Apply no force to separated spheres that the search has not compared."""
    a, b = balls(1.9)
    contacts = SphereTree(a, b).query(max_tests=1)
    assert len(contacts.possible) > 0
    assert (contacts.possible_depth == 0.0).any()
    found = penalty(contacts, a.vertices, b.vertices, stiffness=3.0)
    pushing = contacts.possible_depth[contacts.possible_depth > 0.0]
    assert found.contact_count == len(pushing)


def test_damping(rng):
    """Reduce the force while bodies separate, increase it while they approach, and never pull."""
    contact = SimpleNamespace(point=[[0.0, 0.0, 0.0]], normal=[[1.0, 0.0, 0.0]], depth=[0.5])
    x, y = [[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]
    for speed, expected in ((0.0, 2.0), (1.0, 1.5), (-1.0, 2.5), (100.0, 0.0)):
        found = penalty(
            contact, x, y, stiffness=4.0, damping=0.5, velocities_a=[[0, 1.0, 0]], velocities_b=[[speed, 0, 1.0]]
        )
        np.testing.assert_allclose(found.force_b, [[expected, 0.0, 0.0]])
        np.testing.assert_allclose(found.force_a, [[-expected, 0.0, 0.0]])
    apart = SimpleNamespace(point=[[0.0, 0.0, 0.0]], normal=[[1.0, 0.0, 0.0]], depth=[0.0])
    found = penalty(apart, x, y, stiffness=4.0, damping=0.5, velocities_a=[[5.0, 0, 0]], velocities_b=[[0, 0, 0]])
    assert not found.force_b.any()


def test_vertices_push_bodies_apart():
    """Push each vertex along its exit direction, with zero total force."""
    a, b = balls()
    contacts = impinge.penetrating_vertices([a, b], depth=True)
    assert set(contacts.body.tolist()) == {0, 1}
    found = penalty(contacts, a.vertices, b.vertices, stiffness=3.0, combine="sum")
    assert found.force_b.sum(axis=0)[0] > 0.0 > found.force_a.sum(axis=0)[0]
    assert np.abs(found.total).max() < 1e-12
    for body, force, sign in ((0, found.force_a, -1.0), (1, found.force_b, 1.0)):
        rows = contacts.vertex[contacts.body == body]
        assert (sign * force[rows, 0] > 0.0).all()


def test_vertices_in_several_tets_count_once():
    """Count a vertex on the face between two tets of the other body once."""
    a, b = shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2, center=(0.75, 0.0, 0.0))
    contacts = impinge.penetrating_vertices([a, b], depth=True)
    others = ~contacts.is_self
    distinct = {(int(i), int(v)) for i, v in zip(contacts.body[others], contacts.vertex[others])}
    assert len(distinct) < int(others.sum())
    found = penalty(contacts, a.vertices, b.vertices, stiffness=1.0)
    assert found.contact_count <= len(distinct)
    assert found.force_b[:, 0].sum() > 0.0


def test_volumes_push_bodies_apart():
    """Derive forces with zero sum from the energy k V² / 2 of a volume gradient."""
    a, b = balls()
    gradient = volume_gradient(a, b)
    found = penalty(gradient, a.vertices, b.vertices, stiffness=3.0)
    np.testing.assert_array_equal(found.force_a, gradient.force_a(3.0))
    assert found.force_b.sum(axis=0)[0] > 0.0
    assert np.abs(found.total).max() < 1e-9
    with pytest.raises(OptionError, match="vertices_a have 3 rows, but the gradient has 162"):
        penalty(gradient, a.vertices[:3], b.vertices, stiffness=3.0)
    still = {"velocities_a": a.vertices, "velocities_b": b.vertices}
    with pytest.raises(OptionError, match=r"damping is 1\.0, but a volume has no contact points to damp"):
        penalty(gradient, a.vertices, b.vertices, stiffness=3.0, damping=1.0, **still)


def test_overlaps_push_bodies_apart():
    """Derive the forces of an overlap volume from the positions at its query."""
    a, b = balls()
    overlap, gradient = impinge.overlap_volume(a, b, resolution=64), volume_gradient(a, b, resolution=64)
    a.update(a.vertices + 5.0)
    found = penalty(overlap, a.vertices, b.vertices, stiffness=3.0)
    assert found.force_b[:, 0].sum() > 0.0
    np.testing.assert_array_equal(found.force_a, gradient.force_a(3.0))
    np.testing.assert_array_equal(found.force_b, gradient.force_b(3.0))
    with pytest.raises(OptionError, match="the VolumeOverlap holds 0 bodies, expected 2"):
        penalty(pickle.loads(pickle.dumps(overlap)), a.vertices, b.vertices, stiffness=3.0)


def test_contacts_of_all_kinds_move_a_coarse_mesh():
    """Apply contacts to vertices of another mesh, such as the coarse mesh of a soft body."""
    a, b = balls()
    coarse = shapes.tet_box(3, 3, 3, size=2.2)
    spheres = impinge.sphere_contacts(a, b, budget_ms=None)
    vertices = impinge.penetrating_vertices([a, b], depth=True)
    kinds = (
        spheres,
        impinge.contacts_from_spheres(spheres),
        impinge.contacts_from_vertices(vertices),
        impinge.contacts_from_volume(volume_gradient(a, b), a, b),
    )
    for contacts in kinds:
        found = penalty(contacts, coarse.vertices, b.vertices, stiffness=3.0, combine="sum")
        assert found.force_b[:, 0].sum() > 0.0
        assert np.abs(found.total).max() < 1e-9 * np.abs(found.force_b).sum()


def test_no_contacts():
    """Return zero forces without contacts, and for empty vertex arrays."""
    a, b = balls(9.0)
    contacts = SphereTree(a, b).query()
    assert not penalty(contacts, a.vertices, b.vertices, stiffness=1.0).force_a.any()
    close = SphereTree(*balls()).query()
    assert penalty(close, np.zeros((0, 3)), b.vertices, stiffness=1.0).contact_count == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stiffness": 0.0}, "stiffness is 0.0, expected a positive number, force per length"),
        ({"stiffness": float("inf")}, "stiffness is inf, expected a positive number"),
        ({"combine": "mean"}, "combine is 'mean', expected 'average' or 'sum'"),
        ({"spread": 0}, "spread is 0, expected a whole number from 1"),
        ({"damping": -1.0}, "damping is -1.0, expected a number from 0, force per speed"),
        ({"damping": 1.0}, "damping needs velocities_a and velocities_b"),
        ({"contacts": 3}, "contacts are a int, expected SphereContacts, VertexContacts, a VolumeGradient"),
    ],
)
def test_invalid_options_raise(rng, options, message):
    """Raise an error that names the option, its value and the expected range."""
    given = {"contacts": some_contacts(rng), "vertices_a": [[0, 0, 0]], "vertices_b": [[0, 0, 0]], "stiffness": 1.0}
    with pytest.raises(OptionError, match=message):
        penalty(**(given | options))


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"depth": [-1.0]}, OptionError, r"depth\[0\] is -1, expected a finite number from 0"),
        ({"depth": [float("nan")]}, OptionError, r"depth\[0\] is nan, expected a finite number from 0"),
        ({"depth": [float("inf")]}, OptionError, r"depth\[0\] is inf, expected a finite number from 0"),
        ({"depth": [1.0, 2.0]}, OptionError, r"1 points, 1 normals and depths of shape \(2,\); expected one of each"),
        ({"normal": np.eye(3)}, OptionError, r"1 points, 3 normals and depths of shape \(1,\); expected one of each"),
        ({"depth": ["deep"]}, MeshError, "depth hold strings; expected real numbers"),
        ({"depth": None}, MeshError, "depth hold Python objects; expected real numbers"),
    ],
)
def test_invalid_contacts_raise(columns, error, message):
    """Raise an error for contacts that would pull or are not numbers."""
    given = {"point": [[0.0, 0.0, 0.0]], "normal": [[1.0, 0.0, 0.0]], "depth": [1.0]} | columns
    with pytest.raises(error, match=message):
        penalty(SimpleNamespace(**given), [[0, 0, 0]], [[0, 0, 0]], stiffness=1.0)


def test_contacts_of_a_world():
    """Accept the contacts of one pair of bodies, and refuse those of several pairs."""
    bodies = (*balls(), shapes.icosphere(2, center=(0.0, 1.7, 0.0)))
    world = impinge.World()
    for body, name in zip(bodies, "abc"):
        world.add(body, name=name)
    contacts = world.contacts()
    with pytest.raises(OptionError, match="contacts are of 2 pairs of bodies, expected one pair"):
        penalty(contacts, bodies[0].vertices, bodies[1].vertices, stiffness=1.0)
    for other, axis in ((1, 0), (2, 1)):
        of_pair = contacts.rows((contacts.body_a == 0) & (contacts.body_b == other))
        found = penalty(of_pair, bodies[0].vertices, bodies[other].vertices, stiffness=1.0)
        assert found.force_b[:, axis].sum() > 0.9 * np.linalg.norm(found.force_b.sum(axis=0)) > 0.0


def test_mismatched_contacts_raise(rng):
    """Raise an error for contacts without depth, of three bodies or of other vertices, and for invalid positions."""
    a, b = balls()
    with pytest.raises(OptionError, match="contacts have no depth"):
        penalty(impinge.penetrating_vertices([a, b]), a.vertices, b.vertices, stiffness=1.0)
    three = impinge.penetrating_vertices([a, b, shapes.icosphere(2, center=(0.3, 0.9, 0.0))], depth=True)
    with pytest.raises(OptionError, match="of more than two bodies"):
        penalty(three, a.vertices, b.vertices, stiffness=1.0)
    with pytest.raises(OptionError, match="is in contact, but vertices_a has 2 rows"):
        penalty(impinge.penetrating_vertices([a, b], depth=True), a.vertices[:2], b.vertices, stiffness=1.0)
    with pytest.raises(MeshError, match="velocities_a have 1 rows"):
        penalty(
            some_contacts(rng), a.vertices, b.vertices, stiffness=1.0, damping=1.0,
            velocities_a=[[0, 0, 0]], velocities_b=b.vertices,
        )  # fmt: skip
