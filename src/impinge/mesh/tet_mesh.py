"""Tetrahedra whose vertices move every frame, with a boundary surface that follows them.

The surface is a view: it shares positions and version of the tets. Its faces face outwards at rest, whatever the order
of a tet's corners in the input. Removing tets exposes the faces behind them; ids of the surface are stable, and the
cost is proportional to the number of removed tets.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import NONE, Bools, Floats, Ints, as_ids, sorted_unique
from impinge.errors import MeshError
from impinge.mesh.adjacency import TET_FACES, tet_face_neighbours
from impinge.mesh.elements import Elements
from impinge.mesh.mesh import Mesh, Validate, check_elements
from impinge.mesh.positions import Positions
from impinge.mesh.tri_mesh import TriMesh


def signed_volumes(vertices: Floats, tets: Ints) -> Floats:
    """Signed volume of each tet: ((x1 - x0) × (x2 - x0)) · (x3 - x0) / 6."""
    x0, x1, x2, x3 = (vertices[tets[:, k]] for k in range(4))
    volumes: Floats = np.einsum("ij,ij->i", np.cross(x1 - x0, x2 - x0), x3 - x0) / 6.0
    return volumes


class TetMesh(Mesh):
    """A volume of tetrahedra with a boundary surface.

    Inverted tets (negative volume) and flat ones are valid; ``impinge.validate`` counts them.

    Parameters
    ----------
    vertices : array_like, shape (n, 3)
        Positions; copied.
    tets : array_like, shape (m, 4)
        Vertex ids of each tetrahedron; copied.
    validate : {"raise", "drop", "trust"}
        As for ``TriMesh``.

    Raises
    ------
    MeshError
        As for ``TriMesh``.
    """

    _noun = "tets"

    def __init__(self, vertices: ArrayLike, tets: ArrayLike, *, validate: Validate = "raise") -> None:
        x, rows = check_elements(vertices, tets, 4, validate)
        self._adopt(Positions(x.copy()), Elements(rows.copy()))
        self._surface: TetSurface | None = None
        self._inverted: Bools | None = None

    def update(self, vertices: ArrayLike, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions, as ``TriMesh.update`` does; the surface follows."""
        with self.positions.lock:
            self._inverted_at_rest()  # before the first update
            super().update(vertices, copy=copy, check=check)

    @property
    def volumes(self) -> Floats:
        """Signed volume of each live tet; negative means inverted."""
        with self.positions.lock:
            x, rows = self.positions.vertices, self.elements.live_rows
        return signed_volumes(x, rows)

    @property
    def volume(self) -> float:
        """Total volume, each tet counted by its size whatever its orientation."""
        return float(np.abs(self.volumes).sum())

    @property
    def tets(self) -> Ints:
        """Vertex ids of all tets, shape (m, 4), read-only; see ``alive`` for the dead ones."""
        view = self.elements.rows.view()
        view.flags.writeable = False
        return view

    @property
    def neighbours(self) -> Ints:
        """The tet across each face, shape (m, 4); column k lies opposite corner k, -1 where there is none.

        A new array, as of now; a removed tet has no neighbours and is none.
        """
        with self.positions.lock:
            return np.where(self.elements.alive[:, None], self.surface._neighbour, np.int32(NONE))

    @property
    def is_closed(self) -> bool:
        """Whether the boundary encloses its inside; true of any valid tet mesh."""
        return self.surface.is_closed

    @property
    def surface(self) -> TetSurface:
        """The boundary: faces of exactly one live tet, facing outwards at rest. Shares positions and version."""
        with self.positions.lock:
            if self._surface is None:
                self._surface = TetSurface(self.positions, self.elements, self._inverted_at_rest())
            return self._surface

    def _inverted_at_rest(self) -> Bools:
        """Mask of the tets with a negative volume before the first update; it fixes which side is outside."""
        if self._inverted is None:
            with np.errstate(over="ignore", invalid="ignore"):
                self._inverted = signed_volumes(self.positions.vertices, self.elements.rows) < 0.0
        return self._inverted

    def remove_tets(self, ids: ArrayLike) -> None:
        """Remove tets by id or by mask; the surface follows. Dead ids are skipped."""
        with self.positions.lock:
            surface = self.surface
            removed = self.elements.remove(as_ids(ids, name="ids", count=len(self.elements.rows)))
            surface.tets_removed(removed)
            self.positions.bump()

    def compact(self) -> Ints:
        """Drop dead tets and renumber the others; return the map old to new id, -1 for the dead.

        Vertices keep their numbers, and so do the triangles of the surface.
        """
        with self.positions.lock:
            inverted = self._inverted_at_rest()
            new_id = super().compact()
            self._inverted = inverted[new_id >= 0]
            if self._surface is not None:
                self._surface.tets_renumbered(new_id)
        return new_id


