"""Greß and Zachmann 2004 as published: exact pairs for every option; trees, maps, box test and entry level."""

from __future__ import annotations

import doctest
from itertools import permutations, product

import numpy as np
import pytest

import oracle
from impinge import BreadthFirst, BruteForce, TriMesh, scenes
from impinge.errors import MeshError, OptionError
from impinge.mesh.transform import transform_points
from impinge.published import breadth_first as published
from impinge.published.breadth_first import AabbTree, InterferenceDetector, all_pairs, count_pairs

OPTIONS = [
    {"expansion": expansion, "fuse": fuse, "transform": transform}
    for expansion, fuse, transform in product(("histopyramid", "scan"), (False, True), ("boxes", "vertices"))
]
"""All options but the entry level."""
TURNS = [np.eye(3)[list(p)] * s for p in permutations(range(3)) for s in product((1.0, -1.0), repeat=3)]
"""Signed permutations: rotations and reflections without rounding."""


def soup(rng, count):
    """Triangles of half the size of the cube that they are in."""
    corners = rng.random((count, 1, 3)) + rng.random((count, 3, 3))
    return TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def integer_soup(rng, count):
    """Triangles with corners in {0, 1, 2, 3}^3: many touch, lie in one plane, or are segments and points."""
    x = rng.integers(0, 4, (3 * count, 3)).astype(float)
    return TriMesh(x, np.arange(3 * count).reshape(-1, 3), validate="trust")


def integer_transform(rng):
    matrix = np.eye(4)
    matrix[:3, :3] = TURNS[rng.integers(48)]
    matrix[:3, 3] = rng.integers(-2, 3, 3)
    return matrix


def affine_transform(rng, size=0.3):
    matrix = np.eye(4)
    matrix[:3] += size * rng.standard_normal((3, 4))
    return matrix


def oracle_pairs(S, T, matrix):
    x = transform_points(matrix, T.vertices)
    found = [
        (i, j)
        for (i, face_s), (j, face_t) in product(enumerate(S.faces), enumerate(T.faces))
        if oracle.triangle_kind(S.vertices[face_s].tolist(), x[face_t].tolist()) != "none"
    ]
    return np.array(found, dtype=np.int32).reshape(-1, 2)


def test_examples_run():
    """Run the examples of the docstrings."""
    result = doctest.testmod(published)

    assert result.attempted >= 10
    assert result.failed == 0


# Pairs --------------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_pairs_are_those_of_the_oracle(rng):
    """Find the oracle's pairs on degenerate triangles, for every option, over queries that change the entry level."""
    hits = tests = 0
    for sizes in ((1, 1), (1, 6), (7, 3), (9, 14), (16, 5)):
        S, T = (integer_soup(rng, count) for count in sizes)
        detectors = [InterferenceDetector(S, T, **options) for options in OPTIONS]
        for matrix in (np.eye(4), integer_transform(rng), integer_transform(rng), affine_transform(rng)):
            expected = oracle_pairs(S, T, matrix)
            for detector in detectors:
                np.testing.assert_array_equal(detector.query(matrix).pairs, expected)
            for per in ("line", "fragment"):
                np.testing.assert_array_equal(all_pairs(S, T, transform=matrix, transform_per=per), expected)
                assert count_pairs(S, T, transform=matrix, transform_per=per) == len(expected)
            hits, tests = hits + len(expected), tests + len(S) * len(T)

    assert 0.05 < hits / tests < 0.6


@pytest.mark.tiny
def test_plain_python_finds_the_pairs_of_the_oracle(rng):
    """Find the oracle's pairs where kernels run as plain Python."""
    S, T = integer_soup(rng, 6), integer_soup(rng, 5)
    matrix = integer_transform(rng)
    expected = oracle_pairs(S, T, matrix)
    for options in OPTIONS:
        np.testing.assert_array_equal(InterferenceDetector(S, T, **options).query(matrix).pairs, expected)

    assert 3 < len(expected) < 30


