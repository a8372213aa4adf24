"""Vertex-face and edge-edge pairs within a margin, against brute force."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import impinge
import shared_data
from cancel_after import CancelAfter
from distance_judge import root, square_of_segments, square_to_triangle
from impinge import shapes
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle

pytestmark = pytest.mark.small

FIELDS = [
    f"{sort}{suffix}"
    for sort in ("vertex_face", "face_vertex", "edge_edge")
    for suffix in ("", "_distance", "_weights")
]


def live_faces(body, active=None):
    ids = np.flatnonzero(body.alive)
    return ids if active is None else np.intersect1d(ids, active)


def edges_of(faces):
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    sides = sides[sides[:, 0] != sides[:, 1]]
    return np.unique(sides, axis=0).reshape(-1, 2)


def point(x, v):
    return tuple(x[v].tolist())


def near_faces(x, vertices, other, faces, ids, margin, is_self):
    """Rows (vertex, face), distance and weights by brute force."""
    rows, distance, weights = [], [], []
    for v in vertices.tolist():
        for f in ids.tolist():
            if is_self and v in faces[f]:
                continue
            *w, square = closest_on_triangle(point(x, v), *(point(other, u) for u in faces[f]))
            if np.sqrt(square) <= margin:
                rows.append((v, f))
                distance.append(np.sqrt(square))
                weights.append(w)
    return rows, distance, weights


def near_edges(x_a, edges_a, x_b, edges_b, margin, is_self):
    """Rows (edge, edge), distance and weights by brute force."""
    rows, distance, weights = [], [], []
    for e, (p, q) in enumerate(edges_a.tolist()):
        for f, (r, s) in enumerate(edges_b.tolist()):
            if is_self and (f <= e or {p, q} & {r, s}):
                continue
            *w, square = closest_on_segments(point(x_a, p), point(x_a, q), point(x_b, r), point(x_b, s))
            if np.sqrt(square) <= margin:
                rows.append((e, f))
                distance.append(np.sqrt(square))
                weights.append(w)
    return rows, distance, weights


def expected_pairs(a, b, margin, *, ids_a=None, ids_b=None, x_a=None, x_b=None):
    """All three lists by brute force; b is None for one body."""
    is_self = b is None
    x_a = a.vertices if x_a is None else x_a
    ids_a = live_faces(a, ids_a)
    edges_a = edges_of(a.faces[ids_a])
    if is_self:
        b, ids_b, x_b, edges_b = a, ids_a, x_a, edges_a
    else:
        x_b = b.vertices if x_b is None else x_b
        ids_b = live_faces(b, ids_b)
        edges_b = edges_of(b.faces[ids_b])
    vertex_face = near_faces(x_a, np.unique(a.faces[ids_a]), x_b, b.faces, ids_b, margin, is_self)
    face_vertex = [], [], []
    if not is_self:
        rows, *rest = near_faces(x_b, np.unique(b.faces[ids_b]), x_a, a.faces, ids_a, margin, False)
        order = sorted(range(len(rows)), key=lambda k: rows[k][::-1])
        face_vertex = [rows[k][::-1] for k in order], *([values[k] for k in order] for values in rest)
    return vertex_face, face_vertex, near_edges(x_a, edges_a, x_b, edges_b, margin, is_self)


def assert_right(a, b, margin, *, ids_a=None, ids_b=None, x_a=None, x_b=None, **options):
    """Compare all fields with brute force; return the number of pairs."""
    found = impinge.proximity(a, b, margin=margin, **options)
    expected = expected_pairs(a, b, margin, ids_a=ids_a, ids_b=ids_b, x_a=x_a, x_b=x_b)
    for sort, columns, (rows, distance, weights) in zip(
        ("vertex_face", "face_vertex", "edge_edge"), (3, 3, 2), expected
    ):
        np.testing.assert_array_equal(getattr(found, sort), np.array(rows, dtype=np.int32).reshape(-1, 2), sort)
        np.testing.assert_array_equal(getattr(found, f"{sort}_distance"), distance)
        np.testing.assert_array_equal(getattr(found, f"{sort}_weights"), np.array(weights).reshape(-1, columns))
    np.testing.assert_array_equal(found.edges_a, edges_of(a.faces[live_faces(a, ids_a)]))
    assert found.complete
    return len(found)


def same_bytes(one, other):
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in FIELDS)


def soup(rng, count, size=0.3):
    corners = rng.random((count, 1, 3)) + size * rng.standard_normal((count, 3, 3))
    return impinge.TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def shuffled_mesh(rng, vertex_count, face_count, *, whole=False):
    """Random faces on few vertices: many share edges and vertices, some repeat an index, some are there twice."""
    x = rng.integers(0, 4, (vertex_count, 3)).astype(float) if whole else rng.random((vertex_count, 3))
    return impinge.TriMesh(x, rng.integers(0, vertex_count, (face_count, 3)))


def cloth(n):
    """A square of 2 n² triangles with sides of 1, with waves, folded with its halves 0.4 edges apart."""
    body = shapes.cloth_grid(n, n)
    x, y, _ = body.vertices.T
    z = 0.02 * np.sin(40.0 * abs(x)) * np.cos(30.0 * y) + np.where(x > 0.0, 0.4 / n, 0.0)
    body.update(np.stack([abs(x), y, z], axis=1))
    return body


# right ----------------------------------------------------------------------------------------------------


@pytest.mark.tiny
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_fewest_triangles(rng, count):
    """Answer for bodies of no, one and a few triangles."""
    a, b = soup(rng, count), soup(rng, 2)

    assert_right(a, b, 0.3)
    assert_right(b, a, 0.3)
    assert_right(a, None, 0.3)
    assert len(impinge.proximity(a, b, margin=9.0, active_a=[])) == 0


@pytest.mark.tiny
def test_one_vertex_above_one_face():
    """Give distance and weights of a vertex above the middle of an edge, where the answer is known."""
    a = impinge.TriMesh([[1.0, 0.0, 0.5], [1.0, 0.0, 9.0], [2.0, 0.0, 9.0]], [[0, 1, 2]])
    b = impinge.TriMesh([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [[0, 1, 2]])
    found = impinge.proximity(a, b, margin=0.5)

    assert found.vertex_face.tolist() == [[0, 0]]
    assert found.vertex_face_distance.tolist() == [0.5]
    assert found.vertex_face_weights.tolist() == [[0.5, 0.5, 0.0]]
    assert found.face_vertex.tolist() == []
    assert found.edges_b.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.edge_edge.tolist() == [[0, 0], [1, 0]]
    assert found.edge_edge_weights.tolist() == [[0.0, 0.5], [0.0, 0.5]]
    assert len(impinge.proximity(a, b, margin=np.nextafter(0.5, 0.0))) == 0


def test_random_bodies_equal_brute_force(rng):
    """Equal brute force, bit for bit, on hundreds of random bodies and margins."""
    hits = empty = 0
    for _ in range(400):
        a, b = soup(rng, rng.integers(1, 9)), soup(rng, rng.integers(1, 9))
        margin = rng.choice([0.0, 0.01, 0.1, 0.5])
        count = assert_right(a, b, margin)
        hits, empty = hits + count, empty + (count == 0)

    assert hits > 10_000
    assert 40 < empty < 300


@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_random_meshes_equal_brute_force(rng, whole):
    """Equal brute force where faces share edges, repeat indices, have no area, are parallel or coplanar."""
    hits = 0
    for _ in range(100):
        a, b = (shuffled_mesh(rng, rng.integers(3, 12), rng.integers(1, 16), whole=whole) for _ in range(2))
        margin = rng.choice([0.0, 0.05, 0.3]) * (4.0 if whole else 1.0)
        hits += assert_right(a, b, margin)
        hits += assert_right(a, None, margin)

    assert hits > 3000


@pytest.mark.medium
@pytest.mark.parametrize("whole", [False, True], ids=["generic", "whole numbers"])
def test_margins_against_fractions(rng, whole):
    """Have every pair that fractions find clearly within the margin, none clearly beyond, and their distances."""
    hits = decided = 0
    for _ in range(30):
        a, b = (shuffled_mesh(rng, rng.integers(3, 8), rng.integers(1, 7), whole=whole) for _ in range(2))
        margin = float(rng.choice([0.0, 0.2, 0.5, 1.0, 2.0])) * (1.0 if whole else 0.4)
        found = impinge.proximity(a, b, margin=margin)
        edges_a, edges_b = edges_of(a.faces), edges_of(b.faces)
        lists = (
            (found.vertex_face, found.vertex_face_distance, np.unique(a.faces), range(len(b.faces)),
             lambda v, f, a=a, b=b: square_to_triangle(a.vertices[v], *b.vertices[b.faces[f]])),
            (found.face_vertex, found.face_vertex_distance, range(len(a.faces)), np.unique(b.faces),
             lambda f, v, a=a, b=b: square_to_triangle(b.vertices[v], *a.vertices[a.faces[f]])),
            (found.edge_edge, found.edge_edge_distance, range(len(edges_a)), range(len(edges_b)),
             lambda e, f, a=a, b=b, s=edges_a, t=edges_b: square_of_segments(*a.vertices[s[e]], *b.vertices[t[f]])),
        )  # fmt: skip
        for pairs, distance, of_a, of_b, judge in lists:
            measured = dict(zip(map(tuple, pairs.tolist()), distance.tolist()))
            for i in map(int, of_a):
                for j in map(int, of_b):
                    exact = root(judge(i, j))
                    if (i, j) in measured:
                        hits += 1
                        np.testing.assert_allclose(
                            measured[i, j], exact, rtol=0.0, atol=5e-14 * (4.0 if whole else 1.0)
                        )
                    decided += abs(exact - margin) > 1e-12
                    if abs(exact - margin) > 1e-12:
                        assert ((i, j) in measured) == (exact < margin)
    assert hits > 200
    assert decided > hits


def test_margin_of_the_distance_is_never_empty(rng):
    """Agree with ``distance`` to the last bit: a margin of the distance of two bodies finds the pair that has it."""
    for case in range(300):
        x, y = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)) + np.array([4.0, 0.0, 0.0])
        if case % 2:
            x, y = np.round(x, 2), np.round(y, 2)
        faces = [[0, 1, 2], [2, 1, 0]] if case % 3 else [rng.permutation(3)]
        d = impinge.distance((x, faces), (y, faces)).distance
        found = impinge.proximity((x, faces), (y, faces), margin=d)
        least = min(map(min, filter(len, (getattr(found, name) for name in FIELDS if name.endswith("distance")))))
        assert least == d > 0.0
    for a, b in (
        (shapes.bumpy_sphere(2), shapes.bumpy_sphere(2, center=(2.4, 0.1, 0.2))),
        (soup(rng, 30), soup(rng, 30)),
    ):
        b.update(b.vertices + np.array([2.0, 0.0, 0.0]))
        d = impinge.distance(a, b).distance
        assert d > 0.0
        assert len(impinge.proximity(a, b, margin=d)) > 0
        assert len(impinge.proximity(a, b, margin=np.nextafter(d, 0.0))) == 0


@pytest.mark.medium
def test_larger_bodies_equal_brute_force(rng):
    """Equal brute force where bodies have several blocks, and sorting and launches come into play."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(2.02, 0.1, 0.0))
    assert assert_right(a, b, 0.15) > 50
    assert assert_right(cloth(9), None, 0.06) > 500


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-8, 1.0, 1e8, 1e50])
def test_any_scale_and_place(rng, scale, offset):
    """Be complete at scales at which float32 over- and underflows, and far from the origin."""
    a, b = soup(rng, 12), soup(rng, 12)
    for body in (a, b):
        body.update(scale * (np.array(body.vertices) + offset))

    assert assert_right(a, b, 0.1 * scale) > 20
    assert_right(a, None, 0.1 * scale)


