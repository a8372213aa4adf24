"""Fit boxes around vertices, edges and faces, join them, and measure distances; see ``proximity`` for the method.

A layout is (group_start, top_start, lane_id, corner, box, top): the features of one kind, in groups of eight. Block b
has the groups ``group_start[b]`` to ``group_start[b + 1]``; group g has the lanes 8 g to 8 g + 7 with their ids (-1:
none) and corners (a vertex three times, an edge with its second vertex twice), and its boxes in node g of ``box``.
The boxes of a block's groups are in the nodes ``top_start[b]`` to ``top_start[b + 1]`` of ``top``.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, node_box, overlap_square, triangle_box
from impinge.detect.boxes.tree_kernels import EMPTY
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle, dot, minus
from impinge.exact.orientation import point

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
FROM_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i, WIDTH)))
"""Of a node with itself: pairs (i, j) of children with i <= j."""
ABOVE_DIAGONAL = np.uint64(sum(1 << (WIDTH * i + j) for i in range(WIDTH) for j in range(i + 1, WIDTH)))
INFINITE = np.float32(np.inf)
EVERYWHERE = (-INFINITE,) * 3 + (INFINITE,) * 3
HALF_KEY = np.uint64(32)
UNDERFLOW = 1e-290
"""Products below this may have lost digits and prove nothing."""


# Boxes --------------------------------------------------------------------------------------------------


@compiled
def _fit_block(b, x, layout, origin, half):
    """Fit the boxes of a block's features, each enlarged by ``half`` to all sides, then those of its groups."""
    group_start, top_start, lane_id, corner, box, top = layout
    first, end = group_start[b], group_start[b + 1]
    for g in range(first, end):
        for lane in range(WIDTH):
            f = WIDTH * g + lane
            bounds = EMPTY
            if lane_id[f] >= 0 and half == INFINITE:  # beyond the range of float32 no box can exclude anything
                bounds = EVERYWHERE
            elif lane_id[f] >= 0:
                lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = triangle_box(
                    x, corner[f, 0], corner[f, 1], corner[f, 2], origin[0], origin[1], origin[2]
                )
                bounds = lo_x - half, lo_y - half, lo_z - half, hi_x + half, hi_y + half, hi_z + half
            for k in range(6):
                box[g, k, lane] = bounds[k]
    for t in range(top_start[b], top_start[b + 1]):
        for lane in range(WIDTH):
            g = first + WIDTH * (t - top_start[b]) + lane
            bounds = node_box(box, g) if g < end else EMPTY
            for k in range(6):
                top[t, k, lane] = bounds[k]


@kernel(parallel_from=16)
def fit_features(blocks, x, vertices, edges, faces, origin, half):
    """Fit the boxes of all features of the given blocks, three layouts, relative to ``origin``."""
    for i in prange(len(blocks)):
        _fit_block(blocks[i], x, vertices, origin, half)
        _fit_block(blocks[i], x, edges, origin, half)
        _fit_block(blocks[i], x, faces, origin, half)


# Join ---------------------------------------------------------------------------------------------------


@compiled
def _is_beyond(least, uu, far_sq):
    """Whether a gap of ``least`` / |u| along u exceeds the limit; ``uu`` is the square of |u|."""
    far = far_sq * uu
    return least > 0.0 and far > UNDERFLOW and least * least > far


@compiled
def _is_beside(ac, ab, cd, u, far_sq):
    """Whether the gap between segments ab and cd along the component of u perpendicular to cd exceeds the limit."""
    along, square = dot(u, cd), dot(cd, cd)
    w = square * u[0] - along * cd[0], square * u[1] - along * cd[1], square * u[2] - along * cd[2]
    return _is_beyond(dot(ac, w) + min(0.0, dot(cd, w)) - max(0.0, dot(ab, w)), dot(w, w), far_sq)


