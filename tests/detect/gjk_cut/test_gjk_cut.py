"""GJK with cut: the exact pairs for any leaf size, triangle order, pool and number of threads."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impinge
import stress
from impinge import scenes, shapes
from impinge.backend import jit
from impinge.detect.common.pair_query import query_body
from impinge.detect.gjk_cut import detector as gjk_cut
from impinge.detect.gjk_cut import scratch
from impinge.detect.gjk_cut.detector import GjkCut, cut_along_direction
from impinge.errors import OptionError
from impinge.scenes.refinement import RefinementScene, refined_sphere

KIND_NAMES = {kind.value: kind.name.lower() for kind in impinge.Kind}
LEAVES = (1, 64, gjk_cut.LEAF_PAIRS)
"""Pairs of a leaf: with the default, small scenes are single leaves; with 1, the recursion ends at single triangles."""


@contextmanager
def leaves_of(leaf_pairs):
    """Set the number of pairs of a leaf."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gjk_cut, "LEAF_PAIRS", leaf_pairs)
        yield


def soup(rng, count, size=0.3):
    corners = rng.random((count, 1, 3)) + size * rng.standard_normal((count, 3, 3))
    return impinge.TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def assert_equal(actual, expected):
    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    np.testing.assert_array_equal(actual.kind, expected.kind)
    return len(actual)


def assert_equals_brute_force(a, b=None, *, query=(), leaf_pairs=gjk_cut.LEAF_PAIRS):
    options = dict(query)
    with leaves_of(leaf_pairs):
        found = GjkCut(a, b).query(**options)
    return assert_equal(found, impinge.BruteForce(a, b).query(**options))


# equal to the judge ----------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("leaf_pairs", LEAVES)
@pytest.mark.parametrize("name", scenes.SMALL)
def test_small_scenes(name, leaf_pairs):
    """Equal brute force and the box tree on every small scene, between bodies and within each."""
    a, b = scenes.get(name).surfaces
    assert_equals_brute_force(a, b, leaf_pairs=leaf_pairs)
    assert_equal(GjkCut(a, b).query(), impinge.BoxTree(a, b).query())
    for body in (a, b):
        assert_equals_brute_force(body, leaf_pairs=leaf_pairs)


@pytest.mark.tiny
@pytest.mark.small
@pytest.mark.parametrize("leaf_pairs", [1, 4, gjk_cut.LEAF_PAIRS])
def test_stress(leaf_pairs):
    """Agree with the rational oracle on a scene of every adversarial generator."""

    def detector(vertices_a, faces_a, vertices_b, faces_b):
        result = GjkCut((vertices_a, faces_a), (vertices_b, faces_b)).query()
        return result.pairs, result.kind

    def alone(vertices, faces):
        result = GjkCut((vertices, faces)).query()
        return result.pairs, result.kind

    with leaves_of(leaf_pairs):
        counts = stress.run(detector, 1, seed=8, kind_names=KIND_NAMES, size=4)
        stress.run_self(alone, 1, seed=8, kind_names=KIND_NAMES, size=4)

    assert counts["pairs"] > 100


@pytest.mark.small
@pytest.mark.parametrize("leaf_pairs", [1, 100, gjk_cut.LEAF_PAIRS])
def test_bodies_that_move(leaf_pairs):
    """Equal the box tree frame after frame, for two bodies and for one."""
    scene = scenes.get("bumpy_spheres_1k")
    a, b = scene.surfaces
    knot = shapes.torus_knot(2, 3, 30, 8, tube_radius=0.41)
    detector, alone = GjkCut(a, b), GjkCut(knot)
    hits = 0
    with leaves_of(leaf_pairs):
        for frame in range(3):
            scene.move(0.3 * frame)
            hits += assert_equal(detector.query(), impinge.BoxTree(a, b).query())
            hits += assert_equal(alone.query(), impinge.BoxTree(knot).query())

    assert hits > 300


@pytest.mark.small
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 129, 200])
def test_any_size(rng, count):
    """Take bodies of any number of triangles, none and one among them."""
    a, b = soup(rng, count), soup(rng, 40)
    for leaf_pairs in (1, 50, gjk_cut.LEAF_PAIRS):
        assert_equals_brute_force(a, b, leaf_pairs=leaf_pairs)
        assert_equals_brute_force(b, a, leaf_pairs=leaf_pairs)
        assert_equals_brute_force(a, leaf_pairs=leaf_pairs)


