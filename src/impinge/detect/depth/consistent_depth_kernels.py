"""Depth and direction at the border, from neighbour to neighbour, and by steps to the nearest point.

See ``consistent_depth`` for the formulas, ``surface_meeting_kernels`` for nodes and links, ``surface_normals_kernels``
for surfaces.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH
from impinge.detect.depth.surface_normals_kernels import (
    CANCELLED,
    LEAST_COSINE,
    normal_at,
    normal_of_row,
    plus,
    times,
    unit,
    write,
)
from impinge.detect.proximity.closest_points_kernels import nearest_in_order
from impinge.detect.proximity.features_kernels import closest_on_triangle, mixed
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import dot, minus

RUN = 32
"""Nodes per task."""
UNKNOWN = -1
"""Round of a node without a depth."""
OPPOSED = -2
"""Round of a node whose normals, or those of its neighbours, cancel."""
EXIT_REACH = 1.25
"""Length of the ray that looks for the exit, in depths."""
ON_SURFACE = 2.0**-50
"""Distances below this share of the coordinates are rounding errors without a direction."""
STEADY = 2.0**-10
"""Angle in radians below which a step to a foot is the last; the error of the depth is of the order of its square."""


@inlined
def write_mean(n, depth, direction, total_weight, this_round, out):
    """Write weighted sums as depth and direction; OPPOSED if the directions cancel."""
    out_depth, out_direction, out_round = out
    if math.sqrt(dot(direction, direction)) <= CANCELLED * total_weight:
        out_round[n] = OPPOSED
        return
    out_depth[n] = max(depth / total_weight, 0.0)
    write(out_direction, n, unit(direction))
    out_round[n] = this_round


@compiled
def _weight(least, square):
    """1 / distance², times that of the nearest; of those at no distance 1, and nothing of the others."""
    return 1.0 if square == least else least / square


@compiled
def _square_to_hit(k, p, link_x, share):
    """Squared distance from p to where link k leaves."""
    gap = times(minus(point(link_x, k), p), share[k])
    return dot(gap, gap)


@inlined
def start_node(n, p, first, end, link_x, share, sign, normal, outward, out):
    """ω = 1 / |x - p|²,  d = Σ ω (x - p) · n / Σ ω,  r = Σ ω n at length one, over the links that leave.

    Of each such link, ``normal`` has that of the surface where it leaves.
    """
    least = math.inf
    for k in range(first, end):
        if share[k] >= 0.0:
            least = min(least, _square_to_hit(k, p, link_x, share))
    if least == math.inf:
        return
    depth, total, direction = 0.0, 0.0, (0.0, 0.0, 0.0)
    for k in range(first, end):
        if share[k] >= 0.0:
            n_out = times(point(normal, k), outward if sign[k] == 0 else np.float64(sign[k]))
            omega = _weight(least, _square_to_hit(k, p, link_x, share))
            depth += omega * (share[k] * dot(minus(point(link_x, k), p), n_out))
            direction = plus(direction, times(n_out, omega))
            total += omega
    write_mean(n, depth, direction, total, 0, out)


@kernel(parallel_from=256)
def start_at_border(points, links, touches, hits, normal, outward, surface, out):
    """Depth and direction of the nodes that lie on the surface, and of those with links that leave the body.

    ``normal`` is room for a row per link, ``outward`` is 1.0 or -1.0 and turns normals outwards.
    """
    touch_tri, touch_corner, touch_weight = touches
    share, _, corner, weight, sign = hits
    start, _, _, link_x = links
    for n in prange(len(points)):
        if touch_tri[n] >= 0:
            way = times(normal_of_row(n, touch_corner, touch_weight, surface), outward)
            write_mean(n, 0.0, way, 1.0, 0, out)
        else:
            for k in range(start[n], start[n + 1]):
                if share[k] >= 0.0:
                    write(normal, k, normal_of_row(k, corner, weight, surface))
            start_node(n, point(points, n), start[n], start[n + 1], link_x, share, sign, normal, outward, out)


@kernel(parallel_from=512)
def reach_neighbours(nodes, start, link_node, node_x, this_round, out):
    """Depth and direction of those nodes that have neighbours q of earlier rounds.

    μ = 1 / |q - p|²,  d = Σ μ ((q - p) · r(q) + d(q)) / Σ μ,  r = Σ μ r(q) at length one.
    """
    for i in prange(len(nodes)):
        depth_of, direction_of, round_of = out
        n = nodes[i]
        p = point(node_x, n)
        least = math.inf
        for k in range(start[n], start[n + 1]):
            q = link_node[k]
            if q >= 0 and 0 <= round_of[q] < this_round:
                gap = minus(point(node_x, q), p)
                least = min(least, dot(gap, gap))
        depth, total, direction = 0.0, 0.0, (0.0, 0.0, 0.0)
        for k in range(start[n], start[n + 1]):
            q = link_node[k]
            if q >= 0 and 0 <= round_of[q] < this_round:
                gap = minus(point(node_x, q), p)
                mu = _weight(least, dot(gap, gap))
                r = point(direction_of, q)
                depth += mu * (dot(gap, r) + depth_of[q])
                direction = plus(direction, times(r, mu))
                total += mu
        if least < math.inf:
            write_mean(n, depth, direction, total, this_round, out)


# Feet ---------------------------------------------------------------------------------------------------


@compiled
def _step_to_foot(p, depth, direction, steps, outward, surface, tree, keys, index, cursor):
    """Iterate: the nearest surface point c to p + depth · direction, its normal n, then depth = (c - p) · n.

    Ends where n turns more than 60 degrees from the first direction, and where it converges.
    """
    box, corner, start, top, origin, reach, x, order_face, order_tri = tree
    began = direction
    slot = np.int64(-1)
    for _ in range(steps):
        goal = plus(p, times(direction, depth))
        slot = nearest_in_order(
            goal, box, corner, start, top, origin, reach, x, order_face, order_tri, slot, np.inf, keys, index, cursor
        )  # fmt: skip
        ca, cb, cc = order_face[slot, 0], order_face[slot, 1], order_face[slot, 2]
        a, b, c = point(x, ca), point(x, cb), point(x, cc)
        u, v, w, _ = closest_on_triangle(goal, a, b, c)
        n = times(normal_at(ca, cb, cc, u, v, w, surface), outward)
        above = dot(mixed(u, minus(a, p), v, minus(b, p), w, minus(c, p)), n)
        if dot(n, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(n, direction)
        depth, direction = above, n
        if dot(turn, turn) <= STEADY * STEADY:
            break
    return depth, direction


@kernel(parallel_from=128)
def step_to_feet(nodes, points, steps, outward, surface, tree, threads, counter, out):
    """Move depth and direction of the given nodes towards the shortest way out."""
    for _ in prange(threads):
        depth, direction, levels = out[0], out[1], tree[3] + 1
        keys, index, cursor = np.empty(WIDTH * levels, np.int32), np.empty(levels, np.int64), np.empty(levels, np.int64)
        task = claim(counter)
        while task * RUN < len(nodes):
            for i in range(task * RUN, min((task + 1) * RUN, len(nodes))):
                n = nodes[i]
                depth[n], r = _step_to_foot(
                    point(points, n), depth[n], point(direction, n), steps, outward, surface, tree, keys, index, cursor
                )  # fmt: skip
                write(direction, n, r)
            task = claim(counter)
