"""Fit boxes around moving features, join them, and decide about the candidates; see ``sweep`` for the method.

A layout is (group_start, top_start, lane_id, corner, box, top): the features of one kind, in groups of eight, as in
``proximity_kernels``. Boxes move: node 2 g of ``box`` has those of group g at the start, node 2 g + 1 those at the end;
likewise the nodes of ``top``, and those of the trees above.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, node_box, passing_mask, triangle_box, vertices_box
from impinge.detect.boxes.tree_kernels import BLOCK, EMPTY
from impinge.detect.continuous.separation_kernels import separation_walk
from impinge.exact.impact_walk import (
    HIT,
    MISS,
    edge_edge_walk,
    narrow_edge_edge,
    narrow_vertex_face,
    vertex_face_walk,
)
from impinge.exact.orientation import point

ONE = np.uint64(1)
HALF_KEY = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
INFINITE = np.float32(np.inf)
EVERYWHERE = (-INFINITE,) * 3 + (INFINITE,) * 3
VERTEX_FACE, FACE_VERTEX, EDGE_EDGE = 0, 1, 2
"""Kinds of pairs; the first feature is of a."""
OPEN = -1.0
"""Instead of the end of a time interval: doubles cannot decide about the pair."""


# Boxes --------------------------------------------------------------------------------------------------


@kernel(parallel_from=64)
def fit_moving_blocks(block_count, start, end, vertex_start, vertex, pad, box):
    """Fit the boxes around the vertices of blocks at both ends of the motion, enlarged by ``pad``."""
    for b in prange(block_count):
        before = vertices_box(start, vertex, vertex_start[b], vertex_start[b + 1])
        after = vertices_box(end, vertex, vertex_start[b], vertex_start[b + 1])
        for k in range(3):
            box[2 * (b // WIDTH), k, b % WIDTH] = before[k] - pad
            box[2 * (b // WIDTH), 3 + k, b % WIDTH] = before[3 + k] + pad
            box[2 * (b // WIDTH) + 1, k, b % WIDTH] = after[k] - pad
            box[2 * (b // WIDTH) + 1, 3 + k, b % WIDTH] = after[3 + k] + pad


@compiled
def fit_moving_levels(box, level_start):
    """Fit the levels above the blocks, bottom-up; few nodes, so serial."""
    for level in range(1, len(level_start) - 1):
        for child in range(level_start[level - 1], level_start[level]):
            i = child - level_start[level - 1]
            for end in range(2):
                bounds = node_box(box, 2 * child + end)
                for k in range(6):
                    box[2 * (level_start[level] + i // WIDTH) + end, k, i % WIDTH] = bounds[k]


@compiled
def _fit_end(first, last, end, x, lane_id, corner, origin, pad, box):
    """Fit the boxes of the features of groups ``first`` to ``last`` at one end of the motion."""
    ox, oy, oz = origin[0], origin[1], origin[2]
    for g in range(first, last):
        for lane in range(WIDTH):
            f = WIDTH * g + lane
            bounds = EMPTY
            if lane_id[f] >= 0 and pad == INFINITE:  # beyond the range of float32 no box can exclude anything
                bounds = EVERYWHERE
            elif lane_id[f] >= 0:
                low_x, low_y, low_z, high_x, high_y, high_z = triangle_box(
                    x, corner[f, 0], corner[f, 1], corner[f, 2], ox, oy, oz
                )
                bounds = low_x - pad, low_y - pad, low_z - pad, high_x + pad, high_y + pad, high_z + pad
            for k in range(6):
                box[2 * g + end, k, lane] = bounds[k]


@compiled
def _fit_block(b, start, end, layout, origins, pad):
    """Fit the boxes of a block's features at both ends, each enlarged by ``pad``, then those of its groups."""
    group_start, top_start, lane_id, corner, box, top = layout
    first, last = group_start[b], group_start[b + 1]
    _fit_end(first, last, 0, start, lane_id, corner, origins[0], pad, box)
    _fit_end(first, last, 1, end, lane_id, corner, origins[1], pad, box)
    for t in range(top_start[b], top_start[b + 1]):
        for lane in range(WIDTH):
            g = first + WIDTH * (t - top_start[b]) + lane
            for at in range(2):
                bounds = node_box(box, 2 * g + at) if g < last else EMPTY
                for k in range(6):
                    top[2 * t + at, k, lane] = bounds[k]


@kernel(parallel_from=16)
def fit_moving_features(blocks, start, end, vertices, edges, faces, origins, pad):
    """Fit the boxes of all features of the given blocks, three layouts, relative to an origin at each end."""
    for i in prange(len(blocks)):
        _fit_block(blocks[i], start, end, vertices, origins, pad)
        _fit_block(blocks[i], start, end, edges, origins, pad)
        _fit_block(blocks[i], start, end, faces, origins, pad)


