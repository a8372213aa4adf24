"""Impacts of moving bodies, against brute force over all pairs of features."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import impact_oracle
import impinge
from cancel_after import CancelAfter
from impact_data import STEPS, needs_steps, step
from impinge import shapes
from impinge.backend import jit
from impinge.detect.continuous import sweep
from moving_features import all_pairs, as_dict, impacts_by_brute_force, moved, points_of, shuffled_mesh, soup
from shared_data import FOLDER

pytestmark = pytest.mark.small

ARRAYS = (
    "kind", "feature_a", "feature_b", "vertices", "weights", "time_lo", "time_hi", "at_start", "point", "normal",
)  # fmt: skip


def same_bytes(one, other):
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in ARRAYS)


def assert_right(a, b, end_a, end_b, **options):
    """Compare with brute force; return the result."""
    found = impinge.impacts(a, b, end_a=end_a, end_b=end_b, **options)
    x_b = None if b is None else b.vertices
    y_b = x_b if end_b is None else end_b
    y_a = a.vertices if end_a is None else end_a
    if b is None:
        x_b, y_b = a.vertices, y_a
    assert as_dict(found) == impacts_by_brute_force(a, b, a.vertices, y_a, x_b, y_b)
    assert found.complete
    assert found.certain_until == 1.0
    return found


# right ----------------------------------------------------------------------------------------------------


@pytest.mark.tiny
def test_a_vertex_falls_on_a_face():
    """Give time, point, normal and weights of a vertex that falls on a face, where the answer is known."""
    a = impinge.TriMesh([[0.5, 0.25, 1.0], [0.5, 0.25, 9.0], [0.6, 0.25, 9.0]], [[0, 1, 2]])
    b = impinge.TriMesh([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [[0, 1, 2]])
    found = impinge.impacts(a, b, end_a=a.vertices - (0.0, 0.0, 4.0))

    assert found.kind.tolist() == [impinge.ImpactKind.VERTEX_FACE]
    assert found.vertices.tolist() == [[0, 0, 1, 2]]
    assert found.time_lo[0] <= 0.25 <= found.time_hi[0]
    assert found.time_hi[0] - found.time_lo[0] <= 2.0**-20 * found.time_hi[0]
    np.testing.assert_allclose(found.point, [[0.5, 0.25, 0.0]], atol=1e-5)
    np.testing.assert_array_equal(found.normal, [[0.0, 0.0, -1.0]])
    np.testing.assert_allclose(found.weights, [[1.0, 0.625, 0.25, 0.125]], atol=1e-5)
    assert not found.at_start.any()


@pytest.mark.tiny
def test_a_face_falls_on_a_vertex():
    """Name the face of a first, and point the normal towards b."""
    a = impinge.TriMesh([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 2.0, 1.0]], [[0, 1, 2]])
    b = impinge.TriMesh([[0.5, 0.25, 0.0], [0.5, 0.25, -9.0], [0.6, 0.25, -9.0]], [[0, 1, 2]])
    found = impinge.impacts(a, b, end_a=a.vertices - (0.0, 0.0, 4.0))

    assert found.kind.tolist() == [impinge.ImpactKind.FACE_VERTEX]
    assert found.vertices.tolist() == [[0, 1, 2, 0]]
    np.testing.assert_array_equal(found.normal, [[0.0, 0.0, -1.0]])
    np.testing.assert_allclose(found.weights, [[0.625, 0.25, 0.125, 1.0]], atol=1e-5)


@pytest.mark.tiny
@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewest_triangles(rng, count):
    """Answer for bodies of no, one and two triangles."""
    a, b = soup(rng, count), soup(rng, 2)

    assert_right(a, b, moved(rng, a.vertices), moved(rng, b.vertices))
    assert_right(b, a, moved(rng, b.vertices), None)
    assert_right(a, None, moved(rng, a.vertices), None)
    assert len(impinge.impacts(b, a, end_a=-b.vertices, active_a=[])) == 0


def test_random_soups_equal_brute_force(rng):
    """Find the same pairs and times as the primitives on all pairs, in a thousand random scenes."""
    hits = empty = 0
    for _ in range(1000):
        a, b = soup(rng, rng.integers(1, 7)), soup(rng, rng.integers(1, 7))
        count = len(assert_right(a, b, moved(rng, a.vertices), moved(rng, b.vertices)))
        hits, empty = hits + count, empty + (count == 0)

    assert hits > 5000
    assert 10 < empty < 500


@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_random_meshes_equal_brute_force(rng, whole):
    """Find the same pairs where faces share edges, repeat indices, have no area, touch, and move in planes."""
    hits = at_start = 0
    for _ in range(600):
        a, b = (shuffled_mesh(rng, rng.integers(3, 9), rng.integers(1, 7), whole=whole) for _ in range(2))
        end_a, end_b = (moved(rng, body.vertices, whole=whole) for body in (a, b))
        for found in (
            assert_right(a, b, end_a, end_b),
            assert_right(a, b, None, end_b),
            assert_right(a, None, end_a, None),
        ):
            hits, at_start = hits + len(found), at_start + int(found.at_start.sum())

    assert hits > 3000
    assert (at_start > 500) == whole


@pytest.mark.medium
def test_many_blocks_equal_brute_force(rng):
    """Find the same pairs in bodies of several blocks, and of a cloth with itself."""
    a, b = soup(rng, 200, size=0.05), soup(rng, 150, size=0.05)
    assert len(assert_right(a, b, moved(rng, a.vertices, speed=0.1), moved(rng, b.vertices, speed=0.1))) > 500
    cloth = shapes.cloth_grid(9, 9)
    end = cloth.vertices + 0.3 * rng.standard_normal(cloth.vertices.shape)
    assert len(assert_right(cloth, None, end, None)) > 500


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e150, 1e300])
def test_any_scale(rng, scale):
    """Lose no pair at the ends of the range of doubles."""
    for _ in range(5):
        a, b = soup(rng, 4), soup(rng, 4)
        end_a, end_b = moved(rng, a.vertices), moved(rng, b.vertices)
        count = len(impinge.impacts(a, b, end_a=end_a, end_b=end_b))
        a.update(scale * a.vertices)
        b.update(scale * b.vertices)
        found = assert_right(a, b, scale * end_a, scale * end_b)
        assert abs(len(found) - count) <= 2
        slabs = impinge.impacts(a, b, end_a=scale * end_a, end_b=scale * end_b, max_tests=10**9)
        assert as_dict(slabs) == as_dict(found)


@pytest.mark.parametrize("offset", [1e6, 1e12, 1e18])
def test_far_from_the_origin(rng, offset):
    """Lose no pair far from the origin, where coordinates have few digits left, or none."""
    hits = 0
    for _ in range(5):
        a, b = soup(rng, 5), soup(rng, 5)
        end_a, end_b = moved(rng, a.vertices) + offset, moved(rng, b.vertices) + offset
        a.update(a.vertices + offset)
        b.update(b.vertices + offset)
        found = assert_right(a, b, end_a, end_b)
        slabs = impinge.impacts(a, b, end_a=end_a, end_b=end_b, max_tests=10**9)
        assert as_dict(slabs) == as_dict(found)
        hits += len(found)

    assert hits > 20


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_tunnelling_by_the_oracle(rng, count):
    """Agree with exact integers of the oracle on moving triangles: none passes through another unseen."""
    passes = 0
    for k in range(count):
        whole = k % 2 == 0
        a, b = soup(rng, 1, whole=whole), soup(rng, 1, whole=whole)
        end_a, end_b = (moved(rng, body.vertices, whole=whole) for body in (a, b))
        kind, feature, vertices = all_pairs(a, b)
        before, after = points_of(kind, vertices, a.vertices, b.vertices), points_of(kind, vertices, end_a, end_b)
        expected = {
            (int(kind[i]), *map(int, feature[i]))
            for i in range(len(kind))
            if (impact_oracle.edge_edge if kind[i] == 2 else impact_oracle.vertex_face)(before[i], after[i]).hit
        }
        assert set(as_dict(impinge.impacts(a, b, end_a=end_a, end_b=end_b))) == expected
        passes += bool(expected) and not impinge.triangle_pairs((end_a, a.faces), (end_b, b.faces))

    assert passes > count // 20


def test_no_tunnelling(rng):
    """See every triangle that passes through a thin sheet in one step, however fast."""
    sheet = shapes.cloth_grid(6, 6)
    for speed in (3.0, 1e3, 1e9):
        bullet = soup(rng, 3, size=0.02)
        bullet.update(0.3 * (bullet.vertices - 0.5) + (0.0, 0.0, 2.0))
        end = bullet.vertices - (0.0, 0.0, speed)
        assert not impinge.triangle_pairs(bullet, sheet)
        assert not impinge.triangle_pairs((end, bullet.faces), sheet)
        found = impinge.impacts(bullet, sheet, end_a=end)

        assert set(range(9)) <= set(found.feature_a[found.kind == 0].tolist())
        assert (found.normal[:, 2] < -0.99).all()


@needs_steps
@pytest.mark.parametrize(
    "name",
    ["cloth-funnel", *(pytest.param(name, marks=pytest.mark.slow) for name in ("armadillo-rollers", "cloth-ball"))],
)
def test_steps_of_simulations_with_known_answers(name):
    """Find exactly the pairs that an exact root finder found among all candidates of a simulation step."""
    folder = FOLDER / "seq" / name
    body, end = (impinge.load(folder / STEPS[name][k]) for k in range(2))
    found = impinge.impacts(body, end_a=end.vertices)
    for is_edges in (False, True):
        rows = found.vertices[(found.kind == impinge.ImpactKind.EDGE_EDGE) == is_edges]
        answers = step(name, edges=is_edges)
        mine = features_as_bytes(is_edges, body.vertices[rows], end.vertices[rows])
        assert mine == features_as_bytes(is_edges, answers.start[answers.hit], answers.end[answers.hit])
        assert len(mine) > 20


def features_as_bytes(is_edges, start, end):
    """Each pair of features by its positions; edges in either order."""
    x = np.concatenate([start, end], axis=2)
    if not is_edges:
        return {row.tobytes() for row in x}
    return {frozenset([row[:2].tobytes(), row[2:].tobytes()]) for row in x}


def test_rows_are_sorted_and_consistent(rng):
    """Sort by time, kind and ids; put points on both features; point normals from a to b before the impact."""
    for _ in range(50):
        a, b = soup(rng, 6), soup(rng, 6)
        end_a, end_b = moved(rng, a.vertices), moved(rng, b.vertices)
        found = impinge.impacts(a, b, end_a=end_a, end_b=end_b)
        order = np.lexsort((found.feature_b, found.feature_a, found.kind, found.time))
        assert (order == np.arange(len(found))).all()
        of_a = np.arange(4) < np.array([1, 3, 2])[found.kind][:, None]
        t = found.time[:, None, None]
        x_a = (1 - t) * a.vertices[found.vertices % len(a.vertices)] + t * end_a[found.vertices % len(a.vertices)]
        x_b = (1 - t) * b.vertices[found.vertices % len(b.vertices)] + t * end_b[found.vertices % len(b.vertices)]
        w = found.weights[:, :, None]
        on_a, on_b = (
            np.where(of_a[:, :, None], w * x_a, 0.0).sum(axis=1),
            np.where(of_a[:, :, None], 0.0, w * x_b).sum(axis=1),
        )
        np.testing.assert_allclose(on_a, found.point, atol=1e-4)
        np.testing.assert_allclose(on_b, found.point, atol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, atol=1e-12)
        late = ~found.at_start
        assert (((on_b - on_a) * found.normal).sum(axis=1)[late] >= -1e-14).all()


# options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [0, 2048], ids=["slabs", "at once"])
def test_first_only_is_the_earliest(rng, monkeypatch, few):
    """Return those impacts whose times overlap with the earliest, with either policy for the start."""
    monkeypatch.setattr(sweep, "FEW", few)
    starts = 0
    for whole in (False, True):
        for _ in range(100):
            a, b = soup(rng, 4, whole=whole), soup(rng, 4, whole=whole)
            ends = {"end_a": moved(rng, a.vertices, whole=whole), "end_b": moved(rng, b.vertices, whole=whole)}
            for at_start in ("report", "skip"):
                everything = impinge.impacts(a, b, at_start=at_start, **ends)
                first = impinge.impacts(a, b, at_start=at_start, first_only=True, **ends)
                assert first.complete
                assert bool(first) == bool(everything)
                if everything:
                    expected = everything.rows(everything.time_lo <= everything.time_hi.min())
                    assert same_bytes(first, expected)
                    starts += int(first.at_start[0])

    assert starts > 50


def test_at_start(rng):
    """Report pairs that touch at the start with time 0, or skip them and nothing else."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.0))
    end = b.vertices + np.array([0.3, 0.1, -0.2])
    found, rest = (impinge.impacts(a, b, end_b=end, at_start=policy) for policy in ("report", "skip"))

    assert found.at_start.any()
    assert (found.time_hi[found.at_start] == 0.0).all()
    assert (found.time_hi[~found.at_start] > 0.0).all()
    assert as_dict(rest) == {key: row for key, row in as_dict(found).items() if not row[2]}


