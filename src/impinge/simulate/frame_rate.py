"""Frame-rate controller: time not used by collision detection goes to the time step.

Each frame may take ``target_ms``. All searches of a frame share at most ``SEARCH_SHARE`` of it, split evenly into one
budget per search. The rest, including what previous searches left unused, is for integration: the frame covers as much
simulated time as fits, at most the requested amount. [MendozaOSullivan2005] gives collision detection a fixed time and
lets the frame rate vary; here the frame rate is fixed.

Costs are the lower median over the last ``FRAMES`` frames, which ignores a single outlier such as a frame that compiles
kernels. They are wall-clock times: runs are not reproducible.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

SEARCH_SHARE = 0.5
"""Share of ``target_ms`` that all searches of a frame may take."""
FRAMES = 3
"""Frames over which costs are averaged."""
SHORTEST = 1.0 / 64.0
"""Shortest frame relative to a full frame, however slow the machine; frame lengths are multiples of it."""


class Cost(NamedTuple):
    """Cost of one frame."""

    searches: int
    search_ms: float
    move_ms_per_second: float
    """Per second of simulated time."""
    other_ms: float


class FrameRateController:
    """Chooses the length and the search budget of the next frame."""

    def __init__(self, target_ms: float) -> None:
        self.target_ms = target_ms
        self._costs: deque[Cost] = deque(maxlen=FRAMES)

    @property
    def all_searches_ms(self) -> float:
        """Budget of all searches of a frame together."""
        return SEARCH_SHARE * self.target_ms

    @property
    def budget_ms(self) -> float:
        """Budget of one search."""
        return self.all_searches_ms / max(self._typical().searches, 1.0)

    def frame_length(self, requested: float, full: float) -> float:
        """Return the simulated time of the next frame [s], at most ``requested``; ``full`` is the full frame length."""
        typical = self._typical()
        left = self.target_ms - min(typical.search_ms, self.all_searches_ms) - typical.other_ms
        if typical.move_ms_per_second * requested <= left:
            return requested
        shortest = SHORTEST * full
        steps = left / (typical.move_ms_per_second * shortest) if typical.move_ms_per_second > 0.0 else 0.0
        return min(max(math.floor(steps), 1) * shortest, requested)

    def record(self, dt: float, searches: int, search_ms: float, move_ms: float, elapsed_ms: float) -> None:
        """Add the cost of a completed frame."""
        self._costs.append(Cost(searches, search_ms, move_ms / dt, max(elapsed_ms - search_ms - move_ms, 0.0)))

    def _typical(self) -> Cost:
        """Lower median of each cost."""
        if not self._costs:
            return Cost(0, 0.0, 0.0, 0.0)
        return Cost(*(sorted(values)[(len(values) - 1) // 2] for values in zip(*self._costs)))
