"""The scheme as published: hash functions by hand, tables, time stamps, one pass and two."""

from __future__ import annotations

import numpy as np
import pytest

from impinge import shapes
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.spatial_hash.published import FUNCTIONS, Variant, next_prime, variant_of
from impinge.detect.spatial_hash.published_kernels import hash_cell

pytestmark = pytest.mark.small

LARGEST = 2**63 - 1
"""A table so large that hardly any two hashes share a slot by the remainder."""
WORD = 2**64


def slot(name, cell, table_size=LARGEST):
    return int(hash_cell(FUNCTIONS[name], *map(np.int64, cell), table_size))


def by_definition(name, cell):
    """The hash before the remainder, in whole numbers without a word size but for the words of the definition."""
    i, j, k = (c % WORD for c in cell)
    if name == "paper":
        return (i * 73856093 % WORD) ^ (j * 19349663 % WORD) ^ (k * 83492791 % WORD)
    if name == "additive":
        return (i * 73856093 + j * 19349663 + k * 83492791) % WORD
    if name == "rotating":
        return rotated(rotated(i) ^ j) ^ k
    return mixed((mixed((mixed(i) + j) % WORD) + k) % WORD)


def rotated(h):
    return (h << 11 | h >> 53) % WORD


def mixed(h):
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % WORD
    h = (h ^ h >> 27) * 0x94D049BB133111EB % WORD
    return h ^ h >> 31


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("name", "cell", "table_size", "expected"),
    [
        ("paper", (0, 0, 0), 1000, 0),
        ("paper", (1, 0, 0), 1000, 93),
        ("paper", (0, 1, 0), 1000, 663),
        ("paper", (0, 0, 1), 1000, 791),
        ("paper", (2, 0, 0), 1000, 186),
        ("paper", (-1, 0, 0), 1000, 523),  # 2^64 - 73856093 = 18446744073635695523
        ("paper", (0, -1, 0), 1000, 953),  # 2^64 - 19349663 = 18446744073690201953
        ("paper", (0, -1, -1), 9973, (19349663 ^ 83492791) % 9973),  # both signs cancel: the defect
        ("additive", (1, 1, 1), 1000, 547),  # 73856093 + 19349663 + 83492791 = 176698547
        ("additive", (1, -1, 0), 1000, 430),  # 73856093 - 19349663 = 54506430
        ("additive", (-1, 0, 0), 1000, 523),
        ("rotating", (0, 0, 5), 1000, 5),
        ("rotating", (0, 1, 0), 10_000, 2048),
        ("rotating", (1, 0, 0), 10_000_000, 1 << 22),
        ("rotating", (1, 1, 1), 10_000_000, (1 << 22) + 2048 + 1),
        ("rotating", (0, 0, -1), 1000, 615),  # 2^64 - 1 = 18446744073709551615
        ("rotating", (-1, -1, -1), 1000, 615),  # all bits, whichever way they are turned, three times
        ("mixed", (0, 0, 0), 1000, 0),
        ("mixed", (0, 0, 0x9E3779B97F4A7C15 - WORD), 1000, 0xE220A8397B1DCDAF % 1000),  # first number of SplitMix64
    ],
)
def test_hashes_by_hand(name, cell, table_size, expected):
    """Give the slots that follow from the definition by hand, of negative cells too."""
    assert slot(name, cell, table_size) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hashes_by_definition(rng, name):
    """Give the slots of the definition in whole numbers, for all table sizes, and use nearly all slots."""
    cells = [*rng.integers(-5, 6, (100, 3)).tolist(), *rng.integers(-(2**62), 2**62, (50, 3)).tolist()]
    cells += [(-(2**63), 2**63 - 1, 0), (2**63 - 1, -(2**63), -1)]
    for cell in cells:
        for table_size in (1, 2, 7, 1024, 9973, 2**31 - 1, LARGEST):
            found = slot(name, cell, table_size)
            assert found == by_definition(name, cell) % table_size
            assert 0 <= found < table_size
    grid = np.argwhere(np.ones((12, 12, 12))) - 6
    assert len({slot(name, cell, 97) for cell in grid.tolist()}) >= (93 if name == "rotating" else 97)


