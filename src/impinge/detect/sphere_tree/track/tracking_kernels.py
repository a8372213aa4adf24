"""Where spheres are now: one block of eight siblings at a time, from the vertices that steer them.

A block has rows ``table[block, FIRST_ROW] .. table[block + 1, FIRST_ROW]`` of ``control`` (vertex ids) and of
``coefficient``; what these mean depends on the mode, as ``sphere_tracking`` explains and ``simd_tracking`` computes.
``share`` holds what a sphere has once, ``known`` where it was found last, in whichever buffer.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.raw_arrays_kernels import float32_at, float64_at, int32_at, int64_at
from impinge.backend.simd.tracking import (
    HALF,
    ROUNDING,
    farthest_square,
    follow_affine,
    follow_as_published,
    follow_bounded,
    follow_near,
    follow_patch,
)
from impinge.deform.rigid_links_kernels import FLAT_IN_MOTION, place_handles

PAPER, AFFINE, BOUND, REFIT = range(4)

STAMP, NODE, LANES, FIRST_ROW, LEVEL, IS_CROWDED, TOP = range(7)
"""Columns of the table of blocks: the state of its spheres, the first node, how many, their rows, the level, whether
they follow their controls the simple way, and what they are to the top of a refitted tree; the last row has the number
of blocks down to the end of the top."""
BELOW_TOP, AT_TOP = 1, 2
"""Blocks that the top is made of, and blocks that are made of those below."""
BLOCK_FIELDS = 8
"""A row of the table is a line of the cache."""
PLACED, SIZE, ROOT = (4, 2), 5, 6
"""Places in ``motion``: whether there is a transform; the largest coordinate, the largest at rest, and for which state;
the last root's centre, and in the row below its radius, and the longest handle."""
(
    SPHERE_AT, TABLE_AT, CHILD_AT, CHILD_COUNT_AT, CONTROL_AT, COEFFICIENT_AT, SHARE_AT, KNOWN_AT,
    POINT_START_AT, POINT_VERTEX_AT, CUT_START_AT, CUT_CORNER_AT, CUT_WEIGHT_AT,
    TRIPLE_AT, LENGTH_AT, LINK_STAMP_AT, HANDLES_AT, X_AT, MOTION_AT,
    MODE, BLOCKS, ROWS, COLUMNS, NODES, POINTS, CUTS, LINKS, X_COUNT, HANDLE_COUNT, NOW,
) = range(30)  # fmt: skip
"""Places in the *card* of a tree, which is all that kernels need to be handed: addresses of its arrays, among them the
positions that it follows; the mode, and how many there are of each; and the number of the state."""
CARD_SIZE = 30


@compiled
def spheres_of(card):
    """The spheres as they are now."""
    return float64_at(card[SPHERE_AT], (card[BLOCKS], 4, 8))


@compiled
def table_of(card):
    """The table of blocks."""
    return int64_at(card[TABLE_AT], (card[BLOCKS] + 1, BLOCK_FIELDS))


@compiled
def children_of(card):
    """The first block of children and the number of these, by slot."""
    return int64_at(card[CHILD_AT], 8 * card[BLOCKS]), int64_at(card[CHILD_COUNT_AT], 8 * card[BLOCKS])


@compiled
def known_of(card):
    """Where spheres were found last."""
    return float64_at(card[KNOWN_AT], (card[BLOCKS], 4, 8))


@compiled
def positions_of(card):
    """The positions that spheres follow."""
    return float64_at(card[X_AT], (card[X_COUNT], 3))


@compiled
def handles_of(card):
    """All controls: the positions and, if there are, handles of rigid links behind them."""
    if card[LINKS] > 0:
        return float64_at(card[HANDLES_AT], (card[HANDLE_COUNT], 3))
    return positions_of(card)


@compiled
def motion_of(card):
    """A transform, the largest coordinates, and the last root."""
    return float64_at(card[MOTION_AT], (8, 3))


@compiled
def rows_of(card):
    """Controls, their coefficients, and what spheres have once."""
    return (
        int32_at(card[CONTROL_AT], (card[ROWS], 8)),
        float32_at(card[COEFFICIENT_AT], (card[ROWS], card[COLUMNS], 8)),
        float64_at(card[SHARE_AT], (card[BLOCKS], 4, 8)),
    )