@compiled
def _is_near_edge(a, b, c, d, margin, far_sq):
    """Whether segments ab and cd are near.

    Projections reject most others: on u, between the midpoints, and perpendicular to either segment.
    """
    ac, ab, cd = minus(c, a), minus(b, a), minus(d, c)
    u = ac[0] + 0.5 * (cd[0] - ab[0]), ac[1] + 0.5 * (cd[1] - ab[1]), ac[2] + 0.5 * (cd[2] - ab[2])
    uu = dot(u, u)
    if _is_beyond(uu - 0.5 * (abs(dot(ab, u)) + abs(dot(cd, u))), uu, far_sq):
        return False
    ca = minus(a, c)
    if _is_beside(ac, ab, cd, u, far_sq) or _is_beside(ca, cd, ab, ca, far_sq):
        return False
    _, _, distance_sq = closest_on_segments(a, b, c, d)
    return math.sqrt(distance_sq) <= margin


@compiled
def _is_near_face(p, a, b, c, margin, far_sq):
    """Whether a point and triangle abc are near; projections on u, towards its centre, reject most others."""
    pa, pb, pc = minus(a, p), minus(b, p), minus(c, p)
    u = pa[0] + pb[0] + pc[0], pa[1] + pb[1] + pc[1], pa[2] + pb[2] + pc[2]
    if _is_beyond(min(dot(pa, u), dot(pb, u), dot(pc, u)), dot(u, u), far_sq):
        return False
    _, _, _, distance_sq = closest_on_triangle(p, a, b, c)
    return math.sqrt(distance_sq) <= margin


@inlined
def join_blocks(block_a, block_b, a, b, is_edges, is_self, reach, keys, count):
    """Append the keys of all near features of two blocks; each pair of edges of one body once.

    Keys beyond the room in ``keys`` are counted only.
    """
    x_a, group_start_a, top_start_a, id_a, corner_a, box_a, top_a = a
    x_b, group_start_b, top_start_b, id_b, corner_b, box_b, top_b = b
    once = is_edges and is_self and block_a == block_b
    for t in range(top_start_a[block_a], top_start_a[block_a + 1]):
        for u in range(t if once else top_start_b[block_b], top_start_b[block_b + 1]):
            groups = overlap_square(top_a, t, top_b, u) & (FROM_DIAGONAL if once and t == u else ALL)
            first_a = group_start_a[block_a] + WIDTH * (t - top_start_a[block_a])
            first_b = group_start_b[block_b] + WIDTH * (u - top_start_b[block_b])
            while groups != 0:
                bit = lowest_bit(groups)
                groups &= groups - ONE
                g, h = first_a + bit // WIDTH, first_b + bit % WIDTH
                if g >= group_start_a[block_a + 1] or h >= group_start_b[block_b + 1]:
                    continue
                lanes = overlap_square(box_a, g, box_b, h) & (ABOVE_DIAGONAL if once and g == h else ALL)
                while lanes != 0:
                    bit = lowest_bit(lanes)
                    lanes &= lanes - ONE
                    i, j = WIDTH * g + bit // WIDTH, WIDTH * h + bit % WIDTH
                    if id_a[i] < 0 or id_b[j] < 0:
                        continue
                    if is_edges and is_self and id_a[i] > id_b[j]:
                        i, j = j, i
                    v, w = corner_a[i, 0], corner_a[i, 1]
                    p, q, r = corner_b[j, 0], corner_b[j, 1], corner_b[j, 2]
                    if is_self & ((v == p) | (v == q) | (v == r) | (w == p) | (w == q)):  # r of an edge is q
                        continue
                    if is_edges:
                        is_near = _is_near_edge(point(x_a, v), point(x_a, w), point(x_b, p), point(x_b, q), *reach)
                    else:
                        is_near = _is_near_face(point(x_a, v), point(x_b, p), point(x_b, q), point(x_b, r), *reach)
                    if is_near:
                        if count < len(keys):
                            keys[count] = (np.uint64(id_a[i]) << HALF_KEY) | np.uint64(id_b[j])
                        count += 1
    return count


