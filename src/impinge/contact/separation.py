"""A translation that moves one body clear of another, verified by the exact test.

1. Directions  The caller's, such as contact normals, then the line of the centres of both boxes, and the six axes.
2. Far end     Along a direction, b is clear of a at the latest where their projections do not overlap.
3. Bisection   between a distance at which they meet and one at which they do not, until both differ by less than
               ``PRECISION`` of the length, or the bodies are clear at ``SMALLEST`` of their size. A direction that is
               not clear at the best length so far is left out.
4. Round       to six digits before the test: a printed translation is the one that was tested.

Verified  Every translation that counts as clear passed the exact test on the positions ``x_b + translation`` in
          doubles: no triangles meet, and no body is inside the other.
Shortest? No: the shortest of the directions tried. Where b is clear nearer than a distance at which it still meets a,
          as in a cavity, bisection may find either.
"""

from __future__ import annotations

import math

import numpy as np

from impinge.checks import Floats
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.proximity.relation import relation_of
from impinge.mesh.tri_mesh import TriMesh

PRECISION = 1e-3
"""Relative length at which bisection stops."""
SMALLEST = 1e-6
"""Length, as a fraction of the size of both bodies, below which a translation is short enough."""
DIGITS = 6
"""Of the largest coordinate of a translation."""
AXES = np.concatenate([np.eye(3), -np.eye(3)])


def separating_translation(a: TriMesh, b: TriMesh, directions: Floats) -> Floats | None:
    """The shortest verified translation of ``b`` along ``directions`` and the usual ones; None if there is none."""
    x_a, x_b = (body.vertices[np.unique(body.faces[body.alive])] for body in (a, b))
    rest = b.vertices.copy()
    moved = TriMesh(rest, b.faces, validate="trust")
    moved.remove_triangles(np.flatnonzero(~b.alive))
    detector = BoxTree(a, moved)

    def clear(translation: Floats) -> bool:
        moved.update(rest + translation)
        return relation_of(detector.query(max_pairs=1), a, moved) == "disjoint"

    middle = x_b.min(axis=0) + x_b.max(axis=0) - x_a.min(axis=0) - x_a.max(axis=0)
    candidates = np.concatenate([directions, middle[None], AXES])
    length = np.linalg.norm(candidates, axis=1)
    candidates = candidates[(length > 0.0) & (length < np.inf)] / length[(length > 0.0) & (length < np.inf), None]
    far = (x_a @ candidates.T).max(axis=0) - (x_b @ candidates.T).min(axis=0)
    smallest = SMALLEST * float(np.ptp(np.concatenate([x_a, x_b]), axis=0).max())
    best: Floats | None = None
    for u, distance in zip(candidates, far):
        shortest = math.inf if best is None else float(np.linalg.norm(best))
        high = min((1.0 + PRECISION) * float(distance) + smallest, (1.0 - PRECISION) * shortest)
        found = _rounded(high * u)
        if not high > 0.0 or not np.isfinite(found).all() or not clear(found):
            continue
        low = 0.0
        while high - low > PRECISION * high and high > smallest:
            tried = _rounded(0.5 * (low + high) * u)
            if clear(tried):
                found, high = tried, 0.5 * (low + high)
            else:
                low = 0.5 * (low + high)
        best = found
    return best


def _rounded(translation: Floats) -> Floats:
    """A translation whose coordinates have at most ``DIGITS`` digits in print."""
    largest = float(np.abs(translation).max())
    if not 0.0 < largest < math.inf:
        return translation
    places = DIGITS - 1 - math.floor(math.log10(largest))
    return np.array([round(float(x), places) for x in translation]) + 0.0  # + 0.0: no -0
