"""The triangles below pairs of leaves that meet, tested in doubles with a bound on rounding."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.detect.common.narrow_phase_kernels import face
from impinge.detect.common.pair_query_kernels import pair_key
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.neighbours import neighbours_filtered, shared_count
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import own_bound, triangle_triangle_filtered

CURSOR, TESTS, FOUND = range(3)
"""Places in ``state``: pairs of leaves done, pairs of triangles so far, and keys written."""
DONE, OUT_OF_TIME, OUT_OF_TESTS, FULL = range(4)
CLOCK_EVERY = 64
"""Tests between two readings of the clock."""


@compiled
def box_around(x, faces, tri, first, stop):
    """The box around some triangles: lower and upper ends."""
    lo_x = lo_y = lo_z = np.inf
    hi_x = hi_y = hi_z = -np.inf
    for n in range(first, stop):
        for corner in range(3):
            v = faces[tri[n], corner]
            lo_x, hi_x = min(lo_x, x[v, 0]), max(hi_x, x[v, 0])
            lo_y, hi_y = min(lo_y, x[v, 1]), max(hi_y, x[v, 1])
            lo_z, hi_z = min(lo_z, x[v, 2]), max(hi_z, x[v, 2])
    return (lo_x, lo_y, lo_z), (hi_x, hi_y, hi_z)


@compiled
def meets_box(p, q, r, lo, hi):
    """Whether the box around a triangle meets another box."""
    is_apart = False
    for k in range(3):
        is_apart |= min(p[k], q[k], r[k]) > hi[k] or max(p[k], q[k], r[k]) < lo[k]
    return not is_apart


@compiled
def examine_leaf_pairs(leaves, side_a, side_b, limits, policy, state, key, row):
    """Test triangles below pairs of leaves, in order; keys of those that meet or may, and the pair that each is below.

    A side: positions, faces, triangles by node (starts and ids). ``limits``: most tests, the deadline, and nanoseconds
    to list each key. A pair of leaves counts as as many tests as it has pairs of triangles. ``policy``: whether both
    are one body, and whether its triangles that share a vertex are skipped. Keys of uncertain pairs have no kind.
    """
    is_self, skips_neighbours = policy
    most_tests, deadline, key_ns = limits
    x_a, faces_a, start_a, tri_a = side_a
    x_b, faces_b, start_b, tri_b = side_b
    looked = 0
    while state[CURSOR] < len(leaves):
        i = state[CURSOR]
        a, b = leaves[i, 0], leaves[i, 1]
        count_b = start_b[b + 1] - start_b[b]
        tests = (start_a[a + 1] - start_a[a]) * count_b
        if state[TESTS] + tests > most_tests:
            return OUT_OF_TESTS
        if state[FOUND] + tests > len(key):
            return FULL
        if monotonic_ns() + key_ns * state[FOUND] >= deadline:
            return OUT_OF_TIME
        found = state[FOUND]
        lo, hi = box_around(x_b, faces_b, tri_b, start_b[b], start_b[b + 1])
        for m in range(start_a[a], start_a[a + 1]):
            f = face(faces_a, tri_a[m])
            p, q, r = point(x_a, f[0]), point(x_a, f[1]), point(x_a, f[2])
            looked += 1
            if looked % CLOCK_EVERY == 0 and monotonic_ns() + key_ns * found >= deadline:
                return OUT_OF_TIME
            if not meets_box(p, q, r, lo, hi):
                continue
            lo_a, hi_a = box_around(x_a, faces_a, tri_a, m, m + 1)
            for n in range(start_b[b], start_b[b + 1]):
                g = face(faces_b, tri_b[n])
                s, t, u = point(x_b, g[0]), point(x_b, g[1]), point(x_b, g[2])
                i_a, i_b = tri_a[m], tri_b[n]
                if is_self and (i_a == i_b or (a == b and i_a > i_b)):
                    continue
                looked += 1
                if looked % CLOCK_EVERY == 0 and monotonic_ns() + key_ns * found >= deadline:
                    return OUT_OF_TIME
                if not meets_box(s, t, u, lo_a, hi_a):
                    continue
                bound = own_bound(p, q, r, s, t, u)
                if not is_self or shared_count(f, g) == 0:
                    kind = triangle_triangle_filtered(p, q, r, s, t, u, bound)
                elif skips_neighbours:
                    kind = NONE
                else:
                    kind = neighbours_filtered(x_a, f, g, bound)
                if kind != NONE:
                    if is_self:
                        i_a, i_b = min(i_a, i_b), max(i_a, i_b)
                    key[found], row[found] = pair_key(i_a, i_b, 0 if kind == UNCERTAIN else kind), i
                    found += 1
        state[FOUND] = found
        state[TESTS] += tests
        state[CURSOR] += 1
    return DONE
