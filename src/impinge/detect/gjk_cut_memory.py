"""Scratch memory of GJK with cut: the arena of pieces, what threads need, and the launches that fill them.

Nothing in it means anything after a query; it is kept because fresh memory costs a page fault for every four kilobytes.
See ``gjk_cut`` for the method and ``gjk_cut_kernels`` for the names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Floats, Ints
from impinge.backend.jit import thread_count
from impinge.backend.simd import WIDTH
from impinge.detect import gjk_cut_bodies_kernels as body_kernels
from impinge.detect import gjk_cut_search_kernels as kernels
from impinge.detect.gjk_cut_kernels import normalised
from impinge.detect.gjk_cut_search_kernels import DEEPEST, FRAME, TASK
from impinge.detect.pair_query import Side
from impinge.detect.unit_box import origin_and_factor


class Loaded(NamedTuple):
    """Both bodies in the arena; of one body, its piece twice."""

    pieces: NDArray[np.int64]
    """First vertex, vertex count, first triangle, triangle count of each, shape (2, 4)."""
    factor: float
    """What coordinates were multiplied by."""
    centres: Floats
    """Centres of both boxes, in the arena's units, shape (2, 3)."""


class Memory:
    """Scratch memory of a detector; what is in it means nothing after a query."""

    def __init__(self) -> None:
        self._arena: tuple[Any, ...] = _new_arena(0, 0)
        self._vertex_top = self._tri_top = 0
        self._notes = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)) for _ in range(2)]
        self._mark = 0
        self._room: tuple[Any, ...] = ()
        self._room_size = (0, 0, 0)
        self._threads = 0
        self._candidate = np.zeros((0, 2, 1024), dtype=np.int32)
        self._counters = np.zeros((0, 8), dtype=np.int64)
        self._frames = np.zeros((0, FRAME), dtype=np.int64)

    # bodies ------------------------------------------------------------------------------------------

    def load(self, a: Side, b: Side | None) -> Loaded:
        """Copy the live triangles of both bodies to the arena, with the vertices that they use."""
        sides = [a] if b is None else [a, b]
        self._mark += 2
        bodies = [self._body(side, i) for i, side in enumerate(sides)]
        counts, box = np.zeros((len(sides), 2), dtype=np.int64), np.zeros((len(sides), 6))
        work = sum(len(side.ids) for side in sides) if len(sides) == 2 else 0
        first, last = bodies[0], bodies[-1]
        body_kernels.look_at_bodies.over(work)(first, last, self._mark, counts, box)
        origin, factor = origin_and_factor(box[:, :3].min(axis=0), box[:, 3:].max(axis=0))
        pieces = np.zeros((2, 4), dtype=np.int64)
        vertex_top = tri_top = 0
        for i, side in enumerate(sides):
            pieces[i] = vertex_top, counts[i, 0], tri_top, len(side.ids)
            vertex_top, tri_top = vertex_top + int(counts[i, 0]), tri_top + len(side.ids)
        if b is None:
            pieces[1] = pieces[0]
        self._vertex_top = self._tri_top = 0
        self._reserve(vertex_top, tri_top)
        body_kernels.fill_arena.over(work)(first, last, pieces, counts, origin, factor, self._arena)
        centres = (0.5 * box[:, :3] + 0.5 * box[:, 3:]) * factor - origin * factor
        return Loaded(pieces, factor, centres)

    def _body(self, side: Side, i: int) -> tuple[Any, ...]:
        if len(self._notes[i][0]) < len(side.vertices):
            size = len(side.vertices)
            self._notes[i] = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int32)
        count = len(side.ids)
        vertex = np.empty(3 * count + 1, dtype=np.int32)
        corner = np.empty((count, 3), dtype=np.int32)
        return side.vertices, side.faces, side.ids, *self._notes[i], vertex, corner

    def _reserve(self, vertices: int, triangles: int) -> None:
        """Make room above the top of the arena."""
        vertices, triangles = vertices + self._vertex_top, triangles + self._tri_top
        if vertices > len(self._arena[0]) or triangles > len(self._arena[4]):
            grown = _new_arena(
                max(len(self._arena[0]), vertices * 5 // 4), max(len(self._arena[4]), triangles * 5 // 4)
            )
            for old, new in zip(self._arena[:3], grown[:3]):
                new[: self._vertex_top] = old[: self._vertex_top]
            for old, new in zip(self._arena[3:], grown[3:]):
                new[: self._tri_top] = old[: self._tri_top]
            self._arena = grown

    # the search --------------------------------------------------------------------------------------

    def start(self, loaded: Loaded) -> None:
        """Forget everything but the bodies."""
        self._vertex_top = int(loaded.pieces[1, 0] + loaded.pieces[1, 1])
        self._tri_top = int(loaded.pieces[1, 2] + loaded.pieces[1, 3])
        threads = max(2, thread_count())  # two at least: one for each body
        if self._threads < threads:
            self._threads = threads
            self._candidate = np.empty((threads, 2, self._candidate.shape[2]), dtype=np.int32)
            self._frames = np.empty((threads * DEEPEST, FRAME), dtype=np.int64)
            self._counters = np.zeros((threads, 8), dtype=np.int64)
            self._room_size = (0, 0, 0)
        self._counters[:] = 0
        self._make_room(loaded.pieces[None, :, :].reshape(1, 8), 3)
        self._room[9][:] = 0.0

    def _make_room(self, tasks: NDArray[np.int64], keys_per_triangle: int) -> None:
        """Scratch for each thread, for the largest piece of any task."""
        vertices, triangles = int(tasks[:, [1, 5]].max()), int(tasks[:, [3, 7]].max())
        size = vertices, triangles, keys_per_triangle
        if all(have >= want for have, want in zip(self._room_size, size)):
            return
        self._room_size = size = tuple(max(have, want) for have, want in zip(self._room_size, size))  # type: ignore[assignment]
        vertices, triangles, keys_per_triangle = size
        threads = self._threads
        self._room = (
            np.empty((threads, triangles), dtype=np.uint32),
            np.empty((threads, triangles), dtype=np.uint32),
            np.empty((threads, 2 * vertices)),
            np.empty((threads, 2, triangles)),
            np.empty((threads, 4, 3)),
            np.empty((threads, 4)),
            np.empty((threads, keys_per_triangle * triangles)),
            np.empty((threads, keys_per_triangle * triangles), dtype=np.uint32),
            np.empty((threads, vertices), dtype=np.uint32),
            np.zeros((threads, 6)),
            np.empty((threads, triangles // WIDTH + 1, 6, WIDTH), dtype=np.float32),
            np.empty((threads, TASK), dtype=np.int64),
        )

    def cut(self, loaded: Loaded, s: tuple[float, float, float]) -> NDArray[np.int64]:
        """Algorithm 4.1 on whole bodies: how many triangles of each remain listed."""
        work = int(loaded.pieces[:, 3].sum())
        count, top = np.zeros(2, dtype=np.int64), np.zeros(2)
        kernels.find_supports.over(work)(self._arena, loaded.pieces, s, self._room, count, top)
        kernels.cut_bodies.over(work)(self._room, top, count)
        return count

    def listed(self, loaded: Loaded, count: NDArray[np.int64]) -> tuple[Ints, Ints]:
        """Sorted ids of the triangles that remain listed after ``cut``."""
        tri = [self._arena[4][piece[2] : piece[2] + piece[3]] for piece in loaded.pieces]
        ids = [tri[i][self._room[0][i, : count[i]]] for i in range(2)]
        return np.sort(ids[0]), np.sort(ids[1])

    def cut_and_split(self, loaded: Loaded, how: int) -> NDArray[np.int64]:
        """The first cut and split of large bodies, each body on a thread of its own; returns the tasks that remain."""
        work = int(loaded.pieces[:, 3].sum())
        s = normalised(tuple(loaded.centres[1] - loaded.centres[0]))
        count = self.cut(loaded, s)
        self._counters[0, 1:3] += 1
        if not count.all():
            return np.zeros((0, TASK), dtype=np.int64)
        u = kernels.direction_across(self._arena, loaded.pieces, count, s, self._room)
        self._reserve(int(loaded.pieces[:, 1].sum()), int(count.sum()))
        vertex, tri = self._vertex_top, self._tri_top
        tops = np.array([[vertex, tri], [vertex + loaded.pieces[0, 1], tri + count[0]]])
        frames = np.zeros((1, FRAME), dtype=np.int64)
        kernels.split_bodies.over(work)(self._arena, loaded.pieces, count, u, how, self._room, tops, frames[0])
        self._vertex_top += int(loaded.pieces[:, 1].sum())
        self._tri_top += int(count.sum())
        return self._children(frames)

    def _children(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        children = np.zeros((4 * len(frames) + 1, TASK), dtype=np.int64)
        return children[: kernels.tasks_of(frames, children)]

    def expand(self, tasks: NDArray[np.int64], is_self: bool, choices: Any, hints: Floats) -> NDArray[np.int64]:
        """One level of the recursion: the children of all tasks."""
        vertex_room, tri_room = 2 * (tasks[:, 1] + tasks[:, 5]), tasks[:, 3] + tasks[:, 7]
        self._reserve(int(vertex_room.sum()), int(tri_room.sum()))
        tops = np.stack([np.cumsum(vertex_room) - vertex_room, np.cumsum(tri_room) - tri_room], axis=1)
        tops += (self._vertex_top, self._tri_top)
        frames = np.zeros((len(tasks), FRAME), dtype=np.int64)
        self._run(tasks, tops, frames, False, is_self, choices, hints)
        self._vertex_top += int(vertex_room.sum())
        self._tri_top += int(tri_room.sum())
        return self._children(frames)

    def search(self, tasks: NDArray[np.int64], is_self: bool, choices: Any, hints: Floats) -> None:
        """All that is below the tasks."""
        if not len(tasks):
            return
        tri_room = 4 * int((tasks[:, 3] + tasks[:, 7]).max()) + 1024
        vertex_room = 3 * tri_room
        self._reserve(self._threads * vertex_room, self._threads * tri_room)
        thread = np.arange(self._threads)
        tops = np.stack([self._vertex_top + vertex_room * thread, self._tri_top + tri_room * thread], axis=1)
        self._run(tasks, tops, self._frames, True, is_self, choices, hints)

    def _run(
        self,
        tasks: NDArray[np.int64],
        tops: NDArray[np.int64],
        frames: NDArray[np.int64],
        is_deep: bool,
        is_self: bool,
        choices: Any,
        hints: Floats,
    ) -> None:
        counter = np.zeros(1, dtype=np.int64)
        kernels.run_tasks.over(len(tasks))(
            self._arena, tasks, tops, is_deep, is_self, choices, hints, self._room, self._threads, counter, frames,
            self._counters, self._candidate,
        )  # fmt: skip

    # results -----------------------------------------------------------------------------------------

    def had_room(self) -> bool:
        """Whether all candidates found room; if not, there is more from now on."""
        count = self._counters[:, 0]
        if int(count.max()) <= self._candidate.shape[2]:
            return True
        self._candidate = np.empty((self._threads, 2, int(count.sum())), dtype=np.int32)
        return False

    def candidates(self) -> tuple[Ints, Ints]:
        """Pairs of triangles whose boxes meet."""
        rows = [self._candidate[i, :, : self._counters[i, 0]] for i in range(self._threads)]
        joined = np.concatenate(rows, axis=1)
        return joined[0], joined[1]

    def extent(self) -> Floats:
        """The size of a box that holds any candidate, in the arena's units."""
        largest = self._room[9].max(axis=0)
        return np.asarray(largest[:3] + largest[3:] + 2.0**-48)

    def count(self, stats: dict[str, Any]) -> None:
        """Add what was done to the statistics."""
        total = self._counters.sum(axis=0)
        stats["candidates"], stats["nodes"], stats["cuts"], stats["leaves"] = (int(n) for n in total[:4])


def _new_arena(vertices: int, triangles: int) -> tuple[Any, ...]:
    return (
        np.empty(vertices), np.empty(vertices), np.empty(vertices),
        np.empty((triangles, 3), dtype=np.uint32), np.empty(triangles, dtype=np.int32),
    )  # fmt: skip
