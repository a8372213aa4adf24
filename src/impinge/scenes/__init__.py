"""Named scenes and scene files: tests, benchmarks, demos and pages use the same ones.

Imports: ``simulate`` and rooms to its left, and ``published``.
Imports neither ``view`` nor any room to its right.
"""

from impinge.scenes.registry import Scene, get, names

__all__ = ["Scene", "get", "names", "SMALL"]

SMALL = names("small")
"""Scenes of two bodies that brute force solves in milliseconds."""
