"""Fit all levels of a tree of boxes as float32; see ``whole_tree`` for the layout."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, node_box
from impinge.detect.boxes.tree_kernels import EMPTY, INTERIOR

LEAST_PAD = 2.0**-20
"""Bound on the float32 error of distances of boxes or triangles, relative to the largest coordinates."""
LARGEST_KEY = np.int32(0x7F7FFFFF)
"""The bits of the largest finite float32: empty boxes have larger keys."""


@inlined
def node_at(level, i, start):
    """Row of node ``i`` of a level: the lowest two levels are stored together, block by block."""
    if level == 0:
        return i + i // WIDTH + 1
    return INTERIOR * i if level == 1 else start[level] + i


@compiled
def fit_above(box, start, block_count):
    """Fit the levels above the blocks, bottom-up. Returns the largest coordinate relative to the origin."""
    count = block_count
    for level in range(2, len(start)):
        for parent in range((count + WIDTH - 1) // WIDTH):
            for lane in range(WIDTH):
                i = WIDTH * parent + lane
                bounds = node_box(box, node_at(level - 1, i, start)) if i < count else EMPTY
                for k in range(6):
                    box[start[level] + parent, k, lane] = bounds[k]
        count = (count + WIDTH - 1) // WIDTH
    reach = 0.0
    for bound in node_box(box, start[len(start) - 1]):
        if np.isfinite(bound):
            reach = max(reach, np.float64(abs(bound)))
    return reach


@kernel(parallel_from=1024)
def fit_corners(node_count, order_face, order_tri, x, origin, corner):
    """Write the corners of all triangles, eight by eight; those of an empty place stay unchanged."""
    for node in prange(node_count):
        for lane in range(WIDTH):
            s = WIDTH * node + lane
            if order_tri[s] >= 0:
                for k in range(3):
                    for axis in range(3):
                        corner[node, 3 * k + axis, lane] = x[order_face[s, k], axis] - origin[axis]


@inlined
def key_within(square, pad):
    """The largest key of a box that may contain a point as near as the root of ``square``."""
    reach = np.sqrt(square) * (1.0 + LEAST_PAD) + pad
    largest = np.float32(reach * reach * (1.0 + LEAST_PAD))
    return min(largest.view(np.int32) | np.int32(WIDTH - 1), LARGEST_KEY)
