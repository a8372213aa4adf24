"""Incremental energies of tets in groups: value, gradient, and positive-semidefinite Hessian, for ``newton_kernels``.

A step from x0 to x takes the time h. Per rest volume, a tet with the deformation gradient F has the energy
Ψ(F) + (φ/2 tr(ΔE)² + ψ ΔE:ΔE) / h,  ΔE = (Fᵀ F - F0ᵀ F0) / 2: elasticity, and the dissipation of the viscous stress
φ tr(ΔE/h) I + 2 ψ ΔE/h over the step.

Hessian. Ψ depends on the singular values s of F = U diag(s) Vᵀ alone (V: eigenvectors of Rᵀ F, U = R V). For changes
dF' = Uᵀ dF V its second derivative falls apart: a 3x3 matrix A = ∂²Ψ/∂s∂s couples the diagonal; dF'_ij and dF'_ji
couple with the eigenvalues f = (Ψ_i - Ψ_j) / (s_i - s_j) of their sum and t = (Ψ_i + Ψ_j) / (s_i + s_j) of their
difference. Negative eigenvalues become 0. With the gradients g' = Vᵀ g of corner weights, the block of corners a, b is
volume · U k Uᵀ,  k_ij = A_ij g'a_i g'b_j + q_ij g'a_j g'b_i,  k_ii = A_ii g'a_i g'b_i + Σ_j p_ij g'a_j g'b_j,
p = (f + t) / 2, q = (f - t) / 2. The viscous part adds its Gauss-Newton matrix, which has the same form.

Groups have 64 lanes as in ``fem_kernels``; scratch rows:
``0`` edges, ``9`` F, ``18`` R, then U, ``27`` Rᵀ F, then s, ``33`` V, ``42`` A, ``48`` p, ``51`` q, ``54`` ψ s² / h,
``57`` P, then Vᵀ g of two corners, ``66`` energy density, ``67`` det F, ``68`` trust in the rotation, ``69`` one block,
``78`` forces, ``87`` Vᵀ g of the four corners. Rows 42 to 56 are multiplied by the volume.

Smoothed domains (``smoothing``) are tets with unit edges at rest: their edges now are F. ``store_smoothed_hessians``
takes the second derivatives C_kl for edges k, l and spreads them to corners: the block of corners a, b is
Σ C_kl b_ak b_bl. Its scratch rows: ``99`` C_11, C_12, C_13, C_22, C_23, C_33, ``0`` Σ_k b_ak C_kl of one corner for the
three l, ``27`` one block.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted
from impinge.deform import matrices_kernels as mat
from impinge.deform.fem_kernels import GREEN, GROUP, STABLE_NEO_HOOKEAN, gradient, green_strain, hooke, neo_hookean
from impinge.deform.implicit.principal_kernels import eigenvectors, positive_part

ROWS = 99
SMOOTHED_ROWS = 153
EDGES = 6
"""Pairs of corners: 01, 02, 03, 12, 13, 23."""
LEAST_SUM = 0.05
"""Lower bound of the sum of two singular values, in the corotated model's resistance to rotations."""


@contracted
def _get9(w, row, i):
    j = 64 * row + i
    return (
        w[j], w[j + 64], w[j + 128], w[j + 192], w[j + 256], w[j + 320], w[j + 384], w[j + 448], w[j + 512],
    )  # fmt: skip


@contracted
def _get6(w, row, i):
    j = 64 * row + i
    return w[j], w[j + 64], w[j + 128], w[j + 192], w[j + 256], w[j + 320]


@contracted
def _get3(w, row, i):
    j = 64 * row + i
    return w[j], w[j + 64], w[j + 128]


@contracted
def _put9(w, row, i, m):
    j = 64 * row + i
    w[j], w[j + 64], w[j + 128] = m[0], m[1], m[2]
    w[j + 192], w[j + 256], w[j + 320] = m[3], m[4], m[5]
    w[j + 384], w[j + 448], w[j + 512] = m[6], m[7], m[8]


