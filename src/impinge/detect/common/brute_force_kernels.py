"""Every box against every box: count, then fill."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange


@compiled
def fit_triangle_box(i, x, faces, ids, box):
    """Fit the smallest box around triangle ``ids[i]``; writes column ``i`` of ``box`` (lo xyz, hi xyz)."""
    t = ids[i]
    for k in range(3):
        p, q, r = x[faces[t, 0], k], x[faces[t, 1], k], x[faces[t, 2], k]
        box[k, i] = min(p, q, r)
        box[3 + k, i] = max(p, q, r)


@kernel()
def fit_triangle_boxes(x, faces, ids, box):
    """Fit a box around each triangle of ``ids``."""
    for i in prange(len(ids)):
        fit_triangle_box(i, x, faces, ids, box)


@compiled
def _overlaps(box_a, i, box_b, j):
    """Closed boxes: touching counts. Without branches: the loop over j vectorises."""
    return (
        (box_b[0, j] <= box_a[3, i])
        & (box_b[3, j] >= box_a[0, i])
        & (box_b[1, j] <= box_a[4, i])
        & (box_b[4, j] >= box_a[1, i])
        & (box_b[2, j] <= box_a[5, i])
        & (box_b[5, j] >= box_a[2, i])
    )


@kernel(parallel_from=16)
def count_overlaps(box_a, box_b, is_self, count):
    """How many boxes of b each box of a meets (in self-collision: later ones only)."""
    for i in prange(len(count)):
        total = np.int64(0)
        for j in range(i + 1 if is_self else 0, box_b.shape[1]):
            total += _overlaps(box_a, i, box_b, j)
        count[i] = total


@kernel(parallel_from=16)
def fill_overlaps(box_a, box_b, is_self, first, last, start, ids_a, ids_b, pair_a, pair_b):
    """Write the candidates of rows ``first`` .. ``last - 1``; the same loop as the count."""
    for i in prange(first, last):
        k = start[i] - start[first]
        end = start[i + 1] - start[first]
        j = i + 1 if is_self else 0
        while k < end:
            if _overlaps(box_a, i, box_b, j):
                pair_a[k] = ids_a[i]
                pair_b[k] = ids_b[j]
                k += 1
            j += 1
