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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.stages import start_stages
from impinge.checks import Floats, Ints, sorted_unique
from impinge.detect.common.narrow_phase import Neighbours, check_neighbours, classify, classify_self
from impinge.detect.common.pair_query import PairOptions, QueryBody, finish_pairs, pair_options
from impinge.detect.common.results import EdgeContacts, Reason, TrianglePairs
from impinge.detect.proximity.edge_crossings import crossings_of, unique_rows
from impinge.detect.spatial_hash import triangles_kernels as kernels
from impinge.detect.spatial_hash.cells import LARGEST_CELL, Keys, checked_reach, dyadic, least_level
from impinge.detect.spatial_hash.kernels import LEVEL_STEP
from impinge.mesh.tri_mesh import Snapshot, TriMesh

LEAST_ROOM = 4096
"""Candidates that a thread has room for at first."""


class TriangleCells:
    """All pairs of triangles of two surfaces, or of one with itself, by shared cells."""

    def __init__(self, bodies: Sequence[TriMesh], cell_size: float | None, neighbours: Neighbours) -> None:
        self._bodies = tuple(bodies)
        self._cell_size = cell_size
        self._skip_neighbours = check_neighbours(neighbours, is_self=len(bodies) == 1)

    def query(self, *, method: str, **options: Any) -> TrianglePairs:
        """Find all pairs as the bodies are now; options as in ``PairOptions``."""
        began = perf_counter()
        is_self = len(self._bodies) == 1
        wanted = pair_options(options, is_self=is_self)
        a = wanted.side_a(self._bodies[0])
        b = a if is_self else wanted.side_b(self._bodies[1])
        stages, stats = start_stages(), dict[str, Any]()
        keys, reason = self._search(a, b, is_self, wanted, stats)
        stages.done("search")
        stats["hits"] = len(keys)
        stats.update(stages.times())
        return finish_pairs(
            keys, wanted, is_self=is_self, method=method, stats=stats, reason=reason, bodies=self._bodies, began=began
        )

    def _search(
        self, a: QueryBody, b: QueryBody, is_self: bool, options: PairOptions, stats: dict[str, Any]
    ) -> tuple[Keys, Reason | None]:
        if options.cancelled:
            return np.zeros(0, dtype=np.uint64), "cancelled"
        box = _boxes(a.vertices, a.faces[a.ids])
        if not is_self:
            box = np.concatenate([box, _boxes(b.vertices, b.faces[b.ids])])
        low, high = candidate_pairs(box, 0 if is_self else len(a.ids), self._cell_size, stats)
        with np.errstate(over="ignore"):
            extent = 2.0 * (box[:, 3:] - box[:, :3]).max(axis=0, initial=0.0)
        if is_self:
            return classify_self(a, a.ids[low], a.ids[high], self._skip_neighbours, extent, stats), None
        return classify(a, b, a.ids[low], b.ids[high - len(a.ids)], extent, stats), None


def _boxes(x: Floats, faces: Ints) -> Floats:
    box = np.zeros((len(faces), 6))
    kernels.fit_boxes.over(len(faces))(x, np.ascontiguousarray(faces), box)
    return box


def candidate_pairs(
    box: Floats, split: int, cell_size: float | None, stats: dict[str, Any]
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
    box: Floats, level: NDArray[np.int16], wanted: int, split: int, inverse: float, stats: dict[str, Any]
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
    stats: dict[str, Any] = {}
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
