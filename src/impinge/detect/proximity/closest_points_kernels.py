"""Best-first search of a tree for the triangle nearest to each point; see ``closest_points``."""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.nearest import nearest_boxes, nearest_triangles
from impinge.detect.boxes.whole_tree_kernels import LEAST_PAD, key_within, node_at
from impinge.detect.proximity.features_kernels import closest_on_triangle, mixed
from impinge.exact.orientation import point

BITS = 10
"""Bits per axis of the Morton codes: cells of a thousandth of the bounding box."""
RUN = 64
"""Points per task; each search starts from the triangle of the previous point."""
FARTHEST_ID = np.int64(2**31)


@kernel()
def code_points(points, low, per_unit, codes):
    """Write the Morton code of each point's cell, then, in the low 32 bits, its index."""
    for i in prange(len(points)):
        code = np.int64(0)
        for axis in range(3):
            cell = np.int64((points[i, axis] - low[axis]) * per_unit[axis])
            cell = min(max(cell, 0), (1 << BITS) - 1)
            cell = (cell | cell << 16) & 0x030000FF  # two zeros before each of ten bits
            cell = (cell | cell << 8) & 0x0300F00F
            cell = (cell | cell << 4) & 0x030C30C3
            code |= ((cell | cell << 2) & 0x09249249) << axis
        codes[i] = code << 32 | i


@inlined
def nearest_in_order(
    p, box, corner, start, top, origin, reach, x, order_face, order_tri, near, limit, keys, index, cursor
):
    """Position in tree order of the triangle nearest to p, of several the one with the lowest id; -1 if there is none.

    Only triangles at a squared distance of at most ``limit`` count. ``near`` is a position to start from, -1 for none.
    Each level has an entry on the stack: its open node, the keys of the children in rising order, and the number of
    children visited. Arrays are separate arguments and the loop is not split: unpacking tuples counts references, which
    costs more than the search.
    """
    dx, dy, dz = p[0] - origin[0], p[1] - origin[1], p[2] - origin[2]
    size = reach + max(abs(dx), abs(dy), abs(dz))
    pad = LEAST_PAD * size
    unit = np.float32(math.ldexp(1.0, -math.frexp(size)[1]))
    px, py, pz = np.float32(dx), np.float32(dy), np.float32(dz)
    best, best_tri, best_at = limit, FARTHEST_ID, np.int64(-1)
    if near >= 0:
        a, b, c = order_face[near, 0], order_face[near, 1], order_face[near, 2]
        square = closest_on_triangle(p, point(x, a), point(x, b), point(x, c))[3]
        if square <= best:
            best, best_tri, best_at = square, np.int64(order_tri[near]), near
    farthest = key_within(best, pad)
    level, node = top, np.int64(0)
    while level <= top:
        if level > 0:
            index[level], cursor[level] = node, 0
            nearest_boxes(box, node_at(level, node, start), px, py, pz, px, py, pz, keys, WIDTH * level)
        else:
            nearest_triangles(corner, node, px, py, pz, unit, keys, 0)
            for k in range(WIDTH):
                if keys[k] > farthest:
                    break
                s = WIDTH * node + (keys[k] & (WIDTH - 1))
                if s == near or order_tri[s] < 0:
                    continue
                a, b, c = order_face[s, 0], order_face[s, 1], order_face[s, 2]
                square = closest_on_triangle(p, point(x, a), point(x, b), point(x, c))[3]
                if square < best or (square == best and order_tri[s] < best_tri):
                    best, best_tri, best_at = square, np.int64(order_tri[s]), s
                    farthest = key_within(best, pad)
            level = 1
        while level <= top and (cursor[level] == WIDTH or keys[WIDTH * level + cursor[level]] > farthest):
            level += 1
        if level <= top:
            node = WIDTH * index[level] + (keys[WIDTH * level + cursor[level]] & (WIDTH - 1))
            cursor[level] += 1
            level -= 1
    return best_at


@compiled
def _answer_run(first, end, points, codes, tree, limit, out):
    """Answer the points ``first .. end`` of the Morton order."""
    distance, nearest, triangle, weights = out
    box, corner, start, top, origin, reach, x, order_face, order_tri = tree
    levels = top + 1
    keys, index, cursor = np.empty(WIDTH * levels, np.int32), np.empty(levels, np.int64), np.empty(levels, np.int64)
    near = np.int64(-1)
    for k in range(first, end):
        i = codes[k] & 0xFFFFFFFF
        p = point(points, i)
        at = nearest_in_order(
            p, box, corner, start, top, origin, reach, x, order_face, order_tri, near, limit, keys, index, cursor
        )  # fmt: skip
        if at < 0:
            continue
        near = at
        a, b, c = point(x, order_face[at, 0]), point(x, order_face[at, 1]), point(x, order_face[at, 2])
        u, v, w, square = closest_on_triangle(p, a, b, c)
        distance[i], triangle[i] = np.sqrt(square), order_tri[at]
        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        nearest[i, 0], nearest[i, 1], nearest[i, 2] = mixed(u, a, v, b, w, c)


@kernel(parallel_from=256)
def answer_points(first, end, points, codes, tree, limit, threads, counter, out):
    """Answer the points ``first .. end`` of the Morton order, in runs; rows without an answer stay unchanged."""
    tasks = (end - first + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            begin = first + t * RUN
            _answer_run(begin, min(begin + RUN, end), points, codes, tree, limit, out)
            t = claim(counter)
