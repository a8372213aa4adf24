"""The order of triangles that forms a balanced tree, shared by several detectors.

Node i at height h covers the triangles i·2^h .. (i + 1)·2^h - 1 of the order: a tree needs no pointers, and its levels
have the counts of [GressZachmann2004, 4.1].
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.backend.simd.boxes import WIDTH


@compiled
def _select(order, key, start, end, nth):
    """Quickselect: reorder ``order[start:end]`` such that the entry with rank ``nth`` is in its place."""
    while end - start > 1:
        # The median of three is the pivot; triangle ids break ties of keys: builds are repeatable.
        a, b, c = order[start], order[(start + end) // 2], order[end - 1]
        if (key[b], b) < (key[a], a):
            a, b = b, a
        if (key[c], c) < (key[b], b):
            b = c if (key[a], a) < (key[c], c) else a
        pivot = (key[b], b)
        i, j = start, end - 1
        while i <= j:
            while (key[order[i]], order[i]) < pivot:
                i += 1
            while pivot < (key[order[j]], order[j]):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if nth <= j:
            end = j + 1
        elif nth >= i:
            start = i
        else:
            return


@compiled
def split_by_rank(centre, order, smallest):
    """Order triangles such that every aligned run of 2^h of them is compact, down to runs of ``smallest``.

    ``centre`` has one row per axis, indexed by triangle. The first 2^(h - 1) triangles along the longest axis go left,
    which gives the paper's level counts n(l) = ceil(n(l + 1) / 2).
    """
    n = len(order)
    size = WIDTH
    while size < n:
        size *= 2
    stack = np.zeros((128, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, size
    top = 1
    while top > 0:
        top -= 1
        start, end, size = stack[top, 0], stack[top, 1], stack[top, 2]
        if size <= smallest:
            continue
        half = size // 2
        if end - start > half:
            axis, longest = 0, -1.0
            for k in range(3):
                low, high = np.inf, -np.inf
                for i in range(start, end):
                    low = min(low, centre[k, order[i]])
                    high = max(high, centre[k, order[i]])
                if high - low > longest:
                    axis, longest = k, high - low
            _select(order, centre[axis], start, end, start + half)
            stack[top, 0], stack[top, 1], stack[top, 2] = start + half, end, half
            top += 1
            end = start + half
        stack[top, 0], stack[top, 1], stack[top, 2] = start, end, half
        top += 1
