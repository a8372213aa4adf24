"""Worlds: all near pairs against brute force and single queries, added and removed bodies, budgets, pickling."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
import threading
from functools import partial

import numpy as np
import pytest

import impinge
from impinge import ContactKind, MeshError, OptionError, World
from impinge.backend import jit
from impinge.contact.contacts import body_key
from impinge.mesh import shapes
from impinge.world import search


def turned(rng):
    """A random rotation."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else -q


def soup(body):
    """The same triangles without shared vertices: closed by positions only."""
    return impinge.TriMesh(body.vertices[body.faces].reshape(-1, 3), np.arange(3 * len(body)).reshape(-1, 3))


def inside_out(body):
    return impinge.TriMesh(body.vertices, body.faces[:, ::-1])


MAKERS = {
    "box": lambda: shapes.box(1.0),
    "ball": lambda: shapes.icosphere(2, radius=0.7),
    "tets": lambda: shapes.tet_box(2, 2, 2, size=1.2),
    "cloth": lambda: shapes.cloth_grid(6, 6, size=1.5),
    "soup": lambda: soup(shapes.box(0.9, cells=(2, 2, 2))),
    "inside_out": lambda: inside_out(shapes.icosphere(1, radius=0.6)),
    "two": lambda: joined(shapes.box(0.5), shapes.box(0.4, center=(0.7, 0.0, 0.0))),
    "bar": lambda: shapes.box((4.0, 0.15, 0.15)),
    "large": lambda: shapes.icosphere(4, radius=0.9),
}
"""Small and large bodies, closed, open and closed by position only; ``large`` is searched by its tree."""


def joined(a, b):
    return impinge.TriMesh(
        np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + len(a.vertices)])
    )


def mixed_bodies(rng, count, *, spread=2.2, kinds=tuple(MAKERS)):
    """Bodies of all kinds at random positions, by name."""
    bodies = {}
    for k in range(count):
        kind = kinds[k % len(kinds)]
        body = MAKERS[kind]()
        body.update(body.vertices @ turned(rng).T + rng.uniform(0.0, spread, 3))
        bodies[f"{kind} {k}"] = body
    return bodies


def world_of(bodies, **options):
    world = World()
    for name, body in bodies.items():
        world.add(body, name=name, **options)
    return world


def is_within(a, b):
    """Whether the box of a is within that of b."""
    (low, high), (low_b, high_b) = a.bounds, b.bounds
    return bool((low >= low_b).all() and (high <= high_b).all())


def surface(body):
    return body.surface if isinstance(body, impinge.TetMesh) else body


def expected_rows(bodies, wanted):
    """Map (body, vertex, penetrated body) to (depth, direction), by names; and triangles of pairs without vertices."""
    vertices, triangles = {}, set()
    for a, b in wanted:
        pair = [surface(bodies[a]), surface(bodies[b])]
        found = impinge.penetrating_vertices(pair, depth=True)
        for body, vertex, in_body, depth, way in zip(
            found.body, found.vertex, found.in_body, found.depth, found.direction
        ):
            vertices[(a, b)[body], int(vertex), (a, b)[in_body]] = depth, way
        if not len(found):
            pairs = impinge.triangle_pairs(*pair, method="brute_force").pairs
            triangles |= {(a, b, int(i), int(j)) for i, j in pairs}
    return vertices, triangles


def rows_of(contacts):
    """The same, of contacts."""
    vertices, triangles = {}, set()
    for k in range(len(contacts)):
        a, b = contacts.names[contacts.body_a[k]], contacts.names[contacts.body_b[k]]
        of_a, of_b = int(contacts.feature_a[k]), int(contacts.feature_b[k])
        if contacts.kind[k] == ContactKind.VERTEX_A:
            vertices[a, of_a, b] = contacts.depth[k], -contacts.normal[k]
        elif contacts.kind[k] == ContactKind.VERTEX_B:
            vertices[b, of_b, a] = contacts.depth[k], contacts.normal[k]
        else:
            triangles.add((a, b, of_a, of_b))
    return vertices, triangles


def assert_same(found, expected):
    assert found[1] == expected[1]
    assert set(found[0]) == set(expected[0])
    for key, (depth, way) in expected[0].items():
        np.testing.assert_allclose(found[0][key][0], depth, rtol=1e-9, atol=1e-12, err_msg=str(key))
        np.testing.assert_allclose(found[0][key][1], way, rtol=1e-7, atol=1e-9, err_msg=str(key))


def digest(contacts):
    """A hash of all bits of a result."""
    h = hashlib.sha256()
    for name in ("body_a", "body_b", "kind", "feature_a", "feature_b", "point", "normal", "depth", "id", "possible"):
        h.update(np.ascontiguousarray(getattr(contacts, name)).tobytes())
    return h.hexdigest()


# contacts and pairs by brute force ---------------------------------------------------------------------


def test_contacts_are_those_of_all_pairs_one_by_one(rng):
    """Equal single queries for each pair: vertices, depths, directions and triangles."""
    bodies = mixed_bodies(rng, 18, spread=3.0)
    contacts = world_of(bodies).contacts()
    expected = expected_rows(bodies, itertools.combinations(bodies, 2))

    assert_same(rows_of(contacts), expected)
    assert len(expected[0]) > 200
    assert len(expected[1]) > 20
    inside = {key[2].split()[0] for key in expected[0]}
    assert inside >= {"box", "ball", "tets", "soup", "inside_out", "two", "large"}
    assert contacts.complete
    assert contacts.method == "vertices"


@pytest.mark.parametrize("method", ["vertices", "pairs", "volume", "spheres"])
def test_contacts_keep_the_contract(rng, method):
    """Return unit normals, depths from 0 and finite numbers with every method."""
    kinds = ("box", "ball", "tets", "large") if method == "volume" else tuple(MAKERS)
    contacts = world_of(mixed_bodies(rng, 10, kinds=kinds)).contacts(method=method)

    assert len(contacts) > 5
    np.testing.assert_allclose(np.linalg.norm(contacts.normal, axis=1), 1.0, atol=1e-12)
    assert (contacts.depth >= 0.0).all()
    assert np.isfinite(contacts.point).all()
    assert (contacts.body_a < contacts.body_b).all()
    assert len(np.unique(contacts.id)) == len(contacts)
    assert contacts.stats["chosen"] == method


