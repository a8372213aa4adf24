"""Cut triangles into blocks and fit boxes around them; see ``tree`` for the layout."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd.boxes import WIDTH, node_box, triangle_box, vertices_box

BLOCK = WIDTH * WIDTH
"""Triangles per block: eight groups of eight triangles."""
INTERIOR = 1 + WIDTH
"""Nodes of a block interior: one with the boxes of its groups, then one per group with the boxes of triangles."""
EMPTY = (np.float32(np.inf),) * 3 + (np.float32(-np.inf),) * 3


@compiled
def list_block_vertices(order_face, order_tri, first, end, seen_in, stamp, start, vertex):
    """Write the distinct vertices of blocks ``first`` to ``end`` to ``vertex``, and their starts.

    ``seen_in`` holds the last block of each vertex, numbered from ``stamp`` over all calls.
    """
    count = start[first]
    for b in range(first, end):
        start[b] = count
        for s in range(b * BLOCK, (b + 1) * BLOCK):
            if order_tri[s] >= 0:
                for k in range(3):
                    v = order_face[s, k]
                    if seen_in[v] != stamp + b - first:
                        seen_in[v] = stamp + b - first
                        vertex[count] = v
                        count += 1
    start[end] = count


@compiled
def fit_block(b, tree):
    """Fit the box around the vertices of block ``b``; writes its lane of the lowest level."""
    x, vertex_start, vertex, box, _ = tree
    bounds = vertices_box(x, vertex, vertex_start[b], vertex_start[b + 1])
    for k in range(6):
        box[b // WIDTH, k, b % WIDTH] = bounds[k]


@kernel(parallel_from=64)
def fit_blocks(count_a, tree_a, count_b, tree_b):
    """Fit the boxes of the first blocks of two trees in one launch; a count of 0 skips a tree.

    A tree is (x, vertex_start, vertex, box, level_start) here.
    """
    for i in prange(count_a + count_b):
        if i < count_a:
            fit_block(i, tree_a)
        else:
            fit_block(i - count_a, tree_b)


@compiled
def fit_upper_levels(box, level_start):
    """Fit the levels above the blocks, bottom-up; few nodes, so serial. Returns the blocks' area over the body's."""
    for level in range(1, len(level_start) - 1):
        for child in range(level_start[level - 1], level_start[level]):
            i = child - level_start[level - 1]
            bounds = node_box(box, child)
            for k in range(6):
                box[level_start[level] + i // WIDTH, k, i % WIDTH] = bounds[k]
    area = 0.0
    for node in range(level_start[1]):
        for lane in range(WIDTH):
            area += _lane_area(box, node, lane)
    whole = _lane_area(box, level_start[len(level_start) - 2], 0)
    return area / whole if whole > 0.0 else 0.0


@compiled
def _lane_area(box, node, lane):
    """Half the surface of a box; an empty one has none."""
    dx = box[node, 3, lane] - box[node, 0, lane]
    dy = box[node, 4, lane] - box[node, 1, lane]
    dz = box[node, 5, lane] - box[node, 2, lane]
    return dx * dy + dy * dz + dz * dx if dx >= 0.0 else 0.0


@compiled
def fit_interior(b, order, origin, interior, first):
    """Fit the boxes of all groups and triangles of block ``b``; an empty place has an empty box.

    They are written to the nodes of ``interior`` from ``first`` on, as float32 relative to ``origin``. ``order`` is (x,
    order_face, order_tri). Subtraction and rounding preserve the order of numbers: no overlap is lost.
    """
    x, order_face, order_tri = order
    ox, oy, oz = origin[0], origin[1], origin[2]
    for g in range(WIDTH):
        node = first + 1 + g
        for lane in range(WIDTH):
            s = b * BLOCK + g * WIDTH + lane
            if order_tri[s] >= 0:
                bounds = triangle_box(x, order_face[s, 0], order_face[s, 1], order_face[s, 2], ox, oy, oz)
            else:
                bounds = EMPTY
            for k in range(6):
                interior[node, k, lane] = bounds[k]
    for g in range(WIDTH):  # a separate loop: reading a vector just after writing its lanes stalls
        bounds = node_box(interior, first + 1 + g)
        for k in range(6):
            interior[first, k, g] = bounds[k]


@kernel(parallel_from=16)
def fit_all_interiors(block_count, order, origin, interior):
    """Fit all block interiors; block b has the nodes from ``INTERIOR * b`` on."""
    for b in prange(block_count):
        fit_interior(b, order, origin, interior, INTERIOR * b)
