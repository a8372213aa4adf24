"""One search: learn from the query before, track the roots, traverse, list the result; in a single call."""

# mypy: ignore-errors

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.backend.raw_arrays_kernels import int32_at, int64_at
from impinge.backend.sort import sort_bits
from impinge.detect.sphere_tree.search import breadth_kernels as breadth
from impinge.detect.sphere_tree.search import context_kernels as c
from impinge.detect.sphere_tree.search import deepest_kernels as deepest
from impinge.detect.sphere_tree.search import tree_kernels as t
from impinge.detect.sphere_tree.search.limits_kernels import learn, learn_pace, reserved
from impinge.detect.sphere_tree.track.tracking_kernels import STAMP


@compiled
def deadline_of(context, began, end):
    """When the work of a query has to stop for the query to return at ``end``."""
    return end if end == t.NEVER else end - reserved(context[c.RESERVE : c.STATE], end - began)


@compiled
def list_waiting(context):
    """List waiting pairs as far as there is room; returns their number and lowest level."""
    state = context[c.STATE :]
    if context[c.BY_DEPTH]:
        deepest.list_waiting(context)
    else:
        breadth.list_waiting(context)
    return state[c.WAITING], state[c.LOWEST]


@compiled
def list_found(context):
    """Write found pairs as (node of a, node of b), sorted if the context says so."""
    found, count = t.int64s_at(context, c.FOUND_AT), context[c.STATE + c.FOUND]
    table_a, table_b = t.table_of(c.tree_of(context, 0)), t.table_of(c.tree_of(context, 1))
    if context[c.SORTS] and count > 1:
        scratch = int64_at(context[c.LISTED_AT], context[c.LISTED_AT + 1])
        for low_bit, table in ((0, table_b), (32, table_a)):
            bits = 0
            while 8 * len(table) >> bits:
                bits += 1
            sort_bits(found, count, low_bit, low_bit + bits, scratch)
    listed = int32_at(context[c.LISTED_AT], (context[c.LISTED_AT + 1], 2))
    for i in range(count):
        listed[i, 0], listed[i, 1] = c.node_at(table_a, found[i] >> 32), c.node_at(table_b, found[i] & c.LOW)


@compiled
def search(context, most_tests, began, end, until, returned, is_resumed):
    """Begin or resume; traverse; list waiting and found pairs.

    Pauses at ``until``, and stops early enough for its query, which began at ``began``, to return at ``end``. When
    ``most_tests`` are used up, the spheres of waiting pairs that were not visited are tracked; when the time is up,
    they are taken as they were tracked last. ``returned``: when the previous query returned, 0 if that says nothing.
    Returns why it stopped, the lowest level of waiting pairs, the deadline, the numbers of waiting and found pairs, of
    tests, tracked blocks, the longest queue and entries taken from its end, and whether both roots are up to date.
    """
    reserve, state, by_depth = context[c.RESERVE : c.STATE], context[c.STATE :], context[c.BY_DEPTH]
    if not is_resumed and returned > state[c.STOPPED]:
        learn(reserve, returned - state[c.STOPPED] - state[c.LISTING])
    begun, deadline = monotonic_ns(), deadline_of(context, began, end)
    tree_a, tree_b = c.tree_of(context, 0), c.tree_of(context, 1)
    a_in_time = t.track_root(tree_a, deadline - t.root_ns(tree_b))  # one without the other is of no use
    b_in_time = t.track_root(tree_b, deadline if a_in_time else 0)
    in_time = a_in_time and b_in_time
    if not is_resumed and by_depth:
        deepest.begin(context, in_time)
    elif not is_resumed:
        breadth.begin(context)
    reason = c.OUT_OF_TIME
    if in_time and by_depth:
        reason = deepest.traverse(context, most_tests, until, deadline)
    elif in_time:
        reason = breadth.traverse(context, most_tests, until, deadline)
    entries, pairs = state[c.TAIL] - state[c.HEAD], state[c.FOUND]
    state[c.LISTING] = c.listing_ns(context, entries, pairs)
    if reason == c.OUT_OF_TESTS and not by_depth:
        breadth.update_waiting(context, deadline - state[c.LISTING], False)
    stopped = monotonic_ns()
    state[c.STOPPED] = min(stopped, max(begun, deadline - state[c.LISTING]))
    if reason == c.OUT_OF_TIME and not by_depth:
        breadth.update_waiting(context, 0, True)
    if reason <= c.OUT_OF_TESTS:
        list_waiting(context)
        list_found(context)
        reckoned = context[c.ENTRY_NS] * entries + context[c.PAIR_NS] * pairs
        learn_pace(reserve, reckoned, monotonic_ns() - stopped)
    is_current = t.table_of(tree_a)[0, STAMP] == tree_a[t.NOW] and t.table_of(tree_b)[0, STAMP] == tree_b[t.NOW]
    return (
        reason, state[c.LOWEST], deadline, state[c.WAITING], state[c.FOUND],
        state[c.TESTS], state[c.TRACKED], state[c.PEAK], state[c.BACKWARDS], is_current,
    )  # fmt: skip
