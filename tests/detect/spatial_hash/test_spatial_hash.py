"""Vertices in tets by spatial hashing: equal to brute force with exact signs, for every option."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impinge
import oracle
import shared_data
from impinge import TetMesh, scenes, shapes
from impinge.backend.jit import compiled, launch_always
from impinge.detect.common.results import VertexContacts
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.spatial_hash.kernels import sort_into_cells
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.exact.orientation import orient3d, point
from impinge.mesh.body import load
from point_tet import point_in_tet

small = pytest.mark.small


# brute force ------------------------------------------------------------------------------------------------


@compiled
def all_inside(x, vertices, tets, found):
    """Every vertex against every tet that it is no corner of, by exact signs; how many are inside."""
    count = 0
    for v in vertices:
        for t in range(len(tets)):
            a, b, c, d = tets[t]
            if v in (a, b, c, d):
                continue
            is_near = True
            for axis in range(3):
                p, q, r, s = x[a, axis], x[b, axis], x[c, axis], x[d, axis]
                is_near = is_near and min(p, q, r, s) <= x[v, axis] <= max(p, q, r, s)
            if is_near and point_in_tet(point(x, v), point(x, a), point(x, b), point(x, c), point(x, d)) >= 0:
                if count < len(found):
                    found[count, 0], found[count, 1] = v, t
                count += 1
    return count


@compiled
def signs(x, tets, sign):
    for t in range(len(tets)):
        sign[t] = orient3d(
            point(x, tets[t, 0]), point(x, tets[t, 1]), point(x, tets[t, 2]), point(x, tets[t, 3])
        )  # fmt: skip


def in_one(bodies, active=None):
    """All bodies as one: positions, live and active tets by numbers among all, (body, tet), starts of vertices."""
    start = np.concatenate([[0], np.cumsum([len(body.vertices) for body in bodies])])
    x = np.concatenate([body.vertices for body in bodies])
    rows, ids = [np.zeros((0, 4), np.int64)], [np.zeros((0, 2), np.int64)]
    for b, body in enumerate(bodies):
        chosen = np.flatnonzero(body.alive)
        if active is not None and active[b] is not None:
            chosen = np.intersect1d(chosen, active[b])
        rows.append(body.tets[chosen].astype(np.int64) + start[b])
        ids.append(np.stack([np.full(len(chosen), b), chosen], axis=1))
    return x, np.concatenate(rows), np.concatenate(ids), start


def brute_force(bodies, active=None):
    """Rows (body, vertex, in_body, tet), and how many tets are flat and inverted."""
    x, tets, ids, start = in_one(bodies, active)
    vertices = np.unique(tets)
    found = np.zeros((1024, 2), dtype=np.int64)
    while (count := all_inside(x, vertices, tets, found)) > len(found):
        found = np.zeros((count, 2), dtype=np.int64)
    v, t = found[:count].T
    body = np.searchsorted(start, v, side="right") - 1
    rows = np.stack([body, v - start[body], ids[t, 0], ids[t, 1]], axis=1)
    sign = np.zeros(len(tets), dtype=np.int64)
    signs(x, tets, sign)
    return rows[np.lexsort(rows.T[::-1])], int((sign == 0).sum()), int((sign < 0).sum())


def by_oracle(bodies):
    """The same rows in rational arithmetic."""
    rows = []
    for b, body in enumerate(bodies):
        for v in np.unique(body.tets[body.alive]).tolist():
            for c, other in enumerate(bodies):
                for t in np.flatnonzero(other.alive).tolist():
                    tet = other.tets[t].tolist()
                    if b == c and v in tet:
                        continue
                    if oracle.point_in_tet(body.vertices[v].tolist(), other.vertices[tet].tolist()) >= 0:
                        rows.append([b, v, c, t])
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def rows_of(result):
    return np.stack([result.body, result.vertex, result.in_body, result.tet], axis=1)


def assert_equals_brute_force(bodies, *, options=None):
    """Rows, counts and weights of a fresh detector; how many contacts there are."""
    options = options or {}
    result = SpatialHash(bodies).query(**options)
    expected, flat, inverted = brute_force(bodies, options.get("active"))

    np.testing.assert_array_equal(rows_of(result), expected)
    np.testing.assert_array_equal(result.is_self, expected[:, 0] == expected[:, 2])
    assert (result.stats["flat_tets"], result.stats["inverted_tets"]) == (flat, inverted)
    assert result.complete
    assert_weights(result)
    return len(result)


def assert_weights(result):
    assert np.isfinite(result.barycentric).all()
    assert (result.barycentric >= 0.0).all()
    np.testing.assert_allclose(result.barycentric.sum(axis=1), 1.0, rtol=0.0, atol=1e-15)


# bodies -----------------------------------------------------------------------------------------------------


def soup(rng, count, size=0.2, spread=1.0):
    """Tets that share nothing."""
    corners = spread * rng.random((count, 1, 3)) + size * rng.standard_normal((count, 4, 3))
    return TetMesh(corners.reshape(-1, 3), np.arange(4 * count).reshape(-1, 4))


def crumpled(rng, n=4, noise=0.5, center=(0.0, 0.0, 0.0)):
    """A box whose vertices were moved so far that tets are inverted and overlap."""
    body = shapes.tet_box(n, n, n, center=center)
    body.update(np.array(body.vertices) + noise * rng.standard_normal(body.vertices.shape))
    return body


def overlapping(rng, noise=0.3):
    return [crumpled(rng, 4, noise, (1.3 * k, 0.4 * k, 0.2 * k)) for k in range(3)]


def on_grid(rng, vertex_count, tet_count, span=2):
    """Tets with integer corners, no index twice in one."""
    tets = np.array([rng.permutation(vertex_count)[:4] for _ in range(tet_count)])
    return TetMesh(rng.integers(-span, span + 1, (vertex_count, 3)), tets)


def clone(body, positions=None):
    return TetMesh(body.vertices if positions is None else positions, body.tets)


def empty():
    return TetMesh(np.zeros((0, 3)), np.zeros((0, 4), dtype=int))


# the answer -------------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5, 2.0])
def test_deformed_bodies(rng, noise):
    """Find all contacts and self-contacts of boxes from rest to chaos."""
    bodies = overlapping(rng, noise)
    found = assert_equals_brute_force(bodies)

    assert found > 50
    assert SpatialHash(bodies).query().is_self.any() == (noise > 0.1)


@small
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16, 17, 100])
def test_soups_of_any_size(rng, count):
    """Fill clusters of eight partly, wholly and just over."""
    bodies = [soup(rng, count, size=0.5), soup(rng, 9, size=0.5)]
    found = assert_equals_brute_force(bodies)

    assert count == 1 or found > 0


@small
@pytest.mark.tiny
def test_rational_oracle(rng):
    """Agree with rational arithmetic on small scenes: generic ones, and on an integer grid."""
    total = 0
    for body in (soup(rng, 4, size=0.8), on_grid(rng, 9, 5)):
        bodies = [body, on_grid(rng, 8, 6)]
        expected = by_oracle(bodies)
        total += len(expected)

        np.testing.assert_array_equal(rows_of(SpatialHash(bodies).query()), expected)
    assert total > 10


coordinates = st.tuples(*[st.integers(0, 3)] * 3)


@st.composite
def bodies_on_a_grid(draw):
    """One to three bodies with few integer positions: flat tets, repeated corners, all contacts degenerate."""
    bodies = []
    for _ in range(draw(st.integers(1, 3))):
        x = draw(st.lists(coordinates, min_size=4, max_size=7))
        corner = st.integers(0, len(x) - 1)
        tets = draw(st.lists(st.tuples(corner, corner, corner, corner), min_size=1, max_size=4))
        bodies.append(TetMesh(x, tets))
    return bodies


@small
@settings(max_examples=150, deadline=None)
@given(bodies=bodies_on_a_grid(), shift=st.sampled_from([0, -2, 1_000_000]))
def test_degenerate_contacts_on_integer_grids(bodies, shift):
    """Agree with rational arithmetic where vertices lie on faces, edges and corners, and tets are flat or inverted."""
    expected = by_oracle(bodies)
    for body in bodies:
        body.update(np.array(body.vertices) + shift)
    result = SpatialHash(bodies).query()

    np.testing.assert_array_equal(rows_of(result), expected)
    assert_weights(result)


@small
def test_integer_grids_have_many_degenerate_contacts(rng):
    """Agree with brute force on hundreds of tets with few integer corners, where nearly every contact is degenerate."""
    on_border = 0
    for _ in range(3):
        bodies = [on_grid(rng, 40, 50) for _ in range(3)]
        assert assert_equals_brute_force(bodies) > 500
        on_border += (SpatialHash(bodies).query().barycentric == 0.0).any(axis=1).sum()

    assert on_border > 1000


@small
def test_result_is_sorted_unique_and_typed(rng):
    """Return int32 columns sorted by (body, vertex, in_body, tet), each row once, with what was counted."""
    result = SpatialHash(overlapping(rng)).query()
    rows = rows_of(result)

    assert isinstance(result, VertexContacts)
    np.testing.assert_array_equal(rows, np.unique(rows, axis=0))
    assert {c.dtype for c in (result.body, result.vertex, result.in_body, result.tet)} == {np.dtype(np.int32)}
    assert (result.barycentric.dtype, result.barycentric.shape) == (np.float64, (len(result), 4))
    assert result.is_self.dtype == np.bool_
    assert (result.complete, result.reason, result.method) == (True, None, "spatial_hash")
    assert result.depth is result.direction is result.edges is None
    assert result.stats["candidates"] >= len(result) > 0
    assert result.elapsed_ms > 0.0
    assert json.loads(json.dumps(result.to_dict()))["vertex"] == result.vertex.tolist()


# boxes, counted by hand ---------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("shift", [(0.3, 0.21, 0.13), (2.3, 0.21, -1.87), (-3.7, 3.21, 3.13), (4.3, 0.21, 0.13)])
def test_boxes_in_generic_position(shift):
    """Count the grid points of each box in the other, in exactly one tet each."""
    a, b = shapes.tet_box(4, 4, 4), shapes.tet_box(4, 4, 4, center=shift)
    result = SpatialHash([a, b]).query()
    # a has the points -2 ... 2 along each axis, b has -2 + s ... 2 + s: of each, 4 - floor(|s|) lie in the other.
    expected = int(np.prod([max(0, 4 - int(abs(s))) for s in shift]))

    assert (result.body == 0).sum() == (result.body == 1).sum() == expected
    assert not result.is_self.any()
    assert len(np.unique(rows_of(result)[:, :2], axis=0)) == 2 * expected


@small
@pytest.mark.parametrize("shift", [(0, 0, 0), (1, 0, 0), (2, -1, 3), (4, 4, 4), (5, 0, 0)])
def test_boxes_on_one_grid(shift):
    """Count shared grid points, in all tets around each: 8 or 4 + 4 ... follow from the valence of a vertex."""
    a, b = shapes.tet_box(4, 4, 4), shapes.tet_box(4, 4, 4, center=shift)
    result = SpatialHash([a, b]).query()
    common = int(np.prod([max(0, 5 - abs(s)) for s in shift]))
    valence = {0: np.bincount(a.tets.ravel()), 1: np.bincount(b.tets.ravel())}
    where = {c: {tuple(p): v for v, p in enumerate(body.vertices.tolist())} for c, body in ((0, a), (1, b))}
    for body, other in ((0, 1), (1, 0)):
        shared = [where[other][p] for p in where[body] if p in where[other]]
        assert len(shared) == common
        assert (result.body == body).sum() == valence[other][shared].sum()
    for weights in result.barycentric:
        assert sorted(weights.tolist()) == [0.0, 0.0, 0.0, 1.0]  # corners are met exactly


@small
def test_points_on_faces_edges_and_corners():
    """Count closed tets: a point on a face, an edge, a corner is in, one ulp outside is not; zeros are exact."""
    tet = TetMesh([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]], [[0, 1, 2, 3]])
    far = [[50, 50, 50], [60, 50, 50], [50, 60, 50]]
    tiny = np.nextafter(0.0, -1.0)
    cases = [
        ((1.0, 1.0, 1.0), [0.25] * 4), ((1.0, 1.0, 0.0), [0.5, 0.25, 0.25, 0.0]),
        ((2.0, 1.0, 1.0), [0.0, 0.5, 0.25, 0.25]),
        ((2.0, 0.0, 0.0), [0.5, 0.5, 0.0, 0.0]), ((0.0, 1.0, 3.0), [0.0, 0.0, 0.25, 0.75]),
        ((0.0, 0.0, 4.0), [0.0, 0.0, 0.0, 1.0]), ((0.0, 0.0, 0.0), [1.0, 0.0, 0.0, 0.0]),
        ((1.0, 1.0, tiny), None), ((tiny, 1.0, 1.0), None), ((2.0, 1.0, np.nextafter(1.0, 2.0)), None),
        ((0.0, 0.0, np.nextafter(4.0, 5.0)), None),
    ]  # fmt: skip
    for position, weights in cases:
        poke = TetMesh([position, *far], [[0, 1, 2, 3]])
        result = SpatialHash([tet, poke]).query()
        if weights is None:
            assert len(result) == 0, position
        else:
            *others, last = rows_of(result).tolist()
            assert last == [1, 0, 0, 0], position
            assert len(others) == (1.0 in weights)  # two corners at one place are in each other's tets
            np.testing.assert_allclose(result.barycentric[-1], weights, atol=1e-15)
            np.testing.assert_array_equal(result.barycentric[-1] == 0.0, np.array(weights) == 0.0)


@small
def test_weights_reproduce_positions(rng):
    """Give weights of corners whose sum is the vertex, to rounding, wherever the bodies are."""
    for scale, offset in ((1.0, 0.0), (1e-150, 0.0), (1e150, 0.0), (1.0, 1e6), (1e-8, -1e3)):
        bodies = overlapping(rng, 0.2)
        for body in bodies:
            body.update(scale * (np.array(body.vertices) + offset))
        result = SpatialHash(bodies).query()
        corners = np.array([bodies[b].vertices[bodies[b].tets[t]] for b, t in zip(result.in_body, result.tet)])
        expected = np.array([bodies[b].vertices[v] for b, v in zip(result.body, result.vertex)])
        actual = (result.barycentric[:, :, None] * corners).sum(axis=1)

        assert len(result) > 100
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=scale * (1e-9 + 1e-14 * abs(offset)))


# rest -------------------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("name", scenes.names("tets"))
def test_rest_pose_has_no_contact(name):
    """Find nothing in a body at rest, with every body of every scene by itself, nor between bodies apart."""
    bodies = scenes.get(name).bodies
    for body in bodies[:5]:
        assert len(SpatialHash([body]).query()) == 0


@small
@pytest.mark.parametrize("name", scenes.names("tets"))
def test_scenes_equal_brute_force(name):
    """Find in every scene what brute force finds, and what was derived by hand."""
    scene = scenes.get(name)
    expected = scene.expected.get("penetrating_vertices")
    result = SpatialHash(list(scene.bodies)).query()
    if expected is not None:
        assert len(result) == expected
    some = list(scene.bodies[:8])
    if sum(map(len, some)) < 10_000:
        assert assert_equals_brute_force(some) > 0 or expected == 0


TET_FILES = [row for row in shared_data.rows() if row.file.startswith("tet/")]


@shared_data.needs_data
@pytest.mark.parametrize("row", TET_FILES, ids=lambda row: row.file)
def test_rest_pose_of_real_meshes(row):
    """Find nothing in real meshes at rest, and count their inverted tets as their table does."""
    body = load(row.path)
    result = SpatialHash([body]).query()

    assert len(result) == 0
    assert len(body) == row.tets > 0
    assert result.stats["flat_tets"] == 0
    assert result.stats["inverted_tets"] == row.count("inverted tets")


@shared_data.needs_data
@pytest.mark.parametrize("file", ["tet/liver.msh", "tet/boot.vtk", "tet/Ossicles.vtu"])
def test_real_meshes_deformed(rng, file):
    """Equal brute force on real meshes that were crumpled and put into a shifted copy of themselves."""
    body = load(FOLDER / file)
    x = np.array(body.vertices)
    size = np.ptp(x, axis=0).max()
    body.update(x + 0.01 * size * rng.standard_normal(x.shape))
    other = clone(body, x + 0.03 * size)

    assert assert_equals_brute_force([body, other]) > 100


FOLDER = shared_data.FOLDER


# invariance -------------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("cell_size", [5e-324, 1e-300, 1e-3, 0.1, 0.7, 3.0, 1e3, 1e12, 1e150, 1e300, 1.7e308])
def test_any_cell_size(rng, cell_size):
    """Give the same contacts and weights for any positive cell size."""
    bodies = [crumpled(rng, 2, 0.3), crumpled(rng, 3, 0.3, (0.6, 0.4, 0.2))]
    expected = SpatialHash(bodies).query()
    result = SpatialHash(bodies, cell_size=cell_size).query()

    np.testing.assert_array_equal(rows_of(result), rows_of(expected))
    np.testing.assert_array_equal(result.barycentric, expected.barycentric)
    assert len(expected) > 20


@small
def test_whole_numbers_and_float32_as_cell_sizes(rng):
    """Take a cell size of any sort of number, and compile nothing for it."""
    bodies = [crumpled(rng, 2, 0.3), crumpled(rng, 2, 0.3, (0.6, 0.4, 0.2))]
    expected = rows_of(SpatialHash(bodies, cell_size=2.0).query())
    before = len(sort_into_cells.signatures)
    for size in (2, np.float32(2.0), np.int64(2), np.float64(2.0)):
        np.testing.assert_array_equal(rows_of(SpatialHash(bodies, cell_size=size).query()), expected)

    assert len(sort_into_cells.signatures) == before


@small
def test_any_order_of_bodies(rng):
    """Give the same contacts, renumbered, whatever the order of the bodies."""
    bodies = overlapping(rng)
    expected = rows_of(SpatialHash(bodies).query())
    for order in ([2, 0, 1], [1, 0, 2]):
        rows = rows_of(SpatialHash([bodies[i] for i in order]).query())
        rows[:, 0], rows[:, 2] = np.array(order)[rows[:, 0]], np.array(order)[rows[:, 2]]
        np.testing.assert_array_equal(rows[np.lexsort(rows.T[::-1])], expected)
    assert len(expected) > 100


@small
def test_any_order_of_tets_corners_and_vertices(rng):
    """Give the same contacts, renumbered, whatever the order of tets and vertices, and whichever way corners turn."""
    bodies = overlapping(rng)[:2]
    expected = rows_of(SpatialHash(bodies).query())
    vertex_order, tet_order = rng.permutation(len(bodies[0].vertices)), rng.permutation(len(bodies[0].tets))
    new_vertex = np.argsort(vertex_order)
    tets = rng.permuted(new_vertex[bodies[0].tets[tet_order]], axis=1)
    shuffled = TetMesh(bodies[0].vertices[vertex_order], tets)
    result = SpatialHash([shuffled, bodies[1]]).query()
    rows = rows_of(result)
    mine, theirs = rows[:, 0] == 0, rows[:, 2] == 0
    rows[mine, 1], rows[theirs, 3] = vertex_order[rows[mine, 1]], tet_order[rows[theirs, 3]]

    np.testing.assert_array_equal(rows[np.lexsort(rows.T[::-1])], expected)
    assert result.stats["inverted_tets"] > 100


@small
def test_serial_and_parallel_launches(rng):
    """Give the same bits from serial kernels and from kernels on threads."""
    bodies = [soup(rng, 1500, size=0.07), soup(rng, 1500, size=0.07)]
    answers = []
    for launch in ("serial", "parallel"):
        with launch_always(launch):
            answers.append(SpatialHash(bodies).query(edges=True))
    for name in ("body", "vertex", "in_body", "tet", "barycentric", "is_self"):
        np.testing.assert_array_equal(*(getattr(answer, name) for answer in answers))
    for name in ("body", "edge", "in_body", "face", "kind", "sign", "parameter", "weights"):
        np.testing.assert_array_equal(*(getattr(answer.edges, name) for answer in answers))
    assert len(answers[0]) > 1000


def test_same_bits_for_any_thread_count():
    """Give the same contacts, weights and edges with 1, 2 and 4 threads."""
    code = """
