"""Triangles in a hashed grid: the pairs of the other exact methods; and edges through faces of tet meshes."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impinge
import oracle
import stress
from impinge import TetMesh, TriMesh, scenes, shapes
from impinge.backend.jit import launch_always
from impinge.detect.common.results import EdgeContacts, Kind
from impinge.detect.spatial_hash.detector import SpatialHash

pytestmark = pytest.mark.small

KIND_NAMES = {kind.value: kind.name.lower() for kind in Kind}


def assert_equals(bodies, *, method="brute_force", make=None, **options):
    """Pairs and kinds of another exact method; how many there are."""
    make = make or {}
    actual = SpatialHash(bodies, **make).query(**options)
    if len(bodies) == 1:
        neighbours = make.get("neighbours", "exact")
        expected = impinge.self_pairs(bodies[0], neighbours=neighbours, method=method, **options)
    else:
        expected = impinge.triangle_pairs(*bodies, method=method, **options)
    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    np.testing.assert_array_equal(actual.kind, expected.kind)
    assert actual.stats["candidates"] >= len(actual)
    return len(actual)


def soup(rng, count, size=0.3):
    corners = rng.random((count, 1, 3)) + size * rng.standard_normal((count, 3, 3))
    return TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


# pairs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", scenes.SMALL)
def test_small_scenes(name):
    """Find the pairs and kinds of brute force on all small scenes, between bodies and within each."""
    a, b = scenes.get(name).surfaces
    expected = scenes.get(name).expected
    found = assert_equals([a, b])

    assert found == expected.get("pairs", found)
    assert_equals([b, a])
    assert_equals([a])
    assert_equals([b], make={"neighbours": "skip"})


@pytest.mark.parametrize("name", ["bumpy_spheres_20k", "cloth_on_ball", "cad_parts", "knots_12k"])
def test_large_scenes(name):
    """Find the pairs and kinds of box trees on surfaces of thousands of triangles, smooth ones, cloth and CAD."""
    surfaces = list(scenes.get(name).surfaces)

    assert assert_equals(surfaces, method="box_tree") > 100
    assert_equals(surfaces[:1], method="box_tree")


@pytest.mark.parametrize("name", stress.PAIRS)
def test_adversarial_pairs(name):
    """Agree with the rational oracle on every adversarial generator, the largest doubles and the smallest included."""
    for seed in range(3):
        x_a, faces_a, x_b, faces_b = stress.scene(name, seed, 8)
        result = SpatialHash([TriMesh(x_a, faces_a), TriMesh(x_b, faces_b)]).query()
        found = {tuple(pair): KIND_NAMES[kind] for pair, kind in zip(result.pairs.tolist(), result.kind.tolist())}

        assert found == stress.expected_pairs(x_a, faces_a, x_b, faces_b)
        np.testing.assert_array_equal(result.pairs, np.unique(result.pairs, axis=0))


@pytest.mark.parametrize("name", stress.SELF)
def test_adversarial_self_pairs(name):
    """Agree with the rational oracle about one body on every adversarial generator."""
    for seed in range(3):
        x, faces = stress.scene(name, seed, 8)
        result = SpatialHash([TriMesh(x, faces)]).query()
        found = {tuple(pair): KIND_NAMES[kind] for pair, kind in zip(result.pairs.tolist(), result.kind.tolist())}

        assert found == stress.expected_self_pairs(x, faces)


@pytest.mark.parametrize("cell_size", [None, 1e-300, 1e-3, 0.1, 1.0, 1e3, 1e150, 1e300])
def test_any_cell_size(rng, cell_size):
    """Give the same pairs for any cell size, once each."""
    bodies = [soup(rng, 100), soup(rng, 120)]

    assert assert_equals(bodies, make={"cell_size": cell_size}) > 500
    assert assert_equals(bodies[:1], make={"cell_size": cell_size}) > 100


@pytest.mark.parametrize(
    ("scale", "offset"),
    [
        *itertools.product([1e-150, 1e-8, 1.0, 1e8, 1e150], [0.0, -3.0, 1e6, -1e12, 1e15]),
        *itertools.product([1e300], [0.0, -3.0, 1e6]),  # farther away is beyond the range of doubles
    ],
)
def test_any_scale_and_place(rng, scale, offset):
    """Be exact at scales from 1e-150 to 1e300, and far away from the origin on either side."""
    bodies = [soup(rng, 60), soup(rng, 60)]
    for body in bodies:
        body.update(scale * (np.array(body.vertices) + offset))

    assert_equals(bodies)
    assert_equals(bodies[:1])


def test_mixed_sizes_have_levels(rng):
    """Mix triangles over eight powers of ten: every pair once, with cells that fit each size."""
    bodies = []
    for _ in range(2):
        size = 10.0 ** rng.uniform(-5, 3, (150, 1, 1))
        corners = rng.random((150, 1, 3)) + size * rng.standard_normal((150, 3, 3))
        bodies.append(TriMesh(corners.reshape(-1, 3), np.arange(450).reshape(-1, 3)))
    result = SpatialHash(bodies).query()

    assert assert_equals(bodies) > 300
    assert assert_equals(bodies[:1]) > 100
    assert result.stats["cells"] <= 125 * 300
    assert result.stats["candidates"] < 150 * 150


def test_one_huge_triangle_among_small_ones():
    """Take a triangle a million times as large as thousands of others, in no more cells than a triangle may cover."""
    ball = shapes.icosphere(4)
    huge = TriMesh(1e6 * np.array([[-1, -1, 0], [3, -1, 0], [-1, 3, 0.0]]), [[0, 1, 2]])
    joined = TriMesh(
        np.concatenate([ball.vertices, huge.vertices]), np.concatenate([ball.faces, huge.faces + len(ball.vertices)])
    )
    found = assert_equals([ball, huge], method="box_tree")

    assert found > 50
    assert assert_equals([joined], method="box_tree") == found
    for bodies in ([ball, huge], [joined]):
        stats = SpatialHash(bodies).query().stats
        assert stats["cells"] < 10 * len(ball.faces)
        assert stats["candidates"] < 40 * len(ball.faces)


def test_degenerate_triangles(rng):
    """Take triangles that are segments and points, and repeated corners."""
    x = rng.integers(0, 3, (30, 3)).astype(float)
    for _ in range(5):
        a, b = (TriMesh(x, rng.integers(0, 30, (40, 3))) for _ in range(2))

        assert assert_equals([a, b]) > 100
        assert assert_equals([a]) > 10
    point = TriMesh([[0.5, 0.5, 0.5]] * 3, [[0, 1, 2]])
    assert assert_equals([point, point]) == 1


def test_empty_and_single_triangles():
    """Take bodies of no and of one triangle."""
    none, one = TriMesh([], []), TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])

    for bodies in ([none], [one], [none, none], [one, none], [none, one]):
        assert len(SpatialHash(bodies).query()) == 0
    assert SpatialHash([one, one]).query().pairs.tolist() == [[0, 0]]


def test_transforms_active_triangles_and_ignored_pairs(rng):
    """Obey the options of all queries for pairs, and follow edits and updates with a detector that is kept."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    detector = SpatialHash([a, b])
    everything = detector.query().pairs
    matrix = np.eye(4)
    matrix[:3] += 0.2 * rng.standard_normal((3, 4))
    keep_a, keep_b = rng.random(len(a.faces)) < 0.6, np.flatnonzero(rng.random(len(b.faces)) < 0.6)
    for transforms, active, ignore in (
        ([matrix, None], None, None), ([None, matrix], None, None), (None, [keep_a, keep_b], None),
        (None, None, everything[::2]), ([None, matrix], [keep_a, None], everything),
    ):  # fmt: skip
        result = detector.query(transforms=transforms, active=active, ignore=ignore)
        (move_a, move_b), (active_a, active_b) = transforms or (None, None), active or (None, None)
        expected = impinge.triangle_pairs(
            a, b, method="brute_force", transform_a=move_a, transform_b=move_b, active_a=active_a, active_b=active_b,
            ignore=ignore,
        )  # fmt: skip
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        assert 10 < len(result) != len(everything)
    a.remove_triangles(~keep_a)
    b.update(0.9 * np.array(b.vertices))
    np.testing.assert_array_equal(detector.query().pairs, impinge.triangle_pairs(a, b, method="brute_force").pairs)


