"""Tetrahedra whose vertices move every frame, with a boundary surface that follows them.

The surface is a view: it shares the tets' positions and version. Its faces look outwards at rest whatever
the order of a tet's corners in the input. Removing tets exposes the faces behind them; the surface's ids
stay stable while that happens, at a cost that follows the number of tets removed.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from impinge.arrays import Bools, Floats, Ints, as_ids, as_positions
from impinge.errors import MeshError
from impinge.mesh.adjacency import TET_FACES, tet_face_neighbours
from impinge.mesh.elements import Elements
from impinge.mesh.positions import Positions
from impinge.mesh.tri_mesh import Snapshot, TriMesh, Validate, check_elements


def signed_volumes(vertices: Floats, tets: Ints) -> Floats:
    """Signed volume of each tet: ((x1 - x0) × (x2 - x0)) · (x3 - x0) / 6."""
    x0, x1, x2, x3 = (vertices[tets[:, k]] for k in range(4))
    volumes: Floats = np.einsum("ij,ij->i", np.cross(x1 - x0, x2 - x0), x3 - x0) / 6.0
    return volumes


class TetMesh:
    """A volume of tetrahedra: ``vertices`` (n, 3), ``tets`` (m, 4); ``surface`` is its boundary.

    Inverted tets (negative volume) and flat ones are valid; ``impinge.validate`` counts them.
    """

    def __init__(self, vertices: Any, tets: Any, *, validate: Validate = "raise") -> None:
        x, rows = check_elements(vertices, tets, columns=4, name="tets", validate=validate)
        self._positions = Positions(x.copy())
        self._elements = Elements(rows.copy())
        self._surface: TetSurface | None = None
        self._structures: dict[Any, Any] = {}

    # positions ---------------------------------------------------------------------------------------

    @property
    def vertices(self) -> Floats:
        """Current positions, shape (n, 3), a read-only view; ``update`` changes them."""
        view = self._positions.vertices.view()
        view.flags.writeable = False
        return view

    @property
    def version(self) -> int:
        """Grows with every change of positions or topology."""
        return self._positions.version

    def update(self, vertices: Any, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions, shape (n, 3), as ``TriMesh.update`` does; the surface follows."""
        self._positions.update(as_positions(vertices, count=len(self._positions), check=check), copy=copy)

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of the box around all live tets, shape (2, 3); lo > hi if there are none."""
        used = self._positions.vertices[np.unique(self._elements.live_rows)]
        if not len(used):
            return np.array([[np.inf] * 3, [-np.inf] * 3])
        return np.stack([used.min(axis=0), used.max(axis=0)])

    @property
    def volumes(self) -> Floats:
        """Signed volume of each live tet; negative means inverted."""
        return signed_volumes(self._positions.vertices, self._elements.live_rows)

    @property
    def volume(self) -> float:
        """Total volume, each tet counted by its size whatever its orientation."""
        return float(np.abs(self.volumes).sum())

    # topology ----------------------------------------------------------------------------------------

    @property
    def tets(self) -> Ints:
        """Vertex ids of all tets, shape (m, 4), read-only; see ``alive`` for the dead ones."""
        view = self._elements.rows.view()
        view.flags.writeable = False
        return view

    @property
    def alive(self) -> Bools:
        """Which tets are alive, shape (m,)."""
        return self._elements.alive.copy()

    @property
    def live_count(self) -> int:
        """How many tets are alive."""
        return self._elements.live_count

    @property
    def topology_version(self) -> int:
        """Grows when tets are removed, not when vertices move."""
        return self._elements.version

    @property
    def is_closed(self) -> bool:
        """Whether the boundary encloses its inside; true of any valid tet mesh."""
        return self.surface.is_closed

    def snapshot(self) -> Snapshot:
        """Positions, tets and live ids that belong together, safe from later changes."""
        with self._positions.lock:
            return Snapshot(
                self._positions.vertices, self._elements.rows, self._elements.live, self._positions.version
            )

    @property
    def surface(self) -> TetSurface:
        """The boundary: faces of exactly one live tet, looking outwards at rest. Shares positions and version."""
        with self._positions.lock:
            if self._surface is None:
                self._surface = TetSurface(self._positions, self._elements)
            return self._surface

    def remove_tets(self, ids: Any) -> None:
        """Remove tets by id or by mask; the surface follows. Ids that are dead already are passed over."""
        with self._positions.lock:
            surface = self.surface
            removed = self._elements.remove(as_ids(ids, name="ids", count=len(self._elements.rows)))
            surface.tets_removed(removed)
            self._positions.bump()

    def compact(self) -> Ints:
        """Forget dead tets and number the others anew; return the map old to new id, -1 for the dead.

        Vertices keep their numbers. The surface is made anew: ask for ``surface`` again.
        """
        with self._positions.lock:
            new_id = self._elements.compact()
            self._surface = None
            self._positions.bump()
        return new_id

    def __len__(self) -> int:
        """How many tets are alive."""
        return self.live_count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        dead = len(self._elements.rows) - self.live_count
        return (
            f"<TetMesh: {len(self._positions)} vertices, {self.live_count} tets"
            f"{f' ({dead} dead)' if dead else ''}, version {self.version}>"
        )


class TetSurface(TriMesh):
    """The boundary of a tet mesh; a view that cannot be changed by itself.

    ``face_tet`` tells which tet lies behind each triangle.
    """

    def __init__(self, positions: Positions, tets: Elements) -> None:
        self._tets = tets
        rows = tets.rows
        self._neighbour = _live_neighbours(tets)
        # Slot 4 t + k is face k of tet t. Corners are ordered for positive volume; swap two otherwise.
        self._slot_face = rows[:, TET_FACES].reshape(-1, 3)
        inverted = np.repeat(signed_volumes(positions.vertices, rows) < 0.0, 4)
        self._slot_face[inverted] = self._slot_face[inverted][:, [0, 2, 1]]
        slots = np.flatnonzero((self._neighbour.reshape(-1) < 0) & np.repeat(tets.alive, 4))
        self._slot_triangle = np.full(4 * len(rows), -1, dtype=np.int32)
        self._slot_triangle[slots] = np.arange(len(slots), dtype=np.int32)
        self._face_tet = [slots // 4]
        self._adopt(positions, Elements(np.ascontiguousarray(self._slot_face[slots])))

    @property
    def face_tet(self) -> Ints:
        """The tet behind each triangle, shape (m,)."""
        return np.concatenate(self._face_tet).astype(np.int32)

    def tets_removed(self, removed: Ints) -> None:
        """Drop the faces of removed tets and expose the faces of the tets behind them."""
        own = (4 * removed[:, None] + np.arange(4)).reshape(-1)
        gone = self._slot_triangle[own]
        self._elements.remove(gone[gone >= 0])
        self._slot_triangle[own] = -1
        exposed = []
        for t in removed:
            for behind in self._neighbour[t]:
                if behind >= 0 and self._tets.alive[behind]:
                    k = int(np.flatnonzero(self._neighbour[behind] == t)[0])
                    self._neighbour[behind, k] = -1
                    exposed.append(4 * int(behind) + k)
        if exposed:
            slots = np.array(exposed)
            self._slot_triangle[slots] = self._elements.append(self._slot_face[slots])
            self._face_tet.append(slots // 4)

    def _refuse(self, verb: str) -> NoReturn:
        raise MeshError(
            f"this surface is the boundary of a TetMesh and cannot {verb}; "
            "change the tet mesh (update, remove_tets) or make a TriMesh of its vertices and faces"
        )

    def update(self, vertices: Any, *, copy: bool = True, check: bool = True) -> None:  # noqa: ARG002
        """Refuse: the tet mesh owns the positions."""
        self._refuse("be updated by itself")

    def add_vertices(self, vertices: Any) -> Ints:  # noqa: ARG002
        """Refuse: the tet mesh owns the vertices."""
        self._refuse("gain vertices")

    def add_triangles(self, faces: Any, vertices: Any = None) -> Ints:  # noqa: ARG002
        """Refuse: the surface follows from the tets."""
        self._refuse("gain triangles")

    def remove_triangles(self, ids: Any) -> None:  # noqa: ARG002
        """Refuse: the surface follows from the tets."""
        self._refuse("lose triangles")

    def compact(self) -> Ints:
        """Refuse: the surface follows from the tets."""
        self._refuse("be compacted")


def _live_neighbours(tets: Elements) -> Ints:
    """Neighbours across faces among live tets, by their ids, shape (m, 4)."""
    neighbour = np.full((len(tets.rows), 4), -1, dtype=np.int32)
    live = tets.live
    among_live = tet_face_neighbours(tets.live_rows)
    neighbour[live] = np.where(among_live >= 0, live[among_live], -1)
    return neighbour