import hashlib, impinge
from impinge.detect.spatial_hash.detector import SpatialHash
scene = impinge.scenes.get("hashing_setup_d")
arrays = []
for t in (0.0, 0.7):
    scene.move(t)
    r = SpatialHash(list(scene.bodies)).query(edges=True)
    arrays += [r.body, r.vertex, r.in_body, r.tet, r.barycentric, r.edges.edge, r.edges.face, r.edges.weights]
surfaces = impinge.scenes.get("bumpy_spheres_20k").surfaces
for bodies in (surfaces, surfaces[:1], [impinge.shapes.torus_knot(2, 3, 120, 20, tube_radius=0.41)]):
    r = SpatialHash(list(bodies)).query()
    arrays += [r.pairs, r.kind]
assert sum(map(len, arrays)) > 4000
print(hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest())
"""
    digests = set()
    for count in ("1", "2", "4"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": count}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout.strip())

    assert len(digests) == 1


# places and scales ------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("offset", [-3.0, 1e6, -1e6, 1e12, 1e15, -1e15])
def test_any_place(rng, offset):
    """Be exact far away from the origin, on both sides of it; vertices in eighths, none of which is rounded."""
    bodies = overlapping(rng)
    for body in bodies:
        body.update(np.round(8.0 * np.array(body.vertices)) / 8.0)
    at_home = rows_of(SpatialHash(bodies).query())
    for body in bodies:
        body.update(np.array(body.vertices) + offset * np.array([1.0, -0.5, 0.25]))

    assert assert_equals_brute_force(bodies) > 100
    if abs(offset) < 1e15:  # beyond, a quarter of it is a multiple of an eighth, but sums are not
        np.testing.assert_array_equal(rows_of(SpatialHash(bodies).query()), at_home)


@small
@pytest.mark.parametrize(
    "scale", [1e-320, 1e-300, 1e-150, 1e-8, 1e-4, 1e4, 1e8, 1e150, 1e290, 1e300, 5e306], ids="{:g}".format
)
def test_any_scale(rng, scale):
    """Be exact at scales from the smallest numbers to the largest."""
    bodies = overlapping(rng)[:2]
    for body in bodies:
        body.update(scale * np.array(body.vertices))

    assert assert_equals_brute_force(bodies) > 100


@small
def test_scales_of_powers_of_two_change_nothing(rng):
    """Do the same work and give the same bits at every power of two, of bodies anywhere around the origin."""
    bodies = overlapping(rng)
    rest = [np.array(body.vertices) for body in bodies]
    answers = []
    for power in (-400, -30, 0, 1, 30, 400):
        for body, x in zip(bodies, rest):
            body.update(np.ldexp(x, power))
        answers.append(SpatialHash(bodies).query())

    for answer in answers:
        np.testing.assert_array_equal(rows_of(answer), rows_of(answers[0]))
        np.testing.assert_array_equal(answer.barycentric, answers[0].barycentric)
        assert answer.stats["candidates"] == answers[0].stats["candidates"]


@small
def test_largest_numbers(rng):
    """Answer for tets that span the whole range of doubles, whose edges are longer than any double."""
    largest = np.finfo(np.float64).max
    tet = [[0, 1, 2, 3]]
    whole = TetMesh(largest * np.array([[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]), tet)
    half = TetMesh(largest * np.array([[-0.5, -0.5, -0.5], [0.2, -0.9, -0.9], [1, 1, 1], [0.9, 1, 1]]), tet)

    result = SpatialHash([whole, half]).query()
    np.testing.assert_array_equal(rows_of(result), by_oracle([whole, half]))
    assert len(result) == 2
    assert_weights(result)


# mixtures of sizes --------------------------------------------------------------------------------------------


@small
def test_one_huge_tet_among_small_ones(rng):
    """Take a tet a million times larger than thousands of others, at the price of a look at every vertex."""
    fine = shapes.tet_box(8, 8, 8)
    huge = TetMesh(1e6 * np.array([[-1, -1, -1], [3, -1, -1], [-1, 3, -1], [-1, -1, 3.0]]), [[0, 1, 2, 3]])
    bodies = [fine, huge, soup(rng, 30, size=1.0)]
    result = SpatialHash(bodies).query()
    vertex_count = sum(len(body.vertices) for body in bodies)

    assert assert_equals_brute_force(bodies) >= 729 + 120
    assert result.stats["candidates"] <= len(result) + 50
    assert result.stats["levels"] <= 3
    assert result.stats["cells"] <= result.stats["levels"] * vertex_count


@small
def test_huge_tet_within_a_body_of_small_ones(rng):
    """Keep clusters apart by size: a huge tet of a body does not spoil the small ones that it is connected to."""
    fine = shapes.tet_box(8, 8, 8)
    x = np.concatenate([fine.vertices, 1e9 * np.eye(3)])
    body = TetMesh(x, np.concatenate([fine.tets[:1000], [[0, 729, 730, 731]], fine.tets[1000:]]))
    bodies = [body, crumpled(rng, 4, 0.2)]
    result = SpatialHash(bodies).query()

    assert assert_equals_brute_force(bodies) > 100
    assert result.stats["levels"] <= 4
    assert result.stats["candidates"] <= 2 * len(result) + 100


@small
@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("count", [(1, 12), (12, 1)])
def test_fine_body_in_a_coarse_one(rng, ratio, count):
    """Search a fine body within one cell of a coarse one on cells of its own: nothing is compared with everything."""
    coarse = shapes.tet_box(count[0], 2, 2, size=ratio)
    fine = shapes.tet_box(count[1], 8, 8, size=1.0, center=(0.21 * ratio, 0.01 * ratio, 0.1 * ratio))
    fine.update(np.array(fine.vertices) + 0.02 * rng.standard_normal(fine.vertices.shape))
    bodies = [coarse, fine]
    result = SpatialHash(bodies).query()

    assert assert_equals_brute_force(bodies) >= len(fine.vertices)
    assert result.stats["levels"] >= 2
    assert result.stats["candidates"] <= 2 * len(result) + 100


@small
def test_soups_of_all_sizes(rng):
    """Mix tets over nine powers of ten in one body."""
    size = 10.0 ** rng.uniform(-6, 3, (300, 1, 1))
    corners = size * rng.standard_normal((300, 4, 3)) + rng.standard_normal((300, 1, 3))
    body = TetMesh(corners.reshape(-1, 3), np.arange(1200).reshape(-1, 4))
    result = SpatialHash([body]).query()

    assert assert_equals_brute_force([body]) > 10_000
    assert result.stats["levels"] > 5


@small
@pytest.mark.parametrize("where", ["a vertex without a tet", "a body far away", "a tet far away", "a dead tet"])
def test_one_thing_far_away_does_not_spoil_the_rest(where):
    """Compare nobody with everybody because of one thing that is far away, as placeholders at 1e30 are."""
    a, b = shapes.tet_box(6, 6, 6), shapes.tet_box(6, 6, 6, center=(3.3, 0.2, 0.1))
    far = 1e30 * np.array([[1, 0, 0], [1.1, 0, 0], [1, 0.1, 0], [1, 0, 0.1]])
    bodies = [a, b]
    if where == "a vertex without a tet":
        bodies = [TetMesh(np.concatenate([a.vertices, far[:1]]), a.tets), b]
    elif where == "a body far away":
        bodies = [a, b, TetMesh(far, [[0, 1, 2, 3]])]
    else:
        last = len(a.vertices) + np.arange(4)
        bodies = [TetMesh(np.concatenate([a.vertices, far]), np.concatenate([a.tets, [last]])), b]
        if where == "a dead tet":
            bodies[0].remove_tets([len(a.tets)])
    result = SpatialHash(bodies).query()

    assert assert_equals_brute_force(bodies) == len(SpatialHash([a, b]).query()) > 100
    assert result.stats["candidates"] < 10 * len(result)


# flat and inverted tets, own vertices ---------------------------------------------------------------------------


@small
def test_flat_tets_contain_nothing():
    """Skip and count flat tets; their vertices still can be in others, and tets flat by one ulp still contain."""
    whole = TetMesh([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]], [[0, 1, 2, 3]])
    flat = TetMesh([[0.1, 0.1, 1], [2, 0.1, 1], [0.1, 2, 1], [0.9, 0.8, 1], [9, 9, 9]], [[0, 1, 2, 3], [0, 1, 2, 2]])
    poke = TetMesh([[0.5, 0.5, 1], [90, 9, 9], [9, 90, 9], [9, 9, 90]], [[0, 1, 2, 3]])
    result = SpatialHash([whole, flat, poke]).query()

    assert rows_of(result).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 2, 0, 0], [1, 3, 0, 0], [2, 0, 0, 0]]
    assert (result.stats["flat_tets"], result.stats["inverted_tets"]) == (2, 0)
    x = np.array(flat.vertices)
    x[3, 2] = np.nextafter(1.0, 2.0)
    flat.update(x)
    result = SpatialHash([whole, flat, poke]).query()
    assert [2, 0, 1, 0] in rows_of(result).tolist()
    assert result.stats["flat_tets"] == 1


@small
def test_inverted_tets_contain_as_others_do():
    """Find the same contacts and weights, corner by corner, in inverted tets, and count them."""
    a, b = shapes.tet_box(3, 3, 3), shapes.tet_box(3, 3, 3, center=(1.3, 0.2, 0.1))
    turned = TetMesh(b.vertices, b.tets[:, [0, 2, 1, 3]])
    plain, mixed = SpatialHash([a, b]).query(), SpatialHash([a, turned]).query()

    np.testing.assert_array_equal(rows_of(plain), rows_of(mixed))
    in_turned = mixed.in_body == 1
    np.testing.assert_allclose(mixed.barycentric[in_turned][:, [0, 2, 1, 3]], plain.barycentric[in_turned], atol=1e-15)
    assert (plain.stats["inverted_tets"], mixed.stats["inverted_tets"]) == (0, len(b))
    assert in_turned.sum() > 10


@small
def test_own_vertices_are_excluded_by_index():
    """Leave out a tet's own corners, and count other vertices at the very same place."""
    x = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, -2]]
    apart = TetMesh(x, [[0, 1, 2, 3], [4, 5, 6, 7]])
    joined = TetMesh(x, [[0, 1, 2, 3], [0, 5, 6, 7]])

    rows = rows_of(SpatialHash([apart]).query()).tolist()
    assert rows == [[0, 0, 0, 1], [0, 1, 0, 1], [0, 2, 0, 1], [0, 4, 0, 0]]
    rows = rows_of(SpatialHash([joined]).query()).tolist()
    assert rows == [[0, 1, 0, 1], [0, 2, 0, 1]]


