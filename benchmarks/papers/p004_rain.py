"""Particles that fall on a deforming body and bounce off it, as in Fig. 11 of [Heidelberger2003].

1. Fall.    Gravity moves all particles by a time step; old ones, and those below the floor, are emitted again.
2. Query.   The caller finds the particles inside a body, by any method.
3. Bounce.  Each particle inside is projected to the nearest surface point. Its velocity relative to the surface is
            reflected and damped if it points inwards. The time of contact is stored.

Initial ages are distributed uniformly: emission is continuous.
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
"""Lifetime of a particle [s]."""
LEAST_HEIGHT, MOST_HEIGHT = 1.0, 2.5
"""Range of emission heights."""
HALF_WIDTH = 2.0
LOWEST = -2.0
"""Particles below this height are emitted again."""
RESTITUTION = 0.4
"""Coefficient of restitution, along the normal."""
SLIDING = 0.9
"""Share of the tangential velocity that remains after a contact."""


@dataclass
class Particles:
    """Points with velocities and the time since their last contact with the deforming body."""

    position: Floats
    velocity: Floats
    age: Floats
    """Time since emission [s]."""
    since_contact: Floats
    """Time since the last contact [s], infinite before the first."""
    _rng: np.random.Generator = field(repr=False)

    def fall(self, dt: float) -> None:
        """Advance by a time step (symplectic Euler)."""
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
        """Project particles to surface points and reflect their velocities; ``normal`` points out of the body."""
        self.position[ids] = point
        relative = self.velocity[ids] - surface_velocity
        inwards = (relative * normal).sum(axis=1, keepdims=True)
        along = relative - inwards * normal
        bounced = SLIDING * along - RESTITUTION * inwards * normal
        self.velocity[ids] = surface_velocity + np.where(inwards < 0.0, bounced, relative)

    def remember(self, ids: Ints | np.ndarray) -> None:
        """Reset the time since contact."""
        self.since_contact[ids] = 0.0

    def recent(self, seconds: float) -> Bools:
        """Mask of the particles with a contact within the last ``seconds``."""
        return np.asarray(self.since_contact <= seconds)


def _above(rng: np.random.Generator, count: int) -> Floats:
    low, high = (-HALF_WIDTH, -HALF_WIDTH, LEAST_HEIGHT), (HALF_WIDTH, HALF_WIDTH, MOST_HEIGHT)
    return rng.uniform(low, high, (count, 3))


def particle_scene(count: int = COUNT) -> tuple[Scene, Particles]:
    """The scene ``particles_on_knot``, and particles above it."""
    rng = np.random.default_rng(4)
    particles = Particles(
        position=_above(rng, count),
        velocity=np.zeros((count, 3)),
        age=rng.uniform(0.0, LIFE, count),
        since_contact=np.full(count, np.inf),
        _rng=rng,
    )
    return registry.get(NAME), particles
