"""How early a search stops, so that its query returns in time."""

from __future__ import annotations

import pytest

from impinge.detect.sphere_tree_limits import FIRST_NS, HELD_UP_NS, LATE_NS, LEAST_NS, RETURN_NS, Reserve

pytestmark = [pytest.mark.small, pytest.mark.tiny]

BUDGET_NS, QUICK_NS, SLOW_NS = 1_000_000, 5_000, 150_000


def _learnt(slow_every: int, queries: int = 1000, slow_ns: int = SLOW_NS) -> Reserve:
    """A reserve that has seen quick queries, among them a slow one every so often, the last ones quick."""
    reserve = Reserve()
    for nth in range(queries):
        reserve.learn(slow_ns if nth % slow_every == 0 else QUICK_NS)
    for _ in range(50):
        reserve.learn(QUICK_NS)
    return reserve


def test_first_query_has_a_guess():
    """Reserve what results take on a slow machine before anything is known."""
    assert Reserve().for_budget(BUDGET_NS) == FIRST_NS


def test_what_is_usual_is_in_time():
    """Reserve what the last queries took, and no more once they take less."""
    reserve = _learnt(1, slow_ns=QUICK_NS)
    assert LEAST_NS <= reserve.for_budget(BUDGET_NS) == QUICK_NS + RETURN_NS

    reserve.learn(60_000)
    assert reserve.for_budget(BUDGET_NS) == 60_000 + RETURN_NS


@pytest.mark.parametrize(("budget_ns", "late_ns"), [(BUDGET_NS, LATE_NS), (2_000_000, 100_000)])
def test_nearly_the_worst_is_not_too_late(budget_ns, late_ns):
    """Let queries of which one in fifty is slow be late by no more than is allowed."""
    assert _learnt(50).for_budget(budget_ns) == SLOW_NS + RETURN_NS - late_ns


def test_the_worst_of_hundreds_does_not_count():
    """Spend no time on what happens less than once in a hundred queries."""
    assert _learnt(200).for_budget(BUDGET_NS) == QUICK_NS + RETURN_NS


def test_what_held_the_process_up_does_not_last():
    """Learn nothing for later from queries that something else has held up."""
    assert _learnt(10, slow_ns=HELD_UP_NS).for_budget(BUDGET_NS) < FIRST_NS