@small
def test_duplicated_vertices_are_vertices(rng):
    """Find each of several vertices at one place, and a body that is given twice in itself."""
    a = shapes.tet_box(2, 2, 2)
    unmerged = TetMesh(a.vertices[a.tets].reshape(-1, 3), np.arange(4 * len(a)).reshape(-1, 4))

    assert assert_equals_brute_force([unmerged]) > 500
    assert assert_equals_brute_force([a, a]) == 2 * 4 * len(a)
    assert len(SpatialHash([a]).query()) == 0


@small
def test_unused_vertices_take_no_part(rng):
    """Leave out vertices that no live tet has."""
    a = shapes.tet_box(2, 2, 2)
    b = TetMesh([[0.1, 0.2, 0.3], [9, 0, 0], [9, 1, 0], [9, 0, 1], [10, 1, 1]], [[1, 2, 3, 4]])

    assert len(SpatialHash([a, b]).query()) == 0


# edits, options ---------------------------------------------------------------------------------------------------


@small
def test_removed_tets_and_compact(rng):
    """Follow removals and renumbering, query after query, with one detector."""
    bodies = overlapping(rng, 0.4)
    detector = SpatialHash(bodies)
    counts = []
    for step in range(6):
        for body in bodies:
            live = np.flatnonzero(body.alive)
            body.remove_tets(rng.choice(live, len(live) // 4, replace=False))
        if step in (2, 4):
            bodies[step % 3].compact()
        expected, flat, inverted = brute_force(bodies)
        result = detector.query()
        np.testing.assert_array_equal(rows_of(result), expected)
        assert (result.stats["flat_tets"], result.stats["inverted_tets"]) == (flat, inverted)
        counts.append(len(result))
    for body in bodies:
        body.remove_tets(np.flatnonzero(body.alive))

    assert len(detector.query()) == 0
    assert counts[0] > 2 * counts[-1] > 20


@small
def test_active_tets(rng):
    """Answer for the active tets and their vertices, by ids or mask, and for all again afterwards."""
    bodies = overlapping(rng, 0.3)
    detector = SpatialHash(bodies)
    everything = rows_of(detector.query())
    some = rng.choice(len(bodies[0].tets), 100, replace=False)
    mask = rng.random(len(bodies[2].tets)) < 0.5
    bodies[2].remove_tets([1, 2, 3])
    expected, _, _ = brute_force(bodies, [some, None, np.flatnonzero(mask)])
    result = detector.query(active=[some, None, mask])

    np.testing.assert_array_equal(rows_of(result), expected)
    assert 50 < len(expected) < len(everything)
    np.testing.assert_array_equal(rows_of(detector.query()), brute_force(bodies)[0])
    assert len(detector.query(active=[[], [], []])) == 0


@small
def test_transforms_give_the_bits_of_transformed_vertices(rng):
    """Answer for exactly the positions that transform_points computes, weights included."""
    bodies = overlapping(rng, 0.2)
    detector = SpatialHash(bodies)
    for _ in range(3):
        matrices = [np.eye(4), np.eye(4), None]
        for matrix in matrices[:2]:
            matrix[:3] += 0.2 * rng.standard_normal((3, 4))
        result = detector.query(transforms=matrices)
        moved = [
            clone(body, body.vertices if m is None else impinge.transform_points(m, body.vertices))
            for body, m in zip(bodies, matrices)
        ]
        expected = SpatialHash(moved).query()

        np.testing.assert_array_equal(rows_of(result), rows_of(expected))
        np.testing.assert_array_equal(result.barycentric, expected.barycentric)
        assert len(result) > 50
    one = SpatialHash(bodies[:1]).query(transforms=[matrices[0]])
    np.testing.assert_array_equal(rows_of(one), rows_of(SpatialHash(moved[:1]).query()))


@small
def test_ignored_pairs_of_bodies(rng):
    """Leave out the contacts of ignored pairs, in either order; a body twice is itself."""
    bodies = overlapping(rng, 0.5)
    detector = SpatialHash(bodies)
    everything = rows_of(detector.query())
    for ignore in ([(0, 1)], [(1, 0)], [(2, 2)], [(0, 2), (1, 1)], []):
        pairs = {tuple(sorted(pair)) for pair in ignore}
        kept = [tuple(sorted((b, c))) not in pairs for b, c in everything[:, [0, 2]].tolist()]
        np.testing.assert_array_equal(rows_of(detector.query(ignore=ignore)), everything[kept])
        assert not ignore or 0 < sum(kept) < len(everything)


@small
def test_ignored_pairs_of_bodies_have_no_edge_contacts(rng):
    """Leave out edges too, where the contacts of two bodies are ignored."""
    bodies = overlapping(rng, 0.1)
    detector = SpatialHash(bodies)
    all_edges = detector.query(edges=True).edges
    edges = detector.query(edges=True, ignore=[(1, 0)]).edges
    kept = ~np.isin(10 * all_edges.body + all_edges.in_body, [1, 10])

    np.testing.assert_array_equal(edges.edge, all_edges.edge[kept])
    np.testing.assert_array_equal(edges.face, all_edges.face[kept])
    assert 0 < kept.sum() < len(kept)


@small
def test_max_pairs_is_no_silent_cap(rng):
    """Return the first contacts in order, and say that more were left out; say nothing where none were."""
    detector = SpatialHash(overlapping(rng))
    everything = detector.query()
    cut, enough = detector.query(max_pairs=10), detector.query(max_pairs=len(everything))

    np.testing.assert_array_equal(rows_of(cut), rows_of(everything)[:10])
    np.testing.assert_array_equal(cut.barycentric, everything.barycentric[:10])
    assert (cut.complete, cut.reason) == (False, "limit")
    assert (enough.complete, enough.reason) == (True, None)


@small
def test_cancel(rng):
    """Stop when cancelled and say that the answer is not complete."""
    detector = SpatialHash(overlapping(rng))
    cancel = threading.Event()
    assert detector.query(cancel=cancel).complete
    cancel.set()
    result = detector.query(cancel=cancel)

    assert (result.complete, result.reason, len(result)) == (False, "cancelled", 0)


@small
def test_cancelled_edges(rng):
    """Look for no edges either when cancelled, or say at least that they are not complete."""
    cancel = threading.Event()
    cancel.set()
    edges = SpatialHash(overlapping(rng)).query(cancel=cancel, edges=True).edges

    assert edges is None or (edges.complete, edges.reason) == (False, "cancelled")


@small
def test_updates_are_seen(rng):
    """Answer for the positions of the moment, frame after frame, with a detector that is kept."""
    bodies = overlapping(rng, 0.1)
    detector = SpatialHash(bodies)
    counts = set()
    for frame in range(5):
        for k, body in enumerate(bodies):
            body.update(
                np.array(body.vertices) + 0.2 * rng.standard_normal(body.vertices.shape) + 3.0 * (k == frame % 3)
            )
        result = detector.query()
        np.testing.assert_array_equal(rows_of(result), brute_force(bodies)[0])
        counts.add(len(result))

    assert len(counts) > 3


@small
def test_results_are_not_changed_by_later_queries(rng):
    """Keep a result as it is while the detector uses its memory again."""
    bodies = overlapping(rng)
    detector = SpatialHash(bodies)
    first = detector.query()
    kept = [np.array(column) for column in (first.body, first.vertex, first.in_body, first.tet, first.barycentric)]
    for body in bodies:
        body.update(0.5 * np.array(body.vertices))
    detector.query()

    for column, before in zip((first.body, first.vertex, first.in_body, first.tet, first.barycentric), kept):
        np.testing.assert_array_equal(column, before)


@small
def test_room_grows_with_the_contacts(rng):
    """Find every contact although the first query has room for far fewer."""
    body = soup(rng, 150, size=2.0)
    assert assert_equals_brute_force([body]) > 1500


@small
def test_contacts_that_enter_persist_and_leave(rng):
    """Tell which contacts entered, persist and left between two frames."""
    bodies = overlapping(rng, 0.1)
    detector = SpatialHash(bodies)
    before = detector.query()
    bodies[0].update(np.array(bodies[0].vertices) + 0.3)
    now = detector.query()
    changes = now.changes(before)
    old, new = (set(map(tuple, rows_of(r).tolist())) for r in (before, now))

    assert set(map(tuple, changes.entered.tolist())) == new - old
    assert set(map(tuple, changes.persisting.tolist())) == new & old
    assert set(map(tuple, changes.left.tolist())) == old - new
    assert min(map(len, changes)) > 3


@small
def test_empty_bodies(rng):
    """Take bodies without tets, among others and alone, and number the others as they were given."""
    a, b = overlapping(rng)[:2]
    none = TetMesh(rng.random((5, 3)), np.zeros((0, 4), dtype=int))
    rows = rows_of(SpatialHash([a, b]).query())
    rows[:, [0, 2]] = np.array([1, 4])[rows[:, [0, 2]]]
    bodies = [empty(), a, none, empty(), b, none]

    np.testing.assert_array_equal(rows_of(SpatialHash(bodies).query()), rows)
    assert len(SpatialHash([empty()]).query()) == 0
    assert len(SpatialHash([none, empty()]).query(edges=True).edges) == 0


@small
def test_bodies_of_other_sorts(tmp_path):
    """Take tuples of vertices and tets, and files, where a body is expected."""
    a, b = shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2, center=(0.3, 0.21, 0.13))
    impinge.save(b, tmp_path / "b.vtk")
    expected = rows_of(SpatialHash([a, b]).query())

    np.testing.assert_array_equal(rows_of(SpatialHash([(a.vertices, a.tets), tmp_path / "b.vtk"]).query()), expected)
    assert len(expected) == 16


# threads of the caller ----------------------------------------------------------------------------------------


def test_python_threads_ask_at_once(rng):
    """Let Python threads query detectors of their own, and one that they share, on the same bodies at once."""
    bodies = overlapping(rng)
    expected = rows_of(SpatialHash(bodies).query()).tobytes()
    shared = SpatialHash(bodies)
    wrong: list[int] = []

    def work(k):
        for _ in range(4):
            own = SpatialHash(bodies)
            answers = own.query(), shared.query(), shared.query(edges=True)
            wrong.extend(k for answer in answers if rows_of(answer).tobytes() != expected)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


def test_queries_while_bodies_move_and_lose_tets(rng):
    """Answer for one of the states that a body had, never for a mixture, while others move it and cut it."""
    a, b = shapes.tet_box(5, 5, 5), shapes.tet_box(5, 5, 5, center=(0.3, 0.2, 0.1))
    rest = np.array(a.vertices)
    frames = [rest, rest + 0.4]
    answers = set()
    for x in frames:
        a.update(x)
        answers.add(rows_of(SpatialHash([a, b]).query()).tobytes())
    found: set[bytes] = set()
    errors: list[BaseException] = []

    def ask():
        try:
            detector = SpatialHash([a, b])
            for _ in range(60):
                found.add(rows_of(detector.query()).tobytes())
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(200):
        a.update(frames[step % 2])
    for thread in threads:
        thread.join()
    assert not errors
    assert found <= answers

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for tet in range(0, 600, 10):
        a.remove_tets([tet])
    for thread in threads:
        thread.join()
    assert not errors
    np.testing.assert_array_equal(rows_of(SpatialHash([a, b]).query()), brute_force([a, b])[0])


# peers --------------------------------------------------------------------------------------------------------


def test_agreement_with_libigl(rng):
    """Find the tets that libigl's tree finds, on generic positions."""
    igl = pytest.importorskip("igl", reason="libigl is not installed")
    a, b = crumpled(rng, 5, 0.1), crumpled(rng, 5, 0.1, (1.3, 0.4, 0.2))
    result = SpatialHash([a, b]).query()
    rows = rows_of(result)
    for body, other, c in ((a, b, 1), (b, a, 0)):
        x, tets = np.array(other.vertices), other.tets.astype(np.int64)
        tree = igl.AABB()
        tree.init(x, tets)
        expected = [[1 - c, v, c, t] for v, p in enumerate(body.vertices) for t in sorted(tree.find(x, tets, p))]
        np.testing.assert_array_equal(rows[(rows[:, 0] == 1 - c) & (rows[:, 2] == c)], expected)
        assert len(expected) > 40


# errors -------------------------------------------------------------------------------------------------------


def two():
    return [shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1)]


