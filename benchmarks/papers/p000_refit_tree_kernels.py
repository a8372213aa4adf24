"""A binary tree of boxes with a triangle in each leaf: build, refit, and go down two of them; see ``p000_refit_tree``.

Nodes are in preorder. A node of k leaves has 2 k - 1 nodes in its subtree: the children of node i are i + 1
and i + 2 k', where k' counts the leaves of the first; a node is refitted after those behind it.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled


@compiled
def build(centre, order, second, triangle):
    """Split at the middle of the longest side of the box around all centres, in place; halve where that fails."""
    todo = np.zeros((len(order) + 1, 3), dtype=np.int64)
    todo[0, 2] = len(order)
    count = 1
    while count:
        count -= 1
        node, lo, hi = todo[count]
        if hi - lo == 1:
            second[node], triangle[node] = -1, order[lo]
            continue
        axis, middle = longest_side(centre, order, lo, hi)
        mid = part(centre, order, lo, hi, axis, middle)
        if mid in (lo, hi):
            mid = (lo + hi) // 2
        second[node], triangle[node] = node + 2 * (mid - lo), -1
        todo[count, 0], todo[count, 1], todo[count, 2] = node + 1, lo, mid
        todo[count + 1, 0], todo[count + 1, 1], todo[count + 1, 2] = second[node], mid, hi
        count += 2


@compiled
def longest_side(centre, order, lo, hi):
    """The axis along which centres differ most, and the middle between the outermost."""
    best, middle, axis = -1.0, 0.0, 0
    for k in range(3):
        low, high = np.inf, -np.inf
        for i in range(lo, hi):
            low, high = min(low, centre[order[i], k]), max(high, centre[order[i], k])
        if high - low > best:
            best, middle, axis = high - low, 0.5 * (low + high), k
    return axis, middle


@compiled
def part(centre, order, lo, hi, axis, middle):
    """Bring those below the middle to the front; return how far they go."""
    for i in range(lo, hi):
        if centre[order[i], axis] < middle:
            order[i], order[lo] = order[lo], order[i]
            lo += 1
    return lo


@compiled
def refit(x, faces, second, triangle, box):
    """Fit leaves to their triangles and each node to its children."""
    for node in range(len(second) - 1, -1, -1):
        if second[node] < 0:
            p, q, r = faces[triangle[node]]
            for k in range(3):
                box[node, k] = min(x[p, k], x[q, k], x[r, k])
                box[node, 3 + k] = max(x[p, k], x[q, k], x[r, k])
        else:
            one, other = node + 1, second[node]
            for k in range(3):
                box[node, k] = min(box[one, k], box[other, k])
                box[node, 3 + k] = max(box[one, 3 + k], box[other, 3 + k])


@compiled
def overlapping_leaves(a, b, todo, pair_a, pair_b):
    """Pairs of triangles whose boxes overlap; returns how many there are and box tests, writes as many as fit in.

    ``a`` and ``b`` are tuples (box, second, triangle). The larger of two nodes is opened.
    """
    box_a, second_a, triangle_a = a
    box_b, second_b, triangle_b = b
    found, tests, count = 0, 0, 1
    todo[0, 0], todo[0, 1] = 0, 0
    while count:
        count -= 1
        i, j = todo[count]
        tests += 1
        if not overlap(box_a, i, box_b, j):
            continue
        if second_a[i] < 0 and second_b[j] < 0:
            if found < len(pair_a):
                pair_a[found], pair_b[found] = triangle_a[i], triangle_b[j]
            found += 1
            continue
        if second_b[j] < 0 or (second_a[i] >= 0 and size(box_a, i) >= size(box_b, j)):
            todo[count, 0], todo[count, 1] = i + 1, j
            todo[count + 1, 0], todo[count + 1, 1] = second_a[i], j
        else:
            todo[count, 0], todo[count, 1] = i, j + 1
            todo[count + 1, 0], todo[count + 1, 1] = i, second_b[j]
        count += 2
    return found, tests


@compiled
def overlap(box_a, i, box_b, j):
    """Whether two boxes share a point."""
    x = box_a[i, 0] <= box_b[j, 3] and box_b[j, 0] <= box_a[i, 3]
    y = box_a[i, 1] <= box_b[j, 4] and box_b[j, 1] <= box_a[i, 4]
    return x and y and box_a[i, 2] <= box_b[j, 5] and box_b[j, 2] <= box_a[i, 5]


@compiled
def size(box, i):
    """The longest side."""
    return max(box[i, 3] - box[i, 0], box[i, 4] - box[i, 1], box[i, 5] - box[i, 2])
