"""The interruptible traversal of two sphere trees, eight siblings per test.

A pair is an entry of a queue with its siblings: "all spheres of this block of one tree against that sphere of the
other", in 64 bits: the partner's slot (30 bits), the block (30 bits, or a slot if the entry is one pair that is tested
again), whether it is that, and whose the block is. A slot is 8 block + lane. Siblings enter the queue of Fig. 7 one
behind the other and leave it so; hence eight at once is the same order, and after any number of tests the same state.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.simd import lowest_bit
from impinge.backend.simd_spheres import sphere_mask
from impinge.detect.sphere_tracking_kernels import track_block

HEAD, TAIL, TESTS, FOUND, PARTIAL, DONE, TRACKED, PEAK, BACKWARDS = range(9)
"""Places in ``state``: the ends of the queue, tests so far, pairs found, the entry that was cut in the middle or -1,
how many of its spheres were tested, blocks tracked, the longest queue, and entries taken from its end."""
STATE_SIZE = 9

FINISHED, OUT_OF_TIME, OUT_OF_TESTS, QUEUE_FULL, FOUND_FULL = range(5)
"""Why the traversal stopped."""

SLOT_BITS = 30
_SLOT_MASK = np.int64((1 << SLOT_BITS) - 1)
_AGAIN = np.int64(1 << (2 * SLOT_BITS))
_OF_B = np.int64(1 << (2 * SLOT_BITS + 1))
CLOCK_EVERY = 16
"""Entries between two looks at the clock: half a microsecond."""
NONE = -1


@compiled
def entry_of(block, partner, of_b, again):
    """Pack an entry."""
    entry = (np.int64(block) << SLOT_BITS) | np.int64(partner)
    if of_b:
        entry |= _OF_B
    if again:
        entry |= _AGAIN
    return entry


@compiled
def is_of_b(entry):
    """Whether the block of an entry is b's."""
    return entry & _OF_B != 0


@compiled
def is_again(entry):
    """Whether an entry is one pair that is tested a second time."""
    return entry & _AGAIN != 0


@compiled
def block_of(entry):
    """The block of an entry, or the slot if it is to be tested again."""
    return (entry >> SLOT_BITS) & _SLOT_MASK


@compiled
def partner_of(entry):
    """The slot of the other tree."""
    return entry & _SLOT_MASK


@compiled
def begin(queue, state):
    """Forget all, and put the pair of both roots into the queue."""
    for k in range(STATE_SIZE):
        state[k] = 0
    state[PARTIAL] = NONE
    queue[0] = entry_of(0, 0, False, False)
    state[TAIL] = 1


