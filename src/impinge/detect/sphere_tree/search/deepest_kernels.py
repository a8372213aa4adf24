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
from impinge.backend.raw_arrays_kernels import float64_at, int64_at
from impinge.backend.simd.boxes import lowest_bit
from impinge.backend.simd.spheres import sphere_mask
from impinge.detect.sphere_tree.search.kernels import (
    BACKWARDS,
    FINISHED,
    FOUND,
    FOUND_AT,
    FOUND_FULL,
    FOUND_SIZE,
    KEY_AT,
    LOWEST,
    OUT_OF_TESTS,
    OUT_OF_TIME,
    PAUSED,
    PEAK,
    QUEUE_AT,
    QUEUE_FULL,
    QUEUE_SIZE,
    STATE,
    TAIL,
    TESTS,
    TRACKED,
    WAITING,
    WAITING_SIZE,
    alone_on,
    are_neighbours,
    cards_on,
    deadline_of,
    downs_on,
    is_twin,
    learn_from_last,
    limits_on,
    list_found,
    listed,
    stop,
    summary_of,
    waiting_on,
)
from impinge.detect.sphere_tree.track.tracking_kernels import (
    LANES,
    LEVEL,
    NODE,
    NOW,
    STAMP,
    children_of,
    root_ns,
    spheres_of,
    table_of,
    track_block,
    track_root,
)

CLOCK_EVERY = 8
"""Pairs between two looks at the clock, which is looked at after each block that is tracked, too."""
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
def begin_deepest(sphere_a, child_count_a, sphere_b, child_count_b, table_a, alone, key, entry, found, state):
    """Compare the roots; they wait, or are found if they are leaves."""
    state[:] = 0
    state[TESTS] = 1
    if sphere_mask(sphere_a, 0, sphere_b[0, 0, 0], sphere_b[0, 1, 0], sphere_b[0, 2, 0], sphere_b[0, 3, 0]) & np.uint64(
        1
    ):
        if child_count_a[0] + child_count_b[0] == 0:
            found[0] = 0
            state[FOUND] = 0 if are_neighbours(alone, table_a, 0, 0) else 1
        else:
            push(key, entry, 0, depth_of(sphere_a, 0, sphere_b, 0), np.int64(0))
            state[TAIL] = 1


@compiled
def traverse_deepest(card_a, child_count_a, card_b, child_count_b, alone, key, entry, found, state, limits):
    """Follow the deepest pair until none is left, or a limit is reached; returns why it stopped.

    Arguments as of ``sphere_tree_kernels.traverse``; ``key`` and ``entry`` are the heap, ``state[TAIL]`` pairs long.
    """
    sphere_a, table_a, (child_a, _), now_a = spheres_of(card_a), table_of(card_a), children_of(card_a), card_a[NOW]
    sphere_b, table_b, (child_b, _), now_b = spheres_of(card_b), table_of(card_b), children_of(card_b), card_b[NOW]
    most_tests, until, deadline, pair_ns, found_ns, limit, most_blocks = limits
    reason = FINISHED
    rounds = 0
    while state[TAIL] > 0 and reason == FINISHED:
        waiting, count = state[TAIL], state[FOUND]
        if rounds % CLOCK_EVERY == 0:
            now = monotonic_ns()
            if now + pair_ns * waiting + found_ns * count >= deadline:
                return OUT_OF_TIME
            if now >= until:
                return PAUSED
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
            tests += table_b[block, LANES] if of_b else table_a[block, LANES]
            if of_b and table_b[block, STAMP] != now_b:
                in_time = track_block(card_b, block, deadline)
            elif not of_b and table_a[block, STAMP] != now_a:
                in_time = track_block(card_a, block, deadline)
            else:
                continue
            state[TRACKED] += 1
            if not in_time or monotonic_ns() + pair_ns * waiting + found_ns * count >= deadline:
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
                bits &= (np.uint64(1) << np.uint64(table_b[block, LANES])) - np.uint64(1)
            else:
                i, j = slot_b >> 3, slot_b & 7
                bits = sphere_mask(sphere_a, block, sphere_b[i, 0, j], sphere_b[i, 1, j], sphere_b[i, 2, j], radius_b)
                bits &= (np.uint64(1) << np.uint64(table_a[block, LANES])) - np.uint64(1)
            while bits != np.uint64(0):
                slot = (block << 3) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                new_a, new_b = (slot_a, slot) if of_b else (slot, slot_b)
                pair = (new_a << 32) | new_b
                if is_twin(alone, new_a, new_b):
                    continue
                if child_count_a[new_a] + child_count_b[new_b] == 0:
                    if not are_neighbours(alone, table_a, new_a, new_b):
                        found[count] = pair
                        count += 1
                else:
                    push(key, entry, waiting, depth_of(sphere_a, new_a, sphere_b, new_b), pair)
                    waiting += 1
        state[TAIL], state[FOUND] = waiting, count
        state[PEAK] = max(state[PEAK], waiting)
    return reason


