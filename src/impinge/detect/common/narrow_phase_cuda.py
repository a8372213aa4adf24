"""The bodies of ``brute_force_kernels`` and ``narrow_phase_kernels`` on a CUDA grid."""

# mypy: ignore-errors

from impinge.backend.cuda import cuda, grid_kernel
from impinge.detect.common.brute_force_kernels import fit_triangle_box
from impinge.detect.common.narrow_phase_kernels import classify_pair


@grid_kernel
def fit_triangle_boxes(x, faces, ids, box):
    """Fit a box around each triangle of ``ids``."""
    i = cuda.grid(1)
    if i < len(ids):
        fit_triangle_box(i, x, faces, ids, box)


@grid_kernel
def classify_pairs(x_a, faces_a, x_b, faces_b, pair_a, pair_b, bound, kind):
    """Filter each candidate: NONE, CROSSING, or UNCERTAIN for the CPU to resolve."""
    i = cuda.grid(1)
    if i < len(kind):
        classify_pair(i, x_a, faces_a, x_b, faces_b, pair_a, pair_b, bound, kind)
