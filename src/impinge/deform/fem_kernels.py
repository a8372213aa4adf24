"""Forces of tetrahedra in blocks, for ``fem``.

Tets come in groups of 64, whose numbers lie side by side: row r of group g is ``a[(rows g + r) 64 + lane]``. A group
is read into flat scratch memory, and loops over its lanes become vector instructions: offsets and the trip count are
constant, hence no proof is needed that arrays do not overlap.

``shape``   10 rows: the inverse of the rest edges (entry k, l in row 3 k + l), and the rest volume
``corner``  4 rows: vertices, numbered within the block
``weight``  no rows; those of ``smoothing_kernels`` for groups of smoothed domains, which have a row for each of their
            corners, the unit matrix as inverse of rest edges, and F and its rate in place of edges
``scratch`` 28 rows: edges (entry c, k in row 3 c + k: component c of corner k + 1 less corner 0), their rates, forces
            on corners 1 to 3 (or measures), and whether the closed form of the rotation may be trusted
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, contracted, kernel, prange
from impinge.deform import matrices_kernels as mat
from impinge.deform import smoothing_kernels as smoothing

GROUP = 64
"""Tets per group: enough for vectors, few enough for the first-level cache."""
SHAPE_ROWS = 10
SCRATCH_ROWS = 28
GREEN, COROTATED, STABLE_NEO_HOOKEAN = 0, 1, 2
PARALLEL_FROM = 2048
"""Tets from which threads pay: each takes some 35 ns."""
LEAST_GAP = 1e-3
"""Lower bound of (s1 + s2)(s2 + s3)(s3 + s1) relative to ‖F‖³, in the bound of stiffness."""


# matrices of one tet ---------------------------------------------------------------------------------------


@contracted
def gradient(w, row, shape, i):
    """Edges in scratch from ``row`` times the inverse of the rest edges: F = D B, or its rate."""
    b0, b1, b2 = shape[i], shape[64 + i], shape[128 + i]
    b3, b4, b5 = shape[192 + i], shape[256 + i], shape[320 + i]
    b6, b7, b8 = shape[384 + i], shape[448 + i], shape[512 + i]
    j = row * 64 + i
    d0, d1, d2 = w[j], w[j + 64], w[j + 128]
    d3, d4, d5 = w[j + 192], w[j + 256], w[j + 320]
    d6, d7, d8 = w[j + 384], w[j + 448], w[j + 512]
    return (
        d0 * b0 + d1 * b3 + d2 * b6, d0 * b1 + d1 * b4 + d2 * b7, d0 * b2 + d1 * b5 + d2 * b8,
        d3 * b0 + d4 * b3 + d5 * b6, d3 * b1 + d4 * b4 + d5 * b7, d3 * b2 + d4 * b5 + d5 * b8,
        d6 * b0 + d7 * b3 + d8 * b6, d6 * b1 + d7 * b4 + d8 * b7, d6 * b2 + d7 * b5 + d8 * b8,
    )  # fmt: skip


@contracted
def _put_row(w, j, shape, i, p0, p1, p2):
    w[j] = p0 * shape[i] + p1 * shape[64 + i] + p2 * shape[128 + i]
    w[j + 64] = p0 * shape[192 + i] + p1 * shape[256 + i] + p2 * shape[320 + i]
    w[j + 128] = p0 * shape[384 + i] + p1 * shape[448 + i] + p2 * shape[512 + i]


@contracted
def _put_forces(w, shape, i, p):
    """Forces on corners 1 to 3: minus volume times stress P times the transposed inverse of the rest edges."""
    volume = -shape[576 + i]
    _put_row(w, 1152 + i, shape, i, volume * p[0], volume * p[1], volume * p[2])
    _put_row(w, 1344 + i, shape, i, volume * p[3], volume * p[4], volume * p[5])
    _put_row(w, 1536 + i, shape, i, volume * p[6], volume * p[7], volume * p[8])


@contracted
def hooke(strain, lam, mu):
    """λ tr(ε) I + 2 μ ε."""
    t = lam * (strain[0] + strain[1] + strain[2])
    m = 2.0 * mu
    return (
        t + m * strain[0], t + m * strain[1], t + m * strain[2], m * strain[3], m * strain[4], m * strain[5],
    )  # fmt: skip


@contracted
def green_strain(f):
    """(Fᵀ F - I) / 2."""
    c = mat.products(f, f)
    return 0.5 * (c[0] - 1.0), 0.5 * (c[1] - 1.0), 0.5 * (c[2] - 1.0), 0.5 * c[3], 0.5 * c[4], 0.5 * c[5]


# the models: stress of one tet -----------------------------------------------------------------------------


@contracted
def _green_stress(f, rate, lam, mu, phi, psi, barrier, barrier_from):
    """P = F (λ tr(E) I + 2 μ E + φ tr(Ė) I + 2 ψ Ė), and the barrier against det F below ``barrier_from``."""
    s = hooke(green_strain(f), lam, mu)
    d = hooke(mat.products(f, rate), phi, psi)
    p = mat.times_symmetric(f, (s[0] + d[0], s[1] + d[1], s[2] + d[2], s[3] + d[3], s[4] + d[4], s[5] + d[5]))
    c = mat.cofactors(f)
    q = barrier * min(mat.determinant(f, c) - barrier_from, 0.0)
    return mat.combined(1.0, p, q, c)


@contracted
def _corotated_stress(f, rate, r, lam, mu, phi, psi):
    """P = 2 μ (F - R) + λ tr(Rᵀ F - I) R + F (φ tr(Ė) I + 2 ψ Ė)."""
    u = mat.combined(1.0, f, -1.0, r)
    viscous = mat.times_symmetric(f, hooke(mat.products(f, rate), phi, psi))
    return mat.combined(1.0, mat.combined(2.0 * mu, u, lam * mat.dot(u, r), r), 1.0, viscous)


@contracted
def neo_hookean(square, j, lam, mu):
    """Energy density, and a, b of P = a F + b cof F, from ‖F‖² and det F."""
    shear, bulk = 4.0 / 3.0 * mu, lam + 5.0 / 6.0 * mu
    larger, longer = j - 1.0, square - 3.0
    energy = 0.5 * bulk * larger * larger - 0.75 * shear * larger + 0.5 * shear * (longer - math.log1p(0.25 * longer))
    return energy, shear * (1.0 - 1.0 / (square + 1.0)), bulk * larger - 0.75 * shear


@contracted
def _neo_hookean_stress(f, rate, lam, mu, phi, psi):
    """P = a F + b cof F + F (φ tr(Ė) I + 2 ψ Ė)."""
    c = mat.cofactors(f)
    _, linear, volumetric = neo_hookean(mat.sum_of_squares(f), mat.determinant(f, c), lam, mu)
    viscous = mat.times_symmetric(f, hooke(mat.products(f, rate), phi, psi))
    return mat.combined(1.0, mat.combined(linear, f, volumetric, c), 1.0, viscous)


# groups of tets ------------------------------------------------------------------------------------------------


@compiled
def _green_forces(w, shape, lam, mu, phi, psi, barrier, barrier_from):
    for i in range(GROUP):
        f, rate = gradient(w, 0, shape, i), gradient(w, 9, shape, i)
        _put_forces(w, shape, i, _green_stress(f, rate, lam, mu, phi, psi, barrier, barrier_from))


@compiled
def _corotated_forces(w, shape, lam, mu, phi, psi):
    for i in range(GROUP):
        f, rate = gradient(w, 0, shape, i), gradient(w, 9, shape, i)
        r, t, d = mat.rotation(f, mat.cofactors(f))
        w[1728 + i] = d - mat.AMBIGUOUS * t * t * t
        _put_forces(w, shape, i, _corotated_stress(f, rate, r, lam, mu, phi, psi))
    for i in range(GROUP):
        if not w[1728 + i] > 0.0:
            f, rate = gradient(w, 0, shape, i), gradient(w, 9, shape, i)
            _put_forces(w, shape, i, _corotated_stress(f, rate, mat.nearest_rotation(f), lam, mu, phi, psi))


@compiled
def _neo_hookean_forces(w, shape, lam, mu, phi, psi):
    for i in range(GROUP):
        f, rate = gradient(w, 0, shape, i), gradient(w, 9, shape, i)
        _put_forces(w, shape, i, _neo_hookean_stress(f, rate, lam, mu, phi, psi))


@contracted
def _green_measures(w, i, f, lam, mu, barrier, barrier_from):
    """Energy density, and a bound of stiffness relative to that at rest; see ``fem`` for its derivation."""
    e = green_strain(f)
    trace = e[0] + e[1] + e[2]
    square = e[0] * e[0] + e[1] * e[1] + e[2] * e[2] + 2.0 * (e[3] * e[3] + e[4] * e[4] + e[5] * e[5])
    c = mat.cofactors(f)
    j = mat.determinant(f, c)
    below = min(j - barrier_from, 0.0)
    stretch = mat.largest_eigenvalue_bound(mat.products(f, f))
    pull = max(lam * trace + mu * (stretch - 1.0), 0.0)
    push = barrier * (mat.sum_of_squares(c) - 2.0 * below * math.sqrt(stretch)) if below < 0.0 else 0.0
    w[1152 + i] = 0.5 * lam * trace * trace + mu * square + 0.5 * barrier * below * below
    w[1216 + i] = stretch + (pull + push) / (lam + 2.0 * mu)
    w[1280 + i] = stretch
    w[1344 + i] = j


@contracted
def _corotated_measures(w, i, f, r, d, lam, mu):
    """As for the other model."""
    u = mat.combined(1.0, f, -1.0, r)
    longer = mat.dot(u, r)
    a = mat.sum_of_squares(f)
    pull = max(lam * longer, 0.0) * 16.0 * a / max(d, LEAST_GAP * a * math.sqrt(a))
    w[1152 + i] = mu * mat.sum_of_squares(u) + 0.5 * lam * longer * longer
    w[1216 + i] = 1.0 + (pull if a > 0.0 else 0.0) / (lam + 2.0 * mu)
    w[1280 + i] = mat.largest_eigenvalue_bound(mat.products(f, f))
    w[1344 + i] = mat.determinant(f, mat.cofactors(f))


@contracted
def _neo_hookean_measures(w, i, f, lam, mu):
    """As for the other models; see ``fem``."""
    c = mat.cofactors(f)
    j, square = mat.determinant(f, c), mat.sum_of_squares(f)
    energy, linear, volumetric = neo_hookean(square, j, lam, mu)
    softer = 8.0 / 3.0 * mu * square / ((square + 1.0) * (square + 1.0))
    bulk = (lam + 5.0 / 6.0 * mu) / (lam + 2.0 / 3.0 * mu) * mat.largest_eigenvalue_bound(mat.products(c, c))
    w[1152 + i] = energy
    w[1216 + i] = bulk + (linear + softer + abs(volumetric) * math.sqrt(4.0 / 3.0 * square)) / (lam + 2.0 * mu)
    w[1280 + i] = mat.largest_eigenvalue_bound(mat.products(f, f))
    w[1344 + i] = j


@compiled
def _measure_group(model, w, shape, lam, mu, barrier, barrier_from):
    if model == GREEN:
        for i in range(GROUP):
            _green_measures(w, i, gradient(w, 0, shape, i), lam, mu, barrier, barrier_from)
    elif model == STABLE_NEO_HOOKEAN:
        for i in range(GROUP):
            _neo_hookean_measures(w, i, gradient(w, 0, shape, i), lam, mu)
    else:
        for i in range(GROUP):
            f = gradient(w, 0, shape, i)
            r, t, d = mat.rotation(f, mat.cofactors(f))
            w[1728 + i] = d - mat.AMBIGUOUS * t * t * t
            _corotated_measures(w, i, f, r, d, lam, mu)
        for i in range(GROUP):
            if not w[1728 + i] > 0.0:
                f = gradient(w, 0, shape, i)
                _corotated_measures(w, i, f, mat.nearest_rotation(f), 0.0, lam, mu)
    for i in range(GROUP):
        w[1408 + i] = mat.sum_of_squares(gradient(w, 9, shape, i))


# blocks of groups ----------------------------------------------------------------------------------------------


@compiled
def _copy_block(slot_vertex, x, v, local):
    """Positions and velocities of the vertices of a block, side by side."""
    for k in range(len(slot_vertex)):
        n = slot_vertex[k]
        for c in range(3):
            local[6 * k + c] = x[n, c]
            local[6 * k + 3 + c] = v[n, c]


@compiled
def _load_group(corner, local, w):
    for i in range(GROUP):
        n0, n1, n2, n3 = 6 * corner[i], 6 * corner[64 + i], 6 * corner[128 + i], 6 * corner[192 + i]
        for c in range(3):
            x, v = local[n0 + c], local[n0 + 3 + c]
            j = 192 * c + i
            w[j] = local[n1 + c] - x
            w[j + 64] = local[n2 + c] - x
            w[j + 128] = local[n3 + c] - x
            w[j + 576] = local[n1 + 3 + c] - v
            w[j + 640] = local[n2 + 3 + c] - v
            w[j + 704] = local[n3 + 3 + c] - v


@compiled
def _add_group(corner, w, force):
    """Add the forces of a group to those of the block's vertices; corner 0 gets minus the sum of the other three."""
    for i in range(GROUP):
        n0, n1, n2, n3 = 3 * corner[i], 3 * corner[64 + i], 3 * corner[128 + i], 3 * corner[192 + i]
        for c in range(3):
            j = 1152 + 192 * c + i
            f1, f2, f3 = w[j], w[j + 64], w[j + 128]
            force[n1 + c] += f1
            force[n2 + c] += f2
            force[n3 + c] += f3
            force[n0 + c] -= f1 + f2 + f3


