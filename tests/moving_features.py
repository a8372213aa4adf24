"""Impacts of moving bodies by brute force: all pairs of features, decided by the primitives."""

from __future__ import annotations

import numpy as np

import impinge


def edges_of(faces):
    """Edges as vertex pairs, the lower first, sorted."""
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(sides[sides[:, 0] != sides[:, 1]], axis=0).reshape(-1, 2)


def all_pairs(a, b, ids_a=None, ids_b=None):
    """Kind, features and vertices of all pairs of features that share no vertex; b is None for one body."""
    is_self, b = b is None, a if b is None else b
    ids_a = np.flatnonzero(a.alive) if ids_a is None else np.intersect1d(np.flatnonzero(a.alive), ids_a)
    ids_b = np.flatnonzero(b.alive) if ids_b is None else np.intersect1d(np.flatnonzero(b.alive), ids_b)
    ids_b = ids_a if is_self else ids_b
    edges_a, edges_b = edges_of(a.faces[ids_a]), edges_of(b.faces[ids_b])
    rows = [(0, v, f, (v, *b.faces[f])) for v in np.unique(a.faces[ids_a]) for f in ids_b]
    if not is_self:
        rows += [(1, f, v, (*a.faces[f], v)) for f in ids_a for v in np.unique(b.faces[ids_b])]
    rows += [
        (2, i, j, (*edges_a[i], *edges_b[j]))
        for i in range(len(edges_a))
        for j in range(i + 1 if is_self else 0, len(edges_b))
    ]
    count = {0: 1, 1: 3, 2: 2}
    if is_self:
        rows = [row for row in rows if not set(row[3][: count[row[0]]]) & set(row[3][count[row[0]] :])]
    kind = np.array([row[0] for row in rows], dtype=np.int64)
    return kind, np.array([row[1:3] for row in rows]).reshape(-1, 2), np.array([row[3] for row in rows]).reshape(-1, 4)


def points_of(kind, vertices, x_a, x_b):
    """The four points of each pair, the vertex before its face, shape (n, 4, 3)."""
    of_a = np.arange(4) < np.array([1, 3, 2])[kind][:, None]
    x = np.where(of_a[:, :, None], x_a[np.where(of_a, vertices, 0)], x_b[np.where(of_a, 0, vertices)])
    return np.where((kind == 1)[:, None, None], x[:, [3, 0, 1, 2]], x)


def impacts_by_brute_force(a, b, start_a, end_a, start_b, end_b, ids_a=None, ids_b=None):
    """Dict of (kind, feature of a, feature of b) to (lowest time, highest time, at start)."""
    kind, feature, vertices = all_pairs(a, b, ids_a, ids_b)
    found = {}
    for is_edges, decide in ((False, impinge.vertex_face_impacts), (True, impinge.edge_edge_impacts)):
        rows = np.flatnonzero((kind == 2) == is_edges)
        if not len(rows):
            continue
        before, after = (points_of(kind[rows], vertices[rows], x, y) for x, y in ((start_a, start_b), (end_a, end_b)))
        answer = decide(before, after)
        for k in np.flatnonzero(answer.hit):
            key = int(kind[rows[k]]), int(feature[rows[k], 0]), int(feature[rows[k], 1])
            found[key] = float(answer.time_lo[k]), float(answer.time_hi[k]), bool(answer.at_start[k])
    return found


def as_dict(impacts):
    """The same of a result."""
    return {
        (int(kind), int(i), int(j)): (float(lo), float(hi), bool(at_start))
        for kind, i, j, lo, hi, at_start in zip(
            impacts.kind,
            impacts.feature_a,
            impacts.feature_b,
            impacts.time_lo,
            impacts.time_hi,
            impacts.at_start,
            strict=True,
        )
    }


def soup(rng, count, *, size=0.3, whole=False):
    """Random triangles that share no vertex; with whole coordinates, many are degenerate."""
    if whole:
        x = rng.integers(0, 4, (3 * count, 3)).astype(float)
    else:
        x = (rng.random((count, 1, 3)) + size * rng.standard_normal((count, 3, 3))).reshape(-1, 3)
    return impinge.TriMesh(x, np.arange(3 * count).reshape(-1, 3))


def shuffled_mesh(rng, vertex_count, face_count, *, whole=False):
    """Random faces on few vertices: many share edges and vertices, some repeat an index, some are there twice."""
    x = rng.integers(0, 4, (vertex_count, 3)).astype(float) if whole else rng.random((vertex_count, 3))
    return impinge.TriMesh(x, rng.integers(0, vertex_count, (face_count, 3)))


def moved(rng, x, *, speed=0.4, whole=False):
    """Positions after a random motion, partly common to all vertices."""
    if whole:
        return x + rng.integers(-2, 3, x.shape)
    return x + speed * (rng.standard_normal(3) + 0.5 * rng.standard_normal(x.shape))
