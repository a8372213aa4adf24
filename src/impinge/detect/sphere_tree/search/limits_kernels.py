"""How long before the end of its budget a search has to stop, so that its query returns in time.

A query shall return by the end of its budget, and in 99 of 100 cases no later than the larger of 50 us and 5 % of it.
What it takes from the moment when its search should stop is learnt from the queries before, and so is what else takes
the processor away at that moment. To list what was found takes the longer the more that is: its pace is learnt apart.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled

USUAL, SLOWEST, NEXT_SLOWEST, BEFORE, COUNT, PACE = range(6)
"""Places in a reserve: what queries usually take, the slowest two of this epoch, the second slowest of the epoch
before, how many there were in this one, and the time to list an answer as a share of what is reckoned for it."""
RESERVE_SIZE = 6
FULL_PACE, LEAST_PACE, MOST_PACE = 256, 16, 1024
"""Shares: all of what is reckoned, which is where learning begins, a sixteenth, and four times that."""
LONG_NS = 5_000
"""Lists that take less to list do not tell the pace."""
FIRST_NS = 40_000
"""What it takes at first to make a result; measured from then on."""
LEAST_NS = 10_000
RETURN_NS = 20_000
"""What it takes to be called and to return, with caches that others have filled; and to be a little early."""
HELD_UP_NS = 400_000
"""Beyond this, something else held the process up, which says nothing about the next query."""
LATE_NS, LATE_SHARE = 50_000, 20
"""A query may be late by so much, or by one part in so many of its budget."""
EPOCH = 256
"""Queries of which the second slowest counts as nearly the worst: less than one in a hundred is slower."""
INERTIA = 8
"""What is usual changes by one part in so many of the difference that a query makes, which counts twofold at most."""


def first_reserve():
    """A reserve that has seen nothing."""
    reserve = np.zeros(RESERVE_SIZE, dtype=np.int64)
    reserve[USUAL], reserve[PACE] = FIRST_NS, FULL_PACE
    return reserve


@compiled
def reserved(reserve, budget_ns):
    """As long as queries usually take, and so long that nearly the worst of them is not too late.

    Half of the budget at most is reserved for the latter: on a busy machine, some queries that are late are better than
    answers without a test.
    """
    nearly_worst = max(reserve[NEXT_SLOWEST], reserve[BEFORE])
    return max(reserve[USUAL], min(nearly_worst - max(LATE_NS, budget_ns // LATE_SHARE), budget_ns // 2))


@compiled
def learn(reserve, taken_ns):
    """Remember what a query took from the moment when its search should have stopped."""
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
    """Remember how long it took to list an answer for which some time was reckoned."""
    if reckoned_ns >= LONG_NS:
        pace = min(max(FULL_PACE * taken_ns // reckoned_ns, LEAST_PACE), MOST_PACE)
        reserve[PACE] += (min(pace, 2 * reserve[PACE]) - reserve[PACE]) // INERTIA