def test_options_within_one_body(rng):
    """Obey the options in self-collision: ignored pairs in either order, active triangles, neighbours."""
    body = soup(rng, 150)
    everything = SpatialHash([body]).query().pairs
    keep = np.flatnonzero(rng.random(150) < 0.6)
    kept = np.isin(everything, keep).all(axis=1)

    np.testing.assert_array_equal(SpatialHash([body]).query(active=[keep]).pairs, everything[kept])
    np.testing.assert_array_equal(SpatialHash([body]).query(ignore=everything[::2, ::-1]).pairs, everything[1::2])
    folded = TriMesh(*stress.scene("self_folded_strip", 5, 30))
    assert assert_equals([folded]) > assert_equals([folded], make={"neighbours": "skip"})


def test_max_pairs_cancel_and_threads(rng):
    """Say when the answer is not all there is; give the same bits from serial kernels and on threads."""
    bodies = [soup(rng, 700, size=0.1), soup(rng, 700, size=0.1)]
    answers = []
    for launch in ("serial", "parallel"):
        with launch_always(launch):
            answers.append(SpatialHash(bodies).query())
    np.testing.assert_array_equal(answers[0].pairs, answers[1].pairs)
    np.testing.assert_array_equal(answers[0].kind, answers[1].kind)
    cut = SpatialHash(bodies).query(max_pairs=10)
    np.testing.assert_array_equal(cut.pairs, answers[0].pairs[:10])
    assert (cut.complete, cut.reason) == (False, "limit")
    cancel = threading.Event()
    cancel.set()
    result = SpatialHash(bodies).query(cancel=cancel)
    assert (result.complete, result.reason) == (False, "cancelled")
    assert len(answers[0]) > 1000


