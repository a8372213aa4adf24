"""Layered depth images on CUDA, tested without a GPU as in tests/backend/test_cuda.py; ``make test-cuda``."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from impinge import TriMesh, shapes
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.points import points_inside_sampled
from impinge.detect.layered_depth.sources import Sphere
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

ARRAYS = (
    "volume", "volumes", "error", "spans", "pixel", "region", "centroid", "triangles", "triangle_body",
    "penetrating_a", "penetrating_b", "inverted_volume", "depth_complexity",
)  # fmt: skip
VARIANTS = {
    "one axis": {"resolution": 6},
    "three axes": {"resolution": 3, "axes": 3},
    "winding": {"resolution": 4, "rule": "winding"},
}


def assert_same(result, expected):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)


@simulated
@pytest.mark.parametrize("variant", VARIANTS)
def test_simulator_finds_the_same_bits(variant):
    """Find the same bits on a CUDA grid as on the CPU, with and without transforms."""
    a, b = shapes.icosphere(0), shapes.box(1.0, center=(0.5, 0.3, 0.4))
    turn = np.eye(4)[[2, 0, 1, 3]]
    grid, cpu = (LayeredDepth(a, b, device=device, **VARIANTS[variant]) for device in ("cuda", "cpu"))
    for options in ({}, {"transform_b": turn}):
        expected = cpu.query(**options)
        assert_same(grid.query(**options), expected)
        assert expected.volume > 0.0
    grid.assert_valid()


@simulated
def test_simulator_sees_a_body_in_itself():
    """Find the overlap of a body with itself, and its vertices, as the CPU does."""
    one = shapes.box(1.0)
    two = TriMesh(
        np.concatenate([one.vertices, one.vertices + 0.5]), np.concatenate([one.faces, one.faces + len(one.vertices)])
    )
    expected = LayeredDepth(two, resolution=4).query()

    assert_same(LayeredDepth(two, resolution=4, device="cuda").query(), expected)
    assert expected.volume > 0.0
    assert len(expected.penetrating_a) > 0


@simulated
def test_simulator_takes_sources_and_bodies_far_larger_than_the_window():
    """Draw depth sources, bodies too large to be snapped, and bodies that no ray crosses."""
    ball, far = Sphere((0.0, 0.0, 0.0), 1.0), shapes.box(2.0e7, center=(1.0e7 - 0.5, 0.0, 0.0))
    expected = LayeredDepth(ball, far, resolution=4).query()

    assert_same(LayeredDepth(ball, far, resolution=4, device="cuda").query(), expected)
    assert expected.volume > 0.0
    assert expected.stats["bits_b"] == [0]
    assert LayeredDepth(TriMesh([], []), far, device="cuda").query().volume == 0.0
    corner = shapes.icosphere(0, radius=0.01, center=(1.0, 1.0, 1.0))
    assert LayeredDepth(ball, corner, resolution=2, device="cuda").query().volume == 0.0


@simulated
def test_simulator_answers_points(rng):
    """Classify points as the CPU does, and an empty set of points."""
    body, points = shapes.icosphere(1), rng.uniform(-1.0, 1.0, (20, 3))
    inside = points_inside_sampled(body, points, 5, device="cuda")

    np.testing.assert_array_equal(inside, points_inside_sampled(body, points, 5))
    assert 0 < inside.sum() < 20
    assert len(points_inside_sampled(body, np.zeros((0, 3)), 5, device="cuda")) == 0


def signatures():
    from numba import types

    x, faces, ids = types.float64[:, ::1], types.int32[:, ::1], types.int32[::1]
    numbers, longs = types.float64[::1], types.int64[::1]
    number, real = types.int64, types.float64
    grid, raster = types.Tuple((number,) * 2 + (real,) * 4), types.Tuple((number, number, real, real))
    window = types.Tuple((number,) * 3 + (real,) * 6 + (number,))
    layers = types.Tuple((longs, numbers, ids, types.boolean))
    fragments, spans = (ids, numbers, ids), (x, ids, faces, types.int8[:, ::1])
    mesh, look, flags = (faces, ids, faces, numbers, raster), (layers, layers, number), types.boolean[::1]
    return {
        "snap_vertices": (x, ids, grid, number, faces, numbers),
        "count_fragments": (*mesh, *fragments, longs),
        "fill_fragments": (*mesh, longs, *fragments),
        "zero_counts": (ids,),
        "count_pixels": (ids, ids),
        "place_fragments": (*fragments, longs, ids, numbers, ids),
        "sort_pixels": (longs, numbers, ids),
        "count_spans": (*look, *spans, longs),
        "fill_spans": (*look, longs, *spans),
        "mark_points_inside": (x, ids, window, real, real, layers, number, real, x, faces, flags),
        "mark_points_near_inside": (x, ids, window, layers, number, real, flags),
        "sum_runs": (longs, longs),
        "scan_runs": (longs, longs, longs),
    }


@compiled
@pytest.mark.parametrize("compute_capability", [(7, 5), (9, 0)])
def test_ptx_has_no_fused_multiply_add(compute_capability):
    """Compile every kernel for two architectures without fused multiply-add."""
    from impinge.backend.cuda import GridKernel
    from impinge.detect.layered_depth import cuda

    kernels = {name for name, value in vars(cuda).items() if isinstance(value, GridKernel)}
    assert kernels == set(signatures())
    for name, signature in signatures().items():
        ptx = getattr(cuda, name).ptx(signature, compute_capability)

        assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
        assert ".entry" in ptx
        assert "fma." not in ptx, name


@compiled
def test_ptx_machine_without_device_says_so_at_construction():
    """Name the missing GPU at construction."""
    from numba import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(OptionError, match="needs an NVIDIA GPU and its driver"):
        LayeredDepth(shapes.box(1.0), device="cuda")
