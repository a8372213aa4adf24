"""Candidates for vertices inside tets: vertices in hashed cells, searched by eight tets at a time; exact resolution.

1. Cell size. Near the mean edge length [Teschner2003, 4.3], a power of two: coordinates divided by it are exact, and
              cell and offset within the cell give a vertex to the last bit, at any distance from the origin.
2. Hash.      Number the cells that have vertices by a table that holds the cell itself (open addressing): two cells
              never share a number, and no vertex occurs twice. Sort the vertices by cell, as float32 offsets from the
              corner of the cell.
3. Search.    For each cluster of eight tets: fit their planes, look up the cells that their box covers, compare eight
              vertices at once with the box, and each vertex in the box with the eight tets at once (``simd.tets``).
4. Levels.    A cluster much larger or smaller than a cell is searched on another level, with cells 4^n times the size:
              no cluster covers more than 125 cells, and few share one cell.
5. Resolve.   Decide candidates in doubles; exact signs decide the uncertain ones.

Threads claim clusters and write their own lists of candidates; the caller sorts them.

Candidates  contain all vertices in tets. Let R be the length of the cluster and E that of a tet, in cells. Corners and
            vertices are off by at most 2^-24 R and 2^-24 · 2 (R + 1); each of the four deciding numbers, by at most
            480 · 2^-24 · E R (R + 1) in total, and the margin is 2^-14 E R (R + 1).
Tried       Cells of one, two and four edges of setup E (two, by a third and a tenth); comparing own corners one by one
            instead of eight at once (more than twice the search time, by mispredicted branches).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.stages import Stages
from impinge.checks import Floats, Stats
from impinge.detect.boxes.hashed_grid import LARGEST_CELL, dyadic_cell_size
from impinge.detect.boxes.hashed_grid_kernels import LEVEL_STEP, fill_table
from impinge.detect.common.pair_query import Keys
from impinge.detect.depth.vertex_query import RawHits
from impinge.detect.spatial_hash import kernels
from impinge.detect.spatial_hash.kernels import UNKNOWN
from impinge.detect.spatial_hash.tet_batch import TetBatch

EDGES_PER_CELL = 1.5
"""Cell size in mean edge lengths, before rounding to a power of two."""
SAMPLED_CLUSTERS = 32
"""Clusters whose edges are measured."""


class CellSearch:
    """Finds candidates; keeps buffers from query to query, since allocation costs as much as filling them."""

    def __init__(self, cell_size: float | None) -> None:
        self._cell_size = cell_size
        self.arrays: dict[str, NDArray[Any]] = {}
        self._room = 1024

    def candidates(self, x: Floats, batch: TetBatch, stats: Stats, stages: Stages) -> Keys:
        """Keys (vertex, tet) of all vertices in tets, and of some that are not, in any order.

        Each once, unless cells are too far from the origin for doubles to tell them apart.
        """
        cell_size, lowest = self._choose_cell_size(x, batch)
        clusters, threads = len(batch.tet) // WIDTH, thread_count()
        level_of, unsure = self._array("level", clusters, np.int16), self._array("unsure", clusters, np.uint8)
        level_of.fill(UNKNOWN)
        stages.done("cell_size")
        counts, inverted, counter = np.zeros((3, threads), dtype=np.int64)

        def search(level: int) -> tuple[Keys, int, int]:
            """Candidates of the clusters of one level, and the numbers of its cells and inverted tets."""
            grid, cell_count = self.hash_vertices(x, batch, 1.0 / cell_size / LEVEL_STEP**level)
            stages.done("hash")
            while True:
                keys = self._array("keys", threads * self._room, np.uint64).reshape(threads, self._room)
                counter[:] = counts[:] = inverted[:] = 0
                kernels.search.over(clusters)(
                    x, (batch.corner, batch.tet), (level_of, level, lowest, 1.0 / cell_size), grid, threads, counter,
                    keys, counts, unsure, inverted,
                )  # fmt: skip
                if counts.max() <= self._room:
                    break
                self._room = int(1.5 * counts.max())
            stages.done("search")
            found = np.concatenate([own[:count] for own, count in zip(keys, counts.tolist())])
            return found, cell_count, int(inverted.sum())

        found = [search(0)]  # which chooses the level of each cluster
        levels = np.unique(level_of).tolist() if level_of.any() else [0]
        found += [search(level) for level in levels if level != 0]
        keys, cell_counts, inverted_counts = zip(*found)
        slots = np.flatnonzero(np.unpackbits(unsure, bitorder="little")) if unsure.any() else np.zeros(0, np.int64)
        volume = _exact_sides(x, batch, slots, np.zeros_like(slots))[:, 4]
        stats.update(
            cell_size=cell_size, cells=sum(cell_counts), levels=len(levels), flat_tets=int((volume == 0).sum()),
            inverted_tets=sum(inverted_counts) + int((volume < 0).sum()),
        )  # fmt: skip
        return np.concatenate(keys)

    def hash_vertices(self, x: Floats, batch: TetBatch, inverse: float | None = None) -> tuple[tuple[Any, ...], int]:
        """The grid of ``kernels.search`` with cells of size 1 / ``inverse``, and the number of cells."""
        if inverse is None:
            inverse = 1.0 / self._choose_cell_size(x, batch)[0]
        count = len(batch.vertex)
        bits = max(int(1.5 * count), 2).bit_length()
        table, shift = self._array("table", 1 << bits, np.int32), np.uint64(64 - bits)
        table.fill(-1)
        cell_key, cell_start = self._array("cell_key", count, np.int64), self._array("cell_start", count + 1, np.int64)
        keys, vertex_cell = self._array("vertex_key", count, np.int64), self._array("vertex_cell", count, np.int32)
        # Eight more than there are vertices: kernels read eight at a time.
        offsets = [self._array(f"offset_{axis}", count + WIDTH, np.float32) for axis in "xyz"]
        ids = self._array("id", count + WIDTH, np.int32)
        kernels.find_keys.over(count)(x, batch.vertex, inverse, keys)
        cells = fill_table(keys, table, shift, cell_key, cell_start, vertex_cell)
        kernels.sort_into_cells(x, batch.vertex, inverse, cell_start, vertex_cell, *offsets, ids)
        return (inverse, table, shift, cell_key, cell_start, *offsets, ids), cells

    def _choose_cell_size(self, x: Floats, batch: TetBatch) -> tuple[float, int]:
        """The cell size, and the lowest level whose smaller cells stay in the range of doubles."""
        wanted = self._cell_size
        if wanted is None:
            stride = max(1, len(batch.tet) // WIDTH // SAMPLED_CLUSTERS)
            half_edge = float(kernels.mean_half_edge(x, batch.corner, batch.tet, stride))
            wanted = EDGES_PER_CELL * (min(2.0 * half_edge, LARGEST_CELL) or 1.0)
        return dyadic_cell_size(wanted, float(kernels.farthest(x, batch.vertex)))

    def _array(self, name: str, count: int, dtype: type[np.generic]) -> NDArray[Any]:
        """A kept array of ``count`` entries with arbitrary contents."""
        kept = self.arrays.get(name)
        if kept is None or len(kept) < count:
            kept = self.arrays[name] = np.zeros(count + count // 4, dtype=dtype)
        return kept[:count]


def resolve(keys: Keys, x: Floats, batch: TetBatch, stats: Stats) -> RawHits:
    """Which of the sorted candidates are inside, exactly, and their weights; exactly 0 for a face that they lie on."""
    known, barycentric = np.zeros(len(keys), dtype=np.int8), np.zeros((len(keys), 4))
    kernels.filter_candidates.over(len(keys))(x, batch.corner, batch.slot_of, keys, known, barycentric)
    is_inside, unsure = known == kernels.INSIDE, np.flatnonzero(known == kernels.UNSURE)
    stats["exact_tests"] = len(unsure)
    if len(unsure):
        vertices = (keys[unsure] >> np.uint64(32)).astype(np.int64)
        slots = batch.slot_of[(keys[unsure] & np.uint64(0xFFFFFFFF)).astype(np.int64)].astype(np.int64)
        sides = _exact_sides(x, batch, slots, vertices)
        inwards = sides[:, :4] * sides[:, 4:]
        is_inside[unsure] = (sides[:, 4] != 0) & (inwards >= 0).all(axis=1)
        weights = np.where(inwards == 0, 0.0, np.fmax(barycentric[unsure], np.finfo(np.float64).tiny))
        total = weights.sum(axis=1, keepdims=True)
        barycentric[unsure] = weights / np.where(total > 0.0, total, 1.0)  # flat tets have none, and contain nothing
    if not is_inside.all():
        keys, barycentric = keys[is_inside], barycentric[is_inside]
    body, vertex, in_body, tet = np.zeros((4, len(keys)), dtype=np.int32)
    is_self = np.zeros(len(keys), dtype=np.bool_)
    kernels.unpack_keys.over(len(keys))(keys, batch.vertex_start, batch.tet_start, body, vertex, in_body, tet, is_self)
    return RawHits(body, vertex, in_body, tet, barycentric, is_self)


def _exact_sides(x: Floats, batch: TetBatch, slots: NDArray[Any], vertices: NDArray[Any]) -> NDArray[np.int8]:
    """Exact signs for vertices and the tets in ``slots``: the side of the face opposite to each corner, the volume."""
    sides = np.zeros((len(slots), 5), dtype=np.int8)
    kernels.exact_sides(x, batch.corner, slots, vertices, sides)
    return sides
