"""Motion of the bodies on the live page: scripted by a scene, or simulated.

    source = ScriptedMotion(scenes.get("knots_12k"))        # rest + deformation · (position at time t - rest)
    source = SimulatedMotion("two_bunnies", lambda: simulations.make("two_bunnies", scale=0.2))
    source.advance(1 / 30)
    source.positions()                                      # current vertices of all surfaces

Scenes without a motion get waves. A simulation advances by whole frames of its ``dt``; one slower than real time falls
behind rather than block the page. The user can drag one of its soft bodies: a share of the difference between its mean
velocity and the velocity towards the target is added in each frame. The material determines its deformation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

import numpy as np

from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene
from impinge.simulate.report import FrameReport
from impinge.simulate.simulation import Simulation

DRAG_S = 0.15
"""Time in which a dragged body would reach its target, in seconds."""
DRAG_SHARE = 0.25
"""Share of the velocity difference that each frame removes."""


class ScriptedMotion:
    """Bodies of a scene whose positions are a function of time."""

    def __init__(self, scene: Scene) -> None:
        self.name, self.scene = scene.name, scene
        self.surfaces: tuple[TriMesh, ...] = scene.surfaces
        self.time = 0.0
        self.deformation = 0.0 if scene.motion is None else 1.0
        """0: rest shape, 1: the deformation of the scene."""

    def restart(self) -> None:
        """Return to time 0."""
        self.time = 0.0

    def advance(self, seconds: float, *, within_s: float = math.inf) -> None:  # noqa: ARG002 - takes no time
        """Advance the time."""
        self.time += seconds

    def positions(self) -> tuple[Floats, ...]:
        """Current vertices of all surfaces; waves for scenes without a motion."""
        rest = self.scene.rest_positions
        if self.scene.motion is not None:
            moved = self.scene.positions(self.time)
        else:
            size = float(np.ptp(np.concatenate(rest), axis=0).max())
            wave = Wave(0.04 * size, 5.0 / size, angular_speed=2.0)
            moved = tuple(wave(x, self.time + 1.7 * k) for k, x in enumerate(rest))
        return tuple(p if q is None else p + self.deformation * (q - p) for p, q in zip(rest, moved))


class SimulatedMotion:
    """Bodies of a simulation."""

    def __init__(self, name: str, make: Callable[[], Simulation]) -> None:
        self.name, self._make = name, make
        self.drag_target: Floats | None = None
        """Target of the centre of the dragged body; None while nothing is dragged."""
        self.restart()

    def restart(self) -> None:
        """Build the simulation again, at time 0."""
        self.simulation = self._make()
        self.time = self._owed = 0.0
        self.step_ms = math.nan
        """Duration of the last step."""
        self.report: FrameReport | None = None
        """Of the last step."""
        world = self.simulation.world
        self.surfaces: tuple[TriMesh, ...] = tuple(map(world.surface, world.names))
        soft = [k for k, name in enumerate(world.names) if isinstance(world[name], SoftBody)]
        self.draggable: int | None = soft[-1] if soft else None
        """Index of the body that can be dragged: the last soft one."""

    def advance(self, seconds: float, *, within_s: float = math.inf) -> None:
        """Advance by whole frames; after ``within_s`` of computing, drop the rest of ``seconds``."""
        began = perf_counter()
        self._owed += seconds
        while self._owed > 0.5 * self.simulation.dt:
            if self.drag_target is not None and self.draggable is not None:
                body = self.simulation.world[self.simulation.world.names[self.draggable]]
                free = np.setdiff1d(np.arange(len(body.velocities)), body.fixed)
                velocities = body.velocities.copy()
                wanted = (self.drag_target - body.coarse.vertices.mean(axis=0)) / DRAG_S
                velocities[free] += DRAG_SHARE * (wanted - velocities[free].mean(axis=0))
                body.velocities = velocities
            report = self.simulation.step()  # may be shorter than dt to keep the frame rate
            self.time, self.step_ms, self.report = self.simulation.time, report.elapsed_ms, report
            self._owed -= report.dt
            if perf_counter() - began > within_s:
                self._owed = 0.0

    def positions(self) -> tuple[Floats, ...]:
        """Current vertices of all surfaces."""
        return tuple(surface.vertices for surface in self.surfaces)

    @property
    def contact_count(self) -> int:
        """Active contacts of the last step."""
        return 0 if self.report is None else len(self.report.contacts)

    @property
    def pressures(self) -> tuple[Floats, ...]:
        """Contact pressure on the vertices of all surfaces in the last step [Pa]; empty before the first."""
        return () if self.report is None else tuple(self.report.pressure.values())


MotionSource = ScriptedMotion | SimulatedMotion
