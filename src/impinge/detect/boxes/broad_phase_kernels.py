"""The sweep over sorted boxes: count, scan, fill; see ``broad_phase``.

``nodes`` holds the boxes in the order of the sweep, eight to a node (``backend.simd``).
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, overlap_mask

ONE = np.uint64(1)


@inlined
def _overlaps(nodes, node, i):
    """Bits of the boxes of a node that overlap box ``i``; of its own node those behind it."""
    own, lane = i // WIDTH, i % WIDTH
    mask = overlap_mask(
        nodes, np.int64(node), nodes[own, 0, lane], nodes[own, 1, lane], nodes[own, 2, lane], nodes[own, 3, lane],
        nodes[own, 4, lane], nodes[own, 5, lane],
    )  # fmt: skip
    return mask >> np.uint64(lane + 1) << np.uint64(lane + 1) if node == own else mask


@kernel(parallel_from=512)
def sweep(nodes, ends, order, count, start, keys):
    """Write the overlaps of each box with those behind it that begin before it ends: up to its entry of ``ends``.

    Pairs go to ``keys`` from ``start[i]`` on, as lower number times ``count`` plus higher number. With empty ``keys``,
    ``start[i]`` becomes their number.
    """
    for i in prange(len(ends)):
        at = start[i]
        for node in range(i // WIDTH, (ends[i] + WIDTH - 1) // WIDTH):
            mask = _overlaps(nodes, node, i)
            while mask != 0:
                if len(keys):
                    j = WIDTH * node + lowest_bit(mask)
                    keys[at] = min(order[i], order[j]) * count + max(order[i], order[j])
                mask &= mask - ONE
                at += 1
        if not len(keys):
            start[i] = at