def sphere():
    return shapes.icosphere(0)


@small
@pytest.mark.parametrize(
    ("bodies", "error", "message"),
    [
        (list, MeshError, "bodies is empty, expected at least one body"),
        (lambda: two()[0], MeshError, r"bodies is a TetMesh, expected a list of bodies, like \[t1, t2\]"),
        (sphere, MeshError, "bodies is a TriMesh, expected a list of bodies"),
        (lambda: "bunny.msh", MeshError, "bodies is a str, expected a list of bodies"),
        (lambda: 7, MeshError, "bodies is a int, expected a list of bodies"),
        (lambda: iter(two()), MeshError, "bodies is a list_iterator, expected a list of bodies"),
        (lambda: [two()[0], 7], MeshError, r"bodies\[1\] is a builtins\.int; expected a TriMesh or TetMesh"),
        (
            lambda: [*two(), sphere()], MeshError,
            r"bodies\[2\] is a triangle mesh among tet meshes, expected bodies of one kind: pass the surface",
        ),
        (lambda: [sphere()] * 3, MeshError, "bodies has 3 triangle meshes, expected one or two; query each pair"),
    ],
)  # fmt: skip
def test_bad_bodies(bodies, error, message):
    """Refuse what are no bodies: found, expected, remedy."""
    with pytest.raises(error, match=message):
        SpatialHash(bodies())


