"""The interruptible traversal of two sphere trees, eight siblings per test.

A pair is an entry of a queue with its siblings: "all spheres of this block of one tree against that sphere of the
other", in 64 bits: the partner's slot (30 bits), the block (30 bits), and whose the block is. A slot is 8 block + lane.
Siblings enter the queue of Fig. 7 one behind the other and leave it so; hence eight at once is the same order, and
after any number of tests the same state.

A search is one call, ``search``, and takes what changes from frame to frame and one *desk*: an array of whole numbers
that tells where everything else is, since each array that a kernel is given takes time before it begins.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.raw_arrays_kernels import int32_at, int64_at
from impinge.backend.simd.boxes import lowest_bit
from impinge.backend.simd.spheres import sphere_mask
from impinge.detect.sphere_tree.search.limits_kernels import FULL_PACE, PACE, RESERVE_SIZE, learn, learn_pace, reserved
from impinge.detect.sphere_tree.track.tracking_kernels import (
    BLOCKS,
    CARD_SIZE,
    FIRST_ROW,
    LANES,
    LEVEL,
    MODE,
    NEVER,
    NODE,
    NOW,
    REFIT,
    STAMP,
    children_of,
    copy_block,
    known_of,
    root_ns,
    spheres_of,
    table_of,
    track_block,
    track_root,
)

HEAD, TAIL, TESTS, FOUND, PARTIAL, DONE, TRACKED, PEAK, BACKWARDS, WAITING, LOWEST, STOPPED, LISTING = range(13)
"""Places in ``state``: the ends of the queue, tests so far, pairs found, the entry that was cut in the middle or -1,
how many of its spheres were tested, blocks tracked, the longest queue, entries taken from its end, pairs that wait, the
lowest level of these, the time when the search stopped or should have, and what its answer is thought to take to
list."""
STATE_SIZE = 13

(
    QUEUE_AT, QUEUE_SIZE, KEY_AT, FOUND_AT, FOUND_SIZE, LISTED_AT, WAITING_AT, WAITING_SIZE,
    CARD_A_AT, CARD_B_AT, DOWN_A_AT, DOWN_B_AT, STAND_AT, STAND_SIZE, START_AT, START_SIZE, VERTEX_AT, VERTEX_SIZE,
    WAITING_NS, FOUND_NS, LIMIT, MOST_BLOCKS, SORTS, RESERVE,
) = range(24)  # fmt: skip
"""Places in the desk: addresses and sizes of the queue, of its keys where it is a heap, of pairs of slots that were
found, of the same as pairs of nodes, of pairs that wait; cards of both trees, and numbers of children by slot; what a
search of one body has to know (``sphere_tree_self``); nanoseconds to list what waits and what was found; entries from
which the queue is worked off from its end; blocks of children that a sphere has at most; whether what was found is
sorted; what was learnt of the time that queries take; and the state, to the end."""
STATE = RESERVE + RESERVE_SIZE
DESK_SIZE = STATE + STATE_SIZE

FINISHED, OUT_OF_TIME, OUT_OF_TESTS, QUEUE_FULL, FOUND_FULL, PAUSED = range(6)
"""Why the traversal stopped; what is above ``OUT_OF_TESTS`` goes on."""

SLOT_BITS = 30
_SLOT_MASK = np.int64((1 << SLOT_BITS) - 1)
_OF_B = np.int64(1 << (2 * SLOT_BITS))
CLOCK_EVERY = 16
"""Entries between two looks at the clock: half a microsecond; less if blocks are tracked for them."""
NONE = -1
DIGIT_BITS = 8
DIGIT = 1 << DIGIT_BITS
"""What pairs that were found are sorted by at a time."""


@compiled
def entry_of(block, partner, of_b):
    """Pack an entry."""
    entry = (np.int64(block) << SLOT_BITS) | np.int64(partner)
    if of_b:
        entry |= _OF_B
    return entry


@compiled
def is_of_b(entry):
    """Whether the block of an entry is b's."""
    return entry & _OF_B != 0


@compiled
def block_of(entry):
    """The block of an entry."""
    return (entry >> SLOT_BITS) & _SLOT_MASK


@compiled
def partner_of(entry):
    """The slot of the other tree."""
    return entry & _SLOT_MASK


@compiled
def is_twin(alone, slot_a, slot_b):
    """Whether a pair of one body's spheres is found as (b, a), too: all that is below a comes after all below b."""
    stand = alone[0]
    return len(stand) > 0 and stand[slot_a, 0] >= stand[slot_b, 1]