def test_room_grows_with_the_candidates(rng):
    """Find every pair although there are far more than a thread has room for at first."""
    bodies = [soup(rng, 300, size=1.0), soup(rng, 300, size=1.0)]

    assert assert_equals(bodies) > 10_000


# edges through faces --------------------------------------------------------------------------------------------


def edges_by_oracle(bodies):
    """Every edge of every surface against every face, in rational arithmetic: {(body, edge, in_body, face): kind}."""
    found = {}
    surfaces = [(b, body.vertices.tolist(), body.surface) for b, body in enumerate(bodies)]
    for (b, x, surface), (c, y, other) in itertools.product(surfaces, repeat=2):
        faces = surface.faces[surface.alive].tolist()
        edges = {tuple(sorted((f[k], f[(k + 1) % 3]))) for f in faces for k in range(3)}
        for edge, f in itertools.product(sorted(edges), np.flatnonzero(other.alive).tolist()):
            face = other.faces[f].tolist()
            if b == c and set(edge) & set(face):
                continue
            ends, corners = [x[v] for v in edge], [y[v] for v in face]
            kind = oracle.segment_triangle_kind(ends, corners)
            lies_in_plane = all(oracle.sign_orient3d(*corners, end) == 0 for end in ends)
            if kind != "none" and not lies_in_plane:
                found[(b, *edge, c, f)] = kind
    return found


def edges_of(result):
    edges = result.edges
    keys = np.column_stack([edges.body, edges.edge, edges.in_body, edges.face]).tolist()
    return {tuple(key): KIND_NAMES[kind] for key, kind in zip(keys, edges.kind.tolist())}


