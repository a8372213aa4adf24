"""Reduce the medial spheres of a node to a few that cover its pieces with the least worst error.

All steps read one matrix: ``need[i, j]`` is the overshoot that sphere i must have to hold piece j, that is the distance
from its centre to the farthest corner of the piece, less the depth of the centre in the solid. A set of spheres in
which each piece goes to the sphere that needs least for it has the worst of these needs as its error.

MERGE   starts from one group per sphere and joins the two groups for which some sphere needs least.
BURST   removes spheres, whose pieces go to the others; that one first for which the sixth powers of the errors of the
        others come out least, and before all those that leave no error larger than their own.
EXPAND  gives all spheres the same overshoot, picks the one that covers most of what is left, and so on; bisection finds
        the least overshoot for which few enough spheres suffice.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.sphere_tree.build.enclosing_ball_kernels import distance_sq, spread
from impinge.exact.orientation import point

TINY = 1e-300
BISECTIONS = 24
"""Steps of EXPAND: the overshoot is known to a ten-millionth."""


@compiled
def _nearest(need, alive, j, other_than):
    """The sphere that needs least for piece j, another one left out; -1 if there is none."""
    best, least = -1, math.inf
    for i in range(len(alive)):
        if alive[i] and i != other_than and need[i, j] < least:
            best, least = i, need[i, j]
    return best


@compiled
def _union_cost(a, b):
    """Least need of any sphere for two groups, whose needs by sphere are ``a`` and ``b``, and that sphere."""
    best, least = 0, math.inf
    for i in range(len(a)):
        worse = max(a[i], b[i])
        if worse < least:
            best, least = i, worse
    return best, least


@compiled
def merge(need, branching, chosen):
    """MERGE: fill ``chosen``, return how many spheres there are."""
    sphere_count, piece_count = need.shape
    group_of = np.full(sphere_count, -1)
    group_need = np.zeros((sphere_count, sphere_count))
    sphere = np.zeros(sphere_count, np.int64)
    count = 0
    for j in range(piece_count):
        owner = np.argmin(need[:, j])
        if group_of[owner] < 0:
            group_of[owner] = count
            sphere[count] = owner
            count += 1
        group_need[group_of[owner]] = np.maximum(group_need[group_of[owner]], need[:, j])
    cost = np.full((count, count), math.inf)
    for g in range(count):
        for h in range(g):
            _, cost[g, h] = _union_cost(group_need[g], group_need[h])
    alive = np.ones(count, np.bool_)
    left = count
    while left > branching:
        best_g, best_h, least = 0, 0, math.inf
        for g in range(count):
            if alive[g]:
                for h in range(g):
                    if alive[h] and cost[g, h] < least:
                        best_g, best_h, least = g, h, cost[g, h]
        alive[best_g] = False
        left -= 1
        sphere[best_h], _ = _union_cost(group_need[best_g], group_need[best_h])
        group_need[best_h] = np.maximum(group_need[best_h], group_need[best_g])
        for g in range(count):
            if alive[g] and g != best_h:
                _, joined = _union_cost(group_need[g], group_need[best_h])
                cost[max(g, best_h), min(g, best_h)] = joined
    chosen[:left] = sphere[:count][alive]
    return left


@compiled
def burst(need, branching, chosen):
    """BURST: fill ``chosen``, return how many spheres there are."""
    sphere_count, piece_count = need.shape
    alive = np.zeros(sphere_count, np.bool_)
    owner, heir = np.zeros(piece_count, np.int64), np.zeros(piece_count, np.int64)
    for j in range(piece_count):
        owner[j] = np.argmin(need[:, j])
        alive[owner[j]] = True
    left = alive.sum()
    for j in range(piece_count):
        heir[j] = _nearest(need, alive, j, owner[j])
    raised, largest = np.full(sphere_count, -1.0), max(TINY, need.max())
    while left > branching:
        # errors of the spheres, and the pieces of each as a linked list that ends with -1
        error, first, following = np.zeros(sphere_count), np.full(sphere_count, -1), np.zeros(piece_count, np.int64)
        for j in range(piece_count):
            i = owner[j]
            error[i] = max(error[i], need[i, j])
            following[j] = first[i]
            first[i] = j
        best, best_raises, least = -1, True, math.inf
        for i in np.flatnonzero(alive):  # what its removal would do: largest error of an heir, sum of sixth powers
            worst, cost = 0.0, 0.0
            j = first[i]
            while j >= 0:
                k = heir[j]
                raised[k] = max(error[k], raised[k], need[k, j])
                j = following[j]
            j = first[i]
            while j >= 0:
                k = heir[j]
                j = following[j]
                if raised[k] >= 0.0:
                    worst = max(worst, raised[k])
                    cost += (raised[k] / largest) ** 6
                    raised[k] = -1.0
            raises = worst > error[i]
            if (best_raises and not raises) or (raises == best_raises and cost < least):
                best, best_raises, least = i, raises, cost
        alive[best] = False
        left -= 1
        for j in range(piece_count):
            if owner[j] == best:
                owner[j] = heir[j]
            if heir[j] == best or heir[j] == owner[j]:
                heir[j] = _nearest(need, alive, j, owner[j])
    chosen[:left] = np.flatnonzero(alive)
    return left


@compiled
def _cover(need, overshoot, branching, chosen):
    """Pick spheres with an overshoot until all is covered; how many, or more than allowed if that fails."""
    sphere_count, piece_count = need.shape
    covered, left = np.zeros(piece_count, np.bool_), piece_count
    for k in range(branching):
        best, most = 0, -1
        for i in range(sphere_count):
            gain = 0
            for j in range(piece_count):
                gain += not covered[j] and need[i, j] <= overshoot
            if gain > most:
                best, most = i, gain
        chosen[k] = best
        for j in range(piece_count):
            if not covered[j] and need[best, j] <= overshoot:
                covered[j] = True
                left -= 1
        if left == 0:
            return k + 1
        if most == 0:
            break
    return branching + 1


@compiled
def expand(need, branching, chosen):
    """EXPAND: fill ``chosen``, return how many spheres there are."""
    trial = np.zeros(branching, np.int64)
    low, high, kept = 0.0, math.inf, 1
    for i in range(need.shape[0]):
        worst = need[i].max()
        if worst < high:
            high, chosen[0] = worst, i
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        count = _cover(need, middle, branching, trial)
        if count <= branching:
            high, kept = middle, count
            chosen[:count] = trial[:count]
        else:
            low = middle
    return kept


@compiled
def _drop_redundant(need, chosen, count, radius_need):
    """Drop spheres all of whose pieces others hold at the errors that they have; fills those, returns the count."""
    piece_count = need.shape[1]
    owner = np.zeros(piece_count, np.int64)
    radius_need[:count] = 0.0
    for j in range(piece_count):
        owner[j] = best = np.argmin(need[chosen[:count], j])
        radius_need[best] = max(radius_need[best], need[chosen[best], j])
    is_kept = np.ones(count, np.bool_)
    for k in range(count):
        heir, is_redundant = owner.copy(), count > 1
        for j in range(piece_count):
            if owner[j] == k:
                heir[j] = -1
                for other in range(count):
                    if is_kept[other] and other != k and need[chosen[other], j] <= radius_need[other]:
                        heir[j] = other
                is_redundant &= heir[j] >= 0
        if is_redundant:
            is_kept[k], owner = False, heir
    rows = np.flatnonzero(is_kept)
    chosen[: len(rows)], radius_need[: len(rows)] = chosen[rows], radius_need[rows]
    return len(rows)


@kernel(parallel_from=2)
def reduce_nodes(points, piece_start, centre, depth, sphere_start, cluster_count, most, chosen, overshoot, count):
    """Reduce the spheres of each node to at most ``chosen.shape[1]``; rows of spheres, their errors, and how many.

    The corners of a piece are rows 3 j to 3 j + 2 of ``points``.

    The best of MERGE, BURST, EXPAND and of the clusters, whose spheres are the last ``cluster_count[n]`` of
    ``sphere_start[n] .. sphere_start[n + 1]``.
    """
    for n in prange(len(count)):
        branching, first, clusters = chosen.shape[1], sphere_start[n], cluster_count[n]
        medial = sphere_start[n + 1] - first - clusters
        rows = np.zeros(min(most, medial) + clusters, np.int64)
        used = spread(centre, np.arange(first, first + medial), most, rows)
        rows = rows[: used + clusters]
        rows[used:] = np.arange(first + medial, first + medial + clusters)
        need = np.zeros((len(rows), piece_start[n + 1] - piece_start[n]))
        for k, i in enumerate(rows):
            for j in range(need.shape[1]):
                far_sq = 0.0
                for corner in range(3 * (piece_start[n] + j), 3 * (piece_start[n] + j + 1)):
                    far_sq = max(far_sq, distance_sq(point(points, corner), point(centre, i)))
                need[k, j] = max(math.sqrt(far_sq) - depth[i], 0.0)
        picked, trial = np.zeros(branching, np.int64), np.zeros(branching, np.int64)
        kept, least = 0, math.inf
        for method in range(4):
            if method == 0:
                size = merge(need, branching, trial)
            elif method == 1:
                size = burst(need, branching, trial)
            elif method == 2:
                size = expand(need, branching, trial)
            else:
                size = clusters
                trial[:clusters] = np.arange(used, used + clusters)
            worst = 0.0
            for j in range(need.shape[1] if size > 0 else 0):
                worst = max(worst, need[trial[:size], j].min())
            if size > 0 and worst < least:
                kept, least = size, worst
                picked[:size] = trial[:size]
        count[n] = _drop_redundant(need, picked, kept, overshoot[n])
        chosen[n, : count[n]] = rows[picked[: count[n]]]


@compiled
def _least_power(p, centre, radius_sq, count):
    """The ball on whose side of all radical planes a point is."""
    best, least = 0, math.inf
    for k in range(count):
        power = distance_sq(p, point(centre, k)) - radius_sq[k]
        if power < least:
            best, least = k, power
    return best


@kernel()
def label_pieces(points, owner, centre, radius_sq, count, label, straddles):
    """Give each piece to the ball of its node that its middle is in; say where corners belong to different balls."""
    for i in prange(len(owner)):
        n = owner[i]
        middle = (points[i, 0] + points[i, 1] + points[i, 2]) / 3.0
        label[i] = _least_power(middle, centre[n], radius_sq[n], count[n])
        for corner in range(3):
            straddles[i] |= _least_power(points[i, corner], centre[n], radius_sq[n], count[n]) != label[i]
