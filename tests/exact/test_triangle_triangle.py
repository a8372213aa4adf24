"""The triangle test against the rational oracle, which clips polygons instead of comparing signs."""

from __future__ import annotations

import numpy as np
import pytest
from predicates import (
    KIND_NAMES,
    exact_triangle_rows,
    filtered_triangle_rows,
    neighbour_rows,
    over_rows,
    triangle_rows,
)

import oracle
from impinge.exact.kinds import CROSSING, NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound


def kinds(x, rows=triangle_rows):
    return [KIND_NAMES[kind] for kind in over_rows(rows, x)]


def expected(x):
    return [oracle.triangle_kind(row[:3], row[3:]) for row in np.asarray(x).tolist()]


def integer_pairs(rng, n, box):
    return rng.integers(0, box + 1, (n, 6, 3)).astype(np.float64)


def assert_all_kinds_occur(found, least):
    for kind in KIND_NAMES.values():
        assert found.count(kind) >= least, kind


@pytest.mark.small
@pytest.mark.tiny
def test_small_integer_pairs(rng):
    """Agree with the oracle on a few hundred degenerate pairs, in every way of running the code."""
    x = np.concatenate([integer_pairs(rng, 150, box) for box in (1, 2, 3)])
    found = kinds(x)

    assert found == expected(x)
    assert found == kinds(x, exact_triangle_rows)
    assert_all_kinds_occur(found, 5)


def test_200_000_integer_pairs():
    """Agree with the oracle on pairs full of touching, coplanar and zero-area cases, in boxes from 1 to 50."""
    rng = np.random.default_rng(0)
    boxes = {1: 40_000, 2: 40_000, 3: 40_000, 4: 30_000, 5: 20_000, 10: 20_000, 20: 5_000, 50: 5_000}
    found: list[str] = []
    for box, n in boxes.items():
        x = integer_pairs(rng, n, box)
        here = kinds(x)
        wrong = [row for row, (ours, theirs) in enumerate(zip(here, expected(x))) if ours != theirs]
        assert not wrong, (box, x[wrong[0]].tolist())
        found += here

    assert len(found) == 200_000
    assert_all_kinds_occur(found, 1_000)


@pytest.mark.slow
def test_ten_million_integer_pairs():
    """Agree with the oracle on ten million pairs."""
    rng = np.random.default_rng(1)
    for _ in range(1000):
        x = integer_pairs(rng, 10_000, int(rng.choice([1, 2, 3, 4, 5, 8, 12, 20, 50])))
        assert kinds(x) == expected(x)


@pytest.mark.small
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-8, 1.0, 1e8, 1e100, 1e150])
def test_near_degeneracy_at_every_scale(rng, scale):
    """Agree with the oracle where a corner is meant to lie on the other triangle and rounding moves it off."""
    x = rng.standard_normal((600, 6, 3))
    weight = rng.dirichlet((1, 1, 1), 600)
    x[:, 3] = np.einsum("nk,nkd->nd", weight, x[:, :3])  # a corner on the face
    x[200:400, 3] = 0.5 * (x[200:400, 0] + x[200:400, 1])  # on an edge
    x[400:, 4] = np.einsum("nk,nkd->nd", rng.dirichlet((1, 1, 1), 200), x[400:, :3])  # an edge in the plane
    x *= scale
    found = kinds(x)

    assert found == expected(x)
    assert found.count("none") > 50
    assert found.count("crossing") > 50


@pytest.mark.small
def test_subnormal_differences(rng):
    """Agree with the oracle on triangles whose corners differ by subnormal amounts."""
    x = 5e-324 * rng.integers(0, 4, (400, 6, 3))
    found = kinds(x)

    assert found == expected(x)
    assert_all_kinds_occur(found, 2)


@pytest.mark.small
def test_scaling_by_a_power_of_two_changes_nothing(rng):
    """Give the same kinds in any unit that is a power of two, down to 2^-500 and up to 2^500."""
    x = integer_pairs(rng, 2000, 3)
    found = kinds(x)

    for exponent in (-500, -60, 60, 500):
        assert kinds(x * 2.0**exponent) == found