@pytest.mark.small
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e12])
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-8, 1.0, 1e8, 1e150, 1e290])
def test_any_scale_and_place(rng, scale, offset):
    """Be exact at every scale and far away from the origin."""
    a, b = soup(rng, 60), soup(rng, 60)
    for body in (a, b):
        body.update(scale * (np.array(body.vertices) + offset))

    assert_equals_brute_force(a, b, leaf_pairs=16)
    assert_equals_brute_force(a, leaf_pairs=16)


@pytest.mark.small
def test_touching_boxes_needles_duplicates_and_flat_triangles(rng):
    """Lose no touching pair: grids of boxes face to face, needles, duplicated and zero-area triangles."""
    hits = 0
    for shift in ((1, 0, 0), (1, 1, 0), (1, 1, 1), (0, 0, 0), (0.5, 0, 0)):
        for size in (1.0, 1.0 / 3.0, 0.1):
            a, b = shapes.box(size), shapes.box(size, center=size * np.array(shift))
            hits += assert_equals_brute_force(a, b, leaf_pairs=1)
    needles = rng.random((60, 3, 3)) * (1.0, 1.0, 1e-9) + rng.integers(0, 2, (60, 3, 3)) * (1e3, 0.0, 0.0)
    flat = np.repeat(rng.integers(0, 4, (40, 1, 3)), 3, axis=1) + rng.integers(0, 2, (40, 3, 1)) * (1.0, 1.0, 0.0)
    doubled = np.concatenate([needles[:20], needles[:20], flat, flat])
    for corners in (needles, flat, doubled):
        body = impinge.TriMesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))
        hits += assert_equals_brute_force(body, soup(rng, 40), leaf_pairs=1)
        hits += assert_equals_brute_force(body, body, leaf_pairs=1)
        hits += assert_equals_brute_force(body, leaf_pairs=1)

    assert hits > 1000


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_integer_triangles(data):
    """Be exact on small integer coordinates, on which everything touches something, for leaves of any size."""
    corner = st.tuples(*[st.integers(0, 3)] * 3)
    bodies = []
    for _ in range(2):
        vertices = data.draw(st.lists(corner, min_size=3, max_size=12))
        index = st.integers(0, len(vertices) - 1)
        faces = data.draw(st.lists(st.tuples(index, index, index), min_size=1, max_size=12))
        bodies.append(impinge.TriMesh(np.array(vertices, dtype=float), np.array(faces), validate="trust"))
    leaf_pairs = data.draw(st.sampled_from((1, 4, 20, gjk_cut.LEAF_PAIRS)))

    assert_equals_brute_force(*bodies, leaf_pairs=leaf_pairs)
    assert_equals_brute_force(bodies[0], leaf_pairs=leaf_pairs)


# invariants ------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("name", scenes.SMALL)
def test_swapping_transposes(name):
    """Find (j, i) for b and a where (i, j) is found for a and b."""
    a, b = scenes.get(name).surfaces
    with leaves_of(64):
        forward, backward = GjkCut(a, b).query(), GjkCut(b, a).query()

    np.testing.assert_array_equal(backward.pairs, np.unique(forward.pairs[:, ::-1], axis=0).reshape(-1, 2))


@pytest.mark.small
def test_order_of_triangles_and_powers_of_two_change_nothing(rng, monkeypatch):
    """Find the same pairs after shuffling triangles and vertices, and after scaling by powers of two."""
    monkeypatch.setattr(gjk_cut, "LEAF_PAIRS", 64)
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    expected = GjkCut(a, b).query().pairs
    order, vertex_order = rng.permutation(len(a.faces)), rng.permutation(len(a.vertices))
    new_id = np.argsort(vertex_order)
    shuffled = impinge.TriMesh(np.array(a.vertices)[vertex_order], new_id[a.faces[order]])
    found = GjkCut(shuffled, b).query().pairs
    found = np.stack([order[found[:, 0]], found[:, 1]], axis=1)
    np.testing.assert_array_equal(np.unique(found, axis=0), expected)

    for power in (-40, -1, 3, 70):
        scaled = [(np.ldexp(body.vertices, power), body.faces) for body in (a, b)]
        result, one = GjkCut(*scaled).query(), GjkCut(a, b).query()
        np.testing.assert_array_equal(result.pairs, expected)
        assert result.stats["cuts"] == one.stats["cuts"]  # even the way is the same
    assert len(expected) > 100


