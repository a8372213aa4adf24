"""Sphere trees of one body against itself: each pair once, neighbours by the policy, the answer of the oracle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import OptionError
from impinge.mesh.positions import Positions

pytestmark = pytest.mark.small


def crumpled(rng, level=2, amount=0.2):
    """A ball whose vertices were moved until it runs through itself."""
    body = shapes.icosphere(level)
    return impinge.TriMesh(body.vertices + amount * rng.standard_normal(body.vertices.shape), body.faces)


def rows(pairs):
    return [tuple(map(int, pair)) for pair in pairs]


def tree_of(detector):
    binding = detector._bindings[0]
    return binding.cache.tracked(binding).tree


def meeting_leaves(detector, faces):
    """Pairs of leaves of a layered tree that meet and share no vertex, and how many were left out, by brute force."""
    tree, found, left_out = tree_of(detector), set(), 0
    spheres = detector.query().spheres[0].of(np.arange(len(tree)))
    vertices = {int(leaf): set(faces[tree.triangles_under(leaf)].reshape(-1).tolist()) for leaf in tree.leaves}
    order = sorted(vertices, key=lambda leaf: tree.piece_start[leaf])
    for i, one in enumerate(order):
        for two in order[i:]:
            gap = np.linalg.norm(spheres[one, :3] - spheres[two, :3]) - spheres[one, 3] - spheres[two, 3]
            if gap <= 0.0 and vertices[one] & vertices[two]:
                left_out += 1
            elif gap <= 0.0:
                found.add((one, two))
    return found, left_out


@pytest.mark.parametrize("neighbours", ["exact", "skip"])
@pytest.mark.parametrize("order", ["breadth", "priority"])
def test_triangles_of_one_body(rng, order, neighbours):
    """Given time, be the answer of brute force, neighbours by the same policy, whatever the body does."""
    a, hits = crumpled(rng), 0
    detector = SphereTree(a, exact=True, order=order, neighbours=neighbours)
    for amount in (0.1, 0.2, 0.4):
        a.update(crumpled(rng, amount=amount).vertices)
        expected = impinge.BruteForce(a, neighbours=neighbours).query()
        result = detector.query()
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        assert result.complete
        assert result.is_self
        below = [[set(tree_of(detector).triangles_under(node).tolist()) for node in pair] for pair in result.certain]
        assert all(any((i in p and j in q) or (j in p and i in q) for p, q in below) for i, j in expected.pairs)
        hits += len(expected)
    assert hits > 100


def test_degenerate_triangles_of_one_body(rng):
    """Equal brute force on faces between few points of a grid: shared, repeated and flat ones, copies among them."""
    hits = 0
    for _ in range(40):
        a = impinge.TriMesh(rng.integers(0, 4, (10, 3)).astype(float), rng.integers(0, 10, (14, 3)))
        expected = impinge.BruteForce(a).query()
        result = SphereTree(a, exact=True).query()
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        hits += len(expected)
    assert hits > 300


@pytest.mark.parametrize("order", ["breadth", "priority"])
def test_spheres_of_one_body(rng, order):
    """Find every two leaves that meet and share no vertex once, the first along the tree first, and no others."""
    a = crumpled(rng, 3, 0.1)
    tree = build_spheres(a, builder="octree", kind="layered", levels=2)
    detector = SphereTree(a, tree_a=tree, order=order)
    expected, left_out = meeting_leaves(detector, a.faces)
    result = detector.query()

    assert set(rows(result.certain)) == expected
    assert len(result.certain) == len(expected) > 50
    assert left_out > 50
    assert result.complete
    assert (result.depth > 0.0).all()


def test_interrupted_search_of_one_body(rng):
    """Hold every pair of the end in ``certain`` or ``possible`` at any time, in one order only; repeat to the bit."""
    a = crumpled(rng, 3, 0.1)
    detector, exact = SphereTree(a), SphereTree(a, exact=True)
    tree, whole = tree_of(detector), detector.query()
    meeting = exact.query().pairs
    start, stop = tree.piece_start, tree.piece_stop
    before = set()
    for most in (1, 5, 30, 200, 700, whole.stats["tests"] - 1, whole.stats["tests"]):
        result = detector.query(max_tests=most)
        np.testing.assert_array_equal(result.possible, detector.query(max_tests=most).possible)
        held = np.concatenate([result.certain, result.possible])
        assert (start[held[:, 0]] < stop[held[:, 1]]).all()
        assert len(set(rows(held))) == len(held)
        for p, q in rows(whole.certain)[::7]:
            is_above = (start[held] <= start[[p, q]]) & (stop[held] >= stop[[p, q]])
            assert is_above.all(axis=1).any()
        assert before <= set(rows(result.certain))
        before = set(rows(result.certain))
        part = exact.query(max_tests=most)
        held = np.concatenate([part.certain, part.possible])
        below = [[set(tree.triangles_under(node).tolist()) for node in pair] for pair in held]
        assert all(any((i in p and j in q) or (j in p and i in q) for p, q in below) for i, j in meeting[::9])
    assert result.complete
    assert before == set(rows(whole.certain))
    assert len(meeting) > 50


def test_smooth_bodies_do_not_meet_themselves():
    """Report no contact of a ball's neighbours, and no depth of spheres that share a vertex on any level."""
    a = shapes.icosphere(3)
    result = SphereTree(a, exact=True).query()
    assert (len(result.pairs), len(result.certain), result.complete) == (0, 0, True)
    detector = SphereTree(a)
    coarse = detector.query(level=1)
    tree = tree_of(detector)
    vertices = [set(a.faces[tree.triangles_under(node)].reshape(-1).tolist()) for node in range(len(tree))]
    shares = np.array([bool(vertices[i] & vertices[j]) for i, j in coarse.possible])
    assert (coarse.possible_depth[shares] == 0.0).all()
    assert (coarse.reason, shares.sum() > 0) == ("limit", True)
    roots = detector.query(max_tests=1)
    assert roots.possible_depth.max() == 0.0
    assert pickle.loads(pickle.dumps(roots)).possible_depth.max() == 0.0


