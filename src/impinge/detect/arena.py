"""The surfaces of many bodies in one set of arrays, so that one kernel call serves all of them.

Bodies stand one behind the other: vertex v of body b is number ``vertex_start[b] + v`` among all, and its live
triangles are rows ``face_start[b]`` to ``face_start[b + 1]`` of ``faces``, which hold such numbers.

Layout     follows from the topology; made anew when a body is added, removed or edited. Cost O(all triangles).
Positions  are copied for bodies whose version changed since the last look, and taken as they are from bodies whose
           positions were set together (``update_together``): then there is nothing to copy. Versions are compared at
           every look, so that nothing can be stale.
Boxes      of bodies, and of triangles of small bodies, are fitted again for those that moved.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Floats, Ints, as_positions, check_finite
from impinge.detect import arena_kernels as kernels
from impinge.detect.arena_kernels import CHUNK
from impinge.detect.containment import pieces_of
from impinge.mesh.adjacency import Adjacency, grouped
from impinge.mesh.positions import copy_positions
from impinge.mesh.tri_mesh import TriMesh

Ids = NDArray[np.int64]

SMALL = 2048
"""Triangles up to which a body has boxes around each of them here, so that its pairs can be found without a tree."""
SMALL_INSIDE = 512
"""Triangles up to which going through all of them for each vertex inside beats a question to the body's tree."""

_OWN_REFERENCES = 2
"""What ``sys.getrefcount`` says of an array that one name refers to."""


