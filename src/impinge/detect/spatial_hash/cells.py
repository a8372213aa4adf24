"""Vertices that may be inside of tets: cells in a hash table, searched by eight tets at a time.

1. Cell size. Near the mean edge length [Teschner2003, 4.3], a power of two: coordinates divided by it are exact, so
              that a vertex is known to the last bit by its cell and its place in the cell, however far away it is.
2. Hash.      Number the cells that have vertices, by way of a table that holds the cell itself (open addressing): two
              cells never share a number, and no vertex is met twice. Sort the vertices by cell, as float32 counted from
              the corner of the cell.
3. Search.    For each cluster of eight tets: fit their planes, look up the cells that their box covers, compare eight
              vertices at once with the box, and each vertex in the box with the eight tets at once (``simd_tets``).
4. Levels.    A cluster much larger or smaller than a cell is searched on a level of its own, with cells 4^n times
              the size, so that none covers more than 125 cells or crowds into one, whatever the mixture.

Threads claim clusters and write candidates of their own; whoever asks sorts them.

Candidates  contain all vertices in tets. Let R be the length of the cluster and E that of a tet, in cells. Corners and
            vertices are off by at most 2^-24 R and 2^-24 · 2 (R + 1); each of the four numbers that decide, by
            at most 480 · 2^-24 · E R (R + 1) in all, and the margin is 2^-14 E R (R + 1).
Tried       cells of one, two and four edges of setup E (two, by a third and a tenth); own corners told from others one
            by one, and not eight at once (more than twice the time of the search, by branches that nobody predicts).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.stages import Stages
from impinge.checks import Floats, Ints
from impinge.detect.spatial_hash import kernels
from impinge.detect.spatial_hash.kernels import LEVEL_STEP, UNKNOWN
from impinge.detect.spatial_hash.tet_batch import Arena
from impinge.errors import MeshError

Keys = NDArray[np.uint64]

EDGES_PER_CELL = 1.5
"""Cells are about this many mean edges long, rounded to a power of two."""
SAMPLED_CLUSTERS = 32
"""Clusters whose edges are measured."""
FARTHEST = 2.0**1000
"""Cells from the origin at most."""
LARGEST_CELL = 2.0**1000
"""The largest cell; the smallest is the inverse."""


class Scratch:
    """Arrays that are used again from query to query: to allocate them anew costs as much as to fill them."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}

    def array(self, name: str, count: int, dtype: Any) -> NDArray[Any]:
        """An array of at least ``count``, with old numbers in it."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < count:
            kept = self._kept[name] = np.zeros(count + count // 4, dtype=dtype)
        return kept

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(array.nbytes for array in self._kept.values())


class Grid(NamedTuple):
    """Vertices by cells, as the kernels want them."""

    inverse: float
    table: Ints
    shift: np.uint64
    cell_key: NDArray[np.int64]
    cell_start: NDArray[np.int64]
    place_x: NDArray[np.float32]
    """Vertices by cells, counted from the corner of the cell; eight more than there are, so that eight can be read."""
    place_y: NDArray[np.float32]
    place_z: NDArray[np.float32]
    place_id: Ints


class CellSearch:
    """Finds candidates; keeps what can be used again in the next frame."""

    def __init__(self, cell_size: float | None) -> None:
        self._cell_size = cell_size
        self.scratch = Scratch()
        self._room = 1024

    def candidates(self, x: Floats, arena: Arena, stats: dict[str, Any], stages: Stages) -> Keys:
        """Keys (vertex, tet) of all vertices that are in tets, and of some that are not, in any order.

        Each once, unless cells are too far from the origin for doubles to tell them apart.
        """
        farthest = farthest_of(x, arena)
        cell_size = self._choose_cell_size(x, arena, farthest)
        clusters = len(arena.tet) // WIDTH
        level_of = self.scratch.array("level", clusters, np.int16)[:clusters]
        level_of.fill(UNKNOWN)
        unsure = self.scratch.array("unsure", clusters, np.uint8)[:clusters]
        lowest = least_level(cell_size, farthest)
        stages.done("cell_size")
        stats.update(cell_size=cell_size, cells=0, inverted_tets=0)
        found = [self._search(x, arena, (level_of, 0, lowest, 1.0 / cell_size), unsure, stats, stages)]
        used = np.unique(level_of).tolist() if level_of.any() else [0]
        for level in sorted(set(used) - {0}):
            found += [self._search(x, arena, (level_of, level, lowest, 1.0 / cell_size), unsure, stats, stages)]
        flat, inverted = orientations(x, arena, _lanes(unsure))
        stats.update(levels=len(used), flat_tets=flat, inverted_tets=stats["inverted_tets"] + inverted)
        return np.concatenate(found)

    def hash_vertices(self, x: Floats, arena: Arena) -> None:
        """The first pass by itself."""
        size = self._choose_cell_size(x, arena, farthest_of(x, arena))
        self._make_grid(x, arena.vertex, 1.0 / size, {"cells": 0})

    def _choose_cell_size(self, x: Floats, arena: Arena, farthest: float) -> float:
        wanted = self._cell_size
        if wanted is None:
            clusters = len(arena.tet) // WIDTH
            wanted = EDGES_PER_CELL * mean_edge_of(x, arena, every=max(1, clusters // SAMPLED_CLUSTERS))
        return dyadic(wanted, farthest)

    def _search(
        self, x: Floats, arena: Arena, levels: Any, unsure: NDArray[np.uint8], stats: dict[str, Any], stages: Stages
    ) -> Keys:
        """Candidates of the clusters of one level; ``unsure`` gets the bits of their tets that may be flat."""
        grid = self._make_grid(x, arena.vertex, levels[3] / LEVEL_STEP ** levels[1], stats)
        stages.done("hash")
        threads, clusters = thread_count(), len(levels[0])
        counts, inverted, counter = np.zeros((3, threads), dtype=np.int64)
        while True:
            keys = self.scratch.array("keys", threads * self._room, np.uint64)[: threads * self._room]
            keys = keys.reshape(threads, self._room)
            counter[:] = counts[:] = inverted[:] = 0
            kernels.search.over(clusters)(
                x, (arena.corner, arena.tet), levels, grid, threads, counter, keys, counts, unsure, inverted
            )
            if counts.max() <= self._room:
                break
            self._room = int(1.5 * counts.max())
        stats["inverted_tets"] += int(inverted.sum())
        stages.done("search")
        return np.concatenate([own[:count] for own, count in zip(keys, counts.tolist())])

    def _make_grid(self, x: Floats, vertex: Ints, inverse: float, stats: dict[str, Any]) -> Grid:
        count = len(vertex)
        bits = max(int(1.5 * count), 2).bit_length()
        table = self.scratch.array("table", 1 << bits, np.int32)[: 1 << bits]
        table.fill(-1)
        shift = np.uint64(64 - bits)
        cell_key = self.scratch.array("cell_key", count, np.int64)
        cell_start = self.scratch.array("cell_start", count + 1, np.int64)
        vertex_cell = self.scratch.array("vertex_cell", count, np.int32)
        place = (
            self.scratch.array("place_x", count + WIDTH, np.float32),
            self.scratch.array("place_y", count + WIDTH, np.float32),
            self.scratch.array("place_z", count + WIDTH, np.float32),
            self.scratch.array("place_id", count + WIDTH, np.int32),
        )
        keys = self.scratch.array("vertex_key", count, np.int64)[:count]
        kernels.find_keys.over(count)(x, vertex, inverse, keys)
        cells = kernels.fill_table(keys, table, shift, cell_key, cell_start, vertex_cell)
        kernels.sort_into_cells(x, vertex, inverse, cell_start, cells, vertex_cell, *place)
        stats["cells"] += cells
        return Grid(inverse, table, shift, cell_key, cell_start, *place)


def _lanes(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Slots whose bits are set, eight slots for each byte."""
    if not bits.any():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def orientations(x: Floats, arena: Arena, slots: NDArray[np.int64]) -> tuple[int, int]:
    """How many of the tets in ``slots`` are flat, and how many inverted, exactly."""
    if not len(slots):
        return 0, 0
    volume = sides_of(x, arena, slots, np.zeros(len(slots), dtype=np.int64))[:, 4]
    return int((volume == 0).sum()), int((volume < 0).sum())


