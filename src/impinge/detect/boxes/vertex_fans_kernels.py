"""Stars of vertices: list them, mask pairs within them, prove that they do not fold; see ``stars`` for the method."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH
from impinge.detect.boxes.tree_kernels import BLOCK
from impinge.detect.common.narrow_phase_kernels import face
from impinge.detect.common.pair_query_kernels import pair_key
from impinge.exact.kinds import NONE
from impinge.exact.neighbours import neighbours_filtered
from impinge.exact.triangle_triangle import cross, dot, error_bound

LARGEST_STAR = 32
"""Vertices with more triangles are left out: pairs in a star grow with its square."""
ROUNDING = 2.0**-46
"""Generous for the roundings of a triple product, 2^-53 each."""
LEAST_BOUND = 1e-290
"""Far above what underflow can take away from a product."""
SMALLEST, LARGEST = 1e-60, 1e60
"""Sizes of stars for which no product of four lengths leaves the range of doubles."""


# Lists ------------------------------------------------------------------------------------------------


@compiled
def list_fans(order_face, order_tri, vertex_count):
    """Slots around each vertex, each once: where they start, and the list."""
    start = np.zeros(vertex_count + 1, np.int64)
    for s in range(len(order_tri)):
        if order_tri[s] >= 0:
            for k in range(3):
                if _is_first(order_face, s, k):
                    start[order_face[s, k] + 1] += 1
    for v in range(vertex_count):
        start[v + 1] += start[v]
    slot = np.zeros(start[vertex_count], np.int32)
    at = start[:-1].copy()
    for s in range(len(order_tri)):
        if order_tri[s] >= 0:
            for k in range(3):
                if _is_first(order_face, s, k):
                    v = order_face[s, k]
                    slot[at[v]] = s
                    at[v] += 1
    return start, slot


@inlined
def _is_first(order_face, s, k):
    """Whether corner ``k`` is the first with its vertex."""
    v = order_face[s, k]
    return k == 0 or (v != order_face[s, 0] and (k == 1 or v != order_face[s, 1]))


@inlined
def _link(order_face, s, v):
    """The other two corners of a triangle around ``v``, in its orientation."""
    p, q, r = order_face[s, 0], order_face[s, 1], order_face[s, 2]
    if p == v:
        return q, r
    if q == v:
        return r, p
    return p, q


@compiled
def order_fans(start, slot, order_face):
    """Order the triangles of each star so that each begins where the one before ends.

    Returns where each begins, and which stars are closed: the order goes around once through all triangles.
    """
    begin = np.zeros(len(slot), np.int32)
    closed = np.zeros(len(start) - 1, np.bool_)
    for v in range(len(closed)):
        first, end = start[v], start[v + 1]
        if 2 < end - first <= LARGEST_STAR:
            closed[v] = _order(v, first, end, slot, order_face, begin)
    return begin, closed


@compiled
def _order(v, first, end, slot, order_face, begin):
    """Order one star; whether it is closed."""
    begin[first], goal = _link(order_face, slot[first], v)
    for i in range(first + 1, end):
        at = -1
        for j in range(i, end):
            a, _ = _link(order_face, slot[j], v)
            if a == goal:
                if at >= 0:
                    return False  # two begin here
                at = j
        if at < 0:
            return False
        slot[i], slot[at] = slot[at], slot[i]
        begin[i], goal = _link(order_face, slot[i], v)
        for j in range(first, i):
            if begin[j] == begin[i]:
                return False  # back again before all were visited
    return goal == begin[first] and v not in begin[first:end]


@compiled
def mask_neighbours(start, slot, order_face, order_tri, block_start, other, mask):
    """Write pairs of blocks with common vertices, and which of their pairs of slots have one; returns their number.

    With an empty ``mask`` they are only counted. Block a has the pairs from ``block_start[a]`` on; the other block is
    never the lower one. ``mask[p, 8 i + j]`` has bit 8 k + m for slot k of group i of a and slot m of group j.
    """
    block_count = len(order_tri) // BLOCK
    where = np.full(block_count, -1, np.int64)
    count = np.int64(0)
    for a in range(block_count):
        block_start[a] = count
        for s in range(a * BLOCK, (a + 1) * BLOCK):
            if order_tri[s] < 0:
                continue
            for corner in range(3):
                v = order_face[s, corner]
                if start[v + 1] - start[v] > LARGEST_STAR:
                    continue
                for i in range(start[v], start[v + 1]):
                    t = slot[i]
                    if t <= s:
                        continue
                    b = t // BLOCK
                    if where[b] < block_start[a]:
                        where[b] = count
                        if len(mask):
                            other[count] = b
                        count += 1
                    if len(mask):
                        groups = (s % BLOCK) // WIDTH * WIDTH + (t % BLOCK) // WIDTH
                        mask[where[b], groups] |= np.uint64(1) << np.uint64(s % WIDTH * WIDTH + t % WIDTH)
    block_start[block_count] = count
    return count


@inlined
def masks_of(block_a, block_b, stars):
    """Row of the masks of two blocks, or -1 if they have no vertex in common."""
    block_start, other = stars[3], stars[4]
    if block_a + 1 < len(block_start):
        for p in range(block_start[block_a], block_start[block_a + 1]):
            if other[p] == block_b:
                return p
    return -1


# Proof ------------------------------------------------------------------------------------------------


@inlined
def _spoke(x, v, w):
    """From the middle of a star to a corner."""
    return x[w, 0] - x[v, 0], x[w, 1] - x[v, 1], x[w, 2] - x[v, 2]


@inlined
def lies_flat(v, x, start, begin):
    """Whether the triangles around ``v``, a closed star, are seen from one direction n side by side, proven in doubles.

    a, b   spokes of a triangle: from v to its other two corners      n      sum of all a × b
    n·(a × b) > 0 for all triangles: each is seen as a sector of less than half a turn, turning left. The sectors go
    around a whole number of times; once, if a ray d is left behind once: a·(d × n) >= 0 > b·(d × n).
    """
    first, end = start[v], start[v + 1]
    size = nx = ny = nz = 0.0
    a = last = _spoke(x, v, begin[end - 1])
    for i in range(first, end):
        b = _spoke(x, v, begin[i])
        size = max(size, abs(b[0]), abs(b[1]), abs(b[2]))
        turn = cross(a, b)
        nx, ny, nz = nx + turn[0], ny + turn[1], nz + turn[2]
        a = b
    if not SMALLEST < size < LARGEST:
        return False
    n = nx, ny, nz
    bound = ROUNDING * size * size * (abs(nx) + abs(ny) + abs(nz))
    if not bound > LEAST_BOUND:
        return False
    b = _spoke(x, v, begin[first])
    m = cross((0.7 * last[0] + 0.3 * b[0], 0.7 * last[1] + 0.3 * b[1], 0.7 * last[2] + 0.3 * b[2]), n)
    a = last
    before = dot(a, m)
    if abs(before) <= bound:
        return False
    times = 0
    for i in range(first, end):
        b = _spoke(x, v, begin[i])
        after = dot(b, m)
        if not (dot(n, cross(a, b)) > bound and abs(after) > bound):
            return False
        times += before > 0.0 and after < 0.0
        a, before = b, after
    return times == 1


# Pairs within stars that are not proven ---------------------------------------------------------------


@compiled
def _is_to_test(v, s, t, x, order_face, stars):
    """Whether a pair around ``v`` is to be tested there: no common vertex proves it apart, and ``v`` is the first."""
    start, begin, closed = stars[0], stars[6], stars[2]
    for k in range(3):
        w = order_face[s, k]
        if w == v or w not in (order_face[t, 0], order_face[t, 1], order_face[t, 2]):
            continue
        if start[w + 1] - start[w] > LARGEST_STAR:
            continue
        if w < v or (closed[w] and lies_flat(w, x, start, begin)):
            return False
    return True


@compiled
def test_star(v, slots, stars, keys, count):
    """Append the keys of pairs around ``v``, which has no proof, that may meet beyond what they share.

    Returns the new count, and how many were tested.
    """
    x, order_face, order_tri = slots
    start, slot = stars[0], stars[1]
    tests = 0
    if start[v + 1] - start[v] > LARGEST_STAR:
        return count, tests
    for i in range(start[v], start[v + 1]):
        for j in range(i + 1, start[v + 1]):
            s, t = slot[i], slot[j]
            if order_tri[s] >= 0 and order_tri[t] >= 0 and _is_to_test(v, s, t, x, order_face, stars):
                tests += 1
                bound = _bound(x, order_face, s, t)
                if neighbours_filtered(x, face(order_face, s), face(order_face, t), bound) != NONE:
                    if count < len(keys):
                        low, high = min(order_tri[s], order_tri[t]), max(order_tri[s], order_tri[t])
                        keys[count] = pair_key(low, high, 0)
                    count += 1
    return count, tests


@inlined
def _bound(x, order_face, s, t):
    """Error bound from the box around both triangles."""
    lo_x = lo_y = lo_z = np.inf
    hi_x = hi_y = hi_z = -np.inf
    for k in range(3):
        for u in (s, t):
            w = order_face[u, k]
            lo_x, hi_x = min(lo_x, x[w, 0]), max(hi_x, x[w, 0])
            lo_y, hi_y = min(lo_y, x[w, 1]), max(hi_y, x[w, 1])
            lo_z, hi_z = min(lo_z, x[w, 2]), max(hi_z, x[w, 2])
    return error_bound(hi_x - lo_x, hi_y - lo_y, hi_z - lo_z)


@compiled
def test_some_stars(first, end, slots, stars, keys):
    """Keys of the pairs around vertices ``first`` to ``end``; returns how many there are, and how many were tested."""
    count = tests = np.int64(0)
    x, start, closed, begin = slots[0], stars[0], stars[2], stars[6]
    for v in range(first, end):
        if not (closed[v] and lies_flat(v, x, start, begin)):
            count, more = test_star(v, slots, stars, keys, count)
            tests += more
    return count, tests


@kernel(parallel_from=256)
def test_fans(slots, stars, threads, counter, keys, counts):
    """Test the pairs around all vertices; task t is a part of them and owns row t of ``keys`` and ``counts``."""
    tasks, vertex_count = len(keys), len(stars[2])
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            first, end = t * vertex_count // tasks, (t + 1) * vertex_count // tasks
            counts[t, 0], counts[t, 1] = test_some_stars(first, end, slots, stars, keys[t])
            t = claim(counter)