def test_vertices_leave_through_the_triangle_that_is_named(rng):
    """Return the triangle of the other body through which the vertex leaves."""
    bodies = mixed_bodies(rng, 8)
    contacts = world_of(bodies).contacts()
    checked = 0
    for k in np.flatnonzero(contacts.kind == ContactKind.VERTEX_A):
        body = surface(bodies[contacts.names[contacts.body_b[k]]])
        end = contacts.point[k] - contacts.depth[k] * contacts.normal[k]
        corners = body.vertices[body.faces[contacts.feature_b[k]]]
        alone = impinge.TriMesh(corners, [[0, 1, 2]])
        assert impinge.closest_points(alone, [end], inside=False).distance[0] < 1e-9
        checked += 1
    assert checked > 20


def test_pairs_are_those_of_all_pairs_one_by_one(rng):
    """Find all triangles that meet, of small and large bodies, with their kinds."""
    bodies = mixed_bodies(rng, 12)
    found = world_of(bodies).pairs()
    expected = []
    for i, j in itertools.combinations(range(len(bodies)), 2):
        one = impinge.triangle_pairs(*(surface(list(bodies.values())[k]) for k in (i, j)), method="brute_force")
        expected += [(i, j, *pair, kind) for pair, kind in zip(one.pairs.tolist(), one.kind.tolist())]

    rows = np.column_stack([found.body_a, found.body_b, found.pairs, found.kind])
    assert [tuple(row) for row in rows.tolist()] == expected
    assert len(expected) > 500
    assert sum(found.count_by_kind().values()) == len(found)


def bodies_of_several_groups(rng, shift=0.0):
    """Closed bodies of 12 to 1,280 triangles, up to twenty groups in the batch."""
    makers = [
        lambda: shapes.icosphere(3, radius=0.9),
        lambda: shapes.tet_box(8, 8, 1, size=(2.0, 2.0, 0.3)),
        lambda: shapes.box(0.8),
    ]
    bodies = {}
    for k in range(9):
        body = makers[k % 3]()
        body.update(body.vertices @ turned(rng).T + rng.uniform(0.0, 2.0, 3) + shift)
        bodies[f"body {k}"] = body
    return bodies


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_bodies_of_several_groups(rng, shift):
    """Equal single queries for bodies of many groups of triangles, also far from the origin."""
    bodies = bodies_of_several_groups(rng, shift)
    world = world_of(bodies)
    contacts, found = world.contacts(), world.pairs()
    expected = expected_rows(bodies, itertools.combinations(bodies, 2))
    pairs = 0
    for a, b in itertools.combinations(bodies.values(), 2):
        pairs += len(impinge.triangle_pairs(surface(a), surface(b), method="brute_force"))

    vertices, triangles = rows_of(contacts)
    assert triangles == expected[1]
    assert set(vertices) == set(expected[0])
    depths = np.array([[vertices[key][0], expected[0][key][0]] for key in vertices])
    np.testing.assert_allclose(depths[:, 0], depths[:, 1], rtol=1e-6, atol=1e-15 * max(shift, 1.0) * 1e3)
    assert len(found) == pairs > 300
    assert len(vertices) > 300


def test_boxes_hold_wherever_bodies_go(rng):
    """Equal a new world bit for bit after bodies moved far from the origin of the boxes."""
    bodies = bodies_of_several_groups(rng)
    world = world_of(bodies)
    world.contacts()
    some = list(bodies)[1:]
    for shift in (3e4, -7e7):
        for name in some:
            bodies[name].update(bodies[name].vertices + shift)
        contacts, pairs = world.contacts(), world.pairs()
        fresh = world_of(bodies)

        assert digest(contacts) == digest(fresh.contacts())
        np.testing.assert_array_equal(pairs.pairs, fresh.pairs().pairs)
        assert len(contacts) > 100
        assert len(pairs) > 100


def test_degenerate_bodies(rng):
    """Equal brute force for touching and coplanar triangles of boxes on a grid."""
    bodies = {}
    for k in range(14):
        box = shapes.box(2.0)
        box.update(box.vertices + rng.integers(0, 4, size=3))
        bodies[str(k)] = box
    world = world_of(bodies)
    found = world.pairs()
    expected = sum(
        len(impinge.triangle_pairs(a, b, method="brute_force")) for a, b in itertools.combinations(bodies.values(), 2)
    )

    assert len(found) == expected > 1000
    assert len(np.unique(found.kind)) == 3
    assert_same(rows_of(world.contacts()), expected_rows(bodies, itertools.combinations(bodies, 2)))


@pytest.mark.parametrize("method", ["auto", "vertices", "pairs", "volume", "spheres"])
def test_containment_is_found(method):
    """Find a body inside a small and inside a large closed body with every method."""
    for outer in (shapes.icosphere(2), shapes.icosphere(4)):
        world = world_of({"outer": outer, "inner": shapes.icosphere(1, radius=0.2)})
        contacts = world.contacts(method=method)

        assert len(contacts) == (1 if method == "volume" else 42)
        assert set(contacts.kind) == {ContactKind.VOLUME if method == "volume" else ContactKind.VERTEX_B}
        assert contacts.has_depth.all()


