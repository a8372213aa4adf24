"""The two meshes of a soft body: the coarse one drives, the dense surface follows."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_flag, as_positions
from impinge.errors import MeshError
from impinge.mesh.mesh import Mesh
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

if TYPE_CHECKING:
    from impinge.bodies.soft_body import SoftBody


class Driving(Mesh):
    """The coarse mesh of a soft body; its update deforms the surface."""

    def __init__(self, vertices: Floats, elements: Ints, body: SoftBody) -> None:
        super().__init__(vertices, elements)  # type: ignore[call-arg]  # of TetMesh or TriMesh
        self._body = body

    def update(self, vertices: ArrayLike, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions, shape (n, 3), and deform the dense surface: both or neither.

        An update waits for a step of another thread.
        """
        x = as_positions(vertices, count=len(self.vertices), check=as_flag(check, "check"))
        with self._body.driven(x):
            super().update(x, copy=copy, check=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the body with its coarse mesh."""
        return operator.attrgetter("coarse"), (self._body,)


class DrivingTets(Driving, TetMesh):
    """The coarse tets of a soft body."""

    def remove_tets(self, ids: ArrayLike) -> NoReturn:  # noqa: ARG002
        """Refuse: the model has a copy of the tets."""
        raise MeshError("the coarse mesh of a soft body cannot lose tets; make a new SoftBody of the remaining ones")

    def compact(self) -> NoReturn:
        """Refuse: the model has a copy of the tets."""
        raise MeshError("the coarse mesh of a soft body has no dead tets to remove; make a new SoftBody to renumber")


class SteeredSurface(TriMesh):
    """The dense surface of a soft body: triangles can be added and removed, vertices follow the coarse mesh."""

    def __init__(self, surface: TriMesh) -> None:
        snapshot = surface.snapshot()
        super().__init__(snapshot.vertices, snapshot.elements, validate="trust")
        if len(snapshot.live) < len(snapshot.elements):
            self.remove_triangles(np.setdiff1d(np.arange(len(snapshot.elements)), snapshot.live))

    def follow(self, vertices: Floats) -> None:
        """Set the positions of the embedding, which are finite."""
        super().update(vertices, check=False)

    def update(self, vertices: ArrayLike, *, copy: bool = True, check: bool = True) -> NoReturn:  # noqa: ARG002
        """Refuse: the coarse mesh defines the motion."""
        raise MeshError(
            "this surface is steered by a soft body and cannot be updated by itself; update the soft body's coarse mesh"
        )

    def add_vertices(self, vertices: ArrayLike) -> NoReturn:  # noqa: ARG002
        """Refuse: a new vertex has no embedding."""
        raise MeshError("this surface is steered by a soft body and cannot gain vertices; make a new SoftBody")

    def add_triangles(self, faces: ArrayLike, vertices: ArrayLike | None = None) -> Ints:
        """Add triangles of existing vertices; new vertices are refused."""
        return self.add_vertices(vertices) if vertices is not None else super().add_triangles(faces)