@contracted
def _put6(w, row, i, m):
    j = 64 * row + i
    w[j], w[j + 64], w[j + 128], w[j + 192], w[j + 256], w[j + 320] = m


@contracted
def _put3(w, row, i, x, y, z):
    j = 64 * row + i
    w[j], w[j + 64], w[j + 128] = x, y, z


@compiled
def load(corner, x, w):
    """Edges from corner 0; ``corner`` has the vertices of a group, ``x`` flat positions."""
    for i in range(GROUP):
        n0, n1, n2, n3 = 3 * corner[i], 3 * corner[64 + i], 3 * corner[128 + i], 3 * corner[192 + i]
        for c in range(3):
            origin = x[n0 + c]
            j = 192 * c + i
            w[j] = x[n1 + c] - origin
            w[j + 64] = x[n2 + c] - origin
            w[j + 128] = x[n3 + c] - origin


@compiled
def start_metric(w, shape, metric):
    """Fᵀ F of each lane at the start of the step: six rows."""
    for i in range(GROUP):
        f = gradient(w, 0, shape, i)
        _put6(metric, 0, i, mat.products(f, f))


# energy and stress -----------------------------------------------------------------------------------------------


@contracted
def _put_stress(w, metric, i, f, p, energy, determinant, phi, psi):
    """Add the viscous part to stress and energy; ``phi`` and ``psi`` are viscosities divided by the step."""
    c, c0 = mat.products(f, f), _get6(metric, 0, i)
    e = (
        0.5 * (c[0] - c0[0]), 0.5 * (c[1] - c0[1]), 0.5 * (c[2] - c0[2]),
        0.5 * (c[3] - c0[3]), 0.5 * (c[4] - c0[4]), 0.5 * (c[5] - c0[5]),
    )  # fmt: skip
    trace = e[0] + e[1] + e[2]
    square = e[0] * e[0] + e[1] * e[1] + e[2] * e[2] + 2.0 * (e[3] * e[3] + e[4] * e[4] + e[5] * e[5])
    _put9(w, 57, i, mat.combined(1.0, p, 1.0, mat.times_symmetric(f, hooke(e, phi, psi))))
    w[4224 + i] = energy + 0.5 * phi * trace * trace + psi * square
    w[4288 + i] = determinant


@contracted
def _green(w, metric, i, lam, mu, phi, psi, barrier, barrier_from):
    f = _get9(w, 9, i)
    e = green_strain(f)
    trace = e[0] + e[1] + e[2]
    square = e[0] * e[0] + e[1] * e[1] + e[2] * e[2] + 2.0 * (e[3] * e[3] + e[4] * e[4] + e[5] * e[5])
    c = mat.cofactors(f)
    j = mat.determinant(f, c)
    below = min(j - barrier_from, 0.0)
    p = mat.combined(1.0, mat.times_symmetric(f, hooke(e, lam, mu)), barrier * below, c)
    energy = 0.5 * lam * trace * trace + mu * square + 0.5 * barrier * below * below
    _put_stress(w, metric, i, f, p, energy, j, phi, psi)


@contracted
def _neo_hookean(w, metric, i, lam, mu, phi, psi):
    f = _get9(w, 9, i)
    c = mat.cofactors(f)
    j = mat.determinant(f, c)
    energy, linear, volumetric = neo_hookean(mat.sum_of_squares(f), j, lam, mu)
    _put_stress(w, metric, i, f, mat.combined(linear, f, volumetric, c), energy, j, phi, psi)


@contracted
def _corotated(w, metric, i, lam, mu, phi, psi):
    f, r = _get9(w, 9, i), _get9(w, 18, i)
    u = mat.combined(1.0, f, -1.0, r)
    longer = mat.dot(u, r)
    energy = mu * mat.sum_of_squares(u) + 0.5 * lam * longer * longer
    p = mat.combined(2.0 * mu, u, lam * longer, r)
    _put_stress(w, metric, i, f, p, energy, mat.determinant(f, mat.cofactors(f)), phi, psi)


