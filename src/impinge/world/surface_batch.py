"""The surfaces of many bodies in one set of arrays, so that one kernel call serves all of them.

Bodies stand one behind the other: vertex v of body b is number ``vertex_start[b] + v`` among all, and its live
triangles are rows ``face_start[b]`` to ``face_start[b + 1]`` of ``faces``, which hold such numbers.

Layout     follows from the topology; made anew when a body is added, removed or edited. Cost O(all triangles); but what
           takes longest, edges and pieces, is taken over for bodies that are as they were in the last layout.
Positions  are copied for bodies whose version changed since the last look. Bodies whose positions were set together
           (``update_together``, ``move``) show parts of the arena's own until they are changed by others, which they
           report (``mesh.positions.SharedPositions``): of them there is nothing to copy nor to compare. Versions of the
           others are compared at every query.
Boxes      of bodies, and of triangles of small bodies, are fitted again for those that moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.references import is_shared
from impinge.backend.simd.boxes import WIDTH
from impinge.checks import NONE, Bools, Floats, Ints, as_positions, check_finite
from impinge.detect.common.containment import pieces_of
from impinge.mesh.adjacency import Adjacency, grouped
from impinge.mesh.positions import SharedPositions, copy_positions
from impinge.mesh.tri_mesh import TriMesh
from impinge.world import batch_kernels as kernels
from impinge.world.batch_kernels import GROUP

Ids = NDArray[np.int64]

SMALL = 2048
"""Triangles up to which a body has boxes here, of two levels, and is asked without a tree."""

MANY_RUNS = 64
"""Runs of bodies from which taking over what is known of each takes longer than finding it for all together."""


class Joints(NamedTuple):
    """How the triangles of some bodies hang together."""

    start: Ids
    """Where the neighbours of each vertex begin, and the number of all."""
    neighbour: Ints
    """Vertices that share an edge with each vertex, counted from the first of the bodies."""
    is_closed: Bools
    """Which triangles belong to pieces closed by their indices."""
    is_oriented: Bools
    """Which triangles belong to pieces that agree on which side is outside."""

    @classmethod
    def of(cls, faces: Ints, vertex_count: int) -> Joints:
        """Find edges and pieces."""
        low, high = Adjacency(faces, vertex_count).edges.T
        start, order = grouped(np.concatenate([low, high]).astype(np.int64), vertex_count)
        neighbour = np.concatenate([high, low])[order].astype(np.int32)
        pieces = pieces_of(faces, vertex_count)
        return cls(start, neighbour, pieces.closed[pieces.of_face], pieces.oriented[pieces.of_face])

    @classmethod
    def joined(cls, parts: Sequence[Joints], first: Ids) -> Joints:
        """Those of several runs of bodies, one behind the other, of which the first vertices are given."""
        return cls(
            _starts(np.concatenate([np.diff(part.start) for part in parts])),
            np.concatenate([part.neighbour + np.int32(v) for part, v in zip(parts, first)]),
            np.concatenate([part.is_closed for part in parts]),
            np.concatenate([part.is_oriented for part in parts]),
        )


class Layout:
    """What follows from the topology of all bodies; ``last`` is one that some of them may have been in before."""

    def __init__(self, surfaces: Sequence[TriMesh], last: Layout | None = None) -> None:
        self._surfaces = tuple(surfaces)
        self.edits = [surface.positions.edits for surface in surfaces]
        """How often each body was edited when this was made."""
        snapshots = [surface.snapshot() for surface in surfaces]
        self.elements = [snapshot.elements for snapshot in snapshots]
        self.live = [snapshot.live for snapshot in snapshots]
        self.vertex_start = _starts([len(snapshot.vertices) for snapshot in snapshots])
        self.face_start = _starts([len(ids) for ids in self.live])
        rows = [s.elements if len(s.live) == len(s.elements) else s.elements[s.live] for s in snapshots]
        first = np.repeat(self.vertex_start[:-1], np.diff(self.face_start)).astype(np.int32)
        self.faces: Ints = np.concatenate([np.zeros((0, 3), dtype=np.int32), *rows]) + first[:, None]
        """Corners of all live triangles, as numbers among all vertices."""
        self.face_id: Ints = np.concatenate([np.zeros(0, dtype=np.int32), *self.live])
        """The id of each triangle in its body."""
        is_used = np.zeros(self.vertex_count, dtype=np.bool_)
        is_used[self.faces.reshape(-1)] = True
        self.used = np.flatnonzero(is_used)
        """Numbers of the vertices that live triangles have."""
        self.used_start = np.searchsorted(self.used, self.vertex_start)
        self.is_small: Bools = np.diff(self.face_start) <= SMALL
        self.group_start = _starts(-(-np.diff(self.face_start) // GROUP) * self.is_small)
        """Where the groups of each small body begin, runs of 64 of its triangles."""
        self._joints = None if last is None else self._take_over(last)

    def _take_over(self, last: Layout) -> Joints | None:
        """How triangles hang together: as the last layout knows it, and found for those bodies that are not in it."""
        if last._joints is None or not self.body_count:
            return None
        known = {(id(surface), edits): b for b, (surface, edits) in enumerate(zip(last._surfaces, last.edits))}
        before = np.array([known.get((id(s), edits), NONE) for s, edits in zip(self._surfaces, self.edits)])
        # A run has bodies that followed one another before, or bodies that are new.
        goes_on = np.where(before[:-1] < 0, before[1:] < 0, before[1:] == before[:-1] + 1)
        first = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
        if len(first) > MANY_RUNS:
            return None
        parts = []
        for b, end in zip(first, [*first[1:], self.body_count]):
            if before[b] < 0:
                faces = self.faces[self.face_start[b] : self.face_start[end]] - np.int32(self.vertex_start[b])
                parts.append(Joints.of(faces, int(self.vertex_start[end] - self.vertex_start[b])))
            else:
                parts.append(last._part(last._joints, before[b], before[b] + end - b))
        return Joints.joined(parts, self.vertex_start[first])

    def _part(self, joints: Joints, first: int, end: int) -> Joints:
        """How the triangles of some bodies that follow one another hang together, of those of all."""
        v, w = self.vertex_start[first], self.vertex_start[end]
        faces = slice(self.face_start[first], self.face_start[end])
        return Joints(
            joints.start[v : w + 1] - joints.start[v],
            joints.neighbour[joints.start[v] : joints.start[w]] - np.int32(v),
            joints.is_closed[faces],
            joints.is_oriented[faces],
        )

    @property
    def joints(self) -> Joints:
        """How the triangles of all bodies hang together."""
        if self._joints is None:
            self._joints = Joints.of(self.faces, self.vertex_count)
        return self._joints

    @property
    def vertex_count(self) -> int:
        """Vertices of all bodies."""
        return int(self.vertex_start[-1])

    @property
    def body_count(self) -> int:
        """How many bodies there are."""
        return len(self.live)

    @property
    def is_oriented(self) -> Bools:
        """Which triangles belong to pieces that agree on which side is outside."""
        return self.joints.is_oriented

    @cached_property
    def is_closed(self) -> Bools:
        """Bodies of which every piece is closed by its indices; others may be closed by where their vertices are."""
        open_faces = np.concatenate([[0], np.cumsum(~self.joints.is_closed)])
        closed: Bools = (np.diff(open_faces[self.face_start]) == 0) & (np.diff(self.face_start) > 0)
        return closed

    @cached_property
    def bodies(self) -> Ids:
        """Numbers of all bodies."""
        return np.arange(self.body_count)

    @cached_property
    def filled(self) -> Ids:
        """Bodies that have triangles."""
        return np.flatnonzero(np.diff(self.face_start))

    @cached_property
    def of_face(self) -> Ids:
        """The body of each triangle."""
        return np.repeat(np.arange(self.body_count), np.diff(self.face_start))

    @cached_property
    def of_vertex(self) -> Ids:
        """The body of each vertex."""
        return np.repeat(np.arange(self.body_count), np.diff(self.vertex_start))

    @cached_property
    def by_kernel(self) -> Bools:
        """Bodies whose inside is searched here; the others are asked with structures of their own."""
        return self.is_small & self.is_closed

    @property
    def vertex_neighbour(self) -> tuple[Ids, Ints]:
        """Vertices that share an edge with each vertex: (start, vertex)."""
        return self.joints.start, self.joints.neighbour

    @cached_property
    def most_neighbours(self) -> int:
        """Edges of the vertex that has most."""
        return int(np.diff(self.joints.start).max(initial=0))

    def rows_of(self, body: int, ids: Ints) -> Ids:
        """Rows of triangles of one body, by their ids there."""
        found: Ids = self.face_start[body] + np.searchsorted(self.live[body], ids)
        return found


def _starts(counts: Any) -> Ids:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class Arena:
    """Surfaces of many bodies, and where they are."""

    def __init__(self, surfaces: Sequence[TriMesh], last: Layout | None = None) -> None:
        self.surfaces = tuple(surfaces)
        self._positions = [surface.positions for surface in surfaces]
        self._buffers: list[Floats] = []
        self._begin(last)

    def _begin(self, last: Layout | None) -> None:
        """Make everything that the topology decides."""
        self.layout = layout = Layout(self.surfaces, last)
        self._show(np.zeros((layout.vertex_count, 3)))
        self._versions = [-1] * layout.body_count
        """The version of each body that ``x`` shows; less the moves of all, of those that move together."""
        self._together = SharedPositions(self.x)
        self._is_alone: Bools = np.ones(layout.body_count, dtype=np.bool_)
        self._alone = list(range(layout.body_count))
        """Bodies that do not move together with others."""
        self.low, self.high = np.zeros((layout.body_count, 3)), np.zeros((layout.body_count, 3))
        """Corners of the box around each body; low > high if it has no triangles."""
        groups = int(layout.group_start[-1])
        self.group_box = np.zeros((groups, 6, WIDTH), dtype=np.float32)
        """Boxes of the leaves of each group of triangles of small bodies; see ``arena_kernels``."""
        self.leaf_box = np.zeros((WIDTH * groups, 6, WIDTH), dtype=np.float32)
        """Boxes of the triangles of each leaf."""
        self.origin = np.zeros(3)
        """Where those boxes are counted from: near the bodies, when all were fitted last."""

    def look(self) -> None:
        """Take the positions of what moved since the last look, and fit boxes to them."""
        self._let_go(self._together.detached())
        moved = self._changed()
        if not moved:
            return
        while True:
            if any(self._positions[b].edits != self.layout.edits[b] for b in moved):
                self._begin(self.layout)
            moved = self._changed()
            if self._copy(moved):
                break
        self.fit(np.array(moved, dtype=np.int64))

    def _let_go(self, left: Sequence[int]) -> None:
        """Count bodies that left the others as alone."""
        if left:
            self._is_alone[left] = True
            for b in left:
                self._versions[b] = -1  # whatever it has come to: all may have moved since it left
            self._alone = np.flatnonzero(self._is_alone).tolist()

    def _changed(self) -> list[int]:
        """Bodies of another version than is shown."""
        positions, versions = self._positions, self._versions
        return [b for b in self._alone if positions[b].version != versions[b]]

    def version(self, body: int) -> int:
        """The version of a body that ``x`` shows."""
        return self._versions[body] + (0 if self._is_alone[body] else self._together.now[1])

    def _show(self, x: Floats, *, shared: bool = False) -> None:
        """Let ``x`` be the positions of all vertices; bodies that show parts of it share it."""
        self._buffer, self._is_shared = x, shared
        self.x: Floats = _read_only(x)
        """Positions of all vertices, read-only."""

    def _copy(self, moved: Sequence[int]) -> bool:
        """Copy the positions of the bodies that moved; into another buffer, if bodies show parts of this one.

        False if another thread has edited one of them meanwhile.
        """
        start = self.layout.vertex_start
        if self._is_shared:
            x = self._take_buffer()
            np.copyto(x, self._buffer)
            self._show(x)
        for b in moved:
            vertices, motion, version, _ = self._positions[b].state
            if version - motion != self.layout.edits[b]:
                return False
            self._versions[b] = version
            self._buffer[start[b] : start[b + 1]] = vertices
        return True

    def _take_buffer(self) -> Floats:
        """Room for all positions: an array of an earlier frame that nobody refers to any more, or a new one."""
        shape = (self.layout.vertex_count, 3)
        self._buffers = [buffer for buffer in self._buffers if buffer.shape == shape]
        for k in range(len(self._buffers)):
            if not is_shared(self._buffers[k]):
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
        self._share(None)

    def move(self, bodies: Sequence[int] | None, transforms: Floats, rest: Floats) -> None:
        """Set the positions of bodies (all, if None) to ``rest``, by the arena's numbers, moved by a transform each."""
        x = self._take_buffer()
        np.copyto(x, self._buffer)
        rows = self.layout.bodies if bodies is None else np.array(bodies, dtype=np.int64)
        kernels.move_bodies.over(8 * len(rows))(rows, transforms, rest, self.layout.vertex_start, x)
        check_finite(x, "moved vertices", remedy="; use smaller units")
        self._show(x, shared=True)
        self._share(bodies)

    def _share(self, bodies: Sequence[int] | None) -> None:
        """Let some bodies, or all, show their parts of the positions, which are new."""
        together, start = self._together, self.layout.vertex_start
        together.show(self.x, moved=bodies is None)
        for b in self._alone if bodies is None else bodies:
            self._versions[b] = self._positions[b].attach(together, b, int(start[b]), int(start[b + 1]))
            self._is_alone[b] = False
        if self._alone:
            self._alone = np.flatnonzero(self._is_alone).tolist()
        self.fit(self.layout.bodies if bodies is None else np.array(bodies, dtype=np.int64))

    @property
    def size(self) -> float:
        """The largest coordinate of a box."""
        filled = self.layout.filled
        low, high = (self.low, self.high) if len(filled) == len(self.low) else (self.low[filled], self.high[filled])
        return max(float(-low.min(initial=0.0)), float(high.max(initial=0.0)))

    @property
    def small_bodies(self) -> tuple[Any, ...]:
        """Positions, triangles and their boxes, as kernels take them; see ``arena_kernels``."""
        layout = self.layout
        boxes = layout.group_start, self.group_box, self.leaf_box, self.origin
        return self.x, layout.faces, layout.face_start, *boxes

    def fit(self, moved: Ids) -> None:
        """Fit the boxes of some bodies."""
        layout = self.layout
        if len(moved) == layout.body_count and len(layout.used):
            self.origin = self.x[layout.used[0]].copy()
        kernels.fit_boxes.over(8 * len(moved))(
            moved, layout.used_start, layout.used, layout.is_small, self.small_bodies, self.low, self.high
        )


def _read_only(x: Floats) -> Floats:
    """A view that Numba compiles for as it does for the positions of a body."""
    view = x.view()
    view.flags.writeable = False
    return view