class TetSurface(TriMesh):
    """The boundary of a tet mesh; a view that cannot be changed by itself.

    ``face_tet`` is the tet behind each triangle.
    """

    def __init__(self, positions: Positions, tets: Elements, inverted: Bools) -> None:
        self._tets = tets
        rows, live, among_live = tets.rows, tets.live, tet_face_neighbours(tets.live_rows)
        self._neighbour = np.full((len(rows), 4), -1, dtype=np.int32)
        self._neighbour[live] = np.where(among_live >= 0, live[among_live], -1)
        # Row 4 t + k is face k of tet t. Corners are ordered for positive volume; two are swapped otherwise.
        self._tet_face = rows[:, TET_FACES].reshape(-1, 3)
        swap = np.repeat(inverted, 4)
        self._tet_face[swap] = self._tet_face[swap][:, [0, 2, 1]]
        exposed = np.flatnonzero((self._neighbour.reshape(-1) < 0) & np.repeat(tets.alive, 4))
        self._tet_face_triangle = np.full(4 * len(rows), -1, dtype=np.int32)
        self._tet_face_triangle[exposed] = np.arange(len(exposed), dtype=np.int32)
        self._face_tet = [(exposed // 4).astype(np.int32)]
        self._adopt(positions, Elements(np.ascontiguousarray(self._tet_face[exposed])))

    @property
    def face_tet(self) -> Ints:
        """The tet behind each triangle, shape (m,); a dead triangle's tet may be gone (-1 after ``compact``)."""
        with self.positions.lock:
            self._face_tet = [np.concatenate(self._face_tet)]
            return self._face_tet[0].copy()

    def tets_removed(self, removed: Ints) -> None:
        """Drop the faces of removed tets and expose the faces of the tets behind them."""
        own = (4 * removed[:, None] + np.arange(4)).reshape(-1)
        gone = self._tet_face_triangle[own]
        self.elements.remove(gone[gone >= 0])
        self._tet_face_triangle[own] = -1
        behind = sorted_unique(self._neighbour[removed])
        behind = behind[behind >= 0]
        behind = behind[self._tets.alive[behind]]
        # A live tet drops a dead neighbour immediately: those that it still has were removed by this call.
        row, k = np.nonzero((self._neighbour[behind] >= 0) & ~self._tets.alive[self._neighbour[behind]])
        if len(row):
            tet = behind[row]
            self._neighbour[tet, k] = -1
            exposed = 4 * tet + k
            self._tet_face_triangle[exposed] = self.elements.append(self._tet_face[exposed])
            self._face_tet.append(tet)

    def tets_renumbered(self, new_id: Ints) -> None:
        """Renumber the tets; triangles keep their ids."""
        kept = new_id >= 0
        new_id = np.append(new_id, np.int32(-1))  # -1 selects the last entry and stays -1
        self._neighbour = new_id[self._neighbour[kept]]
        self._tet_face = self._tet_face.reshape(-1, 4, 3)[kept].reshape(-1, 3)
        self._tet_face_triangle = self._tet_face_triangle.reshape(-1, 4)[kept].reshape(-1)
        self._face_tet = [new_id[self.face_tet]]

    def _refuse(self, verb: str) -> NoReturn:
        raise MeshError(
            f"this surface is the boundary of a TetMesh and cannot {verb}; "
            "change the tet mesh (update, remove_tets) or make a TriMesh of its vertices and faces"
        )

    def update(self, vertices: ArrayLike, *, copy: bool = True, check: bool = True) -> None:  # noqa: ARG002
        """Refuse: the tet mesh owns the positions."""
        self._refuse("be updated by itself")

    def add_vertices(self, vertices: ArrayLike) -> Ints:  # noqa: ARG002
        """Refuse: the tet mesh owns the vertices."""
        self._refuse("gain vertices")

    def add_triangles(self, faces: ArrayLike, vertices: ArrayLike | None = None) -> Ints:  # noqa: ARG002
        """Refuse: the surface follows from the tets."""
        self._refuse("gain triangles")

    def remove_triangles(self, ids: ArrayLike) -> None:  # noqa: ARG002
        """Refuse: the surface follows from the tets."""
        self._refuse("lose triangles")

    def compact(self) -> Ints:
        """Refuse: the surface follows from the tets."""
        self._refuse("be compacted")