@compiled
def _rotations(w):
    for i in range(GROUP):
        f = _get9(w, 9, i)
        r, t, d = mat.rotation(f, mat.cofactors(f))
        _put9(w, 18, i, r)
        w[4352 + i] = d - mat.AMBIGUOUS * t * t * t
    for i in range(GROUP):
        if not w[4352 + i] > 0.0:
            _put9(w, 18, i, mat.nearest_rotation(_get9(w, 9, i)))


@compiled
def _forces(w, shape):
    """Forces on corners 1 to 3: row 3 c + k has component c of corner k + 1; energies times volume."""
    for i in range(GROUP):
        volume = -shape[576 + i]
        for c in range(3):
            j = 64 * (57 + 3 * c) + i
            p0, p1, p2 = volume * w[j], volume * w[j + 64], volume * w[j + 128]
            j = 64 * (78 + 3 * c) + i
            w[j] = p0 * shape[i] + p1 * shape[64 + i] + p2 * shape[128 + i]
            w[j + 64] = p0 * shape[192 + i] + p1 * shape[256 + i] + p2 * shape[320 + i]
            w[j + 128] = p0 * shape[384 + i] + p1 * shape[448 + i] + p2 * shape[512 + i]
        w[4224 + i] *= -volume


@compiled
def stresses(model, constants, h, shape, metric, with_rotations, w):
    """Energy, forces and det F of the lanes of a loaded group, and R for the Hessian or the corotated model."""
    lam, mu, phi, psi = constants[0], constants[1], constants[2] / h, constants[3] / h
    for i in range(GROUP):
        _put9(w, 9, i, gradient(w, 0, shape, i))
    if model == GREEN:
        barrier, barrier_from = constants[4], constants[5]
        for i in range(GROUP):
            _green(w, metric, i, lam, mu, phi, psi, barrier, barrier_from)
        if with_rotations:
            _rotations(w)
    elif model == STABLE_NEO_HOOKEAN:
        for i in range(GROUP):
            _neo_hookean(w, metric, i, lam, mu, phi, psi)
        if with_rotations:
            _rotations(w)
    else:
        _rotations(w)
        for i in range(GROUP):
            _corotated(w, metric, i, lam, mu, phi, psi)
    _forces(w, shape)


@compiled
def store_forces(w, force):
    """Copy forces to 12 numbers of each tet: four corners, of which the first has minus the sum of the others."""
    for i in range(GROUP):
        for c in range(3):
            j = 64 * (78 + 3 * c) + i
            f1, f2, f3 = w[j], w[j + 64], w[j + 128]
            force[12 * i + c] = -(f1 + f2 + f3)
            force[12 * i + 3 + c] = f1
            force[12 * i + 6 + c] = f2
            force[12 * i + 9 + c] = f3


# Hessian -----------------------------------------------------------------------------------------------------------


@compiled
def _principal_frames(w):
    """S = Rᵀ F to its eigenvalues and eigenvectors V, and R to U = R V."""
    for i in range(GROUP):
        f, r = _get9(w, 9, i), _get9(w, 18, i)
        s, v = eigenvectors(mat.products(r, f))
        _put3(w, 27, i, s[0], s[1], s[2])
        _put9(w, 33, i, v)
    for i in range(GROUP):
        r, v = _get9(w, 18, i), _get9(w, 33, i)
        _put9(w, 18, i, (
            r[0] * v[0] + r[1] * v[3] + r[2] * v[6], r[0] * v[1] + r[1] * v[4] + r[2] * v[7],
            r[0] * v[2] + r[1] * v[5] + r[2] * v[8],
            r[3] * v[0] + r[4] * v[3] + r[5] * v[6], r[3] * v[1] + r[4] * v[4] + r[5] * v[7],
            r[3] * v[2] + r[4] * v[5] + r[5] * v[8],
            r[6] * v[0] + r[7] * v[3] + r[8] * v[6], r[6] * v[1] + r[7] * v[4] + r[8] * v[7],
            r[6] * v[2] + r[7] * v[5] + r[8] * v[8],
        ))  # fmt: skip


