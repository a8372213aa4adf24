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
def _add(entries, lo, hi, p, fx, fy, fz, out):
    """Add g p + Bᵀ f of the entries lo to hi to a vector of the free vertices."""
    vertex, weight, block, held = entries
    for e in range(lo, hi):
        i = vertex[e]
        if held[i]:
            continue
        at, w, k = 3 * i, 3 * e, 9 * e
        out[at] += weight[w] * p + block[k] * fx + block[k + 3] * fy + block[k + 6] * fz
        out[at + 1] += weight[w + 1] * p + block[k + 1] * fx + block[k + 4] * fy + block[k + 7] * fz
        out[at + 2] += weight[w + 2] * p + block[k + 2] * fx + block[k + 5] * fy + block[k + 8] * fz


@compiled
def _move(entries, lo, hi, vector):
    """Depth Σ g·y and slip Σ B y over the entries lo to hi of a vector y."""
    vertex, weight, block, _ = entries
    depth, sx, sy, sz = 0.0, 0.0, 0.0, 0.0
    for e in range(lo, hi):
        at, w, m = 3 * vertex[e], 3 * e, 9 * e
        x, y, z = vector[at], vector[at + 1], vector[at + 2]
        depth += weight[w] * x + weight[w + 1] * y + weight[w + 2] * z
        sx += block[m] * x + block[m + 1] * y + block[m + 2] * z
        sy += block[m + 3] * x + block[m + 4] * y + block[m + 5] * z
        sz += block[m + 6] * x + block[m + 7] * y + block[m + 8] * z
    return depth, sx, sy, sz


@compiled
def _friction(c, stick, normal, before, limit, sx, sy, sz):
    """Friction force at a slip, and its size before it is returned to the limit."""
    kt, n = stick[c], 3 * c
    nx, ny, nz = normal[n], normal[n + 1], normal[n + 2]
    fx, fy, fz = before[n] + kt * sx, before[n + 1] + kt * sy, before[n + 2] + kt * sz
    across = fx * nx + fy * ny + fz * nz
    fx, fy, fz = fx - across * nx, fy - across * ny, fz - across * nz
    size = math.sqrt(fx * fx + fy * fy + fz * fz)
    if size > limit[c]:
        share = limit[c] / size
        fx, fy, fz = share * fx, share * fy, share * fz
    return fx, fy, fz, size


@compiled
def evaluate_contacts(q, s, lo, hi):
    """Add contact forces to the gradient, store forces and second derivatives; returns the energy."""
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, stiffness, stick, normal, before = q.c_start, q.c_stiffness, q.c_stick, q.c_normal, q.c_before
    offset, drift, limits, tangent = q.c_offset, q.c_drift, s.c_limit, s.c_tangent
    depths, slip, active, along, across = s.c_depth, s.c_slip, s.c_active, s.c_along, s.c_across
    normal_force, friction_force, gradient, x, x0 = s.c_normal_force, s.c_friction_force, s.gradient, s.x, s.x0
    vertex, weight, block, _ = entries
    energy = 0.0
    for c in range(lo, hi):
        k, kt, n = stiffness[c], stick[c], 3 * c
        depth = offset[c]
        sx, sy, sz = drift[n], drift[n + 1], drift[n + 2]
        for e in range(start[c], start[c + 1]):
            at, w, m = 3 * vertex[e], 3 * e, 9 * e
            dx, dy, dz = x[at] - x0[at], x[at + 1] - x0[at + 1], x[at + 2] - x0[at + 2]
            depth += weight[w] * dx + weight[w + 1] * dy + weight[w + 2] * dz
            sx += block[m] * dx + block[m + 1] * dy + block[m + 2] * dz
            sy += block[m + 3] * dx + block[m + 4] * dy + block[m + 5] * dz
            sz += block[m + 6] * dx + block[m + 7] * dy + block[m + 8] * dz
        depths[c], slip[n], slip[n + 1], slip[n + 2] = depth, sx, sy, sz
        p, active[c] = 0.0, 0.0
        if depth > 0.0:
            p, active[c] = k * depth, k
            energy += 0.5 * k * depth * depth
        normal_force[c] = p
        fx, fy, fz, across[c], along[c] = 0.0, 0.0, 0.0, 0.0, 0.0
        limit = limits[c]
        if limit > 0.0 and kt > 0.0:
            fx, fy, fz, size = _friction(c, stick, normal, before, limits, sx, sy, sz)
            if size > limit:
                energy += limit * (size - 0.5 * limit) / kt
                across[c] = kt * limit / size
            else:
                energy += 0.5 * size * size / kt
                across[c], along[c] = kt, kt
            _set_tangents(c, normal, tangent, fx, fy, fz)
        friction_force[n], friction_force[n + 1], friction_force[n + 2] = fx, fy, fz
        if p > 0.0 or fx != 0.0 or fy != 0.0 or fz != 0.0:
            _add(entries, start[c], start[c + 1], p, fx, fy, fz, gradient)
    return energy


