"""First impacts of single features against published answers and against the oracle in integers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import impact_oracle
import impinge
from impact_data import HANDCRAFTED, STEPS, handcrafted, needs_handcrafted, needs_steps, step
from impact_queries import CLASSES
from impinge.errors import MeshError

KINDS = pytest.mark.parametrize("edges", [False, True], ids=["vertex-face", "edge-edge"])
EACH_CLASS = pytest.mark.parametrize("name", CLASSES)
LEAST_NARROW = 1e-290
"""Doubles below are too coarse for a relative width."""


def find(edges: bool, start, end, **options):
    return (impinge.edge_edge_impacts if edges else impinge.vertex_face_impacts)(start, end, **options)


def make(name: str, edges: bool, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return CLASSES[name](np.random.default_rng(seed), n, edges)


def shown(start, end) -> list:
    """Two arrays as text from which the same bits are read."""
    return [[[float(c).hex() for c in point] for point in points] for points in (start, end)]


def assert_exact(edges: bool, start: np.ndarray, end: np.ndarray, width: float = 2.0**-20) -> np.ndarray:
    """Compare every row with the oracle: the answer, the start, the interval, its width. Returns the answers."""
    found = find(edges, start, end, width=width)
    judge = impact_oracle.edge_edge if edges else impact_oracle.vertex_face
    for i, (x, y) in enumerate(zip(start.tolist(), end.tolist())):
        truth = judge(x, y)
        query = (i, shown(x, y))
        assert found.hit[i] == truth.hit, query
        assert found.at_start[i] == truth.at_start, query
        lo, hi = found.time_lo[i], found.time_hi[i]
        if truth.time is None:
            assert np.isnan(lo), query
            assert np.isnan(hi), query
            continue
        assert 0 <= lo <= hi <= 1, query
        assert truth.time.compare(Fraction(lo)) >= 0, (lo, hi, query)
        assert truth.time.compare(Fraction(hi)) <= 0, (lo, hi, query)
        assert hi < LEAST_NARROW or hi - lo <= width * hi, (lo, hi, query)
    return found.hit


@needs_handcrafted
def test_handcrafted_queries():
    """Give the published answer to every handcrafted query, and a time interval that the oracle confirms."""
    hits = {False: 0, True: 0}
    for path in HANDCRAFTED:
        queries = handcrafted(path)
        found = assert_exact(queries.edges, queries.start, queries.end)
        assert np.array_equal(found, queries.hit), path.name
        hits[queries.edges] += int(found.sum())

    assert min(hits.values()) > 50


@needs_steps
@KINDS
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_sequences(name, edges):
    """Give the published answer to every listed pair of three scenes; judge the times of 500 of them."""
    queries = step(name, edges=edges)
    found = find(edges, queries.start, queries.end)

    assert np.array_equal(found.hit, queries.hit)
    assert 0 < queries.hit.sum() < len(queries.hit)
    some = np.unique(np.linspace(0, len(queries.hit) - 1, 500).astype(int))
    assert_exact(edges, queries.start[some], queries.end[some])


@KINDS
@EACH_CLASS
def test_ten_thousand_degenerate_queries(name, edges):
    """Agree with the oracle on 200 queries of each of 50 classes, which both meet and miss."""
    found = assert_exact(edges, *make(name, edges, 200))

    assert 0.03 < found.mean() < 0.97


@pytest.mark.slow
@KINDS
@EACH_CLASS
def test_a_million_degenerate_queries(name, edges):
    """Agree with the oracle on 20,000 queries of each of 50 classes."""
    found = assert_exact(edges, *make(name, edges, 20_000, seed=1))

    assert 0.03 < found.mean() < 0.97


@pytest.mark.small
@pytest.mark.tiny
@KINDS
def test_few_queries_of_each_class(edges):
    """Agree with the oracle on four queries of each class, in every way of running the code."""
    lots = [make(name, edges, 4, seed=2) for name in CLASSES]
    found = assert_exact(edges, *(np.concatenate(ends) for ends in zip(*lots)))

    assert 20 < found.sum() < len(found) - 20


@KINDS
@pytest.mark.parametrize("width", [1.0, 2.0**-10, 2.0**-40])
def test_intervals_are_as_narrow_as_asked_for(edges, width):
    """Contain the first time at every width."""
    for name in CLASSES:
        assert_exact(edges, *make(name, edges, 15, seed=3), width=width)


@KINDS
@EACH_CLASS
def test_order_of_corners_and_direction_of_time(name, edges):
    """Give one answer for all orders of corners, of ends and of edges, and for the motion run backwards."""
    start, end = make(name, edges, 600, seed=4)
    found = find(edges, start, end)
    orders = [(0, *rest) for rest in itertools.permutations((1, 2, 3))]
    if edges:
        orders = [(1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1), (3, 2, 0, 1)]
    for order in orders:
        other = find(edges, start[:, order], end[:, order])
        assert np.array_equal(other.hit, found.hit)
        assert np.array_equal(other.at_start, found.at_start)
        # both intervals contain one time
        assert not (other.time_lo > found.time_hi).any()
        assert not (found.time_lo > other.time_hi).any()
    backwards = find(edges, end, start)
    assert np.array_equal(backwards.hit, found.hit)
    assert not (found.time_lo > 1 - backwards.time_lo + 1e-15).any()


@KINDS
def test_rows_do_not_depend_on_each_other(edges, rng):
    """Give the same bits for a query alone, in any order and in any layout of memory, and leave the input as it is."""
    start, end = (np.concatenate(ends) for ends in zip(*(make(name, edges, 40, seed=5) for name in CLASSES)))
    copies = start.copy(), end.copy()
    found = find(edges, start, end)
    order = rng.permutation(len(start))
    shuffled = find(edges, np.asfortranarray(start[order]), end[order].tolist())
    for column in ("hit", "time_lo", "time_hi", "at_start"):
        expected = getattr(found, column)
        assert getattr(shuffled, column).tobytes() == expected[order].tobytes()
        alone = [getattr(find(edges, start[i : i + 1], end[i : i + 1]), column) for i in range(0, len(start), 20)]
        assert np.concatenate(alone).tobytes() == expected[::20].tobytes()
    assert (start.tobytes(), end.tobytes()) == (copies[0].tobytes(), copies[1].tobytes())


THREADS = """
import hashlib, sys
import numpy as np
import impinge
sys.path.insert(0, sys.argv[1])
from impact_queries import CLASSES
digests = []
for threads in (1, 2, 4):
    impinge.set_threads(threads)
    columns = []
    for find, edges in ((impinge.vertex_face_impacts, False), (impinge.edge_edge_impacts, True)):
        rng = np.random.default_rng(6)
        start, end = (np.concatenate(x) for x in zip(*(make(rng, 500, edges) for make in CLASSES.values())))
        found = find(start, end)
        assert 1000 < found.hit.sum() < len(found.hit) - 1000
        columns += [found.hit, found.time_lo, found.time_hi, found.at_start]
    digests.append(hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest())
