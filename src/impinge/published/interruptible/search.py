"""Interruptible traversal of two sphere trees: section 4.2, Figs 4 and 7.

Fig. 7    PAIRLIST is a FIFO of pairs (p.1, p.2), COLLISIONLIST a list of pairs of leaves. While PAIRLIST holds a pair
          and the critical time is not reached:
          1. Remove the first pair p. If its spheres do not overlap, |O1 - O2| > r1 + r2, continue.
          2. p.2 is no leaf: append (child, p.1) for each child of p.2. The swapped order makes the descent alternate
             between both trees.
          3. p.2 is a leaf, p.1 is none: append (p.2, p.1). The pair is tested a second time after the swap.
          4. Both are leaves: append p to COLLISIONLIST.
Fig. 4    ``order="depth"``: the newest pair is removed instead of the first. The paper rejects this order.
Cap       ``level``: spheres of that level count as leaves (section 4.2: depth-first search is no option "unless the
          search is capped at a given depth"; section 6: level of detail as a metric).

Departures  The swap loses the object that a sphere belongs to, hence the sign of its force. Each pair stores the object
            of p.1, and the lists return spheres of object 1 in the first column. ``retest=False`` omits the second
            test of step 3 and appends the children of p.1 at once: same lists in the end, fewer tests.
            ``max_tests`` interrupts after a number of tests, which gives the same lists on every machine.
Invariant   Each pair of leaves whose ancestor pairs all overlap is in COLLISIONLIST or has an ancestor pair in
            PAIRLIST, at any interruption.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from impinge.backend.clock import monotonic_ns, now_ns
from impinge.backend.jit import compiled
from impinge.checks import Bools, Floats, Ints, as_choice, as_flag, as_length, shown
from impinge.errors import OptionError

NEVER = np.iinfo(np.int64).max
"""Deadline of a search without critical time [ns]."""
FIRST_ROOM = 1024
"""Pairs that both lists hold before they are enlarged."""


class Spheres(NamedTuple):
    """One sphere tree in its present state; siblings are stored one after the other, the root first."""

    centre: Floats
    """Shape (n, 3)."""
    radius: Floats
    """Shape (n,)."""
    first_child: Ints
    child_count: Ints
    """0 for a leaf."""
    level: Ints
    """0 for the root."""


class Lists(NamedTuple):
    """State of the search when it ended or was interrupted; spheres of object 1 in the first column."""

    pair_list: Ints
    """PAIRLIST: pairs not yet tested, in the order of the queue, shape (p, 2)."""
    collision_list: Ints
    """COLLISIONLIST: overlapping pairs of leaves, in the order of their detection, shape (c, 2)."""
    tests: int
    """Sphere tests."""

    @property
    def interrupted(self) -> bool:
        """True while untested pairs remain."""
        return len(self.pair_list) > 0


@compiled
def _room(pairs: Ints, head: int, tail: int, more: int) -> Ints:
    """Return the pairs ``head`` to ``tail`` at the front of an array with room for ``more`` others."""
    larger = np.empty((2 * (tail - head + more), pairs.shape[1]), dtype=np.int32)
    larger[: tail - head] = pairs[head:tail]
    return larger


@compiled
def _traverse(
    centre: tuple[Floats, Floats],
    radius: tuple[Floats, Floats],
    first_child: tuple[Ints, Ints],
    child_count: tuple[Ints, Ints],
    is_leaf: tuple[Bools, Bools],
    depth_first: bool,
    retest: bool,
    max_tests: int,
    deadline: int,
) -> tuple[Ints, Ints, int]:
    """Run Fig. 7; a row of PAIRLIST is (p.1, p.2, object of p.1)."""
    most = max(child_count[0].max(), child_count[1].max(), 1)
    pairs = np.zeros((FIRST_ROOM, 3), dtype=np.int32)
    collisions = np.zeros((FIRST_ROOM, 2), dtype=np.int32)
    head, tail, found, tests = 0, 1, 0, 0  # PAIRLIST holds the pair of both roots
    while head < tail and tests < max_tests:
        if deadline != NEVER and monotonic_ns() >= deadline:
            break
        if depth_first:
            tail -= 1
            p1, p2, of = pairs[tail, 0], pairs[tail, 1], pairs[tail, 2]
        else:
            p1, p2, of = pairs[head, 0], pairs[head, 1], pairs[head, 2]
            head += 1
        tests += 1
        other = 1 - of
        dx = centre[of][p1, 0] - centre[other][p2, 0]
        dy = centre[of][p1, 1] - centre[other][p2, 1]
        dz = centre[of][p1, 2] - centre[other][p2, 2]
        reach = radius[of][p1] + radius[other][p2]
        if dx * dx + dy * dy + dz * dz > reach * reach:
            continue
        if tail + most > len(pairs):
            pairs = _room(pairs, head, tail, most)
            head, tail = 0, tail - head
        if not is_leaf[other][p2]:
            count = child_count[other][p2]
            for i in range(count):
                child = count - 1 - i if depth_first else i
                pairs[tail, 0], pairs[tail, 1], pairs[tail, 2] = first_child[other][p2] + child, p1, other
                tail += 1
        elif is_leaf[of][p1]:
            if found == len(collisions):
                collisions = _room(collisions, 0, found, 1)
            collisions[found, of], collisions[found, other] = p1, p2
            found += 1
        elif retest:
            pairs[tail, 0], pairs[tail, 1], pairs[tail, 2] = p2, p1, other
            tail += 1
        else:
            count = child_count[of][p1]
            for i in range(count):
                child = count - 1 - i if depth_first else i
                pairs[tail, 0], pairs[tail, 1], pairs[tail, 2] = first_child[of][p1] + child, p2, of
                tail += 1
    waiting = np.zeros((tail - head, 2), dtype=np.int32)
    for k in range(tail - head):
        row = pairs[tail - 1 - k] if depth_first else pairs[head + k]
        waiting[k, row[2]], waiting[k, 1 - row[2]] = row[0], row[1]
    return waiting, collisions[:found].copy(), tests


def traverse(
    object_1: Spheres,
    object_2: Spheres,
    *,
    critical_time: float | None = None,
    max_tests: int | None = None,
    order: Literal["breadth", "depth"] = "breadth",
    retest: bool = True,
    level: int | None = None,
) -> Lists:
    """Search two sphere trees for overlapping leaves until done or interrupted (Fig. 7).

    Parameters
    ----------
    object_1, object_2 : Spheres
        Trees in their present state.
    critical_time : float, optional
        Time budget [s]; the clock is read before each sphere test.
    max_tests : int, optional
        Number of sphere tests after which the search is interrupted.
    order : {"breadth", "depth"}
        First pair first (Fig. 7), or newest pair first (Fig. 4).
    retest : bool
        Test a leaf against an inner sphere a second time after the swap, as printed in Fig. 7.
    level : int, optional
        Level whose spheres count as leaves.

    Returns
    -------
    Lists
        PAIRLIST, COLLISIONLIST and the number of tests.

    Raises
    ------
    OptionError
        If a limit is negative or ``order`` is unknown.

    Examples
    --------
    >>> ball = Spheres(np.zeros((1, 3)), np.ones(1), np.full(1, -1, np.int32), *np.zeros((2, 1), np.int32))
    >>> traverse(ball, ball).collision_list
    array([[0, 0]], dtype=int32)
    """
    began = now_ns()
    as_choice(order, "order", ("breadth", "depth"))
    as_flag(retest, "retest")
    for name, value in (("max_tests", max_tests), ("level", level)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0):
            raise OptionError(f"{name} is {shown(value)}, expected a whole number from 0")
    if critical_time is not None and as_length(critical_time) is None:
        raise OptionError(f"critical_time is {shown(critical_time)}, expected a number of seconds from 0")
    deadline = NEVER if critical_time is None else began + min(int(min(1e9 * critical_time, 1e18)), NEVER - began)
    both = (object_1, object_2)
    is_leaf = tuple(
        (each.child_count == 0) if level is None else (each.child_count == 0) | (each.level >= level) for each in both
    )
    centre, radius = (
        tuple(np.require(each[k], np.float64, ["C", "W"]) for each in both) for k in range(2)
    )  # one type of array for both objects, as compiled code needs it
    first_child, child_count = (tuple(np.require(each[k], np.int32, ["C", "W"]) for each in both) for k in (2, 3))
    pair_list, collision_list, tests = _traverse(
        centre, radius, first_child, child_count, is_leaf, order == "depth", bool(retest),
        NEVER if max_tests is None else int(max_tests), deadline,
    )  # fmt: skip
    return Lists(pair_list, collision_list, tests)
