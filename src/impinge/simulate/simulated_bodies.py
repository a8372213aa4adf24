"""What takes part in a simulation: soft bodies, and bodies whose motion is given or that stand still.

Stiffness   of contacts is pressure per depth, K = E' / L, L = ∛(volume) the size of the body. E' is ``HARDER`` times
            its Young's modulus, so that bodies give way rather than the contact, and at least so large that the weight
            of a cube of that size presses it in by ``SINK`` of its size. Two soft bodies take the smaller K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.bodies.cloth import Cloth
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats, as_numbers, as_positions
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.io.sequence import Sequence as Frames
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.modal_damping import Settle

HARDER = 2.0
SINK = 0.001
"""Share of its size by which its own weight presses a cube in, at most; a fall presses it in several times deeper."""

DENSE = 4.0
"""Surface vertices per coarse vertex from which contacts of neighbours are joined."""


class SimulationError(ImpingeError, RuntimeError):
    """A run that cannot go on; the last good state is kept."""


Motion: TypeAlias = Callable[[float], Any]
"""Positions (n, 3), or a transform (4, 4) of where the body was at first, at a time [s]."""


@dataclass(eq=False)
class SoftPart:
    """A soft body and its place among the coarse vertices of all."""

    number: int
    name: str
    body: SoftBody
    start: int
    x: Floats
    """Coarse positions, a view of those of all bodies, shape (n, 3)."""
    v: Floats
    settling: float
    """Damping ratio of its slowest swing."""
    settle: Settle = field(init=False)
    area: Floats = field(init=False)
    """Share of the surface at rest of each dense vertex."""
    size: float = field(init=False)
    mass: float = field(init=False)
    rest_step: float = field(init=False)
    """Longest stable step of its model at rest [s]."""

    def __post_init__(self) -> None:
        self.area = vertex_areas(self.body.rest_surface, self.body.surface.faces)
        material = getattr(self.body.model, "material", None)
        self.mass = float(np.sum(self.body.model.masses))
        low, high = self.body.model.rest.min(axis=0), self.body.model.rest.max(axis=0)
        box = float(np.prod(high - low))
        volume = box if material is None else self.mass / material.density
        self.size = self.body.model.size if isinstance(self.body, Cloth) else float(np.cbrt(volume))
        self.rest_step = self.body.model.stable_step()
        self.settle = Settle(self.body.model, self.size, self.settling)

    @property
    def is_dense(self) -> bool:
        """Whether the surface has many vertices for each coarse one, so that contacts of neighbours are joined."""
        return len(self.area) > DENSE * len(self.x)

    @cached_property
    def lumps(self) -> NDArray[np.int64]:
        """By dense vertex the coarse one that moves it most at rest; its own number, if the surface is hardly denser.

        Contacts of vertices with the same number count as one.
        """
        count = len(self.area)
        if not self.is_dense:
            return np.arange(count)
        at_rest = deepcopy(self.body.embedding)  # lumps of a run that goes on are those of one that began
        at_rest.steer(self.body.model.rest)
        ids, blocks = at_rest.differential(np.arange(count, dtype=np.int32))
        most = np.abs(np.trace(blocks, axis1=2, axis2=3)).argmax(axis=1)
        return np.asarray(ids[np.arange(count), most], dtype=np.int64)

    @property
    def rows(self) -> slice:
        """Its coarse vertices among all."""
        return slice(self.start, self.start + len(self.x))

    def swing_time(self, hardness: float) -> float:
        """Seconds per radian in which the body, if it were rigid, would swing on a contact over its whole side."""
        return math.sqrt(self.mass / (hardness * self.size**2))

    def stiffness(self, gravity: float) -> float:
        """Pressure per depth of contacts [Pa / m]; cloth that fell by its size is stopped within half a thickness."""
        if isinstance(self.body, Cloth):
            return self.mass * 2.0 * max(gravity, 1.0) / (self.size * (0.5 * self.body.thickness) ** 2)
        material = getattr(self.body.model, "material", None)
        modulus = 0.0 if material is None else HARDER * material.youngs_modulus
        return max(modulus, self.pressure(gravity) / SINK) / self.size

    def pressure(self, gravity: float) -> float:
        """Its weight on a side of its size [Pa], as if there were some gravity where there is none."""
        return self.mass * max(gravity, 1.0) / self.size**2


@dataclass(eq=False)
class GivenPart:
    """A body that moves as told, or stands still."""

    number: int
    name: str
    surface: TriMesh
    body: Any
    motion: Motion | None
    rest: Floats
    is_steered: bool = False
    """Whether it is the surface of a soft body, which is fixed."""
    velocity: Floats = field(init=False)
    """Of its vertices over the present frame, shape (n, 3)."""
    area: Floats = field(init=False)

    @cached_property
    def lumps(self) -> NDArray[np.int64]:
        """Each vertex counts by itself."""
        return np.arange(len(self.rest))

    def __post_init__(self) -> None:
        self.velocity = np.zeros_like(self.rest)
        self.area = vertex_areas(self.rest, self.surface.faces)

    def at(self, time: float) -> Floats:
        """Where its vertices are at a time."""
        if self.motion is None:
            return self.rest
        try:
            given = self.motion(time)
        except Exception as error:
            raise SimulationError(
                f"the motion of body {self.name!r} failed at time {time:g} ({type(error).__name__}: {error}); the "
                "simulation is as before the frame"
            ) from error
        found = as_numbers(given, f"positions that the motion of body {self.name!r} gave").astype(np.float64)
        if found.shape == (4, 4):
            found = self.rest @ found[:3, :3].T + found[:3, 3]
        if found.shape != self.rest.shape:
            raise OptionError(
                f"the motion of body {self.name!r} gave shape {found.shape} at time {time:g}, expected (4, 4), or "
                f"{self.rest.shape}: one row for each vertex"
            )
        if not np.isfinite(found).all():
            raise OptionError(
                f"the motion of body {self.name!r} gave a NaN or infinite number at time {time:g}; all must be finite"
            )
        return as_positions(found, name="vertices")


Part: TypeAlias = SoftPart | GivenPart


def boxes_of(parts: Sequence[Part]) -> Floats:
    """Boxes of all surfaces, shape (n, 2, 3)."""
    surfaces = (part.body.surface if isinstance(part, SoftPart) else part.surface for part in parts)
    return np.array([surface.bounds for surface in surfaces]).reshape(-1, 2, 3)


def is_sheet(part: Part) -> bool:
    """Whether a body is cloth."""
    return isinstance(part.body, Cloth)


def thickness(part: Part) -> float:
    """Of a sheet; no other body has any."""
    return part.body.thickness if isinstance(part.body, Cloth) else 0.0


def motion_of(name: str, motion: Any, vertex_count: int, rate: float) -> Motion:
    """A function of time from what the caller gave; frames of a sequence are joined by straight lines."""
    if not isinstance(motion, Frames):
        if not callable(motion):
            raise OptionError(
                f"the motion of body {name!r} is a {type(motion).__name__}, expected a function of time, or a Sequence"
            )
        return motion  # type: ignore[no-any-return]
    frames = motion
    if len(frames.frame(0)) != vertex_count:
        raise MeshError(
            f"the sequence for body {name!r} has {len(frames.frame(0))} vertices, but the body has {vertex_count}; "
            "give frames of the same body"
        )

    def joined(time: float) -> Floats:
        place = min(max(time * rate, 0.0), len(frames) - 1.0)
        first = min(int(place), max(len(frames) - 2, 0))
        share = place - first
        now = frames.frame(first)
        return now if share == 0.0 else (1.0 - share) * now + share * frames.frame(first + 1)

    return joined


def vertex_areas(x: Floats, faces: Any) -> Floats:
    """A third of the triangles around each vertex, shape (n,)."""
    corner = x[faces]
    area = 0.5 * np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    shares: Floats = np.bincount(faces.reshape(-1), np.repeat(area / 3.0, 3), len(x)).astype(np.float64)
    return shares