@pytest.mark.small
def test_removal_removes_exactly_its_pairs(rng):
    """Lose exactly the pairs of removed triangles until none is left, and find them again after re-insertion."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    detector = GjkCut(a, b)
    everything = detector.query().pairs
    gone = [rng.permutation(len(body.faces)) for body in (a, b)]
    for share in (0.2, 0.5, 0.8, 1.0):
        for body, order in zip((a, b), gone):
            body.remove_triangles(order[: int(share * len(order))])
        alive = a.alive[everything[:, 0]] & b.alive[everything[:, 1]]
        np.testing.assert_array_equal(detector.query().pairs, everything[alive])
    for body, order in zip((a, b), gone):
        body.add_triangles(np.array(body.faces)[: len(order)])
    np.testing.assert_array_equal(detector.query().pairs, everything + len(a.faces) // 2)


@pytest.mark.small
def test_pool_with_dead_triangles_equals_the_compacted_mesh(rng):
    """Find the same pairs in a pool of mostly dead triangles as in the renumbered mesh of the live ones."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    a.remove_triangles(rng.random(len(a.faces)) < 0.7)
    b.remove_triangles(rng.random(len(b.faces)) < 0.3)
    result = GjkCut(a, b).query()
    live_a, live_b = np.flatnonzero(a.alive), np.flatnonzero(b.alive)
    compact = GjkCut((a.vertices, a.faces[live_a]), (b.vertices, b.faces[live_b])).query()

    np.testing.assert_array_equal(result.pairs, np.stack([live_a[compact.pairs[:, 0]], live_b[compact.pairs[:, 1]]], 1))
    assert result.stats["cuts"] == compact.stats["cuts"]
    assert len(result) > 20


@pytest.mark.small
def test_active_triangles(rng):
    """Find the pairs of active triangles and no others, by ids or mask, with unused vertices far away."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    mask, ids = rng.random(len(a.faces)) < 0.4, np.flatnonzero(rng.random(len(b.faces)) < 0.5)
    assert assert_equals_brute_force(a, b, query={"active_a": mask, "active_b": ids}.items()) > 10
    stray = impinge.TriMesh(np.concatenate([a.vertices, [[1e300, 0.0, 0.0]]]), a.faces)
    result = GjkCut(stray, b).query()
    np.testing.assert_array_equal(result.pairs, GjkCut(a, b).query().pairs)
    assert result.stats["candidates"] < 5000


@pytest.mark.small
def test_body_against_itself_moved(rng):
    """Take one body as both, moved and narrowed by either side's options."""
    body = shapes.bumpy_sphere(2)
    turn = np.array([[0.0, -1.0, 0.0, 0.4], [1.0, 0.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.1], [0.0, 0.0, 0.0, 1.0]])
    options = {"transform_b": turn, "active_a": np.flatnonzero(rng.random(len(body.faces)) < 0.7)}

    assert assert_equals_brute_force(body, body, query=options.items()) > 50
    assert assert_equals_brute_force(body, body, query={"transform_a": turn, "transform_b": turn}.items()) > 300


def test_queries_from_many_threads():
    """Return equal results to concurrent queries of one detector, and of detectors of one body."""
    a, b = shapes.bumpy_sphere(3), shapes.bumpy_sphere(3, center=(1.1, 0.4, 0.2))
    shared, expected = GjkCut(a, b), impinge.BruteForce(a, b).query()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: (shared if i % 2 else GjkCut(a, b)).query(), range(16)))

    assert all(assert_equal(result, expected) > 100 for result in results)


@pytest.mark.small
def test_random_edits(rng, monkeypatch):
    """Follow hundreds of random additions and removals, always equal to brute force."""
    monkeypatch.setattr(gjk_cut, "LEAF_PAIRS", 200)
    a, b = soup(rng, 120), soup(rng, 120)
    detector, alone = GjkCut(a, b), GjkCut(a)
    hits = 0
    for _ in range(60):
        for body in (a, b):
            live = np.flatnonzero(body.alive)
            body.remove_triangles(rng.choice(live, min(len(live), rng.integers(0, 12)), replace=False))
            new = int(rng.integers(1, 12))
            corners = (rng.random((new, 1, 3)) + 0.3 * rng.standard_normal((new, 3, 3))).reshape(-1, 3)
            body.add_triangles(len(body.vertices) + np.arange(3 * new).reshape(-1, 3), corners)
        hits += assert_equal(detector.query(), impinge.BruteForce(a, b).query())
        assert_equal(alone.query(), impinge.BruteForce(a).query())

    assert hits > 1000


