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
from impinge.backend.simd.linear import multiply_blocks
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
    s.leaf_sum[2 * leaf] = multiply_blocks(
        t.row_start, t.column, s.value, s.diagonal, q.held, s.p, s.q, t.leaf_start[leaf], t.leaf_start[leaf + 1]
    )


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
    leaf_row, mode, leaf_start, held = q.leaf_row, s.mode, t.leaf_start, q.held
    direction, arm, local = s.p, s.arm, s.z
    m = leaf_row[leaf]
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
    first, last = q.coarse_row[island], q.coarse_row[island + 1]
    mode, before = s.mode[first:last], s.mode_before[first:last]
    size = last - first
    for k in range(size):
        mode[k] = 0.0
    for k in range(lo, hi):
        leaf = q.leaf[k]
        rr += s.leaf_sum[2 * leaf]
        rz += s.leaf_sum[2 * leaf + 1]
        for c in range(6):
            mode[q.leaf_row[leaf] - first + c] += s.leaf_mode[6 * leaf + c]
    for k in range(size):
        before[k] = mode[k]
    matrix = s.coarse[q.coarse_start[island] : q.coarse_start[island] + size * size]
    coarse.solve(matrix, size, s.pivot[first:last], mode)
    for k in range(size):
        rz += before[k] * mode[k]
    return rr, rz


@compiled
def imbalance(t, q, s, island):
    """Error of momenta, h |Σ r| / √m, the largest of the bodies without held vertices; r as ``precondition`` left it.

    Velocities follow the forces on a body: of stiff contacts, these have large errors where positions have none.
    """
    most = 0.0
    for k in range(q.body_range[island], q.body_range[island + 1]):
        b = q.body[k]
        mass, is_free = 0.0, True
        for i in range(t.body_start[b], t.body_start[b + 1]):
            mass += t.mass[i]
            is_free &= q.held[i] == 0
        if is_free:
            x, y, z = 0.0, 0.0, 0.0
            for leaf in range(t.body_leaf[b], t.body_leaf[b + 1]):
                x += s.leaf_mode[6 * leaf]
                y += s.leaf_mode[6 * leaf + 1]
                z += s.leaf_mode[6 * leaf + 2]
            most = max(most, (x * x + y * y + z * z) / mass)
    return q.numbers[0] * math.sqrt(most)


@compiled
def conjugate_gradients(threaded, t, q, s, island, error, residual, most, balanced):
    """Improve d, whose residual is r, until its error is at most ``error`` and ‖r‖ ≤ ``residual``.

    ``balanced`` asks for the momenta of bodies, too.

    Returns the number of iterations, √(r·B r) with the preconditioner B, and ‖r‖. Directions p and q are 0 at the
    start.
    """
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    rr, rz = precondition(threaded, t, q, s, island, 0.0)
    count, beta = 0, 0.0
    e0, e1, e2, e3 = math.inf, math.inf, math.inf, math.inf
    while count < most:
        is_small = math.sqrt(max(rz, 0.0)) <= NEGLIGIBLE * error or e0 + e1 + e2 + e3 <= error * error
        if is_small and math.sqrt(rr) <= residual and (not balanced or imbalance(t, q, s, island) <= error):
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
