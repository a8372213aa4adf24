"""The exact oracle, checked by hand cases, by symmetry and by a second method."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import oracle

UNIT = ((0, 0, 0), (4, 0, 0), (0, 4, 0))
"""A right triangle in the plane z = 0."""

LIBIGL_POINTS = (
    (0.39234799146652199, 0.38443601131439198, 0.44744500517845198),
    (0.38924700021743752, 0.385637506842613, 0.45762349665164948),
    (0.38700349628925301, 0.38789276033639897, 0.45634675025939975),
    (0.39079749584197976, 0.38503675907850249, 0.45253425091505073),
    (0.38769650459289529, 0.38623825460672351, 0.46271274238824822),
    (0.39279749989509577, 0.37299175560474374, 0.45553924888372399),
)
"""Points of libigl pull request 2382; triangles 0,3,2 and 1,5,4 were reported as meeting."""

HAND_CASES = [
    ("far apart", UNIT, ((0, 0, 9), (4, 0, 9), (0, 4, 9)), "none"),
    ("beside each other in one plane", UNIT, ((5, 5, 0), (9, 5, 0), (5, 9, 0)), "none"),
    ("boxes overlap, plane separates", UNIT, ((3, 3, -1), (3, 3, 1), (4, 4, 0)), "none"),
    ("line of the planes, intervals apart", UNIT, ((3, 3, -1), (9, 3, 1), (9, 3, -1)), "none"),
    ("edge through the inside", UNIT, ((1, 1, -1), (1, 1, 1), (9, 9, 0)), "crossing"),
    ("two edges pass through", UNIT, ((1, 1, -3), (1, 2, 3), (2, 1, 3)), "crossing"),
    ("each holds one edge of the other", UNIT, ((-1, 1, -1), (-1, 1, 1), (2, 1, 0)), "crossing"),
    ("same triangle", UNIT, UNIT, "coplanar"),
    ("same triangle turned over", UNIT, (UNIT[0], UNIT[2], UNIT[1]), "coplanar"),
    ("one within the other", UNIT, ((1, 1, 0), (2, 1, 0), (1, 2, 0)), "coplanar"),
    ("star of two", UNIT, ((-1, 3, 0), (3, -1, 0), (3, 3, 0)), "coplanar"),
    ("one corner in common", UNIT, ((0, 0, 0), (-4, 0, 0), (0, -4, 1)), "touching"),
    ("one corner in common, in plane", UNIT, ((0, 0, 0), (-4, 0, 0), (0, -4, 0)), "touching"),
    ("one edge in common, as a roof", UNIT, ((0, 0, 0), (4, 0, 0), (0, 0, 4)), "touching"),
    ("one edge in common, side by side", UNIT, ((0, 0, 0), (4, 0, 0), (0, -4, 0)), "touching"),
    ("one edge in common, folded over", UNIT, ((0, 0, 0), (4, 0, 0), (1, 1, 0)), "coplanar"),
    ("part of an edge in common", UNIT, ((1, 0, 0), (9, 0, 0), (1, -4, 1)), "touching"),
    ("edges cross in a point", UNIT, ((2, 0, -1), (2, 0, 1), (2, -4, 0)), "touching"),
    ("edge meets edge, plane cuts", UNIT, ((2, 0, -1), (2, 0, 1), (2, 4, 0)), "crossing"),
    ("corner on an edge", UNIT, ((2, 0, 0), (2, -4, 1), (3, -4, 1)), "touching"),
    ("corner on the inside", UNIT, ((1, 1, 0), (1, 1, 4), (2, 2, 4)), "touching"),
    ("edge on the inside", UNIT, ((1, 1, 0), (2, 1, 0), (1, 1, 4)), "touching"),
    ("edge along the whole inside", UNIT, ((-1, 1, 0), (9, 1, 0), (1, 1, 4)), "touching"),
    ("corner on the plane, outside", UNIT, ((5, 5, 0), (5, 5, 4), (6, 6, 4)), "none"),
    ("segment through the inside", UNIT, ((1, 1, -1), (1, 1, 1), (1, 1, 0)), "crossing"),
    ("segment ends on the inside", UNIT, ((1, 1, 0), (1, 1, 2), (1, 1, 1)), "touching"),
    ("segment through an edge", UNIT, ((2, 0, -1), (2, 0, 1), (2, 0, 1)), "touching"),
    ("segment through a corner", UNIT, ((0, 0, -1), (0, 0, 1), (0, 0, 1)), "touching"),
    ("segment in the plane, inside", UNIT, ((1, 1, 0), (2, 1, 0), (1, 1, 0)), "coplanar"),
    ("segment in the plane, through", UNIT, ((-1, 1, 0), (9, 1, 0), (2, 1, 0)), "coplanar"),
    ("segment on an edge", UNIT, ((1, 0, 0), (2, 0, 0), (3, 0, 0)), "touching"),
    ("segment in the plane, outside", UNIT, ((5, 5, 0), (6, 6, 0), (7, 7, 0)), "none"),
    ("segment passes by", UNIT, ((3, 3, -1), (3, 3, 1), (3, 3, 0)), "none"),
    ("point on the inside", UNIT, ((1, 1, 0),) * 3, "coplanar"),
    ("point on an edge", UNIT, ((2, 2, 0),) * 3, "touching"),
    ("point on a corner", UNIT, ((4, 0, 0),) * 3, "touching"),
    ("point above", UNIT, ((1, 1, 1),) * 3, "none"),
    ("point in the plane, outside", UNIT, ((3, 3, 0),) * 3, "none"),
    ("segments cross", ((0, 0, 0), (2, 2, 2), (1, 1, 1)), ((0, 2, 0), (2, 0, 2), (2, 0, 2)), "coplanar"),
    ("segments are skew", ((0, 0, 0), (2, 2, 0), (1, 1, 0)), ((0, 2, 1), (2, 0, 1), (2, 0, 1)), "none"),
    (
        "segments in one plane apart",
        ((0, 0, 0), (2, 0, 0), (1, 0, 0)),
        ((0, 1, 0), (2, 2, 0), (2, 2, 0)),
        "none",
    ),
    (
        "segment ends on a segment",
        ((0, 0, 0), (2, 0, 0), (1, 0, 0)),
        ((1, 0, 0), (1, 2, 5), (1, 2, 5)),
        "touching",
    ),
    (
        "segments on one line overlap",
        ((0, 0, 0), (2, 4, 6), (1, 2, 3)),
        ((3, 6, 9), (1, 2, 3), (1, 2, 3)),
        "coplanar",
    ),
    (
        "segments on one line touch",
        ((0, 0, 0), (2, 4, 6), (1, 2, 3)),
        ((3, 6, 9), (2, 4, 6), (2, 4, 6)),
        "touching",
    ),
    (
        "segments on one line apart",
        ((0, 0, 0), (2, 4, 6), (1, 2, 3)),
        ((4, 8, 12), (3, 6, 9), (3, 6, 9)),
        "none",
    ),
    ("parallel segments", ((0, 0, 0), (2, 2, 2), (1, 1, 1)), ((1, 0, 0), (3, 2, 2), (3, 2, 2)), "none"),
    ("point within a segment", ((0, 0, 0), (2, 4, 6), (0, 0, 0)), ((1, 2, 3),) * 3, "coplanar"),
    ("point at the end of a segment", ((0, 0, 0), (2, 4, 6), (0, 0, 0)), ((2, 4, 6),) * 3, "touching"),
    ("point beside a segment", ((0, 0, 0), (2, 4, 6), (0, 0, 0)), ((1, 2, 2),) * 3, "none"),
    ("equal points", ((1, 2, 3),) * 3, ((1, 2, 3),) * 3, "coplanar"),
    ("different points", ((1, 2, 3),) * 3, ((1, 2, 4),) * 3, "none"),
]


# ---------------------------------------------------------------------------------------- second method


def sub(a, b):
    """Difference of two points."""
    return tuple(x - y for x, y in zip(a, b))


def cross(u, v):
    """Cross product."""
    return (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])


def dot(u, v):
    """Dot product."""
    return sum(x * y for x, y in zip(u, v))


def edges(t):
    """The three edge vectors of a triangle, around it."""
    return [sub(t[1], t[0]), sub(t[2], t[1]), sub(t[0], t[2])]


def is_degenerate(t):
    """Whether a triangle has no area."""
    return cross(sub(t[1], t[0]), sub(t[2], t[0])) == (0, 0, 0)


def kind_by_axes(t1, t2, axes):
    """Kind by separating axes.

    Strictly separated is none; separated, but not with both in the plane that separates, is touching.
    """
    touching = False
    for axis in axes:
        p, q = [dot(axis, x) for x in t1], [dot(axis, x) for x in t2]
        if max(p) < min(q) or max(q) < min(p):
            return "none"
        if (max(p) <= min(q) or max(q) <= min(p)) and len({*p, *q}) > 1:
            touching = True
    if touching:
        return "touching"
    differences = [sub(x, t1[0]) for x in (*t1, *t2)]
    flat = all(dot(cross(u, v), w) == 0 for u, v, w in itertools.combinations(differences, 3))
    return "coplanar" if flat else "crossing"


def kind_by_17_axes(t1, t2):
    """Kind of two triangles with area: both normals, 9 edge × edge, 3 + 3 normal × edge."""
    n1, n2 = cross(*edges(t1)[:2]), cross(*edges(t2)[:2])
    axes = [n1, n2, *(cross(u, v) for u in edges(t1) for v in edges(t2))]
    axes += [cross(n, u) for n, t in ((n1, t1), (n2, t2)) for u in edges(t)]
    return kind_by_axes(t1, t2, axes)


def kind_by_difference(t1, t2):
    """Kind of any two triangles from all candidate facets of the polytope D of differences x₂ − x₁.

    The sets meet iff 0 ∈ D, and their relative interiors iff 0 ∈ relint(D). A facet of D contains directions
    among the differences of its corners, so its normal is known up to the space orthogonal to D.
    """
    corners = list({sub(x, y) for x in t2 for y in t1})
    span = {sub(u, v) for u, v in itertools.combinations(corners, 2)} - {(0, 0, 0)}
    normals = {cross(u, v) for u, v in itertools.combinations(span, 2)} - {(0, 0, 0)}
    if not span:  # D is a point
        axes = [corners[0]]
    elif not normals:  # D is a segment: along it, and from its line to the origin
        u = next(iter(span))
        axes = [u, cross(cross(u, corners[0]), u)]
    elif any(dot(u, n) for n in [next(iter(normals))] for u in span):  # D is a body
        axes = list(normals)
    else:  # D is flat
        n = next(iter(normals))
        axes = [n, *(cross(n, u) for u in span)]
    return kind_by_axes(t1, t2, axes)


def random_triangle(rng, box, *, degenerate=False):
    """A triangle with integer corners in a box; some zero-area ones on request."""
    corner = lambda: tuple(rng.randint(0, box) for _ in range(3))  # noqa: E731
    a, b, c = corner(), corner(), corner()
    if degenerate:
        choice = rng.randrange(6)
        if choice == 0:
            b = c = a
        elif choice == 1:
            c = rng.choice((a, b))
        elif choice == 2:  # collinear, in any order
            a, c = tuple(2 * x - y for x, y in zip(b, a)), a
    return rng.sample((a, b, c), 3)


def random_pairs(seed, count, boxes, *, degenerate=False):
    """Pairs of random triangles, with the boxes taken in turn; one pair in eight is in a tilted plane."""
    rng = random.Random(seed)
    for i in range(count):
        pair = [random_triangle(rng, boxes[i % len(boxes)], degenerate=degenerate) for _ in range(2)]
        yield [[(x, y, x - 2 * y) for x, y, _ in t] for t in pair] if rng.randrange(8) == 0 else pair


# ---------------------------------------------------------------------------------------------- triangles


@pytest.mark.parametrize(("t1", "t2", "kind"), [case[1:] for case in HAND_CASES], ids=[c[0] for c in HAND_CASES])
def test_knows_the_cases_drawn_by_hand(t1, t2, kind):
    """Give the kind that a drawing shows, whatever the order of triangles and corners."""
    for p1 in itertools.permutations(t1):
        for p2 in itertools.permutations(t2):
            assert oracle.triangle_kind(p1, p2) == kind
            assert oracle.triangle_kind(p2, p1) == kind


def test_hand_cases_agree_with_the_second_method():
    """Agree with the polytope of differences on every case drawn by hand."""
    for name, t1, t2, kind in HAND_CASES:
        assert kind_by_difference(t1, t2) == kind, name
    assert {kind for *_, kind in HAND_CASES} == set(oracle.KINDS)


def test_triangles_with_area_agree_with_separating_axes():
    """Agree with 17 separating axes on thousands of small-integer pairs, in all four kinds."""
    count = Counter()
    for t1, t2 in random_pairs(1, 12_000, (1, 2, 3, 5, 10, 50)):
        if not is_degenerate(t1) and not is_degenerate(t2):
            kind = oracle.triangle_kind(t1, t2)
            assert kind == kind_by_17_axes(t1, t2), (t1, t2)
            count[kind] += 1
    assert count.total() > 8000
    assert 0.3 < 1 - count["none"] / count.total() < 0.7
    assert min(count[kind] for kind in oracle.KINDS) > 100


def test_degenerate_triangles_agree_with_the_polytope_of_differences():
    """Agree with a method that knows no dimension on segments, points and triangles, in all four kinds."""
    count = Counter()
    for t1, t2 in random_pairs(2, 6000, (1, 2, 3, 4), degenerate=True):
        kind = oracle.triangle_kind(t1, t2)
        assert kind == kind_by_difference(t1, t2), (t1, t2)
        count[kind, is_degenerate(t1) + is_degenerate(t2)] += 1
    assert 0.2 < 1 - sum(count["none", k] for k in range(3)) / count.total() < 0.7
    for kind, degenerate in itertools.product(oracle.KINDS, range(3)):
        if (kind, degenerate) != ("crossing", 2):  # two segments that meet lie in one plane
            assert count[kind, degenerate] > 5, (kind, degenerate)
    assert count["crossing", 2] == 0


def test_order_of_triangles_and_corners_does_not_matter():
    """Give the same kind after swapping the triangles and permuting their corners."""
    rng = random.Random(3)
    count = Counter()
    for t1, t2 in random_pairs(4, 4000, (1, 2, 3, 5, 10), degenerate=True):
        kind = oracle.triangle_kind(t1, t2)
        assert oracle.triangle_kind(t2, t1) == kind
        assert oracle.triangle_kind(rng.sample(t1, 3), rng.sample(t2, 3)) == kind
        count[kind] += 1
    assert min(count[kind] for kind in oracle.KINDS) > 100


@pytest.mark.parametrize("exponent", [-1074, -1000, -3, 7, 970, 1015])
def test_power_of_two_scaling_changes_nothing(exponent):
    """Give the same kind for all sizes from the subnormal to the largest doubles."""
    count = Counter()
    for t1, t2 in random_pairs(exponent, 800, (2, 3, 5, 20), degenerate=True):
        kind = oracle.triangle_kind(t1, t2)
        s1, s2 = ([[math.ldexp(c, exponent) for c in p] for p in t] for t in (t1, t2))
        assert oracle.triangle_kind(s1, s2) == kind
        count[kind] += 1
    assert min(count[kind] for kind in oracle.KINDS) > 5


def test_integer_translation_changes_nothing():
    """Give the same kind when both triangles are moved by the same exact offset."""
    rng = random.Random(5)
    for t1, t2 in random_pairs(6, 2000, (1, 2, 3, 5, 20), degenerate=True):
        offset = [rng.choice((-1, 1)) * rng.randint(0, 2**50) for _ in range(3)]
        m1, m2 = ([[float(c + o) for c, o in zip(p, offset)] for p in t] for t in (t1, t2))
        assert oracle.triangle_kind(m1, m2) == oracle.triangle_kind(t1, t2)


def test_random_doubles_agree_with_separating_axes_in_rationals():
    """Agree with 17 axes in rationals on doubles that use all of their bits."""
    rng = random.Random(7)
    hits = 0
    for _ in range(600):
        t1, t2 = ([[rng.gauss(0, 1) for _ in range(3)] for _ in range(3)] for _ in range(2))
        kind = oracle.triangle_kind(t1, t2)
        exact = [[tuple(map(Fraction, p)) for p in t] for t in (t1, t2)]
        assert kind == kind_by_17_axes(*exact)
        hits += kind != "none"
    assert 0.1 < hits / 600 < 0.7


def test_one_ulp_decides():
    """Tell a corner on a face from a corner one unit in the last place above it."""
    above = math.nextafter(1.0, 2.0)
    face = ((0.0, 0.0, 1.0), (4.0, 0.0, 1.0), (0.0, 4.0, 1.0))
    for z, kind in ((1.0, "touching"), (above, "none"), (math.nextafter(1.0, 0.0), "crossing")):
        assert oracle.triangle_kind(face, ((1.0, 1.0, z), (1.0, 1.0, 2.0), (2.0, 1.0, 2.0))) == kind


def test_smallest_and_largest_doubles_live_in_one_scene():
    """Tell a gap of the smallest subnormal between triangles of the largest size."""
    big, tiny = 1.7e308, 5e-324
    face = ((-big, -big, 0.0), (big, -big, 0.0), (0.0, big, 0.0))
    for z, kind in ((0.0, "touching"), (tiny, "none"), (-tiny, "crossing")):
        assert oracle.triangle_kind(face, ((0.0, 0.0, z), (0.0, 1.0, big), (1.0, 0.0, big))) == kind


def test_libigl_regression_pair_is_disjoint():
    """Keep apart a pair whose distance to the planes is 1e-23, which doubles get wrong.

    libigl pull request 2382: a test in doubles reported these two triangles as meeting.
    """
    t1, t2 = ([LIBIGL_POINTS[v] for v in face] for face in ((0, 3, 2), (1, 5, 4)))
    assert oracle.triangle_kind(t1, t2) == "none"
    assert kind_by_17_axes(*[[tuple(map(Fraction, p)) for p in t] for t in (t1, t2)]) == "none"


def test_takes_arrays_of_any_number_type():
    """Give the same kind for NumPy floats, NumPy integers and Python numbers."""
    for _, t1, t2, kind in HAND_CASES:
        for dtype in (np.float64, np.float32, np.int32, np.int64):
            assert oracle.triangle_kind(np.array(t1, dtype), np.array(t2, dtype)) == kind
    assert oracle.integers([np.float32(0.5), np.int64(2**62 + 1), 0.25]) == [2, 2**64 + 4, 1]


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_refuses_what_is_not_finite(bad):
    """Raise instead of answering for coordinates that are no numbers."""
    with pytest.raises((ValueError, OverflowError)):
        oracle.triangle_kind(UNIT, ((bad, 0, 0), (1, 0, 0), (0, 1, 0)))


# ----------------------------------------------------------------------------------------------- segments


@pytest.mark.parametrize(
    ("segment", "kind"),
    [
        (((1, 1, -1), (1, 1, 1)), "crossing"),
        (((1, 1, 0), (1, 1, 1)), "touching"),
        (((2, 2, -1), (2, 2, 1)), "touching"),
        (((0, 0, 0), (-1, -1, -1)), "touching"),
        (((-1, 1, 0), (9, 1, 0)), "coplanar"),
        (((0, 0, 0), (4, 0, 0)), "touching"),
        (((1, 1, 0), (1, 1, 0)), "coplanar"),
        (((2, 2, 0), (2, 2, 0)), "touching"),
        (((3, 3, -1), (3, 3, 1)), "none"),
        (((1, 1, 1), (1, 1, 2)), "none"),
    ],
)
def test_segment_against_triangle(segment, kind):
    """Give the kind that a drawing shows for a segment, in either direction."""
    assert oracle.segment_triangle_kind(segment, UNIT) == kind
    assert oracle.segment_triangle_kind(segment[::-1], UNIT[::-1]) == kind


def test_segment_is_a_triangle_with_a_repeated_corner():
    """Give a segment the kind of the zero-area triangle on its ends."""
    count = Counter()
    for t1, t2 in random_pairs(8, 5000, (1, 2, 3, 5), degenerate=True):
        kind = oracle.segment_triangle_kind(t1[:2], t2)
        assert kind == oracle.triangle_kind((t1[0], t1[1], t1[1]), t2)
        count[kind] += 1
    assert min(count[kind] for kind in oracle.KINDS) > 20


# --------------------------------------------------------------------------------------------- neighbours


@pytest.mark.parametrize(
    ("x", "face_s", "face_t", "kind"),
    [
        ((*UNIT, (0, 0, 4)), (0, 1, 2), (1, 0, 3), "none"),
        ((*UNIT, (0, -4, 0)), (0, 1, 2), (1, 0, 3), "none"),
        ((*UNIT, (1, 1, 0)), (0, 1, 2), (1, 0, 3), "coplanar"),
        ((*UNIT, (9, 9, 0)), (0, 1, 2), (1, 0, 3), "coplanar"),
        ((*UNIT, (2, 0, 0)), (0, 1, 2), (1, 0, 3), "none"),  # the second lies on the shared edge
        ((*UNIT, (6, 0, 0)), (0, 1, 2), (1, 0, 3), "none"),  # and reaches past its end
        ((*UNIT, (2, 2, 0)), (0, 1, 2), (0, 0, 3), "coplanar"),
        ((*UNIT, (-1, -1, 0), (-2, -1, 3)), (0, 1, 2), (0, 3, 4), "none"),
        ((*UNIT, (1, 1, -1), (1, 1, 1)), (0, 1, 2), (0, 3, 4), "crossing"),
        ((*UNIT, (2, 0, 0), (2, -1, 3)), (0, 1, 2), (0, 3, 4), "touching"),  # meet along half an edge
        ((*UNIT, (1, 1, 0), (1, 1, 3)), (0, 1, 2), (0, 3, 4), "touching"),
        ((*UNIT, (2, 1, 0), (1, 2, 0)), (0, 1, 2), (0, 3, 4), "coplanar"),
        ((*UNIT, (0, 0, 0), (0, 0, 3)), (0, 1, 2), (0, 3, 4), "none"),
        (UNIT, (0, 1, 2), (2, 1, 0), "coplanar"),
        (UNIT, (0, 1, 2), (0, 1, 2), "coplanar"),
        (((0, 0, 0), (1, 1, 1), (3, 3, 3)), (0, 1, 2), (2, 0, 1), "coplanar"),  # same ids, a segment
        (((0, 0, 0),) * 3, (0, 1, 2), (2, 0, 1), "coplanar"),  # same ids, a point
        (((0, 0, 0), (0, 0, 0), (2, 2, 2), (1, 2, 1)), (0, 1, 2), (0, 1, 3), "none"),  # ids in one place
        (((0, 0, 0), (0, 0, 0), (2, 2, 2), (1, 1, 1)), (0, 1, 2), (0, 1, 3), "coplanar"),
        (UNIT, (0, 0, 1), (0, 1, 1), "none"),
        (UNIT, (0, 1, 2), (0, 1, 1), "none"),
        (UNIT, (0, 1, 2), (0, 0, 0), "none"),
        (UNIT, (0, 0, 0), (0, 0, 0), "none"),
        ((*UNIT, (2, 0, 0)), (0, 1, 2), (0, 3, 3), "touching"),
        ((*UNIT, (1, 1, 0)), (0, 1, 2), (3, 3, 3), "coplanar"),
        ((*UNIT, (0, 0, 0), (-4, 0, 0), (0, -4, 0)), (0, 1, 2), (3, 4, 5), "touching"),  # equal, not shared
        (((0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)), (0, 1, 2), (1, 2, 3), "none"),
        (((0, 0, 0), (2, 0, 0), (1, 0, 0), (3, 0, 0)), (0, 1, 2), (1, 2, 3), "none"),
        (((0, 0, 0), (3, 0, 0), (1, 0, 0), (2, 0, 0)), (0, 1, 2), (2, 3, 0), "coplanar"),
    ],
)
def test_neighbours_drawn_by_hand(x, face_s, face_t, kind):
    """Count neighbours only where a drawing shows that they meet beyond what they share."""
    for s in itertools.permutations(face_s):
        for t in itertools.permutations(face_t):
            assert oracle.self_pair_kind(x, s, t) == kind
            assert oracle.self_pair_kind(x, t, s) == kind


def test_neighbours_agree_with_rules_for_triangles_with_area():
    """Agree with the folded-over rule for a shared edge and the opposite-edge rule for a shared vertex."""
    rng = random.Random(9)
    count = Counter()
    for _ in range(12_000):
        box = rng.choice((1, 2, 3, 5))
        x = [tuple(rng.randint(0, box) for _ in range(3)) for _ in range(5)]
        s, t = rng.sample(range(5), 3), rng.sample(range(5), 3)
        shared = set(s) & set(t)
        p, q = [x[v] for v in s], [x[v] for v in t]
        if is_degenerate(p) or is_degenerate(q):
            continue
        if len(shared) == 3:
            meets = True
        elif len(shared) == 2:
            a, b = (x[v] for v in shared)
            (c,), (d,) = ([x[v] for v in f if v not in shared] for f in (s, t))
            u = sub(b, a)
            nc, nd = cross(u, sub(c, a)), cross(u, sub(d, a))
            meets = cross(nc, nd) == (0, 0, 0) and dot(nc, nd) > 0
        else:
            opposite_s, opposite_t = ([x[v] for v in f if v not in shared] for f in (s, t))
            meets = (
                oracle.segment_triangle_kind(opposite_s, q) != "none"
                or oracle.segment_triangle_kind(opposite_t, p) != "none"
            )
        kind = oracle.self_pair_kind(x, s, t)
        assert kind == (oracle.triangle_kind(p, q) if meets else "none"), (x, s, t)
        count[len(shared), kind] += 1
    assert min(count[case] for case in itertools.product((1,), oracle.KINDS)) > 50
    assert min(count[2, "none"], count[2, "coplanar"], count[3, "coplanar"]) > 50
    assert count[2, "touching"] == count[2, "crossing"] == 0


def test_faces_that_share_nothing_are_plain_triangles():
    """Give faces without a common vertex id the kind of their triangles."""
    count = Counter()
    for t1, t2 in random_pairs(10, 4000, (1, 2, 3, 5), degenerate=True):
        kind = oracle.self_pair_kind([*t1, *t2], (0, 1, 2), (3, 4, 5))
        assert kind == oracle.triangle_kind(t1, t2)
        count[kind] += 1
    assert min(count[kind] for kind in oracle.KINDS) > 50


# ------------------------------------------------------------------------------------ signs and points


def test_orientations_have_the_sign_of_the_right_hand():
    """Give +1 on the left of an edge and on the normal side of a triangle."""
    assert oracle.sign_orient2d((0, 0), (1, 0), (0, 1)) == 1
    assert oracle.sign_orient2d((0, 0), (0, 1), (1, 0)) == -1
    assert oracle.sign_orient2d((0, 0), (1, 1), (3, 3)) == 0
    assert oracle.sign_orient3d(*UNIT, (0, 0, 1)) == 1
    assert oracle.sign_orient3d(*UNIT, (0, 0, -1)) == -1
    assert oracle.sign_orient3d(*UNIT, (7, 7, 0)) == 0


def test_orientations_agree_with_rationals_at_every_scale():
    """Agree with determinants in rationals on doubles of mixed size, subnormal and huge ones included."""
    rng = random.Random(11)
    number = lambda: rng.choice((-1, 1)) * rng.randint(0, 3) * rng.choice((5e-324, 1e-310, 0.1, 1.0, 4e307))  # noqa: E731
    signs = Counter()
    for _ in range(2000):
        a, b, c, d = ([number() for _ in range(3)] for _ in range(4))
        fa, fb, fc, fd = (tuple(map(Fraction, p)) for p in (a, b, c, d))
        volume = dot(cross(sub(fb, fa), sub(fc, fa)), sub(fd, fa))
        area = cross((*sub(fb, fa)[:2], 0), (*sub(fc, fa)[:2], 0))[2]
        for sign, exact in (
            (oracle.sign_orient3d(a, b, c, d), volume),
            (oracle.sign_orient2d(a[:2], b[:2], c[:2]), area),
        ):
            assert sign == (exact > 0) - (exact < 0)
            signs[sign] += 1
    assert min(signs[s] for s in (-1, 0, 1)) > 50


def test_point_in_tet():
    """Tell inside, boundary and outside of a tetrahedron of either orientation."""
    tet = ((0, 0, 0), (4, 0, 0), (0, 4, 0), (0, 0, 4))
    expected = {
        (1, 1, 1): 1,
        (0.5, 0.25, 0.125): 1,
        (1, 1, 0): 0,
        (1, 1, 2): 0,
        (0, 0, 4): 0,
        (2, 0, 0): 0,
        (2, 2, 2): -1,
        (-1, 0, 0): -1,
        (5, 0, 0): -1,
        (5e-324, 5e-324, 5e-324): 1,
        (5e-324, -5e-324, 5e-324): -1,
    }
    for corners in itertools.permutations(tet):
        for p, side in expected.items():
            assert oracle.point_in_tet(p, corners) == side
    flat = ((0, 0, 0), (4, 0, 0), (0, 4, 0), (4, 4, 0))
    assert oracle.point_in_tet((1, 1, 0), flat) == -1


def test_point_in_closed_surface_agrees_with_point_in_tet():
    """Give the surface of a tetrahedron the same inside as the tetrahedron."""
    faces = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))
    rng = random.Random(12)
    count = Counter()
    for _ in range(1500):
        tet = [tuple(rng.choice((0, 1, 5, 6)) for _ in range(3)) for _ in range(4)]
        p = tuple(rng.randint(1, 5) for _ in range(3))
        if oracle.sign_orient3d(*tet) == 0:
            continue
        side = oracle.point_in_tet(p, tet)
        assert oracle.point_in_closed_surface(p, tet, faces) == side
        count[side] += 1
    assert min(count[s] for s in (-1, 0, 1)) > 30


def test_point_in_surface_that_is_not_convex():
    """Tell the notch of an L-shaped solid from its arms."""
    outline = [(0, 0), (4, 0), (4, 2), (2, 2), (2, 4), (0, 4)]
    x = [(*p, z) for z in (0, 2) for p in outline]
    cap = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    walls = [f for i in range(6) for j in [(i + 1) % 6] for f in ((i, j, j + 6), (i, j + 6, i + 6))]
    faces = [*cap, *(tuple(v + 6 for v in f) for f in cap), *walls, (0, 0, 1)]
    for p, side in (
        ((3, 1, 1), 1),
        ((1, 3, 1), 1),
        ((3, 3, 1), -1),
        ((2, 3, 1), 0),
        ((1, 1, 2), 0),
        ((1, 1, 3), -1),
    ):
        assert oracle.point_in_closed_surface(p, x, faces) == side
