"""A soft body: a coarse finite-element model that deforms a dense surface ([MendozaOSullivan2005], section 3).

1. State.  Positions and velocities of the coarse tet mesh.
2. Step.   The model is integrated in stable sub-steps (``deform/integrate.py``) or implicitly
           (``deform/implicit``) under elastic and viscous forces, gravity, and external forces, which are constant
           over the step. Fixed vertices have velocity zero, moved ones their prescribed velocity.
3. Steer.  Once per step the embedding, rigid links or barycentric weights, deforms the dense surface.

``coarse.update(...)`` deforms the surface too and keeps the velocities. A change waits for a step of another thread:
both meshes are always consistent. The surface cannot be updated directly. The coarse mesh cannot lose tets: the model
has a copy of them.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.bodies.soft_body_meshes import DrivingTets, SteeredSurface
from impinge.checks import (
    Bools,
    Floats,
    Ints,
    as_buffer,
    as_choice,
    as_ids,
    as_number,
    as_numbers,
    as_positions,
    check_finite,
    shown,
)
from impinge.deform.barycentric import Barycentric
from impinge.deform.embedding import Embedding
from impinge.deform.fem import ELEMENTS, Corotated, ElementName, GreenStrain, ReducedModel, StableNeoHookean
from impinge.deform.implicit.system import ImplicitReport, ImplicitSystem, has_hessian
from impinge.deform.implicit.system import Method as ImplicitMethod
from impinge.deform.integrate import Integrator, StepReport, as_motion, as_seconds, check_duration
from impinge.deform.materials import Material, material_of, materials_of
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import MeshError, MeshWarning, OptionError, SimulationWarning
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import BodyLike, SurfaceLike, as_body
from impinge.mesh.cubes import sized_surface
from impinge.mesh.prepare import TIME_LIMIT, Method, coarse_tets
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

EARTH = (0.0, 0.0, -9.81)
"""Gravity on Earth, z pointing upwards [m / s²]."""

MODELS: dict[str, type[GreenStrain | Corotated | StableNeoHookean]] = {
    "green_strain": GreenStrain, "corotated": Corotated, "stable_neo_hookean": StableNeoHookean,
}  # fmt: skip
MODEL_PARTS = ("rest", "tets", "masses", "forces", "energy", "stable_step", "inverted")
"""Attributes of a ``ReducedModel``."""
EMBEDDINGS = ("rigid_links", "barycentric")

INTEGRATORS = ("explicit", "implicit", "midpoint")

IntegratorName: TypeAlias = Literal["explicit", "implicit", "midpoint"]
EmbeddingName: TypeAlias = Literal["rigid_links", "barycentric"]

FAR = 0.5
"""Largest distance of dense vertices from the box of the coarse mesh, in diagonals of that box."""
SMALL = 0.01
"""Smallest size of the surface, in diagonals of the coarse mesh."""
MOST_NAMED = 8
"""Ids of inverted tets in a warning."""


class Energy(NamedTuple):
    """Energies of a soft body [J]."""

    elastic: float
    kinetic: float

    @property
    def total(self) -> float:
        """Their sum, without potential energy of gravity."""
        return self.elastic + self.kinetic


class Momentum(NamedTuple):
    """Momenta of a soft body."""

    linear: Floats
    """Mass times velocity [kg m / s], shape (3,)."""
    angular: Floats
    """About the origin [kg m² / s], shape (3,)."""


class SoftBody:
    """A dense surface embedded in a coarse deformable body.

    Parameters
    ----------
    surface
        Any surface; it is rendered and collides. It is copied.
    coarse
        A tet mesh of about the same shape, whose tets have positive volume at rest. It is copied.
    material
        A preset ("rubber", "liver", "jelly") or a ``Material``; or a sequence with one for each row of ``coarse.tets``.
    model
        "green_strain", "corotated", "stable_neo_hookean", or a ``ReducedModel`` of the coarse mesh, which has its
        own material.
    elements
        "linear": tets of constant strain, too stiff in coarse meshes. "smoothed": their strain is averaged around
        edges, for two to four times the cost of a step; not for a ``ReducedModel``, which has its own elements.
    embedding
        "rigid_links" or "barycentric".
    fixed
        Ids, or a mask, of coarse vertices with velocity zero.
    """

    def __init__(
        self,
        surface: SurfaceLike,
        coarse: BodyLike,
        *,
        material: Material | str | Sequence[Material | str] = "rubber",
        model: str | ReducedModel = "green_strain",
        elements: ElementName = "linear",
        embedding: EmbeddingName = "rigid_links",
        fixed: ArrayLike | None = None,
    ) -> None:
        _check_names(model, elements, embedding)
        dense, body = sized_surface(surface), as_body(coarse)
        if not isinstance(body, TetMesh):
            raise MeshError("the coarse mesh has triangles only, expected tets; SoftBody.from_surface makes them")
        rest, tets, live, _ = body.snapshot()
        tet_count, tets = len(tets), np.ascontiguousarray(tets[live])
        if len(tets) and (body.volumes < 0.0).all():  # files use either order of corners
            tets = np.ascontiguousarray(tets[:, [0, 1, 3, 2]])
        if isinstance(model, str):
            materials, index = materials_of(material, tet_count)
            of_tets = materials[0] if len(materials) == 1 else [materials[k] for k in index[live]]
            self._start(MODELS[model](rest, tets, of_tets, elements=elements), dense)
        elif np.shape(model.rest) != rest.shape or np.shape(model.tets) != tets.shape:
            raise OptionError(
                f"the model has {len(model.rest)} vertices and {len(model.tets)} tets, but the coarse mesh has "
                f"{len(rest)} and {len(tets)}; make the model of that mesh"
            )
        else:
            self._start(model, dense)
        self.model_name: str | None = model if isinstance(model, str) else None
        # A surface far from the coarse mesh or much smaller has another unit or place.
        (lo, hi), bounds = (rest.min(axis=0), rest.max(axis=0)), self.surface.bounds
        size, dense_size = float(np.linalg.norm(hi - lo)), float(np.linalg.norm(bounds[1] - bounds[0]))
        beyond = float(max((lo - bounds[0]).max(), (bounds[1] - hi).max()))
        if beyond > FAR * size or dense_size < SMALL * size:
            raise MeshError(
                f"the surface ({dense_size:g} across) reaches {max(beyond, 0.0):g} beyond the coarse mesh "
                f"({size:g} across); they must lie in the same place, in the same unit"
            )
        self.coarse: DrivingTets = DrivingTets(rest, tets, self)
        self.pieces = Adjacency(np.concatenate([tets[:, :3], tets[:, 1:]]), len(rest)).component[0]
        if self.pieces > 1:
            warnings.warn(
                f"the coarse mesh has {self.pieces} pieces that share no vertex, which move independently; "
                "coarser cubes (cells=) may join them",
                MeshWarning,
                stacklevel=2,
            )
        self.embedding_name = embedding
        self.embedding: Embedding
        if embedding == "rigid_links":
            self.embedding = RigidLinks(self.model.rest, self.coarse.surface.used_vertices, self.rest_surface)
        else:
            self.embedding = Barycentric(self.model.rest, self.coarse.tets, self.rest_surface)
        if fixed is not None:
            self.fix(fixed)

    def _start(self, model: ReducedModel, surface: TriMesh) -> None:
        """Set the state at rest."""
        self._lock = threading.RLock()
        self.model: ReducedModel = model
        self._integrator = Integrator(model)
        self._implicit: ImplicitSystem | None = None
        self.surface: SteeredSurface = SteeredSurface(surface)
        self.rest_surface: Floats = self.surface.vertices
        """Positions of the dense surface at rest, shape (n, 3), read-only."""
        self._steered: Floats = np.zeros_like(self.rest_surface)
        self._velocities: Floats = np.zeros_like(model.rest)
        self._fixed: Bools = np.zeros(len(model.rest), dtype=np.bool_)
        self._moved: Bools = np.zeros(len(model.rest), dtype=np.bool_)
        self._motion: Floats = np.zeros_like(model.rest)
        self.time = 0.0
        """Simulated time [s]."""
        self.prepared = ""
        """How ``from_surface`` made the coarse mesh, one sentence; empty otherwise."""

    @classmethod
    def from_surface(
        cls,
        surface: SurfaceLike,
        *,
        coarse_faces: int = 1000,
        material: Material | str = "rubber",
        youngs_modulus: float | None = None,
        poisson_ratio: float | None = None,
        density: float | None = None,
        method: Method = "auto",
        mesh_size: float | None = None,
        cells: int | None = None,
        time_limit: float = TIME_LIMIT,
        model: str = "green_strain",
        elements: ElementName = "linear",
        embedding: EmbeddingName = "rigid_links",
    ) -> SoftBody:
        """Make the coarse mesh from the surface; ``prepared`` says how.

        Parameters
        ----------
        surface
            Any surface.
        coarse_faces, method, mesh_size, cells, time_limit
            As in ``mesh.prepare.coarse_tets``; ``coarse_faces`` is about the number of boundary triangles.
        material, model, elements, embedding
            As in ``SoftBody``.
        youngs_modulus, poisson_ratio, density
            Constants that replace those of ``material``, in Pa, 1 and kg / m³; damping then follows from them.
        """
        chosen = material_of(material)
        constants = youngs_modulus, poisson_ratio, density
        if any(each is not None for each in constants):
            preset = chosen.youngs_modulus, chosen.poisson_ratio, chosen.density
            chosen = Material(*(old if new is None else new for old, new in zip(preset, constants)))
        _check_names(model, elements, embedding)  # before the long steps
        surface = sized_surface(surface)
        found = coarse_tets(
            surface, coarse_faces=coarse_faces, method=method, mesh_size=mesh_size, cells=cells, time_limit=time_limit
        )
        body = cls(surface, found.mesh, material=chosen, model=model, elements=elements, embedding=embedding)
        body.prepared = found.why
        return body

    # motion ------------------------------------------------------------------------------------------

    @property
    def velocities(self) -> Floats:
        """Velocities of the coarse vertices [m / s], shape (n, 3), a read-only view; assign to change them.

        Assignment does not affect fixed and moved vertices.
        """
        view = self._velocities.view()
        view.flags.writeable = False
        return view

    @velocities.setter
    def velocities(self, velocities: ArrayLike) -> None:
        v = as_positions(velocities, name="velocities", count=len(self._velocities))
        with self._lock:
            self._velocities = self.held_to(v.copy())

    def held_to(self, v: Floats) -> Floats:
        """Apply the constraints of fixed and moved vertices to velocities, in place."""
        v = as_buffer(v, name="v", count=len(self._velocities))
        v[self._fixed], v[self._moved] = 0.0, self._motion[self._moved]
        return v

    def step(
        self,
        dt: float,
        *,
        gravity: ArrayLike = EARTH,
        forces: ArrayLike | None = None,
        max_substep: float | None = None,
        integrator: IntegratorName = "explicit",
    ) -> StepReport:
        """Advance by ``dt`` [s] and deform the surface.

        Parameters
        ----------
        dt
            Duration [s].
        gravity
            Acceleration [m / s²], shape (3,).
        forces
            External forces on the coarse vertices [N], shape (n, 3), constant over the step.
        max_substep
            Largest sub-step [s].
        integrator
            "explicit": stable sub-steps, many for stiff materials and small tets. "implicit": backward Euler in one
            step, or in equal ones of at most ``max_substep``. "midpoint": the same, of second order, without
            numerical damping.

        Returns
        -------
        StepReport
            Sub-steps, inverted tets, and whether implicit steps converged. If not, or if the first tets become flat or
            inverted, a ``SimulationWarning`` names the worst and the remedy.

        Raises
        ------
        ImpingeError
            If the motion cannot be integrated; the body is unchanged.
        """
        duration = as_seconds(dt, "dt")
        if forces is not None:
            if np.shape(as_numbers(forces, "forces")) != self._velocities.shape:
                raise OptionError(
                    f"forces have shape {np.shape(forces)}, expected {self._velocities.shape}: one row for each vertex "
                    "of soft.coarse"
                )
            forces = as_positions(forces, name="forces")
        with self._lock:
            x, v = self.coarse.vertices.copy(), self._velocities.copy()
            report = self.advance(
                x, v, duration, gravity=gravity, forces=forces, max_substep=max_substep, integrator=integrator
            )
            if len(report.inverted) and not len(self.model.inverted(self.coarse.vertices)):
                self._warn_of_inverted(report.inverted)
            self.take(x, v, duration)
        return report

    def _warn_of_inverted(self, tets: Ints) -> None:
        """Warn of the first inverted tets."""
        ids = ", ".join(map(str, tets[:MOST_NAMED])) + (", ..." if len(tets) > MOST_NAMED else "")
        other = "" if self.model_name == "stable_neo_hookean" else ", or the model 'stable_neo_hookean'"
        warnings.warn(
            f"{len(tets)} of {len(self.model.tets)} tets have become flat or inverted (ids {ids}); take shorter steps "
            f"(max_substep=) or smaller loads{other}",
            SimulationWarning,
            stacklevel=3,
        )

    def advance(
        self, x: Floats, v: Floats, duration: float, *, gravity: ArrayLike, forces: ArrayLike | None,
        max_substep: float | None = None, integrator: IntegratorName = "explicit",
    ) -> StepReport:  # fmt: skip
        """Integrate positions and velocities of the coarse mesh in place; the state of the body is unchanged."""
        as_choice(integrator, "integrator", INTEGRATORS)
        with self._lock:
            if integrator != "explicit" and has_hessian(self.model):
                return self._advance_implicitly(x, v, duration, gravity, forces, max_substep, integrator)
            if integrator != "explicit":
                warnings.warn(
                    f"{type(self.model).__name__} has no second derivatives and is integrated explicitly; pass "
                    "integrator='explicit', or a model of impinge",
                    SimulationWarning,
                    stacklevel=3,
                )
            return self._integrator.advance(
                x, v, duration, external=forces, gravity=gravity, fixed=self._fixed, max_substep=max_substep,
                prescribed=(np.flatnonzero(self._moved), self._motion[self._moved]) if self._moved.any() else None,
            )  # fmt: skip

    def _advance_implicitly(
        self, x: Floats, v: Floats, duration: float, gravity: ArrayLike, forces: ArrayLike | None,
        max_substep: float | None, integrator: IntegratorName,
    ) -> StepReport:  # fmt: skip
        duration = as_seconds(duration, "duration")
        if self._implicit is None:
            self._implicit = ImplicitSystem([self.model])  # type: ignore[list-item]
        longest = math.inf if max_substep is None else as_seconds(max_substep, "max_substep", zero=False)
        check_duration(duration, longest)
        count = max(math.ceil(duration / longest * (1.0 - 1e-9)), 1) if duration > 0.0 else 0
        held = self._fixed | self._moved
        self.held_to(v)
        newton_steps, iterations, inverted, failed = 0, 0, self.model.inverted(x), list[ImplicitReport]()
        for _ in range(count):
            done = self._step_once(self._implicit, x, v, duration / count, gravity, forces, held, integrator)
            newton_steps, iterations = newton_steps + int(done.newton_steps[0]), iterations + int(done.iterations[0])
            inverted = done.inverted[0]
            if not done.converged[0]:
                failed.append(done)
        self.held_to(v)  # but for rounding
        if failed:
            warnings.warn(
                _not_converged(failed, count, duration / count, len(self.model.tets)), SimulationWarning, stacklevel=4
            )
        shortest = duration / count if count else math.inf
        return StepReport(count, 0, shortest, inverted, newton_steps, iterations, not failed)

    def _step_once(
        self, system: ImplicitSystem, x: Floats, v: Floats, h: float, gravity: ArrayLike, forces: ArrayLike | None,
        held: Bools, integrator: IntegratorName,
    ) -> ImplicitReport:  # fmt: skip
        """One implicit step, in place."""
        method: ImplicitMethod = "midpoint" if integrator == "midpoint" else "backward_euler"
        return system.step(x, v, h, gravity=gravity, forces=forces, held=held, method=method)

    def take(self, x: Floats, v: Floats, duration: float) -> None:
        """Set the state that ``advance`` computed, ``duration`` later, and deform the surface."""
        with self._lock:
            self.coarse.update(x, check=False)
            self._velocities = as_positions(v, name="v", count=len(self._velocities), check=False).copy()
            self.time += as_number(duration, "duration", "a number of seconds")

    def steer(self) -> None:
        """Deform the surface by the coarse mesh; ``step`` and ``coarse.update`` do so already."""
        with self._lock:
            self.surface.follow(self.steered_by(self.coarse.vertices))

    def steered_by(self, coarse: Floats) -> Floats:
        """Surface positions for given coarse positions, in a buffer that the next call overwrites."""
        with self._lock:
            dense = self.embedding.steer(coarse, self._steered)
            check_finite(dense, "vertices of the surface", remedy="; move the coarse mesh nearer")
        return dense

    @contextmanager
    def driven(self, coarse: Floats) -> Iterator[None]:
        """Deform the surface by coarse positions that the block sets; other threads see both changes or neither."""
        with self._lock:
            dense = self.steered_by(coarse)
            with self.coarse.positions.lock:  # readers of both meshes take it
                yield
                self.surface.follow(dense)

    def reset(self) -> None:
        """Reset positions to rest, velocities and time to 0; fixed and moved vertices stay so."""
        with self._lock:
            self._velocities = np.zeros_like(self._velocities)
            self.time = 0.0
            self.coarse.update(self.model.rest)

    # constraints -------------------------------------------------------------------------------------

    @property
    def fixed(self) -> Ints:
        """Ids of the fixed coarse vertices, ascending."""
        return np.flatnonzero(self._fixed).astype(np.int32)

    @property
    def moved(self) -> Ints:
        """Ids of the coarse vertices with a prescribed velocity, ascending."""
        return np.flatnonzero(self._moved).astype(np.int32)

    def fix(self, ids: ArrayLike) -> None:
        """Fix coarse vertices, by ids or mask, in addition to those fixed already."""
        rows = as_ids(ids, name="ids", count=len(self._fixed))
        with self._lock:
            self._fixed[rows], self._moved[rows] = True, False
            self._velocities = self.held_to(self._velocities.copy())

    def move(self, ids: ArrayLike, velocities: ArrayLike) -> None:
        """Prescribe constant velocities [m / s] of coarse vertices: one row for each id, or one for all."""
        rows, motion = as_motion(ids, velocities, len(self._fixed))
        with self._lock:
            self._moved[rows], self._fixed[rows] = True, False
            self._motion[rows] = motion
            self._velocities = self.held_to(self._velocities.copy())

    def release(self, ids: ArrayLike | None = None) -> None:
        """Release fixed and moved vertices: those given, or all."""
        rows = slice(None) if ids is None else as_ids(ids, name="ids", count=len(self._fixed))
        with self._lock:
            self._fixed[rows] = self._moved[rows] = False

    @property
    def motion(self) -> Floats:
        """Velocities of the moved vertices [m / s], one row for each of ``moved``."""
        return self._motion[self._moved]

    # state -------------------------------------------------------------------------------------------

    def energy(self) -> Energy:
        """Elastic and kinetic energy of the state."""
        with self._lock:
            kinetic = 0.5 * float((self.model.masses[:, None] * self._velocities**2).sum())
            return Energy(self.model.energy(self.coarse.vertices), kinetic)

    def momentum(self) -> Momentum:
        """Linear and angular momentum of the state."""
        with self._lock:
            each = self.model.masses[:, None] * self._velocities
            return Momentum(each.sum(axis=0), np.cross(self.coarse.vertices, each).sum(axis=0))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write shape, material and state to an npz file, from which ``load`` makes an equal body."""
        from impinge.bodies.soft_body_file import save

        with self._lock:
            save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SoftBody:
        """Read a file of ``save``; the state, and every later step, is equal to the bit."""
        from impinge.bodies.soft_body_file import load

        return load(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the content of a file; locks and compiled code belong to a process."""
        from impinge.bodies.soft_body_file import content_of, restored

        with self._lock:
            return restored, (content_of(self),)

    def restore(
        self, coarse: ArrayLike, surface: ArrayLike, frames: Floats, velocities: ArrayLike, time: float
    ) -> None:
        """Set a saved state."""
        with self._lock:
            self.coarse.update(coarse)
            self.surface.follow(as_positions(surface, name="surface", count=len(self.rest_surface)))
            if isinstance(self.embedding, RigidLinks):
                self.embedding.frames = frames
            self.velocities = velocities
            self.time = time

    def __repr__(self) -> str:
        pieces = f" in {self.pieces} pieces" if self.pieces > 1 else ""
        return (
            f"<SoftBody: {self.surface.live_count} triangles on {len(self.coarse)} tets{pieces}, "
            f"{int(self._fixed.sum())} fixed, time {self.time:g}>"
        )


def _not_converged(failed: Sequence[ImplicitReport], count: int, h: float, tet_count: int) -> str:
    """What to know about implicit steps that ended early, by the one with the largest error."""
    worst = max(failed, key=lambda report: float(report.error[0]))
    which = f"an implicit step of {h:g} s" if count == 1 else f"{len(failed)} of {count} implicit steps of {h:g} s"
    text = (
        f"{which} did not converge: velocities are within {worst.error[0]:.2g} m/s after {worst.newton_steps[0]} "
        f"Newton steps, worst at vertex {worst.worst_vertex[0]}"
    )
    if tet_count:
        text += (
            f"; the most deformed of {tet_count} tets is {worst.worst_tet[0]} (det F {worst.least_determinant[0]:.3g})"
        )
    return f"{text}; take shorter steps (max_substep=)"


# border checks -------------------------------------------------------------------------------------------


def _check_names(model: Any, elements: Any, embedding: Any) -> None:
    """Refuse unknown models, elements and embeddings."""
    if not (model in MODELS if isinstance(model, str) else all(hasattr(model, name) for name in MODEL_PARTS)):
        raise OptionError(
            f"model is {shown(model)}, expected {', '.join(map(repr, MODELS))} or a ReducedModel, "
            f"an object that has {', '.join(MODEL_PARTS)}"
        )
    if as_choice(elements, "elements", ELEMENTS) != "linear" and not isinstance(model, str):
        raise OptionError(
            f"elements is {elements!r}, but the model is an object with elements of its own; make that model with "
            f"elements={elements!r}, or pass the name of a model"
        )
    as_choice(embedding, "embedding", EMBEDDINGS)
