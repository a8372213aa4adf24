"""Contact and friction terms of the incremental energy of an island, for ``newton_kernels`` and ``model_kernels``.

A contact is linear in the displacement dx = x - x0 of a few vertices, its *entries*:

    depth  d = offset + Σ g·dx              g  normal weight of an entry
    slip   s = drift + Σ B dx               B  3x3 slip block of an entry; only its part across the normal counts

Normal    p = k d where d > 0, else 0: the energy k d² / 2.
Friction  The trial force f = f0 + kt s, f0 the friction of the step before, is returned to the limit L = μ p along
          itself: |f|² / (2 kt) below the limit, L (|f| - L / 2) / kt above. Sticking contacts hold a load without
          creep, sliding ones obey Coulomb's law. L follows the normal forces whenever the iteration has converged with
          the limits before (``update_limits``): between, the energy is convex in the contacts.
Hessian   k g gᵀ and Bᵀ (a t tᵀ + b u uᵀ) B with tangents t along f and u: a = b = kt where the contact sticks; b =
          kt L / |f| and a = 0 where it slides.

``q.c_*`` are arrays of the step, ``s.c_*`` results of the last evaluation.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled

CHANGE = 0.01
"""Change of the limits of friction, relative to their sum, that needs no other round."""
RISING = 0.1
"""Slope of the energy at the end of a line search, relative to that at its start."""
MOST_CUTS = 20


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
def _friction(q, s, c, sx, sy, sz):
    """Friction force at a slip, and its size before it is returned to the limit."""
    kt, n = q.c_stick[c], 3 * c
    nx, ny, nz = q.c_normal[n], q.c_normal[n + 1], q.c_normal[n + 2]
    fx, fy, fz = q.c_before[n] + kt * sx, q.c_before[n + 1] + kt * sy, q.c_before[n + 2] + kt * sz
    across = fx * nx + fy * ny + fz * nz
    fx, fy, fz = fx - across * nx, fy - across * ny, fz - across * nz
    size = math.sqrt(fx * fx + fy * fy + fz * fz)
    if size > s.c_limit[c]:
        share = s.c_limit[c] / size
        fx, fy, fz = share * fx, share * fy, share * fz
    return fx, fy, fz, size


@compiled
def evaluate_contacts(q, s, lo, hi):
    """Add contact forces to the gradient, store forces and second derivatives; returns the energy."""
    energy = 0.0
    for c in range(lo, hi):
        k, kt, n = q.c_stiffness[c], q.c_stick[c], 3 * c
        depth = q.c_offset[c]
        sx, sy, sz = q.c_drift[n], q.c_drift[n + 1], q.c_drift[n + 2]
        for e in range(q.c_start[c], q.c_start[c + 1]):
            at, w, m = 3 * q.c_vertex[e], 3 * e, 9 * e
            x, y, z = s.x[at] - s.x0[at], s.x[at + 1] - s.x0[at + 1], s.x[at + 2] - s.x0[at + 2]
            depth += q.c_weight[w] * x + q.c_weight[w + 1] * y + q.c_weight[w + 2] * z
            sx += q.c_block[m] * x + q.c_block[m + 1] * y + q.c_block[m + 2] * z
            sy += q.c_block[m + 3] * x + q.c_block[m + 4] * y + q.c_block[m + 5] * z
            sz += q.c_block[m + 6] * x + q.c_block[m + 7] * y + q.c_block[m + 8] * z
        s.c_depth[c], s.c_slip[n], s.c_slip[n + 1], s.c_slip[n + 2] = depth, sx, sy, sz
        p, s.c_active[c] = 0.0, 0.0
        if depth > 0.0:
            p, s.c_active[c] = k * depth, k
            energy += 0.5 * k * depth * depth
        s.c_normal_force[c] = p
        fx, fy, fz, s.c_across[c], s.c_along[c] = 0.0, 0.0, 0.0, 0.0, 0.0
        limit = s.c_limit[c]
        if limit > 0.0 and kt > 0.0:
            fx, fy, fz, size = _friction(q, s, c, sx, sy, sz)
            if size > limit:
                energy += limit * (size - 0.5 * limit) / kt
                s.c_across[c] = kt * limit / size
            else:
                energy += 0.5 * size * size / kt
                s.c_across[c], s.c_along[c] = kt, kt
            _set_tangents(q, s, c, fx, fy, fz)
        s.c_friction_force[n], s.c_friction_force[n + 1], s.c_friction_force[n + 2] = fx, fy, fz
        if p > 0.0 or fx != 0.0 or fy != 0.0 or fz != 0.0:
            _add(q, c, p, fx, fy, fz, s.gradient, 1.0)
    return energy


@compiled
def _set_tangents(q, s, c, tx, ty, tz):
    """Unit vectors along friction, any across the normal if there is none, and across both."""
    n, m = 3 * c, 6 * c
    x, y, z = q.c_normal[n], q.c_normal[n + 1], q.c_normal[n + 2]
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
    s.c_tangent[m], s.c_tangent[m + 1], s.c_tangent[m + 2] = tx, ty, tz
    s.c_tangent[m + 3], s.c_tangent[m + 4], s.c_tangent[m + 5] = y * tz - z * ty, z * tx - x * tz, x * ty - y * tx


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
def subtract_contacts(q, s, lo, hi, out):
    """Subtract the forces of the last evaluation from a vector."""
    for c in range(lo, hi):
        n = 3 * c
        _add(
            q, c, s.c_normal_force[c], s.c_friction_force[n], s.c_friction_force[n + 1], s.c_friction_force[n + 2], out,
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
        depth, sx, sy, sz = 0.0, 0.0, 0.0, 0.0
        for e in range(q.c_start[c], q.c_start[c + 1]):
            at, w, m = 3 * q.c_vertex[e], 3 * e, 9 * e
            x, y, z = s.p[at], s.p[at + 1], s.p[at + 2]
            depth += q.c_weight[w] * x + q.c_weight[w + 1] * y + q.c_weight[w + 2] * z
            if across > 0.0:
                sx += q.c_block[m] * x + q.c_block[m + 1] * y + q.c_block[m + 2] * z
                sy += q.c_block[m + 3] * x + q.c_block[m + 4] * y + q.c_block[m + 5] * z
                sz += q.c_block[m + 6] * x + q.c_block[m + 7] * y + q.c_block[m + 8] * z
        total += k * depth * depth
        if across > 0.0:
            m = 6 * c
            tx, ty, tz = s.c_tangent[m], s.c_tangent[m + 1], s.c_tangent[m + 2]
            ux, uy, uz = s.c_tangent[m + 3], s.c_tangent[m + 4], s.c_tangent[m + 5]
            a, b = tx * sx + ty * sy + tz * sz, ux * sx + uy * sy + uz * sz
            along = s.c_along[c]
            total += along * a * a + across * b * b
            a, b = along * a, across * b
            _add(q, c, k * depth, a * tx + b * ux, a * ty + b * uy, a * tz + b * uz, s.q, 1.0)
        else:
            for e in range(q.c_start[c], q.c_start[c + 1]):
                i = q.c_vertex[e]
                if not q.held[i]:
                    for r in range(3):
                        s.q[3 * i + r] += k * depth * q.c_weight[3 * e + r]
    return total


# preconditioner ----------------------------------------------------------------------------------------------------


@compiled
def _row(q, s, c, r, e):
    """Weight of the row ``r`` of a contact at an entry: 0 normal, 1 and 2 tangents."""
    if r == 0:
        return q.c_weight[3 * e], q.c_weight[3 * e + 1], q.c_weight[3 * e + 2]
    m, n = 9 * e, 6 * c + 3 * (r - 1)
    tx, ty, tz = s.c_tangent[n], s.c_tangent[n + 1], s.c_tangent[n + 2]
    return (
        tx * q.c_block[m] + ty * q.c_block[m + 3] + tz * q.c_block[m + 6],
        tx * q.c_block[m + 1] + ty * q.c_block[m + 4] + tz * q.c_block[m + 7],
        tx * q.c_block[m + 2] + ty * q.c_block[m + 5] + tz * q.c_block[m + 8],
    )


@compiled
def add_contact_preconditioner(q, s, island, lo, hi):
    """Add k w wᵀ to the blocks that will be inverted, and k (G P)ᵀ (G P) to the coarse matrix."""
    first = q.cluster_start[island]
    base, size = q.coarse_start[island], 6 * (q.cluster_start[island + 1] - first)
    for cluster in range(first, q.cluster_start[island + 1]):
        s.c_stamp[cluster] = -1
    for c in range(lo, hi):
        k0, k1, k2 = s.c_active[c], s.c_along[c], s.c_across[c]
        if k0 == 0.0 and k2 == 0.0:
            continue
        rows = 3 if k2 > 0.0 else 1
        count = 0  # clusters of this contact so far, in ``c_cluster``
        for e in range(q.c_start[c], q.c_start[c + 1]):
            i = q.c_vertex[e]
            if q.held[i]:
                continue
            cluster = q.vertex_cluster[i]
            at, m = 6 * i, 18 * cluster
            if s.c_stamp[cluster] != c:
                s.c_stamp[cluster] = c
                s.c_cluster[first + count] = cluster
                count += 1
                for j in range(18):
                    s.c_mode[m + j] = 0.0
            ax, ay, az = s.arm[3 * i], s.arm[3 * i + 1], s.arm[3 * i + 2]
            for r in range(rows):
                k = k0 if r == 0 else (k1 if r == 1 else k2)
                x, y, z = _row(q, s, c, r, e)
                s.inverse[at] += k * x * x
                s.inverse[at + 1] += k * y * y
                s.inverse[at + 2] += k * z * z
                s.inverse[at + 3] += k * x * y
                s.inverse[at + 4] += k * x * z
                s.inverse[at + 5] += k * y * z
                j = m + 6 * r
                s.c_mode[j], s.c_mode[j + 1], s.c_mode[j + 2] = s.c_mode[j] + x, s.c_mode[j + 1] + y, s.c_mode[j + 2] + z
                s.c_mode[j + 3] += ay * z - az * y
                s.c_mode[j + 4] += az * x - ax * z
                s.c_mode[j + 5] += ax * y - ay * x
        for u in range(count):
            for v in range(count):
                a, b = s.c_cluster[first + u], s.c_cluster[first + v]
                if b < a:
                    continue
                for r in range(rows):
                    k = k0 if r == 0 else (k1 if r == 1 else k2)
                    if k == 0.0:
                        continue
                    ma, mb = 18 * a + 6 * r, 18 * b + 6 * r
                    for i in range(6):
                        to, left = base + (6 * (a - first) + i) * size + 6 * (b - first), k * s.c_mode[ma + i]
                        for j in range(6):
                            s.coarse[to + j] += left * s.c_mode[mb + j]


# line search -------------------------------------------------------------------------------------------------------


@compiled
def set_line(q, s, lo, hi):
    """Depth and slip of each contact per unit of the direction d."""
    for c in range(lo, hi):
        n = 3 * c
        depth, sx, sy, sz = 0.0, 0.0, 0.0, 0.0
        for e in range(q.c_start[c], q.c_start[c + 1]):
            at, w, m = 3 * q.c_vertex[e], 3 * e, 9 * e
            x, y, z = s.d[at], s.d[at + 1], s.d[at + 2]
            depth += q.c_weight[w] * x + q.c_weight[w + 1] * y + q.c_weight[w + 2] * z
            sx += q.c_block[m] * x + q.c_block[m + 1] * y + q.c_block[m + 2] * z
            sy += q.c_block[m + 3] * x + q.c_block[m + 4] * y + q.c_block[m + 5] * z
            sz += q.c_block[m + 6] * x + q.c_block[m + 7] * y + q.c_block[m + 8] * z
        s.c_line[4 * c], s.c_line[4 * c + 1], s.c_line[4 * c + 2], s.c_line[4 * c + 3] = depth, sx, sy, sz


@compiled
def _line_slope(q, s, lo, hi, fraction):
    """Derivative of the contact energy along the line."""
    slope = 0.0
    for c in range(lo, hi):
        n, m = 3 * c, 4 * c
        depth = s.c_depth[c] + fraction * s.c_line[m]
        if depth > 0.0:
            slope += q.c_stiffness[c] * depth * s.c_line[m]
        if s.c_limit[c] > 0.0 and q.c_stick[c] > 0.0:
            x, y, z = s.c_line[m + 1], s.c_line[m + 2], s.c_line[m + 3]
            fx, fy, fz, _ = _friction(
                q, s, c, s.c_slip[n] + fraction * x, s.c_slip[n + 1] + fraction * y, s.c_slip[n + 2] + fraction * z
            )
            slope += fx * x + fy * y + fz * z
    return slope


@compiled
def search_line(q, s, lo, hi, slope, curvature):
    """Fraction of the direction at which slope + curvature t + contacts hardly rises; 1 if it still falls there.

    The energy is convex: its derivative changes sign once, and is bracketed by regula falsi (Illinois).
    """
    begin = slope + _line_slope(q, s, lo, hi, 0.0)
    end = slope + curvature + _line_slope(q, s, lo, hi, 1.0)
    if not begin < 0.0 or end <= RISING * -begin:
        return 1.0
    a, fa, b, fb = 0.0, begin, 1.0, end
    t, side = 1.0, 0
    for _ in range(MOST_CUTS):
        t = a - fa * (b - a) / (fb - fa)
        f = slope + curvature * t + _line_slope(q, s, lo, hi, t)
        if abs(f) <= RISING * -begin:
            break
        if f < 0.0:
            a, fa = t, f
            fb *= 0.5 if side < 0 else 1.0
            side = -1
        else:
            b, fb = t, f
            fa *= 0.5 if side > 0 else 1.0
            side = 1
    return t
