"""Fit boxes around vertices, edges and faces, join them, and measure distances; see ``proximity`` for the method.

A layout is (group_start, top_start, lane_id, corner, box, top): the features of one sort, in groups of eight. Block b
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
"""Products below this may have lost digits, and tell nothing."""


# Boxes --------------------------------------------------------------------------------------------------


@compiled
def _fit_group(g, x, layout, origin, half):
    """Fit the boxes of a group, each wider by ``half`` to all sides."""
    _, _, lane_id, corner, box, _ = layout
    for lane in range(WIDTH):
        f = WIDTH * g + lane
        bounds = EMPTY
        if lane_id[f] >= 0 and half == INFINITE:  # beyond float32 nothing can be told apart
            bounds = EVERYWHERE
        elif lane_id[f] >= 0:
            lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = triangle_box(
                x, corner[f, 0], corner[f, 1], corner[f, 2], origin[0], origin[1], origin[2]
            )
            bounds = lo_x - half, lo_y - half, lo_z - half, hi_x + half, hi_y + half, hi_z + half
        for k in range(6):
            box[g, k, lane] = bounds[k]


@compiled
def _fit_tops(b, layout):
    """Fit the boxes of a block's groups."""
    group_start, top_start, _, _, box, top = layout
    first, end = group_start[b], group_start[b + 1]
    for t in range(top_start[b], top_start[b + 1]):
        for lane in range(WIDTH):
            g = first + WIDTH * (t - top_start[b]) + lane
            bounds = node_box(box, g) if g < end else EMPTY
            for k in range(6):
                top[t, k, lane] = bounds[k]


@compiled
def _fit_block(b, x, layout, origin, half):
    for g in range(layout[0][b], layout[0][b + 1]):
        _fit_group(g, x, layout, origin, half)
    _fit_tops(b, layout)


@kernel(parallel_from=16)
def fit_features(blocks, x, vertices, edges, faces, origin, half):
    """Fit the boxes of all features of the given blocks, three layouts, counted from ``origin``."""
    for i in prange(len(blocks)):
        _fit_block(blocks[i], x, vertices, origin, half)
        _fit_block(blocks[i], x, edges, origin, half)
        _fit_block(blocks[i], x, faces, origin, half)


# Join ---------------------------------------------------------------------------------------------------


@compiled
def _is_beyond(least, uu, far_sq):
    """Whether all that lies at least ``least`` / |u| ahead along u is too far away; ``uu`` is the square of |u|."""
    far = far_sq * uu
    return least > 0.0 and far > UNDERFLOW and least * least > far


@compiled
def _is_beside(ac, ab, cd, u, far_sq):
    """Whether segment cd is too far ahead of ab along what is left of u perpendicular to cd; any axis would do."""
    along, square = dot(u, cd), dot(cd, cd)
    w = square * u[0] - along * cd[0], square * u[1] - along * cd[1], square * u[2] - along * cd[2]
    return _is_beyond(dot(ac, w) + min(0.0, dot(cd, w)) - max(0.0, dot(ab, w)), dot(w, w), far_sq)


