"""Momenta of bodies in contact after an implicit step, for ``implicit_steps``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled

SINGULAR = 1e-10
"""Determinant of an inertia relative to the product of its diagonal, below which vertices lie on a line."""


@compiled
def add_couples(rows, normal_jacobian, slip_jacobian, x, normal_force, friction_force, body_a, body_b, couple):
    """Add half of the torque of each contact of ``rows`` on its two bodies together to each of them."""
    for c in rows:
        p = normal_force[c]
        fx, fy, fz = friction_force[c, 0], friction_force[c, 1], friction_force[c, 2]
        tx, ty, tz = 0.0, 0.0, 0.0
        start, vertex, weight = normal_jacobian
        for e in range(start[c], start[c + 1]):
            v = vertex[e]
            gx, gy, gz = -p * weight[e, 0], -p * weight[e, 1], -p * weight[e, 2]
            tx += x[v, 1] * gz - x[v, 2] * gy
            ty += x[v, 2] * gx - x[v, 0] * gz
            tz += x[v, 0] * gy - x[v, 1] * gx
        start, vertex, block = slip_jacobian
        for e in range(start[c], start[c + 1]):
            v = vertex[e]
            gx = -(block[e, 0, 0] * fx + block[e, 1, 0] * fy + block[e, 2, 0] * fz)
            gy = -(block[e, 0, 1] * fx + block[e, 1, 1] * fy + block[e, 2, 1] * fz)
            gz = -(block[e, 0, 2] * fx + block[e, 1, 2] * fy + block[e, 2, 2] * fz)
            tx += x[v, 1] * gz - x[v, 2] * gy
            ty += x[v, 2] * gx - x[v, 0] * gz
            tz += x[v, 0] * gy - x[v, 1] * gx
        for b in (body_a[c], body_b[c]):
            couple[b, 0] += 0.5 * tx
            couple[b, 1] += 0.5 * ty
            couple[b, 2] += 0.5 * tz


@compiled
def balance(mass, push, couple, h, restores, x, before, after):
    """Correct velocities: the change of momentum is ``push``. With ``restores``, spin is corrected too.

    Positions stay: stiff contacts would turn a shift by the error of forces to energy.

    ``couple`` is the spin that contacts have added and that no other body has lost.

    Backward Euler loses h Σ m v × v0 of the spin per step, velocities relative to the mean. A rotation of the
    velocities restores it, as far as it adds no more kinetic energy than Σ m |v - v0|² / 2, which the step loses at
    least.
    """
    n = len(mass)
    total = 0.0
    cx, cy, cz, ox, oy, oz, vx, vy, vz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        m = mass[i]
        total += m
        cx, cy, cz = cx + m * x[i, 0], cy + m * x[i, 1], cz + m * x[i, 2]
        ox, oy, oz = ox + m * before[i, 0], oy + m * before[i, 1], oz + m * before[i, 2]
        vx, vy, vz = vx + m * after[i, 0], vy + m * after[i, 1], vz + m * after[i, 2]
    sx, sy, sz = (push[0] - (vx - ox)) / total, (push[1] - (vy - oy)) / total, (push[2] - (vz - oz)) / total
    for i in range(n):
        after[i, 0] += sx
        after[i, 1] += sy
        after[i, 2] += sz
    if not restores:
        return
    cx, cy, cz = cx / total, cy / total, cz / total
    ox, oy, oz = ox / total, oy / total, oz / total
    vx, vy, vz = vx / total + sx, vy / total + sy, vz / total + sz
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    lx, ly, lz, px, py, pz, allowed = -couple[0], -couple[1], -couple[2], 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        m = mass[i]
        dx, dy, dz = x[i, 0] - cx, x[i, 1] - cy, x[i, 2] - cz
        xx, yy, zz = xx + m * (dy * dy + dz * dz), yy + m * (dx * dx + dz * dz), zz + m * (dx * dx + dy * dy)
        xy, xz, yz = xy - m * dx * dy, xz - m * dx * dz, yz - m * dy * dz
        ux, uy, uz = before[i, 0] - ox, before[i, 1] - oy, before[i, 2] - oz
        wx, wy, wz = after[i, 0] - vx, after[i, 1] - vy, after[i, 2] - vz
        lx -= h * m * (wy * uz - wz * uy)
        ly -= h * m * (wz * ux - wx * uz)
        lz -= h * m * (wx * uy - wy * ux)
        px += m * (dy * wz - dz * wy)
        py += m * (dz * wx - dx * wz)
        pz += m * (dx * wy - dy * wx)
        allowed += 0.5 * m * ((wx - ux) * (wx - ux) + (wy - uy) * (wy - uy) + (wz - uz) * (wz - uz))
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * a + xy * b + xz * c
    if not determinant > SINGULAR * xx * yy * zz:
        return
    wx = (a * lx + b * ly + c * lz) / determinant
    wy = (b * lx + (xx * zz - xz * xz) * ly + (xy * xz - xx * yz) * lz) / determinant
    wz = (c * lx + (xy * xz - xx * yz) * ly + (xx * yy - xy * xy) * lz) / determinant
    slope, square = wx * px + wy * py + wz * pz, 0.5 * (wx * lx + wy * ly + wz * lz)
    part = 1.0
    if slope + square > allowed:
        part = 2.0 * allowed / (slope + math.sqrt(slope * slope + 4.0 * square * allowed)) if allowed > 0.0 else 0.0
    wx, wy, wz = part * wx, part * wy, part * wz
    for i in range(n):
        dx, dy, dz = x[i, 0] - cx, x[i, 1] - cy, x[i, 2] - cz
        after[i, 0] += wy * dz - wz * dy
        after[i, 1] += wz * dx - wx * dz
        after[i, 2] += wx * dy - wy * dx
