"""The interruptible breadth-first traversal of two trees [MendozaOSullivan2005, Fig. 7], eight siblings per test.

An entry of the queue is a pair with its siblings: "all spheres of this block of one tree against that sphere of the
other", in 61 bits: the slot of the partner (30 bits), the block (30 bits), and the side of the block. Siblings enter
the queue of Fig. 7 one behind the other and leave it in that order: testing eight at once keeps the order and, after
any number of tests, the state.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.simd.boxes import lowest_bit
from impinge.backend.simd.spheres import sphere_mask
from impinge.detect.sphere_tree.search import context_kernels as c
from impinge.detect.sphere_tree.search import tree_kernels as t
from impinge.detect.sphere_tree.track.tracking_kernels import FIRST_ROW, LANES, LEVEL, STAMP, sphere_at

SLOT_BITS = 30
_SLOT_MASK = np.int64((1 << SLOT_BITS) - 1)
CLOCK_EVERY = 16
"""Entries between two readings of the clock: half a microsecond; fewer if blocks are tracked for them."""
NONE = -1


@compiled
def entry_of(side, block, partner):
    """Pack an entry."""
    return (np.int64(side) << 2 * SLOT_BITS) | (np.int64(block) << SLOT_BITS) | np.int64(partner)


@compiled
def unpack(entry):
    """Side, block and partner of an entry."""
    return entry >> 2 * SLOT_BITS, (entry >> SLOT_BITS) & _SLOT_MASK, entry & _SLOT_MASK


@compiled
def begin(context):
    """Put the pair of both roots into the queue."""
    state = context[c.STATE :]
    state[:] = 0
    state[c.PARTIAL] = NONE
    t.int64s_at(context, c.QUEUE_AT)[0] = entry_of(0, 0, 0)
    state[c.TAIL] = 1


@compiled
def traverse(context, most_tests, until, deadline):
    """Test pairs from the front of the queue until it is empty or a limit is reached; returns why it stopped.

    Pauses at ``until``. Stops early enough to list waiting entries and found pairs before ``deadline``.
    """
    queue, found = t.int64s_at(context, c.QUEUE_AT), t.int64s_at(context, c.FOUND_AT)
    state, one_body = context[c.STATE :], c.one_body_of(context)
    table_a = t.table_of(c.tree_of(context, 0))
    entry_ns, pair_ns, limit = c.listing_ns(context, 1, 0), c.listing_ns(context, 0, 1), context[c.LIMIT]
    head, tail, tests, count = state[c.HEAD], state[c.TAIL], state[c.TESTS], state[c.FOUND]
    ring, most_new = len(queue) - 1, 8 * context[c.MOST_BLOCKS]
    reason, since_clock, tracked = c.FINISHED, CLOCK_EVERY, 0
    while head < tail and reason == c.FINISHED:
        if since_clock >= CLOCK_EVERY:
            since_clock = 0
            now = monotonic_ns()
            if now + entry_ns * (tail - head) + pair_ns * count >= deadline:
                reason = c.OUT_OF_TIME
                break
            if now >= until:
                reason = c.PAUSED
                break
        if tail - head + most_new > len(queue):
            reason = c.QUEUE_FULL
            break
        if count + 8 > len(found):
            reason = c.FOUND_FULL
            break
        since_clock += 1
        backwards = tail - head > limit
        entry = queue[(tail - 1) & ring] if backwards else queue[head & ring]
        side, block, partner = unpack(entry)

        # test the siblings, after tracking them
        own, other = c.tree_of(context, side), c.tree_of(context, 1 - side)
        table, sphere = t.table_of(own), t.spheres_of(other)
        if table[block, STAMP] != own[t.NOW]:
            in_time = t.track_block(own, block, deadline)
            if not in_time:
                reason = c.OUT_OF_TIME
                break
            tracked += 1
            rows = table[block + 1, FIRST_ROW] - table[block, FIRST_ROW]
            since_clock += CLOCK_EVERY if own[t.MODE] == t.REFIT else rows >> 2
        bits = sphere_mask(t.spheres_of(own), block, *sphere_at(sphere, partner))
        lanes = min(table[block, LANES], most_tests - tests)
        if lanes == 0:
            reason = c.OUT_OF_TESTS
            break
        tests += lanes
        if backwards:
            tail -= 1
            state[c.BACKWARDS] += 1
        else:
            head += 1
        if tests == most_tests:
            state[c.PARTIAL], state[c.DONE] = entry, lanes
            reason = c.OUT_OF_TESTS

        # pairs that meet descend one level: in the tree of the partner while it has children, else in their own
        down = t.int64s_at(context, c.DOWN_AT + 2 * side)
        partner_children = t.int64s_at(context, c.DOWN_AT + 2 * (1 - side))[partner]
        partner_child = t.int64s_at(other, t.CHILD_AT)[partner]
        bits &= (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
        while bits != np.uint64(0):
            slot = (block << 3) + lowest_bit(bits)
            bits &= bits - np.uint64(1)
            slot_a, slot_b = (partner, slot) if side else (slot, partner)
            if c.is_mirrored(one_body, slot_a, slot_b):
                continue
            own_children = down[slot]
            if partner_children > 0:
                for n in range(partner_children):
                    queue[(tail + n) & ring] = entry_of(1 - side, partner_child + n, slot)
                tail += partner_children
            elif own_children > 0:
                own_child = t.int64s_at(own, t.CHILD_AT)[slot]
                for n in range(own_children):
                    queue[(tail + n) & ring] = entry_of(side, own_child + n, partner)
                tail += own_children
            elif not c.are_neighbours(one_body, table_a, slot_a, slot_b):
                found[count] = (slot_a << 32) | slot_b
                count += 1
        state[c.PEAK] = max(state[c.PEAK], tail - head)
    state[c.HEAD], state[c.TAIL], state[c.TESTS], state[c.FOUND] = head, tail, tests, count
    state[c.TRACKED] += tracked
    return reason


@compiled
def update_waiting(context, deadline, is_late):
    """Track the spheres of waiting pairs that were not visited; if ``is_late``, take them as they were tracked last.

    The partner of an entry was visited before. ``track_root`` restores the root.
    """
    queue, state = t.int64s_at(context, c.QUEUE_AT), context[c.STATE :]
    for side in range(2):
        tree = c.tree_of(context, side)
        sphere, last, table = t.spheres_of(tree), t.spheres_of(tree, t.LAST_AT), t.table_of(tree)
        for q in range(state[c.HEAD], state[c.TAIL]):
            entry_side, block, _ = unpack(queue[q & (len(queue) - 1)])
            if entry_side != side or table[block, STAMP] == tree[t.NOW]:
                continue
            if is_late:
                if block > 0:
                    t.copy_block(last, block, sphere)
                continue
            in_time = monotonic_ns() < deadline and t.track_block(tree, block, deadline)
            if not in_time:
                break
            state[c.TRACKED] += 1


@compiled
def list_waiting(context):
    """Write waiting pairs as (node of a, node of b), next first, as far as there is room; count all in the state."""
    queue, state, pairs = t.int64s_at(context, c.QUEUE_AT), context[c.STATE :], c.waiting_of(context)
    table_a, table_b = t.table_of(c.tree_of(context, 0)), t.table_of(c.tree_of(context, 1))
    one_body = c.one_body_of(context)
    k, lowest = 0, np.int64(1 << 30)
    for q in range(state[c.HEAD] - (state[c.PARTIAL] != NONE), state[c.TAIL]):
        is_partial = q < state[c.HEAD]
        side, block, partner = unpack(state[c.PARTIAL] if is_partial else queue[q & (len(queue) - 1)])
        before = k
        for lane in range(state[c.DONE] if is_partial else 0, table_b[block, LANES] if side else table_a[block, LANES]):
            slot = (block << 3) + lane
            slot_a, slot_b = (partner, slot) if side else (slot, partner)
            if not c.is_mirrored(one_body, slot_a, slot_b):
                if k < len(pairs):
                    pairs[k, 0], pairs[k, 1] = c.node_at(table_a, slot_a), c.node_at(table_b, slot_b)
                k += 1
        if before < k:
            block_a, block_b = (partner >> 3, block) if side else (block, partner >> 3)
            lowest = min(lowest, table_a[block_a, LEVEL], table_b[block_b, LEVEL])
    state[c.WAITING], state[c.LOWEST] = k, lowest
