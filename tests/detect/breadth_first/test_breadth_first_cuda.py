"""The breadth-first traversal on CUDA, tested without a GPU as in tests/backend/test_cuda.py; ``make test-cuda``."""

from __future__ import annotations

import importlib.util
import os
from itertools import product

import numpy as np
import pytest

import breadth_first_trees
import stress
from impinge import BreadthFirst, BruteForce, TriMesh
from impinge.detect.breadth_first.detector import query_many
from impinge.errors import OptionError

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"),
]
simulated = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") != "1", reason="runs with NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1"
)
compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="the simulator replaces the compiler"
)

VARIANTS = {
    "scan": {},
    "small blocks": {"block_pairs": 20},
    "14-dop": {"volume": "14-dop"},
}


def turn():
    """A third of a turn about the diagonal: x becomes y, y becomes z, z becomes x."""
    return np.eye(4)[[2, 0, 1, 3]]


def assert_same(result, expected):
    np.testing.assert_array_equal(result.pairs, expected.pairs)
    np.testing.assert_array_equal(result.kind, expected.kind)


@simulated
@pytest.mark.parametrize(("name", "variant"), [*product(["grid"], VARIANTS), ("touching_boxes", "scan")])
def test_simulator_finds_the_same_pairs(name, variant):
    """Find the pairs of brute force on a grid of threads, as bodies are and turned, twice for the entry level."""
    x_a, f_a, x_b, f_b = stress.scene(name, 3, 6)
    a, b = TriMesh(x_a, f_a), TriMesh(x_b, f_b)
    detector = BreadthFirst(a, b, device="cuda", **VARIANTS[variant])
    for options in ({}, {"transform_b": turn()}):
        expected = BruteForce(a, b).query(**options)
        assert_same(detector.query(**options), expected)
        assert detector.count(**options) == len(expected)
    breadth_first_trees.assert_valid(detector)
    assert len(BruteForce(a, b).query()) > 0


@simulated
def test_simulator_finds_the_same_pairs_of_one_body():
    """Find the pairs of brute force within one body, also where none is."""
    hits = 0
    for name, neighbours in product(("self_soup", "self_solid"), ("exact", "skip")):
        a = TriMesh(*stress.scene(name, 3, 6))
        expected = BruteForce(a, neighbours=neighbours).query()
        assert_same(BreadthFirst(a, device="cuda", neighbours=neighbours).query(), expected)
        hits += len(expected)

    assert hits > 0
    assert len(BreadthFirst(TriMesh([], []), device="cuda").query()) == 0


@simulated
def test_simulator_runs_many_pairs_at_once():
    """Find in one traversal on a grid what single queries find."""
    bodies = [TriMesh(*stress.scene("grid", seed, 5)[:2]) for seed in range(3)]
    pairs = [(a, b, None, turn()) for a, b in product(bodies, bodies)]
    results = query_many(pairs, device="cuda")

    for (a, b, _, matrix), result in zip(pairs, results):
        assert_same(result, BruteForce(a, b).query(transform_b=matrix))
    assert sum(map(len, results)) > 10


def signatures():
    from numba import types

    x, faces, box = types.float64[:, ::1], types.int32[:, ::1], types.float64[:, ::1]
    ids, longs, number, flag = types.int32[::1], types.int64[::1], types.int64, types.boolean
    pairs, level = types.int32[:, ::1], types.int64[:, :, ::1]
    return {
        "fit_leaves": (x, faces, ids, x, box),
        "fit_nodes": (number, number, number, number, box),
        "expand_scan": (number, longs, number, ids, longs),
        "sum_neighbours": (number, longs, number, number, number),
        "spread_starts": (number, longs, number, number, longs),
        "visit_pairs": (number, pairs, ids, longs, number, level, box, level, box, flag, pairs, longs),
        "classify_self_pairs": (x, faces, ids, ids, flag, types.float64, types.int8[::1]),
    }


@compiled
@pytest.mark.parametrize("compute_capability", [(7, 5), (9, 0)])
def test_ptx_has_no_fused_multiply_add(compute_capability):
    """Compile every kernel for two architectures, keeping every product and sum apart."""
    from impinge.backend.cuda import GridKernel
    from impinge.detect.breadth_first import cuda

    kernels = {name for name, value in vars(cuda).items() if isinstance(value, GridKernel)}
    assert kernels == {*signatures(), "classify_pairs"}
    for name, signature in signatures().items():
        ptx = getattr(cuda, name).ptx(signature, compute_capability)

        assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
        assert ".entry" in ptx
        assert "fma." not in ptx, name


@compiled
def test_ptx_machine_without_device_says_so_at_construction():
    """Name in one sentence what a GPU needs, when the detector is constructed."""
    from numba import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU")
    a = TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    with pytest.raises(OptionError, match="needs an NVIDIA GPU and its driver"):
        BreadthFirst(a, device="cuda")