@pytest.mark.parametrize("exponent", [-700, -400, -300, -200, 200, 250, 400, 700])
def test_absolute_scale_means_nothing(rng, exponent):
    """Find the same pairs, distances and weights, bit for bit, times a power of two up to the range of doubles."""
    unit = 2.0**exponent
    a, b = shuffled_mesh(rng, 10, 12), shuffled_mesh(rng, 10, 12)
    for other in (b, None):
        expected = impinge.proximity(a, other, margin=0.1)
        scaled = None if other is None else (unit * other.vertices, other.faces)
        found = impinge.proximity((unit * a.vertices, a.faces), scaled, margin=unit * 0.1)
        for name in FIELDS:
            factor = unit if name.endswith("distance") else 1.0
            np.testing.assert_array_equal(getattr(found, name), factor * getattr(expected, name), name)
        assert found.margin == unit * 0.1
        assert len(found) > 10
    assert len(impinge.proximity((unit * a.vertices, a.faces), (unit * b.vertices, b.faces), margin=1e308)) == len(
        impinge.proximity(a, b, margin=1e308)
    )


def test_margin_of_zero_finds_what_touches():
    """Find pairs at distance 0 with a margin of 0: the set is closed."""
    a = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    b = impinge.TriMesh([[0, 0, 0], [-1, 0, 0], [0, -1, 1]], [[0, 1, 2]])
    found = impinge.proximity(a, b, margin=0)

    assert found.vertex_face.tolist() == [[0, 0]]
    assert found.face_vertex.tolist() == [[0, 0]]
    assert len(found.edge_edge) == 4


