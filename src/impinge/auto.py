"""Which method fits: decided from what is asked and what the bodies are, never by the clock."""

from __future__ import annotations


def choose_contacts(closed_count: int, body_count: int) -> tuple[str, str]:
    """The way to find contacts in a world, and why."""
    if closed_count == 0:
        return "pairs", f"none of {body_count} bodies is closed, so that nothing has an inside to measure depths in"
    return "vertices", f"{closed_count} of {body_count} bodies are closed, and vertices inside them have depths"
