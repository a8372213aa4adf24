"""Free velocities and the move of a sub-step, for ``substeps``."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange


@kernel()
def fall(h, v, force, inverse_mass, gravity, free):
    """Find velocities after ``h`` without contacts; ``inverse_mass`` is 0 where vertices do as they are told."""
    for n in prange(len(v)):
        for c in range(3):
            own = gravity[c] if inverse_mass[n] > 0.0 else 0.0
            free[n, c] = v[n, c] + h * (force[n, c] * inverse_mass[n] + own)


@kernel()
def move(h, x, free, contact, inverse_mass, moves, new_x, new_v):
    """Let contacts act, and go on with the new velocities where bodies move."""
    for n in prange(len(x)):
        for c in range(3):
            new_v[n, c] = free[n, c] + h * (contact[n, c] * inverse_mass[n])
            new_x[n, c] = x[n, c] + h * new_v[n, c] if moves[n] else x[n, c]
