"""Simulated bodies: dynamic bodies, soft or rigid, and scripted bodies.

Contact stiffness is pressure per depth, K = E' / L with L = ∛volume the size of the body. E' is ``STIFFENING`` times
Young's modulus, which makes bodies deform rather than contacts, and at least such that a cube of that size sinks by
``SINK`` of its size under its own weight. Of a rigid body, E' is ``CONTACT_MODULUS`` (``bodies.rigid_body``) or more,
likewise. Contacts of two dynamic bodies use the smaller K.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.bodies.cloth import Cloth
from impinge.bodies.rigid_body import CONTACT_MODULUS, RigidBody
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats, Ints, as_numbers, as_positions
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.io.sequence import Sequence as Frames
from impinge.mesh.adjacency import grouped
from impinge.mesh.mass_properties import mass_properties
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.modal_damping import ModalDamping

STIFFENING = 2.0
"""Contact modulus relative to Young's modulus of the body."""
SINK = 0.001
"""Largest penetration of a cube under its own weight, relative to its size; impacts reach several times that."""
DENSE = 4.0
"""Surface vertices per coarse vertex above which contacts of a coarse group are merged."""
LAYER = 0.002
"""Thickness of the contact layer relative to the size of a body."""
LAYER_MODULUS = 0.05
"""Pressure that would compress a contact layer by its thickness, relative to Young's modulus of the body."""
LAYER_LOAD = 20.0
"""The same at least, relative to the pressure of the body's weight on one face."""
CELLS = 8
"""Cells along the size of a rigid body: vertices in one cell are a coarse group."""


class SimulationError(ImpingeError, RuntimeError):
    """A run that cannot continue; the simulation keeps the state of the last completed frame."""


Motion: TypeAlias = Callable[[float], ArrayLike]
"""Function of time [s]: positions (n, 3), or a transform (4, 4) of the initial positions."""


