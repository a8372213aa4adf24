"""Scratch memory of GJK with cut: the arena of pieces, what threads need, and the launches that fill them.

Nothing in it means anything after a query; it is kept because fresh memory costs a page fault for every four kilobytes.
See ``gjk_cut`` for the method and ``gjk_cut_kernels`` for the names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Floats, Ints
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.gjk_cut import axes_kernels as body_kernels
from impinge.detect.gjk_cut import search_kernels as kernels
from impinge.detect.gjk_cut.axes_kernels import RUN
from impinge.detect.gjk_cut.cut_kernels import cut_bodies
from impinge.detect.gjk_cut.search_kernels import DEEPEST, FRAME, SLABS, TASK
from impinge.detect.gjk_cut.unit_box import origin_and_factor

ROUNDING = 2.0**-22
"""How much wider than it seems a box in the arena can be."""
SLAB_TRIANGLES = 2048
"""Triangles of both bodies for each slab."""
SAMPLE = 128
"""Triangles that tell where to part a body into slabs."""


class Loaded(NamedTuple):
    """What the first cut left of both bodies, in the arena; of one body, its piece twice."""

    pieces: NDArray[np.int64]
    """First vertex, vertex count, first triangle, triangle count of each, shape (2, 4)."""
    factor: float
    """What coordinates were multiplied by."""
    axis: int
    """The axis along which both have most in common."""

    @property
    def triangles(self) -> int:
        """Triangles of both."""
        return int(self.pieces[0, 3] + self.pieces[1, 3])


class Memory:
    """Scratch memory of a detector; what is in it means nothing after a query."""

    def __init__(self) -> None:
        self._arena: tuple[Any, ...] = _new_arena(0, 0)
        self._notes = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint32)) for _ in range(2)]
        self._mark = 0
        self._vertex = np.zeros((2, 0), dtype=np.int32)
        self._bits = np.zeros((2, 0), dtype=np.uint8)
        self._room: tuple[Any, ...] = ()
        self._room_size = (0, 0, 0)
        self._candidate = np.zeros((0, 2, 1024), dtype=np.int32)
        self._counters = np.zeros((0, 8), dtype=np.int64)
        self._frames = np.zeros((0, FRAME), dtype=np.int64)

    # bodies ------------------------------------------------------------------------------------------

    def load(self, a: QueryBody, b: QueryBody | None, *, cut_axes: bool) -> Loaded | None:
        """Copy both bodies, or what a cut along the axes leaves of them; None if that is nothing."""
        sides = [a] if b is None else [a, b]
        first, last = self._body(a, 0), self._body(sides[-1], len(sides) - 1)
        runs = [-(-len(side.ids) // RUN) for side in sides]
        box, kept = np.empty((sum(runs), 6)), np.ones(sum(runs), dtype=np.bool_)
        body_kernels.bound_runs.over(len(box))(first, last, runs[0], box)
        whole, region = np.empty((2, 6)), np.empty((2, 6))
        if b is None or not cut_axes:
            whole[:, :3], whole[:, 3:] = box[:, :3].min(axis=0), box[:, 3:].max(axis=0)
            region[:, :3], region[:, 3:] = -np.inf, np.inf
        elif not body_kernels.cut_runs(box, runs[0], kept, whole, region):
            return None
        origin, factor = origin_and_factor(np.minimum(*whole[:, :3]), np.maximum(*whole[:, 3:]))
        pieces = self._places(sides, runs, kept)
        self._mark += 1
        body_kernels.load_bodies.over(int(pieces[1, 2]) if b is not None else 0)(
            first, last, len(sides), runs[0], box, kept, region, self._mark, origin, factor, self._arena, pieces,
            self._vertex,
        )  # fmt: skip
        if b is None:
            pieces[1] = pieces[0]
        # Few numbers: Python adds and compares them faster than NumPy begins to.
        shared = [min(high) - max(low) for low, high in zip(whole.T[:3].tolist(), whole.T[3:].tolist())]
        return Loaded(pieces, factor, shared.index(max(shared))) if pieces[:, 3].all() else None

    def _body(self, side: QueryBody, i: int) -> tuple[Any, ...]:
        if len(self._notes[i][0]) < len(side.vertices):
            size = len(side.vertices)
            self._notes[i] = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.uint32)
        return side.vertices, side.faces, _read_only(side.ids), *self._notes[i]

    def _places(self, sides: list[QueryBody], runs: list[int], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Where in the arena what remains of each body begins; there is room for all runs that are kept."""
        triangles = [RUN * int(np.count_nonzero(rows)) for rows in np.split(kept, runs[:1])]
        vertices = [min(3 * count, len(side.vertices)) for count, side in zip(triangles, sides)]
        self._reserve(sum(vertices), sum(triangles), 0, 0)
        if self._vertex.shape[1] <= max(vertices):
            self._vertex = np.empty((2, max(vertices) * 5 // 4 + 1), dtype=np.int32)
        return np.array([[0, 0, 0, 0], [vertices[0], 0, triangles[0], 0]])

    def _reserve(self, vertices: int, triangles: int, kept_vertices: int, kept_triangles: int) -> None:
        """Make room in the arena for so many, and keep what is there of them."""
        point, corner, tri, box = self._arena
        if vertices >= point.shape[1] or triangles >= len(tri):
            grown = _new_arena(max(point.shape[1], vertices * 5 // 4 + 1), max(len(tri), triangles * 5 // 4 + 1))
            grown[0][:, :kept_vertices] = point[:, :kept_vertices]
            for new, old in zip(grown[1:], (corner, tri, box)):
                new[:kept_triangles] = old[:kept_triangles]
            self._arena = grown

    # the search --------------------------------------------------------------------------------------

    def _start(self, loaded: Loaded, threads: int, is_copied: bool) -> NDArray[np.int64]:
        """Make room for threads; returns where in the arena the part of each begins."""
        if len(self._counters) < threads:
            self._candidate = np.empty((threads, 2, self._candidate.shape[2]), dtype=np.int32)
            self._frames = np.empty((threads * DEEPEST, FRAME), dtype=np.int64)
            self._counters = np.zeros((threads, 8), dtype=np.int64)
        self._counters[:] = 0
        a, b = loaded.pieces.tolist()
        vertices, triangles = a[1] + b[1], a[3] + b[3]
        self._make_room(threads, vertices, triangles)
        # Copies of halves: a split leaves at most three quarters of a list, so that all levels have four times as many;
        # a single triangle is copied at every level. The last vertex of a copy is written once more, and not meant.
        vertex_top, tri_top = max(a[0] + a[1], b[0] + b[1]), max(a[2] + a[3], b[2] + b[3])
        copies = 4 + is_copied
        tri_room = copies * triangles + DEEPEST
        vertex_room = min(3 * tri_room, DEEPEST * vertices) + 1
        self._reserve(vertex_top + threads * vertex_room, tri_top + threads * tri_room, vertex_top, tri_top)
        return np.array([(vertex_top + vertex_room * k, tri_top + tri_room * k) for k in range(threads)])

    def _make_room(self, threads: int, vertices: int, triangles: int) -> None:
        """Scratch for each thread, for as many vertices and triangles of both bodies."""
        size = threads, vertices, triangles
        if any(want > have for want, have in zip(size, self._room_size)):
            threads, vertices, triangles = (max(pair) for pair in zip(size, self._room_size))
            self._room_size = threads, vertices, triangles
            self._room = (
                np.empty((threads, 4, max(vertices, triangles)), dtype=np.uint32),
                np.empty((threads, 3, max(vertices, triangles)), dtype=np.float32),
                np.empty((threads, 6), dtype=np.float32),
                np.empty((threads, triangles // WIDTH + triangles // WIDTH**2 + 4, 6, WIDTH), dtype=np.float32),
                np.empty((threads, TASK), dtype=np.int64),
            )
        self._room[2][:] = 0.0

    def search(self, loaded: Loaded, is_self: bool, leaf_pairs: int) -> None:
        """All pairs of triangles whose boxes meet become candidates."""
        slabs = min(SLABS, max(1, loaded.triangles // SLAB_TRIANGLES))
        threads = min(thread_count(), slabs)
        tops = self._start(loaded, threads, slabs > 1)
        if slabs > 1:
            self._assign_slabs(loaded, slabs, is_self)
        while True:
            self._counters[:] = 0
            counter = np.zeros(1, dtype=np.int64)
            kernels.search_slabs.over(slabs)(
                self._arena, loaded.pieces, slabs, self._bits, is_self, leaf_pairs, self._room, threads, counter,
                tops, self._frames, self._counters, self._candidate,
            )  # fmt: skip
            count = self._counters[:, 0]
            if int(count.max()) <= self._candidate.shape[2]:
                return
            self._candidate = np.empty((len(count), 2, int(count.sum())), dtype=np.int32)

    def _assign_slabs(self, loaded: Loaded, slabs: int, is_self: bool) -> None:
        """Part a along the axis, so that each slab has about as many triangles, by a sample of them."""
        a, b = _pieces(loaded)
        box = self._arena[3][a[2] : a[2] + a[3] : 1 + a[3] // SAMPLE]
        middle = np.sort(box[:, loaded.axis] + box[:, 3 + loaded.axis])
        bounds = middle[len(middle) * np.arange(1, slabs) // slabs]
        if self._bits.shape[1] < max(a[3], b[3]):
            self._bits = np.empty((2, max(a[3], b[3]) * 5 // 4), dtype=np.uint8)
        kernels.assign_slabs(self._arena, a, b, loaded.axis, bounds, is_self, self._room[3][0], self._bits)

    def cut(self, loaded: Loaded, s: tuple[float, float, float], device: str) -> tuple[Ints, Ints]:
        """Algorithm 4.1 on whole bodies: sorted ids of the triangles of each that remain."""
        a, b = _pieces(loaded)
        if device == "cuda":
            from impinge.detect.gjk_cut.cuda import cut_on_grid

            left_a, left_b = cut_on_grid(self._arena, a, b, s)
        else:
            self._start(loaded, 1, False)
            count_a, count_b = cut_bodies(self._arena, a, b, s, kernels.scratch_of(self._room, 0))
            left_a, left_b = self._room[0][0, 0, :count_a], self._room[0][0, 1, :count_b]
        of_a, of_b = (self._arena[2][piece[2] : piece[2] + piece[3]] for piece in (a, b))
        return np.sort(of_a[left_a]), np.sort(of_b[left_b])

    # results -----------------------------------------------------------------------------------------

    def candidates(self) -> tuple[Ints, Ints]:
        """Pairs of triangles whose boxes meet."""
        rows = [row[:, : count[0]] for row, count in zip(self._candidate, self._counters)]
        joined = np.concatenate(rows, axis=1)
        return joined[0], joined[1]

    def extent(self) -> Floats:
        """The size of a box that holds any candidate, in the arena's units."""
        largest = self._room[2].max(axis=0)
        return np.asarray(largest[:3] + largest[3:] + ROUNDING, dtype=np.float64)

    def count(self, stats: dict[str, Any]) -> None:
        """Add what was done to the statistics."""
        total = self._counters.sum(axis=0)
        stats["candidates"], stats["nodes"], stats["cuts"], stats["leaves"] = (int(n) for n in total[:4])


def _pieces(loaded: Loaded) -> Any:
    """Both pieces as kernels take them."""
    return (tuple(piece) for piece in loaded.pieces.tolist())


def _read_only(ids: Ints) -> Ints:
    """The same ids as arrays that may not be written: Numba compiles anew for the other kind."""
    ids = ids.view()
    ids.flags.writeable = False
    return ids


def _new_arena(vertices: int, triangles: int) -> tuple[Any, ...]:
    return (
        np.empty((3, vertices), dtype=np.float32), np.empty((triangles, 3), dtype=np.uint32),
        np.empty(triangles, dtype=np.int32), np.empty((triangles, 6), dtype=np.float32),
    )  # fmt: skip