def test_a_body_may_stick_out_within_the_box():
    """Distinguish a body that crosses the surface of another within its box from one that is inside."""
    way = np.ones(3) / np.sqrt(3.0)
    world = world_of({"outer": shapes.icosphere(3), "inner": shapes.icosphere(2, radius=0.1, center=way)})
    assert is_within(world["inner"], world["outer"])
    contacts = world.contacts(method="spheres")

    assert len(contacts) > 10
    assert set(contacts.kind) == {ContactKind.SPHERES}
    push = (contacts.depth[:, None] * contacts.normal).sum(axis=0)
    assert push @ way > 0.95 * np.linalg.norm(push)
    short = world.contacts(method="spheres", max_tests=100)
    assert (short.possible.tolist(), short.reason) == ([[0, 1]], "budget")


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_any_scale(rng, scale):
    """Scale contacts with the bodies where products of coordinates would overflow or underflow."""
    small, scaled = mixed_bodies(rng, 6, kinds=("box", "ball"), spread=1.2), {}
    for name, body in small.items():
        scaled[name] = impinge.TriMesh(scale * body.vertices, body.faces)
    one, other = world_of(small).contacts(), world_of(scaled).contacts()

    assert len(one) > 20
    np.testing.assert_array_equal(one.id, other.id)
    np.testing.assert_allclose(other.depth / scale, one.depth, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scale", [1e39, 1e100, 1e300])
def test_numbers_beyond_single_precision(rng, scale):
    """Equal brute force where boxes of single precision are infinite.

    Infinite boxes overlapped empty slots, and the process crashed.
    """
    counts = (5, 3, 9, 1)
    soups = [impinge.TriMesh(scale * rng.uniform(-1, 1, (3 * n, 3)), np.arange(3 * n).reshape(-1, 3)) for n in counts]
    found = world_of({str(b): soup for b, soup in enumerate(soups)}).pairs()
    alone = {
        (a, b): impinge.triangle_pairs(soups[a], soups[b], method="brute_force").pairs.tolist()
        for a, b in itertools.combinations(range(len(soups)), 2)
    }

    assert len(found) > 5
    for (a, b), expected in alone.items():
        assert found.pairs[(found.body_a == a) & (found.body_b == b)].tolist() == expected


# filters ------------------------------------------------------------------------------------------------


def test_filters_are_those_of_a_loop(rng):
    """Process exactly the pairs that groups, fixed bodies and ignored pairs allow."""
    bodies = mixed_bodies(rng, 14, spread=1.8)
    world, chosen = World(), {}
    for name, body in bodies.items():
        chosen[name] = {
            "group": int(rng.integers(1, 4)),
            "collides_with": int(rng.integers(1, 4)),
            "fixed": bool(rng.integers(2)),
        }
        world.add(body, name=name, **chosen[name])
    names = list(bodies)
    ignored = {tuple(sorted(rng.choice(names, 2, replace=False))) for _ in range(15)}
    for a, b in ignored:
        world.ignore(b, a)

    def wanted(a, b):
        one, other = chosen[a], chosen[b]
        collide = one["group"] & other["collides_with"] and other["group"] & one["collides_with"]
        return collide and not (one["fixed"] and other["fixed"]) and tuple(sorted((a, b))) not in ignored

    pairs = [pair for pair in itertools.combinations(names, 2) if wanted(*pair)]
    assert 10 < len(pairs) < 60
    assert_same(rows_of(world.contacts()), expected_rows(bodies, pairs))
    near = {(names[i], names[j]) for i, j in world.near_pairs().tolist()}
    assert near <= set(pairs)


def test_near_pairs_follow_every_move():
    """Use current boxes after updates, edits and moves of a tet mesh."""
    a, b = shapes.box(1.0), shapes.tet_box(1, 1, 1, size=1.0, center=(3.0, 0.0, 0.0))
    world = world_of({"a": a, "b": b})
    assert len(world.near_pairs()) == 0
    a.update(a.vertices + np.array([2.5, 0.0, 0.0]))
    assert world.near_pairs().tolist() == [[0, 1]]
    b.update(b.vertices + np.array([0.0, 3.0, 0.0]))
    assert len(world.near_pairs()) == 0
    ids = a.add_triangles([[8, 9, 10]], vertices=[[3.0, 3.0, 0.0], [3.1, 3.0, 0.0], [3.0, 3.1, 0.0]])
    assert world.near_pairs().tolist() == [[0, 1]]
    assert len(world.contacts()) > 0
    a.remove_triangles(ids)
    assert len(world.near_pairs()) == 0


# ids and changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["vertices", "pairs", "volume", "spheres"])
def test_ids_do_not_depend_on_the_order_of_bodies(rng, method):
    """Return the same id, depth and point for any order of bodies, and normals of opposite sign where bodies swap."""
    kinds = ("box", "ball", "tets", "large") if method == "volume" else tuple(MAKERS)
    bodies = mixed_bodies(rng, 10, kinds=kinds)
    names = list(bodies)
    one = world_of(bodies).contacts(method=method)
    other = world_of({name: bodies[name] for name in rng.permutation(names).tolist()}).contacts(method=method)
    first, second = np.argsort(one.id), np.argsort(other.id)
    turned_round = np.array(one.names)[one.body_a[first]] != np.array(other.names)[other.body_a[second]]

    assert len(one) > (5 if method == "volume" else 100)
    assert turned_round.any()
    np.testing.assert_array_equal(one.id[first], other.id[second])
    np.testing.assert_allclose(one.depth[first], other.depth[second], rtol=1e-12)
    np.testing.assert_allclose(one.point[first], other.point[second], atol=1e-12)
    sign = np.where(turned_round, -1.0, 1.0)[:, None]
    np.testing.assert_allclose(one.normal[first], sign * other.normal[second], atol=1e-9)
    if method == "vertices":
        np.testing.assert_array_equal(one.depth[first], other.depth[second])
        np.testing.assert_array_equal(one.point[first], other.point[second])


def test_contacts_do_not_depend_on_other_bodies(rng):
    """Return the same bits for two bodies alone and among others."""
    bodies = mixed_bodies(rng, 9)
    together, count = world_of(bodies).contacts(), 0
    for a, b in itertools.combinations(bodies, 2):
        alone = world_of({a: bodies[a], b: bodies[b]}).contacts()
        rows = np.flatnonzero(np.isin(together.id, alone.id))
        assert len(rows) == len(alone)
        order, other = rows[np.argsort(together.id[rows])], np.argsort(alone.id)
        for column in ("id", "point", "depth", "normal", "feature_a", "feature_b", "kind"):
            np.testing.assert_array_equal(getattr(together, column)[order], getattr(alone, column)[other])
        count += len(alone)
    assert count == len(together) > 100


@pytest.mark.parametrize("method", ["vertices", "pairs", "volume", "spheres"])
def test_ids_persist_while_bodies_are_added_and_removed(method):
    """Keep the ids of contacts of two bodies while others are added and removed."""
    a, b = shapes.box(1.0), shapes.box(0.5, center=(0.0, 0.0, 0.7))
    world = world_of({"other": shapes.box(1.0, center=(9.0, 0.0, 0.0)), "a": a, "b": b})
    first = world.contacts(method=method)
    world.remove("other")
    world.add(shapes.box(0.4, center=(0.6, 0.0, 0.0)), name="new")
    second = world.contacts(method=method)
    changes = second.changes(first)

    assert len(first) > 0
    assert sorted(changes.persisting.reshape(-1).tolist()) == sorted(first.id.tolist())
    assert len(changes.left) == 0
    assert len(changes.entered) == len(second) - len(first) > 0
    world.remove("b")
    assert set(second.changes(world.contacts(method=method)).entered.reshape(-1)) == set(first.id)
    assert world.names == ("a", "new")


# moving all at once ---------------------------------------------------------------------------------------


def test_updates_of_all_are_updates_of_each(rng):
    """Equal an update of each body; versions grow, snapshots stay."""
    one, other = mixed_bodies(rng, 10), {}
    for name, body in one.items():
        elements = body.tets if isinstance(body, impinge.TetMesh) else body.faces
        other[name] = type(body)(body.vertices, elements)
    together, apart = world_of(one), world_of(other)
    for _ in range(4):
        x = [body.vertices + 0.1 * rng.normal(size=3) for body in one.values()]
        before = {name: (body.version, body.vertices, body.vertices.copy()) for name, body in one.items()}
        together.update(np.concatenate(x))
        for body, positions in zip(other.values(), x):
            body.update(positions)
        for name, body in one.items():
            np.testing.assert_array_equal(body.vertices, other[name].vertices)
            assert body.version > before[name][0]
            np.testing.assert_array_equal(before[name][1], before[name][2])
            assert not body.vertices.flags.writeable
        assert digest(together.contacts()) == digest(apart.contacts())
    one["box 0"].update(one["box 0"].vertices + 0.05)
    other["box 0"].update(other["box 0"].vertices + 0.05)
    assert digest(together.contacts()) == digest(apart.contacts())


def test_moves_are_transforms_of_rest_positions(rng):
    """Equal ``transform_points`` of the positions at ``add``, for all bodies and for some by name."""
    bodies = mixed_bodies(rng, 5)
    rest = {name: body.vertices.copy() for name, body in bodies.items()}
    world = world_of(bodies)
    matrices = np.tile(np.eye(4), (5, 1, 1))
    matrices[:, :3, :3], matrices[:, :3, 3] = [turned(rng) for _ in range(5)], rng.normal(size=(5, 3))
    world.move(matrices)
    for matrix, (name, body) in zip(matrices, bodies.items()):
        np.testing.assert_array_equal(body.vertices, impinge.transform_points(matrix, rest[name]))
    some = list(bodies)[3:1:-1]
    kept = {name: body.vertices.copy() for name, body in bodies.items()}
    world.move(matrices[:2], names=some)
    for name, body in bodies.items():
        moved = impinge.transform_points(matrices[some.index(name)], rest[name]) if name in some else kept[name]
        np.testing.assert_array_equal(body.vertices, moved)


def test_bodies_that_move_together_and_on_their_own(rng):
    """Equal new worlds after moves of all, of some, updates and edits, in two worlds that share bodies."""
    bodies = mixed_bodies(rng, 8, kinds=("ball", "box", "soup"))
    names = list(bodies)
    first, second = world_of(bodies), world_of({name: bodies[name] for name in names[:5]})

    def transforms(count):
        matrices = np.tile(np.eye(4), (count, 1, 1))
        matrices[:, :3, 3] = rng.uniform(-0.5, 0.5, (count, 3))
        return matrices

    for _ in range(60):
        world = (first, second)[rng.integers(2)]
        before = {name: (body.version, body.positions.edits, body.vertices.copy()) for name, body in bodies.items()}
        way, some = rng.integers(5), [str(name) for name in rng.choice(world.names, 2, replace=False)]
        if way == 0:
            world.move(transforms(len(world)))
            some = list(world.names)
        elif way == 1:
            world.move(transforms(2), names=some)
        elif way == 2:
            world.update(np.concatenate([bodies[name].vertices + rng.normal(size=3) * 0.1 for name in world]))
            some = list(world.names)
        else:
            some = some[:1]
            if way == 3:
                bodies[some[0]].update(bodies[some[0]].vertices + 0.1)
            else:
                bodies[some[0]].remove_triangles([int(rng.integers(len(bodies[some[0]].faces)))])
        for name, body in bodies.items():
            version, edits, x = before[name]
            assert body.version == version + (name in some)
            assert body.positions.edits == edits + (way == 4 and name in some)
            assert body.snapshot().version == body.version == body.state().version
            if name not in some or way == 4:
                np.testing.assert_array_equal(body.vertices, x)
        if rng.random() < 0.5:
            for shared in (first, second):
                fresh = world_of({name: bodies[name] for name in shared.names})
                assert digest(shared.contacts()) == digest(fresh.contacts())


def test_snapshots_while_all_move(rng):
    """Take consistent snapshots while another thread moves all bodies at once."""
    bodies = mixed_bodies(rng, 4, kinds=("ball", "box"))
    world, body = world_of(bodies), bodies["box 1"]
    rest, matrices = body.vertices.copy(), np.tile(np.eye(4), (4, 1, 1))
    world.move(matrices)
    begun, stop = body.version, threading.Event()

    def move():
        moves = 0
        while not stop.is_set():
            moves += 1
            matrices[:, :3, 3] = moves
            world.move(matrices)

    mover = threading.Thread(target=move)
    mover.start()
    seen = set()
    try:
        while len(seen) < 10:
            seen |= {(state.version, float(state.vertices[0, 0])) for state in (body.snapshot(), body.state())}
    finally:
        stop.set()
        mover.join()

    for version, x in seen:
        assert x == rest[0, 0] + (version - begun)


def test_a_body_that_detaches_during_moves(rng):
    """Use the final positions of a body that another thread updates during moves of all."""
    bodies = mixed_bodies(rng, 5, kinds=("ball", "box"))
    world, body = world_of(bodies), bodies["box 1"]
    x, matrices = body.vertices.copy(), np.tile(np.eye(4), (5, 1, 1))
    stop = threading.Event()

    def update():
        while not stop.is_set():
            body.update(x + 0.2)

    updater = threading.Thread(target=update)
    updater.start()
    try:
        for k in range(300):
            matrices[:, :3, 3] = 0.001 * k
            world.move(matrices)
    finally:
        stop.set()
        updater.join()

    assert digest(world.contacts()) == digest(world_of(bodies).contacts())


# budgets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["vertices", "pairs"])
def test_pairs_beyond_the_budget_are_possible(rng, method):
    """Process or list each near pair, process more with more tests, and repeat bit for bit."""
    bodies = mixed_bodies(rng, 12)
    world = world_of(bodies)
    ask = partial(world.contacts, method=method)
    whole = ask()
    near = {tuple(pair) for pair in world.near_pairs().tolist()}
    wanted = ask(max_tests=1).stats["tests_wanted"]
    before, parts = -1, 0
    for tests in (1, wanted // 50, wanted // 10, wanted // 3, wanted):
        some = ask(max_tests=tests)
        possible = {tuple(pair) for pair in some.possible.tolist()}
        answered = near - possible
        rows = np.array([(a, b) in answered for a, b in zip(whole.body_a.tolist(), whole.body_b.tolist())])
        np.testing.assert_array_equal(np.sort(some.id), np.sort(whole.id[rows]))
        assert possible <= near
        assert some.stats["tests_spent"] <= tests
        assert (some.complete, some.reason) == ((True, None) if not possible else (False, "budget"))
        assert digest(some) == digest(ask(max_tests=tests))
        assert len(answered) >= before
        before, parts = len(answered), parts + (0 < len(answered) < len(near))
    assert parts >= 2
    assert before == len(near)


@pytest.mark.parametrize("limit", ["max_tests", "budget_ms"])
def test_first_pairs_are_processed_first(rng, limit):
    """Process the pairs in ``first`` before cheaper ones, in their order: in turns, every pair is processed.

    With ``possible`` sorted, two pairs alternated and all others starved.
    """
    world = world_of(mixed_bodies(rng, 8))
    whole = world.contacts(method="vertices")
    near, answered, waiting = {tuple(pair) for pair in world.near_pairs().tolist()}, [], None
    little = {limit: 1 if limit == "max_tests" else 1e-9}
    for _ in range(len(near) + 1):
        some = world.contacts(method="vertices", first=waiting, **little)
        left = [tuple(pair) for pair in some.possible.tolist()]
        answered += near - set(left)
        rows = np.array([(a, b) not in left for a, b in zip(whole.body_a.tolist(), whole.body_b.tolist())])
        np.testing.assert_array_equal(np.sort(some.id), np.sort(whole.id[rows]))
        assert waiting is not None or left == sorted(left)
        waiting = some.possible

    assert set(answered) == near
    assert len(near) > 4
    assert limit == "budget_ms" or len(answered) == len(near)  # one by one; by the clock in batches
    turned = [pair[::-1] for pair in left]
    assert digest(world.contacts(method="vertices", first=turned)) == digest(whole)


def test_spheres_take_turns(rng):
    """Complete the first pair in ``first`` whatever the budget: in turns, every pair is completed."""
    world = world_of(mixed_bodies(rng, 6, kinds=("ball", "box")))
    near, answered, waiting = {tuple(pair) for pair in world.near_pairs().tolist()}, set(), None
    for _ in range(len(near) + 1):
        waiting = world.contacts(method="spheres", max_tests=1, first=waiting).possible
        answered |= near - {tuple(pair) for pair in waiting.tolist()}

    assert len(near) > 4
    assert answered == near


def test_auto_knows_bodies_that_are_closed_by_position():
    """Choose vertices for soups that are closed by position, and pairs for open surfaces."""
    balls = {"a": soup(shapes.icosphere(2)), "b": soup(shapes.icosphere(2, center=(1.5, 0.0, 0.0)))}
    contacts = world_of(balls).contacts()
    cloths = {"a": shapes.cloth_grid(4, 4, size=1.0), "b": shapes.cloth_grid(4, 4, size=1.0)}

    assert (contacts.method, contacts.stats["why"][:16]) == ("vertices", "2 of 2 bodies ar")
    assert contacts.depth.max() > 0.45
    assert world_of(cloths).contacts().method == "pairs"


@pytest.mark.parametrize("method", ["auto", "vertices", "pairs", "spheres"])
def test_time_budgets_complete_or_report(rng, method):
    """Return an incomplete or a complete result, and report which."""
    world = world_of(mixed_bodies(rng, 10))
    whole = world.contacts(method=method)
    none, all_ = (world.contacts(method=method, budget_ms=budget) for budget in (1e-9, 1e9))

    assert (len(none), none.complete, none.reason) == (0, False, "budget")
    assert bool(none)
    np.testing.assert_array_equal(none.possible, world.near_pairs())
    assert digest(all_) == digest(whole)


def test_spheres_share_tests(rng):
    """Find more with more tests, lose nothing, complete in the end, and repeat bit for bit."""
    world = world_of(mixed_bodies(rng, 8, kinds=("ball", "large", "tets", "cloth", "two")))
    whole = world.contacts(method="spheres")
    near = {tuple(pair) for pair in world.near_pairs().tolist()}
    before, partial_answers = set(), 0
    for tests in (1, 300, 3000, 30_000, 300_000, 10_000_000):
        some = world.contacts(method="spheres", max_tests=tests)
        certain, possible = set(some.id.tolist()), {tuple(pair) for pair in some.possible.tolist()}
        missing = ~np.isin(whole.id, some.id)

        assert before <= certain <= set(whole.id.tolist())
        assert set(zip(whole.body_a[missing].tolist(), whole.body_b[missing].tolist())) <= possible <= near
        assert (some.complete, some.reason) == ((True, None) if not possible else (False, "budget"))
        assert some.stats["tests_spent"] <= tests
        assert digest(some) == digest(world.contacts(method="spheres", max_tests=tests))
        before, partial_answers = certain, partial_answers + (0 < len(certain) < len(whole))
    assert some.complete
    assert partial_answers >= 2
    assert len(whole) > 300


def test_spheres_are_those_of_two_bodies(rng):
    """Equal queries of two bodies, and find all bodies that meet or contain each other."""
    bodies = mixed_bodies(rng, 8, kinds=("ball", "large", "tets", "cloth"))
    bodies["inner"] = shapes.icosphere(1, radius=0.05, center=bodies["large 1"].bounds.mean(axis=0))
    world = world_of(bodies)
    contacts = world.contacts(method="spheres")
    names, count = contacts.names, 0
    assert len(contacts.body_pairs) > 5
    for a, b in world.near_pairs().tolist():  # spheres stick out of boxes, and those of other bodies may meet, too
        rows = contacts.rows((contacts.body_a == a) & (contacts.body_b == b))
        pair = surface(bodies[names[a]]), surface(bodies[names[b]])
        turn = 1 if body_key(names[a]) < body_key(names[b]) else -1
        one = impinge.sphere_contacts(*pair[::turn], budget_ms=None, exact=is_within(*pair) or is_within(*pair[::-1]))
        order = np.lexsort(one.certain[:, ::-turn].T)
        of_spheres = rows.rows(rows.kind == ContactKind.SPHERES)
        nodes = np.stack([of_spheres.feature_a, of_spheres.feature_b], axis=1)
        np.testing.assert_array_equal(nodes, one.certain[order, ::turn])
        np.testing.assert_array_equal(of_spheres.normal, turn * one.normal[order])
        np.testing.assert_array_equal(of_spheres.point, one.point[order])
        np.testing.assert_array_equal(of_spheres.depth, one.depth[order])
        assert len(rows) > 0 or not impinge.collides(*pair)
        count += len(rows) > len(of_spheres)
    assert count > 0


def test_auto_goes_by_the_budget():
    """Choose spheres if the budget is too short for the vertices of large bodies, and report it."""
    world = world_of({"a": shapes.icosphere(4), "b": shapes.icosphere(4, center=(1.7, 0.0, 0.0))})
    short, long = world.contacts(max_tests=2000), world.contacts(max_tests=10_000_000)

    assert short.stats["chosen"] == short.method == "spheres"
    assert short.stats["why"] == "the budget suffices for the vertices of 0 of 1 near pairs"
    assert (short.possible.tolist(), short.reason) == ([[0, 1]], "budget")
    assert long.stats["chosen"] == world.contacts(budget_ms=1e9).stats["chosen"] == "vertices"
    assert digest(long) == digest(world.contacts())


# bodies with themselves -----------------------------------------------------------------------------------


def test_bodies_with_themselves():
    """Find self-collision of a folded cloth and of a tet mesh, unless it is ignored."""
    cloth = shapes.cloth_grid(8, 8)
    x = cloth.vertices.copy()
    x[:, 2] = 0.2 * np.sin(9.0 * x[:, 0] + 3.0 * x[:, 1])
    x[x[:, 0] > 0, 0] *= -0.95
    cloth.update(x)
    tets = shapes.tet_box(6, 1, 1, size=(6.0, 1.0, 1.0), center=(0.0, 5.0, 0.0))
    x = tets.vertices.copy()
    x[x[:, 0] > 2.5, 0] -= 4.2
    tets.update(x)
    world = world_of({"cloth": cloth, "tets": tets})
    contacts = world.contacts(self_collision=True)

    assert len(world.contacts()) == 0
    np.testing.assert_array_equal(contacts.body_a, contacts.body_b)
    assert set(contacts.body_a) == {0, 1}
    of_cloth, of_tets = contacts.rows(contacts.body_a == 0), contacts.rows(contacts.body_a == 1)
    pairs = impinge.self_pairs(cloth).pairs
    np.testing.assert_array_equal(np.stack([of_cloth.feature_a, of_cloth.feature_b], axis=1), pairs)
    assert set(of_tets.feature_a) == set(impinge.penetrating_vertices([tets]).vertex)
    by_spheres = world.contacts(method="spheres", self_collision=True)
    assert digest(by_spheres) == digest(contacts)
    assert world.contacts(method="spheres", self_collision=True, max_tests=1).possible.tolist() == [[0, 0], [1, 1]]
    world.ignore("cloth", "cloth")
    assert set(world.contacts(self_collision=True).body_a) == {1}


# small worlds, errors and threads -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "vertices", "pairs", "volume", "spheres"])
def test_worlds_of_no_and_one_body(method):
    """Return complete empty results."""
    world = World()
    for count in range(2):
        assert len(world) == count
        for options in ({}, {"max_tests": 5}, {"budget_ms": 5.0}, {"self_collision": True}):
            contacts = world.contacts(method=method, **options)
            assert (len(contacts), len(contacts.possible), contacts.complete) == (0, 0, True)
        assert len(world.pairs()) == len(world.near_pairs()) == 0
        world.update(np.concatenate([np.zeros((0, 3)), *(world[name].vertices for name in world)]))
        world.move(np.zeros((0, 4, 4)), names=[])
        if count == 0:
            world.add(shapes.box(1.0))


def test_bodies_without_triangles():
    """Find no contacts of bodies without triangles or vertices."""
    empty = impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int))
    points = impinge.TriMesh(np.zeros((4, 3)), np.zeros((0, 3), dtype=int))
    world = world_of({"empty": empty, "box": shapes.box(1.0), "points": points})

    for method in ("auto", "vertices", "pairs", "spheres"):
        assert len(world.contacts(method=method, self_collision=True)) == 0


