"""Sphere trees: contacts within a budget, honest about what is certain and what is possible."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.backend.jit import thread_count
from impinge.detect.sphere_tree import sharing
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.build.pieces import corner_points
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.search import context, exact, tracked_spheres
from impinge.detect.sphere_tree.search.tracked_spheres import NO_TRANSFORM
from impinge.detect.sphere_tree.track import controls
from impinge.detect.sphere_tree.track import tracking as sphere_tracking
from impinge.detect.sphere_tree.track.tracking_kernels import AT_TOP, IS_SIMPLIFIED, STAMP, TOP
from impinge.errors import MeshError, OptionError

pytestmark = pytest.mark.small


def bumpy(rng, level=2, centre=(0.0, 0.0, 0.0), size=0.15):
    body = shapes.icosphere(level)
    x = np.array(body.vertices)
    x *= 1.0 + size * rng.standard_normal((len(x), 1))
    return impinge.TriMesh(x + np.asarray(centre), body.faces)


def deform(rng, body, amount):
    """A turn, a stretch, a wave and noise: nothing that a sphere could know beforehand."""
    x = np.array(body.vertices)
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    x = x @ (turn * rng.uniform(1.0 - 0.5 * amount, 1.0 + amount, 3)).T
    x += amount * 0.3 * np.sin(rng.uniform(1.0, 4.0) * x[:, [1, 2, 0]] + rng.uniform(0.0, 6.0))
    x += 0.1 * amount * rng.standard_normal(x.shape)
    body.update(x + rng.uniform(-0.5, 0.5, 3))


def side(detector, k):
    """The spheres that one body of a detector keeps."""
    binding = detector._bindings[k]
    return binding.cache.tracked(binding)


def spheres_of(detector, k):
    """All spheres of a body as the last query placed them, the unvisited ones too, shape (n, 4)."""
    tracked = side(detector, k)
    tracked.track_all()
    return tracked.spheres.of(np.arange(len(tracked.tree)))


def meet(p, q):
    dx, dy, dz = p[0] - q[0], p[1] - q[1], p[2] - q[2]
    return dx * dx + dy * dy + dz * dz <= (p[3] + q[3]) * (p[3] + q[3])


def search_as_published(trees, spheres, most_tests):
    """Fig. 7 without its second tests, with tags: PAIRLIST and COLLISIONLIST after so many tests."""
    pair_list, collision_list, tests = deque([((0, 0), (1, 0))]), [], 0
    while pair_list and tests < most_tests:
        one, two = pair_list.popleft()
        tests += 1
        if not meet(spheres[one[0]][one[1]], spheres[two[0]][two[1]]):
            continue
        children = [
            [(tag, tree_child) for tree_child in range(first, first + count)] if count else []
            for tag, first, count in (
                (one[0], trees[one[0]].first_child[one[1]], trees[one[0]].child_count[one[1]]),
                (two[0], trees[two[0]].first_child[two[1]], trees[two[0]].child_count[two[1]]),
            )
        ]
        if children[1]:
            pair_list.extend((child, one) for child in children[1])
        elif not children[0]:
            collision_list.append((one, two))
        else:
            pair_list.extend((child, two) for child in children[0])
    return [as_nodes(pair) for pair in pair_list], sorted(as_nodes(pair) for pair in collision_list), tests


def as_nodes(pair):
    """(node of a, node of b), whichever came first."""
    found = dict(pair)
    return int(found[0]), int(found[1])


def rows(pairs):
    return [tuple(map(int, pair)) for pair in pairs]


def trees_of(detector):
    return [side(detector, k).tree for k in range(2)]


# The search -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("branching", "levels"), [((8, 8), (3, 3)), ((2, 5), (5, 2)), ((5, 2), (2, 5)), ((11, 20), (2, 1))]
)
def test_state_after_so_many_tests(rng, branching, levels):
    """Be, after any number of tests, where the published search is after as many."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    given = [
        build_spheres(body, builder="octree", branching=branching[k], levels=levels[k]) for k, body in enumerate((a, b))
    ]
    detector = SphereTree(a, b, tree_a=given[0], tree_b=given[1])
    whole = detector.query()
    spheres = [spheres_of(detector, k) for k in range(2)]
    all_tests = whole.stats["tests"]
    assert all_tests > 300
    for most in [*range(1, 40), *rng.integers(40, all_tests, 25).tolist(), all_tests - 1, all_tests, all_tests + 5]:
        possible, certain, tests = search_as_published(given, spheres, most)
        result = detector.query(max_tests=int(most))

        assert rows(result.possible) == possible
        assert rows(result.certain) == certain
        assert result.stats["tests"] == tests
        assert result.complete == (not possible)
        assert result.reason == ("budget" if possible else None)


def test_more_tests_only_add_and_decide(rng):
    """Let ``certain`` only grow, and what is below ``possible`` only shrink."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b)
    parents = [tree.parent for tree in trees_of(detector)]
    before = detector.query(max_tests=1)
    for most in (2, 9, 33, 100, 300, 700, 1000, 3000, 10**9):
        result = detector.query(max_tests=most)
        certain, open_before = set(rows(result.certain)), set(rows(before.possible))
        assert set(rows(before.certain)) <= certain
        for pair in set(rows(result.possible)) | (certain - set(rows(before.certain))):
            assert any(line in open_before for line in ancestors(pair, parents))
        assert result.level >= before.level
        before = result
    assert before.complete
    assert len(before.certain) > 20


def ancestors(pair, parents):
    """All pairs (ancestor or self of one, ancestor or self of the other)."""
    lines = []
    for node, parent in zip(pair, parents):
        line = [node]
        while parent[line[-1]] >= 0:
            line.append(int(parent[line[-1]]))
        lines.append(line)
    return [(i, j) for i in lines[0] for j in lines[1]]


@pytest.mark.parametrize("queue_limit", [1, 3, 20, 1 << 20])
def test_bounded_queue_loses_nothing(rng, queue_limit):
    """Find the same whatever the queue may hold, and hold no more than a few entries beyond it."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    expected = SphereTree(a, b).query()
    detector = SphereTree(a, b, queue_limit=queue_limit)
    result = detector.query()

    assert result.complete
    assert result.stats["tests"] == expected.stats["tests"]
    np.testing.assert_array_equal(result.certain, expected.certain)
    levels = sum(tree.level_count for tree in trees_of(detector))
    if queue_limit < 100:
        assert result.stats["queue_peak"] <= queue_limit + 8 * levels < expected.stats["queue_peak"]
        assert result.stats["followed_newest"] > 0
    else:
        assert result.stats["followed_newest"] == 0


def test_deepest_first(rng):
    """Follow the deepest pair at each step; find the same in the end, and lose nothing on the way."""
    a, b = bumpy(rng, 3), bumpy(rng, 3, centre=(1.2, 0.3, 0.1))
    trees = {
        f"tree_{name}": build_spheres(body, builder="octree", kind="layered", levels=2)
        for name, body in zip("ab", (a, b))
    }  # leaves that stick out of their parents are found or not as the search comes by
    expected = SphereTree(a, b, **trees).query()
    detector = SphereTree(a, b, order="priority", **trees)
    whole = detector.query()
    np.testing.assert_array_equal(whole.certain, expected.certain)
    assert whole.complete
    before = detector.query(max_tests=1)
    assert rows(before.possible) == [(0, 0)]
    parents = [tree.parent for tree in trees_of(detector)]
    for most in np.linspace(2, whole.stats["tests"] + 1, 9).astype(int):
        result = detector.query(max_tests=int(most))
        assert result.stats["tests"] <= most
        np.testing.assert_array_equal(result.possible, detector.query(max_tests=int(most)).possible)
        assert (np.diff(replace(result, normals="centres").possible_depth) <= 1e-12).all()
        assert set(rows(before.certain)) <= set(rows(result.certain)) <= set(rows(whole.certain))
        held = set(rows(result.certain)) | set(rows(result.possible))
        assert all(held & set(ancestors(pair, parents)) for pair in rows(whole.certain)[::10])
        before = result
    assert before.complete
    bounded = SphereTree(a, b, order="priority", queue_limit=5, **trees).query()
    np.testing.assert_array_equal(bounded.certain, whole.certain)
    assert bounded.stats["queue_peak"] < whole.stats["queue_peak"]