@compiled
def _load_smoothed(corner, weight, local, w):
    """F and its rate in place of edges and their rates."""
    smoothing.load_gradients(corner, weight, local, 6, w, 0)
    smoothing.load_gradients(corner, weight, local[3:], 6, w, 9)


@compiled
def _block_forces(
    model, constants, groups, slots, corner_start, weight_start, corner, weight, shape, slot_vertex, x, v, slot_force
):
    lam, mu, phi, psi = constants[0], constants[1], constants[2], constants[3]
    local = np.empty(6 * (slots[1] - slots[0]))
    w = np.empty(SCRATCH_ROWS * GROUP)
    force = slot_force[3 * slots[0] : 3 * slots[1]]
    for k in range(len(force)):
        force[k] = 0.0
    _copy_block(slot_vertex[slots[0] : slots[1]], x, v, local)
    is_smoothed = weight_start[groups[1]] > weight_start[groups[0]]
    for g in range(groups[0], groups[1]):
        corners = corner[GROUP * corner_start[g] : GROUP * corner_start[g + 1]]
        shapes = shape[SHAPE_ROWS * GROUP * g : SHAPE_ROWS * GROUP * (g + 1)]
        if is_smoothed:
            _load_smoothed(corners, weight[GROUP * weight_start[g] : GROUP * weight_start[g + 1]], local, w)
        else:
            _load_group(corners, local, w)
        if model == GREEN:
            _green_forces(w, shapes, lam, mu, phi, psi, constants[4], constants[5])
        elif model == STABLE_NEO_HOOKEAN:
            _neo_hookean_forces(w, shapes, lam, mu, phi, psi)
        else:
            _corotated_forces(w, shapes, lam, mu, phi, psi)
        if is_smoothed:
            weights = weight[GROUP * weight_start[g] : GROUP * weight_start[g + 1]]
            smoothing.add_forces(corners, weights, w, 18, force)
        else:
            _add_group(corners, w, force)


