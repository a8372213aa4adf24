"""Points against the triangles of a tree, nearest boxes first; see ``closest_points``."""

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
"""Bits per axis of the order of points: cells of a thousandth of their box."""
RUN = 64
"""Points that one task answers; each starts from the triangle of the one before."""
FARTHEST_ID = np.int64(2**31)


@compiled
def _spread(cell):
    """Put two zeros before each of ten bits."""
    cell = (cell | cell << 16) & 0x030000FF
    cell = (cell | cell << 8) & 0x0300F00F
    cell = (cell | cell << 4) & 0x030C30C3
    return (cell | cell << 2) & 0x09249249


@kernel()
def code_points(points, low, per_unit, codes):
    """For each point the number of its cell along a curve that stays local (Morton), then its own number."""
    for i in prange(len(points)):
        code = np.int64(0)
        for axis in range(3):
            cell = np.int64((points[i, axis] - low[axis]) * per_unit[axis])
            code |= _spread(min(max(cell, 0), (1 << BITS) - 1)) << axis
        codes[i] = code << 32 | i


@inlined
def nearest_slot(p, box, corner, start, top, origin, reach, x, order_face, order_tri, near, keys, index, cursor):
    """The slot of the triangle that is nearest to p, the one with the lowest id of several; -1 if there is none.

    ``near`` is a slot to start from, -1 if none is known. Each level has a frame: the node that is open there, the
    keys of its children in rising order, and how many of them were looked at. Arrays are passed one by one, and the
    loop is one piece: what takes them out of tuples counts references, which costs more than the search.
    """
    dx, dy, dz = p[0] - origin[0], p[1] - origin[1], p[2] - origin[2]
    size = reach + max(abs(dx), abs(dy), abs(dz))
    pad = LEAST_PAD * size
    unit = np.float32(math.ldexp(1.0, -math.frexp(size)[1]))
    px, py, pz = np.float32(dx), np.float32(dy), np.float32(dz)
    best, best_tri, best_slot = np.inf, FARTHEST_ID, np.int64(-1)
    if near >= 0:
        a, b, c = order_face[near, 0], order_face[near, 1], order_face[near, 2]
        best = closest_on_triangle(p, point(x, a), point(x, b), point(x, c))[3]
        best_tri, best_slot = np.int64(order_tri[near]), near
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
                    best, best_tri, best_slot = square, np.int64(order_tri[s]), s
                    farthest = key_within(best, pad)
            level = 1
        while level <= top and (cursor[level] == WIDTH or keys[WIDTH * level + cursor[level]] > farthest):
            level += 1
        if level <= top:
            node = WIDTH * index[level] + (keys[WIDTH * level + cursor[level]] & (WIDTH - 1))
            cursor[level] += 1
            level -= 1
    return best_slot


@compiled
def _answer_run(first, end, points, codes, tree, out):
    """Answer the points ``first .. end`` of the order."""
    distance, nearest, triangle, weights = out
    box, corner, start, top, origin, reach, x, order_face, order_tri = tree
    levels = top + 1
    keys, index, cursor = np.empty(WIDTH * levels, np.int32), np.empty(levels, np.int64), np.empty(levels, np.int64)
    slot = np.int64(-1)
    for k in range(first, end):
        i = codes[k] & 0xFFFFFFFF
        p = point(points, i)
        slot = nearest_slot(
            p, box, corner, start, top, origin, reach, x, order_face, order_tri, slot, keys, index, cursor
        )  # fmt: skip
        if slot < 0:
            continue
        a, b, c = point(x, order_face[slot, 0]), point(x, order_face[slot, 1]), point(x, order_face[slot, 2])
        u, v, w, square = closest_on_triangle(p, a, b, c)
        distance[i], triangle[i] = np.sqrt(square), order_tri[slot]
        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        nearest[i, 0], nearest[i, 1], nearest[i, 2] = mixed(u, a, v, b, w, c)


@kernel(parallel_from=256)
def answer_points(first, end, points, codes, tree, threads, counter, out):
    """Answer the points ``first .. end`` of the order, in runs; rows without an answer are left as they are."""
    tasks = (end - first + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            begin = first + t * RUN
            _answer_run(begin, min(begin + RUN, end), points, codes, tree, out)
            t = claim(counter)