def test_every_pair_within_a_huge_margin():
    """Report every pair that is not incident, each once, when the margin holds the whole body."""
    body = shapes.icosphere(1)
    found = impinge.proximity(body, margin=10.0)
    vertex_count, edge_count, face_count = 42, 120, 80
    around = np.bincount(body.faces.reshape(-1))
    sharing = (around * (around - 1) // 2).sum()

    assert len(found.edges_a) == edge_count
    assert len(found.vertex_face) == vertex_count * face_count - 3 * face_count
    assert len(found.edge_edge) == edge_count * (edge_count - 1) // 2 - sharing
    assert len(np.unique(found.edge_edge, axis=0)) == len(found.edge_edge)
    assert (found.edge_edge[:, 0] < found.edge_edge[:, 1]).all()


def test_incident_features_are_left_out():
    """Find nothing on a smooth body by itself, whose nearest features all share a vertex."""
    body = shapes.icosphere(3)
    edge = np.linalg.norm(np.diff(body.vertices[impinge.proximity(body, margin=0.0).edges_a], axis=1), axis=2)

    assert len(impinge.proximity(body, margin=0.5 * edge.min())) == 0


# options --------------------------------------------------------------------------------------------------


def test_transforms(rng):
    """See bodies moved by transforms as if their vertices had been moved."""
    a, b = shapes.icosphere(1), soup(rng, 20)
    matrix = np.eye(4)
    matrix[:3, :3] += 0.3 * rng.standard_normal((3, 3))
    matrix[:3, 3] = 0.2
    x_a, x_b = (
        impinge.transform_points(matrix, a.vertices),
        impinge.transform_points(matrix.T * 0.0 + np.eye(4), b.vertices),
    )

    assert assert_right(a, b, 0.1, x_a=x_a, transform_a=matrix) > 20
    assert assert_right(b, a, 0.1, x_b=x_a, transform_b=matrix, transform_a=np.eye(4), x_a=x_b) > 20
    assert_right(a, None, 0.3, x_a=x_a, transform_a=matrix)


def test_body_against_itself_moved():
    """Take one body on both sides, where nothing is incident."""
    body = shapes.icosphere(1)
    matrix = np.eye(4)
    matrix[0, 3] = 0.3

    x = impinge.transform_points(matrix, body.vertices)
    assert assert_right(body, body, 0.1, x_b=x, transform_b=matrix) > 100


def test_active_triangles(rng):
    """Count vertices and edges of active triangles only, whether given by ids or as a mask."""
    a, b = shapes.icosphere(1), soup(rng, 30)
    ids_a, ids_b = np.sort(rng.choice(80, 30, replace=False)), np.arange(0, 30, 2)
    mask = np.isin(np.arange(80), ids_a)

    assert assert_right(a, b, 0.2, ids_a=ids_a, ids_b=ids_b, active_a=mask, active_b=ids_b) > 50
    assert_right(a, None, 0.5, ids_a=ids_a, active_a=ids_a)
    assert len(impinge.proximity(a, b, margin=9.0, active_b=[])) == 0


def test_edited_bodies(rng):
    """Follow removed and added triangles: what only dead triangles had is gone, what was shared stays."""
    body, other = shapes.icosphere(1), soup(rng, 20)
    hits = 0
    for _ in range(8):
        live = np.flatnonzero(body.alive)
        body.remove_triangles(rng.choice(live, 7, replace=False))
        body.add_triangles(rng.integers(0, len(body.vertices), (4, 3)))
        body.add_triangles([[len(body.vertices), 0, 1]], vertices=rng.random((1, 3)))
        hits += assert_right(body, other, 0.1)
        hits += assert_right(body, None, 0.1)
    body.compact()

    assert_right(body, other, 0.1)
    assert hits > 1000


def test_ignored_triangle_pairs(rng):
    """Leave out features if all pairs of triangles that have them are ignored, and only then."""
    a, b = shapes.icosphere(1), shapes.icosphere(1, center=(1.9, 0.1, 0.2))
    found = impinge.proximity(a, b, margin=0.4)
    everything = np.stack([c.ravel() for c in np.meshgrid(np.arange(80), np.arange(80))], axis=1)
    some = everything[rng.random(len(everything)) < 0.8]
    wanted = {tuple(row) for row in everything.tolist()} - {tuple(row) for row in some.tolist()}
    faces = a.faces, b.faces
    has = [[set(np.flatnonzero((f == v).any(axis=1)).tolist()) for v in range(42)] for f in faces]

    def stays(of_a, of_b):
        return any((s, t) in wanted for s in of_a for t in of_b)

    def around(k, edge):
        return has[k][edge[0]] & has[k][edge[1]]

    kept = impinge.proximity(a, b, margin=0.4, ignore=some)
    assert len(impinge.proximity(a, b, margin=0.4, ignore=everything)) == 0
    rows = [row for row in found.vertex_face.tolist() if stays(has[0][row[0]], [row[1]])]
    assert kept.vertex_face.tolist() == rows
    rows = [row for row in found.face_vertex.tolist() if stays([row[0]], has[1][row[1]])]
    assert kept.face_vertex.tolist() == rows
    edges = found.edges_a, found.edges_b
    rows = [(e, f) for e, f in found.edge_edge.tolist() if stays(around(0, edges[0][e]), around(1, edges[1][f]))]
    assert list(map(tuple, kept.edge_edge.tolist())) == rows
    assert 20 < len(kept) < len(found)


def test_ignored_pairs_of_one_body():
    """Ignore pairs of one body in either order."""
    body = impinge.TriMesh(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0.1], [1, 0, 0.1], [0, 1, 0.1]], [[0, 1, 2], [3, 4, 5]]
    )

    assert len(impinge.proximity(body, margin=0.2)) > 5
    assert len(impinge.proximity(body, margin=0.2, ignore=[[1, 0]])) == 0


