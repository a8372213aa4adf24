"""Triangles whose vertices move every frame and which may come and go.

Topology (which vertices make a triangle) is kept apart from positions. ``update`` brings new positions,
``add_triangles`` and ``remove_triangles`` edit the topology; either bumps ``version``, so that no query can
use stale boxes. Ids are stable: a removed triangle is dead, not renumbered, until ``compact``.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.checks import (
    Bools,
    Floats,
    Ints,
    as_ids,
    as_indices,
    as_positions,
    check_finite,
    check_range,
    out_of_range,
)
from impinge.errors import MeshError, MeshWarning, OptionError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.elements import Elements, Mark
from impinge.mesh.positions import Positions
from impinge.mesh.structures import KeepsStructures

Validate: TypeAlias = Literal["raise", "drop", "trust"]
_VALIDATE_MODES = ("raise", "drop", "trust")


class Frame(NamedTuple):
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
        """Ids removed between an earlier mark of the same epoch and this frame."""
        return np.concatenate([np.zeros(0, dtype=np.int32), *self.removed[mark.removals : self.mark.removals]])

    def live(self) -> Bools:
        """Which triangles were alive in this frame, whatever was removed since."""
        alive = self.alive[: self.mark.added].copy()
        for ids in self.removed[self.mark.removals :]:
            alive[ids[ids < len(alive)]] = True
        return alive


class Snapshot(NamedTuple):
    """What one query works on, unchanged by whatever happens to the body meanwhile."""

    vertices: Floats
    """Positions, shape (n, 3)."""
    elements: Ints
    """Vertex ids of all triangles or tets, dead ones too, shape (m, 3) or (m, 4)."""
    live: Ints
    """Sorted ids of the elements that are alive."""
    version: int


def check_elements(vertices: Any, elements: Any, *, columns: int, name: str, validate: Validate) -> tuple[Floats, Ints]:
    """Turn arrays of any kind into positions and vertex ids that are safe to use, as ``validate`` says."""
    if validate not in _VALIDATE_MODES:
        raise OptionError(f"validate is {validate!r}, expected one of {', '.join(map(repr, _VALIDATE_MODES))}")
    x = as_positions(vertices, check=False)
    if validate == "raise":
        check_finite(x, "vertices", remedy=f", pass validate='drop' to leave out the {name} that use such vertices")
    rows = as_indices(elements, name=name, columns=columns)
    if validate == "raise":
        check_range(rows, len(x), name, remedy=f"; pass validate='drop' to leave such {name} out")
    if validate == "drop":
        x, rows = _drop_bad(x, rows, name)
    return x, rows


def _drop_bad(x: Floats, rows: Ints, name: str) -> tuple[Floats, Ints]:
    """Leave out rows with bad ids or non-finite corners, and say which; such corners move to the origin."""
    finite = np.asarray(np.isfinite(x).all(axis=1))
    bad = out_of_range(rows, len(x))
    inside = ~bad
    bad[inside] = ~finite[rows[inside]].all(axis=1)
    if not finite.all():
        x = np.where(finite[:, None], x, 0.0)
    if bad.any() or not finite.all():
        ids = np.flatnonzero(bad)
        shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
        warnings.warn(
            f"left out {len(ids)} of {len(rows)} {name} (rows {shown or 'none'}) that use a missing or non-finite "
            f"vertex; {int((~finite).sum())} non-finite vertices moved to the origin; ids count the rows that stay",
            MeshWarning,
            stacklevel=4,  # the line that makes the body
        )
    return x, np.ascontiguousarray(rows[~bad])


def used_ids(rows: Ints, vertex_count: int) -> Ints:
    """Sorted ids of the vertices that occur in ``rows``."""
    mask = np.zeros(vertex_count, dtype=np.bool_)
    mask[rows.reshape(-1)] = True
    return np.flatnonzero(mask).astype(np.int32)


def box_around(x: Floats, rows: Ints) -> Floats:
    """Lowest and highest corner of the vertices that occur in ``rows``, shape (2, 3); lo > hi if there are none."""
    if not len(rows):
        return np.array([[np.inf] * 3, [-np.inf] * 3])
    used = x[used_ids(rows, len(x))]
    return np.stack([used.min(axis=0), used.max(axis=0)])


class TriMesh(KeepsStructures):
    """A triangle surface or soup.

    ``vertices`` (n, 3) and ``faces`` (m, 3) are array-likes; they are copied. ``validate="raise"`` refuses
    bad input with a sentence, ``"drop"`` leaves bad faces out with a warning that names them, ``"trust"``
    checks shapes and types only.
    """

    def __init__(self, vertices: Any, faces: Any, *, validate: Validate = "raise") -> None:
        x, rows = check_elements(vertices, faces, columns=3, name="faces", validate=validate)
        self._adopt(Positions(x.copy()), Elements(rows.copy()))

    def _adopt(self, positions: Positions, elements: Elements) -> None:
        self._positions = positions
        self._elements = elements
        self._adjacency: tuple[tuple[int, int], Adjacency] | None = None
        self._bounds: tuple[int, Floats] | None = None
        self._structures = {}

    # positions ---------------------------------------------------------------------------------------

    @property
    def vertices(self) -> Floats:
        """Current positions, shape (n, 3), a read-only view; ``update`` changes them."""
        return self._positions.vertices

    @property
    def positions(self) -> Positions:
        """What holds the vertices and tells their version, for structures that look at them in every frame."""
        return self._positions

    @property
    def elements(self) -> Elements:
        """What holds the triangles and tells of edits, likewise."""
        return self._elements

    @property
    def version(self) -> int:
        """Grows with every change of positions or topology."""
        return self._positions.version

    def update(self, vertices: Any, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions, shape (n, 3).

        They are copied, so that later writes to the array change nothing; ``copy=False`` keeps the array
        itself (float64 and C-contiguous, or it is copied after all). ``check=False`` skips the look for NaN.
        """
        x = as_positions(vertices, count=len(self._positions), check=False)
        self._positions.update(x, copy=copy, check=check)

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of the box around all live triangles, shape (2, 3); lo > hi if there are none."""
        cached = self._bounds
        if cached is None or cached[0] != self.version:
            with self._positions.lock:
                (x, _, version, _), rows = self._positions.state, self._elements.live_rows
            self._bounds = cached = (version, box_around(x, rows))
        return cached[1].copy()

    # topology ----------------------------------------------------------------------------------------

    @property
    def faces(self) -> Ints:
        """Vertex ids of all triangles ever added, shape (m, 3), read-only; see ``alive`` for the dead ones."""
        view = self._elements.rows.view()
        view.flags.writeable = False
        return view

    @property
    def alive(self) -> Bools:
        """Which triangles are alive, shape (m,)."""
        return self._elements.alive.copy()

    @property
    def live_count(self) -> int:
        """How many triangles are alive."""
        return self._elements.live_count

    @property
    def topology_version(self) -> int:
        """Grows when triangles are added or removed, not when vertices move."""
        return self._elements.version

    def frame(self) -> Frame:
        """As ``snapshot``, without the list of live ids: its cost does not grow with the mesh after an edit."""
        with self._positions.lock:
            (x, motion, version, _), elements = self._positions.state, self._elements
            return Frame(x, elements.rows, elements.alive, elements.mark, elements.removed, motion, version)

    def snapshot(self) -> Snapshot:
        """Positions, faces and live ids that belong together, safe from later changes."""
        with self._positions.lock:
            x, _, version, _ = self._positions.state
            return Snapshot(x, self._elements.rows, self._elements.live, version)

    def add_vertices(self, vertices: Any) -> Ints:
        """Add vertices behind the last one; return their ids."""
        x = as_positions(vertices)
        with self._positions.lock:
            first = self._positions.append(x)
        return np.arange(first, first + len(x), dtype=np.int32)

    def add_triangles(self, faces: Any, vertices: Any = None) -> Ints:
        """Add triangles, and first the ``vertices`` that they may use; return the new triangles' ids."""
        x = as_positions([] if vertices is None else vertices)
        rows = as_indices(faces, name="faces", columns=3)
        with self._positions.lock:
            count = len(self._positions) + len(x)
            check_range(rows, count, "faces", remedy="; pass new vertices along (vertices=)")
            if len(x):
                self._positions.append(x)
            ids = self._elements.append(rows)
            self._positions.bump()
        return ids

    def remove_triangles(self, ids: Any) -> None:
        """Remove triangles by id or by mask; ids that are dead already are passed over."""
        with self._positions.lock:
            self._elements.remove(as_ids(ids, name="ids", count=len(self._elements.rows)))
            self._positions.bump()

    def compact(self) -> Ints:
        """Forget dead triangles and number the others anew; return the map old to new id, -1 for the dead.

        Vertices keep their numbers, so that ``update`` goes on as before.
        """
        with self._positions.lock:
            new_id = self._elements.compact()
            self._positions.bump()
        return new_id

    @property
    def adjacency(self) -> Adjacency:
        """Edges and neighbours of the live triangles (rows count live triangles, in the order of their ids)."""
        with self._positions.lock:
            key = (self._elements.version, len(self._positions))
            if self._adjacency is None or self._adjacency[0] != key:
                self._adjacency = (key, Adjacency(self._elements.live_rows, len(self._positions)))
            return self._adjacency[1]

    @property
    def used_vertices(self) -> Ints:
        """Sorted ids of the vertices that live triangles use."""
        with self._positions.lock:
            count, rows = len(self._positions), self._elements.live_rows
        return used_ids(rows, count)

    @property
    def is_closed(self) -> bool:
        """Whether every edge borders an even number of triangles, so that inside and outside are defined."""
        return self.adjacency.is_closed

    @property
    def volume(self) -> float:
        """Enclosed volume, by the divergence theorem; negative if the surface is inside out."""
        with self._positions.lock:
            adjacency, x = self.adjacency, self._positions.vertices
        if not adjacency.is_oriented:
            raise MeshError(
                f"the surface encloses no volume: {int(adjacency.open_edges.sum())} open, "
                f"{int(adjacency.nonmanifold_edges.sum())} non-manifold and {int(adjacency.flipped_edges.sum())} "
                "flipped edges; close and orient it first (impinge.validate tells more)"
            )
        corner = x[adjacency.faces]
        corner -= box_around(x, adjacency.faces).mean(axis=0)  # near the surface: less is lost to rounding
        return float(np.einsum("ij,ij->", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])) / 6.0)

    def __len__(self) -> int:
        """How many triangles are alive."""
        return self.live_count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        dead = len(self._elements.rows) - self.live_count
        return (
            f"<TriMesh: {len(self._positions)} vertices, {self.live_count} triangles"
            f"{f' ({dead} dead)' if dead else ''}, version {self.version}>"
        )
