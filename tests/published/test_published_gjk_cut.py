"""GJK with cut as published: exact for every option, counts as the paper has them, one worked example per formula."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest

import impinge
import oracle
import stress
from impinge import scenes, shapes
from impinge.errors import OptionError
from impinge.published import gjk_cut
from impinge.published.gjk_cut import cut_along_direction, recursive_check

OPTIONS = [
    {"direction": d, "stop": s, "T_max": t, "split": p, "leaf_pairs": n}
    for d, s, t, p, n in itertools.product(
        ("chung_wang", "gjk"), ("and", "or"), (1.0, 0.55), ("median", "rank"), (1, 30)
    )
]
NAMES = [",".join(map(str, options.values())) for options in OPTIONS]


def integer_soup(rng, count, size):
    """Triangles with corners on a grid of ``size`` points per axis, some of zero area; vertices are shared."""
    x = rng.integers(0, size, (2 * count, 3)).astype(float)
    return impinge.TriMesh(x, rng.integers(0, len(x), (count, 3)), validate="trust")


def oracle_pairs(a, b):
    """All pairs that meet, in rational arithmetic."""
    corners = [mesh.vertices[mesh.faces].tolist() for mesh in (a, b)]
    return [
        (i, j)
        for (i, s), (j, t) in itertools.product(enumerate(corners[0]), enumerate(corners[1]))
        if oracle.triangle_kind(s, t) != "none"
    ]


@pytest.mark.medium
@pytest.mark.small
def test_the_examples_run():
    """Run the examples of the module and of its functions."""
    assert doctest.testmod(gjk_cut).attempted >= 10
    assert doctest.testmod(gjk_cut).failed == 0


# exact ----------------------------------------------------------------------------------------------------------


@pytest.mark.tiny
@pytest.mark.small
@pytest.mark.parametrize("options", OPTIONS[::5], ids=NAMES[::5])
def test_integer_coordinates_equal_the_oracle(rng, options):
    """Find exactly the pairs of the oracle on integer grids, where triangles touch, coincide and have no area."""
    hits = tests = 0
    for size in (2, 3, 5, 12):
        a, b = integer_soup(rng, 7, size), integer_soup(rng, 8, size)
        expected = oracle_pairs(a, b)
        assert list(map(tuple, recursive_check(a, b, **options).pairs.tolist())) == expected
        hits, tests = hits + len(expected), tests + 56

    assert 0.2 < hits / tests < 0.9


@pytest.mark.tiny
@pytest.mark.small
def test_stress():
    """Agree with the oracle on a scene of every adversarial generator, at any scale and with any degeneracy."""

    def detector(vertices_a, faces_a, vertices_b, faces_b):
        pairs = recursive_check((vertices_a, faces_a), (vertices_b, faces_b)).pairs
        corners = vertices_a[faces_a].tolist(), vertices_b[faces_b].tolist()
        return pairs, [oracle.triangle_kind(corners[0][i], corners[1][j]) for i, j in pairs]

    counts = stress.run(detector, 1, seed=4, kind_names={}, size=4)

    assert counts["pairs"] > 100
    assert min(counts[kind] for kind in ("touching", "crossing", "coplanar")) > 5


@pytest.mark.small
@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_every_option_gives_the_pairs_of_the_production_detector(options):
    """Equal ``GjkCut`` frame after frame, for every combination of options."""
    scene = scenes.get("bumpy_spheres_1k")
    a, b = scene.surfaces
    hits = 0
    for frame in range(3):
        scene.move(0.3 * frame)
        found = recursive_check(a, b, **options)
        np.testing.assert_array_equal(found.pairs, impinge.GjkCut(a, b).query().pairs)
        hits += len(found.pairs)

    assert hits > 300


def test_the_papers_scale_equals_the_production_detector():
    """Equal ``GjkCut`` on two bodies of 13,000 triangles, as in Fig. 6."""
    a, b = shapes.uv_sphere(100, 66), shapes.uv_sphere(100, 66, center=(1.2, 0.5, 0.3))
    expected = impinge.GjkCut(a, b).query().pairs
    found = recursive_check(a, b)

    np.testing.assert_array_equal(found.pairs, expected)
    assert len(a) == 13_000
    assert len(expected) > 300
    assert found.stats["triangle_tests"] < 20 * len(expected)


@pytest.mark.small
@pytest.mark.parametrize("name", scenes.SMALL)
def test_small_scenes(name):
    """Equal brute force on every small scene, both ways round."""
    a, b = scenes.get(name).surfaces
    forward, backward = recursive_check(a, b).pairs, recursive_check(b, a).pairs

    np.testing.assert_array_equal(forward, impinge.BruteForce(a, b).query().pairs)
    np.testing.assert_array_equal(backward, impinge.BruteForce(b, a).query().pairs)


@pytest.mark.small
@pytest.mark.parametrize("direction", ["chung_wang", "gjk"])
@pytest.mark.parametrize("split", ["median", "rank"])
def test_degenerate_bodies_end(direction, split):
    """End on bodies in one point, on one line, in one plane, and with one centre; grow RL where all pairs meet."""
    faces = np.arange(60).reshape(-1, 3)
    point = impinge.TriMesh(np.ones((60, 3)), faces)
    line = impinge.TriMesh(np.outer(np.arange(60) % 7, (1.0, 2.0, 3.0)), faces)
    plane = impinge.TriMesh(np.arange(180).reshape(60, 3) % 5 * (1.0, 1.0, 0.0), faces)
    small, large = shapes.icosphere(1, radius=0.5), shapes.icosphere(1)
    for a, b in itertools.combinations_with_replacement((point, line, plane, small, large), 2):
        found = recursive_check(a, b, direction=direction, split=split)
        np.testing.assert_array_equal(found.pairs, impinge.BruteForce(a, b).query().pairs)
    assert len(recursive_check(point, point).pairs) == 400


# lists ----------------------------------------------------------------------------------------------------------


@pytest.mark.small
def test_removed_and_active_triangles(rng):
    """Find the pairs of live and active triangles only, whatever was removed, added or chosen."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    everything = recursive_check(a, b).pairs
    a.remove_triangles(rng.random(len(a.faces)) < 0.3)
    active = np.flatnonzero(rng.random(len(b.faces)) < 0.5)
    expected = everything[a.alive[everything[:, 0]] & np.isin(everything[:, 1], active)]

    np.testing.assert_array_equal(recursive_check(a, b, active_b=active).pairs, expected)
    assert 20 < len(expected) < len(everything)
    assert len(recursive_check(a, b, active_a=[]).pairs) == 0