@contracted
def _put_pairs(w, i, f0, f1, f2, t0, t1, t2):
    """Eigenvalues of the pairs 12, 02, 01, clamped."""
    f0, f1, f2 = max(f0, 0.0), max(f1, 0.0), max(f2, 0.0)
    t0, t1, t2 = max(t0, 0.0), max(t1, 0.0), max(t2, 0.0)
    _put3(w, 48, i, 0.5 * (f0 + t0), 0.5 * (f1 + t1), 0.5 * (f2 + t2))
    _put3(w, 51, i, 0.5 * (f0 - t0), 0.5 * (f1 - t1), 0.5 * (f2 - t2))


@compiled
def _green_coefficients(w, lam, mu, barrier, barrier_from):
    for i in range(GROUP):
        x, y, z = _get3(w, 27, i)
        below = x * y * z - barrier_from
        push = barrier * below if below < 0.0 else 0.0
        k = barrier if below < 0.0 else 0.0
        base = lam * 0.5 * (x * x + y * y + z * z - 3.0) - mu
        cx, cy, cz = y * z, x * z, x * y
        _put_pairs(
            w, i, base + mu * (y * y + y * z + z * z) - push * x, base + mu * (x * x + x * z + z * z) - push * y,
            base + mu * (x * x + x * y + y * y) - push * z, base + mu * (y * y - y * z + z * z) + push * x,
            base + mu * (x * x - x * z + z * z) + push * y, base + mu * (x * x - x * y + y * y) + push * z,
        )  # fmt: skip
        _put6(w, 42, i, (
            base + (lam + 3.0 * mu) * x * x + k * cx * cx, base + (lam + 3.0 * mu) * y * y + k * cy * cy,
            base + (lam + 3.0 * mu) * z * z + k * cz * cz,
            lam * x * y + k * cx * cy + push * z, lam * x * z + k * cx * cz + push * y,
            lam * y * z + k * cy * cz + push * x,
        ))  # fmt: skip


@compiled
def _neo_hookean_coefficients(w, lam, mu):
    for i in range(GROUP):
        x, y, z = _get3(w, 27, i)
        square = x * x + y * y + z * z
        _, linear, volumetric = neo_hookean(square, x * y * z, lam, mu)
        bulk, shear = lam + 5.0 / 6.0 * mu, 4.0 / 3.0 * mu
        softer = 2.0 * shear / ((square + 1.0) * (square + 1.0))
        cx, cy, cz = y * z, x * z, x * y
        _put_pairs(
            w, i, linear - volumetric * x, linear - volumetric * y, linear - volumetric * z,
            linear + volumetric * x, linear + volumetric * y, linear + volumetric * z,
        )  # fmt: skip
        _put6(w, 42, i, (
            linear + softer * x * x + bulk * cx * cx, linear + softer * y * y + bulk * cy * cy,
            linear + softer * z * z + bulk * cz * cz,
            softer * x * y + bulk * cx * cy + volumetric * z, softer * x * z + bulk * cx * cz + volumetric * y,
            softer * y * z + bulk * cy * cz + volumetric * x,
        ))  # fmt: skip


@compiled
def _corotated_coefficients(w, lam, mu):
    for i in range(GROUP):
        x, y, z = _get3(w, 27, i)
        turn = 2.0 * (lam * (x + y + z - 3.0) - 2.0 * mu)
        m = 2.0 * mu
        _put_pairs(
            w, i, m, m, m, m + turn / max(y + z, LEAST_SUM), m + turn / max(x + z, LEAST_SUM),
            m + turn / max(x + y, LEAST_SUM),
        )  # fmt: skip
        _put6(w, 42, i, (lam + m, lam + m, lam + m, lam, lam, lam))


@compiled
def _project(w):
    """Replace A by its positive part, in groups where a leading minor of any lane is not positive."""
    for i in range(GROUP):
        a = _get6(w, 42, i)
        second = a[0] * a[1] - a[3] * a[3]
        third = a[2] * second - a[0] * a[5] * a[5] - a[1] * a[4] * a[4] + 2.0 * a[3] * a[4] * a[5]
        w[4352 + i] = min(min(a[0], second), third)
    least = math.inf
    for i in range(GROUP):
        least = min(least, w[4352 + i])
    if not least > 0.0:
        for i in range(GROUP):
            _put6(w, 42, i, positive_part(_get6(w, 42, i)))


