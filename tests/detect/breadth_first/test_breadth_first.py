"""The level-by-level traversal: its lists are right on every level, and no option changes the answer."""

from __future__ import annotations

import copy
import importlib.util
import os
import pickle
from collections import defaultdict
from itertools import product

import numpy as np
import pytest

import breadth_first_trees
import impinge
import stress
from impinge import BreadthFirst, BruteForce, scenes
from impinge.detect.breadth_first import trees
from impinge.detect.breadth_first.detector import query_many
from impinge.detect.breadth_first.kernels import CHUNK
from impinge.detect.breadth_first.trees import Device, level_table
from impinge.errors import ImpingeError, MeshError, OptionError

VARIANTS = {
    "scan": {},
    "from the roots": {"entry_threshold": None},
    "small blocks": {"block_pairs": 5},
    "14-dop": {"volume": "14-dop"},
    "18-dop": {"volume": "18-dop"},
}


def assert_same(result, expected):
    np.testing.assert_array_equal(result.pairs, expected.pairs)
    np.testing.assert_array_equal(result.kind, expected.kind)


def spheres():
    return scenes.get("bumpy_spheres_1k").surfaces


def soup(rng, count):
    """Triangles of half the size of the cube that they are in."""
    corners = rng.random((count, 1, 3)) + rng.random((count, 3, 3))
    return impinge.TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def degenerate_matrix(rng):
    """A signed permutation, at times scaled by a power of two or flattened, and a whole shift: all sums are exact."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3) * rng.choice([1.0, 1.0, 2.0, 0.5, 0.0])
    matrix[:3, 3] = rng.integers(-1, 2, 3)
    return matrix


def random_matrix(rng, size=0.3):
    matrix = np.eye(4)
    matrix[:3] += size * rng.standard_normal((3, 4))
    return matrix


@pytest.fixture
def visited(monkeypatch):
    """Node pairs visited at each height, in order, one entry per block."""
    lists = defaultdict(list)
    run = Device.run

    def recording(self, kernel, work, *args):
        run(self, kernel, work, *args)
        if kernel == "visit_pairs":
            height, pairs = args[0], args[-2]
            lists[height].append(pairs.copy())

    monkeypatch.setattr(Device, "run", recording)
    return lists


def lists_of(visited, a, b, **options):
    visited.clear()
    BreadthFirst(a, b, entry_threshold=None, **options).query()
    return {height: np.concatenate(blocks) for height, blocks in visited.items()}


# Expansion ------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.tiny
def test_count_makes_no_list():
    """Count what a query would find."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    detector = impinge.BreadthFirst(a, b)

    assert len(detector.query()) == detector.count() > 100