@pytest.mark.small
def test_order_of_triangles_and_corners_does_not_matter(rng):
    """Give the same kind when triangles are swapped or their corners permuted."""
    x = integer_pairs(rng, 3000, 2)
    found = kinds(x)

    assert kinds(x[:, [3, 4, 5, 0, 1, 2]]) == found
    assert kinds(x[:, [1, 2, 0, 5, 3, 4]]) == found
    assert kinds(x[:, [1, 0, 2, 3, 5, 4]]) == found


@pytest.mark.small
@pytest.mark.tiny
def test_pair_that_doubles_get_wrong():
    """Call a pair disjoint whose plane distances are about 1e-23 (libigl pull request 2382).

    The sign of a determinant computed in doubles is that of its rounding error here, and a test in doubles
    reports an intersection that is not there.
    """
    points = np.array([
        [0.39234799146652199, 0.38443601131439198, 0.44744500517845198],
        [0.38924700021743752, 0.385637506842613, 0.45762349665164948],
        [0.38700349628925301, 0.38789276033639897, 0.45634675025939975],
        [0.39079749584197976, 0.38503675907850249, 0.45253425091505073],
        [0.38769650459289529, 0.38623825460672351, 0.46271274238824822],
        [0.39279749989509577, 0.37299175560474374, 0.45553924888372399],
    ])  # fmt: skip
    x = points[[[0, 3, 2, 1, 5, 4]]]

    assert kinds(x) == ["none"]


def test_filter_is_never_wrong_and_rarely_uncertain(rng):
    """Let the filter decide all generic pairs, and none wrongly."""
    generic = rng.standard_normal((100_000, 6, 3))
    degenerate = integer_pairs(rng, 20_000, 4)
    for x, most_uncertain in ((generic, 0), (degenerate, 20_000)):
        size = x.max(axis=(0, 1)) - x.min(axis=(0, 1))
        filtered = over_rows(filtered_triangle_rows, x, error_bound(*size))
        exact = over_rows(exact_triangle_rows, x)

        assert set(filtered) <= {NONE, CROSSING, UNCERTAIN}
        assert all(f in (UNCERTAIN, e) for f, e in zip(filtered, exact))
        assert filtered.count(UNCERTAIN) <= most_uncertain
    assert 0.1 < np.mean(np.array(over_rows(exact_triangle_rows, generic)) == CROSSING) < 0.6


@pytest.mark.small
@pytest.mark.tiny
def test_neighbours_meet_beyond_what_they_share(rng):
    """Agree with the oracle's policy for faces that share ids, repeated ids and coincident corners included."""
    n = 400
    x = np.concatenate([rng.integers(0, box + 1, (n, 7, 3)) for box in (1, 2, 20)]).astype(np.float64)
    s, t = rng.integers(0, 7, (2, len(x), 3)).astype(np.int32)
    found = [KIND_NAMES[kind] for kind in over_rows(neighbour_rows, x, s, t)]

    assert found == [oracle.self_pair_kind(v.tolist(), p.tolist(), q.tolist()) for v, p, q in zip(x, s, t)]
    assert_all_kinds_occur(found, 5)


def test_60_000_neighbours():
    """Agree with the oracle's policy for neighbours on many pools of few vertices."""
    rng = np.random.default_rng(2)
    for box in (1, 2, 3, 6):
        x = rng.integers(0, box + 1, (15_000, 5, 3)).astype(np.float64)
        s, t = rng.integers(0, 5, (2, len(x), 3)).astype(np.int32)
        found = [KIND_NAMES[kind] for kind in over_rows(neighbour_rows, x, s, t)]

        assert found == [oracle.self_pair_kind(v.tolist(), p.tolist(), q.tolist()) for v, p, q in zip(x, s, t)]
        assert len(set(found)) == 4