@pytest.mark.medium
@pytest.mark.parametrize("order", ["breadth", "priority"])
def test_finest_level(rng, order):
    """Stop at a level: pairs that meet there are possible, and nothing below them is looked at."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    trees = [build_spheres(body, builder="octree", levels=2) for body in (a, b)]
    detector = SphereTree(a, b, tree_a=trees[0], tree_b=trees[1], order=order)
    for level in range(4):
        result = detector.query(level=level)
        spheres = [spheres_of(detector, k) for k in range(2)]
        assert result.level == min(level, 2)
        if level < 2:
            assert (result.reason, len(result.certain)) == ("limit", 0)
            assert (result.possible_level <= level).all()
            assert all(meet(spheres[0][i], spheres[1][j]) for i, j in result.possible)
        for pair in rows(detector.query().certain):
            lines = ancestors(pair, [tree.parent for tree in trees])
            assert set(lines) & set(rows(result.possible)) | set(lines) & set(rows(result.certain))


@pytest.mark.parametrize("tracking", ["paper", "affine", "refit"])
def test_layered_trees_find_every_pair_of_leaves(rng, tracking):
    """Find exactly the pairs of leaves that brute force finds, in a layered tree, deformed or not."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    given = [build_spheres(body, builder="octree", kind="layered", levels=2) for body in (a, b)]
    detector = SphereTree(a, b, tree_a=given[0], tree_b=given[1], tracking=tracking)
    for _ in range(4):
        result = detector.query()
        leaves = [tree.leaves for tree in given]
        p, q = (spheres_of(detector, k)[leaves[k]] for k in range(2))
        square = ((p[:, None, :3] - q[None, :, :3]) ** 2).sum(axis=2)
        hit = np.argwhere(square <= (p[:, None, 3] + q[None, :, 3]) ** 2)
        np.testing.assert_array_equal(result.certain, np.stack([leaves[0][hit[:, 0]], leaves[1][hit[:, 1]]], axis=1))
        assert 20 < len(hit) < len(p) * len(q)
        deform(rng, a, 0.3)


@pytest.mark.parametrize("kind", ["wrapped", "layered"])
def test_finds_every_pair_of_leaves_whose_triangles_meet(rng, kind):
    """Miss no pair of leaves that have triangles which meet; with triangles tested, report just those."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    given = [build_spheres(body, builder="octree", kind=kind, levels=2) for body in (a, b)]
    spheres = SphereTree(a, b, tree_a=given[0], tree_b=given[1])
    triangles = SphereTree(a, b, tree_a=given[0], tree_b=given[1], exact=True)
    for _ in range(6):
        expected = impinge.BruteForce(a, b).query()
        result = triangles.query()
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        assert result.complete
        meeting = set(rows(expected.pairs))
        for pair in rows(spheres.query().certain):
            below = [set(tree.triangles_under(node).tolist()) for tree, node in zip(given, pair)]
            has_meeting = any(i in below[0] and j in below[1] for i, j in meeting)
            assert has_meeting or pair not in set(rows(result.certain))
        covered = {(i, j) for pair in rows(result.certain) for i in given[0].triangles_under(pair[0]).tolist()
                   for j in given[1].triangles_under(pair[1]).tolist()}  # fmt: skip
        assert meeting <= covered
        assert len(meeting) > 10
        deform(rng, a, 0.2)


@pytest.mark.parametrize("builder", ["octree", "medial"])
@pytest.mark.parametrize("order", ["breadth", "priority"])
def test_wrapped_trees_find_every_pair_of_leaves_whose_pieces_meet(rng, builder, order):
    """Have both leaves of all pieces that meet among the certain pairs, though leaves stick out of their parents."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    given = [build_spheres(body, builder=builder, levels=2) for body in (a, b)]
    assert [tree.builder for tree in given] == [builder, builder]
    detector = SphereTree(a, b, tree_a=given[0], tree_b=given[1], order=order)
    for amount in (0.0, 0.2, 0.5):
        deform(rng, a, amount)
        found, pieces, leaf = set(rows(detector.query().certain)), [], []
        for tree, body in zip(given, (a, b)):
            corners = corner_points(tree.piece_corner, body.vertices[body.faces[tree.piece_triangle]]).reshape(-1, 3)
            pieces.append(impinge.TriMesh(corners, np.arange(len(corners)).reshape(-1, 3), validate="trust"))
            leaf.append(np.zeros(len(tree.piece_triangle), dtype=int))
            for node in tree.leaves:
                leaf[-1][tree.piece_start[node] : tree.piece_stop[node]] = node
        crossing = impinge.triangle_pairs(*pieces)
        i, j = crossing.pairs[crossing.kind == impinge.Kind.CROSSING].T  # corners of pieces are rounded
        meeting = set(zip(leaf[0][i].tolist(), leaf[1][j].tolist()))
        assert meeting <= found
        assert 10 < len(meeting) < len(found)


def test_degenerate_triangles_are_resolved_exactly(rng):
    """Equal brute force on integer soups, where triangles touch, overlap in planes and are flat."""
    hits = 0
    for _ in range(30):
        a, b = (
            impinge.TriMesh(rng.integers(0, 4, (24, 3)).astype(float), np.arange(24).reshape(-1, 3)) for _ in range(2)
        )
        expected = impinge.BruteForce(a, b).query()
        result = SphereTree(a, b, exact=True).query()
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        hits += len(expected)
    assert hits > 300


