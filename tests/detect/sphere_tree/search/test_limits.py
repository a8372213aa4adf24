"""Time that a search reserves for its query to return within the budget."""

from __future__ import annotations

import pytest

from impinge.detect.sphere_tree.search.limits_kernels import (
    FIRST_NS,
    FULL_PACE,
    HELD_UP_NS,
    LATE_NS,
    LEAST_NS,
    LEAST_PACE,
    LONG_NS,
    MOST_PACE,
    PACE,
    RETURN_NS,
    first_reserve,
    learn,
    learn_pace,
    reserved,
)

pytestmark = [pytest.mark.small, pytest.mark.tiny]

BUDGET_NS, QUICK_NS, SLOW_NS = 1_000_000, 5_000, 150_000


def _learnt(slow_every: int, queries: int = 1000, slow_ns: int = SLOW_NS):
    """A reserve that has seen quick queries, among them a slow one every so often, the last ones quick."""
    reserve = first_reserve()
    for nth in range(queries):
        learn(reserve, slow_ns if nth % slow_every == 0 else QUICK_NS)
    for _ in range(50 if queries else 0):
        learn(reserve, QUICK_NS)
    return reserve


def test_first_query_has_a_guess():
    """Reserve what results take on a slow machine before anything is known."""
    assert reserved(_learnt(1, queries=0), BUDGET_NS) == FIRST_NS


def test_what_is_usual_is_in_time():
    """Reserve what the last queries took, and no more once they take less."""
    reserve = _learnt(1, slow_ns=QUICK_NS)
    assert LEAST_NS <= reserved(reserve, BUDGET_NS) == QUICK_NS + RETURN_NS

    learn(reserve, 60_000)
    assert QUICK_NS + RETURN_NS < reserved(reserve, BUDGET_NS) < 1.2 * (QUICK_NS + RETURN_NS)
    for _ in range(100):
        learn(reserve, 60_000)
    assert reserved(reserve, BUDGET_NS) == pytest.approx(60_000 + RETURN_NS, rel=0.01)


@pytest.mark.parametrize(("budget_ns", "late_ns"), [(BUDGET_NS, LATE_NS), (2_000_000, 100_000)])
def test_nearly_the_worst_is_not_too_late(budget_ns, late_ns):
    """Let queries of which one in fifty is slow be late by no more than is allowed."""
    assert reserved(_learnt(50), budget_ns) == SLOW_NS + RETURN_NS - late_ns


def test_half_of_the_budget_is_left():
    """Search even if queries that are slow as often as this one are slower than the budget."""
    assert reserved(_learnt(50), 150_000) == 75_000


def test_the_worst_of_hundreds_does_not_count():
    """Spend no time on what happens less than once in some hundred queries."""
    assert reserved(_learnt(300), BUDGET_NS) == QUICK_NS + RETURN_NS


def test_what_held_the_process_up_does_not_last():
    """Learn nothing for later from queries that something else has held up."""
    assert reserved(_learnt(10, slow_ns=HELD_UP_NS), BUDGET_NS) < FIRST_NS


@pytest.mark.parametrize(
    ("share", "pace"), [(0.5, FULL_PACE // 2), (2.0, 2 * FULL_PACE), (0.0, LEAST_PACE), (99.0, MOST_PACE)]
)
def test_pace_of_listing_is_learnt(share, pace):
    """Reckon with what it takes to list answers, within limits."""
    reserve = first_reserve()
    for _ in range(200):
        learn_pace(reserve, 100_000, int(100_000 * share))
    assert reserve[PACE] == pytest.approx(pace, abs=8)


def test_short_lists_do_not_tell_the_pace():
    """Learn nothing from lists whose time is that of being called."""
    reserve = first_reserve()
    learn_pace(reserve, LONG_NS - 1, 10 * LONG_NS)
    assert reserve[PACE] == FULL_PACE
