"""Spheres of deformed bodies: one block of eight siblings at a time, from the controls that steer them.

Kernels receive a tree as its *descriptor*: an int64 array with the address and the length of each array of the tree
(``TrackedSpheres``). Unboxing the arrays one by one would take longer than many a query.

A block has rows ``table[block, FIRST_ROW] .. table[block + 1, FIRST_ROW]`` of ``control`` (vertex ids) and of
``coefficient``; ``track.tracking`` explains what these mean in each mode, ``backend.simd.tracking`` evaluates them.
``share`` holds the constants of a sphere, ``last`` the sphere as it was tracked last, in whichever buffer.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.raw_arrays_kernels import float32_at, float64_at, int32_at, int64_at
from impinge.backend.simd import tracking as simd
from impinge.backend.simd.tracking import HALF, ROUNDING
from impinge.deform.rigid_links_kernels import FLAT_IN_MOTION, place_handles
from impinge.detect.sphere_tree.track import tracking_kernels as track
from impinge.detect.sphere_tree.track.tracking_kernels import FIRST_ROW, IS_SIMPLIFIED, LANES, NODE, STAMP, TOP, UNIT

PAPER, AFFINE, BOUND, REFIT = range(4)

(
    SPHERE_AT, LAST_AT, TABLE_AT, CHILD_AT, CHILD_COUNT_AT, CONTROL_AT, COEFFICIENT_AT, SHARE_AT,
    POINT_START_AT, POINT_VERTEX_AT, CUT_START_AT, CUT_CORNER_AT, CUT_WEIGHT_AT,
    TRIPLE_AT, LENGTH_AT, LINK_STAMP_AT, HANDLE_AT, X_AT, MOTION_AT, ROOT_AT,
) = range(0, 40, 2)  # fmt: skip
"""Places in a descriptor: the address of an array, and behind it its length. ``X_AT``: the positions that spheres
follow."""
MODE, COLUMNS, NOW = 40, 41, 42
"""Further places: the mode, the columns of ``coefficient``, and the number of the current state."""
DESCRIPTOR_SIZE = 43
TRANSFORMED, SIZE, HANDLE = (4, 2), 5, (6, 0)
"""Places in ``motion``: whether there is a transform; the row with the largest coordinate now, that at rest, and the
state that the former belongs to; the longest handle. Rows 0 to 4 are the transform (``move_sphere``)."""
MOTION_SHAPE = (7, 3)

NEVER = np.iinfo(np.int64).max
"""A deadline that never comes."""
SIZE_BITS = np.int64(0x7FFFFFFFFFFFFFFF)
ROW_NS = 20
"""Time to follow a row of controls with cold caches."""
BLOCKS_AT_ONCE = 16
"""Blocks between two readings of the clock: some microseconds."""


@compiled
def int64s_at(places, at):
    """The int64 array whose address and length are at a place."""
    return int64_at(places[at], places[at + 1])


@compiled
def spheres_of(tree, at=SPHERE_AT):
    """The spheres of the current state, or as they were tracked last (``LAST_AT``), shape (blocks, 4, 8)."""
    return float64_at(tree[at], (tree[at + 1], 4, 8))


@compiled
def table_of(tree):
    """The table of blocks."""
    return int64_at(tree[TABLE_AT], (tree[TABLE_AT + 1], track.BLOCK_FIELDS))


@compiled
def positions_of(tree):
    """The positions that spheres follow."""
    return float64_at(tree[X_AT], (tree[X_AT + 1], 3))


@compiled
def controls_of(tree):
    """All controls: the positions and, with rigid links, the handles behind them."""
    if tree[TRIPLE_AT + 1] > 0:
        return float64_at(tree[HANDLE_AT], (tree[HANDLE_AT + 1], 3))
    return positions_of(tree)


@compiled
def motion_of(tree):
    """The transform, the largest coordinates and the longest handle."""
    return float64_at(tree[MOTION_AT], MOTION_SHAPE)


@compiled
def rows_of(tree):
    """Controls, their coefficients, and the constants of spheres."""
    rows = tree[CONTROL_AT + 1]
    return (
        int32_at(tree[CONTROL_AT], (rows, 8)),
        float32_at(tree[COEFFICIENT_AT], (rows, tree[COLUMNS], 8)),
        float64_at(tree[SHARE_AT], (tree[SHARE_AT + 1], 4, 8)),
    )


@compiled
def points_of(tree):
    """Vertices and cut corners below the spheres of a refitted tree."""
    return (
        int64s_at(tree, POINT_START_AT),
        int32_at(tree[POINT_VERTEX_AT], tree[POINT_VERTEX_AT + 1]),
        int64s_at(tree, CUT_START_AT),
        int32_at(tree[CUT_CORNER_AT], (tree[CUT_CORNER_AT + 1], 3)),
        float64_at(tree[CUT_WEIGHT_AT], (tree[CUT_WEIGHT_AT + 1], 3)),
    )


@compiled
def largest_coordinate(x):
    """The largest absolute coordinate: doubles without their sign are ordered like their bits."""
    bits = int64_at(x.ctypes.data, x.size)
    most = np.zeros(1, dtype=np.int64)
    for i in range(len(bits)):
        most[0] = max(most[0], bits[i] & SIZE_BITS)
    return most.view(np.float64)[0]


@compiled
def begin_state(tree):
    """On a new state, find the largest coordinate, at rest or now, by which sums round; copy controls."""
    motion = motion_of(tree)
    if motion[SIZE, 2] != tree[NOW] and AFFINE <= tree[MODE] <= BOUND:
        x = positions_of(tree)
        motion[SIZE, 0] = max(motion[SIZE, 1], largest_coordinate(x) + motion[HANDLE])
        motion[SIZE, 2] = tree[NOW]
        if tree[TRIPLE_AT + 1] > 0:
            controls_of(tree)[: len(x)] = x


@compiled
def place_links(tree, control, start, stop):
    """Place the handles that some rows of controls need; whether one of their triples is collinear."""
    x, handles, links, now = positions_of(tree), controls_of(tree), tree[TRIPLE_AT + 1], tree[NOW]
    triple, length = int32_at(tree[TRIPLE_AT], (links, 3)), float64_at(tree[LENGTH_AT], links)
    stamp = int64_at(tree[LINK_STAMP_AT], links)
    found = False
    for row in range(start, stop):
        for lane in range(8):
            t = (control[row, lane] - len(x)) // 3
            if t < 0:
                continue
            if abs(stamp[t]) != now:
                is_straight = place_handles(
                    x, triple[t, 0], triple[t, 1], triple[t, 2], length[t], FLAT_IN_MOTION, handles, len(x) + 3 * t
                )
                stamp[t] = -now if is_straight else now
            found |= stamp[t] < 0
    return found


@inlined
def copy_block(source, block, target):
    """Copy the spheres of one block."""
    for k in range(4):
        for lane in range(8):
            target[block, k, lane] = source[block, k, lane]


@compiled
def track_block(tree, block, deadline):
    """Track the spheres of one block; False if the deadline came first."""
    sphere, table, motion, mode = spheres_of(tree), table_of(tree), motion_of(tree), tree[MODE]
    x, controls, (control, coefficient, share) = positions_of(tree), controls_of(tree), rows_of(tree)
    lanes, start, stop = table[block, LANES], table[block, FIRST_ROW], table[block + 1, FIRST_ROW]
    single = lanes == 1
    reach = motion[SIZE, 0] * (3.0 + (stop - start))  # sums round by the number of their terms
    is_straight = mode == BOUND and tree[TRIPLE_AT + 1] > 0 and place_links(tree, control, start, stop)
    for half in range((lanes + HALF - 1) // HALF):
        if mode == PAPER or (mode == AFFINE and table[block, IS_SIMPLIFIED]):
            simd.follow_as_published(sphere, block, half, x, control, coefficient, share, start, stop, single)
        elif mode == AFFINE:
            simd.follow_affine(sphere, block, half, x, control, coefficient, share, start, stop, single, reach)
        elif mode == BOUND and table[block, IS_SIMPLIFIED]:
            simd.follow_near(sphere, block, half, controls, control, coefficient, share, start, stop, single, reach)
        elif mode == BOUND:
            simd.follow_bounded(sphere, block, half, controls, control, coefficient, share, start, stop, single, reach)
        else:
            simd.follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, single)
    if mode == REFIT:
        points = points_of(tree)
        for lane in range(lanes):
            cx, cy, cz = sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane]
            r, reach = track.radius_around(cx, cy, cz, table[block, NODE] + lane, x, points, deadline)
            if r < 0.0:
                return False
            sphere[block, 3, lane] = r * (1.0 + ROUNDING) + ROUNDING * reach
    if is_straight:  # handles of collinear triples are unknown: radii grow by what they may do to the surface
        length, stamp = float64_at(tree[LENGTH_AT], tree[LENGTH_AT + 1]), int64s_at(tree, LINK_STAMP_AT)
        for row in range(start, stop):
            for lane in range(8):
                t = (control[row, lane] - len(x)) // 3
                if t >= 0 and stamp[t] < 0:
                    most = coefficient[row, 7, lane] + abs(coefficient[row, 0, lane])
                    sphere[block, 3, 0 if single else lane] += UNIT * most * length[t]
    if motion[TRANSFORMED] != 0.0:
        for lane in range(lanes):
            track.move_sphere(sphere, block, lane, motion)
    copy_block(sphere, block, spheres_of(tree, LAST_AT))
    table[block, STAMP] = tree[NOW]
    return True


@compiled
def track_top(tree, deadline):
    """Track the root, of a refitted tree bottom-up, visiting every vertex once; False if the deadline came first."""
    sphere, table = spheres_of(tree), table_of(tree)
    child, child_count = int64s_at(tree, CHILD_AT), int64s_at(tree, CHILD_COUNT_AT)
    for block in range(table[len(table) - 1, TOP] - 1, -1, -1):
        if table[block, STAMP] == tree[NOW]:
            continue
        if monotonic_ns() >= deadline:
            return False
        if table[block, TOP] == track.AT_TOP:
            control, coefficient, share = rows_of(tree)
            x, motion = positions_of(tree), motion_of(tree)
            start, stop, lanes = table[block, FIRST_ROW], table[block + 1, FIRST_ROW], table[block, LANES]
            for half in range((lanes + HALF - 1) // HALF):
                simd.follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, lanes == 1)
            for lane in range(lanes):
                sphere[block, 3, lane] = 0.0
                if motion[TRANSFORMED] != 0.0:
                    track.move_sphere(sphere, block, lane, motion)
                first = child[8 * block + lane]
                track.hold_children(sphere, table, block, lane, first, first + child_count[8 * block + lane])
            copy_block(sphere, block, spheres_of(tree, LAST_AT))
            table[block, STAMP] = tree[NOW]
        elif (block == 0 or table[block, TOP] == track.BELOW_TOP) and not track_block(tree, block, deadline):
            return False
    return True


@compiled
def root_ns(tree):
    """Estimated time to track the root, 0 if it is up to date."""
    table = table_of(tree)
    return 0 if table[0, STAMP] == tree[NOW] else ROW_NS * (table[1, FIRST_ROW] - table[0, FIRST_ROW])


@compiled
def track_root(tree, deadline):
    """Track the root; if the deadline comes first, restore the last root and return False."""
    sphere, root = spheres_of(tree), float64_at(tree[ROOT_AT], tree[ROOT_AT + 1])
    if table_of(tree)[0, STAMP] == tree[NOW]:
        return True
    in_time = monotonic_ns() + root_ns(tree) < deadline
    if in_time:
        begin_state(tree)
        in_time = track_top(tree, deadline)
    for k in range(4):
        if in_time:
            root[k] = sphere[0, k, 0]
        else:
            sphere[0, k, 0] = root[k]
    return in_time


@kernel(parallel_from=1024)
def track_all(tree, deadline):
    """Track all blocks; those that the deadline left out keep their stamp."""
    begin_state(tree)
    table = table_of(tree)
    blocks = len(table) - 1
    if tree[MODE] == BOUND:
        control = rows_of(tree)[0]
        place_links(tree, control, 0, len(control))  # on one thread
    for chunk in prange((blocks + BLOCKS_AT_ONCE - 1) // BLOCKS_AT_ONCE):
        if monotonic_ns() >= deadline:
            continue
        for block in range(BLOCKS_AT_ONCE * chunk, min(BLOCKS_AT_ONCE * (chunk + 1), blocks)):
            if table[block, STAMP] != tree[NOW]:
                track_block(tree, block, deadline)
