"""Compiled parts of sphere tracking that take plain arrays: radii, transforms, layering, choice of controls."""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, inlined
from impinge.backend.simd.tracking import ROUNDING, farthest_square
from impinge.detect.sphere_tree.build.enclosing_ball_kernels import distance_sq, spread
from impinge.exact.orientation import point

STAMP, NODE, LANES, FIRST_ROW, LEVEL, IS_SIMPLIFIED, TOP = range(7)
"""Columns of the table of blocks: the state that its spheres belong to, the first node, the number of spheres, their
first row of controls, the level, whether they follow their controls by the simplified rule, and their part in the top
of a refitted tree; the last row has the number of blocks down to the end of the top."""
BELOW_TOP, AT_TOP = 1, 2
"""Blocks that the top is computed from, and blocks that are computed from those below."""
BLOCK_FIELDS = 8
"""A row of the table is a cache line."""
UNIT = 1.001
"""Bound on the length of a handle relative to its nominal one: frames that are rotated again and again drift by
rounding."""
CLOCK_EVERY = 4096
"""Points of a refitted sphere between two readings of the clock: some microseconds."""


@inlined
def sphere_at(sphere, slot):
    """Centre and radius of the sphere in a slot."""
    block, lane = slot >> 3, slot & 7
    return sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane], sphere[block, 3, lane]


@inlined
def radius_around(cx, cy, cz, node, surface, points, deadline):
    """Distance of the farthest point of a node; negative if the deadline came first."""
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    square, reach = 0.0, 0.0
    start, stop = point_start[node], point_start[node + 1]
    for first in range(start, stop, CLOCK_EVERY):
        if first > start and monotonic_ns() >= deadline:
            return -1.0, 0.0
        end = min(first + CLOCK_EVERY, stop)
        square = max(square, farthest_square(surface, point_vertex, first, end, cx, cy, cz))
    for i in range(cut_start[node], cut_start[node + 1]):
        (s, t, u), far = point(cut_weight, i), 0.0
        for k, c in enumerate((cx, cy, cz)):
            x, y, z = surface[cut_corner[i, 0], k], surface[cut_corner[i, 1], k], surface[cut_corner[i, 2], k]
            far += (s * x + t * y + u * z - c) ** 2
            reach = max(reach, abs(x), abs(y), abs(z))
        square = max(square, far)
        if (i + 1) % CLOCK_EVERY == 0 and monotonic_ns() >= deadline:
            return -1.0, 0.0
    return math.sqrt(square), reach


@compiled
def radii_around(centre, surface, points, radius):
    """Distance of the farthest point of every node."""
    for n in range(len(radius)):
        cx, cy, cz = centre[n, 0], centre[n, 1], centre[n, 2]
        radius[n], _ = radius_around(cx, cy, cz, n, surface, points, np.iinfo(np.int64).max)


@inlined
def move_sphere(sphere, block, lane, transform):
    """Apply an affine map; ``transform``: rows of the matrix, the shift, then stretch, largest entry, whether used."""
    cx, cy, cz, r = sphere_at(sphere, 8 * block + lane)
    for k in range(3):
        sphere[block, k, lane] = transform[k, 0] * cx + transform[k, 1] * cy + transform[k, 2] * cz + transform[3, k]
    reach = transform[4, 1] * (abs(cx) + abs(cy) + abs(cz) + r)
    reach += abs(transform[3, 0]) + abs(transform[3, 1]) + abs(transform[3, 2])
    sphere[block, 3, lane] = transform[4, 0] * r * (1.0 + ROUNDING) + ROUNDING * reach


@inlined
def hold_children(sphere, table, block, lane, first, stop):
    """Set the radius of a sphere to hold the spheres of the blocks ``first .. stop``."""
    c, radius = sphere_at(sphere, 8 * block + lane), 0.0
    for below in range(first, stop):
        for k in range(table[below, LANES]):
            radius = max(radius, math.sqrt(distance_sq(sphere_at(sphere, 8 * below + k), c)) + sphere[below, 3, k])
    reach = abs(c[0]) + abs(c[1]) + abs(c[2]) + radius
    sphere[block, 3, lane] = radius * (1.0 + ROUNDING) + ROUNDING * reach


@compiled
def layer_upwards(sphere, slot_parent, leaf):
    """Let every inner sphere hold its children; slots are ordered level by level, parents first."""
    for slot in range(len(slot_parent)):
        if slot_parent[slot] != -2 and not leaf[slot]:
            sphere[slot >> 3, 3, slot & 7] = 0.0
    for slot in range(len(slot_parent) - 1, 0, -1):
        up = slot_parent[slot]
        if up < 0:
            continue
        reach = math.sqrt(distance_sq(sphere_at(sphere, slot), sphere_at(sphere, up))) + sphere[slot >> 3, 3, slot & 7]
        sphere[up >> 3, 3, up & 7] = max(sphere[up >> 3, 3, up & 7], reach * (1.0 + ROUNDING))


@compiled
def spread_vertices(node_start, node_vertex, position, wanted, start, control):
    """Choose up to ``wanted`` vertices of every node by farthest-point sampling; returns their number."""
    count = 0
    for node in range(len(node_start) - 1):
        start[node] = count
        below = node_vertex[node_start[node] : node_start[node + 1]]
        count += spread(position, below, wanted, control[count:])
    start[len(node_start) - 1] = count
    return count