def test_exact_stage_within_tests(rng):
    """Let leaf pairs be possible until their triangles were tested, and let nothing be lost."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b, exact=True)
    whole = detector.query()
    spheres = SphereTree(a, b).query()
    before, pairs_before = set(), set()
    everything = whole.stats["tests"] + whole.stats["triangle_tests"]
    for most in np.linspace(whole.stats["tests"], everything, 7).astype(int):
        result = detector.query(max_tests=int(most))
        assert set(rows(result.certain)) <= set(rows(whole.certain))
        assert set(rows(result.certain)) | set(rows(result.possible)) >= set(rows(whole.certain))
        assert set(rows(result.possible)) <= set(rows(spheres.certain))
        assert set(rows(result.pairs)) <= set(rows(whole.pairs))
        assert before <= set(rows(result.certain))
        assert set(rows(result.pairs)) >= pairs_before
        before, pairs_before = set(rows(result.certain)), set(rows(result.pairs))
        assert result.complete == (most == everything)
    np.testing.assert_array_equal(result.pairs, whole.pairs)


# Tracking -------------------------------------------------------------------------------------------------


def violations(detector, k, body):
    """How many corners of pieces are outside of their spheres, on all levels, and how many there are."""
    spheres, tree = spheres_of(detector, k), side(detector, k).tree
    points = corner_points(tree.piece_corner, np.asarray(body.vertices)[body.faces[tree.piece_triangle]])
    outside = count = 0
    for node, (*centre, radius) in enumerate(spheres):
        below = points[tree.piece_start[node] : tree.piece_stop[node]].reshape(-1, 3)
        distance = np.sqrt(((below - centre) ** 2).sum(axis=1))
        outside += int((distance > radius).sum())
        count += len(below)
    return outside, count


@pytest.mark.parametrize("kind", ["wrapped", "layered"])
@pytest.mark.parametrize("most_points", [15, 2048])
def test_refitted_spheres_cover_the_surface(rng, monkeypatch, kind, most_points):
    """Keep every piece inside of its spheres on all levels after large deformations, long triangles too."""
    monkeypatch.setattr(sphere_tracking, "MOST_POINTS", most_points)
    checked = tops = 0
    bodies = (bumpy(rng), shapes.box((1.0, 2.0, 0.1)), shapes.icosphere(1))
    for body, builder in itertools.product(bodies, ("octree", "medial")):
        tree = build_spheres(body, builder=builder, kind=kind, levels=2)
        assert tree.builder == builder
        detector = SphereTree(body, shapes.box(1.0), tree_a=tree, tracking="refit")
        rest = np.array(body.vertices)
        for amount in (0.0, 0.1, 0.5, 2.0) * 3:
            body.update(rest)
            deform(rng, body, amount)
            detector.query()
            outside, count = violations(detector, 0, body)
            assert outside == 0
            checked += count
        tops += int((side(detector, 0).table[:-1, TOP] == AT_TOP).sum())
    assert checked > 100_000
    assert (tops > 2) == (most_points == 15)


class Embedded:
    """A soft body as detectors see it: a surface that hangs on a coarse tet mesh by barycentric weights."""

    class Weights:
        """Which tet each vertex follows, and how."""

        def __init__(self, tets_of, weights):
            self.tets_of, self.weights = tets_of, weights

    class Model:
        """Positions at rest."""

        def __init__(self, rest):
            self.rest = rest

    def __init__(self, surface, coarse):
        corners = np.asarray(coarse.vertices)[coarse.tets]
        inverse = np.linalg.inv(np.concatenate([corners, np.ones((len(corners), 4, 1))], axis=2))
        x = np.concatenate([surface.vertices, np.ones((len(surface.vertices), 1))], axis=1)
        weights = np.einsum("vk,tkj->vtj", x, inverse)
        tets_of = weights.min(axis=2).argmax(axis=1)
        self.embedding = self.Weights(tets_of, np.take_along_axis(weights, tets_of[:, None, None], axis=1)[:, 0])
        self.surface, self.coarse = surface, coarse
        self.rest_surface, self.model = np.array(surface.vertices), self.Model(np.array(coarse.vertices))

    def move(self, x):
        """Move the coarse mesh, and the surface with it."""
        self.coarse.update(x)
        corners = self.coarse.vertices[self.coarse.tets[self.embedding.tets_of]]
        self.surface.update(np.einsum("vj,vjk->vk", self.embedding.weights, corners))


@pytest.mark.parametrize("kind", ["wrapped", "layered"])
def test_bound_covers_what_a_coarse_mesh_moves(rng, kind):
    """Keep every piece inside of its spheres whatever the coarse mesh does; follow affine motion without growth."""
    soft = Embedded(bumpy(rng, size=0.05), shapes.tet_box(3, 3, 3, size=3.0))
    tree = build_spheres(soft.surface, builder="octree", kind=kind, levels=2)
    detector = SphereTree(soft, shapes.box(1.0), tree_a=tree)
    assert side(detector, 0).mode == "bound"
    detector.query()
    before = spheres_of(detector, 0)
    np.testing.assert_allclose(before[:, :3], tree.centre, atol=1e-6)
    assert (before[:, 3] - tree.radius).max() < 1e-5
    rest, checked = soft.model.rest, 0
    for amount in (0.01, 0.1, 0.5, 2.0) * 5:
        soft.coarse.update(rest)
        deform(rng, soft.coarse, amount)
        soft.move(np.array(soft.coarse.vertices))
        detector.query()
        outside, count = violations(detector, 0, soft.surface)
        assert outside == 0
        checked += count
    assert checked > 30_000
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    soft.move(rest @ turn.T + [1.0, 2.0, 3.0])
    detector.query()
    np.testing.assert_allclose(spheres_of(detector, 0)[:, 3], before[:, 3], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("tracking", ["paper", "affine", "bound", "refit"])
def test_embedded_bodies_in_every_mode(rng, tracking):
    """Search bodies that a coarse mesh moves, with a tree of their own, built at rest whatever they are doing."""
    soft = Embedded(bumpy(rng, size=0.05), shapes.tet_box(3, 3, 3, size=3.0))
    other = bumpy(rng, centre=(1.2, 0.3, 0.1))
    soft.move(soft.model.rest * [1.1, 0.9, 1.0])
    result = SphereTree(soft, other, tracking=("refit" if tracking == "refit" else "auto"), exact=True).query()
    expected = impinge.triangle_pairs(soft.surface, other)
    np.testing.assert_array_equal(result.pairs, expected.pairs)
    assert len(expected) > 10
    if tracking in ("paper", "affine"):
        assert len(SphereTree(soft, other, tracking=tracking).query().certain) > 10
    if tracking == "bound":
        tree = build_spheres(soft.surface, builder="octree", levels=2)
        with pytest.raises(MeshError, match="tree_a was built for body a deformed"):
            SphereTree(soft, other, tree_a=tree)


@pytest.mark.parametrize("embedding", ["barycentric", "rigid_links"])
def test_soft_bodies(rng, embedding):
    """Follow a soft body, by its coarse mesh where that bounds the surface: cover it, and find all its contacts."""
    soft = impinge.SoftBody(bumpy(rng, size=0.05), shapes.tet_box(3, 3, 3, size=3.0), embedding=embedding)
    other = bumpy(rng, centre=(1.4, 0.3, 0.1))
    detector = SphereTree(soft, other, exact=True)
    assert side(detector, 0).mode == "bound"
    for _ in range(4):
        deform(rng, soft.coarse, 0.2)
        result = detector.query()
        assert violations(detector, 0, soft.surface)[0] == 0
        np.testing.assert_array_equal(result.pairs, impinge.triangle_pairs(soft.surface, other).pairs)
        soft.reset()


@pytest.mark.parametrize("tracking", ["auto", "affine", "paper"])
def test_soft_bodies_and_their_bare_surfaces(rng, tracking):
    """Give a soft body the same spheres whether or not its bare surface was queried before, deformed."""
    soft, other = (
        impinge.SoftBody(bumpy(rng, size=0.05), shapes.tet_box(3, 3, 3, size=3.0), embedding="barycentric"),
        bumpy(rng, centre=(1.2, 0.3, 0.1)),
    )
    untouched = copy.deepcopy(soft)
    moved = soft.model.rest * [1.5, 0.6, 0.8] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    soft.coarse.update(moved)
    bare = SphereTree(soft.surface, other, tracking=tracking)
    bare.query()
    detector, expected = (SphereTree(body, other, tracking=tracking) for body in (soft, untouched))
    untouched.coarse.update(moved)
    for frame in range(3):
        if frame:
            for body in (soft, untouched):
                body.coarse.update(moved * (1.0 - 0.1 * frame))
        assert_same(detector.query(), expected.query())
        assert len(bare.query().certain) > 10
        assert side(detector, 0) is not side(bare, 0)


@pytest.mark.parametrize("embedding", ["barycentric", "rigid_links"])
@pytest.mark.parametrize("kind", ["wrapped", "layered"])
@pytest.mark.parametrize("most_controls", [40, 1000])
@pytest.mark.parametrize("builder", ["octree", "medial"])
def test_bound_covers_soft_bodies(rng, monkeypatch, embedding, kind, most_controls, builder):
    """Keep every piece inside of its spheres, whatever the coarse mesh does; keep radii through rigid motion."""
    monkeypatch.setattr(controls, "MOST_CONTROLS", most_controls)
    soft = impinge.SoftBody(bumpy(rng, size=0.05), shapes.tet_box(3, 3, 3, size=2.0), embedding=embedding)
    tree = build_spheres(soft.surface, builder=builder, kind=kind, levels=2)
    detector = SphereTree(soft, shapes.box(1.0), tree_a=tree)
    rest, checked, straight = np.array(soft.model.rest), 0, 0
    detector.query()
    before = spheres_of(detector, 0)
    simplified = side(detector, 0).table[:-1, IS_SIMPLIFIED]
    assert bool(simplified.any()) == (most_controls == 40)
    assert not simplified.all()
    for amount in (0.01, 0.1, 0.5, 2.0) * 3 + (0.0, 0.0):
        soft.coarse.update(rest)
        if amount == 0.0:  # all triples come to lie on one line
            soft.coarse.update(rest * [1.0, 0.0, 0.0])
        else:
            deform(rng, soft.coarse, amount)
        detector.query()
        outside, count = violations(detector, 0, soft.surface)
        assert outside == 0
        checked += count
        straight += embedding == "rigid_links" and len(soft.embedding.straightened) > 0
    assert checked > 20_000
    assert straight >= 2 * (embedding == "rigid_links")
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    soft.coarse.update(rest @ (turn * np.sign(np.linalg.det(turn))).T + [1.0, 2.0, 3.0])
    detector.query()
    np.testing.assert_allclose(spheres_of(detector, 0)[:, 3], before[:, 3], rtol=1e-7, atol=1e-9)


def test_rigid_motion_keeps_spheres(rng):
    """Turn and shift spheres with the body: radii stay, centres move with it."""
    body = bumpy(rng)
    tree = build_spheres(body, builder="octree", levels=2)
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    for tracking in ("affine", "refit"):
        body.update(tree.rest)
        detector = SphereTree(body, shapes.box(1.0), tree_a=tree, tracking=tracking)
        detector.query()
        before = spheres_of(detector, 0)
        body.update(tree.rest @ turn.T + [1.0, 2.0, 3.0])
        detector.query()
        after = spheres_of(detector, 0)
        np.testing.assert_allclose(after[:, 3], before[:, 3], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(after[:, :3], before[:, :3] @ turn.T + [1.0, 2.0, 3.0], atol=1e-9)


def test_affine_motion_is_followed_by_the_affine_mode(rng):
    """Put centres where the affine map puts them, and let radii grow by its stretch at most 12% too much."""
    body = bumpy(rng)
    tree = build_spheres(body, builder="octree", levels=2)
    detector = SphereTree(body, shapes.box(1.0), tree_a=tree, tracking="affine")
    matrix = np.eye(3) + 0.5 * rng.standard_normal((3, 3))
    body.update(tree.rest @ matrix.T)
    detector.query()
    after = spheres_of(detector, 0)
    stretch = np.linalg.norm(matrix, 2)
    np.testing.assert_allclose(after[:, :3], tree.centre @ matrix.T, atol=1e-6)
    assert (after[:, 3] >= 0.99999 * stretch * tree.radius).all()
    assert (after[:, 3] <= 1.12 * stretch * tree.radius).all()


@pytest.mark.parametrize(("shape", "controls"), [("bumpy", 1), ("bumpy", 2), ("bumpy", 3), ("box", 8), ("soup", 4)])
def test_controls_in_a_plane_carry_spheres(rng, shape, controls):
    """Keep spheres whose controls do not determine an affine map at rest, and through translations."""
    body = bumpy(rng)
    if shape == "box":
        body = shapes.box(2.0, cells=(6, 6, 6))
    if shape == "soup":  # each vertex several times, at the same place
        body = impinge.TriMesh(body.vertices[body.faces.reshape(-1)], np.arange(3 * len(body.faces)).reshape(-1, 3))
    tree = build_spheres(body, builder="octree", levels=2)
    other = bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(body, other, tree_a=tree, tracking="affine", controls=controls)
    counts = []
    for shift in ([0.0, 0.0, 0.0], [0.2, -0.1, 0.3]):
        body.update(tree.rest + shift)
        counts.append(len(detector.query().certain))
        after = spheres_of(detector, 0)
        np.testing.assert_allclose(after[:, :3], tree.centre + shift, atol=1e-6)
        np.testing.assert_allclose(after[:, 3], tree.radius, rtol=1e-6)
    assert min(counts) > 10
    assert side(detector, 0).table[:-1, IS_SIMPLIFIED].any()


def test_published_update(rng):
    """Follow the paper's heuristic to the letter, and know that it may lose the surface."""
    body = bumpy(rng)
    tree = build_spheres(body, builder="octree", levels=2)
    detector = SphereTree(body, shapes.box(1.0), tree_a=tree, tracking="paper", controls=5)
    deform(rng, body, 0.5)
    detector.query()
    spheres = spheres_of(detector, 0)
    lost, count = violations(detector, 0, body)
    told_apart = 0
    for node in range(len(tree)):
        c = tree.centre[node]
        distance = np.linalg.norm(tree.rest - c, axis=1)
        near = np.argsort(distance)[:6]
        if distance[near[5]] - distance[near[4]] < 1e-9:
            continue
        near = near[:5]
        told_apart += 1
        moved = c + (body.vertices[near] - tree.rest[near]).mean(axis=0)
        ratio = np.linalg.norm(body.vertices[near] - moved, axis=1) / np.linalg.norm(tree.rest[near] - c, axis=1)
        np.testing.assert_allclose(spheres[node], [*moved, ratio.max() * tree.radius[node]], rtol=1e-6, atol=1e-6)
    assert told_apart > 30
    assert 0.001 < lost / count < 0.5


