"""Contact and friction terms of the incremental energy of an island, for ``newton_kernels`` and ``model_kernels``.

A contact is linear in the displacement dx = x - x0 of a few vertices, its *entries*:

    depth  d = offset + Σ g·dx              g  normal weight of an entry
    slip   s = drift + Σ B dx               B  3x3 slip block of an entry; only its part across the normal counts

Normal    p = k d where d > 0, else 0: the energy k d² / 2. A contact layer of thickness w hardens, and holds any load:
          p = k d / (1 - d / w) (``layer``).
Friction  The trial force f = f0 + kt s, f0 the friction of the step before, is returned to the limit L = μ p along
          itself: |f|² / (2 kt) below the limit, L (|f| - L / 2) / kt above. Sticking contacts hold a load without
          creep, sliding ones obey Coulomb's law. L follows the normal forces whenever the iteration has converged with
          the limits before (``update_limits``): between, the energy is convex in the contacts.
Hessian   p′ g gᵀ and Bᵀ (a t tᵀ + b u uᵀ) B with tangents t along f and u: a = b = kt where the contact sticks; b =
          kt L / |f| and a = 0 where it slides. This is Rᵀ R with the rows √p′ g, √a tᵀ B, √b uᵀ B of R, which each
          evaluation writes for contacts where they are not 0 (``_set_rows``).

``q.c_*`` are arrays of the step, ``s.c_*`` results of the last evaluation.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted
from impinge.backend.simd.linear import add_outer, multiply_row

CHANGE = 0.01
"""Change of the limits of friction, relative to their sum, that needs no other round."""
RISING = 0.1
"""Slope of the energy at the end of a line search, relative to that at its start."""
MOST_CUTS = 60
NONE = -1
"""Ends the list of contacts with second derivatives where it is shorter than the contacts of the island."""
FIRM_FROM, FIRM = 0.5, 50.0
"""Compressed share of a contact layer at which it becomes stiffer, and how much, relative to its start."""
HARD_FROM, HARD = 0.9, 1000.0
"""The same for the last part."""


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
def layer(k, wall, depth):
    """Force of a contact at a depth above 0, its derivative, and energy.

    A layer of the thickness ``wall`` hardens in two steps: its stiffness is k, ``FIRM`` k beyond ``FIRM_FROM`` of the
    thickness, and ``HARD`` k beyond ``HARD_FROM``. Pieces are linear: Newton's method ends as soon as each contact is
    on its piece, and needs no feasible start.
    """
    if depth <= FIRM_FROM * wall:
        return k * depth, k, 0.5 * k * depth * depth
    d = FIRM_FROM * wall
    force, energy, past, slope = k * d, 0.5 * k * d * d, depth - d, FIRM * k
    if depth > HARD_FROM * wall:
        d = (HARD_FROM - FIRM_FROM) * wall
        energy += d * (force + 0.5 * slope * d)
        force, past, slope = force + slope * d, past - d, HARD * k
    return force + slope * past, slope, energy + past * (force + 0.5 * slope * past)


@compiled
def evaluate_contacts(q, s, lo, hi):
    """Add contact forces to the gradient, store forces and second derivatives; returns the energy."""
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, stiffness, stick, normal, before = q.c_start, q.c_stiffness, q.c_stick, q.c_normal, q.c_before
    offset, drift, limits, wall, listed, row = q.c_offset, q.c_drift, s.c_limit, q.c_wall, s.c_listed, s.c_row
    depths, slip, active, along, across = s.c_depth, s.c_slip, s.c_active, s.c_along, s.c_across
    normal_force, friction_force, gradient, x, x0 = s.c_normal_force, s.c_friction_force, s.gradient, s.x, s.x0
    vertex, weight, block, _ = entries
    energy, count = 0.0, lo
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
            p, active[c], own = layer(k, wall[c], depth)
            energy += own
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
        friction_force[n], friction_force[n + 1], friction_force[n + 2] = fx, fy, fz
        if p > 0.0 or fx != 0.0 or fy != 0.0 or fz != 0.0:
            _add(entries, start[c], start[c + 1], p, fx, fy, fz, gradient)
        if active[c] > 0.0 or across[c] > 0.0:
            tangents = _tangents(c, normal, fx, fy, fz)
            _set_rows(entries, start[c], start[c + 1], active[c], along[c], across[c], tangents, row)
            listed[count] = c
            count += 1
    if count < hi:
        listed[count] = NONE
    return energy


@compiled
def _tangents(c, normal, tx, ty, tz):
    """Unit vectors along friction, any across the normal if there is none, and across both."""
    n = 3 * c
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
    return tx, ty, tz, y * tz - z * ty, z * tx - x * tz, x * ty - y * tx


@compiled
def _set_rows(entries, lo, hi, active, along, across, tangents, row):
    """Write R of a contact: a block of three rows for each entry, column by column."""
    _, weight, block, _ = entries
    tx, ty, tz, ux, uy, uz = tangents
    normal, stick, slide = math.sqrt(active), math.sqrt(along), math.sqrt(across)
    for e in range(lo, hi):
        for k in range(3):
            at, b = 9 * e + 3 * k, 9 * e + k
            row[at] = normal * weight[3 * e + k]
            row[at + 1] = stick * (tx * block[b] + ty * block[b + 3] + tz * block[b + 6])
            row[at + 2] = slide * (ux * block[b] + uy * block[b + 3] + uz * block[b + 6])


@compiled
def state_of(s, lo, hi):
    """A number that changes where a contact opens, closes, sticks, slides, or hardens by a factor of 4."""
    active, across, along = s.c_active, s.c_across, s.c_along
    state = 0
    for c in range(lo, hi):
        stiffness = math.frexp(active[c])[1] // 2 if active[c] > 0.0 else 4096
        state = (31 * state + 4 * stiffness + (across[c] > 0.0) + 2 * (along[c] > 0.0)) & 0xFFFFFFFFFFFF
    return state


@compiled
def limit_change(q, s, lo, hi):
    """How much the limits of friction differ from the present normal forces, relative to their sum; 1 if that is 0."""
    total, change = 0.0, 0.0
    for c in range(lo, hi):
        limit = q.c_friction[c] * s.c_normal_force[c]
        total, change = total + limit, change + abs(limit - s.c_limit[c])
    if total > 0.0:
        return change / total
    return 1.0 if change > 0.0 else 0.0


@compiled
def update_limits(q, s, lo, hi):
    """Set the limits of friction by the present normal forces."""
    for c in range(lo, hi):
        s.c_limit[c] = q.c_friction[c] * s.c_normal_force[c]


@compiled
def subtract_contacts(q, s, lo, hi, out):
    """Subtract the forces of the last evaluation from a vector."""
    entries = q.c_vertex, q.c_weight, q.c_block, q.held
    start, normal_force, friction_force = q.c_start, s.c_normal_force, s.c_friction_force
    for c in range(lo, hi):
        n = 3 * c
        fx, fy, fz = friction_force[n], friction_force[n + 1], friction_force[n + 2]
        _add(entries, start[c], start[c + 1], -normal_force[c], -fx, -fy, -fz, out)


@contracted
def multiply_contacts(q, s, lo, hi):
    """Add the second derivatives times p to q; returns p·H p."""
    start, vertex, held, listed, row = q.c_start, q.c_vertex, q.held, s.c_listed, s.c_row
    direction, image = s.p, s.q
    total = 0.0
    for k in range(lo, hi):
        c = listed[k]
        if c == NONE:
            break
        u, v, w = multiply_row(vertex, row, direction, start[c], start[c + 1])
        total += u * u + v * v + w * w
        for e in range(start[c], start[c + 1]):
            i = vertex[e]
            if not held[i]:
                at, b = 3 * i, 9 * e
                image[at] += row[b] * u + row[b + 1] * v + row[b + 2] * w
                image[at + 1] += row[b + 3] * u + row[b + 4] * v + row[b + 5] * w
                image[at + 2] += row[b + 6] * u + row[b + 7] * v + row[b + 8] * w
    return total


# preconditioner ----------------------------------------------------------------------------------------------------


@contracted
def add_contact_preconditioner(q, s, island, lo, hi):
    """Add the diagonal blocks of Rᵀ R to those that will be inverted, and (R P)ᵀ (R P) to the coarse matrix."""
    first, last = q.cluster_start[island], q.cluster_start[island + 1]
    base, size = q.coarse_start[island], q.coarse_row[island + 1] - q.coarse_row[island]
    start, vertex, held, row = q.c_start, q.c_vertex, q.held, s.c_row
    cluster_of, stamp, clusters, modes = q.vertex_cluster, s.c_stamp, s.c_cluster, s.c_mode
    inverse, arm, coarse = s.inverse, s.arm, s.coarse
    for cluster in range(first, last):
        stamp[cluster] = NONE
    for listed in range(lo, hi):
        c = s.c_listed[listed]
        if c == NONE:
            break
        count = 0  # clusters of this contact so far
        for e in range(start[c], start[c + 1]):
            i = vertex[e]
            if held[i]:
                continue
            cluster = cluster_of[i]
            at, m = 6 * i, 18 * cluster
            if stamp[cluster] != c:
                stamp[cluster] = c
                clusters[first + count] = cluster
                count += 1
                for j in range(m, m + 18):
                    modes[j] = 0.0
            ax, ay, az = arm[3 * i], arm[3 * i + 1], arm[3 * i + 2]
            for r in range(3):
                x, y, z = row[9 * e + r], row[9 * e + 3 + r], row[9 * e + 6 + r]
                inverse[at] += x * x
                inverse[at + 1] += y * y
                inverse[at + 2] += z * z
                inverse[at + 3] += x * y
                inverse[at + 4] += x * z
                inverse[at + 5] += y * z
                j = m + 6 * r
                modes[j], modes[j + 1], modes[j + 2] = modes[j] + x, modes[j + 1] + y, modes[j + 2] + z
                modes[j + 3] += ay * z - az * y
                modes[j + 4] += az * x - ax * z
                modes[j + 5] += ax * y - ay * x
        for u in range(first, first + count):
            for v in range(first, first + count):
                a, b = clusters[u], clusters[v]
                if b >= a:
                    add_outer(coarse, base + 6 * (a - first) * size + 6 * (b - first), size, modes, 18 * a, 18 * b)


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
    depths, slip, line, wall = s.c_depth, s.c_slip, s.c_line, q.c_wall
    slope = 0.0
    for c in range(lo, hi):
        n, m = 3 * c, 4 * c
        depth = depths[c] + fraction * line[m]
        if depth > 0.0:
            force, _, _ = layer(stiffness[c], wall[c], depth)
            slope += force * line[m]
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

    The energy is convex: its derivative changes sign once, and is bracketed by regula falsi (Illinois), halving the
    bracket where that shrinks it by less: stiff contacts make the derivative steep at one end.
    """
    begin = slope + _line_slope(q, s, lo, hi, 0.0)
    end = slope + curvature + _line_slope(q, s, lo, hi, 1.0)
    if not begin < 0.0 or end <= RISING * -begin:
        return 1.0
    a, fa, b, fb = 0.0, begin, 1.0, end
    t, side, width = 1.0, 0, 2.0
    for _ in range(MOST_CUTS):
        t = a - fa * (b - a) / (fb - fa) if b - a <= 0.5 * width else 0.5 * (a + b)
        width = b - a
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