def test_sign_symmetry_of_the_published_hash():
    """Show the defect of the published hash, that j, k and -j, -k share a slot, and that mixing has no such."""
    same = dict.fromkeys(FUNCTIONS, 0)
    cells = [(i, j, k) for i in range(-2, 3) for j in range(1, 9) for k in range(1, 9)]
    for i, j, k in cells:
        is_even_match = (j & -j) == (k & -k)  # as many trailing zero bits
        assert not is_even_match or slot("paper", (i, j, k)) == slot("paper", (i, -j, -k))
        for name in FUNCTIONS:
            same[name] += slot(name, (i, j, k)) == slot(name, (i, -j, -k))

    assert same["paper"] >= len(cells) * 22 // 64  # 4 · 4 odd, 2 · 2 twice odd, 1, 1 of 8 · 8
    assert same["mixed"] == 0


def test_cells_around_the_origin_crowd_by_the_published_hash():
    """Count the hashes of 24³ cells around the origin: 8526 as published, all different when mixed."""
    grid = (np.argwhere(np.ones((24, 24, 24))) - 12).tolist()
    assert len({by_definition("paper", cell) for cell in grid}) == 8526
    assert len({slot("mixed", cell) for cell in grid}) == len(grid)


def test_defaults_of_the_paper():
    """Take cells as long as the mean edge, and the least prime above twice the number of vertices."""
    body = shapes.tet_box(3, 2, 2)
    x, tets = body.vertices, body.tets
    pairs = [(m, n) for m in range(4) for n in range(m)]
    # The last cluster of eight is filled up with its last tet, which may count more than once.
    length = np.mean([np.linalg.norm(x[tets[:, m]] - x[tets[:, n]], axis=1) for m, n in pairs])
    stats = SpatialHash([body], hash="paper").query().stats

    assert stats["table_size"] == 73  # 36 vertices
    assert stats["cell_size"] == pytest.approx(length, rel=0.05)
    assert variant_of({}) is None
    assert variant_of({"passes": 1}) == Variant(passes=1)
    assert (Variant().hash, Variant().inside_test, Variant().passes, Variant().storage) == (
        "paper", "barycentric", 2, "time_stamps",
    )  # fmt: skip
    assert SpatialHash([body], hash="paper", cell_size=0.3, table_size=77).query().stats["table_size"] == 77


@pytest.mark.tiny
def test_next_prime():
    """Find the least prime above a number."""
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]
    for n in range(31):
        assert next_prime(n) == min(p for p in primes if p > n)
    assert next_prime(9968) == 9973


# searches ----------------------------------------------------------------------------------------------------


def rows_of(result):
    return np.stack([result.body, result.vertex, result.in_body, result.tet], axis=1)


def bodies_of(rng, n=3, noise=0.4):
    bodies = [shapes.tet_box(n, n, n, center=(0.7 * k, 0.3 * k, 0.2 * k)) for k in range(2)]
    for body in bodies:
        body.update(np.array(body.vertices) + noise * rng.standard_normal(body.vertices.shape))
    return bodies


def test_time_stamps_survive_many_frames(rng):
    """Find what a fresh table finds, frame after frame: slots of earlier frames count as empty."""
    bodies = bodies_of(rng)
    rest = [np.array(body.vertices) for body in bodies]
    kept = {name: SpatialHash(bodies, hash=name, table_size=101) for name in FUNCTIONS}
    counts = set()
    for frame in range(60):
        for body, x in zip(bodies, rest):
            body.update(x * rng.uniform(0.3, 2.0) + rng.standard_normal(3) + (100.0 if frame % 7 == 6 else 0.0))
        if frame in (20, 40):
            bodies[0].remove_tets(np.flatnonzero(bodies[0].alive)[::3])
        expected = rows_of(SpatialHash(bodies).query())
        for detector in kept.values():
            np.testing.assert_array_equal(rows_of(detector.query()), expected)
        counts.add(len(expected))

    assert len(counts) > 15


