"""Particles in a simulation: points that fall, are pushed out of bodies, and leap off ([Heidelberger2003], Fig. 11).

In a frame, once the bodies have moved:

1. Fall.   Gravity changes the velocities, then the velocities the positions.
2. Begin   anew, if there is a ``source``: those that are older than ``life``.
3. Ask     which are inside a closed body whose box they are in: by a layered depth image of ``resolution`` pixels, or
           exactly. Open bodies are not felt.
4. Leap.   Each of these is put on the nearest point of the surface. Its velocity relative to the surface there loses
           ``1 - sliding`` of its part along the surface, and the part inwards is turned back, ``restitution`` of it.
5. Ground. The same at the plane.

Particles push nothing, and do not meet one another. Bodies are met in the order of their names in the world; a particle
in two bodies leaves the last one. The same bits every time; a source is asked with a number that grows, not a clock.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, as_numbers, as_positions, shown
from impinge.errors import FileError, OptionError
from impinge.mesh.tri_mesh import TriMesh
from impinge.queries import closest_points, points_inside
from impinge.world.world import World

Source: TypeAlias = Callable[[int, int], Any]
"""Number of the call and how many particles begin anew, to their positions (n, 3)."""
IMAGE_FROM = 2000
"""Particles in the box of a body from which an image of it is drawn; fewer are asked exactly, which is quicker."""


class Particles:
    """Points with velocities.

    positions    shape (n, 3) [m]
    velocities   shape (n, 3) [m / s], one for all, or none
    restitution  share of the speed across a surface that is left after a contact
    sliding      share of the speed along it that is left
    resolution   pixels along each side of the images by which bodies are asked; None asks exactly
    source       where particles begin anew that are older than ``life`` [s]; ages are spread evenly at first
    """

    def __init__(
        self, positions: Any, *, velocities: Any = None, restitution: float = 0.4, sliding: float = 0.9,
        resolution: int | None = 256, life: float = math.inf, source: Source | None = None,
    ) -> None:  # fmt: skip
        self.positions: Floats = as_positions(positions, name="positions").copy()
        count = len(self.positions)
        given = as_numbers(np.zeros(3) if velocities is None else velocities, "velocities").astype(np.float64)
        if given.shape not in ((3,), (count, 3)):
            raise OptionError(f"velocities have shape {given.shape}, expected ({count}, 3), or (3,) for all")
        self.velocities: Floats = as_positions(np.broadcast_to(given, (count, 3)), name="velocities").copy()
        for name, value in (("restitution", restitution), ("sliding", sliding)):
            if not _is_number(value) or not 0.0 <= value <= 1.0:
                raise OptionError(f"{name} is {shown(value)}, expected a number from 0 to 1")
        if not _is_number(life) or not life > 0.0:
            raise OptionError(f"life is {shown(life)}, expected a positive number of seconds")
        if resolution is not None and not (isinstance(resolution, int) and resolution > 0):
            raise OptionError(f"resolution is {shown(resolution)}, expected a whole number of pixels from 1, or None")
        if source is not None and not callable(source):
            raise OptionError(f"source is {shown(source)}, expected a function of two numbers, or None")
        self.restitution, self.sliding, self.resolution = float(restitution), float(sliding), resolution
        self.life, self.source, self.renewals = float(life), source, 0
        self.ages: Floats = np.zeros(count)
        if source is not None and math.isfinite(life):
            self.ages = life * np.arange(count) / count

    def __len__(self) -> int:
        return len(self.positions)

    def move(
        self, world: World, before: dict[str, Floats], dt: float, gravity: Floats, ground: tuple[Floats, float] | None
    ) -> int:
        """Move all by a frame after the bodies, whose vertices were at ``before``; return how many were pushed."""
        self.velocities += dt * gravity
        self.positions += dt * self.velocities
        self.ages += dt
        self._renew()
        pushed = np.zeros(len(self), dtype=np.bool_)
        for name in world.names:
            surface = world.surface(name)
            if surface.is_closed:
                pushed[self._out_of(surface, before[name], dt)] = True
        if ground is not None:
            pushed |= self._off(*ground)
        return int(pushed.sum())

    def _renew(self) -> None:
        old = np.flatnonzero(self.ages > self.life)
        if self.source is None or not len(old):
            return
        found = as_positions(self.source(self.renewals, len(old)), name="positions of the source")
        if len(found) != len(old):
            raise OptionError(f"the source gave {len(found)} positions for {len(old)} particles; give one for each")
        self.positions[old] = found
        self.velocities[old], self.ages[old] = 0.0, self.ages[old] - self.life
        self.renewals += 1

    def _out_of(self, surface: TriMesh, before: Floats, dt: float) -> NDArray[np.int64]:
        """Push particles out of a closed body; ids of those that were inside."""
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
        change = surface.vertices[corners] - before[corners]
        moved = (found.barycentric[:, :, None] * change).sum(axis=1) / dt
        self.positions[ids] = found.point
        self._leap(ids, normal, moved)
        return ids

    def _off(self, normal: Floats, height: float) -> Bools:
        """Push particles off the ground."""
        below: Floats = height - self.positions @ normal
        ids = np.flatnonzero(below > 0.0)
        self.positions[ids] += below[ids, None] * normal
        self._leap(ids, np.broadcast_to(normal, (len(ids), 3)), np.zeros((len(ids), 3)))
        return np.asarray(below > 0.0)

    def _leap(self, ids: NDArray[np.int64], normal: Floats, surface_velocity: Floats) -> None:
        relative = self.velocities[ids] - surface_velocity
        inwards = (relative * normal).sum(axis=1, keepdims=True)
        leapt = self.sliding * (relative - inwards * normal) - self.restitution * inwards * normal
        self.velocities[ids] = surface_velocity + np.where(inwards < 0.0, leapt, relative)

    # what is kept ----------------------------------------------------------------------------------------

    def content(self) -> dict[str, NDArray[Any]]:
        """All that a run needs to go on, copied."""
        now = {"positions": self.positions, "velocities": self.velocities, "ages": self.ages, "renewals": self.renewals}
        return {name: np.array(value) for name, value in now.items()}

    def check(self, content: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
        """Refuse states of other particles."""
        kept = len(content["positions"]) if content.get("positions", np.zeros(())).ndim else 0
        if kept != len(self):
            raise FileError(f"{path} holds {kept} particles and not {len(self)}; make the same simulation again")
        now = self.content()
        if kept and any(name not in content or content[name].shape != now[name].shape for name in now):
            raise FileError(f"{path} is a damaged state of particles; save it again")

    def put_back(self, content: dict[str, NDArray[Any]]) -> None:
        """Go to a state that was saved."""
        self.positions, self.velocities = content["positions"].copy(), content["velocities"].copy()
        self.ages, self.renewals = content["ages"].copy(), int(content["renewals"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
