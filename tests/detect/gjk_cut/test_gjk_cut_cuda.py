"""Cuts on CUDA, tested without a GPU as in tests/backend/test_cuda.py; ``make test-cuda``."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from impinge import shapes
from impinge.detect.gjk_cut.detector import cut_along_direction
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


@simulated
def test_simulator_cuts_the_same_triangles(rng):
    """Keep the same triangles on a CUDA grid as on the CPU, along any direction, and none along a separating one."""
    a, b = shapes.icosphere(1), shapes.box(1.0, center=(1.2, 0.3, 0.4))
    kept_count = 0
    for direction in [(1.0, 0.0, 0.0), *rng.standard_normal((6, 3))]:
        kept, expected = (cut_along_direction(a, b, direction, device=device) for device in ("cuda", "cpu"))
        for ids, expected_ids in zip(kept, expected):
            np.testing.assert_array_equal(ids, expected_ids)
            kept_count += len(ids)
    far = shapes.box(1.0, center=(5.0, 0.0, 0.0))

    assert 0 < kept_count < 7 * (len(a) + len(b))
    assert [len(ids) for ids in cut_along_direction(a, far, (1.0, 0.0, 0.0), device="cuda")] == [0, 0]


def signatures():
    from numba import types

    values, real = types.float32[::1], types.float32
    return {
        "project_vertices": (values, values, values, real, real, real, values),
        "find_reaches": (types.uint32[:, ::1], values, values),
        "mark_kept": (values, real, types.boolean[::1]),
    }


@compiled
@pytest.mark.parametrize("compute_capability", [(7, 5), (9, 0)])
def test_ptx_has_no_fused_multiply_add(compute_capability):
    """Compile every kernel for two architectures without fused multiply-add."""
    from impinge.backend.cuda import GridKernel
    from impinge.detect.gjk_cut import cuda

    kernels = {name for name, value in vars(cuda).items() if isinstance(value, GridKernel)}
    assert kernels == set(signatures())
    for name, signature in signatures().items():
        ptx = getattr(cuda, name).ptx(signature, compute_capability)

        assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
        assert ".entry" in ptx
        assert "fma." not in ptx, name


@compiled
def test_ptx_machine_without_device_says_so():
    """Name the missing GPU in the error."""
    from numba import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(OptionError, match="needs an NVIDIA GPU and its driver"):
        cut_along_direction(shapes.box(1.0), shapes.box(1.0), (1.0, 0.0, 0.0), device="cuda")