@pytest.mark.small
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(map(str, options.values())))
def test_pairs_are_those_of_the_production_detector(options, rng):
    """Find the pairs of ``BreadthFirst`` on bodies of 1,280 triangles, query after query."""
    S, T = scenes.get("bumpy_spheres_1k").surfaces
    detector, production = InterferenceDetector(S, T, **options), BreadthFirst(S, T)
    for _ in range(6):
        matrix = affine_transform(rng, 0.05)
        expected = production.query(transform_b=matrix)
        found = detector.query(matrix)

        np.testing.assert_array_equal(found.pairs, expected.pairs)
        assert found.pairs.dtype == np.int32
        assert len(expected) > 10
    assert found.entry_level > 0


@pytest.mark.small
def test_far_bodies_lose_no_pair(rng):
    """Find all pairs where centres and extents are rounded to a few bits, and where C nearly flattens T."""
    hits = 0
    for shift, thickness in product((0.0, 2.0**45), (1.0, 1e-12)):
        S, T = integer_soup(rng, 40), integer_soup(rng, 40)
        matrix = integer_transform(rng) @ np.diag([1.0, 1.0, thickness, 1.0])
        matrix[:3, 3] += shift
        S.update(S.vertices + shift)
        expected = BruteForce(S, T).query(transform_b=matrix)
        for options in OPTIONS:
            np.testing.assert_array_equal(InterferenceDetector(S, T, **options).query(matrix).pairs, expected.pairs)
        hits += len(expected)

    assert hits > 200


@pytest.mark.small
def test_bodies_that_touch_in_a_point(rng):
    """Find pairs that share one point, which rounded centres and extents alone would separate."""
    for _ in range(40):
        point, below, above = rng.random(3), rng.uniform(-1.0, 0.0, (5, 3)), rng.uniform(1.0, 2.0, (5, 3))
        S, T = (TriMesh([point, *others], [[0, 1, 2], [3, 4, 5]]) for others in (below, above))
        for options in OPTIONS:
            np.testing.assert_array_equal(InterferenceDetector(S, T, **options).query().pairs, [[0, 0]])


@pytest.mark.small
def test_ill_conditioned_transforms_lose_no_pair(rng):
    """Find the image of every corner of T, under rotations that flatten T to a millionth and less."""
    for thickness in (1e-6, 1e-9, 1e-12, 1e-15):
        T = soup(rng, 8)
        matrix = np.eye(4)
        turns = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2)]
        matrix[:3, :3] = turns[0] @ np.diag([1.0, 1.0, thickness]) @ turns[1]
        x = transform_points(matrix, T.vertices)
        S = TriMesh(x, np.repeat(np.arange(len(x)), 3).reshape(-1, 3), validate="trust")
        expected = BruteForce(S, T).query(transform_b=matrix)
        for options in OPTIONS:
            np.testing.assert_array_equal(InterferenceDetector(S, T, **options).query(matrix).pairs, expected.pairs)
        assert len(expected) >= len(x)


@pytest.mark.small
def test_removed_triangles_are_not_found(rng):
    """Leave removed triangles out and keep the ids of the others."""
    S, T = soup(rng, 40), soup(rng, 30)
    S.remove_triangles(np.arange(0, 40, 3))
    expected = BruteForce(S, T).query()

    np.testing.assert_array_equal(InterferenceDetector(S, T).query().pairs, expected.pairs)
    np.testing.assert_array_equal(all_pairs(S, T), expected.pairs)
    assert len(expected) > 10


