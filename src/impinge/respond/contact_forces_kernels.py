"""Projected Gauss-Seidel sweeps over contact constraints, for ``contact_forces``.

A Jacobian is a triple (start, vertex, weight). Row i has the entries start[i] to start[i + 1]; each entry is a coarse
vertex and a vector (normal Jacobian) or a 3 x 3 matrix (slip Jacobian). A vertex may occur twice in one row.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.deform.implicit.contact_kernels import layer


@compiled
def layer_energies(rows, stiffness, wall, depth, energy):
    """Write the energies of the given contacts."""
    for i in range(len(rows)):
        c = rows[i]
        energy[c] = layer(stiffness[c], wall[c], depth[c])[2]


@compiled
def _depth_rate(i, normal_jacobian, v):
    start, vertex, weight = normal_jacobian
    total = 0.0
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        total += weight[e, 0] * v[n, 0] + weight[e, 1] * v[n, 1] + weight[e, 2] * v[n, 2]
    return total


@compiled
def depth_rates(normal_jacobian, v, out):
    """Write the depth rate G v of each contact."""
    for i in range(len(out)):
        out[i] = _depth_rate(i, normal_jacobian, v)


@compiled
def add_forces(normal_jacobian, slip_jacobian, normal_force, friction_force, out):
    """Add -Gᵀ normal_force - Sᵀ friction_force to ``out``."""
    start, vertex, weight = normal_jacobian
    for i in range(len(normal_force)):
        if normal_force[i] == 0.0:
            continue
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                out[vertex[e], c] -= weight[e, c] * normal_force[i]
    start, vertex, block = slip_jacobian
    for i in range(len(normal_force)):
        if friction_force[i, 0] == 0.0 and friction_force[i, 1] == 0.0 and friction_force[i, 2] == 0.0:
            continue
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                for r in range(3):
                    out[vertex[e], c] -= block[e, r, c] * friction_force[i, r]


@compiled
def own_responses(normal_jacobian, slip_jacobian, inverse_mass, scratch, block_sum, response_n, response_t):
    """Write the effective inverse mass of each contact: the change of its own speed per unit of impulse.

    ``response_n`` is the diagonal entry of G M⁻¹ Gᵀ. ``response_t`` bounds the 3 x 3 block of S M⁻¹ Sᵀ by its largest
    absolute row sum. ``scratch`` has shape (n, 3, 3), ``block_sum`` (3, 3); ``scratch`` is zero on entry and on return.
    """
    start, vertex, weight = normal_jacobian
    for i in range(len(response_n)):
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                scratch[vertex[e], 0, c] += weight[e, c]
        total = 0.0
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for c in range(3):
                total += inverse_mass[n] * scratch[n, 0, c] * scratch[n, 0, c]
                scratch[n, 0, c] = 0.0
        response_n[i] = total
    start, vertex, block = slip_jacobian
    for i in range(len(response_t)):
        for e in range(start[i], start[i + 1]):
            for r in range(3):
                for c in range(3):
                    scratch[vertex[e], r, c] += block[e, r, c]
        block_sum[:, :] = 0.0
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for r in range(3):
                for q in range(3):
                    for c in range(3):
                        block_sum[r, q] += inverse_mass[n] * scratch[n, r, c] * scratch[n, q, c]
            scratch[n, :, :] = 0.0
        response_t[i] = 0.0
        for r in range(3):
            response_t[i] = max(response_t[i], abs(block_sum[r, 0]) + abs(block_sum[r, 1]) + abs(block_sum[r, 2]))


@compiled
def solve(
    h, since, max_sweeps, tolerance, normal_jacobian, slip_jacobian, inverse_mass, normal, depth, stiffness, relax,
    response_n, response_t, scale, unit, rate, drive, friction, dx, free,
    # in and out
    normal_force, friction_force, force,
):  # fmt: skip
    """Solve for the contact forces over a sub-step ``h`` and add them to ``force``.

    ``normal_force`` and ``friction_force`` hold the forces of the previous sub-step on entry (warm start). Sweeps end
    when no speed changes by more than ``tolerance`` times the largest speed in ``free``, or after ``max_sweeps``.
    """
    count = 0
    active, slip = np.empty(len(normal_force), dtype=np.int64), np.empty(3)
    bias, gain = np.empty(len(normal_force)), np.empty(len(normal_force))
    for i in range(len(normal_force)):
        now = depth[i] + _depth_rate(i, normal_jacobian, dx) + since * rate[i]
        if now + h * (_depth_rate(i, normal_jacobian, free) + rate[i]) > 0.0:
            active[count] = i
            count += 1
            bias[i], gain[i] = h * stiffness[i] * now, h * stiffness[i] * (h + relax[i])
        else:
            normal_force[i] = 0.0
            friction_force[i] = 0.0
    v, fastest = np.zeros_like(free), 0.0
    add_forces(normal_jacobian, slip_jacobian, normal_force, friction_force, v)
    for n in range(len(free)):
        for c in range(3):
            fastest = max(fastest, abs(free[n, c]))
            v[n, c] = free[n, c] + h * inverse_mass[n] * v[n, c]
    normal_force *= h  # sweeps work on impulses
    friction_force *= h
    for _ in range(max_sweeps):
        largest = _sweep(
            normal_jacobian, slip_jacobian, inverse_mass, normal, active[:count], bias, gain, response_n, response_t,
            scale, unit, rate, drive, friction, normal_force, friction_force, v, slip,
        )  # fmt: skip
        if largest <= tolerance * fastest:
            break
    normal_force /= h
    friction_force /= h
    add_forces(normal_jacobian, slip_jacobian, normal_force, friction_force, force)


@compiled
def _sweep(
    normal_jacobian, slip_jacobian, inverse_mass, normal, active, bias, gain, response_n, response_t, scale, unit, rate,
    drive, friction,
    # in and out
    normal_impulse, friction_impulse, v, slip,
):  # fmt: skip
    """Solve each active contact in turn with all others fixed; return the largest change of speed.

    ``scale`` is the force on a body per unit of normal force. ``unit`` converts a depth rate into a speed: 1, and an
    area for volumes. ``v`` already includes both impulses. ``slip`` is scratch of length 3.
    """
    start, vertex, weight = normal_jacobian
    largest = 0.0
    for i in active:
        u = rate[i] + _depth_rate(i, normal_jacobian, v)
        change = max((bias[i] + gain[i] * u - normal_impulse[i]) / (1.0 + gain[i] * response_n[i]), -normal_impulse[i])
        normal_impulse[i] += change
        largest = max(largest, abs(change) * response_n[i] / unit[i])
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for c in range(3):
                v[n, c] -= inverse_mass[n] * weight[e, c] * change
        if friction[i] > 0.0 and response_t[i] > 0.0:
            limit = friction[i] * normal_impulse[i] * scale[i]
            change = _solve_friction(
                i, slip_jacobian, inverse_mass, normal, response_t, drive, limit, friction_impulse, v, slip
            )
            largest = max(largest, change)
    return largest


@compiled
def _solve_friction(i, slip_jacobian, inverse_mass, normal, response_t, drive, limit, friction_impulse, v, slip):
    """Project the friction impulse of contact ``i`` onto its cone; return the largest change of slip speed."""
    start, vertex, block = slip_jacobian
    for r in range(3):
        slip[r] = drive[i, r]
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        for r in range(3):
            slip[r] += block[e, r, 0] * v[n, 0] + block[e, r, 1] * v[n, 1] + block[e, r, 2] * v[n, 2]
    along_normal = slip[0] * normal[i, 0] + slip[1] * normal[i, 1] + slip[2] * normal[i, 2]
    size = 0.0
    for r in range(3):
        slip[r] = friction_impulse[i, r] + (slip[r] - along_normal * normal[i, r]) / response_t[i]
        size += slip[r] * slip[r]
    size = size**0.5
    share = limit / size if size > limit else 1.0
    largest = 0.0
    for r in range(3):
        slip[r] = share * slip[r] - friction_impulse[i, r]
        friction_impulse[i, r] += slip[r]
        largest = max(largest, abs(slip[r]))
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        for c in range(3):
            change = block[e, 0, c] * slip[0] + block[e, 1, c] * slip[1] + block[e, 2, c] * slip[2]
            v[n, c] -= inverse_mass[n] * change
    return largest * response_t[i]
