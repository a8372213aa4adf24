"""How long before the end of its budget a search has to stop, so that its query returns in time.

A query shall return by the end of its budget, and in 99 of 100 cases no later than the larger of 50 us and 5 % of it.
What it takes once the search has stopped is learnt from the queries before, apart from listing what was found, which
is known beforehand.
"""

# mypy: ignore-errors

from impinge.backend.jit import compiled

USUAL, FIRST_SLOW, SECOND_SLOW, THIRD_SLOW, BEFORE, COUNT = range(6)
"""Places in a reserve: what queries usually take, the slowest three of this epoch, the third slowest of the epoch
before, and how many there were in this one."""
RESERVE_SIZE = 6
FIRST_NS = 40_000
"""What it takes at first to make a result; measured from then on."""
LEAST_NS = 10_000
RETURN_NS = 10_000
"""What it takes to be called and to return, with caches that others have filled."""
HELD_UP_NS = 400_000
"""Beyond this, something else held the process up, which says nothing about the next query."""
LATE_NS, LATE_SHARE = 50_000, 20
"""A query may be late by so much, or by one part in so many of its budget."""
EPOCH = 256
"""Queries of which the third slowest counts as nearly the worst: one in a hundred is slower."""


@compiled
def reserved(reserve, budget_ns):
    """As long as queries usually take, and so long that nearly the worst of them is not too late."""
    nearly_worst = max(reserve[THIRD_SLOW], reserve[BEFORE])
    return max(reserve[USUAL], nearly_worst - max(LATE_NS, budget_ns // LATE_SHARE))


@compiled
def learn(reserve, taken_ns):
    """Remember what a query took once its search had stopped."""
    taken = taken_ns + RETURN_NS
    reserve[USUAL] = max(LEAST_NS, min(taken, HELD_UP_NS), reserve[USUAL] * 15 // 16)
    if taken < HELD_UP_NS:
        for place in range(FIRST_SLOW, THIRD_SLOW + 1):
            if reserve[place] < taken:
                reserve[place], taken = taken, reserve[place]
    reserve[COUNT] += 1
    if reserve[COUNT] == EPOCH:
        reserve[BEFORE] = reserve[THIRD_SLOW]
        reserve[FIRST_SLOW] = reserve[SECOND_SLOW] = reserve[THIRD_SLOW] = reserve[COUNT] = 0