@compiled
def _set_tangents(c, normal, tangent, tx, ty, tz):
    """Unit vectors along friction, any across the normal if there is none, and across both."""
    n, m = 3 * c, 6 * c
    x, y, z = normal[n], normal[n + 1], normal[n + 2]
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
    tangent[m], tangent[m + 1], tangent[m + 2] = tx, ty, tz
    tangent[m + 3], tangent[m + 4], tangent[m + 5] = y * tz - z * ty, z * tx - x * tz, x * ty - y * tx


@compiled
def state_of(s, lo, hi):
    """A number that changes where a contact opens, closes, sticks or slides."""
    active, across, along = s.c_active, s.c_across, s.c_along
    state = 0
    for c in range(lo, hi):
        state = (31 * state + (active[c] > 0.0) + 2 * (across[c] > 0.0) + 4 * (along[c] > 0.0)) & 0xFFFFFFFFFFFF
    return state


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
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, normal_force, friction_force = q.c_start, s.c_normal_force, s.c_friction_force
    for c in range(lo, hi):
        n = 3 * c
        fx, fy, fz = friction_force[n], friction_force[n + 1], friction_force[n + 2]
        _add(entries, start[c], start[c + 1], -normal_force[c], -fx, -fy, -fz, out)


@compiled
def multiply_contacts(q, s, lo, hi):
    """Add the second derivatives times p to q; returns p·H p."""
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, active, acrosses, alongs, tangent = q.c_start, s.c_active, s.c_across, s.c_along, s.c_tangent
    direction, image = s.p, s.q
    total = 0.0
    for c in range(lo, hi):
        k, across, along, m = active[c], acrosses[c], alongs[c], 6 * c
        if k == 0.0 and across == 0.0:
            continue
        first, last = start[c], start[c + 1]
        depth, sx, sy, sz = _move(entries, first, last, direction)
        fx, fy, fz = 0.0, 0.0, 0.0
        if across > 0.0:
            tx, ty, tz = tangent[m], tangent[m + 1], tangent[m + 2]
            ux, uy, uz = tangent[m + 3], tangent[m + 4], tangent[m + 5]
            a, b = tx * sx + ty * sy + tz * sz, ux * sx + uy * sy + uz * sz
            total += along * a * a + across * b * b
            a, b = along * a, across * b
            fx, fy, fz = a * tx + b * ux, a * ty + b * uy, a * tz + b * uz
        total += k * depth * depth
        _add(entries, first, last, k * depth, fx, fy, fz, image)
    return total


# preconditioner ----------------------------------------------------------------------------------------------------


