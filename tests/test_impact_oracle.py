"""The oracle of first impacts, checked by hand cases, by symmetry, by sampling and by the oracle of fixed features."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import impact_oracle
import oracle
from impact_oracle import Impact, Motion, RationalTime, RootTime, is_before, roots
from impact_queries import CLASSES, PLAIN

FACE = ((0.0, 0.0, 0.0), (4.0, 0.0, 0.0), (0.0, 4.0, 0.0))
EDGE = ((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
REAL_CLASSES = ("nearly grazing", "real numbers", "rounded touch", "rounded border", "three crossings")
INTEGER_CLASSES = [name for name in PLAIN if name not in REAL_CLASSES]
KINDS = pytest.mark.parametrize("edges", [False, True], ids=["vertex-face", "edge-edge"])


def first(start, end, edges: bool) -> Impact:
    return (impact_oracle.edge_edge if edges else impact_oracle.vertex_face)(start, end)


def queries(name: str, n: int, edges: bool, seed: int = 0) -> list[tuple[list, list]]:
    start, end = CLASSES[name](np.random.default_rng(seed), n, edges)
    return list(zip(start.tolist(), end.tolist()))


def assert_same_time(found: Impact, expected: Impact):
    assert found.hit == expected.hit
    assert found.at_start == expected.at_start
    if found.time is not None and expected.time is not None:
        assert not is_before(found.time, expected.time)
        assert not is_before(expected.time, found.time)


@pytest.mark.parametrize(
    ("p", "q", "time"),
    [
        ((1, 1, 2), (1, 1, -2), Fraction(1, 2)),
        ((1, 1, 2), (1, 1, 0), 1),
        ((1, 1, 0), (1, 1, 2), 0),
        ((1, 1, 2), (1, 1, 1), None),
        ((3, 3, 1), (3, 3, -1), None),
        ((2, 2, 1), (2, 2, -1), Fraction(1, 2)),
        ((4, 0, 1), (4, 0, -2), Fraction(1, 3)),
        ((-2, 1, 0), (6, 1, 0), Fraction(1, 4)),
        ((-2, 5, 0), (6, 5, 0), None),
        ((-4, 4, 0), (4, 4, 0), Fraction(1, 2)),
        ((1, 1, 0), (1, 1, 0), 0),
        ((3, 3, 0), (3, 3, 0), None),
    ],
)
def test_vertices_against_a_fixed_face(p, q, time):
    """Find the first time at which a vertex meets a face that stands still, on its border and in its plane too."""
    found = first([[float(x) for x in p], *FACE], [[float(x) for x in q], *FACE], edges=False)

    assert found.hit == (time is not None)
    if found.time is not None:
        assert found.time.compare(Fraction(time)) == 0
    assert found.at_start == (time == 0)


@pytest.mark.parametrize(
    ("start", "end", "time"),
    [
        (((0, -1, 2), (0, 1, 2)), ((0, -1, -1), (0, 1, -1)), Fraction(2, 3)),
        (((1, -1, 1), (1, 1, 1)), ((1, -1, -1), (1, 1, -1)), Fraction(1, 2)),
        (((2, -1, 1), (2, 1, 1)), ((2, -1, -1), (2, 1, -1)), None),
        (((3, 0, 0), (5, 0, 0)), ((-1, 0, 0), (1, 0, 0)), Fraction(1, 2)),
        (((0, 1, 0), (5, 1, 0)), ((0, -1, 0), (5, -1, 0)), Fraction(1, 2)),
        (((2, 1, 0), (5, 1, 0)), ((2, -1, 0), (5, -1, 0)), None),
        (((0, 1, 0), (0, 1, 0)), ((0, -1, 0), (0, -1, 0)), Fraction(1, 2)),
        (((0, 1, 0), (0, 2, 0)), ((0, 1, 0), (0, 0, 0)), 1),
        (((0, 0, 0), (5, 1, 0)), ((0, 9, 0), (5, 9, 0)), 0),
    ],
)
def test_edges_against_a_fixed_edge(start, end, time):
    """Find the first time at which an edge meets one that stands still: crossing, parallel, in line, of no length."""
    rows = [[list(map(float, x)) for x in (*EDGE, *other)] for other in (start, end)]
    found = first(*rows, edges=True)

    assert found.hit == (time is not None)
    if found.time is not None:
        assert found.time.compare(Fraction(time)) == 0
    assert found.at_start == (time == 0)


def product(*factors) -> tuple[int, ...]:
    out = [1]
    for factor in factors:
        out = [int(c) for c in np.convolve(np.array(out, dtype=object), np.array(factor, dtype=object))]
    return tuple(out)


def test_roots_of_known_polynomials():
    """List each root in [0, 1] once and in order, whatever its multiplicity, ends included."""
    third, half, zero, one, outside = (-1, 3), (-1, 2), (0, 1), (-1, 1), (-3, 2)
    root_of_half = (-1, 0, 2)
    for p, expected in [
        (product(third), [Fraction(1, 3)]),
        (product(third, third, half), [Fraction(1, 3), Fraction(1, 2)]),
        (product(zero, zero, one), [0, 1]),
        (product(one, third, zero), [0, Fraction(1, 3), 1]),
        (product(outside, half, (1, 1)), [Fraction(1, 2)]),
        (product(outside, (1, 0, 1)), []),
        (
            product((-(10**30), 10**30 + 1), (1 - 10**30, 10**30)),
            [1 - Fraction(1, 10**30), Fraction(10**30, 10**30 + 1)],
        ),
        ((7,), []),
    ]:
        found = list(roots(p))
        assert len(found) == len(expected)
        assert all(time.compare(Fraction(x)) == 0 for time, x in zip(found, expected))
    (root,) = roots(product(root_of_half))
    assert (root.compare(Fraction(7071, 10000)), root.compare(Fraction(7072, 10000))) == (1, -1)


def test_signs_at_an_irrational_root():
    """Tell zero from 1e-60 at the root of a half, and one root from another that is as near."""
    scale = 10**60
    near = (-scale + 1, 0, 2 * scale)  # 2 t² = 1 − 1e-60
    (root,), (close,) = roots((-1, 0, 2)), roots(near)
    for q, sign in [((), 0), ((-1, 0, 2), 0), (product((-1, 0, 2), (-1, 3)), 0), (near, 1), ((-1, 1), -1)]:
        assert root.sign(q) == sign
    assert is_before(close, root)
    assert not is_before(root, close)
    assert not is_before(root, next(iter(roots(product((-1, 0, 2), (-1, 5))))))
    assert isinstance(root, RootTime)
    assert root.hi - root.lo < Fraction(1, 2**60)


@KINDS
@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_both_answers(name, edges):
    """Meet and miss in every class of random queries."""
    found = [first(*query, edges).hit for query in queries(name, 150, edges)]

    assert 0.03 < np.mean(found) < 0.97


@KINDS
@pytest.mark.parametrize("name", CLASSES)
def test_time_reversal_keeps_the_answer(name, edges):
    """Meet when the motion runs backwards iff they meet when it runs forwards; the last contact is not earlier."""
    for start, end in queries(name, 60, edges, seed=1):
        forwards, backwards = first(start, end, edges), first(end, start, edges)
        assert forwards.hit == backwards.hit
        if forwards.time is not None and backwards.time is not None:
            assert forwards.time.lo <= 1 - backwards.time.lo


@KINDS
@pytest.mark.parametrize("name", CLASSES)
def test_order_of_corners_is_irrelevant(name, edges):
    """Give the same time for all orders of the corners of a face, of the ends of edges, of the edges."""
    orders = [(0, *rest) for rest in itertools.permutations((1, 2, 3))]
    if edges:
        orders = [(1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1), (3, 2, 0, 1)]
    for start, end in queries(name, 25, edges, seed=2):
        expected = first(start, end, edges)
        for order in orders:
            assert_same_time(first([start[k] for k in order], [end[k] for k in order], edges), expected)


@KINDS
@pytest.mark.parametrize("name", INTEGER_CLASSES)
def test_affine_maps_keep_the_time(name, edges, rng):
    """Give the same time after integer matrices of determinant other than zero and translations."""
    for start, end in queries(name, 60, edges, seed=3):
        matrix = rng.integers(-3, 4, (3, 3))
        while round(np.linalg.det(matrix)) == 0:
            matrix = rng.integers(-3, 4, (3, 3))
        offset, drift = rng.integers(-9, 10, (2, 3))
        moved = np.array(start) @ matrix + offset, np.array(end) @ matrix + offset + drift
        assert_same_time(first(moved[0].tolist(), moved[1].tolist(), edges), first(start, end, edges))


@KINDS
@pytest.mark.parametrize("name", INTEGER_CLASSES)
def test_halves_of_the_motion_agree_with_the_whole(name, edges):
    """Meet in the first half of the motion iff the first time is at most a half; else in the second half."""
    for start, end in queries(name, 60, edges, seed=4):
        middle = ((np.array(start) + np.array(end)) / 2).tolist()
        whole, early, late = first(start, end, edges), first(start, middle, edges), first(middle, end, edges)
        assert whole.hit == (early.hit or late.hit)
        if whole.time is not None:
            assert (whole.time.compare(Fraction(1, 2)) <= 0) == early.hit
            half = early.time or late.time
            bounds = [(x + (not early.hit)) / 2 for x in (half.lo, half.hi)]
            assert whole.time.compare(bounds[0]) >= 0
            assert whole.time.compare(bounds[1]) <= 0


@KINDS
@pytest.mark.parametrize("name", INTEGER_CLASSES)
def test_agrees_with_the_oracle_of_fixed_features(name, edges):
    """Agree at 0, 1/24, … 1 and at rational first times with clipping; find no contact before the first time."""
    contacts = 0
    for start, end in queries(name, 100, edges, seed=5):
        quarters = 4 * np.array([start, end])
        assert (quarters == np.round(quarters)).all()
        motion = Motion(start, end, edges=edges)
        time = motion.first_impact().time
        samples = [Fraction(i, 24) for i in range(25)]
        if isinstance(time, RationalTime):
            samples.append(time.time)
        for t in samples:
            # positions times 4 times the denominator: integers
            den, num = t.denominator, t.numerator
            at = [[int(4 * x) * (den - num) + int(4 * y) * num for x, y in zip(*rows)] for rows in zip(start, end)]
            a, b = ([at[0], at[1]], [at[2], at[3], at[3]]) if edges else ([at[0], at[0]], at[1:])
            is_contact = oracle.segment_triangle_kind(a, b) != "none"
            contacts += is_contact
            assert motion.meet_at(t) == is_contact
            if is_contact:
                assert time is not None
                assert time.compare(t) <= 0
            if time is not None and isinstance(time, RationalTime) and t == time.time:
                assert is_contact
    assert contacts >= 20


@KINDS
def test_crossings_come_in_threes(edges):
    """Have three distinct roots in [0, 1] in many queries made for that, and contact at each in most of these."""
    thrice = 0
    for start, end in queries("three crossings", 200, edges, seed=8):
        motion = Motion(start, end, edges=edges)
        triangles = [impact_oracle._Triangle(*corners) for corners in motion.corners]
        found = list(roots(triangles[0].det))
        thrice += len(found) == 3 and all(any(t.contains_zero(root) for t in triangles) for root in found)
    assert thrice > 20


@KINDS
def test_grazing_queries_have_double_roots(edges):
    """Touch without crossing in most grazing queries: the determinant vanishes at half time with its derivative."""
    doubled = 0
    for start, end in queries("grazing", 200, edges, seed=6):
        determinant = [
            np.linalg.det(
                np.array(start)[1:] * (1 - t)
                + np.array(end)[1:] * t
                - (np.array(start)[0] * (1 - t) + np.array(end)[0] * t)
            )
            for t in (0.5 - 1e-4, 0.5, 0.5 + 1e-4)
        ]
        doubled += determinant[0] * determinant[2] > 0 and abs(determinant[1]) < 1e-3 * abs(determinant[0])
    assert doubled > 60