def test_a_body_added_twice_is_refused():
    """Report the name of a body that is in the world already, also for the surface of a tet mesh."""
    tets = shapes.tet_box(1, 1, 1)
    world = world_of({"first": tets})
    for again in (tets, tets.surface):
        with pytest.raises(MeshError, match="in the world already, as 'first'; add a copy of it, or remove 'first'"):
            world.add(again, name="second")
    soft = impinge.SoftBody(shapes.box(0.8), tets)
    world.add(soft, name="soft")
    for again in (soft, soft.surface):
        with pytest.raises(MeshError, match="in the world already, as 'soft'"):
            world.add(again)
    assert world.names == ("first", "soft")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda w: w.add(shapes.box(1.0), name="a"), "there is a body named 'a' already; choose another name"),
        (lambda w: w.add(shapes.box(1.0), name=""), "name is '', expected a non-empty string"),
        (lambda w: w.add(shapes.box(1.0), name="\ud800"), "name is '.*', expected a non-empty string"),
        (
            lambda w: w.add(shapes.box(1.0), group=-1),
            "group is -1, expected a whole number from 0 to .* bits",
        ),
        (lambda w: w.add(shapes.box(1.0), collides_with=True), "collides_with is True, expected a whole number from 0"),
        (lambda w: w.add(shapes.box(1.0), fixed=1), "fixed is 1, expected True or False"),
        (lambda w: w.add(7), "expected a TriMesh or TetMesh"),
        (lambda w: w.remove("c"), "there is no body named 'c'; there are 'a', 'b'"),
        (lambda w: w.ignore("a", "c"), "there is no body named 'c'"),
        (lambda w: w["c"], "there is no body named 'c'"),
        (lambda w: w[["a"]], r"there is no body named \['a'\]; there are 'a', 'b'"),
        (lambda w: w.near_pairs(margin=-1.0), "margin is -1.0, expected a number from 0"),
        (lambda w: w.near_pairs(margin="1"), "margin is '1', expected a number from 0"),
        (lambda w: w.near_pairs(margin=np.inf), "margin is inf, expected a number from 0"),
        (lambda w: w.contacts(self_collision="no"), "self_collision is 'no', expected True or False"),
        (lambda w: w.move(np.eye(4)[None], names="a"), "names is 'a', expected a list of names of bodies"),
        (lambda w: w.move(np.eye(4)[None], names=7), "names is 7, expected a list of names of bodies"),
        (lambda w: w.move([np.eye(4)] * 2, names=["a", "a"]), "names has 'a' twice; pass one transform per body"),
        (
            lambda w: w.contacts(method="magic"),
            "method is 'magic', expected one of 'auto', 'vertices', 'pairs', 'volume'",
        ),
        (lambda w: w.contacts(budget_ms=0), "budget_ms is 0, expected a positive number"),
        (lambda w: w.contacts(budget_ms="1"), "budget_ms is '1', expected a positive number"),
        (lambda w: w.contacts(max_tests=0), "max_tests is 0, expected a whole number from 1"),
        (lambda w: w.contacts(max_tests=1.5), "max_tests is 1.5, expected a whole number"),
        (lambda w: w.contacts(first=[[0, 99]]), "first has body 99, expected numbers below 2"),
        (lambda w: w.contacts(first=[0, 1]), r"first have shape \(2,\), expected \(m, 2\)"),
        (lambda w: w.contacts(max_tests=1, budget_ms=1), "budget_ms and max_tests are both given; choose one"),
        (lambda w: w.update(np.zeros((3, 3))), "vertices have 3 rows, but the bodies have 16 vertices together"),
        (lambda w: w.update(np.full((16, 3), np.nan)), "all coordinates must be finite"),
        (lambda w: w.move(np.eye(4)), r"transforms have shape \(4, 4\), expected \(2, 4, 4\)"),
        (lambda w: w.move([np.full((4, 4), np.nan)] * 2), "transforms have a NaN or infinite entry"),
        (lambda w: w.move([np.ones((4, 4))] * 2), "transforms have a last row other than"),
        (lambda w: w.move([np.diag([1e308, 1, 1, 1.0])] * 2), "all coordinates must be finite; use smaller units"),
    ],
)
def test_wrong_arguments_are_refused(ask, message):
    """Raise an error with the value, the expected one and the remedy, and leave the world unchanged."""
    world = world_of({"a": shapes.box(4.0), "b": shapes.box(1.0)})
    before = digest(world.contacts())
    with pytest.raises((MeshError, OptionError), match=message):
        ask(world)
    assert digest(world.contacts()) == before
    assert world.names == ("a", "b")
    assert ["a"] not in world
    assert not world.ignores("a", 7)