@compiled
def traverse(tree_a, steering_a, points_a, down_a, tree_b, steering_b, points_b, down_b, queue, found, state, limits):
    """Test pairs from the front of the queue until it is empty, or a limit is reached; returns why it stopped.

    ``down`` of a tree: first block of children by slot, number of such blocks by slot (0: a leaf).
    ``limits``: most tests, the time to stop at, nanoseconds to list each waiting entry and each found pair, entries
    from which the queue is worked off from its end, blocks of children that a sphere has at most, and whether a leaf
    against a sphere that is none is tested again after the swap, as published.
    """
    sphere_a, stamp_a, node_a, lanes_a, rows_a, mode_a, now_a, placing_a, size_a = tree_a
    x_a, control_a, coefficient_a, share_a, surface_a = steering_a
    point_start_a, point_vertex_a, cut_start_a, cut_corner_a, cut_weight_a = points_a
    sphere_b, stamp_b, node_b, lanes_b, rows_b, mode_b, now_b, placing_b, size_b = tree_b
    x_b, control_b, coefficient_b, share_b, surface_b = steering_b
    point_start_b, point_vertex_b, cut_start_b, cut_corner_b, cut_weight_b = points_b
    child_a, child_count_a = down_a
    child_b, child_count_b = down_b
    most_tests, deadline, entry_ns, found_ns, limit, most_blocks, retest = limits
    head, tail, tests, count = state[HEAD], state[TAIL], state[TESTS], state[FOUND]
    ring = len(queue) - 1
    reason = FINISHED
    entries = 0
    tracked = 0

    while head < tail and reason == FINISHED:
        if entries % CLOCK_EVERY == 0 and monotonic_ns() + entry_ns * (tail - head) + found_ns * count >= deadline:
            reason = OUT_OF_TIME
            break
        if tail - head + 8 * most_blocks > len(queue):
            reason = QUEUE_FULL
            break
        if count + 8 > len(found):
            reason = FOUND_FULL
            break
        entries += 1
        backwards = tail - head > limit
        entry = queue[(tail - 1) & ring] if backwards else queue[head & ring]
        of_b, again, partner = is_of_b(entry), is_again(entry), partner_of(entry)
        block = block_of(entry)
        wanted = np.uint64(255)
        if again:
            wanted = np.uint64(1) << np.uint64(block & 7)
            block >>= 3

        # test the siblings, after bringing them up to date
        if of_b:
            if stamp_b[block] != now_b:
                in_time = track_block(
                    block, sphere_b, stamp_b, node_b, lanes_b, rows_b, mode_b, now_b, placing_b, size_b,
                    x_b, control_b, coefficient_b, share_b, surface_b,
                    point_start_b, point_vertex_b, cut_start_b, cut_corner_b, cut_weight_b, deadline,
                )  # fmt: skip
                if not in_time:
                    reason = OUT_OF_TIME
                    break
                tracked += 1
            k, i = partner >> 3, partner & 7
            x, y, z, r = sphere_a[k, 0, i], sphere_a[k, 1, i], sphere_a[k, 2, i], sphere_a[k, 3, i]
            bits = sphere_mask(sphere_b, block, x, y, z, r)
            lanes = lanes_b[block]
            partner_children, partner_child = child_count_a[partner], child_a[partner]
        else:
            if stamp_a[block] != now_a:
                in_time = track_block(
                    block, sphere_a, stamp_a, node_a, lanes_a, rows_a, mode_a, now_a, placing_a, size_a,
                    x_a, control_a, coefficient_a, share_a, surface_a,
                    point_start_a, point_vertex_a, cut_start_a, cut_corner_a, cut_weight_a, deadline,
                )  # fmt: skip
                if not in_time:
                    reason = OUT_OF_TIME
                    break
                tracked += 1
            k, i = partner >> 3, partner & 7
            x, y, z, r = sphere_b[k, 0, i], sphere_b[k, 1, i], sphere_b[k, 2, i], sphere_b[k, 3, i]
            bits = sphere_mask(sphere_a, block, x, y, z, r)
            lanes = lanes_a[block]
            partner_children, partner_child = child_count_b[partner], child_b[partner]
        if again:
            lanes = 1
        else:
            wanted = (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
            if tests + lanes > most_tests:
                lanes = most_tests - tests
                wanted = (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
        if tests + lanes > most_tests or lanes == 0:
            reason = OUT_OF_TESTS
            break
        tests += lanes
        if backwards:
            tail -= 1
            state[BACKWARDS] += 1
        else:
            head += 1
        if tests == most_tests and not again:
            state[PARTIAL], state[DONE] = entry, lanes
            reason = OUT_OF_TESTS

        # what meets goes one level down: in the partner's tree while it has children, else in its own
        bits &= wanted
        while bits != np.uint64(0):
            lane = lowest_bit(bits)
            bits &= bits - np.uint64(1)
            slot = (block << 3) + lane
            if partner_children > 0:
                for c in range(partner_children):
                    queue[tail & ring] = entry_of(partner_child + c, slot, not of_b, False)
                    tail += 1
                continue
            own_children = child_count_b[slot] if of_b else child_count_a[slot]
            if own_children == 0:
                found[count] = (partner << 32) | slot if of_b else (slot << 32) | partner
                count += 1
            elif retest:
                queue[tail & ring] = entry_of(partner, slot, not of_b, True)
                tail += 1
            else:
                own_child = child_b[slot] if of_b else child_a[slot]
                for c in range(own_children):
                    queue[tail & ring] = entry_of(own_child + c, partner, of_b, False)
                    tail += 1
        state[PEAK] = max(state[PEAK], tail - head)
    state[HEAD], state[TAIL], state[TESTS], state[FOUND] = head, tail, tests, count
    state[TRACKED] += tracked
    return reason


@compiled
def waiting_count(queue, state, lanes_a, lanes_b):
    """How many pairs the queue holds."""
    ring = len(queue) - 1
    count = 0
    if state[PARTIAL] != NONE:
        block = block_of(state[PARTIAL])
        count += (lanes_b[block] if is_of_b(state[PARTIAL]) else lanes_a[block]) - state[DONE]
    for q in range(state[HEAD], state[TAIL]):
        entry = queue[q & ring]
        if is_again(entry):
            count += 1
        else:
            count += lanes_b[block_of(entry)] if is_of_b(entry) else lanes_a[block_of(entry)]
    return count


@compiled
def list_waiting(queue, state, node_a, lanes_a, level_a, node_b, lanes_b, level_b, pairs):
    """Write the pairs that wait as (node of a, node of b), first to be tested first; returns the lowest level of any.

    ``node`` and ``level`` are by block.
    """
    ring = len(queue) - 1
    k = 0
    lowest = np.int64(1 << 30)
    first = state[HEAD] - 1 if state[PARTIAL] != NONE else state[HEAD]
    for q in range(first, state[TAIL]):
        done = 0
        entry = queue[q & ring]
        if q < state[HEAD]:
            entry, done = state[PARTIAL], state[DONE]
        of_b, again, block, partner = is_of_b(entry), is_again(entry), block_of(entry), partner_of(entry)
        start, stop = done, 0
        if again:
            start, stop = block & 7, (block & 7) + 1
            block >>= 3
        elif of_b:
            stop = lanes_b[block]
        else:
            stop = lanes_a[block]
        for lane in range(start, stop):
            if of_b:
                pairs[k, 0] = node_a[partner >> 3] + (partner & 7)
                pairs[k, 1] = node_b[block] + lane
            else:
                pairs[k, 0] = node_a[block] + lane
                pairs[k, 1] = node_b[partner >> 3] + (partner & 7)
            k += 1
        if start < stop and of_b:
            lowest = min(lowest, level_a[partner >> 3], level_b[block])
        elif start < stop:
            lowest = min(lowest, level_a[block], level_b[partner >> 3])
    return lowest


@compiled
def grow_queue(queue, state, larger):
    """Move the queue into a larger ring."""
    for q in range(state[HEAD], state[TAIL]):
        larger[q & (len(larger) - 1)] = queue[q & (len(queue) - 1)]


@compiled
def list_found(found, count, node_a, node_b, pairs):
    """Write found pairs as (node of a, node of b)."""
    for i in range(count):
        slot_a, slot_b = found[i] >> 32, found[i] & np.int64(0xFFFFFFFF)
        pairs[i, 0] = node_a[slot_a >> 3] + (slot_a & 7)
        pairs[i, 1] = node_b[slot_b >> 3] + (slot_b & 7)