def test_only_visited_spheres_are_tracked(rng):
    """Leave spheres alone that no query has come to."""
    a, b = bumpy(rng, 4, size=0.01), bumpy(rng, 4, centre=(1.95, 0.0, 0.0), size=0.01)
    detector = SphereTree(a, b)
    detector.query()
    tracked = side(detector, 0)
    before = tracked.table[:-1, STAMP].copy()
    a.update(a.vertices + 1e-3)
    result = detector.query()
    visited = tracked.table[:-1, STAMP] != before

    assert 0 < result.stats["tracked_blocks"] < 0.4 * tracked.layout.block_count
    assert 0 < visited.sum() < 0.4 * len(visited)


def test_moved_bodies(rng):
    """Take transforms: the same contacts as of bodies whose vertices were moved."""
    a, b = bumpy(rng), bumpy(rng)
    for _ in range(5):
        matrices = [np.eye(4), np.eye(4)]
        for matrix in matrices:
            matrix[:3, :3] += 0.3 * rng.standard_normal((3, 3))
            matrix[:3, 3] = 0.6 * rng.standard_normal(3)
        options = {"transform_a": matrices[0], "transform_b": matrices[1]}
        result = SphereTree(a, b, exact=True).query(**options)
        expected = impinge.triangle_pairs(a, b, **options)
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        assert len(expected) > 10
    twin = SphereTree(a, a, exact=True).query(transform_b=matrices[1])
    np.testing.assert_array_equal(twin.pairs, impinge.triangle_pairs(a, a, transform_b=matrices[1]).pairs)


def test_active_and_ignored_triangles(rng):
    """Report what the oracle does of active triangles, without ignored pairs; of spheres those above active ones."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector, whole = SphereTree(a, b, exact=True), impinge.triangle_pairs(a, b)
    for _ in range(4):
        options = {
            "active_a": rng.random(len(a)) < 0.5,
            "active_b": np.flatnonzero(rng.random(len(b)) < 0.7),
            "ignore": whole.pairs[rng.random(len(whole)) < 0.3],
        }
        expected = impinge.triangle_pairs(a, b, **options)
        result = detector.query(**options)
        np.testing.assert_array_equal(result.pairs, expected.pairs)
        np.testing.assert_array_equal(result.kind, expected.kind)
        assert result.complete
        assert 5 < len(expected) < 0.6 * len(whole)
        below = [
            {(i, j) for i in trees_of(detector)[0].triangles_under(p) for j in trees_of(detector)[1].triangles_under(q)}
            for p, q in result.certain
        ]
        met = set(rows(expected.pairs))
        assert all(pairs & met for pairs in below)
        assert met <= set().union(*below)
    few = detector.query(max_pairs=5)
    np.testing.assert_array_equal(few.pairs, whole.pairs[:5])
    assert (few.complete, few.reason, len(few.kind)) == (False, "limit", 5)


def test_active_triangles_below_spheres(rng):
    """Leave out spheres without active triangles below, also of a search that was cut short."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b)
    chosen = np.unique(impinge.triangle_pairs(a, b).pairs[:4, 0])
    tree = trees_of(detector)[0]
    whole, few = detector.query(), detector.query(active_a=chosen)
    has_any = [bool(np.isin(tree.triangles_under(node), chosen).any()) for node in whole.certain[:, 0]]
    np.testing.assert_array_equal(few.certain, whole.certain[has_any])
    assert 0 < len(few.certain) < len(whole.certain)
    short = detector.query(active_a=chosen, max_tests=200)
    assert 0 < len(short.possible) < len(detector.query(max_tests=200).possible)
    nothing = detector.query(active_a=[], max_tests=200)
    assert (len(nothing.possible), nothing.complete, nothing.reason) == (0, True, None)


