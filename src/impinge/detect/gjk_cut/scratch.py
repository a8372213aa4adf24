"""Scratch memory of GJK with cut: the arena of pieces, buffers of threads, and the launches that fill them.

Its contents are void after a query. It is kept because fresh memory costs a page fault for every 4 KiB. See
``detector`` for the method and ``cut_kernels`` for the names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Floats, Ints
from impinge.detect.common.pair_query import QueryBody
from impinge.detect.gjk_cut import axes_kernels
from impinge.detect.gjk_cut import search_kernels as kernels
from impinge.detect.gjk_cut.axes_kernels import RUN
from impinge.detect.gjk_cut.cut_kernels import cut_once
from impinge.detect.gjk_cut.search_kernels import DEEPEST, FRAME, SLABS
from impinge.detect.gjk_cut.unit_box import origin_and_factor

ROUNDING = 2.0**-22
"""How much larger than its float32 coordinates a box can be, in units of the arena."""
SLAB_TRIANGLES = 2048
"""Triangles of both bodies per slab."""
SAMPLE = 128
"""Sample of triangles that the limits of slabs are taken from."""


class Loaded(NamedTuple):
    """What the first cut left of both bodies, in the arena; of one body, its piece twice."""

    pieces: NDArray[np.int64]
    """First vertex, vertex count, first triangle, triangle count of each, shape (2, 4)."""
    factor: float
    """Scale of the coordinates."""
    axis: int
    """The axis along which the boxes of both overlap most."""


class Found(NamedTuple):
    """Result of a search."""

    pair_a: Ints
    pair_b: Ints
    """Pairs of triangles whose boxes overlap."""
    extent: Floats
    """Size of a box that holds any candidate pair, in units of the arena."""
    counts: list[int]
    """Candidates, nodes, cuts, leaves."""


class Memory:
    """Scratch memory of a detector."""

    def __init__(self) -> None:
        self._arena: tuple[Any, ...] = _new_arena(0, 0)
        self._per_vertex = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint32)) for _ in range(2)]
        self._mark = 0
        self._vertex = np.zeros((2, 0), dtype=np.int32)
        self._bits = np.zeros((2, 0), dtype=np.uint8)
        self._room: tuple[Any, ...] = ()
        self._room_size = (0, 0, 0)
        self._candidate = np.zeros((0, 2, 1024), dtype=np.int32)
        self._counters = np.zeros((0, 8), dtype=np.int64)
        self._frames = np.zeros((0, FRAME), dtype=np.int64)

    def load(self, a: QueryBody, b: QueryBody | None, *, cut_axes: bool) -> Loaded | None:
        """Copy both bodies, or what a cut along the axes leaves of them; None if that is nothing."""
        sides, bodies = [a] if b is None else [a, b], []
        for i, side in enumerate(sides):
            size, ids = len(side.vertices), side.ids.view()
            ids.flags.writeable = False  # Numba specialises kernels on that
            if len(self._per_vertex[i][0]) < size:
                self._per_vertex[i] = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.uint32)
            bodies.append((side.vertices, side.faces, ids, *self._per_vertex[i]))
        runs = [-(-len(side.ids) // RUN) for side in sides]
        box, kept = np.empty((sum(runs), 6)), np.ones(sum(runs), dtype=np.bool_)
        axes_kernels.bound_runs.over(len(box))(bodies[0], bodies[-1], runs[0], box)
        whole, region = np.empty((2, 6)), np.empty((2, 6))
        if b is None or not cut_axes:
            whole[:, :3], whole[:, 3:] = box[:, :3].min(axis=0), box[:, 3:].max(axis=0)
            region[:, :3], region[:, 3:] = -np.inf, np.inf
        elif not axes_kernels.cut_runs(box, runs[0], kept, whole, region):
            return None
        origin, factor = origin_and_factor(np.minimum(*whole[:, :3]), np.maximum(*whole[:, 3:]))
        triangles = [RUN * int(np.count_nonzero(rows)) for rows in np.split(kept, runs[:1])]
        vertices = [min(3 * count, len(side.vertices)) for count, side in zip(triangles, sides)]
        self._reserve(sum(vertices), sum(triangles), 0, 0)
        if self._vertex.shape[1] <= max(vertices):
            self._vertex = np.empty((2, max(vertices) * 5 // 4 + 1), dtype=np.int32)
        pieces = np.array([[0, 0, 0, 0], [vertices[0], 0, triangles[0], 0]])
        self._mark += 1
        axes_kernels.load_bodies.over(triangles[0] if b is not None else 0)(
            bodies[0], bodies[-1], len(sides), runs[0], box, kept, region, self._mark, origin, factor, self._arena,
            pieces, self._vertex,
        )  # fmt: skip
        if b is None:
            pieces[1] = pieces[0]
        # Few numbers: Python adds and compares them faster than NumPy.
        shared = [min(high) - max(low) for low, high in zip(whole.T[:3].tolist(), whole.T[3:].tolist())]
        return Loaded(pieces, factor, shared.index(max(shared))) if pieces[:, 3].all() else None

    def search(self, loaded: Loaded, is_self: bool, leaf_pairs: int) -> Found:
        """Find all pairs of triangles whose boxes overlap."""
        a, b = (tuple(piece) for piece in loaded.pieces.tolist())
        slabs = min(SLABS, max(1, (a[3] + b[3]) // SLAB_TRIANGLES))
        threads = min(thread_count(), slabs)
        tops = self._start(loaded, threads, slabs > 1)
        if slabs > 1:  # limits such that each slab has about as many triangles
            box = self._arena[3][a[2] : a[2] + a[3] : 1 + a[3] // SAMPLE]
            middle = np.sort(box[:, loaded.axis] + box[:, 3 + loaded.axis])
            bounds = middle[len(middle) * np.arange(1, slabs) // slabs]
            if self._bits.shape[1] < max(a[3], b[3]):
                self._bits = np.empty((2, max(a[3], b[3]) * 5 // 4), dtype=np.uint8)
            kernels.assign_slabs(self._arena, a, b, loaded.axis, bounds, is_self, self._room[3][0], self._bits)
        while True:
            self._counters[:] = 0
            kernels.search_slabs.over(slabs)(
                self._arena, loaded.pieces, slabs, self._bits, is_self, leaf_pairs, self._room, threads,
                np.zeros(1, dtype=np.int64), tops, self._frames, self._counters, self._candidate,
            )  # fmt: skip
            count = self._counters[:, 0]
            if int(count.max()) <= self._candidate.shape[2]:
                break
            self._candidate = np.empty((len(count), 2, int(count.sum())), dtype=np.int32)
        pairs = np.concatenate([rows[:, :n] for rows, n in zip(self._candidate, count)], axis=1)
        largest = self._room[2].max(axis=0)
        extent = np.asarray(largest[:3] + largest[3:] + ROUNDING, dtype=np.float64)
        return Found(pairs[0], pairs[1], extent, self._counters[:, :4].sum(axis=0).tolist())

    def cut(self, loaded: Loaded, s: tuple[float, float, float], device: str) -> tuple[Ints, Ints]:
        """Algorithm 4.1 on whole bodies: sorted ids of the triangles of each that remain."""
        a, b = (tuple(piece) for piece in loaded.pieces.tolist())
        if device == "cuda":
            from impinge.detect.gjk_cut.cuda import cut_on_grid

            left_a, left_b = cut_on_grid(self._arena, a, b, s)
        else:
            self._start(loaded, 1, False)
            scratch = kernels.scratch_of(self._room, 0)
            scratch.listed_a[: a[3]], scratch.listed_b[: b[3]] = np.arange(a[3]), np.arange(b[3])
            count_a, count_b, _ = cut_once(self._arena, a, a[3], b, b[3], s, scratch)
            left_a, left_b = scratch.listed_a[:count_a], scratch.listed_b[:count_b]
        of_a, of_b = (self._arena[2][piece[2] : piece[2] + piece[3]] for piece in (a, b))
        return np.sort(of_a[left_a]), np.sort(of_b[left_b])

    def _reserve(self, vertices: int, triangles: int, kept_vertices: int, kept_triangles: int) -> None:
        """Make room in the arena, and keep the first vertices and triangles in it."""
        point, corner, tri, box = self._arena
        if vertices >= point.shape[1] or triangles >= len(tri):
            grown = _new_arena(max(point.shape[1], vertices * 5 // 4 + 1), max(len(tri), triangles * 5 // 4 + 1))
            grown[0][:, :kept_vertices] = point[:, :kept_vertices]
            for new, old in zip(grown[1:], (corner, tri, box)):
                new[:kept_triangles] = old[:kept_triangles]
            self._arena = grown

    def _start(self, loaded: Loaded, threads: int, is_copied: bool) -> NDArray[np.int64]:
        """Make room for threads; returns where in the arena the part of each begins."""
        if len(self._counters) < threads:
            self._candidate = np.empty((threads, 2, self._candidate.shape[2]), dtype=np.int32)
            self._frames = np.empty((threads * DEEPEST, FRAME), dtype=np.int64)
            self._counters = np.zeros((threads, 8), dtype=np.int64)
        a, b = loaded.pieces.tolist()
        vertices, triangles = a[1] + b[1], a[3] + b[3]
        size = tuple(map(max, (threads, vertices, triangles), self._room_size))
        if size != self._room_size:
            self._room_size = size
            longest = max(size[1:])
            self._room = (
                np.empty((size[0], 4, longest), dtype=np.uint32),
                np.empty((size[0], 3, longest), dtype=np.float32),
                np.empty((size[0], 6), dtype=np.float32),
                np.empty((size[0], size[2] // WIDTH + size[2] // WIDTH**2 + 4, 6, WIDTH), dtype=np.float32),
            )
        self._room[2][:] = 0.0
        # Copies of halves: a split leaves at most three quarters of a list, hence all levels together have four times
        # as many; a single triangle is copied at every level. The last vertex of a copy is written twice.
        vertex_top, tri_top = max(a[0] + a[1], b[0] + b[1]), max(a[2] + a[3], b[2] + b[3])
        tri_room = (4 + is_copied) * triangles + DEEPEST
        vertex_room = min(3 * tri_room, DEEPEST * vertices) + 1
        self._reserve(vertex_top + threads * vertex_room, tri_top + threads * tri_room, vertex_top, tri_top)
        return np.array([(vertex_top + vertex_room * k, tri_top + tri_room * k) for k in range(threads)])


def _new_arena(vertices: int, triangles: int) -> tuple[Any, ...]:
    return (
        np.empty((3, vertices), dtype=np.float32), np.empty((triangles, 3), dtype=np.uint32),
        np.empty(triangles, dtype=np.int32), np.empty((triangles, 6), dtype=np.float32),
    )  # fmt: skip