def test_cancelled_queries_say_so():
    """Return no pairs and the reason when the query is cancelled."""
    stop = threading.Event()
    stop.set()
    found = impinge.proximity(shapes.box(), margin=0.1, cancel=stop)

    assert (len(found), found.complete, found.reason) == (0, False, "cancelled")


def test_cancelled_in_the_middle(monkeypatch):
    """Check cancel between stages and parts of them; without cancellation the answer is the same."""
    monkeypatch.setattr("impinge.detect.proximity.proximity.PAIRS_PER_CHECK", 5000)
    monkeypatch.setattr("impinge.detect.proximity.proximity.CHECK_MS", 0.0)
    body = cloth(20)
    expected = impinge.proximity(body, margin=0.1)
    never = CancelAfter(10**9)
    found = impinge.proximity(body, margin=0.1, cancel=never)
    checks = 10**9 - never.checks

    assert found.complete
    assert same_bytes(found, expected)
    assert checks > 10
    for after in range(checks):
        stopped = impinge.proximity(body, margin=0.1, cancel=CancelAfter(after))
        assert (stopped.complete, stopped.reason, len(stopped)) == (False, "cancelled", 0)


@pytest.mark.parametrize(
    "margin",
    [
        -1.0,
        np.nan,
        np.inf,
        "wide",
        None,
        True,
        1j,
        pytest.param(10**400, id="large"),
        pytest.param(-(10**5000), id="huge"),
    ],
)
def test_bad_margins_get_a_sentence(margin):
    """Refuse margins that are no finite number from 0."""
    with pytest.raises(impinge.OptionError, match=r"margin is .*, expected a finite number from 0"):
        impinge.proximity(shapes.box(), margin=margin)