# Results --------------------------------------------------------------------------------------------------


def test_contacts_of_spheres(rng):
    """Give points, unit normals from a to b and depths that resolve the contact of two spheres."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b)
    result = detector.query(max_tests=detector.query().stats["tests"] - 400)
    assert len(result.certain) > 20
    assert len(result.possible) > 20
    inside = 0
    for kind in ("certain", "possible"):
        prefix = "" if kind == "certain" else "possible_"
        point, normal, depth = (getattr(result, prefix + name) for name in ("point", "normal", "depth"))
        pairs = getattr(result, kind)
        p, q = (result.spheres[k].of(pairs[:, k]) for k in range(2))
        np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0, rtol=1e-12)
        assert (depth >= 0.0).all()
        moved = q[:, :3] + depth[:, None] * normal
        gap = np.linalg.norm(moved - p[:, :3], axis=1) - p[:, 3] - q[:, 3]
        assert (gap >= -1e-9).all()
        is_deep = depth > 0.0
        np.testing.assert_allclose(gap[is_deep], 0.0, atol=1e-9)
        distance = np.linalg.norm(q[:, :3] - p[:, :3], axis=1)
        is_in = distance < np.abs(p[:, 3] - q[:, 3])
        crosses = is_deep & ~is_in
        to_rim = np.linalg.norm(point - p[:, :3], axis=1) - p[:, 3]
        np.testing.assert_allclose(to_rim[crosses], 0.5 * (distance - p[:, 3] - q[:, 3])[crosses], atol=1e-9)
        smaller = np.where((p[:, 3] < q[:, 3])[:, None], p[:, :3], q[:, :3])
        np.testing.assert_allclose(point[is_in], smaller[is_in], atol=1e-9)
        inside += int(is_in.sum())
    assert (result.possible_depth == 0.0).any()
    assert inside > 0


@pytest.mark.parametrize("order", ["breadth", "priority"])
@pytest.mark.parametrize("tracking", ["paper", "affine", "refit", "bound"])
def test_possible_contacts_do_not_know_the_past(rng, order, tracking):
    """Give the same points, normals and depths of possible pairs whatever was queried before the bodies moved."""
    centres = ((0.0, 0.0, 0.0), (1.2, 0.3, 0.1))
    rest = [bumpy(rng, centre=centre, size=0.05) for centre in centres]
    tree_a, tree_b = (build_spheres(body, builder="octree", levels=3) for body in rest)
    detectors = []
    for has_past in (False, True):
        bodies = [
            Embedded(impinge.TriMesh(body.vertices, body.faces), shapes.tet_box(3, 3, 3, size=3.0, center=centre))
            for body, centre in zip(rest, centres)
        ]
        detector = SphereTree(*bodies, tree_a=tree_a, tree_b=tree_b, tracking=tracking, order=order)
        for amount in (-0.2, 0.1) if has_past else (0.1,):
            for body in bodies:
                body.move(body.model.rest + amount * np.sin(2.0 * body.model.rest[:, [1, 2, 0]]))
            if amount < 0.0:
                detector.query()
        detectors.append(detector)
    waited, deep = 0, 0
    for most in (1, 2, 9, 10, 30, 100, 300, 301):
        fresh, late = (detector.query(max_tests=most) for detector in detectors)
        np.testing.assert_array_equal(fresh.possible, late.possible)
        for name in ("possible_depth", "possible_point", "possible_normal"):
            np.testing.assert_array_equal(getattr(fresh, name), getattr(late, name))
        waited += len(late.possible)
        deep += int((late.possible_depth > 0.0).sum())
    assert waited > 300
    assert deep > 100


def test_result_outlives_the_frame(rng):
    """Keep the spheres that a result was made of, whatever the bodies do later."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b)
    late, early = detector.query(), detector.query()
    points = early.point.copy()
    a.update(a.vertices + 5.0)
    assert not detector.query()
    np.testing.assert_array_equal(late.point, points)
    again = pickle.loads(pickle.dumps(late))
    np.testing.assert_array_equal(again.point, points)
    assert set(late.to_dict()) >= {"certain", "possible", "level", "point", "normal", "depth", "complete"}
    assert len(late.changes(early).persisting) == len(late.certain)


@pytest.mark.parametrize("exact", [False, True])
def test_small_trees(exact):
    """Answer for single triangles, points, bodies far apart, equal bodies and bodies without triangles."""
    triangle = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    point = impinge.TriMesh([[0.25, 0.25, 0.0]] * 3, [[0, 1, 2]])
    nothing = impinge.TriMesh([], [])
    far = impinge.TriMesh([[9, 0, 0], [10, 0, 0], [9, 1, 0]], [[0, 1, 2]])

    def find(a, b):
        return SphereTree(a, b, exact=exact).query()

    assert rows(find(triangle, point).certain)
    assert rows(find(point, impinge.TriMesh(point.vertices, point.faces)).certain)
    assert not find(triangle, far)
    assert find(triangle, far).complete
    assert not find(triangle, nothing)
    assert find(nothing, triangle).complete
    same = find(triangle, impinge.TriMesh(triangle.vertices, triangle.faces))
    assert len(same.certain) > 0
    np.testing.assert_allclose(np.linalg.norm(same.normal, axis=1), 1.0)
    single = build_spheres(triangle, builder="octree", levels=0)
    alone = SphereTree(triangle, far, tree_a=single, exact=exact).query()
    assert alone.complete
    assert not alone
    twin = impinge.TriMesh(triangle.vertices, triangle.faces)
    both = SphereTree(triangle, twin, tree_a=single, tree_b=single, exact=exact).query()
    assert rows(both.certain) == [(0, 0)]
    np.testing.assert_allclose(replace(both, normals="centres").depth, 2.0 * single.radius)


def test_equal_bodies(rng):
    """Find that a body meets its copy everywhere."""
    a = bumpy(rng)
    result = SphereTree(a, impinge.TriMesh(a.vertices, a.faces), exact=True).query()
    np.testing.assert_array_equal(np.unique(result.pairs[:, 0]), np.arange(len(a)))


def test_edits(rng):
    """Follow removed and added triangles with a tree of the body's own; refuse a given one that no longer fits."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    tree = build_spheres(a, builder="octree", levels=2)
    own, given = SphereTree(a, b, exact=True), SphereTree(a, b, tree_a=tree)
    given.query()
    hit = own.query().pairs[:, 0]
    a.remove_triangles(hit[:5])
    a.add_triangles([[0, 1, 2]], vertices=[[0.0, 0.0, 0.0]])
    expected = impinge.triangle_pairs(a, b)
    assert len(expected) > 0
    np.testing.assert_array_equal(own.query().pairs, expected.pairs)
    with pytest.raises(MeshError, match="belongs to another mesh"):
        given.query()


# Budgets --------------------------------------------------------------------------------------------------


def test_edits_while_spheres_are_built(rng, monkeypatch):
    """Build spheres around the triangles that a query began with, though another thread adds some meanwhile."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b, exact=True)
    before = impinge.triangle_pairs(a, b).pairs

    def edit_and_build(mesh, **options):
        if len(a) == len(b):
            a.add_triangles(np.array(a.faces[np.unique(before[:, 0])]))
        return build_spheres(mesh, **options)

    monkeypatch.setattr(tracked_spheres, "build_spheres", edit_and_build)
    np.testing.assert_array_equal(detector.query().pairs, before)
    after = impinge.triangle_pairs(a, b).pairs
    np.testing.assert_array_equal(detector.query().pairs, after)
    assert len(after) == 2 * len(before) > 20