def test_scan_expands_as_repeating_does(rng):
    """Find input and child number of every output, from any output on, as ``np.repeat`` does."""
    for size in (1, 2, 3, 7, 64, 65, 300):
        counts = rng.choice([0, 0, 1, 2, 4], size).astype(np.int64)
        counts[rng.integers(size)] += 1
        source = np.repeat(np.arange(size), counts)
        child = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
        start, total = Device().scan(counts)
        assert total == counts.sum()
        for first in (0, total // 3):
            found = np.zeros(total - first, np.int32), np.zeros(total - first, np.int64)
            chunks = -(-(total - first) // CHUNK)
            Device().run("expand_scan", chunks, chunks, start, first, *found)
            np.testing.assert_array_equal(found[0], source[first:])
            np.testing.assert_array_equal(found[1], child[first:])


def expected_lists(tree_a, tree_b):
    """Node pairs of each level (4.2): the pairs of children of all pairs of the level above that overlap."""
    pairs, levels = {(0, 0)}, {}
    for height in range(max(tree_a.height, tree_b.height), -1, -1):
        levels[height] = pairs
        (first_a, _), (first_b, _) = tree_a.level[height], tree_b.level[height]
        count_a, count_b = tree_a.level[max(height - 1, 0), 1], tree_b.level[max(height - 1, 0), 1]
        overlapping = [
            (i, j)
            for i, j in pairs
            if (tree_a.box[first_a + i, :3] <= tree_b.box[first_b + j, 3:]).all()
            and (tree_b.box[first_b + j, :3] <= tree_a.box[first_a + i, 3:]).all()
        ]
        children = {(2 * i + k, 2 * j + m) for i, j in overlapping for k, m in product((0, 1), repeat=2)}
        pairs = {(i, j) for i, j in children if i < count_a and j < count_b}
    return levels


@pytest.mark.small
def test_lists_hold_the_children_of_overlapping_pairs(visited, rng):
    """Visit on every level the children of overlapping node pairs, each once, also for trees of different depths."""
    for count_a, count_b in ((37, 50), (3, 90), (64, 1)):
        a, b = soup(rng, count_a), soup(rng, count_b)
        found = lists_of(visited, a, b)
        trees = [body._structures["breadth_first on cpu"]._fitted["aabb"][1] for body in (a, b)]
        expected = {height: sorted(pairs) for height, pairs in expected_lists(*trees).items() if pairs}

        assert {height: sorted((i, j) for _, i, j in pairs.tolist()) for height, pairs in found.items()} == expected


# Tree -----------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("volume", trees.DIRECTIONS)
def test_trees_of_every_size_are_valid(rng, volume):
    """Keep every triangle in one leaf, the paper's level counts, and parents around children, after build and refit."""
    for count in range(101):
        a = soup(rng, count)
        detector = BreadthFirst(a, volume=volume)
        breadth_first_trees.assert_valid(detector)
        a.update(a.vertices + rng.standard_normal(a.vertices.shape))
        breadth_first_trees.assert_valid(detector)


@pytest.mark.small
def test_trees_follow_edits(rng):
    """Answer for the triangles that are alive, frame after frame of edits, with valid trees."""
    a, b = soup(rng, 60), soup(rng, 40)
    detector = BreadthFirst(a, b)
    hits = 0
    for _ in range(10):
        a.remove_triangles(rng.choice(len(a.faces), 5))
        a.add_triangles([[0, 1, 2]], vertices=rng.random((3, 3)))
        b.add_triangles(rng.integers(0, len(b.vertices), (3, 3)))
        if rng.random() < 0.3:
            a.compact()
        assert_same(detector.query(), BruteForce(a, b).query())
        assert_same(BreadthFirst(b).query(), BruteForce(b).query())
        breadth_first_trees.assert_valid(detector)
        hits += detector.count()

    assert hits > 100


@pytest.mark.small
def test_level_counts():
    """Halve the number of nodes from level to level, rounding up, and repeat the root above it."""
    table = level_table(11)

    assert table[:6].tolist() == [[0, 11], [11, 6], [17, 3], [20, 2], [22, 1], [22, 1]]
    assert (level_table(0) == 0).all()
    assert (level_table(1) == [0, 1]).all()


# Options that do not change the answer ----------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_agree_on_adversarial_scenes(variant, rng):
    """Find the pairs of brute force on every adversarial scene, as it is and moved by exact and by random matrices."""
    hits = 0
    for name in stress.PAIRS:
        x_a, f_a, x_b, f_b = stress.scene(name, 7, 12)
        a, b = impinge.TriMesh(x_a, f_a), impinge.TriMesh(x_b, f_b)
        detector = BreadthFirst(a, b, **VARIANTS[variant])
        moves = [{}, {"transform_b": degenerate_matrix(rng)}, {"transform_a": degenerate_matrix(rng)}]
        moves.append({"transform_a": random_matrix(rng), "transform_b": random_matrix(rng)})
        for options in moves[:1] if name == "largest" else moves:  # which any other move takes out of range
            expected = BruteForce(a, b).query(**options)
            assert_same(detector.query(**options), expected)
            hits += len(expected)

    assert hits > 1000


@pytest.mark.small
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_agree_on_one_body(variant):
    """Find the pairs of brute force within one body, on every scene made for self-collision."""
    hits = 0
    for name in stress.SELF:
        a = impinge.TriMesh(*stress.scene(name, 7, 24))
        for neighbours in ("exact", "skip"):
            expected = BruteForce(a, neighbours=neighbours).query()
            assert_same(BreadthFirst(a, neighbours=neighbours, **VARIANTS[variant]).query(), expected)
            hits += len(expected)

    assert hits > 300


@pytest.mark.small
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_agree_over_frames(variant, rng):
    """Give the same pairs frame after frame, with the entry level that the frames before have led to."""
    a, b = spheres()
    detector = BreadthFirst(a, b, **VARIANTS[variant])
    for _ in range(6):
        matrix = random_matrix(rng, 0.05)
        expected = BruteForce(a, b).query(transform_b=matrix)
        result = detector.query(transform_b=matrix)

        assert_same(result, expected)
        assert result.stats["hits"] == len(expected) > 10


@pytest.mark.small
def test_entry_level_follows_the_overlap():
    """Start deeper while many boxes overlap, at the roots again when bodies part, and with equal answers."""
    a, b = spheres()
    detector = BreadthFirst(a, b)
    levels = []
    for _ in range(12):
        result = detector.query()
        levels.append(result.stats["entry_level"])
        assert_same(result, BruteForce(a, b).query())
    assert levels[0] == 0
    assert max(levels) >= 2
    assert max(np.abs(np.diff(levels))) == 1

    b.update(b.vertices + 100.0)
    for _ in range(12):
        assert len(detector.query()) == 0
    assert detector.query().stats["entry_level"] == 0
    b.update(a.vertices)
    assert_same(detector.query(), BruteForce(a, b).query())


@pytest.mark.small
@pytest.mark.parametrize("threshold", [0.001, 0.5, 1.0])
def test_threshold_changes_the_start_and_not_the_answer(threshold):
    """Answer alike for any threshold, of two bodies and of one; a low one leads deep, up to what a block holds."""
    a, b = spheres()
    pair = BreadthFirst(a, b, entry_threshold=threshold, block_pairs=1 << 14)
    one = BreadthFirst(a, entry_threshold=threshold)
    for _ in range(10):
        result = pair.query()
        assert_same(result, BruteForce(a, b).query())
        assert_same(one.query(), BruteForce(a).query())

    # 80 x 80 nodes on level 7 fit into a block, 160 x 160 on level 8 do not
    assert result.stats["entry_level"] == 7 if threshold == 0.001 else result.stats["entry_level"] < 5
    assert result.stats["tests_per_level"][result.stats["entry_level"]] > 0


@pytest.mark.small
def test_blocks_bound_the_lists(visited):
    """Visit no more node pairs at a time than a block has, and the same ones in all as without blocks."""
    a, b = spheres()
    expected = {height: np.unique(pairs, axis=0) for height, pairs in lists_of(visited, a, b).items()}
    for block_pairs in (1, 3, 100):
        found = lists_of(visited, a, b, block_pairs=block_pairs)

        assert max(len(block) for blocks in visited.values() for block in blocks) <= block_pairs
        for height, pairs in expected.items():
            np.testing.assert_array_equal(np.unique(found[height], axis=0), pairs)


@pytest.mark.small
def test_any_leaf_permutation_gives_the_same_answer(monkeypatch, rng):
    """Answer alike whatever order the leaves are in; a good one saves tests."""
    a, b = spheres()
    ordered = BreadthFirst(a, b).query()
    monkeypatch.setattr(trees, "leaf_order", lambda snapshot: rng.permutation(snapshot.live))
    a, b = spheres()
    shuffled = BreadthFirst(a, b).query()

    assert_same(shuffled, ordered)
    assert ordered.stats["box_tests"] < shuffled.stats["box_tests"] / 10


@pytest.mark.small
def test_unequal_depths(rng):
    """Join trees of any two depths, empty ones too."""
    sizes = (0, 1, 2, 3, 5, 33, 200)
    for count_a, count_b in product(sizes, sizes):
        a, b = soup(rng, count_a), soup(rng, count_b)
        expected = BruteForce(a, b).query()
        for options in VARIANTS.values():
            assert_same(BreadthFirst(a, b, **options).query(), expected)

    assert len(expected) > 100


@pytest.mark.small
def test_tighter_volumes_leave_fewer_candidates():
    """Test fewer boxes and triangles with k-DOPs than with boxes, for the same pairs."""
    a, b = spheres()
    tests = {volume: BreadthFirst(a, b, volume=volume).query().stats for volume in trees.DIRECTIONS}

    for volume in ("14-dop", "18-dop"):
        assert tests[volume]["box_tests"] < tests["aabb"]["box_tests"]
        assert tests[volume]["triangle_tests"] < tests["aabb"]["triangle_tests"]
        assert tests[volume]["hits"] == tests["aabb"]["hits"]


# Transforms -----------------------------------------------------------------------------------------------


@pytest.mark.small
def test_singular_and_huge_matrices_lose_no_pair(rng):
    """Find all pairs when a matrix flattens a body, nearly does, or stretches it; alone and in a joint traversal."""
    a, b = soup(rng, 40), soup(rng, 40)
    flat, thin, point, huge = (np.eye(4) for _ in range(4))
    flat[2, 2], thin[2, 2], huge[0, 0] = 0.0, 1e-18, 1e200
    point[:3, :3] = 0.0
    for matrix_a, matrix_b in product((np.eye(4), flat, thin, point, huge), repeat=2):
        options = {"transform_a": matrix_a, "transform_b": matrix_b}
        expected = BruteForce(a, b).query(**options)
        assert_same(BreadthFirst(a, b).query(**options), expected)
        assert_same(query_many([(a, b, matrix_a, matrix_b)])[0], expected)


@pytest.mark.small
def test_transforms_out_of_range_are_refused():
    """Refuse a transform that moves a vertex beyond the range of doubles."""
    a, b = spheres()
    huge = np.diag([1e308, 1.0, 1.0, 1.0])
    huge[0, 1] = 1e308
    with pytest.raises(OptionError, match="transform_b moves a vertex beyond the range of doubles"):
        BreadthFirst(a, b).query(transform_b=huge)
    with pytest.raises(OptionError, match="transform_a moves a vertex beyond the range of doubles"):
        query_many([(b, a, huge, None)])


# Count, many pairs, options ---------------------------------------------------------------------------------------


@pytest.mark.small
def test_count_is_the_number_of_pairs(rng):
    """Count what a query lists, with transforms and active triangles."""
    a, b = spheres()
    detector = BreadthFirst(a, b)
    for options in ({}, {"transform_a": random_matrix(rng)}, {"active_a": np.arange(0, 1280, 2), "active_b": [3, 700]}):
        assert detector.count(**options) == len(detector.query(**options))
    assert detector.count() > 100
    assert BreadthFirst(stress.scene("self_soup", 3, 40)).count() > 0


@pytest.mark.small
@pytest.mark.parametrize("options", [{}, {"block_pairs": 50}])
def test_many_pairs_at_once_are_as_one_by_one(rng, options):
    """Find in one traversal what single queries find, for bodies of all sizes that occur several times."""
    bodies = [soup(rng, count) for count in (0, 1, 7, 40, 130)]
    pairs = []
    for a, b in product(bodies, bodies):
        matrix_a, matrix_b = (None if rng.random() < 0.3 else random_matrix(rng) for _ in range(2))
        pairs.append((a, b, matrix_a, matrix_b))
    results = query_many(pairs, **options)

    assert len(results) == len(pairs)
    for (a, b, matrix_a, matrix_b), result in zip(pairs, results):
        assert_same(result, BruteForce(a, b).query(transform_a=matrix_a, transform_b=matrix_b))
        assert result.stats["hits"] == len(result)
        assert result.bodies == (a, b)
    assert sum(map(len, results)) > 500
    assert query_many([], **options) == []


@pytest.mark.small
def test_stats_count_every_level():
    """Count tests and overlaps per level from the root down, and time the stages on request."""
    a, b = spheres()
    impinge.time_stages(True)
    try:
        stats = BreadthFirst(a, b).query().stats
    finally:
        impinge.time_stages(False)
    tests, overlaps = stats["tests_per_level"], stats["overlaps_per_level"]

    assert len(tests) == len(overlaps) == 12
    assert tests[0] == overlaps[0] == 1
    assert sum(tests) == stats["box_tests"]
    assert all(overlap <= count for count, overlap in zip(tests, overlaps))
    assert overlaps[-1] == stats["triangle_tests"] >= stats["hits"]
    assert {"refit_ms", "expand_ms", "test_ms", "triangles_ms"} <= stats.keys()


@pytest.mark.small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "device is 'gpu', expected one of 'cpu', 'cuda'"),
        ({"volume": "obb"}, "volume is 'obb', expected one of 'aabb', '14-dop', '18-dop'"),
        ({"block_pairs": 0}, "block_pairs is 0, expected a whole number from 1"),
        ({"block_pairs": True}, "block_pairs is True"),
        ({"entry_threshold": 0.0}, "entry_threshold is 0.0, expected a share above 0 and up to 1"),
        ({"neighbours": "maybe"}, "neighbours is 'maybe'"),
    ],
)
def test_bad_options(options, message):
    """Refuse options out of range with a sentence."""
    with pytest.raises(OptionError, match=message):
        BreadthFirst(*spheres(), **options)


