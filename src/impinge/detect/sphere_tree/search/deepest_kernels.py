"""The best-first traversal: it follows the pair of spheres with the largest overlap first.

Pairs that meet wait in a heap, ordered by how far their spheres overlap, the deepest first; of equal ones the pair with
the lowest slots. The larger sphere of a pair that has children is replaced by them, and these are tested against the
other at once: unlike in the queue of Fig. 7, waiting pairs have been tested.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.raw_arrays_kernels import float64_at
from impinge.backend.simd.boxes import lowest_bit
from impinge.backend.simd.spheres import sphere_mask
from impinge.detect.sphere_tree.build.enclosing_ball_kernels import distance_sq
from impinge.detect.sphere_tree.search import context_kernels as c
from impinge.detect.sphere_tree.search import tree_kernels as t
from impinge.detect.sphere_tree.track.tracking_kernels import LANES, LEVEL, STAMP, sphere_at

CLOCK_EVERY = 8
"""Pairs between two readings of the clock, which is also read after each tracked block."""


@compiled
def comes_before(key, entry, i, j):
    """Order of the heap: the larger key first, of equal ones the lower entry."""
    return key[i] > key[j] or (key[i] == key[j] and entry[i] < entry[j])


@compiled
def swap(key, entry, i, j):
    """Exchange two places of the heap."""
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
    """Remove the first of a heap of ``count``."""
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
def key_of(context):
    """The keys of the heap."""
    return float64_at(context[c.KEY_AT], context[c.KEY_AT + 1])


@compiled
def depth_of(sphere_a, slot_a, sphere_b, slot_b):
    """How far two spheres overlap."""
    a, b = sphere_at(sphere_a, slot_a), sphere_at(sphere_b, slot_b)
    return a[3] + b[3] - math.sqrt(distance_sq(a, b))


@compiled
def begin(context, is_tracked):
    """Test the roots: the pair waits, or is found if both are leaves; untracked, it waits untested."""
    state, one_body = context[c.STATE :], c.one_body_of(context)
    state[:] = 0
    tree_a, tree_b = c.tree_of(context, 0), c.tree_of(context, 1)
    a, b = t.spheres_of(tree_a), t.spheres_of(tree_b)
    if is_tracked:
        state[c.TESTS] = 1
        bits = sphere_mask(a, 0, *sphere_at(b, 0))
        if bits & np.uint64(1) == np.uint64(0):
            return
        if t.int64s_at(context, c.DOWN_AT)[0] + t.int64s_at(context, c.DOWN_B_AT)[0] == 0:
            t.int64s_at(context, c.FOUND_AT)[0] = 0
            state[c.FOUND] = 0 if c.are_neighbours(one_body, t.table_of(tree_a), 0, 0) else 1
            return
    push(key_of(context), t.int64s_at(context, c.QUEUE_AT), 0, depth_of(a, 0, b, 0) if is_tracked else 0.0, np.int64(0))
    state[c.TAIL] = 1


@compiled
def traverse(context, most_tests, until, deadline):
    """Follow the deepest pair until none is left or a limit is reached; returns why it stopped.

    Arguments as of ``breadth_kernels.traverse``. The heap has ``state[TAIL]`` pairs.
    """
    key, entry, found = key_of(context), t.int64s_at(context, c.QUEUE_AT), t.int64s_at(context, c.FOUND_AT)
    state, one_body = context[c.STATE :], c.one_body_of(context)
    down_a, down_b = t.int64s_at(context, c.DOWN_AT), t.int64s_at(context, c.DOWN_B_AT)
    tree_a, tree_b = c.tree_of(context, 0), c.tree_of(context, 1)
    sphere_a, sphere_b, table_a = t.spheres_of(tree_a), t.spheres_of(tree_b), t.table_of(tree_a)
    pair_ns, found_ns, limit = c.listing_ns(context, 1, 0), c.listing_ns(context, 0, 1), context[c.LIMIT]
    most_new, rounds = 8 * context[c.MOST_BLOCKS], 0
    while state[c.TAIL] > 0:
        waiting, count = state[c.TAIL], state[c.FOUND]
        if rounds % CLOCK_EVERY == 0:
            now = monotonic_ns()
            if now + pair_ns * waiting + found_ns * count >= deadline:
                return c.OUT_OF_TIME
            if now >= until:
                return c.PAUSED
        if waiting + most_new > len(key):
            return c.QUEUE_FULL
        if count + most_new > len(found):
            return c.FOUND_FULL
        rounds += 1
        first = waiting - 1 if waiting > limit else 0
        slot_a, slot_b = entry[first] >> 32, entry[first] & c.LOW
        radius_a, radius_b = sphere_a[slot_a >> 3, 3, slot_a & 7], sphere_b[slot_b >> 3, 3, slot_b & 7]
        side = int(down_a[slot_a] == 0 or (down_b[slot_b] > 0 and radius_b >= radius_a))
        parent, partner = (slot_b, slot_a) if side else (slot_a, slot_b)
        own, sphere = c.tree_of(context, side), t.spheres_of(c.tree_of(context, 1 - side))
        table, begin = t.table_of(own), t.int64s_at(own, t.CHILD_AT)[parent]
        end = begin + t.int64s_at(context, c.DOWN_AT + 2 * side)[parent]

        # all children, or none: a pair that is not done keeps waiting
        tests = 0
        for block in range(begin, end):
            tests += table[block, LANES]
            if table[block, STAMP] != own[t.NOW]:
                in_time = t.track_block(own, block, deadline)
                state[c.TRACKED] += 1
                if not in_time or monotonic_ns() + pair_ns * waiting + found_ns * count >= deadline:
                    return c.OUT_OF_TIME
        if state[c.TESTS] + tests > most_tests:
            return c.OUT_OF_TESTS
        state[c.TESTS] += tests
        if first == 0:
            remove_first(key, entry, waiting)
        else:
            state[c.BACKWARDS] += 1
        waiting -= 1
        for block in range(begin, end):
            bits = sphere_mask(t.spheres_of(own), block, *sphere_at(sphere, partner))
            bits &= (np.uint64(1) << np.uint64(table[block, LANES])) - np.uint64(1)
            while bits != np.uint64(0):
                slot = (block << 3) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                new_a, new_b = (slot_a, slot) if side else (slot, slot_b)
                pair = (new_a << 32) | new_b
                if c.is_mirrored(one_body, new_a, new_b):
                    continue
                if down_a[new_a] + down_b[new_b] > 0:
                    push(key, entry, waiting, depth_of(sphere_a, new_a, sphere_b, new_b), pair)
                    waiting += 1
                elif not c.are_neighbours(one_body, table_a, new_a, new_b):
                    found[count] = pair
                    count += 1
        state[c.TAIL], state[c.FOUND] = waiting, count
        state[c.PEAK] = max(state[c.PEAK], waiting)
    return c.FINISHED


@compiled
def list_waiting(context):
    """Write waiting pairs as (node of a, node of b), the deepest first, if there is room, which empties the heap."""
    state, pairs, key, entry = (
        context[c.STATE :],
        c.waiting_of(context),
        key_of(context),
        t.int64s_at(context, c.QUEUE_AT),
    )
    table_a, table_b = t.table_of(c.tree_of(context, 0)), t.table_of(c.tree_of(context, 1))
    state[c.WAITING], lowest = state[c.TAIL], np.int64(1 << 30)
    if state[c.WAITING] > len(pairs):
        return
    for k in range(state[c.WAITING]):
        slot_a, slot_b = entry[0] >> 32, entry[0] & c.LOW
        pairs[k, 0], pairs[k, 1] = c.node_at(table_a, slot_a), c.node_at(table_b, slot_b)
        lowest = min(lowest, table_a[slot_a >> 3, LEVEL], table_b[slot_b >> 3, LEVEL])
        remove_first(key, entry, state[c.WAITING] - k)
    state[c.LOWEST] = lowest