def test_time_that_is_not_enough(rng):
    """Say that all is possible where the time does not even suffice for the update."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    for kind in ("wrapped", "layered"):
        trees = {
            f"tree_{name}": build_spheres(body, builder="octree", kind=kind, levels=2)
            for name, body in zip("ab", (a, b))
        }
        detector = SphereTree(a, b, **trees)
        detector.query()
        a.update(a.vertices)
        result = detector.query(budget_ms=1e-6)
        assert rows(result.possible) == [(0, 0)]
        assert (len(result.certain), result.level, result.complete, result.reason) == (0, 0, False, "budget")
        assert result.stats["outdated"]
        assert result.possible_depth[0] > 0.0
        assert not detector.query().stats["outdated"]


def test_enough_time_is_all_the_time(rng):
    """Answer as without a budget where it is large, and nothing false where it is not."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b, exact=True)
    whole = detector.query()
    for budget in (0.01, 0.1, 0.3, 1.0, 3.0, 1e9, 1e300):
        result = detector.query(budget_ms=budget)
        assert set(rows(result.certain)) <= set(rows(whole.certain))
        assert set(rows(result.pairs)) <= set(rows(whole.pairs))
        assert result.complete or result.reason == "budget"
    assert result.complete
    np.testing.assert_array_equal(result.pairs, whole.pairs)


def test_cancelled(rng):
    """Stop when the caller says so, and say that."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    stop = threading.Event()
    detector = SphereTree(a, b)
    assert detector.query(cancel=stop).complete
    stop.set()
    result = detector.query(cancel=stop)
    assert result.reason == "cancelled"
    assert rows(result.possible) == [(0, 0)]


@pytest.mark.parametrize("order", ["breadth", "priority"])
@pytest.mark.parametrize("max_tests", [None, 2000])
def test_looking_for_a_cancel_changes_nothing(rng, monkeypatch, order, max_tests):
    """Find the same in many slices as at once.

    Each slice listed what it had: the heap of priorities was empty after the first, and once listing took longer than a
    slice, no slice tested anything.
    """
    a, b = bumpy(rng, 4), bumpy(rng, 4, centre=(0.3, 0.1, 0.1))
    detector = SphereTree(a, b, order=order)
    expected = detector.query(max_tests=max_tests)
    monkeypatch.setattr(context, "SLICE_NS", 30_000)
    found = detector.query(max_tests=max_tests, cancel=threading.Event())

    assert len(expected.certain) > (10_000 if max_tests is None else -1)
    assert_same(found, expected)


class SetLater:
    """Set once it was looked at so many times."""

    def __init__(self, times):
        self.left = times

    def is_set(self):
        """Count down."""
        self.left -= 1
        return self.left < 0


def test_exact_stage_is_cancelled(rng, monkeypatch):
    """Stop between slices of the exact stage, say so, and lose nothing of what the slices found."""
    a, b = bumpy(rng, 3), bumpy(rng, 3, centre=(0.3, 0.1, 0.1))
    detector = SphereTree(a, b, exact=True)
    whole = detector.query()
    monkeypatch.setattr(exact, "SLICE_NS", 1)
    found = detector.query(cancel=SetLater(10**9))
    np.testing.assert_array_equal(found.pairs, whole.pairs)
    assert found.complete

    cut = detector.query(cancel=SetLater(8))
    assert cut.reason == "cancelled"
    assert set(rows(cut.pairs)) < set(rows(whole.pairs))
    assert len(cut.certain) + len(cut.possible) > len(whole.certain)


def assert_same(found, expected):
    """Compare what two searches have found."""
    np.testing.assert_array_equal(found.certain, expected.certain)
    np.testing.assert_array_equal(found.possible, expected.possible)
    assert (found.level, found.complete) == (expected.level, expected.complete)
    assert found.stats["tests"] == expected.stats["tests"]


def test_waiting_for_another_query_ends_with_a_cancel(rng):
    """Look at ``cancel`` while another query holds the spheres."""
    detector, stop = SphereTree(bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))), threading.Event()
    detector.query()
    stop.set()
    with ThreadPoolExecutor() as pool, detector._lock:
        result = pool.submit(detector.query, cancel=stop).result(timeout=600)

    assert result.reason == "cancelled"
    assert rows(result.possible) == [(0, 0)]


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda detector: pickle.loads(pickle.dumps(detector))])
def test_detectors_are_copied_with_their_bodies(rng, is_used, copied):
    """Search copies of the bodies, in memory of the copy's own, before and after a query."""
    detector = SphereTree(bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1)), exact=True)
    if is_used:
        detector.query()
    twin = copied(detector)
    twin.bodies[0].update(np.add(twin.bodies[0].vertices, [0.1, 0.0, 0.0]))
    expected = impinge.triangle_pairs(*twin.bodies).pairs

    np.testing.assert_array_equal(twin.query().pairs, expected)
    np.testing.assert_array_equal(detector.query().pairs, impinge.triangle_pairs(*detector.bodies).pairs)
    assert len(expected) > 5


def test_repr_names_bodies_and_options(rng):
    """Show the sizes of both bodies, the tracking and the exact stage."""
    a, b = shapes.icosphere(1), shapes.icosphere(2)
    assert repr(SphereTree(a, b)) == "<SphereTree: a 80 triangles, b 320 triangles, tracking refit>"
    alone = SphereTree(a, tracking="affine", exact=True)
    assert repr(alone) == "<SphereTree: a 80 triangles, self-collision, tracking affine, exact>"


def test_copies_keep_options(rng):
    """Copy every option of a detector, and share nothing but what is immutable."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    options = {"tracking": "affine", "controls": 5, "order": "priority", "queue_limit": 9, "exact": True}
    detector = SphereTree(a, b, tree_a=build_spheres(a, builder="octree", levels=2), **options)
    twin = pickle.loads(pickle.dumps(detector))
    assert {name: twin._arguments[name] for name in options} == options
    assert_same(twin.query(max_tests=300), detector.query(max_tests=300))
    assert twin.bodies[0] is not a


def test_spheres_that_were_not_visited_are_where_they_were(rng):
    """Name no sphere without a place when the time is up, though every result keeps its own buffer."""
    a, b = bumpy(rng, 4), bumpy(rng, 4, centre=(0.3, 0.1, 0.1))
    detector = SphereTree(a, b)
    detector.query()
    rest, kept, not_visited = np.array(a.vertices), [], 0
    for step in range(60):
        a.update(np.add(rest, [0.001 * step, 0.0, 0.0]))
        kept.append(detector.query(budget_ms=(1.0, 0.2, 1e-6)[step % 3]))
    for found in kept:
        for k, spheres in enumerate(found.spheres):
            x, y, z, radius = spheres.of(found.possible[:, k]).T
            assert (radius > 0.0).all()
            assert (np.abs([x, y, z]) < 4.0).all()
        not_visited += int(not found.complete)
    assert not_visited > 0


@pytest.mark.parametrize("size", [1e-140, 1e140, 1e200])
def test_bodies_that_grow_beyond_all_measure(rng, size):
    """Follow bodies that were built at another size: products of their normals were no numbers."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b, exact=True)
    expected = detector.query().pairs
    for body in (a, b):
        body.update(body.vertices * size)

    np.testing.assert_array_equal(detector.query().pairs, expected)
    assert len(expected) > 20