def assert_edges(bodies):
    """Edges as the oracle has them, sorted, and where they say; how many there are."""
    result = SpatialHash(bodies).query(edges=True)
    edges = result.edges
    keys = np.column_stack([edges.body, edges.edge, edges.in_body, edges.face])

    assert edges_of(result) == edges_by_oracle(bodies)
    np.testing.assert_array_equal(keys, np.unique(keys, axis=0))
    np.testing.assert_array_equal(edges.is_self, edges.body == edges.in_body)
    assert_places(bodies, edges)
    return len(edges)


def assert_places(bodies, edges):
    """The point on the edge is the point on the face, and the sign gives the direction of the edge."""
    for i in range(len(edges)):
        x, y = bodies[edges.body[i]].vertices, bodies[edges.in_body[i]].vertices
        u, v = x[edges.edge[i]]
        corners = y[bodies[edges.in_body[i]].surface.faces[edges.face[i]]]
        on_edge = (1.0 - edges.parameter[i]) * u + edges.parameter[i] * v
        np.testing.assert_allclose(on_edge, edges.weights[i] @ corners, atol=1e-9 * max(1.0, np.abs(corners).max()))
        assert 0.0 <= edges.parameter[i] <= 1.0
        assert (edges.weights[i] >= 0.0).all()
        ends = [oracle.sign_orient3d(*corners.tolist(), end.tolist()) for end in (u, v)]
        assert edges.sign[i] == (1 if ends[1] > ends[0] else -1)


def test_crossed_tets_have_no_vertex_but_edges_inside():
    """Find what vertices miss: two wedges that cross edge against edge."""
    bodies = list(scenes.get("crossed_tets").bodies)
    result = SpatialHash(bodies).query(edges=True)

    assert len(result) == 0
    assert isinstance(result.edges, EdgeContacts)
    # The ridge of each, vertices 0 and 1, goes into the other by one long side and out by the other.
    assert result.edges.edge.tolist() == [[0, 1]] * 4
    assert result.edges.body.tolist() == [0, 0, 1, 1]
    assert result.edges.in_body.tolist() == [1, 1, 0, 0]
    assert sorted(result.edges.sign[:2].tolist()) == sorted(result.edges.sign[2:].tolist()) == [-1, 1]
    np.testing.assert_allclose(np.sort(result.edges.parameter[:2]), [4 / 9, 5 / 9])  # |x| <= 1/3 of [-3, 3]
    assert assert_edges(bodies) == 4
    assert SpatialHash(bodies).query().edges is None


@pytest.mark.tiny
def test_edges_of_tiny_bodies(rng):
    """Agree with the oracle about all edges and faces of a few tets, and of a poked one."""
    assert assert_edges(list(scenes.get("poked_tet").bodies)) == 3
    total = 0
    for _ in range(4):
        x = rng.random((2, 6, 3))
        bodies = [TetMesh(points, [[0, 1, 2, 3], [1, 2, 3, 4]]) for points in x]
        total += assert_edges(bodies)
    assert total > 20


coordinates = st.tuples(*[st.integers(0, 2)] * 3)


@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(st.lists(coordinates, min_size=5, max_size=5), min_size=1, max_size=2),
    tets=st.lists(st.permutations(range(5)), min_size=1, max_size=2),
)
def test_edges_on_integer_grids(x, tets):
    """Agree with the oracle where edges meet edges and corners of faces, of one body and of two."""
    bodies = [TetMesh(points, [tet[:4] for tet in tets]) for points in x]
    assert edges_of(SpatialHash(bodies).query(edges=True)) == edges_by_oracle(bodies)


def test_edges_of_integer_boxes_touch():
    """Agree with the oracle about boxes that share grid points, where nearly every contact is a touch."""
    a, b = shapes.tet_box(1, 1, 1, size=2.0), shapes.tet_box(1, 1, 1, size=2.0, center=(1.0, 1.0, 0.0))
    result = SpatialHash([a, b]).query(edges=True)

    assert edges_of(result) == edges_by_oracle([a, b])
    assert (result.edges.kind == Kind.TOUCHING).sum() > 10


