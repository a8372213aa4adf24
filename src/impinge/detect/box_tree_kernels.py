"""Build, refit and join trees of boxes; see ``box_tree`` for the method and the layout."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd import WIDTH, lowest_bit, overlap_mask
from impinge.detect.narrow_phase_kernels import face
from impinge.detect.pair_query_kernels import key_kind, pair_key
from impinge.exact.kinds import NONE
from impinge.exact.neighbours import neighbours_filtered, shared_count
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import error_bound, triangle_triangle_filtered

BLOCK = WIDTH * WIDTH
"""Triangles per block: a node of eight groups of eight triangles."""
GROUPS, BLOCKS = 0, 1
"""Levels: nodes of level 0 hold boxes of triangles, those of level 1 boxes of groups, those of level 2 of blocks."""


# Build ------------------------------------------------------------------------------------------------


@compiled
def list_block_vertices(slot_face, slot_tri, vertex_count, start, vertex):
    """Write the distinct vertices of each block to ``vertex`` and where they start; return how many there are."""
    seen_in = np.full(vertex_count, -1, np.int64)
    count = np.int64(0)
    for b in range(len(start) - 1):
        start[b] = count
        for s in range(b * BLOCK, (b + 1) * BLOCK):
            if slot_tri[s] >= 0:
                for k in range(3):
                    v = slot_face[s, k]
                    if seen_in[v] != b:
                        seen_in[v] = b
                        vertex[count] = v
                        count += 1
    start[len(start) - 1] = count
    return count


# Refit ------------------------------------------------------------------------------------------------


@compiled
def fit_block(b, tree):
    """Fit the box around the vertices of block ``b``; writes its lane of the level above the blocks."""
    x, vertex_start, vertex, box, level_start = tree
    lo_x = lo_y = lo_z = np.inf
    hi_x = hi_y = hi_z = -np.inf
    for i in range(vertex_start[b], vertex_start[b + 1]):
        v = vertex[i]
        lo_x, hi_x = min(lo_x, x[v, 0]), max(hi_x, x[v, 0])
        lo_y, hi_y = min(lo_y, x[v, 1]), max(hi_y, x[v, 1])
        lo_z, hi_z = min(lo_z, x[v, 2]), max(hi_z, x[v, 2])
    node, lane = level_start[BLOCKS + 1] + b // WIDTH, b % WIDTH
    box[node, 0, lane], box[node, 3, lane] = lo_x, hi_x
    box[node, 1, lane], box[node, 4, lane] = lo_y, hi_y
    box[node, 2, lane], box[node, 5, lane] = lo_z, hi_z


@kernel(parallel_from=64)
def fit_blocks(count_a, tree_a, count_b, tree_b):
    """Fit the boxes of the first blocks of two trees in one launch; a count of 0 leaves a tree alone.

    A tree is (x, vertex_start, vertex, box, level_start) here.
    """
    for i in prange(count_a + count_b):
        if i < count_a:
            fit_block(i, tree_a)
        else:
            fit_block(i - count_a, tree_b)


@compiled
def _close_lane(box, child, parent, lane):
    """Let a lane of ``parent`` hold the box around all lanes of ``child``."""
    for k in range(3):
        low, high = box[child, k, 0], box[child, 3 + k, 0]
        for i in range(1, WIDTH):
            low = min(low, box[child, k, i])
            high = max(high, box[child, 3 + k, i])
        box[parent, k, lane], box[parent, 3 + k, lane] = low, high


@compiled
def fit_upper_levels(box, level_start):
    """Fit the levels above the blocks, bottom-up; few nodes, so serial. Returns the blocks' area over the body's."""
    for level in range(BLOCKS + 2, len(level_start) - 1):
        for child in range(level_start[level - 1], level_start[level]):
            i = child - level_start[level - 1]
            _close_lane(box, child, level_start[level] + i // WIDTH, i % WIDTH)
    area = 0.0
    for node in range(level_start[BLOCKS + 1], level_start[BLOCKS + 2]):
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
def fit_block_inside(b, tree):
    """Fit the boxes of all triangles and groups of block ``b``; an empty slot gets an empty box."""
    x, slot_face, slot_tri, box, level_start = tree
    for g in range(b * WIDTH, (b + 1) * WIDTH):
        node = level_start[GROUPS] + g
        for lane in range(WIDTH):
            s = g * WIDTH + lane
            if slot_tri[s] < 0:
                for k in range(3):
                    box[node, k, lane], box[node, 3 + k, lane] = np.inf, -np.inf
            else:
                i, j, m = slot_face[s, 0], slot_face[s, 1], slot_face[s, 2]
                for k in range(3):
                    p, q, r = x[i, k], x[j, k], x[m, k]
                    box[node, k, lane], box[node, 3 + k, lane] = min(min(p, q), r), max(max(p, q), r)
        _close_lane(box, node, level_start[BLOCKS] + b, g - b * WIDTH)


@kernel(parallel_from=8)
def fit_blocks_inside(blocks_a, tree_a, blocks_b, tree_b):
    """Fit the insides of some blocks of two trees in one launch.

    A tree is (x, slot_face, slot_tri, box, level_start) from here on.
    """
    count_a = len(blocks_a)
    for i in prange(count_a + len(blocks_b)):
        if i < count_a:
            fit_block_inside(blocks_a[i], tree_a)
        else:
            fit_block_inside(blocks_b[i - count_a], tree_b)


@compiled
def list_stale_blocks(front, side, fitted, stamp, blocks):
    """List the blocks of one side of the front whose insides are not fitted yet, and mark them as fitted."""
    count = 0
    for i in range(len(front)):
        b = front[i, side]
        if fitted[b] != stamp:
            fitted[b] = stamp
            blocks[count] = b
            count += 1
    return count


# Join -------------------------------------------------------------------------------------------------


@compiled
def _lanes_near(box, node, other, other_node, lane):
    """Which children of ``node`` meet the box in a lane of another node, as bits."""
    b = other[other_node]
    return overlap_mask(box, node, b[0, lane], b[1, lane], b[2, lane], b[3, lane], b[4, lane], b[5, lane])


@compiled
def find_front(box_a, level_start_a, box_b, level_start_b, is_self, front):
    """Write the pairs of blocks whose boxes overlap; returns their number, which may exceed the room in ``front``.

    Trees have equally many levels, so that both nodes of a pair are always on one level. Of one tree, each pair of
    blocks is found once, the lower block first.
    """
    stack = np.zeros((len(level_start_a) * BLOCK, 3), np.int64)
    stack[0, 0] = len(level_start_a) - 2
    top = 1
    count = np.int64(0)
    while top > 0:
        top -= 1
        level, a, b = stack[top, 0], stack[top, 1], stack[top, 2]
        node_a, node_b = level_start_a[level] + a, level_start_b[level] + b
        for i in range(WIDTH):
            mask = _lanes_near(box_b, node_b, box_a, node_a, i)
            if is_self and a == b:
                mask &= -1 << i
            while mask != 0:
                j = lowest_bit(np.int32(mask))
                mask &= mask - 1
                child_a, child_b = WIDTH * a + i, WIDTH * b + j
                if level > BLOCKS + 1:
                    stack[top, 0], stack[top, 1], stack[top, 2] = level - 1, child_a, child_b
                    top += 1
                else:
                    if count < len(front):
                        front[count, 0], front[count, 1] = child_a, child_b
                    count += 1
    return count


@compiled
def _group_bound(box_a, node_a, i, box_b, node_b, j):
    """Error bound for pairs of triangles of two groups: their boxes lie in one box."""
    dx = max(box_a[node_a, 3, i], box_b[node_b, 3, j]) - min(box_a[node_a, 0, i], box_b[node_b, 0, j])
    dy = max(box_a[node_a, 4, i], box_b[node_b, 4, j]) - min(box_a[node_a, 1, i], box_b[node_b, 1, j])
    dz = max(box_a[node_a, 5, i], box_b[node_b, 5, j]) - min(box_a[node_a, 2, i], box_b[node_b, 2, j])
    return error_bound(dx, dy, dz)


@compiled
def join_blocks(block_a, block_b, tree_a, tree_b, keys, count, tests):
    """Append the keys of crossing and of uncertain pairs (kind 0) of two blocks; returns the new count and tests done.

    Keys that find no room are counted all the same.
    """
    x_a, slot_face_a, slot_tri_a, box_a, start_a = tree_a
    x_b, slot_face_b, slot_tri_b, box_b, start_b = tree_b
    node_a, node_b = start_a[BLOCKS] + block_a, start_b[BLOCKS] + block_b
    groups_a = _lanes_near(box_a, node_a, box_b, start_b[BLOCKS + 1] + block_b // WIDTH, block_b % WIDTH)
    while groups_a != 0:
        i = lowest_bit(np.int32(groups_a))
        groups_a &= groups_a - 1
        groups_b = _lanes_near(box_b, node_b, box_a, node_a, i)
        while groups_b != 0:
            j = lowest_bit(np.int32(groups_b))
            groups_b &= groups_b - 1
            bound = _group_bound(box_a, node_a, i, box_b, node_b, j)
            group_a, group_b = WIDTH * block_a + i, WIDTH * block_b + j
            lanes = _lanes_near(box_a, start_a[GROUPS] + group_a, box_b, node_b, j)
            while lanes != 0:
                k = lowest_bit(np.int32(lanes))
                lanes &= lanes - 1
                hits = _lanes_near(box_b, start_b[GROUPS] + group_b, box_a, start_a[GROUPS] + group_a, k)
                s = WIDTH * group_a + k
                while hits != 0:
                    t = WIDTH * group_b + lowest_bit(np.int32(hits))
                    hits &= hits - 1
                    kind = _filter(x_a, face(slot_face_a, s), x_b, face(slot_face_b, t), bound)
                    tests += 1
                    if kind != NONE:
                        if count < len(keys):
                            keys[count] = pair_key(slot_tri_a[s], slot_tri_b[t], max(kind, 0))
                        count += 1
    return count, tests


@compiled
def _filter(x_a, s, x_b, t, bound):
    return triangle_triangle_filtered(
        point(x_a, s[0]),
        point(x_a, s[1]),
        point(x_a, s[2]),
        point(x_b, t[0]),
        point(x_b, t[1]),
        point(x_b, t[2]),
        bound,
    )


@kernel(parallel_from=16)
def join_front(front, tree_a, tree_b, keys, counts):
    """Join the block pairs of the front; task t takes every n-th of them and owns row t of ``keys`` and ``counts``."""
    tasks = len(keys)
    for t in prange(tasks):
        count = tests = np.int64(0)
        for i in range(t, len(front), tasks):
            count, tests = join_blocks(front[i, 0], front[i, 1], tree_a, tree_b, keys[t], count, tests)
        counts[t, 0] = count
        counts[t, 1] = tests


@compiled
def _later_lanes(mask, same, first):
    """Within one node, leave only lanes from ``first`` on, so that each pair is found once."""
    return mask & (-1 << first) if same else mask


@compiled
def join_blocks_of_one(block_a, block_b, tree, skip_neighbours, keys, count, tests):
    """As ``join_blocks`` for two blocks of one tree; neighbours have a filter of their own, or are skipped."""
    x, slot_face, slot_tri, box, start = tree
    node_a, node_b = start[BLOCKS] + block_a, start[BLOCKS] + block_b
    groups_a = _lanes_near(box, node_a, box, start[BLOCKS + 1] + block_b // WIDTH, block_b % WIDTH)
    while groups_a != 0:
        i = lowest_bit(np.int32(groups_a))
        groups_a &= groups_a - 1
        groups_b = _later_lanes(_lanes_near(box, node_b, box, node_a, i), block_a == block_b, i)
        while groups_b != 0:
            j = lowest_bit(np.int32(groups_b))
            groups_b &= groups_b - 1
            bound = _group_bound(box, node_a, i, box, node_b, j)
            group_a, group_b = WIDTH * block_a + i, WIDTH * block_b + j
            lanes = _lanes_near(box, start[GROUPS] + group_a, box, node_b, j)
            while lanes != 0:
                k = lowest_bit(np.int32(lanes))
                lanes &= lanes - 1
                hits = _lanes_near(box, start[GROUPS] + group_b, box, start[GROUPS] + group_a, k)
                hits = _later_lanes(hits, group_a == group_b, k + 1)
                s = WIDTH * group_a + k
                while hits != 0:
                    t = WIDTH * group_b + lowest_bit(np.int32(hits))
                    hits &= hits - 1
                    kind = _filter_of_one(x, face(slot_face, s), face(slot_face, t), skip_neighbours, bound)
                    tests += 1
                    if kind != NONE:
                        if count < len(keys):
                            low, high = min(slot_tri[s], slot_tri[t]), max(slot_tri[s], slot_tri[t])
                            keys[count] = pair_key(low, high, max(kind, 0))
                        count += 1
    return count, tests


@compiled
def _filter_of_one(x, s, t, skip_neighbours, bound):
    if shared_count(s, t) == 0:
        return _filter(x, s, x, t, bound)
    return NONE if skip_neighbours else neighbours_filtered(x, s, t, bound)


@kernel(parallel_from=16)
def join_front_of_one(front, tree, skip_neighbours, keys, counts):
    """As ``join_front`` for one tree with itself."""
    tasks = len(keys)
    for t in prange(tasks):
        count = tests = np.int64(0)
        for i in range(t, len(front), tasks):
            count, tests = join_blocks_of_one(front[i, 0], front[i, 1], tree, skip_neighbours, keys[t], count, tests)
        counts[t, 0] = count
        counts[t, 1] = tests


@compiled
def gather_keys(keys, counts):
    """Join the keys of all tasks; returns those of pairs that cross, and those of pairs that are uncertain."""
    total = 0
    for t in range(len(keys)):
        total += counts[t, 0]
    joined = np.empty(total, np.uint64)
    k = 0
    for t in range(len(keys)):
        for i in range(counts[t, 0]):
            joined[k] = keys[t, i]
            k += 1
    return part_keys(joined, total)


@compiled
def part_keys(keys, count):
    """Keys with a kind, and keys without."""
    certain = 0
    for i in range(count):
        certain += key_kind(keys[i]) != 0
    hits, uncertain = np.empty(certain, np.uint64), np.empty(count - certain, np.uint64)
    k = m = 0
    for i in range(count):
        if key_kind(keys[i]) != 0:
            hits[k] = keys[i]
            k += 1
        else:
            uncertain[m] = keys[i]
            m += 1
    return hits, uncertain


@compiled
def search_serially(
    fit_a, vertices_a, slots_a, fitted_a, stamp_a,
    fit_b, vertices_b, slots_b, fitted_b, stamp_b,
    is_self, skip_neighbours, front, keys,
):  # fmt: skip
    """All steps of a query in one call, for bodies so small that launches would cost more than the work.

    Returns block pairs, keys, tests done and the relative areas of both trees; numbers beyond the room in ``front`` or
    ``keys`` mean that the search has to be repeated with more.
    """
    area_a = area_b = -1.0
    if fit_a:
        for b in range(len(fitted_a)):
            fit_block(b, vertices_a)
        area_a = fit_upper_levels(vertices_a[3], vertices_a[4])
    if fit_b:
        for b in range(len(fitted_b)):
            fit_block(b, vertices_b)
        area_b = fit_upper_levels(vertices_b[3], vertices_b[4])
    pair_count = find_front(vertices_a[3], vertices_a[4], vertices_b[3], vertices_b[4], is_self, front)
    count = tests = np.int64(0)
    for i in range(min(pair_count, len(front))):
        block_a, block_b = front[i, 0], front[i, 1]
        if fitted_a[block_a] != stamp_a:
            fitted_a[block_a] = stamp_a
            fit_block_inside(block_a, slots_a)
        if fitted_b[block_b] != stamp_b:
            fitted_b[block_b] = stamp_b
            fit_block_inside(block_b, slots_b)
        if is_self:
            count, tests = join_blocks_of_one(block_a, block_b, slots_a, skip_neighbours, keys, count, tests)
        else:
            count, tests = join_blocks(block_a, block_b, slots_a, slots_b, keys, count, tests)
    return pair_count, count, tests, area_a, area_b
