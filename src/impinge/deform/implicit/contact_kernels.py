"""Contact and friction terms of the incremental energy of an island, for ``newton_kernels``.

A contact is linear in the displacement dx = x - x0 of a few vertices, its *entries*:

    depth  d = offset + Σ g·dx              g  normal weight of an entry
    slip   s = drift + Σ B dx               B  3x3 slip block of an entry; only its part across the normal counts

Normal    p = k d where d > 0, else 0: the energy k d² / 2.
Friction  The trial force f = f0 + kt s, f0 the friction of the step before, is returned to the limit L = μ p along
          itself: |f|² / (2 kt) below the limit, L (|f| - L / 2) / kt above. Sticking contacts hold a load without
          creep, sliding ones obey Coulomb's law. L follows the normal forces whenever Newton's method has
          converged with the limits before (``update_limits``): between, the energy is convex in the contacts.
Hessian   k g gᵀ and Bᵀ (a t tᵀ + b u uᵀ) B with tangents t along f and u: a = b = kt where the contact sticks; b =
          kt L / |f| and a = 0 where it slides. Steps with a = 0 jump over the stiff range where a contact sticks, and
          back; after ``EXACT`` Newton steps a = b, which bounds the energy from above: steps then fall and converge.

``q.c_*`` are arrays of the step, ``s.c_*`` results of the last evaluation.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled

EXACT = 4
"""Newton steps with the exact curvature of friction."""
CHANGE = 0.02
"""Change of the limits of friction, relative to their sum, that needs no other round."""


@compiled
def _move(q, c, vector, start):
    """Σ g·y and Σ B y over the entries, y = ``vector`` - ``start``."""
    along, sx, sy, sz = 0.0, 0.0, 0.0, 0.0
    for e in range(q.c_start[c], q.c_start[c + 1]):
        at, w, k = 3 * q.c_vertex[e], 3 * e, 9 * e
        x, y, z = vector[at] - start[at], vector[at + 1] - start[at + 1], vector[at + 2] - start[at + 2]
        along += q.c_weight[w] * x + q.c_weight[w + 1] * y + q.c_weight[w + 2] * z
        sx += q.c_block[k] * x + q.c_block[k + 1] * y + q.c_block[k + 2] * z
        sy += q.c_block[k + 3] * x + q.c_block[k + 4] * y + q.c_block[k + 5] * z
        sz += q.c_block[k + 6] * x + q.c_block[k + 7] * y + q.c_block[k + 8] * z
    return along, sx, sy, sz


@compiled
def _add(q, c, p, fx, fy, fz, out, sign):
    """Add sign (g p + Bᵀ f) to a vector of the free vertices."""
    for e in range(q.c_start[c], q.c_start[c + 1]):
        i = q.c_vertex[e]
        if q.held[i]:
            continue
        at, w, k = 3 * i, 3 * e, 9 * e
        out[at] += sign * (q.c_weight[w] * p + q.c_block[k] * fx + q.c_block[k + 3] * fy + q.c_block[k + 6] * fz)
        out[at + 1] += sign * (
            q.c_weight[w + 1] * p + q.c_block[k + 1] * fx + q.c_block[k + 4] * fy + q.c_block[k + 7] * fz
        )
        out[at + 2] += sign * (
            q.c_weight[w + 2] * p + q.c_block[k + 2] * fx + q.c_block[k + 5] * fy + q.c_block[k + 8] * fz
        )


@compiled
def evaluate_contacts(q, s, lo, hi, steps):
    """Add contact forces to the gradient, store forces and second derivatives; returns the energy.

    ``steps`` is the number of Newton steps done.
    """
    energy = 0.0
    for c in range(lo, hi):
        k, kt, n = q.c_stiffness[c], q.c_stick[c], 3 * c
        along, sx, sy, sz = _move(q, c, s.x, s.x0)
        depth = q.c_offset[c] + along
        p, s.c_active[c] = 0.0, 0.0
        if depth > 0.0:
            p, s.c_active[c] = k * depth, k
            energy += 0.5 * k * depth * depth
        s.c_normal_force[c] = p
        fx, fy, fz, curvature, along = 0.0, 0.0, 0.0, 0.0, 0.0
        limit = s.c_limit[c]
        if limit > 0.0 and kt > 0.0:
            nx, ny, nz = q.c_normal[n], q.c_normal[n + 1], q.c_normal[n + 2]
            fx = q.c_before[n] + kt * (q.c_drift[n] + sx)
            fy = q.c_before[n + 1] + kt * (q.c_drift[n + 1] + sy)
            fz = q.c_before[n + 2] + kt * (q.c_drift[n + 2] + sz)
            across = fx * nx + fy * ny + fz * nz
            fx, fy, fz = fx - across * nx, fy - across * ny, fz - across * nz
            size = math.sqrt(fx * fx + fy * fy + fz * fz)
            if size > limit:
                share = limit / size
                energy += limit * (size - 0.5 * limit) / kt
                fx, fy, fz, curvature = share * fx, share * fy, share * fz, share * kt
                along = curvature if steps > EXACT else 0.0
            else:
                energy += 0.5 * size * size / kt
                curvature, along = kt, kt
        s.c_friction_force[n], s.c_friction_force[n + 1], s.c_friction_force[n + 2] = fx, fy, fz
        s.c_across[c], s.c_along[c] = curvature, along
        if p > 0.0 or fx != 0.0 or fy != 0.0 or fz != 0.0:
            _add(q, c, p, fx, fy, fz, s.gradient, 1.0)
    return energy


@compiled
def update_limits(q, s, lo, hi):
    """Set the limits of friction by the present normal forces; False if they change by less than ``CHANGE``."""
    total, change = 0.0, 0.0
    for c in range(lo, hi):
        limit = q.c_friction[c] * s.c_normal_force[c]
        total, change = total + limit, change + abs(limit - s.c_limit[c])
    if change <= CHANGE * total:
        return False
    for c in range(lo, hi):
        s.c_limit[c] = q.c_friction[c] * s.c_normal_force[c]
    return True


@compiled
def subtract_contacts(q, s, lo, hi):
    """Subtract the forces of the last evaluation from the residual r."""
    for c in range(lo, hi):
        n = 3 * c
        _add(
            q, c, s.c_normal_force[c], s.c_friction_force[n], s.c_friction_force[n + 1], s.c_friction_force[n + 2], s.r,
            -1.0,
        )  # fmt: skip


@compiled
def multiply_contacts(q, s, lo, hi):
    """Add the second derivatives times p to q; returns p·H p."""
    total = 0.0
    for c in range(lo, hi):
        k, across = s.c_active[c], s.c_across[c]
        if k == 0.0 and across == 0.0:
            continue
        along, sx, sy, sz = 0.0, 0.0, 0.0, 0.0
        for e in range(q.c_start[c], q.c_start[c + 1]):
            at, w, m = 3 * q.c_vertex[e], 3 * e, 9 * e
            x, y, z = s.p[at], s.p[at + 1], s.p[at + 2]
            along += q.c_weight[w] * x + q.c_weight[w + 1] * y + q.c_weight[w + 2] * z
            if across > 0.0:
                sx += q.c_block[m] * x + q.c_block[m + 1] * y + q.c_block[m + 2] * z
                sy += q.c_block[m + 3] * x + q.c_block[m + 4] * y + q.c_block[m + 5] * z
                sz += q.c_block[m + 6] * x + q.c_block[m + 7] * y + q.c_block[m + 8] * z
        total += k * along * along
        if across > 0.0:
            nx, ny, nz = q.c_normal[3 * c], q.c_normal[3 * c + 1], q.c_normal[3 * c + 2]
            out = nx * sx + ny * sy + nz * sz
            sx, sy, sz = sx - out * nx, sy - out * ny, sz - out * nz
            tx, ty, tz = _tangent(q, s, c, False)
            slip = tx * sx + ty * sy + tz * sz
            less = across - s.c_along[c]
            total += across * (sx * sx + sy * sy + sz * sz) - less * slip * slip
            less *= slip
            _add(q, c, k * along, across * sx - less * tx, across * sy - less * ty, across * sz - less * tz, s.q, 1.0)
        else:
            for e in range(q.c_start[c], q.c_start[c + 1]):
                i = q.c_vertex[e]
                if not q.held[i]:
                    for r in range(3):
                        s.q[3 * i + r] += k * along * q.c_weight[3 * e + r]
    return total


@compiled
def _tangent(q, s, c, second):
    """The unit vector along the friction of a contact, any tangent if it has none; or the other tangent."""
    n = 3 * c
    x, y, z = q.c_normal[n], q.c_normal[n + 1], q.c_normal[n + 2]
    tx, ty, tz = s.c_friction_force[n], s.c_friction_force[n + 1], s.c_friction_force[n + 2]
    size = math.sqrt(tx * tx + ty * ty + tz * tz)
    if not size > 0.0:
        if abs(x) <= abs(y) and abs(x) <= abs(z):
            tx, ty, tz = 0.0, z, -y
        elif abs(y) <= abs(z):
            tx, ty, tz = -z, 0.0, x
        else:
            tx, ty, tz = y, -x, 0.0
        size = math.sqrt(tx * tx + ty * ty + tz * tz)
    tx, ty, tz = tx / size, ty / size, tz / size
    if second:
        tx, ty, tz = y * tz - z * ty, z * tx - x * tz, x * ty - y * tx
    return tx, ty, tz


@compiled
def _row(q, s, c, r, e):
    """Stiffness and weight of the row ``r`` of a contact at an entry: 0 normal, 1 and 2 tangents."""
    if r == 0:
        return s.c_active[c], q.c_weight[3 * e], q.c_weight[3 * e + 1], q.c_weight[3 * e + 2]
    tx, ty, tz = _tangent(q, s, c, r == 2)
    m = 9 * e
    return (
        s.c_along[c] if r == 1 else s.c_across[c],
        tx * q.c_block[m] + ty * q.c_block[m + 3] + tz * q.c_block[m + 6],
        tx * q.c_block[m + 1] + ty * q.c_block[m + 4] + tz * q.c_block[m + 7],
        tx * q.c_block[m + 2] + ty * q.c_block[m + 5] + tz * q.c_block[m + 8],
    )


@compiled
def add_contact_diagonals(q, s, lo, hi):
    """Add k w wᵀ to the blocks that will be inverted; the matrix itself has contacts apart."""
    for c in range(lo, hi):
        if s.c_active[c] == 0.0 and s.c_across[c] == 0.0:
            continue
        for e in range(q.c_start[c], q.c_start[c + 1]):
            at = 6 * q.c_vertex[e]
            for r in range(3):
                k, x, y, z = _row(q, s, c, r, e)
                if k > 0.0:
                    s.inverse[at] += k * x * x
                    s.inverse[at + 1] += k * y * y
                    s.inverse[at + 2] += k * z * z
                    s.inverse[at + 3] += k * x * y
                    s.inverse[at + 4] += k * x * z
                    s.inverse[at + 5] += k * y * z


@compiled
def add_contact_modes(q, s, island, lo, hi):
    """Add k (G P)ᵀ (G P) of the active rows to the coarse matrix, each of which has few vertices."""
    first = q.cluster_start[island]
    base, size = q.coarse_start[island], 6 * (q.cluster_start[island + 1] - first)
    mode = s.mode[6 * first : 6 * q.cluster_start[island + 1]]
    for c in range(lo, hi):
        if s.c_active[c] == 0.0 and s.c_across[c] == 0.0:
            continue
        begin, end = q.c_start[c], q.c_start[c + 1]
        for r in range(3):
            k = 0.0
            for e in range(begin, end):
                at = 6 * (q.vertex_cluster[q.c_vertex[e]] - first)
                for j in range(6):
                    mode[at + j] = 0.0
            for e in range(begin, end):
                i = q.c_vertex[e]
                if not q.held[i]:
                    k, u, v, w = _row(q, s, c, r, e)
                    x, y, z = s.arm[3 * i], s.arm[3 * i + 1], s.arm[3 * i + 2]
                    at = 6 * (q.vertex_cluster[i] - first)
                    mode[at], mode[at + 1], mode[at + 2] = mode[at] + u, mode[at + 1] + v, mode[at + 2] + w
                    mode[at + 3] += y * w - z * v
                    mode[at + 4] += z * u - x * w
                    mode[at + 5] += x * v - y * u
            if k == 0.0:
                continue
            # Each cluster once: those of entries that no later entry shares.
            for e in range(begin, end):
                a = q.vertex_cluster[q.c_vertex[e]] - first
                if _appears(q, e + 1, end, a + first):
                    continue
                for f in range(begin, end):
                    b = q.vertex_cluster[q.c_vertex[f]] - first
                    if b < a or _appears(q, f + 1, end, b + first):
                        continue
                    for i in range(6):
                        for j in range(6):
                            s.coarse[base + (6 * a + i) * size + 6 * b + j] += k * mode[6 * a + i] * mode[6 * b + j]


@compiled
def _appears(q, lo, hi, cluster):
    found = False
    for e in range(lo, hi):
        found = found or q.vertex_cluster[q.c_vertex[e]] == cluster
    return found
