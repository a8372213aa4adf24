"""The exact test of a motion: which features meet as surfaces move along straight lines.

1. Near    Boxes around both ends of the motion of each body. Pairs of bodies whose boxes overlap, and bodies that may
           meet themselves, are tested; others keep apart.
2. Test    each pair by continuous collision detection (``detect.continuous``), exact, with near pairs kept over steps.
3. Ground  Vertices above the ground at the start and not at the end, for bodies whose box reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from impinge.checks import Floats, Ints
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.continuous.impact_results import Impacts
from impinge.detect.continuous.impact_tracker import ImpactTracker
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.contact import verification_kernels as kernels
from impinge.simulate.contact.near_pairs import pairs_of_impacts
from impinge.simulate.contact.pairs import Pairs, joined
from impinge.simulate.search.constraints import GROUND

Ground = tuple[Floats, float]
"""Unit normal and height of the ground."""
ROUNDING = 2.0**-48
"""Generous for a handful of roundings of 2^-53 each."""


class Verification:
    """Tests the motions of some surfaces; keeps what helps the next test."""

    def __init__(self, surfaces: list[TriMesh], itself: Sequence[int]) -> None:
        self._surfaces, self._itself = surfaces, list(itself)
        self._trackers: dict[tuple[int, int], ImpactTracker] = {}
        self._used: list[tuple[object, Ints]] = [(None, np.zeros(0, dtype=np.int32))] * len(surfaces)
        self._boxes = np.zeros((len(surfaces), 2, 3))
        self._seen: list[object] = [None] * len(surfaces)

    def tracker(self, a: int, b: int) -> ImpactTracker:
        """The search for one pair of bodies, or one body with itself."""
        if (a, b) not in self._trackers:
            self._trackers[a, b] = ImpactTracker(self._surfaces[a], None if a == b else self._surfaces[b])
        return self._trackers[a, b]

    def impacts(
        self, ends: Sequence[Floats], ground: Ground | None, dynamic: Sequence[int],
        allowed: Callable[[int, int], bool], counted: Callable[[int, int, Impacts], Impacts],
    ) -> Pairs:  # fmt: skip
        """Pairs that meet as surfaces move to ``ends``.

        ``allowed`` says which bodies to test, ``counted`` selects the impacts of two bodies that count. Of the bodies
        in ``dynamic``, vertices that fall through the ground count too.
        """
        starts = [surface.vertices for surface in self._surfaces]
        is_moved = [end is not start for start, end in zip(starts, ends)]
        boxes = self._boxes_of(starts)
        both = boxes.copy()
        for n, end in enumerate(ends):
            if is_moved[n]:
                kernels.box_around(end, self._used[n][1], both[n])
        low, high = np.minimum(boxes[:, 0], both[:, 0]), np.maximum(boxes[:, 1], both[:, 1])
        found = list[Pairs]()
        for a, b in [*overlapping_boxes(low, high).tolist(), *((n, n) for n in self._itself)]:
            if not (is_moved[a] or is_moved[b]) or not allowed(a, b):
                continue
            tracker = self.tracker(a, b)
            hits = tracker.query(end_a=ends[a]) if a == b else tracker.query(end_a=ends[a], end_b=ends[b])
            hits = counted(a, b, hits) if len(hits) else hits
            if len(hits):
                found.append(pairs_of_impacts(a, self._surfaces[a], b, self._surfaces[b], hits))
        if ground is not None:
            normal, height = ground
            least = (np.minimum(normal * low, normal * high)).sum(axis=1)
            size = np.maximum(abs(low), abs(high)).sum(axis=1) + abs(height)
            for n in dynamic:
                if is_moved[n] and not least[n] > height + ROUNDING * size[n]:
                    found.append(self._fallen(n, starts[n], ends[n], normal, height))
        return joined(found)

    def _boxes_of(self, starts: list[Floats]) -> Floats:
        """Boxes of all surfaces at their present positions, of their live vertices."""
        for n, (surface, start) in enumerate(zip(self._surfaces, starts)):
            state = surface.state()
            if self._seen[n] != (state.mark, state.motion):
                if self._used[n][0] != state.mark:
                    self._used[n] = state.mark, surface.used_vertices
                kernels.box_around(start, self._used[n][1], self._boxes[n])
                self._seen[n] = state.mark, state.motion
        return self._boxes

    def _fallen(self, number: int, start: Floats, end: Floats, normal: Floats, height: float) -> Pairs:
        """Vertices that fall through the ground."""
        used = self._used[number][1]
        rows, gaps = np.zeros(len(used), dtype=np.int32), np.zeros((len(used), 2))
        count = kernels.find_fallen(start, end, used, normal, height, rows, gaps)
        before, after = gaps[:count].T.copy()
        return ground_pairs(number, rows[:count], before, after, normal)


def ground_pairs(number: int, vertices: Ints, gap: Floats, end_gap: Floats, normal: Floats) -> Pairs:
    """Pairs of the ground, as a face without vertices, and vertices of a body."""
    count = len(vertices)
    four, weights = np.zeros((count, 4), dtype=np.int32), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    four[:, 3] = vertices
    numbers = np.full(count, GROUND), np.full(count, number)
    zero = np.zeros(count, dtype=np.int64)
    kind, normals = np.ones(count, np.int8), np.tile(normal, (count, 1))
    return Pairs(kind, *numbers, four, weights, normals, gap, end_gap, np.zeros(count), zero, np.ones(count))