@pytest.mark.parametrize("method", ["vertices", "pairs", "volume", "spheres"])
def test_edits_are_seen_by_every_method(method):
    """Equal a new world after triangles are replaced, a piece is added and tets are removed."""
    tets = shapes.tet_box(3, 1, 1, size=(1.5, 0.5, 0.5), center=(0.0, 0.6, 0.0))
    bodies = {"ball": shapes.icosphere(2, radius=0.5), "box": shapes.box(0.6, center=(0.3, 0.2, 0.1)), "tets": tets}
    world = world_of(bodies)
    before = world.contacts(method=method)
    ball, piece = bodies["ball"], shapes.box(0.3, center=(1.5, 0.6, 0.0))
    faces = ball.faces[:7]
    ball.remove_triangles(np.arange(7))
    ball.add_triangles(faces)
    box = bodies["box"]
    box.add_triangles(piece.faces + len(box.vertices), vertices=piece.vertices - np.array([0.7, 0.0, 0.0]))
    tets.remove_tets(np.flatnonzero(tets.vertices[tets.tets].mean(axis=1)[:, 0] < -0.3))
    after = world.contacts(method=method)

    assert digest(after) == digest(world_of(bodies).contacts(method=method))
    assert digest(after) != digest(before)


def test_objects_with_a_surface_are_bodies():
    """Accept an object that moves its own surface, and refuse to move it."""

    class Soft:
        surface = shapes.box(1.0)

    soft = Soft()
    world = world_of({"soft": soft, "box": shapes.box(1.0, center=(0.9, 0.1, 0.2))})

    assert len(world.contacts()) > 0
    assert world["soft"] is soft
    with pytest.raises(MeshError, match="body 'soft' moves its surface itself"):
        world.update(np.zeros((16, 3)))
    world.move([np.eye(4)], names=["box"])
    soft.surface.update(soft.surface.vertices + 10.0)
    assert len(world.contacts()) == 0


