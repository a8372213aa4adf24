"""Published spatial hashing: every option against the oracle, the production detector and the definitions."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import oracle
from impinge import TetMesh, scenes, shapes
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.errors import MeshError, OptionError
from impinge.published import spatial_hash
from impinge.published.spatial_hash import SpatialHashing, hash_cell, next_prime

pytestmark = pytest.mark.small

FUNCTIONS = {
    "paper": spatial_hash.PAPER, "additive": spatial_hash.ADDITIVE, "rotating": spatial_hash.ROTATING,
    "mixed": spatial_hash.MIXED,
}  # fmt: skip
VARIANTS = [
    {},
    {"hash": "additive", "storage": "counting_sort"},
    {"hash": "rotating", "inside_test": "half_space", "storage": "reset"},
    {"hash": "mixed", "passes": 1},
    {"passes": 1, "inside_test": "half_space", "storage": "reset", "table_size": 101},
]
"""Every hash function, storage, inside test and number of passes."""
LARGEST = 2**63 - 1
"""Table size for which the remainder merges hardly any hash values."""
WORD = 2**64


def test_examples_of_docstrings():
    """Run the examples of the module, class and functions."""
    failed, attempted = doctest.testmod(spatial_hash)
    assert failed == 0
    assert attempted >= 10


# hash functions (4.1) -----------------------------------------------------------------------------------------


def slot(name, cell, table_size=LARGEST):
    return int(hash_cell(FUNCTIONS[name], *map(np.int64, cell), table_size))


def by_definition(name, cell):
    """The hash value before the remainder, in Python integers modulo 2^64."""
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
        ("rotating", (-1, -1, -1), 1000, 615),  # all bits set, under any rotation, three times
        ("mixed", (0, 0, 0), 1000, 0),
        ("mixed", (0, 0, 0x9E3779B97F4A7C15 - WORD), 1000, 0xE220A8397B1DCDAF % 1000),  # first output of SplitMix64
    ],
)
def test_hashes_by_hand(name, cell, table_size, expected):
    """Give the slots computed by hand, negative cells included."""
    assert slot(name, cell, table_size) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hashes_by_definition(rng, name):
    """Give the slots of the definition in Python integers for all table sizes, and use nearly all slots."""
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
    """Show that (i, j, k) and (i, -j, -k) often share a slot by the published hash, and never by the mixer."""
    same = dict.fromkeys(FUNCTIONS, 0)
    cells = [(i, j, k) for i in range(-2, 3) for j in range(1, 9) for k in range(1, 9)]
    for i, j, k in cells:
        has_same_trailing_zeros = (j & -j) == (k & -k)
        assert not has_same_trailing_zeros or slot("paper", (i, j, k)) == slot("paper", (i, -j, -k))
        for name in FUNCTIONS:
            same[name] += slot(name, (i, j, k)) == slot(name, (i, -j, -k))

    assert same["paper"] >= len(cells) * 22 // 64  # 4 · 4 odd, 2 · 2 twice odd, 1, 1 of 8 · 8
    assert same["mixed"] == 0


def test_hash_values_around_the_origin():
    """Count the distinct hash values of 24³ cells around the origin: 8526 as published, all with the mixer."""
    grid = (np.argwhere(np.ones((24, 24, 24))) - 12).tolist()
    assert len({by_definition("paper", cell) for cell in grid}) == 8526
    assert len({slot("mixed", cell) for cell in grid}) == len(grid)


# the oracle ---------------------------------------------------------------------------------------------------


def rows_of(result):
    return np.stack([result.body, result.vertex, result.in_body, result.tet], axis=1)


def by_oracle(bodies):
    """Rows (body, vertex, in_body, tet) in rational arithmetic, and how many vertices lie on the border of a tet."""
    rows, on_border = [], 0
    for b, body in enumerate(bodies):
        for v in np.unique(body.tets[body.alive]).tolist():
            for c, other in enumerate(bodies):
                for t in np.flatnonzero(other.alive).tolist():
                    tet = other.tets[t].tolist()
                    if b == c and v in tet:
                        continue
                    side = oracle.point_in_tet(body.vertices[v].tolist(), other.vertices[tet].tolist())
                    on_border += side == 0
                    if side >= 0:
                        rows.append([b, v, c, t])
    return np.array(rows, dtype=np.int64).reshape(-1, 4), on_border


def grid_bodies(rng, span=4):
    """Two soups of tets with small integer coordinates: flat and inverted tets, vertices on faces and corners."""
    bodies = []
    for _ in range(2):
        x = rng.integers(0, span, (14, 3)).astype(float)
        tets = np.stack([rng.permutation(14)[:4] for _ in range(12)])
        bodies.append(TetMesh(x, tets))
    return bodies


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_rational_oracle_on_integer_coordinates(rng, variant):
    """Find what rational arithmetic finds among degenerate contacts, many of which lie on borders of tets."""
    found = border = flat = inverted = 0
    for trial in range(12):
        bodies = grid_bodies(rng)
        expected, on_border = by_oracle(bodies)
        result = SpatialHashing(bodies, cell_size=(None, 1.0, 0.4)[trial % 3], **variant).detect()
        np.testing.assert_array_equal(rows_of(result), expected)
        np.testing.assert_array_equal(result.is_self, expected[:, 0] == expected[:, 2])
        found, border = found + len(expected), border + on_border
        flat, inverted = flat + result.flat_tets, inverted + result.inverted_tets

    assert found > 300
    assert border > 200
    assert flat > 10
    assert inverted > 50


@pytest.mark.tiny
def test_rational_oracle_without_compiler(rng):
    """Find what rational arithmetic finds in a scene small enough for the interpreter."""
    bodies = grid_bodies(rng, 3)
    expected, _ = by_oracle(bodies)
    assert len(expected) > 10
    for variant in VARIANTS:
        np.testing.assert_array_equal(rows_of(SpatialHashing(bodies, **variant).detect()), expected)


def bodies_of(rng, n=3, noise=0.4):
    bodies = [shapes.tet_box(n, n, n, center=(0.7 * k, 0.3 * k, 0.2 * k)) for k in range(2)]
    for body in bodies:
        body.update(np.array(body.vertices) + noise * rng.standard_normal(body.vertices.shape))
    return bodies


def assert_equals_production(bodies, result):
    """Compare rows, flags, coordinates and counters with the production detector; return the number of rows."""
    expected = SpatialHash(bodies).query()
    np.testing.assert_array_equal(rows_of(result), rows_of(expected))
    np.testing.assert_array_equal(result.is_self, expected.is_self)
    np.testing.assert_allclose(result.beta, expected.barycentric[:, 1:], rtol=0.0, atol=1e-6)
    assert (result.flat_tets, result.inverted_tets) == (expected.stats["flat_tets"], expected.stats["inverted_tets"])
    return len(expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_equals_production_on_setup_a(variant):
    """Find the contacts of the production detector in setup A at several steps."""
    scene = scenes.get("hashing_setup_a")
    hashing = SpatialHashing(scene.bodies, **variant)
    for t in (0.0, 0.5, 1.0):
        scene.move(t)
        assert assert_equals_production(scene.bodies, hashing.detect()) > 100


def test_equals_production_on_setup_e():
    """Find the contacts of the production detector among the 50,000 tets of setup E."""
    scene = scenes.get("hashing_setup_e")
    scene.move(0.3)
    assert assert_equals_production(scene.bodies, SpatialHashing(scene.bodies).detect()) > 500


@pytest.mark.medium
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("table_size", [7, 9973, None])
def test_every_combination_of_options(rng, passes, table_size):
    """Give the same collisions for every combination of options."""
    bodies = bodies_of(rng)
    for name in FUNCTIONS:
        for inside_test in ("barycentric", "half_space"):
            for storage in ("time_stamps", "reset", "counting_sort")[: 1 + passes]:
                options = {"hash": name, "storage": storage, "inside_test": inside_test, "table_size": table_size}
                result = SpatialHashing(bodies, passes=passes, **options).detect()
                assert assert_equals_production(bodies, result) > 50


# cells and scales ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell_size", [5e-324, 1e-300, 1e-3, 0.1, 0.7, 3.0, 1e12, 1e300, 1.7e308])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_any_cell_size(rng, variant, cell_size):
    """Give the same collisions for any positive cell size."""
    bodies = bodies_of(rng)
    assert assert_equals_production(bodies, SpatialHashing(bodies, cell_size=cell_size, **variant).detect()) > 50


@pytest.mark.medium
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(("scale", "offset"), [(1e-300, 0.0), (1e-105, 0.0), (1e150, 0.0), (1e290, 0.0), (1.0, 1e6)])
def test_any_scale_and_place(rng, variant, scale, offset):
    """Give the same collisions where determinants underflow, overflow or cancel."""
    bodies = bodies_of(rng)
    for body in bodies:
        body.update(scale * (np.array(body.vertices) + offset))
    assert assert_equals_production(bodies, SpatialHashing(bodies, **variant).detect()) > 50


def test_largest_numbers():
    """Find what rational arithmetic finds in tets whose edges are longer than any double."""
    largest = np.finfo(np.float64).max
    tet = [[0, 1, 2, 3]]
    whole = TetMesh(largest * np.array([[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]), tet)
    half = TetMesh(largest * np.array([[-0.5, -0.5, -0.5], [0.2, -0.9, -0.9], [1, 1, 1], [0.9, 1, 1]]), tet)
    expected, _ = by_oracle([whole, half])
    assert len(expected) == 2
    for variant in VARIANTS:
        np.testing.assert_array_equal(rows_of(SpatialHashing([whole, half], **variant).detect()), expected)


def test_defaults_of_the_paper():
    """Take the average edge length as cell size, and the least prime above twice the number of vertices."""
    body = shapes.tet_box(3, 2, 2)
    x, tets = body.vertices, body.tets
    pairs = [(m, n) for m in range(4) for n in range(m)]
    average = np.mean([np.linalg.norm(x[tets[:, m]] - x[tets[:, n]], axis=1) for m, n in pairs])
    hashing = SpatialHashing([body])

    assert hashing.cell_size == pytest.approx(average, rel=1e-12)
    assert hashing.table_size == 73  # 36 vertices
    assert len(hashing.detect()) == 0


@pytest.mark.tiny
def test_next_prime():
    """Find the least prime above a number."""
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]
    for n in range(31):
        assert next_prime(n) == min(p for p in primes if p > n)


# tables (4.2) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"storage": "reset"}, {"storage": "counting_sort"}, {"passes": 1}], ids=str)
def test_one_table_serves_many_steps(rng, options):
    """Find what a fresh table finds, step after step: entries of earlier steps count as outdated."""
    bodies = bodies_of(rng)
    rest = [np.array(body.vertices) for body in bodies]
    kept = {name: SpatialHashing(bodies, hash=name, table_size=101, **options) for name in FUNCTIONS}
    counts = set()
    for step in range(30):
        for body, x in zip(bodies, rest):
            body.update(x * rng.uniform(0.3, 2.0) + rng.standard_normal(3) + (100.0 if step % 7 == 6 else 0.0))
        if step in (10, 20):
            bodies[0].remove_tets(np.flatnonzero(bodies[0].alive)[::3])
        expected = rows_of(SpatialHash(bodies).query())
        for hashing in kept.values():
            np.testing.assert_array_equal(rows_of(hashing.detect()), expected)
        counts.add(len(expected))

    assert len(counts) > 10


@pytest.mark.parametrize("storage", ["time_stamps", "reset", "counting_sort"])
@pytest.mark.parametrize("table_size", [1, 2, 64, 9973, 1 << 22])
def test_tables_from_one_slot_to_millions(rng, storage, table_size):
    """Find the same in one slot, where every tet meets every vertex, and in millions."""
    bodies = bodies_of(rng)
    met = {}
    for name in FUNCTIONS:
        result = SpatialHashing(bodies, hash=name, storage=storage, table_size=table_size).detect()
        assert assert_equals_production(bodies, result) > 50
        met[name] = result.vertices_met
    if table_size == 1:
        assert len(set(met.values())) == 1
        assert met["paper"] >= 270 * 128  # 270 tets, 128 vertices, at least one cell each
    else:
        assert max(met.values()) < 270 * 128 * 8


def test_storages_do_the_same_work(rng):
    """Meet and test the same vertices with all three storages."""
    bodies = bodies_of(rng)
    for name in FUNCTIONS:
        results = [
            SpatialHashing(bodies, hash=name, storage=storage).detect()
            for storage in ("time_stamps", "reset", "counting_sort")
        ]
        assert len({(each.vertices_met, each.inside_tests) for each in results}) == 1
        assert results[0].vertices_met > results[0].inside_tests > len(results[0])


# passes (7) -----------------------------------------------------------------------------------------------------


def test_one_pass_meets_more_vertices(rng):
    """Meet more vertices in one pass than in two, the reason of Sec. 7 why it is slower."""
    bodies = bodies_of(rng, 2)
    one, two = SpatialHashing(bodies, passes=1).detect(), SpatialHashing(bodies, passes=2).detect()
    np.testing.assert_array_equal(rows_of(one), rows_of(two))
    assert one.vertices_met > 3 * two.vertices_met


@pytest.mark.parametrize("options", [{}, {"storage": "counting_sort"}, {"passes": 1}], ids=str)
@pytest.mark.parametrize("order", [1, -1])
def test_huge_tet_is_tested_against_all_vertices(options, order):
    """Test all vertices once against a tet that covers too many cells, in either order of the bodies."""
    fine = shapes.tet_box(6, 6, 6)
    huge = shapes.tet_box(1, 1, 1, size=1e9, center=(1e8, 2e8, 3e8))
    bodies = [fine, huge][::order]
    result = SpatialHashing(bodies, hash="mixed", cell_size=1.0, **options).detect()
    alone = SpatialHashing([fine], hash="mixed", cell_size=1.0, **options).detect()

    assert assert_equals_production(bodies, result) >= len(fine.vertices)
    more = result.vertices_met - alone.vertices_met
    assert more < 5 * (len(fine.vertices) + 8) + 0.3 * alone.vertices_met


def test_corners_of_huge_tets_in_small_ones():
    """Find corners of tets of too many cells inside small tets, in one pass, whichever comes first."""
    small = TetMesh([[-1, -1, -1], [2, -1, -1], [-1, 2, -1], [-1, -1, 2]], [[0, 1, 2, 3]])
    large = TetMesh([[-0.5, -0.5, -0.5], [1000, 0, 0], [0, 1000, 0], [0, 0, 1000]], [[0, 1, 2, 3]])
    for bodies in ([small, large], [large, small]):
        result = SpatialHashing(bodies, passes=1, cell_size=1.0).detect()
        rows = rows_of(result).tolist()
        assert [bodies.index(large), 0, bodies.index(small), 0] in rows
        assert assert_equals_production(bodies, result) == len(rows)


# arguments ------------------------------------------------------------------------------------------------------


def test_bodies_without_tets():
    """Find nothing where there is nothing."""
    empty = TetMesh(np.zeros((0, 3)), np.zeros((0, 4), dtype=int))
    for variant in VARIANTS:
        assert len(SpatialHashing([], **variant).detect()) == 0
        assert len(SpatialHashing([empty, empty], **variant).detect()) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell_size": 0.0}, "cell_size is 0.0, expected a positive number, or None for the average edge"),
        ({"cell_size": np.inf}, "cell_size is inf, expected a positive number"),
        ({"cell_size": True}, "cell_size is True, expected a positive number"),
        ({"hash": "md5"}, "hash is 'md5', expected one of 'paper', 'additive', 'rotating', 'mixed'"),
        ({"inside_test": "ray"}, "inside_test is 'ray', expected one of 'barycentric', 'half_space'"),
        ({"passes": 3}, "passes is 3, expected one of 1, 2"),
        ({"passes": True}, "passes is True, expected one of 1, 2"),
        ({"storage": "lists"}, "storage is 'lists', expected one of 'time_stamps', 'reset', 'counting_sort'"),
        ({"passes": 1, "storage": "counting_sort"}, "storage='counting_sort' sorts vertices"),
        ({"table_size": 0}, r"table_size is 0, expected a whole number from 1 to 2\^31 - 1"),
        ({"table_size": 2**31}, "table_size is 2147483648, expected a whole number"),
        ({"table_size": 2.5}, "table_size is 2.5, expected a whole number"),
    ],
)
def test_bad_options(options, message):
    """Refuse options out of range."""
    with pytest.raises(OptionError, match=message):
        SpatialHashing([shapes.tet_box(1, 1, 1)], **options)


def test_bad_bodies():
    """Refuse surfaces, and positions that are not finite."""
    with pytest.raises(MeshError, match=r"bodies\[1\] is a TriMesh, expected a TetMesh"):
        SpatialHashing([shapes.tet_box(1, 1, 1), shapes.icosphere(1)])
    body = shapes.tet_box(1, 1, 1)
    hashing = SpatialHashing([body])
    x = np.array(body.vertices)
    x[3, 1] = np.nan
    body.update(x, check=False)
    with pytest.raises(MeshError, match=r"positions\[3\] is .*all coordinates must be finite"):
        hashing.detect()