def test_options_of_one_body(rng):
    """Take transforms, active triangles and pairs to ignore as the oracle does; refuse what is about b."""
    a = crumpled(rng)
    whole = impinge.BruteForce(a).query()
    matrix = np.eye(4)
    matrix[:3] += 0.2 * rng.standard_normal((3, 4))
    for options in (
        {"transform_a": matrix},
        {"active_a": rng.random(len(a)) < 0.6},
        {"ignore": whole.pairs[::2, ::-1]},
        {"max_pairs": 7},
    ):
        expected = impinge.BruteForce(a).query(**options)
        result = SphereTree(a, exact=True).query(**options)
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        assert (result.complete, result.reason) == (expected.complete, expected.reason)
        assert len(expected) > 5
    with pytest.raises(OptionError, match="transform_b and active_b are for two bodies"):
        SphereTree(a).query(transform_b=matrix, active_b=[0])
    with pytest.raises(OptionError, match="tree_b is given without b; leave it out for self-collision"):
        SphereTree(a, tree_b=build_spheres(a, builder="octree", levels=1))
    with pytest.raises(OptionError, match="neighbours='skip' is for self-collision"):
        SphereTree(a, shapes.box(1.0), neighbours="skip")


def test_one_question_about_one_body(rng):
    """Find contacts of one body with itself in one call, with a budget and without."""
    a = crumpled(rng)
    result = impinge.sphere_contacts(a, budget_ms=None, exact=True)
    np.testing.assert_array_equal(result.pairs, impinge.self_pairs(a).pairs)
    assert impinge.sphere_contacts(a, budget_ms=1e-6).possible.tolist() == [[0, 0]]
    contacts = impinge.contacts_from_spheres(result)
    assert len(contacts) == len(result.certain) > 0
    assert contacts.body_pairs.tolist() == [[0, 0]]
    assert not impinge.sphere_contacts(impinge.TriMesh([], []), budget_ms=None)
    single = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    for order in ("breadth", "priority"):
        alone = SphereTree(single, order=order).query()
        assert (len(alone.certain), len(alone.possible), alone.complete) == (0, 0, True)


