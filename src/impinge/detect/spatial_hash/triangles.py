"""Triangles in a hashed grid: pairs that share a cell, tested exactly; and edges through faces on the same grid.

1. Levels.  A triangle belongs to the level whose cells fit its box: cells are 4^n times a power of two near the mean
            extent, so that no box covers more than 125 of them, however sizes are mixed.
2. Hash.    Of each level, put its triangles into all cells that their boxes cover.
3. Look up. Each triangle of that level or a lower one looks into the cells that its own box covers. Boxes that overlap
            share cells, and the first of them is where the pair counts: no pair is met twice, unless cells are so far
            from the origin that doubles cannot tell them apart.
4. Test.    Candidates are decided by the exact test of all detectors (``narrow_phase``), or each edge of one triangle
            against the face of the other by exact signs (``edge_crossings_kernels``).

Guarantee   the pairs of all other exact methods: complete, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.stages import Stages
from impinge.checks import Floats, Ints, Stats, as_number, sorted_unique
from impinge.detect.common.narrow_phase import Neighbours, classify
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, PairOptions
from impinge.detect.common.results import EdgeContacts, Reason
from impinge.detect.proximity.edge_crossings import crossings_of, unique_rows
from impinge.detect.spatial_hash import triangles_kernels as kernels
from impinge.detect.spatial_hash.cells import LARGEST_CELL, Keys, checked_reach, dyadic, least_level
from impinge.detect.spatial_hash.kernels import LEVEL_STEP
from impinge.mesh.body import SurfaceLike
from impinge.mesh.mesh import Snapshot

LEAST_ROOM = 4096
"""Candidates that a thread has room for at first."""


class HashedTriangles(PairDetector):
    """All intersecting triangle pairs of two surfaces, or of one with itself, by shared cells.

    Parameters
    ----------
    a, b, neighbours
        As in ``BoxTree``.
    cell_size : float, optional
        Edge of the cells; None follows the triangles.
    """

    name = "spatial_hash"
    options = ("neighbours", "cell_size")

    def __init__(
        self,
        a: SurfaceLike,
        b: SurfaceLike | None = None,
        *,
        neighbours: Neighbours = "exact",
        cell_size: float | None = None,
    ) -> None:
        super().__init__(a, b, neighbours=neighbours)
        self.cell_size = as_cell_size(cell_size)

    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        is_self = self.b is None
        a, b = options.query_bodies(self.a, self.b)
        if options.cancelled:
            return NO_KEYS, "cancelled"
        box = _boxes(a.vertices, a.faces[a.ids])
        if not is_self:
            box = np.concatenate([box, _boxes(b.vertices, b.faces[b.ids])])
        low, high = candidate_pairs(box, 0 if is_self else len(a.ids), self.cell_size, stats)
        with np.errstate(over="ignore"):
            extent = 2.0 * (box[:, 3:] - box[:, :3]).max(axis=0, initial=0.0)
        pair_a, pair_b = a.ids[low], b.ids[high - (0 if is_self else len(a.ids))]
        keys = classify(a, b, pair_a, pair_b, extent, stats, is_self=is_self, skip_neighbours=self._skip_neighbours)
        stages.done("search")
        return keys, None


def as_cell_size(cell_size: float | None) -> float | None:
    """Refuse what is no cell size."""
    if cell_size is None:
        return None
    expected = "a positive number, or None to follow the edges"
    return as_number(cell_size, "cell_size", expected, above=0.0, below=np.inf)


def _boxes(x: Floats, faces: Ints) -> Floats:
    box = np.zeros((len(faces), 6))
    kernels.fit_boxes.over(len(faces))(x, np.ascontiguousarray(faces), box)
    return box


def candidate_pairs(
    box: Floats, split: int, cell_size: float | None, stats: Stats
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of ``box`` that overlap, the lower and the higher, each pair once; with ``split``, on both sides of it."""
    farthest = checked_reach(float(np.abs(box).max(initial=0.0)))
    size = dyadic(cell_size or min(2.0 * kernels.mean_half_extent(box), LARGEST_CELL) or 1.0, farthest)
    level = np.zeros(len(box), dtype=np.int16)
    kernels.choose_levels.over(len(box))(box, 1.0 / size, least_level(size, farthest), level)
    used = np.unique(level).tolist()
    found = [_pairs_of_level(box, level, each, split, 1.0 / size / LEVEL_STEP**each, stats) for each in used]
    keys = sorted_unique(np.concatenate([np.zeros(0, dtype=np.uint64), *found]))
    stats.update(cell_size=size, candidates=len(keys))
    return (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _pairs_of_level(
    box: Floats, level: NDArray[np.int16], wanted: int, split: int, inverse: float, stats: Stats
) -> Keys:
    rows = np.flatnonzero(level == wanted)
    entries = kernels.count_entries(box, rows, inverse)
    bits = max(int(1.5 * entries), 2).bit_length()
    table, entry = np.full(1 << bits, -1, dtype=np.int32), np.zeros(entries, dtype=np.int32)
    cell_key, cell_start = np.zeros(entries, dtype=np.int64), np.zeros(entries + 1, dtype=np.int64)
    shift = np.uint64(64 - bits)
    cells = kernels.fill_cells(box, rows, inverse, table, shift, cell_key, cell_start, entry)
    stats["cells"] = stats.get("cells", 0) + cells
    threads, room = thread_count(), LEAST_ROOM
    while True:
        keys, counts = np.zeros((threads, room), dtype=np.uint64), np.zeros(threads, dtype=np.int64)
        counter = np.zeros(1, dtype=np.int64)
        grid = (inverse, table, shift, cell_key, cell_start, entry)
        kernels.find_pairs.over(len(box))(box, level, split, wanted, grid, threads, counter, keys, counts)
        if counts.max() <= room:
            return np.concatenate([own[:count] for own, count in zip(keys, counts.tolist())])
        room = int(counts.max())


# edges through faces --------------------------------------------------------------------------------------


def edge_contacts(surfaces: Sequence[Snapshot], x: Floats, vertex_start: NDArray[np.int64]) -> EdgeContacts:
    """Edges of all surfaces through faces of all surfaces; edges that share a vertex with the face do not count.

    ``x`` holds the positions of all bodies, one behind the other.
    """
    began = perf_counter()
    none = np.zeros((0, 3), dtype=np.int32)
    faces = np.concatenate(
        [none, *(s.elements[s.live] + np.int32(first) for s, first in zip(surfaces, vertex_start[:-1].tolist()))]
    )
    stats: Stats = {}
    low, high = candidate_pairs(_boxes(x, faces), 0, None, stats)
    may_cross = np.zeros(6 * len(low), dtype=np.bool_)
    kernels.sift_edges.over(len(low))(x, faces, low, high, may_cross)
    rows = np.flatnonzero(may_cross)
    pair, which = rows // 6, rows % 6
    of_edge = np.where(which < 3, low[pair], high[pair])
    of_face = np.where(which < 3, high[pair], low[pair]).astype(np.int32)
    edge = np.sort(np.stack([faces[of_edge, which % 3], faces[of_edge, (which + 1) % 3]], axis=1), axis=1)
    edge, face = unique_rows(edge, of_face)
    edge, face, how = crossings_of(x, edge, x, faces, face)
    face_start = np.concatenate([[0], np.cumsum([len(s.live) for s in surfaces])])
    body = np.searchsorted(vertex_start, edge[:, 0], side="right").astype(np.int32) - np.int32(1)
    in_body = np.searchsorted(face_start, face, side="right").astype(np.int32) - np.int32(1)
    return EdgeContacts(
        body=body,
        edge=edge - vertex_start[body][:, None].astype(np.int32),
        in_body=in_body,
        face=np.concatenate([none[:, 0], *(s.live for s in surfaces)])[face],
        **how,
        is_self=body == in_body,
        method="spatial_hash",
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
    )
