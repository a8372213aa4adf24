"""The four stages of a Runge-Kutta step, for ``integrate``."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange


@kernel()
def stage(first, weight, step, x, v, force, inverse_mass, base, stage_x, stage_v, sum_v, sum_a):
    """Add the slopes of a stage to the sums, and move from the start by ``step`` along them to the next stage.

    The acceleration is force times ``inverse_mass`` plus ``base``; both are zero for fixed and prescribed vertices.
    """
    for n in prange(len(x)):
        for c in range(3):
            a = force[n, c] * inverse_mass[n] + base[n, c]
            w = stage_v[n, c]
            sum_v[n, c] = weight * w if first else sum_v[n, c] + weight * w
            sum_a[n, c] = weight * a if first else sum_a[n, c] + weight * a
            stage_x[n, c] = x[n, c] + step * w
            stage_v[n, c] = v[n, c] + step * a


@kernel()
def finish(sixth, x, v, sum_v, sum_a, new_x, new_v):
    """Move from the start along the weighted slopes."""
    for n in prange(len(x)):
        for c in range(3):
            new_x[n, c] = x[n, c] + sixth * sum_v[n, c]
            new_v[n, c] = v[n, c] + sixth * sum_a[n, c]
