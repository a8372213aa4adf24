"""The coarse level of the preconditioner, for ``cg_kernels``: six rigid modes for each cluster of vertices.

A cluster moves by t + ω × d at the distance d from its centre, in units of its size. With P, which has these modes as
columns, Pᵀ A P is a small dense matrix, filled up with zeros to whole panels of eight rows. It is factorised as Uᵀ U
and solved by panels; modes that move no free vertex, or that are combinations of others, are left out.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted, kernel, prange
from impinge.backend.simd.linear import PANEL, divide_panel, eliminate_panel, subtract_dots, subtract_panel
from impinge.deform.implicit.assembly_kernels import THREADED

SINGULAR = 1e-10
"""Pivot relative to the diagonal below which a mode is a combination of others."""


@compiled
def place_clusters(t, q, s, island):
    """Centre and reciprocal size of each cluster at the present positions; arms of the vertices."""
    cluster_start, leaf_start, cluster_leaf, position = q.cluster_start, t.leaf_start, q.cluster_leaf, s.x
    held, arm = q.held, s.arm
    for cluster in range(cluster_start[island], cluster_start[island + 1]):
        lo, hi = leaf_start[cluster_leaf[2 * cluster]], leaf_start[cluster_leaf[2 * cluster + 1]]
        x, y, z = 0.0, 0.0, 0.0
        for i in range(lo, hi):
            x, y, z = x + position[3 * i], y + position[3 * i + 1], z + position[3 * i + 2]
        scale = 1.0 / (hi - lo)
        x, y, z = scale * x, scale * y, scale * z
        square = 0.0
        for i in range(lo, hi):
            dx, dy, dz = position[3 * i] - x, position[3 * i + 1] - y, position[3 * i + 2] - z
            square += dx * dx + dy * dy + dz * dz
        size = math.sqrt(square * scale)
        scale = 1.0 / size if size > 0.0 else 0.0
        for i in range(lo, hi):
            free = 0.0 if held[i] else scale
            arm[3 * i] = free * (position[3 * i] - x)
            arm[3 * i + 1] = free * (position[3 * i + 1] - y)
            arm[3 * i + 2] = free * (position[3 * i + 2] - z)


@contracted
def _add_product(b, a0, a1, a2, a3, a4, a5, a6, a7, a8, x, y, z):
    """Add A [I, -[d]×], 3 by 6, to 18 numbers: A times the modes of a vertex."""
    b[0], b[1], b[2] = b[0] + a0, b[1] + a1, b[2] + a2
    b[6], b[7], b[8] = b[6] + a3, b[7] + a4, b[8] + a5
    b[12], b[13], b[14] = b[12] + a6, b[13] + a7, b[14] + a8
    # column of ω_x: ω_x × d = (0, -z, y); of ω_y: (z, 0, -x); of ω_z: (-y, x, 0)
    b[3], b[4], b[5] = b[3] + a2 * y - a1 * z, b[4] + a0 * z - a2 * x, b[5] + a1 * x - a0 * y
    b[9], b[10], b[11] = b[9] + a5 * y - a4 * z, b[10] + a3 * z - a5 * x, b[11] + a4 * x - a3 * y
    b[15], b[16], b[17] = b[15] + a8 * y - a7 * z, b[16] + a6 * z - a8 * x, b[17] + a7 * x - a6 * y


@contracted
def _add_restricted(c, at, size, b, x, y, z):
    """Add the transposed modes of a vertex times 18 numbers to a 6 by 6 block of the coarse matrix."""
    for j in range(6):
        u, v, w = b[j], b[6 + j], b[12 + j]
        c[at + j] += u
        c[at + size + j] += v
        c[at + 2 * size + j] += w
        c[at + 3 * size + j] += y * w - z * v
        c[at + 4 * size + j] += z * u - x * w
        c[at + 5 * size + j] += x * v - y * u


@compiled
def _cluster_rows(t, q, s, island, cluster):
    cluster_start, coarse_start, coarse, product = q.cluster_start, q.coarse_start, s.coarse, s.product
    leaf_start, cluster_leaf, held, arm = t.leaf_start, q.cluster_leaf, q.held, s.arm
    diagonal, row_start, column, vertex_cluster = s.diagonal, t.row_start, t.column, q.vertex_cluster
    value = s.value
    first = cluster_start[island]
    base, size = coarse_start[island], q.coarse_row[island + 1] - q.coarse_row[island]
    own = cluster - first
    row = base + 6 * own * size
    for k in range(row, row + 6 * size):
        coarse[k] = 0.0
    same, other = product[36 * cluster : 36 * cluster + 18], product[36 * cluster + 18 : 36 * cluster + 36]
    lo, hi = leaf_start[cluster_leaf[2 * cluster]], leaf_start[cluster_leaf[2 * cluster + 1]]
    for i in range(lo, hi):
        if held[i]:
            continue
        x, y, z = arm[3 * i], arm[3 * i + 1], arm[3 * i + 2]
        for k in range(18):
            same[k] = 0.0
        d = 6 * i
        xy, xz, yz = diagonal[d + 3], diagonal[d + 4], diagonal[d + 5]
        _add_product(same, diagonal[d], xy, xz, xy, diagonal[d + 1], yz, xz, yz, diagonal[d + 2], x, y, z)
        for e in range(row_start[i], row_start[i + 1]):
            j = column[e]
            if held[j]:
                continue
            at = 9 * e
            there = vertex_cluster[j]
            if there == cluster:
                _add_product(
                    same, value[at], value[at + 3], value[at + 6], value[at + 1], value[at + 4],
                    value[at + 7], value[at + 2], value[at + 5], value[at + 8],
                    arm[3 * j], arm[3 * j + 1], arm[3 * j + 2],
                )  # fmt: skip
            elif there > cluster:
                for k in range(18):
                    other[k] = 0.0
                _add_product(
                    other, value[at], value[at + 3], value[at + 6], value[at + 1], value[at + 4],
                    value[at + 7], value[at + 2], value[at + 5], value[at + 8],
                    arm[3 * j], arm[3 * j + 1], arm[3 * j + 2],
                )  # fmt: skip
                _add_restricted(coarse, row + 6 * (there - first), size, other, x, y, z)
        _add_restricted(coarse, row + 6 * own, size, same, x, y, z)


@kernel(parallel_from=THREADED)
def coarse_rows(t, q, s, island):
    """Write rows of the upper half of Pᵀ A P: one owner per cluster."""
    for cluster in prange(q.cluster_start[island], q.cluster_start[island + 1]):
        _cluster_rows(t, q, s, island, cluster)


@compiled
def _factorise_triangle(a, size, pivot, first):
    """Factorise the first columns of a panel, which the panels before have been eliminated from."""
    last = first + PANEL
    for k in range(first, last):
        d = a[k * size + k]
        pivot[k] = 1.0 / math.sqrt(d) if d > SINGULAR * pivot[k] else 0.0
        for j in range(k, last):
            a[k * size + j] *= pivot[k]
        for i in range(k + 1, last):
            for j in range(i, last):
                a[i * size + j] -= a[k * size + i] * a[k * size + j]


@contracted
def factorise(a, size, pivot):
    """Turn the upper half of a symmetric matrix to U of Uᵀ U in place; ``pivot`` gets reciprocals of the diagonal.

    Rows are eliminated by panels: the rest of the matrix passes through the processor once for each.
    """
    for k in range(size):
        pivot[k] = a[k * size + k]
    for first in range(0, size, PANEL):
        _factorise_triangle(a, size, pivot, first)
        divide_panel(a, first * size, size, pivot, first, first + PANEL, size)
        for row in range(first + PANEL, size, 4):
            eliminate_panel(a, first * size, size, row)


@compiled
def _solve_lower(a, at, stride, pivot, y, own):
    """Solve the triangle of a panel, transposed, in place."""
    for r in range(PANEL):
        z = y[own + r] * pivot[own + r]
        y[own + r] = z
        for c in range(r + 1, PANEL):
            y[own + c] -= z * a[at + r * stride + own + c]


@compiled
def _solve_upper(a, at, stride, pivot, y, own):
    """Solve the triangle of a panel in place."""
    for r in range(PANEL - 1, -1, -1):
        z = y[own + r]
        for c in range(r + 1, PANEL):
            z -= a[at + r * stride + own + c] * y[own + c]
        y[own + r] = z * pivot[own + r]


@contracted
def solve(a, size, pivot, y):
    """Solve Uᵀ U x = y in place, by panels."""
    for k in range(0, size, PANEL):
        _solve_lower(a, k * size, size, pivot, y, k)
        subtract_panel(a, k * size, size, y, k, k + PANEL, size)
    for k in range(size - PANEL, -1, -PANEL):
        subtract_dots(a, k * size, size, y, k, k + PANEL, size)
        _solve_upper(a, k * size, size, pivot, y, k)