@compiled
def points_of(card):
    """Vertices and cut corners below the spheres of a refitted tree."""
    return (
        int64_at(card[POINT_START_AT], card[NODES] + 1),
        int32_at(card[POINT_VERTEX_AT], card[POINTS]),
        int64_at(card[CUT_START_AT], card[NODES] + 1),
        int32_at(card[CUT_CORNER_AT], (card[CUTS], 3)),
        float64_at(card[CUT_WEIGHT_AT], (card[CUTS], 3)),
    )


@compiled
def links_of(card):
    """All controls, and the triples that steer handles: vertices, lengths, and for which state they were placed."""
    return (
        handles_of(card),
        int32_at(card[TRIPLE_AT], (card[LINKS], 3)),
        float64_at(card[LENGTH_AT], card[LINKS]),
        int64_at(card[LINK_STAMP_AT], card[LINKS]),
    )


NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
SIZE_BITS = np.int64(0x7FFFFFFFFFFFFFFF)
UNIT = 1.001
"""No handle is longer than this times its length: frames that are turned again and again keep theirs up to rounding."""
CLOCK_EVERY = 4096
"""Points of a refitted sphere between two looks at the clock: some microseconds."""
ROW_NS = 20
"""What it takes to follow a row of controls, with caches that others have filled."""
BLOCKS_AT_ONCE = 16
"""Blocks between two looks at the clock: some microseconds too."""


@compiled
def largest_coordinate(x):
    """The largest size of any coordinate: doubles without their sign are in the order of their bits."""
    bits = int64_at(x.ctypes.data, x.size)
    most = np.zeros(1, dtype=np.int64)
    for i in range(len(bits)):
        most[0] = max(most[0], bits[i] & SIZE_BITS)
    return most.view(np.float64)[0]


@inlined
def radius_around(cx, cy, cz, node, surface, points, deadline):
    """The distance of the farthest point of a node; negative if the time is up before all were seen."""
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    square, reach = 0.0, 0.0
    start, stop = point_start[node], point_start[node + 1]
    for first in range(start, stop, CLOCK_EVERY):
        if first > start and monotonic_ns() >= deadline:
            return -1.0, 0.0
        end = min(first + CLOCK_EVERY, stop)
        square = max(square, farthest_square(surface, point_vertex, first, end, cx, cy, cz))
    for i in range(cut_start[node], cut_start[node + 1]):
        p, q, r = cut_corner[i, 0], cut_corner[i, 1], cut_corner[i, 2]
        s, t, u = cut_weight[i, 0], cut_weight[i, 1], cut_weight[i, 2]
        px = s * surface[p, 0] + t * surface[q, 0] + u * surface[r, 0]
        py = s * surface[p, 1] + t * surface[q, 1] + u * surface[r, 1]
        pz = s * surface[p, 2] + t * surface[q, 2] + u * surface[r, 2]
        dx, dy, dz = px - cx, py - cy, pz - cz
        square = max(square, dx * dx + dy * dy + dz * dz)
        for k in range(3):
            reach = max(reach, abs(surface[p, k]), abs(surface[q, k]), abs(surface[r, k]))
        if (i + 1) % CLOCK_EVERY == 0 and monotonic_ns() >= deadline:
            return -1.0, 0.0
    return math.sqrt(square), reach


@inlined
def place_sphere(sphere, block, lane, placing):
    """Move a sphere by an affine map; ``placing`` (5, 3): rows of the matrix, the shift, then stretch, size, used."""
    cx, cy, cz, r = sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane], sphere[block, 3, lane]
    for k in range(3):
        sphere[block, k, lane] = placing[k, 0] * cx + placing[k, 1] * cy + placing[k, 2] * cz + placing[3, k]
    reach = placing[4, 1] * (abs(cx) + abs(cy) + abs(cz) + r)
    reach += abs(placing[3, 0]) + abs(placing[3, 1]) + abs(placing[3, 2])
    sphere[block, 3, lane] = placing[4, 0] * r * (1.0 + ROUNDING) + ROUNDING * reach


@compiled
def place_links(x, control, start, stop, links, now):
    """Place the handles that some rows of controls need; whether one of their triples lies on a line."""
    handles, triple, length, stamp = links
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


@compiled
def add_straight_links(sphere, block, coarse_count, control, coefficient, start, stop, alone, links):
    """Let radii grow by what handles of triples on a line, which are not known, may do to the surface."""
    _, _, length, stamp = links
    for row in range(start, stop):
        for lane in range(8):
            t = (control[row, lane] - coarse_count) // 3
            if t >= 0 and stamp[t] < 0:
                most = coefficient[row, 7, lane] + abs(coefficient[row, 0, lane])
                sphere[block, 3, 0 if alone else lane] += UNIT * most * length[t]


