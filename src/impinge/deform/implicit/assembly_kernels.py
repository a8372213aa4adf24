"""Gradients and matrices of an island, for ``newton_kernels``: sums over element records, one owner per sum.

Elements write records: forces on their corners, and blocks of second derivatives for pairs of vertices. A vertex sums
the forces of its records, a pair of vertices the blocks of theirs, in the order of elements: results do not depend on
threads. The matrix has 3x3 blocks in compressed rows without the diagonal, both (i, j) and (j, i), column by column
(``backend.simd.linear``). Elastic energies do not change under translations, hence a diagonal block is minus the sum of
its row; inertia and drag are added.

``t`` is the topology, ``q`` the step, ``s`` the scratch memory (``system``). Leaves are runs of vertices. Loops over
threads call a function for each leaf: Numba loses what the loop itself writes to arrays of a tuple.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.deform import smoothing_kernels as smoothing
from impinge.deform.fem_kernels import GROUP, SHAPE_ROWS
from impinge.deform.implicit import elements_kernels as elements

THREADED = 1 << 62
"""Kernels of this room are chosen by their caller, never by the amount of work."""


@compiled
def _spring_group(t, q, s, lo, hi, with_blocks):
    """Energy of springs: k/2 (l - L)², and their dissipation c (l - l0)² / (2 h); records as for tets."""
    group_model, spring_end, position, x0 = t.group_model, t.spring_end, s.x, s.x0
    spring_stiffness, spring_damping, spring_length, force = (
        t.spring_stiffness,
        t.spring_damping,
        t.spring_length,
        s.force,
    )
    block = s.block
    energy = 0.0
    forces, blocks = 3 * t.group_corner[len(group_model)] * GROUP, 9 * t.group_block[len(group_model)] * GROUP
    h = q.numbers[0]
    for e in range(lo, hi):
        i, j = 3 * spring_end[2 * e], 3 * spring_end[2 * e + 1]
        dx, dy, dz = position[j] - position[i], position[j + 1] - position[i + 1], position[j + 2] - position[i + 2]
        ex, ey, ez = x0[j] - x0[i], x0[j + 1] - x0[i + 1], x0[j + 2] - x0[i + 2]
        now, before = math.sqrt(dx * dx + dy * dy + dz * dz), math.sqrt(ex * ex + ey * ey + ez * ez)
        k, c = spring_stiffness[e], spring_damping[e] / h
        longer, stretch = now - spring_length[e], now - before
        energy += 0.5 * k * longer * longer + 0.5 * c * stretch * stretch
        inverse = 1.0 / now if now > 0.0 else 0.0
        nx, ny, nz = dx * inverse, dy * inverse, dz * inverse
        pull = k * longer + c * stretch
        at = forces + 6 * e
        force[at], force[at + 1], force[at + 2] = pull * nx, pull * ny, pull * nz
        force[at + 3], force[at + 4], force[at + 5] = -pull * nx, -pull * ny, -pull * nz
        if with_blocks:
            across = max(pull, 0.0) * inverse
            along = k + c - across
            at = blocks + 9 * e
            block[at], block[at + 4] = -(along * nx * nx + across), -(along * ny * ny + across)
            block[at + 8] = -(along * nz * nz + across)
            block[at + 1] = block[at + 3] = -along * nx * ny
            block[at + 2] = block[at + 6] = -along * nx * nz
            block[at + 5] = block[at + 7] = -along * ny * nz
    return energy


@compiled
def _load(corner, weight, x, w):
    """Edges of tets; of smoothed domains F."""
    if len(weight) == 0:
        elements.load(corner, x, w)
    else:
        smoothing.load_gradients(corner, weight, x, 3, w, 0)


@compiled
def _tet_group(t, q, s, g, with_blocks):
    h = q.numbers[0]
    corner = t.corner[GROUP * t.group_corner[g] : GROUP * t.group_corner[g + 1]]
    weight = t.weight[GROUP * t.group_weight[g] : GROUP * t.group_weight[g + 1]]
    shape = t.shape[SHAPE_ROWS * GROUP * g : SHAPE_ROWS * GROUP * (g + 1)]
    metric = s.metric[6 * GROUP * g : 6 * GROUP * (g + 1)]
    force = s.force[3 * GROUP * t.group_corner[g] : 3 * GROUP * t.group_corner[g + 1]]
    block = s.block[9 * GROUP * t.group_block[g] : 9 * GROUP * t.group_block[g + 1]]
    is_smoothed = len(weight) > 0
    w = np.empty((elements.SMOOTHED_ROWS if is_smoothed else elements.ROWS) * GROUP)
    _load(corner, weight, s.x, w)
    elements.stresses(t.group_model[g], t.constants[g], h, shape, metric, with_blocks, w)
    if is_smoothed:
        smoothing.store_forces(weight, w, 78, force)
    else:
        elements.store_forces(w, force)
    energy = 0.0
    for i in range(GROUP):
        energy += w[4224 + i]
        s.determinant[GROUP * g + i] = w[4288 + i]
    if with_blocks and is_smoothed:
        elements.store_smoothed_hessians(t.group_model[g], t.constants[g], h, shape, weight, w, block)
    elif with_blocks:
        elements.store_hessians(t.group_model[g], t.constants[g], h, shape, w, block)
    return energy


@compiled
def _start_task(t, s, g):
    if g < len(t.group_model):
        w = np.empty(9 * GROUP)
        corner = t.corner[GROUP * t.group_corner[g] : GROUP * t.group_corner[g + 1]]
        _load(corner, t.weight[GROUP * t.group_weight[g] : GROUP * t.group_weight[g + 1]], s.x0, w)
        shape = t.shape[SHAPE_ROWS * GROUP * g : SHAPE_ROWS * GROUP * (g + 1)]
        elements.start_metric(w, shape, s.metric[6 * GROUP * g : 6 * GROUP * (g + 1)])


@kernel(parallel_from=THREADED)
def start_elements(t, q, s, lo, hi):
    """Record the metric of each lane at the start of the step."""
    for k in prange(lo, hi):
        _start_task(t, s, q.task[k])


@compiled
def _evaluate_task(t, q, s, g, with_blocks):
    groups = len(t.group_model)
    if g < groups:
        s.task_energy[g] = _tet_group(t, q, s, g, with_blocks)
    else:
        lo, hi = t.spring_group[g - groups], t.spring_group[g - groups + 1]
        s.task_energy[g] = _spring_group(t, q, s, lo, hi, with_blocks)


@kernel(parallel_from=THREADED)
def evaluate_elements(t, q, s, lo, hi, with_blocks):
    """Write the records and the energy of tasks: groups of tets, then groups of springs."""
    for k in prange(lo, hi):
        _evaluate_task(t, q, s, q.task[k], with_blocks)


# gradient and incremental energy -----------------------------------------------------------------------------------


@compiled
def _leaf_gradient(t, q, s, leaf):
    """Inertia, drag and element forces, and the energy of inertia and drag."""
    leaf_start, mass, drag_of, force_start = t.leaf_start, t.mass, t.drag, t.force_start
    force_source, force, held, gradient = t.force_source, s.force, q.held, s.gradient
    position, target, x0, leaf_sum = s.x, s.target, s.x0, s.leaf_sum
    h = q.numbers[0]
    energy = 0.0
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        inertia, drag = mass[i] / (h * h), drag_of[i] / h
        fx, fy, fz = 0.0, 0.0, 0.0
        for k in range(force_start[i], force_start[i + 1]):
            at = 3 * force_source[k]
            fx, fy, fz = fx + force[at], fy + force[at + 1], fz + force[at + 2]
        at = 3 * i
        if held[i]:
            gradient[at], gradient[at + 1], gradient[at + 2] = 0.0, 0.0, 0.0
        else:
            for c in range(3):
                away, moved = position[at + c] - target[at + c], position[at + c] - x0[at + c]
                energy += 0.5 * inertia * away * away + 0.5 * drag * moved * moved
                f = fx if c == 0 else (fy if c == 1 else fz)
                gradient[at + c] = inertia * away + drag * moved - f
    leaf_sum[2 * leaf] = energy


@kernel(parallel_from=THREADED)
def gather_gradient(t, q, s, lo, hi):
    """Gradient of the incremental energy at each vertex, without contacts; the energy of inertia of each leaf."""
    for k in prange(lo, hi):
        _leaf_gradient(t, q, s, q.leaf[k])


# matrix --------------------------------------------------------------------------------------------------------------


@compiled
def _leaf_pairs(t, s, leaf):
    leaf_pair, pair_source_start, pair_source, block = t.leaf_pair, t.pair_source_start, t.pair_source, s.block
    pair_upper, value, pair_lower = t.pair_upper, s.value, t.pair_lower
    for pair in range(leaf_pair[leaf], leaf_pair[leaf + 1]):
        b0, b1, b2, b3, b4, b5, b6, b7, b8 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for e in range(pair_source_start[pair], pair_source_start[pair + 1]):
            source = pair_source[e]
            at = 9 * (source >> 1)
            b0, b4, b8 = b0 + block[at], b4 + block[at + 4], b8 + block[at + 8]
            if source & 1:
                b1, b2, b3 = b1 + block[at + 3], b2 + block[at + 6], b3 + block[at + 1]
                b5, b6, b7 = b5 + block[at + 7], b6 + block[at + 2], b7 + block[at + 5]
            else:
                b1, b2, b3 = b1 + block[at + 1], b2 + block[at + 2], b3 + block[at + 3]
                b5, b6, b7 = b5 + block[at + 5], b6 + block[at + 6], b7 + block[at + 7]
        at = 9 * pair_upper[pair]
        value[at], value[at + 1], value[at + 2] = b0, b3, b6
        value[at + 3], value[at + 4], value[at + 5] = b1, b4, b7
        value[at + 6], value[at + 7], value[at + 8] = b2, b5, b8
        at = 9 * pair_lower[pair]
        value[at], value[at + 1], value[at + 2] = b0, b1, b2
        value[at + 3], value[at + 4], value[at + 5] = b3, b4, b5
        value[at + 6], value[at + 7], value[at + 8] = b6, b7, b8


@kernel(parallel_from=THREADED)
def assemble_pairs(t, q, s, lo, hi):
    """Sum the blocks of each pair of vertices and write them at (i, j) and, transposed, at (j, i)."""
    for k in prange(lo, hi):
        _leaf_pairs(t, s, q.leaf[k])


@compiled
def _leaf_diagonal(t, q, s, leaf):
    leaf_start, mass, drag, row_start = t.leaf_start, t.mass, t.drag, t.row_start
    value, diagonal = s.value, s.diagonal
    h = q.numbers[0]
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        base = mass[i] / (h * h) + drag[i] / h
        xx, yy, zz, xy, xz, yz = base, base, base, 0.0, 0.0, 0.0
        for e in range(row_start[i], row_start[i + 1]):
            at = 9 * e
            xx, yy, zz = xx - value[at], yy - value[at + 4], zz - value[at + 8]
            xy -= 0.5 * (value[at + 1] + value[at + 3])
            xz -= 0.5 * (value[at + 2] + value[at + 6])
            yz -= 0.5 * (value[at + 5] + value[at + 7])
        at = 6 * i
        diagonal[at], diagonal[at + 1], diagonal[at + 2] = xx, yy, zz
        diagonal[at + 3], diagonal[at + 4], diagonal[at + 5] = xy, xz, yz


@kernel(parallel_from=THREADED)
def assemble_diagonal(t, q, s, lo, hi):
    """Inertia and drag minus the sum of the row, six numbers: 00, 11, 22, 01, 02, 12."""
    for k in prange(lo, hi):
        _leaf_diagonal(t, q, s, q.leaf[k])


@compiled
def _leaf_inverse(t, q, s, leaf):
    leaf_start, inverse, held = t.leaf_start, s.inverse, q.held
    for i in range(leaf_start[leaf], leaf_start[leaf + 1]):
        at = 6 * i
        xx, yy, zz = inverse[at], inverse[at + 1], inverse[at + 2]
        xy, xz, yz = inverse[at + 3], inverse[at + 4], inverse[at + 5]
        a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        scale = 0.0 if held[i] else 1.0 / (xx * a + xy * b + xz * c)
        inverse[at], inverse[at + 1], inverse[at + 2] = (
            scale * a, scale * (xx * zz - xz * xz), scale * (xx * yy - xy * xy),
        )  # fmt: skip
        inverse[at + 3], inverse[at + 4], inverse[at + 5] = scale * b, scale * c, scale * (xy * xz - xx * yz)


@kernel(parallel_from=THREADED)
def invert_diagonals(t, q, s, lo, hi):
    """Invert the diagonal blocks by cofactors; those of held vertices become 0."""
    for k in prange(lo, hi):
        _leaf_inverse(t, q, s, q.leaf[k])
