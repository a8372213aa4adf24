"""Depths from neighbour to neighbour, and steps to the nearest point; see ``depth`` for the formulas.

Nodes and links are those of ``surface_meeting_kernels``, surfaces those of ``surface_normals_kernels``.
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
"""Nodes that one task looks at."""
UNKNOWN = -1
"""Round of a node that has no depth yet."""
OPPOSED = -2
"""Round of a node whose normals, or those of its neighbours, cancel."""
EXIT_REACH = 1.25
"""A way out is looked for so many depths away along the direction."""
ON_SURFACE = 2.0**-50
"""Distances below this share of the coordinates are rounding, and have no direction."""
STEADY = 2.0**-10
"""Angle below which a step to a foot is the last; what is left changes depths by the order of its square."""


@inlined
def settle(n, depth, direction, total_weight, this_round, out):
    """Write weighted sums as depth and direction; a node whose directions cancel gets none."""
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
    settle(n, depth, direction, total, 0, out)


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
            settle(n, 0.0, way, 1.0, 0, out)
        else:
            for k in range(start[n], start[n + 1]):
                if share[k] >= 0.0:
                    write(normal, k, normal_of_row(k, corner, weight, surface))
            start_node(n, point(points, n), start[n], start[n + 1], link_x, share, sign, normal, outward, out)


@compiled
def _reach_node(n, start, link_node, node_x, this_round, out):
    """μ = 1 / |q - p|²,  d = Σ μ ((q - p) · r(q) + d(q)) / Σ μ,  r = Σ μ r(q) at length one, over earlier nodes q."""
    depth_of, direction_of, round_of = out
    p = point(node_x, n)
    least = math.inf
    for k in range(start[n], start[n + 1]):
        q = link_node[k]
        if q >= 0 and 0 <= round_of[q] < this_round:
            gap = minus(point(node_x, q), p)
            least = min(least, dot(gap, gap))
    if least == math.inf:
        return
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
    settle(n, depth, direction, total, this_round, out)


@kernel(parallel_from=512)
def reach_neighbours(nodes, start, link_node, node_x, this_round, out):
    """Depth and direction of those nodes that have neighbours of earlier rounds; what this round writes is not read."""
    for i in prange(len(nodes)):
        _reach_node(nodes[i], start, link_node, node_x, this_round, out)


# Feet ---------------------------------------------------------------------------------------------------


@compiled
def foot_at(p, goal, corners, x, outward, surface):
    """The normal at the point c of a triangle that is nearest to ``goal``, and how far c is above p along it."""
    ca, cb, cc = corners
    a, b, c = point(x, ca), point(x, cb), point(x, cc)
    u, v, w, _ = closest_on_triangle(goal, a, b, c)
    n = times(normal_at(ca, cb, cc, u, v, w, surface), outward)
    return n, dot(mixed(u, minus(a, p), v, minus(b, p), w, minus(c, p)), n)


@compiled
def _step_to_foot(p, depth, direction, steps, outward, surface, tree, keys, index, cursor):
    """Go to where direction and depth lead to, to the nearest point c of the surface, and take n there and (c - p) · n.

    Ends where n would turn too far from where it began, and where it does not turn any more.
    """
    box, corner, start, top, origin, reach, x, order_face, order_tri = tree
    began = direction
    slot = np.int64(-1)
    for _ in range(steps):
        goal = plus(p, times(direction, depth))
        slot = nearest_in_order(
            goal, box, corner, start, top, origin, reach, x, order_face, order_tri, slot, keys, index, cursor
        )  # fmt: skip
        corners = order_face[slot, 0], order_face[slot, 1], order_face[slot, 2]
        n, above = foot_at(p, goal, corners, x, outward, surface)
        if dot(n, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(n, direction)
        depth, direction = above, n
        if dot(turn, turn) <= STEADY * STEADY:
            break
    return depth, direction


@compiled
def _step_run(first, end, nodes, points, steps, outward, surface, tree, out):
    depth, direction, _ = out
    levels = tree[3] + 1
    keys, index, cursor = np.empty(WIDTH * levels, np.int32), np.empty(levels, np.int64), np.empty(levels, np.int64)
    for i in range(first, end):
        n = nodes[i]
        depth[n], foot_direction = _step_to_foot(
            point(points, n), depth[n], point(direction, n), steps, outward, surface, tree, keys, index, cursor
        )  # fmt: skip
        write(direction, n, foot_direction)


@kernel(parallel_from=128)
def step_to_feet(nodes, points, steps, outward, surface, tree, threads, counter, out):
    """Move depth and direction of the given nodes towards the shortest way out."""
    tasks = (len(nodes) + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            _step_run(t * RUN, min((t + 1) * RUN, len(nodes)), nodes, points, steps, outward, surface, tree, out)
            t = claim(counter)