@small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell_size": 0.0}, "cell_size is 0.0, expected a positive number, or None to follow the edges"),
        ({"cell_size": -1}, "cell_size is -1, expected a positive number"),
        ({"cell_size": np.nan}, "cell_size is nan, expected a positive number"),
        ({"cell_size": np.inf}, "cell_size is inf, expected a positive number"),
        ({"cell_size": True}, "cell_size is True, expected a positive number"),
        ({"cell_size": "1"}, "cell_size is '1', expected a positive number"),
        (
            {"neighbours": "skip"},
            "neighbours is for triangle meshes; a vertex is never tested against its own tets",
        ),
    ],
)
def test_bad_constructor_options(options, message):
    """Refuse options out of range: found, expected, remedy."""
    with pytest.raises(OptionError, match=message):
        SpatialHash(two(), **options)


@small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pairs": 0}, "max_pairs is 0, expected a whole number from 1, or None"),
        ({"cancel": 7}, "cancel is 7, expected an object with is_set"),
        ({"depth": "deep"}, "depth is 'deep', expected one of False, True, 'local'"),
        ({"transforms": [None]}, "transforms has 1 entries, expected one for each of the 2 bodies"),
        ({"transforms": np.eye(4)}, "transforms has 4 entries, expected one for each of the 2 bodies"),
        ({"transforms": 7}, "transforms is .*7.*, expected"),
        ({"transforms": [None, np.eye(3)]}, r"transforms\[1\] has shape \(3, 3\), expected \(4, 4\)"),
        ({"active": [[0], [0], [0]]}, "active has 3 entries, expected one for each of the 2 bodies"),
        ({"active": 3}, "active is .*3.*, expected"),
        ({"active": [None, [99]]}, r"active\[1\] contains id 99, but ids go from 0 to 4"),
        ({"active": [[True], None]}, r"active\[0\] is a mask of shape \(1,\), expected \(5,\)"),
        ({"edges": True, "active": [[0], None]}, "edges is about the whole surface of a body"),
        ({"ignore": [(0, 2)]}, "ignore names body 2, expected pairs of numbers from 0 to 1"),
        ({"ignore": [(-1, 0)]}, "ignore names body -1, expected pairs of numbers from 0 to 1"),
        ({"ignore": [(0, 1, 2)]}, r"ignore have shape \(1, 3\), expected \(m, 2\)"),
    ],
)
def test_bad_query_options(options, message):
    """Refuse options out of range: found, expected, remedy."""
    detector = SpatialHash(two())
    with pytest.raises(ImpingeError, match=message):
        detector.query(**options)
    assert len(detector.query()) > 0


