"""Edges and neighbours, against plain Python counting."""

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np
import pytest

from impinge.mesh import shapes
from impinge.mesh.adjacency import TET_FACES, Adjacency, grouped, tet_face_neighbours

VERTEX_COUNT = 9


def sides(face) -> list[tuple[int, int]]:
    """The directed sides of a face, none if it repeats a vertex."""
    a, b, c = face
    return [] if len({a, b, c}) < 3 else [(a, b), (b, c), (c, a)]


def random_faces(rng: np.random.Generator, count: int) -> np.ndarray:
    """Faces among few vertices: many share edges and some repeat a vertex."""
    return rng.integers(0, VERTEX_COUNT, (count, 3)).astype(np.int32)


def rows(csr) -> list[list[int]]:
    """A CSR list as lists."""
    start, item = csr
    return [item[a:b].tolist() for a, b in pairwise(start)]


def test_grouped_lists_positions_by_key():
    """List the positions of each key in order, keys without any too."""
    assert rows(grouped(np.array([3, 1, 3, 0]), 5)) == [[3], [1], [], [0, 2], []]
    assert rows(grouped(np.zeros(0, dtype=np.int64), 2)) == [[], []]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 10, 30])
def test_edges_equal_plain_counting(rng, count):
    """Equal dictionaries filled face by face: edges, their triangles, degrees and directions."""
    repeated, shared, faces_seen = 0, 0, 0
    for _ in range(60):
        faces = random_faces(rng, count)
        around_edge, balance, around_vertex = defaultdict(list), defaultdict(int), defaultdict(list)
        for t, face in enumerate(faces.tolist()):
            for a, b in sides(face):
                around_edge[min(a, b), max(a, b)].append(t)
                balance[min(a, b), max(a, b)] += 1 if a < b else -1
            for v in face:
                around_vertex[v].append(t)
        expected = sorted(around_edge)
        degree = [len(around_edge[e]) for e in expected]
        adjacency = Adjacency(faces, VERTEX_COUNT)

        assert [tuple(e) for e in adjacency.edges.tolist()] == expected
        assert rows(adjacency.edge_tri) == [around_edge[e] for e in expected]
        assert rows(adjacency.vertex_tri) == [around_vertex[v] for v in range(VERTEX_COUNT)]
        assert adjacency.edge_degree.tolist() == degree
        assert adjacency.edge_balance.tolist() == [balance[e] for e in expected]
        assert adjacency.open_edges.tolist() == [d == 1 for d in degree]
        assert adjacency.nonmanifold_edges.tolist() == [d > 2 for d in degree]
        assert adjacency.flipped_edges.tolist() == [d == 2 and balance[e] != 0 for e, d in zip(expected, degree)]
        assert adjacency.is_closed == (len(degree) > 0 and all(d % 2 == 0 for d in degree))
        repeated += sum(not sides(face) for face in faces.tolist())
        shared += sum(d > 1 for d in degree)
        faces_seen += count

    if count >= 10:
        assert 0.1 < repeated / faces_seen < 0.6
        assert shared > 100


@pytest.mark.parametrize("count", [1, 3, 6, 12])
def test_components_equal_plain_merging(rng, count):
    """Equal sets of vertices merged face by face, faces that repeat a vertex included."""
    several = 0
    for _ in range(100):
        vertex_count = 2 * count + 2
        faces = rng.integers(0, vertex_count, (count, 3)).astype(np.int32)
        label = list(range(vertex_count))
        for face in faces.tolist():
            merged = {label[v] for v in face}
            label = [min(merged) if k in merged else k for k in label]
        number, piece = Adjacency(faces, vertex_count).component

        assert number == len({label[face[0]] for face in faces.tolist()})
        for i, j in combinations(range(count), 2):
            assert (piece[i] == piece[j]) == (label[faces[i, 0]] == label[faces[j, 0]])
        several += number > 1

    assert several > 30 or count == 1


