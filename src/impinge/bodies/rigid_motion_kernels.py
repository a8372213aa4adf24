"""Free motion and poses of rigid bodies, for ``rigid_motion``.

The corners of a body are rows of ``x`` and ``v``. ``arms`` are their positions at rest relative to the centre,
``duals`` give the deformation gradient F = Σ (x_i - c) dual_iᵀ, ``axes`` the principal axes at rest as columns.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled

CORNERS = 4
TURN = 0.1
"""Largest angle of a part of the free rotation [rad]."""
MOST_PARTS = 10_000
OUTER, INNER = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0)), 1.0 - 4.0 / (4.0 - 4.0 ** (1.0 / 3.0))
"""Shares of a part: five steps of second order make one of fourth order (Suzuki's composition)."""
ROUNDS = 60
EPSILON = 2.0**-52


@compiled
def _inverse(m, out):
    """Inverse of a 3x3 matrix; returns its determinant."""
    a = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
    b = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
    c = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
    determinant = m[0, 0] * a + m[0, 1] * b + m[0, 2] * c
    out[0, 0], out[1, 0], out[2, 0] = a, b, c
    out[0, 1] = m[0, 2] * m[2, 1] - m[0, 1] * m[2, 2]
    out[1, 1] = m[0, 0] * m[2, 2] - m[0, 2] * m[2, 0]
    out[2, 1] = m[0, 1] * m[2, 0] - m[0, 0] * m[2, 1]
    out[0, 2] = m[0, 1] * m[1, 2] - m[0, 2] * m[1, 1]
    out[1, 2] = m[0, 2] * m[1, 0] - m[0, 0] * m[1, 2]
    out[2, 2] = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    for i in range(3):
        for j in range(3):
            out[i, j] /= determinant
    return determinant


@compiled
def _nearest_rotation(m):
    """The rotation nearest to ``m`` by Newton's iteration (R + R⁻ᵀ) / 2; NaN where the determinant is not positive."""
    inverse = np.zeros((3, 3))
    for _ in range(ROUNDS):
        if not _inverse(m, inverse) > 0.0:
            m[:, :] = math.nan
            return
        change = 0.0
        for i in range(3):
            for j in range(3):
                new = 0.5 * (m[i, j] + inverse[j, i])
                change = max(change, abs(new - m[i, j]))
                m[i, j] = new
        if change <= 4.0 * EPSILON:
            return


@compiled
def _multiply(a, b, out):
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]


@compiled
def _multiply_transposed(a, b, out):
    """``a`` times the transpose of ``b``."""
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[j, 0] + a[i, 1] * b[j, 1] + a[i, 2] * b[j, 2]


@compiled
def _mean(x, row, out):
    for c in range(3):
        out[c] = 0.25 * ((x[row, c] + x[row + 1, c]) + (x[row + 2, c] + x[row + 3, c]))


@compiled
def _rotation_of(x, row, centre, duals, out):
    """The rotation of corners relative to rest."""
    out[:, :] = 0.0
    for k in range(CORNERS):
        for i in range(3):
            for j in range(3):
                out[i, j] += (x[row + k, i] - centre[i]) * duals[k, j]
    _nearest_rotation(out)


@compiled
def _moment(quarter, x, centre, v, row, out):
    """Σ m / 4 (x_i - centre) × v_i."""
    out[:] = 0.0
    for k in range(row, row + CORNERS):
        a, b, c = x[k, 0] - centre[0], x[k, 1] - centre[1], x[k, 2] - centre[2]
        out[0] += quarter * (b * v[k, 2] - c * v[k, 1])
        out[1] += quarter * (c * v[k, 0] - a * v[k, 2])
        out[2] += quarter * (a * v[k, 1] - b * v[k, 0])


@compiled
def _step_freely(inertia, momentum, rotation, h):
    """One step of second order, symmetric in time, which keeps the momentum in space and the energy.

    The body turns by the Cayley transform of a = h w / 2, w the mean of the angular velocities at both ends: p becomes
    p + 2 / (1 + a·a) (a × p + a × (a × p)). In its frame the momentum turns back. Iterated to rounding.
    """
    px, py, pz = momentum[0], momentum[1], momentum[2]
    qx, qy, qz = px, py, pz
    x, y, z = 0.0, 0.0, 0.0
    for _ in range(ROUNDS):
        x = 0.25 * h * (px + qx) / inertia[0]
        y = 0.25 * h * (py + qy) / inertia[1]
        z = 0.25 * h * (pz + qz) / inertia[2]
        s = 2.0 / (1.0 + x * x + y * y + z * z)
        ux, uy, uz = py * z - pz * y, pz * x - px * z, px * y - py * x
        nx = px + s * (ux + (uy * z - uz * y))
        ny = py + s * (uy + (uz * x - ux * z))
        nz = pz + s * (uz + (ux * y - uy * x))
        change = max(abs(nx - qx), abs(ny - qy), abs(nz - qz))
        qx, qy, qz = nx, ny, nz
        if change <= 2.0 * EPSILON * (abs(qx) + abs(qy) + abs(qz)):
            break
    momentum[0], momentum[1], momentum[2] = qx, qy, qz
    s = 2.0 / (1.0 + x * x + y * y + z * z)
    for i in range(3):  # rows turn back as well
        a, b, c = rotation[i, 0], rotation[i, 1], rotation[i, 2]
        ux, uy, uz = b * z - c * y, c * x - a * z, a * y - b * x
        rotation[i, 0] = a + s * (ux + (uy * z - uz * y))
        rotation[i, 1] = b + s * (uy + (uz * x - ux * z))
        rotation[i, 2] = c + s * (uz + (ux * y - uy * x))


