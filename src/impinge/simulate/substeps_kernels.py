"""Velocity and position updates of a sub-step, for ``substeps``."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange


@kernel()
def free_velocities(h, v, force, inverse_mass, gravity, free):
    """Write velocities after ``h`` without contacts; ``inverse_mass`` is 0 for vertices with prescribed motion."""
    for n in prange(len(v)):
        for c in range(3):
            own = gravity[c] if inverse_mass[n] > 0.0 else 0.0
            free[n, c] = v[n, c] + h * (force[n, c] * inverse_mass[n] + own)


@kernel()
def advance(h, x, free, contact, inverse_mass, moves, new_x, new_v):
    """Apply contact forces, then advance positions with the new velocities where ``moves``."""
    for n in prange(len(x)):
        for c in range(3):
            new_v[n, c] = free[n, c] + h * (contact[n, c] * inverse_mass[n])
            new_x[n, c] = x[n, c] + h * new_v[n, c] if moves[n] else x[n, c]