# the paper's own steps ------------------------------------------------------------------------------------------


@pytest.mark.small
def test_algorithm_4_1(rng):
    """Keep what reaches the other list along the direction, by hand, and every triangle that meets one."""
    a, b = shapes.box(2.0), shapes.box(2.0, center=(1.5, 0.0, 0.0))
    left_a, left_b = cut_along_direction(a, b, (3.0, 0.0, 0.0))
    np.testing.assert_array_equal(left_a, np.flatnonzero(a.vertices[a.faces][..., 0].max(axis=1) >= 0.5))
    np.testing.assert_array_equal(left_b, np.flatnonzero(b.vertices[b.faces][..., 0].min(axis=1) <= 1.0))
    assert 0 < len(left_a) < 12

    a, b = scenes.get("bumpy_spheres_1k").surfaces
    pairs = recursive_check(a, b).pairs
    for S in rng.standard_normal((20, 3)):
        left_a, left_b = cut_along_direction(a, b, S)
        assert set(pairs[:, 0]) <= set(left_a)
        assert set(pairs[:, 1]) <= set(left_b)
        expected = impinge.cut_along_direction(a, b, S)  # whose margin is that of float32
        assert set(left_a) <= set(expected[0])
        assert set(left_b) <= set(expected[1])


@pytest.mark.small
def test_touching_triangles_are_never_cut(rng):
    """Keep triangles that touch in one point, at any place and along any direction, however the point was rounded."""
    for _ in range(200):
        touch, S = rng.standard_normal(3) * 10.0 ** rng.integers(-3, 9), rng.standard_normal(3)
        corners = []
        for sign, edges in zip((-1.0, 1.0), rng.standard_normal((2, 2, 3))):
            away = sign * np.sign(edges @ S)[:, None] * edges
            corners.append(np.vstack([touch, touch + away]))
        left = cut_along_direction((corners[0], [[0, 1, 2]]), (corners[1], [[0, 1, 2]]), S)
        assert [len(ids) for ids in left] == [1, 1]


