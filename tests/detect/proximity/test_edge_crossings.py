"""Edges through faces, against rational arithmetic."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import impinge
import oracle
from impinge import Kind, shapes

pytestmark = pytest.mark.small


def edges_of(faces):
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(sides, axis=0).reshape(-1, 2)


def by_oracle(a, b):
    """Rows (vertex, vertex, face, kind, sign) of all edges of a through faces of b."""
    found = []
    x_a, x_b = a.vertices.tolist(), b.vertices.tolist()
    for u, v in edges_of(a.faces[a.alive]).tolist():
        for f in np.flatnonzero(b.alive).tolist():
            face = [x_b[i] for i in b.faces[f]]
            before, after = (oracle.sign_orient3d(*face, x_a[i]) for i in (u, v))
            kind = oracle.segment_triangle_kind([x_a[u], x_a[v]], face)
            if before != after and kind != "none":
                found.append((u, v, f, int(Kind[kind.upper()]), 1 if after > before else -1))
    return found


def rows_of(found):
    return list(map(tuple, np.column_stack([found.edge, found.face, found.kind, found.sign]).tolist()))


def places(found, a, b):
    """Where the crossings are, by the edges and by the faces."""
    t = found.parameter[:, None]
    on_edge = (1.0 - t) * a.vertices[found.edge[:, 0]] + t * a.vertices[found.edge[:, 1]]
    return on_edge, np.einsum("ij,ijk->ik", found.weights, b.vertices[b.faces[found.face]])


def random_mesh(rng, *, whole):
    count = rng.integers(3, 10)
    x = rng.integers(0, 4, (count, 3)).astype(float) if whole else rng.random((count, 3))
    return impinge.TriMesh(x, rng.integers(0, count, (rng.integers(1, 10), 3)))


@pytest.mark.tiny
def test_one_edge_through_one_face():
    """Tell where and which way an edge passes through a face, where the answer is known."""
    b = impinge.TriMesh([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    a = impinge.TriMesh([[1, 1, -1], [1, 1, 3], [9, 9, -1]], [[0, 1, 2]])
    found = impinge.edge_crossings(a, b)

    assert rows_of(found) == [(0, 1, 0, Kind.CROSSING, 1)]
    assert found.parameter.tolist() == [0.25]
    np.testing.assert_allclose(found.weights, [[0.5, 0.25, 0.25]], rtol=1e-15)
    b.update(b.vertices[[0, 2, 1]])
    assert impinge.edge_crossings(a, b).sign.tolist() == [-1]


@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_equals_rational_arithmetic(rng, whole):
    """Equal the oracle on hundreds of meshes, whose edges also end on faces and pass through edges and corners."""
    kinds = np.zeros(4, dtype=int)
    for _ in range(150):
        a, b = random_mesh(rng, whole=whole), random_mesh(rng, whole=whole)
        found = impinge.edge_crossings(a, b)
        assert rows_of(found) == by_oracle(a, b)
        np.testing.assert_allclose(*places(found, a, b), atol=1e-9)
        assert ((found.parameter >= 0.0) & (found.parameter <= 1.0)).all()
        assert (found.weights >= 0.0).all()
        np.add.at(kinds, found.kind, 1)

    assert kinds[Kind.CROSSING] > 100
    assert (kinds[Kind.TOUCHING] > 200) == whole


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_any_scale(rng, scale):
    """Give the same edges, signs, parameters and weights at any scale."""
    x = rng.random((2, 30, 3))
    faces = np.arange(30).reshape(-1, 3)
    at_one = impinge.edge_crossings((x[0], faces), (x[1], faces))
    scaled = impinge.edge_crossings((scale * x[0], faces), (scale * x[1], faces))

    assert rows_of(scaled) == rows_of(at_one)
    assert len(at_one) > 10
    np.testing.assert_allclose(scaled.parameter, at_one.parameter, rtol=1e-9)
    np.testing.assert_allclose(scaled.weights, at_one.weights, rtol=1e-9, atol=1e-12)


def test_edges_through_closed_surfaces_alternate():
    """Leave and enter a closed body in turns along each edge."""
    a, b = shapes.torus_knot(2, 3, 200, 12), shapes.icosphere(3, radius=1.2)
    found = impinge.edge_crossings(a, b)
    order = np.lexsort((found.parameter, found.edge[:, 1], found.edge[:, 0]))
    edge, sign = found.edge[order], found.sign[order]
    same_edge = (edge[1:] == edge[:-1]).all(axis=1)

    assert len(found) > 100
    assert (sign[1:][same_edge] == -sign[:-1][same_edge]).all()


def test_options(rng):
    """Take transforms, active triangles, edits, ignored pairs and a wish to stop."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(1.1, 0.2, 0.1))
    matrix = np.eye(4)
    matrix[:3, 3] = 0.05, 0.03, 0.02
    moved = impinge.TriMesh(impinge.transform_points(matrix, a.vertices), a.faces)
    assert rows_of(impinge.edge_crossings(a, b, transform_a=matrix)) == rows_of(impinge.edge_crossings(moved, b))

    ids = np.flatnonzero(rng.random(len(b)) < 0.5)
    active = impinge.edge_crossings(a, b, active_b=ids)
    b.remove_triangles(np.setdiff1d(np.arange(len(b.faces)), ids))
    assert rows_of(active) == rows_of(impinge.edge_crossings(a, b)) == by_oracle(a, b)
    assert len(active) > 10

    pairs = impinge.triangle_pairs(a, b).pairs
    assert len(impinge.edge_crossings(a, b, ignore=pairs)) == 0
    stop = threading.Event()
    stop.set()
    assert impinge.edge_crossings(a, b, cancel=stop).reason == "cancelled"
    with pytest.raises(TypeError, match="max_pairs"):
        impinge.edge_crossings(a, b, max_pairs=1)


def test_ignored_triangles_of_an_edge():
    """Leave a crossing out only if every triangle that has the edge is ignored with the face."""
    roof = impinge.TriMesh([[0, 0, -1], [0, 0, 1], [3, 1, 5], [-3, 1, 5]], [[0, 1, 2], [1, 0, 3]])
    face = impinge.TriMesh([[-1, -1, 0], [1, -1, 0], [0, 2, 0]], [[0, 1, 2]])

    assert [0, 1] in impinge.edge_crossings(roof, face).edge.tolist()
    assert [0, 1] in impinge.edge_crossings(roof, face, ignore=[[0, 0]]).edge.tolist()
    assert [0, 1] in impinge.edge_crossings(roof, face, ignore=[[1, 0]]).edge.tolist()
    assert len(impinge.edge_crossings(roof, face, ignore=[[0, 0], [1, 0]])) == 0


def test_same_bytes_for_any_number_of_threads():
    """Return the same bits with one thread and with two."""
    a, b = shapes.bumpy_sphere(5), shapes.bumpy_sphere(5, center=(1.1, 0.4, 0.2))
    answers = []
    for count in (1, 2):
        impinge.set_threads(count)
        found = impinge.edge_crossings(a, b)
        answers.append([getattr(found, name).tobytes() for name in ("edge", "face", "parameter", "weights", "sign")])

    assert len(found) > 200
    assert answers[0] == answers[1]