@pytest.mark.parametrize("embedding", ["rigid_links", "barycentric"])
def test_soft_bodies_are_bodies(embedding):
    """Find contacts of soft bodies and meshes of every kind after steps, with every method and budget."""
    soft = impinge.SoftBody(shapes.icosphere(3, radius=0.5), shapes.tet_box(2, 2, 2, size=1.2), embedding=embedding)
    other = impinge.SoftBody(shapes.box(0.8), shapes.tet_box(1, 1, 1, size=0.9), embedding=embedding)
    other.coarse.update(other.coarse.vertices + np.array([0.0, 0.0, 0.8]))
    world = world_of(
        {
            "soft": soft,
            "other": other,
            "tets": shapes.tet_box(1, 1, 1, size=0.4, center=(0.6, 0.0, 0.0)),
            "cloth": shapes.cloth_grid(6, 6, size=3.0, center=(0.03, 0.02, -0.4)),
            "tuple": (shapes.box(0.3, center=(0.0, 0.5, 0.0)).vertices, shapes.box(0.3).faces),
        }
    )
    for _ in range(3):
        soft.step(1e-3, gravity=(0.0, 0.0, -9.81))
    bodies = {name: soft.surface if name == "soft" else world.surface(name) for name in world}
    assert_same(rows_of(world.contacts()), expected_rows(bodies, itertools.combinations(bodies, 2)))
    touched = {tuple(pair) for pair in world.contacts().body_pairs.tolist()}
    assert touched >= {(0, 1), (0, 2), (0, 3), (0, 4)}
    by_spheres = world.contacts(method="spheres")
    assert {tuple(pair) for pair in by_spheres.body_pairs.tolist()} >= touched
    cut = world.contacts(method="spheres", max_tests=50)
    assert {tuple(pair) for pair in [*cut.body_pairs.tolist(), *cut.possible.tolist()]} >= touched
    assert not cut.complete


