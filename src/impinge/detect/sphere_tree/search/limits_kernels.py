"""How long before the end of its budget a search has to stop for its query to return in time.

A query shall return by the end of its budget, and in 99 of 100 cases no later than the larger of 50 µs and 5 % of it.
Each query reserves the usual duration of recent queries from the moment when their search should have stopped, or more
if the second longest of these would be late. The time to list a result grows with it: its pace is learnt separately.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled

USUAL, SLOWEST, NEXT_SLOWEST, BEFORE, COUNT, PACE = range(6)
"""Places in a reserve: the usual duration, the two longest of this epoch, the second longest of the epoch before, the
number of queries in this one, and the time to list a result as a share of its estimate."""
RESERVE_SIZE = 6
FULL_PACE, LEAST_PACE, MOST_PACE = 256, 16, 1024
"""Shares: the estimate itself, where learning begins, a sixteenth of it, and four times it."""
LONG_NS = 5_000
"""Shorter estimates do not change the pace."""
FIRST_NS = 40_000
"""Time to make a result at first; measured from then on."""
LEAST_NS = 10_000
RETURN_NS = 20_000
"""Time to call and to return with cold caches, and a margin."""
HELD_UP_NS = 400_000
"""Longer durations are preemptions of the process, which say nothing about the next query."""
LATE_NS, LATE_SHARE = 50_000, 20
"""A query may be late by so much, or by one part in so many of its budget."""
EPOCH = 256
"""Queries of which the second longest counts as nearly the worst: less than one in a hundred is longer."""
INERTIA = 8
"""The usual duration changes by one part in so many of the difference to a new one, which counts twofold at most."""


def first_reserve():
    """A reserve without any query."""
    reserve = np.zeros(RESERVE_SIZE, dtype=np.int64)
    reserve[USUAL], reserve[PACE] = FIRST_NS, FULL_PACE
    return reserve


@compiled
def reserved(reserve, budget_ns):
    """The usual duration, or what lets nearly the worst query return in time.

    At most half of the budget is reserved for the latter: on a busy machine, some late queries are better than results
    without a test.
    """
    nearly_worst = max(reserve[NEXT_SLOWEST], reserve[BEFORE])
    return max(reserve[USUAL], min(nearly_worst - max(LATE_NS, budget_ns // LATE_SHARE), budget_ns // 2))


@compiled
def learn(reserve, taken_ns):
    """Learn the duration of a query from the moment when its search should have stopped."""
    taken, usual = taken_ns + RETURN_NS, reserve[USUAL]
    reserve[USUAL] = max(LEAST_NS, usual + (min(taken, 2 * usual) - usual) // INERTIA)
    if taken < HELD_UP_NS:
        reserve[NEXT_SLOWEST] = max(reserve[NEXT_SLOWEST], min(taken, reserve[SLOWEST]))
        reserve[SLOWEST] = max(reserve[SLOWEST], taken)
    reserve[COUNT] += 1
    if reserve[COUNT] == EPOCH:
        reserve[BEFORE] = reserve[NEXT_SLOWEST]
        reserve[SLOWEST] = reserve[NEXT_SLOWEST] = reserve[COUNT] = 0


@compiled
def learn_pace(reserve, reckoned_ns, taken_ns):
    """Learn the time to list a result, relative to its estimate."""
    if reckoned_ns >= LONG_NS:
        pace = min(max(FULL_PACE * taken_ns // reckoned_ns, LEAST_PACE), MOST_PACE)
        reserve[PACE] += (min(pace, 2 * reserve[PACE]) - reserve[PACE]) // INERTIA
