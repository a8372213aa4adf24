"""The smallest ball around points, and a small one around balls.

Points    An LP-type problem: the ball is that of a basis of at most four points. The farthest point from the ball of
          the present basis enters; the new basis is the best of the few subsets that hold it ([Gaertner1999]'s pivot,
          with the subsets tried one by one). The radius grows with every step, and some ten passes over the points do.
Balls     The centre steps towards the far side of the farthest ball, by ever smaller steps ([BadoiuClarkson2003]); the
          best centre seen is kept.

Both give a centre; radii are measured from it afterwards: rounding costs tightness, never coverage.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, inlined
from impinge.exact.orientation import point

CONTAINS = 1.0 + 1e-12
"""A point whose squared distance is this many times the squared radius still counts as inside, while searching."""
PASSES = 100
"""Basis exchanges after which the search ends; some ten are usual."""
STEPS = 200
"""Steps towards the ball around balls: the radius is within a percent of the least."""


@inlined
def distance_sq(p, q):
    """Squared distance of two points."""
    dx, dy, dz = p[0] - q[0], p[1] - q[1], p[2] - q[2]
    return dx * dx + dy * dy + dz * dz


@compiled
def spread(position, ids, most, chosen):
    """Choose up to ``most`` of some points by farthest-point sampling, the first one first; returns how many.

    Points that coincide with a chosen one are left out.
    """
    nearest_sq = np.full(len(ids), math.inf)
    at, count = 0, min(most, len(ids))
    for k in range(count):
        chosen[k] = ids[at]
        last, farthest = point(position, ids[at]), 0
        for i in range(len(ids)):
            nearest_sq[i] = min(nearest_sq[i], distance_sq(point(position, ids[i]), last))
            if nearest_sq[i] > nearest_sq[farthest]:
                farthest = i
        if nearest_sq[farthest] <= 0.0:
            return k + 1
        at = farthest
    return count


@compiled
def _ball_through(basis, mask, entering, count, centre):
    """Centre and squared radius of the ball through the entering point and those in ``mask``; -1 if there is none."""
    vector = np.zeros((3, 3))
    used = 0
    for i in range(count):
        if mask >> i & 1:
            for k in range(3):
                vector[used, k] = basis[i, k] - entering[k]
            used += 1
    gram, right = np.eye(3), np.zeros(3)  # unused equations are those of the identity
    for i in range(used):
        for j in range(used):
            dot = vector[i, 0] * vector[j, 0] + vector[i, 1] * vector[j, 1] + vector[i, 2] * vector[j, 2]
            gram[i, j] = 2.0 * dot
        right[i] = 0.5 * gram[i, i]
    # solve for weights by Cramer's rule
    a, b, c = gram[0, 0], gram[0, 1], gram[0, 2]
    d, e, f = gram[1, 1], gram[1, 2], gram[2, 2]
    m0, m1, m2, m3 = d * f - e * e, c * e - b * f, b * e - c * d, b * c - a * e
    determinant = a * m0 + b * m1 + c * m2
    if not determinant > 1e-14 * a * d * f:
        return -1.0
    s = (right[0] * m0 + right[1] * m1 + right[2] * m2) / determinant
    t = (right[0] * m1 + right[1] * (a * f - c * c) + right[2] * m3) / determinant
    u = (right[0] * m2 + right[1] * m3 + right[2] * (a * d - b * b)) / determinant
    radius_sq = 0.0
    for k in range(3):
        offset = s * vector[0, k] + t * vector[1, k] + u * vector[2, k]
        centre[k] = entering[k] + offset
        radius_sq += offset * offset
    return radius_sq


@compiled
def _exchange(basis, count, entering, centre, trial):
    """Replace the basis by that of itself and the entering point; new count and squared radius, count 0 if none."""
    best_mask, best_sq = 0, math.inf
    for mask in range(1, 1 << count):
        if mask == 15:  # the ball is that of four points at most, one of them enters
            continue
        radius_sq = _ball_through(basis, mask, entering, count, trial)
        if radius_sq < 0.0 or radius_sq >= best_sq:
            continue
        holds = True
        for i in range(count):
            holds &= distance_sq(point(basis, i), trial) <= radius_sq * CONTAINS
        if holds:
            best_mask, best_sq = mask, radius_sq
            centre[:] = trial
    if best_mask == 0:
        return 0, 0.0
    kept = 0
    for i in range(count):
        if best_mask >> i & 1:
            basis[kept] = basis[i]
            kept += 1
    basis[kept] = entering
    return kept + 1, best_sq


@compiled
def _farthest(points, start, stop, centre):
    """The point farthest from ``centre`` (the first of several), and its squared distance."""
    best, best_sq = start, -1.0
    for i in range(start, stop):
        far_sq = distance_sq(point(points, i), centre)
        if far_sq > best_sq:
            best, best_sq = i, far_sq
    return best, best_sq


@compiled
def ball_around_points(points, start, stop, centre):
    """Centre of the smallest ball around ``points[start:stop]``, to rounding."""
    far, _ = _farthest(points, start, stop, points[start])
    basis, trial, found = np.zeros((5, 3)), np.zeros(3), np.zeros(3)
    basis[0] = centre[:] = points[far]
    count, radius_sq = 1, 0.0
    for _ in range(PASSES):
        far, far_sq = _farthest(points, start, stop, centre)
        if far_sq <= radius_sq * CONTAINS:
            return
        count, new_sq = _exchange(basis, count, points[far], found, trial)
        if count == 0 or new_sq <= radius_sq:
            return
        centre[:] = found
        radius_sq = new_sq


@compiled
def ball_around_balls(centres, radii, start, stop, centre):
    """Move ``centre``, the first guess, to where the ball around the balls is small."""
    at = centre.copy()
    least = math.inf
    for step in range(STEPS):
        far, reach = start, -1.0  # the ball that reaches farthest, and how far
        for i in range(start, stop):
            its_reach = math.sqrt(distance_sq(point(centres, i), at)) + radii[i]
            if its_reach > reach:
                far, reach = i, its_reach
        if reach < least:
            least = reach
            centre[:] = at
        length = reach - radii[far]
        if length == 0.0:
            return
        share = (reach / length) / (step + 2)
        for k in range(3):
            at[k] += share * (centres[far, k] - at[k])