@compiled
def _add_viscosity(w, phi, psi):
    for i in range(GROUP):
        x, y, z = _get3(w, 27, i)
        a = _get6(w, 42, i)
        d = phi + 2.0 * psi
        _put6(w, 42, i, (
            a[0] + d * x * x, a[1] + d * y * y, a[2] + d * z * z, a[3] + phi * x * y, a[4] + phi * x * z,
            a[5] + phi * y * z,
        ))  # fmt: skip
        q = _get3(w, 51, i)
        _put3(w, 51, i, q[0] + psi * y * z, q[1] + psi * x * z, q[2] + psi * x * y)
        _put3(w, 54, i, psi * x * x, psi * y * y, psi * z * z)


@compiled
def _weight_gradients(w, shape):
    """Vᵀ g of the four corners."""
    for i in range(GROUP):
        v = _get9(w, 33, i)
        for corner in range(1, 4):
            j = 192 * (corner - 1) + i
            x, y, z = shape[j], shape[j + 64], shape[j + 128]
            j = 64 * (87 + 3 * corner) + i
            w[j] = x * v[0] + y * v[3] + z * v[6]
            w[j + 64] = x * v[1] + y * v[4] + z * v[7]
            w[j + 128] = x * v[2] + y * v[5] + z * v[8]
    for i in range(192):
        w[5568 + i] = -(w[5760 + i] + w[5952 + i] + w[6144 + i])


@compiled
def _prepare_hessians(model, constants, h, shape, w):
    """Everything of the second derivatives that corners have in common, times the volume, and their Vᵀ g."""
    lam, mu = constants[0], constants[1]
    _principal_frames(w)
    if model == GREEN:
        _green_coefficients(w, lam, mu, constants[4], constants[5])
    elif model == STABLE_NEO_HOOKEAN:
        _neo_hookean_coefficients(w, lam, mu)
    else:
        _corotated_coefficients(w, lam, mu)
    _project(w)
    _add_viscosity(w, constants[2] / h, constants[3] / h)
    for row in range(42, 57):
        for i in range(GROUP):
            w[64 * row + i] *= shape[576 + i]
    _weight_gradients(w, shape)


@contracted
def _put_block(w, i):
    """Write U k Uᵀ to nine rows from 69; Vᵀ g of both corners are in rows 57 and 60."""
    g, h = _get3(w, 57, i), _get3(w, 60, i)
    s, p, q, e, u = _get6(w, 42, i), _get3(w, 48, i), _get3(w, 51, i), _get3(w, 54, i), _get9(w, 18, i)
    gx, gy, gz = g[0] * h[0], g[1] * h[1], g[2] * h[2]
    k = (
        s[0] * gx + (p[2] + e[0]) * gy + (p[1] + e[0]) * gz,
        s[3] * g[0] * h[1] + q[2] * g[1] * h[0],
        s[4] * g[0] * h[2] + q[1] * g[2] * h[0],
        s[3] * g[1] * h[0] + q[2] * g[0] * h[1],
        s[1] * gy + (p[2] + e[1]) * gx + (p[0] + e[1]) * gz,
        s[5] * g[1] * h[2] + q[0] * g[2] * h[1],
        s[4] * g[2] * h[0] + q[1] * g[0] * h[2],
        s[5] * g[2] * h[1] + q[0] * g[1] * h[2],
        s[2] * gz + (p[1] + e[2]) * gx + (p[0] + e[2]) * gy,
    )
    for c in range(3):
        u0, u1, u2 = u[3 * c], u[3 * c + 1], u[3 * c + 2]
        m0 = u0 * k[0] + u1 * k[3] + u2 * k[6]
        m1 = u0 * k[1] + u1 * k[4] + u2 * k[7]
        m2 = u0 * k[2] + u1 * k[5] + u2 * k[8]
        j = 64 * (69 + 3 * c) + i
        w[j] = m0 * u[0] + m1 * u[1] + m2 * u[2]
        w[j + 64] = m0 * u[3] + m1 * u[4] + m2 * u[5]
        w[j + 128] = m0 * u[6] + m1 * u[7] + m2 * u[8]


