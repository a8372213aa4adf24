"""A busy-wait loop: its delay is that of the machine itself."""

# mypy: ignore-errors

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled


@compiled
def wait(nanoseconds):
    """Read the clock until the time has passed."""
    end = monotonic_ns() + nanoseconds
    while monotonic_ns() < end:
        pass