# Block pairs --------------------------------------------------------------------------------------------


@compiled
def find_passing_blocks(box_a, level_start_a, box_b, level_start_b, is_self, block_pairs):
    """Write the pairs of blocks that may meet; returns their number, which may exceed ``len(block_pairs)``.

    Trees have equally many levels. Of one tree, each pair of blocks is found once, the lower block first.
    """
    stack = np.empty((len(level_start_a) * BLOCK, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = len(level_start_a) - 2, 0, 0
    top = 1
    count = np.int64(0)
    while top > 0:
        top -= 1
        level, a, b = stack[top, 0], stack[top, 1], stack[top, 2]
        node_a, node_b = level_start_a[level] + a, level_start_b[level] + b
        for i in range(WIDTH):
            mask = passing_mask(box_a, node_a, i, box_b, node_b)
            while mask != 0:
                j = lowest_bit(mask)
                mask &= mask - ONE
                if is_self and a == b and j < i:
                    continue
                child_a, child_b = WIDTH * a + i, WIDTH * b + j
                if level > 0:
                    stack[top, 0], stack[top, 1], stack[top, 2] = level - 1, child_a, child_b
                    top += 1
                else:
                    if count < len(block_pairs):
                        block_pairs[count, 0], block_pairs[count, 1] = child_a, child_b
                    count += 1
    return count


# Join ---------------------------------------------------------------------------------------------------


@inlined
def _walk_edges(a, v, w, b, p, q, margin):
    """Verdict and times of edges vw of a and pq of b."""
    x_a, y_a, x_b, y_b = a[0], a[1], b[0], b[1]
    starts = point(x_a, v), point(x_a, w), point(x_b, p), point(x_b, q)
    ends = point(y_a, v), point(y_a, w), point(y_b, p), point(y_b, q)
    if margin is None:
        return edge_edge_walk(*starts, *ends)
    return separation_walk(True, starts, ends, margin)


@inlined
def _walk_face(a, v, b, p, q, r, margin):
    """Verdict and times of vertex v of a and face pqr of b."""
    x_a, y_a, x_b, y_b = a[0], a[1], b[0], b[1]
    starts = point(x_a, v), point(x_b, p), point(x_b, q), point(x_b, r)
    ends = point(y_a, v), point(y_b, p), point(y_b, q), point(y_b, r)
    if margin is None:
        return vertex_face_walk(*starts, *ends)
    return separation_walk(False, starts, ends, margin)


@inlined
def _join_blocks(block_a, block_b, a, b, is_edges, is_self, margin, limit, keys, span, state):
    """Append all pairs of features of two blocks that meet, or may meet; each pair of edges of one body once.

    ``state`` is the number of pairs found, of tests, and the time up to which impacts count. Pairs beyond the room in
    ``keys`` are counted only. With ``limit[1]`` every impact found ends the time that counts, if it is after
    ``limit[2]``.
    """
    group_start_a, top_start_a, id_a, corner_a, box_a, top_a = a[2:]
    group_start_b, top_start_b, id_b, corner_b, box_b, top_b = b[2:]
    found, tests, until = state
    once = is_edges and is_self and block_a == block_b
    first_a, first_b = group_start_a[block_a], group_start_b[block_b]
    for g in range(first_a, group_start_a[block_a + 1]):
        t, lane_a = top_start_a[block_a] + (g - first_a) // WIDTH, (g - first_a) % WIDTH
        for u in range(top_start_b[block_b], top_start_b[block_b + 1]):
            groups = passing_mask(top_a, t, lane_a, top_b, u)
            while groups != 0:
                lane_b = lowest_bit(groups)
                groups &= groups - ONE
                h = first_b + WIDTH * (u - top_start_b[block_b]) + lane_b
                if (once and h < g) or h >= group_start_b[block_b + 1]:
                    continue
                lanes = passing_mask(top_b, u, lane_b, box_a, g)
                while lanes != 0:
                    lane = lowest_bit(lanes)
                    lanes &= lanes - ONE
                    others = passing_mask(box_a, g, lane, box_b, h)
                    while others != 0:
                        i, j = WIDTH * g + lane, WIDTH * h + lowest_bit(others)
                        others &= others - ONE
                        if (once and j <= i) or id_a[i] < 0 or id_b[j] < 0:
                            continue
                        if is_edges and is_self and id_a[i] > id_b[j]:
                            i, j = j, i
                        v, w = corner_a[i, 0], corner_a[i, 1]
                        p, q, r = corner_b[j, 0], corner_b[j, 1], corner_b[j, 2]
                        if is_self & ((v == p) | (v == q) | (v == r) | (w == p) | (w == q)):  # r of an edge is q
                            continue
                        tests += 1
                        if is_edges:
                            verdict, lo, hi = _walk_edges(a, v, w, b, p, q, margin)
                        else:
                            verdict, lo, hi = _walk_face(a, v, b, p, q, r, margin)
                        if verdict == MISS or lo > until:
                            continue
                        if limit[1] and verdict == HIT and hi > limit[2]:
                            until = min(until, hi)
                        if found < len(keys):
                            keys[found] = (np.uint64(id_a[i]) << HALF_KEY) | np.uint64(id_b[j])
                            span[found, 0], span[found, 1] = lo, hi if verdict == HIT else OPEN
                        found += 1
    return found, tests, until


@compiled
def join_range(pairs, swapped, a, b, is_edges, is_self, margin, limit, keys, span):
    """Write the pairs of features of block pairs that meet or may meet; returns their number and that of tests.

    ``swapped``: a is the second column. Pairs of a block with itself are equal in either order and joined once.
    """
    state = np.int64(0), np.int64(0), limit[0]
    for i in range(len(pairs)):
        block_a, block_b = (pairs[i, 1], pairs[i, 0]) if swapped else (pairs[i, 0], pairs[i, 1])
        if not (swapped and is_self and block_a == block_b):
            state = _join_blocks(block_a, block_b, a, b, is_edges, is_self, margin, limit, keys, span, state)
    return state[0], state[1]


@kernel(parallel_from=16)
def join_passing_blocks(
    pairs, edges_a, vertices_a, faces_a, edges_b, vertices_b, faces_b, is_self, margin, limit, threads, counter, keys,
    span, counts,
):  # fmt: skip
    """Join block pairs: edges, vertices of a with faces of b, and vertices of b with faces of a.

    The first third of the tasks are ranges of block pairs for edges, and so on; task t owns row t of ``keys``, ``span``
    and ``counts``. Edges, vertices and faces are (start, end, *layout). ``margin`` is None for impacts. ``limit`` is
    the time up to which impacts count, whether the first one of a task ends it, and the time after which it does.
    """
    ranges = len(keys) // 3
    for _ in prange(threads):
        t = claim(counter)
        while t < 3 * ranges:
            r = t % ranges
            part = pairs[r * len(pairs) // ranges : (r + 1) * len(pairs) // ranges]
            if t < ranges:
                counts[t] = join_range(part, False, edges_a, edges_b, True, is_self, margin, limit, keys[t], span[t])
            elif t < 2 * ranges:
                counts[t] = join_range(
                    part, False, vertices_a, faces_b, False, is_self, margin, limit, keys[t], span[t]
                )
            else:
                counts[t] = join_range(part, True, vertices_b, faces_a, False, is_self, margin, limit, keys[t], span[t])
            t = claim(counter)


# Times --------------------------------------------------------------------------------------------------


@inlined
def four_points(kind, v, x_a, x_b):
    """The points of a pair of features with vertices ``v``, in the order of the walks: the vertex before the face."""
    if kind == VERTEX_FACE:
        return point(x_a, v[0]), point(x_b, v[1]), point(x_b, v[2]), point(x_b, v[3])
    if kind == FACE_VERTEX:
        return point(x_b, v[3]), point(x_a, v[0]), point(x_a, v[1]), point(x_a, v[2])
    return point(x_a, v[0]), point(x_a, v[1]), point(x_b, v[2]), point(x_b, v[3])


@kernel(parallel_from=256)
def narrow_times(kind, vertices, start_a, end_a, start_b, end_b, width, span, is_open):
    """Narrow the times of all rows in doubles; where these do not suffice, the row stays or becomes open."""
    for i in prange(len(kind)):
        if span[i, 1] != OPEN:
            starts = four_points(kind[i], vertices[i], start_a, start_b)
            ends = four_points(kind[i], vertices[i], end_a, end_b)
            if kind[i] == EDGE_EDGE:
                lo, hi, is_narrow = narrow_edge_edge(*starts, *ends, span[i, 0], span[i, 1], width)
            else:
                lo, hi, is_narrow = narrow_vertex_face(*starts, *ends, span[i, 0], span[i, 1], width)
            span[i, 0], span[i, 1], is_open[i] = lo, hi, not is_narrow


@kernel(parallel_from=1024)
def gather_points(rows, kind, vertices, start_a, end_a, start_b, end_b, before, after):
    """Write the points of rows at both ends of the motion, shape (n, 4, 3), for the exact test."""
    for i in prange(len(rows)):
        k = rows[i]
        starts, ends = (
            four_points(kind[k], vertices[k], start_a, start_b),
            four_points(kind[k], vertices[k], end_a, end_b),
        )
        for j in range(4):
            for axis in range(3):
                before[i, j, axis], after[i, j, axis] = starts[j][axis], ends[j][axis]