def sides_of(x: Floats, arena: Arena, slots: NDArray[np.int64], vertices: NDArray[np.int64]) -> NDArray[np.int8]:
    """Exact signs for vertices and the tets in ``slots``: one for the face opposite to each corner, and the volume."""
    sides = np.zeros((len(slots), 5), dtype=np.int8)
    kernels.exact_sides(x, arena.corner, slots, vertices, sides)
    return sides


def farthest_of(x: Floats, arena: Arena) -> float:
    """The largest coordinate, by its size."""
    return checked_reach(float(kernels.farthest(x, arena.vertex)))


def checked_reach(farthest: float) -> float:
    """Refuse positions that are not finite: an update that was told not to check may have brought them."""
    if not math.isfinite(farthest):
        raise MeshError("a position is infinite or undefined, expected finite ones; update(check=True) tells which")
    return farthest


def mean_edge_of(x: Floats, arena: Arena, *, every: int) -> float:
    """The mean edge length of the tets in every so manieth cluster; 1 if all are points."""
    half = float(kernels.mean_half_edge(x, arena.corner, arena.tet, every))
    return min(2.0 * half, LARGEST_CELL) or 1.0


def dyadic(size: float, farthest: float) -> float:
    """The power of two nearest to ``size`` that, dividing coordinates, does not lead out of the range of doubles."""
    smallest = max(farthest / FARTHEST, 1.0 / LARGEST_CELL)
    return float(2.0 ** round(math.log2(min(max(size, smallest), LARGEST_CELL))))


def least_level(cell_size: float, farthest: float) -> int:
    """The lowest level on which the same is true of its smaller cells."""
    smallest = max(math.log2(max(farthest, 1.0 / LARGEST_CELL)) - math.log2(FARTHEST), -math.log2(LARGEST_CELL))
    return -max(0, math.floor((math.log2(cell_size) - smallest) / math.log2(LEVEL_STEP)))
