"""Newton's method on the incremental energy of islands, for ``system``.

A step of backward Euler minimises  Σ m |x - x̂|² / (2 h²) + Ψ(x) + dissipation + contacts,  x̂ = x0 + h v0 + h² a,
a the external acceleration; the velocity is then (x - x0) / h.

1. Start   at x0, rigid bodies at x0 + h v0. The first direction starts from x̂ - x (exact in free fall) or from h v0,
           whichever is nearer.
2. Solve   for the direction d by conjugate gradients: the minimum of the quadratic model of the elements, with
           contacts and friction as they are (``model_kernels``).
3. Search  along d, halving, until the energy falls by ``ARMIJO`` of what its slope promises. Near the minimum, where
           energies differ by rounding, the slope decides instead. Held vertices jump in the first step, whose
           energy cannot be compared. Rigid bodies turn by the rotation in d: steps along d itself would stretch
           them by half of the square of the angle, hence be short and many.
4. Stop    if the estimated error of velocities, √(r·B r / Σ m) with the residual r and the preconditioner B, is at most
           ``tolerance`` times a velocity: the largest of the change by external forces in a step, the internal
           motion, and that which the elements' forces at x0 would cause; or if it is what rounding of positions
           causes; or after a number of steps, reported as not converged. With contacts, more is enough after
           ``ENOUGH`` steps. Where the limits of friction then differ from
           the normal forces, update them and go on (``contact_kernels``), at most ``MOST_ROUNDS`` times.
5. Finish  Free bodies get the exact linear momentum. Their velocities get the rotation ω × d that restores the angular
           momentum, which backward Euler loses by h Σ v × m v0; scaled down where energy would exceed that of the
           start plus the work of external forces. The implicit midpoint rule is a step of half the length whose
           change is doubled.
6. Limit   Backward Euler gains energy where the elastic energy is concave, as in tets that are being inverted. The
           velocities of a body without contacts, relative to their mean if the body is free, are then scaled to the
           energy of the start plus the work of external forces. Such a scale exists: with T the kinetic and Ψ the
           elastic energy and W that work, the minimised function never rises, hence
           Ψ1 + Σ m |v1 - v0|² / 2 <= Ψ0 + T0 + W, and the same holds relative to the mean velocity.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.deform.implicit import assembly_kernels as assembly
from impinge.deform.implicit import cg_kernels as cg
from impinge.deform.implicit import contact_kernels as contact
from impinge.deform.implicit import model_kernels as model
from impinge.deform.implicit.coarse_kernels import SINGULAR

ARMIJO = 1e-4
"""Share of the decrease predicted by the slope that a step must reach."""
ROUNDING = 1e-12
"""Energies that differ by less, relative, are equal."""
EPSILON = 4.0 * 2.0**-52
"""Rounding of positions, relative to the largest."""
APPROACH = 1e-3
"""Share of the velocities of rigid bodies that errors are compared with at least."""
RIGID_ROUNDING = 16.0
"""Rounding of the rotations of tets, relative to that of positions, which the forces of stiff tets show."""
SLOPE = 0.5
"""Where energies are equal, the slope must shrink to this share."""
MOST_HALVINGS = 30
ENOUGH, LOOSE = 4, 10.0
"""Newton steps with contacts from which on so many tolerances are enough: folds of cloth converge slowly."""
LEAST_ROUNDS, MOST_ROUNDS = 2, 4
"""Times that the limits of friction follow the normal forces of a step that has converged with the limits before."""
SETTLING = 0.5
"""Change of the limits, relative to the one before, that makes more times worth while: in collisions they oscillate."""

start_serial, start_threaded = assembly.start_elements.serial, assembly.start_elements.parallel
evaluate_serial, evaluate_threaded = assembly.evaluate_elements.serial, assembly.evaluate_elements.parallel
gather_serial, gather_threaded = assembly.gather_gradient.serial, assembly.gather_gradient.parallel
pairs_serial, pairs_threaded = assembly.assemble_pairs.serial, assembly.assemble_pairs.parallel
diagonal_serial, diagonal_threaded = assembly.assemble_diagonal.serial, assembly.assemble_diagonal.parallel


@compiled
def _gather(threaded, t, q, s, island):
    """Gradient and energy at x from the records of elements; returns the energy."""
    lo, hi = q.task_range[island], q.task_range[island + 1]
    first, last = q.leaf_range[island], q.leaf_range[island + 1]
    if threaded is None:
        gather_serial(t, q, s, first, last)
    else:
        gather_threaded(t, q, s, first, last)
    energy = 0.0
    for k in range(first, last):
        energy += s.leaf_sum[2 * q.leaf[k]]
    for k in range(lo, hi):
        energy += s.task_energy[q.task[k]]
    return energy + contact.evaluate_contacts(q, s, q.contact_range[island], q.contact_range[island + 1])


@compiled
def _evaluate(threaded, t, q, s, island, with_blocks):
    """Records, gradient and energy at x; returns the energy."""
    lo, hi = q.task_range[island], q.task_range[island + 1]
    if threaded is None:
        evaluate_serial(t, q, s, lo, hi, with_blocks)
    else:
        evaluate_threaded(t, q, s, lo, hi, with_blocks)
    return _gather(threaded, t, q, s, island)


@compiled
def _assemble(threaded, t, q, s, island):
    """The matrix without contacts."""
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    if threaded is None:
        pairs_serial(t, q, s, lo, hi)
        diagonal_serial(t, q, s, lo, hi)
    else:
        pairs_threaded(t, q, s, lo, hi)
        diagonal_threaded(t, q, s, lo, hi)


@compiled
def _velocity_scale(t, q, s, island):
    """Σ m and the momentum-like scale: √Σ m |h a|² and √Σ m |v0 - v̄0|², the greater.

    v̄0 is the mean velocity of the body. Rigid bodies count their mean velocity by ``APPROACH`` at least: nothing else
    moves where they collide without gravity.
    """
    h = q.numbers[0]
    mass, pushed, inner, rigid = 0.0, 0.0, 0.0, 0.0
    for k in range(q.body_range[island], q.body_range[island + 1]):
        b = q.body[k]
        lo, hi = t.body_start[b], t.body_start[b + 1]
        own = 0.0
        for i in range(lo, hi):
            own += t.mass[i]
        mass += own
        if t.is_rigid[b]:
            x, y, z = _mean(t, s.v0, lo, hi)
            rigid += own * (x * x + y * y + z * z)
        for c in range(3):
            mean = 0.0
            for i in range(lo, hi):
                mean += t.mass[i] * s.v0[3 * i + c]
            mean /= own
            for i in range(lo, hi):
                at = 3 * i + c
                if not q.held[i]:
                    push = (s.target[at] - s.x0[at]) / h - s.v0[at]
                    pushed += t.mass[i] * push * push
                inner += t.mass[i] * (s.v0[at] - mean) * (s.v0[at] - mean)
    return mass, math.sqrt(max(pushed, inner, APPROACH * APPROACH * rigid))


@compiled
def _rounding(t, q, s, island):
    """√(r·B r) and the change of energy that rounded positions cause: ε |x| √tr(D) and ε |x|² tr(D), D the diagonal."""
    trace, far = 0.0, 0.0
    epsilon = EPSILON
    for k in range(q.body_range[island], q.body_range[island + 1]):
        if t.is_rigid[q.body[k]]:
            epsilon = RIGID_ROUNDING * EPSILON
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
            trace += s.diagonal[6 * i] + s.diagonal[6 * i + 1] + s.diagonal[6 * i + 2]
            far = max(far, abs(s.x[3 * i]), abs(s.x[3 * i + 1]), abs(s.x[3 * i + 2]))
    return epsilon * far * math.sqrt(trace), epsilon * far * far * trace


@compiled
def _slope(t, q, s, island):
    """Derivative of the energy along d."""
    total = 0.0
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            total += s.gradient[at] * s.d[at]
    return total


@compiled
def _keep_base(t, q, s, island):
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.base[at] = s.x[at]


@compiled
def _move(t, q, s, island, fraction):
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.x[at] = s.base[at] + fraction * s.d[at]
    for k in range(q.body_range[island], q.body_range[island + 1]):
        b = q.body[k]
        if t.is_rigid[b] and not q.held[t.body_start[b]]:
            _turn(t, s, t.body_start[b], t.body_start[b + 1], fraction)


@compiled
def _turn(t, s, lo, hi, fraction):
    """Move a rigid body along d, turning by its rotation ω: x = c + f d̄ + R(f ω) (r + f (d - d̄ - ω × r))."""
    (cx, cy, cz), (mx, my, mz) = _mean(t, s.base, lo, hi), _mean(t, s.d, lo, hi)
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(lo, hi):
        at, m = 3 * i, t.mass[i]
        x, y, z = s.base[at] - cx, s.base[at + 1] - cy, s.base[at + 2] - cz
        xx, yy, zz = xx + m * (y * y + z * z), yy + m * (x * x + z * z), zz + m * (x * x + y * y)
        xy, xz, yz = xy - m * x * y, xz - m * x * z, yz - m * y * z
    lx, ly, lz = _angular(t, s.base, s.d, lo, hi)
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * a + xy * b + xz * c
    wx = (a * lx + b * ly + c * lz) / determinant
    wy = (b * lx + (xx * zz - xz * xz) * ly + (xy * xz - xx * yz) * lz) / determinant
    wz = (c * lx + (xy * xz - xx * yz) * ly + (xx * yy - xy * xy) * lz) / determinant
    angle = fraction * math.sqrt(wx * wx + wy * wy + wz * wz)
    # Rodrigues' formula: r + sin(angle) / angle f ω × r + (1 - cos(angle)) / angle² f ω × (f ω × r)
    first, second = fraction, 0.5 * fraction * fraction
    if angle > 0.0:
        half = math.sin(0.5 * angle) / (0.5 * angle)
        first, second = fraction * math.sin(angle) / angle, second * half * half
    for i in range(lo, hi):
        at = 3 * i
        x, y, z = s.base[at] - cx, s.base[at + 1] - cy, s.base[at + 2] - cz
        dx, dy, dz = wy * z - wz * y, wz * x - wx * z, wx * y - wy * x
        x += fraction * (s.d[at] - mx - dx)
        y += fraction * (s.d[at + 1] - my - dy)
        z += fraction * (s.d[at + 2] - mz - dz)
        dx, dy, dz = wy * z - wz * y, wz * x - wx * z, wx * y - wy * x
        s.x[at] = cx + fraction * mx + x + first * dx + second * (wy * dz - wz * dy)
        s.x[at + 1] = cy + fraction * my + y + first * dy + second * (wz * dx - wx * dz)
        s.x[at + 2] = cz + fraction * mz + z + first * dz + second * (wx * dy - wy * dx)


@compiled
def _search(threaded, t, q, s, island, energy, noise, free):
    """Move along d; returns the fraction, 0 if no step lowers the energy, and the new energy."""
    slope = _slope(t, q, s, island)
    _keep_base(t, q, s, island)
    fraction = 1.0
    for _ in range(MOST_HALVINGS):
        _move(t, q, s, island, fraction)
        new = _evaluate(threaded, t, q, s, island, False)
        if not free and math.isfinite(new):
            return 1.0, new
        if new <= energy + ARMIJO * fraction * slope:
            return fraction, new
        if new <= energy + max(ROUNDING * abs(energy), noise) and abs(_slope(t, q, s, island)) <= SLOPE * abs(slope):
            return fraction, new
        fraction *= 0.5
    _move(t, q, s, island, 0.0)
    return 0.0, _evaluate(threaded, t, q, s, island, False)


@compiled
def _body_energies(t, q, s, island, out):
    for k in range(q.body_range[island], q.body_range[island + 1]):
        b = q.body[k]
        energy = 0.0
        for g in range(t.body_group[b], t.body_group[b + 1]):
            energy += s.task_energy[g]
        for g in range(t.body_spring_group[b], t.body_spring_group[b + 1]):
            energy += s.task_energy[len(t.group_model) + g]
        out[b] = energy


@compiled
def _error(threaded, t, q, s, island):
    """The estimated error √(r·B r); with contacts also that of the momenta of bodies."""
    error = model.error_of(threaded, t, q, s, island, True)[0]
    if q.contact_range[island] < q.contact_range[island + 1]:
        error = max(error, cg.imbalance(t, q, s, island))
    return error


@compiled
def solve_island(threaded, t, q, s, island):
    """Positions and velocities at the end of the step, and the report of an island."""
    lo, hi = q.task_range[island], q.task_range[island + 1]
    tolerance, most = q.numbers[2], int(q.numbers[3])
    if threaded is None:
        start_serial(t, q, s, lo, hi)
    else:
        start_threaded(t, q, s, lo, hi)
    first, last = q.contact_range[island], q.contact_range[island + 1]
    energy = _evaluate(threaded, t, q, s, island, True)
    _body_energies(t, q, s, island, s.body_energy)
    mass, scale = _velocity_scale(t, q, s, island)
    steps, iterations, left, shortest, converged, rounds = 0, 0, 0.0, 1.0, False, 0
    error, last_change, guessed = math.inf, math.inf, q.numbers[7] > 0.0
    while steps < most and math.isfinite(energy):
        _assemble(threaded, t, q, s, island)
        model.place(threaded, t, q, s, island)
        if steps == 0:
            scale = max(scale, model.error_of(threaded, t, q, s, island, False)[0])
        least, noise = _rounding(t, q, s, island)
        if first == last:
            count, relative = model.solve_linear(threaded, t, q, s, island, scale, steps == 0 and not guessed)
        else:
            count, relative, change = model.minimise(
                threaded, t, q, s, island, scale, least, error, steps == 0, guessed
            )
            energy += change
        iterations, left = iterations + count, max(left, relative)
        free = steps > 0 or guessed or not q.moving[island]
        fraction, energy = _search(threaded, t, q, s, island, energy, noise, free)
        steps += 1
        shortest = min(shortest, fraction)
        error = _error(threaded, t, q, s, island)
        enough = LOOSE * tolerance if first < last and steps >= ENOUGH else tolerance
        converged = error <= max(enough * scale, least)
        change = contact.limit_change(q, s, first, last) if converged and rounds < MOST_ROUNDS else 0.0
        if change > contact.CHANGE and (rounds < LEAST_ROUNDS or change < SETTLING * last_change):
            contact.update_limits(q, s, first, last)
            rounds, last_change = rounds + 1, change
            energy = _gather(threaded, t, q, s, island)
            error = _error(threaded, t, q, s, island)
            converged = error <= max(enough * scale, least)
        if converged or fraction == 0.0:
            break
        if steps < most:
            energy = _evaluate(threaded, t, q, s, island, True)
    worst, most_pull = -1, -1.0
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
            x, y, z = s.gradient[3 * i], s.gradient[3 * i + 1], s.gradient[3 * i + 2]
            pull = (x * x + y * y + z * z) / (t.mass[i] * t.mass[i])
            if pull > most_pull:
                worst, most_pull = i, pull
    r = s.report[island]
    r[0], r[1], r[2], r[3], r[4], r[5] = steps, iterations, 1.0 if converged else 0.0, left, shortest, worst
    r[6] = error / math.sqrt(mass)
    r[7] = scale / math.sqrt(mass)
    r[8] = energy
    limited = first == last and not q.moving[island] and q.numbers[5] == 0.0
    for k in range(q.body_range[island], q.body_range[island + 1]):
        b = q.body[k]
        _finish(t, q, s, b)
        if limited:
            _limit_energy(t, q, s, b)


# velocities and momenta --------------------------------------------------------------------------------------------


@compiled
def _mean(t, values, lo, hi):
    mass, x, y, z = 0.0, 0.0, 0.0, 0.0
    for i in range(lo, hi):
        m = t.mass[i]
        mass, x, y, z = mass + m, x + m * values[3 * i], y + m * values[3 * i + 1], z + m * values[3 * i + 2]
    return x / mass, y / mass, z / mass


@compiled
def _finish(t, q, s, b):
    """Write v, which holds v0 + h a; correct momenta of free bodies; extrapolate for the midpoint rule."""
    h, is_midpoint = q.numbers[0], q.numbers[5] > 0.0
    lo, hi = t.body_start[b], t.body_start[b + 1]
    wanted = _mean(t, s.v, lo, hi)
    for at in range(3 * lo, 3 * hi):
        s.v[at] = (s.x[at] - s.x0[at]) / h
    free = q.body_free[b]
    if free:
        _restore_linear(t, s, lo, hi, h, wanted)
    tx, ty, tz = _torque(t, s, lo, hi, h)
    if is_midpoint:
        tx, ty, tz = 2.0 * tx, 2.0 * ty, 2.0 * tz
        for i in range(lo, hi):
            for at in range(3 * i, 3 * i + 3):
                s.x[at] = 2.0 * s.x[at] - s.x0[at]
                s.v[at] = s.v[at] if q.held[i] else 2.0 * s.v[at] - s.v0[at]
    if free:
        budget = math.inf if is_midpoint else _budget(t, q, s, b)
        _restore_angular(t, s, lo, hi, tx, ty, tz, budget)


@compiled
def _restore_linear(t, s, lo, hi, h, wanted):
    """Shift positions and velocities to the exact mean velocity: internal forces sum to zero.

    Differences of positions would round it: momentum would drift far from the origin and in short steps.
    """
    now = _mean(t, s.v, lo, hi)
    for i in range(lo, hi):
        for c in range(3):
            off = wanted[c] - now[c]
            s.x[3 * i + c] += h * off
            s.v[3 * i + c] += off


@compiled
def _torque(t, s, lo, hi, h):
    """H Σ d × m a about the centre of mass."""
    cx, cy, cz = _mean(t, s.x, lo, hi)
    x, y, z = 0.0, 0.0, 0.0
    for i in range(lo, hi):
        at, m = 3 * i, t.mass[i] / h
        ax = m * (s.target[at] - s.x0[at] - h * s.v0[at])
        ay = m * (s.target[at + 1] - s.x0[at + 1] - h * s.v0[at + 1])
        az = m * (s.target[at + 2] - s.x0[at + 2] - h * s.v0[at + 2])
        dx, dy, dz = s.x[at] - cx, s.x[at + 1] - cy, s.x[at + 2] - cz
        x, y, z = x + (dy * az - dz * ay), y + (dz * ax - dx * az), z + (dx * ay - dy * ax)
    return x, y, z


@compiled
def _budget(t, q, s, b):
    """Kinetic energy that leaves the total at most that of the start plus the work of external forces."""
    h = q.numbers[0]
    budget = s.body_energy[b]
    for g in range(t.body_group[b], t.body_group[b + 1]):
        budget -= s.task_energy[g]
    for g in range(t.body_spring_group[b], t.body_spring_group[b + 1]):
        budget -= s.task_energy[len(t.group_model) + g]
    for i in range(t.body_start[b], t.body_start[b + 1]):
        for at in range(3 * i, 3 * i + 3):
            push = (s.target[at] - s.x0[at] - h * s.v0[at]) / (h * h)
            budget += t.mass[i] * (0.5 * s.v0[at] * s.v0[at] + push * (s.x[at] - s.x0[at]))
    return budget


@compiled
def _angular(t, x, v, lo, hi):
    """Angular momentum about the centre of mass."""
    cx, cy, cz = _mean(t, x, lo, hi)
    lx, ly, lz = 0.0, 0.0, 0.0
    for i in range(lo, hi):
        at, m = 3 * i, t.mass[i]
        dx, dy, dz = m * (x[at] - cx), m * (x[at + 1] - cy), m * (x[at + 2] - cz)
        lx += dy * v[at + 2] - dz * v[at + 1]
        ly += dz * v[at] - dx * v[at + 2]
        lz += dx * v[at + 1] - dy * v[at]
    return lx, ly, lz


@compiled
def _restore_angular(t, s, lo, hi, tx, ty, tz, budget):
    """Add ω × d with I ω = what is missing, scaled down where the kinetic energy would exceed ``budget``."""
    before, now = _angular(t, s.x0, s.v0, lo, hi), _angular(t, s.x, s.v, lo, hi)
    cx, cy, cz = _mean(t, s.x, lo, hi)
    xx, yy, zz, xy, xz, yz, kinetic = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(lo, hi):
        at, m = 3 * i, t.mass[i]
        dx, dy, dz = s.x[at] - cx, s.x[at + 1] - cy, s.x[at + 2] - cz
        xx, yy, zz = xx + m * (dy * dy + dz * dz), yy + m * (dx * dx + dz * dz), zz + m * (dx * dx + dy * dy)
        xy, xz, yz = xy - m * dx * dy, xz - m * dx * dz, yz - m * dy * dz
        kinetic += 0.5 * m * (s.v[at] * s.v[at] + s.v[at + 1] * s.v[at + 1] + s.v[at + 2] * s.v[at + 2])
    lx, ly, lz = before[0] + tx - now[0], before[1] + ty - now[1], before[2] + tz - now[2]
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * a + xy * b + xz * c
    if not determinant > SINGULAR * xx * yy * zz:
        return  # vertices on a line
    wx = (a * lx + b * ly + c * lz) / determinant
    wy = (b * lx + (xx * zz - xz * xz) * ly + (xy * xz - xx * yz) * lz) / determinant
    wz = (c * lx + (xy * xz - xx * yz) * ly + (xx * yy - xy * xy) * lz) / determinant
    linear = wx * now[0] + wy * now[1] + wz * now[2]
    square = 0.5 * (wx * lx + wy * ly + wz * lz)
    room = budget - kinetic
    share = 1.0
    if linear + square > room:
        # the larger root of square s² + linear s = room, if there is room
        share = 0.0
        if room > 0.0 and square > 0.0:
            share = 2.0 * room / (linear + math.sqrt(linear * linear + 4.0 * square * room))
            share = min(max(share, 0.0), 1.0)
    wx, wy, wz = share * wx, share * wy, share * wz
    for i in range(lo, hi):
        at = 3 * i
        dx, dy, dz = s.x[at] - cx, s.x[at + 1] - cy, s.x[at + 2] - cz
        s.v[at] += wy * dz - wz * dy
        s.v[at + 1] += wz * dx - wx * dz
        s.v[at + 2] += wx * dy - wy * dx


@compiled
def _limit_energy(t, q, s, b):
    """Scale velocities down where energy exceeds that of the start plus the work of external forces.

    Rounding of positions changes energies by δ (δ + √(2 E)), δ = ε |x| √tr(D), D the diagonal; the energy of a tet,
    a difference of larger numbers, is rounded to ε of these.
    """
    lo, hi = t.body_start[b], t.body_start[b + 1]
    is_held = False
    for i in range(lo, hi):
        is_held = is_held or q.held[i] != 0
    mean = (0.0, 0.0, 0.0) if is_held else _mean(t, s.v, lo, hi)
    center = _mean(t, s.x, lo, hi)
    kinetic, inner, trace, far, size = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(lo, hi):
        for c in range(3):
            v, x = s.v[3 * i + c], s.x[3 * i + c]
            kinetic += 0.5 * t.mass[i] * v * v
            inner += 0.5 * t.mass[i] * (v - mean[c]) * (v - mean[c])
            trace += s.diagonal[6 * i + c]
            far, size = max(far, abs(x)), max(size, abs(x - center[c]))
    energy = kinetic + s.body_energy[b]
    moved = EPSILON * far * math.sqrt(trace)
    rounding = ROUNDING * energy + moved * (moved + math.sqrt(2.0 * energy))
    if t.body_group[b] < t.body_group[b + 1]:
        rounding += EPSILON * trace * size * size
    excess = kinetic - _budget(t, q, s, b)
    if inner == 0.0 or not excess > rounding:
        return
    share = math.sqrt(max(1.0 - excess / inner, 0.0))
    for i in range(lo, hi):
        for c in range(3):
            at = 3 * i + c
            s.v[at] = mean[c] + share * (s.v[at] - mean[c])


@kernel(parallel_from=2)
def solve_islands(t, q, s, islands):
    """Solve islands side by side, each on one thread."""
    for k in prange(len(islands)):
        solve_island(None, t, q, s, islands[k])
