"""Which soft bodies are at rest and need no step.

1. Quiet.   A body whose coarse vertices have all been slower than ``SLOW`` of its size per second for some time.
            A body with vertices that are told to move is never quiet.
2. Islands. Bodies whose boxes overlap belong together. An island sleeps if all its bodies are quiet, and nothing with a
            given motion that moves is near.
3. Asleep.  The body stands still, and carries what rests on it. It wakes when anything that moves comes near, when the
            caller changes it (positions, velocities, what is fixed), when gravity, friction or the ground change, or
            when the caller moves a body that was near it, or is now.

All follows from the state: the same run gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.checks import Bools, Floats
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.simulate.simulated_bodies import GivenPart, Part, SoftPart

SLOW = 0.01
"""Sizes of a body per second, below which it counts as quiet."""


class Sleep:
    """How long bodies have been quiet."""

    def __init__(self, count: int, after: float | None) -> None:
        self.quiet: Floats = np.zeros(count)
        """Seconds, by number of the body."""
        self._after = np.inf if after is None else after
        self._left: list[tuple[Any, ...]] = []
        self._boxes: Floats = np.zeros((0, 2, 3))

    def asleep(self, parts: list[Part], bounds: Floats, reach: float, rules: Floats) -> Bools:
        """Tell which bodies sleep over a frame in which others come no farther than ``reach``, by number.

        ``rules`` are numbers that hold for all bodies, such as gravity.
        """
        soft = np.array([isinstance(part, SoftPart) for part in parts], dtype=np.bool_)
        moves = np.array([isinstance(part, GivenPart) and bool(part.velocity.any()) for part in parts], dtype=np.bool_)
        if self._left:
            changed = np.array([not _same(left, _mark(part, rules)) for left, part in zip(self._left, parts)])
            moves |= changed
            self.quiet[changed] = 0.0
            before, now = self._boxes, bounds
            bounds = np.stack([np.minimum(before[:, 0], now[:, 0]), np.maximum(before[:, 1], now[:, 1])], axis=1)
        sleeps: Bools = soft & (self.quiet >= self._after)
        if not sleeps.any():
            return sleeps
        wakes = moves | soft & ~sleeps
        pairs = overlapping_boxes(bounds[:, 0] - reach, bounds[:, 1] + reach)
        pairs = pairs[(soft | wakes)[pairs].all(axis=1)]
        while True:
            woken = wakes[pairs].any(axis=1)
            more = np.unique(pairs[woken])
            if wakes[more].all():
                return np.asarray(sleeps & ~wakes)
            wakes[more] = True

    def passed(self, parts: list[Part], bounds: Floats, dt: float, rules: Floats) -> None:
        """Take the speeds at the end of a frame into account."""
        for part in parts:
            if isinstance(part, SoftPart):
                fastest = float(np.sqrt((part.v**2).sum(axis=1).max()))
                is_quiet = fastest < SLOW * part.size and not part.body.motion.any()
                self.quiet[part.number] = self.quiet[part.number] + dt if is_quiet else 0.0
        self.remember(parts, bounds, rules)

    def remember(self, parts: list[Part], bounds: Floats, rules: Floats) -> None:
        """Remember how bodies were left, and their boxes, to see whether the caller changes them."""
        self._left, self._boxes = [_mark(part, rules) for part in parts], bounds


def _mark(part: Part, rules: Floats) -> tuple[Any, ...]:
    if not isinstance(part, SoftPart):
        return (part.surface.version,)
    body = part.body
    return body.coarse.version, body.velocities, body.fixed, body.moved, body.motion, rules


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(np.array_equal(p, q) for p, q in zip(a, b))
