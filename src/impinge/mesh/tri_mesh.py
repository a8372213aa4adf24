"""Triangles whose vertices move every frame and which may come and go.

``update`` sets new positions, ``add_triangles`` and ``remove_triangles`` edit the topology. Ids are stable: a removed
triangle is dead, not renumbered, until ``compact``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Bools, Floats, Ints, as_ids, as_indices, as_positions, check_range
from impinge.errors import MeshError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.elements import Elements, Mark
from impinge.mesh.mesh import Mesh, Snapshot, Validate, box_around, check_elements, used_ids
from impinge.mesh.positions import Positions

__all__ = ["BodyState", "Snapshot", "TriMesh", "Validate", "box_around", "check_elements", "used_ids"]


class BodyState(NamedTuple):
    """One state of a body, for structures that follow its edits."""

    vertices: Floats
    """Positions, shape (n, 3)."""
    faces: Ints
    """All triangles ever added, shape (m, 3)."""
    alive: Bools
    """Which triangles are alive; shows later removals too."""
    mark: Mark
    """How far the history of edits has come."""
    removed: list[Ints]
    """Ids by the call that removed them, later calls too: a list that only grows."""
    motion: int
    """Grows when vertices move, not with edits."""
    version: int
    """Grows with either."""

    def removed_since(self, mark: Mark) -> Ints:
        """Ids removed between an earlier mark of the same epoch and this state."""
        return np.concatenate([np.zeros(0, dtype=np.int32), *self.removed[mark.removals : self.mark.removals]])

    def live(self) -> Bools:
        """Mask of the triangles alive in this state, whatever was removed since."""
        alive = self.alive[: self.mark.added].copy()
        for ids in self.removed[self.mark.removals :]:
            alive[ids[ids < len(alive)]] = True
        return alive


class TriMesh(Mesh):
    """A triangle surface or soup.

    Parameters
    ----------
    vertices : array_like, shape (n, 3)
        Positions; copied.
    faces : array_like, shape (m, 3)
        Vertex ids of each triangle; copied.
    validate : {"raise", "drop", "trust"}
        Refuse bad input; leave bad faces out with a warning that names them; check shapes and types only.

    Raises
    ------
    MeshError
        If an array has the wrong shape or type, a coordinate is not finite, or a face names a missing vertex.

    Examples
    --------
    >>> import impinge
    >>> mesh = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh.update([[0, 0, 1], [1, 0, 1], [0, 1, 1]])
    >>> mesh
    <TriMesh: 3 vertices, 1 triangles, version 1>
    """

    _noun = "triangles"

    def __init__(self, vertices: ArrayLike, faces: ArrayLike, *, validate: Validate = "raise") -> None:
        x, rows = check_elements(vertices, faces, 3, validate)
        self._adopt(Positions(x.copy()), Elements(rows.copy()))

    def _adopt(self, positions: Positions, elements: Elements) -> None:
        super()._adopt(positions, elements)
        self._adjacency: tuple[tuple[int, int], Adjacency] | None = None

    @property
    def faces(self) -> Ints:
        """Vertex ids of all triangles ever added, shape (m, 3), read-only; see ``alive`` for the dead ones."""
        view = self.elements.rows.view()
        view.flags.writeable = False
        return view

    def state(self) -> BodyState:
        """As ``snapshot``, without the list of live ids: after an edit its cost does not grow with the mesh."""
        with self.positions.lock:
            (x, motion, version, _), elements = self.positions.state, self.elements
            return BodyState(x, elements.rows, elements.alive, elements.mark, elements.removed, motion, version)

    def add_vertices(self, vertices: ArrayLike) -> Ints:
        """Append vertices; return their ids."""
        x = as_positions(vertices)
        with self.positions.lock:
            first = self.positions.append(x)
        return np.arange(first, first + len(x), dtype=np.int32)

    def add_triangles(self, faces: ArrayLike, vertices: ArrayLike | None = None) -> Ints:
        """Add triangles, and first the ``vertices`` that they may use; return the ids of the new triangles."""
        x = as_positions([] if vertices is None else vertices)
        rows = as_indices(faces, name="faces", columns=3)
        with self.positions.lock:
            count = len(self.positions) + len(x)
            check_range(rows, count, "faces", remedy="; pass new vertices along (vertices=)")
            if len(x):
                self.positions.append(x)
            ids = self.elements.append(rows)
            self.positions.bump()
        return ids

    def remove_triangles(self, ids: ArrayLike) -> None:
        """Remove triangles by id or by mask; dead ids are skipped."""
        with self.positions.lock:
            self.elements.remove(as_ids(ids, name="ids", count=len(self.elements.rows)))
            self.positions.bump()

    @property
    def adjacency(self) -> Adjacency:
        """Edges and neighbours of the live triangles (rows count live triangles, in the order of their ids)."""
        with self.positions.lock:
            key = (self.elements.version, len(self.positions))
            if self._adjacency is None or self._adjacency[0] != key:
                self._adjacency = (key, Adjacency(self.elements.live_rows, len(self.positions)))
            return self._adjacency[1]

    @property
    def used_vertices(self) -> Ints:
        """Sorted ids of the vertices that live triangles use."""
        with self.positions.lock:
            count, rows = len(self.positions), self.elements.live_rows
        return used_ids(rows, count)

    @property
    def is_closed(self) -> bool:
        """Whether every edge borders an even number of triangles, which defines inside and outside."""
        return self.adjacency.is_closed

    @property
    def volume(self) -> float:
        """Enclosed volume, by the divergence theorem; negative if the surface is inside out."""
        with self.positions.lock:
            adjacency, x = self.adjacency, self.positions.vertices
        if not adjacency.is_oriented:
            remedy = "close and orient it first (impinge.validate lists them)"
            raise MeshError(f"the surface encloses no volume: {adjacency.count_defects()}; {remedy}")
        corner = x[adjacency.faces]
        corner -= box_around(x, adjacency.faces).mean(axis=0)  # near the surface: less is lost to rounding
        return float(np.einsum("ij,ij->", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])) / 6.0)