def test_many_threads(rng):
    """Return the same to concurrent threads that query the same bodies as to one."""
    bodies = [bumpy(rng, centre=(0.9 * k, 0.2, 0.1)) for k in range(3)]
    pairs = [(0, 1), (1, 2), (1, 0), (2, 1)]
    expected = [SphereTree(bodies[i], bodies[j], exact=True).query() for i, j in pairs]
    found = [[] for _ in pairs]

    def find(k):
        detector = SphereTree(bodies[pairs[k][0]], bodies[pairs[k][1]], exact=True)
        found[k] = [detector.query() for _ in range(20)]

    threads = [threading.Thread(target=find, args=(k,)) for k in range(len(pairs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results, one in zip(found, expected):
        assert len(results) == 20
        for result in results:
            np.testing.assert_array_equal(result.certain, one.certain)
            np.testing.assert_array_equal(result.pairs, one.pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_ms": 0}, "budget_ms is 0, expected a positive number of milliseconds, or None for no limit"),
        ({"budget_ms": -1.5}, "budget_ms is -1.5, expected a positive number"),
        ({"budget_ms": float("nan")}, "budget_ms is nan, expected a positive number"),
        ({"budget_ms": "1"}, "budget_ms is '1', expected a positive number"),
        ({"max_tests": 0}, "max_tests is 0, expected a whole number from 1"),
        ({"max_tests": 1.5}, "max_tests is 1.5, expected a whole number from 1"),
        ({"ignore": [[0, 0]]}, "ignore is about pairs of triangles, but this search ends at spheres; pass exact=True"),
        ({"max_pairs": 3}, "max_pairs is about pairs of triangles, but this search ends at spheres"),
        ({"max_pairs": 0}, "max_pairs is 0, expected a whole number from 1"),
        ({"active_a": [99]}, "active_a"),
        ({"level": -1}, "level is -1, expected a whole number from 0, the root's level"),
        ({"cancel": 1}, r"cancel is 1, expected an object with is_set\(\)"),
        ({"transform_a": np.eye(3)}, r"transform_a has shape \(3, 3\), expected \(4, 4\)"),
    ],
)
def test_bad_options_of_a_query(options, message):
    """Refuse what is no budget with a sentence."""
    with pytest.raises(OptionError, match=message):
        SphereTree(shapes.box(1.0), shapes.box(1.0)).query(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "random"}, "order is 'random', expected one of 'breadth', 'priority'"),
        ({"tracking": "magic"}, "tracking is 'magic', expected one of 'auto', 'paper', 'affine', 'refit', 'bound'"),
        ({"tracking": "bound"}, "tracking='bound' needs a surface that is embedded in a coarse mesh"),
        ({"controls": 0}, "controls is 0, expected a whole number from 1"),
        ({"queue_limit": 0}, "queue_limit is 0, expected a whole number from 1"),
        ({"tree_a": 3}, "tree_a is a int, expected a SphereHierarchy; build_spheres makes one"),
    ],
)
def test_bad_options(options, message):
    """Refuse what is no option with a sentence."""
    with pytest.raises(OptionError, match=message):
        SphereTree(**({"a": shapes.box(1.0), "b": shapes.box(1.0)} | options))


def test_tree_of_another_body():
    """Refuse a tree that was built for another mesh."""
    with pytest.raises(MeshError, match="belongs to another mesh"):
        SphereTree(shapes.box(1.0), shapes.box(1.0), tree_a=build_spheres(shapes.icosphere(1), builder="octree"))


def test_nothing_moves_without_a_transform():
    """Keep the array that stands for no transform as it is."""
    assert not NO_TRANSFORM.any()


# One-shot, sharing, pictures ------------------------------------------------------------------------------


def test_one_question(rng):
    """Ask once, with and without a budget; build the tree outside of the budget, and keep it with the body."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    result = impinge.sphere_contacts(a, b, budget_ms=None, exact=True)
    np.testing.assert_array_equal(result.pairs, impinge.triangle_pairs(a, b).pairs)
    assert impinge.sphere_contacts(a, b, budget_ms=1e9).complete
    assert impinge.sphere_contacts(a, b, max_tests=5).stats["tests"] <= 5
    assert impinge.sphere_contacts(a, b, level=1, order="priority", budget_ms=None).reason == "limit"
    assert side(SphereTree(a, b), 0).tree is side(SphereTree(a, b, controls=4), 0).tree
    with pytest.raises(OptionError, match="budget_ms is 'soon', expected a positive number of milliseconds"):
        impinge.sphere_contacts(a, b, budget_ms="soon")


def test_one_question_by_tests_does_not_look_at_the_clock(rng, monkeypatch):
    """Give a question a millisecond, unless it names its tests, which then repeat, or another budget."""
    budgets, query = [], SphereTree.query

    def remember(self, **options):
        budgets.append(options["budget_ms"])
        return query(self, **options)

    monkeypatch.setattr(SphereTree, "query", remember)
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    for options in ({}, {"max_tests": 50}, {"max_tests": 50, "budget_ms": 7.0}, {"budget_ms": None}):
        impinge.sphere_contacts(a, b, **options)
    assert budgets == [1.0, None, 7.0, None]


def test_one_question_takes_given_trees(rng):
    """Make a quick tree for a body, unless one is given."""
    a, b = bumpy(rng), bumpy(rng, centre=(1.2, 0.3, 0.1))
    given = {f"tree_{name}": build_spheres(body, levels=2) for name, body in zip("ab", (a, b))}
    quick = impinge.sphere_contacts(a, b, budget_ms=None)
    medial = impinge.sphere_contacts(a, b, budget_ms=None, **given)
    for result, builder in ((quick, "octree"), (medial, "medial")):
        for k, body in enumerate((a, b)):
            tree = build_spheres(body, builder=builder, levels=2)
            leaves = result.spheres[k].of(result.certain[:, k])
            np.testing.assert_allclose(leaves[:, :3], tree.centre[result.certain[:, k]], atol=1e-6)
            np.testing.assert_allclose(leaves[:, 3], tree.radius[result.certain[:, k]], rtol=1e-4)
    assert min(len(quick.certain), len(medial.certain)) > 20


def test_shared_budget(rng):
    """Share time by weight and by distance to a viewer; a pair without time is possible, not dropped."""
    bodies = [bumpy(rng, centre=(1.5 * k, 0.0, 0.0)) for k in range(5)]
    trees = [SphereTree(a, b) for a, b in itertools.pairwise(bodies)]
    for tree in trees:
        tree.query()
    everything = impinge.share_budget(trees, 1e9)
    assert all(result.complete for result in everything)
    only_one = impinge.share_budget(trees, 1e9, weights=[0.0, 1.0, 0.0, 0.0])
    assert [result.complete for result in only_one] == [False, True, True, True]  # what is left goes to the last
    assert rows(only_one[0].possible) == [(0, 0)]
    assert all(result.complete for result in impinge.share_budget(trees, 1e9, viewer=[0.0, 0.0, 5.0]))
    near = sharing._by_distance(trees, [-4.0, 0.0, 0.0])
    assert (np.diff(near) < 0.0).all()
    small, floor = shapes.box(0.1), shapes.box((50.0, 50.0, 1.0))
    on_floor = sharing._by_distance([SphereTree(small, floor), SphereTree(floor, small)], [0.0, 0.0, 20.0])
    np.testing.assert_allclose(on_floor, 0.01 * 3.0 / 400.0, rtol=1e-3)  # what the smaller one fills of the view
    for viewer in ([0.0, 0.0, 0.0], [1e300, 0.0, 0.0], [1.5, 0.0, 0.0]):
        assert np.isfinite(sharing._by_distance(trees, viewer)).all()
    huge = impinge.share_budget((tree for tree in trees), 1e9, weights=[1e308] * 4)
    assert all(result.complete for result in huge)
    assert impinge.share_budget([], 1.0) == []
    assert impinge.share_budget([], 1.0, weights=[]) == []


def test_shared_budget_of_very_many_pairs(rng, monkeypatch):
    """Query the heaviest pairs where there is no time for all; leave the others possible."""
    trees = [SphereTree(bumpy(rng, 1), bumpy(rng, 1)) for _ in range(6)]
    monkeypatch.setattr(sharing, "LEAST_NS", 10**12)
    found = impinge.share_budget(trees, 3.5e6, weights=[1.0, 5.0, 2.0, 0.0, 4.0, 0.5])

    assert [result.complete for result in found] == [False, True, True, False, True, True]  # the last has what is left
    assert [rows(found[k].possible) for k in (0, 3)] == [[(0, 0)]] * 2
    assert [result.reason for result in found][:2] == ["budget", None]


@pytest.mark.parametrize(
    ("shares", "used", "expected"),
    [
        ({}, [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]),
        ({}, [0.25, 1.0, 1.0], [2.0, 2.75, 2.75]),
        ({"weights": [1.0, 2.0, 3.0]}, [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        ({"weights": [3.0, 2.0, 1.0]}, [0.5, 1.0, 1.0], [3.0, 3.0, 1.5]),
        ({"viewer": [-4.0, 0.0, 0.0]}, [1.0, 1.0, 1.0], None),
    ],
)
def test_parts_of_a_shared_budget(rng, monkeypatch, shares, used, expected):
    """Give each pair its share of the remaining time, which includes what earlier pairs left; more if nearer."""
    now, given, use = [0], [], iter(used)

    def spend(self, *, budget_ms):
        given.append(budget_ms)
        now[0] += int(1e6 * budget_ms * next(use))

    monkeypatch.setattr(sharing, "now_ns", lambda: now[0])
    monkeypatch.setattr(SphereTree, "query", spend)
    bodies = [bumpy(rng, centre=(3.0 * k, 0.0, 0.0)) for k in range(4)]
    impinge.share_budget([SphereTree(a, b) for a, b in itertools.pairwise(bodies)], 6.0, **shares)
    if expected is None:
        assert given[0] > 1.5 * given[1] > 2.25 * given[2] > 0.0
        assert sum(given) == pytest.approx(6.0)
    else:
        np.testing.assert_allclose(given, expected, rtol=1e-5)


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e-30, 1e30, 1e150, 1e300])
@pytest.mark.parametrize("kind", ["wrapped", "layered"])
def test_bodies_of_any_size(rng, size, kind):
    """Find the oracle's pairs for tiny and huge bodies, deformed too, and name no contact that is not finite."""
    a, b = bumpy(rng, 1), bumpy(rng, 1, centre=(1.2, 0.3, 0.1))
    bodies = [impinge.TriMesh(body.vertices * size, body.faces) for body in (a, b)]
    trees = {
        f"tree_{name}": build_spheres(body, builder="octree", kind=kind, levels=2) for name, body in zip("ab", bodies)
    }
    detector = SphereTree(*bodies, exact=True, **trees)
    for stretch in (1.0, 0.7, 0.0):
        bodies[0].update(a.vertices * [size, stretch * size, size])
        result = detector.query()
        expected = impinge.BruteForce(*bodies).query().pairs
        np.testing.assert_array_equal(result.pairs, expected)
        assert len(expected) > 5
        for found in (result, detector.query(max_tests=30)):
            contacts = (found.point, found.normal, found.depth)
            waiting = (found.possible_point, found.possible_normal, found.possible_depth)
            assert all(np.isfinite(column).all() for column in (*contacts, *waiting))


