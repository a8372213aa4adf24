"""One point against eight tets, eight points against a box: each equals its plain definition, and no inside is lost."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from impinge.backend.jit import compiled
from impinge.backend.simd import tets
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.tets import CORNER_ROWS, TET_ROWS
from impinge.exact.orientation import point
from point_tet import point_in_tet

pytestmark = pytest.mark.small

MARGIN = 2.0**-14
"""The share of E R (R + 1) that ``spatial_hash_kernels.search`` allows for."""


@compiled
def in_box(x, y, z, start, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
    return tets.points_in_box(x, y, z, start, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)


@compiled
def fit(corner, tet, reach):
    return tets.fit_tets(corner, tet, reach)


@compiled
def around(tet, x, y, z):
    return tets.tets_around(tet, x, y, z)


@compiled
def with_corner(ids, start, v):
    return tets.tets_with_corner(ids, start, v)


def lanes(bits):
    """Truths of eight lanes; no bit beyond them may be set."""
    assert 0 <= int(bits) < 1 << WIDTH
    return [bool(int(bits) >> lane & 1) for lane in range(WIDTH)]


def rows_of(corners):
    """Corners of eight tets, shape (8, 4, 3), as the twelve rows that the intrinsics want."""
    return np.ascontiguousarray(corners.transpose(1, 2, 0).reshape(-1).astype(np.float32))


@pytest.mark.tiny
def test_eight_points_against_a_closed_box(rng):
    """Compare eight points with a closed box from any start, the last eight included; NaN is in no box."""
    count = 50
    points = rng.integers(0, 5, (3, count)).astype(np.float32)
    points[rng.integers(0, 3, 10), rng.integers(0, count, 10)] = np.nan
    hits = 0
    for start in range(count - WIDTH + 1):
        lo, hi = np.sort(rng.integers(0, 5, (2, 3)), axis=0).astype(np.float32)
        here = points[:, start : start + WIDTH]
        expected = ((here >= lo[:, None]) & (here <= hi[:, None])).all(axis=0)
        assert lanes(in_box(*points, start, *lo, *hi)) == expected.tolist()
        hits += expected.sum()

    assert 0.05 < hits / (WIDTH * count) < 0.9


@pytest.mark.tiny
def test_rows_of_fitted_tets_on_integers(rng):
    """Write corner 0, three normals, the determinant and the margin, all of inverted tets with the sign turned."""
    for span in (2, 9):
        corners = rng.integers(-span, span + 1, (WIDTH, 4, 3))
        tet = np.full(TET_ROWS * WIDTH, np.nan, dtype=np.float32)
        positive, negative = (lanes(bits) for bits in fit(rows_of(corners), tet, np.float32(0.0)))
        u = corners[:, 1:] - corners[:, :1]
        normal = np.stack([np.cross(u[:, k], u[:, (k + 1) % 3]) for k in (1, 2, 0)], axis=1)
        det = (normal[:, 2] * u[:, 2]).sum(axis=1)
        sign = np.where(det < 0, -1, 1)
        found = tet.reshape(TET_ROWS, WIDTH).T

        assert positive == (det > 0).tolist()
        assert negative == (det < 0).tolist()
        np.testing.assert_array_equal(found[:, :3], corners[:, 0])
        np.testing.assert_array_equal(found[:, 3:12], (sign[:, None, None] * normal).reshape(WIDTH, 9))
        np.testing.assert_array_equal(found[:, 12], sign * det)
        np.testing.assert_array_equal(found[:, 13], 0.0)


@pytest.mark.tiny
def test_margin_grows_with_the_longest_edge_at_corner_0(rng):
    """Let the margin be the reach times the longest coordinate of the edges at corner 0, and doubt what is below it."""
    corners = rng.integers(-4, 5, (WIDTH, 4, 3))
    tet = np.zeros(TET_ROWS * WIDTH, dtype=np.float32)
    reach = np.float32(8.0)
    positive, negative = (np.array(lanes(bits)) for bits in fit(rows_of(corners), tet, reach))
    u = corners[:, 1:] - corners[:, :1]
    det = np.rint(np.linalg.det(u.astype(float)))
    margin = 8.0 * np.abs(u).max(axis=(1, 2))

    np.testing.assert_array_equal(tet.reshape(TET_ROWS, WIDTH)[13], -margin)
    np.testing.assert_array_equal(positive, det > margin)
    np.testing.assert_array_equal(negative, det < -margin)
    assert 0 < (positive | negative).sum() < WIDTH


@pytest.mark.tiny
def test_point_against_eight_tets_on_integers(rng):
    """Find exactly the tets that contain a point where float32 does not round, faces and inverted tets included."""
    counts = np.zeros(3, dtype=int)
    for _ in range(40):
        corners = rng.integers(0, 7, (WIDTH, 4, 3))
        tet = np.zeros(TET_ROWS * WIDTH, dtype=np.float32)
        positive, negative = fit(rows_of(corners), tet, np.float32(0.0))
        solid = lanes(positive | negative)
        for p in rng.integers(0, 7, (10, 3)).tolist():
            bits = lanes(around(tet, *np.float32(p)))
            where = [oracle.point_in_tet(p, corners[lane].tolist()) for lane in range(WIDTH)]
            for lane in range(WIDTH):
                if solid[lane]:
                    assert bits[lane] == (where[lane] >= 0)
                    counts[where[lane]] += 1

    assert (counts > 10).all(), counts  # on the border, inside, outside


@pytest.mark.tiny
def test_tets_with_a_corner(rng):
    """Find a vertex among the corners of eight tets, whichever corner it is, from any start."""
    ids = rng.integers(0, 12, 5 * 4 * WIDTH).astype(np.int32)
    hits = 0
    for start in range(len(ids) - 4 * WIDTH + 1):
        rows = ids[start : start + 4 * WIDTH].reshape(4, WIDTH)
        for v in (int(rng.integers(0, 12)), int(rows[start % 4, start % WIDTH]), 77, -1):
            expected = (rows == v).any(axis=0)
            assert lanes(with_corner(ids, start, np.int32(v))) == expected.tolist()
            hits += expected.sum()

    assert hits > 300


# the margin -----------------------------------------------------------------------------------------------


@compiled
def count_verdicts(x, points, inverse, share, corner, tet, tally):
    """Points against the eight tets whose corners are the rows of ``x``, just as the search does it.

    Tally: inside, inside but turned away, outside but let in, inside of a tet whose sign is unsure, outside.
    """
    lo_x, lo_y, lo_z = x[:, 0].min() * inverse, x[:, 1].min() * inverse, x[:, 2].min() * inverse
    hi_x, hi_y, hi_z = x[:, 0].max() * inverse, x[:, 1].max() * inverse, x[:, 2].max() * inverse
    size = max(hi_x - lo_x, hi_y - lo_y, hi_z - lo_z)
    for k in range(4):
        for lane in range(8):
            v = 4 * lane + k
            corner[3 * k * 8 + lane] = x[v, 0] * inverse - lo_x
            corner[(3 * k + 1) * 8 + lane] = x[v, 1] * inverse - lo_y
            corner[(3 * k + 2) * 8 + lane] = x[v, 2] * inverse - lo_z
    positive, negative = tets.fit_tets(corner, tet, np.float32(share * size * (size + 1.0)))
    sure = positive | negative
    for n in range(len(points)):
        u, v_, w = points[n, 0] * inverse, points[n, 1] * inverse, points[n, 2] * inverse
        i, j, k = np.int64(np.floor(u)), np.int64(np.floor(v_)), np.int64(np.floor(w))
        bits = tets.tets_around(
            tet,
            np.float32(u - np.floor(u)) + np.float32(i - lo_x),
            np.float32(v_ - np.floor(v_)) + np.float32(j - lo_y),
            np.float32(w - np.floor(w)) + np.float32(k - lo_z),
        )
        for lane in range(8):
            here = point_in_tet(
                point(points, n), point(x, 4 * lane), point(x, 4 * lane + 1), point(x, 4 * lane + 2),
                point(x, 4 * lane + 3),
            )  # fmt: skip
            is_sure = (sure >> np.uint64(lane)) & np.uint64(1) != 0
            is_in = (bits >> np.uint64(lane)) & np.uint64(1) != 0
            if here >= 0:
                tally[0] += 1
                tally[1] += int(is_sure and not is_in)
                tally[3] += int(not is_sure)
            else:
                tally[2] += int(is_sure and is_in)
                tally[4] += int(is_sure)


def flattened(rng, corners, height):
    """Tets with corner 3 moved into the plane of the others, but for a small share of its height."""
    weights = rng.dirichlet(np.ones(3), len(corners))
    foot = (weights[:, :, None] * corners[:, :3]).sum(axis=1)
    corners[:, 3] = foot + height * (corners[:, 3] - foot)
    return corners


def generic(rng):
    return rng.random((WIDTH, 4, 3))


def needles(rng):
    corners = rng.random((WIDTH, 4, 3))
    corners[:, 2:] = corners[:, :2] + 10.0 ** -rng.uniform(1, 4, (WIDTH, 1, 1)) * rng.standard_normal((WIDTH, 2, 3))
    return corners


def flat(rng):
    return flattened(rng, rng.random((WIDTH, 4, 3)), 10.0 ** -rng.uniform(1, 8, (WIDTH, 1)))


def small_ones_far_apart(rng):
    return rng.random((WIDTH, 1, 3)) + 0.05 * rng.random((WIDTH, 4, 3))


def inverted(rng):
    corners = rng.random((WIDTH, 4, 3))
    wrong = np.linalg.det(corners[:, 1:] - corners[:, :1]) > 0
    corners[wrong] = corners[wrong][:, [0, 2, 1, 3]]
    return corners


def points_for(rng, corners, count):
    """Corners, points on edges and faces, points within, points around: many lie on the border, within rounding."""
    weights = rng.dirichlet(np.full(4, 0.7), (WIDTH, count))
    weights *= rng.random((WIDTH, count, 4)) < 0.6
    weights[weights.sum(axis=2) == 0.0] = (1.0, 0.0, 0.0, 0.0)
    weights /= weights.sum(axis=2, keepdims=True)
    within = np.einsum("tnk,tkx->tnx", weights, corners).reshape(-1, 3)
    nudged = within[::3] * (1.0 + 2.0**-52 * rng.integers(-2, 3, within[::3].shape))
    lo, hi = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    anywhere = lo + (hi - lo) * rng.random((count, 3))
    return np.concatenate([corners.reshape(-1, 3), within, nudged, anywhere])


def verdicts(rng, make, rounds, count, *, share=MARGIN, length=None, offset=0.0, power=0, anywhere=False):
    tally = np.zeros(5, dtype=np.int64)
    for _ in range(rounds):
        corners = make(rng)
        extent = (corners.max(axis=(0, 1)) - corners.min(axis=(0, 1))).max()
        cells = length or 2.0 ** rng.uniform(-3, 2)  # a cluster is an eighth of a cell to four cells long
        corners = corners * (cells / extent) + offset * rng.choice([-1.0, 1.0], 3) * rng.uniform(0.5, 1.0, 3)
        points = points_for(rng, corners, count)
        if anywhere:
            points = points[-count:]
        scratch = np.zeros(CORNER_ROWS * WIDTH, np.float32), np.zeros(TET_ROWS * WIDTH, np.float32)
        count_verdicts(
            np.ldexp(corners.reshape(-1, 3), power), np.ldexp(points, power), 2.0**-power, share, *scratch, tally
        )
    return tally.tolist()


KINDS = [generic, needles, flat, small_ones_far_apart, inverted]


ROUNDS, POINTS = 150, 30
"""Clusters, and points for each of their tets."""


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e12, 1e15])
def test_no_point_inside_is_turned_away(rng, make, offset):
    """Let every point through that is in a tet, border included, at any place: the margin covers all rounding."""
    inside, lost, _, unsure, _ = verdicts(rng, make, ROUNDS, POINTS, offset=offset)

    assert lost == 0
    assert offset == 1e15 or inside - unsure > 20 * ROUNDS
    assert inside > ROUNDS  # so far away that coordinates are eighths, and many tets without volume


@pytest.mark.parametrize("power", [-1000, -500, -27, 27, 500, 960])
def test_no_point_inside_is_turned_away_at_extreme_scales(rng, power):
    """Give the very same verdicts at scales from 2^-1000 to 2^960: cells are powers of two."""
    seed = int(rng.integers(1 << 30))
    here = verdicts(np.random.default_rng(seed), generic, 25, POINTS)
    there = verdicts(np.random.default_rng(seed), generic, 25, POINTS, power=power)

    assert here == there
    assert here[1] == 0


@pytest.mark.parametrize("make", KINDS)
def test_margin_is_generous_and_needed(rng, make):
    """Lose no point with an eighth of the margin, and some with none: the test detects losses."""
    generous = verdicts(rng, make, ROUNDS, POINTS, share=MARGIN / 8.0)
    none = verdicts(rng, make, ROUNDS, POINTS, share=0.0)

    assert generous[1] == 0
    assert none[1] > 0


@pytest.mark.parametrize("length", [0.125, 1.0, 4.0])
def test_margin_lets_few_strangers_in(rng, length):
    """Reject nearly all points outside of well-shaped tets: candidates hardly exceed hits."""
    inside, lost, let_in, unsure, outside = verdicts(rng, generic, ROUNDS, POINTS, length=length, anywhere=True)

    assert lost == 0
    assert let_in < 0.01 * outside
    assert unsure < 0.05 * inside