@small
@pytest.mark.parametrize("option", ["colour", "cell_size"])
def test_unknown_options_are_type_errors(option):
    """Refuse unknown options of a query by Python itself."""
    with pytest.raises(TypeError, match=option):
        SpatialHash(two()).query(**{option: None})


@small
def test_detector_is_pickled_and_copied_without_buffers(rng):
    """Copy bodies and options by pickle and ``copy``, not the buffers; count bodies and elements in ``repr``."""
    bodies = overlapping(rng)
    detector = SpatialHash(bodies, cell_size=0.5)
    expected = detector.query(depth=True)
    for twin in (pickle.loads(pickle.dumps(detector)), copy.copy(detector), copy.deepcopy(detector)):
        assert twin.cell_size == 0.5
        assert twin._cached is None
        result = twin.query(depth=True)
        np.testing.assert_array_equal(rows_of(result), rows_of(expected))
        np.testing.assert_array_equal(result.depth, expected.depth)
    assert repr(detector) == f"<SpatialHash: 3 tet meshes, {sum(map(len, bodies)):,} tets>"

    pair = SpatialHash([sphere()], neighbours="skip")
    assert pickle.loads(pickle.dumps(pair)).neighbours == "skip"
    assert repr(pair) == f"<SpatialHash: 1 triangle mesh, {len(sphere()):,} triangles>"