@compiled
def list_deepest(key, entry, count, table_a, table_b, pairs, state):
    """Write the pairs that wait as (node of a, node of b), the deepest first, which empties the heap.

    ``state`` gets how many they were, and their level.
    """
    lowest = np.int64(1 << 30)
    for k in range(count):
        slot_a, slot_b = entry[0] >> 32, entry[0] & _LOW
        pairs[k, 0] = table_a[slot_a >> 3, NODE] + (slot_a & 7)
        pairs[k, 1] = table_b[slot_b >> 3, NODE] + (slot_b & 7)
        lowest = min(lowest, table_a[slot_a >> 3, LEVEL], table_b[slot_b >> 3, LEVEL])
        remove_first(key, entry, count - k)
    state[WAITING], state[LOWEST] = count, lowest


@compiled
def search_deepest(desk, most_tests, began, end, until, returned, goes_on):
    """Begin, or go on; traverse; and list, if there is room for what waits: as ``sphere_tree_kernels.search``."""
    card_a, card_b = cards_on(desk)
    down_a, down_b = downs_on(desk, card_a, card_b)
    alone, state = alone_on(desk), desk[STATE:]
    key, entry = float64_at(desk[KEY_AT], desk[QUEUE_SIZE]), int64_at(desk[QUEUE_AT], desk[QUEUE_SIZE])
    found = int64_at(desk[FOUND_AT], desk[FOUND_SIZE])
    table_a, table_b = table_of(card_a), table_of(card_b)
    if not goes_on:
        learn_from_last(desk, returned)
    begun, deadline = monotonic_ns(), deadline_of(desk, began, end)
    reason = OUT_OF_TIME
    a_in_time = track_root(card_a, deadline - root_ns(card_b))  # one without the other is of no use
    b_in_time = track_root(card_b, deadline if a_in_time else 0)
    in_time = a_in_time and b_in_time
    if not goes_on and in_time:
        begin_deepest(spheres_of(card_a), down_a, spheres_of(card_b), down_b, table_a, alone, key, entry, found, state)
    elif not goes_on:
        state[:] = 0
        push(key, entry, 0, 0.0, np.int64(0))
        state[TAIL] = 1
    if in_time:
        limits = limits_on(desk, most_tests, until, deadline)
        reason = traverse_deepest(card_a, down_a, card_b, down_b, alone, key, entry, found, state, limits)
    stopped = stop(desk, begun, deadline)
    if reason <= OUT_OF_TESTS:
        state[WAITING] = state[TAIL]
        if state[WAITING] <= desk[WAITING_SIZE]:
            list_deepest(key, entry, state[TAIL], table_a, table_b, waiting_on(desk), state)
        list_found(found, state[FOUND], table_a, table_b, desk)
        listed(desk, state[TAIL], stopped)
    return summary_of(desk, reason, deadline, table_a, card_a[NOW], table_b, card_b[NOW])


@compiled
def list_deepest_again(desk):
    """List what waits once there is room; returns how many, and their level."""
    card_a, card_b = cards_on(desk)
    key, entry = float64_at(desk[KEY_AT], desk[QUEUE_SIZE]), int64_at(desk[QUEUE_AT], desk[QUEUE_SIZE])
    state = desk[STATE:]
    list_deepest(key, entry, state[TAIL], table_of(card_a), table_of(card_b), waiting_on(desk), state)
    return state[WAITING], state[LOWEST]