@inlined
def copy_block(source, block, target):
    """Copy the spheres of one block."""
    for k in range(4):
        for lane in range(8):
            target[block, k, lane] = source[block, k, lane]


@compiled
def track_block(card, block, deadline):
    """Bring the spheres of one block up to date; whether there was time to."""
    sphere, table, motion, mode, now = spheres_of(card), table_of(card), motion_of(card), card[MODE], card[NOW]
    x, (control, coefficient, share) = positions_of(card), rows_of(card)
    lanes, start, stop = table[block, LANES], table[block, FIRST_ROW], table[block + 1, FIRST_ROW]
    alone = lanes == 1
    reach = motion[SIZE, 0] * (3.0 + (stop - start))  # sums round by the number of their terms
    is_straight = mode == BOUND and card[LINKS] > 0 and place_links(x, control, start, stop, links_of(card), now)
    for half in range((lanes + HALF - 1) // HALF):
        if mode == PAPER or (mode == AFFINE and table[block, IS_CROWDED]):
            follow_as_published(sphere, block, half, x, control, coefficient, share, start, stop, alone)
        elif mode == AFFINE:
            follow_affine(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach)
        elif mode == BOUND and table[block, IS_CROWDED]:
            follow_near(sphere, block, half, handles_of(card), control, coefficient, share, start, stop, alone, reach)
        elif mode == BOUND:
            controls = handles_of(card)
            follow_bounded(sphere, block, half, controls, control, coefficient, share, start, stop, alone, reach)
        else:
            follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, alone)
    if mode == REFIT:
        points = points_of(card)
        for lane in range(lanes):
            cx, cy, cz = sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane]
            r, reach = radius_around(cx, cy, cz, table[block, NODE] + lane, x, points, deadline)
            if r < 0.0:
                return False
            sphere[block, 3, lane] = r * (1.0 + ROUNDING) + ROUNDING * reach
    if is_straight:
        add_straight_links(sphere, block, len(x), control, coefficient, start, stop, alone, links_of(card))
    if motion[PLACED] != 0.0:
        for lane in range(lanes):
            place_sphere(sphere, block, lane, motion)
    copy_block(sphere, block, known_of(card))
    table[block, STAMP] = now
    return True


@compiled
def take_state(card):
    """If the state is new, find the largest coordinate, at rest or now, since sums round by it; and copy controls."""
    motion = motion_of(card)
    if motion[SIZE, 2] != card[NOW] and AFFINE <= card[MODE] <= BOUND:
        x = positions_of(card)
        motion[SIZE, 0] = max(motion[SIZE, 1], largest_coordinate(x) + motion[ROOT + 1, 1])
        motion[SIZE, 2] = card[NOW]
        if card[LINKS] > 0:
            handles = handles_of(card)
            for i in range(len(x)):
                handles[i, 0], handles[i, 1], handles[i, 2] = x[i, 0], x[i, 1], x[i, 2]


@compiled
def hold_children(sphere, table, children, block, motion):
    """Let spheres whose centres are known hold those of their children, which are."""
    child, child_count = children
    for lane in range(table[block, LANES]):
        sphere[block, 3, lane] = 0.0
        if motion[PLACED] != 0.0:
            place_sphere(sphere, block, lane, motion)
        cx, cy, cz = sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane]
        radius = 0.0
        first = child[8 * block + lane]
        for below in range(first, first + child_count[8 * block + lane]):
            for k in range(table[below, LANES]):
                dx, dy, dz = sphere[below, 0, k] - cx, sphere[below, 1, k] - cy, sphere[below, 2, k] - cz
                radius = max(radius, math.sqrt(dx * dx + dy * dy + dz * dz) + sphere[below, 3, k])
        reach = abs(cx) + abs(cy) + abs(cz) + radius
        sphere[block, 3, lane] = radius * (1.0 + ROUNDING) + ROUNDING * reach