def test_default_table_follows_the_bodies(rng):
    """Take a smaller or larger table when the number of vertices changes, with stamps left from before."""
    bodies = bodies_of(rng)
    detector = SpatialHash(bodies, hash="mixed")
    sizes = set()
    for keep in (None, np.arange(10), None, np.arange(60), np.arange(3), None):
        result = detector.query(active=[keep, None])
        np.testing.assert_array_equal(rows_of(result), rows_of(SpatialHash(bodies).query(active=[keep, None])))
        sizes.add(result.stats["table_size"])

    assert len(sizes) == 4


@pytest.mark.parametrize("storage", ["time_stamps", "counting_sort"])
@pytest.mark.parametrize("table_size", [1, 2, 3, 64, 99, 9973, 1 << 22])
def test_tables_from_tiny_to_huge(rng, storage, table_size):
    """Find the same in a table of one slot, where everybody meets everybody, and in one of millions."""
    bodies = bodies_of(rng)
    expected = SpatialHash(bodies).query()
    counts = {}
    for name in FUNCTIONS:
        result = SpatialHash(bodies, hash=name, storage=storage, table_size=table_size).query()
        np.testing.assert_array_equal(rows_of(result), rows_of(expected))
        np.testing.assert_array_equal(result.barycentric, expected.barycentric)
        counts[name] = result.stats["vertices_met"]
    assert len(expected) > 50
    if table_size == 1:
        assert len(set(counts.values())) == 1
        assert counts["paper"] >= 270 * 128  # each tet meets every vertex in each of its cells
    else:
        assert max(counts.values()) < 270 * 128 * 8


def test_storages_do_the_same_work(rng):
    """Meet the same vertices with lists by time stamps and with sorted ones, and test the same ones."""
    bodies = bodies_of(rng)
    for name in FUNCTIONS:
        stats = [SpatialHash(bodies, hash=name, storage=s).query().stats for s in ("time_stamps", "counting_sort")]
        for count in ("vertices_met", "inside_tests", "candidates", "cell_size", "table_size"):
            assert stats[0][count] == stats[1][count]
        assert stats[0]["vertices_met"] > stats[0]["inside_tests"] > 0


@pytest.mark.parametrize("inside_test", ["barycentric", "half_space"])
@pytest.mark.parametrize("cell_size", [None, 0.6, 3.0, 1e9])
def test_one_pass_equals_two(rng, inside_test, cell_size):
    """Find the same by hashing tets only as by hashing vertices, with large and small cells, in a new frame too."""
    bodies = bodies_of(rng, 2)
    one = SpatialHash(bodies, passes=1, cell_size=cell_size, inside_test=inside_test)
    two = SpatialHash(bodies, passes=2, cell_size=cell_size, inside_test=inside_test)
    for _ in range(3):
        first, second = one.query(), two.query()
        np.testing.assert_array_equal(rows_of(first), rows_of(second))
        np.testing.assert_array_equal(first.barycentric, second.barycentric)
        assert first.stats["vertices_met"] > second.stats["vertices_met"]  # what makes it slower
        assert len(first) > 10
        for body in bodies:
            body.update(np.array(body.vertices) + 0.1 * rng.standard_normal(body.vertices.shape))


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("storage", ["time_stamps", "counting_sort"])
def test_huge_tet_falls_back_to_all_vertices(rng, passes, storage):
    """Look at all vertices, once, for a tet that covers more cells than there are vertices."""
    fine = shapes.tet_box(6, 6, 6)
    huge = shapes.tet_box(1, 1, 1, size=1e9, center=(1e8, 2e8, 3e8))
    options = {"passes": passes, "storage": storage, "hash": "mixed", "cell_size": 1.0}
    result = SpatialHash([fine, huge], **options).query()
    alone = SpatialHash([fine], **options).query()

    np.testing.assert_array_equal(rows_of(result), rows_of(SpatialHash([fine, huge]).query()))
    assert len(result) >= len(fine.vertices)
    more = result.stats["vertices_met"] - alone.stats["vertices_met"]
    assert more < 5 * (len(fine.vertices) + 8) + 0.3 * alone.stats["vertices_met"]  # and another table