# 4.1 Trees ----------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_trees_have_the_level_counts_of_the_paper(rng):
    """Halve the node count from level to level, rounding up, and bound all triangles below each node."""
    for count in (1, 2, 3, 5, 11, 16, 33):
        tree = AabbTree.build(soup(rng, count))

        assert tree.count[-1] == count
        assert tree.count[0] == 1
        np.testing.assert_array_equal(tree.count[:-1], -(-tree.count[1:] // 2))
        np.testing.assert_array_equal(np.sort(tree.triangle), np.arange(count))
        for level, (first, size) in enumerate(zip(tree.first, tree.count)):
            run = 1 << (len(tree.count) - 1 - level)
            for i in range(size):
                corner = tree.corner[i * run : (i + 1) * run].reshape(-1, 3)
                low, high = corner.min(axis=0), corner.max(axis=0)
                np.testing.assert_allclose(tree.center[first + i], (low + high) / 2.0, rtol=1e-15)
                np.testing.assert_allclose(tree.extent[first + i], (high - low) / 2.0, rtol=1e-14)


@pytest.mark.small
def test_trees_of_different_depths(rng):
    """Find all pairs for any two depths, and none for an empty body."""
    sizes = (0, 1, 2, 3, 5, 33, 150)
    for count_S, count_T in product(sizes, sizes):
        S, T = soup(rng, count_S), soup(rng, count_T)
        expected = BruteForce(S, T).query()
        for options in OPTIONS:
            np.testing.assert_array_equal(InterferenceDetector(S, T, **options).query().pairs, expected.pairs)
        np.testing.assert_array_equal(all_pairs(S, T), expected.pairs)

    assert len(expected) > 100


@pytest.mark.small
def test_leaf_order_keeps_neighbours_together(monkeypatch, rng):
    """Test far fewer boxes than a random leaf order does, for the same pairs."""
    S, T = scenes.get("bumpy_spheres_1k").surfaces
    ordered = InterferenceDetector(S, T).query()
    monkeypatch.setattr(published, "_leaf_order", lambda barycentre: rng.permutation(len(barycentre)))
    shuffled = InterferenceDetector(S, T).query()

    np.testing.assert_array_equal(shuffled.pairs, ordered.pairs)
    assert sum(ordered.box_tests) < sum(shuffled.box_tests) / 10


# 4.4 Node pair index map --------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("expansion", ["histopyramid", "scan"])
def test_maps_repeat_each_overlap_by_its_count(expansion, rng):
    """Find node and child index of every entry as repeating each old entry by its overlap count does."""
    detector = InterferenceDetector(soup(rng, 1), soup(rng, 1), expansion=expansion)
    for row_count in (1, 2, 7, 100):
        length = rng.choice([0, 1, 2, 3, 8, 9, 40], row_count)
        row_start = np.concatenate([[0], np.cumsum(length)])
        overlap_count = rng.choice([0, 0, 1, 2], row_start[-1]).astype(np.int32)
        new_count = 2 * row_count - rng.integers(2)
        new_row_start, node, child = detector._find(row_start, overlap_count, new_count)

        assert len(new_row_start) == new_count + 1
        for t in range(new_count):
            counts = overlap_count[row_start[t // 2] : row_start[t // 2 + 1]]
            row = slice(new_row_start[t], new_row_start[t + 1])
            np.testing.assert_array_equal(node[row], np.repeat(np.arange(len(counts)), counts))
            np.testing.assert_array_equal(child[row], [c for count in counts for c in range(count)])


@pytest.mark.small
def test_expansions_visit_the_same_pairs(rng):
    """Test as many boxes and triangles on every level with sums, prefix sums, one pass and two."""
    S, T = soup(rng, 100), soup(rng, 60)
    matrix = affine_transform(rng)
    for transform in ("boxes", "vertices"):
        works = [
            InterferenceDetector(S, T, expansion=expansion, fuse=fuse, transform=transform).query(matrix)
            for expansion, fuse in product(("histopyramid", "scan"), (False, True))
        ]
        for work in works[1:]:
            assert work.box_tests == works[0].box_tests
            assert work.box_overlaps == works[0].box_overlaps
            assert work.triangle_tests == works[0].triangle_tests
        assert works[0].box_tests[0] == 1
        assert works[0].box_tests[-1] == 0
        assert works[0].triangle_tests > len(works[0].pairs) > 0


@pytest.mark.small
def test_traversal_ends_without_overlap(rng):
    """Stop at the first level without overlap, and test no triangle."""
    S, T = soup(rng, 50), soup(rng, 50)
    T.update(T.vertices + 10.0)
    found = InterferenceDetector(S, T).query()

    assert found.box_tests == [1, 0, 0, 0, 0, 0, 0]
    assert found.triangle_tests == 0
    assert found.pairs.shape == (0, 2)


# 4.3 Box overlap tests, Appendix A ----------------------------------------------------------------------------


def sat_lite(box_S, box_T, matrix):
    """Whether SAT lite lets two boxes (low, high) pass."""
    trees = []
    for low, high in (box_S, box_T):
        corner = np.array([[low, high, high]])
        level = np.zeros(1, dtype=np.int64)
        trees.append(AabbTree._fitted(corner, np.zeros(1, dtype=np.int32), level, level + 1))
    S, T = trees
    matCInv, slack = published._inverse_and_slack(S, T, matrix)
    row_start, index_map, unused = np.array([0, 1]), np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32)
    overlap_count = np.zeros(1, dtype=np.int32)
    published._test_boxes.over(1)(
        row_start, row_start, index_map, unused, unused, False, index_map, 2, S.center, S.extent, T.center, T.extent,
        False, matrix, matCInv, slack, overlap_count,
    )  # fmt: skip
    return overlap_count[0] == 2


def box_corners(box, matrix):
    return transform_points(matrix, np.array(list(product(*zip(*box)))))


def full_sat_gap(corners_S, corners_T):
    """Largest relative gap over all fifteen axes of two parallelepipeds; they overlap where it is negative."""
    edges = [np.stack([c[4] - c[0], c[2] - c[0], c[1] - c[0]]) for c in (corners_S, corners_T)]
    axes = [np.cross(e[i], e[j]) for e in edges for i, j in ((0, 1), (1, 2), (2, 0))]
    axes += [np.cross(p, q) for p, q in product(*edges)]
    gaps = []
    for axis in axes:
        p, q = corners_S @ axis, corners_T @ axis
        gaps.append(max(p.min() - q.max(), q.min() - p.max()) / (abs(p).max() + abs(q).max() + 1e-300))
    return max(gaps)


@pytest.mark.small
def test_sat_lite_misses_no_overlap(rng):
    """Let every pair of boxes pass that overlaps by all fifteen axes, and few others."""
    overlaps, false_hits, apart = 0, 0, 0
    for _ in range(1500):
        low = rng.uniform(-1.0, 0.0, (2, 3))
        box_S, box_T = zip(low, low + rng.uniform(0.0, 1.5, (2, 3)))
        matrix = affine_transform(rng, 0.5)
        gap = full_sat_gap(box_corners(box_S, np.eye(4)), box_corners(box_T, matrix))
        passes = sat_lite(box_S, box_T, matrix)
        if gap < 1e-12:
            overlaps += 1
            assert passes
        elif gap > 1e-6:
            apart, false_hits = apart + 1, false_hits + passes

    assert 300 < overlaps < 1200
    assert 0 < false_hits < 0.2 * apart


@pytest.mark.small
def test_sat_lite_keeps_touching_boxes(rng):
    """Let boxes pass that touch exactly, near the origin and far from it, and not those one unit apart."""
    touching = 0
    for _ in range(300):
        low = rng.integers(-2, 2, (2, 3)).astype(float)
        box_S, box_T = zip(low, low + rng.integers(0, 3, (2, 3)))
        far = rng.choice([0.0, 2.0**40])
        matrix = integer_transform(rng)
        matrix[:3, 3] += far
        box_S = (box_S[0] + far, box_S[1] + far)
        corners = box_corners(box_T, matrix)
        low_T, high_T = corners.min(axis=0), corners.max(axis=0)
        overlap = (box_S[0] <= high_T).all() and (low_T <= box_S[1]).all()
        touching += overlap and not ((box_S[0] < high_T).all() and (low_T < box_S[1]).all())

        assert sat_lite(box_S, box_T, matrix) == overlap
    assert touching > 20


# 5 Entry level ------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_entry_level_follows_the_overlap():
    """Start deeper while many box pairs overlap, higher after the bodies part, with the same pairs."""
    S, T = scenes.get("bumpy_spheres_1k").surfaces
    detector = InterferenceDetector(S, T)
    expected = BruteForce(S, T).query()
    levels = []
    for _ in range(12):
        found = detector.query()
        levels.append(found.entry_level)
        np.testing.assert_array_equal(found.pairs, expected.pairs)
        assert sum(found.box_tests[: found.entry_level]) == 0
    assert levels[0] == 0
    assert max(levels) >= 2
    assert max(np.abs(np.diff(levels))) == 1

    away = np.eye(4)
    away[0, 3] = 100.0
    for _ in range(12):
        assert len(detector.query(away).pairs) == 0
    assert detector.query(away).entry_level == 0


@pytest.mark.small
@pytest.mark.parametrize("threshold", [None, 0.001, 0.5, 1.0])
def test_threshold_changes_the_start_and_not_the_pairs(threshold, monkeypatch):
    """Find the same pairs for any threshold; a low one leads deep, as far as ``ENTRY_PAIRS`` allows."""
    monkeypatch.setattr(published, "ENTRY_PAIRS", 1 << 14)
    S, T = scenes.get("bumpy_spheres_1k").surfaces
    expected = BruteForce(S, T).query()
    detector = InterferenceDetector(S, T, entry_threshold=threshold)
    for _ in range(12):
        found = detector.query()
        np.testing.assert_array_equal(found.pairs, expected.pairs)

    # 80 x 80 nodes of level 7 are below the limit, 160 x 160 of level 8 are not
    assert found.entry_level == {None: 0, 0.001: 7}.get(threshold, found.entry_level) < 8


# Options ------------------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expansion": "sort"}, "expansion is 'sort', expected one of 'histopyramid', 'scan'"),
        ({"transform": "none"}, "transform is 'none', expected one of 'boxes', 'vertices'"),
        ({"entry_threshold": 0.0}, r"entry_threshold is 0.0, expected a share in \(0, 1\], or None"),
    ],
)
def test_bad_options(options, message, rng):
    """Refuse options out of range with a sentence."""
    with pytest.raises(OptionError, match=message):
        InterferenceDetector(soup(rng, 2), soup(rng, 2), **options)


@pytest.mark.small
def test_bad_transforms_and_bodies(rng):
    """Refuse singular, projective and overflowing matrices, and what is no body."""
    S, T = soup(rng, 3), soup(rng, 3)
    detector = InterferenceDetector(S, T)
    with pytest.raises(OptionError, match="transform is singular; SAT lite needs its inverse"):
        detector.query(np.diag([1.0, 1.0, 0.0, 1.0]))
    with pytest.raises(OptionError, match=r"transform has shape \(3, 3\)"):
        detector.query(np.eye(3))
    huge = np.diag([1e308, 1.0, 1.0, 1.0])
    huge[0, 1] = 1e308
    for ask in (detector.query, lambda matrix: all_pairs(S, T, transform=matrix)):
        with pytest.raises(OptionError, match="transform moves a vertex beyond the range of doubles"):
            ask(huge)
    with pytest.raises(OptionError, match="transform_per is 'pixel', expected one of 'line', 'fragment'"):
        all_pairs(S, T, transform_per="pixel")
    with pytest.raises(MeshError, match=r"T is a builtins\.int"):
        InterferenceDetector(S, 7)