@compiled
def _put_blocks(w, corner, other):
    """Write the blocks of two corners to nine rows from 69.

    Their Vᵀ g are copied to rows that are known when this is compiled: otherwise LLVM does not vectorise the loop.
    """
    for i in range(192):
        w[3648 + i], w[3840 + i] = w[64 * (87 + 3 * corner) + i], w[64 * (87 + 3 * other) + i]
    for i in range(GROUP):
        _put_block(w, i)


@compiled
def _store_block(w, edge, corner, other, block):
    _put_blocks(w, corner, other)
    for i in range(GROUP):
        for k in range(9):
            block[54 * i + 9 * edge + k] = w[64 * (69 + k) + i]


@compiled
def store_hessians(model, constants, h, shape, w, block):
    """Write six blocks of each tet after ``stresses``: the second derivatives of its energy for 01, 02, 03, 12, 13, 23.

    The other blocks follow: they are transposed, and each row of blocks sums to zero.
    """
    _prepare_hessians(model, constants, h, shape, w)
    edge = 0
    for corner in range(3):
        for other in range(corner + 1, 4):
            _store_block(w, edge, corner, other, block)
            edge += 1


# smoothed domains ----------------------------------------------------------------------------------------------------


@compiled
def _spread_to_corner(weight, corner, w):
    """D_l = Σ_k b_k C_kl of one corner: entry r, c of D_l in row 9 l + 3 r + c. C_lk is C_kl transposed."""
    for r in range(3):
        for c in range(3):
            here, across = 64 * (99 + 3 * r + c), 64 * (99 + 3 * c + r)
            for i in range(GROUP):
                j = 192 * corner + i
                x, y, z = weight[j], weight[j + 64], weight[j + 128]
                at = 64 * (3 * r + c) + i
                w[at] = x * w[here + i] + y * w[across + 576 + i] + z * w[across + 1152 + i]
                w[at + 576] = x * w[here + 576 + i] + y * w[here + 1728 + i] + z * w[across + 2304 + i]
                w[at + 1152] = x * w[here + 1152 + i] + y * w[here + 2304 + i] + z * w[here + 2880 + i]


@contracted
def _put_sum(w, i, x, y, z):
    """Write x D_1 + y D_2 + z D_3 to rows 27 to 35."""
    for k in range(9):
        j = 64 * k + i
        w[j + 1728] = x * w[j] + y * w[j + 576] + z * w[j + 1152]


@compiled
def _store_pair(weight, other, w, block, at, stride):
    """Write Σ_l D_l b_l of another corner to ``block`` at ``at`` plus ``stride`` for each lane."""
    for i in range(GROUP):
        j = 192 * other + i
        _put_sum(w, i, weight[j], weight[j + 64], weight[j + 128])
    for i in range(GROUP):
        for k in range(9):
            block[at + stride * i + k] = w[1728 + 64 * k + i]


@compiled
def store_smoothed_hessians(model, constants, h, shape, weight, w, block):
    """Write the blocks of all pairs of corners of each domain after ``stresses``: 01, 02, ..., 12, 13, ..."""
    _prepare_hessians(model, constants, h, shape, w)
    row = 99
    for k in range(1, 4):
        for other in range(k, 4):
            _put_blocks(w, k, other)
            for i in range(9 * GROUP):
                w[64 * row + i] = w[4416 + i]
            row += 9
    count = len(weight) // (3 * GROUP)
    stride, at = 9 * (count * (count - 1) // 2), 0
    for corner in range(count - 1):
        _spread_to_corner(weight, corner, w)
        for other in range(corner + 1, count):
            _store_pair(weight, other, w, block, at, stride)
            at += 9