@small
def test_results_are_pickled_without_bodies(rng):
    """Pickle contacts, depths and edges, and not the bodies."""
    result = SpatialHash(overlapping(rng)).query(depth=True, edges=True)
    twin = pickle.loads(pickle.dumps(result))

    np.testing.assert_array_equal(rows_of(twin), rows_of(result))
    np.testing.assert_array_equal(twin.depth, result.depth)
    np.testing.assert_array_equal(twin.edges.parameter, result.edges.parameter)
    assert (len(result.bodies), twin.bodies) == (3, ())


@small
def test_transform_beyond_the_range_of_doubles():
    """Refuse a transform that moves a vertex beyond all doubles."""
    matrix = np.eye(4)
    matrix[0] = (1e308, 1e308, 1e308, 1e308)
    with pytest.raises(OptionError, match=r"transforms\[1\] moves a vertex beyond the range of doubles; use smaller"):
        SpatialHash(two()).query(transforms=[None, matrix])


@small
@pytest.mark.parametrize(
    ("make", "ask", "message"),
    [
        ({"neighbours": "maybe"}, {}, "neighbours is 'maybe', expected one of 'exact', 'skip'"),
        ({}, {"edges": True}, "depth and edges are for tet meshes"),
        ({}, {"depth": True}, "depth and edges are for tet meshes"),
        ({}, {"transforms": []}, "transforms has 0 entries, expected one for each of the 1 bodies"),
    ],
)
def test_bad_options_of_surfaces(make, ask, message):
    """Refuse what is for tets only, and what is for two bodies only."""
    with pytest.raises(OptionError, match=message):
        SpatialHash([sphere()], **make).query(**ask)