@compiled
def _is_near_edge(a, b, c, d, margin, far_sq):
    """Whether segments ab and cd are near.

    Most that are not are told by projections: on u, between the midpoints, and perpendicular to either segment.
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
    """Whether a point and triangle abc are near. Most that are not are told by projections on u, towards its centre."""
    pa, pb, pc = minus(a, p), minus(b, p), minus(c, p)
    u = pa[0] + pb[0] + pc[0], pa[1] + pb[1] + pc[1], pa[2] + pb[2] + pc[2]
    if _is_beyond(min(dot(pa, u), dot(pb, u), dot(pc, u)), dot(u, u), far_sq):
        return False
    _, _, _, distance_sq = closest_on_triangle(p, a, b, c)
    return math.sqrt(distance_sq) <= margin


@inlined
def join_lanes(lanes, first_a, first_b, a, b, is_edges, is_self, reach, keys, count):
    """Append the keys of those pairs of features that are near; keys that find no room are counted too."""
    x_a, id_a, corner_a = a[0], a[3], a[4]
    x_b, id_b, corner_b = b[0], b[3], b[4]
    while lanes != 0:
        bit = lowest_bit(lanes)
        lanes &= lanes - ONE
        i, j = first_a + bit // WIDTH, first_b + bit % WIDTH
        if id_a[i] < 0 or id_b[j] < 0:
            continue
        if is_edges and is_self and id_a[i] > id_b[j]:
            i, j = j, i
        u, v = corner_a[i, 0], corner_a[i, 1]
        p, q, r = corner_b[j, 0], corner_b[j, 1], corner_b[j, 2]
        shares_vertex = (u == p) | (u == q) | (u == r) | (v == p) | (v == q)  # without branches; r of an edge is q
        if is_self & shares_vertex:
            continue
        if is_edges:
            is_near = _is_near_edge(point(x_a, u), point(x_a, v), point(x_b, p), point(x_b, q), *reach)
        else:
            is_near = _is_near_face(point(x_a, u), point(x_b, p), point(x_b, q), point(x_b, r), *reach)
        if is_near:
            if count < len(keys):
                keys[count] = (np.uint64(id_a[i]) << HALF_KEY) | np.uint64(id_b[j])
            count += 1
    return count


@inlined
def join_blocks(block_a, block_b, a, b, is_edges, is_self, reach, keys, count):
    """Append the keys of all near features of two blocks; each pair of edges of one body once."""
    _, group_start_a, top_start_a, _, _, box_a, top_a = a
    _, group_start_b, top_start_b, _, _, box_b, top_b = b
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
                count = join_lanes(lanes, WIDTH * g, WIDTH * h, a, b, is_edges, is_self, reach, keys, count)
    return count


@compiled
def join_part(front, first, end, turned, a, b, is_edges, is_self, reach, keys):
    """Keys of a part of the front; returns their number. ``turned`` if a is the front's second column.

    Of one body, pairs of a block with itself are the same either way, and joined once.
    """
    count = np.int64(0)
    for i in range(first, end):
        block_a, block_b = front[i, 0], front[i, 1]
        if turned:
            block_a, block_b = block_b, block_a
        if not (turned and is_self and block_a == block_b):
            count = join_blocks(block_a, block_b, a, b, is_edges, is_self, reach, keys, count)
    return count


@kernel(parallel_from=16)
def join_block_pairs(
    front, edges_a, vertices_a, faces_a, edges_b, vertices_b, faces_b, is_self, reach, threads, counter, keys, counts
):
    """Join the block pairs of the front: edges, vertices of a with faces of b, and vertices of b with faces of a.

    The first third of the tasks are parts of the front for edges, and so on; task t owns row t of ``keys`` and
    ``counts``. Edges, vertices and faces are (x, *layout); ``reach`` is the margin, and the square of a bit more.
    """
    parts = len(keys) // 3
    for _ in prange(threads):
        t = claim(counter)
        while t < 3 * parts:
            part = t % parts
            first, end = part * len(front) // parts, (part + 1) * len(front) // parts
            if t < parts:
                counts[t] = join_part(front, first, end, False, edges_a, edges_b, True, is_self, reach, keys[t])
            elif t < 2 * parts:
                counts[t] = join_part(front, first, end, False, vertices_a, faces_b, False, is_self, reach, keys[t])
            else:
                counts[t] = join_part(front, first, end, True, vertices_b, faces_a, False, is_self, reach, keys[t])
            t = claim(counter)


# Distances ----------------------------------------------------------------------------------------------


@inlined
def _measure_vertex(x, v, other, faces, f, i, distance, weights):
    p, q, r = point(other, faces[f, 0]), point(other, faces[f, 1]), point(other, faces[f, 2])
    weights[i, 0], weights[i, 1], weights[i, 2], distance_sq = closest_on_triangle(point(x, v), p, q, r)
    distance[i] = math.sqrt(distance_sq)


@inlined
def _measure_edge(x_a, edges_a, e, x_b, edges_b, f, i, distance, weights):
    a, b = point(x_a, edges_a[e, 0]), point(x_a, edges_a[e, 1])
    c, d = point(x_b, edges_b[f, 0]), point(x_b, edges_b[f, 1])
    weights[i, 0], weights[i, 1], distance_sq = closest_on_segments(a, b, c, d)
    distance[i] = math.sqrt(distance_sq)


@kernel(parallel_from=1024)
def measure_pairs(a, b, vertex_face, face_vertex, edge_edge):
    """Distances and weights of all pairs. A body is (x, faces, edges); each sort is (pairs, distance, weights)."""
    x_a, faces_a, edges_a = a
    x_b, faces_b, edges_b = b
    first = len(vertex_face[0])
    second = first + len(face_vertex[0])
    for k in prange(second + len(edge_edge[0])):
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
