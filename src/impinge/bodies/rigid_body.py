"""A rigid body that moves by itself: a surface on four masses.

1. Mass    Volume, centre and second moments of the solid inside the surface (``mesh.mass_properties``).
2. State   Positions and velocities of four masses (``deform.rigid_tet``), as the coarse mesh of a ``SoftBody``: worlds,
           simulations, contacts, reports and files treat both alike.
3. Step    ``rigid_motion`` around the implicit solver. Explicit steps would have to resolve the stiff tet.
4. Steer   Each vertex of the surface is a weighted sum of the masses, of weights that reproduce affine motions.

Stiffness  The tet deforms within the solver alone, ``RIGIDITY`` times stiffer than contacts; after every step the pose
           is rigid to rounding. ``CONTACT_MODULUS`` is the stiffness of contacts (``simulate.simulated_bodies``).
"""

from __future__ import annotations

import math
import os
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from impinge.bodies.rigid_motion import RigidMotion
from impinge.bodies.soft_body import EARTH, INTEGRATORS, IntegratorName, SoftBody
from impinge.bodies.soft_body_meshes import DrivingTets
from impinge.checks import Bools, Floats, as_choice, as_number, as_numbers, shown
from impinge.deform.barycentric import Barycentric
from impinge.deform.implicit.system import ImplicitReport, ImplicitSystem
from impinge.deform.integrate import StepReport
from impinge.deform.rigid_tet import RigidTet
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.cubes import sized_surface
from impinge.mesh.mass_properties import mass_properties
from impinge.mesh.tri_mesh import TriMesh

CONTACT_MODULUS = 1e7
"""Contact pressure per depth relative to the size of a body [Pa]: a hard rubber. Heavy bodies have stiffer contacts."""
RIGIDITY = 1e3
"""Stiffness of the tet against deformation, relative to that of contacts over one face."""
HEAVY = 1e4
"""Acceleration [m / s²] whose weight contacts carry at a depth of the size: a thousand times that on Earth."""
ROTATION_TOLERANCE = 1e-6
"""Largest deviation of an assigned pose from a rotation."""


