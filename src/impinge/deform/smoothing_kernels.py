"""Deformation gradients and forces of smoothed domains in groups, for ``fem_kernels`` and ``implicit``.

A group has 64 domains with the same number of corners (``smoothing``), in rows of 64 lanes:

``corner``  a row for each corner: vertices
``weight``  3 rows for each corner: b
"""

# mypy: ignore-errors

from impinge.backend.jit import compiled, contracted

GROUP = 64


@contracted
def _add_product(w, j, d, b):
    w[j] += d * b[0]
    w[j + 64] += d * b[1]
    w[j + 128] += d * b[2]


@contracted
def _force(w, j, b):
    """A component of P b: minus the force per volume."""
    return w[j] * b[0] + w[j + 64] * b[1] + w[j + 128] * b[2]


@compiled
def load_gradients(corner, weight, x, stride, w, row):
    """F = Σ (x - x0) ⊗ b to nine rows from ``row``; vertex n has its numbers at ``x[stride n]``."""
    for k in range(64 * row, 64 * (row + 9)):
        w[k] = 0.0
    for a in range(1, len(corner) // GROUP):
        for i in range(GROUP):
            n0, n = stride * corner[i], stride * corner[64 * a + i]
            b = weight[192 * a + i], weight[192 * a + 64 + i], weight[192 * a + 128 + i]
            for c in range(3):
                _add_product(w, 64 * (row + 3 * c) + i, x[n + c] - x[n0 + c], b)


@compiled
def add_forces(corner, weight, w, row, force):
    """Add forces on corners to those of vertices; row 3 c + k from ``row`` has component c of the force on edge k."""
    for a in range(1, len(corner) // GROUP):
        for i in range(GROUP):
            n0, n = 3 * corner[i], 3 * corner[64 * a + i]
            b = weight[192 * a + i], weight[192 * a + 64 + i], weight[192 * a + 128 + i]
            for c in range(3):
                f = _force(w, 64 * (row + 3 * c) + i, b)
                force[n + c] += f
                force[n0 + c] -= f


@compiled
def store_forces(weight, w, row, force):
    """Write forces on the corners of each domain side by side; the first has minus the sum of the others."""
    count = len(weight) // (3 * GROUP)
    for i in range(GROUP):
        at = 3 * count * i
        force[at], force[at + 1], force[at + 2] = 0.0, 0.0, 0.0
        for a in range(1, count):
            b = weight[192 * a + i], weight[192 * a + 64 + i], weight[192 * a + 128 + i]
            for c in range(3):
                f = _force(w, 64 * (row + 3 * c) + i, b)
                force[at + 3 * a + c] = f
                force[at + c] -= f