def test_a_body_that_grew_cannot_be_moved_back():
    """Refuse to move a body with vertices that were added after the body."""
    box = shapes.box(1.0)
    world = world_of({"box": box})
    box.add_vertices([[0.0, 0.0, 0.0]])
    with pytest.raises(MeshError, match="body 'box' has vertices that were added later"):
        world.move([np.eye(4)])


def test_names_are_chosen_and_unique():
    """Choose unique names for bodies without one."""
    world = World()
    names = [world.add(shapes.box(1.0)) for _ in range(3)]
    world.remove(names[0])
    names[0] = world.add(shapes.box(1.0))

    assert len(set(names)) == 3
    assert set(world) == set(names)
    assert names[1] in world
    assert repr(world) == "<World: 3 bodies, 36 triangles, 0 ignored pairs>"


@pytest.mark.parametrize("variant", ["serial", "parallel"])
def test_the_same_bits_for_any_launch(rng, variant):
    """Return the same bits serially and on threads."""
    bodies = mixed_bodies(rng, 10)
    expected = digest(world_of(bodies).contacts())
    with jit.launch_always(variant):
        world = world_of(bodies)
        assert digest(world.contacts()) == expected
        assert len(world.pairs()) > 0


def test_a_body_that_moves_during_a_query(rng):
    """Use one state per query while another thread moves a body."""
    bodies = mixed_bodies(rng, 6, kinds=("ball", "large", "soup"))
    world, body = world_of(bodies), bodies["large 1"]
    states = [body.vertices.copy(), body.vertices + 0.3]
    expected = set()
    for x in states:
        body.update(x)
        expected.add(digest(world.contacts()))
    stop = threading.Event()

    def move():
        while not stop.is_set():
            for x in states:
                body.update(x)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        found = {digest(world.contacts()) for _ in range(10)}
    finally:
        stop.set()
        mover.join()
    assert len(expected) == 2
    assert found <= expected