def test_waves_apart_and_together():
    """Equal the box tree while waves run through bodies that approach and separate."""
    a, b = shapes.uv_sphere(60, 40), shapes.uv_sphere(60, 40)
    rest = np.array(a.vertices)
    detector, tree = GjkCut(a, b), impinge.BoxTree(a, b)
    counts = []
    for t in np.linspace(0.0, 1.0, 9):
        a.update(rest + 0.05 * np.sin(4.0 * np.roll(rest, 1, axis=1) + 2.0 * t))
        b.update(
            rest + 0.05 * np.sin(4.0 * np.roll(rest, 1, axis=1) + 2.0 * t + 1.7) + (2.3 - 1.5 * np.sin(np.pi * t), 0, 0)
        )
        counts.append(assert_equal(detector.query(), tree.query()))

    assert counts[0] == 0
    assert max(counts) > 300


@pytest.mark.small
@pytest.mark.parametrize("name", scenes.SMALL)
def test_slabs(name, monkeypatch):
    """Find the same pairs when bodies of any size are divided into the most slabs."""
    monkeypatch.setattr(scratch, "SLAB_TRIANGLES", 1)
    a, b = scenes.get(name).surfaces
    for leaf_pairs in (1, gjk_cut.LEAF_PAIRS):
        assert_equals_brute_force(a, b, leaf_pairs=leaf_pairs)
        assert_equals_brute_force(a, leaf_pairs=leaf_pairs)
    point = impinge.TriMesh(np.ones((60, 3)), np.arange(60).reshape(-1, 3))  # all in one slab
    assert assert_equals_brute_force(point, point) == 400
    assert assert_equals_brute_force(point) == 190


@pytest.mark.small
def test_axes_come_first(rng):
    """Cut along the axes first: disjoint bodies need no node, and distant triangles are not loaded."""
    a = shapes.bumpy_sphere(3)
    apart = shapes.bumpy_sphere(3, center=(3.0, 0.0, 0.0))
    assert GjkCut(a, apart).query().stats["nodes"] == 0

    grazing = shapes.bumpy_sphere(3, center=(1.6, 0.0, 0.0))
    shuffled = impinge.TriMesh(a.vertices, a.faces[rng.permutation(len(a.faces))])
    for body in (a, shuffled):
        assert assert_equals_brute_force(body, grazing) > 20
        memory = scratch.Memory()
        sides = [query_body(surface) for surface in (body, grazing)]
        everything = memory.load(*sides, cut_axes=False).pieces[:, 3].sum()
        assert everything == len(body) + len(grazing)
        assert memory.load(*sides, cut_axes=True).pieces[:, 3].sum() < 0.6 * everything