@pytest.mark.parametrize("kind", ["wrapped", "layered"])
@pytest.mark.parametrize("order", ["breadth", "priority"])
def test_same_state_for_any_number_of_threads(rng, order, kind):
    """Be in the same state after so many tests, to the bit, on one thread and on all."""
    a, b = bumpy(rng, 4), bumpy(rng, 4, centre=(1.2, 0.3, 0.1))
    trees = {
        f"tree_{name}": build_spheres(body, builder="octree", kind=kind, levels=3) for name, body in zip("ab", (a, b))
    }
    moved = np.array(a.vertices) * [1.1, 0.9, 1.0]
    most_threads, states = thread_count(), []
    for threads in (1, most_threads):
        impinge.set_threads(threads)
        try:
            detector = SphereTree(a, b, exact=True, order=order, **trees)
            for most in (40, 3_000, 10**9):
                a.update(moved)
                result = detector.query(max_tests=most)
                columns = (result.certain, result.possible, result.pairs, result.point, result.depth)
                states.append([each.tobytes() for each in columns])
        finally:
            impinge.set_threads(most_threads)
    assert states[:3] == states[3:]
    assert len(result.pairs) > 50


@pytest.mark.parametrize("tracking", ["paper", "affine"])
@pytest.mark.parametrize("exponent", [-990, -500, 500, 990])
def test_controls_of_bodies_of_any_size(rng, tracking, exponent):
    """Let the same vertices steer the spheres of a tiny or huge body as of a moderate one."""
    body, found = bumpy(rng, 1), []
    for e in (0, exponent):
        scaled = impinge.TriMesh(np.ldexp(body.vertices, e), body.faces)
        tree = build_spheres(scaled, builder="octree", levels=2)
        scaled.update(np.ldexp(body.vertices + 0.3 * np.sin(3.0 * body.vertices[:, [1, 2, 0]]), e))
        detector = SphereTree(scaled, shapes.box(1.0), tree_a=tree, tracking=tracking, controls=5)
        detector.query()
        found.append(np.ldexp(spheres_of(detector, 0)[:, :3], -e))
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)
    assert len(found[0]) > 20


def test_numbers_of_any_size(rng):
    """Take limits beyond 64 bits for none, and a body's vertices for all controls that there are."""
    a, b = bumpy(rng, 1), bumpy(rng, 1, centre=(1.2, 0.3, 0.1))
    detector = SphereTree(a, b, queue_limit=10**40, controls=10**40)
    whole = detector.query()
    assert len(whole.certain) > 5
    for options in ({"max_tests": 10**40}, {"level": 10**40}, {"budget_ms": 10**400}, {"budget_ms": float("inf")}):
        result = detector.query(**options)
        np.testing.assert_array_equal(result.certain, whole.certain)
        assert result.complete


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 2.0]}, r"weights have shape \(2,\), expected \(1,\): one for each pair"),
        ({"weights": [-1.0]}, "weights hold a negative or non-finite number, or only zeros"),
        ({"weights": [0.0]}, "weights hold a negative or non-finite number, or only zeros"),
        ({"viewer": [0.0, 1.0]}, r"viewer has shape \(2,\), expected \(3,\): a point"),
        (
            {"viewer": [0.0, float("nan"), 1.0]},
            r"viewer is \[0.0, nan, 1.0\], expected a point with finite coordinates",
        ),
        (
            {"trees": SphereTree(shapes.box(1.0), shapes.box(1.0))},
            "trees is one SphereTree, expected several; call its query with the whole budget",
        ),
        ({"trees": [3]}, r"trees\[0\] is a int, expected a SphereTree, one for each pair of bodies"),
        ({"weights": [1.0], "viewer": [0, 0, 0]}, "weights and viewer are both given"),
        ({"budget_ms": 0.0}, "budget_ms is 0.0, expected a positive number of milliseconds"),
    ],
)
def test_bad_shares(options, message):
    """Refuse what cannot be shared with a sentence."""
    tree = SphereTree(shapes.box(1.0), shapes.box(1.0))
    with pytest.raises(OptionError, match=message):
        impinge.share_budget(**({"trees": [tree], "budget_ms": 1.0} | options))


@pytest.mark.medium
def test_picture(rng, tmp_path):
    """Draw the spheres of a result, of an empty one too."""
    pytest.importorskip("matplotlib")
    a, b = bumpy(rng, 1), bumpy(rng, 1, centre=(1.2, 0.3, 0.1))
    result = SphereTree(a, b).query(max_tests=40)
    pixels = result.plot()
    assert pixels.std() > 5.0
    assert result.plot(tmp_path / "spheres.png").stat().st_size > 1000
    nothing = SphereTree(a, impinge.TriMesh([], [])).query()
    assert nothing.plot().std() > 1.0


def test_soft_bodies_are_seen_as_a_whole(monkeypatch):
    """Wait for a surface that is about to follow its coarse mesh, whose spheres have moved already."""
    soft = impinge.SoftBody.from_surface(shapes.icosphere(2), method="cubes", cells=3)
    left, right = (soft.model.rest + np.array([shift, 0.0, 0.0]) for shift in (-1.7, 1.7))
    soft.coarse.update(left)
    fixed = shapes.icosphere(2)
    detector, found = SphereTree(soft, fixed, exact=True), []
    states = [detector.query().pairs]
    asking = threading.Thread(target=lambda: found.append(detector.query().pairs))
    follow = soft.surface.follow

    def follow_late(vertices):
        asking.start()
        asking.join(0.2)
        follow(vertices)

    monkeypatch.setattr(soft.surface, "follow", follow_late)
    soft.coarse.update(right)
    asking.join()
    states.append(detector.query().pairs)

    assert rows(found[0]) in [rows(pairs) for pairs in states]
    assert len(states[0]) > 0
    assert rows(states[0]) != rows(states[1])
