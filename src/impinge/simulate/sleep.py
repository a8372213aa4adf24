"""Sleeping of soft and rigid bodies at rest.

1. Quiet.   A body is quiet while all its coarse vertices are slower than ``SLOW`` of its size per second. A body with
            vertices in prescribed motion is never quiet.
2. Islands. Bodies with overlapping boxes form an island. An island sleeps if all its bodies have been quiet for
            ``sleep_after`` and no moving scripted body is near.
3. Wake-up. A sleeping body is static and supports what rests on it. It wakes when a moving body comes near; when the
            caller changes its positions, velocities or fixed vertices; when gravity, friction or the ground change; or
            when the caller moves a body that was or is near it.

Sleep depends on the state alone: runs are reproducible to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.checks import Bools, Floats
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.simulate.simulated_bodies import DynamicBody, ScriptedBody, SimulatedBody

SLOW = 0.01
"""Speed below which a body is quiet, in body sizes per second."""


class Sleep:
    """Quiet time of each body."""

    def __init__(self, count: int, after: float | None) -> None:
        self.quiet: Floats = np.zeros(count)
        """Seconds, by body number."""
        self._after = np.inf if after is None else after
        self._fingerprints: list[tuple[Any, ...]] = []
        """State of each body after the last frame."""
        self._boxes: Floats = np.zeros((0, 2, 3))

    def asleep(self, bodies: list[SimulatedBody], bounds: Floats, reach: float, rules: Floats) -> Bools:
        """Return which bodies sleep over a frame in which no body moves farther than ``reach``, shape (n,).

        ``rules`` are parameters common to all bodies, such as gravity.
        """
        soft = np.array([isinstance(body, DynamicBody) for body in bodies], dtype=np.bool_)
        moves = np.array(
            [isinstance(body, ScriptedBody) and bool(body.velocity.any()) for body in bodies], dtype=np.bool_
        )
        if self._fingerprints:
            changed = np.array(
                [not _same(before, _fingerprint(body, rules)) for before, body in zip(self._fingerprints, bodies)]
            )
            moves |= changed
            self.quiet[changed] = 0.0
            low, high = np.minimum(self._boxes[:, 0], bounds[:, 0]), np.maximum(self._boxes[:, 1], bounds[:, 1])
            bounds = np.stack([low, high], axis=1)
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

    def record(self, bodies: list[SimulatedBody], bounds: Floats, dt: float, rules: Floats) -> None:
        """Update quiet times with the speeds at the end of a frame."""
        for body in bodies:
            if isinstance(body, DynamicBody):
                is_quiet = body.fastest() < SLOW * body.size and not body.source.motion.any()
                self.quiet[body.number] = self.quiet[body.number] + dt if is_quiet else 0.0
        self.store(bodies, bounds, rules)

    def store(self, bodies: list[SimulatedBody], bounds: Floats, rules: Floats) -> None:
        """Store the state and boxes of bodies, to detect changes by the caller."""
        self._fingerprints, self._boxes = [_fingerprint(body, rules) for body in bodies], bounds


def _fingerprint(body: SimulatedBody, rules: Floats) -> tuple[Any, ...]:
    if not isinstance(body, DynamicBody):
        return (body.surface.version,)
    soft = body.source
    return soft.coarse.version, soft.velocities, soft.fixed, soft.moved, soft.motion, rules


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(np.array_equal(p, q) for p, q in zip(a, b))
