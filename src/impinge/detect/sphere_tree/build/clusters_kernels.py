"""Compiled parts of the octree builder: divide the pieces of a node, put balls around them, measure radii."""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.detect.sphere_tree.build.enclosing_ball_kernels import ball_around_balls, ball_around_points, distance_sq
from impinge.exact.orientation import point

ROUNDS = 4
"""Rounds of k-means. More change radii by less than a percent."""
OUTWARDS = 1.0 + 16.0 * 2.0**-53
"""Factor that makes a computed distance an upper bound, of its own rounding and of that of a test against it."""
TINY_SQ = 1e-280
"""Squares below may have lost bits to underflow."""


@compiled
def _halve_the_widest(middle, start, stop, label, branching):
    """Halve the box of the widest group until there are ``branching`` groups; returns how many there are."""
    extent, axis, cut = np.zeros(branching), np.zeros(branching, np.int64), np.zeros(branching)
    lo, hi = np.zeros(3), np.zeros(3)
    label[start:stop] = 0
    count = 1
    fresh = (0, 0)
    while True:
        for group in fresh:
            lo[:], hi[:] = math.inf, -math.inf
            for i in range(start, stop):
                if label[i] == group:
                    for k in range(3):
                        lo[k], hi[k] = min(lo[k], middle[i, k]), max(hi[k], middle[i, k])
            axis[group] = k = np.argmax(hi - lo)
            extent[group], cut[group] = max(hi[k] - lo[k], 0.0), 0.5 * lo[k] + 0.5 * hi[k]
        if count == branching:
            return count
        widest = np.argmax(extent[:count])
        if extent[widest] == 0.0:
            return count
        moved = 0
        for i in range(start, stop):
            if label[i] == widest and middle[i, axis[widest]] > cut[widest]:
                label[i] = count
                moved += 1
        if moved == 0:  # the middle of neighbouring doubles is one of them
            extent[widest] = 0.0
            fresh = (count, count)
            continue
        fresh = (widest, count)
        count += 1


@compiled
def _mean_of_groups(middle, start, stop, label, count, mean, size):
    mean[:], size[:] = 0.0, 0
    for i in range(start, stop):
        size[label[i]] += 1
        for k in range(3):
            mean[label[i], k] += middle[i, k]
    for group in range(count):
        mean[group] /= max(size[group], 1)


@compiled
def _divide(middle, start, stop, label, branching):
    """Label the pieces of one node by child: 0 .. count - 1, none empty; returns the count."""
    count = stop - start
    if count <= branching:
        label[start:stop] = np.arange(count)
        return count
    count = _halve_the_widest(middle, start, stop, label, branching)
    mean, size = np.zeros((count, 3)), np.zeros(count, np.int64)
    for _ in range(ROUNDS):
        _mean_of_groups(middle, start, stop, label, count, mean, size)
        for i in range(start, stop):
            best_sq = math.inf
            for group in range(count):
                if size[group] == 0:
                    continue
                group_sq = distance_sq(point(middle, i), point(mean, group))
                if group_sq < best_sq:
                    best_sq, label[i] = group_sq, group
    _mean_of_groups(middle, start, stop, label, count, mean, size)
    rank = np.cumsum(np.minimum(size, 1))
    label[start:stop] = rank[label[start:stop]] - 1
    return rank[-1]


@kernel(parallel_from=2)
def divide_nodes(start, stop, middle, branching, child_count, label):
    """Divide the pieces of every node: the number of its children, and the child of each of its pieces."""
    for n in prange(len(start)):
        child_count[n] = _divide(middle, start[n], stop[n], label, branching)


@kernel(parallel_from=8)
def balls_around_pieces(start, stop, points, centre):
    """Centres of the smallest balls around ranges of pieces, whose corners are rows 3 i to 3 i + 2 of ``points``."""
    for n in prange(len(start)):
        ball_around_points(points, 3 * start[n], 3 * stop[n], centre[n])


@inlined
def _distance_or_more(p, q):
    """The distance of two points as computed, or an upper bound where squares underflow."""
    dx, dy, dz = abs(p[0] - q[0]), abs(p[1] - q[1]), abs(p[2] - q[2])
    square = dx * dx + dy * dy + dz * dz
    return math.sqrt(square) if square > TINY_SQ else 1.75 * max(dx, dy, dz)


@kernel(parallel_from=8)
def radii_around_pieces(start, stop, centre, points, slack, radius):
    """Radii, rounded outwards, of balls around ranges of pieces, whose corners are known up to ``slack``."""
    for n in prange(len(start)):
        reach = 0.0
        for i in range(3 * start[n], 3 * stop[n]):
            reach = max(reach, _distance_or_more(points[i], centre[n]) + slack[i // 3])
        radius[n] = reach * OUTWARDS


@compiled
def layer_upwards(first_child, child_count, centre, radius):
    """Let the ball of every inner node hold those of its children, from the last node to the first."""
    for n in range(len(radius) - 1, -1, -1):
        if child_count[n] == 0:
            continue
        start, stop = first_child[n], first_child[n] + child_count[n]
        ball_around_balls(centre, radius, start, stop, centre[n])
        reach = 0.0
        for child in range(start, stop):
            reach = max(reach, _distance_or_more(centre[child], centre[n]) + radius[child])
        radius[n] = reach * OUTWARDS
