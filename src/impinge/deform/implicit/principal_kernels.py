"""Principal frames of tets in groups, for ``elements_kernels``: eigenvectors of symmetric 3x3 matrices, lane by lane.

Cyclic Jacobi rotations without branches: loops over the lanes of a group become vector instructions. A rotation by the
angle with tangent t = 2 a sign(d) / (|d| + √(d² + 4 a²)), d = a_jj - a_ii, zeroes the entry a = a_ij.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import contracted

SWEEPS = 3
"""Off-diagonal entries are then below 1e-7 of the largest: enough for second derivatives, which only guide Newton."""
TINY = 1e-300


@contracted
def _angle(a, d):
    t = 2.0 * a / max(abs(d) + math.sqrt(d * d + 4.0 * a * a), TINY)
    t = t if d >= 0.0 else -t
    c = 1.0 / math.sqrt(t * t + 1.0)
    return t, c, t * c


@contracted
def _turned(v, i, j, c, s):
    """Columns i and j of nine numbers, row by row, turned; ``i`` and ``j`` are constants."""
    if i == 0 and j == 1:
        return (
            c * v[0] - s * v[1], s * v[0] + c * v[1], v[2],
            c * v[3] - s * v[4], s * v[3] + c * v[4], v[5],
            c * v[6] - s * v[7], s * v[6] + c * v[7], v[8],
        )  # fmt: skip
    if i == 0:
        return (
            c * v[0] - s * v[2], v[1], s * v[0] + c * v[2],
            c * v[3] - s * v[5], v[4], s * v[3] + c * v[5],
            c * v[6] - s * v[8], v[7], s * v[6] + c * v[8],
        )  # fmt: skip
    return (
        v[0], c * v[1] - s * v[2], s * v[1] + c * v[2],
        v[3], c * v[4] - s * v[5], s * v[4] + c * v[5],
        v[6], c * v[7] - s * v[8], s * v[7] + c * v[8],
    )  # fmt: skip


@contracted
def _sweep(a, v):
    """One rotation for each of the entries 01, 02, 12; ``a`` is symmetric: 00, 11, 22, 01, 02, 12."""
    xx, yy, zz, xy, xz, yz = a
    t, c, s = _angle(xy, yy - xx)
    xx, yy, xy, xz, yz = xx - t * xy, yy + t * xy, 0.0, c * xz - s * yz, s * xz + c * yz
    v = _turned(v, 0, 1, c, s)
    t, c, s = _angle(xz, zz - xx)
    xx, zz, xz, xy, yz = xx - t * xz, zz + t * xz, 0.0, c * xy - s * yz, s * xy + c * yz
    v = _turned(v, 0, 2, c, s)
    t, c, s = _angle(yz, zz - yy)
    yy, zz, yz, xy, xz = yy - t * yz, zz + t * yz, 0.0, c * xy - s * xz, s * xy + c * xz
    v = _turned(v, 1, 2, c, s)
    return (xx, yy, zz, xy, xz, yz), v


@contracted
def eigenvectors(a):
    """Eigenvalues in no order, and the eigenvectors as columns, of a symmetric matrix."""
    v = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for _ in range(SWEEPS):
        a, v = _sweep(a, v)
    return (a[0], a[1], a[2]), v


@contracted
def positive_part(a):
    """The nearest positive-semidefinite matrix: negative eigenvalues become 0."""
    e, v = eigenvectors(a)
    x, y, z = max(e[0], 0.0), max(e[1], 0.0), max(e[2], 0.0)
    return (
        x * v[0] * v[0] + y * v[1] * v[1] + z * v[2] * v[2],
        x * v[3] * v[3] + y * v[4] * v[4] + z * v[5] * v[5],
        x * v[6] * v[6] + y * v[7] * v[7] + z * v[8] * v[8],
        x * v[0] * v[3] + y * v[1] * v[4] + z * v[2] * v[5],
        x * v[0] * v[6] + y * v[1] * v[7] + z * v[2] * v[8],
        x * v[3] * v[6] + y * v[4] * v[7] + z * v[5] * v[8],
    )