class Layout:
    """What follows from the topology of all bodies."""

    def __init__(self, surfaces: Sequence[TriMesh]) -> None:
        snapshots = [surface.snapshot() for surface in surfaces]
        self.edits = [surface.positions.edits for surface in surfaces]
        """How often each body was edited when this was made."""
        self.elements = [snapshot.elements for snapshot in snapshots]
        self.live = [snapshot.live for snapshot in snapshots]
        self.vertex_start = _starts([len(snapshot.vertices) for snapshot in snapshots])
        self.face_start = _starts([len(ids) for ids in self.live])
        rows = [np.zeros((0, 3), dtype=np.int32)]
        rows += [each.elements[each.live] + np.int32(first) for each, first in zip(snapshots, self.vertex_start)]
        self.faces: Ints = np.concatenate(rows)
        """Corners of all live triangles, as numbers among all vertices."""
        self.face_id: Ints = np.concatenate([np.zeros(0, dtype=np.int32), *self.live])
        """The id of each triangle in its body."""
        is_used = np.zeros(self.vertex_count, dtype=np.bool_)
        is_used[self.faces.reshape(-1)] = True
        self.used = np.flatnonzero(is_used)
        """Numbers of the vertices that live triangles have."""
        self.used_start = np.searchsorted(self.used, self.vertex_start)
        self.is_small: Bools = np.diff(self.face_start) <= SMALL
        self.chunk_start = _starts(-(-np.diff(self.face_start) // CHUNK) * self.is_small)
        """Where the chunks of each small body begin, runs of its triangles that have a box together."""

    @property
    def vertex_count(self) -> int:
        """Vertices of all bodies."""
        return int(self.vertex_start[-1])

    @property
    def body_count(self) -> int:
        """How many bodies there are."""
        return len(self.live)

    @cached_property
    def _closed(self) -> tuple[Bools, Bools]:
        """Which triangles belong to pieces closed by their indices, and to oriented ones."""
        pieces = pieces_of(self.faces, self.vertex_count)
        return pieces.closed[pieces.of_face], pieces.oriented[pieces.of_face]

    @property
    def is_oriented(self) -> Bools:
        """Which triangles belong to pieces that agree on which side is outside."""
        return self._closed[1]

    @cached_property
    def is_closed(self) -> Bools:
        """Bodies of which every piece is closed by its indices; others may be closed by where their vertices are."""
        open_faces = np.concatenate([[0], np.cumsum(~self._closed[0])])
        closed: Bools = (np.diff(open_faces[self.face_start]) == 0) & (np.diff(self.face_start) > 0)
        return closed

    @cached_property
    def by_kernel(self) -> Bools:
        """Bodies whose inside is searched here; the others are asked with structures of their own."""
        few: Bools = np.diff(self.face_start) <= SMALL_INSIDE
        return few & self.is_closed

    @cached_property
    def vertex_tri(self) -> tuple[Ids, Ids]:
        """Triangles around each vertex: (start, triangle)."""
        return Adjacency(self.faces, self.vertex_count).vertex_tri

    @cached_property
    def vertex_neighbour(self) -> tuple[Ids, Ints]:
        """Vertices that share an edge with each vertex: (start, vertex)."""
        low, high = Adjacency(self.faces, self.vertex_count).edges.T
        start, order = grouped(np.concatenate([low, high]).astype(np.int64), self.vertex_count)
        return start, np.concatenate([high, low])[order].astype(np.int32)

    def body_of_face(self, rows: NDArray[Any]) -> Ids:
        """The bodies that triangles belong to."""
        return np.searchsorted(self.face_start, rows, side="right") - 1

    def body_of_vertex(self, vertices: NDArray[Any]) -> Ids:
        """The bodies that vertices belong to."""
        return np.searchsorted(self.vertex_start, vertices, side="right") - 1

    def rows_of(self, body: int, ids: Ints) -> Ids:
        """Rows of triangles of one body, by their ids there."""
        found: Ids = self.face_start[body] + np.searchsorted(self.live[body], ids)
        return found


def _starts(counts: Any) -> Ids:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class Arena:
    """Surfaces of many bodies, and where they are."""

    def __init__(self, surfaces: Sequence[TriMesh]) -> None:
        self.surfaces = tuple(surfaces)
        self._positions = [surface.positions for surface in surfaces]
        self._buffers: list[Floats] = []
        self._begin()

    def _begin(self) -> None:
        """Make everything that the topology decides."""
        self.layout = layout = Layout(self.surfaces)
        self._show(np.zeros((layout.vertex_count, 3)))
        self.versions = [-1] * layout.body_count
        """The version of each body that ``x`` shows."""
        self.low, self.high = np.zeros((layout.body_count, 3)), np.zeros((layout.body_count, 3))
        """Corners of the box around each body; low > high if it has no triangles."""
        self.face_box = np.zeros((len(layout.faces), 6))
        """Lowest and highest corner of each triangle of a small body; rows of others are never written."""
        self.chunk_box = np.zeros((layout.chunk_start[-1], 6))
        """The same of each chunk."""

    def look(self) -> None:
        """Take the positions of what moved since the last look, and fit boxes to them."""
        versions = [positions.version for positions in self._positions]
        if versions == self.versions:
            return
        while True:
            if [positions.edits for positions in self._positions] != self.layout.edits:
                self._begin()
            moved = np.flatnonzero(np.array([p.version for p in self._positions]) != np.array(self.versions))
            if self._copy(moved):
                break
        self.fit(moved)

    def _show(self, x: Floats, *, shared: bool = False) -> None:
        """Let ``x`` be the positions of all vertices; bodies that show parts of it share it."""
        self._buffer, self._is_shared = x, shared
        self.x: Floats = _read_only(x)
        """Positions of all vertices, read-only."""

    def _copy(self, moved: Ids) -> bool:
        """Copy the positions of the bodies that moved; into another buffer, if bodies show parts of this one.

        False if another thread has edited one of them meanwhile.
        """
        start = self.layout.vertex_start
        if self._is_shared:
            x = self._take_buffer()
            np.copyto(x, self._buffer)
            self._show(x)
        for b in moved.tolist():
            positions = self._positions[b]
            with positions.lock:
                if positions.edits != self.layout.edits[b]:
                    return False
                self.versions[b] = positions.version
                self._buffer[start[b] : start[b + 1]] = positions.vertices
        return True

    def _take_buffer(self) -> Floats:
        """Room for all positions: an array of an earlier frame that nobody refers to any more, or a new one."""
        shape = (self.layout.vertex_count, 3)
        self._buffers = [buffer for buffer in self._buffers if buffer.shape == shape]
        for k in range(len(self._buffers)):
            if sys.getrefcount(self._buffers[k]) == _OWN_REFERENCES:
                return self._buffers[k]
        self._buffers.append(np.zeros(shape))
        return self._buffers[-1]

    def update_together(self, vertices: Any) -> None:
        """Set the positions of all bodies, one behind the other, in one copy; the bodies show parts of it.

        Ask for a ``look`` first, so that their numbers of vertices are known.
        """
        x = self._take_buffer()
        copy_positions(as_positions(vertices, check=False), x, check=True)
        self._show(x, shared=True)
        self._share(range(self.layout.body_count))

    def move(self, bodies: Sequence[int], transforms: Floats, rest: Floats) -> None:
        """Set the positions of some bodies to ``rest``, by the arena's numbers, moved by a transform (4x4) each."""
        x = self._take_buffer()
        np.copyto(x, self._buffer)
        rows = np.asarray(bodies, dtype=np.int64)
        kernels.move_bodies.over(8 * len(rows))(rows, transforms, rest, self.layout.vertex_start, x)
        check_finite(x, "moved vertices", remedy="; use smaller units")
        self._show(x, shared=True)
        self._share(bodies)

    def _share(self, bodies: Sequence[int]) -> None:
        """Let some bodies show their parts of the positions."""
        ends = self.layout.vertex_start.tolist()
        for b in bodies:
            self.versions[b] = self._positions[b].adopt(self.x[ends[b] : ends[b + 1]])
        self.fit(np.asarray(bodies, dtype=np.int64))

    @property
    def size(self) -> float:
        """The largest coordinate of a box."""
        is_there = (self.low <= self.high).all(axis=1)
        return float(np.abs(np.stack([self.low, self.high])[:, is_there]).max(initial=0.0))

    @property
    def boxes(self) -> tuple[Any, ...]:
        """Triangles and chunks of small bodies and their boxes, as kernels take them, and boxes of bodies."""
        layout = self.layout
        return layout.face_start, self.face_box, layout.chunk_start, self.chunk_box, self.low, self.high

    def fit(self, moved: Ids) -> None:
        """Fit the boxes of some bodies."""
        layout = self.layout
        boxes = self.low, self.high, self.face_box, layout.chunk_start, self.chunk_box
        kernels.fit_boxes.over(8 * len(moved))(
            moved, self.x, layout.used_start, layout.used, layout.face_start, layout.faces, layout.is_small, *boxes
        )


def _read_only(x: Floats) -> Floats:
    """A view that Numba compiles for as it does for the positions of a body."""
    view = x.view()
    view.flags.writeable = False
    return view
