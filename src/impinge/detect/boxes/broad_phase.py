"""Which of many boxes overlap: sweep along one axis, compare the others.

1. Sort   boxes by where they begin along the axis on which their middles differ most.
2. Sweep. A box can meet only those that begin before it ends: a run of the order.
3. Test   the run on all three axes, eight boxes at a time; count, scan, fill.

Boxes are closed: touching counts. Cost O(n log n + runs).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Floats
from impinge.detect.boxes import broad_phase_kernels as kernels


def overlapping_boxes(low: Floats, high: Floats) -> NDArray[np.int64]:
    """Pairs (i < j) of boxes that overlap, sorted, shape (k, 2); ``low`` and ``high`` have shape (n, 3).

    A box that ends before it begins is empty, and overlaps nothing.
    """
    count, box = len(low), np.concatenate([low.T, high.T])
    filled = np.flatnonzero((box[:3] <= box[3:]).all(axis=0))
    if len(filled) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    box = box.take(filled, axis=1)
    middle = 0.5 * box[:3] + 0.5 * box[3:]
    axis = int(np.argmax(0.5 * middle.max(axis=1) - 0.5 * middle.min(axis=1)))
    by_start = np.argsort(box[axis], kind="stable")
    order, box = filled[by_start], box.take(by_start, axis=1)
    ends, counts = np.searchsorted(box[axis], box[3 + axis], side="right"), np.zeros(len(order), dtype=np.int64)
    # Boxes in nodes of eight, as ``backend.simd`` takes them; NaN fills the last, which infinite boxes miss.
    padded = np.full((6, -(-len(order) // WIDTH) * WIDTH), np.nan)
    padded[:, : len(order)] = box
    nodes = np.ascontiguousarray(padded.reshape(6, -1, WIDTH).transpose(1, 0, 2))
    kernels.count_overlaps.over(len(order))(nodes, ends, counts)
    start = np.append(0, np.cumsum(counts))
    keys = np.zeros(start[-1], dtype=np.int64)
    kernels.fill_overlaps.over(len(order))(nodes, ends, order, start, count, keys)
    return np.stack(np.divmod(np.sort(keys), count), axis=1)
