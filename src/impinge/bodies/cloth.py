"""Cloth: a sheet of springs that is its own surface, with a thickness.

A ``SoftBody`` whose coarse mesh and dense surface are one triangle mesh, open or closed; its model is a spring network
(``deform.springs``). A ``Simulation`` keeps a distance of ``thickness`` between layers of cloth, and of half of that to
other bodies.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from impinge.bodies.soft_body import SoftBody
from impinge.bodies.soft_body_meshes import Driving
from impinge.checks import Floats, Ints, as_length, shown
from impinge.deform.springs import SpringSheet
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike
from impinge.mesh.cubes import sized_surface
from impinge.mesh.tri_mesh import TriMesh

THICKEST = 0.4
"""Largest thickness, in smallest triangle altitudes: neighbours at rest must not touch."""


class Cloth(SoftBody):
    """A thin sheet that stretches and bends.

    Parameters
    ----------
    surface
        Any surface, which defines the rest shape. It is copied.
    thickness
        Distance between layers [m]; by default ``THICKEST`` of the smallest triangle altitude.
    fixed
        Ids, or a mask, of vertices with velocity zero.
    stretching, bending, density, damping, drag
        As in ``deform.springs.SpringSheet``.
    """

    model: SpringSheet

    def __init__(
        self,
        surface: SurfaceLike,
        *,
        thickness: float | None = None,
        fixed: ArrayLike | None = None,
        stretching: float = 100.0,
        bending: float = 0.02,
        density: float = 0.2,
        damping: float = 0.3,
        drag: float = 0.5,
    ) -> None:
        snapshot = sized_surface(surface).snapshot()
        faces = np.ascontiguousarray(snapshot.elements[snapshot.live])
        self._options = {
            "stretching": stretching, "bending": bending, "density": density, "damping": damping, "drag": drag,
        }  # fmt: skip
        model = SpringSheet(snapshot.vertices, faces, **self._options)
        self._start(model, TriMesh(model.rest, faces))
        self.coarse = DrivingSheet(model.rest, faces, self)  # type: ignore[assignment]
        self.model_name, self.pieces = None, 1
        self.embedding_name = "itself"  # type: ignore[assignment]
        self.embedding = Itself()
        corner = model.rest[faces]
        area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
        longest = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2).max(axis=1)
        most = THICKEST * float((area / longest).min())
        self.thickness: float = most if thickness is None else as_length(thickness) or 0.0
        if not 0.0 < self.thickness <= most:
            raise OptionError(
                f"thickness is {shown(thickness)}, expected a positive number up to {most:g}: {THICKEST:g} of the "
                "smallest altitude of a triangle, below which neighbours do not touch; take larger triangles for a "
                "thicker cloth"
            )
        if fixed is not None:
            self.fix(fixed)

    @classmethod
    def from_surface(cls, surface: SurfaceLike, **options: NoReturn) -> NoReturn:  # type: ignore[override]  # noqa: ARG003
        """Refuse: a cloth is the surface itself, without tets."""
        raise OptionError(
            "a cloth has no tets to be made from a surface; call Cloth(surface), or SoftBody.from_surface"
        )

    def save(self, path: str | os.PathLike[str]) -> NoReturn:  # noqa: ARG002
        """Refuse: files hold soft bodies with tets."""
        raise OptionError("a cloth cannot be saved by itself; Simulation.save keeps its state")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle rest shape, options and state."""
        with self._lock:
            state = self.coarse.vertices.copy(), self._velocities.copy(), self.time
            held = self.fixed, self.moved, self.motion
            return _restored, (self.model.rest, self.model.faces, self.thickness, self._options, state, held)

    def __repr__(self) -> str:
        return f"<Cloth: {len(self.surface)} triangles, {int(self._fixed.sum())} fixed, time {self.time:g}>"


class DrivingSheet(Driving, TriMesh):
    """The simulated mesh of a cloth; its update moves the surface."""


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


def _restored(
    rest: Floats, faces: Ints, thickness: float, options: dict[str, Any], state: tuple[Any, ...], held: tuple[Any, ...]
) -> Cloth:
    cloth = Cloth((rest, faces), thickness=thickness, **options)
    cloth.fix(held[0])
    cloth.move(held[1], held[2] if len(held[1]) else np.zeros(3))
    cloth.coarse.update(state[0])
    cloth.velocities, cloth.time = state[1], state[2]
    return cloth