@compiled
def add_contact_preconditioner(q, s, island, lo, hi):
    """Add k w wᵀ to the blocks that will be inverted, and k (G P)ᵀ (G P) to the coarse matrix."""
    first, last = q.cluster_start[island], q.cluster_start[island + 1]
    base, size = q.coarse_start[island], 6 * (last - first)
    start, vertex, weight, block, held = q.c_start, q.c_vertex, q.c_weight, q.c_block, q.held
    active, across, along, tangent = s.c_active, s.c_across, s.c_along, s.c_tangent
    cluster_of, stamp, clusters, modes = q.vertex_cluster, s.c_stamp, s.c_cluster, s.c_mode
    inverse, arm, coarse = s.inverse, s.arm, s.coarse
    for cluster in range(first, last):
        stamp[cluster] = -1
    for c in range(lo, hi):
        k0, k1, k2, n = active[c], along[c], across[c], 6 * c
        if k0 == 0.0 and k2 == 0.0:
            continue
        rows = 3 if k2 > 0.0 else 1
        count = 0  # clusters of this contact so far
        for e in range(start[c], start[c + 1]):
            i = vertex[e]
            if held[i]:
                continue
            cluster = cluster_of[i]
            at, m, w = 6 * i, 18 * cluster, 9 * e
            if stamp[cluster] != c:
                stamp[cluster] = c
                clusters[first + count] = cluster
                count += 1
                for j in range(m, m + 18):
                    modes[j] = 0.0
            ax, ay, az = arm[3 * i], arm[3 * i + 1], arm[3 * i + 2]
            for r in range(rows):
                k = k0 if r == 0 else (k1 if r == 1 else k2)
                if r == 0:
                    x, y, z = weight[3 * e], weight[3 * e + 1], weight[3 * e + 2]
                else:
                    tx, ty, tz = tangent[n + 3 * r - 3], tangent[n + 3 * r - 2], tangent[n + 3 * r - 1]
                    x = tx * block[w] + ty * block[w + 3] + tz * block[w + 6]
                    y = tx * block[w + 1] + ty * block[w + 4] + tz * block[w + 7]
                    z = tx * block[w + 2] + ty * block[w + 5] + tz * block[w + 8]
                inverse[at] += k * x * x
                inverse[at + 1] += k * y * y
                inverse[at + 2] += k * z * z
                inverse[at + 3] += k * x * y
                inverse[at + 4] += k * x * z
                inverse[at + 5] += k * y * z
                j = m + 6 * r
                modes[j], modes[j + 1], modes[j + 2] = modes[j] + x, modes[j + 1] + y, modes[j + 2] + z
                modes[j + 3] += ay * z - az * y
                modes[j + 4] += az * x - ax * z
                modes[j + 5] += ax * y - ay * x
        for u in range(first, first + count):
            for v in range(first, first + count):
                a, b = clusters[u], clusters[v]
                if b < a:
                    continue
                for r in range(rows):
                    k = k0 if r == 0 else (k1 if r == 1 else k2)
                    if k == 0.0:
                        continue
                    ma, mb = 18 * a + 6 * r, 18 * b + 6 * r
                    for i in range(6):
                        to, left = base + (6 * (a - first) + i) * size + 6 * (b - first), k * modes[ma + i]
                        for j in range(6):
                            coarse[to + j] += left * modes[mb + j]


# line search -------------------------------------------------------------------------------------------------------


@compiled
def set_line(q, s, lo, hi):
    """Depth and slip of each contact per unit of the direction d."""
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, line, direction = q.c_start, s.c_line, s.d
    for c in range(lo, hi):
        m = 4 * c
        line[m], line[m + 1], line[m + 2], line[m + 3] = _move(entries, start[c], start[c + 1], direction)


@compiled
def _line_slope(q, s, lo, hi, fraction):
    """Derivative of the contact energy along the line."""
    stiffness, stick, normal, before, limit = q.c_stiffness, q.c_stick, q.c_normal, q.c_before, s.c_limit
    depths, slip, line = s.c_depth, s.c_slip, s.c_line
    slope = 0.0
    for c in range(lo, hi):
        n, m = 3 * c, 4 * c
        depth = depths[c] + fraction * line[m]
        if depth > 0.0:
            slope += stiffness[c] * depth * line[m]
        if limit[c] > 0.0 and stick[c] > 0.0:
            x, y, z = line[m + 1], line[m + 2], line[m + 3]
            fx, fy, fz, _ = _friction(
                c, stick, normal, before, limit, slip[n] + fraction * x, slip[n + 1] + fraction * y,
                slip[n + 2] + fraction * z,
            )  # fmt: skip
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