@pytest.mark.small
def test_large_leaves_save_nodes_only():
    """Find the same pairs with fewer nodes in larger leaves; small bodies are one node by default."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    expected, nodes = impinge.BruteForce(a, b).query(), []
    for leaf_pairs in (1, 100, gjk_cut.LEAF_PAIRS):
        with leaves_of(leaf_pairs):
            found = GjkCut(a, b).query()
        assert assert_equal(found, expected) > 100
        assert found.stats["cuts"] >= found.stats["nodes"]
        nodes.append(found.stats["nodes"])

    assert nodes[0] > 5 * nodes[1] > 5 * nodes[2]
    assert nodes[2] == 1


@pytest.mark.small
def test_half_of_the_triangles_replaced_every_frame(rng):
    """Stay exact while half of the triangles are replaced and the pool is compacted."""
    a, b = soup(rng, 300), soup(rng, 300)
    detector = GjkCut(a, b)
    hits = 0
    for frame in range(10):
        a.remove_triangles(rng.choice(np.flatnonzero(a.alive), 150, replace=False))
        corners = (rng.random((150, 1, 3)) + 0.3 * rng.standard_normal((150, 3, 3))).reshape(-1, 3)
        a.add_triangles(len(a.vertices) + np.arange(450).reshape(-1, 3), corners)
        if frame % 4 == 3:
            a.compact()
        hits += assert_equal(detector.query(), impinge.BruteForce(a, b).query())

    assert hits > 1000


# inputs that could go on for ever -----------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("leaf_pairs", [1, 1000])
def test_degenerate_starts_end(leaf_pairs):
    """Terminate on bodies in one point, on one line, in one plane, with one centre, and on a body against itself."""
    faces = np.arange(60).reshape(-1, 3)
    point = impinge.TriMesh(np.ones((60, 3)), faces)
    line = impinge.TriMesh(np.outer(np.arange(60) % 7, (1.0, 2.0, 3.0)), faces)
    plane = impinge.TriMesh(np.arange(180).reshape(60, 3) % 5 * (1.0, 1.0, 0.0), faces)
    small, large = shapes.icosphere(1, radius=0.5), shapes.icosphere(1)

    for a, b in itertools.combinations_with_replacement((point, line, plane, small, large), 2):
        assert_equals_brute_force(a, b, leaf_pairs=leaf_pairs)
    for body in (point, line, plane, small):
        assert_equals_brute_force(body, leaf_pairs=leaf_pairs)


# the cut by itself -----------------------------------------------------------------------------------


@pytest.mark.small
def test_cut_along_direction(rng):
    """Keep the hand-computed triangles along a direction, and every triangle that intersects one, along all."""
    a, b = shapes.box(2.0), shapes.box(2.0, center=(1.5, 0.0, 0.0))
    kept_a, kept_b = cut_along_direction(a, b, (1.0, 0.0, 0.0))
    reach_a, reach_b = a.vertices[a.faces][..., 0].max(axis=1), b.vertices[b.faces][..., 0].min(axis=1)
    np.testing.assert_array_equal(kept_a, np.flatnonzero(reach_a >= 0.5))
    np.testing.assert_array_equal(kept_b, np.flatnonzero(reach_b <= 1.0))
    assert 0 < len(kept_a) < 12

    apart = shapes.box(2.0, center=(5.0, 0.0, 0.0))
    assert [len(kept) for kept in cut_along_direction(a, apart, (2.0, 0.0, 0.0))] == [0, 0]
    assert [len(kept) for kept in cut_along_direction(a, apart, (-1e-300, 0.0, 0.0))] == [12, 12]

    a, b = scenes.get("bumpy_spheres_1k").surfaces
    pairs = impinge.triangle_pairs(a, b)
    for _ in range(20):
        kept_a, kept_b = cut_along_direction(a, b, rng.standard_normal(3))
        assert set(pairs.faces_a) <= set(kept_a)
        assert set(pairs.faces_b) <= set(kept_b)


@pytest.mark.small
@pytest.mark.parametrize("power", [-1060, -500, 0, 900, 984])
def test_cut_keeps_touching_triangles_at_the_ends_of_the_range(rng, power):
    """Keep a corner that touches the middle of a face, in the direction across it, up to the largest doubles."""
    kept = 0
    for _ in range(100):
        o, u, v = 4.0 * rng.integers(-(2**36), 2**36, (3, 3))
        n = np.cross(u, v) / np.linalg.norm(np.cross(u, v))
        touch = o + 0.25 * u + 0.5 * v  # all of it exact
        face = np.array([o, o + u, o + v])
        corner = np.array([touch, touch - 2.0**36 * n, touch - 2.0**37 * n + 0.1 * u])
        a, b = ((np.ldexp(x, power), [[0, 1, 2]]) for x in (corner, face))
        assert len(impinge.BruteForce(a, b).query()) == 1
        kept += sum(len(ids) for ids in cut_along_direction(a, b, n))

    assert kept == 200


@pytest.mark.small
def test_cut_keeps_touching_triangles(rng):
    """Keep triangles that touch in one point, in any direction, for any rounding of the point."""
    for _ in range(200):
        touch = rng.standard_normal(3) * 10.0 ** rng.integers(-3, 4)
        n = rng.standard_normal(3)
        side = rng.standard_normal((2, 2, 3))
        corners = []
        for sign, pair in zip((-1.0, 1.0), side):
            away = np.sign(pair @ n)[:, None] * pair * sign
            corners.append(np.vstack([touch, touch + away]))
        kept = cut_along_direction((corners[0], [[0, 1, 2]]), (corners[1], [[0, 1, 2]]), n)
        assert [len(ids) for ids in kept] == [1, 1]


# threads, memory, messages ---------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["serial", "parallel"])
def test_serial_and_threaded_kernels(variant, rng):
    """Find the same pairs with every kernel serial and with every kernel on threads."""
    a, b = shapes.bumpy_sphere(4), shapes.bumpy_sphere(4, center=(1.1, 0.4, 0.2))
    expected, alone = impinge.BoxTree(a, b).query(), impinge.BoxTree(a).query()
    for leaf_pairs in (100, gjk_cut.LEAF_PAIRS):
        with jit.launch_always(variant), leaves_of(leaf_pairs):
            assert assert_equal(GjkCut(a, b).query(), expected) > 100
            assert_equal(GjkCut(a).query(), alone)


def test_same_bits_for_any_thread_count():
    """Give the same pairs and kinds with 1, 2 and 4 threads."""
    code = """