@compiled
def track_top(card, deadline):
    """Find the root, of a refitted tree from below, to look at every vertex once; whether there was time to."""
    sphere, table, now = spheres_of(card), table_of(card), card[NOW]
    for block in range(table[card[BLOCKS], TOP] - 1, -1, -1):
        if table[block, STAMP] == now:
            continue
        if monotonic_ns() >= deadline:
            return False
        if table[block, TOP] == AT_TOP:
            control, coefficient, share = rows_of(card)
            start, stop, lanes = table[block, FIRST_ROW], table[block + 1, FIRST_ROW], table[block, LANES]
            for half in range((lanes + HALF - 1) // HALF):
                follow_patch(
                    sphere, block, half, positions_of(card), control, coefficient, share, start, stop, lanes == 1
                )
            hold_children(sphere, table, children_of(card), block, motion_of(card))
            copy_block(sphere, block, known_of(card))
            table[block, STAMP] = now
        elif (block == 0 or table[block, TOP] == BELOW_TOP) and not track_block(card, block, deadline):
            return False
    return True


@compiled
def root_ns(card):
    """About how long it takes to find the root, if it has to be found."""
    table = table_of(card)
    return 0 if table[0, STAMP] == card[NOW] else ROW_NS * (table[1, FIRST_ROW] - table[0, FIRST_ROW])


@compiled
def track_root(card, deadline):
    """Bring the root up to date; whether there was time to, else it is the last one that was."""
    sphere, motion = spheres_of(card), motion_of(card)
    if table_of(card)[0, STAMP] == card[NOW]:
        return True
    in_time = monotonic_ns() + root_ns(card) < deadline
    if in_time:
        take_state(card)
        in_time = track_top(card, deadline)
    for k in range(3):
        if in_time:
            motion[ROOT, k] = sphere[0, k, 0]
        else:
            sphere[0, k, 0] = motion[ROOT, k]
    if in_time:
        motion[ROOT + 1, 0] = sphere[0, 3, 0]
    else:
        sphere[0, 3, 0] = motion[ROOT + 1, 0]
    return in_time


@kernel(parallel_from=1024)
def track_all(card, deadline):
    """Bring all blocks up to date; those that there was no time for keep their stamp."""
    take_state(card)
    table, blocks = table_of(card), card[BLOCKS]
    if card[MODE] == BOUND:
        control = rows_of(card)[0]
        place_links(positions_of(card), control, 0, len(control), links_of(card), card[NOW])  # not by several threads
    for chunk in prange((blocks + BLOCKS_AT_ONCE - 1) // BLOCKS_AT_ONCE):
        if monotonic_ns() >= deadline:
            continue
        for block in range(BLOCKS_AT_ONCE * chunk, min(BLOCKS_AT_ONCE * (chunk + 1), blocks)):
            if table[block, STAMP] != card[NOW]:
                track_block(card, block, deadline)


@compiled
def layer_upwards(sphere, slot_parent, leaf):
    """Let every sphere that is no leaf hold its children's; slots stand level by level, parents first."""
    for slot in range(len(slot_parent)):
        if slot_parent[slot] != -2 and not leaf[slot]:
            sphere[slot >> 3, 3, slot & 7] = 0.0
    for slot in range(len(slot_parent) - 1, 0, -1):
        up = slot_parent[slot]
        if up < 0:
            continue
        dx = sphere[slot >> 3, 0, slot & 7] - sphere[up >> 3, 0, up & 7]
        dy = sphere[slot >> 3, 1, slot & 7] - sphere[up >> 3, 1, up & 7]
        dz = sphere[slot >> 3, 2, slot & 7] - sphere[up >> 3, 2, up & 7]
        reach = math.sqrt(dx * dx + dy * dy + dz * dz) + sphere[slot >> 3, 3, slot & 7]
        sphere[up >> 3, 3, up & 7] = max(sphere[up >> 3, 3, up & 7], reach * (1.0 + ROUNDING))


@compiled
def radii_around(centre, surface, points, radius):
    """The distance of the farthest point of every node."""
    for n in range(len(radius)):
        radius[n], _ = radius_around(centre[n, 0], centre[n, 1], centre[n, 2], n, surface, points, np.int64(NEVER))


@compiled
def spread_vertices(node_start, node_vertex, position, wanted, start, control):
    """Choose up to ``wanted`` vertices of every node, each as far as can be from those before; returns how many."""
    count = 0
    for node in range(len(node_start) - 1):
        start[node] = count
        first, stop = node_start[node], node_start[node + 1]
        nearest = np.full(stop - first, np.inf)
        chosen = first
        for _ in range(min(wanted, stop - first)):
            control[count] = node_vertex[chosen]
            count += 1
            best = -1.0
            last = node_vertex[chosen]
            for i in range(first, stop):
                v = node_vertex[i]
                square = 0.0
                for k in range(3):
                    square += (position[v, k] - position[last, k]) ** 2
                nearest[i - first] = min(nearest[i - first], square)
                if nearest[i - first] > best:
                    best, chosen = nearest[i - first], i
            if best <= 0.0:
                break
    start[len(node_start) - 1] = count
    return count
