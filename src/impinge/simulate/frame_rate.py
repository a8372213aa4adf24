"""Hold a frame rate: time that collision detection does not need goes to the time step.

Each frame may take ``target_ms``. Searches get at most ``SEARCH_SHARE`` of it together, each an equal part as its
budget. What they did not use in the frames before, and the rest, is for the motion: the frame is as long, in simulated
time, as can be computed in that, and never longer than was asked for. [MendozaOSullivan2005] gives collision detection
a fixed time and lets the rate follow; here the rate is given.

Costs are the median of the last ``FRAMES``, of two the lower one: a frame in which kernels are compiled, or the machine
does something else, counts once at most. They come from the clock, so that runs do not repeat.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

SEARCH_SHARE = 0.5
FRAMES = 3
SHORTEST = 1.0 / 64.0
"""Share of a whole frame that is simulated at least, however slow the machine; lengths are multiples of it."""


class Cost(NamedTuple):
    """What a frame has taken."""

    searches: int
    search_ms: float
    move_ms_per_second: float
    """Of simulated time."""
    other_ms: float


class Governor:
    """What the next frame may take."""

    def __init__(self, target_ms: float) -> None:
        self.target_ms = target_ms
        self._costs: deque[Cost] = deque(maxlen=FRAMES)

    @property
    def all_searches_ms(self) -> float:
        """What all searches of a frame may take."""
        return SEARCH_SHARE * self.target_ms

    @property
    def budget_ms(self) -> float:
        """What one search may take."""
        return self.all_searches_ms / max(self._usual().searches, 1.0)

    def length(self, asked: float, whole: float) -> float:
        """How long the next frame is, in simulated time, where ``asked`` is wanted; ``whole`` frames are no shorter."""
        usual = self._usual()
        left = self.target_ms - min(usual.search_ms, self.all_searches_ms) - usual.other_ms
        if usual.move_ms_per_second * asked <= left:
            return asked
        shortest = SHORTEST * whole
        steps = left / (usual.move_ms_per_second * shortest) if usual.move_ms_per_second > 0.0 else 0.0
        return min(max(math.floor(steps), 1) * shortest, asked)

    def passed(self, dt: float, searches: int, search_ms: float, move_ms: float, elapsed_ms: float) -> None:
        """Learn from a frame."""
        self._costs.append(Cost(searches, search_ms, move_ms / dt, max(elapsed_ms - search_ms - move_ms, 0.0)))

    def _usual(self) -> Cost:
        """The lower median of each cost."""
        if not self._costs:
            return Cost(0, 0.0, 0.0, 0.0)
        return Cost(*(sorted(values)[(len(values) - 1) // 2] for values in zip(*self._costs)))
