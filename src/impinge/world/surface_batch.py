"""Surface batch: the surfaces of many bodies in one set of arrays, for kernels that process all bodies in one call.

Vertex v of body b is row ``vertex_start[b] + v`` of ``x``. The live triangles of body b are rows ``face_start[b]`` to
``face_start[b + 1]`` of ``faces``, whose entries are rows of ``x``.

Layout     depends on the topology; rebuilt when a body is added, removed or edited. Cost O(all triangles). The
           connectivity, its most expensive part, is copied from the previous layout for unchanged bodies.
Positions  are copied from bodies whose version changed since the last refresh. Bodies moved together (``update``,
           ``move``) are attached to the array of the batch (``mesh.positions.SharedPositions``) until they are changed
           on their own; they need neither a copy nor a comparison of versions.
Boxes      of bodies, and of the triangles of small bodies, are refitted for the bodies that moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.references import CAN_COUNT, is_shared
from impinge.backend.simd.boxes import WIDTH
from impinge.checks import NONE, Bools, Floats, Ints, check_finite
from impinge.detect.boxes.whole_tree import LARGEST_EXPONENT
from impinge.detect.common.containment import pieces_of
from impinge.detect.depth.body_states import State
from impinge.mesh.adjacency import Adjacency, grouped
from impinge.mesh.positions import SharedPositions, copy_positions
from impinge.mesh.tri_mesh import TriMesh
from impinge.world import batch_kernels as kernels
from impinge.world.batch_kernels import GROUP

Ids = NDArray[np.int64]

SMALL = 2048
"""Most triangles of a body that is processed without a tree, by two levels of boxes in the batch."""
MANY_RUNS = 64
"""Number of runs of unchanged bodies above which computing the connectivity of all is faster than copying it."""


class Connectivity(NamedTuple):
    """Vertex neighbours, and the closed and oriented pieces of the triangles of some bodies."""

    start: Ids
    """First neighbour of each vertex, and the total."""
    neighbour: Ints
    """Vertices that share an edge with each vertex, relative to the first vertex of the bodies."""
    is_closed: Bools
    """Triangles in pieces that are closed by their indices."""
    is_oriented: Bools
    """Triangles in pieces with consistent orientation."""


def connectivity_of(faces: Ints, vertex_count: int) -> Connectivity:
    """Compute edges and pieces."""
    low, high = Adjacency(faces, vertex_count).edges.T
    start, order = grouped(np.concatenate([low, high]).astype(np.int64), vertex_count)
    neighbour = np.concatenate([high, low])[order].astype(np.int32)
    pieces = pieces_of(faces, vertex_count)
    return Connectivity(start, neighbour, pieces.closed[pieces.of_face], pieces.oriented[pieces.of_face])


class Layout:
    """Arrays that depend on the topology of all bodies; ``last`` is an earlier layout with some of the same bodies."""

    def __init__(self, surfaces: Sequence[TriMesh], last: Layout | None = None) -> None:
        self._surfaces = tuple(surfaces)
        self.edits = [surface.positions.edits for surface in surfaces]
        """Edit counter of each body at the time of this layout."""
        snapshots = [surface.snapshot() for surface in surfaces]
        self.elements = [snapshot.elements for snapshot in snapshots]
        self.live = [snapshot.live for snapshot in snapshots]
        self.body_count = len(snapshots)
        self.vertex_start = _starts([len(snapshot.vertices) for snapshot in snapshots])
        self.face_start = _starts([len(ids) for ids in self.live])
        self.vertex_count = int(self.vertex_start[-1])
        face_count = np.diff(self.face_start)
        rows = [s.elements if len(s.live) == len(s.elements) else s.elements[s.live] for s in snapshots]
        first = np.repeat(self.vertex_start[:-1], face_count).astype(np.int32)
        self.faces: Ints = np.concatenate([np.zeros((0, 3), dtype=np.int32), *rows]) + first[:, None]
        """Corners of all live triangles, rows of ``x``."""
        self.face_id: Ints = np.concatenate([np.zeros(0, dtype=np.int32), *self.live])
        """Id of each triangle in its body."""
        is_used = np.zeros(self.vertex_count, dtype=np.bool_)
        is_used[self.faces.reshape(-1)] = True
        self.used = np.flatnonzero(is_used)
        """Vertices of live triangles."""
        self.used_start = np.searchsorted(self.used, self.vertex_start)
        self.is_small: Bools = face_count <= SMALL
        self.group_start = _starts(-(-face_count // GROUP) * self.is_small)
        """First group of each small body; a group is a run of 64 of its triangles."""
        self.enclosing: int | None = None
        """Number of bodies with an inside, once it is known."""
        self.states: dict[int, State] = {}
        """States of bodies for depths, without their positions."""
        if last is not None and "connectivity" in vars(last) and self.body_count:
            self._take_over(last)

    def _take_over(self, last: Layout) -> None:
        """Copy the connectivity of unchanged bodies, and compute that of the others; none if there are many runs."""
        known = {(id(surface), edits): b for b, (surface, edits) in enumerate(zip(last._surfaces, last.edits))}
        before = np.array([known.get((id(s), edits), NONE) for s, edits in zip(self._surfaces, self.edits)])
        # A run is a sequence of bodies that were consecutive before, or of new bodies.
        goes_on = np.where(before[:-1] < 0, before[1:] < 0, before[1:] == before[:-1] + 1)
        first = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
        if len(first) > MANY_RUNS:
            return
        parts, start = [], last.vertex_start
        for b, end in zip(first, [*first[1:], self.body_count]):
            if before[b] < 0:
                faces = self.faces[self.face_start[b] : self.face_start[end]] - np.int32(self.vertex_start[b])
                parts.append(connectivity_of(faces, int(self.vertex_start[end] - self.vertex_start[b])))
                continue
            old, v, w = last.connectivity, start[before[b]], start[before[b] + end - b]
            rows = slice(last.face_start[before[b]], last.face_start[before[b] + end - b])
            neighbour = old.neighbour[old.start[v] : old.start[w]] - np.int32(v)
            parts.append(Connectivity(old.start[v : w + 1], neighbour, old.is_closed[rows], old.is_oriented[rows]))
        self.connectivity = Connectivity(
            _starts(np.concatenate([np.diff(part.start) for part in parts])),
            np.concatenate([part.neighbour + np.int32(v) for part, v in zip(parts, self.vertex_start[first])]),
            np.concatenate([part.is_closed for part in parts]),
            np.concatenate([part.is_oriented for part in parts]),
        )

    @cached_property
    def connectivity(self) -> Connectivity:
        """Connectivity of all bodies."""
        return connectivity_of(self.faces, self.vertex_count)

    @cached_property
    def is_closed(self) -> Bools:
        """Bodies with only closed pieces by their indices; others may be closed by the positions of their vertices."""
        open_faces = np.concatenate([[0], np.cumsum(~self.connectivity.is_closed)])
        closed: Bools = (np.diff(open_faces[self.face_start]) == 0) & (np.diff(self.face_start) > 0)
        return closed

    @cached_property
    def body_of_face(self) -> Ids:
        """The body of each triangle."""
        return np.repeat(np.arange(self.body_count), np.diff(self.face_start))

    @cached_property
    def body_of_vertex(self) -> Ids:
        """The body of each vertex."""
        return np.repeat(np.arange(self.body_count), np.diff(self.vertex_start))

    @cached_property
    def most_neighbours(self) -> int:
        """The largest number of edges at a vertex."""
        return int(np.diff(self.connectivity.start).max(initial=0))

    def rows_of(self, body: int, ids: Ints) -> Ids:
        """Rows of triangles of one body, by their ids in the body."""
        found: Ids = self.face_start[body] + np.searchsorted(self.live[body], ids)
        return found


def _starts(counts: Any) -> Ids:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class SurfaceBatch:
    """Surfaces of many bodies, their positions and boxes."""

    def __init__(self, surfaces: Sequence[TriMesh], last: Layout | None = None) -> None:
        self.surfaces = tuple(surfaces)
        self._positions = [surface.positions for surface in surfaces]
        self._buffers: list[Floats] = []
        self._set_layout(Layout(self.surfaces, last))

    def _set_layout(self, layout: Layout) -> None:
        """Allocate everything that depends on the topology."""
        self.layout, count = layout, layout.body_count
        self._show(np.zeros((layout.vertex_count, 3)), shared=False)
        self._versions = [-1] * count
        """Version of each body in ``x``; of attached bodies, less the moves of all."""
        self._shared = SharedPositions(self.x)
        self._is_alone: Bools = np.ones(count, dtype=np.bool_)
        self._alone = list(range(count))
        """Bodies that are not attached to ``x``."""
        self.low, self.high = np.zeros((count, 3)), np.zeros((count, 3))
        """Corners of the box around each body; low > high without triangles."""
        groups = int(layout.group_start[-1])
        self._boxes = (
            np.zeros((groups, 6, WIDTH), dtype=np.float32), np.zeros((WIDTH * groups, 6, WIDTH), dtype=np.float32)
        )  # fmt: skip
        """Boxes of the leaves of each group, and of the triangles of each leaf, of small bodies."""
        self._origin = np.zeros(3)
        """Origin of these boxes: a vertex at the time of the last fit of all bodies."""
        self.fit(np.zeros(0, dtype=np.int64))

    def refresh(self) -> None:
        """Copy the positions of the bodies that changed since the last call, and refit their boxes."""
        detached = self._shared.detached()
        if detached:
            self._is_alone[detached] = True
            for b in detached:
                self._versions[b] = -1  # all may have moved since the body detached
            self._alone = np.flatnonzero(self._is_alone).tolist()
        moved = [b for b in self._alone if self._positions[b].version != self._versions[b]]
        if not moved:
            return
        states = [self._positions[b].state for b in moved]
        while any(state.version - state.motion != self.layout.edits[b] for b, state in zip(moved, states)):
            self._set_layout(Layout(self.surfaces, self.layout))
            moved = self._alone
            states = [self._positions[b].state for b in moved]
        if self._is_shared:  # bodies show rows of this buffer: leave it as it is
            x = self._free_buffer()
            np.copyto(x, self._buffer)
            self._show(x, shared=False)
        start = self.layout.vertex_start
        for b, state in zip(moved, states):
            self._versions[b] = state.version
            self._buffer[start[b] : start[b + 1]] = state.vertices
        self.fit(np.array(moved, dtype=np.int64))

    def version(self, body: int) -> int:
        """The version of a body in ``x``."""
        return self._versions[body] + (0 if self._is_alone[body] else self._shared.now[1])

    def _show(self, x: Floats, *, shared: bool) -> None:
        """Set the positions of all vertices; ``shared`` if bodies show rows of them."""
        self._buffer, self._is_shared = x, shared
        self.x: Floats = x.view()
        """Positions of all vertices, read-only as those of a body: Numba specialises on that."""
        self.x.flags.writeable = False

    def _free_buffer(self) -> Floats:
        """Memory for all positions: an array of an earlier frame without other references, or a new one."""
        shape = (self.layout.vertex_count, 3)
        self._buffers = [buffer for buffer in self._buffers if buffer.shape == shape]
        for k in range(len(self._buffers)):
            if not is_shared(self._buffers[k]):
                return self._buffers[k]
        buffer = np.zeros(shape)
        self._buffers = [*self._buffers, buffer] if CAN_COUNT else []
        return buffer

    def update(self, vertices: Floats) -> None:
        """Set the positions of all bodies by one copy, shape (vertex_count, 3); the bodies show rows of it.

        Call ``refresh`` first: it updates ``vertex_count``.
        """
        x = self._free_buffer()
        copy_positions(vertices, x, check=True)
        self._attach(x, None)

    def move(self, bodies: Sequence[int] | None, transforms: Floats, rest: Floats) -> None:
        """Set the positions of bodies, all if None, to rows of ``rest`` moved by one transform per body."""
        x = self._free_buffer()
        np.copyto(x, self._buffer)
        rows = np.arange(self.layout.body_count) if bodies is None else np.array(bodies, dtype=np.int64)
        kernels.move_bodies.over(8 * len(rows))(rows, transforms, rest, self.layout.vertex_start, x)
        check_finite(x, "moved vertices", remedy="; use smaller units")
        self._attach(x, bodies)

    def _attach(self, x: Floats, bodies: Sequence[int] | None) -> None:
        """Set positions, and attach some bodies, or all, to their rows."""
        self._show(x, shared=True)
        start = self.layout.vertex_start
        self._shared.show(self.x, moved=bodies is None)
        for b in self._alone if bodies is None else bodies:
            self._versions[b] = self._positions[b].attach(self._shared, b, int(start[b]), int(start[b + 1]))
            self._is_alone[b] = False
        if self._alone:
            self._alone = np.flatnonzero(self._is_alone).tolist()
        self.fit(np.arange(self.layout.body_count) if bodies is None else np.array(bodies, dtype=np.int64))

    def fit(self, moved: Ids) -> None:
        """Fit the boxes of some bodies."""
        layout = self.layout
        if len(moved) == layout.body_count and len(layout.used):
            self._origin = self.x[layout.used[0]].copy()
        self.arrays = self.x, layout.faces, layout.face_start, layout.group_start, *self._boxes, self._origin
        """Positions, triangles and their boxes, as kernels take them; see ``batch_kernels``."""
        kernels.fit_boxes.over(8 * len(moved))(
            moved, layout.used_start, layout.used, layout.is_small, self.arrays, self.low, self.high
        )
        size = max(-float(self.low.min(initial=0.0)), float(self.high.max(initial=0.0)))
        self.is_in_range = size == 0.0 or abs(math.frexp(size)[1]) <= LARGEST_EXPONENT
        """Whether boxes fit into float32 and products into doubles, which the kernels for many bodies require."""

    def frozen(self, body: int) -> TriMesh:
        """A copy of a body at the positions of the batch, with the same ids."""
        layout = self.layout
        x = self.x[layout.vertex_start[body] : layout.vertex_start[body + 1]]
        copy = TriMesh(x, layout.elements[body], validate="trust")
        copy.remove_triangles(np.setdiff1d(np.arange(len(layout.elements[body])), layout.live[body]))
        return copy