@compiled
def share_vertex(vertex_start, vertex, i, j):
    """Whether triangles below nodes i and j share a vertex; lists of vertices by node rise."""
    p, q = vertex_start[i], vertex_start[j]
    while p < vertex_start[i + 1] and q < vertex_start[j + 1]:
        if vertex[p] == vertex[q]:
            return True
        if vertex[p] < vertex[q]:
            p += 1
        else:
            q += 1
    return False


@compiled
def are_neighbours(alone, table, slot_a, slot_b):
    """Whether two leaves of one body share a vertex and do not count for that."""
    vertex_start, vertex = alone[1], alone[2]
    if len(vertex_start) == 0:
        return False
    i, j = table[slot_a >> 3, NODE] + (slot_a & 7), table[slot_b >> 3, NODE] + (slot_b & 7)
    return share_vertex(vertex_start, vertex, i, j)


@compiled
def find_sharing(pairs, vertex_start, vertex, shares):
    """Tell for pairs of nodes whether triangles below them share a vertex."""
    for k in range(len(pairs)):
        shares[k] = share_vertex(vertex_start, vertex, pairs[k, 0], pairs[k, 1])


@compiled
def begin(queue, state):
    """Forget all, and put the pair of both roots into the queue."""
    for k in range(STATE_SIZE):
        state[k] = 0
    state[PARTIAL] = NONE
    queue[0] = entry_of(0, 0, False)
    state[TAIL] = 1


@compiled
def effort_of(table, block, mode):
    """What it takes to track a block, in entries; a refitted one is worth a look at the clock by itself."""
    if mode == REFIT:
        return np.int64(CLOCK_EVERY)
    return (table[block + 1, FIRST_ROW] - table[block, FIRST_ROW]) >> 2


