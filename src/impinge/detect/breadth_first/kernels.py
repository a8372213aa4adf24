"""Fit trees, test node pairs, expand them level by level; see ``breadth_first`` for the method.

Every kernel is a body for one index and a loop over it; ``breadth_first_cuda`` runs the same bodies on a grid. Arrays:

``level[q, h]``    first row and number of nodes at height h (0: the leaves) of a tree, for object pair q
``box[n]``         lower then upper bounds of node n along each axis of the volume
``pairs[k]``       object pair, node of a, node of b, as positions within the level
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.common.narrow_phase_kernels import classify_pairs, classify_self_pairs

__all__ = [
    "CHUNK", "classify_pairs", "classify_self_pairs", "expand_scan", "fit_leaves", "fit_nodes", "locate_and_test_pairs",
]  # fmt: skip

FIRST, COUNT = 0, 1
"""Columns of ``level``."""
CHUNK = 64
"""Outputs that one index of ``expand_scan`` writes: one binary search serves them all."""

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


# Test (4.3) -------------------------------------------------------------------------------------------
#
# Arrays are used outside of branches: within one, Numba counts references to them, at five times the cost of a test.


@compiled
def _bounds_are_apart(box_a, s, box_b, t):
    """Whether some axis of the volume separates two nodes; touching does not."""
    axes = box_a.shape[1] // 2
    is_apart = False
    for k in range(axes):
        is_apart |= (box_b[t, k] > box_a[s, axes + k]) | (box_a[s, k] > box_b[t, axes + k])
    return is_apart


@compiled
def child_count(level_count, node, fan):
    """Children of a node on a level below of ``level_count`` nodes, ``fan`` to a node but for the last."""
    return min(fan, level_count - fan * node)


@compiled
def pairs_to_visit(height, s, t, below_a, below_b, is_apart):
    """How many pairs of children of nodes s and t to visit on the level below of so many nodes; for leaves 0 or 1."""
    if is_apart:
        return 0
    if height == 0:
        return 1
    return child_count(below_a, s, 2) * child_count(below_b, t, 2)


@compiled
def test_pair(k, height, pairs, level_a, box_a, level_b, box_b, is_self, children):
    """Test the boxes of node pair ``k``; writes ``children[k]``.

    Of one body with itself only pairs s <= t are followed, and no leaf meets itself.
    """
    q, s, t = pairs[k, 0], pairs[k, 1], pairs[k, 2]
    below_a, below_b = level_a[q, max(height - 1, 0), COUNT], level_b[q, max(height - 1, 0), COUNT]
    is_apart = _bounds_are_apart(box_a, level_a[q, height, FIRST] + s, box_b, level_b[q, height, FIRST] + t)
    is_apart |= is_self & ((s > t) | ((s == t) & (height == 0)))
    children[k] = pairs_to_visit(height, s, t, below_a, below_b, is_apart)


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
    """Write all outputs of the expansion from ``first`` on, as many as ``source`` has room for."""
    for c in prange(chunk_count):
        expand_chunk(c, start, first, source, child)


@compiled
def locate_pair(k, height, parents, source, child, fan, level_a, pairs):
    """Write node pair ``k``: child number ``child[k]`` of the parent pair in ``source[k]``, those of a first."""
    p = source[k]
    q, s, t = parents[p, 0], np.int64(parents[p, 1]), np.int64(parents[p, 2])
    count_a = child_count(level_a[q, height, COUNT], s, fan)
    pairs[k, 0] = q
    pairs[k, 1] = fan * s + child[k] % count_a
    pairs[k, 2] = fan * t + child[k] // count_a


@kernel()
def locate_and_test_pairs(
    height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children
):
    """Write and test all node pairs of a level in one pass (end of 4.4)."""
    for k in prange(len(pairs)):
        locate_pair(k, height, parents, source, child, fan, level_a, pairs)
        test_pair(k, height, pairs, level_a, box_a, level_b, box_b, is_self, children)