@pytest.mark.tiny
@pytest.mark.small
def test_chung_wang_reflects(rng):
    """Reflect at the plane across temp: length kept, sign of temp irrelevant; turn where that changes nothing."""
    for S, temp in rng.standard_normal((20, 2, 3)):
        unit = S / np.linalg.norm(S)
        found, other = (
            gjk_cut._chung_wang(tuple(unit.tolist()), tuple((sign * temp).tolist())) for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(found, unit - 2.0 * temp * (temp @ unit) / (temp @ temp), atol=1e-12)
        np.testing.assert_allclose(found, other, atol=1e-12)
    turned = gjk_cut._chung_wang((1.0, 0.0, 0.0), (0.0, 2.0, 0.0))
    np.testing.assert_allclose(turned, np.array((1.0, -1.0, 0.0)) / np.sqrt(2.0))


@pytest.mark.tiny
@pytest.mark.small
def test_the_distance_sub_algorithm(rng):
    """Point from the simplex's nearest point to the origin: no point of the simplex is farther along."""
    inside = 0
    for n in (1, 2, 3, 4):
        for _ in range(25):
            W = np.zeros((4, 3))
            W[:n] = rng.standard_normal((n, 3))
            W[:n, 0] += 0.3
            before = W[:n].copy()
            S, kept = gjk_cut._towards_origin(W, n)
            if kept == 0:
                weights = np.linalg.solve(np.vstack([before.T, np.ones(4)]), [0.0, 0.0, 0.0, 1.0])
                assert weights.min() > 0.0
                inside += 1
            else:
                np.testing.assert_allclose((before @ S).max(), (W[:kept] @ S).max(), atol=1e-9)
                np.testing.assert_allclose(W[:kept] @ S, (W[:1] @ S)[0], atol=1e-9)
    assert 0 < inside < 20


@pytest.mark.small
def test_counts_follow_the_options():
    """Cut separated bodies once; save nodes by "or"; cut less below T_max; test one pair per leaf of one triangle."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    apart = shapes.bumpy_sphere(2, center=(5.0, 0.0, 0.0))
    assert recursive_check(a, apart).stats == {"nodes": 1, "cuts": 1, "leaves": 0, "triangle_tests": 0}

    paper, longer = recursive_check(a, b).stats, recursive_check(a, b, stop="or").stats
    assert longer["nodes"] < paper["nodes"]
    assert longer["cuts"] / longer["nodes"] > paper["cuts"] / paper["nodes"]
    assert paper["triangle_tests"] == paper["leaves"]
    assert recursive_check(a, b, T_max=0.4).stats["nodes"] > paper["nodes"]
    blocks = recursive_check(a, b, leaf_pairs=64).stats
    assert blocks["nodes"] < paper["nodes"]
    assert blocks["triangle_tests"] > paper["triangle_tests"]


@pytest.mark.small
def test_hints_are_written_and_change_no_pair():
    """Keep a direction of each upper node; start from it in the next frame, and find the same pairs."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    plain, hints = recursive_check(a, b), np.full((21, 3), np.nan)
    first = recursive_check(a, b, hints=hints)
    np.testing.assert_allclose(np.linalg.norm(hints[0]), 1.0)
    assert first.stats == plain.stats
    for length in (1.0, 1e9):
        hints[:] = 0.0, 0.0, length
        misled = recursive_check(a, b, hints=hints)
        np.testing.assert_array_equal(first.pairs, misled.pairs)
        np.testing.assert_allclose(np.linalg.norm(hints[0]), 1.0)
        assert misled.stats["cuts"] != first.stats["cuts"]


@pytest.mark.small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "up"}, "direction is 'up', expected one of 'chung_wang', 'gjk'"),
        ({"stop": "never"}, "stop is 'never', expected one of 'and', 'or'"),
        ({"split": "half"}, "split is 'half', expected one of 'median', 'rank'"),
        ({"T_max": 0.0}, "T_max is 0.0, expected a number above 0 and up to 1"),
        ({"T_max": "all"}, "T_max is 'all'"),
        ({"leaf_pairs": 0}, "leaf_pairs is 0, expected a whole number from 1"),
        ({"leaf_pairs": True}, "leaf_pairs is True"),
        ({"hints": np.zeros((3, 2))}, r"hints are float64 of shape \(3, 2\), expected float64 of shape \(n, 3\)"),
        ({"active_a": [99]}, "active_a contains id 99"),
    ],
)
def test_bad_options(options, message):
    """Refuse values that do not exist."""
    with pytest.raises(OptionError, match=message):
        recursive_check(shapes.box(1.0), shapes.box(1.0), **options)


@pytest.mark.small
@pytest.mark.parametrize("direction", [(0, 0, 0), (1, 2), (np.nan, 0, 1)])
def test_bad_directions(direction):
    """Refuse a direction that is none."""
    with pytest.raises(OptionError, match="expected three finite numbers"):
        cut_along_direction(shapes.box(1.0), shapes.box(1.0), direction)