class RigidBody(SoftBody):
    """A solid that moves without deforming.

    Parameters
    ----------
    surface
        A closed surface, which defines the rest pose. It is copied.
    density
        Mass per volume [kg / m³].

    Raises
    ------
    MeshError
        If the surface is not closed and oriented, or encloses no volume.

    Examples
    --------
    >>> import impinge
    >>> box = impinge.RigidBody(impinge.shapes.box(0.1), density=500.0)
    >>> round(box.mass, 9)
    0.5
    >>> box.velocity = (1.0, 0.0, 0.0)
    >>> report = box.step(0.1, gravity=(0.0, 0.0, 0.0))
    >>> round(float(box.pose[0, 3]), 9)
    0.1
    """

    model: RigidTet

    def __init__(self, surface: SurfaceLike, *, density: float = 1000.0) -> None:
        density = as_number(density, "density", "a positive number [kg/m³]", above=0.0, below=math.inf)
        found = mass_properties(as_surface(surface))
        moments, axes = np.linalg.eigh(found.moments / found.volume)
        axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
        self.build(sized_surface(surface), density * found.volume, density, found.centre, axes, moments)

    def build(
        self, surface: TriMesh, mass: float, density: float, centre: Floats, axes: Floats, moments: Floats
    ) -> None:
        """Set the body at rest from its mass properties, as ``RigidTet`` takes them."""
        self.mass, self.density = mass, density
        size = math.cbrt(mass / density)
        frequency = math.sqrt(RIGIDITY * max(CONTACT_MODULUS, HEAVY * density * size) / density) / size
        self._start(RigidTet(mass, density, centre, axes, moments, frequency), surface)
        self.coarse = DrivingTets(self.model.rest, self.model.tets, self)
        self.model_name, self.pieces = None, 1
        self.embedding_name = "barycentric"
        self.embedding = Barycentric(self.model.rest, self.model.tets, self.rest_surface)
        self.radius = float(np.sqrt(((self.rest_surface - centre) ** 2).sum(axis=1).max()))
        """Largest distance of the surface from the centre of mass [m]."""
        self._rigid_motion = RigidMotion([self.model], [0])

    @classmethod
    def from_surface(cls, surface: SurfaceLike, **options: NoReturn) -> NoReturn:  # type: ignore[override]  # noqa: ARG003
        """Refuse: a rigid body needs no tets."""
        raise OptionError("a rigid body has no tets to be made from a surface; call RigidBody(surface)")

    # pose and velocity -------------------------------------------------------------------------------

    @property
    def centre(self) -> Floats:
        """Centre of mass [m], shape (3,)."""
        return np.asarray(self.coarse.vertices.mean(axis=0))

    @property
    def inertia(self) -> Floats:
        """Inertia about the centre of mass in the present pose [kg m²], shape (3, 3)."""
        axes = self.pose[:3, :3] @ self.model.axes
        return np.asarray((axes * self.model.inertia) @ axes.T)

    @property
    def pose(self) -> Floats:
        """Transform of the rest positions, shape (4, 4): a rotation and a translation; assign to change it.

        Assignment keeps ``velocity`` and ``angular_velocity``.
        """
        x = self.coarse.vertices
        centre = x.mean(axis=0)
        pose = np.eye(4)
        pose[:3, :3] = _nearest_rotation((x - centre).T @ self.model.duals)
        pose[:3, 3] = centre - pose[:3, :3] @ self.model.centre
        return pose

    @pose.setter
    def pose(self, pose: ArrayLike) -> None:
        found = as_numbers(pose, "pose").astype(np.float64)
        turn = found[:3, :3] if found.shape == (4, 4) else np.zeros((3, 3))
        if (
            not np.isfinite(found).all()
            or not np.abs(turn @ turn.T - np.eye(3)).max() <= ROTATION_TOLERANCE
            or not np.linalg.det(turn) > 0.0
            or not np.array_equal(found[3], (0.0, 0.0, 0.0, 1.0))
        ):
            raise OptionError(
                f"pose is {shown(pose)}, expected a rotation and a translation as a 4x4 matrix; a rigid body cannot be "
                "scaled, sheared or mirrored"
            )
        turn = _nearest_rotation(turn)
        with self._lock:
            velocity, spin = self.velocity, self.angular_velocity
            self.coarse.update(self.model.arms @ turn.T + (turn @ self.model.centre + found[:3, 3]))
            self._set_velocities(velocity, spin)

    @property
    def velocity(self) -> Floats:
        """Velocity of the centre of mass [m / s], shape (3,); assign to change it."""
        return np.asarray(self._velocities.mean(axis=0))

    @velocity.setter
    def velocity(self, velocity: ArrayLike) -> None:
        with self._lock:
            self._set_velocities(_three(velocity, "velocity"), self.angular_velocity)

    @property
    def angular_velocity(self) -> Floats:
        """Angular velocity [rad / s], shape (3,); assign to change it."""
        axes = self.pose[:3, :3] @ self.model.axes
        arm = self.coarse.vertices - self.centre
        momentum = 0.25 * self.mass * np.cross(arm, self._velocities).sum(axis=0)
        return np.asarray(axes @ ((momentum @ axes) / self.model.inertia))

    @angular_velocity.setter
    def angular_velocity(self, angular_velocity: ArrayLike) -> None:
        with self._lock:
            self._set_velocities(self.velocity, _three(angular_velocity, "angular_velocity"))

    def _set_velocities(self, velocity: Floats, angular_velocity: Floats) -> None:
        arm = self.coarse.vertices - self.centre
        self._velocities = velocity + np.cross(angular_velocity, arm)

    def spin_of(self, velocities: Floats) -> float:
        """Angular speed for given velocities of the four masses [rad / s]."""
        return float(np.linalg.norm(velocities.T @ self.model.duals)) * math.sqrt(0.5)

    # motion ------------------------------------------------------------------------------------------

    def step(
        self,
        dt: float,
        *,
        gravity: ArrayLike = EARTH,
        forces: ArrayLike | None = None,
        max_substep: float | None = None,
        integrator: IntegratorName = "implicit",
    ) -> StepReport:
        """As ``SoftBody.step``, with "implicit" or "midpoint"; ``forces`` act on the four masses."""
        return super().step(dt, gravity=gravity, forces=forces, max_substep=max_substep, integrator=integrator)

    def advance(
        self, x: Floats, v: Floats, duration: float, *, gravity: ArrayLike, forces: ArrayLike | None,
        max_substep: float | None = None, integrator: IntegratorName = "implicit",
    ) -> StepReport:  # fmt: skip
        """As ``SoftBody.advance``; explicit steps are refused."""
        if as_choice(integrator, "integrator", INTEGRATORS) == "explicit":
            raise OptionError("a rigid body cannot be stepped explicitly; pass integrator='implicit' or 'midpoint'")
        return super().advance(
            x, v, duration, gravity=gravity, forces=forces, max_substep=max_substep, integrator=integrator
        )

    def _step_once(
        self, system: ImplicitSystem, x: Floats, v: Floats, h: float, gravity: ArrayLike, forces: ArrayLike | None,
        held: Bools, integrator: IntegratorName,
    ) -> ImplicitReport:  # fmt: skip
        self._rigid_motion.begin(x, v, h, awake=np.ones(1, dtype=np.bool_), is_midpoint=integrator == "midpoint")
        done = super()._step_once(system, x, v, h, gravity, forces, held, integrator)
        self._rigid_motion.end(x, v, np.array([forces is not None]))
        return done

    # constraints -------------------------------------------------------------------------------------

    def fix(self, ids: ArrayLike) -> NoReturn:  # noqa: ARG002
        """Refuse: four masses are no vertices of the body."""
        raise OptionError("a rigid body has no vertices to fix; add it to the world with fixed=True to hold it")

    def move(self, ids: ArrayLike, velocities: ArrayLike) -> NoReturn:  # noqa: ARG002
        """Refuse: four masses are no vertices of the body."""
        raise OptionError(
            "a rigid body has no vertices to move; set its velocity, or add its surface and script that to prescribe "
            "a motion"
        )

    # state -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write shape, mass properties and state to an npz file, from which ``load`` makes an equal body."""
        from impinge.bodies.rigid_body_file import save

        with self._lock:
            save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RigidBody:
        """Read a file of ``save``; the state, and every later step, is equal to the bit."""
        from impinge.bodies.rigid_body_file import load

        return load(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the content of a file."""
        from impinge.bodies.rigid_body_file import content_of, restored

        with self._lock:
            return restored, (content_of(self),)

    def __repr__(self) -> str:
        return f"<RigidBody: {self.surface.live_count} triangles, {self.mass:g} kg, time {self.time:g}>"


def _nearest_rotation(matrix: Floats) -> Floats:
    u, _, w = np.linalg.svd(matrix)
    return np.asarray(u @ w)


def _three(value: ArrayLike, name: str) -> Floats:
    found = as_numbers(value, name).astype(np.float64)
    if found.shape != (3,) or not np.isfinite(found).all():
        raise OptionError(f"{name} is {shown(value)}, expected three finite numbers")
    return found