def test_self_edges(rng):
    """Find edges of a body through its own faces, but for faces that have a vertex of the edge."""
    body = shapes.tet_box(4, 1, 1)
    assert len(SpatialHash([body]).query(edges=True).edges) == 0
    body.update(np.array(body.vertices) + 0.6 * rng.standard_normal(body.vertices.shape))

    assert assert_edges([body]) > 5
    assert SpatialHash([body]).query(edges=True).edges.is_self.all()


def test_edges_agree_with_edge_crossings():
    """Find the edge crossings of two surfaces that the other query finds, on bodies of hundreds of tets."""
    bodies = [shapes.tet_tube(1, 12, 10), shapes.tet_tube(1, 12, 10, center=(0.7, 0.2, 0.1))]
    edges = SpatialHash(bodies).query(edges=True).edges
    for body in (0, 1):
        expected = impinge.edge_crossings(bodies[body], bodies[1 - body])
        mine = (edges.body == body) & (edges.in_body == 1 - body)
        for name in ("edge", "face", "kind", "sign", "parameter", "weights"):
            np.testing.assert_array_equal(getattr(edges, name)[mine], getattr(expected, name))
        assert mine.sum() > 20
    assert len(edges) == ((edges.body != edges.in_body).sum())


def test_edges_follow_transforms_updates_and_removed_tets(rng):
    """Answer for the surfaces of the moment: moved, transformed, opened by removed tets, by their stable face ids."""
    bodies = [shapes.tet_box(2, 2, 1), shapes.tet_box(2, 1, 2, center=(0.4, 0.3, 0.2))]
    detector = SpatialHash(bodies)
    before = edges_of(detector.query(edges=True))
    bodies[0].remove_tets([0, 3, 7])
    assert edges_of(detector.query(edges=True)) == edges_by_oracle(bodies) != before
    bodies[0].compact()
    bodies[1].update(np.array(bodies[1].vertices) + 0.1 * rng.standard_normal(bodies[1].vertices.shape))
    expected = edges_by_oracle(bodies)
    assert edges_of(detector.query(edges=True)) == expected
    matrix = np.eye(4)
    matrix[:3] += 0.1 * rng.standard_normal((3, 4))
    result = detector.query(edges=True, transforms=[None, matrix])
    bodies[1].update(impinge.transform_points(matrix, bodies[1].vertices))
    assert edges_of(result) == edges_by_oracle(bodies) != expected
    assert len(result.edges) > 5


def test_edges_with_empty_bodies_in_between(rng):
    """Number bodies as they were given where some have no tets."""
    a, b = scenes.get("poked_tet").bodies
    none, bare = TetMesh([], np.zeros((0, 4), dtype=int)), TetMesh(rng.random((3, 3)), np.zeros((0, 4), dtype=int))
    expected = edges_by_oracle([a, b])
    found = edges_of(SpatialHash([none, a, bare, none, b, bare]).query(edges=True))

    assert found == {(1 if k[0] == 0 else 4, k[1], k[2], 1 if k[3] == 0 else 4, k[4]): v for k, v in expected.items()}
    assert found


def test_edges_with_any_cell_size_and_their_changes(rng):
    """Give the same edges for any cell size, and report which entered and left."""
    a, b = shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2, center=(0.4, 0.3, 0.2))
    expected = SpatialHash([a, b]).query(edges=True)
    for cell_size in (0.05, 0.3, 100.0):
        assert edges_of(SpatialHash([a, b], cell_size=cell_size).query(edges=True)) == edges_of(expected)
    b.update(np.array(b.vertices) + 0.3)
    now = SpatialHash([a, b]).query(edges=True)
    changes = now.edges.changes(expected.edges)

    assert {tuple(row) for row in changes.entered.tolist()} == set(edges_of(now)) - set(edges_of(expected))
    assert {tuple(row) for row in changes.left.tolist()} == set(edges_of(expected)) - set(edges_of(now))
    assert now.to_dict()["edges"]["face"] == now.edges.face.tolist()