def test_a_fan_of_many_triangles():
    """Take a vertex that all triangles share: no two leaves count, and lists stay as long as the mesh."""
    count = 3000
    angle = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    turn = np.arange(count)
    faces = np.stack([np.full(count, count), turn, (turn + 1) % count], axis=1)
    fan = impinge.TriMesh(np.concatenate([rim, [[0.0, 0.0, 1.0]]]), faces)
    result = SphereTree(fan).query()
    assert (len(result.certain), result.complete) == (0, True)
    assert result.stats["tests"] > 1000


def test_penalty_parts_one_body(rng):
    """Push the two sides of a fold apart: forces in balance, on vertices of either side, none between neighbours."""
    sheet = shapes.icosphere(3)
    x = np.array(sheet.vertices)
    x[:, 2] *= np.where(x[:, 2] > 0.0, 0.02, 0.03)  # top and bottom nearly touch
    flat = impinge.TriMesh(x, sheet.faces)
    contacts = SphereTree(flat, tree_a=build_spheres(flat, builder="octree", levels=3)).query()
    push = impinge.penalty(contacts, x, x, stiffness=10.0, combine="sum")
    assert push.contact_count > 20
    np.testing.assert_allclose(push.total, 0.0, atol=1e-9 * np.abs(push.force_a).sum())
    assert np.abs(push.force_a + push.force_b).sum() > 0.5 * np.abs(push.force_a).sum()
    ball = impinge.sphere_contacts(shapes.icosphere(3), max_tests=1, budget_ms=None)
    assert impinge.penalty(ball, x, x, stiffness=10.0).contact_count == 0


def test_picture_of_one_body(rng):
    """Draw the spheres of both columns over the body."""
    pytest.importorskip("matplotlib")
    from impinge.view.drawing import drawing_of
    from impinge.view.picture import sphere_items

    result = SphereTree(crumpled(rng), exact=True).query()
    items = list(sphere_items(result))
    assert len(items) == 2
    assert len(np.unique(result.certain)) == int(items[1].label.split()[1])
    drawing = drawing_of(result)
    assert len(drawing.hits) == len(drawing.spheres) == len(drawing.surfaces) == 1


@pytest.mark.parametrize("change", ["moved", "edited"])
def test_one_body_is_seen_in_one_state(rng, monkeypatch, change):
    """Answer for one state of a body that another thread changes right after the query looked at it."""
    a, to = crumpled(rng), np.array(crumpled(rng).vertices)
    states = [impinge.BruteForce(a).query().pairs]
    detector, changes = SphereTree(a, exact=True), [change]
    if change == "moved":
        detector.query()
    look = Positions.state.fget if change == "moved" else impinge.TriMesh.state

    def change_after_look(looked_at):
        seen = look(looked_at)
        if changes:
            changes.clear()
            if change == "moved":
                a.update(to)
            else:
                a.add_triangles(np.array(a.faces[:100]))
        return seen

    with monkeypatch.context() as patched:
        if change == "moved":
            patched.setattr(Positions, "state", property(change_after_look))
        else:
            patched.setattr(impinge.TriMesh, "state", change_after_look)
        found = detector.query().pairs
    states.append(impinge.BruteForce(a).query().pairs)
    assert not changes
    assert rows(found) in [rows(pairs) for pairs in states]
    assert rows(states[0]) != rows(states[1])
    np.testing.assert_array_equal(detector.query().pairs, states[1])