@dataclass(eq=False)
class DynamicBody:
    """A soft or rigid body with its slice of the coarse vertices of all bodies."""

    number: int
    name: str
    source: SoftBody
    start: int
    x: Floats
    """Coarse positions, a view of those of all bodies, shape (n, 3)."""
    v: Floats
    """Coarse velocities, likewise."""
    damping_ratio: float
    """Damping ratio of its slowest oscillation."""
    modal_damping: ModalDamping = field(init=False)
    area: Floats = field(init=False)
    """Surface area at rest of each surface vertex."""
    size: float = field(init=False)
    mass: float = field(init=False)
    rest_step: float = field(init=False)
    """Longest stable step of its model at rest [s]."""

    def __post_init__(self) -> None:
        self.area = vertex_areas(self.source.rest_surface, self.source.surface.faces)
        material = getattr(self.source.model, "material", None)
        self.mass = float(np.sum(self.source.model.masses))
        low, high = self.source.model.rest.min(axis=0), self.source.model.rest.max(axis=0)
        box = float(np.prod(high - low))
        volume = box if material is None else self.mass / material.density
        self.size = self.source.model.size if isinstance(self.source, Cloth) else float(np.cbrt(volume))
        self.rest_step = self.source.model.stable_step()
        self.modal_damping = ModalDamping(self.source.model, self.size, 0.0 if self.is_rigid else self.damping_ratio)

    @property
    def is_rigid(self) -> bool:
        """Whether it is a ``RigidBody``."""
        return isinstance(self.source, RigidBody)

    @property
    def is_dense(self) -> bool:
        """Whether contacts of a coarse group are merged: the surface has many vertices per coarse vertex."""
        groups = int(self._cells.max()) + 1 if self.is_rigid else len(self.x)
        return len(self.area) > DENSE * groups

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        """Cell of a grid around each surface vertex at rest, numbered along its axes."""
        x = self.source.rest_surface
        cell = np.floor((x - x.min(axis=0)) * (CELLS / self.size)).astype(np.int64)
        return np.unique(cell, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @cached_property
    def coarse_group(self) -> NDArray[np.int64]:
        """Coarse vertex with the largest influence on each surface vertex at rest; its own index if not dense.

        Of a rigid body, a cell of the surface instead.

        Contacts of vertices in one group are merged. Groups depend on the rest state only: a restored run has the same.
        """
        count = len(self.area)
        if not self.is_dense:
            return np.arange(count)
        if self.is_rigid:
            return self._cells
        at_rest = deepcopy(self.source.embedding)
        at_rest.steer(self.source.model.rest)
        ids, blocks = at_rest.differential(np.arange(count, dtype=np.int32))
        most = np.abs(np.trace(blocks, axis1=2, axis2=3)).argmax(axis=1)
        return np.asarray(ids[np.arange(count), most], dtype=np.int64)

    @cached_property
    def group_members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Surface vertices of each coarse group: (start, vertex), a CSR list."""
        return grouped(self.coarse_group, int(self.coarse_group.max()) + 1)

    @property
    def rows(self) -> slice:
        """Its coarse vertices among those of all bodies."""
        return slice(self.start, self.start + len(self.x))

    def oscillation_time(self, hardness: float) -> float:
        """Inverse angular frequency [s] of the rigid body on a contact over one face."""
        return math.sqrt(self.mass / (hardness * self.size**2))

    def stiffness(self, gravity: float) -> float:
        """Contact pressure per depth [Pa / m]; cloth that fell by its size is stopped within half a thickness."""
        if isinstance(self.source, Cloth):
            return self.mass * 2.0 * max(gravity, 1.0) / (self.size * (0.5 * self.source.thickness) ** 2)
        material = getattr(self.source.model, "material", None)
        modulus = 0.0 if material is None else STIFFENING * material.youngs_modulus
        if self.is_rigid:  # the material of its tet is far stiffer than contacts
            modulus = CONTACT_MODULUS
        return max(modulus, self.pressure(gravity) / SINK) / self.size

    @property
    def layer(self) -> float:
        """Default thickness of its contact layer [m]."""
        return self.source.thickness if isinstance(self.source, Cloth) else LAYER * self.size

    def layer_stiffness(self, gravity: float, layer: float) -> float:
        """Pressure per depth of a contact layer [Pa / m]."""
        if isinstance(self.source, Cloth):
            return self.stiffness(gravity)
        material = getattr(self.source.model, "material", None)
        modulus = 0.0 if material is None or self.is_rigid else LAYER_MODULUS * material.youngs_modulus
        return max(modulus, LAYER_LOAD * self.pressure(gravity)) / layer

    def spread(self) -> float:
        """Largest speed of its vertices relative to their mean velocity [m / s]; of a rigid body, of its surface."""
        if isinstance(self.source, RigidBody):
            return self.source.spin_of(self.v) * self.source.radius
        return float(np.sqrt(((self.v - self.v.mean(axis=0)) ** 2).sum(axis=1).max()))

    def fastest(self) -> float:
        """Largest speed of its vertices [m / s]; of a rigid body, an upper bound of that of its surface."""
        if self.is_rigid:
            return float(np.linalg.norm(self.v.mean(axis=0))) + self.spread()
        return float(np.sqrt((self.v**2).sum(axis=1).max()))

    def pressure(self, gravity: float) -> float:
        """Pressure of its weight on one face [Pa]; gravity counts as at least 1 m/s²."""
        return self.mass * max(gravity, 1.0) / self.size**2


@dataclass(eq=False)
class ScriptedBody:
    """A body that moves by a script, or an obstacle at rest."""

    number: int
    name: str
    surface: TriMesh
    source: TriMesh | TetMesh
    motion: Motion | None
    rest: Floats
    """Initial positions, shape (n, 3)."""
    is_steered: bool = False
    """Whether it is the surface of a soft body that the world holds fixed."""
    velocity: Floats = field(init=False)
    """Of its vertices over the current frame, shape (n, 3)."""
    area: Floats = field(init=False)
    _centre: tuple[int, Floats] | None = field(init=False, default=None)
    """Its centre, with the version of the positions."""

    def __post_init__(self) -> None:
        self.velocity = np.zeros_like(self.rest)
        self.area = vertex_areas(self.rest, self.surface.faces)

    @cached_property
    def coarse_group(self) -> NDArray[np.int64]:
        """One group per vertex."""
        return np.arange(len(self.rest))

    @property
    def centre(self) -> Floats:
        """Centre of its volume, if it is closed, else the mean of the vertices in use."""
        version = self.surface.version
        if self._centre is None or self._centre[0] != version:
            self._centre = version, _centre_of(self.surface)
        return self._centre[1]

    def at(self, time: float) -> Floats:
        """Return the positions of its vertices at ``time``."""
        if self.motion is None:
            return self.rest
        try:
            value = self.motion(time)
        except Exception as error:
            raise SimulationError(
                f"the motion of body {self.name!r} failed at time {time:g} ({type(error).__name__}: {error}); the "
                "simulation keeps the state before the frame"
            ) from error
        found = as_numbers(value, f"positions from the motion of body {self.name!r}").astype(np.float64)
        if found.shape == (4, 4):
            found = self.rest @ found[:3, :3].T + found[:3, 3]
        if found.shape != self.rest.shape:
            raise OptionError(
                f"the motion of body {self.name!r} returned shape {found.shape} at time {time:g}, expected (4, 4) or "
                f"{self.rest.shape}: one row per vertex"
            )
        if not np.isfinite(found).all():
            raise OptionError(
                f"the motion of body {self.name!r} returned a NaN or infinite number at time {time:g}; all must be "
                "finite"
            )
        return as_positions(found, name="vertices")


SimulatedBody: TypeAlias = DynamicBody | ScriptedBody


def _centre_of(surface: TriMesh) -> Floats:
    if surface.adjacency.is_oriented:
        with contextlib.suppress(MeshError):  # a closed surface may have no volume
            return mass_properties(surface).centre
    return np.asarray(surface.vertices[surface.used_vertices].mean(axis=0))


def surface_boxes(bodies: Sequence[SimulatedBody]) -> Floats:
    """Return the bounding boxes of all surfaces, shape (n, 2, 3)."""
    surfaces = (body.source.surface if isinstance(body, DynamicBody) else body.surface for body in bodies)
    return np.array([surface.bounds for surface in surfaces]).reshape(-1, 2, 3)


def is_cloth(body: SimulatedBody) -> bool:
    """Whether a body is dynamic cloth."""
    return isinstance(body.source, Cloth)


def thickness(body: SimulatedBody) -> float:
    """Return the thickness of cloth, 0 for other bodies."""
    return body.source.thickness if isinstance(body.source, Cloth) else 0.0


def as_motion(name: str, motion: Motion | Frames, vertex_count: int, rate: float) -> Motion:
    """Convert a function or a sequence to a function of time; frames are interpolated linearly."""
    if not isinstance(motion, Frames):
        if not callable(motion):
            raise OptionError(
                f"the motion of body {name!r} is a {type(motion).__name__}, expected a function of time or a Sequence"
            )
        return motion
    frames = motion
    if len(frames.frame(0)) != vertex_count:
        raise MeshError(
            f"the sequence for body {name!r} has {len(frames.frame(0))} vertices, but the body has {vertex_count}; "
            "pass frames of the same body"
        )

    def interpolated(time: float) -> Floats:
        place = min(max(time * rate, 0.0), len(frames) - 1.0)
        first = min(int(place), max(len(frames) - 2, 0))
        share = place - first
        now = frames.frame(first)
        return now if share == 0.0 else (1.0 - share) * now + share * frames.frame(first + 1)

    return interpolated


def vertex_areas(x: Floats, faces: Ints) -> Floats:
    """Return a third of the area of the triangles around each vertex, shape (n,)."""
    corner = x[faces]
    area = 0.5 * np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    shares: Floats = np.bincount(faces.reshape(-1), np.repeat(area / 3.0, 3), len(x)).astype(np.float64)
    return shares