assert len(set(digests)) == 1, digests
"""


@pytest.mark.medium
def test_same_bits_for_any_number_of_threads():
    """Give the same bits on one, two and four threads."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4"}
    tests = str(Path(impact_oracle.__file__).parent)
    ended = subprocess.run(
        [sys.executable, "-c", THREADS, tests], env=environment, capture_output=True, text=True, timeout=1800
    )
    assert ended.returncode == 0, ended.stderr


@KINDS
def test_other_numbers_and_no_queries(edges):
    """Take integers, float32 and lists as the doubles that they are; answer no queries with no rows."""
    start, end = make("small integers", edges, 300, seed=7)
    expected = find(edges, start, end)
    for convert in (np.int64, np.int8, np.float32):
        found = find(edges, start.astype(convert), end.astype(convert))
        assert np.array_equal(found.hit, expected.hit)
        assert np.array_equal(found.time_lo, expected.time_lo, equal_nan=True)
    nothing = find(edges, np.empty((0, 4, 3)), np.empty((0, 4, 3)))
    assert [len(x) for x in (nothing.hit, nothing.time_lo, nothing.time_hi, nothing.at_start)] == [0] * 4
    assert (nothing.hit.dtype, nothing.time_lo.dtype) == (np.dtype(bool), np.dtype(float))


GOOD = np.zeros((2, 4, 3))


@KINDS
@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (np.zeros((4, 3)), GOOD, r"start has shape \(4, 3\), expected \(n, 4, 3\)"),
        (GOOD, np.zeros((2, 3, 3)), r"end has shape \(2, 3, 3\), expected \(n, 4, 3\)"),
        (np.zeros((2, 4, 2)), GOOD, r"start has shape \(2, 4, 2\), expected \(n, 4, 3\)"),
        (GOOD, GOOD[:1], "start has 2 queries and end has 1"),
        (np.stack([GOOD[0], GOOD[1] + np.nan]), GOOD, r"start\[1\] .* not finite"),
        (GOOD, GOOD - np.inf, r"end\[0\] .* not finite"),
        (GOOD + 1j, GOOD, "start .*complex"),
        (GOOD.astype(str), GOOD, "start "),
        (GOOD, np.full((2, 4, 3), None), "end "),
    ],
    ids=["one query", "three points", "plane", "counts", "nan", "infinite", "complex", "text", "none"],
)
def test_bad_queries_are_refused(edges, start, end, message):
    """Name the argument, what was found and what was expected."""
    with pytest.raises((MeshError, TypeError, ValueError), match=message):
        find(edges, start, end)


@KINDS
@pytest.mark.parametrize("width", [0.0, -1.0, 2.0, np.nan, "wide", None])
def test_bad_widths_are_refused(edges, width):
    """Refuse widths that no interval of doubles has, and what is no number."""
    with pytest.raises((TypeError, ValueError), match="width"):
        find(edges, GOOD, GOOD, width=width)