@compiled
def _rotate_freely(inertia, momentum, rotation, duration):
    """Turn the principal frame ``rotation`` by free motion with a momentum in the body frame."""
    twice, size = 0.0, 0.0
    for c in range(3):
        twice += momentum[c] * momentum[c] / inertia[c]
        size += momentum[c] * momentum[c]
    least = min(inertia[0], inertia[1], inertia[2])
    # The angular velocity is at most √(2 E / I); iterations converge for h |momentum| / I below 2, I the least inertia.
    parts = duration * max(math.sqrt(twice / least) / TURN, math.sqrt(size) / least)
    if not 0.0 < parts < math.inf:
        return
    count = int(min(math.ceil(parts), MOST_PARTS))
    h = duration / count
    for _ in range(count):
        _step_freely(inertia, momentum, rotation, OUTER * h)
        _step_freely(inertia, momentum, rotation, OUTER * h)
        _step_freely(inertia, momentum, rotation, INNER * h)
        _step_freely(inertia, momentum, rotation, OUTER * h)
        _step_freely(inertia, momentum, rotation, OUTER * h)


@compiled
def begin(h, is_midpoint, awake, rows, mass, arms, duals, axes, inertia, x, v, momentum, early, late):
    """Set ``v`` to the chords of the free motion; keep angular momenta about centres and rotations.

    ``late`` is the rotation after ``h``, ``early`` that at the time of forces: after ``h``, or ``h`` / 2 for the
    midpoint rule, whose chords end there.
    """
    centre, velocity, local = np.zeros(3), np.zeros(3), np.zeros(3)
    frame, now = np.zeros((3, 3)), np.zeros((3, 3))
    reach = 0.5 * h if is_midpoint else h
    for b in range(len(rows)):
        if not awake[b]:
            continue
        row = rows[b]
        _mean(x, row, centre)
        _mean(v, row, velocity)
        _rotation_of(x, row, centre, duals[b], now)
        _moment(0.25 * mass[b], x, centre, v, row, momentum[b])
        _multiply(now, axes[b], frame)
        for c in range(3):
            local[c] = frame[0, c] * momentum[b, 0] + frame[1, c] * momentum[b, 1] + frame[2, c] * momentum[b, 2]
        _rotate_freely(inertia[b], local, frame, reach)
        _multiply_transposed(frame, axes[b], early[b])
        if is_midpoint:
            _rotate_freely(inertia[b], local, frame, h - reach)
        _multiply_transposed(frame, axes[b], late[b])
        for k in range(CORNERS):
            for c in range(3):
                moved = early[b, c, 0] * arms[b, k, 0] + early[b, c, 1] * arms[b, k, 1] + early[b, c, 2] * arms[b, k, 2]
                v[row + k, c] = velocity[c] + (moved - (x[row + k, c] - centre[c])) / reach


@compiled
def end(
    is_midpoint, awake, touched, couple, rows, mass, arms, duals, axes, inertia, x0, chord, x, v, momentum, early, late
):
    """Set rigid poses and velocities with the momenta that forces have changed."""
    centre, velocity, half, torque = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    rotation, turn, work = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((3, 3))
    at, push, omega, local = np.zeros((CORNERS, 3)), np.zeros((CORNERS, 3)), np.zeros(3), np.zeros(3)
    for b in range(len(rows)):
        if not awake[b]:
            continue
        row = rows[b]
        _mean(x, row, centre)
        _mean(v, row, velocity)
        rotation[:, :] = late[b]
        if touched[b]:
            for k in range(CORNERS):
                for c in range(3):
                    at[k, c] = 0.5 * (x0[row + k, c] + x[row + k, c]) if is_midpoint else x[row + k, c]
                    push[k, c] = v[row + k, c] - chord[row + k, c]
            _mean(at, 0, half)
            _mean(push, 0, local)
            for k in range(CORNERS):
                for c in range(3):
                    push[k, c] -= local[c]
            _moment(0.25 * mass[b], at, half, push, 0, torque)
            for c in range(3):
                momentum[b, c] += torque[c] - couple[b, c]
            _rotation_of(at, 0, half, duals[b], rotation)
            if is_midpoint:  # the change by forces at the middle is half of that at the end
                _multiply_transposed(rotation, early[b], turn)
                _multiply(turn, turn, work)
                _multiply(work, late[b], rotation)
        _nearest_rotation(rotation)
        _multiply(rotation, axes[b], work)
        for c in range(3):
            local[c] = (
                work[0, c] * momentum[b, 0] + work[1, c] * momentum[b, 1] + work[2, c] * momentum[b, 2]
            ) / inertia[b, c]
        for c in range(3):
            omega[c] = work[c, 0] * local[0] + work[c, 1] * local[1] + work[c, 2] * local[2]
        for k in range(CORNERS):
            for c in range(3):
                at[k, c] = (
                    rotation[c, 0] * arms[b, k, 0] + rotation[c, 1] * arms[b, k, 1] + rotation[c, 2] * arms[b, k, 2]
                )
                x[row + k, c] = centre[c] + at[k, c]
            v[row + k, 0] = velocity[0] + (omega[1] * at[k, 2] - omega[2] * at[k, 1])
            v[row + k, 1] = velocity[1] + (omega[2] * at[k, 0] - omega[0] * at[k, 2])
            v[row + k, 2] = velocity[2] + (omega[0] * at[k, 1] - omega[1] * at[k, 0])
