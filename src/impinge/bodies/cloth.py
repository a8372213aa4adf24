"""Cloth: a sheet of springs that is its own surface, with a thickness.

A ``SoftBody`` whose coarse mesh and dense surface are one triangle mesh, open or closed: the state is its vertices, and
the model springs between them (``deform.springs``). In a ``Simulation`` it is kept ``thickness`` apart from itself and
from other cloth, and half of that from bodies.
"""

from __future__ import annotations

import operator
import threading
from typing import Any, NoReturn

import numpy as np

from impinge.bodies.soft_body import SoftBody
from impinge.bodies.soft_body_meshes import SteeredSurface
from impinge.checks import Bools, Floats, Ints, as_length, as_positions
from impinge.deform.integrate import Integrator
from impinge.deform.springs import SpringSheet
from impinge.errors import OptionError
from impinge.mesh.cubes import as_surface
from impinge.mesh.tri_mesh import TriMesh

THICKEST = 0.4
"""Largest thickness, in altitudes of the flattest triangle: neighbours at rest must not touch."""


class Cloth(SoftBody):
    """A thin sheet that stretches and bends.

    surface     any surface; it is copied, and rests as it is
    thickness   how far apart the sheet is kept from itself [m]; by default ``THICKEST`` of the lowest altitude
    fixed       ids, or a mask, of vertices that stand still

    Further options are those of ``deform.springs.SpringSheet``: ``stretching``, ``bending``, ``density``, ``damping``
    and ``drag``.
    """

    model: SpringSheet

    def __init__(self, surface: Any, *, thickness: float | None = None, fixed: Any = None, **options: Any) -> None:
        sheet = as_surface(surface)
        snapshot = sheet.snapshot()
        faces = np.ascontiguousarray(snapshot.elements[snapshot.live])
        self._lock = threading.RLock()
        self._options = options
        self.model_name = None
        self.model = SpringSheet(snapshot.vertices, faces, **options)
        self._integrator = Integrator(self.model)
        self.surface = SteeredSurface(TriMesh(self.model.rest, faces))
        self._rest_surface = self.surface.vertices
        self._steered = np.zeros_like(self._rest_surface)
        self.coarse = DrivingSheet(self.model.rest, faces, self)  # type: ignore[assignment]
        self.pieces = 1
        self.embedding_name = "itself"  # type: ignore[assignment]
        self.embedding = Itself()
        self._velocities = np.zeros_like(self.model.rest)
        self._fixed: Bools = np.zeros(len(self.model.rest), dtype=np.bool_)
        self._moved: Bools = np.zeros(len(self.model.rest), dtype=np.bool_)
        self._motion = np.zeros_like(self.model.rest)
        self.time, self.prepared = 0.0, ""
        most = THICKEST * _lowest_altitude(self.model.rest, faces)
        self.thickness: float = most if thickness is None else as_length(thickness) or 0.0
        if not 0.0 < self.thickness <= most:
            raise OptionError(
                f"thickness is {thickness!r}, expected a positive number up to {most:g}: {THICKEST:g} of the lowest "
                "altitude of a triangle, so that neighbours do not touch; take larger triangles for a thicker cloth"
            )
        if fixed is not None:
            self.fix(fixed)

    def save(self, path: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: files hold soft bodies with tets."""
        raise OptionError("a cloth cannot be saved by itself; Simulation.save keeps its state")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what it was made of, and its state."""
        with self._lock:
            state = self.coarse.vertices.copy(), self._velocities.copy(), self.time
            held = self.fixed, self.moved, self.motion
            return _again, (self.model.rest, self.model.faces, self.thickness, self._options, state, held)

    def __repr__(self) -> str:
        return f"<Cloth: {len(self.surface)} triangles, {int(self._fixed.sum())} fixed, time {self.time:g}>"


class DrivingSheet(TriMesh):
    """The vertices of a cloth that can be set: its surface follows."""

    def __init__(self, vertices: Floats, faces: Ints, body: Cloth) -> None:
        super().__init__(vertices, faces)
        self._body = body

    def update(self, vertices: Any, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions, shape (n, 3), of both meshes."""
        x = as_positions(vertices, count=len(self.vertices), check=check)
        with self._body.alone():
            dense = self._body.steered_by(x)
            with self.positions.lock:  # which those take who look at both
                super().update(x, copy=copy, check=False)
                self._body.surface.follow(dense)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the cloth with it."""
        return operator.attrgetter("coarse"), (self._body,)


class Itself:
    """The embedding of a mesh that is its own surface."""

    def steer(self, coarse: Floats, out: Floats | None = None) -> Floats:
        """The same positions."""
        if out is None:
            return coarse.copy()
        out[...] = coarse
        return out

    def differential(self, vertices: Ints) -> tuple[Ints, Floats]:
        """Each vertex moves with itself."""
        return vertices[:, None], np.broadcast_to(np.eye(3), (len(vertices), 1, 3, 3))


def _lowest_altitude(x: Floats, faces: Ints) -> float:
    corner = x[faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    longest = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2).max(axis=1)
    return float((area / longest).min())


def _again(
    rest: Floats, faces: Ints, thickness: float, options: dict[str, Any], state: tuple[Any, ...], held: tuple[Any, ...]
) -> Cloth:
    cloth = Cloth((rest, faces), thickness=thickness, **options)
    cloth.fix(held[0])
    cloth.move(held[1], held[2] if len(held[1]) else np.zeros(3))
    cloth.coarse.update(state[0])
    cloth.velocities, cloth.time = state[1], state[2]
    return cloth