@kernel(parallel_from=PARALLEL_FROM)
def block_forces(
    model, constants, block_group_start, block_slot_start, corner_start, weight_start, corner, weight, shape,
    slot_vertex, x, v,
    # outputs
    slot_force,
):  # fmt: skip
    """Sum the forces of each block's tets on its vertices, in the order of the tets."""
    for b in prange(len(block_group_start) - 1):
        groups = (block_group_start[b], block_group_start[b + 1])
        slots = (block_slot_start[b], block_slot_start[b + 1])
        _block_forces(
            model[b], constants[b], groups, slots, corner_start, weight_start, corner, weight, shape, slot_vertex, x, v,
            slot_force,
        )  # fmt: skip


@kernel(parallel_from=PARALLEL_FROM)
def gather_forces(vertex_slot_start, vertex_slot, slot_force, out):
    """Sum the forces of all blocks on each vertex, in the order of blocks."""
    for n in prange(len(out)):
        fx, fy, fz = 0.0, 0.0, 0.0
        for k in range(vertex_slot_start[n], vertex_slot_start[n + 1]):
            s = 3 * vertex_slot[k]
            fx += slot_force[s]
            fy += slot_force[s + 1]
            fz += slot_force[s + 2]
        out[n, 0], out[n, 1], out[n, 2] = fx, fy, fz


