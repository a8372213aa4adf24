"""Which of many boxes overlap: a grid of cells in a hash table, for boxes of any mixture of sizes.

1. Levels.  A box belongs to the level whose cells fit it: cells are 4^n times a power of two near the mean extent.
            No box covers more than 125 cells of its level.
2. Hash.    Enter the boxes of a level into all cells that they cover.
3. Look up. Each box of that level or a lower one looks up the cells that it covers. Overlapping boxes share cells, and
            the pair counts in the first of them: no pair occurs twice, unless cells are so far from the origin that
            doubles cannot tell them apart.

``spatial_hash`` searches vertices on the same cells.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.checks import Floats, Ints, Stats, sorted_unique
from impinge.detect.boxes import hashed_grid_kernels as kernels
from impinge.detect.boxes.hashed_grid_kernels import LEVEL_STEP
from impinge.errors import MeshError

FARTHEST = 2.0**1000
"""Cells from the origin at most."""
LARGEST_CELL = 2.0**1000
"""The largest cell; the smallest is the inverse."""
LEAST_ROOM = 4096
"""Initial room for candidates per thread."""


def triangle_boxes(x: Floats, faces: Ints) -> Floats:
    """Boxes of triangles, lowest then highest corner, shape (m, 6)."""
    box = np.zeros((len(faces), 6))
    kernels.fit_boxes.over(len(faces))(x, np.ascontiguousarray(faces), box)
    return box


def dyadic_cell_size(size: float, farthest: float) -> tuple[float, int]:
    """The power of two nearest to ``size``, and the lowest level.

    Coordinates up to ``farthest``, divided by cells of either, stay in the range of doubles.
    """
    if not math.isfinite(farthest):
        raise MeshError(
            "a position is infinite or undefined, expected finite ones; update(check=True) names the vertex"
        )
    smallest = max(farthest / FARTHEST, 1.0 / LARGEST_CELL)
    exponent = round(math.log2(min(max(size, smallest), LARGEST_CELL)))
    least = max(math.log2(max(farthest, 1.0 / LARGEST_CELL)) - math.log2(FARTHEST), -math.log2(LARGEST_CELL))
    return 2.0**exponent, -max(0, math.floor((exponent - least) / math.log2(LEVEL_STEP)))


def overlapping_pairs(
    box: Floats, split: int, cell_size: float | None, stats: Stats
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of ``box`` that overlap, the lower and the higher, each pair once; with ``split``, on both sides of it."""
    wanted = cell_size or min(2.0 * kernels.mean_half_extent(box), LARGEST_CELL) or 1.0
    size, lowest = dyadic_cell_size(wanted, float(np.abs(box).max(initial=0.0)))
    level = np.zeros(len(box), dtype=np.int16)
    kernels.choose_levels.over(len(box))(box, 1.0 / size, lowest, level)
    found, cell_count, threads = [np.zeros(0, dtype=np.uint64)], 0, thread_count()
    for each in np.unique(level).tolist():
        grid = kernels.enter_boxes(box, np.flatnonzero(level == each), 1.0 / size / LEVEL_STEP**each)
        cell_count, room = cell_count + len(grid[4]) - 1, LEAST_ROOM
        while True:
            keys, (counts, counter) = np.zeros((threads, room), np.uint64), np.zeros((2, threads), dtype=np.int64)
            kernels.find_pairs.over(len(box))(box, level, split, each, grid, threads, counter, keys, counts)
            if counts.max() <= room:
                break
            room = int(counts.max())
        found += [own[:count] for own, count in zip(keys, counts.tolist())]
    keys = sorted_unique(np.concatenate(found))
    stats.update(cell_size=size, candidates=len(keys), cells=cell_count)
    return (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
