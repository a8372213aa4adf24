"""Preconditioned conjugate gradients on the matrix of an island, for ``newton_kernels``.

A = blocks + Gᵀ k G (active constraints, never assembled). Preconditioner: inverses of the diagonal blocks plus
P (Pᵀ A P)⁻¹ Pᵀ, the rigid modes of clusters (``coarse_kernels``): additive, two levels. An iteration has three passes
over leaves: multiply; update and precondition; new direction. Sums over leaves are added in order. With r·z summed as
r·D⁻¹r + Pᵀr·y, no pass waits for the coarse solution but the last.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted, kernel, prange
from impinge.deform.implicit import coarse_kernels as coarse
from impinge.deform.implicit.assembly_kernels import THREADED


@contracted
def _leaf_product(t, q, s, leaf):
    """The product of the rows of a leaf with ``p``, and p·Ap."""
    total = 0.0
    value, column, p = s.value, t.column, s.p
    for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
        at = 3 * i
        if q.held[i]:
            s.q[at], s.q[at + 1], s.q[at + 2] = 0.0, 0.0, 0.0
            continue
        px, py, pz = p[at], p[at + 1], p[at + 2]
        d = 6 * i
        xy, xz, yz = s.diagonal[d + 3], s.diagonal[d + 4], s.diagonal[d + 5]
        x = s.diagonal[d] * px + xy * py + xz * pz
        y = xy * px + s.diagonal[d + 1] * py + yz * pz
        z = xz * px + yz * py + s.diagonal[d + 2] * pz
        for e in range(t.row_start[i], t.row_start[i + 1]):
            j, k = 3 * column[e], 9 * e
            u, v, w = p[j], p[j + 1], p[j + 2]
            x += value[k] * u + value[k + 1] * v + value[k + 2] * w
            y += value[k + 3] * u + value[k + 4] * v + value[k + 5] * w
            z += value[k + 6] * u + value[k + 7] * v + value[k + 8] * w
        s.q[at], s.q[at + 1], s.q[at + 2] = x, y, z
        total += px * x + py * y + pz * z
    s.leaf_sum[leaf] = total


@kernel(parallel_from=THREADED)
def multiply(t, q, s, lo, hi):
    """Write q = A p without constraints, and p·q of each leaf."""
    for k in prange(lo, hi):
        _leaf_product(t, q, s, q.leaf[k])


@compiled
def _multiply_constraints(q, s, lo, hi):
    """Add Gᵀ k G p to q; returns p·Gᵀ k G p."""
    total = 0.0
    for row in range(lo, hi):
        k = s.row_active[row]
        if k > 0.0:
            along = 0.0
            for e in range(q.row_start[row], q.row_start[row + 1]):
                at = 3 * q.row_vertex[e]
                for c in range(3):
                    along += q.row_weight[3 * e + c] * s.p[at + c]
            total += k * along * along
            for e in range(q.row_start[row], q.row_start[row + 1]):
                i = q.row_vertex[e]
                if not q.held[i]:
                    for c in range(3):
                        s.q[3 * i + c] += k * along * q.row_weight[3 * e + c]
    return total


@contracted
def _leaf_update(t, s, leaf, alpha):
    """Move d by α p and r by -α q; write z = D⁻¹ r, Pᵀ r, r·r and r·D⁻¹r of a leaf."""
    rr, rz = 0.0, 0.0
    t0, t1, t2, w0, w1, w2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
        at, k = 3 * i, 6 * i
        s.d[at] += alpha * s.p[at]
        s.d[at + 1] += alpha * s.p[at + 1]
        s.d[at + 2] += alpha * s.p[at + 2]
        x, y, z = s.r[at] - alpha * s.q[at], s.r[at + 1] - alpha * s.q[at + 1], s.r[at + 2] - alpha * s.q[at + 2]
        s.r[at], s.r[at + 1], s.r[at + 2] = x, y, z
        xy, xz, yz = s.inverse[k + 3], s.inverse[k + 4], s.inverse[k + 5]
        u = s.inverse[k] * x + xy * y + xz * z
        v = xy * x + s.inverse[k + 1] * y + yz * z
        w = xz * x + yz * y + s.inverse[k + 2] * z
        s.z[at], s.z[at + 1], s.z[at + 2] = u, v, w
        rr += x * x + y * y + z * z
        rz += x * u + y * v + z * w
        a, b, c = s.arm[at], s.arm[at + 1], s.arm[at + 2]
        t0, t1, t2 = t0 + x, t1 + y, t2 + z
        w0, w1, w2 = w0 + (b * z - c * y), w1 + (c * x - a * z), w2 + (a * y - b * x)
    k = 6 * leaf
    s.leaf_mode[k], s.leaf_mode[k + 1], s.leaf_mode[k + 2] = t0, t1, t2
    s.leaf_mode[k + 3], s.leaf_mode[k + 4], s.leaf_mode[k + 5] = w0, w1, w2
    s.leaf_sum[2 * leaf], s.leaf_sum[2 * leaf + 1] = rr, rz


@kernel(parallel_from=THREADED)
def update(t, q, s, lo, hi, alpha):
    """Move along p, and precondition the new residual, the coarse solution apart."""
    for k in prange(lo, hi):
        _leaf_update(t, s, q.leaf[k], alpha)


@contracted
def _leaf_direction(t, q, s, leaf, beta):
    m = 6 * q.leaf_cluster[leaf]
    t0, t1, t2, w0, w1, w2 = s.mode[m], s.mode[m + 1], s.mode[m + 2], s.mode[m + 3], s.mode[m + 4], s.mode[m + 5]
    for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
        at = 3 * i
        if q.held[i]:
            s.p[at], s.p[at + 1], s.p[at + 2] = 0.0, 0.0, 0.0
        else:
            a, b, c = s.arm[at], s.arm[at + 1], s.arm[at + 2]
            s.p[at] = s.z[at] + t0 + (w1 * c - w2 * b) + beta * s.p[at]
            s.p[at + 1] = s.z[at + 1] + t1 + (w2 * a - w0 * c) + beta * s.p[at + 1]
            s.p[at + 2] = s.z[at + 2] + t2 + (w0 * b - w1 * a) + beta * s.p[at + 2]


@kernel(parallel_from=THREADED)
def redirect(t, q, s, lo, hi, beta):
    """Direction p = D⁻¹ r + P y + β p."""
    for k in prange(lo, hi):
        _leaf_direction(t, q, s, q.leaf[k], beta)


multiply_serial, multiply_threaded = multiply.serial, multiply.parallel
update_serial, update_threaded = update.serial, update.parallel
redirect_serial, redirect_threaded = redirect.serial, redirect.parallel


@compiled
def product(threaded, t, q, s, island):
    """Write q = A p; returns p·q."""
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    if threaded is None:
        multiply_serial(t, q, s, lo, hi)
    else:
        multiply_threaded(t, q, s, lo, hi)
    total = 0.0
    for k in range(lo, hi):
        total += s.leaf_sum[q.leaf[k]]
    return total + _multiply_constraints(q, s, q.row_range[island], q.row_range[island + 1])


@compiled
def precondition(threaded, t, q, s, island, alpha):
    """Move by α along p; leaves D⁻¹ r in z and the coarse solution in ``mode``; returns r·r and r·z."""
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    if threaded is None:
        update_serial(t, q, s, lo, hi, alpha)
    else:
        update_threaded(t, q, s, lo, hi, alpha)
    rr, rz = 0.0, 0.0
    first, last = q.cluster_start[island], q.cluster_start[island + 1]
    for k in range(6 * first, 6 * last):
        s.mode[k] = 0.0
    for k in range(lo, hi):
        leaf = q.leaf[k]
        rr += s.leaf_sum[2 * leaf]
        rz += s.leaf_sum[2 * leaf + 1]
        for c in range(6):
            s.mode[6 * q.leaf_cluster[leaf] + c] += s.leaf_mode[6 * leaf + c]
    mode = s.mode[6 * first : 6 * last]
    before = s.mode_before[6 * first : 6 * last]
    size = 6 * (last - first)
    for k in range(size):
        before[k] = mode[k]
    matrix = s.coarse[q.coarse_start[island] : q.coarse_start[island] + size * size]
    coarse.solve(matrix, size, s.pivot[6 * first : 6 * last], mode)
    for k in range(size):
        rz += before[k] * mode[k]
    return rr, rz


@compiled
def conjugate_gradients(threaded, t, q, s, island, tolerance, most):
    """Improve d of A d = r + A d, where r is the residual of the initial d, until ‖r‖ ≤ ``tolerance``.

    Returns the number of iterations and ‖r‖. Direction p is free at the start.
    """
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    rr, rz = precondition(threaded, t, q, s, island, 0.0)
    count, beta = 0, 0.0
    while math.sqrt(rr) > tolerance and count < most:
        if threaded is None:
            redirect_serial(t, q, s, lo, hi, beta)
        else:
            redirect_threaded(t, q, s, lo, hi, beta)
        curvature = product(threaded, t, q, s, island)
        if not curvature > 0.0:  # rounding, or numbers beyond the range of doubles
            break
        rr, new = precondition(threaded, t, q, s, island, rz / curvature)
        beta, rz = new / rz, new
        count += 1
    return count, math.sqrt(rr)
