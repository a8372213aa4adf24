"""Preconditioned conjugate gradients on the matrix of an island, for ``newton_kernels``.

A = blocks + contacts (``contact_kernels``, never assembled). Preconditioner: inverses of the diagonal blocks plus
P (Pᵀ A P)⁻¹ Pᵀ, the rigid modes of clusters (``coarse_kernels``): additive, two levels. An iteration has three passes
over leaves: multiply; update and precondition; new direction. Sums over leaves are added in order. With r·z summed as
r·D⁻¹r + Pᵀr·y, no pass waits for the coarse solution but the last.

Stop. The energy norm of the error e of d is √(e·A e): it bounds the error of velocities, √Σ m |e/h|², and that of
elastic energies. Iteration k lowers its square by α r·z; the sum over ``DELAY`` iterations estimates it at their start
[HestenesStiefel1952]. √(r·z) estimates it without iterations, too low by the condition of the preconditioned matrix.
‖r‖ says little: in stiff bodies it is 1e-1 of the right-hand side where velocities have an error of 1e-6.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted, kernel, prange
from impinge.deform.implicit import coarse_kernels as coarse
from impinge.deform.implicit.assembly_kernels import THREADED
from impinge.deform.implicit.contact_kernels import multiply_contacts

DELAY = 4
"""Iterations whose decreases estimate the error."""
NEGLIGIBLE = 0.1
"""√(r·z), relative to the error asked for, at which no iteration is needed."""


@contracted
def _leaf_product(t, q, s, leaf):
    """The product of the rows of a leaf with ``p``, and p·Ap."""
    leaf_start, held, image, direction = t.leaf_start, q.held, s.q, s.p
    diagonal, row_start, column, value = s.diagonal, t.row_start, t.column, s.value
    leaf_sum = s.leaf_sum
    total = 0.0
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        at = 3 * i
        if held[i]:
            image[at], image[at + 1], image[at + 2] = 0.0, 0.0, 0.0
            continue
        px, py, pz = direction[at], direction[at + 1], direction[at + 2]
        d = 6 * i
        xy, xz, yz = diagonal[d + 3], diagonal[d + 4], diagonal[d + 5]
        x = diagonal[d] * px + xy * py + xz * pz
        y = xy * px + diagonal[d + 1] * py + yz * pz
        z = xz * px + yz * py + diagonal[d + 2] * pz
        for e in range(row_start[i], row_start[i + 1]):
            j, k = 3 * column[e], 9 * e
            u, v, w = direction[j], direction[j + 1], direction[j + 2]
            x += value[k] * u + value[k + 1] * v + value[k + 2] * w
            y += value[k + 3] * u + value[k + 4] * v + value[k + 5] * w
            z += value[k + 6] * u + value[k + 7] * v + value[k + 8] * w
        image[at], image[at + 1], image[at + 2] = x, y, z
        total += px * x + py * y + pz * z
    leaf_sum[2 * leaf] = total


@kernel(parallel_from=THREADED)
def multiply(t, q, s, lo, hi):
    """Write q = A p without contacts, and p·q of each leaf."""
    for k in prange(lo, hi):
        _leaf_product(t, q, s, q.leaf[k])


@contracted
def _leaf_update(t, s, leaf, alpha):
    """Move d by α p and r by -α q; write z = D⁻¹ r, Pᵀ r, r·r and r·D⁻¹r of a leaf."""
    leaf_start, solution, direction, residual = t.leaf_start, s.d, s.p, s.r
    image, inverse, local, arm = s.q, s.inverse, s.z, s.arm
    leaf_mode, leaf_sum = s.leaf_mode, s.leaf_sum
    rr, rz = 0.0, 0.0
    t0, t1, t2, w0, w1, w2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        at, k = 3 * i, 6 * i
        solution[at] += alpha * direction[at]
        solution[at + 1] += alpha * direction[at + 1]
        solution[at + 2] += alpha * direction[at + 2]
        x, y, z = (
            residual[at] - alpha * image[at],
            residual[at + 1] - alpha * image[at + 1],
            residual[at + 2] - alpha * image[at + 2],
        )
        residual[at], residual[at + 1], residual[at + 2] = x, y, z
        xy, xz, yz = inverse[k + 3], inverse[k + 4], inverse[k + 5]
        u = inverse[k] * x + xy * y + xz * z
        v = xy * x + inverse[k + 1] * y + yz * z
        w = xz * x + yz * y + inverse[k + 2] * z
        local[at], local[at + 1], local[at + 2] = u, v, w
        rr += x * x + y * y + z * z
        rz += x * u + y * v + z * w
        a, b, c = arm[at], arm[at + 1], arm[at + 2]
        t0, t1, t2 = t0 + x, t1 + y, t2 + z
        w0, w1, w2 = w0 + (b * z - c * y), w1 + (c * x - a * z), w2 + (a * y - b * x)
    k = 6 * leaf
    leaf_mode[k], leaf_mode[k + 1], leaf_mode[k + 2] = t0, t1, t2
    leaf_mode[k + 3], leaf_mode[k + 4], leaf_mode[k + 5] = w0, w1, w2
    leaf_sum[2 * leaf], leaf_sum[2 * leaf + 1] = rr, rz


@kernel(parallel_from=THREADED)
def update(t, q, s, lo, hi, alpha):
    """Move along p, and precondition the new residual, the coarse solution apart."""
    for k in prange(lo, hi):
        _leaf_update(t, s, q.leaf[k], alpha)


@contracted
def _leaf_direction(t, q, s, leaf, beta):
    leaf_cluster, mode, leaf_start, held = q.leaf_cluster, s.mode, t.leaf_start, q.held
    direction, arm, local = s.p, s.arm, s.z
    m = 6 * leaf_cluster[leaf]
    t0, t1, t2, w0, w1, w2 = mode[m], mode[m + 1], mode[m + 2], mode[m + 3], mode[m + 4], mode[m + 5]
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        at = 3 * i
        if held[i]:
            direction[at], direction[at + 1], direction[at + 2] = 0.0, 0.0, 0.0
        else:
            a, b, c = arm[at], arm[at + 1], arm[at + 2]
            direction[at] = local[at] + t0 + (w1 * c - w2 * b) + beta * direction[at]
            direction[at + 1] = local[at + 1] + t1 + (w2 * a - w0 * c) + beta * direction[at + 1]
            direction[at + 2] = local[at + 2] + t2 + (w0 * b - w1 * a) + beta * direction[at + 2]


@kernel(parallel_from=THREADED)
def redirect(t, q, s, lo, hi, beta):
    """Direction p = D⁻¹ r + P y + β p."""
    for k in prange(lo, hi):
        _leaf_direction(t, q, s, q.leaf[k], beta)


multiply_serial, multiply_threaded = multiply.serial, multiply.parallel
update_serial, update_threaded = update.serial, update.parallel
redirect_serial, redirect_threaded = redirect.serial, redirect.parallel


@compiled
def element_product(threaded, t, q, s, island):
    """Write q = A p without contacts; returns p·q."""
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    if threaded is None:
        multiply_serial(t, q, s, lo, hi)
    else:
        multiply_threaded(t, q, s, lo, hi)
    total = 0.0
    for k in range(lo, hi):
        total += s.leaf_sum[2 * q.leaf[k]]
    return total


@compiled
def product(threaded, t, q, s, island):
    """Write q = A p; returns p·q."""
    total = element_product(threaded, t, q, s, island)
    return total + multiply_contacts(q, s, q.contact_range[island], q.contact_range[island + 1])


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
def conjugate_gradients(threaded, t, q, s, island, error, residual, most):
    """Improve d, whose residual is r, until its error is at most ``error`` and ‖r‖ ≤ ``residual``.

    Returns the number of iterations, √(r·B r) with the preconditioner B, and ‖r‖. Directions p and q are 0 at the
    start.
    """
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    rr, rz = precondition(threaded, t, q, s, island, 0.0)
    count, beta = 0, 0.0
    e0, e1, e2, e3 = math.inf, math.inf, math.inf, math.inf
    while count < most:
        is_small = math.sqrt(max(rz, 0.0)) <= NEGLIGIBLE * error or e0 + e1 + e2 + e3 <= error * error
        if is_small and math.sqrt(rr) <= residual:
            break
        if threaded is None:
            redirect_serial(t, q, s, lo, hi, beta)
        else:
            redirect_threaded(t, q, s, lo, hi, beta)
        curvature = product(threaded, t, q, s, island)
        if not curvature > 0.0:  # rounding, or numbers beyond the range of doubles
            break
        rr, new = precondition(threaded, t, q, s, island, rz / curvature)
        e0, e1, e2, e3 = e1, e2, e3, rz * rz / curvature
        beta, rz = new / rz, new
        count += 1
    return count, math.sqrt(max(rz, 0.0)), math.sqrt(rr)
