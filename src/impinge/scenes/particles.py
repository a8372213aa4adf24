"""Particles that fall on a deforming body and leap off it, as in Fig. 11 of [Heidelberger2003].

1. Fall.    Gravity moves all particles by a time step; those that are old or far below begin anew, high above.
2. Ask      which of them are inside of a body: whoever runs the scene does that, in any way.
3. Bounce.  Each particle inside is put on the nearest point of the surface. Its velocity relative to the surface is
            mirrored at the triangle there if it points inwards, and loses some of its size. Contact with the deforming
            body is remembered.

Ages are spread evenly at first, so that it rains all the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from impinge.checks import Bools, Floats, Ints
from impinge.scenes import registry
from impinge.scenes.registry import Scene

NAME = "particles_on_knot"
COUNT = 20_000
GRAVITY = -9.81
LIFE = 2.5
"""Seconds until a particle begins anew."""
LEAST_HEIGHT, MOST_HEIGHT = 1.0, 2.5
"""Where particles begin."""
HALF_WIDTH = 2.0
LOWEST = -2.0
"""Particles that fall beside the floor begin anew below this height."""
RESTITUTION = 0.4
"""Share of the relative speed across the surface that is left after a contact."""
SLIDING = 0.9
"""Share of the relative speed along the surface that is left."""


@dataclass
class Particles:
    """Points with velocities, and when each of them last was in contact with the deforming body."""

    position: Floats
    velocity: Floats
    age: Floats
    """Seconds since they began."""
    since_contact: Floats
    """Seconds, infinite before the first contact."""
    _rng: np.random.Generator = field(repr=False)

    def fall(self, dt: float) -> None:
        """Move all by a time step, the velocity first."""
        self.velocity[:, 2] += GRAVITY * dt
        self.position += dt * self.velocity
        self.age += dt
        self.since_contact += dt
        gone = np.flatnonzero((self.age > LIFE) | (self.position[:, 2] < LOWEST))
        if len(gone):
            self.position[gone] = _above(self._rng, len(gone))
            self.velocity[gone] = 0.0
            self.age[gone] = 0.0
            self.since_contact[gone] = np.inf

    def bounce(self, ids: Ints | np.ndarray, point: Floats, normal: Floats, surface_velocity: Floats) -> None:
        """Put particles on points of a surface, and let them leap off it; ``normal`` points out of the body."""
        self.position[ids] = point
        relative = self.velocity[ids] - surface_velocity
        inwards = (relative * normal).sum(axis=1, keepdims=True)
        along = relative - inwards * normal
        bounced = SLIDING * along - RESTITUTION * inwards * normal
        self.velocity[ids] = surface_velocity + np.where(inwards < 0.0, bounced, relative)

    def remember(self, ids: Ints | np.ndarray) -> None:
        """Note that these are in contact now."""
        self.since_contact[ids] = 0.0

    def recent(self, seconds: float) -> Bools:
        """Which of them were in contact not longer ago."""
        return np.asarray(self.since_contact <= seconds)


def _above(rng: np.random.Generator, count: int) -> Floats:
    low, high = (-HALF_WIDTH, -HALF_WIDTH, LEAST_HEIGHT), (HALF_WIDTH, HALF_WIDTH, MOST_HEIGHT)
    return rng.uniform(low, high, (count, 3))


def particle_scene(count: int = COUNT) -> tuple[Scene, Particles]:
    """The deforming body and the floor of the scene ``particles_on_knot``, and particles that begin above them."""
    rng = np.random.default_rng(4)
    particles = Particles(
        position=_above(rng, count),
        velocity=np.zeros((count, 3)),
        age=rng.uniform(0.0, LIFE, count),
        since_contact=np.full(count, np.inf),
        _rng=rng,
    )
    return registry.get(NAME), particles