def test_options_that_mean_nothing_are_refused():
    """Refuse to cut the answer, and options of a second body that is not there."""
    with pytest.raises(TypeError, match="max_pairs"):
        impinge.proximity(shapes.box(), margin=0.1, max_pairs=3)
    with pytest.raises(impinge.OptionError, match="transform_b and active_b are for two bodies"):
        impinge.proximity(shapes.box(), margin=0.1, transform_b=np.eye(4))


# kept between frames --------------------------------------------------------------------------------------


def test_moving_bodies_are_followed(rng):
    """Answer for the positions of each frame, although the structure is kept."""
    a, b = shapes.icosphere(1), shapes.icosphere(1, center=(2.1, 0.0, 0.0))
    counts = set()
    for _ in range(5):
        a.update(np.array(a.vertices) + 0.05 * rng.standard_normal(a.vertices.shape))
        counts.add(assert_right(a, b, 0.3))

    assert len(counts) > 1


def test_changes_between_frames():
    """Identify features that came near and left by vertices, whatever rows their edges have."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(2.05, 0.0, 0.0))
    first = impinge.proximity(a, b, margin=0.2)
    a.remove_triangles([0, 1, 2])  # far from b, but the rows of all edges change
    b.update(b.vertices + np.array([0.02, 0.0, 0.0]))
    second = impinge.proximity(a, b, margin=0.2)
    changes = second.changes(first)

    assert len(changes.entered) == 0
    assert len(changes.persisting) == len(second) > 10
    assert len(changes.left) == len(first) - len(second) > 0


def test_same_bytes_for_any_number_of_threads():
    """Return the same bits with one thread and with two."""
    body, other = cloth(40), shapes.icosphere(4, radius=0.4, center=(0.2, 0.0, 0.38))
    answers = []
    for count in (1, 2, 1):
        impinge.set_threads(count)
        answers.append((impinge.proximity(body, margin=0.0125), impinge.proximity(body, other, margin=0.02)))
    impinge.set_threads(2)

    assert len(answers[0][0]) > 10_000
    assert len(answers[0][1]) > 1000
    for answer in answers[1:]:
        assert all(map(same_bytes, answer, answers[0]))


def test_room_grows_with_the_answer(monkeypatch):
    """Find every pair although there is far too little room at first."""
    body = cloth(20)
    expected = impinge.proximity(body, margin=0.2)
    monkeypatch.setattr("impinge.detect.proximity.proximity.ROOM", 0)
    monkeypatch.setattr("impinge.detect.proximity.proximity.LEAST_ROOM", 1)

    assert same_bytes(impinge.proximity(body, margin=0.2), expected)
    assert len(expected) > 100_000


# other libraries ------------------------------------------------------------------------------------------


def count_by_ipctk(body, margin):
    """Vertex-face and edge-edge pairs within a margin: its candidates, each distance measured."""
    ipctk = pytest.importorskip("ipctk", reason="ipctk is not installed")
    x, faces = np.asfortranarray(body.vertices), np.asarray(body.faces)
    edges = ipctk.edges(faces)
    mesh = ipctk.CollisionMesh(x, edges, faces)
    candidates = ipctk.Candidates()
    candidates.build(mesh, x, 0.5 * margin * (1.0 + 1e-9), ipctk.LBVH())
    used = set(body.used_vertices.tolist())  # it counts vertices without a face, too
    of_faces = [c for c in candidates.fv_candidates if c.vertex_id in used]
    squares = [
        np.array([c.compute_distance(c.dof(x, edges, faces)) for c in rows])
        for rows in (of_faces, candidates.ee_candidates)
    ]
    return [int((square <= margin * margin).sum()) for square in squares], squares


@pytest.mark.medium
@pytest.mark.parametrize("body", [cloth(30), shapes.torus_knot(2, 3, 300, 12, tube_radius=0.38)], ids=["cloth", "knot"])
def test_agrees_with_ipctk(rng, body):
    """Find as many pairs as ipctk has candidates within the margin, at the same distances."""
    body.update(np.array(body.vertices) + 1e-4 * rng.standard_normal(body.vertices.shape))
    margin = 0.05
    counts, squares = count_by_ipctk(body, margin)
    found = impinge.proximity(body, margin=margin)

    assert [len(found.vertex_face), len(found.edge_edge)] == counts
    assert min(counts) > 500
    for distance, square in zip((found.vertex_face_distance, found.edge_edge_distance), squares):
        near = np.sort(np.sqrt(square[square <= margin * margin]))
        np.testing.assert_allclose(np.sort(distance), near, rtol=1e-6, atol=1e-9)


@pytest.mark.medium
@shared_data.needs_data
@pytest.mark.parametrize(
    "file",
    [
        "two-cubes/two-cubes-intersecting.ply",
        "two-cubes/two-cubes-close.ply",
        "thick-cloth/t0.ply",
        "thick-cloth/t1.ply",
        "cloth-funnel/227.ply",
    ],
)
def test_agrees_with_ipctk_on_sequences(file):
    """Find as many pairs as ipctk on frames of simulations."""
    body = impinge.load(shared_data.FOLDER / "seq" / file)
    lengths = np.linalg.norm(np.diff(body.vertices[impinge.proximity(body, margin=0.0).edges_a], axis=1), axis=2)
    margin = 0.1 * float(np.median(lengths))
    counts, _ = count_by_ipctk(body, margin)
    found = impinge.proximity(body, margin=margin)

    assert [len(found.vertex_face), len(found.edge_edge)] == counts


@shared_data.needs_data
def test_pairs_that_collide_within_a_step_are_near_before_it():
    """Find every pair that collides on the way to the next frame, at its distance in fractions.

    A pair that meets within a step is before it no farther apart than both move. Its list of collisions is exact and
    complete for cloth-funnel. The steps of the other two sequences are several edges long: a margin of that size
    holds tens of millions of pairs, and would show nothing more.
    """
    folder = shared_data.FOLDER / "seq" / "cloth-funnel"
    body, after = impinge.load(folder / "227.ply"), impinge.load(folder / "228.ply")
    x, moves = body.vertices, np.linalg.norm(after.vertices - body.vertices, axis=1)
    edges = edges_of(body.faces)
    edges = edges[np.lexsort((edges[:, 0], edges[:, 1]))]  # the order that the lists count by
    first_edge, first_face = len(x), len(x) + len(edges)
    collides = {}
    for sort in ("vf", "ee"):
        pairs, flags = (json.loads((folder / f"{name}_227{sort}.json").read_text()) for name in ("boxes", "mma_bool"))
        collides[sort] = np.array(pairs)[np.array(flags, dtype=bool)]
    vertex, face = collides["vf"][:, 0], collides["vf"][:, 1] - first_face
    one, other = (edges[collides["ee"][:, k] - first_edge] for k in range(2))
    reach = moves[vertex] + moves[body.faces[face]].max(axis=1), moves[one].max(axis=1) + moves[other].max(axis=1)
    found = impinge.proximity(body, margin=float(np.concatenate(reach).max()))

    near = dict(zip(map(tuple, found.vertex_face.tolist()), found.vertex_face_distance.tolist()))
    for v, f, most in zip(vertex.tolist(), face.tolist(), reach[0]):
        exact = root(square_to_triangle(x[v], *x[body.faces[f]]))
        assert exact <= most
        np.testing.assert_allclose(near[v, f], exact, rtol=0.0, atol=1e-14)
    ends = np.concatenate([found.edges_a[found.edge_edge[:, 0]], found.edges_b[found.edge_edge[:, 1]]], axis=1)
    near = dict(zip(map(tuple, ends.tolist()), found.edge_edge_distance.tolist()))
    for e, f, most in zip(one.tolist(), other.tolist(), reach[1]):
        exact = root(square_of_segments(*x[e], *x[f]))
        assert exact <= most
        np.testing.assert_allclose(near[(*min(e, f), *max(e, f))], exact, rtol=0.0, atol=1e-14)
    assert (len(vertex), len(one)) == (27, 107)
