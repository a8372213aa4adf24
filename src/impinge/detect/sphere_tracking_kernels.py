"""Where spheres are now: one block of eight siblings at a time, from the vertices that steer them.

A block has rows ``row_start[block] .. row_start[block + 1]`` of ``control`` (vertex ids) and of ``coefficient``; what
these mean depends on the mode, as ``sphere_tracking`` explains and ``simd_tracking`` computes. ``share`` holds what a
sphere has once.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd_tracking import (
    HALF,
    ROUNDING,
    farthest_square,
    follow_affine,
    follow_as_published,
    follow_bounded,
    follow_patch,
)

PAPER, AFFINE, BOUND, REFIT = 0, 1, 2, 3

CLOCK_EVERY = 4096
"""Points of a refitted sphere between two looks at the clock: some microseconds."""
BLOCKS_AT_ONCE = 16
"""Blocks between two looks at the clock: some microseconds too."""


@compiled
def largest_coordinate(x):
    """The largest size of any coordinate."""
    size = 0.0
    for i in range(len(x)):
        size = max(size, abs(x[i, 0]), abs(x[i, 1]), abs(x[i, 2]))
    return size


@inlined
def radius_around(cx, cy, cz, node, surface, point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline):
    """The distance of the farthest point of a node; negative if the time is up before all were seen."""
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
def track_block(
    block, sphere, stamp, block_node, lane_count, row_start, mode, now, placing, size,
    x, control, coefficient, share, surface,
    point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
):  # fmt: skip
    """Bring the spheres of one block up to date; whether there was time to.

    With arrays that its callers unpack once: to unpack tuples here would take longer than the work.
    """
    lanes, start, stop = lane_count[block], row_start[block], row_start[block + 1]
    alone = lanes == 1
    reach = size * (3.0 + (stop - start))  # sums round by the number of their terms
    for half in range((lanes + HALF - 1) // HALF):
        if mode == PAPER:
            follow_as_published(sphere, block, half, x, control, coefficient, share, start, stop, alone)
        elif mode == AFFINE:
            follow_affine(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach)
        elif mode == BOUND:
            follow_bounded(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach)
        else:
            follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, alone)
    if mode == REFIT:
        for lane in range(lanes):
            r, reach = radius_around(
                sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane], block_node[block] + lane,
                surface, point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
            )  # fmt: skip
            if r < 0.0:
                return False
            sphere[block, 3, lane] = r * (1.0 + ROUNDING) + ROUNDING * reach
    if placing[4, 2] != 0.0:
        for lane in range(lanes):
            place_sphere(sphere, block, lane, placing)
    stamp[block] = now
    return True


@compiled
def track_root(tree, steering, points, deadline):
    """Bring the root up to date; whether there was time to."""
    sphere, stamp, block_node, lane_count, row_start, mode, now, placing, size = tree
    x, control, coefficient, share, surface = steering
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    if stamp[0] == now:
        return True
    return monotonic_ns() < deadline and track_block(
        0, sphere, stamp, block_node, lane_count, row_start, mode, now, placing, size,
        x, control, coefficient, share, surface,
        point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
    )  # fmt: skip


@kernel(parallel_from=1024)
def track_all(tree, steering, points, deadline):
    """Bring all blocks up to date; those that there was no time for keep their stamp."""
    sphere, stamp, block_node, lane_count, row_start, mode, now, placing, size = tree
    x, control, coefficient, share, surface = steering
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    for chunk in prange((len(stamp) + BLOCKS_AT_ONCE - 1) // BLOCKS_AT_ONCE):
        if monotonic_ns() >= deadline:
            continue
        for block in range(BLOCKS_AT_ONCE * chunk, min(BLOCKS_AT_ONCE * (chunk + 1), len(stamp))):
            if stamp[block] != now:
                track_block(
                    block, sphere, stamp, block_node, lane_count, row_start, mode, now, placing, size,
                    x, control, coefficient, share, surface,
                    point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
                )  # fmt: skip


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
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    for n in range(len(radius)):
        radius[n], _ = radius_around(
            centre[n, 0], centre[n, 1], centre[n, 2], n, surface, point_start, point_vertex, cut_start, cut_corner,
            cut_weight, np.int64(1 << 62),
        )  # fmt: skip


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
