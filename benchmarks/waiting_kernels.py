"""A loop that waits, for comparison: how late the machine itself makes what only looks at the clock."""

# mypy: ignore-errors

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled


@compiled
def wait(nanoseconds):
    """Look at the clock until some time has passed."""
    end = monotonic_ns() + nanoseconds
    while monotonic_ns() < end:
        pass
