"""Particles in a simulation: points that fall, are projected out of bodies and bounce ([Heidelberger2003], Fig. 11).

In each frame, after the bodies have moved:

1. Integrate. Gravity changes velocities, velocities change positions.
2. Respawn    particles older than ``life`` at positions from ``source``, if there is one.
3. Detect     particles inside a closed body: a test of its box, then a layered depth image of ``resolution`` pixels per
              side, or the exact test. Open bodies are ignored.
4. Bounce.    Each such particle moves to the closest point of the surface. Relative to the surface velocity there,
              ``sliding`` of its tangential velocity remains, and its inward velocity is reversed and scaled by
              ``restitution``.
5. Ground.    The same at the plane.

Particles exert no forces and do not collide with each other. Bodies are processed in world order; a particle in two
bodies leaves the last one. Results are reproducible to the bit; ``source`` receives a counter, not a clock.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Floats, as_number, as_numbers, as_positions, as_whole, shown
from impinge.detect.proximity.closest_points import closest_points
from impinge.errors import FileError, OptionError
from impinge.mesh.tri_mesh import TriMesh
from impinge.queries import points_inside
from impinge.world.world import World

Source: TypeAlias = Callable[[int, int], ArrayLike]
"""Maps the number of the call and the number of particles n to their new positions (n, 3)."""
IMAGE_FROM = 2000
"""Particles in the box of a body from which a layered depth image is faster than the exact test."""


class Particles:
    """Points with velocities.

    Parameters
    ----------
    positions
        Shape (n, 3) [m].
    velocities
        Shape (n, 3), or (3,) for all particles [m / s]; None: at rest.
    restitution
        Share of the normal speed that remains after a bounce, from 0 to 1.
    sliding
        Share of the tangential speed that remains after a bounce, from 0 to 1.
    resolution
        Pixels per side of the layered depth images of bodies; None: exact tests.
    life
        Age at which a particle respawns [s]. Initial ages are evenly distributed.
    source
        Function of the call number and a count n that returns positions (n, 3) of respawned particles; None: particles
        do not respawn.

    Raises
    ------
    OptionError
        For options out of range.
    MeshError
        For positions or velocities of wrong shape or with NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from impinge import Particles
    >>> len(Particles(np.zeros((5, 3)), velocities=(0.0, 0.0, -1.0)))
    5
    """

    def __init__(
        self,
        positions: ArrayLike,
        *,
        velocities: ArrayLike | None = None,
        restitution: float = 0.4,
        sliding: float = 0.9,
        resolution: int | None = 256,
        life: float = math.inf,
        source: Source | None = None,
    ) -> None:
        self.positions: Floats = as_positions(positions, name="positions").copy()
        count = len(self.positions)
        initial = as_numbers(np.zeros(3) if velocities is None else velocities, "velocities").astype(np.float64)
        if initial.shape not in ((3,), (count, 3)):
            raise OptionError(f"velocities have shape {initial.shape}, expected ({count}, 3), or (3,) for all")
        self.velocities: Floats = as_positions(np.broadcast_to(initial, (count, 3)), name="velocities").copy()
        self.restitution = as_number(restitution, "restitution", "a number from 0 to 1", least=0.0, most=1.0)
        self.sliding = as_number(sliding, "sliding", "a number from 0 to 1", least=0.0, most=1.0)
        self.life = as_number(life, "life", "a positive number of seconds", above=0.0)
        self.resolution = (
            None if resolution is None else as_whole(resolution, "resolution", remedy=" (pixels per side), or None")
        )
        if source is not None and not callable(source):
            raise OptionError(f"source is {shown(source)}, expected a function of two numbers, or None")
        self.source, self.renewals = source, 0
        self.ages: Floats = np.zeros(count)
        if source is not None and math.isfinite(life):
            self.ages = life * np.arange(count) / count

    def __repr__(self) -> str:
        return f"<Particles: {len(self.positions):,}>"

    def __len__(self) -> int:
        return len(self.positions)

    def move(
        self, world: World, before: dict[str, Floats], dt: float, gravity: Floats, ground: tuple[Floats, float] | None
    ) -> int:
        """Advance by a frame, after the bodies; ``before`` holds their previous vertices.

        Returns
        -------
        int
            Number of particles that were projected out of bodies or the ground.
        """
        self.velocities += dt * gravity
        self.positions += dt * self.velocities
        self.ages += dt
        self._respawn()
        projected = np.zeros(len(self), dtype=np.bool_)
        for name in world.names:
            surface = world.surface(name)
            if surface.is_closed:
                projected[self._leave_body(surface, before[name], dt)] = True
        if ground is not None:
            normal, height = ground
            below: Floats = height - self.positions @ normal
            ids = np.flatnonzero(below > 0.0)
            self.positions[ids] += below[ids, None] * normal
            self._bounce(ids, np.broadcast_to(normal, (len(ids), 3)), np.zeros((len(ids), 3)))
            projected[ids] = True
        return int(projected.sum())

    def _respawn(self) -> None:
        old = np.flatnonzero(self.ages > self.life)
        if self.source is None or not len(old):
            return
        found = as_positions(self.source(self.renewals, len(old)), name="positions of the source")
        if len(found) != len(old):
            raise OptionError(
                f"source returned {len(found)} positions for {len(old)} particles, expected one per particle"
            )
        self.positions[old] = found
        self.velocities[old], self.ages[old] = 0.0, self.ages[old] - self.life
        self.renewals += 1

    def _leave_body(self, surface: TriMesh, before: Floats, dt: float) -> NDArray[np.int64]:
        """Project particles out of a closed body; return the ids of those that were inside."""
        low, high = surface.bounds
        near = np.flatnonzero(((self.positions >= low) & (self.positions <= high)).all(axis=1))
        if not len(near):
            return near
        resolution = self.resolution if len(near) >= IMAGE_FROM else None
        ids = near[points_inside(surface, self.positions[near], resolution)]
        if not len(ids):
            return ids
        found = closest_points(surface, self.positions[ids], inside=False)
        corners = surface.faces[found.triangle]
        a, b, c = surface.vertices[corners].transpose(1, 0, 2)
        normal = np.cross(b - a, c - a)
        size = np.linalg.norm(normal, axis=1, keepdims=True)
        normal = np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), 0.0)
        displacement = surface.vertices[corners] - before[corners]
        surface_velocity = (found.barycentric[:, :, None] * displacement).sum(axis=1) / dt
        self.positions[ids] = found.point
        self._bounce(ids, normal, surface_velocity)
        return ids

    def _bounce(self, ids: NDArray[np.int64], normal: Floats, surface_velocity: Floats) -> None:
        relative = self.velocities[ids] - surface_velocity
        inward = (relative * normal).sum(axis=1, keepdims=True)
        bounced = self.sliding * (relative - inward * normal) - self.restitution * inward * normal
        self.velocities[ids] = surface_velocity + np.where(inward < 0.0, bounced, relative)

    # state -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of all arrays that a resumed run needs."""
        now = {"positions": self.positions, "velocities": self.velocities, "ages": self.ages, "renewals": self.renewals}
        return {name: np.array(value) for name, value in now.items()}

    def check(self, state: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
        """Raise ``FileError`` if ``state``, read from ``path``, belongs to other particles."""
        count = len(state["positions"]) if state.get("positions", np.zeros(())).ndim else 0
        if count != len(self):
            raise FileError(f"{path} holds {count} particles, expected {len(self)}; build the same simulation again")
        now = self.state()
        if count and any(name not in state or state[name].shape != now[name].shape for name in now):
            raise FileError(f"{path} is a damaged state of particles; save it again")

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Return to a saved state."""
        self.positions, self.velocities = state["positions"].copy(), state["velocities"].copy()
        self.ages, self.renewals = state["ages"].copy(), int(state["renewals"])
