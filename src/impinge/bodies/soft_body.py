"""A soft body: a coarse finite-element model whose motion steers a dense surface ([MendozaOSullivan2005], section 3).

1. State.  Positions of the coarse tet mesh and their velocities, and nothing else.
2. Step.   The model moves by sub-steps that it finds stable by itself (``deform/integrate.py``): elastic and viscous
           forces, gravity, and forces of the caller, which stay as they are over the step. Fixed vertices stand
           still, moved ones have the velocity they were given.
3. Steer.  Once per step the dense surface follows through its embedding, rigid links or barycentric weights.

The surface is never stale: ``coarse.update(...)`` by the caller steers it too, at once; velocities stay as they are.
A change waits for a step that goes on in another thread, so that both meshes always belong together.
Its own positions cannot be set, and the coarse mesh cannot lose tets, of which the model has a copy.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.bodies.soft_body_meshes import DrivingTets, SteeredSurface
from impinge.checks import Bools, Floats, Ints, as_ids, as_numbers, as_positions, check_finite, shown
from impinge.deform.barycentric import Barycentric
from impinge.deform.embedding import Embedding
from impinge.deform.fem import Corotated, GreenStrain, ReducedModel
from impinge.deform.integrate import Integrator, StepReport, as_seconds
from impinge.deform.materials import Material, material_of
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import MeshError, MeshWarning, OptionError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import as_body
from impinge.mesh.cubes import as_surface
from impinge.mesh.prepare import TIME_LIMIT, Method, coarse_tets
from impinge.mesh.tet_mesh import TetMesh

EARTH = (0.0, 0.0, -9.81)
"""Gravity on Earth, z pointing upwards [m / s²]."""

MODELS: dict[str, Callable[[Floats, Ints, Material], ReducedModel]] = {
    "green_strain": GreenStrain,
    "corotated": Corotated,
}
MODEL_PARTS = ("rest", "tets", "masses", "forces", "energy", "stable_step", "inverted")
"""What a ``ReducedModel`` has."""
EMBEDDINGS = ("rigid_links", "barycentric")

EmbeddingName: TypeAlias = Literal["rigid_links", "barycentric"]

FAR = 0.5
"""Dense vertices farther from the box of the coarse mesh than this share of its diagonal have another unit or place."""
SMALL = 0.01
"""A surface smaller than this share of the coarse mesh has another unit."""


class Energy(NamedTuple):
    """Energies of a soft body [J]."""

    elastic: float
    kinetic: float

    @property
    def total(self) -> float:
        """Both together; that of gravity is not among them."""
        return self.elastic + self.kinetic


class Momentum(NamedTuple):
    """Momenta of a soft body."""

    linear: Floats
    """Mass times velocity [kg m / s], shape (3,)."""
    angular: Floats
    """About the origin [kg m² / s], shape (3,)."""


class SoftBody:
    """A dense surface on a coarse deformable body.

    surface     any surface: what is drawn and collides. It is copied
    coarse      a tet mesh of about the same shape, whose tets have positive volume at rest. It is copied
    material    a preset ("rubber", "liver", "jelly") or a ``Material``
    model       "green_strain", "corotated", or a ``ReducedModel`` of the coarse mesh, whose material counts then
    embedding   "rigid_links" or "barycentric"
    fixed       ids, or a mask, of coarse vertices that stand still
    """

    def __init__(
        self,
        surface: Any,
        coarse: Any,
        *,
        material: Material | str = "rubber",
        model: str | ReducedModel = "green_strain",
        embedding: EmbeddingName = "rigid_links",
        fixed: Any = None,
    ) -> None:
        _check_names(model, embedding)
        dense, (rest, tets) = as_surface(surface), _coarse_arrays(coarse)
        self._lock = threading.RLock()
        self.model_name = model if isinstance(model, str) else None
        self.model: ReducedModel = _model_of(model, rest, tets, material)
        self._integrator = Integrator(self.model)
        self.surface: SteeredSurface = SteeredSurface(dense)
        self._rest_surface: Floats = self.surface.vertices
        self._steered: Floats = np.zeros_like(self._rest_surface)
        _check_places(self.surface.bounds, rest)
        self.coarse: DrivingTets = DrivingTets(rest, tets, self)
        self.pieces = _count_pieces(tets, len(rest))
        self.embedding_name = embedding
        self.embedding: Embedding = self._embed(embedding)
        self._velocities: Floats = np.zeros_like(rest)
        self._fixed: Bools = np.zeros(len(rest), dtype=np.bool_)
        self._moved: Bools = np.zeros(len(rest), dtype=np.bool_)
        self._motion: Floats = np.zeros_like(rest)
        self.time = 0.0
        """Time that steps have passed [s]."""
        self.prepared = ""
        """How the coarse mesh came about, one sentence; empty where the caller brought it."""
        if fixed is not None:
            self.fix(fixed)

    @classmethod
    def from_surface(
        cls,
        surface: Any,
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
        embedding: EmbeddingName = "rigid_links",
    ) -> SoftBody:
        """Make the coarse mesh too, of about ``coarse_faces`` boundary triangles; ``prepared`` tells how.

        ``youngs_modulus`` [Pa], ``poisson_ratio`` and ``density`` [kg / m³] take the place of those of ``material``.
        The other options are those of ``mesh.prepare.coarse_tets`` and of the class.
        """
        chosen = _material(material, youngs_modulus, poisson_ratio, density)
        _check_names(model, embedding)  # before the long steps
        surface = as_surface(surface)
        found = coarse_tets(
            surface, coarse_faces=coarse_faces, method=method, mesh_size=mesh_size, cells=cells, time_limit=time_limit
        )
        body = cls(surface, found.mesh, material=chosen, model=model, embedding=embedding)
        body.prepared = found.why
        return body

    # motion ------------------------------------------------------------------------------------------

    @property
    def velocities(self) -> Floats:
        """Velocities of the coarse vertices [m / s], shape (n, 3), a read-only view; assign to change them.

        Fixed vertices have none, and moved ones that of their motion, whatever is assigned.
        """
        view = self._velocities.view()
        view.flags.writeable = False
        return view

    @velocities.setter
    def velocities(self, velocities: Any) -> None:
        v = as_positions(velocities, name="velocities", count=len(self._velocities))
        with self._lock:
            self._velocities = self.held_to(v.copy())

    def held_to(self, v: Floats) -> Floats:
        """Let fixed vertices stand still, and moved ones have their velocity, in velocities of the caller."""
        v[self._fixed], v[self._moved] = 0.0, self._motion[self._moved]
        return v

    def step(
        self, dt: float, *, gravity: Any = EARTH, forces: Any = None, max_substep: float | None = None
    ) -> StepReport:
        """Move by ``dt`` [s], in as many sub-steps as needed, and steer the surface.

        ``forces`` [N], shape (n, 3), act on the coarse vertices all the while. The report tells sub-steps and inverted
        tets. If the motion cannot be followed, an error says so and the body is as before the call.
        """
        duration, external = as_seconds(dt, "dt"), _as_forces(forces, len(self._velocities))
        with self._lock:
            x, v = self.coarse.vertices.copy(), self._velocities.copy()
            report = self.advance(x, v, duration, gravity=gravity, forces=external, max_substep=max_substep)
            self.take(x, v, duration)
        return report

    def advance(
        self, x: Floats, v: Floats, duration: float, *, gravity: Any, forces: Any, max_substep: float | None = None
    ) -> StepReport:
        """Move coarse positions and velocities of the caller in place, as this body would; it stays where it is."""
        with self._lock:
            return self._integrator.advance(
                x, v, duration, external=forces, gravity=gravity, fixed=self._fixed, max_substep=max_substep,
                prescribed=(np.flatnonzero(self._moved), self._motion[self._moved]) if self._moved.any() else None,
            )  # fmt: skip

    def take(self, x: Floats, v: Floats, duration: float) -> None:
        """Go to a state that ``advance`` led to, ``duration`` later, and steer the surface."""
        with self._lock:
            self.coarse.update(x, check=False)
            self._velocities = v.copy()
            self.time += duration

    def steer(self) -> None:
        """Bring the surface to where the coarse mesh takes it; ``step`` and ``coarse.update`` do so by themselves."""
        with self._lock:
            self.surface.follow(self.steered_by(self.coarse.vertices))

    def steered_by(self, coarse: Floats) -> Floats:
        """Where the surface is for other positions of the coarse mesh; a buffer that the next call writes anew."""
        with self._lock:
            dense = self.embedding.steer(coarse, self._steered)
            check_finite(dense, "vertices of the surface", remedy="; move the coarse mesh nearer")
        return dense

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other threads from changing the body."""
        with self._lock:
            yield

    def reset(self) -> None:
        """Go back to rest: positions as at first, no velocity, time 0; what is fixed or moved stays so."""
        with self._lock:
            self._velocities = np.zeros_like(self._velocities)
            self.time = 0.0
            self.coarse.update(self.model.rest)

    # what holds the body -----------------------------------------------------------------------------

    @property
    def fixed(self) -> Ints:
        """Ids of the coarse vertices that stand still, rising."""
        return np.flatnonzero(self._fixed).astype(np.int32)

    @property
    def moved(self) -> Ints:
        """Ids of the coarse vertices with a velocity of their own, rising."""
        return np.flatnonzero(self._moved).astype(np.int32)

    def fix(self, ids: Any) -> None:
        """Let coarse vertices, by ids or by mask, stand still from now on; those fixed before stay fixed."""
        rows = as_ids(ids, name="ids", count=len(self._fixed))
        with self._lock:
            self._fixed[rows], self._moved[rows] = True, False
            self._velocities = self.held_to(self._velocities.copy())

    def move(self, ids: Any, velocities: Any) -> None:
        """Let coarse vertices move evenly from now on, with one velocity each or one for all [m / s]."""
        rows, motion = _as_motion(ids, velocities, len(self._fixed))
        with self._lock:
            self._moved[rows], self._fixed[rows] = True, False
            self._motion[rows] = motion
            self._velocities = self.held_to(self._velocities.copy())

    def release(self, ids: Any = None) -> None:
        """Let fixed and moved vertices go: those given, or all."""
        rows = slice(None) if ids is None else as_ids(ids, name="ids", count=len(self._fixed))
        with self._lock:
            self._fixed[rows] = self._moved[rows] = False

    @property
    def motion(self) -> Floats:
        """Velocities of the moved vertices [m / s], one row for each of ``moved``."""
        return self._motion[self._moved]

    # what is kept ------------------------------------------------------------------------------------

    @property
    def rest_surface(self) -> Floats:
        """Positions of the dense surface at rest, shape (n, 3), read-only."""
        return self._rest_surface

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
        """Write shape, material and state to one file (.npz), from which ``load`` makes an equal body."""
        from impinge.bodies.soft_body_file import save

        with self._lock:
            save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SoftBody:
        """Read what ``save`` wrote: the state is the same to the bit, and so is what follows from it."""
        from impinge.bodies.soft_body_file import load

        return load(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what a file would hold; locks and compiled code belong to a process."""
        from impinge.bodies.soft_body_file import content_of, restored

        with self._lock:
            return restored, (content_of(self),)

    def restore(self, coarse: Any, surface: Any, frames: Any, velocities: Any, time: float) -> None:
        """Put the body into a state that was saved, the surface to the bit."""
        with self._lock:
            self.coarse.update(coarse)
            self.surface.follow(as_positions(surface, name="surface", count=len(self._rest_surface)))
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

    def _embed(self, embedding: str) -> Embedding:
        if embedding == "rigid_links":
            return RigidLinks(self.model.rest, self.coarse.surface.used_vertices, self._rest_surface)
        return Barycentric(self.model.rest, self.coarse.tets, self._rest_surface)


# border checks -------------------------------------------------------------------------------------------


def _coarse_arrays(coarse: Any) -> tuple[Floats, Ints]:
    """Vertices and live tets, of positive volume; files follow either order of corners, consistently."""
    body = as_body(coarse)
    if not isinstance(body, TetMesh):
        raise MeshError("the coarse mesh has triangles only, expected tets; SoftBody.from_surface makes them")
    snapshot = body.snapshot()
    tets = snapshot.elements[snapshot.live]
    if len(tets) and (body.volumes < 0.0).all():
        tets = tets[:, [0, 1, 3, 2]]
    return snapshot.vertices, np.ascontiguousarray(tets)


def _model_of(model: str | ReducedModel, rest: Floats, tets: Ints, material: Material | str) -> ReducedModel:
    if isinstance(model, str):
        return MODELS[model](rest, tets, material_of(material))
    if np.shape(model.rest) != rest.shape or np.shape(model.tets) != tets.shape:
        raise OptionError(
            f"the model has {len(model.rest)} vertices and {len(model.tets)} tets, but the coarse mesh has "
            f"{len(rest)} and {len(tets)}; make the model of that mesh"
        )
    return model


def _check_names(model: Any, embedding: Any) -> None:
    """Refuse models and embeddings that do not exist."""
    if isinstance(model, str):
        is_model = model in MODELS
    else:
        is_model = all(hasattr(model, name) for name in MODEL_PARTS)
    if not is_model:
        raise OptionError(
            f"model is {shown(model)}, expected {', '.join(map(repr, MODELS))} or a ReducedModel, "
            f"an object that has {', '.join(MODEL_PARTS)}"
        )
    if embedding not in EMBEDDINGS:
        raise OptionError(f"embedding is {shown(embedding)}, expected {' or '.join(map(repr, EMBEDDINGS))}")


def _as_forces(forces: Any, count: int) -> Floats | None:
    """One finite force per coarse vertex, or none."""
    if forces is None:
        return None
    if np.shape(as_numbers(forces, "forces")) != (count, 3):
        raise OptionError(
            f"forces have shape {np.shape(forces)}, expected ({count}, 3): one row for each vertex of soft.coarse"
        )
    return as_positions(forces, name="forces")


def _check_places(bounds: Floats, rest: Floats) -> None:
    """Refuse a surface that is elsewhere than the coarse mesh, or of quite another size."""
    lo, hi = rest.min(axis=0), rest.max(axis=0)
    size, dense_size = float(np.linalg.norm(hi - lo)), float(np.linalg.norm(bounds[1] - bounds[0]))
    beyond = float(max((lo - bounds[0]).max(), (bounds[1] - hi).max()))
    if beyond > FAR * size or dense_size < SMALL * size:
        raise MeshError(
            f"the surface ({dense_size:g} across) reaches {max(beyond, 0.0):g} beyond the coarse mesh "
            f"({size:g} across); they must lie in the same place, in the same unit"
        )


def _count_pieces(tets: Ints, vertex_count: int) -> int:
    """Parts of the coarse mesh that share no vertex; more than one is told."""
    pieces = Adjacency(np.concatenate([tets[:, :3], tets[:, 1:]]), vertex_count).component[0]
    if pieces > 1:
        warnings.warn(
            f"the coarse mesh has {pieces} pieces that share no vertex, each of which moves by itself; "
            "coarser cubes (cells=) may join them",
            MeshWarning,
            stacklevel=3,
        )
    return pieces


def _material(
    material: Material | str, youngs_modulus: float | None, poisson_ratio: float | None, density: float | None
) -> Material:
    """The material, or one with other constants, whose damping follows from them."""
    base = material_of(material)
    if youngs_modulus is None and poisson_ratio is None and density is None:
        return base
    return Material(
        base.youngs_modulus if youngs_modulus is None else youngs_modulus,
        base.poisson_ratio if poisson_ratio is None else poisson_ratio,
        base.density if density is None else density,
    )


def _as_motion(ids: Any, velocities: Any, count: int) -> tuple[Ints, Floats]:
    """Ids in the order given, and a velocity for each."""
    rows = np.atleast_1d(as_numbers(ids, "ids"))
    unique = as_ids(rows, name="ids", count=count)
    if rows.dtype.kind == "b":
        rows = unique
    if len(unique) != len(rows):
        raise OptionError("ids hold a vertex twice; give each one velocity")
    motion = np.atleast_2d(as_numbers(velocities, "velocities")).astype(np.float64)
    if motion.shape not in ((1, 3), (len(rows), 3)):
        raise OptionError(f"velocities have shape {motion.shape}, expected ({len(rows)}, 3), or (3,) for all")
    check_finite(motion, "velocities")
    return rows.astype(np.int32), motion