def test_static_bodies(rng):
    """Find what touches where nothing moves."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.0))
    found = impinge.impacts(a, b)

    assert found.at_start.all()
    assert len(found) > 0
    assert as_dict(found) == impacts_by_brute_force(a, b, a.vertices, a.vertices, b.vertices, b.vertices)


def test_transforms_are_ends(rng):
    """Equal a query whose positions are transformed beforehand, bit for bit."""
    a, b = soup(rng, 5), soup(rng, 5)
    matrices = []
    for shift in (0.1, 0.4):
        matrix = np.eye(4)
        matrix[:3, :3] += 0.2 * rng.standard_normal((3, 3))
        matrix[:3, 3] = shift
        matrices.append(matrix)
    before, after = (impinge.transform_points(matrix, a.vertices) for matrix in matrices)
    found = impinge.impacts(a, b, transform_a=matrices)

    assert len(found) > 0
    assert same_bytes(found, impinge.impacts((before, a.faces), b, end_a=after))
    late = impinge.impacts(b, a, transform_b=(None, matrices[1]))
    assert same_bytes(late, impinge.impacts(b, a, end_b=after))
    end = moved(rng, a.vertices)
    both = impinge.impacts(a, b, end_a=end, transform_a=(matrices[0], matrices[1]))
    expected = impinge.impacts((before, a.faces), b, end_a=impinge.transform_points(matrices[1], end))
    assert same_bytes(both, expected)


def test_a_body_against_itself_moved(rng):
    """Join a body with itself under two motions: two sets of boxes at once."""
    a = soup(rng, 6)
    end = moved(rng, a.vertices)
    copy = impinge.TriMesh(a.vertices, a.faces)

    assert same_bytes(impinge.impacts(a, a, end_b=end), impinge.impacts(a, copy, end_b=end))


def test_edits_and_active(rng):
    """Follow removals, additions and active triangles."""
    tree = impinge.ContinuousTree(soup(rng, 6), soup(rng, 6))
    a, b = tree.a, tree.b
    hits = 0
    for frame in range(12):
        if frame % 3 == 1:
            a.remove_triangles([int(rng.choice(np.flatnonzero(a.alive)))])
        if frame % 3 == 2:
            first = len(a.vertices)
            b.add_triangles([[0, 4, 8]])
            a.add_triangles([[first, first + 1, first + 2]], vertices=rng.random((3, 3)))
        end_a, end_b = moved(rng, a.vertices), moved(rng, b.vertices)
        found = tree.query(end_a=end_a, end_b=end_b)
        assert as_dict(found) == impacts_by_brute_force(a, b, a.vertices, end_a, b.vertices, end_b)
        ids = rng.choice(len(a.faces), 3, replace=False)
        some = tree.query(end_a=end_a, end_b=end_b, active_a=ids)
        assert as_dict(some) == impacts_by_brute_force(a, b, a.vertices, end_a, b.vertices, end_b, ids_a=ids)
        hits += len(found) + len(some)
        a.update(end_a)

    assert hits > 200


def test_static_boxes_are_left_alone(rng):
    """Keep boxes at both ends apart from those that the body keeps for other queries."""
    a, b = soup(rng, 80), soup(rng, 80)
    pairs = impinge.BoxTree(a, b)
    expected = pairs.query().pairs
    impinge.impacts(a, b, end_a=a.vertices + 9.0)
    near = impinge.proximity(a, b, margin=0.05)
    impinge.impacts(a, b, end_b=b.vertices - 9.0, margin=0.1)

    np.testing.assert_array_equal(pairs.query().pairs, expected)
    np.testing.assert_array_equal(impinge.proximity(a, b, margin=0.05).edge_edge, near.edge_edge)


def test_ignore(rng):
    """Leave out pairs of features all of whose pairs of triangles are ignored, and keep looking for the first."""
    a, b = soup(rng, 5), soup(rng, 5)
    ends = {"end_a": moved(rng, a.vertices), "end_b": moved(rng, b.vertices)}
    everything = impinge.impacts(a, b, **ends)
    of_a = np.array([[v // 3 for v in row] for row in everything.vertices])
    triangles = {(int(row[0]), int(row[3])) for row in of_a}
    assert len(triangles) > 3
    ignored = sorted(triangles)[::2]
    kept = everything.rows(np.array([(int(r[0]), int(r[3])) not in ignored for r in of_a]))

    assert same_bytes(impinge.impacts(a, b, ignore=ignored, **ends), kept)
    first = impinge.impacts(a, b, ignore=ignored, first_only=True, **ends)
    assert same_bytes(first, kept.rows(kept.time_lo <= kept.time_hi.min()))


@pytest.mark.parametrize("rings", [0, 1, 2, 3])
def test_exclude_rings(rng, rings):
    """Leave out pairs of one body within some edges of each other, by breadth-first search."""
    cloth = shapes.cloth_grid(5, 5)
    end = cloth.vertices + 0.5 * rng.standard_normal(cloth.vertices.shape)
    everything = impinge.impacts(cloth, end_a=end)
    adjacency = {v: set() for v in range(len(cloth.vertices))}
    for i, j, k in cloth.faces.tolist():
        for v, w in ((i, j), (j, k), (k, i)):
            adjacency[v].add(w)
            adjacency[w].add(v)
    keep = []
    for kind, vertices in zip(everything.kind, everything.vertices.tolist()):
        count = (1, 3, 2)[kind]
        near = set(vertices[:count])
        for _ in range(rings):
            near |= set().union(*(adjacency[v] for v in near))
        keep.append(not near & set(vertices[count:]))

    found = impinge.impacts(cloth, end_a=end, exclude_rings=rings)
    assert same_bytes(found, everything.rows(np.array(keep)))
    assert sum(keep) > 0
    assert all(keep) == (rings == 0)
    first = impinge.impacts(cloth, end_a=end, exclude_rings=rings, first_only=True)
    assert same_bytes(first, found.rows(found.time_lo <= found.time_hi.min()))


def test_cancel(rng):
    """Stop when cancelled, and say so."""
    a, b = soup(rng, 1500, size=0.03), soup(rng, 1500, size=0.03)
    end = moved(rng, a.vertices)
    event = threading.Event()
    assert impinge.impacts(a, b, end_a=end, cancel=event).complete
    event.set()
    stopped = impinge.impacts(a, b, end_a=end, cancel=event)
    assert (len(stopped), stopped.complete, stopped.reason, stopped.certain_until) == (0, False, "cancelled", 0.0)
    later = impinge.impacts(a, b, end_a=end, cancel=CancelAfter(2))
    assert not later.complete
    assert later.reason == "cancelled"


def test_max_tests(rng):
    """Have every impact before ``certain_until``, no false one, and the same answer twice."""
    a, b = soup(rng, 600, size=0.05), soup(rng, 600, size=0.05)
    ends = {"end_a": moved(rng, a.vertices, speed=0.2), "end_b": moved(rng, b.vertices, speed=0.2)}
    everything = as_dict(impinge.impacts(a, b, **ends))
    reached = set()
    for tests in (1, 3000, 10_000, 20_000, 40_000, 10**9):
        found = impinge.impacts(a, b, max_tests=tests, **ends)
        rows = as_dict(found)
        assert rows.items() <= everything.items()
        assert {key for key, row in everything.items() if row[1] < found.certain_until} <= rows.keys()
        assert found.complete == (found.certain_until == 1.0)
        assert found.reason == (None if found.complete else "budget")
        assert same_bytes(found, impinge.impacts(a, b, max_tests=tests, **ends))
        reached.add(found.certain_until)

    assert rows == everything
    assert len(reached) >= 4


def test_budget_ms(rng):
    """End early with a tiny budget, and finish with a large one."""
    a, b = soup(rng, 300), soup(rng, 300)
    end = moved(rng, a.vertices)
    short, long = (impinge.impacts(a, b, end_a=end, budget_ms=ms) for ms in (1e-6, 1e9))

    assert (short.complete, short.reason, short.certain_until) == (False, "budget", 0.0)
    assert as_dict(long) == as_dict(impinge.impacts(a, b, end_a=end))


def test_same_bits_on_any_number_of_threads(rng):
    """Give the same bytes serially and on threads, with every option that changes the search."""
    a, b = soup(rng, 300, size=0.1), soup(rng, 300, size=0.1)
    ends = {"end_a": moved(rng, a.vertices), "end_b": moved(rng, b.vertices)}
    for options in ({}, {"first_only": True}, {"max_tests": 5000}, {"margin": 0.01}):
        results = []
        for variant in ("serial", "parallel"):
            with jit.launch_always(variant):
                results.append(impinge.impacts(a, b, **ends, **options))
        assert len(results[0]) > 0
        assert same_bytes(*results)


def test_concurrent_queries(rng):
    """Answer two Python threads that query the same bodies with different motions."""
    a, b = soup(rng, 200, size=0.1), soup(rng, 200, size=0.1)
    ends = [moved(rng, a.vertices) for _ in range(4)]
    expected = [impinge.impacts(a, b, end_a=end) for end in ends]
    tree, wrong = impinge.ContinuousTree(a, b), []

    def work(k):
        for _ in range(5):
            if not same_bytes(tree.query(end_a=ends[k]), expected[k]):
                wrong.append(k)
            if not same_bytes(impinge.impacts(a, b, end_a=ends[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(expected[0]) > 100


def test_results_speak(rng):
    """Print one line, convert to JSON, count kinds and compare frames."""
    a, b = soup(rng, 6), soup(rng, 6)
    found = impinge.impacts(a, b, end_a=moved(rng, a.vertices))

    assert len(repr(found)) < 120
    assert json.loads(json.dumps(found.to_dict()))["kind"] == found.kind.tolist()
    assert sum(found.count_by_kind().values()) == len(found) > 0
    assert len(found.changes(found).persisting) == len(found)
    assert "none" in repr(impinge.impacts(a, (b.vertices + 99.0, b.faces)))


# margin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_margin_is_certified(rng, whole):
    """Report every pair that comes closer than the margin at any sampled time, and none that stays clearly beyond."""
    reported = missed = 0
    for _ in range(25):
        a, b = soup(rng, 3, whole=whole), soup(rng, 3, whole=whole)
        end_a, end_b = moved(rng, a.vertices, whole=whole), moved(rng, b.vertices, whole=whole)
        margin = float(rng.choice([0.05, 0.3])) * (3.0 if whole else 1.0)
        found = as_dict(impinge.impacts(a, b, end_a=end_a, end_b=end_b, margin=margin))
        kind, feature, vertices = all_pairs(a, b)
        before, after = points_of(kind, vertices, a.vertices, b.vertices), points_of(kind, vertices, end_a, end_b)
        for k in range(len(kind)):
            key = int(kind[k]), int(feature[k, 0]), int(feature[k, 1])
            least = min(
                distance_of(kind[k] == 2, (1 - t) * before[k] + t * after[k]) for t in np.linspace(0.0, 1.0, 33)
            )
            if least < margin * (1 - 1e-9):
                assert key in found
            if key in found:
                lo, hi, _ = found[key]
                assert distance_of(kind[k] == 2, (1 - hi) * before[k] + hi * after[k]) <= margin * (1 + 1e-5) + 1e-6
                assert lo <= hi
            reported, missed = reported + (key in found), missed + (key not in found)

    assert reported > 500
    assert missed > 500


def distance_of(is_edges, x):
    from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle

    points = tuple(map(tuple, x.tolist()))
    return float(np.sqrt((closest_on_segments if is_edges else closest_on_triangle)(*points)[-1]))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_margin_at_any_scale(rng, scale):
    """Scale with the bodies."""
    a, b = soup(rng, 4), soup(rng, 4)
    end_a = moved(rng, a.vertices)
    found = impinge.impacts(a, b, end_a=end_a, margin=0.1)
    large = impinge.impacts(
        (scale * a.vertices, a.faces), (scale * b.vertices, b.faces), end_a=scale * end_a, margin=scale * 0.1
    )

    assert len(found) > 10
    assert as_dict(found).keys() == as_dict(large).keys()


@pytest.mark.parametrize("margin", [1e38, 1e308])
def test_margin_beyond_single_precision(rng, margin):
    """Report all pairs, at the start, with a margin that float32 boxes cannot hold."""
    a, b = soup(rng, 2), soup(rng, 2)
    found = impinge.impacts(a, b, end_a=moved(rng, a.vertices), margin=margin)

    assert len(found) == len(all_pairs(a, b)[0])
    assert found.at_start.all()


# errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"end_a": np.zeros((2, 3))}, impinge.MeshError, "end_a have 2 rows"),
        ({"end_a": np.zeros((6, 2))}, impinge.MeshError, "end_a have shape"),
        ({"end_a": np.full((6, 3), np.nan)}, impinge.MeshError, r"end_a\[0\] is \[nan"),
        ({"margin": -1.0}, impinge.OptionError, "margin is -1"),
        ({"margin": np.inf}, impinge.OptionError, "margin is inf"),
        ({"first_only": 1}, impinge.OptionError, "first_only is 1"),
        ({"at_start": "ignore"}, impinge.OptionError, "at_start is 'ignore'"),
        ({"exclude_rings": 1}, impinge.OptionError, "exclude_rings is for one body"),
        ({"exclude_rings": -1}, impinge.OptionError, "exclude_rings is -1"),
        ({"transform_a": np.eye(4)}, impinge.OptionError, "transform_a is"),
        ({"transform_a": 3}, impinge.OptionError, "transform_a is 3, expected two matrices"),
        ({"transform_a": (np.eye(3), None)}, impinge.OptionError, r"transform_a\[0\] has shape"),
        ({"transform_b": (None, np.full((4, 4), 1e308))}, impinge.OptionError, r"transform_b\[1\] has the last row"),
        ({"active_b": [99]}, impinge.OptionError, "active_b contains id 99"),
        ({"ignore": [[-1, 0]]}, impinge.OptionError, "ignore holds a negative"),
        ({"cancel": 1}, impinge.OptionError, "cancel"),
        ({"budget_ms": 0.0}, impinge.OptionError, "budget_ms is 0"),
        ({"max_tests": 0}, impinge.OptionError, "max_tests is 0"),
    ],
)
def test_bad_input(rng, options, error, message):
    """Name what is wrong."""
    with pytest.raises(error, match=message):
        impinge.impacts(soup(rng, 2), soup(rng, 2), **options)


def test_one_body_takes_options_of_a_only(rng):
    """Refuse the end, transforms and active triangles of a body that is not there."""
    for options in ({"end_b": np.zeros((6, 3))}, {"transform_b": (None, None)}, {"active_b": [0]}):
        with pytest.raises(impinge.OptionError, match="are for two bodies"):
            impinge.impacts(soup(rng, 2), **options)


def test_positions_that_are_not_finite(rng):
    """Refuse positions that ``update`` did not check."""
    a = soup(rng, 2)
    a.update(np.full((6, 3), np.inf), check=False)
    with pytest.raises(impinge.MeshError, match=r"vertices of a\[0\] is"):
        impinge.impacts(a, soup(rng, 2))