@compiled
def traverse(card_a, child_count_a, card_b, child_count_b, alone, queue, found, state, limits):
    """Test pairs from the front of the queue until it is empty, or a limit is reached; returns why it stopped.

    ``child_count`` of a tree: number of blocks of children by slot (0: a leaf). ``alone``: empty for two bodies, as of
    ``sphere_tree_self`` for one.
    ``limits``: most tests; the times to pause and to stop at; nanoseconds to list each waiting entry and each found
    pair, for which there has to be time before the latter; entries from which the queue is worked off from its end; and
    blocks of children that a sphere has at most.
    """
    sphere_a, table_a, (child_a, _), now_a = spheres_of(card_a), table_of(card_a), children_of(card_a), card_a[NOW]
    sphere_b, table_b, (child_b, _), now_b = spheres_of(card_b), table_of(card_b), children_of(card_b), card_b[NOW]
    most_tests, until, deadline, entry_ns, found_ns, limit, most_blocks = limits
    head, tail, tests, count = state[HEAD], state[TAIL], state[TESTS], state[FOUND]
    ring = len(queue) - 1
    reason = FINISHED
    since_clock = CLOCK_EVERY
    tracked = 0

    while head < tail and reason == FINISHED:
        if since_clock >= CLOCK_EVERY:
            since_clock = 0
            now = monotonic_ns()
            if now + entry_ns * (tail - head) + found_ns * count >= deadline:
                reason = OUT_OF_TIME
                break
            if now >= until:
                reason = PAUSED
                break
        if tail - head + 8 * most_blocks > len(queue):
            reason = QUEUE_FULL
            break
        if count + 8 > len(found):
            reason = FOUND_FULL
            break
        since_clock += 1
        backwards = tail - head > limit
        entry = queue[(tail - 1) & ring] if backwards else queue[head & ring]
        of_b, block, partner = is_of_b(entry), block_of(entry), partner_of(entry)

        # test the siblings, after bringing them up to date
        if of_b:
            if table_b[block, STAMP] != now_b:
                in_time = track_block(card_b, block, deadline)
                if not in_time:
                    reason = OUT_OF_TIME
                    break
                tracked += 1
                since_clock += effort_of(table_b, block, card_b[MODE])
            k, i = partner >> 3, partner & 7
            x, y, z, r = sphere_a[k, 0, i], sphere_a[k, 1, i], sphere_a[k, 2, i], sphere_a[k, 3, i]
            bits = sphere_mask(sphere_b, block, x, y, z, r)
            lanes = table_b[block, LANES]
            partner_children, partner_child = child_count_a[partner], child_a[partner]
        else:
            if table_a[block, STAMP] != now_a:
                in_time = track_block(card_a, block, deadline)
                if not in_time:
                    reason = OUT_OF_TIME
                    break
                tracked += 1
                since_clock += effort_of(table_a, block, card_a[MODE])
            k, i = partner >> 3, partner & 7
            x, y, z, r = sphere_b[k, 0, i], sphere_b[k, 1, i], sphere_b[k, 2, i], sphere_b[k, 3, i]
            bits = sphere_mask(sphere_a, block, x, y, z, r)
            lanes = table_a[block, LANES]
            partner_children, partner_child = child_count_b[partner], child_b[partner]
        lanes = min(lanes, most_tests - tests)
        if lanes == 0:
            reason = OUT_OF_TESTS
            break
        tests += lanes
        if backwards:
            tail -= 1
            state[BACKWARDS] += 1
        else:
            head += 1
        if tests == most_tests:
            state[PARTIAL], state[DONE] = entry, lanes
            reason = OUT_OF_TESTS

        # what meets goes one level down: in the partner's tree while it has children, else in its own
        bits &= (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
        while bits != np.uint64(0):
            lane = lowest_bit(bits)
            bits &= bits - np.uint64(1)
            slot = (block << 3) + lane
            slot_a, slot_b = (partner, slot) if of_b else (slot, partner)
            if is_twin(alone, slot_a, slot_b):
                continue
            if partner_children > 0:
                for c in range(partner_children):
                    queue[tail & ring] = entry_of(partner_child + c, slot, not of_b)
                    tail += 1
                continue
            own_children = child_count_b[slot] if of_b else child_count_a[slot]
            if own_children == 0:
                if not are_neighbours(alone, table_a, slot_a, slot_b):
                    found[count] = (slot_a << 32) | slot_b
                    count += 1
            else:
                own_child = child_b[slot] if of_b else child_a[slot]
                for c in range(own_children):
                    queue[tail & ring] = entry_of(own_child + c, partner, of_b)
                    tail += 1
        state[PEAK] = max(state[PEAK], tail - head)
    state[HEAD], state[TAIL], state[TESTS], state[FOUND] = head, tail, tests, count
    state[TRACKED] += tracked
    return reason


@compiled
def cards_on(desk):
    """The cards of both trees."""
    return int64_at(desk[CARD_A_AT], CARD_SIZE), int64_at(desk[CARD_B_AT], CARD_SIZE)


@compiled
def deadline_of(desk, began, end):
    """When a search has to stop."""
    return end if end == NEVER else end - reserved(desk[RESERVE : RESERVE + RESERVE_SIZE], end - began)


@compiled
def learn_from_last(desk, returned):
    """Learn what the last query took once it should have stopped; it returned at a time, 0 if that tells nothing."""
    state = desk[STATE:]
    if returned > state[STOPPED]:
        learn(desk[RESERVE : RESERVE + RESERVE_SIZE], returned - state[STOPPED] - state[LISTING])


@compiled
def listing_ns(desk, waiting, found):
    """What it is thought to take to list so many entries and pairs."""
    return ((desk[WAITING_NS] * waiting + desk[FOUND_NS] * found) * desk[RESERVE + PACE]) // FULL_PACE


@compiled
def stop(desk, begun, deadline):
    """Note when a search that was begun at a time stopped or should have, and what its answer takes to list."""
    state, now = desk[STATE:], monotonic_ns()
    state[LISTING] = listing_ns(desk, state[TAIL] - state[HEAD], state[FOUND])
    state[STOPPED] = min(now, max(begun, deadline - state[LISTING]))
    return now


@compiled
def listed(desk, entries, since):
    """Learn what it took to list so many entries, and what was found, since the search stopped."""
    reckoned = desk[WAITING_NS] * entries + desk[FOUND_NS] * desk[STATE + FOUND]
    learn_pace(desk[RESERVE : RESERVE + RESERVE_SIZE], reckoned, monotonic_ns() - since)


@compiled
def alone_on(desk):
    """What a search of one body has to know; empty for two."""
    stand = int64_at(desk[STAND_AT], (desk[STAND_SIZE], 2))
    return stand, int64_at(desk[START_AT], desk[START_SIZE]), int32_at(desk[VERTEX_AT], desk[VERTEX_SIZE])


@compiled
def downs_on(desk, card_a, card_b):
    """How many blocks of children each slot of both trees has."""
    return int64_at(desk[DOWN_A_AT], 8 * card_a[BLOCKS]), int64_at(desk[DOWN_B_AT], 8 * card_b[BLOCKS])


@compiled
def limits_on(desk, most_tests, until, deadline):
    """Limits, as ``traverse`` takes them."""
    return (
        most_tests, until, deadline, listing_ns(desk, 1, 0), listing_ns(desk, 0, 1),
        desk[LIMIT], desk[MOST_BLOCKS],
    )  # fmt: skip


@compiled
def summary_of(desk, reason, deadline, table_a, now_a, table_b, now_b):
    """What a search tells, as ``sphere_tree_desk.Searched`` names it."""
    state = desk[STATE:]
    is_current = table_a[0, STAMP] == now_a and table_b[0, STAMP] == now_b
    return (
        reason, state[TESTS], state[TRACKED], state[PEAK], state[BACKWARDS],
        state[WAITING], state[LOWEST], state[FOUND], deadline, is_current,
    )  # fmt: skip


@compiled
def search(desk, most_tests, began, end, until, returned, goes_on):
    """Begin, or go on; traverse; and list what waits and what was found, if there is room: in one call.

    Pauses at ``until``, and stops so that its query, which began at ``began``, returns at ``end``. Of pairs that wait,
    spheres that were not visited are brought up to date when ``most_tests`` are used up, and put where they were last
    known when the time is. ``returned``: when the query before did. What it returns is a ``summary_of``.
    """
    card_a, card_b = cards_on(desk)
    down_a, down_b = downs_on(desk, card_a, card_b)
    alone = alone_on(desk)
    queue, found = int64_at(desk[QUEUE_AT], desk[QUEUE_SIZE]), int64_at(desk[FOUND_AT], desk[FOUND_SIZE])
    state = desk[STATE:]
    if not goes_on:
        learn_from_last(desk, returned)
        begin(queue, state)
    begun, deadline = monotonic_ns(), deadline_of(desk, began, end)
    reason = OUT_OF_TIME
    a_in_time = track_root(card_a, deadline - root_ns(card_b))  # one without the other is of no use
    b_in_time = track_root(card_b, deadline if a_in_time else 0)
    if a_in_time and b_in_time:
        limits = limits_on(desk, most_tests, until, deadline)
        reason = traverse(card_a, down_a, card_b, down_b, alone, queue, found, state, limits)
    if reason == OUT_OF_TESTS:
        latest = deadline - listing_ns(desk, state[TAIL] - state[HEAD], state[FOUND])
        track_waiting(card_a, False, queue, state, latest)
        track_waiting(card_b, True, queue, state, latest)
    stopped = stop(desk, begun, deadline)
    table_a, table_b = table_of(card_a), table_of(card_b)
    if reason == OUT_OF_TIME:
        recall_waiting(card_a, False, queue, state)
        recall_waiting(card_b, True, queue, state)
    if reason <= OUT_OF_TESTS:
        state[WAITING] = waiting_count(queue, state, table_a, table_b)
        if state[WAITING] <= desk[WAITING_SIZE]:
            list_waiting(queue, state, table_a, table_b, alone, waiting_on(desk))
        list_found(found, state[FOUND], table_a, table_b, desk)
        listed(desk, state[TAIL] - state[HEAD], stopped)
    return summary_of(desk, reason, deadline, table_a, card_a[NOW], table_b, card_b[NOW])


@compiled
def waiting_on(desk):
    """Room for the pairs that wait."""
    return int32_at(desk[WAITING_AT], (desk[WAITING_SIZE], 2))


@compiled
def list_again(desk):
    """List what waits once there is room; returns how many, and their level."""
    card_a, card_b = cards_on(desk)
    queue, state = int64_at(desk[QUEUE_AT], desk[QUEUE_SIZE]), desk[STATE:]
    list_waiting(queue, state, table_of(card_a), table_of(card_b), alone_on(desk), waiting_on(desk))
    return state[WAITING], state[LOWEST]


@compiled
def track_waiting(card, of_b, queue, state, deadline):
    """Bring up to date what was not visited of one tree's spheres in pairs that wait, as far as the time goes.

    Of a pair, the partner was visited before.
    """
    table, now = table_of(card), card[NOW]
    ring = len(queue) - 1
    for q in range(state[HEAD], state[TAIL]):
        entry = queue[q & ring]
        block = block_of(entry)
        if is_of_b(entry) != of_b or table[block, STAMP] == now:
            continue
        in_time = monotonic_ns() < deadline and track_block(card, block, deadline)
        if not in_time:
            break
        state[TRACKED] += 1


@compiled
def recall_waiting(card, of_b, queue, state):
    """Put what was not visited of one tree's spheres in pairs that wait where it was last known.

    The root is where the last root was, which ``track_root`` sees to.
    """
    sphere, table, known, now = spheres_of(card), table_of(card), known_of(card), card[NOW]
    ring = len(queue) - 1
    for q in range(state[HEAD], state[TAIL]):
        entry = queue[q & ring]
        block = block_of(entry)
        if is_of_b(entry) == of_b and block > 0 and table[block, STAMP] != now:
            copy_block(known, block, sphere)


@compiled
def waiting_count(queue, state, table_a, table_b):
    """How many pairs the queue holds, twins of one body's too."""
    ring = len(queue) - 1
    count = 0
    if state[PARTIAL] != NONE:
        block = block_of(state[PARTIAL])
        count += (table_b[block, LANES] if is_of_b(state[PARTIAL]) else table_a[block, LANES]) - state[DONE]
    for q in range(state[HEAD], state[TAIL]):
        entry = queue[q & ring]
        count += table_b[block_of(entry), LANES] if is_of_b(entry) else table_a[block_of(entry), LANES]
    return count


@compiled
def list_waiting(queue, state, table_a, table_b, alone, pairs):
    """Write the pairs that wait as (node of a, node of b), next in turn first; ``state`` gets how many, which level."""
    ring = len(queue) - 1
    k = 0
    lowest = np.int64(1 << 30)
    first = state[HEAD] - 1 if state[PARTIAL] != NONE else state[HEAD]
    for q in range(first, state[TAIL]):
        done = 0
        entry = queue[q & ring]
        if q < state[HEAD]:
            entry, done = state[PARTIAL], state[DONE]
        of_b, block, partner = is_of_b(entry), block_of(entry), partner_of(entry)
        stop = table_b[block, LANES] if of_b else table_a[block, LANES]
        before = k
        for lane in range(done, stop):
            slot = (block << 3) + lane
            slot_a, slot_b = (partner, slot) if of_b else (slot, partner)
            if not is_twin(alone, slot_a, slot_b):
                pairs[k, 0] = table_a[slot_a >> 3, NODE] + (slot_a & 7)
                pairs[k, 1] = table_b[slot_b >> 3, NODE] + (slot_b & 7)
                k += 1
        if before < k and of_b:
            lowest = min(lowest, table_a[partner >> 3, LEVEL], table_b[block, LEVEL])
        elif before < k:
            lowest = min(lowest, table_a[block, LEVEL], table_b[partner >> 3, LEVEL])
    state[WAITING], state[LOWEST] = k, lowest


@compiled
def grow_queue(queue, state, larger):
    """Move the queue into a larger ring."""
    for q in range(state[HEAD], state[TAIL]):
        larger[q & (len(larger) - 1)] = queue[q & (len(queue) - 1)]


@compiled
def sort_by_digit(source, count, shift, target):
    """Sort by the digit at a place, in order otherwise."""
    start = np.zeros(DIGIT + 1, dtype=np.int64)
    for i in range(count):
        start[((source[i] >> shift) & (DIGIT - 1)) + 1] += 1
    for k in range(DIGIT):
        start[k + 1] += start[k]
    for i in range(count):
        digit = (source[i] >> shift) & (DIGIT - 1)
        target[start[digit]] = source[i]
        start[digit] += 1


@compiled
def sort_found(found, count, most_a, most_b, scratch):
    """Sort pairs of slots, a's first: digit by digit, from the last, which takes a fifth of the time of comparing."""
    swapped = False
    for first, most in ((0, most_b), (32, most_a)):
        for shift in range(0, 32, DIGIT_BITS):
            if most >> shift == 0:
                break
            if swapped:
                sort_by_digit(scratch, count, first + shift, found)
            else:
                sort_by_digit(found, count, first + shift, scratch)
            swapped = not swapped
    if swapped:
        found[:count] = scratch[:count]


@compiled
def list_found(found, count, table_a, table_b, desk):
    """Write found pairs as (node of a, node of b), sorted if the desk says so."""
    if desk[SORTS] != 0 and count > 1:
        scratch = int64_at(desk[LISTED_AT], desk[FOUND_SIZE])
        sort_found(found, count, 8 * len(table_a), 8 * len(table_b), scratch)
    listed = int32_at(desk[LISTED_AT], (desk[FOUND_SIZE], 2))
    for i in range(count):
        slot_a, slot_b = found[i] >> 32, found[i] & np.int64(0xFFFFFFFF)
        listed[i, 0] = table_a[slot_a >> 3, NODE] + (slot_a & 7)
        listed[i, 1] = table_b[slot_b >> 3, NODE] + (slot_b & 7)