@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
def test_numbers_that_nobody_checked_are_refused(strange):
    """Refuse infinity and NaN in a sentence, even where a caller forbade to check them."""
    body = shapes.tet_box(2, 2, 2)
    x = np.array(body.vertices)
    x[3, 1] = strange
    body.update(x, check=False)

    with pytest.raises(impinge.MeshError, match=r"infinite or undefined.*update\(check=True\) names the vertex"):
        SpatialHash([body, shapes.tet_box(2, 2, 2, center=(0.3, 0.2, 0.1))]).query()


@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
def test_triangles_that_nobody_checked_are_refused(strange):
    """Refuse the same of triangle meshes."""
    body = shapes.icosphere(1)
    x = np.array(body.vertices)
    x[3, 1] = strange
    body.update(x, check=False)

    with pytest.raises(impinge.MeshError, match="all coordinates must be finite"):
        SpatialHash([body, shapes.icosphere(1)]).query()


def test_options_by_letter():
    """Take transforms and active elements of one or two bodies by letter; refuse letters of absent bodies."""
    a, b = shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2)
    matrix = np.eye(4)
    matrix[:3, 3] = 0.3
    detector = impinge.SpatialHash([a, b])
    by_letter = detector.query(transform_b=matrix, active_a=[0, 1, 2])
    by_list = detector.query(transforms=[None, matrix], active=[[0, 1, 2], None])

    assert len(by_letter) > 0
    np.testing.assert_array_equal(by_letter.vertex, by_list.vertex)
    np.testing.assert_array_equal(by_letter.tet, by_list.tet)
    for wrong in ({"transform_b": matrix}, {"active_b": [0]}):
        with pytest.raises(OptionError, match="for the first of one or two bodies"):
            impinge.SpatialHash([a]).query(**wrong)
    with pytest.raises(OptionError, match="give one list for 2"):
        detector.query(transforms=[None, matrix], transform_a=matrix)
