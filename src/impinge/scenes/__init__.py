"""Named scenes: what a test verifies, a benchmark times and a page shows is the same."""

from impinge.scenes.registry import Scene, get, names

__all__ = ["Scene", "get", "names", "SMALL"]

SMALL = names("small")
"""Scenes of two bodies that an exhaustive test settles in a moment."""
