"""Triangle pairs by a hashed grid: pairs whose boxes share a cell and overlap, tested exactly.

1. Pairs. Find overlapping boxes of triangles (``boxes.hashed_grid``).
2. Test.  Decide candidates by the exact test of all detectors (``narrow_phase``).

Guarantee   the pairs of all other exact methods: complete, sorted, the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from impinge.backend.stages import Stages
from impinge.checks import Stats, as_number
from impinge.detect.boxes.hashed_grid import overlapping_pairs, triangle_boxes
from impinge.detect.common.narrow_phase import Neighbours, classify
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions
from impinge.detect.common.results import Reason
from impinge.mesh.body import SurfaceLike


class HashedTriangles(PairDetector):
    """All intersecting triangle pairs of two surfaces, or of one with itself, by shared cells.

    Parameters
    ----------
    a, b, neighbours
        As in ``BoxTree``.
    cell_size : float, optional
        Edge length of the cells; None follows the triangles.
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
        box, split = triangle_boxes(a.vertices, a.faces[a.ids]), 0
        if not is_self:
            box, split = np.concatenate([box, triangle_boxes(b.vertices, b.faces[b.ids])]), len(a.ids)
        low, high = overlapping_pairs(box, split, self.cell_size, stats)
        with np.errstate(over="ignore"):
            extent = 2.0 * (box[:, 3:] - box[:, :3]).max(axis=0, initial=0.0)
        pair_a, pair_b = a.ids[low], b.ids[high - split]
        keys = classify(a, b, pair_a, pair_b, extent, stats, is_self=is_self, skip_neighbours=self._skip_neighbours)
        stages.done("search")
        return keys, None


def as_cell_size(cell_size: float | None) -> float | None:
    """Refuse what is no cell size."""
    if cell_size is None:
        return None
    expected = "a positive number, or None to follow the edges"
    return as_number(cell_size, "cell_size", expected, above=0.0, below=np.inf)
