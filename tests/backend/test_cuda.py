"""One body, two devices, proved without a GPU; run by ``make test-cuda``.

The simulator runs the CUDA wrappers in Python (needs NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1), compilation to
PTX shows that they are valid for real devices and that nothing is fused.
"""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from impinge import scenes
from impinge.detect.common import brute_force_kernels, narrow_phase_kernels
from impinge.errors import OptionError
from impinge.exact.triangle_triangle import error_bound

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


def small_problem():
    a, b = scenes.get("boxes_overlapping_by_half").surfaces
    pair_a, pair_b = (np.ascontiguousarray(i.ravel(), dtype=np.int32) for i in np.mgrid[:12, :12])
    return np.array(a.vertices), np.array(a.faces), np.array(b.vertices), np.array(b.faces), pair_a, pair_b


@simulated
def test_simulator_fits_the_same_boxes():
    """Fit the same boxes in a grid as in a loop."""
    from impinge.detect.common import narrow_phase_cuda

    x, faces, *_ = small_problem()
    ids = np.arange(len(faces), dtype=np.int32)
    on_grid, in_loop = np.zeros((2, 6, len(ids)))
    narrow_phase_cuda.fit_triangle_boxes.launch(len(ids), x, faces, ids, on_grid)
    brute_force_kernels.fit_triangle_boxes(x, faces, ids, in_loop)

    np.testing.assert_array_equal(on_grid, in_loop)
    assert (on_grid[3:] >= on_grid[:3]).all()


@simulated
def test_simulator_classifies_the_same_pairs():
    """Filter the same candidates to the same kinds in a grid as in a loop."""
    from impinge.detect.common import narrow_phase_cuda

    arrays = small_problem()
    on_grid, in_loop = np.full((2, len(arrays[-1])), 9, dtype=np.int8)
    bound = error_bound(2.0, 2.0, 2.0)
    narrow_phase_cuda.classify_pairs.launch(len(on_grid), *arrays, bound, on_grid)
    narrow_phase_kernels.classify_pairs(*arrays, bound, in_loop)

    np.testing.assert_array_equal(on_grid, in_loop)
    assert len(set(on_grid.tolist())) == 3


@compiled
@pytest.mark.parametrize("compute_capability", [(7, 5), (9, 0)])
@pytest.mark.parametrize("name", ["fit_triangle_boxes", "classify_pairs"])
def test_ptx_has_no_fused_multiply_add(name, compute_capability):
    """Compile for two architectures, keeping every product and sum apart."""
    from numba import types

    from impinge.detect.common import narrow_phase_cuda

    x, faces, ids = types.float64[:, ::1], types.int32[:, ::1], types.int32[::1]
    signatures = {
        "fit_triangle_boxes": (x, faces, ids, x),
        "classify_pairs": (x, faces, x, faces, ids, ids, types.float64, types.int8[::1]),
    }
    ptx = getattr(narrow_phase_cuda, name).ptx(signatures[name], compute_capability)

    assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
    assert ".entry" in ptx
    assert "fma." not in ptx
    if name == "classify_pairs":
        assert "mul.rn.f64" in ptx


@compiled
def test_ptx_machine_without_device_says_so():
    """Say in one sentence what is missing for a GPU."""
    from numba import cuda

    from impinge.backend.cuda import require_device

    if cuda.is_available():
        require_device()
    else:
        with pytest.raises(OptionError, match="needs an NVIDIA GPU and its driver"):
            require_device()