@pytest.mark.parametrize("make", [shapes.box, lambda: shapes.icosphere(2), lambda: shapes.torus_knot(2, 3, 60, 6)])
def test_closed_surfaces_obey_euler(make):
    """Border every edge with two agreeing triangles, in numbers that fit the genus."""
    mesh = make()
    adjacency = mesh.adjacency

    assert (adjacency.edge_degree == 2).all()
    assert adjacency.is_oriented
    assert adjacency.component[0] == 1
    assert len(mesh.vertices) - len(adjacency.edges) + len(mesh) in (0, 2)


def test_two_surfaces_glued_along_an_edge_are_closed():
    """Call a surface closed when an edge borders four triangles."""
    x_faces = shapes.box().faces
    a, b = x_faces[0, 0], x_faces[0, 1]
    other = np.array([v if v in (a, b) else v + 8 for v in x_faces.reshape(-1)], dtype=np.int32).reshape(-1, 3)
    adjacency = Adjacency(np.vstack([x_faces, other]), 16)

    assert adjacency.is_closed
    assert adjacency.is_oriented
    assert adjacency.nonmanifold_edges.sum() == 1


@pytest.mark.parametrize("vertex_count", [0, 5])
def test_no_faces_have_no_neighbours(vertex_count):
    """Answer every question about no faces."""
    adjacency = Adjacency(np.zeros((0, 3), dtype=np.int32), vertex_count)

    assert adjacency.edges.shape == (0, 2)
    assert len(adjacency.edge_degree) == len(adjacency.edge_balance) == len(adjacency.open_edges) == 0
    assert rows(adjacency.edge_tri) == []
    assert rows(adjacency.vertex_tri) == [[]] * vertex_count
    assert not adjacency.is_closed
    assert not adjacency.is_oriented


def test_edges_of_large_ids_do_not_overflow():
    """Keep edges apart whose ids multiply beyond 32 bits."""
    n = 2**31 - 1
    faces = np.array([[n - 1, n - 2, n - 3], [0, n - 1, n - 2]], dtype=np.int32)

    assert Adjacency(faces, n).edges.tolist() == [
        [0, n - 2],
        [0, n - 1],
        [n - 3, n - 2],
        [n - 3, n - 1],
        [n - 2, n - 1],
    ]


def test_faces_of_a_tet_look_outwards():
    """List the face opposite each corner, facing away from it, for a tet of positive volume."""
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for corner, (a, b, c) in enumerate(TET_FACES):
        assert {corner, int(a), int(b), int(c)} == {0, 1, 2, 3}
        assert np.dot(np.cross(x[b] - x[a], x[c] - x[a]), x[corner] - x[a]) < 0.0


@pytest.mark.parametrize("make", [lambda: shapes.tet_box(1, 1, 1), lambda: shapes.tet_tube(2, 6, 3)])
def test_tet_neighbours_equal_plain_counting(make, rng):
    """Equal a dictionary from faces to tets, whatever the order of tets and corners."""
    tets = rng.permuted(rng.permutation(make().tets), axis=1)
    at_face = defaultdict(list)
    for t, tet in enumerate(tets.tolist()):
        for corner in tet:
            at_face[frozenset(tet) - {corner}].append(t)
    neighbour = tet_face_neighbours(tets)

    for t, tet in enumerate(tets.tolist()):
        for k, corner in enumerate(tet):
            others = [other for other in at_face[frozenset(tet) - {corner}] if other != t]
            assert neighbour[t, k] == (others[0] if others else -1)


def test_tets_beyond_two_on_a_face_are_paired_in_order():
    """Pair tets on one face by their ids, first with second, third with fourth, and leave the fifth alone."""
    tets = np.array([[0, 1, 2, 3 + k] for k in range(5)], dtype=np.int32)

    assert tet_face_neighbours(tets)[:, 3].tolist() == [1, 0, 3, 2, -1]
    assert (tet_face_neighbours(tets)[:, :3] == -1).all()


def test_no_tets_have_no_neighbours():
    """Answer for no tets, and for one."""
    assert tet_face_neighbours(np.zeros((0, 4), dtype=np.int32)).shape == (0, 4)
    assert tet_face_neighbours(np.array([[0, 1, 2, 3]], dtype=np.int32)).tolist() == [[-1, -1, -1, -1]]
