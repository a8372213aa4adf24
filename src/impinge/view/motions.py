"""What moves the bodies of the live page: a formula of time, or a simulation in which they push each other.

    motion = Formula(scenes.get("knots_12k"))               # rest + deformation · (motion at time t - rest)
    motion = Physics("two_bunnies", lambda: simulations.make("two_bunnies", scale=0.2))
    motion.advance(1 / 30)
    motion.positions()                                      # of all surfaces, now

Scenes without a motion of their own get waves. A simulation goes on by whole frames of its ``dt``; where it is slower
than the clock, it falls behind rather than let the page stand still. One of its soft bodies can be pulled: its mean
velocity is turned towards a point, and how it swings meanwhile is left to its material.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import numpy as np

from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene
from impinge.simulate.simulation import Simulation

PULL_S = 0.15
"""Seconds in which a body that is pulled would be where it is pulled to."""
PULL_SHARE = 0.25
"""Of the difference between its velocity and the wanted one, which each frame takes away."""


class Motion(Protocol):
    """Surfaces, and where they are as time passes."""

    name: str
    time: float

    @property
    def surfaces(self) -> tuple[TriMesh, ...]:
        """The bodies, where they are at first."""

    def advance(self, seconds: float, *, within_s: float = math.inf) -> None:
        """Let time go on, less if that takes longer than ``within_s``."""

    def positions(self) -> tuple[Floats, ...]:
        """Where the vertices of all surfaces are."""

    def begin(self) -> None:
        """Start again."""


class Formula:
    """Bodies of a scene that move as a formula says."""

    def __init__(self, scene: Scene) -> None:
        self.name, self.scene = scene.name, scene
        self.time = 0.0
        self.deformation = 0.0 if scene.motion is None else 1.0
        """0: as at rest, 1: as the scene has it."""

    @property
    def surfaces(self) -> tuple[TriMesh, ...]:
        """The bodies, where they are at first."""
        return self.scene.surfaces

    def begin(self) -> None:
        """Start again."""
        self.time = 0.0

    def advance(self, seconds: float, *, within_s: float = math.inf) -> None:  # noqa: ARG002 - takes no time
        """Let time go on."""
        self.time += seconds

    def positions(self) -> tuple[Floats, ...]:
        """Where the vertices of all surfaces are."""
        rest = self.scene.rest_positions
        moved = self.scene.positions(self.time) if self.scene.motion is not None else self._waves(rest)
        return tuple(p if q is None else p + self.deformation * (q - p) for p, q in zip(rest, moved))

    def _waves(self, rest: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """A motion for scenes that have none."""
        size = float(np.ptp(np.concatenate(rest), axis=0).max())
        wave = Wave(0.04 * size, 5.0 / size, angular_speed=2.0)
        return tuple(wave(x, self.time + 1.7 * k) for k, x in enumerate(rest))


class Physics:
    """Bodies of a simulation."""

    def __init__(self, name: str, make: Callable[[], Simulation]) -> None:
        self.name, self._make = name, make
        self.pull: Floats | None = None
        """Where the middle of the body that can be pulled is to go, None for nowhere."""
        self.begin()

    def begin(self) -> None:
        """Start again."""
        self.simulation = self._make()
        self.time = self._owed = 0.0
        self.frame_ms = math.nan
        """What the last frame of the simulation took."""
        self.pushing = 0
        """Contacts that pushed in it."""
        world = self.simulation.world
        self.surfaces: tuple[TriMesh, ...] = tuple(map(world.surface, world.names))
        soft = [k for k, name in enumerate(world.names) if isinstance(world[name], SoftBody)]
        self.pulled: int | None = soft[-1] if soft else None
        """Number of the body that can be pulled: the last soft one."""

    def advance(self, seconds: float, *, within_s: float = math.inf) -> None:
        """Let time go on by whole frames, less if that takes longer than ``within_s``."""
        began = perf_counter()
        self._owed += seconds
        while self._owed > 0.5 * self.simulation.dt:
            self._pull()
            report = self.simulation.step()  # may be shorter than dt, to hold a rate
            self.time, self.frame_ms, self.pushing = self.simulation.time, report.elapsed_ms, report.contacts
            self._owed -= report.dt
            if perf_counter() - began > within_s:
                self._owed = 0.0

    def positions(self) -> tuple[Floats, ...]:
        """Where the vertices of all surfaces are."""
        return tuple(surface.vertices for surface in self.surfaces)

    def _pull(self) -> None:
        if self.pull is None or self.pulled is None:
            return
        body = self.simulation.world[self.simulation.world.names[self.pulled]]
        free = np.setdiff1d(np.arange(len(body.velocities)), body.fixed)
        velocities = body.velocities.copy()
        wanted = (self.pull - body.coarse.vertices.mean(axis=0)) / PULL_S
        velocities[free] += PULL_SHARE * (wanted - velocities[free].mean(axis=0))
        body.velocities = velocities
