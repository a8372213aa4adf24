"""The search that follows the pair of spheres that may penetrate deepest first.

Pairs that meet wait in a heap, ordered by how far their spheres overlap, the deepest first; of equal ones the pair with
the lowest slots. The larger sphere of a pair that has children gives way to them, and these are compared with the other
at once: unlike in the queue of Fig. 7, what waits has been tested.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.simd import lowest_bit
from impinge.backend.simd_spheres import sphere_mask
from impinge.detect.sphere_tracking_kernels import track_block
from impinge.detect.sphere_tree_kernels import (
    BACKWARDS,
    FINISHED,
    FOUND,
    FOUND_FULL,
    OUT_OF_TESTS,
    OUT_OF_TIME,
    PEAK,
    QUEUE_FULL,
    TAIL,
    TESTS,
    TRACKED,
)

CLOCK_EVERY = 8
"""Pairs between two looks at the clock."""
_LOW = np.int64(0xFFFFFFFF)


@compiled
def comes_before(key, entry, i, j):
    """Whether place i of a heap comes before place j: the larger key, of equal ones the lower number."""
    return key[i] > key[j] or (key[i] == key[j] and entry[i] < entry[j])


@compiled
def swap(key, entry, i, j):
    """Exchange two places of a heap."""
    key[i], key[j] = key[j], key[i]
    entry[i], entry[j] = entry[j], entry[i]


@compiled
def push(key, entry, count, new_key, new_entry):
    """Add to a heap of ``count``."""
    i = count
    key[i], entry[i] = new_key, new_entry
    while i > 0 and comes_before(key, entry, i, (i - 1) >> 1):
        swap(key, entry, i, (i - 1) >> 1)
        i = (i - 1) >> 1


@compiled
def remove_first(key, entry, count):
    """Take the first away from a heap of ``count``."""
    last = count - 1
    key[0], entry[0] = key[last], entry[last]
    i = 0
    while True:
        best = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < last and comes_before(key, entry, child, best):
                best = child
        if best == i:
            return
        swap(key, entry, i, best)
        i = best


@compiled
def depth_of(sphere_a, slot_a, sphere_b, slot_b):
    """How far two spheres overlap."""
    i, j, k, m = slot_a >> 3, slot_a & 7, slot_b >> 3, slot_b & 7
    dx = sphere_a[i, 0, j] - sphere_b[k, 0, m]
    dy = sphere_a[i, 1, j] - sphere_b[k, 1, m]
    dz = sphere_a[i, 2, j] - sphere_b[k, 2, m]
    return sphere_a[i, 3, j] + sphere_b[k, 3, m] - math.sqrt(dx * dx + dy * dy + dz * dz)


@compiled
def begin_deepest(sphere_a, child_count_a, sphere_b, child_count_b, key, entry, found, state):
    """Compare the roots; they wait, or are found if they are leaves."""
    state[:] = 0
    state[TESTS] = 1
    if sphere_mask(sphere_a, 0, sphere_b[0, 0, 0], sphere_b[0, 1, 0], sphere_b[0, 2, 0], sphere_b[0, 3, 0]) & np.uint64(
        1
    ):
        if child_count_a[0] + child_count_b[0] == 0:
            found[0] = 0
            state[FOUND] = 1
        else:
            push(key, entry, 0, depth_of(sphere_a, 0, sphere_b, 0), np.int64(0))
            state[TAIL] = 1


@compiled
def traverse_deepest(
    tree_a, steering_a, points_a, down_a, tree_b, steering_b, points_b, down_b, key, entry, found, state, limits
):
    """Follow the deepest pair until none is left, or a limit is reached; returns why it stopped.

    Arguments as of ``sphere_tree_kernels.traverse``; ``key`` and ``entry`` are the heap, ``state[TAIL]`` pairs long.
    """
    sphere_a, stamp_a, node_a, lanes_a, rows_a, mode_a, now_a, placing_a, size_a = tree_a
    x_a, control_a, coefficient_a, share_a, surface_a = steering_a
    point_start_a, point_vertex_a, cut_start_a, cut_corner_a, cut_weight_a = points_a
    sphere_b, stamp_b, node_b, lanes_b, rows_b, mode_b, now_b, placing_b, size_b = tree_b
    x_b, control_b, coefficient_b, share_b, surface_b = steering_b
    point_start_b, point_vertex_b, cut_start_b, cut_corner_b, cut_weight_b = points_b
    child_a, child_count_a = down_a
    child_b, child_count_b = down_b
    most_tests, deadline, pair_ns, found_ns, limit, most_blocks, _ = limits
    reason = FINISHED
    rounds = 0
    while state[TAIL] > 0 and reason == FINISHED:
        waiting, count = state[TAIL], state[FOUND]
        if rounds % CLOCK_EVERY == 0 and monotonic_ns() + pair_ns * waiting + found_ns * count >= deadline:
            return OUT_OF_TIME
        if waiting + 8 * most_blocks > len(key):
            return QUEUE_FULL
        if count + 8 * most_blocks > len(found):
            return FOUND_FULL
        rounds += 1
        first = waiting - 1 if waiting > limit else 0
        slot_a, slot_b = entry[first] >> 32, entry[first] & _LOW
        radius_a, radius_b = sphere_a[slot_a >> 3, 3, slot_a & 7], sphere_b[slot_b >> 3, 3, slot_b & 7]
        of_b = child_count_a[slot_a] == 0 or (child_count_b[slot_b] > 0 and radius_b >= radius_a)
        begin = child_b[slot_b] if of_b else child_a[slot_a]
        end = begin + (child_count_b[slot_b] if of_b else child_count_a[slot_a])

        # all children, or none: a pair that is not done waits on
        tests = 0
        for block in range(begin, end):
            tests += lanes_b[block] if of_b else lanes_a[block]
            in_time = True
            if of_b and stamp_b[block] != now_b:
                in_time = track_block(
                    block, sphere_b, stamp_b, node_b, lanes_b, rows_b, mode_b, now_b, placing_b, size_b,
                    x_b, control_b, coefficient_b, share_b, surface_b,
                    point_start_b, point_vertex_b, cut_start_b, cut_corner_b, cut_weight_b, deadline,
                )  # fmt: skip
                state[TRACKED] += 1
            elif not of_b and stamp_a[block] != now_a:
                in_time = track_block(
                    block, sphere_a, stamp_a, node_a, lanes_a, rows_a, mode_a, now_a, placing_a, size_a,
                    x_a, control_a, coefficient_a, share_a, surface_a,
                    point_start_a, point_vertex_a, cut_start_a, cut_corner_a, cut_weight_a, deadline,
                )  # fmt: skip
                state[TRACKED] += 1
            if not in_time:
                return OUT_OF_TIME
        if state[TESTS] + tests > most_tests:
            return OUT_OF_TESTS
        state[TESTS] += tests
        if first == 0:
            remove_first(key, entry, waiting)
        else:
            state[BACKWARDS] += 1
        waiting -= 1
        for block in range(begin, end):
            if of_b:
                i, j = slot_a >> 3, slot_a & 7
                bits = sphere_mask(sphere_b, block, sphere_a[i, 0, j], sphere_a[i, 1, j], sphere_a[i, 2, j], radius_a)
                bits &= (np.uint64(1) << np.uint64(lanes_b[block])) - np.uint64(1)
            else:
                i, j = slot_b >> 3, slot_b & 7
                bits = sphere_mask(sphere_a, block, sphere_b[i, 0, j], sphere_b[i, 1, j], sphere_b[i, 2, j], radius_b)
                bits &= (np.uint64(1) << np.uint64(lanes_a[block])) - np.uint64(1)
            while bits != np.uint64(0):
                slot = (block << 3) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                new_a, new_b = (slot_a, slot) if of_b else (slot, slot_b)
                pair = (new_a << 32) | new_b
                if child_count_a[new_a] + child_count_b[new_b] == 0:
                    found[count] = pair
                    count += 1
                else:
                    push(key, entry, waiting, depth_of(sphere_a, new_a, sphere_b, new_b), pair)
                    waiting += 1
        state[TAIL], state[FOUND] = waiting, count
        state[PEAK] = max(state[PEAK], waiting)
    return reason