@pytest.mark.small
def test_detector_is_pickled_and_copied_without_trees():
    """Copy bodies and options by pickle and ``copy``, not the trees; name bodies in ``repr``."""
    a, b = spheres()
    detector = BreadthFirst(a, b, volume="14-dop", block_pairs=1000, entry_threshold=None)
    expected = detector.query()
    for twin in (pickle.loads(pickle.dumps(detector)), copy.copy(detector), copy.deepcopy(detector)):
        assert (twin.volume, twin.block_pairs, twin.entry_threshold, twin.device) == ("14-dop", 1000, None, "cpu")
        assert_same(twin.query(), expected)
    assert not pickle.loads(pickle.dumps(detector)).a.has_structure("breadth_first on cpu")
    assert repr(detector) == "<BreadthFirst: a 1,280 triangles, b 1,280 triangles>"
    assert repr(BreadthFirst(a)) == "<BreadthFirst: a 1,280 triangles, self-collision>"
    assert pickle.loads(pickle.dumps(query_many([(a, b, None, None)])[0])).bodies == ()


@pytest.mark.small
def test_bad_queries_of_many_pairs():
    """Refuse bad options, transforms and bodies of many pairs with a sentence."""
    a, b = spheres()
    with pytest.raises(OptionError, match="device is 'gpu'"):
        query_many([(a, b, None, None)], device="gpu")
    with pytest.raises(OptionError, match="block_pairs is 0"):
        query_many([(a, b, None, None)], block_pairs=0)
    with pytest.raises(OptionError, match=r"transform_b has shape \(3, 3\)"):
        query_many([(a, b, None, np.eye(3))])
    with pytest.raises(MeshError, match=r"b is a builtins\.int"):
        query_many([(a, 7, None, None)])


@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="the simulator is a device")
def test_missing_gpu_is_reported_at_construction():
    """Name in one sentence what a GPU needs, when the detector is constructed."""
    if importlib.util.find_spec("numba_cuda") is not None:
        from numba import cuda

        if cuda.is_available():
            pytest.skip("there is a GPU")
    with pytest.raises(ImpingeError, match=r"a GPU needs numba-cuda|needs an NVIDIA GPU"):
        BreadthFirst(*spheres(), device="cuda")