@compiled
def join_range(pairs, swapped, a, b, is_edges, is_self, reach, keys):
    """Write the keys of near features of block pairs; returns their number. ``swapped``: a is the second column.

    Pairs of a block with itself are equal in either order and joined once.
    """
    count = np.int64(0)
    for i in range(len(pairs)):
        block_a, block_b = (pairs[i, 1], pairs[i, 0]) if swapped else (pairs[i, 0], pairs[i, 1])
        if not (swapped and is_self and block_a == block_b):
            count = join_blocks(block_a, block_b, a, b, is_edges, is_self, reach, keys, count)
    return count


@kernel(parallel_from=16)
def join_block_pairs(
    pairs, edges_a, vertices_a, faces_a, edges_b, vertices_b, faces_b, is_self, reach, threads, counter, keys, counts
):
    """Join block pairs: edges, vertices of a with faces of b, and vertices of b with faces of a.

    The first third of the tasks are ranges of block pairs for edges, and so on; task t owns row t of ``keys`` and
    ``counts``. Edges, vertices and faces are (x, *layout); ``reach`` is the margin, and the square of a larger one.
    """
    ranges = len(keys) // 3
    for _ in prange(threads):
        t = claim(counter)
        while t < 3 * ranges:
            r = t % ranges
            part = pairs[r * len(pairs) // ranges : (r + 1) * len(pairs) // ranges]
            if t < ranges:
                counts[t] = join_range(part, False, edges_a, edges_b, True, is_self, reach, keys[t])
            elif t < 2 * ranges:
                counts[t] = join_range(part, False, vertices_a, faces_b, False, is_self, reach, keys[t])
            else:
                counts[t] = join_range(part, True, vertices_b, faces_a, False, is_self, reach, keys[t])
            t = claim(counter)


# Distances ----------------------------------------------------------------------------------------------


@inlined
def _measure_vertex(x, v, other, faces, f, i, distance, weights):
    """Distance and weights of a vertex and a face."""
    p, q, r = point(other, faces[f, 0]), point(other, faces[f, 1]), point(other, faces[f, 2])
    weights[i, 0], weights[i, 1], weights[i, 2], distance_sq = closest_on_triangle(point(x, v), p, q, r)
    distance[i] = math.sqrt(distance_sq)


@inlined
def _measure_edge(x_a, edges_a, e, x_b, edges_b, f, i, distance, weights):
    """Distance and parameters of two edges."""
    a, b = point(x_a, edges_a[e, 0]), point(x_a, edges_a[e, 1])
    c, d = point(x_b, edges_b[f, 0]), point(x_b, edges_b[f, 1])
    weights[i, 0], weights[i, 1], distance_sq = closest_on_segments(a, b, c, d)
    distance[i] = math.sqrt(distance_sq)


@kernel(parallel_from=1024)
def measure_pairs(a, b, vertex_face, face_vertex, edge_edge):
    """Distances and weights of all pairs. A body is (x, faces, edges); each kind is (pairs, distance, weights)."""
    x_a, faces_a, edges_a = a
    x_b, faces_b, edges_b = b
    first = len(vertex_face[0])
    second = first + len(face_vertex[0])
    for k in prange(second + len(edge_edge[0])):  # in helpers: inline stores of the last branch were lost in parallel
        if k < first:
            pairs, distance, weights = vertex_face
            _measure_vertex(x_a, pairs[k, 0], x_b, faces_b, pairs[k, 1], k, distance, weights)
        elif k < second:
            pairs, distance, weights = face_vertex
            i = k - first
            _measure_vertex(x_b, pairs[i, 1], x_a, faces_a, pairs[i, 0], i, distance, weights)
        else:
            pairs, distance, weights = edge_edge
            i = k - second
            _measure_edge(x_a, edges_a, pairs[i, 0], x_b, edges_b, pairs[i, 1], i, distance, weights)
