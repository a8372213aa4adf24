"""Fit trees, expand and test node pairs level by level; see ``detector`` for the method.

Every kernel is a loop over a function of one index; ``cuda`` runs the same functions on a grid. Arrays:

``level[q, h]``    first row and number of nodes at height h (0: the leaves) of a tree, for object pair q
``box[n]``         lower then upper bounds of node n along each axis of the volume
``pairs[k]``       object pair, node of a, node of b, as positions within the level
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.common.narrow_phase_kernels import classify_pairs, classify_self_pairs

__all__ = [
    "CHUNK", "classify_pairs", "classify_self_pairs", "expand_scan", "fit_leaves", "fit_nodes", "visit_pairs",
]  # fmt: skip

FIRST, COUNT = 0, 1
"""Columns of ``level``."""
CHUNK = 64
"""Outputs per index of ``expand_scan``: one binary search serves them all."""

ROUNDING = 2.0**-50
"""Error of a projection on a diagonal, relative to the sum of its terms: at most 2^-51 with the rounding of bounds."""
UNDERFLOW = 2.0**-1070
"""Error of a projection on a diagonal whose terms are subnormal."""


# Fit --------------------------------------------------------------------------------------------------


@compiled
def fit_leaf(i, x, faces, order, directions, box):
    """Fit the volume of leaf ``i``: exact bounds along x, y, z, bounds rounded outwards along ``directions``."""
    t = order[i]
    axes = box.shape[1] // 2
    for k in range(3):
        p, q, r = x[faces[t, 0], k], x[faces[t, 1], k], x[faces[t, 2], k]
        box[i, k], box[i, axes + k] = min(min(p, q), r), max(max(p, q), r)
    for d in range(len(directions)):
        low, high = np.inf, -np.inf
        for corner in range(3):
            v = faces[t, corner]
            px, py, pz = directions[d, 0] * x[v, 0], directions[d, 1] * x[v, 1], directions[d, 2] * x[v, 2]
            error = ROUNDING * (abs(px) + abs(py) + abs(pz)) + UNDERFLOW
            low = min(low, (px + py + pz) - error)
            high = max(high, (px + py + pz) + error)
        box[i, 3 + d], box[i, axes + 3 + d] = low, high


@kernel()
def fit_leaves(x, faces, order, directions, box):
    """Fit all leaves."""
    for i in prange(len(order)):
        fit_leaf(i, x, faces, order, directions, box)


@compiled
def fit_node(i, first_child, child_count, first, box):
    """Fit node ``i`` of a level around its one or two children."""
    left = first_child + 2 * i
    right = left + 1 if 2 * i + 1 < child_count else left
    axes = box.shape[1] // 2
    for k in range(axes):
        box[first + i, k] = min(box[left, k], box[right, k])
        box[first + i, axes + k] = max(box[left, axes + k], box[right, axes + k])


@kernel()
def fit_nodes(count, first_child, child_count, first, box):
    """Fit the ``count`` nodes of a level."""
    for i in prange(count):
        fit_node(i, first_child, child_count, first, box)


# Expand (4.4) -----------------------------------------------------------------------------------------


@compiled
def expand_chunk(c, start, first, source, child):
    """Write outputs ``c * CHUNK`` .. of the expansion, counted from output ``first``, by their prefix sums ``start``.

    Output k is child k - start[p] of input p, the last input that starts at or before k.
    """
    k = first + c * CHUNK
    p, end = 0, len(start) - 1
    while end - p > 1:
        middle = (p + end) // 2
        if start[middle] <= k:
            p = middle
        else:
            end = middle
    for i in range(c * CHUNK, min((c + 1) * CHUNK, len(source))):
        k = first + i
        while start[p + 1] <= k:
            p += 1
        source[i], child[i] = p, k - start[p]


@kernel(parallel_from=64)
def expand_scan(chunk_count, start, first, source, child):
    """Write ``len(source)`` outputs of the expansion from ``first`` on."""
    for c in prange(chunk_count):
        expand_chunk(c, start, first, source, child)


# Test (4.3) -------------------------------------------------------------------------------------------


@compiled
def visit_pair(k, height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children):
    """Write node pair ``k``, child number ``child[k]`` of pair ``source[k]``, nodes of a first; test its boxes.

    ``children[k]`` becomes the number of pairs to visit below: up to four, 1 for leaves, 0 if an axis of the volume
    separates the nodes. Touching does not separate. Within one body only pairs s <= t are followed, and no leaf meets
    itself. Arrays are read outside of branches: within one, Numba counts references, at five times the cost of a test.
    """
    p = source[k]
    q, s, t = parents[p, 0], np.int64(parents[p, 1]), np.int64(parents[p, 2])
    count_a = min(fan, level_a[q, height, COUNT] - fan * s)
    s, t = fan * s + child[k] % count_a, fan * t + child[k] // count_a
    pairs[k, 0], pairs[k, 1], pairs[k, 2] = q, s, t
    i, j = level_a[q, height, FIRST] + s, level_b[q, height, FIRST] + t
    axes = box_a.shape[1] // 2
    is_apart = False
    for axis in range(axes):
        is_apart |= (box_b[j, axis] > box_a[i, axes + axis]) | (box_a[i, axis] > box_b[j, axes + axis])
    is_apart |= is_self & ((s > t) | ((s == t) & (height == 0)))
    below = max(height - 1, 0)
    pairs_below = min(2, level_a[q, below, COUNT] - 2 * s) * min(2, level_b[q, below, COUNT] - 2 * t)
    children[k] = 0 if is_apart else (1 if height == 0 else pairs_below)


@kernel()
def visit_pairs(height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children):
    """Write and test all node pairs of a block in one pass (end of 4.4)."""
    for k in prange(len(pairs)):
        visit_pair(k, height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children)