@compiled
def _measure_block(
    model, constants, groups, slots, corner_start, weight_start, corner, weight, shape, square, slot_vertex, x, v,
    # outputs
    measure, determinant,
):  # fmt: skip
    lam, mu, barrier, barrier_from = constants[0], constants[1], constants[4], constants[5]
    local = np.empty(6 * (slots[1] - slots[0]))
    w = np.empty(SCRATCH_ROWS * GROUP)
    _copy_block(slot_vertex[slots[0] : slots[1]], x, v, local)
    energy, stiffness, damping, rate = 0.0, 0.0, 0.0, 0.0
    is_smoothed = weight_start[groups[1]] > weight_start[groups[0]]
    for g in range(groups[0], groups[1]):
        shapes = shape[SHAPE_ROWS * GROUP * g : SHAPE_ROWS * GROUP * (g + 1)]
        corners = corner[GROUP * corner_start[g] : GROUP * corner_start[g + 1]]
        if is_smoothed:
            _load_smoothed(corners, weight[GROUP * weight_start[g] : GROUP * weight_start[g + 1]], local, w)
        else:
            _load_group(corners, local, w)
        _measure_group(model, w, shapes, lam, mu, barrier, barrier_from)
        for i in range(GROUP):
            at = GROUP * g + i
            energy += shapes[576 + i] * w[1152 + i]
            stiffness = max(stiffness, square[at] * w[1216 + i])
            damping = max(damping, square[at] * w[1280 + i])
            rate = max(rate, w[1408 + i])
            determinant[at] = w[1344 + i]
    measure[0], measure[1], measure[2], measure[3] = energy, stiffness, damping, rate


@kernel(parallel_from=PARALLEL_FROM)
def measure_blocks(
    model, constants, block_group_start, block_slot_start, corner_start, weight_start, corner, weight, shape, square,
    slot_vertex, x, v,
    # outputs
    measure, determinant,
):  # fmt: skip
    """For each block: energy, largest ω², largest ω² that damping counts from, largest ‖Ḟ‖²; and det F of each lane."""
    for b in prange(len(block_group_start) - 1):
        groups = (block_group_start[b], block_group_start[b + 1])
        slots = (block_slot_start[b], block_slot_start[b + 1])
        _measure_block(
            model[b], constants[b], groups, slots, corner_start, weight_start, corner, weight, shape, square,
            slot_vertex, x, v, measure[b], determinant,
        )  # fmt: skip