import hashlib, impinge
from impinge.detect.gjk_cut import detector as gjk_cut
from impinge.detect.gjk_cut.detector import GjkCut
surfaces = impinge.scenes.get("bumpy_spheres_20k").surfaces
knot = impinge.shapes.torus_knot(2, 3, 120, 20, tube_radius=0.41)
results = [GjkCut(*surfaces).query(), GjkCut(knot).query()]
gjk_cut.LEAF_PAIRS = 500
results.append(GjkCut(*surfaces).query())
arrays = [x for r in results for x in (r.pairs, r.kind)]
assert all(map(len, arrays))
print(hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest())
"""
    digests = set()
    for count in ("1", "2", "4"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": count}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout.strip())

    assert len(digests) == 1


@pytest.mark.small
def test_room_for_candidates_grows(rng):
    """Find every pair starting from room for one candidate."""
    a, b = soup(rng, 300, size=1.0), soup(rng, 300, size=1.0)
    detector = GjkCut(a, b)
    detector._memory._candidate = detector._memory._candidate[:, :, :1]

    assert assert_equal(detector.query(), impinge.BruteForce(a, b).query()) > 10_000


@pytest.mark.small
def test_queries_of_one_detector_change_with_the_bodies(rng):
    """Follow the active triangles of a body from query to query: more, fewer, none."""
    a, b = soup(rng, 30), soup(rng, 500)
    detector = GjkCut(a, b)
    for active in (None, np.arange(5), np.arange(200), np.arange(0), np.arange(400)):
        assert_equal(detector.query(active_b=active), impinge.BruteForce(a, b).query(active_b=active))


@pytest.mark.small
def test_bad_choices():
    """Refuse to skip the neighbours of two bodies, and an unknown option."""
    with pytest.raises(OptionError, match="neighbours='skip' is for self-collision"):
        GjkCut(shapes.box(1.0), shapes.box(1.0), neighbours="skip")
    with pytest.raises(TypeError, match="leaf_pairs"):
        GjkCut(shapes.box(1.0), leaf_pairs=1)


@pytest.mark.small
@pytest.mark.parametrize("direction", [(0, 0, 0), (1, 2), (np.nan, 0, 1)])
def test_bad_directions(direction):
    """Refuse zero, short and NaN directions."""
    with pytest.raises(OptionError, match="expected three finite numbers"):
        cut_along_direction(shapes.box(1.0), shapes.box(1.0), direction)


@pytest.mark.small
def test_bad_device():
    """Refuse an unknown device."""
    with pytest.raises(OptionError, match="device is 'tpu', expected one of 'cpu', 'cuda'"):
        cut_along_direction(shapes.box(1.0), shapes.box(1.0), (1, 0, 0), device="tpu")


# multi-resolution ------------------------------------------------------------------------------------


@pytest.mark.small
def test_refined_bodies_cover_the_surface_once(rng):
    """Cover the surface once: each coarse triangle is active, or exactly its fine ones, which share its corners."""
    refined = refined_sphere(1, 3)
    faces = refined.body.faces
    refined.refine_near(np.arange(3))
    coarse = np.flatnonzero(refined.is_fine)

    assert 3 < len(coarse) < refined.coarse_count
    assert len(refined.active) == refined.coarse_count + 15 * len(coarse)
    for t in coarse:
        fine = refined.fine_of([t])[0]
        assert set(faces[t]) <= set(faces[fine].reshape(-1))
        np.testing.assert_array_equal(refined.coarse_of(fine), t)
    with pytest.raises(OptionError, match="expected 0 <= coarse < fine"):
        refined_sphere(3, 3)


@pytest.mark.small
def test_refinement_from_frame_to_frame():
    """Stay exact while regions in contact switch to fine triangles and back."""
    scene = RefinementScene(2, 4)
    detector = GjkCut(scene.a.body, scene.b.body)
    hits, switched = 0, 0
    for t in np.linspace(0.0, 1.0, 7):
        scene.move(t)
        active = {"active_a": scene.a.active, "active_b": scene.b.active}
        result = detector.query(**active)
        hits += assert_equal(result, impinge.BruteForce(scene.a.body, scene.b.body).query(**active))
        switched += scene.refine(result.pairs)

    assert hits > 50
    assert switched > 20