# long runs ------------------------------------------------------------------------------------------------


def soak(frames, count=40):
    """A digest of all contacts of moving boxes and balls that are added and removed."""
    rng = np.random.default_rng(7)
    world, h = World(), hashlib.sha256()
    for _ in range(count):
        world.add(MAKERS["box"]() if rng.random() < 0.7 else MAKERS["ball"]())
    place, speed = rng.uniform(0, 4, (count, 3)), rng.normal(size=(count, 3))
    previous, persisted = world.contacts(), 0
    for frame in range(frames):
        matrices = np.tile(np.eye(4), (len(world), 1, 1))
        matrices[:, :3, 3] = 2.0 + 2.0 * np.sin(place + 0.01 * frame * speed)
        world.move(matrices)
        contacts = world.contacts()
        persisted += len(contacts.changes(previous).persisting)
        previous = contacts
        h.update(digest(contacts).encode())
        if frame % 50 == 49:
            world.remove(world.names[frame % count])
            world.add(MAKERS["box"]())
    return h.hexdigest(), persisted


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda world: pickle.loads(pickle.dumps(world))])
def test_worlds_pickle_and_copy(rng, make):
    """Keep bodies, names, groups and ignored pairs, and no caches; copies find the same contacts."""
    bodies = mixed_bodies(rng, 9, spread=1.5)
    world = World()
    for k, (name, body) in enumerate(bodies.items()):
        world.add(body, name=name, group=1 + k % 2, collides_with=3 - k % 2, fixed=k < 2)
    world.ignore("tets 2", "ball 1")
    world.move(np.tile(np.eye(4), (9, 1, 1)))
    contacts = world.contacts(self_collision=True)
    other = make(world)

    assert len(contacts) > 50
    assert other._search is None
    assert digest(other.contacts(self_collision=True)) == digest(contacts)
    assert (other.names, other.ignores("ball 1", "tets 2"), other.is_fixed("ball 1")) == (world.names, True, True)
    other.remove("soup 4")
    assert "soup 4" in world
    other["box 0"].update(other["box 0"].vertices + 9.0)
    is_shared = other["box 0"] is world["box 0"]
    assert (digest(world.contacts(self_collision=True)) == digest(contacts)) != is_shared


def test_results_pickle_without_bodies(rng):
    """Keep the rows of contacts and pairs, and leave out the bodies."""
    world = world_of(mixed_bodies(rng, 6))
    for result in (world.contacts(), world.pairs()):
        other = pickle.loads(pickle.dumps(result))

        assert (len(other), other.names, other.bodies) == (len(result), world.names, ())
        assert len(result.bodies) == 6
        assert len(other.changes(result).entered) == 0


def test_box_trees_are_built_once_per_pair(monkeypatch):
    """Build one detector per pair of large bodies, not one per frame."""
    made = []

    class Counted(search.BoxTree):
        def __init__(self, *bodies):
            made.append(bodies)
            super().__init__(*bodies)

    monkeypatch.setattr(search, "BoxTree", Counted)
    bodies = {"a": shapes.icosphere(4), "b": shapes.icosphere(4, center=(1.7, 0.0, 0.0))}
    world = world_of(bodies)
    for _ in range(3):
        bodies["b"].update(bodies["b"].vertices + 0.01)
        assert len(world.contacts(method="pairs")) > 0
    assert made == [tuple(bodies.values())]


def test_a_run_repeats_bit_for_bit():
    """Repeat the digest of all contacts, some of which persist."""
    first, persisted = soak(120)

    assert persisted > 1000
    assert (first, persisted) == soak(120)


@pytest.mark.slow
def test_a_long_run_repeats_bit_for_bit():
    """Repeat the digest over 10,000 frames with constant memory."""
    import resource

    soak(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = soak(10_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert first == soak(10_000)
    assert grown < 30_000  # kilobytes
