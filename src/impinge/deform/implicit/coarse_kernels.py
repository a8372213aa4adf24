"""The coarse level of the preconditioner, for ``cg_kernels``: six rigid modes for each cluster of vertices.

A cluster moves by t + ω × d at the distance d from its centre, in units of its size. With P, which has these modes as
columns, Pᵀ A P is a small dense matrix. It is factorised as Uᵀ U by rows; modes that move no free vertex, or that are
combinations of others, are left out.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted, kernel, prange
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
    base, size = coarse_start[island], 6 * (cluster_start[island + 1] - first)
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
                    same, value[at], value[at + 1], value[at + 2], value[at + 3], value[at + 4],
                    value[at + 5], value[at + 6], value[at + 7], value[at + 8],
                    arm[3 * j], arm[3 * j + 1], arm[3 * j + 2],
                )  # fmt: skip
            elif there > cluster:
                for k in range(18):
                    other[k] = 0.0
                _add_product(
                    other, value[at], value[at + 1], value[at + 2], value[at + 3], value[at + 4],
                    value[at + 5], value[at + 6], value[at + 7], value[at + 8],
                    arm[3 * j], arm[3 * j + 1], arm[3 * j + 2],
                )  # fmt: skip
                _add_restricted(coarse, row + 6 * (there - first), size, other, x, y, z)
        _add_restricted(coarse, row + 6 * own, size, same, x, y, z)


@kernel(parallel_from=THREADED)
def coarse_rows(t, q, s, island):
    """Write rows of the upper half of Pᵀ A P: one owner per cluster."""
    for cluster in prange(q.cluster_start[island], q.cluster_start[island + 1]):
        _cluster_rows(t, q, s, island, cluster)


@contracted
def _subtract_row(a, to, source, count, factor):
    for k in range(count):
        a[to + k] -= factor * a[source + k]


@compiled
def factorise(a, size, pivot):
    """Turn the upper half of a symmetric matrix to U of Uᵀ U in place; ``pivot`` gets reciprocals of the diagonal."""
    for k in range(size):
        pivot[k] = a[k * size + k]
    for k in range(size):
        at = k * size
        d = a[at + k]
        if not d > SINGULAR * pivot[k]:
            pivot[k] = 0.0
            for j in range(k, size):
                a[at + j] = 0.0
            continue
        scale = 1.0 / math.sqrt(d)
        pivot[k] = scale
        for j in range(k, size):
            a[at + j] *= scale
        for i in range(k + 1, size):
            factor = a[at + i]
            if factor != 0.0:
                _subtract_row(a, i * size + i, at + i, size - i, factor)


@contracted
def _subtract_scaled(y, lo, count, a, at, factor):
    for k in range(count):
        y[lo + k] -= factor * a[at + k]


@contracted
def _dot(a, at, y, lo, count):
    """Sum in eight interleaved parts: eight products are in flight."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = count & ~7
    for k in range(0, whole, 8):
        s0 += a[at + k] * y[lo + k]
        s1 += a[at + k + 1] * y[lo + k + 1]
        s2 += a[at + k + 2] * y[lo + k + 2]
        s3 += a[at + k + 3] * y[lo + k + 3]
        s4 += a[at + k + 4] * y[lo + k + 4]
        s5 += a[at + k + 5] * y[lo + k + 5]
        s6 += a[at + k + 6] * y[lo + k + 6]
        s7 += a[at + k + 7] * y[lo + k + 7]
    for k in range(whole, count):
        s0 += a[at + k] * y[lo + k]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@compiled
def solve(a, size, pivot, y):
    """Solve Uᵀ U x = y in place."""
    for k in range(size):
        y[k] *= pivot[k]
        if y[k] != 0.0:
            _subtract_scaled(y, k + 1, size - k - 1, a, k * size + k + 1, y[k])
    for k in range(size - 1, -1, -1):
        y[k] = (y[k] - _dot(a, k * size + k + 1, y, k + 1, size - k - 1)) * pivot[k]
