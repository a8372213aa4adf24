"""Which of many boxes overlap: sweep along one axis, compare the others.

1. Sort   boxes by where they begin along the axis on which their middles differ most.
2. Sweep. A box can meet only those that begin before it ends: a run of the order.
3. Test   the run on all three axes; count, scan, fill.

Boxes are closed: touching counts. Cost O(n log n + runs).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Floats
from impinge.backend.scan import exclusive_scan
from impinge.detect import broad_phase_kernels as kernels


def overlapping_boxes(low: Floats, high: Floats) -> NDArray[np.int64]:
    """Pairs (i < j) of boxes that overlap, sorted, shape (k, 2); ``low`` and ``high`` have shape (n, 3).

    A box that ends before it begins is empty, and overlaps nothing.
    """
    count = len(low)
    filled = np.flatnonzero((low <= high).all(axis=1))
    if len(filled) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    middle = 0.5 * low[filled] + 0.5 * high[filled]
    axis = int(np.argmax(0.5 * middle.max(axis=0) - 0.5 * middle.min(axis=0)))
    order = filled[np.argsort(low[filled, axis], kind="stable")]
    low, high = low[order], high[order]
    none, counts = np.zeros((0, 2), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    kernels.count_overlaps.over(len(order))(low, high, axis, order, none, counts)
    start = exclusive_scan(counts)
    pairs = np.zeros((start[-1], 2), dtype=np.int64)
    kernels.fill_overlaps.over(len(order))(low, high, axis, order, start, pairs)
    return pairs[np.argsort(pairs[:, 0] * count + pairs[:, 1])]
